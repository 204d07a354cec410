"""Instruction sets: the tables of functions that this build has, and which of them are in use."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cython.parallel cimport prange
from libc.stdint cimport int32_t

from roicy._kernels.machine cimport startable
from simd.structs cimport small_size
from simd.table cimport Simd

cdef enum:
    ROUND_NUMBERS = 1 << 16        # numbers that a thread rounds or checks at a time   # R029


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


cdef int narrow_all(
        const Py_buffer *source, const Py_buffer *target, int dtype, int threads) except -1:
    cdef Py_ssize_t i, count = source.len // <Py_ssize_t>sizeof(float), size = small_size(dtype)
    cdef const float *values = <const float*>source.buf
    cdef const Simd *simd = tables
    if target.len != count * size:
        raise ValueError(f"out: {target.len} bytes for {count} numbers")
    threads = startable(<int>min(<Py_ssize_t>threads, count // ROUND_NUMBERS))
    for i in prange(0, count, ROUND_NUMBERS, nogil=True, num_threads=threads, schedule="static"):
        simd.narrow(values + i, dtype, min(<Py_ssize_t>ROUND_NUMBERS, count - i),
                    <char*>target.buf + i * size)
    return 0


def narrow(values, out, int dtype, int threads):
    """out = values, rounded to the nearest number of a type; ties go to the even one.

    values: float32, and out: one or two bytes for each, both C-contiguous; dtype: NumPy's
    character of the type.
    """
    cdef Py_buffer source, target
    PyObject_GetBuffer(values, &source, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(out, &target, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            narrow_all(&source, &target, dtype, threads)
        finally:
            PyBuffer_Release(&target)
    finally:
        PyBuffer_Release(&source)


def outside(argmax, Py_ssize_t pixels, int threads):
    """Whether one of the indices, int32 that lie end to end, is neither -1 nor in [0, pixels)."""
    cdef Py_buffer view
    cdef const int32_t *index
    cdef Py_ssize_t i, count, some = ROUND_NUMBERS
    cdef int bad = 0
    cdef const Simd *simd = tables
    PyObject_GetBuffer(argmax, &view, PyBUF_SIMPLE)
    index, count = <const int32_t*>view.buf, view.len // <Py_ssize_t>sizeof(int32_t)
    threads = startable(threads)
    for i in prange(0, count, some, nogil=True, num_threads=threads, schedule="static"):
        bad += simd.any_outside(index + i, min(count - i, some), <int32_t>pixels)
    PyBuffer_Release(&view)
    return bad > 0
