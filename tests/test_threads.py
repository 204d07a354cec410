"""How many threads: settings, environment, affinity, container quota, fork."""

import math
import os
import sys

import numpy as np
import pytest
from conftest import random_boxes
from test_dispatch import python

import roicy
from roicy import _threads
from roicy._kernels import machine


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
    for bad, error in ((0, ValueError), (-1, ValueError), (True, ValueError), (2000, ValueError), (1.0, TypeError), ("2", TypeError)):
        with pytest.raises(error, match="num_threads: "):
            roicy.set_num_threads(bad)
        assert roicy.get_num_threads() == default


@pytest.mark.parametrize(("value", "expected"), [("3", 3), ("5,2", 5), (" 4 ", 4)])
def test_omp_num_threads(value, expected):
    assert python("import roicy; print(roicy.get_num_threads())", OMP_NUM_THREADS=value).stdout.split() == [str(expected)]


@pytest.mark.parametrize("value", ["", "0", "-2", "many"])
def test_omp_num_threads_that_says_nothing(value):
    expected = python("import roicy; print(roicy.get_num_threads())").stdout
    assert python("import roicy; print(roicy.get_num_threads())", OMP_NUM_THREADS=value).stdout == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processor affinity is Linux's")
def test_affinity():
    code = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); import roicy; print(roicy.get_num_threads())"
    assert python(code).stdout.split() == ["1"]


def quota(tmp_path, membership, files):
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return _threads.cgroup_cpus(tmp_path / "root", tmp_path / "membership")


def test_quota_of_cgroup_2(tmp_path):
    assert quota(tmp_path, "0::/a/b\n", {"cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n", "a/b/cpu.max": "400000 100000\n"}) == 1.5


def test_quota_at_the_root_of_a_container(tmp_path):
    assert quota(tmp_path, "0::/host/path\n", {"cpu.max": "200000 100000\n"}) == 2


def test_quota_of_cgroup_1(tmp_path):
    membership = "5:memory:/x\n4:cpu,cpuacct:/x\n"
    files = {"cpu,cpuacct/x/cpu.cfs_quota_us": "50000\n", "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n", "cpu,cpuacct/cpu.cfs_quota_us": "-1\n"}
    assert quota(tmp_path, membership, files) == 0.5


@pytest.mark.parametrize("files", [{}, {"cpu.max": "max 100000\n"}, {"cpu.max": "nonsense\n"}])
def test_no_quota(tmp_path, files):
    assert quota(tmp_path, "0::/\n", files) == math.inf


def test_no_cgroups(tmp_path):
    assert _threads.cgroup_cpus(tmp_path, tmp_path / "absent") == math.inf


def test_the_default_honours_the_quota(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    for cpus, expected in ((math.inf, 16), (2.5, 3), (0.2, 1), (64, 16)):
        monkeypatch.setattr(_threads, "cgroup_cpus", lambda cpus=cpus: cpus)
        assert _threads._look_up() == expected


FORK = """
import os, numpy as np, roicy
x = np.random.default_rng(0).standard_normal((2, 64, 100, 100)).astype(np.float32)
boxes = np.array([[k % 2, k % 50, k % 40, k % 50 + 30, k % 40 + 40] for k in range(500)], np.float32)
here = roicy.roi_align(x, boxes, 7, num_threads=3) if {used} else None
child = os.fork()
if child == 0:
    there = roicy.roi_align(x, boxes, 7, num_threads=3)
    os._exit(0 if here is None or (there == here).all() else 1)
_, status = os.waitpid(child, 0)
again = roicy.roi_align(x, boxes, 7, num_threads=3)
print(os.waitstatus_to_exitcode(status), here is None or bool((again == here).all()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("used", [True, False])
def test_fork(used):
    """A child does not wait for the threads that its parent had, and computes the same."""
    done = python(FORK.format(used=used))
    assert done.stdout.split() == ["0", "True"], done.stderr


def test_one_thread_without_openmp(monkeypatch, rng):
    monkeypatch.setattr(machine, "openmp", lambda: 0)
    assert _threads.resolve(8) == 1
    x = rng.standard_normal((1, 64, 60, 60)).astype(np.float32)
    boxes = random_boxes(rng, 1, 300, (60, 60), np.float32)
    np.testing.assert_array_equal(roicy.roi_align(x, boxes, 7, num_threads=8), roicy.roi_align(x, boxes, 7, num_threads=1))


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
