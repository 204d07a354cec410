"""What pyx/methods/methods.pyx offers to plans; here, where Cython looks for it."""
from plan.method cimport Method
from plan.structs cimport Call

cdef const Method *method_of(const Call *call, Py_ssize_t thin) except NULL
