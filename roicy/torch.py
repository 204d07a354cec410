"""
The operators on PyTorch's CPU tensors: memory is shared, not copied, and gradients flow to the
input and to the boxes.

They are registered with ``torch.library`` as ``torch.ops.roicy.*``, so that autograd,
``torch.compile``, ``torch.export`` and TorchScript know them.  The names and parameters are
those of ``torchvision.ops``, and :func:`patch_torchvision` has torchvision's models run on
them.

Unlike in torchvision, boxes that require a gradient get one (not of `roi_pool` and
`ps_roi_pool`, which have none). Wrong values are errors of roicy, wrong shapes of boxes
AssertionErrors, as there.
"""

# torch.jit.script reads annotations: they are not postponed here, and are spelled as it knows them

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
import torch
from torch import Tensor, nn
from torch.jit.annotations import BroadcastingList2
from torch.nn.modules.utils import _pair

from . import multiscale, operators

__all__ = [
    "MultiScaleRoIAlign",
    "PSRoIAlign",
    "PSRoIPool",
    "PrRoIPool",
    "RoIAlign",
    "RoIPool",
    "multiscale_roi_align",
    "patch_torchvision",
    "prroi_pool",
    "ps_roi_align",
    "ps_roi_pool",
    "roi_align",
    "roi_pool",
]


# Maps of these types are read as they are; everything else of these types is small.
HALVES = (torch.float16, torch.bfloat16)


def _array(tensor: Tensor) -> np.ndarray:
    """Return an array of the same memory."""
    tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _tensor(array: np.ndarray) -> Tensor:
    """Return a tensor of the same memory."""
    if array.dtype.char == "E":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _pooled_type(maps: Tensor) -> torch.dtype:
    return torch.float32 if maps.dtype is torch.uint8 else maps.dtype


def _gradient(tensor: Tensor) -> np.ndarray:
    """Return a gradient as an array of a type that gradients are computed in."""
    return _array(tensor.float() if tensor.dtype in HALVES else tensor)


def _register(
    name: str, schema: str, position_sensitive: bool = False, gradient_of_boxes: bool = True
) -> None:
    """
    Register an operator that is a weighted sum, and its gradients, as torch.ops.roicy.<name>,
    <name>_backward and <name>_backward_boxes.

    `schema` declares its parameters after input, boxes and size.
    """
    forward, backward = getattr(operators, name), getattr(operators, name + "_backward")

    @torch.library.custom_op(
        f"roicy::{name}",
        mutates_args=(),
        device_types="cpu",
        schema=f"(Tensor input, Tensor boxes, SymInt[] output_size, {schema}) -> Tensor",
    )
    def pool(input: Tensor, boxes: Tensor, output_size: list[int], *parameters: Any) -> Tensor:
        return _tensor(forward(_array(input), _array(boxes), tuple(output_size), *parameters))

    @pool.register_fake
    def _(input: Tensor, boxes: Tensor, output_size: list[int], *parameters: Any) -> Tensor:
        channels = (
            input.shape[1] // (output_size[0] * output_size[1])
            if position_sensitive
            else input.shape[1]
        )
        return input.new_empty(
            (boxes.shape[0], channels, output_size[0], output_size[1]), dtype=_pooled_type(input)
        )

    @torch.library.custom_op(
        f"roicy::{name}_backward",
        mutates_args=(),
        device_types="cpu",
        schema=f"(Tensor grad_output, Tensor boxes, SymInt[] input_shape, {schema}) -> Tensor",
    )
    def pool_backward(
        grad_output: Tensor, boxes: Tensor, input_shape: list[int], *parameters: Any
    ) -> Tensor:
        return torch.from_numpy(
            backward(_gradient(grad_output), _array(boxes), tuple(input_shape), *parameters)
        ).to(grad_output.dtype)

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
        def pool_backward_boxes(
            grad_output: Tensor, input: Tensor, boxes: Tensor, *parameters: Any
        ) -> Tensor:
            return torch.from_numpy(
                backward_boxes(_gradient(grad_output), _array(input), _array(boxes), *parameters)
            ).to(boxes.dtype)

        @pool_backward_boxes.register_fake
        def _(grad_output: Tensor, input: Tensor, boxes: Tensor, *parameters: Any) -> Tensor:
            return torch.empty_like(boxes, memory_format=torch.contiguous_format)

    def remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        input, boxes, _, *ctx.parameters = inputs
        ctx.input_shape = input.shape
        ctx.save_for_backward(
            boxes, input if gradient_of_boxes and ctx.needs_input_grad[1] else None
        )

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
    "roicy::roi_pool",
    mutates_args=(),
    device_types="cpu",
    schema=(
        "(Tensor input, Tensor boxes, SymInt[] output_size, float spatial_scale) "
        "-> (Tensor, Tensor)"
    ),
)
def _roi_pool(
    input: Tensor, boxes: Tensor, output_size: list[int], spatial_scale: float
) -> tuple[Tensor, Tensor]:
    pooled, argmax = operators.roi_pool(
        _array(input), _array(boxes), tuple(output_size), spatial_scale, return_argmax=True
    )
    return _tensor(pooled), torch.from_numpy(argmax)


