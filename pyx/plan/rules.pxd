"""What plans use of rules.h, rules_levels.h and rules_rotated.h, and what tables are made of.

`bytes` chooses the function for float or for double (rules_of_cpu.h).
"""
from libc.stdint cimport int32_t, uint8_t


cdef extern from "plan/rules_of_cpu.h" nogil:
    cdef enum:
        RULE_SAMPLED               # those that tables are a little different for
        RULE_INTEGRATED
        RULE_QUANTISED
        RULE_SINGLE_SAMPLES
        RULE_ROTATED
        RULE_COUNT                 # of kinds
        RULE_SLOPES
        RULE_SUMS

    const char *const *rule_names  # [RULE_COUNT]
    const char *const *rule_fields

    cdef struct RuleNumbers "rule":  # those of all fields that Cython names: RULE_FIELDS has more
        int kind
        int sampling_ratio
        int aligned
        int inclusive

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
