/* The rules for float and double, as the CPU compiles them. */
#ifndef ROICY_RULES_OF_CPU_H
#define ROICY_RULES_OF_CPU_H

#include <math.h>
#define RULE_FN static inline
#define RULE_STORE_TAP(out, i, p, w) ((out)->pixel[i] = (p), ((REAL *)(out)->weight)[i] = (w))
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

#endif
