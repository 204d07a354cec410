"""What pyx/methods/methods.pyx offers to plans; here, where Cython looks for it."""
from plan.structs cimport LevelJob, Method

cdef const Method *method_of(
    const LevelJob *job, Py_ssize_t few, const char **reason) noexcept nogil
