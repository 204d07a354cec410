"""Tables: which pixels the bins of each box read, and with which weights.

`sort_boxes` sorts boxes by image and place.  `make_tables` makes the tables of the next boxes in
that order, of no more than fit TABLE_BYTES.  `transpose_tables` adds, for each pixel, the bins that
read it, which gradients of the input need.  rules.h knows where bins lie, and structs.pxd says how
tables of each kind lie in memory.  `itemsize` tells whether numbers in them are float or double.

Functions that return an int raise MemoryError, and what they have made until then is freed by
free_order and free_tables, which take what is all zeros as well.
"""
from cython.parallel cimport prange, threadid
from libc.float cimport DBL_EPSILON, FLT_EPSILON
from libc.math cimport INFINITY, ceil, cos, fabs, floor, sin
from libc.stdint cimport INT32_MAX, int32_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from plan.layout cimport slope_pixels
from plan.rules cimport (
    RULE_QUANTISED, RULE_ROTATED, RULE_SAMPLED, RULE_SINGLE_SAMPLES, RULE_SLOTS, AxisSize, BoxAxis,
    Rule, TableRequest, TapSlots, TapsOut, axis_taps_double, axis_taps_float, make_axis,
    sample_count_double, sample_count_float)
from plan.spans cimport hull
from plan.sparse cimport count_sparse_taps, max_sparse_taps, sparse_tables
from plan.structs cimport PIXEL_SPANS, SAMPLES, SEPARABLE, SPARSE_TAPS, Boxes, Order, Tables
from roicy._kernels.machine cimport startable
from tuning cimport (
    BOXES_AT_ONCE, MAX_COLUMNS, MAX_TAPS_BOUND, MIN_BAND_ROWS, MIN_PARALLEL_BINS, PLACE_BANDS,
    PLACE_BUCKETS, SLOPE_BLOCKS, TABLE_BYTES, THIN_GAIN)


cdef inline void *room_for(Py_ssize_t count, Py_ssize_t size) except NULL:
    """Memory for so many elements of that size."""
    cdef void *memory = malloc(max(count, 1) * size)
    if memory == NULL:
        raise MemoryError(f"no {count * size} bytes for the tables of boxes")
    return memory


# ---------------------------------------------------------------------------- order

cdef enum:
    DIGIT_BITS = 6                 # of a bucket's number, by which boxes are sorted at once
    DIGITS = 1 << DIGIT_BITS       # two digits are more than the 2 * PLACE_BUCKETS there are


cdef struct Buckets:               # a grid of places, and another of tall boxes
    Py_ssize_t rows                # of the map in a bucket
    Py_ssize_t columns
    Py_ssize_t steps               # buckets side by side
    Py_ssize_t max_rows            # taller boxes have buckets behind all others


cdef inline double number_of(
        const Boxes *boxes, Py_ssize_t k, int i, int itemsize) noexcept nogil:
    """Number i of box k."""
    if itemsize == sizeof(float):
        return (<const float*>boxes.numbers)[boxes.width * k + i]
    return (<const double*>boxes.numbers)[boxes.width * k + i]


cdef inline void hull_of_box(
        const Boxes *boxes, Py_ssize_t k, int itemsize, double *edges) noexcept nogil:
    """x1, y1, x2, y2 of a box, or of the upright box around a turned one."""
    cdef double[5] of_box
    cdef double width, height, c, s
    cdef int i
    memset(of_box, 0, sizeof(of_box))
    for i in range(boxes.width):
        of_box[i] = number_of(boxes, k, i, itemsize)
    for i in range(4):
        edges[i] = of_box[i]
    if boxes.width == 5:
        s, c = fabs(sin(of_box[4])), fabs(cos(of_box[4]))
        width, height = fabs(of_box[2]), fabs(of_box[3])
        edges[0], edges[2] = (of_box[0] - (width * c + height * s) / 2,
                              of_box[0] + (width * c + height * s) / 2)
        edges[1], edges[3] = (of_box[1] - (width * s + height * c) / 2,
                              of_box[1] + (width * s + height * c) / 2)


