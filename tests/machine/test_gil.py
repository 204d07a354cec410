"""Calls give up Python's lock once, long ones more often, and small ones not at all."""

import functools
import sys
import threading
import time

import numpy as np
import pytest
from conftest import random_boxes

import roicy
from roicy._checks import _boxes
from roicy._kernels import machine
from roicy.bench import workloads


def releases(call):
    """Return how often a call gives up the lock."""
    before = machine.lock_releases()
    result = call()
    count = machine.lock_releases() - before
    del result  # the memory of large results is kept, which may give up the lock
    return count


def with_few_channels(workload):
    """Return a workload with as many boxes, and maps that are soon made."""
    if not isinstance(workload, workloads.Workload) or workload.operator.startswith("ps_"):
        return workload
    images, channels, *extents = workload.shape
    return workload._replace(shape=(images, min(channels, 64), *extents))


@pytest.mark.parametrize("name", workloads.ALL)
def test_releases(name):
    """Each function does so, by each way through it."""
    workload = with_few_channels(workloads.ALL[name])
    arrays = workload.arrays()
    for direction in ("forward", "backward", "backward_boxes"):
        if direction != "forward" and not workload.has(roicy, direction):
            continue
        for threads, layout in enumerate(workload.layouts, 1):
            call = workload.call(roicy, arrays, direction, layout, threads=threads)
            assert releases(call) <= ("tiny" not in name)


