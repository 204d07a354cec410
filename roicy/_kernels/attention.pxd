"""What pyx/attention/attention.pyx offers to other extensions; here, where Cython looks for it."""
from attention.structs cimport Attention
from errors cimport Error
from threads cimport Team


# Computes a call that somebody else has described, of numbers of so many bytes; its `zeros` are
# made here.  -1: `error` says what failed.
cdef int compute_attention(
    const Attention *call, Py_ssize_t images, Py_ssize_t size, int threads, Team *team,
    Error *error) noexcept nogil
