"""The taps of Pillow's and PyTorch's filters, which are kept for sizes that were seen before."""

from __future__ import annotations

import functools

from .._kernels import resize as _resize

FILTERS = ("box", "bilinear", "hamming", "bicubic", "lanczos")  # as in pyx/images/filters.pxd
OF_TORCH = ("bilinear", "bicubic", "lanczos")
KEPT = 64  # axes whose taps are kept
MOST_TAPS = 1 << 16  # of an axis that is kept: half a megabyte

Taps = tuple[int, int, bool, bytes, bytes]


def taps(extent: int, low: float, high: float, count: int, filter: int, wide: bool) -> Taps:
    """Return the taps of an axis: the pixels from `low` to `high` of `extent` become `count`.

    wide: whether weights are Pillow's, and not PyTorch's.
    """
    # An output pixel spans so many pixels, and a filter is at most six of these wide.
    if 6 * max(high - low, count) > MOST_TAPS:
        return _resize.taps_of(extent, low, high, count, filter, wide)
    return _kept(extent, low, high, count, filter, wide)


_kept = functools.lru_cache(KEPT)(_resize.taps_of)