@_roi_pool.register_fake
def _(
    input: Tensor, boxes: Tensor, output_size: list[int], spatial_scale: float
) -> tuple[Tensor, Tensor]:
    shape = (boxes.shape[0], input.shape[1], output_size[0], output_size[1])
    return input.new_empty(shape, dtype=_pooled_type(input)), input.new_empty(
        shape, dtype=torch.int32
    )


@torch.library.custom_op(
    "roicy::roi_pool_backward",
    mutates_args=(),
    device_types="cpu",
    schema="(Tensor grad_output, Tensor argmax, Tensor boxes, SymInt[] input_shape) -> Tensor",
)
def _roi_pool_backward(
    grad_output: Tensor, argmax: Tensor, boxes: Tensor, input_shape: list[int]
) -> Tensor:
    return torch.from_numpy(
        operators.roi_pool_backward(
            _gradient(grad_output), _array(argmax), _array(boxes), tuple(input_shape)
        )
    ).to(grad_output.dtype)


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


_PYRAMID = (
    "float[] scales, int sampling_ratio, bool aligned, float canonical_scale, int canonical_level"
)


@torch.library.custom_op(
    "roicy::multiscale_roi_align",
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor[] features, Tensor boxes, SymInt[] output_size, {_PYRAMID}) -> Tensor",
)
def _multiscale_roi_align(
    features: list[Tensor], boxes: Tensor, output_size: list[int], *parameters: Any
) -> Tensor:
    arrays = [_array(level) for level in features]
    return _tensor(
        multiscale.multiscale_roi_align(
            arrays, _array(boxes), tuple(output_size), **_pyramid(*parameters)
        )
    )


def _pyramid(
    scales: list[float],
    sampling_ratio: int,
    aligned: bool,
    canonical_scale: float,
    canonical_level: int,
) -> dict[str, Any]:
    return {
        "spatial_scale": scales,
        "sampling_ratio": sampling_ratio,
        "aligned": aligned,
        "canonical_scale": canonical_scale,
        "canonical_level": canonical_level,
    }


@_multiscale_roi_align.register_fake
def _(features: list[Tensor], boxes: Tensor, output_size: list[int], *parameters: Any) -> Tensor:
    return features[0].new_empty(
        (boxes.shape[0], features[0].shape[1], output_size[0], output_size[1]),
        dtype=_pooled_type(features[0]),
    )


@torch.library.custom_op(
    "roicy::multiscale_roi_align_backward",
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor grad_output, Tensor boxes, SymInt[] input_shapes, {_PYRAMID}) -> Tensor[]",
)
def _multiscale_backward(
    grad_output: Tensor, boxes: Tensor, input_shapes: list[int], *parameters: Any
) -> list[Tensor]:
    # operators know no lists of lists
    shapes = [tuple(input_shapes[i : i + 4]) for i in range(0, len(input_shapes), 4)]
    grads = multiscale.multiscale_roi_align_backward(
        _gradient(grad_output), _array(boxes), shapes, **_pyramid(*parameters)
    )
    return [torch.from_numpy(grad).to(grad_output.dtype) for grad in grads]


@_multiscale_backward.register_fake
def _(
    grad_output: Tensor, boxes: Tensor, input_shapes: list[int], *parameters: Any
) -> list[Tensor]:
    return [grad_output.new_empty(input_shapes[i : i + 4]) for i in range(0, len(input_shapes), 4)]


@torch.library.custom_op(
    "roicy::multiscale_roi_align_backward_boxes",
    mutates_args=(),
    device_types="cpu",
    schema=f"(Tensor grad_output, Tensor[] features, Tensor boxes, {_PYRAMID}) -> Tensor",
)
def _multiscale_backward_boxes(
    grad_output: Tensor, features: list[Tensor], boxes: Tensor, *parameters: Any
) -> Tensor:
    arrays = [_array(level) for level in features]
    grad = multiscale.multiscale_roi_align_backward_boxes(
        _gradient(grad_output), arrays, _array(boxes), **_pyramid(*parameters)
    )
    return torch.from_numpy(grad).to(boxes.dtype)


