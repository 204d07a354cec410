"""Numbers: each number is computed by itself.

It is for maps of so few channels that lanes would stay mostly empty.  Nothing is packed: a bin
reads the map, or adds to it, as it lies.  Sums are taken in the order in which lanes take them, so
that both give the same bits: which of them computes a box depends on the batch.
"""
from libc.stdint cimport int32_t

cimport methods.planes as planes
from passes.grad_input cimport PixelAxis, bins_of_pixel, keep_readers, set_pixel_axes
from passes.tile cimport clear_rows
from passes.walk cimport Part, next_part, parts_of, scratch_of, taps_of
from plan.facts cimport rows_contiguous
from plan.scratch cimport size_scratch
from plan.shares cimport set_rectangles
from plan.structs cimport (
    FORWARD, GRAD_INPUT, SPARSE_TAPS, Cover, LevelJob, Method, Shares, Task, Work, set_pass)
from plan.ways cimport set_ways
from simd.structs cimport Pixels, Strides, Taps, real
from tuning cimport MAX_BINS, SQUARE_BINS


cdef inline const char *unfit(const LevelJob *job) noexcept nogil:
    if job.tables.tap_kind == SPARSE_TAPS:
        return "the boxes are turned"
    if job.map.itemsize != job.call.itemsize:
        return "the map is of a small type"
    if job.call.purpose == GRAD_INPUT and job.call.position_sensitive:
        return "each bin has channels of its own"
    return NULL


cdef inline bint lanes_are_empty(const LevelJob *job) noexcept nogil:
    """Whether channels fill a quarter of a lane vector at most."""
    return 4 * job.call.channels <= job.call.lanes


cdef inline double all_taps(const LevelJob *job) noexcept nogil:
    """Taps of all bins of all boxes, of both axes together: how many pixels bins read in all."""
    cdef int ph = job.call.ph, pw = job.call.pw
    cdef const int32_t *spans = job.tables.spans
    cdef double taps = 0
    for _ in range(job.tables.count):
        taps += (<double>(spans[2 * ph - 1] - spans[0])
                 * (spans[2 * (ph + pw) - 1] - spans[2 * ph]))
        spans += 2 * (ph + pw)
    return taps


cdef inline bint pays(const LevelJob *job, Py_ssize_t few) noexcept nogil:
    """Whether lanes would be empty where boxes have few taps, or would add few numbers.

    Bin rows read all pixels of a window, so they are for other boxes.
    """
    if job.call.purpose == FORWARD:
        return lanes_are_empty(job) and (job.call.position_sensitive or 2 * few > job.tables.count)
    # A few numbers are added in place faster than a tile is cleared and stored.
    return (lanes_are_empty(job) and not job.call.position_sensitive
            and all_taps(job) * job.call.channels
            < <double>job.map.rows * job.map.columns * job.map.images)


# Tasks

cdef inline Shares shares_to_read(
        const LevelJob *job, const Work *work, const Cover *cover, Py_ssize_t boxes) noexcept nogil:
    cdef Shares shares = planes.shares_to_read(job, work, cover, boxes)
    shares.pixel_cost = shares.row_cost = 0
    return shares


cdef inline Shares shares_to_write(const LevelJob *job, const Work *work) noexcept nogil:
    """A task owns the planes of a block, or all channels where those of a pixel lie together."""
    cdef Shares shares = shares_to_read(job, work, NULL, 0)
    if not rows_contiguous(job):
        shares.blocks = 1
    set_rectangles(job, work, 1, &shares)
    return shares


# Passes

cdef inline Py_ssize_t stop_channel(const LevelJob *job, const Part *part) noexcept nogil:
    """The channel after the part's block."""
    return min((part.block + 1) * job.call.lanes, job.call.channels)


cdef inline Py_ssize_t channel_of(const LevelJob *job, Py_ssize_t c, int p, int q) noexcept nogil:
    """The input channel that a bin reads for output channel c."""
    if not job.call.position_sensitive:
        return c
    return c * job.call.channels_per_output + p * job.call.pw + q


