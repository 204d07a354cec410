"""Sparse: the bins of boxes that are turned, tap by tap.

    out[k, c, p, q] = sum over taps t of bin (p, q) of  weight[t] * input[n, c, y[t], x[t]]

A bin sums its taps one by one in the order of the table, whatever is loaded at a time, so that
results have the same bits for every layout and number of threads.  Pixels are loaded by the window
of a part.  Where that is too large, or mostly pixels that no bin reads, as around a long box that
lies askew, they are loaded bin by bin, and for a bin that is too large some taps at a time.
"""
from libc.stdint cimport int32_t

from libc.string cimport memset

cimport methods.pixels as of_pixels
cimport methods.planes as of_planes
from passes.grad_boxes cimport (Slopes, begin_slopes, load_blocks, next_slopes, set_bins_of_part,
                                slopes_of_bin)
from passes.grad_input cimport Owned, begin_owned, next_owned
from passes.walk cimport (
    Lanes, Part, Walk, begin_walk, bins_of_part, taps_of, walk_on, window_is_empty)
from passes.tile cimport load
from passes.windows cimport store_part
from plan.facts cimport channels_lie_together
from plan.scratch cimport size_scratch
from plan.spans cimport hull_of_taps
from plan.structs cimport (
    FORWARD, GRAD_BOXES, GRAD_INPUT, SPARSE_TAPS, WHOLE, Cover, LevelJob, Method, Shares, Task,
    Work, set_pass)
from simd.structs cimport LANE_BYTES, Taps, Tile, View, Window, real


cdef inline const char *unfit(const LevelJob *job) noexcept nogil:
    if job.tables.tap_kind == SPARSE_TAPS:
        return NULL
    return "the boxes are upright"


cdef inline void prepare(LevelJob *job) noexcept nogil:
    memset(job.tables.ways, WHOLE, job.tables.count)
    memset(job.tables.x_first, 0, job.tables.count)


cdef inline Shares shares_to_read(
        const LevelJob *job, const Work *work, const Cover *cover, Py_ssize_t boxes) noexcept nogil:
    """Tasks are those of pixels where channels lie together, and else those of planes."""
    if channels_lie_together(job):
        return of_pixels.shares_to_read(job, work, cover, boxes)
    return of_planes.shares_to_read(job, work, cover, boxes)


cdef inline Shares shares_to_write(const LevelJob *job, const Work *work) noexcept nogil:
    if channels_lie_together(job):
        return of_pixels.shares_to_write(job, work)
    return of_planes.shares_to_write(job, work)


cdef inline const int32_t *spans_of(const LevelJob *job, const Part *part, int p) noexcept nogil:
    """The spans of the bins of row p of a part."""
    return part.spans_y + 2 * (<Py_ssize_t>p * job.call.pw + part.q0)


cdef inline bint loads_window(
        const LevelJob *job, const Part *part, const Tile *tile,
        Py_ssize_t capacity) noexcept nogil:
    """Whether the window of a part is loaded at once; capacity: pixels of the tile.

    A shared tile holds the window of each box of its task, or has room for it: tasks of boxes that
    are too tall pack each window by itself.
    """
    cdef const Window *window = &part.window
    if tile.in_place or tile.shared:
        return True
    return (job.tables.few_pixels[part.box] == 0
            and (window.y1 - window.y0) * (window.x1 - window.x0) <= capacity)


cdef struct Stretch:               # taps of a bin whose pixels are loaded together
    int32_t[2] span
    Window window


cdef inline bint next_stretch(
        const int32_t *pixel, const int32_t *span, Py_ssize_t capacity,
        Stretch *stretch) noexcept nogil:
    """Go on to the next taps of a bin whose window the tile has room for; False after the last.

    The first one begins where stretch.span ends.
    """
    cdef Py_ssize_t[4] edges, wider
    cdef int32_t t = stretch.span[1]
    cdef int i
    for i in range(4):
        edges[i] = 0
    stretch.span[0] = t
    while t < span[1]:
        for i in range(4):
            wider[i] = edges[i]
        hull_of_taps(pixel, t, t + 1, wider)
        if (wider[1] - wider[0]) * (wider[3] - wider[2]) > capacity:
            break
        for i in range(4):
            edges[i] = wider[i]
        t += 1
    stretch.span[1] = t
    stretch.window.y0, stretch.window.y1 = edges[0], edges[1]
    stretch.window.x0, stretch.window.x1 = edges[2], edges[3]
    return stretch.span[0] < t


