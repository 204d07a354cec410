"""Run-length codes become Python's bytes.  runs.h makes them."""
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdlib cimport free
from libc.string cimport memcpy

from images.structs cimport Runs
from threads cimport BYTES, PyThreadState, give_lock_for, let_others, nanoseconds, take_lock_again


cdef inline bytes code_of(const Runs *runs, Py_ssize_t i, long long *since):
    """since: as of `let_others`, for codes one after the other."""
    cdef Py_ssize_t used = <Py_ssize_t>runs[i].used
    cdef PyThreadState *state
    let_others(i, since)
    if runs[i].lacks_memory:
        raise MemoryError(f"no memory for run-length code {i}")
    code = PyBytes_FromStringAndSize(NULL, used)
    state = give_lock_for(used / BYTES)
    if used > 0:
        memcpy(PyBytes_AsString(code), runs[i].text, used)
    take_lock_again(state)
    return code


cdef inline void free_texts(Runs *runs, Py_ssize_t count) noexcept:
    """Free the texts of codes, and not the codes themselves."""
    cdef PyThreadState *state
    cdef Py_ssize_t i
    cdef long long since = nanoseconds()
    for i in range(count):
        let_others(i, &since)
        state = give_lock_for(<Py_ssize_t>runs[i].used / BYTES)
        free(runs[i].text)
        take_lock_again(state)
