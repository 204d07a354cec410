"""RoIAlign from the levels of a feature pyramid: each box from the level that suits its size.

All levels are computed in one parallel region.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from . import _call
from ._checks import _names as t
from ._docs import ROTATED, documented
from ._kernels.plan import Arguments
from ._table import ROI_ALIGN, ROI_ALIGN_ROTATED, rotated, sampled

__all__ = [
    "multiscale_roi_align", "multiscale_roi_align_backward", "multiscale_roi_align_backward_boxes",
    "multiscale_roi_align_rotated", "multiscale_roi_align_rotated_backward",
    "multiscale_roi_align_rotated_backward_boxes",
]  # fmt: skip

_ROTATED = ROTATED | {"spatial_scale": "scales"}


@documented("{output_multiscale}", spatial_scale="scales")
def multiscale_roi_align(
    features: Sequence[t.Input[t.Float]], boxes: t.Boxes, output_size: t.Size,
    spatial_scale: t.Scales = None, sampling_ratio: t.Ratio = -1, aligned: bool = False, *,
    image_size: t.Pair | None = None, canonical_scale: t.Number = 224.0,
    canonical_level: t.Index = 4, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """RoIAlign of each box from the level of a feature pyramid that suits its size.

    The level of a box is ::

        floor(canonical_level + log2(sqrt(width * height) / canonical_scale) + 1e-6)

    The finest and the coarsest map have the levels that are -log2 of their scales (of the
    geometric mean of two), rounded, and levels below and above are moved there.  Each other map
    comes one level after the map before it, as in torchvision, also where scales are left
    out.  Where there are more maps than levels, since scales are equal, no box is pooled from
    the last ones.

    Notes
    -----
    Lin et al., "Feature Pyramid Networks for Object Detection", 2017; computed as by
    torchvision's MultiScaleRoIAlign.  Boxes without area, and inverted ones, are pooled from
    the finest level (torchvision gives 0 for the inverted, and where scales are left out for
    large ones).

    Examples
    --------
    >>> import numpy as np, roicy
    >>> fine = np.full((1, 1, 64, 64), 1, np.float32)
    >>> coarse = np.full((1, 1, 32, 32), 2, np.float32)
    >>> boxes = [np.array([[0, 0, 200, 200], [10, 10, 60, 60]], np.float32)]
    >>> maps, size = [fine, coarse], (256, 256)
    >>> roicy.multiscale_roi_align(maps, boxes, 1, image_size=size, sampling_ratio=2).ravel()
    array([2., 1.], dtype=float32)
    """
    pyramid = (canonical_scale, canonical_level, image_size)
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out, pyramid)
    rule = sampled(sampling_ratio, aligned)
    return _call.forward(ROI_ALIGN, rule, features, output_size, arguments)


@documented("{grad_features}", spatial_scale="scales", out="outs")
def multiscale_roi_align_backward(
    grad_output: t.Gradient[t.Float], boxes: t.Boxes, input_shapes: Sequence[t.Shape],
    spatial_scale: t.Scales = None, sampling_ratio: t.Ratio = -1, aligned: bool = False, *,
    image_size: t.Pair | None = None, canonical_scale: t.Number = 224.0,
    canonical_level: t.Index = 4, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Outs[t.Float] = None, num_threads: t.Threads = None,
) -> list[t.NDArray[t.Float]]:  # fmt: skip
    """Gradients of :func:`multiscale_roi_align` with respect to the maps of each level.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes = np.array([[0, 4, 4, 60, 60]], np.float32)
    >>> shapes = [(1, 1, 64, 64), (1, 1, 32, 32)]
    >>> grad = np.ones((1, 1, 2, 2))
    >>> grads = roicy.multiscale_roi_align_backward(grad, boxes, shapes, image_size=(256, 256))
    >>> [float(grad.sum().round(6)) for grad in grads]
    [4.0, 0.0]
    """
    pyramid = (canonical_scale, canonical_level, image_size)
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out, pyramid)
    rule = sampled(sampling_ratio, aligned)
    return _call.backward(ROI_ALIGN, rule, grad_output, input_shapes, arguments)


@overload
def multiscale_roi_align_backward_boxes(
    grad_output: t.Gradient[t.Float], features: Sequence[t.Readable], boxes: t.Rows,
    spatial_scale: t.Scales = None, sampling_ratio: t.Ratio = -1, aligned: bool = False, *,
    image_size: t.Pair | None = None, canonical_scale: t.Number = 224.0,
    canonical_level: t.Index = 4, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    ...
@overload
def multiscale_roi_align_backward_boxes(
    grad_output: t.Gradient[t.Float], features: Sequence[t.Readable], boxes: t.BoxesOfImages,
    spatial_scale: t.Scales = None, sampling_ratio: t.Ratio = -1, aligned: bool = False, *,
    image_size: t.Pair | None = None, canonical_scale: t.Number = 224.0,
    canonical_level: t.Index = 4, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> list[t.NDArray[t.Float]]:  # fmt: skip
    ...
@documented("{grad_boxes}", spatial_scale="scales")
def multiscale_roi_align_backward_boxes(
    grad_output: t.Gradient[t.Float], features: Sequence[t.Readable], boxes: t.Boxes,
    spatial_scale: t.Scales = None, sampling_ratio: t.Ratio = -1, aligned: bool = False, *,
    image_size: t.Pair | None = None, canonical_scale: t.Number = 224.0,
    canonical_level: t.Index = 4, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float] | list[t.NDArray[t.Float]]:  # fmt: skip
    """Gradient of :func:`multiscale_roi_align` with respect to the coordinates of its boxes, each
    at the level that it is pooled from.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> ramp = [np.tile(np.arange(side, dtype=float), (1, 1, side, 1)) for side in (64, 32)]
    >>> boxes = np.array([[0, 41.0, 41.0, 81.0, 81.0]])
    >>> grad, scales = np.ones((1, 1, 1, 1)), [1 / 4, 1 / 8]
    >>> roicy.multiscale_roi_align_backward_boxes(grad, ramp, boxes, scales)[:, [1, 3]]
    array([[0.125, 0.125]])
    """
    pyramid = (canonical_scale, canonical_level, image_size)
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, None, pyramid)
    rule = sampled(sampling_ratio, aligned)
    return _call.backward_boxes(ROI_ALIGN, rule, grad_output, features, arguments)


@documented("{output_multiscale}", **_ROTATED)
def multiscale_roi_align_rotated(
    features: Sequence[t.Input[t.Float]], boxes: t.Boxes, output_size: t.Size,
    spatial_scale: t.Scales = None, sampling_ratio: t.Ratio = -1, aligned: bool = True,
    clockwise: bool = False, *, image_size: t.Pair | None = None, canonical_scale: t.Number = 224.0,
    canonical_level: t.Index = 4, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """RoIAlignRotated of each box from the level of a feature pyramid that suits its size.

    The level of a box follows from its width and height, as in :func:`multiscale_roi_align`.  y and
    x have one scale on each level.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> fine = np.full((1, 1, 64, 64), 1, np.float32)
    >>> coarse = np.full((1, 1, 32, 32), 2, np.float32)
    >>> boxes = np.array([[0, 128, 128, 180, 170, 0.7], [0, 60, 60, 50, 40, 0.7]], np.float32)
    >>> pooled = roicy.multiscale_roi_align_rotated([fine, coarse], boxes, 1, [1 / 4, 1 / 8], 2)
    >>> pooled.ravel().round(3)
    array([2., 1.], dtype=float32)
    """
    pyramid = (canonical_scale, canonical_level, image_size)
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out, pyramid)
    rule = rotated(sampling_ratio, aligned, clockwise)
    return _call.forward(ROI_ALIGN_ROTATED, rule, features, output_size, arguments)


@documented("{grad_features}", out="outs", **_ROTATED)
def multiscale_roi_align_rotated_backward(
    grad_output: t.Gradient[t.Float], boxes: t.Boxes, input_shapes: Sequence[t.Shape],
    spatial_scale: t.Scales = None, sampling_ratio: t.Ratio = -1, aligned: bool = True,
    clockwise: bool = False, *, image_size: t.Pair | None = None, canonical_scale: t.Number = 224.0,
    canonical_level: t.Index = 4, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Outs[t.Float] = None, num_threads: t.Threads = None,
) -> list[t.NDArray[t.Float]]:  # fmt: skip
    """Gradients of :func:`multiscale_roi_align_rotated` with respect to the maps of each level."""
    pyramid = (canonical_scale, canonical_level, image_size)
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out, pyramid)
    rule = rotated(sampling_ratio, aligned, clockwise)
    return _call.backward(ROI_ALIGN_ROTATED, rule, grad_output, input_shapes, arguments)


@overload
def multiscale_roi_align_rotated_backward_boxes(
    grad_output: t.Gradient[t.Float], features: Sequence[t.Readable], boxes: t.Rows,
    spatial_scale: t.Scales = None, sampling_ratio: t.Ratio = -1, aligned: bool = True,
    clockwise: bool = False, *, image_size: t.Pair | None = None,
    canonical_scale: t.Number = 224.0, canonical_level: t.Index = 4,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    ...
@overload
def multiscale_roi_align_rotated_backward_boxes(
    grad_output: t.Gradient[t.Float], features: Sequence[t.Readable], boxes: t.BoxesOfImages,
    spatial_scale: t.Scales = None, sampling_ratio: t.Ratio = -1, aligned: bool = True,
    clockwise: bool = False, *, image_size: t.Pair | None = None,
    canonical_scale: t.Number = 224.0, canonical_level: t.Index = 4,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", num_threads: t.Threads = None,
) -> list[t.NDArray[t.Float]]:  # fmt: skip
    ...
@documented("{grad_boxes}", **_ROTATED)
def multiscale_roi_align_rotated_backward_boxes(
    grad_output: t.Gradient[t.Float], features: Sequence[t.Readable], boxes: t.Boxes,
    spatial_scale: t.Scales = None, sampling_ratio: t.Ratio = -1, aligned: bool = True,
    clockwise: bool = False, *, image_size: t.Pair | None = None,
    canonical_scale: t.Number = 224.0, canonical_level: t.Index = 4,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", num_threads: t.Threads = None,
) -> t.NDArray[t.Float] | list[t.NDArray[t.Float]]:  # fmt: skip
    """Gradient of :func:`multiscale_roi_align_rotated` with respect to the numbers of its boxes,
    each at the level that it is pooled from.
    """
    pyramid = (canonical_scale, canonical_level, image_size)
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, None, pyramid)
    rule = rotated(sampling_ratio, aligned, clockwise)
    return _call.backward_boxes(ROI_ALIGN_ROTATED, rule, grad_output, features, arguments)
