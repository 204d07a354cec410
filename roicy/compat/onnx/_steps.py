"""What is computed between the segments of a graph, on arrays: RoI nodes, and views of arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import _levels, masks, multiscale, operators
from ._model import Graph, attributes_of, domain, operator_of, spell
from ._table import Operator


class Step:
    """
    One piece of work on arrays.

    Attributes
    ----------
    inputs, outputs : list of str
        Names of values.
    title : str
        What the step is, for a person.
    replaced : int
        How many nodes of the graph it stands for.
    """

    replaced = 1

    def __init__(self, title: str, inputs: list[str], output: str):
        self.title, self.inputs, self.output = title, inputs, output

    def run(self, arrays: list[Any], threads: int) -> Any:
        """Return the output of these inputs."""
        raise NotImplementedError

    def type_of(self, types: list[str]) -> str:
        """Return the type of the output, from those of the inputs."""
        return types[0]

    def shape(self) -> list[int | None] | None:
        """Return the extents of the output as far as they are known, or None."""
        return None


class RoiStep(Step):
    """A RoI node by itself."""

    def __init__(self, node: Any, operator: Operator, opsets: dict[str, int]):
        super().__init__(spell(node), list(node.input), node.output[0])
        self.operator = operator
        self.attributes = attributes_of(node, operator)

    def run(self, arrays: list[Any], threads: int) -> Any:
        try:
            return self.operator.run(arrays, self.attributes, threads)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.title}: {error}") from None

    def type_of(self, types: list[str]) -> str:
        return types[self.operator.typed]

    def shape(self) -> list[int | None] | None:
        names = self.operator.bins
        return [None, None, *(self.attributes[name] for name in names)] if names else None


class Level(NamedTuple):
    """A level of a pyramid: its number in `levels`, its map and its scale."""

    number: int
    map: str
    scale: float


class PyramidStep(Step):
    """
    RoiAlign nodes of the levels of a pyramid, whose outputs are scattered to the rows of their
    boxes.

    The graph computes the level of each box.  Where roicy's own rule agrees, as it does but for
    boxes whose size lies between two levels, all are pooled by one call.

    Parameters
    ----------
    source : (str, str)
        The values that have the level of each box, and its row.
    rows : int, str or None
        How many rows the output has, or the value that tells it; None: as many as boxes.  More of
        them are zeros.
    """

    def __init__(
        self, nodes: list[Any], levels: list[Level], source: tuple[str, str], output: str,
        given: Any, rows: int | str | None,
    ):  # fmt: skip
        title = f"pyramid of {len(levels)} x RoiAlign -> {output!r}"
        inputs = [*source, *(level.map for level in levels)]
        super().__init__(title, inputs + ([rows] if isinstance(rows, str) else []), output)
        self.rows = rows
        self.replaced = len(nodes)
        self.levels, self.given = levels, given
        self.numbers = [level.number for level in levels]
        self.scales = [float(np.float32(level.scale)) for level in levels]

    def run(self, arrays: list[Any], threads: int) -> Any:
        count = self.rows
        if isinstance(count, str):
            *arrays, extent = arrays
            count = int(extent.reshape(-1)[0])
        chosen, rows, *maps = arrays
        pooled = self._pool(chosen, rows, maps, threads)
        if count is None or count == len(pooled):
            return pooled
        if count < len(pooled):
            raise ValueError(f"{self.title}: {len(pooled)} boxes, expected at most {count}")
        out = np.zeros((count, *pooled.shape[1:]), pooled.dtype)
        out[: len(pooled)] = pooled
        return out

    def _pool(self, chosen: Any, rows: Any, maps: list[Any], threads: int) -> Any:
        given = self.given
        size = (given["output_height"], given["output_width"])
        aligned = given["coordinate_transformation_mode"] == "half_pixel"
        ratio = given["sampling_ratio"]
        place = np.full(len(chosen), -1)
        for i, number in enumerate(self.numbers):
            place[chosen == number] = i
        if np.array_equal(place, self._own_rule(rows)):
            return multiscale.multiscale_roi_align(
                maps, rows, size, self.scales, ratio, aligned, num_threads=threads
            )
        out = np.zeros((len(rows), maps[0].shape[1], *size), maps[0].dtype)
        for i, scale in enumerate(self.scales):
            of_level = np.flatnonzero(place == i)
            out[of_level] = operators.roi_align(
                maps[i], rows[of_level], size, scale, ratio, aligned, num_threads=threads
            )
        return out

    def _own_rule(self, rows: np.ndarray) -> np.ndarray:
        """Return the levels that multiscale_roi_align chooses, in the type of the boxes."""
        pairs = [(scale, scale) for scale in self.scales]
        last = _levels.last_map(len(pairs), pairs[0], pairs[-1])
        dtype = rows.dtype.type
        with np.errstate(all="ignore"):
            sides = np.maximum(rows[:, 3:] - rows[:, 1:3], dtype(0))
            root = np.sqrt((sides[:, 0] * sides[:, 1]).astype(np.float64)).astype(dtype)
            octaves = np.log2((root / dtype(224)).astype(np.float64)).astype(dtype)
            wanted = np.floor(dtype(4) + octaves + dtype(_levels.CLOSE))
            wanted = wanted - dtype(_levels.level_of_scale(pairs[0]))
        return np.where(wanted > 0, np.minimum(wanted, last), 0).astype(np.int64)

    def type_of(self, types: list[str]) -> str:
        return types[2]

    def shape(self) -> list[int | None]:
        return [None, None, self.given["output_height"], self.given["output_width"]]


class PasteStep(Step):
    """
    The Loop that pastes masks into an image of each box, as torchvision exports it.

    Its masks have their border of zeros already, and its boxes are of whole pixels.
    """

    def __init__(self, node: Any, inputs: list[str]):
        super().__init__(f"{spell(node)} that pastes masks", inputs, node.output[0])

    def run(self, arrays: list[Any], threads: int) -> Any:
        padded, boxes, height, width = arrays
        shape = (int(np.squeeze(height)), int(np.squeeze(width)))
        whole = boxes.astype(np.float64)
        return masks.paste_masks(
            padded, whole, shape, threshold=None, padding=0, num_threads=threads
        )

    def shape(self) -> list[int | None]:
        return [None, None, None]


class ViewStep(Step):
    """A node that gives the array of a step another shape, and need not be copied for that."""

    def __init__(self, node: Any, axes: Any):
        title = f"{spell(node)}, which copies nothing"
        super().__init__(title, [node.input[0]], node.output[0])
        self.kind, self.axes = node.op_type, axes

    def run(self, arrays: list[Any], threads: int) -> Any:
        (array,) = arrays
        if self.kind == "Unsqueeze":
            return np.expand_dims(array, tuple(self.axes))
        if self.kind == "Flatten":
            axis = self.axes % (array.ndim + 1) if self.axes < 0 else self.axes
            rows = int(np.prod(array.shape[:axis], dtype=np.int64))
            columns = int(np.prod(array.shape[axis:], dtype=np.int64))
            return array.reshape(rows, columns)
        return array


def view_of(node: Any, graph: Graph) -> ViewStep | None:
    """Return the view that a node makes of its input, or None if it makes none."""
    if domain(node.domain) or len(node.output) != 1:
        return None
    given = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Identity":
        return ViewStep(node, None)
    if node.op_type == "Flatten":
        return ViewStep(node, given["axis"].i if "axis" in given else 1)
    if node.op_type == "Unsqueeze":
        axes = graph.constant(node.input[1]) if len(node.input) > 1 else None
        if "axes" in given:
            axes = np.array(given["axes"].ints)
        return None if axes is None else ViewStep(node, [int(axis) for axis in axes])
    return None


def roi_steps(graph: Graph) -> dict[str, RoiStep]:
    """Return a step for each RoI node of the main graph, by its output."""
    found = {}
    for node in graph.nodes:
        operator = operator_of(node, graph.opsets)
        if operator is not None:
            found[node.output[0]] = RoiStep(node, operator, graph.opsets)
    return found
