"""Deformable attention: what detectors that have no boxes yet read of their feature maps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _cpu
from ._checks import _arguments
from ._checks import _names as t
from ._docs import raises
from ._kernels import attention
from ._machine import _memory, _threads

__all__ = ["deformable_attention", "deformable_attention_backward"]

PADDINGS = ("zeros", "border")
MOST_NUMBERS = 2**31 - 1  # pixels of an image, and points of a query: their indices are int32


@raises()
def deformable_attention(
    value: t.Readable, shapes: t.Extents, locations: t.Readable, weights: t.Readable, *,
    points: t.Counts = None, mode: t.Method = "bilinear", padding: t.Padding = "zeros",
    align_corners: bool = False, out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> t.NDArray[Any]:  # fmt: skip
    """Weighted sums of samples of the levels of a pyramid, for each query and head.

    ::

        out[n, q, m, :] = sum over levels l and points p of
            weights[n, q, m, l, p] * sample(value[n, level l, m, :], locations[n, q, m, l, p])

    Samples are bilinear.  Location (x, y) is the position (x * w - 0.5, y * h - 0.5) on the pixels
    of a level of height h and width w, so that 0 and 1 are the outer edges of the level.  This is
    multi-scale deformable attention, the core of Deformable DETR and of the detectors after it.

    Parameters
    ----------
    value : ndarray (N, S, M, D), float32, float64, float16 or bfloat16
        The pixels of all levels, one after the other, row by row: M heads of D channels, with any
        strides.  Those of the last two types are computed with as float32.
    shapes : list of (int, int), or an array (L, 2) of integers
        Height and width of each level; S is the sum of their products.
    locations : ndarray (N, Q, M, L, P, 2), floating point
        Places (x, y) of P points on each of L levels, for each of Q queries and M heads.  Locations
        and weights are converted to the type that is computed in.
    weights : ndarray (N, Q, M, L, P), floating point
        What each sample is multiplied by.
    points : sequence of L integers, optional
        The points of each level, where levels have points of their own.  The last axes of locations
        and weights are then flat, (N, Q, M, T, 2) and (N, Q, M, T), with T the sum of `points`.
    mode : {"bilinear", "nearest"}, optional
        "nearest": a sample is the nearest pixel; of two that are equally near, the even one.
    padding : {"zeros", "border"}, optional
        What lies around a level: zeros, or the pixels of its border.
    align_corners : bool, optional
        Locations 0 and 1 are the centres of the first and of the last pixel.
    out : ndarray (N, Q, M * D), optional
        Written to, and returned.  It has the type of `value`, or float32 where `value` is float16
        or bfloat16.
    num_threads : int, optional
        At most as many threads are used; by default :func:`roicy.get_num_threads`.  The result
        does not depend on it, nor on the other images of a batch.

    Returns
    -------
    ndarray (N, Q, M * D), dtype of `value`

    See Also
    --------
    deformable_attention_backward : the gradients

    Notes
    -----
    Samples are those of PyTorch's ``grid_sample``, with ``2 * locations - 1`` as its grid.  A point
    that is far off a level reads zeros.  One whose location is infinite or NaN makes the result
    NaN; with mode "nearest" it reads zeros, too, and with padding "border" infinity is the border
    and NaN the position 0.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> value = np.arange(6, dtype=np.float32).reshape(1, 6, 1, 1)  # a level of 2 x 3 pixels
    >>> locations = np.array([[0.5, 0.5], [1 / 6, 0.25]], np.float32).reshape(1, 1, 1, 1, 2, 2)
    >>> weights = np.array([0.75, 0.25], np.float32).reshape(1, 1, 1, 1, 2)
    >>> roicy.deformable_attention(value, [(2, 3)], locations, weights)
    array([[[1.875]]], dtype=float32)
    """
    call = Call(value, shapes, locations, weights, points, mode, padding, align_corners)
    result = compute(call, _threads.resolve(num_threads), out)
    return result if out is None else out


def compute(call: Call, threads: int, out: Any = None) -> np.ndarray:
    """Return the result, in an array of the caller's if there is one."""
    read = (call.value, call.locations, call.weights)
    result = _memory.result(out, call.shape, _arguments.pooled(call.value.dtype), read)
    direct = result.dtype == call.computed and result.flags.c_contiguous
    target = result if direct else _memory.new(call.shape, call.computed)
    attention.compute(call.given(), None, (target, None, None, None), threads)
    return result if direct else _finish(target, result, threads)


