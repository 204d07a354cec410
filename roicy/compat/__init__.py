"""
The calls of other systems, with their names, order of arguments and defaults, on NumPy arrays.

``roicy.compat.paddle`` (fluid's layers, and ``paddle.vision.ops``), ``roicy.compat.mxnet`` and
``roicy.compat.torchvision``: what imports those imports these instead.  Each is a translation
of arguments for the operators of roicy, whose errors it raises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _arguments


def float32_scale(value: Any) -> float:
    """Return the scale as Paddle and MXNet keep it."""
    with np.errstate(over="ignore", under="ignore"):
        return _arguments.scale(np.float32(_arguments.scale(value)))
