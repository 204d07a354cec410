"""Boxes: rows of numbers of any type become images and numbers."""
from libc.math cimport fabs, trunc
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport free, realloc

from plan.arrays cimport on_elements
from plan.structs cimport Boxes


cdef inline int reserve(Boxes *boxes, Py_ssize_t more) except -1:
    """Make room for more boxes."""
    cdef Py_ssize_t room = boxes.count + more
    cdef void *images
    cdef void *numbers
    if room <= boxes.room:
        return 0
    if room > INT32_MAX:
        raise ValueError(f"boxes: {room} boxes, expected less than 2**31")
    images = realloc(boxes.images, room * sizeof(int32_t))
    boxes.images = boxes.images if images == NULL else <int32_t*>images
    numbers = realloc(boxes.numbers, room * boxes.width * sizeof(double))
    boxes.numbers = boxes.numbers if numbers == NULL else <double*>numbers
    if images == NULL or numbers == NULL:
        raise MemoryError(f"no room for {room} boxes")
    boxes.room = room
    return 0


cdef inline void free_boxes(Boxes *boxes) noexcept:
    free(boxes.images)
    free(boxes.numbers)


cdef inline bint is_plain(const Py_buffer *array, Py_ssize_t columns) noexcept nogil:
    """Whether boxes lie in an array of so many columns, of a type that number_at knows."""
    cdef int kind
    if not on_elements(array, 2) or array.shape[1] != columns:
        return False
    kind = array.format[0]
    return kind == c'f' or kind == c'd' or kind == c'i' or kind == c'l'


cdef inline double number_at(const char *at, int kind) noexcept nogil:
    if kind == c'f':
        return (<const float*>at)[0]
    if kind == c'd':
        return (<const double*>at)[0]
    return (<const int*>at)[0] if kind == c'i' else <double>(<const long*>at)[0]


cdef inline bint add_rows(
        Boxes *boxes, const Py_buffer *array, Py_ssize_t image, Py_ssize_t images, double scale,
        int itemsize) noexcept nogil:
    """Add rows to boxes that have room for them; False if some have to be looked at more closely.

    image: of all rows, or -1 if column 0 says it, of so many images; scale: the largest by which
    numbers are multiplied, 0 if it is known that none is too large.
    """
    cdef int kind = array.format[0], i
    cdef Py_ssize_t k, column = array.strides[1]
    cdef double *numbers = boxes.numbers + boxes.width * boxes.count
    cdef const char *at
    cdef double n = image, number
    for k in range(array.shape[0]):
        at = <const char*>array.buf + k * array.strides[0]
        if image < 0:
            n = number_at(at, kind)
            if not (n >= 0 and n < images and trunc(n) == n):
                return False
            at += column
        boxes.images[boxes.count + k] = <int32_t>n
        for i in range(boxes.width):
            number = number_at(at + i * column, kind)
            if not fabs(number) * scale < 1e30:      # NaN, or it or a side may be beyond float
                return False
            numbers[i] = <float>number if itemsize == sizeof(float) else number
        numbers += boxes.width
    boxes.count += array.shape[0]
    return True
