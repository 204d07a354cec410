"""Groups of nodes that compute multi-scale deformable attention, known by what they compute.

Exporters write a GridSample for each level.  The nodes around it only move numbers, and differ from
model to model.  So each tensor is followed back to its source.  A group is deformable attention if
samples, locations and weights meet as they have to.  An extent that only a run knows is a symbol: a
large number.  No symbol divides another, so that a product tells its factors.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from .. import attention
from ._patterns import DOUBLE, FLOAT, FLOAT16, Walk, closed, read_all, readers_of
from ._symbols import ENDLESS, OPERATORS, expect

PRIMES = math.prod((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47))
OPEN = 1 << 48  # symbols are larger, and extents are not
IMAGES, QUERIES, PIXELS = 1 + PRIMES, 1 + 2 * PRIMES, 1 + PRIMES**8  # PIXELS is the largest
AXES = 1, 3, 3  # of levels: in value (N, S, M, D), locations (N, Q, M, T, 2), weights
SAMPLES = "samples"  # the outputs of all GridSample nodes: (N, M, D, Q, T), T points
AS_IT_IS, TO_GRID = (0.0, 1.0), (-1.0, 1.0)  # GridSample reads -1..1 for locations of 0..1


class View(NamedTuple):
    """A tensor as a view of another one, its source, which has no gaps."""

    source: str
    axes: tuple[tuple[tuple[int, int], ...], ...]  # (extent, step), the slowest first
    offset: int = 0
    ends: tuple[float, float] = AS_IT_IS  # the values of 0 and 1 of the source

    @property
    def shape(self) -> list[int]:
        """The extent of each axis."""
        return [math.prod(extent for extent, _ in axis) for axis in self.axes]

    def flat(self) -> View:
        """Return the tensor with one axis."""
        return self._replace(axes=(merged(itertools.chain(*self.axes)),))


def whole(source: str, shape: list[int] | tuple[int, ...]) -> View:
    """Return the view that is all of a source."""
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return View(source, tuple(merged([pair]) for pair in zip(shape, steps, strict=True)))


def merged(factors: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the factors of an axis, with those joined that one step can go through."""
    made: list[tuple[int, int]] = []
    for extent, step in factors:
        if made and made[-1][1] == extent * step:
            made[-1] = made[-1][0] * extent, step
        elif extent != 1:
            made.append((extent, step))
    return tuple(made)


def _is_common(extent: int) -> bool:
    """Whether an extent consists of numbers and of IMAGES, QUERIES and PIXELS."""
    return _real([extent], dict.fromkeys((IMAGES, QUERIES, PIXELS), 1)) < (OPEN,)


def _concat(*parts: View, axis: int) -> View:
    """Join parts of a source that follow each other at an even step."""
    first, extents = parts[0], [part.shape[axis] for part in parts]
    found = {step for part in parts for _, step in part.axes[axis]}
    (step,) = found or {parts[len(parts) > 1].offset - first.offset}
    offset, axes = first.offset, list(first.axes)
    for part, extent in zip(parts, extents, strict=True):
        axes[axis] = part.axes[axis]
        expect(part == first._replace(axes=tuple(axes), offset=offset))
        offset += extent * step
    axes[axis] = merged([(sum(extents), step)])
    return first._replace(axes=tuple(axes))


def _cut(x: View, axis: int, start: int, end: int | None) -> View:
    extent, axes = x.shape[axis], list(x.axes)
    start, end, _ = slice(start, end).indices(extent)
    if (start, end) == (0, extent):
        return x
    expect(start < end)
    ((_, step),) = axes[axis]
    axes[axis] = merged([(end - start, step)])
    return x._replace(axes=tuple(axes), offset=x.offset + start * step)


def _gather(x: View, indices: Any, axis: int = 0) -> View:
    index = indices.item() % x.shape[axis]
    made = _cut(x, axis, index, index + 1)
    return made if indices.ndim else _squeeze(made, [axis])


