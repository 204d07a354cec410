"""Buffers of arrays, and memory.  Both are there for as long as a list is."""
from cpython.buffer cimport Py_buffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromObject, PyMemoryView_GET_BUFFER
from libc.string cimport memset, strchr


cdef inline Py_buffer *buffer_of(list kept, array, const char *kinds, int itemsize) except NULL:
    """Return the buffer of an array, with its shape and strides.

    kinds: characters of the types that it may have, as NumPy's integers are of 32 bits on some
    systems and of 64 on others; itemsize: bytes of a number, 0 if they do not matter.
    """
    memory = PyMemoryView_FromObject(array)
    cdef Py_buffer *view = PyMemoryView_GET_BUFFER(memory)
    cdef const char *kind = view.format
    kept.append(memory)
    if kind != NULL and (kind[0] == c'=' or kind[0] == c'^'):      # of numbers at odd addresses
        kind += 1
    if (kind == NULL or kind[0] == 0 or kind[1] != 0 or strchr(kinds, kind[0]) == NULL
            or itemsize > 0 and view.itemsize != itemsize):
        raise TypeError(f"an array of {array.dtype}, expected {itemsize} bytes of {kinds.decode()}")
    return view


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
