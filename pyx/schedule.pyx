"""Schedule: who does what, decided before any thread starts and testable as plain arrays.

A task owns what it writes, so that no two tasks meet and the result does not depend on how many there are:

    reading tasks (forward, gradient of the boxes)  some boxes of one image x some channel blocks
    writing tasks (gradient of the input)           a rectangle of one image x some channel blocks, and every box in turn

A channel block is one lane vector of channels.  Position-sensitive operators read another channel in each bin: their
tasks are for some bins, of gradients of the input for a single one.
"""
from libc.math cimport INFINITY, ceil
from libc.stdint cimport INT32_MAX, int32_t, int64_t

import numpy as np

from lanes cimport LANE_BYTES, real
from tasks cimport COLUMNS, GATHERED, PARTS_OF_ROWS, ROWS, WINDOW
from tiles cimport RANGE_BYTES, TILE_BYTES

cdef enum:
    # Tasks are made this many times smaller than an even share, so that a dynamic schedule ends evenly
    TASKS_PER_THREAD = 4
    # Bins of a task of a position-sensitive operator, which fill a cache line of the result
    BINS_TOGETHER = 16
    # What packing a pixel of the window of a box costs, and of a single bin, in pixels of whole rows
    WINDOW_COST = 2
    NARROW_COST = 10
    # Pixels that are gathered: a level 2 cache, or half of one; and channel blocks of each, at least
    NEAR_PIXELS_BYTES = 2 << 20
    WIDE_BLOCKS = 8
    # Pixels of a row that is worth packing in parts, while the windows of its boxes leave pixels out: up to COVERING times its area
    WIDE = 128
    # Planes of the map that a task of the gradient of roi_pool writes to, here and there: half of a level 2 cache
    PLANES_BYTES = 1 << 19
    # Lane vectors' worth of work that is not worth waking a second thread for: about a tenth of a millisecond.  A team
    # costs microseconds on an idle machine, and milliseconds where the scheduler has no core for it.
    SERIAL_COST = 100000
    TILE_PIXELS = TILE_BYTES // LANE_BYTES
    # Boxes are sorted by place to this precision: rows, or bands of rows times columns
    BUCKETS = 1024
    FEW = 32                   # boxes that are sorted by insertion
    BANDS = 32
    BAND_ROWS = 32             # a few megabytes of map between a box and its lower neighbour in the next band


cdef double COVERING = 1.5


cdef double box_cost(const int32_t[:, ::1] windows, Py_ssize_t k, Py_ssize_t bins) noexcept nogil:
    """Vector operations per channel block, roughly: the pixels once or twice, the bins a few times."""
    return (1.5 * <double>(windows[k, 1] - windows[k, 0]) * (windows[k, 3] - windows[k, 2]) + 4.0 * bins)


cdef inline Py_ssize_t bucket(real edge, real scale, Py_ssize_t extent, Py_ssize_t size) noexcept nogil:
    cdef double pixel = <double>edge * scale
    return <Py_ssize_t>min(max(pixel, 0), <double>max(extent - 1, 0)) // size


cdef inline Py_ssize_t place(
        const real[:, :] coordinates, Py_ssize_t k, double scale, Py_ssize_t height, Py_ssize_t width, Py_ssize_t rows,
        Py_ssize_t columns, Py_ssize_t steps) noexcept nogil:
    """The bucket of a box, of BUCKETS: so many rows high and columns wide, `steps` beside each other."""
    return bucket(coordinates[k, 1], <real>scale, height, rows) * steps + bucket(coordinates[k, 0], <real>scale, width, columns)


