/* What a call of deformable attention is: the struct that C and Cython share. */
#ifndef ROICY_ATTENTION_STRUCTS_H
#define ROICY_ATTENTION_STRUCTS_H

#include "simd/structs.h"

/* Each head of each query adds `points` samples of `channels` channels.  scale, width, height and
   start have a number for each point of a head: what is known of its level.  `void` stands for
   REAL.  Arrays have no gaps, but `value` may have some, though not between channels of a head. */
struct attention {
    const void *value;             /* (N, S, M, D) */
    ptrdiff_t image, pixel, head;  /* strides in `value`, in elements */
    const void *locations;         /* (N, Q, M, T, 2) */
    const void *weights;           /* (N, Q, M, T) */
    const void *grad;              /* (N, Q, M, D), of the result */
    const void *zeros;             /* D, read in place of pixels that a level does not have */
    const void *scale_x, *scale_y; /* a position is a location * scale - shift */
    const int32_t *width, *height, *start;
    ptrdiff_t pixels, queries, heads, points, channels; /* S, Q, M, T, D */
    double shift;
    int nearest, border;  /* else bilinear, and zeros around levels */
    void *out;            /* (N, Q, M, D) */
    void *grad_value;     /* (N, S, M, D) */
    void *grad_locations; /* as `locations` */
    void *grad_weights;   /* as `weights` */
};

/* Queries first to stop - 1 of an image; or of these, channels low to high - 1 of a head. */
struct attention_part {
    ptrdiff_t image, head, first, stop, low, high;
};

/* The functions of this room that are compiled for each instruction set (table/fill.h). */
struct attention_table {
    /* attend.inc.h, slopes.inc.h */
    void (*attend)(const struct attention *call, const struct attention_part *part);
    void (*attend_slopes)(const struct attention *call, const struct attention_part *part);
    void (*attend_value)(const struct attention *call, const struct attention_part *part);
};

#endif
