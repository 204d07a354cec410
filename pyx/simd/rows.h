/* Sums of pixels along both axes, for crops and for roi_align of few channels.

   A block is as many output rows as a lane vector has numbers.  Rows of pixels are summed first,
   with vectors along the row, whatever the number of channels.  Squares of these sums are
   transposed to a strip [column][channel][row].  Sums along x then need no shuffles. */
#ifndef ROICY_SIMD_ROWS_H
#define ROICY_SIMD_ROWS_H

#include "simd/structs.h"
#include "simd/vector.h"

/* The kinds of lines; functions that are inlined know them. */
enum { INTERVALS, TRIANGLES, LISTED };
static FORCE_INLINE int kind_of_lines(const struct lines *lines) {
    return !lines->intervals ? LISTED : lines->triangles ? TRIANGLES : INTERVALS;
}

/* The number of taps of line i. */
static FORCE_INLINE ptrdiff_t taps_of_line(const struct lines *lines, int i, int of) {
    if (of != LISTED)
        return lines->intervals[i].high - lines->intervals[i].low + 1;
    return lines->list.spans[2 * i + 1] - lines->list.spans[2 * i];
}

/* The pixel of tap t of line i. */
static FORCE_INLINE ptrdiff_t pixel_of_line(const struct lines *lines, int i, ptrdiff_t t, int of) {
    return of == LISTED ? lines->list.pixel[lines->list.spans[2 * i] + t]
                        : lines->intervals[i].low + t;
}

/* The next bytes as a vector of floats. */
static FORCE_INLINE vector_float load_bytes_float(const uint8_t *from) {
#if defined(__AVX512F__)
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from)));
#elif defined(__AVX2__)
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from)));
#elif defined(__SSE2__)
    int32_t four;
    memcpy(&four, from, sizeof four);
    __m128i zero = _mm_setzero_si128();
    __m128i bytes = _mm_unpacklo_epi8(_mm_cvtsi32_si128(four), zero);
    return _mm_cvtepi32_ps(_mm_unpacklo_epi16(bytes, zero));
#else
    float numbers[VECTOR_BYTES / sizeof(float)];
    for (int i = 0; i < (int)(VECTOR_BYTES / sizeof(float)); i++)
        numbers[i] = from[i];
    return load_float(numbers);
#endif
}

/* Maps of bytes are computed in float: nobody calls this, but code for both types compiles. */
static FORCE_INLINE vector_double load_bytes_double(const uint8_t *from) {
    (void)from;
    return load_double((const double *)(const void *)from);
}

/* Copies numbers at .. at + count - 1 of a row, `size` bytes each, which do not follow each other.
 */
static FORCE_INLINE void gather_numbers(const struct source *source, const char *row, ptrdiff_t at,
                                        int count, size_t size, char *to) {
    ptrdiff_t x = at / source->channels, c = at - x * source->channels;
    const char *pixel = row + x * source->stride_x;
    for (int i = 0; i < count; i++, to += size) {
        memcpy(to, pixel + c * source->stride_c, size);
        if (++c == source->channels) {
            c = 0;
            pixel += source->stride_x;
        }
    }
}

#endif