cdef inline void forward(
        const LevelJob *job, const Task *task, char *_, real of_type) noexcept nogil:
    cdef Py_ssize_t c
    cdef int p
    cdef const Strides *map = &job.map.strides
    cdef const Strides *bins = &job.call.out_strides
    cdef const real *plane = <const real*>job.map.data + task.image * map.image
    cdef real *out = <real*>job.call.result
    cdef real *to
    cdef Pixels numbers
    cdef Part part = parts_of(job, task, MAX_BINS)
    cdef Taps y = taps_of(job, NULL), x = y
    numbers.stride_y, numbers.stride_x = map.y, map.x
    numbers.stride = map.channel if job.call.channels_per_output > 1 else 0
    while next_part(job, task, &part):
        numbers.count = part.q1 - part.q0
        for c in range(part.block * job.call.lanes, stop_channel(job, &part)):
            for p in range(part.p0, part.p1):
                to = out + part.row * bins.image + c * bins.channel + p * bins.y
                y.spans, x.spans = part.spans_y + 2 * p, part.spans_x + 2 * part.q0
                numbers.start = plane + channel_of(job, c, p, part.q0) * map.channel
                job.call.simd.sum_numbers(to + part.q0 * bins.x, bins.x, &numbers, &y, &x,
                                          part.x_first)


cdef inline void accumulate_numbers(
        const LevelJob *job, const PixelAxis *y_axis, const PixelAxis *x_axis, const real *grad,
        real *plane, real *strip) noexcept nogil:
    """plane += Wy^T grad Wx for one channel, as accumulate_planes adds.

    grad: of the first bin that the axes look at; plane: pixel (0, 0).
    """
    cdef const Strides *bins = &job.call.out_strides
    cdef const Strides *map = &job.map.strides
    cdef Py_ssize_t y, x, qs = x_axis.high - x_axis.low
    cdef Py_ssize_t at_once = x_axis.stop - x_axis.first if x_axis.whole else 1
    cdef int32_t[2] clipped
    cdef Taps y_bins = y_axis.bins, x_bins = x_axis.bins
    for y in range(y_axis.first, y_axis.stop):
        y_bins.spans = bins_of_pixel(y_axis, y, clipped)
        job.call.simd.sum_rows(strip, grad - y_axis.low * bins.y, bins.y, bins.x, qs, &y_bins)
        x = x_axis.first
        while x < x_axis.stop:
            x_bins.spans = bins_of_pixel(x_axis, x, clipped)
            job.call.simd.add_numbers(plane + y_axis.pixels[y] * map.y, map.x, strip - x_axis.low,
                                      at_once, x_axis.pixels + x, &x_bins)
            x += at_once


cdef inline void grad_input(
        const LevelJob *job, const Task *task, char *memory, real _) noexcept nogil:
    """Pixels of the task's rectangle = (add: +=) the gradients of its boxes, number by number."""
    cdef const Strides *map = &job.map.strides
    cdef const Strides *bins = &job.call.out_strides
    cdef real *plane = <real*>job.map.data + task.image * map.image
    cdef real *strip = <real*>scratch_of(job, memory).strip
    cdef const real *grad
    cdef Part part = parts_of(job, task, SQUARE_BINS), clipped
    cdef Py_ssize_t c
    cdef PixelAxis y, x
    if not job.add:
        clear_rows(job, task, plane + task.first_block * job.call.lanes * map.channel, map,
                   task.y0, task.y1)
    while next_part(job, task, &part):
        clipped = part
        keep_readers(job, task, &clipped)
        if clipped.p0 >= clipped.p1 or clipped.q0 >= clipped.q1:
            continue
        set_pixel_axes(job, task, &clipped, &y, &x)
        grad = (<const real*>job.call.result + clipped.row * bins.image + clipped.p0 * bins.y
                + clipped.q0 * bins.x)
        for c in range(part.block * job.call.lanes, stop_channel(job, &part)):
            accumulate_numbers(job, &y, &x, grad + c * bins.channel, plane + c * map.channel,
                               strip)


cdef inline void set_numbers(Method *method) noexcept:
    method.name, method.unfit, method.pays = "numbers", unfit, pays
    method.prepare, method.size_scratch = set_ways, size_scratch
    method.shares_to_read, method.shares_to_write = shares_to_read, shares_to_write
    set_pass(method, FORWARD, forward[float], forward[double])
    set_pass(method, GRAD_INPUT, grad_input[float], grad_input[double])
