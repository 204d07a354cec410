"""
The ONNX operators that roicy computes, a line each: their domain, inputs and attributes.

``TABLE`` maps (domain, operator) to what the operator is from an opset version on.
:mod:`roicy.onnxruntime` computes these nodes of a graph, and ONNX Runtime all others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ... import _arguments, integrals, masks, multiscale, operators
from .. import float32_scale
from . import _crop_and_resize, _max_roi_pool, _one_of, _roi_align, _roi_align_rotated

Arrays = list[Any]
Attributes = dict[str, Any]
Shape = tuple[int, ...]


def _pooled(arrays: Arrays, given: Attributes) -> Shape:
    """Return the shape of what is pooled from the first input at the boxes of the second."""
    x, rows = arrays[:2]
    return (len(rows), _four("X", x)[1], *_size(given))


def _divided(arrays: Arrays, given: Attributes) -> Shape:
    """Return the shape of an output each of whose bins has channels of its own."""
    height, width = _size(given)
    count, channels, *_ = _pooled(arrays, given)
    return count, _arguments.channels(channels, (height, width), True), height, width


def _four(name: str, x: Any) -> Shape:
    if x.ndim != 4:
        raise ValueError(f"{name}: shape {x.shape}, expected (N, C, H, W)")
    shape: Shape = x.shape
    return shape


class Operator(NamedTuple):
    """
    What one operator is.

    Attributes
    ----------
    prepare : Callable
        Takes the attributes by their names; returns what computes the operator of the input
        arrays, `out` and `num_threads`.
    inputs : (int, int)
        The least and the largest number of inputs.
    attributes : dict
        The default of each attribute, whose type it has: int, float, str, or a list of them.  Of
        a list of floats it may be one float.
    shape : Callable
        Takes the input arrays and the attributes; returns the shape of the output.
    typed : int
        The input whose type the output has.
    required : (str, ...)
        Attributes that have no default but a type.
    integers : int
        The input that is of int64 where others are of floats, for domains that only roicy knows.
    """

    prepare: Callable[..., Any]
    inputs: tuple[int, int]
    attributes: Attributes
    shape: Callable[[Arrays, Attributes], Shape] = _pooled
    typed: int = 0
    required: tuple[str, ...] = ()
    integers: int = -1

    def checked(self, given: Attributes) -> Attributes:
        """Return these attributes, of the types that they have to have, and all others."""
        checked = dict(self.attributes)
        for name, value in given.items():
            if name not in checked:
                known = ", ".join(self.attributes)
                raise ValueError(f"attribute {name!r} is unknown, expected any of {known}")
            kind = type(self.attributes[name])
            value = [value] if kind is list and isinstance(value, float) else value
            if not isinstance(value, kind) and not (kind is float and isinstance(value, int)):
                raise ValueError(f"attribute {name!r} is {value!r}, expected {kind.__name__}")
            checked[name] = value
        for name in self.required:
            if name not in given:
                raise ValueError(f"attribute {name!r} is missing")
        for name in ("output_height", "output_width"):
            _arguments.integer(name, checked.get(name, 1), 1, _arguments.MOST_BINS)
        return checked


def _size(given: Attributes) -> tuple[int, int]:
    return given["output_height"], given["output_width"]


def _roi_align_10(**given: Any) -> Callable[..., Any]:
    """RoiAlign, whose coordinates had no half pixel before opset 16."""
    return _roi_align("output_half_pixel", **given)


def _mmcv_roi_align(**given: Any) -> Callable[..., Any]:
    mean = _one_of("mode", given["mode"], ("avg", "max")) == "avg"
    function = operators.roi_align if mean else operators.roi_align_max
    scale = float32_scale(given["spatial_scale"])
    parameters = (_size(given), scale, given["sampling_ratio"], bool(given["aligned"]))
    return lambda x, rows, **where: function(x, rows, *parameters, **where)


def _pooling(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Return what prepares an operator of roicy, which takes these attributes after its scale."""

    def prepare(**given: Any) -> Callable[..., Any]:
        scale = given["spatial_scale"]  # or two, (vertical, horizontal)
        scales = scale[0] if len(scale) == 1 else tuple(scale)
        values = [bool(given[name]) if name == "aligned" else given[name] for name in names]
        more = {"products": bool(given["products"])} if "products" in given else {}
        pool = functools.partial(function, **more)
        return lambda x, rows, **where: pool(x, rows, _size(given), scales, *values, **where)

    return prepare


def _multiscale(**given: Any) -> Callable[..., Any]:
    size, aligned = _size(given), bool(given["aligned"])
    canonical = {name: given[name] for name in ("canonical_scale", "canonical_level")}
    parameters = (size, given["scales"], given["sampling_ratio"], aligned)
    pool: Callable[..., Any] = multiscale.multiscale_roi_align
    return lambda rows, *maps, **where: pool(maps, rows, *parameters, **canonical, **where)


