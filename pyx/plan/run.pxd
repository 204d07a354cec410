"""Run: the tasks of a step, on as many threads as the plan says."""
from libc.stdint cimport int32_t

from plan.method cimport Method
from plan.structs cimport COPY_ONCE, COPY_PER_BOX, GRAD_BOXES, PACK_WINDOW, Call, Task, Tasks
from simd.structs cimport LANE_BYTES
from threads cimport run_tasks
from tuning cimport SLOPE_BLOCKS

cdef enum:
    COPY_BYTES = 1 << 20           # pixels of one box, copied for COPY_PER_BOX         # R281


cdef struct Run:                   # the tasks of a step
    const Call *calls
    const Method *const *methods
    const Task *tasks


cdef inline void set_copy(const Call *call, Task *one, Py_ssize_t stop_block) noexcept nogil:
    """Set which blocks of a box the next part of a COPY_PER_BOX task is of, and its load."""
    cdef const int32_t *window = call.tables.windows + 4 * one.first_box
    cdef Py_ssize_t room = call.layout.tiles_bytes, blocks, block_bytes
    cdef Py_ssize_t group = SLOPE_BLOCKS if call.purpose == GRAD_BOXES else 1
    one.stop_block, one.load = stop_block, PACK_WINDOW
    if call.tables.thin != NULL and call.tables.thin[one.first_box] > 0:
        return
    one.y0, one.y1, one.x0, one.x1 = window[0], window[1], window[2], window[3]
    block_bytes = max((one.y1 - one.y0) * (one.x1 - one.x0) * LANE_BYTES, 1)
    blocks = min(room, <Py_ssize_t>COPY_BYTES) // block_bytes
    blocks = max(blocks // group, 1) * group
    one.stop_block = min(one.first_block + blocks, stop_block)
    if block_bytes * (one.stop_block - one.first_block) <= room:
        one.load = COPY_ONCE


cdef inline bint next_copy(const Call *call, const Task *task, Task *one) noexcept nogil:
    """Set `one` to the next part of a task that copies each box by itself; False after the last.

    A part is one box and as many channel blocks as the tile has room for.
    """
    one.first_block = one.stop_block
    if one.first_block == task.stop_block:
        one.first_block = task.first_block
        one.first_box = one.stop_box
        one.stop_box += 1
    if one.first_box == task.stop_box:
        return False
    set_copy(call, one, task.stop_block)
    return True


cdef inline void compute(const Run *one, const Task *task, char *memory) noexcept nogil:
    cdef const Call *call = one.calls + task.level
    cdef const Method *method = one.methods[task.level]
    if call.itemsize == sizeof(float):
        method.passes[call.purpose].of_float(call, task, memory, 0)
    else:
        method.passes[call.purpose].of_double(call, task, memory, 0)


cdef inline void run_task(const void *given, Py_ssize_t i, char *memory) noexcept nogil:
    cdef const Run *one = <const Run*>given
    cdef const Task *task = one.tasks + i
    cdef Task part
    if task.load != COPY_PER_BOX:
        compute(one, task, memory)
        return
    part = task[0]
    part.stop_box = task.first_box
    while next_copy(one.calls + task.level, task, &part):
        compute(one, &part, memory)


cdef inline int run_step(
        const Call *calls, const Method *const *methods, const Tasks *tasks, int threads,
        Py_ssize_t scratch_bytes) except -1:
    """Carry out all tasks."""
    cdef Run one
    one.calls, one.methods, one.tasks = calls, methods, tasks.items
    return run_tasks(&one, tasks.count, threads, scratch_bytes, run_task)
