"""What the front end does in C: checks of the values of boxes, their levels in a pyramid, and all that it does for calls of few boxes whose
arguments need no conversion.

Errors are worded in roicy/_arguments.py: `plan` gives up on whatever is wrong, or has to be converted, or is so many boxes that a few
microseconds before them do not count, and leaves it to the Python front end.
"""
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_GetBuffer
from libc.math cimport INFINITY, fabs, floor, ldexp, log2, rint, sqrt, trunc
from libc.stdint cimport int32_t
from libc.string cimport memcpy

import numpy as np

from simd.simd cimport BYTE, LANE_BYTES, real
from roicy._kernels.geometry cimport Boxes, Tables, tables_of
from roicy._kernels.schedule cimport most_rows, reading

cdef enum:
    # Boxes and levels that the stack has room for, and no extent beyond what is plain to count with
    FEW_BOXES = 256
    FEW_LEVELS = 8
    PLAIN_EXTENT = 1 << 20
    SMALL_BYTES = 1 << 20      # of a result: less than what _memory.py places

cdef object ndarray = np.ndarray, empty = np.empty, FLOAT = np.dtype(np.float32), DOUBLE = np.dtype(np.float64)
cdef tuple CHANNELS_LAST = (0, 3, 1, 2)
cdef double CLOSE = 1e-6       # boxes this close below a level's size, as a power of two, belong to it: areas are rounded
ROUNDING = CLOSE


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


cdef inline bint is_image(double n, Py_ssize_t image_count) noexcept nogil:
    return n >= 0 and n < image_count and trunc(n) == n


def bad_image(const real[:] column, Py_ssize_t image_count, int32_t[::1] images):
    """Writes the image of each box; the first row of `column` that is no whole number of [0, image_count), or -1."""
    cdef Py_ssize_t k, found = -1
    with nogil:
        for k in range(column.shape[0]):
            if not is_image(column[k], image_count):
                found = k
                break
            images[k] = <int32_t>column[k]
    return found


cdef struct Pyramid:
    int levels
    int finest                 # level of the finest map, which no box is below
    double canonical_scale     # the side of a box of level canonical_level
    int canonical_level


cdef inline int level_of(const real *corners, Py_ssize_t column, const Pyramid *pyramid) noexcept nogil:
    """The level of a box by the rule of feature pyramid networks, floor(level + log2(sqrt(area) / scale)), counted from the finest map."""
    cdef real width = max(corners[2 * column] - corners[0], <real>0), height = max(corners[3 * column] - corners[column], <real>0)
    cdef real size = <real>sqrt(<double>(width * height)) / <real>pyramid.canonical_scale
    cdef real wanted = <real>floor(<real>pyramid.canonical_level + <real>log2(<double>size) + <real>CLOSE) - <real>pyramid.finest
    # what is not a number, of sizes beyond all numbers, is the finest level
    return <int>min(wanted, <real>(pyramid.levels - 1)) if wanted > 0 else 0


cdef void order_by_level(
        const real *corners, Py_ssize_t count, Py_ssize_t row, Py_ssize_t column, const Pyramid *pyramid, int32_t *levels, int32_t *rows,
        Py_ssize_t *stops) noexcept nogil:
    """The rows of boxes, those of the finest level first, and where each level ends; levels: of each box."""
    cdef Py_ssize_t k, place = 0
    cdef int i
    for k in range(count):
        levels[k] = level_of(corners + k * row, column, pyramid)
    for i in range(pyramid.levels):
        for k in range(count):
            if levels[k] == i:
                rows[place] = <int32_t>k
                place += 1
        stops[i] = place


cpdef int level_of_scale(double scale):
    """The level of a map of that scale."""
    return <int>rint(-log2(scale))


def by_level(const real[:, :] coordinates, double finest_scale, int levels, double canonical_scale, int canonical_level):
    """(rows of boxes (K, 4) x1, y1, x2, y2, those of the finest level first, where each level ends).

    finest_scale: of the finest map, which no box is below.
    """
    cdef Py_ssize_t count = coordinates.shape[0]
    cdef Pyramid pyramid
    cdef object rows = np.empty(count, np.int32), stops = np.zeros(levels, np.intp), level_of_box = np.empty(count, np.int32)
    cdef int32_t[::1] to_rows = rows, to_levels = level_of_box
    cdef Py_ssize_t[::1] to_stops = stops
    pyramid.levels, pyramid.finest = levels, level_of_scale(finest_scale)
    pyramid.canonical_scale, pyramid.canonical_level = canonical_scale, canonical_level
    if count > 0:
        with nogil:
            order_by_level(&coordinates[0, 0], count, coordinates.strides[0] // <Py_ssize_t>sizeof(real), coordinates.strides[1] // <Py_ssize_t>sizeof(real),
                           &pyramid, &to_levels[0], &to_rows[0], &to_stops[0])
    return rows, stops.tolist()


