"""
The benchmark of paste_masks: torchvision's function, and COCO's coder of its images.

torchvision returns images of values.  Its users compare them with a threshold themselves, so this
is timed too where roicy returns booleans or codes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import roicy

from ._workloads import MASKS, MaskWorkload, paste_call


def calls(name: str, threads: int) -> tuple[dict[str, Callable[[], Any]], int]:
    """Return the calls of a workload by their names, and the bytes of the masks."""
    workload = MASKS[name]
    arrays = workload.arrays()
    found = {"roicy": paste_call(roicy, workload, arrays, False, threads)}
    if workload.result != "rle":
        found["roicy out="] = paste_call(roicy, workload, arrays, True, threads)
    if importlib.util.find_spec("torchvision") is not None:
        found |= _torchvision(workload, arrays, threads)
    return found, arrays["masks"].nbytes


def _torchvision(
    workload: MaskWorkload, arrays: dict[str, Any], threads: int
) -> dict[str, Callable[[], Any]]:
    """Return torchvision's call; none for codes where COCO's programs are not installed."""
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
