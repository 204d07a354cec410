"""Call: what one call of an operator computes, from its boxes to its results, without Python.

Whoever has a call to make describes it (describe.pxd, and `add_rows` of plan/boxes.pxd), has
`compute` do all the rest, and gives its memory back by `end`.  Plan does so for arrays, and ONNX
Runtime's nodes and roicy.cython_api for pointers.

    begin       boxes sorted by level, image and place
    next_step   the tables and tasks of some boxes; tables are bounded, so there may be many steps
    run_step    the tasks of a step, on a team of threads
    finish      rows and maps that no task has written, and rounding to a small type
"""
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from call.finish cimport Flat, check_some, clear_empty_levels, go_through, narrow_some
from errors cimport NO_MEMORY, WRONG_PLAN, WRONG_VALUE, allocated, fail
from plan.boxes cimport free_boxes
from plan.facts cimport has_no_work
from plan.order cimport sort_boxes
from plan.scratch cimport set_sizes
from plan.structs cimport (COPY_PER_BOX, GRAD_BOXES, GRAD_INPUT, MAX_PIXEL_GRAD, SPARSE_TAPS,
                           Call, LevelJob, Task, writes_maps)
from plan.tables cimport (find_few_taps, free_tables, make_tables, transpose_tables,
                          whole_map_tables)
from plan.tasks cimport list_tasks
from roicy._kernels.isa cimport Isa, isa_tables
from roicy._kernels.methods cimport method_of
from simd.structs cimport LANE_BYTES, PLANTED
from threads cimport Team, run_tasks

cdef enum:
    PARTIAL_SUMS_BYTES = 16 << 20  # of the gradients of the boxes of a step            # no record


cdef inline Py_ssize_t bytes_of(const Call *call) noexcept nogil:
    """Roughly how much memory a call has, but for its tables, which are bounded."""
    return call.tasks.room * sizeof(Task) + call.boxes.room * call.boxes.width * sizeof(double)


cdef inline void end(Call *call) noexcept nogil:
    """Give back the memory of a call, which may have failed at any place."""
    cdef Py_ssize_t i
    for i in range(call.levels if call.jobs != NULL else 0):
        free_tables(&call.jobs[i].tables)
    if not PLANTED("a plan keeps its tasks"):
        free(call.tasks.items)
    free_boxes(&call.boxes)
    free(call.order)
    free(call.starts)
    free(call.jobs)


# --- Boxes

cdef inline int begin(Call *call) noexcept nogil:
    """Give each level its boxes."""
    cdef Py_ssize_t count = call.boxes.count, lists = call.levels * call.jobs.map.images, i
    cdef int32_t *keys
    cdef const Isa *isa = isa_tables + (call.itemsize == sizeof(double))  # of float, or double
    call.simd, call.lanes = isa.simd, LANE_BYTES // call.itemsize
    if call.purpose == MAX_PIXEL_GRAD and call.out_strides.x == 1:      # set by max_pixel_grad
        call.lanes = 1             # planes are written one by one: a task may have any number
    call.begun, call.has_more = True, False
    if count == 0:
        return 0
    if lists > INT32_MAX:
        return fail(WRONG_VALUE, "features: %zd images in all levels, expected at most %d", lists,
                    <int>INT32_MAX)
    keys = <int32_t*>allocated(3 * count, sizeof(int32_t))
    call.order = <int32_t*>allocated(count, sizeof(int32_t))
    call.starts = <Py_ssize_t*>allocated(lists + 2, sizeof(Py_ssize_t))      # for counting_sort
    if keys == NULL or call.order == NULL or call.starts == NULL:
        free(keys)
        return -1
    sort_boxes(call, keys)
    free(keys)
    for i in range(call.levels):
        call.has_more = call.has_more or not has_no_work(&call.jobs[i])
    return 0


# --- Steps

cdef inline bint has_boxes_left(const LevelJob *job) noexcept nogil:
    return not has_no_work(job) and job.tables.stop < job.order.count


