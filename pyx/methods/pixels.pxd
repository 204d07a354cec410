"""Pixels: channels are lanes, which lie together and are read in place.

It fits maps whose channels are last, and gradients of such maps.  Several channel blocks are
computed at a time, as one long run of each pixel.  Where boxes read the same pixels often, these
are copied once, as many channels at a time as stay in cache.  Numbers of a small type are widened
by that copy, or by one for each box.  What is not a whole block is computed as by planes.
"""
from libc.math cimport ceil
from libc.stdint cimport int32_t

cimport methods.planes as planes
from passes.grad_input cimport (Owned, PixelAxis, begin_owned, bins_of_pixel, next_owned,
                                set_pixel_axes)
from passes.maxima cimport set_maxima, shares_of_maxima
from passes.prefetch cimport Prefetch, prefetch_of, prefetch_some, prefetch_taps
from passes.steps cimport Lanes, Part, Scratch, Step, begin_steps, next_step
from passes.windows cimport store_part, sum_block
from plan.facts cimport TILE_PIXELS, beyond_cache, channels_lie_together, needs_widening
from plan.layout cimport lay_out
from plan.method cimport Cover, Method, Shares, Work, set_pass
from plan.spans cimport taps_after
from plan.structs cimport (COPY_ONCE, COPY_PER_BOX, FORWARD, GRAD_BOXES, GRAD_INPUT, Call, Task)
from plan.tasks cimport set_rectangles
from plan.ways cimport set_ways
from simd.structs cimport LANE_BYTES, Strides, Taps, Tile, Vectors, real
from tuning cimport WIDE_STRIP_BYTES

cdef enum:
    COPY_PIXELS_BYTES = 2 << 20    # pixels copied once: they stay in a level 2 cache   # R123
    MIN_COPY_BLOCKS = 8            # channel blocks of a pixel: shorter runs are slow   # R125
    MIN_COPY_COVER = 4             # times that boxes cover a map that is copied once   # R124
    FAR_WINDOW_BYTES = 8 << 20     # of a window: larger ones are read from memory      # R128
    MAX_COVER = 4                  # times boxes cover a map, for prefetches to pay     # R141


cdef inline const char *unfit(const Call *call) noexcept nogil:
    cdef const char *reason = planes.unfit(call)
    if reason == NULL and not channels_lie_together(call):
        return "the channels of a pixel do not lie together in whole lane vectors"
    return reason


cdef inline bint worth_prefetching(const Call *call) noexcept nogil:
    """Whether pixels are prefetched.

    They are if the maps do not stay in cache, and if boxes cover them less than MAX_COVER times:
    with more cover, most pixels are in cache already.
    """
    cdef const int32_t *window = call.tables.windows
    cdef double covered = 0
    if not beyond_cache(call):
        return False
    for _ in range(call.tables.count):
        covered += <double>(window[1] - window[0]) * (window[3] - window[2])
        window += 4
    return covered < MAX_COVER * (<double>call.map.rows * call.map.columns) * call.map.images


cdef inline void prepare(Call *call) noexcept nogil:
    set_ways(call)
    call.prefetch = call.purpose != GRAD_BOXES and worth_prefetching(call)


# Tasks

cdef inline bint windows_exceed_cache(
        const Call *call, const Work *work, const Cover *cover, Py_ssize_t boxes) noexcept nogil:
    """Whether the mean window, with all its channels, does not stay in a level 3 cache until the
    next box reads it, while the tile has room for what all boxes read of a block."""
    return (call.purpose != GRAD_BOXES and work.blocks >= MIN_COPY_BLOCKS
            and cover.hull <= TILE_PIXELS
            and cover.area * work.blocks * LANE_BYTES > <double>FAR_WINDOW_BYTES * boxes)


cdef inline bint are_worth_copying(
        const Call *call, const Work *work, const Cover *cover, Py_ssize_t shares,
        Py_ssize_t boxes) noexcept nogil:
    """Whether the pixels that the boxes of an image read are copied once for all boxes.

    shares: into how many shares channels would be divided.
    """
    cdef bint small = needs_widening(call)
    if call.channels % call.lanes != 0:
        return False
    # Too few blocks of each pixel would be read and written in short runs. Where windows come from
    # memory at each read, this is still better.
    if not (windows_exceed_cache(call, work, cover, boxes)
            or cover.hull * MIN_COPY_BLOCKS * LANE_BYTES <= COPY_PIXELS_BYTES):
        return False
    # A small type has to be widened, which a copy does once for all boxes. Maps that are hardly
    # larger than a cache are read in place. So are those whose slopes are wanted: the gradients
    # that are read beside them would come in short runs from memory.
    if not (small or (call.purpose != GRAD_BOXES
                      and COPY_PIXELS_BYTES < cover.hull * work.blocks * LANE_BYTES / 2)):
        return False
    # The boxes of a task are all of the image, or as many as cost its share. They have to
    # read each pixel more than four times, or more than once if it would be widened each time.
    return (cover.area * min(work.cost * shares / (work.blocks * cover.cost), 1)
            > (1 if small else MIN_COPY_COVER) * cover.hull)