@raises()
def deformable_attention_backward(
    grad_output: t.Readable, value: t.Readable, shapes: t.Extents, locations: t.Readable,
    weights: t.Readable, *, points: t.Counts = None, mode: t.Method = "bilinear",
    padding: t.Padding = "zeros", align_corners: bool = False, num_threads: t.Threads = None,
) -> tuple[t.NDArray[Any], t.NDArray[Any], t.NDArray[Any]]:  # fmt: skip
    """Gradients of :func:`deformable_attention` by value, locations and weights.

    Parameters
    ----------
    grad_output : ndarray (N, Q, M * D), floating point
        Gradient of the result.
    value, shapes, locations, weights, points, mode, padding, align_corners, num_threads :
        As in the call of :func:`deformable_attention`.

    Returns
    -------
    grad_value : ndarray (N, S, M, D), dtype of `value`
    grad_locations : ndarray of the shape and the dtype of `locations`
        0 with mode "nearest", and with padding "border" along an axis on which a point is off
        its level.
    grad_weights : ndarray of the shape and the dtype of `weights`

    Examples
    --------
    >>> import numpy as np, roicy
    >>> value = np.arange(6, dtype=np.float32).reshape(1, 6, 1, 1)  # a level of 2 x 3 pixels
    >>> at, weight = np.full((1, 1, 1, 1, 1, 2), 0.5, np.float32), np.ones((1, 1, 1, 1, 1))
    >>> grad = np.ones((1, 1, 1), np.float32)
    >>> found = roicy.deformable_attention_backward(grad, value, [(2, 3)], at, weight)
    >>> [one.ravel().tolist() for one in found]
    [[0.0, 0.5, 0.0, 0.0, 0.5, 0.0], [3.0, 6.0], [2.5]]
    """
    call = Call(value, shapes, locations, weights, points, mode, padding, align_corners)
    threads = _threads.resolve(num_threads)
    a, b, c = gradients(call, grad_output, (True, True, True), threads)
    return a, b, c  # type: ignore[return-value]


def gradients(
    call: Call, grad_output: Any, wanted: Sequence[bool], threads: int
) -> list[np.ndarray | None]:
    """Return the gradients of value, locations and weights, and None for those that are not wanted;
    the last two are made together.
    """
    grad = _arguments.floats("grad_output", grad_output)
    if grad.shape != call.shape:
        raise ValueError(f"grad_output: shape {grad.shape}, expected {call.shape}")
    inputs = (call.value, call.locations, call.weights)
    computed = (wanted[0], any(wanted[1:]), any(wanted[1:]))
    outs = [
        _memory.new(one.shape, call.computed) if needed else None
        for one, needed in zip(inputs, computed, strict=True)
    ]
    attention.compute(call.given(), call.convert(grad), (None, *outs), threads)
    for i, (one, found) in enumerate(zip(inputs, outs, strict=True)):
        if found is not None and found.dtype != one.dtype:
            outs[i] = _finish(found, _memory.new(one.shape, one.dtype), threads)
    return outs


