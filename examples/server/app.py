"""
A server of detections: FastAPI, in processes of uvicorn.

    MODEL=maskrcnn.onnx uvicorn app:app --workers 2 --port 8000
    curl -F image=@photo.jpg http://127.0.0.1:8000/detect
"""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from typing import Any

from detector import MOST_BYTES, BadImage, Detector, from_environment
from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from starlette.formparsers import MultiPartException

state: dict[str, Detector] = {}
turn = threading.Semaphore(1)  # requests that compute at a time in a process


@asynccontextmanager
async def lifespan(_: FastAPI) -> Any:
    state["detector"] = from_environment()
    yield
    state.clear()


app = FastAPI(lifespan=lifespan)


async def upload(request: Request) -> bytes:
    """Return the bytes of an upload: the field `image` of a form, or the body itself."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > MOST_BYTES + (1 << 16):
        raise HTTPException(413, f"{length} bytes, expected at most {MOST_BYTES}")
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        if not length.isdecimal():  # a form goes to disk, however large it is
            raise HTTPException(411, "content-length: missing, expected that of a form")
        try:
            async with request.form(max_files=1, max_fields=1) as form:
                image = form.get("image")
                if image is None or isinstance(image, str):
                    raise HTTPException(422, "image: missing, expected a file")
                return await image.read(MOST_BYTES + 1)
        except MultiPartException as error:
            raise HTTPException(400, f"no form: {error.message}") from None
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"more than {MOST_BYTES} bytes")
    return body


@app.post("/detect")
async def detect(request: Request) -> dict[str, Any]:
    data = await upload(request)

    def compute() -> dict[str, Any]:
        with turn:
            return state["detector"](data)

    try:
        return await run_in_threadpool(compute)
    except BadImage as error:
        raise HTTPException(error.status, str(error)) from None


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ready" if state else "starting"}
