/* Bytes resized as Pillow or PyTorch does: a weighted sum of lines of bytes, rounded and clipped to
   bytes after each axis.

   Along y, lines are rows of a frame.  Along x, RESIZE_ROWS rows are transposed first, so that a
   line is one column of them, and transposed back.  Either sum is then one of whole vectors.

   Two lines are interleaved, and a product of 16 bits and the sum of two is one instruction.
   Pillow's weights have more bits, so there are two such sums, of their low and high parts; they
   are called wide.  PyTorch's have 16, of which `bits` lie after the point.  All sums are exact but
   for multiples of 2**32. */
#ifndef ROICY_RESIZE_H
#define ROICY_RESIZE_H

#include "images/structs.h"
#include "simd/simd.h"

/* The sums of at most RESIZE_ROWS bytes of lines, which are `stride` bytes apart. */
static FORCE_INLINE void resize_some(const uint8_t *from, ptrdiff_t stride,
                                     const struct resize_pair *pairs, int taps, int bits, int count,
                                     uint8_t *to) {
    uint32_t sums[RESIZE_ROWS];
    for (int i = 0; i < count; i++)
        sums[i] = 1u << (bits - 1);
    for (int t = 0; t < taps; t++, from += stride) {
        const struct resize_pair *pair = pairs + t / 2;
        uint32_t weight = (uint32_t)(pair->low[t % 2] + pair->high[t % 2] * (1 << RESIZE_LOW));
        for (int i = 0; i < count; i++)
            sums[i] += from[i] * weight;
    }
    for (int i = 0; i < count; i++) {
        int32_t value = (int32_t)sums[i] >> bits;
        value = value > 0 ? value : 0;
        to[i] = (uint8_t)(value < 255 ? value : 255);
    }
}

#if defined(__SSE2__)
typedef uint32_t resize_sums __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t resize_shifted __attribute__((vector_size(VECTOR_BYTES)));
#if VECTOR_BYTES == 64 && defined(__AVX512BW__)
typedef __m512i resize_wide;
#define WIDE(name) _mm512_##name
#elif VECTOR_BYTES == 32 && defined(__AVX2__)
typedef __m256i resize_wide;
#define WIDE(name) _mm256_##name
#else
typedef __m128i resize_wide;
#define WIDE(name) _mm_##name
#endif
enum { RESIZE_BYTES = sizeof(resize_wide) }; /* that are summed at once */

static FORCE_INLINE resize_wide resize_load(const uint8_t *from) {
    resize_wide bytes;
    memcpy(&bytes, from, sizeof bytes);
    return bytes;
}

/* Two weights in all lanes.  They are loaded one by one: together they would take a detour. */
static FORCE_INLINE resize_wide resize_splat(const int16_t *two) {
#if defined(__AVX2__)
    return WIDE(broadcastd_epi32)(_mm_castps_si128(_mm_load_ss((const float *)(const void *)two)));
#else
    return _mm_shuffle_epi32(_mm_castps_si128(_mm_load_ss((const float *)(const void *)two)), 0);
#endif
}

/* Adds two lines.  The order of bytes is that of unpack instructions, which pack ones undo. */
static FORCE_INLINE void resize_add(resize_wide a, resize_wide b, const struct resize_pair *pair,
                                    int wide, resize_sums *low, resize_sums *high) {
    const resize_wide zero = {0};
    const resize_wide by_low = resize_splat(pair->low), by_high = resize_splat(pair->high);
    resize_wide two[2] = {WIDE(unpacklo_epi8)(a, b), WIDE(unpackhi_epi8)(a, b)};
    for (int i = 0; i < 4; i++) {
        resize_wide words =
            i % 2 ? WIDE(unpackhi_epi8)(two[i / 2], zero) : WIDE(unpacklo_epi8)(two[i / 2], zero);
        low[i] += (resize_sums)WIDE(madd_epi16)(words, by_low);
        if (wide)
            high[i] += (resize_sums)WIDE(madd_epi16)(words, by_high);
    }
}

