"""Masks that are sums of prototypes, as YOLO's segmentation models and YOLACT give them."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from . import masks
from ._checks import _arguments
from ._checks import _names as t
from ._machine import _threads

__all__ = ["prototype_masks"]

RULES = ("ultralytics", "ultralytics_native", "yolov5", "yolov5_native")
FITS = ("letterbox", "letterbox_top_left", "stretch")
STRIDE = 4  # pixels of the network's input along a side of a prototype's pixel
MOST_PIXELS = 2**29  # of a prototype: int32 must hold places among STRIDE times as many


class Mixed(NamedTuple):
    """What masks are made of; pairs are x, y."""

    prototypes: np.ndarray  # (C, h, w), in the order of C
    coefficients: np.ndarray  # (K, C)
    boxes: np.ndarray  # (K, 4), int64: in pixels of the prototypes
    cut: bool  # masks are 0 outside of boxes before they are resized
    squashed: bool  # they become numbers of 0..1 before they are resized
    squashed_last: bool  # afterwards
    times: int  # both sides of a prototype are enlarged so many times first
    skipped: tuple[int, int]  # its pixels before those that the image shows
    shown: tuple[int, int]  # its pixels that the image shows


@overload
def prototype_masks(
    prototypes: t.Quantised, coefficients: t.Quantised, boxes: t.Rows, image_shape: t.Shape, *,
    threshold: t.Number | None = 0.5, rule: t.PrototypeRule = "ultralytics",
    fit: t.PrototypeFit = "letterbox", format: Literal["image"] = "image",
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> t.NDArray[Any]:  # fmt: skip
    ...
@overload
def prototype_masks(
    prototypes: t.Quantised, coefficients: t.Quantised, boxes: t.Rows, image_shape: t.Shape, *,
    threshold: t.Number | None = 0.5, rule: t.PrototypeRule = "ultralytics",
    fit: t.PrototypeFit = "letterbox", format: Literal["rle"], out: t.AnyArray | None = None,
    num_threads: t.Threads = None,
) -> list[masks.Code]:  # fmt: skip
    ...


def prototype_masks(
    prototypes: t.Quantised, coefficients: t.Quantised, boxes: t.Rows, image_shape: t.Shape, *,
    threshold: t.Number | None = 0.5, rule: t.PrototypeRule = "ultralytics",
    fit: t.PrototypeFit = "letterbox", format: t.Form = "image", out: t.AnyArray | None = None,
    num_threads: t.Threads = None,
) -> t.NDArray[Any] | list[masks.Code]:  # fmt: skip
    """Masks of YOLO: sums of prototypes, cut to boxes in images of their own, or run-length coded.

    A mask is the sum of all prototypes, each times its coefficient, which is squashed to 0..1 by
    the logistic function 1 / (1 + exp(-x)) and resized bilinearly to the image.  The pixels of a
    box are those with x1 <= x < x2 and y1 <= y < y2.  Only these are computed.  `rule` says in
    which order this is done:

    - "ultralytics": the image is the network's input, or has its shape.  Sums are resized, then
      squashed, then cut to the box.
    - "ultralytics_native": the same for the picture that the input was made from, as `fit` says.
      The padding's part of a sum is left out.
    - "yolov5": the image is as for "ultralytics".  Sums are squashed and cut to the box, at the
      size of the prototypes, and then resized.
    - "yolov5_native": sums are squashed.  The padding's part is left out, in whole pixels of the
      prototypes.  The rest is resized to the picture and cut to the box.

    Parameters
    ----------
    prototypes : ndarray (C, h, w) or (1, C, h, w), float32, float64, float16 or bfloat16
        What the network gives for an image, with any strides.  Those of the last two types are
        computed with as float32.  Integers are taken as :func:`roicy.paste_masks` takes them.
    coefficients : ndarray (K, C), of any of these types
        Coefficients of each box.  They are converted to the type that is computed in, as are
        boxes.
    boxes : ndarray (K, 4), floating point or integers
        Rows [x1, y1, x2, y2] in pixels of the image, or a list of such rows.
    image_shape : (int, int)
        Height and width of the images, (H, W).
    threshold : float or None, optional
        From 0 to 1: a pixel is set if its value is larger.  Where sums are squashed last, they are
        compared before that; with 0.5 those above 0 are set.  None: images of the values.
    rule : {"ultralytics", "ultralytics_native", "yolov5", "yolov5_native"}, optional
        Whose pixels are computed; see above.
    fit : {"letterbox", "letterbox_top_left", "stretch"}, optional
        How the picture became the input, for the rules that end with "native".  "letterbox": its
        sides have one scale, and padding is on both sides.  "letterbox_top_left": padding is at the
        right or the bottom alone, as by Ultralytics' ``LetterBox(center=False)``.  "stretch": there
        is no padding, and each side has a scale of its own.
    format : {"image", "rle"}, optional
        As in :func:`roicy.paste_masks`.
    out : ndarray (K, H, W), optional
        Written to, and returned.
    num_threads : int, optional
        At most as many threads are used; by default :func:`roicy.get_num_threads`.

    Returns
    -------
    ndarray (K, H, W) of bool, or of float32 or float64 without a threshold
        With "rle" a list of K codes, as those of :func:`roicy.paste_masks`, which raises the same
        errors, too.

    Notes
    -----
    The rules are those of ``process_mask(upsample=True)`` and ``process_mask_native`` of
    Ultralytics 8.4, and of YOLOv5 and Ultralytics up to 8.2; for "letterbox_top_left" with
    ``scale_masks(padding=False)`` in ``process_mask_native``.  For ``upsample=False`` pass the
    shape of a prototype as `image_shape`, and boxes in its pixels.  PyTorch adds the products of a
    sum in another order.  So sums differ in their last bits, and a pixel may differ where its value
    is that near to the threshold: see :doc:`/deployed`.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> prototypes = np.array([[[1, -1], [1, 1]], [[0, 0], [2, 0]]], np.float32)
    >>> coefficients, box = np.array([[1, -1]], np.float32), [[0, 0, 4, 3]]
    >>> roicy.prototype_masks(prototypes, coefficients, box, (4, 5)).astype(int)
    array([[[1, 1, 0, 0, 0],
            [1, 1, 0, 0, 0],
            [0, 0, 0, 1, 0],
            [0, 0, 0, 0, 0]]])
    >>> roicy.prototype_masks(prototypes, coefficients, box, (4, 5), format="rle")
    [{'size': [4, 5], 'counts': b'02206OM'}]
    """
    planes = _prototypes(prototypes)
    weights = _arguments.dequantised("coefficients", coefficients)
    if weights.ndim != 2 or weights.shape[1] != len(planes):
        expected = f"(K, {len(planes)}), a coefficient for each prototype"
        raise ValueError(f"coefficients: shape {weights.shape}, expected {expected}")
    shape = _arguments.picture("image_shape", image_shape)
    coded = _arguments.choice("format", format, masks.FORMATS) == "rle"
    early = _arguments.choice("rule", rule, RULES).startswith("yolov5")
    if _arguments.choice("fit", fit, FITS) != FITS[0] and not rule.endswith("native"):
        raise ValueError(f"fit: {fit!r}, expected 'letterbox', since rule {rule!r} has no padding")
    computed = _arguments.computed(planes.dtype)
    least = _least(threshold, coded, early, computed)
    threads = _threads.resolve(num_threads)
    rows = masks.given_boxes(boxes, len(weights))
    with np.errstate(all="ignore"):  # what overflows is found
        corners = masks.finite(rows, rows.astype(computed), computed)
    masks.warn_of_form(corners, shape)
    places, inside = _places(corners, planes.shape[1:], shape, rule == "yolov5")
    window = _window(planes.shape[1:], shape, rule, fit)

    def mixed() -> Mixed:
        with np.errstate(all="ignore"):  # coefficients may be too large for the type
            plain = [np.require(one, computed, ("C", "A")) for one in (planes, weights)]
        squashed_last = least is None and not early
        return Mixed(*plain, inside, rule == "yolov5", early, squashed_last, *window)

    where = masks.Where(places, inside.astype(np.float64), 0, least)
    read = (planes, weights, rows)
    return masks.pasted(mixed, where, masks.Asked(shape, coded, computed, out, threads, read))


def _prototypes(given: Any) -> np.ndarray:
    """Return prototypes as (C, h, w), of any strides."""
    array = _arguments.dequantised("prototypes", given)
    planes = array[0] if array.ndim == 4 and len(array) == 1 else array
    if planes.ndim != 3 or not 0 < math.prod(planes.shape[1:]) < MOST_PIXELS or not len(planes):
        raise ValueError(
            f"prototypes: shape {array.shape}, expected (C, h, w) or (1, C, h, w), with at least "
            "one prototype of at least one and less than 2**29 pixels"
        )
    return planes


def _least(value: Any, coded: bool, early: bool, computed: np.dtype) -> float | None:
    """Return the least resized number that sets a pixel, or None."""
    number = masks.least_value(value, coded)
    if number is None:
        return None
    if not 0 <= number <= 1:
        raise ValueError(f"threshold: {value!r}, expected a number from 0 to 1, or None")
    if not early:
        if number == 1:
            return math.nan  # which nothing reaches
        number = math.log(number / (1 - number)) if number else -math.inf
    with np.errstate(all="ignore"):  # what comes after 0 underflows
        return float(np.nextafter(computed.type(number), computed.type(np.inf)))


def _window(
    planes: tuple[int, ...], shape: tuple[int, int], rule: str, fit: str
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return times, skipped and shown of Mixed."""
    times, skipped, shown, centred = 1, [0, 0], list(planes), fit == "letterbox"
    if not all(shape) or fit == "stretch":
        pass
    elif rule == "ultralytics_native":
        # Prototypes are enlarged until the padding ends between two pixels.
        kept = _kept([STRIDE * extent for extent in planes], shape)
        padding = [STRIDE * extent - most for extent, most in zip(planes, kept, strict=True)]
        ends = [end for pixels in padding for end in (pixels, pixels // 2)]
        times = next(n for n in (1, 2, STRIDE) if not any(n * end % STRIDE for end in ends))
        shown = _kept([times * extent for extent in planes], shape)
        around = zip(planes, shown, strict=True)
        if centred:
            skipped = [round((times * extent - most) / 2 - 0.1) for extent, most in around]
    elif rule == "yolov5_native":
        gain = min(extent / side for extent, side in zip(planes, shape, strict=True))
        around = [extent - side * gain for extent, side in zip(planes, shape, strict=True)]
        if centred:
            around = [end / 2 for end in around]
            skipped = [int(end) for end in around]
        stops = [int(extent - end) for extent, end in zip(planes, around, strict=True)]
        shown = [max(stop - first, 1) for stop, first in zip(stops, skipped, strict=True)]
    return times, tuple(skipped[::-1]), tuple(shown[::-1])


def _kept(planes: list[int], shape: tuple[int, int]) -> list[int]:
    """Return height and width of a picture that is resized to fit."""
    gain = min(extent / side for extent, side in zip(planes, shape, strict=True))
    return [max(round(side * gain), 1) for side in shape]


def _places(
    corners: np.ndarray, planes: tuple[int, ...], shape: tuple[int, int], cut: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return where masks lie, as struct mask_place of ``pyx/images/structs.h``, and boxes in pixels
    of the prototypes, if masks are cut there.
    """
    size, extents = np.array(shape[::-1] * 2), np.array(planes[::-1] * 2)
    inside = ends = masks.whole(np.ceil(corners).astype(np.float64))
    if cut and all(shape):
        with np.errstate(all="ignore"):
            scaled = np.ceil(corners * (extents / size).astype(corners.dtype))
        inside = scaled.clip(0, extents).astype(np.int64)
        # A resized mask reaches half a pixel of a prototype farther; a few pixels more are taken.
        reach = (inside + np.array([-0.5, -0.5, 0.5, 0.5])) * size / extents - 0.5
        ends = np.floor(reach + np.array([-1, -1, 2, 2])).astype(np.int64)
        ends[(inside[:, :2] >= inside[:, 2:]).any(axis=1)] = 0
    x1, y1, x2, y2 = ends.clip(0, size).T
    places = np.zeros((len(corners), 8), np.int64)
    places[:, :4] = np.stack([y1, np.maximum(y1, y2), x1, np.maximum(x1, x2)], axis=1)
    places[:, 6:] = size[:2]
    return places, np.ascontiguousarray(inside)
