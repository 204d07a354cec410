"""Structs and functions of structs.h and memory.h, which explain them, for Cython."""
from libc.stdint cimport int32_t, uint32_t

ctypedef fused real:
    float
    double

cdef extern from "simd/structs.h":
    enum: LANE_BYTES
    enum: PAGE_BYTES
    enum: FOLDED_BYTES
    enum: BINS_TOGETHER
    enum: ROWS_RUN
    enum: ROWS_CHANNELS

    enum: DIRECT
    enum: STAGED
    enum: STREAMING

    ctypedef struct Strides "struct strides":
        Py_ssize_t image
        Py_ssize_t channel
        Py_ssize_t y
        Py_ssize_t x

    ctypedef struct Window "struct window":
        Py_ssize_t y0
        Py_ssize_t y1
        Py_ssize_t x0
        Py_ssize_t x1

    ctypedef struct View "struct view":
        Py_ssize_t y
        Py_ssize_t x

    ctypedef struct Tile "struct tile":
        char *plane
        int dtype
        int itemsize
        Strides strides
        int lanes
        bint shared
        bint in_place
        Py_ssize_t capacity
        Py_ssize_t capacity_rows
        Py_ssize_t top
        Py_ssize_t bottom
        Py_ssize_t x0
        Py_ssize_t x1
        Py_ssize_t y0
        Py_ssize_t y1

    ctypedef struct Stream "struct stream":
        size_t left

    ctypedef struct Target "struct target":
        Strides strides
        int lanes
        int store
        void *staging
        Stream *queue

    ctypedef struct Taps "struct taps":
        const int32_t *spans
        const int32_t *pixel
        const void *weight

    ctypedef struct Vectors "struct vectors":
        const void *start
        Py_ssize_t stride
        Py_ssize_t pixel_stride
        Py_ssize_t count

    ctypedef struct Pixels "struct pixels":
        const void *start
        Py_ssize_t stride
        Py_ssize_t count
        Py_ssize_t stride_y
        Py_ssize_t stride_x

    ctypedef struct SlopeTaps "struct slope_taps":
        const int32_t *pixel
        const void *weight
        const void *slopes
        Py_ssize_t stride

    ctypedef struct Source "struct source":
        const char *start
        Py_ssize_t stride_y
        Py_ssize_t stride_x
        Py_ssize_t stride_c
        int channels
        int kind
        bint dense

    ctypedef struct Interval "struct interval":
        int32_t low
        int32_t high

    ctypedef struct Lines "struct lines":
        const Interval *intervals
        bint triangles
        Py_ssize_t ahead
        Taps list

    ctypedef struct Strip "struct strip":
        void *sums
        Py_ssize_t low
        Py_ssize_t stop
        int channels
        int channel
        bint add

    ctypedef struct Sums "struct sums":
        void *sums
        Py_ssize_t stride
        int first
        int channels
        Py_ssize_t *place
        float *scale
        float *bias

    ctypedef struct Samples "struct samples":
        const int32_t *pixel
        const void *fraction
        int32_t first
        int32_t stop
        Py_ssize_t x0
        Py_ssize_t last
        bint products

    ctypedef struct Winners "struct winners":
        const int32_t *at
        const void *values
        Py_ssize_t lines
        Py_ssize_t count
        Py_ssize_t stride
        const int32_t *next_at
        const void *next_values

    ctypedef struct PlaneRows "struct plane_rows":
        uint32_t first
        uint32_t count
        uint32_t all

    Py_ssize_t small_size(int dtype) noexcept nogil

cdef extern from "simd/memory.h" nogil:
    void ASSERT(bint promise) noexcept
    # Write `condition & PLANTED(...)`, not `and`: where it is 0, that leaves no code.
    bint PLANTED(const char *name) noexcept
    void stream_fence() noexcept
    void prefetch_l2(const void *line) noexcept
    void prefetch_l1(const void *line) noexcept
    void prefetch_write(void *line) noexcept
    void prefetch_run(const void *run, size_t size) noexcept
    void *pages_alloc(size_t size) noexcept
    void pages_free(void *block) noexcept