cdef inline bint has_buffer(object value, Py_buffer *array) noexcept:
    """Whether a value is an array that C can look at, which then is to be released."""
    if type(value) is not ndarray:
        return False
    try:
        PyObject_GetBuffer(value, array, PyBUF_STRIDES | PyBUF_FORMAT)
    except Exception:      # of a type that buffers have no word for
        return False
    return True


cdef inline bint on_elements(const Py_buffer *array, int dimensions) noexcept nogil:
    """Whether an array has so many dimensions, and elements of one native type at multiples of their size."""
    cdef int i
    if array.ndim != dimensions or array.format[1] != 0 or <size_t>array.buf % array.itemsize != 0:
        return False
    for i in range(dimensions):
        if array.strides[i] % array.itemsize != 0:
            return False
    return True


cdef inline bint plain(const Py_buffer *array, int kind) noexcept nogil:
    """Whether an array has 4 dimensions, none empty or too large, and elements of that type."""
    cdef int i
    if array.format[0] != kind or not on_elements(array, 4):
        return False
    for i in range(4):
        if not 0 < array.shape[i] <= PLAIN_EXTENT:
            return False
    return True


cdef inline bint apart(const Py_buffer *array, const Py_buffer *out) noexcept nogil:
    """Whether no element of an array lies in the memory of `out`, if there is one."""
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
    return out.buf == NULL or high <= <char*>out.buf or <char*>out.buf + out.len <= low


cdef struct Few:                       # boxes, whatever they came as
    Py_ssize_t count
    int32_t[FEW_BOXES] images
    double[4 * FEW_BOXES] corners      # room for those of either type


cdef inline double number(const char *at, int kind) noexcept nogil:
    """A number of an array of boxes."""
    if kind == c'f':
        return (<const float*>at)[0]
    if kind == c'd':
        return (<const double*>at)[0]
    if kind == c'i':
        return (<const int*>at)[0]
    return <double>(<const long*>at)[0]


cdef bint take_rows(Few *few, const Py_buffer *rows, Py_ssize_t image, Py_ssize_t image_count, real *_) noexcept nogil:
    cdef real *corners = <real*>few.corners + 4 * few.count
    cdef const char *row = <const char*>rows.buf
    cdef int kind = rows.format[0], columns = 5 if image < 0 else 4, i
    cdef Py_ssize_t k
    cdef double n = image
    if not on_elements(rows, 2) or (kind != c'f' and kind != c'd' and kind != c'i' and kind != c'l'):
        return False
    if rows.shape[1] != columns or rows.shape[0] > FEW_BOXES - few.count:
        return False
    for k in range(few.count, few.count + rows.shape[0]):
        if image < 0:
            n = number(row, kind)
            if not is_image(n, image_count):
                return False
        few.images[k] = <int32_t>n
        for i in range(4):
            corners[i] = <real>number(row + (columns - 4 + i) * rows.strides[1], kind)
        corners += 4
        row += rows.strides[0]
    few.count += rows.shape[0]
    return True


cdef bint take(Few *few, object value, const Py_buffer *out, Py_ssize_t image, Py_ssize_t image_count, real *_) noexcept:
    """Add the boxes of an array; image: that all of them are of, or -1 where column 0 says it.  False if they are not plain, or in the way of `out`."""
    cdef Py_buffer rows
    cdef bint taken
    if not has_buffer(value, &rows):
        return False
    taken = take_rows(few, &rows, image, image_count, _) and apart(&rows, out)
    PyBuffer_Release(&rows)
    return taken


cdef bint count_off(Few *few, object boxes_num, Py_ssize_t image_count) except? False:
    """Say which image each box is of; False if the counts of boxes are not plain."""
    cdef Py_ssize_t n, k = 0, stop
    cdef object count
    if type(boxes_num) is ndarray:
        if boxes_num.shape != (image_count,):
            return False
        boxes_num = boxes_num.tolist()
    if type(boxes_num) is not list or len(<list>boxes_num) != image_count:
        return False
    for n in range(image_count):
        count = (<list>boxes_num)[n]
        if type(count) is not int or not 0 <= count <= few.count - k:
            return False
        stop = k + <Py_ssize_t>count
        while k < stop:
            few.images[k] = <int32_t>n
            k += 1
    return k == few.count


