"""Masks and labels of the pixels of pictures, on tensors.

A call that nobody records goes to the function on arrays.  All others, of tracers, compilers, vmap
and tensors with the negative bit, go to the operators of ``_mask_operators.py``.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from .. import labels as labels_of_numpy
from .. import masks as masks_of_numpy
from .._checks import _arguments
from . import _docs, _mask_operators, _tensors


@_docs.of_arrays
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
    _tensors.check_given(masks=masks, boxes=boxes, out=out)
    if format == "image" and not _mask_operators.is_plain(masks, boxes, out):
        sides = _mask_operators.sides(image_shape)
        result = _mask_operators.compute(
            "paste_masks", masks.detach(), boxes.detach(), sides, _number(threshold),
            padding, rule, num_threads,
        )  # fmt: skip
        return _given(result, out)
    return _computed(
        masks_of_numpy.paste_masks, {"masks": masks, "boxes": boxes, "out": out},
        image_shape=image_shape, threshold=threshold, padding=padding, rule=rule,
        format=format, num_threads=num_threads,
    )  # fmt: skip


@_docs.of_arrays
def label_map(
    maps: Tensor, size: tuple[int, int], *, layout: Any = "NCHW", align_corners: bool = False,
    mode: Any = "bilinear", via: tuple[int, int] | None = None, box: Any = None,
    weights: Any = None, labels: Any = None, threshold: float | None = None,
    below: int | None = None, values: bool = False, dtype: torch.dtype = torch.int64,
    out: Tensor | None = None, num_threads: int | None = None,
) -> Any:  # fmt: skip
    """The class of each pixel of a picture: the largest of maps that are enlarged to it.

    ``label_map(maps, size)`` is ``interpolate(maps, size, mode="bilinear").argmax(1)``, without the
    enlarged maps.  The parameters are those of :func:`roicy.label_map`, on tensors of the CPU.

    Parameters
    ----------
    maps : Tensor[C, h, w] or Tensor[N, C, h, w], float32, float64, float16 or bfloat16
        What a network gives for each of C classes, with any strides.
    size, layout, align_corners, mode, via, box, weights, labels, threshold, below, values :
        See :func:`roicy.label_map`.
    dtype : torch.dtype, optional
        By default int64, as argmax has it.  uint8 takes an eighth of the memory, but PyTorch takes
        such an index for a mask.
    out : Tensor[H, W] or Tensor[N, H, W] of integers, optional
        Written to, and returned.
    num_threads : int, optional
        By default no more threads are used than PyTorch uses.

    Returns
    -------
    Tensor[H, W] or Tensor[N, H, W]
        With `values` a tuple of labels and values.

    See Also
    --------
    patch_transformers : has processors of transformers compute so

    Notes
    -----
    No gradient flows through it.

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> maps = torch.tensor([[[4.0, 0.0], [4.0, 0.0]], [[1.0, 1.0], [1.0, 2.0]]])
    >>> roicy.torch.label_map(maps, (3, 5))
    tensor([[0, 0, 0, 1, 1],
            [0, 0, 0, 1, 1],
            [0, 0, 0, 1, 1]])
    """
    _tensors.check_given(maps=maps, out=out)
    if not _mask_operators.is_plain(maps, out, weights):
        _integers(dtype, out)
        found = _mask_operators.compute(
            "label_map", maps.detach(), _mask_operators.sides(size), layout, align_corners,
            _mask_operators.modes(mode), _mask_operators.numbers("via", via, None),
            _mask_operators.numbers("box", box), _weights(weights, maps),
            _mask_operators.numbers("labels", labels, int), _number(threshold), below, values,
            dtype if out is None else out.dtype, num_threads,
        )  # fmt: skip
        return (_given(found[0], out), found[1]) if values else _given(found[0], out)
    found = labels_of_numpy.label_map(
        **_tensors.arrays(maps=maps, out=out), size=size, layout=layout,
        align_corners=align_corners, mode=mode, below=below, values=values,
        dtype=_integers(dtype, out), num_threads=_tensors.threads(num_threads),
        **_readable(via=via, box=box, weights=weights, labels=labels, threshold=threshold),
    )  # fmt: skip
    if not values:
        return torch.from_numpy(found) if out is None else out
    return torch.from_numpy(found[0]) if out is None else out, torch.from_numpy(found[1])


@_docs.of_arrays
def label_segments(
    maps: Tensor, size: tuple[int, int], *, layout: Any = "NCHW", align_corners: bool = False,
    mode: Any = "bilinear", via: tuple[int, int] | None = None, box: Any = None,
    weights: Any = None, labels: Any = None, threshold: float | None = None,
    below: int | None = None, codes: bool = False, dtype: torch.dtype = torch.int64,
    out: Tensor | None = None, num_threads: int | None = None,
) -> tuple[Tensor, list[Any]]:  # fmt: skip
    """The labels of :func:`label_map`, and the area, the box and the code of each.

    The parameters are those of :func:`roicy.label_segments`, on tensors of the CPU.

    Parameters
    ----------
    maps, dtype, out, num_threads :
        As in :func:`label_map`.
    size, layout, align_corners, mode, via, box, weights, labels, threshold, below, codes :
        See :func:`roicy.label_segments`.

    Returns
    -------
    labels : Tensor[H, W] or Tensor[N, H, W]
    segments : list of dict, or such a list for each picture of a batch
        See :func:`roicy.label_segments`.

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> maps = torch.tensor([[[4.0, 0.0], [4.0, 0.0]], [[1.0, 1.0], [1.0, 2.0]]])
    >>> labels, segments = roicy.torch.label_segments(maps, (3, 5))
    >>> segments[1]
    {'id': 1, 'area': 6, 'bbox': [3, 0, 2, 3], 'segmentation': None}
    """
    _tensors.check_given(maps=maps, out=out)
    return _computed(
        labels_of_numpy.label_segments, {"maps": maps, "out": out}, size=size, layout=layout,
        align_corners=align_corners, mode=mode, via=via, box=box, weights=weights,
        labels=labels, threshold=threshold, below=below, codes=codes, dtype=_integers(dtype, out),
        num_threads=num_threads,
    )  # fmt: skip


@_docs.of_arrays
def resize_masks(
    masks: Tensor, size: tuple[int, int], *, threshold: Any = 0.0, align_corners: bool = False,
    via: tuple[int, int] | None = None, box: Any = None, format: Any = "image",
    out: Tensor | None = None, num_threads: int | None = None,
) -> Any:  # fmt: skip
    """Masks of whole pictures, enlarged and compared with a threshold, or run-length coded.

    ``resize_masks(masks, size)`` is ``interpolate(masks, size, mode="bilinear") > 0``, without the
    enlarged numbers.  The parameters are those of :func:`roicy.resize_masks`, on tensors of the
    CPU.

    Parameters
    ----------
    masks : Tensor[..., h, w], float32, float64, float16 or bfloat16
        What a network gives for each object, with any strides.
    size, threshold, align_corners, via, box, format :
        See :func:`roicy.resize_masks`.
    out : Tensor[..., H, W] of bool or uint8, optional
        Written to, and returned.
    num_threads : int, optional
        By default no more threads are used than PyTorch uses.

    Returns
    -------
    Tensor[..., H, W] of bool
        With format "rle" a list of dictionaries.

    Notes
    -----
    No gradient flows through it.

    Examples
    --------
    >>> import torch
    >>> import roicy.torch
    >>> masks = torch.tensor([[[1.0, -1.0], [-1.0, -1.0]]])
    >>> roicy.torch.resize_masks(masks, (3, 5)).int()
    tensor([[[1, 1, 0, 0, 0],
             [0, 0, 0, 0, 0],
             [0, 0, 0, 0, 0]]], dtype=torch.int32)
    """
    _tensors.check_given(masks=masks, out=out)
    if format == "image" and not _mask_operators.is_plain(masks, out):
        result = _mask_operators.compute(
            "resize_masks", masks.detach(), _mask_operators.sides(size),
            _limits(threshold, masks), align_corners, _mask_operators.numbers("via", via, None),
            _mask_operators.numbers("box", box), num_threads,
        )  # fmt: skip
        return _given(result, out)
    return _computed(
        labels_of_numpy.resize_masks, {"masks": masks, "out": out}, size=size, threshold=threshold,
        align_corners=align_corners, via=via, box=box, format=format, num_threads=num_threads,
    )  # fmt: skip


def _integers(dtype: Any, out: Tensor | None) -> Any:
    """Return the type of labels as NumPy has it; that of `out` is its own."""
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype: {dtype!r}, expected a torch.dtype of integers")
    return None if out is not None else str(dtype).removeprefix("torch.")


def _arrays_of(function: Any, tensors: dict[str, Tensor | None], **given: Any) -> Any:
    """Return what a function returns for tensors, as tensors; of which `out` is written to."""
    given["num_threads"] = _tensors.threads(given["num_threads"])
    out = tensors["out"]
    if out is not None and out.is_neg():  # its numbers are not those of its memory
        written = out.clone()
        found = _arrays_of(function, {**tensors, "out": written}, **given)
        out.copy_(written)
        return (out, *found[1:]) if isinstance(found, tuple) else out
    found = function(**_tensors.arrays(**tensors), **_readable(**given))
    if isinstance(found, list):
        return found
    first, *rest = found if isinstance(found, tuple) else (found,)
    first = torch.from_numpy(first) if out is None else out
    return (first, *rest) if rest else first


def _readable(**options: Any) -> dict[str, Any]:
    """Return options with arrays for tensors, of which NumPy reads only some itself."""
    tensors = {name: value for name, value in options.items() if isinstance(value, Tensor)}
    return options | _tensors.arrays(**tensors)


def _computed(function: Any, tensors: dict[str, Tensor | None], **given: Any) -> Any:
    """Return the same; a result that is a list cannot be recorded."""
    if given.get("format") == "image":
        return _arrays_of(function, tensors, **given)
    what = f"format: {given['format']!r}" if "format" in given else function.__name__
    compute = functools.partial(_arrays_of, function, tensors, **given)
    return _mask_operators.listed(what, compute, *tensors.values())


def _weights(weights: Any, maps: Tensor) -> Tensor | None:
    """Return weights as a tensor, of whose numbers a trace is made."""
    if weights is None or isinstance(weights, Tensor):
        return weights if weights is None else weights.detach()
    kind = torch.float64 if maps.dtype is torch.float64 else torch.float32
    return _mask_operators.constant(maps, list(map(float, weights)), kind)


def _limits(threshold: Any, masks: Tensor) -> list[float]:
    """Return a threshold as a list of one, or one for each mask."""
    if not isinstance(threshold, (list, tuple)) and getattr(threshold, "ndim", 0) == 0:
        return [_arguments.number("threshold", _number(threshold))]
    found = _mask_operators.numbers("threshold", threshold) or []
    if len(found) != masks.shape[:-2].numel():
        raise ValueError(
            f"threshold: {len(found)} numbers, expected {masks.shape[:-2].numel()}, one for a mask"
        )
    return found


def _number(threshold: Any) -> Any:
    """Return the number of a tensor, of which a trace would record the example's."""
    if isinstance(threshold, Tensor) and threshold.dim() == 0:
        (threshold,) = _mask_operators.numbers("threshold", [threshold]) or []
    return threshold


def _given(result: Tensor, out: Tensor | None) -> Tensor:
    """Write a result of an operator to `out`."""
    if out is None:
        return result
    kinds = [result.dtype, *([torch.uint8] if result.dtype is torch.bool else [])]
    is_alike = torch.jit.is_tracing() or out.shape == result.shape
    if not is_alike or out.dtype not in kinds:
        form = f"shape {tuple(out.shape)} and type {out.dtype}"
        raise ValueError(f"out: {form}, expected {tuple(result.shape)} and {result.dtype}")
    return out.copy_(result)
