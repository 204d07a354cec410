"""Types of ``pyx/kernels/forward.pyx``."""

import numpy as np

from .plan import Plan

def forward(plan: Plan, out: np.ndarray) -> None: ...
