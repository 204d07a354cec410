/* Converts frames of YCbCr, where two or four pixels share U and V, to red, green and blue.

   Whatever the format, a frame is three planes with strides.  Pixels become bytes, which are then
   summed and sampled like pixels of any other frame.  All is computed with whole numbers of 16
   bits, so that every instruction set gives the same bytes, at most one from the exact ones. */
#ifndef ROICY_YUV_H
#define ROICY_YUV_H

#include "images/axis.h"
#include "simd/simd.h"

/* YUV_RUN pixels are read together.  YUV_STEP pixels are converted together: the even ones are one
   vector of words, and the odd ones are another. */
#if defined(__GNUC__) && defined(__AVX2__)
enum { YUV_STEP = 32 };
#else
enum { YUV_STEP = 16 };
#endif

/* Numbers of YUV_RUN pixels, fractions of 16 bits: Y of even and of odd pixels, U and V. */
enum { YUV_PAIRS = YUV_RUN / 2 };
struct yuv_numbers {
    uint16_t even[YUV_PAIRS], odd[YUV_PAIRS], u[YUV_PAIRS], v[YUV_PAIRS];
};

/* The bits of P010 that count: those below them are zeros, or whatever a device left there. */
enum { YUV_TEN_BITS = 0xffc0 };

/* `count` numbers of a plane, `stride` bytes apart. */
static FORCE_INLINE void yuv_gather(const char *from, ptrdiff_t stride, int wide, int count,
                                    uint16_t *to) {
    for (int i = 0; i < count; i++) {
        uint16_t two = 0;
        if (wide) {
            memcpy(&two, from + i * stride, sizeof two);
            two &= YUV_TEN_BITS;
        } else
            two = (uint16_t)(*(const uint8_t *)(from + i * stride) << 8);
        to[i] = two;
    }
}

/* Numbers that take turns, and follow each other.  This and the next loop become vectors. */
static FORCE_INLINE void yuv_gather_pairs(const char *from, int wide, uint16_t *first,
                                          uint16_t *second) {
    for (int i = 0; wide && i < YUV_PAIRS; i++) {
        memcpy(first + i, from + 4 * i, sizeof *first);
        memcpy(second + i, from + 4 * i + 2, sizeof *second);
        first[i] &= YUV_TEN_BITS;
        second[i] &= YUV_TEN_BITS;
    }
    for (int i = 0; !wide && i < YUV_PAIRS; i++) {
        uint8_t bytes[2];
        uint16_t both;
        memcpy(bytes, from + 2 * i, sizeof bytes);
        both = (uint16_t)(bytes[0] | bytes[1] << 8);
        first[i] = (uint16_t)(both << 8);
        second[i] = both & 0xff00;
    }
}

/* Two pixels in four bytes.  places: where Y, the other Y, U and V are among them. */
static FORCE_INLINE void yuv_gather_fours(const char *from, const ptrdiff_t *places,
                                          struct yuv_numbers *to) {
    for (int i = 0; i < YUV_PAIRS; i++) {
        uint8_t bytes[4];
        uint32_t all;
        memcpy(bytes, from + 4 * i, sizeof bytes);
        all = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
              (uint32_t)bytes[3] << 24;
        to->even[i] = (uint16_t)(all >> 8 * places[0] << 8);
        to->odd[i] = (uint16_t)(all >> 8 * places[1] << 8);
        to->u[i] = (uint16_t)(all >> 8 * places[2] << 8);
        to->v[i] = (uint16_t)(all >> 8 * places[3] << 8);
    }
}

/* Numbers of two planes, or of the even and the odd places of one.  A stride that is a constant
   makes a loop of vectors, so the usual strides have a branch of their own. */
