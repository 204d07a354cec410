"""Any batch, the same bits: what is computed of an image or of a box does not depend on the rest.

Calls are drawn at random.  Each is repeated with one image alone, with one box alone, with some of
the boxes in another order, and with the boxes of the images mixed.
"""

import numpy as np
import pytest
from conftest import SUMS, WITH_BOX_GRADIENTS, operator, taken, to_layout

import roicy

# Shape of the map, bins, sampling ratio, the sides of the boxes as shares of the map's, and how
# many boxes there are at most: what decides how pixels are loaded and summed.
SHAPES = {
    "channels fill lanes": ((3, 20, 24, 30), (3, 5), 2, (0.02, 1.2), 12),
    "few channels": ((3, 4, 8, 400), (2, 7), 2, (0.02, 1.2), 20),
    "few numbers": ((4, 3, 30, 40), (2, 2), 2, (0.02, 0.5), 60),
    "rows fill lanes": ((2, 2, 90, 70), (33, 9), -1, (0.02, 1.2), 9),
    "thin": ((2, 3, 300, 320), (4, 4), 1, (0.02, 1.2), 9),
    "thin off the map": ((2, 1, 340, 340), (80, 80), 1, (0.9, 1.6), 5),
    "larger than a tile": ((1, 1, 1100, 1100), (16, 1), -1, (0.3, 1.1), 3),
    "wide": ((2, 2, 10, 5000), (3, 40), 3, (0.02, 1.2), 9),
}
FEW = ("few channels", "few numbers")  # cheap, and they have several ways
LARGE = ("thin off the map", "larger than a tile")
ROTATED = "roi_align_rotated"
SLOW = ("roi_align_max", ROTATED)  # whose time is that of their samples


