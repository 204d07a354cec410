"""Scalars: where lanes would stay mostly empty, or move much to add little, number by number.

Nothing is packed: each bin reads the map, or adds to it, as it lies.  The bins of a
position-sensitive operator read channels of their own.  Sums are taken in the order in which lanes
take them, so that both give the same bits: which of them computes a box depends on the batch.
"""
from libc.stdint cimport int32_t

from kernels.nest cimport Part, next_part, parts_of
from plan.spans cimport clip
from plan.structs cimport NUMBERS_X, Call, Task
from simd.structs cimport Pixels, Strides, Taps, real
from tuning cimport MAX_BINS


cdef inline Py_ssize_t stop_channel(const Call *call, const Part *part) noexcept nogil:
    """The channel after the part's block."""
    return min((part.block + 1) * call.lanes, call.channels)


cdef inline Py_ssize_t channel_of(const Call *call, Py_ssize_t c, int p, int q) noexcept nogil:
    """The input channel that a bin reads for output channel c."""
    return c * call.channels_per_output + (p * call.pw + q if call.channels_per_output > 1 else 0)


cdef inline void sum_bins(const Call *call, const Task *task, real *out) noexcept nogil:
    """The weighted sums of all bins of the task's boxes."""
    cdef Py_ssize_t c
    cdef int p
    cdef const Strides *map = &call.map.strides
    cdef const real *plane = <const real*>call.map.data + task.image * map.image
    cdef real *to
    cdef Pixels planes
    cdef Part part = parts_of(call, task, MAX_BINS)
    cdef Taps y, x
    y.pixel = x.pixel = call.tables.tap_pixel
    y.weight = x.weight = call.tables.tap_weight
    planes.stride_y, planes.stride_x = map.y, map.x
    planes.step = map.channel if call.channels_per_output > 1 else 0
    while next_part(call, task, &part):
        planes.count = part.q1 - part.q0
        for c in range(part.block * call.lanes, stop_channel(call, &part)):
            for p in range(part.p0, part.p1):
                to = out + part.row * call.bins.image + c * call.bins.channel + p * call.bins.y
                y.spans, x.spans = part.spans_y + 2 * p, part.spans_x + 2 * part.q0
                planes.start = plane + channel_of(call, c, p, part.q0) * map.channel
                call.simd.sum_numbers(to + part.q0 * call.bins.x, call.bins.x, &planes, &y, &x,
                                      part.how == NUMBERS_X)


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
