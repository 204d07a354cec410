"""Errors name the argument, what it was and what it should be, before anything is written."""

import enum
import itertools
import re

import numpy as np
import pytest
from conftest import (
    SUMS,
    WITH_BOX_GRADIENTS,
    assert_arrays_are_given_back,
    assert_same_bits,
    from_layout,
    operator,
    to_layout,
)

import roicy
from roicy.compat import onnx, paddle

INPUT = np.ones((4, 8, 6, 6), np.float32)
BOXES = np.array([[0, 0, 0, 3, 3], [3, 1, 1, 4, 4]], np.float32)
GRAD = np.ones((2, 8, 2, 2), np.float32)
CORNERS, FAR = BOXES[:, 1:], np.array([[0, -3e38, 0, 3e38, 1]], np.float32)


def with_value(k, column, value, dtype=np.float32):
    boxes = np.tile(np.array([[0, 1, 1, 3, 3]], dtype), (20, 1))
    boxes[k, column] = value
    return boxes


RIGHT = {"input": INPUT, "boxes": BOXES, "output_size": 2}
# Each case is the changed arguments and the message of the error.
TYPE_ERRORS = [
    ({"input": None}, r"input: builtins\.NoneType, expected a numpy\.ndarray, or what NumPy can"),
    ({"input": np.ma.masked_array(INPUT)}, "input: a masked array"),
    ({"input": INPUT.astype(np.int32)}, "input: dtype int32, expected float32, float64, float16, "
     r"bfloat16, uint8, int8, uint16 or int16; pass its astype\(numpy.float32\)$"),
    ({"input": INPUT.astype(bool)}, r"input: dtype bool, .* int16; pass its view\(numpy.uint8\)"),
    *(({"input": INPUT.astype(one)}, "input: dtype float.* in foreign byte order, expected")
      for one in (">f2", ">f4")),
    *(({"input": INPUT.astype(one)}, "input: dtype ") for one in (object, "c8", np.longdouble)),
    ({"input": np.zeros(INPUT.shape, "datetime64[s]")}, r"input: dtype datetime64\[s\], expected"),
    ({"input": INPUT.astype([("x", np.float32)])}, "input: dtype void32, expected"),
    ({"boxes": None}, r"boxes: builtins\.NoneType, expected a numpy\.ndarray, or what NumPy can"),
    ({"boxes": BOXES.astype(complex)},
     "boxes: dtype complex128, expected float32, float64, float16, bfloat16 or integers"),
    ({"boxes": BOXES.astype(bool)}, "boxes: dtype bool"),
    ({"boxes": BOXES.astype(str)}, "boxes: dtype str"),
    ({"boxes": [CORNERS, CORNERS, CORNERS, None]}, r"boxes\[3\]: builtins\.NoneType, expected"),
    ({"boxes": CORNERS, "boxes_num": [1.0, 0, 0, 1]},
     "boxes_num: dtype float64, expected integers"),
    ({"boxes": CORNERS, "boxes_num": [1, 1 - 2**70, 2**70, 0]},
     "boxes_num: dtype object, expected integers"),
    *(({"output_size": one}, f"output_size: {one!r}, expected an integer")
      for one in (2.0, True, "2", None)),
    ({"output_size": {"height": 3, "width": 2}},
     r"output_size: .*, expected an integer or two, \(height, width\); pass \(3, 2\)$"),
    ({"spatial_scale": "1"}, "spatial_scale: '1', expected a number"),
    ({"spatial_scale": None}, "spatial_scale: None"),
    ({"out": [1]}, r"out: builtins\.list, expected a numpy\.ndarray$"),
    ({"num_threads": 1.5}, "num_threads: 1.5, expected an integer"),
]  # fmt: skip
VALUE_ERRORS = [
    ({"input": INPUT[0]}, r"input: shape .*, expected \(N, C, H, W\); of one image pass"),
    ({"input": INPUT[0], "layout": "NHWC"}, r"expected \(N, H, W, C\)"),
    ({"input": INPUT[:0]}, r"boxes\[0\]: batch index 0 is outside the input's 0 images"),
    *(({"layout": one}, f"layout: {one!r}, expected 'NCHW' or 'NHWC'")
      for one in ("CHWN", "nchw", None)),
    ({"layout": np.zeros(2)}, "layout: array"),
    *(({"boxes": [CORNERS] * one},
       f"boxes: a list of {one} arrays, expected one for each of the input's 4") for one in (3, 5)),
    ({"boxes": [CORNERS, BOXES] * 2}, r"boxes\[1\]: shape \(2, 5\), expected \(K, 4\)"),
    ({"boxes": CORNERS}, r"boxes: shape \(2, 4\), expected \(K, 5\).*boxes_num"),
    ({"boxes": np.ones((2, 6), np.float32)},
     r"boxes: shape \(2, 6\), expected \(K, 5\) with rows \[batch_index, x1, y1, x2, y2\]"),
    ({"boxes": BOXES[0]}, r"boxes: shape \(5,\), .*; of one box pass"),
    ({"boxes": with_value(17, 0, 4)},
     r"boxes\[17\]: batch index 4 is outside the input's 4 images"),
    ({"boxes": with_value(17, 0, -1)}, r"boxes\[17\]: batch index -1 is outside the input's 4"),
    ({"boxes": with_value(3, 0, 4, np.int64)}, r"boxes\[3\]: batch index 4 is outside"),
    ({"boxes": with_value(3, 0, 1 + 1e-12, np.float64)},
     r"boxes\[3\]: batch index 1.000000000001, expected a whole number"),
    *(({"boxes": with_value(3, 0, one)}, rf"boxes\[3\]: batch index {one}, expected a whole number")
      for one in (0.5, np.nan, np.inf)),
    ({"boxes": with_value(3, 0, 1e30)}, r"boxes\[3\]: batch index 1.*e\+30 is outside"),
    ({"boxes": with_value(5, 1, np.nan)}, r"boxes\[5\]: x1 is nan, expected a finite coordinate"),
    ({"boxes": with_value(5, 2, np.inf)}, r"boxes\[5\]: y1 is inf"),
    ({"boxes": with_value(5, 3, -np.inf)}, r"boxes\[5\]: x2 is -inf"),
    ({"boxes": with_value(5, 4, np.nan, np.float64)}, r"boxes\[5\]: y2 is nan"),
    ({"boxes": with_value(5, 4, 1e300, np.float64)},
     r"boxes\[5\]: \(1, 1, 3, 1e\+300\), which times spatial_scale 1 is beyond float32"),
    ({"boxes": with_value(5, 4, 3e38), "spatial_scale": 4},
     r"boxes\[5\]: \(1, 1, 3, 3.*e\+38\), which times spatial_scale 4 is beyond float32"),
    ({"boxes": FAR},
     r"boxes\[0\]: \(-3.*e\+38, 0, 3.*\), which times spatial_scale 1 is beyond float32"),
    ({"boxes": BOXES, "boxes_num": [1, 0, 0, 1]}, r"boxes: shape \(2, 5\), expected \(K, 4\)"),
    ({"boxes": CORNERS, "boxes_num": [1, 0, 1]},
     r"boxes_num: shape \(3,\), expected \(4,\), a count for each image"),
    ({"boxes": CORNERS, "boxes_num": [[1, 0, 0, 1]]}, r"boxes_num: shape \(1, 4\), expected \(4,"),
    ({"boxes": CORNERS, "boxes_num": [1, 0, 0, 2]},
     "boxes_num: counts that sum to 3, expected the 2 rows of boxes"),
    ({"boxes": CORNERS, "boxes_num": [0, 0, 0, True]}, "boxes_num: counts that sum to 1, expected"),
    ({"boxes": CORNERS, "boxes_num": [3, -1, 0, 0]}, r"boxes_num\[1\]: -1, expected a count of 0"),
    ({"boxes": [CORNERS] * 4, "boxes_num": [2] * 4}, "boxes_num: expected None, since boxes is a"),
    ({"boxes": [CORNERS] * 3 + [with_value(2, 3, np.nan)[:, 1:]]},
     r"boxes\[3\]: row 2: x2 is nan, expected a finite coordinate"),
    ({"boxes": [CORNERS[:0], with_value(1, 2, -np.inf)[:, 1:], CORNERS, CORNERS]},
     r"boxes\[1\]: row 1: y1 is -inf, expected a finite coordinate"),
    ({"boxes": [CORNERS] * 2 + [with_value(0, 4, 1e300, np.float64)[:, 1:]] * 2},
     r"boxes\[2\]: row 0: \(1, 1, 3, 1e\+300\), which times spatial_scale 1 is beyond float32"),
    ({"boxes": [CORNERS] * 3 + [FAR[:, 1:]]},
     r"boxes\[3\]: row 0: \(-.*, 0, 3.*, 1\), which times spatial_scale 1 is beyond"),
    ({"boxes": with_value(2, 4, np.inf)[:, 1:], "boxes_num": [2, 0, 0, 18]},
     r"boxes\[2\]: y2 is inf, expected a finite coordinate"),
    ({"output_size": 0}, "output_size: 0, expected an integer from 1 to 16777216"),
    ({"output_size": (2, -1)}, "output_size: -1"),
    ({"output_size": 10**30}, "output_size: 10{30}, expected an integer from 1 to 16777216"),
    ({"output_size": (2, 2, 2)}, r"output_size: \(2, 2, 2\), expected an integer or two"),
    *(({"spatial_scale": one}, f"spatial_scale: {one}, expected a")
      for one in (0, -1, np.nan, np.inf, 10**400)),
    ({"out": np.ones((2, 8, 4), np.float32)}, r"out: shape \(2, 8, 4\), expected"),
    *(({"num_threads": one}, f"num_threads: {one}, expected an integer from 1")
      for one in (0, -3, 10**9)),
]  # fmt: skip
FORWARD_ERRORS = [(changed, TypeError, message) for changed, message in TYPE_ERRORS]
FORWARD_ERRORS += [(changed, ValueError, message) for changed, message in VALUE_ERRORS]


