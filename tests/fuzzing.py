"""
Makes calls of operators from strings of bytes, and checks what must hold afterwards.

The bytes of a string decide the arguments of its call, which may be valid or hostile.

    python tests/fuzzing.py --minutes 480
        makes calls of random bytes, of all targets in turn, on all processors
    python tests/fuzzing.py --calls 1000000 --processes 4 --targets crop masks
        makes so many calls
    python tests/fuzzing.py --coverage FOLDER --targets crop
        has libFuzzer look for bytes that reach new code; needs `pip install atheris`
    python tests/fuzzing.py --replay crop:HEX ...
        makes the calls of these strings
    python tests/fuzzing.py --keep FOLDER --targets crop
        makes the strings in FOLDER the corpus of a target
    python tests/fuzzing.py --choose 40 --targets crop
        makes random strings the corpus of a target: those whose calls are of new kinds

Whatever the bytes are, a call returns the defined value, or it raises an error that names an
argument and has written nothing.  Each instruction set gives the same bits on one thread and on
two, in both layouts, and for a box alone; between instruction sets there is a bound.  The
sanitizers see whether a call reads or writes where it must not (CONTRIBUTING.md).  Writes beside
`out` are seen here too.

A target is a function in TARGETS, which makes a call from bytes and gives it to `judged`.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import itertools
import math
import multiprocessing
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

try:
    import onnx.parser
    import onnxruntime
except ImportError:
    onnxruntime = None

import fuzz_agreement

import roicy
from roicy import _dispatch

CORPUS = Path(__file__).parent / "corpus"  # a file for each target, a string a line
MOST_ELEMENTS = 20000  # elements of an image: few, so that calls are quick
LENGTH = 160  # bytes of a random call
SLOWEST = 20  # seconds that a call may take

# A string first chooses one of these functions, and later whether a newer function replaces it.  So
# older strings of the corpus still make the calls that they made before.
FUNCTIONS = [
    name
    for name in roicy.__all__
    if "roi" in name
    and not name.startswith(("multiscale", "roi_align_max", "roi_align_rotated", "ps_prroi"))
]
TURNED = tuple(
    prefix + "roi_align" + suffix
    for prefix in ("", "multiscale_")
    for suffix in ("", "_backward", "_backward_boxes")
)
ALIGN = CROPS = ("roi_align", "roi_align_backward", "roi_align_backward_boxes")
# An error begins with the argument that is wrong, or with what could not be made.
NAMED = (
    "input", "boxes", "boxes_num", "output_size", "spatial_scale", "sampling_ratio", "aligned",
    "layout", "out", "num_threads", "grad_output", "input_shape", "argmax", "return_argmax",
    "the result of shape", "products", "features", "input_shapes", "image_size",
    "canonical_scale", "canonical_level", "frames", "size", "mean", "std", "scale", "swap_channels",
    "fit", "pad_value", "antialias", "border", "channels", "dtype", "color", "color_range",
    "color_matrix",
    "masks", "image_shape", "threshold", "padding", "rule", "format",
    "clockwise", "image", "image_shape", "crop_size",
    "method", "extrapolation_value", "box_indices",
)  # fmt: skip
COORDINATES = (
    0.0, -0.0, 0.5, 1.0, -1.0, 3.25, 7.0, 11.5, 19.99, 40.0, -7.5, 2.75, 9.0, 16.0, 31.125, 25.0,
    1e-30, 5e-324, 1e-45, 1e6, -1e6, 2.0**31, -(2.0**31), 1e9, 2.0**24 + 1, 1e18, 1e38, -1e38,
    3.4e38, 1e300, float("nan"), float("inf"), -float("inf"),
)  # fmt: skip
FINITE = 26  # the first 26 are finite
SCALES = (
    1.0,
    0.5,
    0.25,
    1 / 16,
    0.7,
    3.0,
    1e-3,
    0.0,
    -1.0,
    1e-45,
    1e-300,
    1e38,
    1e300,
    float("nan"),
    float("inf"),
    "1",
    None,
    np.float32(0.5),
    2,
    True,
)
SIZES = (
    1,
    2,
    3,
    7,
    14,
    64,
    65,
    300,
    0,
    -1,
    2**24,
    2**24 + 1,
    2**31,
    2**63,
    -(2**63),
    10**30,
    2.0,
    "2",
    None,
    True,
)
SMALL = (
    np.dtype(np.float16),
    np.dtype(np.uint8),
    *([np.dtype(ml_dtypes.bfloat16)] if ml_dtypes else []),
)
COLORS = ("nv12", "nv21", "i420", "yv12", "yuyv", "yuy2", "uyvy", "p010")
INTEGERS = (np.dtype(np.int8), np.dtype(np.uint16), np.dtype(np.int16))
# What is no number in a nested list of boxes.
NO_NUMBERS = (None, "1", True, [], 10**400, b"1", 1j, np.True_, [[0.0]])
# Arguments that are read as arrays, whatever gives them to NumPy.
READ = ("input", "features", "masks", "boxes", "boxes_num", "grad_output", "argmax")
RATIOS = (-1, 0, 1, 2, 3, 7, 2**31 - 1, -(2**31), 2**31, 10**30, 1.5, None, True)
SHAPES = (
    (2**31, 1, 1, 1),
    (1, 2**62, 2**20, 2**20),
    (1, 1, 2**31, 1),
    "abcd",
    (1.0, 1, 1, 1),
    (-1, 1, 1, 1),
    (1, 2**40, 1, 1),
)
IMAGES = (0, -1, 3, 0.5, 2**31, -(2**31), 2**32, 1e30, float("nan"), float("inf"))


EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
POOLS = {
    char: np.random.default_rng(0).integers(-64, 65, 2**19).astype(char) / np.array(8, char)
    for char in "fd"
}


class Bytes:
    """
    Decisions that are read from a string of bytes.  When the string has ended, each decision is the
    first choice, which is the most ordinary one.
    """

    def __init__(self, data: bytes, target: str = "operators"):
        self.data, self.target = data, target
        self.at = 0
        self.hostile = False
        self.hostile = self.below(3) == 2

    def below(self, n: int) -> int:
        """Return a number from 0 to n - 1, where n is at most 256."""
        if self.at >= len(self.data):
            return 0
        self.at += 1
        return self.data[self.at - 1] % n

    def rarely(self, of: int = 16) -> bool:
        """Return True now and then in a hostile call, and always False in another call."""
        return self.hostile and self.below(256) % of == of - 1

    def of(self, choices):
        return choices[self.below(len(choices))]

    def ordinary(self, choices, count):
        """Return one of the first `count` choices, or rarely one of the others."""
        return (
            choices[count + self.below(len(choices) - count)]
            if self.rarely()
            else choices[self.below(count)]
        )


def values(data, shape, dtype):
    """Return an array of small numbers; one of them may be very large, tiny, infinite or NaN."""
    size, first = math.prod(shape), data.below(256)
    array = POOLS[dtype.char][first : first + size].reshape(shape).copy()
    if size and data.rarely(12):
        array.reshape(-1)[data.below(256) % size] = data.of(
            (np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-45)
        )
    return array


def disguised(data, array):
    """Return equal numbers in memory of another kind, or in an array that no operator takes."""
    kind = data.below(16)
    if kind < 5 or not array.size:
        return array
    if kind == 5:
        return np.asfortranarray(array)
    if kind == 6:
        spaced = np.zeros([2 * extent for extent in array.shape], array.dtype)[
            (slice(None, None, 2),) * array.ndim
        ]
        spaced[...] = array
        return spaced
    if kind == 7:
        return np.flip(np.flip(array).copy())
    if kind == 8:
        array = array.copy()
        array.flags.writeable = False
        return array
    if kind == 9:
        return np.broadcast_to(array[:1], array.shape)
    if kind == 10:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    if kind == 11:
        return np.broadcast_to(array[tuple(slice(0, 1) for _ in array.shape)], array.shape)
    if not data.rarely(4):
        return array
    if kind == 12:
        return (
            np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:]
            .view(array.dtype)
            .reshape(array.shape)
        )
    if kind == 13:
        record = np.zeros(array.shape, [("value", array.dtype), ("odd", "u1")])
        record["value"] = array
        return record["value"]
    if kind == 14:
        return array.view(np.recarray) if data.below(2) else np.ma.masked_array(array)
    with np.errstate(all="ignore"):
        return data.of(
            (
                lambda: array.astype(">f4"),
                lambda: array.astype(np.float16),
                lambda: np.nan_to_num(array).astype(np.int32),
                lambda: array.astype(object),
                lambda: array.astype(complex),
                lambda: array.tolist(),
                lambda: array[0],
                lambda: array[None],
                lambda: None,
                lambda: array.astype(np.longdouble),
                lambda: array.astype(str),
            )
        )()


def boxes_of(data, images, dtype):
    """Return the number of boxes, the boxes in any format, and boxes_num."""
    count = data.below(6) if images or data.rarely(2) else 0
    rows = np.array(
        [[data.ordinary(COORDINATES, FINITE) for _ in range(4)] for _ in range(count)], np.float64
    ).reshape(count, 4)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = rows.astype(data.of((dtype, dtype, np.float64, np.float32)))
        if data.rarely(10):
            rows = (
                np.nan_to_num(rows, nan=0, posinf=0, neginf=0)
                .clip(-1000, 1000)
                .astype(data.of((np.int64, np.int32, np.uint8)))
            )
    kind = data.below(4)
    if kind == 3:
        bounds = sorted(data.below(count + 1) for _ in range(max(images - 1, 0)))
        parts = [disguised(data, part) for part in np.split(rows, bounds)]
        return (
            count,
            parts[: images - data.rarely()] if images else [],
            [count] if data.rarely(4) else None,
        )
    if kind == 2:
        counts = np.bincount([data.below(max(images, 1)) for _ in range(count)], minlength=images)[
            :images
        ].astype(data.ordinary((np.int64, np.int32, np.float64), 2))
        if counts.size and data.rarely(8):
            counts[data.below(len(counts))] += data.of((1, -1, 100, -100, 2**30))
        return count, disguised(data, rows), data.of((counts, counts.tolist(), counts))
    whole = np.concatenate(
        [
            np.array(
                [[data.ordinary((data.below(max(images, 1)), *IMAGES), 1)] for _ in range(count)],
                np.float64,
            ).reshape(count, 1),
            rows,
        ],
        axis=1,
    )
    return (
        count,
        disguised(data, whole.astype(rows.dtype) if rows.dtype.kind == "f" else whole),
        None,
    )


class Buffer:
    """An `out` in memory that belongs to the test, which sees what is written beside it."""

    def __init__(self, data, shape, dtype):
        size = math.prod(shape)
        self.memory = np.full(2 * size + 64, 123.0, dtype)
        step = data.below(2) + 1
        flat = self.memory[32 : 32 + step * size : step]
        order = data.of(((0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 3, 2)))
        self.array = flat.reshape([shape[i] for i in order]).transpose(np.argsort(order))
        if data.rarely(8) and size:
            locked = self.array.view()
            locked.flags.writeable = False
            self.array = data.of(
                (
                    locked,
                    self.array[:-1],
                    self.array.astype(np.float16),
                    self.array[:, :, :, ::-1],
                    np.broadcast_to(self.array[:1], shape),
                    [1],
                )
            )

    def check(self, written):
        """Check that nothing but the array was written, and the array only if `written`."""
        if written:
            self.array[...] = 123
        assert (self.memory == 123).all(), (
            "memory was written that is not of `out`, or before an error"
        )


def operator_call(data) -> str:
    """Make a call of an operator, and return how it ended."""
    name = data.of(FUNCTIONS if data.target == "operators" else ALIGN)
    dtype = np.dtype(data.of((np.float32, np.float32, np.float64)))
    layout = "NCHW" if data.below(2) else "NHWC"
    n, h, w = data.of((1, 2, 3, 1, 2, 3, 2, 0)), 1 + data.below(40), 1 + data.below(40)
    if data.rarely():
        h, w = data.of(((0, 5), (5, 0), (1, 4000), (4000, 1), (300, 304), (1, 1)))
    size = data.ordinary(SIZES, 5)
    if not data.below(3):
        size = data.of((tuple, list, lambda both: np.array(both, object)))(
            (size, data.ordinary(SIZES, 5))
        )
    bins = tuple(size) if isinstance(size, (tuple, list, np.ndarray)) else (size, size)
    if (
        all(type(extent) is int and 0 < extent <= 2**24 for extent in bins)
        and 5000 < bins[0] * bins[1] < 2**40
    ):
        # Such an output is slow, or as large as the memory of some machines.  A larger one is kept,
        # since no machine has the memory and the call is refused.
        size, bins = 3, (3, 3)
    if (
        not all(type(extent) is int and 0 < extent <= 300 for extent in bins)
        or bins[0] * bins[1] > 5000
    ):
        bins = (2, 2)  # these bins are not those of the output, or the call has no output
    c = data.below(20)
    if name.startswith("ps_") and bins[0] * bins[1] <= 300 and not data.rarely():
        c = (1 + c % 3) * bins[0] * bins[1]
    if c * h * w > MOST_ELEMENTS:
        h, w = min(h, 20), min(w, 20)
    if c * h * w > MOST_ELEMENTS:
        c = bins[0] * bins[1]
    shape = (n, c, h, w) if layout == "NCHW" else (n, h, w, c)
    x = values(data, shape, dtype)
    k, boxes, boxes_num = boxes_of(data, n, dtype)
    arguments = {
        "layout": layout if not data.rarely(100) else data.of(("nchw", None, 3)),
        "boxes": boxes,
    }
    if boxes_num is not None:
        arguments["boxes_num"] = boxes_num
    if data.below(2):
        arguments["num_threads"] = data.ordinary((1, 2, 3, 1000, 0, -1, 10**9, 1.0), 3)
    if name != "roi_pool_backward":
        arguments["spatial_scale"] = data.ordinary(SCALES, 7)
    if "align" in name:
        arguments["sampling_ratio"] = data.ordinary(RATIOS, 6)
    if name.startswith("roi_align"):
        arguments["aligned"] = (
            data.of((False, True)) if not data.rarely(100) else data.of((1, None))
        )

    backward = name.endswith(("_backward", "_backward_boxes"))
    channels = c // (bins[0] * bins[1]) if name.startswith("ps_") else c
    pooled_shape = (k, channels, *bins) if layout == "NCHW" else (k, *bins, channels)
    out_shape = shape if name.endswith("_backward") else pooled_shape
    if backward:
        arguments["grad_output"] = disguised(data, values(data, pooled_shape, dtype))
    if not name.endswith("_backward"):
        arguments["input"] = disguised(data, x)
    else:
        arguments["input_shape"] = (
            shape if not data.rarely(16) else data.of((shape[:3], *SHAPES, np.array(shape)))
        )
    if not backward:
        arguments["output_size"] = size
    if name == "roi_pool":
        arguments["return_argmax"] = data.of((False, True)) if not data.rarely(100) else 1
    if name == "roi_pool_backward":
        argmax = np.random.default_rng(data.below(256)).integers(
            -1, max(h * w, 1), pooled_shape, dtype=np.int32
        )
        if argmax.size and data.rarely(4):
            argmax.reshape(-1)[data.below(256) % argmax.size] = data.of(
                (h * w, -2, 2**31 - 1, -(2**31))
            )
        arguments["argmax"] = (
            argmax
            if not data.rarely(32)
            else data.of((argmax.astype(np.int64), argmax[..., :0], argmax.T, None))
        )
    buffer = None
    if not name.endswith("_boxes") and data.below(3) == 1:
        buffer = Buffer(data, out_shape, dtype)
        arguments["out"] = buffer.array
        if data.rarely(12) and x.size:
            # this `out` shares memory with the input, or has another shape
            buffer, arguments["out"] = None, x

    # Newer options are drawn last, so that older strings of the corpus still make the same calls.
    if (
        type(arguments.get("input")) is np.ndarray
        and arguments["input"].dtype == np.float32
        and data.below(4) == 3
    ):
        with np.errstate(all="ignore"):
            arguments["input"] = arguments["input"].astype(data.of(SMALL))
    multiscale = name.startswith("roi_align") and data.below(3) == 2
    multiscale = multiscale or data.target == "pyramids"
    if multiscale:
        name = as_multiscale(data, name, arguments)
        buffer = buffer if "out" in arguments else None

    if name.startswith("ps_roi_align") and data.below(3) == 2:
        name = name.replace("ps_roi_align", "ps_prroi_pool")
        del arguments["sampling_ratio"]

    if "spatial_scale" in arguments and data.below(4) == 3:
        arguments["spatial_scale"] = two_scales(data, arguments["spatial_scale"], multiscale)

    if name == "roi_align" and data.below(4) == 3:
        name = "roi_align_max"
        arguments["products"] = (
            data.of((False, True)) if not data.rarely(100) else data.of((None, 1))
        )

    if name == "roi_align_backward_boxes" and data.below(4) == 3:
        name = "roi_align_max_backward"
        arguments["products"] = (
            data.of((False, True)) if not data.rarely(100) else data.of((None, 1))
        )
        if data.below(3) == 1:
            buffer = Buffer(data, shape, dtype)
            arguments["out"] = buffer.array
        out_shape = shape

    for key in ("input", "features"):
        if key in arguments and data.below(2) == 1:
            arguments[key] = with_integers(data, arguments[key])
    spoiled = name != "roi_pool_backward" and data.rarely(4)
    if spoiled:
        arguments["boxes"], spoiled = spoil(data, boxes)
    if name == "roi_pool" and data.below(3) == 2:
        return crop_call(data)

    if name == "ps_roi_pool" and data.below(3) == 2:
        return paste_call(data)

    if name in TURNED and not spoiled and (data.below(4) == 3 or data.target == "rotated"):
        name = name.replace("roi_align", "roi_align_rotated")
        arguments["boxes"] = boxes = turned(data, boxes)
        if not data.below(3):
            arguments["clockwise"] = data.of((False, True)) if not data.rarely(100) else 1

    if name in CROPS and not spoiled and data.below(6) == 5:
        name = as_crop(data, name, arguments)
        boxes = arguments["boxes"]

    read = {
        key: value.tobytes()
        for key, value in arguments.items()
        if isinstance(value, np.ndarray) and key != "out" and value.dtype.kind == "f"
    }
    ends = [outcome(isa, name, arguments) for isa in ISAS]
    ended = type(ends[0]).__name__
    if isinstance(ends[0], Exception):
        assert str(ends[0]).startswith(NAMED) or (
            name.startswith("roi_align_max") and type(ends[0]) is MemoryError
        ), f"an error that names no argument: {ends[0]!r}"
        assert all(repr(end) == repr(ends[0]) for end in ends)
    else:
        ended = "value"
        check_value(name, arguments, ends, dtype, out_shape, boxes)
        agree(name, arguments, ends)
    assert not spoiled or ended != "value"
    assert bits(converted(name, arguments)) == bits(ends[0])
    if ended == "value" and not (isinstance(boxes, list) and not boxes):  # [] with boxes_num or not
        assert bits(outcome(ISAS[0], name, friendlier(arguments, n))) == bits(ends[0])
    if buffer is not None:
        buffer.check(ended == "value")
    for key, before in read.items():
        if arguments[key] is not arguments.get("out"):
            assert arguments[key].tobytes() == before, f"{key} was written to"
    return f"{name}: {ended}"


def with_integers(data, maps):
    """Return maps of other integers where they are of uint8."""
    if isinstance(maps, list):
        dtype = data.of(INTEGERS)
        same = all(type(x) is np.ndarray and x.dtype == np.uint8 for x in maps)
        return [x.astype(dtype) for x in maps] if same else maps
    is_byte = type(maps) is np.ndarray and maps.dtype == np.uint8
    return maps.astype(data.of(INTEGERS)) if is_byte else maps


def spoil(data, boxes):
    """Return a nested list with something that is no number, and whether there is such a list."""
    if type(boxes) is not np.ndarray or boxes.ndim != 2 or not boxes.size:
        return boxes, False
    rows = boxes.tolist()
    row = data.of(rows)
    row[data.below(len(row))] = data.of(NO_NUMBERS)
    return data.of((rows, [rows], tuple(map(tuple, rows)))), True


class WithArray:
    """Memory that NumPy reads by ``__array__``."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def friendlier(arguments, images):
    """Return arguments that mean the same in forms that need to be converted."""
    given = dict(arguments)
    for key in READ:
        value = given.get(key)
        if key == "boxes" and type(value) is np.ndarray and len(value):
            given[key] = value.tolist()
        elif isinstance(value, list) and any(isinstance(part, np.ndarray) for part in value):
            odd = key == "boxes" and (lambda part: np.asarray(part).tolist())
            given[key] = [(odd or WithArray)(part) for part in value]
        elif isinstance(value, np.ndarray):
            given[key] = WithArray(value)
    if images == 1 and given.get("boxes_num") is not None:
        del given["boxes_num"]
    if "sampling_ratio" in given:
        given["sampling_ratio"] = float(given["sampling_ratio"])
    return given


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


