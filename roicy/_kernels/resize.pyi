"""Types of ``pyx/images/resize.pyx``."""

import numpy as np

from ..cropping.arguments import Frames
from ..cropping.filters import Taps
from ..cropping.resizing import Target

def taps_of(extent: int, low: float, high: float, count: int, filter: int, wide: bool) -> Taps: ...
def resize(
    frames: Frames, rows: np.ndarray, axis_tables: list[Taps], target: Target, out: np.ndarray,
    threads: int,
) -> None:  # fmt: skip
    ...
