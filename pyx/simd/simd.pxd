"""What simd.h offers to Cython.  The headers say what each function does.

A function that is declared with `...` exists for float and for double, and C chooses one of the
two by the type of its first pointer to a real.  The comment above it says what its parameters are;
those without a type are Py_ssize_t.
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
        Py_ssize_t count
        const int32_t *pixel
        const void *weight
        const void *low
        const void *high

    ctypedef struct SparseTaps "struct sparse_taps":
        Py_ssize_t count
        const int32_t *pixel
        const void *slopes
        Py_ssize_t step

    ctypedef struct Winners "struct winners":
        const int32_t *at
        Py_ssize_t at_step
        const void *values
        Py_ssize_t step
        const int32_t *next_at
        const void *next_values

    ctypedef struct PlaneRows "struct plane_rows":
        uint32_t first
        uint32_t count
        uint32_t all

    ctypedef struct PrefetchRows "struct prefetch_rows":
        const void *first
        Py_ssize_t count
        Py_ssize_t in_row
        Py_ssize_t step
        Py_ssize_t past_row

    ctypedef struct Stream "struct stream":
        size_t left

    # pack.inc.h

    # const real *from, channel_step, int lanes, pixels, prefetch_step, real *to
    void planes_to_lanes(...) noexcept nogil
    # const real *from, pixels, int lanes, real *to, channel_step, bint streaming
    void lanes_to_planes(...) noexcept nogil

    # contract.inc.h

    # real *sums, real weight, const real *values
    void add_product(...) noexcept nogil
    # real *to, to_step, const Vectors *from, const Taps *taps, bint add
    void contract_axis(...) noexcept nogil
    # real *to, const Vectors *from, const Taps *taps, const real *prefetch, first, stop
    void contract_prefetching(...) noexcept nogil
    # real *to, bin_step, to_step, const Vectors *from, int bins, const Taps *taps, Stream *run
    void contract_bins(...) noexcept nogil
    # real *to, real *strip, const real *from, row, column, columns, const Taps *y, const Taps *x
    void contract_bin(...) noexcept nogil

    # accumulate.inc.h

    # real *to, to_step, const real *from, step, count, real weight, bint add
    void scale_vectors(...) noexcept nogil
    # real *to, pixel_step, to_step, const Vectors *from, pixels, const int32_t *pixel,
    # const Taps *taps
    void accumulate_pixels(...) noexcept nogil
    # real *to, pixel_step, const Vectors *from, columns, const int32_t *pixel, const Taps *taps,
    # below, const PrefetchRows *bins
    void accumulate_row(...) noexcept nogil

    # correlate.inc.h

    # real *sums, const real *by, by_step, const Pixels *from, const SlopeTaps *y,
    # const SlopeTaps *x
    void add_slopes(...) noexcept nogil

    # maximum.inc.h

    # real *best, const real *values
    void keep_larger(...) noexcept nogil
    # real *best, int32_t *at, const real *values, int32_t index
    void keep_larger_at(...) noexcept nogil
    # real *best, int32_t *at, const real *values, const int32_t *indices
    void keep_first_larger(...) noexcept nogil

    # numbers.inc.h

    # real *to, const real *plane, row, column, const Taps *y, const Taps *x
    void sum_number(...) noexcept nogil
    # real *to, const real *from, row, column, columns, const Taps *taps
    void sum_rows(...) noexcept nogil
    # real *to, column, const real *from, pixels, const int32_t *pixel, const Taps *bins
    void add_numbers(...) noexcept nogil
    # real *plane, row, column, real gradient, const Taps *y, const Taps *x
    void add_number(...) noexcept nogil
    # const real *from, real value, row, column, rows, columns, map_columns
    int32_t find_number(...) noexcept nogil
    # real *best, const real *from, row, column, rows, columns
    void largest_number(...) noexcept nogil

    # scatter.inc.h

    # real *plane, channel_step, const Winners *bins, channels, count, const PlaneRows *rows
    bint add_at_planes(...) noexcept nogil
    # real *plane, pixel_step, const Winners *bins, count, const PlaneRows *rows
    bint add_at_pixels(...) noexcept nogil

    # sparse.inc.h

    # real *to, to_step, const real *from, row, column, int bins, const Taps *taps, bint add
    void contract_sparse(...) noexcept nogil
    # real *to, to_step, const real *from, row, column, int bins, const Taps *taps, vectors
    void contract_sparse_pixels(...) noexcept nogil
    # real *to, row, column, const real *from, vectors, const Taps *taps, const Py_ssize_t *window
    void accumulate_sparse(...) noexcept nogil
    # real *sums, const real *by, by_step, const Pixels *from, const SparseTaps *taps, int slopes
    void add_sparse_slopes(...) noexcept nogil

    # convert.h

    # const char *start, int kind, count, real *to
    void widen(const char *start, int kind, Py_ssize_t count, ...) noexcept nogil
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
