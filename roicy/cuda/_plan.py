"""
Plans of calls: everything about a call that does not depend on where its arrays lie.

A plan is kept for later calls (``_kept.py``), so it holds no memory of the device.  What a pass
needs is prepared at its first run: the kernels with their grids, the structures that they take, and
where tables lie in the scratch memory of the call.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, NamedTuple

import numpy as np

from .. import _arguments, _levels
from .._arguments import Layout
from .._kernels.plan import RULES
from .._levels import Scale, Shape
from .._table import CORNERS, Operator, Rule
from ._launch import (
    LANES,
    ROTATED_BYTES,
    STRUCTURES,
    TABLES,
    Launch,
    launch,
    structure,
)

# The tables of the boxes are bounded: those of one step.
TABLE_BYTES = 128 << 20


class Level(NamedTuple):
    """A map of a call: its size, and its scales."""

    rows: int
    columns: int
    scale: Scale


class Plan:
    """What calls of equal shapes and parameters have in common."""

    def __init__(
        self,
        row: Operator,
        rule: Rule,
        layout: Layout,
        dtype: np.dtype,
        bins: tuple[int, int],
        shapes: tuple[Shape, ...],
        boxes: tuple[int, int],
    ):
        """boxes: the shape of the rows of boxes."""
        self.row, self.rule, self.layout, self.bins = row, rule, layout, bins
        self.dtype = dtype
        self.real = dtype.type
        self.count, self.columns = boxes
        self.rotated = row.box != CORNERS
        self.images, c, *_ = shapes[0]
        self.channels = _arguments.channels(c, bins, row.position_sensitive)
        self.map_size = shapes[0]
        self.output_shape = layout.shape(self.count, self.channels, *bins)
        self.sizes = [shape[2:] for shape in shapes]
        self.levels: list[Level] = []
        self.canonical: tuple[float, int] | None = None
        # Nothing is read or written: outputs and gradients are zeros.
        pixels = any(h and w for h, w in self.sizes)
        self.empty = not (self.count and self.channels and self.images and pixels)
        self.near = True  # planes of the maps span less than 2**31 elements
        self.passes: dict[Any, Any] = {}

    def set_levels(self, scales: list[Scale], canonical: tuple[float, int] | None) -> None:
        """Set the scales of the levels; canonical: of a pyramid."""
        self.canonical = canonical
        self.levels = [Level(*size, scale) for size, scale in zip(self.sizes, scales, strict=True)]

    def prepared(self, make: Any, *parameters: Any) -> Any:
        """Return make(self, *parameters), which is made once."""
        known = self.passes.get((make, parameters))
        if known is None:
            known = self.passes[make, parameters] = make(self, *parameters)
        return known

    def shape(self, boxes: int) -> np.ndarray:
        """Return the sizes of a launch; the map has those of the largest level."""
        return structure(
            "Shape", self.images, self.channels, max(level.rows for level in self.levels),
            max(level.columns for level in self.levels), boxes, *self.bins,
            self.row.position_sensitive, self.layout.axes is not None,
        )  # fmt: skip

    def setup(self, kind: int | None = None) -> np.ndarray:
        """Return what the set-up of boxes needs to know; kind: of a rule, if it is another."""
        made = np.zeros((), STRUCTURES["Setup"])
        made["rule"] = self.rule
        if kind is not None:
            made["rule"]["kind"] = kind
        made["lanes"] = min(LANES, 1 << (max(self.bins) - 1).bit_length())
        pyramid = made["pyramid"]
        if self.canonical is not None:
            finest, coarsest = self.levels[0].scale, self.levels[-1].scale
            pyramid["rule"] = _levels.rule(len(self.levels), finest, coarsest, *self.canonical)
        for at, (rows, columns, scale) in enumerate(self.levels):
            vertical, horizontal = (float(self.real(number)) for number in scale)
            pyramid["at"][at] = (rows, columns, vertical, horizontal)
        return made


class Scratch:
    """The layout of the scratch memory of a call, which is one allocation."""

    def __init__(self) -> None:
        self.bytes = 0

    def room(self, size: int) -> int:
        """Return where an array of so many bytes begins."""
        begin = self.bytes
        self.bytes += -(-size // 256) * 256
        return begin


_ADDRESSES = struct.Struct(f"={len(TABLES)}Q")
# Where structures hold addresses.
_OF_TABLES = STRUCTURES["Tables"].fields["images"][1]  # type: ignore[index]
_OF_PIXELS = STRUCTURES["Maps"].fields["at"][1]  # type: ignore[index]
_NEXT = STRUCTURES["Maps"]["at"].base.itemsize
_ADDRESS = struct.Struct("=Q")


class Step(NamedTuple):
    """Some boxes, and where their tables lie."""

    first: int
    boxes: int
    make: Launch
    setup: np.ndarray
    without_addresses: bytes  # the structure Tables
    offsets: tuple[int | None, ...]  # of tables in scratch memory

    def tables(self, base: int) -> np.ndarray:
        """Return the structure of the tables in the scratch memory at `base`."""
        made = bytearray(self.without_addresses)
        addresses = [0 if offset is None else base + offset for offset in self.offsets]
        _ADDRESSES.pack_into(made, _OF_TABLES, *addresses)
        return np.ndarray((), STRUCTURES["Tables"], made)


def _room(plan: Plan) -> tuple[int, int, int]:
    """
    Return the slots of a bin along y and x, and those of a box.

    How many taps a bin has is not known without a look at the boxes.  With an adaptive
    sampling_ratio each of them could need a slot for every pixel of the axis.  The bins of an axis
    together need little more than that, but then kernels would have to look up where the slots of
    a bin begin, which takes more time than slots that nobody touches.
    """
    kind, sampling_ratio, *_ = plan.rule
    if kind == RULES["quantised"]:
        return 1, 1, sum(plan.bins)
    ratio = sampling_ratio if sampling_ratio > 0 else 2**30
    y = min(max(level.rows for level in plan.levels), 2 * ratio)
    x = min(max(level.columns for level in plan.levels), 2 * ratio)
    return y, x, plan.bins[0] * y + plan.bins[1] * x


def _bytes_of_tables(plan: Plan, slots: int, slopes: bool, windows: bool) -> dict[str, int]:
    """Return the bytes of each table for a box, 0 where a table is not wanted."""
    of_all = {"images": 4, "levels": 4 * (len(plan.levels) > 1)}
    if plan.rotated:
        return of_all | {"rotated": ROTATED_BYTES}
    size = plan.dtype.itemsize
    return of_all | {
        "counts": 4 * sum(plan.bins),
        "taps": 2 * size * slots,
        "slope_low": size * slots * slopes,
        "slope_high": size * slots * slopes,
        "windows": 16 * windows,
    }


def steps(
    plan: Plan, scratch: Scratch, slopes: bool = False, windows: bool = False, most: int = 2**31
) -> list[Step]:
    """
    Return the steps of a pass: as many boxes at a time as there is room for, at most `most`.

    Steps use the same tables one after the other.
    """
    room = (0, 0, 0) if plan.rotated else _room(plan)
    bytes = _bytes_of_tables(plan, room[2], slopes, windows)
    count = max(min(plan.count, TABLE_BYTES // sum(bytes.values()), most), 1)
    begins = {table: scratch.room(count * size) for table, size in bytes.items() if size}
    offsets = tuple(map(begins.get, TABLES))
    setup = plan.setup()
    made = []
    for first in range(0, plan.count, count):
        boxes = min(count, plan.count - first)
        tables = np.zeros((), STRUCTURES["Tables"])
        tables["shape"], tables["room"], tables["add"] = plan.shape(boxes), room, first > 0
        name = "tables_of_rotated" if plan.rotated else "tables"
        threads = boxes if plan.rotated else 2 * boxes * int(setup["lanes"])
        run = launch(name, threads, plan.dtype)
        made.append(Step(first, boxes, run, setup, tables.tobytes(), offsets))
    return made


def strides(array: Any) -> np.ndarray:
    """Return the strides of an array seen as (N, C, H, W), in elements."""
    size = array.dtype.itemsize
    first, channel, y, x = array.strides
    return structure("Strides", first // size, channel // size, y // size, x // size)


@functools.lru_cache(256)
def _maps(sizes: tuple[Any, ...], of_bytes: tuple[Any, ...], itemsize: int) -> bytes:
    """Return maps of these sizes and strides, without their addresses."""
    made = np.zeros((), STRUCTURES["Maps"])
    made["count"] = len(sizes)
    for at, (shape, each) in enumerate(zip(sizes, of_bytes, strict=True)):
        made["at"][at] = (0, tuple(stride // itemsize for stride in each), *shape[2:])
    return made.tobytes()


def maps_of(plan: Plan, arrays: list[Any]) -> np.ndarray:
    """Return the maps of a launch; arrays: of all levels, seen as (N, C, H, W)."""
    sizes, of_bytes = tuple(a.shape for a in arrays), tuple(a.strides for a in arrays)
    made = bytearray(_maps(sizes, of_bytes, plan.dtype.itemsize))
    for at, array in enumerate(arrays):
        _ADDRESS.pack_into(made, _OF_PIXELS + at * _NEXT, array.data.ptr)
    return np.ndarray((), STRUCTURES["Maps"], made)


_GIVEN = struct.Struct("=QQii")


def given(plan: Plan, rows: Any, images: Any, first: int = 0) -> np.ndarray:
    """Return the boxes from number `first` on as the caller gave them."""
    return np.ndarray(
        (), STRUCTURES["Given"], _GIVEN.pack(
            rows.data.ptr + first * rows.strides[0],
            0 if images is None else images.data.ptr + first * images.strides[0],
            plan.columns, len(plan.row.box),
        )
    )  # fmt: skip
