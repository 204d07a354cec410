"""roi_align alone: where its samples lie, how many they are, and what `aligned` changes.

test_against_reference.py compares all operators with tests/reference.py.
"""

import numpy as np
import pytest
import reference
from conftest import ISAS, assert_same_bits, pairs, passes, same_passes, taken

import roicy


@pytest.mark.parametrize("aligned, shift", [(False, 0), (True, 0.5)])
@pytest.mark.parametrize("sampling_ratio", [0, 1, 3])
def test_ramp(aligned, shift, sampling_ratio, dtype, isa):
    """Samples of a ramp lie evenly in their bin, so that their mean is the ramp at its middle."""
    y, x = np.mgrid[:16, :20].astype(dtype)
    boxes = np.array([[0, 4, 2, 16, 10]], dtype)  # 2 x 3 bins of 2 x 2 pixels at scale 0.5
    out = roicy.roi_align(
        np.stack([y, x])[None], boxes, (2, 3), 0.5, sampling_ratio=sampling_ratio, aligned=aligned
    )
    middles = np.meshgrid([2 - shift, 4 - shift], [3 - shift, 5 - shift, 7 - shift], indexing="ij")
    np.testing.assert_allclose(out[0], middles, rtol=8 * np.finfo(dtype).eps)


def test_as_many_samples_as_pixels(dtype, isa):
    """With sampling_ratio 0, a bin has as many samples as pixels begin in it, at each axis."""
    x = np.zeros((1, 1, 9, 9), dtype)
    x[..., 0, 0] = 1
    boxes = np.array([[0, 0, 0, 4.5, 2]], dtype)
    # of 2 x 3 in bins of 2 x 2.25 pixels, the first is at 0.5 and 0.375 and alone reads this pixel
    out = roicy.roi_align(x, boxes, (1, 2), sampling_ratio=0, aligned=False)
    np.testing.assert_allclose(out[0, 0], [[0.5 * 0.625 / 6, 0]], rtol=4 * np.finfo(dtype).eps)


def test_many_samples_a_pixel(dtype, isa, rng):
    """Where a pixel has many samples, they are taken together.  The result agrees with a sum over
    all samples but for rounding.
    """
    x = rng.standard_normal((1, 3, 7, 9)).astype(dtype)
    boxes = np.array([[0, -3, 1, 5, 4], [0, 0.5, 0.5, 12, 9], [0, 6, 5, 2, 1]], dtype)
    for aligned in (False, True):
        options = {"sampling_ratio": 500, "aligned": aligned}
        out = roicy.roi_align(x, boxes, 2, **options)
        expected = reference.forward("roi_align", x, boxes, (2, 2), **options)
        # roicy sums about 20 terms along each axis, and the reference sums 500.  In float32 each
        # sample is off by eps * 9 pixels on average.
        slack = 9 * 8 * np.finfo(dtype).eps * np.abs(x).max()
        np.testing.assert_allclose(out, expected, rtol=0, atol=slack)
    assert np.isfinite(roicy.roi_align(x, boxes, 2, sampling_ratio=2**31 - 1)).all()


@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align"])
def test_aligned_boxes_of_no_size(name, dtype, isa):
    x = np.ones((1, 4, 6, 6), dtype)
    boxes = np.array([[0, 1, 1, 1, 1], [0, 4, 4, 2, 2], [0, 1, 1, 1, 4], [0, 1, 4, 4, 2]], dtype)
    g = np.ones((4, 1 if name == "ps_roi_align" else 4, 2, 2), dtype)
    assert not any(array.any() for array in passes(name, x, boxes, g, **taken(name, aligned=True)))


@pairs(kind=["float32", "float64", "uint8"], channels=[3, 17, 32], isa=ISAS)
def test_large_boxes_with_few_samples(kind, channels, isa, rng):
    """Only rows and columns with samples are read, and the bits are the same in all layouts."""
    x = (rng.standard_normal((2, channels, 300, 420)) * 40 + 128).clip(0, 255).astype(kind)
    boxes = np.array(
        [[0, 1.5, 2.25, 418, 299], [1, -30, -7, 500, 290], [0, 300, 200, 20, 10], [1, 7, 9, 30, 33]]
        + [[k % 2, k, 2 * k, k + 90, 2 * k + 110] for k in range(40)],
        "float64" if kind == "float64" else "float32",
    )
    g = rng.standard_normal((len(boxes), channels, 7, 5)).astype(boxes.dtype)
    options = {"sampling_ratio": 2, "aligned": True}
    out, *_ = same_passes("roi_align", x, boxes, g, [("NCHW", 2), ("NHWC", 2)], **options)
    alone = [roicy.roi_align(x, boxes[i : i + 1], (7, 5), **options) for i in range(len(boxes))]
    assert_same_bits(out, np.concatenate(alone))
