"""Schedule: who does what, decided before any thread starts and testable as plain arrays.

A task owns what it writes, so that no two tasks meet and the result does not depend on how many there are:

    reading tasks (forward, gradient of the boxes)  some boxes of one image x some channel blocks
    writing tasks (gradient of the input)           a rectangle of one image x some channel blocks, and every box in turn

A channel block is one lane vector of channels.  Position-sensitive operators read another channel in each bin: their
tasks are for some bins, of gradients of the input for a single one.
"""
from libc.math cimport INFINITY, ceil
from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.stdlib cimport free, qsort, realloc
from libc.string cimport memcpy

import numpy as np

from simd.simd cimport LANE_BYTES
from roicy._kernels.geometry cimport Tables
from tasks cimport (BIN, BIN_STOP, BLOCK_FIRST, BLOCK_STOP, COLUMNS, EACH, FIRST, GATHERED, IMAGE, LEVEL, MODE, ROWS, STOP, WINDOW, X0,
                    X1, Y0, Y1)
from tiles cimport BINS_TOGETHER, RANGE_BYTES, SLOPE_BLOCKS, TILE_BYTES, slope_blocks_from, slope_pixels

cdef enum:
    # Tasks are made this many times smaller than an even share, so that a dynamic schedule ends evenly
    TASKS_PER_THREAD = 4
    # What a pixel of a single bin costs, in pixels of whole rows
    NARROW_COST = 10
    # Channels last, bins that are worth gathering together, and what a pixel of them all costs, in pixels of single bins
    GATHERED_BINS = 4
    GATHERED_COST = 3
    # Pixels that are gathered: a level 2 cache, or half of one; and channel blocks of each, at least
    NEAR_PIXELS_BYTES = 2 << 20
    WIDE_BLOCKS = 8
    # A window of so many bytes, all channels of it, comes from memory, and not from a level 3 cache, each time that a box reads it
    FAR_WINDOW_BYTES = 8 << 20
    # Planes of the map that a task of the gradient of roi_pool writes to, here and there: half of a small level 2 cache
    PLANES_BYTES = 1 << 18
    # Rows are read whole if boxes leave out no more than one in so many of their pixels
    WHOLE_ROWS = 16
    # Lane vectors' worth of work that is not worth waking a second thread for: about a tenth of a millisecond.  A team
    # costs microseconds on an idle machine, and milliseconds where the scheduler has no core for it.
    SERIAL_COST = 100000
    TILE_PIXELS = TILE_BYTES // LANE_BYTES

cdef double MOVED = 0.25           # what moving a pixel of a tile costs, of packing it


cdef inline double box_cost(const int32_t *window, Py_ssize_t bins) noexcept nogil:
    """Vector operations per channel block, roughly: the pixels once or twice, the bins a few times."""
    return 1.5 * <double>(window[1] - window[0]) * (window[3] - window[2]) + 4.0 * bins


cdef double boxes_cost(Tables tables, Py_ssize_t bins):
    cdef Py_ssize_t i
    cdef double cost = 0
    for i in range(len(tables)):
        cost += box_cost(tables.windows + 4 * i, bins)
    return cost


cdef struct Covered:           # by the windows of some boxes
    Py_ssize_t y0              # the rectangle around all of them
    Py_ssize_t y1
    Py_ssize_t x0
    Py_ssize_t x1
    double hull                # pixels of it
    double area                # pixels of the windows, added up
    double rows                # of them, likewise
    Py_ssize_t tallest
    double cost
    double largest             # cost of one box


