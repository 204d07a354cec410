"""Results agree with numbers recorded from Paddle 1.8.5, Paddle 3.3.1 and MXNet 1.9.1.

test_compat.py and test_compat_paddle.py have the examples of their pages.
"""

import itertools

import numpy as np
import pytest
from conftest import ISAS, LAYOUTS, passes
from recorded import CASES, OTHERWISE, assert_agrees, load


# Instruction sets and layouts take turns.
@pytest.mark.parametrize(
    ("case", "isa", "layout"),
    [
        (case, *other)
        for case, other in zip(CASES, itertools.cycle(itertools.product(ISAS, LAYOUTS)))
    ],
    indirect=["isa"],
)
def test_recorded(case, isa, layout):
    name, _, keywords, arrays = load(case)
    x, boxes, grad_out = arrays["x"], arrays["boxes"], arrays["grad_out"]
    otherwise = OTHERWISE.get(case, set())
    found = passes(name, x, boxes, grad_out, layout, **keywords)
    if name == "roi_pool":
        del found[1]  # argmax, which these systems do not give
    for key, result in zip(("out", "grad_x"), found, strict=False):
        if key in otherwise:
            # otherwise the case need not be listed
            assert np.abs(result - arrays[key]).max() > 1e-3
        elif name == "roi_pool" and key == "out":
            np.testing.assert_array_equal(result, arrays[key])
        else:
            assert_agrees(result, arrays[key], x.dtype)
    if "grad_boxes" in arrays:
        grad = found[2]
        if "grad_boxes" in otherwise:
            assert np.isnan(arrays["grad_boxes"][:, 1:]).all()
            np.testing.assert_array_equal(grad, 0)
        else:
            # Paddle keeps them in float32 for both types.
            assert_agrees(grad, arrays["grad_boxes"], x.dtype, 1e-5)


def test_recorded_cases_are_used():
    assert len(CASES) == 175
    assert set(OTHERWISE) <= set(CASES)