def test_arrays_are_given_back_after_an_error():
    assert_arrays_are_given_back(roicy.roi_align, RIGHT, FORWARD_ERRORS)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    FORWARD_ERRORS,
    ids=[message[:50] for _, _, message in FORWARD_ERRORS],
)
@pytest.mark.parametrize("name", [*SUMS, "roi_pool"])
def test_forward(name, changed, error, message):
    with pytest.raises(error, match=message):
        operator(name)(**RIGHT | changed)


@pytest.mark.parametrize("name", [*SUMS, "roi_pool"])
def test_out(name):
    function = operator(name)
    x = np.arange(4 * 8 * 6 * 6, dtype=np.float32).reshape(4, 8, 6, 6)
    right = function(x, BOXES, 2)
    locked = right.copy()
    locked.flags.writeable = False
    on_each_other = np.lib.stride_tricks.as_strided(right, right.shape, (0, 4, 4, 4))
    memory = np.zeros(x.size + right.size, np.float32)
    of_memory = memory[: x.size].reshape(x.shape)
    over, apart = (memory[i : i + right.size].reshape(right.shape) for i in (x.size - 3, x.size))
    for wrong, error, message in (
        (right.astype(np.float64), TypeError, "out: dtype float64, expected float32"),
        (locked, ValueError, "out: read-only"),
        (on_each_other, ValueError, "out: strides .* share memory"),
        (over, ValueError, "out: overlaps memory that the call reads"),
    ):
        with pytest.raises(error, match=message):
            function(of_memory, BOXES, 2, out=wrong)
    assert function(of_memory, BOXES, 2, out=apart) is apart


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
    message = "input: 8 channels, expected a multiple of the 3 x 3 bins of output_size"
    with pytest.raises(ValueError, match=message):
        operator(name)(INPUT, BOXES, 3)


