"""The ONNX operators that roicy computes, a line each: their domain, inputs and attributes.

``TABLE`` maps (domain, operator) to what the operator is from an opset version on.
:mod:`roicy.onnxruntime` computes these nodes of a graph, and ONNX Runtime all others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import _table, masks, multiscale
from ..._checks import _arguments, _boxes, _levels
from ..._checks._names import errors_name
from ..._kernels import plan
from ..._keywords import keywords_of
from . import Pooling, _crop_and_resize, _max_roi_pool, _one_of, _roi_align, _roi_align_rotated
from ._specs import MaskSpec, RoiSpec, of_levels

Arrays = list[Any]
Attributes = dict[str, Any]
Shape = tuple[int, ...]


def _of_boxes(boxes: Any, x: Any, size: Any) -> Shape:
    """Return the shape of what is pooled from maps at boxes."""
    if x.ndim != 4:
        raise ValueError(f"X: shape {x.shape}, expected (N, C, H, W)")
    return np.atleast_1d(boxes).shape[0], x.shape[1], *size


def _pooled(arrays: Arrays, given: Attributes) -> Shape:
    return _of_boxes(arrays[1], arrays[0], _size(given))


def _divided(arrays: Arrays, given: Attributes) -> Shape:
    """Return the shape of an output each of whose bins has channels of its own."""
    count, channels, *size = _pooled(arrays, given)
    return count, _arguments.channels(channels, _size(given), True), *size


class OnnxOp(NamedTuple):
    """What one operator is."""

    # Takes the attributes by their names; returns what computes the operator of the input arrays,
    # `out` and `num_threads`.
    prepare: Callable[..., Any]
    # The default of each attribute, whose type it has, or the type of one that must be given: int,
    # float, str, or a list of them.  Of a list of floats it may be one float.
    attributes: Attributes
    shape: Callable[[Arrays, Attributes], Shape] = _pooled  # of the output
    inputs: int = 2
    of_levels: bool = False  # whether the inputs are boxes and maps, and not a map and boxes
    copied: int = -1  # the input that a second output, which may be left out, is a copy of

    def checked(self, given: Attributes) -> Attributes:
        """Return these attributes, of the types that they have to have, and all others."""
        for name in given:
            if name not in self.attributes:
                known = ", ".join(self.attributes)
                raise ValueError(f"attribute {name!r} is unknown, expected any of {known}")
        checked = self.attributes | given
        for name, value in checked.items():
            default = self.attributes[name]
            kind = default if isinstance(default, type) else type(default)
            if value is kind:
                raise ValueError(f"attribute {name!r} is missing")
            if kind is list and isinstance(value, (int, float)):
                checked[name] = [value]
            elif not isinstance(value, kind) and not (kind is float and isinstance(value, int)):
                expected = "a number or a list of numbers" if kind is list else kind.__name__
                raise ValueError(f"attribute {name!r} is {value!r}, expected {expected}")
        for name in ("output_height", "output_width", "output_size"):
            _arguments.integer(name, checked.get(name, 1), 1, _arguments.MOST_BINS)
        _arguments.sampling_ratio(checked.get("sampling_ratio", 0))
        for name in ("scales", "pyramid_scales"):
            for scale in checked.get(name, ()):
                _arguments.scale(scale, name)
        return checked


def _size(given: Attributes) -> tuple[int, int]:
    return given["output_height"], given["output_width"]


def _roi_align_10(**given: Any) -> Pooling:
    """RoiAlign, whose coordinates had no half pixel before opset 16."""
    return _roi_align("output_half_pixel", **given)


def _attributes_of(name: str) -> Attributes:
    """Return the keywords of an operator of roicy as attributes, which know no bool."""
    return {
        name: int(default) if isinstance(default, bool) else default
        for name, default in keywords_of(name).items()
    }


def _of_roicy(operator: _table.Operator, rule: Any) -> OnnxOp:
    """Return an operator of roicy, whose attributes are named as its keywords.

    rule: of the operator, or what makes it of the keywords that it has.
    """
    keywords = keywords_of(operator.name)

    def prepare(**given: Any) -> Pooling:
        scale = given["spatial_scale"]  # or two, (vertical, horizontal)
        scales = scale[0] if len(scale) == 1 else tuple(scale)
        _arguments.spatial_scale(scales)
        values = {
            name: type(default)(given.get(name, default)) for name, default in keywords.items()
        }
        products = bool(values.pop("products", False))
        made = rule(**values) if values else rule
        return Pooling(operator, made, _size(given), scales, products)

    shape = _divided if operator.position_sensitive else _pooled
    return OnnxOp(prepare, {**POOL, **_attributes_of(operator.name)}, shape)


def _mmcv_roi_align(mode: str, **given: Any) -> Callable[..., Any]:
    mean = _one_of("mode", mode, ("avg", "max")) == "avg"
    pooling: Callable[..., Any] = _ROICY["RoIAlign" if mean else "RoIAlignMax"].prepare(**given)
    return pooling


class Prepared(NamedTuple):
    """What computes an operator of arrays, and its numbers for the provider, if it has some."""

    compute: Callable[..., Any]
    spec: RoiSpec | MaskSpec | None

    def __call__(self, *arrays: Any, **where: Any) -> Any:
        return self.compute(*arrays, **where)


def _multiscale(**given: Any) -> Prepared:
    parameters = _size(given), given["scales"], given["sampling_ratio"], bool(given["aligned"])
    canonical = {name: given[name] for name in ("canonical_scale", "canonical_level")}
    _levels.canonical((*canonical.values(), None))
    pool = errors_name(spatial_scale="scales")(multiscale.multiscale_roi_align)
    return Prepared(
        lambda rows, *maps, **where: pool(maps, rows, *parameters, **canonical, **where),
        of_levels(_table.sampled(*parameters[2:]), *parameters[:2], **canonical),
    )


def levels_of(rows: np.ndarray, scales: list[float], canonical_level: int = 4) -> np.ndarray:
    """Return the places of the maps that multiscale_roi_align pools rows from."""
    finest, coarsest = ((scale, scale) for scale in (scales[0], scales[-1]))
    rule = _levels.rule(len(scales), finest, coarsest, 224, canonical_level)
    size = 8 if rows.dtype == np.float64 else 4
    return plan.levels_of(np.ascontiguousarray(rows[:, 1:], np.float64), size, rule)


def _feature_extractor(**given: Any) -> Prepared:
    """OpenVINO's pyramid: its first map has the boxes of size 56, whatever its scale is.

    Boxes are at least 1 pixel wide and high in both modes; `aligned` shifts them by half a pixel.
    """
    scales = [1 / scale for scale in given["pyramid_scales"]]
    level = 2 + _levels.level_of_scale((scales[0], scales[0]))

    def pool(corners: Any, *maps: Any, **where: Any) -> Any:
        of_maps = scales[: len(maps)]
        corners = _boxes.rows_of_numbers("rois", corners, 4, _arguments.CORNERS)
        rows = np.pad(corners.astype(np.float64), ((0, 0), (1, 0)))
        if given["aligned"]:
            rows[:, 1:] -= (0.5 / np.array(of_maps)[levels_of(rows, of_maps, level)])[:, None]
        return multiscale.multiscale_roi_align(
            maps, rows, given["output_size"], of_maps, given["sampling_ratio"],
            canonical_level=level, **where,
        )  # fmt: skip

    rule = _table.sampled(given["sampling_ratio"], False)
    spec = of_levels(rule, (given["output_size"],) * 2, scales, canonical_level=level)
    shifted = bool(given["aligned"])
    return Prepared(pool, spec and spec._replace(one_image=True, shifted=shifted))


def _paste_masks(**given: Any) -> Prepared:
    paste = functools.partial(masks.paste_masks, threshold=None, **given)
    paste(np.empty((0, 1, 1, 1), np.float32), np.empty((0, 4)), (1, 1))  # checks the attributes
    return Prepared(
        lambda values, boxes, shape, **where: paste(values, boxes, shape.tolist(), **where),
        MaskSpec(masks.RULES.index(given["rule"]), given["padding"]),
    )


def _pasted(arrays: Arrays, given: Attributes) -> Shape:
    extents, most = np.atleast_1d(arrays[2]).tolist(), _arguments.MOST_PIXELS
    extents = [_arguments.integer("image_shape", extent, 0, most) for extent in extents]
    return np.atleast_1d(arrays[0]).shape[0], *extents


BINS = {"output_height": 1, "output_width": 1}
POOL = {**BINS, "spatial_scale": [1.0]}
ROTATED = {**BINS, "sampling_ratio": 0, "spatial_scale": 1.0}
WITH_MODE = {**ROTATED, "mode": "avg"}
LEVELS = {**BINS, "scales": list, **_attributes_of("multiscale_roi_align")}
EXTRACTED = {
    "output_size": 7, "sampling_ratio": 2, "aligned": 0, "pyramid_scales": [4, 8, 16, 32, 64],
    # OpenVINO reads none of these any more.
    "distribute_rois_between_levels": 1, "image_id": 0, "preserve_rois_order": 1,
}  # fmt: skip

_ROI_ALIGN_16 = OnnxOp(
    _roi_align, {**WITH_MODE, "coordinate_transformation_mode": "half_pixel"}, inputs=3
)
_MAX_ROI_POOL = OnnxOp(
    _max_roi_pool, {"pooled_shape": list, "spatial_scale": 1.0},
    lambda arrays, given: _of_boxes(arrays[1], arrays[0], given["pooled_shape"]),
)  # fmt: skip


def _cropping(mode: str, extrapolation_value: float) -> Prepared:
    crop, spec = _crop_and_resize(mode, extrapolation_value), None
    if extrapolation_value == 0:
        rule = _table.one_sample(mode.lower(), ends_on_corner=True)
        spec = RoiSpec(
            _table.CROP_AND_RESIZE, rule, (1, 1), [(1.0, 1.0)], images=2, size=3, normalised=True
        )
    return Prepared(crop, spec)


_CROP_AND_RESIZE = OnnxOp(
    _cropping, {"mode": "bilinear", "extrapolation_value": 0.0},
    lambda arrays, given: _of_boxes(
        arrays[1], arrays[0], _arguments.output_size(arrays[3], "crop_size")
    ), inputs=4,
)  # fmt: skip
_MMCV = {
    "MMCVRoiAlign": OnnxOp(
        _mmcv_roi_align, {**POOL, "sampling_ratio": 0, "mode": "avg", "aligned": 1}
    ),
    "MMCVRoIAlignRotated": OnnxOp(_roi_align_rotated, {**ROTATED, "aligned": 1, "clockwise": 0}),
}
_ROICY = {
    "RoIAlign": _of_roicy(_table.ROI_ALIGN, _table.sampled),
    "RoIAlignMax": _of_roicy(_table.ROI_ALIGN_MAX, _table.single_samples),
    "PSRoIAlign": _of_roicy(
        _table.PS_ROI_ALIGN, functools.partial(_table.sampled, aligned=True)
    ),
    "PrRoIPool": _of_roicy(_table.PRROI_POOL, _table.INTEGRATED),
    "PSPrRoIPool": _of_roicy(_table.PS_PRROI_POOL, _table.INTEGRATED),
    "PSRoIPool": _of_roicy(_table.PS_ROI_POOL, _table.UNIFORM),
    "RoIPool": _of_roicy(_table.ROI_POOL, _table.QUANTISED),
    "MultiScaleRoIAlign": OnnxOp(
        _multiscale, LEVELS, lambda arrays, given: _of_boxes(*arrays[:2], _size(given)),
        of_levels=True,
    ),
    "PasteMasks": OnnxOp(
        _paste_masks, {"padding": 1, "rule": "torchvision"}, _pasted, inputs=3
    ),
}  # fmt: skip
_OPENVINO = {
    "ExperimentalDetectronROIFeatureExtractor": OnnxOp(
        _feature_extractor, EXTRACTED,
        lambda arrays, given: _of_boxes(*arrays[:2], (given["output_size"],) * 2),
        of_levels=True, copied=0,
    ),
}  # fmt: skip

# (domain, operator): what it is, by the opset version from which on it is that
TABLE: dict[tuple[str, str], dict[int, OnnxOp]] = {
    ("", "RoiAlign"): {
        10: OnnxOp(_roi_align_10, WITH_MODE, inputs=3), 16: _ROI_ALIGN_16, 22: _ROI_ALIGN_16,
    },
    ("", "MaxRoiPool"): {1: _MAX_ROI_POOL, 22: _MAX_ROI_POOL},
    ("com.microsoft", "CropAndResize"): {1: _CROP_AND_RESIZE},
    **{
        (domain, name): {1: operator}
        for domain, of_domain in (
            ("mmcv", _MMCV), ("mmdeploy", _MMCV), ("org.openvinotoolkit", _OPENVINO),
            ("roicy", _ROICY),
        )
        for name, operator in of_domain.items()
    },
}  # fmt: skip
