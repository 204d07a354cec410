"""What simd.h offers to Cython.  The headers say what each function does.

A function that exists for float and for double is declared once, with the name TYPED(name).  Cython
puts a prefix for the type before that name, and simd.h makes it the name of one of the two.
"""
from libc.stdint cimport int32_t, uint32_t

ctypedef fused real:
    float
    double

cdef extern from "simd/simd.h":
    enum: LANE_BYTES
    enum: PAGE_BYTES
    enum: VECTOR_BYTES
    enum: FOLDED_BYTES

    ctypedef struct Taps "struct taps":
        const int32_t *spans
        const int32_t *pixel
        const void *weight

    ctypedef struct Vectors "struct vectors":
        const void *start
        Py_ssize_t step
        Py_ssize_t stride
        Py_ssize_t count

    ctypedef struct Pixels "struct pixels":
        const void *start
        Py_ssize_t step
        Py_ssize_t count
        Py_ssize_t stride_y
        Py_ssize_t stride_x

    ctypedef struct SlopeTaps "struct slope_taps":
        const int32_t *pixel
        const void *weight
        const void *slopes
        Py_ssize_t step

    ctypedef struct Winners "struct winners":
        const int32_t *at
        const void *values
        Py_ssize_t lines
        Py_ssize_t count
        Py_ssize_t step
        const int32_t *next_at
        const void *next_values

    ctypedef struct PlaneRows "struct plane_rows":
        uint32_t first
        uint32_t count
        uint32_t all

    ctypedef struct Stream "struct stream":
        size_t left

    # pack.inc.h

    void planes_to_lanes "TYPED(planes_to_lanes)"(
        const real *source, Py_ssize_t channel_step, int lanes, Py_ssize_t pixels,
        Py_ssize_t prefetch_step, real *to) noexcept nogil
    void lanes_to_planes "TYPED(lanes_to_planes)"(
        const real *source, Py_ssize_t pixels, int lanes, real *to, Py_ssize_t channel_step,
        bint streaming) noexcept nogil

    void copy_short "TYPED(copy_short)"(
        real *to, const real *source, Py_ssize_t count) noexcept nogil

    # contract.inc.h

    void add_product "TYPED(add_product)"(
        real *sums, real weight, const real *values) noexcept nogil
    void contract_axis "TYPED(contract_axis)"(
        real *to, Py_ssize_t to_step, const Vectors *source, const Taps *taps,
        bint add) noexcept nogil
    void contract_bins "TYPED(contract_bins)"(
        real *to, Py_ssize_t bin_step, Py_ssize_t to_step, const Vectors *source, int bins,
        const Taps *taps) noexcept nogil
    void contract_bin "TYPED(contract_bin)"(
        real *to, real *strip, const real *source, Py_ssize_t row, Py_ssize_t column,
        Py_ssize_t columns, const Taps *y, const Taps *x) noexcept nogil

    # accumulate.inc.h

    void accumulate_bin "TYPED(accumulate_bin)"(
        real *to, Py_ssize_t row, Py_ssize_t column, const real *gradient, const Taps *y,
        const Taps *x) noexcept nogil
    void accumulate_pixels "TYPED(accumulate_pixels)"(
        real *to, Py_ssize_t pixel_step, Py_ssize_t to_step, const Vectors *source,
        Py_ssize_t pixels, const int32_t *pixel, const Taps *taps) noexcept nogil

    # correlate.inc.h

    void add_slopes "TYPED(add_slopes)"(
        real *sums, const real *by, Py_ssize_t by_step, const Pixels *source, const SlopeTaps *taps,
        const int32_t *y, const int32_t *x) noexcept nogil

    # maximum.inc.h

    void keep_larger "TYPED(keep_larger)"(real *best, const real *values) noexcept nogil
    void keep_larger_at "TYPED(keep_larger_at)"(
        real *best, int32_t *at, const real *values, int32_t index) noexcept nogil
    void search_pixels "TYPED(search_pixels)"(
        real *best, int32_t *best_at, const Pixels *pixels, Py_ssize_t rows, Py_ssize_t columns,
        int32_t index, Py_ssize_t width) noexcept nogil

    # numbers.inc.h

    void sum_number "TYPED(sum_number)"(
        real *to, const real *plane, Py_ssize_t row, Py_ssize_t column, const Taps *y,
        const Taps *x) noexcept nogil
    void sum_rows "TYPED(sum_rows)"(
        real *to, const real *source, Py_ssize_t row, Py_ssize_t column, Py_ssize_t columns,
        const Taps *taps) noexcept nogil
    void add_numbers "TYPED(add_numbers)"(
        real *to, Py_ssize_t column, const real *source, Py_ssize_t pixels, const int32_t *pixel,
        const Taps *bins) noexcept nogil
    void add_number "TYPED(add_number)"(
        real *plane, Py_ssize_t row, Py_ssize_t column, real gradient, const Taps *y,
        const Taps *x) noexcept nogil

    # scatter.inc.h

    bint add_winners "TYPED(add_winners)"(
        real *plane, Py_ssize_t line_step, Py_ssize_t step, Py_ssize_t pixel_step,
        const Winners *winners, const PlaneRows *rows) noexcept nogil

    # sparse.inc.h

    void contract_sparse "TYPED(contract_sparse)"(
        real *to, Py_ssize_t to_step, const real *source, Py_ssize_t row, Py_ssize_t column,
        int bins, const Taps *taps, bint add) noexcept nogil
    void contract_sparse_pixels "TYPED(contract_sparse_pixels)"(
        real *to, Py_ssize_t to_step, const real *source, Py_ssize_t row, Py_ssize_t column,
        int bins, const Taps *taps, Py_ssize_t vectors) noexcept nogil
    void accumulate_sparse "TYPED(accumulate_sparse)"(
        real *to, Py_ssize_t row, Py_ssize_t column, const real *source, Py_ssize_t vectors,
        const Taps *taps, const Py_ssize_t *window) noexcept nogil
    void add_sparse_slopes "TYPED(add_sparse_slopes)"(
        real *sums, const real *by, Py_ssize_t by_step, const Pixels *source, const SlopeTaps *taps,
        const int32_t *span, int slopes) noexcept nogil

    # convert.h

    void widen "TYPED(widen)"(
        const char *start, int kind, Py_ssize_t count, real *to) noexcept nogil
    void narrow(const float *start, int kind, Py_ssize_t count, char *to) noexcept nogil
    Py_ssize_t small_size(int kind) noexcept nogil
    void copy_runs(
        const char *start, Py_ssize_t row, Py_ssize_t column, Py_ssize_t rows, Py_ssize_t columns,
        size_t run, char *to) noexcept nogil
    void widen_runs(
        const char *start, int kind, Py_ssize_t row, Py_ssize_t column, Py_ssize_t rows,
        Py_ssize_t columns, Py_ssize_t run, float *to) noexcept nogil

    # vector.h

    void stream_begin(
        Stream *run, void *to, const void *start, size_t size, int turns) noexcept nogil
    void stream_some(Stream *run) noexcept nogil
    void stream_rest(Stream *run) noexcept nogil
    void stream_copy(void *to, const void *start, size_t size) noexcept nogil
    void stream_clear(void *to, size_t bytes) noexcept nogil
    void stream_fence() noexcept nogil
    void prefetch_l2(const void *line) noexcept nogil
    void prefetch_l1(const void *line) noexcept nogil
    void prefetch_write(void *line) noexcept nogil
    void prefetch_run(const void *run, size_t size) noexcept nogil
    void *pages_alloc(size_t size) noexcept nogil
    void pages_free(void *block) noexcept nogil
