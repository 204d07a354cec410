"""
The operators for ONNX's reference evaluator.

With them it runs models with regions of interest at the speed of roicy.

Examples
--------
>>> import numpy as np, onnx.parser
>>> from onnx.reference import ReferenceEvaluator
>>> from roicy.compat.onnx import reference
>>> model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 16]>
... pooled (float[N, C, H, W] X, float[K, 4] rois, int64[K] images) => (float[K, C, 2, 2] Y)
... {Y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 1> (X, rois, images)}''')
>>> X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
>>> inputs = {"X": X, "rois": np.array([[0, 0, 2, 2]], np.float32), "images": np.array([0])}
>>> ReferenceEvaluator(model, new_ops=reference.OPERATORS).run(None, inputs)[0][0, 0]
array([[0., 1.],
       [4., 5.]], dtype=float32)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from . import CropAndResize as _crop_and_resize
from . import MaxRoiPool as _max_roi_pool
from . import MMCVRoIAlignRotated as _roi_align_rotated
from . import RoiAlign as _roi_align

__all__ = ["OPERATORS", "CropAndResize", "MMCVRoIAlignRotated", "MaxRoiPool", "RoiAlign"]


class RoiAlign(OpRun):
    """:func:`roicy.compat.onnx.RoiAlign`."""

    op_domain = ""

    def _run(
        self,
        X: np.ndarray,
        rois: np.ndarray,
        batch_indices: np.ndarray,
        **attributes: Any,
    ) -> tuple[np.ndarray]:
        if (
            self.run_params["opsets"][""] < 16
        ):  # opset 10 had neither this attribute nor an offset, so its value is today's default
            attributes["coordinate_transformation_mode"] = "output_half_pixel"
        return (_roi_align(X, rois, batch_indices, **attributes),)


class MaxRoiPool(OpRun):
    """:func:`roicy.compat.onnx.MaxRoiPool`."""

    op_domain = ""

    def _run(
        self, X: np.ndarray, rois: np.ndarray, pooled_shape: list[int], spatial_scale: float = 1.0
    ) -> tuple[np.ndarray]:
        return (
            _max_roi_pool(X, rois, pooled_shape=tuple(pooled_shape), spatial_scale=spatial_scale),
        )


class CropAndResize(OpRun):
    """:func:`roicy.compat.onnx.CropAndResize`."""

    op_domain = "com.microsoft"

    def _run(
        self,
        X: np.ndarray,
        rois: np.ndarray,
        batch_indices: np.ndarray,
        crop_size: np.ndarray,
        mode: str = "bilinear",
        extrapolation_value: float = 0.0,
    ) -> tuple[np.ndarray]:
        options = {"mode": mode, "extrapolation_value": extrapolation_value}
        return (_crop_and_resize(X, rois, batch_indices, crop_size, **options),)


class MMCVRoIAlignRotated(OpRun):
    """:func:`roicy.compat.onnx.MMCVRoIAlignRotated`."""

    op_domain = "mmdeploy"

    def _run(self, input: np.ndarray, rois: np.ndarray, **attributes: Any) -> tuple[np.ndarray]:
        return (_roi_align_rotated(input, rois, **attributes),)


OPERATORS = [RoiAlign, MaxRoiPool, CropAndResize, MMCVRoIAlignRotated]
