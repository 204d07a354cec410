"""Declarations of rules.h, rules_levels.h and rules_rotated.h, for float and double, and what they
are asked for."""

from libc.stdint cimport int32_t, uint8_t

from simd.simd cimport real


cdef extern from "plan/rules_of_cpu.h":
    cdef enum:
        RULE_SAMPLED
        RULE_INTEGRATED
        RULE_UNIFORM
        RULE_ROUNDED
        RULE_QUANTISED
        RULE_SINGLE_SAMPLES
        RULE_ROTATED
        RULE_BILINEAR
        RULE_NEAREST
        RULE_SLOPES

    cdef struct Rule "rule":
        int kind
        int sampling_ratio
        int aligned
        int at_least_one
        int inclusive
        int clockwise

    cdef struct BoxAxis "box_axis":
        double low
        double size
        double bin_size
        double first_sample
        double last_sample
        double scale
        long long grid
        int bins
        int extent
        int clamped

    cdef struct TapsOut "taps_out":
        long long count
        int32_t *pixel
        void *weight
        void *slope_low
        void *slope_high

    void make_axis "TYPED(make_axis)"(
        BoxAxis *axis, const Rule *rule, double scale, int bins, int extent, real low,
        real high) noexcept nogil
    long long sample_count_float(const BoxAxis *axis, int p) noexcept nogil
    long long sample_count_double(const BoxAxis *axis, int p) noexcept nogil
    void axis_taps_float(
        const Rule *rule, const BoxAxis *axis, int start, int32_t *spans, uint8_t *outside,
        TapsOut *out) noexcept nogil
    void axis_taps_double(
        const Rule *rule, const BoxAxis *axis, int start, int32_t *spans, uint8_t *outside,
        TapsOut *out) noexcept nogil

    cdef struct LevelRule "level_rule":
        int last
        int finest
        int canonical_level
        double canonical_scale
        double close

    int level_of "TYPED(level_of)"(
        const LevelRule *rule, const real *box, int numbers) noexcept nogil

    cdef struct RotatedBox "rotated_box":
        BoxAxis y
        BoxAxis x

    cdef struct TapSlot "tap_slot":
        int y

    cdef struct TapSlots "tap_slots":
        int used
        TapSlot *slots

    cdef enum:
        RULE_SLOTS

    cdef struct SparseOut "sparse_out":
        long long count
        int32_t *pixel
        void *weight
        void *slopes
        long long step
        int want_slopes

    void make_rotated "TYPED(make_rotated)"(
        RotatedBox *box, const Rule *rule, const real *numbers) noexcept nogil
    void rotated_bin_float(
        const RotatedBox *box, int p, int q, TapSlots *slots, SparseOut *out) noexcept nogil
    void rotated_bin_double(
        const RotatedBox *box, int p, int q, TapSlots *slots, SparseOut *out) noexcept nogil
    double max_rotated_taps_float(const RotatedBox *box) noexcept nogil
    double max_rotated_taps_double(const RotatedBox *box) noexcept nogil


cdef struct AxisSize:
    int bins
    Py_ssize_t extent              # of the map
    double scale                   # from coordinates to pixels


cdef struct TableRequest:          # what tables are to be made of
    Rule rule
    int kind                       # of enum Kind
    AxisSize[2] axes               # y, x
    Py_ssize_t first               # box of the order
    Py_ssize_t max_boxes
    Py_ssize_t spans               # of a box
    int coordinates                # of a tap
    int slopes                     # of a tap
    int threads
    int itemsize
