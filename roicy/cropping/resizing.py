"""Frames of bytes, resized with the filters of Pillow and to its bytes: :func:`resize`."""

from __future__ import annotations

import functools
import itertools
import math
import numbers
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._checks import _arguments, _boxes
from .._checks import _names as t
from .._docs import raises
from .._kernels import resize as _resize
from .._machine import _memory, _threads
from . import arguments, filters

FITS = ("stretch", "letterbox")
ALPHAS = ("drop", "pillow")
OVERVIEWS = ("first", "last")
ARITHMETICS = ("pillow", "torch")
PILLOWS = {1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}  # its numbers
KEPT = 64  # tables of bytes that are kept
MOST_CHANNELS, AT_ONCE = 16, 4  # that a frame may have, and that the kernels take
MOST = _arguments.MOST_BINS  # a side of what is resized, and how far it may lie off the result


class Target(NamedTuple):
    """Where pixels go, and what bytes become; strides are bytes."""

    rows: np.ndarray  # (h,) where each row lies
    columns: np.ndarray  # where each run of columns lies
    run: int  # columns of a run
    width: int
    stride: int  # from column to column of a run
    places: list[int]  # of each channel of the frames
    table: np.ndarray  # (C, 257) what bytes of each become, and padding
    repeats: int
    repeat_stride: int
    copied: bool  # bytes stay what they are, and those of a pixel stay together

    def of(self, k: int, first: int, stop: int) -> Target:
        """Return where the channels first .. stop - 1 of picture k of a video go."""
        places = [place + k * self.repeat_stride for place in self.places[first:stop]]
        copied = self.copied and len(places) == len(self.places)
        return self._replace(places=places, table=self.table[first:stop], copied=copied)


