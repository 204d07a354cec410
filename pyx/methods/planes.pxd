"""Planes: channels are lanes, whose planes are packed into a tile.

It fits every level of upright boxes whose bins share the channels of their box.  A task packs the
planes of one channel block, for all boxes of an image or some of them: whole rows once, or the
window of each box.
"""
from libc.stdint cimport INT32_MAX, int32_t

from passes.grad_boxes cimport Slopes, begin_slopes, next_slopes, slopes_of_window
from passes.grad_input cimport (Owned, PixelAxis, begin_owned, bins_of_pixel, keep_readers,
                                neighbours, next_owned, set_pixel_axes)
from passes.max_pool cimport pool_grad_task, pool_task
from passes.max_sample cimport sample_grad_task, sample_task
from passes.maxima cimport shares_of_maxima
from passes.prefetch cimport Prefetch, prefetch_of, prefetch_some
from passes.walk cimport Lanes, Part, Walk, begin_walk, bins_of_part, walk_on
from passes.windows cimport store_part, sum_block
from plan.scratch cimport size_scratch
from plan.shares cimport set_rectangles
from plan.structs cimport (
    FORWARD, GRAD_BOXES, GRAD_INPUT, MAX_PIXEL, MAX_PIXEL_GRAD, MAX_SAMPLE, MAX_SAMPLE_GRAD,
    PACK_WINDOW, SPARSE_TAPS, Cover, LevelJob, Method, Shares, Task, Work, set_pass)
from plan.ways cimport set_ways
from simd.structs cimport LANE_BYTES, Taps, Vectors, real
from simd.table cimport Simd
from tuning cimport STRIP_BYTES

cdef enum:
    PIXELS_AT_ONCE = 6             # pixels of an axis a call: prefetches lie between   # R237

# Costs that are not whole numbers, which an enum cannot hold.
cdef extern from *:
    """
    #define WINDOW_COST 1.5
    """
    const double WINDOW_COST       # of a pixel read in short runs, in pixels of whole rows # R017


cdef inline const char *unfit(const LevelJob *job) noexcept nogil:
    if job.tables.tap_kind == SPARSE_TAPS:
        return "the boxes are turned"
    if job.call.position_sensitive:
        return "each bin has channels of its own"
    return NULL


cdef inline bint pays(const LevelJob *_, Py_ssize_t few) noexcept nogil:
    return True


# Tasks

cdef inline Shares shares_to_read(
        const LevelJob *job, const Work *work, const Cover *cover, Py_ssize_t boxes) noexcept nogil:
    """Each task packs the planes of one unit of channels."""
    cdef Shares shares
    shares.blocks, shares.bins = work.units, 1
    shares.load, shares.max_boxes = PACK_WINDOW, INT32_MAX
    shares.rows = shares.columns = shares.bands = 0      # as nothing is written
    # Runs of a window are short, and each ends in a cache line that is not needed as a whole.  A
    # line has as many pixels as there are lanes.
    shares.pixel_cost, shares.row_cost = WINDOW_COST, WINDOW_COST * job.call.lanes
    shares.divides_boxes = False
    return shares


cdef inline Shares shares_to_write(const LevelJob *job, const Work *work) noexcept nogil:
    """A task owns the planes of one block."""
    cdef Shares shares = shares_to_read(job, work, NULL, 0)
    if job.call.purpose != GRAD_INPUT:
        shares_of_maxima(job, work, False, &shares)
    set_rectangles(job, work, 1, &shares)
    return shares


# Passes

cdef inline void forward(
        const LevelJob *job, const Task *task, char *memory, real _) noexcept nogil:
    """Part by part of the task's boxes: pack pixels into the tile, sum them, and write bins."""
    cdef Walk walk
    begin_walk(job, task, memory, False, &walk)
    while walk_on(job, task, &walk):
        sum_block(job, &walk, <real*>walk.scratch.bins)
        store_part(job, &walk, <real*>walk.result)


