/* Crops: sums along both axes of interleaved rows of pixels, and the store with scale and bias.

   A block is CROP_ROWS rows of output pixels, which are the lanes of vectors.  Rows of the frame
   are summed first, with vectors along the row, whatever the number of channels.  Squares of these
   sums are transposed to a strip [column][channel][row].  Sums along x then need no shuffles, and
   the result is transposed back. */
#ifndef ROICY_CROP_H
#define ROICY_CROP_H

#include "plan/crop_axis.h"
#include "simd.h"

enum {
    CROP_ROWS = LANE_BYTES / sizeof(float), /* output rows of a block */
    CROP_COLUMNS = CROP_ROWS,               /* output columns that are stored together */
    CROP_RUN = 64,                          /* numbers of a row that are summed together */
    CROP_VECTOR = sizeof(vector_float) / sizeof(float),
    CROP_UNIT = CROP_ROWS / CROP_VECTOR, /* vectors of a lane vector */
    CROP_SQUARE = VECTOR_BYTES / sizeof(float),
    CROP_CHANNELS = 4,
    CROP_LOADED = 40 /* rows of a block that are converted once, and kept in 10 KB */
};

/* Types of frames besides those of convert.h; CROP_YUV stands for bytes of YCbCr 4:2:0. */
enum { CROP_FLOAT = 'f', CROP_SHORT = 'H', CROP_YUV = 'Y' };

/* How bytes of YCbCr become red, green and blue: y * luma + u * from_u[c] + v * from_v[c] +
   bias[c], moved to 0..255. */
struct crop_yuv {
    int planar; /* I420, and not NV12 */
    float luma, bias[3], from_u[3], from_v[3];
};

/* A frame, or one plane of it.  Strides are bytes. */
struct crop_source {
    const char *start;
    ptrdiff_t stride_y, stride_x, stride_c;
    int32_t height, width;
    int channels; /* at most CROP_CHANNELS */
    int kind;     /* NumPy's character of the type */
    int dense;    /* numbers of a row follow each other */
    int plane;    /* the channel that is read of CROP_YUV */
    const struct crop_yuv *yuv;
};

/* Columns [low, stop) of the frame in a strip, where `add`, of several that are summed. */
struct crop_strip {
    float *sums; /* [column][channel][CROP_ROWS] */
    ptrdiff_t low, stop;
    int channels, add;
};

/* Where the sums of CROP_COLUMNS output columns are: column q of frame channel c lies at
   sums + q * step + place[c], in lane vectors.  A sum whose pixels are all in one
   strip becomes sum * scale[c] + bias[c]. */
struct crop_columns {
    float *sums;
    ptrdiff_t step;
    ptrdiff_t place[CROP_CHANNELS];
    float scale[CROP_CHANNELS], bias[CROP_CHANNELS];
};

/* The output of a box.  Strides are bytes. */
struct crop_target {
    char *start;
    ptrdiff_t stride_y, stride_x, stride_c;
    int channels;
    int kind;
    int itemsize;
    int interleaved; /* channels follow each other, and pixels too */
    int contiguous;  /* the numbers of a run follow each other */
};

static FORCE_INLINE vector_float crop_splat(float value) {
#if defined(__GNUC__)
    return value - (vector_float){0};
#else
    return value;
#endif
}

/* The next bytes as a vector of floats. */
static FORCE_INLINE vector_float crop_load_bytes(const uint8_t *from) {
#if defined(__AVX512F__)
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from)));
#elif defined(__AVX2__)
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from)));
#elif defined(__SSE2__) && defined(__GNUC__)
    int32_t four;
    memcpy(&four, from, sizeof four);
    __m128i zero = _mm_setzero_si128();
    __m128i bytes = _mm_unpacklo_epi8(_mm_cvtsi32_si128(four), zero);
    return _mm_cvtepi32_ps(_mm_unpacklo_epi16(bytes, zero));
#else
    float numbers[CROP_VECTOR];
    for (int i = 0; i < CROP_VECTOR; i++)
        numbers[i] = from[i];
    return load_float(numbers);
#endif
}

static FORCE_INLINE vector_float crop_load(const char *from, int kind) {
    return kind == BYTE ? crop_load_bytes((const uint8_t *)from) : load_float((const float *)from);
}