# Forward

cdef inline void sum_stretches(
        const LevelJob *job, const int32_t *span, Tile *tile, real *memory,
        real *bin) noexcept nogil:
    """One bin, of one channel block, whose pixels are loaded for it alone."""
    cdef Stretch stretch
    cdef View view
    cdef Taps taps = taps_of(job, span)
    cdef const real *pixels
    cdef bint add = False
    if span[0] == span[1]:
        job.call.simd.contract_sparse(bin, 0, bin, 0, 0, 1, &taps, False)
    stretch.span[1] = span[0]
    taps.spans = stretch.span
    while next_stretch(taps.pixel, span, tile.capacity, &stretch):
        pixels = load(job, tile, memory, &stretch.window, &view)
        pixels -= stretch.window.y0 * view.y + stretch.window.x0 * view.x
        job.call.simd.contract_sparse(bin, 0, pixels, view.y, view.x, 1, &taps, add)
        add = True


cdef inline void sum_sparse(
        const LevelJob *job, const Part *part, Tile *tile, real *memory,
        real *bins) noexcept nogil:
    """bins = the weighted sums of a part, of one channel block; memory: of the tile."""
    cdef int lanes = LANE_BYTES // sizeof(real), qs = part.q1 - part.q0, p, q
    cdef const Window *window = &part.window
    cdef const real *pixels = memory
    cdef View view
    cdef Taps taps = taps_of(job, NULL)
    cdef bint together = loads_window(job, part, tile, tile.capacity)
    view.y = view.x = 0
    if together and not window_is_empty(window):
        pixels = load(job, tile, memory, window, &view)
        pixels -= window.y0 * view.y + window.x0 * view.x
    for p in range(part.p0, part.p1):
        taps.spans = spans_of(job, part, p)
        if together:
            job.call.simd.contract_sparse(bins, lanes, pixels, view.y, view.x, qs, &taps, False)
        for q in range(0 if together else qs):
            sum_stretches(job, taps.spans + 2 * q, tile, memory, bins + q * lanes)
        bins += qs * lanes


