"""Gradients of boxes agree with differences of the output."""

import numpy as np
from conftest import (
    ISAS,
    LAYOUTS,
    WITH_BOX_GRADIENTS,
    assert_agrees_with_differences,
    operator,
    pairs,
    to_layout,
)
from problems import PARAMETERS

CASES = [(name, parameters) for name in WITH_BOX_GRADIENTS for parameters in PARAMETERS[name]]
# samples that are summed pixel by pixel
CASES += [(name, {"sampling_ratio": 200}) for name in ("roi_align", "ps_roi_align")]


def smooth_boxes(rng, images, count):
    """Return float64 boxes whose samples and bin ends are at least 1e-4 away from every
    kink.  Kinks are at integers and at the ends of the map.
    """
    low = rng.uniform(-3, 14, (count, 2))
    high = low + rng.uniform(1.1, 12, (count, 2))
    return np.column_stack([rng.integers(0, images, count), low, high])


@pairs(case=CASES, layout=LAYOUTS, isa=ISAS)
def test_boxes_by_differences(case, layout, isa, rng):
    name, parameters = case
    x = to_layout(rng.standard_normal((2, 36, 13, 15)), layout)
    boxes = smooth_boxes(rng, 2, 40)

    def pooled(boxes):
        return operator(name)(x, boxes, (3, 2), layout=layout, **parameters)

    g = rng.standard_normal(pooled(boxes).shape)

    def total(moved):
        return np.vdot(pooled(moved), g)

    grad = operator(name, "_backward_boxes")(g, x, boxes, layout=layout, **parameters)
    # The difference is off by the rounding of the totals, about 1e-16 * 36 * 6 * 40 / 1e-6, and by
    # h**2 times the curvature.
    assert_agrees_with_differences(grad, total, boxes, (1e-5, 1e-6), 1e-6)
