"""
Pooling from the levels of a feature pyramid: each box from the level that suits its size, all levels in one parallel region.

Levels are checked here, and given their boxes; the rest is `roi_align`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

import numpy as np

from . import _arguments, _threads
from ._docs import operator
from ._kernels import front
from .operators import _align_rule, _carry_out, _check_same_type, _gradient, _Maps, _plan, _sum_backward, _sum_backward_boxes, _sum_forward

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .operators import Boxes, Counts, Float, Layout, Size

    Scales = Sequence[SupportsFloat] | NDArray[np.floating[Any]] | None
    ImageSize = tuple[SupportsIndex, SupportsIndex] | None


def _scales(value: Any, image_size: Any, shapes: list[tuple[int, int, int, int]], name: str) -> list[float]:
    """Return the scale of each level, whose shapes must go together."""
    for i, (n, c, _, _) in enumerate(shapes):
        if (n, c) != shapes[0][:2]:
            raise ValueError(f"{name}[{i}]: {n} images of {c} channels, expected {shapes[0][0]} of {shapes[0][1]}, as {name}[0] has")
    heights = [h for _, _, h, _ in shapes]
    if value is not None:
        if image_size is not None:
            raise ValueError("image_size: expected None, since spatial_scale is given")
        if not isinstance(value, (list, tuple, np.ndarray)) or len(value) != len(heights):
            raise ValueError(f"spatial_scale: {value!r}, expected a scale for each of the {len(heights)} levels")
        scales = [_arguments.spatial_scale(scale) for scale in value]
    else:
        if not isinstance(image_size, (list, tuple)) or len(image_size) != 2:
            raise ValueError(f"image_size: {image_size!r}, expected (height, width), or else spatial_scale")
        height, _ = (_arguments.integer("image_size", side, 1, 2**62) for side in image_size)
        if 0 in heights:
            raise ValueError(f"{name}[{heights.index(0)}]: a map without rows, of which no scale follows; expected spatial_scale")
        scales = [front.scale_from_heights(rows, height) for rows in heights]
    if any(coarser >= finer for finer, coarser in itertools.pairwise(scales)):
        follows = "" if value is not None else ", as follows from image_size"
        raise ValueError(f"spatial_scale: {scales}{follows}; expected levels from fine to coarse, each scale less than the one before")
    return scales


def _canonical(canonical_scale: Any, canonical_level: Any) -> tuple[float, int]:
    """Return the side of a box, and the level of such boxes."""
    try:
        side = _arguments.spatial_scale(canonical_scale)
    except (TypeError, ValueError):
        raise ValueError(f"canonical_scale: {canonical_scale!r}, expected a finite number above 0") from None
    return side, _arguments.integer("canonical_level", canonical_level, -1000, 1000)


def _pyramid(dtype, shapes, name, boxes, bins, spatial_scale, image_size, canonical_scale, canonical_level, boxes_num, layout, num_threads):
    """Distribute the boxes to the levels: (the maps of each, the boxes in the format that they came in)."""
    scales = _scales(spatial_scale, image_size, shapes, name)
    threads = _threads.resolve(num_threads)
    everywhere = _arguments.Boxes(boxes, boxes_num, shapes[0][0], dtype, max(scales))
    canonical = _canonical(canonical_scale, canonical_level)
    rows, stops = front.by_level[_arguments.FLOATS[dtype.char]](everywhere.coordinates, scales[0], len(scales), *canonical)
    sorted_boxes = everywhere.some(rows)
    levels = []
    for shape, scale, (first, stop) in zip(shapes, scales, itertools.pairwise([0, *stops]), strict=True):
        part = slice(first, stop)
        levels.append(_Maps(dtype, shape, sorted_boxes.some(part), bins, scale, False, layout, threads, rows[part]))
    return levels, everywhere


def _seen(features, layout, one=_arguments.maps):
    """Check the maps of each level, by `one`: (as they are, seen as (N, C, H, W), their shapes)."""
    axes = _arguments.layout_axes(layout)
    if not isinstance(features, (list, tuple)) or not features:
        raise TypeError(f"features: {type(features).__module__}.{type(features).__qualname__}, expected a list of arrays, one for each level")
    maps = [one(f"features[{i}]", level, _arguments.dimensions(layout)) for i, level in enumerate(features)]
    for i, level in enumerate(maps):
        if level.dtype != maps[0].dtype:
            raise TypeError(f"features[{i}]: dtype {level.dtype.name}, expected {maps[0].dtype.name}, as features[0] has")
    seen = [level if axes is None else level.transpose(axes) for level in maps]
    return maps, seen, [_arguments.extents(f"features[{i}]", level.shape) for i, level in enumerate(seen)]


def _input_shapes(input_shapes, out, layout):
    """Check what the gradients of all levels shall be: (their shapes as (N, C, H, W), the arrays to write to by their names, or None)."""
    if not isinstance(input_shapes, (list, tuple)) or not input_shapes:
        raise ValueError(f"input_shapes: {input_shapes!r}, expected a shape for each level")
    shapes = [_arguments.input_shape(f"input_shapes[{i}]", shape, layout) for i, shape in enumerate(input_shapes)]
    if out is None:
        return shapes, None
    if not isinstance(out, (list, tuple)) or len(out) != len(shapes):
        raise ValueError(f"out: expected a list of {len(shapes)} arrays, one for each level")
    return shapes, [(f"out[{i}]", level) for i, level in enumerate(out)]


def _check_gradient(grad, expected, levels):
    if grad.shape != expected:
        raise ValueError(f"grad_output: shape {grad.shape}, expected {expected}, for {expected[0]} boxes and maps of {levels[0].c} channels")


@operator
def multiscale_roi_align(
    features: Sequence[NDArray[Float]],
    boxes: Boxes,
    output_size: Size,
    spatial_scale: Scales = None,
    sampling_ratio: SupportsIndex = -1,
    aligned: bool = False,
    *,
    image_size: ImageSize = None,
    canonical_scale: SupportsFloat = 224,
    canonical_level: SupportsIndex = 4,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float]:
    """
    RoIAlign of each box from the level of a feature pyramid that suits its size.

    The level of a box is ::

        floor(canonical_level + log2(sqrt(width * height) / canonical_scale) + 1e-6)

    The finest map has the level that is -log2 of its scale, rounded, each other the level after that of the map before (as in
    torchvision also where there are scales between); levels below and above are moved to the finest and coarsest map.

    Parameters
    ----------
    {features}
    {boxes}
    {output_size}
    {scales}
    {sampling_ratio}
    {aligned}
    {image_size}
    {canonical}
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {output_multiscale}

    Raises
    ------
    {raises}

    Notes
    -----
    Lin et al., "Feature Pyramid Networks for Object Detection", 2017; computed as by torchvision's MultiScaleRoIAlign.  Boxes
    without area, and inverted ones, are pooled from the finest level (torchvision gives 0 for the inverted,
    and where scales are left out for large ones).

    Examples
    --------
    >>> import numpy as np, roicy
    >>> fine, coarse = np.full((1, 1, 64, 64), 1, np.float32), np.full((1, 1, 32, 32), 2, np.float32)
    >>> boxes = [np.array([[0, 0, 200, 200], [10, 10, 60, 60]], np.float32)]
    >>> roicy.multiscale_roi_align([fine, coarse], boxes, 1, image_size=(256, 256), sampling_ratio=2).ravel()
    array([2., 1.], dtype=float32)
    """
    rule = _align_rule(sampling_ratio, aligned)
    if isinstance(features, (list, tuple)):
        pyramid = canonical_scale, canonical_level, image_size
        plan = _plan(tuple(features), boxes, output_size, spatial_scale, rule, boxes_num, layout, out, num_threads, pyramid=pyramid)
        if plan is not None:
            return _carry_out(plan)
    maps, seen, shapes = _seen(features, layout)
    bins = _arguments.output_size(output_size)
    levels, _ = _pyramid(
        _arguments.computed(maps[0].dtype), shapes, "features", boxes, bins, spatial_scale, image_size, canonical_scale, canonical_level, boxes_num,
        layout, num_threads,
    )  # fmt: skip
    return _sum_forward(levels, seen, rule, out)


@operator
def multiscale_roi_align_backward(
    grad_output: NDArray[Float],
    boxes: Boxes,
    input_shapes: Sequence[tuple[int, ...]],
    spatial_scale: Scales = None,
    sampling_ratio: SupportsIndex = -1,
    aligned: bool = False,
    *,
    image_size: ImageSize = None,
    canonical_scale: SupportsFloat = 224,
    canonical_level: SupportsIndex = 4,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: Sequence[NDArray[Float]] | None = None,
    num_threads: SupportsIndex | None = None,
) -> list[NDArray[Float]]:
    """
    Gradients of :func:`multiscale_roi_align` by the maps of each level.

    Parameters
    ----------
    {grad_output}
    {boxes}
    input_shapes : sequence of tuples of 4 ints
        Shape of the maps of each level, in the order of `layout`.
    {scales}
    {sampling_ratio}
    {aligned}
    {image_size}
    {canonical}
    {boxes_num}
    {layout}
    out : sequence of ndarrays, optional
        Written to, and returned, in a list: one for each level, of the shape and dtype of the result.
    {num_threads}

    Returns
    -------
    list of ndarrays of the shapes `input_shapes`, dtype of `grad_output`
        Gradients of the maps; zeros of a level that no box is pooled from.

    Raises
    ------
    {raises}

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes = np.array([[0, 4, 4, 60, 60]], np.float32)
    >>> shapes = [(1, 1, 64, 64), (1, 1, 32, 32)]
    >>> fine, coarse = roicy.multiscale_roi_align_backward(np.ones((1, 1, 2, 2)), boxes, shapes, image_size=(256, 256))
    >>> float(fine.sum().round(6)), float(coarse.sum())
    (4.0, 0.0)
    """
    grad, seen = _gradient(grad_output, layout)
    shapes, outs = _input_shapes(input_shapes, out, layout)
    rule = _align_rule(sampling_ratio, aligned)
    levels, _ = _pyramid(
        grad.dtype, shapes, "input_shapes", boxes, seen.shape[2:], spatial_scale, image_size, canonical_scale, canonical_level, boxes_num, layout, num_threads
    )
    _check_gradient(grad, levels[0].output_shape(sum(level.k for level in levels)), levels)
    return _sum_backward(levels, seen, rule, outs)


@operator
def multiscale_roi_align_backward_boxes(
    grad_output: NDArray[Float],
    features: Sequence[NDArray[Any]],
    boxes: Boxes,
    spatial_scale: Scales = None,
    sampling_ratio: SupportsIndex = -1,
    aligned: bool = False,
    *,
    image_size: ImageSize = None,
    canonical_scale: SupportsFloat = 224,
    canonical_level: SupportsIndex = 4,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    num_threads: SupportsIndex | None = None,
) -> Any:
    """
    Gradient of :func:`multiscale_roi_align` by the coordinates of its boxes, each at the level that it is pooled from.

    Parameters
    ----------
    {grad_output}
    {features}
    {boxes}
    {scales}
    {sampling_ratio}
    {aligned}
    {image_size}
    {canonical}
    {boxes_num}
    {layout}
    {num_threads}

    Returns
    -------
    {grad_boxes}

    Raises
    ------
    {raises}

    Examples
    --------
    >>> import numpy as np, roicy
    >>> ramp = [np.tile(np.arange(side, dtype=float), (1, 1, side, 1)) for side in (64, 32)]
    >>> boxes = np.array([[0, 41.0, 41.0, 81.0, 81.0]])
    >>> roicy.multiscale_roi_align_backward_boxes(np.ones((1, 1, 1, 1)), ramp, boxes, [1 / 4, 1 / 8])[:, [1, 3]]
    array([[0.125, 0.125]])
    """
    maps, seen, shapes = _seen(features, layout)
    grad, seen_grad = _gradient(grad_output, layout)
    rule = _align_rule(sampling_ratio, aligned)
    levels, everywhere = _pyramid(
        grad.dtype, shapes, "features", boxes, seen_grad.shape[2:], spatial_scale, image_size, canonical_scale, canonical_level, boxes_num, layout, num_threads
    )
    _check_gradient(grad, levels[0].output_shape(sum(level.k for level in levels)), levels)
    _check_same_type("features[0]", maps[0], levels[0])
    return everywhere.restore(_sum_backward_boxes(levels, seen_grad, seen, rule))
