"""Gradient of the input of every operator that is a weighted sum.

    grad_input[n, channel, y, x] += sum_p sum_q  Wy[k, p, y] * grad_output[k, c, p, q] * Wx[k, q, x]

with n the image of box k, and the channel that the operator reads for (c, p, q).

Tables are transposed (plan/tables.pxd): for each pixel along an axis they list the bins that read
it.  So the gradient of a box is contracted like the forward pass, with pixels in place of bins and
bins in place of pixels.  A task owns a rectangle of some channels and goes through all boxes that
read it, in order: no two tasks write to the same pixel, and sums have the same bits for every
number of threads.

A method adds the gradient of one part after the other:

    begin_owned(...)
    while next_owned(...):
        ...
"""
from libc.stdint cimport int32_t
from libc.string cimport memset

from passes.tile cimport clear_rows
from passes.walk cimport (Lanes, Part, Walk, begin_walk, begins_block, begins_box,
                          blocks_together, ends_box, walk_on, parts_of, set_box, skip_to)
from plan.spans cimport bins_between
from plan.structs cimport COPY_ONCE, LevelJob, Task
from simd.structs cimport LANE_BYTES, Taps, Target, Tile, Window, real, stream_fence
from tuning cimport SQUARE_BINS

cdef enum:
    MIN_BLOCKS_TOGETHER = 4        # blocks: with fewer, choosing loops costs more      # R212


cdef struct PixelAxis:             # pixels of one axis of a box, and the bins that read each
    const int32_t *pixels
    Py_ssize_t first               # pixels[first:stop] are of the task's rectangle
    Py_ssize_t stop
    Taps bins                      # spans: of pixel after pixel; `pixel` of a tap is a bin
    int low                        # only bins [low, high) are looked at
    int high
    bint whole                     # which are all


cdef inline PixelAxis axis_of(
        const LevelJob *job, const int32_t *spans, Py_ssize_t count, Py_ssize_t low,
        Py_ssize_t high) noexcept nogil:
    """An axis whose tables begin with those spans; pixels of [low, high)."""
    cdef PixelAxis axis
    axis.pixels = job.tables.pixels + spans[0]
    axis.bins.spans = job.tables.pixel_spans + 2 * <Py_ssize_t>spans[0]
    axis.bins.pixel, axis.bins.weight = job.tables.bin, job.tables.bin_weight
    axis.first, axis.stop = 0, count
    while axis.first < axis.stop and axis.pixels[axis.first] < low:
        axis.first += 1
    while axis.first < axis.stop and axis.pixels[axis.stop - 1] >= high:
        axis.stop -= 1
    return axis


cdef inline void set_pixel_axes(
        const LevelJob *job, const Task *task, const Part *part, PixelAxis *y,
        PixelAxis *x) noexcept nogil:
    cdef const Window *window = &part.window
    cdef const int32_t *counts = job.tables.counts + 2 * part.box
    y[0] = axis_of(job, part.spans_y, counts[0], max(window.y0, task.y0), min(window.y1, task.y1))
    x[0] = axis_of(job, part.spans_x, counts[1], max(window.x0, task.x0), min(window.x1, task.x1))
    # Bins that `keep_readers` has left out read none of these pixels.
    y.low, y.high, y.whole = part.p0, part.p1, part.whole or part.p1 - part.p0 == job.call.ph
    x.low, x.high, x.whole = part.q0, part.q1, part.whole or part.q1 - part.q0 == job.call.pw


cdef inline const int32_t *bins_of_pixel(
        const PixelAxis *axis, Py_ssize_t i, int32_t *clipped) noexcept nogil:
    """The spans of the bins that read pixel i and the pixels after it.

    If only some bins are looked at, it is the span of pixel i alone, without the other bins.
    """
    cdef const int32_t *spans = axis.bins.spans + 2 * i
    cdef const int32_t *bin = axis.bins.pixel
    cdef int32_t first = spans[0], stop = spans[1]
    if axis.whole:
        return spans
    while first < stop and not axis.low <= bin[first] < axis.high:
        first += 1
    while first < stop and not axis.low <= bin[stop - 1] < axis.high:
        stop -= 1
    clipped[0], clipped[1] = first, stop
    return clipped


