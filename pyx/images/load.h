/* Frames of any type and strides, and their numbers as floats. */
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

/* Types of frames besides those of convert.h.  CROP_YUV stands for YCbCr of any format, whose
   pixels yuv.h makes bytes before anything else reads them. */
enum { CROP_FLOAT = 'f', CROP_SHORT = 'H', CROP_YUV = 'Y' };

/* U or V of a frame.  Strides are bytes. */
struct crop_plane {
    const char *start;
    ptrdiff_t stride_y, stride_x;
};

/* A frame or a map, or one plane of it.  Strides are bytes.  YCbCr has three channels, which are
   red, green and blue; Y lies at `start`. */
struct crop_source {
    const char *start;
    ptrdiff_t stride_y, stride_x, stride_c;
    int32_t height, width;
    int channels;
    int kind;                    /* NumPy's character of the type */
    int dense;                   /* numbers of a row follow each other */
    struct crop_plane chroma[2]; /* U and V of YCbCr */
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
    if (source->dense && kind != CROP_FLOAT)
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
