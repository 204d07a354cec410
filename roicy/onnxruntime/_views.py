"""Tensors as views of others, and the nodes that only move numbers.

An extent that only a run knows is a symbol: a large number.  No symbol divides another, so that a
product tells its factors.  They look random, so that sums of them are no symbols.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ._symbols import ENDLESS, expect, squeezed, unsqueezed

PRIMES = math.prod((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47))
OPEN = 1 << 48  # numbers above it are symbols, of extents that are not known; no extent is as large
AS_IT_IS = (0.0, 1.0)


def symbol(number: int) -> int:
    """Return a symbol, which small primes do not divide; number: from 2 on, another for each."""
    return 1 + PRIMES * pow(number, 65537, 2**61 - 1)


IMAGES, QUERIES = symbol(2), symbol(3)
PIXELS = symbol(4) ** 4  # is larger than products of others


class View(NamedTuple):
    """A tensor as a view of another one, its source, which has no gaps."""

    source: str
    axes: tuple[tuple[tuple[int, int], ...], ...]  # (extent, stride), the slowest first
    limits: list[Any]  # where axes of symbols are cut, which views of a group have in common
    offset: int = 0
    ends: tuple[float, float] = AS_IT_IS  # the values of 0 and 1 of the source

    @property
    def shape(self) -> list[int]:
        """The extent of each axis."""
        return [math.prod(extent for extent, _ in axis) for axis in self.axes]

    def flat(self) -> View:
        """Return the tensor with one axis."""
        return self._replace(axes=(merged(itertools.chain(*self.axes)),))


def whole(source: str, shape: Iterable[int], limits: list[Any]) -> View:
    """Return the view that is all of a source."""
    extents = list(shape)
    strides = [math.prod(extents[i + 1 :]) for i in range(len(extents))]
    return View(
        source, tuple(merged([pair]) for pair in zip(extents, strides, strict=True)), limits
    )


def merged(factors: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the factors of an axis, with those joined that one stride can go through."""
    made: list[tuple[int, int]] = []
    for extent, stride in factors:
        if made and made[-1][1] == extent * stride:
            made[-1] = made[-1][0] * extent, stride
        elif extent != 1:
            made.append((extent, stride))
    return tuple(made)


def real(numbers: Iterable[int], counts: dict[int, int]) -> tuple[int, ...]:
    """Return numbers, with each symbol replaced by its value in a run."""
    found = [counts.get(number, number) for number in numbers]
    for one, count in counts.items():
        found = [n if n < OPEN or n % one else n // one * count for n in found]
    return tuple(found)


def is_common(extent: int) -> bool:
    """Whether an extent consists of numbers and of IMAGES, QUERIES and PIXELS."""
    return real([extent], dict.fromkeys((IMAGES, QUERIES, PIXELS), 1)) < (OPEN,)


def concat(*parts: View, axis: int) -> View:
    """Join parts of a source that follow each other at an even stride."""
    first, extents = parts[0], [part.shape[axis] for part in parts]
    found = {stride for part in parts for _, stride in part.axes[axis]}
    (stride,) = found or {parts[len(parts) > 1].offset - first.offset}
    offset, axes = first.offset, list(first.axes)
    for part, extent in zip(parts, extents, strict=True):
        axes[axis] = part.axes[axis]
        expect(part == first._replace(axes=tuple(axes), offset=offset))
        offset += extent * stride
    axes[axis] = merged([(sum(extents), stride)])
    return first._replace(axes=tuple(axes))


def cut(x: View, axis: int, first: int, last: int) -> View:
    """Return a part of an axis.  Where its extent is a symbol, a run has to see how it is cut."""
    extent, axes = x.shape[axis], list(x.axes)
    if (first, last) == (0, extent):
        return x
    start, end, _ = slice(first, last).indices(extent)
    if max(extent, first, last) > OPEN:
        x.limits.append((extent, first, last, start, end))
    expect(start < end)
    if end - start == extent:
        return x
    ((_, stride),) = axes[axis]
    axes[axis] = merged([(end - start, stride)])
    return x._replace(axes=tuple(axes), offset=x.offset + start * stride)


def _gather(x: View, indices: Any, axis: int = 0) -> View:
    index = indices.item() % x.shape[axis]
    made = cut(x, axis, index, index + 1)
    return made if indices.ndim else squeezed(made, [axis], ())


def reshape(x: View, shape: Any, allowzero: int = 0) -> View:
    """Return another shape.  An extent that is -1, or a symbol, is what the others leave."""
    expect(not (allowzero and 0 in shape) and len(shape) < 9)
    before, total = x.shape, math.prod(x.shape)
    extents = [before[i] if extent == 0 else extent for i, extent in enumerate(shape)]
    symbols = [i for i, extent in enumerate(extents) if extent > OPEN]
    for i in [extents.index(-1)] if -1 in extents else symbols:
        others = math.prod(extents[:i] + extents[i + 1 :])
        left = 0 if total % others else total // others
        extents[i] = left if extents[i] < 0 or (left > OPEN and is_common(left)) else extents[i]
    expect(min(extents, default=1) > 0 and math.prod(extents) == total)
    factors, axes = list(x.flat().axes[0]), []
    for extent in extents:
        axis = []
        while extent > 1:
            count, stride = factors.pop(0)
            part = min(count, extent)
            expect(count % part == extent % part == 0)
            axis.append((part, count // part * stride))
            if count > part:
                factors.insert(0, (count // part, stride))
            extent //= part
        axes.append(merged(axis))
    return x._replace(axes=tuple(axes))


def _slice(x: View, starts: Any, ends: Any, axes: Any = None, steps: Any = ()) -> View:
    expect(all(step == 1 for step in steps))
    for axis, start, end in zip(range(9) if axes is None else axes, starts, ends):  # noqa: B905
        is_open = end in (ENDLESS, 2**63 - 1)
        x = cut(x, axis, start, x.shape[axis] if is_open else end)
    return x


def split(x: View, sizes: Any = None, axis: int = 0, *, place: int, count: int) -> View:
    """Return one of the parts that an axis is split into."""
    if sizes is None:
        extent = x.shape[axis]
        expect(extent < OPEN or extent % count == 0)
        sizes = [-(-extent // count)] * count
    expect(len(sizes) < 99)
    return cut(x, axis, sum(sizes[:place]), sum(sizes[: place + 1]))


def transpose(x: View, perm: Any) -> View:
    """Return the tensor with some axes, in this order."""
    return x._replace(axes=tuple(x.axes[i] for i in perm))


MOVES: dict[str, Callable[..., View]] = {
    "Concat": concat, "Gather": _gather, "Identity": lambda x: x, "Reshape": reshape,
    "Slice": _slice, "Split": split, "Squeeze": functools.partial(squeezed, one=()),
    "Transpose": transpose, "Unsqueeze": functools.partial(unsqueezed, one=()),
}  # fmt: skip
