/* Sums [channel][column][row], or with interleaved channels [column][channel][row], to pixels of
   any type and strides. */
#ifndef ROICY_STORE_H
#define ROICY_STORE_H

#include "images/structs.h"
#include "simd/simd.h"

/* Completes the sums of `count` output columns, which have neither scale nor bias yet.  Padding is
   added where intervals cover the frame in part; rows: their intervals, or NULL for none of it. */
static NOINLINE void crop_complete(const struct sums *to, int count, const struct interval *columns,
                                   const struct interval *rows, const struct crop_pixels *pixels) {
    float cover[CROP_ROWS];
    for (int l = 0; rows && l < CROP_ROWS; l++)
        cover[l] = rows[l].cover;
    for (int c = 0; c < to->channels; c++) {
        float scale = pixels->scale[c], bias = pixels->bias[c], pad = pixels->pad[c];
        for (int q = 0; q < count; q++) {
            float *column = (float *)to->sums + (q * to->stride + to->place[c]) * CROP_ROWS;
            for (int l = 0; rows && l < CROP_ROWS; l++)
                column[l] = FUSED(1 - columns[q].cover * cover[l], pad, column[l]);
            for (int l = 0; l < CROP_ROWS; l++)
                column[l] = FUSED(column[l], scale, bias);
        }
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

/* Rounds to bytes, adds `zero` and saturates.  16 at a time where there are instructions for it. */
static FORCE_INLINE void crop_narrow_run(const float *from, int count, int zero, int flip,
                                         char *to) {
    int i = 0;
#if defined(__SSE2__)
    __m128 least = _mm_set1_ps((float)-zero), most = _mm_set1_ps((float)(UINT8_MAX - zero));
    __m128i zeros = _mm_set1_epi32(zero), flips = _mm_set1_epi8((char)flip);
    for (; i + 16 <= count; i += 16) {
        __m128i four[4];
        for (int j = 0; j < 4; j++) { /* the maximum of NaN and a number is the number */
            __m128 value = _mm_max_ps(_mm_loadu_ps(from + i + 4 * j), least);
            if (PLANTED("halves are rounded up"))
                value = _mm_add_ps(value, _mm_set1_ps(1e-5f));
            four[j] = _mm_add_epi32(_mm_cvtps_epi32(_mm_min_ps(value, most)), zeros);
        }
        __m128i low = _mm_packs_epi32(four[0], four[1]), high = _mm_packs_epi32(four[2], four[3]);
        _mm_storeu_si128((__m128i *)(to + i), _mm_xor_si128(_mm_packus_epi16(low, high), flips));
    }
#endif
    for (; i < count; i++)
        ((uint8_t *)to)[i] =
            (uint8_t)((whole_of_float(from[i], -zero, UINT8_MAX - zero) + zero) ^ flip);
}

/* Stores `count` floats as numbers of the target, which follow each other. */
static FORCE_INLINE void crop_store_run(const float *from, int count,
                                        const struct crop_target *target, char *to) {
    if (target->kind == CROP_FLOAT)
        crop_copy_run(from, count, to);
    else if (target->kind == BYTE)
        crop_narrow_run(from, count, target->zero, target->flip, to);
    else
        narrow(from, target->kind, count, to);
}

/* Stores `count` floats as numbers of the target, `stride` bytes apart. */
static FORCE_INLINE void crop_store_line(const float *from, int count,
                                         const struct crop_target *target, char *to,
                                         ptrdiff_t stride) {
    if (stride == target->itemsize)
        crop_store_run(from, count, target, to);
    else
        for (int i = 0; i < count; i++)
            crop_store_run(from + i, 1, target, to + i * stride);
}

/* Transposes a square of sums, whose columns follow each other, to rows of floats.  The lines of
   the next columns are prefetched, since no processor foresees 16 rows at once. */
static FORCE_INLINE void crop_store_square(const float *sums, int rows, float *to,
                                           ptrdiff_t stride) {
    enum { n = VECTOR_BYTES / sizeof(float) };
    for (int l = 0; l < rows; l++)
        prefetch_write(
            (char *)((uintptr_t)to + (uintptr_t)(l * stride + 2 * CROP_COLUMNS) * sizeof(float)));
    for (int l = 0; l < rows; l += n)
        for (int j = 0; j < CROP_COLUMNS; j += n)
            transpose_square(sums + j * CROP_ROWS + l, CROP_ROWS, n, to + l * stride + j, stride,
                             rows - l, 0);
}

/* Stores a square as numbers of another type, or of other strides, or a part of it: `count`
   columns that lie `stride` bytes apart. */
static NOINLINE void crop_store_slowly(const float *sums, int rows, int count, char *to,
                                       const struct crop_target *target, ptrdiff_t stride) {
    float staging[CROP_ROWS * CROP_COLUMNS];
    transpose_lines(sums, CROP_ROWS, CROP_COLUMNS, staging, CROP_ROWS);
    for (int p = 0; p < rows; p++)
        crop_store_line(staging + p * CROP_COLUMNS, count, target, to + p * target->stride_y,
                        stride);
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
            crop_store_square(sums, rows, (float *)to, target->stride_y / (int)sizeof(float));
        else
            crop_store_slowly(sums, rows, n, to, target, stride);
    }
}

#endif
