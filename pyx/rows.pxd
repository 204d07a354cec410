"""Rows of numbers of any type, as callers have them."""
from libc.math cimport ldexp, INFINITY, NAN
from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memcpy

cdef struct Rows:                  # of numbers, as a caller has them
    const char *start
    int kind                       # NumPy's character of their type
    Py_ssize_t count
    Py_ssize_t row                 # strides in bytes
    Py_ssize_t column


cdef inline double half_at(const char *at) noexcept nogil:
    """The value of a float16."""
    cdef uint16_t bits
    cdef double value
    memcpy(&bits, at, sizeof(bits))
    value = bits & 0x3ff
    if (bits >> 10 & 31) == 31:
        value = NAN if value else INFINITY
    elif bits >> 10 & 31:
        value = ldexp(value + 0x400, (bits >> 10 & 31) - 25)
    else:
        value = ldexp(value, -24)
    return -value if bits >> 15 else value


cdef inline double bfloat_at(const char *at) noexcept nogil:
    """The value of a bfloat16, which is the upper half of a float."""
    cdef uint16_t upper
    cdef uint32_t bits
    cdef float value
    memcpy(&upper, at, sizeof(upper))
    bits = <uint32_t>upper << 16
    memcpy(&value, &bits, sizeof(value))
    return value


cdef inline double number_at(const char *at, int kind) noexcept nogil:
    if kind == c'f':
        return (<const float*>at)[0]
    if kind == c'd':
        return (<const double*>at)[0]
    if kind == c'i':
        return (<const int*>at)[0]
    if kind == c'l':
        return <double>(<const long*>at)[0]
    if kind == c'q':
        return <double>(<const long long*>at)[0]
    return half_at(at) if kind == c'e' else bfloat_at(at)
