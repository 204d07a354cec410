/* What frames, crops and masks are: the structs that C and Cython share. */
#ifndef ROICY_STRUCTS_H
#define ROICY_STRUCTS_H

#include "simd/structs.h"

/* Output pixels are computed in blocks of CROP_ROWS rows, and stored CROP_COLUMNS columns at a
   time. */
enum {
    CROP_ROWS = LANE_BYTES / sizeof(float),
    CROP_COLUMNS = CROP_ROWS,
    CROP_CHANNELS = ROWS_CHANNELS
};

/* Types of frames besides those of convert.h.  CROP_YUV stands for YCbCr of any format, whose
   pixels yuv.h makes bytes before anything else reads them. */
enum { CROP_FLOAT = 'f', CROP_YUV = 'Y' };

/* U or V of a frame.  Strides are bytes. */
struct crop_plane {
    const char *start;
    ptrdiff_t stride_y, stride_x;
};

/* A frame.  YCbCr has three channels, which are red, green and blue; Y lies at its start. */
struct frame {
    struct source pixels;
    int32_t height, width;
    int32_t low[2], stop[2];     /* y, x: the pixels that are there; the others are not read */
    struct crop_plane chroma[2]; /* U and V of YCbCr */
    const struct crop_yuv *yuv;
};

/* What is done to pixels: channel c of a frame becomes channel place[c] of the output. */
struct crop_pixels {
    int channels;
    ptrdiff_t place[CROP_CHANNELS];
    float scale[CROP_CHANNELS], bias[CROP_CHANNELS], pad[CROP_CHANNELS];
};

/* How output pixels weigh pixels: as bilinear interpolation, by areas, as Pillow, or only the pixel
   around the middle. */
enum { CROP_POINTS, CROP_AREAS, CROP_TRIANGLES, CROP_NEAREST };

/* One axis of one box.  Output pixels bin_low to bin_stop - 1 show the box, the others padding. */
struct crop_axis {
    double start;    /* where the box begins, in pixels of the frame */
    double bin_size; /* of an output pixel; negative where the box is inverted */
    double half;     /* half of the length of an interval, at least 1/2 */
    int rule;        /* CROP_POINTS and so on */
    int32_t bin_low, bin_stop;
    int32_t low, stop; /* pixels that may be read */
    int repeats;       /* the outermost of these pixels go on for ever; else padding follows */
};

/* The output of a box.  Strides are bytes. */
struct crop_target {
    ptrdiff_t stride_y, stride_x, stride_c;
    int channels;
    int kind;
    int itemsize;
    int zero; /* what stands for 0 in bytes */
    int flip; /* bits that are changed at last: a byte with a sign is one without, less 128 */
    int interleaved; /* channels follow each other, and pixels too */
};

/* Pixels of YCbCr that are read together, and bytes that may change after converted pixels. */
enum { YUV_RUN = 64, YUV_SPARE = 3 * YUV_RUN + 1 };

/* How YCbCr becomes red, green and blue: y * luma + u * from_u[c] + v * from_v[c] + bias[c], where
   Y is a number of 15 bits, U and V are numbers of 16 bits with a sign, and products lose their low
   half.  The sum has 5 bits after the point.  Red has no part of U, and blue has none of V. */
struct crop_yuv {
    int shared;     /* rows of Y for each row of U and V are 1 << shared */
    int wide;       /* numbers have two bytes, of which the high bits count */
    int own_chroma; /* each pixel has U and V of its own, between those that have a stride */
    int rgb565;     /* no YCbCr, but red, green and blue in two bytes */
    int16_t luma, bias[3], from_u[3], from_v[3];
};

/* The most samples along one axis of an output pixel: more would cost more than they show. */
enum { WARP_SAMPLES = 8 };

/* Two taps of a resized axis.  A weight is low + (high << RESIZE_LOW), with RESIZE_BITS bits after
   the point, so that products of 16 bits and sums of 32 give what Pillow computes; or of PyTorch
   low alone, which has at most as many bits after the point. */
