"""OpenVINO's ``ROIAlignRotated`` (opset 15) on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _arguments, operators
from . import float32_scale, with_images

__all__ = ["roi_align_rotated"]


def roi_align_rotated(
    data: np.ndarray,
    rois: np.ndarray,
    batch_indices: Any,
    pooled_h: int,
    pooled_w: int,
    sampling_ratio: int,
    spatial_scale: float,
    clockwise_mode: bool,
) -> np.ndarray:
    """
    Mean of bilinear samples in each bin of each rotated box; see :func:`roicy.roi_align_rotated`.

    Parameters
    ----------
    data : ndarray (N, C, H, W)
        Feature maps.
    rois : ndarray (K, 5)
        Rows [cx, cy, w, h, angle], the angle in radians.
    batch_indices : (K,) ints
        Image of each box.
    pooled_h, pooled_w : int
        Bins of a box.
    sampling_ratio : int
        Samples per bin and axis; if 0, as many as the bin has pixels, rounded up.
    spatial_scale : float
        Multiplies centres and sizes; kept in float32, as an attribute of the operation is.
    clockwise_mode : bool
        Whether angles are clockwise in the image.

    Returns
    -------
    ndarray (K, C, pooled_h, pooled_w)

    Raises
    ------
    TypeError, ValueError
        As :func:`roicy.roi_align_rotated`.

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
    boxes = with_images(rois, batch_indices, 5)
    size = (
        _arguments.integer("pooled_h", pooled_h, 1, 2**24),
        _arguments.integer("pooled_w", pooled_w, 1, 2**24),
    )
    scale = float32_scale(spatial_scale)
    return operators.roi_align_rotated(
        data, boxes, size, scale, sampling_ratio, True, clockwise_mode
    )
