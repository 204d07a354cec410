"""How many threads a call uses."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, SupportsIndex

from .._checks import _arguments
from .._checks import _names as t
from .._kernels import machine
from . import _limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST = machine.MOST_THREADS


def renew_after_fork(module: dict[str, Any], **make: Callable[[], Any]) -> None:
    """Set names of a module anew in each child of a fork, where nobody would release its locks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            after_in_child=lambda: module.update({name: make[name]() for name in make})
        )


# These are written under the lock, and read without it, since each is one reference.
_lock = threading.Lock()
_set: int | None = None  # what set_num_threads set
_default: int | None = None  # looked up at first use
# A child may have other processors.
renew_after_fork(globals(), _lock=threading.Lock, _default=lambda: None)

# The affinity mask of the process once the OpenMP runtime was loaded, if this binds threads.
_bound = _limits.affinity() if machine.bound_processors() else None


def _processors() -> int:
    """Return how many processors this process may run on.

    What Python was told counts first (``PYTHON_CPU_COUNT``, ``-X cpu_count``).  Where the OpenMP
    runtime has bound the first thread to a few processors, those that it found before count.
    """
    told: int = getattr(sys, "_get_cpu_count_config", int)()  # since Python 3.13
    if told > 0:
        return told
    mask = _limits.affinity()
    if mask == _bound:  # unless another thread was bound, which may have had fewer of its own
        return max(machine.bound_processors(), len(mask))
    return len(mask) or os.cpu_count() or 1


def _look_up() -> int:
    machine.look_at_processors()
    return min(_limits.omp_num_threads() or _limits.cpus(_processors()), MOST)


def get_num_threads() -> int:
    """Return the number of threads of calls that name none.

    It is the number that :func:`set_num_threads` set, or else ``OMP_NUM_THREADS``.  Without
    either it is the number of processors that the process may run on, or the CPU quota of its
    container if that is less.  It is looked up at first use, in each process, and again after
    ``set_num_threads(None)``.

    The processors are those of the affinity mask of the process, as it was before OpenMP bound
    threads (``OMP_PROC_BIND``, ``OMP_PLACES``), or as many as Python 3.13 and newer are told by
    ``PYTHON_CPU_COUNT``.  Masks of other threads than the first do not count: a pinned thread
    passes `num_threads`.

    Calls with little work use one thread.  No call uses more threads than threadpoolctl allows
    the calling thread, or all threads once `roicy.ThreadpoolController` is registered.

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> import roicy
    >>> roicy.get_num_threads() >= 1
    True
    """
    global _default
    count = _set if _set is not None else _default
    if count is None:
        with _lock:
            count = _default = _look_up()
    return count


def set_num_threads(num_threads: t.Threads) -> None:
    """Set the number of threads of calls that name none, in all threads of this process.

    Parameters
    ----------
    num_threads : int or None
        At least 1; None returns to the default, and looks at processors and quota again.

    Raises
    ------
    TypeError, ValueError
        If `num_threads` is no integer, or less than 1.

    Examples
    --------
    >>> import roicy
    >>> roicy.set_num_threads(2)
    >>> roicy.get_num_threads()
    2
    >>> roicy.set_num_threads(None)
    """
    global _set, _default
    count = None if num_threads is None else check(num_threads)
    with _lock:
        _set, _default = count, None


def check(num_threads: SupportsIndex) -> int:
    """Return a number of threads that a caller gave, as int."""
    return _arguments.integer("num_threads", num_threads, 1, MOST)


def resolve(num_threads: SupportsIndex | None) -> int:
    """Return the number of threads that a call may use."""
    count = get_num_threads() if num_threads is None else check(num_threads)
    return min(count, machine.most_threads())
