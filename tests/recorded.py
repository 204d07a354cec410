"""Numbers that were recorded from real systems."""

import json
from pathlib import Path

import numpy as np

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


def sorted_by_image(boxes, images):
    """Return the boxes without their images, the counts, and the order."""
    order = np.argsort(boxes[:, 0], kind="stable")
    return boxes[order, 1:], np.bincount(boxes[:, 0].astype(int), minlength=images), order
