"""Maps and boxes: whether C can read those of a caller, and where elements lie.

A map may have one of seven types and boxes one of four.  A typed memoryview has one, so these are
read as buffers, which takes 0.1 us instead of 0.2 (R490).
"""
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX

from limits cimport MAX_EXTENT
from plan.structs cimport Map
from rows cimport Rows

cdef inline bint has_buffer(object value, type ndarray, Py_buffer *array) noexcept:
    """Whether C can read an array.  If so, it is in `array`, and the caller has to release it."""
    if type(value) is not ndarray:
        return False
    try:
        PyObject_GetBuffer(value, array, PyBUF_STRIDES | PyBUF_FORMAT)
    except Exception:      # the buffer protocol cannot express this type
        return False
    return True


cdef inline bint on_elements(const Py_buffer *array, int dimensions) noexcept nogil:
    """Whether an array has so many dimensions, and native elements at multiples of their size."""
    cdef int i
    if (array.ndim != dimensions or array.format[0] == 0 or array.format[1] != 0
            or <size_t>array.buf % array.itemsize != 0):
        return False
    for i in range(dimensions):
        if array.strides[i] % array.itemsize != 0:
            return False
    return True


cdef inline bint is_whole(int kind) noexcept nogil:
    """Whether a type of maps is an integer.  The results of such maps are float32."""
    return kind == c'B' or kind == c'b' or kind == c'h' or kind == c'H'


cdef inline bint is_plain_map(const Py_buffer *array) noexcept nogil:
    """Whether an array has 4 dimensions, of sizes that can be counted, and a type of maps."""
    cdef int kind = array.format[0], i
    if not (kind == c'f' or kind == c'd' or kind == c'e' or is_whole(kind)):
        return False
    if not on_elements(array, 4) or array.shape[0] > INT32_MAX:
        return False
    for i in range(1, 4):
        if array.shape[i] > MAX_EXTENT:
            return False
    return True


cdef inline void set_map(Map *map, const Py_buffer *array, int dtype, bint last) noexcept nogil:
    """Describe an array of (N, C, H, W), or of (N, H, W, C) if channels are last."""
    cdef int channel = 3 if last else 1, y = 1 if last else 2, size = <int>array.itemsize
    map.data = <char*>array.buf
    map.dtype, map.itemsize = dtype, size
    map.images = array.shape[0]
    map.rows, map.columns = array.shape[y], array.shape[y + 1]
    map.strides.image = array.strides[0] // size
    map.strides.channel = array.strides[channel] // size
    map.strides.y, map.strides.x = array.strides[y] // size, array.strides[y + 1] // size


cdef inline bint are_plain_rows(const Py_buffer *array, Py_ssize_t columns) noexcept nogil:
    """Whether boxes lie in an array of so many columns, of a type that number_at knows."""
    cdef int kind
    if not on_elements(array, 2) or array.shape[1] != columns:
        return False
    kind = array.format[0]
    return kind == c'f' or kind == c'd' or kind == c'i' or kind == c'l'


cdef inline Rows rows_of(const Py_buffer *array) noexcept nogil:
    cdef Rows rows
    rows.start, rows.kind, rows.count = <const char*>array.buf, array.format[0], array.shape[0]
    rows.row, rows.column = array.strides[0], array.strides[1]
    return rows


cdef inline bint disjoint(const Py_buffer *array, const Py_buffer *out) noexcept nogil:
    """Whether no element of an array can lie in the memory of `out`, which is contiguous."""
    cdef const char *low = <const char*>array.buf
    cdef const char *high = low + array.itemsize
    cdef int i
    for i in range(array.ndim):
        if array.shape[i] == 0:
            return True
        if array.strides[i] < 0:
            low += (array.shape[i] - 1) * array.strides[i]
        else:
            high += (array.shape[i] - 1) * array.strides[i]
    return high <= <char*>out.buf or <char*>out.buf + out.len <= low
