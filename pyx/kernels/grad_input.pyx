"""Gradient of the input of every operator that is a weighted sum.

    grad_input[n, channel, y, x] += sum_p sum_q  Wy[k, p, y] * grad_output[k, c, p, q] * Wx[k, q, x]

with n the image of box k, and the channel that the operator reads for (c, p, q).

Tables are transposed (plan/tables.pxd): for each pixel along an axis they list the bins that read
it.  So the gradient of a box is contracted like the forward pass, with pixels in place of bins and
bins in place of pixels.  A task owns a rectangle of some channels and goes through all boxes that
read it, in order: no two tasks write to the same pixel, and sums have the same bits for every
number of threads.
"""
from libc.stdint cimport int32_t
from libc.string cimport memset

from kernels.nest cimport (Lanes, Part, Step, begin_steps, begins_block, begins_box, bins_of_part,
                           ends_box, next_part, next_step, parts_of, run, scratch_of, set_box,
                           skip_to)
from kernels.scalars cimport add_bins, clear_channels, stop_channel
from kernels.sparse cimport scatter_sparse
from move.prefetch cimport Prefetch, prefetch_of, prefetch_some, prefetch_taps
from move.tile cimport bin_tile_bytes, load_bins, store_bins
from plan.choose cimport blocks_to_write
from plan.spans cimport bins_between, clip, taps_after
from plan.structs cimport BINS, COPY_ONCE, SCALARS, SPARSE_TAPS, Call, Task
from roicy._kernels.plan cimport Plan
from simd.structs cimport (LANE_BYTES, Strides, Taps, Target, Tile, Vectors, Window, real,
                           stream_fence)
from simd.table cimport Simd
from tuning cimport PIXELS_AT_ONCE, SQUARE_BINS, STRIP_BYTES


cdef struct PixelAxis:             # pixels of one axis of a box, and the bins that read each
    const int32_t *pixels
    Py_ssize_t first               # pixels[first:stop] are of the task's rectangle
    Py_ssize_t stop
    Taps bins                      # spans: of pixel after pixel; `pixel` of a tap is a bin
    int low                        # only bins [low, high) are looked at
    int high
    bint whole                     # which are all


cdef inline PixelAxis axis_of(
        const Call *call, const int32_t *spans, Py_ssize_t count, Py_ssize_t low,
        Py_ssize_t high) noexcept nogil:
    """An axis whose tables begin with those spans; pixels of [low, high)."""
    cdef PixelAxis axis
    axis.pixels = call.tables.pixels + spans[0]
    axis.bins.spans = call.tables.pixel_spans + 2 * <Py_ssize_t>spans[0]
    axis.bins.pixel, axis.bins.weight = call.tables.bin, call.tables.bin_weight
    axis.first, axis.stop = 0, count
    while axis.first < axis.stop and axis.pixels[axis.first] < low:
        axis.first += 1
    while axis.first < axis.stop and axis.pixels[axis.stop - 1] >= high:
        axis.stop -= 1
    return axis


cdef inline void set_pixel_axes(
        const Call *call, const Task *task, const Part *part, PixelAxis *y,
        PixelAxis *x) noexcept nogil:
    cdef const Window *window = &part.window
    cdef const int32_t *counts = call.tables.counts + 2 * part.place
    y[0] = axis_of(call, part.spans_y, counts[0], max(window.y0, task.y0), min(window.y1, task.y1))
    x[0] = axis_of(call, part.spans_x, counts[1], max(window.x0, task.x0), min(window.x1, task.x1))
    y.low, y.high, y.whole = part.p0, part.p1, part.p1 - part.p0 == call.ph
    x.low, x.high, x.whole = part.q0, part.q1, part.q1 - part.q0 == call.pw


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


