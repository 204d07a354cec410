"""What the front end does in C: checks of the values of boxes, and all that it does for small calls whose arguments need no conversion.

Errors are worded in roicy/_arguments.py: `plan` gives up on whatever is wrong, or has to be converted, or is so much work that a few
microseconds before it do not count, and leaves it to the Python front end.
"""
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_GetBuffer
from libc.math cimport INFINITY, fabs, trunc
from libc.stdint cimport int32_t

import numpy as np

from lanes cimport BYTE, LANE_BYTES, real
from roicy._kernels.geometry cimport Boxes, Tables, tables_of
from roicy._kernels.schedule cimport reading

cdef enum:
    # Small calls: a result below what _memory.py places, boxes that the stack has room for, and no extent beyond what is plain to count with
    SMALL_BYTES = 1 << 20
    FEW_BOXES = 256
    PLAIN_EXTENT = 1 << 20

cdef object ndarray = np.ndarray, empty = np.empty, FLOAT = np.dtype(np.float32), DOUBLE = np.dtype(np.float64)
cdef tuple CHANNELS_LAST = (0, 3, 1, 2)


cdef (Py_ssize_t, int) unusable(const real *corners, Py_ssize_t count, Py_ssize_t row, Py_ssize_t column, double scale) noexcept nogil:
    cdef Py_ssize_t k
    cdef int i, found
    cdef real s = <real>scale
    cdef real[4] scaled
    cdef real width, height
    for k in range(count):
        for i in range(4):
            scaled[i] = corners[k * row + i * column] * s
        width = scaled[2] - scaled[0]
        height = scaled[3] - scaled[1]
        if fabs(width) < INFINITY and fabs(height) < INFINITY:      # false for NaN; infinite corners give one or the other
            continue
        found = 4 if not fabs(width) < INFINITY else 5
        for i in range(3, -1, -1):
            if not fabs(scaled[i]) < INFINITY:
                found = i
        return k, found
    return -1, -1


cdef Py_ssize_t images_of(const real *column, Py_ssize_t count, Py_ssize_t step, Py_ssize_t image_count, int32_t *images) noexcept nogil:
    cdef Py_ssize_t k
    cdef real n
    for k in range(count):
        n = column[k * step]
        if not (n >= 0 and n < image_count and trunc(n) == n):
            return k
        images[k] = <int32_t>n
    return -1