enum { RESIZE_LOW = 15, RESIZE_BITS = 22, RESIZE_ROWS = 64 /* that are transposed together */ };
struct resize_pair {
    int16_t low[2], high[2];
};

/* One axis.  `spans` has (first, count) of the taps of each output pixel; neither first nor first +
   count falls from pixel to pixel.  An axis that keeps its pixels has no spans. */
struct resize_axis {
    int32_t count, taps; /* output pixels; the most taps of one */
    const int32_t *spans;
    const struct resize_pair *pairs; /* [count][(taps + 1) / 2] */
    int32_t bits, wide; /* of weights: bits after the point; whether they have `high` */
};

/* Where bytes go, and what they become: column q of a row lies at columns[q / run] + q % run *
   stride of it, and channel c places[c] behind.  Entry 256 of a table is padding.  Strides are
   bytes. */
struct resize_target {
    const ptrdiff_t *rows, *columns;
    int32_t run;
    ptrdiff_t stride, places[CROP_CHANNELS];
    const char *tables[CROP_CHANNELS];
    int itemsize;
    int repeats; /* how often a number is stored, repeat_stride apart */
    ptrdiff_t repeat_stride;
    int copied; /* bytes stay what they are, and those of a pixel stay together */
};

/* Rows of pixels, or padding where `start` is NULL, and the row and the columns of a result where
   they go. */
struct resize_block {
    const uint8_t *start;
    ptrdiff_t stride;
    int pitch, channels; /* bytes of a pixel, and how many of them are stored */
    int rows;
    int32_t row, first, stop;
};

/* How a box lies, and how it is sampled. */
struct warp {
    double m[9];
    int nx, ny;                                    /* samples of an output pixel */
    double at_x[WARP_SAMPLES], at_y[WARP_SAMPLES]; /* where they lie in it, from 0 to 1 */
    int projective;                                /* the last row is not 0, 0, 1 */
    int repeats;                                   /* the edges of the frame go on for ever */
    int nearest;                                   /* a sample is the pixel around it */
    struct crop_pixels pixels;                     /* scale: of a sum of samples */
    int32_t low_p, stop_p, low_q, stop_q;          /* output pixels that show the box */
    int32_t ahead_x, ahead_y; /* WARP_AHEAD pixels on, towards the next output rows */
};

/* Rules, in the order of RULES in roicy/masks.py.  TORCHVISION resizes a mask to whole pixels, and
   the others sample it at the centres of pixels.  By MMDET points at infinity lie in the middle. */
enum { TORCHVISION, DETECTRON2, MMDET };

/* What pixels become: numbers as they are, whether they are at least the threshold, or 255 times as
   much without the fraction, from 0 to 255. */
enum { REAL_VALUES, REACHED, BYTES };

/* Pixels of a line that are computed at once.  With 2048 the arrays below collide in caches (R429).
 */
enum { PASTE_PIXELS = 1984 };

/* Where a mask lies in its image. */
struct mask_place {
    int64_t y0, y1, x0, x1;     /* the pixels that are written from it */
    int64_t origin[2], size[2]; /* x, y: the first pixel and the size of a resized mask */
};

/* Masks that are sums of prototypes, each with a coefficient. */
struct prototypes {
    const void *numbers;      /* REAL, [count][height][width] */
    const void *coefficients; /* REAL, [K][count] */
    const int64_t *boxes;     /* [K][x1, y1, x2, y2], of these numbers */
    ptrdiff_t count;
    int64_t height, width;
    int squashed; /* to 0..1, by the logistic function */
    int cut;      /* numbers outside of their boxes are 0 */
};

