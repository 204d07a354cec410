"""Sparse: the bins of boxes that are turned, for all passes of weighted sums.

    out[k, c, p, q] = sum over taps t of bin (p, q) of  weight[t] * input[n, c, y[t], x[t]]

A bin sums its taps one by one in the order of the table, whatever is loaded at a time, so that
results have the same bits for every layout and number of threads.  Pixels are loaded by the window
of a part.  Where that is too large, or mostly pixels that no bin reads, as around a long box that
lies askew, they are loaded bin by bin, and for a bin that is too large some taps at a time.
"""
from libc.stdint cimport int32_t

from kernels.nest cimport Part, is_empty
from move.tile cimport load
from plan.spans cimport hull_of_taps
from plan.structs cimport Call, Task
from simd.structs cimport LANE_BYTES, Taps, Tile, View, Window, real


cdef inline const int32_t *spans_of(const Call *call, const Part *part, int p) noexcept nogil:
    """The spans of the bins of row p of a part."""
    return part.spans_y + 2 * (<Py_ssize_t>p * call.pw + part.q0)


cdef inline bint loads_window(
        const Call *call, const Part *part, const Tile *tile,
        Py_ssize_t capacity) noexcept nogil:
    """Whether the window of a part is loaded at once; capacity: pixels of the tile."""
    cdef const Window *window = &part.window
    if tile.in_place or tile.shared:
        return True
    return (call.tables.thin[part.place] == 0
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
        const Call *call, const int32_t *span, Tile *tile, real *memory,
        real *bin) noexcept nogil:
    """One bin, of one channel block, whose pixels are loaded for it alone."""
    cdef Stretch stretch
    cdef View steps
    cdef Taps taps
    cdef const real *pixels
    cdef bint add = False
    taps.spans, taps.pixel, taps.weight = span, call.tables.tap_pixel, call.tables.tap_weight
    if span[0] == span[1]:
        call.simd.contract_sparse(bin, 0, bin, 0, 0, 1, &taps, False)
    stretch.span[1] = span[0]
    taps.spans = stretch.span
    while next_stretch(taps.pixel, span, tile.capacity, &stretch):
        pixels = load(call, tile, memory, &stretch.window, &steps)
        pixels -= stretch.window.y0 * steps.y + stretch.window.x0 * steps.x
        call.simd.contract_sparse(bin, 0, pixels, steps.y, steps.x, 1, &taps, add)
        add = True


cdef inline void sum_sparse(
        const Call *call, const Part *part, Tile *tile, real *memory,
        real *bins) noexcept nogil:
    """bins = the weighted sums of a part, of one channel block; memory: of the tile."""
    cdef int lanes = LANE_BYTES // sizeof(real), qs = part.q1 - part.q0, p, q
    cdef const Window *window = &part.window
    cdef const real *pixels = memory
    cdef View steps
    cdef Taps taps
    cdef bint together = loads_window(call, part, tile, tile.capacity)
    steps.y = steps.x = 0
    if together and not is_empty(window):
        pixels = load(call, tile, memory, window, &steps)
        pixels -= window.y0 * steps.y + window.x0 * steps.x
    taps.pixel, taps.weight = call.tables.tap_pixel, call.tables.tap_weight
    for p in range(part.p0, part.p1):
        taps.spans = spans_of(call, part, p)
        if together:
            call.simd.contract_sparse(bins, lanes, pixels, steps.y, steps.x, qs, &taps, False)
        for q in range(0 if together else qs):
            sum_stretches(call, taps.spans + 2 * q, tile, memory, bins + q * lanes)
        bins += qs * lanes


cdef inline void sum_sparse_pixels(
        const Call *call, const Part *part, const Tile *tile, real *out,
        real *bins) noexcept nogil:
    """Some bins of a box, of part.blocks blocks that lie together in the map and in the output."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = part.blocks * lanes
    cdef int qs = part.q1 - part.q0, p
    cdef Taps taps
    taps.pixel, taps.weight = call.tables.tap_pixel, call.tables.tap_weight
    for p in range(part.p0, part.p1):
        taps.spans = spans_of(call, part, p)
        call.simd.contract_sparse_pixels(bins, width, <const real*>tile.plane, tile.strides.y,
                                         tile.strides.x, qs, &taps, part.blocks)
        call.simd.put_pixels(bins, qs, width, out + p * call.bins.y + part.q0 * call.bins.x,
                             call.bins.x, call.store)


# Gradient of the input

cdef inline void scatter_sparse(
        const Call *call, const Task *task, const Part *part, const real *grad,
        const View *grad_steps, real *sums, const View *steps) noexcept nogil:
    """Pixels of the task's rectangle += the gradient of a part's bins, of part.blocks blocks.

    grad: of bin (p0, q0); sums: pixel (0, 0).
    """
    cdef const Window *window = &part.window
    cdef Py_ssize_t[4] owned
    cdef bint inside = (task.y0 <= window.y0 and window.y1 <= task.y1 and task.x0 <= window.x0
                        and window.x1 <= task.x1)
    cdef int p, q
    cdef Taps taps
    owned[0], owned[1], owned[2], owned[3] = task.y0, task.y1, task.x0, task.x1
    taps.pixel, taps.weight = call.tables.tap_pixel, call.tables.tap_weight
    for p in range(part.p0, part.p1):
        taps.spans = spans_of(call, part, p)
        for q in range(part.q1 - part.q0):
            call.simd.accumulate_sparse(sums, steps.y, steps.x,
                                        grad + (p - part.p0) * grad_steps.y + q * grad_steps.x,
                                        part.blocks, &taps, NULL if inside else owned)
            taps.spans += 2
