"""The arrays that results are written to, where callers give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arguments


def check_out(
    name: str, out: Any, shape: tuple[int, ...], dtypes: tuple[np.dtype, ...],
    read: tuple[np.ndarray, ...],
) -> np.ndarray:  # fmt: skip
    """Return a caller's array, if a result can be written to it; read: what the call reads."""
    out = _arguments.plain(name, out)
    check_form(name, out, shape, dtypes)
    if not out.flags.writeable:
        raise ValueError(f"{name}: read-only, expected an array that can be written to")
    _arguments.addressable(name, out)
    if not out.flags.c_contiguous:  # it costs microseconds
        distinct(name, out)
    for other in read:
        if np.may_share_memory(out, other) and _overlap(out, other):
            raise ValueError(f"{name}: overlaps memory that the call reads")
    return out


def check_form(name: str, out: Any, shape: tuple[int, ...], dtypes: tuple[np.dtype, ...]) -> None:
    """Check that an array, of NumPy or CuPy, has the shape of a result, and one of these types."""
    if out.dtype not in dtypes:
        expected = " or ".join(dtype.name for dtype in dtypes)
        raise TypeError(f"{name}: dtype {_arguments.spell(out.dtype)}, expected {expected}")
    if out.shape != shape:
        raise ValueError(f"{name}: shape {out.shape}, expected {shape}")


def distinct(name: str, out: Any) -> None:
    """Check that no two elements of an array, of NumPy or CuPy, share memory."""
    reach = 0
    for stride, extent in sorted(
        (abs(stride), extent)
        for stride, extent in zip(out.strides, out.shape, strict=True)
        if extent > 1
    ):
        if stride <= reach and out.size:
            raise ValueError(f"{name}: strides {out.strides} make its elements share memory")
        reach += stride * (extent - 1)


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10000)
    except np.exceptions.TooHardError:
        return True
