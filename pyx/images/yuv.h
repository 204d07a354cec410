/* Frames of YCbCr, of which two or four pixels share U and V: their pixels as red, green and blue.

   Whatever the format, a frame is three planes with strides.  Pixels become bytes, which are then
   summed and sampled as those of any other frame.  All is computed with whole numbers of 16 bits,
   so that every instruction set gives the same bytes, at most one from the exact ones. */
#ifndef ROICY_YUV_H
#define ROICY_YUV_H

#include "simd/simd.h"

/* Pixels that are converted together. */
enum { YUV_RUN = 64, YUV_STEP = 16 };

/* How YCbCr becomes red, green and blue: y * luma + u * from_u[c] + v * from_v[c] + bias[c], where
   Y is a number of 15 bits, U and V are numbers of 16 bits with a sign, and products lose their low
   half.  The sum has 5 bits after the point.  Red has no part of U, and blue has none of V. */
struct crop_yuv {
    int shared; /* rows of Y for each row of U and V are 1 << shared */
    int wide;   /* numbers have two bytes, of which the high bits count */
    int16_t luma, bias[3], from_u[3], from_v[3];
};

/* U or V of a frame.  Strides are bytes. */
struct crop_plane {
    const char *start;
    ptrdiff_t stride_y, stride_x;
};

/* `count` numbers of a plane as fractions of 16 bits; loops of known steps become whole vectors. */
static FORCE_INLINE void yuv_numbers(const char *from, ptrdiff_t step, int wide, int count,
                                     uint16_t *to) {
    for (int i = 0; i < count; i++) {
        uint16_t two = 0;
        if (wide)
            memcpy(&two, from + i * step, sizeof two);
        else
            two = (uint16_t)(*(const uint8_t *)(from + i * step) << 8);
        to[i] = two;
    }
}

static FORCE_INLINE void yuv_gather(const char *from, ptrdiff_t step, int wide, int count,
                                    uint16_t *to) {
    if (wide)
        yuv_numbers(from, step, 1, count, to);
    else if (step == 1)
        yuv_numbers(from, 1, 0, count, to);
    else if (step == 2)
        yuv_numbers(from, 2, 0, count, to);
    else
        yuv_numbers(from, step, 0, count, to);
}

/* Bytes of two planes that take turns. */
static FORCE_INLINE void yuv_gather_pairs(const char *from, int count, uint16_t *first,
                                          uint16_t *second) {
    for (int i = 0; i < count; i++) {
        uint8_t two[2];
        uint16_t both;
        memcpy(two, from + 2 * i, sizeof two);
        both = (uint16_t)(two[0] | two[1] << 8);
        first[i] = (uint16_t)(both << 8);
        second[i] = both & 0xff00;
    }
}

#if defined(__SSE2__)
static FORCE_INLINE __m128i yuv_load(const void *from) {
    return _mm_loadu_si128((const __m128i *)from);
}

/* Red, green and blue of 16 pixels, one after the other.  The byte after the last may change. */
static FORCE_INLINE void yuv_weave(const __m128i *rgb, uint8_t *to) {
#if defined(__SSSE3__)
#define PIXEL(i, c) ((i) % 3 == (c) ? (i) / 3 : -1)
#define FOUR(i, c) PIXEL(i, c), PIXEL(i + 1, c), PIXEL(i + 2, c), PIXEL(i + 3, c)
#define ALL(i, c)                                                                                  \
    {                                                                                              \
        FOUR(i, c), FOUR(i + 4, c), FOUR(i + 8, c), FOUR(i + 12, c)                                \
    }
    /* Of each byte of the result: its pixel, if it is of this colour. */
    static const int8_t pixels[3][3][16] = {{ALL(0, 0), ALL(0, 1), ALL(0, 2)},
                                            {ALL(16, 0), ALL(16, 1), ALL(16, 2)},
                                            {ALL(32, 0), ALL(32, 1), ALL(32, 2)}};
#undef PIXEL
#undef FOUR
#undef ALL
    for (int i = 0; i < 3; i++) {
        __m128i bytes = _mm_shuffle_epi8(rgb[0], yuv_load(pixels[i][0]));
        bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(rgb[1], yuv_load(pixels[i][1])));
        bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(rgb[2], yuv_load(pixels[i][2])));
        _mm_storeu_si128((__m128i *)(to + 16 * i), bytes);
    }
