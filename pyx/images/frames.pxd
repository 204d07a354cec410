"""Frames of arrays, and those of YCbCr that are converted before anything else reads them."""
from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy

from images.buffers cimport buffer_of, memory_of
from images.structs cimport BYTE, YUV_SPARE, Frame, ImageTable, Plane, Yuv
from simd.structs cimport Source
from threads cimport Team, let_others, nanoseconds, run_tasks
from tuning cimport TASKS_PER_THREAD

cdef enum:
    CROP_SERIAL_NUMBERS = 262144   # numbers of a result for one thread alone: BRIEF    # no record
    CROP_TASK_NUMBERS = 1 << 26    # of a task at most, times their cost: 0.2 s         # no record


cdef inline Source dense_bytes(
        const Source *pixels, const void *start, Py_ssize_t stride_y, Py_ssize_t y,
        Py_ssize_t x) noexcept nogil:
    """Converted pixels.  Pixel (y, x) lies at `start`."""
    cdef Source source = pixels[0]
    source.kind, source.dense = BYTE, True
    source.stride_y, source.stride_x, source.stride_c = stride_y, 3, 1
    source.start = <const char*>start - y * stride_y - 3 * x
    return source


cdef inline Frame *frames_of(list kept, given, Yuv *yuv) except NULL:
    """The frames of arrays (N, H, W, C); or (N, H, W) of Y, of U and of V, which take turns.

    given: as in roicy/cropping/arguments.py; yuv: set for frames of YCbCr, which keep it.
    """
    cdef Py_ssize_t i = 0, n
    cdef int j, c, kind = ord(given.kind), planes = 3 if given.yuv else 1, size = 1
    cdef Py_buffer *view
    cdef Frame *frames = <Frame*>memory_of(kept, given.count * sizeof(Frame), True)
    cdef Frame *frame
    cdef Source *pixels
    cdef Plane plane
    cdef long long since = nanoseconds()
    if given.yuv:
        (yuv.shared, yuv.wide, yuv.own_chroma, yuv.rgb565, yuv.luma, channels) = given.yuv
        for c in range(3):
            yuv.bias[c], yuv.from_u[c], yuv.from_v[c] = channels[c]
        size = 2 if yuv.wide or yuv.rgb565 else 1
    elif kind != BYTE:
        size = 4 if kind == c'f' else 2
    for j, array in enumerate(given.arrays):
        let_others(j, &since)
        view = buffer_of(kept, array, b"BHf", size)
        for n in range(view.shape[0]):
            frame = frames + i + n
            plane.start = <const char*>view.buf + n * view.strides[0]
            plane.stride_y, plane.stride_x = view.strides[1], view.strides[2]
            if j % planes > 0:
                plane.stride_x <<= yuv.own_chroma
                frame.chroma[j % planes - 1] = plane
                continue
            pixels = &frame.pixels
            pixels.start = plane.start
            pixels.stride_y, pixels.stride_x = plane.stride_y, plane.stride_x
            frame.height = frame.stop[0] = <int32_t>view.shape[1]
            frame.width = frame.stop[1] = <int32_t>view.shape[2]
            pixels.channels, pixels.kind, frame.yuv = given.channels, kind, yuv
            if planes == 1:
                pixels.stride_c = view.strides[3]
                pixels.dense = (pixels.stride_x == view.itemsize * pixels.channels
                                and (pixels.stride_c == view.itemsize or pixels.channels == 1))
        if j % planes == planes - 1:
            i += view.shape[0]
    return frames


cdef struct Region:                # pixels of a frame of YCbCr that are converted in advance
    const Frame *frame             # NULL if there are none
    int32_t[2] low                 # y, x
    int32_t[2] stop


cdef struct Conversion:
    const ImageTable *table
    const Region *regions
    Frame *converted               # a frame of bytes for each region
    Py_ssize_t regions_count       # 0: nothing is converted in advance
    Py_ssize_t parts               # tasks of a region
    int threads


cdef inline void convert_task(const void *given, Py_ssize_t task, char *memory) noexcept nogil:
    cdef const Conversion *conversion = <const Conversion*>given
    cdef const Region *region = conversion.regions + task // conversion.parts
    cdef const Source *to = &conversion.converted[task // conversion.parts].pixels
    cdef Py_ssize_t part = task % conversion.parts, rows = region.stop[0] - region.low[0], y
    for y in range(region.low[0] + rows * part // conversion.parts,
                   region.low[0] + rows * (part + 1) // conversion.parts):
        conversion.table.crop_convert(
            region.frame, y, region.low[1], region.stop[1] - region.low[1],
            <uint8_t*>to.start + y * to.stride_y + region.low[1] * to.stride_x)


cdef inline void unite(Region *region, const Region *other) noexcept nogil:
    cdef int axis
    for axis in range(2):
        if region.frame == NULL or other.low[axis] < region.low[axis]:
            region.low[axis] = other.low[axis]
        region.stop[axis] = max(region.stop[axis], other.stop[axis])
    region.frame = other.frame


cdef inline Py_ssize_t stride_of(const Region *region) noexcept nogil:
    """Bytes of a converted row."""
    return 3 * (region.stop[1] - region.low[1]) + YUV_SPARE


cdef inline const Frame *convert_regions(
        Conversion *conversion, const Region *regions, Py_ssize_t count, int threads,
        list kept) except NULL:
    """Plan to convert regions of YCbCr; return the frames that they become."""
    cdef Py_ssize_t i, size = 0
    cdef Frame *frames = <Frame*>memory_of(kept, count * sizeof(Frame), False)
    cdef char *to
    for i in range(count):
        size += (regions[i].stop[0] - regions[i].low[0]) * stride_of(regions + i)
    to = memory_of(kept, size, False)
    for i in range(count):
        if regions[i].frame != NULL:
            frames[i] = regions[i].frame[0]
            frames[i].pixels = dense_bytes(
                &frames[i].pixels, to, stride_of(regions + i), regions[i].low[0], regions[i].low[1])
            memcpy(frames[i].low, regions[i].low, sizeof(regions[i].low))
            memcpy(frames[i].stop, regions[i].stop, sizeof(regions[i].stop))
            to += (regions[i].stop[0] - regions[i].low[0]) * stride_of(regions + i)
    conversion.regions, conversion.converted, conversion.regions_count = regions, frames, count
    conversion.threads = threads
    conversion.parts = max((TASKS_PER_THREAD * threads + count - 1) // count
                           if threads > 1 else 1, size // CROP_TASK_NUMBERS + 1)
    return frames


cdef inline int run_conversion(const Conversion *conversion, Team *team) noexcept nogil:
    """Convert what is converted in advance, if anything is."""
    if conversion.regions_count == 0:
        return 0
    return run_tasks(conversion, conversion.regions_count * conversion.parts, conversion.threads,
                     sizeof(Frame), convert_task, team)
