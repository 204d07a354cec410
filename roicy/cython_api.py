"""The operators for Cython and Numba: docs/cython.md.

``cython_api.pxd`` has the functions for Cython.  Numba finds those of plain C in ``__pyx_capi__``,
and here the numbers of the operations.
"""

from ._kernels.requests import (
    PRROI_POOL,
    PRROI_POOL_BACKWARD,
    PRROI_POOL_BACKWARD_BOXES,
    PS_ROI_ALIGN,
    PS_ROI_ALIGN_BACKWARD,
    PS_ROI_ALIGN_BACKWARD_BOXES,
    ROI_ALIGN,
    ROI_ALIGN_BACKWARD,
    ROI_ALIGN_BACKWARD_BOXES,
    ROI_POOL,
    ROI_POOL_BACKWARD,
    __pyx_capi__,
    last_error,
)

__all__ = [
    "PRROI_POOL",
    "PRROI_POOL_BACKWARD",
    "PRROI_POOL_BACKWARD_BOXES",
    "PS_ROI_ALIGN",
    "PS_ROI_ALIGN_BACKWARD",
    "PS_ROI_ALIGN_BACKWARD_BOXES",
    "ROI_ALIGN",
    "ROI_ALIGN_BACKWARD",
    "ROI_ALIGN_BACKWARD_BOXES",
    "ROI_POOL",
    "ROI_POOL_BACKWARD",
    "__pyx_capi__",
    "last_error",
]