/* The sums of RESIZE_BYTES bytes of lines. */
static FORCE_INLINE void resize_bytes(const uint8_t *from, ptrdiff_t stride,
                                      const struct resize_pair *pairs, int taps, int wide, int bits,
                                      uint8_t *to) {
    resize_sums low[4], high[4];
    resize_wide whole[4];
    for (int i = 0; i < 4; i++) {
        low[i] = (resize_sums){0} + (1u << (bits - 1));
        high[i] = (resize_sums){0};
    }
    for (; taps > 1; taps -= 2, from += 2 * stride)
        resize_add(resize_load(from), resize_load(from + stride), pairs++, wide, low, high);
    if (taps > 0)
        resize_add(resize_load(from), (resize_wide){0}, pairs, wide, low, high);
    for (int i = 0; i < 4; i++)
        whole[i] = (resize_wide)((resize_shifted)(low[i] + (high[i] << RESIZE_LOW)) >> bits);
    whole[0] = WIDE(packs_epi32)(whole[0], whole[1]);
    whole[0] = WIDE(packus_epi16)(whole[0], WIDE(packs_epi32)(whole[2], whole[3]));
    memcpy(to, whole, RESIZE_BYTES);
}
#else
enum { RESIZE_BYTES = 16 };

static FORCE_INLINE void resize_bytes(const uint8_t *from, ptrdiff_t stride,
                                      const struct resize_pair *pairs, int taps, int wide, int bits,
                                      uint8_t *to) {
    (void)wide;
    resize_some(from, stride, pairs, taps, bits, RESIZE_BYTES, to);
}
#endif

static FORCE_INLINE const struct resize_pair *resize_pairs(const struct resize_axis *axis, int i) {
    return axis->pairs + (ptrdiff_t)i * ((axis->taps + 1) / 2);
}

/* Output pixel i of `count` bytes of lines; the first of its taps lies at `from`.  The last vector
   overlaps the one before it, so that nothing past the lines is read. */
static FORCE_INLINE void resize_one_line(const struct resize_axis *axis, int i, int wide,
                                         const uint8_t *from, ptrdiff_t stride, ptrdiff_t count,
                                         uint8_t *to) {
    const struct resize_pair *pairs = resize_pairs(axis, i);
    int taps = axis->spans[2 * i + 1], bits = axis->bits;
    if (count < RESIZE_BYTES)
        resize_some(from, stride, pairs, taps, bits, (int)count, to);
    for (ptrdiff_t at = 0; count >= RESIZE_BYTES && at < count; at += RESIZE_BYTES) {
        at = at < count - RESIZE_BYTES ? at : count - RESIZE_BYTES;
        resize_bytes(from + at, stride, pairs, taps, wide, bits, to + at);
    }
}

static NOINLINE void resize_line(const struct resize_axis *axis, int i, const uint8_t *from,
                                 ptrdiff_t stride, ptrdiff_t count, uint8_t *to) {
    if (axis->wide)
        resize_one_line(axis, i, 1, from, stride, count, to);
    else
        resize_one_line(axis, i, 0, from, stride, count, to);
}

/* Output pixel i of transposed rows, a line for each channel; stride: from pixel to pixel. */
static FORCE_INLINE void resize_one_column(const struct resize_axis *axis, int i, int wide,
                                           int channels, int rows, const uint8_t *from,
                                           ptrdiff_t stride, uint8_t *to) {
    const struct resize_pair *pairs = resize_pairs(axis, i);
    int taps = axis->spans[2 * i + 1], bits = axis->bits;
    for (int c = 0; c < channels; c++, from += RESIZE_ROWS, to += RESIZE_ROWS)
        for (int at = 0; at < rows; at += RESIZE_BYTES)
            resize_bytes(from + at, stride, pairs, taps, wide, bits, to + at);
}

/* Output pixels first .. stop - 1 of transposed rows: a line of RESIZE_ROWS bytes for each byte of
   a pixel of `pitch` bytes, from the first tap on, of which `rows` count. */
static NOINLINE void resize_columns(const struct resize_axis *axis, int first, int stop, int pitch,
                                    int channels, int rows, const uint8_t *lines, uint8_t *to) {
    const int32_t *spans = axis->spans;
    const ptrdiff_t stride = (ptrdiff_t)pitch * RESIZE_ROWS;
    for (int i = first; i < stop; i++, to += channels * RESIZE_ROWS) {
        const uint8_t *from = lines + (spans[2 * i] - spans[2 * first]) * stride;
        if (axis->wide)
            resize_one_column(axis, i, 1, channels, rows, from, stride, to);
        else
            resize_one_column(axis, i, 0, channels, rows, from, stride, to);
    }
}

/* A square of 16 x 16 bytes is transposed in four rounds, of which each turns the index of a byte
   by one bit: the bits are those of its row, and then those of its column.  Vectors have a square
   in each 16 bytes of theirs. */
