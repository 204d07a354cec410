"""Types of ``pyx/images/crop.pyx``."""

import numpy as np

from ..cropping.arguments import Frames, Options, Pixels
from ..cropping.matrices import Place

def crop(
    frames: Frames, place: Place, pixels: Pixels, options: Options, out: np.ndarray
) -> None: ...
