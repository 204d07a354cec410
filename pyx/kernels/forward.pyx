"""Forward pass of every operator that is a weighted sum.

    out[k, c, p, q] = sum_y sum_x  Wy[k, p, y] * input[n, channel, y, x] * Wx[k, q, x]

with n the image of box k, and the channel that the operator reads for (c, p, q).

The weights are tables of the plan; this file knows neither what they mean nor which operator
calls.  A box is contracted along y, into a strip [p][x][lane], and then along x into bins
[p][q][lane], or the other way round where that is much less work (`x_first` in plan/choose.pxd).
Each bin is summed by one task in an order that only the boxes decide, so that results have the same
bits for every number of threads.
"""
from libc.stdint cimport int32_t
from libc.string cimport memset

from kernels.nest cimport (Part, Scratch, Step, begin_steps, load_thin, next_step, parts_of, run,
                           scratch_of, set_box, set_window, target_of, thinned)
from kernels.row_lanes cimport reduce_row_lanes
from kernels.scalars cimport sum_bins
from kernels.sparse cimport sum_sparse, sum_sparse_pixels
from move.prefetch cimport prefetch_taps
from move.tile cimport bin_tile_bytes, cell_columns, cell_rows, load, load_bins, open_tile
from plan.choose cimport how_of_window
from plan.spans cimport clip, taps_after
from plan.structs cimport (BINS, CELLS, COPY_ONCE, EMPTY, PIXELS_X, PIXELS_Y, ROWS, SCALARS,
                           SPARSE, SPARSE_PIXELS, TAPS_X, TAPS_Y, WINDOW_X, WINDOW_Y, Call, Task,
                           holds_pixels)
from roicy._kernels.plan cimport Plan
from simd.structs cimport (DIRECT, LANE_BYTES, Stream, Strides, Taps, Target, Tile, Vectors, View,
                           Window, prefetch_write, real)
from simd.table cimport Simd, stream_some
from tuning cimport STRIP_BYTES, WIDE_STRIP_BYTES, WRITE_AHEAD


cdef struct Axis:                  # one axis of the bins at hand
    Taps taps
    int bins
    Py_ssize_t bin_step            # of the results, in elements
    Py_ssize_t stride              # from pixel to pixel, in elements
    Py_ssize_t low                 # the first pixel of the window
    Py_ssize_t count               # and how many there are