cdef Covered covered_by(const int32_t *windows, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t bins, Py_ssize_t row) noexcept nogil:
    """Boxes first..stop-1.  row: pixels of a row of the map, if rows lie end to end: nearly whole ones become whole, a single run; or else 0."""
    cdef Covered all
    cdef Py_ssize_t i
    cdef double cost
    cdef const int32_t *w
    all.y0 = all.x0 = INT32_MAX
    all.y1 = all.x1 = all.tallest = 0
    all.area = all.rows = all.cost = all.largest = 0
    for i in range(first, stop):
        w = windows + 4 * i
        cost = box_cost(w, bins)
        all.cost += cost
        all.largest = max(all.largest, cost)
        if w[0] < w[1] and w[2] < w[3]:
            all.y0, all.y1 = min(all.y0, w[0]), max(all.y1, w[1])
            all.x0, all.x1 = min(all.x0, w[2]), max(all.x1, w[3])
            all.tallest = max(all.tallest, w[1] - w[0])
            all.area += <double>(w[1] - w[0]) * (w[3] - w[2])
            all.rows += w[1] - w[0]
    if all.y1 == 0:
        all.y0 = all.x0 = 0
    if row > 0 and WHOLE_ROWS * (row - (all.x1 - all.x0)) <= row:
        all.x0, all.x1 = 0, row
    all.hull = <double>(all.y1 - all.y0) * (all.x1 - all.x0)
    return all


cdef inline double windows_cost(const Covered *some, Py_ssize_t line) noexcept nogil:
    """What packing each window by itself costs, in pixels of whole rows: they are read in long runs, and not in short ones, each with a part of
    a cache line, of so many pixels, that is for nothing."""
    return 1.5 * (some.area + some.rows * line)


cdef double rows_cost(const Covered *some, const int32_t *windows, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t tile_pixels) noexcept nogil:
    """What packing whole rows costs: each of them once, and where the tile has not room for all, it is moved for most boxes that take half of it."""
    cdef Py_ssize_t i
    cdef double cost = some.hull
    for i in range(first, stop if some.hull > tile_pixels else first):
        if 2 * (windows[4 * i + 1] - windows[4 * i]) * (some.x1 - some.x0) > tile_pixels:
            cost += MOVED * tile_pixels
    return cost


