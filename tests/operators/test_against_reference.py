"""Every operator and pass agrees with the definition, within the bounds of docs/guarantees.md.

u is half of the type's epsilon.  A weight is off by a few roundings of float64 and one rounding to
the type.  Each of the two contractions rounds once for each term, or twice without fused
multiply-add.  To first order, the bounds say just this.
"""

import functools
import itertools

import numpy as np
import reference
from conftest import (
    DTYPES,
    ISAS,
    LAYOUTS,
    from_layout,
    pairs,
    same_passes,
    to_layout,
)
from problems import PARAMETERS, SHAPES, assert_within, cache, cases, definition, make

import roicy


@pairs(case=cases(), dtype=DTYPES, isa=ISAS)
def test_sums(case, dtype, isa, rng):
    """Layouts and numbers of threads give the same bits, which agree with the definition."""
    name, _, _, parameters = case
    x, boxes, g = make(rng, *case, dtype)
    ways = itertools.product(LAYOUTS, (1, 3))
    results = same_passes(name, x, boxes, g, ways, **parameters)
    key = (*case[:2], dtype)
    wanted = definition(key, name, x, boxes, g, parameters)
    for result, expected in zip(results, wanted, strict=False):
        assert_within(result, *expected, dtype)


@pairs(shape=SHAPES, parameters=PARAMETERS["roi_pool"], dtype=DTYPES, isa=ISAS)
def test_roi_pool(shape, parameters, dtype, isa, rng):
    x, boxes, g = make(rng, "roi_pool", shape, "random", parameters, dtype)
    x = np.round(x * 4) / 4  # ties: the first one wins
    bins = g.shape[2:]
    grad = rng.integers(-8, 8, g.shape).astype(dtype)  # sums of small integers are exact
    key = ("roi_pool", *parameters.items(), shape, dtype)
    if key not in cache:
        cache[key] = reference.roi_pool(x, boxes, bins, **parameters)
    expected, argmax = cache[key]
    of_input = reference.roi_pool_backward(grad, argmax, boxes, x.shape)
    for layout, threads in itertools.product(LAYOUTS, (1, 3)):
        options = {"layout": layout, "num_threads": threads}
        given = to_layout(x, layout)
        call = functools.partial(roicy.roi_pool, given, boxes, bins, **parameters, **options)
        out, at = call(return_argmax=True)
        np.testing.assert_array_equal(from_layout(out, layout), expected)
        np.testing.assert_array_equal(from_layout(at, layout), argmax)
        np.testing.assert_array_equal(call(), out)
        back = roicy.roi_pool_backward(to_layout(grad, layout), at, boxes, given.shape, **options)
        np.testing.assert_array_equal(from_layout(back, layout), of_input)
