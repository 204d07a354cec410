"""deformable_attention agrees with its definition and with recorded numbers, whatever its arguments
are.
"""

import json
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import reference_attention as reference
from attended import RULES, SHAPES, problem
from conftest import DTYPES, ISAS, assert_same_bits, copied_behind_a_line, pairs
from fences import fenced, needs_fences

import roicy

with np.load(Path(__file__).parents[1] / "data" / "attention.npz") as file:
    RECORDED = dict(file)
CASES = sorted({name.split("/")[0] for name in RECORDED})
# Levels, and their points where each has its own: more of them than are found at once, or none.
POINTS = {"equal": None, "own": (3, 0, 2), "many": (70, 60, 1), "one": (0, 1, 0)}


def both(value, shapes, locations, weights, grad, **given):
    """Return the result and the three gradients."""
    out = roicy.deformable_attention(value, shapes, locations, weights, **given)
    grads = roicy.deformable_attention_backward(grad, value, shapes, locations, weights, **given)
    return [out, *grads]


def assert_defined(found, value, shapes, locations, weights, grad, size, **given):
    """Check results by the definition, and return them.

    size: how many products of about 1 are added to a number, or bounds their sum.
    """
    read = (value, shapes, locations, weights)
    expected = [
        reference.deformable_attention(*read, **given),
        *reference.deformable_attention(*read, grad, **given),
    ]
    for array, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, right, rtol=0, atol=size * np.finfo(value.dtype).eps)
    return expected


@pairs(
    rule=RULES, points=POINTS, channels=[1, 7, 16, 20, 32, 53], heads=[1, 3], dtype=DTYPES, isa=ISAS
)
def test_definition(rule, points, channels, heads, dtype, isa, rng):
    rule, points = RULES[rule], POINTS[points]
    value, *others = problem(rng, dtype, points=points, heads=heads, channels=channels, queries=3)
    found = both(value, SHAPES, *others, points=points, **rule)
    assert [array.dtype for array in found] == [dtype] * 4
    # sums of up to 131 points, or of 53 channels, of numbers of about 1, times a scale of 7
    expected = assert_defined(found, value, SHAPES, *others, 4000, points=points, **rule)
    assert (expected[0] != 0).any()


@pytest.mark.parametrize("case", CASES)
def test_recorded(case, isa):
    """Numbers of transformers' and mmcv's own functions, and of PyTorch's grid_sample.

    Those of "torch" have locations that are NaN, infinite and far away.
    """
    arrays = {
        name.split("/")[1]: RECORDED[name] for name in RECORDED if name.startswith(case + "/")
    }
    given = json.loads(str(arrays["params"]))
    read = [arrays["value"], given.pop("shapes"), arrays["locations"], arrays["weights"]]
    dtype = arrays["value"].dtype
    found = roicy.deformable_attention(*read, **given)
    tolerance = 200 * np.finfo(dtype).eps
    np.testing.assert_allclose(found, arrays["out"], rtol=tolerance, atol=tolerance)
    if "grad_output" in arrays:
        grads = roicy.deformable_attention_backward(arrays["grad_output"], *read, **given)
        names = ("grad_value", "grad_locations", "grad_weights")
        for name, grad in zip(names, grads, strict=True):
            np.testing.assert_allclose(grad, arrays[name], rtol=tolerance, atol=tolerance)


@pairs(rule=RULES, dtype=DTYPES, isa=ISAS)
def test_no_numbers(rule, dtype, isa, rng):
    """Locations that are no numbers, or infinite, or far away, as the definition has them."""
    special = [math.nan, math.inf, -math.inf, 1e30, -1e30, 1e9, -3.0, 7.0, 0.4, 0.0, 1.0, -0.1]
    places = np.array([(x, y) for x in special for y in special])
    value, _, _, grad = problem(rng, dtype, ((3, 4),), (1,), 1, len(places), 1, 5)
    locations = places.astype(dtype).reshape(1, -1, 1, 1, 2)
    given = (value, ((3, 4),), locations, np.full(locations.shape[:-1], 0.5, dtype), grad)
    found = both(*given, points=(1,), **RULES[rule])
    expected = assert_defined(found, *given, 1000, points=(1,), **RULES[rule])
    reads_nan = np.isnan(expected[0]).any()
    assert reads_nan == (RULES[rule].get("mode") != "nearest" and "padding" not in RULES[rule])


