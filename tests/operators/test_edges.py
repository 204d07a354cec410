"""Results are defined where other systems crash, read out of bounds or leak NaN."""

import numpy as np
import pytest
import reference
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    SUMS,
    WITH_BOX_GRADIENTS,
    assert_same_bits,
    behind_a_line,
    copied_behind_a_line,
    from_layout,
    operator,
    pairs,
    passes,
    taken,
    to_layout,
)

import roicy

ALL = (*SUMS, "roi_pool")


def weights_of(axis, extent):
    """Return the weights of all pixels of an axis of the definition, for each bin."""
    weights = np.zeros((len(axis), extent))
    for p, pixels in enumerate(axis):
        weights[p, [*pixels]] = [*pixels.values()]
    return weights


def gradient(name, x, count, bins, dtype):
    """Return ones for the output of so many boxes."""
    channels = x.shape[1] // (bins * bins if name.startswith("ps_") else 1)
    return np.ones((count, channels, bins, bins), dtype)


@pairs(
    name=ALL,
    case=[((2, 4, 5, 6), 0), ((0, 4, 5, 6), 0), ((2, 0, 5, 6), 3), ((2, 4, 0, 6), 3),
          ((2, 4, 5, 0), 3)],
    layout=LAYOUTS,
    dtype=DTYPES,
)  # fmt: skip
def test_nothing_to_do(name, case, layout, dtype):
    shape, count = case
    x, boxes = np.ones(shape, dtype), np.tile(np.array([[0, 1, 1, 3, 3]], dtype), (count, 1))
    g = gradient(name, x, count, 2, dtype)
    out, *found = passes(name, x, boxes, g, layout)
    if name == "roi_pool":
        assert (found.pop(0) == -1).all()
    for array, like in zip((out, *found), (g, x, boxes), strict=False):
        assert_same_bits(array, np.zeros_like(like))


@pairs(name=ALL, dtype=DTYPES, isa=ISAS)
def test_boxes_off_the_map(name, dtype, isa):
    x = np.ones((1, 4, 6, 6), dtype)
    far = [
        [0, 100, 100, 120, 120],
        [0, -120, 1, -100, 3],
        [0, 1, 50, 3, 60],
        [0, 1e9, 1e9, 2e9, 2e9],
        [0, -2e9, -2e9, -1e9, -1e9],
    ]
    out, *found = passes(name, x, np.array(far, dtype), gradient(name, x, 5, 2, dtype))
    if name == "roi_pool":
        assert (found.pop(0) == -1).all()
    assert not any(array.any() for array in (out, *found))


@pairs(name=ALL, size=[1e9, 1e12, 1e18, 1e30], dtype=DTYPES, isa=ISAS)
def test_huge_boxes(name, size, dtype, isa):
    """The map bounds the work.  If boxes did, this test would not end."""
    x = np.ones((1, 4, 40, 30), dtype)
    boxes = np.array(
        [[0, -size, -size, size, size], [0, 3, -size, 9, size], [0, 0, 0, size, size]], dtype
    )
    out, *found = passes(name, x, boxes, gradient(name, x, 3, 2, dtype))
    # Samples of weight 1/n each lie as densely as pixels, or the map is a tiny part of the box
    # whose mean is taken.
    assert (np.abs(out) <= 1 + 1e-5).all()
    assert all(np.isfinite(array).all() for array in found)


@pytest.mark.parametrize("name", [*ALL, "roi_align_max", "roi_align_rotated"])
@pytest.mark.parametrize("corner", [0, 1e-10])
def test_scales_beyond_float32(name, corner):
    """Such a scale makes numbers that are not finite even of small ones."""
    x = np.ones((1, 4, 6, 6), np.float32)
    boxes = np.full((1, 6 if name == "roi_align_rotated" else 5), corner, np.float32)
    boxes[:, 0] = 0
    with pytest.raises(ValueError, match=r"times spatial_scale 1e\+39 is beyond float32"):
        operator(name)(x, boxes, 2, 1e39)


