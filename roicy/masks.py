"""Masks of boxes in their images: what a detector's mask head gives, as large as the image, or as
run-length codes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, overload

import numpy as np

from ._checks import _arguments, _boxes
from ._checks import _names as t
from ._checks._arguments import FLOAT32
from ._docs import raises
from ._kernels import paste
from ._machine import _limits, _memory, _threads

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Code", "paste_masks"]

RULES = ("torchvision", "detectron2", "mmdet")
FORMATS = ("image", "rle")
BOOL, UINT8 = np.dtype(bool), np.dtype(np.uint8)
FARTHEST = 2.0**60  # pixels: corners of boxes beyond are moved there, so that int64 holds them
MOST_CODED = 2**32  # pixels of an image: COCO's codes count in uint32
MOST_PADDING = 2**15


class Where(NamedTuple):
    """Where masks lie in their images, and what their pixels become."""

    places: np.ndarray  # (K, 8), int64, as struct mask_place of pyx/images/structs.h
    corners: np.ndarray  # (K, 4), float64, as in struct masks
    rule: int  # of RULES
    least: float | None  # the least number that sets a pixel; None: pixels are numbers
    border: int = 0  # zeros around a mask


class Asked(NamedTuple):
    """What a call asks for."""

    shape: tuple[int, int]
    coded: bool
    computed: np.dtype
    out: Any
    threads: int
    read: tuple[np.ndarray, ...]  # the arrays of the caller that are read


class Code(TypedDict):
    """The run-length code of a mask, as COCO has it."""

    size: list[int]
    counts: bytes


@overload
def paste_masks(
    masks: t.Quantised, boxes: t.Rows, image_shape: t.Shape, *, threshold: t.Number | None = 0.5,
    padding: t.Index = 1, rule: t.Rule = "torchvision", format: Literal["image"] = "image",
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> t.NDArray[Any]:  # fmt: skip
    ...
@overload
def paste_masks(
    masks: t.Quantised, boxes: t.Rows, image_shape: t.Shape, *, threshold: t.Number | None = 0.5,
    padding: t.Index = 1, rule: t.Rule = "torchvision", format: Literal["rle"],
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> list[Code]:  # fmt: skip
    ...


@raises(", or a coordinate is not finite", ", and the first such box")
def paste_masks(
    masks: t.Quantised, boxes: t.Rows, image_shape: t.Shape, *, threshold: t.Number | None = 0.5,
    padding: t.Index = 1, rule: t.Rule = "torchvision", format: t.Form = "image",
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> t.NDArray[Any] | list[Code]:  # fmt: skip
    """Masks of boxes, each resized to its box in an image of its own, or run-length coded.

    A pixel inside of a box is the bilinear value of its mask at the pixel's centre, and a pixel
    elsewhere is 0.  `rule` says what the pixels of a box are:

    - "torchvision": the mask gets a border of `padding` zeros, and the box grows in proportion,
      by (w + 2 padding) / w about its centre.  Its corners are cut to whole pixels, both of
      which are of the box, and the mask is resized to these pixels.
    - "detectron2": the mask is sampled where the centres of pixels lie in the box, with zeros
      around it ::

          v = (y + 0.5 - y1) / (y2 - y1) * h - 0.5,    u = (x + 0.5 - x1) / (x2 - x1) * w - 0.5

      from the pixel before floor(x1), floor(y1) to the one after ceil(x2), ceil(y2).
    - "mmdet": as "detectron2", but a box of no width or height has the middle of its mask there.

    Parameters
    ----------
    masks : ndarray (K, 1, h, w) or (K, h, w), float32, float64, float16 or bfloat16
        Masks of each box, with any strides.  Those of the last two types are computed with as
        float32, and so are int8, uint8, int16 and uint16, or (integers, scale, zero_point), which
        means (integers - zero_point) * scale.
    boxes : ndarray (K, 4), floating point or integers
        Rows [x1, y1, x2, y2] in pixels of the image, or a list of such rows.  Converted to the
        type that is computed in.  Boxes may lie off the image, be larger than
        it, have no area or be inverted: what is not in the image is not pasted.
    image_shape : (int, int)
        Height and width of the images, (H, W).
    threshold : float or None, optional
        A pixel is set if its value is at least this.  None: images of the values themselves.
    padding : int, optional
        Zeros around a mask, for the rule "torchvision"; the other rules have no such parameter.
    rule : {"torchvision", "detectron2", "mmdet"}, optional
        Whose pixels are computed; see above.
    format : {"image", "rle"}, optional
        "rle": run-length codes of thresholded masks, made without the images.
    out : ndarray (K, H, W), optional
        Written to, and returned.  With a threshold it is of bool or uint8, of values 0 and 1.
        Without one it is of the type that is computed in, or of uint8, which is given 255 times
        the values, without their fraction and within 0 to 255.
    num_threads : int, optional
        At most as many threads are used; by default :func:`roicy.get_num_threads`.  The result
        does not depend on it.

    Returns
    -------
    ndarray (K, H, W) of bool, or of float32 or float64 without a threshold
        With "rle" a list of K dictionaries, {"size": [H, W], "counts": bytes}, with the counts as
        compressed by COCO's own programs.

    Notes
    -----
    torchvision's ``paste_masks_in_image``, Detectron2's function of that name and mmdet's
    ``_do_paste_mask``, all on CPUs; a threshold is compared as theirs are.  With fused
    multiply-adds, values of float32 have the bits of PyTorch's kernels.  Where these
    systems end in an error, since a box is off the image or inverted, nothing is pasted.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> mask, box = np.ones((1, 2, 2), np.float32), np.array([[1, 0, 3, 2]], np.float32)
    >>> roicy.paste_masks(mask, box, (4, 5), rule="detectron2").astype(int)
    array([[[0, 1, 1, 0, 0],
            [0, 1, 1, 0, 0],
            [0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0]]])
    >>> roicy.paste_masks(mask, box, (4, 5), rule="detectron2", format="rle")
    [{'size': [4, 5], 'counts': b'42208'}]
    """
    given = _masks(masks)
    shape = _arguments.picture("image_shape", image_shape)
    coded = _arguments.choice("format", format, FORMATS) == "rle"
    rule = _arguments.choice("rule", rule, RULES)
    border = _padding(padding, rule)
    least = least_value(threshold, coded)
    threads = _threads.resolve(num_threads)
    rows = given_boxes(boxes, len(given))
    computed = _arguments.computed(given.dtype)
    if not 0 < min(given.shape[1:], default=0):
        raise ValueError(f"masks: shape {given.shape}, expected at least one number a mask")
    places, corners = _places(rows, given.shape[2], shape, rule, border, computed)

    def plain() -> np.ndarray:
        numbers = given if given.dtype == computed else given.astype(computed)
        if not numbers.flags.aligned:
            numbers = numbers.copy()
        return numbers.transpose(0, 2, 1) if coded else numbers

    where = Where(places, corners, RULES.index(rule), least, border)
    return pasted(plain, where, Asked(shape, coded, computed, out, threads, (given, rows)))


def pasted(made: Callable[[], Any], where: Where, asked: Asked) -> t.NDArray[Any] | list[Code]:
    """Return images or codes; made: returns what the kernels take as masks."""
    coded, shape, out = asked.coded, asked.shape, asked.out
    rule = (where.rule, where.least or 0.0, where.border)
    if coded:
        check_coded("image_shape", shape, out)
        given = (where.places, where.corners, rule, shape, asked.threads)
        counts = paste.codes(made(), *given) if len(where.places) else []
        return [{"size": list(shape), "counts": one} for one in counts]
    types = (asked.computed, UINT8) if where.least is None else (BOOL, UINT8)
    result, cleared = _images(out, (len(where.places), *shape), types, asked.read)
    if result.size:
        values = 1 if where.least is not None else 2 if result.dtype == UINT8 else 0
        target = result.view(UINT8) if result.dtype == BOOL else result
        paste.images(
            made(), where.places, where.corners, rule, values, target, cleared, asked.threads
        )
    return result if out is None else out


def _images(
    out: Any, shape: tuple[int, ...], types: tuple[np.dtype, ...], read: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, bool]:
    """Return the array to write to, and whether it is cleared.

    Memory that is too large to be kept from call to call comes from the system, which clears
    each page when it is first written.  So pages without a box are not even taken.
    """
    size = math.prod(shape) * types[0].itemsize
    if out is None and max(_memory.most, _memory.LEAST) < size <= _limits.memory():
        try:
            return np.zeros(shape, types[0]), True
        except (ValueError, MemoryError):
            pass  # the error of all results follows
    return _memory.result(out, shape, types, read), False


def _masks(given: Any) -> np.ndarray:
    """Return masks as (K, h, w), of any strides."""
    masks = _arguments.dequantised("masks", given)
    if masks.ndim == 4 and masks.shape[1] == 1:
        return masks[:, 0]
    if masks.ndim != 3:
        raise ValueError(f"masks: shape {masks.shape}, expected (K, 1, h, w) or (K, h, w)")
    return masks


def check_coded(name: str, shape: tuple[int, ...], out: Any = None) -> None:
    """Check that an image can be coded, and that nobody wants it written."""
    if out is not None:
        raise ValueError("out: an array, expected None, since codes are returned")
    if math.prod(shape) >= MOST_CODED:
        raise ValueError(f"{name}: {shape}, expected less than 2**32 pixels, which codes count")


def _padding(value: Any, rule: str) -> int:
    """Return the width of the border; rules that sample need one of zeros."""
    padding = _arguments.integer("padding", value, 0, MOST_PADDING)
    if rule != "torchvision" and padding != 1:
        raise ValueError(f"padding: {padding}, expected 1, since rule {rule!r} has no padding")
    return padding


def least_value(value: Any, coded: bool) -> float | None:
    """Return the number of a threshold, or None."""
    if value is None:
        if coded:
            raise ValueError("threshold: None, expected a number, since codes are of set pixels")
        return None
    number = _arguments.number("threshold", value, "a number or None")
    if math.isnan(number):
        raise ValueError(f"threshold: {value!r}, expected a number or None")
    return number


def given_boxes(given: Any, count: int) -> np.ndarray:
    """Return boxes as (K, 4), of the caller's type."""
    boxes = _boxes.boxes_array("boxes", given)
    boxes = boxes.reshape(0, 4) if boxes.shape == (0,) else boxes
    if boxes.shape != (count, 4):
        raise ValueError(
            f"boxes: shape {boxes.shape}, expected ({count}, 4), a row [x1, y1, x2, y2] a mask"
            f"{_boxes.flat_hint(boxes.shape, (4,)) or _boxes.wide_hint(boxes.shape)}"
        )
    return boxes