cdef void accumulate_planes(
        const Simd *simd, const PixelAxis *y_axis, const PixelAxis *x_axis, const Lanes *grad,
        const Lanes *sums, real *strip, Prefetch *ahead) noexcept nogil:
    """sums += Wy^T grad Wx for one channel block; grad: of the bins that the axes look at."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), qs = x_axis.high - x_axis.low
    cdef Py_ssize_t y = y_axis.first, x, r, rows, together, some
    cdef Py_ssize_t most = max(STRIP_BYTES // (qs * LANE_BYTES), 1)
    cdef Py_ssize_t at_once = PIXELS_AT_ONCE if y_axis.whole and x_axis.whole else 1
    cdef int32_t[2] clipped
    cdef real *to
    cdef Taps y_bins = y_axis.bins, x_bins = x_axis.bins
    cdef Vectors bins, strips
    bins.start = <const real*>grad.origin - y_axis.low * grad.steps.y
    bins.step, bins.stride, bins.count = grad.steps.x, grad.steps.y, qs
    while y < y_axis.stop:
        rows = min(most, y_axis.stop - y)
        r = 0
        while r < rows:
            prefetch_some(ahead)
            some = min(at_once, rows - r)
            y_bins.spans = bins_of_pixel(y_axis, y + r, clipped)
            simd.contract_bins(strip + r * lanes, lanes, rows * lanes, &bins, <int>some, &y_bins)
            r += some
        strips.step, strips.stride = lanes, rows * lanes
        r = 0
        while r < rows:      # neighbouring rows together, which most often are all of them
            together = neighbours(y_axis.pixels, y + r, y + rows) - y - r
            strips.start, strips.count = strip + (r - x_axis.low * rows) * lanes, together
            to = <real*>sums.origin + y_axis.pixels[y + r] * sums.steps.y
            x = x_axis.first
            while x < x_axis.stop:
                prefetch_some(ahead)
                some = min(at_once, x_axis.stop - x)
                x_bins.spans = bins_of_pixel(x_axis, x, clipped)
                simd.accumulate_pixels(to, sums.steps.x, sums.steps.y, &strips, some,
                                       x_axis.pixels + x, &x_bins)
                x += some
            r += together
        y += rows


cdef void accumulate_numbers(
        const Call *call, const PixelAxis *y_axis, const PixelAxis *x_axis, const real *grad,
        real *plane, real *strip) noexcept nogil:
    """plane += Wy^T grad Wx for one channel, as accumulate_planes adds.

    grad: of the first bin that the axes look at; plane: pixel (0, 0).
    """
    cdef const Strides *bins = &call.bins
    cdef const Strides *map = &call.map.strides
    cdef Py_ssize_t y, x, qs = x_axis.high - x_axis.low
    cdef Py_ssize_t at_once = x_axis.stop - x_axis.first if x_axis.whole else 1
    cdef int32_t[2] clipped
    cdef Taps y_bins = y_axis.bins, x_bins = x_axis.bins
    for y in range(y_axis.first, y_axis.stop):
        y_bins.spans = bins_of_pixel(y_axis, y, clipped)
        call.simd.sum_rows(strip, grad - y_axis.low * bins.y, bins.y, bins.x, qs, &y_bins)
        x = x_axis.first
        while x < x_axis.stop:
            x_bins.spans = bins_of_pixel(x_axis, x, clipped)
            call.simd.add_numbers(plane + y_axis.pixels[y] * map.y, map.x, strip - x_axis.low,
                                  at_once, x_axis.pixels + x, &x_bins)
            x += at_once


cdef inline Prefetch bins_of_next_row(
        const Call *call, const PixelAxis *y_axis, const PixelAxis *x_axis, Py_ssize_t y,
        const real *row_0, int width) noexcept nogil:
    """The bins that the row of pixels after row y is the first to read."""
    cdef Py_ssize_t first = 0, stop = 0
    cdef const int32_t *bin = y_axis.bins.pixel
    taps_after(y_axis.bins.spans + 2 * y, y_axis.stop - y, bin, &first, &stop)
    return prefetch_of(row_0 + (bin[first] * call.bins.y if first < stop else 0), &call.bins, width,
                       stop - first, x_axis.high - x_axis.low, x_axis.stop - x_axis.first)


cdef void accumulate_pixel_rows(
        const Call *call, const Part *part, const PixelAxis *y_axis, const PixelAxis *x_axis,
        const Lanes *grad, const Lanes *sums, real *strip,
        const Prefetch *next_box) noexcept nogil:
    """sums += Wy^T grad Wx for part.blocks blocks that lie together, row by row as memory lies.

    Meanwhile the bins that the next row needs are prefetched, or after the last row the bins of the
    next box.  So are the pixels of the next row where they come from memory.
    """
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = part.blocks * lanes
    cdef Py_ssize_t qs = part.q1 - part.q0, y, x, q, below
    cdef const real *row_0 = <const real*>grad.origin - part.p0 * call.bins.y
    cdef real *row
    cdef int32_t[2] clipped
    cdef Taps y_bins = y_axis.bins, x_bins = x_axis.bins
    cdef Vectors bins, strips
    cdef Prefetch ahead
    bins.start, bins.step, bins.stride = row_0, lanes, call.bins.y
    strips.start, strips.step, strips.stride = strip - part.q0 * width, lanes, width
    strips.count = part.blocks
    for y in range(y_axis.first, y_axis.stop):
        y_bins.spans = bins_of_pixel(y_axis, y, clipped)
        if call.bins.x == width:      # bins lie end to end: one run
            bins.count = qs * part.blocks
            call.simd.contract_bins(strip, 0, lanes, &bins, 1, &y_bins)
        else:
            bins.count = part.blocks
            for q in range(qs):
                bins.start = row_0 + q * call.bins.x
                call.simd.contract_bins(strip + q * width, 0, lanes, &bins, 1, &y_bins)
        below = 0
        ahead = next_box[0]
        if y + 1 < y_axis.stop:
            ahead = bins_of_next_row(call, y_axis, x_axis, y, row_0, <int>width)
            if call.prefetch:
                below = (y_axis.pixels[y + 1] - y_axis.pixels[y]) * sums.steps.y
        row = <real*>sums.origin + y_axis.pixels[y] * sums.steps.y
        for x in range(x_axis.first, x_axis.stop):
            x_bins.spans = bins_of_pixel(x_axis, x, clipped)
            prefetch_some(&ahead)
            if below > 0:
                prefetch_taps(row + below, sums.steps.x, part.blocks, x_axis.pixels, x, x + 1)
            call.simd.accumulate_pixels(row, sums.steps.x, lanes, &strips, 1, x_axis.pixels + x,
                                        &x_bins)


cdef void add_bin(
        const Call *call, const Task *task, const Part *part, const real *grad,
        const Lanes *sums) noexcept nogil:
    """sums += Wy^T grad Wx for a single bin of one channel block."""
    cdef int32_t[2] rows, columns
    cdef Taps y, x
    y.spans, x.spans = rows, columns
    y.pixel = x.pixel = call.tables.tap_pixel
    y.weight = x.weight = call.tables.tap_weight
    clip(part.spans_y + 2 * part.p0, y.pixel, task.y0, task.y1, rows)
    clip(part.spans_x + 2 * part.q0, x.pixel, task.x0, task.x1, columns)
    call.simd.accumulate_bin(<real*>sums.origin, sums.steps.y, sums.steps.x, grad, &y, &x)


# The boxes of a task: the boxes of its image that read pixels of its rectangle.

cdef inline Py_ssize_t next_reader(const Call *call, const Task *task, Py_ssize_t i) noexcept nogil:
    """The first box of a task, from place i on, that reads pixels of its rectangle."""
    cdef const int32_t *window = call.tables.windows + 4 * i
    while i < task.stop_box and (window[1] <= task.y0 or window[0] >= task.y1
                                 or window[3] <= task.x0 or window[2] >= task.x1):
        window += 4
        i += 1
    return i


cdef inline void keep_readers(const Call *call, const Task *task, Part *part) noexcept nogil:
    """Leave out bins that read no pixel of the task's rectangle."""
    cdef const int32_t *window = call.tables.windows + 4 * part.place
    cdef const int32_t *pixel = call.tables.tap_pixel
    if window[0] < task.y0 or window[1] > task.y1:
        bins_between(part.spans_y, pixel, task.y0, task.y1, &part.p0, &part.p1)
    if window[2] < task.x0 or window[3] > task.x1:
        bins_between(part.spans_x, pixel, task.x0, task.x1, &part.q0, &part.q1)


