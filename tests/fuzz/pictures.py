"""Calls that make labels, masks and input of networks of whole pictures."""

from __future__ import annotations

import numpy as np

from .judged import bits, judged
from .strings import COORDINATES, FINITE, SIZES, SMALL, Buffer, disguised, values

NUMBERS = (0.0, 1.0, 0.5, -2.5, None, np.nan, np.inf, "1", 1e300)
WHOLE = (1, 2, 3, 0, -1, 2**31, 2**63, 1.5, "2", None)


def size_of(data):
    """Return a size that is not too slow, or one that no picture has."""
    size = data.ordinary(SIZES, 6), data.ordinary(SIZES, 6)
    numbers = [extent for extent in size if type(extent) is int and extent > 0]
    return (3, 14) if len(numbers) == 2 and 10**4 < numbers[0] * numbers[1] < 2**40 else size


def label_call(data) -> str:
    """Make a call of label_map, label_segments or resize_masks, and return how it ended."""
    name = data.of(("label_map", "label_segments", "resize_masks"))
    n, c, dtype = data.below(3), 1 + data.below(6), np.dtype(data.of((np.float32, np.float64)))
    shape = (max(n, 1), c, 1 + data.below(9), 1 + data.below(9))
    maps, size = values(data, shape, dtype), size_of(data)
    if data.below(4) == 3:
        with np.errstate(all="ignore"):
            maps = maps.astype(np.float16)
    arguments = {
        "masks" if name == "resize_masks" else "maps": disguised(data, maps if n else maps[0]),
        "size": size,
        "align_corners": data.ordinary((False, True, 1, None), 2),
        "num_threads": data.ordinary((1, 2, 3, 0), 3),
    }
    if data.below(3) == 2:
        arguments["via"] = size_of(data)
    if data.below(3) == 2:
        low, high = sorted(data.ordinary(COORDINATES, FINITE) for _ in range(2))
        arguments["box"] = data.ordinary(((0, 0, shape[3], shape[2]), (low, low, high, high)), 1)
    if data.below(2):
        arguments["threshold"] = data.ordinary(NUMBERS, 4)
    if name == "resize_masks":
        arguments["format"] = data.ordinary(("image", "rle", "png"), 2)
    else:
        arguments |= {
            "mode": data.ordinary(("bilinear", "nearest", "cubic", None), 2),
            "labels": data.ordinary((None, [*range(c)], [7] * c, [-1] * c, [2**70], "1"), 3),
            "weights": data.ordinary((None, [0.5] * c, [0.0] * c, [2.0] * c, [np.nan], 1), 3),
            "dtype": data.ordinary((None, np.uint8, np.int64, np.float32, "?"), 3),
        }
    if name == "label_map":
        arguments["values"] = data.below(2) == 1
    return judged(name, arguments, None, check_same_kind)


def check_same_kind(ends):
    """Check that all instruction sets give arrays of one shape and dtype.

    Where classes nearly tie, labels differ between those with fused products and those without.
    """
    firsts = [end[0] if isinstance(end, (tuple, list)) and len(end) else end for end in ends]
    arrays = [(end.shape, end.dtype) for end in firsts if isinstance(end, np.ndarray)]
    assert len(set(arrays)) <= 1


def resize_call(data) -> str:
    """Make a call of resize, and return how it ended."""
    n, c = data.below(3), data.of((3, 1, 4, 2))
    h, w, size = 1 + data.below(60), 1 + data.below(60), size_of(data)
    frames = (np.arange(max(n, 1) * h * w * c) * 77).astype(np.uint8).reshape(-1, h, w, c)
    count, boxes = max(n, 1), None
    if data.below(2):
        count = data.below(4)
        ends = np.array([data.below(256) / 255 for _ in range(4 * count)]).reshape(count, 2, 2)
        boxes = np.sort(ends, 1).reshape(count, 4) * (w, h, w, h)
        boxes = np.column_stack([[data.below(max(n, 1)) for _ in range(count)], boxes])
        if count and data.rarely():
            boxes[0, data.below(5)] = data.of(COORDINATES)
    arguments = {
        "frames": disguised(data, frames if n else frames[0]), "size": size, "boxes": boxes,
        "filter": data.ordinary(
            ("bicubic", "lanczos", "bilinear", "hamming", "box", "cubic", None), 5
        ),
        "border": data.ordinary(("image", "crop", "constant"), 2),
        "channels": data.ordinary(("first", "last", "both"), 2),
        "alpha": data.ordinary((None, "drop", "pillow", 1), 3 if c in (2, 4) else 1),
        "mean": data.ordinary(NUMBERS, 5), "std": data.ordinary((None, 2.0, *NUMBERS), 2),
        "scale": data.ordinary(NUMBERS, 5), "pad_value": data.ordinary((0, 114, *NUMBERS), 2),
        "dtype": data.ordinary((np.float32, *SMALL, np.int8, np.float64, "?"), 2 + len(SMALL)),
        "pillow": data.ordinary((13, 12, 11, None), 2),
        "num_threads": data.ordinary((1, 2, 3, 0), 3),
    }  # fmt: skip
    kind = data.below(5)
    if kind == 1:
        arguments["fit"] = data.ordinary(("stretch", "letterbox", "cover"), 2)
    elif kind == 2:
        content = [data.below(100) - 50 for _ in range(2)]
        content += [1 + data.below(60) for _ in range(2)]
        arguments["content"] = data.ordinary((content, content[:3], [0, 0, 0, 1], [2**40] * 4), 1)
    elif kind == 3:
        side, merge = 1 + data.below(4), 1 + data.below(2)
        arguments |= {
            "patch": data.ordinary((side, *WHOLE), 1), "merge": data.ordinary((merge, *WHOLE), 1),
            "repeat": data.ordinary(WHOLE, 2),
        }  # fmt: skip
        arguments["size"] = (side * merge * (1 + data.below(5)), side * merge * (1 + data.below(5)))
    elif kind == 4:
        arguments |= {
            "tiles": data.ordinary(((1, 1), (2, 3), (0, 1), (1, 2, 3), 2, (2**40, 1)), 2),
            "overview": data.ordinary((None, "first", "last", "both"), 3),
        }
    buffer = None
    if kind < 3 and data.below(2) and all(type(one) is int and 0 < one <= 300 for one in size):
        channels = c - (arguments["alpha"] == "drop")
        shape = (channels, *size) if arguments["channels"] == "first" else (*size, channels)
        dtype = arguments["dtype"] if not isinstance(arguments["dtype"], str) else "f4"
        buffer = Buffer(data, (count, *shape), dtype)
        arguments["out"] = buffer.array
    return judged("resize", arguments, buffer, check_same_bits)


def check_same_bits(ends):
    """Check that all instruction sets give the same bits, since bytes are exact."""
    assert all(bits(end) == bits(ends[0]) for end in ends)
