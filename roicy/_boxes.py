"""
The boxes of a call, in any format: the one place that reads them, and says what is wrong with them.

On the CPU a plan takes plain arrays as they are (``pyx/plan/plan.pyx``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ._arguments import (
    CORNERS,
    FLOATS,
    LARGEST_EXACT,
    TURNED,
    addressable,
    is_small,
    spell,
    spell_type,
    taken,
)
from ._names import warn

# Types of numbers in nested lists that need no closer look.
NUMBERS = {int, float, np.float64, np.int64, np.int32}


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
    end = 1 << 62 if images is None else images
    # Two arrays of flags would take longer than the rest of a small call.
    if boxes and not (indices.item(indices.argmin()) >= 0 and indices.item(indices.argmax()) < end):
        k = int(((indices < 0) | (indices >= end)).argmax())
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


def check_listed(boxes: Any, boxes_num: Any, count: int, kind: str, places: str) -> None:
    """Check a list with the boxes of each image; kind, places: what errors call one, and all."""
    if boxes_num is not None:
        raise ValueError(
            f"boxes_num: expected None, since boxes is a list with the boxes of each {kind}"
        )
    if len(boxes) != count:
        raise ValueError(f"boxes: a list of {len(boxes)} arrays, expected one for each of {places}")


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
        check_listed(boxes, boxes_num, images, "image", f"the input's {images} images")
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

    kind: what errors call an index; images: what they call the `count` images.
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


def converted(
    boxes: Any,
    boxes_num: Any,
    image_count: int,
    dtype: np.dtype,
    scale: tuple[float, float],
    names: tuple[str, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """
    Return boxes of any format, (K, 4) or (K, 5) of the type of the data, and the image of each,
    int32.

    names: of the numbers of a box.
    """
    width = len(names)
    given, counts = gather_boxes(boxes, boxes_num, image_count, box_rows, names)
    listed = isinstance(given, list)
    arrays = [_widened(rows) for rows in (given if listed else [given])]
    with np.errstate(all="ignore"):  # what overflows is found right below
        numbers = [rows[:, -width:].astype(dtype, copy=False) for rows in arrays]
    if counts is None:
        images = _read_images(arrays[0], image_count, given.dtype)
    else:
        images = np.repeat(np.arange(image_count, dtype=np.int32), counts)
    if len(numbers) == 1:
        (found,) = numbers
    else:
        found = np.concatenate([np.empty((0, width), dtype), *numbers])
    row, column = _bad_number(found, scale, names)
    if row >= 0:
        where = f"boxes[{row}]"
        if listed:
            image = int(images[row])
            row -= sum(len(rows) for rows in arrays[:image])
            where = f"boxes[{image}]: row {row}"
            arrays = arrays[image:]
        raise _error_of_number(where, arrays[0][row, -width:], column, dtype, scale)
    return found, images


def _read_images(rows: np.ndarray, image_count: int, dtype: np.dtype) -> np.ndarray:
    """Return the images of rows; dtype: of the rows as the caller gave them."""
    images = indices_of(rows, image_count, "batch", f"input's {image_count} images")
    largest = LARGEST_EXACT.get(dtype.name, image_count)
    if image_count > largest + 1 and (images >= largest).any():
        bad = int((images >= largest).argmax())
        raise rounded_index(bad, int(images[bad]), dtype.name, image_count)
    return images


def _widened(rows: np.ndarray) -> np.ndarray:
    """Return rows of a type that corners are converted from."""
    if rows.dtype.kind in "iu":
        return rows.astype(np.float64)
    return rows.astype(np.float32) if is_small(rows.dtype) else rows


def _bad_number(
    boxes: np.ndarray, scale: tuple[float, float], names: tuple[str, ...]
) -> tuple[int, int]:
    """
    Return the (row, column) of the first number that is not finite when it is scaled.

    Behind the columns of corners, there is one for the width and one for the height; (-1, -1)
    is for none.
    """
    factors = [*scale[::-1], *scale[::-1], 1]  # angles have no scale
    with np.errstate(all="ignore"):
        scaled = boxes * np.array(factors[: len(names)], boxes.dtype)
        if names is CORNERS:
            scaled = np.concatenate([scaled, scaled[:, 2:] - scaled[:, :2]], axis=1)
    wrong = ~np.isfinite(scaled)
    rows = np.flatnonzero(wrong.any(axis=1))
    return (int(rows[0]), int(wrong[rows[0]].argmax())) if len(rows) else (-1, -1)


def _error_of_number(
    where: str, numbers: np.ndarray, column: int, dtype: np.dtype, scale: tuple[float, float]
) -> ValueError:
    """Return the error of a number that `_bad_number` found in this box."""
    names, kind = (TURNED, "number") if len(numbers) == 5 else (CORNERS, "coordinate")
    beyond = f"times spatial_scale {scale[1 - column % 2]:g} is beyond {dtype.name}"
    if column >= len(names):
        side = ("width", "height")[column - 4]
        ends = ", ".join(_spell_number(value) for value in numbers)
        return ValueError(f"{where}: ({ends}) has a {side} that {beyond}")
    value = numbers[column]
    spelled = f"{where}: {names[column]} is {_spell_number(value)}"
    if not np.isfinite(value):
        return ValueError(f"{spelled}, expected a finite {kind}")
    if column == 4:
        beyond = f"is beyond {dtype.name}"
    return ValueError(f"{spelled}, which {beyond}")


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
        if numbers == CORNERS and value.ndim == 2 and value.shape[1] in (5, 6, 7):
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
