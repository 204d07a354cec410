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
from passes.max_pool cimport pool_grad_task, pool_task
from passes.max_sample cimport sample_grad_task, sample_task
from passes.maxima cimport shares_of_maxima
from passes.prefetch cimport Prefetch, prefetch_of, prefetch_some, prefetch_taps
from passes.walk cimport Lanes, Part, Scratch, Walk, begin_walk, taps_of, walk_on
from passes.windows cimport store_part, sum_block
from plan.facts cimport TILE_PIXELS, beyond_cache, channels_lie_together, needs_widening
from plan.scratch cimport size_scratch
from plan.shares cimport set_rectangles
from plan.spans cimport taps_after
from plan.structs cimport (
    COPY_ONCE, COPY_PER_BOX, FORWARD, GRAD_BOXES, GRAD_INPUT, MAX_PIXEL, MAX_PIXEL_GRAD,
    MAX_SAMPLE, MAX_SAMPLE_GRAD, PACK_WINDOW, Cover, LevelJob, Method, Shares, Task, Work,
    set_pass)
from plan.ways cimport has_few_taps, set_ways
from simd.structs cimport LANE_BYTES, Strides, Taps, Tile, Vectors, real
from tuning cimport SLOPE_BLOCKS, WIDE_STRIP_BYTES

cdef enum:
    COPY_PIXELS_BYTES = 2 << 20    # pixels copied once: they stay in a level 2 cache   # R123
    MIN_COPY_BLOCKS = 8            # channel blocks of a pixel: shorter runs are slow   # R125
    MIN_COPY_COVER = 4             # times that boxes cover a map that is copied once   # R124
    FAR_WINDOW_BYTES = 8 << 20     # of a window: larger ones are read from memory      # R128
    COPY_BYTES = 1 << 20           # pixels of one box that are widened together        # R281
    MAX_COVER = 4                  # times boxes cover a map, for prefetches to pay     # R141


cdef inline const char *unfit(const LevelJob *job) noexcept nogil:
    cdef const char *reason = planes.unfit(job)
    if reason == NULL and not channels_lie_together(job):
        return "the channels of a pixel do not lie together in whole lane vectors"
    return reason


cdef inline bint worth_prefetching(const LevelJob *job) noexcept nogil:
    """Whether pixels are prefetched.

    They are if the maps do not stay in cache, and if boxes cover them less than MAX_COVER times:
    with more cover, most pixels are in cache already.
    """
    cdef const int32_t *window = job.tables.windows
    cdef double covered = 0
    if not beyond_cache(job):
        return False
    for _ in range(job.tables.count):
        covered += <double>(window[1] - window[0]) * (window[3] - window[2])
        window += 4
    return covered < MAX_COVER * (<double>job.map.rows * job.map.columns) * job.map.images


cdef inline void prepare(LevelJob *job) noexcept nogil:
    set_ways(job)
    job.prefetch = job.call.purpose != GRAD_BOXES and worth_prefetching(job)


# Tasks

cdef inline bint windows_exceed_cache(
        const LevelJob *job, const Work *work, const Cover *cover, Py_ssize_t boxes) noexcept nogil:
    """Whether the mean window, with all its channels, does not stay in a level 3 cache until the
    next box reads it, while the tile has room for what all boxes read of a block."""
    return (job.call.purpose != GRAD_BOXES and work.blocks >= MIN_COPY_BLOCKS
            and cover.hull <= TILE_PIXELS
            and cover.area * work.blocks * LANE_BYTES > <double>FAR_WINDOW_BYTES * boxes)


cdef inline bint are_worth_copying(
        const LevelJob *job, const Work *work, const Cover *cover, Py_ssize_t shares,
        Py_ssize_t boxes) noexcept nogil:
    """Whether the pixels that the boxes of an image read are copied once for all boxes.

    shares: into how many shares channels would be divided.
    """
    cdef bint small = needs_widening(job)
    if job.call.channels % job.call.lanes != 0:
        return False
    # Too few blocks of each pixel would be read and written in short runs. Where windows come from
    # memory at each read, this is still better.
    if not (windows_exceed_cache(job, work, cover, boxes)
            or cover.hull * MIN_COPY_BLOCKS * LANE_BYTES <= COPY_PIXELS_BYTES):
        return False
    # A small type has to be widened, which a copy does once for all boxes. Maps that are hardly
    # larger than a cache are read in place. So are those whose slopes are wanted: the gradients
    # that are read beside them would come in short runs from memory.
    if not (small or (job.call.purpose != GRAD_BOXES
                      and COPY_PIXELS_BYTES < cover.hull * work.blocks * LANE_BYTES / 2)):
        return False
    # The boxes of a task are all of the image, or as many as cost its share. They have to
    # read each pixel more than four times, or more than once if it would be widened each time.
    return (cover.area * min(work.cost * shares / (work.blocks * cover.cost), 1)
            > (1 if small else MIN_COPY_COVER) * cover.hull)


