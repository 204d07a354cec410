/* Maps of small types, half precision, bfloat16 and integers of up to 16 bits, from and to float.
 */
#ifndef ROICY_CONVERT_H
#define ROICY_CONVERT_H

#include "simd/structs.h"
#include "simd/vector.h"

static inline float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Widening is exact, for infinities and denormal numbers too, and a NaN becomes a quiet NaN.  Where
   processors have no instruction for it, half precision is decoded from its bits, without
   arithmetic on denormal floats, since a process may have switched them off.  Compilers turn all
   of these loops into whole vectors. */
static inline float float_of_half(uint16_t half) {
    const uint32_t bias = (127 - 15) << 23, least = (127 - 14) << 23, infinity = 31u << 23;
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    uint32_t quiet = (uint32_t)(magnitude > infinity) << 22;
    uint32_t normal = (magnitude + (magnitude < infinity ? bias : 2 * bias)) | quiet;
    uint32_t denormal = bits_of_float(float_of_bits(magnitude + least) - float_of_bits(least));
    uint32_t number = magnitude < (1u << 23) ? denormal : normal;
    return float_of_bits(number | (uint32_t)(half & 0x8000) << 16);
}

/* A loop from i on: converts each element x of the pointer `from`, which has this type. */
#define CONVERT(type, convert)                                                                     \
    for (; i < count; i++) {                                                                       \
        type x = ((const type *)from)[i];                                                          \
        convert;                                                                                   \
    }

/* Widens `count` elements of a small type. */
static inline void widen_float(const char *from, int dtype, ptrdiff_t count, float *to) {
    ptrdiff_t i = 0;
    if (dtype == HALF) {
#if defined(__F16C__)
        for (; i + 8 <= count; i += 8)
            _mm256_storeu_ps(to + i,
                             _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + 2 * i))));
#endif
        CONVERT(uint16_t, to[i] = float_of_half(x))
    } else if (dtype == BFLOAT)
        CONVERT(uint16_t, to[i] = float_of_bits((uint32_t)x << 16))
    else if (dtype == INT8)
        CONVERT(int8_t, to[i] = x)
    else if (dtype == INT16)
        CONVERT(int16_t, to[i] = x)
    else if (dtype == UINT16)
        CONVERT(uint16_t, to[i] = x)
    else
        CONVERT(uint8_t, to[i] = x)
}

/* Small types are computed in float: nobody calls this, but code for both types compiles. */
static inline void widen_double(const char *from, int dtype, ptrdiff_t count, double *to) {
    (void)from, (void)dtype, (void)count, (void)to;
}

/* Narrowing rounds to the nearest number, and to the even one of two that are equally near.  It
   adds to the bits of a number one less than half of the last bit that is kept, and one more if
   that bit is set, and then cuts off the rest.  For denormal halves it adds a float, and the
   processor rounds the sum to the bits that such halves have. */
static inline uint16_t half_of_float(float value) {
    const int32_t bias = (127 - 15) << 23, infinity = (127 + 16) << 23, least = (127 - 14) << 23;
    const int32_t nan_from = 255 << 23;
    int32_t bits = (int32_t)bits_of_float(value), magnitude = bits & 0x7fffffff;
    int32_t bounded = magnitude < infinity ? magnitude : infinity;
    int32_t normal = (bounded - bias + 0xfff + (bounded >> 13 & 1)) >> 13;
    float shifted = float_of_bits((uint32_t)bounded) + 0.5f;
    int32_t denormal = (int32_t)(bits_of_float(shifted) - bits_of_float(0.5f));
    int32_t number = magnitude < least ? denormal : normal;
    int32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    return (uint16_t)((bits >> 16 & 0x8000) | (magnitude > nan_from ? nan : number));
}

static inline uint16_t bfloat_of_float(float value) {
    uint32_t bits = bits_of_float(value);
    int is_nan = (int32_t)(bits & 0x7fffffff) > 255 << 23;
    uint32_t nan = (bits >> 16 & 0x8000) | 0x7fc0;
    return (uint16_t)(is_nan ? nan : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The nearest whole number from `low` to `high`, which have at most 17 bits; NaN becomes `low`.
   Adding 0x1.8p23 leaves no room for digits behind the point, of numbers of either sign. */
static inline int32_t whole_of_float(float value, float low, float high) {
    value = value > low ? value : low;
    value = value < high ? value : high;
    return (int32_t)(value + 0x1.8p23f - 0x1.8p23f);
}

/* Rounds `count` numbers to a small type. */
static inline void narrow(const float *from, int dtype, ptrdiff_t count, char *to) {
    ptrdiff_t i = 0;
    uint16_t *two = (uint16_t *)to;
    if (dtype == HALF) {
#if defined(__F16C__)
        for (; i + 8 <= count; i += 8) {
            __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
            _mm_storeu_si128((__m128i *)(two + i), halves);
        }
#endif
        CONVERT(float, two[i] = half_of_float(x))
    } else if (dtype == BFLOAT)
        CONVERT(float, two[i] = bfloat_of_float(x))
    else if (dtype == INT8)
        CONVERT(float, to[i] = (char)whole_of_float(x, INT8_MIN, INT8_MAX))
    else if (dtype == INT16)
        CONVERT(float, two[i] = (uint16_t)whole_of_float(x, INT16_MIN, INT16_MAX))
    else if (dtype == UINT16)
        CONVERT(float, two[i] = (uint16_t)whole_of_float(x, 0, UINT16_MAX))
    else
        CONVERT(float, to[i] = (char)whole_of_float(x, 0, UINT8_MAX))
}
#undef CONVERT

/* Copies the runs of a rectangle of pixels, `run` bytes each, end to end.  It is not inlined: such
   a loop makes GCC forget to keep the sums of the function around it in registers. */
static NOINLINE void copy_runs(const char *from, ptrdiff_t row, ptrdiff_t column, ptrdiff_t rows,
                               ptrdiff_t columns, size_t run, char *to) {
    for (ptrdiff_t y = 0; y < rows; y++)
        for (ptrdiff_t x = 0; x < columns; x++, to += run)
            memcpy(to, from + y * row + x * column, run);
}

/* Copies runs of `run` elements of a small type, and widens them. */
static NOINLINE void widen_runs(const char *from, int dtype, ptrdiff_t row, ptrdiff_t column,
                                ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t run, float *to) {
    for (ptrdiff_t y = 0; y < rows; y++)
        for (ptrdiff_t x = 0; x < columns; x++, to += run)
            widen_float(from + y * row + x * column, dtype, run, to);
}

#endif
