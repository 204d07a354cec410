"""What the arguments of :func:`roicy.crop` may be: frames, boxes, and what is done to pixels.

They are brought to the form that ``pyx/images/crop.pyx`` takes.  Each error names the argument,
what it was and what was expected.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._checks import _arguments, _boxes, _names
from .._checks._arguments import LARGEST_FLOAT32

MOST_CHANNELS = 4
# Modes of Pillow's images whose channels are grey, or red, green and blue; others have palettes
PIL_MODES = ("L", "LA", "La", "RGB", "RGBA", "RGBa", "RGBX", "I;16", "I;16L", "I;16B", "F")
# What is said of values that often stand in place of a frame
MISTAKEN: list[tuple[Any, str]] = [
    (
        type(None),
        "; cv2.imread returns None for a file that it cannot read, and a capture after its last "
        "frame",
    ),
    ((str, os.PathLike), "; pass the array of a picture, not its path"),
    ((bool, np.bool_), "; of capture.read() pass the second"),
]
ORIENTATION = 0x0112  # EXIF's tag: 1 is upright, 2 to 8 are turned or mirrored
SAMPLE = 64  # pixels of each axis of a frame that are looked at
FITS = ("stretch", "letterbox", "letterbox_top_left", "cover", "line")
RULES = {False: 0, True: 1, "pillow": 2, "nearest": 3}  # by antialias, as in pyx/images/structs.h
BORDERS = ("image", "crop", "constant")
CHANNELS = ("first", "last")
# How many rows and columns of Y share one of U and V, in frames that have planes
SHARED = {
    "nv12": (2, 2), "nv21": (2, 2), "nv16": (1, 2), "nv61": (1, 2), "nv24": (1, 1), "nv42": (1, 1),
    "i420": (2, 2), "yv12": (2, 2), "i422": (1, 2), "i444": (1, 1), "p010": (2, 2), "p210": (1, 2),
    "p410": (1, 1),
}  # fmt: skip
THREE = ("i420", "yv12", "i422", "i444")  # planes
PACKED = {  # where Y is in two numbers
    "yuyv": (0, 1), "yuy2": (0, 1), "yvyu": (0, 1), "uyvy": (1, 0), "vyuy": (1, 0), "y210": (0, 1),
}  # fmt: skip
V_FIRST = ("nv21", "nv61", "nv42", "yv12", "yvyu", "vyuy")
WIDE = ("p010", "p210", "p410", "y210")  # numbers of uint16, whose upper ten bits count
OF_TEN_BITS = {"nv12": "p010", "nv16": "p210", "nv24": "p410"}
COLORS = (*SHARED, *PACKED, "rgb565")
# Names that others have for formats, or for those of which roicy takes ten bits
NAMES = {
    "yuv420p": "i420", "yuvj420p": "i420", "yuv422p": "i422", "yuvj422p": "i422", "yuv444p": "i444",
    "yuvj444p": "i444", "yuyv422": "yuyv", "yvyu422": "yvyu", "uyvy422": "uyvy", "p012": "p010",
    "p016": "p010", "p212": "p210", "p216": "p210", "p412": "p410", "p416": "p410", "y212": "y210",
    "y216": "y210",
}  # fmt: skip
# Formats of three planes, whose numbers of 9 to 16 bits are the low bits of uint16.  Only errors
# ask for them, so imports need not compile the pattern.
LOW_BITS = r"(?:yuv(420|422|444)p|i([024]))(9|10|12|14|16)"
OF_LOW_BITS = {"420": "p010", "422": "p210", "444": "p410", "0": "p010", "2": "p210", "4": "p410"}
# How frames of so many channels become those of three numbers
OF_THREE = {
    4: "; frames have alpha: pass frames[..., :3], convert('RGB') of a picture, or alpha='drop' "
    "to resize",
    2: "; frames have grey and alpha: pass convert('RGB') of a picture",
    1: "; frames are grey: pass convert('RGB') of a picture, or rgb=True to resize",
}
LEAST_SIDE = 8  # pixels: what is smaller is hardly cut out
# Widths over heights of frames whose arrays of 4:2:0 have shapes that grey frames hardly have
ASPECTS = (16 / 9, 16 / 10, 4 / 3, 11 / 9, 9 / 16)
RANGES = ("video", "full")
# The weights of red and blue in Y.
KR_KB = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}
MATRICES = tuple(KR_KB)
FLOAT64 = np.dtype(np.float64)  # in the byte order of the machine
FORMATS = (
    "(K, 4) with rows [x1, y1, x2, y2], (K, 5) with rows [frame_index, x1, y1, x2, y2], "
    "(K, 6) with rows [frame_index, cx, cy, w, h, angle], (K, 4, 2) corners or (K, 2, 3) matrices"
)
OF_A_FRAME = (
    "(L, 4) with rows [x1, y1, x2, y2], (L, 5) with rows [cx, cy, w, h, angle], "
    "(L, 4, 2) corners or (L, 2, 3) matrices"
)
KINDS = {(4,): "upright", (5,): "rotated", (4, 2): "corners", (2, 3): "matrices"}


class Yuv(NamedTuple):
    """How YCbCr becomes red, green and blue: numbers of struct crop_yuv of pyx/images/structs.h."""

    shared: int  # 1 where two rows of Y share a row of U and V
    wide: bool  # whether numbers have two bytes
    each: bool  # whether each pixel has its own U and V
    rgb565: bool  # whether pixels are red, green and blue in two bytes
    luma: int  # the scale of Y
    channels: list[tuple[int, int, int]]  # bias, and the scales of U and V


class Frames(NamedTuple):
    """Frames of one type and number of channels."""

    arrays: Sequence[np.ndarray]  # (N, H, W, C), two bytes as uint16; or Y, U and V
    count: int
    channels: int
    kind: str  # NumPy's character of the type; "Y" for bytes of YCbCr
    planar: bool  # pixels of a channel follow each other
    reversed: bool  # the arrays have the caller's channels in reverse order
    yuv: Yuv | None = None

    def sizes(self) -> np.ndarray:
        """Return the height and the width of each frame."""
        planes = self.arrays[:: 3 if self.yuv else 1]
        sizes = [one.shape[1:3] for one in planes for _ in range(len(one))]
        return _boxes.array_of(sizes).reshape(-1, 2)


class Boxes(NamedTuple):
    """Boxes, and the frames that they are of."""

    kind: str  # of KINDS
    values: np.ndarray  # (K, ...), float64
    images: np.ndarray  # (K,), int32


class Pixels(NamedTuple):
    """What is done to pixels."""

    place: list[int]  # where in the result each channel of the frame goes
    scale: list[float]  # of each channel of the result
    bias: list[float]
    pad: list[float]


class Options(NamedTuple):
    """How pixels are computed."""

    rule: int  # of RULES
    repeats: bool  # the edges of frames, or of boxes
    kind: str  # NumPy's character of the type of the result; "B" for int8, too
    zero: int  # what stands for 0 in bytes
    flip: int  # the bit by which int8 differs from uint8
    threads: int


def _taken(name: str, value: Any, types: str, expected: str) -> np.ndarray:
    """Return the array of a frame; types: NumPy's characters of what it may have, as `expected`."""
    if type(value).__module__.startswith("PIL.") and getattr(value, "mode", "L") not in PIL_MODES:
        raise TypeError(
            f"{name}: a PIL image of mode {value.mode!r}, whose pixels are not grey, red, green or "
            "blue; pass its convert('RGB')"
        )
    for kinds, hint in MISTAKEN:
        if isinstance(value, kinds):
            raise TypeError(f"{name}: {value!r}, expected an array{hint}")
    _warn_of_orientation(name, value)
    value = _arguments.taken(name, value)
    if value.dtype.char not in types or not value.dtype.isnative:
        hint = ""
        if value.dtype == np.float64 and "f" in types:
            hint = "; pass its astype(numpy.float32) to roicy.crop"
        elif value.dtype == np.uint8 and types == "H":
            hint = "; of their bytes pass the view(numpy.uint16)"
        elif value.dtype.kind in "biu" and "B" in types and value.dtype.char != "H":
            of = "" if value.dtype.kind == "b" else "of numbers from 0 to 255 "
            hint = f"; {of}pass its astype(numpy.uint8)"
        elif value.dtype == np.uint16 and any(expected.endswith(f"{one!r}") for one in PACKED):
            hint = "; pass its view(numpy.uint8)"
        elif value.dtype == np.uint16:
            color = expected.rpartition("=")[2].strip("'")
            wide = OF_TEN_BITS.get(color)
            wide = f"of ten bits pass color={wide!r}, " if wide else ""
            hint = f"; {wide}of bytes pass its astype(numpy.uint8)"
        spelled = _arguments.spell(value.dtype)
        raise TypeError(f"{name}: dtype {spelled}, expected {expected}{hint}")
    return _arguments.addressable(name, value)


