"""What table.h offers to Cython: the functions of this room that instruction sets have."""
from labels.structs cimport Labels, LabelsAxis, LabelsPart

cdef extern from "labels/table.h":
    ctypedef struct LabelTable "struct label_table":
        void (*labels_axis)(LabelsAxis *axis, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
        void (*label_pixels)(
            const Labels *job, const LabelsPart *part, void *memory) noexcept nogil
