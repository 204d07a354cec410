"""
The Loop that pastes masks in torchvision's exports, known by what it computes.

Its body is run on small masks, and has to give what paste_masks gives.  The model of the body is
written in ONNX's format here, since the package ``onnx`` would take more memory than all the rest.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from .. import masks
from . import version
from ._patterns import Walk, closed, read_all, spell

FLOAT, INT64, BOOL = 1, 7, 9  # element types of ONNX
KINDS = {
    "Add", "Cast", "Concat", "Constant", "ConstantOfShape", "Equal", "Expand", "Gather", "Identity",
    "Max", "Min", "Mul", "Pad", "ReduceMax", "ReduceMin", "Reshape", "Resize", "Shape", "Slice",
    "Squeeze", "Sub", "Unsqueeze", "Where",
}  # fmt: skip
SCALARS = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze")  # that hand a number on


class Pasting:
    """
    The Loop that pastes masks into an image of each box, as torchvision exports it.

    Its masks have their border of zeros already, and its boxes are of whole pixels.
    """

    threads: int | None = None
    indices: list[int]  # of the inputs of the group

    def __init__(self, node: Any, inputs: list[str]):
        self.nodes, self.inputs, self.output = [node], inputs, node.outputs[0]
        self.title = f"{spell(node.name, node.key)} that pastes masks"

    def has_readers(self, graph: Any) -> bool:
        """Take the nodes before the Loop, too, if they read all of the inputs."""
        cast = graph.producer.get(self.inputs[1])
        if cast is not None and cast.op_type == "Cast":
            self.inputs[1] = cast.inputs[0]
        self.nodes = closed(graph, self.nodes[0], set(self.inputs))
        return read_all(self)

    def run(self, arrays: list[Any], output: Any) -> None:
        """Paste the masks."""
        padded, boxes, *extents = arrays
        height, width = (int(np.squeeze(extent)) for extent in extents)
        corners = np.trunc(boxes.astype(np.float64))
        out = output((len(boxes), height, width))
        if out.size:
            masks.paste_masks(
                padded, corners, (height, width), threshold=None, padding=0, out=out,
                num_threads=self.threads,
            )  # fmt: skip


def pasting_loops(graph: Any) -> list[Pasting]:
    """Return the Loops that paste masks."""
    found = []
    for node in graph.nodes:
        if node.op_type == "Loop" and not node.domain and len(node.outputs) == 1:
            inputs = _pasted(graph, node)
            if inputs and _pastes(graph, node, inputs):
                found.append(Pasting(node, inputs))
    # ONNX Runtime before 1.27 does not hand a Loop that is taken what its body alone reads.
    return [step for step in found if version() >= (1, 27) or step.has_readers(graph)]


def _pasted(graph: Any, node: Any) -> list[str] | None:
    """Return the masks, the boxes, the height and the width that a Loop may paste with, or None."""
    walk, (body,) = Walk(graph), node.bodies
    kinds = [inner.op_type for inner in body.nodes]
    if not set(kinds) <= KINDS or kinds.count("Resize") != 1 or len(body.inputs) != 3:
        return None
    values = [name for name in node.captures if graph.constant(name) is None]
    by_turn = {
        inner.inputs[0]
        for inner in body.nodes
        if inner.op_type == "Gather" and inner.inputs[1] == body.inputs[0]
    }
    extents = [name for name in values if name not in by_turn and graph.type_of(name) == INT64]
    boxes = [name for name in values if name in by_turn and graph.type_of(name) == INT64]
    pasted = [name for name in values if name in by_turn and graph.type_of(name) == FLOAT]
    if (len(pasted), len(boxes), len(extents)) != (1, 1, 2) or len(values) != 4:
        return None
    trips = walk.node(walk.through(node.inputs[0], ("Cast", "Squeeze", "Identity")), "Gather")
    counted = trips and walk.node(trips.inputs[0], "Shape")
    first = trips and walk.constant(trips.inputs[1])
    zeros = walk.node(node.inputs[2], "ConstantOfShape")
    shape = zeros and walk.node(zeros.inputs[0], "Concat")
    empty = shape and walk.constant(shape.inputs[0])
    sides = [walk.through(name, SCALARS) for name in shape.inputs[1:]] if shape else []
    by_source = {walk.through(name, SCALARS): name for name in extents}
    goes_on = walk.constant(node.inputs[1]) if node.inputs[1] else np.True_
    if (
        not counted or walk.through(counted.inputs[0], ("Identity",)) not in (pasted[0], boxes[0])
        or first is None or first.any()
        or empty is None or empty.reshape(-1).tolist() != [0]
        or len(sides) != 2 or set(sides) != set(by_source)
        or goes_on is None or not goes_on.all()
    ):  # fmt: skip
        return None
    return [pasted[0], boxes[0], *(by_source[side] for side in sides)]


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


def _pastes(graph: Any, node: Any, inputs: list[str]) -> bool:
    """Run the body of a Loop on probes."""
    (body,) = node.bodies
    try:
        session = _alone(graph, node, body, inputs)
    except Exception:  # what is written is no model
        return False
    step = Pasting(node, inputs)
    return any(  # of extents that are scalars, or vectors of one element
        all(_agrees(session, body, step, probe, shape) for probe in _probes())
        for shape in ((), (1,))
    )


def _agrees(session: Any, body: Any, step: Pasting, probe: Any, shape: Any) -> bool:
    padded, boxes, height, width = probe
    arrays = [padded, boxes, np.full(shape, height), np.full(shape, width)]
    feed = dict(zip(step.inputs, arrays, strict=True))
    got = np.zeros((0, height, width), np.float32)
    try:
        for k in range(len(boxes)):
            turn = zip(body.inputs, (np.array(k), np.array(True), got), strict=True)
            goes_on, got = session.run(body.outputs, feed | dict(turn))
            if not goes_on:
                return False
    except Exception:  # whatever it is, the Loop does something else
        return False
    expected = np.empty((len(boxes), height, width), np.float32)
    step.run(arrays, lambda shape: expected)
    return got.shape == expected.shape and bool(np.allclose(got, expected, rtol=0, atol=1e-5))


def _alone(graph: Any, node: Any, body: Any, inputs: list[str]) -> Any:
    """Return a session of the body of a Loop, whose inputs are what it takes from the graph too."""
    import onnxruntime

    values = [*zip(body.inputs, (INT64, BOOL, FLOAT), strict=True), (inputs[0], FLOAT)]
    values += [(name, INT64) for name in inputs[1:]]
    constants = {name: graph.constant(name) for name in node.captures}
    constants |= {name: body.constant(name) for name in body.initializers}
    made = [_field(1, _node(one)) for one in body.nodes] + [_field(2, "body")]
    for name, array in constants.items():
        made += [] if array is None else [_field(5, _tensor(array) + _field(8, name))]
    for number, named in ((11, values), (12, zip(body.outputs, (BOOL, FLOAT), strict=True))):
        for name, kind in named:
            made.append(_field(number, _field(1, name) + _field(2, _field(1, _field(1, kind)))))
    opset = max(one.since_version for one in body.nodes)
    model = _field(1, 8) + _field(8, _field(2, opset)) + _field(7, b"".join(made))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


# What onnx.proto calls NodeProto, AttributeProto and TensorProto


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


def _node(node: Any) -> bytes:
    made = [_field(1, name) for name in node.inputs] + [_field(2, name) for name in node.outputs]
    given = [_field(1, name) + _value(value) for name, value in node.attributes.items()]
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


def _tensor(array: Any) -> bytes:
    kinds = {"float32": FLOAT, "int64": INT64, "bool": BOOL, "int32": 6, "float64": 11, "uint8": 2}
    dims = b"".join(_field(1, extent) for extent in array.shape)
    return dims + _field(2, kinds[array.dtype.name]) + _field(9, array.tobytes())
