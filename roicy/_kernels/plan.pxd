"""What pyx/plan/plan.pyx offers to kernels; here, where Cython looks for it."""
from libc.stdint cimport int32_t

from plan.structs cimport Boxes, Call, Scale, Tasks


cdef class Plan:
    # for kernels
    cdef Call *calls               # of each level
    cdef Tasks tasks
    cdef readonly int threads      # that carry out this step
    cdef Py_ssize_t scratch_bytes  # of each
    # arguments
    cdef int purpose
    cdef readonly object row       # of roicy/_table.py
    cdef readonly bint position_sensitive
    cdef tuple rule
    cdef tuple given               # roicy._arguments.Arguments; boxes as arrays if not plain
    cdef object given_boxes
    cdef object given_counts
    cdef object given_scale
    cdef object given_pyramid
    cdef readonly object out
    cdef readonly tuple maps
    cdef dict shapes
    cdef bint last                 # channels are
    cdef int kind                  # NumPy's character of the maps
    cdef int itemsize              # of the type of the computation
    cdef readonly int ph
    cdef readonly int pw
    cdef Py_ssize_t input_channels
    cdef readonly Py_ssize_t channels
    cdef readonly int max_threads
    # levels
    cdef readonly Py_ssize_t levels
    cdef Py_ssize_t held           # buffers
    cdef Py_buffer *buffers
    cdef Scale *scales
    cdef tuple level_rule          # of roicy/_levels.py, for a pyramid
    cdef Boxes boxes             # those of the finest level first
    cdef Py_ssize_t *stops         # where each level ends
    # steps
    cdef int steps
    cdef bint done
    cdef int32_t *bad              # [tasks]

    cdef int make_room(self, Py_ssize_t levels) except -1
    cdef int take_maps(self, maps) except -1
    cdef int convert_maps(self) except -1
    cdef int take_shapes(self, dict shapes) except -1
    cdef int take_bins(self, output_size) except -1
    cdef int take_scales(self) except -1
    cdef tuple scale_of(self, Py_ssize_t level)
    cdef dict named_shapes(self)
    cdef int take_channels(self) except -1
    cdef int take_boxes(self) except -1
    cdef bint take_rows(self, boxes, Py_ssize_t image) except? False
    cdef bint are_finite(self) noexcept
    cdef int convert_boxes(self) except -1
    cdef int distribute(self) except -1
    cdef bint is_empty(self, Py_ssize_t level) noexcept
    cdef bint boxes_overlap(self, out) except? True
    cdef Boxes boxes_of(self, Py_ssize_t level) noexcept
    cdef bint has_boxes_left(self, Py_ssize_t level) noexcept
    cdef int tabulate(self, Py_ssize_t level, Py_ssize_t max_boxes) except -1
    cdef int make_tasks(self) except -1
    # arrays of a step, from kernels
    cdef int set_result(self, array) except -1
    cdef int set_argmax(self, array) except -1
    cdef int set_gradient(self, array) except -1
    cdef int set_partial_sums(self, array) except -1
    cdef int watch_indices(self) except -1
    cdef bint found_bad_index(self) noexcept
