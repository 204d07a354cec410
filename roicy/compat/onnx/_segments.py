"""
A graph cut into segments: what ONNX Runtime runs at a time, between the steps that roicy runs.

A node belongs to the earliest stage in which its inputs are there: after the segment of a stage
come the steps of that stage, and nodes that need their outputs are of later stages.  So there are
as few segments as there are steps that wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import onnx
import onnx.shape_inference

from ._model import Graph, bodies, reads
from ._steps import Step, view_of

SMALL_BYTES = 1 << 12  # initializers below may be shapes, whose values matter


class Segment(NamedTuple):
    """
    Nodes that are run together.

    Attributes
    ----------
    nodes : in their order
    inputs, outputs : names of values that come from and go to other segments and steps
    constants : names of initializers that it needs
    """

    nodes: list[Any]
    inputs: list[str]
    outputs: list[str]
    constants: list[str]


class Stage(NamedTuple):
    """A segment, or None where there are no nodes, and the steps after it."""

    segment: Segment | None
    steps: list[Step]


def needed(graph: Graph, steps: dict[str, Step]) -> tuple[list[Any], list[Step]]:
    """Return the nodes and steps that outputs of the graph depend on, in their order."""
    wanted = [value.name for value in graph.proto.output]
    seen: set[str] = set()
    nodes: set[int] = set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        step = steps.get(name)
        if step is not None:
            wanted.extend(step.inputs)
        elif name in graph.producer:
            node = graph.producer[name]
            nodes.add(id(node))
            wanted.extend(reads(node))
    kept = [node for node in graph.nodes if id(node) in nodes]
    ends = [name for node in graph.nodes for name in node.output]
    ordered = [steps[name] for name in ends if name in steps and name in seen]
    return kept, ordered


def with_views(graph: Graph, steps: dict[str, Step]) -> dict[str, Step]:
    """Return the steps and the views of their outputs."""
    found = dict(steps)
    for node in graph.nodes:
        if node.output and node.output[0] not in found and node.input and node.input[0] in found:
            view = view_of(node, graph)
            if view is not None:
                found[view.output] = view
    return found


def cut(graph: Graph, steps: dict[str, Step]) -> list[Stage]:
    """Cut a graph whose `steps`, by their outputs, are computed elsewhere."""
    nodes, ordered = needed(graph, steps)
    # Constants are of every segment that needs them.
    free = [node for node in nodes if node.op_type == "Constant"]
    nodes = [node for node in nodes if node.op_type != "Constant"]
    stage_of: dict[str, int] = {}  # of values: the stage of the node or step they come from
    by_step = {step.output for step in ordered}
    place = {name: i for i, node in enumerate(graph.nodes) for name in node.output}
    of_stage: dict[int, tuple[list[Any], list[Step]]] = {}
    work: list[tuple[int, Any]] = [(place[node.output[0]], node) for node in nodes if node.output]
    work += [(place[step.output], step) for step in ordered]
    for _, item in sorted(work, key=lambda pair: pair[0]):
        is_step = isinstance(item, Step)
        names: Iterable[str] = item.inputs if is_step else reads(item)
        stage = 0
        for name in names:
            if name in stage_of:
                stage = max(stage, stage_of[name] + (not is_step and name in by_step))
        of_stage.setdefault(stage, ([], []))[is_step].append(item)
        for name in [item.output] if is_step else item.output:
            stage_of[name] = stage
    constants = {name: node for node in free for name in node.output}
    outputs = [value.name for value in graph.proto.output]
    return [
        Stage(_segment(graph, of_stage, stage, constants, outputs), of_stage[stage][1])
        for stage in sorted(of_stage)
    ]


def _segment(
    graph: Graph, of_stage: Any, stage: int, constants: dict[str, Any], outputs: list[str]
) -> Segment | None:
    nodes = of_stage[stage][0]
    if not nodes:
        return None
    made = {name for node in nodes for name in node.output if name}
    read = list(dict.fromkeys(name for node in nodes for name in reads(node)))
    elsewhere = set(outputs)
    for other, (others, steps) in of_stage.items():
        for step in steps:
            elsewhere.update(step.inputs)
        if other != stage:
            elsewhere.update(name for node in others for name in reads(node))
    own = {id(constants[name]): constants[name] for name in read if name in constants}
    return Segment(
        nodes=[*own.values(), *nodes],
        inputs=[
            name for name in read
            if name not in made and name not in constants and name not in graph.initializers
        ],
        outputs=[name for node in nodes for name in node.output if name in elsewhere and name],
        constants=[name for name in read if name in graph.initializers],
    )  # fmt: skip


def _rename(nodes: Iterable[Any], names: dict[str, str]) -> None:
    """Give values that nodes and their bodies read other names."""
    for node in nodes:
        for i, name in enumerate(node.input):
            if name in names:
                node.input[i] = names[name]
        for body in bodies(node):
            _rename(body.node, names)
            for value in body.output:
                value.name = names.get(value.name, value.name)


def model_of(graph: Graph, segment: Segment, types: dict[str, Any], names: dict[str, str]) -> Any:
    """
    Return the model of a segment.

    Parameters
    ----------
    graph, segment :
        What it is a part of, and which.
    types : dict
        The TypeProto of each value that it reads.
    names : dict
        New names for initializers.
    """
    model = onnx.ModelProto()
    model.ir_version = max(graph.model.ir_version, 4)  # initializers need not be inputs
    model.opset_import.extend(graph.model.opset_import)
    model.functions.extend(graph.model.functions)
    inner = model.graph
    inner.name = graph.proto.name or "segment"
    inner.node.extend(segment.nodes)
    for name in segment.inputs:
        inner.input.append(onnx.ValueInfoProto(name=name, type=types[name]))
    # ONNX Runtime finds their types.
    inner.output.extend(onnx.ValueInfoProto(name=name) for name in segment.outputs)
    inner.initializer.extend(graph.initializers[name] for name in segment.constants)
    for tensor in inner.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    _rename(inner.node, names)
    return model


def scalars_of(graph: Graph) -> set[str]:
    """
    Return the values that are known to be scalars.

    ONNX Runtime tells the shape () both of these and of values whose rank it does not know.  A
    segment that is not told which of its inputs are scalars may be refused.
    """
    sketch = onnx.ModelProto()
    sketch.ir_version = max(graph.model.ir_version, 4)
    sketch.opset_import.extend(graph.model.opset_import)
    sketch.graph.node.extend(graph.nodes)
    sketch.graph.input.extend(graph.inputs)
    sketch.graph.output.extend(graph.proto.output)
    for name, tensor in graph.initializers.items():
        if tensor.data_location != onnx.TensorProto.EXTERNAL and tensor.ByteSize() < SMALL_BYTES:
            sketch.graph.initializer.append(tensor)
        else:  # its shape is all that matters
            value = onnx.helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
            sketch.graph.input.append(value)
    try:
        inferred = onnx.shape_inference.infer_shapes(sketch, data_prop=True).graph
    except Exception:  # a model may be wrong in ways that do not matter here
        return set()
    return {
        value.name
        for value in [*inferred.value_info, *inferred.input]
        if value.type.tensor_type.HasField("shape") and not value.type.tensor_type.shape.dim
    }
