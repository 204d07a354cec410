"""Groups of nodes that torchvision's models are exported to, and that are one call of roicy.

A pyramid of RoiAlign nodes is known by its nodes.  PyTorch's exporter of TorchScript joins
the levels by ScatterElements, and its exporter by torch.export (dynamo=True) by ScatterND.  Only
the first writes the Loop that pastes masks.  It is known by what it computes: see ``_pasting.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import multiscale, operators
from .._table import sampled
from ..compat.onnx._ops import TABLE, levels_of
from ..compat.onnx._specs import of_levels

FLOAT, INT64, FLOAT16, DOUBLE = 1, 7, 10, 11  # element types of ONNX
STEPS = 300  # of a Walk, for each node; exported models need up to 30
# Nodes that hand numbers on in their order, in other shapes
SHAPES = ("Cast", "Expand", "Identity", "Reshape", "Split", "Squeeze", "Unsqueeze")
SCATTERS = ("ScatterElements", "ScatterND")
QUANTISED = ("QuantizeLinear", "DequantizeLinear")
OTHERWISE = "nodes that do something else"


def spell(name: str, key: tuple[str, str]) -> str:
    """Return a node as errors show it; key: (domain, operator)."""
    return f"node {name!r} ({'.'.join(filter(None, key))})"


class Level(NamedTuple):
    """A level of a pyramid: its number in `levels`, its map and its scale."""

    number: int
    map: str
    scale: float


class Group:
    """What computes a group of nodes, as the provider knows it."""

    threads: int | None = None
    indices: list[int]  # of the inputs of the group
    spec: Any = None  # its numbers for the provider, if it has some
    copied = -1


class Pyramid(Group):
    """RoiAlign nodes of the levels of a pyramid, whose outputs are scattered to the rows of their
    boxes.

    The graph computes the level of each box.  Where roicy's own rule agrees, as it does but for
    boxes whose size lies between two levels, all are pooled by one call.

    source: the values that have the level of each box, and its row; given: the attributes that the
    RoiAlign nodes have in common; begin: the value that is scattered into, None for zeros, as many
    rows as boxes.
    """

    def __init__(
        self, nodes: list[Any], levels: list[Level], source: tuple[str, str], given: Any,
        begin: str | None,
    ):  # fmt: skip
        self.nodes, self.given = nodes, given
        self.output = nodes[0].outputs[0]
        self.title = f"pyramid of {len(levels)} x RoiAlign -> {self.output!r}"
        self.inputs = [*source, *(level.map for level in levels), *([begin] if begin else [])]
        self.numbers = [level.number for level in levels]
        self.scales = [float(np.float32(level.scale)) for level in levels]
        self.aligned = given["coordinate_transformation_mode"].lower() == "half_pixel"
        self.spec = of_levels(
            sampled(given["sampling_ratio"], self.aligned),
            (given["output_height"], given["output_width"]), self.scales,
            chosen=0, boxes=1, maps=2, begin=2 + len(levels) if begin else -1,
        )  # fmt: skip
        if self.spec is not None:
            self.spec = self.spec._replace(numbers=tuple(self.numbers))

    def run(self, arrays: list[Any], output: Any) -> None:
        """Pool the boxes of all levels."""
        chosen, rows, *maps = arrays
        maps, begins = maps[: len(self.scales)], maps[len(self.scales) :]
        size, count = (self.given["output_height"], self.given["output_width"]), len(rows)
        zeros = np.broadcast_to(np.zeros((), maps[0].dtype), (count, maps[0].shape[1], *size))
        begin = begins[0] if begins else zeros
        if len(begin) < count or begin.shape[1:] != zeros.shape[1:]:
            raise ValueError(f"{self.title}: {zeros.shape} is scattered into {begin.shape}")
        out = output(begin.shape)
        out[count:] = begin[count:]
        ratio, aligned, threads = self.given["sampling_ratio"], self.aligned, self.threads
        place = np.full(count, -1)
        for i, number in enumerate(self.numbers):
            place[chosen == number] = i
        if count and np.array_equal(place, levels_of(rows, self.scales)):
            multiscale.multiscale_roi_align(
                maps, rows, size, self.scales, ratio, aligned, out=out[:count], num_threads=threads
            )
            return
        out[:count] = begin[:count]
        for i, scale in enumerate(self.scales):
            of_level = np.flatnonzero(place == i)
            out[of_level] = operators.roi_align(
                maps[i], rows[of_level], size, scale, ratio, aligned, num_threads=threads
            )


class Walk:
    """Follows values of a graph back to where they come from.

    A graph may be made so that it has no end to follow.  So there are only so many steps, for each
    node of it.
    """

    def __init__(self, graph: Any):
        self.graph, self.readers = graph, readers_of(graph)
        self.steps = STEPS * (len(graph.nodes) + 9)
        self.quantised: Any = None  # the last DequantizeLinear where another node was looked for
        self.dequantised: dict[tuple[str, ...], str] = {}  # outputs by inputs

    def step(self, count: int = 1) -> None:
        """Count steps, and raise an error if there are none left."""
        self.steps -= count
        if self.steps < 0:
            raise RuntimeError(f"more than {STEPS} steps for each of {len(self.graph.nodes)} nodes")

    def node(self, name: str, *kinds: str) -> Any:
        """Return the node of one of these kinds that makes a value, or None."""
        self.step()
        node = self.graph.producer.get(name)
        if node is not None and node.op_type in kinds and not node.domain:
            return node
        if node is not None and node.op_type == "DequantizeLinear":
            self.quantised = node
        return None

    def otherwise(self) -> str:
        """Return why a group is none, as far as it is known."""
        node = self.quantised
        return OTHERWISE if node is None else f"{spell(node.name, node.key)} stands for its numbers"

    def same(self, name: str) -> str:
        """Return one of the values that are equal: ONNX Runtime writes a DequantizeLinear for each
        reader.
        """
        node = self.node(name, "DequantizeLinear")
        return self.dequantised.setdefault(tuple(node.inputs), name) if node else name

    def through(self, name: str, kinds: tuple[str, ...] = SHAPES) -> str:
        """Return the value that nodes of these kinds make another one of, of the same numbers."""
        while (node := self.node(name, *kinds)) is not None and self._keeps_all(node):
            name = node.inputs[0]
        return name

    def _keeps_all(self, node: Any) -> bool:
        """Whether a node is no Cast to another type, and no Split into several parts."""
        to = node.attributes["to"] if node.op_type == "Cast" else None
        return len(node.outputs) == 1 and to in (None, self.graph.type_of(node.inputs[0]))

    def constant(self, name: str) -> np.ndarray | None:
        """Return a constant, or None for other values."""
        value: np.ndarray | None = self.graph.constant(self.through(name, ("Identity",)))
        return value

    def numbers(self, name: str) -> list[int] | None:
        """Return the numbers of a constant of few, or None for other values."""
        value = self.constant(name)
        return None if value is None or value.size > 99 else value.reshape(-1).tolist()

    def sliced(self, name: str) -> tuple[str, list[int]] | None:
        """Return (rows, columns) where a value is columns of rows that a Slice or a Split takes."""
        node = self.node(name, "Slice", "Split")
        if node is not None and node.op_type == "Split":  # which ONNX Runtime makes of Slices
            sizes = self.numbers(node.inputs[1]) if len(node.inputs) == 2 else None
            if node.attributes.get("axis", 0) != 1 or not sizes or min(sizes) < 1 or max(sizes) > 9:
                return None
            place = node.outputs.index(name)
            start = sum(sizes[:place])
            return node.inputs[0], list(range(start, start + sizes[place]))
        if node is None or len(node.inputs) < 4:
            return None
        start, end, axis, *step = map(self.numbers, node.inputs[1:])
        if axis != [1] or not start or not end or step not in ([], [[1]]):
            return None
        return node.inputs[0], list(range(start[0], end[0])) if 0 <= start[0] < end[0] < 9 else []

    def level(self, indices: str) -> tuple[str, int] | None:
        """Return (levels of boxes, level) of the indices of the boxes of one level."""
        name = self.through(indices)
        found = self.sliced(name)
        rows = self.through(found[0], ("Cast", "Identity")) if found else name
        transposed = self.node(rows, "Transpose")
        if found and (transposed is None or found[1] != [0]):  # not the only column
            return None
        node = self.node(self.through(transposed.inputs[0]) if transposed else name, "NonZero")
        equal = node and self.node(node.inputs[0], "Equal")
        if not equal:
            return None
        for value, other in (equal.inputs, equal.inputs[::-1]):
            number = self.constant(other)
            if number is not None and number.size == 1 and number.dtype.kind == "i":
                return self.same(value), int(number.reshape(()))
        return None

    def columns(self, name: str, wanted: list[int]) -> tuple[str, str] | None:
        """Return (rows, indices) where a value is these columns of some rows."""
        cast = self.node(name, "Cast")
        if cast is not None and wanted == [0]:  # images are whole numbers
            name = cast.inputs[0]
        name = self.through(name, ("Cast", "Squeeze"))
        found = self.sliced(name)
        columns = self.node(name, "Gather")
        if columns is not None and columns.attributes.get("axis", 0) == 1:
            found = columns.inputs[0], self.numbers(columns.inputs[1]) or []
        if found is None or found[1] != wanted:
            return None
        rows = self.node(found[0], "Gather", "GatherND")
        # GatherND takes rows too, since its indices are a column: others give no boxes.
        if rows is None or rows.attributes.get("axis") or rows.attributes.get("batch_dims"):
            return None
        return self.same(rows.inputs[0]), rows.inputs[1]


def pyramids(graph: Any, singles: dict[str, Any], left: list[str]) -> list[Pyramid]:
    """Return the pyramids whose levels are scattered together, and add to `left` why others are
    none; singles: RoI nodes by output.
    """
    if not singles:
        return []
    walk, found = Walk(graph), []
    scattering = [node for node in graph.nodes if node.op_type in SCATTERS and not node.domain]
    inner = {
        node.inputs[0] for node in scattering if walk.node(node.inputs[0], node.op_type) is not None
    }
    for node in scattering:
        if node.outputs[0] in inner:
            continue
        walk.quantised = None
        pyramid = _pyramid(walk, node, singles)
        if pyramid is not None:
            found.append(pyramid)
        elif walk.through(node.inputs[2], (*SHAPES, *QUANTISED)) in singles:
            left.append(f"pyramid of RoiAlign -> {node.outputs[0]!r}: {walk.otherwise()}")
    return found


def _pyramid(walk: Walk, last: Any, singles: dict[str, Any]) -> Pyramid | None:
    """Follow a chain of scattering nodes back to what it begins with."""
    chain = []
    begin: Any = last.outputs[0]
    while (node := walk.node(begin, last.op_type)) is not None:
        chain.append(node)
        begin = node.inputs[0]
    found = [_scattered(walk, node, singles) for node in chain]
    parts = [part for part in found if part is not None]
    levels = [part.level for part in parts]
    if len(parts) < len(found) or len({level.number for level in levels}) < len(levels):
        return None
    source, given = parts[0].source, parts[0].given
    if any((part.source, part.given) != (source, given) for part in parts):
        return None
    pooled = [part.pooled for part in parts]
    if last.op_type == "ScatterElements":  # what it begins with is made of what is pooled
        if not _are_zeros(walk, begin, source, pooled):
            return None
        begin = None
    outside = {*source, *(level.map for level in levels), begin}
    nodes = closed(walk.graph, last, outside, walk.readers)
    if not all(node in nodes for node in (*chain, *pooled)):
        return None
    levels.sort(key=lambda level: -level.scale)
    made = Pyramid(nodes, levels, source, given, begin)
    return made if read_all(made) else None


def readers_of(graph: Any) -> dict[str, list[Any]]:
    """Return the nodes that read each value."""
    readers: dict[str, list[Any]] = {}
    for node in graph.nodes:
        for name in (*node.inputs, *node.captures):
            readers.setdefault(name, []).append(node)
    return readers


def closed(graph: Any, last: Any, outside: set[Any], readers: Any, takes: Any = None) -> list[Any]:
    """Return a node and those that nothing else than it needs, the node first.

    `outside` are values that are to come from outside; readers: what `readers_of` returns;
    takes: says of a node whether it may be one of them.
    """
    group, waiting = {last: None}, [*last.inputs, *last.captures]
    outside, reads = outside | set(graph.outputs), {}
    while waiting:
        node = graph.producer.get(waiting.pop())
        if node is None:
            continue
        if node not in reads:
            is_inside = outside.isdisjoint(node.outputs) and (takes is None or takes(node))
            used = [reader for name in node.outputs for reader in readers.get(name, ())]
            reads[node] = len(used) if is_inside else -1
        reads[node] -= 1  # those that are left are of nodes that are not in the group
        if reads[node] == 0:
            group[node] = None
            waiting += node.inputs
    return list(group)


def read_all(group: Any) -> bool:
    """Whether the nodes of a group read all of its inputs, so that ONNX Runtime hands them on."""
    return set(group.inputs) <= {name for node in group.nodes for name in node.inputs}


def _are_zeros(walk: Walk, begin: str, source: tuple[str, str], pooled: list[Any]) -> bool:
    """Whether a value is as many rows of zeros as there are boxes, as large as what is pooled.

    Its extents are taken of the shapes of both, or are constants that are as large.
    """
    node = walk.node(begin, "ConstantOfShape")
    parts = node and walk.node(node.inputs[0], "Concat")
    if not parts or np.any(node.attributes.get("value", 0)):
        return False
    names = {node.outputs[0] for node in pooled}
    known = [walk.graph.shape_of(name) for name in names]
    extents: list[Any] = []
    for name in parts.inputs:
        extents += walk.numbers(name) or [name]
    for i, extent in enumerate(extents):
        if isinstance(extent, int):
            if i == 0 or any(shape[i : i + 1] != [extent] for shape in known):
                return False
            continue
        chosen = walk.node(walk.through(extent), "Gather")
        shape = chosen and walk.node(chosen.inputs[0], "Shape")
        if not shape or walk.numbers(chosen.inputs[1]) != [i]:
            return False
        of = walk.through(shape.inputs[0], ("Cast", "Identity"))
        if of not in names if i else shape.inputs[0] not in source:
            return False
    return len(extents) == 4


class _Part(NamedTuple):
    """What one scattering node puts into the output of a pyramid."""

    level: Level
    source: tuple[str, str]  # the values that say the levels of boxes, and their rows
    given: dict[str, Any]  # attributes of the RoiAlign, but for its scale
    pooled: Any  # the RoiAlign


def _scattered(walk: Walk, node: Any, singles: dict[str, Any]) -> _Part | None:
    """Return what a scattering node puts into the output, or None."""
    attributes = node.attributes
    if attributes.get("axis", 0) != 0 or attributes.get("reduction", "none") != "none":
        return None
    of = walk.level(node.inputs[1])
    roi_node = singles.get(walk.through(node.inputs[2], ("Cast", "Identity")))
    if of is None or roi_node is None or roi_node.op_type != "RoiAlign":
        return None
    corners = walk.columns(roi_node.inputs[1], [1, 2, 3, 4])
    images = walk.columns(roi_node.inputs[2], [0])
    if corners is None or images is None or corners[0] != images[0]:
        return None
    if {walk.level(corners[1]), walk.level(images[1])} != {of}:
        return None
    given: Any = {"coordinate_transformation_mode": "output_half_pixel"}  # of opset 10
    given |= TABLE[roi_node.key][roi_node.since_version].attributes | roi_node.attributes
    scale = given.pop("spatial_scale")
    if given["mode"].lower() != "avg":
        return None
    level = Level(of[1], roi_node.inputs[0], scale)
    return _Part(level, (of[0], corners[0]), given, roi_node)
