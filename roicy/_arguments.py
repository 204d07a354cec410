"""
What arguments may be, and what is said of those that are wrong.

On the CPU a plan takes plain arguments as they are (``pyx/plan/plan.pyx``); whatever is not plain
is converted here, or refused.  Each error names the argument, what it was and what it should be,
and the first offending row of the boxes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _limits, _memory

FLOATS = {"f": "float", "d": "double"}  # dtype characters, and what the kernels call them
# float16, bfloat16 (of ml_dtypes, which need not be there) and uint8: types of maps that are
# computed with as float32
SMALL = "eEB"
# Whole numbers to this one are exact in floating point; the next is rounded to it.
LARGEST_EXACT = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}
MOST_PIXELS = 2**30  # a side of the map: pixel indices are int32
MOST_BINS = 2**24  # a side of the output
FLOAT32 = np.dtype(np.float32)
INT32 = np.dtype(np.int32)
LARGE = 2**28  # bytes of a result; below, nobody asks how much memory there is


class Arguments(NamedTuple):
    """
    The arguments that all passes of all operators share, as the caller gave them.

    Public functions pass them on as a plain tuple in this order (see ``_call.py``).
    """

    boxes: Any
    boxes_num: Any
    spatial_scale: Any
    layout: Any
    num_threads: Any
    out: Any = None
    # of a feature pyramid: canonical_scale, canonical_level and image_size
    pyramid: tuple[Any, Any, Any] | None = None


def array(name: str, value: Any, shape: str) -> np.ndarray:
    """
    Return a float32 or float64 array of 4 dimensions, as it is: of any strides, read-only or
    not.
    """
    value = plain(name, value)
    if value.dtype.char not in FLOATS or not value.dtype.isnative:
        raise TypeError(f"{name}: dtype {_spell(value.dtype)}, expected float32 or float64")
    if value.ndim != 4:
        raise ValueError(f"{name}: shape {value.shape}, expected {shape}")
    return _addressable(name, value)


def maps(name: str, value: Any, shape: str) -> np.ndarray:
    """Return an array of 4 dimensions of any type that feature maps may have, as it is."""
    value = plain(name, value)
    dtype = value.dtype
    if not ((dtype.char in FLOATS and dtype.isnative) or is_small(dtype)):
        raise TypeError(
            f"{name}: dtype {_spell(dtype)}, expected float32, float64, float16, bfloat16 or uint8"
        )
    if value.ndim != 4:
        raise ValueError(f"{name}: shape {value.shape}, expected {shape}")
    return _addressable(name, value)


def is_small(dtype: np.dtype) -> bool:
    """Whether maps of that type are computed with as float32."""
    return (
        dtype.char in SMALL and dtype.isnative and (dtype.char != "E" or dtype.name == "bfloat16")
    )


def computed(dtype: np.dtype) -> np.dtype:
    """Return the type in which maps of `dtype` are computed with."""
    return dtype if dtype.char in FLOATS else FLOAT32


def pooled(dtype: np.dtype) -> tuple[np.dtype, ...]:
    """Return the types that what is pooled from maps of `dtype` may have, the default first."""
    if dtype.char in FLOATS:
        return (dtype,)
    return (FLOAT32, dtype) if dtype.kind == "u" else (dtype, FLOAT32)


def bits(array: np.ndarray) -> np.ndarray:
    """
    Return what the kernels read as an array of a map's type: they know those of two bytes as
    uint16.
    """
    return array.view(np.uint16) if array.itemsize == 2 else array


def plain(name: str, value: Any) -> np.ndarray:
    """Return an array of NumPy's own class."""
    if type(value) is np.ndarray:
        return value
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name}: {spell_type(value)}, expected a numpy.ndarray")
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{name}: a masked array, whose mask would be lost; expected a numpy.ndarray"
        )
    return value.view(np.ndarray)


