"""Places: where the masks of boxes lie in their images."""
from libc.math cimport ceil, floor, isfinite, trunc
from libc.stdint cimport int64_t

from arrays cimport Array, number_in
from images.structs cimport TORCHVISION, Place
from simd.structs cimport real

cdef extern from *:
    """
    #define FARTHEST 1152921504606846976.0
    """
    const double FARTHEST          # corners beyond are moved there, so that int64 holds them: 2**60


cdef struct Placing:               # what places follow from, beside a box
    int rule                       # of the enum of structs.h
    Py_ssize_t mask_width
    int padding                    # border of zeros around a mask
    bint truncated                 # numbers of boxes are whole ones, rounded toward zero
    int64_t[2] extent              # of an image: x, y


cdef inline int64_t whole(double number) noexcept nogil:
    return <int64_t>min(max(number, -FARTHEST), FARTHEST)


cdef inline void expand(double *corners, const Placing *placing, real of_type) noexcept nogil:
    """Have a box grow about its centre, as a mask that gets a border."""
    cdef Py_ssize_t border = 2 * placing.padding
    cdef real ratio = <real>((placing.mask_width + border) / <double>placing.mask_width)
    cdef real low, high, centre, reach
    cdef int axis
    for axis in range(2):
        low, high = <real>corners[axis], <real>corners[axis + 2]
        centre = (high + low) * <real>0.5
        reach = (high - low) * <real>0.5 * ratio
        corners[axis], corners[axis + 2] = <real>(centre - reach), <real>(centre + reach)


cdef inline bint place_mask(
        const Placing *placing, const Array *boxes, Py_ssize_t k, Place *place, double *corners,
        real of_type) noexcept nogil:
    """Set a place and the corners of a box in the type of the masks; False if one is not finite."""
    cdef double number
    cdef int64_t first, stop
    cdef int i, axis
    for i in range(4):
        number = number_in(boxes, k, i)
        corners[i] = <real>(trunc(number) if placing.truncated else number)
    if placing.rule == TORCHVISION:
        expand(corners, placing, of_type)
    for i in range(4):
        if not isfinite(corners[i]):
            return False
    for axis in range(2):
        if placing.rule == TORCHVISION:
            first, stop = whole(trunc(corners[axis])), whole(trunc(corners[axis + 2]))
            place.origin[axis], place.size[axis] = first, max(stop - first + 1, <int64_t>1)
            stop += 1
        else:
            first, stop = whole(floor(corners[axis])) - 1, whole(ceil(corners[axis + 2])) + 1
            place.origin[axis], place.size[axis] = 0, 1
        first = max(first, <int64_t>0)
        stop = max(min(stop, placing.extent[axis]), first)
        first = min(first, stop)
        if axis == 0:
            place.x0, place.x1 = first, stop
        else:
            place.y0, place.y1 = first, stop
    return True


cdef inline Py_ssize_t place_masks(
        const Placing *placing, const Array *boxes, bint single, Place *places,
        double *corners) noexcept nogil:
    """Place all masks; the first whose box is not finite, or -1."""
    cdef Py_ssize_t k
    cdef bint placed
    for k in range(boxes.extents[0]):
        if single:
            placed = place_mask(placing, boxes, k, places + k, corners + 4 * k, <float>0)
        else:
            placed = place_mask(placing, boxes, k, places + k, corners + 4 * k, <double>0)
        if not placed:
            return k
    return -1
