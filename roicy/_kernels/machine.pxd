"""What pyx/machine.pyx offers to other extensions; here, where Cython looks for it."""


# The pool's threads help with the tasks of a call, and callers step aside for each other:
# pyx/pool.h explains these.
cdef void *pool_for(
    void *context, void (*work)(void *given, size_t worker) noexcept nogil, size_t workers,
    size_t batches, void *given) noexcept nogil
cdef void enter_call() noexcept nogil
cdef void leave_call() noexcept nogil
cdef bint step_aside(size_t worker, long long *since) noexcept nogil

# Whether this thread's calls have their tasks timed one by one.
cdef bint tasks_are_timed() noexcept nogil

cdef long long nanoseconds() noexcept nogil

# Counts that Python's lock is given up, for `lock_releases`; the caller holds it.
cdef void count_release() noexcept nogil

# The most threads that a call may use now.
cpdef int most_threads() noexcept nogil
