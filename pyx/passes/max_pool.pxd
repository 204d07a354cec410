"""The largest pixel of a bin: the passes of roi_pool.

    out[k, c, p, q] = max over y in rows of p, x in columns of q of input[image of k, c, y, x]
    argmax[k, c, p, q] = y * W + x of the first such pixel in row order, -1 for none

The maximum of a rectangle is the maximum of its columns' maxima.  So a box is reduced along y, into
a strip [x][lane], and then along x into bins [p][q][lane].  A NaN is not larger than any number, so
it never wins.  A maximum begins with the lowest finite number, which is also the result of a bin
that holds nothing but NaN.  The result of an empty bin is 0.

The argmax is searched for bin by bin, in the order of rows, and so are the maxima of windows larger
than a tile, cell by cell.  The gradient goes to it, and has no
arithmetic to share between lanes, so it works on planes directly.
"""
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset

from passes.maxima cimport begin_maxima
from passes.walk cimport Part, Scratch, Walk, begin_walk, first_bin, walk_on
from passes.tile cimport before_cells, cell_columns, cell_rows, clear_rows, load, next_cell
from plan.structs cimport COPY_ONCE, WHOLE, LevelJob, Task
from simd.structs cimport (LANE_BYTES, Pixels, PlaneRows, Stream, Strides, Target, Tile, Vectors,
                           View, Window, Winners, real, stream_fence)
from simd.table cimport stream_rest, stream_some
from tuning cimport STRIP_BYTES

cdef extern from *:
    enum:
        __ATOMIC_RELAXED
    void __atomic_store_n(int32_t *to, int32_t number, int order) noexcept nogil


cdef enum:
    AHEAD = 256                    # winners that are taken until one is prefetched      # R534