cdef inline Py_ssize_t pixel_at(double edge, double scale, Py_ssize_t extent) noexcept nogil:
    """The pixel of the map that is nearest to an edge of a box."""
    return <Py_ssize_t>min(max(edge * scale, 0), <double>max(extent - 1, 0))


cdef inline Buckets buckets_for(const AxisSize *axes, Py_ssize_t max_rows) noexcept nogil:
    cdef Buckets buckets
    cdef Py_ssize_t bands = PLACE_BUCKETS if max_rows > 0 else PLACE_BANDS
    buckets.steps = PLACE_BUCKETS // bands
    buckets.rows = max(
        (axes[0].extent + bands - 1) // bands, 1 if max_rows > 0 else <Py_ssize_t>MIN_BAND_ROWS)
    buckets.columns = axes[1].extent // buckets.steps + 1
    buckets.max_rows = max_rows if max_rows > 0 else axes[0].extent
    return buckets


cdef inline int32_t bucket_of(
        const Boxes *boxes, Py_ssize_t k, const AxisSize *axes, const Buckets *buckets,
        int itemsize) noexcept nogil:
    cdef double scale_y = axes[0].scale, scale_x = axes[1].scale
    cdef Py_ssize_t extent = axes[0].extent, top, left, rows, tall = 0
    cdef double[4] edges
    hull_of_box(boxes, k, itemsize, edges)
    if itemsize == sizeof(float):
        scale_y, scale_x = <float>scale_y, <float>scale_x
    top = pixel_at(edges[1], scale_y, extent)
    left = pixel_at(edges[0], scale_x, axes[1].extent)
    if extent > buckets.max_rows:
        rows = pixel_at(edges[3], scale_y, extent) - top
        # samples reach a pixel farther than a box, and boxes are at least a pixel high
        tall = PLACE_BUCKETS if max(rows, -rows) + 3 > buckets.max_rows else 0
    return <int32_t>(tall + top // buckets.rows * buckets.steps + left // buckets.columns)


cdef inline void sort_by_digit(
        const int32_t *keys, int shift, const int32_t *boxes, Py_ssize_t count,
        int32_t *sorted_boxes) noexcept nogil:
    """Sort boxes by DIGIT_BITS bits of their keys; those that agree stay in their order."""
    cdef Py_ssize_t[DIGITS + 1] cursors
    cdef Py_ssize_t i, digit
    memset(cursors, 0, sizeof(cursors))
    for i in range(count):
        cursors[(keys[i] >> shift & (DIGITS - 1)) + 1] += 1
    for i in range(DIGITS):
        cursors[i + 1] += cursors[i]
    for i in range(count):
        digit = keys[boxes[i]] >> shift & (DIGITS - 1)
        sorted_boxes[cursors[digit]] = boxes[i]
        cursors[digit] += 1


cdef inline void sort_by_image(
        Order *order, const int32_t *images, const int32_t *boxes) noexcept nogil:
    """Sort boxes by image.  Boxes of one image stay in their order."""
    cdef Py_ssize_t *starts = order.starts
    cdef Py_ssize_t i, n
    memset(starts, 0, (order.images + 1) * sizeof(Py_ssize_t))
    for i in range(order.count):
        starts[images[i] + 1] += 1
    for n in range(order.images):
        starts[n + 1] += starts[n]
    for i in range(order.count):   # starts serve as cursors, and are moved back afterwards
        n = images[boxes[i]]
        order.boxes[starts[n]] = boxes[i]
        starts[n] += 1
    for n in range(order.images, 0, -1):
        starts[n] = starts[n - 1]
    starts[0] = 0


cdef inline int sort_boxes(
        Order *order, const Boxes *boxes, Py_ssize_t images, const AxisSize *axes,
        Py_ssize_t max_rows, int itemsize) except -1:
    """Sort boxes by image, then by place, so that neighbours read pixels that are in cache.

    axes: NULL to sort by image alone.
    max_rows > 0: rows of the map are packed once for all boxes, so boxes are sorted by their top
    rows, and boxes of more than max_rows rows come last.
    max_rows = 0: nothing is packed, so boxes are sorted by bands of rows, and from left to right in
    each band.
    """
    cdef Buckets buckets
    cdef Py_ssize_t k, count = boxes.count
    cdef int32_t *keys
    cdef int32_t *by_place
    memset(order, 0, sizeof(Order))
    order.count, order.images = count, images
    order.starts = <Py_ssize_t*>room_for(images + 1, sizeof(Py_ssize_t))
    order.rows = order.boxes = <int32_t*>room_for(count, sizeof(int32_t))
    keys = <int32_t*>room_for(2 * count, sizeof(int32_t))
    by_place = keys + count
    with nogil:
        for k in range(count):
            by_place[k] = <int32_t>k
        if axes != NULL:
            buckets = buckets_for(axes, max_rows)
            for k in range(count):
                keys[k] = bucket_of(boxes, k, axes, &buckets, itemsize)
            sort_by_digit(keys, 0, by_place, count, order.boxes)
            sort_by_digit(keys, DIGIT_BITS, order.boxes, count, by_place)
        sort_by_image(order, boxes.images, by_place)
    free(keys)
    if boxes.rows != NULL:
        order.rows = <int32_t*>room_for(count, sizeof(int32_t))
        for k in range(count):
            order.rows[k] = boxes.rows[order.boxes[k]]
    return 0


cdef inline void free_order(Order *order) noexcept:
    if order.rows != order.boxes:
        free(order.rows)
    free(order.boxes)
    free(order.starts)
    memset(order, 0, sizeof(Order))


# ---------------------------------------------------------------------------- tables

cdef inline void axis_of_box(
        BoxAxis *made, const Boxes *boxes, Py_ssize_t k, const TableRequest *request,
        int a) noexcept nogil:
    """Axis a of box k: 0 is y and 1 is x."""
    cdef const AxisSize *axis = &request.axes[a]
    cdef double low = number_of(boxes, k, 1 - a, request.itemsize)
    cdef double high = number_of(boxes, k, 3 - a, request.itemsize)
    cdef int extent = <int>axis.extent
    if request.itemsize == sizeof(float):
        make_axis(made, &request.rule, axis.scale, axis.bins, extent, <float>low, <float>high)
    else:
        make_axis(made, &request.rule, axis.scale, axis.bins, extent, low, high)


cdef inline int kind_of(int rule) noexcept nogil:
    """The kind of the tables of a rule."""
    if rule == RULE_QUANTISED:
        return PIXEL_SPANS
    if rule == RULE_SINGLE_SAMPLES:
        return SAMPLES
    return SPARSE_TAPS if rule == RULE_ROTATED else SEPARABLE


cdef inline double max_axis_taps(
        const TableRequest *request, const BoxAxis *axis) noexcept nogil:
    """An upper bound of the taps of one axis: each bin reads at most three pixels more than its
    length on the map, and at most two a sample."""
    cdef bint single = request.itemsize == sizeof(float)
    cdef double low = min(axis.low, axis.low + axis.size)
    cdef double high = max(axis.low, axis.low + axis.size)
    cdef double extent = axis.extent, rounding, taps
    cdef Py_ssize_t samples = 0
    cdef int p
    if request.kind == SAMPLES:
        for p in range(axis.bins):
            samples += sample_count_float(axis, p) if single else sample_count_double(axis, p)
        return samples
    # large coordinates are coarse, and rounding then moves the ends of bins by pixels
    rounding = 8 * max(fabs(low), fabs(high)) * (FLT_EPSILON if single else DBL_EPSILON)
    low = min(max(floor(low - rounding) - 2, 0), extent)
    high = min(max(ceil(high + rounding) + 2, 0), extent)
    taps = (high - low) + (4.0 + rounding) * axis.bins
    if request.rule.kind == RULE_SAMPLED and request.rule.sampling_ratio > 0:
        taps = min(taps, 2.0 * axis.bins * request.rule.sampling_ratio)
    return <Py_ssize_t>min(taps, extent * axis.bins)


cdef inline double max_taps(
        const Boxes *boxes, Py_ssize_t k, const TableRequest *request) noexcept nogil:
    """An upper bound of the taps of a box, which may be far above what memory holds."""
    cdef Py_ssize_t samples = request.rule.sampling_ratio
    cdef double taps = 0
    cdef BoxAxis axis
    cdef int a
    if request.kind == PIXEL_SPANS:
        return 0
    if request.kind == SPARSE_TAPS:
        return max_sparse_taps(boxes, k, request)
    for a in range(2):
        if request.rule.kind == RULE_SAMPLED and 1 <= samples <= 2:
            # They bound the taps whatever the box is: max_axis_taps would say the same.
            taps += min(2 * samples, request.axes[a].extent) * request.axes[a].bins
        else:
            axis_of_box(&axis, boxes, k, request, a)
            taps += max_axis_taps(request, &axis)
    return taps


cdef inline void axis_tables(
        Tables *tables, const Boxes *boxes, const TableRequest *request, Py_ssize_t i, Py_ssize_t k,
        Py_ssize_t start) noexcept nogil:
    """Both axes of box k, which is box i of the tables and has taps from `start` on."""
    cdef int32_t *spans = tables.spans + 2 * request.spans * i
    cdef int32_t *window = tables.windows + 4 * i
    cdef uint8_t *outside = NULL
    cdef Py_ssize_t itemsize = request.itemsize, low = 0, high = 0
    cdef BoxAxis axis
    cdef TapsOut out
    cdef int a
    out.count = 0
    out.pixel = tables.tap_pixel + start
    out.weight = <char*>tables.tap_weight + start * itemsize
    out.slope_low = out.slope_high = NULL
    if request.slopes > 0:
        out.slope_low = <char*>tables.tap_slopes + start * itemsize
        out.slope_high = <char*>out.slope_low + tables.taps * itemsize
    for a in range(2):
        axis_of_box(&axis, boxes, k, request, a)
        if request.kind == SAMPLES:
            outside = tables.outside + request.spans * i + a * request.axes[0].bins
        if itemsize == sizeof(float):
            axis_taps_float(&request.rule, &axis, <int>start, spans, outside, &out)
        else:
            axis_taps_double(&request.rule, &axis, <int>start, spans, outside, &out)
        hull(spans, 0, axis.bins, tables.tap_pixel, &low, &high)
        window[0], window[1] = <int32_t>low, <int32_t>high
        if request.kind == SAMPLES and window[0] < window[1]:
            window[1] = min(window[1], axis.extent - 1) + 1    # and the pixel after the sample
        spans += 2 * axis.bins
        window += 2


cdef inline void box_tables(
        Tables *tables, const Boxes *boxes, const TableRequest *request, Py_ssize_t i, Py_ssize_t k,
        Py_ssize_t start, TapSlots *slots) noexcept nogil:
    if request.kind == SPARSE_TAPS:
        sparse_tables(tables, boxes, request, i, k, start, slots)
    else:
        axis_tables(tables, boxes, request, i, k, start)


cdef inline int make_windows(
        Tables *tables, const Order *order, Py_ssize_t first, Py_ssize_t count) except -1:
    """Room for the windows of boxes of an order from `first` on, and what the order knows."""
    cdef Py_ssize_t n
    memset(tables, 0, sizeof(Tables))
    tables.first, tables.stop, tables.count = first, first + count, count
    tables.rows = order.rows + first
    tables.starts = <Py_ssize_t*>room_for(order.images + 1, sizeof(Py_ssize_t))
    for n in range(order.images + 1):
        tables.starts[n] = min(max(order.starts[n], first), first + count) - first
    tables.windows = <int32_t*>room_for(count, 4 * sizeof(int32_t) + 1)
    tables.how = <uint8_t*>(tables.windows + 4 * count)
    return 0


cdef inline int make_taps(Tables *tables, const TableRequest *request, Py_ssize_t taps) except -1:
    """Room for taps."""
    if taps > INT32_MAX:
        raise MemoryError(f"the tables of boxes have {taps} taps, more than can be counted")
    tables.taps = taps
    if request.kind != PIXEL_SPANS:
        tables.tap_pixel = <int32_t*>room_for(request.coordinates * taps, sizeof(int32_t))
        tables.tap_weight = room_for(taps, request.itemsize)
    if request.slopes > 0:
        tables.tap_slopes = room_for(request.slopes * taps, request.itemsize)
    if request.kind == SAMPLES:
        tables.outside = <uint8_t*>room_for(request.spans * tables.count, 1)
    if request.kind == SPARSE_TAPS:
        tables.thin = <int32_t*>room_for(tables.count, sizeof(int32_t))
    return 0


cdef inline TapSlots *make_slots(int threads) except NULL:
    """Free slots for each thread."""
    cdef TapSlots *slots = <TapSlots*>room_for(threads, sizeof(TapSlots))
    cdef Py_ssize_t i, j
    for i in range(threads):
        slots[i].used = 0
        for j in range(RULE_SLOTS * RULE_SLOTS):
            slots[i].slots[j].y = -1
    return slots


cdef inline Py_ssize_t bound_taps(
        const Order *order, const Boxes *boxes, const TableRequest *request, Py_ssize_t count,
        double *bounds) noexcept nogil:
    """Bounds of the taps of at most `count` boxes.  Returns how many boxes TABLE_BYTES have room
    for, at least 1."""
    cdef Py_ssize_t tap_bytes = (request.coordinates * sizeof(int32_t)
                                 + (1 + request.slopes) * request.itemsize)
    cdef Py_ssize_t box_bytes = bytes_of_box(request), i
    cdef double total = 0
    for i in range(count):
        bounds[i] = max_taps(boxes, order.boxes[request.first + i], request)
        total += bounds[i] * tap_bytes + box_bytes
        if i > 0 and total > TABLE_BYTES:
            return i
    return count


cdef inline Py_ssize_t bytes_of_box(const TableRequest *request) noexcept nogil:
    """Of tables without taps: window, `how`, start and bound of taps, spans."""
    return (4 * sizeof(int32_t) + 1 + 2 * sizeof(Py_ssize_t)
            + 2 * request.spans * <Py_ssize_t>sizeof(int32_t))


cdef inline void count_high_bounds(
        const Boxes *boxes, const TableRequest *request, const int32_t *order, Py_ssize_t count,
        double *bounds, TapSlots *slots, int threads) noexcept:
    """Count the taps of turned boxes whose bounds are high."""
    cdef Py_ssize_t i
    for i in prange(count, nogil=True, num_threads=threads, schedule="dynamic",
                    chunksize=BOXES_AT_ONCE):
        if bounds[i] > MAX_TAPS_BOUND:
            bounds[i] = count_sparse_taps(boxes, order[i], request, &slots[threadid()])


cdef inline int fill_tables(
        Tables *tables, const Boxes *boxes, const TableRequest *request, const int32_t *order,
        Py_ssize_t *tap_starts, double *bounds) except -1:
    """Make room for taps, and write them."""
    cdef int threads = startable(
        request.threads if tables.count * request.spans >= MIN_PARALLEL_BINS else 1)
    cdef TapSlots *slots = NULL
    cdef Py_ssize_t i
    if request.kind == SPARSE_TAPS:
        slots = make_slots(threads)
        count_high_bounds(boxes, request, order, tables.count, bounds, slots, threads)
    try:
        tap_starts[0] = 0
        for i in range(tables.count):
            tap_starts[i + 1] = tap_starts[i] + <Py_ssize_t>bounds[i]
        make_taps(tables, request, tap_starts[tables.count])
        if threads == 1:               # a parallel region is not free even with one thread
            with nogil:
                for i in range(tables.count):
                    box_tables(tables, boxes, request, i, order[i], tap_starts[i], slots)
            return 0
        for i in prange(tables.count, nogil=True, num_threads=threads, schedule="dynamic",
                        chunksize=BOXES_AT_ONCE):
            box_tables(tables, boxes, request, i, order[i], tap_starts[i], &slots[threadid()])
    finally:
        free(slots)
    return 0


cdef inline int make_tables(
        Tables *tables, const Order *order, const Boxes *boxes,
        const TableRequest *request) except -1:
    """Make the tables of some boxes of an order, from box request.first on: at most
    request.max_boxes, and no more than fit TABLE_BYTES, but at least one."""
    cdef Py_ssize_t count = min(order.count - request.first, request.max_boxes)
    cdef Py_ssize_t *tap_starts
    cdef double *bounds
    memset(tables, 0, sizeof(Tables))
    count = min(count, max(TABLE_BYTES // bytes_of_box(request), 1))
    tap_starts = <Py_ssize_t*>room_for(2 * count + 1, sizeof(Py_ssize_t))
    bounds = <double*>(tap_starts + count + 1)
    try:
        with nogil:
            count = bound_taps(order, boxes, request, count, bounds)
        make_windows(tables, order, request.first, count)
        tables.kind = request.kind
        tables.spans = <int32_t*>room_for(2 * request.spans * count, sizeof(int32_t))
        fill_tables(tables, boxes, request, order.boxes + request.first, tap_starts, bounds)
    finally:
        free(tap_starts)
    return 0


cdef inline int whole_map_tables(
        Tables *tables, Order *order, const Boxes *boxes, Py_ssize_t images, Py_ssize_t rows,
        Py_ssize_t columns) except -1:
    """Boxes sorted by image alone, with windows that are the whole map, and no taps."""
    cdef Py_ssize_t i
    cdef int32_t *window
    memset(tables, 0, sizeof(Tables))
    sort_boxes(order, boxes, images, NULL, 0, 0)
    make_windows(tables, order, 0, order.count)
    for i in range(order.count):
        window = tables.windows + 4 * i
        window[0], window[1], window[2], window[3] = 0, <int32_t>rows, 0, <int32_t>columns
    return 0


cdef inline void free_tables(Tables *tables) noexcept:
    free(tables.starts)
    free(tables.windows)
    free(tables.spans)
    free(tables.tap_pixel)
    free(tables.tap_weight)
    free(tables.tap_slopes)
    free(tables.outside)
    free(tables.thin)
    free(tables.tap_slot)
    free(tables.slot_pixel)
    free(tables.counts)
    free(tables.pixels)
    free(tables.pixel_spans)
    free(tables.bin)
    free(tables.bin_weight)
    memset(tables, 0, sizeof(Tables))


# ---------------------------------------------------------------------------- transposed tables

cdef inline void copy_number(
        void *to, Py_ssize_t i, const void *numbers, Py_ssize_t j, int itemsize) noexcept nogil:
    if itemsize == sizeof(float):
        (<float*>to)[i] = (<const float*>numbers)[j]
    else:
        (<double*>to)[i] = (<const double*>numbers)[j]


cdef inline bint bins_ascend(
        const int32_t *spans, int bins, const int32_t *tap_pixel) noexcept nogil:
    """Whether bins follow each other in the map's direction.  Bins of inverted boxes do not."""
    cdef int32_t before = -1, pixel
    cdef int p
    for p in range(bins):
        if spans[2 * p] < spans[2 * p + 1]:
            pixel = tap_pixel[spans[2 * p]]
            if before >= 0 and pixel != before:
                return pixel > before
            before = pixel
    return True


cdef inline Py_ssize_t seek(
        const int32_t *pixels, Py_ssize_t count, Py_ssize_t at, int32_t pixel) noexcept nogil:
    """The index of the last of some ascending pixels that is not past `pixel`, or -1.

    at: where the search begins.
    """
    while at + 1 < count and pixels[at + 1] <= pixel:
        at += 1
    while at >= 0 and pixels[at] > pixel:
        at -= 1
    return at


cdef inline Py_ssize_t count_pixels(
        const int32_t *spans, int bins, bint ascend, const int32_t *tap_pixel, int32_t *pixels,
        int32_t *pixel_spans) noexcept nogil:
    """List the pixels that the bins of one axis read, and where the list of bins of each pixel will
    begin.  Return the number of pixels.

    Neighbouring bins overlap by a pixel or two.  If bins are visited in ascending order, the pixel
    of a tap is therefore one of the last few of the list, and `seek` takes few steps.
    """
    cdef Py_ssize_t count = 0, at = -1, i, j
    cdef int walked, p
    cdef int32_t start = spans[0]
    for walked in range(bins):
        p = walked if ascend else bins - 1 - walked
        for j in range(spans[2 * p], spans[2 * p + 1]):
            at = seek(pixels, count, at, tap_pixel[j])
            if at < 0 or pixels[at] != tap_pixel[j]:
                at += 1
                for i in range(count, at, -1):
                    pixels[i] = pixels[i - 1]
                    pixel_spans[2 * i + 1] = pixel_spans[2 * i - 1]
                pixels[at] = tap_pixel[j]
                pixel_spans[2 * at + 1] = 0
                count += 1
            pixel_spans[2 * at + 1] += 1
    for i in range(count):             # from how many there are to where they begin
        pixel_spans[2 * i] = start
        start += pixel_spans[2 * i + 1]
        pixel_spans[2 * i + 1] = pixel_spans[2 * i]
    return count


cdef inline Py_ssize_t transpose_axis(
        Tables *tables, const int32_t *spans, int bins, int itemsize) noexcept nogil:
    """One axis of one box; returns how many pixels its bins read."""
    cdef Py_ssize_t base = spans[0], count, at = -1, j
    cdef int32_t *pixels = tables.pixels + base
    cdef int32_t *pixel_spans = tables.pixel_spans + 2 * base
    cdef const int32_t *tap_pixel = tables.tap_pixel
    cdef bint ascend = bins_ascend(spans, bins, tap_pixel)
    cdef int walked, p
    cdef int32_t next_bin
    count = count_pixels(spans, bins, ascend, tap_pixel, pixels, pixel_spans)
    for walked in range(bins):
        p = walked if ascend else bins - 1 - walked
        for j in range(spans[2 * p], spans[2 * p + 1]):
            at = seek(pixels, count, at, tap_pixel[j])
            next_bin = pixel_spans[2 * at + 1]
            tables.bin[next_bin] = p
            copy_number(tables.bin_weight, next_bin, tables.tap_weight, j, itemsize)
            pixel_spans[2 * at + 1] = next_bin + 1
    return count


cdef inline void transpose_box(
        Tables *tables, int ph, int pw, int itemsize, Py_ssize_t i) noexcept nogil:
    cdef const int32_t *spans = tables.spans + 2 * (ph + pw) * i
    tables.counts[2 * i] = <int32_t>transpose_axis(tables, spans, ph, itemsize)
    tables.counts[2 * i + 1] = <int32_t>transpose_axis(tables, spans + 2 * ph, pw, itemsize)


cdef inline int transpose_tables(
        Tables *tables, int ph, int pw, int itemsize, int threads) except -1:
    """Add the pixels that each box reads, and the bins and weights of each pixel."""
    cdef Py_ssize_t i
    tables.counts = <int32_t*>room_for(2 * tables.count, sizeof(int32_t))
    tables.pixels = <int32_t*>room_for(tables.taps, sizeof(int32_t))
    tables.pixel_spans = <int32_t*>room_for(2 * tables.taps, sizeof(int32_t))
    tables.bin = <int32_t*>room_for(tables.taps, sizeof(int32_t))
    tables.bin_weight = room_for(tables.taps, itemsize)
    if tables.count * (ph + pw) < MIN_PARALLEL_BINS:
        threads = 1
    threads = startable(threads)
    for i in prange(
            tables.count, nogil=True, num_threads=threads, schedule="dynamic",
            chunksize=BOXES_AT_ONCE):
        transpose_box(tables, ph, pw, itemsize, i)
    return 0


# ---------------------------------------------------------------------------- thin boxes

cdef inline double window_area(const Tables *tables, Py_ssize_t i) noexcept nogil:
    """Pixels of a window; of a thin box, only those that are packed."""
    cdef const int32_t *window = tables.windows + 4 * i
    if tables.thin != NULL and tables.thin[i] > 0:
        return tables.thin[i]
    return <double>(window[1] - window[0]) * (window[3] - window[2])


cdef inline double thin_area(int ph, int pw, const Rule *rule) noexcept nogil:
    """From how many pixels on a window is thin: it has many times more than there can be taps.

    There are at most two taps a sample, and no bound where the box decides how many samples there
    are.  Neither the taps that lie on the map nor other boxes matter, so that a box is thin in
    every batch or in none.
    """
    cdef double ratio = rule.sampling_ratio
    if ratio <= 0:
        return INFINITY
    return THIN_GAIN * 4.0 * ph * pw * ratio * ratio


cdef inline bint any_is_thin(const Tables *tables, double area) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(tables.count):
        if window_area(tables, i) >= area:
            return True
    return False


cdef inline void set_slots(
        Tables *tables, const int32_t *spans, int bins, Py_ssize_t extent) noexcept nogil:
    """Set the slots of one axis of a box: the pixels that its taps read, in their order.

    A single sample has two slots, for the pixels around it.  The last pixel of the map has no
    neighbour and takes itself for one.
    """
    cdef Py_ssize_t first = spans[0], tap
    cdef int each = tables.slots_of_tap
    cdef int32_t pixel
    for tap in range(first, spans[2 * bins - 1]):
        pixel = tables.tap_pixel[tap]
        tables.tap_slot[tap] = <int32_t>(each * (tap - first))
        tables.slot_pixel[each * tap] = pixel
        if each == 2:
            tables.slot_pixel[2 * tap + 1] = <int32_t>min(pixel + 1, extent - 1)


cdef inline Py_ssize_t find_thin_boxes(
        Tables *tables, const TableRequest *request) except -1:
    """Mark boxes whose taps are in few rows and columns of their windows, and list those.

    Return how many boxes are thin.
    """
    cdef const int32_t *spans = tables.spans
    cdef int ph = request.axes[0].bins, pw = request.axes[1].bins
    cdef int each = 2 if request.kind == SAMPLES else 1
    cdef double area = thin_area(ph, pw, &request.rule)
    cdef Py_ssize_t i, rows, columns, found = 0
    if area == INFINITY or not any_is_thin(tables, area):
        return 0
    tables.slots_of_tap = each
    tables.tap_slot = <int32_t*>room_for(tables.taps, sizeof(int32_t))
    tables.slot_pixel = <int32_t*>room_for(each * tables.taps, sizeof(int32_t))
    tables.thin = <int32_t*>room_for(tables.count, sizeof(int32_t))
    memset(tables.thin, 0, tables.count * sizeof(int32_t))
    for i in range(tables.count):
        rows = each * (spans[2 * ph - 1] - spans[0])
        columns = each * (spans[2 * (ph + pw) - 1] - spans[2 * ph])
        if (rows > 0 and columns > 0 and columns <= MAX_COLUMNS
                and <double>rows * columns <= slope_pixels(SLOPE_BLOCKS)
                and window_area(tables, i) >= area):
            set_slots(tables, spans, ph, request.axes[0].extent)
            set_slots(tables, spans + 2 * ph, pw, request.axes[1].extent)
            tables.thin[i] = <int32_t>(rows * columns)
            found += 1
        spans += 2 * (ph + pw)
    return found
