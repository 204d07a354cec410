"""Geometry: from boxes to axis tables, the only place that knows where a bin lies.

Every operator cuts a box into PH x PW bins and weighs the pixels of a bin by (weight in y) x (weight in x).  So a box
needs two small tables, one per axis, whatever the number of channels and samples: for each bin the pixels that it reads
and their weights.  `tables` makes them, by one of the rules

    SAMPLED     the mean of bilinear samples (roi_align, ps_roi_align)
    INTEGRATED  the exact mean of the bilinear surface (prroi_pool)
    UNIFORM     the mean of whole pixels, from floor to ceil (ps_roi_pool)
    QUANTISED   those pixels without weights (roi_pool)
    SAMPLES     bilinear samples one by one, for what is not a mean of them (roi_align_max)

A pixel that a bin does not read is not in its table, so that a NaN there cannot reach the bin.

Positions are computed in the type of the data, in the order written here, and this file is compiled without contraction
into fused multiply-adds: the number of samples of a bin, and which of them lie on the map, then agree bit for bit with
torchvision's.  Weights are summed in double.

Boxes are sorted by place first, and tables made in that order, in which the kernels go through them: so they are read in one sweep.
What is made, and how it lies in memory, is said in roicy/_kernels/geometry.pxd.

`by_pixel` turns tables round, from the pixels of each bin to the bins of each pixel, which is what gradients want to know.
"""
from cython.parallel cimport prange
from libc.float cimport DBL_EPSILON, FLT_EPSILON
from libc.math cimport ceil, fabs, floor, round
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from types import SimpleNamespace

import numpy as np

from simd.simd cimport real

cdef enum:
    SAMPLED = 0
    INTEGRATED = 1
    UNIFORM = 2
    QUANTISED = 3
    SAMPLES = 4
    # The tables of one call take at most about this many bytes, or hold one box; callers come back for the other boxes.
    TABLE_BYTES = 8 << 20
    # Fewer bins than this are not worth waking threads for: about 50 microseconds of work.
    PARALLEL_BINS = 4096
    # Boxes are sorted by place to this precision: rows, or bands of rows times columns
    BUCKETS = 1024
    FEW = 32               # boxes that are sorted by insertion
    FEW_SAMPLES = 16       # of a bin, whose places in a bin are computed once for all bins of an axis
    BANDS = 32
    BAND_ROWS = 32         # a few megabytes of map between a box and its lower neighbour in the next band

# Adaptive grids of boxes past 2**62 pixels a bin would not fit the sample counter: they stop there.
cdef double GRID_MAX = 4.0e18

# What the quantised rule does with coordinates that no pixel index could hold: far away is far enough.
cdef double FAR = 1.0e15


cdef struct Rule:
    int kind
    int sampling_ratio     # SAMPLED, SAMPLES: samples per bin and axis; 0 or less: ceil(size of a bin)
    bint aligned           # the same: coordinates are moved by half a pixel
    bint at_least_one      # the same: boxes are at least one pixel wide and high
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
    if rule.kind == UNIFORM or rule.kind == QUANTISED:
        start = <real>min(max(round(low * s), -FAR), FAR)
        end = <real>min(max(round(high * s), -FAR), FAR)
        box.low = start
        box.size = max(<double>end - <double>start + rule.inclusive, 1.0)
        return box
    cdef real offset = <real>0.5 if rule.aligned else <real>0
    start = low * s - offset
    end = high * s - offset
    size = end - start
    if rule.at_least_one and size < 1:
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
    if rule.kind == SAMPLES:
        return samples_axis(rule, axis, box, NULL, NULL, 0, NULL, _, NULL)
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


cdef inline real within_bin(real bin_size, int64_t grid, int64_t s) noexcept nogil:
    """How far sample s of the grid samples of a bin is from its start, in ascending order also where bins run backwards."""
    if bin_size < 0:
        s = grid - 1 - s
    return (<real>s + <real>0.5) * bin_size / <real>grid