cdef void contract(
        const Simd *simd, const real *pixels, const Axis *first, const Axis *second, real *strip,
        real *bins, Stream *queue) noexcept nogil:
    """bins = the weighted sums of a window, along the first axis and then along the second.

    pixels: the first of the window along the second axis, pixel 0 along the first.  Results of the
    box before are streamed meanwhile, half of them before each axis.
    """
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), row = second.count * lanes
    # with so many bins at a time, the strip stays in a level 1 cache
    cdef int at_once = <int>max(STRIP_BYTES // (second.count * LANE_BYTES), 1)
    cdef int left = first.bins, some
    cdef Taps taps = first.taps
    cdef Vectors window, strips
    window.start, window.step = pixels, second.stride
    window.stride, window.count = first.stride, second.count
    strips.start, strips.step, strips.stride = strip - second.low * lanes, row, lanes
    while left > 0:
        some = min(at_once, left)
        stream_some(simd, queue)
        simd.contract_bins(strip, row, lanes, &window, some, &taps)
        stream_some(simd, queue)
        strips.count = some
        simd.contract_bins(bins, second.bin_step, first.bin_step, &strips, second.bins,
                           &second.taps)
        taps.spans += 2 * some
        bins += some * first.bin_step
        left -= some


cdef inline void set_axes(
        const Call *call, const Part *part, const View *steps, Axis *y, Axis *x) noexcept nogil:
    """Both axes of a part, whose pixels lie `steps` apart."""
    cdef Py_ssize_t lanes = call.lanes
    y.taps.pixel = x.taps.pixel = part.pixel
    y.taps.weight = x.taps.weight = call.tables.tap_weight
    y.taps.spans, x.taps.spans = part.spans_y + 2 * part.p0, part.spans_x + 2 * part.q0
    y.bins, x.bins = part.p1 - part.p0, part.q1 - part.q0
    y.bin_step, x.bin_step = x.bins * lanes, lanes
    y.low, y.count = part.window.y0, part.window.y1 - part.window.y0
    x.low, x.count = part.window.x0, part.window.x1 - part.window.x0
    y.stride, x.stride = steps.y, steps.x


cdef void sum_cell(
        const Simd *simd, const Axis *axis, Py_ssize_t low, Py_ssize_t high,
        const Vectors *pixels, real *to, Py_ssize_t bin_step, Py_ssize_t step) noexcept nogil:
    """Go on with the sums of each bin along an axis: the pixels low .. high - 1 of it.

    The first pixels of a bin set its sums, and later ones are added.
    """
    cdef int32_t[2] span
    cdef Taps taps = axis.taps
    cdef int p
    taps.spans = span
    for p in range(axis.bins):
        clip(axis.taps.spans + 2 * p, taps.pixel, low, high, span)
        simd.contract_axis(to + p * bin_step, step, pixels, &taps, span[0] > axis.taps.spans[2 * p])


cdef void sum_cells(const Call *call, Step *step, real *bins) noexcept nogil:
    """bins = the weighted sums of a window that is larger than the tile, cell by cell.

    As many columns as the strip has room for are summed along y, one cell below the other, and
    then along x.  So numbers are added in the order in which `contract` adds them.
    """
    cdef const Window *window = &step.part.window
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = window.x1 - window.x0, columns, rows
    cdef real *strip = <real*>step.scratch.strip
    cdef const real *pixels
    cdef View steps
    cdef Vectors cells, strips
    cdef Window cell
    cdef Axis y, x
    steps.y = steps.x = 0      # which load sets, cell by cell
    set_axes(call, &step.part, &steps, &y, &x)
    columns = min(cell_columns(width), call.layout.strip_bytes // (y.bins * LANE_BYTES))
    rows = cell_rows(&step.tile, window.y1 - window.y0, cell_columns(width))
    strips.stride, strips.count = lanes, y.bins
    cell.x1 = window.x0
    while cell.x1 < window.x1:
        cell.x0, cell.y1 = cell.x1, window.y0
        cell.x1 = min(cell.x0 + columns, window.x1)
        width = cell.x1 - cell.x0
        while cell.y1 < window.y1:
            cell.y0 = cell.y1
            cell.y1 = min(cell.y0 + rows, window.y1)
            pixels = load(call, &step.tile, <real*>step.scratch.tile, &cell, &steps)
            cells.start, cells.step = pixels - cell.y0 * steps.y, steps.x
            cells.stride, cells.count = steps.y, width
            sum_cell(call.simd, &y, cell.y0, cell.y1, &cells, strip, width * lanes, lanes)
        strips.start, strips.step = strip - cell.x0 * lanes, width * lanes
        sum_cell(call.simd, &x, cell.x0, cell.x1, &strips, bins, x.bin_step, y.bin_step)


cdef void sum_window(const Call *call, Step *step, real *bins) noexcept nogil:
    """bins = the weighted sums of a window that is loaded at once, or of its taps alone."""
    cdef real *memory = <real*>step.scratch.tile
    cdef real *strip = <real*>step.scratch.strip
    cdef const real *pixels = memory
    cdef const Part *part = &step.part
    cdef Part slots
    cdef View steps
    cdef Axis y, x
    if step.how == TAPS_Y or step.how == TAPS_X:
        slots = thinned(call, part)
        load_thin(call, &slots, &step.tile, memory, &steps)
        part = &slots
    else:
        pixels = load(call, &step.tile, memory, &part.window, &steps)
    set_axes(call, part, &steps, &y, &x)
    if step.how == WINDOW_X or step.how == TAPS_X:
        contract(call.simd, pixels - x.low * x.stride, &x, &y, strip, bins, &step.scratch.queue)
    else:
        contract(call.simd, pixels - y.low * y.stride, &y, &x, strip, bins, &step.scratch.queue)


cdef inline void sum_block(const Call *call, Step *step, real *bins) noexcept nogil:
    """bins = the weighted sums of a part, of one channel block."""
    if step.how == EMPTY:
        memset(bins, 0, (step.part.p1 - step.part.p0) * (step.part.q1 - step.part.q0) * LANE_BYTES)
    elif step.how == CELLS:
        sum_cells(call, step, bins)
    else:
        sum_window(call, step, bins)


# Where lanes of pixels lie together in the map and in the output, nothing is packed: several
# channel blocks are computed at a time, as one long run of each pixel.

cdef void pixels_y_first(
        const Call *call, const Part *part, const Tile *tile, real *out,
        Scratch *scratch) noexcept nogil:
    """Some bins of a box, of part.blocks channel blocks; out: bin (0, 0)."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = part.blocks * lanes
    cdef Py_ssize_t runs = part.window.x1 - part.window.x0, qs = part.q1 - part.q0, i
    cdef int p
    cdef real *strip = <real*>scratch.strip
    cdef real *bins = <real*>scratch.bins
    cdef real *row
    cdef Strides map = tile.strides
    cdef const real *plane = <const real*>tile.plane
    cdef Taps y_taps, x_taps
    cdef Vectors pixels, strips
    y_taps.pixel = x_taps.pixel = call.tables.tap_pixel
    y_taps.weight = x_taps.weight = call.tables.tap_weight
    x_taps.spans = part.spans_x + 2 * part.q0
    plane += part.window.x0 * map.x
    pixels.step, pixels.stride, pixels.count = lanes, map.y, part.blocks
    if map.x == width:      # pixels lie end to end
        pixels.count, runs = runs * part.blocks, 1
    strips.start, strips.step, strips.stride = strip - part.window.x0 * width, lanes, width
    strips.count = part.blocks
    for p in range(part.p0, part.p1):
        row = out + p * call.bins.y + part.q0 * call.bins.x
        y_taps.spans = part.spans_y + 2 * p
        for i in range(runs):
            pixels.start = plane + i * map.x
            call.simd.contract_bins(strip + i * width, 0, lanes, &pixels, 1, &y_taps)
        call.simd.contract_bins(bins, width, lanes, &strips, <int>qs, &x_taps)
        call.simd.put_pixels(bins, qs, width, row, call.bins.x, call.store)


cdef void pixels_x_first(
        const Call *call, const Part *part, const Tile *tile, real *out, bint prefetch,
        Scratch *scratch) noexcept nogil:
    """Some bins of a box, of part.blocks channel blocks, along x first; out: bin (0, 0).

    The strip is [y][q][lane], so that some bins of a row are one run of it.
    """
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = part.blocks * lanes
    cdef Py_ssize_t rows = part.window.y1 - part.window.y0, y, first, stop
    cdef Py_ssize_t most = max(WIDE_STRIP_BYTES // (rows * part.blocks * LANE_BYTES), 1)
    cdef int q = part.q0, p, i, count
    cdef real *strip = <real*>scratch.strip
    cdef real *row
    cdef Strides map = tile.strides
    cdef const real *plane = <const real*>tile.plane
    cdef Taps y_taps, x_taps, taps
    cdef Vectors pixels, strips
    y_taps.pixel = x_taps.pixel = call.tables.tap_pixel
    y_taps.weight = x_taps.weight = call.tables.tap_weight
    pixels.step, pixels.stride, pixels.count = lanes, map.x, part.blocks
    strips.step = lanes
    while q < part.q1:
        count = <int>min(most, part.q1 - q)
        x_taps.spans = part.spans_x + 2 * q
        for y in range(part.window.y0, part.window.y1):
            row = strip + (y - part.window.y0) * count * width
            pixels.start = plane + y * map.y
            if not prefetch or y + 1 == part.window.y1:
                call.simd.contract_bins(row, width, lanes, &pixels, count, &x_taps)
                continue
            taps = x_taps
            first, stop = taps.spans[0], taps.spans[1]
            for i in range(count):      # the next row is fetched meanwhile
                prefetch_taps(plane + (y + 1) * map.y, map.x, part.blocks, taps.pixel, first, stop)
                call.simd.contract_bins(row + i * width, width, lanes, &pixels, 1, &taps)
                taps_after(taps.spans, count - i, taps.pixel, &first, &stop)
                taps.spans += 2
        strips.start = strip - part.window.y0 * count * width
        strips.stride, strips.count = count * width, count * part.blocks
        for p in range(part.p0, part.p1):
            row = out + p * call.bins.y + q * call.bins.x
            y_taps.spans = part.spans_y + 2 * p
            call.simd.contract_bins(<real*>scratch.bins, 0, lanes, &strips, 1, &y_taps)
            call.simd.put_pixels(<real*>scratch.bins, count, width, row, call.bins.x, call.store)
        q += count


# Position-sensitive operators: each bin reads channels of its own, and so is computed by itself.

cdef inline void sum_bin(const Call *call, Step *step, real *bin) noexcept nogil:
    """One bin.  Nearly all are so small that they need none of the loops of `sum_window`."""
    cdef Part *part = &step.part
    cdef Window *window = &part.window
    cdef const real *pixels
    cdef View steps
    cdef Taps y, x
    y.pixel = x.pixel = call.tables.tap_pixel
    y.weight = x.weight = call.tables.tap_weight
    y.spans, x.spans = part.spans_y + 2 * part.p0, part.spans_x + 2 * part.q0
    if y.spans[0] == y.spans[1] or x.spans[0] == x.spans[1]:
        memset(bin, 0, LANE_BYTES)
        return
    set_window(y.pixel, y.spans, x.spans, window)
    step.how = how_of_window(window.y1 - window.y0, window.x1 - window.x0)
    if call.tables.how[part.place] == TAPS_Y and not holds_pixels(part.load):
        step.how = TAPS_Y
    if step.how != WINDOW_Y:
        part.p1, part.q1 = part.p0 + 1, part.q0 + 1
        sum_block(call, step, bin)
        return
    pixels = load(call, &step.tile, <real*>step.scratch.tile, window, &steps)
    call.simd.contract_bin(bin, <real*>step.scratch.strip, pixels - window.y0 * steps.y, steps.y,
                           steps.x, window.x1 - window.x0, &y, &x)


cdef void store_bins_of_boxes(
        const Call *call, const Task *task, const real *bins, real *out,
        const Target *target) noexcept nogil:
    """Write bins [i][z][lane] of the task's boxes to the output; equally spaced ones together."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), i, z, q, some, line
    cdef Py_ssize_t step = call.bins.x, lines = task.stop_bin - task.first_bin
    cdef Py_ssize_t first = (task.first_bin // call.pw * call.bins.y
                             + task.first_bin % call.pw * call.bins.x)
    cdef real *to
    if step == 1:      # bins are one run for each channel, else one run for each bin
        lines, step = target.lanes, call.bins.channel
    for i in range(task.first_box, task.stop_box):
        if i + WRITE_AHEAD < task.stop_box:      # lines of the output are shared with other tasks
            to = out + call.tables.rows[i + WRITE_AHEAD] * call.bins.image + first
            for line in range(lines):
                prefetch_write(to + line * step)
        to = out + call.tables.rows[i] * call.bins.image
        z = task.first_bin
        while z < task.stop_bin:
            q = z % call.pw
            some = task.stop_bin - z
            if call.bins.y != call.pw * call.bins.x:
                some = min(some, call.pw - q)
            call.simd.unpack(bins, 1, some, to + z // call.pw * call.bins.y + q * call.bins.x,
                             target)
            bins += some * lanes
            z += some


cdef void forward_bins(const Call *call, const Task *task, char *memory, real *out) noexcept nogil:
    """Some bins of a position-sensitive operator, of one channel block.

    A bin reads the same channels for all boxes, so the loop over boxes is the inner one.  In the
    output the bins of a box lie together, so results are gathered and then stored box by box.
    """
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), count = task.stop_bin - task.first_bin, i
    cdef real *bins
    cdef Task one = task[0]
    cdef Step step
    step.scratch = scratch_of(call, memory)
    if task.load == COPY_ONCE:
        load_bins(call, task, <char*>step.scratch.tile)
    while one.first_bin < task.stop_bin:
        step.tile = open_tile(call, &call.map, &one, task.first_block)
        step.part = parts_of(call, &one, 1)
        bins = <real*>step.scratch.bins + (one.first_bin - task.first_bin) * lanes
        step.part.p0, step.part.q0 = step.part.p_first, step.part.q_first
        for i in range(task.first_box, task.stop_box):
            set_box(call, &step.part, i)
            sum_bin(call, &step, bins)
            bins += count * lanes
        step.scratch.tile = <char*>step.scratch.tile + bin_tile_bytes(task)
        one.first_bin += 1
    step.target = target_of(call, &step.tile, &step.scratch)
    step.target.store = DIRECT
    out += task.first_block * lanes * call.bins.channel
    store_bins_of_boxes(call, task, <const real*>step.scratch.bins, out, &step.target)


# All other operators.

cdef inline void reduce_part(
        const Call *call, const Task *task, Step *step, real *out) noexcept nogil:
    """Compute the bins of a part, and write those that are not gathered in scratch."""
    cdef real *bins = <real*>step.scratch.bins
    if step.how == PIXELS_Y:
        pixels_y_first(call, &step.part, &step.tile, out, &step.scratch)
    elif step.how == PIXELS_X:
        pixels_x_first(call, &step.part, &step.tile, out,
                       call.prefetch and task.load != COPY_ONCE, &step.scratch)
    elif step.how == ROWS:
        reduce_row_lanes(call, &step.part, &step.tile, out, &step.scratch)
    elif step.how == SPARSE_PIXELS:
        sum_sparse_pixels(call, &step.part, &step.tile, out, bins)
    elif step.how == SPARSE:
        sum_sparse(call, &step.part, &step.tile, <real*>step.scratch.tile, bins)
    else:
        sum_block(call, step, bins)


cdef inline void store_part(const Call *call, const Step *step, real *out) noexcept nogil:
    """Write the bins of a part that are gathered in scratch."""
    cdef const Part *part = &step.part
    if step.how < PIXELS_Y or step.how == SPARSE:
        call.simd.unpack(<const real*>step.scratch.bins, part.p1 - part.p0, part.q1 - part.q0,
                         out + part.p0 * call.bins.y + part.q0 * call.bins.x, &step.target)


cdef void forward_task(
        const Call *call, const Task *task, char *memory, real _) noexcept nogil:
    """Numbers and bins go through boxes in nests of their own."""
    cdef real *out = <real*>call.result
    cdef Step step
    if call.strategy == SCALARS:
        sum_bins(call, task, out)
        return
    if call.strategy == BINS:
        forward_bins(call, task, memory, out)
        return
    begin_steps(call, task, memory, True, &step)
    while next_step(call, task, &step):
        reduce_part(call, task, &step, <real*>step.bins)
        store_part(call, &step, <real*>step.bins)


def forward(Plan plan, out):
    """out (K, C, PH, PW) = the weighted sums of the plan's maps."""
    plan.set_result(out)
    run(plan, forward_task[float], forward_task[double])
