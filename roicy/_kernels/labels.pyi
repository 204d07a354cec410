"""Types of ``pyx/labels/labels.pyx``."""

from typing import Any

import numpy as np

Maps = tuple[np.ndarray, str]
Axes = tuple[tuple[Any, ...], ...]

def compute(
    maps: Maps, axes: Axes, rule: tuple[Any, ...], outs: tuple[np.ndarray, np.ndarray | None],
    regions: tuple[int, bool] | None, threads: int,
) -> list[list[tuple[Any, ...]]] | None:  # fmt: skip
    ...
def codes(maps: Maps, axes: Axes, rule: tuple[Any, ...], threads: int) -> list[bytes]: ...
