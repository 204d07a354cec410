"""Calls take what NumPy can read as an array, boxes as nested lists, boxes of one image without
more, and whole numbers of samples as floats.

Each gives the bits of the plain call, and what could be meant in two ways is refused.
"""

import math
import re
import warnings

import numpy as np
import pytest
from conftest import (
    DTYPES,
    LAYOUTS,
    SUMS,
    WITH_BOX_GRADIENTS,
    assert_same_bits,
    from_layout,
    operator,
    pairs,
    passes,
    random_boxes,
    rotated_boxes,
    to_layout,
)
from protocols import WithArray, WithDLPack

import roicy
from roicy._checks import _arguments
from roicy.compat import detectron2, mmcv, mxnet, onnx, openvino, paddle, tensorflow, torchvision

OPERATORS = [*SUMS, "roi_pool", "roi_align_max"]


class WithInterface:
    """Memory that NumPy reads by the attribute ``__array_interface__``."""

    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


class OfInstance:
    """An object whose own attribute NumPy reads, and not its class's."""

    def __init__(self, array, name="__array_interface__"):
        setattr(self, name, getattr(array, name))


class ByGetattr:
    """Memory that NumPy reads by attributes that the class does not have."""

    def __init__(self, array):
        self._array = array

    def __getattr__(self, name):
        return getattr(self._array, name)


def as_ctypes(array):
    kind = np.ctypeslib.as_ctypes_type(array.dtype)
    for extent in array.shape[::-1]:
        kind = kind * extent
    return kind.from_buffer(array)


def as_memmap(array, path):
    array.tofile(path)
    return np.memmap(path, array.dtype, "r", shape=array.shape)


ARRAY_LIKES = [
    WithArray, WithInterface, WithDLPack, OfInstance, ByGetattr, memoryview, as_ctypes, "memmap",
    "torch",
]  # fmt: skip


@pytest.fixture(params=ARRAY_LIKES, ids=lambda kind: getattr(kind, "__name__", kind))
def like(request, tmp_path):
    """Return a function that gives an array's memory another form."""
    if request.param == "torch":
        return pytest.importorskip("torch").from_numpy
    if request.param == "memmap":
        return lambda array: as_memmap(array, tmp_path / f"{id(array)}")
    return request.param


def make(rng, images=3, name=""):
    x = rng.standard_normal((images, 8, 20, 30)).astype(np.float32)
    boxes = rotated_boxes if "rotated" in name else random_boxes
    return x, boxes(rng, images, 12, (20, 30), np.float32)


@pytest.mark.parametrize("name", OPERATORS)
def test_array_likes(name, like, rng):
    """Passes of all operators read maps, boxes, gradients and argmax where they are."""
    x, boxes = make(rng)
    pool, backward = operator(name), operator(name, "_backward")
    g = rng.standard_normal(pool(x, boxes, 2).shape).astype(np.float32)
    calls = [(lambda *given: pool(*given, 2), (x, boxes))]
    if name == "roi_align_max":
        calls.append((backward, (g, x, boxes)))
    elif name == "roi_pool":
        calls = [(lambda *given: pool(*given, 2, return_argmax=True)[0], (x, boxes))]
        argmax = pool(x, boxes, 2, return_argmax=True)[1]
        calls.append((lambda *given: backward(*given, x.shape), (g, argmax, boxes)))
    else:
        calls.append((lambda *given: backward(*given, x.shape), (g, boxes)))
    if name in WITH_BOX_GRADIENTS:
        calls.append((operator(name, "_backward_boxes"), (g, x, boxes)))
    for call, given in calls:
        found = call(*map(like, given))
        assert type(found) is np.ndarray
        assert_same_bits(found, call(*given))


@pytest.mark.parametrize("name", ["__array__", "__array_struct__", "__dlpack__"])
def test_protocols_of_an_instance(name, rng):
    x, boxes = make(rng)
    given = OfInstance(x, name)
    if name == "__dlpack__":
        given.__dlpack_device__ = x.__dlpack_device__
    assert_same_bits(roicy.roi_align(given, boxes, 2), roicy.roi_align(x, boxes, 2))


