"""prototype_masks agrees with its definition and with Ultralytics' masks, whatever is given."""

import re
from pathlib import Path

import numpy as np
import pytest
import reference_images as reference
from conftest import DTYPES, ISAS, assert_refused, assert_same_bits, pairs

import roicy

RULES = ("ultralytics", "ultralytics_native", "yolov5", "yolov5_native")
DATA = Path(__file__).parents[1] / "data/yolo.npz"
# The picture's padding lies on whole numbers, on halves and on quarters of them, or is most of all;
# sides of 128 pixels together, where PyTorch adds in another order, and of more than are computed
# at once
SHAPES = [(23, 31), (44, 64), (41, 64), (37, 64), (96, 128), (3, 70), (2500, 9), (9, 2100), (1, 1)]


def problem(rng, dtype, shape, count=7, size=(12, 16), prototypes=5):
    """Return prototypes, coefficients and boxes: inside, at whole pixels, across edges, inverted,
    off the image and without area.
    """
    where = rng.uniform(-0.3, 1.3, (count, 2, 2))
    where.sort(axis=1)
    where[0] = [[0, 0], [1, 1]]
    where[1] = where[1, ::-1]
    where[2] = [[1.1, 0.2], [1.5, 0.8]]
    boxes = (where * shape[::-1]).reshape(count, 4)
    boxes[3] = np.round(boxes[3])
    boxes[4, 2] = boxes[4, 0]
    planes = rng.standard_normal((prototypes, *size))
    return (
        planes.astype(dtype),
        rng.standard_normal((count, prototypes)).astype(dtype),
        np.float32(boxes).astype(dtype),  # where they are cut is then the same in both types
    )


def tolerance(dtype, shape):
    # A position has an error of some units in its last place, and numbers next to each other
    # differ by less than 16.
    return 64 * np.finfo(dtype).eps * max(*shape, 16)


@pairs(
    rule=RULES, shape=SHAPES, size=[(12, 16), (1, 1), (7, 40)],
    fit=["letterbox", "letterbox_top_left", "stretch"], dtype=DTYPES, isa=ISAS,
)  # fmt: skip
def test_definition(rule, shape, size, fit, dtype, isa, rng):
    given = problem(rng, dtype, shape, size=size)
    fit = fit if rule.endswith("native") else "letterbox"
    options = {"rule": rule, "fit": fit}
    expected = reference.prototype_masks(*given, shape, **options)
    out = roicy.prototype_masks(*given, shape, threshold=None, **options)
    assert (out.dtype, out.shape) == (dtype, expected.shape)
    assert (expected != 0).any()
    np.testing.assert_allclose(out, expected, rtol=0, atol=tolerance(dtype, shape))
    for threshold in (0, 0.5, 0.75, 1):
        reached = roicy.prototype_masks(*given, shape, threshold=threshold, **options)
        sure = np.abs(expected - threshold) > tolerance(dtype, shape)
        np.testing.assert_array_equal(reached[sure], (expected > threshold)[sure])
        assert sure.sum() > (expected > threshold).sum() / 2
    small = np.empty(out.shape, np.uint8)
    roicy.prototype_masks(*given, shape, threshold=None, out=small, **options)
    np.testing.assert_array_equal(small, (out * dtype(255)).astype(np.uint8))


@pytest.fixture(scope="module")
def recorded():
    """Return masks that Ultralytics made, and what they were made of."""
    with np.load(DATA) as file:
        return dict(file)


@pytest.mark.parametrize("rule", [*RULES, *(f"{rule}_top_left" for rule in RULES[1::2])])
def test_masks_of_ultralytics(rule, recorded, dtype, isa):
    """All pixels are the same, on every instruction set."""
    names = [name for name in recorded if name.rpartition("_")[0] == rule]
    at_top_left = {"fit": "letterbox_top_left"} if rule.endswith("_top_left") else {}
    options = {"rule": rule.removesuffix("_top_left")} | at_top_left
    for name in names:
        size = name.rpartition("_")[2]
        shape = tuple(map(int, size.split("x")))
        expected = np.unpackbits(recorded[name], count=6 * shape[0] * shape[1]).reshape(6, *shape)
        given = recorded["prototypes"].astype(dtype), recorded["coefficients"]
        out = roicy.prototype_masks(*given, recorded[f"boxes_{size}"], shape, **options)
        np.testing.assert_array_equal(out, expected.astype(bool), err_msg=name)
    assert len(names) in (3, 7, 8)


