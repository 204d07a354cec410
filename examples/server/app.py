"""A server of detections: FastAPI, in processes of uvicorn, which serve.py starts.

    MODEL=maskrcnn.onnx python serve.py --workers 2 --port 8000
    curl -F image=@photo.jpg http://127.0.0.1:8000/detect

A process computes one request at a time.  WAITING others wait (8), and more get 503 at once.  So do
those that would not be computed within DEADLINE seconds (10).  A computation that takes longer is
stopped.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any

import onnxruntime
import prometheus_client
from detector import MOST_BYTES, Detector, Refused, from_environment
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import multiprocess
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Message

WAITING = int(os.environ.get("WAITING", "8"))
DEADLINE = float(os.environ.get("DEADLINE", "10"))
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # where processes count together

# Requests that began and were not answered, while none is inside, were lost with a process.
began = prometheus_client.Counter("detect_began", "Requests that began")
answered = prometheus_client.Counter("detect_answered", "Answers", ["status"])
seconds = prometheus_client.Histogram("detect_seconds", "Seconds from request to answer")
inside = prometheus_client.Gauge(
    "detect_inside", "Requests that wait or are computed", multiprocess_mode="livesum"
)


async def upload(request: Request) -> bytes:
    """Return the bytes of an upload: the field `image` of a form, or the body itself."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > MOST_BYTES + (1 << 16):
        raise Refused(f"{length} bytes, expected at most {MOST_BYTES}", 413)
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        if not length.isdecimal():  # a form goes to disk, however large it is
            raise Refused("content-length: missing, expected that of a form", 411)
        try:
            async with request.form(max_files=1, max_fields=1) as form:
                image = form.get("image")
                if image is None or isinstance(image, str):
                    raise Refused("image: missing, expected a file", 422)
                return await image.read(MOST_BYTES + 1)
        except HTTPException as error:  # what Starlette makes of a form that is none
            raise Refused(f"no form: {error.detail}", error.status_code) from None
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise Refused(f"more than {MOST_BYTES} bytes", 413)
    return bytes(body)


class Incoming(Request):
    """A request that knows whether all of it has been read."""

    def __init__(self, request: Request):
        super().__init__(request.scope, self.next)
        self.source, self.is_whole = request.receive, False

    async def next(self) -> Message:
        message = await self.source()
        self.is_whole = not message.get("more_body", False)
        return message

    async def drop(self) -> None:
        """Read the rest of a refused upload: otherwise its connection keeps a part in memory."""

        async def rest() -> None:
            while not self.is_whole:
                await self.next()

        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(rest(), 1)


class Desk:
    """Takes requests to a detector, one at a time, and turns away what it cannot do in time."""

    def __init__(self, detector: Detector):
        self.detector = detector
        self.thread = ThreadPoolExecutor(1)
        self.inside = 0
        # Seconds of a computation: the longest of late.  Where nothing waits, there is time for it.
        self.pace = 0.0

    @property
    def is_full(self) -> bool:
        """Whether a request more would have no place, or not be computed in time."""
        return self.inside > WAITING or (self.inside + 1) * self.pace > 0.8 * DEADLINE

    async def __call__(self, request: Request) -> dict[str, Any]:
        """Return the detections of a request."""
        if self.is_full:
            raise Refused("busy", 503)
        self.move(1)
        end = time.monotonic() + DEADLINE
        try:
            data = await asyncio.wait_for(upload(request), DEADLINE)
        except TimeoutError:
            self.move(-1)
            raise Refused(f"no upload within {DEADLINE:g} s", 408) from None
        except ClientDisconnect:
            self.move(-1)
            raise Refused("the client has left", 499) from None
        except BaseException:
            self.move(-1)
            raise
        return await self.computed(data, end)

    async def computed(self, data: bytes, end: float) -> dict[str, Any]:
        """Return detections; the place is free when the thread is done with them."""
        loop, options = asyncio.get_running_loop(), onnxruntime.RunOptions()
        job = self.thread.submit(self.compute, data, options, end)

        def leave(job: Future[Any]) -> None:
            loop.call_soon_threadsafe(self.move, -1)

        job.add_done_callback(leave)
        found = asyncio.wrap_future(job)
        await asyncio.wait([found], timeout=max(0.0, end - time.monotonic()))
        if found.done():
            return found.result()
        found.add_done_callback(lambda late: late.cancelled() or late.exception())
        if job.cancel():
            raise Refused(f"not begun within {DEADLINE:g} s", 503)
        options.terminate = True  # the model ends soon
        raise Refused(f"not computed within {DEADLINE:g} s", 504)

    def compute(self, data: bytes, options: onnxruntime.RunOptions, end: float) -> dict[str, Any]:
        start = time.monotonic()
        if start + self.pace > end:
            raise Refused(f"not computed within {DEADLINE:g} s", 503)
        try:
            return self.detector(data, options)
        except MemoryError as error:
            raise Refused(f"no memory: {error}", 503) from None
        finally:
            taken = min(time.monotonic() - start, 0.8 * DEADLINE)
            self.pace = max(taken, 0.9 * self.pace)

    def move(self, step: int) -> None:
        self.inside += step
        inside.set(self.inside)


desks: list[Desk] = []  # one, when the process is ready


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    forget_the_dead()
    detector = from_environment()
    detector.warm_up()
    desks.append(Desk(detector))
    yield
    desks.pop().thread.shutdown()


app = FastAPI(lifespan=lifespan)


@app.post("/detect")
async def detect(request: Request) -> JSONResponse:
    began.inc()
    start = time.monotonic()
    status = 500
    incoming = Incoming(request)
    try:
        answer = JSONResponse(await desks[0](incoming))
    except Refused as error:
        await incoming.drop()
        answer = JSONResponse({"detail": str(error)}, error.status)
        if error.status == 503:
            wait = desks[0].inside * desks[0].pace
            answer.headers["Retry-After"] = str(max(1, math.ceil(wait)))
    finally:
        if "answer" in locals():
            status = answer.status_code
        answered.labels(status).inc()
        seconds.observe(time.monotonic() - start)
    return answer


@app.get("/health")
async def health() -> dict[str, str]:
    """Whether the process lives: if not, start another."""
    return {"status": "alive"}


@app.get("/ready")
async def ready() -> JSONResponse:
    """Whether requests should be sent here now."""
    status = "starting" if not desks else "busy" if desks[0].is_full else "ready"
    return JSONResponse({"status": status}, 200 if status == "ready" else 503)


@app.get("/metrics")
async def metrics() -> Response:
    """What all processes counted, in the format of Prometheus."""
    registry = prometheus_client.REGISTRY
    if FOLDER in os.environ:
        registry = prometheus_client.CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    text = prometheus_client.generate_latest(registry)
    return Response(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)


def forget_the_dead() -> None:
    """Leave what processes that were killed had inside."""
    for name in os.listdir(os.environ[FOLDER]) if FOLDER in os.environ else ():
        pid = name.removesuffix(".db").rpartition("_")[2]
        if name.startswith("gauge_live") and not os.path.exists(f"/proc/{pid}"):
            multiprocess.mark_process_dead(int(pid))
