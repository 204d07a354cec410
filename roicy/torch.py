"""
The operators on PyTorch's CPU tensors: memory is shared, not copied, and gradients flow to the input and to the boxes.

They are registered with ``torch.library`` as ``torch.ops.roicy.*``, so that autograd, ``torch.compile``, ``torch.export`` and
TorchScript know them.  The names and parameters are those of ``torchvision.ops``, and :func:`patch_torchvision` has torchvision's
models run on them.

Unlike in torchvision, boxes that require a gradient get one (not of `roi_pool` and `ps_roi_pool`, which have none).
Wrong values are errors of roicy, wrong shapes of boxes AssertionErrors, as there.
"""

# torch.jit.script reads annotations: they are not postponed here, and are spelled as it knows them

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, List, Union  # noqa: UP035

import numpy as np
import torch
from torch import Tensor, nn
from torch.jit.annotations import BroadcastingList2
from torch.nn.modules.utils import _pair

from . import operators

__all__ = [
    "PSRoIAlign",
    "PSRoIPool",
    "PrRoIPool",
    "RoIAlign",
    "RoIPool",
    "patch_torchvision",
    "prroi_pool",
    "ps_roi_align",
    "ps_roi_pool",
    "roi_align",
    "roi_pool",
]


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def _register(name: str, schema: str, position_sensitive: bool = False, gradient_of_boxes: bool = True) -> None:
    """
    Register an operator that is a weighted sum, and its gradients, as torch.ops.roicy.<name>, <name>_backward and <name>_backward_boxes.

    `schema` declares its parameters after input, boxes and size.
    """
    forward, backward = getattr(operators, name), getattr(operators, name + "_backward")

    @torch.library.custom_op(
        f"roicy::{name}", mutates_args=(), device_types="cpu", schema=f"(Tensor input, Tensor boxes, SymInt[] output_size, {schema}) -> Tensor"
    )
    def pool(input: Tensor, boxes: Tensor, output_size: list[int], *parameters: Any) -> Tensor:
        return torch.from_numpy(forward(_array(input), _array(boxes), tuple(output_size), *parameters))

    @pool.register_fake
    def _(input: Tensor, boxes: Tensor, output_size: list[int], *parameters: Any) -> Tensor:
        channels = input.shape[1] // (output_size[0] * output_size[1]) if position_sensitive else input.shape[1]
        return input.new_empty((boxes.shape[0], channels, output_size[0], output_size[1]))

    @torch.library.custom_op(
        f"roicy::{name}_backward",
        mutates_args=(),
        device_types="cpu",
        schema=f"(Tensor grad_output, Tensor boxes, SymInt[] input_shape, {schema}) -> Tensor",
    )
    def pool_backward(grad_output: Tensor, boxes: Tensor, input_shape: list[int], *parameters: Any) -> Tensor:
        return torch.from_numpy(backward(_array(grad_output), _array(boxes), tuple(input_shape), *parameters))

    @pool_backward.register_fake
    def _(grad_output: Tensor, boxes: Tensor, input_shape: list[int], *parameters: Any) -> Tensor:
        return grad_output.new_empty(input_shape)

    if gradient_of_boxes:
        backward_boxes = getattr(operators, name + "_backward_boxes")

        @torch.library.custom_op(
            f"roicy::{name}_backward_boxes",
            mutates_args=(),
            device_types="cpu",
            schema=f"(Tensor grad_output, Tensor input, Tensor boxes, {schema}) -> Tensor",
        )
        def pool_backward_boxes(grad_output: Tensor, input: Tensor, boxes: Tensor, *parameters: Any) -> Tensor:
            return torch.from_numpy(backward_boxes(_array(grad_output), _array(input), _array(boxes), *parameters)).to(boxes.dtype)

        @pool_backward_boxes.register_fake
        def _(grad_output: Tensor, input: Tensor, boxes: Tensor, *parameters: Any) -> Tensor:
            return torch.empty_like(boxes, memory_format=torch.contiguous_format)

    def remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        input, boxes, _, *ctx.parameters = inputs
        ctx.input_shape = input.shape
        ctx.save_for_backward(boxes, input if gradient_of_boxes and ctx.needs_input_grad[1] else None)

    def differentiate(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        boxes, input = ctx.saved_tensors
        grads: list[Any] = [None] * (3 + len(ctx.parameters))
        if ctx.needs_input_grad[0]:
            grads[0] = pool_backward(grad_output, boxes, ctx.input_shape, *ctx.parameters)
        if input is not None:
            grads[1] = pool_backward_boxes(grad_output, input, boxes, *ctx.parameters)
        return tuple(grads)

    pool.register_autograd(differentiate, setup_context=remember)


_register("roi_align", "float spatial_scale, int sampling_ratio, bool aligned")
_register("ps_roi_align", "float spatial_scale, int sampling_ratio", position_sensitive=True)
_register("prroi_pool", "float spatial_scale")
_register("ps_roi_pool", "float spatial_scale", position_sensitive=True, gradient_of_boxes=False)


@torch.library.custom_op(
    "roicy::roi_pool", mutates_args=(), device_types="cpu", schema="(Tensor input, Tensor boxes, SymInt[] output_size, float spatial_scale) -> (Tensor, Tensor)"
)
def _roi_pool(input: Tensor, boxes: Tensor, output_size: list[int], spatial_scale: float) -> tuple[Tensor, Tensor]:
    pooled, argmax = operators.roi_pool(_array(input), _array(boxes), tuple(output_size), spatial_scale, return_argmax=True)
    return torch.from_numpy(pooled), torch.from_numpy(argmax)


@_roi_pool.register_fake
def _(input: Tensor, boxes: Tensor, output_size: list[int], spatial_scale: float) -> tuple[Tensor, Tensor]:
    shape = (boxes.shape[0], input.shape[1], output_size[0], output_size[1])
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int32)