cdef inline Shares shares_to_read(
        const LevelJob *job, const Work *work, const Cover *cover, Py_ssize_t boxes) noexcept nogil:
    """A task is for all channels of a pixel, unless they are copied once.

    Then it is for as many as stay in cache.  Otherwise channels are divided only for boxes that are
    much of what a thread does: reading some channels of a pixel is slow.
    """
    cdef Shares shares = planes.shares_to_read(job, work, cover, boxes)
    cdef double for_cost = ceil(cover.max_cost * work.blocks / work.cost)
    cdef double for_cache = ceil(cover.hull * work.blocks * LANE_BYTES / COPY_PIXELS_BYTES)
    shares.pixel_cost = shares.row_cost = 0
    shares.blocks = min(max(<Py_ssize_t>for_cost, <Py_ssize_t>for_cache), work.units)
    if are_worth_copying(job, work, cover, shares.blocks, boxes):
        shares.load = COPY_ONCE
        return shares
    shares.blocks, shares.divides_boxes = 1, True
    if needs_widening(job):
        shares.load = COPY_PER_BOX
    return shares


cdef inline Shares shares_to_write(const LevelJob *job, const Work *work) noexcept nogil:
    """The channels of a pixel are written together, whatever their number."""
    cdef Shares shares = planes.shares_to_read(job, work, NULL, 0)
    shares.blocks = 1
    if job.call.purpose != GRAD_INPUT:
        shares_of_maxima(job, work, True, &shares)
    set_rectangles(job, work, 1, &shares)
    return shares


# What is widened for each box

