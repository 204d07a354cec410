"""Labels of the pixels of pictures: which of some maps, enlarged to them, is the largest there.

A task is some rows of a picture.  All tasks of a call share where pixels lie among the numbers of
maps.
"""
from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from images.buffers cimport buffer_of, memory_of
from labels.structs cimport LABELS_PAD, Labels, LabelsAxis, LabelsPart, labels_scratch, \
    labels_set_tile
from roicy._kernels.isa cimport tables
from simd.table cimport Simd
from threads cimport run_tasks
from tuning cimport TASKS_PER_THREAD

cdef enum:
    SERIAL_NUMBERS = 200000        # read or written by one thread alone, 0.1 ms         # no record


cdef struct Job:
    const Simd *simd
    Labels call
    LabelsAxis[2] before
    Py_ssize_t parts               # tasks of an image


cdef void label_task(const void *given, Py_ssize_t task, char *memory) noexcept nogil:
    cdef const Job *job = <const Job*>given
    cdef Py_ssize_t segments = job.call.y.segments, k = task % job.parts
    cdef LabelsPart part
    part.image = task // job.parts
    part.first, part.stop = segments * k // job.parts, segments * (k + 1) // job.parts
    job.simd.label_rows(&job.call, &part, memory)


cdef int set_axis(const Simd *simd, LabelsAxis *axis, list kept, given, Py_ssize_t size) except -1:
    """Find where the pixels of an axis lie.  given: (first, extent, pixels, rule)."""
    cdef double first = given[0], extent = given[1]
    cdef int rule = given[3]
    axis.pixels = given[2]
    axis.low_weight = memory_of(kept, (axis.pixels + LABELS_PAD) * size, False)
    axis.high_weight = memory_of(kept, (axis.pixels + LABELS_PAD) * size, False)
    axis.at = <int32_t*>memory_of(kept, axis.pixels * sizeof(int32_t), False)
    axis.start = <int32_t*>memory_of(kept, (axis.pixels + 1) * sizeof(int32_t), False)
    with nogil:
        simd.labels_axis(axis, first, extent, rule)
    return 0


cdef int set_maps(Labels *call, list kept, maps, Py_ssize_t kind) except -1:
    cdef Py_buffer *view = buffer_of(kept, maps)
    call.maps, call.kind, call.classes = <const char*>view.buf, kind, view.shape[1]
    call.image, call.class_step, call.row, call.column = (
        view.strides[0], view.strides[1], view.strides[2], view.strides[3])
    return 0


def compute(maps, kind, axes, rule, out, values, int threads):
    """Label pictures.

    maps: (N, C, h, w), of any strides, with types of two bytes as uint16; kind: NumPy's character
    of their type; axes: y and x, and those of an enlargement before or none: (first, extent,
    pixels, rule); rule: names (C + 1) of int64, whether there is a threshold, the threshold,
    nearest; out: (N, H, W), integers of any strides; values: (N, H, W) in the order of C, or None.
    """
    cdef list kept = []
    cdef Job job
    cdef Labels *call = &job.call
    cdef Py_ssize_t size = sizeof(double) if kind == "d" else sizeof(float), images
    cdef Py_buffer *view = buffer_of(kept, out)
    memset(&job, 0, sizeof(job))
    job.simd = tables + (size == sizeof(double))
    set_maps(call, kept, maps, ord(kind))
    call.names = <const int64_t*>buffer_of(kept, rule[0]).buf
    call.bounded, call.threshold, call.nearest = rule[1:]
    images, call.out, call.itemsize = view.shape[0], <char*>view.buf, view.itemsize
    call.out_image, call.out_row, call.out_column = (
        view.strides[0], view.strides[1], view.strides[2])
    if values is not None:
        call.values = buffer_of(kept, values).buf
    set_axis(job.simd, &call.y, kept, axes[0], size)
    set_axis(job.simd, &call.x, kept, axes[1], size)
    if len(axes) > 2:
        set_axis(job.simd, job.before, kept, axes[2], size)
        set_axis(job.simd, job.before + 1, kept, axes[3], size)
        call.before = job.before
    labels_set_tile(call, size)
    cost = images * (view.shape[1] * view.shape[2]
                     + call.classes * call.y.segments * call.x.segments)
    threads = threads if cost > SERIAL_NUMBERS else 1
    job.parts = min(max(TASKS_PER_THREAD * threads // images, 1), call.y.segments)
    job.parts = job.parts if threads > 1 else 1
    run_tasks(&job, images * job.parts, <int>min(<Py_ssize_t>threads, images * job.parts),
              labels_scratch(call, size), label_task)
