"""Errors name the argument, what it was and what it should be, before anything is written."""

import itertools

import numpy as np
import pytest
from conftest import SUMS, WITH_BOX_GRADIENTS, operator

import roicy

INPUT = np.ones((4, 8, 6, 6), np.float32)
BOXES = np.array([[0, 0, 0, 3, 3], [3, 1, 1, 4, 4]], np.float32)
GRAD = np.ones((2, 8, 2, 2), np.float32)


def with_value(k, column, value, dtype=np.float32):
    boxes = np.tile(np.array([[0, 1, 1, 3, 3]], dtype), (20, 1))
    boxes[k, column] = value
    return boxes


class Masked(np.ma.MaskedArray):
    pass


FORWARD_ERRORS = [
    # Each case is the changed arguments, the type of the error, and its message.
    ({"input": [[1.0]]}, TypeError, r"input: builtins\.list, expected a numpy\.ndarray"),
    ({"input": np.ma.masked_array(INPUT)}, TypeError, "input: a masked array"),
    (
        {"input": INPUT.astype(np.int32)},
        TypeError,
        "input: dtype int32, expected float32, float64, float16, bfloat16, uint8, int8, uint16 or "
        "int16",
    ),
    (
        {"input": INPUT.astype(bool)},
        TypeError,
        r"input: dtype bool, expected .* or int16; pass its view\(numpy.uint8\)",
    ),
    (
        {"input": INPUT.astype(">f2")},
        TypeError,
        "input: dtype float16 in foreign byte order, expected",
    ),
    ({"input": INPUT.astype(">f4")}, TypeError, "input: dtype float32 in foreign byte order"),
    ({"input": INPUT.astype(object)}, TypeError, "input: dtype object"),
    ({"input": INPUT.astype(np.complex64)}, TypeError, "input: dtype complex64"),
    (
        {"input": INPUT[0]},
        ValueError,
        r"input: shape .*, expected \(N, C, H, W\); of one image pass",
    ),
    ({"input": INPUT[0], "layout": "NHWC"}, ValueError, r"expected \(N, H, W, C\)"),
    ({"layout": "CHWN"}, ValueError, "layout: 'CHWN', expected 'NCHW' or 'NHWC'"),
    ({"layout": None}, ValueError, "layout: None"),
    (
        {"boxes": [[[0, 0, 3, 3]]]},
        ValueError,
        r"boxes: a list of 1 arrays, expected one for each of the input's 4 images",
    ),
    (
        {"boxes": [np.ones((2, 5))] * 4},
        ValueError,
        r"boxes\[0\]: shape \(2, 5\), expected \(K, 4\)",
    ),
    (
        {"boxes": np.ones((2, 4), np.float32)},
        ValueError,
        r"boxes: shape \(2, 4\), expected \(K, 5\).*boxes_num",
    ),
    (
        {"boxes": np.ones((2, 6), np.float32)},
        ValueError,
        r"boxes: shape \(2, 6\), expected \(K, 5\) with rows \[batch_index, x1, y1, x2, y2\]",
    ),
    ({"boxes": np.ones(5, np.float32)}, ValueError, r"boxes: shape \(5,\), .*; of one box pass"),
    ({"boxes": None}, TypeError, "boxes: builtins.NoneType"),
    (
        {"boxes": BOXES.astype(complex)},
        TypeError,
        "boxes: dtype complex128, expected float32, float64, float16, bfloat16 or integers",
    ),
    ({"boxes": BOXES.astype(bool)}, TypeError, "boxes: dtype bool"),
    ({"boxes": BOXES.astype(str)}, TypeError, "boxes: dtype str"),
    (
        {"boxes": with_value(17, 0, 4)},
        ValueError,
        r"boxes\[17\]: batch index 4 is outside the input's 4 images",
    ),
    (
        {"boxes": with_value(17, 0, -1)},
        ValueError,
        r"boxes\[17\]: batch index -1 is outside the input's 4 images",
    ),
    ({"boxes": with_value(3, 0, 4, np.int64)}, ValueError, r"boxes\[3\]: batch index 4 is outside"),
    (
        {"boxes": with_value(3, 0, 0.5)},
        ValueError,
        r"boxes\[3\]: batch index 0.5, expected a whole number",
    ),
    (
        {"boxes": with_value(3, 0, np.nan)},
        ValueError,
        r"boxes\[3\]: batch index nan, expected a whole number",
    ),
    (
        {"boxes": with_value(3, 0, np.inf)},
        ValueError,
        r"boxes\[3\]: batch index inf, expected a whole number",
    ),
    ({"boxes": with_value(3, 0, 1e30)}, ValueError, r"boxes\[3\]: batch index 1.*e\+30 is outside"),
    (
        {"boxes": with_value(5, 1, np.nan)},
        ValueError,
        r"boxes\[5\]: x1 is nan, expected a finite coordinate",
    ),
    ({"boxes": with_value(5, 2, np.inf)}, ValueError, r"boxes\[5\]: y1 is inf"),
    ({"boxes": with_value(5, 3, -np.inf)}, ValueError, r"boxes\[5\]: x2 is -inf"),
    ({"boxes": with_value(5, 4, np.nan, np.float64)}, ValueError, r"boxes\[5\]: y2 is nan"),
    (
        {"boxes": with_value(5, 4, 1e300, np.float64)},
        ValueError,
        r"boxes\[5\]: \(1, 1, 3, 1e\+300\), which times spatial_scale 1 is beyond float32",
    ),
    (
        {"boxes": with_value(5, 4, 3e38), "spatial_scale": 4},
        ValueError,
        r"boxes\[5\]: \(1, 1, 3, 3.*e\+38\), which times spatial_scale 4 is beyond float32",
    ),
    (
        {"boxes": np.array([[0, -3e38, 0, 3e38, 1]], np.float32)},
        ValueError,
        r"boxes\[0\]: \(-3.*e\+38, 0, 3.*\), which times spatial_scale 1 is beyond float32",
    ),
    (
        {"boxes": BOXES, "boxes_num": [1, 0, 0, 1]},
        ValueError,
        r"boxes: shape \(2, 5\), expected \(K, 4\)",
    ),
    (
        {"boxes": BOXES[:, 1:], "boxes_num": [1, 0, 1]},
        ValueError,
        r"boxes_num: shape \(3,\), expected \(4,\), a count for each image",
    ),
    (
        {"boxes": BOXES[:, 1:], "boxes_num": [1, 0, 0, 2]},
        ValueError,
        "boxes_num: counts that sum to 3, expected the 2 rows of boxes",
    ),
    (
        {"boxes": BOXES[:, 1:], "boxes_num": [3, -1, 0, 0]},
        ValueError,
        r"boxes_num\[1\]: -1, expected a count of 0 or more",
    ),
    (
        {"boxes": BOXES[:, 1:], "boxes_num": [1.0, 0, 0, 1]},
        TypeError,
        "boxes_num: dtype float64, expected integers",
    ),
    (
        {"boxes": [BOXES[:, 1:]] * 4, "boxes_num": [1, 0, 0, 1]},
        ValueError,
        "boxes_num: expected None",
    ),
    (
        {"boxes": [BOXES[:, 1:]] * 3 + [with_value(2, 3, np.nan)[:, 1:]]},
        ValueError,
        r"boxes\[3\]: row 2: x2 is nan, expected a finite coordinate",
    ),
    (
        {"boxes": [BOXES[:0, 1:], with_value(1, 2, -np.inf)[:, 1:], BOXES[:, 1:], BOXES[:, 1:]]},
        ValueError,
        r"boxes\[1\]: row 1: y1 is -inf, expected a finite coordinate",
    ),
    (
        {"boxes": [BOXES[:, 1:]] * 2 + [with_value(0, 4, 1e300, np.float64)[:, 1:]] * 2},
        ValueError,
        r"boxes\[2\]: row 0: \(1, 1, 3, 1e\+300\), which times spatial_scale 1 is beyond float32",
    ),
    (
        {"boxes": [BOXES[:, 1:]] * 3 + [np.array([[-3e38, 0, 3e38, 1]], np.float32)]},
        ValueError,
        r"boxes\[3\]: row 0: \(-.*, 0, 3.*, 1\), which times spatial_scale 1 is beyond",
    ),
    (
        {"boxes": with_value(2, 4, np.inf)[:, 1:], "boxes_num": [2, 0, 0, 18]},
        ValueError,
        r"boxes\[2\]: y2 is inf, expected a finite coordinate",
    ),
    ({"output_size": 0}, ValueError, "output_size: 0, expected an integer from 1"),
    ({"output_size": (2, -1)}, ValueError, "output_size: -1"),
    (
        {"output_size": (2, 2, 2)},
        ValueError,
        r"output_size: \(2, 2, 2\), expected an integer or two",
    ),
    ({"output_size": 2.0}, TypeError, "output_size: 2.0, expected an integer"),
    ({"output_size": True}, TypeError, "output_size: True, expected an integer"),
    ({"output_size": "2"}, TypeError, "output_size: '2', expected an integer"),
    ({"spatial_scale": 0}, ValueError, "spatial_scale: 0, expected a finite number above 0"),
    ({"spatial_scale": -1}, ValueError, "spatial_scale: -1"),
    ({"spatial_scale": np.nan}, ValueError, "spatial_scale: nan"),
    ({"spatial_scale": np.inf}, ValueError, "spatial_scale: inf"),
    ({"spatial_scale": "1"}, TypeError, "spatial_scale: '1', expected a number"),
    ({"spatial_scale": None}, TypeError, "spatial_scale: None"),
    (
        {"out": np.ones((2, 8, 2, 3), np.float32)},
        ValueError,
        r"out: shape \(2, 8, 2, 3\), expected",
    ),
    ({"out": [1]}, TypeError, "out: builtins.list"),
    ({"num_threads": 0}, ValueError, "num_threads: 0, expected an integer from 1"),
    ({"num_threads": -3}, ValueError, "num_threads: -3"),
    ({"num_threads": 10**9}, ValueError, "num_threads: 1000000000"),
    ({"num_threads": 1.5}, TypeError, "num_threads: 1.5, expected an integer"),
]


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    FORWARD_ERRORS,
    ids=[message[:50] for _, _, message in FORWARD_ERRORS],
)
@pytest.mark.parametrize("name", [*SUMS, "roi_pool"])
def test_forward(name, changed, error, message):
    arguments = {"input": INPUT, "boxes": BOXES, "output_size": 2, **changed}
    with pytest.raises(error, match=message):
        operator(name)(**arguments)


