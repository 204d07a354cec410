"""Types of ``pyx/labels/labels.pyx``."""

from typing import Any

import numpy as np

from ..labels import Axes, Coded, Maps, Rule

def compute(
    maps: Maps, axes: Axes, rule: Rule, outs: tuple[np.ndarray, np.ndarray | None],
    regions: tuple[int, bool] | None, threads: int,
) -> list[list[tuple[Any, ...]]] | None:  # fmt: skip
    ...
def paint(maps: Maps, axes: Axes, rule: Rule, out: np.ndarray, threads: int) -> None: ...
def codes(maps: Maps, axes: Axes, rule: Rule, with_sums: bool, threads: int) -> list[Coded]: ...
def stored_codes(masks: np.ndarray, threads: int) -> list[Coded]: ...