def bad_coordinate(const real[:, :] coordinates, double scale):
    """(row, column) of the first coordinate of boxes (K, 4) x1, y1, x2, y2 that is not finite, or not finite any more when
    it is scaled, or column 4 or 5 for a width or height that is not; or (-1, -1)."""
    cdef (Py_ssize_t, int) found = (-1, -1)
    if coordinates.shape[0] == 0:
        return found
    with nogil:
        found = unusable(&coordinates[0, 0], coordinates.shape[0], coordinates.strides[0] // <Py_ssize_t>sizeof(real),
                         coordinates.strides[1] // <Py_ssize_t>sizeof(real), scale)
    return found


def bad_image(const real[:] column, Py_ssize_t image_count, int32_t[::1] images):
    """Writes the image of each box; the first row of `column` that is no whole number of [0, image_count), or -1."""
    cdef Py_ssize_t found = -1
    if column.shape[0] == 0:
        return found
    with nogil:
        found = images_of(&column[0], column.shape[0], column.strides[0] // <Py_ssize_t>sizeof(real), image_count, &images[0])
    return found


cdef inline bint has_buffer(object value, Py_buffer *array) noexcept:
    """Whether a value is an array that C can look at, which then is to be released."""
    if type(value) is not ndarray:
        return False
    try:
        PyObject_GetBuffer(value, array, PyBUF_STRIDES | PyBUF_FORMAT)
    except Exception:      # of a type that buffers have no word for
        return False
    return True


cdef inline bint plain(const Py_buffer *array, int dimensions, int kind) noexcept:
    """Whether an array has so many dimensions, none empty or too large, and elements of that type at multiples of their size."""
    cdef int i
    if array.ndim != dimensions or array.format[0] != kind or array.format[1] != 0 or <size_t>array.buf % array.itemsize != 0:
        return False
    for i in range(dimensions):
        if not 0 < array.shape[i] <= PLAIN_EXTENT or array.strides[i] % array.itemsize != 0:
            return False
    return True


cdef inline bint apart(const Py_buffer *array, const char *first, Py_ssize_t size) noexcept:
    """Whether no element of an array lies in so many bytes from `first` on."""
    cdef const char *low = <const char*>array.buf
    cdef const char *high = low + array.itemsize
    cdef int i
    for i in range(array.ndim):
        if array.strides[i] < 0:
            low += (array.shape[i] - 1) * array.strides[i]
        else:
            high += (array.shape[i] - 1) * array.strides[i]
    return high <= first or first + size <= low


cdef Tables tables_if_right(
        const Py_buffer *rows, Py_ssize_t image_count, tuple rule, tuple bins, tuple extents, double scale, bint in_bands, int threads, real *_):
    """The tables of boxes (K, 5), FEW_BOXES of them at most; None where a value is wrong, or they take more than their share of memory."""
    cdef int32_t[FEW_BOXES] images
    cdef Boxes boxes
    cdef Tables tables
    boxes.count, boxes.images = rows.shape[0], images
    boxes.row, boxes.column = rows.strides[0] // rows.itemsize, rows.strides[1] // rows.itemsize
    boxes.corners = <real*>rows.buf + boxes.column
    if images_of(<const real*>rows.buf, boxes.count, boxes.row, image_count, images) >= 0:
        return None
    if unusable(<const real*>boxes.corners, boxes.count, boxes.row, boxes.column, scale)[0] >= 0:
        return None
    tables = tables_of[real](&boxes, None, image_count, rule, bins, extents, scale, in_bands, None, False, FEW_BOXES, threads, NULL)
    return tables if tables.stop == boxes.count else None


cdef inline int side(object value) except? -1:
    """PH or PW, or 0 for what is none, or needs to be looked at."""
    if type(value) is not int:
        return 0
    return value if 0 < value <= PLAIN_EXTENT else 0


def plan(input, boxes, output_size, spatial_scale, layout, out, tuple rule, bint position_sensitive, int threads):
    """(type, levels, tasks, result, the same seen as (K, C, PH, PW), threads) of a forward pass, for the kernels; or None.

    boxes: (K, 5), with the image in column 0; threads: as many as the call may use.
    """
    cdef Py_buffer map, rows, target
    cdef int held = 0, kind, computed, ph, pw, i
    cdef bint last
    cdef double scale
    cdef Py_ssize_t n, c, h, w, size, channels
    cdef Tables tables
    cdef bint in_pixels
    cdef tuple shape
    if type(spatial_scale) is not float or type(layout) is not str or (layout != "NCHW" and layout != "NHWC"):
        return None
    last = layout == "NHWC"
    if type(output_size) is tuple and len(<tuple>output_size) == 2:
        ph, pw = side((<tuple>output_size)[0]), side((<tuple>output_size)[1])
    else:
        ph = pw = side(output_size)
    scale = spatial_scale
    if ph == 0 or pw == 0 or not 0 < scale < INFINITY:
        return None
    try:
        if not has_buffer(input, &map):
            return None
        held = 1
        if not has_buffer(boxes, &rows):
            return None
        held = 2
        kind = map.format[0]
        computed = c'f' if kind == BYTE else kind      # frames of cameras; results of other small types are to be rounded
        if not (computed == c'f' or computed == c'd') or not plain(&map, 4, kind):
            return None
        if not plain(&rows, 2, computed) or rows.shape[1] != 5 or rows.shape[0] > FEW_BOXES:
            return None
        size = rows.itemsize
        n = map.shape[0]
        if last:
            h, w, c = map.shape[1], map.shape[2], map.shape[3]
        else:
            c, h, w = map.shape[1], map.shape[2], map.shape[3]
        channels = c
        if position_sensitive:
            if c % (<Py_ssize_t>ph * pw):
                return None
            channels = c // (<Py_ssize_t>ph * pw)
        if <double>rows.shape[0] * channels * ph * pw * size >= SMALL_BYTES:
            return None
        if last:
            shape = rows.shape[0], ph, pw, channels
        else:
            shape = rows.shape[0], channels, ph, pw
        if out is None:
            out = empty(shape, FLOAT if computed == c'f' else DOUBLE)
        elif not has_buffer(out, &target):
            return None
        else:
            held = 3
            if not plain(&target, 4, computed) or target.readonly or not PyBuffer_IsContiguous(&target, c'C'):
                return None
            for i in range(4):
                if target.shape[i] != <Py_ssize_t>shape[i]:
                    return None
            if not apart(&map, <char*>target.buf, target.len) or not apart(&rows, <char*>target.buf, target.len):
                return None
        in_pixels = map.strides[3 if last else 1] == map.itemsize and not position_sensitive and (kind == computed or c * size % LANE_BYTES == 0)
        if computed == c'f':
            tables = tables_if_right[float](&rows, n, rule, (ph, pw), (h, w), scale, in_pixels, threads, NULL)
        else:
            tables = tables_if_right[double](&rows, n, rule, (ph, pw), (h, w), scale, in_pixels, threads, NULL)
        if tables is None:
            return None
        levels = [(input.transpose(CHANNELS_LAST) if last else input, chr(kind), in_pixels, map.strides[2 if last else 3] == map.itemsize, tables)]
        tasks, threads = reading(levels, channels, size, ph * pw, position_sensitive, threads)
        return "float" if computed == c'f' else "double", levels, tasks, out, out.transpose(CHANNELS_LAST) if last else out, threads
    finally:
        if held > 0:
            PyBuffer_Release(&map)
        if held > 1:
            PyBuffer_Release(&rows)
        if held > 2:
            PyBuffer_Release(&target)
