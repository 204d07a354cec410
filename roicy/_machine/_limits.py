"""The processors and the memory that the machine and the container leave to this process."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

# Paths are plain strings, since pathlib takes a third of the time that roicy takes to import.
ROOT = "/sys/fs/cgroup"
MEMBERSHIP = "/proc/self/cgroup"


def omp_num_threads() -> int | None:
    """Return how many threads ``OMP_NUM_THREADS`` asks for at the outermost level, or None."""
    levels = [level.strip() for level in os.environ.get("OMP_NUM_THREADS", "").split(",")]
    if all(level.isascii() and level.isdecimal() and int(level) > 0 for level in levels):
        return int(levels[0])
    return None


def _read(*path: str) -> str:
    try:
        with open(os.path.join(*path), "rb") as file:
            return os.fsdecode(file.read())
    except OSError:
        return ""


def _numbers(*path: str) -> list[int]:
    try:
        return [int(word) for word in _read(*path).split()]
    except ValueError:  # there is no limit, which it calls "max"
        return []


def _groups(controller: str, root: str, membership: str) -> Iterator[tuple[str, bool]]:
    """Yield (folder, whether it is of cgroups 2) of the process's control group and its parents."""
    for line in _read(membership).splitlines():
        _, separator, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not separator or (controllers and controller not in controllers.split(",")):
            continue
        base = root
        if controllers:
            folders = [os.path.join(root, controllers), os.path.join(root, controller)]
            base = next(filter(os.path.isdir, folders), root)
        # Inside a container, the path may be that of the host while the group is mounted at the
        # root.
        parts = [part for part in path.split("/") if part]
        for i in range(len(parts) + 1):
            yield os.path.join(base, *parts[:i]), not controllers


def cgroup_cpus(root: str = ROOT, membership: str = MEMBERSHIP) -> float:
    """Return how many CPUs the quota of the container allows; infinity if it has none."""
    cpus = math.inf
    for group, unified in _groups("cpu", root, membership):
        if unified:
            quota = _numbers(group, "cpu.max")
        else:
            quota = _numbers(group, "cpu.cfs_quota_us") + _numbers(group, "cpu.cfs_period_us")
        if len(quota) == 2 and min(quota) > 0:
            cpus = min(cpus, quota[0] / quota[1])
    return cpus


def cgroup_memory(root: str = ROOT, membership: str = MEMBERSHIP) -> float:
    """Return how many bytes the container may use; infinity if it has no limit."""
    limits = (
        _numbers(group, "memory.max" if unified else "memory.limit_in_bytes")
        for group, unified in _groups("memory", root, membership)
    )
    return min((limit[0] for limit in limits if limit), default=math.inf)


def affinity() -> set[int]:
    """Return the processors that the process may run on; none if the system does not tell.

    They are those of its first thread: other threads may have been pinned to some of them.
    """
    try:
        return os.sched_getaffinity(os.getpid())
    except (AttributeError, OSError):  # not Linux, or a sandbox that forbids it
        return set()


def cpus(available: int) -> int:
    """Return so many processors, or the CPU quota of the container if that is less."""
    return max(1, math.ceil(min(cgroup_cpus(), available)))


def memory() -> float:
    """Return the bytes of memory of the machine or the container; infinity if unknown."""
    try:
        physical: float = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        physical = math.inf
    return min(physical if physical > 0 else math.inf, cgroup_memory())
