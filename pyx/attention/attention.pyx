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
from threads cimport carry_out

cdef enum:
    QUERIES = 8                    # of a task, so that 300 of a decoder end evenly      # R482
    SERIAL_VECTORS = 100000        # lane vectors read by one thread alone, 0.1 ms       # R483


cdef struct Job:
    const Simd *simd
    Attention call
    Py_ssize_t images
    Py_ssize_t some                # queries, or channels, of a task
    Py_ssize_t parts               # tasks of an image, or of a head of it
    int threads
    bint small                     # it takes 0.1 ms at most


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
    part.first = task % job.parts * job.some
    part.stop = min(part.first + job.some, job.call.channels)
    job.simd.attend_value(&job.call, &part)


cdef int run_queries(Job *job) except -1:
    job.some = QUERIES
    job.parts = (job.call.queries + job.some - 1) // job.some
    return carry_out(job, job.images * job.parts, job.threads, 1, queries_task, job.small)


cdef int run_value(Job *job, Py_ssize_t lanes) except -1:
    """Divide heads where there are too few for all threads."""
    cdef Py_ssize_t heads = job.images * job.call.heads
    job.some = lanes if heads < 2 * job.threads else max(job.call.channels, 1)
    job.parts = (job.call.channels + job.some - 1) // job.some
    return carry_out(job, heads * job.parts, job.threads, 1, value_task, job.small)


def compute(given, grad, outs, int threads):
    """Compute the result, or with its gradient those of value, and of locations and weights.

    given: value (N, S, M, D), of any strides, but its channels lie together; locations
    (N, Q, M, T, 2) and weights (N, Q, M, T), which have no gaps, as all else; levels: rows width,
    height and first pixel of int32, and rows scale of x and of y, with a column for each point;
    rule: nearest, border and shift of struct attention.  outs: None for what is not computed.
    """
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
    job.small = cost * (call.channels // lanes + 1) <= SERIAL_VECTORS
    job.threads = 1 if job.small else threads
    if grad is None:
        call.out = buffer_of(kept, outs[0]).buf
        run_queries(&job)
        return
    call.grad = buffer_of(kept, grad).buf
    if outs[1] is not None:
        call.grad_value = buffer_of(kept, outs[1]).buf
        run_value(&job, lanes)
    if outs[2] is not None:
        call.grad_locations = buffer_of(kept, outs[2]).buf
        call.grad_weights = buffer_of(kept, outs[3]).buf
        run_queries(&job)