def test_unaligned_memory():
    raw = np.zeros(INPUT.nbytes + 1, np.uint8)
    shifted = raw[1:].view(np.float32).reshape(INPUT.shape)
    fields = np.zeros(INPUT.shape, np.dtype([("a", "f4"), ("b", "u1")], align=False))["a"]
    for wrong in (shifted, fields):
        with pytest.raises(ValueError, match="input: its elements do not lie at multiples of"):
            roicy.roi_align(wrong, BOXES, 2)


@pytest.mark.parametrize("name", SUMS)
def test_backward(name):
    backward = operator(name, "_backward")
    grad = GRAD[:, :2] if name.startswith("ps_") else GRAD
    assert backward(grad, BOXES, INPUT.shape).shape == INPUT.shape
    shared = np.zeros(INPUT.size, np.float32)
    of_out = {"grad_output": shared[: grad.size].reshape(grad.shape)}
    right = {"grad_output": grad, "boxes": BOXES, "input_shape": INPUT.shape}
    for wrong, error, message in (
        ({"grad_output": GRAD[:, :5]}, ValueError, r"grad_output: shape \(2, 5, 2, 2\), expected"),
        ({"grad_output": grad[:1]}, ValueError, r"grad_output: shape \(1, .*expected"),
        ({"grad_output": grad[:, :, :0]}, ValueError, "grad_output: .*, expected at least one bin"),
        ({"input_shape": (4, 8, 6)}, ValueError, r"input_shape: \(4, 8, 6\), expected \(N, C, H"),
        ({"input_shape": (4, 8, 6, -1)}, ValueError, "input_shape: -1"),
        ({"input_shape": (4, 8, 6, 6.0)}, TypeError, "input_shape: 6.0"),
        ({"input_shape": (4, 8, 2**40, 6)}, ValueError, "input_shape: a map of 1099511627776 x 6 "),
        (
            {"input_shape": (2, 8, 6, 6)},
            ValueError,
            r"boxes\[1\]: batch index 3 is outside the inp",
        ),
        (of_out | {"out": shared.reshape(INPUT.shape)}, ValueError, "out: overlaps memory"),
    ):
        with pytest.raises(error, match=message):
            backward(**right | wrong)


