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
from .._table import MAX_PIXEL, WEIGHTED_SUM, Operator, Rule
from ._launch import (
    CHANNELS_OF_THREAD,
    CHANNELS_OF_WARP,
    LANES,
    NULL,
    PART_BYTES,
    cupy,
    launch,
    strides,
    structure,
)

TABLE_BYTES = 128 << 20  # of the tables of the boxes that are computed at once
SEGMENTS_BYTES = 128 << 20  # of gradients of planes before they are added up
PARTS_BYTES = 128 << 20  # of the gradients of the boxes before they are added up
# at least, that share the gradients of planes, if there are boxes enough: a GPU has room for some
# thousand
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
    Boxes of any format, or those of them that are pooled from one level of a pyramid.

    rows (K, 4) or (K, 5) lie on the device, in the type of the data.  Their images are int32 there,
    or None where column 0 was given in that type too.  The boxes of a level are all boxes, and
    `level` is what `levels` has where they are.
    """

    levels: Any = None
    level = 0

    def __init__(self, arguments: Arguments, images: int, dtype: np.dtype, device: Any):
        if isinstance(arguments.boxes_num, cupy().ndarray):
            raise TypeError(
                "boxes_num: a cupy.ndarray, which would have to be waited for; "
                "expected integers on the host"
            )

        self.images = None

        def check(name: str, value: Any, columns: int) -> Any:
            self._check(name, value, columns, device)
            if columns == 5 and value.dtype != dtype:
                self.images = self._images_of(value[:, 0], images)
            return cupy().ascontiguousarray(value.astype(dtype, copy=False))

        parts, counts = _arguments.gather_boxes(arguments.boxes, arguments.boxes_num, images, check)
        self.counts = counts if isinstance(arguments.boxes, (list, tuple)) else None
        self.rows = cupy().empty((0, 4), dtype)
        if parts:
            self.rows = parts[0] if self.counts is None else cupy().concatenate(parts)
        if counts is not None:
            self.images = cupy().asarray(np.repeat(np.arange(images, dtype=np.int32), counts))
        self.count, self.columns = self.rows.shape

    def __len__(self) -> int:
        return int(self.count)

    @staticmethod
    def _check(name: str, value: Any, columns: int, device: Any) -> None:
        _arguments.check_rows(name, _of_cupy(name, value), columns)
        if value.dtype.char not in _arguments.FLOATS and value.dtype.kind not in "iu":
            raise TypeError(
                f"{name}: dtype {value.dtype.name}, expected float32, float64 or integers"
            )
        _check_device(device, name, value)

    @staticmethod
    def _images_of(column: Any, images: int) -> Any:
        """
        Return batch indices as int32, -1 where they are of no image: the type of the data need not
        be one that holds them.
        """
        column = column.astype(np.float64)
        exists = (column >= 0) & (column < images) & (column == cupy().floor(column))
        return cupy().where(exists, column, -1).astype(np.int32)

    def of_level(self, levels: Any, level: int) -> _Boxes:
        """Return the boxes that belong to a level."""
        part = _Boxes.__new__(_Boxes)
        part.__dict__.update(self.__dict__, levels=levels, level=level)
        return part

    def restore(self, grad: Any) -> Any:
        """Return gradients of the rows in the format that the boxes came in."""
        if self.counts is None:
            return grad
        ends = list(itertools.accumulate(self.counts))
        return [grad[end - count : end] for end, count in zip(ends, self.counts, strict=True)]

    def given(self, first: int, stop: int) -> tuple[Any, ...]:
        """Return what kernels take of some boxes: rows, columns, images."""
        images = NULL if self.images is None else self.images[first:stop]
        return self.rows[first:stop], np.int32(self.columns), images


def _distribute(boxes: _Boxes, scales: list[Scale], canonical: tuple[float, int]) -> list[_Boxes]:
    """Return the boxes of each level, as ``level_of`` in pyx/plan/boxes.pxd has it."""
    canonical_scale, canonical_level = canonical
    coordinates = boxes.rows[:, -4:]
    xp, kind = cupy(), coordinates.dtype.type
    sides = xp.maximum(coordinates[:, 2:] - coordinates[:, :2], kind(0))
    with np.errstate(all="ignore"):  # a scale beyond the type of the data
        size = xp.sqrt(sides[:, 0] * sides[:, 1]) / kind(canonical_scale)
        exact = kind(canonical_level) + xp.log2(size)
    wanted = xp.floor(exact + kind(_levels.CLOSE)) - kind(_levels.level_of_scale(scales[0]))
    last = _levels.last_map(len(scales), scales[0], scales[-1])
    # what is not a number, of sizes beyond all numbers, is the finest level
    levels = xp.minimum(xp.fmax(wanted, kind(0)), kind(last)).astype(np.int32)
    return [boxes.of_level(levels, i) for i in range(len(scales))]


class Level:
    """A map of a call: its size, its scales, and the boxes that are pooled from it."""

    def __init__(self, shape: Shape, scale: Scale, boxes: _Boxes, channels: int):
        self.n, self.c, self.h, self.w = shape
        self.scale = scale
        self.boxes = boxes
        # nothing to read or to write: what is pooled, and the gradients, are zeros
        self.empty = not (len(boxes) and channels and self.n and self.h and self.w)


class Call:
    """A call whose arguments are checked: what its levels have in common, and the levels."""

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
        self.arrays: list[Any] = []
        scales = _levels.scales(arguments, shapes)
        (n, c, _, _) = next(iter(shapes.values()))
        with self.device:
            self.boxes = _Boxes(arguments, n, self.dtype, self.device)
            parts = [self.boxes]
            if arguments.pyramid is not None:
                parts = _distribute(self.boxes, scales, _levels.canonical(arguments.pyramid))
        self.count = len(self.boxes)
        self.channels = _arguments.channels(c, bins, row.position_sensitive)
        self.levels = [
            Level(shape, scale, part, self.channels)
            for shape, scale, part in zip(shapes.values(), scales, parts, strict=True)
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


def box_arrays(call: Call, _: Arguments) -> list[Any]:
    """Return the memory of the boxes that a call reads."""
    return [call.boxes.rows]


def output(call: Call) -> Any:
    """Return the array that a forward pass writes to."""
    return result(call.out, call.output_shape, (call.dtype,), (*call.arrays, call.boxes.rows))


def restore(_: Arguments, grad: Any) -> Any:
    """Return gradients of boxes in the format that the boxes came in, as `backward_boxes` did."""
    return grad


def result(
    out: Any,
    shape: tuple[int, ...],
    dtypes: tuple[np.dtype, ...],
    read: tuple[Any, ...],
    name: str = "out",
) -> Any:
    """Return the array to write to; whether memory is shared is asked of ranges of addresses."""
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
    """Return what kernels take as scales, those of y and x."""
    return [call.dtype.type(scale) for scale in level.scale]


class _Part(NamedTuple):
    """Boxes whose tables are made at a time: the first of them, how many, and what kernels take."""

    first: int
    boxes: int
    tables: tuple[Any, ...]  # shape, room, images, counts, taps
    slopes: Any


def _parts(call: Call, level: Level, slopes: bool = False, most: int = 2**31) -> Iterator[_Part]:
    """Make the tables of as many boxes at a time as there is room for."""
    if level.empty:
        return
    kind, sampling_ratio, *_ = call.rule
    ratio = sampling_ratio if kind == SAMPLED and sampling_ratio > 0 else 2**30
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
        yield _Part(first, boxes, (shape, room, images, counts, taps), slope)


def forward(call: Call, out: Any, extra: Any) -> None:
    """Pool; extra: argmax, or the option of ``_call.forward``."""
    inputs = [call.layout.nchw(array) for array in call.arrays]
    with call.device:
        if len(call.levels) > 1 or call.empty:
            out.fill(0)
        if call.row.reduction is WEIGHTED_SUM:
            _weighted_sums(call, inputs, call.layout.nchw(out))
        elif call.row.reduction is MAX_PIXEL:
            argmax = None if isinstance(extra, bool) else call.layout.nchw(extra)
            _largest_pixels(call, inputs[0], out, argmax)
        else:
            _largest_samples(call, inputs[0], call.layout.nchw(out), extra)


def _forward_kernel(call: Call, level: Level, step: np.ndarray) -> tuple[str, int]:
    """
    Return the kernel for maps with these strides, and how many threads divide the work.

    With more threads or less it does the same.
    """
    ph, pw = call.bins
    count, last = len(level.boxes), call.layout.axes is not None
    if call.row.position_sensitive:
        return "forward_bins", count * call.channels * ph * pw
    if last:
        return "forward_pixels", LANES * count * ph * -(-call.channels // 128)
    reach = (level.h - 1) * abs(int(step["y"])) + (level.w - 1) * abs(int(step["x"]))
    if reach < 2**31:
        tiles = -(-ph // 8) * -(-pw // 8)
        return "forward_planes", LANES * count * -(-call.channels // 64) * 4 * tiles
    return "forward_bins", count * call.channels * ph * pw


def _weighted_sums(call: Call, inputs: list[Any], out: Any) -> None:
    for level, input in zip(call.levels, inputs, strict=True):
        step = strides(input)
        kernel, threads = _forward_kernel(call, level, step)
        for part in _parts(call, level):
            some = out[part.first :] if part.first else out
            launch(kernel, call.dtype, threads, input, step, some, strides(some), *part.tables)


def _largest_pixels(call: Call, input: Any, out: Any, argmax: Any) -> None:
    (level,) = call.levels
    pooled = out_nchw = call.layout.nchw(out)
    if argmax is not None:
        if level.empty:
            argmax.fill(-1)
        # both are written by the strides of `pooled`, in elements
        size = call.dtype.itemsize
        if [s // size for s in pooled.strides] != [s // 4 for s in argmax.strides]:
            pooled = call.layout.nchw(cupy().empty(out.shape, call.dtype))
    for part in _parts(call, level):
        some = pooled[part.first :]
        launch(
            "largest_pixel", call.dtype, math.prod(some.shape), input, strides(input), some,
            NULL if argmax is None else argmax[part.first :], strides(some), *part.tables,
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
    Arrays of gradients like `out`, to each of which the boxes of one segment give.

    They are for planes that are too few to keep a GPU busy.
    """

    def __init__(self, call: Call, level: Level, out: Any):
        self.call, self.level, self.out = call, level, out
        planes = level.n * level.c
        parts = -(-level.h * level.w * call.dtype.itemsize // PART_BYTES)  # of a plane
        room = SEGMENTS_BYTES // (out.size * call.dtype.itemsize)
        most = min(-(-WARPS // (planes * parts)), room, len(level.boxes) // 64, 16)
        self.count = max(most, 1)
        self.threads = LANES * planes * parts * self.count
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
    """Write the gradients of the maps of weighted sums; grad: seen as (K, C, PH, PW)."""
    with call.device:
        for level, out in zip(call.levels, outs, strict=True):
            if level.empty:
                out.fill(0)
            elif call.row.position_sensitive:
                _backward_bins(call, level, grad, out)
            else:
                _backward_tiles(call, level, grad, call.layout.nchw(out))


def _backward_bins(call: Call, level: Level, grad: Any, out: Any) -> None:
    segments = _Segments(call, level, out)
    for part in _parts(call, level):
        some = grad[part.first :] if part.first else grad
        launch(
            "backward_bins", call.dtype, segments.threads, some, strides(some),
            *segments.arguments, *part.tables, np.int32(part.first > 0),
        )  # fmt: skip
    segments.add_up()


def _backward_tiles(call: Call, level: Level, grad: Any, out: Any) -> None:
    kernel = "backward_planes" if call.layout.axes is None else "backward_pixels"
    tall = 32 // call.dtype.itemsize  # tiles of 8 x 8 or 4 x 8 pixels
    tiles = level.n * -(-level.h // tall) * -(-level.w // 8) * -(-level.c // LANES)
    for part in _parts(call, level):
        some = grad[part.first :] if part.first else grad
        shape, room, _, counts, taps = part.tables
        windows = cupy().empty(part.boxes * 4, np.int32)
        launch("windows_of_boxes", call.dtype, part.boxes * 2, shape, room, counts, taps, windows)
        launch(
            kernel, call.dtype, LANES * tiles, some, strides(some), out, strides(out),
            *part.tables, windows, np.int32(part.first > 0),
        )  # fmt: skip


def backward_max(call: Call, grad: Any, argmax: Any, out: Any, new: bool) -> None:
    """Write the gradient of the map of maxima of pixels; argmax: seen as (K, C, PH, PW)."""
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
            _add_box_gradients(call, level, call.layout.nchw(array), grad, out)
        return call.boxes.restore(out)


def _add_box_gradients(call: Call, level: Level, input: Any, grad: Any, out: Any) -> None:
    """Write the rows of the boxes of a level."""
    # a thread takes a bin of some channels, or a warp of more
    channels, sharing = CHANNELS_OF_THREAD, 1
    if call.layout.axes is not None:
        channels, sharing = CHANNELS_OF_WARP, LANES
    each = -(-call.channels // channels) * call.bins[0] * call.bins[1]
    for part in _parts(call, level, True, max(PARTS_BYTES // max(32 * each, 1), 1)):
        parts = cupy().empty(part.boxes * each * 4, np.float64)
        some = grad[part.first :]
        shape, _, images, *_ = part.tables
        launch(
            "backward_boxes", call.dtype, part.boxes * each * sharing, some, strides(some),
            input, strides(input), *part.tables, part.slopes[0], part.slopes[1], parts,
        )  # fmt: skip
        launch(
            "add_parts", call.dtype, part.boxes * LANES, parts, shape, images,
            out[part.first :], np.int32(call.boxes.columns),
        )  # fmt: skip
