"""Labels of pixels: the Resize and the ArgMax of a segmentation network's maps, or a Greater.

Between both may be what keeps the order of classes: Softmax, LogSoftmax, Sigmoid, other types and
layouts of the same numbers, and the pair of nodes by which enlarged maps are quantised.  Labels are
those of ONNX Runtime's own nodes, to the last bit where they are not squashed.  Sigmoid makes many
large numbers equal, so it may only be where one number is compared.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..compat.onnx._specs import LabelSpec
from . import version
from ._attention import Layouts
from ._patterns import DOUBLE, FLOAT, FLOAT16, Group, closed, spell
from ._symbols import expect, reason
from ._views import OPEN

# Rules of pyx/labels/structs.h, and whether an only pixel lies on the first number
HALF_PIXELS, ALIGNED, ASYMMETRIC = 3, 4, 5
RULES = {
    "align_corners": (ALIGNED, False), "asymmetric": (ASYMMETRIC, False),
    "half_pixel": (HALF_PIXELS, False), "pytorch_half_pixel": (HALF_PIXELS, True),
}  # fmt: skip
NEAREST = "", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"  # as there
FLOATS = {FLOAT, FLOAT16, DOUBLE}
ITEMSIZES = {2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 12: 4, 13: 8}  # of ONNX's integers
UNROUNDED = 0.0, 0.0, 0.0  # quanta of a LabelSpec
MOVES = ("Identity", "Transpose")
STEPS = (
    *MOVES, "Cast", "DequantizeLinear", "Div", "LogSoftmax", "Sigmoid", "Softmax", "Sub",
)  # fmt: skip
SQUASHED = ("QLinearSigmoid", "QLinearSoftmax", "QuantizeLinear")  # what is no part of a group
COMPARED = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")
# The least numbers that Sigmoid makes 0.5 or more, and more than 0.5, as ONNX Runtime rounds it
HALF = -(2**-24) * (1 + 2**-23), 2**-23 * (1 + 2**-22)
HALVES = (1, 32)  # the first version that takes what is nearly halfway for halfway
NARROW = 32  # columns: a row of fewer takes longer to begin than to compute


class Labelling(Group):
    """A group that is a call of label_map.  inputs: maps, and sizes or scales of their axes."""

    def __init__(self, nodes: list[Any], inputs: list[str], output: str, spec: LabelSpec):
        self.nodes, self.inputs, self.output, self.spec = nodes, inputs, output, spec
        self.title = f"{'masks' if spec.bounded else 'labels'} of {inputs[0]!r} -> {output!r}"

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


def labellings(graph: Any, left: list[str]) -> list[Labelling]:
    """Return the groups that label pixels, and add to `left` why others are none."""
    found: list[Labelling] = []
    resized = [node for node in graph.nodes if node.op_type == "Resize"]
    if resized:
        numbers = Numbers(graph)
        for node in graph.nodes:
            if node.domain or node.op_type not in ("ArgMax", "TopK", *COMPARED):
                continue
            try:
                found.append((_mask if node.op_type in COMPARED else _labelling)(numbers, node))
            except Exception as error:  # whatever it is, it is something else
                if node.op_type == "ArgMax" or any(_is_resized(numbers, x) for x in node.inputs):
                    left.append(f"{spell(node.name, node.key)}: {reason(error)}")
        left += [one for node in resized for one in _enlarged(numbers, node)]
    return found


def _enlarged(walk: Numbers, node: Any) -> Iterator[str]:
    """Yield what to say of a Resize whose maps are an output of the model, or resized again."""
    name, said = node.outputs[0], spell(node.name, node.key)
    while name not in walk.graph.outputs:
        readers = walk.readers.get(name, ())
        if len(readers) != 1 or readers[0].op_type not in (*STEPS, "QuantizeLinear", "Resize"):
            return
        if readers[0].op_type == "Resize":
            yield f"{said}: the first of two, which is not part of labels"
            return
        name = readers[0].outputs[0]
    if len(walk.graph.shape_of(name)) == 4:
        yield f"{said}: enlarged maps are an output; roicy.label_map makes labels of those before"


def _labelling(walk: Numbers, largest: Any) -> Labelling:
    """Return the group of an ArgMax, or a TopK of 1; raise an error if there is none."""
    given, *values, output = largest.attributes, *largest.outputs
    axis, kept = given.get("axis", -1 if values else 0) % 4, given.get("keepdims", 1)
    if values:
        is_read = any(walk.readers.get(one) or one in walk.graph.outputs for one in values)
        is_one = walk.numbers(largest.inputs[1]) == [1] and given.get("largest", 1)
        expect(is_one and not is_read, "more than the index of the largest one")
    order = [0, 1, 2, 3]  # the axes of ArgMax, as maps have them
    group, name, quanta = [largest], largest.inputs[0], UNROUNDED
    while (node := walk.node(name, *STEPS)) is not None:
        if node.op_type == "Transpose":
            order = [node.attributes["perm"][i] for i in order]
        if node.op_type == "DequantizeLinear":
            quantise, found = _quantised(walk, node)
            expect(quanta in (UNROUNDED, found), "enlarged maps are quantised twice")
            group, quanta = [*group, node, quantise], found
        else:
            expect(node.op_type != "Sigmoid", "Sigmoid makes large numbers equal")
            is_order = quanta == UNROUNDED or node.op_type in MOVES
            expect(is_order, f"the result of {spell(node.name, node.key)} is quantised")
            group += _nodes_between(walk, node, order[axis])
        name = group[-1].inputs[0]
    resize, classes = walk.node(name, "Resize"), order[axis]
    if resize is None:
        maker = walk.graph.producer.get(name)
        made = "is an input" if maker is None else f"is made by {spell(maker.name, maker.key)}"
        expect(False, f"{name!r} {made}, expected a Resize of maps")
    inputs, places, rule = _resized(walk, resize, classes)
    order = [-1 if i == axis else one for i, one in enumerate(order) if kept or i != axis]
    group, output, itemsize = _after(walk, [*group, resize], output, order)
    nodes = _whole(walk, group, inputs, output)
    is_last = bool(given.get("select_last_index"))
    spec = LabelSpec(classes, *rule, places, order, itemsize or 8, is_last, *quanta)
    return Labelling(nodes, inputs, output, spec)


def _mask(walk: Numbers, greater: Any) -> Labelling:
    """Return the group of a comparison with a number; raise an error if there is none."""
    expect(greater.op_type in COMPARED[:2], "expected a Greater or a GreaterOrEqual")
    name, limit = greater.inputs
    number = walk.constant(limit)
    is_one = number is not None and number.size == 1 and number.dtype == np.float32
    expect(is_one and np.isfinite(number).all(), "no number of float32 that is constant")
    group: list[Any] = [greater]
    steps: list[Any] = []  # quanta, and None for Sigmoid; the last one first
    while (node := walk.node(name, *STEPS)) is not None:
        expect(
            node.op_type in ("DequantizeLinear", "Identity", "Sigmoid"),
            f"{node.op_type} rounds or moves numbers",
        )
        group.append(node)
        if node.op_type == "DequantizeLinear":
            quantise, quanta = _quantised(walk, node)
            group.append(quantise)
            steps.append(quanta)
        if node.op_type == "Sigmoid":
            steps.append(None)
        name = group[-1].inputs[0]
    resize = walk.node(name, "Resize")
    inputs, places, rule = _resized(walk, resize, 1)
    expect(walk.graph.type_of(inputs[0]) == FLOAT, "maps of float16, which are rounded")
    before, after = (walk.graph.shape_of(name)[2:] for name in (inputs[0], resize.outputs[0]))
    expect(not rule[2], "masks of mode 'nearest', which gain nothing")
    expect(not 0 < after[1] < NARROW, f"{after[1]} columns, expected {NARROW}: fewer gain nothing")
    is_larger = min(before + after) < 1 or math.prod(after) > math.prod(before)
    expect(is_larger, "masks that are not larger than their maps gain nothing")
    quanta = steps.pop() if steps and steps[-1] else UNROUNDED
    least = _least(number.reshape(())[()], greater.op_type == "Greater", quanta, steps)
    output, itemsize = greater.outputs[0], 1
    node = _only_reader(walk, output)
    to = node.attributes["to"] if node is not None and node.key == ("", "Cast") else None
    if to in ITEMSIZES:
        itemsize, group, (output,) = ITEMSIZES[to], [node, *group], node.outputs
    group.append(resize)
    nodes = _whole(walk, group, inputs, output)
    made = LabelSpec(1, *rule, places, [0, 1, 2, 3], itemsize, False, *quanta, True, least)
    return Labelling(nodes, inputs, output, made)


def _least(
    number: np.float32, is_above: bool, quanta: tuple[float, float, float], steps: list[Any]
) -> float:
    """Return the least value that is in a mask, in quanta if there are some.

    steps: what becomes of numbers before they are compared, as in `_mask`.
    """
    if quanta == UNROUNDED:
        expect(steps == [] or (steps == [None] and number == 0.5), "Sigmoid rounds numbers")
        if steps:
            return HALF[is_above]
        return float(np.nextafter(number, np.float32(np.inf)) if is_above else number)
    counts = np.arange(quanta[1], quanta[2] + 1, dtype=np.float32)
    found = set()
    for error in (-1e-6, 0, 1e-6) if None in steps else (0,):  # of ONNX Runtime's Sigmoid
        values = counts * np.float32(quanta[0])
        for step in reversed(steps):
            if step is None:
                exact = 0.5 + 0.5 * np.tanh(values / 2.0)
                values = np.where(values == 0, exact, exact + error).astype(np.float32)
            else:
                values = np.rint(values / np.float32(step[0])).clip(*step[1:]) * np.float32(step[0])
        found.add(int((values <= number if is_above else values < number).sum()))
    expect(len(found) == 1, "the number is too near to one that Sigmoid rounds")
    return quanta[1] + found.pop()


def _is_resized(walk: Numbers, name: str) -> bool:
    """Whether numbers that are compared are those of enlarged maps."""
    node = walk.graph.producer.get(name)
    while node is not None and node.op_type in (*STEPS, *SQUASHED):
        walk.step()
        node = walk.graph.producer.get(node.inputs[0])
    return node is not None and node.op_type == "Resize"


def _after(
    walk: Numbers, group: list[Any], output: str, order: list[int]
) -> tuple[list[Any], str, int]:
    """Add the nodes that lay labels out, and return the group with the last node first, its output,
    and the bytes of a label if a Cast says it.  order: axes of the labels, which is changed.
    """
    itemsize = 0
    while (node := _only_reader(walk, output)) is not None:
        if node.key == ("", "Transpose"):
            order[:] = [order[i] for i in node.attributes["perm"]]
        elif node.key == ("", "Cast") and not itemsize and node.attributes["to"] in ITEMSIZES:
            itemsize = ITEMSIZES[node.attributes["to"]]
        elif node.key == ("", "Squeeze"):
            axes = node.attributes.get("axes") or walk.numbers(node.inputs[1]) or []
            gone = {one % len(order) for one in axes}
            if [order[one] for one in gone] != [-1]:
                break
            order.remove(-1)
        else:
            break
        group, (output,) = [node, *group], node.outputs
    return group, output, itemsize


def _only_reader(walk: Numbers, name: str) -> Any:
    """Return the only node that reads a value, or None."""
    walk.step()
    readers = walk.readers.get(name, ())
    return readers[0] if len(readers) == 1 and name not in walk.graph.outputs else None


def _whole(walk: Numbers, group: list[Any], inputs: list[str], output: str) -> list[Any]:
    """Return the nodes of a group in order; an error if others need what becomes of its inputs.

    group: with the node that makes `output` first.
    """
    nodes: list[Any] = closed(walk.graph, group[0], {*inputs}, walk.readers, group.__contains__)
    expect({*nodes} == {*group}, _other_readers(walk, group, output))
    return nodes


def _other_readers(walk: Numbers, group: list[Any], output: str) -> str:
    """Return what else reads the values in a group."""
    names = [name for node in group for name in node.outputs if name != output]
    read = [one for name in names for one in walk.readers.get(name, ()) if one not in group]
    every = [spell(one.name, one.key) for one in read]
    every += [f"an output of the model, {name!r}," for name in names if name in walk.graph.outputs]
    return f"{' and '.join(every[:3])} needs the enlarged maps, or what becomes of them"


def _quantised(walk: Numbers, node: Any) -> tuple[Any, tuple[float, float, float]]:
    """Return the QuantizeLinear before a DequantizeLinear, and the quanta of a LabelSpec."""
    before = walk.node(node.inputs[0], "QuantizeLinear")
    expect(before is not None, f"{node.inputs[0]!r} is no enlarged map that is quantised")
    pairs = []
    for one in (node, before):
        scale, *zeros = map(walk.constant, filter(None, one.inputs[1:]))
        (zero,) = zeros or [np.zeros(1, np.uint8)]
        wanted = "quanta that are not one float32 and one int8 or uint8"
        expect(scale is not None and zero is not None and scale.size == zero.size == 1, wanted)
        expect(scale.dtype == np.float32 and zero.dtype in (np.int8, np.uint8), wanted)
        pairs.append((float(scale.item()), zero.item(), np.iinfo(zero.dtype)))
    expect(pairs[0][:2] == pairs[1][:2], "numbers are quantised by one scale and read by another")
    quantum, zero, limits = pairs[1]
    expect(0 < quantum < math.inf and walk.graph.type_of(before.inputs[0]) == FLOAT)
    return before, (quantum, float(limits.min - zero), float(limits.max - zero))


def _nodes_between(walk: Numbers, node: Any, classes: int) -> list[Any]:
    """Return the nodes that keep the order of classes; classes: their axis before them."""
    kind, given, is_new = node.op_type, node.attributes, node.since_version >= 13
    if kind in ("Softmax", "LogSoftmax"):  # the older ones take an axis and all after it
        is_one = given.get("axis", -1 if is_new else 1) % 4 == classes
        expect(is_one and (is_new or classes == 3), f"{kind} of another axis than the classes")
    if kind == "Cast":
        expect({given["to"], walk.graph.type_of(node.inputs[0])} <= FLOATS, "Cast to integers")
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
    """Return maps, their sizes or scales, where these have each axis, and rules of a LabelSpec."""
    graph, given = walk.graph, resize.attributes
    expect(len(resize.inputs) > 2, "Resize of opset 10")
    maps, _, *others = resize.inputs
    mode, coordinates = given.get("mode", "nearest"), "coordinate_transformation_mode"
    transformed, policy = given.get(coordinates, "half_pixel"), "keep_aspect_ratio_policy"
    expect(mode in ("linear", "nearest"), f"Resize of mode {mode!r}")
    expect(transformed in RULES, f"Resize of {coordinates} {transformed!r}")
    for name, usual in ((policy, "stretch"), ("antialias", 0), ("exclude_outside", 0)):
        expect(given.get(name, usual) == usual, f"Resize of {name} {given.get(name)!r}")
    nearest = 0 if mode == "linear" else NEAREST.index(given.get("nearest_mode", NEAREST[1]))
    is_known = nearest not in (1, 2) or version() >= HALVES
    expect(is_known, "Resize of nearest_mode 'round_prefer_...', as this ONNX Runtime rounds")
    rank, kind = len(graph.shape_of(maps)), graph.type_of(maps)
    expect(rank == 4, f"Resize of maps of {rank} axes, expected 4")
    expect(kind in (FLOAT, FLOAT16), f"Resize of element type {kind} of ONNX, expected 1 or 10")
    is_exact = kind == FLOAT or maps not in graph.producer
    expect(is_exact, "maps of float16 that a node makes, which ONNX Runtime does not round")
    expect(classes in (1, 3), f"the largest along axis {classes}, expected classes")
    known = {name: walk.constant(name) for name in others if name}
    (name,) = [name for name, x in known.items() if x is None or x.size]  # not both
    axes = [axis % 4 for axis in given.get("axes", range(4))]
    places = [axes.index(i) if i in axes else -1 for i in range(4)]
    for axis, place in ((0, places[0]), (classes, places[classes])):
        if place >= 0:
            extent = 1 if name == others[0] else walk.extents(maps)[axis]
            number = walk.value(name)[place]  # of images, ONNX Runtime looks at it in a run, too
            stays = number == extent or (axis == 0 and max(number, extent) > OPEN)
            expect(stays, "Resize may change images or classes")
    rule, of_one = RULES[transformed]
    return [maps, name], places, (rule, of_one, nearest)
