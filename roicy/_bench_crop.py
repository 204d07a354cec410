"""
The benchmark of crop: OpenCV's functions in a loop, as people who care for speed write it.

A loop writes to arrays that it has made once: it resizes or warps a box, separates the channels,
and scales each of them into the batch.  ``blobFromImages`` is timed, too.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import roicy

from ._workloads import CROPS, MEAN, STD, CropWorkload, crop_call


def calls(name: str, threads: int) -> tuple[dict[str, Callable[[], Any]], int]:
    """Return the calls of a workload by their names, and the bytes of the pixels of its boxes."""
    workload = CROPS[name]
    arrays = workload.arrays()
    found = {
        "roicy": crop_call(roicy, workload, arrays, False, threads),
        "roicy out=": crop_call(roicy, workload, arrays, True, threads),
    }
    if importlib.util.find_spec("cv2") is not None:
        found |= _opencv(workload, arrays, threads)
    boxes, read = arrays["boxes"], 0
    if workload.kind == "upright":
        read = int(3 * np.prod(boxes[:, 2:] - boxes[:, :2], axis=1).sum())
    return found, read


def _opencv(
    workload: CropWorkload, arrays: dict[str, Any], threads: int
) -> dict[str, Callable[[], Any]]:
    import cv2

    cv2.setNumThreads(threads)
    frame, (height, width) = arrays["frame"], workload.size
    out = np.empty((workload.count, 3, height, width), np.float32)
    patch = np.empty((height, width, 3), np.uint8)
    planes = [np.empty((height, width), np.uint8) for _ in range(3)]
    scale, bias = (1 / 255 / STD).astype(np.float32), (-MEAN / STD).astype(np.float32)

    def normalise(k):
        cv2.split(patch, planes)
        for c in range(3):
            np.multiply(planes[2 - c], scale[c], out=out[k, c])
            np.add(out[k, c], bias[c], out=out[k, c])

    version = f"opencv {cv2.__version__}"
    if workload.kind != "upright":
        return {version: _warp_loop(cv2, workload, arrays, patch, normalise, out)}
    corners = arrays["boxes"].astype(int).tolist()
    how = cv2.INTER_AREA if workload.antialias else cv2.INTER_LINEAR

    def loop():
        for k, (x1, y1, x2, y2) in enumerate(corners):
            cv2.resize(frame[y1:y2, x1:x2], (width, height), dst=patch, interpolation=how)
            normalise(k)
        return out

    if workload.antialias:
        return {version: loop}
    mean = tuple((MEAN * 255).tolist())
    deviation = STD.astype(np.float32).reshape(3, 1, 1)

    def blob():
        parts = [frame[y1:y2, x1:x2] for x1, y1, x2, y2 in corners]
        result = cv2.dnn.blobFromImages(parts, 1 / 255, (width, height), mean, swapRB=True)
        result /= deviation
        return result

    return {version: loop, f"{version} blob": blob}


def _warp_loop(
    cv2: Any,
    workload: CropWorkload,
    arrays: dict[str, Any],
    patch: np.ndarray,
    normalise: Callable[[int], None],
    out: np.ndarray,
) -> Callable[[], np.ndarray]:
    """Return a loop of warpAffine or warpPerspective."""
    height, width = workload.size
    matrices, warp = arrays["boxes"], cv2.warpAffine
    if workload.kind == "corners":
        target = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32) - 0.5
        warp = cv2.warpPerspective
        matrices = [
            cv2.getPerspectiveTransform((corners - 0.5).astype(np.float32), target)
            for corners in matrices
        ]

    def loop():
        for k, matrix in enumerate(matrices):
            warp(arrays["frame"], matrix, (width, height), dst=patch, flags=cv2.INTER_LINEAR)
            normalise(k)
        return out

    return loop
