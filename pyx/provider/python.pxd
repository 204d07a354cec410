"""What the provider asks of Python, and keeps of it while ONNX Runtime has the address alone."""
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdlib cimport calloc, free

from provider.abi cimport Kernel

cdef extern from * nogil:
    bint Py_IsInitialized()
    int PyGILState_Ensure()
    void PyGILState_Release(int state)
    PyObject *PyImport_ImportModule(const char *name)
    void PyErr_Print()

cdef extern from *:
    int Py_AddPendingCall(int (*function)(void*) except -1, void *argument)


cdef inline void *new(size_t size) except NULL:
    cdef void *made = calloc(1, size)
    if made == NULL:
        raise MemoryError(f"no room for {size} bytes")
    return made


cdef inline void *kept(object value) noexcept:
    Py_INCREF(value)
    return <void*>value


cdef inline void forget(void *value) noexcept nogil:
    if Py_IsInitialized():       # ONNX Runtime may end after Python
        with gil:
            Py_DECREF(<object>value)


cdef inline int raise_again(void *error) except -1:
    raised = <object>error
    Py_DECREF(raised)
    raise raised


cdef inline void follow_with(object error) noexcept:
    """Have an exception raised in the main thread when ONNX Runtime has returned to Python."""
    if Py_AddPendingCall(raise_again, kept(error)) != 0:
        Py_DECREF(error)         # as many are waiting as there can be


cdef inline object call(function, tuple arguments):
    """Call a function.  If a signal's handler raises in it, as Ctrl-C's does, call it again.

    The handler's exception is raised later, so that ONNX Runtime gets the function's result.
    """
    try:
        return function(*arguments)
    except Exception:
        raise
    except BaseException as error:
        import threading

        if threading.current_thread() is not threading.main_thread():
            raise                # handlers run in the main thread, so this came from elsewhere
        result = call(function, arguments)
        follow_with(error)
        return result


cdef inline void release_kernel(void *kernel) noexcept nogil:
    forget((<Kernel*>kernel).computation)
    free((<Kernel*>kernel).node)
    free(kernel)