def test_roi_pool_backward():
    argmax = np.zeros((2, 8, 2, 2), np.int32)
    with pytest.raises(TypeError, match="argmax: dtype int64, expected int32"):
        roicy.roi_pool_backward(GRAD, argmax.astype(np.int64), BOXES, INPUT.shape)
    with pytest.raises(ValueError, match=r"argmax: shape \(2, 8, 2, 1\), expected \(2, 8, 2, 2\)"):
        roicy.roi_pool_backward(GRAD, argmax[..., :1], BOXES, INPUT.shape)


@pytest.mark.parametrize("channels", [8, 20])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "neither"])
def test_forged_argmax(layout, channels):
    """The kernels for planes, for pixels and for other strides check each index before they write
    to its pixel, in whole lane vectors and in the rest.
    """
    shape = (2, channels, 3, 7)
    grad, argmax = np.ones(shape, np.float32), np.zeros(shape, np.int32)
    given = {"layout": "NHWC" if layout == "NHWC" else "NCHW"}
    grad, argmax = (to_layout(array, given["layout"]) for array in (grad, argmax))
    argmax = np.asfortranarray(argmax) if layout == "neither" else argmax
    shape = (4, 6, 6, channels) if layout == "NHWC" else (4, channels, 6, 6)
    by_channel, message = from_layout(argmax, given["layout"]), "argmax[1]: an index that is "
    message = re.escape(message) + "neither -1 nor less than the 36 pixels of the map"
    for where in ((1, 0, 0, 1), (1, channels - 1, 0, 1), (1, channels - 1, 2, 6)):
        for forged in (36, -2, 2**31 - 1, -(2**31)):
            by_channel[where] = forged
            with pytest.raises(ValueError, match=message):
                roicy.roi_pool_backward(grad, argmax, BOXES, shape, **given)
        for pixel, total in ((-1, 42 * channels - 1), (0, 42 * channels)):
            by_channel[where] = pixel
            assert roicy.roi_pool_backward(grad, argmax, BOXES, shape, **given).sum() == total


@pytest.mark.parametrize("name", WITH_BOX_GRADIENTS)
def test_backward_boxes(name):
    backward = operator(name, "_backward_boxes")
    grad = GRAD[:, :2] if name.startswith("ps_") else GRAD
    message = "dtype float32, expected float64, in which the input of float64 is computed"
    with pytest.raises(TypeError, match=message):
        backward(grad, INPUT.astype(np.float64), BOXES)
    with pytest.raises(ValueError, match="grad_output: shape"):
        backward(grad[:1], INPUT, BOXES)
    with pytest.raises(ValueError, match="input: shape"):
        backward(grad, INPUT[0], BOXES)


