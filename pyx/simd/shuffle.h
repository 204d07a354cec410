/* What transposes need that depends on the width of vectors and on the type of numbers: shuffles.

   A square of vectors is transposed in rounds of one instruction for each vector.  The first rounds
   work within each segment of 16 bytes, as SSE did, the last rounds exchange whole segments. Rounds
   of shuffles across whole vectors would be plainer, but AVX2 needs two instructions for each. */
#ifndef ROICY_SHUFFLE_H
#define ROICY_SHUFFLE_H

#include "vector.h"

#define SEGMENT_BYTES 16

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAVE_SHUFFLES
#endif
#endif

#ifdef HAVE_SHUFFLES
/* Indices of elements of two vectors.  SINGLES and PAIRS: the lower (LOW) or the higher (HIGH)
   halves of each segment alternate, one by one or in pairs.  SEGMENTS: every other segment. */
#if VECTOR_BYTES == 64
#define LOW_SINGLES_float 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH_SINGLES_float 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define LOW_PAIRS_float 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_PAIRS_float 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_SEGMENTS_float 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define HIGH_SEGMENTS_float 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#define LOW_SINGLES_double 0, 8, 2, 10, 4, 12, 6, 14
#define HIGH_SINGLES_double 1, 9, 3, 11, 5, 13, 7, 15
#define LOW_SEGMENTS_double 0, 1, 4, 5, 8, 9, 12, 13
#define HIGH_SEGMENTS_double 2, 3, 6, 7, 10, 11, 14, 15
#elif VECTOR_BYTES == 32
#define LOW_SINGLES_float 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH_SINGLES_float 2, 10, 3, 11, 6, 14, 7, 15
#define LOW_PAIRS_float 0, 1, 8, 9, 4, 5, 12, 13
#define HIGH_PAIRS_float 2, 3, 10, 11, 6, 7, 14, 15
#define LOW_SEGMENTS_float 0, 1, 2, 3, 8, 9, 10, 11
#define HIGH_SEGMENTS_float 4, 5, 6, 7, 12, 13, 14, 15
#define LOW_SINGLES_double 0, 4, 2, 6
#define HIGH_SINGLES_double 1, 5, 3, 7
#define LOW_SEGMENTS_double 0, 1, 4, 5
#define HIGH_SEGMENTS_double 2, 3, 6, 7
#else
#define LOW_SINGLES_float 0, 4, 1, 5
#define HIGH_SINGLES_float 2, 6, 3, 7
#define LOW_PAIRS_float 0, 1, 4, 5
#define HIGH_PAIRS_float 2, 3, 6, 7
#define LOW_SINGLES_double 0, 2
#define HIGH_SINGLES_double 1, 3
#endif

/* The elements of one segment of a vector. */
#define SEGMENT_float(i) 4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3
#define SEGMENT_double(i) 2 * i, 2 * i + 1

/* Transposes the 4 x 4 floats in each segment of 4 vectors. */
static FORCE_INLINE void transpose_segments_float(vector_float *a) {
    vector_float low = __builtin_shufflevector(a[0], a[1], LOW_SINGLES_float);
    vector_float high = __builtin_shufflevector(a[0], a[1], HIGH_SINGLES_float);
    vector_float next_low = __builtin_shufflevector(a[2], a[3], LOW_SINGLES_float);
    vector_float next_high = __builtin_shufflevector(a[2], a[3], HIGH_SINGLES_float);
    a[0] = __builtin_shufflevector(low, next_low, LOW_PAIRS_float);
    a[1] = __builtin_shufflevector(low, next_low, HIGH_PAIRS_float);
    a[2] = __builtin_shufflevector(high, next_high, LOW_PAIRS_float);
    a[3] = __builtin_shufflevector(high, next_high, HIGH_PAIRS_float);
}

/* Transposes the 2 x 2 doubles in each segment of 2 vectors. */
static FORCE_INLINE void transpose_segments_double(vector_double *a) {
    vector_double low = __builtin_shufflevector(a[0], a[1], LOW_SINGLES_double);
    vector_double high = __builtin_shufflevector(a[0], a[1], HIGH_SINGLES_double);
    a[0] = low;
    a[1] = high;
}
#endif

/* Copies fewer elements than a vector has.  AVX-512 does that with one masked load, so that many
   loads, most of which miss every cache, are in flight at once. */
static FORCE_INLINE void copy_short_float(float *to, const float *from, ptrdiff_t count) {
#if VECTOR_BYTES == 64 && defined(HAVE_SHUFFLES)
    store_float(to, _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from));
#else
    memcpy(to, from, (size_t)count * sizeof(float));
#endif
}

static FORCE_INLINE void copy_short_double(double *to, const double *from, ptrdiff_t count) {
#if VECTOR_BYTES == 64 && defined(HAVE_SHUFFLES)
    store_double(to, _mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1), from));
#else
    memcpy(to, from, (size_t)count * sizeof(double));
#endif
}

#endif