cdef inline void sum_sparse_pixels(
        const LevelJob *job, const Part *part, const Tile *tile, real *out,
        real *bins) noexcept nogil:
    """Some bins of a box, of part.blocks blocks that lie together in the map and in the output."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = part.blocks * lanes
    cdef int qs = part.q1 - part.q0, p
    cdef real *to
    cdef Taps taps = taps_of(job, NULL)
    for p in range(part.p0, part.p1):
        taps.spans = spans_of(job, part, p)
        job.call.simd.contract_sparse_pixels(bins, width, <const real*>tile.plane, tile.strides.y,
                                             tile.strides.x, qs, &taps, part.blocks)
        to = out + p * job.call.out_strides.y + part.q0 * job.call.out_strides.x
        job.call.simd.put_pixels(bins, qs, width, to, job.call.out_strides.x, job.store)


cdef inline void forward(
        const LevelJob *job, const Task *task, char *memory, real _) noexcept nogil:
    cdef Walk walk
    begin_walk(job, task, memory, True, &walk)
    while walk_on(job, task, &walk):
        if walk.joined:
            sum_sparse_pixels(job, &walk.part, &walk.tile, <real*>walk.result,
                              <real*>walk.scratch.bins)
        else:
            sum_sparse(job, &walk.part, &walk.tile, <real*>walk.scratch.tile,
                       <real*>walk.scratch.bins)
            store_part(job, &walk, <real*>walk.result)


# Gradient of the input

cdef inline void scatter_sparse(
        const LevelJob *job, const Task *task, const Part *part, const real *grad,
        const View *grad_view, real *sums, const View *view) noexcept nogil:
    """Pixels of the task's rectangle += the gradient of a part's bins, of part.blocks blocks.

    grad: of bin (p0, q0); sums: pixel (0, 0).
    """
    cdef const Window *window = &part.window
    cdef Py_ssize_t[4] owned
    cdef bint inside = (task.y0 <= window.y0 and window.y1 <= task.y1 and task.x0 <= window.x0
                        and window.x1 <= task.x1)
    cdef int p, q
    cdef Taps taps = taps_of(job, NULL)
    owned[0], owned[1], owned[2], owned[3] = task.y0, task.y1, task.x0, task.x1
    for p in range(part.p0, part.p1):
        taps.spans = spans_of(job, part, p)
        for q in range(part.q1 - part.q0):
            job.call.simd.accumulate_sparse(sums, view.y, view.x,
                                            grad + (p - part.p0) * grad_view.y + q * grad_view.x,
                                            part.blocks, &taps, NULL if inside else owned)
            taps.spans += 2


cdef inline void grad_input(
        const LevelJob *job, const Task *task, char *memory, real of_type) noexcept nogil:
    cdef Owned owned
    cdef Lanes grad
    owned.separable, owned.joins = False, True
    begin_owned(job, task, memory, memory, &owned)
    while next_owned(job, task, &owned, of_type):
        grad = bins_of_part(job, &owned.walk.part, owned.walk.result, owned.walk.tile.lanes,
                            <real*>owned.walk.scratch.bins)
        scatter_sparse(job, task, &owned.walk.part, <const real*>grad.origin, &grad.view,
                       <real*>owned.sums.origin, &owned.sums.view)


# Gradient of the boxes

cdef inline void slopes_of_part(const LevelJob *job, Slopes *slopes, real of_type) noexcept nogil:
    """Add the gradients with respect to the numbers of a box, of some bins, to the sums."""
    cdef const Part *part = &slopes.walk.part
    cdef const Lanes *bins = &slopes.bins
    cdef bint together = loads_window(job, part, &slopes.walk.tile, job.slopes.cell_pixels)
    cdef const int32_t *span
    cdef const real *bin
    cdef Stretch stretch
    cdef int p, q
    set_bins_of_part(job, slopes, of_type)
    if together:
        load_blocks(job, slopes, &part.window, NULL, of_type)
    for p in range(part.p0, part.p1):
        span = spans_of(job, part, p)
        for q in range(part.q1 - part.q0):
            bin = <const real*>bins.origin + (p - part.p0) * bins.view.y + q * bins.view.x
            stretch.span[1] = span[0]
            if together:
                slopes_of_bin(job, slopes, part.blocks, span, NULL, bin)
                stretch.span[1] = span[1]
            while next_stretch(job.tables.tap_pixel, span, job.slopes.cell_pixels, &stretch):
                load_blocks(job, slopes, &stretch.window, NULL, of_type)
                slopes_of_bin(job, slopes, part.blocks, stretch.span, NULL, bin)
            span += 2


cdef inline void grad_boxes(
        const LevelJob *job, const Task *task, char *memory, real of_type) noexcept nogil:
    cdef Slopes slopes
    begin_slopes(job, task, memory, True, &slopes)
    while next_slopes(job, task, &slopes, of_type):
        slopes_of_part(job, &slopes, of_type)


cdef inline void set_sparse(Method *method) noexcept:
    method.name, method.unfit, method.pays = "sparse", unfit, of_planes.pays
    method.prepare, method.size_scratch = prepare, size_scratch
    method.shares_to_read, method.shares_to_write = shares_to_read, shares_to_write
    method.next_copy = of_pixels.next_copy
    set_pass(method, FORWARD, forward[float], forward[double])
    set_pass(method, GRAD_INPUT, grad_input[float], grad_input[double])
    set_pass(method, GRAD_BOXES, grad_boxes[float], grad_boxes[double])
