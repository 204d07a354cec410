"""Geometry: from boxes to axis tables, the only place that knows where a bin lies.

Every operator cuts a box into PH x PW bins and weighs the pixels of a bin by (weight in y) x (weight in x).  So a box
needs two small tables, one per axis, whatever the number of channels and samples: for each bin the pixels that it reads
and their weights.  `tables` makes them, by one of the rules

    SAMPLED     the mean of bilinear samples (roi_align, ps_roi_align)
    INTEGRATED  the exact mean of the bilinear surface (prroi_pool)
    UNIFORM     the mean of whole pixels, from floor to ceil (ps_roi_pool)
    QUANTISED   those pixels without weights (roi_pool)

A pixel that a bin does not read is not in its table, so that a NaN there cannot reach the bin.

Positions are computed in the type of the data, in the order written here, and this file is compiled without contraction
into fused multiply-adds: the number of samples of a bin, and which of them lie on the map, then agree bit for bit with
torchvision's.  Weights are summed in double.

The tables of n boxes, in the order in which the kernels will go through them, so that tables are read in one sweep:

    windows (n, 4)          rows y0..y1-1 and columns x0..x1-1 that the box reads
    spans   (n, PH + PW, 2) the entries of each bin: PH bins in y, then PW bins in x; QUANTISED: its first and last + 1 pixel
    index   (entries,)      pixel
    weight  (entries,)      its weight
    slopes  (2, entries)    derivative of the weight by the box's low and by its high edge, when asked for

`points` lists the samples of the first rule one by one, for what is not a mean of them.

`by_pixel` turns them round, from the pixels of each bin to the bins of each pixel, which is what gradients want to know.
"""
from cython.parallel cimport prange
from libc.float cimport DBL_EPSILON, FLT_EPSILON
from libc.math cimport ceil, fabs, floor, round
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t

import numpy as np

from lanes cimport real

cdef enum:
    SAMPLED = 0
    INTEGRATED = 1
    UNIFORM = 2
    QUANTISED = 3
    # The tables of one call take at most about this many bytes, or hold one box; callers come back for the other boxes.
    TABLE_BYTES = 8 << 20
    # Fewer bins than this are not worth waking threads for: about 50 microseconds of work.
    PARALLEL_BINS = 4096

# Adaptive grids of boxes past 2**62 pixels a bin would not fit the sample counter: they stop there.
cdef double GRID_MAX = 4.0e18

# What the quantised rule does with coordinates that no pixel index could hold: far away is far enough.
cdef double FAR = 1.0e15


cdef struct Rule:
    int kind
    int sampling_ratio     # SAMPLED: samples per bin and axis; 0 or less: ceil(size of a bin)
    bint aligned           # SAMPLED: coordinates are moved by half a pixel
    bint at_least_one      # SAMPLED: boxes are at least one pixel wide and high
    bint inclusive         # UNIFORM, QUANTISED: the pixel of the second corner belongs to the box


cdef struct Axis:
    int bins
    Py_ssize_t extent
    double scale


cdef struct Interval:      # one axis of one box in pixels of the map
    double low
    double size
    bint clamped           # the size was raised to 1, so that it depends on no edge


cdef inline Interval interval(const Rule *rule, double scale, real low, real high) noexcept nogil:
    cdef Interval box
    cdef real s = <real>scale
    cdef real start, end, size
    box.clamped = False
    if rule.kind >= UNIFORM:
        start = <real>min(max(round(low * s), -FAR), FAR)
        end = <real>min(max(round(high * s), -FAR), FAR)
        box.low = start
        box.size = max(<double>end - <double>start + rule.inclusive, 1.0)
        return box
    cdef real offset = <real>0.5 if rule.kind == SAMPLED and rule.aligned else <real>0
    start = low * s - offset
    end = high * s - offset
    size = end - start
    if rule.kind == SAMPLED and rule.at_least_one and size < 1:
        size = 1
        box.clamped = True
    box.low = start
    box.size = size
    return box


