"""Boxes: rows of numbers of any type become images and numbers.

A door warns of boxes that are hardly those that were meant: of rows [x1, y1, x2, y2, score, class]
in place of [image, x1, y1, x2, y2], and of degrees in place of radians.
"""
from libc.math cimport M_PI, fabs, trunc
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport free, realloc

from arrays cimport Array, number_at, number_in
from errors cimport NO_MEMORY, WRONG_VALUE, fail
from plan.structs cimport Boxes, Call

cdef inline int reserve(Boxes *boxes, Py_ssize_t more) noexcept nogil:
    """Make room for more boxes."""
    cdef Py_ssize_t room = boxes.count + more
    cdef void *images
    cdef void *numbers
    if room <= boxes.room:
        return 0
    if room > INT32_MAX:
        return fail(WRONG_VALUE, "boxes: %zd boxes, expected less than 2**31", room)
    images = realloc(boxes.images, room * sizeof(int32_t))
    boxes.images = boxes.images if images == NULL else <int32_t*>images
    numbers = realloc(boxes.numbers, room * boxes.width * sizeof(double))
    boxes.numbers = boxes.numbers if numbers == NULL else <double*>numbers
    if images == NULL or numbers == NULL:
        return fail(NO_MEMORY, "no room for %zd boxes", room)
    boxes.room = room
    return 0


cdef inline void free_boxes(Boxes *boxes) noexcept nogil:
    free(boxes.images)
    free(boxes.numbers)


cdef inline bint number_is_image(double number, Py_ssize_t images) noexcept nogil:
    return number >= 0 and number < images and trunc(number) == number


cdef inline bint look_like_scores(const Boxes *boxes) noexcept nogil:
    """Whether y2, or h, of the first box lies between 0 and 1."""
    return boxes.count > 0 and 0 < boxes.numbers[3] < 1


cdef inline double angle_in_degrees(const Boxes *boxes) noexcept nogil:
    """The first angle that is beyond two turns, or 0."""
    cdef Py_ssize_t k
    for k in range(boxes.count if boxes.width == 5 else 0):
        if fabs(boxes.numbers[5 * k + 4]) > 4 * M_PI:
            return boxes.numbers[5 * k + 4]
    return 0


cdef inline double largest_scale(const Call *call) noexcept nogil:
    """The most by which numbers of boxes are multiplied: the scale of the first level.

    It is at least 1, so that the numbers themselves are finite where their products are.
    """
    cdef double scale = max(call.jobs.scale.y, call.jobs.scale.x, 1.0)
    return <float>scale if call.itemsize == sizeof(float) else scale      # infinite beyond float


cdef inline bint add_rows(
        Call *call, const Array *rows, Py_ssize_t image, bint checked) noexcept nogil:
    """Add rows to boxes that have room for them; False if some have to be looked at more closely.

    image: of all rows, or -1 if column 0 says it; checked: it is known that none is too large.
    """
    cdef Boxes *boxes = &call.boxes
    cdef int kind = rows.kind, itemsize = call.itemsize, i
    cdef Py_ssize_t images = call.jobs.map.images, k
    cdef double scale = 0 if checked else largest_scale(call)
    cdef double *numbers = boxes.numbers + boxes.width * boxes.count
    cdef const char *at
    cdef double n = image, number
    for k in range(rows.extents[0]):
        at = rows.data + k * rows.strides[0]
        if image < 0:
            n = number_at(at, kind)
            if not number_is_image(n, images):
                return False
            at += rows.strides[1]
        boxes.images[boxes.count + k] = <int32_t>n
        for i in range(boxes.width):
            number = number_at(at + i * rows.strides[1], kind)
            if not fabs(number) * scale < 1e30:      # NaN, or it or a side may be beyond float
                return False
            numbers[i] = <float>number if itemsize == sizeof(float) else number
        numbers += boxes.width
    boxes.count += rows.extents[0]
    return True


cdef inline bint set_images(
        Boxes *boxes, const Array *indices, Py_ssize_t images) noexcept nogil:
    """Set the images of all boxes, which are whole numbers; False if one is no image."""
    cdef Py_ssize_t k
    cdef double n
    if indices.extents[0] != boxes.count:
        return False
    for k in range(boxes.count):
        n = number_in(indices, k, 0)
        if not number_is_image(n, images):
            return False
        boxes.images[k] = <int32_t>n
    return True
