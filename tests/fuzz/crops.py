"""Calls of crop."""

from __future__ import annotations

import math

import numpy as np

import roicy

from .judged import EPS, judged, largest
from .strings import COORDINATES, FINITE, IMAGES, SIZES, SMALL, Buffer, boxes_of, disguised, values

COLORS = (
    "nv12", "nv21", "i420", "yv12", "yuyv", "yuy2", "uyvy", "p010", "nv16", "nv24", "i422", "yvyu",
    "rgb565", "nv61", "nv42", "i444", "p210", "p410", "vyuy", "y210",
)  # fmt: skip
OF_444 = ("nv24", "nv42", "i444", "p410")
OF_422 = ("nv16", "nv61", "i422", "p210")


def crop_frames(data):
    """Return frames, how many they are, and their channels."""
    n, c = data.of((0, 1, 2, 3)), data.of((3, 1, 4, 2, 3))
    h, w = 1 + data.below(40), 1 + data.below(40)
    if data.rarely():
        h, w = data.of(((0, 5), (5, 0), (1, 700), (700, 1), (0, 0)))
    kind = data.of(("u1", "u1", "u2", "f2", "f4"))

    def one(*shape):
        with np.errstate(all="ignore"):
            return disguised(data, (values(data, shape, np.dtype("f4")) * 16 + 128).astype(kind))

    if n == 0:
        return one(h, w) if c == 1 else one(h, w, c), 1, c
    if data.below(2):
        return [one(h, 1 + i, c) for i in range(n)], n, c
    return one(n - data.rarely(), h, w, c), n, c


