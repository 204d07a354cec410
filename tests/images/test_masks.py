"""paste_masks agrees with its definition and with recorded numbers, whatever its arguments are."""

import re

import numpy as np
import pytest
import reference_images as reference
from conftest import DTYPES, ISAS, assert_refused, assert_same_bits, behind_a_line, pairs
from protocols import WithDLPack

import roicy
from roicy._machine import _memory

RULES = ("torchvision", "detectron2", "mmdet")
SHAPE = (23, 31)
RECORDED_CODE, RECORDED_PASTE = b"0120000000000000000000000000", b":342O01No0"
RECORDED_SUM = 3756.5456221038476
RECORDED_VALUES = {  # by image, row and column
    (0, 0, 1): 0.0,
    (0, 2, 4): 0.3828125,
    (0, 4, 7): 0.05208328366279602,
    (0, 6, 3): 0.0,
    (1, 0, 0): 0.061437077820301056,
    (1, 17, 33): 0.2812251150608063,
    (1, 50, 119): 0.12126317620277405,
    (1, 99, 60): 0.042817577719688416,
    (1, 88, 88): 0.1630859225988388,
}


def problem(rng, dtype, count=16, size=(7, 5), shape=SHAPE):
    """Return masks, and boxes inside of the image, across its edges, off it and inverted."""
    height, width = shape
    centre = rng.uniform(-0.2, 1.2, (count, 2)) * (width, height)
    sides = np.exp(rng.uniform(np.log(0.3), np.log(2 * width), (count, 2)))
    sides[::7] *= -0.4
    boxes = np.concatenate([centre - sides / 2, centre + sides / 2], axis=1)
    boxes = np.round(boxes * 16) / 16  # positions in a box are then the same in both types
    boxes[1::6] = np.round(boxes[1::6])
    boxes[2, 2:] = boxes[2, :2]  # has no area
    boxes[3] = (5.5, 4.25, 5.5, 12)  # has no width, and lies on the centre of a pixel
    return rng.random((count, *size)).astype(dtype), boxes.astype(dtype)


