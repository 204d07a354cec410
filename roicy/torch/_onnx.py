"""
The operators in models that torch.onnx.export makes, by either of its exporters.

RoIAlign and RoIPool become ONNX's RoiAlign (opset 16) and MaxRoiPool, and pyramids RoiAlign of each
level.  ONNX has no other of them: PSRoIAlign, PrRoIPool, PSPrRoIPool and PSRoIPool become
operators of the domain "roicy", and rotated boxes MMDeploy's MMCVRoIAlignRotated, which the runtime
has to be given.  The largest samples are not
exported: what mode "max" of RoiAlign means is not the same in all runtimes.

The exporter of ``dynamo=True`` is given nodes as the model is traced.  That of ``dynamo=False``
asks registered functions for them after it has traced ``torch.ops.roicy``.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _levels
from ._tensors import HALVES, pooled_type

OPSET = 16  # of RoiAlign with coordinate_transformation_mode


def is_exporting() -> bool:
    """Whether a model is traced for ONNX."""
    if not torch.compiler.is_exporting() and not torch.jit.is_tracing():  # answers sooner
        return False
    onnx = sys.modules.get("torch.onnx")  # who exports has imported it
    return onnx is not None and onnx.is_in_onnx_export()


class _Node(NamedTuple):
    """
    A node of ONNX.

    Attributes
    ----------
    name : its domain and operator
    attributes : of the parameters of an operator after its boxes, without num_threads
    has_images : whether images are an input beside the corners, rather than column 0 of boxes
    """

    name: str
    attributes: Callable[..., dict[str, Any]]
    has_images: bool = False
    per_bin: bool = False


def _roi_align(
    size: Any, scales: Sequence[float], sampling_ratio: int, aligned: bool
) -> dict[str, Any]:
    mode = "half_pixel" if aligned else "output_half_pixel"
    sampled = _sampled(size, scales, sampling_ratio)
    return {"coordinate_transformation_mode": mode, **sampled, "spatial_scale": scales[0]}


def _sampled(size: Any, scales: Sequence[float], sampling_ratio: int) -> dict[str, Any]:
    return {**_scaled(size, scales), "sampling_ratio": max(sampling_ratio, 0)}


def _scaled(size: Any, scales: Sequence[float]) -> dict[str, Any]:
    height, width = size
    return {"output_height": height, "output_width": width, "spatial_scale": list(scales)}


def _rotated(
    size: Any, scales: Sequence[float], sampling_ratio: int, aligned: bool, clockwise: bool
) -> dict[str, Any]:
    sampled = _sampled(size, scales, sampling_ratio)
    flags = {"aligned": int(aligned), "clockwise": int(clockwise)}
    return {**sampled, "spatial_scale": scales[0], **flags}


def _roi_pool(size: Any, scales: Sequence[float]) -> dict[str, Any]:
    return {"pooled_shape": list(size), "spatial_scale": scales[0]}


NODES = {
    "roi_align": _Node("RoiAlign", _roi_align, has_images=True),
    "roi_pool": _Node("MaxRoiPool", _roi_pool),
    "roi_align_rotated": _Node("mmdeploy::MMCVRoIAlignRotated", _rotated),
    "ps_roi_align": _Node("roicy::PSRoIAlign", _sampled, per_bin=True),
    "prroi_pool": _Node("roicy::PrRoIPool", _scaled),
    "ps_prroi_pool": _Node("roicy::PSPrRoIPool", _scaled, per_bin=True),
    "ps_roi_pool": _Node("roicy::PSRoIPool", _scaled, per_bin=True),
}


def pool(
    name: str, input: Any, rows: Tensor, size: list[int], scales: list[float], *parameters: Any
) -> Any:
    """Return what is pooled, in a form that the exporter at work understands."""
    if name == "multiscale_roi_align":
        return _pool_pyramid(input, rows, size, scales, *parameters)
    if name not in NODES:
        raise NotImplementedError(f"{name}: not exported, since ONNX's runtimes differ in it")
    # ONNX knows no maps of integers, and column 0 of boxes of small types may not hold an index.
    dtype = pooled_type(input)
    computed = torch.float32 if dtype in HALVES else dtype
    images, rows, maps = rows[:, 0], _to(rows, computed), _to(input, computed)
    node = NODES[name]
    if not node.name.startswith("roicy::") and scales[0] != scales[1]:
        # ONNX's own operators have one scale
        vertical, horizontal = scales
        each = [1.0, horizontal, vertical, horizontal, vertical]
        rows, scales = rows * torch.tensor(each, dtype=computed), [1.0, 1.0]
    if torch.jit.is_tracing():
        _register()
        operator = getattr(torch.ops.roicy, name)
        return _to(operator(maps, rows, size, scales, *parameters), dtype)
    channels = input.shape[1]
    pooled = torch.onnx.ops.symbolic(
        node.name,
        (maps, rows[:, 1:], images.to(torch.int64)) if node.has_images else (maps, rows),
        node.attributes(size, scales, *parameters[:-1]),
        dtype=computed,
        shape=(rows.shape[0], channels // (size[0] * size[1]) if node.per_bin else channels, *size),
        version=OPSET if node.has_images else 1,
    )
    return _to(pooled, dtype)


def _to(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor if tensor.dtype is dtype else tensor.to(dtype)


def _pool_pyramid(
    maps: Sequence[Tensor],
    rows: Tensor,
    size: list[int],
    scales: Sequence[float],
    sampling_ratio: int,
    aligned: bool,
    canonical_scale: float,
    canonical_level: int,
    num_threads: int | None,
) -> Any:
    """Pool all boxes from all levels, and take those of each box's level."""
    if len(scales) == len(maps):
        scales = [scale for scale in scales for _ in range(2)]
    pairs = list(zip(scales[::2], scales[1::2], strict=True))
    sides = (rows[:, 3:] - rows[:, 1:3]).clamp(min=0)
    given = len(maps), pairs[0], pairs[-1], canonical_scale, canonical_level
    last, finest, _, _, close = _levels.rule(*given)
    octaves = torch.log2((sides[:, 0] * sides[:, 1]).sqrt() / canonical_scale)
    level = torch.floor(canonical_level + octaves + close) - finest
    index = level.clamp(0, last)[:, None, None, None]
    parameters = (sampling_ratio, aligned, num_threads)
    result = pool("roi_align", maps[0], rows, size, list(pairs[0]), *parameters)
    for i in range(1, last + 1):
        pooled = pool("roi_align", maps[i], rows, size, list(pairs[i]), *parameters)
        result = torch.where(index == i, pooled, result)
    return result


