/* Masks that are pasted into images, in float and in double, and their run-length codes.

   Each pixel lies between two rows and two columns of its mask.  Pixels are computed line by line:
   rows of an image, or columns for a code. */
#ifndef ROICY_MASKS_H
#define ROICY_MASKS_H

#include "images/runs.h"
#include "simd/simd.h"

/* Rules, in the order of RULES in roicy/masks.py.  TORCHVISION resizes a mask to whole pixels, and
   the others sample it at the centres of pixels.  By MMDET points at infinity lie in the middle. */
enum { TORCHVISION, DETECTRON2, MMDET };

/* What pixels become: numbers as they are, whether they are at least the threshold, or 255 times as
   much without the fraction, from 0 to 255. */
enum { REAL_VALUES, REACHED, BYTES };

/* One axis of a mask, and where its box lies along it. */
struct mask_axis {
    int64_t origin, size; /* of a mask that is resized: its first pixel, and how many it has */
    double start, stop;   /* of a mask that is sampled: the edges of the box */
    int32_t extent;       /* numbers of the mask, with its border */
};

/* The two numbers of an axis of a mask that each of some pixels lies between, and their weights. */
struct mask_taps {
    int32_t *low, *high;
    void *low_weight, *high_weight; /* REAL */
};

/* The lines of a mask, at some pixels along them. */
struct mask_lines {
    const void *mask;               /* REAL, [line][number] */
    int single;                     /* REAL is float, else double */
    int along_y;                    /* lines are columns */
    int corners;                    /* a pixel is a sum of four products, not of two and then two */
    int rule, values;               /* of the enums above */
    double threshold;               /* of REACHED */
    struct mask_axis along, across; /* lines, and from one to the next */
    ptrdiff_t count;                /* pixels along a line */
    struct mask_taps taps;          /* of these pixels */
    int32_t kept[2];                /* which even and which odd line is in `low` and `high` */
    void *low[2];                   /* a row blended along x; or a line's numbers at the low taps */
    void *high[2];                  /* a line's numbers at the high taps */
    void *pixels;                   /* REAL, of a line */
    uint8_t *small;                 /* the same as bytes */
};

#define NAME(name) NAME_OF(name, REAL)
#define REAL float
#include "paste.inc.h"
#undef REAL
#define REAL double
#include "paste.inc.h"
#undef REAL
#undef NAME

/* Makes the taps of pixels first .. first + count - 1 along the lines. */
static inline void mask_begin(struct mask_lines *lines, ptrdiff_t first, ptrdiff_t count) {
    lines->count = count;
    lines->kept[0] = lines->kept[1] = -1;
    if (lines->single)
        find_taps_float(lines->rule, &lines->along, first, count, &lines->taps);
    else
        find_taps_double(lines->rule, &lines->along, first, count, &lines->taps);
}

/* Computes a line of these pixels. */
static inline const void *mask_line(struct mask_lines *lines, ptrdiff_t line) {
    return lines->single ? compute_line_float(lines, line) : compute_line_double(lines, line);
}

#endif
