"""The operators on single maps: a signature, a docstring and a call of ``_call.py`` each.

What tells one operator from another is in ``_table.py``.
"""

from __future__ import annotations

from typing import Literal, overload

import numpy as np

from . import _call
from ._checks import _arguments
from ._checks import _names as t
from ._docs import ROTATED, documented
from ._kernels.plan import Arguments

from ._table import (  # isort: skip
    PS_ROI_ALIGN, PS_ROI_POOL, QUANTISED, ROI_ALIGN, ROI_ALIGN_MAX, ROI_ALIGN_ROTATED, ROI_POOL,
    UNIFORM, rotated, sampled, single_samples,
)  # fmt: skip

__all__ = [
    "ps_roi_align", "ps_roi_align_backward", "ps_roi_align_backward_boxes", "ps_roi_pool",
    "ps_roi_pool_backward", "roi_align", "roi_align_backward", "roi_align_backward_boxes",
    "roi_align_max", "roi_align_max_backward", "roi_align_rotated", "roi_align_rotated_backward",
    "roi_align_rotated_backward_boxes", "roi_pool", "roi_pool_backward",
]  # fmt: skip


@documented("{output}")
def roi_align(
    input: t.Input[t.Float], boxes: t.Boxes, output_size: t.Size, spatial_scale: t.Scale = 1.0,
    sampling_ratio: t.Ratio = -1, aligned: bool = False, *, boxes_num: t.Counts = None,
    layout: t.Layout = "NCHW", out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Mean of bilinear samples in each bin of each box: RoIAlign.

    ``out[k, c, p, q]`` is the mean of ``input[n, c]`` over a grid of ``gy * gx`` samples at ::

        y = lo_y + p * bh + (i + 0.5) * bh / gy,    i = 0 .. gy - 1
        x = lo_x + q * bw + (j + 0.5) * bw / gx,    j = 0 .. gx - 1

    with ``lo = (x1, y1) * spatial_scale - (0.5 if aligned else 0)``, the size of the box,
    ``(bh, bw) = size / (PH, PW)``, and ``g = sampling_ratio``, or ``ceil(size / (PH, PW))``.  A
    sample farther than one pixel off the map counts as 0, others are moved to the map.

    Notes
    -----
    He, Gkioxari, Dollár, Girshick, "Mask R-CNN", 2017; computed as by torchvision, and by
    Paddle and MXNet with their parameters.  Where torchvision reads cell (0, 0) with weight 0
    for a sample off the map, nothing is read.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> boxes = np.array([[0, 0, 0, 2, 2]], np.float32)
    >>> roicy.roi_align(input, boxes, 2, sampling_ratio=1)[0, 0]
    array([[2.5, 3.5],
           [6.5, 7.5]], dtype=float32)
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    rule = sampled(sampling_ratio, aligned)
    return _call.forward(ROI_ALIGN, rule, input, output_size, arguments)


@documented(
    """{output}
    A sample farther than one pixel off the map counts as 0, and a bin without samples gives 0.
    NaN is never the largest; a bin of NaN alone gives the lowest finite number.""",
    sampling_ratio="max_sampling_ratio",
)
def roi_align_max(
    input: t.Input[t.Float], boxes: t.Boxes, output_size: t.Size, spatial_scale: t.Scale = 1.0,
    sampling_ratio: t.Ratio = -1, aligned: bool = False, *, products: bool = False,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", out: t.Out[t.Float] = None,
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Largest bilinear sample in each bin of each box: RoIAlign with mode "max" of ONNX.

    The samples lie as in :func:`roi_align`.  There are two definitions of the largest: of
    the samples, which OpenVINO computes ::

        max over samples of  w1 * v1 + w2 * v2 + w3 * v3 + w4 * v4

    or, with `products`, of what they are sums of, which ONNX's reference implementation computes ::

        max over samples of  max(w1 * v1, w2 * v2, w3 * v3, w4 * v4)

    where v are the four pixels around a sample and w their bilinear weights.

    Notes
    -----
    ONNX, operator RoiAlign, opset 10, 16 and 22.  It has no gradient there.

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
    products = _arguments.flag("products", products)
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    rule = single_samples(sampling_ratio, aligned)
    return _call.forward(ROI_ALIGN_MAX, rule, input, output_size, arguments, products=products)


@documented(
    """ndarray of the shape of `input`, dtype of `grad_output`
    Gradient of the input.""",
    input="input_gradient",
    sampling_ratio="max_sampling_ratio",
)
def roi_align_max_backward(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.Boxes,
    spatial_scale: t.Scale = 1.0, sampling_ratio: t.Ratio = -1, aligned: bool = False, *,
    products: bool = False, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Gradient of :func:`roi_align_max` with respect to its input: each bin's gradient goes to its
    largest sample.

    With g the gradient of a bin, the four pixels v[i] around its largest sample, whose weights
    are w[i], get ::

        grad_input[v[i]] += w[i] * g,    i = 1 .. 4

    or, with `products`, the one pixel of the largest product gets its ``w[i] * g``.

    The largest is the first that is larger than all before it: samples in row order, and their
    pixels in row order.  A sample off the map counts as a 0 that comes before all others, and
    gets no gradient.  A NaN is never the largest.  A bin without a largest sample gives no
    gradient, nor does one without samples.

    The largest samples are found anew in `input`, and it is read as :func:`roi_align_max` reads
    it.  There is no kernel for arrays of CuPy, which are a TypeError.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> boxes = np.array([[0, 0, 0, 2, 2]], np.float32)
    >>> grad = np.ones((1, 1, 1, 1), np.float32)
    >>> roicy.roi_align_max_backward(grad, input, boxes, sampling_ratio=2)[0, 0]
    array([[0.  , 0.  , 0.  , 0.  ],
           [0.  , 0.25, 0.25, 0.  ],
           [0.  , 0.25, 0.25, 0.  ],
           [0.  , 0.  , 0.  , 0.  ]], dtype=float32)
    """
    products = _arguments.flag("products", products)
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    rule = single_samples(sampling_ratio, aligned)
    return _call.backward_samples(
        ROI_ALIGN_MAX, rule, grad_output, input, arguments, products=products
    )


@documented("{grad_input}")
def roi_align_backward(
    grad_output: t.Gradient[t.Float], boxes: t.Boxes, input_shape: t.Shape,
    spatial_scale: t.Scale = 1.0, sampling_ratio: t.Ratio = -1, aligned: bool = False, *,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", out: t.Out[t.Float] = None,
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Gradient of :func:`roi_align` with respect to its input.

    Each pixel gets the gradient of every bin that reads it, times its weight there.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes = np.array([[0, 0, 0, 2, 2]], np.float32)
    >>> grad = np.ones((1, 1, 1, 1), np.float32)
    >>> roicy.roi_align_backward(grad, boxes, (1, 1, 3, 3), sampling_ratio=1)[0, 0]
    array([[0., 0., 0.],
           [0., 1., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    rule = sampled(sampling_ratio, aligned)
    return _call.backward(ROI_ALIGN, rule, grad_output, input_shape, arguments)


@overload
def roi_align_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.Rows,
    spatial_scale: t.Scale = 1.0, sampling_ratio: t.Ratio = -1, aligned: bool = False, *,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    ...
@overload
def roi_align_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.BoxesOfImages,
    spatial_scale: t.Scale = 1.0, sampling_ratio: t.Ratio = -1, aligned: bool = False, *,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", num_threads: t.Threads = None,
) -> list[t.NDArray[t.Float]]:  # fmt: skip
    ...
@documented("{grad_boxes}", input="input_gradient")
def roi_align_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.Boxes,
    spatial_scale: t.Scale = 1.0, sampling_ratio: t.Ratio = -1, aligned: bool = False, *,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", num_threads: t.Threads = None,
) -> t.NDArray[t.Float] | list[t.NDArray[t.Float]]:  # fmt: skip
    """Gradient of :func:`roi_align` with respect to the coordinates of its boxes.

    Each sample contributes the slope of the bilinear surface where it lies, times how far it
    moves with each edge of the box.  The number of samples, and whether they lie on the map, is
    taken as constant.

    Examples
    --------
    On a map that rises by 1 a column, the mean over a box rises by half of what either of its
    edges moves:

    >>> import numpy as np, roicy
    >>> input = np.tile(np.arange(8.0), (1, 1, 8, 1))
    >>> boxes = np.array([[0, 1.2, 1.2, 5.2, 5.2]])
    >>> grad = np.ones((1, 1, 1, 1))
    >>> grad_boxes = roicy.roi_align_backward_boxes(grad, input, boxes, sampling_ratio=4)
    >>> grad_boxes[:, [1, 3]].round(6)
    array([[0.5, 0.5]])
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads)
    rule = sampled(sampling_ratio, aligned)
    return _call.backward_boxes(ROI_ALIGN, rule, grad_output, input, arguments)


@documented("{output}", **ROTATED)
def roi_align_rotated(
    input: t.Input[t.Float], boxes: t.Boxes, output_size: t.Size, spatial_scale: t.Number = 1.0,
    sampling_ratio: t.Ratio = -1, aligned: bool = True, clockwise: bool = False, *,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", out: t.Out[t.Float] = None,
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Mean of bilinear samples in each bin of each rotated box: RoIAlignRotated.

    ``out[k, c, p, q]`` is the mean of ``input[n, c]`` over a grid of ``gy * gx`` samples at ::

        y = yy * cos(t) - xx * sin(t) + centre_y
        x = yy * sin(t) + xx * cos(t) + centre_x
        yy = -height / 2 + p * bh + (i + 0.5) * bh / gy,    i = 0 .. gy - 1
        xx = -width / 2 + q * bw + (j + 0.5) * bw / gx,    j = 0 .. gx - 1

    with ``t = -angle if clockwise else angle``, ``centre = (cx, cy) * spatial_scale - (0.5 if
    aligned else 0)``, ``size = (w, h) * spatial_scale``, ``(bh, bw) = (height / PH, width / PW)``,
    and ``g = sampling_ratio``, or ``ceil(size / (PH, PW))``, at most 4096.  A sample farther than
    one pixel off the map counts as 0, others are moved to the map.

    Notes
    -----
    Ma et al., "Arbitrary-Oriented Scene Text Detection via Rotation Proposals", 2018; computed as
    by Detectron2 and mmcv, with their parameters.

    A box of angle 0 has the samples of :func:`roi_align`, but not always its last bits: there each
    bin is summed along one axis and then along the other, and here pixel by pixel, since weights
    of a rotated box are not products of two axes.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.array([[1, 2], [3, 4]], np.float32).reshape(1, 1, 2, 2)
    >>> boxes = np.array([[0, 0.5, 0.5, 1, 1, 0], [0, 0.5, 0.5, 1, 1, np.pi / 2]], np.float32)
    >>> roicy.roi_align_rotated(input, boxes, 2, sampling_ratio=2)[:, 0]
    array([[[1.  , 1.25],
            [1.5 , 1.75]],
    <BLANKLINE>
           [[1.5 , 1.  ],
            [1.75, 1.25]]], dtype=float32)
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    rule = rotated(sampling_ratio, aligned, clockwise)
    return _call.forward(ROI_ALIGN_ROTATED, rule, input, output_size, arguments)


@documented("{grad_input}", **ROTATED)
def roi_align_rotated_backward(
    grad_output: t.Gradient[t.Float], boxes: t.Boxes, input_shape: t.Shape,
    spatial_scale: t.Number = 1.0, sampling_ratio: t.Ratio = -1, aligned: bool = True,
    clockwise: bool = False, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Gradient of :func:`roi_align_rotated` with respect to its input.

    Each pixel gets the gradient of every bin that reads it, times its weight there.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes = np.array([[0, 1.5, 1.5, 2, 1, np.pi / 4]], np.float32)
    >>> grad = np.ones((1, 1, 1, 1), np.float32)
    >>> roicy.roi_align_rotated_backward(grad, boxes, (1, 1, 3, 3), sampling_ratio=1)[0, 0]
    array([[0., 0., 0.],
           [0., 1., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    rule = rotated(sampling_ratio, aligned, clockwise)
    return _call.backward(ROI_ALIGN_ROTATED, rule, grad_output, input_shape, arguments)


@overload
def roi_align_rotated_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.Rows,
    spatial_scale: t.Number = 1.0, sampling_ratio: t.Ratio = -1, aligned: bool = True,
    clockwise: bool = False, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    ...
@overload
def roi_align_rotated_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.BoxesOfImages,
    spatial_scale: t.Number = 1.0, sampling_ratio: t.Ratio = -1, aligned: bool = True,
    clockwise: bool = False, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> list[t.NDArray[t.Float]]:  # fmt: skip
    ...
@documented("{grad_boxes}", input="input_gradient", **ROTATED)
def roi_align_rotated_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.Boxes,
    spatial_scale: t.Number = 1.0, sampling_ratio: t.Ratio = -1, aligned: bool = True,
    clockwise: bool = False, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float] | list[t.NDArray[t.Float]]:  # fmt: skip
    """Gradient of :func:`roi_align_rotated` with respect to the centres, sizes and angles of its
    boxes.

    Each sample contributes the slope of the bilinear surface where it lies, times how far it
    moves with each number of the box.  The number of samples, and whether they lie on the map, is
    taken as constant.

    Examples
    --------
    On a map that rises by 1 a column, the mean over a box rises by what its centre moves to the
    right, and by nothing else:

    >>> import numpy as np, roicy
    >>> input = np.tile(np.arange(8.0), (1, 1, 8, 1))
    >>> boxes = np.array([[0, 4.1, 4.1, 4.0, 2.0, 0.3]])
    >>> grad = np.ones((1, 1, 1, 1))
    >>> grad_boxes = roicy.roi_align_rotated_backward_boxes(grad, input, boxes, sampling_ratio=2)
    >>> abs(grad_boxes.round(6))
    array([[0., 1., 0., 0., 0., 0.]])
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads)
    rule = rotated(sampling_ratio, aligned, clockwise)
    return _call.backward_boxes(ROI_ALIGN_ROTATED, rule, grad_output, input, arguments)


@documented("{output_position_sensitive}", input="input_by_bin")
def ps_roi_align(
    input: t.Input[t.Float], boxes: t.Boxes, output_size: t.Size, spatial_scale: t.Scale = 1.0,
    sampling_ratio: t.Ratio = -1, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Position-sensitive RoIAlign: each bin reads channels of its own.

    ``out[k, c, p, q]`` is what :func:`roi_align` with ``aligned=True`` computes from input
    channel ``(c * PH + p) * PW + q``.

    Notes
    -----
    Li, Peng, Yu, Zhang, Deng, Sun, "Light-Head R-CNN", 2017; computed as by torchvision, and by
    MXNet's contrib.ROIAlign with position_sensitive=True and aligned=True.  A box of no size
    gives 0 here, where torchvision gives NaN.
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    rule = sampled(sampling_ratio, aligned=True)
    return _call.forward(PS_ROI_ALIGN, rule, input, output_size, arguments)


@documented("{grad_input}")
def ps_roi_align_backward(
    grad_output: t.Gradient[t.Float], boxes: t.Boxes, input_shape: t.Shape,
    spatial_scale: t.Scale = 1.0, sampling_ratio: t.Ratio = -1, *, boxes_num: t.Counts = None,
    layout: t.Layout = "NCHW", out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Gradient of :func:`ps_roi_align` with respect to its input.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes = np.array([[0, 1, 1, 5, 5]], np.float32)
    >>> grad = roicy.ps_roi_align_backward(np.ones((1, 1, 2, 2), np.float32), boxes, (1, 4, 6, 6))
    >>> grad.sum(axis=(2, 3))
    array([[1., 1., 1., 1.]], dtype=float32)
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    rule = sampled(sampling_ratio, aligned=True)
    return _call.backward(PS_ROI_ALIGN, rule, grad_output, input_shape, arguments)


@overload
def ps_roi_align_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.Rows,
    spatial_scale: t.Scale = 1.0, sampling_ratio: t.Ratio = -1, *, boxes_num: t.Counts = None,
    layout: t.Layout = "NCHW", num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    ...
@overload
def ps_roi_align_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.BoxesOfImages,
    spatial_scale: t.Scale = 1.0, sampling_ratio: t.Ratio = -1, *, boxes_num: t.Counts = None,
    layout: t.Layout = "NCHW", num_threads: t.Threads = None,
) -> list[t.NDArray[t.Float]]:  # fmt: skip
    ...
@documented("{grad_boxes}", input="input_gradient")
def ps_roi_align_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.Boxes,
    spatial_scale: t.Scale = 1.0, sampling_ratio: t.Ratio = -1, *, boxes_num: t.Counts = None,
    layout: t.Layout = "NCHW", num_threads: t.Threads = None,
) -> t.NDArray[t.Float] | list[t.NDArray[t.Float]]:  # fmt: skip
    """Gradient of :func:`ps_roi_align` with respect to the coordinates of its boxes.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.tile(np.arange(8.0), (1, 4, 8, 1))
    >>> boxes = np.array([[0, 1.2, 1.2, 5.2, 5.2]])
    >>> grad = np.ones((1, 1, 2, 2))
    >>> grad_boxes = roicy.ps_roi_align_backward_boxes(grad, input, boxes, sampling_ratio=2)
    >>> grad_boxes[:, [1, 3]].round(6)
    array([[2., 2.]])
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads)
    rule = sampled(sampling_ratio, aligned=True)
    return _call.backward_boxes(PS_ROI_ALIGN, rule, grad_output, input, arguments)


@documented("{output_position_sensitive}", input="input_by_bin")
def ps_roi_pool(
    input: t.Input[t.Float], boxes: t.Boxes, output_size: t.Size, spatial_scale: t.Scale = 1.0, *,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", out: t.Out[t.Float] = None,
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Position-sensitive RoIPool: the mean of whole pixels, where each bin reads channels of its
    own.

    ``out[k, c, p, q]`` is the mean of the pixels of input channel ``(c * PH + p) * PW + q`` in
    rows ``floor(p * bh) + lo_y .. ceil((p + 1) * bh) + lo_y - 1`` and columns likewise, on the
    map, with ``lo = round((x1, y1) * spatial_scale)``, ``hi`` likewise, and ``(bh, bw) = max(hi
    - lo, 1) / (PH, PW)``. The last row and column of the map are not read.  A bin off the map
    gives 0.

    Notes
    -----
    Dai, Li, He, Sun, "R-FCN", 2016; computed as by torchvision, which leaves out the last row
    and column.  (Its gradient gives them a share all the same; here the gradient fits the
    forward pass.)
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    return _call.forward(PS_ROI_POOL, UNIFORM, input, output_size, arguments)


@documented("{grad_input}")
def ps_roi_pool_backward(
    grad_output: t.Gradient[t.Float], boxes: t.Boxes, input_shape: t.Shape,
    spatial_scale: t.Scale = 1.0, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Gradient of :func:`ps_roi_pool` with respect to its input.

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
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    return _call.backward(PS_ROI_POOL, UNIFORM, grad_output, input_shape, arguments)


@overload
def roi_pool(
    input: t.Input[t.Float], boxes: t.Boxes, output_size: t.Size, spatial_scale: t.Scale = 1.0, *,
    return_argmax: Literal[False] = False, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    ...
@overload
def roi_pool(
    input: t.Input[t.Float], boxes: t.Boxes, output_size: t.Size, spatial_scale: t.Scale = 1.0, *,
    return_argmax: Literal[True], boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> tuple[t.NDArray[t.Float], t.NDArray[np.int32]]:  # fmt: skip
    ...
@overload
def roi_pool(
    input: t.Input[t.Float], boxes: t.Boxes, output_size: t.Size, spatial_scale: t.Scale = 1.0, *,
    return_argmax: bool = False, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float] | tuple[t.NDArray[t.Float], t.NDArray[np.int32]]:  # fmt: skip
    ...
@documented(
    """{output}
    NaN is never the largest; a bin of NaN or -inf alone gives the lowest finite number.
argmax : ndarray of the same shape, int32
    Only with `return_argmax`: y * W + x of the first largest pixel in row order, -1 where there
    is none.""",
    return_argmax="""bool
    Also return where the largest pixels are, which the gradient needs.""",
)
def roi_pool(
    input: t.Input[t.Float], boxes: t.Boxes, output_size: t.Size, spatial_scale: t.Scale = 1.0, *,
    return_argmax: bool = False, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float] | tuple[t.NDArray[t.Float], t.NDArray[np.int32]]:  # fmt: skip
    """Largest pixel in each bin of each box: RoIPool.

    ``out[k, c, p, q]`` is the largest of ``input[n, c, y, x]`` in rows ``floor(p * bh) + lo_y
    .. ceil((p + 1) * bh) + lo_y - 1`` and columns likewise, on the map, with ``lo = round((x1,
    y1) * spatial_scale)``, ``hi`` likewise, and ``(bh, bw) = max(hi - lo + 1, 1) / (PH, PW)``.
    Halves are rounded away from 0.  A bin off the map gives 0.

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
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    return _call.forward(
        ROI_POOL, QUANTISED, input, output_size, arguments, return_argmax=return_argmax
    )


@documented(
    "{grad_input}",
    argmax="""array_like of the same shape, int32
    As :func:`roi_pool` returns it.""",
    boxes="boxes_of_images",
)
def roi_pool_backward(
    grad_output: t.Gradient[t.Float], argmax: t.Readable, boxes: t.Boxes, input_shape: t.Shape, *,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", out: t.Out[t.Float] = None,
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Gradient of :func:`roi_pool` with respect to its input: each bin's gradient goes to its
    largest pixel.

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
    arguments = Arguments(boxes, boxes_num, 1.0, layout, num_threads, out)
    return _call.backward(ROI_POOL, QUANTISED, grad_output, input_shape, arguments, argmax)