/* Sums rows of `vectors` vectors of bytes or floats: those of the span of an output row. */
static FORCE_INLINE void crop_sum_vectors(const char *row, ptrdiff_t stride, int kind,
                                          const struct crop_span *span, int vectors, float *to) {
    enum { most = 8 };
    vector_float sum[most], weight = crop_splat(span->first);
    ptrdiff_t size = CROP_VECTOR * (kind == BYTE ? 1 : (ptrdiff_t)sizeof(float));
    int32_t between = span->high - span->low - 1;
    UNROLLED(8)
    for (int i = 0; i < vectors; i++)
        sum[i] = crop_load(row + i * size, kind) * weight;
    weight = crop_splat(span->middle);
    for (int32_t y = 0; y < between; y++) {
        row += stride;
        UNROLLED(8)
        for (int i = 0; i < vectors; i++)
            sum[i] = FUSED_VECTOR_float(crop_load(row + i * size, kind), weight, sum[i]);
    }
    if (between >= 0) {
        row += stride;
        weight = crop_splat(span->last);
        UNROLLED(8)
        for (int i = 0; i < vectors; i++)
            sum[i] = FUSED_VECTOR_float(crop_load(row + i * size, kind), weight, sum[i]);
    }
    UNROLLED(8)
    for (int i = 0; i < vectors; i++)
        store_float(to + i * CROP_VECTOR, sum[i]);
}

/* Sums `count` numbers, CROP_RUN or CROP_ROWS, of dense rows; `row` is where they begin in row 0 of
   the frame. */
static FORCE_INLINE void crop_sum_run(const char *row, ptrdiff_t stride, int kind,
                                      const struct crop_span *span, int count, float *to) {
    enum { run = CROP_RUN / CROP_VECTOR, most = run < 8 ? run : 8 };
    ptrdiff_t size = kind == BYTE ? 1 : (ptrdiff_t)sizeof(float);
    row += span->low * stride;
    if (count == CROP_ROWS)
        crop_sum_vectors(row, stride, kind, span, CROP_UNIT, to);
    else
        for (int i = 0; i < CROP_RUN; i += most * CROP_VECTOR)
            crop_sum_vectors(row + i * size, stride, kind, span, most, to + i);
}

/* One number of a frame as float. */
static FORCE_INLINE float crop_number(const char *from, int kind) {
    uint16_t two;
    float four;
    if (kind == BYTE)
        return *(const uint8_t *)from;
    if (kind == CROP_FLOAT) {
        memcpy(&four, from, sizeof four);
        return four;
    }
    memcpy(&two, from, sizeof two);
    return kind == CROP_SHORT ? (float)two : float_of_half(two);
}

/* Where a row of U or V (plane 1, 2) is that belongs to row y.  Planes of I420 have two rows in a
   row of the array. */
static FORCE_INLINE const char *crop_chroma_row(const struct crop_source *source, ptrdiff_t y,
                                                int plane) {
    ptrdiff_t row = y / 2, height = source->height;
    if (!source->yuv->planar)
        return source->start + (height + row) * source->stride_y + (plane - 1) * source->stride_x;
    row += plane == 2 ? height / 2 : 0;
    return source->start + (height + row / 2) * source->stride_y +
           row % 2 * (source->width / 2) * source->stride_x;
}

static FORCE_INLINE float crop_limit(float value) {
    value = value > 0 ? value : 0;
    return value < 255 ? value : 255;
}

/* Copies `count` bytes that lie `step` apart. */
static FORCE_INLINE void crop_gather_bytes(const char *from, ptrdiff_t step, int count,
                                           uint8_t *to) {
    const uint8_t *bytes = (const uint8_t *)from;
    if (step == 1)
        memcpy(to, from, (size_t)count);
    else if (step == 2)
        for (int i = 0; i < count; i++)
            to[i] = bytes[2 * i];
    else
        for (int i = 0; i < count; i++)
            to[i] = bytes[i * step];
}

/* Pixels x..x + count - 1 of the plane that is read, at most CROP_RUN.  Loops are plain, so that
   they become whole vectors; pixels of a pair share their part of U and V. */
