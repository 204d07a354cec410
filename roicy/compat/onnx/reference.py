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

from collections.abc import Callable
from typing import Any

from onnx.reference.op_run import OpRun

from . import CropAndResize as _crop_and_resize
from . import MaxRoiPool as _max_roi_pool
from . import MMCVRoIAlignRotated as _roi_align_rotated
from . import RoiAlign as _roi_align

__all__ = ["OPERATORS", "CropAndResize", "MMCVRoIAlignRotated", "MaxRoiPool", "RoiAlign"]


def _operator(function: Callable[..., Any], domain: str = "") -> type[OpRun]:
    """Return the operator of a function, whose attributes are its keyword arguments."""
    name = function.__name__

    def run(self: Any, *inputs: Any, **attributes: Any) -> tuple[Any]:
        # Opset 10 had neither this attribute nor an offset, so its value is today's default.
        if name == "RoiAlign" and self.run_params["opsets"][""] < 16:
            attributes["coordinate_transformation_mode"] = "output_half_pixel"
        return (function(*inputs, **attributes),)

    about = f":func:`roicy.compat.onnx.{name}`."
    return type(name, (OpRun,), {"op_domain": domain, "_run": run, "__doc__": about})


RoiAlign = _operator(_roi_align)
MaxRoiPool = _operator(_max_roi_pool)
CropAndResize = _operator(_crop_and_resize, "com.microsoft")
MMCVRoIAlignRotated = _operator(_roi_align_rotated, "mmdeploy")
OPERATORS = [RoiAlign, MaxRoiPool, CropAndResize, MMCVRoIAlignRotated]
