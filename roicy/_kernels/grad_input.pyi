"""Types of ``pyx/kernels/grad_input.pyx``."""

import numpy as np

from .plan import Plan

def grad_input(plan: Plan, grad_output: np.ndarray) -> None: ...
