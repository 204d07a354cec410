"""Detectron2's ``ROIAlignRotated`` on NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import operators
from .._checks import _names as t
from . import Parameters, in_radians
from ._docs import documented

__all__ = ["ROIAlignRotated", "roi_align_rotated"]


@documented("roi_align_rotated", "ndarray (K, C, PH, PW)", rois="in_degrees")
def roi_align_rotated(
    input: t.Readable, rois: t.Rows, output_size: Any, spatial_scale: t.Number,
    sampling_ratio: t.Ratio,
) -> np.ndarray:  # fmt: skip
    """Mean of bilinear samples in each bin of each rotated box, as
    ``detectron2.layers.roi_align_rotated``; see :func:`roicy.roi_align_rotated`.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import detectron2
    >>> input = np.array([[1, 2], [3, 4]], np.float32).reshape(1, 1, 2, 2)
    >>> rois = np.array([[0, 0.5, 0.5, 1, 1, 90]], np.float32)
    >>> detectron2.roi_align_rotated(input, rois, (2, 2), 1.0, 2)[0, 0]
    array([[1.5 , 1.  ],
           [1.75, 1.25]], dtype=float32)
    """
    return operators.roi_align_rotated(
        input, in_radians(rois), output_size, spatial_scale, sampling_ratio
    )


@documented("roi_align_rotated")
@dataclass(eq=False)
class ROIAlignRotated(Parameters):
    """:func:`roi_align_rotated` with its parameters given once, as
    ``detectron2.layers.ROIAlignRotated``.
    """

    _function = staticmethod(roi_align_rotated)
    output_size: Any
    spatial_scale: t.Number
    sampling_ratio: t.Ratio
