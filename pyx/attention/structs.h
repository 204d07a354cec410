/* What a call of deformable attention is: the struct that C and Cython share. */
#ifndef ROICY_ATTENTION_STRUCTS_H
#define ROICY_ATTENTION_STRUCTS_H

#include "simd/structs.h"

/* Each query of each head adds `points` samples of `channels` channels.  The arrays of points have
   one number for each of them, and say what is known of its level.  What `void` points to is REAL,
   and arrays lie end to end, but for `value`, whose channels lie together. */
struct attention {
    const void *value;             /* (N, S, M, D) */
    ptrdiff_t image, pixel, head;  /* steps in `value`, in elements */
    const void *locations;         /* (N, Q, M, T, 2) */
    const void *weights;           /* (N, Q, M, T) */
    const void *grad;              /* (N, Q, M, D), of the result */
    const void *zeros;             /* D, read in place of pixels that there are none of */
    const void *scale_x, *scale_y; /* halves of what a location is multiplied by */
    const int32_t *width, *height, *start;
    ptrdiff_t pixels, queries, heads, points, channels; /* S, Q, M, T, D */
    double shift;                                       /* of a location that is multiplied */
    int nearest, border;                                /* else bilinear, and zeros around levels */
    void *out;                                          /* (N, Q, M, D) */
    void *grad_value;                                   /* (N, S, M, D) */
    void *grad_locations;                               /* as `locations` */
    void *grad_weights;                                 /* as `weights` */
};

/* Queries first to stop - 1 of an image, or channels of a head of it. */
struct attention_part {
    ptrdiff_t image, head, first, stop;
};

#endif