static FORCE_INLINE void yuv_gather_two(const char *first, const char *second, ptrdiff_t stride,
                                        int wide, uint16_t *to_first, uint16_t *to_second) {
    ptrdiff_t size = wide ? 2 : 1;
    if (stride == 2 * size && second == first + size)
        yuv_gather_pairs(first, wide, to_first, to_second);
    else if (stride == 2 * size && first == second + size)
        yuv_gather_pairs(second, wide, to_second, to_first);
    else if (stride == size) {
        yuv_gather(first, size, wide, YUV_PAIRS, to_first);
        yuv_gather(second, size, wide, YUV_PAIRS, to_second);
    } else {
        yuv_gather(first, stride, wide, YUV_PAIRS, to_first);
        yuv_gather(second, stride, wide, YUV_PAIRS, to_second);
    }
}

/* Whether Y, the Y after it, U and V are all four of the bytes that are read together.  Planes may
   be the same memory, and then one of these bytes may belong to none. */
static FORCE_INLINE int yuv_are_fours(ptrdiff_t luma, ptrdiff_t u, ptrdiff_t v) {
    return luma >= 0 && luma < 2 && u >= 0 && u < 4 && v >= 0 && v < 4 &&
           (1 << luma | 4 << luma | 1 << u | 1 << v) == 15;
}

/* Reads the numbers of `count` pixels, at most YUV_RUN.  The first pixel is even. */
static FORCE_INLINE void yuv_read(const struct crop_yuv *yuv, const char *luma, ptrdiff_t stride,
                                  const struct crop_plane *chroma, int count,
                                  struct yuv_numbers *to) {
    const char *u = chroma[0].start, *v = chroma[1].start, *first = luma < u ? luma : u;
    ptrdiff_t apart = chroma[0].stride_x;
    if (count < YUV_RUN || chroma[1].stride_x != apart) {
        yuv_gather(luma, 2 * stride, yuv->wide, (count + 1) / 2, to->even);
        yuv_gather(luma + stride, 2 * stride, yuv->wide, count / 2, to->odd);
        yuv_gather(u, apart, yuv->wide, (count + 1) / 2, to->u);
        yuv_gather(v, chroma[1].stride_x, yuv->wide, (count + 1) / 2, to->v);
    } else if (!yuv->wide && !yuv->shared && stride == 2 && apart == 4 &&
               yuv_are_fours(luma - first, u - first, v - first)) {
        const ptrdiff_t places[4] = {luma - first, luma + 2 - first, u - first, v - first};
        yuv_gather_fours(first, places, to);
    } else if (yuv->wide) {
        yuv_gather_two(luma, luma + stride, 2 * stride, 1, to->even, to->odd);
        yuv_gather_two(u, v, apart, 1, to->u, to->v);
    } else {
        yuv_gather_two(luma, luma + stride, 2 * stride, 0, to->even, to->odd);
        yuv_gather_two(u, v, apart, 0, to->u, to->v);
    }
}

#if defined(__GNUC__) && (defined(__SSE2__) || defined(__aarch64__))
typedef int16_t yuv_words __attribute__((vector_size(YUV_STEP)));
typedef uint16_t yuv_fractions __attribute__((vector_size(YUV_STEP)));

static FORCE_INLINE yuv_fractions yuv_load(const uint16_t *from) {
    yuv_fractions numbers;
    memcpy(&numbers, from, sizeof numbers);
    return numbers;
}

/* yuv_high: the high halves of products.  yuv_pack: 8 even pixels and then 8 odd ones in each 16
   bytes.  yuv_weave: writes such colours pixel by pixel; the byte after the last may change. */
#if defined(__aarch64__)
typedef uint8x16_t yuv_bytes;

static FORCE_INLINE yuv_words yuv_high(yuv_words numbers, int16_t scale) {
    int16x8_t all = (int16x8_t)numbers;
    int16x4_t low = vshrn_n_s32(vmull_n_s16(vget_low_s16(all), scale), 16);
    return (yuv_words)vshrn_high_n_s32(low, vmull_high_n_s16(all, scale), 16);
}