@pairs(name=SUMS, bad=[np.nan, np.inf, -np.inf], layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_nan_and_inf_reach_what_reads_them(name, bad, layout, dtype, isa):
    """Every bin is finite unless its own pixels are bad, and so are gradients of boxes.  A bad
    pixel does not reach it with weight 0, from a gap between samples, or from pixel (0, 0).
    """
    parameters = taken(name, sampling_ratio=1)
    boxes = np.array([[0, 0, 0, 30, 30], [0, 9, 9, 14, 14], [0, -40, -40, -20, -20]], dtype)
    grad = np.ones((3, 4 if name.startswith("ps_") else 36, 3, 3), dtype)
    for y, x in ((0, 0), (3, 4), (10, 11), (17, 3)):
        pixels = np.ones((1, 36, 20, 20), dtype)
        pixels[:, :, y, x] = bad
        out, _, *of_boxes = passes(name, pixels, boxes, grad, layout, **parameters)
        read = np.zeros(out.shape, bool)
        for k, box in enumerate(boxes):
            ys, xs = reference.axes(name, box, (3, 3), (20, 20), dtype, **parameters)
            for p, q in np.ndindex(3, 3):
                read[k, :, p, q] = y in ys[p] and x in xs[q]
            if of_boxes and not read[k].any():
                assert np.isfinite(of_boxes[0][k]).all()
        np.testing.assert_array_equal(np.isfinite(out), ~read)


@pytest.mark.parametrize("name", WITH_BOX_GRADIENTS)
def test_infinite_gradients_of_boxes_raise_nothing(name, dtype, isa):
    """Channels may have gradients that are infinite, of both signs, or beyond the type."""
    pixels = np.zeros((1, 36, 20, 20), dtype)
    pixels[:, :18, 4, 4], pixels[:, 18:, 4, 4] = np.inf, -np.inf
    huge = np.full_like(pixels, np.finfo(dtype).max / 4)
    huge[..., ::2] *= -1
    boxes = np.array([[0, 3.2, 3.2, 8.7, 8.7]], dtype)
    backward = operator(name, "_backward_boxes")
    g = np.ones((1, 1 if name.startswith("ps_") else 36, 6, 6), dtype)
    with np.errstate(all="raise"):
        assert np.isnan(backward(g, pixels, boxes)).any()
        assert not np.isfinite(backward(100 * g, huge, boxes)).all()


MANY = 2051  # images: float16, int8 and bfloat16 cannot number so many
SMALL_BOXES = ["float16", "bfloat16", "int8", "uint8", "float32", "int64"]


class TestBatchIndicesBeyondTheTypeOfTheBoxes:
    """Images are numbered exactly, whatever the types of boxes and maps are."""

    @staticmethod
    def make(kind, listed, dtype):
        """Return ramps times the number of their image, boxes, gradients, and options."""
        kind = pytest.importorskip("ml_dtypes").bfloat16 if kind == "bfloat16" else np.dtype(kind)
        numbers = np.arange(MANY).reshape(-1, 1, 1, 1)
        ramps = numbers * np.arange(6) * np.ones((6, 1))  # boxes end before the last pixel
        rows = np.tile(np.array([1, 1, 3, 3]).astype(kind), (MANY, 1))
        boxes = list(rows[:, None]) if listed else rows
        given = ramps.astype(dtype), boxes, 1 + numbers.astype(dtype)
        return *given, {} if listed else {"boxes_num": [1] * MANY}

    @staticmethod
    def check(g, out, of_input, of_boxes=None):
        assert out[1] > 0
        numbers = np.arange(MANY)
        np.testing.assert_allclose(out.ravel(), out[1].item() * numbers, rtol=1e-6)
        sums = of_input.sum(axis=(1, 2, 3))
        np.testing.assert_allclose(sums, g.ravel(), rtol=8 * np.finfo(g.dtype).eps)
        if of_boxes is not None:
            rows = np.concatenate(of_boxes) if isinstance(of_boxes, list) else of_boxes
            along_x = rows[:, 0] + rows[:, 2]  # of both edges: the ramp rises by the number
            np.testing.assert_allclose(along_x, g.ravel() * numbers, rtol=1e-5)

    @pairs(name=[*ALL, "roi_align_max"], kind=SMALL_BOXES, listed=[True, False], dtype=DTYPES)
    def test_operators(self, name, kind, listed, dtype):
        x, boxes, g, options = self.make(kind, listed, dtype)
        found = passes(name, x, boxes, g, **options)
        if name == "roi_pool":
            del found[1]  # argmax
        self.check(g, *found)

    @pairs(kind=SMALL_BOXES, listed=[True, False], dtype=DTYPES)
    def test_pyramid(self, kind, listed, dtype):
        x, boxes, g, options = self.make(kind, listed, dtype)
        levels, scales = [x, x[..., :2, :2].copy()], [1, 1 / 2]
        shapes = [level.shape for level in levels]
        out = roicy.multiscale_roi_align(levels, boxes, 1, scales, **options)
        grads = roicy.multiscale_roi_align_backward(g, boxes, shapes, scales, **options)
        backward = roicy.multiscale_roi_align_backward_boxes
        self.check(g, out, grads[0], backward(g, levels, boxes, scales, **options))
        assert not grads[1].any()


def test_as_many_images_as_float32_counts():
    """float32 rounds 2**24 + 1, the number of images, and holds the last batch index."""
    maps = np.zeros((2**24 + 1, 1, 1, 1), np.float32)
    maps[-1] = 7
    boxes = np.array([[2**24, 0, 0, 1, 1]], np.float32)
    for given in (boxes, boxes[:, ::-1].copy()[:, ::-1], boxes.view(Boxes)):
        assert roicy.roi_align(maps, given, 1).item() == 7


class Boxes(np.ndarray):
    """Boxes of these types are converted first."""


class TestRoiPool:
    @pairs(low=[np.nan, -np.inf], layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
    def test_what_never_wins(self, low, layout, dtype, isa):
        x = np.full((1, 20, 4, 4), low, dtype)
        x[:, :, 1, 2] = -5
        boxes = np.array([[0, 0, 0, 3, 3]], dtype)
        g = np.ones((1, 20, 2, 2), dtype)
        out, argmax, of_input = passes("roi_pool", x, boxes, g, layout)
        lowest = np.finfo(dtype).min
        np.testing.assert_array_equal(out, g * np.array([[lowest, -5], [lowest, lowest]], dtype))
        np.testing.assert_array_equal(argmax, g * [[-1, 6], [-1, -1]])
        np.testing.assert_array_equal(of_input, x == -5)

    @pairs(channels=[1, 3, 16], layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
    def test_the_largest_is_found_wherever_it_lies(self, channels, layout, dtype, isa):
        """Each image has it at another pixel."""
        count, extents = 150, (3, 50)
        x = -np.ones((count, channels, 150), dtype)
        x[np.arange(count), :, np.arange(count)] = 2
        x = to_layout(x.reshape(count, channels, *extents), layout)
        boxes = np.array([[n, 0, 0, 49, 2] for n in range(count)], dtype)
        out, argmax = roicy.roi_pool(x, boxes, 1, return_argmax=True, layout=layout)
        assert (roicy.roi_pool(x, boxes, 1, layout=layout) == 2).all()
        assert (out == 2).all()
        assert (argmax.reshape(count, channels) == np.arange(count)[:, None]).all()

    def test_first_of_equals_wins_across_scratch_borders(self, dtype, isa):
        """The window is wider and higher than the cells into which the kernel divides it."""
        x = np.zeros((1, 1, 20, 9000), dtype)
        boxes = np.array([[0, 0, 0, 8999, 19]], dtype)
        for y, x_ in ((0, 0), (3, 8500), (7, 10)):
            x[...] = 0
            x[0, 0, y, x_] = x[0, 0, y + 1, 5] = x[0, 0, 19, 8999] = 7
            out, argmax = roicy.roi_pool(x, boxes, 1, return_argmax=True)
            assert (out.item(), argmax.item()) == (7, y * 9000 + x_)


@pairs(name=ALL, layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_windows_beyond_the_scratch_budget(name, layout, dtype, isa, rng):
    """The rows of the map do not fit a tile, and boxes cover all of it.  So windows are divided
    into cells, and results agree but for rounding.
    """
    x = rng.integers(-4, 5, (1, 4, 40, 9000)).astype(dtype)
    boxes = np.array([[0, 0, 0, 8999, 39], [0, 2000, 3, 7000, 30], [0, 100, 5, 130, 20]], dtype)
    parameters, g = taken(name, sampling_ratio=40), gradient(name, x, 3, 2, dtype)
    out, *found = passes(name, x, boxes, g, layout, **parameters)
    for k, box in enumerate(boxes):
        ys, xs = reference.axes(name, box, (2, 2), x.shape[2:], dtype, **parameters)
        for p, q in np.ndindex(2, 2):
            channels = reference.source_channels(name, out.shape[1], (2, 2), p, q)
            window = x[0, channels][:, [*ys[p]]][:, :, [*xs[q]]].astype(np.float64)
            if name == "roi_pool":
                np.testing.assert_array_equal(out[k, :, p, q], window.max(axis=(1, 2)))
                continue
            # Weights are rounded, and at most 4500 + 20 terms of random signs are summed.  Their
            # roundings are a random walk.
            expected = np.einsum("y,cyx,x->c", [*ys[p].values()], window, [*xs[q].values()])
            slack = 200 * np.finfo(dtype).eps
            np.testing.assert_allclose(out[k, :, p, q], expected, rtol=0, atol=slack)
    if name != "roi_pool":
        of_ones = operator(name)(np.ones_like(x), boxes, 2, **parameters).sum(dtype=np.float64)
        total, slack = found[0].sum(dtype=np.float64), 2000 * np.finfo(dtype).eps
        np.testing.assert_allclose(total, of_ones, rtol=slack)


@pairs(name=["roi_align", "prroi_pool"], channels=[3, 18], layout=LAYOUTS, dtype=DTYPES, isa=ISAS)
def test_gradients_of_bins_that_read_nothing_are_not_read(name, channels, layout, dtype, isa, rng):
    """Bins off the map add nothing to the gradient of their box, even if theirs is NaN."""
    x = rng.standard_normal((1, channels, 20, 30)).astype(dtype)
    boxes = np.array(
        [[0, -30, 5, 10, 15], [0, 5, -20, 20, 10], [0, 12, 9, 50, 40], [0, 40, 50, 60, 70]], dtype
    )
    read = operator(name)(np.ones_like(x), boxes, (20, 7))
    assert (read == 0).any(axis=(1, 2, 3)).all()
    g = rng.standard_normal(read.shape).astype(dtype)
    grads = []
    for unread in (np.nan, 0):
        g[read == 0] = unread
        grads.append(passes(name, x, boxes, g, layout)[-1])
    assert np.isfinite(grads[0]).all()
    np.testing.assert_array_equal(*grads)


@pairs(
    size=[(70, 9), (3, 600), (64, 64), (2, 1030)],
    channels=[3, 18],
    layout=LAYOUTS,
    dtype=DTYPES,
    isa=ISAS,
)
def test_more_bins_than_are_computed_together(size, channels, layout, dtype, isa, rng):
    x = rng.standard_normal((1, channels, 30, 40)).astype(dtype)
    boxes = np.array([[0, 2, 3, 37, 26]], dtype)
    g = rng.standard_normal((1, channels, *size)).astype(dtype)
    out, back, _ = passes("roi_align", x, boxes, g, layout, sampling_ratio=1)
    axes = reference.axes("roi_align", boxes[0], size, (30, 40), dtype, sampling_ratio=1)
    of_rows, of_columns = map(weights_of, axes, (30, 40))
    eps, read = np.finfo(dtype).eps, of_rows @ x[0].astype(np.float64) @ of_columns.T
    np.testing.assert_allclose(out[0], read, rtol=0, atol=8 * eps * np.abs(x).max())
    expected, magnitude = (
        of_rows.T @ given[0].astype(np.float64) @ of_columns for given in (g, np.abs(g))
    )
    np.testing.assert_allclose(back[0], expected, rtol=0, atol=100 * eps * magnitude.max())


@pairs(channels=[16, 21], past=[0, 4, 13], dtype=DTYPES, isa=ISAS)
def test_planes_a_multiple_of_4_kilobytes_apart(channels, past, dtype, isa, rng):
    """Such planes are transposed in another order, from line to line, wherever they begin.  Planes
    that are one row larger give the same bits for the same pixels and bins.
    """

    def placed(array):
        return copied_behind_a_line(array, past, dtype)

    def spaced(array):
        wider = np.zeros((*array.shape[:2], array.shape[2] + 1, array.shape[3]), dtype)[:, :, :-1]
        wider[...] = array
        return wider

    def check(function, array, *given):
        """The array and the result may lie in both ways."""
        found = function(placed(array), *given)
        assert found.any()
        for place, other in ((placed, spaced), (spaced, placed)):
            out = other(np.full_like(found, np.nan))
            np.testing.assert_array_equal(function(place(array), *given, out=out), found)

    x = rng.standard_normal((2, channels, 32, 32)).astype(dtype)
    boxes = np.array([[0, 1, 2, 29, 30.5], [1, 0, 0, 32, 32], [1, 11.5, 3, 14, 5]], dtype)
    for bins in ((3, 4), (32, 32)):
        check(roicy.roi_align, x, boxes, bins)
        check(roicy.roi_pool, x, boxes, bins)
        g = rng.standard_normal((3, channels, *bins)).astype(dtype)
        check(roicy.roi_align_backward, g, boxes, x.shape)


# The planes are contiguous and begin at the start of a line, or within one.  In others, cache lines
# begin at different pixels, or planes lie a multiple of 4 KB apart.  The last two have gaps between
# rows: rows begin at one place of a line, or at different places.
@pairs(
    place=[(160, 208, 0, 0), (160, 208, 13, 0), (161, 207, 4, 0), (128, 256, 3, 0),
           (160, 192, 5, 16), (160, 203, 5, 5)],
    dtype=DTYPES,
    isa=ISAS,
)  # fmt: skip
def test_large_gradients(place, dtype, isa, rng):
    """Whole lines are written past the caches.  The bits are those of channels last, and nothing
    beside them is written.
    """
    (h, w, past, spare), c = place, 4 * 16 + 5
    assert c * h * w * 4 > 8 << 20
    boxes = np.array([[0, 1, 2, 29, 30.5], [0, w - 80, 90, w, h], [0, 3, 3, w - 9, 5]], dtype)
    grad = rng.standard_normal((len(boxes), c, 3, 4)).astype(dtype)
    pixels = to_layout(grad, "NHWC")
    expected = roicy.roi_align_backward(pixels, boxes, (1, h, w, c), layout="NHWC")
    for threads in (1, 3):
        memory, whole = behind_a_line((1, c, h, w + spare), past, dtype)
        out = whole[..., :w]
        roicy.roi_align_backward(grad, boxes, out.shape, out=out, num_threads=threads)
        np.testing.assert_array_equal(out, from_layout(expected, "NHWC"))
        assert np.isfinite(memory).sum() == out.size


@pairs(name=["roi_align", "roi_pool"], place=[(0, 16), (5, 16), (5, 3)], dtype=DTYPES, isa=ISAS)
def test_large_results_with_gaps(name, place, dtype, isa, rng):
    """Rows of bins with gaps between them go past the caches one by one.  The bits are those of a
    result without gaps, and nothing is written into the gaps.
    """
    (past, spare), shape = place, (20, 37, 48, 64)
    x = rng.standard_normal((1, 37, 20, 20)).astype(dtype)
    corners = rng.uniform(0, 9, (20, 2)), rng.uniform(10, 20, (20, 2))
    boxes = np.column_stack([np.zeros(20), *corners]).astype(dtype)
    expected = operator(name)(x, boxes, shape[2:])
    assert expected.size * 4 > 8 << 20
    memory, whole = behind_a_line((*shape[:3], shape[3] + spare), past, dtype)
    out = operator(name)(x, boxes, shape[2:], out=whole[..., : shape[3]], num_threads=2)
    np.testing.assert_array_equal(out, expected)
    assert np.isfinite(memory).sum() == out.size
