"""
What the calls of other systems share: passages of their docstrings, and names in their errors.

A docstring says ``{sections}`` where its sections Parameters, Returns and Raises shall be.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable

from .._docs import Documented, fill_in
from .._names import errors_name

# a type, and a line about it
_PASSAGES = {
    "maps": ("ndarray (N, C, H, W)", "Feature maps."),
    "boxes": ("ndarray (K, 4)", "Rows [x1, y1, x2, y2]."),
    "sorted_boxes": ("ndarray (K, 4)", "Rows [x1, y1, x2, y2], sorted by image."),
    "boxes_with_image": ("ndarray (K, 5)", "Rows [batch_index, x1, y1, x2, y2]."),
    "in_radians": (
        "ndarray (K, 6)", "Rows [batch_index, cx, cy, w, h, angle], the angle in radians.",
    ),
    "in_degrees": (
        "ndarray (K, 6)",
        "Rows [batch_index, cx, cy, w, h, angle], the angle in degrees, counter-clockwise.",
    ),
    "normalised": (
        "ndarray (K, 4)",
        "Rows [y1, x1, y2, x2]: 0 is the centre of the first pixel, and 1 that of the last.",
    ),
    "images": ("(K,) ints", "Image of each box."),
    "counts": ("(N,) ints", "Number of boxes of each image."),
    "offsets": ("(N + 1,) ints", "Offsets of the boxes of each image, as in 1.8."),
    "bins": ("int or (int, int)", "Bins of a box, (height, width)."),
    "sides": ("int", "Bins of a box."),
    "scale": ("float", "Multiplies the coordinates; of rotated boxes, centres and sizes."),
    "float32": ("float", "Multiplies the coordinates; kept in float32."),
    "ratio": (
        "int",
        "Samples per bin and axis; if 0 or negative, as many as the bin has pixels, rounded up.",
    ),
    "aligned": (
        "bool", "Whether pixel i covers [i, i + 1); else boxes are at least 1 pixel wide and high.",
    ),
    "clockwise": ("bool", "Whether angles are clockwise in the image."),
    "position_sensitive": ("bool", "Whether each bin reads channels of its own."),
    "gradient": ("ndarray (K, C', PH, PW), float32 or float64", "Gradient of the output."),
    "shape": ("tuple of 4 ints", "Shape of the maps."),
    "method": ('{"bilinear", "nearest"}', "How pixels are interpolated."),
    "mode": ('{"avg", "max"}', "Whether the mean or the largest of the samples is taken."),
    "extrapolation_value": ("float", "Value of bins off the image."),
    "ignored": ("object", "Ignored."),
}  # fmt: skip
_OF_NAME = {
    **dict.fromkeys(("input", "data", "x", "X"), "maps"),
    **dict.fromkeys(("x_shape", "data_shape"), "shape"),
    **dict.fromkeys(("boxes_num", "rois_num"), "counts"),
    **dict.fromkeys(("output_size", "pooled_size", "pooled_shape", "output_roi"), "bins"),
    **dict.fromkeys(("pooled_h", "pooled_height", "output_height"), "sides"),
    **dict.fromkeys(("sampling_ratio", "sample_ratio"), "ratio"),
    **dict.fromkeys(("name", "_"), "ignored"),
    "batch_indices": "images", "clockwise_mode": "clockwise", "grad_output": "gradient",
    "rois_lod": "offsets", "spatial_scale": "scale",
}  # fmt: skip
# what operators call an argument of this name in their errors
_BENEATH = {
    **dict.fromkeys(("data", "x", "X"), ("input",)),
    **dict.fromkeys(("data_shape", "x_shape"), ("input_shape",)),
    **dict.fromkeys(("rois", "fpn_rois"), ("boxes",)),
    "coords": ("boxes", "box_indices"), "batch_indices": ("box_indices",),
    "clockwise_mode": ("clockwise",),
    "rois_num": ("boxes_num",), "sample_ratio": ("sampling_ratio",), "group_size": ("output_size",),
    **dict.fromkeys(("pooled_size", "pooled_shape", "output_roi", "crop_size"), ("output_size",)),
}  # fmt: skip
_SECOND = {
    "pooled_h": "pooled_w", "pooled_height": "pooled_width", "output_height": "output_width",
}  # fmt: skip


def documented(
    see: str, returns: str = "", raises: str = "", **passages: str
) -> Callable[[Documented], Documented]:
    """
    Fill in the sections of a docstring, and have errors say the function's own names.

    see: the function of roicy whose errors are raised; returns: a section, which classes have not;
    raises: what is added to the errors; passages: of parameters, each the name of a shared one, or
    a type and what is said about it, with a line break between them.
    """

    def decorate(function: Documented) -> Documented:
        described, names = [], {}
        parameters = inspect.signature(function).parameters
        for name, parameter in parameters.items():
            if name in _SECOND.values():
                continue
            key = passages.get(name) or _OF_NAME.get(name, name)
            kind, text = _PASSAGES.get(key) or key.split("\n", 1)
            both = f"{name}, {_SECOND[name]}" if name in _SECOND else name
            optional = ", optional" if parameter.default is not parameter.empty else ""
            header = f"**{name}" if parameter.kind is parameter.VAR_KEYWORD else f"{both} : {kind}"
            described.append(f"{header}{optional}\n    {text}")
            names.update(dict.fromkeys(_BENEATH.get(name, ()), name))
        if not returns:
            return fill_in(function, Parameters=described)
        errors = textwrap.wrap(f"As :func:`roicy.{see}`{raises and '; and ' + raises}.", 92)
        said = "\n    ".join(["TypeError, ValueError", *errors])
        fill_in(function, Parameters=described, Returns=[returns], Raises=[said])
        return errors_name(**names)(function) if names else function

    return decorate
