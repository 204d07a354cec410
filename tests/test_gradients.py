"""Gradients of boxes agree with differences of the output."""

import numpy as np
from conftest import (
    ISAS,
    LAYOUTS,
    WITH_BOX_GRADIENTS,
    assert_agrees_with_differences,
    from_layout,
    operator,
    pairs,
    to_layout,
)
from problems import PARAMETERS

CASES = [(name, parameters) for name in WITH_BOX_GRADIENTS for parameters in PARAMETERS[name]]


def smooth_boxes(rng, images, count):
    """Return float64 boxes whose samples and bin ends are at least 1e-4 away from every
    kink.  Kinks are at integers and at the ends of the map.
    """
    boxes = np.concatenate(
        [
            rng.integers(0, images, (count, 1)),
            rng.uniform(-3, 14, (count, 2)),
            np.zeros((count, 2)),
        ],
        axis=1,
    )
    boxes[:, 3:] = boxes[:, 1:3] + rng.uniform(1.1, 12, (count, 2))
    return boxes


@pairs(case=CASES, layout=LAYOUTS, isa=ISAS)
def test_boxes_by_differences(case, layout, isa, rng):
    name, parameters = case
    x = rng.standard_normal((2, 36, 13, 15))
    boxes = smooth_boxes(rng, 2, 40)
    forward = operator(name)
    g = rng.standard_normal(
        from_layout(
            forward(to_layout(x, layout), boxes, (3, 2), layout=layout, **parameters), layout
        ).shape
    )

    def total(moved):
        return np.vdot(
            forward(to_layout(x, layout), moved, (3, 2), layout=layout, **parameters),
            to_layout(g, layout),
        )

    given = (to_layout(g, layout), to_layout(x, layout), boxes)
    grad = operator(name, "_backward_boxes")(*given, layout=layout, **parameters)
    # The difference is off by the rounding of the totals, about 1e-16 * 36 * 6 * 40 / 1e-6, and by
    # h**2 times the curvature.
    assert_agrees_with_differences(grad, total, boxes, (1e-5, 1e-6), 1e-6)
