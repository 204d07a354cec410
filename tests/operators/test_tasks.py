"""Tasks do everything exactly once, in even shares, and no step of a plan takes long.

test_determinism.py shows that results have the same bits on any number of threads.
"""

import numpy as np
import pytest
from conftest import pairs, random_boxes

from roicy._kernels.plan import Arguments, Plan
from roicy._table import WEIGHTED_SUM, Operator, sampled

BINS = (7, 7)
LANES = 16  # float32 in a lane vector
SIDE = 28.0  # pixels of a box of the finest level of a pyramid
PYRAMID = ((200, 304), (100, 152), (50, 76), (25, 38))
# Each load is images, boxes and channels.
LOADS = [
    (images, boxes, channels)
    for channels in (1, 3, 256, 2048)
    for images, boxes in ((1, 1000), (64, 1000), (64, 64), (1, 1))
]
# How a map lies in memory: whether the channels of a pixel lie together, their type, and whether
# each bin has channels of its own.
LIE = [
    (False, "f", False),
    (True, "f", False),
    (True, "e", False),
    (False, "f", True),
    (True, "f", True),
]


def maps_of(images, channels, extents, channels_last, kind):
    """Return a map that has strides but hardly any memory, since tasks are made without its pixels.

    With channels last, there is a gap of one channel between pixels.  So columns do not lie end to
    end if there is one channel.
    """
    height, width = extents
    pixel, channel = (channels + 1, 1) if channels_last else (1, height * width)
    strides = (height * width * max(channels, pixel), channel, width * pixel, pixel)
    shape = (images, channels, *extents)
    strides = [stride * np.dtype(kind).itemsize for stride in strides]
    map = np.lib.stride_tricks.as_strided(np.zeros(1, kind), shape, strides)
    return map.transpose(0, 2, 3, 1) if channels_last else map


def planned(
    purpose, boxes, channels, threads=1, images=1, extents=((50, 76),), lie=(False, "f", False)
):
    """Return the plan of maps of these extents, several of which are a pyramid, after a step."""
    channels_last, kind, position_sensitive = lie
    operator = Operator("any", WEIGHTED_SUM, position_sensitive=position_sensitive)
    of_input = channels * (49 if position_sensitive else 1)
    maps = [maps_of(images, of_input, extent, channels_last, kind) for extent in extents]
    layout, rule = "NHWC" if channels_last else "NCHW", sampled(2, False)
    scales, pyramid = 1.0, None
    if len(maps) > 1:
        scales, pyramid = [0.5**i for i in range(len(maps))], (SIDE, 0, None)
    arguments = Arguments(boxes, None, scales, layout, threads, None, pyramid)
    if purpose == "grad_input":
        shapes = {f"map {i}": map.shape for i, map in enumerate(maps)}
        shapes["dtype"] = maps[0].dtype
        plan = Plan(purpose, operator, rule, shapes, BINS, arguments)
        plan.bind(maps)
    else:
        plan = Plan(purpose, operator, rule, maps if pyramid else maps[0], BINS, arguments)
    assert plan.next()
    return plan


def random_work(rng, images, count):
    """Return boxes of all sizes on a map of 50 x 76, as rows with an image."""
    boxes = random_boxes(rng, images, count, (50, 76), np.float32)
    if count == images:
        boxes[:, 0] = np.arange(images)
    return boxes


def of_levels(rng, images, counts):
    """Return so many boxes of each level, with sides of SIDE to 2 * SIDE pixels on its map."""
    boxes = []
    for level, count in enumerate(counts):
        side = SIDE * rng.uniform(1.05, 1.9, (count, 1))
        aspect = rng.uniform(0.8, 1.25, (count, 1))
        low = rng.uniform(-5, 20, (count, 2))
        corners = np.hstack([low, low + side * np.hstack([aspect, 1 / aspect])]) * 2.0**level
        boxes.append(np.hstack([rng.integers(0, images, (count, 1)), corners]))
    return rng.permutation(np.concatenate(boxes)).astype(np.float32)


def part(task, name):
    return slice(task[f"first_{name}"], task[f"stop_{name}"])


def pixels_of(task):
    """Return image, blocks, rows and columns that a task writes."""
    rows, columns = slice(task["y0"], task["y1"]), slice(task["x0"], task["x1"])
    return task["image"], part(task, "block"), rows, columns


def size(numbers):
    return numbers.stop - numbers.start


def box_cost(windows):
    return 1.5 * (windows[:, 1] - windows[:, 0]) * (windows[:, 3] - windows[:, 2]) + 4.0 * 49


def band_cost(windows, task):
    """Return what a block of a band costs: pixels of boxes, bins of boxes, pixels written."""
    rows = np.minimum(windows[:, 1], task["y1"]) - np.maximum(windows[:, 0], task["y0"])
    read = rows.clip(0) * (windows[:, 3] - windows[:, 2])
    return read.sum() + 2 * 49 * (rows > 0).sum() + (task["y1"] - task["y0"]) * task["x1"]


def most_loaded(costs, threads):
    """Return the busiest thread's load over the mean, if free threads take the next task."""
    loads = np.zeros(threads)
    for cost in costs:
        loads[loads.argmin()] += cost
    return loads.max() / loads.mean()


