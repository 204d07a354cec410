"""Types of ``pyx/images/paste.pyx``."""

from typing import Any

import numpy as np

Masks = np.ndarray | tuple[Any, ...]  # or prototypes.Mixed
Rule = tuple[int, float, int]  # of masks.RULES, the threshold, and the border of a mask

def images(
    masks: Masks, places: np.ndarray, corners: np.ndarray, rule: Rule, values: int,
    out: np.ndarray, cleared: bool, threads: int,
) -> None:  # fmt: skip
    ...
def codes(
    masks: Masks, places: np.ndarray, corners: np.ndarray, rule: Rule,
    shape: tuple[int, ...], threads: int,
) -> list[bytes]:  # fmt: skip
    ...
def places(
    boxes: np.ndarray, single: bool, rule: tuple[int, int], mask_width: int, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, int, int]: ...
def form(boxes: np.ndarray, shape: tuple[int, int]) -> int: ...
