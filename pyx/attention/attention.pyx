"""Deformable attention: sums of samples of feature maps, each query of a head with samples and
weights of its own.

A task of the forward pass, and of the gradients of locations and weights, is some queries of an
image.  A task of the gradient of the value is a head of an image, or some of its channels, and all
queries add to it in their order.
"""
from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t
from libc.string cimport memset

from attention.structs cimport Attention, Part
from images.buffers cimport buffer_of, memory_of
from roicy._kernels.isa cimport tables
from simd.structs cimport LANE_BYTES
from simd.table cimport Simd
from threads cimport Team, run_call, run_tasks

cdef enum:
    QUERIES = 8                    # of a task, so that 300 of a decoder end evenly      # R482
    SERIAL_VECTORS = 100000        # lane vectors read by one thread alone, 0.1 ms       # R483
    TASK_VECTORS = 1 << 23         # that a task reads at most: 0.1 s                   # no record


cdef struct Job:
    const Simd *simd
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
    part.head = 0                  # of all
    if job.call.out == NULL:
        job.simd.attend_slopes(&job.call, &part)
    else:
        job.simd.attend(&job.call, &part)


cdef void value_task(const void *given, Py_ssize_t task, char *_) noexcept nogil:
    cdef const Job *job = <const Job*>given
    cdef Py_ssize_t head = task // job.parts
    cdef Part part
    part.image, part.head = head // job.call.heads, head % job.call.heads
    part.first, part.stop = job.first, job.stop
    part.low = task % job.parts * job.some
    part.high = min(part.low + job.some, job.call.channels)
    job.simd.attend_value(&job.call, &part)


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
    if job.call.grad_value != NULL and run_value(job, team) < 0:
        return -1
    if job.call.out != NULL or job.call.grad_locations != NULL:
        return run_queries(job, team)
    return 0


def compute(given, grad, outs, int threads):
    """Compute the result, or with its gradient those of value, and of locations and weights.

    given: value (N, S, M, D), of any strides, but its channels lie together; locations
    (N, Q, M, T, 2) and weights (N, Q, M, T), which have no gaps, as all else; levels: rows width,
    height and first pixel of int32, and rows scale of x and of y, with a column for each point;
    rule: nearest, border and shift of struct attention.  outs: None for what is not computed.
    Arrays without numbers may have more images, or channels, than could be counted.
    """
    if not any([out is not None and out.size for out in outs]):
        return
    cdef list kept = []
    cdef Job job
    cdef Attention *call = &job.call
    cdef Py_buffer *view = buffer_of(kept, given[0])
    cdef Py_ssize_t size = view.itemsize, lanes = LANE_BYTES // size
    memset(&job, 0, sizeof(job))
    job.simd = tables + (size == sizeof(double))
    job.images, call.pixels, call.channels = view.shape[0], view.shape[1], view.shape[3]
    call.value, call.zeros = view.buf, memory_of(kept, call.channels * size, True)
    call.image, call.pixel, call.head = (
        view.strides[0] // size, view.strides[1] // size, view.strides[2] // size)
    view = buffer_of(kept, given[2])
    call.queries, call.heads, call.points = view.shape[1], view.shape[2], view.shape[3]
    call.weights, call.locations = view.buf, buffer_of(kept, given[1]).buf
    call.width = <const int32_t*>buffer_of(kept, given[3][0]).buf
    call.height, call.start = call.width + call.points, call.width + 2 * call.points
    call.scale_x = buffer_of(kept, given[3][1]).buf
    call.scale_y = <const char*>call.scale_x + call.points * size
    call.nearest, call.border, call.shift = given[4]
    # four pixels a point
    cost = 4.0 * job.images * call.queries * call.heads * call.points
    cdef bint small = cost * (call.channels // lanes + 1) <= SERIAL_VECTORS
    job.threads, job.lanes = 1 if small else threads, lanes
    if grad is None:
        call.out = buffer_of(kept, outs[0]).buf
    else:
        call.grad = buffer_of(kept, grad).buf
        if outs[1] is not None and outs[1].size:
            call.grad_value = buffer_of(kept, outs[1]).buf
        if outs[2] is not None and outs[2].size:
            call.grad_locations = buffer_of(kept, outs[2]).buf
            call.grad_weights = buffer_of(kept, outs[3]).buf
    run_call(attend, &job, small)
