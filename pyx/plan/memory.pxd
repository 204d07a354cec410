"""Memory of a plan."""
from libc.stdlib cimport malloc
from libc.string cimport memset

from errors cimport NO_MEMORY, fail


cdef inline void *allocated(Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """Memory for so many elements of that size; NULL is an error that is told."""
    cdef void *memory = malloc(max(count, 1) * size)
    if memory == NULL:
        fail(NO_MEMORY, "no %zd bytes for the boxes of a call", count * size)
    return memory


cdef inline void *zeros_for(Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    cdef void *memory = allocated(count, size)
    return NULL if memory == NULL else memset(memory, 0, max(count, 1) * size)
