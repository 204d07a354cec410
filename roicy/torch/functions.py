"""The operators on tensors: torchvision's functions on regions, and others."""

# torch.jit.script reads annotations: they are not postponed here, and are spelled as it knows them

from collections.abc import Sequence
from typing import TYPE_CHECKING, List, Optional, Tuple, Union

import torch
from torch import Tensor
from torch.jit.annotations import BroadcastingList2

from . import _docs, _eager, _script

__all__ = [
    "multiscale_roi_align", "prroi_pool", "ps_prroi_pool", "ps_roi_align", "ps_roi_pool",
    "roi_align", "roi_align_max", "roi_align_rotated", "roi_pool",
]  # fmt: skip

if TYPE_CHECKING:  # TorchScript takes no nested lists of numbers
    Rows = Union[Tensor, Sequence[Sequence[float]]]
    Boxes = Union[Rows, Sequence[Rows]]
else:
    Boxes = Union[Tensor, List[Tensor]]
Scale = Union[float, int, Tuple[float, float], List[float]]  # of y and x, or one for both
Scales = Union[List[float], List[Tuple[float, float]]]  # of each level


@_docs.function("RoIAlign : this function as a module")
def roi_align(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    sampling_ratio: int = -1, aligned: bool = False, num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """Mean of bilinear samples in each bin of each box; see :func:`roicy.roi_align`.

    Notes
    -----
    The gradients may be differentiated again with respect to what they are linear in: the input,
    and the gradient of the output.  Gradients of the input may be differentiated with respect to
    the boxes too.  Forward mode (``torch.func.jvp``) has the derivative with respect to the input,
    and ``torch.vmap`` is known.  Gradients of boxes, and the gradient of :func:`roi_align_max`,
    cannot be differentiated again or in forward mode: that is a NotImplementedError.

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> ramp = torch.arange(8.0).repeat(1, 1, 8, 1)
    >>> boxes = torch.tensor([[0, 1.25, 1.25, 5.25, 5.25]], requires_grad=True)
    >>> roicy.torch.roi_align(ramp, boxes, 1, sampling_ratio=4).sum().backward()
    >>> boxes.grad
    tensor([[0.0000, 0.5000, 0.0000, 0.5000, 0.0000]])
    """
    given = (sampling_ratio, aligned, num_threads)
    if not torch.jit.is_scripting():
        return _eager.pool("roi_align", input, boxes, output_size, spatial_scale, *given)
    placed = _script.given(boxes, input.size(0), output_size, spatial_scale)
    return torch.ops.roicy.roi_align(input, *placed, *given)


@_docs.function(
    "roicy.roi_align_max_backward : the gradient that flows to the input; boxes have none",
    sampling_ratio="max_sampling_ratio",
)
def roi_align_max(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    sampling_ratio: int = -1, aligned: bool = False, products: bool = False,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """Largest bilinear sample in each bin of each box: ONNX's mode "max".

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> input = torch.arange(16.0).reshape(1, 1, 4, 4)
    >>> roicy.torch.roi_align_max(input, torch.tensor([[0, 0.0, 0, 2, 2]]), 1, sampling_ratio=2)
    tensor([[[[7.5000]]]])
    """
    given = (sampling_ratio, aligned, products, num_threads)
    if not torch.jit.is_scripting():
        return _eager.pool("roi_align_max", input, boxes, output_size, spatial_scale, *given)
    placed = _script.given(boxes, input.size(0), output_size, spatial_scale)
    return torch.ops.roicy.roi_align_max(input, *placed, *given)


@_docs.function("RoIAlignRotated : this function as a module")
def roi_align_rotated(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: float = 1.0,
    sampling_ratio: int = -1, aligned: bool = True, clockwise: bool = False,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """Mean of bilinear samples in each bin of each rotated box.

    Gradients flow to the input and to the five numbers of each box.

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> ramp = torch.arange(8.0).repeat(1, 1, 8, 1)
    >>> boxes = torch.tensor([[0, 4.0, 4.0, 4.0, 2.0, 0.5]], requires_grad=True)
    >>> roicy.torch.roi_align_rotated(ramp, boxes, 1, sampling_ratio=2).sum().backward()
    >>> boxes.grad[:, 1].round(decimals=4)
    tensor([1.])
    """
    given = (sampling_ratio, aligned, clockwise, num_threads)
    if not torch.jit.is_scripting():
        return _eager.pool("roi_align_rotated", input, boxes, output_size, spatial_scale, *given)
    placed = _script.given(boxes, input.size(0), output_size, spatial_scale, 5)
    return torch.ops.roicy.roi_align_rotated(input, *placed, *given)


@_docs.function("PSRoIAlign : this function as a module")
def ps_roi_align(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    sampling_ratio: int = -1, num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """Mean of bilinear samples, where each bin reads channels of its own.

    Gradients flow to the input and to the boxes.  Pixel i always covers [i, i + 1).
    """
    given = (sampling_ratio, num_threads)
    if not torch.jit.is_scripting():
        return _eager.pool("ps_roi_align", input, boxes, output_size, spatial_scale, *given)
    placed = _script.given(boxes, input.size(0), output_size, spatial_scale)
    return torch.ops.roicy.ps_roi_align(input, *placed, *given)


@_docs.function("PrRoIPool : this function as a module")
def prroi_pool(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """Exact mean of the bilinear surface over each bin of each box.

    Gradients flow to the input and to the boxes.

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> ramp = torch.arange(8.0).repeat(1, 1, 8, 1)
    >>> boxes = torch.tensor([[0, 1.25, 1.25, 5.25, 5.25]], requires_grad=True)
    >>> roicy.torch.prroi_pool(ramp, boxes, 1).sum().backward()
    >>> boxes.grad
    tensor([[0.0000, 0.5000, 0.0000, 0.5000, 0.0000]])
    """
    if not torch.jit.is_scripting():
        return _eager.pool("prroi_pool", input, boxes, output_size, spatial_scale, num_threads)
    given = _script.given(boxes, input.size(0), output_size, spatial_scale)
    return torch.ops.roicy.prroi_pool(input, *given, num_threads)


@_docs.function("PSPrRoIPool : this function as a module")
def ps_prroi_pool(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """Exact mean of the bilinear surface, where each bin reads channels of its own.

    Gradients flow to the input and to the boxes.
    """
    if not torch.jit.is_scripting():
        return _eager.pool("ps_prroi_pool", input, boxes, output_size, spatial_scale, num_threads)
    given = _script.given(boxes, input.size(0), output_size, spatial_scale)
    return torch.ops.roicy.ps_prroi_pool(input, *given, num_threads)


@_docs.function("RoIPool : this function as a module")
def roi_pool(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """Largest pixel of each bin of each box.

    Gradients flow to the input.  Boxes have none, since their corners are rounded.

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> input = torch.arange(16.0).reshape(1, 1, 4, 4)
    >>> roicy.torch.roi_pool(input, torch.tensor([[0, 0.0, 0, 2, 2]]), 2)
    tensor([[[[ 5.,  6.],
              [ 9., 10.]]]])
    """
    if not torch.jit.is_scripting():
        return _eager.pool("roi_pool", input, boxes, output_size, spatial_scale, num_threads)
    given = _script.given(boxes, input.size(0), output_size, spatial_scale)
    return torch.ops.roicy.roi_pool(input, *given, num_threads)


@_docs.function("PSRoIPool : this function as a module")
def ps_roi_pool(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """Mean of whole pixels, where each bin reads channels of its own.

    Gradients flow to the input.  Boxes have none, since their corners are rounded.
    """
    if not torch.jit.is_scripting():
        return _eager.pool("ps_roi_pool", input, boxes, output_size, spatial_scale, num_threads)
    given = _script.given(boxes, input.size(0), output_size, spatial_scale)
    return torch.ops.roicy.ps_roi_pool(input, *given, num_threads)


@_docs.function(
    "MultiScaleRoIAlign : this function as a module, which takes the scales from the image's size",
    spatial_scale="scales",
)
def multiscale_roi_align(
    features: List[Tensor], boxes: Boxes, output_size: BroadcastingList2[int],
    spatial_scale: Scales, sampling_ratio: int = -1, aligned: bool = False,
    canonical_scale: float = 224.0, canonical_level: int = 4, num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """:func:`roi_align` of each box from the level of a feature pyramid that suits its size.

    Gradients flow to the maps of all levels, and to the boxes.

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> levels = [torch.full((1, 1, 64, 64), 1.0), torch.full((1, 1, 32, 32), 2.0)]
    >>> boxes = [torch.tensor([[0.0, 0, 200, 200], [10, 10, 60, 60]])]
    >>> roicy.torch.multiscale_roi_align(levels, boxes, 1, [1 / 4, 1 / 8], sampling_ratio=2).ravel()
    tensor([2., 1.])
    """
    given = (sampling_ratio, aligned, canonical_scale, canonical_level, num_threads)
    if not torch.jit.is_scripting():
        return _eager.pool(
            "multiscale_roi_align", features, boxes, output_size, spatial_scale, *given
        )
    placed = _script.given_of_levels(boxes, features, output_size, spatial_scale)
    return torch.ops.roicy.multiscale_roi_align(features, *placed, *given)
