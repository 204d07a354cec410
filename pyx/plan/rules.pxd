"""Declarations of rules.h, which says where bins lie, for float and double."""

from libc.stdint cimport int32_t, uint8_t


cdef extern from "plan/rules_of_cpu.h":
    cdef enum:
        RULE_SAMPLED
        RULE_INTEGRATED
        RULE_UNIFORM
        RULE_ROUNDED
        RULE_QUANTISED
        RULE_SINGLE_SAMPLES

    cdef struct Rule "rule":
        int kind
        int sampling_ratio
        int aligned
        int at_least_one
        int inclusive

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

    void make_axis_float(
        BoxAxis *axis, const Rule *rule, double scale, int bins, int extent, float low,
        float high) noexcept nogil
    void make_axis_double(
        BoxAxis *axis, const Rule *rule, double scale, int bins, int extent, double low,
        double high) noexcept nogil
    long long sample_count_float(const BoxAxis *axis, int p) noexcept nogil
    long long sample_count_double(const BoxAxis *axis, int p) noexcept nogil
    void axis_taps_float(
        const Rule *rule, const BoxAxis *axis, int start, int32_t *spans, uint8_t *outside,
        TapsOut *out) noexcept nogil
    void axis_taps_double(
        const Rule *rule, const BoxAxis *axis, int start, int32_t *spans, uint8_t *outside,
        TapsOut *out) noexcept nogil
