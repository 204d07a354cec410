"""Results agree with numbers recorded from Paddle 1.8.5, Paddle 3.3.1 and MXNet 1.9.1.

test_compat.py and test_compat_paddle.py have the examples of their pages.
"""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import ISAS, LAYOUTS, from_layout, operator, to_layout

import roicy

with np.load(Path(__file__).with_name("data") / "recorded.npz") as file:
    RECORDED = dict(file)
CASES = sorted({name.split("/")[0] for name in RECORDED})

# In these cases the systems disagree with each other, and roicy agrees with the others.  The
# `quirk` of each case says why.
OTHERWISE = {
    # Paddle computes bins in float32, even for float64 data.
    "paddle18_roi_pool_bins_29_f8": {"out", "grad_x"},
    "paddle18_roi_pool_bins_57_f8": {"out", "grad_x"},
    "paddle3_roi_align_tiny_f4_aT-s2": {"grad_x"},  # its gradient does not fit its forward pass
    "paddle3_roi_align_tiny_f8_aT-s2": {"grad_x"},
    "paddle3_roi_align_tiny_f8_aT-sad": {"grad_x"},
    "paddle18_prroi_pool_inverted_f4": {"grad_boxes"},  # it divides 0 by 0
}


def load(case):
    arrays = {
        name.split("/")[1]: RECORDED[name] for name in RECORDED if name.startswith(case + "/")
    }
    params = json.loads(str(arrays.pop("params")))
    keywords = {"spatial_scale": params["spatial_scale"]}
    if params["op"] in ("roi_align", "ps_roi_align"):
        keywords["sampling_ratio"] = params["sampling_ratio"]
    if params["op"] == "roi_align":
        keywords["aligned"] = params["aligned"]
    return params["op"], params["output_size"], keywords, arrays


def assert_agrees(actual, expected, dtype, tolerance=None):
    """Check that a result agrees.  The systems sum in another order, and 1e-5 (float32) and 1e-12
    (float64) of the largest value leave room for a few hundred roundings.
    """
    tolerance = tolerance or (1e-5 if dtype == np.float32 else 1e-12)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    if expected.size:
        assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


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
    name, size, keywords, arrays = load(case)
    x, boxes, grad_out = arrays["x"], arrays["boxes"], arrays["grad_out"]
    otherwise = OTHERWISE.get(case, set())
    options = {"layout": layout, **keywords}
    results = {}
    if name == "roi_pool":
        results["out"], argmax = roicy.roi_pool(
            to_layout(x, layout), boxes, size, return_argmax=True, **options
        )
        results["grad_x"] = roicy.roi_pool_backward(
            to_layout(grad_out, layout), argmax, boxes, to_layout(x, layout).shape, layout=layout
        )
    else:
        results["out"] = operator(name)(to_layout(x, layout), boxes, size, **options)
        results["grad_x"] = operator(name, "_backward")(
            to_layout(grad_out, layout), boxes, to_layout(x, layout).shape, **options
        )
    for key, result in results.items():
        result = from_layout(result, layout)
        if key in otherwise:
            # otherwise the case need not be listed
            assert np.abs(result - arrays[key]).max() > 1e-3
        elif name == "roi_pool" and key == "out":
            np.testing.assert_array_equal(result, arrays[key])
        else:
            assert_agrees(result, arrays[key], x.dtype)
    if "grad_boxes" in arrays:
        grad = operator(name, "_backward_boxes")(
            to_layout(grad_out, layout), to_layout(x, layout), boxes, **options
        )
        if "grad_boxes" in otherwise:
            assert np.isnan(arrays["grad_boxes"][:, 1:]).all()
            np.testing.assert_array_equal(grad, 0)
        else:
            # Paddle keeps them in float32 for both types.
            assert_agrees(grad, arrays["grad_boxes"], x.dtype, 1e-5)


def test_recorded_cases_are_used():
    assert len(CASES) == 175
    assert set(OTHERWISE) <= set(CASES)


def test_prroi_pool_by_hand(dtype, isa):
    x = np.arange(1, 17).reshape(1, 1, 4, 4).astype(dtype)
    boxes = np.array([[0, -3, -3, 1, 1], [0, 2, 2, 7, 7], [0, 20, 20, 22, 22]], dtype)
    out = roicy.prroi_pool(x, boxes, 2)
    np.testing.assert_allclose(
        out.reshape(3, 4),
        [[0, 0, 0, 1.5], [5.16, 0, 0, 0], [0, 0, 0, 0]],
        rtol=4 * np.finfo(dtype).eps,
    )
