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
    CROP_LOADED = 32, /* rows of pixels of any type that are kept as floats */
    CROP_SQUARE = VECTOR_BYTES / sizeof(float)
};

/* Types of frames besides those of convert.h.  CROP_YUV stands for YCbCr of any format, whose
   pixels yuv.h makes bytes before anything else reads them. */
enum { CROP_FLOAT = 'f', CROP_DOUBLE = 'd', CROP_YUV = 'Y' };

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

/* What is done to pixels: channel c of a frame becomes channel place[c] of the output. */
struct crop_pixels {
    int channels;
    ptrdiff_t place[CROP_CHANNELS];
    float scale[CROP_CHANNELS], bias[CROP_CHANNELS], pad[CROP_CHANNELS];
};

/* Copies numbers at .. at + count - 1 of a row, `size` bytes each, which do not follow each other.
 */
static FORCE_INLINE void gather_numbers(const struct crop_source *source, const char *row,
                                        ptrdiff_t at, int count, size_t size, char *to) {
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