cdef inline Py_ssize_t room(const Rule *rule, const Axis *axis, const Interval *box, real *_) noexcept nogil:
    """An upper bound of the entries of one axis of one box: each bin reads at most three pixels more than its length
    on the map, and at most two a sample."""
    if rule.kind == QUANTISED:
        return 0
    cdef double extent = <double>axis.extent
    cdef double low = min(box.low, box.low + box.size)
    cdef double high = max(box.low, box.low + box.size)
    # what the ends of a bin may be off by where coordinates are so large that rounding them moves pixels
    cdef double coarse = 8 * max(fabs(low), fabs(high)) * (FLT_EPSILON if real is float else DBL_EPSILON)
    low = min(max(floor(low - coarse) - 2, 0), extent)
    high = min(max(ceil(high + coarse) + 2, 0), extent)
    cdef double entries = (high - low) + (4.0 + coarse) * axis.bins
    if rule.kind == SAMPLED and rule.sampling_ratio > 0:
        entries = min(entries, 2.0 * axis.bins * rule.sampling_ratio)
    return <Py_ssize_t>min(entries, extent * axis.bins)


cdef struct Entries:       # where the tables of one axis of one box are written
    Py_ssize_t count
    int32_t *index
    void *weight
    void *slope_low
    void *slope_high


cdef inline void put(
        Entries *entries, real *_, Py_ssize_t pixel, double weight, double slope_low, double slope_high) noexcept nogil:
    cdef Py_ssize_t i = entries.count
    entries.index[i] = <int32_t>pixel
    (<real*>entries.weight)[i] = <real>weight
    if entries.slope_low != NULL:
        (<real*>entries.slope_low)[i] = <real>slope_low
        (<real*>entries.slope_high)[i] = <real>slope_high
    entries.count = i + 1


cdef inline real sample(real start, real bin_size, int64_t grid, int64_t s) noexcept nogil:
    """Position of sample s of the grid samples of a bin, in ascending order also where bins run backwards."""
    if bin_size < 0:
        s = grid - 1 - s
    return start + (<real>s + <real>0.5) * bin_size / <real>grid


cdef inline int64_t first_sample(
        real start, real bin_size, int64_t grid, int64_t low, int64_t high, double bound, bint above) noexcept nogil:
    """The first of samples low..high-1 that is at bound or more (above: beyond bound), else high."""
    cdef int64_t middle
    cdef double v
    while low < high:
        middle = low + (high - low) // 2
        v = sample(start, bin_size, grid, middle)
        if v > bound or (v == bound and not above):
            high = middle
        else:
            low = middle + 1
    return low


cdef inline int64_t grid_of(const Rule *rule, real bin_size) noexcept nogil:
    """Samples of a bin along an axis, 0 of an inverted one."""
    cdef double wanted = rule.sampling_ratio if rule.sampling_ratio > 0 else max(min(ceil(bin_size), GRID_MAX), 0)
    return <int64_t>wanted


cdef inline void samples_on_map(
        real start, real bin_size, int64_t grid, Py_ssize_t extent, int64_t *first, int64_t *stop) noexcept nogil:
    """The samples of a bin from first to stop - 1 that lie in [-1, extent]."""
    first[0] = 0
    stop[0] = grid
    if grid <= 0:
        return
    if sample(start, bin_size, grid, 0) < -1:
        first[0] = first_sample(start, bin_size, grid, 0, grid, -1, False)
    if first[0] < stop[0] and sample(start, bin_size, grid, stop[0] - 1) > extent:
        stop[0] = first_sample(start, bin_size, grid, first[0], grid, extent, True)


