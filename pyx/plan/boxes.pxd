"""Boxes: rows of numbers of any type as images and numbers, and the level of each in a pyramid."""
from libc.math cimport INFINITY, fabs, trunc
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from plan.arrays cimport on_elements
from plan.rules cimport LevelRule, level_of
from plan.structs cimport Boxes, Scale
from simd.simd cimport real

ctypedef fused number:             # types of the numbers in arrays of boxes
    float
    double
    int
    long

cdef inline int reserve(Boxes *boxes, Py_ssize_t more, int itemsize) except -1:
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
    numbers = realloc(boxes.numbers, room * boxes.width * itemsize)
    boxes.numbers = boxes.numbers if numbers == NULL else <char*>numbers
    if images == NULL or numbers == NULL:
        raise MemoryError(f"no room for {room} boxes")
    boxes.room = room
    return 0


cdef inline void free_boxes(Boxes *boxes) noexcept:
    free(boxes.images)
    free(boxes.numbers)
    free(boxes.rows)


cdef inline Py_ssize_t copy_rows(
        const char *row, const Py_buffer *array, Py_ssize_t image, Py_ssize_t images,
        number of_type, Boxes *boxes, real *numbers) noexcept nogil:
    """Copy rows of an array to boxes.  Return the first row whose image does not exist, or -1.

    image: the image of all rows, or -1 if column 0 holds it; of_type: any number of the array's
    type, which selects the function.
    """
    cdef Py_ssize_t k, i, column = array.strides[1]
    cdef int32_t *image_of = boxes.images + boxes.count
    cdef double n
    for k in range(array.shape[0]):
        if image >= 0:
            image_of[k] = <int32_t>image
        else:
            n = <double>(<const number*>row)[0]
            if not (n >= 0 and n < images and trunc(n) == n):
                return k
            image_of[k] = <int32_t>n
        for i in range(boxes.width):
            numbers[i] = <real>(<const number*>(row + (i + (image < 0)) * column))[0]
        numbers += boxes.width
        row += array.strides[0]
    return -1


cdef inline bint take_array(
        Boxes *boxes, const Py_buffer *array, Py_ssize_t image, Py_ssize_t images,
        real *numbers) noexcept nogil:
    """Add the rows of an array to boxes that have room for them; False if an image is wrong."""
    cdef int kind = array.format[0]
    cdef const char *row = <const char*>array.buf
    cdef Py_ssize_t bad = -1
    numbers += boxes.width * boxes.count
    if kind == c'f':
        bad = copy_rows(row, array, image, images, <float>0, boxes, numbers)
    elif kind == c'd':
        bad = copy_rows(row, array, image, images, <double>0, boxes, numbers)
    elif kind == c'i':
        bad = copy_rows(row, array, image, images, <int>0, boxes, numbers)
    else:
        bad = copy_rows(row, array, image, images, <long>0, boxes, numbers)
    boxes.count += array.shape[0]
    return bad < 0


cdef inline bint is_plain(const Py_buffer *array, Py_ssize_t columns) noexcept nogil:
    """Whether boxes lie in an array of so many columns, of a type that take_array knows."""
    cdef int kind
    if not on_elements(array, 2) or array.shape[1] != columns:
        return False
    kind = array.format[0]
    return kind == c'f' or kind == c'd' or kind == c'i' or kind == c'l'


cdef inline bint are_finite(const real *box, int width, real x, real y) noexcept nogil:
    """Whether the sides of a box, or the numbers of a turned one, are finite when scaled."""
    cdef int i
    if width == 4:      # infinite corners make a side infinite or NaN
        return (fabs(box[2] * x - box[0] * x) < INFINITY
                and fabs(box[3] * y - box[1] * y) < INFINITY)
    for i in range(4):
        if not fabs(box[i] * x) < INFINITY:
            return False
    return fabs(box[4]) < INFINITY


cdef inline bint all_finite(
        const Boxes *boxes, const real *numbers, const Scale *scale) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(boxes.count):
        if not are_finite(numbers + boxes.width * k, boxes.width, <real>scale.x, <real>scale.y):
            return False
    return True


cdef inline int sort_by_level(
        Boxes *boxes, const real *numbers, const LevelRule *rule, Py_ssize_t levels,
        Py_ssize_t *stops) except -1:
    """Sort boxes by their levels, the finest first; stops: where each level ends."""
    cdef Py_ssize_t k, count = boxes.count, place = 0, width = boxes.width
    cdef Py_ssize_t size = width * sizeof(real)
    cdef int32_t *images = <int32_t*>malloc(max(count, 1) * sizeof(int32_t))
    cdef int32_t *places = <int32_t*>malloc(max(count, 1) * sizeof(int32_t))
    cdef real *sorted_numbers = <real*>malloc(max(count, 1) * size)
    cdef Py_ssize_t i
    boxes.rows = <int32_t*>malloc(max(count, 1) * sizeof(int32_t))
    if images == NULL or places == NULL or sorted_numbers == NULL or boxes.rows == NULL:
        free(images)
        free(places)
        free(sorted_numbers)
        raise MemoryError(f"no room for {count} boxes")
    for k in range(count):
        places[k] = level_of(rule, numbers + width * k, boxes.width)
    for i in range(levels):
        for k in range(count):
            if places[k] == i:
                boxes.rows[place] = <int32_t>k
                images[place] = boxes.images[k]
                memcpy(sorted_numbers + width * place, numbers + width * k, size)
                place += 1
        stops[i] = place
    free(places)
    free(boxes.images)
    free(boxes.numbers)
    boxes.images, boxes.numbers = images, <char*>sorted_numbers
    return 0