cdef inline int tabulate(Call *call, Py_ssize_t level, Py_ssize_t max_boxes) noexcept nogil:
    """Make the tables of the next boxes of a level, and take a method."""
    cdef LevelJob *job = &call.jobs[level]
    cdef Py_ssize_t few = 0
    cdef const char *reason
    set_sizes(job)
    if call.purpose == MAX_PIXEL_GRAD:      # reads argmax, and so needs no taps
        if whole_map_tables(job) < 0:
            return -1
    else:
        if make_tables(job, max_boxes) < 0:
            return -1
        if job.tables.tap_kind != SPARSE_TAPS and not writes_maps(call.purpose):
            few = find_few_taps(job)
            if few < 0:
                return -1
    job.method = method_of(job, few, &reason)
    if job.method == NULL:
        return fail(WRONG_PLAN, "no method fits")
    if reason != NULL:
        return fail(WRONG_VALUE, "method '%s' is unfit: %s", job.method.name, reason)
    if call.purpose != MAX_PIXEL_GRAD:
        job.method.prepare(job)
    return 0


cdef inline int make_tasks(Call *call) noexcept nogil:
    """Divide the work of the tables at hand among threads, and lay out their scratch."""
    cdef Py_ssize_t level
    cdef LevelJob *job
    call.threads = list_tasks(call)
    if call.threads < 0:
        return -1
    call.scratch_bytes = 0
    for level in range(call.levels):
        job = &call.jobs[level]
        if job.tables.count == 0:
            continue
        job.method.size_scratch(job)
        if (call.purpose == GRAD_INPUT and job.tables.tap_kind != SPARSE_TAPS
                and not call.position_sensitive):
            if transpose_tables(job) < 0:
                return -1
        call.scratch_bytes = max(call.scratch_bytes, job.scratch.size)
    return 0


cdef inline int next_step(Call *call, Py_ssize_t max_boxes) noexcept nogil:
    """Plan the next step, of at most so many boxes of a level; 0 if there is none, else 1."""
    cdef Py_ssize_t level, first
    cdef LevelJob *job
    if not call.has_more:
        return 0
    call.has_more = False
    for level in range(call.levels):
        job = &call.jobs[level]
        first = job.tables.stop       # the next tables begin where these end
        free_tables(&job.tables)
        job.tables.first = job.tables.stop = first
        if has_boxes_left(job) and tabulate(call, level, max_boxes) < 0:
            return -1
        call.has_more = call.has_more or has_boxes_left(job)
        job.add = call.steps > 0      # gradients to those of the steps before
    call.steps += 1
    if make_tasks(call) < 0:
        return -1
    call.ready = True
    return 1


cdef inline void compute_task(const Call *call, const Task *task, char *memory) noexcept nogil:
    """Have the method compute a task; the last argument of a pass only chooses its type."""
    cdef const LevelJob *job = call.jobs + task.level
    if call.itemsize == sizeof(float):
        job.method.passes[call.purpose].of_float(job, task, memory, 0)
    else:
        job.method.passes[call.purpose].of_double(job, task, memory, 0)


cdef inline void run_task(const void *given, Py_ssize_t i, char *memory) noexcept nogil:
    cdef const Call *call = <const Call*>given
    cdef const Task *task = call.tasks.items + i
    cdef const LevelJob *job = call.jobs + task.level
    cdef Task part
    if task.load != COPY_PER_BOX:
        compute_task(call, task, memory)
        return
    part = task[0]
    part.stop_box = task.first_box
    while job.method.next_copy(job, task, &part):
        compute_task(call, &part, memory)


# --- Gradients of the boxes

cdef inline Py_ssize_t sums_per_box(const Call *call) noexcept nogil:
    """How many partial sums make up the gradient of a box: one for each block and bin range."""
    cdef Py_ssize_t blocks = (call.channels + call.lanes - 1) // call.lanes
    return blocks * call.ph * call.pw if call.position_sensitive else blocks


cdef inline void add_partial_sums(Call *call, const double *sums) noexcept nogil:
    """Add up the partial sums [sums_per_box][rows][numbers of a box] of the boxes of a step."""
    cdef Py_ssize_t level, i, row = 0, groups = sums_per_box(call), group, at
    cdef Py_ssize_t rows = call.jobs.slopes.box_count
    cdef int numbers = call.boxes.width, n
    cdef const LevelJob *job
    cdef double total
    for level in range(call.levels):
        job = &call.jobs[level]
        for i in range(job.tables.count):
            for n in range(numbers):
                total = sums[row * numbers + n]
                for group in range(1, groups):
                    total += sums[(group * rows + row) * numbers + n]
                at = (job.tables.rows[i] + 1) * call.grad_columns - numbers + n
                if call.itemsize == sizeof(float):
                    (<float*>call.grad_boxes)[at] = <float>total
                else:
                    (<double*>call.grad_boxes)[at] = total
            row += 1