static FORCE_INLINE yuv_bytes yuv_pack(yuv_words even, yuv_words odd) {
    return vqmovun_high_s16(vqmovun_s16((int16x8_t)even), (int16x8_t)odd);
}

static FORCE_INLINE void yuv_weave(const yuv_bytes *rgb, uint8_t *to) {
    uint8x16x3_t pixels;
    for (int c = 0; c < 3; c++)
        pixels.val[c] = vzip1q_u8(rgb[c], vextq_u8(rgb[c], rgb[c], 8));
    vst3q_u8(to, pixels);
}
#else
#if defined(__AVX2__)
typedef __m256i yuv_bytes;
#define YUV_(name) _mm256_##name
#define YUV_ALL_LANES(lane) _mm256_broadcastsi128_si256(lane)
#else
typedef __m128i yuv_bytes;
#define YUV_(name) _mm_##name
#define YUV_ALL_LANES(lane) (lane)
#endif

static FORCE_INLINE yuv_words yuv_high(yuv_words numbers, int16_t scale) {
    return (yuv_words)YUV_(mulhi_epi16)((yuv_bytes)numbers, YUV_(set1_epi16)(scale));
}

static FORCE_INLINE yuv_bytes yuv_pack(yuv_words even, yuv_words odd) {
    return YUV_(packus_epi16)((yuv_bytes)even, (yuv_bytes)odd);
}

#if defined(__SSSE3__)
static FORCE_INLINE void yuv_weave(const yuv_bytes *rgb, uint8_t *to) {
#define PIXEL(i, c) ((i) % 3 != (c) ? -1 : (i) / 3 / 2 + (i) / 3 % 2 * 8)
#define FOUR(i, c) PIXEL(i, c), PIXEL(i + 1, c), PIXEL(i + 2, c), PIXEL(i + 3, c)
#define ALL(i, c) { FOUR(i, c), FOUR(i + 4, c), FOUR(i + 8, c), FOUR(i + 12, c) }
    /* pixels[v][c][j] is of byte 16 v + j of the result: where its pixel is in rgb[c], if the byte
       is of colour c, else -1.  yuv_pack has put even pixels first, odd ones 8 bytes later. */
    static const int8_t pixels[3][3][16] = {{ALL(0, 0), ALL(0, 1), ALL(0, 2)},
                                            {ALL(16, 0), ALL(16, 1), ALL(16, 2)},
                                            {ALL(32, 0), ALL(32, 1), ALL(32, 2)}};
#undef PIXEL
#undef FOUR
#undef ALL
    for (int i = 0; i < 3; i++) {
        yuv_bytes parts[3];
        for (int c = 0; c < 3; c++) {
            __m128i lane = _mm_loadu_si128((const __m128i *)pixels[i][c]);
            parts[c] = YUV_(shuffle_epi8)(rgb[c], YUV_ALL_LANES(lane));
        }
        yuv_bytes all = parts[0] | parts[1] | parts[2];
        for (int lane = 0; lane < YUV_STEP / 16; lane++) /* each 16 bytes, 48 bytes apart */
            memcpy(to + 16 * i + 48 * lane, (const char *)&all + 16 * lane, 16);
    }
}
#else
static FORCE_INLINE void yuv_weave(const yuv_bytes *rgb, uint8_t *to) {
    uint32_t pixels[YUV_STEP];
    __m128i of[3], zero = _mm_setzero_si128();
    for (int c = 0; c < 3; c++)
        of[c] = _mm_unpacklo_epi8(rgb[c], _mm_srli_si128(rgb[c], 8));
    __m128i low = _mm_unpacklo_epi8(of[0], of[1]), high = _mm_unpackhi_epi8(of[0], of[1]);
    __m128i blue = _mm_unpacklo_epi8(of[2], zero), rest = _mm_unpackhi_epi8(of[2], zero);
    _mm_storeu_si128((__m128i *)pixels, _mm_unpacklo_epi16(low, blue));
    _mm_storeu_si128((__m128i *)(pixels + 4), _mm_unpackhi_epi16(low, blue));
    _mm_storeu_si128((__m128i *)(pixels + 8), _mm_unpacklo_epi16(high, rest));
    _mm_storeu_si128((__m128i *)(pixels + 12), _mm_unpackhi_epi16(high, rest));
    for (int i = 0; i < YUV_STEP; i++)
        memcpy(to + 3 * i, pixels + i, sizeof *pixels);
}
#endif
#undef YUV_
#undef YUV_ALL_LANES
#endif

