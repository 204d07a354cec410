"""The largest pixel of a bin: the kernels of roi_pool.

    out[k, c, p, q] = max over y in rows of p, x in columns of q of input[image of k, c, y, x]
    argmax[k, c, p, q] = y * W + x of the first such pixel in row order, -1 for none

The maximum of a rectangle is the maximum of its columns' maxima.  So a box is reduced along y, into
a strip [x][lane], and then along x into bins [p][q][lane].  A NaN is not larger than any number, so
it never wins.  A maximum begins with the lowest finite number, which is also the result of a bin
that holds nothing but NaN.  The result of an empty bin is 0.

The gradient goes to the argmax.  It has no arithmetic to share between lanes, so it works on planes
directly.
"""
from cython.parallel cimport prange
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset

from kernels.maxima cimport begin_maxima, lowest
from kernels.nest cimport Part, Scratch, Step, begin_steps, next_step, run
from move.prefetch cimport prefetch_pixel_ends
from move.tile cimport (Target, TileCache, View, Window, before_cells, cell_columns, cell_rows,
                        clear, load, next_cell, put_pixels, unpack)
from plan.arrays cimport start_of
from plan.structs cimport COPY_ONCE, PIXELS_Y, WINDOW_Y, Call, Strides, Task
from roicy._kernels.machine cimport startable
from roicy._kernels.plan cimport Plan
from simd.simd cimport (LANE_BYTES, PlaneRows, Stream, Winners, add_at_pixels, add_at_planes,
                        keep_first_larger, keep_larger, keep_larger_at, real,
                        stream_fence, stream_rest, stream_some)
from tuning cimport ROUND_NUMBERS, STRIP_BYTES

cdef extern from *:
    enum:
        __ATOMIC_RELAXED
    void __atomic_store_n(int32_t *to, int32_t number, int order) noexcept nogil


cdef inline void keep_largest(
        real *to, Py_ssize_t to_step, const real *source, Py_ssize_t step, Py_ssize_t count,
        int taps, Py_ssize_t stride, bint more) noexcept nogil:
    """to[i] = the largest of source[i * step + j * stride] (more: and of to[i]), j below `taps`.

    There are one to four taps, which the compiler knows.
    """
    cdef int lanes = LANE_BYTES // sizeof(real), lane
    cdef Py_ssize_t i
    cdef real[16] best
    for i in range(count):
        for lane in range(lanes):
            best[lane] = to[i * to_step + lane] if more else lowest(to)
        keep_larger(best, source + i * step)
        if taps > 1:
            keep_larger(best, source + i * step + stride)
        if taps > 2:
            keep_larger(best, source + i * step + 2 * stride)
        if taps > 3:
            keep_larger(best, source + i * step + 3 * stride)
        for lane in range(lanes):
            to[i * to_step + lane] = best[lane]


cdef void reduce_axis(
        real *to, Py_ssize_t to_step, const real *source, Py_ssize_t step, Py_ssize_t count,
        Py_ssize_t taps, Py_ssize_t stride, bint more) noexcept nogil:
    """Set each to[i] to the largest of its taps, of which there is at least one."""
    if not more:
        if taps == 1:
            keep_largest(to, to_step, source, step, count, 1, stride, False)
        elif taps == 2:
            keep_largest(to, to_step, source, step, count, 2, stride, False)
        elif taps == 3:
            keep_largest(to, to_step, source, step, count, 3, stride, False)
        else:
            keep_largest(to, to_step, source, step, count, 4, stride, False)
        source += 4 * stride
        taps -= 4
    while taps >= 4:
        keep_largest(to, to_step, source, step, count, 4, stride, True)
        source += 4 * stride
        taps -= 4
    if taps == 3:
        keep_largest(to, to_step, source, step, count, 3, stride, True)
    elif taps == 2:
        keep_largest(to, to_step, source, step, count, 2, stride, True)
    elif taps == 1:
        keep_largest(to, to_step, source, step, count, 1, stride, True)