@pytest.mark.parametrize("form", [np.array, memoryview, WithArray, "torch"])
def test_numbers_in_arrays(form, rng):
    """What is a list of numbers may be an array, or what NumPy reads as one, everywhere."""
    form = pytest.importorskip("torch").from_numpy if form == "torch" else form
    like = form if form is np.array else lambda numbers: form(np.array(numbers))
    x, boxes = make(rng)
    coarse, frame = x[:, :, ::2, ::2].copy(), (x[0, :3] * 50).transpose(1, 2, 0).copy()
    masks, grad, rows = x[:, 0], np.ones((len(boxes), 8, 2, 3), np.float32), boxes[:3, 1:]
    levels, at = [(4, 5), (2, 5)], rng.random((1, 3, 2, 5, 2), dtype=np.float32)
    value, weights = x.reshape(1, -1, 2, 3)[:, :30], at[..., 0]
    colours = [0.5, 0.25, 0.75]

    def calls(of):
        yield roicy.roi_align(x, boxes, of([2, 3]))
        yield roicy.roi_align(x, boxes, 2, spatial_scale=of([0.5, 0.25]))
        yield roicy.roi_align_backward(grad, boxes, of([3, 8, 20, 30]))
        yield roicy.multiscale_roi_align([x, coarse], boxes, 2, spatial_scale=of([0.5, 0.25]))
        yield roicy.multiscale_roi_align([x, coarse], boxes, 2, image_size=of([40, 60]))
        yield roicy.paste_masks(masks, rows, of([21, 30]))
        options = {"mean": of(colours), "std": of(colours), "scale": of(colours)}
        yield roicy.crop(frame, rows, of([4, 5]), pad_value=of(colours), **options)
        by = {"points": of([2, 3])}
        yield roicy.deformable_attention(value, of(levels), at, weights, **by)
        yield roicy.deformable_attention(value, [of(pair) for pair in levels], at, weights, **by)

    for got, expected in zip(calls(like), calls(list), strict=True):
        assert_same_bits(got, expected)


NO_BOXES = [[], (), np.array([]), np.array([], int), np.array([], object), np.empty((0, 4))]


