"""What all three servers share: an image as bytes in, detections out.

An image is refused, with a reason, before it is decoded as a whole: by its size in bytes, its
format and the extents that its header tells.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from PIL import Image, ImageOps, UnidentifiedImageError

import roicy
import roicy.onnxruntime

MOST_BYTES = 16 << 20  # of an upload
MOST_PIXELS = 25_000_000
MOST_SIDE = 16_384
MOST_SCANS = 64  # of a JPEG: each is decoded for all pixels, and may have a few bytes
LONGEST = 1333  # pixels of the longer side of what the model gets
FORMATS = ("JPEG", "PNG")
OUTPUTS = ("boxes", "labels", "scores")
# Words of errors of ONNX Runtime and of roicy where memory is lacking
LACKING = ("allocate", "bad_alloc", "no room", "no memory")


def one_line(error: Exception) -> str:
    """Return what an error says, in a line of bounded length."""
    return " ".join(str(error).split())[:300]


class Refused(Exception):
    """There is no answer; `status` is HTTP's, and says whether that is the client's fault."""

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status


class BadImage(Refused):
    """The client sent what is no image, or one that is not taken."""

    def __init__(self, message: str, status: int = 400):
        super().__init__(message, status)


def decode(data: bytes) -> np.ndarray:
    """Return an image (H, W, 3) of bytes, upright as its EXIF says.

    Raises
    ------
    BadImage
        If it is empty, too large, of another format, truncated or of no pixels.
    """
    if not data:
        raise BadImage("the upload is empty")
    if len(data) > MOST_BYTES:
        raise BadImage(f"{len(data)} bytes, expected at most {MOST_BYTES}", 413)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Pillow warns of bombs
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            width, height = image.size
            if not 0 < min(width, height) or max(width, height) > MOST_SIDE:
                raise BadImage(f"{width} x {height} pixels, expected 1 to {MOST_SIDE} a side", 413)
            if width * height > MOST_PIXELS:
                raise BadImage(f"{width} x {height}, expected at most {MOST_PIXELS} pixels", 413)
            scans = data.count(b"\xff\xda") if image.format != "PNG" else 0
            if scans > MOST_SCANS:
                raise BadImage(f"{scans} scans, expected at most {MOST_SCANS}", 413)
            image.load()
            with contextlib.suppress(Exception):  # EXIF that cannot be read says nothing
                image = ImageOps.exif_transpose(image)
            if image.mode.startswith("I"):  # 16 bits, which convert() would make white
                image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
            return np.asarray(image.convert("RGB"))
    except UnidentifiedImageError:
        raise BadImage(f"no image of {' or '.join(FORMATS)}", 415) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadImage(str(error), 413) from None
    except (BadImage, MemoryError):
        raise
    except Exception as error:  # decoders raise many kinds: truncated, wrong sums, wrong blocks
        raise BadImage(f"the image cannot be decoded: {error}") from None


class Detector:
    """A detector that torchvision exported, with inputs (image) and outputs boxes, labels, scores.

    Parameters
    ----------
    path : str
        The model.
    threads : int
        Of each request.
    with_roicy : bool
        False: ONNX Runtime alone, for comparison.
    """

    def __init__(self, path: str, threads: int = 1, with_roicy: bool = True):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        options.intra_op_num_threads = threads
        # Threads that spin while they wait use up the CPU quota of a container.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # Requests differ in size; without an arena, memory goes back when a request is done.
        options.enable_cpu_mem_arena = False
        self.threads = threads
        if with_roicy:
            roicy.onnxruntime.use(options)
        try:
            self.session = onnxruntime.InferenceSession(path, options)
        except Exception as error:  # ONNX Runtime has a class for each code, and no other in common
            raise SystemExit(f"MODEL: {path} cannot be opened: {one_line(error)}") from None
        inputs = [(value.type, len(value.shape)) for value in self.session.get_inputs()]
        if inputs != [("tensor(float)", 3)]:
            raise SystemExit(f"MODEL: inputs {inputs}, expected one image (3, H, W) of float")
        self.input = self.session.get_inputs()[0].name
        self.outputs = [value.name for value in self.session.get_outputs()]
        if set(OUTPUTS) - set(self.outputs):
            raise SystemExit(f"MODEL: outputs {self.outputs}, expected {', '.join(OUTPUTS)}")

    def warm_up(self) -> None:
        """Compute once, so that the first request takes no longer than others."""
        out = io.BytesIO()
        Image.new("RGB", (224, 224)).save(out, "PNG")
        self(out.getvalue())

    def _run(self, image: np.ndarray, run: onnxruntime.RunOptions | None) -> dict[str, np.ndarray]:
        """Return the outputs of the model by their names."""
        try:
            values = self.session.run(None, {self.input: image}, run)
        except InvalidArgument as error:
            raise BadImage(f"the model does not take this image: {one_line(error)}") from None
        except Exception as error:
            lacks_memory = any(word in str(error) for word in LACKING)
            raise Refused(one_line(error), 503 if lacks_memory else 500) from None
        found = dict(zip(self.outputs, values, strict=True))
        count = len(found["scores"])
        if [found[name].shape for name in OUTPUTS] != [(count, 4), (count,), (count,)]:
            shapes = {name: found[name].shape for name in OUTPUTS}
            raise Refused(f"the model gave {shapes}", 500)
        return found

    def __call__(
        self,
        data: bytes,
        run: onnxruntime.RunOptions | None = None,
        least_score: float = 0.05,
        most: int = 20,
    ) -> dict[str, Any]:
        """Return detections of an upload, as JSON can hold them.

        `run` may be told to terminate, by another thread.
        """
        frame = decode(data)
        height, width = frame.shape[:2]
        factor = min(1.0, LONGEST / max(height, width))
        size = (max(1, round(height * factor)), max(1, round(width * factor)))
        image = self._crop(frame, [[0, 0, width, height]], size)[0]
        found = self._run(image, run)
        kept = np.flatnonzero(found["scores"] >= least_score)[:most]
        if not np.isfinite(found["boxes"][kept]).all():
            raise Refused("the model gave boxes that are not finite", 500)
        boxes = found["boxes"][kept] * np.float32([width / size[1], height / size[0]] * 2)
        # What a second model would take: from the frame, in its full resolution.
        crops = self._crop(frame, boxes, (64, 64))
        return {
            "size": [height, width],
            "boxes": boxes.astype(float).round(2).tolist(),
            "labels": found["labels"][kept].tolist(),
            "scores": found["scores"][kept].astype(float).round(4).tolist(),
            "means": crops.mean(axis=(2, 3), dtype=float).round(4).tolist(),
        }

    def _crop(self, frame: np.ndarray, boxes: Any, size: tuple[int, int]) -> np.ndarray:
        """Return crops (K, 3, *size) of float32 from 0 to 1."""
        return roicy.crop(frame, boxes, size, scale=1 / 255, num_threads=self.threads)


def from_environment() -> Detector:
    """Return the detector that MODEL, THREADS and ALONE (1: ONNX Runtime alone) tell."""
    environment = os.environ
    if "MODEL" not in environment:
        raise SystemExit("MODEL: not set, expected the path of an ONNX model")
    alone = environment.get("ALONE", "0") == "1"
    return Detector(environment["MODEL"], int(environment.get("THREADS", "1")), not alone)