cdef void reduce_window(
        const Part *part, const real *pixels, const View *steps, real *strip, real *bins,
        Stream *queue) noexcept nogil:
    """bins = the largest pixels of a window; several bin rows share a loop over columns."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), columns = part.window.x1 - part.window.x0
    cdef Py_ssize_t row = columns * lanes, first, taps
    cdef int most = <int>max(STRIP_BYTES // (columns * LANE_BYTES), 1)
    cdef int p = part.p0, q, i, rows, qs = part.q1 - part.q0
    while p < part.p1:
        rows = min(most, part.p1 - p)
        stream_some(queue)
        for i in range(rows):
            first = part.spans_y[2 * (p + i)]
            taps = part.spans_y[2 * (p + i) + 1] - first
            if taps > 0:
                reduce_axis(strip + i * row, lanes, pixels + (first - part.window.y0) * steps.y,
                            steps.x, columns, taps, steps.y, False)
            else:                  # bins without pixels are 0
                memset(strip + i * row, 0, row * sizeof(real))
        stream_some(queue)
        for q in range(qs):
            first = part.spans_x[2 * (part.q0 + q)]
            taps = part.spans_x[2 * (part.q0 + q) + 1] - first
            if taps > 0:
                reduce_axis(bins + q * lanes, qs * lanes,
                            strip + (first - part.window.x0) * lanes, row, rows, taps, lanes, False)
            else:
                for i in range(rows):
                    memset(bins + (i * qs + q) * lanes, 0, LANE_BYTES)
        bins += rows * qs * lanes
        p += rows


# Cell by cell, and with the indices of the largest pixels.

cdef struct Best:                  # of the bins [p][q][lane] of a part
    void *bins
    int32_t *bins_at               # their pixels, or NULL
    void *strip
    int32_t *strip_at


cdef void reduce_columns_at(
        const Window *cell, const real *pixels, const View *steps, Py_ssize_t y0, Py_ssize_t y1,
        Py_ssize_t map_columns, real *strip, int32_t *strip_at) noexcept nogil:
    """strip, strip_at = the largest of rows y0 .. y1 - 1 of each column, and its pixel."""
    cdef int lanes = LANE_BYTES // sizeof(real), lane
    cdef Py_ssize_t x, y
    cdef real[16] best
    cdef int32_t[16] at
    for x in range(cell.x1 - cell.x0):
        for lane in range(lanes):
            best[lane] = lowest(strip)
        for lane in range(lanes):
            at[lane] = -1
        for y in range(y0, y1):
            keep_larger_at(best, at, pixels + (y - cell.y0) * steps.y + x * steps.x,
                           <int32_t>(y * map_columns + cell.x0 + x))
        for lane in range(lanes):
            strip[x * lanes + lane] = best[lane]
        for lane in range(lanes):
            strip_at[x * lanes + lane] = at[lane]


cdef inline void reduce_bin_at(
        real *bin, int32_t *bin_at, const real *strip, const int32_t *strip_at,
        Py_ssize_t columns) noexcept nogil:
    """The largest of a bin and some columns, and its pixel."""
    cdef int lanes = LANE_BYTES // sizeof(real), lane
    cdef Py_ssize_t x
    cdef real[16] best
    cdef int32_t[16] at
    for lane in range(lanes):
        best[lane] = bin[lane]
    for lane in range(lanes):
        at[lane] = bin_at[lane]
    for x in range(columns):
        keep_first_larger(best, at, strip + x * lanes, strip_at + x * lanes)
    for lane in range(lanes):
        bin[lane] = best[lane]
    for lane in range(lanes):
        bin_at[lane] = at[lane]


cdef void reduce_cell(
        const Call *call, const Part *part, const Window *cell, const real *pixels,
        const View *steps, const Best *best) noexcept nogil:
    """bins = the larger of bins and of what the pixels of a cell hold."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), bin = 0, first, stop, y0, y1
    cdef real *strip = <real*>best.strip
    cdef real *bins = <real*>best.bins
    cdef int p, q
    for p in range(part.p0, part.p1):
        y0 = max(<Py_ssize_t>part.spans_y[2 * p], cell.y0)
        y1 = min(<Py_ssize_t>part.spans_y[2 * p + 1], cell.y1)
        if y0 >= y1:
            bin += (part.q1 - part.q0) * lanes
            continue
        if best.bins_at == NULL:
            reduce_axis(strip, lanes, pixels + (y0 - cell.y0) * steps.y, steps.x,
                        cell.x1 - cell.x0, y1 - y0, steps.y, False)
        else:
            reduce_columns_at(cell, pixels, steps, y0, y1, call.map.columns, strip, best.strip_at)
        for q in range(part.q0, part.q1):
            first = max(<Py_ssize_t>part.spans_x[2 * q], cell.x0)
            stop = min(<Py_ssize_t>part.spans_x[2 * q + 1], cell.x1)
            if first < stop and best.bins_at == NULL:
                reduce_axis(bins + bin, lanes, strip + (first - cell.x0) * lanes, 0, 1,
                            stop - first, lanes, True)
            elif first < stop:
                reduce_bin_at(bins + bin, best.bins_at + bin, strip + (first - cell.x0) * lanes,
                              best.strip_at + (first - cell.x0) * lanes, stop - first)
            bin += lanes


