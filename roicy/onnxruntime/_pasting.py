"""
The Loop that pastes masks in torchvision's exports, known by what it computes.

Its body is computed by NumPy for small masks, and has to give what paste_masks gives.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import masks
from . import version
from ._patterns import Walk, closed, read_all, spell

FLOAT, INT64 = 1, 7  # element types of ONNX
ZERO = np.zeros(1, np.float32)
DTYPES = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}
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
    if not set(kinds) <= set(OPERATORS) or kinds.count("Resize") != 1 or len(body.inputs) != 3:
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


def _probes(shape: tuple[int, ...]) -> list[list[np.ndarray]]:
    """Return masks with borders, boxes of whole pixels partly in the image, and its extents."""
    rng, extents = np.random.default_rng(7), [np.full(shape, 23), np.full(shape, 17)]
    boxes = [
        [[2, 3, 9, 12], [-4, -5, 40, 30], [5, 5, 5, 5], [0, 0, 16, 22]],
        [[-30, 2, 3, 4], [10, -9, 80, 1], [15, 21, 17, 90], [1, 1, 14, 2]],
    ]
    return [
        [rng.random((4, 1, side, side), np.float32), np.array(each), *extents]
        for side, each in zip((6, 30), boxes, strict=True)
    ]


def _pastes(graph: Any, node: Any, inputs: list[str]) -> bool:
    """Whether the body of a Loop pastes the probes as roicy does."""
    (body,), step = node.bodies, Pasting(node, inputs)
    constants = {name: graph.constant(name) for name in node.captures} | {"": None}
    constants |= {name: body.constant(name) for name in body.initializers}
    turn = [(one.outputs, OPERATORS[one.op_type], one.inputs, one.attributes) for one in body.nodes]
    for shape in ((), (1,)):  # of the extents
        with contextlib.suppress(Exception):  # whatever it is, the Loop does something else
            if all(_agrees(body, turn, constants, step, probe) for probe in _probes(shape)):
                return True
    return False


def _agrees(body: Any, turn: Any, constants: Any, step: Pasting, arrays: list[Any]) -> bool:
    values = constants | dict(zip(step.inputs, arrays, strict=True))
    expected = np.empty((len(arrays[0]), arrays[2].item(), arrays[3].item()), np.float32)
    step.run(arrays, lambda shape: expected)
    got = expected[:0]
    for k in range(len(expected)):
        values |= dict(zip(body.inputs, (np.array(k), np.True_, got), strict=True))
        for (output,), compute, names, attributes in turn:
            values[output] = compute(*(values[name] for name in names), **attributes)
        goes_on, got = (values[name] for name in body.outputs)
        if not goes_on:
            return False
    return got.shape == expected.shape and np.allclose(got, expected, rtol=0, atol=1e-5)


# The nodes that a body may have.  Inputs and attributes that they do not take are errors.


def _reduce(
    function: Any, x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Any:
    return function(x, None if axes is None else tuple(axes), keepdims=bool(keepdims))


def _resize(x: Any, roi: Any, scales: Any, sizes: Any, **given: Any) -> Any:
    stretched = given.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    kind = given["mode"], given["coordinate_transformation_mode"], stretched
    others = [given.get(name) for name in ("antialias", "exclude_outside", "axes")]
    if kind != ("linear", "half_pixel", True) or any(others):
        raise ValueError(f"Resize with {given}")
    for axis, size in enumerate(sizes):
        last = x.shape[axis] - 1
        places = np.clip((np.arange(size) + 0.5) * (last + 1) / size - 0.5, 0, last)
        low = places.astype(np.int64)
        weights = (places - low).reshape(-1, *[1] * (x.ndim - axis - 1))
        x = x.take(low, axis) * (1 - weights) + x.take(np.minimum(low + 1, last), axis) * weights
    return x.astype(np.float32)


def _slice(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = 1) -> Any:
    if np.any(np.asarray(steps) != 1):
        raise ValueError(f"Slice with steps {steps}")
    parts = [slice(None)] * x.ndim
    for i, axis in enumerate(range(len(starts)) if axes is None else axes):
        parts[axis] = slice(starts[i], ends[i])
    return x[tuple(parts)]


OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": lambda x, y: x + y,
    "Cast": lambda x, to, saturate=1: x.astype(DTYPES[to]),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "ConstantOfShape": lambda shape, value=ZERO: np.full(shape, value),
    "Equal": lambda x, y: x == y,
    "Expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))),
    "Gather": lambda x, indices, axis=0: x.take(indices, axis),
    "Identity": lambda x: x,
    "Max": lambda *parts: functools.reduce(np.maximum, parts),
    "Min": lambda *parts: functools.reduce(np.minimum, parts),
    "Pad": lambda x, pads, value=None, mode="constant": np.pad(
        x, pads.reshape(2, -1).T, mode, constant_values=value or 0
    ),
    "ReduceMax": functools.partial(_reduce, np.max),
    "ReduceMin": functools.partial(_reduce, np.min),
    "Reshape": lambda x, shape, allowzero=0: x.reshape(
        [x.shape[i] if extent == 0 else extent for i, extent in enumerate(shape)]
    ),
    "Resize": _resize,
    "Shape": lambda x, start=0: np.array(x.shape[start:]),
    "Slice": _slice,
    "Squeeze": lambda x, axes=None: np.squeeze(x, None if axes is None else tuple(axes)),
    "Sub": lambda x, y: x - y,
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
    "Where": np.where,
}