@pytest.mark.parametrize("name", [*SUMS, "roi_pool", "roi_align_max", "roi_align_rotated"])
def test_an_empty_list_has_no_boxes(name, rng):
    x, _ = make(rng)
    for boxes in NO_BOXES:
        for maps, given in ((x, {}), (x, {"boxes_num": [0, 0, 0]}), (x[:1], {})):
            pooled = operator(name)(maps, boxes, 2, **given)
            per_bin = 4 if name.startswith("ps_") else 1
            assert pooled.shape == (0, x.shape[1] // per_bin, 2, 2)
        if name not in ("roi_pool", "roi_align_max"):
            assert not operator(name, "_backward")(pooled, boxes, x.shape).any()
        if name in WITH_BOX_GRADIENTS:
            grads = operator(name, "_backward_boxes")(pooled, x, boxes)
            listed = isinstance(boxes, (list, tuple))
            assert [grad.shape for grad in grads] == [(0, 4)] * len(x) * listed
            assert listed or grads.shape == (0, 5)


def test_no_boxes_of_other_functions(rng):
    """What has no boxes for one function has none for any other."""
    x, frames = make(rng)[0][:2, :4], np.zeros((2, 8, 9, 3), np.uint8)
    none, tf = [0, 0], tensorflow.crop_and_resize
    pyramid = torchvision.MultiScaleRoIAlign(["a"], 2, 2)
    for boxes in NO_BOXES:
        results = [
            roicy.multiscale_roi_align([x], boxes, 2, [1.0]),
            roicy.multiscale_roi_align_rotated([x], boxes, 2, [1.0]),
            roicy.crop(frames, boxes, 2), roicy.crop(frames[0], boxes, 2),
            roicy.crop(frames, boxes, 2, boxes_num=none), *roicy.crop_lines(frames, boxes, 8),
            roicy.crop_and_resize(x, boxes, [], 2), tf(x, boxes, [], 2),
            roicy.paste_masks(np.zeros((0, 3, 3), np.float32), boxes, (8, 8)),
            mxnet.ROIPooling(x, boxes, 2, 1.0), mxnet.ROIAlign(x, boxes, 2, 1.0),
            mxnet.RROIAlign(x, boxes, 2, 1.0), detectron2.roi_align_rotated(x, boxes, 2, 1.0, 2),
            mmcv.roi_align_rotated(x, boxes, 2, 1.0), paddle.roi_align(x[:1], boxes, 2, 2),
            paddle.vision.ops.psroi_pool(x, boxes, none, 2), onnx.RoiAlign(x, boxes, []),
            paddle.vision.ops.roi_align(x, boxes, none, 2),
            openvino.roi_align_rotated(x, boxes, [], 2, 2, 0, 1.0, True),
            *paddle.vision.ops.distribute_fpn_proposals(boxes, 2, 3, 2, 224, rois_num=none)[0],
            onnx.MaxRoiPool(x, boxes, pooled_shape=(2, 2)), onnx.CropAndResize(x, boxes, [], 2),
            onnx.MMCVRoIAlignRotated(x, boxes, output_height=2, output_width=2),
            openvino.roi_align(x, boxes, [], 2, 2, 2, 1.0, "max", "half_pixel"),
            openvino.roi_pooling(x, boxes, 2, 1.0, "bilinear"),
            openvino.psroi_pooling(x, boxes, 1, 2, 1.0, 1, 1, "average"),
            torchvision.RoIAlign(2, 1.0, 2)(x, boxes), pyramid({"a": x}, [boxes] * 2, [(8, 8)] * 2),
        ]  # fmt: skip
        assert [len(result) for result in results] == [0] * len(results)


def test_array_likes_of_a_pyramid(like, rng):
    x, boxes = make(rng)
    maps, scales = [x, x[:, :, ::2, ::2].copy()], [1.0, 0.5]
    likes = [like(level) for level in maps]
    listed = [boxes[boxes[:, 0] == n, 1:].copy() for n in range(3)]
    expected = roicy.multiscale_roi_align(maps, boxes, 2, scales)
    assert_same_bits(roicy.multiscale_roi_align(likes, like(boxes), 2, scales), expected)
    order = np.argsort(boxes[:, 0], kind="stable")
    result = roicy.multiscale_roi_align(likes, [like(part) for part in listed], 2, scales)
    assert_same_bits(result, expected[order])


def test_arrays_whose_type_spells_its_byte_order(rng):
    """NumPy keeps the mark that the formats of ctypes have, though it is that of the machine."""
    x, boxes = make(rng)
    pooled = roicy.roi_align(x, boxes, 2)
    odd = [np.asarray(memoryview(as_ctypes(array.copy()))) for array in (x, boxes, pooled, pooled)]
    assert all(memoryview(array).format in ("<f", ">f") for array in odd)
    assert_same_bits(roicy.roi_align(*odd[:2], 2), pooled)
    grad = roicy.roi_align_backward(pooled, boxes, x.shape)
    assert_same_bits(roicy.roi_align_backward(odd[3], odd[1], x.shape), grad)
    odd[2][...] = 7
    assert roicy.roi_align(*odd[:2], 2, out=odd[2]) is odd[2]
    assert odd[2].tobytes() == pooled.tobytes()


def test_memory_is_shared(like, rng, monkeypatch):
    """No map is copied, and nobody can write to what the caller may not write to."""
    x, _ = make(rng)
    given = like(x)
    taken = _arguments.taken("input", given)
    assert type(taken) is np.ndarray
    of = np.asarray(given) if isinstance(given, np.memmap) else x
    assert np.shares_memory(taken, of)
    assert taken.shape == x.shape


def test_other_types_of_tensors(rng):
    torch = pytest.importorskip("torch")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, boxes = make(rng)
    numbers = torch.from_numpy(np.round(x * 20))
    for name in ("float64", "float16", "bfloat16", "uint8", "int8", "uint16", "int16"):
        tensor = numbers.abs().to(getattr(torch, name))
        dtype = ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)
        array = tensor.double().numpy().astype(dtype)
        assert_same_bits(roicy.roi_align(tensor, boxes, 2), roicy.roi_align(array, boxes, 2))
    rows = torch.from_numpy(boxes).to(torch.bfloat16)
    expected = roicy.roi_align(x, rows.float().numpy(), 2)
    assert_same_bits(roicy.roi_align(x, rows, 2), expected)
    with pytest.raises(TypeError, match="input: torch.Tensor, which NumPy cannot read"):
        roicy.roi_align(torch.zeros(1, 1, 2, 2, device="meta"), boxes, 2)
    with pytest.raises(TypeError, match="input: dtype bool, expected"):
        roicy.roi_align(numbers > 0, boxes, 2)
    with pytest.raises(TypeError, match="out: torch.Tensor, expected a numpy.ndarray"):
        roicy.roi_align(x, boxes, 2, out=torch.zeros(12, 8, 2, 2))


# What is lazy


class Lazy:
    """An array that is computed when it is asked for."""

    graph: object = {}

    def __dask_graph__(self):
        return self.graph

    def __array__(self, dtype=None, copy=None):
        assert self.graph is None, "the whole array was computed"
        return np.ones((1, 1, 4, 4), np.float32)


