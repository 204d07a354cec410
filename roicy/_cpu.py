"""
The backend of NumPy arrays: plans what a call does, and runs it.

This is the one file that knows the compiled modules.  A forward pass of few boxes whose arguments
need no conversion goes by `plan` and `run`; every other call is checked by ``_call.py`` and comes
to `forward`, `backward` or `backward_boxes`, where its boxes are taken as many at a time as tables
have room for.  A step is what is computed at a time: a list of levels as the kernels take them,
(array, dtype character, channels_contiguous, rows_contiguous, tables).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _arguments, _dispatch, _threads
from ._arguments import FLOATS, Arguments
from ._kernels import front, geometry, schedule
from ._levels import Call, Level
from ._table import MAX_PIXEL, WEIGHTED_SUM, Operator, Rule

LANE_BYTES = 64  # of the channels that kernels compute together
MAX_BOXES = 2**31  # whose tables are made at a time, if there is room for them
# of the gradients of the boxes, which are kept for each block of channels until they are added up
PARTS_BYTES = 16 << 20
INT32 = np.dtype(np.int32)

maps = _arguments.maps
array = _arguments.array
indices = _arguments.indices
result = _arguments.result
threads = _threads.resolve


def device(_: np.ndarray) -> contextlib.AbstractContextManager[None]:
    """Return where new arrays are made: there is one memory."""
    return contextlib.nullcontext()


def check_devices(_: dict[str, np.ndarray]) -> None:
    """All arrays lie in the same memory."""


def boxes(arguments: Arguments, images: int, data: np.ndarray, scale: float) -> _arguments.Boxes:
    """Check the boxes; data: what they are pooled from, scale: the largest."""
    dtype = _arguments.computed(data.dtype)
    return _arguments.Boxes(arguments.boxes, arguments.boxes_num, images, dtype, scale)


def read(boxes: _arguments.Boxes) -> np.ndarray:
    """Return the memory of the boxes that a call reads."""
    return boxes.coordinates


def distribute(
    boxes: _arguments.Boxes, scales: list[float], canonical: tuple[float, int]
) -> list[_arguments.Boxes]:
    """Return the boxes of each level."""
    by_level = front.by_level[FLOATS[boxes.coordinates.dtype.char]]
    rows, stops = by_level(boxes.coordinates, scales[0], len(scales), *canonical)
    return [boxes.some(rows[first:stop]) for first, stop in itertools.pairwise([0, *stops])]


def plan(row: Operator, rule: Rule, maps: Any, output_size: Any, arguments: Arguments) -> Any:
    """Return what `run` takes of a forward pass whose arguments are plainly right, else None."""
    boxes, boxes_num, scale, layout, num_threads, out, pyramid = arguments
    if pyramid is None:
        maps = (maps,)
    elif isinstance(maps, (list, tuple)):
        maps = tuple(maps)
    else:
        return None
    return front.plan(
        maps, boxes, boxes_num, output_size, scale, layout, out, rule, row.position_sensitive,
        _threads.resolve(num_threads), _arguments.new, pyramid,
    )  # fmt: skip


def run(row: Operator, plan: Any, option: bool) -> Any:
    """Run what was planned; option: as ``_call.forward`` has it."""
    _, levels, _, out, out_nchw, _ = plan
    if row.reduction is not MAX_PIXEL:
        _reduce(row, plan, option)
        return out
    if not option:
        _reduce(row, plan, None)
        return out
    _arguments.check_argmax_fits("input", *levels[0][0].shape[2:])
    argmax = _arguments.new(out.shape, INT32)
    _reduce(row, plan, argmax if out_nchw is out else argmax.transpose(0, 3, 1, 2))
    return out, argmax


def _reduce(row: Operator, plan: Any, extra: Any) -> None:
    """
    Run a forward pass; extra: argmax or None of maxima of pixels, `products` of those of
    samples.
    """
    kind, levels, tasks, _, out, threads = plan
    kernels = _dispatch.kernels
    if row.reduction is WEIGHTED_SUM:
        kernels.weighted_sum.forward[kind](levels, tasks, out, row.position_sensitive, threads)
    elif row.reduction is MAX_PIXEL:
        kernels.window_max.forward[kind](levels[0], tasks, out, extra, threads)
    else:
        kernels.sample_max.forward[kind](levels[0], tasks, out, extra, threads)


def _described(call: Call, array: np.ndarray) -> tuple[Any, ...]:
    """
    Return what kernels and the schedule want to know of a map, but for its tables.

    Channels count as contiguous if those of a pixel lie together and are read together; of small
    types only those that fill lane vectors.
    """
    whole = array.dtype == call.dtype or array.shape[1] * call.dtype.itemsize % LANE_BYTES == 0
    channels_contiguous = (
        array.strides[1] == array.itemsize and not call.row.position_sensitive and whole
    )
    rows_contiguous = array.strides[3] == array.itemsize
    return _arguments.bits(array), array.dtype.char, channels_contiguous, rows_contiguous


def _parts(
    call: Call, level: Level, array: np.ndarray, in_bands: bool, slopes: bool, most: int
) -> Iterator[tuple[Any, ...]]:
    """Yield a level with the tables of as many of its boxes at a time as there is room for."""
    described, boxes, tables = _described(call, array), level.boxes, None
    in_bands = in_bands or described[2]  # then no rows are packed, and kept for the next box
    max_rows = 0 if in_bands else schedule.most_rows(level.w, slopes)
    while tables is None or tables.stop < len(boxes):
        tables = geometry.tables[FLOATS[call.dtype.char]](
            boxes.images, boxes.coordinates, boxes.rows, level.n, call.rule, call.bins,
            (level.h, level.w), level.scale, max_rows, tables, slopes, most, call.threads,
        )  # fmt: skip
        yield *described, tables


def _steps(
    call: Call,
    arrays: list[np.ndarray],
    in_bands: bool = False,
    slopes: bool = False,
    most: int = 2**31,
) -> Iterator[list[tuple[Any, ...]]]:
    """
    Yield steps until all boxes were in one.

    in_bands: whether boxes are sorted for what writes to the maps; slopes: whether tables have the
    slopes of weights too; most: boxes of a level and step.
    """
    most = min(most, MAX_BOXES)
    parts = [
        _parts(call, level, array, in_bands, slopes, most)
        for level, array in zip(call.levels, arrays, strict=True)
        if not level.empty
    ]
    for levels in itertools.zip_longest(*parts):
        yield [level for level in levels if level is not None]


def _work(call: Call) -> tuple[int, int, int, bool, int]:
    """Return what the schedule wants to know of a call."""
    bins = call.bins[0] * call.bins[1]
    position_sensitive = call.row.position_sensitive
    return call.channels, call.dtype.itemsize, bins, position_sensitive, call.threads


def forward(call: Call, inputs: list[np.ndarray], out: np.ndarray, extra: Any) -> None:
    """Pool; inputs: seen as (N, C, H, W), extra: as `_reduce` has it."""
    target = out if out.dtype == call.dtype else _arguments.new(out.shape, call.dtype)
    out_nchw = call.layout.nchw(target)
    for level in call.levels:
        if level.empty:
            rows = ... if level.boxes.rows is None else level.boxes.rows
            out_nchw[rows] = 0
            if call.row.reduction is MAX_PIXEL and extra is not None:
                extra[rows] = -1
    for levels in _steps(call, inputs):
        tasks, threads = schedule.reading(levels, *_work(call))
        plan = FLOATS[call.dtype.char], levels, tasks, target, out_nchw, threads
        _reduce(call.row, plan, extra)
    if target is not out:
        _round(target, out, call.threads)


def _round(values: np.ndarray, out: np.ndarray, threads: int) -> None:
    """Write new float32 values to an array of a small type."""
    rounded = out if out.flags.c_contiguous else _arguments.new(out.shape, out.dtype)
    _dispatch.kernels.rounding.narrow(
        values, _arguments.bits(rounded), ord(out.dtype.char), threads
    )
    if rounded is not out:
        out[...] = rounded


def backward(call: Call, grad: np.ndarray, outs: list[np.ndarray]) -> None:
    """Write the gradients of the maps of weighted sums; grad: seen as (K, C, PH, PW)."""
    for level, out in zip(call.levels, outs, strict=True):
        if level.empty:
            out[...] = 0
    outs_nchw = [call.layout.nchw(out) for out in outs]
    kernel = _dispatch.kernels.weighted_sum.backward[FLOATS[call.dtype.char]]
    position_sensitive = call.row.position_sensitive
    add = False  # the first step sets the gradients, the others add to them
    for levels in _steps(call, outs_nchw, in_bands=True):
        tasks, threads = schedule.writing(levels, *_work(call), add, False)
        if not position_sensitive:
            for *_, tables in levels:
                geometry.by_pixel(tables, threads)
        kernel(grad, levels, tasks, add, position_sensitive, threads)
        add = True


def backward_max(
    call: Call, grad: np.ndarray, argmax: np.ndarray, out: np.ndarray, new: bool
) -> None:
    """Write the gradient of the map of maxima of pixels; new: whether nobody else has `out` yet."""
    (level,) = call.levels
    pixels = level.h * level.w
    if level.empty:
        _check_argmax(argmax, pixels, 1)
        out[...] = 0
        return
    described = _described(call, call.layout.nchw(out))
    tables = geometry.everywhere(level.boxes.images, level.n, (level.h, level.w))
    levels = [(*described, tables)]
    # Blocks of channels come first, which is the order of grad_output: that and argmax are most of
    # what there is to read.
    tasks, threads = schedule.writing(levels, *_work(call), False, True)
    if not new:
        # Nothing may be written if it is wrong.  A new array is shown to nobody, and the kernel
        # checks as it goes.
        _check_argmax(argmax, pixels, threads)
    kernel = _dispatch.kernels.window_max.backward[FLOATS[call.dtype.char]]
    if kernel(grad, call.layout.nchw(argmax), levels[0], tasks, threads):
        _check_argmax(argmax, pixels, 1)


def _check_argmax(argmax: np.ndarray, pixels: int, threads: int) -> None:
    bad = _dispatch.kernels.window_max.first_outside(argmax, pixels, threads)
    if bad >= 0:
        raise ValueError(
            f"argmax[{bad}]: an index that is neither -1 nor less than "
            f"the {pixels} pixels of the map"
        )


def backward_boxes(call: Call, grad: np.ndarray, inputs: list[np.ndarray]) -> np.ndarray:
    """Return the gradients (K, 4) of the boxes of weighted sums."""
    out = np.zeros((len(call.boxes), 4), call.dtype)
    lanes = LANE_BYTES // call.dtype.itemsize
    position_sensitive = call.row.position_sensitive
    blocks = -(-call.channels // lanes)
    if position_sensitive:
        blocks *= call.bins[0] * call.bins[1]
    most = max(PARTS_BYTES // max(32 * blocks * len(call.levels), 1), 1)
    kernel = _dispatch.kernels.weighted_sum.backward_boxes[FLOATS[call.dtype.char]]
    for levels in _steps(call, inputs, slopes=True, most=most):
        rows = np.concatenate([tables.rows() for *_, tables in levels])
        parts = np.zeros((blocks, len(rows), 4))
        tasks, threads = schedule.reading(levels, *_work(call), True)
        kernel(grad, levels, tasks, parts, position_sensitive, threads)
        out[rows] = parts.sum(axis=0)
    return out