cdef inline void reduce_window(
        const LevelJob *job, const Part *part, const real *pixels, const View *view, real *strip,
        real *bins, Stream *queue) noexcept nogil:
    """bins = the largest pixels of a window; several bin rows share a loop over columns."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), columns = part.window.x1 - part.window.x0
    cdef Py_ssize_t row = columns * lanes, first, taps
    cdef int most = <int>max(STRIP_BYTES // (columns * LANE_BYTES), 1)
    cdef int p = part.p0, q, i, rows, qs = part.q1 - part.q0
    cdef Vectors window, strips
    window.stride, window.pixel_stride, window.count = view.x, view.y, columns
    strips.stride, strips.pixel_stride = row, lanes
    while p < part.p1:
        rows = strips.count = min(most, part.p1 - p)
        stream_some(job.call.simd, queue)
        for i in range(rows):
            first = part.spans_y[2 * (p + i)]
            taps = part.spans_y[2 * (p + i) + 1] - first
            window.start = pixels + (first - part.window.y0) * view.y
            if taps > 0:
                job.call.simd.keep_largest(strip + i * row, lanes, &window, taps)
            else:                  # bins without pixels are 0
                memset(strip + i * row, 0, row * sizeof(real))
        stream_some(job.call.simd, queue)
        for q in range(qs):
            first = part.spans_x[2 * (part.q0 + q)]
            taps = part.spans_x[2 * (part.q0 + q) + 1] - first
            strips.start = strip + (first - part.window.x0) * lanes
            if taps > 0:
                job.call.simd.keep_largest(bins + q * lanes, qs * lanes, &strips, taps)
            else:
                for i in range(rows):
                    memset(bins + (i * qs + q) * lanes, 0, LANE_BYTES)
        bins += rows * qs * lanes
        p += rows


# With the indices of the largest pixels, or cell by cell.

cdef inline void search_part(
        const LevelJob *job, const Part *part, Tile *tile, real *memory, real *bins,
        int32_t *bins_at) noexcept nogil:
    """bins = the largest pixels of a window, and where they are, cell by cell."""
    cdef const Window *window = &part.window
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = window.x1 - window.x0, i
    cdef Py_ssize_t columns = cell_columns(width)
    # Cells follow each other in row order, so that the first of equal pixels is kept.
    cdef Py_ssize_t rows = 1
    cdef const real *pixels
    cdef Window cell = before_cells(window), bin
    cdef Pixels source
    cdef View view
    cdef int p, q
    if columns == width:
        rows = cell_rows(tile, window.y1 - window.y0, columns)
    begin_maxima(job, part, bins, bins_at)
    while next_cell(window, rows, columns, &cell):
        pixels = load(job, tile, memory, &cell, &view)
        pixels -= cell.y0 * view.y + cell.x0 * view.x
        source.stride_y, source.stride_x = view.y, view.x
        i = 0
        for p in range(part.p0, part.p1):
            bin.y0 = max(<Py_ssize_t>part.spans_y[2 * p], cell.y0)
            bin.y1 = min(<Py_ssize_t>part.spans_y[2 * p + 1], cell.y1)
            for q in range(part.q0, part.q1):
                bin.x0 = max(<Py_ssize_t>part.spans_x[2 * q], cell.x0)
                bin.x1 = min(<Py_ssize_t>part.spans_x[2 * q + 1], cell.x1)
                source.start = pixels + bin.y0 * view.y + bin.x0 * view.x
                job.call.simd.search_pixels(bins + i, bins_at + i, &source, bin.y1 - bin.y0,
                                            bin.x1 - bin.x0,
                                            <int32_t>(bin.y0 * job.map.columns + bin.x0),
                                            job.map.columns)
                i += lanes


cdef inline void store_argmax(
        const LevelJob *job, const Part *part, const int32_t *bins_at, real *strip,
        const Target *bins_target) noexcept nogil:
    """Indices [p][q][lane] to the argmax."""
    cdef Py_ssize_t ps = part.p1 - part.p0, qs = part.q1 - part.q0, p, q, lane
    cdef Strides to = job.maxima.argmax_strides
    cdef int32_t *at = job.maxima.argmax + (
        part.row * to.image + part.block * job.call.lanes * to.channel
        + part.p0 * to.y + part.q0 * to.x)
    cdef Target target = bins_target[0]
    if real is float:      # an index has the size of a float, so its bits are moved as one
        target.strides, target.staging = to, strip
        job.call.simd.unpack(<const float*>bins_at, ps, qs, <float*>at, &target)
        stream_rest(job.call.simd, target.queue)
    else:
        for p in range(ps):
            for lane in range(target.lanes):
                for q in range(qs):
                    at[p * to.y + q * to.x + lane * to.channel] = \
                        bins_at[(p * qs + q) * job.call.lanes + lane]


cdef inline void pool_planes(const LevelJob *job, Walk *walk, real *out) noexcept nogil:
    """Some bins of a box, of one channel block; out: bin (0, 0)."""
    cdef Part *part = &walk.part
    cdef Scratch *scratch = &walk.scratch
    cdef real *strip = <real*>scratch.strip
    cdef real *bins = <real*>scratch.bins
    cdef bint search = job.maxima.argmax != NULL or part.way != WHOLE
    cdef const real *pixels
    cdef View view
    cdef Target target = walk.target
    if search:
        stream_rest(job.call.simd, &scratch.queue)    # from the staging, where indices are gathered
        target.staging = strip
        search_part(job, part, &walk.tile, <real*>scratch.tile, bins, <int32_t*>scratch.staging)
    else:
        pixels = load(job, &walk.tile, <real*>scratch.tile, &part.window, &view)
        reduce_window(job, part, pixels, &view, strip, bins, &scratch.queue)
    job.call.simd.unpack(bins, part.p1 - part.p0, part.q1 - part.q0,
                         first_bin(job, part, out), &target)
    if job.maxima.argmax != NULL:
        store_argmax(job, part, <int32_t*>scratch.staging, strip, &target)
    if search:
        stream_rest(job.call.simd, &scratch.queue)      # from the strip, which is needed again


cdef inline void pool_pixels(
        const LevelJob *job, const Part *part, const Tile *tile, real *out,
        Scratch *scratch) noexcept nogil:
    """Some bins of a box, of part.blocks blocks that lie together: nothing is packed."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = part.blocks * lanes
    cdef Py_ssize_t qs = part.q1 - part.q0, x0 = part.window.x0, y, x, rows, columns
    cdef const Strides *map = &tile.strides
    cdef const real *plane = <const real*>tile.plane
    cdef real *strip = <real*>scratch.strip
    cdef real *bins = <real*>scratch.bins
    cdef real *row
    cdef Vectors pixels, strips
    cdef int p, q
    pixels.stride, pixels.pixel_stride, pixels.count = lanes, map.y, part.blocks
    strips.stride, strips.pixel_stride, strips.count = lanes, width, part.blocks
    for p in range(part.p0, part.p1):
        row = out + p * job.call.out_strides.y + part.q0 * job.call.out_strides.x
        y = part.spans_y[2 * p]
        rows = part.spans_y[2 * p + 1] - y
        if rows > 0 and map.x == width:
            pixels.start = plane + y * map.y + x0 * map.x
            pixels.count = (part.window.x1 - x0) * part.blocks
            job.call.simd.keep_largest(strip, lanes, &pixels, rows)
        elif rows > 0:
            for x in range(x0, part.window.x1):
                pixels.start = plane + y * map.y + x * map.x
                job.call.simd.keep_largest(strip + (x - x0) * width, lanes, &pixels, rows)
        for q in range(part.q0, part.q1):
            x = part.spans_x[2 * q]
            columns = part.spans_x[2 * q + 1] - x
            strips.start = strip + (x - x0) * width
            if rows > 0 and columns > 0:
                job.call.simd.keep_largest(bins + (q - part.q0) * width, lanes, &strips, columns)
            else:
                memset(bins + (q - part.q0) * width, 0, width * sizeof(real))
        job.call.simd.put_pixels(bins, qs, width, row, job.call.out_strides.x, job.store)


