"""The number of threads follows settings, environment, affinity, container quota and fork."""

import math
import os
import sys

import numpy as np
import pytest
from conftest import random_boxes
from test_dispatch import python

import roicy
from roicy import _limits, _threads
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
    for bad, error in (
        (0, ValueError),
        (-1, ValueError),
        (True, TypeError),
        (2000, ValueError),
        (1.0, TypeError),
        ("2", TypeError),
    ):
        with pytest.raises(error, match="num_threads: "):
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


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processor affinity is Linux's")
def test_affinity():
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); "
        "import roicy; print(roicy.get_num_threads())"
    )
    assert python(code).stdout.split() == ["1"]


def test_the_default_honours_the_quota(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    for cpus, expected in ((math.inf, 16), (2.5, 3), (0.2, 1), (64, 16)):
        monkeypatch.setattr(_limits, "cgroup_cpus", lambda cpus=cpus: cpus)
        assert _threads._look_up() == expected


def test_one_thread_without_openmp(monkeypatch, rng):
    monkeypatch.setattr(machine, "most_threads", lambda: 1)
    assert _threads.resolve(8) == 1
    x = rng.standard_normal((1, 64, 60, 60)).astype(np.float32)
    boxes = random_boxes(rng, 1, 300, (60, 60), np.float32)
    np.testing.assert_array_equal(
        roicy.roi_align(x, boxes, 7, num_threads=8), roicy.roi_align(x, boxes, 7, num_threads=1)
    )


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
