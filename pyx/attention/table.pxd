"""What table.h offers to Cython: the functions of this room that instruction sets have."""
from attention.structs cimport Attention, Part

cdef extern from "attention/table.h":
    ctypedef struct AttentionTable "struct attention_table":
        void (*attend)(const Attention *call, const Part *part) noexcept nogil
        void (*attend_slopes)(const Attention *call, const Part *part) noexcept nogil
        void (*attend_value)(const Attention *call, const Part *part) noexcept nogil
