"""The largest pixel of a bin: the kernels of roi_pool.

    out[k, c, p, q] = max over y in rows of p, x in columns of q of input[image of k, c, y, x]
    argmax[k, c, p, q] = y * W + x of the first such pixel in row order, -1 for none

A rectangle's maximum is the maximum of its columns' maxima, so a box is reduced first along y, into a *strip* [x][lane],
then along x into *bins* [p][q][lane], as weighted_sum.pyx does it.  A NaN is larger than nothing and so never wins; what
must be beaten is the lowest finite number, which is also what a bin of NaN alone gives.  An empty bin gives 0.

The gradient goes to the argmax.  It has no arithmetic to share between lanes, and works on the planes directly.
"""
from cython.parallel cimport prange, threadid
from libc.float cimport DBL_MAX, FLT_MAX
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset

from roicy._kernels.geometry cimport Tables
from simd.simd cimport (LANE_BYTES, PlaneRows, Stream, Winners, add_at_pixels, add_at_planes, keep_first_larger, keep_larger, keep_larger_at, pages_alloc,
                        pages_free, real, stream_fence, stream_rest, stream_some)
from tasks cimport BLOCK_FIRST, BLOCK_STOP, COLUMNS, EACH, FIRST, GATHERED, IMAGE, MODE, STOP, X0, X1, Y0, Y1
from tiles cimport (AT_ONCE, BINS_BYTES, MOST_BINS, MOST_COLUMNS, PAST_CACHE, STRIP_BYTES, WIDE_BYTES, BinRange, Layout, Map, Reader, Strides, View,
                    begin_each, bins_of_task, block_reader, blocks_together, cell_columns, cell_rows, clear, fetch_ends, fetch_pixel_ends,
                    layout_of, map_of, map_of_task, next_of_each, pages, put_pixels, strides_of, unpack, view, way_to_write)


cdef struct Problem:
    Map map                    # the input or its gradient
    Strides bins               # of the output or its gradient
    Strides argmax
    int ph
    int pw
    const int32_t *order       # boxes
    const int32_t *windows     # [i][4], i: place in the order
    const int32_t *spans       # [i][PH + PW][2] pixels
    int way                    # to write the result
    Layout layout              # the second half of the strip is for indices, as what follows the bins is
    Py_ssize_t strip_bytes


cdef inline real lowest(real *_) noexcept nogil:
    return -FLT_MAX if real is float else -DBL_MAX


cdef inline void largest(
        real *to, Py_ssize_t to_step, const real *source, Py_ssize_t step, Py_ssize_t count, int taps, Py_ssize_t stride,
        bint more) noexcept nogil:
    """to[i] = the largest of source[i * step + j * stride] (more: and of to[i]), up to four taps, which the compiler knows."""
    cdef int L = LANE_BYTES // sizeof(real), l
    cdef Py_ssize_t i
    cdef real[16] best
    for i in range(count):
        for l in range(L):
            best[l] = to[i * to_step + l] if more else lowest(best)
        keep_larger(best, source + i * step)
        if taps > 1:
            keep_larger(best, source + i * step + stride)
        if taps > 2:
            keep_larger(best, source + i * step + 2 * stride)
        if taps > 3:
            keep_larger(best, source + i * step + 3 * stride)
        for l in range(L):
            to[i * to_step + l] = best[l]


cdef void reduce_axis(
        real *to, Py_ssize_t to_step, const real *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t taps, Py_ssize_t stride,
        bint more) noexcept nogil:
    """The same of any number of taps, at least one."""
    if not more:
        if taps == 1:
            largest(to, to_step, source, step, count, 1, stride, False)
        elif taps == 2:
            largest(to, to_step, source, step, count, 2, stride, False)
        elif taps == 3:
            largest(to, to_step, source, step, count, 3, stride, False)
        else:
            largest(to, to_step, source, step, count, 4, stride, False)
        source += 4 * stride
        taps -= 4
    while taps >= 4:
        largest(to, to_step, source, step, count, 4, stride, True)
        source += 4 * stride
        taps -= 4
    if taps == 3:
        largest(to, to_step, source, step, count, 3, stride, True)
    elif taps == 2:
        largest(to, to_step, source, step, count, 2, stride, True)
    elif taps == 1:
        largest(to, to_step, source, step, count, 1, stride, True)


