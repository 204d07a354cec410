"""The attributes of the classes of pyx/plan/plan.pyx; here, where Cython looks for them."""
from libc.stdint cimport int32_t

from plan.method cimport Method
from plan.rules cimport RuleNumbers
from plan.structs cimport Boxes, LevelJob, Tasks


cdef class Arguments:
    cdef readonly object boxes, boxes_num, spatial_scale, layout, num_threads, out
    cdef readonly tuple pyramid


cdef class Rule:
    cdef RuleNumbers c


cdef class Plan:
    cdef LevelJob *jobs               # of each level
    cdef const Method **methods    # of each level, or NULL where it has no boxes
    cdef Tasks tasks
    cdef readonly int threads      # that carry out this step
    cdef Py_ssize_t scratch_bytes  # of each
    # arguments
    cdef int purpose
    cdef readonly object operator  # of roicy/_table.py
    cdef readonly bint position_sensitive
    cdef Rule rule
    cdef readonly Arguments arguments
    cdef readonly object given_boxes   # as they came, or as arrays if they were not plain
    cdef readonly tuple maps
    cdef dict shapes
    cdef bint last                 # channels are
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
    cdef tuple level_rule          # of roicy/_levels.py, for a pyramid
    cdef Boxes boxes
    cdef int32_t *order            # boxes by level, image and place
    cdef Py_ssize_t *starts        # [levels * images + 1]: where those of each image begin
    # steps
    cdef int steps
    cdef bint done
    cdef int32_t bad               # 1 once a task met an index of no pixel

    cdef int set_result(self, array) except -1
    cdef int set_argmax(self, array) except -1
    cdef int set_partial_sums(self, array) except -1
    cdef int run(self) except -1
