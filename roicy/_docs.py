"""
The passages that docstrings of public functions share, and what fills them in.

A docstring says ``{sections}`` where its sections Parameters, Returns and Raises shall be: each
parameter of the function has the passage of its name, but those that the decorator names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Callable[..., Any])

PASSAGES = {
    "input": """input : array_like, (N, C, H, W) or (N, H, W, C), float32, float64, float16, \
bfloat16 (of ml_dtypes), uint8, int8, uint16 or int16
    Feature maps, of any strides, read-only or not: an array, or what NumPy reads as one, by
    ``__array__``, DLPack or the buffer protocol, but no list.  Of all types but the first two
    each pixel is converted where it is read, and everything is computed in float32.""",
    "input_gradient": """input : array_like, (N, C, H, W) or (N, H, W, C), dtype of `grad_output`, \
or one that is computed with as float32
    Feature maps.""",
    "features": """features : sequence of array_likes, (N, C, H_l, W_l) or (N, H_l, W_l, C)
    Feature maps of each level, from fine to coarse, of the same N, C and dtype: float32,
    float64, float16, bfloat16 (of ml_dtypes), uint8, int8, uint16 or int16.""",
    "grad_output": """grad_output : array_like, (K, C', PH, PW) or (K, PH, PW, C'), float32 or \
float64
    Gradient of the output.""",
    "boxes": """boxes : array_like (K, 5), list of N array_likes (L_i, 4), or array_like (K, 4) \
with `boxes_num` or where N is 1
    Arrays, what NumPy reads as such, or nested lists of numbers: a list of rows is one array,
    a list of lists of rows has those of each image, where an empty one has none; `[]` has no
    boxes of any image.
    Rows [batch_index, x1, y1, x2, y2], or [x1, y1, x2, y2] where the image is known
    otherwise, in units of pixels of the input divided by `spatial_scale`.  Converted to the
    dtype of the data.  Boxes may lie off the map, have no area or be inverted.""",
    "rotated_boxes": """boxes : array_like (K, 6), list of N array_likes (L_i, 5), or array_like \
(K, 5) with `boxes_num` or where N is 1
    Arrays, what NumPy reads as such, or nested lists of numbers.
    Rows [batch_index, cx, cy, w, h, angle], or [cx, cy, w, h, angle] where the image is known
    otherwise: centre and size in units of pixels of the input divided by `spatial_scale`, and
    the angle in radians, counter-clockwise as one looks at the image.  Converted to the dtype of
    the data.  Boxes may lie off the map, have no area, or sizes below 0.

    Of a rectangle ((cx, cy), (w, h), a) of ``cv2.minAreaRect``, whose angle is in degrees and
    clockwise, the row is [image, cx + 0.5, cy + 0.5, w, h, numpy.deg2rad(-a)].""",
    "rotated_scale": """spatial_scale : float, optional
    Multiplies the centres and sizes of the boxes, in the dtype of the data: the size of the map
    divided by the size of the image that the boxes are given on.""",
    "clockwise": """clockwise : bool, optional
    Whether angles are clockwise as one looks at the image.""",
    "output_size": """output_size : int or (int, int)
    Bins of a box, (PH, PW), each at least 1.""",
    "input_shape": """input_shape : tuple of 4 ints
    Shape of the input, in the order of `layout`.""",
    "spatial_scale": """spatial_scale : float or (float, float), optional
    Multiplies the coordinates of the boxes, in the dtype of the data: the size of the map
    divided by the size of the image that the boxes are given on.  Two are those of y and x,
    (vertical, horizontal), for images that were resized unevenly.""",
    "scales": """spatial_scale : sequence of floats or of (float, float), optional
    What coordinates are multiplied by, for each level, none above the one before; two are
    those of y and x.  By default it follows from `image_size`.""",
    "sampling_ratio": """sampling_ratio : int, or whole float, optional
    Samples per bin and axis; if 0 or negative, as many as the bin has pixels, rounded up.""",
    "max_sampling_ratio": """sampling_ratio : int, or whole float, optional
    Samples per bin and axis, at most 1024; if 0 or negative, as many as the bin has pixels,
    rounded up.""",
    "products": """products : bool, optional
    Whether the largest product is meant, rather than the largest sample.""",
    "aligned": """aligned : bool, optional
    If True, coordinates are moved by half a pixel, so that pixel i covers [i, i + 1), and
    boxes keep their size.  If False, pixel i lies at i, and boxes are at least 1 pixel wide
    and high.""",
    "image_size": """image_size : (int, int), optional
    Height and width of the image that the boxes are given on, in their units.  Without
    `spatial_scale` that of a level is the power of two that is closest to its height
    divided by that of the image.""",
    "canonical_scale": """canonical_scale, canonical_level : float, int, optional
    A box as large as a square of side `canonical_scale` is pooled from level
    `canonical_level`, the map of scale 2**-canonical_level.""",
    "boxes_num": """boxes_num : (N,) ints, optional
    Number of boxes of each image, for boxes of shape (K, 4), which are then sorted by
    image.""",
    "layout": """layout : {"NCHW", "NHWC"}, optional
    Order of the dimensions of the input and of the output alike.""",
    "out": """out : ndarray, optional
    Written to, and returned.  It has the shape and dtype of the result, may have any
    strides, and shares no memory with what is read.  Where an input of another type is
    computed with as float32, it may have either type; integers are rounded to the nearest,
    halves to even, within their range.""",
    "num_threads": """num_threads : int, optional
    At most as many threads are used; by default :func:`roicy.get_num_threads`.  The result
    does not depend on it.  Of no meaning for arrays of CuPy.""",
    "output": (
        "ndarray, (K, C, PH, PW) or (K, PH, PW, C), dtype of `input`, but float32 of integers"
    ),
    "output_position_sensitive": """ndarray, (K, C', PH, PW) or (K, PH, PW, C'), \
