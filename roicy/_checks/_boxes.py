"""The boxes of a call, in any format: they are read here, and errors say what is wrong with them.

On the CPU a plan takes plain arrays as they are (``pyx/call/plan.pyx``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from .._kernels.machine import LARGEST_EXACT
from . import _arguments
from ._arguments import CORNERS, FLOATS, TURNED, is_small, spell_type, taken
from ._names import BOXES, BOXES_NUM, INPUT, SPATIAL_SCALE, can_be_given, warn

# What NumPy reads in a list as it stands; all else is taken by itself.
PLAIN = (list, tuple, np.generic, int, float, str, type(None))
NO_NUMBERS = "bOUSc"  # kinds of NumPy's types
ROWS_AT_ONCE = 4096  # of lists that NumPy reads: 1 ms


def box_counts(value: Any, box_count: int, image_count: int) -> list[int]:
    """Return the number of boxes of each image."""
    try:
        numbers = integers(BOXES_NUM, value)
    except ValueError:
        raise ValueError(f"{BOXES_NUM}: lists of different lengths, expected integers") from None
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise TypeError(f"{BOXES_NUM}: dtype {numbers.dtype.name}, expected integers")
    if numbers.shape != (image_count,):
        expected = f"({image_count},), a count for each image of the input"
        raise ValueError(f"{BOXES_NUM}: shape {numbers.shape}, expected {expected}")
    counts = [int(number) for number in numbers]
    for n, count in enumerate(counts):
        if count < 0:
            raise ValueError(f"{BOXES_NUM}[{n}]: {count}, expected a count of 0 or more")
    if sum(counts) != box_count:
        raise ValueError(
            f"{BOXES_NUM}: counts that sum to {sum(counts)}, expected the {box_count} rows of "
            f"{BOXES}"
        )
    return counts


def holds_rows(boxes: Any) -> bool:
    """Whether a list of boxes is one array, with a row in each place, rather than a list of the
    boxes of each image.

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


def plain_items(name: str, values: Any) -> list[Any]:
    """Return the items of a list: numbers and lists as they are, others as arrays."""
    return [
        value
        if isinstance(value, PLAIN) or (type(value) is np.ndarray and value.dtype.kind != "O")
        else _unboxed(taken(f"{name}[{k}]", value))
        for k, value in enumerate(tuple(values))  # another thread may change a list
    ]


def _unboxed(array: np.ndarray, depth: int = 3) -> Any:
    """Return an array, or lists in place of one of objects, as which NumPy reads some tables: of
    columns that may lack numbers, of Arrow's types, or of lists.

    depth: of arrays in arrays, since one may hold itself.
    """
    if array.dtype.kind != "O" or not array.ndim or not depth:
        return array
    if array.ndim == 2 and array.shape[1] == 1:  # one column, of lists
        array = array[:, 0]
    return [
        _unboxed(item, depth - 1) if type(item) is np.ndarray else item for item in array.tolist()
    ]


def integers(name: str, value: Any) -> np.ndarray:
    """Return an array of a list or of an array, of integers where they come as objects."""
    array = np.asarray(value) if isinstance(value, (list, tuple, int)) else taken(name, value)
    return np.asarray(array.tolist()) if array.dtype.kind == "O" else array


def boxes_array(name: str, value: Any) -> np.ndarray:
    """Return an array of a type that boxes may have, of rows in a list or of what NumPy reads."""
    if not isinstance(value, (list, tuple)):
        value = _unboxed(taken(name, value))
    if isinstance(value, (list, tuple)):
        value = _listed(name, plain_items(name, value))
    dtype = value.dtype
    if dtype.char in FLOATS and dtype.isnative:  # as in most calls
        return value
    if not dtype.isnative:  # only such types have an order that can be changed
        dtype = dtype.newbyteorder("=")
    if not (dtype.char in FLOATS or dtype.kind in "iu" or is_small(dtype)):
        raise TypeError(
            f"{name}: dtype {dtype.name}, expected float32, float64, float16, bfloat16 or integers"
        )
    return value if value.dtype.isnative else value.astype(dtype)


