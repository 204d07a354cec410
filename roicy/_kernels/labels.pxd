"""What pyx/labels/labels.pyx offers to other extensions; here, where Cython looks for it."""
from errors cimport Error
from labels.structs cimport Labels
from threads cimport Team


# Computes a call that somebody else has described, whose classes are named by their numbers.  Of
# each axis `first`, `extent`, `pixels` and `rule` are given.  -1: `error` says what failed.
cdef int compute_labels(
    const Labels *call, Py_ssize_t images, int threads, Team *team, Error *error) noexcept nogil
