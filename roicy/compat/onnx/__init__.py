"""ONNX's operators ``RoiAlign`` (opset 10, 16, 22) and ``MaxRoiPool`` (opset 1, 22), with their
inputs and attributes, on NumPy arrays; and two of other domains, ``CropAndResize`` of ONNX Runtime
(com.microsoft) and ``MMCVRoIAlignRotated`` of MMDeploy (mmdeploy, and mmcv).

They need no ``onnx``.  With it, :mod:`roicy.compat.onnx.reference` runs them in its reference
evaluator.  With ``onnxruntime``, :mod:`roicy.onnxruntime` computes them in whole models, and
``roicy.compat.onnx.InferenceSession`` is a session that has it do so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ... import _call, _table, normalised
from ..._checks import _arguments, _boxes
from ..._checks import _names as t
from ..._checks._names import BOXES
from ..._kernels.plan import Arguments, Rule
from .. import bins_of, float32_scale, with_images
from .._docs import documented
from ._specs import RoiSpec

if TYPE_CHECKING:
    from ._session import InferenceSession as InferenceSession

__all__ = ["CropAndResize", "MMCVRoIAlignRotated", "MaxRoiPool", "RoiAlign"]


def __getattr__(name: str) -> Any:
    """Import what needs other packages when it is asked for."""
    if name == "InferenceSession":
        from ._session import InferenceSession

        return InferenceSession
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Pooling:
    """An operator of one map, with all that a node says of it; a call of it pools.

    products: as of ``_call.forward``; rows: makes rows of the map and of what a node has after it,
    which by default is one array of rows.
    """

    def __init__(
        self, operator: _table.Operator, rule: Rule, size: Any, scale: Any, products: bool = False,
        rows: Callable[..., Any] | None = None,
    ):  # fmt: skip
        self.operator, self.rule, self.size, self.scale = operator, rule, size, scale
        self.products, self.rows = products, rows

    @property
    def spec(self) -> RoiSpec:
        """Its numbers for the provider."""
        scale = self.scale if isinstance(self.scale, tuple) else (self.scale, self.scale)
        return RoiSpec(
            self.operator, self.rule, _arguments.output_size(self.size), [scale],
            images=2 if self.rows else -1,  # the third input of with_images
            products=self.products,
        )  # fmt: skip

    def __call__(self, x: Any, *boxes: Any, out: Any = None, num_threads: Any = None) -> Any:
        rows = self.rows(x, *boxes) if self.rows else boxes[0]
        arguments = Arguments(rows, None, self.scale, "NCHW", num_threads, out)
        return _call.forward(
            self.operator, self.rule, x, self.size, arguments, products=self.products
        )


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return one of some words, in lower case; ONNX Runtime takes any case."""
    return _arguments.choice(name, value.lower() if isinstance(value, str) else value, choices)


@documented(
    "roi_align",
    "ndarray (K, C, output_height, output_width), dtype of `X`",
    rois="boxes",
    spatial_scale="float32",
    coordinate_transformation_mode="""{"half_pixel", "output_half_pixel"}
"half_pixel": pixel i covers [i, i + 1), roicy's `aligned`.  "output_half_pixel": pixel
    i lies at i, and boxes are at least 1 pixel wide and high, as always in opset 10.""",
    largest="""{"products", "samples"}
This parameter is not part of ONNX.  It says what mode "max" compares.  "products": each
    pixel times its bilinear weight, as the reference implementation and ONNX Runtime do.
    "samples": the sums of these products, as OpenVINO does, whose largest is at least 0.""",
)
def RoiAlign(
    X: t.Readable, rois: t.Rows, batch_indices: t.Indices, *,
    coordinate_transformation_mode: str = "half_pixel", mode: str = "avg",
    output_height: t.Index = 1, output_width: t.Index = 1, sampling_ratio: t.Ratio = 0,
    spatial_scale: t.Number = 1.0, largest: Literal["products", "samples"] = "products",
) -> t.NDArray[Any]:  # fmt: skip
    """Mean or largest of bilinear samples in each bin of each box: RoiAlign of ONNX, opset 10, 16,
    22.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import onnx
    >>> X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> rois, images = np.array([[0, 0, 2, 2]], np.float32), np.array([0])
    >>> onnx.RoiAlign(X, rois, images, output_height=2, output_width=2, sampling_ratio=1)[0, 0]
    array([[0., 1.],
           [4., 5.]], dtype=float32)
    >>> given = {"sampling_ratio": 2, "coordinate_transformation_mode": "output_half_pixel"}
    >>> onnx.RoiAlign(X, rois, images, mode="max", **given).ravel()
    array([2.5], dtype=float32)
    """
    pool = _roi_align(
        coordinate_transformation_mode, mode, output_height, output_width, sampling_ratio,
        spatial_scale, largest,
    )  # fmt: skip
    return pool(X, rois, batch_indices)


def _roi_align(
    coordinate_transformation_mode: str, mode: str, output_height: Any, output_width: Any,
    sampling_ratio: Any, spatial_scale: Any, largest: str = "products",
) -> Pooling:  # fmt: skip
    """Return RoiAlign of these attributes."""
    modes = ("half_pixel", "output_half_pixel")
    given = _one_of("coordinate_transformation_mode", coordinate_transformation_mode, modes)
    size = bins_of(output_height=output_height, output_width=output_width)
    scale, parameters = float32_scale(spatial_scale), (sampling_ratio, given == "half_pixel")
    if _one_of("mode", mode, ("avg", "max")) == "avg":
        return Pooling(_table.ROI_ALIGN, _table.sampled(*parameters), size, scale, rows=with_images)
    products = _one_of("largest", largest, ("products", "samples")) == "products"
    rule = _table.single_samples(*parameters)
    return Pooling(_table.ROI_ALIGN_MAX, rule, size, scale, products, with_images)


