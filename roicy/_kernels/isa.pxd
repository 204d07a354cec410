"""What pyx/isa.pyx offers to other extensions; here, where Cython looks for it."""
from libc.stdint cimport int32_t

from simd.table cimport Simd
from threads cimport Team

cdef const Simd *tables            # of the instruction set in use: for float, and for double

cdef void narrow_numbers(
    const float *values, char *target, int dtype, Py_ssize_t count, int threads,
    const Team *team) noexcept nogil
cdef bint any_outside(
    const int32_t *indices, Py_ssize_t count, Py_ssize_t pixels, int threads,
    const Team *team) noexcept nogil
