"""Numbers: each number is computed by itself.

It is for maps of so few channels that lanes would stay mostly empty, and for few bins on large
maps, where lanes would move much to add little.  Nothing is packed: a bin reads the map, or adds to
it, as it lies.  Sums are taken in the order in which lanes take them, so that both give the same
bits: which of them computes a box depends on the batch.
"""
from libc.stdint cimport int32_t

cimport methods.planes as planes
from passes.grad_input cimport PixelAxis, bins_of_pixel, keep_readers, set_pixel_axes
from passes.steps cimport Part, next_part, parts_of, scratch_of
from plan.facts cimport rows_contiguous
from plan.layout cimport lay_out
from plan.method cimport Cover, Method, Shares, Work, set_pass
from plan.spans cimport clip
from plan.structs cimport FORWARD, GRAD_INPUT, SPARSE_TAPS, Call, Task
from plan.tasks cimport set_rectangles
from plan.ways cimport set_ways
from simd.structs cimport Pixels, Strides, Taps, real
from tuning cimport MAX_BINS, SQUARE_BINS

cdef enum:
    TILE_COST = 4                  # of a lane vector in a tile, in numbers added in place # R354


cdef inline const char *unfit(const Call *call) noexcept nogil:
    if call.tables.kind == SPARSE_TAPS:
        return "the boxes are turned"
    if call.map.itemsize != call.itemsize:
        return "the map is of a small type"
    return NULL


cdef inline bint lanes_are_empty(const Call *call) noexcept nogil:
    """Whether channels fill a quarter of a lane vector at most."""
    return 4 * call.channels <= call.lanes


cdef inline double all_taps(const Call *call) noexcept nogil:
    """Taps of all bins of all boxes, of both axes together: how many pixels bins read in all."""
    cdef int ph = call.ph, pw = call.pw
    cdef const int32_t *spans = call.tables.spans
    cdef double taps = 0
    for _ in range(call.tables.count):
        taps += (<double>(spans[2 * ph - 1] - spans[0])
                 * (spans[2 * (ph + pw) - 1] - spans[2 * ph]))
        spans += 2 * (ph + pw)
    return taps