cdef inline void reduce_cell(
        const real *pixels, View strides, Py_ssize_t y0, Py_ssize_t y1, Py_ssize_t x0, Py_ssize_t x1,
        const int32_t *spans_y, const int32_t *spans_x, int p0, int p1, int q0, int q1, Py_ssize_t width, real *strip,
        int32_t *strip_at, real *bins, int32_t *bins_at, bint argmax) noexcept nogil:
    """bins = the larger of bins and of what the pixels of [y0, y1) x [x0, x1) hold; pixels points at (y0, x0)."""
    cdef int L = LANE_BYTES // sizeof(real), l, p, q
    cdef Py_ssize_t x, y, first, stop
    cdef real[16] best
    cdef int32_t[16] at
    cdef real *bin_best
    cdef int32_t *bin_at
    for p in range(p0, p1):
        first = max(spans_y[2 * p], y0)
        stop = min(spans_y[2 * p + 1], y1)
        if first >= stop:
            continue
        if not argmax:
            reduce_axis(strip, L, pixels + (first - y0) * strides.y, strides.x, x1 - x0, stop - first, strides.y, False)
            for q in range(q0, q1):
                first = max(spans_x[2 * q], x0)
                stop = min(spans_x[2 * q + 1], x1)
                if first < stop:
                    reduce_axis(bins + ((p - p0) * (q1 - q0) + q - q0) * L, L, strip + (first - x0) * L, 0, 1, stop - first, L, True)
            continue
        for x in range(x1 - x0):
            for l in range(L):
                best[l] = lowest(best)
            for l in range(L):
                at[l] = -1
            for y in range(first, stop):
                keep_larger_at(best, at, pixels + (y - y0) * strides.y + x * strides.x, <int32_t>(y * width + x0 + x))
            for l in range(L):
                strip[x * L + l] = best[l]
            for l in range(L):
                strip_at[x * L + l] = at[l]
        for q in range(q0, q1):
            first = max(spans_x[2 * q], x0)
            stop = min(spans_x[2 * q + 1], x1)
            bin_best = bins + ((p - p0) * (q1 - q0) + q - q0) * L
            bin_at = bins_at + ((p - p0) * (q1 - q0) + q - q0) * L
            for l in range(L):
                best[l] = bin_best[l]
            for l in range(L):
                at[l] = bin_at[l]
            for x in range(first, stop):
                keep_first_larger(best, at, strip + (x - x0) * L, strip_at + (x - x0) * L)
            for l in range(L):
                bin_best[l] = best[l]
            for l in range(L):
                bin_at[l] = at[l]


