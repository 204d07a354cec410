"""torchvision's own operators, computed by roicy.

The kernels have the parameters of torchvision's schemas, by which its dispatcher calls them.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ._operators import KERNELS, OPERATORS, Operator


def _forward(own: Operator) -> Callable[..., Any]:
    """Return the kernel of a forward pass.

    torchvision keeps a second result for the gradient: of `roi_pool` argmax, and of operators whose
    bins read channels of their own the channel of the input that each output reads.
    """
    pool = own.pool_argmax or own.pool

    def kernel(
        input: Tensor, rois: Tensor, scale: float, height: int, width: int, *parameters: Any
    ) -> Any:
        if not own.by_bin and min(height, width) == 0 and max(height, width) >= 0:
            # torchvision allows outputs without bins
            pooled = input.new_empty((rois.shape[0], input.shape[1], height, width))
            return (pooled, pooled.to(torch.int32)) if own.has_argmax else pooled
        pooled = KERNELS[pool](input, rois, (height, width), scale, *parameters, None)
        if not own.by_bin:
            return pooled
        channels = torch.arange(input.shape[1], dtype=torch.int32)
        return pooled, channels.reshape(pooled.shape[1:]).expand(pooled.shape).contiguous()

    return kernel


def _backward(own: Operator) -> Callable[..., Tensor]:
    """Return the kernel of the gradient of the input."""
    has_second = own.by_bin or own.has_argmax

    def kernel(grad: Tensor, rois: Tensor, *given: Any) -> Tensor:
        second, (scale, _, _, *rest) = given[:has_second], given[has_second:]
        shape, parameters = rest[:4], rest[4:]
        if own.by_bin:  # their parameters come first
            shape, parameters = rest[-4:], rest[:-4]
        elif grad.numel() == 0:
            return grad.new_zeros(shape)
        read = (*second, rois, shape) if own.has_argmax else (rois, shape, scale, *parameters)
        found: Tensor = KERNELS[own.backward](grad, *read, None)
        return found

    return kernel


@contextlib.contextmanager
def patch_torchvision() -> Iterator[None]:
    """Have torchvision's operators of regions, and the models that use them, computed by roicy on
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
            for name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"):
                own = OPERATORS[name]
                library.impl(name, _forward(own), "CPU", allow_override=True)
                library.impl(f"_{name}_backward", _backward(own), "CPU", allow_override=True)
        yield
    finally:
        library._destroy()
