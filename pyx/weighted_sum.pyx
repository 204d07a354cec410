"""Weighted sums of the pixels of a bin: the kernels of roi_align, ps_roi_align, ps_roi_pool and prroi_pool.

    out[k, c, p, q] = sum_y sum_x Wy[k, p, y] * input[image of k, channel of (c, p, q), y, x] * Wx[k, q, x]

The weights come from geometry.pyx and the tasks from schedule.pyx; this file neither knows what they mean nor which
operator calls.  A box is contracted first along y, into a *strip* [p][x][lane], then along x into *bins* [p][q][lane], and
its gradients go the same way back.  Every loop over lanes is one lane vector (lanes.pxd).

Each output bin, and each pixel of a gradient, is summed by one task in an order that only the boxes decide: the result
has the same bits for every number of threads.

Shape letters: p, q bins; y, x pixels; l lanes; k boxes; b channel blocks; z = p * PW + q.
"""
from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from lanes cimport LANE_BYTES, lanes_alloc, lanes_free, real, stream_end
from tasks cimport BIN, BLOCK_FIRST, BLOCK_STOP, FIRST, STOP, X0, X1, Y0, Y1
from tiles cimport (BINS_BYTES, MOST_COLUMNS, STREAM_BYTES, STRIP_BYTES, BinRange, Reader, Strides, View, bins_of_task, clear,
                    block_reader, cell_columns, cell_rows, pack, strides_of, tile_bytes, unpack, view)


cdef struct Problem:
    Strides map                # of the input or its gradient
    Strides bins               # of the output or its gradient
    Py_ssize_t boxes
    Py_ssize_t channels        # of the output
    Py_ssize_t group           # input channels per output channel: PH * PW where they are position-sensitive, else 1
    Py_ssize_t rows
    Py_ssize_t columns
    int ph
    int pw
    const int32_t *order
    const int32_t *windows     # [k][4]
    const int32_t *spans       # [k][PH + PW][2]
    const int32_t *index
    const void *weight
    const void *slopes         # [2][entries], gradient of the boxes only
    Py_ssize_t entries
    bint past_cache
    bint add
    Py_ssize_t tile_bytes      # scratch of a thread: tile, strip, bins, and as much again
    Py_ssize_t strip_bytes


cdef struct Scratch:
    void *tile
    void *strip
    void *bins
    void *more                 # a buffer as large as bins
    char *touched              # a flag for each of MOST_COLUMNS


cdef Py_ssize_t scratch_bytes(const Problem *problem) noexcept nogil:
    return problem.tile_bytes + 2 * problem.strip_bytes + 2 * BINS_BYTES + MOST_COLUMNS


cdef Scratch scratch_at(const Problem *problem, char *memory) noexcept nogil:
    cdef Scratch scratch
    scratch.tile = memory
    scratch.strip = memory + problem.tile_bytes
    scratch.bins = memory + problem.tile_bytes + 2 * problem.strip_bytes
    scratch.more = memory + problem.tile_bytes + 2 * problem.strip_bytes + BINS_BYTES
    scratch.touched = memory + problem.tile_bytes + 2 * problem.strip_bytes + 2 * BINS_BYTES
    return scratch


cdef struct Box:               # one box, or the part of its bins that is computed together
    const int32_t *spans_y
    const int32_t *spans_x
    int p0
    int p1
    int q0
    int q1
    Py_ssize_t y0
    Py_ssize_t y1
    Py_ssize_t x0
    Py_ssize_t x1


cdef inline void clip(
        const int32_t *span, const int32_t *index, Py_ssize_t low, Py_ssize_t high, Py_ssize_t *first,
        Py_ssize_t *stop) noexcept nogil:
    """The entries of a bin that are pixels of [low, high)."""
    first[0] = span[0]
    stop[0] = span[1]
    while first[0] < stop[0] and index[first[0]] < low:
        first[0] += 1
    while first[0] < stop[0] and index[stop[0] - 1] >= high:
        stop[0] -= 1


