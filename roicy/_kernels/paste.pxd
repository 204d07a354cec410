"""What pyx/images/paste.pyx offers to other extensions; here, where Cython looks for it."""
from arrays cimport Array
from errors cimport Error
from images.places cimport Placing
from threads cimport Team


cdef struct PastedMasks:           # masks of tensors, whose values are written
    const void *masks              # of float if `single`, else of double
    Py_ssize_t[3] extents          # K, h, w
    bint single
    Array boxes                    # x1, y1, x2, y2
    Placing placing
    char *out                      # [K][H][W], of the type of the masks
    int threads


cdef int paste_tensors(const PastedMasks *call, Team *team, Error *error) noexcept nogil
