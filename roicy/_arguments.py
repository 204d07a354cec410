"""
What arguments may be, and what is said of those that are wrong.

On the CPU a plan takes plain arguments as they are (``pyx/plan/plan.pyx``); whatever is not plain
is converted here, or refused.  Each error names the argument, what it was and what it should be,
and the first offending row of the boxes.
"""

from __future__ import annotations

import itertools
import math
import operator
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

FLOATS = {"f": "float", "d": "double"}  # dtype characters, and what the kernels call them
# float16, bfloat16 (of ml_dtypes, which need not be there), uint8, int8, int16 and uint16: types of
# maps that are computed with as float32, in which all their numbers are exact
SMALL = "eEBbhH"
MAP_TYPES = "float32, float64, float16, bfloat16, uint8, int8, uint16 or int16"
# Whole numbers to this one are exact in floating point; the next is rounded to it.
LARGEST_EXACT = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}
MOST_PIXELS = 2**30  # a side of the map: pixel indices are int32
MOST_BINS = 2**24  # a side of the output
CORNERS = ("x1", "y1", "x2", "y2")
TURNED = ("cx", "cy", "w", "h", "angle")
# Radians beyond it are rather degrees.
TWO_TURNS = 4 * math.pi
FLOAT32 = np.dtype(np.float32)
INT32 = np.dtype(np.int32)
# Types of numbers in nested lists that need no closer look.
NUMBERS = {int, float, np.float64, np.int64, np.int32}
# The byte order of types whose format spells it out, as those of ctypes do; NumPy's have "=".
NATIVE = "<" if sys.byteorder == "little" else ">"
# How objects give their memory to numpy.asarray, beside the buffer protocol.
ARRAY_PROTOCOLS = ("__array__", "__array_interface__", "__array_struct__")


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


def choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return one of some words."""
    if not isinstance(value, str) or value not in choices:
        expected = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        raise ValueError(f"{name}: {value!r}, expected {expected}")
    return value


def array(name: str, value: Any, shape: str, types: str = "float32 or float64") -> np.ndarray:
    """
    Return an array of 4 dimensions, as it is: of any strides, read-only or not.

    types: what it may be, the default or MAP_TYPES.
    """
    value = taken(name, value)
    dtype, of_maps = value.dtype, types is MAP_TYPES
    if not ((dtype.char in FLOATS and dtype.isnative) or (of_maps and is_small(dtype))):
        hint = "; pass its view(numpy.uint8)" if of_maps and dtype.kind == "b" else ""
        raise TypeError(f"{name}: dtype {spell(dtype)}, expected {types}{hint}")
    if value.ndim != 4:
        hint = f"; of one image pass {name}[None]" if value.ndim == 3 else ""
        raise ValueError(f"{name}: shape {value.shape}, expected {shape}{hint}")
    return addressable(name, value)


def maps(name: str, value: Any, shape: str) -> np.ndarray:
    """Return an array of any type that feature maps may have, as `array` does."""
    return array(name, value, shape, MAP_TYPES)


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
    return (FLOAT32, dtype) if dtype.kind in "iu" else (dtype, FLOAT32)


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


def taken(name: str, value: Any) -> np.ndarray:
    """
    Return an array of what NumPy can read: an array, or an object of the CPU that has
    ``__array__``, DLPack or the buffer protocol.  Its memory is shared, if the object shares it.
    """
    array = plain(name, value if isinstance(value, np.ndarray) else _read(name, value))
    if array.dtype.byteorder == NATIVE:
        array = array.view(array.dtype.newbyteorder("="))
    return array


def _read(name: str, value: Any) -> np.ndarray:
    """Return an array of an object that is none."""
    if _is_lazy(value):
        raise TypeError(
            f"{name}: {spell_type(value)}, which is not computed yet; pass its compute(), or pool "
            "block by block: see docs/many_machines.md"
        )
    has_protocol = any(hasattr(type(value), protocol) for protocol in ARRAY_PROTOCOLS)
    source = value
    if not has_protocol and not hasattr(type(value), "__dlpack__"):
        source, has_protocol = _buffer(name, value), True
    try:
        found = _of_bfloat16(source)
        if found is not None:
            return found
        return np.asanyarray(source) if has_protocol else np.from_dlpack(source)
    except MemoryError:
        raise
    except Exception as error:  # of any kind, since it comes from the object
        raise TypeError(f"{name}: {spell_type(value)}, which NumPy cannot read: {error}") from None


def _buffer(name: str, value: Any) -> memoryview:
    try:
        return memoryview(value)
    except TypeError:
        raise TypeError(
            f"{name}: {spell_type(value)}, expected a numpy.ndarray, or what NumPy can read as one"
        ) from None


def _is_lazy(value: Any) -> bool:
    """Whether a value is a collection of dask, or an array that holds one."""
    kind = type(value)
    if not callable(getattr(kind, "__dask_graph__", None)):
        return False
    return kind.__module__.startswith("dask") or value.__dask_graph__() is not None


def _of_bfloat16(value: Any) -> np.ndarray | None:
    """Return an array of a tensor of bfloat16, whose type PyTorch does not tell NumPy."""
    torch = sys.modules.get("torch")  # a caller with tensors has imported it
    if torch is None or not isinstance(value, torch.Tensor) or value.dtype is not torch.bfloat16:
        return None
    import ml_dtypes

    if value.requires_grad:
        raise TypeError("it requires a gradient; pass its detach(), or call roicy.torch")
    bits: np.ndarray = np.asarray(value.view(torch.int16))
    return bits.view(ml_dtypes.bfloat16)


def spell_type(value: Any) -> str:
    """Return the name of a value's type, as errors show it."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def addressable(name: str, value: np.ndarray) -> np.ndarray:
    flags = value.flags
    if not flags.aligned or not (
        flags.c_contiguous or all(stride % value.itemsize == 0 for stride in value.strides)
    ):
        raise ValueError(
            f"{name}: its elements do not lie at multiples of their size in memory; pass a copy"
        )
    return value


