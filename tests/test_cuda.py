"""
The operators on CuPy arrays agree with those on the CPU.

Without a GPU the same kernels run on the CPU, with a stand-in for CuPy (cuda_emulation/).  Each
test runs on the GPU, on the stand-in, or on both.
"""

import inspect
import itertools
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import (
    DTYPES,
    LAYOUTS,
    SUMS,
    WITH_BOX_GRADIENTS,
    operator,
    pairs,
    random_boxes,
    to_layout,
    two_scales,
)
from cuda_emulation import standin
from test_recorded import CASES, OTHERWISE, load
from test_rotated import rotated_boxes

import roicy
from roicy import _call, _cpu
from roicy._arguments import Arguments
from roicy._table import R_FCN_POOL
from roicy.bench.workloads import WORKLOADS
from roicy.cuda import _launch, _plan, backend


def real():
    try:
        import cupy
    except ImportError:
        return None
    return cupy if cupy.cuda.is_available() else None


def forget():
    """Forget the kernels that were made with another CuPy, and finish what is queued."""
    standin.synchronize(standin.Stream.null)
    _launch._kernel.cache_clear()
    _launch._launch.cache_clear()


# Orders in which the stand-in runs threads, and the GPU if there is one.
ORDERS = ("forward", "reverse", "mixed", *(("GPU",) if real() else ()))
# What decides which instantiation of a kernel runs: each runs in every order.
KINDS = tuple(itertools.product(DTYPES, LAYOUTS))
RUNS = {"kind": KINDS, "cupy": ORDERS}


@pytest.fixture(params=ORDERS)
def cupy(request, monkeypatch):
    """Return CuPy, or the stand-in, which runs threads in some order."""
    module = real() if request.param == "GPU" else standin
    if module is standin and shutil.which("g++") is None:
        pytest.skip("no g++")
    if module is standin:
        monkeypatch.setattr(standin, "order", request.param)
    monkeypatch.setitem(sys.modules, "cupy", module)
    forget()
    yield module
    forget()


@pytest.fixture
def emulated(monkeypatch):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    monkeypatch.setattr(standin, "order", "forward")
    monkeypatch.setitem(sys.modules, "cupy", standin)
    forget()
    yield standin
    forget()


def assert_close(actual, expected, terms=400):
    """Check sums that add in another order: they differ by less than `terms` roundings."""
    actual = actual.get()
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.size:
        assert np.abs(actual - expected).max() <= terms * np.finfo(expected.dtype).eps * max(
            np.abs(expected).max(), 1e-30
        )


PARAMETERS = {
    "roi_align": [
        {"sampling_ratio": 2, "spatial_scale": 0.5},
        {"aligned": True, "spatial_scale": (0.25, 0.4)},
    ],
    "ps_roi_align": [{"sampling_ratio": 2, "spatial_scale": 0.5}, {"spatial_scale": (0.25, 0.4)}],
    "prroi_pool": [{"spatial_scale": (0.5, 0.3)}],
    "ps_prroi_pool": [{"spatial_scale": 0.5}],
    "ps_roi_pool": [{"spatial_scale": (0.3, 0.5)}],
}
SUM_CASES = [(name, i) for name in SUMS for i in range(len(PARAMETERS[name]))]
# Each shape is boxes, images, channels, rows, columns and bins. "tiles" has more bins, wider
# windows and more channels than a warp takes at once. "bins" and "boxes" have more of these than
# there are lanes. "parts" has planes of several parts, and bins of many rows.  "vectors" has rows
# and channels of whole vectors.
SHAPES = {
    "blocks": (30, 2, 21, 17, 19, (3, 4)),
    "row": (6, 3, 1, 1, 23, (2, 2)),
    "pixel": (5, 2, 9, 1, 1, (2, 3)),
    "tiles": (6, 1, 150, 40, 90, (10, 11)),
    "bins": (3, 1, 5, 40, 30, (37, 2)),
    "boxes": (200, 2, 9, 9, 11, (3, 3)),
    "parts": (6, 1, 3, 90, 100, (2, 2)),
    "vectors": (12, 2, 40, 13, 24, (3, 4)),
}


