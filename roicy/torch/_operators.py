"""
The operators of ``torch.ops.roicy``: their schemas, what they compute on the CPU, and the shapes
and types of their results, which compilers ask for.

How they are differentiated is in ``_autograd.py``, and how vmap batches them in ``_vmap.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import multiscale, operators
from . import _tensors
from ._tensors import pooled_type

LIBRARY = torch.library.Library("roicy", "DEF")

# Parameters after the map, the boxes and the size, by their names, with their types in a schema.
# Of a pyramid the scales are those of the levels, or the two of each level, one after the other.
SCALE = {"spatial_scale": "float[2]"}
SAMPLED = {**SCALE, "sampling_ratio": "int"}
ALIGNED = {**SAMPLED, "aligned": "bool"}
ROTATED = {**ALIGNED, "clockwise": "bool"}
PYRAMID = {
    **ALIGNED,
    "spatial_scale": "float[]",
    "canonical_scale": "float",
    "canonical_level": "int",
}
THREADS = {"num_threads": "int?"}

KERNELS: dict[Any, Callable[..., Any]] = {}  # what each operator calls on the CPU


def _define(
    name: str,
    arguments: str,
    parameters: dict[str, str],
    returns: str,
    kernel: Callable[..., Any],
    fake: Callable[..., Any],
) -> Any:
    """Define torch.ops.roicy.<name>, and return it."""
    declared = [f"{kind} {parameter}" for parameter, kind in {**parameters, **THREADS}.items()]
    schema = f"{name}({', '.join([arguments, *declared])}) -> {returns}"
    LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    LIBRARY.impl(name, kernel, "CPU")
    torch.library.register_fake(f"roicy::{name}", fake, lib=LIBRARY)
    operator = getattr(torch.ops.roicy, name).default
    KERNELS[operator] = kernel
    return operator


class WeightedSum(NamedTuple):
    """
    The operators of a weighted sum: its forward pass and its gradients.

    Of a pyramid, `input` is a list of maps, and so is the gradient.

    Attributes
    ----------
    pool : (input, boxes, output_size, *parameters) -> pooled
    backward : (grad_output, boxes, input_shapes, *parameters) -> grad_input
        The extents of all maps are one list, since schemas know no lists of lists.
    backward_boxes : (grad_output, input, boxes, *parameters) -> grad_boxes, or None
    """

    name: str
    is_pyramid: bool
    pool: Any
    backward: Any
    backward_boxes: Any

    def pack(self, maps: Sequence[Tensor]) -> Any:
        """Return maps as the operators take them."""
        return list(maps) if self.is_pyramid else maps[0]

    def unpack(self, maps: Any) -> list[Tensor]:
        """Return the maps that an operator takes or returns."""
        return list(maps) if self.is_pyramid else [maps]


def _size(output_size: list[int]) -> Any:
    return tuple(output_size)


def _first(input: Any) -> Tensor:
    """Return the map, or the first one of a pyramid."""
    return input[0] if isinstance(input, (list, tuple)) else input


def _arrays(input: Any) -> Any:
    if isinstance(input, (list, tuple)):
        return [_tensors.array(level) for level in input]
    return _tensors.array(input)


def _scales_of_levels(scales: list[float], levels: int) -> list[Any]:
    """Return the scale of each level, or a pair for each."""
    if len(scales) != 2 * levels:
        return scales
    return list(zip(scales[::2], scales[1::2], strict=True))


def _keywords(
    parameters: dict[str, str], given: Sequence[Any], levels: Any = None
) -> dict[str, Any]:
    """
    Return the parameters of a call by their names, and how many threads it may take.

    levels: of a pyramid, the maps or their shapes.
    """
    *values, num_threads = given
    if parameters is PYRAMID:
        values[0] = _scales_of_levels(values[0], len(levels))
    keywords = dict(zip(parameters, values, strict=True))
    keywords["num_threads"] = _tensors.threads(num_threads)
    return keywords


def _pooled_like(input: Any, boxes: Tensor, output_size: Sequence[int], per_bin: bool) -> Tensor:
    """Return a tensor without values of the shape and type of what is pooled."""
    first = _first(input)
    height, width = output_size
    channels = first.shape[1] // (height * width) if per_bin else first.shape[1]
    shape = (boxes.shape[0], channels, height, width)
    return first.new_empty(shape, dtype=pooled_type(first))


def _define_pool(name: str, input: str, parameters: dict[str, str], per_bin: bool) -> Any:
    function = getattr(multiscale if parameters is PYRAMID else operators, name)

    def kernel(input: Any, boxes: Tensor, output_size: list[int], *given: Any) -> Tensor:
        first = _first(input)
        rows = _tensors.boxes(boxes, first.shape[0])
        keywords = _keywords(parameters, given, input)
        pooled = function(_arrays(input), rows, _size(output_size), **keywords)
        return _tensors.tensor(pooled, pooled_type(first))

    def fake(input: Any, boxes: Tensor, output_size: list[int], *_: Any) -> Tensor:
        return _pooled_like(input, boxes, output_size, per_bin)

    arguments = f"{input}, Tensor boxes, SymInt[] output_size"
    return _define(name, arguments, parameters, "Tensor", kernel, fake)


def _define_backward(name: str, parameters: dict[str, str]) -> Any:
    is_pyramid = parameters is PYRAMID
    function = getattr(multiscale if is_pyramid else operators, f"{name}_backward")

    def shapes_of(extents: list[int]) -> list[tuple[int, ...]]:
        return [tuple(extents[i : i + 4]) for i in range(0, len(extents), 4)]

    def kernel(grad_output: Tensor, boxes: Tensor, extents: list[int], *given: Any) -> Any:
        shapes = shapes_of(extents)
        rows = _tensors.boxes(boxes, extents[0])
        keywords = _keywords(parameters, given, shapes)
        wanted = shapes if is_pyramid else shapes[0]
        grads = function(_tensors.gradient(grad_output), rows, wanted, **keywords)
        tensors = [
            _tensors.tensor(grad, grad_output.dtype) for grad in (grads if is_pyramid else [grads])
        ]
        return tensors if is_pyramid else tensors[0]

    def fake(grad_output: Tensor, boxes: Tensor, extents: list[int], *_: Any) -> Any:
        grads = [grad_output.new_empty(shape) for shape in shapes_of(extents)]
        return grads if is_pyramid else grads[0]

    arguments = "Tensor grad_output, Tensor boxes, SymInt[] input_shape"
    returns = "Tensor[]" if is_pyramid else "Tensor"
    return _define(f"{name}_backward", arguments, parameters, returns, kernel, fake)


def _define_backward_boxes(name: str, input: str, parameters: dict[str, str]) -> Any:
    module = multiscale if parameters is PYRAMID else operators
    function = getattr(module, f"{name}_backward_boxes")

    def kernel(grad_output: Tensor, input: Any, boxes: Tensor, *given: Any) -> Tensor:
        rows = _tensors.boxes(boxes, _first(input).shape[0])
        keywords = _keywords(parameters, given, input)
        grad = function(_tensors.gradient(grad_output), _arrays(input), rows, **keywords)
        return _tensors.tensor(grad, boxes.dtype)

    def fake(grad_output: Tensor, input: Any, boxes: Tensor, *_: Any) -> Tensor:
        return torch.empty_like(boxes, memory_format=torch.contiguous_format)

    arguments = f"Tensor grad_output, {input}, Tensor boxes"
    return _define(f"{name}_backward_boxes", arguments, parameters, "Tensor", kernel, fake)


def _weighted_sum(
    name: str, parameters: dict[str, str], per_bin: bool = False, grad_boxes: bool = True
) -> WeightedSum:
    is_pyramid = parameters is PYRAMID
    input = "Tensor[] features" if is_pyramid else "Tensor input"
    return WeightedSum(
        name,
        is_pyramid,
        _define_pool(name, input, parameters, per_bin),
        _define_backward(name, parameters),
        _define_backward_boxes(name, input, parameters) if grad_boxes else None,
    )


ROI_ALIGN = _weighted_sum("roi_align", ALIGNED)
ROI_ALIGN_ROTATED = _weighted_sum("roi_align_rotated", ROTATED)
PS_ROI_ALIGN = _weighted_sum("ps_roi_align", SAMPLED, per_bin=True)
PRROI_POOL = _weighted_sum("prroi_pool", SCALE)
PS_PRROI_POOL = _weighted_sum("ps_prroi_pool", SCALE, per_bin=True)
PS_ROI_POOL = _weighted_sum("ps_roi_pool", SCALE, per_bin=True, grad_boxes=False)
MULTISCALE_ROI_ALIGN = _weighted_sum("multiscale_roi_align", PYRAMID)
WEIGHTED_SUMS = (
    ROI_ALIGN,
    ROI_ALIGN_ROTATED,
    PS_ROI_ALIGN,
    PRROI_POOL,
    PS_PRROI_POOL,
    PS_ROI_POOL,
    MULTISCALE_ROI_ALIGN,
)


class RoIPool(NamedTuple):
    """
    The operators of RoIPool.

    Attributes
    ----------
    pool : (input, boxes, output_size, spatial_scale, num_threads) -> pooled
    pool_argmax : as `pool` -> (pooled, argmax)
        Takes several times as long, and is called where a gradient may be wanted.
    backward : (grad_output, argmax, boxes, input_shape, num_threads) -> grad_input
    """

    pool: Any
    pool_argmax: Any
    backward: Any


def _roi_pool() -> RoIPool:
    def pool(input: Tensor, boxes: Tensor, output_size: list[int], *given: Any) -> Tensor:
        rows = _tensors.boxes(boxes, input.shape[0])
        keywords = _keywords(SCALE, given)
        pooled = operators.roi_pool(_tensors.array(input), rows, _size(output_size), **keywords)
        return _tensors.tensor(pooled, pooled_type(input))

    def fake_pool(input: Tensor, boxes: Tensor, output_size: list[int], *_: Any) -> Tensor:
        return _pooled_like(input, boxes, output_size, False)

    def pool_argmax(
        input: Tensor, boxes: Tensor, output_size: list[int], *given: Any
    ) -> tuple[Tensor, Tensor]:
        rows = _tensors.boxes(boxes, input.shape[0])
        keywords = _keywords(SCALE, given)
        pooled, argmax = operators.roi_pool(
            _tensors.array(input), rows, _size(output_size), return_argmax=True, **keywords
        )
        return _tensors.tensor(pooled, pooled_type(input)), torch.from_numpy(argmax)

    def fake_pool_argmax(
        input: Tensor, boxes: Tensor, output_size: list[int], *_: Any
    ) -> tuple[Tensor, Tensor]:
        pooled = _pooled_like(input, boxes, output_size, False)
        return pooled, torch.empty_like(pooled, dtype=torch.int32)

    def backward(
        grad_output: Tensor, argmax: Tensor, boxes: Tensor, shape: list[int], *given: Any
    ) -> Tensor:
        rows = _tensors.boxes(boxes, shape[0])
        grad = operators.roi_pool_backward(
            _tensors.gradient(grad_output),
            argmax.numpy(),
            rows,
            tuple(shape),
            **_keywords({}, given),
        )
        return _tensors.tensor(grad, grad_output.dtype)

    def fake_backward(
        grad_output: Tensor, argmax: Tensor, boxes: Tensor, shape: list[int], *_: Any
    ) -> Tensor:
        return grad_output.new_empty(shape)

    read = "Tensor input, Tensor boxes, SymInt[] output_size"
    both = "(Tensor, Tensor)"
    written = "Tensor grad_output, Tensor argmax, Tensor boxes, SymInt[] input_shape"
    return RoIPool(
        _define("roi_pool", read, SCALE, "Tensor", pool, fake_pool),
        _define("roi_pool_argmax", read, SCALE, both, pool_argmax, fake_pool_argmax),
        _define("roi_pool_backward", written, {}, "Tensor", backward, fake_backward),
    )


ROI_POOL = _roi_pool()


class RoIAlignMax(NamedTuple):
    """
    The operators of the largest samples.

    Attributes
    ----------
    pool : (input, boxes, output_size, *parameters) -> pooled
    backward : (grad_output, input, boxes, *parameters) -> grad_input
    """

    pool: Any
    backward: Any


def _roi_align_max() -> RoIAlignMax:
    name, parameters = "roi_align_max", {**ALIGNED, "products": "bool"}

    def backward(grad_output: Tensor, input: Tensor, boxes: Tensor, *given: Any) -> Tensor:
        rows = _tensors.boxes(boxes, input.shape[0])
        gradient, array = _tensors.gradient(grad_output), _tensors.array(input)
        keywords = _keywords(parameters, given)
        grad = operators.roi_align_max_backward(gradient, array, rows, **keywords)
        return _tensors.tensor(grad, grad_output.dtype)

    def fake_backward(grad_output: Tensor, input: Tensor, boxes: Tensor, *_: Any) -> Tensor:
        return grad_output.new_empty(input.shape)

    read = "Tensor grad_output, Tensor input, Tensor boxes"
    return RoIAlignMax(
        _define_pool(name, "Tensor input", parameters, False),
        _define(f"{name}_backward", read, parameters, "Tensor", backward, fake_backward),
    )


ROI_ALIGN_MAX = _roi_align_max()