static NOINLINE void crop_load_yuv(const struct crop_source *source, ptrdiff_t y, ptrdiff_t x,
                                   int count, float *to) {
    enum { most = CROP_RUN / 2 + CROP_ROWS / 2 }; /* one more than half a run, in whole vectors */
    const struct crop_yuv *yuv = source->yuv;
    ptrdiff_t step = source->stride_x * (yuv->planar ? 1 : 2), first = x / 2;
    const char *row = source->start + y * source->stride_y + 2 * first * source->stride_x;
    uint8_t u[most] = {0}, v[most] = {0}, luma[2 * most] = {0};
    float chroma[2 * most], values[2 * most];
    float a = yuv->from_u[source->plane], b = yuv->from_v[source->plane];
    float bias = yuv->bias[source->plane], scale = yuv->luma;
    int pairs = (int)((x + count - 1) / 2 - first + 1);
    crop_gather_bytes(crop_chroma_row(source, y, 1) + first * step, step, pairs, u);
    crop_gather_bytes(crop_chroma_row(source, y, 2) + first * step, step, pairs, v);
    crop_gather_bytes(row, source->stride_x, 2 * pairs, luma);
    for (int i = 0; i < most; i++) {
        float part = FUSED_float((float)v[i], b, FUSED_float((float)u[i], a, bias));
        chroma[2 * i] = part;
        chroma[2 * i + 1] = part;
    }
    for (int i = 0; i < 2 * most; i++)
        values[i] = crop_limit(FUSED_float((float)luma[i], scale, chroma[i]));
    memcpy(to, values + (x - 2 * first), (size_t)count * sizeof(float));
}

/* Numbers at..at + count - 1 of a row, counted from its start as pixels of interleaved channels. */
static FORCE_INLINE void crop_load_strided(const struct crop_source *source, const char *row,
                                           ptrdiff_t at, int count, int kind, float *to) {
    ptrdiff_t x = at / source->channels, c = at - x * source->channels;
    const char *pixel = row + x * source->stride_x;
    for (int i = 0; i < count; i++) {
        to[i] = crop_number(pixel + c * source->stride_c, kind);
        if (++c == source->channels) {
            c = 0;
            pixel += source->stride_x;
        }
    }
}

/* Numbers of a row of any type and strides. */
static NOINLINE void crop_load_row(const struct crop_source *source, ptrdiff_t y, ptrdiff_t at,
                                   int count, float *to) {
    const char *row = source->start + y * source->stride_y;
    int kind = source->kind;
    if (kind == CROP_YUV)
        crop_load_yuv(source, y, at, count, to);
    else if (source->dense && kind == HALF)
        widen_halves((const uint16_t *)row + at, count, to);
    else if (source->dense && kind == CROP_SHORT)
        for (int i = 0; i < count; i++)
            to[i] = ((const uint16_t *)row)[at + i];
    else if (kind == BYTE)
        crop_load_strided(source, row, at, count, BYTE, to);
    else if (kind == CROP_FLOAT)
        crop_load_strided(source, row, at, count, CROP_FLOAT, to);
    else if (kind == CROP_SHORT)
        crop_load_strided(source, row, at, count, CROP_SHORT, to);
    else
        crop_load_strided(source, row, at, count, HALF, to);
}

/* Sums `count` numbers of rows of any type, number by number, as crop_sum_run does. */
static NOINLINE void crop_sum_any(const struct crop_source *source, const struct crop_span *span,
                                  ptrdiff_t at, int count, float *to) {
    float numbers[CROP_RUN];
    crop_load_row(source, span->low, at, count, numbers);
    for (int i = 0; i < count; i++)
        to[i] = numbers[i] * span->first;
    for (int32_t y = span->low + 1; y <= span->high; y++) {
        float weight = y < span->high ? span->middle : span->last;
        crop_load_row(source, y, at, count, numbers);
        for (int i = 0; i < count; i++)
            to[i] = FUSED_float(numbers[i], weight, to[i]);
    }
}

/* Sums of a block of rows of any type.  Each row of the frame is loaded once, where there are few:
   neighbouring output rows read the same ones. */
static NOINLINE void crop_sum_loaded(const struct crop_source *source,
                                     const struct crop_span *spans, int rows, ptrdiff_t at,
                                     int count, float *sums) {
    float loaded[CROP_LOADED * CROP_RUN];
    int room = count > CROP_ROWS ? CROP_RUN : CROP_ROWS, any = 0;
    int32_t low = 0, high = -1;
    for (int p = 0; p < rows; p++) {
        if (spans[p].high < spans[p].low)
            continue;
        low = any && low < spans[p].low ? low : spans[p].low;
        high = any && high > spans[p].high ? high : spans[p].high;
        any = 1;
    }
    int few = high - low < CROP_LOADED;
    for (int32_t y = low; few && y <= high; y++)
        crop_load_row(source, y, at, count, loaded + (y - low) * room);
    for (int p = 0; p < rows; p++) {
        struct crop_span span = spans[p];
        if (span.high < span.low)
            continue;
        if (!few || count < room) {
            crop_sum_any(source, spans + p, at, count, sums + p * room);
            continue;
        }
        span.low -= low;
        span.high -= low;
        crop_sum_run((const char *)loaded, room * (ptrdiff_t)sizeof(float), CROP_FLOAT, &span, room,
                     sums + p * room);
    }
}

