"""What rows.h offers to crops, and to roi_align of few channels; it says what functions do."""
from libc.stdint cimport int32_t

from simd.simd cimport Taps

cdef extern from "images/rows.h":
    enum: CROP_CHANNELS

    ctypedef struct Span "struct crop_span":
        int32_t low
        int32_t high
        float cover

    ctypedef struct Plane "struct crop_plane":
        const char *start
        Py_ssize_t stride_y
        Py_ssize_t stride_x

    ctypedef struct Source "struct crop_source":
        const char *start
        Py_ssize_t stride_y
        Py_ssize_t stride_x
        Py_ssize_t stride_c
        int32_t height
        int32_t width
        int channels
        int kind
        bint dense
        Plane *chroma
        const void *yuv

    ctypedef struct Lines "struct lines":
        const Span *spans
        bint triangles
        Py_ssize_t ahead
        Taps list

    ctypedef struct Strip "struct strip":
        void *sums
        Py_ssize_t low
        Py_ssize_t stop
        int channels
        int channel
        bint add

    ctypedef struct Sums "struct sums":
        void *sums
        Py_ssize_t step
        int first
        int channels
        Py_ssize_t *place
        float *scale
        float *bias

    void sum_strip_float(
        const Source *source, const Lines *lines, int rows, const Strip *strip) noexcept nogil
    void sum_strip_double(
        const Source *source, const Lines *lines, int rows, const Strip *strip) noexcept nogil
    void sum_strip_columns_float(
        const Strip *strip, const Lines *lines, int count, const Sums *to) noexcept nogil
    void sum_strip_columns_double(
        const Strip *strip, const Lines *lines, int count, const Sums *to) noexcept nogil
