"""Crop: boxes of frames, resized and normalised.

A task is a box, or some of its rows.  Blocks of CROP_ROWS rows are computed one after the other,
each in chunks of output columns whose pixels fit a strip.  rows.h has the sums.

Rows of YCbCr are converted for each strip.  Where boxes cover most of a frame, it is converted
before all tasks, and where they are not upright, what each of them reads, or the frame if that is
less.
"""
from cpython.buffer cimport PyBUF_STRIDED, PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from images.frames cimport (BYTE, CROP_AREAS, CROP_CHANNELS, CROP_COLUMNS, CROP_NEAREST, CROP_ROWS,
                            CROP_RUN, CROP_TRIANGLES, CROP_YUV, YUV_SPARE, Axis, Lines, Source,
                            Span, Strip, Sums, Target, Warp, Yuv, crop_axis_hull, crop_axis_limit,
                            crop_axis_set, crop_convert, crop_convert_rows, crop_pad_columns,
                            crop_scale_columns, crop_span_of, crop_store, crop_within,
                            sum_strip_columns_float, sum_strip_float, warp_hull, warp_pixels,
                            warp_samples, warp_set_ahead)
from threads cimport run_tasks
from tuning cimport (CROP_COLUMNS_AT_ONCE, CROP_CONVERTED, CROP_OVERLAP, CROP_SERIAL_NUMBERS,
                     CROP_STRIP, TASKS_PER_THREAD, WARP_COST)

cdef enum:
    GROUPS = CROP_COLUMNS_AT_ONCE // CROP_COLUMNS
    CONVERTED_ROWS = CROP_CONVERTED // (3 * (CROP_RUN + 2))   # of a strip of CROP_RUN pixels


cdef struct Call:
    Source *frames
    Py_ssize_t count               # of boxes
    const double *boxes            # [k][x1, y1, x2, y2], or matrices [k][9]
    bint warped                    # boxes are matrices
    const int32_t *images          # [k]; NULL where each box has a frame of its own
    const int32_t *content         # [k][top, left, bottom, right] of output pixels; or NULL
    const double *touched          # boxes beyond whose pixels nothing is read; or NULL
    char *out
    Py_ssize_t stride_k
    Target target                  # of the first box
    int height
    int width
    int rule                       # how output pixels weigh pixels: CROP_AREAS and so on
    bint repeats                   # the edges of frames, or of `touched`, go on
    bint planar                    # channels of frames are read one by one
    Yuv yuv                        # of frames of CROP_YUV
    int channels
    Py_ssize_t[4] place            # where in the output each channel of the frame goes
    float[4] scale
    float[4] bias
    float[4] pad
    Py_ssize_t blocks              # blocks of rows of a box
    Py_ssize_t parts               # tasks of a box


cdef struct Scratch:               # of one thread
    Span[CROP_COLUMNS_AT_ONCE] columns
    Span[CROP_ROWS] rows
    Span[CROP_ROWS] moved          # the same of converted rows
    float[CROP_ROWS] cover         # of the rows
    Py_ssize_t[GROUPS] low         # pixels that CROP_COLUMNS output columns read
    Py_ssize_t[GROUPS] stop
    float[(CROP_STRIP + CROP_CHANNELS * CROP_ROWS) * CROP_ROWS] strip
    float[CROP_CHANNELS * CROP_COLUMNS * CROP_ROWS] sums
    uint8_t[CROP_CONVERTED + YUV_SPARE] converted


cdef struct Work:                  # one box, and some rows and columns of it
    const Source *frame
    Axis y
    Axis x
    char *out
    bint padded
    Py_ssize_t converted           # rows of YCbCr that are converted for a strip
    int row
    int rows
    int column                     # the first of scratch.columns
    int columns


cdef inline const Source *frame_of(const Call *call, Py_ssize_t k) noexcept nogil:
    return call.frames + (k if call.images == NULL else call.images[k])


