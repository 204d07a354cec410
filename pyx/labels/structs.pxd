"""What structs.h offers to Cython; it says what it is."""
from libc.stdint cimport int32_t, int64_t

from images.structs cimport Runs

cdef extern from "labels/structs.h":
    enum:
        HALF_PIXELS
        ALIGNED
        NEAREST
        ONNX_HALF_PIXELS
        ONNX_ALIGNED
        ONNX_ASYMMETRIC

    enum:
        LABELS_PAD

    ctypedef struct LabelsAxis "struct labels_axis":
        Py_ssize_t pixels
        double first, extent
        int rule
        double scale
        int nearest
        int32_t low, last
        bint single
        int32_t *at
        int32_t *begin
        void *low_weight
        void *high_weight

    ctypedef struct Labels "struct labels":
        const char *maps
        Py_ssize_t image, class_stride, row, column
        int kind
        double scale, zero
        Py_ssize_t classes
        LabelsAxis y, x
        const LabelsAxis *before
        bint mixed
        Py_ssize_t beside
        double[2] slice_weights
        const void *weights
        const int64_t *names
        bint bounded
        double threshold
        bint onnx
        double quantum, least, most
        bint transparent
        double *sums
        char *out
        Py_ssize_t out_image, out_row, out_column
        int itemsize
        void *values

    ctypedef struct LabelsPart "struct labels_part":
        Py_ssize_t image, y0, y1, x0, x1

    void labels_set_tile(Labels *job, Py_ssize_t size) noexcept nogil
    Py_ssize_t labels_scratch(const Labels *job, Py_ssize_t size) noexcept nogil

    ctypedef struct LabelTable "struct label_table":
        void (*labels_axis)(LabelsAxis *axis, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
        void (*label_pixels)(
            const Labels *job, const LabelsPart *part, void *memory) noexcept nogil


cdef extern from "labels/regions.h":
    ctypedef struct Region "struct labels_region":
        int64_t area, x0, y0, x1, y1

    ctypedef struct Codes "struct labels_codes":
        int32_t count
        Runs *runs
        int64_t *ends
        int32_t *rows
        bint masks
        Region *regions

    enum:
        LABELS_TOGETHER            # bytes of a row that are compared at once

    void regions_add_rows(
        const Labels *job, const LabelsPart *part, Region *regions) noexcept nogil
    void regions_join(Region *to, const Region *below) noexcept nogil
    void codes_add(
        const Labels *job, const LabelsPart *part, const Codes *codes) noexcept nogil
