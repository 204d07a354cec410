"""Every function returns the `out` that it is given: that object, of whatever class of arrays."""

import inspect
import itertools

import numpy as np
import pytest
from conftest import SUMS, assert_same_bits
from protocols import Named

import roicy
from roicy.compat.paddle import LoDTensor


def memmap(array, path):
    return np.memmap(path, array.dtype, "w+", shape=array.shape)


def named(array, path):
    return np.empty(array.shape, array.dtype).view(Named)


def strided(array, path):
    return np.empty((*array.shape[:-1], 2 * array.shape[-1]), array.dtype).view(Named)[..., ::-2]


def reversed_axes(array, path):
    return np.empty(array.shape[::-1], array.dtype).view(LoDTensor).T


KINDS = [memmap, named, strided, reversed_axes]
RNG = np.random.default_rng(1)
X, BOXES = RNG.random((2, 8, 12, 10)), np.array([[1, 1, 2, 8, 9], [0, 0, 0, 5, 5.0]])
TURNED = np.insert(BOXES, 5, 0.3, axis=1)
LEVELS, SCALES = [X, X[:, :, ::2, ::2].copy()], [1.0, 0.5]
SHAPES = [level.shape for level in LEVELS]
GRADS = {8: RNG.random((2, 8, 2, 2)), 2: RNG.random((2, 2, 2, 2))}
FRAME = np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3)
UNITS = [[0.1, 0.1, 1.2, 0.9], [0, 0, 1, 1]]


def calls():
    """Yield names of functions, and calls of them that take `out`."""
    for name in SUMS:
        grad = GRADS[2 if name.startswith("ps_") else 8]
        yield name, lambda f, **o: f(X, BOXES, 2, **o)
        yield f"{name}_backward", lambda f, grad=grad, **o: f(grad, BOXES, X.shape, **o)
    yield "roi_align_rotated", lambda f, **o: f(X, TURNED, 2, **o)
    yield "roi_align_rotated_backward", lambda f, **o: f(GRADS[8], TURNED, X.shape, **o)
    yield "roi_align_max", lambda f, **o: f(X, BOXES, 2, **o)
    yield "roi_align_max_backward", lambda f, **o: f(GRADS[8], X, BOXES, **o)
    yield "roi_pool", lambda f, **o: f(X, BOXES, 2, **o)
    yield "roi_pool", lambda f, **o: f(X, BOXES, 2, return_argmax=True, **o)[0]
    argmax = np.full((2, 8, 2, 2), 3, np.int32)
    yield "roi_pool_backward", lambda f, **o: f(GRADS[8], argmax, BOXES, X.shape, **o)
    for name, boxes in (("multiscale_roi_align", BOXES), ("multiscale_roi_align_rotated", TURNED)):
        yield name, lambda f, boxes=boxes, **o: f(LEVELS, boxes, 2, SCALES, **o)
        backward = f"{name}_backward"
        yield backward, lambda f, boxes=boxes, **o: f(GRADS[8], boxes, SHAPES, SCALES, **o)
    yield "crop_and_resize", lambda f, **o: f(X, UNITS, [0, 1], 3, extrapolation_value=7, **o)
    yield "crop_and_resize_backward", lambda f, **o: f(GRADS[8], UNITS, [0, 1], X.shape, **o)
    yield "crop", lambda f, **o: f(FRAME, BOXES[:, 1:], 4, **o)
    yield "crop", lambda f, **o: f(FRAME, BOXES[:, 1:], 4, dtype="int8", **o)
    yield "crop", lambda f, **o: f(FRAME, BOXES[:, 1:], 4, return_matrices=True, **o)[0]
    yield "crop_lines", lambda f, **o: f(FRAME, BOXES[:, 1:], 4, **o)[0]
    yield "resize", lambda f, **o: f(FRAME, 4, BOXES[:, 1:] / 2, **o)
    yield "resize", lambda f, **o: f(FRAME, 4, patch=2, dtype="int8", **o)
    yield "resize", lambda f, **o: f(FRAME, 4, tiles=(2, 1), overview="last", **o)
    masks = X[:, 0]
    yield "paste_masks", lambda f, **o: f(masks, BOXES[:, 1:], (12, 10), **o)
    yield "paste_masks", lambda f, **o: f(masks, BOXES[:, 1:], (12, 10), threshold=None, **o)
    yield "prototype_masks", lambda f, **o: f(X[0], X[:, :, 0, 0], BOXES[:, 1:], (12, 10), **o)
    yield "label_map", lambda f, **o: f(X, (20, 30), **o)
    yield "label_map", lambda f, **o: f(X[0], (20, 30), values=True, **o)[0]
    yield "label_segments", lambda f, **o: f(X, (20, 30), **o)[0]
    yield "paint_masks", lambda f, **o: f(X, (20, 30), **o)
    yield "resize_masks", lambda f, **o: f(masks, (20, 30), **o)
    value, at = X[..., :6].transpose(0, 2, 1, 3), X[:, :, :8, :8].reshape(2, 8, 8, 1, 4, 2)
    yield "deformable_attention", lambda f, **o: f(value, [(3, 4)], at, at[..., 0], **o)


CALLS = [(name, call) for name, call in calls()]


def test_all_functions_are_here():
    functions = {name: getattr(roicy, name) for name in roicy.__all__}
    takes_out = {
        name
        for name, function in functions.items()
        if callable(function) and "out" in inspect.signature(function).parameters
    }
    assert takes_out | {"crop_lines"} == {name for name, _ in CALLS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_out_comes_back(name, call, kind, tmp_path):
    function = getattr(roicy, name)
    expected = call(function)
    paths = (tmp_path / str(i) for i in itertools.count())
    if isinstance(expected, list):
        outs = [kind(one, next(paths)) for one in expected]
        assert call(function, out=outs) is outs
        again = call(function, out=tuple(outs))
        assert all(one is other for one, other in zip(again, outs, strict=True))
        first, new = call(function, out=[outs[0], None])  # of which the second is made
        assert first is outs[0]
        assert_same_bits(new, expected[1])
    else:
        outs, expected = [kind(expected, next(paths))], [expected]
        assert call(function, out=outs[0]) is outs[0]
    for out, right in zip(outs, expected, strict=True):
        assert_same_bits(np.array(out), right)
        if kind is memmap:
            out.flush()
            assert_same_bits(np.fromfile(out.filename, right.dtype).reshape(right.shape), right)


def test_out_of_small_types_comes_back():
    """Where results are rounded or there are none, too."""
    x = (100 * X).astype(np.uint8)
    for boxes in (BOXES, BOXES[:0]):
        out = np.zeros((len(boxes), 8, 2, 2), np.uint8).view(Named)
        assert roicy.roi_align(x, boxes, 2, out=out) is out
        expected = np.rint(roicy.roi_align(x, boxes, 2))
        np.testing.assert_array_equal(out, expected)
        values = boxes[:, 1:] / 10
        given = values, boxes[:, 0].astype(int), 2, "bilinear", 300
        assert roicy.crop_and_resize(x, *given, out=out) is out
        np.testing.assert_array_equal(out, roicy.crop_and_resize(x, *given).clip(0, 255).round())
