"""Calls of paste_masks and prototype_masks."""

from __future__ import annotations

import numpy as np

from .judged import judged, largest
from .strings import Buffer, corners_of, disguised, values


def paste_call(data) -> str:
    """Make a call of paste_masks, and return how it ended."""
    count, dtype = data.below(5), np.dtype(data.of((np.float32, np.float64)))
    shape = data.of(((20, 30), (1, 1), (7, 300), (300, 7), (0, 4)))
    masks = values(data, (count, 1, 1 + data.below(9), 1 + data.below(9)), dtype)
    boxes = corners_of(data, count)
    with np.errstate(all="ignore"):
        boxes = boxes.astype(data.of((dtype, np.float64, np.float32)))
    arguments = {
        "masks": disguised(data, masks if data.below(2) else masks[:, 0]),
        "boxes": disguised(data, boxes),
        "image_shape": data.ordinary((shape, list(shape), (2**40, 1), (-1, 2), (1.5, 2), 7), 2),
        "threshold": data.ordinary((0.5, None, 0, -1, 1e300, np.nan, "1"), 5),
        "rule": data.ordinary(("torchvision", "detectron2", "mmdet", "none", None), 3),
        "format": data.ordinary(("image", "image", "rle", "png"), 3),
        "num_threads": data.ordinary((1, 2, 3, 0), 3),
    }
    if data.below(3) == 2:
        arguments["padding"] = data.ordinary((1, 0, 2, -1, 2**40, 1.0), 3)
    buffer = out_of_masks(data, arguments, (count, 1, *shape), dtype)
    return judged("paste_masks", arguments, buffer, lambda ends: check_pasted(arguments, ends))


def prototype_call(data) -> str:
    """Make a call of prototype_masks, and return how it ended."""
    count, dtype = data.below(4), np.dtype(data.of((np.float32, np.float64)))
    shape = data.of(((20, 30), (1, 1), (7, 300), (300, 7), (0, 4), (3, 2100)))
    planes = values(data, (1 + data.below(5), 1 + data.below(40), 1 + data.below(40)), dtype)
    boxes = corners_of(data, count)
    rules = ("ultralytics", "ultralytics_native", "yolov5", "yolov5_native", "none")
    arguments = {
        "prototypes": disguised(data, planes[None] if data.below(2) else planes),
        "coefficients": disguised(data, values(data, (count, len(planes)), dtype)),
        "boxes": disguised(data, boxes),
        "image_shape": data.ordinary((shape, list(shape), (2**40, 1), (-1, 2), 7), 2),
        "threshold": data.ordinary((0.5, None, 0, 1, 0.25, -1, np.nan, "1"), 5),
        "rule": data.ordinary(rules, 4),
        "format": data.ordinary(("image", "image", "rle", "png"), 3),
        "num_threads": data.ordinary((1, 2, 3, 0), 3),
    }
    buffer = out_of_masks(data, arguments, (count, 1, *shape), dtype)
    if data.below(3) == 2:
        arguments["fit"] = data.of(("letterbox", "letterbox_top_left", "stretch", "cover"))
    return judged("prototype_masks", arguments, buffer, lambda ends: check_pasted(arguments, ends))


def out_of_masks(data, arguments, shape, dtype):
    """Give a call an `out` now and then, and return the memory in which it lies."""
    if data.below(3) < 2:
        return None
    kind = np.uint8 if arguments["threshold"] is not None else dtype
    buffer = Buffer(data, shape, np.dtype(data.ordinary((kind, np.uint8), 1)))
    arguments["out"] = buffer.array[:, 0] if isinstance(buffer.array, np.ndarray) else [1]
    return buffer


def check_pasted(arguments, results):
    """Check the results of masks: few pixels lie where rounding decides."""
    for result in results:
        if arguments["format"] == "rle":
            sizes = [[*arguments["image_shape"]]] * len(arguments["boxes"])
            assert [code["size"] for code in result] == sizes
        else:
            assert result.shape == (len(arguments["boxes"]), *arguments["image_shape"])
            if overflows(arguments):  # products by themselves do so, and fused ones may not
                continue
            with np.errstate(invalid="ignore"):  # of equal infinities
                apart = np.abs(result.astype(np.float64) - results[0])
            far = np.count_nonzero(apart > 1e-3 * max(largest(results[0]), 1))
            assert far <= max(10, 0.02 * apart.size)


def overflows(arguments):
    """Return whether sums of prototypes may leave the type on the way."""
    given = (np.asarray(arguments.get(name, 0.0)) for name in ("prototypes", "coefficients"))
    with np.errstate(all="ignore"):
        return not np.prod([largest(one) for one in given]) < 1e36
