"""Calls give up Python's lock once at most, and small calls not at all."""

import functools
import sys
import threading
import time

import numpy as np
import pytest
from conftest import random_boxes

import roicy
from roicy._kernels import machine
from roicy.bench import workloads

SMALL = ("align_tiny", "pool_tiny")
# A call of each function and of each way through it
CALLS = [
    (name, direction)
    for name, workload in workloads.ALL.items()
    for direction in ("forward", "backward", "backward_boxes")
    if direction == "forward" or workload.has(roicy, direction)
]


def releases(call):
    """Return how often a call gives up the lock."""
    before = machine.lock_releases()
    result = call()
    count = machine.lock_releases() - before
    del result  # the memory of large results is kept, which may give up the lock
    return count


@pytest.mark.parametrize(("name", "direction"), CALLS)
def test_releases(name, direction):
    workload = workloads.ALL[name]
    arrays = workload.arrays()
    for layout in workload.layouts:
        for threads in (1, 2):
            call = workload.call(roicy, arrays, direction, layout, threads=threads)
            assert releases(call) <= (name not in SMALL)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_small_types_and_pyramids(dtype, rng):
    """Rounding to a small type is part of the call."""
    maps = [rng.standard_normal((1, 64, 100 >> i, 100 >> i)).astype(dtype) for i in range(3)]
    boxes = random_boxes(rng, 1, 200, (400, 400), np.float32)
    scales = [0.25, 0.125, 0.0625]
    assert releases(lambda: roicy.roi_align(maps[0], boxes, 7, 0.25)) == 1
    assert releases(lambda: roicy.multiscale_roi_align(maps, boxes, 7, scales)) == 1
    assert releases(lambda: roicy.multiscale_roi_align(maps, boxes[:1], 1, scales)) == 0


@pytest.mark.parametrize("size", [(16, 16), (400, 600)])
def test_labels(size, rng):
    maps = rng.standard_normal((9, 8, 8)).astype(np.float32)
    for call in (
        lambda: roicy.label_segments(maps, size, codes=True),
        lambda: roicy.resize_masks(maps, size),
        lambda: roicy.resize_masks(maps, size, format="rle"),
    ):
        assert releases(call) == (size != (16, 16))


@pytest.mark.parametrize("size", [16, 600])
def test_resized_pictures(size, rng):
    frame = rng.integers(0, 256, (size * 2, size, 3), np.uint8)
    for options in ({}, {"patch": 8}, {"dtype": "uint8", "filter": "box"}):
        call = functools.partial(roicy.resize, frame, size // 2 & ~7, **options)
        assert releases(call) == (size == 600)


def test_other_threads_go_on(rng):
    """A second thread goes on while a kernel runs.

    The interpreter never switches threads by itself here, so it can do so only because the call
    gives up the lock.
    """
    x = rng.standard_normal((1, 64, 200, 200)).astype(np.float32)
    boxes = random_boxes(rng, 1, 1000, (200, 200), np.float32)
    steps, done = [0], threading.Event()

    def step():
        while not done.is_set():
            steps[0] += 1
            time.sleep(0)  # this gives up the lock

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    other = threading.Thread(target=step)
    other.start()
    try:
        before = steps[0]
        roicy.roi_align(x, boxes, 14, num_threads=1)
        during = steps[0] - before
    finally:
        done.set()
        other.join()
        sys.setswitchinterval(interval)
    assert during > 0
