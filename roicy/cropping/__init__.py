"""Crops of camera frames, resized and normalised for a network: :func:`crop`."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from .._checks import _arguments, _names
from .._checks import _names as t
from .._docs import raises
from .._kernels import crop as _crop
from .._machine import _memory, _threads
from . import arguments, matrices

TALL = 5  # times as high as wide: a letter is hardly so


@overload
def crop(
    frames: t.Frames, boxes: t.BoxesOfFrames, size: t.Size, *,
    return_matrices: Literal[False] = False, mean: t.Numbers = None, std: t.Numbers = None,
    scale: t.Numbers = None, swap_channels: bool = False, fit: t.Fit = "stretch",
    pad_value: t.Numbers = 0, antialias: t.Antialias = True, border: t.Border = "image",
    channels: t.Channels = "first", dtype: t.DTypeLike = "float32",
    quantization: t.Quantization = None, boxes_num: t.Counts = None, color: t.Color = None,
    color_range: t.Range = "video", color_matrix: t.Matrix = "bt601", out: t.AnyArray | None = None,
    num_threads: t.Threads = None,
) -> t.NDArray[Any]:  # fmt: skip
    ...
@overload
def crop(
    frames: t.Frames, boxes: t.BoxesOfFrames, size: t.Size, *, return_matrices: Literal[True],
    mean: t.Numbers = None, std: t.Numbers = None, scale: t.Numbers = None,
    swap_channels: bool = False, fit: t.Fit = "stretch", pad_value: t.Numbers = 0,
    antialias: t.Antialias = True, border: t.Border = "image", channels: t.Channels = "first",
    dtype: t.DTypeLike = "float32", quantization: t.Quantization = None, boxes_num: t.Counts = None,
    color: t.Color = None, color_range: t.Range = "video", color_matrix: t.Matrix = "bt601",
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> tuple[t.NDArray[Any], t.NDArray[np.float64]]:  # fmt: skip
    ...
@overload
def crop(
    frames: t.Frames, boxes: t.BoxesOfFrames, size: t.Size, *, return_matrices: bool = False,
    mean: t.Numbers = None, std: t.Numbers = None, scale: t.Numbers = None,
    swap_channels: bool = False, fit: t.Fit = "stretch", pad_value: t.Numbers = 0,
    antialias: t.Antialias = True, border: t.Border = "image", channels: t.Channels = "first",
    dtype: t.DTypeLike = "float32", quantization: t.Quantization = None, boxes_num: t.Counts = None,
    color: t.Color = None, color_range: t.Range = "video", color_matrix: t.Matrix = "bt601",
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> t.NDArray[Any] | tuple[t.NDArray[Any], t.NDArray[np.float64]]:  # fmt: skip
    ...


@raises(
    ", a coordinate is not finite, a frame index is not that of a frame, a matrix is singular, or "
    "three of the four corners of a box lie on a line, in whichever order; either is decided up to "
    "rounding of float64",
    ", and the first such box",
)
def crop(
    frames: t.Frames, boxes: t.BoxesOfFrames, size: t.Size, *, mean: t.Numbers = None,
    std: t.Numbers = None, scale: t.Numbers = None, swap_channels: bool = False,
    fit: t.Fit = "stretch", pad_value: t.Numbers = 0, antialias: t.Antialias = True,
    border: t.Border = "image", channels: t.Channels = "first", dtype: t.DTypeLike = "float32",
    quantization: t.Quantization = None, boxes_num: t.Counts = None, color: t.Color = None,
    color_range: t.Range = "video", color_matrix: t.Matrix = "bt601", out: t.AnyArray | None = None,
    num_threads: t.Threads = None, return_matrices: bool = False,
) -> t.NDArray[Any] | tuple[t.NDArray[Any], t.NDArray[np.float64]]:  # fmt: skip
    """Cut boxes out of frames, resize and normalise them: the input of a network, in one call.

    Output pixel (p, q) of a box [x1, y1, x2, y2] is the mean of the frame over the intervals ::

        y1 + (p + 1/2) * bh +- max(bh, 1) / 2,    bh = (y2 - y1) / h
        x1 + (q + 1/2) * bw +- max(bw, 1) / 2,    bw = (x2 - x1) / w

    where pixel (y, x) of the frame covers [y, y + 1) x [x, x + 1), and is constant on it: the area
    under the output pixel where the box is reduced, and bilinear interpolation where it is
    enlarged.  Without `antialias` the intervals have length 1 in any case, which is bilinear
    interpolation at the middle of the output pixel.  A result is
    ``(pixel * scale - mean) / std``.

    Parameters
    ----------
    frames : ndarray (H, W), (H, W, C) or (N, H, W, C), or list of ndarrays (H_n, W_n[, C])
        Pictures of uint8, uint16, float16 or float32, of 1 to 4 channels and any strides,
        read-only or not.  They are read where they lie; a list may have different sizes.  What
        NumPy can read as an array, such as a tensor of the CPU, may stand for one.  A frame (H, W)
        of which the rows are those of YCbCr brings a warning, and one (H, W, 1) does not.
    boxes : array_like, or list of N array_likes
        In pixels, of which the first covers [0, 1).  Nested lists of numbers may stand for arrays.
        Boxes may lie off the frame.

        - (K, 4) with rows [x1, y1, x2, y2] of the only frame, or (K, 5) with rows
          [frame_index, x1, y1, x2, y2].  A box with x2 < x1 (y2 < y1) is shown in a mirror, and a
          side of 0 repeats one point.  Rows that seem to be [x, y, w, h] bring a warning.
        - (K, 6) with rows [frame_index, cx, cy, w, h, angle]: a box turned around its centre, by
          radians, counter-clockwise on the screen.  It may have sides below 0, or of 0, too.
        - (K, 4, 2): corners (x, y), clockwise from that of output pixel (0, 0); their perspective
          is undone.  No three of them lie on a line.  Counter-clockwise, they are mirrored.
        - (K, 2, 3): affine matrices that take pixels of the frame to those of the result, both
          counted from the middle of the first, as ``cv2.warpAffine`` takes them.
        - A list with the boxes of each frame, or boxes beside `boxes_num`, have no frame_index:
          rows of 4 or 5 numbers, corners, or matrices.
    size : int or (int, int)
        Height and width of the result, (h, w).
    mean, std, scale : float or sequence of C floats, optional
        In the order of the channels of the result; by default 0, 1 and 1.
    swap_channels : bool, optional
        Whether the first three channels are reversed: BGR to RGB and back.
    fit : {"stretch", "letterbox", "letterbox_top_left", "cover", "line"}, optional
        "stretch": the box fills the result.  "letterbox": it keeps its aspect and lies in the
        middle, in whole output pixels, and the rest is `pad_value`.  "letterbox_top_left": it lies
        at the top left, and its sides are rounded down, as YOLOX has it.  "cover": the middle part
        of the box that has the aspect of the result fills it.  Corners and matrices are stretched.
        "line": as :func:`crop_lines`; corners, too.
    pad_value : float or sequence of C floats, optional
        The pixels of padding, before they are scaled; in the order of the channels of the result.
    antialias : bool, "pillow" or "nearest", optional
        How an output pixel weighs pixels.  True: areas are averaged.  False: points are sampled,
        bilinearly.  "pillow": as BILINEAR of Pillow and torchvision's resize, which weigh twice the
        area with a triangle where they reduce; for upright boxes only.  "nearest": the pixel around
        the point.

        For boxes that are not upright, True means that an output pixel is the mean of nx * ny
        points.  Along each axis, n is the number of pixels of the frame that one output pixel
        spans, at the corner of the result where it spans most.  It is rounded up, unless it exceeds
        a whole number by less than a hundredth, and is at most 8.
    border : {"image", "crop", "constant"}, optional
        Where an interval goes beyond the box, pixels come from the frame, and beyond the frame its
        edge is repeated ("image") or they are `pad_value` ("constant").  "crop" repeats the edge of
        the whole pixels that the box touches, as if a slice of the frame were resized, and is for
        upright boxes only.
    channels : {"first", "last"}, optional
        Whether the result is (K, C, h, w) or (K, h, w, C).
    dtype : dtype, optional
        Of the result: float32, float16, bfloat16 (of ml_dtypes), or uint8 or int8, rounded to the
        nearest number, to the even one of two, and moved to what the type holds.
    quantization : (float, int), optional
        Scale and zero point of the input of a network of uint8 or int8: results are divided by the
        scale, rounded, and added to the zero point, as ONNX's QuantizeLinear does.  NaN becomes
        the lowest number of the type.
    boxes_num : (N,) ints, optional
        Number of boxes of each frame, for boxes without frame_index, which are sorted by frame.
    color : str, optional
        The format of frames that are YCbCr, or of 16 bits a pixel.  The result has red, green and
        blue.  A pixel becomes three bytes, at most 0.6 from the exact numbers (0.72 of "rgb565"),
        so the result is what a frame that was converted before would give.  Only what boxes read
        is converted.

        - 4:2:0, an array (H + H / 2, W) or (N, H + H / 2, W), with the rows of Y and then those
          of U and V: pair by pair ("nv12"; "nv21" has V first; "p010" has numbers of uint16, whose
          upper ten bits count), or U before V, two of their rows in a row ("i420"; "yv12" has V
          first).
        - 4:2:2, an array (2 * H, W) or (N, 2 * H, W), as these ("nv16", "nv61", "p210"; "i422").
          Or one (H, W, 2), (H, 2 * W) or (N, H, W, 2): bytes Y, U, Y, V ("yuyv" and "yuy2" are the
          same; "y210" has numbers of uint16), Y, V, Y, U ("yvyu"), U, Y, V, Y ("uyvy"), or
          V, Y, U, Y ("vyuy").
        - 4:4:4, an array (3 * H, W) or (N, 3 * H, W), as these ("nv24", "nv42", "p410"; "i444").
        - A tuple of planes is one frame, and each has strides of its own: (y, uv) with arrays
          (H, W), and of 4:2:0 (H / 2, W / 2, 2) or (H / 2, W); (y, u, v) for "i420", "i422" and
          "i444", and (y, v, u) for "yv12".  Half of an odd number is rounded up.
        - "rgb565", an array (H, W) or (N, H, W) of uint16, or of its bytes (H, W, 2), (H, 2 * W)
          or (N, H, W, 2): red of 5 bits, green of 6 and blue of 5, which are the lowest.  Their
          high bits are repeated as low bits, so that the largest number becomes 255.

        A list has several frames, of different sizes.
    color_range, color_matrix : {"video", "full"}, {"bt601", "bt709", "bt2020"}, optional
        Of YCbCr: whether Y lies in 16..235 or 0..255 (in 64..940 or 0..1023 of ten bits), and the
        standard with the weights of colours.
    out : ndarray, optional
        Written to, and returned.  It has the shape and dtype of the result, may have any strides,
        and shares no memory with what is read.
    num_threads : int, optional
        At most as many threads are used; by default :func:`roicy.get_num_threads`.  The result
        does not depend on it.
    return_matrices : bool, optional
        Whether the matrices are returned, too.

    Returns
    -------
    ndarray, (K, C, h, w) or (K, h, w, C), of `dtype`
        The crops; everything is computed in float32, and positions in float64.  A frame without
        pixels gives `pad_value`, and so do pixels behind the horizon of corners that cross.
    ndarray, (K, 3, 3), float64
        If `return_matrices`.  With ``[u, v, w] = m @ [q, p, 1]``, output pixel (p, q) shows the
        point x = u / w, y = v / w of the frame.  Pixels are counted from the middle of the first,
        as OpenCV does.

    Notes
    -----
    Without `antialias` and with border="crop" this is ``cv2.resize`` with INTER_LINEAR of
    a slice, PyTorch's ``interpolate(mode="bilinear")`` and torchvision's ``resize`` with
    antialias=False.  With `antialias`, where both axes are reduced, it is INTER_AREA; Pillow's BOX
    is the same where sizes divide each other.  antialias="pillow" is Pillow's BILINEAR, and
    torchvision's with antialias=True; Pillow rounds bytes after each axis.  OpenCV computes
    INTER_LINEAR of uint8 with weights of 11 bits, and rounds.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> frame = np.full((1080, 1920, 3), 128, np.uint8)
    >>> batch = roicy.crop(frame, [[100, 200, 300, 500], [7.5, 0, 64, 64]], (224, 224),
    ...                    scale=1 / 255, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225),
    ...                    swap_channels=True)
    >>> batch.shape, batch.dtype
    ((2, 3, 224, 224), dtype('float32'))
    >>> roicy.crop(np.arange(16, dtype=np.uint8).reshape(4, 4), [[0, 0, 4, 4]], 2)[0, 0]
    array([[ 2.5,  4.5],
           [10.5, 12.5]], dtype=float32)
    """
    given, rows = arguments.read(frames, boxes, boxes_num, color, color_range, color_matrix)
    extent = _arguments.output_size(size, "size")
    count = given.channels
    swap = _arguments.flag("swap_channels", swap_channels)
    order = arguments.places(count, swap, given.reversed)
    pixels = arguments.pixels(given, mean, std, scale, pad_value, order)
    rule = arguments.rule(antialias)
    if antialias == "pillow" and rows.kind != "upright":
        raise ValueError(f"antialias: 'pillow', expected another for boxes of kind {rows.kind!r}")
    return_matrices = _arguments.flag("return_matrices", return_matrices)
    _arguments.choice("border", border, arguments.BORDERS)
    _arguments.choice("fit", fit, arguments.FITS)
    last = _arguments.choice("channels", channels, arguments.CHANNELS) == "last"
    kind = arguments.result_dtype(dtype)
    pixels, zero = arguments.quantized(pixels, quantization, kind)
    signed = 128 if kind.char == "b" else 0  # int8 is written as uint8, with its first bit turned
    threads = _threads.resolve(num_threads)
    shape = (len(rows.images), *((*extent, count) if last else (count, *extent)))
    place = matrices.place(rows, extent, fit, border, return_matrices)
    result = _memory.result(out, shape, (kind,), (*given.arrays, rows.values))
    view = _arguments.bits(result)
    stored = "B" if signed else kind.char
    options = arguments.Options(rule, border != "constant", stored, zero + signed, signed, threads)
    view = view if last else view.transpose(0, 2, 3, 1)
    _crop.crop(given, place, pixels, options, view)
    returned = result if out is None else out
    return (returned, place.matrices) if return_matrices else returned


def crop_lines(
    frames: t.Frames, boxes: t.BoxesOfFrames, height: t.Index, width: t.Index | None = None, *,
    mean: t.Numbers = None, std: t.Numbers = None, scale: t.Numbers = None,
    swap_channels: bool = False, pad_value: t.Numbers = 0,
    antialias: t.Antialias = True, border: t.Border = "image", channels: t.Channels = "first",
    dtype: t.DTypeLike = "float32", quantization: t.Quantization = None, boxes_num: t.Counts = None,
    color: t.Color = None, color_range: t.Range = "video", color_matrix: t.Matrix = "bt601",
    out: t.AnyArray | None = None, num_threads: t.Threads = None,
) -> tuple[t.NDArray[Any], t.NDArray[np.int32]]:  # fmt: skip
    """Cut lines of text out of frames: of one height, and each as wide as its aspect wants.

    Parameters
    ----------
    frames, boxes : as in :func:`crop`
        Boxes may be turned or have corners, but are no matrices.
    height : int
        Of the result.  A line is ceil(height * w / h) output pixels wide, of a box of w x h pixels,
        but not wider than `width`.  Corners count with the longer ones of opposite sides, in whole
        pixels, as PaddleOCR's recogniser has it.  Lines five times as high as wide bring a warning:
        corners that begin where the text begins turn them.
    width : int, optional
        Of the result; by default as wide as the widest line.  Give it where boxes come from
        strangers, since a line may be 2**24 pixels wide.
    mean, std, scale, swap_channels : as in :func:`crop`
        What is done with the numbers of pixels.
    pad_value : float or sequence of C floats, optional
        What is beside a line, as in :func:`crop`.
    antialias, border, channels, dtype, quantization : as in :func:`crop`
        How pixels are weighed, and the form of the result.
    boxes_num, color, color_range, color_matrix, out, num_threads : as in :func:`crop`
        The form of the input, the output and the threads.

    Returns
    -------
    ndarray, (K, C, height, width) or (K, height, width, C)
        The lines, at the left.
    ndarray, (K,), int32
        How many columns show each line.

    Raises
    ------
    TypeError, ValueError, MemoryError
        As :func:`crop` does.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> page = np.full((600, 800, 3), 255, np.uint8)
    >>> lines, widths = roicy.crop_lines(page, [[10, 20, 210, 50], [10, 60, 90, 84]], 48)
    >>> lines.shape, widths
    ((2, 3, 48, 320), array([320, 160], dtype=int32))
    """
    height = _arguments.integer("height", height, 1, _arguments.MOST_BINS)
    given, rows = arguments.read(frames, boxes, boxes_num, color, color_range, color_matrix)
    if rows.kind == "matrices":
        raise ValueError("boxes: matrices (K, 2, 3), expected boxes or corners, which have sides")
    shown = matrices.widths(rows, height)
    if width is None:
        width = int(shown.max(initial=1))
    width = _arguments.integer("width", width, 1, _arguments.MOST_BINS)
    _warn_of_tall(shown, height)
    cut: Any = crop  # whose types know no frames and boxes that have been read
    lines = cut(
        given, rows, (height, width), fit="line", mean=mean, std=std, scale=scale,
        swap_channels=swap_channels, pad_value=pad_value, antialias=antialias, border=border,
        channels=channels, dtype=dtype, quantization=quantization, boxes_num=boxes_num, color=color,
        color_range=color_range, color_matrix=color_matrix, out=out, num_threads=num_threads,
    )  # fmt: skip
    return lines, np.minimum(shown, width)


def _warn_of_tall(shown: np.ndarray, height: int) -> None:
    """Warn of lines that are hardly as wide as a letter."""
    tall = shown * TALL <= height
    if tall.any():
        k = int(tall.argmax())
        _names.warn(
            f"boxes[{k}]: a line of {shown[k]} columns, {TALL} times as high as wide or more; pass "
            "corners (K, 4, 2) that begin where its text begins: numpy.roll(corners, 1, axis=1) of "
            "one that is read upwards, numpy.roll(corners, -1, axis=1) of one read downwards"
        )
