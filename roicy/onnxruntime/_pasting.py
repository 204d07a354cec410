"""The Loop that pastes masks in torchvision's exports, known by what it computes.

Its body is computed once with symbols in the place of numbers (``_symbols.py``), and has to give
what paste_masks gives.  So it does the same for masks, boxes and images of all sizes.  Only for a
box off the image, bodies that do not cut what they made give an image of another size.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from .. import masks
from ..compat.onnx._specs import MaskSpec
from . import version
from ._patterns import FLOAT, INT64, Group, Walk, closed, read_all, spell
from ._symbols import MASK, MOST_NUMBERS, OPERATORS, Image, Sum, bounded, extreme

SCALARS = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze")  # that hand a number on


class Pasting(Group):
    """The Loop that pastes masks into an image of each box, as torchvision exports it.

    Its masks have their border of zeros already, and its boxes are of whole pixels.  The size of
    the images is `size`, or two more inputs.
    """

    def __init__(self, node: Any, inputs: list[str], size: list[int]):
        self.nodes, self.inputs, self.size, self.output = [node], inputs, size, node.outputs[0]
        self.title = f"{spell(node.name, node.key)} that pastes masks"
        self.spec = MaskSpec(0, 0, True, tuple(size))

    def has_readers(self, walk: Walk) -> bool:
        """Take the nodes before the Loop, too, if they read all of the inputs."""
        cast = walk.graph.producer.get(self.inputs[1])
        if cast is not None and cast.op_type == "Cast":
            self.inputs[1] = cast.inputs[0]
        self.nodes = closed(walk.graph, self.nodes[0], set(self.inputs), walk.readers)
        return read_all(self)

    def run(self, arrays: list[Any], output: Any) -> None:
        """Paste the masks."""
        padded, boxes, *extents = arrays
        height, width = self.size or (int(np.squeeze(extent)) for extent in extents)
        corners = np.trunc(boxes.astype(np.float64))
        out = output((len(boxes), height, width))
        if out.size:
            masks.paste_masks(
                padded, corners, (height, width), threshold=None, padding=0, out=out,
                num_threads=self.threads,
            )  # fmt: skip


def pasting_loops(graph: Any) -> list[Pasting]:
    """Return the Loops that paste masks."""
    loops = [node for node in graph.nodes if node.op_type == "Loop" and not node.domain]
    if not loops:
        return []
    walk, found = Walk(graph), []
    for node in loops:
        if len(node.outputs) == 1:
            inputs, size = _pasted(walk, node)
            if inputs and _pastes(graph, node, inputs, size):
                found.append(Pasting(node, inputs, size))
    # ONNX Runtime before 1.27 does not hand a Loop that is taken what its body alone reads.
    return [one for one in found if version() >= (1, 27) or one.has_readers(walk)]


def _pasted(walk: Any, node: Any) -> tuple[list[str], list[int]]:
    """Return what a Loop may paste with: the names of masks, boxes, height and width, where these
    two are constants without them, and these constants.  No names: it pastes nothing.
    """
    graph, (body,) = walk.graph, node.bodies
    if len(body.inputs) != 3 or any(inner.domain for inner in body.nodes):
        return [], []
    values = [name for name in node.captures if graph.constant(name) is None]
    by_turn = {inner.inputs[0] for inner in body.nodes if _is_by_turn(body, inner)}
    extents = [name for name in values if name not in by_turn and graph.type_of(name) == INT64]
    boxes = [name for name in values if name in by_turn and graph.type_of(name) == INT64]
    pasted = [name for name in values if name in by_turn and graph.type_of(name) == FLOAT]
    start = walk.constant(node.inputs[2])
    size = [] if start is None else list(start.shape[1:])
    if (
        (len(pasted), len(boxes), len(extents)) != (1, 1, 0 if size else 2)
        or len(values) != 2 + len(extents)
        or (start is not None and (start.shape[:1] != (0,) or len(size) != 2))
    ):
        return [], []
    trips = walk.node(walk.through(node.inputs[0], ("Cast", "Squeeze", "Identity")), "Gather")
    counted = trips and walk.node(trips.inputs[0], "Shape")
    first = trips and walk.constant(trips.inputs[1])
    goes_on = walk.constant(node.inputs[1]) if node.inputs[1] else np.True_
    if (
        not counted or walk.through(counted.inputs[0], ("Identity",)) not in (pasted[0], boxes[0])
        or first is None or first.any()
        or goes_on is None or not goes_on.all()
    ):  # fmt: skip
        return [], []
    inputs = [pasted[0], boxes[0]]
    if size:
        return inputs, size
    zeros = walk.node(node.inputs[2], "ConstantOfShape")
    shape = zeros and walk.node(zeros.inputs[0], "Concat")
    empty = shape and walk.constant(shape.inputs[0])
    sides = [walk.through(name, SCALARS) for name in shape.inputs[1:]] if shape else []
    by_source = {walk.through(name, SCALARS): name for name in extents}
    if (
        empty is None or empty.reshape(-1).tolist() != [0]
        or len(sides) != 2 or set(sides) != set(by_source)
    ):  # fmt: skip
        return [], []
    return inputs + [by_source[side] for side in sides], []


def _is_by_turn(body: Any, node: Any) -> bool:
    """Whether a node takes what a value has for the turn of a Loop."""
    return bool(node.op_type == "Gather" and node.inputs[1] == body.inputs[0])


def _pastes(graph: Any, node: Any, inputs: list[str], size: list[int]) -> bool:
    """Whether the body of a Loop does to each mask what paste_masks does."""
    (body,), symbols = node.bodies, ("x1", "y1", "x2", "y2", "height", "width")
    x1, y1, x2, y2, *extents = (Sum({symbol: 1}) for symbol in symbols)
    height, width = size or extents
    rows, columns = _placed("rows", y1, y2, height), _placed("columns", x1, x2, width)
    by_turn = {inputs[0]: Image((1, *MASK)), inputs[1]: np.array([x1, y1, x2, y2])}
    given = [(name, graph.constant(name)) for name in node.captures]
    given += [(name, body.constant(name)) for name in body.initializers]
    given = [pair for pair in given if pair[1] is not None and pair[1].size <= MOST_NUMBERS]
    known: Any = {name: np.asarray(array, object) for name, array in given}
    known |= {body.inputs[1]: np.array(True), "": None}
    for shape in ((), (1,)):  # of the extents
        of_images = zip(inputs[2:], () if size else (height, width), strict=True)
        values = known | {name: np.full(shape, extent) for name, extent in of_images}
        with contextlib.suppress(Exception):  # whatever it is, the Loop does something else
            one, of_rows, of_columns = _added(body, values, by_turn).axes
            if one == 1 and of_rows in rows and of_columns in columns:
                return True
    return False


def _placed(axis: str, first: Sum, last: Sum, extent: Any) -> tuple[Any, Any]:
    """Return what an axis of a mask is made to for an image, where its box has these pixels."""
    start, end = extreme(max, first, 0), extreme(min, last + 1, extent)
    resized = ("Resize", axis, extreme(max, last - first + 1, 1))
    image = ("Pad", ("Slice", resized, start - first, end - first), start, extent - end)
    return image, ("Slice", image, 0, extent)  # only boxes outside of the image are cut again


def _added(body: Any, values: dict[str, Any], by_turn: dict[str, Any]) -> Any:
    """Compute a turn of a Loop, and return the image that it adds to those before."""
    last = body.producer[body.outputs[1]]
    if (last.op_type, last.attributes, last.inputs[0]) != ("Concat", {"axis": 0}, body.inputs[2]):
        raise ValueError("the Loop adds nothing to the images before")
    for node in body.nodes:
        if node is last:
            continue
        if _is_by_turn(body, node) and not node.attributes.get("axis"):
            made = by_turn[node.inputs[0]]
        else:
            of = [values[name] for name in node.inputs]
            made = OPERATORS[node.op_type](*of, **node.attributes)
        values[node.outputs[0]] = bounded(made)
    (image,) = [values[name] for name in last.inputs[1:]]
    if values[body.outputs[0]].item() is not True:
        raise ValueError("the Loop ends sooner")
    return image
