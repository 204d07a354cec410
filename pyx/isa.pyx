"""Instruction sets: the tables of functions that this build has, and which of them are in use."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t
from libc.string cimport memset

from simd.structs cimport small_size
from simd.table cimport Simd
from threads cimport Team, share_tasks, workers_of

cdef enum:
    NUMBERS_AT_ONCE = 1 << 16      # numbers that a thread rounds or checks at a time   # R029


cdef extern from *:
    """
    #include "simd/table.h"
    #define IS_BUILT(isa) extern const struct simd roicy_##isa[2];
    BUILT
    #undef IS_BUILT
    #define IS_BUILT(isa) {#isa, roicy_##isa},
    static const struct built { const char *name; const struct simd *tables; } built_tables[] = {
        BUILT
    };
    #define BUILT_COUNT (sizeof built_tables / sizeof *built_tables)
    """
    ctypedef struct BuiltTables "struct built":
        const char *name
        const Simd *tables

    const BuiltTables *built_tables
    Py_ssize_t BUILT_COUNT


cdef bint is_whole(const Simd *simd) noexcept:
    """Whether a table has all functions: a line that simd/isa.h lacks leaves a NULL."""
    cdef Py_ssize_t i
    for i in range(<Py_ssize_t>(sizeof(Simd) // sizeof(void*))):
        if (<const void *const *>simd)[i] == NULL:
            return False
    return True


def built():
    """The instruction sets that this build has tables of, best first."""
    cdef Py_ssize_t i
    return [built_tables[i].name.decode() for i in range(BUILT_COUNT)]


def use(str name):
    """Have calls from now on use an instruction set, which the processor must have."""
    global tables
    tables = built_tables[built().index(name)].tables
    assert is_whole(tables) and is_whole(tables + 1)


def in_use():
    """The instruction set that calls use."""
    cdef Py_ssize_t i
    for i in range(BUILT_COUNT):
        if built_tables[i].tables == tables:
            return built_tables[i].name.decode()


# --- Rounding

cdef struct Narrowing:
    const float *values
    char *target
    int dtype
    Py_ssize_t count


cdef void narrow_some(const void *given, Py_ssize_t task, int worker) noexcept nogil:
    cdef const Narrowing *one = <const Narrowing*>given
    cdef Py_ssize_t first = task * NUMBERS_AT_ONCE
    tables.narrow(one.values + first, one.dtype, min(<Py_ssize_t>NUMBERS_AT_ONCE, one.count - first),
                  one.target + first * small_size(one.dtype))


cdef int worth_waking(Py_ssize_t count, int threads) noexcept nogil:
    return <int>max(min(<Py_ssize_t>threads, count // NUMBERS_AT_ONCE), <Py_ssize_t>1)


cdef Py_ssize_t shares_of(Py_ssize_t count) noexcept nogil:
    return (count + NUMBERS_AT_ONCE - 1) // NUMBERS_AT_ONCE


cdef void narrow_numbers(
        const float *values, char *target, int dtype, Py_ssize_t count, int threads,
        const Team *team) noexcept nogil:
    """Set target to values, rounded to the nearest number of a type; ties go to the even one."""
    cdef Narrowing one
    one.values, one.target, one.dtype, one.count = values, target, dtype, count
    threads = worth_waking(count, threads)
    share_tasks(&one, shares_of(count), workers_of(threads, team), narrow_some, team)


# --- Indices

cdef struct Checking:
    const int32_t *indices
    Py_ssize_t count
    int32_t pixels
    int32_t *bad


cdef void check_some(const void *given, Py_ssize_t task, int worker) noexcept nogil:
    cdef const Checking *one = <const Checking*>given
    cdef Py_ssize_t first = task * NUMBERS_AT_ONCE
    if tables.any_outside(one.indices + first, min(<Py_ssize_t>NUMBERS_AT_ONCE, one.count - first),
                          one.pixels):
        one.bad[worker] = 1


cdef bint any_outside(
        const int32_t *indices, Py_ssize_t count, Py_ssize_t pixels, int threads,
        const Team *team) noexcept nogil:
    """Whether one of the indices, which lie end to end, is neither -1 nor in [0, pixels)."""
    cdef Checking one
    cdef int32_t[1024] bad         # of each worker; roicy/_threads.py allows no more
    cdef int i
    one.indices, one.count, one.pixels, one.bad = indices, count, <int32_t>pixels, bad
    threads = worth_waking(count, threads)
    threads = workers_of(threads, team)
    memset(bad, 0, threads * sizeof(int32_t))
    share_tasks(&one, shares_of(count), threads, check_some, team)
    for i in range(threads):
        if bad[i]:
            return True
    return False


def narrow(const float[::1] values, out, int dtype, int threads):
    """out = values, rounded to the nearest number of a type; ties go to the even one.

    out: C-contiguous, one or two bytes for each value; dtype: NumPy's character of the type.
    """
    cdef Py_buffer target
    PyObject_GetBuffer(out, &target, PyBUF_SIMPLE | PyBUF_WRITABLE)
    try:
        if target.len != values.shape[0] * small_size(dtype):
            raise ValueError(f"out: {target.len} bytes for {values.shape[0]} numbers")
        if values.shape[0] > 0:
            narrow_numbers(&values[0], <char*>target.buf, dtype, values.shape[0], threads, NULL)
    finally:
        PyBuffer_Release(&target)
