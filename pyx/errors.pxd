"""Errors of functions without Python's lock, which return -1 or NULL: what failed is kept.

Whoever has the lock calls `raise_last` then.
"""

from libc.stdlib cimport malloc
from libc.string cimport memset

cdef extern from * nogil:
    """
    #include <stdarg.h>
    #include <stdio.h>

    enum { NO_ERROR, NO_MEMORY, WRONG_VALUE, WRONG_PLAN, RAISED };

    struct error {
        int kind; /* RAISED: Python has the exception already */
        char text[200];
    };

    /* Each thread has its own, and so has each extension. */
    static _Thread_local struct error last_error;

    /* Keeps an error, and returns what functions that fail return. */
    static int fail(int kind, const char *format, ...) {
        va_list numbers;
        last_error.kind = kind;
        va_start(numbers, format);
        vsnprintf(last_error.text, sizeof last_error.text, format, numbers);
        va_end(numbers);
        return -1;
    }
    """
    enum:
        NO_MEMORY
        WRONG_VALUE
        WRONG_PLAN                 # a fault of roicy's own
        RAISED                     # Python has the exception already

    ctypedef struct Error "struct error":
        int kind
        char text[200]

    Error last_error               # of this thread
    int fail(int kind, const char *format, ...) noexcept


cdef inline int raise_last() except -1:
    """Raise the last error of this thread."""
    if last_error.kind == RAISED:
        return -1
    kinds = {NO_MEMORY: MemoryError, WRONG_VALUE: ValueError, WRONG_PLAN: AssertionError}
    raise kinds[last_error.kind](last_error.text.decode())


cdef inline void *allocated(Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """Memory for so many elements of that size; NULL is an error that is told."""
    cdef void *memory = malloc(max(count, 1) * size)
    if memory == NULL:
        fail(NO_MEMORY, "no %zd bytes of memory for a call", count * size)
    return memory


cdef inline void *zeros_for(Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    cdef void *memory = allocated(count, size)
    return NULL if memory == NULL else memset(memory, 0, max(count, 1) * size)
