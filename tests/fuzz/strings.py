"""What the arguments of calls are made of: decisions, arrays and boxes, drawn from bytes."""

from __future__ import annotations

import math

import numpy as np

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

COORDINATES = (
    0.0, -0.0, 0.5, 1.0, -1.0, 3.25, 7.0, 11.5, 19.99, 40.0, -7.5, 2.75, 9.0, 16.0, 31.125, 25.0,
    1e-30, 5e-324, 1e-45, 1e6, -1e6, 2.0**31, -(2.0**31), 1e9, 2.0**24 + 1, 1e18, 1e38, -1e38,
    3.4e38, 1e300, float("nan"), float("inf"), -float("inf"),
)  # fmt: skip
FINITE = 26  # the first 26 are finite
SCALES = (
    1.0, 0.5, 0.25, 1 / 16, 0.7, 3.0, 1e-3, 0.0, -1.0, 1e-45, 1e-300, 1e38, 1e300, float("nan"),
    float("inf"), "1", None, np.float32(0.5), 2, True,
)  # fmt: skip
SIZES = (
    1, 2, 3, 7, 14, 64, 65, 300, 0, -1, 2**24, 2**24 + 1, 2**31, 2**63, -(2**63), 10**30, 2.0, "2",
    None, True,
)  # fmt: skip
SMALL = [np.dtype(np.float16), np.dtype(np.uint8)]
SMALL += [np.dtype(ml_dtypes.bfloat16)] if ml_dtypes else []
IMAGES = (0, -1, 3, 0.5, 2**31, -(2**31), 2**32, 1e30, float("nan"), float("inf"))
POOLS = {
    char: np.random.default_rng(0).integers(-64, 65, 2**19).astype(char) / np.array(8, char)
    for char in "fd"
}


class Bytes:
    """Decisions that are read from a string of bytes.  When the string has ended, each decision is
    the first choice, which is the most ordinary one.
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
        if self.rarely():
            return choices[count + self.below(len(choices) - count)]
        return choices[self.below(count)]


def values(data, shape, dtype):
    """Return an array of small numbers; one of them may be very large, tiny, infinite or NaN."""
    size, first = math.prod(shape), data.below(256)
    array = POOLS[dtype.char][first : first + size].reshape(shape).copy()
    if size and data.rarely(12):
        odd = data.of((np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-45))
        array.reshape(-1)[data.below(256) % size] = odd
    return array


def disguised(data, array):
    """Return equal numbers in memory of another kind, or in an array that no operator takes."""
    kind = data.below(16)
    if kind < 5 or not array.size:
        return array
    if kind == 5:
        return np.asfortranarray(array)
    if kind == 6:
        memory = np.zeros([2 * extent for extent in array.shape], array.dtype)
        spaced = memory[(slice(None, None, 2),) * array.ndim]
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
        return np.broadcast_to(array[(slice(1),) * array.ndim], array.shape)
    if not data.rarely(4):
        return array
    if kind == 12:
        unaligned = np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:]
        return unaligned.view(array.dtype).reshape(array.shape)
    if kind == 13:
        record = np.zeros(array.shape, [("value", array.dtype), ("odd", "u1")])
        record["value"] = array
        return record["value"]
    if kind == 14:
        return array.view(np.recarray) if data.below(2) else np.ma.masked_array(array)
    if array.dtype.kind == "V":  # bfloat16, which NumPy converts to floats alone
        array = array.astype(np.float64)
    with np.errstate(all="ignore"):
        return data.of(NO_ARRAYS)(array)


# What makes of an array something that no operator takes, or takes elsewhere.
NO_ARRAYS = (
    lambda array: array.astype(">f4"),
    lambda array: array.astype(np.float16),
    lambda array: np.nan_to_num(array).astype(np.int32),
    lambda array: array.astype(object),
    lambda array: array.astype(complex),
    lambda array: array.tolist(),
    lambda array: array[0],
    lambda array: array[None],
    lambda array: None,
    lambda array: array.astype(np.longdouble),
    lambda array: array.astype(str),
)


def corners_of(data, count):
    """Return corners (count, 4) in float64."""
    rows = [[data.ordinary(COORDINATES, FINITE) for _ in range(4)] for _ in range(count)]
    return np.array(rows, np.float64).reshape(count, 4)


def boxes_of(data, images, dtype):
    """Return the number of boxes, the boxes in any format, and boxes_num."""
    count = data.below(6) if images or data.rarely(2) else 0
    rows = corners_of(data, count)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = rows.astype(data.of((dtype, dtype, np.float64, np.float32)))
        if data.rarely(10):
            rows = np.nan_to_num(rows, nan=0, posinf=0, neginf=0).clip(-1000, 1000)
            rows = rows.astype(data.of((np.int64, np.int32, np.uint8)))
    kind = data.below(4)
    if kind == 3:
        bounds = sorted(data.below(count + 1) for _ in range(max(images - 1, 0)))
        parts = [disguised(data, part) for part in np.split(rows, bounds)]
        parts = parts[: images - data.rarely()] if images else []
        return count, parts, [count] if data.rarely(4) else None
    if kind == 2:
        numbers = [data.below(max(images, 1)) for _ in range(count)]
        counts = np.bincount(numbers, minlength=images)[:images]
        counts = counts.astype(data.ordinary((np.int64, np.int32, np.float64), 2))
        if counts.size and data.rarely(8):
            counts[data.below(len(counts))] += data.of((1, -1, 100, -100, 2**30))
        return count, disguised(data, rows), data.of((counts, counts.tolist(), counts))
    numbers = [data.ordinary((data.below(max(images, 1)), *IMAGES), 1) for _ in range(count)]
    whole = np.column_stack([np.array(numbers, np.float64), rows])
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
            small, backwards = self.array.astype(np.float16), self.array[:, :, :, ::-1]
            repeated = np.broadcast_to(self.array[:1], shape)
            self.array = data.of((locked, self.array[:-1], small, backwards, repeated, [1]))

    def check(self, written):
        """Check that nothing but the array was written, and the array only if `written`."""
        if written:
            self.array[...] = 123
        message = "memory was written that is not of `out`, or before an error"
        assert (self.memory == 123).all(), message
