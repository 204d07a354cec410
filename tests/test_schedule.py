"""Tasks: everything is done once, by one task, and in shares that are even."""

import numpy as np
import pytest
from conftest import random_boxes

from roicy._kernels import geometry, schedule

IMAGE, FIRST, STOP, BLOCK_FIRST, BLOCK_STOP, BIN, BIN_STOP, MODE, Y0, Y1, X0, X1, LEVEL = range(13)
BINS = (7, 7)
# images, boxes, channels
LOADS = [(images, boxes, channels) for channels in (1, 3, 256, 2048) for images, boxes in ((1, 1000), (64, 1000), (64, 64), (1, 1))]


def plan(rng, images, count, extents=(50, 76), in_bands=False):
    """Boxes in the order of the schedule: (image of each, windows, starts)."""
    boxes = random_boxes(rng, images, count, extents, np.float32)
    if count == images:
        boxes[:, 0] = np.arange(images)
    order, starts = schedule.by_image_and_place["float"](boxes[:, 0].astype(np.int32), boxes[:, 1:], 1.0, images, *extents, in_bands)
    assert sorted(order) == list(range(count))
    windows = geometry.tables["float"](boxes[:, 1:], order, 0, 2**31, geometry.sampled(2, False, True), BINS, extents, 1.0, False, 1)[1]
    return boxes[order, 0].astype(int), windows, starts


