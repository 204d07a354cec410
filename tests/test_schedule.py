"""Tasks: everything is done once, by one task, and in shares that are even."""

import numpy as np
import pytest
from conftest import random_boxes

from roicy._kernels import geometry, schedule

IMAGE, FIRST, STOP, BLOCK_FIRST, BLOCK_STOP, BIN, BIN_STOP, MODE, Y0, Y1, X0, X1, LEVEL = range(13)
BINS = (7, 7)
# images, boxes, channels
LOADS = [
    (images, boxes, channels)
    for channels in (1, 3, 256, 2048)
    for images, boxes in ((1, 1000), (64, 1000), (64, 64), (1, 1))
]

# what tasks read: images, boxes, channels; whether the channels of a pixel lie together, and of
# which type (whole blocks of a small one are widened before they are read); whether each bin
# has channels of its own
READ = [
    (*load, *lie)
    for load in LOADS
    for lie in (
        (False, "f", False),
        (True, "f", False),
        (True, "e", False),
        (False, "f", True),
        (True, "f", True),
    )
    if lie[1] == "f" or load[2] % 16 == 0
]


def plan(rng, images, count, extents=(50, 76)):
    """Boxes in order: (image of each, their tables, windows)."""
    boxes = random_boxes(rng, images, count, extents, np.float32)
    if count == images:
        boxes[:, 0] = np.arange(images)
    rule = geometry.sampled(2, False, True)
    tables = geometry.tables["float"](
        boxes[:, 0].astype(np.int32),
        boxes[:, 1:],
        None,
        images,
        rule,
        BINS,
        extents,
        1.0,
        2**31,
        None,
        False,
        2**31,
        1,
    )
    arrays = tables.arrays()
    assert sorted(arrays.order) == list(range(count))
    return boxes[arrays.order, 0].astype(int), tables, arrays.windows


def rectangle(windows):
    """[y0, y1, x0, x1] around those that have pixels."""
    windows = windows[(windows[:, 0] < windows[:, 1]) & (windows[:, 2] < windows[:, 3])]
    return (
        [windows[:, 0].min(), windows[:, 1].max(), windows[:, 2].min(), windows[:, 3].max()]
        if len(windows)
        else [0, 0, 0, 0]
    )


def level(tables, channels_last=False, by_bin=False, kind="f"):
    """What the schedule gets to know of maps and boxes."""
    return None, kind, channels_last and not by_bin, not channels_last, tables


