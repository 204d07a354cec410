"""Types of ``pyx/attention/attention.pyx``."""

from collections.abc import Sequence
from typing import Any

import numpy as np

def compute(
    given: tuple[Any, ...], grad: np.ndarray | None, outs: Sequence[np.ndarray | None], threads: int
) -> None: ...