cdef bint gather(Few *few, object boxes, object boxes_num, const Py_buffer *out, Py_ssize_t image_count, double scale, real *_) except? False:
    """Take boxes of any format, at least one; False if they are not plain, or wrong."""
    cdef Py_ssize_t n
    few.count = 0
    if type(boxes) is list or type(boxes) is tuple:
        if boxes_num is not None or len(boxes) != image_count:
            return False
        for n in range(image_count):
            if not take(few, boxes[n], out, n, image_count, _):
                return False
    elif boxes_num is None:
        if not take(few, boxes, out, -1, image_count, _):
            return False
    elif not take(few, boxes, out, 0, image_count, _) or not count_off(few, boxes_num, image_count):
        return False
    return few.count > 0 and unusable(<real*>few.corners, few.count, 4, 1, scale)[0] < 0


cdef struct Levels:                    # of a pyramid, or the only one
    Py_ssize_t count
    Py_buffer[FEW_LEVELS] maps
    double[FEW_LEVELS] scales
    Pyramid pyramid                    # where there is one


cdef struct Arguments:                 # that are the same for all levels
    Py_ssize_t image_count
    Py_ssize_t channels                # of the output
    Py_ssize_t itemsize
    int kind                           # of the maps
    bint last                          # NHWC
    bint position_sensitive
    int threads


cdef list levels_if_right(
        Levels *levels, const Arguments *call, Few *few, tuple maps, object boxes, object boxes_num, const Py_buffer *out, tuple rule, tuple bins, real *_):
    """What the kernels and the schedule want to know of each level that has boxes; None where boxes are not plain or wrong, or tables take more than
    their share of memory."""
    cdef int32_t[FEW_BOXES] level_of_box, rows, images
    cdef double[4 * FEW_BOXES] corners
    cdef Py_ssize_t[FEW_LEVELS] stops
    cdef real *sorted_corners = <real*>corners
    cdef const real *from_corners = <const real*>few.corners
    cdef Py_ssize_t i, k, first = 0
    cdef Boxes some
    cdef Tables tables
    cdef Py_buffer *map
    cdef bint in_pixels
    cdef list made = []
    cdef int across = 2 if call.last else 3
    if not gather(few, boxes, boxes_num, out, call.image_count, levels.scales[0], _):      # the largest scale
        return None
    if levels.count == 1:
        stops[0] = few.count
    else:
        order_by_level(from_corners, few.count, 4, 1, &levels.pyramid, level_of_box, rows, stops)
        for k in range(few.count):
            images[k] = few.images[rows[k]]
            memcpy(sorted_corners + 4 * k, from_corners + 4 * rows[k], 4 * sizeof(real))
    some.row, some.column = 4, 1
    for i in range(levels.count):
        some.count = stops[i] - first
        if some.count == 0:
            continue
        map = &levels.maps[i]
        some.images = images + first
        some.corners = sorted_corners + 4 * first
        if levels.count == 1:
            some.images, some.corners = few.images, from_corners
        in_pixels = (map.strides[3 if call.last else 1] == map.itemsize and not call.position_sensitive
                     and (map.itemsize == call.itemsize or call.channels * call.itemsize % LANE_BYTES == 0))
        tables = tables_of[real](&some, NULL if levels.count == 1 else rows + first, call.image_count, rule, bins,
                                 (map.shape[across - 1], map.shape[across]), levels.scales[i], 0 if in_pixels else most_rows(map.shape[across], False), None,
                                 False, FEW_BOXES, call.threads, NULL)
        if tables.stop != some.count:
            return None
        seen = maps[i].transpose(CHANNELS_LAST) if call.last else maps[i]
        made.append((seen, chr(call.kind), in_pixels, map.strides[across] == map.itemsize, tables))
        first = stops[i]
    return made


cdef inline int side(object value) except? -1:
    """PH or PW, or 0 for what is none, or needs to be looked at."""
    if type(value) is not int:
        return 0
    return value if 0 < value <= PLAIN_EXTENT else 0


cdef double scale_of(object value):
    """A scale, or 0 for what is none, or needs to be looked at."""
    cdef double scale = value if type(value) is float else 0
    return scale if 0 < scale < INFINITY else 0


cpdef double scale_from_heights(Py_ssize_t rows, Py_ssize_t height):
    """The power of two that is closest to the height of a map, at least 1, divided by that of its image."""
    return ldexp(1, <int>rint(log2(<double>rows / <double>height)))


