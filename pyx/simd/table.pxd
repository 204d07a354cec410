"""What table.h offers to Cython: the table of functions of an instruction set.

The headers named here say what each function does.  What `void` points to is of the type of the
table, float or double.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from attention.structs cimport Attention, Part
from images.structs cimport (Axis, CropPixels, CropTarget, Lines, MaskLines, Masks, ResizeAxis,
                             ResizeBlock, ResizeTarget, Source, Span, Strip, Sums, Warp)
from labels.structs cimport Labels, LabelsAxis, LabelsPart
from simd.structs cimport (Pixels, PlaneRows, Samples, SlopeTaps, Stream, Strides, Taps, Target,
                           Tile, Vectors, View, Window, Winners)

cdef extern from "simd/table.h":
    ctypedef struct Simd "struct simd":
        # tile.inc.h
        void (*pack)(
            const void *source, const Strides *strides, int lanes, Py_ssize_t rows,
            Py_ssize_t columns, void *to) noexcept nogil
        void (*read_pixels)(
            const Tile *tile, Py_ssize_t y, Py_ssize_t x, Py_ssize_t rows, Py_ssize_t columns,
            void *to) noexcept nogil
        const void *(*load_rows)(
            Tile *tile, void *memory, const Window *window, View *steps) noexcept nogil
        void (*load_slots)(
            const Tile *tile, const int32_t *pixel, const Window *slots, void *to) noexcept nogil
        void (*load_bins)(
            const Tile *tile, Py_ssize_t channel, Py_ssize_t bin_step, int bins,
            void *to) noexcept nogil
        void (*store_bins)(
            const Tile *tile, Py_ssize_t channel, Py_ssize_t bin_step, int bins,
            const void *source) noexcept nogil
        void (*unpack)(
            const void *source, Py_ssize_t rows, Py_ssize_t columns, void *to,
            const Target *target) noexcept nogil
        void (*put_pixels)(
            const void *source, Py_ssize_t count, Py_ssize_t width, void *to, Py_ssize_t step,
            int store) noexcept nogil
        void (*clear)(
            void *to, const Strides *strides, Py_ssize_t channels, Py_ssize_t rows,
            Py_ssize_t columns) noexcept nogil

        # contract.inc.h
        void (*contract_axis)(
            void *to, Py_ssize_t to_step, const Vectors *source, const Taps *taps,
            bint add) noexcept nogil
        void (*contract_bins)(
            void *to, Py_ssize_t bin_step, Py_ssize_t to_step, const Vectors *source, int bins,
            const Taps *taps) noexcept nogil
        void (*contract_bin)(
            void *to, void *strip, const void *source, Py_ssize_t row, Py_ssize_t column,
            Py_ssize_t columns, const Taps *y, const Taps *x) noexcept nogil

        # accumulate.inc.h
        void (*accumulate_bin)(
            void *to, Py_ssize_t row, Py_ssize_t column, const void *gradient, const Taps *y,
            const Taps *x) noexcept nogil
        void (*accumulate_pixels)(
            void *to, Py_ssize_t pixel_step, Py_ssize_t to_step, const Vectors *source,
            Py_ssize_t pixels, const int32_t *pixel, const Taps *taps) noexcept nogil

        # correlate.inc.h
        void (*add_slopes)(
            void *sums, const void *by, Py_ssize_t by_step, const Pixels *source,
            const SlopeTaps *taps, const int32_t *y, const int32_t *x) noexcept nogil

        # maximum.inc.h
        void (*keep_largest)(
            void *to, Py_ssize_t to_step, const Vectors *source, Py_ssize_t taps) noexcept nogil
        void (*search_pixels)(
            void *best, int32_t *best_at, const Pixels *pixels, Py_ssize_t rows,
            Py_ssize_t columns, int32_t index, Py_ssize_t width) noexcept nogil

        # samples.inc.h
        void (*weigh)(
            void *weights, const void *fraction_y, const void *fraction_x) noexcept nogil
        void (*keep_samples)(
            void *best, const void *row, const void *next_row, Py_ssize_t step,
            const Samples *samples, const void *fraction_y) noexcept nogil
        void (*keep_winners)(
            void *best, int32_t *at, const void *const *corners, const void *weights,
            int32_t place, bint products) noexcept nogil
        void (*end_row)(
            int32_t *at, int32_t *rows, int32_t *places, int32_t row) noexcept nogil

        # numbers.inc.h
        void (*sum_numbers)(
            void *to, Py_ssize_t to_step, const Pixels *planes, const Taps *y, const Taps *x,
            bint x_first) noexcept nogil
        void (*sum_rows)(
            void *to, const void *source, Py_ssize_t row, Py_ssize_t column, Py_ssize_t columns,
            const Taps *taps) noexcept nogil
        void (*add_numbers)(
            void *to, Py_ssize_t column, const void *source, Py_ssize_t pixels,
            const int32_t *pixel, const Taps *bins) noexcept nogil

        # scatter.inc.h
        bint (*any_outside)(
            const int32_t *index, Py_ssize_t count, int32_t pixels) noexcept nogil
        bint (*add_winners)(
            void *plane, Py_ssize_t line_step, Py_ssize_t step, Py_ssize_t pixel_step,
            const Winners *winners, const PlaneRows *rows) noexcept nogil

        # sparse.inc.h
        void (*contract_sparse)(
            void *to, Py_ssize_t to_step, const void *source, Py_ssize_t row, Py_ssize_t column,
            int bins, const Taps *taps, bint add) noexcept nogil
        void (*contract_sparse_pixels)(
            void *to, Py_ssize_t to_step, const void *source, Py_ssize_t row, Py_ssize_t column,
            int bins, const Taps *taps, Py_ssize_t vectors) noexcept nogil
        void (*accumulate_sparse)(
            void *to, Py_ssize_t row, Py_ssize_t column, const void *source, Py_ssize_t vectors,
            const Taps *taps, const Py_ssize_t *window) noexcept nogil
        void (*add_sparse_slopes)(
            void *sums, const void *by, Py_ssize_t by_step, const Pixels *source,
            const SlopeTaps *taps, const int32_t *span, int slopes) noexcept nogil

        # convert.h
        void (*narrow)(const float *start, int dtype, Py_ssize_t count, char *to) noexcept nogil
        void (*copy_runs)(
            const char *start, Py_ssize_t row, Py_ssize_t column, Py_ssize_t rows,
            Py_ssize_t columns, size_t run, char *to) noexcept nogil
        void (*widen_runs)(
            const char *start, int dtype, Py_ssize_t row, Py_ssize_t column, Py_ssize_t rows,
            Py_ssize_t columns, Py_ssize_t run, float *to) noexcept nogil

        # vector.h
        void (*stream_copy)(void *to, const void *start, size_t bytes) noexcept nogil
        void (*stream_clear)(void *to, size_t bytes) noexcept nogil

        # images/
        void (*sum_strip)(
            const Source *source, const Lines *lines, int rows, const Strip *strip) noexcept nogil
        void (*sum_strip_columns)(
            const Strip *strip, const Lines *lines, int count, const Sums *to) noexcept nogil
        void (*crop_complete)(
            const Sums *to, int count, const Span *spans, const Span *rows,
            const CropPixels *pixels) noexcept nogil
        void (*crop_store)(
            const float *sums, int rows, int count, char *to,
            const CropTarget *target) noexcept nogil
        void (*crop_spans)(
            const Axis *axis, int32_t first, int count, Span *spans) noexcept nogil
        void (*crop_convert)(
            const Source *source, Py_ssize_t y, Py_ssize_t x, Py_ssize_t count,
            uint8_t *to) noexcept nogil
        void (*warp_set)(
            Warp *warp, const double *m, const int32_t *shown, int rule, bint repeats,
            const CropPixels *pixels) noexcept nogil
        void (*warp_hull)(
            const Warp *warp, const Source *source, int32_t *low, int32_t *stop) noexcept nogil
        void (*warp_pixels)(
            const Source *source, const Warp *warp, const CropTarget *target, int32_t p,
            int32_t width, char *row) noexcept nogil
        void (*resize_line)(
            const ResizeAxis *axis, int i, const uint8_t *start, Py_ssize_t step, Py_ssize_t count,
            uint8_t *to) noexcept nogil
        void (*resize_columns)(
            const ResizeAxis *axis, int first, int stop, int pitch, int channels, int rows,
            const uint8_t *lines, uint8_t *to) noexcept nogil
        void (*resize_to_lines)(
            const uint8_t *start, Py_ssize_t step, int rows, int columns,
            uint8_t *to) noexcept nogil
        void (*resize_to_rows)(
            const uint8_t *start, int lines, int rows, uint8_t *to, Py_ssize_t step) noexcept nogil
        void (*resize_store)(
            const ResizeTarget *target, const ResizeBlock *block, char *out) noexcept nogil
        void (*mask_open)(MaskLines *lines, const Masks *masks, Py_ssize_t k) noexcept nogil
        void (*mask_mix)(
            MaskLines *lines, const Masks *masks, Py_ssize_t k, const int64_t (*pixels)[2],
            void *memory) noexcept nogil
        void (*mask_begin)(MaskLines *lines, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
        const void *(*mask_line)(MaskLines *lines, Py_ssize_t line) noexcept nogil

        # attention/
        void (*attend)(const Attention *call, const Part *part) noexcept nogil
        void (*attend_slopes)(const Attention *call, const Part *part) noexcept nogil
        void (*attend_value)(const Attention *call, const Part *part) noexcept nogil

        # labels/
        void (*labels_axis)(LabelsAxis *axis) noexcept nogil
        void (*label_pixels)(
            const Labels *job, const LabelsPart *part, void *memory) noexcept nogil

    void stream_some(const Simd *simd, Stream *run) noexcept nogil
    void stream_rest(const Simd *simd, Stream *run) noexcept nogil
