"""What the benchmark times beside label_map and resize_masks: all maps are enlarged."""

from __future__ import annotations

import importlib.util

import numpy as np


def coded(images):
    """Return a call of COCO's coder of the images (K, H, W) that a call returns; None without it.

    It is given an image at a time, so that no second copy of all has to be made.
    """
    if importlib.util.find_spec("pycocotools") is None:
        return None
    from pycocotools import mask as coder

    def codes():
        found = (coder.encode(np.asfortranarray(image.view(np.uint8))) for image in images())
        return [np.frombuffer(code["counts"], np.uint8) for code in found]

    return codes


def of_pytorch(torch, workload, arrays):
    """Return a call of interpolate, and of max, which is faster than argmax."""
    maps, enlarge = torch.from_numpy(arrays["maps"]), torch.nn.functional.interpolate

    def labels():
        enlarged = enlarge(maps[None], workload.size, mode="bilinear")
        return enlarged[0].max(0).indices.numpy()

    def masks():  # some at a time, as RF-DETR does it
        parts = (enlarge(part[:, None], workload.size, mode="bilinear") for part in maps.split(32))
        return torch.cat([part > 0 for part in parts])[:, 0].numpy()

    if workload.result == "rle":
        return coded(masks)
    return labels if workload.result == "labels" else masks


def of_opencv(cv2, workload, arrays):
    """Return a call that resizes one map after another; None for codes.

    The largest value so far and its class are kept, so that a few maps are in memory at once.
    """
    maps, size = arrays["maps"], workload.size[::-1]
    best, other = np.empty((2, *workload.size), maps.dtype)
    labels = np.empty(workload.size, np.uint8)
    images = np.empty((len(maps), *workload.size), bool)

    def run():
        cv2.resize(maps[0], size, dst=best)
        labels[...] = 0
        for c in range(1, len(maps)):
            cv2.resize(maps[c], size, dst=other)
            labels[other > best] = c
            np.maximum(best, other, out=best)
        return labels

    def masks():
        for one, image in zip(maps, images, strict=True):
            np.greater(cv2.resize(one, size, dst=best), 0, out=image)
        return images

    if workload.result == "rle":
        return None
    return run if workload.result == "labels" else masks


def of_onnxruntime(session_of, workload, arrays):
    """Return a run of the nodes Resize and ArgMax, or Greater; None for codes."""
    if workload.result == "rle":
        return None
    maps = arrays["maps"]
    kind = {"float32": "float", "float64": "double"}[str(maps.dtype)]
    (count, *_), (height, width) = maps.shape, workload.size
    result, nodes = "int64[N, H, W]", "found = ArgMax <axis = 1, keepdims = 0> (enlarged)"
    if workload.result == "bool":
        result = "bool[N, C, H, W]"
        nodes = f"""
            zero = Constant <value = {kind}[1] {{0}}> ()
            found = Greater (enlarged, zero)"""
    session = session_of(f"""
        <ir_version: 10, opset_import: ["": 18]>
        one ({kind}[N, C, h, w] maps) => ({result} found) {{
            size = Constant <value_ints = [1, {count}, {height}, {width}]> ()
            enlarged = Resize <
                mode = "linear", coordinate_transformation_mode = "half_pixel"
            > (maps, , , size)
            {nodes}
        }}
    """)
    return lambda: session.run(None, {"maps": maps[None]})[0][0]
