"""What of a graph the provider takes, and how it is computed; ``provider.pyx`` asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .. import _cpu
from .._checks._names import log
from .._kernels.plan import Arguments
from .._machine import _threads
from ..compat.onnx import Pooling
from ..compat.onnx._ops import TABLE, OnnxOp
from . import get_ep_name
from ._attention import attentions
from ._labelling import labellings
from ._pasting import pasting_loops
from ._patterns import pyramids, spell
from .provider import FLOATS, are_zeros

_tell = partial(log, "roicy.onnxruntime")


class Single:
    """A node by itself.

    given: the attributes that it has; threads: how many threads of roicy there are at most, None
    for as many as other calls have.
    """

    indices = None  # all inputs, in their order

    def __init__(self, operator: OnnxOp, given: dict[str, Any], threads: int | None):
        self.given = operator.checked(given)
        self.shape, self.copied, self.threads = operator.shape, operator.copied, threads
        self.compute = operator.prepare(**self.given)
        self.spec = getattr(self.compute, "spec", None)  # of Pooling or Prepared

    def run(self, arrays: list[Any], output: Callable[..., Any]) -> None:
        """Compute the node, and write to the array that `output` makes of a shape."""
        if isinstance(self.compute, Pooling):
            self._pool(self.compute, output, *arrays)
            return
        out = output(self.shape(arrays, self.given))
        self.compute(*arrays, out=out, num_threads=self.threads)
        if self.copied >= 0:
            rows = arrays[self.copied]
            copy = output(rows.shape, 1)
            if copy is not None:
                copy[...] = rows

    def _pool(self, pool: Pooling, output: Callable[..., Any], x: Any, *boxes: Any) -> None:
        """Do as a call of `pool` does, in a third of its time where boxes are few.

        The plan says what the shape of the output is.  Boxes of the only image stay as they are.
        """
        rows = boxes[0]
        if pool.rows and not (
            x.shape[:1] == (1,) and rows.shape == (*boxes[1].shape, 4) and are_zeros(boxes[1])
        ):
            rows = pool.rows(x, *boxes)
        arguments = Arguments(rows, None, pool.scale, "NCHW", self.threads)
        plan = _cpu.plan_with_maps(pool.operator, pool.rule, x, pool.size, arguments)
        _cpu.forward(plan, output(plan.output_shape), products=pool.products)


# The options of the provider: the least and the largest number of each
OPTIONS = {"num_threads": (1, _threads.MOST), "groups": (0, 1)}


def _numbers(options: dict[str, str]) -> dict[str, int]:
    """Return the options of the provider as numbers."""
    for name, value in options.items():
        where = f"{get_ep_name()}: option {name!r} is"
        if name not in OPTIONS:
            raise ValueError(f"{where} unknown, expected any of {', '.join(OPTIONS)}")
        least, most = OPTIONS[name]
        if not (value.isdecimal() and least <= int(value) <= most):
            raise ValueError(f"{where} {value!r}, expected an integer from {least} to {most}")
    return {name: int(value) for name, value in options.items()}


class Claims:
    """What an execution provider takes of the graphs of its session.

    options: ``num_threads``, and ``groups``: "0" says that nodes are only taken one by one.  What
    is wrong with them is raised by `check_options`.
    """

    # A graph without them has nothing.
    kinds = frozenset(["ArgMax", "GridSample", "Loop", "Resize", *(name for _, name in TABLE)])

    def __init__(self, options: dict[str, str]):
        self.computations: dict[str, Any] = {}  # of groups, by their outputs
        self.wrong: str | None = None  # of a node
        self.wrong_option: str | None = None
        given = {}
        try:
            given = _numbers(options)
        except ValueError as error:
            self.wrong_option = str(error)
        self.threads, self.groups = given.get("num_threads"), given.get("groups", 1)

    def check_options(self) -> None:
        """Raise what is wrong with the options."""
        if self.wrong_option is not None:
            raise ValueError(self.wrong_option)

    def single(self, name: str, key: Any, operator: OnnxOp, given: dict[str, Any]) -> Single:
        """Return what computes a node, or raise what is wrong with it."""
        self._raise()
        try:
            return Single(operator, given, self.threads)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{spell(name, key)}: {error}") from None

    def _raise(self) -> None:
        if self.wrong is not None:
            raise ValueError(self.wrong)

    def _check(self, node: Any) -> None:
        """Remember what is wrong with a node.

        ONNX Runtime hears of it when it asks for a kernel or a group: an error before only makes it
        take another provider.
        """
        try:
            self.single(node.name, node.key, TABLE[node.key][node.since_version], node.attributes)
        except ValueError as error:
            self.wrong = str(error)

    def of(self, graph: Any) -> tuple[list[list[Any]], list[Any]]:
        """Return groups of nodes, each of which is to be one node, and single nodes."""
        singles = {node.outputs[0]: node for node in graph.nodes if _is_known(node)}
        for node in singles.values():
            self._check(node)
        groups: list[list[Any]] = []
        inside: set[str] = set()
        if self.groups:
            for group in self._found(graph, singles):
                group.threads = self.threads
                self.computations[group.output] = group
                groups.append(group.nodes)
                inside.update(node.outputs[0] for node in group.nodes)
                _tell("INFO", group.title)
                group.nodes = None  # they are gone when ONNX Runtime has its answer
        alone = [node for name, node in singles.items() if name not in inside]
        for node in alone:
            _tell("INFO", spell(node.name, node.key))
        return groups, alone

    def _found(self, graph: Any, singles: dict[str, Any]) -> list[Any]:
        """Return what computes groups that share no node; none of a kind whose search fails, where
        a graph is such as nobody has thought of.
        """
        every: list[Any] = []
        left: list[str] = []
        finders = (
            partial(pyramids, singles=singles, left=left), pasting_loops,
            partial(attentions, left=left), partial(labellings, left=left),
        )  # fmt: skip
        for find in finders:
            try:
                every += find(graph)
            except Exception:
                _tell("WARNING", "groups of nodes were not looked for to the end", exc_info=True)
        for text in left:
            _tell("DEBUG", text)
        taken: set[Any] = set()
        found = []
        for group in every:
            if taken.isdisjoint(group.nodes):
                found.append(group)
                taken.update(group.nodes)
        return found

    def computation_of(self, outputs: list[str], inputs: list[str]) -> Any:
        """Return what computes a group, which reads its inputs from these."""
        self._raise()
        (output,) = outputs
        found = self.computations[output]
        found.indices = [inputs.index(name) for name in found.inputs]
        return found


def _is_known(node: Any) -> bool:
    """Whether a node is one of the table, of a type that roicy computes."""
    operator = TABLE.get(node.key, {}).get(node.since_version)
    if operator is None or len(node.outputs) > 1 + (operator.copied >= 0) or not all(node.inputs):
        return False
    return node.graph.type_of(node.inputs[1 if operator.of_levels else 0]) in FLOATS
