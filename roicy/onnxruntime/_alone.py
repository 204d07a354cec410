"""
Nodes of a graph by themselves: which they are, and what they compute.

A group of nodes is known by what it computes.  It is made a model of its own, which ONNX Runtime
runs on small arrays, and has to give what roicy gives.  The model is written in ONNX's format here,
since the package ``onnx`` would take more memory than all the rest.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from . import register

# NumPy's types by the numbers of ONNX's element types
DTYPES = {1: "f4", 2: "u1", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8"}
NUMBERS = {np.dtype(name): number for number, name in DTYPES.items()}


def through(graph: Any, name: str, *kinds: str) -> str:
    """Return the value that nodes of these kinds make another one of."""
    while (node := graph.producer.get(name)) is not None and node.op_type in kinds:
        name = node.inputs[0]
    return name


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


def inputs_of(graph: Any, nodes: list[Any]) -> list[str] | None:
    """
    Return the values that nodes read from outside, but for constants.

    None if only a body reads one, which ONNX Runtime before 1.27 does not hand to a group.
    """
    made = {name for node in nodes for name in node.outputs} | {""}
    read = {name for node in nodes for name in node.inputs} - made
    captured = {name for node in nodes for name in node.captures} - made - read
    if any(graph.constant(name) is None for name in captured):
        return None
    return [name for name in sorted(read) if graph.constant(name) is None]


def session_of(graph: Any, nodes: list[Any], inputs: list[str]) -> Any:
    """Return a session of nodes, whose output is the one of the first."""
    import onnxruntime

    names = {name for node in nodes for name in (*node.inputs, *node.captures)} - {""}
    types = {name: _field(1, graph.type_of(name)) for name in inputs}
    written = _graph(graph, nodes, names, types, nodes[0].outputs)
    inner = [one for node in nodes for body in node.bodies for one in body.nodes]
    opset = max(one.since_version for one in (*nodes, *inner) if not one.domain)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.add_provider_for_devices(register(), {"num_threads": "1", "groups": "of a group"})
    model = _field(1, 8) + _field(8, _field(2, opset)) + _field(7, written)
    return onnxruntime.InferenceSession(model, options, enable_fallback=0)


def agrees(session: Any, step: Any, arrays: list[np.ndarray]) -> bool:
    """Whether a session of a step's nodes gives what the step gives of these inputs."""
    made: list[np.ndarray] = []

    def output(shape: Any) -> np.ndarray:
        made.append(np.empty(shape, got.dtype))
        return made[0]

    try:
        (got,) = session.run(None, dict(zip(step.inputs, arrays, strict=True)))
        step.run(arrays, output)
    except Exception:  # whatever it is, the nodes do something else
        return False
    atol = 64 * np.finfo(got.dtype).eps
    return got.shape == made[0].shape and np.allclose(got, made[0], rtol=0, atol=atol)


# What onnx.proto calls GraphProto, NodeProto, AttributeProto and TensorProto


def _field(number: int, value: Any) -> bytes:
    """Return a field of a protocol buffer: an integer, a float, a string or another message."""
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value % 2**64)
    data = value.encode(errors="surrogateescape") if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def _graph(
    graph: Any, nodes: list[Any], constants: Any, inputs: dict[str, bytes], outputs: list[str]
) -> bytes:  # fmt: skip
    """Return a graph; inputs: the types of those that do not follow from other types."""
    made = [_field(1, _node(node)) for node in nodes] + [_field(2, "alone")]
    for name in constants:
        array = graph.constant(name)
        made += [] if array is None else [_field(5, _tensor(array) + _field(8, name))]
    for name, tensor in inputs.items():
        made.append(_field(11, _field(1, name) + (tensor and _field(2, _field(1, tensor)))))
    return b"".join([*made, *(_field(12, _field(1, name)) for name in outputs)])


def _node(node: Any) -> bytes:
    made = [_field(1, name) for name in node.inputs] + [_field(2, name) for name in node.outputs]
    given = [_field(1, name) + _value(value) for name, value in node.attributes.items()]
    for body in node.bodies:  # of a Loop, whose turn and condition are scalars
        scalars = [_field(1, kind) + _field(2, b"") for kind in (7, 9)]
        inputs = dict.fromkeys(body.inputs, b"") | dict(zip(body.inputs, scalars, strict=False))
        written = _graph(body, body.nodes, body.initializers, inputs, body.outputs)
        given.append(_field(1, "body") + _field(6, written) + _field(20, 5))
    return b"".join([*made, _field(4, node.op_type), *(_field(5, one) for one in given)])


def _value(value: Any) -> bytes:
    """Return the value of an attribute and its type."""
    if isinstance(value, list):
        number, kind = (7, 6) if value and isinstance(value[0], float) else (8, 7)
        return b"".join(_field(number, one) for one in value) + _field(20, kind)
    if isinstance(value, np.ndarray):
        return _field(5, _tensor(value)) + _field(20, 4)
    number, kind = {float: (2, 1), int: (3, 2), str: (4, 3)}[type(value)]
    return _field(number, value) + _field(20, kind)


def _tensor(array: np.ndarray) -> bytes:
    dims = b"".join(_field(1, extent) for extent in array.shape)
    return dims + _field(2, NUMBERS[array.dtype]) + _field(9, array.tobytes())
