"""
Groups of nodes that torchvision's models are exported to, and that are one call of roicy.

A pyramid of RoiAlign nodes is found by its nodes, and known by what it computes.  PyTorch's
exporter of TorchScript joins the levels by ScatterElements, and its exporter by torch.export
(dynamo=True) by ScatterND.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import multiscale, operators
from ..compat.onnx._table import TABLE, levels_of
from ._alone import DTYPES, agrees, closed, inputs_of, session_of, through


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
    rows : int or str
        How many rows the output has, or the value that tells it.  Rows without a box are zeros.
    """

    threads: int | None = None
    indices: list[int]  # of the inputs of the group

    def __init__(
        self, nodes: list[Any], levels: list[Level], source: tuple[str, str], given: Any,
        rows: int | str,
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
        if count < len(rows):
            raise ValueError(f"{self.title}: {len(rows)} boxes, expected at most {count}")
        out = output((count, maps[0].shape[1], *size))
        out[len(rows) :] = 0
        if len(rows):
            self._pool(chosen, rows, maps, size, out[: len(rows)])

    def _pool(self, chosen: Any, rows: Any, maps: list[Any], size: Any, out: Any) -> None:
        mode = self.given.get("coordinate_transformation_mode", "output_half_pixel")
        aligned = mode.lower() == "half_pixel"
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


def pyramids(graph: Any, singles: dict[str, Any]) -> list[Pyramid]:
    """Return the pyramids whose levels are scattered together; singles: RoI nodes by output."""
    scattering = [node for node in graph.nodes if node.op_type in ("ScatterElements", "ScatterND")]
    inner = {node.inputs[0] for node in scattering}
    made = [_pyramid(graph, node, singles) for node in scattering if node.outputs[0] not in inner]
    return [pyramid for pyramid in made if pyramid is not None]


def _pyramid(graph: Any, last: Any, singles: dict[str, Any]) -> Pyramid | None:
    """Follow a chain of scattering nodes back to the zeros that it begins with."""
    found, zeros = [], last.outputs[0]
    while (node := graph.producer.get(zeros)) is not None and node.op_type == last.op_type:
        found.append(_level(graph, node, singles))
        zeros = node.inputs[0]
    if None in found or any(one[1:] != found[0][1:] for one in found):
        return None
    _, source, given = found[0]
    rows, channels = _extents(graph, zeros)
    if rows is None:
        return None
    levels = sorted((one[0] for one in found), key=lambda level: -level.scale)
    nodes = closed(graph, last, {*source, *(level.map for level in levels), rows})
    made = Pyramid(nodes, levels, source, given, rows)
    inputs = inputs_of(graph, nodes)
    if inputs is None or set(inputs) != set(made.inputs):
        return None
    session = session_of(graph, nodes, inputs)
    dtypes = [DTYPES[graph.type_of(name)] for name in made.inputs]
    is_one = all(agrees(session, made, one) for one in _probes(made, dtypes, channels))
    return made if is_one else None


def _level(graph: Any, node: Any, singles: dict[str, Any]) -> Any:
    """Return (level, (levels, rows), attributes) of one scattering node, or None."""

    def reads_boxes(one: Any) -> bool:
        return one.op_type in ("Gather", "GatherND") and graph.constant(one.inputs[1]) is None

    roi_node = singles.get(through(graph, node.inputs[2], "Cast", "Identity"))
    equal = _back(graph, node.inputs[1], lambda one: one.op_type == "Equal")
    if roi_node is None or roi_node.op_type != "RoiAlign" or equal is None:
        return None
    gather = _back(graph, roi_node.inputs[1], reads_boxes)
    given = TABLE[roi_node.key][roi_node.since_version].attributes | roi_node.attributes
    scale = given.pop("spatial_scale")
    for value, other in (equal.inputs, equal.inputs[::-1]):
        number = graph.constant(other)
        if gather and number is not None and number.size == 1 and number.dtype.kind == "i":
            level = Level(int(number.reshape(())), roi_node.inputs[0], scale)
            return level, (value, gather.inputs[0]), given
    return None


def _back(graph: Any, name: str, is_it: Callable[[Any], bool]) -> Any:
    """Return the first node, back from a value by the first inputs of nodes, or None."""
    node = graph.producer.get(name)
    while node is not None and not is_it(node):
        node = graph.producer.get(node.inputs[0]) if node.inputs else None
    return node


def _extents(graph: Any, zeros: str) -> tuple[str | int | None, int]:
    """Return how many rows zeros have, or the value that tells it, and how many channels."""
    node, value = graph.producer.get(zeros), graph.constant(zeros)
    shape = node.inputs[-1] if node is not None and node.inputs else ""
    extents = graph.constant(shape) if value is None else value.shape
    if extents is not None:
        return int(extents[0]), int(extents[1])
    concat = graph.producer.get(shape)
    if concat is None or concat.op_type != "Concat":
        return None, 0
    channels = graph.constant(concat.inputs[1])
    return concat.inputs[0], 1 if channels is None else channels.item(0)


def _probes(step: Pyramid, dtypes: list[str], channels: int) -> list[list[np.ndarray]]:
    """Return inputs of a pyramid: boxes of each level and of none, on maps of two images."""
    rng, made = np.random.default_rng(7), []
    for more in (0, 2):  # rows without boxes
        count = 9 if isinstance(step.rows, str) else step.rows - more
        boxes = rng.uniform(0, 6, (count, 5)) / max(step.scales)
        boxes[:, 0], boxes[:, 3:] = rng.integers(0, 2, count), boxes[:, 1:3] + boxes[:, 3:]
        levels = rng.choice([*step.numbers, max(step.numbers) + 1], count)
        maps = [rng.random((2, channels, 9, 11)) for _ in step.numbers]
        arrays = zip((levels, boxes, *maps, np.array([count + more])), dtypes, strict=False)
        made.append([array.astype(dtype) for array, dtype in arrays])
    return made
