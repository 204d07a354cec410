"""OpenVINO's operations on regions, on NumPy arrays: ``ROIAlign`` (opset 3, 9 and 14),
``ROIAlignRotated`` (opset 15), ``ROIPooling`` (opset 2) and ``PSROIPooling`` (opset 1).

The functions have the names and arguments of ``openvino.opset15``.  They keep `spatial_scale` in
float32, as an attribute of an operation is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import normalised, operators
from .._checks import _arguments, _boxes
from .._checks import _names as t
from .._checks._names import INPUT
from .._kernels.plan import Arguments
from .._table import one_sample
from . import bins_of, float32_scale, images_of, r_fcn_pool, with_images
from ._docs import documented

__all__ = ["psroi_pooling", "roi_align", "roi_align_rotated", "roi_pooling"]


@documented(
    "roi_align",
    "ndarray (K, C, pooled_h, pooled_w)",
    rois="boxes",
    mode="""{"avg", "max"}
Whether the mean or the largest of the samples is taken.  A largest sample below 0 gives 0,
    as in OpenVINO.""",
    aligned_mode="""{"asymmetric", "half_pixel_for_nn", "half_pixel"}
Where a coordinate x of a box lies on the map.  "asymmetric": at ``x * spatial_scale``, and
    boxes are at least 1 pixel wide and high.  "half_pixel_for_nn", which ONNX calls
    "half_pixel": at ``x * spatial_scale - 0.5``.  "half_pixel": at ``(x + 0.5) *
    spatial_scale - 0.5``.""",
)
def roi_align(
    data: t.Readable, rois: t.Rows, batch_indices: Any, pooled_h: t.Index, pooled_w: t.Index,
    sampling_ratio: t.Ratio, spatial_scale: t.Number, mode: str, aligned_mode: str = "asymmetric",
) -> np.ndarray:  # fmt: skip
    """Mean or largest of bilinear samples in each bin of each box; see :func:`roicy.roi_align`.

    Notes
    -----
    OpenVINO, operations ROIAlign-3, ROIAlign-9 and ROIAlign-14.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import openvino
    >>> data = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> rois = np.array([[0, 0, 2, 2]], np.float32)
    >>> for aligned_mode in ("asymmetric", "half_pixel_for_nn", "half_pixel"):
    ...     openvino.roi_align(data, rois, [0], 1, 1, 2, 0.5, "avg", aligned_mode).item()
    2.5
    0.625
    1.25
    """
    modes = ("asymmetric", "half_pixel_for_nn", "half_pixel")
    aligned_mode = _arguments.choice("aligned_mode", aligned_mode, modes)
    if aligned_mode == "half_pixel":
        rois = _boxes.rows_of_numbers("rois", rois, 4, _arguments.CORNERS).astype(np.float64) + 0.5
    boxes = with_images(data, rois, batch_indices)
    size = bins_of(pooled_h=pooled_h, pooled_w=pooled_w)
    given = (boxes, size, float32_scale(spatial_scale), sampling_ratio, aligned_mode != modes[0])
    if _arguments.choice("mode", mode, ("avg", "max")) == "avg":
        return operators.roi_align(data, *given)
    largest: np.ndarray = operators.roi_align_max(data, *given)
    return np.maximum(largest, 0, out=largest)


@documented(
    "roi_align_rotated",
    "ndarray (K, C, pooled_h, pooled_w)",
    rois="ndarray (K, 5)\nRows [cx, cy, w, h, angle], the angle in radians.",
)
def roi_align_rotated(
    data: t.Readable, rois: t.Rows, batch_indices: Any, pooled_h: t.Index, pooled_w: t.Index,
    sampling_ratio: t.Ratio, spatial_scale: t.Number, clockwise_mode: bool,
) -> np.ndarray:  # fmt: skip
    """Mean of bilinear samples in each bin of each rotated box; see
    :func:`roicy.roi_align_rotated`.

    Notes
    -----
    OpenVINO, operation ROIAlignRotated-15.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import openvino
    >>> data = np.array([[1, 2], [3, 4]], np.float32).reshape(1, 1, 2, 2)
    >>> rois = np.array([[0.5, 0.5, 1, 1, np.pi / 2]], np.float32)
    >>> openvino.roi_align_rotated(data, rois, [0], 2, 2, 2, 1.0, False)[0, 0]
    array([[1.5 , 1.  ],
           [1.75, 1.25]], dtype=float32)
    """
    boxes = with_images(data, rois, batch_indices, _arguments.TURNED)
    size = bins_of(pooled_h=pooled_h, pooled_w=pooled_w)
    scale = float32_scale(spatial_scale)
    return operators.roi_align_rotated(
        data, boxes, size, scale, sampling_ratio, True, clockwise_mode
    )


@documented(
    "roi_pool",
    "ndarray (K, C, height, width)",
    "as :func:`roicy.crop_and_resize`",
    coords="""ndarray (K, 5)
