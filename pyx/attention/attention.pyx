"""Deformable attention: sums of samples of feature maps, each query of a head with samples and
weights of its own.

A task of the forward pass, and of the gradients of locations and weights, is some queries of an
image.  A task of the gradient of the value is a head of an image, or some of its channels, and all
queries add to it in their order.
"""
cimport cython
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from attention.structs cimport Attention, AttentionTable, Part
from errors cimport NO_MEMORY, Error, fail, last_error
from roicy._kernels.isa cimport isa_tables
from simd.structs cimport LANE_BYTES, real
from threads cimport BRIEF, Team, run_call, run_tasks

cdef enum:
    QUERIES = 8                    # of a task, so that 300 of a decoder end evenly      # R482
    SERIAL_VECTORS = 100000        # lane vectors read by one thread alone: BRIEF        # R483
    TASK_VECTORS = 1 << 23         # that a task reads at most: 0.1 s                   # no record


cdef struct Job:
    const AttentionTable *table
    Attention call
    Py_ssize_t images
    Py_ssize_t some                # queries, or channels, of a task
    Py_ssize_t parts               # tasks of an image, or of a head of it
    Py_ssize_t first               # the queries that are added to the gradient of the value now
    Py_ssize_t stop
    int threads
    Py_ssize_t lanes               # numbers in a lane vector


cdef void queries_task(const void *given, Py_ssize_t task, char *_) noexcept nogil:
    cdef const Job *job = <const Job*>given
    cdef Part part
    part.image, part.first = task // job.parts, task % job.parts * job.some
    part.stop = min(part.first + job.some, job.call.queries)
    part.head = 0                  # not read: all heads are computed
    if job.call.out == NULL:
        job.table.attend_slopes(&job.call, &part)
    else:
        job.table.attend(&job.call, &part)


cdef void value_task(const void *given, Py_ssize_t task, char *_) noexcept nogil:
    cdef const Job *job = <const Job*>given
    cdef Py_ssize_t head = task // job.parts
    cdef Part part
    part.image, part.head = head // job.call.heads, head % job.call.heads
    part.first, part.stop = job.first, job.stop
    part.low = task % job.parts * job.some
    part.high = min(part.low + job.some, job.call.channels)
    job.table.attend_value(&job.call, &part)


cdef Py_ssize_t queries_of_a_task(
        const Job *job, Py_ssize_t vectors, Py_ssize_t most) noexcept nogil:
    """How many queries a task has, of which each reads so many lane vectors of each point."""
    cdef double cost = 4.0 * job.call.points * vectors      # four pixels a point
    return <Py_ssize_t>max(min(TASK_VECTORS / (cost + 1), <double>most), 1)


