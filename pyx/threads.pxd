"""Threads: a team of threads carries out the tasks of a call, each thread with its own scratch.

Nothing here needs Python's lock, but for a moment each half second, to see whether Ctrl-C ends a
call.  So a task should not take long.  A caller that holds the lock may wait for a team, since no
task asks for it.
"""
from cython.parallel cimport prange

from errors cimport NO_MEMORY, RAISED, fail, raise_last
from roicy._kernels.machine cimport count_release, startable
from simd.structs cimport PLANTED, pages_alloc, pages_free

ctypedef void (*WorkFunction)(const void *call, Py_ssize_t task, char *scratch) noexcept nogil
# Calls `function(given, i)` for i from 0 to count - 1, on threads that somebody else has.
ctypedef void *(*ParallelFor)(
    void *context, void (*function)(void *given, size_t i) noexcept nogil, size_t count,
    size_t batches, void *given) noexcept nogil

cdef extern from "threads.h" nogil:
    enum: AT_ONCE
    ctypedef struct Queue "struct task_queue":
        Py_ssize_t next
        Py_ssize_t count
        long long until
    long long milliseconds() noexcept
    Py_ssize_t take_task(Queue *queue) noexcept

cdef extern from "<Python.h>":
    int check_signals "PyErr_CheckSignals"()


cdef struct Team:                  # who carries out the tasks of one call
    ParallelFor parallel_for       # NULL: OpenMP's threads do
    void *context
    bint looks_for_signals         # as Ctrl-C's; ONNX Runtime has to get its results
    long long until                # when it looks for them next


cdef struct Shared:                # tasks that workers take in turn
    Queue queue
    WorkFunction work
    const void *call
    char *scratch
    Py_ssize_t scratch_bytes       # of each worker


cdef inline void start_team(Team *team) noexcept nogil:
    """Prepare a team of OpenMP's threads, whose call may end by Ctrl-C."""
    team.parallel_for, team.context = NULL, NULL
    team.looks_for_signals, team.until = True, milliseconds() + AT_ONCE


cdef inline int look_for_signals(Team *team) noexcept nogil:
    """-1 if the handler of a signal has raised an exception.  It is looked for now and then."""
    cdef int raised
    if not team.looks_for_signals or milliseconds() < team.until:
        return 0
    with gil:
        raised = check_signals()
    team.until = milliseconds() + AT_ONCE
    return fail(RAISED, "") if raised else 0


cdef inline void take_tasks(void *given, size_t worker) noexcept nogil:
    """Carry out tasks until none is left.  Workers may run one after the other, in any order."""
    cdef Shared *shared = <Shared*>given
    cdef char *scratch = shared.scratch
    cdef Py_ssize_t task = take_task(&shared.queue)
    if scratch != NULL:
        scratch += <Py_ssize_t>worker * shared.scratch_bytes
    while task < shared.queue.count:
        shared.work(shared.call, task, scratch)
        task = take_task(&shared.queue)


cdef inline int share_tasks(
        const void *call, Py_ssize_t tasks, int workers, char *scratch, Py_ssize_t scratch_bytes,
        WorkFunction work, Team *team) noexcept nogil:
    """Carry out all tasks, which begin in their order; -1 if a signal ends the call.

    workers: as `workers_of` says; scratch_bytes: of each of them; 0 if they need no scratch.
    """
    cdef int i
    cdef const void *failed
    cdef Shared shared
    shared.work, shared.call, shared.queue.next, shared.queue.count = work, call, 0, tasks
    shared.scratch, shared.scratch_bytes = scratch, scratch_bytes
    while shared.queue.next < tasks:
        shared.queue.until = team.until if team.looks_for_signals else 0
        if workers == 1:      # without a parallel region, which small calls would notice
            take_tasks(&shared, 0)
        elif team.parallel_for == NULL:
            for i in prange(workers, num_threads=workers, schedule="static", chunksize=1):
                take_tasks(&shared, i)
        else:
            failed = team.parallel_for(team.context, take_tasks, workers, workers, &shared)
            if failed != NULL:
                take_tasks(&shared, 0)
        if look_for_signals(team) < 0:
            return -1
    return 0


cdef inline int workers_of(int threads, const Team *team) noexcept nogil:
    """How many workers carry out tasks that are meant for so many threads."""
    return startable(threads) if team.parallel_for == NULL else threads


cdef inline int run_tasks(
        const void *call, Py_ssize_t tasks, int threads, Py_ssize_t scratch_bytes,
        WorkFunction work, Team *team) noexcept nogil:
    """Carry out all tasks; -1 if there is no memory, or a signal ends the call."""
    cdef char *scratch
    cdef int failed
    threads = workers_of(threads, team)
    scratch_bytes = (scratch_bytes + 63) // 64 * 64      # threads share no cache line: R430
    scratch = <char*>pages_alloc(threads * scratch_bytes)
    if (scratch == NULL) & (not PLANTED("threads compute without scratch")):
        return fail(NO_MEMORY, "no %zd bytes of scratch for %d threads", threads * scratch_bytes,
                    threads)
    failed = share_tasks(call, tasks, threads, scratch, scratch_bytes, work, team)
    pages_free(scratch)
    return failed


# What a call does on a team: it returns -1 if it fails, and `errors` has why.
ctypedef int (*Whole)(void *call, Team *team) noexcept nogil


cdef inline int run_call(Whole whole, void *call, bint brief) except -1:
    """Carry out a call for a caller that holds Python's lock.  brief: it takes about 0.1 ms.

    The lock is kept for brief calls: a thread that gives it up beside busy ones gets it back after
    5 ms for each of them.
    """
    cdef Team team
    cdef int failed
    start_team(&team)
    if brief:
        failed = whole(call, &team)
    else:
        count_release()
        with nogil:
            failed = whole(call, &team)
    if failed:
        raise_last()
    return 0