cdef inline Py_ssize_t neighbours(
        const int32_t *pixels, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    """The end of the run of neighbouring pixels that begins with pixels[first]."""
    first += 1
    while first < stop and pixels[first] == pixels[first - 1] + 1:
        first += 1
    return first


# The boxes of a task: the boxes of its image that read pixels of its rectangle.

cdef inline Py_ssize_t next_reader(
        const LevelJob *job, const Task *task, Py_ssize_t i) noexcept nogil:
    """The first box of a task, from box i on, that reads pixels of its rectangle."""
    cdef const int32_t *window = job.tables.windows + 4 * i
    while i < task.stop_box and (window[1] <= task.y0 or window[0] >= task.y1
                                 or window[3] <= task.x0 or window[2] >= task.x1):
        window += 4
        i += 1
    return i


cdef inline void keep_readers(const LevelJob *job, const Task *task, Part *part) noexcept nogil:
    """Leave out bins that read no pixel of the task's rectangle."""
    cdef const int32_t *window = job.tables.windows + 4 * part.box
    cdef const int32_t *pixel = job.tables.tap_pixel
    if window[0] < task.y0 or window[1] > task.y1:
        bins_between(part.spans_y, pixel, task.y0, task.y1, &part.p0, &part.p1)
    if window[2] < task.x0 or window[3] > task.x1:
        bins_between(part.spans_x, pixel, task.x0, task.x1, &part.q0, &part.q1)


cdef struct Upcoming:              # boxes of the task after the one that is computed
    Py_ssize_t next
    Py_ssize_t later
    Part part                      # the bins of one of them, which are fetched; none if p0 == p1


cdef inline void go_on(
        const LevelJob *job, const Task *task, bint separable, Upcoming *boxes) noexcept nogil:
    """Choose whose bins are prefetched: the next box, or the one after it if bins are packed."""
    cdef Py_ssize_t box = boxes.next if job.call.out_strides.channel == 1 else boxes.later
    cdef Part *part = &boxes.part
    part.p0 = part.p1 = part.q0 = part.q1 = 0
    part.row = job.tables.rows[task.first_box]
    if separable and box < task.stop_box:
        set_box(job, part, box)
        part.p1, part.q1 = job.call.ph, job.call.pw
        keep_readers(job, task, part)


cdef struct Owned:                 # the rectangle of a task while boxes add to it
    Walk walk
    Tile first                     # of the task's first block
    Upcoming boxes
    Lanes sums                     # where the blocks of the part are summed
    void *memory                   # of sums that are not in place
    bint separable                 # tables are transposed, and bins of later boxes are prefetched
    bint joins                     # several blocks are summed at once where they lie together
    bint started
    bint no_boxes
    Py_ssize_t cleared             # summed in place: rows above this one hold zeros or sums
    bint loaded                    # not summed in place: the tile holds the sums of the block


cdef inline Lanes sums_of(
        const LevelJob *job, const Task *task, Owned *owned, real _) noexcept nogil:
    """Where a block is summed: in the gradient where lanes lie together, else in the tile."""
    cdef Lanes sums
    cdef const Tile *tile = &owned.walk.tile
    cdef real *memory = <real*>owned.memory
    cdef Py_ssize_t rows = task.y1 - task.y0, columns = task.x1 - task.x0
    sums.block = job.call.lanes
    if tile.in_place:
        sums.origin, sums.view.y, sums.view.x = tile.plane, tile.strides.y, tile.strides.x
        return sums
    if not owned.loaded:
        owned.loaded = True
        if job.add:
            job.call.simd.read_pixels(tile, task.y0, task.x0, rows, columns, memory)
        else:
            memset(memory, 0, rows * columns * LANE_BYTES)
    sums.view.y, sums.view.x = columns * job.call.lanes, job.call.lanes
    sums.origin = memory - task.y0 * sums.view.y - task.x0 * sums.view.x
    return sums


cdef inline void store_sums(
        const LevelJob *job, const Task *task, Owned *owned, real _) noexcept nogil:
    """Write the block that was summed in the tile, which is the last of a task if any."""
    cdef const Tile *tile = &owned.walk.tile
    cdef Target target = owned.walk.target
    cdef real *to = <real*>tile.plane + task.y0 * tile.strides.y + task.x0 * tile.strides.x
    if tile.in_place:
        return
    target.strides, target.staging = tile.strides, NULL
    if owned.loaded:
        job.call.simd.unpack(owned.memory, task.y1 - task.y0, task.x1 - task.x0, to, &target)
    elif not job.add:
        job.call.simd.clear(to, &tile.strides, tile.lanes, task.y1 - task.y0, task.x1 - task.x0)


cdef inline Py_ssize_t blocks_to_write(
        const LevelJob *job, const Task *task, const Part *part) noexcept nogil:
    """How many blocks are summed at once."""
    cdef Py_ssize_t most = job.scratch.strip_bytes // (part.most_q * LANE_BYTES)
    cdef Py_ssize_t blocks = blocks_together(job, task, part.block, most)
    # With fewer blocks runs are short, and choosing a loop for each costs more than is saved.
    return blocks if blocks >= MIN_BLOCKS_TOGETHER else 1


cdef inline void begin_owned(
        const LevelJob *job, const Task *task, char *memory, void *sums,
        Owned *owned) noexcept nogil:
    """The state from which next_owned goes on to the first part; sums: memory of the rectangle.

    The caller has set `separable` and `joins`.
    """
    begin_walk(job, task, memory, False, &owned.walk)
    owned.walk.part = parts_of(job, task, SQUARE_BINS)
    owned.first, owned.memory, owned.started = owned.walk.tile, sums, False
    owned.no_boxes = task.first_box == task.stop_box and task.load != COPY_ONCE
    owned.loaded = task.load == COPY_ONCE
    # Zeros are written shortly before sums are added to them, while they are in cache.
    owned.cleared = task.y1
    if not job.add and (owned.first.in_place or owned.no_boxes):
        owned.cleared = task.y0
    owned.boxes.next = next_reader(job, task, task.first_box)
    owned.boxes.later = next_reader(job, task, owned.boxes.next + 1)
    skip_to(&owned.walk.part, task, owned.boxes.next)


cdef inline void clear_to(
        const LevelJob *job, const Task *task, Owned *owned, Py_ssize_t y, real _) noexcept nogil:
    """Write zeros in the rows above row y that have none yet."""
    if owned.cleared < y:
        clear_rows(job, task, <real*>owned.first.plane, &owned.first.strides, owned.cleared, y)
        owned.cleared = y


cdef inline bint next_owned(
        const LevelJob *job, const Task *task, Owned *owned, real of_type) noexcept nogil:
    """Go on to the next part that reads pixels of the task's rectangle, to which the caller adds
    its gradient; after the last, write the rectangle and return False."""
    cdef Part *part = &owned.walk.part
    cdef const Window *window = &part.window
    cdef Upcoming *boxes = &owned.boxes
    while True:
        if owned.started and ends_box(part, task):
            skip_to(part, task, boxes.next)
        owned.started = True
        if not walk_on(job, task, &owned.walk):
            break
        if begins_box(part, task):
            boxes.next, boxes.later = boxes.later, next_reader(job, task, boxes.later + 1)
            go_on(job, task, owned.separable, boxes)
            clear_to(job, task, owned,
                     min(<Py_ssize_t>job.tables.windows[4 * part.box + 1], task.y1), of_type)
        if begins_block(part) and owned.joins and owned.walk.tile.in_place:
            part.blocks = blocks_to_write(job, task, part)
        if (window.y0 < task.y1 and window.y1 > task.y0 and window.x0 < task.x1
                and window.x1 > task.x0):
            owned.sums = sums_of(job, task, owned, of_type)
            return True
    clear_to(job, task, owned, task.y1, of_type)
    if not owned.no_boxes and task.load != COPY_ONCE:
        store_sums(job, task, owned, of_type)
        stream_fence()
    return False
