"""The attributes of the classes of pyx/call/plan.pyx; here, where Cython looks for them."""
from libc.stdint cimport int32_t

from errors cimport Error
from plan.rules cimport RuleNumbers
from plan.structs cimport Call
from threads cimport Team


cdef class Arguments:
    cdef readonly object boxes, boxes_num, spatial_scale, layout, num_threads, out
    cdef readonly tuple pyramid


cdef class Rule:
    cdef RuleNumbers c


cdef class Plan:
    cdef Call call
    # arguments
    cdef readonly object operator  # of roicy/_table.py
    cdef readonly Arguments arguments
    cdef readonly object given_boxes   # as they came, or as arrays if they were not plain
    cdef readonly tuple maps
    cdef dict shapes
    cdef bint channels_last        # in the layout of the call
    cdef Py_ssize_t held           # how many of the buffers are: the arrays of maps
    cdef Py_buffer *buffers        # [levels]

    cdef dict named_shapes(self)
    cdef int set_result(self, array, bint written) except -1
    cdef int set_argmax(self, const int32_t[:, :, :, :] indices) except -1


# Computes a call that somebody else has described.  -1: `error` says what failed.
cdef int compute_call(Call *call, Team *team, Error *error) noexcept nogil
# Gives back the memory of a call, which may have failed at any place.
cdef void end_call(Call *call) noexcept nogil