cdef inline void accumulate_planes(
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
    bins.start = <const real*>grad.origin - y_axis.low * grad.view.y      # of bin row 0
    bins.stride, bins.pixel_stride, bins.count = grad.view.x, grad.view.y, qs
    while y < y_axis.stop:
        rows = min(most, y_axis.stop - y)
        r = 0
        while r < rows:
            prefetch_some(ahead)
            some = min(at_once, rows - r)
            y_bins.spans = bins_of_pixel(y_axis, y + r, clipped)
            simd.contract_bins(strip + r * lanes, lanes, rows * lanes, &bins, <int>some, &y_bins)
            r += some
        strips.stride, strips.pixel_stride = lanes, rows * lanes
        r = 0
        while r < rows:      # neighbouring rows together, which most often are all of them
            together = neighbours(y_axis.pixels, y + r, y + rows) - y - r
            strips.start, strips.count = strip + (r - x_axis.low * rows) * lanes, together
            to = <real*>sums.origin + y_axis.pixels[y + r] * sums.view.y
            x = x_axis.first
            while x < x_axis.stop:
                prefetch_some(ahead)
                some = min(at_once, x_axis.stop - x)
                x_bins.spans = bins_of_pixel(x_axis, x, clipped)
                simd.accumulate_pixels(to, sums.view.x, sums.view.y, &strips, some,
                                       x_axis.pixels + x, &x_bins)
                x += some
            r += together
        y += rows


cdef inline Lanes bins_of_readers(
        const LevelJob *job, const Task *task, Owned *owned, Part *clipped, real _) noexcept nogil:
    """The gradient of the bins of a part that read pixels of the task's rectangle: of `clipped`."""
    clipped[0] = owned.walk.part
    keep_readers(job, task, clipped)
    return bins_of_part(job, clipped, owned.walk.result, owned.walk.tile.lanes,
                        <real*>owned.walk.scratch.bins)


cdef inline const real *bins_of_next_box(
        const LevelJob *job, const Owned *owned, real _) noexcept nogil:
    """The bins that are prefetched meanwhile, in the block of the part."""
    cdef const Part *coming = &owned.boxes.part
    return (<const real*>job.call.result + coming.row * job.call.out_strides.image
            + owned.walk.part.block * job.call.lanes * job.call.out_strides.channel
            + coming.p0 * job.call.out_strides.y + coming.q0 * job.call.out_strides.x)


cdef inline void add_planes(
        const LevelJob *job, const Task *task, Owned *owned, real of_type) noexcept nogil:
    """Add the gradient of a part, of one channel block."""
    cdef const Part *coming = &owned.boxes.part
    cdef Part clipped
    cdef PixelAxis y, x
    cdef Prefetch ahead
    cdef Lanes grad = bins_of_readers(job, task, owned, &clipped, of_type)
    if clipped.p0 >= clipped.p1 or clipped.q0 >= clipped.q1:
        return
    set_pixel_axes(job, task, &clipped, &y, &x)
    # The next part's bins, divided among the times that `accumulate_planes` prefetches.
    ahead = prefetch_of(bins_of_next_box(job, owned, of_type), &job.call.out_strides,
                        owned.walk.tile.lanes, coming.p1 - coming.p0, coming.q1 - coming.q0,
                        (y.stop - y.first + x.stop - x.first) // PIXELS_AT_ONCE + 1)
    accumulate_planes(job.call.simd, &y, &x, &grad, &owned.sums, <real*>owned.walk.scratch.strip,
                      &ahead)


cdef inline void grad_input(
        const LevelJob *job, const Task *task, char *memory, real of_type) noexcept nogil:
    cdef Owned owned
    owned.separable, owned.joins = True, False
    begin_owned(job, task, memory, memory, &owned)      # sums have the tile: nothing is packed
    while next_owned(job, task, &owned, of_type):
        add_planes(job, task, &owned, of_type)


cdef inline void grad_boxes(
        const LevelJob *job, const Task *task, char *memory, real of_type) noexcept nogil:
    cdef Slopes slopes
    begin_slopes(job, task, memory, True, &slopes)
    while next_slopes(job, task, &slopes, of_type):
        slopes_of_window(job, &slopes, of_type)


cdef inline void set_planes(Method *method) noexcept:
    method.name, method.unfit, method.pays = "planes", unfit, pays
    method.prepare, method.size_scratch = set_ways, size_scratch
    method.shares_to_read, method.shares_to_write = shares_to_read, shares_to_write
    set_pass(method, FORWARD, forward[float], forward[double])
    set_pass(method, GRAD_INPUT, grad_input[float], grad_input[double])
    set_pass(method, GRAD_BOXES, grad_boxes[float], grad_boxes[double])
    set_pass(method, MAX_PIXEL, pool_task[float], pool_task[double])
    set_pass(method, MAX_PIXEL_GRAD, pool_grad_task[float], pool_grad_task[double])
    set_pass(method, MAX_SAMPLE, sample_task[float], sample_task[double])
    set_pass(method, MAX_SAMPLE_GRAD, sample_grad_task[float], sample_grad_task[double])
