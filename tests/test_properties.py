"""Random shapes, boxes and parameters agree with the plain definition."""

import numpy as np
import pytest
import reference
from conftest import SUMS, WITH_BOX_GRADIENTS, operator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import roicy

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
    if "align" in name:
        parameters["sampling_ratio"] = draw(st.integers(-1, 4))
    if name == "roi_align":
        parameters["aligned"] = draw(st.booleans())
    # Plain loops are too slow for an adaptive grid over 1e6 pixels.
    if parameters.get("sampling_ratio", 1) <= 0:
        boxes[:, 1:] = np.clip(boxes[:, 1:], -300, 300)
    values = (
        np.random.default_rng(draw(st.integers(0, 2**32)))
        .standard_normal((n, c, h, w))
        .astype(dtype)
    )
    return (
        name,
        values,
        boxes,
        bins,
        parameters,
        draw(st.sampled_from(["NCHW", "NHWC"])),
        draw(st.integers(1, 3)),
    )


@pytest.mark.filterwarnings("ignore:boxes")  # these may look like others'
@SETTINGS
@given(problem=problems())
def test_operators(problem, isa):
    name, x, boxes, bins, parameters, layout, threads = problem
    eps = np.finfo(x.dtype).eps
    given_x = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    options = {"layout": layout, "num_threads": threads}

    def seen(array):
        return array if layout == "NCHW" else array.transpose(0, 3, 1, 2)

    if name == "roi_pool":
        out, argmax = roicy.roi_pool(
            given_x, boxes, bins, return_argmax=True, **parameters, **options
        )
        expected, expected_argmax = reference.roi_pool(x, boxes, bins, **parameters)
        np.testing.assert_array_equal(seen(out), expected)
        np.testing.assert_array_equal(seen(argmax), expected_argmax)
        grad = roicy.roi_pool_backward(np.ones_like(out), argmax, boxes, given_x.shape, **options)
        np.testing.assert_array_equal(
            seen(grad),
            reference.roi_pool_backward(np.ones_like(expected), expected_argmax, boxes, x.shape),
        )
        return
    out = operator(name)(given_x, boxes, bins, **parameters, **options)
    # There are at most 24 terms along each axis.
    bound = (
        52 * eps * reference.forward(name, np.abs(x), boxes, bins, **parameters)
        + np.finfo(x.dtype).tiny
    )
    assert (
        np.abs(seen(out) - reference.forward(name, x, boxes, bins, **parameters)) <= bound
    ).all()

    grad = operator(name, "_backward")(
        np.ones_like(out), boxes, given_x.shape, **parameters, **options
    )
    expected = reference.backward(
        name, np.ones(seen(out).shape, x.dtype), boxes, x.shape, **parameters
    )
    # Each of 5 boxes has at most 5 rows and 5 columns of bins, and all terms are positive.
    assert (np.abs(seen(grad) - expected) <= 54 * eps * expected + np.finfo(x.dtype).tiny).all()
    if name in WITH_BOX_GRADIENTS:
        grad = operator(name, "_backward_boxes")(out, given_x, boxes, **parameters, **options)
        assert grad.shape == boxes.shape
        assert np.isfinite(grad).all()


@pytest.mark.parametrize("name", WITH_BOX_GRADIENTS)
@pytest.mark.parametrize("size", [1e-3, 1e-6])
def test_tiny_boxes(name, size, dtype, isa):
    """A box much smaller than a pixel is the value of the surface where it lies."""
    x = np.arange(36, dtype=dtype).reshape(1, 1, 6, 6).repeat(4, axis=1)
    boxes = np.array([[0, 2.25, 1.5, 2.25 + size, 1.5 + size]], dtype)
    parameters = {"aligned": True} if name == "roi_align" else {}
    out = operator(name)(x, boxes, 2, **parameters)
    offset = 0 if "prroi" in name else 0.5
    # The surface rises by 1 for each column and by 6 for each row.
    np.testing.assert_allclose(
        out, 2.25 - offset + 6 * (1.5 - offset), rtol=0, atol=7 * size + 40 * np.finfo(dtype).eps
    )