def _warn_of_orientation(name: str, value: Any) -> None:
    """Warn of a PIL image that is to be shown turned or mirrored, as its EXIF says."""
    orientation = 1
    if type(value).__module__.startswith("PIL."):
        with contextlib.suppress(Exception):  # EXIF that Pillow cannot read says nothing
            orientation = value.getexif().get(ORIENTATION, 1)
    if orientation in range(2, 9):
        _names.warn(
            f"{name}: a PIL image of EXIF orientation {orientation}, whose pixels are read as they "
            "are stored; pass PIL.ImageOps.exif_transpose(image) to have it upright"
        )


def _frame(name: str, value: Any, most: int, limit: int) -> np.ndarray:
    """Return an array (N, H, W, C) of a frame, or of several if `most` is 4."""
    given, value = value, _taken(name, value, "BHef", "uint8, uint16, float16 or float32")
    shape = value.shape
    if len(shape) == 2:
        value = value[None, :, :, None]
    elif len(shape) == 3:
        value = value[None]
    hint = _axes_hint(given, shape)
    most_channels = MOST_CHANNELS if hint else limit
    if value.ndim != 4 or len(shape) > most or not 1 <= value.shape[3] <= most_channels:
        several = ", (H, W, C) or (N, H, W, C)" if most == 4 else " or (H, W, C)"
        expected = f"(H, W){several} with 1 to {limit} channels{hint}"
        raise ValueError(f"{name}: shape {shape}, expected {expected}")
    images, height, width, channels = value.shape
    _arguments.extents(name, (images, channels, height, width))
    return value