cdef bint take_scales(Levels *levels, object spatial_scale, tuple pyramid, bint last) except? False:
    cdef Py_ssize_t i
    cdef object canonical_scale, canonical_level, image_size
    if pyramid is None:
        levels.scales[0] = scale_of(spatial_scale)
        return levels.scales[0] > 0
    canonical_scale, canonical_level, image_size = pyramid
    if spatial_scale is not None:
        if image_size is not None or (type(spatial_scale) is not list and type(spatial_scale) is not tuple) or len(spatial_scale) != levels.count:
            return False
        for i in range(levels.count):
            levels.scales[i] = scale_of(spatial_scale[i])
    else:
        if (type(image_size) is not tuple and type(image_size) is not list) or len(image_size) != 2 or side(image_size[0]) == 0 or side(image_size[1]) == 0:
            return False
        for i in range(levels.count):
            levels.scales[i] = scale_from_heights(levels.maps[i].shape[1 if last else 2], side(image_size[0]))
    for i in range(levels.count):
        if not 0 < levels.scales[i] or (i > 0 and levels.scales[i] >= levels.scales[i - 1]):
            return False
    if type(canonical_level) is not int or not -1000 <= canonical_level <= 1000:
        return False
    levels.pyramid.canonical_scale = scale_of(float(side(canonical_scale)) if type(canonical_scale) is int else canonical_scale)
    levels.pyramid.canonical_level = canonical_level
    levels.pyramid.levels, levels.pyramid.finest = levels.count, level_of_scale(levels.scales[0])
    return levels.pyramid.canonical_scale > 0


def plan(tuple maps, boxes, boxes_num, output_size, spatial_scale, layout, out, tuple rule, bint position_sensitive, int threads, new, tuple pyramid=None):
    """(type, levels, tasks, result, the same seen as (K, C, PH, PW), threads) of a forward pass, for the kernels; or None.

    maps: of each level; pyramid: canonical_scale, canonical_level and image_size, where boxes are to be distributed to them; threads: as
    many as the call may use; new: makes a result of a shape and type.
    """
    cdef Levels levels
    cdef Arguments call
    cdef Few few
    cdef Py_buffer target
    cdef Py_buffer *map
    cdef int ph, pw, i, computed, held = 0
    cdef tuple shape
    cdef list made
    cdef bint small
    target.buf = NULL
    if type(layout) is not str or (layout != "NCHW" and layout != "NHWC") or not 0 < len(maps) <= FEW_LEVELS:
        return None
    call.last, call.position_sensitive, call.threads = layout == "NHWC", position_sensitive, threads
    if type(output_size) is tuple and len(<tuple>output_size) == 2:
        ph, pw = side((<tuple>output_size)[0]), side((<tuple>output_size)[1])
    else:
        ph = pw = side(output_size)
    if ph == 0 or pw == 0:
        return None
    try:
        for i in range(len(maps)):
            map = &levels.maps[i]
            if not has_buffer(maps[i], map):
                return None
            held += 1
            if not plain(map, levels.maps[0].format[0]) or map.shape[0] != levels.maps[0].shape[0]:
                return None
            if map.shape[3 if call.last else 1] != levels.maps[0].shape[3 if call.last else 1]:
                return None
        levels.count = held
        map = &levels.maps[0]
        call.kind = map.format[0]
        computed = c'f' if call.kind == BYTE else call.kind      # frames of cameras; results of other small types are to be rounded
        if not (computed == c'f' or computed == c'd') or not take_scales(&levels, spatial_scale, pyramid, call.last):
            return None
        call.itemsize = sizeof(float) if computed == c'f' else sizeof(double)
        call.image_count, call.channels = map.shape[0], map.shape[3 if call.last else 1]
        if position_sensitive:
            if call.channels % (<Py_ssize_t>ph * pw):
                return None
            call.channels //= <Py_ssize_t>ph * pw
        if out is not None:
            if not has_buffer(out, &target):
                target.buf = NULL
                return None
            if not plain(&target, computed) or target.readonly or not PyBuffer_IsContiguous(&target, c'C'):
                return None
            for i in range(levels.count):
                if not apart(&levels.maps[i], &target):
                    return None
        if computed == c'f':
            made = levels_if_right[float](&levels, &call, &few, maps, boxes, boxes_num, &target, rule, (ph, pw), NULL)
        else:
            made = levels_if_right[double](&levels, &call, &few, maps, boxes, boxes_num, &target, rule, (ph, pw), NULL)
        if made is None:
            return None
        if call.last:
            shape = few.count, ph, pw, call.channels
        else:
            shape = few.count, call.channels, ph, pw
        if out is None:
            small = <double>few.count * call.channels * ph * pw * call.itemsize < SMALL_BYTES
            out = (empty if small else new)(shape, FLOAT if computed == c'f' else DOUBLE)
        else:
            for i in range(4):
                if target.shape[i] != <Py_ssize_t>shape[i]:
                    return None
        tasks, threads = reading(made, call.channels, call.itemsize, <Py_ssize_t>ph * pw, position_sensitive, threads)
        return "float" if computed == c'f' else "double", made, tasks, out, out.transpose(CHANNELS_LAST) if call.last else out, threads
    finally:
        for i in range(held):
            PyBuffer_Release(&levels.maps[i])
        if target.buf != NULL:
            PyBuffer_Release(&target)