cdef inline void pool_task(
        const LevelJob *job, const Task *task, char *memory, real _) noexcept nogil:
    cdef Walk walk
    begin_walk(job, task, memory, job.maxima.argmax == NULL, &walk)
    while walk_on(job, task, &walk):
        if walk.joined:
            pool_pixels(job, &walk.part, &walk.tile, <real*>walk.result, &walk.scratch)
        else:
            pool_planes(job, &walk, <real*>walk.result)


# The gradient of the input.

cdef inline Winners winners_of(
        const LevelJob *job, Py_ssize_t channel, Py_ssize_t channels, Py_ssize_t box,
        Py_ssize_t next_box, real _) noexcept nogil:
    """Some channels of a box, whose bins and channels lie end to end in the layout of the call.

    The same channels of the next box are prefetched, or where channels are last, those of a bin
    that is some numbers ahead.
    """
    cdef Winners winners
    cdef const real *values = <const real*>job.call.result
    cdef Py_ssize_t bins = <Py_ssize_t>job.call.ph * job.call.pw, at, ahead
    cdef Py_ssize_t size = bins * job.call.channels
    if job.call.out_strides.x == 1:
        winners.lines, winners.count, winners.stride = channels, bins, bins
        at = job.tables.rows[box] * size + channel * bins
        ahead = job.tables.rows[next_box] * size + channel * bins
    else:
        winners.lines, winners.count, winners.stride = bins, channels, job.call.channels
        at = job.tables.rows[box] * size + channel
        ahead = at + job.call.channels * max(AHEAD // channels, 1)
    winners.at, winners.values = job.maxima.argmax + at, values + at
    winners.next_at, winners.next_values = job.maxima.argmax + ahead, values + ahead
    return winners


cdef inline void pool_grad_task(
        const LevelJob *job, const Task *task, char *memory, real _) noexcept nogil:
    """The rows of a task, from border to border.

    COPY_ONCE: rows are summed in a tile and then stored, since neighbouring channels of a pixel
    belong to other threads.
    """
    cdef Strides map = job.map.strides
    cdef Py_ssize_t columns = job.map.columns, first = task.first_block * job.call.lanes
    cdef Py_ssize_t channels = min(task.stop_block * job.call.lanes, job.call.channels) - first
    cdef Py_ssize_t i, y, rows_count = task.y1 - task.y0
    cdef real *plane = (<real*>job.map.data + task.image * map.image + first * map.channel)
    cdef real *target = plane + task.y0 * map.y
    cdef real *tile = <real*>memory
    cdef int bad = 0
    cdef PlaneRows rows
    cdef Winners box
    if task.load == COPY_ONCE:
        map.channel, map.x, map.y = 1, channels, columns * channels
        plane = tile - task.y0 * map.y
    rows.first = <uint32_t>(task.y0 * columns)
    rows.count = <uint32_t>(rows_count * columns)
    rows.all = <uint32_t>(job.map.rows * columns)
    clear_rows(job, task, plane, &map, task.y0, task.y1)
    for i in range(task.first_box, task.stop_box):
        box = winners_of(job, first, channels, i, min(i + 1, task.stop_box - 1), tile[0])
        if job.call.out_strides.x == 1:
            bad |= job.call.simd.add_winners(plane, map.channel, 0, 1, &box, &rows)
        else:
            bad |= job.call.simd.add_winners(plane, 0, 1, map.x, &box, &rows)
    if task.load == COPY_ONCE:
        for y in range(rows_count):
            job.call.simd.put_pixels(tile + y * map.y, columns, channels,
                                     target + y * job.map.strides.y, job.map.strides.x, job.store)
        stream_fence()
    if bad:
        __atomic_store_n(job.maxima.bad, 1, __ATOMIC_RELAXED)
