"""
``paddle.vision.ops``: the form of PaddlePaddle 2.0 and later.

`spatial_scale` is rounded to float32, as Paddle does for float64 data too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import operators
from ... import float32_scale

__all__ = ["RoIAlign", "RoIPool", "roi_align", "roi_pool"]


def roi_pool(
    x: np.ndarray,
    boxes: np.ndarray,
    boxes_num: Any,
    output_size: Any,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> np.ndarray:
    """
    Largest pixel in each bin of each box; see :func:`roicy.roi_pool`.

    Parameters
    ----------
    x : ndarray (N, C, H, W), float32 or float64
        Feature maps.
    boxes : ndarray (K, 4)
        Rows [x1, y1, x2, y2], sorted by image.
    boxes_num : (N,) ints
        Number of boxes of each image.
    output_size : int or (int, int)
        Bins of a box, (height, width).
    spatial_scale : float, optional
        Multiplies the coordinates.
    name : str, optional
        Ignored.

    Returns
    -------
    ndarray (K, C, PH, PW)

    Raises
    ------
    TypeError, ValueError
        As :func:`roicy.roi_pool`.
    """
    return operators.roi_pool(
        x, boxes, output_size, float32_scale(spatial_scale), boxes_num=boxes_num
    )


def roi_align(
    x: np.ndarray,
    boxes: np.ndarray,
    boxes_num: Any,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = True,
    name: str | None = None,
) -> np.ndarray:
    """
    Mean of bilinear samples in each bin of each box; see :func:`roicy.roi_align`.

    Parameters
    ----------
    x : ndarray (N, C, H, W), float32 or float64
        Feature maps.
    boxes : ndarray (K, 4)
        Rows [x1, y1, x2, y2], sorted by image.
    boxes_num : (N,) ints
        Number of boxes of each image.
    output_size : int or (int, int)
        Bins of a box, (height, width).
    spatial_scale : float, optional
        Multiplies the coordinates.
    sampling_ratio : int, optional
        Samples per bin and axis; if 0 or negative, as many as the bin has pixels, rounded up.
    aligned : bool, optional
        Whether pixel i covers [i, i + 1): True by default, unlike in the other systems.
    name : str, optional
        Ignored.

    Returns
    -------
    ndarray (K, C, PH, PW)

    Raises
    ------
    TypeError, ValueError
        As :func:`roicy.roi_align`.
    """
    return operators.roi_align(
        x,
        boxes,
        output_size,
        float32_scale(spatial_scale),
        sampling_ratio,
        aligned,
        boxes_num=boxes_num,
    )


class RoIPool:
    """
    :func:`roi_pool` with `output_size` and `spatial_scale` given once, as
    ``paddle.vision.ops.RoIPool``.
    """

    def __init__(self, output_size: Any, spatial_scale: float = 1.0):
        self._output_size = output_size
        self._spatial_scale = spatial_scale

    def __call__(self, x: np.ndarray, boxes: np.ndarray, boxes_num: Any) -> np.ndarray:
        """Pool."""
        return roi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)


class RoIAlign(RoIPool):
    """
    :func:`roi_align` with `output_size` and `spatial_scale` given once, as
    ``paddle.vision.ops.RoIAlign``.
    """

    def __call__(
        self, x: np.ndarray, boxes: np.ndarray, boxes_num: Any, aligned: bool = True
    ) -> np.ndarray:
        """Pool."""
        return roi_align(
            x, boxes, boxes_num, self._output_size, self._spatial_scale, aligned=aligned
        )
