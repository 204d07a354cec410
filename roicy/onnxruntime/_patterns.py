"""
Groups of nodes that torchvision's models are exported to, and that are one call of roicy.

A pyramid of RoiAlign nodes is known by its nodes.  PyTorch's exporter of TorchScript joins
the levels by ScatterElements, and its exporter by torch.export (dynamo=True) by ScatterND.  Only
the first writes the Loop that pastes masks.  It is known by what it computes: see ``_pasting.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import multiscale, operators
from ..compat.onnx._table import levels_of

# Nodes that hand the indices of boxes on, in other shapes.
SHAPES = ("Cast", "Expand", "Identity", "Reshape", "Split", "Squeeze", "Transpose", "Unsqueeze")
SCATTERS = ("ScatterElements", "ScatterND")


def spell(name: str, key: tuple[str, str]) -> str:
    """Return a node as errors show it; key: (domain, operator)."""
    return f"node {name!r} ({'.'.join(filter(None, key))})"


class Level(NamedTuple):
    """A level of a pyramid: its number in `levels`, its map and its scale."""

    number: int
    map: str
    scale: float


class Pyramid:
    """
    RoiAlign nodes of the levels of a pyramid, whose outputs are scattered to the rows of their
    boxes.

    The graph computes the level of each box.  Where roicy's own rule agrees, as it does but for
    boxes whose size lies between two levels, all are pooled by one call.

    Parameters
    ----------
    nodes : list
        The group.
    source : (str, str)
        The values that have the level of each box, and its row.
    given : dict
        The attributes that the RoiAlign nodes have in common.
    rows : int, str or None
        How many rows the output has, or the value that tells it; None: as many as boxes.  More of
        them are zeros.
    """

    threads: int | None = None
    indices: list[int]  # of the inputs of the group

    def __init__(
        self, nodes: list[Any], levels: list[Level], source: tuple[str, str], given: Any,
        rows: int | str | None,
    ):  # fmt: skip
        self.nodes, self.levels, self.given, self.rows = nodes, levels, given, rows
        self.output = nodes[0].outputs[0]
        self.title = f"pyramid of {len(levels)} x RoiAlign -> {self.output!r}"
        self.inputs = [*source, *(level.map for level in levels)]
        self.inputs += [rows] if isinstance(rows, str) else []
        self.numbers = [level.number for level in levels]
        self.scales = [float(np.float32(level.scale)) for level in levels]

    def run(self, arrays: list[Any], output: Any) -> None:
        """Pool the boxes of all levels."""
        count = self.rows
        if isinstance(count, str):
            *arrays, extent = arrays
            count = int(extent.reshape(-1)[0])
        chosen, rows, *maps = arrays
        size = (self.given["output_height"], self.given["output_width"])
        count = len(rows) if count is None else count
        if count < len(rows):
            raise ValueError(f"{self.title}: {len(rows)} boxes, expected at most {count}")
        out = output((count, maps[0].shape[1], *size))
        out[len(rows) :] = 0
        if len(rows):
            self._pool(chosen, rows, maps, size, out[: len(rows)])

    def _pool(self, chosen: Any, rows: Any, maps: list[Any], size: Any, out: Any) -> None:
        aligned = self.given["coordinate_transformation_mode"] == "half_pixel"
        ratio, threads = self.given["sampling_ratio"], self.threads
        place = np.full(len(chosen), -1)
        for i, number in enumerate(self.numbers):
            place[chosen == number] = i
        if np.array_equal(place, levels_of(rows, self.scales)):
            multiscale.multiscale_roi_align(
                maps, rows, size, self.scales, ratio, aligned, out=out, num_threads=threads
            )
            return
        out[...] = 0
        for i, scale in enumerate(self.scales):
            of_level = np.flatnonzero(place == i)
            out[of_level] = operators.roi_align(
                maps[i], rows[of_level], size, scale, ratio, aligned, num_threads=threads
            )


class Walk:
    """Follows values of a graph back to where they come from."""

    def __init__(self, graph: Any):
        self.graph = graph

    def node(self, name: str, *kinds: str) -> Any:
        """Return the node of one of these kinds that makes a value, or None."""
        node = self.graph.producer.get(name)
        return node if node is not None and node.op_type in kinds and not node.domain else None

    def through(self, name: str, kinds: tuple[str, ...] = SHAPES) -> str:
        """Return the value that nodes of these kinds make another one of."""
        while (node := self.node(name, *kinds)) is not None:
            name = node.inputs[0]
        return name

    def constant(self, name: str) -> np.ndarray | None:
        """Return a constant, or None for other values."""
        value: np.ndarray | None = self.graph.constant(self.through(name, ("Identity",)))
        return value

    def numbers(self, name: str) -> list[int] | None:
        """Return the numbers of a constant of few, or None for other values."""
        value = self.constant(name)
        return None if value is None or value.size > 99 else value.reshape(-1).tolist()

    def sliced(self, name: str) -> tuple[str, list[int]] | None:
        """Return (rows, columns) where a value is columns of rows that a Slice takes."""
        node = self.node(name, "Slice")
        if node is None or len(node.inputs) < 4:
            return None
        start, end, axis, *step = map(self.numbers, node.inputs[1:])
        if axis != [1] or not start or not end or step not in ([], [[1]]):
            return None
        return node.inputs[0], list(range(start[0], end[0])) if 0 <= start[0] < end[0] < 9 else []

    def level(self, indices: str) -> tuple[str, int] | None:
        """Return (levels of boxes, level) of the indices of the boxes of one level."""
        name = self.through(indices)
        found = self.sliced(name)  # the only column of the transposed indices
        node = self.node(self.through(found[0]) if found and found[1] == [0] else name, "NonZero")
        equal = node and self.node(node.inputs[0], "Equal")
        if not equal:
            return None
        for value, other in (equal.inputs, equal.inputs[::-1]):
            number = self.constant(other)
            if number is not None and number.size == 1 and number.dtype.kind == "i":
                return value, int(number.reshape(()))
        return None

    def columns(self, name: str, wanted: list[int]) -> tuple[str, str] | None:
        """Return (rows, indices) where a value is these columns of some rows."""
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
        return rows.inputs[0], rows.inputs[1]

    def is_zeros(self, name: str) -> bool:
        """Whether a value is zeros, of extents that need not be known."""
        node = self.node(name, "Expand", "ConstantOfShape")
        if node is None:
            value = self.graph.constant(name)
            return value is not None and not value.any()
        if node.op_type == "Expand":
            return self.is_zeros(node.inputs[0])
        value = node.attributes.get("value")
        return value is None or not value.any()

    def rows_of(self, zeros: str) -> str | int | None:
        """Return how many rows zeros have: a number, or the value that tells it, or None."""
        value = self.graph.constant(zeros)
        if value is not None:
            return value.shape[0] if value.ndim else None
        node = self.node(zeros, "ConstantOfShape", "Expand")
        if node is None or (node.op_type == "Expand" and self.numbers(node.inputs[0]) != [0]):
            return None
        extents = self.numbers(node.inputs[-1])
        shape = self.node(node.inputs[-1], "Concat")
        return extents[0] if extents else shape and shape.inputs[0]


def pyramids(graph: Any, singles: dict[str, Any]) -> list[Pyramid]:
    """Return the pyramids whose levels are scattered together; singles: RoI nodes by output."""
    walk = Walk(graph)
    scattering = [node for node in graph.nodes if node.op_type in SCATTERS and not node.domain]
    inner = {
        node.inputs[0] for node in scattering if walk.node(node.inputs[0], node.op_type) is not None
    }
    made = [_pyramid(walk, node, singles) for node in scattering if node.outputs[0] not in inner]
    return [pyramid for pyramid in made if pyramid is not None]


def _pyramid(walk: Walk, last: Any, singles: dict[str, Any]) -> Pyramid | None:
    """Follow a chain of scattering nodes back to the zeros that it begins with."""
    chain, zeros = [], last.outputs[0]
    while (node := walk.node(zeros, last.op_type)) is not None:
        chain.append(node)
        zeros = node.inputs[0]
    found = [_scattered(walk, node, singles) for node in chain]
    levels: list[Level] = [one[0] for one in found if one is not None]
    if len(levels) < len(found) or len({level.number for level in levels}) < len(levels):
        return None
    _, source, given, _ = found[0]
    if any(one[1] != source or one[2] != given for one in found):
        return None
    pooled = [one[3] for one in found]
    rows = None
    if last.op_type == "ScatterND":  # takes no updates of other extents than its data have
        rows = walk.rows_of(zeros)
        if rows is None:
            return None
    elif not _has_shape(walk, zeros, source, pooled):
        return None
    outside = {*source, *(level.map for level in levels), *([rows] if rows else [])}
    nodes = closed(walk.graph, last, outside)
    if not walk.is_zeros(zeros) or not all(node in nodes for node in (*chain, *pooled)):
        return None
    levels.sort(key=lambda level: -level.scale)
    made = Pyramid(nodes, levels, source, given, rows)
    return made if read_all(made) else None


def closed(graph: Any, last: Any, outside: set[Any]) -> list[Any]:
    """
    Return a node and those that nothing else than it needs, the node first.

    `outside` are values that are to come from outside.
    """
    readers: dict[str, list[Any]] = {}
    for node in graph.nodes:
        for name in (*node.inputs, *node.captures):
            readers.setdefault(name, []).append(node)
    group, waiting = [last], [*last.inputs, *last.captures]
    while waiting:
        node = graph.producer.get(waiting.pop())
        if node is None or node in group or any(name in outside for name in node.outputs):
            continue
        used = [reader for name in node.outputs for reader in readers.get(name, ())]
        if all(reader in group for reader in used) and not set(node.outputs) & set(graph.outputs):
            group.append(node)
            waiting += node.inputs
    return group


def read_all(step: Any) -> bool:
    """Whether the nodes of a step read all of its inputs, so that ONNX Runtime hands them on."""
    return set(step.inputs) <= {name for node in step.nodes for name in node.inputs}


def _has_shape(walk: Walk, zeros: str, source: tuple[str, str], pooled: list[Any]) -> bool:
    """Whether zeros are as many rows as there are boxes, of the extents of what is pooled."""
    node = walk.node(zeros, "ConstantOfShape")
    extents = node and walk.node(node.inputs[0], "Concat")
    if not extents or len(extents.inputs) != 4:
        return False
    names = {node.outputs[0] for node in pooled}
    for i, name in enumerate(extents.inputs):
        chosen = walk.node(walk.through(name), "Gather")
        shape = chosen and walk.node(chosen.inputs[0], "Shape")
        if not shape or walk.numbers(chosen.inputs[1]) != [i]:
            return False
        of = walk.through(shape.inputs[0], ("Cast", "Identity"))
        if of not in names if i else shape.inputs[0] not in source:
            return False
    return True


def _scattered(walk: Walk, node: Any, singles: dict[str, Any]) -> Any:
    """Return (level, (levels, rows), attributes, RoiAlign) of one scattering node, or None."""
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
    mode = "output_half_pixel" if roi_node.since_version < 16 else "half_pixel"
    given = {
        "mode": "avg", "output_height": 1, "output_width": 1, "sampling_ratio": 0,
        "spatial_scale": 1.0, "coordinate_transformation_mode": mode, **roi_node.attributes,
    }  # fmt: skip
    scale = given.pop("spatial_scale")
    mode = given["coordinate_transformation_mode"] = given["coordinate_transformation_mode"].lower()
    if given["mode"].lower() != "avg" or mode not in ("half_pixel", "output_half_pixel"):
        return None
    return Level(of[1], roi_node.inputs[0], scale), (of[0], corners[0]), given, roi_node
