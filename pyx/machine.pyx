"""What this build and this processor can do."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.limits cimport INT_MAX
from limits cimport MAX_EXACT, MAX_EXACT_BFLOAT16, MAX_EXACT_FLOAT16, MAX_EXTENT, MAX_SIDE


cdef extern from "machine.h":
    bint supports_avx2() noexcept
    bint supports_avx512() noexcept
    int free_pages(void *start, size_t bytes) noexcept nogil
    const char *COMPILED_BY
    bint IS_DEBUG
    const unsigned int CYTHON_HEX_VERSION

cdef extern from "pool.h" nogil:
    enum: C_MOST_THREADS "MOST_THREADS"
    const long openmp_version
    int watch_forks() noexcept
    void look_at_runtime() noexcept
    int threads_of_runtime() noexcept
    const int c_bound_processors "bound_processors"
    void c_look_at_processors "look_at_processors"() noexcept
    void *c_pool_for "roicy_pool_for"(
        void *context, void (*work)(void *given, size_t worker) noexcept nogil, size_t workers,
        size_t batches, void *given) noexcept
    void c_enter_call "enter_call"() noexcept
    void c_leave_call "leave_call"() noexcept
    bint c_step_aside "step_aside"(size_t worker, long long *since) noexcept
    long long c_nanoseconds "nanoseconds"() noexcept
    void c_count_release "count_release"() noexcept
    size_t c_releases "lock_releases"() noexcept

cdef extern from "timed.h" nogil:
    enum: MOST_TIMES
    ctypedef struct Timed:
        long long *times
        size_t count
    Timed timed
    bint begin_times(bint backwards) noexcept
    void end_times() noexcept
    void time_tasks(
        void (*work)(void *given, size_t worker) noexcept nogil, size_t workers,
        void *queue) noexcept


MOST_PIXELS, MOST_BINS, MOST_THREADS = MAX_EXTENT, MAX_SIDE, C_MOST_THREADS
LARGEST_EXACT = {
    "bfloat16": MAX_EXACT_BFLOAT16, "float16": MAX_EXACT_FLOAT16, "float32": MAX_EXACT,
    "float64": 1 << 53}


def supported():
    """The instruction sets that the processor and the operating system support, best first."""
    found = (("avx512", supports_avx512()), ("avx2", supports_avx2()), ("baseline", True))
    return [name for name, supports in found if supports]


def openmp():
    """The value of _OPENMP that this module was compiled with; 0 without OpenMP."""
    return openmp_version


if watch_forks():
    raise MemoryError("no room for the handler of fork")
look_at_runtime()
c_look_at_processors()


def bound_processors():
    """The processors of the process if the OpenMP runtime binds threads to them; else 0."""
    return c_bound_processors


def look_at_processors():
    """Have the pool see how many processors the process has now."""
    c_look_at_processors()


# --- How many threads a call may use

cdef int at_start = threads_of_runtime()
cdef int limit = 0                 # of all threads; 0: none


cpdef int most_threads() noexcept nogil:
    """The most threads that a call of this thread may use now.

    threadpoolctl and others may lower the limit of the OpenMP runtime at any time, for one thread.
    A limit that is lower than at import is obeyed.
    """
    cdef int now = threads_of_runtime()
    cdef int most = limit if limit > 0 else INT_MAX
    return min(most, now) if now < at_start else most


def set_limit(int most):
    """Set the most threads of calls in all threads of the process; 0: there is no limit."""
    global limit
    limit = most


def get_limit():
    """What `set_limit` has set; 0: there is no limit."""
    return limit


# --- The pool, for other extensions

cdef void *pool_for(
        void *context, void (*work)(void *given, size_t worker) noexcept nogil, size_t workers,
        size_t batches, void *given) noexcept nogil:
    if timed.times != NULL:
        time_tasks(work, workers, given)
        return NULL
    return c_pool_for(context, work, workers, batches, given)


cdef bint tasks_are_timed() noexcept nogil:
    return timed.times != NULL


def times_of_tasks(call, bint backwards=False):
    """Make a call whose tasks are carried out here, one by one.

    backwards: the last task comes first.  Return (workers, [nanoseconds]) for each time that tasks
    are shared out: of what makes scratch ready, as each worker's first task does, and of each task.
    """
    cdef list groups = [], times = None
    cdef size_t i
    if not begin_times(backwards):
        raise MemoryError("no room for times of tasks, or they are being timed already")
    try:
        call()
        if timed.count == MOST_TIMES:
            raise MemoryError(f"more than {MOST_TIMES} tasks, which is all that there is room for")
        for i in range(timed.count):
            if timed.times[i] < 0:
                times = []
                groups.append((-timed.times[i], times))
            else:
                times.append(timed.times[i])
    finally:
        end_times()
    return groups


cdef void enter_call() noexcept nogil:
    c_enter_call()


cdef void leave_call() noexcept nogil:
    c_leave_call()


cdef bint step_aside(size_t worker, long long *since) noexcept nogil:
    return c_step_aside(worker, since)


cdef long long nanoseconds() noexcept nogil:
    return c_nanoseconds()


cdef void count_release() noexcept nogil:
    c_count_release()


def lock_releases():
    """How often roicy's calls have given up Python's lock in this process.

    A call that gives it up beside busy Python threads gets it back after 5 ms for each of them.
    """
    return c_releases()


def free_lazily(block):
    """Let the system take the pages of a block, whose values are lost.  False if it cannot."""
    cdef bint done
    cdef Py_buffer memory
    PyObject_GetBuffer(block, &memory, PyBUF_SIMPLE | PyBUF_WRITABLE)
    count_release()
    with nogil:
        done = free_pages(memory.buf, memory.len)
    PyBuffer_Release(&memory)
    return done


def is_debug():
    """Whether memory that has no value yet is filled with NaN, for tests."""
    return IS_DEBUG


def compiler():
    """The C compiler that built this module, and its version."""
    return COMPILED_BY.decode()


def cython():
    """The version of Cython that this module was written by."""
    return ".".join(str(CYTHON_HEX_VERSION >> shift & 255) for shift in (24, 16, 8))
