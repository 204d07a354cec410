"""The operator of normalised boxes, with bins on the corners of boxes: TensorFlow's
crop_and_resize.

It takes boxes as TensorFlow does, so its signature differs from those of the other operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _call, _cpu
from ._checks import _arguments, _boxes
from ._checks import _names as t
from ._checks._names import BOX_INDICES, BOXES, INPUT, errors_name
from ._docs import documented
from ._kernels.plan import Arguments, Rule
from ._table import CROP_AND_RESIZE, one_sample

__all__ = [
    "crop_and_resize", "crop_and_resize_backward", "crop_and_resize_backward_boxes",
]  # fmt: skip

_PIXELS = "(side - 1) ="  # which numbers of boxes are multiplied by, in place of spatial_scale
_errors = errors_name(input="image", input_shape="image_shape", spatial_scale=_PIXELS)
_CROPS = {"boxes": "normalised_boxes", "crop_size": "output_size"}


@_errors
@documented(
    "ndarray, (K, C, PH, PW) or (K, PH, PW, C), dtype of `image`, but float32 of integers",
    image="input",
    **_CROPS,
)
def crop_and_resize(
    image: t.Input[t.Float], boxes: t.Rows, box_indices: t.Indices, crop_size: t.Size,
    method: t.Method = "bilinear", extrapolation_value: t.Number = 0.0, *,
    layout: t.Layout = "NCHW", out: t.Out[t.Float] = None, num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """One sample of each bin of each box, from corner to corner: TensorFlow's crop_and_resize.

    ``out[k, c, p, q]`` is ``image[n, c]`` at ::

        y = y1 * (H - 1) + p * (y2 - y1) * (H - 1) / (PH - 1)
        x = x1 * (W - 1) + q * (x2 - x1) * (W - 1) / (PW - 1)

    or in the middle of the box along an axis with one bin.  A bin for which y is not in [0, H - 1]
    or x is not in [0, W - 1] is `extrapolation_value`.  As in TensorFlow, the steps are rounded, so
    that the last bins of a box that ends at 1 may lie off the map: [0, 0, 1, 1] of 56 x 56 pixels
    in 28 x 28 bins loses the last row and column.

    Notes
    -----
    TensorFlow, tf.image.crop_and_resize; :mod:`roicy.compat.tensorflow` has its layout.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> image = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    >>> boxes = np.array([[0, 0, 1, 1], [0.25, 0.5, 1.5, 0.5]], np.float32)
    >>> roicy.crop_and_resize(image, boxes, [0, 0], 2, extrapolation_value=-1)[:, 0]
    array([[[ 0. ,  2. ],
            [ 6. ,  8. ]],
    <BLANKLINE>
           [[ 2.5,  2.5],
            [-1. , -1. ]]], dtype=float32)
    """
    arguments, rule = Arguments(boxes, None, None, layout, num_threads, out), one_sample(method)
    return resized(rule, image, crop_size, extrapolation_value, box_indices, arguments)


@_errors
@documented(
    """ndarray of shape `image_shape`, dtype of `grad_output`
    Gradient of the image.""",
    image_shape="input_shape",
    **_CROPS,
)
def crop_and_resize_backward(
    grad_output: t.Gradient[t.Float], boxes: t.Rows, box_indices: t.Indices, image_shape: t.Shape,
    method: t.Method = "bilinear", *, layout: t.Layout = "NCHW", out: t.Out[t.Float] = None,
    num_threads: t.Threads = None,
) -> t.NDArray[t.Float]:  # fmt: skip
    """Gradient of :func:`crop_and_resize` with respect to its image.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> boxes, grad = np.array([[0.25, 0, 0.25, 1]], np.float32), np.ones((1, 1, 1, 2), np.float32)
    >>> roicy.crop_and_resize_backward(grad, boxes, [0], (1, 1, 3, 3))[0, 0]
    array([[0.5, 0. , 0.5],
           [0.5, 0. , 0.5],
           [0. , 0. , 0. ]], dtype=float32)
    """
    n, _, h, w = _arguments.input_shape("image_shape", image_shape, _arguments.layout_of(layout))
    arguments, rule = Arguments(boxes, None, None, layout, num_threads, out), one_sample(method)
    arguments = _in_pixels(arguments, box_indices, (n, h, w))
    return _call.backward(CROP_AND_RESIZE, rule, grad_output, image_shape, arguments)


@_errors
@documented(
    """ndarray (K, 4), dtype of `grad_output`
    Gradient of the boxes, [y1, x1, y2, x2].""",
    image="input_gradient",
    **_CROPS,
)
def crop_and_resize_backward_boxes(
    grad_output: t.Gradient[t.Float], image: t.Readable, boxes: t.Rows, box_indices: t.Indices, *,
    layout: t.Layout = "NCHW", num_threads: t.Threads = None,
) -> t.NDArray[Any]:  # fmt: skip
    """Gradient of :func:`crop_and_resize`, method "bilinear", with respect to the coordinates of
    its boxes.

    It is 0 along an axis where a sample lies on a pixel.

    Examples
    --------
    >>> import numpy as np, roicy
    >>> image, grad = np.tile(np.arange(8.0), (1, 1, 8, 1)), np.ones((1, 1, 1, 1))
    >>> boxes = np.array([[0.1, 0.2, 0.3, 0.4]])
    >>> roicy.crop_and_resize_backward_boxes(grad, image, boxes, [0]).round(6)
    array([[0. , 3.5, 0. , 3.5]])
    """
    image, shape = _with_extents(image, layout)
    arguments = Arguments(boxes, None, None, layout, num_threads)
    arguments, rule = _in_pixels(arguments, box_indices, shape), one_sample("bilinear")
    grad = _call.backward_boxes(CROP_AND_RESIZE, rule, grad_output, image, arguments)
    return grad[:, [2, 1, 4, 3]]


@errors_name(spatial_scale=_PIXELS)
def resized(
    rule: Rule, image: Any, crop_size: Any, extrapolation_value: Any, box_indices: Any,
    arguments: Arguments,
) -> Any:  # fmt: skip
    """Return the crops by a rule; arguments: with normalised boxes, and no scale."""
    value = _arguments.number("extrapolation_value", extrapolation_value)
    image, shape = _with_extents(image, arguments.layout)
    arguments = _in_pixels(arguments, box_indices, shape)
    size = _arguments.output_size(crop_size, "crop_size")
    out = _call.forward(CROP_AND_RESIZE, rule, image, size, arguments)
    if value != 0 and out.size:
        with np.errstate(over="ignore"):  # what is beyond the type is infinite
            number = np.array([value]).astype(_arguments.computed(out.dtype))
        rows, columns = (
            _off_map(rule, arguments.boxes[:, [2 - a, 4 - a]], shape[1 + a], size[a], number.dtype)
            for a in (0, 1)
        )
        view = _arguments.layout_of(arguments.layout).nchw(_arguments.plain("out", out))
        where = (rows[:, :, None] | columns[:, None])[:, None]
        np.copyto(view, _cpu.rounded(number, out.dtype), where=where)
    return out


def _with_extents(image: Any, layout: Any) -> tuple[Any, tuple[int, int, int]]:
    """Return an array of NumPy or CuPy, and its N, H and W."""
    if not isinstance(getattr(image, "shape", None), tuple):
        image = _arguments.taken(INPUT, image)
    order, shape = _arguments.layout_of(layout), image.shape
    if len(shape) != 4:
        raise ValueError(f"{INPUT}: shape {shape}, expected {order.spell('N', 'C', 'H', 'W')}")
    images, _, height, width = order.nchw(image).shape
    return image, (images, height, width)


def _in_pixels(arguments: Arguments, box_indices: Any, shape: tuple[int, int, int]) -> Arguments:
    """Return arguments as other operators have them; shape: of the image, (N, H, W)."""
    images, *extents = shape
    rows = _boxes.rows_of_numbers(BOXES, arguments.boxes, 4, ("y1", "x1", "y2", "x2"))
    rows = _boxes.with_images(BOX_INDICES, box_indices, rows[:, [1, 0, 3, 2]], images)
    # Boxes are sorted by their places in pixels, which these scales give.
    scale = tuple(float(max(extent - 1, 1)) for extent in extents)
    return Arguments(rows, None, scale, arguments.layout, arguments.num_threads, arguments.out)


def _off_map(rule: Rule, ends: np.ndarray, extent: int, bins: int, dtype: np.dtype) -> np.ndarray:
    """Return which bins of an axis lie off the map: those that read nothing of a line of ones."""
    boxes = np.zeros((len(ends), 5))
    boxes[:, [2, 4]] = ends
    arguments = Arguments(boxes, None, (float(max(extent - 1, 1)), 1.0), "NCHW", None)
    line = np.ones((1, 1, extent, 1), dtype)
    read = _call.forward(CROP_AND_RESIZE, rule, line, (bins, 1), arguments)
    return read[:, 0, :, 0] == 0
