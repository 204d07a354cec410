/* Frames of any type and strides, and of YCbCr 4:2:0: their numbers as floats. */
#ifndef ROICY_LOAD_H
#define ROICY_LOAD_H

#include "simd/simd.h"

/* Output pixels are computed in blocks of CROP_ROWS rows, and stored CROP_COLUMNS columns at a
   time.  CROP_RUN numbers of a row of a frame are summed together. */
enum {
    CROP_ROWS = LANE_BYTES / sizeof(float),
    CROP_COLUMNS = CROP_ROWS,
    CROP_RUN = 64,
    CROP_CHANNELS = 4,
    CROP_LOADED = 40, /* rows of a block that are converted once */
    CROP_SQUARE = VECTOR_BYTES / sizeof(float)
};

/* Types of frames besides those of convert.h; CROP_YUV stands for bytes of YCbCr 4:2:0. */
enum { CROP_FLOAT = 'f', CROP_SHORT = 'H', CROP_YUV = 'Y' };

/* How bytes of YCbCr become red, green and blue: y * luma + u * from_u[c] + v * from_v[c] +
   bias[c], moved to 0..255. */
struct crop_yuv {
    int planar; /* I420, and not NV12 */
    float luma, bias[3], from_u[3], from_v[3];
};

/* A frame or a map, or one plane of it.  Strides are bytes. */
struct crop_source {
    const char *start;
    ptrdiff_t stride_y, stride_x, stride_c;
    int32_t height, width;
    int channels;
    int kind;  /* NumPy's character of the type */
    int dense; /* numbers of a row follow each other */
    int plane; /* the channel that is read of CROP_YUV */
    const struct crop_yuv *yuv;
};

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
    if (kind != HALF && kind != CROP_SHORT) {
        widen_float(from, kind, 1, &four);
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
static NOINLINE void load_row_float(const struct crop_source *source, ptrdiff_t y, ptrdiff_t at,
                                    int count, float *to) {
    const char *row = source->start + y * source->stride_y;
    int kind = source->kind;
    if (kind == CROP_YUV)
        crop_load_yuv(source, y, at, count, to);
    else if (source->dense && kind != CROP_FLOAT)
        widen_float(row + at * small_size(kind), kind, count, to);
    else if (kind == BYTE)
        crop_load_strided(source, row, at, count, BYTE, to);
    else if (kind == CROP_FLOAT)
        crop_load_strided(source, row, at, count, CROP_FLOAT, to);
    else if (kind == CROP_SHORT)
        crop_load_strided(source, row, at, count, CROP_SHORT, to);
    else if (kind == HALF)
        crop_load_strided(source, row, at, count, HALF, to);
    else
        crop_load_strided(source, row, at, count, kind, to);
}

/* Numbers of a row of doubles, of any strides. */
static NOINLINE void load_row_double(const struct crop_source *source, ptrdiff_t y, ptrdiff_t at,
                                     int count, double *to) {
    const char *row = source->start + y * source->stride_y;
    ptrdiff_t channels = source->channels;
    for (int i = 0; i < count; i++, at++)
        memcpy(to + i, row + at / channels * source->stride_x + at % channels * source->stride_c,
               sizeof *to);
}

#endif
