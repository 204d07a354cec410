"""The largest bilinear sample of a bin: the kernel of roi_align_max.

A bin has the grid of samples of roi_align, and takes the largest instead of their mean:

    of samples    max over samples of  w1 v1 + w2 v2 + w3 v3 + w4 v4
    of products   max over samples of  max(w1 v1, w2 v2, w3 v3, w4 v4)

with the values v of the four pixels around the sample and their bilinear weights.  Neither can be
taken one axis after the other.  A sample off the map counts as 0, and a NaN is never the larger.
"""
from libc.float cimport DBL_MAX, FLT_MAX
from libc.stdint cimport int32_t, uint8_t

from kernels.run cimport (Part, Scratch, is_thin, load_thin, next_part, parts_of, run, scratch_of,
                          target_of, thinned)
from move.store cimport Target, strides_of, unpack
from move.tile cimport (TileCache, View, Window, cell_columns, cell_rows, load, load_once,
                        open_tile)
from plan.spans cimport clip
from plan.structs cimport Call, Map, Task
from roicy._kernels.plan cimport Plan
from simd.simd cimport LANE_BYTES, add_product, keep_larger, real, stream_fence, stream_rest
from tuning cimport MAX_BINS


cdef struct Samples:               # of one row of samples in a cell
    const int32_t *pixel           # at or before each sample, or its slot
    const void *fraction           # how far each is from it
    int32_t first
    int32_t stop
    Py_ssize_t x0                  # the first column of the cell
    Py_ssize_t last                # the last column there is, which is its own neighbour


cdef inline void keep_largest(
        real *best, const real *row, const real *next_row, Py_ssize_t step,
        const Samples *samples, real fraction_y, bint products) noexcept nogil:
    """best = the larger of it and of the samples between two rows; row: pixel x0."""
    cdef int lanes = LANE_BYTES // sizeof(real), lane, i
    cdef const real *fraction = <const real*>samples.fraction
    cdef Py_ssize_t s, x, right
    cdef real[16] sums
    cdef real[4] weights
    cdef const real *corners[4]
    for s in range(samples.first, samples.stop):
        x = (samples.pixel[s] - samples.x0) * step
        right = (min(<Py_ssize_t>samples.pixel[s] + 1, samples.last) - samples.x0) * step
        corners[0], corners[1] = row + x, row + right
        corners[2], corners[3] = next_row + x, next_row + right
        weights[0] = (1 - fraction_y) * (1 - fraction[s])
        weights[1] = (1 - fraction_y) * fraction[s]
        weights[2] = fraction_y * (1 - fraction[s])
        weights[3] = fraction_y * fraction[s]
        for i in range(4):
            if products or i == 0:
                for lane in range(lanes):
                    sums[lane] = weights[i] * corners[i][lane]
            else:
                add_product(sums, weights[i], corners[i])
            if products or i == 3:
                keep_larger(best, sums)


cdef inline void clear_bins(const Call *call, const Part *part, real *bins) noexcept nogil:
    """Set each bin to what its maximum begins with: 0 if samples are off the map or missing."""
    cdef int lanes = LANE_BYTES // sizeof(real), lane, p, q
    cdef const uint8_t *outside_y = call.tables.outside + part.place * (call.ph + call.pw)
    cdef const uint8_t *outside_x = outside_y + call.ph
    cdef real lowest = -FLT_MAX if real is float else -DBL_MAX
    cdef bint zero
    for p in range(part.p0, part.p1):
        for q in range(part.q0, part.q1):
            zero = (outside_y[p] or outside_x[q] or part.spans_y[2 * p] == part.spans_y[2 * p + 1]
                    or part.spans_x[2 * q] == part.spans_x[2 * q + 1])
            for lane in range(lanes):
                bins[lane] = <real>0 if zero else lowest
            bins += lanes