def test_integers_of_any_type_are_integers():
    expected = roicy.roi_align(INPUT, BOXES, (2, 2), 0.5, 2)
    scale, ratio, aligned = np.float32(0.5), np.uint16(2), np.bool_(False)
    for size in (np.int8(2), np.array([2, 2]), [2, 2]):
        given = INPUT, BOXES, size, scale, ratio, aligned
        assert_same_bits(roicy.roi_align(*given, num_threads=np.int64(2)), expected)


EXACT = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("roi_align", "float32"),  # whose many images take long
     *itertools.product([*SUMS, "roi_pool", "roi_align_max"], ("float16", "bfloat16"))],
)  # fmt: skip
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
    with pytest.raises(ValueError, match=f"{message}.* the input's {largest + 2} images apart"):
        pool(many, rounded, 1)
    np.testing.assert_array_equal(pool(many, rounded[:2], 1), pool(few, boxes[:2], 1))
    if largest == 2**24:
        return
    np.testing.assert_array_equal(pool(few, rounded, 1), pool(few, boxes, 1))
    np.testing.assert_array_equal(pool(many, boxes, 1), pool(few, boxes, 1))
    g = np.ones((3, 1, 1, 1), np.float32)
    if name in WITH_BOX_GRADIENTS:
        with pytest.raises(ValueError, match=message):
            operator(name, "_backward_boxes")(g, many, rounded)
    if name != "roi_align_max":
        given = (np.zeros(g.shape, np.int32),) if name == "roi_pool" else ()
        with pytest.raises(ValueError, match=message):
            operator(name, "_backward")(g, *given, rounded, many.shape)


def test_images_that_do_not_exist_are_said_to():
    """Also of types in which their indices are rounded."""
    x = np.ones((3000, 1, 1, 1), np.float32)
    for index, message in ((4000, "4000 is outside"), (np.inf, "inf, expected a whole number")):
        boxes = np.array([[index, 0, 0, 2, 2]], np.float16)
        with pytest.raises(ValueError, match=rf"boxes\[0\]: batch index {message}"):
            roicy.roi_align(x, boxes, 1)


class Failing:
    """An object that fails whatever it is asked for."""

    def __getattr__(self, name):
        raise RuntimeError(f"no {name} today")


