"""roi_align_max and its gradient against the plain definition, and the gradient at its edges."""

import numpy as np
import pytest
import reference
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    from_layout,
    pairs,
    random_boxes,
    same_passes,
    to_layout,
    two_scales,
)

import roicy

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

# K boxes, N, C, H, W, (PH, PW): enough for a team of threads, a single row, a single pixel,
# more bins than are computed at once, an image without boxes, boxes in which few rows and columns
# are read
SHAPES = {
    "blocks": (40, 2, 21, 26, 31, (3, 4)),
    "one block": (30, 1, 16, 40, 23, (2, 2)),
    "row": (6, 3, 2, 1, 23, (2, 2)),
    "pixel": (5, 2, 17, 1, 1, (2, 3)),
    "bins": (2, 1, 2, 9, 12, (70, 20)),
    "one box": (1, 3, 5, 12, 9, (2, 2)),
    "thin": (8, 2, 18, 90, 80, (2, 1)),
}
PARAMETERS = [
    {"sampling_ratio": 1, "spatial_scale": 1.0},
    {"sampling_ratio": 2, "spatial_scale": 0.5},
    {"sampling_ratio": 0, "aligned": True, "spatial_scale": 0.25},
    {"sampling_ratio": 2, "aligned": True, "spatial_scale": (0.7, 0.25)},
    {"sampling_ratio": 0, "spatial_scale": 0.5},
]
both = pytest.mark.parametrize("products", [False, True], ids=["samples", "products"])
cache = {}


def make(rng, shape, scale, dtype):
    """A map, boxes of all kinds, and a gradient of an output."""
    count, n, c, h, w, bins = SHAPES[shape]
    x = rng.standard_normal((n, c, h, w)).astype(dtype)
    boxes = random_boxes(rng, n, count, (h / scale[0], w / scale[1]), dtype)
    grad = rng.standard_normal((count, c, *bins)).astype(dtype)
    return x, boxes, grad


def with_clear_winners(grad, x, boxes, products, **parameters):
    """Return the gradient of an output, 0 where rounding decides which sample is the largest, what
    follows from it by the definition, and how far from that rounding may lead.

    Rounded are, of a sample, weights of both axes, their product, four multiplications and three
    sums; of the gradient, weights of both axes, their product, its product and all sums.  The
    definition is rounded likewise, in float64.
    """
    eps = np.finfo(grad.dtype).eps
    clear = 20 * eps * np.abs(x).max()
    expected, size, terms, margins = reference.roi_align_max_backward(
        grad, x, boxes, products, clear, **parameters
    )
    grad[margins < clear] = 0
    assert np.count_nonzero(grad) > 0.75 * grad.size
    return grad, expected, (terms + 6) * (eps if grad.dtype == np.float64 else eps / 2) * size


def assert_within(result, expected, bound):
    assert (np.abs(result - expected) <= bound).all(), np.abs(result - expected).max()


@pairs(
    shape=SHAPES,
    case=range(len(PARAMETERS)),
    products=[False, True],
    layout=LAYOUTS,
    dtype=DTYPES,
    isa=ISAS,
)
def test_against_the_definition(shape, case, products, layout, dtype, isa, rng):
    x, boxes, grad = make(rng, shape, two_scales(PARAMETERS[case]), dtype)
    key = (shape, case, products, dtype)
    parameters = PARAMETERS[case]
    if key not in cache:
        out = reference.roi_align_max(x, boxes, grad.shape[2:], products, **parameters)
        # The weights of both axes, their product, four multiplications and three sums round once.
        bound = 10 * np.finfo(dtype).eps * np.abs(x).max()
        cache[key] = (out, bound), with_clear_winners(grad, x, boxes, products, **parameters)
    of_output, (grad, *of_input) = cache[key]
    results = same_passes(
        "roi_align_max", x, boxes, grad, [(layout, 1), (layout, 3)], products=products, **parameters
    )
    for result, wanted in zip(results, (of_output, of_input), strict=True):
        assert result.dtype == dtype
        assert_within(result, *wanted)