def yuv_frame(data, color, h, w):
    """Return a frame of YCbCr: its planes, or an array."""
    wide = color in ("p010", "p210", "p410", "y210") or (color == "rgb565" and data.below(2))
    dtype = np.uint16 if wide else np.uint8

    def plane(*shape):
        return disguised(data, (np.arange(math.prod(shape)) * 77).astype(dtype).reshape(shape))

    if color in ("yuyv", "yuy2", "yvyu", "uyvy", "vyuy", "y210"):
        return plane(h, w // 2 * 2, 2)
    if color == "rgb565":
        return plane(h, w) if wide else plane(h, w, 2) if data.below(2) else plane(h, 2 * w)
    if color in OF_444 and data.below(2):
        return plane(3 * h, w)
    if color in OF_422 and data.below(2):
        return plane(2 * h, w // 2 * 2)
    if color not in (*OF_444, *OF_422) and data.below(2):
        return plane((h + 1) // 2 + h, w // 2 * 2)
    half = (h if color in OF_422 else (h + 1) // 2, (w + 1) // 2)
    if color in OF_444:
        half = h, w
    if color in ("i420", "yv12", "i422", "i444"):
        return plane(h, w), plane(*half), plane(*half)
    return plane(h, w), plane(*half, 2)


def crop_boxes(data, n):
    """Return the number of boxes, the boxes, boxes_num, and whether they are upright."""
    kind = data.below(6)
    if kind < 3:
        return *boxes_of(data, n, np.float64), True
    count = data.below(4)
    shape = {3: (count, 4, 2), 4: (count, 2, 3), 5: (count, 5)}[kind]
    numbers = [data.ordinary(COORDINATES, FINITE) for _ in range(math.prod(shape))]
    rows = np.array(numbers, np.float64).reshape(shape)
    if kind == 5 and data.below(2):
        images = [data.ordinary((data.below(max(n, 1)), *IMAGES), 1) for _ in range(count)]
        return count, np.column_stack([np.array(images, np.float64), rows]), None, False
    counts = np.bincount([data.below(max(n, 1)) for _ in range(count)], minlength=n)
    return count, rows if data.below(2) else rows.tolist(), counts, False


def crop_call(data) -> str:
    """Make a call of crop, and return how it ended."""
    frames, n, c = crop_frames(data)
    count, boxes, counts, upright = crop_boxes(data, n)
    size = (data.ordinary(SIZES, 7), data.ordinary(SIZES, 7))
    if all(type(extent) is int and extent > 0 for extent in size):
        # Up to 64 samples a pixel are slow.  Larger outputs than 2**40 are refused, and kept.
        if (5000 if upright else 500) < size[0] * size[1] < 2**40:
            size = (3, 14)
    size = size if data.below(2) or size == (3, 14) else size[0]
    if type(size) is int and 65 < size < 2**20:
        size = 7
    numbers = (0.0, 1.0, -2.5, 255, None, np.float32(0.5), [1, 2, 3], 0, np.nan, "1", 1e300, ())
    arguments = {
        "frames": frames, "boxes": boxes, "size": size, "boxes_num": counts,
        "fit": data.ordinary(
            ("stretch", "letterbox", "letterbox_top_left", "cover", "fill", None), 4
        ),
        "border": data.ordinary(("image", "crop", "constant", "wrap", 1), 3),
        "antialias": data.ordinary((True, False, "pillow", "nearest", 1, None), 4),
        "channels": data.ordinary(("first", "last", "both"), 2),
        "swap_channels": data.below(2) == 1 if c > 2 else data.rarely(3),
        "mean": data.ordinary(numbers, 6), "scale": data.ordinary(numbers, 6),
        "std": data.ordinary((None, 2.0, [1, 2, 3][:c], *numbers), 2),
        "pad_value": data.ordinary(numbers, 4),
        "dtype": data.ordinary((np.float32, *SMALL, np.float64, "?", 3), 1 + len(SMALL)),
        "num_threads": data.ordinary((1, 2, 3, 0, 10**9, None), 3),
    }  # fmt: skip
    if data.below(4) == 3:
        color = data.ordinary((*COLORS, "rgb", 1), len(COLORS))
        arguments |= {
            "color": color,
            "color_range": data.ordinary(("video", "full", ""), 2),
            "color_matrix": data.ordinary(("bt601", "bt709", "bt2020", None), 3),
        }
        if not data.rarely():
            c, frames = 3, yuv_frame(data, color, data.below(18), data.below(30))
            arguments["frames"] = frames if n == 1 else [frames] * n
    buffer = None
    if data.below(2):
        h, w = size if isinstance(size, tuple) else (size, size)
        if all(type(extent) is int and 0 < extent <= 300 for extent in (h, w)):
            shape = (count, c, h, w) if arguments["channels"] == "first" else (count, h, w, c)
            dtype = arguments["dtype"] if not isinstance(arguments["dtype"], (str, int)) else "f4"
            buffer = Buffer(data, shape, dtype)
            arguments["out"] = buffer.array
    if isinstance(boxes, list) and all(isinstance(part, np.ndarray) for part in boxes):
        count = sum(len(part) if part.ndim > 1 else 1 for part in boxes)  # (4,) is a row
    name = "crop_lines" if data.below(6) == 5 else "crop"
    if name == "crop_lines":
        del arguments["fit"]
        size = arguments.pop("size")  # without a width, a line may be as long as memory is large
        both = size if isinstance(size, tuple) else (size, size)
        arguments["height"], arguments["width"] = both
    if arguments["dtype"] == np.dtype(np.uint8) and data.below(2):
        quantize(data, arguments)
    return judged(name, arguments, buffer, lambda ends: check_crops(arguments, ends, count))


def whole_call(data) -> str:
    """Make a call of crop with boxes of whole numbers, of a frame that is converted before it is
    read: where boxes end, and where their pixels do, is the same up to a rounding.
    """
    shape, size = [4, 6 + 2 * (data.below(256) + data.below(110))], [1 + data.below(3)] * 2
    size[1] = 1 + data.below(256) + data.below(256)
    if data.below(2):  # y is the longer axis
        shape.reverse()
        size.reverse()
    options = {
        "color": data.of(COLORS), "color_range": data.of(("video", "full")),
        "color_matrix": data.of(("bt601", "bt709", "bt2020")),
    }  # fmt: skip
    frame, (h, w) = yuv_frame(data, options["color"], *shape), shape

    def between(extent):
        return (data.below(256) * 256 + data.below(256)) % (extent + 1)

    boxes = np.array(
        [[between(w), between(h), between(w), between(h)] for _ in range(1 + data.below(3))]
    )
    if data.below(4) == 3:  # corners
        boxes = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
    arguments = {
        "frames": frame, "boxes": boxes, "size": tuple(size), **options,
        "antialias": data.of((True, True, False, "pillow", "nearest")),
        "border": data.of(("image", "constant", "crop")[: 2 + (boxes.ndim == 2)]),
        "num_threads": data.of((1, 2)),
    }  # fmt: skip

    def check(ends):
        whole = {"boxes": [(0, 0, w, h)], "size": (h, w), "channels": "last", "dtype": np.uint8}
        rgb = roicy.crop(frame, **options, **whole)[0]
        others = {key: value for key, value in arguments.items() if key not in options}
        assert roicy.crop(**others | {"frames": rgb}).tobytes() == ends[0].tobytes()

    return judged("crop", arguments, None, check)


def quantize(data, arguments):
    """Make the result that of a network whose input is quantised, of uint8 or int8."""
    arguments["quantization"] = data.ordinary(
        ((0.5, 3), (1 / 64, 0), (2.0, 100), None, (0, 0), (np.nan, 0), (1.0, 300), (1e-320, 1),
         (1.0, 0.5), (-1.0, 0), (1.0,), 5, ("1", 0)), 4,
    )  # fmt: skip
    if data.below(2):
        arguments["dtype"] = np.dtype(np.int8)
        out = arguments.get("out")
        if isinstance(out, np.ndarray) and out.dtype == np.uint8:
            arguments["out"] = out.view(np.int8)


def check_crops(arguments, ends, count):
    """Check the results of crop, which differ between instruction sets by a rounding."""
    ends = [end[0] if isinstance(end, tuple) else end for end in ends]
    frames = arguments["frames"]
    given = {key: 1.0 if arguments[key] is None else arguments[key] for key in ("scale", "std")}
    mean = 0.0 if arguments["mean"] is None else arguments["mean"]
    dtype = np.dtype(arguments["dtype"])
    with np.errstate(all="ignore"):
        largest_pixel = 255.0 if "color" in arguments else max(map(largest, frames), default=0.0)
        reach = largest_pixel * largest(np.asarray(given["scale"])) + largest(np.asarray(mean))
        reach /= np.abs(np.asarray(given["std"], np.float64)).min()
        reach /= (arguments.get("quantization") or (1.0, 0))[0]
        for end in ends:
            assert (end.shape[0], end.dtype) == (count, dtype)
            assert (np.isnan(end) == np.isnan(ends[0])).all()
            if reach < 6e4:
                rounding = 1.0 if dtype.kind in "iu" else 2 * EPS[dtype.name] * reach
                apart = np.abs(end.astype(np.float64) - ends[0])
                assert np.nanmax(apart, initial=0) <= 1e-3 * reach + rounding
