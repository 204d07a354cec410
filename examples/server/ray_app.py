"""The detector as a deployment of Ray Serve: MODEL=maskrcnn.onnx serve run ray_app:app."""

from __future__ import annotations

from detector import Refused, from_environment
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 1})
class Detections:
    def __init__(self) -> None:
        self.detector = from_environment()

    async def __call__(self, request: Request) -> JSONResponse:
        try:
            return JSONResponse(self.detector(await request.body()))
        except Refused as error:
            return JSONResponse({"detail": str(error)}, status_code=error.status)


app = Detections.bind()
