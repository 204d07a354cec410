"""What pyx/isa.pyx offers to other extensions; here, where Cython looks for it."""
from libc.stdint cimport int32_t

from simd.table cimport Simd
from threads cimport Team

cdef extern from "isa.h":
    ctypedef struct Isa "struct isa":
        const Simd *simd
        const void *images
        const void *attention
        const void *labels

cdef const Isa *tables             # of the instruction set in use: for float, and for double

cdef int narrow_numbers(
    const float *values, char *target, int dtype, Py_ssize_t count, int threads,
    Team *team) noexcept nogil
cdef int check_indices(
    const int32_t *indices, Py_ssize_t count, Py_ssize_t pixels, int threads, Team *team,
    int32_t *bad) noexcept nogil
