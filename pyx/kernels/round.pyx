"""Round: results of small types, from float32."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cython.parallel cimport prange

from roicy._kernels.machine cimport startable
from simd.simd cimport narrow as narrow_numbers
from simd.simd cimport small_size
from tuning cimport ROUND_NUMBERS


cdef int narrow_all(
        const Py_buffer *source, const Py_buffer *target, int kind, int threads) except -1:
    cdef Py_ssize_t i, count = source.len // <Py_ssize_t>sizeof(float), size = small_size(kind)
    cdef const float *values = <const float*>source.buf
    if target.len != count * size:
        raise ValueError(f"out: {target.len} bytes for {count} numbers")
    threads = startable(<int>min(<Py_ssize_t>threads, count // ROUND_NUMBERS))
    for i in prange(0, count, ROUND_NUMBERS, nogil=True, num_threads=threads, schedule="static"):
        narrow_numbers(values + i, kind, min(<Py_ssize_t>ROUND_NUMBERS, count - i),
                       <char*>target.buf + i * size)
    return 0


def narrow(values, out, int kind, int threads):
    """out = values, rounded to the nearest number of a type; ties go to the even one.

    values: float32, and out: one or two bytes for each, both C-contiguous; kind: NumPy's
    character of the type.  Buffers are asked for by hand, since typed memoryviews would make this
    small module much larger.
    """
    cdef Py_buffer source, target
    PyObject_GetBuffer(values, &source, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(out, &target, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            narrow_all(&source, &target, kind, threads)
        finally:
            PyBuffer_Release(&target)
    finally:
        PyBuffer_Release(&source)
