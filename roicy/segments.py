"""What people ask of masks: areas, boxes, codes and scores, and one picture of all of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import labels as enlarged
from ._checks import _arguments
from ._checks import _names as t
from ._docs import raises
from ._kernels import labels as kernels
from ._machine import _threads
from .masks import check_coded

__all__ = ["mask_segments", "paint_masks"]


class MaskSegment(enlarged.Segment):
    """The pixels of a mask."""

    score: float | None


@raises()
def mask_segments(
    masks: t.Quantised, size: t.Shape | None = None, *, threshold: t.Numbers = 0.0,
    align_corners: bool = False, via: t.Shape | None = None, box: t.NumberRow = None,
    num_threads: t.Threads = None,
) -> list[MaskSegment]:  # fmt: skip
    """The area, the box, COCO's code and the mean score of masks, without their pictures.

    The masks are those of :func:`roicy.resize_masks`, or they are there already.

    Parameters
    ----------
    masks : ndarray (..., h, w)
        Without `size`, masks as they are, of bool or uint8, whose pixels are not 0.  Else what
        is enlarged: :func:`roicy.resize_masks` says which numbers.  Strides are any.
    size : (int, int), optional
        Height and width of the picture, (H, W).
    threshold, align_corners, via, box :
        As in :func:`roicy.resize_masks`, of masks that are enlarged.
    num_threads : int, optional
        At most as many threads are used; by default :func:`roicy.get_num_threads`.

    Returns
    -------
    list of dict
        For each mask, in the order of masks: "id", its index; "area", its pixels; "bbox", [x, y,
        width, height] around them; "segmentation", the code {"size": [H, W], "counts": bytes}; and
        "score", the mean of the enlarged numbers of its pixels, or 0 without any, or None of masks
        as they are.  Sums are those of float64.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> masks = np.array([[[1, -1], [-1, -1]]], np.float32)
    >>> roicy.mask_segments(masks, (3, 5))[0]["area"]
    2
    >>> roicy.mask_segments(masks > 0)[0]["segmentation"]
    {'size': [2, 2], 'counts': b'013'}
    """
    threads = _threads.resolve(num_threads)
    if size is None:
        of_maps = {"threshold": threshold, "via": via, "box": box, "align_corners": align_corners}
        for name, value in of_maps.items():
            if value is not None and not (isinstance(value, (bool, int, float)) and value == 0):
                raise ValueError(f"{name}: {value!r}, expected a size with it")
        stored = _stored(masks)
        shape = stored.shape[1:]
        empty = not stored.size
        found = [enlarged.NOTHING] * len(stored) if empty else kernels.stored_codes(stored, threads)
    else:
        call, _ = enlarged.masks_of(masks)
        call.place(size, via, box, ("bilinear", align_corners))
        call.limit(threshold, [1])
        found, shape = call.codes(True, threads), call.size
    return [_segment(i, one, shape, size is not None) for i, one in enumerate(found)]


def _segment(i: int, found: enlarged.Coded, shape: tuple[int, ...], scored: bool) -> MaskSegment:
    counts, area, x0, y0, x1, y1, total = found
    return {
        "id": i, "area": area, "bbox": [x0, y0, x1 - x0, y1 - y0],
        "segmentation": {"size": list(shape), "counts": counts},
        "score": (total / area if area else 0.0) if scored else None,
    }  # fmt: skip


def _stored(masks: Any) -> np.ndarray:
    """Return masks as they are, as bytes (K, H, W)."""
    given = _arguments.taken("masks", masks)
    if given.dtype.char not in "?B":
        dtype = _arguments.spell(given.dtype)
        hint = "; of masks pass its astype(bool)" if given.dtype.kind in "iu" else ""
        raise TypeError(
            f"masks: dtype {dtype}, expected bool or uint8, or a size with numbers{hint}"
        )
    if given.ndim < 2:
        raise ValueError(f"masks: shape {given.shape}, expected (..., H, W)")
    check_coded("masks", given.shape[-2:])
    _arguments.extents("masks", (0, 0, *given.shape[-2:]))
    return given.view(np.uint8).reshape(math.prod(given.shape[:-2]), *given.shape[-2:])


@raises()
def paint_masks(
    masks: t.Quantised, size: t.Shape, *, threshold: t.Numbers = 0.0, labels: t.Counts = None,
    background: t.Index = 0, align_corners: bool = False, via: t.Shape | None = None,
    box: t.NumberRow = None, dtype: t.DTypeLike | None = None, out: t.AnyArray | None = None,
    num_threads: t.Threads = None,
) -> t.NDArray[Any]:  # fmt: skip
    """Masks painted into one picture: a pixel has the label of the first mask that it lies in.

    ::

        set[k] = interpolate(masks, size)[k] > threshold[k]
        out[y, x] = labels[k] of the first k with set[k, y, x], or else background

    Parameters
    ----------
    masks : ndarray (K, h, w) or (N, K, h, w)
        What a network gives for each object, the most important first, as it is taken by
        `roicy.resize_masks`.
    size, threshold :
        As in :func:`roicy.resize_masks`.
    labels : sequence of K integers, optional
        The label of each mask; by default 1 to K.
    background : int, optional
        The label of pixels that lie in no mask.
    align_corners, via, box :
        As in :func:`roicy.resize_masks`.
    dtype, out, num_threads :
        As in :func:`roicy.label_map`.

    Returns
    -------
    ndarray (H, W) or (N, H, W) of integers

    Examples
    --------
    >>> import numpy as np, roicy
    >>> masks = np.array([[[1, -1], [-1, -1]], [[2, 2], [-1, -1]]], np.float32)
    >>> roicy.paint_masks(masks, (3, 5))
    array([[1, 1, 2, 2, 2],
           [2, 2, 2, 2, 2],
           [0, 0, 0, 0, 0]], dtype=uint8)
    """
    call = enlarged.Call(masks, "NCHW", "masks")
    call.place(size, via, box, ("bilinear", align_corners))
    count = call.maps.shape[1]
    names = np.arange(1, count + 1)
    if labels is not None:
        names = enlarged.whole_numbers("labels", labels, count)
    call.limit(threshold, names, _arguments.integer("background", background, *enlarged.INT64))
    call.returned(out, dtype, False)
    result = call.result[None] if call.one else call.result
    if result.size:
        call.paint(result, _threads.resolve(num_threads))
    return call.result if out is None else out