/* YUV_STEP pixels from pair `first` on. */
static FORCE_INLINE void yuv_mix(const struct crop_yuv *yuv, const struct yuv_numbers *from,
                                 int first, uint8_t *to) {
    yuv_words even = yuv_high((yuv_words)(yuv_load(from->even + first) >> 1), yuv->luma);
    yuv_words odd = yuv_high((yuv_words)(yuv_load(from->odd + first) >> 1), yuv->luma);
    yuv_words u = (yuv_words)yuv_load(from->u + first) ^ INT16_MIN;
    yuv_words v = (yuv_words)yuv_load(from->v + first) ^ INT16_MIN;
    yuv_bytes rgb[3];
    for (int c = 0; c < 3; c++) {
        yuv_words part = (yuv_words){0} + yuv->bias[c];
        if (c > 0)
            part += yuv_high(u, yuv->from_u[c]);
        if (c < 2)
            part += yuv_high(v, yuv->from_v[c]);
        rgb[c] = yuv_pack((even + part) >> 5, (odd + part) >> 5);
    }
    yuv_weave(rgb, to);
}
#else
static FORCE_INLINE int yuv_high(int number, int scale) { return number * scale >> 16; }

static FORCE_INLINE uint8_t yuv_byte(int sum) {
    int value = sum >> 5;
    value = value > 0 ? value : 0;
    return (uint8_t)(value < 255 ? value : 255);
}

static FORCE_INLINE void yuv_mix(const struct crop_yuv *yuv, const struct yuv_numbers *from,
                                 int first, uint8_t *to) {
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < YUV_STEP; i++) {
            int at = first + i / 2;
            int part = yuv->bias[c] + yuv_high(from->u[at] - 0x8000, yuv->from_u[c]) +
                       yuv_high(from->v[at] - 0x8000, yuv->from_v[c]);
            int luma = (i % 2 ? from->odd : from->even)[at];
            to[3 * i + c] = yuv_byte(yuv_high(luma >> 1, yuv->luma) + part);
        }
}
#endif

/* Converts `wanted` of `count` pixels, at most YUV_RUN.  The first pixel is even.  `to` has room
   for YUV_RUN pixels and one byte more, and all of it may change. */
static FORCE_INLINE void yuv_convert_run(const struct crop_yuv *yuv, const char *luma,
                                         ptrdiff_t stride, const struct crop_plane *chroma,
                                         int count, ptrdiff_t wanted, uint8_t *to) {
    struct yuv_numbers numbers;
    if (count < YUV_RUN)
        memset(&numbers, 0, sizeof numbers);
    yuv_read(yuv, luma, stride, chroma, count, &numbers);
    for (int i = 0; i < YUV_RUN && i < wanted; i += YUV_STEP)
        yuv_mix(yuv, &numbers, i / 2, to + 3 * i);
}

/* Converts a run in which each pixel has U and V of its own.  All pixels get those of the even ones
   first, and then the odd pixels are converted again. */
