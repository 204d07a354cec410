"""
torchvision's ``roi_pool``, ``roi_align``, ``ps_roi_align`` and ``ps_roi_pool`` on NumPy arrays: they are those of roicy.

(For tensors there is :mod:`roicy.torch`.)
"""

from __future__ import annotations

from ..operators import ps_roi_align, ps_roi_pool, roi_align, roi_pool

__all__ = ["ps_roi_align", "ps_roi_pool", "roi_align", "roi_pool"]
