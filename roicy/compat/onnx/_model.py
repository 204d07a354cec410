"""A model as it is read: its graph, the RoI nodes in it, and what their attributes are."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import numpy_helper

from ._table import KINDS, REQUIRED, TABLE, Operator

MOST_FOLDED = 1024  # elements of a constant that patterns look at


def domain(name: str) -> str:
    """Return the name of a domain, of which ONNX's own has two."""
    return "" if name == "ai.onnx" else name


def spell(node: Any) -> str:
    """Return a node as errors show it."""
    name = node.name or (node.output[0] if node.output else "")
    return f"node {name!r} ({domain(node.domain) and node.domain + '.'}{node.op_type})"


def load(model: Any) -> tuple[Any, str | None]:
    """Return a model, without its external data, and the folder that has these data."""
    folder = None
    if isinstance(model, onnx.ModelProto):
        return model, None
    if isinstance(model, (str, os.PathLike)):
        folder = str(Path(model).resolve().parent)
        data: Any = Path(model).read_bytes()
    elif isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
    else:
        kind = f"{type(model).__module__}.{type(model).__qualname__}"
        raise TypeError(f"model: {kind}, expected a path or the bytes of a model")
    shown = repr(os.fspath(model)) if folder is not None else f"{len(data)} bytes"
    read = onnx.ModelProto()
    try:
        read.ParseFromString(data)
    except Exception as error:  # of protobuf, whose classes differ from version to version
        raise ValueError(f"model: {shown} is no ONNX model: {error}") from None
    if not read.ir_version or not read.opset_import or not read.graph.output:
        raise ValueError(f"model: {shown} is no ONNX model, or one without a graph")
    return read, folder


def serialized(model: Any) -> bytes:
    """Return the bytes of a model."""
    try:
        return bytes(model.SerializeToString())
    except Exception as error:  # of protobuf, as above
        raise ValueError(
            f"model: {error}; a model of more than 2 GB cannot be bytes, expected the path of one "
            "with external data"
        ) from None


def inlined(model: Any) -> Any:
    """Return a model whose functions with RoI nodes stand where they are called, all or none."""
    for function in model.functions:
        if any((domain(node.domain), node.op_type) in TABLE for node in function.node):
            return onnx.inliner.inline_local_functions(model)
    return model


