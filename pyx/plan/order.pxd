"""Order: boxes by level, image and place, so that neighbours read pixels in cache."""
from libc.math cimport cos, fabs, sin
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from plan.facts cimport channels_lie_together
from plan.rules cimport level_of
from plan.scratch cimport max_rows
from plan.structs cimport MAX_PIXEL_GRAD, Call, LevelJob, Order, writes_maps

cdef enum:
    PLACE_BUCKETS = 1024           # buckets of the sort by place: rows, or bands       # R011
    PLACE_BANDS = 32               # buckets from left to right, if nothing is packed   # R014
    MIN_BAND_ROWS = 32             # rows of a band: the next band is still in cache    # R014
    DIGIT_BITS = 6                 # of a bucket's number, by which boxes are sorted at once
    DIGITS = 1 << DIGIT_BITS       # two digits are more than the 2 * PLACE_BUCKETS there are


cdef inline void counting_sort(
        const int32_t *keys, int shift, int32_t mask, Py_ssize_t different, const int32_t *boxes,
        Py_ssize_t count, Py_ssize_t *starts, int32_t *sorted_boxes) noexcept nogil:
    """Sort boxes by keys[box] >> shift & mask, which is less than `different`.

    Boxes that agree stay in their order.  starts: [different + 2]; those of key n are then from
    starts[n] to starts[n + 1] - 1.
    """
    cdef Py_ssize_t i
    cdef Py_ssize_t *at
    memset(starts, 0, (different + 2) * sizeof(Py_ssize_t))
    for i in range(count):
        starts[(keys[boxes[i]] >> shift & mask) + 2] += 1
    for i in range(different):
        starts[i + 2] += starts[i + 1]
    for i in range(count):             # starts[n + 1] goes from the first box of n to its end
        at = &starts[(keys[boxes[i]] >> shift & mask) + 1]
        sorted_boxes[at[0]] = boxes[i]
        at[0] += 1


cdef inline void hull_of_box(const double *box, int width, double *edges) noexcept nogil:
    """x1, y1, x2, y2 of a box, or of the upright box around a turned one."""
    cdef double c, s, x, y
    memcpy(edges, box, 4 * sizeof(double))
    if width == 5:
        s, c = fabs(sin(box[4])), fabs(cos(box[4]))
        x = (fabs(box[2]) * c + fabs(box[3]) * s) / 2
        y = (fabs(box[2]) * s + fabs(box[3]) * c) / 2
        edges[0], edges[1], edges[2], edges[3] = box[0] - x, box[1] - y, box[0] + x, box[1] + y


cdef inline Py_ssize_t pixel_at(
        double edge, double scale, Py_ssize_t extent, int itemsize) noexcept nogil:
    """The pixel of the map that is nearest to an edge of a box."""
    scale = <float>scale if itemsize == sizeof(float) else scale
    return <Py_ssize_t>min(max(edge * scale, 0), <double>max(extent - 1, 0))


cdef inline int32_t place_of(const LevelJob *job, const double *box) noexcept nogil:
    """The number of a place, by which the boxes of an image are sorted.

    Where rows of the map are packed once for all boxes, these are sorted by their top rows, and
    boxes for which the tile has too few rows come last.  Where nothing is packed, or maps are
    written, boxes are sorted by bands of rows, and from left to right in each band.
    """
    cdef Py_ssize_t height = job.map.rows, width = job.map.columns, top, left, rows, band
    cdef double[4] edges
    hull_of_box(box, job.call.boxes.width, edges)
    top = pixel_at(edges[1], job.scale.y, height, job.call.itemsize)
    if writes_maps(job.call.purpose) or channels_lie_together(job):
        left = pixel_at(edges[0], job.scale.x, width, job.call.itemsize)
        band = max((height + PLACE_BANDS - 1) // PLACE_BANDS, <Py_ssize_t>MIN_BAND_ROWS)
        return <int32_t>(top // band * PLACE_BANDS + left // (width // PLACE_BANDS + 1))
    rows = pixel_at(edges[3], job.scale.y, height, job.call.itemsize) - top
    top //= max((height + PLACE_BUCKETS - 1) // PLACE_BUCKETS, 1)
    rows = max(rows, -rows) + 3      # samples reach farther, and boxes are at least a pixel high
    if rows > max_rows(job) and height > max_rows(job):
        top += PLACE_BUCKETS
    return <int32_t>top


cdef inline void sort_boxes(Call *call, int32_t *keys) noexcept nogil:
    """Sort boxes by level, then by image, then by place, and tell each level which are its own.

    keys: room for three numbers of each box; the call has room for its order and its starts.
    """
    cdef Py_ssize_t[DIGITS + 2] at
    cdef Py_ssize_t count = call.boxes.count, images = call.jobs.map.images, k, level
    # In the gradient of roi_pool, boxes write anywhere, in the order in which they come.
    cdef bint by_place = call.purpose != MAX_PIXEL_GRAD
    cdef int32_t *places = keys + count
    cdef int32_t *sorted_once = places + count
    cdef const Py_ssize_t *starts
    cdef const double *box = call.boxes.numbers
    for k in range(count):
        level = level_of(call.itemsize, &call.level_rule, box, call.boxes.width)
        keys[k] = <int32_t>(level * images + call.boxes.images[k])
        if by_place:
            places[k] = place_of(&call.jobs[level], box)
        sorted_once[k] = <int32_t>k
        box += call.boxes.width
    if by_place:
        counting_sort(places, 0, DIGITS - 1, DIGITS, sorted_once, count, at, call.order)
        counting_sort(
            places, DIGIT_BITS, DIGITS - 1, DIGITS, call.order, count, at, sorted_once)
    counting_sort(keys, 0, -1, call.levels * images, sorted_once, count, call.starts, call.order)
    for level in range(call.levels):
        starts = call.starts + level * images
        call.jobs[level].order = Order(starts[images] - starts[0], call.order + starts[0], starts)