dtype of `input`, but float32 of integers
    Where C' = C / (PH * PW).""",
    "output_multiscale": """ndarray, (K, C, PH, PW) or (K, PH, PW, C), dtype of `features`, \
but float32 of integers
    In the order of the boxes.""",
    "grad_input": """ndarray of shape `input_shape`, dtype of `grad_output`
    Gradient of the input.""",
    "grad_boxes": """ndarray or list of ndarrays, dtype of `grad_output`
    Gradient of the boxes in the format that they came in: an array of as many columns, or a
    list of arrays (L_i, 4); of batch indices it is 0.""",
    "raises": """TypeError, ValueError
    If an argument is of a wrong type, dtype or shape, a coordinate is not finite, or a
    batch index is not that of an image, or may have been rounded to it: bfloat16 is exact
    to 256, float16 to 2048 and float32 to 2**24.  The message names the argument, what it
    was, and the first such box.  Nothing has been written then.""",
    # canonical_scale is described together with it
    "canonical_level": "",
}


def section(title: str, passages: Iterable[str]) -> str:
    """Return a section of a docstring."""
    return "\n".join([title, "-" * len(title), *(passage for passage in passages if passage)])


def fill_in(documented: Documented, **sections: Iterable[str]) -> Documented:
    """
    Put sections in the place of ``{sections}`` in a docstring, at its column.

    sections: their passages by their titles, with _ in place of spaces.
    """
    text = documented.__doc__
    if text is not None:  # python -OO
        before, found, after = text.partition("{sections}")
        margin = " " * (len(before) - len(before.rstrip(" ")))
        filled = [section(title.replace("_", " "), said) for title, said in sections.items()]
        lines = "\n\n".join(filled).split("\n")
        shifted = "\n".join([lines[0], *(line and margin + line for line in lines[1:])])
        documented.__doc__ = before + (shifted if found else "") + after
    return documented


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters of a function."""
    code = function.__code__  # type: ignore[attr-defined]
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


def documented(
    returns: str, shared: Mapping[str, str] = PASSAGES, **passages: str
) -> Callable[[Documented], Documented]:
    """
    Fill in the shared sections of a docstring.

    `returns`, and the passages of parameters that are not described as those of their names are
    elsewhere, may contain names of shared passages in braces.
    """

    def fill(function: Documented) -> Documented:
        names = parameters_of(function)
        templates = {name: f"{{{name}}}" for name in names} | passages
        filled = [
            templates[name].format(**shared).replace("input :", f"{name} :", 1) for name in names
        ]
        said = [returns.format(**shared)]
        return fill_in(function, Parameters=filled, Returns=said, Raises=[shared["raises"]])

    return fill
