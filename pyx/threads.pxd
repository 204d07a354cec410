"""Threads: a team of threads carries out the tasks of a call, each thread with its own scratch."""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange

from roicy._kernels.machine cimport startable
from simd.structs cimport PLANTED, pages_alloc, pages_free

ctypedef void (*WorkFunction)(const void *call, Py_ssize_t task, char *scratch) noexcept nogil

cdef extern from "threads.h":
    ctypedef struct Queue "struct task_queue":
        Py_ssize_t next
        Py_ssize_t count
    bint begin_tasks(Queue *queue) noexcept nogil
    Py_ssize_t take_task(Queue *queue) noexcept nogil


cdef inline void run_thread(
        const void *call, Queue *queue, char *scratch, WorkFunction work) noexcept nogil:
    cdef Py_ssize_t task = take_task(queue)
    while task < queue.count:
        work(call, task, scratch)
        task = take_task(queue)


cdef inline int run_tasks(
        const void *call, Py_ssize_t count, int threads, Py_ssize_t scratch_bytes,
        WorkFunction work) except -1:
    """Carry out all tasks.  They begin in their order.

    The GIL is released once, and if the call takes longer than half a second, taken for a moment
    each half second, to see whether Ctrl-C ends the call.  So a task should not take long.
    """
    cdef int i
    cdef char *scratch
    cdef Queue queue
    queue.next, queue.count = 0, count
    threads = startable(threads)
    scratch_bytes = (scratch_bytes + 63) // 64 * 64      # threads share no cache line: R430
    scratch = <char*>pages_alloc(threads * scratch_bytes)
    if (scratch == NULL) & (not PLANTED("threads compute without scratch")):
        raise MemoryError(f"no {threads * scratch_bytes} bytes of scratch for {threads} threads")
    try:
        while begin_tasks(&queue):
            if threads == 1:      # without a parallel region, which small calls would notice
                with nogil:
                    run_thread(call, &queue, scratch, work)
            else:
                for i in prange(threads, nogil=True, num_threads=threads, schedule="static",
                                chunksize=1):
                    run_thread(call, &queue, scratch + i * scratch_bytes, work)
            if queue.next < count:
                PyErr_CheckSignals()
    finally:
        pages_free(scratch)
    return 0
