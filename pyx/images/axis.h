/* The pixels of a frame that an output pixel reads along one axis, and their weights.

   Output pixel p stands for an interval of the frame: its share of the box, or one pixel around
   the middle of this share where the share is smaller or where points are asked for.  A pixel of
   the frame covers [i, i + 1) and is constant on it, and its weight is its part of the interval.
   An interval of one pixel weighs two neighbours as bilinear interpolation does.

   By CROP_TRIANGLES, as Pillow does, weights fall evenly from the middle of an output pixel to its
   neighbours' middles, or to a distance of one pixel where these are nearer.  They are taken at the
   middles of pixels, and are divided by the sum of those that are on the frame. */
#ifndef ROICY_AXIS_H
#define ROICY_AXIS_H

#include <math.h>

#include "images/structs.h"

/* Sets the axis.  Bins [bin_low, bin_stop) show all from low to high. */
static inline void crop_axis_set(struct crop_axis *axis, double low, double high, int rule) {
    double bin_size = (high - low) / (axis->bin_stop - axis->bin_low), size = fabs(bin_size);
    axis->start = low;
    axis->bin_size = bin_size;
    axis->rule = rule;
    axis->half = rule == CROP_AREAS && size > 1 ? size / 2 : 0.5;
    if (rule == CROP_TRIANGLES)
        axis->half = size > 1 ? size : 1;
}

static inline double crop_within(double v, double low, double high) {
    v = v > low ? v : low;
    return v < high ? v : high;
}

/* Narrows the pixels that may be read to those that the box from `from` to `to` touches.  At least
   one is left. */
static inline void crop_axis_limit(struct crop_axis *axis, double from, double to) {
    double low = floor(from < to ? from : to), stop = ceil(from < to ? to : from);
    double extent = axis->stop;
    if (extent < 1)
        return;
    low = crop_within(low, 0, extent - 1);
    axis->low = (int32_t)low;
    axis->stop = (int32_t)crop_within(stop, low + 1, extent);
}

/* The interval [a, b] on pixels that go on beyond the outermost ones, or end with the frame. */
static inline struct interval crop_interval_between(const struct crop_axis *axis, double a,
                                                    double b) {
    struct interval span = {0, -1, 0, 0, 0, 0};
    double outermost = axis->stop - 1.0, share = 1 / (2 * axis->half), from = a, to = b;
    if (!axis->repeats) {
        from = a > axis->low ? a : axis->low;
        to = b < axis->stop ? b : axis->stop;
        if (!(from < to))
            return span;
    }
    double low = crop_within(floor(from), axis->low, outermost);
    double high = crop_within(ceil(to) - 1, low, outermost);
    span.low = (int32_t)low;
    span.high = (int32_t)high;
    span.first = span.cover = from == a && to == b ? 1 : (float)((to - from) * share);
    if (low < high) {
        span.first = (float)((low + 1 - from) * share);
        span.middle = (float)share;
        span.last = (float)((to - high) * share);
    }
    return span;
}

/* The part of a triangle around 0, of this half length and of area 1, that lies beyond `at`. */
static inline double crop_beyond(double at, double half) {
    double left = 1 - crop_within(fabs(at) / half, 0, 1), part = left * left / 2;
    return at > 0 ? part : 1 - part;
}

/* The triangle around `middle`.  Where no pixel has its middle in it, the nearest one stands for
   it if edges go on. */
static NOINLINE struct interval crop_interval_triangle(const struct crop_axis *axis,
                                                       double middle) {
    struct interval span = {0, -1, 0, 0, 0, 0};
    double low = floor(middle - axis->half + 0.5), stop = floor(middle + axis->half + 0.5);
    double sum = 0, outside = 0;
    low = low > axis->low ? low : axis->low;
    stop = stop < axis->stop ? stop : axis->stop;
    for (double x = low; x < stop; x++)
        sum += 1 - crop_within(fabs(x + 0.5 - middle) / axis->half, 0, 1);
    if (!axis->repeats)
        outside = axis->half * (crop_beyond(axis->stop - middle, axis->half) +
                                crop_beyond(middle - axis->low, axis->half));
    if (sum > 0) {
        span.low = (int32_t)low;
        span.high = (int32_t)stop - 1;
        double share = 1 / (sum + outside), rise = share / axis->half;
        span.first = (float)(share - rise * (middle - low - 0.5));
        span.middle = (float)rise;
        span.last = (float)(share + rise * (middle - low - 0.5));
        span.cover = (float)(sum * share);
    } else if (axis->repeats) {
        span.low = span.high = (int32_t)crop_within(floor(middle), axis->low, axis->stop - 1.0);
        span.first = span.last = span.cover = 1;
    }
    return span;
}

/* The middle of a bin, counted from bin_low.  Rounding keeps their order: those of all bins lie
   between those of the first and the last. */
static FORCE_INLINE double crop_axis_middle(const struct crop_axis *axis, int32_t bin) {
    return axis->start + (bin + 0.5) * axis->bin_size;
}

/* The pixels [low, stop) that all output pixels read, or a few more: those from the first interval
   to the last.  Returns how many these output pixels read at most, since points of a large box are
   few. */
static inline double crop_axis_hull(const struct crop_axis *axis, int32_t *low, int32_t *stop) {
    int32_t bins = axis->bin_stop - axis->bin_low;
    double a = crop_axis_middle(axis, 0), b = crop_axis_middle(axis, bins - 1), most;
    *low = *stop = 0;
    if (axis->low >= axis->stop)
        return 0;
    *low = (int32_t)crop_within(floor((a < b ? a : b) - axis->half), axis->low, axis->stop - 1.0);
    *stop = (int32_t)crop_within(ceil((a < b ? b : a) + axis->half), *low + 1, axis->stop);
    *stop -= PLANTED("the last row is not converted");
    most = bins * (ceil(2 * axis->half) + 1);
    return most < *stop - *low ? most : *stop - *low;
}

/* The interval of output pixel p. */
static FORCE_INLINE struct interval crop_interval_of(const struct crop_axis *axis, int32_t p) {
    struct interval none = {0, -1, 0, 0, 0, 0};
    double middle;
    if (p < axis->bin_low || p >= axis->bin_stop || axis->low >= axis->stop)
        return none;
    middle = crop_axis_middle(axis, p - axis->bin_low);
    if (axis->rule == CROP_TRIANGLES)
        return crop_interval_triangle(axis, middle);
    if (axis->rule == CROP_NEAREST) {
        if (!axis->repeats && !(middle >= axis->low && middle < axis->stop))
            return none;
        middle = PLANTED("the nearest pixel is the next one") ? middle + 0.5 : middle;
        middle = crop_within(floor(middle), axis->low, axis->stop - 1.0);
        return (struct interval){(int32_t)middle, (int32_t)middle, 1, 0, 0, 1};
    }
    return crop_interval_between(axis, middle - axis->half, middle + axis->half);
}

/* The intervals of `count` output pixels from `first` on. */
static NOINLINE void crop_intervals(const struct crop_axis *axis, int32_t first, int count,
                                    struct interval *intervals) {
    for (int i = 0; i < count; i++)
        intervals[i] = crop_interval_of(axis, first + i);
}

#endif
