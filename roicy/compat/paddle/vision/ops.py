"""
``paddle.vision.ops``: the form of PaddlePaddle 2.0 and later.

`spatial_scale` is rounded to float32, as Paddle does for float64 data too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import _call, operators
from ...._arguments import Arguments
from ...._table import R_FCN_POOL
from ... import float32_scale

__all__ = ["PSRoIPool", "RoIAlign", "RoIPool", "psroi_pool", "roi_align", "roi_pool"]


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


def psroi_pool(
    x: np.ndarray,
    boxes: np.ndarray,
    boxes_num: Any,
    output_size: Any,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> np.ndarray:
    """
    Mean of the whole pixels that a bin touches, where each bin reads channels of its own.

    ``out[k, c, p, q]`` is the mean of the pixels of input channel ``(c * PH + p) * PW + q`` in
    rows ``floor(lo_y + p * bh) .. ceil(lo_y + (p + 1) * bh) - 1`` and columns likewise, on the
    map, with ``lo = round((x1, y1)) * spatial_scale``, ``hi = (round((x2, y2)) + 1) *
    spatial_scale`` and ``(bh, bw) = max(hi - lo, 0.1) / (PH, PW)``.  A bin off the map gives 0.

    Unlike in :func:`roicy.ps_roi_pool`, which is torchvision's, corners are rounded before they
    are scaled, the pixel of the second corner belongs to the box, and the last row and column of
    the map are read.

    Parameters
    ----------
    x : ndarray (N, C, H, W), float32 or float64
        Feature maps; C is a multiple of PH * PW.
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
    ndarray (K, C / (PH * PW), PH, PW)

    Raises
    ------
    TypeError, ValueError
        As :func:`roicy.ps_roi_pool`.

    Notes
    -----
    Dai, Li, He, Sun, "R-FCN", 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat.paddle.vision import ops
    >>> x = np.ones((2, 490, 28, 28), np.float32)
    >>> boxes = np.array([[1, 5, 8, 10], [4, 2, 6, 7], [12, 12, 19, 21]], np.float32)
    >>> ops.psroi_pool(x, boxes, np.array([1, 2]), 7, 1.0).shape
    (3, 10, 7, 7)
    """
    given = Arguments(boxes, boxes_num, float32_scale(spatial_scale), "NCHW", None)
    pooled: np.ndarray = _call.forward(R_FCN_POOL, (), x, output_size, given)
    return pooled


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


class PSRoIPool(RoIPool):
    """
    :func:`psroi_pool` with `output_size` and `spatial_scale` given once, as
    ``paddle.vision.ops.PSRoIPool``.
    """

    def __call__(self, x: np.ndarray, boxes: np.ndarray, boxes_num: Any) -> np.ndarray:
        """Pool."""
        return psroi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)


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