@pytest.mark.parametrize("in_bands", [False, True])
def test_order(in_bands, rng):
    boxes = random_boxes(rng, 5, 300, (400, 300), np.float64)
    images = boxes[:, 0].astype(np.int32)
    order, starts = schedule.by_image_and_place["double"](images, boxes[:, 1:], 0.5, 5, 400, 300, in_bands)
    assert starts.tolist() == [0, *np.cumsum(np.bincount(images, minlength=5))]
    rows = np.clip(boxes[:, 2] * 0.5, 0, 399).astype(int)
    columns = np.clip(boxes[:, 1] * 0.5, 0, 299).astype(int)
    keys = (columns // (300 // 32 + 1), rows // 32, images) if in_bands else (rows, images)
    assert order.tolist() == np.lexsort(keys).tolist()


def test_far_boxes_have_a_place():
    far = np.array([[-1e30, 1e30, 0, 0], [1e30, -1e30, 0, 0], [3, 3, 0, 0], [0, 1e9, 0, 0]])
    for in_bands in (False, True):
        for extents in ((1, 1), (0, 0), (1000, 7), (2**30, 2**30)):
            order, starts = schedule.by_image_and_place["double"](np.zeros(4, np.int32), far, 1.0, 1, *extents, in_bands)
            assert sorted(order) == [0, 1, 2, 3]
            assert starts.tolist() == [0, 4]


@pytest.mark.parametrize("by_bin", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 5, 128])
@pytest.mark.parametrize(("images", "count", "channels"), LOADS)
def test_reading_covers_everything_once(images, count, channels, threads, in_place, by_bin, rng):
    if by_bin:
        in_place, channels = False, min(channels, 100)
    of_box, windows, starts = plan(rng, images, count)
    tasks, used = schedule.reading([(starts, windows, in_place, not in_place)], channels, 4, 49, by_bin, threads)
    assert 1 <= used <= threads
    blocks = -(-channels // 16)
    done = np.zeros((count, blocks, 49 if by_bin else 1), int)
    for task in tasks:
        mine = slice(task[FIRST], task[STOP])
        assert (of_box[mine] == task[IMAGE]).all()
        done[mine, task[BLOCK_FIRST] : task[BLOCK_STOP], slice(task[BIN], task[BIN_STOP]) if by_bin else 0] += 1
        assert (task[BIN] >= 0) == by_bin
        # what a task computes of several boxes has room in a megabyte
        assert not by_bin or (task[STOP] - task[FIRST]) * (task[BIN_STOP] - task[BIN]) * 64 <= 2**20
        if task[MODE] > 0:
            read = windows[mine][(windows[mine, 0] < windows[mine, 1]) & (windows[mine, 2] < windows[mine, 3])]
            assert in_place == (task[MODE] == 3)
            assert in_place or task[BLOCK_STOP] == task[BLOCK_FIRST] + 1
            assert not in_place or (task[BLOCK_STOP] - task[BLOCK_FIRST]) * (task[Y1] - task[Y0]) * (task[X1] - task[X0]) * 64 <= 4 << 20
            assert not len(read) or (task[X0] <= read[:, 2].min() and read[:, 3].max() <= task[X1])
    assert (done == 1).all()


@pytest.mark.parametrize("by_bin", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 128])
@pytest.mark.parametrize(("images", "count", "channels"), [load for load in LOADS if load[2] != 2048])
def test_writing_covers_every_pixel_once(images, count, channels, threads, in_place, by_bin, rng):
    _, windows, starts = plan(rng, images, count)
    tasks, used = schedule.writing([(starts, windows, in_place, 50, 76)], channels, 4, 49, by_bin, threads, False, False)
    assert 1 <= used <= threads
    blocks = -(-channels // 16)
    pixels = np.zeros((images, blocks, 49 if by_bin else 1, 50, 76), np.int8)
    for task in tasks:
        assert task[BIN] == -1 or task[BIN_STOP] == task[BIN] + 1
        pixels[task[IMAGE], task[BLOCK_FIRST] : task[BLOCK_STOP], max(task[BIN], 0), task[Y0] : task[Y1], task[X0] : task[X1]] += 1
        assert task[FIRST] == task[STOP] or (task[FIRST], task[STOP]) == (starts[task[IMAGE]], starts[task[IMAGE] + 1])
    assert (pixels == 1).all()


@pytest.mark.parametrize("extents", [(3000, 100000), (300, 304), (216, 304), (215, 304), (256, 256), (257, 256), (1, 65537), (65537, 1)])
@pytest.mark.parametrize("threads", [1, 2, 64])
def test_writing_is_bounded_by_the_tile(extents, threads):
    height, width = extents
    windows = np.array([[0, height, 0, width]], np.int32)
    tasks, _ = schedule.writing([(np.array([0, 1]), windows, False, height, width)], 1, 4, 49, False, threads, False, False)
    areas = (tasks[:, Y1] - tasks[:, Y0]) * (tasks[:, X1] - tasks[:, X0])
    assert areas.max() * 64 <= 4 * 2**20
    assert areas.sum() == height * width


def test_adding_leaves_other_images_alone(rng):
    _, windows, _ = plan(rng, 3, 20)
    starts = np.array([0, 0, 20, 20])
    tasks, _ = schedule.writing([(starts, windows, False, 50, 76)], 32, 4, 49, False, 2, True, False)
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
@pytest.mark.parametrize(("in_place", "by_bin"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("channels", [1, 3, 256, 2048])
@pytest.mark.parametrize("images", [1, 64])
def test_reading_is_even(images, channels, in_place, by_bin, threads, rng):
    """1000 boxes of any size are divisible among so many threads, down to one channel block of the largest."""
    _, windows, starts = plan(rng, images, 1000)
    tasks, used = schedule.reading([(starts, windows, in_place, not in_place)], channels, 4, 49, by_bin, threads)
    if used == 1:
        assert box_cost(windows).sum() * -(-channels // 16) < 100000
        return
    costs = [
        box_cost(windows[task[FIRST] : task[STOP]]).sum() * (task[BLOCK_STOP] - task[BLOCK_FIRST]) * (task[BIN_STOP] - task[BIN] if by_bin else 1)
        for task in tasks
    ]
    one_box = box_cost(windows).max() * threads / sum(costs)
    assert most_loaded(costs, threads) <= max(1.3, one_box)


@pytest.mark.parametrize("threads", [2, 3, 8, 16])
@pytest.mark.parametrize("channels", [1, 3, 256, 2048])
@pytest.mark.parametrize("images", [1, 64])
def test_writing_is_even(images, channels, threads, rng):
    """Rows of a map are what can be divided: 50 of them, and every box, among up to 16 threads."""
    _, windows, starts = plan(rng, images, 1000)
    tasks, used = schedule.writing([(starts, windows, False, 50, 76)], channels, 4, 49, False, threads, False, False)
    assert used > 1
    costs = []
    for task in tasks:
        mine = windows[task[FIRST] : task[STOP]]
        rows = np.clip(np.minimum(mine[:, 1], task[Y1]) - np.maximum(mine[:, 0], task[Y0]), 0, None)
        costs.append((1.5 * rows * (mine[:, 3] - mine[:, 2])).sum() + (task[Y1] - task[Y0]) * 76)
    assert most_loaded(costs, threads) <= 1.3


def test_little_work_is_done_by_one_thread(rng):
    _, windows, starts = plan(rng, 1, 8, (32, 32))
    assert schedule.reading([(starts, windows, False, True)], 64, 4, 49, False, 16)[1] == 1
    assert schedule.writing([(starts, windows, False, 32, 32)], 64, 4, 49, False, 16, False, False)[1] == 1


def pyramid(rng, extents=((200, 304), (100, 152), (50, 76), (25, 38)), counts=(700, 0, 200, 100)):
    """What the schedule gets to know of levels of which one has no boxes (and is left out)."""
    return [(extent, *plan(rng, 2, count, extent)) for extent, count in zip(extents, counts, strict=True) if count]


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_levels_share_the_work(threads, rng):
    """All levels are covered, by tasks that are even over all of them together."""
    levels = pyramid(rng)
    tasks, used = schedule.reading([(starts, windows, False, True) for _, _, windows, starts in levels], 256, 4, 49, False, threads)
    assert used == threads
    costs = []
    done = [np.zeros((len(windows), 16), int) for _, _, windows, _ in levels]
    for task in tasks:
        _, of_box, windows, _ = levels[task[LEVEL]]
        mine = slice(task[FIRST], task[STOP])
        assert (of_box[mine] == task[IMAGE]).all()
        done[task[LEVEL]][mine, task[BLOCK_FIRST] : task[BLOCK_STOP]] += 1
        costs.append(box_cost(windows[mine]).sum() * (task[BLOCK_STOP] - task[BLOCK_FIRST]))
    assert all((level == 1).all() for level in done)
    assert most_loaded(costs, threads) <= 1.3

    tasks, used = schedule.writing([(starts, windows, False, *extent) for extent, _, windows, starts in levels], 256, 4, 49, False, threads, False, False)
    assert used == threads
    pixels = [np.zeros((2, 16, *extent), int) for extent, *_ in levels]
    for task in tasks:
        pixels[task[LEVEL]][task[IMAGE], task[BLOCK_FIRST] : task[BLOCK_STOP], task[Y0] : task[Y1], task[X0] : task[X1]] += 1
    assert all((level == 1).all() for level in pixels)


def test_levels_that_are_little_work_each(rng):
    """Whether threads are worth waking is asked once, of all levels."""
    levels = [(starts, windows, False, True) for _, _, windows, starts in pyramid(rng, ((32, 32),) * 4, (4, 4, 4, 4))]
    assert schedule.reading(levels[:1], 256, 4, 49, False, 8)[1] == 1
    assert schedule.reading(levels * 8, 256, 4, 49, False, 8)[1] == 8
