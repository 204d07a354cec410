"""What calls of other systems share: passages of their docstrings, and names in their errors."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from .. import _docs
from .._checks._names import errors_name
from .._docs import Documented, fill_in

# Passages that differ from the passages of roicy's own functions, or have other names.
_PASSAGES = _docs.PASSAGES | {
    "maps": "ndarray (N, C, H, W)\nFeature maps.",
    "maps_by_name": "dict of ndarrays (N, C, H_l, W_l)\n"
    "Maps by their names.  Maps of other names are not used.",
    "boxes": "ndarray (K, 4)\nRows [x1, y1, x2, y2].",
    "sorted_boxes": "ndarray (K, 4)\nRows [x1, y1, x2, y2], sorted by image.",
    "boxes_with_image": "ndarray (K, 5)\nRows [batch_index, x1, y1, x2, y2].",
    "either_boxes": "ndarray (K, 5) or list of N ndarrays (L_i, 4)\n"
    "Rows [batch_index, x1, y1, x2, y2], or [x1, y1, x2, y2].",
    "listed_boxes": "list of N ndarrays (L_i, 4)\nRows [x1, y1, x2, y2] in pixels of the images.",
    "in_radians": "ndarray (K, 6)\nRows [batch_index, cx, cy, w, h, angle], the angle in radians.",
    "in_degrees": "ndarray (K, 6)\n"
    "Rows [batch_index, cx, cy, w, h, angle], the angle in degrees, counter-clockwise.",
    "counts": "(N,) ints\nNumber of boxes of each image.",
    "offsets": "(N + 1,) ints\nOffsets of the boxes of each image, as in 1.8.",
    "sides": "int\nBins of a box.",
    "scale": "float\nMultiplies the coordinates; of rotated boxes, centres and sizes.",
    "float32": "float\nMultiplies the coordinates; kept in float32.",
    "position_sensitive": "bool\nWhether each bin reads channels of its own.",
    "gradient": "ndarray (K, C', PH, PW), float32 or float64\nGradient of the output.",
    "shape": "tuple of 4 ints\nShape of the maps.",
    "mode": '{"avg", "max"}\nWhether the mean or the largest of the samples is taken.',
    "ignored": "object\nIgnored.",
}
# The passage of an argument of this name, and what operators call it in their errors.
_ARGUMENTS = {
    "input": ("maps", ""), **dict.fromkeys(("data", "x", "X"), ("maps", "input")),
    **dict.fromkeys(("data_shape", "x_shape"), ("shape", "input_shape")),
    **dict.fromkeys(("rois", "fpn_rois"), ("boxes", "boxes")),
    "coords": ("boxes", "boxes box_indices"), "batch_indices": ("box_indices", "box_indices"),
    "boxes_num": ("counts", ""),
    **dict.fromkeys(("rois_num", "batch_roi_nums"), ("counts", "boxes_num")),
    **dict.fromkeys(
        ("pooled_size", "pooled_shape", "output_roi", "crop_size", "group_size"),
        ("output_size", "output_size"),
    ),
    **dict.fromkeys(("pooled_h", "pooled_height", "output_height"), ("sides", "")),
    "sample_ratio": ("sampling_ratio", "sampling_ratio"),
    "clockwise_mode": ("clockwise", "clockwise"),
    "grad_output": ("gradient", ""), "rois_lod": ("offsets", ""), "spatial_scale": ("scale", ""),
    **dict.fromkeys(("name", "**_"), ("ignored", "")),
}  # fmt: skip
_OF_NAME = {name: passage for name, (passage, _) in _ARGUMENTS.items()}


def documented(
    see: str, returns: str = "", raises: str = "", **passages: str
) -> Callable[[Documented], Documented]:
    """Fill in the sections of a docstring, and have errors say the function's own names.

    see: the function of roicy whose errors are raised; returns: a section, which classes have not;
    raises: what is added to the errors; passages: see :func:`roicy._docs.described`.
    """

    def decorate(function: Documented) -> Documented:
        described = _docs.described(function, _PASSAGES, _OF_NAME | passages)
        if not returns:
            return fill_in(function, Parameters=described)
        errors = textwrap.wrap(f"As :func:`roicy.{see}`{raises and '; and ' + raises}.", 92)
        said = "\n    ".join(["TypeError, ValueError", *errors])
        fill_in(function, Parameters=described, Returns=[returns], Raises=[said])
        names = {
            beneath: name
            for name in _docs.parameters_of(function)
            for beneath in _ARGUMENTS.get(name, ("", ""))[1].split()
        }
        return errors_name(**names)(function) if names else function

    return decorate
