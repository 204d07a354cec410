"""The passages that docstrings of public functions share, and what fills them in.

The sections Parameters, Returns and Raises stand before a docstring's notes and examples: each
parameter of the function has the passage of its name, but those that the decorator names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Callable[..., Any])

# Of a parameter: its type, and what is said about it.  Of returns and errors: whole sections.
PASSAGES = {
    "input": """array_like, (N, C, H, W) or (N, H, W, C), float32, float64, float16, \
bfloat16 (of ml_dtypes), uint8, int8, uint16 or int16
    Feature maps, of any strides, read-only or not: an array, or what NumPy reads as one, by
    ``__array__``, DLPack or the buffer protocol, but no list.  Of all types but the first two
    each pixel is converted where it is read, and everything is computed in float32.""",
    "input_gradient": """array_like, (N, C, H, W) or (N, H, W, C), dtype of `grad_output`, \
or one that is computed with as float32
    Feature maps.""",
    "features": """sequence of array_likes, (N, C, H_l, W_l) or (N, H_l, W_l, C)
    Feature maps of each level, from fine to coarse, of the same N, C and dtype: float32,
    float64, float16, bfloat16 (of ml_dtypes), uint8, int8, uint16 or int16.""",
    "grad_output": """array_like, (K, C', PH, PW) or (K, PH, PW, C'), float32 or float64
    Gradient of the output.""",
    "boxes": """array_like (K, 5), list of N array_likes (L_i, 4), or array_like (K, 4) \
with `boxes_num` or where N is 1
    Arrays, what NumPy reads as such, or nested lists of numbers: a list of rows is one array,
    a list of lists of rows has those of each image, where an empty one has none.  `[]` and
    ``numpy.array([])`` have no boxes of any image.
    Rows [batch_index, x1, y1, x2, y2], or [x1, y1, x2, y2] where the image is known
    otherwise, in units of pixels of the input divided by `spatial_scale`.  Converted to the
    dtype of the data.  Boxes may lie off the map, have no area or be inverted.""",
    "normalised_boxes": """array_like (K, 4)
    Rows [y1, x1, y2, x2] in units of the height and width of a map less one pixel: 0 is the
    centre of its first pixel and 1 that of its last.  Converted to the dtype of the data.
    Boxes may lie off the map; where y1 > y2 or x1 > x2, crops are mirrored.""",
    "box_indices": "(K,) ints\nImage of each box.",
    "rotated_boxes": """array_like (K, 6), list of N array_likes (L_i, 5), or array_like \
