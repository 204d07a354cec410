"""
The ONNX operators that roicy computes, a line each: their domain, inputs and attributes.

``TABLE`` maps (domain, operator) to what the operator is from an opset version on.  What a graph
may contain beside them ONNX Runtime computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import _arguments, integrals, masks, multiscale, normalised, operators
from .. import float32_scale, with_images
from . import _one_of

Arrays = list[Any]
Attributes = dict[str, Any]
REQUIRED = object()  # in place of a default


class Operator(NamedTuple):
    """
    What one operator is.

    Attributes
    ----------
    run : Callable
        Takes the input arrays, the attributes by their names and num_threads; returns an array.
    inputs : (int, int)
        The least and the largest number of inputs.
    attributes : dict
        The default of each attribute.  An attribute has the type of its default: int, float,
        str, or a list of them.  Of ``scale`` it may be a float or two, and of `REQUIRED`
        attributes it is told by their names in `KINDS`.
    typed : int
        The input whose type the output has.
    bins : (str, ...)
        The attributes that are the last extents of the output.
    """

    run: Callable[[Arrays, Attributes, int], Any]
    inputs: tuple[int, int]
    attributes: Attributes
    typed: int = 0
    bins: tuple[str, ...] = ("output_height", "output_width")


KINDS: dict[str, type] = {"pooled_shape": list, "rule": str, "scales": list}


def _size(given: Attributes) -> tuple[int, int]:
    return given["output_height"], given["output_width"]


def _images(rows: Any) -> Any:
    return rows if rows.dtype.kind == "f" else rows.astype(np.float64)


def _scale(given: Attributes) -> Any:
    """Return one scale or two, (vertical, horizontal)."""
    scale = given["spatial_scale"]
    if not isinstance(scale, list):
        return scale
    return scale[0] if len(scale) == 1 else tuple(scale)


def _roi_align(arrays: Arrays, given: Attributes, threads: int) -> Any:
    """ONNX's RoiAlign: see :func:`roicy.compat.onnx.RoiAlign`."""
    x, rois, images = arrays
    aligned = given["coordinate_transformation_mode"] == "half_pixel"
    common = (
        x, with_images(rois, images, 4), _size(given), float32_scale(given["spatial_scale"]),
        given["sampling_ratio"], aligned,
    )  # fmt: skip
    if _one_of("mode", given["mode"], ("avg", "max")) == "avg":
        return operators.roi_align(*common, num_threads=threads)
    return operators.roi_align_max(*common, products=True, num_threads=threads)


def _max_roi_pool(arrays: Arrays, given: Attributes, threads: int) -> Any:
    size = _arguments.output_size(tuple(given["pooled_shape"]), "pooled_shape")
    scale = float32_scale(given["spatial_scale"])
    return operators.roi_pool(*arrays, size, scale, num_threads=threads)


def _mmcv_roi_align(arrays: Arrays, given: Attributes, threads: int) -> Any:
    common = (
        *arrays, _size(given), float32_scale(given["spatial_scale"]), given["sampling_ratio"],
        bool(given["aligned"]),
    )  # fmt: skip
    if _one_of("mode", given["mode"], ("avg", "max")) == "avg":
        return operators.roi_align(*common, num_threads=threads)
    return operators.roi_align_max(*common, num_threads=threads)


def _mmcv_roi_align_rotated(arrays: Arrays, given: Attributes, threads: int) -> Any:
    return operators.roi_align_rotated(
        *arrays, _size(given), float32_scale(given["spatial_scale"]), given["sampling_ratio"],
        bool(given["aligned"]), bool(given["clockwise"]), num_threads=threads,
    )  # fmt: skip


def _crop_and_resize(arrays: Arrays, given: Attributes, threads: int) -> Any:
    x, rois, images, size = arrays
    method = _one_of("mode", given["mode"], ("bilinear", "nearest"))
    size = tuple(int(extent) for extent in size)
    boxes = (rois, images, "NCHW", threads, None)
    return normalised.resized((method, True), x, size, given["extrapolation_value"], boxes)


def _pooling(name: str, *parameters: str) -> Callable[[Arrays, Attributes, int], Any]:
    """Return what calls an operator of roicy with these attributes after its scale."""
    function = getattr(integrals if "prroi" in name else operators, name)

    def run(arrays: Arrays, given: Attributes, threads: int) -> Any:
        x, rows = arrays
        values = [bool(given[name]) if name in ("aligned",) else given[name] for name in parameters]
        return function(x, _images(rows), _size(given), _scale(given), *values, num_threads=threads)

    return run


