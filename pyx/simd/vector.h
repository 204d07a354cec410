/* Vectors, and stores past the caches.

   A lane vector is LANE_BYTES of neighbouring channels: 16 float or 8 double, one cache line.  The
   kernels are plain loops over a lane vector.  Compilers know its length and turn such loops into
   whole-vector instructions of the instruction set that the file is compiled for.  The length is
   the same for every instruction set, so that all of them add in the same order.  Only what such
   loops cannot express is written with the vector types below. */
#ifndef ROICY_VECTOR_H
#define ROICY_VECTOR_H

#include "simd/memory.h"
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Bytes of a vector of this instruction set (R319). */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* Vectors, aligned and not. */
typedef float vector_float __attribute__((vector_size(VECTOR_BYTES)));
typedef double vector_double __attribute__((vector_size(VECTOR_BYTES)));
/* As many lanes, for comparisons and shuffles. */
typedef int32_t indices_float __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t indices_double __attribute__((vector_size(VECTOR_BYTES)));
typedef float unaligned_float
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(float)), may_alias));
typedef double unaligned_double
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(double)), may_alias));
typedef char unaligned_bytes __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));

static FORCE_INLINE vector_float load_float(const float *from) {
    return *(const unaligned_float *)from;
}

static FORCE_INLINE vector_double load_double(const double *from) {
    return *(const unaligned_double *)from;
}

static FORCE_INLINE void store_float(float *to, vector_float values) {
    *(unaligned_float *)to = values;
}

static FORCE_INLINE void store_double(double *to, vector_double values) {
    *(unaligned_double *)to = values;
}

/* a * b + c, rounded once where the instruction set has a fused instruction.  The code names each
   product that is fused into a sum, and setup.py forbids the compiler to fuse others, so that a sum
   has the same bits wherever it is compiled. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define FUSED_float(a, b, c) __builtin_fmaf(a, b, c)
#define FUSED_double(a, b, c) __builtin_fma(a, b, c)
#else
#define FUSED_float(a, b, c) ((a) * (b) + (c))
#define FUSED_double(a, b, c) ((a) * (b) + (c))
#endif
#if defined(__AVX512F__)
#define FUSED_VECTOR_float(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FUSED_VECTOR_double(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif defined(__AVX__) && defined(__FMA__)
#define FUSED_VECTOR_float(a, b, c) _mm256_fmadd_ps(a, b, c)
#define FUSED_VECTOR_double(a, b, c) _mm256_fmadd_pd(a, b, c)
#elif defined(__aarch64__)
#define FUSED_VECTOR_float(a, b, c) vfmaq_f32(c, a, b)
#define FUSED_VECTOR_double(a, b, c) vfmaq_f64(c, a, b)
#else
#define FUSED_VECTOR_float(a, b, c) ((a) * (b) + (c))
#define FUSED_VECTOR_double(a, b, c) ((a) * (b) + (c))
#endif

/* Stores a vector past the caches where there is such a store.  All stores of a cache line have to
   follow each other, and stream_fence comes before anybody reads it. */
#if !defined(__SSE2__)
#define STREAM(to, vector) memcpy(to, &(vector), VECTOR_BYTES)
#elif VECTOR_BYTES == 64
#define STREAM(to, vector) _mm512_stream_si512((__m512i *)(to), (__m512i)(vector))
#elif VECTOR_BYTES == 32
#define STREAM(to, vector) _mm256_stream_si256((__m256i *)(to), (__m256i)(vector))
#else
#define STREAM(to, vector) _mm_stream_si128((__m128i *)(to), (__m128i)(vector))
#endif

/* Copies the next lines, or all that are left. */
static NOINLINE void stream_lines(struct stream *run, int all) {
    char *to = run->to; /* copies, which stores of bytes cannot change */
    const char *from = run->from;
    size_t now = all || run->left < run->at_once ? run->left : run->at_once;
    for (size_t i = 0; i < now; i += LANE_BYTES)
        for (int j = 0; j < LANE_BYTES; j += VECTOR_BYTES)
            STREAM(to + i + j, *(const unaligned_bytes *)(from + i + j));
    run->to = to + now;
    run->left -= now;
    run->from = from + now;
}

/* Begins a copy that `turns` calls of stream_lines complete.  Until then nobody may change the
   source.  The bytes at either end that do not fill a line are copied at once. */
static inline void stream_begin(struct stream *run, void *to, const void *from, size_t bytes,
                                int turns) {
    size_t head = (size_t)(-(uintptr_t)to & (LANE_BYTES - 1));
    if (head > bytes)
        head = bytes;
    size_t tail = (bytes - head) % LANE_BYTES;
    memcpy(to, from, head);
    memcpy((char *)to + bytes - tail, (const char *)from + bytes - tail, tail);
    run->to = (char *)to + head;
    run->from = (const char *)from + head;
    run->left = bytes - head - tail;
    run->at_once = (run->left / turns + LANE_BYTES) / LANE_BYTES * LANE_BYTES;
}

/* Copies past the caches at once. */
static NOINLINE void stream_copy(void *to, const void *from, size_t bytes) {
    struct stream run;
    stream_begin(&run, to, from, bytes, 1);
    stream_lines(&run, 1);
}

/* Clears bytes past the caches. */
static NOINLINE void stream_clear(void *to, size_t bytes) {
    static const char zeros[LANE_BYTES] = {0};
    char *at = (char *)to;
    size_t head = (size_t)(-(uintptr_t)to & (LANE_BYTES - 1));
    if (head > bytes)
        head = bytes;
    memset(at, 0, head);
    at += head;
    bytes -= head;
    for (; bytes >= LANE_BYTES; bytes -= LANE_BYTES, at += LANE_BYTES)
        for (int j = 0; j < LANE_BYTES; j += VECTOR_BYTES)
            STREAM(at + j, *(const unaligned_bytes *)(zeros + j));
    memset(at, 0, bytes);
}

#endif
