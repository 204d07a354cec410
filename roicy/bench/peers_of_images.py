"""
What the benchmark times beside crop and paste_masks: OpenCV, torchvision, and COCO's coder.

OpenCV's functions run in a loop, as people who care for speed write it: it writes to arrays that
it has made once, resizes or warps a box, separates the channels, and scales each of them into the
batch.  torchvision returns images of values, which its users compare with a threshold themselves.
So this is timed too where roicy returns booleans or codes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from .workloads import MEAN, STD, CropWorkload, MaskWorkload


def of_crop(
    workload: CropWorkload, arrays: dict[str, Any], threads: int
) -> dict[str, Callable[[], Any]]:
    """Return calls of OpenCV, if it is installed."""
    if importlib.util.find_spec("cv2") is None:
        return {}
    import cv2

    cv2.setNumThreads(threads)
    height, width = workload.size
    whole = np.zeros((workload.count, 3, height, width), np.float32)
    top = 0
    if workload.fit == "letterbox":  # of a frame of 1080 x 1920
        height = width * 9 // 16
        top = (workload.size[0] - height) // 2
        whole[...] = (-MEAN / STD).reshape(3, 1, 1)
    out = whole[:, :, top : top + height]
    bgr = np.empty((1080, 1920, 3), np.uint8)
    patch = np.empty((height, width, 3), np.uint8)
    planes = [np.empty((height, width), np.uint8) for _ in range(3)]
    scale, bias = (1 / 255 / STD).astype(np.float32), (-MEAN / STD).astype(np.float32)

    def frame_of():
        if workload.color is None:
            return arrays["frame"]
        return cv2.cvtColor(arrays["frame"], cv2.COLOR_YUV2BGR_NV12, dst=bgr)

    def normalise(k):
        cv2.split(patch, planes)
        for c in range(3):
            np.multiply(planes[2 - c], scale[c], out=out[k, c])
            np.add(out[k, c], bias[c], out=out[k, c])

    version = f"opencv {cv2.__version__}"
    if workload.kind != "upright":
        return {version: _warp_loop(cv2, workload, arrays, patch, normalise, whole)}
    corners = arrays["boxes"].astype(int).tolist()
    how = cv2.INTER_AREA if workload.antialias else cv2.INTER_LINEAR

    def loop():
        frame = frame_of()
        for k, (x1, y1, x2, y2) in enumerate(corners):
            cv2.resize(frame[y1:y2, x1:x2], (width, height), dst=patch, interpolation=how)
            normalise(k)
        return whole

    if workload.antialias:
        return {version: loop}
    mean = tuple((MEAN * 255).tolist())
    deviation = STD.astype(np.float32).reshape(3, 1, 1)

    def blob():
        frame = frame_of()
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


def of_paste_masks(
    workload: MaskWorkload, arrays: dict[str, Any], threads: int
) -> dict[str, Callable[[], Any]]:
    """Return torchvision's call; none for codes where COCO's programs are not installed."""
    if importlib.util.find_spec("torchvision") is None:
        return {}
    import torch
    import torchvision
    from torchvision.models.detection.roi_heads import paste_masks_in_image

    torch.set_num_threads(threads)
    masks = torch.from_numpy(arrays["masks"])[:, None]
    boxes = torch.from_numpy(arrays["boxes"])

    def values():
        return paste_masks_in_image(masks, boxes, workload.image_shape)[:, 0]

    name = f"torchvision {torchvision.__version__}"
    if workload.result == "values":
        return {name: values}
    if workload.result == "bool":
        return {name: lambda: values() >= 0.5}
    if importlib.util.find_spec("pycocotools") is None:
        return {}
    from pycocotools import mask as coder

    def codes():
        images = (values() >= 0.5).numpy().view(np.uint8)
        found = coder.encode(np.asfortranarray(images.transpose(1, 2, 0)))
        return [np.frombuffer(code["counts"], np.uint8) for code in found]

    return {f"{name}, pycocotools": codes}