cdef void sampled_axis(
        const Rule *rule, const Axis *axis, const Interval *box, int32_t *spans, Py_ssize_t base, Entries *entries,
        real *_) noexcept nogil:
    """Weights of the mean of `grid` bilinear samples a bin.

    A sample beyond [-1, extent] weighs nothing, but counts; one in [-1, 0] lies on pixel 0, one from extent - 1 on lies
    on the last pixel.  Samples off the map are not visited, and where there are many to a pixel those of one pixel are
    taken together, as the arithmetic progression that they are: the work is bounded by the pixels.
    """
    cdef Py_ssize_t last = axis.extent - 1
    cdef real low = <real>box.low
    cdef real bin_size = <real>box.size / <real>axis.bins
    cdef real start
    cdef int64_t grid = grid_of(rule, bin_size), s = 0, stop = 0, end
    cdef double v, u, count, fraction, slope, r, r_slope = 0
    cdef bint slopes = entries.slope_low != NULL
    cdef Py_ssize_t pixel, at
    cdef double here, here_low, here_high, right, right_low, right_high
    cdef int p
    cdef bint dense
    for p in range(axis.bins):
        spans[2 * p] = <int32_t>(base + entries.count)
        spans[2 * p + 1] = spans[2 * p]
        start = low + <real>p * bin_size
        samples_on_map(start, bin_size, grid, axis.extent, &s, &stop)
        if s >= stop:
            continue
        dense = stop - s > 64 and stop - s > 2 * (
            sample(start, bin_size, grid, stop - 1) - sample(start, bin_size, grid, s) + 1)
        at = -1
        here = here_low = here_high = right = right_low = right_high = 0
        while s < stop:
            v = sample(start, bin_size, grid, s)
            end = s + 1
            if dense:
                if v <= 0:
                    end = first_sample(start, bin_size, grid, end, stop, 0, True)
                elif v >= last:
                    end = stop
                else:
                    end = first_sample(start, bin_size, grid, end, stop, min(floor(v) + 1, <double>last), False)
            count = <double>(end - s)
            if v <= 0:
                pixel = 0
                fraction = slope = 0
            elif v >= last:
                pixel = last
                fraction = slope = 0
            else:
                pixel = <Py_ssize_t>v
                u = v if end == s + 1 else 0.5 * (v + sample(start, bin_size, grid, end - 1))
                fraction = count * (u - <double>pixel)
                slope = count
            if slopes:
                # where in the box the samples lie, 0 at its low edge and 1 at its high one: how each edge moves them
                r = (<double>(s + end) / 2) / <double>grid
                r = (p + (1 - r if bin_size < 0 else r)) / axis.bins
                if box.clamped:
                    r = 0
                r_slope = slope * r * axis.scale
                slope = slope * (1 - r) * axis.scale if not box.clamped else slope * axis.scale
            if pixel != at:
                if at >= 0:
                    put(entries, _, at, here / <double>grid, here_low / <double>grid, here_high / <double>grid)
                    if pixel != at + 1 and at < last:
                        put(entries, _, at + 1, right / <double>grid, right_low / <double>grid, right_high / <double>grid)
                        right = right_low = right_high = 0
                here = right
                here_low = right_low
                here_high = right_high
                right = right_low = right_high = 0
                at = pixel
            here += count - fraction
            right += fraction
            if slopes:
                here_low -= slope
                here_high -= r_slope
                right_low += slope
                right_high += r_slope
            s = end
        put(entries, _, at, here / <double>grid, here_low / <double>grid, here_high / <double>grid)
        if at < last:
            put(entries, _, at + 1, right / <double>grid, right_low / <double>grid, right_high / <double>grid)
        spans[2 * p + 1] = <int32_t>(base + entries.count)


cdef inline double hat(double u) noexcept nogil:
    return max(0.0, 1 - u if u > 0 else 1 + u)


