/* Masks that are pasted into images, in float and in double, and their run-length codes.

   Each pixel lies between two rows and two columns of its mask.  Pixels are computed line by line:
   rows of an image, or columns for a code. */
#ifndef ROICY_MASKS_H
#define ROICY_MASKS_H

#include <math.h>

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

/* Vectors of a row that are mixed together, so that no sum waits for itself. */
enum { MIXED = 4 };

#define exp_float expf
#define exp_double exp
static const void *mask_line(struct mask_lines *lines, ptrdiff_t line);

/* All else of images computes in float, and so is compiled with REAL float alone. */
#define NAME(name) NAME_OF(name, REAL)
#include "paste.inc.h"
#undef REAL
#define REAL double
#include "paste.inc.h"
#undef REAL
#define REAL float
#undef NAME

/* Begins with mask k. */
static NOINLINE void mask_open(struct mask_lines *lines, const struct masks *masks, ptrdiff_t k) {
    const int64_t *size = masks->places[k].size;
    ptrdiff_t itemsize = masks->single ? sizeof(float) : sizeof(double);
    lines->masks = masks;
    lines->k = k;
    lines->count = 0;
    lines->corners = masks->rule != TORCHVISION || size[0] + size[1] <= CORNERS_SIDES;
    lines->stride = 1;
    lines->line_stride = masks->extent[0];
    lines->start[0] = lines->start[1] = 0;
    lines->before = NULL;
    if (!masks->mixed)
        lines->numbers =
            (const char *)masks->numbers + k * masks->extent[1] * lines->line_stride * itemsize;
}

/* Begins with mask k, which is mixed, and computes the numbers that some pixels need.  pixels: from
   where to where these are, along lines and across them; memory: has room for the numbers.  A mask
   that is enlarged before it is resized takes lines[1], too. */
static NOINLINE void mask_mix(struct mask_lines *lines, const struct masks *masks, ptrdiff_t k,
                              const int64_t (*pixels)[2], void *memory) {
    enum { lanes = LANE_BYTES / sizeof(float) };
    struct mask_lines *last = masks->enlarged ? lines + 1 : lines;
    int64_t window[2][2], width = masks->mixed->width; /* x, y */
    const int along_y = masks->along_y;
    mask_open(lines, masks, k);
    if (masks->enlarged) {
        mask_open(last, masks->enlarged, 0);
        lines->before = last;
    }
    for (int across = 0; across < 2; across++) {
        int64_t *hull = window[along_y != across];
        memcpy(hull, pixels[across], sizeof window[0]);
        for (struct mask_lines *one = lines; one; one = one->before)
            (masks->single ? find_hull_float : find_hull_double)(one, across, hull);
    }
    window[0][0] = window[0][0] / lanes * lanes; /* whole lanes, where there are some */
    window[0][1] = (window[0][1] + lanes - 1) / lanes * lanes;
    window[0][1] = window[0][1] < width ? window[0][1] : width;
    width = window[0][1] - window[0][0];
    for (int across = 0; across < 2; across++)
        last->start[across] =
            window[along_y != across][0] - last->masks->skipped[along_y != across];
    last->numbers = memory;
    last->stride = along_y ? width : 1;
    last->line_stride = along_y ? 1 : width;
    if (masks->single)
        mix_float(masks->mixed, k, (const int64_t (*)[2])window, (float *)memory);
    else
        mix_double(masks->mixed, k, (const int64_t (*)[2])window, (double *)memory);
}

/* Makes the taps of pixels from `first` on, at most up to `stop`, unless they are there. */
static NOINLINE void mask_begin(struct mask_lines *lines, ptrdiff_t first, ptrdiff_t stop) {
    const struct mask_taps taps = {lines->at_low, lines->at_high, lines->low_weight,
                                   lines->high_weight};
    const struct masks *masks = lines->masks;
    ptrdiff_t most = PASTE_PIXELS, count;
    if (lines->before) { /* it has room for as many numbers, and ends need some more */
        ptrdiff_t scale = masks->extent[0] / masks->places[lines->k].size[masks->along_y] + 1;
        most = scale < PASTE_PIXELS - 4 ? (PASTE_PIXELS - 4) / scale : 1;
    }
    count = stop - first < most ? stop - first : most;
    if (lines->count == count && lines->first == first)
        return;
    lines->first = first;
    lines->count = count;
    lines->kept[0] = lines->kept[1] = -1;
    if (lines->before) {
        int64_t hull[2] = {first, first + count};
        lines->start[0] = 0;
        (masks->single ? find_hull_float : find_hull_double)(lines, 0, hull);
        mask_begin(lines->before, hull[0], hull[1]);
        ASSERT(lines->before->count == hull[1] - hull[0]);
        lines->start[0] = hull[0] - masks->skipped[masks->along_y];
    }
    if (masks->single)
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
