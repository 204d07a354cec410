"""Which part of a frame each output pixel shows: boxes that fit, and matrices of other shapes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._checks import _arguments
from .arguments import Boxes

ROUNDING = 4 * float(np.finfo(np.float64).eps)  # of a sum of two products of rounded numbers


class Place(NamedTuple):
    """What a result shows of frames."""

    images: np.ndarray  # (K,) int32: the frame of each box
    values: np.ndarray  # (K, 4) boxes, or (K, 9) matrices that take output pixels to the frame
    content: np.ndarray | None  # (K, 4) output pixels that show the box; None: all
    touched: np.ndarray | None  # (K, 4) boxes beyond whose pixels nothing is read
    matrices: np.ndarray | None  # (K, 3, 3), if they are asked for


def place(boxes: Boxes, size: tuple[int, int], fit: str, border: str, wanted: bool) -> Place:
    """Return what is shown; wanted: whether the matrices are."""
    images, values, content = boxes.images, boxes.values, None
    if boxes.kind != "upright" and border == "crop":
        raise ValueError(
            f"border: 'crop', expected 'image' or 'constant' for boxes of kind {boxes.kind!r}"
        )
    if fit != "stretch" and boxes.kind in (
        ("matrices",) if fit == "line" else ("corners", "matrices")
    ):
        raise ValueError(f"fit: {fit!r}, expected 'stretch' for boxes of kind {boxes.kind!r}")
    touched = values if border == "crop" else None
    if boxes.kind == "upright" and fit == "stretch" and not wanted:
        return Place(images, values, None, touched, None)
    with np.errstate(all="ignore"):
        if boxes.kind == "rotated":
            values = unrotated(values)
        if fit == "line":
            content = np.zeros((len(values), 4), np.int32)
            content[:, 2], content[:, 3] = size[0], np.minimum(widths(boxes, size[0]), size[1])
        elif fit.startswith("letterbox"):
            content = letterbox(values, size, fit == "letterbox")
        elif fit == "cover":
            values = cover(values, size)
        if boxes.kind != "upright":
            result = warps(boxes, values, content, size)
            return Place(images, np.ascontiguousarray(result.reshape(-1, 9)), content, None, result)
        return Place(images, values, content, touched, matrices(values, content, size))


def widths(boxes: Boxes, height: int) -> np.ndarray:
    """Return the widths of lines of text of this height: the aspect of boxes, rounded up.

    Corners have the longer ones of opposite sides, in whole pixels, as PaddleOCR's recogniser.
    """
    with np.errstate(all="ignore"):
        if boxes.kind == "corners":
            scaled, exponents = _scaled(boxes.values, (1, 2))
            sides = np.linalg.norm(scaled[:, [1, 2, 3, 0]] - scaled, axis=2)
            sides = np.ldexp(sides, exponents[:, :, 0])
            sides = np.maximum(np.floor(np.maximum(sides[:, :2], sides[:, 2:])), 1)
        elif boxes.kind == "rotated":
            sides = np.abs(boxes.values[:, 2:4])
        else:
            sides = np.abs(boxes.values[:, 2:4] - boxes.values[:, :2])
        ratios = np.where(sides[:, 1] > 0, sides[:, 0] / sides[:, 1], 1)
        ratios = np.nan_to_num(ratios, nan=1)  # of two sides beyond float64
        return np.clip(np.ceil(height * ratios), 1, _arguments.MOST_BINS).astype(np.int32)


def cover(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return the largest boxes in the middle of these that have the aspect of the output."""
    left = (values[:, 2:] - values[:, :2]) * (1 - _kept(values, size)) / 2
    return np.concatenate([values[:, :2] + left, values[:, 2:] - left], axis=1)


