"""
The operators: each public function names its row of the table, checks its arguments and calls the kernels.

=============  ====================================  ============  ==============================
operator       bins and weights along an axis        reduction     input channel of (c, p, q)
=============  ====================================  ============  ==============================
roi_align      sampled: mean of bilinear samples     weighted sum  c
ps_roi_align   sampled                               weighted sum  (c * PH + p) * PW + q
prroi_pool     integrated: exact bilinear integral   weighted sum  c
ps_roi_pool    whole pixels, equal weights           weighted sum  (c * PH + p) * PW + q
roi_pool       whole pixels                          maximum       c
roi_align_max  sampled                               maximum       c
=============  ====================================  ============  ==============================

The second column is a rule of ``pyx/geometry.pyx``, the third a file of kernels, the last the flag `position_sensitive`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, TypeVar, overload

import numpy as np

from . import _arguments, _threads
from ._dispatch import rounding, sample_max, weighted_sum, window_max
from ._docs import operator
from ._kernels import front, geometry, schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float = TypeVar("Float", bound=np.floating[Any])
    Size = SupportsIndex | tuple[SupportsIndex, SupportsIndex] | list[int]
    Boxes = NDArray[Any] | Sequence[NDArray[Any]]
    Counts = NDArray[np.integer[Any]] | Sequence[int] | None
    Layout = Literal["NCHW", "NHWC"]


LANE_BYTES = 64  # of the channels that kernels compute together


class _Seen:
    """Arrays of the layout of a call, whose `axes` make (N, C, H, W) of it, and shapes the other way round."""

    def seen(self, array):
        """Return the view (N, C, H, W) or (K, C, PH, PW) of an array of the call's layout."""
        return array if self.axes is None else array.transpose(self.axes)

    def shape_of(self, first, channels, height, width):
        return (first, channels, height, width) if self.axes is None else (first, height, width, channels)

    @property
    def input_shape(self):
        return self.shape_of(self.n, self.c, self.h, self.w)


class _Maps(_Seen):
    """What the calls have in common: feature maps of one size, boxes on them, and their bins, all seen as (N, C, H, W)."""

    def __init__(self, dtype, shape, boxes, bins, scale, position_sensitive, layout, threads, rows=None):
        self.dtype = dtype
        self.type = _arguments.FLOATS[dtype.char]
        self.axes = _arguments.layout_axes(layout)
        self.n, self.c, self.h, self.w = shape
        self.bins = bins
        self.scale = scale
        self.position_sensitive = position_sensitive
        self.channels = _arguments.channels(self.c, bins, position_sensitive)
        self.threads = threads
        self.boxes = boxes
        self.k = len(boxes.images)
        self.rows = rows  # of the boxes in the output, if they are not all that there are
        # nothing to read or to write: the result is zeros
        self.empty = not (self.k and self.channels and self.h and self.w)

    def output_shape(self, k):
        return self.shape_of(k, self.channels, *self.bins)

    def level(self, array, *tables):
        """
        Return what the kernels and the schedule want to know of maps: (array, dtype character, in_pixels, in_rows), and tables.

        in_pixels: whether the channels of a pixel lie together and are read together; of small types only those that fill lane vectors. in_rows:
        whether the pixels of a row lie together.
        """
        whole = array.dtype == self.dtype or self.c * self.dtype.itemsize % LANE_BYTES == 0
        in_pixels = array.strides[1] == array.itemsize and not self.position_sensitive and whole
        return _arguments.bits(array), array.dtype.char, in_pixels, array.strides[3] == array.itemsize, *tables

    def parts(self, array, rule, in_bands, slopes, most):
        """Yield levels of as many boxes at a time as tables have room for, and `most` at most."""
        level, boxes, tables = self.level(array), self.boxes, None
        if in_bands is None:
            in_bands = level[2]  # no rows are packed then, and kept
        most_rows = 0 if in_bands else schedule.most_rows(self.w, slopes)
        while tables is None or tables.stop < self.k:
            tables = geometry.tables[self.type](
                boxes.images, boxes.coordinates, self.rows, self.n, rule, self.bins, (self.h, self.w), self.scale, most_rows, tables, slopes, most, self.threads
            )
            yield *level, tables

    def reading(self, levels, slopes=False):
        """Return (tasks, threads) of what goes through the maps of levels; slopes: of the gradient of the boxes."""
        return schedule.reading(levels, self.channels, self.dtype.itemsize, self.bins[0] * self.bins[1], self.position_sensitive, self.threads, slopes)

    def writing(self, levels, add, blocks_first=False):
        """Return (tasks, threads) of what writes to them."""
        return schedule.writing(
            levels, self.channels, self.dtype.itemsize, self.bins[0] * self.bins[1], self.position_sensitive, self.threads, add, blocks_first
        )