@documented(
    "roi_pool",
    "ndarray (K, C, height, width), dtype of `X`",
    rois="boxes_with_image",
    spatial_scale="float32",
)
def MaxRoiPool(
    X: t.Readable, rois: t.Rows, *, pooled_shape: t.Pair, spatial_scale: t.Number = 1.0
) -> t.NDArray[Any]:
    """Largest pixel in each bin of each box: MaxRoiPool of ONNX, opset 1 and 22.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import onnx
    >>> X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> onnx.MaxRoiPool(X, np.array([[0, 0, 0, 2, 2]], np.float32), pooled_shape=(2, 2))[0, 0]
    array([[ 5.,  6.],
           [ 9., 10.]], dtype=float32)
    """
    return _max_roi_pool(pooled_shape, spatial_scale)(X, rois)


def _max_roi_pool(pooled_shape: Any, spatial_scale: Any) -> Pooling:
    """Return MaxRoiPool of these attributes."""
    size = _arguments.output_size(pooled_shape, "pooled_shape")
    return Pooling(_table.ROI_POOL, _table.QUANTISED, size, float32_scale(spatial_scale))


@documented(
    "crop_and_resize",
    "ndarray (K, C, height, width), dtype of `X`",
    rois="normalised_boxes",
    mode="method",
)
def CropAndResize(
    X: t.Readable, rois: t.Rows, batch_indices: t.Indices, crop_size: Any, *,
    mode: Literal["bilinear", "nearest"] = "bilinear", extrapolation_value: t.Number = 0.0,
) -> t.NDArray[Any]:  # fmt: skip
    """Crops of boxes in normalised coordinates, resized, of ONNX Runtime's domain com.microsoft.

    Unlike in :func:`roicy.crop_and_resize`, which is TensorFlow's, the last sample of a box lies on
    its second corner exactly, so that no rounding loses the edge of the map.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import onnx
    >>> X, rois = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3), np.array([[0, 0, 1, 1]])
    >>> onnx.CropAndResize(X, rois, np.array([0]), np.array([2, 2]))[0, 0]
    array([[0., 2.],
           [6., 8.]], dtype=float32)
    """
    crop = _crop_and_resize(mode, extrapolation_value)
    return crop(X, rois, batch_indices, _arguments.output_size(crop_size, "crop_size"))


def _crop_and_resize(mode: str, extrapolation_value: Any) -> Callable[..., Any]:
    """Return CropAndResize of these attributes, of arrays, and `out` and `num_threads`."""
    rule = _table.one_sample(_one_of("mode", mode, _arguments.METHODS), ends_on_corner=True)

    def crop(
        X: Any, rois: Any, batch_indices: Any, size: Any, out: Any = None, num_threads: Any = None
    ) -> Any:
        # ONNX Runtime takes boxes that are not finite for boxes outside of the map.
        rois = _boxes.rows_of_numbers(BOXES, rois, 4, ("y1", "x1", "y2", "x2"))
        finite = np.isfinite(rois).all(axis=-1, keepdims=True)
        rois = rois if finite.all() else np.where(finite, rois, np.array([2, 2, 3, 3], rois.dtype))
        arguments = Arguments(rois, None, None, "NCHW", num_threads, out)
        return normalised.resized(rule, X, size, extrapolation_value, batch_indices, arguments)

    return crop


@documented(
    "roi_align_rotated",
    "ndarray (K, C, output_height, output_width)",
    rois="in_radians",
    aligned="{0, 1}\nAs of :func:`roicy.roi_align_rotated`.",
    clockwise="{0, 1}\nAs of :func:`roicy.roi_align_rotated`.",
)
def MMCVRoIAlignRotated(
    input: t.Readable, rois: t.Rows, *, output_height: t.Index,
    output_width: t.Index, spatial_scale: t.Number = 1.0,
    sampling_ratio: t.Ratio = 0, aligned: t.Index = 1, clockwise: t.Index = 0,
) -> t.NDArray[Any]:  # fmt: skip
    """Mean of bilinear samples in each bin of each rotated box, of MMDeploy's domain.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import onnx
    >>> input = np.array([[1, 2], [3, 4]], np.float32).reshape(1, 1, 2, 2)
    >>> rois, size = np.array([[0, 0.5, 0.5, 1, 1, np.pi / 2]]), {"output_height": 2}
    >>> onnx.MMCVRoIAlignRotated(input, rois, output_width=2, sampling_ratio=2, **size)[0, 0]
    array([[1.5 , 1.  ],
           [1.75, 1.25]], dtype=float32)
    """
    pool = _roi_align_rotated(
        output_height, output_width, spatial_scale, sampling_ratio, aligned, clockwise
    )
    return pool(input, rois)


def _roi_align_rotated(
    output_height: Any, output_width: Any, spatial_scale: Any, sampling_ratio: Any, aligned: Any,
    clockwise: Any,
) -> Pooling:  # fmt: skip
    """Return MMCVRoIAlignRotated of these attributes."""
    size = bins_of(output_height=output_height, output_width=output_width)
    flags = [
        bool(_arguments.integer(name, int(value) if isinstance(value, bool) else value, 0, 1))
        for name, value in (("aligned", aligned), ("clockwise", clockwise))
    ]
    rule = _table.rotated(sampling_ratio, *flags)
    return Pooling(_table.ROI_ALIGN_ROTATED, rule, size, float32_scale(spatial_scale))
