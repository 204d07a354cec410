"""A recipe: what a group computes in runs of the same extents, as numbers for ``recipes.pxd``."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

ALL = 99  # axes
MOST_AXES = 8  # of a stage: of recipes.pxd, as the operations
COPY = None
OPERATIONS = COPY, np.add, np.divide, np.multiply, np.subtract
LONG = 4096  # numbers of a row that is long enough; threads share rows


class Place(NamedTuple):
    """Where an array lies; offset and strides count bytes.

    buffer: the number of an input; then come the output and scratch.
    """

    buffer: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def is_dense(self, axes: int) -> bool:
        """Whether it has no gaps along the last axes."""
        every = [*zip(self.shape, self.strides, dense(self.shape, self.dtype), strict=True)]
        return all(stride == wanted for extent, stride, wanted in every[-axes:] if extent > 1)

    def spread(self, shape: tuple[int, ...]) -> Place:
        """Return the array with this shape, which it is broadcast to."""
        more = len(shape) - len(self.shape)
        strides = (stride * (n > 1) for n, stride in zip(self.shape, self.strides, strict=True))
        return self._replace(shape=shape, strides=(0,) * more + tuple(strides))

    def view(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Place:
        """Return a part of the array; offset and strides: in elements."""
        size = self.dtype.itemsize
        in_bytes = tuple(size * stride for stride in strides)
        return self._replace(shape=shape, strides=in_bytes, offset=self.offset + size * offset)

    def transpose(self, *order: int) -> Place:
        """Return the array with its axes in this order."""
        shape, strides = (tuple(every[i] for i in order) for every in (self.shape, self.strides))
        return self._replace(shape=shape, strides=strides)

    def numbers(self, strides: tuple[int, ...]) -> list[int]:
        """Return the numbers of struct Place."""
        room = MOST_AXES - len(strides)
        return [self.buffer, ord(self.dtype.char), self.offset, *(0,) * room, *strides]


def dense(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return the strides of an array without gaps."""
    return tuple(dtype.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))


class Recipe:
    """Stages that are to be carried out, of arrays that lie in inputs, output and scratch.

    arrays: the inputs; told: the numbers of those that have to consist of the same integers.
    """

    def __init__(self, arrays: list[Any], told: set[int]):
        self.inputs = [self.whole(i, x.shape, x.dtype) for i, x in enumerate(arrays)]
        self.output, self.scratch = len(arrays), 0
        self.axes = 0  # of any stage
        self.stages: list[list[int]] = []
        self.keys: list[int] = []
        for i, x in enumerate(arrays):
            integers = x.ravel().tolist() if i in told else []
            self.keys += [x.ndim, *x.shape, len(integers), *integers]

    def whole(self, buffer: int, shape: Any, dtype: np.dtype[Any], offset: int = 0) -> Place:
        """Return an array without gaps."""
        return Place(buffer, dtype, tuple(shape), dense(shape, dtype), offset)

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Place:
        """Return a new array of scratch."""
        made = self.whole(self.output + 1, shape, dtype, self.scratch)
        self.scratch += -(-math.prod(shape) * dtype.itemsize // 64) * 64
        return made

    def stage(self, operation: Any, to: Place, *of: Place) -> Place:
        """Set an array to what an operation makes of two others, or of one, which is copied."""
        places = [to, *(one.spread(to.shape) for one in (*of, *of)[:2])]
        rows = zip(to.shape, *(place.strides for place in places), strict=True)
        axes: list[list[int]] = []  # of extent and strides, the last first
        for extent, *strides in reversed([row for row in rows if row[0] > 1] or [(1, 0, 0, 0)]):
            if axes and axes[-1][0] < LONG and strides == [axes[-1][0] * n for n in axes[-1][1:]]:
                axes[-1][0] *= extent
            else:
                axes.append([extent, *strides])
        self.axes = max(self.axes, len(axes))
        extents, *of_places = zip(*reversed(axes), strict=True)
        numbers = [OPERATIONS.index(operation), *(1,) * (MOST_AXES - len(axes)), *extents]
        for place, strides in zip(places, of_places, strict=True):
            numbers += place.numbers(strides)
        self.stages.append(numbers)
        return to

    def densely(self, place: Place, dtype: np.dtype[Any]) -> Place:
        """Return an array of a type without gaps: itself, or a copy."""
        return self.joined([place], 0, dtype, ALL)

    def joined(self, parts: list[Place], axis: int, dtype: np.dtype[Any], dense_axes: int) -> Place:
        """Return an array of a type that consists of others along an axis: the only one if its last
        axes have no gaps, or else a new one without gaps.
        """
        one = parts[0]
        if len(parts) == 1 and one.dtype == dtype and one.is_dense(dense_axes):
            return one
        extents = [part.shape[axis] for part in parts]
        shape = (*one.shape[:axis], sum(extents), *one.shape[axis + 1 :])
        made = to = self.new(shape, dtype)
        for part in parts:
            self.stage(COPY, to._replace(shape=part.shape), part)
            to = to._replace(offset=to.offset + part.shape[axis] * to.strides[axis])
        return made

    def finish(self, call: Any, parts: list[Place], shape: Any, is_turned: bool) -> bytes:
        """Return the numbers of struct Recipe.

        call: of roicy.attention, checked; parts: value, locations and weights as it reads them;
        shape: of the result, which has channels before queries if it is turned.
        """
        kind, before = call.value.dtype, len(self.stages)
        out = made = self.whole(self.output, call.shape, kind)
        if is_turned or kind != call.computed:
            made = self.new(call.shape, call.computed)
        rows = made
        if kind != call.computed:
            made = self.stage(COPY, self.new(call.shape, kind) if is_turned else out, made)
        if is_turned:
            n, queries, channels = call.shape
            turned = self.whole(self.output, (n, channels, queries), kind)
            self.stage(COPY, turned, made.transpose(0, 2, 1))
        value, _, weights = parts
        levels, scales = call.levels
        numbers = [
            1, self.output, len(self.keys), len(shape), before, len(self.stages) - before,
            self.scratch, *value.shape[:2], *weights.shape[1:], value.shape[3],
        ]  # fmt: skip
        for place in (*parts, rows):
            numbers += place.numbers(place.strides)
        numbers += [*self.keys, *shape, *itertools.chain(*self.stages)]
        return np.array(numbers, np.int64).tobytes() + scales.tobytes() + levels.tobytes()