static NOINLINE void yuv_convert_each(const struct crop_yuv *yuv, const char *luma,
                                      ptrdiff_t stride, const struct crop_plane *chroma, int count,
                                      ptrdiff_t wanted, uint8_t *to) {
    struct crop_plane odd[2] = {chroma[0], chroma[1]};
    uint8_t pixels[YUV_SPARE];
    for (int i = 0; i < 2; i++)
        odd[i].start += odd[i].stride_x / 2;
    yuv_convert_run(yuv, luma, stride, chroma, count, wanted, to);
    yuv_convert_run(yuv, luma, stride, odd, count & ~1, wanted, pixels);
    for (int i = 1; i < YUV_RUN && i < wanted; i += 2)
        memcpy(to + 3 * i, pixels + 3 * i, 3);
}

/* Converts red, green and blue of 5, 6 and 5 bits.  Their high bits are repeated as low bits. */
static NOINLINE void rgb565_convert(const char *from, ptrdiff_t stride, ptrdiff_t count,
                                    uint8_t *to) {
    for (ptrdiff_t i = 0; i < count; i++) {
        uint16_t all;
        memcpy(&all, from + i * stride, sizeof all);
        to[3 * i] = (uint8_t)((all >> 8 & 0xf8) | all >> 13);
        to[3 * i + 1] = (uint8_t)((all >> 3 & 0xfc) | (all >> 9 & 3));
        to[3 * i + 2] = (uint8_t)((all << 3 & 0xf8) | (all >> 2 & 7));
    }
}

/* Converts pixels x .. x + count - 1 of row y of YCbCr; x is even.  The YUV_SPARE bytes after them
   may change.  YUV_RUN pixels are always converted: beyond the last one too or, at the edge of the
   frame, before the first.  The row YUV_AHEAD rows below is prefetched, since it is read soon. */
enum { YUV_AHEAD = 8 };
static NOINLINE void crop_convert(const struct frame *frame, ptrdiff_t y, ptrdiff_t x,
                                  ptrdiff_t count, uint8_t *to) {
    const struct crop_yuv yuv = *frame->yuv;
    const char *row = frame->pixels.start + y * frame->pixels.stride_y;
    ptrdiff_t stride = frame->pixels.stride_x, width = frame->width;
    ptrdiff_t ahead = y + YUV_AHEAD < frame->height ? YUV_AHEAD : 0;
    if (yuv.rgb565) {
        rgb565_convert(row + x * stride, stride, count, to);
        return;
    }
    for (ptrdiff_t at = 0; at < count; at += YUV_RUN) {
        struct crop_plane chroma[2] = {frame->chroma[0], frame->chroma[1]};
        uint8_t edge[YUV_SPARE];
        ptrdiff_t first = x + at, left = width - first;
        if (left < YUV_RUN && PLANTED("the last pixels begin with an odd one"))
            first = width > YUV_RUN ? width - YUV_RUN : 0;
        else if (left < YUV_RUN)
            first = width > YUV_RUN ? (width - YUV_RUN + 1) & ~(ptrdiff_t)1 : 0;
        for (int i = 0; i < 2; i++) {
            chroma[i].start +=
                (y >> yuv.shared) * chroma[i].stride_y + first / 2 * chroma[i].stride_x;
            prefetch_l1(chroma[i].start + (ahead >> yuv.shared) * chroma[i].stride_y);
        }
        prefetch_l1(row + first * stride + ahead * frame->pixels.stride_y);
        if (left >= YUV_RUN && yuv.own_chroma) {
            yuv_convert_each(&yuv, row + first * stride, stride, chroma, YUV_RUN, count - at,
                             to + 3 * at);
            continue;
        }
        if (left >= YUV_RUN) {
            yuv_convert_run(&yuv, row + first * stride, stride, chroma, YUV_RUN, count - at,
                            to + 3 * at);
            continue;
        }
        (yuv.own_chroma ? yuv_convert_each : yuv_convert_run)(
            &yuv, row + first * stride, stride, chroma, (int)(width - first), YUV_RUN, edge);
        memcpy(to + 3 * at, edge + 3 * (x + at - first), (size_t)(3 * (count - at)));
    }
}

#endif