enum { RESIZE_SQUARE = 16 };
#if defined(__SSE2__)
enum { RESIZE_SEGMENTS = sizeof(resize_wide) / RESIZE_SQUARE };
#define ZIP_LOW(a, b) WIDE(unpacklo_epi8)(a, b)
#define ZIP_HIGH(a, b) WIDE(unpackhi_epi8)(a, b)
#elif defined(__aarch64__)
typedef uint8x16_t resize_wide;
enum { RESIZE_SEGMENTS = 1 };
#define ZIP_LOW(a, b) vzip1q_u8(a, b)
#define ZIP_HIGH(a, b) vzip2q_u8(a, b)
#endif

#ifdef ZIP_LOW
static FORCE_INLINE void resize_turn(resize_wide *a) {
    resize_wide b[RESIZE_SQUARE];
    for (int turn = 0; turn < 4; turn++) {
        UNROLLED(8)
        for (int i = 0; i < RESIZE_SQUARE / 2; i++) {
            b[2 * i] = ZIP_LOW(a[i], a[i + RESIZE_SQUARE / 2]);
            b[2 * i + 1] = ZIP_HIGH(a[i], a[i + RESIZE_SQUARE / 2]);
        }
        UNROLLED(16)
        for (int i = 0; i < RESIZE_SQUARE; i++)
            a[i] = b[i];
    }
}
#else
typedef struct {
    uint8_t bytes[RESIZE_SQUARE];
} resize_wide;
enum { RESIZE_SEGMENTS = 1 };

static FORCE_INLINE void resize_turn(resize_wide *a) {
    for (int i = 0; i < RESIZE_SQUARE; i++)
        for (int j = 0; j < i; j++) {
            uint8_t byte = a[i].bytes[j];
            a[i].bytes[j] = a[j].bytes[i];
            a[j].bytes[i] = byte;
        }
}
#endif

/* 16 bytes of each square's row: those at `at` of rows[0], rows[16] and so on. */
static FORCE_INLINE resize_wide resize_gather(const uint8_t *const *rows, ptrdiff_t at) {
    resize_wide all;
#if defined(__SSE2__)
    __m128i parts[RESIZE_SEGMENTS];
    for (int i = 0; i < RESIZE_SEGMENTS; i++)
        parts[i] = _mm_loadu_si128((const __m128i *)(rows[i * RESIZE_SQUARE] + at));
#if VECTOR_BYTES == 64
    all = _mm512_inserti32x4(_mm512_castsi128_si512(parts[0]), parts[1], 1);
    all = _mm512_inserti32x4(_mm512_inserti32x4(all, parts[2], 2), parts[3], 3);
#elif VECTOR_BYTES == 32
    all = _mm256_inserti128_si256(_mm256_castsi128_si256(parts[0]), parts[1], 1);
#else
    all = parts[0];
#endif
#else
    memcpy(&all, rows[0] + at, sizeof all);
#endif
    return all;
}

/* Transposes at most RESIZE_ROWS rows of bytes to lines of RESIZE_ROWS bytes.  Where there are
   fewer rows, the last stands for those that lack.  The bytes that follow are prefetched, since
   they are read next. */
static NOINLINE void resize_to_lines(const uint8_t *from, ptrdiff_t stride, int rows, int columns,
                                     uint8_t *to) {
    enum { n = RESIZE_SQUARE, s = RESIZE_SEGMENTS };
    const uint8_t *starts[RESIZE_ROWS];
    for (int j = 0; j < RESIZE_ROWS; j++)
        starts[j] = from + (j < rows ? j : rows - 1) * stride;
    if (columns < n) {
        for (int i = 0; i < columns; i++)
            for (int j = 0; j < RESIZE_ROWS; j++)
                to[i * RESIZE_ROWS + j] = starts[j][i];
        return;
    }
    for (int i = 0; i < columns; i += LANE_BYTES)
        for (int j = 0; j < rows; j++)
            prefetch_l2((const char *)((uintptr_t)starts[j] + (uintptr_t)(columns + i)));
    for (int j = 0; j < rows; j += s * n)
        for (int i = 0; i < columns; i += n) {
            int at = i + n <= columns ? i : columns - n;
            resize_wide a[n];
            UNROLLED(16)
            for (int k = 0; k < n; k++)
                a[k] = resize_gather(starts + j + k, at);
            resize_turn(a);
            UNROLLED(16)
            for (int k = 0; k < n; k++)
                memcpy(to + (at + k) * RESIZE_ROWS + j, a + k, sizeof a[k]);
        }
}