def _roi_align_max(arrays: Arrays, given: Attributes, threads: int) -> Any:
    x, rows = arrays
    return operators.roi_align_max(
        x, _images(rows), _size(given), _scale(given), given["sampling_ratio"],
        bool(given["aligned"]), products=bool(given["products"]), num_threads=threads,
    )  # fmt: skip


def _multiscale(arrays: Arrays, given: Attributes, threads: int) -> Any:
    rows, *maps = arrays
    return multiscale.multiscale_roi_align(
        maps, _images(rows), _size(given), given["scales"], given["sampling_ratio"],
        bool(given["aligned"]), canonical_scale=given["canonical_scale"],
        canonical_level=given["canonical_level"], num_threads=threads,
    )  # fmt: skip


def _paste_masks(arrays: Arrays, given: Attributes, threads: int) -> Any:
    values, boxes, shape = arrays
    return masks.paste_masks(
        values, boxes, tuple(int(extent) for extent in shape), threshold=None,
        padding=given["padding"], rule=given["rule"], num_threads=threads,
    )  # fmt: skip


ROI_ALIGN_10 = {
    "mode": "avg",
    "output_height": 1,
    "output_width": 1,
    "sampling_ratio": 0,
    "spatial_scale": 1.0,
}
ROI_ALIGN_16 = {**ROI_ALIGN_10, "coordinate_transformation_mode": "half_pixel"}
MAX_ROI_POOL = {"pooled_shape": REQUIRED, "spatial_scale": 1.0}
MMCV_ROI_ALIGN = {**ROI_ALIGN_10, "aligned": 1}
ROTATED = {
    "output_height": 1,
    "output_width": 1,
    "sampling_ratio": 0,
    "spatial_scale": 1.0,
    "aligned": 1,
    "clockwise": 0,
}
CROP = {"mode": "bilinear", "extrapolation_value": 0.0}
POOL = {"output_height": 1, "output_width": 1, "spatial_scale": [1.0]}
SAMPLED = {**POOL, "sampling_ratio": 0}


def _roi_align_10(arrays: Arrays, given: Attributes, threads: int) -> Any:
    given = {**given, "coordinate_transformation_mode": "output_half_pixel"}
    return _roi_align(arrays, given, threads)


_MAX_ROI_POOL = Operator(_max_roi_pool, (2, 2), MAX_ROI_POOL, bins=())
_ROI_ALIGN_16 = Operator(_roi_align, (3, 3), ROI_ALIGN_16)
_ROTATED = Operator(_mmcv_roi_align_rotated, (2, 2), ROTATED)
_MMCV_ROI_ALIGN = Operator(_mmcv_roi_align, (2, 2), MMCV_ROI_ALIGN)

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
    ("com.microsoft", "CropAndResize"): {1: Operator(_crop_and_resize, (4, 4), CROP, bins=())},
    ("roicy", "RoIAlign"): {
        1: Operator(
            _pooling("roi_align", "sampling_ratio", "aligned"), (2, 2), {**SAMPLED, "aligned": 0}
        )
    },
    ("roicy", "RoIAlignMax"): {
        1: Operator(_roi_align_max, (2, 2), {**SAMPLED, "aligned": 0, "products": 0})
    },
    ("roicy", "PSRoIAlign"): {
        1: Operator(_pooling("ps_roi_align", "sampling_ratio"), (2, 2), SAMPLED)
    },
    ("roicy", "PrRoIPool"): {1: Operator(_pooling("prroi_pool"), (2, 2), POOL)},
    ("roicy", "PSPrRoIPool"): {1: Operator(_pooling("ps_prroi_pool"), (2, 2), POOL)},
    ("roicy", "PSRoIPool"): {1: Operator(_pooling("ps_roi_pool"), (2, 2), POOL)},
    ("roicy", "RoIPool"): {1: Operator(_pooling("roi_pool"), (2, 2), POOL)},
    ("roicy", "MultiScaleRoIAlign"): {
        1: Operator(
            _multiscale,
            (2, 2**31),
            {
                "output_height": 1, "output_width": 1, "scales": REQUIRED, "sampling_ratio": 0,
                "aligned": 0, "canonical_scale": 224.0, "canonical_level": 4,
            },
            typed=1,
        )
    },
    ("roicy", "PasteMasks"): {
        1: Operator(_paste_masks, (3, 3), {"padding": 1, "rule": "torchvision"}, bins=())
    },
}  # fmt: skip
NEWEST = {"": 0}  # the newest opset that is known of each domain; of others it is 1
