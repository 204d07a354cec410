"""Sparse tables: the taps of turned boxes, whose weights are not products of two axes.

Each bin has a list of pixels (y, x) with weights.  rules.h makes it, and merges the samples of a
bin that share a pixel.  The tables of a step are bounded as those of upright boxes are.
"""
from cython.parallel cimport prange, threadid
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport free
from libc.string cimport memset

from plan.rules cimport (RULE_SLOPES, RULE_SLOTS, RotatedBox, SparseOut, TapSlots,
                         make_rotated, max_rotated_taps_double, max_rotated_taps_float,
                         rotated_bin_double, rotated_bin_float)
from plan.spans cimport hull_of_taps, widen_hull
from plan.structs cimport Boxes, Order, Tables
from plan.tables cimport TableRequest, make_windows, room_for
from roicy._kernels.machine cimport startable
from tuning cimport BOXES_AT_ONCE, MAX_TAPS_BOUND, MIN_PARALLEL_BINS, TABLE_BYTES, THIN_GAIN


cdef inline void set_box(
        RotatedBox *box, const Boxes *boxes, Py_ssize_t k,
        const TableRequest *request) noexcept nogil:
    box.y.bins, box.x.bins = request.axes[0].bins, request.axes[1].bins
    box.y.extent, box.x.extent = <int>request.axes[0].extent, <int>request.axes[1].extent
    box.y.scale = box.x.scale = request.axes[0].scale
    if request.itemsize == sizeof(float):
        make_rotated(box, &request.rule, <const float*>boxes.numbers + boxes.width * k)
    else:
        make_rotated(box, &request.rule, <const double*>boxes.numbers + boxes.width * k)


cdef inline double max_taps(
        const Boxes *boxes, Py_ssize_t k, const TableRequest *request) noexcept nogil:
    """An upper bound of the taps of a box, which may be far above what memory holds."""
    cdef RotatedBox box
    cdef double of_bin
    set_box(&box, boxes, k, request)
    if request.itemsize == sizeof(float):
        of_bin = max_rotated_taps_float(&box)
    else:
        of_bin = max_rotated_taps_double(&box)
    return of_bin * request.axes[0].bins * request.axes[1].bins


cdef inline void write_bins(
        const RotatedBox *box, int itemsize, int32_t *spans, Py_ssize_t start, TapSlots *slots,
        SparseOut *out) noexcept nogil:
    """The taps of all bins of a box; spans: NULL where they are only counted."""
    cdef int p, q
    for p in range(box.y.bins):
        for q in range(box.x.bins):
            if spans != NULL:
                spans[0] = <int32_t>(start + out.count)
            if itemsize == sizeof(float):
                rotated_bin_float(box, p, q, slots, out)
            else:
                rotated_bin_double(box, p, q, slots, out)
            if spans != NULL:
                spans[1] = <int32_t>(start + out.count)
                spans += 2


cdef inline Py_ssize_t count_taps(
        const Boxes *boxes, Py_ssize_t k, const TableRequest *request,
        TapSlots *slots) noexcept nogil:
    cdef RotatedBox box
    cdef SparseOut out
    memset(&out, 0, sizeof(out))
    out.want_slopes = request.slopes      # taps without weight may have slopes
    set_box(&box, boxes, k, request)
    write_bins(&box, request.itemsize, NULL, 0, slots, &out)
    return <Py_ssize_t>out.count


cdef inline void sparse_box(
        Tables *tables, const Boxes *boxes, const TableRequest *request, const int32_t *order,
        const Py_ssize_t *tap_starts, Py_ssize_t i, TapSlots *slots) noexcept nogil:
    """The taps of box i of the tables, and the window around them."""
    cdef Py_ssize_t bins = <Py_ssize_t>request.axes[0].bins * request.axes[1].bins, b
    cdef Py_ssize_t start = tap_starts[i], itemsize = request.itemsize
    cdef int32_t *spans = tables.spans + 2 * bins * i
    cdef int32_t *window = tables.windows + 4 * i
    cdef Py_ssize_t[4] all, edges
    cdef double area = 0
    cdef RotatedBox box
    cdef SparseOut out
    out.count, out.step, out.want_slopes = 0, tables.taps, request.slopes
    out.pixel = tables.tap_pixel + 2 * start
    out.weight = <char*>tables.tap_weight + start * itemsize
    out.slopes = NULL if not request.slopes else <char*>tables.tap_slopes + start * itemsize
    set_box(&box, boxes, order[i], request)
    write_bins(&box, request.itemsize, spans, start, slots, &out)
    memset(all, 0, sizeof(all))
    for b in range(bins):
        memset(edges, 0, sizeof(edges))
        hull_of_taps(tables.tap_pixel, spans[2 * b], spans[2 * b + 1], edges)
        area += <double>(edges[1] - edges[0]) * (edges[3] - edges[2])
        widen_hull(all, edges)
    for b in range(4):
        window[b] = <int32_t>all[b]
    tables.thin[i] = 0
    if THIN_GAIN * area <= <double>(all[1] - all[0]) * (all[3] - all[2]):
        tables.thin[i] = <int32_t>min(area, <double>INT32_MAX)


