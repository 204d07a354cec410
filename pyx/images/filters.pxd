"""The weights of Pillow's filters, which are PyTorch's, too.

Everything is computed in the order in which Pillow computes it, so that the weights have the same
bits.
"""
from libc.math cimport cos, fabs, sin
from libc.stdint cimport int16_t, int32_t, uint8_t

from images.structs cimport RESIZE_BITS, RESIZE_LOW, ResizePair

cdef enum:                         # in the order of FILTERS in roicy/cropping/filters.py
    FILTER_BOX
    FILTER_BILINEAR
    FILTER_HAMMING
    FILTER_BICUBIC
    FILTER_LANCZOS


cdef struct FilterAxis:            # an interval of an axis that becomes `count` pixels
    double start, scale, support
    double stretch                 # of the filter, at least 1
    int32_t extent, count
    int filter


cdef inline double half_turns(double x) noexcept nogil:
    """The angle of so many."""
    return x * 3.14159265358979323846


cdef inline double sinc(double x) noexcept nogil:
    return 1 if x == 0 else sin(half_turns(x)) / half_turns(x)


cdef inline double filter_at(int filter, double x) noexcept nogil:
    cdef double a = -0.5, far = fabs(x)
    if filter == FILTER_BOX:
        return 1 if -0.5 < x <= 0.5 else 0
    if filter == FILTER_BILINEAR:
        return 1 - far if far < 1 else 0
    if filter == FILTER_HAMMING:   # whose numbers are floats in Pillow
        if far == 0 or far >= 1:
            return 1 if far == 0 else 0
        return sinc(far) * (<double><float>0.54 + <double><float>0.46 * cos(half_turns(far)))
    if filter == FILTER_BICUBIC:
        if far < 1:
            return ((a + 2) * far - (a + 3)) * far * far + 1
        return (((far - 5) * far + 8) * far - 4) * a if far < 2 else 0
    return sinc(x) * sinc(x / 3) if -3 <= x < 3 else 0


cdef inline FilterAxis filter_axis(
        double low, double high, int32_t extent, int32_t count, int filter) noexcept nogil:
    """An interval, which is rounded to float, as by Pillow."""
    cdef FilterAxis axis
    cdef double[5] supports = [0.5, 1, 1, 2, 3]
    axis.start, axis.extent, axis.count, axis.filter = <float>low, extent, count, filter
    axis.scale = <double>(<float>high - <float>low) / count
    axis.stretch = 1 if axis.scale < 1 else axis.scale
    axis.support = supports[filter] * axis.stretch
    return axis


cdef inline void filter_span(const FilterAxis *axis, int32_t i, int32_t *span) noexcept nogil:
    """Set the first tap of output pixel i and the number of its taps."""
    cdef double centre = axis.start + (i + 0.5) * axis.scale
    cdef double low = centre - axis.support + 0.5, stop = centre + axis.support + 0.5
    span[0] = <int32_t>low if low > 0 else 0
    span[1] = (<int32_t>stop if stop < axis.extent else axis.extent) - span[0]


cdef inline double filter_weights(
        const FilterAxis *axis, int32_t i, const int32_t *span, double *weights) noexcept nogil:
    """Set the weights of output pixel i, and return the largest."""
    cdef double centre = axis.start + (i + 0.5) * axis.scale
    cdef double total = 0, most = 0, by = 1.0 / axis.stretch
    cdef int32_t t
    for t in range(span[1]):
        weights[t] = filter_at(axis.filter, (t + span[0] - centre + 0.5) * by)
        total += weights[t]
    for t in range(span[1]):
        if total != 0:
            weights[t] = weights[t] / total
        if weights[t] > most:
            most = weights[t]
    return most


cdef inline int filter_bits(double most) noexcept nogil:
    """How many bits PyTorch's weights have after the point: 16 bits in all; most: the largest."""
    cdef int bits = 0
    while bits < RESIZE_BITS and <int32_t>(0.5 + most * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    return bits


cdef inline void filter_pairs(
        const double *weights, int32_t taps, int bits, bint wide, ResizePair *pairs) noexcept nogil:
    """Set pairs of weights with `bits` bits after the point; wide: whether there is a high part."""
    cdef double weight
    cdef int32_t t, whole
    for t in range(taps):
        weight = weights[t] * (1 << bits)
        whole = <int32_t>(weight - 0.5 if weight < 0 else weight + 0.5)
        pairs[t // 2].low[t % 2] = <int16_t>(whole & ((1 << RESIZE_LOW) - 1) if wide else whole)
        pairs[t // 2].high[t % 2] = <int16_t>(whole >> RESIZE_LOW if wide else 0)


cdef inline void divide_by_alpha(
        uint8_t *pixels, Py_ssize_t count, int channels) noexcept nogil:
    """Make colours of those that were multiplied by their alpha, the last byte of a pixel."""
    cdef Py_ssize_t _pixel
    cdef int c, alpha
    for _pixel in range(count):
        alpha = pixels[channels - 1]
        for c in range(channels - 1 if alpha > 0 else 0):
            pixels[c] = <uint8_t>min(255 * <int>pixels[c] // alpha, 255)
        pixels += channels
