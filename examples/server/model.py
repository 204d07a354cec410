"""The detector as a model of Triton's Python backend.

Its input IMAGE is the bytes of a JPEG or PNG, and its output DETECTIONS is JSON.  config.pbtxt has
the path of the ONNX model.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # Triton provides it
from detector import Detector, Refused


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        parameters = json.loads(args["model_config"])["parameters"]
        threads = parameters.get("threads", {"string_value": "1"})["string_value"]
        self.detector = Detector(parameters["model"]["string_value"], int(threads))

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self.answer(request) for request in requests]

    def answer(self, request: Any) -> Any:
        data = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy().reshape(-1)[0]
        try:
            found = json.dumps(self.detector(data)).encode()
        except Refused as error:
            kinds = pb_utils.TritonError  # of which Triton makes HTTP's 400 and 500
            code = kinds.INVALID_ARG if error.status < 500 else kinds.INTERNAL
            return pb_utils.InferenceResponse(error=kinds(str(error), code))
        tensor = pb_utils.Tensor("DETECTIONS", np.array([found], dtype=np.object_))
        return pb_utils.InferenceResponse(output_tensors=[tensor])