def _steps(maps, arrays, rule, in_bands=None, slopes=False, most=2**31):
    """Yield lists of levels, until all boxes of those that have any were in one; at least one has."""
    parts = [level.parts(array, rule, in_bands, slopes, most) for level, array in zip(maps, arrays, strict=True) if not level.empty]
    for levels in itertools.zip_longest(*parts):
        yield [level for level in levels if level is not None]


def _forward_maps(input, boxes, output_size, spatial_scale, boxes_num, layout, num_threads, position_sensitive=False):
    """Check what every forward pass is given: (the maps, the input seen as (N, C, H, W))."""
    axes = _arguments.layout_axes(layout)
    input = _arguments.maps("input", input, _arguments.dimensions(layout))
    seen = input if axes is None else input.transpose(axes)
    bins = _arguments.output_size(output_size)
    scale = _arguments.spatial_scale(spatial_scale)
    shape = _arguments.extents("input", seen.shape)
    dtype = _arguments.computed(input.dtype)
    threads = _threads.resolve(num_threads)
    return _Maps(dtype, shape, _arguments.Boxes(boxes, boxes_num, shape[0], dtype, scale), bins, scale, position_sensitive, layout, threads), seen


def _gradient(grad_output, layout, one=_arguments.array):
    """Check the gradient of an output, by `one`: (it, seen as (K, C, PH, PW))."""
    axes = _arguments.layout_axes(layout)
    grad = one("grad_output", grad_output, "(K, C, PH, PW)" if axes is None else "(K, PH, PW, C)")
    seen = grad if axes is None else grad.transpose(axes)
    if 0 in seen.shape[2:]:
        raise ValueError(f"grad_output: shape {grad.shape}, expected at least one bin")
    return grad, seen


def _backward_maps(grad_output, boxes, input_shape, spatial_scale, boxes_num, layout, num_threads, position_sensitive=False):
    """Check what every backward pass is given: (the maps, grad_output seen as (K, C, PH, PW))."""
    shape = _arguments.input_shape("input_shape", input_shape, layout)
    grad, seen = _gradient(grad_output, layout)
    scale = _arguments.spatial_scale(spatial_scale)
    of_images = _arguments.Boxes(boxes, boxes_num, shape[0], grad.dtype, scale)
    maps = _Maps(grad.dtype, shape, of_images, seen.shape[2:], scale, position_sensitive, layout, _threads.resolve(num_threads))
    if grad.shape != maps.output_shape(maps.k):
        raise ValueError(f"grad_output: shape {grad.shape}, expected {maps.output_shape(maps.k)}, for {maps.k} boxes and input of shape {tuple(input_shape)}")
    return maps, seen


def _round(values, out, threads):
    """Write new float32 values to an array of a small type."""
    rounded = out if out.flags.c_contiguous else _arguments.new(out.shape, out.dtype)
    rounding.narrow(values, _arguments.bits(rounded), ord(out.dtype.char), threads)
    if rounded is not out:
        out[...] = rounded


def _sum_forward(levels, inputs, rule, out):
    """Forward pass of the operators that are weighted sums."""
    maps = levels[0]
    shape = maps.output_shape(sum([level.k for level in levels]))
    out = _arguments.result(out, shape, _arguments.pooled(inputs[0].dtype), (*inputs, *[level.boxes.coordinates for level in levels]))
    target = out if out.dtype == maps.dtype else _arguments.new(shape, maps.dtype)
    seen = maps.seen(target)
    empty = [level for level in levels if level.empty]
    for level in empty:
        seen[... if level.rows is None else level.rows] = 0
    if len(empty) < len(levels):
        for step in _steps(levels, inputs, rule):
            tasks, threads = maps.reading(step)
            weighted_sum.forward[maps.type](step, tasks, seen, maps.position_sensitive, threads)
    if target is not out:
        _round(target, out, maps.threads)
    return out


def _plan(maps, boxes, output_size, spatial_scale, rule, boxes_num, layout, out, num_threads, position_sensitive=False, pyramid=None):
    """Return what the kernels need for a forward pass of few boxes whose arguments are plain, in a fraction of the time that all checks take; else None."""
    threads = _threads.resolve(num_threads)
    return front.plan(maps, boxes, boxes_num, output_size, spatial_scale, layout, out, rule, position_sensitive, threads, _arguments.new, pyramid)


def _carry_out(plan, position_sensitive=False):
    """Forward pass of an operator that is a weighted sum, as planned."""
    type, levels, tasks, out, seen, threads = plan
    weighted_sum.forward[type](levels, tasks, seen, position_sensitive, threads)
    return out


def _sums(input, boxes, output_size, spatial_scale, rule, boxes_num, layout, out, num_threads, position_sensitive=False):
    """Forward pass of an operator that is a weighted sum, from its arguments."""
    plan = _plan((input,), boxes, output_size, spatial_scale, rule, boxes_num, layout, out, num_threads, position_sensitive)
    if plan is not None:
        return _carry_out(plan, position_sensitive)
    maps, seen = _forward_maps(input, boxes, output_size, spatial_scale, boxes_num, layout, num_threads, position_sensitive)
    return _sum_forward([maps], [seen], rule, out)


