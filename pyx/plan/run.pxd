"""Run: the tasks of a step, on as many threads as the plan says."""
from plan.method cimport Method
from plan.structs cimport COPY_PER_BOX, LevelJob, Task, Tasks
from threads cimport run_tasks

cdef struct Run:                   # the tasks of a step
    const LevelJob *jobs
    const Method *const *methods
    const Task *tasks


cdef inline void compute(const Run *one, const Task *task, char *memory) noexcept nogil:
    cdef const LevelJob *job = one.jobs + task.level
    cdef const Method *method = one.methods[task.level]
    if job.itemsize == sizeof(float):
        method.passes[job.purpose].of_float(job, task, memory, 0)
    else:
        method.passes[job.purpose].of_double(job, task, memory, 0)


cdef inline void run_task(const void *given, Py_ssize_t i, char *memory) noexcept nogil:
    cdef const Run *one = <const Run*>given
    cdef const Task *task = one.tasks + i
    cdef Task part
    if task.load != COPY_PER_BOX:
        compute(one, task, memory)
        return
    part = task[0]
    part.stop_box = task.first_box
    while one.methods[task.level].next_copy(one.jobs + task.level, task, &part):
        compute(one, &part, memory)


cdef inline int run_step(
        const LevelJob *jobs, const Method *const *methods, const Tasks *tasks, int threads,
        Py_ssize_t scratch_bytes) except -1:
    """Carry out all tasks."""
    cdef Run one
    one.jobs, one.methods, one.tasks = jobs, methods, tasks.items
    return run_tasks(&one, tasks.count, threads, scratch_bytes, run_task)
