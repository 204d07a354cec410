"""Rounding: results of small types, from float32."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cython.parallel cimport prange
from libc.stdint cimport uint8_t, uint16_t

from simd.simd cimport BFLOAT, BYTE, narrow_bfloats, narrow_bytes, narrow_halves

cdef enum:
    PIECE = 1 << 16            # numbers that a thread rounds at a time, and that no other thread is woken for: some 0.05 ms


cdef inline void narrow_piece(const float *values, Py_ssize_t first, Py_ssize_t stop, void *out, int kind) noexcept nogil:
    if kind == BYTE:
        narrow_bytes(values + first, stop - first, <uint8_t*>out + first)
    elif kind == BFLOAT:
        narrow_bfloats(values + first, stop - first, <uint16_t*>out + first)
    else:
        narrow_halves(values + first, stop - first, <uint16_t*>out + first)


def narrow(values, out, int kind, int threads):
    """out = values, each as the nearest number of a type, which NumPy's character tells; of two that are as near, as the even one.

    values: float32, and out: bytes or uint16 for as many, both C-contiguous.  Buffers are asked for by hand, since typed memoryviews
    would make this module four times as large.
    """
    cdef Py_buffer source, target
    cdef Py_ssize_t i, count
    PyObject_GetBuffer(values, &source, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(out, &target, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            count = source.len // <Py_ssize_t>sizeof(float)
            if target.len != count * (1 if kind == BYTE else 2):
                raise ValueError(f"out: {target.len} bytes for {count} numbers")
            threads = <int>min(<Py_ssize_t>threads, count // PIECE)
            if threads <= 1:
                with nogil:
                    narrow_piece(<const float*>source.buf, 0, count, target.buf, kind)
            else:
                for i in prange(0, count, PIECE, nogil=True, num_threads=threads, schedule="static"):
                    narrow_piece(<const float*>source.buf, i, min(i + PIECE, count), target.buf, kind)
        finally:
            PyBuffer_Release(&target)
    finally:
        PyBuffer_Release(&source)