cdef inline void bounds(
        const int32_t *spans, int first, int stop, const int32_t *index, Py_ssize_t *low,
        Py_ssize_t *high) noexcept nogil:
    """The pixels from low to high - 1 that bins first..stop-1 read."""
    cdef int i
    low[0] = high[0] = 0
    for i in range(first, stop):
        if spans[2 * i] < spans[2 * i + 1]:
            low[0] = min(low[0], index[spans[2 * i]]) if high[0] > 0 else index[spans[2 * i]]
            high[0] = max(high[0], index[spans[2 * i + 1] - 1] + 1)


cdef inline Box part_of_box(const Problem *problem, Py_ssize_t k, int p0, int p1, int q0, int q1) noexcept nogil:
    cdef Box box
    box.spans_y = problem.spans + 2 * k * (problem.ph + problem.pw)
    box.spans_x = box.spans_y + 2 * problem.ph
    box.p0, box.p1, box.q0, box.q1 = p0, p1, q0, q1
    cdef const int32_t *window = problem.windows + 4 * k
    if p0 == 0 and p1 == problem.ph and q0 == 0 and q1 == problem.pw:
        box.y0, box.y1, box.x0, box.x1 = window[0], window[1], window[2], window[3]
    else:
        bounds(box.spans_y, p0, p1, problem.index, &box.y0, &box.y1)
        bounds(box.spans_x, q0, q1, problem.index, &box.x0, &box.x1)
    return box


# One primitive contracts either axis: count lane vectors, each the weighted sum of `taps` others.

cdef inline void weigh(
        real *to, Py_ssize_t to_step, const real *source, Py_ssize_t step, Py_ssize_t count, int taps,
        const int32_t *index, const real *weight, Py_ssize_t stride, bint add) noexcept nogil:
    """to[i] (+)= sum of weight[j] * source[i * step + index[j] * stride], up to four taps, which the compiler knows."""
    cdef int L = LANE_BYTES // sizeof(real), l
    cdef Py_ssize_t i
    cdef real[16] sums
    cdef const real *a = source + index[0] * stride
    cdef const real *b = source + index[1] * stride if taps > 1 else a
    cdef const real *c = source + index[2] * stride if taps > 2 else a
    cdef const real *d = source + index[3] * stride if taps > 3 else a
    cdef real wa = weight[0]
    cdef real wb = weight[1] if taps > 1 else 0
    cdef real wc = weight[2] if taps > 2 else 0
    cdef real wd = weight[3] if taps > 3 else 0
    for i in range(count):
        if add:
            for l in range(L):
                sums[l] = to[i * to_step + l]
            for l in range(L):
                sums[l] += wa * a[i * step + l]
        else:
            for l in range(L):
                sums[l] = wa * a[i * step + l]
        if taps > 1:
            for l in range(L):
                sums[l] += wb * b[i * step + l]
        if taps > 2:
            for l in range(L):
                sums[l] += wc * c[i * step + l]
        if taps > 3:
            for l in range(L):
                sums[l] += wd * d[i * step + l]
        for l in range(L):
            to[i * to_step + l] = sums[l]


cdef inline void weigh_more(
        real *to, Py_ssize_t to_step, const real *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t taps,
        const int32_t *index, const real *weight, Py_ssize_t stride) noexcept nogil:
    """to[i] += the sum of any number of taps."""
    while taps > 4:
        weigh(to, to_step, source, step, count, 4, index, weight, stride, True)
        index += 4
        weight += 4
        taps -= 4
    if taps == 4:
        weigh(to, to_step, source, step, count, 4, index, weight, stride, True)
    elif taps == 3:
        weigh(to, to_step, source, step, count, 3, index, weight, stride, True)
    elif taps == 2:
        weigh(to, to_step, source, step, count, 2, index, weight, stride, True)
    elif taps == 1:
        weigh(to, to_step, source, step, count, 1, index, weight, stride, True)


