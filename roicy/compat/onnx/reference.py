"""The operators for ONNX's reference evaluator.

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

from onnx.reference.op_run import OpRun

from .. import onnx as functions

__all__ = ["OPERATORS"]

DOMAINS = {"CropAndResize": "com.microsoft", "MMCVRoIAlignRotated": "mmdeploy"}


def _operator(name: str) -> type[OpRun]:
    """Return the operator of a function, whose attributes are its keyword arguments."""

    def run(self: Any, *inputs: Any, **attributes: Any) -> tuple[Any]:
        # Opset 10 had neither this attribute nor an offset, so its value is today's default.
        if name == "RoiAlign" and self.run_params["opsets"][""] < 16:
            attributes["coordinate_transformation_mode"] = "output_half_pixel"
        return (getattr(functions, name)(*inputs, **attributes),)

    return type(name, (OpRun,), {"op_domain": DOMAINS.get(name, ""), "_run": run})


OPERATORS = [_operator(name) for name in functions.__all__]