def spell(dtype: np.dtype) -> str:
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


def two_of(name: str, value: Any, expected: str) -> Any:
    """Return two values, of which a caller may have given one for both."""
    if isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1):
        if len(value) != 2:
            raise ValueError(f"{name}: {value!r}, expected {expected}")
        return value
    return value, value


def output_size(value: Any, name: str = "output_size") -> tuple[int, int]:
    """Return (PH, PW); name: what the caller calls them."""
    height, width = two_of(name, value, "an integer or two, (height, width)")
    return integer(name, height, 1, MOST_BINS), integer(name, width, 1, MOST_BINS)


def spatial_scale(value: Any) -> tuple[float, float]:
    """Return the scales of y and x, of one for both or of a pair (vertical, horizontal)."""
    vertical, horizontal = two_of("spatial_scale", value, "a number or two, (vertical, horizontal)")
    return scale(vertical), scale(horizontal)


def number(name: str, value: Any, expected: str = "a number") -> float:
    """Return a float, of any type that is a number."""
    if not isinstance(value, (str, bytes, bool, np.bool_)):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{name}: {value!r}, expected {expected}") from None
        except (TypeError, ValueError):
            pass
    raise TypeError(f"{name}: {value!r}, expected {expected}")


def scale(value: Any) -> float:
    """Return a finite scale above 0."""
    found = number("spatial_scale", value)
    if not (found > 0 and math.isfinite(found)):
        raise ValueError(f"spatial_scale: {value!r}, expected a finite number above 0")
    return found


def sampling_ratio(value: Any, most: int = 2**31 - 1) -> int:
    """Return samples per bin and axis; 0 and below mean as many as the bin has pixels."""
    if isinstance(value, (float, np.floating)):
        if not value.is_integer():
            raise ValueError(f"sampling_ratio: {value!r}, expected a whole number")
        value = int(value)
    return integer("sampling_ratio", value, -(2**31), most)


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


def channels(
    c: int, bins: tuple[int, int], position_sensitive: bool, grad: bool = False, name: str = "input"
) -> int:
    """
    Return the number of output channels of an input of `c` channels.

    grad: whether bins are those of a gradient; name: of the argument that says `c`.
    """
    if not position_sensitive:
        return c
    if c % (bins[0] * bins[1]):
        raise ValueError(
            f"{name}: {c} channels, expected a multiple of the {bins[0]} x {bins[1]} bins of "
            f"{'grad_output' if grad else 'output_size'}"
        )
    return c // (bins[0] * bins[1])


