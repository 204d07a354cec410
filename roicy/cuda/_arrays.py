"""What CuPy arrays a call may have, and the boxes of any format."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from .._checks import _arguments, _boxes
from .._checks._arguments import INT32
from .._checks._names import BOXES_NUM
from .._kernels.plan import Arguments
from ._launch import cupy


def of_cupy(name: str, value: Any) -> Any:
    """Return an array of CuPy."""
    if not isinstance(value, cupy().ndarray):
        given = _arguments.spell_type(value)
        raise TypeError(f"{name}: {given}, expected a cupy.ndarray, as the other arrays are")
    return value


def addressable(name: str, array: Any) -> Any:
    """Return an array whose elements lie at multiples of their size."""
    size = array.dtype.itemsize
    if array.size and any(number % size for number in (array.data.ptr, *array.strides)):
        raise ValueError(
            f"{name}: its elements do not lie at multiples of their size in memory; pass a copy"
        )
    return array


def floats(name: str, value: Any, expected: str) -> Any:
    """Return a CuPy array of 4 dimensions, float32 or float64."""
    value = of_cupy(name, value)
    if value.dtype.char not in _arguments.FLOATS:
        raise TypeError(f"{name}: dtype {value.dtype.name}, expected float32 or float64")
    if value.ndim != 4:
        raise ValueError(f"{name}: shape {value.shape}, expected {expected}")
    return addressable(name, value)


def indices(name: str, value: Any, call: Any) -> Any:
    """Return an int32 array of the shape of the output."""
    shape = call.output_shape
    if not isinstance(value, cupy().ndarray) or value.dtype != INT32 or value.shape != shape:
        raise TypeError(f"{name}: expected a cupy.ndarray of int32 and shape {shape}")
    check_device(call.device, name, value)
    return addressable(name, value)


def check_device(device: Any, name: str, value: Any) -> None:
    """Check that an array lies on a device."""
    if value.device != device:
        raise ValueError(
            f"{name}: on {value.device}, expected {device}, where the other arrays are"
        )


def _bounds(array: Any) -> tuple[int, int]:
    """Return where the first and the last element lie that an array reaches in memory."""
    steps = [stride * (side - 1) for stride, side in zip(array.strides, array.shape, strict=True)]
    first = array.data.ptr + sum(step for step in steps if step < 0)
    return first, first + sum(map(abs, steps))


def overlap(a: Any, b: Any) -> bool:
    """Whether the ranges of addresses of two arrays overlap."""
    if not (a.size and b.size):
        return False
    (first_a, last_a), (first_b, last_b) = _bounds(a), _bounds(b)
    return first_a < last_b + b.dtype.itemsize and first_b < last_a + a.dtype.itemsize


class Boxes(NamedTuple):
    """Boxes of any format."""

    rows: Any  # (K, 4) or (K, 5) on the device, of the type of the data; turned: a column more
    images: Any  # int32 on the device; None where `rows` hold them, and where there is one image
    counts: list[int] | None  # of the boxes of each image, where they came as a list


def boxes_of(
    arguments: Arguments, images: int, dtype: np.dtype, device: Any, names: tuple[str, ...]
) -> Boxes:
    """Return the boxes of a call on so many images; names: of the numbers of a box."""
    if isinstance(arguments.boxes_num, cupy().ndarray):
        raise TypeError(
            f"{BOXES_NUM}: a cupy.ndarray, which would have to be waited for; "
            "expected integers on the host"
        )
    take = functools.partial(_taken, device)
    given, counts = _boxes.gather_boxes(arguments.boxes, arguments.boxes_num, images, take, names)
    listed, of_boxes = isinstance(given, list), None
    arrays = [
        cupy().ascontiguousarray(rows.astype(dtype, copy=False))
        for rows in (given if listed else [given])
    ]
    if counts is None and given.dtype != dtype:
        of_boxes = _images_of(given[:, 0], images)
    elif counts is not None and images != 1:
        of_boxes = cupy().asarray(np.repeat(np.arange(images, dtype=np.int32), counts))
    if len(arrays) != 1:
        arrays = [cupy().concatenate(arrays or [cupy().empty((0, len(names)), dtype)])]
    return Boxes(arrays[0], of_boxes, counts if listed else None)


def _taken(device: Any, name: str, value: Any) -> Any:
    """Return an array as it is, or a list of rows of numbers as an array on the device."""
    if isinstance(value, (list, tuple)):
        value = cupy().asarray(_boxes.boxes_array(name, value))
    value = of_cupy(name, value)
    if value.dtype.char not in _arguments.FLOATS and value.dtype.kind not in "iu":
        raise TypeError(f"{name}: dtype {value.dtype.name}, expected float32, float64 or integers")
    check_device(device, name, value)
    return addressable(name, value)


def _images_of(column: Any, images: int) -> Any:
    """Return batch indices, which the data's type may not hold, as int32: -1 for no image."""
    column = column.astype(np.float64)
    exists = (column >= 0) & (column < images) & (column == cupy().floor(column))
    return cupy().where(exists, column, -1).astype(np.int32)
