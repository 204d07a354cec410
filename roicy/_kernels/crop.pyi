"""Types of ``pyx/images/crop.pyx``."""

import numpy as np

from ..cropping.arguments import Frames, Options, Pixels
from ..cropping.filters import Taps
from ..cropping.matrices import Place
from ..cropping.resizing import Target

def crop(
    frames: Frames, place: Place, pixels: Pixels, options: Options, out: np.ndarray
) -> None: ...
def taps_of(extent: int, low: float, high: float, count: int, filter: int, wide: bool) -> Taps: ...
def resize(
    frames: Frames,
    rows: np.ndarray,
    axis_tables: list[Taps],
    target: Target,
    out: np.ndarray,
    threads: int,
) -> None: ...