def box_counts(value: Any, box_count: int, image_count: int) -> list[int]:
    """Return the number of boxes of each image."""
    if isinstance(value, (list, tuple, int)):
        try:
            numbers = np.asarray(value)
        except ValueError:
            raise ValueError("boxes_num: lists of different lengths, expected integers") from None
    else:
        numbers = taken("boxes_num", value)
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


def holds_rows(boxes: Any) -> bool:
    """
    Whether a list of boxes is one array, with a row in each place, rather than a list of the boxes
    of each image.

    The first place that is not empty tells: it is a row if it is one number after the other.
    """
    for item in boxes:
        if isinstance(item, (list, tuple)):
            if item:
                return _is_number(item[0])
            continue
        shape = getattr(item, "shape", None)
        if shape is None:
            return isinstance(item, (int, float, str))
        if tuple(shape) != (0,):
            return len(shape) < 2
    return False


def _is_number(value: Any) -> bool:
    """Whether a value has no places of its own."""
    if isinstance(value, (int, float)):  # it comes first, since torch.compile knows no more of them
        return True
    return not isinstance(value, (list, tuple)) and not getattr(value, "ndim", 0)


def boxes_array(name: str, value: Any) -> np.ndarray:
    """Return an array of boxes: of a list of rows, or of anything else that NumPy can read."""
    if not isinstance(value, (list, tuple)):
        return taken(name, value)
    if not value:
        return np.empty((0, 4))
    if all(isinstance(row, (list, tuple)) for row in value):
        types = set(map(type, itertools.chain.from_iterable(value)))
        if types <= NUMBERS and len(set(map(len, value))) == 1:
            try:
                return np.array(value, np.float64)
            except OverflowError:
                pass  # `_row` finds it
    rows = [_row(f"{name}[{k}]", row) for k, row in enumerate(value)]
    for k, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{name}[{k}]: {len(row)} numbers, expected {len(rows[0])}, as {name}[0] has"
            )
    return np.stack(rows)


def _row(name: str, value: Any) -> np.ndarray:
    """Return the array of a row of numbers."""
    if isinstance(value, (list, tuple)):
        for i, number in enumerate(value):
            _check_number(f"{name}[{i}]", number)
        types = set(map(type, value))
        # NumPy's numbers keep their type, which says up to where it can tell images apart.
        alone = len(types) == 1 and isinstance(value[0], np.floating)
        return np.array(value, None if alone else np.float64)
    if not isinstance(value, (int, float, str)) and value is not None:
        value = taken(name, value)
        if value.ndim == 1:
            return value
        raise ValueError(f"{name}: shape {value.shape}, expected a row of numbers")
    raise TypeError(
        f"{name}: {spell_type(value)}, expected a row of numbers, such as [0, 1.5, 2, 7.5, 8], or "
        "the boxes of an image"
    )


def _check_number(name: str, value: Any) -> None:
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    if not is_number or isinstance(value, bool):
        raise TypeError(f"{name}: {spell_type(value)}, expected a number")
    try:
        float(value)
    except OverflowError:
        raise ValueError(f"{name}: an integer that is beyond float64") from None


def images_of_boxes(name: str, value: Any, boxes: int, images: int | None) -> np.ndarray:
    """
    Return the batch index of each of some boxes, given beside them.

    images: how many there are; None where that is not known.
    """
    indices = np.asarray(value)
    if indices.shape != (boxes,) or (indices.dtype.kind not in "iu" and indices.size):
        raise ValueError(
            f"{name}: shape {indices.shape} of {indices.dtype.name}, "
            f"expected ({boxes},) integers, the image of each box"
        )
    wrong = (indices < 0) | (indices >= (1 << 62 if images is None else images))
    if wrong.any():
        k = int(wrong.argmax())
        raise ValueError(f"{name}[{k}]: {indices[k]} is outside the input's {images} images")
    return indices


