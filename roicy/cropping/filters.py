"""The taps of Pillow's and PyTorch's filters, which are kept for sizes that were seen before, and
colours that are multiplied by alpha before they are resized.
"""

from __future__ import annotations

import functools

import numpy as np

from .._kernels import resize as _resize

FILTERS = ("box", "bilinear", "hamming", "bicubic", "lanczos")  # as in pyx/images/filters.pxd
OF_TORCH = ("bilinear", "bicubic", "lanczos")
KEPT = 64  # axes whose taps are kept
MOST_TAPS = 1 << 16  # of an axis that is kept: half a megabyte
PIXELS_AT_ONCE = 1 << 14  # that are multiplied by alpha together

Taps = tuple[int, int, bool, object, object]  # the last ones are capsules


def taps(extent: int, low: float, high: float, count: int, filter: int, wide: bool) -> Taps:
    """Return the taps of an axis: the pixels from `low` to `high` of `extent` become `count`.

    wide: whether weights are Pillow's, and not PyTorch's.
    """
    # An output pixel spans so many pixels, and a filter is at most six of these wide.
    if 6 * max(high - low, count) > MOST_TAPS:
        return _resize.taps_of(extent, low, high, count, filter, wide)
    return _kept(extent, low, high, count, filter, wide)


_kept = functools.lru_cache(KEPT)(_resize.taps_of)


def multiplied(array: np.ndarray) -> np.ndarray:
    """Return a frame whose colours are multiplied by alpha, and rounded as Pillow does.

    A pixel is one number here, and a few rows at a time stay in the processor's cache.
    """
    result = np.empty(array.shape, np.uint8)
    if not array.size:
        return result
    wide = array.shape[3] == 4
    kind, places, colours = ("<u4", 24, 0xFF00FF) if wide else ("<u2", 8, 0xFF)
    pixels, made = array.view(kind)[..., 0], result.view(kind)[..., 0]
    rows = max(PIXELS_AT_ONCE // array.shape[2], 1)
    for image, target in zip(pixels, made, strict=True):
        for y in range(0, len(image), rows):
            some = image[y : y + rows]
            alpha = some >> places
            found = _shares(some & colours, alpha, colours)
            if wide:
                found |= _shares((some >> 8) & 0xFF, alpha, 0xFF) << 8
            np.bitwise_or(found, some & (0xFF << places), out=target[y : y + rows])
    return result


def _shares(colours: np.ndarray, alpha: np.ndarray, mask: int) -> np.ndarray:
    """Return colours times alpha / 255, in place; mask: which bytes of a number are colours."""
    colours *= alpha
    colours += mask & 0x800080
    colours += (colours >> 8) & mask
    colours >>= 8
    colours &= mask
    return colours
