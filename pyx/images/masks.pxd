"""What masks.h and runs.h offer to Cython; they say what each function does."""
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "images/masks.h":
    enum: REACHED

    ctypedef struct Place "struct mask_place":
        int64_t y0
        int64_t y1
        int64_t x0
        int64_t x1

    ctypedef struct Masks "struct masks":
        const void *numbers
        const Place *places
        const double *corners
        int32_t *extent
        bint single
        bint along_y
        int rule
        int values
        double threshold

    ctypedef struct MaskLines "struct mask_lines":
        Py_ssize_t count

    ctypedef struct Runs "struct runs":
        char *text
        size_t used
        bint lacks_memory

    void mask_open(MaskLines *lines, const Masks *masks, Py_ssize_t k) noexcept nogil
    void mask_begin(MaskLines *lines, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
    const void *mask_line(MaskLines *lines, Py_ssize_t line) noexcept nogil
    void runs_add(Runs *runs, int value, int64_t count) noexcept nogil
    void runs_add_pixels(Runs *runs, const uint8_t *pixels, Py_ssize_t count) noexcept nogil
    void runs_end(Runs *runs) noexcept nogil
