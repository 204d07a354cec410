"""Threads: a team of threads carries out the tasks of a call, each thread with its own scratch."""
from cython.parallel cimport prange, threadid

from roicy._kernels.machine cimport startable
from simd.structs cimport PLANTED, pages_alloc, pages_free

ctypedef void (*WorkFunction)(const void *call, Py_ssize_t task, char *scratch) noexcept nogil


cdef inline int run_tasks(
        const void *call, Py_ssize_t tasks, int threads, Py_ssize_t scratch_bytes,
        WorkFunction work) except -1:
    """Carry out all tasks, in any order."""
    cdef Py_ssize_t i
    cdef char *scratch
    threads = startable(threads)
    scratch_bytes = (scratch_bytes + 63) // 64 * 64      # threads share no cache line: R430
    scratch = <char*>pages_alloc(threads * scratch_bytes)
    if (scratch == NULL) & (not PLANTED("threads compute without scratch")):
        raise MemoryError(f"no {threads * scratch_bytes} bytes of scratch for {threads} threads")
    if threads == 1:      # without a parallel region, which small calls would notice
        with nogil:
            for i in range(tasks):
                work(call, i, scratch)
    else:
        for i in prange(tasks, nogil=True, num_threads=threads, schedule="dynamic", chunksize=1):
            work(call, i, scratch + threadid() * scratch_bytes)
    pages_free(scratch)
    return 0