cdef struct Upcoming:              # boxes of the task after the one that is computed
    Py_ssize_t next
    Py_ssize_t later
    Part part                      # the bins of one of them, which are fetched; none if p0 == p1


cdef inline void go_on(const Call *call, const Task *task, Upcoming *boxes) noexcept nogil:
    """Choose whose bins are prefetched: the next box, or the one after it if bins are packed."""
    cdef Py_ssize_t place = boxes.next if call.bins.channel == 1 else boxes.later
    cdef Part *part = &boxes.part
    part.p0 = part.p1 = part.q0 = part.q1 = 0
    part.row = call.tables.rows[task.first_box]
    if call.strategy != BINS and call.tables.kind != SPARSE_TAPS and place < task.stop_box:
        set_box(call, part, place)
        part.p1, part.q1 = call.ph, call.pw
        keep_readers(call, task, part)


cdef struct Owned:                 # the rectangle of a task while boxes add to it
    Py_ssize_t cleared             # blocks summed in place: rows above hold zeros or sums
    bint loaded                    # block not summed in place: the tile holds its sums


cdef inline void clear_rows(
        const Call *call, const Task *task, real *plane, const Tile *first, Py_ssize_t y0,
        Py_ssize_t y1) noexcept nogil:
    """Zeros in some rows of the task's rectangle; plane: of its first channel."""
    cdef Py_ssize_t channels = min(task.stop_block * call.lanes, call.channels)
    channels -= task.first_block * call.lanes
    call.simd.clear(plane + y0 * first.strides.y + task.x0 * first.strides.x, &first.strides,
                    channels, y1 - y0, task.x1 - task.x0)