@pytest.mark.parametrize("large", [False, True])
def test_small_calls_keep_it(large, rng):
    """Rounding to a small type is part of the call."""
    size, bins = ((400, 600), 7) if large else ((16, 16), 1)
    boxes = random_boxes(rng, 1, 200, (400, 400), np.float32)[: 200 if large else 1]
    frame = rng.integers(0, 256, (2 * size[1], size[1], 3), np.uint8)
    scores = rng.standard_normal((9, 8, 8)).astype(np.float32)
    calls = [
        functools.partial(roicy.label_segments, scores, size, codes=True),
        functools.partial(roicy.resize_masks, scores, size),
        functools.partial(roicy.resize_masks, scores, size, format="rle"),
    ]
    for options in ({}, {"patch": 8}, {"dtype": "uint8", "filter": "box"}):
        calls.append(functools.partial(roicy.resize, frame, size[1] // 2 & ~7, **options))
    for kind in ("float16", "float32", "float64"):
        maps = [rng.standard_normal((1, 64, 100 >> i, 100 >> i)).astype(kind) for i in range(3)]
        scales = [0.25, 0.125, 0.0625]
        calls.append(functools.partial(roicy.roi_align, maps[0], boxes, bins, 0.25))
        calls.append(functools.partial(roicy.multiscale_roi_align, maps, boxes, bins, scales))
    for call in calls:
        assert releases(call) == large, call.func


def hidden_work():
    """Return calls that take a millisecond or more, which the area of boxes and results hides."""
    wide, length = np.broadcast_to(np.float32(1), (1, 8, 1, 1 << 17)), 1 << 17
    thin = [[0, 0, 0, length, 1e-9]] * 4
    grad, one = np.ones((4, 8, 1, 1), np.float32), np.ones((1, 1, 1), np.float32)
    frame, value = np.zeros((1, length, 3), np.uint8), np.ones((1, length, 1, 8), np.float32)
    at = np.zeros((1, 1, 1, 1, 1, 2), np.float32), np.zeros((1, 1, 1, 1, 1), np.float32)
    picture, tiny = np.zeros((32, 32, 3), np.uint8), np.zeros((3000, 1, 1), np.float32)
    few, turned = wide[..., :9], [[0, 4, 4, 2e6, 1e-3, 0.5]]
    return {
        "crop": lambda: roicy.crop(frame, thin, 1),
        "crop of columns": lambda: roicy.crop(frame.reshape(-1, 1, 3), [[0, 0, 0, 1, length]], 1),
        "roi_align": lambda: roicy.roi_align(wide, thin, 1),
        "roi_pool": lambda: roicy.roi_pool(wide, thin, 1),
        "prroi_pool": lambda: roicy.prroi_pool(wide, thin, 1),
        "roi_align_max": lambda: roicy.roi_align_max(wide, thin, 1),
        "levels": lambda: roicy.multiscale_roi_align([wide, few], thin, 1, [1, 0.5]),
        "turned boxes": lambda: roicy.roi_align_rotated(few, turned, 1, sampling_ratio=300),
        "gradient": lambda: roicy.roi_align_backward(grad, thin, wide.shape),
        "gradient of boxes": lambda: roicy.prroi_pool_backward_boxes(grad, wide, thin),
        "images": lambda: roicy.roi_align(
            np.broadcast_to(few, (100000, *few.shape[1:])), [[0, 0, 0, 1, 1]], 1),
        "attention": lambda: roicy.deformable_attention_backward(
            value[:, 0], value, [(1, length)], *at),
        "enlarged twice": lambda: roicy.resize_masks(one, (40, 40), via=(30000, 30000)),
        "classes": lambda: roicy.label_map(np.broadcast_to(one, (30000, 1, 1)), (9, 9)),
        "padding": lambda: roicy.resize(picture, (800, 800), content=(0, 0, 9, 9)),
        "patches that are repeated": lambda: roicy.resize(picture, 32, patch=16, repeat=500),
        "masks that are painted": lambda: roicy.paint_masks(tiny, (2, 2)),
        "copied masks": lambda: roicy.paste_masks(
            np.ones((1, 2000, 1000), np.float32)[:, ::2], [[0, 0, 4, 4]], (8, 8)),
    }  # fmt: skip


@pytest.mark.parametrize("name", hidden_work())
def test_hidden_work_is_seen(name):
    assert releases(hidden_work()[name]) >= 1


def work_beside_calls():
    """Return calls that take some milliseconds before the kernels compute, or after them."""
    few, tiny = np.ones((1, 1, 1, 1), np.float32), np.ones((20, 1, 4, 4), np.float32)
    masks, boxes = np.broadcast_to(few[0], (50000, 1, 1)), np.tile([0.0, 0, 1, 1], (50000, 1))
    maps = np.broadcast_to(few, (100000, 1, 1, 1))
    return {
        "boxes of images": lambda: roicy.roi_align(maps, [boxes[:0]] * 100000, 1),
        "memory of tasks": lambda: roicy.roi_align_backward(few, [[0, 0, 0, 1, 1]], maps.shape),
        "places of masks": lambda: roicy.paste_masks(masks, boxes, (2, 2)),
        "regions": lambda: roicy.label_segments(tiny, (8, 8), labels=[65535]),
        "codes": lambda: roicy.paste_masks(masks, boxes, (1, 1), format="rle"),
    }


@pytest.mark.parametrize("name", work_beside_calls())
def test_work_beside_calls_gives_it_up(name):
    assert releases(work_beside_calls()[name]) >= 2


def test_long_lists_are_freed_in_parts(monkeypatch):
    """Between the parts Python's loop lets others have the lock."""
    left = []

    class Leaves:
        def __del__(self):
            left.append(len(many))

    many = _boxes.Many([Leaves() for _ in range(10000)])
    many.__del__()
    assert sorted(set(left)) == [0, 10000 - 2 * _boxes.ROWS_AT_ONCE, 10000 - _boxes.ROWS_AT_ONCE]
    freed = []
    monkeypatch.setattr(_boxes.Many, "__del__", lambda self: freed.append(len(self)))
    frame = np.zeros((4, 4, 3), np.uint8)
    roicy.resize([frame] * 3, 2, boxes=[[0, 0, 0, 4, 4], [1, 0, 0, 3, 4], [2, 0, 0, 2, 4]])
    assert sorted(freed) == [2, 2, 3]  # axes that are resized, their taps, and frames


def test_calls_that_take_longer_than_thought():
    """They give the lock up between tasks: here a box is one, and its pixels are hardly any."""
    frame, boxes = np.zeros((64, 64, 3), np.uint8), np.tile([0, 0, 1.0, 1.0], (15000, 1))
    assert releases(lambda: roicy.crop(frame, boxes[:50], 1)) == 0
    assert releases(lambda: roicy.crop(frame, boxes, 1)) == 1


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