def rows_of_numbers(name: str, value: Any, columns: int, numbers: tuple[str, ...]) -> np.ndarray:
    """Return an array of boxes of so many columns; numbers: the names of a box's."""
    rows = _rows_of_width(box_rows(name, value), columns)
    check_rows(name, rows, columns, numbers)
    return rows


def _rows_of_width(rows: Any, width: int) -> Any:
    """Return rows; no boxes of an image may be an empty list, or (0, 4) for boxes of any kind."""
    empty = rows.shape == (0,) or (rows.shape == (0, 4) and width != 4)
    return rows.reshape((0, width)) if empty else rows


def gather_boxes(
    boxes: Any,
    boxes_num: Any,
    images: int,
    take: Callable[[str, Any], Any],
    names: tuple[str, ...] = CORNERS,
) -> tuple[Any, list[int] | None]:
    """
    Return the boxes as an array, or as a list with an array for each image, and the number of
    boxes of each image, None where rows say it.

    take: returns the array of a value, given its name; names: of the numbers of a box.
    """
    width = len(names)
    listed = isinstance(boxes, (list, tuple)) and not holds_rows(boxes)
    if listed and not boxes:
        listed = boxes_num is None  # no boxes of any image
        boxes = [[]] * images if listed else boxes
    if listed:
        if boxes_num is not None:
            raise ValueError(
                "boxes_num: expected None, since boxes is a list with the boxes of each image"
            )
        if len(boxes) != images:
            raise ValueError(
                f"boxes: a list of {len(boxes)} arrays, "
                f"expected one for each of the input's {images} images"
            )
        arrays = [take(f"boxes[{n}]", rows) for n, rows in enumerate(boxes)]
        arrays = [_rows_of_width(rows, width) for rows in arrays]
        for n, rows in enumerate(arrays):
            check_rows(f"boxes[{n}]", rows, width, names)
        return arrays, [rows.shape[0] for rows in arrays]
    rows = take("boxes", boxes)
    if isinstance(boxes, (list, tuple)):
        rows = _rows_of_width(rows, width)
    if boxes_num is None and images == 1 and rows.ndim == 2 and rows.shape[1] == width:
        boxes_num = [rows.shape[0]]  # there is no other image
    check_rows("boxes", rows, width + (boxes_num is None), names)
    if boxes_num is None:
        return rows, None
    return rows, box_counts(boxes_num, rows.shape[0], images)


def box_rows(name: str, value: Any) -> np.ndarray:
    """Return an array of boxes that kernels can read."""
    return addressable(name, typed_boxes(name, value))


def typed_boxes(name: str, value: Any) -> np.ndarray:
    """Return an array of boxes, of a type that boxes may have."""
    value = boxes_array(name, value)
    dtype = value.dtype
    is_float = dtype.char in FLOATS or is_small(dtype)
    if not dtype.isnative or not (is_float or dtype.kind in "iu"):
        raise TypeError(
            f"{name}: dtype {spell(dtype)}, "
            "expected float32, float64, float16, bfloat16 or integers"
        )
    return value


def indices_of(rows: np.ndarray, count: int, kind: str, images: str) -> np.ndarray:
    """
    Return column 0 of rows of boxes, which says the image of each, as int32.

    kind: what errors call an index; images: what they call the images, of which there are `count`.
    """
    column = rows[:, 0].astype(np.float64)  # in which the number of images is exact
    with np.errstate(all="ignore"):
        wrong = ~((column >= 0) & (column < count) & (np.trunc(column) == column))
        images_of = column.astype(np.int32)
    if wrong.any():
        bad = int(wrong.argmax())
        index = f"boxes[{bad}]: {kind} index {_spell_number(rows[bad, 0])}"
        hint = columns_hint(kind, rows[bad]) if _may_have_score(rows[bad]) else ""
        if column[bad].is_integer():
            raise ValueError(f"{index} is outside the {images}{hint}")
        raise ValueError(f"{index}, expected a whole number{hint}")
    return images_of