cdef inline Axis axis_of(
        const Call *call, Py_ssize_t k, bint along_x) noexcept nogil:
    cdef Axis axis
    cdef const double *box = call.boxes + 4 * k
    cdef const double *first
    cdef const Source *frame = frame_of(call, k)
    axis.bin_low, axis.bin_stop = 0, call.width if along_x else call.height
    axis.low, axis.stop = 0, frame.width if along_x else frame.height
    axis.repeats = call.repeats
    if call.content != NULL:
        axis.bin_low = call.content[4 * k + along_x]
        axis.bin_stop = call.content[4 * k + 2 + along_x]
    if call.touched != NULL:
        first = call.touched + 4 * k + (0 if along_x else 1)
        crop_axis_limit(&axis, first[0], first[2])
    crop_axis_set(&axis, box[0 if along_x else 1], box[2 if along_x else 3], call.rule)
    return axis


cdef inline void set_columns(Work *work, Scratch *scratch) noexcept nogil:
    """Spans of output columns, and the pixels that each group of them reads."""
    cdef int q, group
    cdef Span span
    for q in range(work.columns):
        group = q // CROP_COLUMNS
        span = crop_span_of(&work.x, work.column + q)
        scratch.columns[q] = span
        if q % CROP_COLUMNS == 0:
            scratch.low[group] = scratch.stop[group] = 0
        if span.high < span.low:
            continue
        if scratch.stop[group] == 0:
            scratch.low[group] = span.low
        scratch.low[group] = min(scratch.low[group], <Py_ssize_t>span.low)
        scratch.stop[group] = max(scratch.stop[group], <Py_ssize_t>span.high + 1)


cdef inline void set_rows(Work *work, Scratch *scratch) noexcept nogil:
    """Spans of output rows; fewer of these if they read too many rows of YCbCr."""
    cdef int p
    for p in range(CROP_ROWS):
        scratch.cover[p] = 0
        if p < work.rows:
            scratch.rows[p] = crop_span_of(&work.y, work.row + p)
            scratch.cover[p] = scratch.rows[p].cover
    work.converted = 0
    while work.frame.kind == CROP_YUV:
        work.converted = crop_convert_rows(
            work.frame, scratch.rows, work.rows, work.y.step < 0, 0, 0, NULL)
        if work.converted <= CONVERTED_ROWS:
            break
        work.rows //= 2            # never from 1: such frames are converted in advance


cdef inline void finish(
        const Call *call, const Work *work, Scratch *scratch, bint scaled, int first,
        int count) noexcept nogil:
    """Pad, scale and store the sums of `count` output columns; scaled: they are already."""
    cdef int c
    cdef Py_ssize_t step = call.channels if call.target.interleaved else 1
    cdef float *sums
    for c in range(call.channels):
        sums = scratch.sums + c * (CROP_ROWS if call.target.interleaved
                                   else CROP_ROWS * CROP_COLUMNS)
        if work.padded:
            crop_pad_columns(sums, step, scratch.columns + first, count, scratch.cover, call.pad[c])
        if not scaled:
            crop_scale_columns(sums, step, count, call.scale[c], call.bias[c])
    crop_store(
        scratch.sums, work.rows, count, work.out + work.row * call.target.stride_y
        + (work.column + first) * call.target.stride_x, &call.target)


cdef inline Lines lines_of(const Call *call, const Span *spans) noexcept nogil:
    cdef Lines lines
    memset(&lines, 0, sizeof(lines))
    lines.spans, lines.triangles = spans, call.rule == CROP_TRIANGLES
    return lines


cdef inline Sums sums_of(const Call *call, Scratch *scratch, bint scaled) noexcept nogil:
    """Where the sums of channels go; scaled: they are scaled as soon as they are summed."""
    cdef Sums sums
    cdef int c
    sums.sums, sums.first, sums.channels = scratch.sums, 0, call.channels
    sums.step = call.channels if call.target.interleaved else 1
    for c in range(call.channels):
        sums.scale[c] = call.scale[call.place[c]] if scaled else 1
        sums.bias[c] = call.bias[call.place[c]] if scaled else 0
        sums.place[c] = call.place[c] * (1 if call.target.interleaved else CROP_COLUMNS)
    return sums


