"""Boxes of roicy.cython_api: rows [batch_index, x1, y1, x2, y2], and what is wrong with them."""
from libc.math cimport fabs, isfinite, isnan, trunc
from libc.stdio cimport snprintf
from libc.stdlib cimport strtod

from arrays cimport Array, number_in
from errors cimport WRONG_VALUE, fail
from limits cimport MAX_EXACT
from plan.boxes cimport add_rows, number_is_image, reserve
from plan.structs cimport Call

cdef struct Number:
    char[32] at


cdef inline Number spell_number(double value, bint with_point) noexcept nogil:
    """A number as Python shows it.  with_point: a whole one ends with .0, too."""
    cdef Number text
    cdef int digits
    if isnan(value):
        snprintf(text.at, sizeof(text), "nan")
    elif fabs(value) < 1e16 and trunc(value) == value:
        snprintf(text.at, sizeof(text), "%.1f" if with_point else "%.0f", value)
    else:
        for digits in range(1, 18):
            snprintf(text.at, sizeof(text), "%.*g", digits, value)
            if strtod(text.at, NULL) == value:
                break
    return text


cdef inline int check_images(const Array *rows, Py_ssize_t images, bint of_float) noexcept nogil:
    cdef Py_ssize_t k
    cdef double image
    cdef Number text
    for k in range(rows.extents[0]):
        image = number_in(rows, k, 0)
        if not number_is_image(image, images):
            text = spell_number(image, False)
            if isfinite(image) and trunc(image) == image:
                return fail(WRONG_VALUE, "boxes[%zd]: batch index %s is outside the input's %zd "
                            "images", k, text.at, images)
            return fail(WRONG_VALUE, "boxes[%zd]: batch index %s, expected a whole number", k,
                        text.at)
        if of_float and image >= MAX_EXACT and images > MAX_EXACT + 1:
            return fail(WRONG_VALUE, "boxes[%zd]: batch index %.0f in float32, which is exact to "
                        "%d only", k, image, <int>MAX_EXACT)
    return 0


cdef inline bint fits(const double *box, double scale, bint of_float) noexcept nogil:
    """Whether a box and its size are finite once they are scaled."""
    cdef double[4] at
    cdef int i
    for i in range(4):
        at[i] = <float>box[i] * <float>scale if of_float else box[i] * scale
    if of_float:
        return (isfinite(<float>at[0]) and isfinite(<float>at[1])
                and isfinite(<float>(at[2] - at[0])) and isfinite(<float>(at[3] - at[1])))
    return (isfinite(at[0]) and isfinite(at[1]) and isfinite(at[2] - at[0])
            and isfinite(at[3] - at[1]))


cdef inline const char *name_of(int i) noexcept nogil:
    """As _arguments.CORNERS."""
    if i < 2:
        return b"x1" if i == 0 else b"y1"
    return b"x2" if i == 2 else b"y2"


cdef inline int check_numbers(const Array *rows, double scale, bint of_float) noexcept nogil:
    cdef Py_ssize_t k
    cdef double[4] box
    cdef Number[4] texts
    cdef int i
    for k in range(rows.extents[0]):
        for i in range(4):
            box[i] = number_in(rows, k, i + 1)
            texts[i] = spell_number(box[i], False)
        for i in range(4):
            if not isfinite(box[i]):
                return fail(WRONG_VALUE, "boxes[%zd]: %s is %s, expected a finite coordinate", k,
                            name_of(i), texts[i].at)
        if not fits(box, scale, of_float):
            return fail(WRONG_VALUE, "boxes[%zd]: (%s, %s, %s, %s), which times spatial_scale %g "
                        "is beyond %s", k, texts[0].at, texts[1].at, texts[2].at, texts[3].at,
                        scale, b"float32" if of_float else b"float64")
    return 0


cdef inline int take_boxes(Call *call, const Array *rows) noexcept nogil:
    """Give a call its boxes, or say which row is wrong, as roicy/_checks/_boxes.py does."""
    cdef Py_ssize_t images = call.jobs.map.images
    cdef double scale = call.jobs.scale.y
    cdef bint of_float = call.itemsize == sizeof(float), exact
    exact = not of_float or images <= MAX_EXACT + 1
    if reserve(&call.boxes, rows.extents[0]) < 0:
        return -1
    if exact and add_rows(call, rows, -1, False):
        return 0
    if check_images(rows, images, of_float) < 0 or check_numbers(rows, scale, of_float) < 0:
        return -1
    add_rows(call, rows, -1, True)
    return 0