class Boxes:
    """
    Boxes of any format.

    Attributes
    ----------
    coordinates : ndarray (K, 4), of the type of the data
    images : ndarray (K,), int32
    """

    __slots__ = ("coordinates", "images")
    names: tuple[str, ...] = CORNERS

    def __init__(
        self,
        boxes: Any,
        boxes_num: Any,
        image_count: int,
        dtype: np.dtype,
        scale: tuple[float, float],
    ):
        width = len(self.names)
        given, counts = gather_boxes(boxes, boxes_num, image_count, box_rows, self.names)
        listed = isinstance(given, list)
        arrays = [self._widened(rows) for rows in (given if listed else [given])]
        with np.errstate(all="ignore"):  # what overflows is found right below
            corners = [rows[:, -width:].astype(dtype, copy=False) for rows in arrays]
        if counts is None:
            self.images = self._read_images(arrays[0], image_count, given.dtype)
        else:
            self.images = np.repeat(np.arange(image_count, dtype=np.int32), counts)
        self.coordinates = (
            corners[0]
            if len(corners) == 1
            else np.concatenate([np.empty((0, width), dtype), *corners])
        )
        row, column = self._bad_coordinate(self.coordinates, scale)
        if row >= 0:
            where = f"boxes[{row}]"
            if listed:
                image = int(self.images[row])
                row -= sum(len(rows) for rows in arrays[:image])
                where = f"boxes[{image}]: row {row}"
                arrays = arrays[image:]
            self._raise(where, arrays[0][row, -width:], column, dtype, scale)

    @staticmethod
    def _read_images(rows: np.ndarray, image_count: int, dtype: np.dtype) -> np.ndarray:
        """Return the images of rows; dtype: of the rows as the caller gave them."""
        images = indices_of(rows, image_count, "batch", f"input's {image_count} images")
        largest = LARGEST_EXACT.get(dtype.name, image_count)
        if image_count > largest + 1 and (images >= largest).any():
            bad = int((images >= largest).argmax())
            raise rounded_index(bad, int(images[bad]), dtype.name, image_count)
        return images

    @staticmethod
    def _widened(rows: np.ndarray) -> np.ndarray:
        """Return rows of a type that corners are converted from."""
        if rows.dtype.kind in "iu":
            return rows.astype(np.float64)
        return rows.astype(np.float32) if is_small(rows.dtype) else rows

    @classmethod
    def _bad_coordinate(
        cls, coordinates: np.ndarray, scale: tuple[float, float]
    ) -> tuple[int, int]:
        """
        Return the (row, column) of the first number that is not finite when it is scaled.

        Behind the columns of corners, there is one for the width and one for the height; (-1, -1)
        is for none.
        """
        factors = [*scale[::-1], *scale[::-1], 1]  # angles have no scale
        with np.errstate(all="ignore"):
            scaled = coordinates * np.array(factors[: len(cls.names)], coordinates.dtype)
            if cls.names is CORNERS:
                scaled = np.concatenate([scaled, scaled[:, 2:] - scaled[:, :2]], axis=1)
        wrong = ~np.isfinite(scaled)
        rows = np.flatnonzero(wrong.any(axis=1))
        return (int(rows[0]), int(wrong[rows[0]].argmax())) if len(rows) else (-1, -1)

    @classmethod
    def _raise(
        cls,
        where: str,
        numbers: np.ndarray,
        column: int,
        dtype: np.dtype,
        scale: tuple[float, float],
    ) -> None:
        upright = cls.names is CORNERS
        beyond = f"times spatial_scale {scale[1 - column % 2]:g} is beyond {dtype.name}"
        if column >= len(cls.names):
            side = ("width", "height")[column - 4]
            ends = ", ".join(_spell_number(value) for value in numbers)
            raise ValueError(f"{where}: ({ends}) has a {side} that {beyond}")
        value = numbers[column]
        spelled = f"{where}: {cls.names[column]} is {_spell_number(value)}"
        if not np.isfinite(value):
            expected = "coordinate" if upright else "number"
            raise ValueError(f"{spelled}, expected a finite {expected}")
        if column == 4:
            beyond = f"is beyond {dtype.name}"
        raise ValueError(f"{spelled}, which {beyond}")


class RotatedBoxes(Boxes):
    """Boxes that are turned.  `coordinates` is (K, 5)."""

    __slots__ = ()
    names = TURNED