cdef inline int groups_together(
        const Scratch *scratch, int group, int groups, Py_ssize_t room, Py_ssize_t *low,
        Py_ssize_t *stop) noexcept nogil:
    """Return where the groups of columns end whose pixels fit a strip together, from `group` on.

    low, stop: the pixels of these groups, or of `group` alone if even they do not fit.
    """
    cdef Py_ssize_t first, last
    low[0], stop[0] = scratch.low[group], scratch.stop[group]
    if stop[0] == 0 or stop[0] - low[0] > room:
        return group
    group += 1
    while group < groups and scratch.stop[group] > 0:
        first, last = min(low[0], scratch.low[group]), max(stop[0], scratch.stop[group])
        if last - first > room:
            break
        low[0], stop[0] = first, last
        group += 1
    return group


cdef inline Source dense_bytes(
        const Source *frame, const void *start, Py_ssize_t stride_y, Py_ssize_t y,
        Py_ssize_t x) noexcept nogil:
    """A converted frame.  Its pixel (y, x) lies at `start`."""
    cdef Source source = frame[0]
    source.kind, source.dense = BYTE, True
    source.stride_y, source.stride_x, source.stride_c = stride_y, 3, 1
    source.start = <const char*>start - y * stride_y - 3 * x
    return source


cdef inline Source convert_rows(
        const Work *work, Scratch *scratch, const Strip *strip) noexcept nogil:
    """Convert what the strip is summed of, and move spans to it."""
    cdef Py_ssize_t low = strip.low & ~<Py_ssize_t>1
    cdef Py_ssize_t stop = min((strip.stop + 1) & ~<Py_ssize_t>1, <Py_ssize_t>work.frame.width)
    memcpy(scratch.moved, scratch.rows, sizeof(scratch.rows))
    crop_convert_rows(
        work.frame, scratch.moved, work.rows, work.y.step < 0, low, stop, scratch.converted)
    return dense_bytes(work.frame, scratch.converted, 3 * (stop - low), 0, low)