cdef inline Lanes sums_of(
        const Call *call, const Task *task, const Tile *tile, real *memory,
        Owned *owned) noexcept nogil:
    """Where a block is summed: in the gradient where lanes lie together, else in the tile."""
    cdef Lanes sums
    cdef Py_ssize_t rows = task.y1 - task.y0, columns = task.x1 - task.x0
    sums.block = call.lanes
    if tile.in_place:
        sums.origin, sums.steps.y, sums.steps.x = tile.plane, tile.strides.y, tile.strides.x
        return sums
    if not owned.loaded:
        owned.loaded = True
        if call.add:
            call.simd.read_pixels(tile, task.y0, task.x0, rows, columns, memory)
        else:
            memset(memory, 0, rows * columns * LANE_BYTES)
    sums.steps.y, sums.steps.x = columns * call.lanes, call.lanes
    sums.origin = memory - task.y0 * sums.steps.y - task.x0 * sums.steps.x
    return sums


cdef void accumulate_part(
        const Call *call, const Task *task, Step *step, const Lanes *sums,
        const Upcoming *boxes, real _) noexcept nogil:
    """Add the gradient of a part's bins to the pixels of the task's rectangle."""
    cdef Part near = step.part
    cdef const Part *coming = &boxes.part
    cdef real *packed = <real*>step.scratch.bins
    cdef real *strip = <real*>step.scratch.strip
    cdef PixelAxis y, x
    cdef Lanes grad
    cdef Prefetch ahead
    cdef const real *coming_bins = (<const real*>call.result + coming.row * call.bins.image
                                    + near.block * call.lanes * call.bins.channel
                                    + coming.p0 * call.bins.y + coming.q0 * call.bins.x)
    if call.strategy != BINS and call.tables.kind != SPARSE_TAPS:
        keep_readers(call, task, &near)
        if near.p0 >= near.p1 or near.q0 >= near.q1:
            return
    grad = bins_of_part(call, &near, step.bins, step.tile.lanes, packed)
    if call.strategy == BINS:
        add_bin(call, task, &near, <const real*>grad.origin, sums)
        return
    if call.tables.kind == SPARSE_TAPS:
        scatter_sparse(call, task, &near, <const real*>grad.origin, &grad.steps,
                       <real*>sums.origin, &sums.steps)
        return
    set_pixel_axes(call, task, &near, &y, &x)
    if near.blocks > 1:      # of the next box, only the first row of bins is fetched
        ahead = prefetch_of(coming_bins, &call.bins, <int>near.blocks * call.lanes, 1,
                            coming.q1 - coming.q0, x.stop - x.first)
        accumulate_pixel_rows(call, &near, &y, &x, &grad, sums, strip, &ahead)
        return
    ahead = prefetch_of(coming_bins, &call.bins, step.tile.lanes, coming.p1 - coming.p0,
                        coming.q1 - coming.q0,
                        (y.stop - y.first + x.stop - x.first) // PIXELS_AT_ONCE + 1)
    accumulate_planes(call.simd, &y, &x, &grad, sums, strip, &ahead)


cdef inline void store_sums(
        const Call *call, const Task *task, const Owned *owned, Step *step,
        real *sums) noexcept nogil:
    """Write the block that was summed in the tile, which is the last of a task if any."""
    cdef const Tile *tile = &step.tile
    cdef Target target = step.target
    cdef real *to = <real*>tile.plane + task.y0 * tile.strides.y + task.x0 * tile.strides.x
    if tile.in_place:
        return
    target.strides, target.staging = tile.strides, NULL
    if owned.loaded:
        call.simd.unpack(sums, task.y1 - task.y0, task.x1 - task.x0, to, &target)
    elif not call.add:
        call.simd.clear(to, &tile.strides, tile.lanes, task.y1 - task.y0, task.x1 - task.x0)


cdef void accumulate_boxes(
        const Call *call, const Task *task, char *memory, real *sums_memory) noexcept nogil:
    """Pixels of the task's rectangle += the gradients of its boxes, of one bin or all."""
    cdef bint no_boxes = task.first_box == task.stop_box and task.load != COPY_ONCE
    cdef Py_ssize_t bottom
    cdef Step step
    cdef Part *part = &step.part
    cdef const Window *window = &part.window
    cdef Tile first
    cdef Upcoming boxes
    cdef Owned owned
    cdef Lanes sums
    begin_steps(call, task, memory, False, &step)
    step.part = parts_of(call, task, SQUARE_BINS)
    first = step.tile
    owned.loaded = task.load == COPY_ONCE
    # Zeros are written shortly before sums are added to them, while they are in cache.
    owned.cleared = task.y0 if not call.add and (first.in_place or no_boxes) else task.y1
    boxes.next = next_reader(call, task, task.first_box)
    boxes.later = next_reader(call, task, boxes.next + 1)
    skip_to(part, task, boxes.next)
    while next_step(call, task, &step):
        if begins_box(part, task):
            boxes.next, boxes.later = boxes.later, next_reader(call, task, boxes.later + 1)
            go_on(call, task, &boxes)
            bottom = min(<Py_ssize_t>call.tables.windows[4 * part.place + 1], task.y1)
            if owned.cleared < bottom:
                clear_rows(call, task, <real*>first.plane, &first, owned.cleared, bottom)
                owned.cleared = bottom
        if begins_block(part):
            part.blocks = blocks_to_write(call, task, part.block, part.q_step,
                                          step.tile.in_place)
        if (window.y0 < task.y1 and window.y1 > task.y0 and window.x0 < task.x1
                and window.x1 > task.x0):
            sums = sums_of(call, task, &step.tile, sums_memory, &owned)
            accumulate_part(call, task, &step, &sums, &boxes, sums_memory[0])
        if ends_box(part, task):
            skip_to(part, task, boxes.next)
    clear_rows(call, task, <real*>first.plane, &first, owned.cleared, task.y1)
    if not no_boxes and task.load != COPY_ONCE:
        store_sums(call, task, &owned, &step, sums_memory)
        stream_fence()


cdef void add_boxes(
        const Call *call, const Task *task, const real *grad_output, real *strip) noexcept nogil:
    """Pixels of the task's rectangle = (add: +=) the gradients of its boxes, number by number."""
    cdef const Strides *map = &call.map.strides
    cdef const Strides *bins = &call.bins
    cdef real *plane = <real*>call.map.data + task.image * map.image
    cdef const real *grad
    cdef Part part = parts_of(call, task, SQUARE_BINS), near
    cdef Py_ssize_t c
    cdef PixelAxis y, x
    if not call.add:
        clear_channels(call, task, plane)
    while next_part(call, task, &part):
        near = part
        keep_readers(call, task, &near)
        if near.p0 >= near.p1 or near.q0 >= near.q1:
            continue
        set_pixel_axes(call, task, &near, &y, &x)
        grad = grad_output + near.row * bins.image + near.p0 * bins.y + near.q0 * bins.x
        for c in range(part.block * call.lanes, stop_channel(call, &part)):
            accumulate_numbers(call, &y, &x, grad + c * bins.channel, plane + c * map.channel,
                               strip)


cdef void grad_input_task(
        const Call *call, const Task *task, char *memory, real _) noexcept nogil:
    """All bins together, or one by one for a position-sensitive operator."""
    cdef const real *grad_output = <const real*>call.result
    cdef real *tile = <real*>memory
    cdef Task one = task[0]
    if call.strategy == SCALARS:
        if call.tables.counts == NULL:      # not transposed: the operator is position-sensitive
            add_bins(call, task, grad_output)
        else:
            add_boxes(call, task, grad_output, <real*>scratch_of(call, memory).strip)
        return
    if task.load != COPY_ONCE:
        accumulate_boxes(call, task, memory, tile)
        return
    if call.add:
        load_bins(call, task, memory)
    else:
        memset(tile, 0, (task.stop_bin - task.first_bin) * bin_tile_bytes(task))
    while one.first_bin < task.stop_bin:
        accumulate_boxes(call, &one, memory, tile)
        tile += bin_tile_bytes(task) // <Py_ssize_t>sizeof(real)
        one.first_bin += 1
    store_bins(call, task, memory)


def grad_input(Plan plan, grad_output):
    """Maps of the plan = (add: +=) the gradients of the inputs for grad_output (K, C', PH, PW)."""
    plan.set_result(grad_output)
    run(plan, grad_input_task[float], grad_input_task[double])
