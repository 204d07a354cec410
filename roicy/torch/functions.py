"""torchvision's functions on regions, and five more, on tensors."""

# torch.jit.script reads annotations: they are not postponed here, and are spelled as it knows them

from collections.abc import Sequence
from typing import TYPE_CHECKING, List, Optional, Tuple, Union

import torch
from torch import Tensor
from torch.jit.annotations import BroadcastingList2
from torch.nn.modules.utils import _pair

from . import _docs, _eager, _operators
from ._rows import rows_of
from ._scales import scales_of, scales_of_levels

if TYPE_CHECKING:  # TorchScript takes no nested lists of numbers
    Rows = Union[Tensor, Sequence[Sequence[float]]]
    Boxes = Union[Rows, Sequence[Rows]]
else:
    Boxes = Union[Tensor, List[Tensor]]
Scale = Union[float, int, Tuple[float, float], List[float]]  # of y and x, or one for both
Scales = Union[List[float], List[Tuple[float, float]]]  # of each level


@torch.fx.wrap
def roi_align(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    sampling_ratio: int = -1, aligned: bool = False, num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """
    Mean of bilinear samples in each bin of each box; see :func:`roicy.roi_align`.

    Parameters
    ----------
    input : Tensor[N, C, H, W], floating point, uint8, int8, uint16 or int16
        Feature maps on the CPU, contiguous, channels_last or of any other strides.  All but
        float32 and float64 are computed with in float32; the result is of the input's type, but
        float32 of integers.
    boxes : Tensor[K, 5] or list of N Tensor[L, 4], floating point or integers
        Rows [batch_index, x1, y1, x2, y2], or [x1, y1, x2, y2] for each image, or a Tensor[K, 4]
        where there is one image.  Nested lists of numbers of these shapes are taken too, but not by
        TorchScript.  A batch index is
        exact in float16 to 2048, and in bfloat16 to 256; larger ones are refused where the input
        has more images.  A list has no such bound.
    output_size : int or (int, int)
        Bins of a box, (height, width).
    spatial_scale : float or (float, float), optional
        Multiplies the coordinates of the boxes; of two, (vertical, horizontal), the first those of
        y and the second those of x.
    sampling_ratio : int, or whole float, optional
        Samples per bin and axis; if 0 or negative, as many as the bin has pixels, rounded up.
    aligned : bool, optional
        Whether pixel i covers [i, i + 1), rather than lie at i.
    num_threads : int, optional
        Threads of the call and of its gradients; by default the least of
        :func:`roicy.get_num_threads` and :func:`torch.get_num_threads`, which is 1 in the
        workers of a DataLoader.

    Returns
    -------
    Tensor[K, C, height, width]

    Raises
    ------
    TypeError, ValueError
        As :func:`roicy.roi_align`.
    AssertionError
        If boxes have another shape.
    NotImplementedError
        If the gradient of boxes is to be differentiated again, or in forward mode.

    Notes
    -----
    The gradients may be differentiated again with respect to what they are linear in: the input,
    and the gradient of the output.  Gradients of the input may be differentiated with respect to
    the boxes too.  Forward mode (``torch.func.jvp``) has the derivative with respect to the input,
    and ``torch.vmap`` is known.

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
    if not torch.jit.is_scripting():
        return _eager.pool(
            _operators.ROI_ALIGN, input, boxes, output_size, spatial_scale, sampling_ratio, aligned,
            num_threads,
        )  # fmt: skip
    return torch.ops.roicy.roi_align(
        input, rows_of(boxes, input.size(0)), _pair(output_size), scales_of(spatial_scale),
        sampling_ratio, aligned, num_threads,
    )  # fmt: skip


@torch.fx.wrap
def roi_align_max(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    sampling_ratio: int = -1, aligned: bool = False, products: bool = False,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """
    Largest bilinear sample in each bin of each box: ONNX's mode "max".

    Parameters
    ----------
    input, boxes, output_size, spatial_scale, sampling_ratio, aligned, num_threads
        As of :func:`roi_align`; at most 1024 samples per bin and axis.
    products : bool, optional
        Whether the largest product of a pixel and its weight is meant, rather than the largest
        sample.

    Returns
    -------
    Tensor[K, C, height, width]
        Of the input's type, but float32 of integers.

    Raises
    ------
    TypeError, ValueError, AssertionError
        As :func:`roi_align`.
    NotImplementedError
        If the gradient is to be differentiated again, or in forward mode.

    See Also
    --------
    roicy.roi_align_max : the operator on arrays, with its formula
    roicy.roi_align_max_backward : the gradient that flows to the input; boxes have none

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> input = torch.arange(16.0).reshape(1, 1, 4, 4)
    >>> roicy.torch.roi_align_max(input, torch.tensor([[0, 0.0, 0, 2, 2]]), 1, sampling_ratio=2)
    tensor([[[[7.5000]]]])
    """
    if not torch.jit.is_scripting():
        return _eager.pool(
            _operators.ROI_ALIGN_MAX, input, boxes, output_size, spatial_scale, sampling_ratio,
            aligned, products, num_threads,
        )  # fmt: skip
    return torch.ops.roicy.roi_align_max(
        input, rows_of(boxes, input.size(0)), _pair(output_size), scales_of(spatial_scale),
        sampling_ratio, aligned, products, num_threads,
    )  # fmt: skip


@torch.fx.wrap
@_docs.function("RoIAlignRotated", describes_parameters=False)
def roi_align_rotated(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: float = 1.0,
    sampling_ratio: int = -1, aligned: bool = True, clockwise: bool = False,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """
    Mean of bilinear samples in each bin of each rotated box.

    Gradients flow to the input and to the five numbers of each box.

    Parameters
    ----------
    input, output_size, num_threads
        As of :func:`roi_align`.
    boxes : Tensor[K, 6] or list of N Tensor[L, 5], floating point or integers
        Rows [batch_index, cx, cy, w, h, angle], or [cx, cy, w, h, angle] for each image: centres
        and sizes in pixels of the input divided by `spatial_scale`, angles in radians,
        counter-clockwise as one looks at the image.
    spatial_scale : float, optional
        Multiplies centres and sizes.
    sampling_ratio : int, or whole float, optional
        Samples per bin and axis; if 0 or negative, as many as the bin has pixels, rounded up.
    aligned : bool, optional
        Whether pixel i covers [i, i + 1); else boxes are at least 1 pixel wide and high.
    clockwise : bool, optional
        Whether angles are clockwise as one looks at the image.

    {sections}

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
    if not torch.jit.is_scripting():
        return _eager.pool(
            _operators.ROI_ALIGN_ROTATED, input, boxes, output_size, spatial_scale, sampling_ratio,
            aligned, clockwise, num_threads,
        )  # fmt: skip
    return torch.ops.roicy.roi_align_rotated(
        input, rows_of(boxes, input.size(0), 5), _pair(output_size), scales_of(spatial_scale),
        sampling_ratio, aligned, clockwise, num_threads,
    )  # fmt: skip


@torch.fx.wrap
@_docs.function("PSRoIAlign", by_bin=True)
def ps_roi_align(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    sampling_ratio: int = -1, num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """
    Mean of bilinear samples, where each bin reads channels of its own.

    Gradients flow to the input and to the boxes.  Pixel i always covers [i, i + 1).

    {sections}

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> channels = torch.arange(4.0).reshape(1, 4, 1, 1).expand(1, 4, 6, 6)
    >>> roicy.torch.ps_roi_align(channels, torch.tensor([[0, 1.0, 1, 5, 5]]), 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    if not torch.jit.is_scripting():
        return _eager.pool(
            _operators.PS_ROI_ALIGN, input, boxes, output_size, spatial_scale, sampling_ratio,
            num_threads,
        )  # fmt: skip
    return torch.ops.roicy.ps_roi_align(
        input, rows_of(boxes, input.size(0)), _pair(output_size), scales_of(spatial_scale),
        sampling_ratio, num_threads,
    )  # fmt: skip


@torch.fx.wrap
@_docs.function("PrRoIPool")
def prroi_pool(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """
    Exact mean of the bilinear surface over each bin of each box.

    Gradients flow to the input and to the boxes.

    {sections}

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
        return _eager.pool(
            _operators.PRROI_POOL, input, boxes, output_size, spatial_scale, num_threads
        )
    return torch.ops.roicy.prroi_pool(
        input, rows_of(boxes, input.size(0)), _pair(output_size), scales_of(spatial_scale),
        num_threads,
    )  # fmt: skip


@torch.fx.wrap
@_docs.function("PSPrRoIPool", by_bin=True)
def ps_prroi_pool(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """
    Exact mean of the bilinear surface, where each bin reads channels of its own.

    Gradients flow to the input and to the boxes.

    {sections}

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> channels = torch.arange(4.0).reshape(1, 4, 1, 1).expand(1, 4, 6, 6)
    >>> roicy.torch.ps_prroi_pool(channels, torch.tensor([[0, 1.0, 1, 5, 5]]), 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    if not torch.jit.is_scripting():
        return _eager.pool(
            _operators.PS_PRROI_POOL, input, boxes, output_size, spatial_scale, num_threads
        )
    return torch.ops.roicy.ps_prroi_pool(
        input, rows_of(boxes, input.size(0)), _pair(output_size), scales_of(spatial_scale),
        num_threads,
    )  # fmt: skip


@torch.fx.wrap
@_docs.function("RoIPool")
def roi_pool(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """
    Largest pixel of each bin of each box.

    Gradients flow to the input.  Boxes have none, since their corners are rounded.

    {sections}

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
        return _eager.pool(
            _operators.ROI_POOL, input, boxes, output_size, spatial_scale, num_threads
        )
    return torch.ops.roicy.roi_pool(
        input, rows_of(boxes, input.size(0)), _pair(output_size), scales_of(spatial_scale),
        num_threads,
    )  # fmt: skip


@torch.fx.wrap
@_docs.function("PSRoIPool", by_bin=True)
def ps_roi_pool(
    input: Tensor, boxes: Boxes, output_size: BroadcastingList2[int], spatial_scale: Scale = 1.0,
    num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """
    Mean of whole pixels, where each bin reads channels of its own.

    Gradients flow to the input.  Boxes have none, since their corners are rounded.

    {sections}

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> channels = torch.arange(4.0).reshape(1, 4, 1, 1).expand(1, 4, 6, 6)
    >>> roicy.torch.ps_roi_pool(channels, torch.tensor([[0, 1.0, 1, 5, 5]]), 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    if not torch.jit.is_scripting():
        return _eager.pool(
            _operators.PS_ROI_POOL, input, boxes, output_size, spatial_scale, num_threads
        )
    return torch.ops.roicy.ps_roi_pool(
        input, rows_of(boxes, input.size(0)), _pair(output_size), scales_of(spatial_scale),
        num_threads,
    )  # fmt: skip


@torch.fx.wrap
def multiscale_roi_align(
    features: List[Tensor], boxes: Boxes, output_size: BroadcastingList2[int],
    spatial_scale: Scales, sampling_ratio: int = -1, aligned: bool = False,
    canonical_scale: float = 224.0, canonical_level: int = 4, num_threads: Optional[int] = None,
) -> Tensor:  # fmt: skip
    """
    :func:`roi_align` of each box from the level of a feature pyramid that suits its size.

    Gradients flow to the maps of all levels, and to the boxes.

    Parameters
    ----------
    features : list of Tensor[N, C, H_l, W_l]
        Feature maps of each level, from fine to coarse, of one type: those of :func:`roi_align`.
    boxes, output_size, sampling_ratio, aligned, num_threads
        As of :func:`roi_align`.
    spatial_scale : list of floats, or of (float, float)
        What coordinates are multiplied by, for each level; two are (vertical, horizontal), which
        TorchScript takes for all levels or for none.
    canonical_scale, canonical_level : float, int, optional
        A box as large as a square of side `canonical_scale`, in pixels of the image, is pooled
        from level `canonical_level`, the map of scale 2**-canonical_level.

    Returns
    -------
    Tensor[K, C, height, width]
        In the order of the boxes, of the features' type, but float32 of integers.

    Raises
    ------
    TypeError, ValueError
        As :func:`roicy.multiscale_roi_align`.
    AssertionError, NotImplementedError
        As :func:`roi_align`.

    See Also
    --------
    roicy.multiscale_roi_align : the operator on arrays, with the formula of the level
    MultiScaleRoIAlign : this function as a module, which takes the scales from the image's size

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> levels = [torch.full((1, 1, 64, 64), 1.0), torch.full((1, 1, 32, 32), 2.0)]
    >>> boxes = [torch.tensor([[0.0, 0, 200, 200], [10, 10, 60, 60]])]
    >>> roicy.torch.multiscale_roi_align(levels, boxes, 1, [1 / 4, 1 / 8], sampling_ratio=2).ravel()
    tensor([2., 1.])
    """
    if not torch.jit.is_scripting():
        return _eager.pool(
            _operators.MULTISCALE_ROI_ALIGN, features, boxes, output_size, spatial_scale,
            sampling_ratio, aligned, canonical_scale, canonical_level, num_threads,
        )  # fmt: skip
    return torch.ops.roicy.multiscale_roi_align(
        features, rows_of(boxes, features[0].size(0)), _pair(output_size),
        scales_of_levels(spatial_scale, len(features)), sampling_ratio, aligned, canonical_scale,
        canonical_level, num_threads,
    )  # fmt: skip
