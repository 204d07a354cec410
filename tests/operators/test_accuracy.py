"""Gradients of boxes and narrow bins keep the error bounds of docs/guarantees.md.

test_against_reference.py does so for weighted sums and the gradients of their input.
"""

import numpy as np
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    WITH_BOX_GRADIENTS,
    operator,
    pairs,
    taken,
    to_layout,
)
from problems import VALUES

import roicy


def unit(dtype):
    """Return half an epsilon of the type."""
    return np.finfo(dtype).eps / 2


def dyadic_boxes(rng, count):
    """Return boxes for which 4 x 4 bins and 2 x 2 samples are exact in float32."""
    low = rng.integers(-16, 16 * 30, (count, 2)) / 16
    return np.concatenate(
        [rng.integers(0, 2, (count, 1)), low, low + rng.integers(1, 40, (count, 2)) * 0.5], axis=1
    )


@pairs(
    name=WITH_BOX_GRADIENTS,
    ratio=[-1, 2, 3],
    aligned=[False, True],
    values=["random", "positive"],
    layout=LAYOUTS,
    isa=ISAS,
)
def test_gradients_of_boxes(name, ratio, aligned, values, layout, isa, rng):
    """Gradients of boxes in float32 are close to those in float64, relative to a sum of absolute
    values.
    """
    parameters = taken(name, sampling_ratio=ratio, aligned=aligned)
    x = VALUES[values](rng, (2, 32, 37, 45)).astype(np.float32)
    boxes = dyadic_boxes(rng, 80)
    out = operator(name)(x, boxes, 4, **parameters)
    g = VALUES[values](rng, out.shape).astype(np.float32)
    backward = operator(name, "_backward_boxes")

    def given(array):
        return to_layout(array, layout)

    grad = backward(given(g), given(x), boxes.astype(np.float32), layout=layout, **parameters)
    expected = backward(
        given(g.astype(np.float64)), given(x.astype(np.float64)), boxes, layout=layout, **parameters
    )
    # A weight changes by at most 1 when an edge moves by a pixel.  In prroi_pool, which takes the
    # mean over a bin of size b, it changes by at most 2 / b.
    bin_size = np.minimum(boxes[:, 3] - boxes[:, 1], boxes[:, 4] - boxes[:, 2]) / 4
    slope = 4 / bin_size if "prroi" in name else 4
    size = np.abs(g).sum(axis=(1, 2, 3), dtype=np.float64) * np.abs(x).max() * slope
    assert (np.abs(grad - expected)[:, 1:].max(axis=1) <= 64 * unit(np.float32) * size).all()


NARROW = [
    (1500, 1500.001),
    (2000, 2000.5),
    (999.9999, 1000.0001),
    (1000.3, 1000.3 + 2.0**-13),
    (0.3, 0.3 + 2.0**-24),
]


@pairs(ends=NARROW, bins=[1, 7, 64], dtype=DTYPES, isa=ISAS)
def test_narrow_bins_far_from_the_origin(ends, bins, dtype, isa):
    """prroi_pool is exact for bins that are narrower than the distance of two numbers of the type.

    The mean of ones is 1, whatever the bins, and the mean over a ramp is the middle of the bin.
    """
    low, high = map(dtype, ends)
    if dtype == np.float64:  # as in float32, few numbers of the type lie between them
        high = low + dtype(float(high - low) * 2.0**-29)
    assert low < high
    eps = np.finfo(dtype).eps
    ramp = np.broadcast_to(np.arange(2048, dtype=dtype) - np.floor(low), (2, 2048))
    for axis in (0, 1):
        x = np.ascontiguousarray(ramp if axis else ramp.T)[None, None]
        box = np.array([[0, low, 0, high, 1] if axis else [0, 0, low, 1, high]], dtype)
        size = (1, bins) if axis else (bins, 1)
        ones = roicy.prroi_pool(np.ones_like(x), box, size).ravel()
        np.testing.assert_allclose(ones, 1, rtol=2 * eps)
        middles = float(low) % 1 + (np.arange(bins) + 0.5) * (float(high - low) / bins)
        np.testing.assert_allclose(
            roicy.prroi_pool(x, box, size).ravel(), middles, rtol=0, atol=4 * eps
        )
        for p in range(bins):  # the middle of bin p moves with both edges of the box
            g = np.zeros((1, 1, *size), dtype)
            g.reshape(-1)[p] = 1
            grad = roicy.prroi_pool_backward_boxes(g, x, box)[0, [1 + (1 - axis), 3 + (1 - axis)]]
            share = (p + 0.5) / bins
            np.testing.assert_allclose(grad, [1 - share, share], rtol=0, atol=8 * eps)
