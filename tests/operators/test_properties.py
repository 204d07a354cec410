"""Random shapes, boxes and parameters agree with the plain definition."""

import inspect

import numpy as np
import pytest
import reference
from conftest import LAYOUTS, SUMS, operator, passes, taken
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SETTINGS = settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

coordinate = st.one_of(
    st.integers(-30, 60).map(float),
    st.integers(-240, 480).map(lambda i: i / 8),
    st.floats(-50, 100, width=32),
    st.sampled_from([0.0, -0.0, 1e-30, -1.0, 0.5, 1e6, -1e6, 1e-7]),
)


@st.composite
def problems(draw):
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    n, c = draw(st.integers(1, 3)), draw(st.integers(1, 19))
    h, w = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    bins = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    name = draw(st.sampled_from([*SUMS, "roi_pool"]))
    if name.startswith("ps_"):
        c = (1 + c // 8) * bins[0] * bins[1]
    count = draw(st.integers(0, 5))
    boxes = np.array(
        [[draw(st.integers(0, n - 1)), *draw(st.tuples(*[coordinate] * 4))] for _ in range(count)],
        dtype,
    ).reshape(count, 5)
    parameters = {"spatial_scale": draw(st.sampled_from([1.0, 0.5, 0.0625, 0.7, 1.3]))}
    if "sampling_ratio" in inspect.signature(operator(name)).parameters:
        parameters["sampling_ratio"] = draw(st.integers(-1, 4))
    if name == "roi_align":
        parameters["aligned"] = draw(st.booleans())
    # Plain loops are too slow for an adaptive grid over 1e6 pixels.
    if parameters.get("sampling_ratio", 1) <= 0:
        boxes[:, 1:] = np.clip(boxes[:, 1:], -300, 300)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = rng.standard_normal((n, c, h, w)).astype(dtype)
    layout, threads = draw(st.sampled_from(LAYOUTS)), draw(st.integers(1, 3))
    return name, values, boxes, bins, parameters, layout, threads


@pytest.mark.filterwarnings("ignore:boxes")  # these may look like others'
@SETTINGS
@given(problem=problems())
def test_operators(problem, isa):
    name, x, boxes, bins, parameters, layout, threads = problem
    eps = np.finfo(x.dtype).eps
    channels = x.shape[1] // (bins[0] * bins[1] if name.startswith("ps_") else 1)
    ones = np.ones((len(boxes), channels, *bins), x.dtype)
    found = passes(name, x, boxes, ones, layout, threads, **parameters)
    if name == "roi_pool":
        expected = reference.roi_pool(x, boxes, bins, **parameters)
        of_input = reference.roi_pool_backward(ones, expected[1], boxes, x.shape)
        for one, other in zip(found, (*expected, of_input), strict=True):
            np.testing.assert_array_equal(one, other)
        return
    out, of_input, *of_boxes = found
    # There are at most 24 terms along each axis.
    size = reference.forward(name, np.abs(x), boxes, bins, **parameters)
    bound = 52 * eps * size + np.finfo(x.dtype).tiny
    expected = reference.forward(name, x, boxes, bins, **parameters)
    assert (np.abs(out - expected) <= bound).all()
    expected = reference.backward(name, ones, boxes, x.shape, **parameters)
    # Each of 5 boxes has at most 5 rows and 5 columns of bins, and all terms are positive.
    bound = 54 * eps * expected + np.finfo(x.dtype).tiny
    assert (np.abs(of_input - expected) <= bound).all()
    for grad in of_boxes:
        assert grad.shape == boxes.shape
        assert np.isfinite(grad).all()


# Operators whose smallest boxes give a point of the bilinear surface, and where pixel 0 lies.
SURFACES = {"roi_align": 0.5, "ps_roi_align": 0.5, "prroi_pool": 0, "ps_prroi_pool": 0}


@pytest.mark.parametrize(("name", "offset"), SURFACES.items())
@pytest.mark.parametrize("size", [1e-3, 1e-6])
def test_tiny_boxes(name, offset, size, dtype, isa):
    """A box much smaller than a pixel is the value of the surface where it lies."""
    x = np.arange(36, dtype=dtype).reshape(1, 1, 6, 6).repeat(4, axis=1)
    boxes = np.array([[0, 2.25, 1.5, 2.25 + size, 1.5 + size]], dtype)
    out = operator(name)(x, boxes, 2, **taken(name, aligned=True))
    # The surface rises by 1 for each column and by 6 for each row.
    np.testing.assert_allclose(
        out, 2.25 - offset + 6 * (1.5 - offset), rtol=0, atol=7 * size + 40 * np.finfo(dtype).eps
    )
