"""The Loop that pastes masks in torchvision's exports, known by what it computes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import masks
from ._alone import DTYPES, agrees, closed, inputs_of, session_of

FLOAT, INT64 = 1, 7  # element types of ONNX


class Pasting:
    """
    The Loop that pastes masks into an image of each box, as torchvision exports it.

    Its masks have their border of zeros already, and its boxes are cut to whole pixels.
    """

    threads: int | None = None
    indices: list[int]  # of the inputs of the group

    def __init__(self, nodes: list[Any], inputs: tuple[str, ...], title: str):
        self.nodes, self.inputs, self.output = nodes, inputs, nodes[0].outputs[0]
        self.title = title

    def run(self, arrays: list[Any], output: Callable[..., Any]) -> None:
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
    """Return the Loops that paste masks, with the nodes before them that make their inputs."""
    loops = [node for node in graph.nodes if node.op_type == "Loop" and not node.domain]
    found = [_pasting(graph, node) for node in loops if len(node.outputs) == 1]
    return [step for step in found if step is not None]


def _pasting(graph: Any, node: Any) -> Pasting | None:
    (body,) = node.bodies
    if [inner.op_type for inner in body.nodes].count("Resize") != 1:
        return None
    outside = set()
    for name in node.captures:
        cast = graph.producer.get(name)  # of the corners of boxes, perhaps
        is_of_floats = cast and cast.op_type == "Cast" and graph.type_of(cast.inputs[0]) == FLOAT
        outside.add(cast.inputs[0] if is_of_floats else name)
    nodes = closed(graph, node, outside)
    inputs = inputs_of(graph, nodes)
    if inputs is None or len(inputs) != 4:
        return None
    session = None
    for named in itertools.permutations(inputs):  # masks, boxes, height, width
        first, boxes, *extents = (graph.type_of(name) for name in named)
        if (first, *extents) != (FLOAT, INT64, INT64) or boxes not in (FLOAT, INT64):
            continue
        session = session or session_of(graph, nodes, inputs)
        step = Pasting(nodes, named, f"node {node.name!r} (Loop) that pastes masks")
        for shape in ((), (1,)):  # of the extents
            if all(agrees(session, step, arrays) for arrays in _probes(DTYPES[boxes], shape)):
                return step
    return None


def _probes(dtype: str, shape: tuple[int, ...]) -> list[list[np.ndarray]]:
    """Return masks with borders, boxes that are partly in the image, and its extents."""
    rng = np.random.default_rng(7)
    boxes = [
        [[2, 3, 9, 12], [-4, -5, 40, 30], [5, 5, 5, 5], [0, 0, 16, 22]],
        [[-30, 2, 3, 4], [10, -9, 80, 1], [15, 21, 17, 90], [1, 1, 14, 2]],
    ]
    extents = [np.full(shape, 23), np.full(shape, 17)]
    return [
        [rng.random((4, 1, side, side), np.float32), (np.array(each) + 0.3).astype(dtype), *extents]
        for side, each in zip((6, 30), boxes, strict=True)
    ]
