"""Buffers: which arrays of NumPy C can read, and where they are.

A map may have one of seven types and boxes one of four.  A typed memoryview has one, so these are
read as buffers, which takes 0.1 us instead of 0.2 (R490).
"""
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES
from cpython.exc cimport PyErr_Clear

from arrays cimport MOST_AXES, Array, Span, overlap, span_of

cdef extern from *:
    # -1 leaves an exception set: a `try` would keep and restore another one for each array.
    int get_buffer "PyObject_GetBuffer"(object value, Py_buffer *buffer, int flags) noexcept


cdef inline bint has_buffer(object value, type ndarray, Py_buffer *buffer) noexcept:
    """Whether C can read an array.  If so, the caller has to release its buffer.

    ndarray: the type of NumPy, which a file of declarations cannot import.
    """
    if type(value) is not ndarray:
        return False
    if get_buffer(value, buffer, PyBUF_STRIDES | PyBUF_FORMAT) == 0:
        return True
    PyErr_Clear()      # the buffer protocol cannot express this type
    return False


cdef inline bint read_buffer(const Py_buffer *buffer, Array *array) noexcept nogil:
    """Describe an array; False if it has more than four axes, or if its elements are not native or
    do not lie at multiples of their size."""
    cdef int size = <int>buffer.itemsize, i
    if (buffer.ndim > MOST_AXES or buffer.format[0] == 0 or buffer.format[1] != 0
            or <size_t>buffer.buf % size != 0):
        return False
    array.data, array.kind, array.itemsize = <char*>buffer.buf, buffer.format[0], size
    array.axes = buffer.ndim
    for i in range(MOST_AXES):
        array.extents[i] = buffer.shape[i] if i < buffer.ndim else 1
        array.strides[i] = buffer.strides[i] if i < buffer.ndim else size
        if array.strides[i] % size != 0:
            return False
    return True


cdef inline void put_channels_first(Array *array) noexcept nogil:
    """See (N, H, W, C) as (N, C, H, W)."""
    cdef Py_ssize_t channels = array.extents[3], stride = array.strides[3]
    cdef int i
    for i in range(3, 1, -1):
        array.extents[i], array.strides[i] = array.extents[i - 1], array.strides[i - 1]
    array.extents[1], array.strides[1] = channels, stride


cdef inline bint lies_apart(const Py_buffer *buffer, Span memory) noexcept nogil:
    """Whether an array cannot have an element in some memory."""
    cdef Array array
    return read_buffer(buffer, &array) and not overlap(span_of(&array), memory)
