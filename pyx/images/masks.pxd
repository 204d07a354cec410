"""What masks.h offers to Cython; the headers say what each function does."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from simd.simd cimport real

cdef extern from "images/masks.h":
    ctypedef struct MaskAxis "struct mask_axis":
        int64_t origin
        int64_t size
        double start
        double stop
        int32_t extent
        bint infinite_is_middle

    ctypedef struct MaskTaps "struct mask_taps":
        int32_t *low
        int32_t *high
        void *low_weight
        void *high_weight

    ctypedef struct MaskCorner "struct mask_corner":
        const void *values
        const void *weights
        double weight

    ctypedef struct Runs "struct runs":
        char *text
        size_t used
        bint lacks_memory

    # paste.inc.h; `like` only chooses the type

    void resized_taps "TYPED(resized_taps)"(
        const MaskAxis *axis, Py_ssize_t first, Py_ssize_t count, const MaskTaps *taps,
        const real *like) noexcept nogil
    void sampled_taps "TYPED(sampled_taps)"(
        const MaskAxis *axis, Py_ssize_t first, Py_ssize_t count, const MaskTaps *taps,
        const real *like) noexcept nogil
    void blend_taps "TYPED(blend_taps)"(
        real *to, const real *source, const MaskTaps *taps, Py_ssize_t count) noexcept nogil
    void blend_rows "TYPED(blend_rows)"(
        real *to, const real *low, const real *high, real low_weight, real high_weight,
        Py_ssize_t count) noexcept nogil
    void pick_taps "TYPED(pick_taps)"(
        real *low, real *high, const real *source, const MaskTaps *taps,
        Py_ssize_t count) noexcept nogil
    void blend_corners "TYPED(blend_corners)"(
        real *to, const MaskCorner *corners, Py_ssize_t count) noexcept nogil
    void blend_twice "TYPED(blend_twice)"(
        real *to, const MaskCorner *corners, Py_ssize_t count) noexcept nogil
    void reach "TYPED(reach)"(
        uint8_t *to, const real *values, real threshold, Py_ssize_t count) noexcept nogil
    void to_bytes "TYPED(to_bytes)"(
        uint8_t *to, const real *values, Py_ssize_t count) noexcept nogil

    # runs.h

    void runs_add(Runs *runs, int value, int64_t count) noexcept nogil
    void runs_add_pixels(Runs *runs, const uint8_t *pixels, Py_ssize_t count) noexcept nogil
    void runs_end(Runs *runs) noexcept nogil
