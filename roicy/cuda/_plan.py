"""Plans of calls, and the steps in which a call takes its boxes.

A plan holds what depends only on shapes, types and parameters, and is kept for later calls.  So it
holds no memory of the device.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._checks import _arguments
from .._checks._arguments import layout_of
from .._checks._levels import Scale, Shape
from .._kernels.plan import ROTATED_BYTES, Rule
from .._table import CORNERS, MAX_PIXEL, Operator
from ._arrays import Boxes
from ._launch import CHANNELS_OF_THREAD, LANES, STRUCTURES, TABLES, cupy, launch

TABLE_BYTES = 128 << 20  # of the tables of a step
MOST_PLANS = 256  # that are kept


class Plan:
    """What calls of equal shapes and parameters have in common."""

    def __init__(
        self, operator: Operator, rule: Rule, layout: str, dtype: np.dtype, bins: tuple[int, int],
        levels: tuple[tuple[Shape, Scale], ...], level_rule: tuple[int | float, ...],
        boxes: tuple[int, int],
    ):  # fmt: skip
        """level_rule: of ``_levels.rule``, empty for a single map; boxes: the shape of rows."""
        self.operator, self.rule, self.bins, self.dtype = operator, rule, bins, dtype
        self.layout, self.levels, self.level_rule = layout_of(layout), levels, level_rule
        self.count, self.columns = boxes
        self.rotated = operator.box != CORNERS
        self.map_size = levels[0][0]
        self.images, c, *_ = self.map_size
        self.channels = _arguments.channels(c, bins, operator.position_sensitive)
        self.lanes = min(LANES, 1 << (max(bins) - 1).bit_length())
        self.groups = -(-self.channels // CHANNELS_OF_THREAD)
        self.output_shape = self.layout.shape(self.count, self.channels, *bins)
        self.sizes = [shape[2:] for shape, _ in levels]
        # Nothing is read or written: outputs and gradients are zeros.
        pixels = any(h and w for h, w in self.sizes)
        self.empty = not (self.count and self.channels and self.images and pixels)

    def room(self) -> tuple[int, int, int]:
        """Return for how many taps a bin has room along y and x, and a box in all.

        How many taps a bin has is not known without a look at the boxes.  With an adaptive
        sampling_ratio each of them could need room for every pixel of the axis.  The bins of an
        axis together need little more than that, but then kernels would have to look up where the
        taps of a bin begin, which takes more time than room that nobody touches.
        """
        if self.rotated:
            return 0, 0, 0
        if self.operator.reduction is MAX_PIXEL:
            return 1, 1, sum(self.bins)
        most = 2 * self.rule.sampling_ratio if self.rule.sampling_ratio > 0 else 2**31
        y, x = (min(max(sides), most) for sides in zip(*self.sizes, strict=True))
        return y, x, self.bins[0] * y + self.bins[1] * x

    def bytes_of_tables(self) -> dict[str, int]:
        """Return the bytes of each table for a box."""
        if self.rotated:
            taps = {"rotated": ROTATED_BYTES}
        else:
            room, size = self.room()[2], self.dtype.itemsize
            taps = {
                "counts": 4 * sum(self.bins),
                "taps": 2 * size * room,
                "slope_low": size * room,
                "slope_high": size * room,
                "windows": 16,
            }
        sums = 8 * len(self.operator.box) * math.prod(self.bins) * self.groups
        return {"images": 4, "levels": 4 * (len(self.levels) > 1), **taps, "partial_sums": sums}

    def tables(self) -> np.ndarray:
        """Return the structure of the tables, without what depends on the step."""
        made = np.zeros((), STRUCTURES["Tables"])
        made["shape"] = (
            0, self.images, self.channels, *self.bins, self.operator.position_sensitive,
            self.layout.axes is not None,
        )  # fmt: skip
        made["columns"], made["numbers"] = self.columns, len(self.operator.box)
        made["lanes"] = self.lanes
        made["room"], made["rule"] = self.room(), self.rule.numbers()
        if self.level_rule:
            made["level_rule"] = self.level_rule
        real = self.dtype.type
        for at, ((*_, rows, columns), scale) in enumerate(self.levels):
            made["at"][at] = (rows, columns, *(float(real(number)) for number in scale))
        return made


plan_of = functools.lru_cache(MOST_PLANS)(Plan)


class DeviceCall:
    """A call with checked arguments: a plan, and the arrays of the call."""

    def __init__(self, plan: Plan, boxes: Boxes, out: Any):
        self.plan, self.out = plan, out
        self.rows, self.images, self.counts = boxes
        self.maps: list[Any] = []  # that it reads
        self.dtype, self.count, self.output_shape = plan.dtype, plan.count, plan.output_shape
        self.layout = plan.layout
        self.device = boxes.rows.device

    def map_size(self) -> Shape:
        """Return (N, C, H, W) of the first level."""
        return self.plan.map_size

    def seen(self, arrays: list[Any]) -> list[Any]:
        """Return arrays seen as (N, C, H, W)."""
        return [self.layout.nchw(array) for array in arrays]


class Scratch(NamedTuple):
    """The scratch memory of a call: the boxes that it has room for, and where tables lie in it."""

    boxes: int
    size: int
    offsets: tuple[int | None, ...]
    tables: bytes  # the structure, without what depends on the step


@functools.lru_cache(MOST_PLANS)
def _scratch(plan: Plan, wanted: tuple[str, ...], most: int) -> Scratch:
    """Return the scratch memory for some tables, `most` bytes if these are enough for a box."""
    sizes = plan.bytes_of_tables()
    sizes = {table: sizes[table] for table in wanted if sizes.get(table)}
    boxes = max(min(plan.count, most // sum(sizes.values())), 1) if sizes else plan.count
    offsets, end = {}, 0
    for table, size in sizes.items():
        offsets[table] = end
        end += -(-boxes * size // 256) * 256
    return Scratch(boxes, end, tuple(map(offsets.get, TABLES)), plan.tables().tobytes())


# What structures begin with that differs from call to call.
STEP_HEADER, _ADDRESS = struct.Struct(f"={2 + len(TABLES)}Q2i"), struct.Struct("=Q")
_PIXELS = STRUCTURES["Maps"].fields["at"][1]  # type: ignore[index]
_OF_MAP = STRUCTURES["Maps"]["at"].base.itemsize


class Step(NamedTuple):
    """Some boxes of a call, with their tables."""

    first: int
    boxes: int
    tables: np.ndarray

    def of(self, array: Any) -> Any:
        """Return the part of an array (K, ...) that belongs to the boxes, up to its end."""
        return array[self.first :] if self.first else array


def steps(call: DeviceCall, *wanted: str) -> Iterator[Step]:
    """Take as many boxes at a time as there is room for, and make the tables of these.

    wanted: which tables.  All steps use the same memory one after the other.  It belongs to the
    current stream, as the kernels do, and is free when the last step has been taken.
    """
    plan = call.plan
    scratch = _scratch(plan, wanted, TABLE_BYTES)
    memory = cupy().cuda.alloc(scratch.size) if scratch.size else None
    addresses = [0 if at is None or memory is None else memory.ptr + at for at in scratch.offsets]
    for first in range(0, plan.count, scratch.boxes):
        boxes = min(scratch.boxes, plan.count - first)
        rows = call.rows.data.ptr + first * call.rows.strides[0]
        images = 0 if call.images is None else call.images.data.ptr + 4 * first
        made = bytearray(scratch.tables)
        STEP_HEADER.pack_into(made, 0, rows, images, *addresses, first > 0, boxes)
        tables = np.ndarray((), STRUCTURES["Tables"], made)
        if memory is not None and plan.rotated:
            launch("make_rotated_tables", boxes, plan.dtype, tables)
        elif memory is not None:
            launch("make_tables", 2 * boxes * plan.lanes, plan.dtype, tables)
        yield Step(first, boxes, tables)


@functools.lru_cache(1024)
def _strides(of_bytes: tuple[int, ...], itemsize: int) -> np.ndarray:
    return np.array(tuple(stride // itemsize for stride in of_bytes), STRUCTURES["Strides"])


def strides(array: Any) -> np.ndarray:
    """Return the strides of an array seen as (N, C, H, W), in elements."""
    return _strides(array.strides, array.dtype.itemsize)


@functools.lru_cache(MOST_PLANS)
def _maps(sizes: tuple[Any, ...], of_bytes: tuple[Any, ...], itemsize: int) -> bytes:
    """Return maps of these sizes and strides, without their addresses."""
    made = np.zeros((), STRUCTURES["Maps"])
    made["count"] = len(sizes)
    for at, (shape, each) in enumerate(zip(sizes, of_bytes, strict=True)):
        made["at"][at] = (0, tuple(stride // itemsize for stride in each), *shape[2:])
    return made.tobytes()


def maps_of(arrays: list[Any]) -> np.ndarray:
    """Return the maps of a launch; arrays: of all levels, seen as (N, C, H, W)."""
    sizes, of_bytes = tuple(a.shape for a in arrays), tuple(a.strides for a in arrays)
    made = bytearray(_maps(sizes, of_bytes, arrays[0].dtype.itemsize))
    for at, array in enumerate(arrays):
        _ADDRESS.pack_into(made, _PIXELS + at * _OF_MAP, array.data.ptr)
    return np.ndarray((), STRUCTURES["Maps"], made)
