"""The operators on CuPy arrays agree with those on the CPU.

Without a GPU the same kernels run on the CPU, with a stand-in for CuPy (cuda_emulation/).  Each
test runs on the GPU, on the stand-in, or on both.
"""

import re

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
from cuda_emulation.calls import RUNS, SHAPES, make
from cuda_emulation.fixtures import OF_BOXES, ORDERS, assert_close, check_agrees, placed
from problems import PARAMETERS
from recorded import CASES, OTHERWISE, assert_agrees, load

import roicy
from roicy import _call
from roicy._kernels.plan import Arguments
from roicy._table import PS_ROI_POOL, ROUNDED
from roicy.bench.workloads import WORKLOADS
from roicy.cuda import _launch, _plan

SUM_CASES = [(name, parameters) for name in SUMS for parameters in PARAMETERS[name][:2]]


@pairs(case=SUM_CASES, shape=SHAPES, **RUNS)
def test_sums(case, shape, kind, cupy, rng):
    """The forward pass and both gradients agree with those of the CPU."""
    dtype, layout = kind
    name, parameters = case
    x, boxes, bins = make(rng, name, shape, parameters.get("spatial_scale", 1), dtype)
    x = to_layout(x, layout)
    options = {**parameters, "layout": layout}
    expected = check_agrees(cupy, operator(name), x, boxes, bins, **options)
    g = rng.standard_normal(expected.shape).astype(dtype)
    check_agrees(cupy, operator(name, "_backward"), g, boxes, x.shape, **options)
    if name in WITH_BOX_GRADIENTS:
        backward = operator(name, "_backward_boxes")
        check_agrees(cupy, backward, g, x, boxes, **options, **OF_BOXES)


@pytest.mark.parametrize("case", CASES)
def test_recorded(case, emulated):
    name, size, keywords, arrays = load(case)
    x, boxes, grad_out = (emulated.asarray(arrays[key]) for key in ("x", "boxes", "grad_out"))
    if name == "roi_pool":
        out, argmax = roicy.roi_pool(x, boxes, size, return_argmax=True, **keywords)
        grad = roicy.roi_pool_backward(grad_out, argmax, boxes, x.shape)
    else:
        out = operator(name)(x, boxes, size, **keywords)
        grad = operator(name, "_backward")(grad_out, boxes, x.shape, **keywords)
    for key, result in (("out", out), ("grad_x", grad)):
        if key not in OTHERWISE.get(case, ()):
            assert_agrees(result.get(), arrays[key], x.dtype)


@pairs(shape=SHAPES, parameters=PARAMETERS["roi_pool"], **RUNS)
def test_roi_pool(shape, parameters, kind, cupy, rng):
    dtype, layout = kind
    x, boxes, bins = make(rng, "roi_pool", shape, parameters.get("spatial_scale", 1), dtype)
    x[0, :, -1] = np.nan
    given = to_layout(x, layout), boxes, bins
    options = {"layout": layout, **parameters}
    expected, expected_at = roicy.roi_pool(*given, return_argmax=True, **options)
    on_device = placed(list(given), cupy.asarray)
    out, argmax = roicy.roi_pool(*on_device, return_argmax=True, **options)
    np.testing.assert_array_equal(out.get(), expected)
    np.testing.assert_array_equal(argmax.get(), expected_at)
    alone = roicy.roi_pool(*on_device, **options)
    np.testing.assert_array_equal(alone.get(), expected)
    g = rng.standard_normal(expected.shape).astype(dtype)
    rest = boxes, given[0].shape
    check_agrees(cupy, roicy.roi_pool_backward, g, expected_at, *rest, layout=layout)


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
    given = [to_layout(grad, layout), to_layout(argmax, layout), boxes, to_layout(x, layout).shape]
    result = roicy.roi_pool_backward(*placed(given, cupy.asarray), layout=layout)
    expected = roicy.roi_pool_backward(*given, layout=layout)
    np.testing.assert_array_equal(result.get(), expected)  # these sums are exact