def make(rng, name, shape, scale, dtype):
    count, n, c, h, w, bins = SHAPES[shape]
    vertical, horizontal = two_scales({"spatial_scale": scale})
    if name.startswith("ps_"):
        c = max(c // 9, 1) * bins[0] * bins[1]
    x = rng.standard_normal((n, c, h, w)).astype(dtype)
    return x, random_boxes(rng, n, count, (h / vertical, w / horizontal), dtype), bins


@pairs(case=SUM_CASES, shape=SHAPES, **RUNS)
def test_sums(case, shape, kind, cupy, rng):
    """The forward pass and both gradients agree with those of the CPU."""
    dtype, layout = kind
    name, parameters = case[0], PARAMETERS[case[0]][case[1]]
    x, boxes, bins = make(rng, name, shape, parameters["spatial_scale"], dtype)
    x = to_layout(x, layout)
    options = {**parameters, "layout": layout}
    on_device = cupy.asarray(x), cupy.asarray(boxes)
    out = operator(name)(*on_device, bins, **options)
    expected = operator(name)(x, boxes, bins, **options)
    assert isinstance(out, cupy.ndarray)
    assert_close(out, expected)
    g = rng.standard_normal(expected.shape).astype(dtype)
    backward = operator(name, "_backward")
    assert_close(
        backward(cupy.asarray(g), on_device[1], x.shape, **options),
        backward(g, boxes, x.shape, **options),
    )
    if name in WITH_BOX_GRADIENTS:
        backward_boxes = operator(name, "_backward_boxes")
        expected = backward_boxes(g, x, boxes, **options)
        # Gradients of boxes are sums over all channels, bins and pixels, whose terms cancel.
        assert_close(backward_boxes(cupy.asarray(g), *on_device, **options), expected, 4000)


@pairs(name=[*SUMS, "roi_pool", "roi_align_max"], dtype=DTYPES, cupy=ORDERS)
def test_lists_of_numbers(name, dtype, cupy, rng):
    """Nested lists of boxes go to the device, and boxes (K, 4) belong to the only image."""
    x = rng.standard_normal((2, 8, 9, 11)).astype(dtype)
    boxes = random_boxes(rng, 2, 9, (9, 11), dtype)
    boxes = boxes[np.argsort(boxes[:, 0], kind="stable")]
    listed = [boxes[boxes[:, 0] == n, 1:].tolist() for n in range(2)]
    maps = cupy.asarray(x)
    expected = operator(name)(maps, cupy.asarray(boxes), 2).get()
    one = operator(name)(cupy.asarray(x[:1]), cupy.asarray(boxes * [0, 1, 1, 1, 1]), 2).get()
    g = cupy.asarray(rng.standard_normal(expected.shape).astype(dtype))
    for rows in (boxes.tolist(), tuple(map(tuple, boxes.tolist())), listed):
        np.testing.assert_array_equal(operator(name)(maps, rows, 2).get(), expected)
    corners = boxes[:, 1:].copy()
    for rows in (corners.tolist(), cupy.asarray(corners), [corners.tolist()]):
        np.testing.assert_array_equal(operator(name)(maps[:1], rows, 2).get(), one)
    counted = operator(name)(maps, corners.tolist(), 2, boxes_num=list(map(len, listed)))
    np.testing.assert_array_equal(counted.get(), expected)
    if name in WITH_BOX_GRADIENTS:
        backward = operator(name, "_backward_boxes")
        right = backward(g, maps, cupy.asarray(boxes)).get()
        np.testing.assert_array_equal(backward(g, maps, boxes.tolist()).get(), right)
        parts = backward(g, maps, listed)
        np.testing.assert_array_equal(np.concatenate([part.get() for part in parts]), right[:, 1:])
        given = backward(g, maps[:1], corners.tolist()).get()
        assert given.shape == corners.shape
        assert given.dtype == dtype
    if name in SUMS:
        backward = operator(name, "_backward")
        right = backward(g, cupy.asarray(boxes), x.shape).get()
        np.testing.assert_array_equal(backward(g, listed, x.shape).get(), right)


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


def test_whole_floats(cupy):
    maps, boxes = cupy.asarray(X), cupy.asarray(BOXES)
    for name in ("roi_align", "roi_align_max"):
        expected = operator(name)(maps, boxes, 2, sampling_ratio=2).get()
        result = operator(name)(maps, boxes, 2, sampling_ratio=2.0).get()
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("case", CASES)
def test_recorded(case, emulated):
    name, size, keywords, arrays = load(case)
    otherwise = OTHERWISE.get(case, set())
    x, boxes, grad_out = (emulated.asarray(arrays[key]) for key in ("x", "boxes", "grad_out"))
    if name == "roi_pool":
        out, argmax = roicy.roi_pool(x, boxes, size, return_argmax=True, **keywords)
        grad = roicy.roi_pool_backward(grad_out, argmax, boxes, x.shape)
    else:
        out = operator(name)(x, boxes, size, **keywords)
        grad = operator(name, "_backward")(grad_out, boxes, x.shape, **keywords)
    for key, result in (("out", out), ("grad_x", grad)):
        if key not in otherwise:
            expected = arrays[key]
            assert np.abs(result.get() - expected).max(initial=0) <= (
                1e-5 if x.dtype == np.float32 else 1e-12
            ) * np.abs(expected).max(initial=0)


@pairs(shape=SHAPES, **RUNS)
def test_roi_pool(shape, kind, cupy, rng):
    dtype, layout = kind
    x, boxes, bins = make(rng, "roi_pool", shape, 0.5, dtype)
    x[0, :, -1] = np.nan
    x = to_layout(x, layout)
    expected, expected_at = roicy.roi_pool(x, boxes, bins, 0.5, layout=layout, return_argmax=True)
    out, argmax = roicy.roi_pool(
        cupy.asarray(x), cupy.asarray(boxes), bins, 0.5, layout=layout, return_argmax=True
    )
    np.testing.assert_array_equal(out.get(), expected)
    np.testing.assert_array_equal(argmax.get(), expected_at)
    np.testing.assert_array_equal(
        roicy.roi_pool(cupy.asarray(x), cupy.asarray(boxes), bins, 0.5, layout=layout).get(),
        expected,
    )
    g = rng.standard_normal(expected.shape).astype(dtype)
    grad = roicy.roi_pool_backward(
        cupy.asarray(g), argmax, cupy.asarray(boxes), x.shape, layout=layout
    )
    assert_close(grad, roicy.roi_pool_backward(g, expected_at, boxes, x.shape, layout=layout))


@pairs(shape=["blocks", "parts", "boxes", "bins", "tiles"], **RUNS)
def test_argmax_of_anything(shape, kind, cupy, rng):
    """Bins of any two places may have the same pixel, and their gradients are all added."""
    dtype, layout = kind
    x, boxes, bins = make(rng, "roi_pool", shape, 1, dtype)
    grad = rng.integers(-8, 8, (len(boxes), x.shape[1], *bins)).astype(dtype)
    pixels = x.shape[2] * x.shape[3]
    some = rng.choice(pixels, 3)  # few pixels for many bins
    argmax = np.where(rng.random(grad.shape) < 0.5, rng.choice(some, grad.shape), -1)
    argmax = argmax.astype(np.int32)
    grad, argmax = to_layout(grad, layout), to_layout(argmax, layout)
    shape = to_layout(x, layout).shape
    result = roicy.roi_pool_backward(
        cupy.asarray(grad), cupy.asarray(argmax), cupy.asarray(boxes), shape, layout=layout
    )
    expected = roicy.roi_pool_backward(grad, argmax, boxes, shape, layout=layout)
    np.testing.assert_array_equal(result.get(), expected)  # these sums are exact


@pairs(name=["roi_align", "roi_pool"], **RUNS)
def test_addresses_of_no_vectors(name, kind, cupy, rng):
    """Arrays may begin anywhere, and nothing is read or written beside them."""
    dtype, layout = kind
    x, boxes, _ = make(rng, name, "blocks", 1, dtype)
    x = to_layout(np.ascontiguousarray(x[:, :20]), layout)
    for bins in ((1, 1), (3, 3), (4, 2)):
        expected = operator(name)(x, boxes, bins, layout=layout)
        for start, of_input in itertools.product(range(3), (0, 1, 3)):
            memory = np.full(x.size + 8, np.nan, dtype)
            memory[of_input : of_input + x.size] = x.ravel()
            maps = cupy.asarray(memory)[of_input : of_input + x.size].reshape(x.shape)
            memory = cupy.asarray(np.full(expected.size + 8, 77, dtype))
            out = memory[start : start + expected.size].reshape(expected.shape)
            operator(name)(maps, cupy.asarray(boxes), bins, layout=layout, out=out)
            assert_close(out, expected)
            beside = memory.get()
            assert (beside[:start] == 77).all()
            assert (beside[start + expected.size :] == 77).all()


@pairs(name=[*SUMS, "roi_pool"], **RUNS)
def test_gradients_that_are_no_numbers(name, kind, cupy, rng):
    """Gradients that are NaN or infinite reach the same pixels as on the CPU, and no others."""
    dtype, layout = kind
    x, boxes, bins = make(rng, name, "blocks", 1, dtype)
    boxes[:, 3:] = boxes[:, 1:3] + (boxes[:, 3:] - boxes[:, 1:3]) / 3
    options = {"layout": layout}
    if name == "roi_pool":
        out, argmax = roicy.roi_pool(
            to_layout(x, layout), boxes, bins, return_argmax=True, **options
        )
    else:
        out, argmax = operator(name)(to_layout(x, layout), boxes, bins, **options), None
    g = rng.standard_normal(out.shape).astype(dtype)
    g[3].flat[5], g[5].flat[1], g[7].flat[8] = np.nan, np.inf, -np.inf
    shape = to_layout(x, layout).shape

    def grad(put):
        given = (
            (put(g), put(boxes), shape)
            if argmax is None
            else (put(g), put(argmax), put(boxes), shape)
        )
        return operator(name, "_backward")(*given, **options)

    expected, actual = grad(np.asarray), grad(cupy.asarray).get()
    some = np.isfinite(expected)
    assert 0 < (~some).sum() < some.size / 2
    np.testing.assert_array_equal(actual[~some], expected[~some])
    assert (
        np.abs(actual[some] - expected[some]).max()
        <= 400 * np.finfo(dtype).eps * np.abs(expected[some]).max()
    )


@pairs(name=["roi_align", "ps_roi_align"], **RUNS)
def test_gradients_of_boxes_skip_what_no_bin_reads(name, kind, cupy, rng):
    """Neither pixels between the samples count, nor gradients of bins that lie outside the map."""
    dtype, layout = kind
    options = {"sampling_ratio": 1, "layout": layout}
    boxes = np.array([[0, -30.3, -20.7, 35.2, 28.4], [1, 3.3, 2.6, 44.1, 29.2]], dtype)
    bins = (4, 5)
    x = to_layout(rng.standard_normal((2, 20, 30, 41)).astype(dtype), layout)
    ones = operator(name)(np.ones_like(x), boxes, bins, **options)
    read = operator(name, "_backward")(np.ones_like(ones), boxes, x.shape, **options)
    g = rng.standard_normal(ones.shape).astype(dtype)
    assert (ones == 0).any()
    assert (read == 0).any()
    backward = operator(name, "_backward_boxes")
    expected = backward(np.where(ones == 0, 0, g), np.where(read == 0, 0, x), boxes, **options)
    g[ones == 0], x[read == 0] = np.nan, np.nan
    result = backward(*map(cupy.asarray, (g, x, boxes)), **options)
    assert_close(result, expected, 4000)


@pairs(name=sorted(WITH_BOX_GRADIENTS), **RUNS)
def test_gradients_of_boxes_with_large_bins(name, kind, cupy, rng):
    """Bins have more rows and columns than a warp takes at once."""
    dtype, layout = kind
    boxes = np.array([[0, 2.3, 1.4, 90.2, 35.1], [0, 12.3, 5.4, 70.2, 35.1]], dtype)
    x = to_layout(rng.standard_normal((1, 20, 40, 100)).astype(dtype), layout)
    g = rng.standard_normal(operator(name)(x, boxes, 2, layout=layout).shape).astype(dtype)
    backward = operator(name, "_backward_boxes")
    result = backward(*map(cupy.asarray, (g, x, boxes)), layout=layout)
    assert_close(result, backward(g, x, boxes, layout=layout), 4000)


def test_meetings_of_lanes_are_needed(emulated, monkeypatch, rng):
    """
    Without __syncwarp() some order of lanes gives other results.  So the emulation would show that
    one is missing.
    """
    x, boxes, bins = make(rng, "roi_align", "blocks", 1, np.float32)
    # These two stand before values are read that other lanes wrote.  Without the other ones, wrong
    # offsets would lead to any memory.
    less, removed = re.subn(
        r"__syncwarp\(\);(?=\n    }\n\n    // Add (the strip|row p))",
        ";",
        _launch.source(),
    )
    assert removed == 2
    monkeypatch.setattr(_launch, "source", lambda: less)
    names = ["make_tables", "forward_planes", "backward_tiles"]
    monkeypatch.setattr(standin, "instantiations", lambda: [f"{name}<float>" for name in names])
    expected = roicy.roi_align(x, boxes, bins)
    grad = roicy.roi_align_backward(expected, boxes, x.shape)
    wrong = set()
    for standin.order in ("forward", "reverse", "mixed"):
        out = roicy.roi_align(emulated.asarray(x), emulated.asarray(boxes), bins).get()
        back = roicy.roi_align_backward(
            emulated.asarray(expected), emulated.asarray(boxes), x.shape
        ).get()
        if not np.allclose(out, expected, atol=1e-3):
            wrong.add("forward")
        if not np.allclose(back, grad, atol=1e-3):
            wrong.add("backward")
    assert wrong == {"forward", "backward"}


@pairs(
    parameters=[
        {"sampling_ratio": 2, "spatial_scale": 0.5},
        {"aligned": False, "clockwise": True},
    ],
    shape=["blocks", "pixel"],
    **RUNS,
)
def test_rotated(parameters, shape, kind, cupy, rng):
    """The forward pass and both gradients of rotated boxes agree with those of the CPU."""
    dtype, layout = kind
    count, n, c, h, w, bins = SHAPES[shape]
    scale = parameters.get("spatial_scale", 1.0)
    x = to_layout(rng.standard_normal((n, c, h, w)).astype(dtype), layout)
    boxes = rotated_boxes(rng, n, min(count, 8), (h / scale, w / scale), dtype)
    options = {**parameters, "layout": layout}
    on_device = cupy.asarray(x), cupy.asarray(boxes)
    expected = roicy.roi_align_rotated(x, boxes, bins, **options)
    assert_close(roicy.roi_align_rotated(*on_device, bins, **options), expected)
    g = rng.standard_normal(expected.shape).astype(dtype)
    assert_close(
        roicy.roi_align_rotated_backward(cupy.asarray(g), on_device[1], x.shape, **options),
        roicy.roi_align_rotated_backward(g, boxes, x.shape, **options),
    )
    backward = roicy.roi_align_rotated_backward_boxes
    assert_close(
        backward(cupy.asarray(g), *on_device, **options), backward(g, x, boxes, **options), 4000
    )


def test_rotated_values_and_formats(emulated, rng):
    x = rng.standard_normal((2, 5, 12, 14))
    boxes = rotated_boxes(rng, 2, 6, (12, 14), np.float64)
    boxes = boxes[np.argsort(boxes[:, 0], kind="stable")]
    bad = boxes.copy()
    bad[2, 5], bad[4, 0], bad[5, 3] = np.nan, 7, np.inf
    out = roicy.roi_align_rotated(emulated.asarray(x), emulated.asarray(bad), 2).get()
    expected = roicy.roi_align_rotated(x, boxes, 2)
    expected[[2, 4, 5]] = 0
    np.testing.assert_allclose(out, expected, atol=1e-12)
    counts = np.bincount(boxes[:, 0].astype(int), minlength=2)
    parts = [emulated.asarray(part) for part in np.split(boxes[:, 1:], counts[:1])]
    listed = roicy.roi_align_rotated(emulated.asarray(x), parts, 2).get()
    np.testing.assert_allclose(listed, roicy.roi_align_rotated(x, boxes, 2), atol=1e-12)
    maps = [x, x[:, :, ::2, ::2].copy()]
    options = {"canonical_scale": 6, "canonical_level": 1}
    pyramid = roicy.multiscale_roi_align_rotated(
        [emulated.asarray(level) for level in maps],
        emulated.asarray(boxes), 2, [1.0, 0.5], **options,
    ).get()  # fmt: skip
    on_host = roicy.multiscale_roi_align_rotated(maps, boxes, 2, [1.0, 0.5], **options)
    np.testing.assert_allclose(pyramid, on_host, atol=1e-12)
    with pytest.raises(ValueError, match=r"spatial_scale: .* expected one number"):
        roicy.roi_align_rotated(emulated.asarray(x), emulated.asarray(boxes), 2, (0.5, 0.25))
    with pytest.raises(ValueError, match=r"expected \(K, 6\) with rows \[batch_index, cx, cy"):
        roicy.roi_align_rotated(
            emulated.asarray(x), emulated.asarray(np.ascontiguousarray(boxes[:, :5])), 2
        )


@pairs(products=[False, True], shape=SHAPES, **RUNS)
def test_roi_align_max(shape, products, kind, cupy, rng):
    dtype, layout = kind
    x, boxes, bins = make(rng, "roi_align_max", shape, 0.5, dtype)
    x = to_layout(x, layout)
    for parameters in ({"sampling_ratio": 3}, {"aligned": True}):
        options = {
            "spatial_scale": (0.5, 0.4),
            "layout": layout,
            "products": products,
            **parameters,
        }
        assert_close(
            roicy.roi_align_max(cupy.asarray(x), cupy.asarray(boxes), bins, **options),
            roicy.roi_align_max(x, boxes, bins, **options),
            10,
        )


@pairs(
    scales=[
        [1 / 4, 1 / 8, 1 / 16],
        [1 / 4, 1 / 4, 1 / 8],
        [(1 / 4, 1 / 5), 1 / 8, (1 / 20, 1 / 12)],
    ],
    **RUNS,
)
def test_multiscale(scales, kind, cupy, rng):
    dtype, layout = kind
    maps = [
        to_layout(rng.standard_normal((2, 5, 64 // 2**i, 80 // 2**i)).astype(dtype), layout)
        for i in range(3)
    ]
    low = rng.uniform(0, 150, (20, 2))
    boxes = np.concatenate(
        [rng.integers(0, 2, (20, 1)), low, low + np.exp(rng.uniform(3, 5.8, (20, 2)))], axis=1
    ).astype(dtype)
    on_device = [cupy.asarray(level) for level in maps]
    options = {"sampling_ratio": 2, "aligned": True, "layout": layout}
    expected = roicy.multiscale_roi_align(maps, boxes, 3, scales, **options)
    assert_close(
        roicy.multiscale_roi_align(on_device, cupy.asarray(boxes), 3, scales, **options), expected
    )
    g = rng.standard_normal(expected.shape).astype(dtype)
    shapes = [level.shape for level in maps]
    grads = roicy.multiscale_roi_align_backward(
        cupy.asarray(g), cupy.asarray(boxes), shapes, scales, **options
    )
    for mine, theirs in zip(
        grads, roicy.multiscale_roi_align_backward(g, boxes, shapes, scales, **options), strict=True
    ):
        assert_close(mine, theirs)
    grad_boxes = roicy.multiscale_roi_align_backward_boxes(
        cupy.asarray(g), on_device, cupy.asarray(boxes), scales, **options
    )
    assert_close(
        grad_boxes,
        roicy.multiscale_roi_align_backward_boxes(g, maps, boxes, scales, **options),
        4000,
    )


def test_formats_of_boxes(cupy, rng):
    x, boxes, bins = make(rng, "roi_align", "blocks", 1, np.float32)
    boxes = boxes[np.argsort(boxes[:, 0], kind="stable")]
    counts = np.bincount(boxes[:, 0].astype(int), minlength=2)
    parts = np.split(boxes[:, 1:], np.cumsum(counts)[:-1])
    expected = roicy.roi_align(x, boxes, bins)
    g = np.ones_like(expected)
    for given, options in (
        (cupy.asarray(boxes.astype(np.float64)), {}),
        ([cupy.asarray(part) for part in parts], {}),
        (cupy.asarray(boxes[:, 1:]), {"boxes_num": counts.tolist()}),
    ):
        assert_close(roicy.roi_align(cupy.asarray(x), given, bins, **options), expected)
        grad = roicy.roi_align_backward_boxes(cupy.asarray(g), cupy.asarray(x), given, **options)
        columns = roicy.roi_align_backward_boxes(g, x, boxes)
        if isinstance(given, list):
            assert [part.shape for part in grad] == [part.shape for part in parts]
        else:
            assert_close(grad, columns if given.shape[1] == 5 else columns[:, 1:], 4000)


@pairs(dtype=DTYPES, cupy=ORDERS)
def test_bins_of_compat(dtype, cupy, rng):
    """Rules that only roicy.compat uses agree too."""
    x = rng.standard_normal((2, 12, 20, 23)).astype(dtype)
    boxes = random_boxes(rng, 2, 30, (40, 46), dtype)

    def pool(x, boxes):
        given = Arguments(boxes, None, 0.5, "NCHW", None)
        return _call.forward(R_FCN_POOL, (), x, (3, 2), given)

    assert_close(pool(cupy.asarray(x), cupy.asarray(boxes)), pool(x, boxes))


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
            out = (
                operator(name)(on_device, rows, 1, sampling_ratio=1)
                if "align" in name
                else (operator(name)(on_device, rows, 1))
            )
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


@pairs(name=["roi_align", "prroi_pool", "roi_pool"], dtype=DTYPES, cupy=ORDERS)
def test_boxes_in_steps(name, monkeypatch, dtype, cupy, rng):
    """Boxes are computed in steps, as many at a time as there is memory for."""
    x, boxes, bins = make(rng, name, "blocks", 1, dtype)
    monkeypatch.setattr(_plan, "TABLE_BYTES", 3000)
    assert_close(
        operator(name)(cupy.asarray(x), cupy.asarray(boxes), bins), operator(name)(x, boxes, bins)
    )
    if name != "roi_pool":
        g = rng.standard_normal(operator(name)(x, boxes, bins).shape).astype(dtype)
        backward, backward_boxes = operator(name, "_backward"), operator(name, "_backward_boxes")
        assert_close(
            backward(cupy.asarray(g), cupy.asarray(boxes), x.shape), backward(g, boxes, x.shape)
        )
        assert_close(
            backward_boxes(cupy.asarray(g), cupy.asarray(x), cupy.asarray(boxes)),
            backward_boxes(g, x, boxes),
            4000,
        )


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
        # Operators that count whole pixels find the last box only far away.
        nothing = places[:-1] if name in ("ps_roi_pool", "roi_pool") else places
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
    boxes, g = (
        cupy.asarray(np.array([[0, 0, 0, 2, 2], [9, 0, 0, 2, 2]], np.float32)),
        cupy.asarray(np.ones((2, 1, 2, 2), np.float32)),
    )
    argmax = cupy.asarray(np.array([16, -2, 2**31 - 1, 3] * 2, np.int32).reshape(2, 1, 2, 2))
    grad = roicy.roi_pool_backward(g, argmax, boxes, (1, 1, 4, 4)).get()
    assert grad.sum() == 1
    assert grad[0, 0, 0, 3] == 1


def test_nothing_to_do(cupy):
    boxes = cupy.asarray(np.zeros((0, 5), np.float32))
    x = cupy.asarray(np.ones((2, 4, 5, 5), np.float32))
    assert roicy.roi_align(x, boxes, 2).shape == (0, 4, 2, 2)
    assert (
        not roicy.roi_align_backward(
            cupy.asarray(np.ones((0, 4, 2, 2), np.float32)), boxes, x.shape
        )
        .get()
        .any()
    )
    some = cupy.asarray(np.array([[0, 1, 1, 3, 3]], np.float32))
    assert not roicy.roi_align(x[:, :, :0], some, 2).get().any()
    assert roicy.roi_align_backward_boxes(
        cupy.asarray(np.ones((1, 4, 2, 2), np.float32)), x[:, :, :, :0], some
    ).get().tolist() == [[0] * 5]
    g = cupy.asarray(np.ones((0, 4, 2, 2), np.float32))
    assert roicy.roi_align_backward_boxes(g, x[:0], []) == []
    assert len(roicy.roi_align_backward_boxes(g, x, [])) == 2
    for given in ({}, {"boxes_num": [0, 0]}):
        assert roicy.roi_align(x, [], 2, **given).shape == (0, 4, 2, 2)
    assert [
        part.shape for part in roicy.roi_align_backward_boxes(g, x, [boxes[:, 1:], boxes[:, 1:]])
    ] == [(0, 4), (0, 4)]


X, BOXES = np.ones((2, 4, 6, 6), np.float32), np.array([[0, 1, 1, 3, 3]], np.float32)


def align(*rest, maps=X, boxes=BOXES, **options):
    """Return a call of roi_align with arrays of the device."""
    return lambda c: roicy.roi_align(c.asarray(maps), c.asarray(boxes), *rest, **options)


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
    (lambda c: roicy.ps_roi_align(c.asarray(X), c.asarray(BOXES), 3), ValueError,
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


@pytest.mark.large
def test_more_elements_than_int32_counts(emulated):
    """Boxes read and write the last of 2.2e9 elements, in many planes and in a single plane."""
    for shape in ((1, 64, 5860, 5870), (1, 1, 46900, 46910)):
        x = np.zeros(shape, np.float32)  # the system provides only the pages that are written
        x[0, :, -40:, -40:] = np.arange(shape[1] * 1600, dtype=np.float32).reshape(-1, 40, 40)
        right, bottom = shape[3], shape[2]
        boxes = np.array([[0, right - 29.5, bottom - 29.75, right - 5, bottom - 10]], np.float32)
        on_device, rows = emulated.ndarray(x), emulated.asarray(boxes)
        for name, bins in (
            ("roi_align", 3),
            ("prroi_pool", 3),
            ("roi_pool", 3),
            ("roi_align_max", 3),
        ):
            if name == "roi_pool" and shape[1] == 1:
                continue  # argmax cannot number so many pixels
            expected = operator(name)(x, boxes, bins)
            assert expected.any()
            assert_close(operator(name)(on_device, rows, bins), expected)
        g = np.ones((1, shape[1], 3, 3), np.float32)
        assert_close(
            roicy.roi_align_backward_boxes(emulated.asarray(g), on_device, rows),
            roicy.roi_align_backward_boxes(g, x, boxes),
            4000,
        )
    shape = (1, 64, 5860, 5870)
    boxes[0, 1:] -= (right - shape[3], bottom - shape[2]) * 2
    g = np.ones((1, shape[1], 3, 3), np.float32)
    grad = roicy.roi_align_backward(emulated.asarray(g), emulated.asarray(boxes), shape)
    tail = (slice(None), slice(None), slice(-60, None), slice(-60, None))
    expected = roicy.roi_align_backward(g, boxes, shape)
    np.testing.assert_allclose(grad.host[tail], expected[tail], rtol=0, atol=1e-6)
    assert abs(float(grad.host[0, -1, -60:].sum(dtype=np.float64)) - 9) < 1e-4
    assert not grad.host[0, -1, 0].any()


def test_stand_in_has_names_of_cupy():
    module = pytest.importorskip("cupy")
    names = "ndarray RawModule asarray empty zeros ascontiguousarray concatenate where clip"
    for name in (names + " may_share_memory floor isnan log2 sqrt").split():
        assert callable(getattr(module, name))
    assert callable(module.cuda.runtime.getDevice)
    for name in ("device", "astype", "transpose", "fill", "get", "strides"):
        assert hasattr(module.ndarray, name)


def test_workloads(cupy):
    """The calls of the benchmarks give the same results on the GPU as on the CPU."""
    work = WORKLOADS["align_tiny"]
    arrays = work.arrays()
    for direction in ("forward", "backward", "backward_boxes"):
        expected = work.call(roicy, arrays, direction, "NHWC")()
        assert_close(
            work.call(roicy, arrays, direction, "NHWC", direction == "forward", 1, cupy.asarray)(),
            expected,
            4000,
        )


def test_page(cupy, rng, monkeypatch):
    """The example of docs/gpu.md runs as it is printed."""
    (example,) = re.findall(
        r"```python\n# fragment: needs a GPU\n(import cupy\n.*?)```",
        (Path(__file__).parents[1] / "docs/gpu.md").read_text(),
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


def test_arrays_of_two_devices(emulated):
    class Other:
        def __repr__(self):
            return "another device"

    boxes = emulated.asarray(BOXES)
    boxes.device = Other()
    with pytest.raises(
        ValueError, match="boxes: on another device, expected .*, where the other arrays are"
    ):
        roicy.roi_align(emulated.asarray(X), boxes, 2)
    out = emulated.zeros((1, 4, 2, 2), np.float32)
    out.device = Other()
    with pytest.raises(ValueError, match="out: on another device"):
        roicy.prroi_pool(emulated.asarray(X), emulated.asarray(BOXES), 2, out=out)


def test_same_functions():
    """The backends have the functions that `_call` asks of them, with equal parameters."""
    asked = set(re.findall(r"\bbackend\.(\w+)", inspect.getsource(_call)))
    asked.remove("py")  # this is from the name of a file
    assert asked == {
        "plan_with_maps", "plan_backward", "output", "forward", "backward", "backward_max",
        "backward_boxes", "result", "array", "indices", "box_arrays",
    }  # fmt: skip
    for name in asked:
        mine, theirs = (
            [one.default is one.empty for one in inspect.signature(function).parameters.values()]
            for function in (getattr(_cpu, name), getattr(backend, name))
        )
        assert sum(mine) == sum(theirs), name


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
