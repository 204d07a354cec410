"""Memory of large results begins on a cache line, and is kept for later results.

NumPy's large arrays begin 16 bytes past a cache line.  If the kernels write to such an array,
each run fills the lines at its ends only partly, and these lines have to be read first (R041 in
docs/records.md).

The system provides the pages of a large block when they are first written, and takes them back
when the result is deleted.  This is slow on virtual machines.  So the blocks of deleted results
are kept and marked as free, and the system may take their pages whenever it lacks memory
(MADV_FREE of Linux).  On other systems nothing is kept.

At most ``ROICY_KEEP_BYTES`` are kept in all.  The default is 512 MB, and 0 switches this off.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .._checks import _results
from .._kernels import machine
from . import _limits, _threads

LEAST = 1 << 25  # bytes: smaller blocks are not kept here, since glibc keeps them itself (R289)
LINE = 64  # bytes
LARGE = 1 << 28  # bytes of a result; below, nobody asks how much memory there is
ON_LINES = 1 << 20  # bytes; results of this size and more begin on a line (R041, R042)


def _most() -> int:
    wanted = os.environ.get("ROICY_KEEP_BYTES", "").strip()
    if wanted and not wanted.isdecimal():
        raise ImportError(f"ROICY_KEEP_BYTES={wanted!r}: expected a number of bytes")
    return int(wanted) if wanted else 1 << 29  # R290


most = _most()
poisons = machine.is_debug()  # kept blocks: what is read of them before it is written is NaN
# The kept arrays of bytes, the oldest first.  A result may be deleted in any thread and at any
# point of a program, even in the middle of `_take`.  So no function waits for the lock: if it does
# not get the lock, it does without a kept block.
_kept: list[np.ndarray] = []
_lock = threading.Lock()
_threads.renew_after_fork(globals(), _lock=threading.Lock, _kept=list)  # the parent's are copies


def _keep(block: np.ndarray, free: Callable[[np.ndarray], bool] = machine.free_lazily) -> None:
    if _lock is None or not _lock.acquire(blocking=False):  # None when the interpreter ends
        return
    try:
        if block.nbytes <= most and free(block):
            _kept.append(block)
            while sum(kept.nbytes for kept in _kept) > most:
                del _kept[0]
    finally:
        _lock.release()


class _Loan:
    """The base of a result: deleted after all views of the result, it keeps the block."""

    __slots__ = ("__array_interface__", "block")

    def __init__(self, block: np.ndarray, size: int):
        self.block = block
        self.__array_interface__ = block[:size].__array_interface__

    def __del__(self, keep: Callable[[np.ndarray], None] = _keep) -> None:
        keep(self.block)


def _take(size: int) -> np.ndarray | None:
    """Return the smallest kept block of at least that size, but no more than twice of it."""
    if not _kept or not _lock.acquire(blocking=False):
        return None
    try:
        fitting = [
            (block.nbytes, i) for i, block in enumerate(_kept) if size <= block.nbytes <= 2 * size
        ]
        return _kept.pop(min(fitting)[1]) if fitting else None
    finally:
        _lock.release()


def _on_lines(size: int) -> np.ndarray:
    block = np.empty(size + LINE, np.uint8)
    start = -block.__array_interface__["data"][0] % LINE
    return block[start : start + size]


def is_lacking(size: int) -> bool:
    """Whether a machine has fewer bytes than that: systems promise more than they have, and end the
    process that uses it.
    """
    return size > LARGE and size > _limits.memory()


def new(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return a new array, if the machine has the memory."""
    size = math.prod(shape) * dtype.itemsize
    try:
        if is_lacking(size):
            raise MemoryError
        if not LEAST <= size <= most:
            if size < ON_LINES:
                return np.empty(shape, dtype)
            return _on_lines(size).view(dtype).reshape(shape)
        block = _take(size)
        if block is None:
            block = _on_lines(size)
        elif poisons:
            block.fill(255)
    except (ValueError, MemoryError):
        raise MemoryError(
            f"the result of shape {shape} and dtype {dtype.name} takes {size} bytes, "
            "more than there are"
        ) from None
    # The array is made of bytes and then viewed, since __array_interface__ cannot express bfloat16.
    return np.asarray(_Loan(block, size)).view(dtype).reshape(shape)


def result(
    out: Any, shape: tuple[int, ...], dtypes: tuple[np.dtype, ...], read: tuple[np.ndarray, ...],
    name: str = "out",
) -> np.ndarray:  # fmt: skip
    """Return the array to write to: `out`, or a new one of the first of `dtypes`."""
    if out is None:
        return new(shape, dtypes[0])
    return _results.check_out(name, out, shape, dtypes, read)
