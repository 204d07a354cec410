"""Methods: the list of them, and which one a plan takes for a level."""
from libc.string cimport memset

from methods.bin_rows cimport set_bin_rows
from methods.channels_per_bin cimport set_channels_per_bin
from methods.numbers cimport set_numbers
from methods.pixels cimport set_pixels
from methods.planes cimport set_planes
from methods.sparse cimport set_sparse
from plan.method cimport Method
from plan.structs cimport LevelJob

cdef enum:
    COUNT = 6

# In the order in which a plan asks them: those for special cases come first.
cdef Method[COUNT] methods
memset(methods, 0, sizeof(methods))
set_sparse(&methods[0])
set_numbers(&methods[1])
set_bin_rows(&methods[2])
set_channels_per_bin(&methods[3])
set_pixels(&methods[4])
set_planes(&methods[5])

cdef str forced = None             # the method that all plans take


def names():
    """The names of all methods."""
    cdef Py_ssize_t i
    return [methods[i].name.decode() for i in range(COUNT)]


def force(str name):
    """Have all plans from now on take one method; None: the one that pays.

    It is for tests and benchmarks.  A plan that the method does not fit is a ValueError.
    """
    global forced
    if name is not None and name not in names():
        raise ValueError(f"method {name!r}: expected one of {', '.join(names())}")
    forced = name


cdef const char *unfit(const Method *method, const LevelJob *job) noexcept:
    """Why a method cannot compute a level, or NULL."""
    if method.passes[job.purpose].of_float == NULL:
        return "it has no such pass"
    return method.unfit(job)


cdef const Method *method_of(const LevelJob *job, Py_ssize_t few) except NULL:
    """The first method that fits a level and pays, or the one that is forced.

    few: how many boxes have few taps.
    """
    cdef Py_ssize_t i
    cdef const Method *method
    cdef const char *reason
    for i in range(COUNT):
        method = &methods[i]
        if forced is None:
            # Whether it pays is asked first, which takes less time.
            if (method.passes[job.purpose].of_float != NULL and method.pays(job, few)
                    and method.unfit(job) == NULL):
                return method
        elif method.name.decode() == forced:
            reason = unfit(method, job)
            if reason != NULL:
                raise ValueError(f"method {forced!r} is unfit: {reason.decode()}")
            return method
    raise AssertionError("no method fits")
