"""What pyx/isa.pyx offers to other extensions; here, where Cython looks for it."""
from simd.table cimport Simd

cdef const Simd *tables            # of the instruction set in use: for float, and for double
