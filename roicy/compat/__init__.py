"""The calls of other systems on NumPy arrays, with their names, order of arguments and defaults.

A program can import ``roicy.compat.paddle`` (fluid's layers, and ``paddle.vision.ops``),
``roicy.compat.mxnet`` or ``roicy.compat.torchvision`` in place of the system.
``roicy.compat.onnx`` and ``openvino`` have the operators of these systems as functions.  Modules of
one operator are ``roicy.compat.detectron2`` and ``mmcv`` (rotated boxes), and ``tensorflow``
(crops).  Each function translates its arguments for an operator of roicy, and raises the errors of
that operator, with its own names.  Maps and boxes may be what they may be there: arrays, what NumPy
reads as such, and nested lists of numbers as boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _call
from .._checks import _arguments, _boxes
from .._checks._names import INPUT
from .._kernels.plan import Arguments
from .._table import PS_ROI_POOL, ROUNDED


def shape_of(maps: Any) -> tuple[int, ...]:
    """Return the shape of an array of any kind, or of what NumPy reads by DLPack; or ()."""
    if not hasattr(maps, "shape") and hasattr(maps, "__dlpack__"):
        maps = _arguments.taken(INPUT, maps)
    return getattr(maps, "shape", ())


def images_of(maps: Any) -> int | None:
    """Return the number of images of an array (N, C, H, W) of any kind, or None."""
    shape = shape_of(maps)
    return int(shape[0]) if len(shape) == 4 else None


def bins_of(**extents: Any) -> tuple[int, int]:
    """Return the bins of a box, given as one argument for each axis."""
    most = _arguments.MOST_BINS
    height, width = (_arguments.integer(name, value, 1, most) for name, value in extents.items())
    return height, width


def r_fcn_pool(maps: Any, boxes: Any, counts: Any, bins: Any, scale: Any) -> np.ndarray:
    """Return the pooled boxes of R-FCN, whose corners are rounded before they are scaled."""
    arguments = Arguments(boxes, counts, float32_scale(scale), "NCHW", None)
    pooled: np.ndarray = _call.forward(PS_ROI_POOL, ROUNDED, maps, bins, arguments)
    return pooled


class Parameters:
    """The parameters of a function, given once: the fields of a dataclass of their names."""

    _function: Callable[..., np.ndarray]

    def __call__(self, input: Any, rois: Any) -> np.ndarray:
        """Pool; see the function."""
        return self._function(input, rois, **vars(self))


def float32_scale(value: Any) -> float:
    """Return the scale rounded to float32, as other systems keep it."""
    with np.errstate(over="ignore", under="ignore"):
        return _arguments.scale(np.float32(_arguments.scale(value)))


def in_radians(rois: Any) -> Any:
    """Return rotated boxes (K, 6) whose angles are degrees with angles in radians."""
    turned = _boxes.rows_of_numbers("rois", rois, 6, _arguments.TURNED).astype(np.float64)
    with np.errstate(invalid="ignore"):
        turned[:, 5] = np.deg2rad(turned[:, 5])
    return turned


def with_images(
    maps: Any, rois: Any, batch_indices: Any, numbers: tuple[str, ...] = _arguments.CORNERS
) -> np.ndarray:
    """Return boxes with their image in front; those of the only image stay as they are."""
    rois = _boxes.rows_of_numbers("rois", rois, len(numbers), numbers)
    count = images_of(maps)
    rows = _boxes.with_images("batch_indices", batch_indices, rois, count)
    return rois if count == 1 else rows