#else
    uint32_t pixels[YUV_STEP];
    __m128i zero = _mm_setzero_si128();
    __m128i low = _mm_unpacklo_epi8(rgb[0], rgb[1]), high = _mm_unpackhi_epi8(rgb[0], rgb[1]);
    __m128i blue = _mm_unpacklo_epi8(rgb[2], zero), rest = _mm_unpackhi_epi8(rgb[2], zero);
    _mm_storeu_si128((__m128i *)pixels, _mm_unpacklo_epi16(low, blue));
    _mm_storeu_si128((__m128i *)(pixels + 4), _mm_unpackhi_epi16(low, blue));
    _mm_storeu_si128((__m128i *)(pixels + 8), _mm_unpacklo_epi16(high, rest));
    _mm_storeu_si128((__m128i *)(pixels + 12), _mm_unpackhi_epi16(high, rest));
    for (int i = 0; i < YUV_STEP; i++)
        memcpy(to + 3 * i, pixels + i, sizeof *pixels);
#endif
}

static FORCE_INLINE void yuv_mix(const struct crop_yuv *yuv, const uint16_t *luma,
                                 const uint16_t *u, const uint16_t *v, uint8_t *to) {
    __m128i middle = _mm_set1_epi16(INT16_MIN), scale = _mm_set1_epi16(yuv->luma), rgb[3];
    __m128i of_u = _mm_xor_si128(yuv_load(u), middle), of_v = _mm_xor_si128(yuv_load(v), middle);
    __m128i left = _mm_mulhi_epi16(_mm_srli_epi16(yuv_load(luma), 1), scale);
    __m128i right = _mm_mulhi_epi16(_mm_srli_epi16(yuv_load(luma + YUV_STEP / 2), 1), scale);
    for (int c = 0; c < 3; c++) {
        __m128i part = _mm_set1_epi16(yuv->bias[c]), low, high;
        if (c > 0)
            part = _mm_add_epi16(part, _mm_mulhi_epi16(of_u, _mm_set1_epi16(yuv->from_u[c])));
        if (c < 2)
            part = _mm_add_epi16(part, _mm_mulhi_epi16(of_v, _mm_set1_epi16(yuv->from_v[c])));
        low = _mm_add_epi16(left, _mm_unpacklo_epi16(part, part));
        high = _mm_add_epi16(right, _mm_unpackhi_epi16(part, part));
        rgb[c] = _mm_packus_epi16(_mm_srai_epi16(low, 5), _mm_srai_epi16(high, 5));
    }
    yuv_weave(rgb, to);
}
#else
static FORCE_INLINE int yuv_high(int number, int scale) { return number * scale >> 16; }

static FORCE_INLINE void yuv_mix(const struct crop_yuv *yuv, const uint16_t *luma,
                                 const uint16_t *u, const uint16_t *v, uint8_t *to) {
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < YUV_STEP; i++) {
            int part = yuv->bias[c] + yuv_high(u[i / 2] - 0x8000, yuv->from_u[c]) +
                       yuv_high(v[i / 2] - 0x8000, yuv->from_v[c]);
            int value = (yuv_high(luma[i] >> 1, yuv->luma) + part) >> 5;
            value = value > 0 ? value : 0;
            to[3 * i + c] = (uint8_t)(value < 255 ? value : 255);
        }
}
#endif

/* `count` pixels, up to `most`, for which `to` has room and one byte more: all may change. */
static FORCE_INLINE void yuv_convert_run(const struct crop_yuv *yuv, const char *luma,
                                         ptrdiff_t step, const struct crop_plane *chroma, int count,
                                         int most, uint8_t *to) {
    uint16_t y[YUV_RUN] = {0}, u[YUV_RUN / 2] = {0}, v[YUV_RUN / 2] = {0};
    int pairs = (count + 1) / 2;
    const char *from_u = chroma[0].start, *from_v = chroma[1].start;
    ptrdiff_t step_u = chroma[0].stride_x, step_v = chroma[1].stride_x;
    int together = !yuv->wide && step_u == 2 && step_v == 2;
    yuv_gather(luma, step, yuv->wide, count, y);
    if (together && from_v == from_u + 1)
        yuv_gather_pairs(from_u, pairs, u, v);
    else if (together && from_u == from_v + 1)
        yuv_gather_pairs(from_v, pairs, v, u);
    else {
        yuv_gather(from_u, step_u, yuv->wide, pairs, u);
        yuv_gather(from_v, step_v, yuv->wide, pairs, v);
    }
    for (int i = 0; i < most; i += YUV_STEP)
        yuv_mix(yuv, y + i, u + i / 2, v + i / 2, to + 3 * i);
}

#endif
