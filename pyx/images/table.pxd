"""What table.h offers to Cython: the functions of this room that instruction sets have."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from images.structs cimport (Axis, CropPixels, CropTarget, Frame, MaskLines, Masks, ResizeAxis,
                             ResizeBlock, ResizeTarget, Warp)
from simd.structs cimport Interval, Sums

cdef extern from "images/table.h":
    ctypedef struct ImageTable "struct image_table":
        void (*crop_complete)(
            const Sums *to, int count, const Interval *columns, const Interval *rows,
            const CropPixels *pixels) noexcept nogil
        void (*crop_store)(
            const float *sums, int rows, int count, char *to,
            const CropTarget *target) noexcept nogil
        void (*crop_intervals)(
            const Axis *axis, int32_t first, int count, Interval *intervals) noexcept nogil
        void (*crop_convert)(
            const Frame *frame, Py_ssize_t y, Py_ssize_t x, Py_ssize_t count,
            uint8_t *to) noexcept nogil
        void (*warp_set)(
            Warp *warp, const double *m, const int32_t *shown, int rule, bint repeats,
            const CropPixels *pixels) noexcept nogil
        void (*warp_hull)(
            const Warp *warp, const Frame *frame, int32_t *low, int32_t *stop) noexcept nogil
        void (*warp_pixels)(
            const Frame *frame, const Warp *warp, const CropTarget *target, int32_t p,
            int32_t width, char *row) noexcept nogil
        void (*resize_line)(
            const ResizeAxis *axis, int i, const uint8_t *start, Py_ssize_t stride,
            Py_ssize_t count, uint8_t *to) noexcept nogil
        void (*resize_columns)(
            const ResizeAxis *axis, int first, int stop, int pitch, int channels, int rows,
            const uint8_t *lines, uint8_t *to) noexcept nogil
        void (*resize_to_lines)(
            const uint8_t *start, Py_ssize_t stride, int rows, int columns,
            uint8_t *to) noexcept nogil
        void (*resize_to_rows)(
            const uint8_t *start, int lines, int rows, uint8_t *to,
            Py_ssize_t stride) noexcept nogil
        void (*resize_store)(
            const ResizeTarget *target, const ResizeBlock *block, char *out) noexcept nogil
        void (*mask_open)(MaskLines *lines, const Masks *masks, Py_ssize_t k) noexcept nogil
        void (*mask_mix)(
            MaskLines *lines, const Masks *masks, Py_ssize_t k, const int64_t (*pixels)[2],
            void *memory) noexcept nogil
        void (*mask_begin)(MaskLines *lines, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
        const void *(*mask_line)(MaskLines *lines, Py_ssize_t line) noexcept nogil