def test_values_that_are_no_numbers(isa):
    """What a point reads with weight 0 counts, as in PyTorch, and what is beside it does not."""
    value = np.full((1, 4, 1, 1), np.inf, np.float32)
    value[0, 0] = 1
    # on pixel 0; before it; far from all
    locations = np.array([[0.25, 0.5], [-0.25, 0.5], [-2.0, 0.5]], np.float32)
    locations = locations.reshape(1, 3, 1, 1, 1, 2)
    weights = np.ones((1, 3, 1, 1, 1), np.float32)
    out = roicy.deformable_attention(value[:, :2], [(1, 2)], locations, weights).ravel()
    np.testing.assert_array_equal(out, [np.nan, 0, 0])
    out = roicy.deformable_attention(value[:, :2], [(1, 2)], locations, weights * np.inf).ravel()
    np.testing.assert_array_equal(out, [np.nan, np.nan, np.nan])


@pairs(channels=[5, 32, 70], points=POINTS, dtype=DTYPES, isa=ISAS)
def test_threads_and_batches(channels, points, dtype, isa, rng):
    """Results have the same bits on any number of threads, and for an image alone."""
    points = POINTS[points]
    value, locations, weights, grad = problem(
        rng, dtype, points=points, images=3, queries=401, channels=channels
    )
    read = (value, SHAPES, locations, weights, grad)
    one = both(*read, points=points, num_threads=1)
    for threads in (2, 5):
        for a, b in zip(one, both(*read, points=points, num_threads=threads), strict=True):
            assert_same_bits(a, b)
    alone = (value[1:2], SHAPES, locations[1:2], weights[1:2], grad[1:2])
    for a, b in zip(one, both(*alone, points=points), strict=True):
        assert_same_bits(a[1:2], b)


def strided(array):
    """Yield equal arrays that lie in memory in other ways."""
    yield np.asfortranarray(array)
    yield np.ascontiguousarray(array[::-1])[::-1]
    yield np.ascontiguousarray(array[:, ::-1])[:, ::-1]
    yield np.repeat(array, 2, axis=-2)[..., ::2, :]
    yield np.repeat(array, 3, axis=-1)[..., 1::3]
    yield copied_behind_a_line(array, 3, array.dtype)


@pairs(channels=[5, 32], dtype=DTYPES, isa=ISAS)
def test_strides(channels, dtype, isa, rng):
    value, locations, weights, grad = problem(rng, dtype, channels=channels)
    plain = both(value, SHAPES, locations, weights, grad)
    arrays = [value, locations, weights, grad]
    for i, array in enumerate(arrays):
        for other in strided(array):
            other.flags.writeable = False
            given = [*arrays[:i], other, *arrays[i + 1 :]]
            found = both(given[0], SHAPES, *given[1:])
            for a, b in zip(plain, found, strict=True):
                assert_same_bits(a, b)


def test_out_that_overlaps(rng):
    value, locations, weights, _ = problem(rng, np.float32)
    out = value[:, :5].reshape(2, 5, 21)
    with pytest.raises(ValueError, match="^out: overlaps memory that the call reads"):
        roicy.deformable_attention(value, SHAPES, locations, weights, out=out)


@pairs(small=[np.float16, ml_dtypes.bfloat16], channels=[5, 32], isa=ISAS)
def test_small_types(small, channels, isa, rng):
    """They are computed with as float32, and rounded once."""
    given = problem(rng, small, channels=channels)
    wide = [array.astype(np.float32) for array in given]
    found = both(given[0], SHAPES, *given[1:])
    expected = both(wide[0], SHAPES, *wide[1:])
    for a, b in zip(found, expected, strict=True):
        assert_same_bits(a, b.astype(small))
    out = np.empty(expected[0].shape, np.float32)
    roicy.deformable_attention(given[0], SHAPES, *given[1:3], out=out)
    assert_same_bits(out, expected[0])
    out = np.empty((*out.shape[:2], 2 * out.shape[2]), small)[..., ::2]
    roicy.deformable_attention(given[0], SHAPES, *given[1:3], out=out)
    np.testing.assert_array_equal(out, found[0])


