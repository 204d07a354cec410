"""torchvision's own operators, computed by roicy.

The kernels have the parameters of torchvision's schemas, by which its dispatcher calls them, and
those that only roicy has are left at their defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from . import _patches
from ._operators import KERNELS, OPERATORS, TorchOp


def _forward(own: TorchOp) -> Callable[..., Any]:
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
        given = (input, rois, (height, width), scale, *own.completed(parameters))
        pooled = KERNELS[pool](*given, None)
        if not own.by_bin:
            return pooled
        channels = torch.arange(input.shape[1], dtype=torch.int32)
        return pooled, channels.reshape(pooled.shape[1:]).expand(pooled.shape).contiguous()

    return kernel


def _backward(own: TorchOp) -> Callable[..., Tensor]:
    """Return the kernel of the gradient of the input."""
    has_second = own.by_bin or own.has_argmax

    def kernel(grad: Tensor, rois: Tensor, *given: Any) -> Tensor:
        second, (scale, _, _, *rest) = given[:has_second], given[has_second:]
        shape, parameters = rest[:4], rest[4:]
        if own.by_bin:  # their parameters come first
            shape, parameters = rest[-4:], rest[:-4]
        elif grad.numel() == 0:
            return grad.new_zeros(shape)
        read = (*second, rois, shape)
        if not own.has_argmax:
            read = (rois, shape, scale, *own.completed(parameters))
        found: Tensor = KERNELS[own.backward](grad, *read, None)
        return found

    return kernel


# The key of which ordinary operators have no kernel, just before that of the CPU.
_KEY = torch._C.DispatchKey.BackendSelect
_BELOW = torch._C._dispatch_keyset_full_after(_KEY)


def _switched(operator: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that computes on the CPU while torchvision is patched."""

    def switch(keys: Any, *given: Any) -> Any:
        below = keys & _BELOW
        if _PROJECT.on and below.highestPriorityTypeId() == torch._C.DispatchKey.CPU:
            return kernel(*given)
        return operator.redispatch(below, *given)

    return switch


class _Torchvision(_patches.Project):
    """torchvision, whose operators get a kernel each that stays, and asks whether it is on.

    A kernel that is taken from PyTorch's dispatcher, or put in the place of another, may be at work
    in a thread, which ends the process.
    """

    on = False
    library: Any = None

    def patch(self, module: Any) -> None:
        """Have roicy's kernels on; again, that changes nothing."""
        if self.on:
            return
        if self.library is None:
            library = torch.library.Library("torchvision", "IMPL")
            for name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"):
                own = OPERATORS[name]
                for theirs, made in (name, _forward), (f"_{name}_backward", _backward):
                    operator = getattr(torch.ops.torchvision, theirs).default
                    kernel = _switched(operator, made(own))
                    library.impl(theirs, kernel, _KEY.name, with_keyset=True)
            self.library = library
        self.on = True
        _patches.log("INFO", "torchvision: by roicy")

    def restore(self) -> None:
        """Have torchvision's own kernels compute."""
        self.on = False


_PROJECT = _Torchvision("torchvision", "torchvision")


@_patches.documented("torchvision")
def patch_torchvision() -> AbstractContextManager[None]:
    """Have torchvision's operators of regions, and the models that use them, computed by roicy on
    the CPU.

    PyTorch dispatches to roicy for the whole process and until the context ends: every way to call
    the operators is caught, TorchScript's and compiled models' too.  Contexts may overlap, in any
    threads.  The kernels are registered by the first context, and stay: after the last one they
    hand calls on to torchvision's, which takes some microseconds a call.

    torchvision makes rows of lists of boxes in the type of the boxes, so indices of many images
    are rounded there before roicy sees them: such calls are errors, as in :func:`roi_align`.

    Examples
    --------
    ::

        model = torchvision.models.detection.maskrcnn_resnet50_fpn().eval()
        with roicy.torch.patch_torchvision():
            detections = model(images)
    """
    import torchvision  # noqa: F401  where its build does not fit PyTorch's, this says so

    return _patches.patched("torchvision")
