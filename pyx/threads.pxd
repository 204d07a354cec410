"""Threads: a team of threads carries out the tasks of a call, each thread with its own scratch.

Nothing here needs Python's lock.  A caller that holds it may wait for a team, since no task asks
for it.
"""
from cython.parallel cimport prange, threadid

from errors cimport NO_MEMORY, fail, raise_last
from roicy._kernels.machine cimport count_release, startable
from simd.structs cimport PLANTED, pages_alloc, pages_free

ctypedef void (*WorkFunction)(const void *call, Py_ssize_t task, char *scratch) noexcept nogil
# Work that needs no scratch, but knows which of the workers does it.
ctypedef void (*WorkerFunction)(const void *call, Py_ssize_t task, int worker) noexcept nogil
# Calls `function(given, i)` for i from 0 to count - 1, on threads that somebody else has.
ctypedef void *(*ParallelFor)(
    void *context, void (*function)(void *given, size_t i) noexcept nogil, size_t count,
    size_t batches, void *given) noexcept nogil


cdef struct Team:                  # who carries out tasks; OpenMP's threads if parallel_for is NULL
    ParallelFor parallel_for
    void *context


cdef struct Shared:                # tasks that workers of somebody else's threads take in turn
    WorkerFunction work
    const void *call
    Py_ssize_t tasks
    Py_ssize_t next


cdef extern from *:
    """
    #define TAKE_NEXT(next) __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)
    """
    Py_ssize_t TAKE_NEXT(Py_ssize_t *next) noexcept nogil


cdef inline void take_tasks(void *given, size_t worker) noexcept nogil:
    """Carry out tasks until none is left.  Workers may run one after the other, in any order."""
    cdef Shared *shared = <Shared*>given
    cdef Py_ssize_t task = TAKE_NEXT(&shared.next)
    while task < shared.tasks:
        shared.work(shared.call, task, <int>worker)
        task = TAKE_NEXT(&shared.next)


cdef inline void share_tasks(
        const void *call, Py_ssize_t tasks, int workers, WorkerFunction work,
        const Team *team) noexcept nogil:
    """Carry out all tasks, in any order.  workers: as `startable` says, if OpenMP's are used."""
    cdef Py_ssize_t i
    cdef Shared shared
    if workers == 1:      # without a parallel region, which small calls would notice
        for i in range(tasks):
            work(call, i, 0)
    elif team == NULL or team.parallel_for == NULL:
        for i in prange(tasks, num_threads=workers, schedule="dynamic", chunksize=1):
            work(call, i, threadid())
    else:
        shared.work, shared.call, shared.tasks, shared.next = work, call, tasks, 0
        team.parallel_for(team.context, take_tasks, workers, workers, &shared)


cdef inline int workers_of(int threads, const Team *team) noexcept nogil:
    """How many workers carry out tasks that are meant for so many threads."""
    return startable(threads) if team == NULL or team.parallel_for == NULL else threads


cdef struct Scratched:             # tasks with scratch
    WorkFunction work
    const void *call
    char *scratch
    Py_ssize_t bytes               # of each worker


cdef inline void work_in_scratch(const void *given, Py_ssize_t task, int worker) noexcept nogil:
    cdef const Scratched *one = <const Scratched*>given
    one.work(one.call, task, one.scratch + worker * one.bytes)


cdef inline int run_tasks(
        const void *call, Py_ssize_t tasks, int threads, Py_ssize_t scratch_bytes,
        WorkFunction work, const Team *team) noexcept nogil:
    """Carry out all tasks, in any order; -1 if there is no memory."""
    cdef Scratched one
    threads = workers_of(threads, team)
    one.bytes = (scratch_bytes + 63) // 64 * 64      # threads share no cache line: R430
    one.work, one.call, one.scratch = work, call, <char*>pages_alloc(threads * one.bytes)
    if (one.scratch == NULL) & (not PLANTED("threads compute without scratch")):
        return fail(NO_MEMORY, "no %zd bytes of scratch for %d threads", threads * one.bytes,
                    threads)
    share_tasks(&one, tasks, threads, work_in_scratch, team)
    pages_free(one.scratch)
    return 0


cdef inline int carry_out(
        const void *call, Py_ssize_t tasks, int threads, Py_ssize_t scratch_bytes,
        WorkFunction work, bint small) except -1:
    """Carry out all tasks for a caller that holds Python's lock; small: they take 0.1 ms at most.

    The lock is kept for small work: a thread that gives it up beside busy ones gets it back after
    5 ms for each of them.
    """
    cdef int failed
    if small:
        failed = run_tasks(call, tasks, threads, scratch_bytes, work, NULL)
    else:
        count_release()
        with nogil:
            failed = run_tasks(call, tasks, threads, scratch_bytes, work, NULL)
    if failed:
        raise_last()
    return 0
