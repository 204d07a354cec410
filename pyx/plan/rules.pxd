"""What plans use of rules.h, rules_levels.h and rules_rotated.h, and what tables are made of.

The CPU compiles them for float and for double; `bytes` of a number chooses one.
"""
from libc.stdint cimport int32_t, uint8_t


cdef extern from * nogil:
    """
    #include <math.h>

    #include "simd/memory.h"

    #define RULE_FN static inline
    #define RULE_STORE_TAP(out, i, p, w) ((out)->pixel[i] = (p), ((REAL *)(out)->weight)[i] = (w))
    #define RULE_NUMBER double
    #define REAL float
    #define NAME(f) f##_float
    #include "plan/rules.h"
    #include "plan/rules_levels.h"
    #include "plan/rules_rotated.h"
    #undef REAL
    #undef NAME
    #define REAL double
    #define NAME(f) f##_double
    #include "plan/rules.h"
    #include "plan/rules_levels.h"
    #include "plan/rules_rotated.h"
    #undef REAL
    #undef NAME

    /* What Python calls kinds and fields, in their order, and the types of fields. */
    #define RULE_NAME(kind, name) #name,
    #define FIELD_NAME(type, name) #name,
    #define FIELD_TYPE(type, name) #type,
    static const char *const rule_names[] = {RULE_KINDS(RULE_NAME)};
    static const char *const rule_fields[] = {RULE_FIELDS(FIELD_NAME)};
    static const char *const rule_types[] = {RULE_FIELDS(FIELD_TYPE)};
    enum { RULE_FIELD_COUNT = sizeof(rule_fields) / sizeof(rule_fields[0]) };

    /* Fields by their places in that order. */
    #define SET_FIELD(type, name) if (place-- == 0) rule->name = (type)number;
    #define GET_FIELD(type, name) if (place-- == 0) return rule->name;
    static inline void set_field(struct rule *rule, int place, double number) {
        RULE_FIELDS(SET_FIELD)
    }
    static inline double field_of(const struct rule *rule, int place) {
        RULE_FIELDS(GET_FIELD)
        return 0;
    }

    /* The functions that plans call, of the type whose numbers have so many bytes. */
    #define OF_TYPE(f, bytes, ...) \\
        ((bytes) == sizeof(float) ? f##_float(__VA_ARGS__) : f##_double(__VA_ARGS__))
    #define make_axis(bytes, ...) OF_TYPE(make_axis, bytes, __VA_ARGS__)
    #define sample_count(bytes, ...) OF_TYPE(sample_count, bytes, __VA_ARGS__)
    #define axis_taps(bytes, ...) OF_TYPE(axis_taps, bytes, __VA_ARGS__)
    #define level_of(bytes, ...) OF_TYPE(level_of, bytes, __VA_ARGS__)
    #define make_rotated(bytes, ...) OF_TYPE(make_rotated, bytes, __VA_ARGS__)
    #define rotated_bin(bytes, ...) OF_TYPE(rotated_bin, bytes, __VA_ARGS__)
    #define max_rotated_taps(bytes, ...) OF_TYPE(max_rotated_taps, bytes, __VA_ARGS__)
    """
    cdef enum:
        RULE_SAMPLED               # those that tables are a little different for
        RULE_INTEGRATED
        RULE_QUANTISED
        RULE_SINGLE_SAMPLES
        RULE_ROTATED
        RULE_COUNT                 # of kinds
        RULE_FIELD_COUNT
        RULE_SLOPES
        RULE_SUMS

    const char *const *rule_names
    const char *const *rule_fields
    const char *const *rule_types

    cdef struct RuleNumbers "rule":  # those of all fields that Cython names: RULE_FIELDS has more
        int kind
        int sampling_ratio
        int aligned
        int inclusive

    void set_field(RuleNumbers *rule, int place, double number) noexcept
    double field_of(const RuleNumbers *rule, int place) noexcept

    cdef struct BoxAxis "box_axis":
        double low
        double size
        double scale
        int bins
        int extent

    cdef struct TapsOut "taps_out":
        long long count
        int32_t *pixel
        void *weight
        void *slope_low
        void *slope_high

    void make_axis(int bytes, BoxAxis *axis, const RuleNumbers *rule, double scale, int bins,
                   int extent, double low, double high) noexcept
    long long sample_count(int bytes, const BoxAxis *axis, int p) noexcept
    void axis_taps(int bytes, const BoxAxis *axis, int start, int32_t *spans, uint8_t *outside,
                   TapsOut *out) noexcept

    cdef struct LevelRule "level_rule":
        int last
        int finest
        int canonical_level
        double canonical_scale
        double close

    int level_of(int bytes, const LevelRule *rule, const double *box, int numbers) noexcept

    cdef struct RotatedBox "rotated_box":
        BoxAxis y
        BoxAxis x

    cdef struct PixelSum "pixel_sum":
        int y

    cdef struct PixelSums "pixel_sums":
        int used
        PixelSum *sums

    cdef struct SparseOut "sparse_out":
        long long count
        int32_t *pixel
        void *weight
        void *slopes
        long long stride
        int want_slopes

    void make_rotated(
        int bytes, RotatedBox *box, const RuleNumbers *rule, const double *numbers) noexcept
    void rotated_bin(int bytes, const RotatedBox *box, int p, int q, PixelSums *sums,
                     SparseOut *out) noexcept
    double max_rotated_taps(int bytes, const RotatedBox *box) noexcept


cdef inline LevelRule level_rule(tuple numbers) except *:
    """What roicy._checks._levels.rule returned, as C takes it."""
    cdef LevelRule rule
    (rule.last, rule.finest, rule.canonical_level, rule.canonical_scale, rule.close) = numbers
    return rule
