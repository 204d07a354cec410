"""
The only validation: every public function passes its arguments through here before anything is computed, but forward passes
of few boxes whose arguments are plainly right (``plan`` in pyx/front.pyx).

Each error names the argument, what it was and what it should be, and the first offending row of the boxes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _limits, _memory
from ._kernels import front

FLOATS = {"f": "float", "d": "double"}  # dtype characters, and what the kernels call them
SMALL = "eEB"  # float16, bfloat16 (of ml_dtypes, which need not be there) and uint8: types of maps that are computed with as float32
MOST_PIXELS = 2**30  # a side of the map: pixel indices are int32
MOST_BINS = 2**24  # a side of the output
FLOAT32 = np.dtype(np.float32)
LARGE = 2**28  # bytes of a result; below, nobody asks how much memory there is


def array(name: str, value: Any, shape: str) -> np.ndarray:
    """Return a float32 or float64 array of 4 dimensions, as it is: of any strides, read-only or not."""
    value = _plain(name, value)
    if value.dtype.char not in FLOATS or not value.dtype.isnative:
        raise TypeError(f"{name}: dtype {_spell(value.dtype)}, expected float32 or float64")
    if value.ndim != 4:
        raise ValueError(f"{name}: shape {value.shape}, expected {shape}")
    return _addressable(name, value)


def maps(name: str, value: Any, shape: str) -> np.ndarray:
    """Return an array of 4 dimensions of any type that feature maps may have, as it is."""
    value = _plain(name, value)
    dtype = value.dtype
    if not ((dtype.char in FLOATS and dtype.isnative) or is_small(dtype)):
        raise TypeError(f"{name}: dtype {_spell(dtype)}, expected float32, float64, float16, bfloat16 or uint8")
    if value.ndim != 4:
        raise ValueError(f"{name}: shape {value.shape}, expected {shape}")
    return _addressable(name, value)


def is_small(dtype: np.dtype) -> bool:
    """Whether maps of that type are computed with as float32."""
    return dtype.char in SMALL and dtype.isnative and (dtype.char != "E" or dtype.name == "bfloat16")


def computed(dtype: np.dtype) -> np.dtype:
    """Return the type in which maps of `dtype` are computed with."""
    return dtype if dtype.char in FLOATS else FLOAT32


def pooled(dtype: np.dtype) -> tuple[np.dtype, ...]:
    """Return the types that what is pooled from maps of `dtype` may have, the default first."""
    if dtype.char in FLOATS:
        return (dtype,)
    return (FLOAT32, dtype) if dtype.kind == "u" else (dtype, FLOAT32)


def bits(array: np.ndarray) -> np.ndarray:
    """Return what the kernels read as an array of a map's type: they know those of two bytes as uint16."""
    return array.view(np.uint16) if array.itemsize == 2 else array


def _plain(name: str, value: Any) -> np.ndarray:
    if type(value) is np.ndarray:
        return value
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name}: {type(value).__module__}.{type(value).__qualname__}, expected a numpy.ndarray")
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array, whose mask would be lost; expected a numpy.ndarray")
    return value.view(np.ndarray)


def _addressable(name: str, value: np.ndarray) -> np.ndarray:
    flags = value.flags
    if not flags.aligned or not (flags.c_contiguous or all(stride % value.itemsize == 0 for stride in value.strides)):
        raise ValueError(f"{name}: its elements do not lie at multiples of their size in memory; pass a copy")
    return value


def _spell(dtype: np.dtype) -> str:
    return dtype.name if dtype.isnative else f"{dtype.name} in foreign byte order"


def layout_axes(layout: str) -> tuple[int, int, int, int] | None:
    """Return the axes that make (N, C, H, W) of an array of that layout, None if it is that already."""
    if layout == "NCHW":
        return None
    if layout == "NHWC":
        return (0, 3, 1, 2)
    raise ValueError(f"layout: {layout!r}, expected 'NCHW' or 'NHWC'")


def dimensions(layout: str, channels: str = "C") -> str:
    """Return the shape of feature maps of that layout, in words."""
    return f"(N, {channels}, H, W)" if layout == "NCHW" else f"(N, H, W, {channels})"


def integer(name: str, value: Any, low: int, high: int) -> int:
    """Return an integer of [low, high], of any type that is one."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {value!r}, expected an integer") from None
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: {value!r}, expected an integer")
    if not low <= number <= high:
        raise ValueError(f"{name}: {number}, expected an integer from {low} to {high}")
    return number


def output_size(value: Any) -> tuple[int, int]:
    """Return (PH, PW)."""
    if isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1):
        if len(value) != 2:
            raise ValueError(f"output_size: {value!r}, expected an integer or two, (height, width)")
        height, width = value
    else:
        height = width = value
    return integer("output_size", height, 1, MOST_BINS), integer("output_size", width, 1, MOST_BINS)


def spatial_scale(value: Any) -> float:
    """Return a finite scale above 0."""
    if isinstance(value, (str, bytes, bool, np.bool_)):
        raise TypeError(f"spatial_scale: {value!r}, expected a number")
    try:
        scale = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"spatial_scale: {value!r}, expected a number") from None
    if not (scale > 0 and math.isfinite(scale)):
        raise ValueError(f"spatial_scale: {value!r}, expected a finite number above 0")
    return scale


def sampling_ratio(value: Any) -> int:
    """Return samples per bin and axis; 0 and below mean as many as the bin has pixels."""
    return integer("sampling_ratio", value, -(2**31), 2**31 - 1)


def flag(name: str, value: Any) -> bool:
    """Return a bool; other types are not taken for one."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: {value!r}, expected True or False")
    return bool(value)