def test_types_of_locations_and_weights(rng):
    """They are converted to the type that is computed in, and so are their gradients back."""
    value, locations, weights, grad = problem(rng, np.float32)
    plain = both(value, SHAPES, locations, weights, grad)
    found = both(value, SHAPES, locations.astype(np.float64), weights.astype(np.float16), grad)
    half = both(value, SHAPES, locations, weights.astype(np.float16).astype(np.float32), grad)
    assert [array.dtype.char for array in found] == [*"ffde"]
    assert_same_bits(found[0], half[0])
    np.testing.assert_array_equal(found[2], half[2])
    assert plain[0].dtype == np.float32
    given = [array.astype(np.float64) for array in (value, locations, weights, grad)]
    plain = both(given[0], SHAPES, *given[1:])
    found = both(given[0], SHAPES, locations, weights.astype(np.float32), grad)
    for a, b in zip(found, plain, strict=True):
        assert_same_bits(a, b.astype(a.dtype))
    found = both(given[0], SHAPES, locations.astype(np.float16), weights, grad)
    assert_same_bits(found[2], plain[2].astype(np.float16))


def test_numbers_beyond_a_type(rng):
    """They become infinite or 0 without a warning."""
    value, locations, weights, grad = problem(rng, np.float32)
    wide = locations.astype(np.float64)
    wide[0, 0, 0, 0, :2] = [[1e300, 0.5], [1e-300, 0.5]]
    with np.errstate(all="ignore"):
        expected = both(value, SHAPES, wide.astype(np.float32), weights, grad)
    with np.errstate(all="raise"):
        found = both(value, SHAPES, wide, weights, grad)
        of_weights = both(value, SHAPES, locations, weights.astype(np.float16), grad * 1e6)[3]
    assert np.isnan(found[0][0, 0, :7]).all()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.isinf(of_weights).any()


@pytest.mark.parametrize(
    "sizes",
    [
        {"images": 0}, {"queries": 0}, {"heads": 0}, {"channels": 0}, {"each": 0},
        {"shapes": ((0, 3), (2, 2))}, {"shapes": ((0, 0),)}, {"images": 0, "each": 2**33},
        {"queries": 0, "each": 2**33}, {"images": 2**40, "heads": 0},
        {"images": 2**33, "queries": 0, "shapes": ((0, 0),)}, {"images": 0, "channels": 2**40},
    ],
    ids=str,
)  # fmt: skip
def test_empty(sizes, rng):
    """What there is none of is not gone through: this test ends."""
    value, locations, weights, grad = problem(rng, np.float32, **sizes)
    shapes = sizes.get("shapes", SHAPES)
    found = both(value, shapes, locations, weights, grad)
    for array, like in zip(found, (grad, value, locations, weights), strict=True):
        assert array.shape == like.shape
        assert np.isfinite(array).all()
    if "each" in sizes or shapes == ((0, 0),):
        assert not found[0].any()
        assert not found[1].any()


@needs_fences
@pairs(at_end=[False, True], rule=RULES, channels=[5, 16, 33], dtype=DTYPES, isa=ISAS)
def test_nothing_beyond_arrays_is_touched(at_end, rule, channels, dtype, isa, rng):
    value, locations, weights, grad = problem(rng, dtype, channels=channels)
    locations[0, :, :, :, 0] = [(math.nan, 1e30), (-math.inf, 1.0), (2.0, 1.0)]
    given = [fenced(array, at_end) for array in (value, locations, weights, grad)]
    out = fenced(np.zeros_like(grad), at_end)
    roicy.deformable_attention(given[0], SHAPES, *given[1:3], out=out, **RULES[rule])
    both(given[0], SHAPES, *given[1:], **RULES[rule])


def test_large_levels(isa):
    """The last pixels of a row that float32 cannot count to one by one."""
    width = 2**24 + 5
    value = np.zeros((1, width, 1, 1), np.float16)
    value[0, -1] = 1
    locations = np.array([[1.0, 0.5], [1.1, 0.5], [0.5, 0.5]], np.float32)
    locations = locations.reshape(1, 3, 1, 1, 1, 2)
    weights = np.ones((1, 3, 1, 1, 1), np.float32)
    out = roicy.deformable_attention(value, [(1, width)], locations, weights)
    assert np.isfinite(out).all()
    assert not out[0, 1:].any()


def test_shapes_and_points_of_other_types(rng):
    value, locations, weights, _ = problem(rng, np.float32, points=(3, 0, 2))
    plain = roicy.deformable_attention(value, SHAPES, locations, weights, points=(3, 0, 2))
    for shapes in (np.array(SHAPES), [list(shape) for shape in SHAPES], [*map(np.array, SHAPES)]):
        for points in (np.array([3, 0, 2]), [3, np.int64(0), 2]):
            found = roicy.deformable_attention(value, shapes, locations, weights, points=points)
            assert_same_bits(plain, found)


