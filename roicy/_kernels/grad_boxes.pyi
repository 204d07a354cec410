"""Types of ``pyx/kernels/grad_boxes.pyx``."""

import numpy as np

from .plan import Plan

def grad_boxes(plan: Plan, grad_output: np.ndarray, sums: np.ndarray) -> None: ...
