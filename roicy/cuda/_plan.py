"""
Plans of calls: everything about a call that does not depend on where its arrays lie.

A plan is kept for later calls with arrays of the same shapes and strides and with the same
parameters.  So it holds no memory of the device.  What a pass needs is prepared at its first run:
the kernels with their grids, the structures that they take, and where tables lie in the scratch
memory of the call.
"""

from __future__ import annotations

import functools
import struct
import threading
from typing import Any, NamedTuple

import numpy as np

from .. import _arguments, _levels
from .._arguments import Layout
from .._kernels.plan import RULES
from .._levels import Scale, Shape
from .._table import CORNERS, Operator, Rule
from ._launch import LANES, MOST_LEVELS, NULL, STRUCTURES, Launch, launch, structure

# The tables of the boxes are bounded: those of one step.
TABLE_BYTES = 128 << 20
MOST_PLANS = 256  # that are kept


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
        self.results: Any = None  # shapes of the gradients of maps
        self.near = True  # planes of the maps span less than 2**31 elements
        self.passes: dict[Any, Any] = {}

    def set_levels(self, scales: list[Scale], canonical: tuple[float, int] | None) -> None:
        """Set the scales of the levels; canonical: of a pyramid."""
        self.canonical = canonical
        self.levels = [Level(*size, scale) for size, scale in zip(self.sizes, scales, strict=True)]

    def prepared(self, make: Any) -> Any:
        """Return make(self), which is made once."""
        known = self.passes.get(make)
        if known is None:
            known = self.passes[make] = make(self)
        return known

    def groups(self) -> list[range]:
        """Return the levels of each launch."""
        last = len(self.levels)
        return [range(i, min(i + MOST_LEVELS, last)) for i in range(0, last, MOST_LEVELS)]

    def shape(self, levels: range, boxes: int) -> np.ndarray:
        """Return the sizes of a launch; the map has those of the largest level."""
        return structure(
            "Shape", self.images, self.channels, max(self.levels[i].rows for i in levels),
            max(self.levels[i].columns for i in levels), boxes, *self.bins,
            self.row.position_sensitive, self.layout.axes is not None,
        )  # fmt: skip

    def pyramid(self, levels: range) -> np.ndarray:
        """Return the rule that gives boxes a level, and the levels of a launch."""
        made = np.zeros((), STRUCTURES["Pyramid"])
        made["first"], made["count"] = levels.start, len(levels)
        if self.canonical is not None:
            scales = [level.scale for level in self.levels]
            made["last"] = _levels.last_map(len(scales), scales[0], scales[-1])
            made["finest"] = _levels.level_of_scale(scales[0])
            made["canonical_scale"], made["canonical_level"] = self.canonical
            made["close"] = _levels.CLOSE
        for at, i in enumerate(levels):
            rows, columns, scale = self.levels[i]
            vertical, horizontal = (float(self.real(number)) for number in scale)
            made["at"][at] = (rows, columns, vertical, horizontal)
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


address = np.uint64


class Step(NamedTuple):
    """Some boxes of some levels, and where their tables lie."""

    first: int
    boxes: int
    levels: range
    shape: np.ndarray
    launch: Launch
    setup: np.ndarray
    room: np.ndarray
    offsets: dict[str, int]

    def make_tables(self, rows: Any, images: Any, base: int) -> None:
        """Make the tables in the scratch memory at `base`."""
        first = self.first
        if first:
            rows = rows[first:]
            images = None if images is None else images[first:]
        self.launch(rows, NULL if images is None else images, address(base), self.setup)

    def at(self, base: int, *names: str) -> list[np.uint64]:
        """Return the addresses of tables."""
        return [address(base + self.offsets[name]) for name in names]


def _room(plan: Plan, levels: range) -> tuple[int, int, int]:
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
    y = min(max(plan.levels[i].rows for i in levels), 2 * ratio)
    x = min(max(plan.levels[i].columns for i in levels), 2 * ratio)
    return y, x, plan.bins[0] * y + plan.bins[1] * x


def _sizes_of_tables(plan: Plan, slots: int, slopes: bool, windows: bool) -> dict[str, int]:
    """Return the bytes of each table for a box, 0 where a table is not wanted."""
    size = plan.dtype.itemsize
    return {
        "images": 4,
        "levels": 4 * (len(plan.levels) > 1),
        "counts": 4 * sum(plan.bins),
        "taps": 2 * size * slots,
        "slope_low": size * slots * slopes,
        "slope_high": size * slots * slopes,
        "windows": 16 * windows,
    }


def setup_of(plan: Plan, levels: range, shape: np.ndarray) -> np.ndarray:
    """Return what the set-up of boxes needs to know, but for tables."""
    setup = np.zeros((), STRUCTURES["Setup"])
    setup["rule"], setup["shape"] = plan.rule, shape
    setup["columns"], setup["numbers"] = plan.columns, len(plan.row.box)
    setup["pyramid"] = plan.pyramid(levels)
    return setup


