"""Types of ``pyx/labels/labels.pyx``."""

from typing import Any

import numpy as np

def compute(
    maps: np.ndarray, kind: str, axes: tuple[tuple[Any, ...], ...], rule: tuple[Any, ...],
    out: np.ndarray, values: np.ndarray | None, threads: int,
) -> None:  # fmt: skip
    ...
