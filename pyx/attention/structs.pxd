"""What structs.h offers to Cython; it says what it is."""
from libc.stdint cimport int32_t

cdef extern from "attention/structs.h":
    ctypedef struct Attention "struct attention":
        const void *value
        Py_ssize_t image, pixel, head
        const void *locations
        const void *weights
        const void *grad
        const void *zeros
        const void *scale_x
        const void *scale_y
        const int32_t *width
        const int32_t *height
        const int32_t *start
        Py_ssize_t pixels, queries, heads, points, channels
        double shift
        bint nearest, border
        void *out
        void *grad_value
        void *grad_locations
        void *grad_weights

    ctypedef struct Part "struct attention_part":
        Py_ssize_t image, head, first, stop, low, high

    ctypedef struct AttentionTable "struct attention_table":
        void (*attend)(const Attention *call, const Part *part) noexcept nogil
        void (*attend_slopes)(const Attention *call, const Part *part) noexcept nogil
        void (*attend_value)(const Attention *call, const Part *part) noexcept nogil
