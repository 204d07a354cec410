"""What roicy.cython_api is made of: calls as structs of plain C, and the functions that take them."""

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
# The same, which raises the exception.
cdef int compute_or_raise(const Request *request) except -1 nogil
# The same of C-contiguous arrays, for callers without structs.  sizes: N, C, H, W, K, PH, PW and the
# bytes of a number; options: spatial_scale, sampling_ratio, aligned and num_threads.
cdef int compute_contiguous(
    int operation, void *maps, const void *boxes, void *bins, void *extra,
    const Py_ssize_t *sizes, const double *options) noexcept nogil