cdef void integrated_axis(
        const Axis *axis, const Interval *box, int32_t *spans, Py_ssize_t base, Entries *entries,
        real *_) noexcept nogil:
    """Weights of the mean of the bilinear surface over a bin: pixel i has the integral of max(0, 1 - |v - i|) over the
    bin, divided by the bin's length.  On a stretch between two pixels the hat is a line, so its integral is a mean of two
    values, and nothing cancels in narrow bins; it is divided by the bin's length before it is weighted, since products of
    lengths that small are not exact."""
    cdef real low = <real>box.low
    cdef real bin_size = <real>box.size / <real>axis.bins
    cdef real start
    cdef double a, b, left, right, share, near, far
    cdef Py_ssize_t pixel
    cdef int p
    for p in range(axis.bins):
        spans[2 * p] = <int32_t>(base + entries.count)
        spans[2 * p + 1] = spans[2 * p]
        start = low + <real>p * bin_size
        a = start
        b = <real>(start + bin_size)
        if not (b > a) or b <= -1 or a >= axis.extent:
            continue
        # the stretch (pixel, pixel + 1) gives `near` to pixel and `far` to pixel + 1
        pixel = <Py_ssize_t>floor(max(a, -1.0))
        far = 0
        while pixel < axis.extent and pixel < b:
            left = max(a, <double>pixel)
            right = min(b, <double>pixel + 1)
            share = 0.5 * ((right - left) / bin_size)
            near = share * ((pixel + 1 - left) + (pixel + 1 - right)) + far
            far = share * ((left - pixel) + (right - pixel))
            if pixel >= 0:
                integrated_put(axis, entries, _, pixel, near, a, b, bin_size, p)
            pixel += 1
        if far > 0 and pixel < axis.extent:
            integrated_put(axis, entries, _, pixel, far, a, b, bin_size, p)
        spans[2 * p + 1] = <int32_t>(base + entries.count)


cdef inline void integrated_put(
        const Axis *axis, Entries *entries, real *_, Py_ssize_t pixel, double mean, double a, double b,
        double bin_size, int p) noexcept nogil:
    """Both ends of the bin move with both edges of the box, and so does the length that divides the integral."""
    cdef double at_a = hat(a - pixel), at_b = hat(b - pixel)
    cdef double from_low = (mean - at_a * (axis.bins - p) + at_b * (axis.bins - p - 1)) / axis.bins
    cdef double from_high = (-mean - at_a * p + at_b * (p + 1)) / axis.bins
    put(entries, _, pixel, mean, from_low * axis.scale / bin_size, from_high * axis.scale / bin_size)


cdef inline void quantised_bin(
        const Axis *axis, const Interval *box, int p, Py_ssize_t extent, real *_, Py_ssize_t *first,
        Py_ssize_t *stop) noexcept nogil:
    """The pixels of bin p from first to stop - 1, of those below extent."""
    cdef real bin_size = <real>box.size / <real>axis.bins
    first[0] = <Py_ssize_t>min(max(floor(<real>p * bin_size) + box.low, 0), <double>extent)
    stop[0] = <Py_ssize_t>min(max(ceil(<real>(p + 1) * bin_size) + box.low, 0), <double>extent)


cdef void quantised_axis(const Axis *axis, const Interval *box, int32_t *spans, real *_) noexcept nogil:
    cdef Py_ssize_t first = 0, stop = 0
    cdef int p
    for p in range(axis.bins):
        quantised_bin(axis, box, p, axis.extent, _, &first, &stop)
        spans[2 * p] = <int32_t>first
        spans[2 * p + 1] = <int32_t>stop


cdef void uniform_axis(
        const Axis *axis, const Interval *box, int32_t *spans, Py_ssize_t base, Entries *entries,
        real *_) noexcept nogil:
    """Equal weights of the pixels of a bin, never the last row or column of the map: torchvision leaves them out."""
    cdef Py_ssize_t first = 0, stop = 0, pixel
    cdef int p
    for p in range(axis.bins):
        spans[2 * p] = <int32_t>(base + entries.count)
        quantised_bin(axis, box, p, axis.extent - 1, _, &first, &stop)
        for pixel in range(first, stop):
            put(entries, _, pixel, 1.0 / <double>(stop - first), 0, 0)
        spans[2 * p + 1] = <int32_t>(base + entries.count)


