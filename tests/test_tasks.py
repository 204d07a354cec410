"""Tasks do everything exactly once, and in even shares."""

import numpy as np
import pytest
from conftest import pairs, random_boxes

from roicy._kernels.plan import Arguments, Plan
from roicy._table import INTEGRATED, MAX_PIXEL, QUANTISED, WEIGHTED_SUM, Operator, sampled

BY_BINS = "channels_per_bin"
BINS = (7, 7)
SAMPLED = sampled(2, False)
LANES = 16  # float32 in a lane vector
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


def whole_blocks(channels, kind):
    """Maps of small types are read in place only in whole blocks, which are converted first."""
    return channels if kind == "f" else -(-channels // LANES) * LANES


def random_work(rng, images, count, extents=(50, 76)):
    """Return boxes of all sizes, as rows with an image."""
    boxes = random_boxes(rng, images, count, extents, np.float32)
    if count == images:
        boxes[:, 0] = np.arange(images)
    return boxes


def all_of(extents, count=1):
    """Return boxes that cover the map."""
    return np.tile(np.array([[0, 0, 0, extents[1], extents[0]]], np.float32), (count, 1))


def maps_of(images, channels, extents, channels_last, kind):
    """Return a map that has strides but hardly any memory, since tasks are made without its pixels.

    With channels last, there is a gap of one channel between pixels.  So columns do not lie end to
    end if there is one channel.
    """
    height, width = extents
    pixel, channel = (channels + 1, 1) if channels_last else (1, height * width)
    strides = (height * width * max(channels, pixel), channel, width * pixel, pixel)
    shape = (images, channels, *extents)
    dtype = np.dtype(kind)
    strides = [stride * dtype.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, strides)


def planned(purpose, boxes, channels, threads=1, max_boxes=2**31 - 1, steps=1, **options):
    """Return a plan after so many steps, of one map or of a pyramid with these `levels`."""
    images, extents = options.get("images", 1), options.get("extents", (50, 76))
    channels_last, kind = options.get("channels_last", False), options.get("kind", "f")
    position_sensitive = options.get("position_sensitive", False)
    rule = QUANTISED if purpose == "max_pixel_grad" else options.get("rule", SAMPLED)
    levels = options.get("levels")
    operator = Operator(
        "any",
        MAX_PIXEL if purpose == "max_pixel_grad" else WEIGHTED_SUM,
        position_sensitive=position_sensitive,
    )
    of_input = channels * (49 if position_sensitive else 1)
    maps = [
        maps_of(images, of_input, extent, channels_last, kind) for extent in levels or [extents]
    ]
    layout = "NHWC" if channels_last else "NCHW"
    scales = [0.5**i for i in range(len(maps))] if levels else 1.0
    pyramid = (SIDE, 0, None) if levels else None
    arguments = Arguments(boxes, None, scales, layout, threads, None, pyramid)
    given = [map.transpose(0, 2, 3, 1) if channels_last else map for map in maps]
    if purpose in ("grad_input", "max_pixel_grad"):
        shapes = {f"map {i}": map.shape for i, map in enumerate(maps)}
        shapes["dtype"] = maps[0].dtype
        plan = Plan(purpose, operator, rule, shapes, BINS, arguments)
        plan.bind(given)
    else:
        plan = Plan(purpose, operator, rule, given if levels else given[0], BINS, arguments)
    for _ in range(steps):
        assert plan.next(max_boxes)
    return plan


def tasks_of(plan):
    """Return an array with the fields of struct Task."""
    made = plan.tasks_made()
    types = [(name, "d" if name == "cost" else "p") for name in made[0]]
    return np.array([tuple(task.values()) for task in made], types)


def work_of(purpose, boxes, channels, threads=1, **options):
    """Return the plan, its tasks, and the number of threads."""
    plan = planned(purpose, boxes, channels, threads, **options)
    return plan, tasks_of(plan), plan.threads


def images_of(boxes, tables):
    """Return the image of each box of the tables."""
    assert sorted(tables.rows) == list(range(len(tables.rows)))
    return boxes[tables.rows, 0].astype(int)


def reading(slopes):
    return "grad_boxes" if slopes else "forward"


def boxes_of(task):
    return slice(task["first_box"], task["stop_box"])


def blocks_of(task):
    return slice(task["first_block"], task["stop_block"])


def bins_of(task):
    return slice(task["first_bin"], task["stop_bin"])


def rows_of(task):
    return slice(task["y0"], task["y1"])


def columns_of(task):
    return slice(task["x0"], task["x1"])


def size(numbers):
    return numbers.stop - numbers.start


def box_cost(windows):
    return 1.5 * (windows[:, 1] - windows[:, 0]) * (windows[:, 3] - windows[:, 2]) + 4.0 * 49


def most_loaded(costs, threads):
    """Return the busiest thread's load over the mean, if free threads take the next task."""
    loads = np.zeros(threads)
    for cost in costs:
        loads[loads.argmin()] += cost
    return loads.max() / loads.mean()


@pairs(load=LOADS, lie=LIE, threads=[1, 2, 3, 8, 16, 128], slopes=[False, True])
def test_reading_covers_everything_once_and_evenly(load, lie, threads, slopes, rng):
    """Boxes of any size are divided evenly among so many threads.  The smallest share is one
    channel block of the largest box, or the blocks whose gradients of the boxes are summed.
    """
    (images, count, channels), (channels_last, kind, position_sensitive) = load, lie
    channels = whole_blocks(channels, kind)
    if position_sensitive:
        channels = min(channels, 100)
    boxes = random_work(rng, images, count)
    plan, tasks, used = work_of(
        reading(slopes), boxes, channels, threads, images=images,
        channels_last=channels_last, kind=kind, position_sensitive=position_sensitive,
    )  # fmt: skip
    assert 1 <= used <= threads
    tables, blocks = plan.tables(), -(-channels // LANES)
    of_box, windows = images_of(boxes, tables), tables.windows
    bins = 49 if plan.method() == BY_BINS else 1  # that tasks are for
    done = np.zeros((count, blocks, bins), int)
    costs = []
    for task in tasks:
        mine = boxes_of(task)
        assert (of_box[mine] == task["image"]).all()
        done[mine, blocks_of(task), bins_of(task)] += 1
        read = [w for w in windows[mine] if w[0] < w[1] and w[2] < w[3]]
        for y0, y1, x0, x1 in read:
            assert task["y0"] <= y0 and y1 <= task["y1"]
            assert task["x0"] <= x0 and x1 <= task["x1"]
        shares = size(blocks_of(task)) * min(size(bins_of(task)), bins)
        costs.append(box_cost(windows[mine]).sum() * shares)
    assert (done == 1).all()
    if used > 1:
        one_box = box_cost(windows).max() * threads / sum(costs)
        if slopes and bins == 1:
            one_box *= max(size(blocks_of(task)) for task in tasks)
        assert most_loaded(costs, threads) <= max(1.3, one_box)


@pairs(
    load=[load for load in LOADS if load[2] != 2048],
    purpose=["grad_input", "max_pixel_grad"],
    channels_last=[False, True],
    position_sensitive=[False, True],
    threads=[1, 2, 7, 128],
)
def test_writing_covers_every_pixel_once(
    load, purpose, channels_last, position_sensitive, threads, rng
):
    images, count, channels = load
    boxes = random_work(rng, images, count)
    plan, tasks, used = work_of(
        purpose, boxes, channels, threads, images=images, channels_last=channels_last,
        position_sensitive=position_sensitive and purpose == "grad_input",
    )  # fmt: skip
    assert 1 <= used <= threads
    starts = plan.tables().starts
    bins = 49 if plan.method() == BY_BINS else 1
    pixels = np.zeros((images, -(-channels // LANES), bins, 50, 76), np.int8)
    for task in tasks:
        blocks, rows, columns = blocks_of(task), rows_of(task), columns_of(task)
        pixels[task["image"], blocks, bins_of(task), rows, columns] += 1
        mine = boxes_of(task)
        all_of_them = starts[task["image"]], starts[task["image"] + 1]
        assert mine.start == mine.stop or (mine.start, mine.stop) == all_of_them
    assert (pixels == 1).all()


@pytest.mark.parametrize(
    "extents",
    [
        (3000, 100000),
        (300, 304),
        (216, 304),
        (215, 304),
        (256, 256),
        (257, 256),
        (1, 65537),
        (65537, 1),
    ],
)
@pytest.mark.parametrize("threads", [1, 2, 64])
@pytest.mark.parametrize("position_sensitive", [False, True])
def test_writing_is_bounded_by_the_tile(extents, position_sensitive, threads):
    height, width = extents
    boxes = all_of(extents, 60 if position_sensitive else 1)
    plan = planned(
        "grad_input", boxes, 5, threads, rule=INTEGRATED, extents=extents,
        channels_last=position_sensitive, position_sensitive=position_sensitive,
    )  # fmt: skip
    tables = plan.tables()
    assert (tables.windows == [[0, height, 0, width]]).all()
    by_bins = plan.method() == BY_BINS
    tasks = tasks_of(plan)
    areas = (tasks["y1"] - tasks["y0"]) * (tasks["x1"] - tasks["x0"])
    if by_bins:
        areas *= tasks["stop_bin"] - tasks["first_bin"]
    assert areas.max() * 64 <= 4 * 2**20
    assert areas.sum() == height * width * (49 if by_bins else 1)


def test_adding_leaves_other_images_alone():
    """All steps but the first add to gradients, and leave other images alone."""
    boxes = all_of((50, 76), 20)
    boxes[:, 0] = 1
    for steps, images in ((1, {0, 1, 2}), (2, {1})):
        plan = planned("grad_input", boxes, 32, 2, max_boxes=10, steps=steps, images=3)
        assert set(tasks_of(plan)["image"]) == images


@pytest.mark.parametrize("threads", [2, 3, 8, 16])
@pytest.mark.parametrize("channels", [1, 3, 256, 2048])
@pytest.mark.parametrize("images", [1, 64])
def test_writing_is_even(images, channels, threads, rng):
    """Only rows of a map can be divided: up to 16 threads share 50 rows evenly."""
    boxes = random_work(rng, images, 1000)
    plan, tasks, used = work_of("grad_input", boxes, channels, threads, images=images)
    windows = plan.tables().windows
    assert used > 1
    costs = []
    for task in tasks:
        mine = windows[boxes_of(task)]
        rows = np.clip(
            np.minimum(mine[:, 1], task["y1"]) - np.maximum(mine[:, 0], task["y0"]), 0, None
        )
        costs.append((1.5 * rows * (mine[:, 3] - mine[:, 2])).sum() + size(rows_of(task)) * 76)
    assert most_loaded(costs, threads) <= 1.3


def test_little_work_is_done_by_one_thread(rng):
    boxes = random_work(rng, 1, 8, (32, 32))
    assert work_of("forward", boxes, 64, 16, extents=(32, 32))[2] == 1
    assert work_of("grad_input", boxes, 64, 16, extents=(32, 32))[2] == 1


SIDE = 28.0  # pixels of a box of the finest level of a pyramid


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


EXTENTS = ((200, 304), (100, 152), (50, 76), (25, 38))


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_levels_share_the_work(threads, rng):
    """Tasks cover all levels with boxes, and are even over all of them together."""
    counts = (700, 0, 200, 100)
    boxes = of_levels(rng, 2, counts)
    options = {"images": 2, "levels": EXTENTS}
    plan, tasks, used = work_of("forward", boxes, 256, threads, **options)
    assert used == threads
    tables = [plan.tables(level) if count else None for level, count in enumerate(counts)]
    costs = []
    done = [np.zeros((count, 16), int) for count in counts]
    for task in tasks:
        mine, of_level = boxes_of(task), tables[task["level"]]
        assert (boxes[of_level.rows[mine], 0] == task["image"]).all()
        done[task["level"]][mine, blocks_of(task)] += 1
        costs.append(box_cost(of_level.windows[mine]).sum() * size(blocks_of(task)))
    assert all((level == 1).all() for level in done)
    assert most_loaded(costs, threads) <= 1.3

    _, tasks, used = work_of("grad_input", boxes, 256, threads, **options)
    assert used == threads
    pixels = [np.zeros((2, 16, *extent), int) for extent in EXTENTS]
    for task in tasks:
        pixels[task["level"]][
            task["image"],
            blocks_of(task),
            rows_of(task),
            columns_of(task),
        ] += 1
    for level, count in zip(pixels, counts, strict=True):
        assert (level == (count > 0)).all()


def test_levels_that_are_little_work_each(rng):
    """The number of threads is chosen once, by the work of all levels."""
    for levels, threads in ((1, 1), (32, 8)):
        boxes = of_levels(rng, 2, (4,) * levels)
        plan, _, used = work_of("forward", boxes, 256, 8, images=2, levels=((32, 32),) * levels)
        assert [len(plan.tables(level).rows) for level in range(levels)] == [4] * levels
        assert used == threads


@pytest.mark.parametrize("purpose", ["forward", "grad_input", "grad_boxes"])
def test_steps_take_about_a_second(purpose):
    """Python looks for Ctrl-C between the steps of a plan, so none of them is long."""
    extents, boxes = (100, 152), 3000
    work = all_of(extents, boxes)
    plan = planned(purpose, work, 512, extents=extents)
    counts = [plan.tables().stop - plan.tables().first]
    while plan.next(boxes):
        counts.append(plan.tables().stop - plan.tables().first)
    assert sum(counts) == boxes
    assert max(counts) * (100 * 152 + 49) * (512 // LANES) <= 2**28
    small = planned(purpose, work[:500], 512, extents=extents)
    assert not small.next(boxes)
