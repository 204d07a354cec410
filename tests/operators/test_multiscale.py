"""Pooling from a pyramid gives the bits of roi_align on the level of each box."""

import math

import numpy as np
import pytest
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    assert_arrays_are_given_back,
    assert_levels_alone,
    assert_same_bits,
    pairs,
    to_layout,
)

import roicy
from roicy._kernels import plan
from roicy.compat.onnx._ops import levels_of
from roicy.compat.torchvision import MultiScaleRoIAlign

IMAGE = (256, 320)
SCALES = [1 / 4, 1 / 8, 1 / 16, 1 / 32]


def level_of(box, scales=SCALES, canonical_scale=224, canonical_level=4):
    """Return the level of one box x1, y1, x2, y2 by the rule of the paper."""
    width, height = box[2] - box[0], box[3] - box[1]
    if not (width > 0 and height > 0):
        return 0
    level = math.floor(
        canonical_level + math.log2(math.sqrt(width * height) / canonical_scale) + 1e-6
    )
    return min(max(level + round(math.log2(scales[0])), 0), len(scales) - 1)


def make(rng, dtype, layout, count=90, channels=20, lengths=(8, 300)):
    sides = [(round(IMAGE[0] * scale), round(IMAGE[1] * scale)) for scale in SCALES]
    maps = [rng.standard_normal((2, channels, *side)).astype(dtype) for side in sides]
    low = rng.uniform(-20, 200, (count, 2))
    size = np.exp(rng.uniform(*np.log(lengths), (count, 2)))
    boxes = np.concatenate([rng.integers(0, 2, (count, 1)), low, low + size], axis=1).astype(dtype)
    boxes[:: count // 3, 3] = boxes[:: count // 3, 1] - 5  # these are inverted
    return [to_layout(level, layout) for level in maps], boxes


# Boxes of all levels, of fine ones, and of a coarse one.
@pairs(
    sides=[(8, 300), (8, 60), (210, 230)], threads=[1, 3], layout=LAYOUTS, dtype=DTYPES, isa=ISAS
)
def test_against_the_levels_alone(sides, threads, layout, dtype, isa, rng):
    maps, boxes = make(rng, dtype, layout, lengths=sides)
    levels = np.array([level_of(box) for box in boxes[:, 1:].tolist()])
    g = to_layout(rng.standard_normal((len(boxes), 20, 3, 5)).astype(dtype), layout)
    options = {"sampling_ratio": 2, "aligned": True, "layout": layout, "num_threads": threads}
    out = assert_levels_alone(maps, boxes, g, SCALES, levels, **options)
    by_size = roicy.multiscale_roi_align(maps, boxes, (3, 5), image_size=IMAGE, **options)
    assert_same_bits(by_size, out)


def passes(maps, boxes, g, layout):
    """Return the output, the gradient of the boxes, and those of the maps."""
    options = {"layout": layout, "spatial_scale": SCALES}
    return (
        roicy.multiscale_roi_align(maps, boxes, 3, **options),
        roicy.multiscale_roi_align_backward_boxes(g, maps, boxes, **options),
        roicy.multiscale_roi_align_backward(g, boxes, [one.shape for one in maps], **options),
    )


def test_boxes_in_steps(dtype, layout, request, rng):
    """Levels take different numbers of steps."""
    maps, boxes = make(rng, dtype, layout, count=300)
    g = to_layout(rng.standard_normal((300, 20, 3, 3)).astype(dtype), layout)
    out, of_boxes, of_maps = passes(maps, boxes, g, layout)
    _, _, magnitudes = passes(maps, boxes, np.abs(g), layout)
    request.addfinalizer(plan.bound_steps)
    plan.bound_steps(31)
    again, of_boxes_again, of_maps_again = passes(maps, boxes, g, layout)
    assert_same_bits(again, out)
    assert_same_bits(of_boxes_again, of_boxes)
    for one, other, magnitude in zip(of_maps_again, of_maps, magnitudes, strict=True):
        # A pixel sums its boxes in another order.  It differs by the rounding of a sum over the
        # bins of up to 300 boxes.
        slack = 20 * np.finfo(dtype).eps * magnitude.max()
        np.testing.assert_allclose(one, other, rtol=0, atol=slack)


BORDERS = {
    (224, 224): 2, (223.99, 224): 1, (112, 448): 2, (112, 112): 1, (56, 56): 0, (28, 28): 0,
    (448, 448): 3, (5000, 5000): 3, (0, 224): 0, (-224, -224): 0, (1e30, 1e30): 3,
}  # fmt: skip


@pytest.mark.parametrize("sides", BORDERS, ids=str)
def test_levels_at_their_borders(sides):
    level = BORDERS[sides]
    # These boxes are far from the edges, so that each level has a map there.
    box = np.array([[0, 64, 64, 64 + sides[0], 64 + sides[1]]], np.float32)
    assert level == level_of(box[0, 1:].tolist())
    maps = [np.full((1, 1, 300, 300), i, np.float32) for i in range(4)]
    pooled = roicy.multiscale_roi_align(maps, box, 1, SCALES, 1)
    if max(sides) < 1000:
        assert pooled.ravel() == [level]
    grads = roicy.multiscale_roi_align_backward(
        np.ones((1, 1, 1, 1), np.float32), box, [m.shape for m in maps], SCALES, 1
    )
    assert not any(grad.any() for i, grad in enumerate(grads) if i != level)


@pytest.mark.parametrize("dtype", DTYPES)
def test_places_that_are_asked_for(dtype, rng):
    """levels_of says from which maps boxes are pooled, also of sides that round to a level's."""
    sides = 224 * 2.0 ** rng.integers(-3, 3, 200) * rng.choice([1 - 1e-6, 1 - 1e-7, 1, 0.7], 200)
    boxes = np.zeros((200, 5), dtype)
    boxes[:, 1:3] = rng.uniform(10, 90, (200, 2))
    boxes[:, 3:] = boxes[:, 1:3] + sides[:, None].astype(dtype)
    maps = [np.full((1, 1, 300, 300), i, dtype) for i in range(4)]
    pooled = roicy.multiscale_roi_align(maps, boxes, 1, SCALES, 1).ravel()
    places = levels_of(boxes, SCALES)
    assert set(places) == set(range(4))
    np.testing.assert_array_equal(pooled.round(), places)


def test_canonical_scale_and_level():
    maps = [np.full((1, 1, 60, 60), i, np.float32) for i in range(3)]
    box = np.array([[0, 10, 10, 40, 40]], np.float32)
    for scale, level, expected in (
        (224, 4, 0),
        (30, 3, 1),
        (30, 4, 2),
        (15, 3, 2),
        (60, 3, 0),
        (7, 20, 2),
        (30, -5, 0),
    ):
        pooled = roicy.multiscale_roi_align(
            maps, box, 1, SCALES[:3], canonical_scale=scale, canonical_level=level
        )
        assert pooled.ravel() == [expected], (scale, level)


def test_scales_follow_from_the_size_of_the_image():
    """The scale of a map with odd sides is rounded to a power of two."""
    maps = [np.zeros((1, 1, *sides), np.float32) for sides in ((101, 152), (51, 76), (25, 38))]
    maps[1][..., 20:30, 20:30] = 1
    box = np.array([[0, 168, 168, 232, 232]], np.float32)
    by_size = roicy.multiscale_roi_align(
        maps, box, 4, image_size=(403, 605), canonical_scale=64, canonical_level=3
    )
    assert_same_bits(by_size, roicy.roi_align(maps[1], box, 4, 1 / 8))
    assert by_size.all()


def test_scales_left_out():
    """If a level has no map, its boxes are pooled from the next map that exists."""
    maps = [np.full((1, 1, 80, 80), i, np.float32) for i in range(2)]
    ends = [20 + side for side in (100, 223, 224, 440, 448)]
    boxes = np.array([[0, 20, 20, end, end] for end in ends], np.float32)
    pooled = roicy.multiscale_roi_align(maps, boxes, 1, [1 / 8, 1 / 32], 1)
    assert pooled.ravel().tolist() == [0, 0, 1, 1, 1]


def map_by_torchvision(box, scales):
    """Return the map that torchvision takes.  Its levels go from the first map to the last, and are
    counted from the first.
    """
    lowest, highest = (round(-math.log2(scale)) for scale in (scales[0], scales[-1]))
    level = math.floor(4 + math.log2(math.sqrt((box[2] - box[0]) * (box[3] - box[1])) / 224) + 1e-6)
    return min(max(level, lowest), highest) - lowest


EQUAL_SCALES = [
    ([1 / 32, 1 / 32], [0]),
    ([1 / 4, 1 / 4, 1 / 8], [0, 1]),
    ([1 / 4, 1 / 8, 1 / 8, 1 / 8], [0, 1]),
    ([1 / 4, 1 / 4, 1 / 4, 1 / 32], [0, 1, 2, 3]),
]


@pairs(case=EQUAL_SCALES, layout=LAYOUTS, dtype=DTYPES)
def test_equal_scales(case, layout, dtype, rng):
    """Maps may have equal strides, as in torchvision's MobileNet detectors."""
    scales, used = case
    _, boxes = make(rng, dtype, layout, lengths=(20, 900))
    boxes[:, 1:] = np.abs(boxes[:, 1:])
    boxes[:, 3:] = np.maximum(boxes[:, 3:], boxes[:, 1:3] + 1)
    maps = [to_layout(rng.standard_normal((2, 5, 9, 11)).astype(dtype), layout) for _ in scales]
    g = to_layout(rng.standard_normal((len(boxes), 5, 3, 3)).astype(dtype), layout)
    chosen = np.array([map_by_torchvision(box, scales) for box in boxes[:, 1:].tolist()])
    assert sorted(set(chosen.tolist())) == used
    assert_levels_alone(maps, boxes, g, scales, chosen, sampling_ratio=2, layout=layout)


@pytest.mark.parametrize("side", [33, 40, 45, 320])
def test_two_maps_of_stride_32(side, rng):
    """The maps of fasterrcnn_mobilenet_v3_large_fpn are taken, even of small images."""
    rows = -(-side // 32)
    x = {name: rng.standard_normal((1, 4, rows, rows)).astype(np.float32) for name in "01"}
    scale = 2.0 ** round(math.log2(rows / side))
    boxes = np.array([[0, 0, 20, 20], [3, 3, side, side], [0, 0, 600, 600]], np.float32)
    pooled = MultiScaleRoIAlign(["0", "1", "2", "3"], 7, 2)(x, [boxes], [(side, side)])
    rows_of_boxes = np.concatenate([np.zeros((3, 1), np.float32), boxes], axis=1)
    assert_same_bits(pooled, roicy.roi_align(x["0"], rows_of_boxes, 7, scale, 2))


def test_formats_of_boxes(rng):
    maps, boxes = make(rng, np.float32, "NCHW")
    boxes = boxes[np.argsort(boxes[:, 0], kind="stable")]
    parts = [boxes[boxes[:, 0] == n, 1:] for n in range(2)]
    expected = roicy.multiscale_roi_align(maps, boxes, 3, SCALES)
    g = rng.standard_normal(expected.shape).astype(np.float32)
    grad = roicy.multiscale_roi_align_backward_boxes(g, maps, boxes, SCALES)
    assert_same_bits(roicy.multiscale_roi_align(maps, parts, 3, SCALES), expected)
    assert_same_bits(
        roicy.multiscale_roi_align(
            tuple(maps), boxes[:, 1:], 3, np.array(SCALES), boxes_num=[len(part) for part in parts]
        ),
        expected,
    )
    of_parts = roicy.multiscale_roi_align_backward_boxes(g, maps, parts, SCALES)
    assert [len(part) for part in of_parts] == [len(part) for part in parts]
    assert_same_bits(np.concatenate(of_parts), np.ascontiguousarray(grad[:, 1:]))


@pytest.mark.parametrize("empty", ["no boxes", "no channels", "a level without columns"])
def test_nothing_to_do(empty, rng):
    maps, boxes = make(rng, np.float32, "NCHW")
    if empty == "no boxes":
        boxes = boxes[:0]
    elif empty == "no channels":
        maps = [level[:, :0] for level in maps]
    else:
        maps[0] = maps[0][..., :0]
    g = np.ones((len(boxes), maps[0].shape[1], 3, 3), np.float32)
    out, of_boxes, of_maps = passes(maps, boxes, g, "NCHW")
    assert out.shape == g.shape
    levels = np.array([level_of(box) for box in boxes[:, 1:].tolist()], int)
    if empty.startswith("a level"):
        assert not out[levels == 0].any()
        assert out[levels == 1].any()
    assert [grad.shape for grad in of_maps] == [level.shape for level in maps]
    assert of_boxes.shape == boxes.shape


def test_one_level_is_roi_align(dtype, layout, rng):
    maps, boxes = make(rng, dtype, layout)
    assert_same_bits(
        roicy.multiscale_roi_align(maps[:1], boxes, 7, image_size=IMAGE, layout=layout),
        roicy.roi_align(maps[0], boxes, 7, 1 / 4, layout=layout),
    )


def test_uint8_pyramid(layout, rng):
    maps, boxes = make(rng, np.float32, layout)
    small = [(level * 50 + 128).clip(0, 255).astype(np.uint8) for level in maps]
    wide = [level.astype(np.float32) for level in small]
    found, expected = (
        roicy.multiscale_roi_align(given, boxes, 3, SCALES, layout=layout)
        for given in (small, wide)
    )
    assert_same_bits(found, expected)


MAPS = [np.ones((2, 4, 16, 16), np.float32), np.ones((2, 4, 8, 8), np.float32)]
BOXES = np.array([[0, 0, 0, 30, 30], [1, 1, 1, 50, 50]], np.float32)
BY_SIZE = {"spatial_scale": None, "image_size": (64, 64)}
RIGHT = {"features": MAPS, "boxes": BOXES, "output_size": 2, "spatial_scale": [0.25, 0.125]}
TYPE_ERRORS = [
    ({"features": []}, r"features: builtins\.list, expected a list of arrays, one for each level"),
    ({"features": ()}, r"features: builtins\.tuple, expected a list of arrays"),
    ({"features": MAPS[0]}, r"features: numpy\.ndarray, expected a list of arrays"),
    ({"features": [MAPS[0], None]},
     r"features\[1\]: builtins\.NoneType, expected a numpy\.ndarray"),
    ({"features": [MAPS[0], MAPS[1].astype(np.float64)]},
     r"features\[1\]: dtype float64, expected float32, as features\[0\] has"),
    ({"features": [MAPS[0].astype(np.int64), MAPS[1]]}, r"features\[0\]: dtype int64"),
    ({"canonical_scale": None}, "canonical_scale: None, expected a number"),
    ({"canonical_scale": True}, "canonical_scale: True, expected a number"),
    ({"canonical_scale": (224, 224)}, "canonical_scale: .*, expected a number"),
    ({"canonical_level": 4.0}, "canonical_level: 4.0, expected an integer"),
    (BY_SIZE | {"image_size": (40.0, 60)}, "image_size: 40.0, expected an integer"),
    ({"aligned": 1}, "aligned: 1"),
]  # fmt: skip
VALUE_ERRORS = [
    ({"features": [MAPS[0], MAPS[1][0]]},
     r"features\[1\]: shape \(4, 8, 8\), expected \(N, C, H, W"),
    ({"features": [MAPS[0], MAPS[1][:, :3]]},
     r"features\[1\]: 2 images of 3 channels, expected 2 of 4, as features\[0\] has"),
    ({"features": [MAPS[0], MAPS[1][:1]]}, r"features\[1\]: 1 images of 4 channels"),
    ({"spatial_scale": [0.25]},
     r"spatial_scale: \[0.25\], expected a scale for each of the 2 levels"),
    ({"spatial_scale": [0.5] * 3},
     r"spatial_scale: \[0.5, 0.5, 0.5\], expected a scale for each of"),
    ({"spatial_scale": 0.25}, "spatial_scale: 0.25, expected a scale for each"),
    ({"spatial_scale": [0.25, 0.0]}, "spatial_scale: 0.0, expected a finite number above 0"),
    ({"spatial_scale": [0.25, 0.5]},
     r"spatial_scale: \[0.25, 0.5\]; expected levels from fine to coarse, no scale above the"),
    ({"spatial_scale": [0.5, (0.25, 1.0)]},
     r"spatial_scale: \[0.5, \(0.25, 1.0\)\]; expected levels"),
    ({"image_size": (64, 64)}, "image_size: expected None, since spatial_scale is given"),
    ({"spatial_scale": None},
     r"image_size: None, expected \(height, width\), or else spatial_scale"),
    (BY_SIZE | {"image_size": (0, 64)}, "image_size: 0, expected an integer from 1 to 46116860184"),
    (BY_SIZE | {"image_size": 64}, r"image_size: 64, expected \(height, width\), or else spatial_"),
    (BY_SIZE | {"image_size": (64, 64, 3)},
     r"image_size: \(64, 64, 3\), expected \(height, width\)"),
    (BY_SIZE | {"features": MAPS[::-1]},
     r"spatial_scale: \[0.125, 0.25\], as follows from image_size; expected levels from fine"),
    (BY_SIZE | {"features": [MAPS[0], MAPS[0][:, :, :0]]}, r"features\[1\]: a map without rows"),
    ({"canonical_scale": 0}, "canonical_scale: 0, expected a finite number above 0"),
    ({"canonical_scale": np.inf}, "canonical_scale: inf, expected a finite number above 0"),
    ({"canonical_scale": 10**400}, "canonical_scale: 10"),
    ({"canonical_level": 1001}, "canonical_level: 1001, expected an integer from -1000 to 1000"),
    ({"canonical_level": 10**30}, "canonical_level: 10{30}, expected an integer from -1000 to"),
    ({"boxes": BOXES + 1}, r"boxes\[1\]: batch index 2 is outside the input's 2 images"),
    ({"boxes": BOXES * np.float32([1, 1, 1, np.inf, 1])}, r"boxes\[0\]: x2 is inf"),
    ({"output_size": 0}, "output_size: 0"),
    ({"sampling_ratio": 1.5}, "sampling_ratio: 1.5"),
    ({"layout": "CHWN"}, "layout: 'CHWN'"),
    ({"out": MAPS[0][:, :, :2, :3]}, r"out: shape \(2, 4, 2, 3\), expected \(2, 4, 2, 2\)"),
    ({"out": MAPS[1][:, :, 2:4, 2:4]}, "out: overlaps memory that the call reads"),
    ({"num_threads": 0}, "num_threads: 0"),
]  # fmt: skip
ERRORS = [
    (changed, error, message)
    for error, cases in ((TypeError, TYPE_ERRORS), (ValueError, VALUE_ERRORS))
    for changed, message in cases
]


def test_arrays_are_given_back_after_an_error():
    assert_arrays_are_given_back(roicy.multiscale_roi_align, RIGHT, ERRORS)


@pytest.mark.parametrize(
    ("changed", "error", "message"), ERRORS, ids=[message[:50] for _, _, message in ERRORS]
)
def test_errors(changed, error, message):
    with pytest.raises(error, match=message):
        roicy.multiscale_roi_align(**RIGHT | changed)


def test_errors_of_gradients():
    g, shapes, scales = np.ones((2, 4, 2, 2), np.float32), [m.shape for m in MAPS], [0.25, 0.125]
    memory = np.ones(shapes[0], np.float32)
    right = {"grad_output": g, "boxes": BOXES, "input_shapes": shapes, "spatial_scale": scales}
    for changed, error, message in (
        ({"grad_output": g[:1]}, ValueError,
         r"grad_output: shape \(1, 4, 2, 2\), expected \(2, 4, 2, 2\), for 2 boxes and maps of 4"),
        ({"input_shapes": ()}, ValueError, r"input_shapes: \(\), expected a shape for each level"),
        ({"input_shapes": [shapes[0], 3]}, ValueError, r"input_shapes\[1\]: 3, expected \(N, C, H"),
        *(({"input_shapes": [shapes[0], other]}, ValueError,
           r"input_shapes\[1\]: . images of . channels, expected 2 of 4")
          for other in ((2, 8, 8, 8), (3, 4, 8, 8))),
        ({"out": [memory]}, ValueError, "out: expected a list of 2 arrays"),
        ({"out": [memory, np.ones(shapes[1])]}, TypeError, r"out\[1\]: dtype float64, expected"),
        ({"out": [memory, memory[:, :, :8, :8]]}, ValueError, r"out\[1\]: overlaps memory that"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            roicy.multiscale_roi_align_backward(**right | changed)
    assert (memory == 1).all()
    maps = [level.astype(np.float64) for level in MAPS]
    computed = r"expected float64, in which features\[0\] of float64 is computed"
    with pytest.raises(TypeError, match=f"grad_output: dtype float32, {computed}"):
        roicy.multiscale_roi_align_backward_boxes(g, maps, BOXES, scales)