@pytest.mark.parametrize("name", [*SUMS, "roi_pool"])
def test_out(name):
    function = operator(name)
    x = np.arange(4 * 8 * 6 * 6, dtype=np.float32).reshape(4, 8, 6, 6)
    right = function(x, BOXES, 2)
    for made in (
        np.full(right.shape, np.nan, np.float32),
        np.full((*right.shape[::-1],), np.nan, np.float32).T,
        np.full((4, *right.shape[1:]), np.nan, np.float32)[::-2],
    ):
        assert function(x, BOXES, 2, out=made) is made
        np.testing.assert_array_equal(made, right)
    with pytest.raises(TypeError, match="out: dtype float64, expected float32"):
        function(x, BOXES, 2, out=right.astype(np.float64))
    locked = right.copy()
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="out: read-only"):
        function(x, BOXES, 2, out=locked)
    with pytest.raises(ValueError, match="out: strides .* share memory"):
        function(x, BOXES, 2, out=np.lib.stride_tricks.as_strided(right, right.shape, (0, 4, 4, 4)))
    overlapping = np.zeros(x.size + right.size, np.float32)
    with pytest.raises(ValueError, match="out: overlaps memory that the call reads"):
        function(
            overlapping[: x.size].reshape(x.shape),
            BOXES,
            2,
            out=overlapping[x.size - 3 : x.size - 3 + right.size].reshape(right.shape),
        )
    apart = overlapping[x.size :].reshape(right.shape)
    assert function(overlapping[: x.size].reshape(x.shape), BOXES, 2, out=apart) is apart


