"""Memory of large results is kept for the next ones when they are deleted."""

import ctypes
import mmap
import os
import pathlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import python, to_layout

import roicy
from roicy._kernels import machine
from roicy._machine import _memory

KEEPS = machine.free_lazily(np.zeros(1 << 16, np.uint8))
pytestmark = pytest.mark.skipif(not KEEPS, reason="this system keeps nothing")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Keep blocks of a few kilobytes too, and none from earlier tests."""
    monkeypatch.setattr(_memory, "LEAST", 1 << 14)
    monkeypatch.setattr(_memory, "most", 1 << 20)
    monkeypatch.setattr(_memory, "_kept", [])


def result(boxes=100, channels=8, value=1.0, **options):
    """Return a result of about boxes * channels * 196 bytes."""
    x = np.full((1, channels, 9, 9), value, np.float32)
    out = roicy.roi_align(x, np.array([[0, 1, 1, 7, 7]] * boxes, np.float32), 7, **options)
    assert (out == value).all()
    return out


def address(array):
    return array.__array_interface__["data"][0]


def test_the_next_result_has_the_memory_of_one_that_is_gone():
    first = result()
    assert first.flags.carray
    where = address(first)
    view = first[3:, ::2].transpose(0, 2, 3, 1)
    del first
    other = result(value=2.0)
    assert address(other) != where
    assert (view == 1.0).all()
    del view
    assert address(result(boxes=60, value=3.0)) == where
    assert address(result(value=4.0)) == where


def test_debug_builds_forget_what_a_kept_block_held(monkeypatch):
    monkeypatch.setattr(_memory, "poisons", True)
    where = address(result())
    block = _memory.new((100, 8, 7, 7), np.dtype(np.float32))
    assert address(block) == where
    assert np.isnan(block).all()


def test_a_block_of_twice_the_size_is_not_taken():
    where = address(result())
    assert address(result(boxes=49)) != where


def test_small_results_own_their_memory():
    assert result(boxes=4).flags.owndata
    assert not _memory._kept


@pytest.mark.parametrize("least", [1 << 14, 1 << 30])
def test_large_results_begin_on_a_cache_line(monkeypatch, least):
    monkeypatch.setattr(_memory, "LEAST", least)
    monkeypatch.setattr(_memory, "ON_LINES", 1 << 14)
    results = [result(boxes=boxes) for boxes in (60, 70, 80)]
    grad, box = np.ones((1, 7, 7, 16), np.float32), np.array([[0, 1, 1, 7, 7]], np.float32)
    for _ in range(3):
        shape = (1, 41, 41, 16)
        results.append(roicy.roi_align_backward(grad, box, shape, layout="NHWC"))
        # the sum has 784 numbers of float32
        np.testing.assert_allclose(results[-1].sum(), 49 * 16, rtol=1e-5)
    x = np.ones((1, 16, 9, 9), np.float32)
    results += roicy.roi_pool(x, np.repeat(box, 20, axis=0), 7, return_argmax=True)
    assert [address(out) % 64 for out in results] == [0] * 8


def test_no_more_is_kept_than_was_asked_for(monkeypatch):
    monkeypatch.setattr(_memory, "most", 300_000)
    alive = [result(boxes=boxes) for boxes in (60, 80, 100)]
    sizes = [out.nbytes for out in alive]
    assert sum(sizes[1:]) <= 300_000 < sum(sizes)
    while alive:
        del alive[0]
    assert [block.nbytes for block in _memory._kept] == sizes[1:]
    result(boxes=300)  # this result alone is larger than what may be kept
    assert [block.nbytes for block in _memory._kept] == sizes[1:]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
# In NHWC these are summed one by one, together, or some of them in a tile.
@pytest.mark.parametrize("channels", [32, 64, 72])
def test_gradients_in_memory_that_is_not_zero(rng, layout, channels):
    """Gradients of pixels that no box reads, and of images without boxes, are zero."""
    boxes = np.array([[1, 1, 1, 7, 7], [1, 3, 2, 20, 20]], np.float32)
    grad = to_layout(rng.standard_normal((2, channels, 3, 3)).astype(np.float32), layout)
    shape = (3, channels, 28, 28) if layout == "NCHW" else (3, 28, 28, channels)
    first = roicy.roi_align_backward(grad, boxes, shape, layout=layout)
    expected, where = first.copy(), address(first)
    first[...] = np.nan
    del first
    second = roicy.roi_align_backward(grad, boxes, shape, layout=layout)
    assert address(second) == where
    np.testing.assert_array_equal(second, expected)
    assert not (second[0].any() or second[2].any())


def test_nobody_waits():
    """A result may be deleted while the lock is held, and must not wait for it."""
    first = result()
    where = address(first)
    with _memory._lock:
        del first
        assert not _memory._kept
        second = result(value=2.0)
    del second
    with _memory._lock:
        assert len(_memory._kept) == 1
        assert address(result(value=3.0)) not in (where, address(_memory._kept[0]))


def test_threads():
    def work(seed):
        held = []
        for i, boxes in enumerate(np.random.default_rng(seed).integers(20, 200, 100)):
            held.append((result(int(boxes), value=seed + i, num_threads=1), seed + i))
            if len(held) > 3:
                out, value = held.pop(0)
                assert (out == value).all()

    with ThreadPoolExecutor(6) as pool:
        assert not any(pool.map(work, range(0, 6000, 1000)))
    assert sum(block.nbytes for block in _memory._kept) <= _memory.most


def held(block):
    """Return the bytes of a block that are resident and that the system may not take."""
    start, stop = address(block), address(block) + block.nbytes
    total, inside = 0, False
    for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            low, high = (int(end, 16) for end in name.split("-"))
            inside = low < stop and high > start
        elif inside and name in ("Rss:", "LazyFree:"):
            total += int(rest.split()[0]) * (1024 if name == "Rss:" else -1024)
    return total


@pytest.mark.skipif(
    not pathlib.Path("/proc/self/smaps").exists(),
    reason="the system does not say which pages are free",
)
def test_the_system_may_take_what_is_kept():
    """The system may take the pages of kept blocks, and may already have done so."""

    def freed(free):
        block = np.ones(1 << 25, np.uint8)
        before = held(block)
        assert free(block)
        return (before - held(block)) / block.nbytes

    def by_the_book(block):
        page = -(-address(block) // mmap.PAGESIZE) * mmap.PAGESIZE
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        return madvise(page, block.nbytes - 2 * mmap.PAGESIZE, mmap.MADV_FREE) == 0

    if freed(by_the_book) < 0.9:
        pytest.skip("this system does not count them")
    assert freed(machine.free_lazily) > 0.9


LARGE = """
import os, sys, numpy as np, roicy
from roicy._machine import _memory
boxes = np.array([[0, 1, 1, 7, 7]] * 800, np.float32)
out = roicy.roi_align(np.ones((1, 256, 9, 9), np.float32), boxes, 7)
"""


def test_the_limit_is_set_by_the_environment():
    show = LARGE + "del out; print([block.nbytes for block in _memory._kept])"
    for most, kept in (("", [40140800]), ("40140800", [40140800]), ("40140799", []), ("0", [])):
        environment = {"ROICY_KEEP_BYTES": most} if most else {}
        assert python(show, **environment).stdout.split() == [str(kept)]
    expected = "ImportError: ROICY_KEEP_BYTES='1 GB': expected a number of bytes"
    assert expected in python("import roicy", ROICY_KEEP_BYTES="1 GB").stderr


def test_results_that_outlive_the_interpreter():
    code = "import builtins; builtins.kept = np.kept = out; cycle = [out]; cycle.append(cycle)"
    done = python(LARGE + code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_children_of_fork_begin_with_nothing():
    code = """
del out
_memory._lock.acquire()
child = os.fork()
if child == 0:
    print(len(_memory._kept), _memory._lock.locked(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
_memory._lock.release()
print(len(_memory._kept))
"""
    assert python(LARGE + code).stdout.split() == ["0", "False", "1"]