@functools.cache
def _register() -> None:
    """Tell the exporter of ``dynamo=False`` what the operators are in ONNX."""
    from torch.onnx import register_custom_op_symbolic, symbolic_helper

    # fs: list of float, i: int, b: bool
    kinds = {
        "roi_align": ("fs", "i", "b"),
        "roi_align_rotated": ("fs", "i", "b", "b"),
        "ps_roi_align": ("fs", "i"),
    }
    for name, node in NODES.items():
        own = kinds.get(name, ("fs",))
        parse = symbolic_helper.parse_args("v", "v", "is", *own, "none")
        # What is registered of opset 9 serves older ones too, and 1 has all nodes but RoiAlign.
        first = OPSET if node.has_images else 9
        register_custom_op_symbolic(f"roicy::{name}", parse(_symbolic(node, len(own))), first)


def _symbolic(node: _Node, count: int) -> Callable[..., Any]:
    """Return a function that adds a node to a graph; count: of its parameters."""
    kinds = {str: "s", float: "f", int: "i"}

    # the exporter converts as many arguments as there are names
    def symbolic(
        graph: Any, input: Any, rows: Any, size: Any, p: Any, q: Any = None, r: Any = None,
        s: Any = None, _: Any = None,
    ) -> Any:  # fmt: skip
        attributes = {
            f"{name}_{kinds[type(value[0] if isinstance(value, list) else value)]}": value
            for name, value in node.attributes(size, *(p, q, r, s)[:count]).items()
        }
        if not node.has_images:
            return graph.op(node.name, input, rows, **attributes)
        axes = graph.op("Constant", value_t=torch.tensor([1]))

        def columns(first: int, stop: int) -> Any:
            ends = [graph.op("Constant", value_t=torch.tensor([end])) for end in (first, stop)]
            return graph.op("Slice", rows, *ends, axes)

        images = graph.op("Cast", graph.op("Squeeze", columns(0, 1), axes), to_i=7)  # int64
        return graph.op(node.name, input, columns(1, 5), images, **attributes)

    return symbolic