@pairs(name=[*SUMS, "roi_pool"], **RUNS)
def test_gradients_that_are_no_numbers(name, kind, cupy, rng):
    """Gradients that are NaN or infinite reach the same pixels as on the CPU, and no others."""
    dtype, layout = kind
    x, boxes, bins = make(rng, name, "blocks", 1, dtype)
    boxes[:, 3:] = boxes[:, 1:3] + (boxes[:, 3:] - boxes[:, 1:3]) / 3
    options = {"layout": layout}
    x, shape = to_layout(x, layout), to_layout(x, layout).shape
    if name == "roi_pool":
        out, argmax = roicy.roi_pool(x, boxes, bins, return_argmax=True, **options)
    else:
        out, argmax = operator(name)(x, boxes, bins, **options), None
    g = rng.standard_normal(out.shape).astype(dtype)
    g[3].flat[5], g[5].flat[1], g[7].flat[8] = np.nan, np.inf, -np.inf
    given = [g, boxes, shape] if argmax is None else [g, argmax, boxes, shape]
    backward = operator(name, "_backward")
    expected = backward(*given, **options)
    actual = backward(*placed(given, cupy.asarray), **options).get()
    some = np.isfinite(expected)
    assert 0 < (~some).sum() < some.size / 2
    np.testing.assert_array_equal(actual[~some], expected[~some])
    apart = np.abs(actual[some] - expected[some]).max()
    assert apart <= 400 * np.finfo(dtype).eps * np.abs(expected[some]).max()


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


def test_meetings_of_lanes_are_needed(emulated, monkeypatch, rng):
    """Without __syncwarp() some order of lanes gives other results.  So the emulation would show
    that one is missing.
    """
    x, boxes, bins = make(rng, "roi_align", "blocks", 1, np.float32)
    # These two stand before values are read that other lanes wrote.  Without the other ones, wrong
    # offsets would lead to any memory.
    pattern = r"__syncwarp\(\);(?=\n    }\n\n    // Add (the strip|row p))"
    less, removed = re.subn(pattern, ";", _launch.source())
    assert removed == 2
    monkeypatch.setattr(_launch, "source", lambda: less)
    names = ["make_tables", "forward_planes", "backward_tiles"]
    monkeypatch.setattr(standin, "instantiations", lambda: [f"{name}<float>" for name in names])
    expected = roicy.roi_align(x, boxes, bins)
    grad = roicy.roi_align_backward(expected, boxes, x.shape)
    on_device = emulated.asarray(boxes)
    wrong = set()
    for standin.order in ("forward", "reverse", "mixed"):
        out = roicy.roi_align(emulated.asarray(x), on_device, bins).get()
        back = roicy.roi_align_backward(emulated.asarray(expected), on_device, x.shape).get()
        for name, found, right in (("forward", out, expected), ("backward", back, grad)):
            if not np.allclose(found, right, atol=1e-3):
                wrong.add(name)
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
    expected = check_agrees(cupy, roicy.roi_align_rotated, x, boxes, bins, **options)
    g = rng.standard_normal(expected.shape).astype(dtype)
    check_agrees(cupy, roicy.roi_align_rotated_backward, g, boxes, x.shape, **options)
    backward = roicy.roi_align_rotated_backward_boxes
    check_agrees(cupy, backward, g, x, boxes, **options, **OF_BOXES)


@pairs(
    products=[False, True], parameters=[{"sampling_ratio": 3}, {"aligned": True}], shape=SHAPES,
    **RUNS,
)  # fmt: skip
def test_roi_align_max(parameters, shape, products, kind, cupy, rng):
    dtype, layout = kind
    x, boxes, bins = make(rng, "roi_align_max", shape, 0.5, dtype)
    options = {"spatial_scale": (0.5, 0.4), "products": products, "layout": layout} | parameters
    given = to_layout(x, layout), boxes, bins
    check_agrees(cupy, roicy.roi_align_max, *given, **options, terms=10)


FINE, COARSE = 1 / 4, 1 / 8


