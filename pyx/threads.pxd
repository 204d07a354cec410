"""Threads: workers carry out the tasks of a call, each with its own scratch.

Nothing here needs Python's lock, but for a moment each half second, to see whether Ctrl-C ends a
call.  So a task should not take long.  A caller that holds the lock may wait for workers, since no
task asks for it.
"""
from errors cimport NO_MEMORY, RAISED, fail, raise_last
from roicy._kernels.machine cimport (count_release, enter_call, leave_call, nanoseconds, pool_for,
                                     step_aside, tasks_are_timed)
from simd.structs cimport LANE_BYTES, PLANTED, pages_alloc, pages_free

ctypedef void (*WorkFunction)(const void *call, Py_ssize_t task, char *scratch) noexcept nogil
# Calls `function(given, i)` for i from 0 to count - 1, on threads that somebody else has: those of
# the pool, as `pool_for` of machine.pyx does, or ONNX Runtime's, which makes `batches` of them.
ctypedef void *(*ParallelFor)(
    void *context, void (*function)(void *given, size_t i) noexcept nogil, size_t count,
    size_t batches, void *given) noexcept nogil

cdef extern from "threads.h" nogil:
    enum: LOOK_EVERY
    ctypedef struct Queue "struct task_queue":
        Py_ssize_t next
        Py_ssize_t count
        long long until
        char *scratch
        Py_ssize_t scratch_bytes
    long long milliseconds() noexcept
    Py_ssize_t take_task(Queue *queue) noexcept

cdef extern from "<Python.h>":
    ctypedef struct PyThreadState:
        pass
    int check_signals "PyErr_CheckSignals"() nogil
    PyThreadState *give_lock "PyEval_SaveThread"() nogil
    void take_lock "PyEval_RestoreThread"(PyThreadState *state) nogil


cdef enum:
    BRIEF = 100000                 # nanoseconds of a call that keeps Python's lock      # R491
    FEW_TASKS = 64                 # that are believed to be brief for longer          # no record
    LONG = 1000000                 # of work beside the call's own, which gives it up    # no record
    BYTES = 10                     # that are cleared or given back in a nanosecond      # no record
    TURNS = 256                    # of a loop between looks at the time                # no record


cdef struct Team:                  # who carries out the tasks of one call
    ParallelFor parallel_for       # the pool's, or ONNX Runtime's
    void *context
    bint may_step_aside            # for other calls, where threads are more than processors
    long long since                # when it did last
    bint looks_for_signals         # as Ctrl-C's; ONNX Runtime has to get its results
    long long until                # when it looks for them next
    PyThreadState *state           # of the caller, which has given up Python's lock; or NULL
    bint keeps_lock
    Py_ssize_t tasks               # that the caller has done and that others followed
    long long began                # when the first of them ended


cdef struct Shared:                # tasks that workers take in turn
    Queue queue                    # first, for timed.h
    WorkFunction work
    const void *call
    Team *team
    bint may_step_aside            # as the team may when the tasks begin, if it has helpers


cdef inline void start_team(Team *team) noexcept nogil:
    """Prepare a call on the pool that may end by Ctrl-C."""
    team.parallel_for, team.context, team.state = pool_for, NULL, NULL
    team.since, team.may_step_aside, team.keeps_lock, team.tasks = 0, False, False, 0
    team.looks_for_signals, team.until = True, milliseconds() + LOOK_EVERY


cdef inline PyThreadState *give_lock_for(double cost) noexcept nogil:
    """Give Python's lock up for work of so many nanoseconds that is not the call's own; NULL if it
    is not long, since beside busy threads a call waits for the lock each time.
    """
    if cost <= LONG:
        return NULL
    count_release()
    return give_lock()


cdef inline void take_lock_again(PyThreadState *state) noexcept nogil:
    if state != NULL:
        take_lock(state)


cdef inline void let_others(Py_ssize_t turn, long long *since) noexcept:
    """Let other threads have Python's lock where a loop takes long that makes Python's objects.

    since: when the loop began, or last let others have it.
    """
    if turn % TURNS == TURNS - 1 and nanoseconds() - since[0] > LONG:
        count_release()
        take_lock(give_lock())
        since[0] = nanoseconds()