def test_nothing_is_written_before_an_error():
    out = np.full((20, 8, 2, 2), 7, np.float32)
    with pytest.raises(ValueError, match="batch index"):
        roicy.roi_align(INPUT, with_value(19, 0, 9), 2, out=out)
    argmax = np.zeros((2, 8, 2, 2), np.int32)
    argmax[1, 7, 1, 1] = 36
    grad_input = np.full(INPUT.shape, 7, np.float32)
    with pytest.raises(ValueError, match="argmax"):
        roicy.roi_pool_backward(GRAD, argmax, BOXES, INPUT.shape, out=grad_input)
    assert (out == 7).all()
    assert (grad_input == 7).all()


@pytest.mark.parametrize("name", ["ps_roi_align", "ps_prroi_pool", "ps_roi_pool"])
def test_channels_that_bins_do_not_divide(name):
    with pytest.raises(
        ValueError, match="input: 8 channels, expected a multiple of the 3 x 3 bins of output_size"
    ):
        operator(name)(INPUT, BOXES, 3)


@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (2.5, ValueError),
        (np.float32(0.5), ValueError),
        (np.nan, ValueError),
        (np.inf, ValueError),
        (1e30, ValueError),
        ("2", TypeError),
        (None, TypeError),
        (True, TypeError),
        (2**31, ValueError),
        (-(2**40), ValueError),
    ],
)
def test_sampling_ratio(name, value, error):
    with pytest.raises(error, match="sampling_ratio: "):
        operator(name)(INPUT, BOXES, 2, sampling_ratio=value)


