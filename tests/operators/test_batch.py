"""Any batch, the same bits: what is computed of an image or of a box does not depend on the rest.

Calls are drawn at random.  Each is repeated with one image alone, with one box alone, with some of
the boxes in another order, and with the boxes of the images mixed.
"""

import numpy as np
import pytest
from conftest import LAYOUTS, SUMS, passes, taken, to_layout

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
SLOW = ("roi_align_max", "roi_align_rotated")  # whose time is that of their samples


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


def draw(rng, name, regime):
    """Return maps, boxes, a gradient and options of a random call."""
    (n, c, h, w), bins, ratio, shares, most = SHAPES[regime]
    dtype, pooled = rng.choice([np.float32, np.float64]), c
    if name.startswith("ps_"):
        bins, pooled, h = (min(bins[0], 3), min(bins[1], 5)), 1 + c // 8, min(h, 100)
        c = pooled * bins[0] * bins[1]
    maps = rng.standard_normal((n, c, h, w)).astype(dtype)
    boxes = draw_boxes(rng, name, rng.integers(1, most + 1), maps.shape, shares, dtype)
    grad = rng.standard_normal((len(boxes), pooled, *bins)).astype(dtype)
    options = {"layout": str(rng.choice(LAYOUTS)), "num_threads": int(rng.integers(1, 3))}
    return maps, boxes, grad, options | taken(name, sampling_ratio=ratio)


@pytest.mark.parametrize("name", [*SUMS, "roi_pool", *SLOW])
def test_operators(name, isa):
    rng = np.random.default_rng(list(name.encode()))
    for regime in [*SHAPES, *5 * FEW]:
        if name not in SLOW or regime not in LARGE:
            assert_any_batch(rng, name, regime)


def assert_any_batch(rng, name, regime):
    maps, boxes, grad, options = draw(rng, name, regime)

    def repeat(rows, image=None):
        """Compute all passes again for some of the boxes, or of an image alone."""
        of_maps, some = maps, boxes[rows]
        if image is not None:
            of_maps, some[:, 0] = maps[image : image + 1], 0
        found = passes(name, of_maps, some, grad[rows], **options)
        return found.pop(2 if name == "roi_pool" else 1), found

    image, count = rng.integers(len(maps)), len(boxes)
    some = rng.permutation(count)[: rng.integers(1, count + 1)]
    # The images take turns in another way, and each has its boxes in the same order.
    mixed = np.empty(count, int)
    turns = np.argsort(rng.permutation(boxes[:, 0]), kind="stable")
    mixed[turns] = np.argsort(boxes[:, 0], kind="stable")
    grad_maps, of_boxes = repeat(np.arange(count))
    of_image, one = np.flatnonzero(boxes[:, 0] == image), rng.integers(count, size=1)
    for rows, alone in ((of_image, image), (some, None), (one, None), (mixed, None)):
        found_maps, found = repeat(rows, alone)
        context = (name, regime, options, rows)
        for a, b in zip(found, of_boxes, strict=True):
            same_bits(a, b[rows], context)
        if rows is of_image:
            same_bits(found_maps, grad_maps[image : image + 1], context)
        elif rows is mixed:
            same_bits(found_maps, grad_maps, context)


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