def unaligned(array):
    """Return a copy between multiples of the size: a sanitizer sees if it is read as it lies."""
    memory = np.zeros(1 + array.nbytes, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    memory[...] = array
    return memory


def tolerance(dtype):
    # a position has an error of some units in the last place of the side of a box
    return 64 * np.finfo(dtype).eps


OPTIONS = [*({"rule": rule} for rule in RULES), {"padding": 0}, {"padding": 3}]


@pairs(options=OPTIONS, size=[(7, 5), (1, 1), (28, 28)], dtype=DTYPES, isa=ISAS)
def test_definition(options, size, dtype, isa, rng):
    masks, boxes = problem(rng, dtype, size=size)
    expected = reference.paste_masks(masks, boxes, SHAPE, **options)
    out = roicy.paste_masks(masks[:, None], boxes, SHAPE, threshold=None, **options)
    assert (out.dtype, out.shape) == (dtype, (len(masks), *SHAPE))
    assert (expected != 0).any(axis=(1, 2)).sum() > 6
    np.testing.assert_allclose(out, expected, rtol=0, atol=tolerance(dtype))
    reached = roicy.paste_masks(masks, boxes, SHAPE, **options)
    assert_same_bits(reached, out >= dtype(0.5))
    small = np.empty(out.shape, np.uint8)
    roicy.paste_masks(masks, boxes, SHAPE, threshold=None, out=small, **options)
    np.testing.assert_array_equal(small, (out * dtype(255)).astype(np.uint8))


@pairs(shape=[SHAPE, (90, 70), (1, 1), (5000, 3), (3, 5000)], rule=RULES, dtype=DTYPES, isa=ISAS)
def test_codes_are_those_of_images(shape, rule, dtype, isa, rng):
    """The runs of both kinds of sums: boxes of few pixels, and larger ones."""
    masks, boxes = problem(rng, dtype, 8, (9, 9), shape)
    boxes[0] = (-1, -1, shape[1] + 1, shape[0] + 1)
    for threshold in (0.5, -1.0):
        given = {"rule": rule, "threshold": threshold}
        images = roicy.paste_masks(masks, boxes, shape, **given)
        codes = roicy.paste_masks(unaligned(masks), boxes, shape, format="rle", **given)
        for image, code in zip(images, codes, strict=True):
            assert code["size"] == list(shape)
            assert code["counts"] == reference.run_lengths(image)


def test_codes_of_pycocotools():
    """Strings that pycocotools 2.0.11 gave for images of these masks."""
    assert reference.run_lengths(np.zeros((3, 4), bool)) == b"<"
    assert reference.run_lengths(np.ones((3, 4), bool)) == b"0<"
    assert reference.run_lengths(np.arange(40).reshape(5, 8) % 3 == 0) == RECORDED_CODE
    assert roicy.paste_masks(
        np.ones((1, 2, 2)), np.array([[1, 1, 4, 5.0]]), (8, 9), threshold=0.45, format="rle"
    ) == [{"size": [8, 9], "counts": RECORDED_PASTE}]


def test_recorded_numbers(isa):
    """Numbers that torchvision 0.29 gave: of a box of few pixels, and of a larger one."""
    masks = (np.arange(18, dtype=np.float32) % 7 / 8).reshape(2, 1, 3, 3)
    boxes = np.array([[1.5, 0.25, 6.5, 4.75], [-3, 2, 150, 90]], np.float32)
    out = roicy.paste_masks(masks, boxes, (100, 120), threshold=None)
    for (k, y, x), expected in RECORDED_VALUES.items():
        np.testing.assert_allclose(out[k, y, x], expected, rtol=0, atol=2e-7)
    assert abs(out.sum(dtype=np.float64) - RECORDED_SUM) < 1e-3


@pairs(kind=["bool", "uint8", "bytes", "real"], dtype=DTYPES, isa=ISAS)
def test_threads_and_strides(kind, dtype, isa, rng):
    """Images of any strides have the same bits, and nothing beside them is written."""
    shape = (70, 61)
    masks, boxes = problem(rng, dtype, 5, (14, 14), shape)
    of_kind = {"bool": bool, "uint8": np.uint8, "bytes": np.uint8, "real": dtype}[kind]
    given = {"threshold": 0.5 if kind in ("bool", "uint8") else None}
    plain = np.empty((5, *shape), of_kind)
    roicy.paste_masks(masks, boxes, shape, out=plain, num_threads=1, **given)
    strided = np.asfortranarray(masks)[:, None]
    np.testing.assert_array_equal(
        roicy.paste_masks(unaligned(masks), boxes, shape, out=np.empty_like(plain), **given), plain
    )
    for make in (
        lambda memory: memory[2:7, 3:73, 5:66],
        lambda memory: memory[2:12:2, 72:2:-1, 5:127:2],
        lambda memory: memory[:70, :61, :5].transpose(2, 0, 1),
    ):
        memory = np.full((80, 80, 150), 3, np.float64).astype(of_kind)
        kept = memory.copy()
        out = make(memory)
        for threads in (1, 2):
            out[...] = 1
            given |= {"out": out, "num_threads": threads}
            assert roicy.paste_masks(strided, boxes, shape, **given) is out
            np.testing.assert_array_equal(out, plain)
        make(kept)[...] = plain
        np.testing.assert_array_equal(memory, kept)


@pairs(most=[0, 1 << 26], isa=ISAS)
def test_large_results(most, rng, isa, monkeypatch):
    """Memory of a result is that of one before, or fresh pages, which are not cleared again."""
    monkeypatch.setattr(_memory, "most", most)
    shape, count = (901, 1003), 10
    masks = rng.random((count, 28, 28)).astype(np.float32)
    boxes = np.array([[10 * k, 20 * k, 300 + 60 * k, 200 + 70 * k] for k in range(count)], float)
    out = np.full((count, *shape), np.nan, np.float32)
    roicy.paste_masks(masks, boxes, shape, threshold=None, out=out)
    for _ in range(2):
        fresh = roicy.paste_masks(masks, boxes, shape, threshold=None)
        assert fresh.nbytes > _memory.LEAST
        np.testing.assert_array_equal(fresh, out)
        fresh[...] = np.nan
        del fresh


def test_streaming(rng, isa):
    """Large results are stored past the caches, and begin anywhere."""
    shape = (901, 1003)
    masks = rng.random((3, 28, 28)).astype(np.float32)
    boxes = np.array([[10, 20, 800, 700], [-50, 300, 2000, 310], [200.5, -3, 203, 901]], np.float32)
    alone = ((masks[k : k + 1], boxes[k : k + 1]) for k in range(3))
    each = [roicy.paste_masks(*one, shape, threshold=None)[0] for one in alone]
    for past in (0, 1):
        memory, out = behind_a_line((3, *shape), past, np.float32)
        roicy.paste_masks(masks, boxes, shape, threshold=None, out=out, num_threads=2)
        np.testing.assert_array_equal(out, each)
        assert np.isnan(memory).sum() == memory.size - out.size
    count = 12
    bits = np.full((count, *shape), True)
    roicy.paste_masks(masks[[0] * count], boxes[[0] * count], shape, out=bits)
    np.testing.assert_array_equal(bits, [each[0] >= np.float32(0.5)] * count)


@pairs(rule=RULES, dtype=DTYPES, isa=ISAS)
def test_far_boxes(rule, dtype, isa):
    """Boxes of up to 1e30 pixels cost what is seen of them."""
    masks = np.full((6, 28, 28), 0.75, dtype)
    far = [1e3, 1e6, 1e9, 1e18, 1e30]
    boxes = np.array([[-side, -side, side, side] for side in far] + [[1e9] * 4], dtype)
    out = roicy.paste_masks(masks, boxes, (6, 8), rule=rule, threshold=None)
    np.testing.assert_allclose(out[:5], 0.75, rtol=1e-6)
    assert not out[5].any()
    codes = roicy.paste_masks(masks, boxes, (6, 8), rule=rule, format="rle")
    for image, code in zip(out, codes, strict=True):
        assert code["counts"] == reference.run_lengths(image >= 0.5)


def test_a_threshold_is_reached_by_itself(dtype, isa):
    """The weights are eighths, so that no number between equal ones is rounded."""
    masks, boxes = np.full((1, 2, 2), 0.5, dtype), np.array([[0, 0, 8, 8]], dtype)
    out = roicy.paste_masks(masks, boxes, (8, 8), rule="detectron2", threshold=0.5)
    assert out[0, 2:6, 2:6].all()


def test_values_that_are_no_numbers(isa):
    """A NaN spreads to the pixels that read it, does not reach a threshold and is 0 as a byte."""
    masks = np.ones((1, 2, 2), np.float32)
    masks[0, 0, 0] = np.nan
    boxes = np.array([[0, 0, 8, 8]], np.float32)
    out = roicy.paste_masks(masks, boxes, (8, 8), rule="detectron2", threshold=None)[0]
    assert np.isnan(out[:4, :4]).all()
    assert not np.isnan(out[6:, 6:]).any()
    assert not roicy.paste_masks(masks, boxes, (8, 8), rule="detectron2")[0, 0, 0]
    small = np.full((1, 8, 8), 9, np.uint8)
    masks[0] = [[np.nan, np.inf], [-np.inf, 1.5]]
    boxes = np.array([[0, 0, 2, 2]], np.float32)
    roicy.paste_masks(masks, boxes, (8, 8), rule="detectron2", threshold=None, out=small)
    assert small[0, 1, 1] == 255
    assert small[0, 0, 0] == 0


def test_small_types(rng):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    masks, boxes = problem(rng, np.float32)
    for small in (np.float16, ml_dtypes.bfloat16):
        out, wide = (
            roicy.paste_masks(masks.astype(small).astype(kind), boxes, SHAPE, threshold=None)
            for kind in (small, np.float32)
        )
        assert_same_bits(out, wide)
    whole = np.array([[3, 4, 12, 15]])
    expected = roicy.paste_masks(masks[:1], whole.astype(np.float32), SHAPE)
    assert_same_bits(roicy.paste_masks(masks[:1], whole, SHAPE), expected)
    assert_same_bits(roicy.paste_masks(masks[:1], whole.tolist(), list(SHAPE)), expected)


def test_nothing_to_paste():
    none = np.empty((0, 1, 28, 28), np.float32), np.empty((0, 4), np.float32)
    assert roicy.paste_masks(*none, (5, 6)).shape == (0, 5, 6)
    assert roicy.paste_masks(*none, (5, 6), format="rle") == []
    one = np.ones((1, 2, 2)), np.array([[0, 0, 4, 4.0]])
    for shape in ((0, 6), (5, 0), (0, 0)):
        assert roicy.paste_masks(*one, shape).shape == (1, *shape)
        assert roicy.paste_masks(*one, shape, format="rle")[0]["counts"] == b"0"


ONE = {"masks": np.ones((1, 2, 2)), "boxes": np.array([[0, 0, 4, 4.0]]), "image_shape": (5, 6)}
OF_PIXELS = np.ones((1, 5, 6))
WRONG = {
    "masks: builtins.list, expected a numpy.ndarray": {"masks": [[[1.0]]]},
    "masks: dtype int32, expected float32": {"masks": np.ones((1, 2, 2), np.int32)},
    "masks: shape (1, 2, 2, 2), expected (K, 1, h, w) or": {"masks": np.ones((1, 2, 2, 2))},
    "masks: shape (1, 0, 2), expected at least one number": {"masks": np.ones((1, 0, 2))},
    "masks: shape (1, 2, 0), expected at least one number": {
        "masks": WithDLPack(np.ones((1, 2, 0)))  # which has no shape of its own
    },
    "boxes: shape (2, 4), expected (1, 4), a row": {"boxes": np.zeros((2, 4))},
    "boxes: shape (1, 5), expected (1, 4)": {"boxes": np.zeros((1, 5))},
    "boxes: shape (1, 6), expected (1, 4), a row [x1, y1, x2, y2] a mask; of [x1, y1, x2, y2, s": {
        "boxes": np.zeros((1, 6))
    },
    "boxes: shape (1, 1, 4), expected (1, 4), a row [x1, y1, x2, y2] a mask; pass boxes.resh": {
        "boxes": np.zeros((1, 1, 4))
    },
    "image_shape: {'height': 5, 'width': 6}, expected two integers, (height, width); pass (5, 6)": {
        "image_shape": {"height": 5, "width": 6}
    },
    "boxes: dtype bool, expected": {"boxes": np.zeros((1, 4), bool)},
    "boxes[0]: y1 is nan, expected a finite": {"boxes": np.array([[0, np.nan, 4, 4.0]])},
    "boxes[0]: x2 is inf, expected a finite": {"boxes": np.array([[0, 0, np.inf, 4.0]])},
    "boxes[0]: (-3.39": {
        "boxes": np.array([[-3.4e38, 0, 3.4e38, 4]], np.float32),
        "masks": np.ones((1, 2, 2), np.float32),
    },
    "image_shape: 5, expected two integers": {"image_shape": 5},
    "image_shape: (2, 3), expected an integer": {"image_shape": (1, (2, 3))},
    "image_shape: -1, expected an integer from 0": {"image_shape": (-1, 6)},
    "image_shape: 6.0, expected an integer": {"image_shape": (5, 6.0)},
    "threshold: nan, expected a number": {"threshold": float("nan")},
    "threshold: '1', expected a number": {"threshold": "1"},
    "threshold: None, expected a number, since codes": {"threshold": None, "format": "rle"},
    "padding: -1, expected an integer from 0": {"padding": -1},
    "padding: 2, expected 1, since rule 'mmdet'": {"padding": 2, "rule": "mmdet"},
    "rule: 'coco', expected 'torchvision', 'detectron2' or 'mmdet'": {"rule": "coco"},
    "format: 'png', expected 'image' or 'rle'": {"format": "png"},
    "out: dtype float32, expected bool or uint8": {"out": np.zeros((1, 5, 6), np.float32)},
    "out: shape (1, 6, 5), expected (1, 5, 6)": {"out": np.zeros((1, 6, 5), bool)},
    "out: an array, expected None": {"out": np.zeros((1, 5, 6), bool), "format": "rle"},
    "out: overlaps memory that the call reads": {
        "masks": OF_PIXELS, "threshold": None, "out": OF_PIXELS,
    },
    "num_threads: 0, expected": {"num_threads": 0},
    "image_shape: (65536, 65536), expected less": {
        "image_shape": (2**16, 2**16), "format": "rle",
    },
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments(message):
    assert_refused(roicy.paste_masks, ONE, WRONG[message], "^" + re.escape(message))


def test_more_than_there_is_memory():
    changed = {"image_shape": (2**30, 2**30)}
    assert_refused(roicy.paste_masks, ONE, changed, "the result of shape", MemoryError)
