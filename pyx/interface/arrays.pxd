"""Arrays that others describe by the structs of cython_api.pxd: their checks, and copies."""
from libc.stdio cimport snprintf
from libc.stdlib cimport malloc
from libc.string cimport memcpy

from errors cimport NO_MEMORY, WRONG_VALUE, fail
from roicy.cython_api cimport Array
from simd.structs cimport Strides

cdef struct Text:
    char[120] at


cdef inline Text spell_shape(const Array *array, int axes) noexcept nogil:
    cdef Text text
    if axes == 2:
        snprintf(text.at, sizeof(text), "(%zd, %zd)", array.shape[0], array.shape[1])
    else:
        snprintf(text.at, sizeof(text), "(%zd, %zd, %zd, %zd)",
                 array.shape[0], array.shape[1], array.shape[2], array.shape[3])
    return text


cdef inline Py_ssize_t elements(const Array *array) noexcept nogil:
    return array.shape[0] * array.shape[1] * array.shape[2] * array.shape[3]


cdef inline int check_memory(const Array *array, const char *name, int size) noexcept nogil:
    """Check that elements of so many bytes lie at multiples of their size."""
    cdef bint aligned = <size_t>array.data % size == 0
    cdef int i
    for i in range(4):
        if array.shape[i] < 0:
            return fail(WRONG_VALUE, "%s: an extent of %zd", name, array.shape[i])
        aligned = aligned and array.strides[i] % size == 0
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
        if array.shape[i] != shape[i]:
            return False
    return True


cdef inline Array contiguous(void *data, const Py_ssize_t *shape, int size) noexcept nogil:
    """An array whose elements lie end to end."""
    cdef Array array
    cdef Py_ssize_t stride = size
    cdef int i
    array.data = data
    for i in range(3, -1, -1):
        array.shape[i], array.strides[i] = shape[i], stride
        stride *= shape[i]
    return array


cdef inline Strides strides_of(const Array *array, int size) noexcept nogil:
    cdef Strides strides
    strides.image, strides.channel = array.strides[0] // size, array.strides[1] // size
    strides.y, strides.x = array.strides[2] // size, array.strides[3] // size
    return strides


# --- Memory that is written

cdef inline int check_distinct(const Array *array, const char *name) noexcept nogil:
    """Check that no two elements share memory, as _results.distinct does."""
    cdef Py_ssize_t[4] strides
    cdef Py_ssize_t[4] extents
    cdef Py_ssize_t reach = 0
    cdef int i, k
    for k in range(4):
        extents[k], strides[k] = array.shape[k], max(array.strides[k], -array.strides[k])
    for k in range(4 if elements(array) > 0 else 0):      # from the smallest stride to the largest
        for i in range(k, 4):
            if strides[i] < strides[k]:
                strides[i], strides[k] = strides[k], strides[i]
                extents[i], extents[k] = extents[k], extents[i]
        if extents[k] > 1 and strides[k] <= reach:
            return fail(WRONG_VALUE, "%s: strides (%zd, %zd, %zd, %zd) make its elements share "
                        "memory", name, array.strides[0], array.strides[1], array.strides[2],
                        array.strides[3])
        reach += strides[k] * (extents[k] - 1)
    return 0


cdef inline bint overlap(
        const Array *one, int size, const Array *other, int size_of_other) noexcept nogil:
    """Whether arrays lie in memory such that some of their elements may be the same."""
    cdef const char *low = <const char*>one.data
    cdef const char *high = low + size
    cdef const char *low_of_other = <const char*>other.data
    cdef const char *high_of_other = low_of_other + size_of_other
    cdef int i
    if elements(one) == 0 or elements(other) == 0:
        return False
    for i in range(4):
        low += min(one.strides[i], 0) * (one.shape[i] - 1)
        high += max(one.strides[i], 0) * (one.shape[i] - 1)
        low_of_other += min(other.strides[i], 0) * (other.shape[i] - 1)
        high_of_other += max(other.strides[i], 0) * (other.shape[i] - 1)
    return low < high_of_other and low_of_other < high


# --- Copies

cdef inline void copy(const Array *source, const Array *target, int size) noexcept nogil:
    """Copy an array to another of the same shape."""
    cdef Py_ssize_t n, c, y, x
    cdef const char *from_row
    cdef char *to_row
    for n in range(source.shape[0]):
        for c in range(source.shape[1]):
            for y in range(source.shape[2]):
                from_row = (<const char*>source.data + n * source.strides[0]
                            + c * source.strides[1] + y * source.strides[2])
                to_row = (<char*>target.data + n * target.strides[0] + c * target.strides[1]
                          + y * target.strides[2])
                for x in range(source.shape[3]):
                    memcpy(to_row + x * target.strides[3], from_row + x * source.strides[3], size)


cdef inline bint is_contiguous(const Array *array, int size) noexcept nogil:
    cdef Py_ssize_t stride = size
    cdef int i
    for i in range(3, -1, -1):
        if array.shape[i] != 1 and array.strides[i] != stride:
            return False
        stride *= array.shape[i]
    return True


cdef inline int pack(
        const Array *array, Array *packed, int size, bint filled, void **made) noexcept nogil:
    """Describe an array whose elements lie end to end: the same, or a new one in `made`.

    filled: whether the new one is a copy.
    """
    cdef void *data = array.data
    if not is_contiguous(array, size):
        made[0] = data = malloc(max(elements(array) * size, 1))
        if data == NULL:
            return fail(NO_MEMORY, "no %zd bytes for a copy of an array", elements(array) * size)
    packed[0] = contiguous(data, array.shape, size)
    if filled and made[0] != NULL:
        copy(array, packed, size)
    return 0