cdef inline Shares shares_to_read(
        const Call *call, const Work *work, const Cover *cover, Py_ssize_t boxes) noexcept nogil:
    """A task is for all channels of a pixel, unless they are copied once.

    Then it is for as many as stay in cache.  Otherwise channels are divided only for boxes that are
    much of what a thread does: reading some channels of a pixel is slow.
    """
    cdef Shares shares = planes.shares_to_read(call, work, cover, boxes)
    cdef double for_cost = ceil(cover.max_cost * work.blocks / work.cost)
    cdef double for_cache = ceil(cover.hull * work.blocks * LANE_BYTES / COPY_PIXELS_BYTES)
    shares.pixel_cost = shares.row_cost = 0
    shares.blocks = min(max(<Py_ssize_t>for_cost, <Py_ssize_t>for_cache), work.units)
    if are_worth_copying(call, work, cover, shares.blocks, boxes):
        shares.load = COPY_ONCE
        return shares
    shares.blocks, shares.divides_boxes = 1, True
    if needs_widening(call):
        shares.load = COPY_PER_BOX
    return shares


cdef inline Shares shares_to_write(const Call *call, const Work *work) noexcept nogil:
    """The channels of a pixel are written together, whatever their number."""
    cdef Shares shares = planes.shares_to_read(call, work, NULL, 0)
    shares.blocks = 1
    if call.purpose != GRAD_INPUT:
        shares_of_maxima(call, work, True, &shares)
    set_rectangles(call, work, 1, &shares)
    return shares


# Passes

cdef inline void sum_y_first(
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


cdef inline void sum_x_first(
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


cdef inline void forward(const Call *call, const Task *task, char *memory, real _) noexcept nogil:
    cdef Step step
    begin_steps(call, task, memory, True, &step)
    while next_step(call, task, &step):
        if not step.joined:
            sum_block(call, &step, <real*>step.scratch.bins)
            store_part(call, &step, <real*>step.bins)
        elif step.part.x_first:
            sum_x_first(call, &step.part, &step.tile, <real*>step.bins,
                        call.prefetch and task.load != COPY_ONCE, &step.scratch)
        else:
            sum_y_first(call, &step.part, &step.tile, <real*>step.bins, &step.scratch)


cdef inline Prefetch bins_of_next_row(
        const Call *call, const PixelAxis *y_axis, const PixelAxis *x_axis, Py_ssize_t y,
        const real *row_0, int width) noexcept nogil:
    """The bins that the row of pixels after row y is the first to read."""
    cdef Py_ssize_t first = 0, stop = 0
    cdef const int32_t *bin = y_axis.bins.pixel
    taps_after(y_axis.bins.spans + 2 * y, y_axis.stop - y, bin, &first, &stop)
    return prefetch_of(row_0 + (bin[first] * call.bins.y if first < stop else 0), &call.bins, width,
                       stop - first, x_axis.high - x_axis.low, x_axis.stop - x_axis.first)


cdef inline void accumulate_pixel_rows(
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


cdef inline void add_pixels(
        const Call *call, const Task *task, Owned *owned, real of_type) noexcept nogil:
    """Add the gradient of a part, of several blocks that lie together."""
    cdef const Part *coming = &owned.boxes.part
    cdef Part near
    cdef PixelAxis y, x
    cdef Prefetch ahead
    cdef Lanes grad = planes.bins_of_readers(call, task, owned, &near, of_type)
    if near.p0 >= near.p1 or near.q0 >= near.q1:
        return
    set_pixel_axes(call, task, &near, &y, &x)
    # Of the next box, only the first row of bins is fetched.
    ahead = prefetch_of(planes.bins_of_next_box(call, owned, of_type), &call.bins,
                        <int>near.blocks * call.lanes, 1, coming.q1 - coming.q0, x.stop - x.first)
    accumulate_pixel_rows(call, &near, &y, &x, &grad, &owned.sums,
                          <real*>owned.step.scratch.strip, &ahead)


cdef inline void grad_input(
        const Call *call, const Task *task, char *memory, real of_type) noexcept nogil:
    cdef Owned owned
    owned.separable = owned.joins = True
    begin_owned(call, task, memory, memory, &owned)
    while next_owned(call, task, &owned, of_type):
        if owned.step.part.blocks > 1:
            add_pixels(call, task, &owned, of_type)
        else:
            planes.add_planes(call, task, &owned, of_type)


cdef inline void set_pixels(Method *method) noexcept:
    method.name, method.unfit, method.pays = "pixels", unfit, planes.pays
    method.prepare, method.lay_out = prepare, lay_out
    method.shares_to_read, method.shares_to_write = shares_to_read, shares_to_write
    set_pass(method, FORWARD, forward[float], forward[double])
    set_pass(method, GRAD_INPUT, grad_input[float], grad_input[double])
    set_pass(method, GRAD_BOXES, planes.grad_boxes[float], planes.grad_boxes[double])
    set_maxima(method)
