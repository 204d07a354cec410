"""Results that no task writes: zeros of levels without work, and numbers of small types.

Indices that a caller gave are looked at in the same way as numbers are rounded, end to end.
"""
from libc.stdint cimport int32_t
from libc.string cimport memset

from plan.facts cimport has_no_work
from plan.structs cimport GRAD_BOXES, MAX_SAMPLE_GRAD, Call, LevelJob, writes_maps
from simd.structs cimport Strides, small_size
from simd.table cimport Simd
from threads cimport Team, WorkFunction, share_tasks

cdef enum:
    NUMBERS_AT_ONCE = 1 << 16      # numbers that a thread rounds or checks at a time   # R029


# --- Levels without work

cdef inline void fill(
        char *start, const Py_ssize_t *extents, Strides strides, Py_ssize_t size,
        int value) noexcept nogil:
    """Set all bytes of an array of four axes.  strides: in elements."""
    cdef Py_ssize_t count = extents[0] * extents[1] * extents[2] * extents[3], n, c, y, x
    cdef bint ascends = (strides.image > 0 and strides.channel > 0 and strides.y > 0
                         and strides.x > 0)
    cdef char *row
    if count > 0 and ascends and count == (
            1 + (extents[0] - 1) * strides.image + (extents[1] - 1) * strides.channel
            + (extents[2] - 1) * strides.y + (extents[3] - 1) * strides.x):
        memset(start, value, count * size)      # in whatever order, elements have no gaps
        return
    for n in range(extents[0]):
        for c in range(extents[1]):
            for y in range(extents[2]):
                row = start + (n * strides.image + c * strides.channel + y * strides.y) * size
                for x in range(extents[3]):
                    memset(row + x * strides.x * size, value, size)


cdef inline void clear_rows(const LevelJob *job) noexcept nogil:
    """Set the outputs of the boxes of a level to 0, and their argmax to -1."""
    cdef Py_ssize_t[4] extents = [1, job.call.channels, job.call.ph, job.call.pw]
    cdef Py_ssize_t i, k
    for i in range(job.order.count):
        k = job.order.boxes[i]
        fill(<char*>job.call.result + k * job.call.out_strides.image * job.call.itemsize, extents,
             job.call.out_strides, job.call.itemsize, 0)
        if job.maxima.argmax != NULL:
            fill(<char*>(job.maxima.argmax + k * job.maxima.argmax_strides.image), extents,
                 job.maxima.argmax_strides, sizeof(int32_t), 255)


cdef inline void clear_map(const LevelJob *job) noexcept nogil:
    """Set the gradient of a map to 0."""
    cdef Py_ssize_t[4] extents = [
        job.map.images, job.call.input_channels, job.map.rows, job.map.columns]
    if job.call.purpose == MAX_SAMPLE_GRAD:
        fill(<char*>job.maxima.grad_input, extents, job.maxima.grad_strides, job.call.itemsize, 0)
    else:
        fill(job.map.data, extents, job.map.strides, job.map.itemsize, 0)


cdef inline void clear_empty_levels(const Call *call) noexcept nogil:
    """Write the results of levels without work."""
    cdef Py_ssize_t level
    for level in range(call.levels if call.purpose != GRAD_BOXES else 0):
        if has_no_work(&call.jobs[level]):
            if writes_maps(call.purpose):
                clear_map(&call.jobs[level])
            else:
                clear_rows(&call.jobs[level])


# --- Numbers and indices that lie end to end

cdef struct Flat:                  # numbers that are rounded, or indices that are checked
    const Simd *simd
    Py_ssize_t count
    int threads
    const float *values
    char *target
    int dtype                      # of target: NumPy's character
    const int32_t *indices
    int32_t pixels
    int32_t *bad


cdef inline Py_ssize_t share(const Flat *one, Py_ssize_t task) noexcept nogil:
    """How many numbers a task has."""
    return min(<Py_ssize_t>NUMBERS_AT_ONCE, one.count - task * NUMBERS_AT_ONCE)


cdef inline void narrow_some(const void *given, Py_ssize_t task, char *scratch) noexcept nogil:
    """Round values to the nearest; ties go to the even one."""
    cdef const Flat *one = <const Flat*>given
    cdef Py_ssize_t first = task * NUMBERS_AT_ONCE
    one.simd.narrow(one.values + first, one.dtype, share(one, task),
                    one.target + first * small_size(one.dtype))


cdef inline void check_some(const void *given, Py_ssize_t task, char *scratch) noexcept nogil:
    """Set `bad` if an index is neither -1 nor in [0, pixels)."""
    cdef const Flat *one = <const Flat*>given
    if one.simd.any_outside(one.indices + task * NUMBERS_AT_ONCE, share(one, task), one.pixels):
        one.bad[0] = 1             # whoever writes it writes the same


cdef inline int go_through(const Flat *one, WorkFunction work, Team *team) noexcept nogil:
    """Have some threads round or check all numbers; -1 if a signal ends the call."""
    cdef Py_ssize_t tasks = (one.count + NUMBERS_AT_ONCE - 1) // NUMBERS_AT_ONCE
    cdef int workers = <int>max(min(<Py_ssize_t>one.threads, one.count // NUMBERS_AT_ONCE),
                                <Py_ssize_t>1)
    return share_tasks(one, tasks, workers, NULL, 0, work, team)
