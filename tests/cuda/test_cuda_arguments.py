"""Arguments of calls with CuPy arrays: boxes in all formats, strides, `out`, edges and errors.

Each test runs on the GPU, on the stand-in for CuPy (cuda_emulation/), or on both.
"""

import itertools
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import (
    DTYPES,
    SUMS,
    WITH_BOX_GRADIENTS,
    operator,
    pairs,
    random_boxes,
    rotated_boxes,
    to_layout,
)
from cuda_emulation import standin
from cuda_emulation.calls import RUNS, make
from cuda_emulation.fixtures import ORDERS, assert_close

import roicy

X, BOXES = np.ones((2, 4, 6, 6), np.float32), np.array([[0, 1, 1, 3, 3]], np.float32)


@pairs(name=[*SUMS, "roi_pool", "roi_align_max", "roi_align_rotated"], dtype=DTYPES, cupy=ORDERS)
def test_formats_of_boxes(name, dtype, cupy, rng):
    """Boxes are arrays of the device of any type, or nested lists, which go there; boxes without
    images belong to the only image, or to those that counts say.
    """
    x = rng.standard_normal((2, 8, 9, 11)).astype(dtype)
    some_boxes = rotated_boxes if name == "roi_align_rotated" else random_boxes
    boxes = some_boxes(rng, 2, 9, (9, 11), dtype)
    boxes = boxes[np.argsort(boxes[:, 0], kind="stable")]
    parts = [boxes[boxes[:, 0] == n, 1:] for n in range(2)]
    corners, counts = boxes[:, 1:].copy(), list(map(len, parts))
    maps, rows = cupy.asarray(x), cupy.asarray(boxes)
    pool = operator(name)
    expected = pool(maps, rows, 2).get()
    g = cupy.asarray(rng.standard_normal(expected.shape).astype(dtype))
    passes = [(lambda given, **options: pool(maps, given, 2, **options), expected)]
    if name in (*SUMS, "roi_align_rotated"):
        backward = operator(name, "_backward")
        right = backward(g, rows, x.shape).get()
        passes.append((lambda given, **options: backward(g, given, x.shape, **options), right))
    if name in (*WITH_BOX_GRADIENTS, "roi_align_rotated"):
        of_boxes = operator(name, "_backward_boxes")
        right = of_boxes(g, maps, rows).get()
        passes.append((lambda given, **options: of_boxes(g, maps, given, **options), right))
    for call, right in passes:
        for given, options in (
            (cupy.asarray(boxes.astype(np.float64)), {}),
            (boxes.tolist(), {}),
            (tuple(map(tuple, boxes.tolist())), {}),
            ([part.tolist() for part in parts], {}),
            ([cupy.asarray(part) for part in parts], {}),
            (corners.tolist(), {"boxes_num": counts}),
            (cupy.asarray(corners), {"boxes_num": counts}),
        ):
            found = call(given, **options)
            if isinstance(found, list):  # gradients of the boxes of each image
                assert [part.shape for part in found] == [part.shape for part in parts]
                found, right_ = np.concatenate([part.get() for part in found]), right[:, 1:]
            else:
                found = found.get()
                right_ = right[:, right.shape[1] - found.shape[1] :] if right.ndim == 2 else right
            np.testing.assert_array_equal(found, right_)
            assert found.dtype == dtype
    boxes[:, 0] = 0
    one = pool(maps[:1], cupy.asarray(boxes), 2).get()
    for given in (corners.tolist(), cupy.asarray(corners), [corners.tolist()]):
        np.testing.assert_array_equal(pool(maps[:1], given, 2).get(), one)


def test_lists_beside_arrays_of_cupy(cupy):
    maps = cupy.asarray(X)
    rows = [[0, 0, 3, 3]]
    rows[0].append(rows)  # a list that holds itself
    for wrong, error, message in [
        (rows, TypeError, r"boxes\[0\]\[4\]: builtins\.list, expected a number"),
        ([[0, 1, 1, None, 3]], TypeError, r"boxes\[0\]\[3\]: builtins\.NoneType, expected"),
        ([[0, 1, 1, 3]], ValueError, r"boxes: shape \(1, 4\), expected \(K, 5\) .* one image"),
        ([BOXES[:, 1:]] * 2, TypeError, r"boxes\[0\]: numpy\.ndarray, expected a cupy\.ndarray"),
        ([[[1, 1, 3, 3]]], ValueError, "boxes: a list of 1 arrays, expected one for each"),
        ([cupy.asarray(BOXES[0])] * 2, TypeError, r"boxes\[0\]: .*, which NumPy cannot read"),
    ]:
        with pytest.raises(error, match=message):
            roicy.roi_align(maps, wrong, 2)
    mixed = [cupy.asarray(BOXES[:, 1:]), [[1, 1, 3, 3]]]
    right = roicy.roi_align(maps, [mixed[0], mixed[0]], 2).get()
    np.testing.assert_array_equal(roicy.roi_align(maps, mixed, 2).get(), right)


