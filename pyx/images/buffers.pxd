"""Buffers of arrays, and memory.  Both are there for as long as a list is."""
from cpython.buffer cimport PyBUF_FULL_RO, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.pycapsule cimport (PyCapsule_GetContext, PyCapsule_GetPointer, PyCapsule_New,
                                PyCapsule_SetContext)
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport strchr

from threads cimport BYTES, PyThreadState, give_lock_for, take_lock_again


cdef inline void give_back(object capsule) noexcept:
    cdef Py_buffer *view = <Py_buffer*>PyCapsule_GetPointer(capsule, NULL)
    PyBuffer_Release(view)
    free(view)


cdef inline Py_buffer *new_buffer(list kept, array) except NULL:
    """Have a capsule keep the buffer: the limited API has no pointer into a memoryview."""
    cdef Py_buffer *view = <Py_buffer*>calloc(1, sizeof(Py_buffer))
    if view == NULL:
        raise MemoryError("no memory for the buffer of an array")
    try:
        capsule = PyCapsule_New(view, NULL, give_back)
    except MemoryError:
        free(view)
        raise
    kept.append(capsule)         # it releases a buffer that is empty, too
    PyObject_GetBuffer(array, view, PyBUF_FULL_RO)
    return view


cdef inline Py_buffer *buffer_of(list kept, array, const char *kinds, int itemsize) except NULL:
    """Return the buffer of an array, with its shape and strides.

    kinds: characters of the types that it may have, as NumPy's integers are of 32 bits on some
    systems and of 64 on others; itemsize: bytes of a number, 0 if they do not matter.
    """
    cdef Py_buffer *view = new_buffer(kept, array)
    cdef const char *kind = view.format
    if kind != NULL and (kind[0] == c'=' or kind[0] == c'^'):      # of numbers at odd addresses
        kind += 1
    if (kind == NULL or kind[0] == 0 or kind[1] != 0 or strchr(kinds, kind[0]) == NULL
            or itemsize > 0 and view.itemsize != itemsize):
        raise TypeError(f"an array of {array.dtype}, expected {itemsize} bytes of {kinds.decode()}")
    return view


cdef inline void free_memory(object capsule) noexcept:
    cdef void *memory = PyCapsule_GetPointer(capsule, NULL)
    cdef PyThreadState *state = give_lock_for(<Py_ssize_t>PyCapsule_GetContext(capsule) / BYTES)
    free(memory)
    take_lock_again(state)


cdef inline char *memory_of(list kept, Py_ssize_t size, bint cleared) except NULL:
    """Memory that is kept by a capsule."""
    cdef PyThreadState *state = give_lock_for(size / BYTES) if cleared else NULL
    cdef void *memory = calloc(size + 1, 1) if cleared else malloc(size + 1)
    take_lock_again(state)
    if memory == NULL:
        raise MemoryError(f"no {size} bytes of scratch for a call")
    try:
        capsule = PyCapsule_New(memory, NULL, free_memory)
    except MemoryError:
        free(memory)
        raise
    PyCapsule_SetContext(capsule, <void*>size)
    kept.append(capsule)
    return <char*>memory