@pairs(
    small=[np.uint8, np.float16, *([ml_dtypes.bfloat16] if ml_dtypes else [])],
    products=[False, True],
    layout=LAYOUTS,
    isa=ISAS,
)
def test_small_types(small, products, layout, isa, rng):
    """The winners are those of the map as float32, bit for bit."""
    x, boxes, grad = make(rng, "blocks", (1, 1), np.float32)
    x = to_layout((100 + 20 * x).astype(small), layout)
    grad = to_layout(grad, layout)
    options = {"sampling_ratio": 2, "products": products, "layout": layout}
    result = roicy.roi_align_max_backward(grad, x, boxes, **options)
    expected = roicy.roi_align_max_backward(grad, x.astype(np.float32), boxes, **options)
    assert result.dtype == np.float32
    assert expected.any()
    np.testing.assert_array_equal(result, expected)


@both
def test_central_differences(products, layout, rng):
    """Half the difference of what a step up and one down give.  A pixel is moved by less than the
    distance of any two values that may win, so that no winner changes.
    """
    n, c, h, w, step = 2, 3, 7, 6, 1e-6
    x = 1 + rng.permutation(n * c * h * w).reshape(n, c, h, w) / 7.0
    x += rng.random(x.shape) / 100
    boxes = np.array([[0, 0.3, -2, 4.2, 3.1], [1, 2, 1, 9, 5.5], [1, 5, 5, 2, 2], [0, 0, 0, 6, 7]])
    options = {"sampling_ratio": 3, "aligned": True, "products": products, "layout": layout}
    grad = rng.standard_normal((len(boxes), c, 2, 3))

    def loss(values):
        out = roicy.roi_align_max(to_layout(values, layout), boxes, (2, 3), **options)
        return (from_layout(out, layout) * grad).sum()

    given = to_layout(grad, layout), to_layout(x, layout), boxes
    result = from_layout(roicy.roi_align_max_backward(*given, **options), layout)
    expected = np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][at] += step
        moved[1][at] -= step
        expected[at] = (loss(moved[0]) - loss(moved[1])) / (2 * step)
    assert np.count_nonzero(expected) > 20
    # sums of about a thousand, which are rounded, divided by the step
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-6)


def test_ties():
    """The first in row order wins, of samples and of the pixels of one."""
    x = np.full((1, 1, 4, 4), 8.0)
    box = np.array([[0, 0.5, 0.5, 2.5, 2.5]])  # samples at 1 and 2 of both axes
    one = np.ones((1, 1, 1, 1))
    expected = np.zeros((4, 4))
    expected[1, 1] = 1
    for products in (False, True):
        grad = roicy.roi_align_max_backward(one, x, box, 1, 2, products=products)
        np.testing.assert_array_equal(grad[0, 0], expected)
    x[0, 0, 2, 1] = 9
    expected = np.roll(expected, 1, axis=0)
    grad = roicy.roi_align_max_backward(one, x, box, 1, 2)
    np.testing.assert_array_equal(grad[0, 0], expected)
    # one sample between four equal pixels
    x[:] = 8
    box[0, 1:] = [1, 1, 2, 2]
    grad = roicy.roi_align_max_backward(one, x, box, 1, 1, products=True)
    expected = np.zeros((4, 4))
    expected[1, 1] = 0.25
    np.testing.assert_array_equal(grad[0, 0], expected)


@both
def test_samples_off_the_map(products):
    """They count as 0 and come first, so that what is not above 0 gets no gradient."""

    def grad(value, *corners, ratio=3):
        """Return the sum of the gradient of a map of one value."""
        x, box = np.full((1, 1, 6, 6), value, np.float32), np.array([[0, *corners]], np.float32)
        one = np.ones((1, 1, 1, 1), np.float32)
        return roicy.roi_align_max_backward(one, x, box, 1, ratio, True, products=products).sum()

    half, inside = (3, 1, 9, 3), (1.2, 1.2, 4.2, 4.2)  # in columns 3.5 and beyond the map
    for value in (-5, 0):
        assert grad(value, *half) == 0
        assert grad(value, *inside) > 0
    assert 0 < grad(5, *half) <= 1
    assert products or grad(5, *half) == 1
    # wholly off the map; inverted, whose adaptive grid has no samples
    assert grad(5, 100, 0, 110, 5, ratio=0) == grad(5, 4, 4, 1, 1, ratio=0) == 0