@pairs(load=LOADS, lie=LIE, threads=[1, 2, 3, 8, 128], purpose=["forward", "grad_boxes"])
def test_reading(load, lie, threads, purpose, rng):
    """Boxes of any size are divided evenly among so many threads.  The smallest share is one
    channel block of the largest box, or the blocks whose gradients of the boxes are summed.
    """
    (images, count, channels), (_, kind, position_sensitive) = load, lie
    if kind != "f":  # maps of small types are read in place only in whole blocks
        channels = -(-channels // LANES) * LANES
    if position_sensitive:
        channels = min(channels, 100)
    boxes = random_work(rng, images, count)
    plan = planned(purpose, boxes, channels, threads, images, lie=lie)
    tables, blocks = plan.tables(), -(-channels // LANES)
    bins = 49 if plan.method() == "channels_per_bin" else 1  # that tasks are for
    done, costs, tasks = np.zeros((count, blocks, bins), int), [], plan.tasks_made()
    for task in tasks:
        mine = part(task, "box")
        assert (boxes[tables.rows[mine], 0] == task["image"]).all()
        done[mine, part(task, "block"), part(task, "bin")] += 1
        shares = size(part(task, "block")) * min(size(part(task, "bin")), bins)
        costs.append(box_cost(tables.windows[mine]).sum() * shares)
    assert (done == 1).all()
    assert 1 <= plan.threads <= threads
    if plan.threads > 1:
        one_box = box_cost(tables.windows).max() * threads / sum(costs)
        if purpose == "grad_boxes" and bins == 1:
            one_box *= max(size(part(task, "block")) for task in tasks)
        assert most_loaded(costs, threads) <= max(1.3, one_box)


@pairs(images=[1, 64], channels=[1, 3, 256, 2048], threads=[2, 3, 8, 16])
def test_writing(images, channels, threads, rng):
    """Only rows of a map can be divided: up to 16 threads share 50 rows evenly."""
    plan = planned("grad_input", random_work(rng, images, 1000), channels, threads, images)
    windows, costs = plan.tables().windows, []
    done = np.zeros((images, -(-channels // LANES), 50, 76), int)
    for task in plan.tasks_made():
        done[pixels_of(task)] += 1
        costs.append(band_cost(windows[part(task, "box")], task))
    assert (done == 1).all()
    assert plan.threads > 1
    assert most_loaded(costs, threads) <= 1.3


@pairs(
    lie=[(256, (100, 152), 1000, (4, 37)), (512, (50, 76), 300, (4, 47))],
    threads=[2, 16, 32, 64],
)
def test_few_boxes_are_read_again(lie, threads, rng):
    """Bands of rows are as few as keep threads busy, since each reads the boxes in it anew."""
    channels, extents, count, sides = lie
    extent = np.exp(rng.uniform(*np.log(sides), (count, 2)))
    low = rng.uniform(size=(count, 2)) * (np.array(extents[::-1]) - extent)
    boxes = np.hstack([np.zeros((count, 1)), low, low + extent]).astype(np.float32)
    plan = planned("grad_input", boxes, channels, threads, extents=(extents,))
    windows, blocks = plan.tables().windows, channels // LANES
    whole = {"y0": 0, "y1": extents[0], "x1": extents[1]}
    costs = [band_cost(windows, task) for task in plan.tasks_made()]
    assert sum(costs) <= 1.3 * blocks * band_cost(windows, whole)
    assert most_loaded(costs, threads) <= 1 / 0.85


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_levels_share_the_work(threads, rng):
    """Tasks cover all levels with boxes, and are even over all of them together."""
    counts = (700, 0, 200, 100)
    boxes = of_levels(rng, 2, counts)
    plan = planned("forward", boxes, 256, threads, 2, PYRAMID)
    assert plan.threads == threads
    costs, done = [], [np.zeros((count, 16), int) for count in counts]
    for task in plan.tasks_made():
        mine, tables = part(task, "box"), plan.tables(task["level"])
        assert (boxes[tables.rows[mine], 0] == task["image"]).all()
        done[task["level"]][mine, part(task, "block")] += 1
        costs.append(box_cost(tables.windows[mine]).sum() * size(part(task, "block")))
    assert all((level == 1).all() for level in done)
    assert most_loaded(costs, threads) <= 1.3

    plan = planned("grad_input", boxes, 256, threads, 2, PYRAMID)
    assert plan.threads == threads
    written = [np.zeros((2, 16, *extent), int) for extent in PYRAMID]
    for task in plan.tasks_made():
        written[task["level"]][pixels_of(task)] += 1
    for level, count in zip(written, counts, strict=True):
        assert (level == (count > 0)).all()


def test_the_number_of_threads_follows_the_work(rng):
    """Little work is done by one thread, and the work of all levels counts together."""
    for levels, threads in ((1, 1), (32, 8)):
        boxes, extents = of_levels(rng, 2, (4,) * levels), ((32, 32),) * levels
        assert planned("forward", boxes, 256, 8, 2, extents).threads == threads
    boxes = of_levels(rng, 1, (8,))
    assert planned("grad_input", boxes, 64, 16, extents=((32, 32),)).threads == 1


@pytest.mark.parametrize("purpose", ["forward", "grad_input", "grad_boxes"])
def test_steps_take_about_a_second(purpose):
    """Python looks for Ctrl-C between the steps of a plan, so none of them is long."""
    count = 3000
    boxes = np.tile(np.array([[0, 0, 0, 152, 100]], np.float32), (count, 1))
    plan, counts = planned(purpose, boxes, 512, extents=((100, 152),)), []
    while plan.tables().stop < count:
        counts.append(plan.tables().stop - plan.tables().first)
        assert plan.next(count)
    assert max(counts) * (100 * 152 + 49) * (512 // LANES) <= 2**28
    assert not planned(purpose, boxes[:500], 512, extents=((100, 152),)).next(count)