@raises(", or a box does not lie on its frame")
def resize(
    frames: t.Frames, size: t.Size | t.SizeDict, boxes: t.BoxesOfFrames | None = None, *,
    filter: t.Filter = "bicubic", arithmetic: t.Arithmetic = "pillow", mean: t.Numbers = None,
    std: t.Numbers = None, scale: t.Numbers = None, swap_channels: bool = False,
    fit: t.ResizeFit = "stretch", content: t.Content = None, pad_value: t.Numbers = 0,
    border: t.Border = "image", alpha: t.Alpha = None, rgb: bool = False,
    channels: t.Channels = "first",
    dtype: t.DTypeLike = "float32", quantization: t.Quantization = None,
    patch: t.Index | None = None, merge: t.Index = 1, repeat: t.Index = 1, temporal: t.Index = 1,
    tiles: t.Pair | None = None, overview: t.Overview = None, pillow: t.Index = 13,
    boxes_num: t.Counts = None, color: t.Color = None, color_range: t.Range = "video",
    color_matrix: t.Matrix = "bt601", out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> t.NDArray[Any]:  # fmt: skip
    """Resize pictures of bytes as Pillow does, to the same bytes, into the input of a network.

    A byte of a picture that Pillow resized becomes ``(byte * scale - mean) / std``, and is stored
    where the network reads it, all in one call.

    Parameters
    ----------
    frames : ndarray (H, W), (H, W, C) or (N, H, W, C), or list of ndarrays (H_n, W_n[, C])
        Pictures of uint8, of 1 to 16 channels and any strides, or YCbCr with `color`.  Rows whose
        pixels lie together, and separate planes, are read where they lie; others are copied first,
        and so are pixels of more than four channels.
    size : int, (int, int) or dict
        Height and width of the result, (h, w) or ``{"height": h, "width": w}``; of one tile, with
        `tiles`.
    boxes : array_like, or list of N array_likes, optional
        In pixels, on the frames: (K, 4) with rows [x1, y1, x2, y2] of the only frame, (K, 5) with
        rows [frame_index, x1, y1, x2, y2], or a list with the boxes of each frame.  By default
        each frame is resized as a whole.
    filter : {"bicubic", "lanczos", "bilinear", "hamming", "box"} or int, optional
        Pillow's filter; 1 to 5 are Pillow's numbers of them, such as ``Image.BICUBIC``.
    arithmetic : {"pillow", "torch"}, optional
        Whose bytes and numbers are made: Pillow's, or those of PyTorch, of which "bicubic",
        "lanczos" and "bilinear" are those of ``torchvision.transforms.v2.functional.resize`` and
        ``interpolate`` for tensors of uint8 on the CPU, with ``antialias=True``.  Of processors
        without AVX2 and NEON, torchvision's bilinear filter gives other bytes than ``interpolate``,
        which is followed.
    mean, std, scale : float or sequence of C floats, optional
        In the order of the channels of the result; by default 0, 1 and 1.  By "pillow" the product
        is computed in float64 and rounded to float32, and the difference and the quotient are
        computed in float32.  By "torch" it is ``(byte - mean / scale) / (std / scale)``, each step
        rounded to float32, or ``byte * scale`` if there are neither `mean` nor `std`.  So do the
        image processors of transformers for Pillow, and those for torchvision.
    swap_channels : bool, optional
        Whether the first three channels are reversed: BGR to RGB and back.
    fit : {"stretch", "letterbox"}, optional
        "stretch": a box fills the result.  "letterbox": it keeps its aspect and lies in the middle,
        in as many pixels as by Pillow's ``ImageOps.pad``, and at least one.
    content : (4,) or (K, 4) ints, optional
        Another place for a resized box: its top and left in the result, its height and its width.
        It may lie off the result, of which it then fills what it covers: the middle of a larger
        picture, for instance.  With `tiles`, it is a place in their grid.
    pad_value : float or sequence of C floats, optional
        The rest of the result, before it is scaled; in the order of the channels of the result.
    border : {"image", "crop", "constant"}, optional
        "image": as ``resize(size, box=box)`` of Pillow, which reads pixels around the box, and
        rounds its corners to float32.  "crop": as ``crop(box).resize(size)``, which rounds them to
        whole pixels, and reads no others.  "constant": so is a box of a picture around which
        everything is `pad_value`, in bytes, so that boxes may leave their frames.
    alpha : {"drop", "pillow"}, optional
        Of frames of 2 or 4 channels, of which the last is alpha.  "drop": it is not read.
        "pillow": as Pillow resizes LA and RGBA, whose colours are multiplied by alpha first and
        divided by it at last.  By default all channels are resized alike.
    rgb : bool, optional
        Whether the result has three channels: one of grey is repeated, and alpha is not read.
    channels : {"first", "last"}, optional
        Whether the result is (K, C, h, w) or (K, h, w, C), or patches have the numbers of a channel
        or of a pixel together.
    dtype : dtype, optional
        Of the result: float32, float16, bfloat16 (of ml_dtypes), or uint8 or int8, rounded to the
        nearest number, to the even one of two, and moved to what the type holds.
    quantization : (float, int), optional
        Scale and zero point of a network of uint8 or int8, as in :func:`crop`.
    patch : int, optional
        Side of the patches that the result is divided into, row by row.  It is (K, P, D) then, with
        D = C * repeat * patch * patch numbers of each: of every channel its repeated patches, or
        with `channels` "last" the repeated patches.
    merge : int, optional
        Groups of merge x merge patches lie together, and their patches row by row, as Qwen2-VL
        merges them.
    repeat : int, optional
        How often a patch is stored, as frames of a video that does not move.
    temporal : int, optional
        How many boxes that follow each other share their patches, as frames of a video:
        temporal_patch_size of Qwen2-VL.  D has them in place of the repeated patches.
    tiles : (int, int), optional
        Rows and columns of a grid of tiles.  Boxes are resized to the whole of it, and the result
        is (K, tiles, C, h, w) or (K, tiles, h, w, C).
    overview : {"first", "last"}, optional
        Where among the tiles is one more, to which the whole box is resized.
    pillow : int, optional
        Which version's order of axes is followed.  Version 13 resizes along y first if the height
        falls by more than twice as many pixels as the width does, counted from the sides of the
        frame, or of what was cut out of it.  Versions before do so if it falls at all and the frame
        is more than a hundred times as high as wide.  Otherwise x is first.
    boxes_num : (N,) ints, optional
        Number of boxes of each frame, for boxes without frame_index, which are sorted by frame.
    color, color_range, color_matrix : str, optional
        The format of frames that are YCbCr, or of 16 bits a pixel, as in :func:`crop`.  Their
        pixels become three bytes, which are then resized.
    out : ndarray, optional
        Written to, and returned.  It has the shape and dtype of the result, may have any strides,
        and shares no memory with what is read.
    num_threads : int, optional
        At most as many threads are used; by default :func:`roicy.get_num_threads`.  The result
        does not depend on it.

    Returns
    -------
    ndarray, (K, C, h, w), (K, h, w, C), (K, P, D), (K, tiles, C, h, w) or (K, tiles, h, w, C)
        Of `dtype`.  With `temporal`, K is that of the patches.

    Notes
    -----
    Output pixel i of n of an axis, whose box goes from a to b, is a weighted mean of the pixels
    from int(c - r + 1/2) to int(c + r + 1/2), where c = a + (i + 1/2) * (b - a) / n is its centre
    and r is the support of the filter, times (b - a) / n where this is above 1.  Weights have
    22 bits after the point, and each axis gives bytes, rounded and clipped
    (``libImaging/Resample.c`` of Pillow 13).  PyTorch resizes along x first, with weights of int16,
    which have as many bits after the point as the largest weight of the axis allows, and at most 22
    (``aten/src/ATen/native/cpu/UpSampleKernel.cpp``).  Neither `reducing_gap` nor `draft` is
    followed.  The taps of some axes are kept, so that sizes that were seen before cost less.

    Examples
    --------
    CLIP has the middle of the picture, whose shorter side becomes 224 pixels:

    >>> import numpy as np, roicy
    >>> frame = np.full((1080, 1920, 3), 128, np.uint8)  # RGB
    >>> batch = roicy.resize(
    ...     frame, 224, content=(0, -87, 224, 398), scale=1 / 255,
    ...     mean=(0.48145466, 0.4578275, 0.40821073), std=(0.26862954, 0.26130258, 0.27577711))
    >>> batch.shape, batch.dtype
    ((1, 3, 224, 224), dtype('float32'))

    Qwen2-VL has patches of 14 pixels, 2 x 2 of which are merged, of a frame that is repeated:

    >>> roicy.resize(frame, (728, 1316), patch=14, merge=2, repeat=2).shape
    (1, 4888, 1176)
    """
    given, rows = _read(frames, boxes, boxes_num, color, color_range, color_matrix)
    extent = _size(size)
    rule = _rule(filter, arithmetic, pillow, alpha)
    if alpha is not None:
        _arguments.choice("alpha", alpha, ALPHAS)
    given, alpha = _three(given, alpha, _arguments.flag("rgb", rgb))
    given, count = _dense(given, alpha)
    order = arguments.places(count, _arguments.flag("swap_channels", swap_channels), given.reversed)
    pixels = arguments.pixels(given, mean, std, scale, pad_value, order)
    table = _table(pixels, (mean, std, scale), quantization, dtype, not rule.pillow)
    _arguments.choice("fit", fit, FITS)
    if _arguments.choice("border", border, arguments.BORDERS) == "constant":
        given, rows = _padded(given, rows, [pixels.pad[c] for c in order], pad_value, alpha)
    last = _arguments.choice("channels", channels, arguments.CHANNELS) == "last"
    form = _Form(extent, count, last, tiles, overview, patch, merge, repeat)
    together = form.together(temporal, len(rows.values))
    threads = _threads.resolve(num_threads)
    whole = boxes is None and boxes_num is None and border != "constant"
    axes = _axes(given, rows, border == "crop", whole)
    result = _memory.result(
        out, (len(axes) // together, *form.shape), (table.dtype,), (*given.arrays, rows.values)
    )
    straight = given.count // 2 if alpha == "pillow" else 0
    for part, shown, target in form.parts(_arguments.bits(result), order, _arguments.bits(table)):
        where = _content(content, fit, axes, shown)
        pictures = _pictures(rows.images.tolist(), axes, where, rule, straight)
        for k, (group, first, stop) in itertools.product(range(together), _groups(given, count)):
            some = target.of(k, first, stop)
            places = np.ascontiguousarray(pictures[0][k::together])
            _resize.resize(group, places, pictures[1], some, part, threads)
        content, fit = None, "stretch"  # of an overview
    return result if out is None else out


def _read(
    value: Any, rows: Any, boxes_num: Any, color: Any, color_range: Any, color_matrix: Any
) -> tuple[arguments.Frames, arguments.Boxes]:
    """Return frames of bytes, and boxes, which are the whole frames if there are none."""
    whole = rows is None and boxes_num is None
    given, of_frames = arguments.read(
        value, np.zeros((0, 4)) if whole else rows, boxes_num, color, color_range, color_matrix,
        MOST_CHANNELS,
    )  # fmt: skip
    if whole:
        of_frames = _whole(given)
    if given.kind not in "BY":
        name = np.dtype(given.kind if given.kind != "H" else "uint16").name
        raise TypeError(
            f"frames: dtype {name}, expected uint8, as Pillow's filters of bytes have; "
            "roicy.crop resizes others"
        )
    if of_frames.kind != "upright":
        raise ValueError(
            f"boxes: of kind {of_frames.kind!r}, expected upright ones, (K, 4) or (K, 5)"
        )
    return given, of_frames


def _dense(given: arguments.Frames, alpha: str | None) -> tuple[arguments.Frames, int]:
    """Return frames whose pixels lie together, or planes, and how many channels are stored.

    For Pillow's alpha, there are frames whose colours are multiplied by it, and then those given.
    """
    channels, arrays = given.channels, given.arrays
    if alpha is not None and (channels not in (2, 4) or given.yuv):
        raise ValueError(f"alpha: {alpha!r}, expected None for frames of {channels} channels")
    if alpha is not None and given.reversed:
        arrays = tuple(array[..., ::-1] for array in arrays)
        given = given._replace(reversed=False, planar=False)
    count = channels - (alpha == "drop")
    if given.yuv or (given.planar and alpha != "pillow"):
        return given._replace(arrays=arrays), count
    dense = [
        array if array.strides[2:] == (channels, 1) or not array.size
        else np.ascontiguousarray(array)
        for array in arrays
    ]  # fmt: skip
    if alpha == "pillow":
        dense = [*map(filters.multiplied, dense), *dense]
        given = given._replace(count=2 * given.count)
    return given._replace(arrays=tuple(dense), planar=False), count


def _size(value: Any) -> tuple[int, int]:
    """Return height and width, which may be those of a dict."""
    if isinstance(value, dict):
        if value.keys() != {"height", "width"}:
            raise ValueError(
                f"size: {value!r}, expected height and width; those that depend on a picture are "
                "computed by roicy.ImageProcessor"
            )
        value = value["height"], value["width"]
    return _arguments.output_size(value, "size")


def _three(
    given: arguments.Frames, alpha: str | None, rgb: bool
) -> tuple[arguments.Frames, str | None]:
    """Return frames of three channels, or four of which the last is dropped, if `rgb` says so."""
    channels = given.channels
    if not rgb or channels == 3:
        return given, alpha
    if channels > 4 or alpha == "pillow":
        what = f"frames of {channels} channels" if channels > 4 else "alpha='pillow'"
        raise ValueError(f"rgb: True, expected False for {what}")
    if channels == 4 and not given.reversed:
        return given, "drop"
    arrays = [array[..., ::-1] if given.reversed else array for array in given.arrays]
    if channels == 4:
        arrays = [array[..., :3] for array in arrays]
        return given._replace(arrays=tuple(arrays), channels=3, planar=False, reversed=False), None
    grey = [np.ascontiguousarray(array[..., :1]) for array in arrays]
    arrays = [np.broadcast_to(array, (*array.shape[:3], 3)) for array in grey]
    return given._replace(arrays=tuple(arrays), channels=3, planar=True, reversed=False), None


def _padded(
    given: arguments.Frames, rows: arguments.Boxes, pad: list[float], value: Any, alpha: str | None
) -> tuple[arguments.Frames, arguments.Boxes]:
    """Return what boxes show of frames that a constant surrounds, and boxes that have all of it."""
    if given.yuv or alpha == "pillow":
        what = "frames of YCbCr" if given.yuv else "alpha='pillow'"
        raise ValueError(f"border: 'constant', expected 'image' or 'crop' for {what}")
    colour = np.array(pad)
    if not ((colour >= 0) & (colour <= 255) & (colour == np.trunc(colour))).all():
        raise ValueError(f"pad_value: {value!r}, expected whole numbers from 0 to 255 as a border")
    frames, arrays = [frame for array in given.arrays for frame in array], []
    corners = np.rint(np.clip(rows.values, -MOST, MOST)).astype(np.int64)
    for k, (image, (x1, y1, x2, y2)) in enumerate(
        zip(rows.images.tolist(), _listed(corners), strict=True)
    ):
        frame = frames[image]
        height, width = frame.shape[:2]
        if x1 >= x2 or y1 >= y2 or (np.abs(rows.values[k]) > MOST).any():
            box = tuple(rows.values[k].tolist())
            raise ValueError(f"boxes[{k}]: {box}, expected sides of at least a pixel")
        top, left, bottom, right = max(y1, 0), max(x1, 0), min(y2, height), min(x2, width)
        inner = frame[top : max(bottom, top), left : max(right, left)]
        if inner.shape[:2] != (y2 - y1, x2 - x1):
            inner = _surrounded(inner, (y2 - y1, x2 - x1), (top - y1, left - x1), colour)
        arrays.append(inner[None])
    planar = given.planar and all(one.strides[2] == 1 for one in arrays)
    if not planar:
        arrays = [one if one.strides[3] == 1 else np.ascontiguousarray(one) for one in arrays]
    given = given._replace(arrays=tuple(arrays), count=len(arrays), planar=planar)
    return given, _whole(given)


def _surrounded(
    inner: np.ndarray, size: tuple[int, int], at: tuple[int, int], colour: np.ndarray
) -> np.ndarray:
    """Return pixels in a frame of one colour, of which a channel that is dropped has any."""
    (height, width, channels), (top, left) = inner.shape, at
    line = np.tile(np.resize(colour, channels).astype(np.uint8), size[1])
    rows = np.empty((size[0], len(line)), np.uint8)  # whole rows are copied fastest
    middle, right = rows[top : top + height], left + width
    rows[:top], rows[top + height :] = line, line
    middle[:, : left * channels] = line[: left * channels]
    middle[:, right * channels :] = line[right * channels :]
    result = rows.reshape(*size, channels)
    result[top : top + height, left:right] = inner
    return result


def _groups(given: arguments.Frames, count: int) -> Iterator[tuple[arguments.Frames, int, int]]:
    """Yield frames of as many channels as the kernels take, and which of `count` these are."""
    if given.channels <= AT_ONCE:
        yield given, 0, count
        return
    for first in range(0, count, AT_ONCE):
        arrays = [array[..., first : first + AT_ONCE] for array in given.arrays]
        if not given.planar:
            arrays = [np.ascontiguousarray(array) for array in arrays]
        stop = min(first + AT_ONCE, count)
        yield given._replace(arrays=tuple(arrays), channels=stop - first), first, stop


class _Rule(NamedTuple):
    """Whose bytes are made."""

    kind: int  # of the filter, in filters.FILTERS
    pillow: int  # the version of Pillow that is followed, or 0 for PyTorch


def _rule(filter: Any, arithmetic: Any, pillow: Any, alpha: Any) -> _Rule:
    if isinstance(filter, numbers.Integral) and not isinstance(filter, bool):
        filter = PILLOWS.get(int(filter), filter)
    kind = filters.FILTERS.index(_arguments.choice("filter", filter, filters.FILTERS))
    version = _arguments.integer("pillow", pillow, 1, 99)
    if _arguments.choice("arithmetic", arithmetic, ARITHMETICS) == "pillow":
        return _Rule(kind, version)
    _arguments.choice("filter", filter, filters.OF_TORCH)
    if alpha == "pillow":
        raise ValueError("alpha: 'pillow', expected None or 'drop' for arithmetic='torch'")
    return _Rule(kind, 0)


def _table(
    pixels: arguments.Pixels, normalisation: tuple[Any, Any, Any], quantization: Any, dtype: Any,
    torch: bool,
) -> np.ndarray:  # fmt: skip
    """Return what the bytes of each channel of the frames become, and padding: (C, 257).

    torch: whether mean and std are divided by the scale first, as by the image processors of
    transformers that have torchvision.
    """
    kind, order = arguments.result_dtype(dtype), pixels.place
    _, zero = arguments.quantized(pixels, quantization, kind)
    given = [
        arguments.numbers("", default if value is None else value, len(order))
        for value, default in zip(normalisation, (-0.0, 1.0, 1.0), strict=True)
    ]
    plain = normalisation[0] is None and normalisation[1] is None
    if torch and not plain and not all(given[2]):
        raise ValueError(f"scale: {normalisation[2]!r}, expected numbers other than 0")
    rows = [[each[c] for c in order] for each in (*given, pixels.pad)]
    step = 1.0 if quantization is None else float(quantization[0])
    # Numbers are a key as bytes, since 0.0 equals -0.0, and gives other ones.
    return _kept_table(np.array(rows).tobytes(), len(order), (step, zero), kind, torch, plain)


@functools.lru_cache(KEPT)
def _kept_table(
    numbers: bytes, channels: int, quantization: tuple[float, int], kind: np.dtype, torch: bool,
    plain: bool,
) -> np.ndarray:  # fmt: skip
    """Return the table of mean, std, scale and padding, which nobody writes to; plain: whether
    there are neither mean nor std.
    """
    # All arrays have one shape: NumPy ends the process where numbers of others lack memory.
    mean, std, scale, pad = np.frombuffer(numbers).repeat(257).reshape(4, channels, 257)
    values = np.tile(np.arange(257, dtype=np.float64), (channels, 1))
    values[:, 256] = pad[:, 0]
    mean, std = mean.astype(np.float32), std.astype(np.float32)
    with np.errstate(all="ignore"):
        if torch and plain:
            values = values.astype(np.float32) * scale.astype(np.float32)
        elif torch:
            by = (1 / scale).astype(np.float32)
            values = (values.astype(np.float32) - mean * by) / (std * by)
        else:
            values = ((values * scale).astype(np.float32) - mean) / std
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            step, zero = quantization
            values = np.rint(values / np.float32(step)) + np.float32(zero)
            values = np.fmin(np.fmax(values, np.float32(limits.min)), np.float32(limits.max))
        return values.astype(kind)


def _whole(given: arguments.Frames) -> arguments.Boxes:
    """Return boxes that are whole frames."""
    values = np.zeros((given.count, 4))
    values[:, 2:] = given.sizes()[:, ::-1]
    return arguments.Boxes("upright", values, np.arange(given.count, dtype=np.int32))


def _listed(array: np.ndarray) -> Iterator[Any]:
    """Return rows as lists, some at a time: as numbers of Python they take much memory."""
    for first in range(0, len(array), _boxes.ROWS_AT_ONCE):
        yield from array[first : first + _boxes.ROWS_AT_ONCE].tolist()


def _axes(given: arguments.Frames, rows: arguments.Boxes, cut: bool, whole: bool) -> np.ndarray:
    """Return of y and x of each box, (K, 2, 4), where the pixels begin that Pillow knows, how many
    there are, and from where to where they are resized; whole: boxes are whole frames.
    """
    sizes = rows.values[:, 3:1:-1] if whole else given.sizes()[rows.images]
    if whole and ((sizes > 0) & (sizes <= MOST)).all():
        result = np.zeros((len(sizes), 2, 4))
        result[:, :, 1] = result[:, :, 3] = sizes
        return result
    with np.errstate(all="ignore"):
        values = (np.rint(rows.values) if cut else rows.values).astype(np.float32).astype(float)
    low, high = values[:, [1, 0]], values[:, [3, 2]]
    right = (low >= 0) & (low <= high) & (high <= sizes) & (sizes > 0) & ((low < high) | (not cut))
    if not right.all():
        k = int((~right).any(axis=1).argmax())
        raise ValueError(
            f"boxes[{k}]: {tuple(rows.values[k].tolist())}, expected one that lies on its frame of "
            f"{sizes[k, 0]:.0f} x {sizes[k, 1]:.0f} pixels"
        )
    if cut:
        return np.stack([low, high - low, 0 * low, high - low], axis=-1)
    return np.stack([0 * low, sizes, low, high], axis=-1)


def _pictures(
    images: list[int], axes: np.ndarray, where: np.ndarray, rule: _Rule, straight: int
) -> tuple[np.ndarray, list[filters.Taps]]:
    """Return rows and tables as the kernel takes them.

    where: (K, 4) top, left, height and width; straight: where frames begin whose colours have not
    been multiplied by alpha, or 0 if none have.
    """
    result = np.empty((len(images), 11), np.int64)
    tables: dict[Any, int] = {}

    def resized(at: float, extent: float, low: float, high: float, count: int) -> tuple[int, int]:
        """Return where the pixels of an axis begin and which table it has; -1 where it is kept."""
        if high - low == count and low == int(low):
            return int(at + low), -1
        key = (int(extent), low, high, count, rule.kind, rule.pillow > 0)
        return int(at), tables.setdefault(key, len(tables))

    for row, image, (y, x), place in zip(
        result, images, _listed(axes), _listed(where), strict=True
    ):
        top, left, height, width = place
        at_y, table_y = resized(*y, height)
        at_x, table_x = resized(*x, width)
        less_y, less_x = y[1] - height, x[1] - width
        y_first = less_y > 2 * less_x if rule.pillow > 12 else y[1] > 100 * x[1]
        y_first = y_first and rule.pillow > 0 and less_y > 0 and table_y >= 0 <= table_x
        # Pillow copies a whole picture that keeps its size, and its alpha does not matter.
        copied = (y[1:], x[1:]) == ([height, 0, height], [width, 0, width])
        divided = straight > 0 and not copied
        row[:5] = image + straight * copied, at_y, at_x, height, width
        row[5:] = table_y, table_x, y_first, divided, top, left
    keys = _boxes.Many(tables)
    return result, _boxes.Many([filters.taps(*key) for key in keys])


def _content(content: Any, fit: str, axes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return where resized boxes lie in a result: (K, 4) top, left, height and width."""
    count = len(axes)
    if content is not None:
        if fit != "stretch":
            raise ValueError(f"fit: {fit!r}, expected 'stretch' beside content")
        try:
            rows = _boxes.array_of(_arguments.items("content", content))
        except ValueError:
            raise ValueError(
                f"content: {content!r}, expected rows (top, left, height, width)"
            ) from None
        if rows.shape not in ((4,), (count, 4)) or rows.dtype.kind not in "iu":
            raise ValueError(
                f"content: shape {rows.shape} of {rows.dtype.name}, expected whole numbers (top, "
                "left, height, width), of all boxes or one row for each"
            )
        wrong = (rows < [-MOST, -MOST, 1, 1]) | (rows > MOST)
        if wrong.any():
            raise ValueError(
                f"content: {rows[wrong][0]}, expected sides from 1 to {MOST}, which begin at most "
                "as far off the result"
            )
        return np.broadcast_to(rows, (count, 4))
    result = np.zeros((count, 4), np.int64)
    result[:, 2:] = size
    if fit != "letterbox":
        return result
    for row, (height, width) in zip(result, _listed(axes[:, :, 3] - axes[:, :, 2]), strict=True):
        if height and width:
            if width / height > size[1] / size[0]:
                row[2] = max(round(height / width * size[1]), 1)
            elif width / height < size[1] / size[0]:
                row[3] = max(round(width / height * size[0]), 1)
            row[:2] = [round((size[i] - int(row[2 + i])) * 0.5) for i in (0, 1)]
    return result


def _places(count: int) -> np.ndarray:
    """Return 0 to count - 1 in the type of strides: NumPy's integers may be shorter."""
    return np.arange(count, dtype=np.intp)


class _Form:
    """The shape of a result, and where its pixels lie."""

    def __init__(
        self, size: tuple[int, int], count: int, last: bool, tiles: Any, overview: Any, patch: Any,
        merge: Any, repeat: Any,
    ):  # fmt: skip
        self.size, self.count, self.last = size, count, last
        self.grid = None if tiles is None else _arguments.output_size(tiles, "tiles")
        self.patch = 0 if patch is None else _arguments.integer("patch", patch, 1, MOST)
        self.merge = _arguments.integer("merge", merge, 1, MOST)
        self.repeat = _arguments.integer("repeat", repeat, 1, MOST)
        self.overview = overview
        self.shape: tuple[int, ...] = (*size, count) if last else (count, *size)
        if overview is not None:
            _arguments.choice("overview", overview, OVERVIEWS)
            if not self.grid:
                raise ValueError(f"overview: {overview!r}, expected None without tiles")
        if self.patch and self.grid:
            raise ValueError(f"patch: {patch!r}, expected None beside tiles")
        if not self.patch and (self.merge, self.repeat) != (1, 1):
            raise ValueError(f"merge, repeat: {merge!r}, {repeat!r}, expected 1 without patch")
        if self.grid:
            if max(self.grid[0] * size[0], self.grid[1] * size[1]) > MOST:
                raise ValueError(
                    f"tiles: {self.grid} of {size}, expected at most {MOST} pixels a side"
                )
            self.shape = (math.prod(self.grid) + (overview is not None), *self.shape)
        elif self.patch:
            unit = self.patch * self.merge
            if size[0] % unit or size[1] % unit:
                raise ValueError(f"size: {size}, expected multiples of patch * merge, {unit}")
            number = count * self.repeat * self.patch**2
            self.shape = (size[0] // self.patch * (size[1] // self.patch), number)

    def together(self, temporal: Any, count: int) -> int:
        """Return how many of `count` boxes share patches."""
        together = _arguments.integer("temporal", temporal, 1, MOST)
        if together > 1:
            if not self.patch or self.repeat > 1:
                raise ValueError(
                    f"temporal: {temporal!r}, expected 1 without patch, and beside repeat"
                )
            if count % together:
                raise ValueError(f"temporal: {temporal!r}, expected a divisor of {count} boxes")
            self.repeat = together
            self.shape = (self.shape[0], self.shape[1] * together)
        self.repeats = 1 if together > 1 else self.repeat
        return together

    def parts(
        self, view: np.ndarray, order: list[int], table: np.ndarray
    ) -> Iterator[tuple[np.ndarray, tuple[int, int], Target]]:
        """Yield views of a result, the size of the picture of each, and where its pixels go; that
        of the overview comes last.
        """
        (height, width), (down, across) = self.size, self.grid or (1, 1)
        if self.patch:
            yield view, self.size, self._patches(view, order, table)
            return
        view = view if self.grid else view[:, None]
        first = int(self.overview == "first")
        tiles = view[:, first : first + down * across]
        target = self._tiles(tiles, (down, across), order, table)
        yield tiles, (down * height, across * width), target
        if self.overview is not None:
            whole = view[:, :1] if first else view[:, -1:]
            yield whole, self.size, self._tiles(whole, (1, 1), order, table)

    def _tiles(
        self, view: np.ndarray, grid: tuple[int, int], order: list[int], table: np.ndarray
    ) -> Target:
        """Return where the pixels of tiles go; view: (K, tiles, C, h, w) or (K, tiles, h, w, C)."""
        strides = view.strides
        y, x, c = strides[2:] if self.last else (strides[3], strides[4], strides[2])
        rows = np.add.outer(_places(grid[0]) * grid[1] * strides[1], _places(self.size[0]) * y)
        columns = _places(grid[1]) * strides[1]
        places = [place * c for place in order]
        width = grid[1] * self.size[1]
        copied = (
            table.dtype == np.uint8 and places == list(range(self.count)) and x == self.count
            and bool((table[:, :256] == np.arange(256)).all())
        )  # fmt: skip
        return Target(
            rows.reshape(-1), columns, self.size[1], width, x, places, table, 1, 0, copied
        )

    def _patches(self, view: np.ndarray, order: list[int], table: np.ndarray) -> Target:
        """Return where the pixels of patches go.

        The patches of merge x merge follow each other.
        """
        _, patch_stride, stride = view.strides
        side, m, count = self.patch, self.merge, self.count
        y, x, c = (side * count, count, 1) if self.last else (side, 1, self.repeat * side**2)
        frame = side**2 * count if self.last else side**2
        height, width = self.size
        down = _places(height // side)
        down = down // m * (width // side) * m + down % m * m
        rows = np.add.outer(down * patch_stride, _places(side) * y * stride)
        across = _places(width // side)
        columns = (across // m * m * m + across % m) * patch_stride
        places = [place * c * stride for place in order]
        return Target(
            rows.reshape(-1), columns, side, width, x * stride, places, table, self.repeats,
            frame * stride, False,
        )  # fmt: skip
