/* The weights of Pillow's filters, which are PyTorch's, too.  Everything is computed in the order
   in which Pillow computes it, so that the weights have the same bits. */
#ifndef ROICY_FILTERS_H
#define ROICY_FILTERS_H

#include <math.h>

#include "images/structs.h"

/* In the order of FILTERS in roicy/cropping/filters.py. */
enum { FILTER_BOX, FILTER_BILINEAR, FILTER_HAMMING, FILTER_BICUBIC, FILTER_LANCZOS };

static inline double filter_support(int filter) {
    static const double supports[] = {0.5, 1, 1, 2, 3};
    return supports[filter];
}

static const double filter_pi = 3.14159265358979323846;

static inline double filter_sinc(double x) {
    return x == 0 ? 1 : sin(x * filter_pi) / (x * filter_pi);
}

static inline double filter_of(int filter, double x) {
    const double a = -0.5, far = fabs(x);
    switch (filter) {
    case FILTER_BOX:
        return x > -0.5 && x <= 0.5 ? 1 : 0;
    case FILTER_BILINEAR:
        return far < 1 ? 1 - far : 0;
    case FILTER_HAMMING: /* whose numbers are floats in Pillow */
        if (far == 0 || far >= 1)
            return far == 0 ? 1 : 0;
        return filter_sinc(far) * ((double)0.54f + (double)0.46f * cos(far * filter_pi));
    case FILTER_BICUBIC:
        if (far < 1)
            return ((a + 2) * far - (a + 3)) * far * far + 1;
        return far < 2 ? (((far - 5) * far + 8) * far - 4) * a : 0;
    default:
        return x >= -3 && x < 3 ? filter_sinc(x) * filter_sinc(x / 3) : 0;
    }
}

/* An interval of an axis that becomes `count` pixels. */
struct filter_axis {
    double start, scale, stretch, support; /* stretch: of the filter, at least 1 */
    int32_t extent, count;
    int filter;
};

/* The interval is rounded to float, as by Pillow. */
static inline struct filter_axis filter_axis_of(double low, double high, int32_t extent,
                                                int32_t count, int filter) {
    struct filter_axis axis = {(float)low, 0, 1, 0, extent, count, filter};
    axis.scale = (double)((float)high - (float)low) / count;
    axis.stretch = axis.scale < 1 ? 1 : axis.scale;
    axis.support = filter_support(filter) * axis.stretch;
    return axis;
}

/* Sets the first tap of output pixel i and the number of its taps. */
static inline void filter_span(const struct filter_axis *axis, int32_t i, int32_t *span) {
    double centre = axis->start + (i + 0.5) * axis->scale;
    double low = centre - axis->support + 0.5, stop = centre + axis->support + 0.5;
    span[0] = low > 0 ? (int32_t)low : 0;
    span[1] = (stop < axis->extent ? (int32_t)stop : axis->extent) - span[0];
}

/* Sets the weights of output pixel i, and returns the largest. */
static inline double filter_weights(const struct filter_axis *axis, int32_t i, const int32_t *span,
                                    double *weights) {
    double centre = axis->start + (i + 0.5) * axis->scale, sum = 0, by = 1.0 / axis->stretch;
    double most = 0;
    for (int32_t t = 0; t < span[1]; t++) {
        weights[t] = filter_of(axis->filter, (t + span[0] - centre + 0.5) * by);
        sum += weights[t];
    }
    for (int32_t t = 0; t < span[1]; t++) {
        weights[t] = sum != 0 ? weights[t] / sum : weights[t];
        most = weights[t] > most ? weights[t] : most;
    }
    return most;
}

/* The most bits after the point with which PyTorch's weights have 16 bits; most: the largest. */
static inline int filter_bits(double most) {
    int bits = 0;
    while (bits < RESIZE_BITS && (int32_t)(0.5 + most * (1 << (bits + 1))) < 1 << 15)
        bits++;
    return bits;
}

/* Sets pairs of weights with `bits` bits after the point; wide: whether they have a high part. */
static inline void filter_pairs(const double *weights, int32_t taps, int bits, int wide,
                                struct resize_pair *pairs) {
    for (int32_t t = 0; t < taps; t++) {
        double weight = weights[t] * (1 << bits);
        int32_t whole = (int32_t)(weight < 0 ? weight - 0.5 : weight + 0.5);
        pairs[t / 2].low[t % 2] = (int16_t)(wide ? whole & ((1 << RESIZE_LOW) - 1) : whole);
        pairs[t / 2].high[t % 2] = (int16_t)(wide ? whole >> RESIZE_LOW : 0);
    }
}

/* Colours that were multiplied by their alpha, which is the last byte of a pixel, become colours
   again. */
static inline void filter_divide_by_alpha(uint8_t *pixels, ptrdiff_t count, int channels) {
    for (; count > 0; count--, pixels += channels)
        for (int c = 0, alpha = pixels[channels - 1]; alpha > 0 && c < channels - 1; c++) {
            int colour = 255 * pixels[c] / alpha;
            pixels[c] = (uint8_t)(colour < 255 ? colour : 255);
        }
}

#endif