def _sum_backward(levels, grad, rule, outs):
    """Gradients of the inputs of the operators that are weighted sums."""
    maps = levels[0]
    read = (grad, *(level.boxes.coordinates for level in levels))
    results = []
    for level, (name, out) in zip(levels, outs or [("out", None)] * len(levels), strict=True):
        results.append(_arguments.result(out, level.input_shape, (maps.dtype,), (*read, *results), name))
    for level, out in zip(levels, results, strict=True):
        if level.empty:
            out[...] = 0
    if not all(level.empty for level in levels):
        for number, step in enumerate(_steps(levels, [maps.seen(out) for out in results], rule, in_bands=True)):
            add = number > 0  # to what other boxes gave
            tasks, threads = maps.writing(step, add)
            if not maps.position_sensitive:
                for *_, tables in step:
                    geometry.by_pixel(tables, threads)
            weighted_sum.backward[maps.type](grad, step, tasks, add, maps.position_sensitive, threads)
    return results


def _one_backward(maps, grad, rule, out):
    """Return the gradient of the only input."""
    return _sum_backward([maps], grad, rule, None if out is None else [("out", out)])[0]


PARTS_BYTES = 16 << 20  # of the gradients of the boxes, kept for each channel block until they are added up


def _sum_backward_boxes(levels, grad, inputs, rule):
    """Gradients of the boxes of the operators that are weighted sums, a row for each row of the output."""
    maps = levels[0]
    result = np.zeros((sum(level.k for level in levels), 4), maps.dtype)
    if not all(level.empty for level in levels):
        lanes = LANE_BYTES // maps.dtype.itemsize
        blocks = -(-maps.channels // lanes) * (maps.bins[0] * maps.bins[1] if maps.position_sensitive else 1)
        for step in _steps(levels, inputs, rule, slopes=True, most=max(PARTS_BYTES // (32 * blocks * len(levels)), 1)):
            rows = np.concatenate([tables.rows() for *_, tables in step])
            parts = np.zeros((blocks, len(rows), 4))
            tasks, threads = maps.reading(step, slopes=True)
            weighted_sum.backward_boxes[maps.type](grad, step, tasks, parts, maps.position_sensitive, threads)
            result[rows] = parts.sum(axis=0)
    return result


def _boxes_maps(grad_output, input, boxes, spatial_scale, boxes_num, layout, num_threads, position_sensitive=False):
    """Check what every gradient of the boxes is given: (the maps, grad_output, input)."""
    axes = _arguments.layout_axes(layout)
    input = _arguments.maps("input", input, _arguments.dimensions(layout))
    maps, grad = _backward_maps(grad_output, boxes, input.shape, spatial_scale, boxes_num, layout, num_threads, position_sensitive)
    _check_same_type("input", input, maps)
    return maps, grad, input if axes is None else input.transpose(axes)


def _check_same_type(name, input, maps):
    if _arguments.computed(input.dtype) != maps.dtype:
        raise TypeError(f"{name}: dtype {input.dtype.name}, expected {maps.dtype.name} as grad_output has")


@operator
def roi_align(
    input: NDArray[Float] | NDArray[np.uint8],
    boxes: Boxes,
    output_size: Size,
    spatial_scale: SupportsFloat = 1.0,
    sampling_ratio: SupportsIndex = -1,
    aligned: bool = False,
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float]:
    """
    Mean of bilinear samples in each bin of each box: RoIAlign.

    ``out[k, c, p, q]`` is the mean of ``input[n, c]`` over a grid of ``gy * gx`` samples at ::

        y = lo_y + p * bh + (i + 0.5) * bh / gy,    i = 0 .. gy - 1
        x = lo_x + q * bw + (j + 0.5) * bw / gx,    j = 0 .. gx - 1

    with ``lo = (x1, y1) * spatial_scale - (0.5 if aligned else 0)``, the size of the box, ``(bh, bw) = size / (PH, PW)``,
    and ``g = sampling_ratio``, or ``ceil(size / (PH, PW))``.  A sample farther than one pixel off the map counts as 0,
    others are moved to the map.

    Parameters
    ----------
    {input}
    {boxes}
    {output_size}
    {spatial_scale}
    {sampling_ratio}
    {aligned}
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {output}

    Raises
    ------
    {raises}

    Notes
    -----
    He, Gkioxari, Dollár, Girshick, "Mask R-CNN", 2017; computed as by torchvision, and by Paddle and MXNet with
    their parameters.  Where torchvision reads cell (0, 0) with weight 0 for a sample off the map, nothing is read.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> boxes = np.array([[0, 0, 0, 2, 2]], np.float32)
    >>> roicy.roi_align(input, boxes, 2, sampling_ratio=1)[0, 0]
    array([[2.5, 3.5],
           [6.5, 7.5]], dtype=float32)
    """
    return _sums(input, boxes, output_size, spatial_scale, _align_rule(sampling_ratio, aligned), boxes_num, layout, out, num_threads)


@operator
def roi_align_max(
    input: NDArray[Float] | NDArray[np.uint8],
    boxes: Boxes,
    output_size: Size,
    spatial_scale: SupportsFloat = 1.0,
    sampling_ratio: SupportsIndex = -1,
    aligned: bool = False,
    *,
    products: bool = False,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float]:
    """
    Largest bilinear sample in each bin of each box: RoIAlign with mode "max" of ONNX.

    The samples are those of :func:`roi_align`.  There are two definitions of the largest: of the samples, which OpenVINO
    computes ::

        max over samples of  w1 * v1 + w2 * v2 + w3 * v3 + w4 * v4

    or, with `products`, of what they are sums of, which ONNX's reference implementation computes ::

        max over samples of  max(w1 * v1, w2 * v2, w3 * v3, w4 * v4)

    where v are the four pixels around a sample and w their bilinear weights.

    Parameters
    ----------
    {input}
    {boxes}
    {output_size}
    {spatial_scale}
    sampling_ratio : int, optional
        Samples per bin and axis, at most 1024; if 0 or negative, as many as the bin has pixels, rounded up.
    {aligned}
    products : bool, optional
        Whether the largest product is meant, rather than the largest sample.
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {output}
        A sample farther than one pixel off the map counts as 0, and a bin without samples gives 0.  NaN is never the largest; a bin
        of NaN alone gives the lowest finite number.

    Raises
    ------
    {raises}

    Notes
    -----
    ONNX, operator RoiAlign, opset 10, 16 and 22.  It has no gradient there, nor here.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> boxes = np.array([[0, 0, 0, 2, 2]], np.float32)
    >>> roicy.roi_align_max(input, boxes, 1, sampling_ratio=2)[0, 0]
    array([[7.5]], dtype=float32)
    >>> roicy.roi_align_max(input, boxes, 1, sampling_ratio=2, products=True)[0, 0]
    array([[2.5]], dtype=float32)
    """
    maps, seen = _forward_maps(input, boxes, output_size, spatial_scale, boxes_num, layout, num_threads)
    rule = _align_rule(_arguments.integer("sampling_ratio", sampling_ratio, -(2**31), MOST_SAMPLES), aligned)
    products = _arguments.flag("products", products)
    out = _arguments.result(out, maps.output_shape(maps.k), _arguments.pooled(seen.dtype), (input, maps.boxes.coordinates))
    if maps.empty:
        out[...] = 0
        return out
    target = out if out.dtype == maps.dtype else _arguments.new(out.shape, maps.dtype)
    for step in _steps([maps], [seen], geometry.one_by_one(rule)):
        tasks, threads = maps.reading(step)
        sample_max.forward[maps.type](step[0], tasks, maps.seen(target), products, threads)
    if target is not out:
        _round(target, out, maps.threads)
    return out


MOST_SAMPLES = 1024  # of a bin and axis, where they cannot be taken together: a bin costs their square


def _align_rule(sampling_ratio, aligned):
    aligned = _arguments.flag("aligned", aligned)
    return geometry.sampled(_arguments.sampling_ratio(sampling_ratio), aligned, not aligned)


@operator
def roi_align_backward(
    grad_output: NDArray[Float],
    boxes: Boxes,
    input_shape: tuple[int, ...],
    spatial_scale: SupportsFloat = 1.0,
    sampling_ratio: SupportsIndex = -1,
    aligned: bool = False,
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float]:
    """
    Gradient of :func:`roi_align` by its input.

    Each pixel gets the gradient of every bin that reads it, times its weight there.

    Parameters
    ----------
    {grad_output}
    {boxes}
    {input_shape}
    {spatial_scale}
    {sampling_ratio}
    {aligned}
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {grad_input}

    Raises
    ------
    {raises}

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes = np.array([[0, 0, 0, 2, 2]], np.float32)
    >>> roicy.roi_align_backward(np.ones((1, 1, 1, 1), np.float32), boxes, (1, 1, 3, 3), sampling_ratio=1)[0, 0]
    array([[0., 0., 0.],
           [0., 1., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    maps, grad = _backward_maps(grad_output, boxes, input_shape, spatial_scale, boxes_num, layout, num_threads)
    return _one_backward(maps, grad, _align_rule(sampling_ratio, aligned), out)


@operator
def roi_align_backward_boxes(
    grad_output: NDArray[Float],
    input: NDArray[Any],
    boxes: Boxes,
    spatial_scale: SupportsFloat = 1.0,
    sampling_ratio: SupportsIndex = -1,
    aligned: bool = False,
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    num_threads: SupportsIndex | None = None,
) -> Any:
    """
    Gradient of :func:`roi_align` by the coordinates of its boxes.

    Each sample contributes the slope of the bilinear surface where it lies, times how far it moves with each edge of the
    box.  The number of samples, and whether they lie on the map, is taken as constant.

    Parameters
    ----------
    {grad_output}
    {input_gradient}
    {boxes}
    {spatial_scale}
    {sampling_ratio}
    {aligned}
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
    On a map that rises by 1 a column, the mean over a box rises by half of what either of its edges moves:

    >>> import numpy as np, roicy
    >>> input = np.tile(np.arange(8.0), (1, 1, 8, 1))
    >>> boxes = np.array([[0, 1.2, 1.2, 5.2, 5.2]])
    >>> roicy.roi_align_backward_boxes(np.ones((1, 1, 1, 1)), input, boxes, sampling_ratio=4)[:, [1, 3]].round(6)
    array([[0.5, 0.5]])
    """
    maps, grad, seen = _boxes_maps(grad_output, input, boxes, spatial_scale, boxes_num, layout, num_threads)
    return maps.boxes.restore(_sum_backward_boxes([maps], grad, [seen], _align_rule(sampling_ratio, aligned)))


@operator
def ps_roi_align(
    input: NDArray[Float] | NDArray[np.uint8],
    boxes: Boxes,
    output_size: Size,
    spatial_scale: SupportsFloat = 1.0,
    sampling_ratio: SupportsIndex = -1,
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float]:
    """
    Position-sensitive RoIAlign: each bin reads channels of its own.

    ``out[k, c, p, q]`` is what :func:`roi_align` with ``aligned=True`` computes from input channel ``(c * PH + p) * PW + q``.

    Parameters
    ----------
    {input}
        C is a multiple of PH * PW.
    {boxes}
    {output_size}
    {spatial_scale}
    {sampling_ratio}
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {output_position_sensitive}

    Raises
    ------
    {raises}

    Notes
    -----
    Li, Peng, Yu, Zhang, Deng, Sun, "Light-Head R-CNN", 2017; computed as by torchvision, and by MXNet's contrib.ROIAlign with
    position_sensitive=True and aligned=True.  A box of no size gives 0 here, where torchvision gives NaN.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1) * np.ones((1, 1, 6, 6), np.float32)
    >>> boxes = np.array([[0, 1, 1, 5, 5]], np.float32)
    >>> roicy.ps_roi_align(input, boxes, 2)[0, 0]
    array([[0., 1.],
           [2., 3.]], dtype=float32)
    """
    return _sums(input, boxes, output_size, spatial_scale, _ps_align_rule(sampling_ratio), boxes_num, layout, out, num_threads, position_sensitive=True)


def _ps_align_rule(sampling_ratio):
    return geometry.sampled(_arguments.sampling_ratio(sampling_ratio), True, False)


@operator
def ps_roi_align_backward(
    grad_output: NDArray[Float],
    boxes: Boxes,
    input_shape: tuple[int, ...],
    spatial_scale: SupportsFloat = 1.0,
    sampling_ratio: SupportsIndex = -1,
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float]:
    """
    Gradient of :func:`ps_roi_align` by its input.

    Parameters
    ----------
    {grad_output}
    {boxes}
    {input_shape}
    {spatial_scale}
    {sampling_ratio}
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {grad_input}

    Raises
    ------
    {raises}

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes = np.array([[0, 1, 1, 5, 5]], np.float32)
    >>> grad = roicy.ps_roi_align_backward(np.ones((1, 1, 2, 2), np.float32), boxes, (1, 4, 6, 6))
    >>> grad.sum(axis=(2, 3))
    array([[1., 1., 1., 1.]], dtype=float32)
    """
    maps, grad = _backward_maps(grad_output, boxes, input_shape, spatial_scale, boxes_num, layout, num_threads, position_sensitive=True)
    return _one_backward(maps, grad, _ps_align_rule(sampling_ratio), out)


@operator
def ps_roi_align_backward_boxes(
    grad_output: NDArray[Float],
    input: NDArray[Any],
    boxes: Boxes,
    spatial_scale: SupportsFloat = 1.0,
    sampling_ratio: SupportsIndex = -1,
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    num_threads: SupportsIndex | None = None,
) -> Any:
    """
    Gradient of :func:`ps_roi_align` by the coordinates of its boxes.

    Parameters
    ----------
    {grad_output}
    {input_gradient}
    {boxes}
    {spatial_scale}
    {sampling_ratio}
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
    >>> input = np.tile(np.arange(8.0), (1, 4, 8, 1))
    >>> boxes = np.array([[0, 1.2, 1.2, 5.2, 5.2]])
    >>> roicy.ps_roi_align_backward_boxes(np.ones((1, 1, 2, 2)), input, boxes, sampling_ratio=2)[:, [1, 3]].round(6)
    array([[2., 2.]])
    """
    maps, grad, seen = _boxes_maps(grad_output, input, boxes, spatial_scale, boxes_num, layout, num_threads, position_sensitive=True)
    return maps.boxes.restore(_sum_backward_boxes([maps], grad, [seen], _ps_align_rule(sampling_ratio)))


@operator
def prroi_pool(
    input: NDArray[Float] | NDArray[np.uint8],
    boxes: Boxes,
    output_size: Size,
    spatial_scale: SupportsFloat = 1.0,
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float]:
    """
    Exact mean of the bilinear surface over each bin of each box: PrRoIPool.

    ``out[k, c, p, q]`` is the integral over the bin, divided by the bin's area, of ::

        f(y, x) = sum over i, j of input[n, c, i, j] * max(0, 1 - abs(y - i)) * max(0, 1 - abs(x - j))

    Coordinates are not rounded.  The surface falls to 0 within one pixel off the map.

    Parameters
    ----------
    {input}
    {boxes}
    {output_size}
    {spatial_scale}
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {output}
        A box without area, or inverted, gives 0.

    Raises
    ------
    {raises}

    Notes
    -----
    Jiang, Luo, Mao, Xiao, Jiang, "Acquisition of Localization Confidence for Accurate Object Detection", 2018; computed as by
    Paddle 1.6 to 1.8.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> boxes = np.array([[0, 0.5, 0.5, 2.5, 2.5]], np.float32)
    >>> roicy.prroi_pool(input, boxes, 2)[0, 0]
    array([[ 6.,  7.],
           [10., 11.]], dtype=float32)
    """
    return _sums(input, boxes, output_size, spatial_scale, geometry.INTEGRATED_RULE, boxes_num, layout, out, num_threads)


@operator
def prroi_pool_backward(
    grad_output: NDArray[Float],
    boxes: Boxes,
    input_shape: tuple[int, ...],
    spatial_scale: SupportsFloat = 1.0,
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float]:
    """
    Gradient of :func:`prroi_pool` by its input.

    Parameters
    ----------
    {grad_output}
    {boxes}
    {input_shape}
    {spatial_scale}
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {grad_input}

    Raises
    ------
    {raises}

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes = np.array([[0, 0, 0, 2, 2]], np.float32)
    >>> roicy.prroi_pool_backward(np.full((1, 1, 1, 1), 16, np.float32), boxes, (1, 1, 3, 3))[0, 0]
    array([[1., 2., 1.],
           [2., 4., 2.],
           [1., 2., 1.]], dtype=float32)
    """
    maps, grad = _backward_maps(grad_output, boxes, input_shape, spatial_scale, boxes_num, layout, num_threads)
    return _one_backward(maps, grad, geometry.INTEGRATED_RULE, out)


@operator
def prroi_pool_backward_boxes(
    grad_output: NDArray[Float],
    input: NDArray[Any],
    boxes: Boxes,
    spatial_scale: SupportsFloat = 1.0,
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    num_threads: SupportsIndex | None = None,
) -> Any:
    """
    Gradient of :func:`prroi_pool` by the coordinates of its boxes.

    The pooled value is a smooth function of them, which is what the operator is for.

    Parameters
    ----------
    {grad_output}
    {input_gradient}
    {boxes}
    {spatial_scale}
    {boxes_num}
    {layout}
    {num_threads}

    Returns
    -------
    {grad_boxes}
        Of boxes without area it is 0 (Paddle: NaN).

    Raises
    ------
    {raises}

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.tile(np.arange(8.0), (1, 1, 8, 1))
    >>> boxes = np.array([[0, 1.2, 1.2, 5.2, 5.2]])
    >>> roicy.prroi_pool_backward_boxes(np.ones((1, 1, 1, 1)), input, boxes)[:, [1, 3]].round(6)
    array([[0.5, 0.5]])
    """
    maps, grad, seen = _boxes_maps(grad_output, input, boxes, spatial_scale, boxes_num, layout, num_threads)
    return maps.boxes.restore(_sum_backward_boxes([maps], grad, [seen], geometry.INTEGRATED_RULE))


@operator
def ps_roi_pool(
    input: NDArray[Float] | NDArray[np.uint8],
    boxes: Boxes,
    output_size: Size,
    spatial_scale: SupportsFloat = 1.0,
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float]:
    """
    Position-sensitive RoIPool: the mean of whole pixels, where each bin reads channels of its own.

    ``out[k, c, p, q]`` is the mean of the pixels of input channel ``(c * PH + p) * PW + q`` in rows
    ``floor(p * bh) + lo_y .. ceil((p + 1) * bh) + lo_y - 1`` and columns likewise, on the map, with
    ``lo = round((x1, y1) * spatial_scale)``, ``hi`` likewise, and ``(bh, bw) = max(hi - lo, 1) / (PH, PW)``.
    The last row and column of the map are not read.  A bin off the map gives 0.

    Parameters
    ----------
    {input}
        C is a multiple of PH * PW.
    {boxes}
    {output_size}
    {spatial_scale}
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {output_position_sensitive}

    Raises
    ------
    {raises}

    Notes
    -----
    Dai, Li, He, Sun, "R-FCN", 2016; computed as by torchvision, which leaves out the last row and column.  (Its gradient
    gives them a share all the same; here the gradient is that of the forward pass.)

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1) * np.ones((1, 1, 6, 6), np.float32)
    >>> boxes = np.array([[0, 1, 1, 5, 5]], np.float32)
    >>> roicy.ps_roi_pool(input, boxes, 2)[0, 0]
    array([[0., 1.],
           [2., 3.]], dtype=float32)
    """
    return _sums(input, boxes, output_size, spatial_scale, geometry.UNIFORM_RULE, boxes_num, layout, out, num_threads, position_sensitive=True)


@operator
def ps_roi_pool_backward(
    grad_output: NDArray[Float],
    boxes: Boxes,
    input_shape: tuple[int, ...],
    spatial_scale: SupportsFloat = 1.0,
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float]:
    """
    Gradient of :func:`ps_roi_pool` by its input.

    Parameters
    ----------
    {grad_output}
    {boxes}
    {input_shape}
    {spatial_scale}
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {grad_input}

    Raises
    ------
    {raises}

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes = np.array([[0, 1, 1, 3, 3]], np.float32)
    >>> roicy.ps_roi_pool_backward(np.ones((1, 1, 1, 1), np.float32), boxes, (1, 1, 4, 4))[0, 0]
    array([[0.  , 0.  , 0.  , 0.  ],
           [0.  , 0.25, 0.25, 0.  ],
           [0.  , 0.25, 0.25, 0.  ],
           [0.  , 0.  , 0.  , 0.  ]], dtype=float32)
    """
    maps, grad = _backward_maps(grad_output, boxes, input_shape, spatial_scale, boxes_num, layout, num_threads, position_sensitive=True)
    return _one_backward(maps, grad, geometry.UNIFORM_RULE, out)


@overload
def roi_pool(
    input: NDArray[Float] | NDArray[np.uint8],
    boxes: Boxes,
    output_size: Size,
    spatial_scale: SupportsFloat = ...,
    *,
    return_argmax: Literal[False] = ...,
    boxes_num: Counts = ...,
    layout: Layout = ...,
    out: NDArray[Float] | None = ...,
    num_threads: SupportsIndex | None = ...,
) -> NDArray[Float]: ...


@overload
def roi_pool(
    input: NDArray[Float] | NDArray[np.uint8],
    boxes: Boxes,
    output_size: Size,
    spatial_scale: SupportsFloat = ...,
    *,
    return_argmax: Literal[True],
    boxes_num: Counts = ...,
    layout: Layout = ...,
    out: NDArray[Float] | None = ...,
    num_threads: SupportsIndex | None = ...,
) -> tuple[NDArray[Float], NDArray[np.int32]]: ...


@operator
def roi_pool(
    input: NDArray[Float] | NDArray[np.uint8],
    boxes: Boxes,
    output_size: Size,
    spatial_scale: SupportsFloat = 1.0,
    *,
    return_argmax: bool = False,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float] | tuple[NDArray[Float], NDArray[np.int32]]:
    """
    Largest pixel in each bin of each box: RoIPool.

    ``out[k, c, p, q]`` is the largest of ``input[n, c, y, x]`` in rows
    ``floor(p * bh) + lo_y .. ceil((p + 1) * bh) + lo_y - 1`` and columns likewise, on the map, with
    ``lo = round((x1, y1) * spatial_scale)``, ``hi`` likewise, and ``(bh, bw) = max(hi - lo + 1, 1) / (PH, PW)``.
    Halves are rounded away from 0.  A bin off the map gives 0.

    Parameters
    ----------
    {input}
    {boxes}
    {output_size}
    {spatial_scale}
    return_argmax : bool, optional
        Also return where the largest pixels are, which the gradient needs.
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {output}
        NaN is never the largest; a bin of NaN or -inf alone gives the lowest finite number.
    argmax : ndarray of the same shape, int32
        Only with `return_argmax`: y * W + x of the first largest pixel in row order, -1 where there is none.

    Raises
    ------
    {raises}

    Notes
    -----
    Girshick, "Fast R-CNN", 2015; computed as by torchvision, and by Paddle and MXNet in float32.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.arange(48, dtype=np.float32).reshape(1, 1, 8, 6)
    >>> boxes = np.array([[0, 0, 0, 4, 4]], np.float32)
    >>> roicy.roi_pool(input, boxes, 2, 1.0)[0, 0]
    array([[14., 16.],
           [26., 28.]], dtype=float32)
    >>> pooled, argmax = roicy.roi_pool(input, boxes, 2, 0.7, return_argmax=True)
    >>> pooled[0, 0]
    array([[ 7.,  9.],
           [19., 21.]], dtype=float32)
    """
    return_argmax = _arguments.flag("return_argmax", return_argmax)
    plan = _plan((input,), boxes, output_size, spatial_scale, geometry.QUANTISED_RULE, boxes_num, layout, out, num_threads)
    if plan is not None:
        type, (level,), tasks, out, seen_out, threads = plan
        _check_argmax_fits(*level[0].shape[2:], "input") if return_argmax else None
        argmax = _arguments.new(out.shape, np.dtype(np.int32)) if return_argmax else None
        window_max.forward[type](level, tasks, seen_out, argmax if argmax is None or layout == "NCHW" else argmax.transpose(0, 3, 1, 2), threads)
        return out if argmax is None else (out, argmax)
    maps, seen = _forward_maps(input, boxes, output_size, spatial_scale, boxes_num, layout, num_threads)
    _check_argmax_fits(maps.h, maps.w, "input") if return_argmax else None
    out = _arguments.result(out, maps.output_shape(maps.k), _arguments.pooled(seen.dtype), (input, maps.boxes.coordinates))
    argmax = _arguments.new(out.shape, np.dtype(np.int32)) if return_argmax else None
    if maps.empty:
        out[...] = 0
        if argmax is not None:
            argmax[...] = -1
        return out if argmax is None else (out, argmax)
    target = out if out.dtype == maps.dtype else _arguments.new(out.shape, maps.dtype)
    seen_out, seen_argmax = maps.seen(target), None if argmax is None else maps.seen(argmax)
    for step in _steps([maps], [seen], geometry.QUANTISED_RULE):
        tasks, threads = maps.reading(step)
        window_max.forward[maps.type](step[0], tasks, seen_out, seen_argmax, threads)
    if target is not out:
        _round(target, out, maps.threads)
    return out if argmax is None else (out, argmax)


def _check_argmax_fits(height, width, name):
    if height * width >= 2**31:
        raise ValueError(f"{name}: a map of {height} x {width} pixels, expected less than 2**31, which int32 argmax can count")


@operator
def roi_pool_backward(
    grad_output: NDArray[Float],
    argmax: NDArray[np.int32],
    boxes: Boxes,
    input_shape: tuple[int, ...],
    *,
    boxes_num: Counts = None,
    layout: Layout = "NCHW",
    out: NDArray[Float] | None = None,
    num_threads: SupportsIndex | None = None,
) -> NDArray[Float]:
    """
    Gradient of :func:`roi_pool` by its input: that of each bin goes to its largest pixel.

    Parameters
    ----------
    {grad_output}
    argmax : ndarray of the same shape, int32
        As :func:`roi_pool` returns it.
    {boxes}
        Only their images matter.
    {input_shape}
    {boxes_num}
    {layout}
    {out}
    {num_threads}

    Returns
    -------
    {grad_input}

    Raises
    ------
    {raises}

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    >>> boxes = np.array([[0, 0, 0, 1, 1]], np.float32)
    >>> pooled, argmax = roicy.roi_pool(input, boxes, 1, return_argmax=True)
    >>> roicy.roi_pool_backward(np.ones_like(pooled), argmax, boxes, input.shape)[0, 0]
    array([[0., 0., 0.],
           [0., 1., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    maps, grad = _backward_maps(grad_output, boxes, input_shape, 1.0, boxes_num, layout, num_threads)
    _check_argmax_fits(maps.h, maps.w, "input_shape")
    argmax = _arguments.indices("argmax", argmax, grad_output.shape)
    given = out is not None
    out = _arguments.result(out, maps.input_shape, (maps.dtype,), (grad_output, argmax, maps.boxes.coordinates))
    at = maps.seen(argmax)
    if maps.empty:
        _check_argmax(argmax, maps, 1)
        out[...] = 0
        return out
    seen = maps.seen(out)
    # in the order of grad_output, which with argmax is most of what there is to read
    level = maps.level(seen, geometry.everywhere(maps.boxes.images, maps.n, (maps.h, maps.w)))
    tasks, threads = maps.writing([level], False, blocks_first=True)
    if given:
        _check_argmax(argmax, maps, threads)  # nothing may be written if it is wrong; a new array is shown to nobody, and the kernel checks as it goes
    if window_max.backward[maps.type](grad, at, level, tasks, threads):
        _check_argmax(argmax, maps, 1)
    return out


def _check_argmax(argmax, maps, threads):
    bad = window_max.first_outside(argmax, maps.h * maps.w, threads)
    if bad >= 0:
        raise ValueError(f"argmax[{bad}]: an index that is neither -1 nor less than the {maps.h * maps.w} pixels of the map")
