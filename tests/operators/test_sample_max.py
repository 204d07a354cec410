"""Edge cases of the largest samples; test_sample_max_backward.py has the plain definition."""

import numpy as np
import pytest
from conftest import from_layout, to_layout

import roicy
from roicy import _cpu
from roicy._kernels.plan import Arguments
from roicy._table import ROI_ALIGN_MAX, single_samples


def test_windows_larger_than_the_tile(dtype, layout):
    """Windows are divided into cells, and samples may lie between two cells.  On a linear map they
    are exact.
    """
    h, w = 40, 9000
    y, x = np.mgrid[:h, :w]
    ramp = to_layout((x + y / 64).astype(dtype).reshape(1, 1, h, w), layout)
    boxes = np.array([[0, 10, 2, 8900, 38]], dtype)
    out = roicy.roi_align_max(ramp, boxes, 3, 1.0, 500, aligned=True, layout=layout)
    # The last sample of a bin is half a step before its end.
    rows, columns = (
        low - 0.5 + np.arange(1, 4) * (high - low) / 3 - (high - low) / 1000 / 3
        for low, high in ((2, 38), (10, 8900))
    )
    # Positions go up to 9000, and so do the values that four weights multiply.
    slack = 8 * np.finfo(dtype).eps * w
    found, expected = from_layout(out, layout)[0, 0], columns + rows[:, None] / 64
    np.testing.assert_allclose(found, expected, rtol=0, atol=slack)


def test_not_a_number():
    """NaN never wins, and if all samples are NaN, the result is the lowest number."""
    x = np.full((1, 1, 6, 6), np.nan, np.float32)
    box = np.array([[0, 1, 1, 4, 4]], np.float32)
    assert roicy.roi_align_max(x, box, 1, sampling_ratio=2) == np.finfo(np.float32).min
    x[0, 0, 2:4, 2:4] = [[1, 2], [3, 4]]
    assert roicy.roi_align_max(x, box, 1, sampling_ratio=2) == np.finfo(np.float32).min
    assert roicy.roi_align_max(x, box, 1, sampling_ratio=2, products=True) == 0.75 * 0.75 * 4


@pytest.mark.parametrize("products", [False, True])
def test_off_the_map(products):
    """Samples off the map count as 0.  With an adaptive number, an inverted box has none."""
    x = np.full((1, 1, 6, 6), -5.0)
    far, half, inverted, inside = ([100, 0, 110, 5], [3, 1, 9, 3], [4, 4, 1, 1], [1, 1, 3, 3])

    def pooled(box, ratio=3):
        options = {"sampling_ratio": ratio, "aligned": True, "products": products}
        return roicy.roi_align_max(x, np.array([[0, *box]]), (1, 2), **options).ravel()

    assert not pooled(far).any()
    left, right = pooled(half)
    assert right == 0
    assert left < 0 or products
    assert (pooled(inside) <= 0).all()
    assert products or (pooled(inside) == -5).all()
    assert not pooled(inverted, -1).any()


def test_tables_are_bounded():
    """Boxes are taken a few at a time.  A box with more samples than can be counted is an error."""
    boxes = np.tile(np.array([[0, 0, 0, 900, 900]], np.float32), (5000, 1))
    x, rule = np.broadcast_to(np.float32(0), (1, 1, 900, 900)), single_samples(1024, True)

    def boxes_at_once(boxes, bins):
        arguments = Arguments(boxes, None, 1.0, "NCHW", 1)
        plan = _cpu.plan_with_maps(ROI_ALIGN_MAX, rule, x, bins, arguments)
        assert plan.next()
        return plan.tables().stop

    assert 1 <= boxes_at_once(boxes, (7, 7)) < 100
    with pytest.raises(MemoryError, match="have 4294967296 taps, more than can be counted"):
        boxes_at_once(boxes[:1], (2**21, 2**21))


def test_arguments():
    x, boxes = np.ones((1, 2, 4, 4), np.float32), np.array([[0, 0, 0, 3, 3]], np.float32)
    with pytest.raises(TypeError, match="products: 1, expected True or False"):
        roicy.roi_align_max(x, boxes, 1, products=1)
    with pytest.raises(ValueError, match="sampling_ratio: 1025, .* -2147483648 to 1024"):
        roicy.roi_align_max(x, boxes, 1, sampling_ratio=1025)
    assert roicy.roi_align_max(x[:, :0], boxes, 2).shape == (1, 0, 2, 2)
    assert roicy.roi_align_max(x, boxes[:0], 2).shape == (0, 2, 2, 2)


def test_rows_that_just_fit(isa, rng):
    """Two rows fill the tile, so no third row may be packed."""
    x = rng.standard_normal((1, 16, 8, 32768)).astype(np.float32)
    boxes = np.array([[0, 0, 2.1, 32766, 2.4]], np.float32)
    out = roicy.roi_align_max(x, boxes, (1, 1000), sampling_ratio=1)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    other = roicy.roi_align_max(last, boxes, (1, 1000), sampling_ratio=1, layout="NHWC")
    np.testing.assert_array_equal(out, other.transpose(0, 3, 1, 2))
