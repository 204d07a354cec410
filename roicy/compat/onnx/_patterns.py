"""
Pieces of graphs that torchvision's models are exported to, and that are one call of roicy.

A pyramid of RoiAlign nodes is known by its nodes.  The Loop that pastes masks is known by what it
computes: it is run on small masks, and has to give what paste_masks gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ._model import Graph, bodies, captures
from ._steps import Level, PasteStep, PyramidStep, RoiStep

# Nodes that hand the indices of boxes on, in other shapes.
SHAPES = ("Cast", "Expand", "Identity", "Reshape", "Split", "Squeeze", "Transpose", "Unsqueeze")
LAST = np.iinfo(np.int64).max


def _attribute(node: Any, name: str, default: Any) -> Any:
    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return default


class _Walk:
    """Follows values of a graph back to where they come from."""

    def __init__(self, graph: Graph):
        self.graph = graph

    def node(self, name: str, *kinds: str) -> Any:
        """Return the node of one of these kinds that makes a value, or None."""
        node = self.graph.producer.get(name)
        return node if node is not None and node.op_type in kinds and not node.domain else None

    def through(self, name: str, kinds: tuple[str, ...] = SHAPES) -> str:
        """Return the value that nodes of these kinds make another one of."""
        while (node := self.node(name, *kinds)) is not None:
            name = node.input[0]
        return name

    def level(self, indices: str) -> tuple[str, int] | None:
        """Return (levels of boxes, level) of the indices of the boxes of one level."""
        node = self.node(self.through(indices), "NonZero")
        equal = node and self.node(node.input[0], "Equal")
        if not equal:
            return None
        for value, other in (equal.input, tuple(equal.input)[::-1]):
            number = self.graph.constant(other)
            if number is not None and number.size == 1:
                return value, int(number.reshape(()))
        return None

    def columns(self, name: str, wanted: list[int]) -> tuple[str, str] | None:
        """Return (rows, indices) where a value is these columns of some rows."""
        columns = self.node(self.through(name, ("Cast", "Squeeze")), "Gather")
        if columns is None or _attribute(columns, "axis", 0) != 1:
            return None
        which = self.graph.constant(columns.input[1])
        rows = self.node(columns.input[0], "Gather")
        if which is None or which.reshape(-1).tolist() != wanted or rows is None:
            return None
        return None if _attribute(rows, "axis", 0) != 0 else (rows.input[0], rows.input[1])


def pyramids(graph: Graph, steps: dict[str, RoiStep]) -> dict[str, PyramidStep]:
    """Return a step for each pyramid whose levels are scattered together, by its output."""
    walk = _Walk(graph)
    inner = {
        node.input[0]
        for node in graph.nodes
        if node.op_type == "ScatterElements" and walk.node(node.input[0], "ScatterElements")
    }
    found = {}
    for node in graph.nodes:
        if node.op_type == "ScatterElements" and node.output[0] not in inner:
            step = _pyramid(walk, node, steps)
            if step is not None:
                found[step.output] = step
    return found


def _pyramid(walk: _Walk, last: Any, steps: dict[str, RoiStep]) -> PyramidStep | None:
    """Follow a chain of ScatterElements back to the zeros that it begins with."""
    chain, name = [], last.output[0]
    while (node := walk.node(name, "ScatterElements")) is not None:
        chain.append(node)
        name = node.input[0]
    zeros = walk.node(name, "ConstantOfShape")
    value = zeros and _attribute(zeros, "value", None)
    if zeros is None or (value is not None and numpy_helper.to_array(value).any()):
        return None
    levels, given, nodes = [], [], list(chain)
    sources: set[tuple[str, str]] = set()
    for node in reversed(chain):
        found = _scattered(walk, node, steps)
        if found is None:
            return None
        level, source, attributes, roi_node = found
        levels.append(level)
        sources.add(source)
        given.append(attributes)
        nodes.append(roi_node)
    same = all(one == given[0] for one in given)
    numbers = [level.number for level in levels]
    if len(sources) != 1 or not same or len(set(numbers)) != len(numbers):
        return None
    if not _has_shape(walk, zeros, next(iter(sources)), nodes[len(chain) :]):
        return None
    order = sorted(levels, key=lambda level: -level.scale)
    return PyramidStep(nodes, order, list(sources.pop()), last.output[0], given[0])


def _has_shape(walk: _Walk, zeros: Any, source: tuple[str, str], roi_nodes: list[Any]) -> bool:
    """Whether zeros are as many rows as there are boxes, of the extents of what is pooled."""
    extents = walk.node(zeros.input[0], "Concat")
    if extents is None or len(extents.input) != 4:
        return False
    pooled = {node.output[0] for node in roi_nodes}
    for i, name in enumerate(extents.input):
        chosen = walk.node(walk.through(name), "Gather")
        shape = chosen and walk.node(chosen.input[0], "Shape")
        number = chosen and walk.graph.constant(chosen.input[1])
        if not shape or number is None or number.reshape(-1).tolist() != [i]:
            return False
        of = walk.through(shape.input[0], ("Cast", "Identity"))
        if of not in pooled if i else shape.input[0] not in source:
            return False
    return True


def _scattered(walk: _Walk, node: Any, steps: dict[str, RoiStep]) -> Any:
    """Return (level, (levels, rows), attributes, RoiAlign) of one ScatterElements, or None."""
    if _attribute(node, "axis", 0) != 0 or _attribute(node, "reduction", b"none") != b"none":
        return None
    of = walk.level(node.input[1])
    pooled = walk.through(node.input[2], ("Cast", "Identity"))
    step, roi_node = steps.get(pooled), walk.graph.producer.get(pooled)
    if of is None or step is None or roi_node.op_type != "RoiAlign":
        return None
    corners = walk.columns(roi_node.input[1], [1, 2, 3, 4])
    images = walk.columns(roi_node.input[2], [0])
    if corners is None or images is None or corners[0] != images[0]:
        return None
    if {walk.level(corners[1]), walk.level(images[1])} != {of}:
        return None
    attributes = {"coordinate_transformation_mode": "output_half_pixel", **step.attributes}
    scale = attributes.pop("spatial_scale")
    if attributes["mode"] != "avg":
        return None
    return Level(of[1], roi_node.input[0], scale), (of[0], corners[0]), attributes, roi_node


# The Loop that pastes masks

PASTING = {
    "Add", "Cast", "Concat", "Constant", "ConstantOfShape", "Equal", "Expand", "Gather", "Identity",
    "Max", "Min", "Mul", "Pad", "ReduceMax", "ReduceMin", "Reshape", "Resize", "Shape", "Slice",
    "Squeeze", "Sub", "Unsqueeze", "Where",
}  # fmt: skip


def pasting_loops(graph: Graph, run: Callable[[Any, dict[str, Any]], Any]) -> dict[str, PasteStep]:
    """
    Return a step for each Loop that pastes masks, by its output.

    `run` runs a model, of bytes, on arrays, and returns its only output.
    """
    found = {}
    for node in graph.nodes:
        if node.op_type == "Loop" and not node.domain and len(node.output) == 1:
            inputs = _pasted(graph, node)
            if inputs is not None:
                inputs = _order_that_pastes(graph, node, inputs, run)
            if inputs is not None:
                found[node.output[0]] = PasteStep(node, inputs)
    return found


def _pasted(graph: Graph, node: Any) -> list[str] | None:
    """Return the masks, the boxes and two extents that a Loop may paste with, or None."""
    walk, (body,) = _Walk(graph), bodies(node)
    kinds = [inner.op_type for inner in body.node]
    if not set(kinds) <= PASTING or kinds.count("Resize") != 1 or len(body.input) != 3:
        return None
    values = [name for name in captures(body) if not graph.is_constant(name)]
    by_turn = {
        inner.input[0]
        for inner in body.node
        if inner.op_type == "Gather" and inner.input[1] == body.input[0].name
    }
    extents = [name for name in values if name not in by_turn]
    boxes = [n for n in values if n in by_turn and _attribute_of_cast(walk, n) == TensorProto.INT64]
    masks = [name for name in values if name in by_turn and name not in boxes]
    if (len(masks), len(boxes), len(extents)) != (1, 1, 2):
        return None
    trips = walk.node(walk.through(node.input[0], ("Cast", "Squeeze", "Identity")), "Gather")
    counted = trips and walk.node(trips.input[0], "Shape")
    first = trips and graph.constant(trips.input[1])
    zeros = walk.node(node.input[2], "ConstantOfShape")
    shape = zeros and walk.node(zeros.input[0], "Concat")
    empty = shape and graph.constant(shape.input[0])
    goes_on = graph.constant(node.input[1]) if node.input[1] else np.True_
    if (
        not counted or walk.through(counted.input[0], ("Identity",)) not in (masks[0], boxes[0])
        or first is None or first.any()
        or empty is None or empty.reshape(-1).tolist() != [0]
        or goes_on is None or not goes_on.all()
    ):  # fmt: skip
        return None
    return [masks[0], boxes[0], *extents]


def _attribute_of_cast(walk: _Walk, name: str) -> Any:
    node = walk.node(name, "Cast")
    return None if node is None else _attribute(node, "to", None)


def _probes() -> list[tuple[np.ndarray, np.ndarray, int, int]]:
    """Return masks with borders, boxes of whole pixels partly in the image, and its extents."""
    rng = np.random.default_rng(7)
    boxes = [
        [[2, 3, 9, 12], [-4, -5, 40, 30], [5, 5, 5, 5], [0, 0, 16, 22]],
        [[-30, 2, 3, 4], [10, -9, 80, 1], [15, 21, 17, 90], [1, 1, 14, 2]],
    ]
    return [
        (rng.random((4, 1, side, side)).astype(np.float32), np.array(each), 23, 17)
        for side, each in zip((6, 30), boxes, strict=True)
    ]


def _order_that_pastes(
    graph: Graph, node: Any, inputs: list[str], run: Callable[[Any, dict[str, Any]], Any]
) -> list[str] | None:
    """Run a Loop on probes; return its inputs in the order of PasteStep, or None."""
    model = _probe_model(graph, node, inputs)
    for extents in (inputs[2:], inputs[:1:-1]):
        order = [*inputs[:2], *extents]
        step = PasteStep(node, order)
        if all(_agrees(model, node, step, probe, run) for probe in _probes()):
            return order
    return None


def _agrees(model: bytes, node: Any, step: PasteStep, probe: Any, run: Any) -> bool:
    masks, boxes, height, width = probe
    arrays = [masks, boxes, np.array(height), np.array(width)]
    feed = dict(zip(step.inputs, arrays, strict=True))
    feed[node.input[0]] = np.array(len(boxes))
    feed[node.input[2]] = np.zeros((0, height, width), np.float32)
    try:
        got = run(model, feed)
    except Exception:  # whatever it is, the Loop does something else
        return False
    expected = step.run(arrays, 1)
    return got.shape == expected.shape and bool(np.allclose(got, expected, rtol=0, atol=1e-5))


def _probe_model(graph: Graph, node: Any, inputs: list[str]) -> bytes:
    """Return a model of the Loop alone, whose inputs are what it takes from the graph."""
    (body,) = bodies(node)
    kinds = [TensorProto.FLOAT, *[TensorProto.INT64] * 3]
    shapes: list[Any] = [[None, 1, None, None], [None, 4], None, None]
    values = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in zip(inputs, kinds, shapes, strict=True)
    ]
    for i in (2, 3):  # scalars, or vectors of one element
        values[i].type.tensor_type.ClearField("shape")
    values.append(helper.make_tensor_value_info(node.input[0], TensorProto.INT64, []))
    values.append(
        helper.make_tensor_value_info(node.input[2], TensorProto.FLOAT, [None, None, None])
    )
    needed = {name for name in captures(body) if graph.is_constant(name)}
    needed |= {node.input[1]} if node.input[1] else set()
    constants = [numpy_helper.from_array(graph.tensor(name), name) for name in sorted(needed)]
    made = helper.make_graph(
        [node], "probe", values, [onnx.ValueInfoProto(name=node.output[0])], constants
    )
    model = helper.make_model(
        made, opset_imports=list(graph.model.opset_import), ir_version=graph.model.ir_version
    )
    return model.SerializeToString()
