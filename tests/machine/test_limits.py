"""The limits of the machine and of the container are read from files as Linux writes them."""

import math

import numpy as np
import pytest

import roicy
from roicy._machine import _limits, _memory


@pytest.fixture
def container(tmp_path):
    """Make control groups from a membership and {file: text}.  Return their root, and the file that
    says to which groups the process belongs.
    """

    def make(membership, files):
        (tmp_path / "membership").write_text(membership)
        for name, text in files.items():
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "root", tmp_path / "membership"

    return make


CPUS = [
    ("0::/a/b\n", {
        "cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n",
        "a/b/cpu.max": "400000 100000\n",
    }, 1.5),
    # At the root of a container, the path is that of the host.
    ("0::/host/path\n", {"cpu.max": "200000 100000\n"}, 2),
    # These are cgroups 1.
    ("5:memory:/x\n4:cpu,cpuacct:/x\n", {
        "cpu,cpuacct/x/cpu.cfs_quota_us": "50000\n",
        "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
        "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
    }, 0.5),
    ("4:cpu:/x\n", {
        "cpu/x/cpu.cfs_quota_us": "-1\n", "cpu/x/cpu.cfs_period_us": "100000\n",
    }, math.inf),
    ("0::/\n", {}, math.inf),
    ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
    ("0::/\n", {"cpu.max": "nonsense\n"}, math.inf),
    ("0::/\n", {"cpu.max": "100000 0\n"}, math.inf),
    ("\nnonsense\n0::/\n", {"cpu.max": "300000 100000\n"}, 3),
]  # fmt: skip
MEMORY = [
    ("0::/a\n", {"memory.max": "max\n", "a/memory.max": "1000000\n"}, 1000000),
    ("4:memory:/b\n", {
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "memory/b/memory.limit_in_bytes": "5000\n",
    }, 5000),
    ("0::/absent\n", {"memory.max": "max\n"}, math.inf),
]  # fmt: skip


@pytest.mark.parametrize(("membership", "files", "cpus"), CPUS)
def test_cpus(container, membership, files, cpus):
    assert _limits.cgroup_cpus(*container(membership, files)) == cpus


@pytest.mark.parametrize(("membership", "files", "memory"), MEMORY)
def test_memory(container, membership, files, memory):
    assert _limits.cgroup_memory(*container(membership, files)) == memory


def test_no_control_groups(tmp_path):
    assert _limits.cgroup_cpus(tmp_path, tmp_path / "absent") == math.inf
    assert _limits.cgroup_memory(tmp_path, tmp_path / "absent") == math.inf


@pytest.mark.parametrize("name", ["roi_align", "roi_pool"])
def test_a_result_larger_than_memory(name):
    x = np.ones((1, 8, 6, 6), np.float32)
    boxes = np.array([[0, 0, 0, 3, 3]], np.float32)
    message = r"the result of shape \(1, 8, 16777216, 16777216\) and dtype float32 takes "
    message += "9007199254740992 bytes, more than there are"
    with pytest.raises(MemoryError, match=message):
        getattr(roicy, name)(x, boxes, 2**24)
    with pytest.raises(MemoryError, match="the result of shape"):
        roicy.roi_align_backward(
            np.ones((0, 2**30, 1, 1), np.float32), np.empty((0, 5)), (1, 2**30, 2**12, 2**12)
        )


def test_a_result_larger_than_the_container(monkeypatch):
    """Such a result is refused, since the system would end the process when the memory is used."""
    monkeypatch.setattr(_limits, "memory", lambda: 2.0**29)
    _memory.new((2**29,), np.dtype(np.int8))
    with pytest.raises(MemoryError, match="more than there are"):
        _memory.new((2**29 + 1,), np.dtype(np.int8))
