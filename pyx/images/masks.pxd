"""What masks.h offers to Cython; the headers say what each function does."""
from libc.stdint cimport int32_t, int64_t, uint8_t

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

    # paste.inc.h

    # const MaskAxis *axis, first, count, const MaskTaps *taps, const real *_: chooses the type
    void resized_taps(...) noexcept nogil
    void sampled_taps(...) noexcept nogil
    # real *to, const real *from, const MaskTaps *taps, count
    void blend_taps(...) noexcept nogil
    # real *to, const real *low, const real *high, real low_weight, real high_weight, count
    void blend_rows(...) noexcept nogil
    # real *low, real *high, const real *from, const MaskTaps *taps, count
    void pick_taps(...) noexcept nogil
    # real *to, const MaskCorner *corners, count
    void blend_corners(...) noexcept nogil
    void blend_twice(...) noexcept nogil
    # uint8_t *to, const real *values, real threshold, count
    void reach(uint8_t *to, ...) noexcept nogil
    # uint8_t *to, const real *values, count
    void to_bytes(uint8_t *to, ...) noexcept nogil

    # runs.h

    void runs_add(Runs *runs, int value, int64_t count) noexcept nogil
    void runs_add_pixels(Runs *runs, const uint8_t *pixels, Py_ssize_t count) noexcept nogil
    void runs_end(Runs *runs) noexcept nogil
