"""``paddle.vision.ops``: the form of PaddlePaddle 2.0 and later.

`spatial_scale` is rounded to float32, as Paddle does for float64 data too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .... import _call, operators
from ...._checks import _arguments, _boxes
from ...._checks import _names as t
from ...._kernels.plan import Arguments
from ...._table import PS_ROI_POOL, ROUNDED
from ... import float32_scale, r_fcn_pool
from ..._docs import documented

__all__ = [
    "PSRoIPool", "RoIAlign", "RoIPool", "distribute_fpn_proposals", "psroi_pool",
    "psroi_pool_backward", "roi_align", "roi_pool",
]  # fmt: skip

_OUT = "ndarray (K, C, PH, PW)"


@documented("roi_pool", _OUT, boxes="sorted_boxes")
def roi_pool(
    x: t.Readable, boxes: t.Rows, boxes_num: Any, output_size: Any, spatial_scale: t.Number = 1.0,
    name: str | None = None,
) -> np.ndarray:  # fmt: skip
    """Largest pixel in each bin of each box, as ``paddle.vision.ops.roi_pool``; see
    :func:`roicy.roi_pool`.
    """
    return operators.roi_pool(
        x, boxes, output_size, float32_scale(spatial_scale), boxes_num=boxes_num
    )


@documented("roi_align", _OUT, boxes="sorted_boxes")
def roi_align(
    x: t.Readable, boxes: t.Rows, boxes_num: Any, output_size: Any, spatial_scale: t.Number = 1.0,
    sampling_ratio: t.Ratio = -1, aligned: bool = True, name: str | None = None,
) -> np.ndarray:  # fmt: skip
    """Mean of bilinear samples in each bin of each box, as ``paddle.vision.ops.roi_align``; see
    :func:`roicy.roi_align`.
    """
    scale = float32_scale(spatial_scale)
    return operators.roi_align(
        x, boxes, output_size, scale, sampling_ratio, aligned, boxes_num=boxes_num
    )


@documented("ps_roi_pool", _OUT.replace("C", "C / (PH * PW)"), boxes="sorted_boxes")
def psroi_pool(
    x: t.Readable, boxes: t.Rows, boxes_num: Any, output_size: Any, spatial_scale: t.Number = 1.0,
    name: str | None = None,
) -> np.ndarray:  # fmt: skip
    """Mean of the whole pixels that a bin touches, where each bin reads channels of its own, as
    ``paddle.vision.ops.psroi_pool``.

    ``out[k, c, p, q]`` is the mean of the pixels of input channel ``(c * PH + p) * PW + q`` in
    rows ``floor(lo_y + p * bh) .. ceil(lo_y + (p + 1) * bh) - 1`` and columns likewise, on the
    map, with ``lo = round((x1, y1)) * spatial_scale``, ``hi = (round((x2, y2)) + 1) *
    spatial_scale`` and ``(bh, bw) = max(hi - lo, 0.1) / (PH, PW)``.  A bin off the map gives 0.

    Unlike in :func:`roicy.ps_roi_pool`, which is torchvision's, corners are rounded before they
    are scaled, the pixel of the second corner belongs to the box, and the last row and column of
    the map are read.

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
    return r_fcn_pool(x, boxes, boxes_num, output_size, spatial_scale)


@documented(
    "ps_roi_pool_backward",
    "ndarray of shape `x_shape`\n"
    "    Each pixel of a bin gets the bin's gradient, divided by the number of its pixels.",
    boxes="sorted_boxes",
)
def psroi_pool_backward(
    grad_output: t.Readable, boxes: t.Rows, boxes_num: Any, x_shape: t.Shape,
    spatial_scale: t.Number = 1.0,
) -> np.ndarray:  # fmt: skip
    """Gradient of :func:`psroi_pool` with respect to its input, which Paddle's autograd computes.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat.paddle.vision import ops
    >>> grad, boxes = np.ones((1, 1, 1, 1), np.float32), np.array([[0, 0, 1, 0]], np.float32)
    >>> ops.psroi_pool_backward(grad, boxes, [1], (1, 1, 2, 2))[0, 0]
    array([[0.5, 0.5],
           [0. , 0. ]], dtype=float32)
    """
    arguments = Arguments(boxes, boxes_num, float32_scale(spatial_scale), "NCHW", None)
    gradient: np.ndarray = _call.backward(PS_ROI_POOL, ROUNDED, grad_output, x_shape, arguments)
    return gradient