/* Transposes lines to rows.  All bytes of rows are written to a multiple of RESIZE_SQUARE. */
static NOINLINE void resize_to_rows(const uint8_t *from, int lines, int rows, uint8_t *to,
                                    ptrdiff_t stride) {
    enum { n = RESIZE_SQUARE, s = RESIZE_SEGMENTS };
    for (int i = 0; i < lines; i += n)
        for (int j = 0; j < rows; j += s * n) {
            resize_wide a[n];
            UNROLLED(16)
            for (int k = 0; k < n; k++)
                memcpy(a + k, from + (i + k) * RESIZE_ROWS + j, sizeof a[k]);
            resize_turn(a);
            UNROLLED(16)
            for (int k = 0; k < n; k++)
                for (int l = 0; l < s; l++)
                    if (j + l * n + k < rows)
                        memcpy(to + (j + l * n + k) * stride + i, (const char *)(a + k) + l * n, n);
        }
}
#ifdef WIDE
#undef WIDE
#endif

/* Looks `count` bytes up, `pitch` apart, or padding if there are none; results are `stride` apart.
 */
#define LOOK_UP(type)                                                                              \
    static FORCE_INLINE void resize_look_up_##type(const uint8_t *from, int pitch, int count,      \
                                                   const char *table, char *to,                    \
                                                   ptrdiff_t stride) {                             \
        UNROLLED(4)                                                                                \
        for (int i = 0; i < count; i++)                                                            \
            memcpy(to + i * stride, table + (from ? from[i * pitch] : 256) * sizeof(type),         \
                   sizeof(type));                                                                  \
    }
LOOK_UP(uint8_t)
LOOK_UP(uint16_t)
LOOK_UP(uint32_t)
#undef LOOK_UP

static FORCE_INLINE void resize_look_up(const uint8_t *from, int pitch, int count,
                                        const char *table, char *to, ptrdiff_t stride, int size) {
    if (size == 1)
        resize_look_up_uint8_t(from, pitch, count, table, to, stride);
    else if (size == 2)
        resize_look_up_uint16_t(from, pitch, count, table, to, stride);
    else if (stride == sizeof(uint32_t))
        resize_look_up_uint32_t(from, pitch, count, table, to, sizeof(uint32_t));
    else
        resize_look_up_uint32_t(from, pitch, count, table, to, stride);
}

/* Stores columns first .. next - 1 of a run, of channel c of a row. */
static FORCE_INLINE void resize_store_run(const struct resize_target *target,
                                          const struct resize_block *block, const uint8_t *from,
                                          int c, int count, char *to) {
    const int size = target->itemsize;
    const ptrdiff_t stride = target->stride;
    resize_look_up(from, block->pitch, count, target->tables[c], to, stride, size);
    for (int i = 1; i < target->repeats; i++)
        if (stride == size)
            memcpy(to + i * target->repeat_stride, to, (size_t)count * (size_t)size);
        else
            resize_look_up(from, block->pitch, count, target->tables[c],
                           to + i * target->repeat_stride, stride, size);
}

/* Stores a block, run by run, so that what lies together in the result is written together. */
static NOINLINE void resize_store(const struct resize_target *target,
                                  const struct resize_block *block, char *out) {
    const int run = target->run, copied = target->copied && block->pitch == block->channels;
    const ptrdiff_t *rows = target->rows + block->row;
    for (int32_t q = block->first, next; q < block->stop; q = next) {
        char *to = out + target->columns[q / run] + q % run * target->stride;
        const uint8_t *from = block->start;
        next = block->stop - q < run - q % run ? block->stop : q + run - q % run;
        if (from)
            from += (ptrdiff_t)(q - block->first) * block->pitch;
        for (int p = 0; from && copied && p < block->rows; p++)
            memcpy(to + rows[p], from + p * block->stride,
                   (size_t)(next - q) * (size_t)block->pitch);
        if (from && copied)
            continue;
        for (int c = 0; c < block->channels; c++)
            for (int p = 0; p < block->rows; p++)
                resize_store_run(target, block, from ? from + p * block->stride + c : NULL, c,
                                 next - q, to + rows[p] + target->places[c]);
    }
}

#endif