cdef void contract_axis(
        real *to, Py_ssize_t to_step, const real *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t taps,
        const int32_t *index, const real *weight, Py_ssize_t stride, bint add) noexcept nogil:
    """to[i] = (add: +=) sum over j of weight[j] * source[i * step + index[j] * stride], lane vectors all."""
    cdef Py_ssize_t i
    if add:
        weigh_more(to, to_step, source, step, count, taps, index, weight, stride)
    elif taps == 2:
        weigh(to, to_step, source, step, count, 2, index, weight, stride, False)
    elif taps == 3:
        weigh(to, to_step, source, step, count, 3, index, weight, stride, False)
    elif taps >= 4:
        weigh(to, to_step, source, step, count, 4, index, weight, stride, False)
        if taps > 4:
            weigh_more(to, to_step, source, step, count, taps - 4, index + 4, weight + 4, stride)
    elif taps == 1:
        weigh(to, to_step, source, step, count, 1, index, weight, stride, False)
    else:
        for i in range(count):
            memset(to + i * to_step, 0, LANE_BYTES)


cdef inline void accumulate(
        real *to, Py_ssize_t to_step, const real *source, Py_ssize_t step, Py_ssize_t count,
        real weight) noexcept nogil:
    """to[i] += weight * source[i], lane vectors all."""
    cdef int L = LANE_BYTES // sizeof(real), l
    cdef Py_ssize_t i
    cdef real[16] sums
    for i in range(count):
        for l in range(L):
            sums[l] = to[i * to_step + l]
        for l in range(L):
            sums[l] += weight * source[i * step + l]
        for l in range(L):
            to[i * to_step + l] = sums[l]


# Reading: the forward pass and the gradient of the boxes.