VALUE, PLACES, BY = np.zeros((2, 6, 3, 4)), np.zeros((2, 5, 3, 1, 2, 2)), np.zeros((2, 5, 3, 1, 2))
WRONG = {
    r"value: dtype int32, expected float32, float64": {"value": VALUE.astype(np.int32)},
    r"value: builtins.list, expected a numpy.ndarray": {"value": [1.0]},
    r"value: shape \(6, 3, 4\), expected \(N, S, M, D\) with S = 6": {"value": VALUE[0]},
    r"value: shape \(2, 6, 3, 4\), .* S = 8, the pixels": {"shapes": [(2, 4)]},
    r"shapes: \[\], expected \(height, width\) of each level": {"shapes": []},
    r"shapes: builtins.int, expected a numpy.ndarray": {"shapes": 3},
    r"shapes: \[6\], expected \(height, width\)": {"shapes": [6]},
    r"shapes: \[\(1, \(2, 3\)\), ": {"shapes": [(1, (2, 3)), (1,)]},
    r"shapes\[1\]: -1, expected an integer from 0": {"shapes": [(2, 3), (-1, 2)]},
    r"shapes\[0\]: 2.0, expected an integer": {"shapes": [(2.0, 3)]},
    r"locations: dtype int64": {"locations": PLACES.astype(np.int64)},
    r"locations: shape \(2, 5, 3, 1, 2, 1\), expected \(2, 5, 3, 1, 2, 2\)": {
        "locations": PLACES[..., :1]
    },
    r"locations: shape \(1, 5, 3, 1, 2, 2\), expected \(2, 5, ": {"locations": PLACES[:1]},
    r"locations: shape \(2, 5, 3, 2, 2\), expected \(2, 5, 3, 1, P, 2\), .* T, 2\)$": {
        "locations": PLACES[:, :, :, 0]
    },
    r"locations: shape \(2, 5, 3, 1, 2\), .* 2\); locations and weights seem to be swapped$": {
        "locations": BY,
        "weights": PLACES,
    },
    r"locations: shape \(2, 5, 3, 2\), expected \(2, 5, 3, 2, 2\), .* seem to be swapped$": {
        "locations": BY[:, :, :, 0],
        "weights": PLACES[:, :, :, 0],
        "points": [2],
    },
    r"shapes\[0\]: a masked array, whose mask": {"shapes": [np.ma.masked_array([2, 3], [0, 1])]},
    r"locations: .* expected \(2, 5, 3, 2, 2\), \(N, Q, M, L, P, 2\), or with": {"points": [2]},
    r"weights: shape \(2, 4, 3, 1, 2\), expected \(2, 5, 3, 1, 2\)": {"weights": BY[:, :4]},
    r"points: \[1, 1\], expected 1 integers": {"points": [1, 1]},
    r"points: array\(2\), expected 1 integers": {"points": np.array(2)},
    r"points\[0\]: -1, expected": {"points": [-1]},
    r"mode: 'bicubic', expected 'bilinear' or 'nearest'": {"mode": "bicubic"},
    r"padding: 'reflection', expected 'zeros' or 'border'": {"padding": "reflection"},
    r"align_corners: 1, expected True or False": {"align_corners": 1},
    r"num_threads: 0, expected": {"num_threads": 0},
    r"out: shape \(2, 5, 11\), expected \(2, 5, 12\)": {"out": np.zeros((2, 5, 11))},
    r"out: dtype float32, expected float64": {"out": np.zeros((2, 5, 12), np.float32)},
    r"grad_output: shape \(2, 5, 11\), expected \(2, 5, 12\)": {
        "grad_output": np.zeros((2, 5, 11))
    },
    r"grad_output: dtype int64": {"grad_output": np.zeros((2, 5, 12), np.int64)},
}


@pytest.mark.parametrize("message", WRONG)
def test_errors_name_the_argument(message):
    given = {"value": VALUE, "shapes": [(2, 3)], "locations": PLACES, "weights": BY}
    given |= WRONG[message]
    backward = "grad_output" in given
    call = roicy.deformable_attention_backward if backward else roicy.deformable_attention
    with pytest.raises((TypeError, ValueError), match="^(" + message + ")"):
        call(**given)
