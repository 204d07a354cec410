"""Calls of ONNX Runtime.  Statuses become exceptions, and exceptions statuses."""
from libc.stdio cimport snprintf

from provider.abi cimport One, Release, Status
from provider.functions cimport (
    CREATE_STATUS, FAIL, GET_ERROR_MESSAGE, INVALID_ARGUMENT, RELEASE_STATUS, api)
from errors cimport NO_MEMORY, Error
from provider.python cimport follow_with


cdef inline int check(Status status) except -1:
    """Raise what a status says."""
    if status == NULL:
        return 0
    text = (<const char *(*)(const void*) noexcept nogil>api[GET_ERROR_MESSAGE])(status)
    message = text.decode(errors="replace")
    (<Release>api[RELEASE_STATUS])(status)
    raise RuntimeError(message)


cdef inline Status say(int code, const char *text) noexcept nogil:
    return (<Status (*)(int, const char*) noexcept nogil>api[CREATE_STATUS])(code, text)


cdef inline Status say_overlap(Py_ssize_t input) noexcept nogil:
    cdef char[100] text
    snprintf(text, sizeof(text), "output 0 overlaps the memory of input %zd", input)
    return say(INVALID_ARGUMENT, text)


cdef inline Status failure(object error) noexcept:
    """The status of an exception."""
    if not isinstance(error, Exception):
        follow_with(error)
    try:
        text = (str(error) or type(error).__name__).encode(errors="replace")
    except BaseException:        # a status of NULL would be success
        return say(FAIL, "an error whose text cannot be had")
    return say(INVALID_ARGUMENT if isinstance(error, (TypeError, ValueError)) else FAIL, text)


cdef inline bint succeeds(Status status) noexcept:
    """Whether a status says success.  What else it says is dropped."""
    (<Release>api[RELEASE_STATUS])(status)
    return status == NULL


cdef inline int ask(int place, const void *owner, void *answer) except -1:
    return check((<One>api[place])(owner, answer))


cdef inline str text_of(int place, const void *owner):
    cdef const char *text = NULL
    ask(place, owner, &text)
    return "" if text == NULL else text.decode(errors="surrogateescape")


cdef inline Status status_of(const Error *error) noexcept nogil:
    return say(FAIL if error.kind == NO_MEMORY else INVALID_ARGUMENT, error.text)