cdef void contract(
        const real *pixels, View strides, Py_ssize_t y0, Py_ssize_t y1, Py_ssize_t x0, Py_ssize_t x1, const Box *box,
        const int32_t *index, const real *weight, real *strip, real *bins, bint add) noexcept nogil:
    """bins (+)= what the pixels of [y0, y1) x [x0, x1) contribute; pixels points at (y0, x0)."""
    cdef int L = LANE_BYTES // sizeof(real)
    cdef Py_ssize_t columns = x1 - x0, first = 0, stop = 0
    cdef int p, q, i, rows, qs = box.q1 - box.q0
    # as many bin rows at once as leave the strip in cache
    cdef int most = <int>max(STRIP_BYTES // (columns * LANE_BYTES), 1)
    p = box.p0
    while p < box.p1:
        rows = min(most, box.p1 - p)
        for i in range(rows):
            clip(box.spans_y + 2 * (p + i), index, y0, y1, &first, &stop)
            contract_axis(strip + i * columns * L, L, pixels - y0 * strides.y, strides.x, columns, stop - first, index + first, weight + first, strides.y, False)
        for q in range(box.q0, box.q1):
            clip(box.spans_x + 2 * q, index, x0, x1, &first, &stop)
            contract_axis(bins + ((p - box.p0) * qs + q - box.q0) * L, qs * L, strip - x0 * L, columns * L, rows, stop - first, index + first, weight + first, L, add)
        p += most


cdef void forward_part(
        const Problem *problem, Reader *reader, const real *plane, real *out, const Box *box,
        const Scratch *scratch) noexcept nogil:
    """Some bins of one box, one channel block."""
    cdef Py_ssize_t y, x, y1, x1
    cdef View strides
    cdef const real *pixels
    cdef bint add = False
    cdef real *bins = <real*>scratch.bins
    cdef Py_ssize_t columns = cell_columns(box.x1 - box.x0)
    cdef Py_ssize_t rows = cell_rows(reader, box.y1 - box.y0, columns)
    if box.y0 < box.y1 and box.x0 < box.x1:
        y = box.y0
        while y < box.y1:
            y1 = min(y + rows, box.y1)
            x = box.x0
            while x < box.x1:
                x1 = min(x + columns, box.x1)
                pixels = view(reader, plane, <real*>scratch.tile, y, y1, x, x1, &strides)
                contract(pixels, strides, y, y1, x, x1, box, problem.index, <const real*>problem.weight, <real*>scratch.strip, bins, add)
                add = True
                x += columns
            y += rows
    else:
        memset(bins, 0, (box.p1 - box.p0) * (box.q1 - box.q0) * LANE_BYTES)
    unpack(bins, box.p1 - box.p0, box.q1 - box.q0, out + box.p0 * problem.bins.y + box.q0 * problem.bins.x, problem.bins, reader.lanes,
           <real*>scratch.more, problem.past_cache)


cdef void forward_task(
        const Problem *problem, const real *input, real *out, const int64_t *task, char *memory) noexcept nogil:
    cdef Py_ssize_t i, k, block
    cdef int p, q, L = LANE_BYTES // sizeof(real)
    cdef BinRange part = bins_of_task(task, problem.ph, problem.pw)
    # a task that keeps rows has one block, and so one reader that remembers them
    cdef Reader reader = block_reader(problem.map, problem.channels, problem.group, problem.tile_bytes, task, task[BLOCK_FIRST], L)
    cdef Box box
    cdef Scratch scratch = scratch_at(problem, memory)
    for i in range(task[FIRST], task[STOP]):
        k = problem.order[i]
        p = part.p0
        while p < part.p1:
            q = part.q0
            while q < part.q1:
                box = part_of_box(problem, k, p, min(p + part.p_step, part.p1), q, min(q + part.q_step, part.q1))
                for block in range(task[BLOCK_FIRST], task[BLOCK_STOP]):
                    if task[BLOCK_STOP] > task[BLOCK_FIRST] + 1:
                        reader = block_reader(problem.map, problem.channels, problem.group, problem.tile_bytes, task, block, L)
                    forward_part(problem, &reader, input + reader.first, out + k * problem.bins.image + block * L * problem.bins.channel, &box, &scratch)
                q += part.q_step
            p += part.p_step
    stream_end()


cdef void slopes_part(
        const Problem *problem, Reader *reader, const real *plane, const real *grad_output, const Box *box,
        const Scratch *scratch, real *sums) noexcept nogil:
    """sums [y1, y2, x1, x2][lane] += the gradients by the edges of one box, of some bins and one channel block.

    By the x edges: the strip, contracted with the slopes of Wx instead of Wx.  By the y edges: with u = Wx^T grad_output
    a row of the map contributes (slope of Wy) * (row . u), which costs one pass for both edges.
    """
    cdef int L = LANE_BYTES // sizeof(real), l, p, q, qs = box.q1 - box.q0
    cdef Py_ssize_t y, x, y1, x1, i, j, first = 0, stop = 0, columns
    cdef View strides
    cdef const real *pixels
    cdef const real *row
    cdef const real *g
    cdef const real *weight = <const real*>problem.weight
    cdef const real *low = <const real*>problem.slopes
    cdef const real *high = low + problem.entries
    cdef const int32_t *index = problem.index
    cdef Py_ssize_t cell_width = cell_columns(box.x1 - box.x0)
    cdef Py_ssize_t cell_height = cell_rows(reader, box.y1 - box.y0, cell_width)
    cdef real *strip = <real*>scratch.strip
    cdef real *u = strip + problem.strip_bytes // <Py_ssize_t>sizeof(real)
    cdef real *grad = <real*>scratch.bins
    cdef real[16] dot, other
    if box.y0 >= box.y1 or box.x0 >= box.x1:
        return
    pack(grad_output + box.p0 * problem.bins.y + box.q0 * problem.bins.x, problem.bins, reader.lanes, box.p1 - box.p0, qs, grad)
    y = box.y0
    while y < box.y1:
        y1 = min(y + cell_height, box.y1)
        x = box.x0
        while x < box.x1:
            x1 = min(x + cell_width, box.x1)
            columns = x1 - x
            pixels = view(reader, plane, <real*>scratch.tile, y, y1, x, x1, &strides)
            memset(scratch.touched, 0, columns)
            for q in range(box.q0, box.q1):
                clip(box.spans_x + 2 * q, index, x, x1, &first, &stop)
                for j in range(first, stop):
                    scratch.touched[index[j] - x] = 1
            for p in range(box.p0, box.p1):
                clip(box.spans_y + 2 * p, index, y, y1, &first, &stop)
                if first == stop:
                    continue
                contract_axis(strip, L, pixels - y * strides.y, strides.x, columns, stop - first, index + first, weight + first, strides.y, False)
                memset(u, 0, columns * LANE_BYTES)
                for q in range(box.q0, box.q1):
                    g = grad + ((p - box.p0) * qs + q - box.q0) * L
                    clip(box.spans_x + 2 * q, index, x, x1, &first, &stop)
                    for l in range(L):
                        dot[l] = 0
                        other[l] = 0
                    for j in range(first, stop):
                        row = strip + (index[j] - x) * L
                        for l in range(L):
                            dot[l] += low[j] * row[l]
                        for l in range(L):
                            other[l] += high[j] * row[l]
                        accumulate(u + (index[j] - x) * L, L, g, L, 1, weight[j])
                    for l in range(L):
                        sums[2 * L + l] += g[l] * dot[l]
                    for l in range(L):
                        sums[3 * L + l] += g[l] * other[l]
                clip(box.spans_y + 2 * p, index, y, y1, &first, &stop)
                for j in range(first, stop):
                    row = pixels + (index[j] - y) * strides.y
                    for l in range(L):
                        dot[l] = 0
                    for i in range(columns):
                        if scratch.touched[i]:      # a column that no bin reads may hold a NaN
                            for l in range(L):
                                dot[l] += row[i * strides.x + l] * u[i * L + l]
                    for l in range(L):
                        sums[l] += low[j] * dot[l]
                    for l in range(L):
                        sums[L + l] += high[j] * dot[l]
            x += cell_width
        y += cell_height


cdef void slopes_task(
        const Problem *problem, const real *input, const real *grad_output, double *parts, const int64_t *task,
        char *memory) noexcept nogil:
    """parts[block * group + bin][box] = gradients by x1, y1, x2, y2, of the task's boxes."""
    cdef Py_ssize_t i, k, block
    cdef int p, q, l, edge, L = LANE_BYTES // sizeof(real)
    cdef BinRange part = bins_of_task(task, problem.ph, problem.pw)
    cdef Reader reader = block_reader(problem.map, problem.channels, problem.group, problem.tile_bytes, task, task[BLOCK_FIRST], L)
    cdef Box box
    cdef real[64] sums
    cdef double total
    cdef Scratch scratch = scratch_at(problem, memory)
    cdef int[4] corner
    corner[0], corner[1], corner[2], corner[3] = 1, 3, 0, 2
    for i in range(task[FIRST], task[STOP]):
        k = problem.order[i]
        for block in range(task[BLOCK_FIRST], task[BLOCK_STOP]):
            if task[BLOCK_STOP] > task[BLOCK_FIRST] + 1:
                reader = block_reader(problem.map, problem.channels, problem.group, problem.tile_bytes, task, block, L)
            memset(sums, 0, sizeof(sums))
            p = part.p0
            while p < part.p1:
                q = part.q0
                while q < part.q1:
                    box = part_of_box(problem, k, p, min(p + part.p_step, part.p1), q, min(q + part.q_step, part.q1))
                    slopes_part(problem, &reader, input + reader.first, grad_output + k * problem.bins.image + block * L * problem.bins.channel,
                                &box, &scratch, sums)
                    q += part.q_step
                p += part.p_step
            for edge in range(4):
                total = 0
                for l in range(L):
                    total += sums[edge * L + l]
                parts[((block * problem.group + max(task[BIN], 0)) * problem.boxes + k) * 4 + corner[edge]] = total


# Writing: the gradient of the input.

cdef void spread(
        const real *grad, const Box *box, Py_ssize_t y0, Py_ssize_t y1, Py_ssize_t x0, Py_ssize_t x1,
        const int32_t *index, const real *weight, real *strip, real *target, Py_ssize_t stride_y,
        Py_ssize_t stride_x) noexcept nogil:
    """Pixels of [y0, y1) x [x0, x1) += Wy^T grad Wx of the bins of a box; target points at (y0, x0)."""
    cdef int L = LANE_BYTES // sizeof(real), p, q, rows = box.p1 - box.p0, qs = box.q1 - box.q0
    cdef Py_ssize_t x, columns, j, first = 0, stop = 0
    cdef Py_ssize_t most = max(STRIP_BYTES // (rows * LANE_BYTES), 1)
    x = x0
    while x < x1:
        columns = min(most, x1 - x)
        memset(strip, 0, rows * columns * LANE_BYTES)
        for q in range(box.q0, box.q1):
            clip(box.spans_x + 2 * q, index, x, x + columns, &first, &stop)
            for j in range(first, stop):
                accumulate(strip + (index[j] - x) * L, columns * L, grad + (q - box.q0) * L, qs * L, rows, weight[j])
        for p in range(box.p0, box.p1):
            clip(box.spans_y + 2 * p, index, y0, y1, &first, &stop)
            for j in range(first, stop):
                accumulate(target + (index[j] - y0) * stride_y + (x - x0) * stride_x, stride_x, strip + (p - box.p0) * columns * L, L, columns, weight[j])
        x += most


cdef void backward_task(
        const Problem *problem, const real *grad_output, real *grad_input, const int64_t *task,
        char *memory) noexcept nogil:
    cdef int L = LANE_BYTES // sizeof(real), p, q
    cdef Py_ssize_t i, k, block, y0 = task[Y0], y1 = task[Y1], x0 = task[X0], x1 = task[X1], stride_y, stride_x
    cdef Py_ssize_t top, bottom, left, right
    cdef const int32_t *window
    cdef BinRange part = bins_of_task(task, problem.ph, problem.pw)
    cdef Reader reader
    cdef Box box
    cdef real *target
    cdef bint packed = False   # the tile holds the sums of the block that has one
    cdef Scratch scratch = scratch_at(problem, memory)
    # blocks whose lanes lie together in the gradient are summed there, others in the tile: at most one of a task with boxes
    if not problem.add:
        for block in range(task[BLOCK_FIRST], task[BLOCK_STOP]):
            reader = block_reader(problem.map, problem.channels, problem.group, problem.tile_bytes, task, block, L)
            if reader.in_place or task[FIRST] == task[STOP]:
                clear(grad_input + reader.first + y0 * problem.map.y + x0 * problem.map.x, reader.strides, reader.lanes, y1 - y0, x1 - x0)
    for i in range(task[FIRST], task[STOP]):
        k = problem.order[i]
        window = problem.windows + 4 * k
        if window[1] <= y0 or window[0] >= y1 or window[3] <= x0 or window[2] >= x1:
            continue
        p = part.p0
        while p < part.p1:
            q = part.q0
            while q < part.q1:
                box = part_of_box(problem, k, p, min(p + part.p_step, part.p1), q, min(q + part.q_step, part.q1))
                top, bottom, left, right = max(box.y0, y0), min(box.y1, y1), max(box.x0, x0), min(box.x1, x1)
                for block in range(task[BLOCK_FIRST], task[BLOCK_STOP] if top < bottom and left < right else task[BLOCK_FIRST]):
                    reader = block_reader(problem.map, problem.channels, problem.group, problem.tile_bytes, task, block, L)
                    if reader.in_place:
                        target = grad_input + reader.first + y0 * problem.map.y + x0 * problem.map.x
                        stride_y, stride_x = problem.map.y, problem.map.x
                    else:
                        target = <real*>scratch.tile
                        stride_y, stride_x = (x1 - x0) * L, L
                        if not packed:
                            packed = True
                            if problem.add:
                                pack(grad_input + reader.first + y0 * problem.map.y + x0 * problem.map.x, reader.strides, reader.lanes, y1 - y0, x1 - x0, target)
                            else:
                                memset(target, 0, (y1 - y0) * (x1 - x0) * LANE_BYTES)
                    pack(grad_output + k * problem.bins.image + block * L * problem.bins.channel + box.p0 * problem.bins.y + box.q0 * problem.bins.x,
                         problem.bins, reader.lanes, box.p1 - box.p0, box.q1 - box.q0, <real*>scratch.bins)
                    spread(<real*>scratch.bins, &box, top, bottom, left, right, problem.index, <const real*>problem.weight, <real*>scratch.strip,
                           target + (top - y0) * stride_y + (left - x0) * stride_x, stride_y, stride_x)
                q += part.q_step
            p += part.p_step
    if task[FIRST] == task[STOP]:
        return
    for block in range(task[BLOCK_FIRST], task[BLOCK_STOP]):
        reader = block_reader(problem.map, problem.channels, problem.group, problem.tile_bytes, task, block, L)
        if reader.in_place:
            continue
        target = grad_input + reader.first + y0 * problem.map.y + x0 * problem.map.x
        if packed:
            unpack(<real*>scratch.tile, y1 - y0, x1 - x0, target, reader.strides, reader.lanes, <real*>NULL, False)
        elif not problem.add:
            clear(target, reader.strides, reader.lanes, y1 - y0, x1 - x0)


# The doors.  Arrays are (N, C, H, W) and (K, C, PH, PW) views of any strides; tables as geometry.tables makes them.

cdef Problem problem_of(Strides map_strides, Strides bins_strides, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t channels, bint one_bin, int ph, int pw,
                        const int32_t[:, ::1] windows, const int32_t[:, :, ::1] spans, const int32_t[::1] index, const int32_t[::1] order):
    cdef Problem problem
    problem.map = map_strides
    problem.bins = bins_strides
    problem.rows, problem.columns = rows, columns
    problem.channels = channels
    problem.group = ph * pw if one_bin else 1
    problem.ph, problem.pw = ph, pw
    problem.boxes = windows.shape[0]
    problem.order = &order[0]
    problem.windows = &windows[0, 0]
    problem.spans = &spans[0, 0, 0]
    problem.index = &index[0]
    problem.entries = index.shape[0]
    problem.past_cache = problem.add = False
    problem.tile_bytes = tile_bytes(rows, columns)
    problem.strip_bytes = max(STRIP_BYTES, max(min(columns, MOST_COLUMNS), 64) * LANE_BYTES)
    return problem


cdef char *allocate(const Problem *problem, int threads) except NULL:
    cdef char *memory = <char*>lanes_alloc(threads * scratch_bytes(problem))
    if memory == NULL:
        raise MemoryError(f"no {threads * scratch_bytes(problem)} bytes of scratch for {threads} threads")
    return memory


def forward(const real[:, :, :, :] input, const int32_t[:, ::1] windows, const int32_t[:, :, ::1] spans, const int32_t[::1] index, const real[::1] weight,
            const int32_t[::1] order, const int64_t[:, ::1] tasks, real[:, :, :, :] out, bint one_bin, int threads):
    """out (K, C', PH, PW) = weighted sums of input (N, C, H, W)."""
    cdef Problem problem = problem_of(strides_of(input), strides_of(out), input.shape[2], input.shape[3], out.shape[1], one_bin,
                                      <int>out.shape[2], <int>out.shape[3], windows, spans, index, order)
    problem.weight = &weight[0]
    problem.past_cache = out.shape[0] * out.shape[1] * out.shape[2] * out.shape[3] * <Py_ssize_t>sizeof(real) > STREAM_BYTES
    cdef Py_ssize_t i, size = scratch_bytes(&problem)
    cdef const real *from_ = &input[0, 0, 0, 0]
    cdef real *to = &out[0, 0, 0, 0]
    cdef char *memory = allocate(&problem, threads)
    if threads == 1:
        with nogil:
            for i in range(tasks.shape[0]):
                forward_task(&problem, from_, to, &tasks[i, 0], memory)
    else:
        for i in prange(tasks.shape[0], nogil=True, num_threads=threads, schedule="dynamic", chunksize=1):
            forward_task(&problem, from_, to, &tasks[i, 0], memory + threadid() * size)
    lanes_free(memory)


def backward(const real[:, :, :, :] grad_output, const int32_t[:, ::1] windows, const int32_t[:, :, ::1] spans, const int32_t[::1] index,
             const real[::1] weight, const int32_t[::1] order, const int64_t[:, ::1] tasks, real[:, :, :, :] grad_input, bint add, bint one_bin, int threads):
    """grad_input (N, C, H, W) = (add: +=) the gradient of the input for grad_output (K, C', PH, PW)."""
    cdef Problem problem = problem_of(strides_of(grad_input), strides_of(grad_output), grad_input.shape[2], grad_input.shape[3], grad_output.shape[1], one_bin,
                                      <int>grad_output.shape[2], <int>grad_output.shape[3], windows, spans, index, order)
    problem.weight = &weight[0]
    problem.add = add
    cdef Py_ssize_t i, size = scratch_bytes(&problem)
    cdef const real *from_ = &grad_output[0, 0, 0, 0]
    cdef real *to = &grad_input[0, 0, 0, 0]
    cdef char *memory = allocate(&problem, threads)
    if threads == 1:
        with nogil:
            for i in range(tasks.shape[0]):
                backward_task(&problem, from_, to, &tasks[i, 0], memory)
    else:
        for i in prange(tasks.shape[0], nogil=True, num_threads=threads, schedule="dynamic", chunksize=1):
            backward_task(&problem, from_, to, &tasks[i, 0], memory + threadid() * size)
    lanes_free(memory)


def backward_boxes(const real[:, :, :, :] grad_output, const real[:, :, :, :] input, const int32_t[:, ::1] windows, const int32_t[:, :, ::1] spans,
                   const int32_t[::1] index, const real[::1] weight, const real[:, ::1] slopes, const int32_t[::1] order, const int64_t[:, ::1] tasks,
                   double[:, :, ::1] parts, bint one_bin, int threads):
    """parts (blocks * bins of a task, K, 4): the gradients by x1, y1, x2, y2 that each channel block gives, to be added up."""
    cdef Problem problem = problem_of(strides_of(input), strides_of(grad_output), input.shape[2], input.shape[3], grad_output.shape[1], one_bin,
                                      <int>grad_output.shape[2], <int>grad_output.shape[3], windows, spans, index, order)
    problem.weight = &weight[0]
    problem.slopes = &slopes[0, 0]
    cdef Py_ssize_t i, size = scratch_bytes(&problem)
    cdef const real *from_ = &input[0, 0, 0, 0]
    cdef const real *grad = &grad_output[0, 0, 0, 0]
    cdef char *memory = allocate(&problem, threads)
    if threads == 1:
        with nogil:
            for i in range(tasks.shape[0]):
                slopes_task(&problem, from_, grad, &parts[0, 0, 0], &tasks[i, 0], memory)
    else:
        for i in prange(tasks.shape[0], nogil=True, num_threads=threads, schedule="dynamic", chunksize=1):
            slopes_task(&problem, from_, grad, &parts[0, 0, 0], &tasks[i, 0], memory + threadid() * size)
    lanes_free(memory)
