"""Methods: the list of them, and which one a plan takes for a level."""
from libc.string cimport memset

from methods.bin_rows cimport set_bin_rows
from methods.channels_per_bin cimport set_channels_per_bin
from methods.numbers cimport set_numbers
from methods.pixels cimport set_pixels
from methods.planes cimport set_planes
from methods.sparse cimport set_sparse
from plan.structs cimport LevelJob, Method

cdef enum:
    MOST = 16

cdef Method[MOST] methods
cdef Py_ssize_t count = 0
memset(methods, 0, sizeof(methods))


cdef Method *next_method() except NULL:
    global count
    if count == MOST:
        raise AssertionError("the list has no room for another method")
    count += 1
    return &methods[count - 1]


# In the order in which a plan asks them: those for special cases come first.
set_sparse(next_method())
set_numbers(next_method())
set_bin_rows(next_method())
set_channels_per_bin(next_method())
set_pixels(next_method())
set_planes(next_method())

cdef Py_ssize_t forced = -1        # the place of the method that all plans take; -1: none


def names():
    """The names of all methods."""
    cdef Py_ssize_t i
    return [methods[i].name.decode() for i in range(count)]


def force(str name):
    """Have all plans from now on take one method; None: the one that pays.

    It is for tests and benchmarks.  A plan that the method does not fit is a ValueError.
    """
    global forced
    if name is not None and name not in names():
        raise ValueError(f"method {name!r}: expected one of {', '.join(names())}")
    forced = -1 if name is None else names().index(name)


cdef const char *unfit(const Method *method, const LevelJob *job) noexcept nogil:
    """Why a method cannot compute a level, or NULL."""
    if method.passes[job.call.purpose].of_float == NULL:
        return "it has no such pass"
    return method.unfit(job)


cdef const Method *method_of(
        const LevelJob *job, Py_ssize_t few, const char **reason) noexcept nogil:
    """The first method that fits a level and pays, or the one that is forced.

    few: how many boxes have few taps; reason: NULL, or why the forced method is unfit.
    """
    cdef Py_ssize_t i
    cdef const Method *method
    reason[0] = NULL
    if forced >= 0:
        reason[0] = unfit(&methods[forced], job)
        return &methods[forced]
    for i in range(count):
        method = &methods[i]
        # Whether it pays is asked first, which takes less time.
        if (method.passes[job.call.purpose].of_float != NULL and method.pays(job, few)
                and method.unfit(job) == NULL):
            return method
    return NULL