def rounded_index(row: int, image: int, dtype: str, images: int) -> ValueError:
    """Return the error of a batch index that may have been rounded to that of another image."""
    return ValueError(
        f"boxes[{row}]: batch index {image} in {dtype}, which is exact to "
        f"{LARGEST_EXACT[dtype]} only; expected a type that can tell the input's {images} images "
        "apart"
    )


def columns_hint(kind: str, row: np.ndarray) -> str:
    """Return what a row of 5 or 6 columns means; kind: what errors call an index."""
    meant, given = CORNERS, "x1, y1, x2, y2, score"
    if len(row) == 6:
        meant, given = TURNED, f"{given}, class"
    columns = f"{len(row)} columns are [{kind}_index, {', '.join(meant)}]"
    return f"; {columns}: of [{given}] pass boxes[:, :4]"


def _may_have_score(row: np.ndarray) -> bool:
    """Whether a row may be [x1, y1, x2, y2, score] or [x1, y1, x2, y2, score, class]."""
    x1, y1, x2, y2, score = map(float, row[:5])
    return 0 <= score <= 1 and 0 <= x1 <= x2 and y1 <= y2


def warn_of_scores(kind: str, boxes: Any) -> None:
    """
    Warn of rows whose x1 may be the index of an image, and which end with a score, or with a
    score and a class.

    Read as boxes, all of them end at a score, above where they begin, or they are a score high and
    turned by whole angles.  kind: what errors call an index.
    """
    rows = np.asarray(boxes, np.float64)
    if not len(rows) or rows.shape[1] not in (5, 6):
        return
    x1, y1, x2, y2, score = rows[:, :5].T
    reads_so = (score > 0) & (score < 1) & (x1 <= x2) & (y1 <= y2) & (x2 > 1) & (y2 > 1)
    reads_so &= y1 > score if rows.shape[1] == 5 else rows[:, 5] == np.trunc(rows[:, 5])
    if reads_so.all():
        warn(f"boxes: a score seems to be among the coordinates{columns_hint(kind, rows[0])}")


def warn_of_degrees(angle: float) -> None:
    """Warn of an angle of more than two turns that seems to be given in degrees."""
    if abs(angle) <= 720:
        warn(
            f"boxes: an angle of {angle:g}, which is more than two turns; angles are in radians: "
            "of degrees pass numpy.deg2rad(angles)"
        )


def warn(message: str) -> None:
    """Warn at the line of the program that called this package."""
    frame: Any = sys._getframe()
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "roicy":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def check_rows(name: str, value: Any, columns: int, numbers: tuple[str, ...] = CORNERS) -> None:
    """Check the shape of an array of boxes, of NumPy or CuPy; numbers: the names of a box's."""
    if value.ndim != 2 or value.shape[1] != columns:
        columns_of_box, expected, hint = len(numbers), ", ".join(numbers), ""
        if columns > columns_of_box:
            expected = f"batch_index, {expected}"
            if value.ndim == 2 and value.shape[1] == columns_of_box:
                hint = (
                    f"; boxes of {columns_of_box} columns need boxes_num, or a list with an array "
                    "for each image, unless there is one image"
                )
            elif value.ndim == 3 and value.shape[2] == columns_of_box:
                hint = f"; of boxes (N, L, {columns_of_box}) pass list(boxes)"
        if columns_of_box == 4 and value.ndim == 2 and value.shape[1] in (5, 6, 7):
            hint = "; of [x1, y1, x2, y2, score, class] pass boxes[:, :4]"
            if value.shape[1] == 5:
                hint += ", of [batch_index, x1, y1, x2, y2] boxes[:, 1:]"
        elif value.shape in ((columns_of_box,), (columns,)):
            hint = "; of one box pass [box]"
        expected = f"(K, {columns}) with rows [{expected}]"
        raise ValueError(f"{name}: shape {value.shape}, expected {expected}{hint}")
    if value.shape[0] >= 2**31:
        raise ValueError(f"{name}: {value.shape[0]} boxes, expected less than 2**31")


def _spell_number(value: Any) -> str:
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e16 else repr(number)