@pytest.mark.parametrize("where", ["input", "boxes", "list", "features", "grad_output"])
def test_lazy_arrays_are_refused(where):
    x, boxes, lazy = np.ones((1, 1, 4, 4), np.float32), np.zeros((1, 5), np.float32), Lazy()
    message = r"Lazy, which is not computed yet; pass its compute\(\), .*docs/many_machines\.md"
    with pytest.raises(TypeError, match=message):
        if where == "features":
            roicy.multiscale_roi_align([x, lazy], boxes, 1, [1.0, 0.5])
        elif where == "grad_output":
            roicy.roi_align_backward(lazy, boxes, x.shape)
        else:
            rows = {"boxes": lazy, "list": [lazy]}.get(where, boxes)
            roicy.roi_align(lazy if where == "input" else x, rows, 1)


def test_arrays_that_could_be_lazy():
    """As some libraries have it: their arrays may be lazy, and this one is not."""
    eager, boxes = Lazy(), np.array([[0, 0, 0, 2, 2.0]])
    eager.graph = None
    assert_same_bits(roicy.roi_align(eager, boxes, 1), np.ones((1, 1, 1, 1), np.float32))
    x = pytest.importorskip("dask.array").ones((1, 1, 4, 4), dtype=np.float32)
    with pytest.raises(TypeError, match=r"input: dask\.array.*many_machines"):
        roicy.roi_align(x, boxes, 1)


class Broken:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no memory on this side")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (Broken(), TypeError, r"input: .*Broken, which NumPy cannot read: no memory on this side"),
        (WithArray([1.0]), TypeError, r"input: .*WithArray, which NumPy cannot read"),
        (WithArray(np.ones(3)), ValueError, r"input: shape \(3,\), expected \(N, C, H, W\)"),
        (WithArray(np.ma.ones((1, 1, 4, 4))), TypeError, "input: a masked array"),
        (b"abc", ValueError, r"input: shape \(\), expected|input: shape \(3,\), expected"),
        ("abc", TypeError, "input: builtins.str, expected a numpy.ndarray, or what NumPy can read"),
        ([[[[1.0]]]], TypeError, "input: builtins.list, expected a numpy.ndarray"),
        (3.0, TypeError, "input: builtins.float, expected a numpy.ndarray"),
        (WithArray(np.ones((1, 1, 4, 4), object)), TypeError, "input: dtype object, expected"),
    ],
)
def test_what_is_no_map(given, error, message):
    with pytest.raises(error, match=message):
        roicy.roi_align(given, [[0, 0, 0, 2, 2]], 1)


# Boxes


def forms(boxes, images):
    """Yield boxes (K, 5), sorted by image, in forms that say the same, and whether as a list."""
    listed = [boxes[boxes[:, 0] == n, 1:] for n in range(images)]
    yield boxes.tolist(), False
    yield tuple(map(tuple, boxes.tolist())), False
    yield [tuple(row) for row in boxes], False  # of NumPy's numbers
    yield list(boxes), False
    yield [list(boxes[0]), *boxes[1:]], False
    yield WithDLPack(boxes), False
    yield [part.tolist() for part in listed], True
    yield tuple([part.tolist(), part][n % 2] for n, part in enumerate(listed)), True
    yield [list(part) for part in listed], True
    yield [WithArray(part) if len(part) else np.array([]) for part in listed], True


PYRAMID = "multiscale_roi_align"


def all_passes(name, x, rows, g, layout="NCHW", boxes_num=None):
    """Compute what `passes` does, also of a pyramid of one level."""
    if name != PYRAMID:
        return passes(name, x, rows, g, layout, boxes_num=boxes_num)
    given = {"spatial_scale": [0.5], "boxes_num": boxes_num, "layout": layout}
    x, g = to_layout(x, layout), to_layout(g, layout)
    return [
        from_layout(roicy.multiscale_roi_align([x], rows, 2, **given), layout),
        roicy.multiscale_roi_align_backward(g, rows, [x.shape], **given)[0],
        roicy.multiscale_roi_align_backward_boxes(g, [x], rows, **given),
    ]


def gradient(rng, name, x, boxes):
    """Return a gradient of the output of (2, 2) bins."""
    channels = x.shape[1] // (4 if name.startswith("ps_") else 1)
    return rng.standard_normal((len(boxes), channels, 2, 2)).astype(x.dtype)


def assert_same(found, expected):
    """Check results.  Gradients of boxes may be lists by image, and lack the index, whose is 0."""
    for a, b in zip(found, expected, strict=True):
        a = np.concatenate(a) if isinstance(a, list) else a
        if b.ndim == 2:
            assert not b[:, 0].any()
            b = b[:, b.shape[1] - a.shape[1] :]
        assert_same_bits(np.ascontiguousarray(a), np.ascontiguousarray(b))