cdef void reduce_cell(
        const Call *call, const Part *part, const Window *cell, const Window *all,
        const real *pixels, const View *steps, real *bins) noexcept nogil:
    """bins = the larger of them and of the samples whose lower pixels are in a cell.

    all: the pixels that there are, or the slots.
    """
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), s
    cdef const real *fraction = <const real*>call.tables.tap_weight
    cdef const int32_t *pixel = part.pixel
    cdef const real *row
    cdef const real *next_row
    cdef int32_t[2] rows, columns
    cdef Samples samples
    cdef int p, q
    samples.pixel, samples.fraction = pixel, call.tables.tap_weight
    samples.x0, samples.last = cell.x0, all.x1 - 1
    for p in range(part.p0, part.p1):
        clip(part.spans_y + 2 * p, pixel, cell.y0, cell.y1, rows)
        for q in range(part.q0, part.q1):
            clip(part.spans_x + 2 * q, pixel, cell.x0, cell.x1, columns)
            samples.first, samples.stop = columns[0], columns[1]
            for s in range(rows[0], rows[1]):
                row = pixels + (pixel[s] - cell.y0) * steps.y
                next_row = row + (steps.y if pixel[s] + 1 < all.y1 else 0)
                keep_largest(bins, row, next_row, steps.x, &samples, fraction[s], call.products)
            bins += lanes


cdef void reduce_part(
        const Call *call, const Part *part, TileCache *tile, real *memory,
        real *bins) noexcept nogil:
    """Some bins of a box, of one channel block, cell by cell; memory: of the tile."""
    cdef const Window *window = &part.window
    cdef Py_ssize_t columns = cell_columns(window.x1 - window.x0)
    # A cell reads one more row and column, where the map has them.
    cdef Py_ssize_t rows = max(cell_rows(tile, window.y1 - window.y0 + 1, columns + 1) - 1, 1)
    # The window of a box holds the pixels after its last samples, where the map has them.
    cdef const int32_t *box = call.tables.windows + 4 * part.place
    cdef const real *pixels
    cdef Window cell, read, all
    cdef View steps
    cdef Part slots
    clear_bins(call, part, bins)
    if is_thin(call, part, tile):
        slots = thinned(call, part)
        load_thin(call, &slots, tile, memory, &steps)
        reduce_cell(call, &slots, &slots.window, &slots.window, memory, &steps, bins)
        return
    all.y0, all.y1, all.x0, all.x1 = 0, call.map.rows, 0, call.map.columns
    cell.y0 = window.y0
    while cell.y0 < window.y1 and window.x0 < window.x1:
        cell.y1 = min(cell.y0 + rows, window.y1)
        cell.x0 = window.x0
        while cell.x0 < window.x1:
            cell.x1 = min(cell.x0 + columns, window.x1)
            read = cell
            read.y1 = min(cell.y1 + 1, <Py_ssize_t>box[1])
            read.x1 = min(cell.x1 + 1, <Py_ssize_t>box[3])
            pixels = load(tile, memory, &read, &steps)
            reduce_cell(call, part, &cell, &all, pixels, &steps, bins)
            cell.x0 = cell.x1
        cell.y0 = cell.y1


cdef void forward_task(
        const Call *call, const Task *task, real *out, char *memory) noexcept nogil:
    """Load, reduce and store each part of the task's boxes."""
    cdef Scratch scratch = scratch_of(call, memory)
    cdef Map map = load_once(call, task, <char*>scratch.tile)
    cdef TileCache tile = open_tile(call, &map, task, task.first_block)
    cdef Target target = target_of(call, &tile, &scratch)
    cdef Part part = parts_of(call, task, MAX_BINS)
    target.staging = scratch.staging
    while next_part(call, task, &part):
        if task.stop_block > task.first_block + 1:
            tile = open_tile(call, &map, task, part.block)
            target.lanes = tile.lanes
        reduce_part(call, &part, &tile, <real*>scratch.tile, <real*>scratch.bins)
        unpack(<real*>scratch.bins, part.p1 - part.p0, part.q1 - part.q0,
               out + part.row * call.bins.image + part.block * call.lanes * call.bins.channel
               + part.p0 * call.bins.y + part.q0 * call.bins.x, &target)
    stream_rest(&scratch.queue)
    stream_fence()


cdef void forward_float(const Call *call, const Task *task, char *memory) noexcept nogil:
    forward_task(call, task, <float*>call.result, memory)


cdef void forward_double(const Call *call, const Task *task, char *memory) noexcept nogil:
    forward_task(call, task, <double*>call.result, memory)


def forward(Plan plan, real[:, :, :, :] out, bint products):
    """out (K, C, PH, PW) = the largest samples of the plan's map, or the largest products."""
    plan.calls[0].products = products
    plan.set_result(&out[0, 0, 0, 0], strides_of(out))
    run(plan.calls, &plan.tasks, plan.threads, plan.scratch_bytes,
        forward_float if real is float else forward_double)