def _paste_masks(**given: Any) -> Callable[..., Any]:
    return lambda values, boxes, shape, **where: masks.paste_masks(
        values, boxes, shape.tolist(), threshold=None, **given, **where
    )


ROI_ALIGN_10 = {
    "mode": "avg", "output_height": 1, "output_width": 1, "sampling_ratio": 0,
    "spatial_scale": 1.0,
}  # fmt: skip
ROTATED = {**ROI_ALIGN_10, "aligned": 1, "clockwise": 0}
del ROTATED["mode"]
POOL = {"output_height": 1, "output_width": 1, "spatial_scale": [1.0]}
SAMPLED = {**POOL, "sampling_ratio": 0}
LEVELS = {
    "output_height": 1, "output_width": 1, "scales": [0.0], "sampling_ratio": 0, "aligned": 0,
    "canonical_scale": 224.0, "canonical_level": 4,
}  # fmt: skip

_ROI_ALIGN_16 = Operator(
    _roi_align, (3, 3), {**ROI_ALIGN_10, "coordinate_transformation_mode": "half_pixel"}
)
_MAX_ROI_POOL = Operator(
    _max_roi_pool,
    (2, 2),
    {"pooled_shape": [0], "spatial_scale": 1.0},
    lambda arrays, given: (len(arrays[1]), _four("X", arrays[0])[1], *given["pooled_shape"]),
    required=("pooled_shape",),
)
_CROP_AND_RESIZE = Operator(
    _crop_and_resize,
    (4, 4),
    {"mode": "bilinear", "extrapolation_value": 0.0},
    lambda arrays, given: (
        len(arrays[1]),
        _four("X", arrays[0])[1],
        *_arguments.output_size(arrays[3], "crop_size"),
    ),
)
_MMCV_ROI_ALIGN = Operator(_mmcv_roi_align, (2, 2), {**ROI_ALIGN_10, "aligned": 1})
_ROTATED = Operator(_roi_align_rotated, (2, 2), ROTATED)

# (domain, operator): what it is, by the opset version from which on it is that
TABLE: dict[tuple[str, str], dict[int, Operator]] = {
    ("", "RoiAlign"): {
        10: Operator(_roi_align_10, (3, 3), ROI_ALIGN_10),
        16: _ROI_ALIGN_16,
        22: _ROI_ALIGN_16,
    },
    ("", "MaxRoiPool"): {1: _MAX_ROI_POOL, 22: _MAX_ROI_POOL},
    ("mmcv", "MMCVRoiAlign"): {1: _MMCV_ROI_ALIGN},
    ("mmdeploy", "MMCVRoiAlign"): {1: _MMCV_ROI_ALIGN},
    ("mmcv", "MMCVRoIAlignRotated"): {1: _ROTATED},
    ("mmdeploy", "MMCVRoIAlignRotated"): {1: _ROTATED},
    ("com.microsoft", "CropAndResize"): {1: _CROP_AND_RESIZE},
    **{
        ("roicy", name): {1: Operator(prepare, inputs, attributes, *more)}
        for name, prepare, inputs, attributes, *more in (
            (
                "RoIAlign",
                _pooling(operators.roi_align, "sampling_ratio", "aligned"),
                (2, 2),
                {**SAMPLED, "aligned": 0},
            ),
            (
                "RoIAlignMax",
                _pooling(operators.roi_align_max, "sampling_ratio", "aligned"),
                (2, 2),
                {**SAMPLED, "aligned": 0, "products": 0},
            ),
            (
                "PSRoIAlign",
                _pooling(operators.ps_roi_align, "sampling_ratio"),
                (2, 2),
                SAMPLED,
                _divided,
            ),
            ("PrRoIPool", _pooling(integrals.prroi_pool), (2, 2), POOL),
            ("PSPrRoIPool", _pooling(integrals.ps_prroi_pool), (2, 2), POOL, _divided),
            ("PSRoIPool", _pooling(operators.ps_roi_pool), (2, 2), POOL, _divided),
            ("RoIPool", _pooling(operators.roi_pool), (2, 2), POOL),
            (
                "MultiScaleRoIAlign",
                _multiscale,
                (2, 2**31),
                LEVELS,
                lambda arrays, given: (len(arrays[0]), _four("X", arrays[1])[1], *_size(given)),
                1,
                ("scales",),
            ),
            (
                "PasteMasks",
                _paste_masks,
                (3, 3),
                {"padding": 1, "rule": "torchvision"},
                lambda arrays, given: (len(arrays[0]), *(int(extent) for extent in arrays[2])),
                0,
                (),
                2,
            ),
        )
    },
}