@pytest.mark.parametrize("name", [*OPERATORS, "roi_align_rotated", PYRAMID])
def test_nested_lists(name, rng):
    x, boxes = make(rng, name=name)
    boxes = boxes[np.argsort(boxes[:, 0], kind="stable")]
    boxes = boxes[boxes[:, 0] != 1]  # one image has no boxes
    g = gradient(rng, name, x, boxes)
    expected = all_passes(name, x, boxes, g)
    counts = np.bincount(boxes[:, 0].astype(int), minlength=3)
    for form, is_list in forms(boxes, 3):
        found = all_passes(name, x, form, g)
        assert_same(found, expected)
        if expected[-1].ndim == 2:
            assert isinstance(found[-1], list) == is_list
            assert not is_list or [len(part) for part in found[-1]] == counts.tolist()
    for rows in (boxes[:, 1:].tolist(), WithArray(boxes[:, 1:])):
        for boxes_num in (counts, counts.tolist(), WithArray(counts)):
            assert_same(all_passes(name, x, rows, g, boxes_num=boxes_num), expected)


@pairs(name=[*OPERATORS, "roi_align_rotated", PYRAMID], dtype=DTYPES, layout=LAYOUTS)
def test_boxes_of_one_image(name, dtype, layout, rng):
    """Boxes (K, 4) need no counts if there is one image; their gradients are (K, 4)."""
    x, boxes = make(rng, 1, name)
    x, boxes = x.astype(dtype), boxes.astype(dtype)
    g, corners = gradient(rng, name, x, boxes), boxes[:, 1:]
    for form in (corners, corners.copy(), corners.tolist(), corners.astype(np.float16)):
        rows = np.insert(np.asarray(form, dtype), 0, 0, axis=1)
        expected = all_passes(name, x, rows, g, layout)
        for boxes_num in (None, [len(rows)]):
            found = all_passes(name, x, form, g, layout, boxes_num=boxes_num)
            assert_same(found, expected)
            assert expected[-1].ndim == 4 or found[-1].shape == corners.shape
    empty, *_ = all_passes(name, x, corners[:0], g[:0], layout)
    assert empty.shape == g[:0].shape


