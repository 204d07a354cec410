"""A group of nodes that is deformable attention, as it is computed.

It is one call.  Where a run has extents for which the nodes compute something else, they are
computed one by one.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from .. import attention
from . import _patterns
from ._recipe import ALL, MOST_AXES, Place, Recipe
from ._symbols import expect, reshaped, sliced
from ._views import OPEN, View, real

AXES = 1, 3, 3  # of levels: in value (N, S, M, D), locations (N, Q, M, T, 2), weights
UFUNCS = {"Add": np.add, "Div": np.divide, "Mul": np.multiply, "Sub": np.subtract}
DTYPES = {1: "f4", 6: "i4", 7: "i8", 10: "f2", 11: "f8"}  # by their numbers in ONNX
DEEPEST = 6  # terms of locations


def _div(x: Any, y: Any) -> Any:
    if x.dtype.kind == "f":
        return np.divide(x, y)
    return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))


def _grid_sample(x: Any, grid: Any, *, threads: int | None, **_: Any) -> Any:
    (n, channels, height, width), (_, rows, columns, _) = x.shape, grid.shape
    value = x.reshape(n, channels, 1, height * width).transpose(0, 3, 2, 1)
    places = (grid.astype(np.result_type(grid, np.float32)) + 1) / 2
    places = places.reshape(len(grid), rows * columns, 1, 1, 1, 2)
    ones = np.ones(places.shape[:-1], places.dtype)
    made = attention.deformable_attention(
        value, [(height, width)], places, ones, num_threads=threads
    )
    return made.transpose(0, 2, 1).reshape(n, channels, rows, columns)


def _reduce_sum(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    if (axes is None or not len(axes)) and noop_with_empty_axes:
        return x
    gone = tuple(axes) if axes is not None and len(axes) else None
    return np.asarray(x.sum(gone, keepdims=bool(keepdims)), x.dtype)


def _split(x: Any, sizes: Any = None, axis: int = 0, *, count: int, **_: Any) -> Any:
    if sizes is None:
        sizes = [-(-x.shape[axis] // count)] * (count - 1)
        sizes.append(x.shape[axis] - sum(sizes))
    if sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise ValueError(f"{x.shape[axis]} are split into {list(sizes)}")
    return np.split(x, np.cumsum(sizes)[:-1], axis)


# What nodes compute: those that may be in a group, whatever they are for, and those that sum
LIGHT: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Cast": lambda x, to, **_: x.astype(DTYPES[to]),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Div": _div,
    "Gather": lambda x, indices, axis=0: x.take(indices, axis),
    "Identity": lambda x: x,
    "Mul": np.multiply,
    "Reshape": reshaped,
    "Shape": lambda x, start=0, end=None: np.array(x.shape[start:end], np.int64),
    "Slice": sliced,
    "Split": _split,
    "Squeeze": lambda x, axes=None: np.squeeze(x, None if axes is None else tuple(axes)),
    "Sub": np.subtract,
    "Sum": lambda *terms: functools.reduce(np.add, terms),
    "Transpose": lambda x, perm=None: x.transpose(perm),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
}
NODES = LIGHT | {
    "Einsum": lambda *factors, equation: np.einsum(equation, *factors),
    "GridSample": _grid_sample,
    "MatMul": np.matmul,
    "ReduceSum": _reduce_sum,
}


def takes(node: Any, needed: Any) -> bool:
    """Whether a node may be in a group, whose samples and sums are needed."""
    if node in needed or node.domain or node.op_type not in LIGHT:
        return node in needed
    return node.op_type != "Cast" or node.attributes["to"] in DTYPES


class Group(NamedTuple):
    """Nodes that are needed, values that may be made inside, the last node, and its result: its
    shape, and whether channels are before queries.
    """

    needed: set[Any]
    inside: set[str]
    end: Any
    shape: list[int]
    is_turned: bool


class Levels(NamedTuple):
    """The size of each level, its points, and the name of its map."""

    sizes: list[list[int]]
    points: list[int]
    maps: list[str]


class Attention(_patterns.Group):
    """A group that is a call of deformable_attention.  It has recipes, and no numbers.

    parts: views of value, locations and weights, of all levels or of each.
    """

    def __init__(self, layouts: Any, group: Group, parts: list[list[View]], levels: Levels):
        graph, self.sizes, self.points = layouts.graph, levels.sizes, levels.points
        self.result, self.is_turned = group.shape, group.is_turned
        (self.output,) = group.end.outputs
        self.title = f"deformable attention of {len(self.sizes)} levels -> {self.output!r}"
        self.sources = list(dict.fromkeys(view.source for view in itertools.chain(*parts)))
        self.shapes = [layouts.known[source].shape for source in self.sources]
        # Sums that make locations are computed here too, since ONNX Runtime takes long for them.
        names: dict[str, None] = {}
        self.terms: dict[str, Any] = {}
        at = {view.source for view in parts[1]}
        for one in self.sources:
            layouts.terms(one, group.inside if one in at else (), names, self.terms, DEEPEST)
        # A size that no source tells is read from the shape that a Reshape is given.
        told = {*itertools.chain(*self.shapes)}
        shaped = [
            (size, layouts.node(x, "Reshape"))
            for size, x in zip(self.sizes, levels.maps, strict=True)
            if max({*size} - told, default=0) > OPEN
        ]
        self.open = [(size, node.inputs[1]) for size, node in shaped]
        expect(all(list(layouts.value(name))[2:] == size for size, name in self.open))
        outside = {*names, *(name for _, name in self.open)}
        takes_too = functools.partial(takes, needed=group.needed)
        self.nodes = _patterns.closed(graph, group.end, outside, layouts.readers, takes_too)
        in_order = sorted(self.nodes, key=layouts.order.__getitem__)
        self.steps = [(one.op_type, one.attributes, one.inputs, one.outputs) for one in in_order]
        made = {name for node in self.nodes for name in node.outputs}
        read = {name for node in self.nodes for name in node.inputs if name} - made
        constants = [(name, graph.constant(name)) for name in read - outside]
        self.constants = {
            name: array.copy() for name, array in constants if array is not None and array.size < 99
        }
        self.inputs = sorted(read - self.constants.keys())
        expect(outside <= read and group.needed <= {*self.nodes})
        expect({graph.type_of(name) for name in self.inputs} <= DTYPES.keys())
        self.parts = [[self._placed(view) for view in part] for part in parts]
        self.limits = set(layouts.limits)
        symbols = {*itertools.chain(*self.shapes, *self.sizes), *_ends(self.sizes)}
        numbers = [self.points, *(numbers for _, numbers in itertools.chain(*self.parts))]
        counts = {symbol: 2 for symbol in symbols if symbol > OPEN}
        expect(max(real(itertools.chain(*numbers, *self.limits), counts)) < OPEN)

    def _placed(self, view: View) -> tuple[int, list[int]]:
        """Return the number of the input of a view, and its offset, extents and strides."""
        expect(all(len(axis) < 2 for axis in view.axes))
        strides = [sum(stride for _, stride in axis) for axis in view.axes]
        return self.sources.index(view.source), [view.offset, *view.shape, *strides]

    def run(self, arrays: list[Any], output: Any) -> bytes | None:
        """Return the recipe of the sums for runs as this one; or compute them, and return None."""
        given = dict(zip(self.inputs, arrays, strict=True))
        recipe = Recipe(arrays, {self.inputs.index(name) for _, name in self.open})
        places = self._sources(recipe)
        counts, unlike = self._counts(given, places)
        if not unlike and recipe.axes <= MOST_AXES:
            return self._finish(recipe, places, counts)
        with np.errstate(all="ignore"):
            made = self._one_by_one(given, unlike)
        output(made.shape)[...] = made
        return None

    def _sources(self, recipe: Recipe) -> list[Place]:
        """Return the sources, with stages that compute what is not given.  The last three axes are
        made contiguous, so that rows are long.
        """
        made = dict(zip(self.inputs, recipe.inputs, strict=True))
        uses = collections.Counter(itertools.chain(self.sources, *self.terms.values()))
        for name, (ufunc, *names) in self.terms.items():
            of = [made[one] for one in names]
            shape = np.broadcast_shapes(*(one.shape for one in of))
            wide = [
                recipe.densely(one.spread((*one.shape[:-3], *shape[-3:])), one.dtype) for one in of
            ]
            done = [
                place
                for one, place in zip(names, wide, strict=True)
                if uses[one] == 1 and place.shape == shape and place.buffer > recipe.output
            ]
            to = done[0] if done else recipe.new(shape, wide[0].dtype)
            made[name] = recipe.stage(ufunc, to, *wide)
        return [made[name] for name in self.sources]

    def _finish(self, recipe: Recipe, places: list[Place], counts: dict[int, int]) -> bytes:
        """Return a recipe whose stages make the sources."""
        parts = [
            [places[i].view(*_view(real(numbers, counts))) for i, numbers in part]
            for part in self.parts
        ]
        sizes = [real(size, counts) for size in self.sizes]
        value, locations, weights = map(_like, parts, AXES)
        call = attention.Call(
            value, sizes, locations, weights, self.points, "bilinear", "zeros", False
        )
        joined = [
            recipe.joined(part, axis, call.computed, dense_axes)
            for part, axis, dense_axes in zip(parts, AXES, (1, ALL, ALL), strict=True)
        ]
        return recipe.finish(call, joined, real(self.result, counts), self.is_turned)

    def _counts(self, given: dict[str, Any], arrays: list[Any]) -> tuple[dict[int, int], str]:
        """Return the symbols' values in a run, and for what extents this is not the call."""
        read = [(size, given[name][2:].tolist()) for size, name in self.open]
        found = [(shape, arrays[i].shape) for i, shape in enumerate(self.shapes)]
        pairs = itertools.chain(*(zip(*pair, strict=False) for pair in found + read))
        counts = {symbol: extent for symbol, extent in pairs if symbol > OPEN}
        ends = zip(_ends(self.sizes), _ends([real(n, counts) for n in self.sizes]), strict=True)
        counts |= {symbol: extent for symbol, extent in ends if symbol > OPEN}
        for name, (shape, extents) in zip(self.sources, found, strict=True):
            if extents != (known := real(shape, counts)) or 0 in extents:
                return counts, f"{name!r} is of shape {extents}, expected {known}"
        for limit in self.limits:
            extent, first, last, start, end = real(limit, counts)
            if slice(first, last).indices(extent)[:2] != (start, end):
                return counts, f"an axis of {extent} is cut at {first} and {last}"
        return counts, ""

    def _one_by_one(self, given: dict[str, Any], unlike: str) -> Any:
        """Compute node by node."""
        made = {"": None} | self.constants | given
        try:
            for kind, attributes, inputs, outputs in self.steps:
                more: Any = {
                    "Split": {"count": len(outputs)},
                    "GridSample": {"threads": self.threads},
                }
                of = [made[name] for name in inputs]
                found = NODES[kind](*of, **attributes, **more.get(kind, {}))
                made.update(zip(outputs, found if kind == "Split" else [found], strict=True))
        except (IndexError, ValueError) as error:
            raise ValueError(f"{self.title}: {unlike}; {error}") from None
        return made[self.output]


def _ends(sizes: Iterable[Iterable[int]]) -> list[int]:
    """Return the number of pixels of the first level, of the first two, and so on."""
    return list(itertools.accumulate(map(math.prod, sizes)))


def _view(numbers: tuple[int, ...]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return offset, extents and strides."""
    offset, *others = numbers
    rank = len(others) // 2
    return offset, tuple(others[:rank]), tuple(others[rank:])


def _like(parts: list[Place], axis: int) -> Any:
    """Return an array as large as all parts, without memory for it."""
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return np.broadcast_to(np.zeros((), parts[0].dtype), shape)
