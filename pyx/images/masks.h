/* Masks that are pasted into images, in float and in double, and their run-length codes.

   Each pixel lies between two rows and two columns of its mask.  Pixels are computed line by line:
   rows of an image, or columns for a code. */
#ifndef ROICY_MASKS_H
#define ROICY_MASKS_H

#include "images/structs.h"
#include "simd/simd.h"

/* PyTorch adds the products of a resized mask corner by corner if its height and width are together
   at most so many pixels, and else along x and then along y. */
enum { CORNERS_SIDES = 128 };

/* The two numbers of an axis of a mask that each of some pixels lies between, and their weights. */
struct mask_taps {
    int32_t *low, *high;
    void *low_weight, *high_weight; /* REAL */
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
static NOINLINE void mask_open(struct mask_lines *lines, const struct masks *masks, ptrdiff_t k) {
    const int64_t *size = masks->places[k].size;
    lines->masks = masks;
    lines->k = k;
    lines->count = 0;
    lines->corners = masks->rule != TORCHVISION || size[0] + size[1] <= CORNERS_SIDES;
}

/* Makes the taps of pixels from `first` on, at most up to `stop`, unless they are there. */
static NOINLINE void mask_begin(struct mask_lines *lines, ptrdiff_t first, ptrdiff_t stop) {
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
static NOINLINE const void *mask_line(struct mask_lines *lines, ptrdiff_t line) {
    return lines->masks->single ? compute_line_float(lines, line)
                                : compute_line_double(lines, line);
}

#endif