class Anything:
    """An object that has all attributes."""

    def __getattr__(self, name):
        return lambda *positional, **named: 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Failing(), "Failing, which NumPy cannot read: no __array__ today"),
        (Anything(), "Anything, which NumPy cannot read: "),
        (np.ndarray, "builtins.type, expected a numpy.ndarray, or what NumPy can read as one"),
        (object(), "builtins.object, expected a numpy.ndarray, or what"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_objects_that_are_no_arrays(value, message):
    x, boxes = INPUT, BOXES
    for name, call in (
        ("input", lambda: roicy.roi_align(value, boxes, 2)),
        ("boxes", lambda: roicy.roi_align(x, value, 2)),
        ("frames", lambda: roicy.crop(value, boxes[:, 1:], 2)),
        ("masks", lambda: roicy.paste_masks(value, boxes[:, 1:], (5, 6))),
    ):
        with pytest.raises(TypeError, match=rf"^{name}: \S*{message}"):
            call()
    with pytest.raises(TypeError, match="^output_size: "):
        roicy.roi_align(x, boxes, value)


def test_masks_that_would_be_lost():
    """Masked arrays are refused where numbers are listed, too."""
    x, boxes = INPUT, BOXES
    indices = np.ma.masked_array(np.zeros(len(boxes), int), mask=np.arange(len(boxes)) == 1)
    pair, three = (np.ma.masked_array([2.0] * n, mask=np.arange(n) == 1) for n in (2, 3))
    for name, call in (
        ("batch_indices", lambda: onnx.RoiAlign(x, boxes[:, 1:], indices)),
        ("output_size", lambda: roicy.roi_align(x, boxes, pair.astype(int))),
        ("spatial_scale", lambda: roicy.roi_align(x, boxes, 2, spatial_scale=pair)),
        ("mean", lambda: roicy.crop(x[0, 0], boxes[:, 1:], 2, mean=three)),
        ("data", lambda: paddle.create_lod_tensor(np.ma.masked_array(boxes), [[2]])),
        ("rois_lod", lambda: paddle.roi_pool(x, boxes[:, 1:], 1, 1, rois_lod=indices)),
    ):
        with pytest.raises(TypeError, match=f"^{name}: a masked array, whose mask would be lost"):
            call()


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16"])
def test_tensors_that_require_a_gradient(kind):
    """None would come back to them; the error says where there are gradients."""
    torch = pytest.importorskip("torch")
    x, boxes = torch.from_numpy(INPUT), torch.from_numpy(BOXES)
    x, boxes = (one.to(getattr(torch, kind)).requires_grad_() for one in (x, boxes))
    plain = boxes.detach().float().numpy()
    message = r"torch.Tensor, .*: it requires a gradient; pass its detach\(\), or call roicy.torch$"
    for name, call in (
        ("input", lambda: roicy.roi_align(x, plain, 2)),
        ("boxes", lambda: roicy.roi_align(x.detach(), boxes, 2)),
        (r"boxes\[0\]", lambda: roicy.roi_align(x.detach(), [boxes[:, 1:]] * 4, 2)),
        ("frames", lambda: roicy.crop(x[0, 0], plain[:, 1:], 2)),
        ("mean", lambda: roicy.crop(plain, plain[:, 1:], 2, mean=x[0, 0, 0, :1])),
    ):
        with pytest.raises(TypeError, match=f"^{name}: {message}"):
            call()


FRAME = np.zeros((8, 8, 3), np.uint8)
BOX, MAP = [[0, 0, 4, 4]], np.zeros((2, 3, 8, 8), np.float32)
Member = enum.Enum("Member", {"CUBIC": "bicubic"})  # as torchvision's InterpolationMode
CURES = {
    "int32": (lambda: roicy.crop(FRAME.astype("i4"), BOX, 4), "pass its astype(numpy.uint8)"),
    "bool": (lambda: roicy.resize(FRAME > 0, 4), "pass its astype(numpy.uint8)"),
    "yuyv": (
        lambda: roicy.crop(np.zeros((8, 8), "u2"), BOX, 4, color="yuyv"),
        "pass its view(numpy.uint8)",
    ),
    "float": (lambda: roicy.resize(FRAME.astype("f4"), 4), "roicy.crop resizes others"),
    "filter": (lambda: roicy.resize(FRAME, 4, filter="BICUBIC"), "pass 'bicubic'"),
    "member": (lambda: roicy.resize(FRAME, 4, filter=Member.CUBIC), "pass 'bicubic'"),
    "float64": (lambda: roicy.resize(FRAME / 2, 4), "pass its astype(numpy.float32) to roicy.crop"),
    "nv12": (
        lambda: roicy.crop(np.zeros((12, 8), "u2"), BOX, 4, color="nv12"),
        "of ten bits pass color='p010', of bytes pass its astype(numpy.uint8)",
    ),
    "masks": (lambda: roicy.mask_segments(MAP.astype("i8")), "of masks pass its astype(bool)"),
    "mode": (lambda: roicy.label_map(MAP, (4, 4), mode="trilinear"), "three numbers"),
    "(K, 5, 1, 1)": (lambda: roicy.roi_align(MAP, np.zeros((2, 5, 1, 1)), 2), "reshape(-1, 5)"),
    "(B, K, 5)": (lambda: roicy.roi_pool(MAP, np.zeros((2, 3, 5)), 2), "reshape(-1, 5)"),
    "of frames": (lambda: roicy.crop(FRAME, np.zeros((1, 3, 5)), 2), "reshape(-1, 5)"),
}


@pytest.mark.parametrize("name", CURES)
def test_errors_name_the_cure(name):
    call, cure = CURES[name]
    with pytest.raises((TypeError, ValueError), match=re.escape(cure) + "$"):
        call()
