"""Rounding: results of small types, from float32."""
from cython.parallel cimport prange
from libc.stdint cimport uint8_t, uint16_t

from lanes cimport BFLOAT, narrow_bfloats, narrow_bytes, narrow_halves

ctypedef fused small:
    uint8_t
    uint16_t

cdef enum:
    PIECE = 1 << 16            # numbers that a thread rounds at a time, and that no other thread is woken for: some 0.05 ms


cdef inline void narrow_piece(const float *values, Py_ssize_t count, small *out, int kind) noexcept nogil:
    if small is uint8_t:
        narrow_bytes(values, count, out)
    elif kind == BFLOAT:
        narrow_bfloats(values, count, out)
    else:
        narrow_halves(values, count, out)


def narrow(const float[::1] values, small[::1] out, int kind, int threads):
    """out = values, each as the nearest number of a type, which NumPy's character tells; of two that are as near, as the even one."""
    cdef Py_ssize_t i, count = values.shape[0]
    threads = <int>min(<Py_ssize_t>threads, count // PIECE)
    if threads <= 1:
        if count > 0:
            with nogil:
                narrow_piece(&values[0], count, &out[0], kind)
    else:
        for i in prange(0, count, PIECE, nogil=True, num_threads=threads, schedule="static"):
            narrow_piece(&values[i], min(<Py_ssize_t>PIECE, count - i), &out[i], kind)