def test_flags():
    with pytest.raises(TypeError, match="aligned: 1, expected True or False"):
        roicy.roi_align(INPUT, BOXES, 2, aligned=1)
    with pytest.raises(TypeError, match="return_argmax: 'no', expected True or False"):
        roicy.roi_pool(INPUT, BOXES, 2, return_argmax="no")


def test_unaligned_memory():
    raw = np.zeros(INPUT.nbytes + 1, np.uint8)
    shifted = raw[1:].view(np.float32).reshape(INPUT.shape)
    with pytest.raises(
        ValueError, match="input: its elements do not lie at multiples of their size"
    ):
        roicy.roi_align(shifted, BOXES, 2)
    fields = np.zeros(2 * 8 * 6 * 6, np.dtype([("a", "f4"), ("b", "u1")], align=False))[
        "a"
    ].reshape(2, 8, 6, 6)
    with pytest.raises(ValueError, match="input: its elements do not lie"):
        roicy.roi_align(fields, BOXES[:1], 2)


@pytest.mark.parametrize("name", SUMS)
def test_backward(name):
    backward = operator(name, "_backward")
    grad = GRAD[:, :2] if name.startswith("ps_") else GRAD
    assert backward(grad, BOXES, INPUT.shape).shape == INPUT.shape
    with pytest.raises(ValueError, match=r"grad_output: shape \(2, 5, 2, 2\), expected"):
        backward(np.ones((2, 5, 2, 2), np.float32), BOXES, INPUT.shape)
    with pytest.raises(ValueError, match=r"grad_output: shape \(1, .*expected"):
        backward(grad[:1], BOXES, INPUT.shape)
    with pytest.raises(ValueError, match=r"grad_output: shape .*, expected at least one bin"):
        backward(grad[:, :, :0], BOXES, INPUT.shape)
    with pytest.raises(ValueError, match=r"input_shape: \(4, 8, 6\), expected \(N, C, H, W\)"):
        backward(grad, BOXES, (4, 8, 6))
    with pytest.raises(ValueError, match="input_shape: -1"):
        backward(grad, BOXES, (4, 8, 6, -1))
    with pytest.raises(TypeError, match="input_shape: 6.0"):
        backward(grad, BOXES, (4, 8, 6, 6.0))
    with pytest.raises(ValueError, match="input_shape: a map of 1099511627776 x 6 pixels"):
        backward(grad, BOXES, (4, 8, 2**40, 6))
    with pytest.raises(ValueError, match="out: overlaps memory"):
        shared = np.zeros(INPUT.size, np.float32)
        backward(
            shared[: grad.size].reshape(grad.shape),
            BOXES,
            INPUT.shape,
            out=shared.reshape(INPUT.shape),
        )
    with pytest.raises(
        ValueError, match=r"boxes\[1\]: batch index 3 is outside the input's 2 images"
    ):
        backward(grad, BOXES, (2, 8, 6, 6))


