"""Checks of box values, one pass each; the errors themselves are worded in roicy/_arguments.py."""
from libc.math cimport INFINITY, fabs, trunc
from libc.stdint cimport int32_t

from lanes cimport real


def bad_coordinate(const real[:, :] coordinates, double scale):
    """(row, column) of the first coordinate of boxes (K, 4) x1, y1, x2, y2 that is not finite, or not finite any more when
    it is scaled, or column 4 or 5 for a width or height that is not; or (-1, -1)."""
    cdef Py_ssize_t k, row = -1
    cdef int i, column = -1
    cdef real s = <real>scale
    cdef real[4] scaled
    cdef real width, height
    with nogil:
        for k in range(coordinates.shape[0]):
            for i in range(4):
                scaled[i] = coordinates[k, i] * s
            width = scaled[2] - scaled[0]
            height = scaled[3] - scaled[1]
            if fabs(width) < INFINITY and fabs(height) < INFINITY:      # false for NaN; infinite corners give one or the other
                continue
            row = k
            column = 4 if not fabs(width) < INFINITY else 5
            for i in range(3, -1, -1):
                if not fabs(scaled[i]) < INFINITY:
                    column = i
            break
    return row, column


def bad_image(const real[:] column, Py_ssize_t image_count, int32_t[::1] images):
    """Writes the image of each box; the first row of `column` that is no whole number of [0, image_count), or -1."""
    cdef Py_ssize_t k, row = -1
    with nogil:
        for k in range(column.shape[0]):
            if not (column[k] >= 0 and column[k] < image_count and trunc(column[k]) == column[k]):
                row = k
                break
            images[k] = <int32_t>column[k]
    return row
