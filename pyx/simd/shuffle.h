/* What transposes need that depends on the width of vectors and on the type of numbers: shuffles.

   A square of vectors is transposed in rounds of one instruction for each vector.  The first rounds
   work within each segment of 16 bytes, as SSE did, the last rounds exchange whole segments. Rounds
   of shuffles across whole vectors would be plainer, but AVX2 needs two instructions for each. */
#ifndef ROICY_SHUFFLE_H
#define ROICY_SHUFFLE_H

#include "simd/vector.h"

#define SEGMENT_BYTES 16

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAVE_SHUFFLES
#endif
#endif

#ifdef HAVE_SHUFFLES
/* Indices of elements of two vectors: SINGLES of floats, PAIRS of floats or doubles, and SEGMENTS
   of doubles.  SINGLES and PAIRS: elements of both vectors in turn, from the lower (LOW) or the
   higher (HIGH) half of each segment.  SEGMENTS: the even (LOW) or the odd (HIGH) segments of one
   vector and then of the other. */
#if VECTOR_BYTES == 64
#define LOW_SINGLES 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH_SINGLES 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define LOW_PAIRS 0, 8, 2, 10, 4, 12, 6, 14
#define HIGH_PAIRS 1, 9, 3, 11, 5, 13, 7, 15
#define LOW_SEGMENTS 0, 1, 4, 5, 8, 9, 12, 13
#define HIGH_SEGMENTS 2, 3, 6, 7, 10, 11, 14, 15
#elif VECTOR_BYTES == 32
#define LOW_SINGLES 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH_SINGLES 2, 10, 3, 11, 6, 14, 7, 15
#define LOW_PAIRS 0, 4, 2, 6
#define HIGH_PAIRS 1, 5, 3, 7
#define LOW_SEGMENTS 0, 1, 4, 5
#define HIGH_SEGMENTS 2, 3, 6, 7
#else
#define LOW_SINGLES 0, 4, 1, 5
#define HIGH_SINGLES 2, 6, 3, 7
#define LOW_PAIRS 0, 2
#define HIGH_PAIRS 1, 3
#endif

/* Transposes the 2 x 2 doubles in each segment of 2 vectors. */
static FORCE_INLINE void transpose_segments_double(vector_double *a) {
    vector_double low = __builtin_shufflevector(a[0], a[1], LOW_PAIRS);
    a[1] = __builtin_shufflevector(a[0], a[1], HIGH_PAIRS);
    a[0] = low;
}

/* Transposes the 4 x 4 floats in each segment of 4 vectors. */
static FORCE_INLINE void transpose_segments_float(vector_float *a) {
    vector_double pairs[4];
    for (int i = 0; i < 2; i++) {
        vector_float low = __builtin_shufflevector(a[2 * i], a[2 * i + 1], LOW_SINGLES);
        vector_float high = __builtin_shufflevector(a[2 * i], a[2 * i + 1], HIGH_SINGLES);
        pairs[i] = (vector_double)low;
        pairs[i + 2] = (vector_double)high;
    }
    transpose_segments_double(pairs);
    transpose_segments_double(pairs + 2);
    for (int i = 0; i < 4; i++)
        a[i] = (vector_float)pairs[i];
}
#endif

#endif