@documented(
    "multiscale_roi_align",
    """multi_rois : list of ndarrays (K_l, 4)
    The boxes of each level, in the order that they were given in.
restore_ind : ndarray (K, 1), int32
    Where each given box stands in the boxes of all levels, one level after the other.
rois_num_per_level : list of ndarrays (N,), int32, or None
    Number of boxes of each image in each level; None without `rois_num`.""",
    fpn_rois="sorted_boxes",
    min_level="int\nThe first level.",
    max_level="int\nThe last level.",
    refer_level="int\nThe level of boxes as large as a square of side `refer_scale`.",
    refer_scale="int\nSee `refer_level`.",
    pixel_offset="bool\nWhether the pixel of the second corner belongs to a box.",
)
def distribute_fpn_proposals(
    fpn_rois: t.Rows, min_level: t.Index, max_level: t.Index, refer_level: t.Index,
    refer_scale: t.Index, pixel_offset: bool = False, rois_num: Any = None, name: str | None = None,
) -> tuple[list[np.ndarray], np.ndarray, list[np.ndarray] | None]:  # fmt: skip
    """Boxes by the levels of a feature pyramid that they are pooled from, as
    ``paddle.vision.ops.distribute_fpn_proposals``.

    The level of a box is ``floor(log2(sqrt(area) / refer_scale + 1e-8) + refer_level)``, within
    `min_level` and `max_level`, in the type of the boxes.  :func:`roicy.multiscale_roi_align` needs
    no such call: it finds the levels itself.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat.paddle.vision import ops
    >>> rois = np.array([[0, 0, 448, 448], [0, 0, 50, 50], [0, 0, 60, 60]], np.float32)
    >>> levels, restore, _ = ops.distribute_fpn_proposals(rois, 2, 5, 4, 224)
    >>> [len(level) for level in levels], restore.ravel()
    ([2, 0, 0, 1], array([2, 0, 1], dtype=int32))
    """
    rois = _boxes.rows_of_numbers("fpn_rois", fpn_rois, 4, _arguments.CORNERS)
    low = _arguments.integer("min_level", min_level, -(2**20), 2**20)
    high = _arguments.integer("max_level", max_level, low, 2**20)
    refer = _arguments.integer("refer_level", refer_level, -(2**20), 2**20)
    scale = _arguments.scale(refer_scale, "refer_scale")
    levels = _levels(rois, scale, refer, pixel_offset)
    levels = np.clip(levels, low, high) - low
    order = np.argsort(levels, kind="stable")
    restore = np.empty((len(rois), 1), np.int32)
    restore[order, 0] = np.arange(len(rois))
    parts = np.split(order, np.searchsorted(levels[order], np.arange(1, high - low + 1)))
    counts = None
    if rois_num is not None:
        given = _boxes.box_counts(rois_num, len(rois), np.size(rois_num))
        images = np.repeat(np.arange(len(given)), given)
        counts = [np.bincount(images[part], minlength=len(given)) for part in parts]
        counts = [count.astype(np.int32) for count in counts]
    return [rois[part] for part in parts], restore, counts


def _levels(rois: np.ndarray, scale: float, refer: int, pixel_offset: Any) -> np.ndarray:
    """Return the level of each box, rounded as by Paddle; boxes of size `scale` are of `refer`."""
    offset = _arguments.flag("pixel_offset", pixel_offset)
    rois = rois.astype(np.float64 if rois.dtype == np.float64 else np.float32)
    real = rois.dtype.type
    sides = rois[:, 2:] - rois[:, :2]
    areas = np.where((sides < 0).any(axis=1), real(0), np.prod(sides + real(offset), axis=1))
    levels = np.floor(np.log2(np.sqrt(areas) / real(scale) + real(1e-8)) + real(refer))
    if not np.isfinite(levels).all():
        k = int(np.isfinite(levels).argmin())
        raise ValueError(f"fpn_rois[{k}]: {rois[k].tolist()}, expected a box of finite size")
    return levels.astype(np.int64)


@documented("roi_pool")
@dataclass(eq=False)
class RoIPool:
    """:func:`roi_pool` with its parameters given once, as ``paddle.vision.ops.RoIPool``."""

    _function = staticmethod(roi_pool)
    output_size: Any
    spatial_scale: t.Number = 1.0

    def __call__(self, x: t.Readable, boxes: t.Rows, boxes_num: Any) -> np.ndarray:
        """Pool."""
        return self._function(x, boxes, boxes_num, self.output_size, self.spatial_scale)


@documented("ps_roi_pool")
class PSRoIPool(RoIPool):
    """:func:`psroi_pool` with its parameters given once, as ``paddle.vision.ops.PSRoIPool``."""

    _function = staticmethod(psroi_pool)


@documented("roi_align")
class RoIAlign(RoIPool):
    """:func:`roi_align` with its parameters given once, as ``paddle.vision.ops.RoIAlign``."""

    def __call__(
        self, x: t.Readable, boxes: t.Rows, boxes_num: Any, aligned: bool = True
    ) -> np.ndarray:
        """Pool."""
        return roi_align(x, boxes, boxes_num, self.output_size, self.spatial_scale, aligned=aligned)
