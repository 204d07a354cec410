"""Pictures as image processors read them: arrays of bytes, (H, W, C)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .._checks import _arguments

CHANNELS = (1, 3, 4)  # of arrays


def nested(value: Any, together: bool) -> list[list[Any]]:
    """Return samples of pictures; together: whether pictures of a flat list are one sample."""
    listed = isinstance(value, (list, tuple))
    if together and listed and {getattr(one, "ndim", 0) for one in value} == {4}:
        value = [list(array) for array in value]  # each of which is a sample
    if listed and any(isinstance(one, (list, tuple)) for one in value):
        if not all(isinstance(one, (list, tuple)) for one in value):
            raise TypeError("pictures: a list of pictures and of lists, expected one or the other")
        samples = [flat for flat in map(_flat, value) if flat or together]
    else:
        flat = _flat(value if listed else [value])
        samples = [flat] if together else [[one] for one in flat]
    if not any(samples):
        raise ValueError("pictures: an empty list, expected one picture or more")
    return samples


def _flat(value: Any) -> list[Any]:
    """Return pictures, of which an array may have several."""
    found: list[Any] = []
    for one in value:
        found.extend(one if getattr(one, "ndim", 0) == 4 else [one])
    return found


def taken(value: Any, rgb: Any, torch: bool) -> np.ndarray:
    """Return a picture as an array (H, W, C); rgb: whether it is made RGB, on white."""
    of_pil = hasattr(value, "getbands") and hasattr(value, "convert")
    array = _arguments.taken("pictures", _rgb_of_pil(value) if of_pil and rgb else value)
    array = array[:, :, None] if array.ndim == 2 else array
    if array.dtype != np.uint8:
        kind = f" PIL picture of mode {value.mode!r}" if of_pil else "n array"
        hint = "; pass picture.convert('RGB')" if of_pil else ""
        raise TypeError(f"pictures: a{kind}, dtype {array.dtype.name}, expected uint8{hint}")
    shape = array.shape
    if len(shape) != 3 or not array.size or (not of_pil and not {shape[0], shape[-1]} & {1, 3, 4}):
        raise ValueError(
            f"pictures: an array of shape {shape}, expected (H, W), (H, W, C) or "
            "(C, H, W) of 1, 3 or 4 channels"
        )
    if not of_pil and np.ndim(value) == 3 and shape[0] in CHANNELS:  # as transformers infers it
        array = array.transpose(1, 2, 0)
    return _to_rgb(array, torch) if rgb else array


def _rgb_of_pil(picture: Any) -> Any:
    """Return a picture of Pillow as RGB."""
    if "A" in picture.getbands() or picture.info.get("transparency") is not None:
        image, picture = sys.modules["PIL.Image"], picture.convert("RGBA")
        white = image.new("RGBA", picture.size, (255, 255, 255, 255))
        picture = image.alpha_composite(white, picture)
    return picture.convert("RGB")


def _to_rgb(array: np.ndarray, torch: bool) -> np.ndarray:
    """Return three channels: grey is repeated, and alpha is blended with white."""
    if array.shape[2] == 1:
        return np.broadcast_to(array, (*array.shape[:2], 3))
    if array.shape[2] != 4:
        return array
    if torch:
        shares = array.astype(np.float32) * np.float32(1 / 255)
        blended = shares[..., :3] * shares[..., 3:] + (np.float32(1) - shares[..., 3:])
        return (blended * np.float32(255 + 1 - 1e-3)).astype(np.uint8)
    share = array[..., 3:] / 255
    return np.round(share * array[..., :3] + (1 - share) * 255).astype(np.uint8)
