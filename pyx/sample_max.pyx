"""The largest sample of a bin: the kernel of roi_align_max.

A bin has the grid of samples of roi_align, and takes the largest instead of their mean:

    of samples    max over samples of  w1 v1 + w2 v2 + w3 v3 + w4 v4
    of products   max over samples of  max(w1 v1, w2 v2, w3 v3, w4 v4)

with the values v of the four pixels around the sample and their bilinear weights.  Neither can be taken one axis after the other
as in weighted_sum.pyx: a bin costs as many lane vectors as it has samples, four times.  A sample off the map counts as 0; a NaN is
larger than nothing.
"""
from cython.parallel cimport prange, threadid
from libc.float cimport DBL_MAX, FLT_MAX
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from simd.simd cimport LANE_BYTES, Stream, add_product, keep_larger, pages_alloc, pages_free, real, stream_fence, stream_rest
from roicy._kernels.geometry cimport Tables
from tasks cimport BLOCK_FIRST, BLOCK_STOP, COLUMNS, EACH, FIRST, MODE, STOP
from tiles cimport (BINS_BYTES, MOST_BINS, BinRange, Layout, Map, Reader, Strides, View, begin_each, bins_of_task, block_reader, bounds, cell_columns,
                    cell_rows, clip, layout_of, map_of, map_of_task, next_of_each, strides_of, unpack, view, way_to_write)


cdef struct Problem:
    Map map
    Strides bins
    int ph
    int pw
    const int32_t *order       # boxes
    const int32_t *windows     # [i][4], i: place in the order
    const int32_t *spans       # [i][PH + PW][2] samples on the map
    const uint8_t *outside     # [i][PH + PW]: whether there are others
    const int32_t *pixels      # of a sample: the lower of the two that it lies between
    const void *fractions      # and how far it is from that
    int way                    # to write the result
    Layout layout


cdef inline void largest(
        real *best, const real *row, const real *next_row, Py_ssize_t step, Py_ssize_t columns, Py_ssize_t x0, const int32_t *pixels,
        const real *fractions, Py_ssize_t first, Py_ssize_t stop, real fraction_y, bint products) noexcept nogil:
    """best = the larger of it and of the samples between two rows; row: pixel x0; the last of the columns is its own neighbour."""
    cdef int L = LANE_BYTES // sizeof(real), l, i
    cdef Py_ssize_t s, x, right
    cdef real[16] sums
    cdef real[4] weights
    cdef const real *corners[4]
    for s in range(first, stop):
        x = (pixels[s] - x0) * step
        right = (min(<Py_ssize_t>pixels[s] + 1, columns - 1) - x0) * step
        corners[0], corners[1], corners[2], corners[3] = row + x, row + right, next_row + x, next_row + right
        weights[0], weights[1] = (1 - fraction_y) * (1 - fractions[s]), (1 - fraction_y) * fractions[s]
        weights[2], weights[3] = fraction_y * (1 - fractions[s]), fraction_y * fractions[s]
        for i in range(4):
            if products or i == 0:
                for l in range(L):
                    sums[l] = weights[i] * corners[i][l]
            else:
                add_product(sums, weights[i], corners[i])
            if products or i == 3:
                keep_larger(best, sums)