def by_image_and_place(
        const int32_t[:] images, const real[:, :] coordinates, double scale, Py_ssize_t image_count, Py_ssize_t height,
        Py_ssize_t width, bint in_bands):
    """(order, starts): boxes sorted by image, then by place; image n has order[starts[n]:starts[n + 1]].

    Neighbours in this order read pixels that are still in cache.  By place means by top row, in which order rows are packed
    once for all boxes; or in_bands of rows, from left to right in each, for when nothing is packed.
    """
    cdef Py_ssize_t count = coordinates.shape[0], k, i
    starts_array = np.zeros(image_count + 1, np.intp)
    order_array = np.empty(count, np.int32)
    if count == 0:
        return order_array, starts_array
    cdef Py_ssize_t[::1] starts = starts_array
    cdef int32_t[::1] order = order_array
    cdef Py_ssize_t rows, columns, steps = BUCKETS // BANDS if in_bands else 1
    rows = (height + BUCKETS // steps - 1) // (BUCKETS // steps)
    if in_bands:
        rows = max(rows, <Py_ssize_t>BAND_ROWS)
    rows = max(rows, 1)
    columns = width // steps + 1
    cdef int64_t[FEW] keys
    cdef int64_t key
    if count <= FEW:           # by insertion; counting goes through all buckets
        for k in range(count):
            key = <int64_t>images[k] * BUCKETS + place(coordinates, k, scale, height, width, rows, columns, steps)
            starts[images[k] + 1] += 1
            i = k
            while i > 0 and keys[i - 1] > key:
                keys[i] = keys[i - 1]
                order[i] = order[i - 1]
                i -= 1
            keys[i] = key
            order[i] = <int32_t>k
        for i in range(image_count):
            starts[i + 1] += starts[i]
        return order_array, starts_array
    bucket_array = np.empty((2, count), np.int32)
    next_array = np.zeros(BUCKETS + 1, np.intp)
    cdef Py_ssize_t[::1] next_of_bucket = next_array
    cdef int32_t[::1] buckets = bucket_array[0], by_place = bucket_array[1]
    with nogil:
        for k in range(count):
            buckets[k] = <int32_t>place(coordinates, k, scale, height, width, rows, columns, steps)
            next_of_bucket[buckets[k] + 1] += 1
            starts[images[k] + 1] += 1
        for i in range(BUCKETS):
            next_of_bucket[i + 1] += next_of_bucket[i]
        for i in range(image_count):
            starts[i + 1] += starts[i]
        for k in range(count):
            by_place[next_of_bucket[buckets[k]]] = <int32_t>k
            next_of_bucket[buckets[k]] += 1
        for k in range(count):        # starts serve as cursors, and are moved back afterwards
            i = images[by_place[k]]
            order[starts[i]] = by_place[k]
            starts[i] += 1
        for i in range(image_count, 0, -1):
            starts[i] = starts[i - 1]
        starts[0] = 0
    return order_array, starts_array


cdef inline Py_ssize_t ceiling(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    """a / b, rounded up; C's division, which is in use here, rounds -a / b towards 0."""
    return (a + b - 1) // b


cdef Py_ssize_t block_count(Py_ssize_t channels, Py_ssize_t itemsize) noexcept:
    return ceiling(channels, LANE_BYTES // itemsize)


cdef rows_of(list tasks):
    """The array of tasks; np.array would look at each number twice, and ask each for its type."""
    array = np.empty((len(tasks), COLUMNS), np.int64)
    cdef int64_t[:, ::1] numbers = array
    cdef Py_ssize_t i, j
    cdef tuple task
    for i in range(len(tasks)):
        task = tasks[i]
        for j in range(COLUMNS):
            numbers[i, j] = task[j]
    return array


def reading(list levels, Py_ssize_t channels, Py_ssize_t itemsize, Py_ssize_t bins, bint by_bin, int threads):
    """(tasks (T, COLUMNS), threads) of the forward passes and of the gradient of the boxes.

    levels: (starts, windows, in_place, in_rows) of each; windows: of its boxes in their order; in_place: the channels of a pixel
    lie together, so that nothing is packed and a task may as well go through all blocks of a box; in_rows: the pixels of a row
    do; channels: of the output;
    by_bin: tasks are for some bins, each with channels of its own.
    """
    cdef Py_ssize_t blocks = block_count(channels, itemsize)
    cdef Py_ssize_t images, n, i, b, z, first, stop, position, block_pieces, near_pieces, groups = 1, most = INT32_MAX
    cdef int64_t y0, y1, x0, x1, tallest, mode
    cdef double largest, all_cost = 0, image_cost, area, hull, cost, share, seen
    cdef const Py_ssize_t[::1] starts
    cdef const int32_t[:, ::1] windows
    cdef bint in_place, in_rows
    for _, windows, _, _ in levels:
        for i in range(windows.shape[0]):
            all_cost += box_cost(windows, i, bins)
    if all_cost * blocks < SERIAL_COST:
        threads = 1
    # and a little more, lest rounding divides the boxes where the ranges of bins are such shares
    share = 1.001 * all_cost * blocks / (TASKS_PER_THREAD * threads) if threads > 1 else INFINITY
    if by_bin:
        groups = max(ceiling(bins, BINS_TOGETHER), min(bins, ceiling(TASKS_PER_THREAD * threads, blocks)))
        most = max(RANGE_BYTES // (LANE_BYTES * ceiling(bins, groups)), 1)
    tasks, costs = [], []
    for level, (starts, windows, in_place, in_rows) in enumerate(levels):
        images = starts.shape[0] - 1
        for n in range(images):
            if starts[n] == starts[n + 1]:
                continue
            y0 = x0 = 1 << 40
            y1 = x1 = tallest = 0
            area = largest = image_cost = 0
            for i in range(starts[n], starts[n + 1]):
                cost = box_cost(windows, i, bins)
                largest = max(largest, cost)
                image_cost += cost
                if windows[i, 0] == windows[i, 1] or windows[i, 2] == windows[i, 3]:
                    continue
                y0, y1 = min(y0, windows[i, 0]), max(y1, windows[i, 1])
                x0, x1 = min(x0, windows[i, 2]), max(x1, windows[i, 3])
                tallest = max(tallest, windows[i, 1] - windows[i, 0])
                area += <double>(windows[i, 1] - windows[i, 0]) * (windows[i, 3] - windows[i, 2])
            if y1 <= y0:
                y0 = y1 = x0 = x1 = 0
            # share rows between boxes where that packs less than every box's own window would; a pixel of a window costs as much as
            # some of whole rows, which are read in long runs
            mode = WINDOW
            cost = area * WINDOW_COST
            if by_bin:
                cost = area / bins * (NARROW_COST if in_rows else 1)
            hull = <double>(y1 - y0) * (x1 - x0)
            if not in_place and tallest * (x1 - x0) <= TILE_PIXELS and hull < cost:
                mode = PARTS_OF_ROWS if not by_bin and area < COVERING * hull and x1 - x0 >= WIDE else ROWS
            block_pieces = blocks
            if in_place and not by_bin:
                block_pieces = min(max(<Py_ssize_t>ceil(largest * blocks / share), 1), blocks)
                # gather as much of the map as stays in cache, where the boxes of a task go through it more than twice; not for too little of each
                # pixel, which would be read and written in short runs, and not of maps that are hardly larger than a cache
                near_pieces = max(block_pieces, <Py_ssize_t>ceil(hull * blocks * LANE_BYTES / NEAR_PIXELS_BYTES))
                if (channels * itemsize % LANE_BYTES == 0 and hull * WIDE_BLOCKS * LANE_BYTES <= NEAR_PIXELS_BYTES < hull * blocks * LANE_BYTES / 2
                        and area * min(share * near_pieces / (blocks * image_cost), 1) > 2 * hull):
                    block_pieces = near_pieces
                    mode = GATHERED
            position = starts[n]
            while position < starts[n + 1]:
                i = position
                seen = 0
                while i < min(starts[n + 1], position + most) and (i == position or (seen + box_cost(windows, i, bins)) * blocks / (block_pieces * groups) <= share):
                    seen += box_cost(windows, i, bins)
                    i += 1
                for b in range(block_pieces):
                    for z in range(groups):
                        first, stop = z * bins // groups, (z + 1) * bins // groups
                        tasks.append((n, position, i, b * blocks // block_pieces, (b + 1) * blocks // block_pieces, first if by_bin else -1, stop,
                                      mode, y0, y1, x0, x1, level))
                        costs.append(seen * (stop - first))
                position = i
    array = rows_of(tasks)
    if threads > 1:           # the largest first, so that the last to end are small
        array = array[np.argsort(np.negative(costs), kind="stable")]
    return array, min(threads, max(len(tasks), 1))


def writing(list levels, Py_ssize_t channels, Py_ssize_t itemsize, Py_ssize_t bins, bint by_bin, int threads, bint add, bint blocks_first):
    """(tasks (T, COLUMNS), threads) of the gradient of the input: rectangles that cover every image of every level.

    levels: (starts, windows, in_place, height, width) of each.
    blocks_first: a task goes through all bins of its blocks, whatever its rectangle, and so has all that it can.
    Without `add` images that have no box have tasks too, which write zeros.
    """
    cdef Py_ssize_t images, n, i, b, z, y, y0, x0, least, bands, most_rows, groups, columns, block_pieces, height, width
    cdef double cost, all_cost = 0, seen
    cdef Py_ssize_t blocks = block_count(channels, itemsize)
    cdef const Py_ssize_t[::1] starts
    cdef const int32_t[:, ::1] windows
    cdef double[::1] rows
    cdef bint in_place
    groups = bins if by_bin else 1
    for starts, windows, _, height, width in levels:
        all_cost += <double>(starts.shape[0] - 1) * height * width * groups
        for i in range(windows.shape[0]):
            all_cost += box_cost(windows, i, bins)
    if all_cost * blocks < SERIAL_COST:
        threads = 1
    tasks = []
    for level, (starts, windows, in_place, height, width) in enumerate(levels):
        images = starts.shape[0] - 1
        columns = max(min(width, TILE_PIXELS), 1)
        most_rows = max(min(height, TILE_PIXELS // columns), 1)
        block_pieces = blocks
        if blocks_first:
            # no more planes than stay in cache, since each box writes to all; the channels of a pixel are written to together
            block_pieces = min(blocks, max(<Py_ssize_t>threads, 1 if in_place else ceiling(blocks * height * width * LANE_BYTES, PLANES_BYTES)))
        elif in_place and not by_bin:
            block_pieces = 1
        # rows are split further only where images and blocks do not make tasks enough
        least = 1 if threads == 1 else ceiling((1 if blocks_first else TASKS_PER_THREAD) * threads, max(images * block_pieces * groups, 1))
        rows = np.zeros(height + 1)
        for n in range(images):
            if starts[n] == starts[n + 1]:
                if not add:
                    tasks.extend((n, 0, 0, 0, blocks, z if by_bin else -1, z + 1, 0, 0, height, 0, width, level) for z in range(groups))
                continue
            bands = max(least, ceiling(height, most_rows))
            if bands > 1:
                # bands of equal work: the rows that boxes cover, and the writing of each row
                rows[:] = 0
                for i in range(starts[n], starts[n + 1]):
                    rows[windows[i, 0]] += windows[i, 3] - windows[i, 2]
                    rows[windows[i, 1]] -= windows[i, 3] - windows[i, 2]
                all_cost = cost = 0
                for y in range(height):
                    cost += rows[y]
                    rows[y] = 1.5 * cost + width
                    all_cost += rows[y]
            y0 = y = 0
            seen = 0
            while y0 < height:
                if bands == 1:
                    y = height
                else:
                    while y < height and y - y0 < most_rows:
                        seen += rows[y]
                        y += 1
                        if seen >= all_cost / bands:
                            break
                    seen = 0
                for x0 in range(0, width, columns):
                    for b in range(block_pieces):
                        for z in range(groups):
                            tasks.append((n, starts[n], starts[n + 1], b * blocks // block_pieces, (b + 1) * blocks // block_pieces,
                                          z if by_bin else -1, z + 1, 0, y0, y, x0, min(x0 + columns, width), level))
                y0 = y
    return rows_of(tasks), min(threads, max(len(tasks), 1))