cdef inline void set_copy(const LevelJob *job, Task *one, Py_ssize_t stop_block) noexcept nogil:
    """Set which blocks of a box the next part of a COPY_PER_BOX task is of, and its load."""
    cdef const int32_t *window = job.tables.windows + 4 * one.first_box
    cdef Py_ssize_t room = job.scratch.tiles_bytes, blocks, block_bytes
    cdef Py_ssize_t group = SLOPE_BLOCKS if job.call.purpose == GRAD_BOXES else 1
    one.stop_block, one.load = stop_block, PACK_WINDOW
    if has_few_taps(job, one.first_box):
        return
    one.y0, one.y1, one.x0, one.x1 = window[0], window[1], window[2], window[3]
    block_bytes = max((one.y1 - one.y0) * (one.x1 - one.x0) * LANE_BYTES, 1)
    blocks = min(room, <Py_ssize_t>COPY_BYTES) // block_bytes
    blocks = max(blocks // group, 1) * group
    one.stop_block = min(one.first_block + blocks, stop_block)
    if block_bytes * (one.stop_block - one.first_block) <= room:
        one.load = COPY_ONCE


cdef inline bint next_copy(
        const LevelJob *job, const Task *task, Task *one) noexcept nogil:
    """Set `one` to the next part of a task that copies each box by itself; False after the last.

    A part is one box and as many channel blocks as the tile has room for.
    """
    one.first_block = one.stop_block
    if one.first_block == task.stop_block:
        one.first_block = task.first_block
        one.first_box = one.stop_box
        one.stop_box += 1
    if one.first_box == task.stop_box:
        return False
    set_copy(job, one, task.stop_block)
    return True


# Passes

cdef inline void sum_y_first(
        const LevelJob *job, const Part *part, const Tile *tile, real *out,
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
    cdef Taps y_taps = taps_of(job, NULL), x_taps = taps_of(job, part.spans_x + 2 * part.q0)
    cdef Vectors pixels, strips
    plane += part.window.x0 * map.x
    pixels.stride, pixels.pixel_stride, pixels.count = lanes, map.y, part.blocks
    if map.x == width:      # pixels lie end to end
        pixels.count, runs = runs * part.blocks, 1
    strips.start, strips.stride, strips.pixel_stride = strip - part.window.x0 * width, lanes, width
    strips.count = part.blocks
    for p in range(part.p0, part.p1):
        row = out + p * job.call.out_strides.y + part.q0 * job.call.out_strides.x
        y_taps.spans = part.spans_y + 2 * p
        for i in range(runs):
            pixels.start = plane + i * map.x
            job.call.simd.contract_bins(strip + i * width, 0, lanes, &pixels, 1, &y_taps)
        job.call.simd.contract_bins(bins, width, lanes, &strips, <int>qs, &x_taps)
        job.call.simd.put_pixels(bins, qs, width, row, job.call.out_strides.x, job.store)


cdef inline void sum_x_first(
        const LevelJob *job, const Part *part, const Tile *tile, real *out, bint prefetch,
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
    cdef Taps y_taps = taps_of(job, NULL), x_taps = y_taps, taps
    cdef Vectors pixels, strips
    pixels.stride, pixels.pixel_stride, pixels.count = lanes, map.x, part.blocks
    strips.stride = lanes
    while q < part.q1:
        count = <int>min(most, part.q1 - q)
        x_taps.spans = part.spans_x + 2 * q
        for y in range(part.window.y0, part.window.y1):
            row = strip + (y - part.window.y0) * count * width
            pixels.start = plane + y * map.y
            if not prefetch or y + 1 == part.window.y1:
                job.call.simd.contract_bins(row, width, lanes, &pixels, count, &x_taps)
                continue
            taps = x_taps
            first, stop = taps.spans[0], taps.spans[1]
            for i in range(count):      # the next row is fetched meanwhile
                prefetch_taps(plane + (y + 1) * map.y, map.x, part.blocks, taps.pixel, first, stop)
                job.call.simd.contract_bins(row + i * width, width, lanes, &pixels, 1, &taps)
                taps_after(taps.spans, count - i, taps.pixel, &first, &stop)
                taps.spans += 2
        strips.start = strip - part.window.y0 * count * width
        strips.pixel_stride, strips.count = count * width, count * part.blocks
        for p in range(part.p0, part.p1):
            row = out + p * job.call.out_strides.y + q * job.call.out_strides.x
            y_taps.spans = part.spans_y + 2 * p
            job.call.simd.contract_bins(<real*>scratch.bins, 0, lanes, &strips, 1, &y_taps)
            job.call.simd.put_pixels(<real*>scratch.bins, count, width, row, job.call.out_strides.x,
                                     job.store)
        q += count


cdef inline void forward(
        const LevelJob *job, const Task *task, char *memory, real _) noexcept nogil:
    cdef Walk walk
    begin_walk(job, task, memory, True, &walk)
    while walk_on(job, task, &walk):
        if not walk.joined:
            sum_block(job, &walk, <real*>walk.scratch.bins)
            store_part(job, &walk, <real*>walk.result)
        elif walk.part.x_first:
            sum_x_first(job, &walk.part, &walk.tile, <real*>walk.result,
                        job.prefetch and task.load != COPY_ONCE, &walk.scratch)
        else:
            sum_y_first(job, &walk.part, &walk.tile, <real*>walk.result, &walk.scratch)


cdef inline Prefetch bins_of_next_row(
        const LevelJob *job, const PixelAxis *y_axis, const PixelAxis *x_axis, Py_ssize_t y,
        const real *row_0, int width) noexcept nogil:
    """The bins that the row of pixels after row y is the first to read."""
    cdef Py_ssize_t first = 0, stop = 0
    cdef const int32_t *bin = y_axis.bins.pixel
    taps_after(y_axis.bins.spans + 2 * y, y_axis.stop - y, bin, &first, &stop)
    if first < stop:
        row_0 += bin[first] * job.call.out_strides.y
    return prefetch_of(row_0, &job.call.out_strides, width, stop - first, x_axis.high - x_axis.low,
                       x_axis.stop - x_axis.first)


cdef inline void accumulate_pixel_rows(
        const LevelJob *job, const Part *part, const PixelAxis *y_axis, const PixelAxis *x_axis,
        const Lanes *grad, const Lanes *sums, real *strip,
        const Prefetch *next_box) noexcept nogil:
    """sums += Wy^T grad Wx for part.blocks blocks that lie together, row by row as memory lies.

    A tap of `y_axis.bins` has a bin in place of a pixel.  Meanwhile the bins that the next row
    needs are prefetched, or after the last row the bins of the next box.  So are the pixels of the
    next row where they come from memory.
    """
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = part.blocks * lanes
    cdef Py_ssize_t qs = part.q1 - part.q0, y, x, q, below
    cdef const real *row_0 = <const real*>grad.origin - part.p0 * job.call.out_strides.y
    cdef real *row
    cdef int32_t[2] clipped
    cdef Taps y_bins = y_axis.bins, x_bins = x_axis.bins
    cdef Vectors bins, strips
    cdef Prefetch ahead
    bins.start, bins.stride, bins.pixel_stride = row_0, lanes, job.call.out_strides.y
    strips.start, strips.stride, strips.pixel_stride = strip - part.q0 * width, lanes, width
    strips.count = part.blocks
    for y in range(y_axis.first, y_axis.stop):      # places in y_axis.pixels
        y_bins.spans = bins_of_pixel(y_axis, y, clipped)
        if job.call.out_strides.x == width:      # bins lie end to end: one run
            bins.count = qs * part.blocks
            job.call.simd.contract_bins(strip, 0, lanes, &bins, 1, &y_bins)
        else:
            bins.count = part.blocks
            for q in range(qs):
                bins.start = row_0 + q * job.call.out_strides.x
                job.call.simd.contract_bins(strip + q * width, 0, lanes, &bins, 1, &y_bins)
        below = 0
        ahead = next_box[0]
        if y + 1 < y_axis.stop:
            ahead = bins_of_next_row(job, y_axis, x_axis, y, row_0, <int>width)
            if job.prefetch:
                below = (y_axis.pixels[y + 1] - y_axis.pixels[y]) * sums.view.y
        row = <real*>sums.origin + y_axis.pixels[y] * sums.view.y
        for x in range(x_axis.first, x_axis.stop):
            x_bins.spans = bins_of_pixel(x_axis, x, clipped)
            prefetch_some(&ahead)
            if below > 0:
                prefetch_taps(row + below, sums.view.x, part.blocks, x_axis.pixels, x, x + 1)
            job.call.simd.accumulate_pixels(row, sums.view.x, lanes, &strips, 1, x_axis.pixels + x,
                                            &x_bins)


cdef inline void add_pixels(
        const LevelJob *job, const Task *task, Owned *owned, real of_type) noexcept nogil:
    """Add the gradient of a part, of several blocks that lie together."""
    cdef const Part *coming = &owned.boxes.part
    cdef Part clipped
    cdef PixelAxis y, x
    cdef Prefetch ahead
    cdef Lanes grad = planes.bins_of_readers(job, task, owned, &clipped, of_type)
    if clipped.p0 >= clipped.p1 or clipped.q0 >= clipped.q1:
        return
    set_pixel_axes(job, task, &clipped, &y, &x)
    # Of the next box, only the first row of bins is fetched.
    ahead = prefetch_of(planes.bins_of_next_box(job, owned, of_type), &job.call.out_strides,
                        <int>clipped.blocks * job.call.lanes, 1, coming.q1 - coming.q0,
                        x.stop - x.first)
    accumulate_pixel_rows(job, &clipped, &y, &x, &grad, &owned.sums,
                          <real*>owned.walk.scratch.strip, &ahead)


cdef inline void grad_input(
        const LevelJob *job, const Task *task, char *memory, real of_type) noexcept nogil:
    cdef Owned owned
    owned.separable = owned.joins = True
    begin_owned(job, task, memory, memory, &owned)
    while next_owned(job, task, &owned, of_type):
        if owned.walk.part.blocks > 1:
            add_pixels(job, task, &owned, of_type)
        else:
            planes.add_planes(job, task, &owned, of_type)


cdef inline void set_pixels(Method *method) noexcept:
    method.name, method.unfit, method.pays = "pixels", unfit, planes.pays
    method.prepare, method.size_scratch = prepare, size_scratch
    method.shares_to_read, method.shares_to_write = shares_to_read, shares_to_write
    method.next_copy = next_copy
    set_pass(method, FORWARD, forward[float], forward[double])
    set_pass(method, GRAD_INPUT, grad_input[float], grad_input[double])
    set_pass(method, GRAD_BOXES, planes.grad_boxes[float], planes.grad_boxes[double])
    set_pass(method, MAX_PIXEL, pool_task[float], pool_task[double])
    set_pass(method, MAX_PIXEL_GRAD, pool_grad_task[float], pool_grad_task[double])
    set_pass(method, MAX_SAMPLE, sample_task[float], sample_task[double])
    set_pass(method, MAX_SAMPLE_GRAD, sample_grad_task[float], sample_grad_task[double])
