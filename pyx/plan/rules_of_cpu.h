/* The rules as the CPU compiles them, for float and for double. */
#ifndef ROICY_RULES_OF_CPU_H
#define ROICY_RULES_OF_CPU_H

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

/* What Python calls kinds and fields, in their order. */
#define RULE_NAME(kind, name) #name,
#define FIELD_NAME(name) #name,
static const char *const rule_names[] = {RULE_KINDS(RULE_NAME)};
static const char *const rule_fields[] = {RULE_FIELDS(FIELD_NAME)};

/* The functions that plans call, of the type whose numbers have so many bytes. */
#define OF_TYPE(f, bytes, ...)                                                                     \
    ((bytes) == sizeof(float) ? f##_float(__VA_ARGS__) : f##_double(__VA_ARGS__))
#define make_axis(bytes, ...) OF_TYPE(make_axis, bytes, __VA_ARGS__)
#define sample_count(bytes, ...) OF_TYPE(sample_count, bytes, __VA_ARGS__)
#define axis_taps(bytes, ...) OF_TYPE(axis_taps, bytes, __VA_ARGS__)
#define level_of(bytes, ...) OF_TYPE(level_of, bytes, __VA_ARGS__)
#define make_rotated(bytes, ...) OF_TYPE(make_rotated, bytes, __VA_ARGS__)
#define rotated_bin(bytes, ...) OF_TYPE(rotated_bin, bytes, __VA_ARGS__)
#define max_rotated_taps(bytes, ...) OF_TYPE(max_rotated_taps, bytes, __VA_ARGS__)

#endif
