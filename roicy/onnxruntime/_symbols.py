"""Numbers and images that are not known, and ONNX's operators on them.

A number is an integer, or the sum of some symbols; an image is what is made of a mask.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ._patterns import FLOAT, INT64, OTHERWISE

ZERO = np.zeros(1, np.float32)
ENDLESS = 2**31 - 1  # slices to here, or further, take all that is left of an axis
MASK = ("rows", "columns")  # the axes of a mask
# Graphs can be made so that numbers double with each node.  Those of exported models are small.
MOST_TERMS, MOST_NUMBERS, MOST_BITS, DEEPEST = 99, 99, 9999, 12


class Sum:
    """A number that is not known.

    terms: the factor of each symbol.  The symbol of what is known is None.
    """

    def __init__(self, terms: dict[Any, int]):
        self.terms = terms
        self.depth = 1 + depth(tuple(terms))
        expect(len(terms) <= MOST_TERMS and self.depth <= DEEPEST)

    def __add__(self, other: Any) -> Any:
        terms = dict(self.terms)
        for symbol, factor in other.terms.items() if isinstance(other, Sum) else [(None, other)]:
            terms[symbol] = terms.get(symbol, 0) + factor
        terms = {symbol: factor for symbol, factor in terms.items() if factor}
        return Sum(terms) if terms.keys() - {None} else terms.get(None, 0)

    def __rmul__(self, factor: int) -> Sum:
        return Sum({symbol: factor * one for symbol, one in self.terms.items()})

    def __sub__(self, other: Any) -> Any:
        return self + -1 * other

    def __rsub__(self, other: int) -> Any:
        return -1 * self + other

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Sum) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    __radd__ = __add__


def depth(x: Any) -> int:
    """Return how many things lie in each other."""
    if isinstance(x, Sum):
        return x.depth
    return 1 + max(map(depth, x), default=0) if isinstance(x, (tuple, frozenset)) else 0


def bounded(made: Any) -> Any:
    """Return what a node makes, if it is no larger than what exported models make."""
    if isinstance(made, tuple):
        expect(len(made[0]) <= MOST_TERMS and depth(made) <= 2 * DEEPEST)
        return made
    array = np.asarray(made, object)
    expect(array.size <= MOST_NUMBERS)
    expect(all(one.bit_length() <= MOST_BITS for one in array.flat if isinstance(one, int)))
    return array


def extreme(of: Callable[..., int], one: Any, other: Any) -> Any:
    """Return the larger or the smaller of two numbers; of: max or min."""
    if isinstance(one, int) and isinstance(other, int):
        return of(one, other)
    return one if one == other else Sum({(of, frozenset((one, other))): 1})


def _no_numbers(*_: Any, **__: Any) -> Any:
    """Keep NumPy from taking an image for an array of its extents."""
    raise ValueError("a node that computes with pixels")


class Image(NamedTuple):
    """What is made of a mask.

    An axis is 1, which is its extent; or a name of MASK; or (operator, axis, more), where the
    operator is "Resize" to an extent, "Slice" from and to, or "Pad" with zeros before and after.
    """

    axes: tuple[Any, ...]
    __array__ = _no_numbers


class Zeros(NamedTuple):
    """An image of zeros."""

    extents: tuple[Any, ...]
    __array__ = _no_numbers


def _extent(axis: Any) -> Any:
    return 1 if axis == 1 else Sum({axis: 1})


# Operators of ONNX, on images, and arrays of numbers.  Inputs and attributes that they do not take
# are errors, as is each use of a number that has to be known and is not.


class SomethingElse(ValueError):
    """A group of nodes is not what it has to be."""


def expect(is_so: Any, why: str = OTHERWISE) -> None:
    """Raise an error if a group of nodes is not what it has to be."""
    if not is_so:
        raise SomethingElse(why)


def reason(error: Exception) -> str:
    """Return why a group is not what it has to be."""
    return str(error) if isinstance(error, SomethingElse) else OTHERWISE


def _cast(x: Any, to: int, saturate: int = 1) -> Any:
    is_whole = not isinstance(x, tuple) and all(isinstance(one, (int, Sum)) for one in x.flat)
    expect(to == INT64 if is_whole else to == FLOAT and isinstance(x, tuple))
    return x


def _concat(*parts: Any, axis: int) -> Any:
    if not isinstance(parts[0], tuple):
        return np.concatenate(parts, axis)
    ((place, image),) = [pair for pair in enumerate(parts) if isinstance(pair[1], Image)]
    axes, zeros = list(image.axes), [part.extents for part in parts if part is not image]
    for i, other in enumerate(axes):
        expect(i == axis or all(each[i] == _extent(other) for each in zeros))
    before, after = (sum(each[axis] for each in some) for some in (zeros[:place], zeros[place:]))
    axes[axis] = ("Pad", axes[axis], before, after)
    return Image(tuple(axes))


def _constant_of_shape(shape: Any, value: Any = ZERO) -> Any:
    if value.dtype.kind != "f":
        expect(math.prod(shape) <= MOST_NUMBERS)
        return np.full(shape.astype(int), value)
    expect(not value.any())
    return Zeros(tuple(shape))


def _equal(one: Any, other: Any) -> bool:
    """Compare numbers.  What is known of an extent is that it is not negative."""
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    expect(one in map(_extent, MASK) and other < 0)
    return False


def _expand(x: Image, shape: Any) -> Image:
    axes = (1,) * (len(shape) - len(x.axes)) + x.axes
    for axis, extent in zip(axes, shape, strict=True):
        expect(extent in (1, _extent(axis)))
    return Image(axes)


def _gather(x: Any, indices: Any, axis: int = 0) -> Any:
    if not isinstance(x, Image):
        return x.take(indices.astype(int), axis)
    expect(x.axes[axis] == 1 and indices.shape == () and indices.item() == 0)
    return _squeeze(x, [axis])


def _pad(x: Image, pads: Any, value: Any = ZERO, mode: str = "constant") -> Image:
    expect(mode == "constant" and (value is None or not value.any()))
    frame = zip(x.axes, *pads.reshape(2, -1), strict=True)
    return Image(tuple(one[0] if one[1:] == (0, 0) else ("Pad", *one) for one in frame))


def _reduce(
    of: Any, x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Any:
    expect(x.ndim == 1 and not noop_with_empty_axes)
    return of.reduce(x, keepdims=bool(keepdims))


def reshaped(x: Any, shape: Any, allowzero: int = 0) -> Any:
    """Return an array of another shape, of which 0 is an extent that stays."""
    extents = enumerate(shape)
    return x.reshape([x.shape[i] if n == 0 and not allowzero else n for i, n in extents])


def _resize(x: Image, roi: Any, scales: Any, sizes: Any, **given: Any) -> Image:
    how = [given["mode"], given["coordinate_transformation_mode"]]
    stretched = given.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    others = [given.get(name) for name in ("antialias", "exclude_outside", "axes")]
    expect(how == ["linear", "half_pixel"] and stretched and not any(others))
    pairs = zip(x.axes, sizes, strict=True)
    return Image(tuple(1 if pair == (1, 1) else ("Resize", *pair) for pair in pairs))


def _shape(x: Any, start: int = 0, end: int | None = None) -> Any:
    extents = map(_extent, x.axes) if isinstance(x, Image) else x.shape
    return np.array([*extents][start:end], object)


def sliced(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """Return a part of an array."""
    made = [slice(None)] * x.ndim
    steps = [1] * len(starts) if steps is None else steps
    places = range(len(starts)) if axes is None else axes
    for place, *part in zip(places, starts, ends, steps, strict=True):
        made[place] = slice(*map(int, part))
    return x[tuple(made)]


def _slice(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    if not isinstance(x, Image):
        return sliced(x, starts, ends, axes, steps)
    expect(steps is None or all(step == 1 for step in steps))
    made, places = list(x.axes), range(len(starts)) if axes is None else axes
    for place, start, end in zip(places, starts, ends, strict=True):
        if not (start == 0 and isinstance(end, int) and end >= ENDLESS):
            made[place] = ("Slice", made[place], start, end)
    return Image(tuple(made))


def squeezed(x: Any, axes: Any, one: Any) -> Any:
    """Return an image or a view without some axes; one: what an axis of extent 1 is."""
    gone = {axis % len(x.axes) for axis in axes}
    expect(all(x.axes[axis] == one for axis in gone))
    return x._replace(axes=tuple(axis for i, axis in enumerate(x.axes) if i not in gone))


def unsqueezed(x: Any, axes: Any, one: Any) -> Any:
    """Return an image or a view with more axes, of extent 1."""
    rank, left = len(x.axes) + len(axes), iter(x.axes)
    expect(rank < 16)
    made = {axis % rank for axis in axes}
    return x._replace(axes=tuple(one if i in made else next(left) for i in range(rank)))


def _squeeze(x: Any, axes: Any) -> Any:
    return squeezed(x, axes, 1) if isinstance(x, Image) else np.squeeze(x, tuple(axes))


def _unsqueeze(x: Any, axes: Any) -> Any:
    return unsqueezed(x, axes, 1) if isinstance(x, Image) else np.expand_dims(x, tuple(axes))


LARGEST, LEAST = (np.frompyfunc(functools.partial(extreme, of), 2, 1) for of in (max, min))
OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Equal": np.frompyfunc(_equal, 2, 1),
    "Expand": _expand,
    "Gather": _gather,
    "Identity": lambda x: x,
    "Max": lambda *numbers: functools.reduce(LARGEST, numbers),
    "Min": lambda *numbers: functools.reduce(LEAST, numbers),
    "Mul": np.multiply,
    "Pad": _pad,
    "ReduceMax": functools.partial(_reduce, LARGEST),
    "ReduceMin": functools.partial(_reduce, LEAST),
    "Reshape": reshaped,
    "Resize": _resize,
    "Shape": _shape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": np.subtract,
    "Unsqueeze": _unsqueeze,
    "Where": lambda condition, x, y: np.where(condition.astype(bool), x, y),
}