cdef inline int look_for_signals(Team *team) noexcept nogil:
    """-1 if the handler of a signal has raised an exception.  It is looked for now and then."""
    cdef int raised
    if not team.looks_for_signals or milliseconds() < team.until:
        return 0
    if team.state != NULL:         # not PyGILState_Ensure, which knows one interpreter alone
        take_lock(team.state)
    raised = check_signals()
    if team.state != NULL:
        team.state = give_lock()
    team.until = milliseconds() + LOOK_EVERY
    return fail(RAISED, "") if raised else 0


cdef inline void give_up_lock(Team *team) noexcept nogil:
    """Give Python's lock up for the rest of a call."""
    count_release()
    team.keeps_lock, team.may_step_aside = False, True
    team.state = give_lock()
    enter_call()


cdef inline void look_at_time(Team *team) noexcept nogil:
    """Give the lock up where a call that keeps it takes longer than was thought.

    After few tasks a long time proves nothing: the system may have run others for milliseconds.
    """
    cdef long long now = nanoseconds()
    if team.tasks == 0:
        team.began = now
    elif now - team.began > (BRIEF if team.tasks >= FEW_TASKS else 1000 * BRIEF):
        give_up_lock(team)
    team.tasks += 1


cdef inline void take_tasks(void *given, size_t worker) noexcept nogil:
    """Carry out tasks until none is left.  Workers may run one after the other, in any order."""
    cdef Shared *shared = <Shared*>given
    cdef char *scratch = shared.queue.scratch
    cdef Py_ssize_t task = take_task(&shared.queue)
    if scratch != NULL:
        scratch += <Py_ssize_t>worker * shared.queue.scratch_bytes
    while task < shared.queue.count:
        shared.work(shared.call, task, scratch)
        if shared.may_step_aside and step_aside(worker, &shared.team.since):
            return
        task = take_task(&shared.queue)
        if worker == 0 and shared.team.keeps_lock and task < shared.queue.count:
            look_at_time(shared.team)


cdef inline int share_tasks(
        const void *call, Py_ssize_t tasks, int workers, char *scratch, Py_ssize_t scratch_bytes,
        WorkFunction work, Team *team) noexcept nogil:
    """Carry out all tasks, which begin in their order; -1 if a signal ends the call.

    scratch_bytes: of each worker; 0 if they need no scratch.
    """
    cdef const void *failed
    cdef Shared shared
    shared.work, shared.call, shared.queue.next, shared.queue.count = work, call, 0, tasks
    shared.queue.scratch, shared.queue.scratch_bytes = scratch, scratch_bytes
    shared.team, shared.may_step_aside = team, team.may_step_aside and workers > 1
    while shared.queue.next < tasks:
        shared.queue.until = team.until if team.looks_for_signals else 0
        if workers == 1 and not tasks_are_timed():
            take_tasks(&shared, 0)
        else:
            failed = team.parallel_for(team.context, take_tasks, workers, workers, &shared)
            if failed != NULL:
                take_tasks(&shared, 0)
        if look_for_signals(team) < 0:
            return -1
    return 0


cdef inline int run_tasks(
        const void *call, Py_ssize_t tasks, int threads, Py_ssize_t scratch_bytes,
        WorkFunction work, Team *team) noexcept nogil:
    """Carry out all tasks; -1 if there is no memory, or a signal ends the call."""
    cdef char *scratch
    cdef int failed
    # threads share no cache line: R430
    scratch_bytes = (scratch_bytes + LANE_BYTES - 1) // LANE_BYTES * LANE_BYTES
    scratch = <char*>pages_alloc(threads * scratch_bytes)
    if (scratch == NULL) & (not PLANTED("threads compute without scratch")):
        return fail(NO_MEMORY, "no %zd bytes of scratch for %d threads", threads * scratch_bytes,
                    threads)
    failed = share_tasks(call, tasks, threads, scratch, scratch_bytes, work, team)
    pages_free(scratch)
    return failed


# What a call does on a team: it returns -1 if it fails, and `last_error` says why.
ctypedef int (*Whole)(void *call, Team *team) noexcept nogil


cdef inline int run_call(Whole whole, void *call, double cost) except -1:
    """Carry out a call for a caller that holds Python's lock; cost: its nanoseconds, roughly.

    The lock is kept for brief calls: a thread that gives it up beside busy ones gets it back after
    5 ms for each of them.
    """
    cdef Team team
    cdef int failed
    start_team(&team)
    team.keeps_lock = True
    if cost > BRIEF:
        give_up_lock(&team)
    failed = whole(call, &team)
    if not team.keeps_lock:
        leave_call()
        take_lock(team.state)
    if failed:
        raise_last()
    return 0
