/* All that knows vectors: the *.inc.h files are plain functions on REAL, compiled for float and for
   double.  NAME(f) is f_float or f_double.  Cython chooses one of the two by the types of
   arguments. */
#ifndef ROICY_SIMD_H
#define ROICY_SIMD_H

#include "convert.h"
#include "shuffle.h"
#include "vector.h"

/* Steps and strides are elements, and counts are lane vectors, unless a comment says otherwise. */

/* The taps of the bins of one axis: bin b has taps spans[2 * b] to spans[2 * b + 1] - 1. */
struct taps {
    const int32_t *spans;
    const int32_t *pixel; /* of a tap */
    const void *weight;   /* REAL, of a tap */
};

/* Lane vector i, of `count`, of pixel j lies at start + i * step + j * stride. */
struct vectors {
    const void *start;
    ptrdiff_t step, stride, count;
};

/* Block i, of `count`, of pixel (y, x) lies at start + i * step + y * stride_y + x * stride_x. */
struct pixels {
    const void *start;
    ptrdiff_t step, count, stride_y, stride_x;
};

/* The taps of all bins, and by how much weights change with each number of a box: slope k of tap t
   is slopes[k * step + t].  Numbers are the low and the high edge of an axis, or those of a turned
   box, whose taps have two pixels, y and x. */
struct slope_taps {
    const int32_t *pixel;
    const void *weight, *slopes; /* REAL */
    ptrdiff_t step;
};

/* Lines of `count` numbers, step elements apart: the index of the pixel that won each bin (at), and
   the gradient of the bin (values).  next_at and next_values are lines that are prefetched. */
struct winners {
    const int32_t *at;
    const void *values; /* REAL */
    ptrdiff_t lines, count, step;
    const int32_t *next_at;
    const void *next_values; /* REAL */
};

/* Rows of a plane: pixels first to first + count - 1 of all. */
struct plane_rows {
    uint32_t first, count, all;
};

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
#include "transpose.inc.h"
#include "pack.inc.h"
#include "contract.inc.h"
#include "accumulate.inc.h"
#include "correlate.inc.h"
#include "maximum.inc.h"
#include "numbers.inc.h"
#include "scatter.inc.h"
#include "sparse.inc.h"
#undef REAL

#define REAL double
#include "transpose.inc.h"
#include "pack.inc.h"
#include "contract.inc.h"
#include "accumulate.inc.h"
#include "correlate.inc.h"
#include "maximum.inc.h"
#include "numbers.inc.h"
#include "scatter.inc.h"
#include "sparse.inc.h"
#undef REAL
#undef NAME
#undef VECTOR
#undef INDICES

/* What Cython makes of the name TYPED(f) in simd.pxd, for float and for double. */
#define __pyx_fuse_0TYPED(f) f##_float
#define __pyx_fuse_1TYPED(f) f##_double

#endif