cdef inline real sample(real start, real bin_size, int64_t grid, int64_t s) noexcept nogil:
    """Position of that sample."""
    return start + within_bin(bin_size, grid, s)


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
    cdef bint dense, few = 0 < grid <= FEW_SAMPLES
    cdef real[FEW_SAMPLES] within
    if few:
        for s in range(grid):
            within[s] = within_bin(bin_size, grid, s)
    for p in range(axis.bins):
        spans[2 * p] = <int32_t>(base + entries.count)
        spans[2 * p + 1] = spans[2 * p]
        start = low + <real>p * bin_size
        s, stop = 0, grid
        if not few or start + within[0] < -1 or start + within[grid - 1] > axis.extent:
            samples_on_map(start, bin_size, grid, axis.extent, &s, &stop)
        if s >= stop:
            continue
        dense = stop - s > 64 and stop - s > 2 * (
            sample(start, bin_size, grid, stop - 1) - sample(start, bin_size, grid, s) + 1)
        at = -1
        here = here_low = here_high = right = right_low = right_high = 0
        while s < stop:
            v = start + within[s] if few else sample(start, bin_size, grid, s)
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


cdef Py_ssize_t samples_axis(
        const Rule *rule, const Axis *axis, const Interval *box, int32_t *spans, uint8_t *outside, Py_ssize_t base, int32_t *pixels,
        real *fractions, int32_t *ends) noexcept nogil:
    """The samples of one axis of one box that lie on the map: the pixel at or before each, and how far it is from that; how many.  Without
    spans they are only counted."""
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


cdef inline void window_of(const int32_t *spans, int bins, const int32_t *index, int32_t *ends) noexcept nogil:
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
        int32_t *windows, int32_t *spans, int32_t *index, real *weight, real *slopes, Py_ssize_t total, uint8_t *outside) noexcept nogil:
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
        if rule.kind == SAMPLES:
            samples_axis(rule, &axes[a], &box, spans, outside, starts[a], entries.index, weight + starts[a], windows + 2 * a)
            outside += axes[a].bins
        elif rule.kind == SAMPLED:
            sampled_axis(rule, &axes[a], &box, spans, starts[a], &entries, <real*>NULL)
        elif rule.kind == INTEGRATED:
            integrated_axis(&axes[a], &box, spans, starts[a], &entries, <real*>NULL)
        elif rule.kind == UNIFORM:
            uniform_axis(&axes[a], &box, spans, starts[a], &entries, <real*>NULL)
        else:
            quantised_axis(&axes[a], &box, spans, <real*>NULL)
        if rule.kind != SAMPLES:
            window_of(spans, axes[a].bins, NULL if rule.kind == QUANTISED else index, windows + 2 * a)
        spans += 2 * axes[a].bins


def sampled(int sampling_ratio, bint aligned, bint at_least_one):
    return SAMPLED, sampling_ratio, aligned, at_least_one, False


def one_by_one(tuple sampled):
    return SAMPLES, *sampled[1:]


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


cdef void *room_for(Py_ssize_t count, Py_ssize_t size) except NULL:
    """Memory for so many elements, which its owner frees."""
    cdef void *memory = malloc(max(count, 1) * size)
    if memory == NULL:
        raise MemoryError(f"no {count * size} bytes for the tables of boxes")
    return memory


cdef copied(const void *elements, Py_ssize_t count, dtype, tuple shape):
    """An array of its own, for whoever looks at tables from Python."""
    return np.frombuffer((<const char*>elements)[:count * <Py_ssize_t>dtype().itemsize], dtype).reshape(shape)


cdef class Order:
    """Boxes sorted by image, then by place."""

    def __dealloc__(self):
        if self.rows != self.boxes:
            free(self.rows)
        free(self.boxes)
        free(self.starts)