/* Transposes CROP_ROWS rows of `count` sums, `step` apart, to lane vectors. */
static FORCE_INLINE void crop_transpose(const float *from, ptrdiff_t step, int count, float *to) {
    enum { n = CROP_SQUARE };
    for (int i = 0; i < count; i += n)
        for (int l = 0; l < CROP_ROWS; l += n)
            transpose_square_float(from + l * step + i, step, n, to + i * CROP_ROWS + l, CROP_ROWS,
                                   n, 0);
}

/* Sums numbers at..at + count - 1 of the rows of a block, and puts them into the strip. */
static FORCE_INLINE void crop_sum_block(const struct crop_source *source,
                                        const struct crop_span *spans, int rows, ptrdiff_t at,
                                        int count, float *to) {
    float sums[CROP_ROWS * CROP_RUN];
    int room = count > CROP_ROWS ? CROP_RUN : CROP_ROWS;
    int direct = source->dense && count >= CROP_ROWS;
    int size = source->kind == BYTE ? 1 : (int)sizeof(float);
    direct = direct && (source->kind == BYTE || source->kind == CROP_FLOAT);
    if (!direct)
        crop_sum_loaded(source, spans, rows, at, count, sums);
    for (int p = 0; p < CROP_ROWS; p++) {
        float *row = sums + p * room;
        if (p >= rows || spans[p].high < spans[p].low)
            memset(row, 0, (size_t)room * sizeof(float));
        else if (direct && source->kind == BYTE)
            crop_sum_run(source->start + at * size, source->stride_y, BYTE, spans + p, room, row);
        else if (direct)
            crop_sum_run(source->start + at * size, source->stride_y, CROP_FLOAT, spans + p, room,
                         row);
    }
    if (count < CROP_ROWS)
        for (int p = 0; p < rows; p++)
            memset(sums + p * room + count, 0, (size_t)(room - count) * sizeof(float));
    crop_transpose(sums, room, room, to);
}

/* Fills a strip: sums of the rows of a block.  The strip has room for CROP_ROWS numbers at least.
   The last run of numbers overlaps the one before it, so that nothing past the row is read. */
static NOINLINE void crop_sum_rows(const struct crop_source *source, const struct crop_span *spans,
                                   int rows, const struct crop_strip *strip) {
    ptrdiff_t first = strip->low * source->channels;
    ptrdiff_t count = (strip->stop - strip->low) * source->channels, i;
    int run = count >= CROP_RUN ? CROP_RUN : CROP_ROWS;
    if (count < CROP_ROWS) {
        crop_sum_block(source, spans, rows, first, (int)count, strip->sums);
        return;
    }
    for (i = 0; i < count; i += run) {
        ptrdiff_t at = i + run <= count ? i : count - run;
        if (run == CROP_RUN)
            crop_sum_block(source, spans, rows, first + at, CROP_RUN, strip->sums + at * CROP_ROWS);
        else
            crop_sum_block(source, spans, rows, first + at, CROP_ROWS,
                           strip->sums + at * CROP_ROWS);
    }
}

