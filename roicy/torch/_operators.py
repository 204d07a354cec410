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

from .. import integrals, multiscale, operators
from . import _tensors
from ._tensors import pooled_type

LIBRARY = torch.library.Library("roicy", "DEF")

# Parameters after the map, the boxes and the size, by their names, with their types in a schema.
# A pyramid has one scale or two for each level, one after the other.
SCALE = {"spatial_scale": "float[2]"}
SAMPLED = {**SCALE, "sampling_ratio": "int"}
ALIGNED = {**SAMPLED, "aligned": "bool"}
ROTATED = {**ALIGNED, "clockwise": "bool"}
LARGEST = {**ALIGNED, "products": "bool"}
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


class Operator(NamedTuple):
    """
    An operator: its forward passes and its gradients, as torch.ops.roicy has them.

    Of a pyramid, `input` is a list of maps, and so is the gradient.

    Attributes
    ----------
    pool : (input, boxes, output_size, *parameters) -> pooled
    backward :
        - of weighted sums (grad_output, boxes, input_shapes, *parameters) -> grad_input.  The
          extents of all maps are one list, since schemas know no lists of lists.
        - of the largest pixels (grad_output, argmax, boxes, input_shape, num_threads)
        - of the largest samples (grad_output, input, boxes, *parameters)
    backward_boxes : (grad_output, input, boxes, *parameters) -> grad_boxes, or None
    pool_argmax : as `pool` -> (pooled, argmax), or None
        Takes several times as long, and is called where a gradient may be wanted.
    """

    name: str
    parameters: dict[str, str]
    pool: Any
    backward: Any
    backward_boxes: Any = None
    pool_argmax: Any = None

    @property
    def is_pyramid(self) -> bool:
        return self.parameters is PYRAMID

    @property
    def has_argmax(self) -> bool:
        return self.pool_argmax is not None

    @property
    def is_linear(self) -> bool:
        """Whether the operator is linear in its input, of largest pixels where argmax is known."""
        return self.parameters is not LARGEST

    def pack(self, maps: Sequence[Tensor]) -> Any:
        """Return maps as the operators take them."""
        return list(maps) if self.is_pyramid else maps[0]

    def unpack(self, maps: Any) -> list[Tensor]:
        """Return the maps that an operator takes or returns."""
        return list(maps) if self.is_pyramid else [maps]


def _function(name: str) -> Callable[..., Any]:
    """Return the function on arrays."""
    is_integral, is_pyramid = "prroi_pool" in name, name.startswith("multiscale")
    home = integrals if is_integral else multiscale if is_pyramid else operators
    found: Callable[..., Any] = getattr(home, name)
    return found


def _input(parameters: dict[str, str]) -> str:
    return "Tensor[] features" if parameters is PYRAMID else "Tensor input"


def _first(input: Any) -> Tensor:
    """Return the map, or the first one of a pyramid."""
    return input[0] if isinstance(input, (list, tuple)) else input


def _arrays(input: Any) -> Any:
    if isinstance(input, (list, tuple)):
        return [_tensors.array(level) for level in input]
    return _tensors.array(input)


def _keywords(
    parameters: dict[str, str], given: Sequence[Any], levels: Any = None
) -> dict[str, Any]:
    """
    Return the parameters of a call by their names, and how many threads it may take.

    levels: of a pyramid, the maps or their shapes.
    """
    *values, num_threads = given
    if parameters is PYRAMID and len(values[0]) == 2 * len(levels):
        values[0] = list(zip(values[0][::2], values[0][1::2], strict=True))
    keywords = dict(zip(parameters, values, strict=True))
    keywords["num_threads"] = _tensors.threads(num_threads)
    return keywords


def _define_pool(
    name: str, parameters: dict[str, str], by_bin: bool = False, argmax: bool = False
) -> Any:
    """Define a forward pass; by_bin: whether each bin reads channels of its own."""
    option = {"return_argmax": True} if argmax else {}

    def kernel(input: Any, boxes: Tensor, output_size: list[int], *given: Any) -> Any:
        first = _first(input)
        rows = _tensors.boxes(boxes, first.shape[0])
        keywords = _keywords(parameters, given, input)
        pooled = _function(name)(_arrays(input), rows, tuple(output_size), **keywords, **option)
        if argmax:
            pooled, indices = pooled
            return _tensors.tensor(pooled, pooled_type(first)), torch.from_numpy(indices)
        return _tensors.tensor(pooled, pooled_type(first))

    def fake(input: Any, boxes: Tensor, output_size: list[int], *_: Any) -> Any:
        first, (height, width) = _first(input), output_size
        channels = first.shape[1] // (height * width) if by_bin else first.shape[1]
        shape = (boxes.shape[0], channels, height, width)
        pooled = first.new_empty(shape, dtype=pooled_type(first))
        return (pooled, torch.empty_like(pooled, dtype=torch.int32)) if argmax else pooled

    arguments = f"{_input(parameters)}, Tensor boxes, SymInt[] output_size"
    if argmax:
        return _define(f"{name}_argmax", arguments, parameters, "(Tensor, Tensor)", kernel, fake)
    return _define(name, arguments, parameters, "Tensor", kernel, fake)


