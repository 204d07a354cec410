"""Edge cases of the largest samples; test_sample_max_backward.py has the plain definition."""

import numpy as np
import pytest
from conftest import from_layout, to_layout

import roicy
from roicy import _cpu
from roicy._kernels.plan import Arguments
from roicy._table import ROI_ALIGN_MAX, single_samples


def test_windows_larger_than_the_tile(dtype, layout, rng):
    """Windows are divided into cells, and samples may lie between two cells.  On a linear map they
    are exact.
    """
    h, w = 40, 9000
    y, x = np.mgrid[:h, :w]
    ramp = (x + y / 64).astype(dtype).reshape(1, 1, h, w)
    boxes = np.array([[0, 10, 2, 8900, 38]], dtype)
    out = from_layout(
        roicy.roi_align_max(
            to_layout(ramp, layout), boxes, 3, 1.0, 500, aligned=True, layout=layout
        ),
        layout,
    )[0, 0]
    # The last sample of a bin is half a step before its end.
    rows, columns = (
        low - 0.5 + np.arange(1, 4) * (high - low) / 3 - (high - low) / 1000 / 3
        for low, high in ((2, 38), (10, 8900))
    )
    # Positions go up to 9000, and so do the values that four weights multiply.
    np.testing.assert_allclose(
        out, columns + rows[:, None] / 64, rtol=0, atol=8 * np.finfo(dtype).eps * w
    )


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
    x = np.full((1, 1, 6, 6), -5.0)
    boxes = np.array(
        [[0, 100, 0, 110, 5], [0, 3, 1, 9, 3], [0, 4, 4, 1, 1], [0, 1, 1, 3, 3]], np.float64
    )
    out = roicy.roi_align_max(x, boxes, (1, 2), sampling_ratio=3, aligned=True, products=products)[
        :, 0, 0
    ]
    # The boxes are off the map, half on it, inverted, and inside.
    np.testing.assert_array_equal(out[0], [0, 0])
    assert out[1, 1] == 0
    assert out[1, 0] < 0 or products
    assert (out[3] <= 0).all()
    # With an adaptive number, an inverted box has no samples.
    np.testing.assert_array_equal(
        roicy.roi_align_max(x, boxes[2:3], 1, aligned=True), np.zeros((1, 1, 1, 1))
    )
    np.testing.assert_array_equal(
        roicy.roi_align_max(x, boxes[3:], 1, sampling_ratio=2, aligned=True, products=False),
        np.full((1, 1, 1, 1), -5.0),
    )


def test_tables_are_bounded(rng):
    """Boxes are taken a few at a time.  A box with more samples than can be counted is an error."""
    boxes = np.tile(np.array([[0, 0, 0, 900, 900]], np.float32), (5000, 1))
    x = np.broadcast_to(np.float32(0), (1, 1, 900, 900))

    def boxes_at_once(boxes, bins):
        arguments = Arguments(boxes, None, 1.0, "NCHW", 1)
        plan = _cpu.plan_with_maps(ROI_ALIGN_MAX, single_samples(1024, True), x, bins, arguments)
        assert plan.next()
        return plan.tables().stop

    assert 1 <= boxes_at_once(boxes, (7, 7)) < 100
    with pytest.raises(
        ValueError, match="sampling_ratio: 1025, expected an integer from -2147483648 to 1024"
    ):
        roicy.roi_align_max(np.ones((1, 1, 4, 4), np.float32), boxes[:1], 1, sampling_ratio=1025)
    with pytest.raises(
        MemoryError, match="the tables of boxes have 4294967296 taps, more than can be counted"
    ):
        boxes_at_once(boxes[:1], (2**21, 2**21))


def test_arguments():
    x, boxes = np.ones((1, 2, 4, 4), np.float32), np.array([[0, 0, 0, 3, 3]], np.float32)
    with pytest.raises(TypeError, match="products: 1, expected True or False"):
        roicy.roi_align_max(x, boxes, 1, products=1)
    assert roicy.roi_align_max(x[:, :0], boxes, 2).shape == (1, 0, 2, 2)
    assert roicy.roi_align_max(x, boxes[:0], 2).shape == (0, 2, 2, 2)
    out = np.full((2, 2, 2, 1), np.nan, np.float32).T
    assert roicy.roi_align_max(x, boxes, 2, out=out) is out
    np.testing.assert_array_equal(out, 1)


def test_rows_that_just_fit(isa, rng):
    """Two rows fill the tile, so no third row may be packed."""
    x = rng.standard_normal((1, 16, 8, 32768)).astype(np.float32)
    boxes = np.array([[0, 0, 2.1, 32766, 2.4]], np.float32)
    out = roicy.roi_align_max(x, boxes, (1, 1000), sampling_ratio=1)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    other = roicy.roi_align_max(last, boxes, (1, 1000), sampling_ratio=1, layout="NHWC")
    np.testing.assert_array_equal(out, other.transpose(0, 3, 1, 2))
