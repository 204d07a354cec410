"""Arrays as callers have them: numbers of any type, at any strides, which may overlap."""
from libc.math cimport ldexp, INFINITY, NAN
from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memcpy

from simd.structs cimport Strides

cdef enum:
    MOST_AXES = 4


cdef struct Array:
    char *data
    int kind                       # NumPy's character of its type
    int itemsize
    int axes
    Py_ssize_t[MOST_AXES] extents  # 1 of axes that are not there
    Py_ssize_t[MOST_AXES] strides  # in bytes


cdef struct Span:                  # some memory
    const char *start
    Py_ssize_t bytes


cdef inline Array contiguous(
        void *data, int kind, int itemsize, int axes, const Py_ssize_t *extents) noexcept nogil:
    """An array whose elements lie end to end."""
    cdef Array array
    cdef Py_ssize_t stride = itemsize
    cdef int i
    array.data, array.kind, array.itemsize, array.axes = <char*>data, kind, itemsize, axes
    for i in range(MOST_AXES - 1, -1, -1):
        array.extents[i], array.strides[i] = extents[i] if i < axes else 1, stride
        stride *= array.extents[i]
    return array


cdef inline Strides strides_of(const Array *array) noexcept nogil:
    """Of four axes, in elements."""
    cdef Py_ssize_t size = array.itemsize
    return Strides(array.strides[0] // size, array.strides[1] // size, array.strides[2] // size,
                   array.strides[3] // size)


# --- Memory

cdef inline Span span_of(const Array *array) noexcept nogil:
    """The memory from the first to the last element of an array."""
    cdef Span span
    cdef Py_ssize_t reach
    cdef int i
    span.start, span.bytes = array.data, array.itemsize
    for i in range(array.axes):
        reach = array.strides[i] * (array.extents[i] - 1)
        if reach < 0:
            span.start += reach
        span.bytes += max(reach, -reach)
    for i in range(array.axes):
        if array.extents[i] == 0:
            span.bytes = 0
    return span


cdef inline bint overlap(Span one, Span other) noexcept nogil:
    return (one.bytes > 0 and other.bytes > 0 and one.start < other.start + other.bytes
            and other.start < one.start + one.bytes)


cdef inline bint is_distinct(const Array *array) noexcept nogil:
    """Whether no two elements share memory, as roicy/_checks/_results.py says it of out."""
    cdef Py_ssize_t[MOST_AXES] strides, extents
    cdef Py_ssize_t reach = 0
    cdef int i, k
    for k in range(MOST_AXES):
        extents[k], strides[k] = array.extents[k], max(array.strides[k], -array.strides[k])
        if extents[k] == 0:
            return True
    for k in range(MOST_AXES):      # from the smallest stride to the largest
        for i in range(k, MOST_AXES):
            if strides[i] < strides[k]:
                strides[i], strides[k] = strides[k], strides[i]
                extents[i], extents[k] = extents[k], extents[i]
        if extents[k] > 1 and strides[k] <= reach:
            return False
        reach += strides[k] * (extents[k] - 1)
    return True


# --- Numbers

cdef inline double half_at(const char *at) noexcept nogil:
    """The value of a float16."""
    cdef uint16_t bits
    cdef double value
    memcpy(&bits, at, sizeof(bits))
    value = bits & 0x3ff
    if (bits >> 10 & 31) == 31:
        value = NAN if value else INFINITY
    elif bits >> 10 & 31:
        value = ldexp(value + 0x400, (bits >> 10 & 31) - 25)
    else:
        value = ldexp(value, -24)
    return -value if bits >> 15 else value


cdef inline double bfloat_at(const char *at) noexcept nogil:
    """The value of a bfloat16, which is the upper half of a float."""
    cdef uint16_t upper
    cdef uint32_t bits
    cdef float value
    memcpy(&upper, at, sizeof(upper))
    bits = <uint32_t>upper << 16
    memcpy(&value, &bits, sizeof(value))
    return value


cdef inline double number_at(const char *at, int kind) noexcept nogil:
    if kind == c'f':
        return (<const float*>at)[0]
    if kind == c'd':
        return (<const double*>at)[0]
    if kind == c'i':
        return (<const int*>at)[0]
    if kind == c'l':
        return <double>(<const long*>at)[0]
    if kind == c'q':
        return <double>(<const long long*>at)[0]
    return half_at(at) if kind == c'e' else bfloat_at(at)


cdef inline double number_in(const Array *rows, Py_ssize_t row, Py_ssize_t column) noexcept nogil:
    return number_at(rows.data + row * rows.strides[0] + column * rows.strides[1], rows.kind)
