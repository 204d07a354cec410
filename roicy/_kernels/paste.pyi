"""Types of ``pyx/images/paste.pyx``."""

import numpy as np

Rule = tuple[int, float]  # of masks.RULES, and the threshold

def images(
    masks: np.ndarray, places: np.ndarray, corners: np.ndarray, rule: Rule, values: int,
    out: np.ndarray, cleared: bool, threads: int,
) -> None:  # fmt: skip
    ...
def codes(
    masks: np.ndarray, places: np.ndarray, corners: np.ndarray, rule: Rule,
    shape: tuple[int, ...], threads: int,
) -> list[bytes]:  # fmt: skip
    ...
