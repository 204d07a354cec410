"""MXNet's ``ROIPooling``, ``contrib.ROIAlign`` and ``contrib.RROIAlign``.

They round `spatial_scale` to float32, even for float64 data, as MXNet does.

The functions of roicy refuse a box if there is no image with its batch index.  Here `ROIPooling`
gives 0 for such a box, as MXNet does.  `ROIAlign` gives 0 if the index is negative, which MXNet's
source means to do too.  But MXNet leaves the memory of such a box as it was, and overwrites an
element of another box.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _call, _table, operators
from .._checks import _arguments, _boxes
from .._checks import _names as t
from .._kernels.plan import Arguments
from . import float32_scale, images_of, in_radians
from ._docs import documented

__all__ = ["ROIAlign", "ROIAlign_backward", "ROIPooling", "RROIAlign", "contrib"]


@documented(
    "roi_pool",
    "ndarray (K, C, PH, PW)\n    The result is 0 for a box if there is no image with its index.",
    rois="boxes_with_image",
)
def ROIPooling(
    data: t.Readable, rois: t.Rows, pooled_size: Any, spatial_scale: t.Number, **_: Any
) -> np.ndarray:
    """Largest pixel in each bin of each box, as MXNet's ``ROIPooling``; see :func:`roicy.roi_pool`.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat.mxnet import ROIPooling
    >>> x = np.arange(48, dtype=np.float32).reshape(1, 1, 8, 6)
    >>> y = np.array([[0, 0, 0, 4, 4]], np.float32)
    >>> ROIPooling(x, y, (2, 2), 1.0)
    array([[[[14., 16.],
             [26., 28.]]]], dtype=float32)
    >>> ROIPooling(x, y, (2, 2), 0.7)
    array([[[[ 7.,  9.],
             [19., 21.]]]], dtype=float32)
    """
    scale = float32_scale(spatial_scale)
    return _pooled(
        lambda rows: operators.roi_pool(data, rows, pooled_size, scale), rois, images_of(data) or 0
    )


@documented(
    "roi_align",
    "ndarray (K, C, PH, PW), or (K, C / (PH * PW), PH, PW) if `position_sensitive`\n"
    "    The result is 0 for a box with a negative index; MXNet returns what was in memory.",
    rois="boxes_with_image",
)
def ROIAlign(
    data: t.Readable, rois: t.Rows, pooled_size: Any, spatial_scale: t.Number,
    sample_ratio: t.Ratio = -1, position_sensitive: bool = False, aligned: bool = False, **_: Any,
) -> np.ndarray:  # fmt: skip
    """Mean of bilinear samples in each bin of each box, as MXNet's ``contrib.ROIAlign``; see
    :func:`roicy.roi_align` and :func:`roicy.ps_roi_align`.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import mxnet
    >>> x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> mxnet.contrib.ROIAlign(x, np.array([[0, 0, 0, 2, 2]], np.float32), (2, 2), 1.0, 1)[0, 0]
    array([[2.5, 3.5],
           [6.5, 7.5]], dtype=float32)
    """
    scale, operator = float32_scale(spatial_scale), _operator(position_sensitive)
    rule = _table.sampled(sample_ratio, aligned)

    def align(rows: np.ndarray) -> np.ndarray:
        arguments = Arguments(rows, None, scale, "NCHW", None)
        return _call.forward(operator, rule, data, pooled_size, arguments)

    return _pooled(align, rois)


@documented(
    "roi_align_backward",
    "ndarray of shape `data_shape`\n    Boxes with a negative batch index add nothing to it.",
    rois="boxes_with_image",
)
def ROIAlign_backward(
    grad_output: t.Readable, rois: t.Rows, data_shape: t.Shape, spatial_scale: t.Number,
    sample_ratio: t.Ratio = -1, position_sensitive: bool = False, aligned: bool = False,
) -> np.ndarray:  # fmt: skip
    """Gradient of :func:`ROIAlign` with respect to its data, which MXNet's autograd computes.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import mxnet
    >>> grad, rois = np.ones((1, 1, 1, 2), np.float32), np.array([[0, 0, 0, 2, 2]], np.float32)
    >>> mxnet.ROIAlign_backward(grad, rois, (1, 2, 2, 3), 1.0, 1, position_sensitive=True)[0]
    array([[[0. , 0. , 0. ],
            [0.5, 0.5, 0. ]],
    <BLANKLINE>
           [[0. , 0. , 0. ],
            [0. , 0.5, 0.5]]], dtype=float32)
    """
    operator, rule = _operator(position_sensitive), _table.sampled(sample_ratio, aligned)
    rows, lost = _of_images(rois)
    if lost is not None and np.ndim(grad_output) == 4 and len(grad_output) == len(lost):
        grads = np.asarray(grad_output)
        grad_output = np.where(lost[:, None, None, None], 0, grads) if len(rows) else grads[:0]
    arguments = Arguments(rows, None, float32_scale(spatial_scale), "NCHW", None)
    gradient: np.ndarray = _call.backward(operator, rule, grad_output, data_shape, arguments)
    return gradient


def _operator(position_sensitive: Any) -> _table.Operator:
    """Return the operator that ROIAlign is."""
    flag = _arguments.flag("position_sensitive", position_sensitive)
    return _table.PS_ROI_ALIGN if flag else _table.ROI_ALIGN


@documented(
    "roi_align_rotated", "ndarray (K, C, PH, PW)", "for the index of no image", rois="in_degrees"
)
def RROIAlign(
    data: t.Readable, rois: t.Rows, pooled_size: Any, spatial_scale: t.Number,
    sampling_ratio: t.Ratio = -1, **_: Any,
) -> np.ndarray:  # fmt: skip
    """Mean of bilinear samples in each bin of each rotated box, as MXNet's ``contrib.RROIAlign``;
    see :func:`roicy.roi_align_rotated`.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import mxnet
    >>> x = np.array([[1, 2], [3, 4]], np.float32).reshape(1, 1, 2, 2)
    >>> mxnet.contrib.RROIAlign(x, np.array([[0, 0.5, 0.5, 1, 1, 90]]), (2, 2), 1.0, 2)[0, 0]
    array([[2.75, 1.75],
           [3.25, 2.25]], dtype=float32)
    """
    scale, turned = float32_scale(spatial_scale), in_radians(rois)
    return operators.roi_align_rotated(data, turned, pooled_size, scale, sampling_ratio, False)


def _of_images(rois: Any, images: int | None = None) -> tuple[Any, np.ndarray | None]:
    """Return boxes whose images exist, and which of the given ones are lost, None for none.

    images: how many there are, None where the operator refuses indices beyond.  In place of lost
    boxes stand empty boxes of the first image, as errors name rows; where all are lost, there are
    no boxes.
    """
    try:
        rows = _boxes.box_rows("rois", rois)
    except (TypeError, ValueError):
        return rois, None  # the operator says what is wrong, or takes them
    if rows.ndim != 2 or rows.shape[1] != 5:
        return rois, None
    index = rows[:, 0].astype(np.float64)  # which holds the number of images exactly
    lost = index < 0 if images is None else ~((index >= 0) & (index < images))
    if not lost.any():
        return rows, None
    rows = rows[:0] if lost.all() else rows.copy()
    rows[lost[: len(rows)]] = 0
    return rows, lost


def _pooled(pool: Callable[[Any], np.ndarray], rois: Any, images: int | None = None) -> np.ndarray:
    """Pool boxes of images that exist, and return 0 for the others."""
    rows, lost = _of_images(rois, images)
    out = pool(rows)
    if lost is None:
        return out
    if not len(rows):
        return np.zeros((len(lost), *out.shape[1:]), out.dtype)
    out[lost] = 0
    return out


contrib = types.SimpleNamespace(ROIAlign=ROIAlign, RROIAlign=RROIAlign)