Rows [batch_index, x1, y1, x2, y2].  For the method "bilinear" they are normalised: 0 is the
    centre of the first pixel, and 1 that of the last.""",
    spatial_scale='float\nMultiplies the coordinates; of no meaning for the method "bilinear".',
    method='{"max", "bilinear"}\nWhat is taken of a bin.  Bilinear samples off the map are 0.',
)
def roi_pooling(
    input: t.Readable, coords: t.Rows, output_roi: Any, spatial_scale: t.Number,
    method: str = "max",
) -> np.ndarray:  # fmt: skip
    """Largest pixel in each bin of each box, or one bilinear sample of it; see
    :func:`roicy.roi_pool` and :func:`roicy.crop_and_resize`.

    Notes
    -----
    OpenVINO, operation ROIPooling-1.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import openvino
    >>> input = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> openvino.roi_pooling(input, np.array([[0, 0, 0, 2, 2]], np.float32), (2, 2), 1.0)[0, 0]
    array([[ 5.,  6.],
           [ 9., 10.]], dtype=float32)
    >>> openvino.roi_pooling(input, np.array([[0, 0, 0, 1, 1]]), (2, 2), 1.0, "bilinear")[0, 0]
    array([[ 0.,  3.],
           [12., 15.]], dtype=float32)
    """
    scale = float32_scale(spatial_scale)
    if _arguments.choice("method", method, ("max", "bilinear")) == "max":
        return operators.roi_pool(input, coords, output_roi, scale)
    size = _arguments.output_size(output_roi)
    input = _arguments.taken("input", input)
    images, corners = _normalised(input, coords)
    # the last sample lies on the corner of the box, as in ONNX Runtime
    rule, arguments = one_sample("bilinear", True), Arguments(corners, None, None, "NCHW", None)
    pooled: np.ndarray = normalised.resized(rule, input, size, 0, images, arguments)
    return pooled


@documented(
    "ps_roi_pool",
    "ndarray (K, output_dim, group_size, group_size)",
    "as :func:`roicy.crop_and_resize`, and if C is another number",
    input="""ndarray (N, C, H, W)
Feature maps.  C is `output_dim` times ``group_size**2`` for "average", and times the number
    of parts for "bilinear".""",
    coords="""ndarray (K, 5)
Rows [batch_index, x1, y1, x2, y2].  For "bilinear" they are normalised, when they are
    scaled: 0 is the centre of the first pixel, and 1 that of the last.""",
    output_dim="int\nChannels of the output.",
    group_size="int\nBins of a box along each axis.",
    spatial_bins_x='int\nParts of a box along x; of no meaning for "average".',
    spatial_bins_y="int\nThe same along y.",
    mode='{"average", "bilinear"}\nSee above.',
)
def psroi_pooling(
    input: t.Readable, coords: t.Rows, output_dim: t.Index, group_size: t.Index,
    spatial_scale: t.Number, spatial_bins_x: t.Index, spatial_bins_y: t.Index, mode: str,
) -> np.ndarray:  # fmt: skip
    """Mean of the whole pixels that a bin touches, or of bilinear samples, where each bin or sample
    reads channels of its own.

    "average" is R-FCN's operator, :func:`roicy.compat.paddle.vision.ops.psroi_pool`.  "bilinear"
    cuts a box into `spatial_bins_y` x `spatial_bins_x` parts, takes the samples of
    :func:`roicy.crop_and_resize` of each part from channels of its own, `output_dim` of them, and
    returns their means over the parts.

    Notes
    -----
    OpenVINO, operation PSROIPooling-1.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import openvino
    >>> input = np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2)
    >>> coords = np.array([[0, 0, 0, 1, 1]], np.float32)
    >>> openvino.psroi_pooling(input, coords, 1, 2, 1.0, 1, 1, "average")[0, 0]
    array([[ 0.,  5.],
           [10., 15.]], dtype=float32)
    >>> openvino.psroi_pooling(input, coords, 1, 1, 1.0, 2, 2, "bilinear")[0, 0]
    array([[7.5]], dtype=float32)
    """
    bilinear = _arguments.choice("mode", mode, ("average", "bilinear")) == "bilinear"
    group, _ = bins_of(group_size=group_size, output_dim=output_dim)
    wide, high = bins_of(spatial_bins_x=spatial_bins_x, spatial_bins_y=spatial_bins_y)
    parts, name = (wide * high, "parts") if bilinear else (group * group, "bins")
    input = _arguments.taken("input", input)
    shape = input.shape
    if len(shape) == 4 and shape[1] != output_dim * parts:
        expected = f"{output_dim} for each of the {parts} {name}"
        raise ValueError(f"input: {shape[1]} channels, expected {expected}")
    if not bilinear:
        return r_fcn_pool(input, coords, None, group, spatial_scale)
    small = input.dtype.name in ("float16", "bfloat16")  # of which sums would be rounded
    maps = input.astype(np.float32) if small else input
    images, corners = _normalised(input, coords)
    corners = corners * np.float32(float32_scale(spatial_scale))
    sides = (corners[:, 2:] - corners[:, :2]) / np.array([high, wide], corners.dtype)
    total: Any = 0
    for part in range(parts):
        low = corners[:, :2] + sides * np.array(divmod(part, wide), corners.dtype)
        boxes = np.concatenate([low, low + sides], axis=1)
        channels = maps[:, part * output_dim : (part + 1) * output_dim]
        total = total + normalised.crop_and_resize(channels, boxes, images, (group, group))
    mean: np.ndarray = total / total.dtype.type(parts)
    return mean.astype(input.dtype) if small else mean


def _normalised(input: Any, coords: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the image of each box, and corners [y1, x1, y2, x2]."""
    rows = _boxes.rows_of_numbers("coords", coords, 5, _arguments.CORNERS)
    rows = rows.astype(np.result_type(rows.dtype, np.float32))
    count = images_of(input)
    if count is None:  # the operator says what is wrong with the input
        return np.zeros(len(rows), np.int64), rows[:, [2, 1, 4, 3]]
    images = _boxes.indices_of(rows, count, "batch", f"{INPUT}'s {count} images")
    return images, rows[:, [2, 1, 4, 3]]