def _places(
    boxes: np.ndarray, width: int, shape: tuple[int, int], rule: str, padding: int, computed: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return where masks lie, as mask_place of ``pyx/images/structs.h``, and corners of boxes.

    Boxes are converted to the type of the masks first.
    """
    if not len(boxes):
        return np.empty((0, 8), np.int64), np.empty((0, 4))
    plain = boxes.dtype.char in "fd" and boxes.dtype.isnative and boxes.flags.aligned
    rows = boxes if plain else boxes.astype(np.float64)
    given = (computed == FLOAT32, (RULES.index(rule), padding), width, shape)
    places, corners, wrong, form = paste.places(rows, *given)
    if wrong >= 0:
        with np.errstate(all="ignore"):
            finite(boxes, corners.astype(computed), computed)
    _boxes.warn_of_form(form)
    return places, corners


def finite(boxes: np.ndarray, corners: np.ndarray, computed: np.dtype) -> np.ndarray:
    """Return the corners of boxes in the type that is computed in, all of them finite."""
    wrong = ~np.isfinite(corners).all(axis=1)
    if wrong.any():
        k = int(wrong.argmax())
        beyond = f"which is larger than {computed.name} can tell"
        raise _boxes.not_finite(f"boxes[{k}]", boxes[k], _arguments.CORNERS, beyond)
    return corners


def warn_of_form(corners: np.ndarray, shape: tuple[int, int]) -> None:
    """Warn of corners (K, 4) that seem to be something else."""
    _boxes.warn_of_form(paste.form(np.ascontiguousarray(corners, np.float64), shape))


def whole(numbers: np.ndarray) -> np.ndarray:
    """Return whole numbers as int64."""
    return numbers.clip(-FARTHEST, FARTHEST).astype(np.int64)
