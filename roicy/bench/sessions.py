"""Sessions of ONNX Runtime with RoiAlign nodes: its own nodes, and those of roicy's provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx  # type: ignore[import-untyped]
import onnxruntime  # type: ignore[import-untyped]
from onnx import TensorProto, helper

from ..compat.onnx import InferenceSession

SIDE = 50  # of maps
EACH, CHAIN = (4, 64, 20), (8, 256, 100)  # nodes, channels, boxes


def _described(name: str, *extents: int, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, extents)


def _model(nodes: list[Any], inputs: list[str], size: tuple[int, int, int], kernel: int) -> bytes:
    """Return a model of nodes that share the weights `w` of convolutions, boxes and their images.

    Its outputs are y0, y1, ... of RoiAlign nodes.
    """
    count, channels, boxes = size
    weights = np.random.default_rng(1).standard_normal((channels, channels, kernel, kernel))
    given = [_described(name, 1, channels, SIDE, SIDE) for name in inputs]
    given += [_described("b", boxes, 4), _described("i", boxes, kind=TensorProto.INT64)]
    made = [_described(f"y{i}", boxes, channels, 7, 7) for i in range(count)]
    scaled = (weights / (kernel * channels**0.5)).astype(np.float32)
    graph = helper.make_graph(nodes, "g", given, made, [onnx.numpy_helper.from_array(scaled, "w")])
    opset = [helper.make_opsetid("", 16)]
    model: bytes = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    return model


def _pooled(i: int, features: str) -> Any:
    sizes = {"output_height": 7, "output_width": 7, "sampling_ratio": 2, "spatial_scale": 0.25}
    return helper.make_node("RoiAlign", [features, "b", "i"], [f"y{i}"], **sizes)


def each_map(size: tuple[int, int, int] = EACH) -> bytes:
    """Return a model of RoiAlign nodes, each behind two convolutions of a map of its own."""
    nodes: list[Any] = []
    for i in range(size[0]):
        nodes += [
            helper.make_node("Conv", [f"x{i}", "w"], [f"c{i}"], pads=[1] * 4),
            helper.make_node("Conv", [f"c{i}", "w"], [f"r{i}"], pads=[1] * 4),
            _pooled(i, f"r{i}"),
        ]
    return _model(nodes, [f"x{i}" for i in range(size[0])], size, 3)


def chain(size: tuple[int, int, int] = CHAIN) -> bytes:
    """Return a model of convolutions and RoiAlign nodes in turns, so that threads are awake."""
    nodes: list[Any] = []
    for i in range(size[0]):
        features = f"c{i - 1}" if i else "x0"
        nodes += [helper.make_node("Conv", [features, "w"], [f"c{i}"]), _pooled(i, f"c{i}")]
    return _model(nodes, ["x0"], size, 1)


def _inputs(session: Any) -> dict[str, np.ndarray]:
    """Return random maps, and boxes of image 0."""
    rng, feed = np.random.default_rng(0), {}
    for value in session.get_inputs():
        feed[value.name] = rng.standard_normal(value.shape, dtype=np.float32)
    corners = rng.uniform(0, 100, (len(feed["b"]), 2))
    sizes = rng.uniform(20, 90, corners.shape)
    boxes = np.hstack([corners, corners + sizes]).astype(np.float32)
    return feed | {"b": boxes, "i": np.zeros(len(boxes), np.int64)}


def runs(model: bytes, threads: int) -> dict[str, Callable[[], Any]]:
    """Return functions that run a session of so many threads: ONNX Runtime's own, and roicy's."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    own = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    ours, feed = InferenceSession(model, options), _inputs(own)
    return {
        "ONNX Runtime's own": lambda: own.run(None, feed),
        "roicy's provider": lambda: ours.run(None, feed),
    }