cdef int run_queries(Job *job, Team *team) noexcept nogil:
    cdef Py_ssize_t vectors = job.call.heads * (job.call.channels // job.lanes + 1)
    job.some = queries_of_a_task(job, vectors, QUERIES)
    job.parts = (job.call.queries + job.some - 1) // job.some
    return run_tasks(job, job.images * job.parts, job.threads, 1, queries_task, team)


cdef int run_value(Job *job, Team *team) noexcept nogil:
    """Divide heads where there are too few for all threads, and queries where there are many."""
    cdef Py_ssize_t heads = job.images * job.call.heads, some
    job.some = job.lanes if heads < 2 * job.threads else job.call.channels
    job.parts = (job.call.channels + job.some - 1) // job.some
    some = queries_of_a_task(job, job.some // job.lanes + 1, TASK_VECTORS)
    while job.first == 0 or job.first < job.call.queries:
        job.stop = min(job.first + some, job.call.queries)
        if run_tasks(job, heads * job.parts, job.threads, 1, value_task, team) < 0:
            return -1
        job.first += some
    return 0


cdef int attend(void *given, Team *team) noexcept nogil:
    """Compute what has a place to go to."""
    cdef Job *job = <Job*>given
    cdef int failed = 0
    job.call.zeros = calloc(max(job.call.channels, <Py_ssize_t>1), sizeof(double))
    if job.call.zeros == NULL:
        return fail(NO_MEMORY, "no room for %zd zeros", job.call.channels)
    if job.call.grad_value != NULL:
        failed = run_value(job, team)
    if not failed and (job.call.out != NULL or job.call.grad_locations != NULL):
        failed = run_queries(job, team)
    free(<void*>job.call.zeros)
    return failed


cdef double set_threads(Job *job, Py_ssize_t size, int threads) noexcept nogil:
    """Choose functions for numbers of so many bytes, and threads.

    Return roughly how many nanoseconds a call takes.
    """
    cdef const Attention *call = &job.call
    cdef double vectors = job.images * call.heads, points = 4.0 * call.queries * call.points
    job.table = <const AttentionTable*>isa_tables[size == sizeof(double)].attention
    job.lanes = LANE_BYTES // size
    if call.grad_value != NULL:    # all of it is written
        points += call.pixels
    vectors *= (call.channels // job.lanes + 1) * points
    job.threads = 1 if vectors <= SERIAL_VECTORS else threads
    return vectors * BRIEF / SERIAL_VECTORS


cdef int compute_attention(
        const Attention *call, Py_ssize_t images, Py_ssize_t size, int threads, Team *team,
        Error *error) noexcept nogil:
    cdef Job job
    cdef int failed
    memset(&job, 0, sizeof(job))
    job.call, job.images = call[0], images
    set_threads(&job, size, threads)
    failed = attend(&job, team)
    if failed:
        error[0] = last_error
    return failed


# Where arrays lie.  Whoever calls `compute` holds them.

@cython.boundscheck(False)      # an array may have no number
cdef int set_inputs(
        Job *job, const real[:, :, :, :] value, const real[::1] locations,
        const real[:, :, :, ::1] weights, const int32_t[:, ::1] levels,
        const real[:, ::1] scales) except -1:
    cdef Attention *call = &job.call
    cdef Py_ssize_t size = sizeof(real)
    job.images, call.pixels, call.channels = value.shape[0], value.shape[1], value.shape[3]
    call.image, call.pixel, call.head = (
        value.strides[0] // size, value.strides[1] // size, value.strides[2] // size)
    call.queries, call.heads, call.points = weights.shape[1], weights.shape[2], weights.shape[3]
    call.value, call.locations = &value[0, 0, 0, 0], &locations[0]
    call.weights = &weights[0, 0, 0, 0]
    call.width, call.height, call.start = &levels[0, 0], &levels[1, 0], &levels[2, 0]
    call.scale_x, call.scale_y = &scales[0, 0], &scales[1, 0]
    return 0


@cython.boundscheck(False)
cdef const void *start_of(const real[::1] numbers) except? NULL:
    """Where numbers begin; NULL if there are none."""
    return &numbers[0] if numbers.shape[0] > 0 else NULL


cdef void *start(array, bint single, bint written=True) except? NULL:
    """Where an array without gaps begins; NULL if it is None, or empty."""
    cdef float[::1] floats
    cdef double[::1] doubles
    if array is None:
        return NULL
    flat = array.reshape(-1)
    if not written:
        return <void*>(start_of[float](flat) if single else start_of[double](flat))
    if single:
        floats = flat
        return <void*>start_of[float](floats)
    doubles = flat
    return <void*>start_of[double](doubles)


def compute(given, grad, outs, int threads):
    """Compute the result, or with its gradient those of value, and of locations and weights.

    given: value (N, S, M, D), of any strides, but its channels lie together; locations
    (N, Q, M, T, 2) and weights (N, Q, M, T), which have no gaps, as all else; levels: rows width,
    height and first pixel of int32, and rows scale of x and of y, with a column for each point;
    rule: nearest, border and shift of struct attention.  grad and the result: (N, Q, M * D).
    outs: the result, and gradients in the order of the inputs; None for what is not computed.
    Arrays without numbers may have more images, or channels, than could be counted.
    """
    if not any([out is not None and out.size for out in outs]):
        return
    cdef Job job
    cdef Attention *call = &job.call
    cdef bint single
    memset(&job, 0, sizeof(job))
    value, locations, weights, (levels, scales), (call.nearest, call.border, call.shift) = given
    flat, single = locations.reshape(-1), value.itemsize == sizeof(float)
    if single:
        set_inputs[float](&job, value, flat, weights, levels, scales)
    else:
        set_inputs[double](&job, value, flat, weights, levels, scales)
    call.grad, call.out = start(grad, single, False), start(outs[0], single)
    call.grad_value = start(outs[1], single)
    call.grad_locations, call.grad_weights = start(outs[2], single), start(outs[3], single)
    run_call(attend, &job, set_threads(&job, value.itemsize, threads))
