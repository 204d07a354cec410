"""Arrays that others describe by the structs of cython_api.pxd: their checks, and copies."""
from libc.stdio cimport snprintf
from libc.stdlib cimport malloc
from libc.string cimport memcpy

from arrays cimport Array, contiguous, is_distinct
from errors cimport NO_MEMORY, WRONG_VALUE, fail
from roicy.cython_api cimport Array as Given

cdef struct Text:
    char[120] at


cdef inline Array array_of(const Given *given, int kind, int itemsize, int axes) noexcept nogil:
    cdef Array array
    cdef int i
    array.data, array.kind, array.itemsize, array.axes = <char*>given.data, kind, itemsize, axes
    for i in range(4):
        array.extents[i], array.strides[i] = given.shape[i], given.strides[i]
    return array


cdef inline Given given_contiguous(void *data, int size, const Py_ssize_t *shape) noexcept nogil:
    """An array whose elements lie end to end, as others describe it."""
    cdef Array array = contiguous(data, 0, size, 4, shape)
    cdef Given given
    cdef int i
    given.data = data
    for i in range(4):
        given.shape[i], given.strides[i] = array.extents[i], array.strides[i]
    return given


cdef inline Text spell_shape(const Py_ssize_t *shape, int axes) noexcept nogil:
    cdef Text text
    if axes == 2:
        snprintf(text.at, sizeof(text), "(%zd, %zd)", shape[0], shape[1])
    else:
        snprintf(text.at, sizeof(text), "(%zd, %zd, %zd, %zd)", shape[0], shape[1], shape[2],
                 shape[3])
    return text


cdef inline Py_ssize_t elements(const Array *array) noexcept nogil:
    return array.extents[0] * array.extents[1] * array.extents[2] * array.extents[3]


cdef inline int check_memory(const Array *array, const char *name) noexcept nogil:
    """Check that elements lie at multiples of their size."""
    cdef bint aligned = <size_t>array.data % array.itemsize == 0
    cdef int i
    for i in range(4):
        if array.extents[i] < 0:
            return fail(WRONG_VALUE, "%s: an extent of %zd", name, array.extents[i])
        aligned = aligned and array.strides[i] % array.itemsize == 0
    if array.data == NULL and elements(array) > 0:
        return fail(WRONG_VALUE, "%s: no memory, expected that of %zd elements", name,
                    elements(array))
    if not aligned:
        return fail(WRONG_VALUE, "%s: its elements do not lie at multiples of their size in "
                    "memory; pass a copy", name)
    return 0


cdef inline bint has_shape(const Array *array, const Py_ssize_t *shape) noexcept nogil:
    cdef int i
    for i in range(4):
        if array.extents[i] != shape[i]:
            return False
    return True


cdef inline int check_distinct(const Array *array, const char *name) noexcept nogil:
    """Check that no two elements share memory."""
    if is_distinct(array):
        return 0
    return fail(WRONG_VALUE, "%s: strides (%zd, %zd, %zd, %zd) make its elements share memory",
                name, array.strides[0], array.strides[1], array.strides[2], array.strides[3])


# --- Copies

cdef inline void copy(const Array *source, const Array *target) noexcept nogil:
    """Copy an array to another of the same shape and type."""
    cdef Py_ssize_t n, c, y, x
    cdef const char *from_row
    cdef char *to_row
    for n in range(source.extents[0]):
        for c in range(source.extents[1]):
            for y in range(source.extents[2]):
                from_row = (source.data + n * source.strides[0]
                            + c * source.strides[1] + y * source.strides[2])
                to_row = (target.data + n * target.strides[0] + c * target.strides[1]
                          + y * target.strides[2])
                for x in range(source.extents[3]):
                    memcpy(to_row + x * target.strides[3], from_row + x * source.strides[3],
                           source.itemsize)


cdef inline bint is_contiguous(const Array *array) noexcept nogil:
    cdef Py_ssize_t stride = array.itemsize
    cdef int i
    for i in range(3, -1, -1):
        if array.extents[i] != 1 and array.strides[i] != stride:
            return False
        stride *= array.extents[i]
    return True


cdef inline int pack(Array *array, bint filled, void **made) noexcept nogil:
    """Have elements lie end to end: those of the array, or of a new one in `made`.

    filled: whether the new one is a copy.
    """
    cdef Array given = array[0]
    cdef void *data = given.data
    cdef Py_ssize_t bytes = elements(array) * array.itemsize
    if not is_contiguous(array):
        made[0] = data = malloc(max(bytes, 1))
        if data == NULL:
            return fail(NO_MEMORY, "no %zd bytes for a copy of an array", bytes)
    array[0] = contiguous(data, given.kind, given.itemsize, given.axes, given.extents)
    if filled and made[0] != NULL:
        copy(&given, array)
    return 0
