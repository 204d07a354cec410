"""Buffers of arrays, and memory.  Both are there for as long as a list is."""
from cpython.buffer cimport Py_buffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromObject, PyMemoryView_GET_BUFFER
from libc.string cimport memset


cdef inline Py_buffer *buffer_of(list kept, array) except NULL:
    """Return the buffer of an array, with its shape and strides."""
    view = PyMemoryView_FromObject(array)
    kept.append(view)
    return PyMemoryView_GET_BUFFER(view)


cdef inline char *memory_of(list kept, Py_ssize_t size, bint cleared) except NULL:
    """Memory, as bytes that nobody else sees: where it lacks, Python complains of a bytearray."""
    try:
        block = PyBytes_FromStringAndSize(NULL, size)
    except MemoryError:
        raise MemoryError(f"no {size} bytes of scratch for a call") from None
    kept.append(block)
    if cleared:
        memset(PyBytes_AS_STRING(block), 0, size)
    return PyBytes_AS_STRING(block)