@torch.library.custom_op(
    "roicy::roi_pool_backward", mutates_args=(), device_types="cpu", schema="(Tensor grad_output, Tensor argmax, Tensor boxes, SymInt[] input_shape) -> Tensor"
)
def _roi_pool_backward(grad_output: Tensor, argmax: Tensor, boxes: Tensor, input_shape: list[int]) -> Tensor:
    return torch.from_numpy(operators.roi_pool_backward(_array(grad_output), _array(argmax), _array(boxes), tuple(input_shape)))


@_roi_pool_backward.register_fake
def _(grad_output: Tensor, argmax: Tensor, boxes: Tensor, input_shape: list[int]) -> Tensor:
    return grad_output.new_empty(input_shape)


def _remember_argmax(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.input_shape = inputs[0].shape
    ctx.save_for_backward(inputs[1], output[1])
    ctx.mark_non_differentiable(output[1])


def _differentiate_pool(ctx: Any, grad_output: Tensor, _: Any) -> tuple[Any, ...]:
    boxes, argmax = ctx.saved_tensors
    return _roi_pool_backward(grad_output, argmax, boxes, ctx.input_shape), None, None, None


_roi_pool.register_autograd(_differentiate_pool, setup_context=_remember_argmax)


def _rows(boxes: Union[Tensor, List[Tensor]]) -> Tensor:  # noqa: UP006, UP007
    """Return boxes of either format as (K, 5)."""
    if isinstance(boxes, Tensor):
        torch._assert(boxes.dim() == 2 and boxes.size(-1) == 5, "boxes: expected a Tensor[K, 5] with rows [batch_index, x1, y1, x2, y2]")
        return boxes
    rows = []
    for n, part in enumerate(boxes):
        torch._assert(part.dim() == 2 and part.size(-1) == 4, "boxes: expected a List[Tensor[L, 4]] with rows [x1, y1, x2, y2]")
        rows.append(torch.cat([torch.full_like(part[:, :1], n), part], dim=1))
    torch._assert(len(rows) > 0, "boxes: an empty list, expected a Tensor[L, 4] for each image")
    return torch.cat(rows, dim=0)


@torch.fx.wrap
def roi_align(
    input: Tensor,
    boxes: Union[Tensor, List[Tensor]],  # noqa: UP006, UP007
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """
    Mean of bilinear samples in each bin of each box; see :func:`roicy.roi_align`.

    Parameters
    ----------
    input : Tensor[N, C, H, W], float32 or float64
        Feature maps on the CPU, contiguous, channels_last or of any other strides.
    boxes : Tensor[K, 5] or list of N Tensor[L, 4]
        Rows [batch_index, x1, y1, x2, y2], or [x1, y1, x2, y2] for each image.
    output_size : int or (int, int)
        Bins of a box, (height, width).
    spatial_scale : float, optional
        Multiplies the coordinates of the boxes.
    sampling_ratio : int, optional
        Samples per bin and axis; if 0 or negative, as many as the bin has pixels, rounded up.
    aligned : bool, optional
        Whether pixel i covers [i, i + 1), rather than lie at i.

    Returns
    -------
    Tensor[K, C, height, width]

    Raises
    ------
    TypeError, ValueError
        As :func:`roicy.roi_align`.
    AssertionError
        If boxes have another shape.

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
    return torch.ops.roicy.roi_align(input, _rows(boxes), _pair(output_size), spatial_scale, sampling_ratio, aligned)


@torch.fx.wrap
def ps_roi_align(
    input: Tensor,
    boxes: Union[Tensor, List[Tensor]],  # noqa: UP006, UP007
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> Tensor:
    """
    Mean of bilinear samples, where each bin reads channels of its own; see :func:`roicy.ps_roi_align`, and :func:`roi_align` here.

    Returns
    -------
    Tensor[K, C / (height * width), height, width]
    """
    return torch.ops.roicy.ps_roi_align(input, _rows(boxes), _pair(output_size), spatial_scale, sampling_ratio)


@torch.fx.wrap
def prroi_pool(
    input: Tensor,
    boxes: Union[Tensor, List[Tensor]],  # noqa: UP006, UP007
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """
    Exact mean of the bilinear surface over each bin; see :func:`roicy.prroi_pool`, and :func:`roi_align` here.

    Returns
    -------
    Tensor[K, C, height, width]
    """
    return torch.ops.roicy.prroi_pool(input, _rows(boxes), _pair(output_size), spatial_scale)


@torch.fx.wrap
def roi_pool(
    input: Tensor,
    boxes: Union[Tensor, List[Tensor]],  # noqa: UP006, UP007
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """
    Largest pixel in each bin; see :func:`roicy.roi_pool`, and :func:`roi_align` here.

    Returns
    -------
    Tensor[K, C, height, width]
    """
    return torch.ops.roicy.roi_pool(input, _rows(boxes), _pair(output_size), spatial_scale)[0]


@torch.fx.wrap
def ps_roi_pool(
    input: Tensor,
    boxes: Union[Tensor, List[Tensor]],  # noqa: UP006, UP007
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """
    Mean of whole pixels, where each bin reads channels of its own; see :func:`roicy.ps_roi_pool`, and :func:`roi_align` here.

    Returns
    -------
    Tensor[K, C / (height * width), height, width]
    """
    return torch.ops.roicy.ps_roi_pool(input, _rows(boxes), _pair(output_size), spatial_scale)


class _Pool(nn.Module):
    """What the modules have in common: an operator with the size of its output and the scale of its boxes."""

    def __init__(self, output_size: BroadcastingList2[int], spatial_scale: float = 1.0):
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale

    def extra_repr(self) -> str:
        """Return the parameters, for repr()."""
        names = ("output_size", "spatial_scale", "sampling_ratio", "aligned")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names if hasattr(self, name))


class RoIPool(_Pool):
    """:func:`roi_pool` as a module."""

    def forward(self, input: Tensor, boxes: Union[Tensor, List[Tensor]]) -> Tensor:  # noqa: UP006, UP007
        """Pool."""
        return roi_pool(input, boxes, self.output_size, self.spatial_scale)


class PSRoIPool(_Pool):
    """:func:`ps_roi_pool` as a module."""

    def forward(self, input: Tensor, boxes: Union[Tensor, List[Tensor]]) -> Tensor:  # noqa: UP006, UP007
        """Pool."""
        return ps_roi_pool(input, boxes, self.output_size, self.spatial_scale)


class PrRoIPool(_Pool):
    """:func:`prroi_pool` as a module."""

    def forward(self, input: Tensor, boxes: Union[Tensor, List[Tensor]]) -> Tensor:  # noqa: UP006, UP007
        """Pool."""
        return prroi_pool(input, boxes, self.output_size, self.spatial_scale)


class RoIAlign(_Pool):
    """:func:`roi_align` as a module."""

    def __init__(self, output_size: BroadcastingList2[int], spatial_scale: float, sampling_ratio: int, aligned: bool = False):
        super().__init__(output_size, spatial_scale)
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned

    def forward(self, input: Tensor, boxes: Union[Tensor, List[Tensor]]) -> Tensor:  # noqa: UP006, UP007
        """Pool."""
        return roi_align(input, boxes, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)


class PSRoIAlign(_Pool):
    """:func:`ps_roi_align` as a module."""

    def __init__(self, output_size: BroadcastingList2[int], spatial_scale: float, sampling_ratio: int):
        super().__init__(output_size, spatial_scale)
        self.sampling_ratio = sampling_ratio

    def forward(self, input: Tensor, boxes: Union[Tensor, List[Tensor]]) -> Tensor:  # noqa: UP006, UP007
        """Pool."""
        return ps_roi_align(input, boxes, self.output_size, self.spatial_scale, self.sampling_ratio)


def _torchvision_kernels() -> dict[str, Callable[..., Any]]:
    """What torchvision's dispatcher calls on the CPU, computed by roicy."""

    def channel_mapping(input: Tensor, pooled: np.ndarray) -> Tensor:
        """Return the input channel of each output, which torchvision keeps for its gradient."""
        k, *rest = pooled.shape
        return torch.arange(input.shape[1], dtype=torch.int32).reshape(rest).expand(k, *rest).contiguous()

    def align(input, rois, scale, height, width, ratio, aligned):
        return torch.from_numpy(operators.roi_align(_array(input), _array(rois), (height, width), scale, ratio, aligned))

    def align_backward(grad, rois, scale, height, width, n, c, h, w, ratio, aligned):
        return torch.from_numpy(operators.roi_align_backward(_array(grad), _array(rois), (n, c, h, w), scale, ratio, aligned))

    def ps_align(input, rois, scale, height, width, ratio):
        pooled = operators.ps_roi_align(_array(input), _array(rois), (height, width), scale, ratio)
        return torch.from_numpy(pooled), channel_mapping(input, pooled)

    def ps_align_backward(grad, rois, mapping, scale, height, width, ratio, n, c, h, w):
        return torch.from_numpy(operators.ps_roi_align_backward(_array(grad), _array(rois), (n, c, h, w), scale, ratio))

    def pool(input, rois, scale, height, width):
        pooled, argmax = operators.roi_pool(_array(input), _array(rois), (height, width), scale, return_argmax=True)
        return torch.from_numpy(pooled), torch.from_numpy(argmax)

    def pool_backward(grad, rois, argmax, scale, height, width, n, c, h, w):
        return torch.from_numpy(operators.roi_pool_backward(_array(grad), _array(argmax), _array(rois), (n, c, h, w)))

    def ps_pool(input, rois, scale, height, width):
        pooled = operators.ps_roi_pool(_array(input), _array(rois), (height, width), scale)
        return torch.from_numpy(pooled), channel_mapping(input, pooled)

    def ps_pool_backward(grad, rois, mapping, scale, height, width, n, c, h, w):
        return torch.from_numpy(operators.ps_roi_pool_backward(_array(grad), _array(rois), (n, c, h, w), scale))

    return {
        "roi_align": align,
        "_roi_align_backward": align_backward,
        "ps_roi_align": ps_align,
        "_ps_roi_align_backward": ps_align_backward,
        "roi_pool": pool,
        "_roi_pool_backward": pool_backward,
        "ps_roi_pool": ps_pool,
        "_ps_roi_pool_backward": ps_pool_backward,
    }


@contextlib.contextmanager
def patch_torchvision() -> Iterator[None]:
    """
    Have torchvision's operators of regions, and the models that use them, computed by roicy on the CPU.

    The kernels are exchanged where PyTorch dispatches to them, for the whole process and until the context ends: every way to
    call them is caught, TorchScript's too.

    Examples
    --------
    ::

        model = torchvision.models.detection.maskrcnn_resnet50_fpn().eval()
        with roicy.torch.patch_torchvision():
            detections = model(images)
    """
    import torchvision  # noqa: F401  its operators must be there

    library = torch.library.Library("torchvision", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Warning only once for all operators")  # that there are kernels already
            for name, kernel in _torchvision_kernels().items():
                library.impl(name, kernel, "CPU", allow_override=True)
        yield
    finally:
        library._destroy()