def _reshape(x: View, shape: Any, allowzero: int = 0) -> View:
    """Return another shape.  An extent that is -1, or a symbol, is what the others leave."""
    expect(not (allowzero and 0 in shape))
    before, total = x.shape, math.prod(x.shape)
    extents = [before[i] if extent == 0 else extent for i, extent in enumerate(shape)]
    symbols = [i for i, extent in enumerate(extents) if extent > OPEN]
    for i in [extents.index(-1)] if -1 in extents else symbols:
        others = math.prod(extents[:i] + extents[i + 1 :])
        left = 0 if total % others else total // others
        extents[i] = left if extents[i] < 0 or (left > OPEN and _is_common(left)) else extents[i]
    expect(min(extents) > 0 and math.prod(extents) == total)
    factors, axes = list(x.flat().axes[0]), []
    for extent in extents:
        axis = []
        while extent > 1:
            count, step = factors.pop(0)
            part = min(count, extent)
            expect(count % part == extent % part == 0)
            axis.append((part, count // part * step))
            if count > part:
                factors.insert(0, (count // part, step))
            extent //= part
        axes.append(merged(axis))
    return x._replace(axes=tuple(axes))


def _slice(x: View, starts: Any, ends: Any, axes: Any = None, steps: Any = ()) -> View:
    expect(all(step == 1 for step in steps))
    for axis, start, end in zip(range(9) if axes is None else axes, starts, ends):  # noqa: B905
        x = _cut(x, axis, start, None if end in (ENDLESS, 2**63 - 1) else end)
    return x


def _squeeze(x: View, axes: Any) -> View:
    gone = {axis % len(x.axes) for axis in axes}
    expect(not any(x.axes[axis] for axis in gone))
    return x._replace(axes=tuple(axis for i, axis in enumerate(x.axes) if i not in gone))


def _transpose(x: View, perm: Any) -> View:
    return x._replace(axes=tuple(x.axes[i] for i in perm))


def _unsqueeze(x: View, axes: Any) -> View:
    rank, left = len(x.axes) + len(axes), iter(x.axes)
    made = {axis % rank for axis in axes}
    return x._replace(axes=tuple(() if i in made else next(left) for i in range(rank)))


MOVES: dict[str, Callable[..., View]] = {
    "Concat": _concat, "Gather": _gather, "Identity": lambda x: x, "Reshape": _reshape,
    "Slice": _slice, "Split": _cut, "Squeeze": _squeeze, "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}  # fmt: skip
LAYOUTS = MOVES.keys() - {"Reshape"}  # whose shapes follow from their inputs
AFFINE = ("Add", "Mul", "Sub")  # with a constant of one number
UFUNCS = {"Add": np.add, "Div": np.divide, "Mul": np.multiply, "Sub": np.subtract}
BROADCASTS = (*UFUNCS, "Cast", "Softmax")
NUMBERS = {kind: OPERATORS[kind] for kind in (*AFFINE, *MOVES) if kind in OPERATORS}
NUMBERS["Cast"] = lambda x, to: x if to in (6, 7) else expect(False)


class Layouts(Walk):
    """Follows tensors of a graph back to their sources."""

    def __init__(self, graph: Any):
        super().__init__(graph)
        self.readers = readers_of(graph)
        self.known: dict[Any, Any] = {}  # views, arrays of numbers, and shapes by (name,)
        self.symbols: dict[tuple[str, int], int] = {}  # extents of tensors

    def value(self, name: str) -> Any:
        """Return a tensor as a view of a known one, or as an array of numbers."""
        if name not in self.known:
            self.known[name] = self._computed(name)
        return self.known[name]

    def _computed(self, name: str) -> Any:
        constant = self.graph.constant(name)
        if constant is not None:
            expect(constant.size < 99)
            return constant.astype(object)
        node = self.graph.producer[name]
        kind, given = node.op_type, node.attributes
        expect(not node.domain and kind in ("Shape", *MOVES, *NUMBERS))
        if kind == "Shape":
            extents = np.array(self.extents(node.inputs[0]), object)
            return extents[given.get("start", 0) : given.get("end")]
        of = [self.value(node.inputs[0])]
        if kind == "Reshape" and isinstance(of[0], View):
            return _reshape(of[0], self._laid_out(node), **given)
        of += [self.value(one) if one else None for one in node.inputs[1:]]
        views = [one for one in of if isinstance(one, View)]
        if not views:
            return np.asarray(NUMBERS[kind](*of, **given), object)
        if kind in AFFINE:
            (x,), (number,) = views, [one for one in of if not isinstance(one, View)]
            expect(number.size == 1 and number.ndim <= len(x.axes))
            ends = [np.array(one.ends) if one is x else number.item() for one in of]
            return x._replace(ends=tuple(NUMBERS[kind](*ends).tolist()))
        if kind == "Split":
            place, count, axis = node.outputs.index(name), len(node.outputs), given.get("axis", 0)
            sizes = of[1] if len(of) > 1 else [-(-of[0].shape[axis] // count)] * count
            return _cut(of[0], axis, sum(sizes[:place]), sum(sizes[: place + 1]))
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
        return self.symbols.setdefault((name, axis), 1 + (len(self.symbols) + 3) * PRIMES)

    def extents(self, name: str) -> Any:
        """Return the shape of a tensor, with a symbol for each extent that is not known."""
        with contextlib.suppress(Exception):
            return list(self.value(name).shape)
        if (name,) not in self.known:
            shape, node = self.graph.shape_of(name), self.graph.producer.get(name)
            with contextlib.suppress(Exception):
                if min(shape, default=-1) < 0 and node.op_type == "Reshape":
                    shape = self._laid_out(node)
                elif min(shape, default=-1) < 0 and node.op_type in BROADCASTS:
                    of = itertools.zip_longest(*(self.extents(one)[::-1] for one in node.inputs))
                    shape = [min({*column} - {1, None}, default=1) for column in of][::-1]
            self.known[name,] = [n if n > 0 else self._symbol(name, i) for i, n in enumerate(shape)]
        return self.known[name,]

    def view(self, name: str, inside: set[str], ends: Any, both: int, second: int) -> View:
        """Return a tensor as a view of the first tensor in a group that it can be a view of."""
        path = [name]
        kinds = MOVES if ends == AS_IT_IS else (*MOVES, *AFFINE)
        while path[-1] in inside and (node := self.node(path[-1], *kinds)) is not None:
            is_data = [self.graph.constant(one) is None for one in node.inputs]
            path.append(node.inputs[is_data.index(True)])
        before = {one: view for one, view in self.known.items() if isinstance(view, View)}
        for source, first in itertools.product(reversed(path), (IMAGES, both)):
            with contextlib.suppress(Exception):
                self.known = dict(before)
                extents = self.extents(source)
                opens = {i: n for i, n in enumerate((first, second)) if not _is_common(extents[i])}
                expect(not opens or source == path[-1] or self.node(source, *LAYOUTS) is None)
                extents = [opens.get(i, extent) for i, extent in enumerate(extents)]
                self.known = {source: whole(source, extents)} | before
                view: View = self.value(name)
                expect(view.ends == ends and both in (IMAGES, view.shape[0]))
                return view
        raise ValueError(f"{name!r} is of no tensor whose shape is known")

    def terms(self, name: str, inside: set[str], names: list[str]) -> Any:
        """Return a tensor as (ufunc, one, other) of terms, or its name, which `names` gets."""
        node = self.node(name, *UFUNCS)
        if name not in inside or node is None or self.graph.type_of(name) != FLOAT:
            names.append(name)
            return name
        return UFUNCS[node.op_type], *(self.terms(one, inside, names) for one in node.inputs)

    def samples(self, name: str) -> list[Any]:
        """Return the GridSample nodes that a tensor consists of, in their order."""
        node = self.node(name, "GridSample", *MOVES)
        if node is None or node.op_type != "GridSample":
            names = node.inputs[: None if node.op_type == "Concat" else 1] if node else []
            return [sample for one in names for sample in self.samples(one)]
        given = {"mode": "linear", "padding_mode": "zeros", "align_corners": 0} | node.attributes
        expect([*given.values()] in (["linear", "zeros", 0], ["bilinear", "zeros", 0]))
        return [node]


def attentions(graph: Any) -> list[Attention]:
    """Return the groups that are deformable attention."""
    found: list[Attention] = []
    if any(node.op_type == "GridSample" for node in graph.nodes):
        layouts = Layouts(graph)
        for node in graph.nodes:
            with contextlib.suppress(Exception):  # whatever it is, it is something else
                found.append(_attention(layouts, node))
    return found


def _attention(layouts: Layouts, total: Any) -> Attention:
    """Return the group whose samples a ReduceSum adds; raise an error if there is none."""
    expect(total.op_type == "ReduceSum" and not total.domain)
    product = layouts.node(total.inputs[0], "Mul")
    sides = [layouts.samples(name) for name in product.inputs]
    samples, weighted = sides[0] or sides[1], product.inputs[not sides[0]]
    expect(samples and not all(sides))
    needed = closed(layouts.graph, total, set(), layouts.readers)
    inside = {name for node in needed for name in node.outputs}
    layouts.known = {}
    names = [sample.inputs for sample in samples]
    grids = [layouts.view(grid, inside, TO_GRID, IMAGES, QUERIES) for _, grid in names]
    both, queries, *_ = grids[0].shape
    maps = [layouts.view(x, inside, AS_IT_IS, both, PIXELS) for x, _ in names]
    channels, points = maps[0].shape[1], [grid.shape[2] for grid in grids]
    made = whole(SAMPLES, (both, channels, queries, sum(points)))
    for i, (sample, x, grid) in enumerate(zip(samples, maps, grids, strict=True)):
        expect(x.shape[:2] == [both, channels] and grid.shape == [both, queries, points[i], 2])
        layouts.known[sample.outputs[0]] = _cut(made, 3, sum(points[:i]), sum(points[: i + 1]))
    summed = layouts.value(weighted)
    rest = [queries, *summed.shape[3:]]
    expect(summed.flat() == made.flat() and summed.shape == [both, channels, *rest])
    weights = layouts.view(product.inputs[bool(sides[0])], inside, AS_IT_IS, both, QUERIES)
    gone = {axis % len(summed.axes) for axis in layouts.numbers(total.inputs[1]) or ()}
    expect(weights.shape == [both, 1, *rest] and gone)
    left = summed._replace(axes=tuple(() if i in gone else x for i, x in enumerate(summed.axes)))
    keeps = total.attributes.get("keepdims", 1)
    layouts.known[total.outputs[0]] = left if keeps else _squeeze(left, gone)
    end, result, heads = _result(layouts, total, made)
    batch, sizes = both // heads, [x.shape[2:] for x in maps]
    maps = [_reshape(x, (batch, heads, channels, math.prod(x.shape[2:]))) for x in maps]
    grids = [_reshape(x, (batch, heads, queries, x.shape[2], 2)) for x in grids]
    weights = _reshape(weights, (batch, heads, queries, sum(points)))
    parts = [
        [_transpose(x, (0, 3, 1, 2)) for x in maps],
        [_transpose(x, (0, 2, 1, 3, 4)) for x in grids],
        [_transpose(weights, (0, 2, 1, 3))],
    ]
    for i, axis in enumerate(AXES):
        with contextlib.suppress(Exception):  # levels that do not lie one after the other
            parts[i] = [_concat(*parts[i], axis=axis)]
    kinds = [{layouts.graph.type_of(view.source) for view in part} for part in parts]
    expect(len(kinds[0] | kinds[2]) == 1 and set().union(*kinds) <= {FLOAT, FLOAT16, DOUBLE})
    step = Attention(layouts, (inside, end), parts, result.shape, (sizes, points, names))
    expect(all(node in step.nodes for node in (*samples, product, total)) and read_all(step))
    return step


def _result(layouts: Layouts, total: Any, made: View) -> tuple[Any, View, int]:
    """Return the last node that only moves sums, its result, and its heads; made: all samples."""
    both, channels, queries, points = made.shape
    found: Any = None
    after = [total]
    while len(after) == 1 and (after[0] is total or layouts.node(after[0].outputs[0], *MOVES)):
        (name,) = after[0].outputs
        with contextlib.suppress(Exception):
            result = layouts.value(name)
            heads = result.flat().axes[0][-1][0] // channels
            rows = whole(SAMPLES, (both // heads, heads * channels, queries, points))
            expect(result.flat() == _transpose(rows, (0, 2, 1)).flat())
            found = after[0], result, heads
        after = [one for one in layouts.readers.get(name, ()) if one.op_type != "Shape"]
        after = [] if name in layouts.graph.outputs else after
    return tuple(found)


class Attention:
    """A group that is a call of deformable_attention.

    group: the values that its nodes make, and its last node.  parts: views of value, locations and
    weights, of all levels or of each.  levels: sizes, points, and inputs of GridSample nodes.
    """

    threads: int | None = None
    indices: list[int]  # of the inputs of the group
    node = None  # Python computes it
    copied = -1

    def __init__(self, layouts: Layouts, group: Any, parts: Any, result: list[int], levels: Any):
        (inside, end), (self.sizes, self.points, inputs) = group, levels
        self.result, self.output = result, end.outputs[0]
        self.title = f"deformable attention of {len(self.sizes)} levels -> {self.output!r}"
        self.sources = list(dict.fromkeys(view.source for view in itertools.chain(*parts)))
        self.shapes = [layouts.known[source].shape for source in self.sources]
        # Sums that make locations are computed here too, since ONNX Runtime takes long for them.
        names: list[str] = []
        at = {view.source: inside for view in parts[1]}
        self.terms = [layouts.terms(one, at.get(one, set()), names) for one in self.sources]
        # A size that only a run knows is read from the shape that a Reshape is given.
        pairs = zip(self.sizes, inputs, strict=True)
        shaped = [(size, layouts.node(x, "Reshape")) for size, (x, _) in pairs if max(size) > OPEN]
        self.open = [(size, node.inputs[1]) for size, node in shaped]
        expect(all(list(layouts.value(name))[2:] == size for size, name in self.open))
        self.inputs = list(dict.fromkeys(names + [name for _, name in self.open]))
        self.nodes = closed(layouts.graph, end, set(self.inputs), layouts.readers)
        self.parts = [[self._placed(view) for view in part] for part in parts]
        symbols = [*itertools.chain(*self.shapes, *self.sizes), sum(map(math.prod, self.sizes))]
        numbers = [self.points, *(numbers for _, numbers in itertools.chain(*self.parts))]
        counts = {symbol: 2 for symbol in symbols if symbol > OPEN}
        expect(max(_real(itertools.chain(*numbers), counts)) < OPEN)

    def _placed(self, view: View) -> tuple[int, list[int]]:
        """Return the number of the input of a view, and its offset, extents and steps."""
        expect(all(len(axis) < 2 for axis in view.axes))
        steps = [sum(step for _, step in axis) for axis in view.axes]
        return self.sources.index(view.source), [view.offset, *view.shape, *steps]

    def run(self, arrays: list[Any], output: Any) -> None:
        """Compute the sums."""
        given = dict(zip(self.inputs, arrays, strict=True))
        read = [(size, given[name][2:].tolist()) for size, name in self.open]
        arrays = [_computed(terms, given) for terms in self.terms]
        found = [(shape, arrays[i].shape) for i, shape in enumerate(self.shapes)]
        pairs = itertools.chain(*(zip(*pair, strict=True) for pair in found + read))
        counts = {symbol: extent for symbol, extent in pairs if symbol > OPEN}
        sizes = [_real(size, counts) for size in self.sizes]
        counts[sum(map(math.prod, self.sizes))] = sum(map(math.prod, sizes))
        for name, (shape, extents) in zip(self.sources, found, strict=True):
            if extents != (known := _real(shape, counts)):
                raise ValueError(f"{self.title}: {name!r} is of shape {extents}, expected {known}")
        value, locations, weights = (
            _read(arrays, part, axis, counts) for part, axis in zip(self.parts, AXES, strict=True)
        )
        out = output(_real(self.result, counts))
        attention.deformable_attention(
            value, sizes, locations, weights, points=self.points, num_threads=self.threads,
            out=out.reshape(*locations.shape[:2], math.prod(value.shape[2:])),
        )  # fmt: skip


def _computed(terms: Any, given: dict[str, Any]) -> Any:
    """Compute terms.  The last three axes are made contiguous, so that NumPy has long loops."""
    if isinstance(terms, str):
        return given[terms]
    of = [_computed(one, given) for one in terms[1:]]
    tail = np.broadcast_shapes(*(one.shape[-3:] for one in of))
    of = [np.ascontiguousarray(np.broadcast_to(one, one.shape[:-3] + tail)) for one in of]
    with np.errstate(all="ignore"):
        return terms[0](*of)


def _real(numbers: Iterable[int], counts: dict[int, int]) -> tuple[int, ...]:
    """Return numbers, with each symbol replaced by its value in a run."""
    found = [counts.get(number, number) for number in numbers]
    for symbol, count in counts.items():
        found = [n if n < OPEN or n % symbol else n // symbol * count for n in found]
    return tuple(found)


def _read(arrays: list[Any], part: Any, axis: int, counts: dict[int, int]) -> Any:
    """Return one array of the views of inputs."""
    found = []
    for i, numbers in part:
        array, (offset, *others) = arrays[i], _real(numbers, counts)
        rank, size = len(others) // 2, array.itemsize
        steps = [size * step for step in others[rank:]]
        found.append(np.ndarray(others[:rank], array.dtype, array, size * offset, steps))
    if len(found) == 1:
        return found[0]
    shape = list(found[0].shape)
    shape[axis] = sum(one.shape[axis] for one in found)
    return np.concatenate(found, axis, out=np.empty(shape, found[0].dtype))
