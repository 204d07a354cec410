"""The number of threads follows settings, environment, affinity, container quota and fork."""

import math
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conftest import python

import roicy
from roicy._kernels import machine
from roicy._machine import _limits, _runtimes, _threads
from roicy.bench import timing

FEW_PROCESSORS = sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2
affinity = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="processor affinity is Linux's"
)
binding = pytest.mark.skipif(
    FEW_PROCESSORS, reason="OpenMP binds threads on Linux, to several processors"
)


@pytest.fixture(autouse=True)
def _default_again():
    yield
    roicy.set_num_threads(None)


def test_set_num_threads():
    default = roicy.get_num_threads()
    roicy.set_num_threads(np.int32(5))
    assert roicy.get_num_threads() == 5
    roicy.set_num_threads(None)
    assert roicy.get_num_threads() == default
    for bad in (0, -1, 2000):
        with pytest.raises(ValueError, match="num_threads: "):
            roicy.set_num_threads(bad)
    for bad in (True, 1.0, "2"):
        with pytest.raises(TypeError, match="num_threads: "):
            roicy.set_num_threads(bad)
    assert roicy.get_num_threads() == default


def test_omp_num_threads(monkeypatch):
    """The first number counts; what says nothing is passed over."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    default = _threads._look_up()
    expected = {"3": 3, "5,2": 5, " 4 ": 4}
    expected |= dict.fromkeys(("", "0", "-2", "many", "5,many"), default)
    for value, number in expected.items():
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert _threads._look_up() == number
    code = "import roicy; print(roicy.get_num_threads())"
    assert python(code, OMP_NUM_THREADS="3").stdout.split() == ["3"]


@affinity
@pytest.mark.parametrize("environment", [{}, {"OMP_PROC_BIND": "true"}], ids=str)
@pytest.mark.parametrize("imported", ["before", "in the thread"])
def test_a_pinned_thread_does_not_decide_for_the_process(monkeypatch, environment, imported):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    code = f"""
import os, threading
{"import roicy" if imported == "before" else ""}
def first():
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    import roicy
    print(roicy.get_num_threads())
thread = threading.Thread(target=first)
thread.start()
thread.join()
import roicy
print(roicy.get_num_threads())
"""
    assert python(code, **environment).stdout.split() == [str(_threads._look_up())] * 2


@pytest.mark.parametrize("environment", [{}, {"OMP_PROC_BIND": "true"}], ids=str)
def test_masks_that_a_sandbox_does_not_tell(monkeypatch, environment):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    code = """
import os
def forbidden(*_):
    raise PermissionError(1, "Operation not permitted")
os.sched_getaffinity = os.sched_setaffinity = forbidden
import roicy
from roicy._machine import _limits
from roicy.bench import timing
print(roicy.get_num_threads() == _limits.cpus(os.cpu_count()), timing.usable_cores() > 0)
"""
    assert python(code, **environment).stdout.split() == ["True", "True"]


# Prints the number of threads, and how many threads the pool has after large calls.  It grows while
# they compute, and its keeper tries some threads before.
LARGE_CALL = """
import os, time, numpy as np, roicy
def tasks():
    return len(os.listdir("/proc/self/task"))
before = tasks()
boxes = np.array([[0, 0, 0, 60, 60]] * 300)
counts = [before]
while len(counts) < 20 or (counts[-1] != counts[-2] and len(counts) < 100):
    roicy.roi_align(np.ones((1, 64, 60, 60), np.float32), boxes, 7)
    time.sleep(0.02)
    counts.append(tasks())
print(roicy.get_num_threads(), tasks() - before)
"""
# Each variable by itself, and other values of them.
BINDING = [
    {"OMP_PROC_BIND": "true"},
    {"OMP_PLACES": "cores"},
    {"GOMP_CPU_AFFINITY": "0-1023"},
    {"KMP_AFFINITY": "granularity=fine,compact"},
    {"OMP_PROC_BIND": "close"},
    {"OMP_PROC_BIND": "spread,close"},
    {"OMP_PLACES": "threads", "OMP_PROC_BIND": "spread"},
]


def expected_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return _threads._look_up() if machine.openmp() else 1


@binding
@pytest.mark.parametrize("environment", BINDING, ids=str)
def test_bound_threads(monkeypatch, environment):
    """The busiest helper has another processor than the first thread.

    The pool has a thread more: the one of the region that shares the place of the first thread
    does not compute.
    """
    expected = expected_threads(monkeypatch)
    code = (
        LARGE_CALL
        + """
from roicy._kernels import machine
from roicy.bench import timing
bound = machine.bound_processors() > 0
print(timing.usable_cores(), bound)
first = os.sched_getaffinity(os.getpid())
def runtime(task):
    return int(open(f"/proc/self/task/{task}/schedstat").read().split()[0])