/* Sums an output column of `channels` channels, whose pixels are all in the strip. */
static FORCE_INLINE void crop_sum_column(const struct crop_strip *strip,
                                         const struct crop_span *span, int channels,
                                         const struct crop_columns *to, int q) {
    enum { most = CROP_CHANNELS * CROP_UNIT };
    vector_float sum[most], weight = crop_splat(span->first);
    ptrdiff_t step = channels * CROP_ROWS;
    const float *at = strip->sums + (span->low - strip->low) * step;
    int n = channels * CROP_UNIT;
    int32_t between = span->high - span->low - 1;
    UNROLLED(16)
    for (int i = 0; i < n; i++)
        sum[i] = load_float(at + i * CROP_VECTOR) * weight;
    weight = crop_splat(span->middle);
    for (int32_t x = 0; x < between; x++) {
        at += step;
        UNROLLED(16)
        for (int i = 0; i < n; i++)
            sum[i] = FUSED_VECTOR_float(load_float(at + i * CROP_VECTOR), weight, sum[i]);
    }
    if (between >= 0) {
        at += step;
        weight = crop_splat(span->last);
        UNROLLED(16)
        for (int i = 0; i < n; i++)
            sum[i] = FUSED_VECTOR_float(load_float(at + i * CROP_VECTOR), weight, sum[i]);
    }
    UNROLLED(4)
    for (int c = 0; c < channels; c++) {
        float *column = to->sums + (q * to->step + to->place[c]) * CROP_ROWS;
        vector_float scale = crop_splat(to->scale[c]), bias = crop_splat(to->bias[c]);
        UNROLLED(4)
        for (int i = 0; i < CROP_UNIT; i++)
            store_float(column + i * CROP_VECTOR,
                        FUSED_VECTOR_float(sum[c * CROP_UNIT + i], scale, bias));
    }
}

/* As crop_sum_column, of columns of which the strip has a part, or none. */
static NOINLINE void crop_sum_part(const struct crop_strip *strip, const struct crop_span *span,
                                   const struct crop_columns *to, int q) {
    ptrdiff_t low = span->low > strip->low ? span->low : strip->low;
    ptrdiff_t high = span->high < strip->stop ? span->high : strip->stop - 1;
    for (int c = 0; c < strip->channels; c++) {
        float *sums = to->sums + (q * to->step + to->place[c]) * CROP_ROWS;
        if (!strip->add)
            memset(sums, 0, CROP_ROWS * sizeof(float));
        for (ptrdiff_t x = low; x <= high; x++) {
            const float *from = strip->sums + ((x - strip->low) * strip->channels + c) * CROP_ROWS;
            float weight = x == span->low    ? span->first
                           : x == span->high ? span->last
                                             : span->middle;
            for (int l = 0; l < CROP_ROWS; l++)
                sums[l] = x == span->low ? from[l] * weight : FUSED_float(from[l], weight, sums[l]);
        }
    }
}

/* Sums `count` output columns. */
static NOINLINE void crop_sum_columns(const struct crop_strip *strip, const struct crop_span *spans,
                                      int count, const struct crop_columns *to) {
    for (int q = 0; q < count; q++) {
        const struct crop_span *span = spans + q;
        if (strip->add || span->low < strip->low || span->high >= strip->stop ||
            span->high < span->low)
            crop_sum_part(strip, span, to, q);
        else if (strip->channels == 3)
            crop_sum_column(strip, span, 3, to, q);
        else if (strip->channels == 1)
            crop_sum_column(strip, span, 1, to, q);
        else if (strip->channels == 4)
            crop_sum_column(strip, span, 4, to, q);
        else
            crop_sum_column(strip, span, 2, to, q);
    }
}

/* Scale and bias of `count` output columns of one channel, `step` lane vectors apart. */
static FORCE_INLINE void crop_scale_columns(float *sums, ptrdiff_t step, int count, float scale,
                                            float bias) {
    vector_float a = crop_splat(scale), b = crop_splat(bias);
    for (int q = 0; q < count; q++) {
        float *column = sums + q * step * CROP_ROWS;
        for (int i = 0; i < CROP_ROWS; i += CROP_VECTOR)
            store_float(column + i, FUSED_VECTOR_float(load_float(column + i), a, b));
    }
}

/* Adds the padding where intervals cover the frame in part; rows[l]: the cover of a row. */
static NOINLINE void crop_pad_columns(float *sums, ptrdiff_t step, const struct crop_span *spans,
                                      int count, const float *rows, float pad) {
    for (int q = 0; q < count; q++)
        for (int l = 0; l < CROP_ROWS; l++) {
            float missing = 1 - spans[q].cover * rows[l];
            float *sum = sums + q * step * CROP_ROWS + l;
            *sum = FUSED_float(missing, pad, *sum);
        }
}

/* Copies a few floats, by whole lines, which are short enough to need no call. */
static FORCE_INLINE void crop_copy_run(const float *from, int count, char *to) {
    int i = 0;
    for (; i + CROP_COLUMNS <= count; i += CROP_COLUMNS)
        memcpy(to + i * sizeof(float), from + i, CROP_COLUMNS * sizeof(float));
    for (; i < count; i++)
        memcpy(to + i * sizeof(float), from + i, sizeof(float));
}