@pytest.mark.parametrize("slopes", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 5, 128])
@pytest.mark.parametrize(("images", "count", "channels", "channels_last", "kind", "by_bin"), READ)
def test_reading_covers_everything_once(
    images, count, channels, threads, channels_last, kind, by_bin, slopes, rng
):
    if by_bin:
        channels = min(channels, 100)
    of_box, tables, windows = plan(rng, images, count)
    tasks, used = schedule.reading(
        [level(tables, channels_last, by_bin, kind)], channels, 4, 49, by_bin, threads, slopes
    )
    assert 1 <= used <= threads
    blocks = -(-channels // 16)
    most = 8 if slopes and not by_bin else 1  # blocks that are summed together
    done = np.zeros((count, blocks, 49 if by_bin else 1), int)
    for task in tasks:
        mine = slice(task[FIRST], task[STOP])
        assert (of_box[mine] == task[IMAGE]).all()
        done[
            mine,
            task[BLOCK_FIRST] : task[BLOCK_STOP],
            slice(task[BIN], task[BIN_STOP]) if by_bin else 0,
        ] += 1
        assert (task[BIN] >= 0) == by_bin
        assert task[BLOCK_FIRST] % most == 0 or task[BLOCK_FIRST] == channels // 16
        assert task[BLOCK_STOP] % most == 0 or task[BLOCK_STOP] in (blocks, channels // 16)
        # what a task computes of several boxes has room in a megabyte
        assert not by_bin or (task[STOP] - task[FIRST]) * (task[BIN_STOP] - task[BIN]) * 64 <= 2**20
        around = rectangle(windows[mine])
        if not channels_last and 16 * (76 - (around[3] - around[2])) <= 76:
            around[2:] = 0, 76  # rows that lie end to end
        assert list(task[[Y0, Y1, X0, X1]]) == around
        if task[MODE] == 3:
            assert channels_last and kind == "e" and not by_bin
        elif task[MODE] > 0:
            gathered = task[MODE] == 2
            assert channels_last if gathered else by_bin or not channels_last
            assert task[BLOCK_STOP] <= task[BLOCK_FIRST] + most or (gathered and not by_bin)
            together = (
                task[BIN_STOP] - task[BIN] if by_bin else task[BLOCK_STOP] - task[BLOCK_FIRST]
            )
            assert (
                not gathered
                or together * (task[Y1] - task[Y0]) * (task[X1] - task[X0]) * 64 <= 4 << 20
            )
    assert (done == 1).all()


@pytest.mark.parametrize(
    ("count", "extents", "mode"), [(300, (50, 76), 2), (300, (60, 80), 3), (2, (50, 76), 3)]
)
def test_small_types_are_widened_once_while_there_is_room(count, extents, mode, rng):
    """And where boxes read more pixels than lie around them; else for each box."""
    boxes = np.tile(
        np.array(
            [[-0.5, -0.5, 5, 5], [extents[1] - 5, extents[0] - 5, extents[1], extents[0]]],
            np.float32,
        ),
        (count // 2, 1),
    )
    rule = geometry.sampled(2, False, True)
    tables = geometry.tables["float"](
        np.zeros(count, np.int32),
        boxes,
        None,
        1,
        rule,
        BINS,
        extents,
        1.0,
        0,
        None,
        False,
        2**31,
        1,
    )
    tasks, _ = schedule.reading([level(tables, True, kind="e")], 256, 4, 49, False, 1)
    assert (tasks[:, MODE] == mode).all()


@pytest.mark.parametrize(("threads", "slopes"), [(1, False), (2, False), (1, True)])
def test_tall_boxes_do_not_keep_others_from_sharing_rows(threads, slopes, rng):
    extents, count, side = (300, 400), 400, 18 if slopes else 35
    low = rng.uniform((0, 0), (extents[1] - side, extents[0] - side), (count, 2))
    boxes = np.column_stack([low, low + rng.uniform(side / 2, side, (count, 2))]).astype(np.float32)
    boxes[::99, 1], boxes[::99, 3] = 5, 290
    boxes[0, [0, 2]], boxes[99, [0, 2]] = (0, 9), (390, 399)
    most_rows = schedule.most_rows(extents[1], slopes)
    assert most_rows == (40 if slopes else 163)
    rule = geometry.sampled(2, False, True)
    tables = geometry.tables["float"](
        np.zeros(count, np.int32),
        boxes,
        None,
        1,
        rule,
        BINS,
        extents,
        1.0,
        most_rows,
        None,
        slopes,
        2**31,
        1,
    )
    tasks, _ = schedule.reading([level(tables, False)], 128, 4, 49, False, threads, slopes)
    sharing = np.zeros(count, bool)
    for task in tasks[tasks[:, MODE] == 1]:
        sharing[tables.rows()[task[FIRST] : task[STOP]]] = True
    assert np.flatnonzero(~sharing).tolist() == list(range(0, count, 99))


@pytest.mark.parametrize(("rows", "sharing"), [(15, True), (30, False)])
def test_boxes_that_take_most_of_the_tile_do_not_share_rows(rows, sharing, rng):
    """Each would move it; boxes of as many pixels that do not are better off together."""
    low = rng.uniform((0, 0), (400 - 450 // rows, 300 - rows), (200, 2))
    boxes = np.column_stack([low, low + np.array([450 / rows, rows])]).astype(np.float32)
    tables = geometry.tables["float"](
        np.zeros(200, np.int32),
        boxes,
        None,
        1,
        geometry.INTEGRATED_RULE,
        BINS,
        (300, 400),
        1.0,
        40,
        None,
        True,
        2**31,
        1,
    )
    tasks, _ = schedule.reading([level(tables, False)], 128, 4, 49, False, 1, True)
    assert (tasks[:, MODE] == sharing).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("channels", "extents", "most"),
    [
        (256, (100, 152), 2),
        (256, (200, 304), 1),
        (256, (256, 257), None),
        (128, (200, 304), 1),
        (112, (200, 304), None),
        (1024, (60, 90), 7),
        (250, (100, 152), None),
    ],
)
def test_pixels_of_large_boxes_are_gathered_while_there_is_room(channels, extents, most, threads):
    """Boxes of the whole map, of 8 blocks of channels and more."""
    boxes = np.tile(np.array([[0, 0, extents[1], extents[0]]], np.float32), (40, 1))
    tables = geometry.tables["float"](
        np.zeros(40, np.int32),
        boxes,
        None,
        1,
        geometry.INTEGRATED_RULE,
        BINS,
        extents,
        1.0,
        0,
        None,
        False,
        2**31,
        1,
    )
    tasks, _ = schedule.reading([level(tables, True)], channels, 4, 49, False, threads)
    assert (tasks[:, MODE] == (0 if most is None else 2)).all()
    blocks = tasks[:, BLOCK_STOP] - tasks[:, BLOCK_FIRST]
    assert most is None or (
        blocks.max() <= most and blocks.max() * extents[0] * extents[1] * 64 <= 4 << 20
    )
    slopes, _ = schedule.reading([level(tables, True)], channels, 4, 49, False, threads, True)
    assert (slopes[:, MODE] == 0).all()


@pytest.mark.parametrize(
    ("extents", "most"),
    [((50, 76), 16), ((100, 152), 4), ((128, 128), 4), ((128, 129), None), ((200, 304), None)],
)
@pytest.mark.parametrize("channels_last", [False, True])
def test_bins_of_a_pixel_are_gathered_while_there_is_room(extents, most, channels_last, rng):
    _, tables, _ = plan(rng, 1, 4000, extents)
    tasks, _ = schedule.reading([level(tables, channels_last, True)], 10, 4, 49, True, 1)
    if not channels_last or most is None:
        assert (tasks[:, MODE] < 2).all()
        return
    assert (tasks[:, MODE] == 2).all()
    bins = tasks[:, BIN_STOP] - tasks[:, BIN]
    assert 3 <= bins.min() and bins.max() <= most


def test_few_boxes_are_not_worth_gathering(rng):
    _, tables, _ = plan(rng, 1, 1)
    tasks, _ = schedule.reading([level(tables, True, True)], 10, 4, 49, True, 1)
    assert (tasks[:, MODE] == 0).all()


@pytest.mark.parametrize("by_bin", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 128])
@pytest.mark.parametrize(
    ("images", "count", "channels"), [load for load in LOADS if load[2] != 2048]
)
def test_writing_covers_every_pixel_once(
    images, count, channels, threads, channels_last, by_bin, rng
):
    _, tables, _ = plan(rng, images, count)
    starts = tables.arrays().starts
    tasks, used = schedule.writing(
        [level(tables, channels_last, by_bin)], channels, 4, 49, by_bin, threads, False, False
    )
    assert 1 <= used <= threads
    blocks = -(-channels // 16)
    pixels = np.zeros((images, blocks, 49 if by_bin else 1, 50, 76), np.int8)
    for task in tasks:
        assert (task[BIN] >= 0) == by_bin
        bins = slice(task[BIN], task[BIN_STOP]) if by_bin else 0
        assert not by_bin or task[BIN_STOP] == task[BIN] + 1 or (task[MODE] == 2 and channels_last)
        pixels[
            task[IMAGE],
            task[BLOCK_FIRST] : task[BLOCK_STOP],
            bins,
            task[Y0] : task[Y1],
            task[X0] : task[X1],
        ] += 1
        assert task[FIRST] == task[STOP] or (task[FIRST], task[STOP]) == (
            starts[task[IMAGE]],
            starts[task[IMAGE] + 1],
        )
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
@pytest.mark.parametrize("by_bin", [False, True])
def test_writing_is_bounded_by_the_tile(extents, by_bin, threads):
    height, width = extents
    tables = geometry.everywhere(np.zeros(1, np.int32), 1, extents)
    tasks, _ = schedule.writing(
        [level(tables, by_bin, by_bin)], 1, 4, 49, by_bin, threads, False, False
    )
    areas = (tasks[:, Y1] - tasks[:, Y0]) * (tasks[:, X1] - tasks[:, X0])
    if by_bin:
        areas *= tasks[:, BIN_STOP] - tasks[:, BIN]
    assert areas.max() * 64 <= 4 * 2**20
    assert areas.sum() == height * width * (49 if by_bin else 1)


@pytest.mark.parametrize("extents", [(50, 76), (256, 257), (300, 400)])
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("channels_last", [False, True])
def test_threads_that_share_pixels_have_tiles(extents, threads, channels_last, rng):
    """
    Of the gradient of roi_pool, whose tasks go through all bins of their blocks; as far as
    there is room.
    """
    _, tables, _ = plan(rng, 1, 300, extents)
    tasks, _ = schedule.writing(
        [level(tables, channels_last)], 60, 4, 49, False, threads, False, True
    )
    pixels = np.zeros((4, *extents), np.int8)
    for task in tasks:
        pixels[task[BLOCK_FIRST] : task[BLOCK_STOP], task[Y0] : task[Y1], task[X0] : task[X1]] += 1
        assert (task[X0], task[X1]) == (0, extents[1])
    assert (pixels == 1).all()
    room = (
        (tasks[:, Y1] - tasks[:, Y0])
        * extents[1]
        * (tasks[:, BLOCK_STOP] - tasks[:, BLOCK_FIRST])
        * 64
    )
    have_tiles = tasks[:, MODE] == 2
    assert (
        have_tiles.all()
        if channels_last and threads > 1 and extents == (50, 76)
        else not have_tiles.any()
    )
    assert (room[have_tiles] <= 4 * 2**20).all()


def test_adding_leaves_other_images_alone(rng):
    tables = geometry.everywhere(np.ones(20, np.int32), 3, (50, 76))
    tasks, _ = schedule.writing([level(tables)], 32, 4, 49, False, 2, True, False)
    assert set(tasks[:, IMAGE]) == {1}


def box_cost(windows):
    return 1.5 * (windows[:, 1] - windows[:, 0]) * (windows[:, 3] - windows[:, 2]) + 4.0 * 49


def most_loaded(costs, threads):
    """
    The load of the busiest thread when each takes the next task as it becomes free, over the
    mean.
    """
    loads = np.zeros(threads)
    for cost in costs:
        loads[loads.argmin()] += cost
    return loads.max() / loads.mean()


@pytest.mark.parametrize("slopes", [False, True])
@pytest.mark.parametrize("threads", [2, 3, 8, 16, 32, 64, 128])
@pytest.mark.parametrize(("images", "count", "channels", "channels_last", "kind", "by_bin"), READ)
def test_reading_is_even(
    images, count, channels, channels_last, kind, by_bin, threads, slopes, rng
):
    """
    Boxes of any size are divisible among so many threads, down to one channel block, or a group
    of eight, of the largest.
    """
    _, tables, windows = plan(rng, images, count)
    tasks, used = schedule.reading(
        [level(tables, channels_last, by_bin, kind)], channels, 4, 49, by_bin, threads, slopes
    )
    if used == 1:
        assert box_cost(windows).sum() * -(-channels // 16) * (10 if by_bin else 1) < 100000
        return
    costs = [
        box_cost(windows[task[FIRST] : task[STOP]]).sum()
        * (task[BLOCK_STOP] - task[BLOCK_FIRST])
        * (task[BIN_STOP] - task[BIN] if by_bin else 1)
        for task in tasks
    ]
    one_box = box_cost(windows).max() * threads / sum(costs)
    if slopes and not by_bin:
        one_box *= min(max(channels // 16, 1), 8)
    assert most_loaded(costs, threads) <= max(1.3, one_box)


@pytest.mark.parametrize("threads", [2, 3, 8, 16])
@pytest.mark.parametrize("channels", [1, 3, 256, 2048])
@pytest.mark.parametrize("images", [1, 64])
def test_writing_is_even(images, channels, threads, rng):
    """Rows of a map are what can be divided: 50 of them, and every box, among up to 16 threads."""
    _, tables, windows = plan(rng, images, 1000)
    tasks, used = schedule.writing([level(tables)], channels, 4, 49, False, threads, False, False)
    assert used > 1
    costs = []
    for task in tasks:
        mine = windows[task[FIRST] : task[STOP]]
        rows = np.clip(np.minimum(mine[:, 1], task[Y1]) - np.maximum(mine[:, 0], task[Y0]), 0, None)
        costs.append((1.5 * rows * (mine[:, 3] - mine[:, 2])).sum() + (task[Y1] - task[Y0]) * 76)
    assert most_loaded(costs, threads) <= 1.3


def test_little_work_is_done_by_one_thread(rng):
    _, tables, _ = plan(rng, 1, 8, (32, 32))
    assert schedule.reading([level(tables)], 64, 4, 49, False, 16)[1] == 1
    assert schedule.writing([level(tables)], 64, 4, 49, False, 16, False, False)[1] == 1


def pyramid(rng, extents=((200, 304), (100, 152), (50, 76), (25, 38)), counts=(700, 0, 200, 100)):
    """What the schedule gets to know of levels of which one has no boxes (and is left out)."""
    return [
        (extent, *plan(rng, 2, count, extent))
        for extent, count in zip(extents, counts, strict=True)
        if count
    ]


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_levels_share_the_work(threads, rng):
    """All levels are covered, by tasks that are even over all of them together."""
    levels = pyramid(rng)
    tasks, used = schedule.reading(
        [level(tables) for _, _, tables, _ in levels], 256, 4, 49, False, threads
    )
    assert used == threads
    costs = []
    done = [np.zeros((len(windows), 16), int) for _, _, _, windows in levels]
    for task in tasks:
        _, of_box, _, windows = levels[task[LEVEL]]
        mine = slice(task[FIRST], task[STOP])
        assert (of_box[mine] == task[IMAGE]).all()
        done[task[LEVEL]][mine, task[BLOCK_FIRST] : task[BLOCK_STOP]] += 1
        costs.append(box_cost(windows[mine]).sum() * (task[BLOCK_STOP] - task[BLOCK_FIRST]))
    assert all((level == 1).all() for level in done)
    assert most_loaded(costs, threads) <= 1.3

    tasks, used = schedule.writing(
        [level(tables) for _, _, tables, _ in levels], 256, 4, 49, False, threads, False, False
    )
    assert used == threads
    pixels = [np.zeros((2, 16, *extent), int) for extent, *_ in levels]
    for task in tasks:
        pixels[task[LEVEL]][
            task[IMAGE],
            task[BLOCK_FIRST] : task[BLOCK_STOP],
            task[Y0] : task[Y1],
            task[X0] : task[X1],
        ] += 1
    assert all((level == 1).all() for level in pixels)


def test_levels_that_are_little_work_each(rng):
    """Whether threads are worth waking is asked once, of all levels."""
    levels = [level(tables) for _, _, tables, _ in pyramid(rng, ((32, 32),) * 4, (4, 4, 4, 4))]
    assert schedule.reading(levels[:1], 256, 4, 49, False, 8)[1] == 1
    assert schedule.reading(levels * 8, 256, 4, 49, False, 8)[1] == 8
