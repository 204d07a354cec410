"""The operators in models that torch.onnx.export makes, by either of its exporters.

RoIAlign and RoIPool become ONNX's RoiAlign (opset 16) and MaxRoiPool, and pyramids RoiAlign of each
level.  ONNX has no other of them: PSRoIAlign, PrRoIPool, PSPrRoIPool and PSRoIPool become
operators of the domain "roicy", and rotated boxes MMDeploy's MMCVRoIAlignRotated, which the runtime
has to be given.  The largest samples are not
exported: what mode "max" of RoiAlign means is not the same in all runtimes.

The exporter of ``dynamo=True`` is given nodes as the model is traced.  That of ``dynamo=False``
asks an autograd.Function of the trace for them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._checks import _levels
from ._operators import OPERATORS, TorchOp
from ._tensors import HALVES, pooled_type

OPSET = 16  # of RoiAlign with coordinate_transformation_mode
NODES = {
    "roi_align": "RoiAlign",
    "roi_pool": "MaxRoiPool",
    "roi_align_rotated": "mmdeploy::MMCVRoIAlignRotated",
    "ps_roi_align": "roicy::PSRoIAlign",
    "prroi_pool": "roicy::PrRoIPool",
    "ps_prroi_pool": "roicy::PSPrRoIPool",
    "ps_roi_pool": "roicy::PSRoIPool",
}
KNOWN = ("sampling_ratio", "aligned", "clockwise")  # keywords that nodes of other domains have


def is_exporting() -> bool:
    """Whether a model is traced for ONNX."""
    if not torch.compiler.is_exporting() and not torch.jit.is_tracing():  # answers sooner
        return False
    onnx = sys.modules.get("torch.onnx")  # who exports has imported it
    return onnx is not None and onnx.is_in_onnx_export()


def _attributes(
    own: TorchOp, size: Sequence[int], scales: Sequence[float], parameters: Sequence[Any]
) -> dict[str, Any]:
    """Return the attributes of the node of an operator; parameters: those after the scale."""
    found = {"spatial_scale": list(scales), **dict(zip(own.parameters, parameters, strict=False))}
    if not NODES[own.name].startswith("roicy::"):
        found["spatial_scale"] = scales[0]
        for name in own.parameters.keys() - KNOWN:
            value = found.pop(name)
            if value != own.parameters[name]:
                raise NotImplementedError(
                    f"{own.name}: {name}={value!r} is not exported, since {NODES[own.name]} of "
                    "ONNX lacks it"
                )
    if own.name == "roi_pool":
        return {"pooled_shape": list(size), **found}
    if "sampling_ratio" in found:
        found["sampling_ratio"] = max(found["sampling_ratio"], 0)
    if own.name == "roi_align":
        mode = "half_pixel" if found.pop("aligned") else "output_half_pixel"
        found["coordinate_transformation_mode"] = mode
    found |= {name: int(value) for name, value in found.items() if isinstance(value, bool)}
    return {"output_height": size[0], "output_width": size[1], **found}


def pool(
    own: TorchOp, input: Any, rows: Tensor, size: list[int], scales: list[float], *parameters: Any
) -> Any:
    """Return what is pooled, in a form that the exporter at work understands."""
    if own.is_pyramid:
        return _pool_pyramid(input, rows, size, scales, *parameters)
    if own.name not in NODES:
        raise NotImplementedError(f"{own.name}: not exported, since ONNX's runtimes differ in it")
    # ONNX knows no maps of integers, and column 0 of boxes of small types may not hold an index.
    dtype, node = pooled_type(input), NODES[own.name]
    computed = torch.float32 if dtype in HALVES else dtype
    images, rows, maps = rows[:, 0], _to(rows, computed), _to(input, computed)
    if not node.startswith("roicy::") and scales[0] != scales[1]:
        # ONNX's own operators have one scale
        vertical, horizontal = scales
        each = [1.0, horizontal, vertical, horizontal, vertical]
        rows, scales = rows * torch.tensor(each, dtype=computed), [1.0, 1.0]
    attributes = _attributes(own, size, scales, parameters)
    if torch.jit.is_tracing():
        return _to(_Traced.apply(own, attributes, maps, rows, size, scales, *parameters), dtype)
    has_images = own.name == "roi_align"
    channels = input.shape[1] // (size[0] * size[1]) if own.by_bin else input.shape[1]
    pooled = torch.onnx.ops.symbolic(
        node,
        (maps, rows[:, 1:], images.to(torch.int64)) if has_images else (maps, rows),
        attributes,
        dtype=computed,
        shape=(rows.shape[0], channels, *size),
        version=OPSET if has_images else 1,
    )
    return _to(pooled, dtype)


def _to(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor if tensor.dtype is dtype else tensor.to(dtype)


class _Traced(torch.autograd.Function):
    """An operator in a trace: (operators, attributes, maps, boxes, size, *parameters) -> pooled."""

    @staticmethod
    def forward(_: Any, own: TorchOp, __: Any, maps: Tensor, rows: Tensor, *given: Any) -> Any:
        return own.pool(maps, rows, *given)

    @staticmethod
    def symbolic(graph: Any, own: TorchOp, attributes: Any, maps: Any, rows: Any, *_: Any) -> Any:
        """Add the node to a graph."""
        kinds = {str: "s", float: "f", int: "i"}
        named = {
            f"{name}_{kinds[type(value[0] if isinstance(value, list) else value)]}": value
            for name, value in attributes.items()
        }
        if own.name != "roi_align":
            return graph.op(NODES[own.name], maps, rows, **named)
        if graph.opset < OPSET:
            raise ValueError(f"opset_version: {graph.opset}, expected {OPSET} or more for RoiAlign")

        def constant(value: int) -> Any:
            return graph.op("Constant", value_t=torch.tensor([value]))

        axes = constant(1)
        corners = graph.op("Slice", rows, constant(1), constant(5), axes)
        images = graph.op("Squeeze", graph.op("Slice", rows, constant(0), axes, axes), axes)
        images = graph.op("Cast", images, to_i=7)  # int64
        return graph.op(NODES[own.name], maps, corners, images, **named)


def _pool_pyramid(
    maps: Sequence[Tensor], rows: Tensor, size: list[int], scales: Sequence[float],
    sampling_ratio: int, aligned: bool, canonical_scale: float, canonical_level: int,
    num_threads: int | None,
) -> Any:  # fmt: skip
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
    own = OPERATORS["roi_align"]
    parameters = (*own.completed((sampling_ratio, aligned)), num_threads)
    result = pool(own, maps[0], rows, size, list(pairs[0]), *parameters)
    for i in range(1, last + 1):
        pooled = pool(own, maps[i], rows, size, list(pairs[i]), *parameters)
        result = torch.where(index == i, pooled, result)
    return result