cdef class Tables:
    """Boxes first..stop-1 of an order, and their tables."""

    def __dealloc__(self):
        free(self.starts)
        free(self.windows)
        free(self.spans)
        free(self.index)
        free(self.weight)
        free(self.slopes)
        free(self.outside)
        free(self.counts)
        free(self.pixels)
        free(self.pixel_spans)
        free(self.bins_of_pixel)
        free(self.bin_weight)

    def __len__(self):
        return self.stop - self.first

    def rows(self):
        """The row of each box in the output."""
        return copied(self.order.rows + self.first, len(self), np.int32, (len(self),))

    def arrays(self):
        """Copies of what there is, by their names."""
        cdef Py_ssize_t count = len(self), all_bins = self.ph + self.pw
        real_type = np.float32 if self.itemsize == 4 else np.float64
        arrays = SimpleNamespace(
            order=copied(self.order.boxes + self.first, count, np.int32, (count,)),
            starts=copied(self.starts, self.order.images + 1, np.intp, (-1,)),
            windows=copied(self.windows, 4 * count, np.int32, (count, 4)),
        )
        if self.spans != NULL:
            arrays.spans = copied(self.spans, 2 * all_bins * count, np.int32, (count, all_bins, 2))
            arrays.index = copied(self.index, self.entries, np.int32, (-1,))
            arrays.weight = copied(self.weight, self.entries, real_type, (-1,))
        if self.slopes != NULL:
            arrays.slopes = copied(self.slopes, 2 * self.entries, real_type, (2, -1))
        if self.outside != NULL:
            arrays.outside = copied(self.outside, all_bins * count, np.uint8, (count, all_bins))
        if self.counts != NULL:
            arrays.counts = copied(self.counts, 2 * count, np.int32, (count, 2))
            arrays.pixels = copied(self.pixels, self.entries, np.int32, (-1,))
            arrays.pixel_spans = copied(self.pixel_spans, 2 * self.entries, np.int32, (-1, 2))
            arrays.bins_of_pixel = copied(self.bins_of_pixel, self.entries, np.int32, (-1,))
            arrays.bin_weight = copied(self.bin_weight, self.entries, real_type, (-1,))
        return arrays


cdef inline Py_ssize_t bucket(real edge, real scale, Py_ssize_t extent, Py_ssize_t size) noexcept nogil:
    cdef double pixel = <double>edge * scale
    return <Py_ssize_t>min(max(pixel, 0), <double>max(extent - 1, 0)) // size


cdef inline real corner(const Boxes *boxes, Py_ssize_t k, int i, real *_) noexcept nogil:
    return (<const real*>boxes.corners)[k * boxes.row + i * boxes.column]


cdef struct Places:            # buckets of boxes
    Py_ssize_t rows            # of a bucket
    Py_ssize_t columns
    Py_ssize_t steps           # buckets beside each other
    Py_ssize_t most_rows       # boxes of more are in buckets of their own, after all others


cdef inline Py_ssize_t place(const Boxes *boxes, Py_ssize_t k, const Axis *axes, const Places *places, real *_) noexcept nogil:
    """The bucket of a box, of 2 * BUCKETS."""
    cdef real scale = <real>axes[0].scale, top = corner(boxes, k, 1, _)
    cdef Py_ssize_t tall = 0, extent = axes[0].extent
    if extent > places.most_rows:
        # samples reach a pixel farther than a box, and boxes are at least a pixel high
        tall = bucket(corner(boxes, k, 3, _), scale, extent, 1) - bucket(top, scale, extent, 1)
        tall = BUCKETS if max(tall, -tall) + 3 > places.most_rows else 0
    return tall + (bucket(top, scale, extent, places.rows) * places.steps
                   + bucket(corner(boxes, k, 0, _), <real>axes[1].scale, axes[1].extent, places.columns))


cdef Order order_for(Py_ssize_t count, Py_ssize_t image_count):
    """Room for an order of so many boxes, with 0 in all starts."""
    cdef Order order = Order()
    cdef Py_ssize_t n
    order.count, order.images = count, image_count
    order.starts = <Py_ssize_t*>room_for(image_count + 1, sizeof(Py_ssize_t))
    order.rows = order.boxes = <int32_t*>room_for(order.count, sizeof(int32_t))
    for n in range(image_count + 1):
        order.starts[n] = 0
    return order


