"""What pyx/isa.pyx offers to other extensions; here, where Cython looks for it."""
from simd.table cimport Simd

cdef extern from "isa.h":
    ctypedef struct Isa "struct isa":
        const Simd *simd
        const void *images
        const void *attention
        const void *labels

cdef const Isa *isa_tables         # of the instruction set in use: for float, and for double
