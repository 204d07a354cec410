/* All that knows vectors.  The *.inc.h files are plain functions on REAL, which is float or double:
   setup.py compiles each file of table/ for either.  They include nothing, and use what this file
   has and includes before them. */
#ifndef ROICY_SIMD_H
#define ROICY_SIMD_H

#include <float.h>

#include "simd/convert.h"
#include "simd/rows.h"
#include "simd/shuffle.h"
#include "simd/structs.h"
#include "simd/vector.h"

/* Unrolls the loop that follows. */
#define PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define UNROLLED(times) PRAGMA(unroll times)
#else
#define UNROLLED(times) PRAGMA(GCC unroll times)
#endif

#define LANES ((int)(LANE_BYTES / sizeof(REAL)))
#define VECTOR_LANES ((int)(VECTOR_BYTES / sizeof(REAL)))
#define SEGMENT_LANES ((int)(SEGMENT_BYTES / sizeof(REAL)))
#define FOLDED_LANES ((int)(FOLDED_BYTES / sizeof(REAL)))
#define JOIN(name, type) name##_##type
#define NAME_OF(name, type) JOIN(name, type)

/* What vector.h, shuffle.h and rows.h have of REAL. */
#define TYPED(name) NAME_OF(name, REAL)
#define VECTOR TYPED(vector)
#define INDICES TYPED(indices)
#define FUSED(a, b, c) TYPED(FUSED)(a, b, c)
#define FUSED_VECTOR(a, b, c) TYPED(FUSED_VECTOR)(a, b, c)
#define LOWEST_float (-FLT_MAX)
#define LOWEST_double (-DBL_MAX)
#define LOWEST TYPED(LOWEST) /* what a maximum begins with */

static FORCE_INLINE VECTOR load(const REAL *from) { return TYPED(load)(from); }
static FORCE_INLINE void store(REAL *to, VECTOR values) { TYPED(store)(to, values); }
static FORCE_INLINE VECTOR load_bytes(const uint8_t *from) { return TYPED(load_bytes)(from); }
#ifdef HAVE_SHUFFLES
static FORCE_INLINE void transpose_segments(VECTOR *a) { TYPED(transpose_segments)(a); }
#endif
static inline void widen(const char *from, int dtype, ptrdiff_t count, REAL *to) {
    TYPED(widen)(from, dtype, count, to);
}

#include "transpose.inc.h"
#include "pack.inc.h"
#include "contract.inc.h"
#include "accumulate.inc.h"
#include "correlate.inc.h"
#include "maximum.inc.h"
#include "numbers.inc.h"
#include "rows.inc.h"
#include "samples.inc.h"
#include "scatter.inc.h"
#include "sparse.inc.h"
#include "tile.inc.h"

#endif
