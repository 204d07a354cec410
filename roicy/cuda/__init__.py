"""
The operators on CuPy arrays.

``roicy.roi_align`` and the others take arrays of CuPy as they take those of NumPy, with the
same parameters and meaning; the names here are those functions.  Work is queued on the current
stream, and nothing waits for it: arguments are checked by shape and dtype, but what lies on the
device is not looked at.  So what is an error of values on the CPU has a defined outcome here: a
box whose corners are not numbers, or whose batch index is not that of an image, reads nothing,
and its output, its gradient and what it gives to the input's are 0; `argmax` that points
nowhere gives nothing. Results have the same bits from run to run.

float32 and float64 only.
"""

from __future__ import annotations

from typing import Any

from ._launch import cupy


def __getattr__(name: str) -> Any:
    """Return the public function of that name, if CuPy is there for it to work with."""
    import roicy

    if "roi" not in name or name not in roicy.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    cupy()
    return getattr(roicy, name)
