"""Labels of pixels: the Resize and the ArgMax of a segmentation network's maps.

Between both may be what keeps the order of classes: Softmax, LogSoftmax, Sigmoid, and other types
and layouts of the same numbers.  So the labels are those of ``label_map``.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from ..compat.onnx._node import Labels
from ._attention import Layouts
from ._patterns import DOUBLE, FLOAT, FLOAT16, closed
from ._symbols import expect
from ._views import OPEN

RULES = {  # whether corners are aligned, and whether an only pixel lies on the first number
    "align_corners": (True, False), "half_pixel": (False, False),
    "pytorch_half_pixel": (False, True),
}  # fmt: skip
FLOATS = {FLOAT, FLOAT16, DOUBLE}
ITEMSIZES = {2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 12: 4, 13: 8}  # of ONNX's integers
STEPS = ("Cast", "Div", "Identity", "LogSoftmax", "Sigmoid", "Softmax", "Sub", "Transpose")


class Labelling:
    """A group that is a call of label_map.  inputs: maps, and sizes or scales of their axes."""

    threads: int | None = None
    indices: list[int]  # of the inputs of the group

    def __init__(self, nodes: list[Any], inputs: list[str], node: Labels):
        self.nodes, self.inputs, self.node = nodes, inputs, node
        self.output = nodes[0].outputs[0]
        self.title = f"labels of {inputs[0]!r} -> {self.output!r}"

    def run(self, arrays: list[Any], output: Any) -> None:
        """Say what is wrong.  All else is computed without Python."""
        maps, given = arrays
        raise ValueError(
            f"{self.title}: maps of shape {maps.shape} are resized by {given.tolist()}, expected "
            "at least one class and one pixel, and as many images and classes after it"
        )


class Numbers(Layouts):
    """Follows numbers back to extents.  What is made otherwise is a number of its own."""

    def _computed(self, name: str) -> Any:
        with contextlib.suppress(Exception):
            return super()._computed(name)
        shape = self.graph.shape_of(name)
        expect(0 < math.prod(shape) < 9)
        made = [self._symbol(name, i) for i in range(math.prod(shape))]
        return np.array(made, object).reshape(shape)


def labellings(graph: Any) -> list[Labelling]:
    """Return the groups that label pixels."""
    found: list[Labelling] = []
    if any(node.op_type == "Resize" for node in graph.nodes):
        numbers = Numbers(graph)
        for node in graph.nodes:
            with contextlib.suppress(Exception):  # whatever it is, it is something else
                if node.key == ("", "ArgMax"):
                    found.append(_labelling(numbers, node))
    return found


def _labelling(walk: Numbers, largest: Any) -> Labelling:
    """Return the group of an ArgMax; raise an error if there is none."""
    axis, kept = largest.attributes.get("axis", 0) % 4, largest.attributes.get("keepdims", 1)
    expect(not largest.attributes.get("select_last_index"))
    order = [0, 1, 2, 3]  # the axes of ArgMax, as maps have them
    group, name = [largest], largest.inputs[0]
    while (node := walk.node(name, *STEPS)) is not None:
        if node.op_type == "Transpose":
            order = [node.attributes["perm"][i] for i in order]
        group += _nodes_between(walk, node, order[axis])
        name = group[-1].inputs[0]
    resize, classes = walk.node(name, "Resize"), order[axis]
    inputs, places, rule = _resized(walk, resize, classes)
    order = [-1 if i == axis else one for i, one in enumerate(order) if kept or i != axis]
    group, last, itemsize = [*group, resize], largest, 0
    while (node := _only_reader(walk, last)) is not None:
        if node.key == ("", "Transpose"):
            order = [order[i] for i in node.attributes["perm"]]
        elif node.key == ("", "Cast") and not itemsize and node.attributes["to"] in ITEMSIZES:
            itemsize = ITEMSIZES[node.attributes["to"]]
        else:
            break
        group.append(last := node)
    nodes = closed(walk.graph, last, {*inputs}, walk.readers, group.__contains__)
    expect({*nodes} == {*group})
    return Labelling(nodes, inputs, Labels(classes, *rule, places, order, itemsize or 8))


def _only_reader(walk: Numbers, node: Any) -> Any:
    """Return the only node that reads what a node makes, or None."""
    walk.step()
    (name,), readers = node.outputs, walk.readers.get(node.outputs[0], ())
    return readers[0] if len(readers) == 1 and name not in walk.graph.outputs else None


def _nodes_between(walk: Numbers, node: Any, classes: int) -> list[Any]:
    """Return the nodes that keep the order of classes; classes: their axis before them."""
    kind, given, is_new = node.op_type, node.attributes, node.since_version >= 13
    if kind in ("Softmax", "LogSoftmax"):  # the older ones take an axis and all after it
        expect(given.get("axis", -1 if is_new else 1) % 4 == classes and (is_new or classes == 3))
    if kind == "Cast":
        expect({given["to"], walk.graph.type_of(node.inputs[0])} <= FLOATS)
    if kind not in ("Div", "Sub"):
        return [node]
    # ONNX Runtime has no Softmax of float16, and writes it out.
    logs = [walk.node(node.inputs[1], "Log")] if kind == "Sub" else []
    sums = walk.node(logs[0].inputs[0] if logs else node.inputs[1], "ReduceSum")
    powers = walk.node(sums.inputs[0], "Exp")
    less = walk.node(powers.inputs[0], "Sub")
    most = walk.node(less.inputs[1], "ReduceMax")
    expect(node.inputs[0] == (less if logs else powers).outputs[0])
    expect(most.inputs[0] == less.inputs[0])
    for one in (sums, most):
        axes = one.attributes.get("axes") or walk.numbers(one.inputs[1]) or []
        expect([axis % 4 for axis in axes] == [classes] and one.attributes.get("keepdims", 1))
    return [node, *logs, sums, powers, most, less]


def _resized(walk: Numbers, resize: Any, classes: int) -> tuple[list[str], list[int], Any]:
    """Return maps and their sizes or scales, where these have each axis, and a rule of RULES."""
    graph, given, (maps, _, *others) = walk.graph, resize.attributes, resize.inputs
    rule = RULES[given.get("coordinate_transformation_mode", "half_pixel")]
    is_stretched = given.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    expect(given.get("mode") == "linear" and is_stretched)
    expect(not given.get("antialias") and not given.get("exclude_outside") and classes in (1, 3))
    expect(len(graph.shape_of(maps)) == 4 and graph.type_of(maps) in (FLOAT, FLOAT16))
    known = {name: walk.constant(name) for name in others if name}
    (name,) = [name for name, x in known.items() if x is None or x.size]  # not both
    axes = [axis % 4 for axis in given.get("axes", range(4))]
    places = [axes.index(i) if i in axes else -1 for i in range(4)]
    for axis, place in ((0, places[0]), (classes, places[classes])):
        if place >= 0:
            extent = 1 if name == others[0] else walk.extents(maps)[axis]
            number = walk.value(name)[place]  # of images, ONNX Runtime looks at it in a run, too
            expect(number == extent or (axis == 0 and max(number, extent) > OPEN))
    return [maps, name], places, rule