STRINGS = getattr(np.dtypes, "StringDType", lambda: "U1")()
X = np.ones((2, 4, 6, 6), np.float32)
ARRAY = np.ones((2, 4), np.float32)
WRONG_BOXES = [
    ([0, 0, 0, 3, 3], ValueError, r"boxes: shape \(5,\), .*; of one box pass \[box\]"),
    ([0.5], ValueError, r"boxes: shape \(1,\), expected \(K, 5\)"),
    (["abcd"], TypeError, r"boxes\[0\]: builtins\.str, expected a row of numbers"),
    ([[0, 0, 0, 3, 3], [1, 0, 0, 3]], ValueError, r"boxes\[1\]: 4 numbers, expected 5, as boxes"),
    ([[], [0, 0, 3, 3]], ValueError, r"boxes\[1\]: 4 numbers, expected 0, as boxes\[0\] has"),
    ([[0, 0, 0, 10**400, 3]], ValueError, r"boxes\[0\]\[3\]: an integer that is beyond float64"),
    ([[0, 0, 0, 10**5000, 3]], ValueError, r"boxes\[0\]\[3\]: an integer that is beyond float64"),
    ([np.ma.array(np.ones(5), mask=[0, 1, 0, 0, 0])], TypeError, r"boxes\[0\]: a masked array"),
    (np.array([["1"] * 5], STRINGS), TypeError, "boxes: dtype StringDType.*, expected float32, fl"),
    ([np.array(["1"] * 5, STRINGS)], TypeError, r"boxes.*: dtype StringDType.*, expected "),
    ([[0, 0, 0, 3, 3], np.ones(5, bool)], TypeError, r"boxes\[1\]: dtype bool, expected numbers"),
    ([[0, 0, 0, math.nan, 3]], ValueError, r"boxes\[0\]: x2 is nan, expected a finite"),
    ([[0, 0, 0, 3, 3], [2, 0, 0, 3, 3]], ValueError, r"boxes\[1\]: batch index 2 is outside"),
    ([[0.5, 0, 3, 3, 0.5]], ValueError,
     r"boxes\[0\]: batch index 0\.5, expected a whole number; 5 columns are \[batch_index, x1, "
     r"y1, x2, y2\]: of \[x1, y1, x2, y2, score\] pass boxes\[:, :4\]"),
    ([[-1, 0, 3, 3, 0.5]], ValueError, r"boxes\[0\]: batch index -1 is outside .* images$"),
    ([[0.5, 0, 0, 3, 3]], ValueError, r"boxes\[0\]: batch index 0.5, expected a whole number$"),
    ([[0, 0, 3, 3, 0.5, 2]], ValueError,
     r"\(1, 6\), expected .*score, class\] pass boxes\[:, :4\]"),
    ([[0, 0, 3, 3]] * 2, ValueError,
     r"boxes: shape \(2, 4\), expected \(K, 5\) .* boxes_num, or a"),
    (np.ones((2, 3, 4)), ValueError, r"boxes: shape \(2, 3, 4\), .*\(N, L, 4\) pass list\(boxes\)"),
    ([[]], ValueError, "boxes: a list of 1 arrays, expected one for each of the input's 2 images"),
    ([ARRAY, [1, 1, 3, 3]], ValueError, r"boxes\[1\]: shape \(4,\), .* of one box pass \[box\]"),
    ([[1, 1, 3, 3], ARRAY], TypeError, r"boxes\[1\]: numpy.ndarray, expected a row of numbers"),
    ([[[0, 0, 3, 3]], [[1, 1, 3]]], ValueError, r"boxes\[1\]: shape \(1, 3\), expected \(K, 4\)"),
    ([[[0, 0, 3, 3]], [[1, 1, 3, 3], [1]]], ValueError, r"boxes\[1\]\[1\]: 1 numbers, expected 4"),
    ([[[0, 0, 3, 3]], [[1, 1, None, 3]]], TypeError, r"boxes\[1\]\[0\]\[2\]: builtins\.NoneType"),
    ([[[0, 0, 3, 3]], [[1, 1, math.inf, 3]]], ValueError, r"boxes\[1\]: row 0: x2 is inf"),
    ([[[0, 0, 3, 3]], None], TypeError, r"boxes\[1\]: builtins\.NoneType, expected"),
    ([[[[0, 0, 3, 3]]]] * 2, ValueError, r"boxes\[0\]: shape \(1, 1, 4\), expected \(K, 4\)"),
    ([ARRAY[None], ARRAY], ValueError, r"boxes\[0\]: shape \(1, 2, 4\), expected \(K, 4\)"),
    ({0: ARRAY}, TypeError, "boxes: builtins.dict, expected a numpy.ndarray"),
    (iter([ARRAY] * 2), TypeError, "boxes: builtins.list_iterator, expected a numpy.ndarray"),
    ({"boxes": [[0, 0, 3, 3]], "boxes_num": [2, 2]}, ValueError, "counts that sum to 4, expected"),
    ({"boxes": [[0] * 5], "boxes_num": [1, 0]}, ValueError,
     r"boxes: shape \(1, 5\), expected \(K, 4"),
    ({"boxes": ARRAY, "boxes_num": [[1], [1, 0]]}, ValueError, "boxes_num: lists of different"),
    ({"boxes": ARRAY, "boxes_num": {1: 1}}, TypeError, "boxes_num: builtins.dict, expected"),
    ({"boxes": ARRAY, "boxes_num": Lazy()}, TypeError, "boxes_num: .*Lazy, which is not computed"),
    ({"boxes": ARRAY, "boxes_num": [None, 2]}, TypeError, "boxes_num: dtype object, expected int"),
    ({"boxes": ARRAY, "boxes_num": 2}, ValueError, r"boxes_num: shape \(\), expected \(2,\)"),
]  # fmt: skip
NO_NUMBERS = [None, "3", True, np.True_, 1j, [3], np.array(True), np.ma.masked]
WRONG_BOXES += [
    (
        [[0, 0, 0, one, 3]],
        TypeError,
        rf"boxes\[0\]\[3\]: {type(one).__module__}.*, expected a number",
    )
    for one in NO_NUMBERS
]


@pytest.mark.parametrize(
    ("boxes", "error", "message"), WRONG_BOXES, ids=[message[:60] for *_, message in WRONG_BOXES]
)
def test_wrong_boxes(boxes, error, message):
    given = boxes if isinstance(boxes, dict) and "boxes" in boxes else {"boxes": boxes}
    out = np.full((2, 4, 2, 2), 7, np.float32)
    with pytest.raises(error, match=message):
        roicy.roi_align(X, output_size=2, out=out, **given)
    assert (out == 7).all()


def test_a_list_that_holds_itself():
    rows = [[0, 0, 3, 3]]
    rows[0].append(rows)
    with pytest.raises(TypeError, match=r"boxes\[0\]\[4\]: builtins\.list, expected a number"):
        roicy.roi_align(X, rows, 2)


