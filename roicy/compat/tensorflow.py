"""TensorFlow's ``tf.image.crop_and_resize`` on NumPy arrays."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from .. import normalised

__all__ = ["crop_and_resize", "image"]


def crop_and_resize(
    image: np.ndarray,
    boxes: np.ndarray,
    box_indices: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> np.ndarray:
    """
    Crops of boxes in normalised coordinates, resized; see :func:`roicy.crop_and_resize`.

    Parameters
    ----------
    image : ndarray (N, H, W, C)
        Images or feature maps of any type that roicy reads, or int32 or int64.
    boxes : ndarray (K, 4)
        Rows [y1, x1, y2, x2]: 0 is the centre of the first pixel, and 1 that of the last.
    box_indices : (K,) ints
        Image of each box.
    crop_size : (int, int)
        Bins of a box, (height, width).
    method : {"bilinear", "nearest"}, optional
        How pixels are interpolated.
    extrapolation_value : float, optional
        Value of bins off the image.
    name : str, optional
        Ignored.

    Returns
    -------
    ndarray (K, PH, PW, C), dtype of `image`, but float32 of integers
        TensorFlow gives float32 for all types.

    Raises
    ------
    TypeError, ValueError
        As :func:`roicy.crop_and_resize`.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import tensorflow as tf
    >>> image = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)
    >>> tf.image.crop_and_resize(image, np.array([[0, 0, 1, 1]]), [0], (2, 2))[0, :, :, 0]
    array([[0., 2.],
           [6., 8.]], dtype=float32)
    """
    if getattr(image, "dtype", None) in (np.int32, np.int64):
        image = np.asarray(image).astype(np.float32)
    return normalised.crop_and_resize(
        image, boxes, box_indices, crop_size, method, extrapolation_value, layout="NHWC"
    )


image = types.SimpleNamespace(crop_and_resize=crop_and_resize)
