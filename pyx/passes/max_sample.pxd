"""The largest bilinear sample of a bin: the passes of roi_align_max.

A bin has the grid of samples of roi_align, and takes the largest instead of their mean:

    of samples    max over samples of  w1 v1 + w2 v2 + w3 v3 + w4 v4
    of products   max over samples of  max(w1 v1, w2 v2, w3 v3, w4 v4)

with the values v of the four pixels around the sample and their bilinear weights.  Neither can be
taken one axis after the other.  A sample off the map counts as 0, and a NaN is never the larger.

The gradient finds the winner of each bin anew.  It goes through samples in row order, so that the
first of equal samples wins.  A bin with samples off the map begins with 0, as its maximum does.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memset

from passes.maxima cimport begin_maxima, lowest
from passes.walk cimport Part, Walk, begin_walk, first_bin, in_slots, load_taps, walk_on
from passes.tile cimport before_cells, cell_columns, cell_rows, clear_rows, load, next_cell
from plan.spans cimport clip
from plan.structs cimport TAPS, LevelJob, Task
from simd.structs cimport LANE_BYTES, Samples, Strides, Tile, View, Window, real


cdef inline void sample_cell(
        const LevelJob *job, const Part *part, const Window *cell, const Window *all,
        const real *pixels, const View *view, real *bins) noexcept nogil:
    """bins = the larger of them and of the samples whose lower pixels are in a cell.

    all: the pixels that there are, or the slots.
    """
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), s
    cdef const real *fraction = <const real*>job.tables.tap_weight
    cdef const int32_t *pixel = part.pixel
    cdef const real *row
    cdef const real *next_row
    cdef int32_t[2] rows, columns
    cdef Samples samples
    cdef int p, q
    samples.pixel, samples.fraction = pixel, job.tables.tap_weight
    samples.x0, samples.last, samples.products = cell.x0, all.x1 - 1, job.maxima.products
    for p in range(part.p0, part.p1):
        clip(part.spans_y + 2 * p, pixel, cell.y0, cell.y1, rows)
        for q in range(part.q0, part.q1):
            clip(part.spans_x + 2 * q, pixel, cell.x0, cell.x1, columns)
            samples.first, samples.stop = columns[0], columns[1]
            for s in range(rows[0], rows[1]):
                row = pixels + (pixel[s] - cell.y0) * view.y
                next_row = row + (view.y if pixel[s] + 1 < all.y1 else 0)
                job.call.simd.keep_samples(bins, row, next_row, view.x, &samples, fraction + s)
            bins += lanes


cdef inline void sample_part(
        const LevelJob *job, const Part *part, Tile *tile, real *memory,
        real *bins) noexcept nogil:
    """Some bins of a box, of one channel block, cell by cell; memory: of the tile."""
    cdef const Window *window = &part.window
    cdef Py_ssize_t columns = cell_columns(window.x1 - window.x0)
    # A cell reads one more row and column, where the map has them.
    cdef Py_ssize_t rows = max(cell_rows(tile, window.y1 - window.y0 + 1, columns + 1) - 1, 1)
    # The window of a box holds the pixels after its last samples, where the map has them.
    cdef const int32_t *box = job.tables.windows + 4 * part.box
    cdef const real *pixels
    cdef Window cell, read, all
    cdef View view
    cdef Part slots
    begin_maxima(job, part, bins, NULL)
    if part.way == TAPS:
        slots = in_slots(job, part)
        load_taps(job, &slots, tile, memory, &view)
        sample_cell(job, &slots, &slots.window, &slots.window, memory, &view, bins)
        return
    all.y0, all.y1, all.x0, all.x1 = 0, job.map.rows, 0, job.map.columns
    cell = before_cells(window)
    while next_cell(window, rows, columns, &cell):
        read = cell
        read.y1 = min(cell.y1 + 1, <Py_ssize_t>box[1])
        read.x1 = min(cell.x1 + 1, <Py_ssize_t>box[3])
        pixels = load(job, tile, memory, &read, &view)
        sample_cell(job, part, &cell, &all, pixels, &view, bins)


cdef inline void sample_task(
        const LevelJob *job, const Task *task, char *memory, real _) noexcept nogil:
    cdef Walk walk
    cdef Part *part = &walk.part
    begin_walk(job, task, memory, False, &walk)
    while walk_on(job, task, &walk):
        sample_part(job, part, &walk.tile, <real*>walk.scratch.tile, <real*>walk.scratch.bins)
        job.call.simd.unpack(<real*>walk.scratch.bins, part.p1 - part.p0, part.q1 - part.q0,
                             first_bin(job, part, <real*>walk.result), &walk.target)


# The gradient of the input.

cdef struct Bin:
    int32_t y0                     # its samples, in the tables of taps
    int32_t y1
    int32_t x0
    int32_t x1
    bint zero                      # some samples are off the map


cdef struct WinnersOfBin:          # of the lanes of a bin: floats in LANE_BYTES, if not doubles
    int32_t[16] y                  # rows of samples, in the tables of taps; -1 where none wins
    int32_t[16] x                  # places in the row: 4 times the sample's, and the pixel's


cdef inline Bin bin_of(const LevelJob *job, const Part *part, int p, int q) noexcept nogil:
    cdef const uint8_t *outside = job.tables.outside + part.box * job.tables.spans_of_box
    cdef Bin bin
    bin.y0, bin.y1 = part.spans_y[2 * p], part.spans_y[2 * p + 1]
    bin.x0, bin.x1 = part.spans_x[2 * q], part.spans_x[2 * q + 1]
    bin.zero = outside[p] or outside[job.call.ph + q]
    return bin


cdef inline Window pixels_of(
        const LevelJob *job, int32_t y0, int32_t y1, int32_t x0, int32_t x1) noexcept nogil:
    """The pixels around samples [y0, y1) x [x0, x1); there is at least one."""
    cdef const int32_t *pixel = job.tables.tap_pixel
    cdef Window window
    window.y0, window.x0 = pixel[y0], pixel[x0]
    window.y1 = min(<Py_ssize_t>pixel[y1 - 1] + 2, job.map.rows)
    window.x1 = min(<Py_ssize_t>pixel[x1 - 1] + 2, job.map.columns)
    return window


cdef inline void find_winners(
        const LevelJob *job, const Bin *bin, Tile *tile, real *memory,
        WinnersOfBin *winners) noexcept nogil:
    """The first of the largest samples of a bin, of each lane; memory: of the tile."""
    cdef int lanes = LANE_BYTES // sizeof(real), lane
    cdef const int32_t *pixel = job.tables.tap_pixel
    cdef const real *fraction = <const real*>job.tables.tap_weight
    cdef Window window = pixels_of(job, bin.y0, bin.y1, bin.x0, bin.x1)
    cdef Py_ssize_t samples = <Py_ssize_t>(bin.y1 - bin.y0) * (bin.x1 - bin.x0), right, below
    # All pixels of a bin are packed at once if that is less than those around each sample.
    cdef bint together = (tile.in_place or (window.y1 - window.y0) * (window.x1 - window.x0)
                          <= min(4 * samples, tile.capacity))
    cdef const real *pixels = NULL
    cdef const real *corners[4]
    cdef View view
    cdef real[16] best
    cdef real[4] weights
    cdef int32_t[16] at            # places in a row
    cdef int32_t y, x
    for lane in range(lanes):
        best[lane] = <real>0 if bin.zero else lowest(memory)
        winners.y[lane] = winners.x[lane] = at[lane] = -1
    memset(&view, 0, sizeof(view))      # which compilers cannot see to be set below
    if together:
        pixels = load(job, tile, memory, &window, &view)
    for y in range(bin.y0, bin.y1):
        for x in range(bin.x0, bin.x1):
            if not together:
                window = pixels_of(job, y, y + 1, x, x + 1)
                pixels = load(job, tile, memory, &window, &view)
            below = view.y if pixel[y] + 1 < job.map.rows else 0
            right = view.x if pixel[x] + 1 < job.map.columns else 0
            corners[0] = (pixels + (pixel[y] - window.y0) * view.y
                          + (pixel[x] - window.x0) * view.x)
            corners[1], corners[2] = corners[0] + right, corners[0] + below
            corners[3] = corners[2] + right
            job.call.simd.weigh(weights, fraction + y, fraction + x)
            # Unsigned, so that a row may be of as many samples as a map can have columns.
            job.call.simd.keep_winners(best, at, <const void**>corners, weights,
                                       <int32_t>(4 * <uint32_t>(x - bin.x0)), job.maxima.products)
        job.call.simd.end_row(at, winners.y, winners.x, y)


cdef inline void add_gradients(
        const LevelJob *job, const Task *task, const Bin *bin, const WinnersOfBin *winners,
        int lanes, const real *grad, real *plane) noexcept nogil:
    """Add the gradients of a bin to the pixels of its winners that the task owns.

    plane: pixel (0, 0) of the first lane.
    """
    cdef const real *fraction = <const real*>job.tables.tap_weight
    cdef const Strides *to = &job.maxima.grad_strides
    cdef const int32_t *pixel = job.tables.tap_pixel
    cdef real[4] weights
    cdef real gradient
    cdef real *corner
    cdef Py_ssize_t y
    cdef int32_t sample
    cdef int lane, i
    for lane in range(lanes):
        if winners.y[lane] < 0:
            continue
        sample = bin.x0 + <int32_t>(<uint32_t>winners.x[lane] >> 2)
        job.call.simd.weigh(weights, fraction + winners.y[lane], fraction + sample)
        y = pixel[winners.y[lane]]
        corner = plane + lane * to.channel + y * to.y + pixel[sample] * to.x
        gradient = grad[lane * job.call.out_strides.channel]
        for i in range(4):
            if job.maxima.products and i != <int>(<uint32_t>winners.x[lane] & 3):
                continue
            # The pixels past the last row and column have weight 0.
            if task.y0 <= y + (i >> 1) < task.y1 and weights[i] != 0:
                corner[(i >> 1) * to.y + (i & 1) * to.x] += weights[i] * gradient


cdef inline void sample_grad_task(
        const LevelJob *job, const Task *task, char *memory, real _) noexcept nogil:
    """The rows of a task, from border to border.

    Each task finds all winners of its boxes that may be in its rows.
    """
    cdef Py_ssize_t channel
    cdef const Strides *to = &job.maxima.grad_strides
    cdef const Strides *of_bins = &job.call.out_strides
    cdef const int32_t *pixel = job.tables.tap_pixel
    cdef real *plane = <real*>job.maxima.grad_input + task.image * to.image
    cdef const real *grad
    cdef WinnersOfBin winners
    cdef Walk walk
    cdef Bin bin
    cdef int p, q
    begin_walk(job, task, memory, False, &walk)
    if not job.add:
        clear_rows(job, task, plane + task.first_block * job.call.lanes * to.channel, to, task.y0,
                   task.y1)
    while walk_on(job, task, &walk):
        channel = walk.part.block * job.call.lanes
        for p in range(walk.part.p0, walk.part.p1):
            for q in range(walk.part.q0, walk.part.q1):
                bin = bin_of(job, &walk.part, p, q)
                if (bin.y0 == bin.y1 or bin.x0 == bin.x1 or pixel[bin.y0] >= task.y1
                        or pixel[bin.y1 - 1] + 1 < task.y0):
                    continue
                find_winners(job, &bin, &walk.tile, <real*>memory, &winners)
                grad = <const real*>walk.result + p * of_bins.y + q * of_bins.x
                add_gradients(job, task, &bin, &winners, walk.tile.lanes, grad,
                              plane + channel * to.channel)