def bodies(node: Any) -> Iterator[Any]:
    """Yield the graphs in the attributes of a node, such as the branches of an If."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def reads(node: Any) -> Iterator[str]:
    """Yield the values that a node reads, those that its bodies capture included."""
    yield from filter(None, node.input)
    for body in bodies(node):
        yield from captures(body)


def captures(graph: Any) -> list[str]:
    """Return the values of outer graphs that a body reads, in the order of first use."""
    own = {value.name for value in graph.input} | {value.name for value in graph.initializer}
    found: dict[str, None] = {}
    for node in graph.node:
        found.update(dict.fromkeys(name for name in reads(node) if name not in own))
        own.update(node.output)
    found.update(dict.fromkeys(v.name for v in graph.output if v.name not in own))
    return list(found)


class Graph:
    """
    The main graph of a model, and where its values come from.

    Attributes
    ----------
    producer : dict
        The node that each value comes from.
    initializers : dict
        Tensors by their names.
    """

    def __init__(self, model: Any, folder: str | None):
        self.model, self.folder = model, folder
        self.proto = model.graph
        self.nodes = list(model.graph.node)
        self.initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        self.producer = {name: node for node in self.nodes for name in node.output if name}
        self.inputs = [v for v in model.graph.input if v.name not in self.initializers]
        self.opsets = {domain(one.domain): one.version for one in model.opset_import}

    def tensor(self, name: str) -> np.ndarray:
        """Return the array of an initializer, or of a node Constant."""
        if name in self.initializers:
            return numpy_helper.to_array(self.initializers[name], base_dir=self.folder or "")
        node = self.producer[name]
        (attribute,) = node.attribute
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.type == onnx.AttributeProto.TENSOR:
            return numpy_helper.to_array(value)
        dtype = np.float32 if attribute.name.startswith("value_float") else None
        return np.asarray(value, dtype)

    def is_constant(self, name: str) -> bool:
        """Whether a value is the same in each run."""
        node = self.producer.get(name)
        return name in self.initializers or (node is not None and node.op_type == "Constant")

    def constant(self, name: str) -> np.ndarray | None:
        """Return a small constant, or None for other values."""
        tensor = self.initializers.get(name)
        if tensor is not None and (
            tensor.data_location == onnx.TensorProto.EXTERNAL
            or np.prod(tensor.dims, dtype=np.int64) > MOST_FOLDED
        ):
            return None
        if not self.is_constant(name):
            node = self.producer.get(name)
            return self.constant(node.input[0]) if node and node.op_type == "Identity" else None
        value = self.tensor(name)
        return value if value.size <= MOST_FOLDED else None


def operator_of(node: Any, opsets: dict[str, int]) -> Operator | None:
    """
    Return what roicy knows of a node, or None if it is no RoI node.

    Raises
    ------
    ValueError
        If the model is of an opset that is newer than what is known of it.
    """
    versions = TABLE.get((domain(node.domain), node.op_type))
    if versions is None:
        return None
    opset = opsets.get(domain(node.domain), 1)
    newest = onnx.defs.onnx_opset_version() if domain(node.domain) == "" else 1
    since = max((version for version in versions if version <= opset), default=None)
    if opset > newest:
        raise ValueError(
            f"{spell(node)}: opset {opset} of the domain {node.domain or 'ai.onnx'!r}, expected at "
            f"most {newest}, the newest that is known"
        )
    if since is None:
        raise ValueError(f"{spell(node)}: opset {opset}, expected at least {min(versions)}")
    if domain(node.domain) == "":
        known = onnx.defs.get_schema(node.op_type, opset).since_version
        if known not in versions:
            raise ValueError(
                f"{spell(node)}: its meaning changed in opset {known}, which is not known here"
            )
    return versions[since]


def attributes_of(node: Any, operator: Operator) -> dict[str, Any]:
    """Return the attributes of a RoI node, with defaults where it has none."""
    given = dict(operator.attributes)
    for attribute in node.attribute:
        name = attribute.name
        if name not in given:
            raise ValueError(
                f"{spell(node)}: attribute {name!r} is unknown, "
                f"expected any of {', '.join(operator.attributes)}"
            )
        value = onnx.helper.get_attribute_value(attribute)
        value = value.decode() if isinstance(value, bytes) else value
        value = list(value) if isinstance(value, (tuple, list)) else value
        default = operator.attributes[name]
        kind = KINDS.get(name, list) if default is REQUIRED else type(default)
        if isinstance(default, list) and isinstance(value, float):
            value = [value]
        if not isinstance(value, kind) and not (kind is float and isinstance(value, int)):
            raise ValueError(
                f"{spell(node)}: attribute {name!r} is {value!r}, expected {kind.__name__}"
            )
        given[name] = value
    for name, value in given.items():
        if value is REQUIRED:
            raise ValueError(f"{spell(node)}: attribute {name!r} is missing")
    least, most = operator.inputs
    if not least <= len(node.input) <= most or len(node.output) != 1 or not all(node.input):
        raise ValueError(
            f"{spell(node)}: {len(node.input)} inputs and {len(node.output)} outputs, "
            f"expected {least} inputs{' or more' if most > least else ''} and 1 output"
        )
    return given


def warn_of_bodies(graph: Graph) -> list[str]:
    """Warn of RoI nodes in bodies of other nodes and in functions; return what was found."""
    found: list[str] = []

    def look(nodes: Any, where: str) -> None:
        for node in nodes:
            for body in bodies(node):
                inner = where or spell(node)
                for one in body.node:
                    if (domain(one.domain), one.op_type) in TABLE:
                        found.append(f"{spell(one)} in a body of {inner}")
                look(body.node, inner)

    look(graph.nodes, "")
    for function in graph.model.functions:
        found += [
            f"{spell(node)} in the function {function.name!r}"
            for node in function.node
            if (domain(node.domain), node.op_type) in TABLE
        ]
        look(function.node, f"the function {function.name!r}")
    for one in found:
        warnings.warn(f"{one}: left to ONNX Runtime", stacklevel=3)
    return found