class Many(list[Any]):
    """Objects that are freed some at a time, since Python keeps its lock while a list is freed."""

    __slots__ = ()

    def __del__(self) -> None:
        while self:
            del self[-ROWS_AT_ONCE:]


def array_of(rows: Any) -> np.ndarray:
    """Return an array.  Long lists are read in parts, since NumPy keeps Python's lock meanwhile."""
    if not isinstance(rows, (list, tuple)) or len(rows) <= ROWS_AT_ONCE:
        return np.asarray(rows)
    parts = [rows[k : k + ROWS_AT_ONCE] for k in range(0, len(rows), ROWS_AT_ONCE)]
    return np.concatenate([np.asarray(part) for part in parts])


def _listed(name: str, rows: list[Any]) -> np.ndarray:
    """Return an array of rows of numbers, or raise the error of the first row that is none."""
    if _are_of_numbers(rows):
        try:
            array = array_of(rows) if rows else np.empty((0, 4))
        except ValueError:
            pass  # its rows differ in length, which is found below
        else:
            if array.dtype.kind != "O":
                return array
    for k, row in enumerate(rows):
        where = f"{name}[{k}]"
        if isinstance(row, (list, tuple)):
            for i, number in enumerate(row):
                _check_number(f"{where}[{i}]", number)
        elif getattr(row, "ndim", 0) != 1:
            raise TypeError(f"{where}: {spell_type(row)}, expected a row of numbers")
        elif row.dtype.kind in NO_NUMBERS:
            raise TypeError(f"{where}: dtype {row.dtype.name}, expected numbers")
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{where}: {len(row)} numbers, expected {len(rows[0])}, as {name}[0] has"
            )
    return np.array(rows, np.float64)


def _are_of_numbers(rows: list[Any]) -> bool:
    """Whether rows are numbers, arrays of numbers, or lists of these or of lists."""
    lists = [row for row in rows if isinstance(row, (list, tuple))]
    arrays = [row for row in rows if isinstance(row, np.ndarray)]
    types: set[type] = set()
    for k in range(0, len(lists), ROWS_AT_ONCE):  # Python keeps its lock for the whole of a map
        types.update(map(type, itertools.chain.from_iterable(lists[k : k + ROWS_AT_ONCE])))
    if np.ndarray in types:
        inner = [item for item in itertools.chain.from_iterable(lists) if type(item) is np.ndarray]
        if not all(item.ndim for item in inner):
            return False
        arrays += inner
    kinds = types.union(map(type, rows)) - {list, tuple, np.ndarray}
    return all(map(_is_of_numbers, kinds)) and not any(
        array.dtype.kind in NO_NUMBERS for array in arrays
    )


def _is_of_numbers(kind: type) -> bool:
    """Whether values of a type are real numbers, as those of ``decimal`` are, too."""
    return issubclass(kind, Number) and not issubclass(kind, (bool, complex, np.complexfloating))


def _check_number(name: str, value: Any) -> None:
    if not _is_of_numbers(type(value)):
        raise TypeError(f"{name}: {spell_type(value)}, expected a number")
    try:
        float(value)
    except OverflowError:
        raise ValueError(f"{name}: an integer that is beyond float64") from None


def with_images(name: str, value: Any, rows: np.ndarray, images: int | None) -> np.ndarray:
    """Return rows with the image of each in front; images: how many, None where not known."""
    indices, boxes = integers(name, value), len(rows)
    if indices.shape != (boxes,) or (indices.dtype.kind not in "iu" and indices.size):
        given = f"shape {indices.shape} of {indices.dtype.name}"
        raise ValueError(f"{name}: {given}, expected ({boxes},) integers, the image of each box")
    end = 1 << 62 if images is None else images
    # Two arrays of flags would take longer than the rest of a small call.
    if boxes and not (indices.item(indices.argmin()) >= 0 and indices.item(indices.argmax()) < end):
        k = int(((indices < 0) | (indices >= end)).argmax())
        all_images = "the images" if images is None else f"the {INPUT}'s {images} images"
        raise ValueError(f"{name}[{k}]: {indices[k]} is outside {all_images}")
    whole = np.empty((boxes, rows.shape[1] + 1))
    whole[:, 0], whole[:, 1:] = indices, rows
    return whole


