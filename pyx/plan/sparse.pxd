"""Sparse tables: the taps of turned boxes, whose weights are not products of two axes.

Each bin has a list of pixels (y, x) with weights.  rules_rotated.h makes it, and merges the samples
of a bin that share a pixel.
"""
from libc.stdint cimport INT32_MAX, int32_t
from libc.string cimport memset

from plan.rules cimport (
    PixelSums, RotatedBox, SparseOut, make_rotated, max_rotated_taps, rotated_bin)
from plan.spans cimport hull_of_taps, widen_hull
from plan.structs cimport LevelJob, Tables
from tuning cimport FEW_TAPS_GAIN


cdef inline void set_box(RotatedBox *box, const LevelJob *job, Py_ssize_t k) noexcept nogil:
    box.y.bins, box.x.bins = job.call.ph, job.call.pw
    box.y.extent, box.x.extent = <int>job.map.rows, <int>job.map.columns
    box.y.scale = box.x.scale = job.scale.y
    make_rotated(job.call.itemsize, box, &job.call.rule,
                 job.call.boxes.numbers + job.call.boxes.width * k)


cdef inline double max_sparse_taps(const LevelJob *job, Py_ssize_t k) noexcept nogil:
    """An upper bound of the taps of a box, which may be far above what memory holds."""
    cdef RotatedBox box
    set_box(&box, job, k)
    return max_rotated_taps(job.call.itemsize, &box) * job.call.ph * job.call.pw


cdef inline void write_bins(
        const RotatedBox *box, int itemsize, int32_t *spans, Py_ssize_t start, PixelSums *sums,
        SparseOut *out) noexcept nogil:
    """The taps of all bins of a box; spans: NULL where they are only counted."""
    cdef int p, q
    for p in range(box.y.bins):
        for q in range(box.x.bins):
            if spans != NULL:
                spans[0] = <int32_t>(start + out.count)
            rotated_bin(itemsize, box, p, q, sums, out)
            if spans != NULL:
                spans[1] = <int32_t>(start + out.count)
                spans += 2


cdef inline Py_ssize_t count_sparse_taps(
        const LevelJob *job, Py_ssize_t k, PixelSums *sums) noexcept nogil:
    cdef RotatedBox box
    cdef SparseOut out
    memset(&out, 0, sizeof(out))
    out.want_slopes = job.tables.slopes_of_tap > 0      # of taps without weight, too
    set_box(&box, job, k)
    write_bins(&box, job.call.itemsize, NULL, 0, sums, &out)
    return <Py_ssize_t>out.count


cdef inline Py_ssize_t sparse_tables(
        const LevelJob *job, Py_ssize_t i, Py_ssize_t k, Py_ssize_t start,
        PixelSums *sums) noexcept nogil:
    """The bins of box k, which is box i of the tables; return its taps, from `start` on."""
    cdef const Tables *tables = &job.tables
    cdef Py_ssize_t itemsize = job.call.itemsize, b
    cdef int32_t *spans = tables.spans + 2 * tables.spans_of_box * i
    cdef int32_t *window = tables.windows + 4 * i
    cdef Py_ssize_t[4] all, edges
    cdef double area = 0
    cdef RotatedBox box
    cdef SparseOut out
    out.count, out.stride, out.want_slopes = 0, tables.taps, tables.slopes_of_tap > 0
    out.pixel = tables.tap_pixel + 2 * start
    out.weight = <char*>tables.tap_weight + start * itemsize
    out.slopes = NULL if not out.want_slopes else <char*>tables.tap_slopes + start * itemsize
    set_box(&box, job, k)
    write_bins(&box, <int>itemsize, spans, start, sums, &out)
    memset(all, 0, sizeof(all))
    for b in range(tables.spans_of_box):
        memset(edges, 0, sizeof(edges))
        hull_of_taps(tables.tap_pixel, spans[2 * b], spans[2 * b + 1], edges)
        area += <double>(edges[1] - edges[0]) * (edges[3] - edges[2])
        if edges[0] < edges[1]:
            widen_hull(all, edges[0], edges[1], edges[2], edges[3])
    for b in range(4):
        window[b] = <int32_t>all[b]
    tables.few_pixels[i] = 0
    if FEW_TAPS_GAIN * area <= <double>(all[1] - all[0]) * (all[3] - all[2]):
        tables.few_pixels[i] = <int32_t>min(area, <double>INT32_MAX)
    return out.count
