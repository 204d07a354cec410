"""What pyx/machine.pyx offers to other extensions; here, where Cython looks for it."""


# How many threads a parallel region may have now, of those that are wanted.  Each region with more
# than one asks first, since a runtime that cannot start a thread ends the process.
cdef int startable(int wanted) noexcept nogil

# Counts that Python's lock is given up, for `lock_releases`; the caller holds it.
cdef void count_release() noexcept

# The most threads that a call may use now.
cpdef int most_threads() noexcept nogil