cdef inline Py_ssize_t place_sparse(
        const Order *order, const Boxes *boxes, const TableRequest *request, Py_ssize_t count,
        double *bounds) noexcept nogil:
    """Bounds of the taps of at most `count` boxes.  Returns how many boxes TABLE_BYTES have room
    for, at least 1."""
    cdef double tap_bytes = (2 * sizeof(int32_t)
                             + (1 + RULE_SLOPES * request.slopes) * request.itemsize)
    cdef double total = 0
    cdef Py_ssize_t i
    for i in range(count):
        bounds[i] = max_taps(boxes, order.boxes[request.first + i], request)
        total += bounds[i] * tap_bytes
        if i > 0 and total > TABLE_BYTES:
            return i
    return count


cdef inline int fill_sparse(
        Tables *tables, const Boxes *boxes, const TableRequest *request, const int32_t *order,
        Py_ssize_t *tap_starts, double *bounds) except -1:
    """Make room for taps, and write them.  Boxes with high bounds are counted first."""
    cdef Py_ssize_t bins = <Py_ssize_t>request.axes[0].bins * request.axes[1].bins, i
    cdef int threads = startable(
        request.threads if tables.count * bins >= MIN_PARALLEL_BINS else 1)
    cdef TapSlots *slots = <TapSlots*>room_for(threads, sizeof(TapSlots))
    for i in range(threads * RULE_SLOTS * RULE_SLOTS):
        slots[i // (RULE_SLOTS * RULE_SLOTS)].slots[i % (RULE_SLOTS * RULE_SLOTS)].y = -1
    for i in range(threads):
        slots[i].used = 0
    try:
        for i in prange(tables.count, nogil=True, num_threads=threads, schedule="dynamic",
                        chunksize=BOXES_AT_ONCE):
            if bounds[i] > MAX_TAPS_BOUND:
                bounds[i] = count_taps(boxes, order[i], request, &slots[threadid()])
        tap_starts[0] = 0
        for i in range(tables.count):
            tap_starts[i + 1] = tap_starts[i] + <Py_ssize_t>bounds[i]
        tables.taps = tap_starts[tables.count]
        if tables.taps > INT32_MAX:
            raise MemoryError(f"the tables of boxes have {tables.taps} taps, more than can be "
                              "counted")
        tables.tap_pixel = <int32_t*>room_for(2 * tables.taps, sizeof(int32_t))
        tables.tap_weight = room_for(tables.taps, request.itemsize)
        if request.slopes:
            tables.tap_slopes = room_for(RULE_SLOPES * tables.taps, request.itemsize)
        for i in prange(tables.count, nogil=True, num_threads=threads, schedule="dynamic",
                        chunksize=BOXES_AT_ONCE):
            sparse_box(tables, boxes, request, order, tap_starts, i, &slots[threadid()])
    finally:
        free(slots)
    return 0


cdef inline int make_sparse_tables(
        Tables *tables, const Order *order, const Boxes *boxes,
        const TableRequest *request) except -1:
    """As make_tables, of turned boxes."""
    cdef Py_ssize_t bins = <Py_ssize_t>request.axes[0].bins * request.axes[1].bins
    cdef Py_ssize_t box_bytes = 2 * sizeof(int32_t) * bins + 4 * sizeof(int32_t)
    cdef Py_ssize_t count = min(order.count - request.first, request.max_boxes)
    cdef Py_ssize_t *tap_starts
    cdef double *bounds
    memset(tables, 0, sizeof(Tables))
    count = min(count, max(TABLE_BYTES // box_bytes, 1))
    tap_starts = <Py_ssize_t*>room_for(2 * count + 1, sizeof(Py_ssize_t))
    bounds = <double*>(tap_starts + count + 1)
    try:
        with nogil:
            count = place_sparse(order, boxes, request, count, bounds)
        make_windows(tables, order, request.first, count)
        tables.spans = <int32_t*>room_for(2 * bins * count, sizeof(int32_t))
        tables.thin = <int32_t*>room_for(count, sizeof(int32_t))
        fill_sparse(tables, boxes, request, order.boxes + request.first, tap_starts, bounds)
    finally:
        free(tap_starts)
    return 0