@pairs(shape=SHAPES, rule=RULES, dtype=DTYPES, isa=ISAS)
def test_codes_are_those_of_images(shape, rule, dtype, isa, rng):
    given = problem(rng, dtype, shape)
    for threshold in (0.5, 0.3):
        options = {"rule": rule, "threshold": threshold}
        images = roicy.prototype_masks(*given, shape, **options)
        codes = roicy.prototype_masks(*given, shape, format="rle", num_threads=2, **options)
        for image, code in zip(images, codes, strict=True):
            assert code == {"size": list(shape), "counts": reference.run_lengths(image)}


@pairs(rule=RULES, kind=["bool", "bytes", "real"], dtype=DTYPES, isa=ISAS)
def test_threads_and_strides(rule, kind, dtype, isa, rng):
    """Bits are the same in parts of any number, in images of any strides, and one by one."""
    shape = (300, 1283)
    planes, weights, boxes = problem(rng, dtype, shape, count=5, size=(31, 40))
    of_kind = {"bool": bool, "bytes": np.uint8, "real": dtype}[kind]
    given = {"threshold": 0.5 if kind == "bool" else None, "rule": rule}
    plain = np.empty((5, *shape), of_kind)
    roicy.prototype_masks(planes, weights, boxes, shape, out=plain, num_threads=1, **given)
    strided = np.asfortranarray(planes)[None, ::-1], np.repeat(weights, 2, axis=1)[:, ::-2]
    memory = np.full((7, 600, 1290), 3, np.float64).astype(of_kind)
    out = memory[1:6, ::-2, 3:1286]
    for threads in (1, 2, 16):
        roicy.prototype_masks(*strided, boxes, shape, out=out, num_threads=threads, **given)
        # the other order of prototypes rounds differently
        far = np.abs(out.astype(float) - plain) > (tolerance(dtype, shape) if kind == "real" else 0)
        assert far.mean() < 1e-3
        again, same = np.empty_like(plain), (planes, weights, np.asfortranarray(boxes), shape)
        roicy.prototype_masks(*same, out=again, num_threads=threads, **given)
        assert_same_bits(again, plain)
    outside = memory.copy()
    outside[1:6, ::-2, 3:1286] = 3
    assert (outside == np.array(3).astype(of_kind)).all()
    for k in range(5):
        one = slice(k, k + 1)
        alone = roicy.prototype_masks(planes, weights[one], boxes[one], shape, **given)
        if kind != "bytes":
            assert_same_bits(alone, plain[one])


def test_small_types(rng):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    planes, weights, boxes = problem(rng, np.float32, (23, 31))
    for small in (np.float16, ml_dtypes.bfloat16):
        given = planes.astype(small), weights.astype(small)
        out = roicy.prototype_masks(*given, boxes, (23, 31), threshold=None)
        wide = [array.astype(np.float32) for array in given]
        assert_same_bits(out, roicy.prototype_masks(*wide, boxes, (23, 31), threshold=None))


@pairs(rule=RULES, dtype=DTYPES, isa=ISAS)
def test_far_boxes(rule, dtype, isa):
    """Boxes of up to 1e30 pixels cost what is seen of them."""
    planes, weights = np.ones((1, 4, 4), dtype), np.full((6, 1), 3, dtype)
    far = [1e3, 1e6, 1e9, 1e18, 1e30]
    boxes = np.array([[-side, -side, side, side] for side in far] + [[1e9] * 4], dtype)
    out = roicy.prototype_masks(planes, weights, boxes, (6, 8), rule=rule)
    assert out[:5].all()
    assert not out[5].any()


@pairs(rule=RULES, dtype=DTYPES, isa=ISAS)
def test_values_that_are_no_numbers(rule, dtype, isa):
    """A NaN spreads to the pixels that read it, and sets none; infinities are 0 and 1."""
    planes = np.zeros((1, 4, 4), dtype)
    planes[0, 0, 0], planes[0, :, 2], planes[0, 3, 3] = np.nan, np.inf, -np.inf
    given = planes, np.ones((1, 1), dtype), [[0, 0, 4, 4]], (4, 4)
    values = roicy.prototype_masks(*given, rule=rule, threshold=None)[0]
    assert np.isnan(values[0, 0])
    reached = roicy.prototype_masks(*given, rule=rule)[0]
    np.testing.assert_array_equal(reached, values > 0.5)
    small = np.full((1, 4, 4), 9, np.uint8)
    roicy.prototype_masks(*given, rule=rule, threshold=None, out=small)
    assert small[0, 0, 0] == 0


