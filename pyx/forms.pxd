"""What boxes of images seem to be, where they are hardly what was meant."""
from libc.math cimport trunc

cdef enum:                         # boxes that seem to be others
    SHARES = 1                     # of the sides of the image
    SIDES = 2                      # x, y, width and height
    LEAST_IMAGE = 16               # pixels a side; boxes are hardly within one alone  # no record


cdef inline int form_of(
        const double *rows, Py_ssize_t count, double height, double width) noexcept nogil:
    """What upright boxes (K, 4) of an image seem to be, or 0.

    SHARES: all of them lie within one pixel, and have an area.  SIDES: two or more are mirrored by
    more than a pixel, or one from top to bottom, and read as x, y, w, h all lie on the image.
    """
    cdef bint shares = height >= LEAST_IMAGE and width >= LEAST_IMAGE, sides = shares
    cdef bint broken = False, upside_down = False
    cdef Py_ssize_t k, mirrored = 0
    cdef const double *row = rows
    for k in range(count):
        if not (shares or sides):
            return 0
        row = rows + 4 * k
        shares &= (row[0] >= 0 and row[1] >= 0 and row[2] <= 1 and row[3] <= 1
                   and row[2] - row[0] > 0.001 and row[3] - row[1] > 0.001)
        sides &= (row[0] >= 0 and row[1] >= 0 and row[2] >= 1 and row[3] >= 1
                  and row[0] + row[2] <= width + 1 and row[1] + row[3] <= height + 1)
        broken |= row[0] != trunc(row[0]) or row[1] != trunc(row[1]) or row[2] < 1 or row[3] < 1
        upside_down |= row[3] < row[1] - 1
        mirrored += row[2] < row[0] - 1 or row[3] < row[1] - 1
    if count > 0 and shares and broken:
        return SHARES
    return SIDES if sides and (upside_down or mirrored > 1) else 0