/* As narrow_bytes, 16 at a time where there are instructions for it, which pack and saturate. */
static FORCE_INLINE void crop_narrow_run(const float *from, int count, char *to) {
    int i = 0;
#if defined(__SSE2__)
    __m128 least = _mm_setzero_ps(), most = _mm_set1_ps(255);
    for (; i + 16 <= count; i += 16) {
        __m128i four[4];
        for (int j = 0; j < 4; j++) { /* the maximum of NaN and 0 is 0 */
            __m128 value = _mm_max_ps(_mm_loadu_ps(from + i + 4 * j), least);
            four[j] = _mm_cvtps_epi32(_mm_min_ps(value, most));
        }
        __m128i low = _mm_packs_epi32(four[0], four[1]), high = _mm_packs_epi32(four[2], four[3]);
        _mm_storeu_si128((__m128i *)(to + i), _mm_packus_epi16(low, high));
    }
#endif
    narrow_bytes(from + i, count - i, (uint8_t *)to + i);
}

/* Stores `count` floats as numbers of the target, which follow each other. */
static FORCE_INLINE void crop_store_run(const float *from, int count, int kind, char *to) {
    if (kind == CROP_FLOAT)
        crop_copy_run(from, count, to);
    else if (kind == BYTE)
        crop_narrow_run(from, count, to);
    else if (kind == HALF)
        narrow_halves(from, count, (uint16_t *)to);
    else
        narrow_bfloats(from, count, (uint16_t *)to);
}

/* Stores `count` floats as numbers `step` bytes apart. */
static NOINLINE void crop_store_apart(const float *from, int count, int kind, char *to,
                                      ptrdiff_t step) {
    for (int i = 0; i < count; i++)
        crop_store_run(from + i, 1, kind, to + i * step);
}

/* Transposes a square of sums, whose columns follow each other, to rows of floats. */
static FORCE_INLINE void crop_store_square(const float *sums, int rows, float *to, ptrdiff_t step,
                                           int streaming) {
    enum { n = CROP_SQUARE };
    for (int l = 0; l < rows; l += n)
        for (int j = 0; j < CROP_COLUMNS; j += n)
            transpose_square_float(sums + j * CROP_ROWS + l, CROP_ROWS, n, to + l * step + j, step,
                                   rows - l, streaming);
}

/* Stores a square as numbers of another type, or of other strides, or a part of it: `count`
   columns.  `stride` is that of columns. */
static NOINLINE void crop_store_slowly(const float *sums, int rows, int count, char *to,
                                       const struct crop_target *target, ptrdiff_t stride) {
    float staging[CROP_ROWS * CROP_COLUMNS];
    crop_transpose(sums, CROP_ROWS, CROP_COLUMNS, staging);
    for (int p = 0; p < rows; p++) {
        const float *from = staging + p * CROP_COLUMNS;
        char *row = to + p * target->stride_y;
        if (stride == target->itemsize)
            crop_store_run(from, count, target->kind, row);
        else
            crop_store_apart(from, count, target->kind, row, stride);
    }
}

/* Stores `rows` rows of `count` output columns from output pixel `to` on.  Sums of interleaved
   channels are in the order of the target, others channel by channel. */
static NOINLINE void crop_store(const float *sums, int rows, int count, char *to,
                                const struct crop_target *target) {
    int interleaved = target->interleaved;
    int whole = target->kind == CROP_FLOAT && target->stride_y % (int)sizeof(float) == 0;
    ptrdiff_t stride = interleaved ? target->itemsize : target->stride_x;
    ptrdiff_t next = interleaved ? CROP_COLUMNS * target->itemsize : target->stride_c;
    int columns = interleaved ? count * target->channels : count;
    for (int c = 0; c < target->channels; c++, to += next, sums += CROP_ROWS * CROP_COLUMNS) {
        int n = interleaved ? columns - c * CROP_COLUMNS : columns;
        n = n < CROP_COLUMNS ? n : CROP_COLUMNS;
        if (n <= 0)
            break;
        if (whole && n == CROP_COLUMNS && stride == (ptrdiff_t)sizeof(float))
            crop_store_square(sums, rows, (float *)to, target->stride_y / (int)sizeof(float), 0);
        else
            crop_store_slowly(sums, rows, n, to, target, stride);
    }
}

#endif