def input_shape(name: str, value: Any, layout: str) -> tuple[int, int, int, int]:
    """Return the shape of the input, as (N, C, H, W)."""
    if not isinstance(value, (tuple, list)) or len(value) != 4:
        raise ValueError(f"{name}: {value!r}, expected {dimensions(layout)}")
    n, *rest = (integer(name, extent, 0, 2**62) for extent in value)
    c, h, w = rest if layout == "NCHW" else (rest[2], rest[0], rest[1])
    return extents(name, (n, c, h, w))


def extents(name: str, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return (N, C, H, W) whose pixels and images can be counted in int32."""
    n, c, h, w = shape
    if h > MOST_PIXELS or w > MOST_PIXELS:
        raise ValueError(f"{name}: a map of {h} x {w} pixels, expected at most {MOST_PIXELS} a side")
    if n >= 2**31:
        raise ValueError(f"{name}: {n} images, expected less than 2**31")
    return n, c, h, w


def channels(c: int, bins: tuple[int, int], position_sensitive: bool) -> int:
    """Return the number of output channels of an input of `c` channels."""
    if not position_sensitive:
        return c
    if c % (bins[0] * bins[1]):
        raise ValueError(f"input: {c} channels, expected a multiple of the {bins[0]} x {bins[1]} bins of output_size")
    return c // (bins[0] * bins[1])


def box_counts(value: Any, box_count: int, image_count: int) -> list[int]:
    """Return the number of boxes of each image."""
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise TypeError(f"boxes_num: dtype {numbers.dtype.name}, expected integers")
    if numbers.shape != (image_count,):
        raise ValueError(f"boxes_num: shape {numbers.shape}, expected ({image_count},), a count for each image of the input")
    result = [int(number) for number in numbers]
    for n, count in enumerate(result):
        if count < 0:
            raise ValueError(f"boxes_num[{n}]: {count}, expected a count of 0 or more")
    if sum(result) != box_count:
        raise ValueError(f"boxes_num: counts that sum to {sum(result)}, expected the {box_count} rows of boxes")
    return result


class Boxes:
    """Boxes of any format, as coordinates (K, 4) of the data's type and images (K,)."""

    __slots__ = ("coordinates", "images", "restore")

    def some(self, rows: np.ndarray | slice) -> Boxes:
        """Return some of the boxes."""
        part = Boxes.__new__(Boxes)
        part.coordinates, part.images = self.coordinates[rows], self.images[rows]
        return part

    def __init__(self, boxes: Any, boxes_num: Any, image_count: int, dtype: np.dtype, scale: float):
        name = "boxes"
        rows = boxes
        if isinstance(boxes, (list, tuple)):
            if boxes_num is not None:
                raise ValueError("boxes_num: expected None, since boxes is a list with the boxes of each image")
            if len(boxes) != image_count:
                raise ValueError(f"boxes: a list of {len(boxes)} arrays, expected one for each of the input's {image_count} images")
            parts = [self._rows(f"boxes[{n}]", part, (4,)) for n, part in enumerate(boxes)]
            counts = [len(part) for part in parts]
            with np.errstate(all="ignore"):  # what overflows is found right below
                rows = np.concatenate([part.astype(dtype, copy=False) for part in parts]) if parts else np.empty((0, 4), dtype)
            self.images = np.repeat(np.arange(image_count, dtype=np.int32), counts)
            self.restore: Callable[[np.ndarray], Any] = lambda grad: np.split(grad, np.cumsum(counts)[:-1]) if parts else []
            name = "boxes, all images together"
            coordinates = rows
        elif boxes_num is not None:
            rows = self._rows("boxes", boxes, (4,))
            self.images = np.repeat(np.arange(image_count, dtype=np.int32), box_counts(boxes_num, len(rows), image_count))
            self.restore = lambda grad: grad
            coordinates = rows
        else:
            rows = self._rows("boxes", boxes, (5,))
            self.images = np.empty(len(rows), np.int32)
            column = rows[:, 0] if rows.dtype.char in FLOATS else rows[:, 0].astype(np.float64)
            bad = front.bad_image[FLOATS[column.dtype.char]](column, image_count, self.images)
            if bad >= 0:
                raise ValueError(
                    f"boxes[{bad}]: batch index {_spell_number(rows[bad, 0])} is outside the input's {image_count} images"
                    if float(rows[bad, 0]).is_integer()
                    else f"boxes[{bad}]: batch index {_spell_number(rows[bad, 0])}, expected a whole number"
                )
            self.restore = lambda grad: np.concatenate([np.zeros((len(grad), 1), grad.dtype), grad], axis=1)
            coordinates = rows[:, 1:]
        if coordinates.dtype != dtype:
            with np.errstate(all="ignore"):  # what overflows is found right below
                coordinates = coordinates.astype(dtype)
        self.coordinates = coordinates
        bad, column_number = front.bad_coordinate[FLOATS[dtype.char]](coordinates, scale)
        if bad >= 0:
            self._raise(name, rows, bad, column_number, dtype, scale)

    @staticmethod
    def _rows(name: str, value: Any, columns: tuple[int, ...]) -> np.ndarray:
        expected = "(K, 5) with rows [batch_index, x1, y1, x2, y2]" if columns == (5,) else "(K, 4) with rows [x1, y1, x2, y2]"
        value = _plain(name, value)
        if value.ndim != 2 or value.shape[1] not in columns:
            hint = "; boxes of 4 columns need boxes_num" if value.ndim == 2 and value.shape[1] == 4 and columns == (5,) else ""
            raise ValueError(f"{name}: shape {value.shape}, expected {expected}{hint}")
        if len(value) >= 2**31:
            raise ValueError(f"{name}: {len(value)} boxes, expected less than 2**31")
        dtype = value.dtype
        if dtype.char in FLOATS and dtype.isnative:
            return _addressable(name, value)
        if dtype.kind in "iu" and dtype.isnative:
            return value.astype(np.float64)
        if is_small(dtype):  # of two bytes: integers are above
            return value.astype(np.float32)
        raise TypeError(f"{name}: dtype {_spell(dtype)}, expected float32, float64, float16, bfloat16 or integers")

    @staticmethod
    def _raise(name: str, rows: np.ndarray, k: int, column: int, dtype: np.dtype, scale: float) -> None:
        where = f"{name}[{k}]" if name == "boxes" else f"{name}, row {k}"
        corners = rows[k, -4:]
        if column < 4:
            corner, value = ("x1", "y1", "x2", "y2")[column], corners[column]
            if not np.isfinite(value):
                raise ValueError(f"{where}: {corner} is {_spell_number(value)}, expected a finite coordinate")
            raise ValueError(f"{where}: {corner} is {_spell_number(value)}, which times spatial_scale {scale:g} is beyond {dtype.name}")
        side = ("width", "height")[column - 4]
        ends = ", ".join(_spell_number(value) for value in corners)
        raise ValueError(f"{where}: ({ends}) has a {side} that times spatial_scale {scale:g} is beyond {dtype.name}")


def _spell_number(value: Any) -> str:
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e16 else repr(number)


def indices(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return an int32 array of that shape."""
    value = _plain(name, value)
    if value.dtype.char != np.dtype(np.int32).char or not value.dtype.isnative:
        raise TypeError(f"{name}: dtype {_spell(value.dtype)}, expected int32")
    if value.shape != shape:
        raise ValueError(f"{name}: shape {value.shape}, expected {shape}")
    return _addressable(name, value)


def new(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return a new array, if the machine has the memory: systems promise more than they have, and end the process that uses it."""
    size = math.prod(shape) * dtype.itemsize
    try:
        if size > LARGE and size > _limits.memory():
            raise MemoryError
        return _memory.new(shape, dtype, size)
    except (ValueError, MemoryError):
        raise MemoryError(f"the result of shape {shape} and dtype {dtype.name} takes {size} bytes, more than there are") from None


def result(out: Any, shape: tuple[int, ...], dtypes: tuple[np.dtype, ...], read: tuple[np.ndarray, ...], name: str = "out") -> np.ndarray:
    """Return the array to write to: `out`, if it can take the result, or a new one, of the first of the types that it may have."""
    if out is None:
        return new(shape, dtypes[0])
    out = _plain(name, out)
    if out.dtype not in dtypes:
        raise TypeError(f"{name}: dtype {_spell(out.dtype)}, expected {' or '.join(dtype.name for dtype in dtypes)}")
    if out.shape != shape:
        raise ValueError(f"{name}: shape {out.shape}, expected {shape}")
    if not out.flags.writeable:
        raise ValueError(f"{name}: read-only, expected an array that can be written to")
    _addressable(name, out)
    if not out.flags.c_contiguous:  # it costs microseconds
        distinct(name, out)
    for other in read:
        if np.may_share_memory(out, other) and _overlap(out, other):
            raise ValueError(f"{name}: overlaps memory that the call reads")
    return out


def distinct(name: str, out: Any) -> None:
    """Check that no two elements of an array, of NumPy or CuPy, share memory."""
    reach = 0
    for stride, extent in sorted((abs(stride), extent) for stride, extent in zip(out.strides, out.shape, strict=True) if extent > 1):
        if stride <= reach and out.size:
            raise ValueError(f"{name}: strides {out.strides} make its elements share memory")
        reach += stride * (extent - 1)


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10000)
    except np.exceptions.TooHardError:
        return True
