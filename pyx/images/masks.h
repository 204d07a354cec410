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

/* PyTorch adds the products of a resized mask corner by corner if its height and width are together
   at most so many pixels, and else along x and then along y. */
enum { CORNERS_SIDES = 128 };

/* Pixels of a line that are computed at once.  With 2048 the arrays below collide in caches (R429).
 */
enum { PASTE_PIXELS = 1984 };

/* Where a mask lies in its image. */
struct mask_place {
    int64_t y0, y1, x0, x1;     /* the pixels that are written from it */
    int64_t origin[2], size[2]; /* x, y: the first pixel and the size of a resized mask */
};

/* The masks of a call, and what their pixels become. */
struct masks {
    const void *numbers;             /* REAL, [K][line][number], with their borders */
    const struct mask_place *places; /* [K] */
    const double *corners;           /* [K][x1, y1, x2, y2] */
    int32_t extent[2];               /* numbers of a line, and lines */
    int single;                      /* REAL is float, else double */
    int along_y;                     /* lines are columns */
    int rule, values;                /* of the enums above */
    double threshold;                /* of REACHED */
};

/* The two numbers of an axis of a mask that each of some pixels lies between, and their weights. */
struct mask_taps {
    int32_t *low, *high;
    void *low_weight, *high_weight; /* REAL */
};

/* The lines of a mask, at some pixels along them: what a thread works in. */
struct mask_lines {
    double low_weight[PASTE_PIXELS], high_weight[PASTE_PIXELS]; /* REAL, as are the next three */
    double low[2][PASTE_PIXELS];  /* a row blended along x; or a line's numbers at the low taps */
    double high[2][PASTE_PIXELS]; /* a line's numbers at the high taps */
    double pixels[PASTE_PIXELS];
    int32_t at_low[PASTE_PIXELS], at_high[PASTE_PIXELS];
    uint8_t small[PASTE_PIXELS]; /* the pixels as bytes */
    int32_t kept[2];             /* which even and which odd line is in `low` and `high` */
    ptrdiff_t first, count;      /* the pixels along a line */
    const struct masks *masks;
    ptrdiff_t k;
    int corners; /* a pixel is a sum of four products, not of two and then two */
};

#define NAME(name) NAME_OF(name, REAL)
#define REAL float
#include "paste.inc.h"
#undef REAL
#define REAL double
#include "paste.inc.h"
#undef REAL
#undef NAME

/* Begins with mask k. */
static inline void mask_open(struct mask_lines *lines, const struct masks *masks, ptrdiff_t k) {
    const int64_t *size = masks->places[k].size;
    lines->masks = masks;
    lines->k = k;
    lines->count = 0;
    lines->corners = masks->rule != TORCHVISION || size[0] + size[1] <= CORNERS_SIDES;
}

/* Makes the taps of pixels from `first` on, at most up to `stop`, unless they are there. */
static inline void mask_begin(struct mask_lines *lines, ptrdiff_t first, ptrdiff_t stop) {
    const struct mask_taps taps = {lines->at_low, lines->at_high, lines->low_weight,
                                   lines->high_weight};
    ptrdiff_t count = stop - first < PASTE_PIXELS ? stop - first : PASTE_PIXELS;
    if (lines->count == count && lines->first == first)
        return;
    lines->first = first;
    lines->count = count;
    lines->kept[0] = lines->kept[1] = -1;
    if (lines->masks->single)
        find_taps_float(lines, 0, first, count, &taps);
    else
        find_taps_double(lines, 0, first, count, &taps);
}

/* Computes a line of these pixels. */
static inline const void *mask_line(struct mask_lines *lines, ptrdiff_t line) {
    return lines->masks->single ? compute_line_float(lines, line)
                                : compute_line_double(lines, line);
}

#endif