cdef inline void window(const int32_t *spans, int bins, const int32_t *index, int32_t *ends) noexcept nogil:
    """First and last + 1 of the pixels in the spans of one axis; without an index, spans are pixels themselves."""
    cdef int p
    cdef int32_t first, last
    cdef bint empty = True
    ends[0] = ends[1] = 0
    for p in range(bins):
        first, last = spans[2 * p], spans[2 * p + 1] - 1
        if first > last:
            continue
        if index != NULL:
            first, last = index[first], index[last]
        ends[0] = first if empty else min(first, ends[0])
        ends[1] = last + 1 if empty else max(last + 1, ends[1])
        empty = False


cdef void box_tables(
        const Rule *rule, const Axis *axes, const real *corners, Py_ssize_t stride, const Py_ssize_t *starts,
        int32_t *windows, int32_t *spans, int32_t *index, real *weight, real *slopes, Py_ssize_t total) noexcept nogil:
    """Both axes, y before x, of one box."""
    cdef Interval box
    cdef Entries entries
    cdef int a
    for a in range(2):
        box = interval(rule, axes[a].scale, corners[(1 - a) * stride], corners[(3 - a) * stride])
        entries.count = 0
        entries.index = index + starts[a]
        entries.weight = weight + starts[a]
        entries.slope_low = NULL if slopes == NULL else slopes + starts[a]
        entries.slope_high = NULL if slopes == NULL else slopes + total + starts[a]
        if rule.kind == SAMPLED:
            sampled_axis(rule, &axes[a], &box, spans, starts[a], &entries, <real*>NULL)
        elif rule.kind == INTEGRATED:
            integrated_axis(&axes[a], &box, spans, starts[a], &entries, <real*>NULL)
        elif rule.kind == UNIFORM:
            uniform_axis(&axes[a], &box, spans, starts[a], &entries, <real*>NULL)
        else:
            quantised_axis(&axes[a], &box, spans, <real*>NULL)
        window(spans, axes[a].bins, index, windows + 2 * a)
        spans += 2 * axes[a].bins


def sampled(int sampling_ratio, bint aligned, bint at_least_one):
    return SAMPLED, sampling_ratio, aligned, at_least_one, False


INTEGRATED_RULE = (INTEGRATED, 0, False, False, False)
UNIFORM_RULE = (UNIFORM, 0, False, False, False)
QUANTISED_RULE = (QUANTISED, 0, False, False, True)


cdef Rule rule_of(tuple rule):
    cdef Rule r
    r.kind, r.sampling_ratio, r.aligned, r.at_least_one, r.inclusive = rule
    return r


cdef inline Axis axis_of(int bins, Py_ssize_t extent, double scale) noexcept:
    cdef Axis axis
    axis.bins, axis.extent, axis.scale = bins, extent, scale
    return axis