cdef void order_by_image(Order order, const int32_t *images, const int32_t *boxes) noexcept nogil:
    """Sort boxes, that are in this order or else in their own, by image; what starts[n + 1] counts are the boxes of image n."""
    cdef Py_ssize_t n, i, k
    cdef Py_ssize_t *starts = order.starts
    for n in range(order.images):
        starts[n + 1] += starts[n]
    for i in range(order.count):      # starts serve as cursors, and are moved back afterwards
        k = i if boxes == NULL else boxes[i]
        order.boxes[starts[images[k]]] = <int32_t>k
        starts[images[k]] += 1
    for n in range(order.images, 0, -1):
        starts[n] = starts[n - 1]
    starts[0] = 0


cdef Order by_image_and_place(const Boxes *boxes, Py_ssize_t image_count, const Axis *axes, Py_ssize_t most_rows, real *_):
    """Boxes sorted by image, then by place.

    Neighbours in this order read pixels that are still in cache.  By place means by top row, in which order rows are packed
    once for all boxes, of which those of more than most_rows are the last; or, where that is 0, in bands of rows, from left to right
    in each, for when nothing is packed.
    """
    cdef Order order = order_for(boxes.count, image_count)
    cdef const int32_t *images = boxes.images
    cdef Py_ssize_t k, i, count = boxes.count
    cdef Places places
    places.steps = 1 if most_rows > 0 else BUCKETS // BANDS
    places.rows = max((axes[0].extent + BUCKETS // places.steps - 1) // (BUCKETS // places.steps), 1 if most_rows > 0 else <Py_ssize_t>BAND_ROWS)
    places.columns = axes[1].extent // places.steps + 1
    places.most_rows = most_rows if most_rows > 0 else axes[0].extent
    cdef int64_t[FEW] keys
    cdef int64_t key
    if count <= FEW:           # by insertion; counting goes through all buckets
        for k in range(count):
            key = <int64_t>images[k] * (2 * BUCKETS) + place(boxes, k, axes, &places, _)
            order.starts[images[k] + 1] += 1
            i = k
            while i > 0 and keys[i - 1] > key:
                keys[i] = keys[i - 1]
                order.boxes[i] = order.boxes[i - 1]
                i -= 1
            keys[i] = key
            order.boxes[i] = <int32_t>k
        for i in range(image_count):
            order.starts[i + 1] += order.starts[i]
        return order
    bucket_array = np.empty((2, count), np.int32)
    next_array = np.zeros(2 * BUCKETS + 1, np.intp)
    cdef Py_ssize_t[::1] next_of_bucket = next_array
    cdef int32_t[::1] buckets = bucket_array[0], by_place = bucket_array[1]
    with nogil:
        for k in range(count):
            buckets[k] = <int32_t>place(boxes, k, axes, &places, _)
            next_of_bucket[buckets[k] + 1] += 1
            order.starts[images[k] + 1] += 1
        for i in range(2 * BUCKETS):
            next_of_bucket[i + 1] += next_of_bucket[i]
        for k in range(count):
            by_place[next_of_bucket[buckets[k]]] = <int32_t>k
            next_of_bucket[buckets[k]] += 1
        order_by_image(order, images, &by_place[0])
    return order


cdef Tables tables_for(Order order, Py_ssize_t first, Py_ssize_t count, tuple extents, int ph, int pw, Py_ssize_t itemsize):
    """Room for the windows and spans of boxes first..first+count-1 of an order."""
    cdef Tables made = Tables()
    cdef Py_ssize_t n
    made.order, made.first, made.stop = order, first, first + count
    made.height, made.width = extents
    made.ph, made.pw, made.itemsize = ph, pw, itemsize
    made.starts = <Py_ssize_t*>room_for(order.images + 1, sizeof(Py_ssize_t))
    for n in range(order.images + 1):
        made.starts[n] = min(max(order.starts[n], first), first + count) - first
    made.windows = <int32_t*>room_for(4 * count, sizeof(int32_t))
    made.spans = <int32_t*>room_for(2 * (ph + pw) * count, sizeof(int32_t))
    return made


cdef Order order_of(
        Tables before, const Boxes *boxes, const int32_t *rows, Py_ssize_t image_count, const Axis *axes, Py_ssize_t most_rows, real *_):
    """The order of tables made before, or a new one."""
    cdef Order order
    cdef Py_ssize_t i
    if before is not None:
        return before.order
    order = by_image_and_place(boxes, image_count, axes, most_rows, _)
    if rows != NULL:
        order.rows = <int32_t*>room_for(order.count, sizeof(int32_t))
        for i in range(order.count):
            order.rows[i] = rows[order.boxes[i]]
    return order


def tables(
        const int32_t[::1] images, const real[:, :] coordinates, const int32_t[::1] rows, Py_ssize_t image_count, tuple rule, tuple bins, tuple extents,
        double scale, Py_ssize_t most_rows, Tables before, bint slopes, Py_ssize_t most, int threads):
    """Tables of boxes, at most so many and as far as TABLE_BYTES allow: the first of the order, or those that follow on tables `before`.

    images: (K,); coordinates: (K, 4) x1, y1, x2, y2; rows: of the boxes in the output, or None if they are all that there are;
    rule: one of the above; bins: (PH, PW); extents: (H, W); most_rows: see by_image_and_place.
    """
    cdef Boxes boxes
    cdef const int32_t *to_rows = NULL
    if rows is not None:
        to_rows = &rows[0]
    boxes.count, boxes.images, boxes.corners = images.shape[0], &images[0], &coordinates[0, 0]
    boxes.row, boxes.column = coordinates.strides[0] // <Py_ssize_t>sizeof(real), coordinates.strides[1] // <Py_ssize_t>sizeof(real)
    return tables_of(&boxes, to_rows, image_count, rule, bins, extents, scale, most_rows, before, slopes, most, threads, <real*>NULL)


cdef Tables tables_of(
        const Boxes *boxes, const int32_t *rows, Py_ssize_t image_count, tuple rule, tuple bins, tuple extents, double scale, Py_ssize_t most_rows, Tables before,
        bint slopes, Py_ssize_t most, int threads, real *_):
    """The same of at least one box."""
    cdef Rule r = rule_of(rule)
    cdef Axis[2] axes
    cdef int a
    for a in range(2):
        axes[a] = axis_of(bins[a], extents[a], scale)
    cdef Order sorted_boxes = order_of(before, boxes, rows, image_count, axes, most_rows, _)
    cdef Py_ssize_t first = 0 if before is None else before.stop
    cdef int all_bins = axes[0].bins + axes[1].bins
    cdef Py_ssize_t entry_bytes = sizeof(int32_t) + (3 if slopes else 1) * sizeof(real)
    cdef Py_ssize_t box_bytes = 4 * sizeof(int32_t) + 2 * sizeof(Py_ssize_t) + 2 * all_bins * sizeof(int32_t)
    cdef Py_ssize_t count = min(min(sorted_boxes.count - first, most), max(TABLE_BYTES // box_bytes, 1)), k, total = 0
    cdef const int32_t *order = sorted_boxes.boxes + first
    cdef Py_ssize_t *starts = <Py_ssize_t*>room_for(2 * count, sizeof(Py_ssize_t))
    cdef Interval[2] box
    cdef Tables made
    try:
        with nogil:
            for k in range(count):
                for a in range(2):
                    box[a] = interval(&r, scale, corner(boxes, order[k], 1 - a, _), corner(boxes, order[k], 3 - a, _))
                    starts[2 * k + a] = total
                    total += room(&r, &axes[a], &box[a], <real*>NULL)
                if k > 0 and total * entry_bytes + k * box_bytes > TABLE_BYTES:
                    total = starts[2 * k]
                    count = k
                    break
        if total > INT32_MAX:
            raise MemoryError(f"the tables of a box have {total} entries, more than can be counted")
        made = tables_for(sorted_boxes, first, count, extents, axes[0].bins, axes[1].bins, sizeof(real))
        made.entries = total
        made.index = <int32_t*>room_for(total, sizeof(int32_t))
        made.weight = room_for(total, sizeof(real))
        if slopes:
            made.slopes = room_for(2 * total, sizeof(real))
        if r.kind == SAMPLES:
            made.outside = <uint8_t*>room_for(all_bins * count, 1)
        fill(made, &r, axes, boxes, starts, threads, _)
    finally:
        free(starts)
    return made


cdef void fill(Tables made, const Rule *rule, const Axis *axes, const Boxes *boxes, const Py_ssize_t *starts, int threads, real *_):
    """Make the tables of each box, those of its axes at `starts`."""
    cdef Py_ssize_t k, count = made.stop - made.first, total = made.entries, step = boxes.row, stride = boxes.column
    cdef const real *corners = <const real*>boxes.corners
    cdef const int32_t *order = made.order.boxes + made.first
    cdef int32_t *windows = made.windows
    cdef int32_t *spans = made.spans
    cdef int32_t *index = made.index
    cdef real *weight = <real*>made.weight
    cdef real *slopes = <real*>made.slopes
    cdef uint8_t *outside = made.outside
    cdef int all_bins = made.ph + made.pw
    if threads == 1 or count * all_bins < PARALLEL_BINS:
        with nogil:
            for k in range(count):
                box_tables(rule, axes, corners + order[k] * step, stride, starts + 2 * k, windows + 4 * k, spans + 2 * all_bins * k, index, weight,
                           slopes, total, NULL if outside == NULL else outside + all_bins * k)
    else:
        for k in prange(count, nogil=True, num_threads=threads, schedule="dynamic", chunksize=16):
            box_tables(rule, axes, corners + order[k] * step, stride, starts + 2 * k, windows + 4 * k, spans + 2 * all_bins * k, index, weight,
                       slopes, total, NULL if outside == NULL else outside + all_bins * k)


def everywhere(const int32_t[::1] images, Py_ssize_t image_count, tuple extents):
    """Boxes in their own order, sorted by image, with windows that are the whole map, and no further tables."""
    cdef Order order = order_for(images.shape[0], image_count)
    cdef Py_ssize_t k
    cdef int32_t *window
    cdef Tables made
    for k in range(order.count):
        order.starts[images[k] + 1] += 1
    order_by_image(order, &images[0], NULL)
    made = tables_for(order, 0, order.count, extents, 0, 0, 0)
    for k in range(order.count):
        window = made.windows + 4 * k
        window[0], window[1], window[2], window[3] = 0, <int32_t>made.height, 0, <int32_t>made.width
    return made


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


cdef void turn_all(Tables tables, int threads, real *_):
    cdef Py_ssize_t k, y, x, count = tables.stop - tables.first
    cdef int ph = tables.ph, pw = tables.pw
    cdef const int32_t *spans = tables.spans
    cdef const int32_t *index = tables.index
    cdef const real *weight = <const real*>tables.weight
    cdef int32_t *counts = tables.counts
    cdef int32_t *pixels = tables.pixels
    cdef int32_t *pixel_spans = tables.pixel_spans
    cdef int32_t *bin_index = tables.bins_of_pixel
    cdef real *bin_weight = <real*>tables.bin_weight
    if count * (ph + pw) < PARALLEL_BINS:
        threads = 1
    for k in prange(count, nogil=True, num_threads=threads, schedule="dynamic", chunksize=16):
        y = 2 * k * (ph + pw)
        x = y + 2 * ph
        counts[2 * k] = <int32_t>turn_axis(spans + y, ph, index, weight, pixels + spans[y], pixel_spans + 2 * spans[y], bin_index + spans[y],
                                           bin_weight + spans[y])
        counts[2 * k + 1] = <int32_t>turn_axis(spans + x, pw, index, weight, pixels + spans[x], pixel_spans + 2 * spans[x], bin_index + spans[x],
                                               bin_weight + spans[x])


def by_pixel(Tables tables, int threads):
    """Add what `tables` made, turned round."""
    tables.counts = <int32_t*>room_for(2 * len(tables), sizeof(int32_t))
    tables.pixels = <int32_t*>room_for(tables.entries, sizeof(int32_t))
    tables.pixel_spans = <int32_t*>room_for(2 * tables.entries, sizeof(int32_t))
    tables.bins_of_pixel = <int32_t*>room_for(tables.entries, sizeof(int32_t))
    tables.bin_weight = room_for(tables.entries, tables.itemsize)
    if tables.itemsize == sizeof(float):
        turn_all(tables, threads, <float*>NULL)
    else:
        turn_all(tables, threads, <double*>NULL)
