"""Instruction sets: the tables of functions that this build has, and which of them are in use."""
from libc.stdint cimport int32_t

from simd.structs cimport small_size
from threads cimport Team, run_call, share_tasks

cdef enum:
    NUMBERS_AT_ONCE = 1 << 16      # numbers that a thread rounds or checks at a time   # R029


cdef extern from "isa.h":
    """
    #if !defined(__x86_64__) /* the other half of a file for both processors of macOS */
    #undef BUILT
    #define BUILT IS_BUILT(baseline)
    #endif
    #define IS_BUILT(set) extern const struct isa roicy_##set[2];
    BUILT
    #undef IS_BUILT
    #define IS_BUILT(set) {#set, roicy_##set},
    static const struct built { const char *name; const struct isa *tables; } built_tables[] = {
        BUILT
    };
    #define BUILT_COUNT (sizeof built_tables / sizeof *built_tables)
    """
    ctypedef struct BuiltTables "struct built":
        const char *name
        const Isa *tables

    const BuiltTables *built_tables
    Py_ssize_t BUILT_COUNT


def built():
    """The instruction sets that this build has tables of, best first."""
    cdef Py_ssize_t i
    return [built_tables[i].name.decode() for i in range(BUILT_COUNT)]


def use(str name):
    """Have calls from now on use an instruction set, which the processor must have."""
    global tables
    tables = built_tables[built().index(name)].tables


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
    int threads


cdef void narrow_some(const void *given, Py_ssize_t task, char *scratch) noexcept nogil:
    cdef const Narrowing *one = <const Narrowing*>given
    cdef Py_ssize_t first = task * NUMBERS_AT_ONCE
    tables.simd.narrow(one.values + first, one.dtype,
                       min(<Py_ssize_t>NUMBERS_AT_ONCE, one.count - first),
                       one.target + first * small_size(one.dtype))


cdef int worth_waking(Py_ssize_t count, int threads) noexcept nogil:
    return <int>max(min(<Py_ssize_t>threads, count // NUMBERS_AT_ONCE), <Py_ssize_t>1)


cdef Py_ssize_t shares_of(Py_ssize_t count) noexcept nogil:
    return (count + NUMBERS_AT_ONCE - 1) // NUMBERS_AT_ONCE


cdef int narrow_numbers(
        const float *values, char *target, int dtype, Py_ssize_t count, int threads,
        Team *team) noexcept nogil:
    """Set target to values, rounded to the nearest number of a type; ties go to the even one.

    Return -1 if a signal ends the call.
    """
    cdef Narrowing one
    one.values, one.target, one.dtype, one.count = values, target, dtype, count
    return share_tasks(&one, shares_of(count), worth_waking(count, threads), NULL, 0, narrow_some,
                       team)


# --- Indices

cdef struct Checking:
    const int32_t *indices
    Py_ssize_t count
    int32_t pixels
    int32_t *bad


cdef void check_some(const void *given, Py_ssize_t task, char *scratch) noexcept nogil:
    cdef const Checking *one = <const Checking*>given
    cdef Py_ssize_t first = task * NUMBERS_AT_ONCE
    if tables.simd.any_outside(one.indices + first,
                               min(<Py_ssize_t>NUMBERS_AT_ONCE, one.count - first), one.pixels):
        one.bad[0] = 1      # whoever writes it writes the same


cdef int check_indices(
        const int32_t *indices, Py_ssize_t count, Py_ssize_t pixels, int threads, Team *team,
        int32_t *bad) noexcept nogil:
    """Set `bad` if an index, of those that lie end to end, is neither -1 nor in [0, pixels).

    Return -1 if one is bad, or if a signal ends the call.
    """
    cdef Checking one
    one.indices, one.count, one.pixels, one.bad = indices, count, <int32_t>pixels, bad
    threads = worth_waking(count, threads)
    if share_tasks(&one, shares_of(count), threads, NULL, 0, check_some, team) < 0:
        return -1
    return -1 if bad[0] else 0


cdef int narrow_all(void *given, Team *team) noexcept nogil:
    cdef const Narrowing *one = <const Narrowing*>given
    return narrow_numbers(one.values, one.target, one.dtype, one.count, one.threads, team)


def narrow(const float[::1] values, unsigned char[::1] out, int dtype, int threads):
    """out = values, rounded to the nearest number of a type; ties go to the even one.

    out: the bytes of one or two a value; dtype: NumPy's character of the type.
    """
    cdef Narrowing one
    cdef Py_ssize_t count = values.shape[0]
    if out.shape[0] != count * small_size(dtype):
        raise ValueError(f"out: {out.shape[0]} bytes for {count} numbers")
    if count == 0:
        return
    one.values, one.target, one.dtype = &values[0], <char*>&out[0], dtype
    one.count, one.threads = count, threads
    run_call(narrow_all, &one, count)
