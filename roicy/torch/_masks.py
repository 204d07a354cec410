"""Masks in their images, on tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import _arguments
from .. import masks as of_numpy
from . import _tensors


def paste_masks(
    masks: Tensor, boxes: Tensor, image_shape: tuple[int, int], *,
    threshold: float | None = 0.5, padding: int = 1, rule: Any = "torchvision",
    format: Any = "image", out: Tensor | None = None, num_threads: int | None = None,
) -> Any:  # fmt: skip
    """Masks of boxes, each resized to its box in an image of its own, or run-length coded.

    The parameters are those of :func:`roicy.paste_masks`, on tensors of the CPU.

    Parameters
    ----------
    masks : Tensor[K, 1, h, w] or Tensor[K, h, w], float32, float64, float16 or bfloat16
        Masks of each box.
    boxes : Tensor[K, 4], floating point or integers
        Rows [x1, y1, x2, y2] in pixels of the image.
    image_shape, threshold, padding, rule, format, num_threads :
        See :func:`roicy.paste_masks`.  By default no more threads are used than PyTorch uses.
    out : Tensor[K, H, W], optional
        Written to, and returned.

    Returns
    -------
    Tensor[K, H, W] of bool, or of float32 or float64 without a threshold
        With format "rle" a list of K dictionaries.

    Raises
    ------
    TypeError, ValueError
        As :func:`roicy.paste_masks`.

    Notes
    -----
    No gradient flows through it.  ``paste_masks(masks, boxes, shape, threshold=None)[:, None]`` is
    what torchvision's ``paste_masks_in_image(masks, boxes, shape)`` returns.

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> boxes = torch.tensor([[1.0, 0.0, 3.0, 2.0]])
    >>> roicy.torch.paste_masks(torch.ones(1, 2, 2), boxes, (3, 4), rule="detectron2").int()
    tensor([[[0, 1, 1, 0],
             [0, 1, 1, 0],
             [0, 0, 0, 0]]], dtype=torch.int32)
    """
    given = {"masks": masks, "boxes": boxes} | ({} if out is None else {"out": out})
    for name, value in given.items():
        if not isinstance(value, Tensor) or value.device.type != "cpu":
            kind = value.device if isinstance(value, Tensor) else _arguments.spell_type(value)
            raise TypeError(f"{name}: {kind}, expected a torch.Tensor of the CPU")
    arrays = {name: _tensors.array(value) for name, value in given.items()}
    result = of_numpy.paste_masks(
        **arrays, image_shape=image_shape, threshold=threshold, padding=padding, rule=rule,
        format=format, num_threads=_tensors.threads(num_threads),
    )  # fmt: skip
    if out is not None or isinstance(result, list):
        return result if out is None else out
    return torch.from_numpy(result)
