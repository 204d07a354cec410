/* All that knows vectors: the *.inc.h files are plain functions on REAL, compiled for float and for
   double.  NAME(f) is f_float or f_double. */
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
#define NAME(name) NAME_OF(name, REAL)
#define VECTOR NAME(vector)
#define INDICES NAME(indices)

#define REAL float
#define LOWEST (-FLT_MAX) /* what a maximum begins with */
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
#undef REAL
#undef LOWEST

#define REAL double
#define LOWEST (-DBL_MAX)
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
#undef REAL
#undef LOWEST
#undef NAME
#undef VECTOR
#undef INDICES

#endif