@pairs(
    scales=[
        [FINE, COARSE, 1 / 16],
        [FINE, FINE, COARSE],
        [(FINE, 1 / 5), COARSE, (1 / 20, 1 / 12)],
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
    options = {"sampling_ratio": 2, "aligned": True, "layout": layout}
    expected = check_agrees(cupy, roicy.multiscale_roi_align, maps, boxes, 3, scales, **options)
    g = rng.standard_normal(expected.shape).astype(dtype)
    shapes = [level.shape for level in maps]
    backward = roicy.multiscale_roi_align_backward
    check_agrees(cupy, backward, g, boxes, shapes, scales, **options)
    backward = roicy.multiscale_roi_align_backward_boxes
    check_agrees(cupy, backward, g, maps, boxes, scales, **options, **OF_BOXES)


@pairs(dtype=DTYPES, cupy=ORDERS)
def test_bins_of_compat(dtype, cupy, rng):
    """Rules that only roicy.compat uses agree too."""
    x = rng.standard_normal((2, 12, 20, 23)).astype(dtype)
    boxes = random_boxes(rng, 2, 30, (40, 46), dtype)

    def pool(x, boxes):
        arguments = Arguments(boxes, None, 0.5, "NCHW", None)
        return _call.forward(PS_ROI_POOL, ROUNDED, x, (3, 2), arguments)

    check_agrees(cupy, pool, x, boxes)


@pairs(name=["roi_align", "prroi_pool", "roi_pool"], dtype=DTYPES, cupy=ORDERS)
def test_boxes_in_steps(name, monkeypatch, dtype, cupy, rng):
    """Boxes are computed in steps, as many at a time as there is memory for."""
    x, boxes, bins = make(rng, name, "blocks", 1, dtype)
    monkeypatch.setattr(_plan, "TABLE_BYTES", 3000)
    out = check_agrees(cupy, operator(name), x, boxes, bins)
    if name != "roi_pool":
        g = rng.standard_normal(out.shape).astype(dtype)
        check_agrees(cupy, operator(name, "_backward"), g, boxes, x.shape)
        check_agrees(cupy, operator(name, "_backward_boxes"), g, x, boxes, **OF_BOXES)


@pytest.mark.large
def test_more_elements_than_int32_counts(emulated):
    """Boxes read and write the last of 2.2e9 elements, in many planes and in a single plane."""
    for shape in ((1, 64, 5860, 5870), (1, 1, 46900, 46910)):
        x = np.zeros(shape, np.float32)  # the system provides only the pages that are written
        x[0, :, -40:, -40:] = np.arange(shape[1] * 1600, dtype=np.float32).reshape(-1, 40, 40)
        right, bottom = shape[3], shape[2]
        boxes = np.array([[0, right - 29.5, bottom - 29.75, right - 5, bottom - 10]], np.float32)
        on_device, rows = emulated.ndarray(x), emulated.asarray(boxes)
        for name in ("roi_align", "prroi_pool", "roi_pool", "roi_align_max"):
            if name == "roi_pool" and shape[1] == 1:
                continue  # argmax cannot number so many pixels
            expected = operator(name)(x, boxes, 3)
            assert expected.any()
            assert_close(operator(name)(on_device, rows, 3), expected)
        g = np.ones((1, shape[1], 3, 3), np.float32)
        expected = roicy.roi_align_backward_boxes(g, x, boxes)
        found = roicy.roi_align_backward_boxes(emulated.asarray(g), on_device, rows)
        assert_close(found, expected, 4000)
    shape = (1, 64, 5860, 5870)
    boxes[0, 1:] -= (right - shape[3], bottom - shape[2]) * 2
    g = np.ones((1, shape[1], 3, 3), np.float32)
    grad = roicy.roi_align_backward(emulated.asarray(g), emulated.asarray(boxes), shape)
    tail = (slice(None), slice(None), slice(-60, None), slice(-60, None))
    expected = roicy.roi_align_backward(g, boxes, shape)
    np.testing.assert_allclose(grad.host[tail], expected[tail], rtol=0, atol=1e-6)
    assert abs(float(grad.host[0, -1, -60:].sum(dtype=np.float64)) - 9) < 1e-4
    assert not grad.host[0, -1, 0].any()


def test_workloads(cupy):
    """The calls of the benchmarks give the same results on the GPU as on the CPU."""
    work = WORKLOADS["align_tiny"]
    arrays = work.arrays()
    for direction in ("forward", "backward", "backward_boxes"):
        expected = work.call(roicy, arrays, direction, "NHWC")()
        given = "NHWC", direction == "forward", 1, cupy.asarray
        assert_close(work.call(roicy, arrays, direction, *given)(), expected, 4000)