cdef inline Py_ssize_t room_for(const Call *call, const Work *work) noexcept nogil:
    """Pixels of a row of a strip."""
    cdef Py_ssize_t room = CROP_STRIP // call.channels
    if work.converted == 0:
        return room
    return min(room, CROP_CONVERTED // (3 * work.converted) - 2)


cdef inline void fill_strip(
        const Call *call, const Work *work, Scratch *scratch, Strip *strip) noexcept nogil:
    """Sum the rows of the frame, as they are or converted, or of its channels one by one."""
    cdef Lines y = lines_of(call, scratch.rows)
    cdef Source plane = work.frame[0]
    cdef double rows = plane.height
    strip.channel = 0
    if work.frame.kind == CROP_YUV:
        plane = convert_rows(work, scratch, strip)
        y = lines_of(call, scratch.moved)
        sum_strip_float(&plane, &y, work.rows, strip)
        return
    # Rows of huge boxes are farther apart than any whole number can say.
    rows = crop_within(CROP_ROWS * work.y.step, -rows, rows)
    y.ahead = <Py_ssize_t>rows * plane.stride_y
    if not call.planar:
        sum_strip_float(work.frame, &y, work.rows, strip)
        return
    plane.channels, plane.dense = 1, True
    while strip.channel < call.channels:
        plane.start = work.frame.start + strip.channel * plane.stride_c
        sum_strip_float(&plane, &y, work.rows, strip)
        strip.channel += 1


cdef inline void crop_block(const Call *call, Work *work, Scratch *scratch) noexcept nogil:
    """A block of rows, in chunks of columns whose pixels a strip has room for.

    Where it has no room for the pixels of one group of columns, it gets them piece by piece.
    """
    cdef Strip strip
    cdef Sums sums
    cdef Lines x
    cdef int first, count, group = 0, stop_group
    cdef int groups = (work.columns + CROP_COLUMNS - 1) // CROP_COLUMNS
    cdef Py_ssize_t stop = 0, room = room_for(call, work)
    cdef bint scaled
    strip.sums, strip.channels = scratch.strip, call.channels
    while group < groups:
        stop_group = groups_together(scratch, group, groups, room, &strip.low, &stop)
        scaled = stop_group > group and not work.padded
        stop_group = max(stop_group, group + 1)
        sums = sums_of(call, scratch, scaled)
        strip.stop, strip.add = min(strip.low + room, stop), False
        if strip.low < stop:
            fill_strip(call, work, scratch, &strip)
        while group < stop_group:
            first = group * CROP_COLUMNS
            count = min(<int>CROP_COLUMNS, work.columns - first)
            x = lines_of(call, scratch.columns + first)
            sum_strip_columns_float(&strip, &x, count, &sums)
            while strip.stop < stop:
                strip.low, strip.stop = strip.stop, min(strip.stop + room, stop)
                strip.add = True
                fill_strip(call, work, scratch, &strip)
                sum_strip_columns_float(&strip, &x, count, &sums)
            finish(call, work, scratch, scaled, first, count)
            group += 1


cdef Warp warp_of(const Call *call, Py_ssize_t k) noexcept nogil:
    """How an output that a matrix places is sampled and stored."""
    cdef Warp warp
    cdef int c, place
    cdef const double *m = call.boxes + 9 * k
    for c in range(9):
        warp.m[c] = m[c]
    warp.low_p, warp.low_q = 0, 0
    warp.stop_p, warp.stop_q = call.height, call.width
    if call.content != NULL:
        warp.low_p, warp.low_q = call.content[4 * k], call.content[4 * k + 1]
        warp.stop_p, warp.stop_q = call.content[4 * k + 2], call.content[4 * k + 3]
    warp.nx = warp.ny = 1
    warp.nearest = call.rule == CROP_NEAREST
    if call.rule == CROP_AREAS:
        warp.nx = warp_samples(m, False, warp.stop_p, warp.stop_q)
        warp.ny = warp_samples(m, True, warp.stop_p, warp.stop_q)
    warp_set_ahead(&warp)
    for c in range(warp.nx):
        warp.at_x[c] = (c + 0.5) / warp.nx
    for c in range(warp.ny):
        warp.at_y[c] = (c + 0.5) / warp.ny
    warp.projective = m[6] != 0 or m[7] != 0 or m[8] != 1
    warp.repeats = call.repeats
    for c in range(CROP_CHANNELS):
        warp.scale[c] = warp.bias[c] = warp.pad[c] = 0
    for c in range(call.channels):
        place = <int>call.place[c]
        warp.scale[c] = call.scale[place] / <float>(warp.nx * warp.ny)
        warp.bias[c], warp.pad[c] = call.bias[place], call.pad[place]
    return warp


cdef void warp_task(
        const Call *call, Py_ssize_t k, int first_row, int stop_row) noexcept nogil:
    cdef Warp warp = warp_of(call, k)
    cdef const Source *frame = frame_of(call, k)
    cdef char *row = call.out + k * call.stride_k + first_row * call.target.stride_y
    cdef int p
    for p in range(first_row, stop_row):
        warp_pixels(frame, &warp, &call.target, call.place, p, 0, warp.low_q, row)
        warp_pixels(frame, &warp, &call.target, call.place, p, warp.low_q, warp.stop_q, row)
        warp_pixels(frame, &warp, &call.target, call.place, p, warp.stop_q, call.width, row)
        row += call.target.stride_y


cdef void crop_task(const void *given, Py_ssize_t task, char *memory) noexcept nogil:
    cdef const Call *call = <const Call*>given
    cdef Scratch *scratch = <Scratch*>memory
    cdef Work work
    cdef Py_ssize_t k = task // call.parts, part = task % call.parts
    cdef int first_row = <int>(call.blocks * part // call.parts) * CROP_ROWS
    cdef int stop_row = min(call.height, <int>(call.blocks * (part + 1) // call.parts) * CROP_ROWS)
    if call.warped:
        warp_task(call, k, first_row, stop_row)
        return
    work.frame = frame_of(call, k)
    work.y, work.x = axis_of(call, k, False), axis_of(call, k, True)
    work.out = call.out + k * call.stride_k
    work.padded = (call.content != NULL or not call.repeats
                   or work.frame.height == 0 or work.frame.width == 0)
    work.column = 0
    while work.column < call.width:
        work.columns = min(call.width - work.column, <int>CROP_COLUMNS_AT_ONCE)
        set_columns(&work, scratch)
        work.row = first_row
        while work.row < stop_row:
            work.rows = min(<int>CROP_ROWS, stop_row - work.row)
            set_rows(&work, scratch)
            crop_block(call, &work, scratch)
            work.row += work.rows
        work.column += CROP_COLUMNS_AT_ONCE


cdef struct Region:                # pixels of a frame of YCbCr that are converted in advance
    const Source *frame
    int32_t[2] low                 # y, x
    int32_t[2] stop
    uint8_t *to
    Py_ssize_t pitch


cdef struct Conversion:
    Region *regions
    Py_ssize_t parts               # tasks of a region


cdef void convert_task(const void *given, Py_ssize_t task, char *memory) noexcept nogil:
    cdef const Conversion *conversion = <const Conversion*>given
    cdef const Region *region = conversion.regions + task // conversion.parts
    cdef Py_ssize_t part = task % conversion.parts, rows = region.stop[0] - region.low[0]
    cdef Py_ssize_t y
    for y in range(rows * part // conversion.parts, rows * (part + 1) // conversion.parts):
        crop_convert(region.frame, region.low[0] + y, region.low[1],
                     region.stop[1] - region.low[1], region.to + y * region.pitch)


cdef inline double region_of(const Call *call, Py_ssize_t k, Region *region) noexcept nogil:
    """The pixels that a box reads; return how many it needs.

    They count as infinitely many if an output row reads more rows than a strip can.
    """
    cdef Axis axis
    cdef Warp warp
    cdef double y, x
    region.frame = frame_of(call, k)
    if region.frame.height == 0 or region.frame.width == 0:
        return 0
    if call.warped:
        warp = warp_of(call, k)
        warp_hull(&warp, region.frame, region.low, region.stop)
        y, x = region.stop[0] - region.low[0], region.stop[1] - region.low[1]
    else:
        axis = axis_of(call, k, False)
        y = crop_axis_hull(&axis, region.low, region.stop)
        if 2 * axis.half + 2 > CONVERTED_ROWS:
            y = INFINITY
        axis = axis_of(call, k, True)
        crop_axis_hull(&axis, region.low + 1, region.stop + 1)
        x = region.stop[1] - region.low[1]
    region.low[1] &= ~1
    return y * x


cdef inline void unite(Region *region, const Region *other) noexcept nogil:
    cdef int axis
    for axis in range(2):
        if region.frame == NULL or other.low[axis] < region.low[axis]:
            region.low[axis] = other.low[axis]
        if region.frame == NULL or other.stop[axis] > region.stop[axis]:
            region.stop[axis] = other.stop[axis]
    region.frame = other.frame


cdef int convert_regions(
        Call *call, Region *regions, Py_ssize_t count, int threads, void **memory) except -1:
    """Convert regions to frames of bytes, which the call then has instead of its own."""
    cdef Py_ssize_t i, size = 0
    cdef Conversion conversion
    cdef Source *frames
    cdef uint8_t *to
    for i in range(count):
        regions[i].pitch = 3 * (regions[i].stop[1] - regions[i].low[1]) + YUV_SPARE
        size += (regions[i].stop[0] - regions[i].low[0]) * regions[i].pitch
    size += count * sizeof(Source)
    memory[0] = malloc(size)
    if memory[0] == NULL:
        raise MemoryError(f"no {size} bytes for frames that are converted in advance")
    frames = <Source*>memory[0]
    to = <uint8_t*>(frames + count)
    for i in range(count):
        regions[i].to = to
        if regions[i].frame == NULL:     # no box is of this frame
            continue
        frames[i] = dense_bytes(
            regions[i].frame, to, regions[i].pitch, regions[i].low[0], regions[i].low[1])
        to += (regions[i].stop[0] - regions[i].low[0]) * regions[i].pitch
    conversion.regions = regions
    conversion.parts = (TASKS_PER_THREAD * threads + count - 1) // count if threads > 1 else 1
    run_tasks(&conversion, count * conversion.parts, threads, sizeof(Source), convert_task)
    call.frames = frames
    return 0


cdef int convert(Call *call, Py_ssize_t frames, int threads, void **memory) except -1:
    """Convert pixels of YCbCr in advance, where this costs less than to do it when they are read.

    A region is a frame as far as boxes read it, or what a box that is not upright reads.
    """
    cdef Region *regions = <Region*>calloc(frames + call.count, sizeof(Region))
    cdef Region *boxes = regions + frames
    cdef double cost = 0, together = 0
    cdef Py_ssize_t i
    if regions == NULL:
        raise MemoryError(f"no {(frames + call.count) * sizeof(Region)} bytes for regions")
    try:
        for i in range(call.count):
            cost += region_of(call, i, boxes + i)
            unite(regions + call.images[i], boxes + i)
        for i in range(frames):
            together += <double>(regions[i].stop[0] - regions[i].low[0]) * (
                regions[i].stop[1] - regions[i].low[1])
        if call.warped and cost < together:
            convert_regions(call, boxes, call.count, threads, memory)
            call.images = NULL
        elif call.warped or 100 * cost > CROP_OVERLAP * together:
            convert_regions(call, regions, frames, threads, memory)
    finally:
        free(regions)
    return 0


cdef int run(Call *call, int threads) except -1:
    """Carry out all tasks.  How boxes are divided changes no bit of the result."""
    cdef Py_ssize_t numbers = call.count * call.height * call.width * call.channels
    call.blocks = (call.height + CROP_ROWS - 1) // CROP_ROWS
    if numbers * (WARP_COST if call.warped else 1) < CROP_SERIAL_NUMBERS:
        threads = 1
    call.parts = 1
    if threads > 1 and call.count < TASKS_PER_THREAD * threads:
        call.parts = min(call.blocks, (TASKS_PER_THREAD * threads + call.count - 1) // call.count)
    return run_tasks(call, call.count * call.parts, threads, sizeof(Scratch), crop_task)


cdef class Buffers:
    """Buffers of arrays, which are released with the object."""

    cdef Py_buffer *items
    cdef Py_ssize_t count

    def __cinit__(self, Py_ssize_t room):
        self.items = <Py_buffer*>calloc(room, sizeof(Py_buffer))
        if self.items == NULL:
            raise MemoryError(f"no {room * sizeof(Py_buffer)} bytes for buffers")

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.count):
            PyBuffer_Release(self.items + i)
        free(self.items)

    cdef Py_buffer *take(self, array, int flags) except NULL:
        PyObject_GetBuffer(array, self.items + self.count, flags)
        self.count += 1
        return self.items + self.count - 1


cdef int set_yuv_frames(Call *call, Buffers buffers, given) except -1:
    """The frames of arrays (N, H, W) of Y, and smaller ones of U and V, which take turns."""
    cdef Py_ssize_t i = 0, n, j
    cdef int c
    cdef Py_buffer *view
    cdef Source *frame
    call.yuv.shared, call.yuv.wide, call.yuv.luma = given.yuv.shared, given.yuv.wide, given.yuv.luma
    for c in range(3):
        call.yuv.bias[c], call.yuv.from_u[c], call.yuv.from_v[c] = given.yuv.channels[c]
    for j, array in enumerate(given.arrays):
        view = buffers.take(array, PyBUF_STRIDES)
        for n in range(view.shape[0]):
            frame = call.frames + i + n
            if j % 3 > 0:
                frame.chroma[j % 3 - 1].start = <const char*>view.buf + n * view.strides[0]
                frame.chroma[j % 3 - 1].stride_y = view.strides[1]
                frame.chroma[j % 3 - 1].stride_x = view.strides[2]
                continue
            frame.start = <const char*>view.buf + n * view.strides[0]
            frame.height, frame.width = <int32_t>view.shape[1], <int32_t>view.shape[2]
            frame.stride_y, frame.stride_x = view.strides[1], view.strides[2]
            frame.channels, frame.kind, frame.yuv = 3, CROP_YUV, &call.yuv
        i += view.shape[0] if j % 3 == 2 else 0
    return 0


cdef int set_frames(Call *call, Buffers buffers, given) except -1:
    """The frames of arrays (N, H, W, C)."""
    cdef Py_ssize_t i = 0, n
    cdef int kind = ord(given.kind)
    cdef Py_buffer *view
    cdef Source *frame
    call.planar = given.planar
    if given.yuv is not None:
        return set_yuv_frames(call, buffers, given)
    for array in given.arrays:
        view = buffers.take(array, PyBUF_STRIDES)
        for n in range(view.shape[0]):
            frame = call.frames + i
            frame.start = <const char*>view.buf + n * view.strides[0]
            frame.height, frame.width = <int32_t>view.shape[1], <int32_t>view.shape[2]
            frame.stride_y, frame.stride_x = view.strides[1], view.strides[2]
            frame.stride_c, frame.channels = view.strides[3], call.channels
            frame.kind = kind
            frame.dense = (frame.stride_x == view.itemsize * call.channels
                           and (frame.stride_c == view.itemsize or call.channels == 1))
            i += 1
    return 0


cdef int set_boxes(Call *call, Buffers buffers, place) except -1:
    call.warped = place.values.shape[1] == 9
    call.boxes = <const double*>buffers.take(place.values, PyBUF_STRIDES).buf
    call.images = <const int32_t*>buffers.take(place.images, PyBUF_STRIDES).buf
    if place.content is not None:
        call.content = <const int32_t*>buffers.take(place.content, PyBUF_STRIDES).buf
    if place.touched is not None:
        call.touched = <const double*>buffers.take(place.touched, PyBUF_STRIDES).buf
    return 0


cdef int set_target(Call *call, const Py_buffer *out, int kind) except -1:
    """The array (K, h, w, C) to write to."""
    cdef Target *target = &call.target
    call.out, call.stride_k = <char*>out.buf, out.strides[0]
    call.count, call.height, call.width = out.shape[0], <int>out.shape[1], <int>out.shape[2]
    target.stride_y, target.stride_x = out.strides[1], out.strides[2]
    target.stride_c, target.channels = out.strides[3], <int>out.shape[3]
    target.kind, target.itemsize = kind, <int>out.itemsize
    target.interleaved = (target.channels > 1 and target.stride_c == out.itemsize
                          and target.stride_x == out.itemsize * target.channels)
    return 0


def crop(frames, place, pixels, options, out):
    """Resize boxes of frames.

    frames, pixels, options: as in roicy/cropping/arguments.py; place: as in
    roicy/cropping/matrices.py; out: (K, h, w, C), written to.
    """
    cdef Call call
    cdef Source *own
    cdef void *converted = NULL
    cdef Buffers buffers = Buffers(len(frames.arrays) + 5)
    cdef int c
    memset(&call, 0, sizeof(call))
    set_target(&call, buffers.take(out, PyBUF_STRIDED), ord(options.kind))
    call.channels = call.target.channels
    call.rule, call.repeats = options.rule, options.repeats
    call.target.zero, call.target.flip = options.zero, options.flip
    for c in range(call.channels):
        call.place[c] = pixels.place[c]
        call.scale[c], call.bias[c], call.pad[c] = pixels.scale[c], pixels.bias[c], pixels.pad[c]
    own = call.frames = <Source*>calloc(frames.count + 1, sizeof(Source))
    if own == NULL:
        raise MemoryError(f"no {frames.count * sizeof(Source)} bytes for frames")
    try:
        set_frames(&call, buffers, frames)
        set_boxes(&call, buffers, place)
        if call.count and frames.yuv is not None:
            convert(&call, frames.count, options.threads, &converted)
        if call.count and call.channels:
            run(&call, options.threads)
    finally:
        free(converted)
        free(own)