def _define_backward(name: str, parameters: dict[str, str], argmax: bool = False) -> Any:
    """Define the gradient of maps, of which only the shapes are needed, and perhaps argmax."""
    is_pyramid = parameters is PYRAMID
    function = _function(f"{name}_backward")

    def shapes_of(extents: list[int]) -> list[tuple[int, ...]]:
        return [tuple(extents[i : i + 4]) for i in range(0, len(extents), 4)]

    def kernel(grad_output: Tensor, *given: Any) -> Any:
        indices, (boxes, extents, *values) = given[:argmax], given[argmax:]
        shapes = shapes_of(extents)
        rows = _tensors.boxes(boxes, extents[0])
        arrays = [_tensors.gradient(grad_output), *map(_tensors.array, indices), rows]
        wanted = shapes if is_pyramid else shapes[0]
        grads = function(*arrays, wanted, **_keywords(parameters, values, shapes))
        if is_pyramid:
            return [_tensors.tensor(grad, grad_output.dtype) for grad in grads]
        return _tensors.tensor(grads, grad_output.dtype)

    def fake(grad_output: Tensor, *given: Any) -> Any:
        grads = [grad_output.new_empty(shape) for shape in shapes_of(given[argmax + 1])]
        return grads if is_pyramid else grads[0]

    read = "Tensor argmax, Tensor boxes" if argmax else "Tensor boxes"
    arguments = f"Tensor grad_output, {read}, SymInt[] input_shape"
    returns = "Tensor[]" if is_pyramid else "Tensor"
    return _define(f"{name}_backward", arguments, parameters, returns, kernel, fake)


def _define_with_maps(name: str, parameters: dict[str, str], of_boxes: bool) -> Any:
    """Define a gradient that reads the maps: of the boxes, or else of the map."""
    function = _function(name)

    def kernel(grad_output: Tensor, input: Any, boxes: Tensor, *given: Any) -> Tensor:
        rows = _tensors.boxes(boxes, _first(input).shape[0])
        keywords = _keywords(parameters, given, input)
        grad = function(_tensors.gradient(grad_output), _arrays(input), rows, **keywords)
        return _tensors.tensor(grad, boxes.dtype if of_boxes else grad_output.dtype)

    def fake(grad_output: Tensor, input: Any, boxes: Tensor, *_: Any) -> Tensor:
        if of_boxes:
            return torch.empty_like(boxes, memory_format=torch.contiguous_format)
        return grad_output.new_empty(input.shape)

    arguments = f"Tensor grad_output, {_input(parameters)}, Tensor boxes"
    return _define(name, arguments, parameters, "Tensor", kernel, fake)


def _weighted_sum(
    name: str, parameters: dict[str, str], by_bin: bool = False, grad_boxes: bool = True
) -> Operator:
    pool = _define_pool(name, parameters, by_bin)
    backward = _define_backward(name, parameters)
    if not grad_boxes:
        return Operator(name, parameters, pool, backward)
    of_boxes = _define_with_maps(f"{name}_backward_boxes", parameters, True)
    return Operator(name, parameters, pool, backward, of_boxes)


ROI_ALIGN = _weighted_sum("roi_align", ALIGNED)
ROI_ALIGN_ROTATED = _weighted_sum("roi_align_rotated", ROTATED)
PS_ROI_ALIGN = _weighted_sum("ps_roi_align", SAMPLED, by_bin=True)
PRROI_POOL = _weighted_sum("prroi_pool", SCALE)
PS_PRROI_POOL = _weighted_sum("ps_prroi_pool", SCALE, by_bin=True)
PS_ROI_POOL = _weighted_sum("ps_roi_pool", SCALE, by_bin=True, grad_boxes=False)
MULTISCALE_ROI_ALIGN = _weighted_sum("multiscale_roi_align", PYRAMID)
ROI_POOL = Operator(
    "roi_pool",
    SCALE,
    _define_pool("roi_pool", SCALE),
    _define_backward("roi_pool", {}, argmax=True),
    pool_argmax=_define_pool("roi_pool", SCALE, argmax=True),
)
ROI_ALIGN_MAX = Operator(
    "roi_align_max",
    LARGEST,
    _define_pool("roi_align_max", LARGEST),
    _define_with_maps("roi_align_max_backward", LARGEST, False),
)
OPERATORS = (
    ROI_ALIGN,
    ROI_ALIGN_ROTATED,
    PS_ROI_ALIGN,
    PRROI_POOL,
    PS_PRROI_POOL,
    PS_ROI_POOL,
    MULTISCALE_ROI_ALIGN,
    ROI_POOL,
    ROI_ALIGN_MAX,
)