cdef inline double *make_partial_sums(Call *call) noexcept nogil:
    """Return zeros for the partial sums of a step, and tell each level where its own begin."""
    cdef Py_ssize_t level, rows = 0, row = 0
    cdef double *sums
    for level in range(call.levels):
        rows += call.jobs[level].tables.count
    sums = <double*>calloc(max(sums_per_box(call) * rows, 1), call.boxes.width * sizeof(double))
    if sums == NULL:
        fail(NO_MEMORY, "no memory for the gradients of %zd boxes", rows)
        return NULL
    for level in range(call.levels):
        call.jobs[level].slopes.partial_sums = sums + row * call.boxes.width
        call.jobs[level].slopes.box_count = rows
        row += call.jobs[level].tables.count
    return sums


# --- The whole call

cdef inline int run_step(Call *call) noexcept nogil:
    """Carry out the step that is planned; gradients of boxes are added up after its tasks."""
    cdef double *sums = NULL
    cdef int failed
    call.ready = False
    if call.purpose == GRAD_BOXES:
        sums = make_partial_sums(call)
        if sums == NULL:
            return -1
    failed = run_tasks(call, call.tasks.count, call.threads, call.scratch_bytes, run_task,
                       call.team)
    if sums != NULL and not failed:
        add_partial_sums(call, sums)
    free(sums)
    return failed


cdef inline Py_ssize_t most_boxes(const Call *call) noexcept nogil:
    """How many boxes of a level a step may have."""
    cdef Py_ssize_t bytes_per_box
    if call.purpose != GRAD_BOXES:
        return call.max_boxes
    bytes_per_box = call.levels * sums_per_box(call) * call.boxes.width * sizeof(double)
    return min(call.max_boxes, max(PARTIAL_SUMS_BYTES // max(bytes_per_box, 1), 1))


cdef inline Flat flat_of_bins(const Call *call) noexcept nogil:
    """Describe a number for each bin and channel; the caller says what they are."""
    cdef Flat flat
    flat.simd, flat.threads = call.simd, call.max_threads
    flat.count = call.boxes.count * call.channels * call.ph * call.pw
    return flat


cdef inline int finish(Call *call) noexcept nogil:
    """Write what no task has written, and round the output to a small type.

    It is done last, since nothing is to be written if a plan lacks memory.
    """
    cdef Flat flat
    clear_empty_levels(call)
    if call.small == NULL:
        return 0
    flat = flat_of_bins(call)
    flat.values, flat.target, flat.dtype = (
        <const float*>call.result, call.small, call.small_dtype)
    return go_through(&flat, narrow_some, call.team)


cdef inline int argmax_is_wrong(Call *call) noexcept nogil:
    """Set `bad` if an index of argmax, which lies end to end, is of no pixel; 0 if none is.

    Of a new result tasks check indices as they go: if one is wrong, nobody sees the result.
    """
    cdef const LevelJob *job = call.jobs
    cdef Flat flat
    if call.purpose != MAX_PIXEL_GRAD or (call.trusts_argmax and not has_no_work(job)):
        return 0
    flat = flat_of_bins(call)
    flat.indices, flat.pixels, flat.bad = (
        job.maxima.argmax, <int32_t>(job.map.rows * job.map.columns), &call.bad)
    return -1 if go_through(&flat, check_some, call.team) < 0 else call.bad


cdef inline int compute(void *given, Team *team) noexcept nogil:
    """Compute a call that is described.  -1: `last_error` says what failed."""
    cdef Call *call = <Call*>given
    cdef int more = 1
    call.team = team
    if not call.begun and begin(call) < 0:
        return -1
    if call.purpose == GRAD_BOXES and call.grad_boxes != NULL:
        memset(call.grad_boxes, 0, call.boxes.count * call.grad_columns * call.itemsize)
    if argmax_is_wrong(call) != 0:
        return 0 if call.bad else -1
    while more > 0:
        more = 1 if call.ready else next_step(call, most_boxes(call))
        if more > 0 and run_step(call) < 0:
            return -1
    return finish(call) if more == 0 else -1
