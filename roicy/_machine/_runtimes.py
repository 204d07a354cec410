"""The OpenMP runtimes that a process has loaded, and the processors that they bind threads to.

``import roicy`` reads this file only where this thread may not run on all processors.
"""

from __future__ import annotations

import os

# By these, a runtime binds the threads of a team to processors, and the first thread of the process
# as soon as it is loaded.
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


def loaded() -> list[str]:
    """Return the paths of the runtimes, as Linux tells them."""
    try:
        with open("/proc/self/maps", "rb") as file:
            lines = file.read().splitlines()
    except OSError:  # not Linux
        return []
    mapped = {os.fsdecode(fields[5]) for line in lines if len(fields := line.split(maxsplit=5)) > 5}
    names = ("libgomp", "libomp", "libiomp")
    return sorted(path for path in mapped if path.rpartition("/")[2].startswith(names))


def places() -> list[set[int]]:
    """Return the processors of each place to which the runtimes bind threads."""
    import ctypes

    found = []
    for path in loaded():
        try:
            runtime = ctypes.CDLL(path)
            for place in range(runtime.omp_get_num_places()):
                numbers = (ctypes.c_int * runtime.omp_get_place_num_procs(place))()
                runtime.omp_get_place_proc_ids(place, numbers)
                found.append(set(numbers))
        except (AttributeError, OSError):  # older than OpenMP 4.5, or not to be opened
            continue
    return found


def unbind() -> set[int] | None:
    """Give this thread back the processors from which a runtime has taken it.

    Packages bring runtimes of their own.  One that is loaded later would find the few processors
    that the first has left to this thread, and bind its whole team to them.  Return the affinity
    mask of before, or None where nothing was done.
    """
    if not any(name in os.environ for name in BINDING):
        return None
    mask, found = os.sched_getaffinity(0), places()
    if mask not in found:
        return None
    os.sched_setaffinity(0, set().union(*found))
    return mask
