"""Every operator, pass, dtype, layout and instruction set agrees with the definition."""

import numpy as np
import pytest
import reference
from conftest import SUMS, from_layout, operator, random_boxes, to_layout, two_scales

import roicy

# Each shape is K boxes, N, C of the output, H, W and (PH, PW).  There are a whole and a partial
# block, one channel, a single row, more images than blocks, many bins, and more bins than are
# computed together.  The first shape is enough work for a team of threads.
SHAPES = {
    "blocks": (70, 2, 37, 26, 31, (3, 4)),
    "camera": (5, 1, 3, 40, 50, (9, 8)),
    "row": (6, 3, 1, 1, 23, (2, 2)),
    "cell": (5, 2, 16, 1, 1, (2, 3)),
    "wide": (4, 1, 2, 3, 200, (1, 30)),
    "parts": (2, 1, 17, 12, 14, (34, 40)),
    # boxes in which few rows and columns are read
    "thin": (4, 2, 17, 60, 70, (2, 3)),
    "thin bins": (3, 1, 24, 60, 70, (2, 3)),
    # few channels, and bins wider than a lane vector
    "scene": (4, 2, 2, 40, 180, (2, 3)),
}
PARAMETERS = {
    "roi_align": [
        {"sampling_ratio": 2, "spatial_scale": 0.5},
        {"sampling_ratio": 0, "aligned": True, "spatial_scale": 0.25},
        {"sampling_ratio": 1, "aligned": True},
        {"spatial_scale": (0.25, 0.7)},
    ],
    "ps_roi_align": [{"sampling_ratio": 2, "spatial_scale": 0.5}, {"spatial_scale": (0.25, 0.4)}],
    "prroi_pool": [{"spatial_scale": 0.5}, {"spatial_scale": (0.7, 0.25)}],
    "ps_prroi_pool": [{"spatial_scale": 0.5}, {"spatial_scale": (0.25, 0.7)}],
    "ps_roi_pool": [{"spatial_scale": 0.5}, {"spatial_scale": (0.7, 0.25)}],
}
CASES = [(name, i) for name in SUMS for i in range(len(PARAMETERS[name]))]


