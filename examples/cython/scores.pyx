"""Scores of boxes without Python: RoIAlign of each image, and a mean, on threads of this file."""
from cython.parallel cimport prange

import numpy as np

from roicy cimport cython_api


cdef double mean_of(const float[:, :, :, :] pooled) noexcept nogil:
    cdef Py_ssize_t c, y, x
    cdef double total = 0
    for c in range(pooled.shape[1]):
        for y in range(pooled.shape[2]):
            for x in range(pooled.shape[3]):
                total += pooled[0, c, y, x]
    return total / (pooled.shape[1] * pooled.shape[2] * pooled.shape[3])


def scores(const float[:, :, :, :] maps, const float[:, ::1] boxes, double scale):
    """The mean of what roi_align pools from each box, 7 x 7 bins of all channels."""
    cdef Py_ssize_t k, count = boxes.shape[0]
    cdef float[:, :, :, :] pooled = np.empty((count, maps.shape[1], 7, 7), np.float32)
    found = np.empty(count)
    cdef double[:] means = found
    for k in prange(count, nogil=True):      # each call has one thread, and one box
        cython_api.roi_align(
            maps, boxes[k:k + 1], pooled[k:k + 1], scale, -1, True)
        means[k] = mean_of(pooled[k:k + 1])
    return found
