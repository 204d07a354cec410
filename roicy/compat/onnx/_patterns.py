"""
Pieces of graphs that torchvision's models are exported to, and that are one call of roicy.

A pyramid of RoiAlign nodes is known by its nodes.  Of PyTorch's exporters, that of TorchScript
joins the levels by ScatterElements, and that of torch.export (dynamo=True) by ScatterND.  The Loop
that pastes masks, which only the first writes, is known by what it computes: it is run on small
masks, and has to give what paste_masks gives.
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

    def numbers(self, name: str) -> list[int] | None:
        """Return the numbers of a small constant, or None for other values."""
        value = self.graph.constant(name)
        return None if value is None else value.reshape(-1).tolist()

    def sliced(self, name: str) -> tuple[str, list[int]] | None:
        """Return (rows, columns) where a value is columns of rows that a Slice takes."""
        node = self.node(name, "Slice")
        if node is None or len(node.input) < 4:
            return None
        start, end, axis, *step = map(self.numbers, node.input[1:])
        if axis != [1] or not start or not end or step not in ([], [[1]]):
            return None
        return node.input[0], list(range(start[0], end[0])) if 0 <= start[0] < end[0] < 9 else []

    def level(self, indices: str) -> tuple[str, int] | None:
        """Return (levels of boxes, level) of the indices of the boxes of one level."""
        name = self.through(indices)
        found = self.sliced(name)  # the only column of the transposed indices
        node = self.node(self.through(found[0]) if found and found[1] == [0] else name, "NonZero")
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
        name = self.through(name, ("Cast", "Squeeze"))
        found = self.sliced(name)
        columns = self.node(name, "Gather")
        if columns is not None and _attribute(columns, "axis", 0) == 1:
            found = columns.input[0], self.numbers(columns.input[1]) or []
        if found is None or found[1] != wanted:
            return None
        rows = self.node(found[0], "Gather", "GatherND")
        # GatherND takes rows too, since its indices are a column: others give no boxes.
        is_first = rows is not None and not _attribute(rows, "axis", 0)
        if not is_first or _attribute(rows, "batch_dims", 0):
            return None
        return rows.input[0], rows.input[1]

    def is_zeros(self, name: str) -> bool:
        """Whether a value is zeros, of extents that need not be known."""
        node = self.graph.producer.get(name)
        if node is not None and node.op_type == "Expand":
            return self.is_zeros(node.input[0])
        if node is not None and node.op_type == "ConstantOfShape":
            value = _attribute(node, "value", None)
            return value is None or not numpy_helper.to_array(value).any()
        return self.graph.is_constant(name) and not self.graph.tensor(name).any()

    def rows_of(self, zeros: str) -> str | int | None:
        """Return how many rows zeros have: a number, or the value that tells it, or None."""
        if zeros in self.graph.initializers:
            dims = self.graph.initializers[zeros].dims
            return dims[0] if dims else None
        node = self.node(zeros, "ConstantOfShape", "Expand")
        if node is None or (node.op_type == "Expand" and self.numbers(node.input[0]) != [0]):
            return None
        extents = self.numbers(node.input[-1])
        shape = self.node(node.input[-1], "Concat")
        return extents[0] if extents else shape and shape.input[0]


SCATTERS = ("ScatterElements", "ScatterND")


def pyramids(graph: Graph, steps: dict[str, RoiStep]) -> dict[str, PyramidStep]:
    """Return a step for each pyramid whose levels are scattered together, by its output."""
    walk = _Walk(graph)
    inner = {
        node.input[0]
        for node in graph.nodes
        if node.op_type in SCATTERS and walk.node(node.input[0], node.op_type)
    }
    found = {}
    for node in graph.nodes:
        if node.op_type in SCATTERS and node.output[0] not in inner:
            step = _pyramid(walk, node, steps)
            if step is not None:
                found[step.output] = step
    return found


def _pyramid(walk: _Walk, last: Any, steps: dict[str, RoiStep]) -> PyramidStep | None:
    """Follow a chain of scattering nodes back to the zeros that it begins with."""
    chain, zeros = [], last.output[0]
    while (node := walk.node(zeros, last.op_type)) is not None:
        chain.append(node)
        zeros = node.input[0]
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
    source = sources.pop()
    rows = None
    if last.op_type == "ScatterND":  # takes no updates of other extents than its data have
        rows = walk.rows_of(zeros)
        if rows is None:
            return None
    elif not _has_shape(walk, zeros, source, nodes[len(chain) :]):
        return None
    if not walk.is_zeros(zeros):
        return None
    order = sorted(levels, key=lambda level: -level.scale)
    return PyramidStep(nodes, order, source, last.output[0], given[0], rows)


def _has_shape(walk: _Walk, zeros: str, source: tuple[str, str], roi_nodes: list[Any]) -> bool:
    """Whether zeros are as many rows as there are boxes, of the extents of what is pooled."""
    node = walk.node(zeros, "ConstantOfShape")
    extents = node and walk.node(node.input[0], "Concat")
    if not extents or len(extents.input) != 4:
        return False
    pooled = {node.output[0] for node in roi_nodes}
    for i, name in enumerate(extents.input):
        chosen = walk.node(walk.through(name), "Gather")
        shape = chosen and walk.node(chosen.input[0], "Shape")
        if not shape or walk.numbers(chosen.input[1]) != [i]:
            return False
        of = walk.through(shape.input[0], ("Cast", "Identity"))
        if of not in pooled if i else shape.input[0] not in source:
            return False
    return True


def _scattered(walk: _Walk, node: Any, steps: dict[str, RoiStep]) -> Any:
    """Return (level, (levels, rows), attributes, RoiAlign) of one scattering node, or None."""
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
