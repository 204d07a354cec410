"""Types of ``pyx/labels/labels.pyx``."""

from typing import Any

import numpy as np

def compute(
    maps: np.ndarray, kind: str, axes: tuple[tuple[Any, ...], ...], rule: tuple[Any, ...],
    outs: tuple[np.ndarray, np.ndarray | None], regions: tuple[int, bool] | None, threads: int,
) -> list[list[tuple[Any, ...]]] | None:  # fmt: skip
    ...
