"""Calls that lack memory or threads raise MemoryError, or compute with what there is."""

import os
import shutil
import sys
from pathlib import Path

import failing_memory
import pytest
from conftest import python

from roicy._kernels import machine

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which(os.environ.get("CC", "cc")),
    reason="the allocator is preloaded, and compiled first",
)
UNDER_LIMITS = """
import os, resource, threading
import numpy as np
import roicy

x = np.ones((1, 64, 400, 400), np.float32)
boxes = np.array([[0, 3, 3, 250, 150]] * 50, np.float32)
expected = roicy.roi_align(x, boxes, 7, num_threads=1)
ends = []

def work():
    for threads in (1, 2, 8):
        try:
            result = roicy.roi_align(x, boxes, 7, num_threads=threads)
            ends.append("right" if result.tobytes() == expected.tobytes() else "wrong")
            del result
            roicy.roi_align_backward_boxes(expected, x, boxes, num_threads=threads)
        except MemoryError:
            ends.append("no memory")

started = [threading.Thread(target=work) for _ in range(6)]
used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
before = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + int(ROOM * 2**20), before[1]))
for thread in started:
    try:
        thread.start()
    except RuntimeError:
        ends.append("no memory")
for thread in started:
    if thread.ident:
        thread.join()
resource.setrlimit(resource.RLIMIT_AS, before)
assert roicy.roi_align(x, boxes, 7, num_threads=1).tobytes() == expected.tobytes()
print(*sorted(set(ends)))
"""


def test_each_allocation_fails():
    done = failing_memory.start("compiled")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


@pytest.mark.skipif(not machine.openmp(), reason="this build has no threads")
def test_threads_that_cannot_be_started():
    done = failing_memory.start("threads")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="sanitizers reserve more than that")
@pytest.mark.parametrize(
    "room", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (0.5, 20, 60))]
)
def test_a_limit_of_memory(room):
    """Under `ulimit -v`, large maps and many threads: right results or MemoryError."""
    folder = str(Path(failing_memory.roicy.__file__).parents[1])
    code = UNDER_LIMITS.replace("ROOM", str(room))
    done = python(code, PYTHONPATH=folder, MALLOC_ARENA_MAX="2")
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= {"right", "no", "memory"}
