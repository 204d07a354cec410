"""What axis.h, load.h, yuv.h, rows.h, store.h and warp.h offer to crops; they say what it is."""
from libc.stdint cimport int16_t, int32_t, uint8_t

from images.rows cimport Source, Span, Sums

cdef extern from "images/store.h":
    enum: BYTE
    enum: CROP_ROWS
    enum: CROP_COLUMNS
    enum: CROP_RUN
    enum: CROP_TRIANGLES
    enum: CROP_YUV

    ctypedef struct Axis "struct crop_axis":
        int32_t bin_low
        int32_t bin_stop
        int32_t low
        int32_t stop
        double step
        double half
        bint repeats

    ctypedef struct Pixels "struct crop_pixels":
        int channels
        Py_ssize_t *place
        float *scale
        float *bias
        float *pad

    ctypedef struct Target "struct crop_target":
        Py_ssize_t stride_y
        Py_ssize_t stride_x
        Py_ssize_t stride_c
        int channels
        int kind
        int itemsize
        int zero
        int flip
        bint interleaved

    void crop_axis_set(Axis *axis, double low, double high, int rule) noexcept nogil
    void crop_axis_limit(Axis *axis, double first, double second) noexcept nogil
    double crop_within(double v, double low, double high) noexcept nogil
    double crop_axis_hull(const Axis *axis, int32_t *low, int32_t *stop) noexcept nogil
    Span crop_span_of(const Axis *axis, int32_t p) noexcept nogil
    void crop_complete(
        const Sums *to, int count, const Span *spans, const Span *rows,
        const Pixels *pixels) noexcept nogil
    void crop_store(
        const float *sums, int rows, int count, char *to, const Target *target) noexcept nogil


cdef extern from "images/yuv.h":
    enum: YUV_SPARE

    ctypedef struct Yuv "struct crop_yuv":
        int shared
        bint wide
        int16_t luma
        int16_t *bias
        int16_t *from_u
        int16_t *from_v

    void crop_convert(
        const Source *source, Py_ssize_t y, Py_ssize_t x, Py_ssize_t count,
        uint8_t *to) noexcept nogil


cdef extern from "images/warp.h":
    ctypedef struct Warp "struct warp":
        pass

    void warp_hull(
        const Warp *warp, const Source *source, int32_t *low, int32_t *stop) noexcept nogil
    void warp_set(
        Warp *warp, const double *m, const int32_t *shown, int rule, bint repeats,
        const Pixels *pixels) noexcept nogil
    void warp_pixels(
        const Source *source, const Warp *warp, const Target *target, int32_t p, int32_t width,
        char *row) noexcept nogil