def test_results_beyond_memory():
    boxes = np.tile(BOXES, (1000, 1))
    with pytest.raises(
        MemoryError,
        match=r"the result of shape \(2000, 8, 16777216, 16777216\) and dtype float32 takes",
    ):
        roicy.roi_align(INPUT, boxes, 2**24)


def test_roi_pool_backward():
    argmax = np.zeros((2, 8, 2, 2), np.int32)
    with pytest.raises(TypeError, match="argmax: dtype int64, expected int32"):
        roicy.roi_pool_backward(GRAD, argmax.astype(np.int64), BOXES, INPUT.shape)
    with pytest.raises(ValueError, match=r"argmax: shape \(2, 8, 2, 1\), expected \(2, 8, 2, 2\)"):
        roicy.roi_pool_backward(GRAD, argmax[..., :1], BOXES, INPUT.shape)


@pytest.mark.parametrize("channels", [8, 20])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "neither"])
def test_forged_argmax(layout, channels):
    """
    The kernels for planes, for pixels and for other strides check each index before they write to
    its pixel, in whole lane vectors and in the rest.
    """
    grad, argmax = np.ones((2, channels, 3, 7), np.float32), np.zeros((2, channels, 3, 7), np.int32)
    shape = (4, channels, 6, 6)
    if layout == "NHWC":
        grad, argmax, shape = (
            grad.transpose(0, 2, 3, 1).copy(),
            argmax.transpose(0, 2, 3, 1).copy(),
            (4, 6, 6, channels),
        )
    elif layout == "neither":
        argmax = np.asfortranarray(argmax)
    given = {"layout": "NHWC" if layout == "NHWC" else "NCHW"}
    assert roicy.roi_pool_backward(grad, argmax, BOXES, shape, **given).sum() == 42 * channels
    by_channel = argmax if layout != "NHWC" else argmax.transpose(0, 3, 1, 2)
    for where in ((1, 0, 0, 1), (1, channels - 1, 0, 1), (1, channels - 1, 2, 6)):
        for forged in (36, -2, 2**31 - 1, -(2**31)):
            by_channel[where] = forged
            with pytest.raises(
                ValueError,
                match=(
                    r"argmax\[1\]: an index that is neither -1 nor less than "
                    r"the 36 pixels of the map"
                ),
            ):
                roicy.roi_pool_backward(grad, argmax, BOXES, shape, **given)
        by_channel[where] = -1
        assert (
            roicy.roi_pool_backward(grad, argmax, BOXES, shape, **given).sum() == 42 * channels - 1
        )
        by_channel[where] = 0


@pytest.mark.parametrize("name", WITH_BOX_GRADIENTS)
def test_backward_boxes(name):
    backward = operator(name, "_backward_boxes")
    grad = GRAD[:, :2] if name.startswith("ps_") else GRAD
    with pytest.raises(
        TypeError,
        match="grad_output: dtype float32, expected float64, in which maps are computed",
    ):
        backward(grad, INPUT.astype(np.float64), BOXES)
    with pytest.raises(ValueError, match="grad_output: shape"):
        backward(grad[:1], INPUT, BOXES)
    with pytest.raises(ValueError, match="input: shape"):
        backward(grad, INPUT[0], BOXES)


def test_integers_of_any_type_are_integers():
    expected = roicy.roi_align(INPUT, BOXES, (2, 2), 0.5, 2)
    np.testing.assert_array_equal(
        roicy.roi_align(
            INPUT,
            BOXES,
            np.int8(2),
            np.float32(0.5),
            np.uint16(2),
            np.bool_(False),
            num_threads=np.int64(2),
        ),
        expected,
    )
    np.testing.assert_array_equal(roicy.roi_align(INPUT, BOXES, np.array([2, 2]), 0.5, 2), expected)
    np.testing.assert_array_equal(roicy.roi_align(INPUT, BOXES, [2, 2], 0.5, 2), expected)