def make(rng, name, shape, parameters, dtype):
    count, images, channels, height, width, bins = SHAPES[shape]
    if name.startswith("ps_"):
        channels = max(channels // 4, 1) * bins[0] * bins[1]
    input = rng.standard_normal((images, channels, height, width)).astype(dtype)
    vertical, horizontal = two_scales(parameters)
    boxes = random_boxes(rng, images, count, (height / vertical, width / horizontal), dtype)
    return input, boxes, bins


def assert_sum_close(actual, expected, magnitude, terms, dtype):
    """
    Check a sum of `terms` products.  Each term rounds once.  The two weights and the two
    multiplications add one rounding each.  A rounding is a unit in the last place of the sum of
    absolute values.
    """
    bound = (terms + 4) * np.finfo(dtype).eps * magnitude
    assert actual.dtype == dtype
    assert np.all(np.abs(actual - expected) <= bound + np.finfo(dtype).tiny)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_forward(case, shape, threads, dtype, layout, isa, rng):
    parameters = PARAMETERS[case[0]][case[1]]
    input, boxes, bins = make(rng, case[0], shape, parameters, dtype)
    out = operator(case[0])(
        to_layout(input, layout), boxes, bins, layout=layout, num_threads=threads, **parameters
    )
    expected, magnitude, terms = cached_forward(case, shape, dtype, input, boxes, bins, parameters)
    assert_sum_close(from_layout(out, layout), expected, magnitude, terms, dtype)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_backward(case, shape, threads, dtype, layout, isa, rng):
    parameters = PARAMETERS[case[0]][case[1]]
    input, boxes, bins = make(rng, case[0], shape, parameters, dtype)
    channels = input.shape[1] // (bins[0] * bins[1] if case[0].startswith("ps_") else 1)
    grad = rng.standard_normal((len(boxes), channels, *bins)).astype(dtype)
    shape_in_layout = to_layout(input, layout).shape
    out = operator(case[0], "_backward")(
        to_layout(grad, layout),
        boxes,
        shape_in_layout,
        layout=layout,
        num_threads=threads,
        **parameters,
    )
    expected, magnitude, terms = cached_backward(
        case, shape, dtype, grad, boxes, input.shape, parameters
    )
    assert_sum_close(from_layout(out, layout), expected, magnitude, terms, dtype)


cache = {}


def cached_forward(case, shape, dtype, input, boxes, bins, parameters):
    """
    Return the expected result, the result of absolute values, and the number of terms.  They are
    computed once for all instruction sets, layouts and numbers of threads.
    """
    key = ("forward", case, shape, dtype)
    if key not in cache:
        # A bin sums its pixels along y, and then along x.
        axes = [
            reference.axes(case[0], box, bins, input.shape[2:], dtype, **parameters)
            for box in boxes
        ]
        terms = sum(max(len(pixels) for box in axes for pixels in box[a]) for a in range(2))
        cache[key] = (
            *(
                reference.forward(case[0], x, boxes, bins, **parameters)
                for x in (input, np.abs(input))
            ),
            terms,
        )
    return cache[key]


def cached_backward(case, shape, dtype, grad, boxes, input_shape, parameters):
    key = ("backward", case, shape, dtype)
    if key not in cache:
        # For each box that reads it, a pixel sums a row of bins, and then the rows.
        axes = [
            (
                int(box[0]),
                reference.axes(case[0], box, grad.shape[2:], input_shape[2:], dtype, **parameters),
            )
            for box in boxes
        ]
        counts = np.zeros((input_shape[0], *input_shape[2:]))
        for n, box in axes:
            rows, columns = (
                np.array([sum(i in pixels for pixels in axis) for i in range(extent)])
                for axis, extent in zip(box, input_shape[2:], strict=True)
            )
            both = rows[:, None] * columns
            sums = (rows[:, None] + columns) * (both > 0)
            few = 4 * grad.shape[1] * grad.itemsize <= 64  # these may be added bin by bin
            counts[n] += np.maximum(sums, both) if few else sums
        cache[key] = (
            *(
                reference.backward(case[0], g, boxes, input_shape, **parameters)
                for g in (grad, np.abs(grad))
            ),
            counts.max(),
        )
    return cache[key]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1.0, 0.25, 0.7, (0.7, 0.25)])
def test_roi_pool(scale, shape, threads, dtype, layout, isa, rng):
    input, boxes, bins = make(rng, "roi_pool", shape, {"spatial_scale": scale}, dtype)
    input = np.round(input * 4) / 4  # ties: the first one wins
    key = ("roi_pool", scale, shape, dtype)
    if key not in cache:
        cache[key] = reference.roi_pool(input, boxes, bins, spatial_scale=scale)
    expected, expected_argmax = cache[key]
    options = {"layout": layout, "num_threads": threads}
    out, argmax = roicy.roi_pool(
        to_layout(input, layout), boxes, bins, scale, return_argmax=True, **options
    )
    np.testing.assert_array_equal(from_layout(out, layout), expected)
    np.testing.assert_array_equal(from_layout(argmax, layout), expected_argmax)
    np.testing.assert_array_equal(
        roicy.roi_pool(to_layout(input, layout), boxes, bins, scale, **options), out
    )

    grad = rng.integers(-8, 8, expected.shape).astype(dtype)  # sums of small integers are exact
    grad_input = roicy.roi_pool_backward(
        to_layout(grad, layout), argmax, boxes, to_layout(input, layout).shape, **options
    )
    np.testing.assert_array_equal(
        from_layout(grad_input, layout),
        reference.roi_pool_backward(grad, expected_argmax, boxes, input.shape),
    )
