"""roicy for other people's Cython: the operators as functions that need no Python.

    from roicy cimport cython_api
    cython_api.roi_align(maps, boxes, out, 0.25)

docs/cython.md says more.  Arguments are those of the Python functions of the same names, by place:
Cython takes no keywords here.  Maps are (N, C, H, W) and outputs (K, C, PH, PW), with any strides,
so a transposed view of (N, H, W, C) will do.  Boxes are rows [batch_index, x1, y1, x2, y2].  What a
function writes has its final shape.  Nothing is written if an argument is wrong: the exception is
that of the Python function.
"""
cimport cython
from libc.stdint cimport int32_t
from libc.string cimport memset

ctypedef fused real:
    float
    double

ctypedef fused element:
    real
    int32_t

cpdef enum:                        # what is computed
    ROI_ALIGN
    ROI_ALIGN_BACKWARD
    ROI_ALIGN_BACKWARD_BOXES
    PS_ROI_ALIGN
    PS_ROI_ALIGN_BACKWARD
    PS_ROI_ALIGN_BACKWARD_BOXES
    PRROI_POOL
    PRROI_POOL_BACKWARD
    PRROI_POOL_BACKWARD_BOXES
    ROI_POOL
    ROI_POOL_BACKWARD


cdef struct Array:                 # of four axes; those that are not there have one element
    void *data
    Py_ssize_t[4] shape
    Py_ssize_t[4] strides          # in bytes


cdef struct Request:
    size_t size                    # sizeof(Request)
    int operation                  # one of the above
    int itemsize                   # 4: arrays are of float; 8: of double
    double spatial_scale
    int sampling_ratio
    int aligned                    # of roi_align
    int num_threads                # at least 1
    Array maps                     # (N, C, H, W): the input, or its gradient
    Array boxes                    # (K, 5)
    Array bins                     # (K, C, PH, PW): the output, or its gradient
    Array extra                    # argmax of roi_pool, int32, with data NULL if nobody wants it;
    #                                gradients of boxes (K, 5), whose column 0 becomes 0


# 0, or -1 if the call fails: then last_error() of the Python module says why, in the same thread.
cdef int compute(const Request *request) noexcept nogil
# Does what compute does, and raises the exception of a call that fails.
cdef int compute_or_raise(const Request *request) except -1 nogil
# Does what compute does, for callers without structs.  The arrays are C-contiguous.  sizes: N, C,
# H, W, K, PH, PW and the bytes of a number.  options: spatial_scale, sampling_ratio, aligned and
# num_threads.
cdef int compute_contiguous(
    int operation, void *maps, const void *boxes, void *bins, void *extra,
    const Py_ssize_t *sizes, const double *options) noexcept nogil


# --- From views to a request

cdef inline Array array_of(const element[:, :, :, :] view) noexcept nogil:
    cdef Array array
    cdef int i
    with cython.boundscheck(False):      # an array may have no element
        array.data = <void*>&view[0, 0, 0, 0]
    for i in range(4):
        array.shape[i], array.strides[i] = view.shape[i], view.strides[i]
    return array


cdef inline Array rows_of(const real[:, ::1] view) noexcept nogil:
    cdef Array array
    cdef int i
    with cython.boundscheck(False):
        array.data = <void*>&view[0, 0]
    for i in range(4):
        array.shape[i] = view.shape[i] if i < 2 else 1
        array.strides[i] = view.strides[i] if i < 2 else 0
    return array


cdef inline Request request_of(
        int operation, const real[:, :, :, :] maps, const real[:, ::1] boxes,
        const real[:, :, :, :] bins, double spatial_scale, int num_threads) noexcept nogil:
    cdef Request request
    memset(&request, 0, sizeof(request))
    request.size, request.operation, request.itemsize = sizeof(request), operation, sizeof(real)
    request.spatial_scale, request.num_threads = spatial_scale, num_threads
    request.maps, request.boxes, request.bins = array_of(maps), rows_of(boxes), array_of(bins)
    return request


# --- RoIAlign

cdef inline int roi_align(
        const real[:, :, :, :] input, const real[:, ::1] boxes, real[:, :, :, :] out,
        double spatial_scale=1, int sampling_ratio=-1, bint aligned=False,
        int num_threads=1) except -1 nogil:
    """Set out to the mean of bilinear samples in each bin of each box."""
    cdef Request request = request_of(
        ROI_ALIGN, input, boxes, out, spatial_scale, num_threads)
    request.sampling_ratio, request.aligned = sampling_ratio, aligned
    return compute_or_raise(&request)


cdef inline int roi_align_backward(
        const real[:, :, :, :] grad_output, const real[:, ::1] boxes,
        real[:, :, :, :] grad_input, double spatial_scale=1, int sampling_ratio=-1,
        bint aligned=False, int num_threads=1) except -1 nogil:
    """Set grad_input to the gradient of the input."""
    cdef Request request = request_of(
        ROI_ALIGN_BACKWARD, grad_input, boxes, grad_output, spatial_scale, num_threads)
    request.sampling_ratio, request.aligned = sampling_ratio, aligned
    return compute_or_raise(&request)