cdef void reduce_cells(
        const Call *call, const Part *part, TileCache *tile, real *memory,
        const Best *best) noexcept nogil:
    """Reduce a window cell by cell."""
    cdef const Window *window = &part.window
    cdef Py_ssize_t columns = cell_columns(window.x1 - window.x0)
    cdef Py_ssize_t rows = cell_rows(tile, window.y1 - window.y0, columns)
    cdef const real *pixels
    cdef Window cell = before_cells(window)
    cdef View steps
    begin_maxima(call, part, <real*>best.bins, best.bins_at)
    while next_cell(window, rows, columns, &cell):
        pixels = load(tile, memory, &cell, &steps)
        reduce_cell(call, part, &cell, pixels, &steps, best)


cdef void store_argmax(
        const Call *call, const Part *part, const int32_t *bins_at, real *strip,
        const Target *bins_target) noexcept nogil:
    """Indices [p][q][lane] to the argmax."""
    cdef Py_ssize_t ps = part.p1 - part.p0, qs = part.q1 - part.q0, p, q, lane
    cdef Strides to = call.argmax_strides
    cdef int32_t *at = call.argmax + (part.row * to.image + part.block * call.lanes * to.channel
                                      + part.p0 * to.y + part.q0 * to.x)
    cdef Target target = bins_target[0]
    if real is float:      # an index has the size of a float, so its bits are moved as one
        target.strides, target.staging = to, strip
        unpack(<const float*>bins_at, ps, qs, <float*>at, &target)
        stream_rest(target.queue)
    else:
        for p in range(ps):
            for lane in range(target.lanes):
                for q in range(qs):
                    at[p * to.y + q * to.x + lane * to.channel] = \
                        bins_at[(p * qs + q) * call.lanes + lane]


cdef void pool_planes(const Call *call, Step *step, real *out) noexcept nogil:
    """Some bins of a box, of one channel block; out: bin (0, 0)."""
    cdef Part *part = &step.part
    cdef Scratch *scratch = &step.scratch
    cdef bint no_indices = call.argmax == NULL
    cdef const real *pixels
    cdef View steps
    cdef Best best
    cdef Target target = step.target
    best.bins, best.strip = scratch.bins, scratch.strip
    best.strip_at = <int32_t*>(<char*>scratch.strip + call.layout.strip_bytes)
    best.bins_at = NULL if no_indices else <int32_t*>scratch.staging
    if no_indices and step.how == WINDOW_Y:
        pixels = load(&step.tile, <real*>scratch.tile, &part.window, &steps)
        reduce_window(part, pixels, &steps, <real*>best.strip, <real*>best.bins, &scratch.queue)
    else:
        reduce_cells(call, part, &step.tile, <real*>scratch.tile, &best)
    if not no_indices:      # which are in the staging
        target.staging = scratch.strip
    unpack(<real*>best.bins, part.p1 - part.p0, part.q1 - part.q0,
           out + part.p0 * call.bins.y + part.q0 * call.bins.x, &target)
    if not no_indices:
        store_argmax(call, part, best.bins_at, <real*>scratch.strip, &target)
        stream_rest(&scratch.queue)      # from the strip, which is needed again