def yuv_frame(data, color):
    """Return a frame of YCbCr: its planes, or an array."""
    h, w = data.below(18), data.below(30)
    dtype = np.uint16 if color == "p010" else np.uint8

    def plane(*shape):
        return disguised(data, (np.arange(math.prod(shape)) * 77).astype(dtype).reshape(shape))

    if color in ("yuyv", "yuy2", "uyvy"):
        return plane(h, w // 2 * 2, 2)
    if data.below(2):
        return plane((h + 1) // 2 + h, w // 2 * 2)
    half = ((h + 1) // 2, (w + 1) // 2)
    if color in ("i420", "yv12"):
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
            c, frames = 3, yuv_frame(data, color)
            arguments["frames"] = frames if n == 1 else [frames] * n
    buffer = None
    if data.below(2):
        h, w = size if isinstance(size, tuple) else (size, size)
        if all(type(extent) is int and 0 < extent <= 300 for extent in (h, w)):
            shape = (count, c, h, w) if arguments["channels"] == "first" else (count, h, w, c)
            dtype = arguments["dtype"] if not isinstance(arguments["dtype"], (str, int)) else "f4"
            buffer = Buffer(data, shape, dtype)
            arguments["out"] = buffer.array
    # [] has no boxes, whatever was dropped from it.
    count = count if boxes is None or len(boxes) else 0
    return judged("crop", arguments, buffer, lambda ends: check_crops(arguments, ends, count))


def check_crops(arguments, ends, count):
    """Check the results of crop, which differ between instruction sets by a rounding."""
    frames = arguments["frames"]
    given = {key: 1.0 if arguments[key] is None else arguments[key] for key in ("scale", "std")}
    mean = 0.0 if arguments["mean"] is None else arguments["mean"]
    dtype = np.dtype(arguments["dtype"])
    with np.errstate(all="ignore"):
        largest_pixel = 255.0 if "color" in arguments else max(map(largest, frames), default=0.0)
        reach = largest_pixel * largest(np.asarray(given["scale"])) + largest(np.asarray(mean))
        reach /= np.abs(np.asarray(given["std"], np.float64)).min()
        for end in ends:
            assert (end.shape[0], end.dtype) == (count, dtype)
            assert (np.isnan(end) == np.isnan(ends[0])).all()
            if reach < 6e4:
                rounding = 1.0 if dtype.kind in "iu" else 2 * EPS[dtype.name] * reach
                apart = np.abs(end.astype(np.float64) - ends[0])
                assert np.nanmax(apart, initial=0) <= 1e-3 * reach + rounding


def judged(name, arguments, buffer, check):
    """Make a call on all instruction sets, check what must hold, and return how it ended."""
    ends = [outcome(isa, name, arguments) for isa in ISAS]
    ended = "value"
    if isinstance(ends[0], Exception):
        ended = type(ends[0]).__name__
        assert str(ends[0]).startswith(NAMED), f"an error that names no argument: {ends[0]!r}"
        assert all(repr(end) == repr(ends[0]) for end in ends)
    else:
        check(ends)
        agree(name, arguments, ends)
    assert bits(converted(name, arguments)) == bits(ends[0])
    if buffer is not None:
        buffer.check(ended == "value")
    return f"{name}: {ended}"


def agree(name, arguments, ends):
    """Check that each instruction set gives its bits on other threads, and so on."""
    for isa, end in zip(ISAS, ends, strict=True):
        for what, call, expected, taken in fuzz_agreement.variants(name, arguments, end):
            found = outcome(isa, name, call)
            context = f"{name} on {isa}, {what}: other bits than before"
            assert not isinstance(found, Exception), f"{context}: {found!r}"
            assert bits(taken(found)) == bits(expected), context


def paste_call(data) -> str:
    """Make a call of paste_masks, and return how it ended."""
    count, dtype = data.below(5), np.dtype(data.of((np.float32, np.float64)))
    shape = data.of(((20, 30), (1, 1), (7, 300), (300, 7), (0, 4)))
    masks = values(data, (count, 1, 1 + data.below(9), 1 + data.below(9)), dtype)
    boxes = np.array(
        [[data.ordinary(COORDINATES, FINITE) for _ in range(4)] for _ in range(count)], np.float64
    ).reshape(count, 4)
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
    buffer = None
    if data.below(3) == 2:
        kind = np.uint8 if arguments["threshold"] is not None else dtype
        buffer = Buffer(data, (count, 1, *shape), np.dtype(data.ordinary((kind, np.uint8), 1)))
        arguments["out"] = buffer.array[:, 0] if isinstance(buffer.array, np.ndarray) else [1]
    return judged("paste_masks", arguments, buffer, lambda ends: check_pasted(arguments, ends))


def check_pasted(arguments, results):
    """Check the results of paste_masks: few pixels lie where rounding decides."""
    for result in results:
        if arguments["format"] == "rle":
            assert [code["size"] for code in result] == [[*arguments["image_shape"]]] * len(
                arguments["boxes"]
            )
        else:
            assert result.shape == (len(arguments["boxes"]), *arguments["image_shape"])
            apart = np.abs(result.astype(np.float64) - results[0])
            far = np.count_nonzero(apart > 1e-3 * max(largest(results[0]), 1))
            assert far <= max(10, 0.02 * apart.size)


def two_scales(data, scale, multiscale):
    """Return a pair of scales, rarely a wrong one; one level of a pyramid gets such a pair."""
    other = data.ordinary(SCALES, 7)
    if not multiscale:
        pair = data.of((tuple, list, lambda both: np.array(both, object)))((scale, other))
        return data.of(((), (scale,), (scale, other, 1.0), (pair, 1.0))) if data.rarely() else pair
    scales = list(scale)
    i = data.below(len(scales))
    scales[i] = (scales[i], other) if data.below(2) else (scales[i], scales[i])
    return scales


def turned(data, boxes):
    """Return boxes with an angle more, which takes corners for centres and sizes."""
    if isinstance(boxes, list):
        return [turned(data, rows) for rows in boxes]
    if type(boxes) is not np.ndarray or boxes.ndim != 2 or boxes.dtype.kind not in "fiu":
        return boxes
    angles = [data.ordinary((0.0, 0.5, -2.0, 1.5707964, 3.0, *COORDINATES), 9) for _ in boxes]
    with np.errstate(all="ignore"):
        angles = np.nan_to_num(angles) if boxes.dtype.kind != "f" else np.array(angles)
        return np.c_[boxes, angles.reshape(-1, 1).astype(boxes.dtype)]


def as_crop(data, name, arguments):
    """Turn the arguments into those of crop_and_resize, whose boxes are normalised."""
    name = name.replace("roi_align", "crop_and_resize")
    for key in ("spatial_scale", "sampling_ratio", "aligned", "boxes_num"):
        arguments.pop(key, None)
    for old, new in (
        ("input", "image"),
        ("input_shape", "image_shape"),
        ("output_size", "crop_size"),
    ):
        if old in arguments:
            arguments[new] = arguments.pop(old)
    boxes = arguments["boxes"]
    if type(boxes) is not np.ndarray or boxes.ndim != 2 or boxes.dtype.kind not in "fiu":
        boxes = np.zeros((0, 4), np.float32)
    with np.errstate(all="ignore"):
        images = np.nan_to_num(boxes[:, 0]) if boxes.shape[1] == 5 else np.zeros(len(boxes))
        arguments["box_indices"] = images.clip(-5, 2**40).astype(np.int64)
        boxes = boxes[:, -4:].astype(boxes.dtype if boxes.dtype.kind == "f" else np.float64)
        arguments["boxes"] = boxes / data.of((16.0, 1.0, 40.0))
    if not name.endswith("_boxes"):
        arguments["method"] = data.of(("bilinear", "nearest")) if not data.rarely(50) else None
    return name


def as_multiscale(data, name, arguments):
    """
    Turn the arguments into those of multiscale_roi_align, with maps at several scales.  Rarely the
    maps or their shapes are wrong.
    """
    levels = 1 + data.below(3)
    scale = arguments.pop("spatial_scale")
    if data.below(2):
        arguments["spatial_scale"] = [
            scale / 2**i if type(scale) is float else scale for i in range(levels)
        ]
    else:
        arguments["image_size"] = data.ordinary(
            ((40, 40), (80, 60), (1000, 1), (1, 1), (0, 5), 7, None, (2**70, 2)), 4
        )
    arguments["canonical_scale"] = data.ordinary((224, 20, 5.5, 1, 0, np.inf, "1", 1e-300), 4)
    arguments["canonical_level"] = data.ordinary((4, 0, 2, 1, -1000, 1001, 1.5, None), 4)
    rows = 2 if arguments["layout"] == "NCHW" else 1
    if "input" in arguments:
        x = arguments.pop("input")
        features = [x]
        for i in range(1, levels):
            step = tuple(
                slice(None, None, 2**i) if axis in (rows, rows + 1) else slice(None)
                for axis in range(4)
            )
            features.append(x[step] if type(x) is np.ndarray and x.ndim == 4 else x)
        arguments["features"] = (
            features
            if not data.rarely(30)
            else data.of((x, [], [*features, x[:, :1]] if type(x) is np.ndarray else None))
        )
    else:
        shape = arguments.pop("input_shape")
        shapes = [shape]
        for i in range(1, levels):
            whole = isinstance(shape, tuple) and all(type(extent) is int for extent in shape)
            shapes.append(
                tuple(
                    -(-extent // 2**i) if axis in (rows, rows + 1) else extent
                    for axis, extent in enumerate(shape)
                )
                if whole
                else shape
            )
        arguments["input_shapes"] = shapes if not data.rarely(30) else data.of((shape, [], None))
        if "out" in arguments and levels > 1:
            del arguments["out"]
        elif "out" in arguments:
            arguments["out"] = [arguments["out"]]
    return "multiscale_" + name


def outcome(isa, name, arguments):
    """Return what a call with the kernels of an instruction set returns or raises."""
    for note in notes:
        note(name, arguments)
    _use(isa)
    try:
        with np.errstate(all="raise"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(boxes|mean|mean, std|scale): ")
            result = getattr(roicy, name)(**arguments)
    except (TypeError, ValueError, MemoryError) as error:
        return error
    finally:
        _use(ISAS[0])
    out = arguments.get("out")
    if isinstance(out, list) and isinstance(result, list):
        return [array.copy() for array in result]
    return result.copy() if result is out else result


class Named(np.ndarray):
    """A subclass of arrays, which a plan does not take as it is."""


def not_plain(value):
    """Return an equal array of another class, or a list in which arrays have that class."""
    if type(value) in (list, tuple):
        return type(value)(not_plain(part) for part in value)
    return value.view(Named) if type(value) is np.ndarray else value


def converted(name, arguments):
    """Return the outcome of the call when Python has to convert every array."""
    given = {key: value if key == "out" else not_plain(value) for key, value in arguments.items()}
    result = outcome(ISAS[0], name, given)
    if isinstance(result, Exception):  # the message may name the class
        text = str(result).replace(f"{Named.__module__}.Named", "numpy.ndarray")
        return type(result)(text.replace("Named(", "array("))
    return result


def bits(result):
    """Return shapes, dtypes and bytes of a result, or the text of an error."""
    if isinstance(result, (tuple, list)):
        return [bits(part) for part in result]
    return (
        repr(result)
        if isinstance(result, (Exception, dict))
        else (result.shape, result.dtype, result.tobytes())
    )


def largest(array):
    return float(np.abs(array.astype(np.float64)).max(initial=0))


def check_value(name, arguments, results, dtype, shape, boxes):
    """Check each result, and that the results of the instruction sets agree."""
    if name.endswith("_boxes"):
        # An empty list has no boxes of each image.
        given = [boxes] if not isinstance(results[0], list) else boxes or [[]] * len(results[0])
        given = [np.asarray(part) if len(part) else np.zeros((0, 4)) for part in given]
        for result in results:
            parts = result if isinstance(result, list) else [result]
            parts = [part if len(part) else part[:, -4:] for part in parts]
            assert [(part.shape, part.dtype) for part in parts] == [
                (part.shape, dtype) for part in given
            ]
        return
    forward = "grad_output" not in arguments
    sources = arguments.get("features") or [
        arguments["input" if "input" in arguments else "image"]
        if forward
        else arguments["grad_output"]
    ]
    source = sources[0]
    if forward and source.dtype != dtype:
        out = arguments.get("out")
        dtype = (
            out.dtype if out is not None else dtype if source.dtype.kind in "iu" else source.dtype
        )
    if name == "roi_pool":
        height, width = source.shape[2:] if arguments["layout"] == "NCHW" else source.shape[1:3]
        pairs = [result if isinstance(result, tuple) else (result, None) for result in results]
        for pooled, argmax in pairs:
            assert pooled.dtype == dtype
            assert pooled.tobytes() == pairs[0][0].tobytes()
            assert not np.isnan(pooled).any()
            if argmax is not None:
                assert argmax.dtype == np.int32
                assert argmax.shape == pooled.shape
                assert argmax.tobytes() == pairs[0][1].tobytes()
                assert argmax.size == 0 or -1 <= argmax.min() <= argmax.max() < max(
                    height * width, 1
                )
        return
    with np.errstate(all="ignore"):
        # The weights of a bin are not negative, and their sum is at most 1.
        bound = (
            max(map(largest, sources)) if forward else float(np.abs(source).sum(dtype=np.float64))
        )
        eps = EPS[dtype.name]
        if not isinstance(results[0], list):
            results = [[result] for result in results]
        shapes = (
            arguments["input_shapes"]
            if "input_shapes" in arguments
            else [results[0][0].shape if forward else shape]
        )
        for levels in results:
            assert [level.shape for level in levels] == [tuple(level) for level in shapes]
            for result, first in zip(levels, results[0], strict=True):
                assert result.dtype == dtype
                if bound < (1e30 if dtype.itemsize > 2 else 6e4):
                    assert largest(result) <= bound * (1 + max(1e-4, eps)), (largest(result), bound)
                    # Instruction sets round sums of up to some hundred terms differently.  A result
                    # of a small type is rounded once more.  And they may differ in which sample
                    # is the largest.
                    if name == "roi_align_max_backward":
                        continue
                    assert (
                        largest(result.astype(np.float64) - first)
                        <= (1e3 * min(eps, EPS["float32"]) + eps) * bound
                    )
                else:
                    assert (np.isnan(result) == np.isnan(first)).all() or bound < np.inf


def _use(isa):
    _dispatch.kernels = _dispatch.load(isa)


ISAS = _dispatch.usable()
notes = []  # functions that are told the name and the arguments of each call


def _too_slow(*_):
    raise AssertionError(f"a call took more than {SLOWEST} seconds")


@functools.cache
def node_session(mode, ratio, size, corners, single):
    """Return a session of a model that is one node, computed by roicy."""
    import roicy.onnxruntime

    text = f'''<ir_version: 8, opset_import: ["": 16]>
    pool ({single} [N, C, H, W] x, {single} [K, 4] boxes, int64[K] images) => ({single} y) {{
        y = RoiAlign <mode = "{mode}", sampling_ratio = {ratio}, output_height = {size},
            output_width = 3, spatial_scale = 0.5, coordinate_transformation_mode = "{corners}">
            (x, boxes, images)
    }}'''
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    model = onnx.parser.parse_model(text).SerializeToString()
    return onnxruntime.InferenceSession(model, roicy.onnxruntime.use(options))


def node_call(data) -> str:
    """Run a node in ONNX Runtime; it ends as the call of roicy does."""
    if onnxruntime is None:
        return "nodes: no ONNX Runtime"
    mode, ratio, size = data.of(("avg", "max")), data.of((0, 2)), data.of((1, 4))
    corners, single = data.of(("half_pixel", "output_half_pixel")), data.of(("float", "double"))
    session = node_session(mode, ratio, size, corners, single)
    dtype = np.dtype("f" if single == "float" else "d")
    n, k = data.of((1, 2, 3)), data.below(6)
    x = values(data, (n, 1 + data.below(20), 1 + data.below(30), 1 + data.below(30)), dtype)
    with np.errstate(all="ignore"):
        boxes = [[data.ordinary(COORDINATES, FINITE) for _ in range(4)] for _ in range(k)]
        boxes = np.array(boxes, np.float64).reshape(k, 4).astype(dtype)
    images = [data.ordinary((data.below(n), -1, n, 2**31, -(2**63)), 1) for _ in range(k)]
    given = {"x": x, "boxes": boxes, "images": np.array(images, np.int64).reshape(k)}
    name = "roi_align" if mode == "avg" else "roi_align_max"
    aligned = corners == "half_pixel"
    ended = "value"
    for isa in ISAS:
        _use(isa)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = session.run(None, given)[0]
        except Exception as error:  # ONNX Runtime has no class of its own for all
            assert type(error).__module__.startswith("onnxruntime"), error
            found = error
        finally:
            _use(ISAS[0])
        ended = type(found).__name__ if isinstance(found, Exception) else "value"
        rows = [rows for rows in np.c_[images, boxes]] if k else np.zeros((0, 5), dtype)
        arguments = {"input": x, "boxes": np.array(rows, np.float64), "output_size": (size, 3)}
        arguments |= {"spatial_scale": 0.5, "sampling_ratio": ratio or -1, "aligned": aligned}
        arguments |= {"products": True} if mode == "max" else {}
        expected = outcome(isa, name, arguments)
        assert isinstance(expected, Exception) == (ended != "value"), (found, expected)
        assert ended != "value" or bits(found) == bits(expected)
    return f"nodes: {ended}"


# Strings of one target stay with it; a new target is a line here and a function above.
TARGETS = {
    "operators": operator_call,
    "rotated": operator_call,
    "pyramids": operator_call,
    "crop": crop_call,
    "masks": paste_call,
    "nodes": node_call,
}


def one_call(bytes_: bytes, target: str = "operators") -> str:
    """Make the call of a target, and return how it ended."""
    return TARGETS[target](Bytes(bytes_, target))


def watched(bytes_: bytes, target: str = "operators") -> str:
    """Make a call, and print its bytes if it fails."""
    if hasattr(signal, "alarm"):
        signal.alarm(SLOWEST)
    try:
        return one_call(bytes_, target)
    except BaseException:
        print(f"failed: {target}:{bytes_.hex()}", file=sys.stderr)
        raise
    finally:
        if hasattr(signal, "alarm"):
            signal.alarm(0)


def fail_when_slow() -> None:
    """Let a watched call that takes too long raise an error; otherwise it would end the process."""
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _too_slow)


def random_calls(seed: int, count: int, targets=tuple(TARGETS)) -> dict[str, int]:
    """Make calls of random bytes on every instruction set, and count how they ended."""
    fail_when_slow()
    generator = random.Random(seed)
    ends: dict[str, int] = {}
    for i in range(count):
        end = watched(generator.randbytes(LENGTH), targets[i % len(targets)])
        ends[end] = ends.get(end, 0) + 1
    return ends


def corpus(target: str) -> list[bytes]:
    """Return the strings of a target; each reached code that no other string reached."""
    file = CORPUS / f"{target}.txt"
    return [bytes.fromhex(line) for line in file.read_text().split()] if file.exists() else []


def _write(target: str, strings) -> None:
    (CORPUS / f"{target}.txt").write_text("".join(sorted(f"{s.hex()}\n" for s in strings if s)))


def _run_random(options) -> None:
    """Make random calls in several processes, until there are enough or the time is up."""
    chunk = 500
    stop = time.monotonic() + 60 * options.minutes if options.minutes else math.inf
    calls = options.calls or sys.maxsize
    print(f"seeds from {options.seed} on", file=sys.stderr)
    jobs = (
        (options.seed + i, min(chunk, calls - i * chunk), options.targets)
        for i in range(-(-calls // chunk))
    )
    ends: dict[str, int] = {}
    with concurrent.futures.ProcessPoolExecutor(
        options.processes, multiprocessing.get_context("spawn")
    ) as pool:
        running = {pool.submit(random_calls, *job) for job in itertools.islice(jobs, 16)}
        while running:
            done, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for part in done:
                for end, count in part.result().items():
                    ends[end] = ends.get(end, 0) + count
            if time.monotonic() < stop:
                running |= {
                    pool.submit(random_calls, *job) for job, _ in zip(jobs, done, strict=False)
                }
            else:
                running = {job for job in running if not job.cancel()}
            print(f"\r{sum(ends.values())} calls", end="", file=sys.stderr)
    print(file=sys.stderr)
    for end, count in sorted(ends.items()):
        print(f"{count:10} {end}")


def _kinds(bytes_: bytes, target: str) -> set:
    """Return what a call is like: how it ended, and pairs of what its arguments are."""
    seen = set()

    def note(name, arguments):
        known = sorted(f"{key}={_kind(value)}" for key, value in arguments.items())
        seen.update(itertools.combinations([name, *known], 2))

    notes.append(note)
    try:
        seen.add(one_call(bytes_, target))
    finally:
        notes.clear()
    return seen


def _kind(value) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.ndim}{value.flags.c_contiguous}{value.size > 0}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}{len(value) > 0 and _kind(value[0])}"
    return str(value) if isinstance(value, (str, bool)) else type(value).__name__


def choose(target: str, most: int, tries: int = 1500) -> list[bytes]:
    """Return at most so many random strings, cut short, that make calls of the most kinds."""
    generator = random.Random(len(target))
    kinds = {}
    for _ in range(tries):
        string = generator.randbytes(LENGTH)
        kinds[string] = _kinds(string, target)
    chosen, seen = [], set()
    while len(chosen) < most:
        best = max(kinds, key=lambda string: len(kinds[string] - seen))
        if not kinds[best] - seen:
            break
        seen |= kinds[best]
        for length in (20, 40, 60, 80, 120):
            if _kinds(best[:length], target) == kinds[best]:
                break
        else:
            length = LENGTH
        chosen.append(best[:length])
    return chosen


def _run_coverage(folder: Path, target: str, arguments: list[str]) -> None:
    import atheris

    folder.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(corpus(target)):
        (folder / f"kept-{i}").write_bytes(data)
    # To merge, libFuzzer starts itself by a shell.
    again = f"{sys.executable} {sys.argv[0]} --targets {target} --coverage {folder}"
    atheris.Setup(
        [again, f"-max_len={LENGTH}", f"-timeout={SLOWEST}", str(folder), *arguments],
        functools.partial(watched, target=target),
    )
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--minutes", type=float, help="make random calls for so long")
    parser.add_argument("--calls", type=int, help="random calls to make")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, help="of the first 500 calls; the next have the next")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=tuple(TARGETS))
    parser.add_argument(
        "--coverage",
        type=Path,
        metavar="FOLDER",
        help="fuzz by coverage, from the corpus and FOLDER, to which what is found is added",
    )
    parser.add_argument(
        "--replay", nargs="+", metavar="TARGET:HEX", help="make the calls of these strings"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="make the files of FOLDER the corpus"
    )
    parser.add_argument("--choose", type=int, metavar="N", help="choose N strings as the corpus")
    options, rest = parser.parse_known_args()
    if options.seed is None:  # other calls in each night, the same where their number is given
        options.seed = random.randrange(2**40) if options.minutes else 0
    for string in options.replay or ():
        target, _, digits = string.rpartition(":")
        print(one_call(bytes.fromhex(digits), target or "operators"))
    for target in options.targets:
        if options.keep:
            _write(target, [file.read_bytes() for file in options.keep.iterdir()])
        if options.choose:
            _write(target, choose(target, options.choose))
    if options.calls or options.minutes:
        _run_random(options)
    if options.coverage:
        _run_coverage(options.coverage, options.targets[0], rest)


if __name__ == "__main__":
    main()