def rows_of_numbers(name: str, value: Any, columns: int, numbers: tuple[str, ...]) -> np.ndarray:
    """Return an array of boxes of so many columns; numbers: the names of a box's numbers."""
    rows = _rows_of_width(box_rows(name, value), columns)
    check_rows(name, rows, columns, numbers)
    return rows


def _rows_of_width(rows: Any, width: int) -> Any:
    """Return rows.  An array (0,) or (0, 4), or an empty list, stands for no boxes of any kind."""
    empty = rows.shape == (0,) or (rows.shape == (0, 4) and width != 4)
    return rows.reshape((0, width)) if empty else rows


def check_listed(boxes: Any, boxes_num: Any, count: int, kind: str, places: str) -> None:
    """Check a list with the boxes of each image; kind, places: what errors call one, and all."""
    if boxes_num is not None:
        raise ValueError(
            f"{BOXES_NUM}: expected None, since {BOXES} is a list with the boxes of each {kind}"
        )
    if len(boxes) != count:
        raise ValueError(
            f"{BOXES}: a list of {len(boxes)} arrays, expected one for each of {places}"
        )


def gather_boxes(
    boxes: Any, boxes_num: Any, images: int, take: Callable[[str, Any], Any],
    names: tuple[str, ...] = CORNERS,
) -> tuple[Any, list[int] | None]:  # fmt: skip
    """Return the boxes as an array, or as a list with an array for each image, and the number of
    boxes of each image, None where rows say it.

    take: returns the array of a value, given its name; names: of the numbers of a box.
    """
    width = len(names)
    # Tables may be lists.  Beside arrays of a GPU there are none.
    if take is box_rows and isinstance(boxes, (list, tuple)):
        boxes = plain_items(BOXES, boxes)
    elif isinstance(boxes, list):
        boxes = list(boxes)  # the caller's may change meanwhile
    listed = isinstance(boxes, (list, tuple)) and not holds_rows(boxes)
    if listed and not boxes:
        listed = boxes_num is None  # no boxes of any image
        boxes = [[]] * images if listed else boxes
    if listed:
        check_listed(boxes, boxes_num, images, "image", f"the {INPUT}'s {images} images")
        arrays = [take(f"{BOXES}[{n}]", rows) for n, rows in enumerate(boxes)]
        arrays = [_rows_of_width(rows, width) for rows in arrays]
        for n, rows in enumerate(arrays):
            check_rows(f"{BOXES}[{n}]", rows, width, names)
        return arrays, [rows.shape[0] for rows in arrays]
    rows = take(BOXES, boxes)
    if boxes_num is None and images == 1 and rows.ndim == 2 and rows.shape[1] == width:
        boxes_num = [rows.shape[0]]  # there is no other image
    columns = width + (boxes_num is None)
    rows = _rows_of_width(rows, columns)
    check_rows(BOXES, rows, columns, names)
    if boxes_num is None:
        return rows, None
    return rows, box_counts(boxes_num, rows.shape[0], images)


def box_rows(name: str, value: Any) -> np.ndarray:
    """Return an array of boxes that kernels can read."""
    return _arguments.addressable(name, boxes_array(name, value))


def indices_of(rows: np.ndarray, count: int, kind: str, images: str) -> np.ndarray:
    """Return column 0 of rows as int32; kind, images: what errors call an index and the images."""
    column = rows[:, 0].astype(np.float64)  # in which the number of images is exact
    with np.errstate(all="ignore"):
        wrong = ~((column >= 0) & (column < count) & (np.trunc(column) == column))
        images_of = column.astype(np.int32)
    if wrong.any():
        bad = int(wrong.argmax())
        index = f"{BOXES}[{bad}]: {kind} index {_spell(rows[bad, 0])}"
        hint = columns_hint(kind, rows[bad]) if _may_have_score(rows[bad]) else ""
        if column[bad].is_integer():
            raise ValueError(f"{index} is outside the {images}{hint}")
        raise ValueError(f"{index}, expected a whole number{hint}")
    return images_of