def test_halves_in_lists_may_be_rounded():
    """NumPy's numbers keep their type in lists, and with it the bound of batch indices."""
    x = np.broadcast_to(np.ones((1, 1, 1, 1), np.float32), (3000, 1, 1, 1))
    row = np.array([2048, 0, 0, 1, 1], np.float16)
    for rows in ([row], [tuple(row)], [list(row)] * 2):
        with pytest.raises(ValueError, match="batch index 2048 in float16, which is exact to 2048"):
            roicy.roi_align(x, rows, 1)


def test_out_that_overlaps_boxes(rng):
    memory = np.zeros(400, np.float32)
    boxes = memory[:8].reshape(2, 4)
    boxes[:] = [0, 0, 3, 3]
    x, out = X[:1], memory[4:36].reshape(2, 4, 2, 2)
    for rows in (boxes, WithArray(boxes), [boxes], [WithDLPack(boxes)]):
        with pytest.raises(ValueError, match="out: overlaps memory that the call reads"):
            roicy.roi_align(x, rows, 2, out=out)
    assert roicy.roi_align(x, boxes.tolist(), 2, out=out) is out  # the list was copied


# Samples


@pytest.mark.parametrize("ratio", [2.0, np.float32(2), np.float64(2), np.float16(2), np.int8(2)])
@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align", "roi_align_max"])
def test_whole_floats(name, ratio, rng):
    (x, boxes), pool = make(rng), operator(name)
    expected = pool(x, boxes, 2, sampling_ratio=2)
    assert_same_bits(pool(x, boxes, 2, sampling_ratio=ratio), expected)
    for none in (0.0, -1.0, -0.0):
        assert_same_bits(pool(x, boxes, 2, sampling_ratio=none), pool(x, boxes, 2))


# The calls of other systems


def test_compat(rng):
    x, boxes = make(rng)
    boxes = boxes[np.argsort(boxes[:, 0], kind="stable")]
    corners, one = boxes[:, 1:], x[:1].copy()
    counts = np.bincount(boxes[:, 0].astype(int), minlength=3)
    images = boxes[:, 0].astype(int)
    likes = WithArray(x), boxes.tolist(), corners.tolist()
    lists = [corners[images == n].tolist() for n in range(3)]
    for call, plain, other in [
        (mxnet.ROIPooling, (x, boxes, (2, 2), 1.0), (x, boxes.tolist(), (2, 2), 1.0)),
        (mxnet.ROIAlign, (x, boxes, (2, 2), 1.0, 2), (*likes[:2], (2, 2), 1.0, 2.0)),
        (paddle.roi_align, (x, corners, 2, 2, 1.0, 2, counts),
         (*likes[::2], 2, 2, 1.0, 2.0, counts)),
        (paddle.roi_pool, (one, corners, 2, 2), (memoryview(one), corners.tolist(), 2, 2)),
        (paddle.roi_align, (x, corners, counts, 2), (*likes[::2], WithArray(counts), 2)),
        (paddle.vision.ops.roi_pool, (x, corners, counts, 2), (*likes[::2], counts.tolist(), 2)),
        (onnx.RoiAlign, (x, corners, images), (likes[0], likes[2], images.tolist())),
        (torchvision.RoIAlign(2, 1.0, 2), (x, boxes), (likes[0], lists)),
        (torchvision.PSRoIAlign(2, 1.0, 2.0), (x, boxes), likes[:2]),
    ]:  # fmt: skip
        assert_same_bits(call(*other), call(*plain))
    pooled = onnx.MaxRoiPool(likes[0], likes[1], pooled_shape=(2, 2))
    assert_same_bits(pooled, onnx.MaxRoiPool(x, boxes, pooled_shape=(2, 2)))
    pooler = torchvision.MultiScaleRoIAlign(["a"], 2, 2.0)
    result = pooler({"a": WithArray(x)}, lists, [(20, 30)] * 3)
    assert_same_bits(result, pooler({"a": x}, [np.array(part) for part in lists], [(20, 30)] * 3))


def test_compat_errors():
    with pytest.raises(TypeError, match=r"rois\[0\]\[1\]: builtins\.NoneType, expected a number"):
        onnx.RoiAlign(X, [[0, None, 3, 3]], [0])
    with pytest.raises(ValueError, match=r"rois\[1\]: 4 numbers, expected 5"):
        mxnet.ROIPooling(X, [[0, 0, 0, 3, 3], [0, 0, 3, 3]], (1, 1), 1.0)


DEGREES = "boxes: an angle of 45, which is more than two turns; angles are in radians: of degrees"
SCORES = r"boxes: a score seems .*; %d columns are \[batch_index, .*score%s\] pass boxes\[:, :4\]"