def spell_type(value: Any) -> str:
    """Return the name of a value's type, as errors show it."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _addressable(name: str, value: np.ndarray) -> np.ndarray:
    flags = value.flags
    if not flags.aligned or not (
        flags.c_contiguous or all(stride % value.itemsize == 0 for stride in value.strides)
    ):
        raise ValueError(
            f"{name}: its elements do not lie at multiples of their size in memory; pass a copy"
        )
    return value


def _spell(dtype: np.dtype) -> str:
    return dtype.name if dtype.isnative else f"{dtype.name} in foreign byte order"


class Layout:
    """The order of the dimensions of a call's arrays."""

    __slots__ = ("axes",)

    def __init__(self, name: str):
        if not isinstance(name, str) or name not in ("NCHW", "NHWC"):
            raise ValueError(f"layout: {name!r}, expected 'NCHW' or 'NHWC'")
        self.axes = None if name == "NCHW" else (0, 3, 1, 2)

    def nchw(self, array: Any) -> Any:
        """Return the view (N, C, H, W) or (K, C, PH, PW) of an array of this layout."""
        return array if self.axes is None else array.transpose(self.axes)

    def shape(self, first: Any, channels: Any, height: Any, width: Any) -> tuple[Any, ...]:
        """Return these extents, or their names, in the order of this layout."""
        if self.axes is None:
            return (first, channels, height, width)
        return (first, height, width, channels)

    def spell(self, *names: str) -> str:
        """Return the names of extents in the order of this layout, as errors show a shape."""
        return f"({', '.join(self.shape(*names))})"


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


def output_size(value: Any, name: str = "output_size") -> tuple[int, int]:
    """Return (PH, PW); name: what the caller calls them."""
    if isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1):
        if len(value) != 2:
            raise ValueError(f"{name}: {value!r}, expected an integer or two, (height, width)")
        height, width = value
    else:
        height = width = value
    return integer(name, height, 1, MOST_BINS), integer(name, width, 1, MOST_BINS)


def spatial_scale(value: Any) -> tuple[float, float]:
    """Return the scales of y and x, of one for both or of a pair (vertical, horizontal)."""
    if isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1):
        if len(value) != 2:
            raise ValueError(
                f"spatial_scale: {value!r}, expected a number or two, (vertical, horizontal)"
            )
        vertical, horizontal = value
        return scale(vertical), scale(horizontal)
    both = scale(value)
    return both, both