def tables(
        const real[:, :] coordinates, const int32_t[::1] order, Py_ssize_t first, Py_ssize_t most, tuple rule, tuple bins, tuple extents,
        double scale, bint slopes, int threads):
    """Tables of boxes order[first:], at most so many and as far as TABLE_BYTES allow: (stop, windows, spans, index, weight, slopes or None).

    coordinates: (K, 4) x1, y1, x2, y2; rule: one of the above; bins: (PH, PW); extents: (H, W).
    """
    cdef Rule r = rule_of(rule)
    cdef Axis[2] axes
    cdef int a
    for a in range(2):
        axes[a] = axis_of(bins[a], extents[a], scale)
    cdef int all_bins = axes[0].bins + axes[1].bins
    cdef Py_ssize_t entry_bytes = sizeof(int32_t) + (3 if slopes else 1) * sizeof(real)
    cdef Py_ssize_t box_bytes = 4 * sizeof(int32_t) + 2 * sizeof(Py_ssize_t) + 2 * all_bins * sizeof(int32_t)
    cdef Py_ssize_t count = min(min(order.shape[0] - first, most), max(TABLE_BYTES // box_bytes, 1)), k, total = 0
    starts_array = np.empty((count, 2), np.intp)
    cdef Py_ssize_t[:, ::1] starts = starts_array
    cdef Interval[2] box
    with nogil:
        for k in range(count):
            for a in range(2):
                box[a] = interval(&r, scale, coordinates[order[first + k], 1 - a], coordinates[order[first + k], 3 - a])
                starts[k, a] = total
                total += room(&r, &axes[a], &box[a], <real*>NULL)
            if k > 0 and total * entry_bytes + k * box_bytes > TABLE_BYTES:
                total = starts[k, 0]
                count = k
                break
    windows_array = np.empty((count, 4), np.int32)
    spans_array = np.empty((count, all_bins, 2), np.int32)
    index_array = np.empty(total, np.int32)
    dtype = np.float32 if real is float else np.float64
    weight_array = np.empty(total, dtype)
    slopes_array = np.empty((2, total), dtype) if slopes else None
    if count == 0:
        return first, windows_array, spans_array, index_array, weight_array, slopes_array
    cdef int32_t[:, ::1] windows = windows_array
    cdef int32_t[:, :, ::1] spans = spans_array
    cdef int32_t[::1] index = index_array
    cdef real[::1] weight = weight_array
    cdef real[:, ::1] slope = slopes_array if slopes else None
    cdef int32_t *index_start = &index[0] if total else NULL
    cdef real *weight_start = &weight[0] if total else NULL
    cdef real *slopes_start = &slope[0, 0] if slopes and total else NULL
    cdef Py_ssize_t stride = coordinates.strides[1] // <Py_ssize_t>sizeof(real)
    if threads == 1 or count * all_bins < PARALLEL_BINS:
        with nogil:
            for k in range(count):
                box_tables(&r, axes, &coordinates[order[first + k], 0], stride, &starts[k, 0], &windows[k, 0], &spans[k, 0, 0], index_start, weight_start, slopes_start, total)
    else:
        for k in prange(count, nogil=True, num_threads=threads, schedule="dynamic", chunksize=16):
            box_tables(&r, axes, &coordinates[order[first + k], 0], stride, &starts[k, 0], &windows[k, 0], &spans[k, 0, 0], index_start, weight_start, slopes_start, total)
    return first + count, windows_array, spans_array, index_array, weight_array, slopes_array


cdef Py_ssize_t turn_axis(
        const int32_t *spans, int bins, const int32_t *index, const real *weight, int32_t *pixels,
        int32_t *pixel_spans, int32_t *bin_index, real *bin_weight) noexcept nogil:
    """One axis of one box: the pixels that its bins read, in ascending order, and the bins that read each; how many pixels.

    Bins follow each other on the map with an overlap of a pixel or two, forwards or (inverted boxes) backwards: walked
    in that order, an entry belongs to one of the last few pixels.
    """
    cdef Py_ssize_t count = 0, base = spans[0], at = -1, i, j
    cdef int p, turn, walked
    cdef bint ascending = True
    cdef int32_t seen = -1, position
    for p in range(bins):
        if spans[2 * p] < spans[2 * p + 1]:
            if seen >= 0 and index[spans[2 * p]] != seen:
                ascending = index[spans[2 * p]] > seen
                break
            seen = index[spans[2 * p]]
    for turn in range(2):         # first count the bins of each pixel, then list them
        for walked in range(bins):
            p = walked if ascending else bins - 1 - walked
            for j in range(spans[2 * p], spans[2 * p + 1]):
                while at + 1 < count and pixels[at + 1] <= index[j]:
                    at += 1
                while at >= 0 and pixels[at] > index[j]:
                    at -= 1
                if turn == 1:
                    position = pixel_spans[2 * at + 1]
                    bin_index[position - base] = p
                    bin_weight[position - base] = weight[j]
                    pixel_spans[2 * at + 1] += 1
                elif at >= 0 and pixels[at] == index[j]:
                    pixel_spans[2 * at + 1] += 1
                else:
                    at += 1
                    for i in range(count, at, -1):
                        pixels[i] = pixels[i - 1]
                        pixel_spans[2 * i + 1] = pixel_spans[2 * i - 1]
                    pixels[at] = index[j]
                    pixel_spans[2 * at + 1] = 1
                    count += 1
        if turn == 0:
            position = <int32_t>base
            for i in range(count):
                pixel_spans[2 * i] = position
                position += pixel_spans[2 * i + 1]
                pixel_spans[2 * i + 1] = pixel_spans[2 * i]
    return count


def by_pixel(
        const int32_t[:, :, ::1] spans, const int32_t[::1] index, const real[::1] weight, tuple bins, int threads):
    """(counts, pixels, spans, bin, weight): what `tables` made, turned round.

    counts (n, 2)         pixels that are read, in y and in x
    pixels (entries,)     those of y from spans[k, 0, 0] of the argument on, those of x from spans[k, PH, 0] on, ascending
    spans  (entries, 2)   the entries of each pixel
    bin    (entries,)     bin, ascending (of inverted boxes descending)
    weight (entries,)     the weight of the pixel in that bin
    """
    cdef Py_ssize_t k, entries = index.shape[0], y, x
    cdef int ph = bins[0], pw = bins[1]
    counts_array = np.empty((spans.shape[0], 2), np.int32)
    pixels_array = np.empty(entries, np.int32)
    pixel_spans_array = np.empty((entries, 2), np.int32)
    bin_array = np.empty(entries, np.int32)
    bin_weight_array = np.empty(entries, np.float32 if real is float else np.float64)
    cdef int32_t[:, ::1] counts = counts_array, pixel_spans = pixel_spans_array
    cdef int32_t[::1] pixels = pixels_array, bin_index = bin_array
    cdef real[::1] bin_weight = bin_weight_array
    if entries == 0:
        counts_array[...] = 0
    else:
        if spans.shape[0] * (ph + pw) < PARALLEL_BINS:
            threads = 1
        for k in prange(spans.shape[0], nogil=True, num_threads=threads, schedule="dynamic", chunksize=16):
            y = min(<Py_ssize_t>spans[k, 0, 0], entries - 1)
            x = min(<Py_ssize_t>spans[k, ph, 0], entries - 1)
            counts[k, 0] = <int32_t>turn_axis(&spans[k, 0, 0], ph, &index[0], &weight[0], &pixels[y], &pixel_spans[y, 0], &bin_index[y], &bin_weight[y])
            counts[k, 1] = <int32_t>turn_axis(&spans[k, ph, 0], pw, &index[0], &weight[0], &pixels[x], &pixel_spans[x, 0], &bin_index[x], &bin_weight[x])
    return counts_array, pixels_array, pixel_spans_array, bin_array, bin_weight_array


cdef Py_ssize_t points_axis(
        const Rule *rule, const Axis *axis, const Interval *box, int32_t *spans, uint8_t *outside, Py_ssize_t base, int32_t *pixels,
        real *fractions, int32_t *ends) noexcept nogil:
    """The samples of one axis of one box that lie on the map, and how many; without spans they are only counted."""
    cdef real low = <real>box.low
    cdef real bin_size = <real>box.size / <real>axis.bins
    cdef real start
    cdef int64_t grid = grid_of(rule, bin_size), s = 0, stop = 0
    cdef Py_ssize_t count = 0, pixel, last = axis.extent - 1
    cdef double v
    cdef int p
    if spans != NULL:
        ends[0] = ends[1] = 0
    for p in range(axis.bins):
        start = low + <real>p * bin_size
        samples_on_map(start, bin_size, grid, axis.extent, &s, &stop)
        if spans == NULL:
            count += stop - s
            continue
        spans[2 * p] = <int32_t>(base + count)
        outside[p] = stop - s < grid
        while s < stop:
            v = min(max(<double>sample(start, bin_size, grid, s), 0.0), <double>last)
            pixel = <Py_ssize_t>v
            pixels[count] = <int32_t>pixel
            fractions[count] = <real>(v - <double>pixel)
            ends[0] = min(ends[0], <int32_t>pixel) if ends[1] > 0 else <int32_t>pixel
            ends[1] = max(ends[1], <int32_t>min(pixel + 2, axis.extent))
            count += 1
            s += 1
        spans[2 * p + 1] = <int32_t>(base + count)
    return count


def points(
        const real[:, :] coordinates, const int32_t[::1] order, Py_ssize_t first, tuple rule, tuple bins, tuple extents, double scale):
    """The samples themselves, as `tables` makes the weights of their means, of boxes order[first:stop]: (stop, windows, spans, outside,
    pixels, fractions).

    spans     (n, PH + PW, 2) the samples of each bin that lie on the map
    outside   (n, PH + PW)    whether the bin has others
    pixels    (entries,)      the pixel at or before a sample
    fractions (entries,)      how far the sample is from it
    """
    cdef Rule r = rule_of(rule)
    cdef Axis[2] axes
    cdef int a
    for a in range(2):
        axes[a] = axis_of(bins[a], extents[a], scale)
    cdef int all_bins = axes[0].bins + axes[1].bins
    cdef Py_ssize_t box_bytes = 4 * sizeof(int32_t) + 2 * sizeof(Py_ssize_t) + all_bins * (2 * sizeof(int32_t) + 1)
    cdef Py_ssize_t count = min(order.shape[0] - first, max(TABLE_BYTES // box_bytes, 1)), k, total = 0
    starts_array = np.empty((count, 2), np.intp)
    cdef Py_ssize_t[:, ::1] starts = starts_array
    cdef Interval[2] box
    with nogil:
        for k in range(count):
            for a in range(2):
                box[a] = interval(&r, scale, coordinates[order[first + k], 1 - a], coordinates[order[first + k], 3 - a])
                starts[k, a] = total
                total += points_axis(&r, &axes[a], &box[a], NULL, NULL, 0, NULL, <real*>NULL, NULL)
            if k > 0 and total * <Py_ssize_t>(sizeof(int32_t) + sizeof(real)) + k * box_bytes > TABLE_BYTES:
                total = starts[k, 0]
                count = k
                break
    if total > INT32_MAX:
        raise MemoryError(f"the samples of a box are {total}, more than can be counted")
    windows_array = np.empty((count, 4), np.int32)
    spans_array = np.empty((count, all_bins, 2), np.int32)
    outside_array = np.empty((count, all_bins), np.uint8)
    # an element more, so that what comes after the last sample has an address
    pixels_array = np.empty(total + 1, np.int32)
    fractions_array = np.empty(total + 1, np.float32 if real is float else np.float64)
    cdef int32_t[:, ::1] windows = windows_array
    cdef int32_t[:, :, ::1] spans = spans_array
    cdef uint8_t[:, ::1] outside = outside_array
    cdef int32_t[::1] pixels = pixels_array
    cdef real[::1] fractions = fractions_array
    with nogil:
        for k in range(count):
            for a in range(2):
                box[a] = interval(&r, scale, coordinates[order[first + k], 1 - a], coordinates[order[first + k], 3 - a])
                points_axis(&r, &axes[a], &box[a], &spans[k, a * axes[0].bins, 0], &outside[k, a * axes[0].bins], starts[k, a],
                            &pixels[starts[k, a]], &fractions[starts[k, a]], &windows[k, 2 * a])
    return first + count, windows_array, spans_array, outside_array, pixels_array, fractions_array