@_multiscale_backward_boxes.register_fake
def _(grad_output: Tensor, features: list[Tensor], boxes: Tensor, *parameters: Any) -> Tensor:
    return torch.empty_like(boxes, memory_format=torch.contiguous_format)


def _remember_pyramid(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    features, boxes, _, *ctx.parameters = inputs
    ctx.input_shapes = [extent for level in features for extent in level.shape]
    ctx.levels = len(features)
    ctx.save_for_backward(boxes, *(features if ctx.needs_input_grad[1] else ()))


def _differentiate_pyramid(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
    boxes, *features = ctx.saved_tensors
    grads, grad_boxes = [None] * ctx.levels, None
    if any(ctx.needs_input_grad[0]):
        grads = _multiscale_backward(grad_output, boxes, ctx.input_shapes, *ctx.parameters)
    if features:
        grad_boxes = _multiscale_backward_boxes(grad_output, features, boxes, *ctx.parameters)
    return (grads, grad_boxes, None, *[None] * len(ctx.parameters))


_multiscale_roi_align.register_autograd(_differentiate_pyramid, setup_context=_remember_pyramid)


def _rows(boxes: Union[Tensor, List[Tensor]]) -> Tensor:
    """Return boxes of either format as (K, 5)."""
    if isinstance(boxes, Tensor):
        torch._assert(
            boxes.dim() == 2 and boxes.size(-1) == 5,
            "boxes: expected a Tensor[K, 5] with rows [batch_index, x1, y1, x2, y2]",
        )
        return boxes
    rows = []
    for n, part in enumerate(boxes):
        torch._assert(
            part.dim() == 2 and part.size(-1) == 4,
            "boxes: expected a List[Tensor[L, 4]] with rows [x1, y1, x2, y2]",
        )
        rows.append(torch.cat([torch.full_like(part[:, :1], n), part], dim=1))
    torch._assert(len(rows) > 0, "boxes: an empty list, expected a Tensor[L, 4] for each image")
    return torch.cat(rows, dim=0)


@torch.fx.wrap
def roi_align(
    input: Tensor,
    boxes: Union[Tensor, List[Tensor]],
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """
    Mean of bilinear samples in each bin of each box; see :func:`roicy.roi_align`.

    Parameters
    ----------
    input : Tensor[N, C, H, W], float32, float64, float16, bfloat16 or uint8
        Feature maps on the CPU, contiguous, channels_last or of any other strides.  Of the last
        three types everything is computed in float32; the result is of the input's type, but
        float32 of uint8.
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
    return torch.ops.roicy.roi_align(
        input, _rows(boxes), _pair(output_size), spatial_scale, sampling_ratio, aligned
    )


@torch.fx.wrap
def ps_roi_align(
    input: Tensor,
    boxes: Union[Tensor, List[Tensor]],
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> Tensor:
    """
    Mean of bilinear samples, where each bin reads channels of its own; see
    :func:`roicy.ps_roi_align`, and :func:`roi_align` here.

    Returns
    -------
    Tensor[K, C / (height * width), height, width]
    """
    return torch.ops.roicy.ps_roi_align(
        input, _rows(boxes), _pair(output_size), spatial_scale, sampling_ratio
    )


@torch.fx.wrap
def prroi_pool(
    input: Tensor,
    boxes: Union[Tensor, List[Tensor]],
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """
    Exact mean of the bilinear surface over each bin; see :func:`roicy.prroi_pool`, and
    :func:`roi_align` here.

    Returns
    -------
    Tensor[K, C, height, width]
    """
    return torch.ops.roicy.prroi_pool(input, _rows(boxes), _pair(output_size), spatial_scale)


@torch.fx.wrap
def roi_pool(
    input: Tensor,
    boxes: Union[Tensor, List[Tensor]],
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
    boxes: Union[Tensor, List[Tensor]],
    output_size: BroadcastingList2[int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """
    Mean of whole pixels, where each bin reads channels of its own; see
    :func:`roicy.ps_roi_pool`, and :func:`roi_align` here.

    Returns
    -------
    Tensor[K, C / (height * width), height, width]
    """
    return torch.ops.roicy.ps_roi_pool(input, _rows(boxes), _pair(output_size), spatial_scale)


@torch.fx.wrap
def multiscale_roi_align(
    features: List[Tensor],
    boxes: Union[Tensor, List[Tensor]],
    output_size: BroadcastingList2[int],
    spatial_scale: List[float],
    sampling_ratio: int = -1,
    aligned: bool = False,
    canonical_scale: float = 224.0,
    canonical_level: int = 4,
) -> Tensor:
    """
    :func:`roi_align` of each box from the level of a feature pyramid that suits its size; see
    :func:`roicy.multiscale_roi_align`.

    Returns
    -------
    Tensor[K, C, height, width]
        In the order of the boxes; gradients flow to the maps of all levels, and to the boxes.
    """
    return torch.ops.roicy.multiscale_roi_align(
        features,
        _rows(boxes),
        _pair(output_size),
        spatial_scale,
        sampling_ratio,
        aligned,
        canonical_scale,
        canonical_level,
    )


class _Pool(nn.Module):
    """
    What the modules have in common: an operator with the size of its output and the scale of
    its boxes.
    """

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

    def forward(self, input: Tensor, boxes: Union[Tensor, List[Tensor]]) -> Tensor:
        """Pool."""
        return roi_pool(input, boxes, self.output_size, self.spatial_scale)


class PSRoIPool(_Pool):
    """:func:`ps_roi_pool` as a module."""

    def forward(self, input: Tensor, boxes: Union[Tensor, List[Tensor]]) -> Tensor:
        """Pool."""
        return ps_roi_pool(input, boxes, self.output_size, self.spatial_scale)


class PrRoIPool(_Pool):
    """:func:`prroi_pool` as a module."""

    def forward(self, input: Tensor, boxes: Union[Tensor, List[Tensor]]) -> Tensor:
        """Pool."""
        return prroi_pool(input, boxes, self.output_size, self.spatial_scale)


class RoIAlign(_Pool):
    """:func:`roi_align` as a module."""

    def __init__(
        self,
        output_size: BroadcastingList2[int],
        spatial_scale: float,
        sampling_ratio: int,
        aligned: bool = False,
    ):
        super().__init__(output_size, spatial_scale)
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned

    def forward(self, input: Tensor, boxes: Union[Tensor, List[Tensor]]) -> Tensor:
        """Pool."""
        return roi_align(
            input, boxes, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned
        )


class PSRoIAlign(_Pool):
    """:func:`ps_roi_align` as a module."""

    def __init__(
        self, output_size: BroadcastingList2[int], spatial_scale: float, sampling_ratio: int
    ):
        super().__init__(output_size, spatial_scale)
        self.sampling_ratio = sampling_ratio

    def forward(self, input: Tensor, boxes: Union[Tensor, List[Tensor]]) -> Tensor:
        """Pool."""
        return ps_roi_align(input, boxes, self.output_size, self.spatial_scale, self.sampling_ratio)


class MultiScaleRoIAlign(nn.Module):
    """
    :func:`multiscale_roi_align` as a module, with the parameters of torchvision's.

    Parameters
    ----------
    featmap_names : list of str
        Names of the maps that are used, from fine to coarse.
    output_size : int or (int, int)
        Bins of a box, (height, width).
    sampling_ratio : int
        Samples per bin and axis; if 0 or negative, as many as the bin has pixels, rounded up.
    canonical_scale : float, optional
        Boxes as large as a square of this side are pooled from the level `canonical_level`,
        that of scale 2**-canonical_level.
    canonical_level : int, optional
        See there.

    Examples
    --------
    >>> import torch
    >>> from roicy.torch import MultiScaleRoIAlign
    >>> pooler = MultiScaleRoIAlign(["feat1", "feat3"], 3, 2)
    >>> sides = {"feat1": 64, "feat2": 32, "feat3": 16}
    >>> maps = {name: torch.rand(1, 5, side, side) for name, side in sides.items()}
    >>> boxes = torch.rand(6, 4) * 256
    >>> boxes[:, 2:] += boxes[:, :2]
    >>> pooler(maps, [boxes], [(512, 512)]).shape
    torch.Size([6, 5, 3, 3])
    """

    scales: Optional[List[float]]

    def __init__(
        self,
        featmap_names: List[str],
        output_size: Union[int, Tuple[int, int], List[int]],
        sampling_ratio: int,
        *,
        canonical_scale: float = 224,
        canonical_level: int = 4,
    ):
        super().__init__()
        self.featmap_names = featmap_names
        self.output_size = _pair(output_size)
        self.sampling_ratio = sampling_ratio
        self.canonical_scale = canonical_scale
        self.canonical_level = canonical_level
        self.scales = None  # as those of torchvision's, they are those of the first call

    def forward(
        self, x: Dict[str, Tensor], boxes: List[Tensor], image_shapes: List[Tuple[int, int]]
    ) -> Tensor:
        """
        Pool.

        Parameters
        ----------
        x : dict of Tensor[N, C, H_l, W_l]
            Maps by their names; those of other names are not used.
        boxes : list of N Tensor[L_i, 4]
            Rows [x1, y1, x2, y2] in pixels of the images.
        image_shapes : list of N (int, int)
            Height and width of each image, before they were made into a batch; the scales of
            the maps follow from the largest.

        Returns
        -------
        Tensor[K, C, height, width]
        """
        maps: List[Tensor] = []  # TorchScript has no comprehensions with a condition
        for name, level in x.items():
            if name in self.featmap_names:
                maps.append(level)
        scales = self.scales
        if scales is None:
            height = max([shape[0] for shape in image_shapes])
            scales = [
                2.0 ** round(math.log(level.shape[2] / height) / math.log(2.0)) for level in maps
            ]
            self.scales = scales
        return multiscale_roi_align(
            maps,
            boxes,
            self.output_size,
            scales,
            self.sampling_ratio,
            False,
            float(self.canonical_scale),
            self.canonical_level,
        )

    def __repr__(self) -> str:
        """Return the parameters, as torchvision's does."""
        names = ("featmap_names", "output_size", "sampling_ratio")
        parameters = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"{self.__class__.__name__}({parameters})"


def _torchvision_kernels() -> dict[str, Callable[..., Any]]:
    """What torchvision's dispatcher calls on the CPU, computed by roicy."""

    def channel_mapping(input: Tensor, pooled: np.ndarray) -> Tensor:
        """Return the input channel of each output, which torchvision keeps for its gradient."""
        k, *rest = pooled.shape
        return (
            torch.arange(input.shape[1], dtype=torch.int32)
            .reshape(rest)
            .expand(k, *rest)
            .contiguous()
        )

    def align(input, rois, scale, height, width, ratio, aligned):
        return _tensor(
            operators.roi_align(_array(input), _array(rois), (height, width), scale, ratio, aligned)
        )

    def align_backward(grad, rois, scale, height, width, n, c, h, w, ratio, aligned):
        return torch.from_numpy(
            operators.roi_align_backward(
                _gradient(grad), _array(rois), (n, c, h, w), scale, ratio, aligned
            )
        ).to(grad.dtype)

    def ps_align(input, rois, scale, height, width, ratio):
        pooled = operators.ps_roi_align(_array(input), _array(rois), (height, width), scale, ratio)
        return _tensor(pooled), channel_mapping(input, pooled)

    def ps_align_backward(grad, rois, mapping, scale, height, width, ratio, n, c, h, w):
        return torch.from_numpy(
            operators.ps_roi_align_backward(
                _gradient(grad), _array(rois), (n, c, h, w), scale, ratio
            )
        ).to(grad.dtype)

    def pool(input, rois, scale, height, width):
        pooled, argmax = operators.roi_pool(
            _array(input), _array(rois), (height, width), scale, return_argmax=True
        )
        return _tensor(pooled), torch.from_numpy(argmax)

    def pool_backward(grad, rois, argmax, scale, height, width, n, c, h, w):
        return torch.from_numpy(
            operators.roi_pool_backward(_gradient(grad), _array(argmax), _array(rois), (n, c, h, w))
        ).to(grad.dtype)

    def ps_pool(input, rois, scale, height, width):
        pooled = operators.ps_roi_pool(_array(input), _array(rois), (height, width), scale)
        return _tensor(pooled), channel_mapping(input, pooled)

    def ps_pool_backward(grad, rois, mapping, scale, height, width, n, c, h, w):
        return torch.from_numpy(
            operators.ps_roi_pool_backward(_gradient(grad), _array(rois), (n, c, h, w), scale)
        ).to(grad.dtype)

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
    Have torchvision's operators of regions, and the models that use them, computed by roicy on
    the CPU.

    The kernels are exchanged where PyTorch dispatches to them, for the whole process and until
    the context ends: every way to call them is caught, TorchScript's too.

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
            # that there are kernels already
            warnings.filterwarnings("ignore", message="Warning only once for all operators")
            for name, kernel in _torchvision_kernels().items():
                library.impl(name, kernel, "CPU", allow_override=True)
        yield
    finally:
        library._destroy()
