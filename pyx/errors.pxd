"""Errors of functions without Python's lock: they return -1 or NULL, and errors.h keeps the text.

Whoever has the lock calls `raise_last` then.
"""

cdef extern from "errors.h" nogil:
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
