"""Tasks: everything is done once, by one task, and in shares that are even."""

import numpy as np
import pytest
from conftest import random_boxes

from roicy._kernels import geometry, schedule

IMAGE, FIRST, STOP, BLOCK_FIRST, BLOCK_STOP, BIN, MODE, Y0, Y1, X0, X1 = range(11)
BINS = (7, 7)
# images, boxes, channels
LOADS = [(images, boxes, channels) for channels in (1, 3, 256, 2048) for images, boxes in ((1, 1000), (64, 1000), (64, 64), (1, 1))]


def plan(rng, images, count, extents=(50, 76), dtype=np.float32):
    boxes = random_boxes(rng, images, count, extents, dtype)
    if count == images:
        boxes[:, 0] = np.arange(images)
    windows = geometry.tables["float"](boxes[:, 1:], 0, 2**31, geometry.sampled(2, False, True), BINS, extents, 1.0, False, 1)[1]
    order, starts = schedule.by_image_and_row(boxes[:, 0].astype(np.int32), windows, images, extents[0])
    return boxes[:, 0].astype(int), windows, order, starts


def test_order(rng):
    images, windows, order, starts = plan(rng, 5, 300)
    assert sorted(order) == list(range(300))
    assert starts.tolist() == [0, *np.cumsum(np.bincount(images, minlength=5))]
    for n in range(5):
        mine = order[starts[n] : starts[n + 1]]
        assert (images[mine] == n).all()
        assert (np.diff(windows[mine, 0]) >= 0).all()


@pytest.mark.parametrize("one_bin", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 5, 128])
@pytest.mark.parametrize(("images", "count", "channels"), LOADS)
def test_reading_covers_everything_once(images, count, channels, threads, in_place, one_bin, rng):
    if one_bin:
        in_place, channels = False, min(channels, 100)
    of_box, windows, order, starts = plan(rng, images, count)
    tasks, used = schedule.reading(order, starts, windows, channels, 4, 49, one_bin, in_place, threads)
    assert 1 <= used <= threads
    blocks = -(-channels // 16)
    done = np.zeros((count, blocks, 49 if one_bin else 1), int)
    for task in tasks:
        mine = order[task[FIRST] : task[STOP]]
        assert (of_box[mine] == task[IMAGE]).all()
        done[mine, task[BLOCK_FIRST] : task[BLOCK_STOP], max(task[BIN], 0)] += 1
        assert (task[BIN] >= 0) == one_bin
        if task[MODE] == 1:
            read = windows[mine][(windows[mine, 0] < windows[mine, 1]) & (windows[mine, 2] < windows[mine, 3])]
            assert task[BLOCK_STOP] == task[BLOCK_FIRST] + 1
            assert not len(read) or (task[X0] <= read[:, 2].min() and read[:, 3].max() <= task[X1])
    assert (done == 1).all()


@pytest.mark.parametrize("one_bin", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 128])
@pytest.mark.parametrize(("images", "count", "channels"), [load for load in LOADS if load[2] != 2048])
def test_writing_covers_every_pixel_once(images, count, channels, threads, in_place, one_bin, rng):
    _, windows, order, starts = plan(rng, images, count)
    tasks, used = schedule.writing(order, starts, windows, channels, 4, 49, one_bin, in_place, threads, 50, 76, False)
    assert 1 <= used <= threads
    blocks = -(-channels // 16)
    pixels = np.zeros((images, blocks, 49 if one_bin else 1, 50, 76), np.int8)
    for task in tasks:
        pixels[task[IMAGE], task[BLOCK_FIRST] : task[BLOCK_STOP], max(task[BIN], 0), task[Y0] : task[Y1], task[X0] : task[X1]] += 1
        assert task[FIRST] == task[STOP] or (task[FIRST], task[STOP]) == (starts[task[IMAGE]], starts[task[IMAGE] + 1])
    assert (pixels == 1).all()


def test_writing_is_bounded_by_the_tile():
    windows = np.array([[0, 3000, 0, 100000]], np.int32)
    order, starts = schedule.by_image_and_row(np.zeros(1, np.int32), windows, 1, 3000)
    tasks, _ = schedule.writing(order, starts, windows, 1, 4, 49, False, False, 2, 3000, 100000, False)
    areas = (tasks[:, Y1] - tasks[:, Y0]) * (tasks[:, X1] - tasks[:, X0])
    assert areas.max() * 64 <= 4 * 2**20
    assert areas.sum() == 3000 * 100000


def test_adding_leaves_other_images_alone(rng):
    _, windows, order, _ = plan(rng, 3, 20)
    starts = np.array([0, 0, 20, 20])
    tasks, _ = schedule.writing(order, starts, windows, 32, 4, 49, False, False, 2, 50, 76, True)
    assert set(tasks[:, IMAGE]) == {1}


def box_cost(windows):
    return 1.5 * (windows[:, 1] - windows[:, 0]) * (windows[:, 3] - windows[:, 2]) + 4.0 * 49


def most_loaded(costs, threads):
    """The load of the busiest thread when each takes the next task as it becomes free, over the mean."""
    loads = np.zeros(threads)
    for cost in costs:
        loads[loads.argmin()] += cost
    return loads.max() / loads.mean()


@pytest.mark.parametrize("threads", [2, 3, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("channels", [1, 3, 256, 2048])
@pytest.mark.parametrize("images", [1, 64])
def test_reading_is_even(images, channels, in_place, threads, rng):
    """1000 boxes of any size are divisible among so many threads, down to one channel block of the largest."""
    _, windows, order, starts = plan(rng, images, 1000)
    tasks, used = schedule.reading(order, starts, windows, channels, 4, 49, False, in_place, threads)
    if used == 1:
        assert box_cost(windows).sum() * -(-channels // 16) < 100000
        return
    costs = [box_cost(windows[order[task[FIRST] : task[STOP]]]).sum() * (task[BLOCK_STOP] - task[BLOCK_FIRST]) for task in tasks]
    one_box = box_cost(windows).max() * threads / sum(costs)
    assert most_loaded(costs, threads) <= max(1.3, one_box)


@pytest.mark.parametrize("threads", [2, 3, 8, 16])
@pytest.mark.parametrize("channels", [1, 3, 256, 2048])
@pytest.mark.parametrize("images", [1, 64])
def test_writing_is_even(images, channels, threads, rng):
    """Rows of a map are what can be divided: 50 of them, and every box, among up to 16 threads."""
    _, windows, order, starts = plan(rng, images, 1000)
    tasks, used = schedule.writing(order, starts, windows, channels, 4, 49, False, False, threads, 50, 76, False)
    assert used > 1
    costs = []
    for task in tasks:
        mine = windows[order[task[FIRST] : task[STOP]]]
        rows = np.clip(np.minimum(mine[:, 1], task[Y1]) - np.maximum(mine[:, 0], task[Y0]), 0, None)
        costs.append((1.5 * rows * (mine[:, 3] - mine[:, 2])).sum() + (task[Y1] - task[Y0]) * 76)
    assert most_loaded(costs, threads) <= 1.3


def test_little_work_is_done_by_one_thread(rng):
    _, windows, order, starts = plan(rng, 1, 8, (32, 32))
    assert schedule.reading(order, starts, windows, 64, 4, 49, False, False, 16)[1] == 1
    assert schedule.writing(order, starts, windows, 64, 4, 49, False, False, 16, 32, 32, False)[1] == 1
