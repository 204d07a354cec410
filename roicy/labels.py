"""Labels of the pixels of pictures, from the small maps that segmentation networks give."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, TypedDict, overload

import numpy as np

from ._checks import _arguments, _names
from ._checks import _names as t
from ._docs import raises
from ._kernels import labels as kernels
from ._kernels import machine
from ._machine import _memory, _threads
from .masks import FORMATS, Code, check_coded, least_value

__all__ = ["Segment", "label_map", "label_segments", "resize_masks"]

HALF_PIXELS, ALIGNED, NEAREST = range(3)  # as in pyx/labels/structs.h
# The types of labels by default, the first that has room, and all that there are.
DEFAULT = tuple(map(np.dtype, ("uint8", "uint16", "int32", "int64")))
INTEGERS = tuple(map(np.dtype, "BHbhiIlqLQ"))
BELOW = 255  # the label of what is below the threshold, as most data sets have it
INT64 = -(2**63), 2**63 - 1
MOST_REGIONS = 2**16  # labels of regions are indices
COUNTED = 2**20  # regions that are counted at once, of all pictures
OF_AXIS = 4  # numbers of an output row or column: two weights, and the room of two for integers
MOST_CLASSES = machine.LARGEST_EXACT["float32"]
Coded = tuple[bytes, int, int, int, int, int, float]  # code, area, x0, y0, x1, y1, sum of values
NOTHING: Coded = (b"0", 0, 0, 0, 0, 0, 0.0)  # of a mask without pixels


class Segment(TypedDict):
    """The pixels of a label, as COCO has them."""

    id: int  # the label
    area: int  # pixels
    bbox: list[int]  # x, y, width and height
    segmentation: Code | None


@overload
def label_map(
    maps: t.Quantised, size: t.Shape, *, layout: t.Layout = "NCHW", align_corners: bool = False,
    mode: t.Methods = "bilinear", via: t.Shape | None = None, box: t.NumberRow = None,
    weights: t.NumberRow = None, labels: t.Counts = None, threshold: t.Number | None = None,
    below: t.Index | None = None, values: Literal[False] = False, dtype: t.DTypeLike | None = None,
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> t.NDArray[Any]:  # fmt: skip
    ...
@overload
def label_map(
    maps: t.Quantised, size: t.Shape, *, layout: t.Layout = "NCHW", align_corners: bool = False,
    mode: t.Methods = "bilinear", via: t.Shape | None = None, box: t.NumberRow = None,
    weights: t.NumberRow = None, labels: t.Counts = None, threshold: t.Number | None = None,
    below: t.Index | None = None, values: Literal[True], dtype: t.DTypeLike | None = None,
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> tuple[t.NDArray[Any], t.NDArray[Any]]:  # fmt: skip
    ...


@raises()
def label_map(
    maps: t.Quantised, size: t.Shape, *, layout: t.Layout = "NCHW", align_corners: bool = False,
    mode: t.Methods = "bilinear", via: t.Shape | None = None, box: t.NumberRow = None,
    weights: t.NumberRow = None, labels: t.Counts = None, threshold: t.Number | None = None,
    below: t.Index | None = None, values: bool = False, dtype: t.DTypeLike | None = None,
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> t.NDArray[Any] | tuple[t.NDArray[Any], t.NDArray[Any]]:  # fmt: skip
    """The class of each pixel of a picture: the largest of maps that are enlarged to it.

    ::

        enlarged = interpolate(maps, size)
        out[n, y, x] = argmax over c of weights[c] * enlarged[n, c, y, x]

    The maps are not enlarged for that.  A pixel lies between four numbers of each map, and most
    pixels lie where all four numbers of one class are above those of the other classes.

    Parameters
    ----------
    maps : ndarray (C, h, w) or (N, C, h, w), float32, float64, float16 or bfloat16
        What a network gives for each of C classes, with any strides.  Those of the last two types
        are computed with as float32, and so are int8, uint8, int16 and uint16.  A triple
        (integers, scale, zero_point) means (integers - zero_point) * scale.  Maps of volumes are
        (C, d, h, w) or (N, C, d, h, w).
    size : (int, int) or (int, int, int)
        Height and width of the picture, (H, W), or the extents of a volume, (D, H, W).  They may be
        smaller than those of the maps, too.
    layout : {"NCHW", "NHWC"}, optional
        "NHWC": classes are the last dimension of maps, as in (h, w, C) or (N, h, w, C).
    align_corners : bool, optional
        The centres of the outermost pixels of picture and maps lie on each other.  By default their
        edges do.
    mode : {"bilinear", "nearest"}, optional
        How maps are enlarged; "bilinear" is trilinear for volumes.  Or one for each axis, (y, x) or
        (z, y, x), as for thick slices ("nearest", "bilinear", "bilinear").
    via : (int, int), optional
        Maps are enlarged to this height and width first, and from there to `size`, as the models
        do that enlarge to the input of their network and then to the picture.  Not for volumes, and
        neither is `box`.
    box : (float, float, float, float), optional
        The part of the maps that shows the picture, [x1, y1, x2, y2] in pixels of the maps, or of
        `via`.  The rest is the padding of a letterbox, and is not read: the outermost pixels that
        the box touches repeat.
    weights : sequence of C numbers from 0 to 1, optional
        What the enlarged maps of each class are multiplied by, as the scores of queries; by default
        1.  The threshold is compared with the products.
    labels : sequence of C integers, optional
        The label of each class; by default 0 to C - 1.
    threshold : float, optional
        A pixel whose largest value is below, or NaN, gets the label `below`.
    below : int, optional
        By default 255.
    values : bool, optional
        Return the largest values, too.
    dtype : dtype, optional
        Any type of integers that has room for the labels.  By default the first one of uint8,
        uint16, int32 and int64 that has.
    out : ndarray (H, W), (N, H, W), (D, H, W) or (N, D, H, W), optional
        Labels are written to it, and it is returned.
    num_threads : int, optional
        At most as many threads are used; by default :func:`roicy.get_num_threads`.  The result
        does not depend on it, nor on the other pictures of a batch.

    Returns
    -------
    labels : ndarray (H, W), (N, H, W), (D, H, W) or (N, D, H, W)
        The lowest class of those that are equally large.  As in NumPy's argmax, NaN is larger than
        all numbers.
    values : ndarray of the same shape, float32, or float64 of maps of this type
        Only with `values`.

    Notes
    -----
    Values are those of PyTorch's ``interpolate(maps, size, mode=mode, align_corners=...)`` of maps
    that are contiguous, with a height and width of more than 128 together; PyTorch adds in another
    order for others.  Labels are those of all values in the type that is computed in, also where
    values nearly tie.  A number that is not finite has PyTorch's neighbours, too: 0 times infinity
    is NaN.  But an axis that keeps its size reads no neighbour, and values are the numbers there.
    Volumes are enlarged along D first and PyTorch does that last, so the last bits of
    values may differ.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> maps = np.array([[[4, 0], [4, 0]], [[1, 1], [1, 2]]], np.float32)
    >>> roicy.label_map(maps, (4, 6))
    array([[0, 0, 0, 0, 1, 1],
           [0, 0, 0, 0, 1, 1],
           [0, 0, 0, 1, 1, 1],
           [0, 0, 0, 1, 1, 1]], dtype=uint8)
    """
    size = _arguments.items("size", size)
    is_volume = isinstance(size, (list, tuple)) and len(size) == 3
    call = Call(maps, layout, of_volume=is_volume)
    call.place(size, via, box, (mode, align_corners))
    call.name(labels, threshold, below, weights)
    call.returned(out, dtype, _arguments.flag("values", values))
    call.compute(None, _threads.resolve(num_threads))
    found = call.result if out is None else out
    return (found, call.numbers) if values else found


@raises()
def label_segments(
    maps: t.Quantised, size: t.Shape, *, layout: t.Layout = "NCHW", align_corners: bool = False,
    mode: t.Methods = "bilinear", via: t.Shape | None = None, box: t.NumberRow = None,
    weights: t.NumberRow = None, labels: t.Counts = None, threshold: t.Number | None = None,
    below: t.Index | None = None, codes: bool = False, dtype: t.DTypeLike | None = None,
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> tuple[t.NDArray[Any], list[Any]]:  # fmt: skip
    """The labels of :func:`label_map`, and the area, the box and the code of each.

    They are counted while the labels are computed, as panoptic and semantic results in COCO's
    formats need them.

    Parameters
    ----------
    maps, size, layout, align_corners, mode, via, box, weights, labels, threshold, below :
        As in :func:`label_map`.  Labels are 0 to 65535.
    codes : bool, optional
        Make the run-length code of each label, too.
    dtype, out, num_threads :
        As in :func:`label_map`.

    Returns
    -------
    labels : ndarray (H, W) or (N, H, W)
    segments : list of dict, or such a list for each picture of a batch
        One for each label that the picture has, by ascending labels: "id", the label; "area", its
        pixels; "bbox", [x, y, width, height] around them; and "segmentation", the code
        {"size": [H, W], "counts": bytes} with `codes`, or else None.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> maps = np.array([[[4, 0], [4, 0]], [[1, 1], [1, 2]]], np.float32)
    >>> _, segments = roicy.label_segments(maps, (4, 6), codes=True)
    >>> segments[1]
    {'id': 1, 'area': 10, 'bbox': [3, 0, 3, 4], 'segmentation': {'size': [4, 6], 'counts': b'>:'}}
    """
    call = Call(maps, layout)
    call.place(size, via, box, (mode, align_corners))
    call.name(labels, threshold, below, weights)
    low, high = call.span()
    if low < 0 or high >= MOST_REGIONS:
        raise ValueError(f"labels: from {low} to {high}, expected 0 to {MOST_REGIONS - 1}")
    coded = _arguments.flag("codes", codes)
    if coded:
        check_coded("size", call.size)
    call.returned(out, dtype, False)
    found = call.compute((high + 1, coded), _threads.resolve(num_threads))
    segments = [[_segment(one, call.size) for one in image] for image in found]
    return call.result if out is None else out, segments[0] if call.one else segments


def _segment(found: tuple[Any, ...], size: tuple[int, int]) -> Segment:
    label, area, x0, y0, x1, y1, counts = found
    code: Code | None = None if counts is None else {"size": list(size), "counts": counts}
    return {"id": label, "area": area, "bbox": [x0, y0, x1 - x0, y1 - y0], "segmentation": code}


@overload
def resize_masks(
    masks: t.Quantised, size: t.Shape, *, threshold: t.Numbers = 0.0, align_corners: bool = False,
    via: t.Shape | None = None, box: t.NumberRow = None, format: Literal["image"] = "image",
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> t.NDArray[Any]:  # fmt: skip
    ...
@overload
def resize_masks(
    masks: t.Quantised, size: t.Shape, *, threshold: t.Numbers = 0.0, align_corners: bool = False,
    via: t.Shape | None = None, box: t.NumberRow = None, format: Literal["rle"],
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> list[Code]:  # fmt: skip
    ...


@raises()
def resize_masks(
    masks: t.Quantised, size: t.Shape, *, threshold: t.Numbers = 0.0, align_corners: bool = False,
    via: t.Shape | None = None, box: t.NumberRow = None, format: t.Form = "image",
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> t.NDArray[Any] | list[Code]:  # fmt: skip
    """Masks of whole pictures, enlarged and compared with a threshold, or run-length coded.

    ::

        out[..., y, x] = interpolate(masks, size)[..., y, x] > threshold

    Where the four numbers around some pixels are all above the threshold, or all below, nothing is
    computed.  :func:`roicy.paste_masks` is for masks that have boxes.

    Parameters
    ----------
    masks : ndarray (..., h, w), float32, float64, float16 or bfloat16
        What a network gives for each object, with any strides; also integers, or a triple of
        integers, scale and zero point, as in `label_map`.
    size : (int, int)
        Height and width of the picture, (H, W).
    threshold : float or sequence of floats, optional
        A pixel is set if its value is larger; a sequence has one for each mask.  Of numbers before
        the logistic function, those above 0 are more than one half after it.
    align_corners, via, box : optional
        As in :func:`label_map`.  With ``via=(1024, 1024)`` and the box of the resized picture these
        are SAM's masks, and with ``via`` the size of its input those of Mask2Former.
    format : {"image", "rle"}, optional
        "rle": run-length codes, made without the images.
    out : ndarray (..., H, W) of bool or uint8, optional
        Written to, and returned.
    num_threads : int, optional
        At most as many threads are used; by default :func:`roicy.get_num_threads`.

    Returns
    -------
    ndarray (..., H, W) of bool
        With "rle" a list of all codes, {"size": [H, W], "counts": bytes}, in the order of masks.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> masks = np.array([[[1, -1], [-1, -1]]], np.float32)
    >>> roicy.resize_masks(masks, (3, 5)).astype(int)
    array([[[1, 1, 0, 0, 0],
            [0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0]]])
    >>> roicy.resize_masks(masks, (3, 5), format="rle")
    [{'size': [3, 5], 'counts': b'01209'}]
    """
    call, given = masks_of(masks)
    call.place(size, via, box, ("bilinear", align_corners))
    call.limit(threshold, [1])
    threads = _threads.resolve(num_threads)
    if _arguments.choice("format", format, FORMATS) == "rle":
        check_coded("size", call.size, out)
        found = call.codes(False, threads)
        return [{"size": list(call.size), "counts": one[0]} for one in found]
    shape = (*given.shape[:-2], *call.size)
    made = _memory.result(out, shape, (np.dtype(bool), np.dtype(np.uint8)), (given,))
    pixels = made.view(np.uint8)
    call.result = pixels.reshape(len(call.maps), *call.size)
    call.compute(None, threads)
    if not np.may_share_memory(call.result, pixels):  # of strides that no reshape can keep
        pixels[...] = call.result.reshape(shape)
    return made if out is None else out


def masks_of(masks: Any) -> tuple[Call, np.ndarray]:
    """Return masks (..., h, w) as the maps (K, 1, h, w) of a call, and as they are."""
    given, meaning = _arguments.quantised("masks", masks)
    if given.ndim < 2 or 0 in given.shape[-2:]:
        raise ValueError(
            f"masks: shape {given.shape}, expected (..., h, w) with at least one number a mask"
        )
    flat = given.reshape(math.prod(given.shape[:-2]), 1, *given.shape[-2:])
    call = Call(flat, "NCHW", "masks")
    call.meaning = meaning
    return call, given


class Axis(NamedTuple):
    """Where the pixels of an axis lie."""

    first: float  # edge of the box, in numbers of maps
    extent: float
    pixels: int
    rule: int


class Axes(NamedTuple):
    """The axes of a call."""

    y: Axis
    x: Axis
    z: Axis | None = None  # of volumes
    before: Axes | None = None  # of an enlargement before


class Maps(NamedTuple):
    """Maps as kernels take them: (numbers - zero) * scale."""

    numbers: np.ndarray  # (N, C, h, w) or (N, C, d, h, w), types of two bytes as uint16
    kind: str  # NumPy's character of their type
    scale: float
    zero: float


class Rule(NamedTuple):
    """How the winner of a pixel is found, and what it is called."""

    names: np.ndarray  # of the classes, and of what is below the threshold
    weights: np.ndarray  # of the classes
    bounded: bool  # whether there is a threshold
    threshold: float
    thresholds: np.ndarray | None  # one for each mask, in place of the threshold


class Call:
    """The arguments of a call, checked."""

    numbers: np.ndarray | None = None  # the values of winners, where they are wanted
    thresholds: np.ndarray | None = None  # of each mask

    def __init__(self, maps: Any, layout: Any, name: str = "maps", of_volume: bool = False):
        last = _arguments.layout_of(layout).axes is not None
        given, self.meaning = _arguments.quantised(name, maps)
        given = _arguments.addressable(name, given)
        self.dimensions = 3 if of_volume else 2
        self.one = given.ndim == self.dimensions + 1
        if given.ndim - self.dimensions not in (1, 2):
            spelt = "d, h, w" if of_volume else "h, w"
            spelt = f"{spelt}, C" if last else f"C, {spelt}"
            raise ValueError(f"{name}: shape {given.shape}, expected ({spelt}) or (N, {spelt})")
        batch = given[None] if self.one else given
        self.maps = np.moveaxis(batch, -1, 1) if last else batch
        self.computed = _arguments.computed(given.dtype)
        images, classes, *shown = self.maps.shape
        _arguments.extents(name, (images, classes, max(shown[:-1]), shown[-1]))
        if not (classes and all(shown)) or classes > MOST_CLASSES:
            raise ValueError(
                f"{name}: shape {given.shape}, expected at least one class and one pixel, and at "
                "most 2**24 classes"
            )

    def place(self, size: Any, via: Any, box: Any, how: tuple[Any, Any]) -> None:
        """Say where pixels lie among the numbers of maps."""
        mode, align_corners = how
        if mode == "trilinear":
            raise ValueError(
                "mode: 'trilinear', expected 'bilinear' or 'nearest'; 'bilinear' is trilinear for "
                "volumes, whose size has three numbers"
            )
        modes = mode if isinstance(mode, (list, tuple)) else [mode] * self.dimensions
        if len(modes) != self.dimensions:
            raise ValueError(f"mode: {mode!r}, expected one mode, or {self.dimensions}")
        nearest = [_arguments.choice("mode", one, _arguments.METHODS) == "nearest" for one in modes]
        rule = ALIGNED if _arguments.flag("align_corners", align_corners) else HALF_PIXELS
        if any(nearest) and (rule == ALIGNED or via is not None):
            other = "align_corners: True" if rule == ALIGNED else f"via: {via!r}"
            raise ValueError(f"{other}, expected mode 'bilinear' for that, not 'nearest'")
        shown = self.maps.shape[-2:]
        *depth, height, width = self.size = _arguments.picture("size", size, 0, self.dimensions)
        z = before = None
        rules = [NEAREST if one else rule for one in nearest]
        if depth:
            for name, value in (("via", via), ("box", box)):
                if value is not None:
                    raise ValueError(f"{name}: {value!r}, expected None for a volume")
            z = Axis(0.0, float(self.maps.shape[2]), *depth, rules[0])
        if via is not None:
            between = _arguments.picture("via", via, 1)
            if between[0] < shown[0] or between[1] < shown[1]:
                raise ValueError(f"via: {via!r}, expected at least the {shown} of the maps")
            ends = zip(shown, between, strict=True)
            before = Axes(*(Axis(0.0, float(extent), count, rule) for extent, count in ends))
            shown = between
        x1, y1, x2, y2 = corners(box, shown)
        y, x = Axis(y1, y2 - y1, height, rules[-2]), Axis(x1, x2 - x1, width, rules[-1])
        self.axes = Axes(y, x, z, before)
        largest = [("size", size, height + width)]
        if via is not None:
            largest.append(("via", via, sum(shown)))
        for name, value, pixels in largest:
            room = OF_AXIS * self.computed.itemsize * pixels
            if _memory.is_lacking(room):
                raise MemoryError(
                    f"{name}: {value!r}, whose weights take {room} bytes, more than there are"
                )

    def name(self, labels: Any, threshold: Any, below: Any, weights: Any = None) -> None:
        """Say what maps are multiplied by, what labels are called, and what is below."""
        classes = self.maps.shape[1]
        self.weights = np.ones(classes, self.computed)
        if weights is not None:
            self.weights[:] = shares("weights", weights, classes)
        self.names = np.arange(classes + 1, dtype=np.int64)
        if labels is not None:
            self.names[:-1] = whole_numbers("labels", labels, classes)
        least = least_value(threshold, False)
        self.bounded, self.threshold = least is not None, least or 0.0
        if not self.bounded:
            if below is not None:
                raise ValueError(f"below: {below!r}, expected a threshold with it")
            self.names[-1] = self.names[0]
            return
        self.names[-1] = _arguments.integer("below", BELOW if below is None else below, *INT64)
        if below is None and BELOW in self.names[:-1]:
            _names.warn(
                f"below: {BELOW} by default, which is the label of a class, too; pass one that no "
                "class has"
            )

    def returned(self, out: Any, dtype: Any, with_values: bool) -> None:
        """Make the arrays that are returned, or take the caller's."""
        shape = self.maps.shape[:1] + self.size
        whole = self.size if self.one else shape
        types = (self._dtype(dtype),) if dtype is not None or out is None else INTEGERS
        self.result = _memory.result(out, whole, types, (self.maps,))
        self._check_room(self.result.dtype, "out")
        if with_values:
            self.numbers = _memory.new(whole, self.computed)

    def compute(self, regions: tuple[int, bool] | None, threads: int) -> list[Any]:
        """Write labels, and return the regions of each picture, if they are wanted."""
        if not self.result.size:
            return [[] for _ in self.maps]
        result, numbers = self.result, self.numbers
        if self.one:
            result, numbers = result[None], None if numbers is None else numbers[None]
        # The labels of all pictures are counted at once, whether a picture has them or not.
        found, together = [], len(result)
        if regions is not None:
            together = max(COUNTED // regions[0], 1)
        maps = self._maps()
        for first in range(0, len(result), together):
            some = slice(first, first + together)
            outs = result[some], None if numbers is None else numbers[some]
            part = maps._replace(numbers=maps.numbers[some])
            found += kernels.compute(part, self.axes, self._rule(), outs, regions, threads) or []
        return found

    def codes(self, with_sums: bool, threads: int) -> list[Coded]:
        """Return what kernels count of masks."""
        check_coded("size", self.size)
        if not math.prod(self.size) or not len(self.maps):
            return [NOTHING for _ in self.maps]
        return kernels.codes(self._maps(), self.axes, self._rule(), with_sums, threads)

    def limit(self, threshold: Any, labels: Any, below: int = 0) -> None:
        """Say what masks have to exceed: a number, or one for each of them."""
        limits = _arguments.items("threshold", threshold)
        count = math.prod(self.maps.shape[:2])
        several = isinstance(limits, (list, tuple))
        if several and len(limits) != count:
            raise ValueError(f"threshold: {len(limits)} numbers, expected {count}, one for a mask")
        numbers = limits if several else [threshold]
        found = np.empty(len(numbers), self.computed)
        with np.errstate(all="ignore"):  # what is beyond the type is infinite
            for i, one in enumerate(numbers):
                found[i] = _arguments.number("threshold", one)
            if not np.isfinite(found).all():
                raise ValueError(
                    f"threshold: {threshold!r}, expected a finite {self.computed.name}"
                )
            least = np.nextafter(found, self.computed.type(np.inf)).astype(np.float64)
        self.thresholds = least if several else None
        self.weights = np.ones(len(labels), self.computed)
        self.names = np.full((len(labels), 2), below, np.int64)
        self.names[:, 0] = labels
        self.bounded, self.threshold = True, 0.0 if several else float(least[0])

    def paint(self, out: np.ndarray, threads: int) -> None:
        """Write the label of the first mask of each pixel."""
        kernels.paint(self._maps(), self.axes, self._rule(), out, threads)

    def _maps(self) -> Maps:
        return Maps(_arguments.bits(self.maps), self.maps.dtype.char, *self.meaning)

    def _rule(self) -> Rule:
        return Rule(self.names, self.weights, self.bounded, self.threshold, self.thresholds)

    def span(self) -> tuple[int, int]:
        """Return the least and the largest label."""
        return int(self.names.min()), int(self.names.max())

    def _dtype(self, given: Any) -> np.dtype:
        """Return the type of labels that the caller wants, or else the first that has room."""
        if given is None:
            return next(one for one in DEFAULT if self._has_room(one))
        try:
            dtype = np.dtype(given)
        except TypeError:
            dtype = None
        if dtype not in INTEGERS:
            raise TypeError(f"dtype: {given!r}, expected a type of integers")
        self._check_room(dtype, "dtype")
        return dtype

    def _has_room(self, dtype: np.dtype) -> bool:
        (low, high), room = self.span(), np.iinfo(dtype)
        return bool(room.min <= low and high <= room.max)

    def _check_room(self, dtype: np.dtype, name: str) -> None:
        if not self._has_room(dtype):
            low, high = self.span()
            expected = f"a type that has room for {low} to {high}"
            raise ValueError(f"{name}: {dtype.name}, expected {expected}")


def corners(box: Any, shown: tuple[int, ...]) -> tuple[float, ...]:
    """Return the corners of a box inside of maps of some height and width, or all of them."""
    height, width = shown
    if box is None:
        return 0.0, 0.0, float(width), float(height)
    box = _arguments.items("box", box)
    if not isinstance(box, (list, tuple)) or len(box) != 4:
        raise ValueError(f"box: {box!r}, expected four numbers, [x1, y1, x2, y2]")
    x1, y1, x2, y2 = (_arguments.number("box", one) for one in box)
    if not (0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height):
        raise ValueError(
            f"box: {box!r}, expected corners [x1, y1, x2, y2] within {height} x {width} pixels"
        )
    return x1, y1, x2, y2


# Arrays are filled number by number, since NumPy keeps Python's lock for the whole of a list.
def whole_numbers(name: str, given: Any, count: int) -> np.ndarray:
    """Return `count` integers."""
    given = _arguments.items(name, given)
    if not isinstance(given, (list, tuple, range)) or len(given) != count:
        raise ValueError(f"{name}: {given!r}, expected {count} integers, one for each class")
    found = np.empty(count, np.int64)
    for i, one in enumerate(given):
        found[i] = _arguments.integer(f"{name}[{i}]", one, *INT64)
    return found


def shares(name: str, given: Any, count: int) -> np.ndarray:
    """Return `count` numbers from 0 to 1."""
    given = _arguments.items(name, given)
    if not isinstance(given, (list, tuple, range)) or len(given) != count:
        raise ValueError(f"{name}: {given!r}, expected {count} numbers, one for each class")
    found = np.empty(count)
    for i, one in enumerate(given):
        found[i] = _arguments.fraction(f"{name}[{i}]", one)
    return found
