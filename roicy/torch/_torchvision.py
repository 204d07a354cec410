"""
torchvision's own operators, computed by roicy.

The kernels have the parameters of torchvision's schemas, by which its dispatcher calls them.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import operators
from . import _tensors

Shape = tuple[int, int, int, int]


def _pool(function: Callable[..., Any], input: Tensor, rois: Tensor, *parameters: Any) -> Any:
    rows = _tensors.boxes(rois, input.shape[0])
    return function(_tensors.array(input), rows, *parameters, num_threads=_tensors.threads(None))


def _grad(
    function: Callable[..., Any], grad: Tensor, rois: Tensor, shape: Shape, *parameters: Any
) -> Tensor:
    rows = _tensors.boxes(rois, shape[0])
    threads = _tensors.threads(None)
    grad_input = function(_tensors.gradient(grad), rows, shape, *parameters, num_threads=threads)
    return _tensors.tensor(grad_input, grad.dtype)


def _empty(input: Tensor, rois: Tensor, height: int, width: int) -> Tensor | None:
    """Return the result where there are no bins, which torchvision allows and roicy does not."""
    if min(height, width) != 0 or max(height, width) < 0:
        return None
    return input.new_empty((rois.shape[0], input.shape[1], height, width))


def _channel_mapping(input: Tensor, pooled: np.ndarray) -> Tensor:
    """Return the input channel of each output, which torchvision keeps for its gradient."""
    k, *rest = pooled.shape
    channels = torch.arange(input.shape[1], dtype=torch.int32)
    return channels.reshape(rest).expand(k, *rest).contiguous()


def roi_align(
    input: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int,
    aligned: bool,
) -> Tensor:  # fmt: skip
    empty = _empty(input, rois, height, width)
    if empty is not None:
        return empty
    size = (height, width)
    pooled = _pool(operators.roi_align, input, rois, size, scale, ratio, aligned)
    return _tensors.tensor(pooled, _tensors.pooled_type(input))


def roi_align_backward(
    grad: Tensor, rois: Tensor, scale: float, height: int, width: int, n: int, c: int, h: int,
    w: int, ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    if grad.numel() == 0:
        return grad.new_zeros((n, c, h, w))
    shape = (n, c, h, w)
    return _grad(operators.roi_align_backward, grad, rois, shape, scale, ratio, aligned)


def roi_pool(
    input: Tensor, rois: Tensor, scale: float, height: int, width: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    empty = _empty(input, rois, height, width)
    if empty is not None:
        return empty, torch.empty_like(empty, dtype=torch.int32)
    pool = functools.partial(operators.roi_pool, return_argmax=True)
    pooled, argmax = _pool(pool, input, rois, (height, width), scale)
    return _tensors.tensor(pooled, _tensors.pooled_type(input)), torch.from_numpy(argmax)


def roi_pool_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, scale: float, height: int, width: int, n: int,
    c: int, h: int, w: int,
) -> Tensor:  # fmt: skip
    if grad.numel() == 0:
        return grad.new_zeros((n, c, h, w))
    rows, threads = _tensors.boxes(rois, n), _tensors.threads(None)
    grads, indices = _tensors.gradient(grad), _tensors.array(argmax)
    found = operators.roi_pool_backward(grads, indices, rows, (n, c, h, w), num_threads=threads)
    return _tensors.tensor(found, grad.dtype)


def ps_roi_align(
    input: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    pooled = _pool(operators.ps_roi_align, input, rois, (height, width), scale, ratio)
    return _tensors.tensor(pooled, _tensors.pooled_type(input)), _channel_mapping(input, pooled)


def ps_roi_align_backward(
    grad: Tensor, rois: Tensor, mapping: Tensor, scale: float, height: int, width: int,
    ratio: int, n: int, c: int, h: int, w: int,
) -> Tensor:  # fmt: skip
    return _grad(operators.ps_roi_align_backward, grad, rois, (n, c, h, w), scale, ratio)


def ps_roi_pool(
    input: Tensor, rois: Tensor, scale: float, height: int, width: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    pooled = _pool(operators.ps_roi_pool, input, rois, (height, width), scale)
    return _tensors.tensor(pooled, _tensors.pooled_type(input)), _channel_mapping(input, pooled)


def ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, mapping: Tensor, scale: float, height: int, width: int, n: int,
    c: int, h: int, w: int,
) -> Tensor:  # fmt: skip
    return _grad(operators.ps_roi_pool_backward, grad, rois, (n, c, h, w), scale)


KERNELS = {
    "roi_align": roi_align,
    "_roi_align_backward": roi_align_backward,
    "roi_pool": roi_pool,
    "_roi_pool_backward": roi_pool_backward,
    "ps_roi_align": ps_roi_align,
    "_ps_roi_align_backward": ps_roi_align_backward,
    "ps_roi_pool": ps_roi_pool,
    "_ps_roi_pool_backward": ps_roi_pool_backward,
}


@contextlib.contextmanager
def patch_torchvision() -> Iterator[None]:
    """
    Have torchvision's operators of regions, and the models that use them, computed by roicy on
    the CPU.

    The kernels are exchanged where PyTorch dispatches to them, for the whole process and until
    the context ends: every way to call them is caught, TorchScript's too.

    torchvision makes rows of lists of boxes in the type of the boxes, so indices of many images
    are rounded there before roicy sees them: such calls are errors, as in :func:`roi_align`.

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
            for name, kernel in KERNELS.items():
                library.impl(name, kernel, "CPU", allow_override=True)
        yield
    finally:
        library._destroy()
