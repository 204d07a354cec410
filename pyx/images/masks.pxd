"""What masks.h and runs.h offer to Cython; they say what each function does."""
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "images/masks.h":
    enum: TORCHVISION
    enum: REACHED

    ctypedef struct MaskAxis "struct mask_axis":
        int64_t origin
        int64_t size
        double start
        double stop
        int32_t extent

    ctypedef struct MaskTaps "struct mask_taps":
        int32_t *low
        int32_t *high
        void *low_weight
        void *high_weight

    ctypedef struct MaskLines "struct mask_lines":
        const void *mask
        bint single
        bint along_y
        bint corners
        int rule
        int values
        double threshold
        MaskAxis along
        MaskAxis across
        Py_ssize_t count
        MaskTaps taps
        void **low
        void **high
        void *pixels
        uint8_t *small

    ctypedef struct Runs "struct runs":
        char *text
        size_t used
        bint lacks_memory

    void mask_begin(MaskLines *lines, Py_ssize_t first, Py_ssize_t count) noexcept nogil
    const void *mask_line(MaskLines *lines, Py_ssize_t line) noexcept nogil
    void runs_add(Runs *runs, int value, int64_t count) noexcept nogil
    void runs_add_pixels(Runs *runs, const uint8_t *pixels, Py_ssize_t count) noexcept nogil
    void runs_end(Runs *runs) noexcept nogil