def test_no_boxes(cupy):
    """They are an array without numbers, too, of the device or in a list."""
    maps, none = cupy.asarray(X), cupy.asarray(np.array([]))
    rows, corners = (cupy.asarray(np.empty((0, columns))) for columns in (5, 4))
    for name in ("roi_align", "roi_pool", "ps_roi_align"):
        for boxes in (none, [none, none], [], rows, corners):
            assert operator(name)(maps, boxes, 2).shape[0] == 0
        for boxes in (none, []):
            assert operator(name)(maps, boxes, 2, boxes_num=[0, 0]).shape[0] == 0
    grad = cupy.asarray(np.empty((0, 4, 2, 2), np.float32))
    backward_boxes = roicy.roi_align_backward_boxes
    for boxes in (none, rows):
        assert not roicy.roi_align_backward(grad, boxes, X.shape).get().any()
        assert backward_boxes(grad, maps, boxes).shape == (0, 5)
    for boxes in ([], [corners, corners]):
        assert [part.shape for part in backward_boxes(grad, maps, boxes)] == [(0, 4)] * 2
    assert backward_boxes(grad, maps[:0], []) == []


def test_maps_without_pixels(cupy):
    maps, boxes = cupy.asarray(X), cupy.asarray(BOXES)
    assert not roicy.roi_align(maps[:, :, :0], boxes, 2).get().any()
    grad = cupy.asarray(np.ones((1, 4, 2, 2), np.float32))
    found = roicy.roi_align_backward_boxes(grad, maps[:, :, :, :0], boxes)
    assert found.get().tolist() == [[0] * 5]


@pairs(
    name=["roi_align", "prroi_pool", "ps_roi_align", "roi_pool"], bins=[(1, 1), (3, 3), (4, 2)],
    **RUNS,
)  # fmt: skip
def test_addresses_of_no_vectors(name, bins, kind, cupy, rng):
    """Arrays may begin anywhere, and nothing is read or written beside them."""
    dtype, layout = kind
    x, boxes, _ = make(rng, name, "blocks", 1, dtype)
    channels = 2 * bins[0] * bins[1] if name.startswith("ps_") else 20
    x = to_layout(np.ascontiguousarray(x[:, :channels]), layout)
    rows, options = cupy.asarray(boxes), {"layout": layout}
    expected = operator(name)(x, boxes, bins, **options)
    grad = rng.standard_normal(expected.shape).astype(dtype)
    passes = [(operator(name), x, bins, expected)]
    if name != "roi_pool":
        backward = operator(name, "_backward")
        passes.append((backward, grad, x.shape, backward(grad, boxes, x.shape, **options)))

    def between(array, before):
        """Return memory of NaN, and a copy of an array that begins at an element of it."""
        memory = cupy.asarray(np.full(array.size + 8, np.nan, dtype))
        part = memory[before : before + array.size]
        part[:] = cupy.asarray(array.ravel())
        return memory, part.reshape(array.shape)

    for function, given, size, right in passes:
        for start, of_given in itertools.product(range(3), (0, 1, 3)):
            memory, out = between(0 * right, start)
            function(between(given, of_given)[1], rows, size, out=out, **options)
            assert_close(out, right)
            assert np.isnan(memory.get()).sum() == 8


def test_batch_indices_beyond_the_type_of_the_data(cupy):
    """Boxes in float64 and int64 keep batch indices that float32 cannot hold."""
    images = 2**24 + 4
    x = np.zeros((images, 1, 1, 1), np.float32)
    x[-5:, 0, 0, 0] = range(1, 6)
    boxes = np.zeros((7, 5))
    boxes[:5, 0] = np.arange(images - 5, images)
    boxes[:, 3:] = 1
    boxes[5:, 0] = images, -1
    on_device = cupy.asarray(x)
    for dtype in (np.float64, np.int64):
        rows = cupy.asarray(boxes.astype(dtype))
        for name in ("roi_pool", "roi_align", "roi_align_max"):
            options = {"sampling_ratio": 1} if "align" in name else {}
            out = operator(name)(on_device, rows, 1, **options)
            np.testing.assert_array_equal(out.get().ravel(), [1, 2, 3, 4, 5, 0, 0])
        g = cupy.asarray(np.ones((7, 1, 1, 1), np.float32))
        grad = roicy.roi_align_backward_boxes(g, on_device, rows).get()
        assert grad.shape == (7, 5)


