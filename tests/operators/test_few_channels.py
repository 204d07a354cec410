"""Few channels, for which lanes are bin rows."""

import numpy as np
from conftest import (
    DTYPES,
    ISAS,
    assert_equal_but_for_order,
    assert_same_bits,
    lying_apart,
    operator,
    pairs,
    random_boxes,
    views,
)

import roicy

# The bin rows fill less than a lane vector, more than one, or several.  There are more bin columns
# than are computed together.  There are boxes from which only some columns, or only the columns of
# one channel, fit scratch together.  There are bins that are too wide for scratch.
FEW_CHANNELS = [
    ((40, 90), (7, 5)),
    ((40, 90), (20, 3)),
    ((40, 90), (37, 70)),
    ((40, 90), (16, 1100)),
    ((12, 3000), (16, 30)),
    ((12, 3000), (20, 4)),
    ((9, 3000), (8, 2)),
]


def make(rng, sizes, dtype):
    """Return maps of 18 channels and of the first 3 alone, boxes, and a gradient of 3 channels."""
    (h, w), bins = sizes
    many = rng.standard_normal((2, 18, h, w)).astype(dtype)
    odd = np.array([[1, 3, 5, 4, 30], [0, -9, -9, -3, 50], [1, 60, 8, 95, 25]], dtype)
    boxes = np.concatenate([random_boxes(rng, 2, 20, (h, w), dtype), odd])
    g = rng.standard_normal((len(boxes), 3, *bins)).astype(dtype)
    return many, np.ascontiguousarray(many[:, :3]), boxes, g


def lying_otherwise(x, many):
    """Return the 3 channels in other places: among many, spaced, by pixels, and rows reversed."""
    return many[:, :3], *list(views(x))[:2], x[:, :, ::-1].copy()[:, :, ::-1]


@pairs(sizes=FEW_CHANNELS, name=["roi_align", "prroi_pool"], dtype=DTYPES, isa=ISAS)
def test_few_channels(sizes, name, dtype, isa, rng):
    """With few channels, lanes are bin rows, and y is always contracted first.  Results are close
    to those of the same channels among so many that lanes are channels.
    """
    (many, x, boxes, _), (extents, bins), c = make(rng, sizes, dtype), sizes, 3
    function = operator(name)
    expected = function(x, boxes, bins)
    others, size = function(many, boxes, bins)[:, :c], function(np.abs(x), boxes, bins)
    assert_equal_but_for_order(expected, others, size, extents, bins)
    for view in (x, *lying_otherwise(x, many)):
        assert_same_bits(function(view, boxes, bins), expected)
        by_pixels = (
            np.full((len(boxes), *bins, count), np.nan, dtype).transpose(0, 3, 1, 2)
            for count in (c, c + 2)
        )
        for out in (lying_apart(expected.shape, dtype), *by_pixels):
            function(view, boxes, bins, out=out[:, :c])
            assert_same_bits(np.ascontiguousarray(out[:, :c]), expected)
            assert np.isnan(out[:, c:]).all()
    for one in (x[:, :1].copy(), next(views(x))[:, :1]):
        found = function(one, boxes, bins, num_threads=3)
        assert_same_bits(found, np.ascontiguousarray(expected[:, :1]))


@pairs(sizes=FEW_CHANNELS, name=["roi_align", "prroi_pool"], dtype=DTYPES, isa=ISAS)
def test_gradients_of_boxes_of_few_channels(sizes, name, dtype, isa, rng):
    """Few channels agree with many, and strides, threads and other boxes change no bits."""
    (many, x, boxes, g), (_, bins), c = make(rng, sizes, dtype), sizes, 3
    backward = operator(name, "_backward_boxes")
    expected = backward(g, x, boxes, num_threads=1)
    # The gradient of all channels but the first 3 is zero.
    without = np.zeros((len(boxes), 18, *bins), dtype)
    without[:, :c] = g
    # Each result may be off by the bound of docs/guarantees.md.  Boxes of roi_align are at least a
    # pixel wide.  For boxes of prroi_pool without width the bound is infinite.
    sides = np.abs(boxes[:, 3:] - boxes[:, 1:3]) / bins[::-1]
    with np.errstate(divide="ignore"):
        slope = 4 / sides.min(axis=1) if name == "prroi_pool" else 4
    most = np.abs(g).sum(axis=(1, 2, 3), dtype=np.float64) * np.abs(x).max() * slope
    off = np.abs(expected - backward(without, many, boxes)).max(axis=1)
    assert (off <= 2 * 64 * np.finfo(dtype).eps / 2 * most).all()
    for view in (x, *lying_otherwise(x, many)):
        for grad in (g, *list(views(g))[:2], without[:, :c]):
            assert_same_bits(backward(grad, view, boxes, num_threads=3), expected)
    for k in range(0, len(boxes), 5):
        assert_same_bits(backward(g[k : k + 1], x, boxes[k : k + 1]), expected[k : k + 1])


def test_few_channels_of_wide_maps(isa, rng):
    """A box that is wider than scratch has channels as lanes, and the other boxes of the same call
    have bin rows as lanes.  They alternate, and all begin in one row.
    """
    x = rng.integers(0, 255, (1, 1, 10, 6000)).astype(np.uint8)
    boxes = np.zeros((16, 5), np.float32)
    boxes[:, 1:] = rng.uniform((0, 0, 5200, 7), (20, 0.9, 5900, 8), (16, 4))
    boxes[1::2, 3] = 200
    out = roicy.roi_align(x, boxes, (8, 3), num_threads=1)
    for k in range(len(boxes)):
        assert_same_bits(roicy.roi_align(x, boxes[k : k + 1], (8, 3)), out[k : k + 1])


@pairs(extents=[(20, 9000), (1100, 1200)], dtype=DTYPES, isa=ISAS)
def test_few_channels_beyond_the_scratch_budget(extents, dtype, isa, rng):
    """Windows have more columns than fit a strip and, where pixels do not lie together, more pixels
    than fit a tile.
    """
    x = rng.integers(-4, 5, (1, 2, *extents)).astype(dtype)
    boxes = np.array([[0, 0, 0, *extents[::-1]], [0, 5, 3, 40, 19]], dtype)
    wide = np.repeat(x, 9, axis=1)  # here lanes are channels
    g = np.ones((2, 2, 9, 2), dtype)
    g_wide = np.zeros((2, 18, 9, 2), dtype)
    g_wide[:, ::9] = g
    options, backward = {"sampling_ratio": 2}, roicy.roi_align_backward_boxes
    expected = roicy.roi_align(wide, boxes, (9, 2), **options)[:, ::9]
    expected_grad = backward(g_wide, wide, boxes, **options)
    grad = backward(g, x, boxes, **options)
    eps = np.finfo(dtype).eps
    # The gradient of the output is 1.  So each of 9 * 2 * 2 bins adds at most 2 pixels of at most 4
    # to the gradient of a box.
    np.testing.assert_allclose(grad, expected_grad, rtol=0, atol=16 * 9 * 2 * 2 * 4 * eps)
    spaced, by_pixels = list(views(x))[:2]
    for view in (x, spaced, by_pixels):
        # The windows are divided into other cells.  At most 4 + 4 terms of at most 4 are summed.
        out = roicy.roi_align(view, boxes, (9, 2), **options)
        np.testing.assert_allclose(out, expected, rtol=0, atol=16 * eps)
        assert_same_bits(backward(g, view, boxes, **options), grad)
