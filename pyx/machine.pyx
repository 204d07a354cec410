"""What this build and this processor can do."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.limits cimport INT_MAX


cdef extern from "machine.h":
    bint supports_avx2() noexcept
    bint supports_avx512() noexcept
    const long openmp_version
    const int team_lost
    int watch_forks() noexcept
    int c_startable "startable"(int wanted) noexcept nogil
    bint IS_LLVMS
    int free_pages(void *start, size_t bytes) noexcept nogil
    int omp_get_max_threads() noexcept nogil
    int c_bound_processors "bound_processors"() noexcept nogil
    const char *COMPILER
    bint IS_DEBUG
    const unsigned int CYTHON_HEX_VERSION


def supported():
    """The instruction sets that the processor and the operating system support, best first."""
    found = (("avx512", supports_avx512()), ("avx2", supports_avx2()), ("baseline", True))
    return [name for name, supports in found if supports]


def openmp():
    """The value of _OPENMP that this module was compiled with; 0 without OpenMP."""
    return openmp_version


cdef int at_start = omp_get_max_threads()
if watch_forks():
    raise MemoryError("no room for the handlers of fork")


def is_llvms():
    """Whether the OpenMP runtime is LLVM's or Intel's, which share their code."""
    return IS_LLVMS


def bound_processors():
    """The processors of the process if the OpenMP runtime binds threads to them; else 0."""
    return c_bound_processors()


cpdef int most_threads() noexcept nogil:
    """The most threads that a call may use now; 1 if no team can be started.

    threadpoolctl and others may lower the limit of the OpenMP runtime at any time.  A limit that is
    lower than at import is obeyed; otherwise there is none.
    """
    if not openmp_version or team_lost:
        return 1
    cdef int now = omp_get_max_threads()
    return now if now < at_start else INT_MAX


cdef int startable(int wanted) noexcept nogil:
    return c_startable(wanted) if wanted > 1 else 1


cdef size_t releases = 0


cdef void count_release() noexcept:
    global releases
    releases += 1


def lock_releases():
    """How often roicy's calls have given up Python's lock in this process.

    A call that gives it up beside busy Python threads gets it back after 5 ms for each of them.
    """
    return releases


def free_lazily(block):
    """Let the system take the pages of a block, whose values are lost.  False if it cannot."""
    cdef bint done
    cdef Py_buffer memory
    PyObject_GetBuffer(block, &memory, PyBUF_SIMPLE | PyBUF_WRITABLE)
    count_release()
    with nogil:
        done = free_pages(memory.buf, memory.len)
    PyBuffer_Release(&memory)
    return done


def is_debug():
    """Whether memory that has no value yet is filled with NaN, for tests."""
    return IS_DEBUG


def compiler():
    """The C compiler that built this module, and its version."""
    return COMPILER.decode()


def cython():
    """The version of Cython that this module was written by."""
    return ".".join(str(CYTHON_HEX_VERSION >> shift & 255) for shift in (24, 16, 8))