def converted(
    given: Any, counts: list[int] | None, image_count: int, dtype: np.dtype,
    scale: tuple[float, float], names: tuple[str, ...],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return what `gather_boxes` returned: numbers of the data's type, and images, int32."""
    width, listed = len(names), isinstance(given, list)
    if listed:
        rows = np.concatenate([np.empty((0, width), np.float32), *map(_widened, given)])
    else:
        rows = _widened(given)
    with np.errstate(all="ignore"):  # what overflows is found right below
        found = rows[:, -width:].astype(dtype, copy=False)
    if counts is None:
        images = _read_images(rows, image_count, given.dtype)
    else:
        images = np.repeat(np.arange(image_count, dtype=np.int32), counts)
    row = _first_not_finite(found, scale, names)
    if row is not None:
        where = f"{BOXES}[{row}]"
        if listed:
            where = f"{BOXES}[{images[row]}]: row {row - (images < images[row]).sum()}"
        shown = f"{scale[0]:g}" if scale[0] == scale[1] else str(scale)
        beyond = f"which times {SPATIAL_SCALE} {shown} is beyond {dtype.name}"
        if width == 5 and not np.isfinite(found[row, 4]):
            beyond = f"whose angle is beyond {dtype.name}"
        raise not_finite(where, rows[row, -width:], names, beyond)
    return found, images


def _read_images(rows: np.ndarray, image_count: int, dtype: np.dtype) -> np.ndarray:
    """Return the images of rows; dtype: of the rows as the caller gave them."""
    images = indices_of(rows, image_count, "batch", f"{INPUT}'s {image_count} images")
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


def _first_not_finite(
    boxes: np.ndarray, scale: tuple[float, float], names: tuple[str, ...]
) -> int | None:
    """Return the first row with a number, a width or a height that is not finite when scaled."""
    factors = [*scale[::-1], *scale[::-1], 1]  # angles have no scale
    with np.errstate(all="ignore"):
        scaled = boxes * np.array(factors[: len(names)], boxes.dtype)
        if names is CORNERS:
            scaled = np.concatenate([scaled, scaled[:, 2:] - scaled[:, :2]], axis=1)
    wrong = ~np.isfinite(scaled).all(axis=1)
    return int(wrong.argmax()) if wrong.any() else None


def not_finite(where: str, box: np.ndarray, names: tuple[str, ...], beyond: str) -> ValueError:
    """Return the error of a box with a number that is not finite, or is too large: `beyond`."""
    for name, value in zip(names, box, strict=True):
        if not np.isfinite(value):
            kind = "coordinate" if names is CORNERS else "number"
            return ValueError(f"{where}: {name} is {_spell(value)}, expected a finite {kind}")
    return ValueError(f"{where}: ({', '.join(map(_spell, box))}), {beyond}")


def rounded_index(row: int, image: int, dtype: str, images: int) -> ValueError:
    """Return the error of a batch index that may have been rounded to that of another image."""
    return ValueError(
        f"{BOXES}[{row}]: batch index {image} in {dtype}, which is exact to "
        f"{LARGEST_EXACT[dtype]} only; expected a type that can tell the {INPUT}'s {images} images "
        "apart"
    )


def columns_hint(kind: str, row: np.ndarray) -> str:
    """Return what a row of 5 or 6 columns means; kind: what errors call an index."""
    meant, given = (CORNERS, "score") if len(row) == 5 else (TURNED, "score, class")
    columns = f"{len(row)} columns are [{kind}_index, {', '.join(meant)}]"
    return f"; {columns}: of [x1, y1, x2, y2, {given}] pass {BOXES}[:, :4]"


def _may_have_score(row: np.ndarray) -> bool:
    """Whether a row may be [x1, y1, x2, y2, score] or [x1, y1, x2, y2, score, class]."""
    x1, y1, x2, y2, score = map(float, row[:5])
    return 0 <= score <= 1 and 0 <= x1 <= x2 and y1 <= y2


def warn_of_scores(kind: str, boxes: Any) -> None:
    """Warn of rows whose x1 may be the index of an image, and which end with a score, or with a
    score and a class.

    Read as [image, x1, y1, x2, y2], every row would end above its start.  Read as turned boxes, all
    would be lower than a pixel and turned by a whole number.  kind: what errors call an index.
    """
    rows = np.asarray(boxes, np.float64)
    if not len(rows) or rows.shape[1] not in (5, 6):
        return
    x1, y1, x2, y2, score = rows[:, :5].T
    reads_so = (score > 0) & (score < 1) & (x1 <= x2) & (y1 <= y2) & (x2 > 1) & (y2 > 1)
    reads_so &= y1 > score if rows.shape[1] == 5 else rows[:, 5] == np.trunc(rows[:, 5])
    if reads_so.all():
        warn(f"{BOXES}: a score seems to be among the coordinates{columns_hint(kind, rows[0])}")


# What upright boxes seem to be: what form_of of pyx/forms.pxd returns.
SHARES, SIDES = 1, 2
FORMS = {
    SHARES: "all coordinates are of 0..1, and read as pixels; multiply those that are shares of "
    "the image by its width and height",
    SIDES: "x2 < x1 or y2 < y1, which seem to be rows [x, y, w, h]; of these pass "
    "[x, y, x + w, y + h]",
}


def warn_of_form(form: int) -> None:
    """Warn of boxes that seem to be others, if they do."""
    if form:
        warn(f"{BOXES}: {FORMS[form]}")


def warn_of_degrees(angle: float) -> None:
    """Warn of an angle of more than two turns that seems to be given in degrees."""
    if abs(angle) <= 720:
        warn(
            f"{BOXES}: an angle of {angle:g}, which is more than two turns; angles are in radians: "
            "of degrees pass numpy.deg2rad(angles)"
        )


def check_rows(name: str, value: Any, columns: int, numbers: tuple[str, ...] = CORNERS) -> None:
    """Check the shape of an array of boxes, of NumPy or CuPy; numbers: the names of a box's."""
    if value.ndim != 2 or value.shape[1] != columns:
        width, expected, hint = len(numbers), ", ".join(numbers), ""
        if columns > width:
            expected = f"batch_index, {expected}"
            if value.ndim == 2 and value.shape[1] == width:
                hint = (
                    f"; boxes of {width} columns need {BOXES_NUM}, or a list with an array for "
                    "each image, unless there is one image"
                ) * can_be_given(BOXES_NUM)
            elif value.ndim == 3 and value.shape[2] == width:
                hint = f"; of boxes (N, L, {width}) pass list({BOXES})"
        if numbers == CORNERS and wide_hint(value.shape):
            hint = wide_hint(value.shape)
        elif value.shape in ((width,), (columns,)):
            hint = "; of one box pass [box]"
        hint = hint or flat_hint(value.shape, (columns,))
        expected = f"(K, {columns}) with rows [{expected}]"
        raise ValueError(f"{name}: shape {value.shape}, expected {expected}{hint}")
    if value.shape[0] >= 2**31:
        raise ValueError(f"{name}: {value.shape[0]} boxes, expected less than 2**31")


def flat_hint(shape: tuple[int, ...], columns: tuple[int, ...]) -> str:
    """Return how boxes of more than two axes become rows of one of these widths, if they can."""
    inner = tuple(extent for extent in shape[1:] if extent != 1)
    if len(shape) > 2 and inner[:1] and inner[-1] in columns:
        return f"; pass {BOXES}.reshape(-1, {inner[-1]})"
    return ""


def wide_hint(shape: tuple[int, ...]) -> str:
    """Return how rows of too many columns become boxes, if they can."""
    if len(shape) != 2 or shape[1] not in (5, 6, 7):
        return ""
    hint = f"; of [x1, y1, x2, y2, score, class] pass {BOXES}[:, :4]"
    return hint + f", of [batch_index, x1, y1, x2, y2] {BOXES}[:, 1:]" * (shape[1] == 5)


def _spell(value: Any) -> str:
    return repr(float(value)).removesuffix(".0")
