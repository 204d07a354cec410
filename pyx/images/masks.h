/* Masks that are pasted into images, in float and in double, and their run-length codes. */
#ifndef ROICY_MASKS_H
#define ROICY_MASKS_H

#include "images/runs.h"
#include "simd/simd.h"

/* One axis of a mask, and where its box lies along it. */
struct mask_axis {
    int64_t origin, size;   /* of a mask that is resized: its first pixel, and how many it has */
    double start, stop;     /* of a mask that is sampled: the edges of the box */
    int32_t extent;         /* numbers of the mask, with its border */
    int infinite_is_middle; /* whether points at infinity lie in the middle of the mask */
};

/* The two numbers of an axis of a mask that each of some pixels lies between, and their weights. */
struct mask_taps {
    int32_t *low, *high;
    void *low_weight, *high_weight; /* REAL */
};

/* Numbers of pixels, and their weights along the axis of the pixels and along the other one. */
struct mask_corner {
    const void *values, *weights; /* REAL */
    double weight;
};

#define NAME(name) NAME_OF(name, REAL)
#define REAL float
#include "paste.inc.h"
#undef REAL
#define REAL double
#include "paste.inc.h"
#undef REAL
#undef NAME

#endif
