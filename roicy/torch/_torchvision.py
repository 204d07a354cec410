"""
torchvision's own operators, computed by roicy.

The kernels have the parameters of torchvision's schemas, by which its dispatcher calls them.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from .. import operators
from . import _tensors


def _forward(name: str, empties: bool, second: str = "") -> Callable[..., Any]:
    """
    Return the kernel of a forward pass.

    empties: whether torchvision allows outputs without bins, which roicy does not.  second: what
    its kernel returns besides, "argmax" or the "mapping" of outputs to channels of the input, which
    torchvision keeps for the gradient.
    """
    function = getattr(operators, name)
    option = {"return_argmax": True} if second == "argmax" else {}

    def kernel(
        input: Tensor, rois: Tensor, scale: float, height: int, width: int, *parameters: Any
    ) -> Any:
        if empties and min(height, width) == 0 and max(height, width) >= 0:
            pooled = input.new_empty((rois.shape[0], input.shape[1], height, width))
            return (pooled, torch.empty_like(pooled, dtype=torch.int32)) if option else pooled
        rows, threads = _tensors.boxes(rois, input.shape[0]), _tensors.threads(None)
        given = (_tensors.array(input), rows, (height, width), scale, *parameters)
        found = function(*given, num_threads=threads, **option)
        found, more = found if option else (found, None)
        pooled = _tensors.tensor(found, _tensors.pooled_type(input))
        if second == "mapping":
            channels = torch.arange(input.shape[1], dtype=torch.int32)
            return pooled, channels.reshape(pooled.shape[1:]).expand(pooled.shape).contiguous()
        return (pooled, torch.from_numpy(more)) if option else pooled

    return kernel


def _backward(name: str, ratio_first: bool = False, second: str = "") -> Callable[..., Tensor]:
    """
    Return the kernel of the gradient of the input.

    ratio_first: whether sampling_ratio is given before the shape, and not after it.
    """
    function = getattr(operators, f"{name}_backward")

    def kernel(grad: Tensor, rois: Tensor, *given: Any) -> Tensor:
        more, (scale, _, _, *rest) = given[: bool(second)], given[bool(second) :]
        parameters = [scale]
        if ratio_first:
            parameters.append(rest.pop(0))
        shape = tuple(rest[:4])
        parameters += rest[4:]
        if second != "mapping" and grad.numel() == 0:
            return grad.new_zeros(shape)
        rows = [_tensors.boxes(rois, shape[0]), shape]
        if second == "argmax":
            rows, parameters = [_tensors.array(more[0]), *rows], []
        threads = _tensors.threads(None)
        found = function(_tensors.gradient(grad), *rows, *parameters, num_threads=threads)
        return _tensors.tensor(found, grad.dtype)

    return kernel


KERNELS = {
    "roi_align": _forward("roi_align", empties=True),
    "_roi_align_backward": _backward("roi_align"),
    "roi_pool": _forward("roi_pool", empties=True, second="argmax"),
    "_roi_pool_backward": _backward("roi_pool", second="argmax"),
    "ps_roi_align": _forward("ps_roi_align", empties=False, second="mapping"),
    "_ps_roi_align_backward": _backward("ps_roi_align", ratio_first=True, second="mapping"),
    "ps_roi_pool": _forward("ps_roi_pool", empties=False, second="mapping"),
    "_ps_roi_pool_backward": _backward("ps_roi_pool", second="mapping"),
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