def _axes_hint(frame: Any, shape: tuple[int, ...]) -> str:
    """Return how a frame becomes one whose channels are last, where they seem to be first."""
    if len(shape) not in (3, 4) or not 1 <= shape[-3] <= MOST_CHANNELS:
        return ""
    axes = "1, 2, 0" if len(shape) == 3 else "0, 2, 3, 1"
    first = "(C, H, W)" if len(shape) == 3 else "(N, C, H, W)"
    turn = "permute" if hasattr(frame, "permute") else "transpose"  # PyTorch's, or NumPy's
    return f"; it seems to be {first}: pass frame.{turn}({axes})"


def _yuv_array(name: str, value: Any, color: str) -> np.ndarray:
    """Return an array of YCbCr."""
    types, expected = ("H", "uint16") if color in WIDE else ("B", "uint8")
    return _taken(name, value, types, f"{expected} for color={color!r}")


def _rgb565(name: str, value: Any, several: bool) -> np.ndarray:
    """Return pixels (N, H, W) of uint16, which may be given as bytes."""
    value = _taken(name, value, "HB", "uint16, or uint8 of its bytes, for color='rgb565'")
    shape, of_bytes = value.shape, value.dtype.char == "B"
    value = _in_pairs(value) if of_bytes else value
    if not 2 <= value.ndim - of_bytes <= 2 + several or (of_bytes and value.shape[-1] != 2):
        expected = ("(H, W) or (N, H, W)" if several else "(H, W)") + " of uint16"
        raise ValueError(
            f"{name}: shape {shape}, expected {expected}, or of its bytes (H, W, 2) or (H, 2 * W)"
        )
    if of_bytes:  # of which each pixel has two that follow each other
        value = value if value.strides[-1] == 1 else np.ascontiguousarray(value)
        value = value.view(np.uint16)[..., 0]
    return value[None] if value.ndim == 2 else value