def scale(value: Any) -> float:
    """Return a finite scale above 0."""
    if isinstance(value, (str, bytes, bool, np.bool_)):
        raise TypeError(f"spatial_scale: {value!r}, expected a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise TypeError(f"spatial_scale: {value!r}, expected a number") from None
    if not (number > 0 and math.isfinite(number)):
        raise ValueError(f"spatial_scale: {value!r}, expected a finite number above 0")
    return number


def sampling_ratio(value: Any) -> int:
    """Return samples per bin and axis; 0 and below mean as many as the bin has pixels."""
    return integer("sampling_ratio", value, -(2**31), 2**31 - 1)


def flag(name: str, value: Any) -> bool:
    """Return a bool; other types are not taken for one."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: {value!r}, expected True or False")
    return bool(value)


def input_shape(name: str, value: Any, layout: Layout) -> tuple[int, int, int, int]:
    """Return the shape of the input, as (N, C, H, W)."""
    if not isinstance(value, (tuple, list)) or len(value) != 4:
        raise ValueError(f"{name}: {value!r}, expected {layout.spell('N', 'C', 'H', 'W')}")
    first, *rest = (integer(name, extent, 0, 2**62) for extent in value)
    c, h, w = rest if layout.axes is None else (rest[2], rest[0], rest[1])
    return extents(name, (first, c, h, w))


def extents(name: str, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return (N, C, H, W) whose pixels and images can be counted in int32."""
    n, c, h, w = shape
    if h > MOST_PIXELS or w > MOST_PIXELS:
        raise ValueError(
            f"{name}: a map of {h} x {w} pixels, expected at most {MOST_PIXELS} a side"
        )
    if n >= 2**31:
        raise ValueError(f"{name}: {n} images, expected less than 2**31")
    return n, c, h, w


def channels(c: int, bins: tuple[int, int], position_sensitive: bool) -> int:
    """Return the number of output channels of an input of `c` channels."""
    if not position_sensitive:
        return c
    if c % (bins[0] * bins[1]):
        raise ValueError(
            f"input: {c} channels, "
            f"expected a multiple of the {bins[0]} x {bins[1]} bins of output_size"
        )
    return c // (bins[0] * bins[1])


def box_counts(value: Any, box_count: int, image_count: int) -> list[int]:
    """Return the number of boxes of each image."""
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise TypeError(f"boxes_num: dtype {numbers.dtype.name}, expected integers")
    if numbers.shape != (image_count,):
        raise ValueError(
            f"boxes_num: shape {numbers.shape}, "
            f"expected ({image_count},), a count for each image of the input"
        )
    result = [int(number) for number in numbers]
    for n, count in enumerate(result):
        if count < 0:
            raise ValueError(f"boxes_num[{n}]: {count}, expected a count of 0 or more")
    if sum(result) != box_count:
        raise ValueError(
            f"boxes_num: counts that sum to {sum(result)}, expected the {box_count} rows of boxes"
        )
    return result


def gather_boxes(
    boxes: Any, boxes_num: Any, images: int, check: Callable[[str, Any, int], Any]
) -> tuple[list[Any], list[int] | None]:
    """Return arrays of boxes and the number of those of each image, None where rows say it."""
    if isinstance(boxes, (list, tuple)):
        if boxes_num is not None:
            raise ValueError(
                "boxes_num: expected None, since boxes is a list with the boxes of each image"
            )
        if len(boxes) != images:
            raise ValueError(
                f"boxes: a list of {len(boxes)} arrays, "
                f"expected one for each of the input's {images} images"
            )
        arrays = [check(f"boxes[{n}]", rows, 4) for n, rows in enumerate(boxes)]
        return arrays, [rows.shape[0] for rows in arrays]
    if boxes_num is None:
        return [check("boxes", boxes, 5)], None
    rows = check("boxes", boxes, 4)
    return [rows], box_counts(boxes_num, rows.shape[0], images)


class Boxes:
    """
    Boxes of any format.

    Attributes
    ----------
    coordinates : ndarray (K, 4), of the type of the data
    images : ndarray (K,), int32
    """

    __slots__ = ("coordinates", "images")

    def __init__(
        self,
        boxes: Any,
        boxes_num: Any,
        image_count: int,
        dtype: np.dtype,
        scale: tuple[float, float],
    ):
        arrays, counts = gather_boxes(boxes, boxes_num, image_count, self._rows)
        with np.errstate(all="ignore"):  # what overflows is found right below
            corners = [rows[:, -4:].astype(dtype, copy=False) for rows in arrays]
        if counts is None:
            self.images = self._read_images(arrays[0], image_count, boxes.dtype)
        else:
            self.images = np.repeat(np.arange(image_count, dtype=np.int32), counts)
        self.coordinates = (
            corners[0] if len(corners) == 1 else np.concatenate([np.empty((0, 4), dtype), *corners])
        )
        row, column = self._bad_coordinate(self.coordinates, scale)
        if row >= 0:
            where = f"boxes[{row}]"
            if isinstance(boxes, (list, tuple)):
                image = int(self.images[row])
                row -= sum(len(rows) for rows in arrays[:image])
                where = f"boxes[{image}]: row {row}"
                arrays = arrays[image:]
            self._raise(where, arrays[0][row, -4:], column, dtype, scale)

    @staticmethod
    def _read_images(rows: np.ndarray, image_count: int, dtype: np.dtype) -> np.ndarray:
        """Return the images of rows; dtype: of the rows as the caller gave them."""
        column = rows[:, 0].astype(np.float64)  # in which the number of images is exact
        with np.errstate(all="ignore"):
            wrong = ~((column >= 0) & (column < image_count) & (np.trunc(column) == column))
            images = column.astype(np.int32)
        if wrong.any():
            bad = int(wrong.argmax())
            image = f"boxes[{bad}]: batch index {_spell_number(rows[bad, 0])}"
            if float(rows[bad, 0]).is_integer():
                raise ValueError(f"{image} is outside the input's {image_count} images")
            raise ValueError(f"{image}, expected a whole number")
        largest = LARGEST_EXACT.get(dtype.name, image_count)
        if image_count > largest + 1 and (images >= largest).any():
            bad = int((images >= largest).argmax())
            raise rounded_index(bad, int(images[bad]), dtype.name, image_count)
        return images

    @staticmethod
    def _rows(name: str, value: Any, columns: int) -> np.ndarray:
        value = plain(name, value)
        check_rows(name, value, columns)
        dtype = value.dtype
        if dtype.char in FLOATS and dtype.isnative:
            return _addressable(name, value)
        if dtype.kind in "iu" and dtype.isnative:
            return value.astype(np.float64)
        if is_small(dtype):  # of two bytes: integers are above
            return value.astype(np.float32)
        raise TypeError(
            f"{name}: dtype {_spell(dtype)}, "
            "expected float32, float64, float16, bfloat16 or integers"
        )

    @staticmethod
    def _bad_coordinate(coordinates: np.ndarray, scale: tuple[float, float]) -> tuple[int, int]:
        """
        Return the (row, column) of the first corner that is not finite when it is scaled.

        Column 4 is for a width that is not finite, and 5 for a height; (-1, -1) is for none.
        """
        with np.errstate(all="ignore"):
            scaled = coordinates * np.array(scale[::-1] * 2, coordinates.dtype)
            sides = scaled[:, 2:] - scaled[:, :2]
        wrong = ~np.isfinite(np.concatenate([scaled, sides], axis=1))
        rows = np.flatnonzero(wrong.any(axis=1))
        if not len(rows):
            return -1, -1
        return int(rows[0]), int(wrong[rows[0]].argmax())

    @staticmethod
    def _raise(
        where: str,
        corners: np.ndarray,
        column: int,
        dtype: np.dtype,
        scale: tuple[float, float],
    ) -> None:
        of_axis = scale[1 - column % 2]  # x1, y1, x2, y2, width, height
        beyond = f"times spatial_scale {of_axis:g} is beyond {dtype.name}"
        if column < 4:
            corner, value = ("x1", "y1", "x2", "y2")[column], corners[column]
            spelled = f"{where}: {corner} is {_spell_number(value)}"
            if not np.isfinite(value):
                raise ValueError(f"{spelled}, expected a finite coordinate")
            raise ValueError(f"{spelled}, which {beyond}")
        side = ("width", "height")[column - 4]
        ends = ", ".join(_spell_number(value) for value in corners)
        raise ValueError(f"{where}: ({ends}) has a {side} that {beyond}")


def rounded_index(row: int, image: int, dtype: str, images: int) -> ValueError:
    """Return the error of a batch index that may have been rounded to that of another image."""
    return ValueError(
        f"boxes[{row}]: batch index {image} in {dtype}, which is exact to "
        f"{LARGEST_EXACT[dtype]} only; expected a type that can tell the input's {images} images "
        "apart"
    )


def check_rows(name: str, value: Any, columns: int) -> None:
    """Check the shape of an array of boxes, of NumPy or CuPy."""
    if value.ndim != 2 or value.shape[1] != columns:
        expected = "(K, 4) with rows [x1, y1, x2, y2]"
        hint = ""
        if columns == 5:
            expected = "(K, 5) with rows [batch_index, x1, y1, x2, y2]"
            if value.ndim == 2 and value.shape[1] == 4:
                hint = "; boxes of 4 columns need boxes_num"
        raise ValueError(f"{name}: shape {value.shape}, expected {expected}{hint}")
    if value.shape[0] >= 2**31:
        raise ValueError(f"{name}: {value.shape[0]} boxes, expected less than 2**31")


def _spell_number(value: Any) -> str:
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e16 else repr(number)


def indices(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return an int32 array of that shape."""
    value = plain(name, value)
    if value.dtype.char != np.dtype(np.int32).char or not value.dtype.isnative:
        raise TypeError(f"{name}: dtype {_spell(value.dtype)}, expected int32")
    if value.shape != shape:
        raise ValueError(f"{name}: shape {value.shape}, expected {shape}")
    return _addressable(name, value)


def check_argmax_fits(name: str, height: int, width: int) -> None:
    """Check that int32 can count the pixels of a map."""
    if height * width >= 2**31:
        raise ValueError(
            f"{name}: a map of {height} x {width} pixels, "
            "expected less than 2**31, which int32 argmax can count"
        )


def new(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """
    Return a new array, if the machine has the memory: systems promise more than they have, and
    end the process that uses it.
    """
    size = math.prod(shape) * dtype.itemsize
    try:
        if size > LARGE and size > _limits.memory():
            raise MemoryError
        return _memory.new(shape, dtype, size)
    except (ValueError, MemoryError):
        raise MemoryError(
            f"the result of shape {shape} and dtype {dtype.name} takes {size} bytes, "
            "more than there are"
        ) from None


def result(
    out: Any,
    shape: tuple[int, ...],
    dtypes: tuple[np.dtype, ...],
    read: tuple[np.ndarray, ...],
    name: str = "out",
) -> np.ndarray:
    """
    Return the array to write to: `out`, if it can take the result, or a new one, of the first
    of the types that it may have.
    """
    if out is None:
        return new(shape, dtypes[0])
    out = plain(name, out)
    if out.dtype not in dtypes:
        expected = " or ".join(dtype.name for dtype in dtypes)
        raise TypeError(f"{name}: dtype {_spell(out.dtype)}, expected {expected}")
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
    for stride, extent in sorted(
        (abs(stride), extent)
        for stride, extent in zip(out.strides, out.shape, strict=True)
        if extent > 1
    ):
        if stride <= reach and out.size:
            raise ValueError(f"{name}: strides {out.strides} make its elements share memory")
        reach += stride * (extent - 1)


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10000)
    except np.exceptions.TooHardError:
        return True