cdef inline void reduce_whole(
        const real *pixels, View strides, Py_ssize_t y0, Py_ssize_t x0, Py_ssize_t x1, const int32_t *spans_y, const int32_t *spans_x,
        int p0, int p1, int q0, int q1, real *strip, real *bins, Stream *run) noexcept nogil:
    """bins = what the whole window, at least one pixel, holds: several bin rows together, so that a bin column is one loop."""
    cdef int L = LANE_BYTES // sizeof(real), p = p0, q, i, rows, qs = q1 - q0
    cdef Py_ssize_t columns = x1 - x0, first, taps
    cdef int most = <int>max(STRIP_BYTES // (columns * LANE_BYTES), 1)
    while p < p1:
        rows = min(most, p1 - p)
        for i in range(rows):
            stream_some(run)
            first, taps = spans_y[2 * (p + i)], spans_y[2 * (p + i) + 1] - spans_y[2 * (p + i)]
            if taps > 0:
                reduce_axis(strip + i * columns * L, L, pixels + (first - y0) * strides.y, strides.x, columns, taps, strides.y, False)
            else:                  # the bins without pixels are 0
                memset(strip + i * columns * L, 0, columns * LANE_BYTES)
        for q in range(q0, q1):
            stream_some(run)
            first, taps = spans_x[2 * q], spans_x[2 * q + 1] - spans_x[2 * q]
            if taps > 0:
                reduce_axis(bins + (q - q0) * L, qs * L, strip + (first - x0) * L, columns * L, rows, taps, L, False)
            else:
                for i in range(rows):
                    memset(bins + (i * qs + q - q0) * L, 0, LANE_BYTES)
        bins += rows * qs * L
        p += rows


cdef inline void ends(const int32_t *spans, int first, int stop, Py_ssize_t *low, Py_ssize_t *high) noexcept nogil:
    """The pixels from low to high - 1 that bins first..stop-1 of one axis read."""
    cdef int i
    low[0] = high[0] = 0
    for i in range(first, stop):
        if spans[2 * i] < spans[2 * i + 1]:
            low[0] = min(low[0], spans[2 * i]) if high[0] > 0 else spans[2 * i]
            high[0] = max(high[0], spans[2 * i + 1])


cdef void forward_part(
        const Problem *problem, Reader *reader, real *out, int32_t *argmax, const int32_t *spans_y,
        int p0, int p1, int q0, int q1, char *memory, Stream *run) noexcept nogil:
    """Bins [p0, p1) x [q0, q1) of one box, one channel block."""
    cdef int L = LANE_BYTES // sizeof(real), l, p, q
    cdef const int32_t *spans_x = spans_y + 2 * problem.ph
    cdef real *tile = <real*>memory
    cdef real *strip = <real*>(memory + problem.layout.strip)
    cdef int32_t *strip_at = <int32_t*>(memory + problem.layout.strip + problem.strip_bytes)
    cdef real *bins = <real*>(memory + problem.layout.bins)
    cdef int32_t *bins_at = <int32_t*>(memory + problem.layout.more)
    cdef Py_ssize_t y0 = 0, y1 = 0, x0 = 0, x1 = 0, x, y, rows, columns, i
    cdef View strides
    cdef const real *pixels
    cdef Strides to = problem.argmax
    cdef bint empty
    ends(spans_y, p0, p1, &y0, &y1)
    ends(spans_x, q0, q1, &x0, &x1)
    columns = cell_columns(x1 - x0)
    rows = cell_rows(reader, y1 - y0, columns)
    if argmax == NULL and 0 < y1 - y0 <= rows and 0 < x1 - x0 <= columns:
        pixels = view(reader, tile, y0, y1, x0, x1, &strides)
        reduce_whole(pixels, strides, y0, x0, x1, spans_y, spans_x, p0, p1, q0, q1, strip, bins, run)
    else:
        for p in range(p0, p1):
            for q in range(q0, q1):
                empty = spans_y[2 * p] >= spans_y[2 * p + 1] or spans_x[2 * q] >= spans_x[2 * q + 1]
                i = ((p - p0) * (q1 - q0) + q - q0) * L
                for l in range(L):
                    bins[i + l] = <real>0 if empty else lowest(bins)
                if argmax != NULL:
                    for l in range(L):
                        bins_at[i + l] = -1
        if y0 < y1 and x0 < x1:
            y = y0
            while y < y1:
                x = x0
                while x < x1:
                    pixels = view(reader, tile, y, min(y + rows, y1), x, min(x + columns, x1), &strides)
                    reduce_cell(pixels, strides, y, min(y + rows, y1), x, min(x + columns, x1), spans_y, spans_x, p0, p1, q0, q1, problem.map.columns,
                                strip, strip_at, bins, bins_at, argmax != NULL)
                    x += columns
                y += rows
    # to the strip, which is done with and still in cache, unless the next box is computed before all is written
    unpack(bins, p1 - p0, q1 - q0, out + p0 * problem.bins.y + q0 * problem.bins.x, problem.bins, reader.lanes,
           <real*>bins_at if argmax == NULL and problem.way == PAST_CACHE else strip, problem.way, run)
    if argmax != NULL:
        argmax += p0 * to.y + q0 * to.x
        if real is float:      # as many bytes a lane: the bits travel as floats
            unpack(<float*>bins_at, p1 - p0, q1 - q0, <float*>argmax, to, reader.lanes, <float*>strip, problem.way, run)
        else:
            for p in range(p1 - p0):
                for l in range(reader.lanes):
                    for q in range(q1 - q0):
                        argmax[p * to.y + q * to.x + l * to.channel] = bins_at[(p * (q1 - q0) + q) * L + l]
        stream_rest(run)       # from the strip


cdef void forward_together(
        const Problem *problem, const real *plane, Strides strides, real *out, const int32_t *spans_y, int p0, int p1, int q0, int q1,
        Py_ssize_t x0, Py_ssize_t x1, Py_ssize_t blocks, char *memory) noexcept nogil:
    """Some bins of one box and as many channel blocks, whose lanes lie together in the map and in the result: nothing is packed."""
    cdef int L = LANE_BYTES // sizeof(real), p, q
    cdef const int32_t *spans_x = spans_y + 2 * problem.ph
    cdef real *strip = <real*>(memory + problem.layout.strip)
    cdef real *bins = <real*>(memory + problem.layout.bins)
    cdef Py_ssize_t width = blocks * L, y, x, rows, columns
    for p in range(p0, p1):
        y = spans_y[2 * p]
        rows = spans_y[2 * p + 1] - y
        fetch_pixel_ends(out + p * problem.bins.y + q0 * problem.bins.x, q1 - q0, width, problem.bins.x, problem.way)
        if rows > 0 and strides.x == width:
            reduce_axis(strip, L, plane + y * strides.y + x0 * strides.x, L, (x1 - x0) * blocks, rows, strides.y, False)
        elif rows > 0:
            for x in range(x0, x1):
                reduce_axis(strip + (x - x0) * width, L, plane + y * strides.y + x * strides.x, L, blocks, rows, strides.y, False)
        for q in range(q0, q1):
            x = spans_x[2 * q]
            columns = spans_x[2 * q + 1] - x
            if rows > 0 and columns > 0:
                reduce_axis(bins + (q - q0) * width, L, strip + (x - x0) * width, L, blocks, columns, width, False)
            else:
                memset(bins + (q - q0) * width, 0, width * sizeof(real))
        put_pixels(bins, q1 - q0, width, out + p * problem.bins.y + q0 * problem.bins.x, problem.bins.x, problem.way)


cdef void forward_task(
        const Problem *problem, real *out, int32_t *argmax, const int64_t *task, char *memory) noexcept nogil:
    cdef int L = LANE_BYTES // sizeof(real), p, q, p1, q1
    cdef Py_ssize_t i, k, block, blocks, x0 = 0, x1 = 0
    cdef const int32_t *spans
    cdef real *to
    cdef BinRange part = bins_of_task(task, problem.ph, problem.pw, MOST_BINS)
    cdef int64_t[COLUMNS] one
    cdef Map map
    cdef Reader reader
    cdef Stream run
    memset(&run, 0, sizeof(run))
    if task[MODE] == EACH:
        begin_each(task, one)
        while next_of_each(task, problem.windows, 1, problem.map.tile_bytes, one):
            forward_task(problem, out, argmax, one, memory)
        return
    map = map_of_task(&problem.map, task, <real*>memory)
    # a task that keeps rows has one block, and so one reader that remembers them
    reader = block_reader(&map, task, task[BLOCK_FIRST], <real*>NULL)
    for i in range(task[FIRST], task[STOP]):
        spans = problem.spans + 2 * i * (problem.ph + problem.pw)
        if problem.way == PAST_CACHE and not reader.in_place and i + 1 < task[STOP]:
            k = problem.order[i + 1]
            fetch_ends(out + k * problem.bins.image + task[BLOCK_FIRST] * L * problem.bins.channel, reader.lanes * problem.bins.channel * sizeof(real))
            if argmax != NULL:
                fetch_ends(argmax + k * problem.argmax.image + task[BLOCK_FIRST] * L * problem.argmax.channel,
                           reader.lanes * problem.argmax.channel * sizeof(int32_t))
        k = problem.order[i]
        p = part.p0
        while p < part.p1:
            q = part.q0
            while q < part.q1:
                p1, q1 = min(p + part.p_step, part.p1), min(q + part.q_step, part.q1)
                ends(spans + 2 * problem.ph, q, q1, &x0, &x1)
                block = task[BLOCK_FIRST]
                while block < task[BLOCK_STOP]:
                    if task[BLOCK_STOP] > task[BLOCK_FIRST] + 1:
                        reader = block_reader(&map, task, block, <real*>NULL)
                    to = out + k * problem.bins.image + block * L * problem.bins.channel
                    blocks = 0
                    if reader.in_place and problem.bins.channel == 1 and argmax == NULL and x0 < x1:
                        blocks = blocks_together(min(task[BLOCK_STOP], problem.map.channels // L) - block, WIDE_BYTES, x1 - x0, q1 - q)
                    if blocks > 0:
                        forward_together(problem, <const real*>reader.plane, reader.strides, to, spans, p, p1, q, q1, x0, x1, blocks, memory)
                    else:
                        forward_part(problem, &reader, to,
                                     <int32_t*>NULL if argmax == NULL else argmax + k * problem.argmax.image + block * L * problem.argmax.channel,
                                     spans, p, p1, q, q1, memory, &run)
                    block += max(blocks, 1)
                q += part.q_step
            p += part.p_step
    stream_rest(&run)
    stream_fence()


cdef Problem problem_of(tuple level, Py_ssize_t channels, Strides bins, int ph, int pw, real *_) except *:
    """Of a level, (map, dtype character, in_pixels, in_rows, tables)."""
    cdef Problem problem
    cdef Tables tables = level[4]
    cdef Py_UCS4 kind = level[1]
    problem.map = map_of(level[0], <int>kind, channels, 1, _)
    problem.argmax = problem.bins = bins
    problem.ph, problem.pw = ph, pw
    problem.order = tables.order.rows + tables.first
    problem.windows, problem.spans = tables.windows, tables.spans
    problem.way = AT_ONCE
    problem.strip_bytes = pages(max(WIDE_BYTES, min(problem.map.columns, MOST_COLUMNS) * LANE_BYTES))
    problem.layout = layout_of(problem.map.tile_bytes, problem.strip_bytes, BINS_BYTES)
    return problem


def forward(tuple level, const int64_t[:, ::1] tasks, real[:, :, :, :] out, int32_t[:, :, :, :] argmax, int threads):
    """out (K, C, PH, PW) = the largest pixels of the map of a level, and argmax (K, C, PH, PW), or None, where they are."""
    cdef Problem problem = problem_of(level, out.shape[1], strides_of(out), <int>out.shape[2], <int>out.shape[3], <real*>NULL)
    problem.way = way_to_write(out)
    cdef int32_t *at = NULL
    if argmax is not None:
        problem.argmax = strides_of(argmax)
        at = &argmax[0, 0, 0, 0]
    cdef Py_ssize_t i, size = problem.layout.size
    cdef real *to = &out[0, 0, 0, 0]
    cdef char *memory = <char*>pages_alloc(threads * size)
    if memory == NULL:
        raise MemoryError(f"no {threads * size} bytes of scratch for {threads} threads")
    if threads == 1:
        with nogil:
            for i in range(tasks.shape[0]):
                forward_task(&problem, to, at, &tasks[i, 0], memory)
    else:
        for i in prange(tasks.shape[0], nogil=True, num_threads=threads, schedule="dynamic", chunksize=1):
            forward_task(&problem, to, at, &tasks[i, 0], memory + threadid() * size)
    pages_free(memory)


cdef bint add_to_pixels(
        const Problem *problem, const real *grad, const int32_t *argmax, real *plane, Py_ssize_t channels, PlaneRows rows, const real *grad_later,
        const int32_t *argmax_later) noexcept nogil:
    """Add the gradients of a box, where the channels of a bin lie together; whether an index is none.

    Each bin asks for the next, and the last one for the first of the next box.
    """
    cdef Py_ssize_t y, x
    cdef const real *row
    cdef const real *next_
    cdef const int32_t *row_at
    cdef const int32_t *next_at
    cdef Winners bins
    cdef bint bad = False
    bins.at_step = bins.step = 1
    for y in range(problem.ph):
        row, row_at = grad + y * problem.bins.y, argmax + y * problem.argmax.y
        for x in range(problem.pw):
            if x + 1 < problem.pw:
                next_, next_at = row + (x + 1) * problem.bins.x, row_at + (x + 1) * problem.argmax.x
            elif y + 1 < problem.ph:
                next_, next_at = row + problem.bins.y, row_at + problem.argmax.y
            else:
                next_, next_at = grad_later, argmax_later
            bins.at, bins.values, bins.next_at, bins.next_values = row_at + x * problem.argmax.x, row + x * problem.bins.x, next_at, next_
            bad |= add_at_pixels(plane, problem.map.strides.x, &bins, channels, &rows)
    return bad


cdef bint add_each(
        const Problem *problem, const real *grad, const int32_t *argmax, real *plane, Py_ssize_t channels, PlaneRows rows) noexcept nogil:
    """The same, whatever lies where."""
    cdef Py_ssize_t c, y, x
    cdef int32_t at
    cdef bint bad = False
    for c in range(channels):
        for y in range(problem.ph):
            for x in range(problem.pw):
                at = argmax[c * problem.argmax.channel + y * problem.argmax.y + x * problem.argmax.x]
                if <uint32_t>at - rows.first < rows.count:
                    plane[c * problem.map.strides.channel + at // problem.map.columns * problem.map.strides.y + at % problem.map.columns * problem.map.strides.x] += \
                        grad[c * problem.bins.channel + y * problem.bins.y + x * problem.bins.x]
                else:
                    bad |= at != -1 and <uint32_t>at >= rows.all
    return bad


cdef Py_ssize_t own_bytes(const int64_t *task) noexcept nogil:
    """Of a tile for the rows of a task, if it has one."""
    return (task[Y1] - task[Y0]) * (task[X1] - task[X0]) * (task[BLOCK_STOP] - task[BLOCK_FIRST]) * LANE_BYTES if task[MODE] == GATHERED else 0


cdef bint backward_task(const Problem *whole, const real *grad_output, const int32_t *argmax, const int64_t *task, real *tile) noexcept nogil:
    """The rows of a task, from border to border; whether an index is none, be it of these rows or others.

    tile: where the task has one, the rows are summed in it and then copied, since neighbouring channels of a pixel are other threads'.
    """
    cdef Problem copy = whole[0]
    cdef Problem *problem = &copy
    cdef Py_ssize_t first = task[BLOCK_FIRST] * (LANE_BYTES // sizeof(real)), stop = task[BLOCK_STOP] * (LANE_BYTES // sizeof(real))
    cdef Py_ssize_t channels = min(stop, problem.map.channels) - first, i, k, later, y
    cdef Strides *map = &problem.map.strides
    cdef const Strides *bins = &problem.bins
    cdef const Strides *indices = &problem.argmax
    cdef real *plane = <real*>problem.map.data + task[IMAGE] * map.image + first * map.channel
    cdef real *target = plane + task[Y0] * map.y
    if task[MODE] == GATHERED:
        map.channel, map.x, map.y = 1, channels, problem.map.columns * channels
        plane = tile - task[Y0] * map.y
    cdef PlaneRows rows        # of the plane, those that the task writes to; int32 can count its pixels, by the checks of the callers
    cdef Winners winners
    cdef bint bad = False
    # of nearly all calls one is true
    cdef bint end_to_end = map.y == problem.map.columns * map.x
    cdef bint pixels = end_to_end and map.channel == 1 and bins.channel == 1 and indices.channel == 1
    cdef bint planes = end_to_end and map.x == 1 and bins.x == 1 and indices.x == 1 and (problem.ph == 1 or bins.y == problem.pw == indices.y)
    rows.first = <uint32_t>(task[Y0] * problem.map.columns)
    rows.count = <uint32_t>((task[Y1] - task[Y0]) * problem.map.columns)
    rows.all = <uint32_t>(problem.map.rows * problem.map.columns)
    grad_output += first * bins.channel
    argmax += first * indices.channel
    clear(plane + task[Y0] * map.y, map[0], channels, task[Y1] - task[Y0], problem.map.columns)
    for i in range(task[FIRST], task[STOP]):
        k = problem.order[i]
        later = problem.order[min(i + 1, task[STOP] - 1)]
        if planes:
            # the gradients of the next box lie where no hardware would look for them
            winners.at, winners.values, winners.at_step, winners.step = argmax + k * indices.image, grad_output + k * bins.image, indices.channel, bins.channel
            winners.next_at, winners.next_values = argmax + later * indices.image, grad_output + later * bins.image
            bad |= add_at_planes(plane, map.channel, &winners, channels, <Py_ssize_t>problem.ph * problem.pw, &rows)
        elif pixels:
            bad |= add_to_pixels(problem, grad_output + k * bins.image, argmax + k * indices.image, plane, channels, rows,
                                 grad_output + later * bins.image, argmax + later * indices.image)
        else:
            bad |= add_each(problem, grad_output + k * bins.image, argmax + k * indices.image, plane, channels, rows)
    if task[MODE] == GATHERED:
        for y in range(task[Y1] - task[Y0]):
            put_pixels(tile + y * map.y, problem.map.columns, channels, target + y * whole.map.strides.y, whole.map.strides.x, problem.way)
    return bad


def backward(const real[:, :, :, :] grad_output, const int32_t[:, :, :, :] argmax, tuple level, const int64_t[:, ::1] tasks, int threads):
    """The map of a level = grad_output (K, C, PH, PW) at argmax; whether there were indices outside of the plane, which are passed over."""
    cdef Problem problem = problem_of(level, grad_output.shape[1], strides_of(grad_output), <int>grad_output.shape[2], <int>grad_output.shape[3],
                                      <real*>NULL)
    problem.argmax = strides_of(argmax)
    cdef Py_ssize_t i, size = 0
    cdef int bad = 0
    cdef const real *grad = &grad_output[0, 0, 0, 0]
    cdef const int32_t *at = &argmax[0, 0, 0, 0]
    for i in range(tasks.shape[0]):
        size = max(size, own_bytes(&tasks[i, 0]))
    size = pages(size)
    cdef char *memory = <char*>pages_alloc(threads * size)
    if memory == NULL:
        raise MemoryError(f"no {threads * size} bytes of scratch for {threads} threads")
    if threads == 1:
        with nogil:
            for i in range(tasks.shape[0]):
                bad |= backward_task(&problem, grad, at, &tasks[i, 0], <real*>memory)
    else:
        for i in prange(tasks.shape[0], nogil=True, num_threads=threads, schedule="dynamic", chunksize=1):
            bad += backward_task(&problem, grad, at, &tasks[i, 0], <real*>(memory + threadid() * size))
    pages_free(memory)
    return bad != 0


cdef inline bint any_outside(const int32_t *argmax, Py_ssize_t count, int32_t pixels) noexcept nogil:
    cdef Py_ssize_t i
    cdef int32_t bad = 0
    for i in range(count):        # without a branch, so that it becomes whole vectors
        bad |= (argmax[i] < -1) | (argmax[i] >= pixels)
    return bad != 0


cdef inline bint any_strided(const int32_t *argmax, Py_ssize_t count, Py_ssize_t step, int32_t pixels) noexcept nogil:
    cdef Py_ssize_t i
    cdef bint bad = False
    for i in range(count):
        bad |= argmax[i * step] < -1 or argmax[i * step] >= pixels
    return bad


cdef bint box_outside(const int32_t *argmax, Strides strides, Py_ssize_t planes, Py_ssize_t rows, Py_ssize_t columns, int32_t pixels) noexcept nogil:
    cdef Py_ssize_t c, p
    cdef const int32_t *row
    cdef bint bad = False
    if strides.x == 1 and strides.y == columns and strides.channel == rows * columns:
        return any_outside(argmax, planes * rows * columns, pixels)
    for c in range(planes):
        for p in range(rows):
            row = argmax + c * strides.channel + p * strides.y
            bad |= any_outside(row, columns, pixels) if strides.x == 1 else any_strided(row, columns, strides.x, pixels)
    return bad


def first_outside(const int32_t[:, :, :, :] argmax, Py_ssize_t pixels, int threads):
    """The first box with an index that is neither -1 nor in [0, pixels), or -1; argmax: of any layout, boxes first."""
    cdef Py_ssize_t k, count = argmax.shape[0], planes = argmax.shape[1], rows = argmax.shape[2], columns = argmax.shape[3], first = -1
    if 0 in (count, planes, rows, columns):
        return -1
    cdef Strides strides = strides_of(argmax)
    cdef const int32_t *at = &argmax[0, 0, 0, 0]
    cdef int bad = 0
    if threads > 1:
        for k in prange(count, nogil=True, num_threads=threads, schedule="static"):
            bad += box_outside(at + k * strides.image, strides, planes, rows, columns, <int32_t>pixels)
        if not bad:
            return -1
    with nogil:
        for k in range(count):
            if box_outside(at + k * strides.image, strides, planes, rows, columns, <int32_t>pixels):
                first = k
                break
    return first
