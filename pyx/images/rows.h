/* Crops: sums along both axes of interleaved rows of pixels, and the store with scale and bias.

   A block is CROP_ROWS rows of output pixels, which are the lanes of vectors.  Rows of the frame
   are summed first, with vectors along the row, whatever the number of channels.  Squares of these
   sums are transposed to a strip [column][channel][row].  Sums along x then need no shuffles, and
   the result is transposed back. */
#ifndef ROICY_ROWS_H
#define ROICY_ROWS_H

#include "images/axis.h"
#include "images/load.h"
#include "images/store.h"

enum {
    CROP_VECTOR = sizeof(vector_float) / sizeof(float),
    CROP_UNIT = CROP_ROWS / CROP_VECTOR, /* vectors of a lane vector */
    CROP_LOADED = 40 /* rows of a block that are converted once, and kept in 10 KB */
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

#endif