class Call:
    """The arguments of a call, checked: arrays of any floating type and strides, the type that is
    computed in, and the shape of the result.
    """

    def __init__(
        self, value: Any, shapes: Any, locations: Any, weights: Any, points: Any, mode: Any,
        padding: Any, align_corners: Any,
    ):  # fmt: skip
        self.value = _arguments.floats("value", value)
        self.computed = _arguments.computed(self.value.dtype)
        extents = shapes_of(shapes)
        pixels = sum(height * width for height, width in extents)
        if self.value.ndim != 4 or self.value.shape[1] != pixels or pixels > MOST_NUMBERS:
            raise ValueError(
                f"value: shape {self.value.shape}, expected (N, S, M, D) with S = {pixels}, the "
                f"pixels of the levels of `shapes`, and at most {MOST_NUMBERS}"
            )
        self.locations = _arguments.floats("locations", locations)
        self.weights = _arguments.floats("weights", weights)
        counts, form = points_of(points, len(extents), self.locations)
        n, _, m, d = self.value.shape
        q = self.locations.shape[1] if self.locations.ndim > 1 else "Q"
        for name, last, axes in ("locations", (2,), ", 2"), ("weights", (), ""):
            found, expected = getattr(self, name).shape, (n, q, m, *form, *last)
            if found != expected:
                raise ValueError(
                    f"{name}: shape {found}, expected ({', '.join(map(str, expected))}), "
                    f"(N, Q, M, L, P{axes}), or with `points` (N, Q, M, T{axes})"
                    f"{swapped(self.locations, self.weights)}"
                )
        nearest = _arguments.choice("mode", mode, _arguments.METHODS) == "nearest"
        border = _arguments.choice("padding", padding, PADDINGS) == "border"
        aligned = _arguments.flag("align_corners", align_corners)
        self.shape, self.flat = (n, q, m * d), (n, q, m, sum(counts))
        self._rule = nearest, border, 0.0 if aligned else 0.5
        if not self.weights.size:  # there may be as many points as no memory has room for
            counts = (0,) * len(counts)
        self.levels = _levels(extents, counts, aligned, self.computed)

    def convert(self, array: np.ndarray) -> np.ndarray:
        """Return an array of the type that is computed in, without gaps."""
        with np.errstate(all="ignore"):  # what is beyond the type is infinite
            return np.require(array, self.computed, ("C", "A"))

    def given(self) -> tuple[Any, ...]:
        """Return what kernels read; the value may have gaps, but not between channels of a head."""
        value, strides, size = self.value, self.value.strides, self.computed.itemsize
        dense = strides[3] == size and value.flags.aligned and not any(s % size for s in strides)
        if value.dtype != self.computed or not dense:
            value = self.convert(value)
        weights = self.convert(self.weights).reshape(self.flat)
        return value, self.convert(self.locations), weights, self.levels, self._rule


def shapes_of(value: Any) -> tuple[tuple[int, int], ...]:
    """Return height and width of each level."""
    rows = value if isinstance(value, (list, tuple)) else _arguments.taken("shapes", value).tolist()
    if isinstance(rows, (list, tuple)):
        rows = [_arguments.items(f"shapes[{i}]", row) for i, row in enumerate(rows)]
    if not isinstance(rows, (list, tuple)) or not rows or not all(map(_arguments.is_pair, rows)):
        raise ValueError(f"shapes: {value!r}, expected (height, width) of each level")
    most = _arguments.MOST_PIXELS
    height, width = (
        [_arguments.integer(f"shapes[{i}]", row[k], 0, most) for i, row in enumerate(rows)]
        for k in range(2)
    )
    return tuple(zip(height, width, strict=True))


def points_of(value: Any, levels: int, locations: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the points of each level, and the extents of their axes, "P" where it is not known."""
    if value is None:
        count = locations.shape[4] if locations.ndim == 6 else "P"
        return (count,) * levels, (levels, count)
    given = _arguments.items("points", value)
    if not isinstance(given, (list, tuple)) or len(given) != levels:
        raise ValueError(f"points: {value!r}, expected {levels} integers, one for each level")
    counts = [_arguments.integer(f"points[{i}]", c, 0, MOST_NUMBERS) for i, c in enumerate(given)]
    return tuple(counts), (sum(counts),)


def swapped(locations: Any, weights: Any) -> str:
    """Return what is said of locations and weights that seem to be in each other's place."""
    seem = tuple(weights.shape) == (*locations.shape, 2)
    return "; locations and weights seem to be swapped" if seem else ""


@functools.lru_cache(maxsize=64)
def _levels(extents: Any, counts: Any, aligned: bool, dtype: np.dtype) -> Any:
    """Return width, height and first pixel of the level of each point, and scales of x and y."""
    heights, widths = np.array(extents, np.int64).T
    of_levels = np.stack([widths, heights, np.cumsum(heights * widths) - heights * widths])
    of_points = np.repeat(of_levels, counts, axis=1)
    return of_points.astype(np.int32), (of_points[:2] - aligned).astype(dtype)


def _finish(values: np.ndarray, out: np.ndarray, threads: int) -> np.ndarray:
    """Write new results to an array of another type, or of other strides."""
    if out.dtype.char in _arguments.SMALL and values.dtype == _arguments.FLOAT32:
        _cpu.narrow(values, out, threads)
    else:
        with np.errstate(all="ignore"):  # what is beyond the type is infinite
            out[...] = values
    return out