def _in_pairs(value: np.ndarray) -> np.ndarray:
    """Return an array (H, 2 * W) as (H, W, 2); one that is (H, W, 2) stays."""
    if value.ndim > 1 and (value.ndim == 2 or value.shape[-1] != 2) and value.shape[-1] % 2 == 0:
        return value.reshape(*value.shape[:-1], value.shape[-1] // 2, 2)
    return value


def _yuv_planes(name: str, value: tuple[Any, ...], color: str) -> list[np.ndarray]:
    """Return Y, U and V of one frame that is given as a tuple of planes."""
    if color not in SHARED:
        raise ValueError(f"{name}: a tuple, expected one array for color={color!r}")
    names = "(y, v, u)" if color == "yv12" else "(y, u, v)" if color in THREE else "(y, uv)"
    if len(value) != names.count(",") + 1:
        raise ValueError(
            f"{name}: a tuple of {len(value)}, expected the planes {names} of one frame for "
            f"color={color!r}; several frames are a list"
        )
    planes = [_yuv_array(f"{name}[{i}]", one, color) for i, one in enumerate(value)]
    if planes[0].ndim != 2:
        raise ValueError(f"{name}[0]: shape {planes[0].shape}, expected (H, W)")
    height, width = map(_shares, planes[0].shape, SHARED[color])
    for i, plane in enumerate(planes[1:], 1):
        shapes = [(height, width)] if len(value) == 3 else [(height, 2 * width), (height, width, 2)]
        if plane.shape not in shapes:
            raise ValueError(
                f"{name}[{i}]: shape {plane.shape}, expected "
                f"{' or '.join(map(str, shapes))} beside Y of {planes[0].shape}"
            )
    if len(value) == 2:
        both = planes[1].reshape(height, width, 2)
        planes[1:] = [both[..., 0], both[..., 1]]
    return [plane[None] for plane in planes]


def _yuv_frame(name: str, value: Any, color: str, several: bool) -> list[np.ndarray]:
    """Return Y, U and V, (N, h, w), of a frame, or of several where they may be."""
    if isinstance(value, tuple):
        planes = _yuv_planes(name, value, color)
    elif color == "rgb565":
        planes = [_rgb565(name, value, several)] * 3
    else:
        planes = _yuv_split(name, _yuv_array(name, value, color), color, several)
    _arguments.extents(name, (len(planes[0]), 3, *planes[0].shape[1:]))
    return [planes[0], planes[2], planes[1]] if color in V_FIRST else planes


def _yuv_split(name: str, value: np.ndarray, color: str, several: bool) -> list[np.ndarray]:
    """Return the planes of an array in the order in which they lie."""
    shape, packed = value.shape, PACKED.get(color)
    if packed:
        value = _in_pairs(value)
        several = several or value.ndim < 4
        value = value[None] if value.ndim == 3 else value
        if not several or value.ndim != 4 or value.shape[3] != 2 or value.shape[2] % 2:
            raise ValueError(
                f"{name}: shape {shape}, expected (H, W, 2) or (H, 2 * W), with an even W"
            )
        other = value[..., packed[1]]
        return [value[..., packed[0]], other[..., 0::2], other[..., 1::2]]
    down, across = SHARED[color]
    if len(shape) < 2:
        raise ValueError(f"{name}: shape {shape}, expected a frame of {color!r} of two axes")
    fits = 2 <= len(shape) <= 2 + several and shape[-1] % across == 0
    height = shape[-2] * down * across // (down * across + 2) if fits else 0
    rows, width = _shares(height, down), shape[-1] // across
    if not fits or shape[-2] != height + rows * 2 // across:
        extents = ("3 * H" if across == 1 else "2 * H" if down == 1 else "H + H / 2") + ", W"
        expected = f"({extents})" + (f" or (N, {extents})" if several else "")
        even = " with an even W" if across == 2 else ""
        raise ValueError(f"{name}: shape {shape}, expected {expected}{even}, or planes (a tuple)")
    value = value[None] if value.ndim == 2 else value
    luma, rest = value[:, :height], value[:, height:]
    if color not in THREE and across == 2:
        return [luma, rest[:, :, 0::2], rest[:, :, 1::2]]
    if rest.size and value.strides[1] != value.shape[2] * value.strides[2]:
        raise ValueError(
            f"{name}: rows {value.strides[1]} bytes apart, expected "
            f"{value.shape[2] * value.strides[2]}: nothing tells how padded rows of U and V of "
            f"{color!r} are divided; pass its planes, a tuple of arrays"
        )
    if color in THREE:
        both = rest.reshape(len(value), 2, rows, width)
        return [luma, both[:, 0], both[:, 1]]
    both = rest.reshape(len(value), rows, width, 2)
    return [luma, both[..., 0], both[..., 1]]


def _shares(extent: int, pixels: int) -> int:
    """Return how many numbers of U or V pixels have that share them."""
    return -(-extent // pixels)


def _yuv(color: str, color_range: str, color_matrix: str) -> Yuv:
    """Return how YCbCr becomes RGB, with 5 bits after the point.

    A product loses half of the last bit on average, and the sum loses half of a byte.
    """
    red, blue = KR_KB[color_matrix]
    green, wide = 1 - red - blue, color in WIDE
    luma, black, chroma = (1.0, 0, 1.0) if color_range == "full" else (255 / 219, 16, 255 / 224)
    if wide and color_range == "full":
        luma = chroma = 255 * 4 / 1023
    of_v, of_u = 2 * (1 - red) * chroma, 2 * (1 - blue) * chroma
    channels = []
    for u, v in ((0.0, of_v), (-of_u * blue / green, -of_v * red / green), (of_u, 0.0)):
        lost = (1 + bool(u) + bool(v)) / 2
        bias = 32 * (0.5 - luma * black) + lost
        channels.append((round(bias), round(u * 2**13), round(v * 2**13)))
    shared, across = SHARED.get(color, (1, 2))
    return Yuv(shared - 1, wide, across == 1, color == "rgb565", round(luma * 2**14), channels)


def frames(
    value: Any, color: Any, color_range: str, color_matrix: str, most: int = MOST_CHANNELS
) -> Frames:
    """Return the frames of an array, or of a list of arrays of different sizes; most: channels."""
    listed = isinstance(value, list) or (color is None and isinstance(value, tuple))
    named = {f"frames[{i}]": one for i, one in enumerate(value)} if listed else {"frames": value}
    if not named:
        raise ValueError("frames: an empty list, expected one frame or more")
    if color is not None:
        each = [_yuv_frame(name, one, color, not listed) for name, one in named.items()]
        planes, count = tuple(itertools.chain.from_iterable(each)), sum(len(y) for y, _, _ in each)
        return Frames(planes, count, 3, "Y", False, False, _yuv(color, color_range, color_matrix))
    arrays = [_frame(name, one, 3 if listed else 4, most) for name, one in named.items()]
    first = arrays[0]
    for i, array in enumerate(arrays[1:], 1):
        if array.dtype != first.dtype or array.shape[3] != first.shape[3]:
            hint = "; planes of YCbCr need color=" if isinstance(value, tuple) else ""
            raise ValueError(
                f"frames[{i}]: {array.shape[3]} channels of dtype {array.dtype.name}, expected "
                f"{first.shape[3]} of {first.dtype.name} as frames[0] has{hint}"
            )
    channels, size = first.shape[3], first.itemsize
    backwards = channels > 1 and all(array.strides[3] == -size for array in arrays)
    if backwards:
        arrays = [array[..., ::-1] for array in arrays]
    planar = channels > 1 and all(array.strides[2] == size for array in arrays)
    count = sum(map(len, arrays))
    plain = _boxes.Many(map(_arguments.bits, arrays))
    return Frames(plain, count, channels, first.dtype.char, planar, backwards)


def _rows(name: str, value: Any) -> np.ndarray:
    """Return numbers as a new float64 array, aligned and in the order of C, for the kernels.

    They read it more than once, and the caller's array may change meanwhile.
    """
    if type(value) is np.ndarray and value.dtype == FLOAT64 and value.flags.carray:
        return value.copy()
    value = _boxes.boxes_array(name, value)
    with np.errstate(all="ignore"):  # a signalling NaN is found later
        return value.astype(FLOAT64, order="C", subok=False)


def _is_for_each_frame(value: Any) -> bool:
    """Whether a list has the boxes of each frame, and not boxes."""
    if not isinstance(value, (list, tuple)):
        return False
    filled = [one for one in value if not isinstance(one, (list, tuple, np.ndarray)) or len(one)]
    return any(map(_has_boxes, filled)) or (len(value) > 0 and not filled)


def _has_boxes(value: Any) -> bool:
    """Whether this is a sequence of boxes; one box has 4 or 5 numbers, or rows of 2 or 3."""
    extents = []
    while isinstance(value, (list, tuple, np.ndarray)) and np.shape(value[:1]) and len(value):
        value = value[0]
        extents.append(len(value) if isinstance(value, (list, tuple, np.ndarray)) else 0)
    return len(extents) > 2 or (len(extents) == 2 and extents[0] not in (2, 3))


def read(
    value: Any, rows: Any, boxes_num: Any, color: Any, color_range: Any, color_matrix: Any,
    most: int = MOST_CHANNELS,
) -> tuple[Frames, Boxes]:  # fmt: skip
    """Return frames of any format and boxes; those that have been read stay as they are.

    most: channels that frames may have.
    """
    if isinstance(value, Frames):
        return value, rows
    _arguments.choice("color_range", color_range, RANGES)
    _arguments.choice("color_matrix", color_matrix, MATRICES)
    if color is not None:
        _check_color(color)
    if isinstance(value, list):
        value = list(value)  # the caller's may change meanwhile
    given = frames(value, color, color_range, color_matrix, most)
    of_frames = boxes(rows, boxes_num, given.count)
    if of_frames.kind == "upright":
        _warn_of_sides(given, of_frames)
    if color is None:
        _warn_of_yuv(value, given, of_frames)
    return given, of_frames


def _check_color(color: Any) -> None:
    """Check that frames of a format are taken; else the error says how they become such."""
    name = color.lower().removesuffix("le") if isinstance(color, str) else ""
    hint = ""
    if name in COLORS or name in NAMES:
        full = ", color_range='full'" if name.startswith("yuvj") else ""
        hint = f"; pass color={NAMES.get(name, name)!r}{full}"
    elif found := re.fullmatch(LOW_BITS, name):
        like, shift = OF_LOW_BITS[found[1] or found[2]], 16 - int(found[3])
        planes = f"(y << {shift}, numpy.stack([u, v], -1) << {shift})"
        hint = f"; of its planes pass {planes} and color={like!r}"
    elif name.startswith(("gray", "grey", "y10", "y12")):
        hint = "; frames of grey have no color: of N bits pass scale=1 / (2**N - 1) and no color"
    if color not in COLORS and hint:
        raise ValueError(f"color: {color!r}, expected one of {', '.join(COLORS)}{hint}")
    _arguments.choice("color", color, COLORS)


def _warn_of_sides(given: Frames, rows: Boxes) -> None:
    """Warn of rows that are mirrored and seem to be [x, y, w, h].

    One or two that are mirrored from left to right alone may well be meant.
    """
    first, last = rows.values[:, :2], rows.values[:, 2:]
    mirrored = last < first
    if not np.count_nonzero(mirrored) or (len(first) < 3 and not mirrored[:, 1].any()):
        return
    sizes = given.sizes()[rows.images, ::-1]
    with np.errstate(all="ignore"):
        inside = (first >= 0) & (last >= LEAST_SIDE) & (first + last <= sizes + 1)
    if inside.all():
        _boxes.warn_of_form(_boxes.SIDES)


def _warn_of_yuv(value: Any, given: Frames, rows: Boxes) -> None:
    """Warn of a frame that is read as a grey one, and seems to be one of 4:2:0, with its boxes."""
    first = value[0] if isinstance(value, (list, tuple)) else value
    lines, width = given.arrays[0].shape[1:3]
    height, is_grey = lines // 3 * 2, getattr(first, "ndim", 0) == 2 and given.kind in "BH"
    if not is_grey or not len(rows.values) or lines % 3 or width % 2 or min(height, width) < 120:
        return
    if all(abs(width / height / one - 1) > 0.01 for one in ASPECTS):
        return
    ends = {"upright": (..., [1, 3]), "corners": (..., 1), "rotated": (..., 1)}.get(rows.kind)
    if ends is None or (rows.values[ends] <= height).all():
        _names.warn(
            f"frames: {lines} x {width} of one channel, as a frame of {height} x {width} of YCbCr "
            "has; pass color='nv12' or another format, or of a grey frame frame[..., None]"
        )


def boxes(value: Any, boxes_num: Any, count: int) -> Boxes:
    """Return boxes of `count` frames."""
    if isinstance(value, (list, tuple)):
        value = _boxes.plain_items("boxes", value)
    if _is_for_each_frame(value):
        return _of_each_frame(value, boxes_num, count)
    rows = _rows("boxes", value)
    if rows.ndim == 1 and not rows.size:
        rows = rows.reshape(0, 4)
    shape = rows.shape[1:]
    if rows.ndim == 2 and shape[0] in (5, 6) and boxes_num is None:
        images = _boxes.indices_of(rows, count, "frame", f"{count} frames")
        _boxes.warn_of_scores("frame", rows)
        rows = np.ascontiguousarray(rows[:, 1:])
        return Boxes("upright" if shape[0] == 5 else "rotated", _finite(rows), images)
    if shape not in KINDS:
        expected = FORMATS if boxes_num is None else OF_A_FRAME.replace("L", "K")
        hint = "; of one box pass [box]" if rows.shape in KINDS else ""
        hint = hint or _boxes.flat_hint(rows.shape, (5,))
        raise ValueError(f"boxes: shape {rows.shape}, expected {expected}{hint}")
    if boxes_num is not None:
        counts = _boxes.box_counts(boxes_num, len(rows), count)
        images = np.repeat(np.arange(count, dtype=np.int32), counts)
    elif count == 1 or not len(rows):
        images = np.zeros(len(rows), np.int32)
    else:
        raise ValueError(
            f"boxes: shape {rows.shape} for {count} frames, expected rows with a frame_index, a "
            "list with the boxes of each frame, or boxes_num"
        )
    return Boxes(KINDS[shape], _finite(rows), images)


def _of_each_frame(value: Any, boxes_num: Any, count: int) -> Boxes:
    """Return the boxes of a list with those of each frame."""
    _boxes.check_listed(value, boxes_num, count, "frame", f"{count} frames")
    parts = [_rows(f"boxes[{n}]", part) for n, part in enumerate(value)]
    filled = [(n, part) for n, part in enumerate(parts) if part.size]
    shape = filled[0][1].shape[1:] if filled else (4,)
    for n, part in filled:
        if part.shape[1:] != shape or shape not in KINDS:
            raise ValueError(
                f"boxes[{n}]: shape {part.shape}, expected {OF_A_FRAME}, alike for all frames"
            )
    sizes = [len(part) if part.size else 0 for part in parts]
    rows = np.concatenate([np.empty((0, *shape)), *(part for _, part in filled)])
    images = np.repeat(np.arange(count, dtype=np.int32), sizes)
    return Boxes(KINDS[shape], _finite(rows), images)


def _finite(values: np.ndarray) -> np.ndarray:
    """Return boxes whose coordinates and sides are finite."""
    if len(values) and values.shape[1:] == (4,) and values[0, 2] <= 1 and values[0, 3] <= 1:
        _warn_of_shares(values)
    flat = values.reshape(-1)
    with np.errstate(all="ignore"):
        if math.isfinite(np.dot(flat, flat)):  # then all are, which is quicker to find out
            return values
        if values.shape[1:] == (4,):
            finite = np.isfinite(values[:, 2:] - values[:, :2])
        else:
            finite = np.isfinite(values)
    if finite.all():
        return values
    row = int((~finite).reshape(len(values), -1).any(axis=1).argmax())
    numbers = ", ".join(repr(float(number)) for number in values[row].reshape(-1))
    raise ValueError(f"boxes[{row}]: ({numbers}), expected finite coordinates and sides")


def _warn_of_shares(values: np.ndarray) -> None:
    """Warn of upright boxes that seem to be given as shares of the sides of the frame."""
    shares = (values >= 0).all() and (values <= 1).all() and (values != np.trunc(values)).any()
    if shares and (values[:, 2:] - values[:, :2] > 0.001).all():
        _boxes.warn_of_form(_boxes.SHARES)


def numbers(name: str, value: Any, channels: int) -> list[float]:
    """Return a finite number for each channel."""
    given = value if type(value) in (float, tuple) else _arguments.items(name, value)
    if not isinstance(given, (list, tuple)):
        given = [given] * channels
    if len(given) != channels:
        hint = OF_THREE.get(channels, "") if len(given) == 3 else ""
        raise ValueError(f"{name}: {value!r}, expected a number or {channels}, one a channel{hint}")
    result = []
    for number in given:
        if type(number) is not float:
            number = _arguments.number(name, number, f"a number or {channels}, one a channel")
        if not -LARGEST_FLOAT32 <= number <= LARGEST_FLOAT32:
            raise ValueError(f"{name}: {value!r}, expected finite numbers of float32")
        result.append(number)
    return result


def pixels(
    frames: Frames, mean: Any, std: Any, scale: Any, pad_value: Any, place: list[int]
) -> Pixels:
    """Return scale and bias such that pixel * scale + bias is (pixel * scale - mean) / std."""
    channels = len(place)
    factors = numbers("scale", 1.0 if scale is None else scale, channels)
    means = numbers("mean", -0.0 if mean is None else mean, channels)
    deviations = numbers("std", 1.0 if std is None else std, channels)
    if not all(deviations):
        raise ValueError(f"std: {std!r}, expected numbers other than 0")
    scales = [factor / deviation for factor, deviation in zip(factors, deviations, strict=True)]
    biases = [middle / -deviation for middle, deviation in zip(means, deviations, strict=True)]
    if max(map(abs, scales + biases)) > LARGEST_FLOAT32:
        raise ValueError(f"std: {std!r}, expected numbers whose inverse float32 can hold")
    padding = numbers("pad_value", pad_value, channels)
    if mean is not None or std is not None or scale is not None:
        _warn_of_ranges(frames, means, deviations, None if scale is None else max(factors))
    return Pixels(place, scales, biases, padding)


def quantized(pixels: Pixels, value: Any, dtype: np.dtype) -> tuple[Pixels, int]:
    """Return how pixels become those of a network's input, and what stands for 0."""
    if value is None:
        return pixels, 0
    if dtype.kind not in "iu":
        raise ValueError(f"quantization: {value!r}, expected None for dtype={dtype.name!r}")
    if not _arguments.is_pair(value):
        raise ValueError(f"quantization: {value!r}, expected (scale, zero_point)")
    limits = np.iinfo(dtype)
    step = _arguments.number("quantization", value[0], "a number as its scale")
    zero = _arguments.integer("quantization", value[1], int(limits.min), int(limits.max))
    numbers = pixels.scale + pixels.bias
    if not 0 < step <= LARGEST_FLOAT32 or max(map(abs, numbers)) / step > LARGEST_FLOAT32:
        raise ValueError(
            f"quantization: scale {value[0]!r}, expected a number above 0 that float32 can hold "
            "and divide by"
        )
    scaled = pixels._replace(
        scale=[number / step for number in pixels.scale],
        bias=[number / step for number in pixels.bias],
    )
    return scaled, zero


def rule(value: Any) -> int:
    """Return how output pixels weigh pixels."""
    if not isinstance(value, (bool, np.bool_, str)) or value not in RULES:
        raise (ValueError if isinstance(value, str) else TypeError)(
            f"antialias: {value!r}, expected True or False, 'pillow' or 'nearest'"
        )
    return RULES[value]


def _warn_of_ranges(
    frames: Frames, mean: list[float], std: list[float], scale: float | None
) -> None:
    """Warn of a mean, standard deviation or scale that is for pixels of another range."""
    top = _largest(frames)
    if top is None:
        return
    of_one = [abs(number) for number in mean + std]
    if scale is None and top > 1 and max(of_one) <= 1 and any(0 < one < 1 for one in of_one):
        _names.warn(
            f"mean, std: numbers of 0..1, but pixels of 0..{top} are not scaled; pass "
            f"scale=1 / {top}"
        )
    factor = 1.0 if scale is None else scale
    if top == 1 and 0 < factor < 0.02:
        _names.warn(f"scale: {scale:.4g}, but pixels are of 0..1 already; leave scale out")
    elif min(mean) > 2 * top * abs(factor):
        _names.warn(
            f"mean: {mean[0]:g}, but pixels of 0..{top} times scale are at most {top * factor:g}; "
            "the mean is of pixels that are scaled"
        )


def _largest(frames: Frames) -> int | None:
    """Return the largest number that pixels are likely to have, where it can be told."""
    if frames.kind in "BY":
        return 255
    if frames.kind == "H":
        return 65535
    array = frames.arrays[0]
    array = array.view(np.float16) if frames.kind == "e" else array
    if not array.size:
        return None
    rows, columns = (slice(None, None, -(-extent // SAMPLE)) for extent in array.shape[1:3])
    sample = array[0, rows, columns]
    if not (sample >= 0).all():
        return None
    if sample.max() >= 2:  # those a little above 1 may be of either range
        return 255 if sample.max() <= 255 else None
    # Whole numbers may be bytes of a dark image.
    return 1 if sample.max() <= 1 and ((sample > 0) & (sample < 1)).any() else None


def places(channels: int, swap: bool, backwards: bool) -> list[int]:
    """Return where in the result each channel of the arrays goes."""
    if swap and channels < 3:
        raise ValueError(f"swap_channels: True, expected frames of 3 or 4 channels, not {channels}")
    order = [2, 1, 0, *range(3, channels)] if swap else list(range(channels))
    return order[::-1] if backwards else order


def result_dtype(value: Any) -> np.dtype:
    """Return a type that a result may have."""
    try:
        dtype = np.dtype(value)
    except TypeError:
        raise TypeError(f"dtype: {value!r}, expected a dtype of NumPy") from None
    if dtype == np.float32 or dtype.name in ("float16", "bfloat16", "uint8", "int8"):
        return dtype
    raise TypeError(f"dtype: {dtype.name}, expected float32, float16, bfloat16, uint8 or int8")
