"""What pyx/geometry.pyx makes of boxes, for the schedule and the kernels; here, where Cython looks for what a module hands to others."""
from libc.stdint cimport int32_t, uint8_t

from simd.simd cimport real


cdef struct Boxes:                 # as they come, of the type of the computation
    Py_ssize_t count
    const int32_t *images
    const void *corners            # x1, y1, x2, y2
    Py_ssize_t row                 # elements from box to box
    Py_ssize_t column              # and from corner to corner


cdef class Order:
    cdef Py_ssize_t count
    cdef Py_ssize_t images
    cdef Py_ssize_t *starts        # boxes[starts[n]:starts[n + 1]] are of image n
    cdef int32_t *boxes
    cdef int32_t *rows             # of the output: most often the boxes themselves


cdef class Tables:
    cdef Order order
    cdef readonly Py_ssize_t first
    cdef readonly Py_ssize_t stop
    cdef Py_ssize_t height         # of the map
    cdef Py_ssize_t width
    cdef int ph
    cdef int pw
    cdef Py_ssize_t itemsize
    cdef Py_ssize_t entries
    cdef Py_ssize_t *starts        # those of the order, counted from `first`
    cdef int32_t *windows          # [i][4]: rows y0..y1-1 and columns x0..x1-1 that box `first` + i reads
    cdef int32_t *spans            # [i][PH + PW][2]: the entries of each bin, PH in y and then PW in x; QUANTISED: its first and last + 1 pixel
    cdef int32_t *index            # [entries]: pixel; SAMPLES: the one at or before a sample on the map
    cdef void *weight              # [entries]: its weight; SAMPLES: how far the sample is from the pixel
    cdef void *slopes              # [2][entries]: derivative of the weight by the box's low and by its high edge, when asked for
    cdef uint8_t *outside          # [i][PH + PW]: whether a bin has samples that are not on the map; SAMPLES only
    # by_pixel:
    cdef int32_t *counts           # [i][2]: pixels that are read, in y and in x
    cdef int32_t *pixels           # [entries]: those of y from the first of spans[i] on, those of x from spans[i][PH] on, ascending
    cdef int32_t *pixel_spans      # [entries][2]: the entries of each pixel
    cdef int32_t *bins_of_pixel    # [entries]: bin, ascending (of inverted boxes descending)
    cdef void *bin_weight          # [entries]: the weight of the pixel in that bin


cdef Tables tables_of(
    const Boxes *boxes, const int32_t *rows, Py_ssize_t image_count, tuple rule, tuple bins, tuple extents, double scale, Py_ssize_t most_rows, Tables before,
    bint slopes, Py_ssize_t most, int threads, real *_)
