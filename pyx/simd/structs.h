/* What functions on lane vectors take: the structs that C and Cython share.

   Strides are elements, and counts are lane vectors, unless a comment says otherwise. */
#ifndef ROICY_SIMD_STRUCTS_H
#define ROICY_SIMD_STRUCTS_H

#include "simd/memory.h"

#define BINS_TOGETHER 16 /* bins of a position-sensitive task: a cache line (R164) */
#define FOLDED_BYTES 16  /* bytes of lanes that sums of slopes are reduced to (R268) */

/* How results are written: in place; gathered in a level 1 cache and then copied; or gathered and
   then stored past all caches. */
enum store { DIRECT, STAGED, STREAMING };

/* Of an array seen as (N, C, H, W) or (K, C, PH, PW). */
struct strides {
    ptrdiff_t image, channel, y, x;
};

/* Pixels [y0, y1) x [x0, x1). */
struct window {
    ptrdiff_t y0, y1, x0, x1;
};

/* Lanes of pixel (y, x) lie at y * view.y + x * view.x. */
struct view {
    ptrdiff_t y, x;
};

/* One channel block of one image, and what a tile holds of it.

   The tile has room for `capacity` pixels.  If it is not shared, each window is packed by itself
   and has to fit.  If it is shared, it holds columns [x0, x1) of some rows for many boxes, and each
   window has to lie in these columns and have no more than capacity_rows rows. */
struct tile {
    char *plane; /* the first channel, at pixel (0, 0) */
    int dtype;   /* NumPy's character of the type */
    int itemsize;
    struct strides strides; /* channel: between lanes */
    int lanes;              /* channels of the block */
    int shared;             /* the tile holds pixels of later boxes too */
    int in_place;           /* the lanes of a pixel lie together: no tile is needed */
    ptrdiff_t capacity, capacity_rows;
    ptrdiff_t top, bottom;    /* no box of the task reads above or below */
    ptrdiff_t x0, x1, y0, y1; /* shared: columns and rows that the tile holds */
};

/* How lanes are written. */
struct target {
    struct strides strides;
    int lanes;            /* channels of the block */
    int store;            /* of enum store */
    void *staging;        /* room for a block that is contiguous in the array, or NULL */
    struct stream *queue; /* bytes of `staging` that are still to be streamed */
};

/* The taps of the bins of one axis: bin b has taps spans[2 * b] to spans[2 * b + 1] - 1. */
struct taps {
    const int32_t *spans;
    const int32_t *pixel; /* of a tap; its slot, where taps alone are packed */
    const void *weight;   /* REAL, of a tap */
};

/* Lane vector i, of `count`, of pixel j lies at start + i * stride + j * pixel_stride. */
struct vectors {
    const void *start;
    ptrdiff_t stride, pixel_stride, count;
};

/* Block i, of `count`, of pixel (y, x) lies at start + i * stride + y * stride_y + x * stride_x. */
struct pixels {
    const void *start;
    ptrdiff_t stride, count, stride_y, stride_x;
};

/* The taps of all bins, and by how much weights change with each number of a box: slope k of tap t
   is slopes[k * stride + t].  Numbers are the low and the high edge of an axis, or those of a
   turned box, whose taps have two pixels, y and x. */
struct slope_taps {
    const int32_t *pixel;
    const void *weight, *slopes; /* REAL */
    ptrdiff_t stride;
};

/* Numbers in rows: a map, a frame, or one plane of it.  Strides are bytes. */
struct source {
    const char *start;
    ptrdiff_t stride_y, stride_x, stride_c;
    int channels;
    int kind;  /* NumPy's character of the type */
    int dense; /* numbers of a row follow each other */
};

/* Sums of rows: so many numbers of a row are summed together, and so many channels of a column, and
   so many rows of another type are kept as REAL. */
enum { ROWS_RUN = 64, ROWS_CHANNELS = 4, ROWS_LOADED = 32 };

/* The interval of one output pixel: pixels low to high, which is less than low if there are none.
   first, middle, last: weights of pixel low, of those between, and of pixel high if it is another.
   cover: their sum, the part of the interval that lies on the frame.  Of a triangle, pixel low + t
   weighs max(0, min(first + t * middle, last - t * middle)). */
struct interval {
    int32_t low, high;
    float first, middle, last, cover;
};

/* Which pixels output row or column i sums: the pixels of intervals[i], which may have the weights
   of a triangle, or the taps of `list`. */
struct lines {
    const struct interval *intervals; /* or NULL */
    int triangles;
    ptrdiff_t ahead; /* bytes from a row of bytes to one that is read later, for prefetches */
    struct taps list;
};

/* Columns [low, stop) of the pixels, summed along y: [column][channel][output row].  With `add`
   they continue the sums of the columns before them. */
struct strip {
    void *sums; /* REAL */
    ptrdiff_t low, stop;
    int channels, channel, add;
};

/* Where the sums of channels first .. first + channels - 1 of a strip go: output column q
   and channel first + c are lane vector q * stride + place[c].  A sum whose pixels are all in one
   strip becomes sum * scale[c] + bias[c]. */
struct sums {
    void *sums; /* REAL */
    ptrdiff_t stride;
    int first, channels; /* at most ROWS_CHANNELS */
    ptrdiff_t place[ROWS_CHANNELS];
    float scale[ROWS_CHANNELS], bias[ROWS_CHANNELS];
};

/* Samples of a bin in one row: sample s lies fraction[s] behind pixel[s]. */
struct samples {
    const int32_t *pixel; /* or the row of a tap */
    const void *fraction; /* REAL */
    int32_t first, stop;
    ptrdiff_t x0;   /* the first column of the cell */
    ptrdiff_t last; /* the last column there is, which is its own neighbour */
    int products;   /* products are compared, and not the sums of four */
};

/* Lines of `count` numbers, `stride` elements apart: the index of the pixel that won each bin (at),
   and the gradient of the bin (values).  next_at and next_values are lines that are prefetched. */
struct winners {
    const int32_t *at;
    const void *values; /* REAL */
    ptrdiff_t lines, count, stride;
    const int32_t *next_at;
    const void *next_values; /* REAL */
};

/* Rows of a plane: pixels first to first + count - 1 of all. */
struct plane_rows {
    uint32_t first, count, all;
};

/* The small types, by NumPy's characters. */
enum { HALF = 'e', BFLOAT = 'E', BYTE = 'B', INT8 = 'b', INT16 = 'h', UINT16 = 'H' };

/* The bytes of an element of a small type. */
static inline ptrdiff_t small_size(int dtype) { return dtype == BYTE || dtype == INT8 ? 1 : 2; }

#endif