cdef inline int roi_align_backward_boxes(
        const real[:, :, :, :] grad_output, const real[:, :, :, :] input,
        const real[:, ::1] boxes, real[:, ::1] grad_boxes, double spatial_scale=1,
        int sampling_ratio=-1, bint aligned=False, int num_threads=1) except -1 nogil:
    """Set grad_boxes (K, 5) to the gradient of the boxes, and its column 0 to 0."""
    cdef Request request = request_of(
        ROI_ALIGN_BACKWARD_BOXES, input, boxes, grad_output, spatial_scale, num_threads)
    request.sampling_ratio, request.aligned = sampling_ratio, aligned
    request.extra = rows_of(grad_boxes)
    return compute_or_raise(&request)


# --- PSRoIAlign: the input has C * PH * PW channels

cdef inline int ps_roi_align(
        const real[:, :, :, :] input, const real[:, ::1] boxes, real[:, :, :, :] out,
        double spatial_scale=1, int sampling_ratio=-1, int num_threads=1) except -1 nogil:
    """Set out to the mean of bilinear samples, where each bin reads channels of its own."""
    cdef Request request = request_of(
        PS_ROI_ALIGN, input, boxes, out, spatial_scale, num_threads)
    request.sampling_ratio = sampling_ratio
    return compute_or_raise(&request)


cdef inline int ps_roi_align_backward(
        const real[:, :, :, :] grad_output, const real[:, ::1] boxes,
        real[:, :, :, :] grad_input, double spatial_scale=1, int sampling_ratio=-1,
        int num_threads=1) except -1 nogil:
    """Set grad_input to the gradient of the input."""
    cdef Request request = request_of(
        PS_ROI_ALIGN_BACKWARD, grad_input, boxes, grad_output, spatial_scale, num_threads)
    request.sampling_ratio = sampling_ratio
    return compute_or_raise(&request)


cdef inline int ps_roi_align_backward_boxes(
        const real[:, :, :, :] grad_output, const real[:, :, :, :] input,
        const real[:, ::1] boxes, real[:, ::1] grad_boxes, double spatial_scale=1,
        int sampling_ratio=-1, int num_threads=1) except -1 nogil:
    """Set grad_boxes (K, 5) to the gradient of the boxes, and its column 0 to 0."""
    cdef Request request = request_of(
        PS_ROI_ALIGN_BACKWARD_BOXES, input, boxes, grad_output, spatial_scale, num_threads)
    request.sampling_ratio, request.extra = sampling_ratio, rows_of(grad_boxes)
    return compute_or_raise(&request)


# --- PrRoIPool

cdef inline int prroi_pool(
        const real[:, :, :, :] input, const real[:, ::1] boxes, real[:, :, :, :] out,
        double spatial_scale=1, int num_threads=1) except -1 nogil:
    """Set out to the exact mean of the bilinear surface over each bin of each box."""
    cdef Request request = request_of(
        PRROI_POOL, input, boxes, out, spatial_scale, num_threads)
    return compute_or_raise(&request)


cdef inline int prroi_pool_backward(
        const real[:, :, :, :] grad_output, const real[:, ::1] boxes,
        real[:, :, :, :] grad_input, double spatial_scale=1,
        int num_threads=1) except -1 nogil:
    """Set grad_input to the gradient of the input."""
    cdef Request request = request_of(
        PRROI_POOL_BACKWARD, grad_input, boxes, grad_output, spatial_scale, num_threads)
    return compute_or_raise(&request)


cdef inline int prroi_pool_backward_boxes(
        const real[:, :, :, :] grad_output, const real[:, :, :, :] input,
        const real[:, ::1] boxes, real[:, ::1] grad_boxes, double spatial_scale=1,
        int num_threads=1) except -1 nogil:
    """Set grad_boxes (K, 5) to the gradient of the boxes, and its column 0 to 0."""
    cdef Request request = request_of(
        PRROI_POOL_BACKWARD_BOXES, input, boxes, grad_output, spatial_scale, num_threads)
    request.extra = rows_of(grad_boxes)
    return compute_or_raise(&request)


# --- RoIPool

cdef inline int roi_pool(
        const real[:, :, :, :] input, const real[:, ::1] boxes, real[:, :, :, :] out,
        double spatial_scale=1, int num_threads=1) except -1 nogil:
    """Set out to the largest pixel of each bin of each box."""
    cdef Request request = request_of(ROI_POOL, input, boxes, out, spatial_scale, num_threads)
    return compute_or_raise(&request)


cdef inline int roi_pool_with_argmax(
        const real[:, :, :, :] input, const real[:, ::1] boxes, real[:, :, :, :] out,
        int32_t[:, :, :, :] argmax, double spatial_scale=1, int num_threads=1) except -1 nogil:
    """Set out to the largest pixel of each bin, and argmax to where these pixels are."""
    cdef Request request = request_of(ROI_POOL, input, boxes, out, spatial_scale, num_threads)
    request.extra = array_of(argmax)
    return compute_or_raise(&request)


cdef inline int roi_pool_backward(
        const real[:, :, :, :] grad_output, const int32_t[:, :, :, :] argmax,
        const real[:, ::1] boxes, real[:, :, :, :] grad_input,
        int num_threads=1) except -1 nogil:
    """Set grad_input to the gradient of the input: each bin's goes to the pixel of argmax."""
    cdef Request request = request_of(
        ROI_POOL_BACKWARD, grad_input, boxes, grad_output, 1, num_threads)
    request.extra = array_of(argmax)
    return compute_or_raise(&request)