threads = [int(task) for task in os.listdir("/proc/self/task") if int(task) != os.getpid()]
placed = [task for task in threads if len(os.sched_getaffinity(task)) == len(first)]
busiest = max(placed, key=runtime, default=None)
print(not bound or not os.sched_getaffinity(busiest) & first)
"""
    )
    count, started, cores, bound, apart = python(code, **environment).stdout.split()
    assert [count, cores, apart] == [str(expected), str(timing.usable_cores()), "True"]
    assert int(started) == expected - 1 + (bound == "True")


@binding
@pytest.mark.parametrize("environment", [{}, *BINDING[:4]], ids=str)
def test_one_thread(environment):
    """It was pinned by the user, or asked for, whether threads are bound or not."""
    pinned = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
    assert python(pinned + LARGE_CALL, **environment).stdout.split() == ["1", "0"]
    found = python(LARGE_CALL, OMP_NUM_THREADS="1", **environment)
    assert found.stdout.split() == ["1", "0"]


@binding
def test_pinned_workers_of_a_bound_process():
    """A mask that is not that of the runtime is the user's."""
    code = """
import os
all_processors = os.sched_getaffinity(0)
import roicy
if os.fork() == 0:
    os.sched_setaffinity(0, [max(all_processors)])  # the runtime takes the first
    print(roicy.get_num_threads(), flush=True)
    os._exit(0)
os.wait()
"""
    assert python(code, OMP_PROC_BIND="true").stdout.split() == ["1"]


@binding
@pytest.mark.parametrize("environment", BINDING[:3], ids=str)
def test_a_runtime_that_was_loaded_before(monkeypatch, tmp_path, environment):
    """Packages bring runtimes of their own, of which the first binds the first thread."""
    expected = expected_threads(monkeypatch)
    paths = [path for path in _runtimes.loaded() if "libgomp" in path]
    if not paths:
        pytest.skip("the build has not GCC's runtime")
    other = tmp_path / "libgomp other.so.1"  # under another name, as wheels have it
    other.write_bytes(Path(paths[0]).read_bytes().replace(b"libgomp.so.1", b"libgompX.so1"))
    code = f"import ctypes; ctypes.CDLL({str(other)!r})\n{LARGE_CALL}"
    code += "print(len(os.sched_getaffinity(0)))\n"
    found = python(code, **environment)
    assert found.stdout.split() == [str(expected), str(expected), "1"], found.stderr


def test_what_python_was_told_of_processors(monkeypatch):
    """PYTHON_CPU_COUNT and -X cpu_count, which Python 3.13 has."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(_limits, "cgroup_cpus", lambda: 4)
    default = _threads._look_up()
    for told, expected in ((1, 1), (3, 3), (9, 4), (-1, default)):
        monkeypatch.setattr(sys, "_get_cpu_count_config", lambda told=told: told, raising=False)
        assert _threads._look_up() == expected
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(sys, "_get_cpu_count_config", lambda: 1)
    assert _threads._look_up() == 2


@pytest.mark.skipif(sys.version_info < (3, 13), reason="came with Python 3.13")
def test_python_cpu_count():
    code = "import os, roicy; from roicy._machine import _limits; "
    code += "print(roicy.get_num_threads(), _limits.cpus(os.process_cpu_count()))"
    for environment in ({}, BINDING[0]):
        for told in ("1", "3"):
            found = python(code, PYTHON_CPU_COUNT=told, **environment).stdout.split()
            assert found[0] == found[1]
            assert int(found[0]) <= int(told)


def test_the_default_honours_the_quota(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    for cpus, expected in ((math.inf, 16), (2.5, 3), (0.2, 1), (64, 16)):
        monkeypatch.setattr(_limits, "cgroup_cpus", lambda cpus=cpus: cpus)
        assert _threads._look_up() == expected


@affinity
def test_set_num_threads_to_none_looks_again(monkeypatch):
    """The affinity mask or the quota of a container may have changed."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(_limits, "cgroup_cpus", lambda: math.inf)
    monkeypatch.setattr(_limits, "affinity", lambda: set(range(5)))
    roicy.set_num_threads(None)
    assert roicy.get_num_threads() == 5
    monkeypatch.setattr(_limits, "cgroup_cpus", lambda: 2.5)
    assert roicy.get_num_threads() == 5
    roicy.set_num_threads(None)
    assert roicy.get_num_threads() == 3


def test_threadpoolctl_limits_all_threads():
    """Once registered; a limit ends with its block, also where the default has changed since."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    threadpoolctl.register(roicy.ThreadpoolController)
    with ThreadPoolExecutor(1) as other:
        for limit, expected in ((1, 1), (3, 3), (64, 16)):
            roicy.set_num_threads(8)
            with threadpoolctl.threadpool_limits(limit):
                assert other.submit(_threads.resolve, 16).result() == expected
            assert other.submit(_threads.resolve, 16).result() == 16
    (found,) = [pool for pool in threadpoolctl.threadpool_info() if pool["internal_api"] == "roicy"]
    assert found["version"] == roicy.__version__


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_little_work_wakes_nobody():
    code = """
import numpy as np, roicy, os
x = np.ones((1, 16, 20, 20), np.float32)
boxes = np.array([[0, 1, 1, 9, 9]], np.float32)
before = len(os.listdir("/proc/self/task"))
roicy.roi_align(x, boxes, 7, num_threads=8)
roicy.prroi_pool_backward_boxes(np.ones((1, 16, 7, 7), np.float32), x, boxes, num_threads=8)
print(len(os.listdir("/proc/self/task")) - before)
"""
    assert python(code).stdout.split() == ["0"]