@pytest.mark.parametrize("rule", RULES)
def test_numbers_that_underflow_or_overflow(rule, rng):
    """Nothing is raised or warned of where a program has NumPy raise such errors."""
    planes, weights, boxes = problem(rng, np.float32, (23, 31))
    boxes[0, 0] = 1e-45
    huge = weights.astype(np.float64)
    huge[:, 0] = 1e300
    for given in (weights, huge):
        for threshold in (0, 0.5):
            options = {"rule": rule, "threshold": threshold}
            want = roicy.prototype_masks(planes, given, boxes, (23, 31), **options)
            with np.errstate(all="raise"):
                got = roicy.prototype_masks(planes, given, boxes, (23, 31), **options)
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("rule", RULES)
def test_nothing_to_mask(rule):
    planes = np.ones((3, 4, 5), np.float32)
    none = planes, np.empty((0, 3), np.float32), np.empty((0, 4), np.float32)
    assert roicy.prototype_masks(*none, (5, 6), rule=rule).shape == (0, 5, 6)
    assert roicy.prototype_masks(*none, (5, 6), rule=rule, format="rle") == []
    one = planes, np.ones((1, 3), np.float32), [[0, 0, 4, 4]]
    for shape in ((0, 6), (5, 0), (0, 0)):
        assert roicy.prototype_masks(*one, shape, rule=rule).shape == (1, *shape)
        assert roicy.prototype_masks(*one, shape, rule=rule, format="rle")[0]["counts"] == b"0"


ONE = {
    "prototypes": np.ones((2, 3, 4)), "coefficients": np.ones((1, 2)),
    "boxes": np.array([[0, 0, 4, 4.0]]), "image_shape": (5, 6),
}  # fmt: skip
OF_PIXELS = np.ones((2, 5, 6))
HUGE = np.broadcast_to(np.float32(1), (2, 2**15, 2**14))
WRONG = {
    "prototypes: builtins.list, expected a numpy.ndarray": {"prototypes": [[[1.0]]]},
    "prototypes: dtype int32, expected float32": {"prototypes": np.ones((2, 3, 4), np.int32)},
    "prototypes: shape (2, 3), expected (C, h, w) or": {"prototypes": np.ones((2, 3))},
    "prototypes: shape (2, 2, 3, 4), expected (C, h, w) or": {"prototypes": np.ones((2, 2, 3, 4))},
    "prototypes: shape (2, 0, 4), expected (C, h, w) or": {"prototypes": np.ones((2, 0, 4))},
    "prototypes: shape (0, 3, 4), expected (C, h, w) or": {"prototypes": np.ones((0, 3, 4))},
    "prototypes: shape (2, 32768, 16384), expected": {"prototypes": HUGE},
    "coefficients: dtype int64, expected float32": {"coefficients": np.ones((1, 2), int)},
    "coefficients: shape (1, 3), expected (K, 2), a coeff": {"coefficients": np.ones((1, 3))},
    "coefficients: shape (2,), expected (K, 2)": {"coefficients": np.ones(2)},
    "boxes: shape (2, 4), expected (1, 4), a row": {"boxes": np.zeros((2, 4))},
    "boxes[0]: y1 is nan, expected a finite": {"boxes": np.array([[0, np.nan, 4, 4.0]])},
    "boxes[0]: (0, 0, 1e+300, 4), which is larger": {
        "boxes": np.array([[0, 0, 1e300, 4]]), "prototypes": np.ones((2, 3, 4), np.float32),
    },
    "image_shape: 5, expected two integers": {"image_shape": 5},
    "threshold: nan, expected a number": {"threshold": float("nan")},
    "threshold: 1.5, expected a number from 0 to 1": {"threshold": 1.5},
    "threshold: -0.1, expected a number from 0 to 1": {"threshold": -0.1},
    "threshold: None, expected a number, since codes": {"threshold": None, "format": "rle"},
    "rule: 'yolact', expected 'ultralytics', 'ultralytics_native', 'yolov5' or": {"rule": "yolact"},
    "fit: 'cover', expected 'letterbox', 'letterbox_top_left' or 'stretch'": {"fit": "cover"},
    "fit: 'stretch', expected 'letterbox', since rule 'yolov5' has": {
        "fit": "stretch", "rule": "yolov5",
    },
    "format: 'png', expected 'image' or 'rle'": {"format": "png"},
    "out: dtype float32, expected bool or uint8": {"out": np.zeros((1, 5, 6), np.float32)},
    "out: an array, expected None": {"out": np.zeros((1, 5, 6), bool), "format": "rle"},
    "out: overlaps memory that the call reads": {
        "prototypes": OF_PIXELS, "threshold": None, "out": OF_PIXELS[:1],
    },
    "num_threads: 0, expected": {"num_threads": 0},
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments(message):
    assert_refused(roicy.prototype_masks, ONE, WRONG[message], "^" + re.escape(message))