/* The masks of a call, and what their pixels become. */
struct masks {
    const void *numbers; /* REAL, [K][line][number], with their borders; not if they are mixed */
    const struct prototypes *mixed;  /* what the numbers are made of, or NULL */
    const struct masks *enlarged;    /* how they are resized before; its only place has the size */
    const struct mask_place *places; /* [K] */
    const double *corners;           /* [K][x1, y1, x2, y2] */
    int32_t extent[2];               /* numbers of a line, and lines */
    int32_t skipped[2];              /* mixed numbers before those of the mask: x, y */
    int single;                      /* REAL is float, else double */
    int along_y;                     /* lines are columns */
    int rule, values;                /* of the enums above */
    int squashed;                    /* pixels are squashed to 0..1 */
    double threshold;                /* of REACHED */
};

/* The lines of a mask, at some pixels along them: what a thread works in. */
struct mask_lines {
    double low_weight[PASTE_PIXELS], high_weight[PASTE_PIXELS]; /* REAL, as all down to `pixels` */
    double low[2][PASTE_PIXELS];  /* a row blended along x; or a line's numbers at the low taps */
    double high[2][PASTE_PIXELS]; /* a line's numbers at the high taps */
    double pixels[PASTE_PIXELS];
    int32_t at_low[PASTE_PIXELS], at_high[PASTE_PIXELS];
    uint8_t small[PASTE_PIXELS]; /* the pixels as bytes */
    int32_t kept[2];             /* which even and which odd line is in `low` and `high` */
    ptrdiff_t first, count;      /* the pixels along a line */
    const struct masks *masks;
    ptrdiff_t k;
    int corners;                   /* a pixel is a sum of four products, not of two and then two */
    const void *numbers;           /* REAL, of this mask */
    ptrdiff_t stride, line_stride; /* from number to number, and from line to line */
    int64_t start[2];              /* the first that is there, along a line and across lines */
    struct mask_lines *before;     /* computes the lines of numbers; or NULL if they are there */
};

/* The functions of this room that are compiled for each instruction set (table/fill.h). */
struct image_table {
    /* store.h, axis.h, yuv.h, warp.h */
    void (*crop_complete)(const struct sums *to, int count, const struct interval *spans,
                          const struct interval *rows, const struct crop_pixels *pixels);
    void (*crop_store)(const float *sums, int rows, int count, char *to,
                       const struct crop_target *target);
    void (*crop_intervals)(const struct crop_axis *axis, int32_t first, int count,
                           struct interval *intervals);
    void (*crop_convert)(const struct frame *frame, ptrdiff_t y, ptrdiff_t x, ptrdiff_t count,
                         uint8_t *to);
    void (*warp_set)(struct warp *warp, const double *m, const int32_t *shown, int rule,
                     int repeats, const struct crop_pixels *pixels);
    void (*warp_hull)(const struct warp *warp, const struct frame *frame, int32_t *low,
                      int32_t *stop);
    void (*warp_pixels)(const struct frame *frame, const struct warp *warp,
                        const struct crop_target *target, int32_t p, int32_t width, char *row);
    /* resize.h */
    void (*resize_line)(const struct resize_axis *axis, int i, const uint8_t *from,
                        ptrdiff_t stride, ptrdiff_t count, uint8_t *to);
    void (*resize_columns)(const struct resize_axis *axis, int first, int stop, int pitch,
                           int channels, int rows, const uint8_t *lines, uint8_t *to);
    void (*resize_to_lines)(const uint8_t *from, ptrdiff_t stride, int rows, int columns,
                            uint8_t *to);
    void (*resize_to_rows)(const uint8_t *from, int lines, int rows, uint8_t *to, ptrdiff_t stride);
    void (*resize_store)(const struct resize_target *target, const struct resize_block *block,
                         char *out);
    /* masks.h */
    void (*mask_open)(struct mask_lines *lines, const struct masks *masks, ptrdiff_t k);
    void (*mask_mix)(struct mask_lines *lines, const struct masks *masks, ptrdiff_t k,
                     const int64_t (*pixels)[2], void *memory);
    void (*mask_begin)(struct mask_lines *lines, ptrdiff_t first, ptrdiff_t stop);
    const void *(*mask_line)(struct mask_lines *lines, ptrdiff_t line);
};

#endif
