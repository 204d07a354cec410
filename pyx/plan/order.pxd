"""Order: the boxes of a level by image, then by place, so that neighbours read pixels in cache."""
from libc.math cimport cos, fabs, sin
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from plan.arrays cimport room_for
from plan.rules cimport AxisSize
from plan.structs cimport Boxes, Order
from tuning cimport MIN_BAND_ROWS, PLACE_BANDS, PLACE_BUCKETS

cdef enum:
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


cdef inline Py_ssize_t pixel_at(double edge, const AxisSize *axis, int itemsize) noexcept nogil:
    """The pixel of the map that is nearest to an edge of a box."""
    cdef double scale = <float>axis.scale if itemsize == sizeof(float) else axis.scale
    return <Py_ssize_t>min(max(edge * scale, 0), <double>max(axis.extent - 1, 0))


cdef inline int32_t bucket_of(
        const Boxes *boxes, Py_ssize_t k, const AxisSize *axes, Py_ssize_t max_rows,
        int itemsize) noexcept nogil:
    """The number of a place, by which the boxes of an image are sorted."""
    cdef const AxisSize *y = &axes[0]
    cdef Py_ssize_t top, left, rows, band, bucket
    cdef double[4] edges
    hull_of_box(boxes.numbers + boxes.width * k, boxes.width, edges)
    top = pixel_at(edges[1], y, itemsize)
    if max_rows == 0:
        left = pixel_at(edges[0], &axes[1], itemsize)
        band = max((y.extent + PLACE_BANDS - 1) // PLACE_BANDS, <Py_ssize_t>MIN_BAND_ROWS)
        return <int32_t>(top // band * PLACE_BANDS + left // (axes[1].extent // PLACE_BANDS + 1))
    rows = pixel_at(edges[3], y, itemsize) - top
    bucket = top // ((y.extent + PLACE_BUCKETS - 1) // PLACE_BUCKETS)
    # samples reach a pixel farther than a box, and boxes are at least a pixel high
    if y.extent > max_rows and max(rows, -rows) + 3 > max_rows:
        bucket += PLACE_BUCKETS
    return <int32_t>bucket


cdef inline int sort_boxes(
        Order *order, const Boxes *boxes, const AxisSize *axes, Py_ssize_t max_rows,
        int itemsize) except -1:
    """Sort the boxes of an order, which knows them, their count and the number of images.

    axes: NULL to sort by image alone.
    max_rows > 0: rows of the map are packed once for all boxes, so boxes are sorted by their top
    rows, and boxes of more than max_rows rows come last.
    max_rows = 0: nothing is packed, so boxes are sorted by bands of rows, and from left to right in
    each band.
    """
    cdef Py_ssize_t[DIGITS + 2] starts
    cdef Py_ssize_t i, count = order.count
    cdef const int32_t *by_place = order.unsorted
    cdef int32_t *keys
    order.starts = <Py_ssize_t*>room_for(order.images + 2, sizeof(Py_ssize_t))
    order.boxes = <int32_t*>room_for(count, sizeof(int32_t))
    keys = <int32_t*>room_for(0 if axes == NULL else boxes.count + count, sizeof(int32_t))
    with nogil:
        if axes != NULL:
            for i in range(count):
                keys[by_place[i]] = bucket_of(boxes, by_place[i], axes, max_rows, itemsize)
            counting_sort(keys, 0, DIGITS - 1, DIGITS, by_place, count, starts, order.boxes)
            by_place = keys + boxes.count
            counting_sort(keys, DIGIT_BITS, DIGITS - 1, DIGITS, order.boxes, count, starts,
                          <int32_t*>by_place)
        counting_sort(boxes.images, 0, -1, order.images, by_place, count, order.starts,
                      order.boxes)
    free(keys)
    return 0


cdef inline void free_order(Order *order) noexcept:
    free(order.boxes)
    free(order.starts)