SHARES = "boxes: all coordinates are of 0..1, and read as pixels; multiply those that are shares"
SIDES = r"boxes: x2 < x1 or y2 < y1, .* \[x, y, w, h\]; of these pass \[x, y, x \+ w, y \+ h\]$"
FORMS = [
    ([[0.1, 0.1, 0.5, 0.6], [0.2, 0.3, 0.9, 0.8], [0.05, 0.1, 0.5, 1.0]], SHARES),
    ([[0, 0, 0.5, 1]], SHARES),
    ([[0, 0, 1, 1], [0, 0, 1, 1]], None),
    ([[0.5, 0.5, 0.5, 1]], None),
    ([[0.1, 0.1, 0.5, 0.6], [0.2, 0.3, 0.9, 1.8]], None),
    ([[40, 40, 10, 12], [30, 50, 8, 9], [20, 33, 7, 7]], SIDES),
    ([[5, 40, 10, 12]], SIDES),
    ([[40, 5, 10, 12], [8, 9, 20, 30]], None),
    ([[40, 5, 10, 12], [30, 3, 20, 30]], SIDES),
    ([[40, 40, 10, 12], [50, 50, 30, 10]], None),
    ([[40, 40, 10, 12], [-1, 40, 10, 12]], None),
]


@pytest.mark.parametrize(("boxes", "message"), FORMS)
@pytest.mark.parametrize("side", [64, 15])
def test_forms_of_boxes(boxes, message, side, recwarn):
    """Rows [x, y, w, h] and shares of 1 are warned of by all operators of upright boxes."""
    maps, count = np.zeros((1, 4, side // 4, side // 4), np.float32), len(boxes)
    masks, rows = np.zeros((count, 3, 3), np.float32), np.array(boxes, np.float32)
    grad, images, scale = np.ones((count, 4, 1, 1), np.float32), np.insert(rows, 0, 0, 1), 0.25
    calls = {
        **{
            name: lambda f, given=given: f(maps, given, 1, scale)
            for names, given in [
                (("roi_align", "roi_pool", "ps_roi_pool"), boxes),
                (("ps_roi_align", "prroi_pool", "roi_align_max"), images),
                (("ps_prroi_pool",), [rows]),
            ]
            for name in names
        },
        "multiscale_roi_align": lambda f: f([maps, maps], images, 1, [scale, scale / 2]),
        "roi_align_backward": lambda f: f(grad, images, maps.shape, scale),
        "prroi_pool_backward_boxes": lambda f: f(grad, maps, images, scale),
        "paste_masks": lambda f: f(masks, rows, (side, side)),
        "prototype_masks": lambda f: f(maps[0], np.ones((count, 4)), boxes, (side, side)),
    }
    warnings.simplefilter("always")
    for name, call in calls.items():
        call(getattr(roicy, name))
        found = [(str(warning.message), warning.filename) for warning in recwarn]
        recwarn.clear()
        assert len(found) == (message is not None and side > 15), name
        for said, place in found:
            assert re.match(message, said)
            assert place == __file__


@pytest.mark.parametrize(
    ("name", "boxes", "message"),
    [
        ("roi_align", [[0, 1, 3, 4, 0.5], [1, 2, 4, 5, 0.9]], SCORES % (5, "")),
        ("roi_pool", np.array([[0, 1, 3, 4, 0.5]], np.float16), SCORES % (5, "")),
        ("roi_align_rotated", [[0, 1, 3, 4, 0.5, 2]], SCORES % (6, ", class")),
        ("roi_align_rotated", [[0, 1, 3, 4, 4, 0], [0, 1, 3, 4, 4, 45]], DEGREES),
        ("roi_align_rotated", [[[1, 3, 4, 4, 45]], []], DEGREES),
        ("roi_align", [[0, 1, 3, 4, 0.5], [1, 2, 4, 5, 4.5]], None),
        ("roi_align", [[[0, 1, 3, 0.5]], []], None),
        ("roi_align", [[0, 0, 0.9, 0.8, 0.5]], None),
        ("roi_align_rotated", [[0, 1, 3, 4, 0.5, 2.5], [0, 1, 3, 4, 4, 12.5]], None),
    ],
)
def test_boxes_that_hardly_were_meant(name, boxes, message, recwarn):
    """Scores where an index and coordinates are read, and degrees for radians, are warned of."""
    getattr(roicy, name)(X, boxes, 2)
    found = [(str(warning.message), warning.filename) for warning in recwarn]
    assert len(found) == (message is not None)
    if message:
        assert re.match(message, found[0][0])
        assert found[0][1] == __file__