cdef inline bint pays(const Call *call, Py_ssize_t thin) noexcept nogil:
    """Whether lanes would be empty where boxes have few taps, or would add few numbers.

    Bin rows read all pixels of a window, so they are for other boxes.
    """
    cdef double pixels = <double>call.map.rows * call.map.columns * call.map.images
    if call.purpose == FORWARD:
        return lanes_are_empty(call) and (call.position_sensitive or 2 * thin > call.tables.count)
    # A few numbers are added in place faster than a tile is cleared and stored.
    if not lanes_are_empty(call) and not call.position_sensitive:
        return False
    if call.position_sensitive:
        pixels *= (TILE_COST * call.channels_per_output
                   * ((call.channels - 1) // call.lanes + 1))
    return all_taps(call) * call.channels < pixels


# Tasks

cdef inline Shares shares_to_read(
        const Call *call, const Work *work, const Cover *cover, Py_ssize_t boxes) noexcept nogil:
    cdef Shares shares = planes.shares_to_read(call, work, cover, boxes)
    shares.pixel_cost = shares.row_cost = 0
    return shares


cdef inline Shares shares_to_write(const Call *call, const Work *work) noexcept nogil:
    """A task owns the planes of a block, or all channels where those of a pixel lie together."""
    cdef Shares shares = shares_to_read(call, work, NULL, 0)
    if not rows_contiguous(call):
        shares.blocks = 1
    set_rectangles(call, work, 1, &shares)
    return shares


# Passes

cdef inline Py_ssize_t stop_channel(const Call *call, const Part *part) noexcept nogil:
    """The channel after the part's block."""
    return min((part.block + 1) * call.lanes, call.channels)


cdef inline Py_ssize_t channel_of(const Call *call, Py_ssize_t c, int p, int q) noexcept nogil:
    """The input channel that a bin reads for output channel c."""
    return c * call.channels_per_output + (p * call.pw + q if call.channels_per_output > 1 else 0)


cdef inline void forward(const Call *call, const Task *task, char *_, real of_type) noexcept nogil:
    cdef Py_ssize_t c
    cdef int p
    cdef const Strides *map = &call.map.strides
    cdef const real *plane = <const real*>call.map.data + task.image * map.image
    cdef real *out = <real*>call.result
    cdef real *to
    cdef Pixels numbers
    cdef Part part = parts_of(call, task, MAX_BINS)
    cdef Taps y, x
    y.pixel = x.pixel = call.tables.tap_pixel
    y.weight = x.weight = call.tables.tap_weight
    numbers.stride_y, numbers.stride_x = map.y, map.x
    numbers.step = map.channel if call.channels_per_output > 1 else 0
    while next_part(call, task, &part):
        numbers.count = part.q1 - part.q0
        for c in range(part.block * call.lanes, stop_channel(call, &part)):
            for p in range(part.p0, part.p1):
                to = out + part.row * call.bins.image + c * call.bins.channel + p * call.bins.y
                y.spans, x.spans = part.spans_y + 2 * p, part.spans_x + 2 * part.q0
                numbers.start = plane + channel_of(call, c, p, part.q0) * map.channel
                call.simd.sum_numbers(to + part.q0 * call.bins.x, call.bins.x, &numbers, &y, &x,
                                      part.x_first)


cdef inline void clear_channels(
        const Call *call, const Task *task, real *plane) noexcept nogil:
    """Zeros in the task's rectangle of its channels; plane: channel 0."""
    cdef Py_ssize_t first = task.first_block * call.lanes * call.channels_per_output
    cdef Py_ssize_t stop = min(task.stop_block * call.lanes, call.channels)
    cdef const Strides *map = &call.map.strides
    call.simd.clear(plane + first * map.channel + task.y0 * map.y + task.x0 * map.x, map,
                    stop * call.channels_per_output - first, task.y1 - task.y0, task.x1 - task.x0)


cdef inline void add_bins(
        const Call *call, const Task *task, const real *grad_output) noexcept nogil:
    """The task's rectangle of its channels = (add: +=) the gradients of its boxes.

    Each bin has channels of its own, so no two bins of a box add to the same number.
    """
    cdef Py_ssize_t c
    cdef int p, q
    cdef int32_t[2] rows, columns
    cdef const Strides *map = &call.map.strides
    cdef real *plane = <real*>call.map.data + task.image * map.image
    cdef const real *grad
    cdef Part part = parts_of(call, task, MAX_BINS)
    cdef Taps y, x
    y.spans, x.spans = rows, columns
    y.pixel = x.pixel = call.tables.tap_pixel
    y.weight = x.weight = call.tables.tap_weight
    if not call.add:
        clear_channels(call, task, plane)
    while next_part(call, task, &part):
        for p in range(part.p0, part.p1):
            clip(part.spans_y + 2 * p, part.pixel, task.y0, task.y1, rows)
            if rows[0] == rows[1]:
                continue
            for q in range(part.q0, part.q1):
                clip(part.spans_x + 2 * q, part.pixel, task.x0, task.x1, columns)
                grad = (grad_output + part.row * call.bins.image + p * call.bins.y
                        + q * call.bins.x)
                for c in range(part.block * call.lanes, stop_channel(call, &part)):
                    call.simd.add_number(plane + channel_of(call, c, p, q) * map.channel, map.y,
                                         map.x, grad + c * call.bins.channel, &y, &x)


cdef inline void accumulate_numbers(
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


cdef inline void add_boxes(
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


cdef inline void grad_input(
        const Call *call, const Task *task, char *memory, real _) noexcept nogil:
    cdef const real *grad_output = <const real*>call.result
    if call.position_sensitive:
        add_bins(call, task, grad_output)
    else:
        add_boxes(call, task, grad_output, <real*>scratch_of(call, memory).strip)


cdef inline void set_numbers(Method *method) noexcept:
    method.name, method.unfit, method.pays = "numbers", unfit, pays
    method.prepare, method.lay_out = set_ways, lay_out
    method.shares_to_read, method.shares_to_write = shares_to_read, shares_to_write
    set_pass(method, FORWARD, forward[float], forward[double])
    set_pass(method, GRAD_INPUT, grad_input[float], grad_input[double])
