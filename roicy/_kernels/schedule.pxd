"""What pyx/schedule.pyx offers to other modules in C."""

cpdef tuple reading(list levels, Py_ssize_t channels, Py_ssize_t itemsize, Py_ssize_t bins, bint by_bin, int threads, bint slopes=*)
cpdef Py_ssize_t most_rows(Py_ssize_t width, bint slopes) noexcept
