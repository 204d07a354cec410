"""mmcv's ``RoIAlignRotated`` on NumPy arrays."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .. import operators
from .._checks import _names as t
from . import Parameters
from ._docs import documented

__all__ = ["RoIAlignRotated", "roi_align_rotated"]

Module = TypeVar("Module", bound=type)


@documented("roi_align_rotated", "ndarray (K, C, PH, PW)", rois="in_radians")
def roi_align_rotated(
    input: t.Readable, rois: t.Rows, output_size: Any, spatial_scale: t.Number,
    sampling_ratio: t.Ratio = 0, aligned: bool = True, clockwise: bool = False,
) -> np.ndarray:  # fmt: skip
    """Mean of bilinear samples in each bin of each rotated box, as ``mmcv.ops.roi_align_rotated``;
    see :func:`roicy.roi_align_rotated`.
    """
    return operators.roi_align_rotated(
        input, rois, output_size, spatial_scale, sampling_ratio, aligned, clockwise
    )


def _with_old_names(module: Module) -> Module:
    """Let a class take arguments by their old names too, as mmcv does."""
    names = {"out_size": "output_size", "sample_num": "sampling_ratio"}
    create: Any = module.__init__  # type: ignore[misc]

    @functools.wraps(create)
    def call(*args: Any, **keywords: Any) -> None:
        for old, new in names.items():
            if old in keywords:
                if new in keywords:
                    raise TypeError(f"{old}: given together with {new}, which it is an old name of")
                warnings.warn(f"{old}: deprecated, use {new}", DeprecationWarning, stacklevel=2)
                keywords[new] = keywords.pop(old)
        create(*args, **keywords)

    module.__init__ = call  # type: ignore[misc]
    return module


@documented("roi_align_rotated")
@_with_old_names
@dataclass(eq=False)
class RoIAlignRotated(Parameters):
    """:func:`roi_align_rotated` with its parameters given once, as ``mmcv.ops.RoIAlignRotated``.

    Two old names of parameters, `out_size` and `sample_num`, bring a DeprecationWarning.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat.mmcv import RoIAlignRotated
    >>> input = np.array([[1, 2], [3, 4]], np.float32).reshape(1, 1, 2, 2)
    >>> rois = np.array([[0, 0.5, 0.5, 1, 1, -np.pi / 2]], np.float32)
    >>> RoIAlignRotated(2, 1.0, 2, clockwise=True)(input, rois)[0, 0]
    array([[1.5 , 1.  ],
           [1.75, 1.25]], dtype=float32)
    """

    _function = staticmethod(roi_align_rotated)
    output_size: Any
    spatial_scale: t.Number
    sampling_ratio: t.Ratio = 0
    aligned: bool = True
    clockwise: bool = False
