"""How many threads a call uses."""

from __future__ import annotations

import math
import operator
import os
from pathlib import Path
from typing import SupportsIndex

from ._kernels import machine

_set: int | None = None  # by set_num_threads
_default: int | None = None  # looked up at first use
_team_started = False  # in this process or in one that it was forked from
_team_lost = False  # a fork left the team behind


def _after_fork() -> None:
    # The OpenMP runtime of GCC keeps its idle threads for the next parallel region, and waits for them for ever in a
    # child of fork, where they do not exist.  Such a child works on one thread.
    global _team_lost
    _team_lost = _team_started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def cgroup_cpus(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> float:
    """CPUs that the container may use, by the quota of the process's control group and of those above it."""
    cpus = math.inf
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return cpus
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root if not controllers else next((root / name for name in (controllers, "cpu") if (root / name).is_dir()), root)
        # inside a container the path may be that of the host, and the group be mounted at the root
        groups = [base.joinpath(*Path(path).parts[1 : i + 1]) for i in range(len(Path(path).parts))]
        for group in groups:
            try:
                if controllers:
                    quota = (group / "cpu.cfs_quota_us").read_text()
                    period = (group / "cpu.cfs_period_us").read_text()
                else:
                    quota, period = (group / "cpu.max").read_text().split()
                if quota != "max" and int(quota) > 0:
                    cpus = min(cpus, int(quota) / int(period))
            except (OSError, ValueError):
                continue
    return cpus


def _look_up() -> int:
    variable = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if variable.isdecimal() and int(variable) > 0:
        return int(variable)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(available, math.ceil(min(cgroup_cpus(), available))))


def get_num_threads() -> int:
    """
    Return the number of threads of calls that name none.

    It is what :func:`set_num_threads` set, else ``OMP_NUM_THREADS``, else the processors that the process may run on or the
    CPU quota of its container, whichever is less.  Calls with little work use one thread in any case, and so does a build
    without OpenMP.

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
    if _set is not None:
        return _set
    if _default is None:
        _default = _look_up()
    return _default


def set_num_threads(num_threads: SupportsIndex | None) -> None:
    """
    Set the number of threads of calls that name none, in all threads of this process.

    Parameters
    ----------
    num_threads : int or None
        At least 1; None returns to the default.

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
    global _set
    _set = None if num_threads is None else check(num_threads)


MOST = 1024  # scratch memory is allocated for each: a number that nobody means is an error, not an allocation


def check(num_threads: SupportsIndex) -> int:
    """Return a number of threads that a caller gave, as int."""
    try:
        count = operator.index(num_threads)
    except TypeError:
        raise TypeError(f"num_threads: {num_threads!r} is no integer") from None
    if not 1 <= count <= MOST or isinstance(num_threads, bool):
        raise ValueError(f"num_threads: {num_threads!r}, expected an integer from 1 to {MOST}")
    return count


def resolve(num_threads: SupportsIndex | None) -> int:
    """Return the number of threads that a call may use."""
    count = get_num_threads() if num_threads is None else check(num_threads)
    if _team_lost or not machine.openmp():
        return 1
    return min(count, MOST)


def starting(threads: int) -> int:
    """Note that a call is about to use threads; returns them."""
    global _team_started
    if threads > 1:
        _team_started = True
    return threads