(K, 5) with `boxes_num` or where N is 1
    Arrays, what NumPy reads as such, or nested lists of numbers.
    Rows [batch_index, cx, cy, w, h, angle], or [cx, cy, w, h, angle] where the image is known
    otherwise: centre and size in units of pixels of the input divided by `spatial_scale`, and
    the angle in radians, counter-clockwise as one looks at the image.  Converted to the dtype of
    the data.  Boxes may lie off the map, have no area, or sizes below 0.

    Of a rectangle ((cx, cy), (w, h), a) of ``cv2.minAreaRect``, whose angle is in degrees and
    clockwise, the row is [image, cx + 0.5, cy + 0.5, w, h, numpy.deg2rad(-a)].""",
    "rotated_scale": """float
    Multiplies the centres and sizes of the boxes, in the dtype of the data: the size of the map
    divided by the size of the image that the boxes are given on.""",
    "clockwise": "bool\nWhether angles are clockwise as one looks at the image.",
    "output_size": "int or (int, int)\nBins of a box, (PH, PW), each at least 1.",
    "featmap_names": "list of str\nNames of the maps that are used, from fine to coarse.",
    "image_shapes": """list of N (int, int)
    Height and width of each image, before they were made into a batch; the scales of the maps
    follow from the largest.""",
    "input_shape": "tuple of 4 ints\nShape of the input, in the order of `layout`.",
    "input_shapes": """sequence of tuples of 4 ints
    Shape of the maps of each level, in the order of `layout`.""",
    "spatial_scale": """float or (float, float)
    Multiplies the coordinates of the boxes, in the dtype of the data: the size of the map
    divided by the size of the image that the boxes are given on.  Two are (vertical,
    horizontal), for images that were resized unevenly.""",
    "scales": """sequence of floats or of (float, float)
    What coordinates are multiplied by, for each level, none above the one before; two are
    (vertical, horizontal).  By default it follows from `image_size`.""",
    "sampling_ratio": """int, or whole float
    Samples per bin and axis; if 0 or negative, as many as the bin has pixels, rounded up.""",
    "max_sampling_ratio": """int, or whole float
    Samples per bin and axis, at most 1024; if 0 or negative, as many as the bin has pixels,
    rounded up.""",
    "products": "bool\nWhether the largest product is meant, rather than the largest sample.",
    "aligned": """bool
    If True, coordinates are moved by half a pixel, so that pixel i covers [i, i + 1), and
    boxes keep their size.  If False, pixel i lies at i, and boxes are at least 1 pixel wide
    and high.""",
    "method": """{"bilinear", "nearest"}
    Whether a bin is a bilinear sample or the nearest pixel; halves are rounded away from 0.""",
    "extrapolation_value": "float\nValue of bins off the map, rounded as other bins are.",
    "image_size": """(int, int)
    Height and width of the image that the boxes are given on, in their units.  Without
    `spatial_scale` the scale of a level is the power of two that is closest to the height
    of its map divided by the height of the image.""",
    "canonical_scale": """float, int
    A box as large as a square of side `canonical_scale` is pooled from level
    `canonical_level`, the map of scale 2**-canonical_level.""",
    "boxes_num": """(N,) ints
    Number of boxes of each image, for boxes of shape (K, 4), which are then sorted by
    image.""",
    "layout": """{"NCHW", "NHWC"}
    Order of the dimensions of the input and of the output alike.""",
    "out": """ndarray
    Written to, and returned.  It has the shape and dtype of the result, may have any
    strides, and shares no memory with what is read.  Where an input of another type is
    computed with as float32, it may have either type; integers are rounded to the nearest,
    halves to even, within their range.""",
    "outs": """sequence of ndarrays
    Written to, and returned: one for each level, of the shape and dtype of the result.  A list
    is returned itself, and of another sequence a list of its arrays.""",
    "num_threads": """int
    At most as many threads are used; by default :func:`roicy.get_num_threads`.  The result
    does not depend on it.  Of no meaning for arrays of CuPy.""",
    "output": "ndarray, (K, C, PH, PW) or (K, PH, PW, C), dtype of `input`, "
    "but float32 of integers",
    "output_position_sensitive": """ndarray, (K, C', PH, PW) or (K, PH, PW, C'), \
dtype of `input`, but float32 of integers
    Where C' = C / (PH * PW).""",
    "output_multiscale": """ndarray, (K, C, PH, PW) or (K, PH, PW, C), dtype of `features`, \
but float32 of integers
    In the order of the boxes.""",
    "grad_input": """ndarray of shape `input_shape`, dtype of `grad_output`
    Gradient of the input.""",
    "grad_features": """list of ndarrays of the shapes `input_shapes`, dtype of `grad_output`
    Gradients of the maps; zeros of a level that no box is pooled from.""",
    "grad_boxes": """ndarray or list of ndarrays, dtype of `grad_output`
    Gradient of the boxes in the format that they came in: an array of as many columns, or a
    list of an array for each image; of batch indices it is 0.""",
    "raises": """TypeError, ValueError
    If an argument is of a wrong type, dtype or shape, a coordinate is not finite, or a
    batch index is not that of an image, or may have been rounded to it: bfloat16 is exact
    to 256, float16 to 2048 and float32 to 2**24.  The message names the argument, what it
    was, and the first such box.  Nothing has been written then.""",
}
# What is said of rotated boxes, in place of the passages of the same names.
ROTATED = {
    "boxes": "rotated_boxes", "spatial_scale": "rotated_scale",
    "sampling_ratio": "max_sampling_ratio",
}  # fmt: skip
# The example of operators whose bins read channels of their own.
BY_BIN = """
Examples
--------
>>> import numpy as np, roicy
>>> channels = np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)
>>> input = channels * np.ones((1, 1, 6, 6), np.float32)
>>> boxes = np.array([[0, 1, 1, 5, 5]], np.float32)
>>> roicy.{}(input, boxes, 2)[0, 0]
array([[0., 1.],
       [2., 3.]], dtype=float32)
"""
PASSAGES["input_by_bin"] = PASSAGES["input"] + "\n    C is a multiple of PH * PW."
PASSAGES["boxes_of_images"] = PASSAGES["boxes"] + "\n    Only their images matter."
# Parameters that are described with the one before them.
SECOND = {
    "canonical_scale": "canonical_level", "pooled_h": "pooled_w",
    "pooled_height": "pooled_width", "output_height": "output_width",
}  # fmt: skip