cdef void forward_part(
        const Problem *problem, Reader *reader, real *out, Py_ssize_t i, int p0, int p1, int q0, int q1, bint products, char *memory) noexcept nogil:
    """Bins [p0, p1) x [q0, q1) of one box, one channel block."""
    cdef Stream run
    memset(&run, 0, sizeof(run))
    cdef int L = LANE_BYTES // sizeof(real), l, p, q
    cdef const int32_t *spans_y = problem.spans + 2 * i * (problem.ph + problem.pw)
    cdef const int32_t *spans_x = spans_y + 2 * problem.ph
    cdef const uint8_t *outside_y = problem.outside + i * (problem.ph + problem.pw)
    cdef const uint8_t *outside_x = outside_y + problem.ph
    cdef const real *fractions = <const real*>problem.fractions
    cdef real *tile = <real*>memory
    cdef real *bins = <real*>(memory + problem.layout.bins)
    cdef Py_ssize_t y0 = 0, y1 = 0, x0 = 0, x1 = 0, y, x, rows, columns, first = 0, stop = 0, first_x = 0, stop_x = 0, s, at
    cdef View strides
    cdef const real *pixels
    cdef const real *row
    cdef bint zero
    # of the pixels at the lower sides of samples: one more is read, where the map has it
    bounds(spans_y, p0, p1, problem.pixels, &y0, &y1)
    bounds(spans_x, q0, q1, problem.pixels, &x0, &x1)
    for p in range(p0, p1):
        for q in range(q0, q1):
            # a bin without a sample on the map is 0, and so is every sample off it
            zero = (outside_y[p] or outside_x[q] or spans_y[2 * p] == spans_y[2 * p + 1] or spans_x[2 * q] == spans_x[2 * q + 1])
            at = ((p - p0) * (q1 - q0) + q - q0) * L
            for l in range(L):
                bins[at + l] = <real>0 if zero else <real>(-FLT_MAX if real is float else -DBL_MAX)
    columns = cell_columns(x1 - x0)
    # of a cell, one more row and column are read, where the map has them
    rows = max(cell_rows(reader, y1 - y0 + 1, columns + 1) - 1, 1)
    y = y0
    while y < y1 and x0 < x1:
        x = x0
        while x < x1:
            pixels = view(reader, tile, y, min(min(y + rows, y1) + 1, problem.map.rows), x, min(min(x + columns, x1) + 1, problem.map.columns), &strides)
            for p in range(p0, p1):
                clip(spans_y + 2 * p, problem.pixels, y, min(y + rows, y1), &first, &stop)
                for q in range(q0, q1):
                    clip(spans_x + 2 * q, problem.pixels, x, min(x + columns, x1), &first_x, &stop_x)
                    for s in range(first, stop):
                        row = pixels + (problem.pixels[s] - y) * strides.y
                        largest(bins + ((p - p0) * (q1 - q0) + q - q0) * L, row, row + (strides.y if problem.pixels[s] + 1 < problem.map.rows else 0),
                                strides.x, problem.map.columns, x, problem.pixels, fractions, first_x, stop_x, fractions[s], products)
            x += columns
        y += rows
    unpack(bins, p1 - p0, q1 - q0, out + p0 * problem.bins.y + q0 * problem.bins.x, problem.bins, reader.lanes,
           <real*>(memory + problem.layout.more), problem.way, &run)
    stream_rest(&run)


cdef void forward_task(const Problem *problem, real *out, const int64_t *task, bint products, char *memory) noexcept nogil:
    cdef int L = LANE_BYTES // sizeof(real), p, q
    cdef Py_ssize_t i, block
    cdef BinRange part = bins_of_task(task, problem.ph, problem.pw, MOST_BINS)
    cdef int64_t[COLUMNS] one
    cdef Map map
    cdef Reader reader
    if task[MODE] == EACH:
        begin_each(task, one)
        while next_of_each(task, problem.windows, 1, problem.map.tile_bytes, one):
            forward_task(problem, out, one, products, memory)
        return
    map = map_of_task(&problem.map, task, <real*>memory)
    # a task that keeps rows has one block, and so one reader that remembers them
    reader = block_reader(&map, task, task[BLOCK_FIRST], <real*>NULL)
    for i in range(task[FIRST], task[STOP]):
        for block in range(task[BLOCK_FIRST], task[BLOCK_STOP]):
            if task[BLOCK_STOP] > task[BLOCK_FIRST] + 1:
                reader = block_reader(&map, task, block, <real*>NULL)
            p = part.p0
            while p < part.p1:
                q = part.q0
                while q < part.q1:
                    forward_part(problem, &reader, out + problem.order[i] * problem.bins.image + block * L * problem.bins.channel, i,
                                 p, min(p + part.p_step, part.p1), q, min(q + part.q_step, part.q1), products, memory)
                    q += part.q_step
                p += part.p_step
    stream_fence()


def forward(tuple level, const int64_t[:, ::1] tasks, real[:, :, :, :] out, bint products, int threads):
    """out (K, C, PH, PW) = the largest samples of the map of a level, (map, dtype character, in_pixels, in_rows, tables of samples one by one), or the largest
    products of weight and pixel."""
    cdef Problem problem
    cdef Tables tables = level[4]
    cdef Py_UCS4 kind = level[1]
    problem.map = map_of(level[0], <int>kind, out.shape[1], 1, <real*>NULL)
    problem.bins = strides_of(out)
    problem.ph, problem.pw = <int>out.shape[2], <int>out.shape[3]
    problem.order = tables.order.rows + tables.first
    problem.windows, problem.spans, problem.outside, problem.pixels, problem.fractions = tables.windows, tables.spans, tables.outside, tables.index, tables.weight
    problem.way = way_to_write(out)
    problem.layout = layout_of(problem.map.tile_bytes, 0, BINS_BYTES)
    cdef Py_ssize_t i, size = problem.layout.size
    cdef real *to = &out[0, 0, 0, 0]
    cdef char *memory = <char*>pages_alloc(threads * size)
    if memory == NULL:
        raise MemoryError(f"no {threads * size} bytes of scratch for {threads} threads")
    if threads == 1:
        with nogil:
            for i in range(tasks.shape[0]):
                forward_task(&problem, to, &tasks[i, 0], products, memory)
    else:
        for i in prange(tasks.shape[0], nogil=True, num_threads=threads, schedule="dynamic", chunksize=1):
            forward_task(&problem, to, &tasks[i, 0], products, memory + threadid() * size)
    pages_free(memory)
