"""Groups of nodes that compute multi-scale deformable attention, known by what they compute.

Exporters write a GridSample for each level.  The nodes around it only move numbers, and differ from
model to model.  So each tensor is followed back to its source (``_views.py``).  A group is
deformable attention if samples, locations and weights meet as they have to.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ._attended import AXES, UFUNCS, Attention, Group, Levels, takes
from ._patterns import DOUBLE, FLOAT, FLOAT16, Walk, closed, spell
from ._symbols import OPERATORS, bounded, expect

from ._views import (  # isort: skip
    AS_IT_IS, IMAGES, MOVES, OPEN, PIXELS, QUERIES, View, concat, cut, is_common, merged, reshape,
    symbol, transpose, whole,
)  # fmt: skip

SAMPLES = "samples"  # the outputs of all GridSample nodes: (N, M, D, Q, T), T points
TO_GRID = (-1.0, 1.0)  # GridSample reads -1..1 for locations of 0..1
LETTERS = "abcdefghijklmno"  # of the axes of tensors, as Einsum has them
LAYOUTS = MOVES.keys() - {"Reshape"}  # whose shapes follow from their inputs
AFFINE = ("Add", "Mul", "Sub")  # with a constant of one number
BROADCASTS = (*UFUNCS, "Cast", "Softmax")
SUMS = ("ReduceSum", "MatMul", "Einsum")  # of products
TOTALS = (*SUMS, "Add", "Sum")
NUMBERS = {kind: OPERATORS[kind] for kind in (*AFFINE, *MOVES) if kind in OPERATORS}
NUMBERS["Cast"] = lambda x, to: x if to in (6, 7) else expect(False)


class Product(NamedTuple):
    """A node that sums products of samples and weights.  places: of both among its inputs."""

    node: Any
    samples: list[Any]
    names: list[str]
    places: tuple[int, int]


class Layouts(Walk):
    """Follows tensors of a graph back to their sources."""

    def __init__(self, graph: Any):
        super().__init__(graph)
        self.order = {node: i for i, node in enumerate(graph.nodes)}
        self.symbols: dict[tuple[str, int], int] = {}  # extents of tensors
        self.forget()

    def forget(self) -> None:
        """Begin a group."""
        self.known: dict[Any, Any] = {}  # views, arrays of numbers, and shapes by (name,)
        self.limits: list[Any] = []

    def value(self, name: str) -> Any:
        """Return a tensor as a view of a known one, or as an array of numbers."""
        if name not in self.known:
            self.step()
            made = self._computed(name)
            self.known[name] = made if isinstance(made, View) else bounded(made)
        return self.known[name]

    def _computed(self, name: str) -> Any:
        constant = self.graph.constant(name)
        if constant is not None:
            expect(constant.size < 99)
            return constant.astype(object)
        node = self.graph.producer[name]
        kind, given = node.op_type, node.attributes
        expect(not node.domain and (kind in ("Shape", "Sum") or kind in MOVES or kind in NUMBERS))
        if kind == "Shape":
            extents = np.array(self.extents(node.inputs[0]), object)
            return extents[given.get("start", 0) : given.get("end")]
        self.step(len(node.inputs))
        of = [self.value(node.inputs[0])]
        if kind == "Reshape" and isinstance(of[0], View):
            return reshape(of[0], self._laid_out(node), **given)
        of += [self.value(one) if one else None for one in node.inputs[1:]]
        views = [one for one in of if isinstance(one, View)]
        if not views:
            return NUMBERS[kind](*of, **given)
        if kind in ("Add", "Sum") and len(views) == len(of):  # parts of the sums of samples
            expect(all(one == of[0] for one in of) and of[0].source == SAMPLES)
            return of[0]
        if kind in AFFINE:
            (x,), (number,) = views, [one for one in of if not isinstance(one, View)]
            expect(number.size == 1 and number.ndim <= len(x.axes))
            ends = [np.array(one.ends) if one is x else number.item() for one in of]
            return x._replace(ends=tuple(NUMBERS[kind](*ends).tolist()))
        if kind == "Split":
            given = {"place": node.outputs.index(name), "count": len(node.outputs)} | {
                one: number for one, number in given.items() if one != "num_outputs"
            }
        return MOVES[kind](*of, **given)

    def _laid_out(self, node: Any) -> list[int]:
        """Return the shape that a Reshape makes, as far as its input or ONNX Runtime knows it."""
        known = self.graph.shape_of(node.outputs[0])
        shape = [self._symbol(node.outputs[0], i) for i in range(len(known))]
        with contextlib.suppress(Exception):
            shape = list(self.value(node.inputs[1]))
        pairs = zip(shape, known or shape, strict=True)
        return [other if extent > OPEN and other > 0 else extent for extent, other in pairs]

    def _symbol(self, name: str, axis: int) -> int:
        return self.symbols.setdefault((name, axis), symbol(5 + len(self.symbols)))

    def extents(self, name: str) -> Any:
        """Return the shape of a tensor, with a symbol for each extent that is not known."""
        with contextlib.suppress(Exception):
            return list(self.value(name).shape)
        if (name,) not in self.known:
            self.step()
            shape, node = self.graph.shape_of(name), self.graph.producer.get(name)
            with contextlib.suppress(Exception):
                if min(shape, default=-1) < 0 and node.op_type == "Reshape":
                    shape = self._laid_out(node)
                elif min(shape, default=-1) < 0 and node.op_type in BROADCASTS:
                    shape = self._broadcast(node, shape)
            self.known[name,] = [n if n > 0 else self._symbol(name, i) for i, n in enumerate(shape)]
        return self.known[name,]

    def _broadcast(self, node: Any, shape: list[int]) -> list[int]:
        """Return the shape of a node whose inputs have one shape, but for extents of 1."""
        self.step(len(node.inputs))
        of = itertools.zip_longest(*(self.extents(one)[::-1] for one in node.inputs))
        found = [{*column} - {1, None} or {1} for column in of][::-1]
        found = [{n for n in some if n < OPEN} or some for some in found]
        pairs = zip(shape, found, strict=True)
        return [n if n > 0 or len(some) > 1 else min(some) for n, some in pairs]

    def view(self, name: str, inside: set[str], ends: Any, both: int, second: int) -> View:
        """Return a tensor as a view of the first tensor in a group that it can be a view of."""
        path = [name]
        kinds = MOVES if ends == AS_IT_IS else (*MOVES, *AFFINE)
        while path[-1] in inside and (node := self.node(path[-1], *kinds)) is not None:
            is_data = [self.graph.constant(one) is None for one in node.inputs]
            path.append(node.inputs[is_data.index(True)])
        before = {one: view for one, view in self.known.items() if isinstance(view, View)}
        count = len(self.limits)
        for source, first in itertools.product(reversed(path), (IMAGES, both)):
            self.step(len(before))
            with contextlib.suppress(Exception):
                del self.limits[count:]
                self.known = dict(before)
                extents = self.extents(source)
                opens = {i: n for i, n in enumerate((first, second)) if not is_common(extents[i])}
                expect(not opens or source == path[-1] or self.node(source, *LAYOUTS) is None)
                extents = [opens.get(i, extent) for i, extent in enumerate(extents)]
                self.known = {source: whole(source, extents, self.limits)} | before
                view: View = self.value(name)
                expect(view.ends == ends and both in (IMAGES, view.shape[0]))
                return view
        raise ValueError(f"{name!r} is of no tensor whose shape is known")

    def terms(self, name: str, within: Any, names: dict[str, None], made: Any, depth: int) -> None:
        """Add the terms of a tensor to `made`, as (ufunc, one, other), after those that they are
        made of; names: get what is not made.  within: the values that may be made.
        """
        if name in names or name in made:
            return
        node = self.node(name, *UFUNCS)
        if not depth or name not in within or node is None or self.graph.type_of(name) != FLOAT:
            names[name] = None
            return
        for one in node.inputs:
            self.terms(one, within, names, made, depth - 1)
        made[name] = UFUNCS[node.op_type], *node.inputs

    def products(self, total: Any) -> Iterator[Product]:
        """Find the nodes whose sums of products a node adds, each of them once, in their order."""
        seen, waiting = {total}, [total]
        while waiting:
            node = waiting.pop()
            if node.op_type in SUMS:
                yield self._product(node)
                continue
            names = node.inputs if node.op_type in TOTALS else node.inputs[:1]
            found = [self.node(name, *TOTALS, *MOVES) for name in reversed(names)]
            self.step(len(found))
            expect(None not in found and len({*found} - seen) == len(found))
            expect(node.op_type != "Concat")
            seen |= {*found}
            waiting += found

    def _product(self, node: Any) -> Product:
        factors = self.node(node.inputs[0], "Mul") if node.op_type == "ReduceSum" else node
        sides = [self.samples(name) for name in factors.inputs]
        expect(len(sides) == 2 and bool(sides[0]) != bool(sides[1]))
        samples, places = sides[0] or sides[1], (int(not sides[0]), int(bool(sides[0])))
        return Product(node, samples, factors.inputs, places)

    def samples(self, name: str) -> list[Any]:
        """Return the GridSample nodes that a tensor consists of, in their order."""
        seen: dict[Any, None] = {}
        waiting = [name]
        while waiting:
            node = self.node(waiting.pop(), "GridSample", *MOVES)
            if node is not None and node not in seen:
                seen[node] = None
                inputs = {"Concat": node.inputs, "GridSample": []}.get(node.op_type)
                waiting += node.inputs[:1] if inputs is None else inputs[::-1]
        found = [node for node in seen if node.op_type == "GridSample"]
        for node in found:
            given = {"mode": "linear", "padding_mode": "zeros", "align_corners": 0}
            expect(
                [*(given | node.attributes).values()]
                in (["linear", "zeros", 0], ["bilinear", "zeros", 0])
            )
        return found

    def letters(self, node: Any, rank: int) -> list[str]:
        """Return the axes of the inputs of a node, and of its sums, as Einsum writes them."""
        if node.op_type == "Einsum":
            return re.split(",|->", node.attributes["equation"].replace(" ", ""))
        every = LETTERS[:rank]
        if node.op_type == "MatMul":
            return [every[:-2] + "yz", every[:-2] + "zx", every[:-2] + "yx"]
        gone = {every[axis] for axis in self.numbers(node.inputs[1]) or ()}
        one = "z" if node.attributes.get("keepdims", 1) else ""
        expect(gone)
        return [every, every, "".join(one if letter in gone else letter for letter in every)]

    def summed(self, product: Product, part: View, weights: View) -> tuple[View, View]:
        """Return the sums that a node makes, as a view of samples, and its weights, (N M, Q, T).

        part: its samples, all of one or more levels.
        """
        samples = self.value(product.names[product.places[0]])
        *factors, made = self.letters(product.node, max(len(samples.axes), len(weights.axes)))
        one, other = (factors[place] for place in product.places)
        axes = dict(zip(one, samples.axes, strict=True))
        by = dict(zip(other, weights.axes, strict=True))
        expect(len(factors) == 2 and len(axes) == len(one) and len(by) == len(other))
        expect(not any(by[letter] for letter in other if not axes.get(letter)))
        order = sorted(filter(axes.get, one), key=lambda letter: -axes[letter][0][1])
        found = samples._replace(axes=tuple(axes[letter] for letter in order))
        expect(found == reshape(part, found.shape))
        channels = [letter for letter in order if not by.get(letter)]
        kept = [letter for letter in order if letter not in channels]
        expect(merged(itertools.chain(*(axes[letter] for letter in channels))) == part.axes[1])
        of_weights = weights._replace(axes=tuple(by[letter] for letter in kept))
        expect(found._replace(axes=tuple(axes[one] for one in kept)).shape == of_weights.shape)
        both, _, queries, points = part.shape
        sums = samples._replace(axes=tuple(axes.get(letter, ()) for letter in made), offset=0)
        return sums, reshape(of_weights, (both, queries, points))


def attentions(graph: Any, left: list[str]) -> list[Attention]:
    """Return the groups that are deformable attention, and add to `left` what is none."""
    found: list[Attention] = []
    if any(node.op_type == "GridSample" for node in graph.nodes):
        layouts = Layouts(graph)
        inside: set[Any] = set()
        for node in reversed(graph.nodes):  # sums of levels before those of one level
            with contextlib.suppress(Exception):  # whatever it is, it is something else
                expect(node not in inside)
                found.append(_attention(layouts, node))
                inside.update(found[-1].nodes)
        others = [node for node in graph.nodes if node.op_type == "GridSample"]
        others = [spell(node.name, node.key) for node in others if node not in inside]
        if others:
            left.append(f"{', '.join(others[:3])}: no deformable attention; {layouts.otherwise()}")
    return found


def _attention(layouts: Layouts, total: Any) -> Attention:
    """Return the group whose samples a node adds; raise an error if there is none."""
    expect(total.op_type in TOTALS and not total.domain)
    products = list(layouts.products(total))
    samples = [sample for product in products for sample in product.samples]
    expect(len({*samples}) == len(samples) < 99)
    needed = {*samples, *(product.node for product in products)}
    nodes = closed(layouts.graph, total, set(), layouts.readers, lambda node: takes(node, needed))
    expect(needed <= {*nodes})
    inside = {name for node in nodes for name in node.outputs}
    layouts.forget()
    layouts.step(len(nodes))
    names = [sample.inputs for sample in samples]
    grids = [layouts.view(grid, inside, TO_GRID, IMAGES, QUERIES) for _, grid in names]
    both, queries, *_ = grids[0].shape
    maps = [layouts.view(x, inside, AS_IT_IS, both, PIXELS) for x, _ in names]
    channels, points = maps[0].shape[1], [grid.shape[2] for grid in grids]
    places = [0, *itertools.accumulate(points)]
    made = whole(SAMPLES, (both, channels, queries, places[-1]), layouts.limits)
    for i, (sample, x, grid) in enumerate(zip(samples, maps, grids, strict=True)):
        expect(x.shape[:2] == [both, channels] and grid.shape == [both, queries, points[i], 2])
        layouts.known[sample.outputs[0]] = cut(made, 3, places[i], places[i + 1])
    weights: list[View] = []
    counts = itertools.accumulate(len(product.samples) for product in products)
    for (first, last), product in zip(itertools.pairwise([0, *counts]), products, strict=True):
        by = layouts.view(product.names[product.places[1]], inside, AS_IT_IS, both, QUERIES)
        part = cut(made, 3, places[first], places[last])
        layouts.known[product.node.outputs[0]], by = layouts.summed(product, part, by)
        weights.append(by)
    told = {x.axes[0][-1][0] for x in (*maps, *grids, *weights) if len(x.axes[0]) > 1}
    end, result, heads, is_turned = _result(layouts, total, made, told)
    batch, sizes = both // heads, [x.shape[2:] for x in maps]
    maps = [reshape(x, (batch, heads, channels, math.prod(x.shape[2:]))) for x in maps]
    grids = [reshape(x, (batch, heads, queries, x.shape[2], 2)) for x in grids]
    weights = [reshape(x, (batch, heads, queries, x.shape[2])) for x in weights]
    parts = [
        [transpose(x, (0, 3, 1, 2)) for x in maps],
        [transpose(x, (0, 2, 1, 3, 4)) for x in grids],
        [transpose(x, (0, 2, 1, 3)) for x in weights],
    ]
    for i, axis in enumerate(AXES):
        with contextlib.suppress(Exception):  # levels that do not lie one after the other
            parts[i] = [concat(*parts[i], axis=axis)]
    kinds = [{layouts.graph.type_of(view.source) for view in part} for part in parts]
    expect(len(kinds[0] | kinds[2]) == 1 and set().union(*kinds) <= {FLOAT, FLOAT16, DOUBLE})
    group = Group(needed, inside, end, result.shape, is_turned)
    return Attention(layouts, group, parts, Levels(sizes, points, [x for x, _ in names]))


def _result(layouts: Layouts, total: Any, made: View, told: set[int]) -> tuple[Any, ...]:
    """Return the last node that only moves sums, its result, its heads, and whether it has channels
    before queries.  made: all samples; told: the heads that views tell.
    """
    both, channels, queries, points = made.shape
    found: Any = None
    after = [total]
    while len(after) == 1 and (after[0] is total or layouts.node(after[0].outputs[0], *MOVES)):
        (name,) = after[0].outputs
        with contextlib.suppress(Exception):
            result = layouts.value(name)
            (heads,) = told or {(result.flat().axes[0] or ((1, 1),))[-1][0] // channels}
            heads = heads if heads and both % heads == 0 else 1
            rows = (both // heads, heads * channels, queries, points)
            planes = whole(SAMPLES, rows, made.limits)
            orders = [transpose(planes, order).flat() for order in ((0, 2, 1), (0, 1, 2))]
            found = after[0], result, heads, bool(orders.index(result.flat()))
        after = [one for one in layouts.readers.get(name, ()) if one.op_type != "Shape"]
        after = [] if name in layouts.graph.outputs else after
    return tuple(found)