def fill_in(documented: Documented, example: str = "", **sections: Iterable[str]) -> Documented:
    """Put sections into a docstring, before what comes after them, and an example at its end.

    sections: their passages by their titles, with _ in place of spaces.
    """
    text = documented.__doc__
    if text is not None:  # python -OO
        line = text[len(text.rstrip()) :]  # a new line, and the margin
        text = text.replace(line or "\n", "\n").strip() + "\n" + example
        for after in ("\nSee Also\n---", "\nNotes\n---", "\nExamples\n---"):
            end = text.find(after)
            if end >= 0:
                break
        filled = [
            "\n".join([title.replace("_", " "), "-" * len(title), *passages])
            for title, passages in sections.items()
        ]
        documented.__doc__ = "\n\n".join([text[:end].rstrip(), *filled]) + "\n" + text[end:]
    return documented


def parameters_of(documented: Callable[..., Any]) -> dict[str, str]:
    """Return the parameters of a function or class, with ", optional" for those with a default."""
    function: Any = documented
    if isinstance(documented, type):
        function = documented.__init__  # type: ignore[misc]
    function = getattr(function, "__wrapped__", function)
    code, defaults = function.__code__, len(function.__defaults__ or ())
    positional, count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    optional = {*names[positional - defaults : positional], *(function.__kwdefaults__ or ())}
    found = {name: ", optional" if name in optional else "" for name in names[:count]}
    if code.co_flags & inspect.CO_VARKEYWORDS:
        found[f"**{names[count]}"] = ""
    found.pop("self", None)
    return found


def described(
    documented: Callable[..., Any], shared: Mapping[str, str], own: Mapping[str, str]
) -> list[str]:
    """Return the section Parameters of a function, or of a class.

    own: for parameters that have not the shared passage of their name, the name of another one, or
    a passage.
    """
    entries, described_before = [], set(SECOND.values())
    for name, optional in parameters_of(documented).items():
        if name in described_before:
            continue
        key = own.get(name, name)
        kind, text = (key if "\n" in key else shared[key]).split("\n", 1)
        both = f"{name}, {SECOND[name]}" if name in SECOND else name
        entries.append(f"{both} : {kind}{optional}\n    {text.lstrip()}")
    return entries


def documented(returns: str, **passages: str) -> Callable[[Documented], Documented]:
    """Fill in the sections of the docstring of a function on arrays.

    returns: a section, with names of shared passages in braces; passages: see `described`.
    """

    def fill(function: Documented) -> Documented:
        by_bin = passages.get("input") == "input_by_bin"
        return fill_in(
            function,
            BY_BIN.format(function.__name__) if by_bin else "",
            Parameters=described(function, PASSAGES, passages),
            Returns=[returns.format_map(PASSAGES)],
            Raises=[PASSAGES["raises"]],
        )

    return fill


def raises(more: str = "", of_boxes: str = "") -> Callable[[Documented], Documented]:
    """Fill in the section Raises of a function that is no operator on maps.

    more: further reasons; of_boxes: what else the message says.
    """
    import textwrap  # which operators do not need

    text = (
        f"If an argument is of a wrong type, dtype or shape{more}.  The message names the "
        f"argument, what it was and what was expected{of_boxes}.  Nothing has been written then."
    )
    errors = "\n    ".join(["TypeError, ValueError", *textwrap.wrap(text, 92)])
    memory = "MemoryError\n    If there is no memory for the result."
    return functools.partial(fill_in, Raises=[errors, memory])
