"""TensorFlow's ``tf.image.crop_and_resize`` on NumPy arrays."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from .. import normalised
from .._checks import _arguments
from .._checks import _names as t
from ._docs import documented

__all__ = ["crop_and_resize", "image"]


@documented(
    "crop_and_resize",
    "ndarray (K, PH, PW, C), dtype of `image`, but float32 of integers\n"
    "    TensorFlow gives float32 for all types.",
    image="ndarray (N, H, W, C)\nImages or maps of any type that roicy reads, or int32 or int64.",
    boxes="normalised_boxes",
)
def crop_and_resize(
    image: t.Readable, boxes: t.Rows, box_indices: Any, crop_size: Any,
    method: str = "bilinear", extrapolation_value: t.Number = 0.0, name: str | None = None,
) -> np.ndarray:  # fmt: skip
    """Crops of boxes in normalised coordinates, resized, as ``tf.image.crop_and_resize``; see
    :func:`roicy.crop_and_resize`.

    Examples
    --------
    >>> import numpy as np
    >>> from roicy.compat import tensorflow as tf
    >>> image = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)
    >>> tf.image.crop_and_resize(image, np.array([[0, 0, 1, 1]]), [0], (2, 2))[0, :, :, 0]
    array([[0., 2.],
           [6., 8.]], dtype=float32)
    """
    image = _arguments.taken("image", image)
    if image.dtype.kind == "i" and image.dtype.itemsize >= 4:
        image = image.astype(np.float32)
    return normalised.crop_and_resize(
        image, boxes, box_indices, crop_size, method, extrapolation_value, layout="NHWC"
    )


image = types.SimpleNamespace(crop_and_resize=crop_and_resize)