def test_any_strides_and_out(cupy, rng):
    x, boxes, bins = make(rng, "roi_align", "blocks", 1, np.float32)
    expected = roicy.roi_align(x, boxes, bins)
    turned = cupy.asarray(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose((0, 3, 1, 2))
    assert_close(roicy.roi_align(turned, cupy.asarray(boxes), bins, num_threads=3), expected)
    out = cupy.asarray(np.full(expected.shape[::-1], np.nan, np.float32)).transpose((3, 2, 1, 0))
    assert roicy.roi_align(turned, cupy.asarray(boxes), bins, out=out) is out
    assert_close(out, expected)


# Columns of boxes, and values in them that are errors on the CPU.
BAD = [
    (0, 5), (0, -1), (0, 0.5), (0, np.nan), (0, 1e30), (1, np.nan), (2, np.inf), (3, -np.inf),
    (4, 3e38),
]  # fmt: skip


def test_values_that_are_errors_on_the_cpu(cupy, rng):
    """A wrong box reads nothing and adds nothing, and the results of other boxes do not change."""
    x, boxes, bins = make(rng, "roi_align", "blocks", 1, np.float32)
    x, bins = x[:, :12], (2, 2)
    wrong, places = boxes.copy(), np.arange(3, 3 + 2 * len(BAD), 2)
    for place, (column, value) in zip(places, BAD, strict=True):
        wrong[place, column] = value
    high = places[-1]
    wrong[high, 2] = -3e38  # both corners are finite, but the height is infinite
    others = np.setdiff1d(np.arange(len(boxes)), places)
    maps, rows = cupy.asarray(x), cupy.asarray(wrong)
    for name in (*SUMS, "roi_pool", "roi_align_max"):
        expected = operator(name)(x, boxes[others], bins)
        out = operator(name)(maps, rows, bins).get()
        # Operators that count whole pixels, whose boxes have no gradients, find the last box only
        # far away.
        nothing = places if name in (*WITH_BOX_GRADIENTS, "roi_align_max") else places[:-1]
        assert not out[nothing].any(), name
        np.testing.assert_allclose(out[others], expected, rtol=0, atol=1e-4)
        g = rng.standard_normal(out.shape).astype(np.float32)
        g[high] = 0
        if name in SUMS:
            grad = operator(name, "_backward")(cupy.asarray(g), rows, x.shape).get()
            right = operator(name, "_backward")(g[others], boxes[others], x.shape)
            np.testing.assert_allclose(grad, right, rtol=0, atol=1e-4)
        if name in WITH_BOX_GRADIENTS:
            grad = operator(name, "_backward_boxes")(cupy.asarray(g), maps, rows).get()
            assert not grad[places].any()


def test_argmax_that_points_nowhere(cupy):
    boxes = cupy.asarray(np.array([[0, 0, 0, 2, 2], [9, 0, 0, 2, 2]], np.float32))
    g = cupy.asarray(np.ones((2, 1, 2, 2), np.float32))
    argmax = cupy.asarray(np.array([16, -2, 2**31 - 1, 3] * 2, np.int32).reshape(2, 1, 2, 2))
    grad = roicy.roi_pool_backward(g, argmax, boxes, (1, 1, 4, 4)).get()
    assert grad.sum() == 1
    assert grad[0, 0, 0, 3] == 1


def test_rotated_values_that_are_errors_on_the_cpu(cupy, rng):
    x = rng.standard_normal((2, 5, 12, 14))
    boxes = rotated_boxes(rng, 2, 6, (12, 14), np.float64)
    expected = roicy.roi_align_rotated(x, boxes, 2)
    boxes[2, 5], boxes[4, 0], boxes[5, 3] = np.nan, 7, np.inf
    expected[[2, 4, 5]] = 0
    out = roicy.roi_align_rotated(cupy.asarray(x), cupy.asarray(boxes), 2).get()
    np.testing.assert_allclose(out, expected, atol=1e-12)


def align(*rest, operator=roicy.roi_align, maps=X, boxes=BOXES, **options):
    """Return a call with arrays of the device."""
    return lambda c: operator(c.asarray(maps), c.asarray(boxes), *rest, **options)


ERRORS = [
    (lambda c: roicy.roi_align(c.asarray(X), BOXES, 2), TypeError,
     "boxes: numpy.ndarray, expected a cupy.ndarray, as the other arrays are"),
    (lambda c: roicy.roi_align(X, c.asarray(BOXES), 2), TypeError,
     "input: numpy.ndarray, expected a cupy.ndarray"),
    (align(2, maps=X.astype(np.float16)), TypeError,
     "input: dtype float16, expected float32 or float64"),
    (align(2, maps=X[0]), ValueError, r"input: shape \(4, 6, 6\), expected \(N, C, H, W\)"),
    (align(2, boxes=BOXES[:, 1:]), ValueError,
     r"boxes: shape \(1, 4\), expected \(K, 5\).*boxes_num"),
    (lambda c: roicy.roi_align(c.asarray(X), [c.asarray(BOXES[:, 1:])], 2), ValueError,
     "boxes: a list of 1 arrays, expected one for each of"),
    (align(2, boxes=BOXES[:, 1:], boxes_num=[1, 1]), ValueError, "boxes_num: counts that sum to 2"),
    (align(0), ValueError, "output_size: 0"),
    (align(2, -1), ValueError, "spatial_scale: -1"),
    (align(2, sampling_ratio=0.5), ValueError, "sampling_ratio: 0.5"),
    (align(2, layout="CHWN"), ValueError, "layout: 'CHWN'"),
    (align(2, out=np.ones((1, 4, 2, 2), np.float32)), TypeError,
     "out: numpy.ndarray, expected a cupy"),
    (lambda c: align(2, out=c.asarray(X))(c), ValueError,
     r"out: shape \(2, 4, 6, 6\), expected \(1, 4, 2, 2\)"),
    (align(2, (0.5, 0.25), operator=roicy.roi_align_rotated), ValueError,
     "spatial_scale: .* expected one number"),
    (align(2, operator=roicy.roi_align_rotated), ValueError,
     r"expected \(K, 6\) with rows \[batch_index, cx, cy"),
    (align(3, operator=roicy.ps_roi_align), ValueError,
     "input: 4 channels, expected a multiple of the 3 x 3 bins"),
    (lambda c: roicy.roi_align_backward(c.asarray(X), c.asarray(BOXES), (1, 4, 6, 6)), ValueError,
     r"grad_output: shape .* expected \(1, 4, 6, 6\)"),
    (lambda c: roicy.roi_pool_backward(
        c.asarray(X), np.ones(X.shape, np.int32), c.asarray(BOXES), (1, 4, 6, 6)), ValueError,
     "grad_output: shape"),
    (lambda c: roicy.multiscale_roi_align(
        [c.asarray(X), c.asarray(X)], c.asarray(BOXES), 2, [1, 2]), ValueError,
     "spatial_scale: .* fine to coarse"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), ERRORS, ids=[message[:40] for *_, message in ERRORS]
)
def test_errors(call, error, message, emulated):
    before = len(standin.launches)
    with pytest.raises(error, match=message):
        call(emulated)
    assert len(standin.launches) == before


def test_arrays_of_two_devices(emulated):
    class Other:
        def __repr__(self):
            return "another device"

    boxes = emulated.asarray(BOXES)
    boxes.device = Other()
    message = "boxes: on another device, expected .*, where the other arrays are"
    with pytest.raises(ValueError, match=message):
        roicy.roi_align(emulated.asarray(X), boxes, 2)
    out = emulated.zeros((1, 4, 2, 2), np.float32)
    out.device = Other()
    with pytest.raises(ValueError, match="out: on another device"):
        roicy.prroi_pool(emulated.asarray(X), emulated.asarray(BOXES), 2, out=out)


def test_gradient_of_largest_samples_is_refused(emulated):
    """It is for NumPy arrays alone, also if only one is of CuPy."""
    grad = np.ones((len(BOXES), X.shape[1], 2, 2), np.float32)
    roicy.roi_align_max_backward(grad, X, BOXES)
    message = "roi_align_max_backward: an array of CuPy, expected arrays of NumPy"
    for i in range(3):
        given = [grad, X, BOXES]
        given[i] = emulated.asarray(given[i])
        with pytest.raises(TypeError, match=message):
            roicy.roi_align_max_backward(*given)
    with pytest.raises(TypeError, match=message):
        roicy.roi_align_max_backward(grad, X, BOXES, out=emulated.asarray(X))


def test_page(cupy, rng, monkeypatch):
    """The example of docs/gpu.md runs as it is printed."""
    (example,) = re.findall(
        r"```python\n# fragment: needs a GPU\n(import cupy\n.*?)```",
        (Path(__file__).parents[2] / "docs/gpu.md").read_text(),
        re.DOTALL,
    )
    if cupy is standin:
        random = SimpleNamespace(rand=lambda *shape, dtype: cupy.asarray(rng.random(shape, dtype)))
        monkeypatch.setattr(standin, "random", random, raising=False)
        monkeypatch.setattr(standin, "float32", np.float32, raising=False)
    names = {}
    exec(example, names)
    assert names["pooled"].shape == (1, 256, 7, 7)
    assert isinstance(names["pooled"], cupy.ndarray)
