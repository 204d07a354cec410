"""The operators that integrate the bilinear surface: PrRoIPool, in both orders of channels."""

from __future__ import annotations

from typing import overload

from . import _call
from ._checks import _names as t
from ._docs import documented
from ._kernels.plan import Arguments
from ._table import INTEGRATED, PRROI_POOL, PS_PRROI_POOL

__all__ = [
    "prroi_pool", "prroi_pool_backward", "prroi_pool_backward_boxes", "ps_prroi_pool",
    "ps_prroi_pool_backward", "ps_prroi_pool_backward_boxes",
]  # fmt: skip


@documented(
    """{output}
    A box without area, or inverted, gives 0."""
)
def prroi_pool(
    input: t.Input[t.Float], boxes: t.Boxes, output_size: t.Size, spatial_scale: t.Scale = 1.0, *,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", out: t.Out[t.Float] = None,
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Exact mean of the bilinear surface over each bin of each box: PrRoIPool.

    ``out[k, c, p, q]`` is the integral over the bin, divided by the bin's area, of ::

        f(y, x) = sum over i, j of input[n, c, i, j] * max(0, 1 - abs(y - i)) * max(0, 1 - abs(x
        - j))

    Coordinates are not rounded.  The surface falls to 0 within one pixel off the map.

    Notes
    -----
    Jiang, Luo, Mao, Xiao, Jiang, "Acquisition of Localization Confidence for Accurate Object
    Detection", 2018; computed as by Paddle 1.6 to 1.8.  Bins narrower than the distance between
    two numbers of the type are means too, where Paddle rounds their ends to the type, and
    divides by a length that is not rounded.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> boxes = np.array([[0, 0.5, 0.5, 2.5, 2.5]], np.float32)
    >>> roicy.prroi_pool(input, boxes, 2)[0, 0]
    array([[ 6.,  7.],
           [10., 11.]], dtype=float32)
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    return _call.forward(PRROI_POOL, INTEGRATED, input, output_size, arguments)


@documented("{grad_input}")
def prroi_pool_backward(
    grad_output: t.Gradient[t.Float], boxes: t.Boxes, input_shape: t.Shape,
    spatial_scale: t.Scale = 1.0, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Gradient of :func:`prroi_pool` with respect to its input.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes = np.array([[0, 0, 0, 2, 2]], np.float32)
    >>> roicy.prroi_pool_backward(np.full((1, 1, 1, 1), 16, np.float32), boxes, (1, 1, 3, 3))[0, 0]
    array([[1., 2., 1.],
           [2., 4., 2.],
           [1., 2., 1.]], dtype=float32)
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    return _call.backward(PRROI_POOL, INTEGRATED, grad_output, input_shape, arguments)


@overload
def prroi_pool_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.Rows,
    spatial_scale: t.Scale = 1.0, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    ...
@overload
def prroi_pool_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.BoxesOfImages,
    spatial_scale: t.Scale = 1.0, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> list[t.NDArray[t.Float]]:  # fmt: skip
    ...
@documented(
    """{grad_boxes}
    Of boxes without area it is 0 (Paddle: NaN).""",
    input="input_gradient",
)
def prroi_pool_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.Boxes,
    spatial_scale: t.Scale = 1.0, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float] | list[t.NDArray[t.Float]]:  # fmt: skip
    """Gradient of :func:`prroi_pool` with respect to the coordinates of its boxes.

    The pooled value is a smooth function of them, which is what the operator is for.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.tile(np.arange(8.0), (1, 1, 8, 1))
    >>> boxes = np.array([[0, 1.2, 1.2, 5.2, 5.2]])
    >>> roicy.prroi_pool_backward_boxes(np.ones((1, 1, 1, 1)), input, boxes)[:, [1, 3]].round(6)
    array([[0.5, 0.5]])
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads)
    return _call.backward_boxes(PRROI_POOL, INTEGRATED, grad_output, input, arguments)


@documented(
    """{output_position_sensitive}
    A box without area, or inverted, gives 0.""",
    input="input_by_bin",
)
def ps_prroi_pool(
    input: t.Input[t.Float], boxes: t.Boxes, output_size: t.Size, spatial_scale: t.Scale = 1.0, *,
    boxes_num: t.Counts = None, layout: t.Layout = "NCHW", out: t.Out[t.Float] = None,
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Position-sensitive PrRoIPool: each bin reads channels of its own.

    ``out[k, c, p, q]`` is what :func:`prroi_pool` computes from input channel
    ``(c * PH + p) * PW + q``.

    Notes
    -----
    PrRoIPool with the channels of R-FCN: Paddle's `prroi_pool` with `output_channels` less than
    the channels of the input, with boxes that are not rounded.
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    return _call.forward(PS_PRROI_POOL, INTEGRATED, input, output_size, arguments)


@documented("{grad_input}")
def ps_prroi_pool_backward(
    grad_output: t.Gradient[t.Float], boxes: t.Boxes, input_shape: t.Shape,
    spatial_scale: t.Scale = 1.0, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Gradient of :func:`ps_prroi_pool` with respect to its input.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes = np.array([[0, 1, 1, 5, 5]], np.float32)
    >>> grad = roicy.ps_prroi_pool_backward(np.ones((1, 1, 2, 2)), boxes, (1, 4, 6, 6))
    >>> grad.sum(axis=(2, 3)).round(6)
    array([[1., 1., 1., 1.]])
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads, out)
    return _call.backward(PS_PRROI_POOL, INTEGRATED, grad_output, input_shape, arguments)


@overload
def ps_prroi_pool_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.Rows,
    spatial_scale: t.Scale = 1.0, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    ...
@overload
def ps_prroi_pool_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.BoxesOfImages,
    spatial_scale: t.Scale = 1.0, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> list[t.NDArray[t.Float]]:  # fmt: skip
    ...
@documented(
    """{grad_boxes}
    Of boxes without area it is 0.""",
    input="input_gradient",
)
def ps_prroi_pool_backward_boxes(
    grad_output: t.Gradient[t.Float], input: t.Readable, boxes: t.Boxes,
    spatial_scale: t.Scale = 1.0, *, boxes_num: t.Counts = None, layout: t.Layout = "NCHW",
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float] | list[t.NDArray[t.Float]]:  # fmt: skip
    """Gradient of :func:`ps_prroi_pool` with respect to the coordinates of its boxes.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> input = np.tile(np.arange(8.0), (1, 4, 8, 1))
    >>> boxes = np.array([[0, 1.2, 1.2, 5.2, 5.2]])
    >>> grad = np.ones((1, 1, 2, 2))
    >>> roicy.ps_prroi_pool_backward_boxes(grad, input, boxes)[:, [1, 3]].round(6)
    array([[2., 2.]])
    """
    arguments = Arguments(boxes, boxes_num, spatial_scale, layout, num_threads)
    return _call.backward_boxes(PS_PRROI_POOL, INTEGRATED, grad_output, input, arguments)