def draw_boxes(rng, name, count, shape, shares, dtype):
    """Return boxes (K, 5 or 6), of which some are partly off the map, inverted or empty."""
    images, _, *extent = shape
    sides = np.exp(rng.uniform(*np.log(shares), (count, 2))) * extent[::-1]
    middle = rng.uniform(0.3, 0.7, (count, 2)) * extent[::-1]
    sides[: count // 4] *= rng.choice([-0.5, 0, 1], (count // 4, 2))
    batch = rng.integers(0, images, (count, 1))
    if "rotated" in name:
        angles = rng.uniform(-4, 4, (count, 1))
        return np.concatenate([batch, middle, np.abs(sides), angles], axis=1).astype(dtype)
    return np.concatenate([batch, middle - sides / 2, middle + sides / 2], axis=1).astype(dtype)


class Call:
    """A call of an operator with random parameters: the passes as functions of maps and boxes."""

    def __init__(self, rng, name, regime):
        (n, c, h, w), self.bins, ratio, shares, most = SHAPES[regime]
        self.name, self.dtype = name, rng.choice([np.float32, np.float64])
        layout, threads = str(rng.choice(["NCHW", "NHWC"])), int(rng.integers(1, 3))
        if name.startswith("ps_"):
            self.bins = min(self.bins[0], 3), min(self.bins[1], 5)
            c, h = (1 + c // 8) * self.bins[0] * self.bins[1], min(h, 100)
        self.options = {"layout": layout, "num_threads": threads}
        self.parameters = taken(name, sampling_ratio=ratio)
        shape = (n, c, h, w) if layout == "NCHW" else (n, h, w, c)
        self.maps = rng.standard_normal(shape).astype(self.dtype)
        count = rng.integers(1, most + 1)
        self.boxes = draw_boxes(rng, name, count, (n, c, h, w), shares, self.dtype)
        self.grad = rng.standard_normal(self.forward(self.maps, self.boxes).shape)
        self.grad = self.grad.astype(self.dtype)
        self.what = f"{name}, {regime}, {self.dtype.__name__}, {layout}, {threads} threads"

    def forward(self, maps, boxes, grad=None):
        return operator(self.name)(maps, boxes, self.bins, **self.parameters, **self.options)

    def backward(self, maps, boxes, grad):
        if self.name == "roi_pool":
            _, argmax = roicy.roi_pool(maps, boxes, self.bins, return_argmax=True, **self.options)
            return roicy.roi_pool_backward(grad, argmax, boxes, maps.shape, **self.options)
        read = (maps, boxes) if self.name == "roi_align_max" else (boxes, maps.shape)
        return operator(self.name, "_backward")(grad, *read, **self.parameters, **self.options)

    def backward_boxes(self, maps, boxes, grad):
        found = operator(self.name, "_backward_boxes")(
            grad, maps, boxes, **self.parameters, **self.options
        )
        return found[:, found.shape[1] - boxes.shape[1] + 1 :]

    def repeat(self, name, rows, image=None):
        """Compute a pass again for some of the boxes, or of an image alone."""
        maps, boxes = self.maps, self.boxes[rows]
        if image is not None:
            maps, boxes = maps[image : image + 1], boxes.copy()
            boxes[:, 0] = 0
        return getattr(self, name)(maps, boxes, self.grad[rows])


@pytest.mark.parametrize("name", [*SUMS, "roi_pool", *SLOW])
def test_operators(name, isa):
    rng = np.random.default_rng(list(name.encode()))
    for regime in [*SHAPES, *5 * FEW]:
        if name in SLOW and regime in LARGE:
            continue
        call = Call(rng, name, regime)
        image, all_boxes = rng.integers(len(call.maps)), range(len(call.boxes))
        of_image = np.flatnonzero(call.boxes[:, 0] == image)
        some = rng.permutation(all_boxes)[: rng.integers(1, len(all_boxes) + 1)]
        one = rng.permutation(all_boxes)[:1]
        for what in ("forward", "backward_boxes"):
            if what == "forward" or name in WITH_BOX_GRADIENTS or name == ROTATED:
                whole = call.repeat(what, all_boxes)
                for rows in (of_image, some, one):
                    alone = image if rows is of_image else None
                    same_bits(call.repeat(what, rows, alone), whole[rows], (call.what, what, rows))
        whole = call.repeat("backward", all_boxes)
        alone = call.repeat("backward", of_image, image)
        same_bits(alone, whole[image : image + 1], (call.what, "backward", image))
        # The images take turns in another way, and each has its boxes in the same order.
        mixed = np.empty(len(all_boxes), int)
        turns = np.argsort(rng.permutation(call.boxes[:, 0]), kind="stable")
        mixed[turns] = np.argsort(call.boxes[:, 0], kind="stable")
        same_bits(call.repeat("backward", mixed), whole, (call.what, "backward", mixed))


def same_bits(found, expected, context):
    assert found.dtype == expected.dtype and found.shape == expected.shape, context
    assert found.tobytes() == expected.tobytes(), context


def test_windows_larger_than_a_tile(isa, rng):
    """A box whose window takes several tiles, beside one that row lanes have no room for."""
    maps = rng.standard_normal((1, 2, 3, 5000)).astype(np.float32)
    boxes = np.float32([[0, 1, 0, 4999, 2], [0, 20, 0, 350, 1.5]])
    whole = roicy.roi_align(maps, boxes, (16, 1))
    same_bits(roicy.roi_align(maps, boxes[1:], (16, 1)), whole[1:], "alone")
    boxes = np.float32([[0, 20, 30, 350, 330]])
    maps = rng.standard_normal((1, 20, 350, 360)).astype(np.float32)
    first = roicy.roi_align(maps, boxes, (2, 3))
    last = roicy.roi_align(to_layout(maps, "NHWC"), boxes, (2, 3), layout="NHWC")
    same_bits(np.ascontiguousarray(last.transpose(0, 3, 1, 2)), first, "channels last")


def test_pyramids(layout, isa, rng):
    """Other boxes lie on the same level and on other ones."""
    sides = ((160, 200), (80, 100), (40, 50))
    maps = [
        to_layout(rng.standard_normal((2, 3, *side)).astype(np.float32), layout) for side in sides
    ]
    boxes = draw_boxes(rng, "", 24, (2, 3, 640, 800), (0.05, 1.2), np.float32)
    grad = to_layout(rng.standard_normal((24, 3, 4, 5)).astype(np.float32), layout)
    options = {"sampling_ratio": 2, "image_size": (640, 800), "layout": layout}

    def passes(maps, boxes, grad):
        shapes = [level.shape for level in maps]
        return (
            roicy.multiscale_roi_align(maps, boxes, (4, 5), **options),
            roicy.multiscale_roi_align_backward_boxes(grad, maps, boxes, **options)[:, 1:],
            roicy.multiscale_roi_align_backward(grad, boxes, shapes, **options),
        )

    whole = passes(maps, boxes, grad)
    for rows in ([5], rng.permutation(24)[:9]):
        for found, expected in zip(passes(maps, boxes[rows], grad[rows]), whole[:2], strict=False):
            same_bits(found, expected[rows], rows)
    rows = np.flatnonzero(boxes[:, 0] == 1)
    alone = boxes[rows] * np.float32([0, 1, 1, 1, 1])
    out, grad_boxes, grads = passes([level[1:] for level in maps], alone, grad[rows])
    same_bits(out, whole[0][rows], "forward")
    same_bits(grad_boxes, whole[1][rows], "backward_boxes")
    for found, expected in zip(grads, whole[2], strict=True):
        same_bits(found, expected[1:], "backward")


def assert_each_alone(call, count):
    """Check that a call of some rows gives the bits of the call of all, for each row alone."""
    whole = call(range(count))
    for k in range(count):
        same_bits(call([k]), whole[k : k + 1], k)


def test_crop_and_resize(layout, isa, rng):
    image = to_layout(rng.standard_normal((2, 3, 40, 50)).astype(np.float32), layout)
    boxes = rng.uniform(-0.2, 1.2, (9, 4)).astype(np.float32)
    indices = rng.integers(0, 2, 9).astype(np.int32)

    def call(rows):
        images, of = (image, indices) if len(rows) > 1 else (image[indices[rows]], [0])
        return roicy.crop_and_resize(images, boxes[rows], of, (5, 6), layout=layout)

    assert_each_alone(call, 9)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_crops(turned, antialias, isa, rng):
    """Crops of one frame and of several, upright ones and turned ones."""
    frames = [rng.integers(0, 256, (*side, 3), np.uint8) for side in ((120, 160), (90, 110))]
    low = rng.uniform(-10, 60, (10, 2))
    boxes = np.concatenate([low, low + rng.uniform(3, 90, (10, 2))], axis=1)
    options = {"antialias": antialias, "mean": 0.4, "std": 0.2, "scale": 1 / 255}
    if turned:
        boxes = rng.uniform(-1, 1, (10, 2, 3)) * (1, 1, 30)
        options["border"] = "constant"

    def call(rows):
        of = {"boxes_num": [6, 4]} if len(rows) > 1 else {}
        images = frames if of else frames[rows[0] >= 6]
        return roicy.crop(images, boxes[rows], (21, 34), **of, **options)

    assert_each_alone(call, 10)


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_masks(threshold, isa, rng):
    """Masks that are pasted, and those of prototypes."""
    masks = rng.uniform(size=(8, 14, 14)).astype(np.float32)
    planes, weights = (rng.standard_normal(size, np.float32) for size in ((9, 18, 23), (8, 9)))
    low = rng.uniform(-10, 60, (8, 2))
    boxes = np.concatenate([low, low + rng.uniform(1, 70, (8, 2))], axis=1).astype(np.float32)
    size, given = (70, 90), {"threshold": threshold}
    assert_each_alone(lambda rows: roicy.paste_masks(masks[rows], boxes[rows], size, **given), 8)
    given["rule"] = "ultralytics_native"
    assert_each_alone(
        lambda rows: roicy.prototype_masks(planes, weights[rows], boxes[rows], size, **given), 8
    )
