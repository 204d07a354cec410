"""Labels of the pixels of pictures: which of some maps, enlarged to them, is the largest there.

A task is some rows of a picture.  All tasks of a call share where pixels lie among the numbers of
maps.
"""
from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from images.buffers cimport buffer_of, memory_of
from images.structs cimport Runs
from labels.structs cimport (LABELS_PAD, LABELS_TOGETHER, Codes, Labels, LabelsAxis, LabelsPart,
                             Region, codes_make, labels_scratch, labels_set_tile,
                             regions_add_rows, regions_join)
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
    Py_ssize_t regions             # labels that are counted, from 0 on
    Region *counted                # [task][label]; then the first of an image has all of it
    int32_t *place                 # [image][label]: of those that an image has
    int32_t *count                 # [image]: how many labels it has
    Runs *runs                     # [image][label that it has], as many as an image has at most
    int64_t *ends
    Py_ssize_t most


cdef void label_task(const void *given, Py_ssize_t task, char *memory) noexcept nogil:
    cdef const Job *job = <const Job*>given
    cdef Py_ssize_t segments = job.call.y.segments, k = task % job.parts
    cdef LabelsPart part
    part.image = task // job.parts
    part.first, part.stop = segments * k // job.parts, segments * (k + 1) // job.parts
    job.simd.label_rows(&job.call, &part, memory)
    if job.counted != NULL:
        regions_add_rows(&job.call, part.image, job.call.y.start[part.first],
                         job.call.y.start[part.stop], job.counted + task * job.regions)


cdef void code_task(const void *given, Py_ssize_t image, char *memory) noexcept nogil:
    cdef const Job *job = <const Job*>given
    cdef Codes codes
    codes.place = job.place + image * job.regions
    codes.runs, codes.ends = job.runs + image * job.most, job.ends + image * job.most
    codes.rows = <int32_t*>memory
    codes_make(&job.call, image, job.count[image], &codes)


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


cdef int join_regions(Job *job, list kept, Py_ssize_t images) except -1:
    """Join the regions of the tasks of each image, and count those that it has."""
    cdef Py_ssize_t image, part, label
    cdef Region *whole
    job.place = <int32_t*>memory_of(kept, images * job.regions * sizeof(int32_t), False)
    job.count = <int32_t*>memory_of(kept, images * sizeof(int32_t), True)
    for image in range(images):
        whole = job.counted + image * job.parts * job.regions
        for label in range(job.regions):
            for part in range(1, job.parts):
                regions_join(whole + label, whole + part * job.regions + label)
            job.place[image * job.regions + label] = job.count[image]
            job.count[image] += whole[label].area > 0
        job.most = max(job.most, job.count[image])
    return 0


cdef list made_regions(const Job *job, Py_ssize_t image):
    """Return (label, area, x0, y0, x1, y1, code or None) of the labels of an image."""
    cdef list found = []
    cdef const Region *region
    cdef const Runs *runs
    cdef Py_ssize_t label
    for label in range(job.regions):
        region = job.counted + image * job.parts * job.regions + label
        if region.area:
            code = None
            if job.runs != NULL:
                runs = job.runs + image * job.most + job.place[image * job.regions + label]
                if runs.lacks_memory:
                    raise MemoryError(f"no memory for the run-length code of label {label}")
                code = runs.text[:runs.used]
            found.append((label, region.area, region.x0, region.y0, region.x1, region.y1, code))
    return found


cdef list regions_of(Job *job, list kept, Py_ssize_t images, bint coded, int threads):
    """Return the regions of each image."""
    cdef Py_ssize_t i
    cdef Runs *runs = NULL
    join_regions(job, kept, images)
    try:
        if coded:
            runs = <Runs*>memory_of(kept, images * job.most * sizeof(Runs), True)
            job.runs = runs
            job.ends = <int64_t*>memory_of(kept, images * job.most * sizeof(int64_t), True)
            run_tasks(job, images, <int>min(<Py_ssize_t>threads, images),
                      LABELS_TOGETHER * job.call.y.pixels * sizeof(int32_t), code_task)
        return [made_regions(job, i) for i in range(images)]
    finally:
        if runs != NULL:
            for i in range(images * job.most):
                free(runs[i].text)


cdef int set_call(Job *job, list kept, axes, rule, outs) except -1:
    """Say what a call computes, of maps that are set."""
    cdef Labels *call = &job.call
    cdef Py_ssize_t size = sizeof(double) if call.kind == c"d" else sizeof(float)
    cdef Py_buffer *view = buffer_of(kept, outs[0])
    job.simd = tables + (size == sizeof(double))
    call.names = <const int64_t*>buffer_of(kept, rule[0]).buf
    call.bounded, call.threshold, call.nearest = rule[1:]
    call.out, call.itemsize = <char*>view.buf, view.itemsize
    call.out_image, call.out_row, call.out_column = (
        view.strides[0], view.strides[1], view.strides[2])
    if outs[1] is not None:
        call.values = buffer_of(kept, outs[1]).buf
    set_axis(job.simd, &call.y, kept, axes[0], size)
    set_axis(job.simd, &call.x, kept, axes[1], size)
    if len(axes) > 2:
        set_axis(job.simd, job.before, kept, axes[2], size)
        set_axis(job.simd, job.before + 1, kept, axes[3], size)
        call.before = job.before
    labels_set_tile(call, size)
    return <int>size


def compute(maps, kind, axes, rule, outs, regions, int threads):
    """Label pictures, and return the regions of each, or None.

    maps: (N, C, h, w), of any strides, with types of two bytes as uint16; kind: NumPy's character
    of their type; axes: y and x, and those of an enlargement before or none: (first, extent,
    pixels, rule); rule: names (C + 1) of int64, whether there is a threshold, the threshold,
    nearest; outs: (N, H, W), integers of any strides, and values (N, H, W) in the order of C, or
    None; regions: (labels that there are, from 0 on, whether they are coded), or None.
    """
    cdef list kept = []
    cdef Job job
    cdef Labels *call = &job.call
    cdef Py_ssize_t size, images = maps.shape[0]
    memset(&job, 0, sizeof(job))
    set_maps(call, kept, maps, ord(kind))
    size = set_call(&job, kept, axes, rule, outs)
    cost = images * (call.y.pixels * call.x.pixels
                     + call.classes * call.y.segments * call.x.segments)
    threads = threads if cost > SERIAL_NUMBERS else 1
    job.parts = min(max(TASKS_PER_THREAD * threads // images, 1), call.y.segments)
    job.parts = job.parts if threads > 1 else 1
    if regions is not None:
        job.regions = regions[0]
        job.counted = <Region*>memory_of(
            kept, images * job.parts * job.regions * sizeof(Region), True)
    run_tasks(&job, images * job.parts, <int>min(<Py_ssize_t>threads, images * job.parts),
              labels_scratch(call, size), label_task)
    if regions is not None:
        return regions_of(&job, kept, images, regions[1], threads)