@both
def test_not_a_number(products, dtype, layout):
    """A NaN wins nothing, and what it leaves gets the gradient; nor does it reach the gradient."""
    x = np.full((1, 17, 6, 6), np.nan, dtype)
    boxes = np.array([[0, 1, 1, 4, 4]], dtype)
    one = np.ones((1, 17, 1, 1), dtype)
    options = {"sampling_ratio": 2, "products": products}

    def result():
        given = (to_layout(one, layout), to_layout(x, layout), boxes)
        return from_layout(roicy.roi_align_max_backward(*given, layout=layout, **options), layout)

    assert not result().any()
    x[..., 2:, :3] = 1  # of the samples at (1.75, 3.25), one pair reads no NaN
    expected, *_ = reference.roi_align_max_backward(one, x, boxes, products, sampling_ratio=2)
    assert expected.any()
    np.testing.assert_array_equal(result(), expected)


@both
def test_pixels_of_weight_zero(products):
    """A gradient that is infinite or NaN does not reach them."""
    x = np.zeros((1, 1, 5, 5), np.float32)
    x[0, 0, 2, 2] = 1
    box = np.array([[0, 1.5, 1.5, 2.5, 2.5]], np.float32)
    for value in (np.inf, np.nan):
        grad = np.full((1, 1, 1, 1), value, np.float32)
        result = roicy.roi_align_max_backward(grad, x, box, 1, 1, products=products)[0, 0]
        np.testing.assert_array_equal(result[2, 2], value)
        result[2, 2] = 0
        assert not result.any()


@both
def test_bins_larger_than_the_tile(products, rng):
    """Windows of many samples, and of few that lie far apart."""
    h, w = 44, 1750  # a tile has 65,536 pixels
    x = rng.standard_normal((1, 1, h, w)).astype(np.float32)
    boxes = np.array([[0, 10, 2, 1720, 42]], np.float32)
    grad = rng.standard_normal((1, 1, 1, 2)).astype(np.float32)
    for ratio in (3, 0):
        grad, expected, bound = with_clear_winners(grad, x, boxes, products, sampling_ratio=ratio)
        options = {"sampling_ratio": ratio, "products": products}
        for layout in LAYOUTS:
            given = (to_layout(grad, layout), to_layout(x, layout), boxes)
            result = roicy.roi_align_max_backward(*given, layout=layout, **options)
            assert_within(from_layout(result, layout), expected, bound)


@pytest.mark.parametrize(
    ("count", "shape"),
    [(0, (2, 3, 4, 5)), (1, (2, 0, 4, 5)), (1, (2, 3, 0, 5)), (0, (0, 3, 4, 5)), (1, (3, 2, 4, 5))],
)
def test_images_without_boxes(count, shape, layout):
    """Their gradients are zeros, also in arrays of the caller's.  A box is of the first image."""
    boxes = np.array([[0, 0, 0, 3, 3]], np.float32)[:count]
    x = to_layout(np.ones(shape, np.float32), layout)
    grad = to_layout(np.ones((count, shape[1], 2, 2), np.float32), layout)
    out = np.full_like(x, np.nan)
    assert roicy.roi_align_max_backward(grad, x, boxes, layout=layout, out=out) is out
    assert out[:1].any() == (count > 0 and x.size > 0)
    np.testing.assert_array_equal(out[1:], 0)


def test_arguments():
    """Errors name the argument, and come before anything is written."""
    x, boxes = np.ones((1, 2, 4, 4), np.float32), np.array([[0, 0, 0, 3, 3]], np.float32)
    right = {"grad_output": np.ones((1, 2, 2, 2), np.float32), "input": x, "boxes": boxes}
    for error, message, changed in (
        (TypeError, "products: 1, expected True or False", {"products": 1}),
        (ValueError, "sampling_ratio: 1025, .* -2147483648 to 1024", {"sampling_ratio": 1025}),
        (ValueError, r"grad_output: shape \(1, 3, 2, 2\), expected \(1, 2, 2, 2\), for 1 boxes",
         {"grad_output": np.ones((1, 3, 2, 2), np.float32)}),
        (TypeError, "dtype float32, expected float64, in which the input of float64 is computed",
         {"input": x.astype(np.float64)}),
        (ValueError, r"boxes\[0\]: y1 is nan", {"boxes": boxes * [1, 1, np.nan, 1, 1]}),
        (ValueError, "out: overlaps memory that the call reads", {"out": x}),
        (TypeError, "out: dtype float64, expected float32", {"out": np.full(x.shape, 7.0)}),
    ):  # fmt: skip
        given = {"out": np.full_like(x, 7)} | right | changed
        before = given["out"].copy()
        with pytest.raises(error, match=message):
            roicy.roi_align_max_backward(**given)
        np.testing.assert_array_equal(given["out"], before)
