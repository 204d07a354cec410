"""Types of ``pyx/interface/cython_api.pyx``; cython_api.pxd has the functions for Cython."""

from typing import Any

__pyx_capi__: dict[str, Any]
ROI_ALIGN: int
ROI_ALIGN_BACKWARD: int
ROI_ALIGN_BACKWARD_BOXES: int
PS_ROI_ALIGN: int
PS_ROI_ALIGN_BACKWARD: int
PS_ROI_ALIGN_BACKWARD_BOXES: int
PRROI_POOL: int
PRROI_POOL_BACKWARD: int
PRROI_POOL_BACKWARD_BOXES: int
ROI_POOL: int
ROI_POOL_BACKWARD: int

def last_error() -> str: ...