cdef void pool_pixels(
        const Call *call, const Part *part, const TileCache *tile, real *out,
        Scratch *scratch) noexcept nogil:
    """Some bins of a box, of part.blocks blocks that lie together: nothing is packed."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = part.blocks * lanes
    cdef Py_ssize_t qs = part.q1 - part.q0, x0 = part.window.x0, y, x, rows, columns
    cdef const Strides *map = &tile.strides
    cdef const real *plane = <const real*>tile.plane
    cdef real *strip = <real*>scratch.strip
    cdef real *bins = <real*>scratch.bins
    cdef real *row
    cdef int p, q
    for p in range(part.p0, part.p1):
        row = out + p * call.bins.y + part.q0 * call.bins.x
        y = part.spans_y[2 * p]
        rows = part.spans_y[2 * p + 1] - y
        prefetch_pixel_ends(row, qs, width, call.bins.x, call.store)
        if rows > 0 and map.x == width:
            reduce_axis(strip, lanes, plane + y * map.y + x0 * map.x, lanes,
                        (part.window.x1 - x0) * part.blocks, rows, map.y, False)
        elif rows > 0:
            for x in range(x0, part.window.x1):
                reduce_axis(strip + (x - x0) * width, lanes, plane + y * map.y + x * map.x, lanes,
                            part.blocks, rows, map.y, False)
        for q in range(part.q0, part.q1):
            x = part.spans_x[2 * q]
            columns = part.spans_x[2 * q + 1] - x
            if rows > 0 and columns > 0:
                reduce_axis(bins + (q - part.q0) * width, lanes, strip + (x - x0) * width, lanes,
                            part.blocks, columns, width, False)
            else:
                memset(bins + (q - part.q0) * width, 0, width * sizeof(real))
        put_pixels(bins, qs, width, row, call.bins.x, call.store)


cdef void pool_task(const Call *call, const Task *task, char *memory, real _) noexcept nogil:
    cdef Step step
    begin_steps(call, task, memory, call.argmax == NULL, &step)
    while next_step(call, task, &step):
        if step.how == PIXELS_Y:
            pool_pixels(call, &step.part, &step.tile, <real*>step.bins, &step.scratch)
        else:
            pool_planes(call, &step, <real*>step.bins)


def forward(Plan plan, out, argmax):
    """out (K, C, PH, PW) = the largest pixels, argmax (K, C, PH, PW) or None: where they are."""
    plan.set_result(out)
    if argmax is not None:
        plan.set_argmax(argmax)
    run(plan, pool_task[float], pool_task[double])


# The gradient of the input.

cdef struct OfBox:                 # bin (0, 0) of a box, of the task's first channel
    const int32_t *at              # the pixel that won
    const void *grad


cdef inline OfBox of_box(
        const Call *call, Py_ssize_t channel, Py_ssize_t place, real _) noexcept nogil:
    cdef Py_ssize_t row = call.tables.rows[place]
    cdef OfBox box
    box.at = (call.argmax + row * call.argmax_strides.image
              + channel * call.argmax_strides.channel)
    box.grad = (<const real*>call.result + row * call.bins.image + channel * call.bins.channel)
    return box


# Each of these adds the gradient of a box, and returns whether an index is of no pixel.  The next
# box is prefetched, since hardware cannot foresee where it lies.

cdef int add_pixels(
        const Call *call, const OfBox *box, const OfBox *next_box, real *plane, Py_ssize_t step,
        Py_ssize_t channels, const PlaneRows *rows) noexcept nogil:
    """The channels of a bin lie together, and so do those of a pixel."""
    cdef const Strides *bins = &call.bins
    cdef const Strides *at = &call.argmax_strides
    cdef Py_ssize_t i, p, q, count = <Py_ssize_t>call.ph * call.pw
    cdef int bad = 0
    cdef Winners winners
    winners.at_step = winners.step = 0
    winners.next_at, winners.next_values = box.at, box.grad
    for i in range(1, count + 1):
        winners.at, winners.values = winners.next_at, winners.next_values
        p, q = i // call.pw, i % call.pw
        winners.next_at = box.at + p * at.y + q * at.x
        winners.next_values = <const real*>box.grad + p * bins.y + q * bins.x
        if i == count:
            winners.next_at, winners.next_values = next_box.at, next_box.grad
        bad |= add_at_pixels(plane, step, &winners, channels, rows)
    return bad


cdef int add_planes(
        const Call *call, const OfBox *box, const OfBox *next_box, real *plane, Py_ssize_t step,
        Py_ssize_t channels, const PlaneRows *rows) noexcept nogil:
    """The bins of a channel lie together, and so do the pixels."""
    cdef Winners winners
    winners.at, winners.at_step = box.at, call.argmax_strides.channel
    winners.values, winners.step = box.grad, call.bins.channel
    winners.next_at, winners.next_values = next_box.at, next_box.grad
    return add_at_planes(plane, step, &winners, channels, <Py_ssize_t>call.ph * call.pw, rows)


cdef int add_each(
        const Call *call, const OfBox *box, real *plane, const Strides *map, Py_ssize_t channels,
        const PlaneRows *rows) noexcept nogil:
    """Number by number, for any strides."""
    cdef const Strides *bins = &call.bins
    cdef const Strides *index = &call.argmax_strides
    cdef const real *grad = <const real*>box.grad
    cdef Py_ssize_t c, p, q
    cdef int bad = 0
    cdef int32_t at
    for c in range(channels):
        for p in range(call.ph):
            for q in range(call.pw):
                at = box.at[c * index.channel + p * index.y + q * index.x]
                if <uint32_t>at - rows.first < rows.count:
                    plane[c * map.channel + at // call.map.columns * map.y
                          + at % call.map.columns * map.x] += \
                        grad[c * bins.channel + p * bins.y + q * bins.x]
                else:
                    bad |= at != -1 and <uint32_t>at >= rows.all
    return bad


cdef inline bint bins_end_to_end(const Call *call) noexcept nogil:
    """Whether the bins of a channel lie together, and so do their indices."""
    if call.bins.x != 1 or call.argmax_strides.x != 1:
        return False
    return call.ph == 1 or (call.bins.y == call.pw and call.argmax_strides.y == call.pw)


cdef void backward_task(
        const Call *call, const Task *task, char *memory, real _) noexcept nogil:
    """The rows of a task, from border to border.

    COPY_ONCE: rows are summed in a tile and then stored, since neighbouring channels of a pixel
    belong to other threads.
    """
    cdef Strides map = call.map.strides
    cdef Py_ssize_t columns = call.map.columns, first = task.first_block * call.lanes
    cdef Py_ssize_t channels = min(task.stop_block * call.lanes, call.channels) - first
    cdef Py_ssize_t i, y, rows_count = task.y1 - task.y0
    cdef real *plane = (<real*>call.map.data + task.image * map.image + first * map.channel)
    cdef real *target = plane + task.y0 * map.y
    cdef real *tile = <real*>memory
    cdef bint end_to_end
    cdef int bad = 0
    cdef PlaneRows rows
    cdef OfBox box, next_box
    if task.load == COPY_ONCE:
        map.channel, map.x, map.y = 1, channels, columns * channels
        plane = tile - task.y0 * map.y
    end_to_end = map.y == columns * map.x
    rows.first = <uint32_t>(task.y0 * columns)
    rows.count = <uint32_t>(rows_count * columns)
    rows.all = <uint32_t>(call.map.rows * columns)
    clear(plane + task.y0 * map.y, &map, channels, rows_count, columns)
    for i in range(task.first_box, task.stop_box):
        box = of_box(call, first, i, tile[0])
        next_box = of_box(call, first, min(i + 1, task.stop_box - 1), tile[0])
        if end_to_end and map.x == 1 and bins_end_to_end(call):
            bad |= add_planes(call, &box, &next_box, plane, map.channel, channels, &rows)
        elif (end_to_end and map.channel == 1 and call.bins.channel == 1
                and call.argmax_strides.channel == 1):
            bad |= add_pixels(call, &box, &next_box, plane, map.x, channels, &rows)
        else:
            bad |= add_each(call, &box, plane, &map, channels, &rows)
    if task.load == COPY_ONCE:
        for y in range(rows_count):
            put_pixels(tile + y * map.y, columns, channels, target + y * call.map.strides.y,
                       call.map.strides.x, call.store)
        stream_fence()
    if bad:
        __atomic_store_n(call.bad, 1, __ATOMIC_RELAXED)


def backward(Plan plan, grad_output, argmax):
    """Set the plan's map to the sums of grad_output (K, C, PH, PW) at the pixels of argmax.

    Return whether an index was of no pixel; such indices are passed over.
    """
    plan.set_result(grad_output)
    plan.set_argmax(argmax)
    run(plan, backward_task[float], backward_task[double])
    return plan.bad != 0


cdef int any_outside(const int32_t *index, Py_ssize_t count, int32_t pixels) noexcept nogil:
    cdef Py_ssize_t i
    cdef int bad = 0
    for i in range(count):      # becomes whole vectors
        bad |= (index[i] < -1) | (index[i] >= pixels)
    return bad


def outside(argmax, Py_ssize_t count, Py_ssize_t pixels, int threads):
    """Whether one of `count` indices, which lie end to end, is neither -1 nor in [0, pixels)."""
    cdef Strides strides
    cdef const int32_t *index = <const int32_t*>start_of(argmax, sizeof(int32_t), &strides)
    cdef Py_ssize_t i, some = ROUND_NUMBERS
    cdef int bad = 0
    threads = startable(threads)
    for i in prange(0, count, some, nogil=True, num_threads=threads, schedule="static"):
        bad += any_outside(index + i, min(count - i, some), <int32_t>pixels)
    return bad > 0
