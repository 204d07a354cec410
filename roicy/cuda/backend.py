"""
The backend of CuPy arrays: the functions of ``_cpu.py``, with the kernels of the GPU.

Nothing here waits for the device, so the values of boxes and of argmax are not looked at.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import _arguments, _levels
from .._arguments import INT32, Arguments, Layout
from .._kernels.plan import RULES
from .._levels import Scale, Shape
from .._table import CORNERS, MAX_PIXEL, WEIGHTED_SUM, Operator, Rule
from ._launch import (
    CHANNELS_OF_THREAD,
    CHANNELS_OF_WARP,
    LANES,
    NULL,
    PART_BYTES,
    ROTATED_BYTES,
    cupy,
    launch,
    strides,
    structure,
)

# Memory is bounded: the tables of boxes (those of one step), the arrays of gradients of planes
# that are added up later, and the partial sums of the gradients of boxes.
TABLE_BYTES = 128 << 20
SEGMENTS_BYTES = 128 << 20
PARTIAL_SUMS_BYTES = 128 << 20
# At least so many warps share the gradients of planes, if there are enough boxes.  A GPU has room
# for some thousand warps.
WARPS = 4096
SAMPLED = RULES["sampled"]


def _of_cupy(name: str, value: Any) -> Any:
    if not isinstance(value, cupy().ndarray):
        raise TypeError(
            f"{name}: {_arguments.spell_type(value)}, "
            "expected a cupy.ndarray, as the other arrays are"
        )
    return value


def array(name: str, value: Any, expected: str) -> Any:
    """Return a CuPy array of 4 dimensions, float32 or float64."""
    value = _of_cupy(name, value)
    if value.dtype.char not in _arguments.FLOATS:
        raise TypeError(f"{name}: dtype {value.dtype.name}, expected float32 or float64")
    if value.ndim != 4:
        raise ValueError(f"{name}: shape {value.shape}, expected {expected}")
    return value


maps = array


def indices(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    """Return an int32 array of that shape."""
    if not isinstance(value, cupy().ndarray) or value.dtype != INT32 or value.shape != shape:
        raise TypeError(f"{name}: expected a cupy.ndarray of int32 and shape {shape}")
    return value


def check_devices(arrays: dict[str, Any]) -> None:
    """Check that all arrays lie where the first does, which is where kernels run."""
    first = next(iter(arrays.values()))
    for name, value in arrays.items():
        _check_device(first.device, name, value)


def _check_device(device: Any, name: str, value: Any) -> None:
    if value.device != device:
        raise ValueError(
            f"{name}: on {value.device}, expected {device}, where the other arrays are"
        )


class _Boxes:
    """
    Boxes of any format, or the boxes that are pooled from one level of a pyramid.

    `rows` (K, 4) or (K, 5) lies on the device and has the dtype of the data; of rotated boxes it
    has a column more.  `images` is int32 on the device, or None where column 0 of `rows` holds the
    images.  The boxes of one level still have all rows: `levels` (K,) says to which level each box
    belongs, and `level` is the level of these boxes.
    """

    levels: Any = None
    level = 0

    def __init__(
        self,
        arguments: Arguments,
        images: int,
        dtype: np.dtype,
        device: Any,
        names: tuple[str, ...],
    ):
        if isinstance(arguments.boxes_num, cupy().ndarray):
            raise TypeError(
                "boxes_num: a cupy.ndarray, which would have to be waited for; "
                "expected integers on the host"
            )

        self.images = None

        def take(name: str, value: Any) -> Any:
            return self._take(name, value, device)

        given, counts = _arguments.gather_boxes(
            arguments.boxes, arguments.boxes_num, images, take, names
        )
        listed = isinstance(given, list)
        if counts is None and given.dtype != dtype:
            self.images = self._images_of(given[:, 0], images)
        arrays = [
            cupy().ascontiguousarray(rows.astype(dtype, copy=False))
            for rows in (given if listed else [given])
        ]
        self.counts = counts if listed else None
        self.rows = cupy().empty((0, len(names)), dtype)
        if arrays:
            self.rows = arrays[0] if self.counts is None else cupy().concatenate(arrays)
        if counts is not None:
            self.images = cupy().asarray(np.repeat(np.arange(images, dtype=np.int32), counts))
        self.count, self.columns = self.rows.shape

    def __len__(self) -> int:
        return int(self.count)

    @staticmethod
    def _take(name: str, value: Any, device: Any) -> Any:
        """Return an array as it is, or a list of rows of numbers as an array on the device."""
        if isinstance(value, (list, tuple)):
            value = cupy().asarray(_arguments.boxes_array(name, value))
        value = _of_cupy(name, value)
        if value.dtype.char not in _arguments.FLOATS and value.dtype.kind not in "iu":
            raise TypeError(
                f"{name}: dtype {value.dtype.name}, expected float32, float64 or integers"
            )
        _check_device(device, name, value)
        return value

    @staticmethod
    def _images_of(column: Any, images: int) -> Any:
        """
        Return batch indices as int32, with -1 where there is no such image.

        They are converted by themselves, since the dtype of the data may be too small for them.
        """
        column = column.astype(np.float64)
        exists = (column >= 0) & (column < images) & (column == cupy().floor(column))
        return cupy().where(exists, column, -1).astype(np.int32)

    def of_level(self, levels: Any, level: int) -> _Boxes:
        """Return the boxes that belong to a level."""
        boxes = _Boxes.__new__(_Boxes)
        boxes.__dict__.update(self.__dict__, levels=levels, level=level)
        return boxes

    def restore(self, grad: Any) -> Any:
        """Return gradients of the rows in the format that the boxes came in."""
        if self.counts is None:
            return grad
        ends = list(itertools.accumulate(self.counts))
        return [grad[end - count : end] for end, count in zip(ends, self.counts, strict=True)]

    def given(self, first: int, stop: int) -> tuple[Any, ...]:
        """Return the arguments of kernels for some boxes: rows, columns and images."""
        images = NULL if self.images is None else self.images[first:stop]
        return self.rows[first:stop], np.int32(self.columns), images


def _distribute(
    boxes: _Boxes, scales: list[Scale], canonical: tuple[float, int], rotated: bool
) -> list[_Boxes]:
    """Return the boxes of each level, by the rule of ``level_of`` in pyx/plan/boxes.pxd."""
    canonical_scale, canonical_level = canonical
    xp, kind = cupy(), boxes.rows.dtype.type
    if rotated:
        sides = boxes.rows[:, -3:-1]
    else:
        sides = boxes.rows[:, -2:] - boxes.rows[:, -4:-2]
    sides = xp.maximum(sides, kind(0))
    with np.errstate(all="ignore"):  # a scale may be too large for the dtype of the data
        size = xp.sqrt(sides[:, 0] * sides[:, 1]) / kind(canonical_scale)
        exact = kind(canonical_level) + xp.log2(size)
    wanted = xp.floor(exact + kind(_levels.CLOSE)) - kind(_levels.level_of_scale(scales[0]))
    last = _levels.last_map(len(scales), scales[0], scales[-1])
    # A box whose size is not a number belongs to the finest level.
    levels = xp.minimum(xp.fmax(wanted, kind(0)), kind(last)).astype(np.int32)
    return [boxes.of_level(levels, i) for i in range(len(scales))]


class Level:
    """A map of a call: its size, its scales, and the boxes that are pooled from it."""

    def __init__(self, shape: Shape, scale: Scale, boxes: _Boxes, channels: int):
        self.n, self.c, self.h, self.w = shape
        self.scale = scale
        self.boxes = boxes
        # An empty level has nothing to read or to write: outputs and gradients are zeros.
        self.empty = not (len(boxes) and channels and self.n and self.h and self.w)


class Call:
    """A call with checked arguments: its levels, and what they have in common."""

    def __init__(
        self,
        row: Operator,
        rule: Rule,
        arguments: Arguments,
        first: Any,
        bins: tuple[int, int],
        shapes: dict[str, Shape],
    ):
        self.row, self.rule, self.bins = row, rule, bins
        self.layout = Layout(arguments.layout)
        self.dtype, self.device = first.dtype, first.device
        self.out = arguments.out
        self.rotated = row.box != CORNERS
        self.arrays: list[Any] = []
        scales = _levels.scales(arguments, shapes)
        (n, c, _, _) = next(iter(shapes.values()))
        if self.rotated:
            _levels.check_same_scales(scales)
        with self.device:
            self.boxes = _Boxes(arguments, n, self.dtype, self.device, row.box)
            of_levels = [self.boxes]
            if arguments.pyramid is not None:
                canonical = _levels.canonical(arguments.pyramid)
                of_levels = _distribute(self.boxes, scales, canonical, self.rotated)
        self.count = len(self.boxes)
        self.channels = _arguments.channels(c, bins, row.position_sensitive)
        self.levels = [
            Level(shape, scale, boxes, self.channels)
            for shape, scale, boxes in zip(shapes.values(), scales, of_levels, strict=True)
        ]

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self.layout.shape(self.count, self.channels, *self.bins)

    @property
    def empty(self) -> bool:
        return all(level.empty for level in self.levels)

    def map_size(self) -> Shape:
        """Return (N, C, H, W) of the first level."""
        level = self.levels[0]
        return level.n, level.c, level.h, level.w


def plan_forward(
    row: Operator, rule: Rule, input: Any, output_size: Any, given: tuple[Any, ...]
) -> Call:
    """Check the arguments of a forward pass."""
    arguments = Arguments(*given)
    named = _levels.maps(input, arguments, maps)
    bins = _arguments.output_size(output_size)
    return plan_backward_boxes(row, rule, named, bins, arguments)


def plan_backward(
    row: Operator, rule: Rule, grad: Any, shapes: dict[str, Shape], arguments: Arguments
) -> Call:
    """Check the arguments of the gradient of maps of these shapes (N, C, H, W)."""
    bins = tuple(Layout(arguments.layout).nchw(grad).shape[2:])
    return Call(row, rule, arguments, grad, bins, shapes)


def plan_backward_boxes(
    row: Operator,
    rule: Rule,
    maps: dict[str, Any],
    bins: tuple[int, int],
    arguments: Arguments,
) -> Call:
    """Check the arguments of the gradient of the boxes, and those of a forward pass."""
    layout = Layout(arguments.layout)
    shapes = _levels.shapes_of(maps, layout)
    check_devices(maps)
    first = next(iter(maps.values()))
    call = Call(row, rule, arguments, first, bins, shapes)
    call.arrays = list(maps.values())
    return call


def box_arrays(call: Call) -> list[Any]:
    """Return the memory of the boxes that a call reads."""
    return [call.boxes.rows]


def output(call: Call) -> Any:
    """Return the array that a forward pass writes to."""
    return result(call.out, call.output_shape, (call.dtype,), (*call.arrays, call.boxes.rows))


def restore(_: Call, grad: Any) -> Any:
    """Return gradients of boxes in the format that the boxes came in, as `backward_boxes` did."""
    return grad


def result(
    out: Any,
    shape: tuple[int, ...],
    dtypes: tuple[np.dtype, ...],
    read: tuple[Any, ...],
    name: str = "out",
) -> Any:
    """
    Return the array to write to.

    Arrays count as overlapping if the ranges of their addresses overlap.
    """
    (dtype,) = dtypes
    if out is None:
        with read[0].device:
            return cupy().empty(shape, dtype)
    out = _of_cupy(name, out)
    if out.dtype != dtype:
        raise TypeError(f"{name}: dtype {out.dtype.name}, expected {dtype.name}")
    if out.shape != shape:
        raise ValueError(f"{name}: shape {out.shape}, expected {shape}")
    _check_device(read[0].device, name, out)
    _arguments.distinct(name, out)
    if any(cupy().may_share_memory(out, other) for other in read):
        raise ValueError(f"{name}: overlaps memory that the call reads")
    return out


def _shape(call: Call, level: Level, boxes: int) -> np.ndarray:
    return structure(
        "Shape", level.n, call.channels, level.h, level.w, boxes, *call.bins,
        call.row.position_sensitive, call.layout.axes is not None,
    )  # fmt: skip


def _scales(call: Call, level: Level) -> list[Any]:
    """Return the scales of y and x as kernels take them."""
    return [call.dtype.type(scale) for scale in level.scale]


class _Step(NamedTuple):
    """Some boxes and their tables: the first box, the number of boxes, and arguments of kernels."""

    first: int
    boxes: int
    tables: tuple[Any, ...]  # shape, room, images, counts, taps
    slopes: Any


def _steps(call: Call, level: Level, slopes: bool = False, most: int = 2**31) -> Iterator[_Step]:
    """Make the tables of as many boxes at a time as there is room for."""
    if level.empty:
        return
    _, sampling_ratio, *_ = call.rule
    ratio = sampling_ratio if sampling_ratio > 0 else 2**30
    ph, pw = call.bins
    room_y, room_x = min(level.h, 2 * ratio), min(level.w, 2 * ratio)
    if call.row.reduction is MAX_PIXEL:
        room_y = room_x = 1
    each = ph * room_y + pw * room_x
    room = structure("Room", room_y, room_x, each)
    per_entry = call.dtype.itemsize * (4 if slopes else 2)
    count = max(min(len(level.boxes), TABLE_BYTES // (each * per_entry), most), 1)
    make = cupy().empty
    for first in range(0, len(level.boxes), count):
        boxes = min(count, len(level.boxes) - first)
        shape = _shape(call, level, boxes)
        images, counts = make(boxes, np.int32), make((boxes, ph + pw), np.int32)
        taps = make(boxes * each * 2 * call.dtype.itemsize, np.uint8)
        slope = make((2, boxes * each), call.dtype) if slopes else None
        levels = level.boxes.levels
        launch(
            "tables", call.dtype, boxes * (ph + pw), *level.boxes.given(first, first + boxes),
            NULL if levels is None else levels[first : first + boxes], np.int32(level.boxes.level),
            structure("Rule", *call.rule), shape, room, *_scales(call, level),
            images, counts, taps, *((NULL, NULL) if slope is None else (slope[0], slope[1])),
        )  # fmt: skip
        yield _Step(first, boxes, (shape, room, images, counts, taps), slope)


def forward(call: Call, out: Any, extra: Any) -> None:
    """Write the output of a forward pass.  extra is argmax, or the option of ``_call.forward``."""
    inputs = [call.layout.nchw(array) for array in call.arrays]
    with call.device:
        if len(call.levels) > 1 or call.empty:
            out.fill(0)
        if call.rotated:
            _rotated_sums(call, inputs, call.layout.nchw(out))
        elif call.row.reduction is WEIGHTED_SUM:
            _weighted_sums(call, inputs, call.layout.nchw(out))
        elif call.row.reduction is MAX_PIXEL:
            argmax = None if isinstance(extra, bool) else call.layout.nchw(extra)
            _largest_pixels(call, inputs[0], out, argmax)
        else:
            _largest_samples(call, inputs[0], call.layout.nchw(out), extra)


def _forward_kernel(call: Call, level: Level, map_strides: np.ndarray) -> tuple[str, int]:
    """
    Return the kernel for maps with these strides, and the number of its threads.

    This number decides only how work is divided; the results are right with any number.
    """
    ph, pw = call.bins
    count, last = len(level.boxes), call.layout.axes is not None
    if call.row.position_sensitive:
        return "forward_bins", count * call.channels * ph * pw
    if last:
        return "forward_pixels", LANES * count * ph * -(-call.channels // 128)
    reach = (level.h - 1) * abs(int(map_strides["y"])) + (level.w - 1) * abs(int(map_strides["x"]))
    if reach < 2**31:
        tiles = -(-ph // 8) * -(-pw // 8)
        return "forward_planes", LANES * count * -(-call.channels // 64) * 4 * tiles
    return "forward_bins", count * call.channels * ph * pw


def _weighted_sums(call: Call, inputs: list[Any], out: Any) -> None:
    for level, input in zip(call.levels, inputs, strict=True):
        input_strides = strides(input)
        kernel, threads = _forward_kernel(call, level, input_strides)
        for step in _steps(call, level):
            some = out[step.first :] if step.first else out
            launch(
                kernel, call.dtype, threads, input, input_strides, some, strides(some),
                *step.tables,
            )  # fmt: skip


def _largest_pixels(call: Call, input: Any, out: Any, argmax: Any) -> None:
    (level,) = call.levels
    pooled = out_nchw = call.layout.nchw(out)
    if argmax is not None:
        if level.empty:
            argmax.fill(-1)
        # The kernel writes both arrays by the strides of `pooled`, in elements.
        size = call.dtype.itemsize
        if [s // size for s in pooled.strides] != [s // 4 for s in argmax.strides]:
            pooled = call.layout.nchw(cupy().empty(out.shape, call.dtype))
    for step in _steps(call, level):
        some = pooled[step.first :]
        launch(
            "largest_pixel", call.dtype, math.prod(some.shape), input, strides(input), some,
            NULL if argmax is None else argmax[step.first :], strides(some), *step.tables,
        )  # fmt: skip
    if pooled is not out_nchw and not level.empty:
        out_nchw[...] = pooled


def _largest_samples(call: Call, input: Any, out: Any, products: bool) -> None:
    (level,) = call.levels
    if level.empty:
        return
    count = len(level.boxes)
    rule = structure("Rule", SAMPLED, *call.rule[1:])  # the kernel makes the samples itself
    launch(
        "largest_sample", call.dtype, math.prod(out.shape), input, strides(input), out,
        strides(out), _shape(call, level, count), rule, *level.boxes.given(0, count),
        *_scales(call, level), np.int32(products),
    )  # fmt: skip


class _Segments:
    """
    Several arrays of gradients like `out`: the boxes of each segment are added to an array.

    They are for maps with too few planes to keep a GPU busy.
    """

    def __init__(self, call: Call, level: Level, out: Any):
        self.call, self.level, self.out = call, level, out
        planes = level.n * level.c
        of_plane = -(-level.h * level.w * call.dtype.itemsize // PART_BYTES)  # parts of a plane
        room = SEGMENTS_BYTES // (out.size * call.dtype.itemsize)
        most = min(-(-WARPS // (planes * of_plane)), room, len(level.boxes) // 64, 16)
        self.count = max(most, 1)
        self.threads = LANES * planes * of_plane * self.count
        if self.count > 1:
            self.all = cupy().empty((self.count, *out.shape), call.dtype)
        self.first = call.layout.nchw(self.all[0] if self.count > 1 else out)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.first, strides(self.first), np.int64(self.out.size), np.int32(self.count)

    def add_up(self) -> None:
        if self.count > 1:
            level, out = self.level, self.call.layout.nchw(self.out)
            shape = structure(
                "Shape", level.n, level.c, level.h, level.w, level.n, level.h, level.w, False,
                self.call.layout.axes is not None,
            )  # fmt: skip
            launch(
                "add_segments", self.call.dtype, self.out.size, *self.arguments, out, strides(out),
                shape,
            )  # fmt: skip


def backward(call: Call, grad: Any, outs: list[Any]) -> None:
    """Write the gradients of the maps of weighted sums.  grad is seen as (K, C, PH, PW)."""
    with call.device:
        for level, out in zip(call.levels, outs, strict=True):
            if level.empty:
                out.fill(0)
            elif call.rotated:
                _backward_rotated(call, level, grad, call.layout.nchw(out))
            elif call.row.position_sensitive:
                _backward_bins(call, level, grad, out)
            else:
                _backward_tiles(call, level, grad, call.layout.nchw(out))


def _backward_bins(call: Call, level: Level, grad: Any, out: Any) -> None:
    segments = _Segments(call, level, out)
    for step in _steps(call, level):
        some = grad[step.first :] if step.first else grad
        launch(
            "backward_bins", call.dtype, segments.threads, some, strides(some),
            *segments.arguments, *step.tables, np.int32(step.first > 0),
        )  # fmt: skip
    segments.add_up()


def _backward_tiles(call: Call, level: Level, grad: Any, out: Any) -> None:
    kernel = "backward_planes" if call.layout.axes is None else "backward_pixels"
    tall = 32 // call.dtype.itemsize  # tiles of 8 x 8 or 4 x 8 pixels
    tiles = level.n * -(-level.h // tall) * -(-level.w // 8) * -(-level.c // LANES)
    for step in _steps(call, level):
        some = grad[step.first :] if step.first else grad
        shape, room, _, counts, taps = step.tables
        windows = cupy().empty(step.boxes * 4, np.int32)
        launch("windows_of_boxes", call.dtype, step.boxes * 2, shape, room, counts, taps, windows)
        launch(
            kernel, call.dtype, LANES * tiles, some, strides(some), out, strides(out),
            *step.tables, windows, np.int32(step.first > 0),
        )  # fmt: skip


def backward_max(call: Call, grad: Any, argmax: Any, out: Any, new: bool) -> None:
    """Write the gradient of the map of maxima of pixels.  argmax is seen as (K, C, PH, PW)."""
    (level,) = call.levels
    with call.device:
        if level.empty:
            out.fill(0)
            return
        segments = _Segments(call, level, out)
        launch(
            "largest_pixel_backward", call.dtype, segments.threads, grad, strides(grad), argmax,
            strides(argmax), *level.boxes.given(0, call.count), *segments.arguments,
            _shape(call, level, call.count),
        )  # fmt: skip
        segments.add_up()


def backward_boxes(call: Call, grad: Any) -> Any:
    """Return the gradients of the boxes of weighted sums, in the format that boxes came in."""
    with call.device:
        out = cupy().zeros((call.count, call.boxes.columns), call.dtype)
        for level, array in zip(call.levels, call.arrays, strict=True):
            add = _add_rotated_gradients if call.rotated else _add_box_gradients
            add(call, level, call.layout.nchw(array), grad, out)
        return call.boxes.restore(out)


def _add_box_gradients(call: Call, level: Level, input: Any, grad: Any, out: Any) -> None:
    """Write the rows of the boxes of a level."""
    # A thread adds up a bin of some channels.  If channels are last, a warp adds up more of them.
    channels, sharing = CHANNELS_OF_THREAD, 1
    if call.layout.axes is not None:
        channels, sharing = CHANNELS_OF_WARP, LANES
    each = -(-call.channels // channels) * call.bins[0] * call.bins[1]
    for step in _steps(call, level, True, max(PARTIAL_SUMS_BYTES // max(32 * each, 1), 1)):
        partial_sums = cupy().empty(step.boxes * each * 4, np.float64)
        some = grad[step.first :]
        shape, _, images, *_ = step.tables
        launch(
            "backward_boxes", call.dtype, step.boxes * each * sharing, some, strides(some),
            input, strides(input), *step.tables, step.slopes[0], step.slopes[1],
            partial_sums,
        )  # fmt: skip
        launch(
            "add_partial_sums", call.dtype, step.boxes * LANES, partial_sums, shape, images,
            out[step.first :], np.int32(call.boxes.columns),
        )  # fmt: skip


def _rotated_boxes(call: Call, level: Level) -> tuple[Any, ...]:
    """Return the last arguments of kernels of rotated boxes: shape, and the boxes of a level."""
    count = len(level.boxes)
    made, levels = cupy().empty(count * ROTATED_BYTES, np.uint8), level.boxes.levels
    shape = _shape(call, level, count)
    launch(
        "make_rotated_boxes", call.dtype, count, *level.boxes.given(0, count),
        NULL if levels is None else levels, np.int32(level.boxes.level),
        structure("Rule", *call.rule), shape, _scales(call, level)[0], made,
    )  # fmt: skip
    return shape, made


def _rotated_sums(call: Call, inputs: list[Any], out: Any) -> None:
    for level, input in zip(call.levels, inputs, strict=True):
        if not level.empty:
            launch(
                "forward_rotated", call.dtype, math.prod(out.shape), input, strides(input), out,
                strides(out), *_rotated_boxes(call, level),
            )  # fmt: skip


def _backward_rotated(call: Call, level: Level, grad: Any, out: Any) -> None:
    launch(
        "backward_rotated", call.dtype, level.n * -(-level.c // 8) * level.h * level.w, grad,
        strides(grad), out, strides(out), *_rotated_boxes(call, level),
    )  # fmt: skip


def _add_rotated_gradients(call: Call, level: Level, input: Any, grad: Any, out: Any) -> None:
    """Write the rows of the rotated boxes of a level."""
    if level.empty:
        return
    numbers = len(call.row.box)
    each = -(-call.channels // CHANNELS_OF_THREAD) * call.bins[0] * call.bins[1]
    most = max(PARTIAL_SUMS_BYTES // (8 * numbers * each), 1)
    _, made = _rotated_boxes(call, level)
    for first in range(0, len(level.boxes), most):
        count = min(most, len(level.boxes) - first)
        some = _shape(call, level, count), made[first * ROTATED_BYTES :]
        partial_sums = cupy().empty(count * each * numbers, np.float64)
        launch(
            "backward_rotated_boxes", call.dtype, count * each, grad[first:], strides(grad), input,
            strides(input), *some, partial_sums,
        )  # fmt: skip
        launch(
            "add_rotated_sums", call.dtype, count * numbers, partial_sums, *some, out[first:],
            np.int32(call.boxes.columns),
        )  # fmt: skip