def steps(
    plan: Plan, scratch: Scratch, slopes: bool = False, windows: bool = False, most: int = 2**31
) -> list[Step]:
    """
    Return the steps of a pass: as many boxes at a time as there is room for, at most `most`.

    Steps use the same tables one after the other.
    """
    name = "tables_with_slopes" if slopes else "tables"
    lanes = min(LANES, 1 << (max(plan.bins) - 1).bit_length())
    made = []
    for levels in plan.groups():
        y, x, slots = _room(plan, levels)
        sizes = _sizes_of_tables(plan, slots, slopes, windows)
        count = max(min(plan.count, TABLE_BYTES // sum(sizes.values()), most), 1)
        own = Scratch()
        offsets = {n: own.room(count * size) if size else -1 for n, size in sizes.items()}
        scratch.bytes = max(scratch.bytes, own.bytes)
        room = structure("Room", y, x, slots)
        for first in range(0, plan.count, count):
            boxes = min(count, plan.count - first)
            shape = plan.shape(levels, boxes)
            setup = setup_of(plan, levels, shape)
            setup["room"], setup["lanes"] = room, lanes
            for table, offset in offsets.items():
                setup[table] = offset
            run = launch(name, plan.dtype, 2 * boxes * lanes)
            made.append(Step(first, boxes, levels, shape, run, setup, room, offsets))
    return made


def strides(array: Any) -> np.ndarray:
    """Return the strides of an array seen as (N, C, H, W), in elements."""
    size = array.dtype.itemsize
    first, channel, y, x = array.strides
    return structure("Strides", first // size, channel // size, y // size, x // size)


@functools.lru_cache(256)
def _maps(sizes: tuple[Any, ...], of_bytes: tuple[Any, ...], itemsize: int) -> bytes:
    """Return maps of these sizes and strides, without their addresses."""
    made = np.zeros((), MAPS)
    made["count"] = len(sizes)
    for at, (shape, each) in enumerate(zip(sizes, of_bytes, strict=True)):
        made["at"][at] = (0, tuple(stride // itemsize for stride in each), *shape[2:])
    return made.tobytes()


MAPS = STRUCTURES["Maps"]
_ADDRESS = struct.Struct("=Q")
# Where a structure holds the levels of boxes, and the pixels of the first map and of the next ones.
_OF_LEVELS, _OF_PIXELS = MAPS.fields["levels"][1], MAPS.fields["at"][1]  # type: ignore[index]
_NEXT = MAPS.fields["at"][0].base.itemsize  # type: ignore[index]


def maps_of(
    plan: Plan, levels: range, arrays: list[Any], of_boxes: int | None = None
) -> np.ndarray:
    """
    Return the maps of a launch.

    arrays: of all levels, seen as (N, C, H, W); of_boxes: where the levels of boxes lie.
    """
    some = arrays if len(levels) == len(arrays) else arrays[levels.start : levels.stop]
    sizes, of_bytes = tuple(a.shape for a in some), tuple(a.strides for a in some)
    made = bytearray(_maps(sizes, of_bytes, plan.dtype.itemsize))
    put = _ADDRESS.pack_into
    for at, array in enumerate(some):
        put(made, _OF_PIXELS + at * _NEXT, array.data.ptr)
    if of_boxes is not None:
        put(made, _OF_LEVELS, of_boxes)
    return np.ndarray((), MAPS, made)


class Kept:
    """
    Plans that are kept by their keys, the latest ones.

    Threads may look for plans while others add some.
    """

    def __init__(self, most: int = MOST_PLANS):
        self.most = most
        self.plans: dict[Any, Plan] = {}
        self.lock = threading.Lock()

    def get(self, key: Any) -> Plan | None:
        """Return the plan of a key, if there is one."""
        return self.plans.get(key)

    def add(self, key: Any, plan: Plan) -> None:
        """Keep a plan, and forget the oldest one if there are too many."""
        with self.lock:
            self.plans[key] = plan
            while len(self.plans) > self.most:
                del self.plans[next(iter(self.plans))]

    def clear(self) -> None:
        """Forget all plans."""
        with self.lock:
            self.plans.clear()


KEPT = Kept()


def exactly(value: Any) -> Any:
    """
    Return a key that is equal only for equal values of equal types, since some types are errors.

    Raises TypeError for values of other types than plain ones.
    """
    kind = type(value)
    if kind is int or kind is float or kind is bool or value is None:
        return kind, value
    if kind is tuple or kind is list:
        return (kind, *map(exactly, value))
    if isinstance(value, np.number):
        return kind, value
    raise TypeError(f"{kind} has no key")
