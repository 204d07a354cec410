"""Arrays that lie end to end: numbers are rounded to small types, and indices are checked."""
from libc.stdint cimport int32_t

from simd.structs cimport small_size
from simd.table cimport Simd
from threads cimport Team, WorkFunction, share_tasks

cdef enum:
    NUMBERS_AT_ONCE = 1 << 16      # numbers that a thread rounds or checks at a time   # R029


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
