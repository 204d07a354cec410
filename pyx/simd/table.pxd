"""What table.h offers to Cython: the table of functions of an instruction set.

The headers named here say what each function does.  What `void` points to is of the type of the
table, float or double.
"""
from libc.stdint cimport int32_t

from simd.structs cimport (Lines, Pixels, PlaneRows, Samples, SlopeTaps, Source, Stream, Strides,
                           Strip, Sums, Taps, Target, Tile, Vectors, View, Window, Winners)

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
            Tile *tile, void *memory, const Window *window, View *view) noexcept nogil
        void (*load_slots)(
            const Tile *tile, const int32_t *pixel, const Window *slots, void *to) noexcept nogil
        void (*load_bins)(
            const Tile *tile, Py_ssize_t channel, Py_ssize_t bin_stride, int bins,
            void *to) noexcept nogil
        void (*store_bins)(
            const Tile *tile, Py_ssize_t channel, Py_ssize_t bin_stride, int bins,
            const void *source) noexcept nogil
        void (*unpack)(
            const void *source, Py_ssize_t rows, Py_ssize_t columns, void *to,
            const Target *target) noexcept nogil
        void (*put_pixels)(
            const void *source, Py_ssize_t count, Py_ssize_t width, void *to, Py_ssize_t stride,
            int store) noexcept nogil
        void (*clear)(
            void *to, const Strides *strides, Py_ssize_t channels, Py_ssize_t rows,
            Py_ssize_t columns) noexcept nogil

        # contract.inc.h
        void (*contract_axis)(
            void *to, Py_ssize_t to_stride, const Vectors *source, const Taps *taps,
            bint add) noexcept nogil
        void (*contract_bins)(
            void *to, Py_ssize_t bin_stride, Py_ssize_t to_stride, const Vectors *source, int bins,
            const Taps *taps) noexcept nogil
        void (*contract_bin)(
            void *to, void *strip, const void *source, Py_ssize_t row, Py_ssize_t column,
            Py_ssize_t columns, const Taps *y, const Taps *x) noexcept nogil

        # accumulate.inc.h
        void (*accumulate_bin)(
            void *to, Py_ssize_t row, Py_ssize_t column, const void *gradient, const Taps *y,
            const Taps *x) noexcept nogil
        void (*accumulate_pixels)(
            void *to, Py_ssize_t pixel_stride, Py_ssize_t to_stride, const Vectors *source,
            Py_ssize_t pixels, const int32_t *pixel, const Taps *taps) noexcept nogil

        # correlate.inc.h
        void (*add_slopes)(
            void *sums, const void *by, Py_ssize_t by_stride, const Pixels *source,
            const SlopeTaps *taps, const int32_t *y, const int32_t *x) noexcept nogil

        # maximum.inc.h
        void (*keep_largest)(
            void *to, Py_ssize_t to_stride, const Vectors *source, Py_ssize_t taps) noexcept nogil
        void (*search_pixels)(
            void *best, int32_t *best_at, const Pixels *pixels, Py_ssize_t rows,
            Py_ssize_t columns, int32_t index, Py_ssize_t width) noexcept nogil

        # samples.inc.h
        void (*weigh)(
            void *weights, const void *fraction_y, const void *fraction_x) noexcept nogil
        void (*keep_samples)(
            void *best, const void *row, const void *next_row, Py_ssize_t stride,
            const Samples *samples, const void *fraction_y) noexcept nogil
        void (*keep_winners)(
            void *best, int32_t *at, const void *const *corners, const void *weights,
            int32_t place, bint products) noexcept nogil
        void (*end_row)(
            int32_t *at, int32_t *rows, int32_t *places, int32_t row) noexcept nogil

        # numbers.inc.h
        void (*sum_numbers)(
            void *to, Py_ssize_t to_stride, const Pixels *planes, const Taps *y, const Taps *x,
            bint x_first) noexcept nogil
        void (*sum_rows)(
            void *to, const void *source, Py_ssize_t row, Py_ssize_t column, Py_ssize_t columns,
            const Taps *taps) noexcept nogil
        void (*add_numbers)(
            void *to, Py_ssize_t column, const void *source, Py_ssize_t pixels,
            const int32_t *pixel, const Taps *bins) noexcept nogil

        # rows.inc.h
        void (*sum_strip)(
            const Source *source, const Lines *lines, int rows, const Strip *strip) noexcept nogil
        void (*sum_strip_columns)(
            const Strip *strip, const Lines *lines, int count, const Sums *to) noexcept nogil
        # scatter.inc.h
        bint (*any_outside)(
            const int32_t *index, Py_ssize_t count, int32_t pixels) noexcept nogil
        bint (*add_winners)(
            void *plane, Py_ssize_t line_stride, Py_ssize_t stride, Py_ssize_t pixel_stride,
            const Winners *winners, const PlaneRows *rows) noexcept nogil

        # sparse.inc.h
        void (*contract_sparse)(
            void *to, Py_ssize_t to_stride, const void *source, Py_ssize_t row, Py_ssize_t column,
            int bins, const Taps *taps, bint add) noexcept nogil
        void (*contract_sparse_pixels)(
            void *to, Py_ssize_t to_stride, const void *source, Py_ssize_t row, Py_ssize_t column,
            int bins, const Taps *taps, Py_ssize_t vectors) noexcept nogil
        void (*accumulate_sparse)(
            void *to, Py_ssize_t row, Py_ssize_t column, const void *source, Py_ssize_t vectors,
            const Taps *taps, const Py_ssize_t *window) noexcept nogil
        void (*add_sparse_slopes)(
            void *sums, const void *by, Py_ssize_t by_stride, const Pixels *source,
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

    void stream_some(const Simd *simd, Stream *run) noexcept nogil
    void stream_rest(const Simd *simd, Stream *run) noexcept nogil