cdef inline Py_ssize_t ceiling(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    """a / b, rounded up; C's division, which is in use here, rounds -a / b towards 0."""
    return (a + b - 1) // b


cdef Py_ssize_t block_count(Py_ssize_t channels, Py_ssize_t itemsize) noexcept:
    return ceiling(channels, LANE_BYTES // itemsize)


cdef struct Share:
    double cost
    Py_ssize_t task


cdef int larger_first(const void *one, const void *other) noexcept nogil:
    """For qsort; in their order where they cost as much."""
    cdef const Share *a = <const Share*>one
    cdef const Share *b = <const Share*>other
    if a.cost != b.cost:
        return -1 if a.cost > b.cost else 1
    return (a.task > b.task) - (a.task < b.task)


cdef class Tasks:
    """A list of tasks that grows."""
    cdef int64_t *numbers          # [count][COLUMNS]
    cdef Share *shares             # [count]
    cdef Py_ssize_t count
    cdef Py_ssize_t room

    def __dealloc__(self):
        free(self.numbers)
        free(self.shares)

    cdef int add(
            self, int64_t image, int64_t first, int64_t stop, int64_t block_first, int64_t block_stop, int64_t bin, int64_t bin_stop, int64_t mode,
            int64_t y0, int64_t y1, int64_t x0, int64_t x1, int64_t level, double cost) except -1:
        cdef int64_t *task
        cdef void *numbers
        cdef void *shares
        if self.count == self.room:
            numbers = realloc(self.numbers, (2 * self.room + 8) * COLUMNS * sizeof(int64_t))
            self.numbers = self.numbers if numbers == NULL else <int64_t*>numbers
            shares = realloc(self.shares, (2 * self.room + 8) * sizeof(Share))
            self.shares = self.shares if shares == NULL else <Share*>shares
            if numbers == NULL or shares == NULL:
                raise MemoryError(f"no room for {self.count + 1} tasks")
            self.room = 2 * self.room + 8
        task = self.numbers + self.count * COLUMNS
        task[IMAGE], task[FIRST], task[STOP], task[BLOCK_FIRST], task[BLOCK_STOP] = image, first, stop, block_first, block_stop
        task[BIN], task[BIN_STOP], task[MODE], task[LEVEL] = bin, bin_stop, mode, level
        task[Y0], task[Y1], task[X0], task[X1] = y0, y1, x0, x1
        self.shares[self.count].cost, self.shares[self.count].task = cost, self.count
        self.count += 1
        return 0

    cdef array(self, bint sort=False):
        """All of them, (T, COLUMNS); sort: the largest first, so that the last to end are small."""
        made = np.empty((self.count, COLUMNS), np.int64)
        cdef int64_t[:, ::1] numbers = made
        cdef Py_ssize_t i
        if sort and self.count > 1:      # NumPy's sort takes 5 microseconds, and 50 where kernels have pushed it out of the caches
            qsort(self.shares, self.count, sizeof(Share), larger_first)
        for i in range(self.count):
            memcpy(&numbers[i, 0], self.numbers + self.shares[i].task * COLUMNS, COLUMNS * sizeof(int64_t))
        return made


cdef inline Py_ssize_t first_block(Py_ssize_t piece, Py_ssize_t pieces, Py_ssize_t blocks, Py_ssize_t whole) noexcept:
    """Of a piece of the blocks: one block, or a group of which gradients of the boxes are summed together."""
    if pieces == blocks:
        return piece
    return blocks if piece == pieces else min(piece * SLOPE_BLOCKS, whole)


cpdef Py_ssize_t most_rows(Py_ssize_t width, bint slopes) noexcept:
    """Of how many rows of a map boxes may be, if rows are to be packed once for all of them; at least 1."""
    return max((slope_pixels(SLOPE_BLOCKS) if slopes else <Py_ssize_t>TILE_PIXELS) // max(width, 1), 1)


cpdef tuple reading(list levels, Py_ssize_t channels, Py_ssize_t itemsize, Py_ssize_t bins, bint by_bin, int threads, bint slopes=False):
    """(tasks (T, COLUMNS), threads) of the forward passes and, slopes, of the gradient of the boxes.

    levels: (_, dtype character, in_pixels, in_rows, tables) of each; in_pixels: the channels of a pixel lie together, so that a task may
    as well go through all blocks of a box, and nothing is packed, but widened if it is of a small type; in_rows: the pixels of a row do;
    channels: of the output;
    by_bin: tasks are for some bins, each with channels of its own.
    """
    cdef Py_ssize_t blocks = block_count(channels, itemsize), whole = channels // (LANE_BYTES // itemsize), pieces = blocks
    cdef Py_ssize_t tile_pixels = TILE_PIXELS
    cdef Py_ssize_t n, i, b, z, first, stop, block, block_stop, position, end, tall, block_pieces, part_pieces, near_pieces, groups, together, row
    cdef Py_ssize_t all_groups = 1, most = INT32_MAX
    cdef int64_t mode
    cdef double all_cost = 0, bin_cost, share, seen, cost
    cdef Py_ssize_t level
    cdef const Py_ssize_t *starts
    cdef const int32_t *windows
    cdef Covered image, part
    cdef Tables tables
    cdef Tasks tasks = Tasks()
    cdef bint in_pixels, widened, in_rows, gathered, far
    cdef Py_UCS4 kind
    for _, _, _, _, tables in levels:
        all_cost += boxes_cost(tables, bins)
    if all_cost * blocks * (NARROW_COST if by_bin else 1) < SERIAL_COST:
        threads = 1
    # and a little more, lest rounding divides the boxes where the ranges of bins are such shares
    share = 1.001 * all_cost * blocks / (TASKS_PER_THREAD * threads) if threads > 1 else INFINITY
    if slopes and not by_bin:      # a task has whole groups of blocks
        pieces = ceiling(whole, SLOPE_BLOCKS) + blocks - whole
        tile_pixels = slope_pixels(slope_blocks_from(0, whole))
    if by_bin:
        all_groups = max(ceiling(bins, BINS_TOGETHER), min(bins, ceiling(TASKS_PER_THREAD * threads, blocks)))
    for level, (_, kind, in_pixels, in_rows, tables) in enumerate(levels):
        starts, windows = tables.starts, tables.windows
        row = tables.width if in_rows else 0
        widened = in_pixels and kind != u'f' and kind != u'd'
        bin_cost = <double>(NARROW_COST if in_rows else 1) / bins      # of a pixel, if each bin packs those that it reads
        for n in range(tables.order.images):
            if starts[n] == starts[n + 1]:
                continue
            image = covered_by(windows, starts[n], starts[n + 1], bins, row)
            block_pieces, groups, gathered = pieces, all_groups, False
            # those that the tile has no room for follow on all others, which else would not share rows for their sake
            tall = starts[n]
            while tall < starts[n + 1] and (windows[4 * tall + 1] - windows[4 * tall]) * (image.x1 - image.x0) <= tile_pixels:
                tall += 1
            if by_bin:
                if not in_rows and 0 < image.hull <= TILE_PIXELS:
                    # as many bins as have room for their tiles
                    near_pieces = max(groups, ceiling(bins, TILE_PIXELS // <Py_ssize_t>image.hull))
                    together = ceiling(bins, near_pieces)
                    if together >= GATHERED_BINS and GATHERED_COST * image.hull < image.area * bin_cost * together:
                        groups = near_pieces
                        gathered = True
                most = max(RANGE_BYTES // (LANE_BYTES * ceiling(bins, groups)), 1)
            elif in_pixels:
                block_pieces = 1
                # gather as much of the map as stays in cache, where the boxes of a task go through it more than four times, or once if it has to be
                # widened; not for too little of each pixel, which would be read and written in short runs, but for boxes that are large, and not of
                # maps that are hardly larger than a cache; nor if there are gradients to be read, which then come in short runs from memory
                far = (not slopes and blocks >= WIDE_BLOCKS and image.hull <= TILE_PIXELS
                       and image.area * blocks * LANE_BYTES > <double>FAR_WINDOW_BYTES * (starts[n + 1] - starts[n]))
                near_pieces = max(<Py_ssize_t>ceil(image.largest * blocks / share), <Py_ssize_t>ceil(image.hull * blocks * LANE_BYTES / NEAR_PIXELS_BYTES))
                near_pieces = min(near_pieces, pieces)
                if (channels * itemsize % LANE_BYTES == 0 and (far or image.hull * WIDE_BLOCKS * LANE_BYTES <= NEAR_PIXELS_BYTES)
                        and (widened or not slopes and NEAR_PIXELS_BYTES < image.hull * blocks * LANE_BYTES / 2)
                        and image.area * min(share * near_pieces / (blocks * image.cost), 1) > (1 if widened else 4) * image.hull):
                    block_pieces = near_pieces
                    gathered = True
            position = starts[n]
            while position < starts[n + 1]:
                i = position
                seen = 0
                end = starts[n + 1] if in_pixels or position >= tall else tall
                while i < min(end, position + most) and (i == position or (seen + box_cost(windows + 4 * i, bins)) * blocks / (block_pieces * groups) <= share):
                    seen += box_cost(windows + 4 * i, bins)
                    i += 1
                part = covered_by(windows, position, i, bins, row)
                cost = part.area * bin_cost if by_bin else windows_cost(&part, LANE_BYTES // itemsize)
                mode = WINDOW
                if gathered:
                    mode = GATHERED
                elif widened:
                    mode = EACH
                elif not in_pixels and part.tallest * (part.x1 - part.x0) <= tile_pixels and rows_cost(&part, windows, position, i, tile_pixels) < cost:
                    mode = ROWS
                part_pieces = block_pieces
                if in_pixels and not gathered:
                    # only a box that is much of what a thread has to do: parts of pixels are read several times as slowly as rows of them
                    part_pieces = min(max(<Py_ssize_t>ceil(seen * blocks / (1.5 * share)), 1), pieces)
                for b in range(part_pieces):
                    block = first_block(b * pieces // part_pieces, pieces, blocks, whole)
                    block_stop = first_block((b + 1) * pieces // part_pieces, pieces, blocks, whole)
                    for z in range(groups):
                        first, stop = z * bins // groups, (z + 1) * bins // groups
                        tasks.add(n, position, i, block, block_stop, first if by_bin else -1, stop, mode, part.y0, part.y1, part.x0, part.x1, level,
                                  seen * (block_stop - block) * (stop - first))
                position = i
    return tasks.array(threads > 1), min(threads, max(<int>tasks.count, 1))


def writing(list levels, Py_ssize_t channels, Py_ssize_t itemsize, Py_ssize_t bins, bint by_bin, int threads, bint add, bint blocks_first):
    """(tasks (T, COLUMNS), threads) of the gradient of the input: rectangles that cover every image of every level.

    levels: (_, _, in_pixels, in_rows, tables) of each.
    blocks_first: a task goes through all bins of its blocks, whatever its rectangle, which so is as large as it can be, and of whole rows; GATHERED in a
    tile, where threads would write to neighbouring channels of each pixel.
    Without `add` images that have no box have tasks too, which write zeros.
    """
    cdef Py_ssize_t level, images, n, i, b, z, y, y0, x0, least, bands, most_rows, groups, together, columns, block_pieces, height, width, first, stop
    cdef int64_t mode
    cdef double cost, all_cost = 0, seen
    cdef Py_ssize_t blocks = block_count(channels, itemsize)
    cdef const Py_ssize_t *starts
    cdef const int32_t *w
    cdef double[::1] rows
    cdef Tables tables
    cdef Tasks tasks = Tasks()
    cdef bint in_pixels, in_rows
    for _, _, _, _, tables in levels:
        all_cost += <double>tables.order.images * tables.height * tables.width * (bins if by_bin else 1) + boxes_cost(tables, bins)
    if all_cost * blocks < SERIAL_COST:
        threads = 1
    for level, (_, _, in_pixels, in_rows, tables) in enumerate(levels):
        images, starts, height, width = tables.order.images, tables.starts, tables.height, tables.width
        mode, groups, together = WINDOW, 1, 1
        if by_bin:
            groups = max(ceiling(bins, BINS_TOGETHER), min(bins, ceiling(TASKS_PER_THREAD * threads, images * blocks)))
            together = ceiling(bins, groups)
            if not in_rows and together >= GATHERED_BINS:
                mode = GATHERED
            else:
                groups, together = bins, 1
        columns = max(min(width, TILE_PIXELS // together), 1)
        most_rows = max(min(height, TILE_PIXELS // (columns * together)), 1)
        block_pieces = blocks
        if blocks_first:
            columns, most_rows = width, height       # there is no tile, or one for all
            # no more planes than stay in cache, since each box writes to all; the channels of a pixel are written to together
            block_pieces = min(blocks, max(<Py_ssize_t>threads, 1 if in_pixels else ceiling(blocks * height * width * LANE_BYTES, PLANES_BYTES)))
            if in_pixels and block_pieces > 1 and height * width * ceiling(blocks, block_pieces) <= TILE_PIXELS:
                mode = GATHERED      # or else threads take cache lines of neighbouring channels from each other, since hardware fetches them too
        elif in_pixels and not by_bin:
            block_pieces = 1
        # rows are split further only where images and blocks do not make tasks enough
        least = 1 if threads == 1 else ceiling((1 if blocks_first else TASKS_PER_THREAD) * threads, max(images * block_pieces * groups, 1))
        rows = np.zeros(height + 1)
        for n in range(images):
            if starts[n] == starts[n + 1]:
                if not add:
                    for z in range(bins if by_bin else 1):
                        tasks.add(n, 0, 0, 0, blocks, z if by_bin else -1, z + 1, WINDOW, 0, height, 0, width, level, 0)
                continue
            bands = max(least, ceiling(height, most_rows))
            if bands > 1:
                # bands of equal work: the rows that boxes cover, and the writing of each row
                rows[:] = 0
                for i in range(starts[n], starts[n + 1]):
                    w = tables.windows + 4 * i
                    rows[w[0]] += w[3] - w[2]
                    rows[w[1]] -= w[3] - w[2]
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
                            first, stop = z * bins // groups, (z + 1) * bins // groups
                            tasks.add(n, starts[n], starts[n + 1], b * blocks // block_pieces, (b + 1) * blocks // block_pieces,
                                      first if by_bin else -1, stop, mode, y0, y, x0, min(x0 + columns, width), level, 0)
                y0 = y
    return tasks.array(), min(threads, max(<int>tasks.count, 1))