def letterbox(values: np.ndarray, size: tuple[int, int], centred: bool) -> np.ndarray:
    """Return the output pixels [top, left, bottom, right] that show boxes of unchanged aspect.

    In the middle their numbers are rounded; at the top left they are rounded down, as YOLOX does.
    """
    extent = np.array(size[::-1])
    if not centred:
        sides = np.abs(values[:, 2:] - values[:, :2])
        ratios = np.where(sides > 0, extent / sides, np.inf).min(axis=1, keepdims=True)
        shown = np.where(sides > 0, np.minimum(sides * ratios, extent), extent)
        stop = np.maximum(shown[:, ::-1], 1).astype(np.int32)
        return np.concatenate([np.zeros_like(stop), stop], axis=1)
    # A cover would keep all of the axis with the smaller scale.  This is the one to shrink.
    shown = np.maximum(np.rint(_kept(values, size)[:, ::-1] * extent), 1).astype(np.int32)
    first = (extent - shown) // 2
    return np.concatenate([first[:, ::-1], (first + shown)[:, ::-1]], axis=1).astype(np.int32)


def _kept(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return the parts of widths and heights of boxes that have the aspect of the output."""
    sides = np.abs(values[:, 2:] - values[:, :2])
    # Powers of two change no digit, and products stay finite.
    sides = np.ldexp(sides, -np.frexp(sides.max(axis=1, keepdims=True))[1])
    scaled = sides * size  # (width * h, height * w)
    kept = np.ones_like(scaled)
    for axis in (0, 1):
        larger = scaled[:, axis] > scaled[:, 1 - axis]
        kept[larger, axis] = scaled[larger, 1 - axis] / scaled[larger, axis]
    return kept


def matrices(values: np.ndarray, content: np.ndarray | None, size: tuple[int, int]) -> np.ndarray:
    """Return the matrices from the middles of output pixels to the middles of frame pixels."""
    result = np.zeros((len(values), 3, 3))
    result[:, 2, 2] = 1
    for axis in (0, 1):
        first: Any = 0 if content is None else content[:, 1 - axis]
        shown: Any = size[1 - axis] if content is None else content[:, 3 - axis] - first
        step = (values[:, 2 + axis] - values[:, axis]) / shown
        result[:, axis, axis] = step
        result[:, axis, 2] = values[:, axis] + (0.5 - first) * step - 0.5
    return result


def warps(boxes: Boxes, values: np.ndarray, content: Any, size: tuple[int, int]) -> np.ndarray:
    """Return the matrices from the middles of output pixels to the middles of frame pixels, (K, 3,
    3).

    `values` are the shown parts of rotated boxes, as if they were upright around (0, 0).
    """
    singular = np.zeros(len(values), bool)
    if boxes.kind == "matrices":
        expected = "a matrix that is not singular"
        result, singular = _inverse(boxes.values)
    elif boxes.kind == "corners":
        expected = "corners of which no three lie on a line"
        scaled, exponents = _scaled(boxes.values, 1)
        across = np.full(len(scaled), size[1]) if content is None else content[:, 3]
        result = _of_corners(scaled, exponents, size[0], across)
        singular = _on_a_line(scaled)
    else:
        result = _of_rotated(boxes.values, matrices(values, content, size))
    wrong = singular | ~np.isfinite(result).all(axis=(1, 2))
    if wrong.any():
        row = int(wrong.argmax())
        numbers = ", ".join(repr(float(number)) for number in boxes.values[row].reshape(-1))
        if not singular[row]:
            expected = "numbers whose matrix float64 can hold"
        raise ValueError(f"boxes[{row}]: ({numbers}), expected {expected}")
    return result


def unrotated(values: np.ndarray) -> np.ndarray:
    """Return rotated boxes [cx, cy, w, h, angle] as upright boxes around (0, 0)."""
    sides = values[:, 2:4] / 2
    return np.concatenate([-sides, sides], axis=1)


def _of_rotated(values: np.ndarray, upright: np.ndarray) -> np.ndarray:
    """Turn upright boxes around (0, 0), and move them to their centres."""
    turn = np.zeros((len(values), 3, 3))
    turn[:, 0, 0] = turn[:, 1, 1] = np.cos(values[:, 4])
    turn[:, 0, 1] = np.sin(values[:, 4])
    turn[:, 1, 0] = -turn[:, 0, 1]
    turn[:, 2, 2] = 1
    result = upright.copy()
    result[:, :2, 2] += 0.5  # from the middle of the first pixel to its corner, and back
    result = turn @ result
    result[:, :2, 2] += values[:, :2] - 0.5
    return result


def _scaled(values: np.ndarray, axis: int | tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers in [-1, 1], and the exponents of the powers of two that they were divided by.

    Numbers along `axis` are divided by the same power.  It changes no digit, and products of
    such numbers do not overflow.
    """
    exponents = np.frexp(np.abs(values).max(axis=axis, keepdims=True))[1]
    return np.ldexp(values, -exponents), exponents


def _inverse(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the inverses of matrices (K, 2, 3), and which matrices have none.

    A matrix is taken as singular if its determinant is 0 up to rounding of its numbers.
    """
    exponents = _scaled(values[:, :, :2], 2)[1]
    (a, b, x), (c, d, y) = np.ldexp(values, -exponents).transpose(1, 2, 0)
    determinant = a * d - b * c
    singular = np.abs(determinant) <= ROUNDING * (np.abs(a * d) + np.abs(b * c))
    result = np.zeros((len(values), 3, 3))
    result[:, 0, 0], result[:, 0, 1] = d / determinant, -b / determinant
    result[:, 1, 0], result[:, 1, 1] = -c / determinant, a / determinant
    result[:, :2, :2] = np.ldexp(result[:, :2, :2], -exponents.transpose(0, 2, 1))
    result[:, 0, 2] = (b * y - d * x) / determinant
    result[:, 1, 2] = (c * x - a * y) / determinant
    result[:, 2, 2] = 1
    return result, singular


def _on_a_line(scaled: np.ndarray) -> np.ndarray:
    """Return which rows of corners (K, 4, 2) have three on a line, up to rounding of coordinates.

    No other corners lack a projection from a rectangle.  Any three of four corners follow each
    other.  The area of their triangle is computed from the middle one, so that it does not matter
    with which corner a row begins, and in which direction it goes on.
    """
    ahead, behind = scaled[:, [1, 2, 3, 0]] - scaled, scaled[:, [3, 0, 1, 2]] - scaled
    products = ahead * behind[:, :, ::-1]
    sides = np.abs(ahead) + np.abs(behind)
    area = np.abs(products[:, :, 0] - products[:, :, 1])
    return (area <= ROUNDING * (sides[:, :, 0] + sides[:, :, 1])).any(axis=1)


def _of_corners(
    scaled: np.ndarray, exponents: np.ndarray, height: int, widths: np.ndarray
) -> np.ndarray:
    """Return the projections of outputs of these widths to corners; pixel (0, 0) is at the first.

    The corners are given as by `_scaled`.

    Heckbert, "Fundamentals of Texture Mapping and Image Warping", 1989: the unit square to a
    quadrilateral.
    """
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = scaled.transpose(1, 2, 0)
    from_x, from_y = x0 - x1 + x2 - x3, y0 - y1 + y2 - y3
    right_x, right_y, below_x, below_y = x1 - x2, y1 - y2, x3 - x2, y3 - y2
    area = right_x * below_y - below_x * right_y
    flat = (from_x == 0) & (from_y == 0)  # a parallelogram
    g = np.where(flat, 0, (from_x * below_y - from_y * below_x) / area)
    h = np.where(flat, 0, (right_x * from_y - right_y * from_x) / area)
    ones = np.ones_like(g)
    square = np.array(
        [
            [x1 - x0 + g * x1, x3 - x0 + h * x3, x0],
            [y1 - y0 + g * y1, y3 - y0 + h * y3, y0],
            [g, h, ones],
        ]
    ).transpose(2, 0, 1)
    to_square = np.zeros((len(scaled), 3, 3))
    to_square[:, 0, 0], to_square[:, 0, 2] = 1 / widths, 0.5 / widths
    to_square[:, 1, 1], to_square[:, 1, 2] = 1 / height, 0.5 / height
    to_square[:, 2, 2] = 1
    result = square @ to_square
    result[:, :2] = np.ldexp(result[:, :2], exponents.transpose(0, 2, 1))
    result[:, :2] -= 0.5 * result[:, 2:]
    return result
