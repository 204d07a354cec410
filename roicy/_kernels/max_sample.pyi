"""Types of ``pyx/kernels/max_sample.pyx``."""

import numpy as np

from .plan import Plan

def forward(plan: Plan, out: np.ndarray, products: bool) -> None: ...
def backward(
    plan: Plan, grad_output: np.ndarray, grad_input: np.ndarray, products: bool
) -> None: ...
