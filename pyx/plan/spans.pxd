"""Spans: the taps of each bin of an axis, [first, stop) for one bin after the other."""
from libc.stdint cimport int32_t


cdef inline void hull(
        const int32_t *spans, int first, int stop, const int32_t *pixel, Py_ssize_t *low,
        Py_ssize_t *high) noexcept nogil:
    """The pixels low .. high - 1 that bins first .. stop - 1 read, and what is between them.

    pixel: of each tap; NULL where spans are pixels themselves.
    """
    cdef int i
    cdef Py_ssize_t start, end, lowest = 0, highest = 0
    for i in range(first, stop):
        if spans[2 * i] < spans[2 * i + 1]:
            start, end = spans[2 * i], spans[2 * i + 1] - 1
            if pixel != NULL:
                start, end = pixel[start], pixel[end]
            lowest = min(lowest, start) if highest > 0 else start
            highest = max(highest, end + 1)
    low[0], high[0] = lowest, highest


cdef inline void widen_hull(
        Py_ssize_t *edges, Py_ssize_t y0, Py_ssize_t y1, Py_ssize_t x0,
        Py_ssize_t x1) noexcept nogil:
    """Widen a hull y0, y1, x0, x1, all zeros if it is empty, to another one."""
    if edges[0] == edges[1]:
        edges[0], edges[1], edges[2], edges[3] = y0, y1, x0, x1
    edges[0], edges[1] = min(edges[0], y0), max(edges[1], y1)
    edges[2], edges[3] = min(edges[2], x0), max(edges[3], x1)


cdef inline void hull_of_taps(
        const int32_t *pixel, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t *edges) noexcept nogil:
    """Widen a hull to the pixels (y, x) of taps first .. stop - 1."""
    cdef Py_ssize_t t, y, x
    for t in range(first, stop):
        y, x = pixel[2 * t], pixel[2 * t + 1]
        widen_hull(edges, y, y + 1, x, x + 1)


cdef inline void clip(
        const int32_t *span, const int32_t *pixel, Py_ssize_t low, Py_ssize_t high,
        int32_t *clipped) noexcept nogil:
    """The taps of a bin that are of pixels in [low, high); pixels ascend."""
    cdef int32_t first = span[0], stop = span[1]
    while first < stop and pixel[first] < low:
        first += 1
    while first < stop and pixel[stop - 1] >= high:
        stop -= 1
    clipped[0], clipped[1] = first, stop


cdef inline void bins_between(
        const int32_t *spans, const int32_t *pixel, Py_ssize_t low, Py_ssize_t high, int *first,
        int *stop) noexcept nogil:
    """Narrow bins first .. stop - 1 to the hull of those that read pixels in [low, high)."""
    cdef int i, found = stop[0], end = first[0]
    for i in range(first[0], stop[0]):
        if (spans[2 * i] < spans[2 * i + 1] and pixel[spans[2 * i]] < high
                and pixel[spans[2 * i + 1] - 1] >= low):
            found, end = min(found, i), i + 1
    first[0], stop[0] = found, max(found, end)


cdef inline void taps_after(
        const int32_t *span, Py_ssize_t bins, const int32_t *pixel, Py_ssize_t *first,
        Py_ssize_t *stop) noexcept nogil:
    """The taps of the second bin beyond all pixels of the first; none if there is one bin."""
    first[0] = stop[0] = 0
    if bins > 1:
        first[0], stop[0] = span[2], span[3]
        while span[0] < span[1] and first[0] < stop[0] and pixel[first[0]] <= pixel[span[1] - 1]:
            first[0] += 1