def test_boxes_of_other_types_and_formats(rng):
    x = rng.standard_normal((4, 8, 6, 6)).astype(np.float32)
    boxes = np.array(
        [[0, 0, 0, 3, 3], [1, 2, 1, 4, 4], [1, 0, 0, 5, 5], [3, 1, 1, 2, 5]], np.float32
    )
    expected = roicy.roi_align(x, boxes, 2)
    for dtype in (np.float64, np.int64, np.int32, np.uint8, ">f8"):
        np.testing.assert_array_equal(roicy.roi_align(x, boxes.astype(dtype), 2), expected)
    corners = boxes[:, 1:]
    listed = [corners[:1], corners[1:3], corners[:0], corners[3:]]
    np.testing.assert_array_equal(roicy.roi_align(x, listed, 2), expected)
    np.testing.assert_array_equal(
        roicy.roi_align(x, tuple(part.astype(np.int16) for part in listed), 2), expected
    )
    for counts in ([1, 2, 0, 1], np.array([1, 2, 0, 1], np.int32)):
        np.testing.assert_array_equal(roicy.roi_align(x, corners, 2, boxes_num=counts), expected)
    shuffled = [2, 0, 3, 1]
    np.testing.assert_array_equal(roicy.roi_align(x, boxes[shuffled], 2), expected[shuffled])


EXACT = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("roi_align", "float32"),  # whose many images take seconds
        *itertools.product([*SUMS, "roi_pool", "roi_align_max"], ("float16", "bfloat16")),
    ],
)
def test_rounded_indices(name, dtype):
    """Indices that may have been those of other images before they were rounded."""
    largest = EXACT[dtype]
    kind = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    boxes = np.array([[0, 0, 0, 2, 2], [largest - 1, 0, 0, 2, 2], [largest, 0, 0, 2, 2]])
    rounded = boxes.astype(kind)
    rounded.flags.writeable = False
    message = rf"boxes\[2\]: batch index {largest} in {dtype}, which is exact to {largest} only; "
    pool = operator(name)

    def shaped(images):
        """Return maps of so many images, which are one in memory."""
        return np.broadcast_to(np.ones((1, 1, 1, 1), np.float32), (images, 1, 1, 1))

    few, many = shaped(largest + 1), shaped(largest + 2)
    np.testing.assert_array_equal(pool(few, rounded, 1), pool(few, boxes, 1))
    with pytest.raises(ValueError, match=f"{message}.* the input's {largest + 2} images apart"):
        pool(many, rounded, 1)
    np.testing.assert_array_equal(pool(many, rounded[:2], 1), pool(many, boxes[:2], 1))
    np.testing.assert_array_equal(pool(many, boxes, 1), pool(few, boxes, 1))
    g = np.ones((3, 1, 1, 1), np.float32)
    if name in WITH_BOX_GRADIENTS:
        with pytest.raises(ValueError, match=message):
            operator(name, "_backward_boxes")(g, many, rounded)
    if name != "roi_align_max" and largest < 2**24:  # the gradient takes its memory
        backward = operator(name, "_backward")
        given = (np.zeros(g.shape, np.int32),) if name == "roi_pool" else ()
        with pytest.raises(ValueError, match=message):
            backward(g, *given, rounded, many.shape)


def test_images_that_do_not_exist_are_said_to():
    """Also of types in which their indices are rounded."""
    x = np.ones((3000, 1, 1, 1), np.float32)
    for index, message in ((4000, "4000 is outside"), (np.inf, "inf, expected a whole number")):
        boxes = np.array([[index, 0, 0, 2, 2]], np.float16)
        with pytest.raises(ValueError, match=rf"boxes\[0\]: batch index {message}"):
            roicy.roi_align(x, boxes, 1)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"input": {}}, TypeError, "input: builtins.dict, expected a numpy.ndarray"),
        ({"layout": np.zeros(2)}, ValueError, "layout: array"),
        ({"layout": None}, ValueError, "layout: None, expected 'NCHW' or 'NHWC'"),
        ({"spatial_scale": 10**400}, ValueError, "spatial_scale: 10"),
    ],
)
def test_arguments_of_other_kinds(changed, error, message):
    arguments = {
        "input": np.ones((1, 1, 4, 4), np.float32),
        "boxes": np.array([[0, 0, 0, 2, 2]], np.float32),
        "output_size": 1,
    }
    with pytest.raises(error, match=message):
        roicy.roi_align(**(arguments | changed))
