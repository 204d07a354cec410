"""Crop: boxes of frames, resized and normalised.

A task is a box, or some of its rows.  Blocks of CROP_ROWS rows are computed one after the other,
each in chunks of output columns whose pixels fit a strip.  simd/rows.h has the sums.

Rows of YCbCr are converted for each strip.  Where boxes cover most of a frame, it is converted
before all tasks, and where they are not upright, what each of them reads, or the frame if that is
less.
"""
from cpython.buffer cimport Py_buffer
from libc.math cimport INFINITY, fabs
from libc.stdint cimport INT32_MAX, int32_t, uint8_t
from libc.string cimport memset

from images.buffers cimport buffer_of, memory_of
from images.frames cimport (CROP_SERIAL_NUMBERS, CROP_TASK_NUMBERS, Conversion, Region,
                            convert_regions, dense_bytes, frames_of, run_conversion, unite)
from images.structs cimport (CROP_CHANNELS, CROP_COLUMNS, CROP_ROWS, CROP_TRIANGLES, CROP_YUV,
                             WARP_SAMPLES, YUV_SPARE, Axis, CropPixels, CropTarget, Frame,
                             ImageTable, Warp, Yuv, crop_axis_hull, crop_axis_limit, crop_axis_set,
                             crop_within)
from roicy._kernels.isa cimport isa_tables
from simd.structs cimport ASSERT, ROWS_RUN, Interval, Lines, Source, Strip, Sums
from simd.table cimport Simd
from threads cimport BRIEF, Team, run_call, run_tasks
from tuning cimport TASKS_PER_THREAD

cdef enum:
    CROP_STRIP = 384               # numbers of summed rows, 16 output rows each: 24 KB # no record
    CROP_COLUMNS_AT_ONCE = 768     # output columns whose spans are made: bounds memory # no record
    CROP_CONVERTED = 65536         # bytes of converted rows that a strip is summed of  # no record
    CROP_OVERLAP = 75              # percent of a frame in boxes, to convert it at first # R403
    WARP_COST = 3                  # cost of a number of a turned crop; upright: 1      # no record

cdef enum:
    GROUPS = CROP_COLUMNS_AT_ONCE // CROP_COLUMNS
    CONVERTED_ROWS = CROP_CONVERTED // (3 * (ROWS_RUN + 2))   # of a strip of ROWS_RUN pixels


cdef struct CropJob:
    const ImageTable *table
    const Simd *simd
    const Frame *frames
    Py_ssize_t count               # of boxes
    const double *boxes            # [k][x1, y1, x2, y2], or matrices [k][9]
    bint warped                    # boxes are matrices
    const int32_t *images          # [k]; NULL where each box has a frame of its own
    const int32_t *content         # [k][top, left, bottom, right] of output pixels; or NULL
    const double *touched          # boxes beyond whose pixels nothing is read; or NULL
    char *out
    Py_ssize_t stride_k
    CropTarget target              # of the first box
    int height
    int width
    int32_t[4] whole               # 0, 0, height, width
    int rule                       # how output pixels weigh pixels: CROP_AREAS and so on
    bint repeats                   # the edges of frames, or of `touched`, go on
    bint planar                    # channels of frames are read one by one
    Yuv yuv                        # of frames of CROP_YUV
    CropPixels pixels              # what is done to them
    Py_ssize_t blocks              # blocks of rows of a box
    Py_ssize_t parts               # tasks of a box
    int threads                    # of the call
    int threads_of_boxes           # 1 where the result is small


cdef struct Scratch:               # of one thread
    Interval[CROP_COLUMNS_AT_ONCE] columns
    Interval[CROP_ROWS] rows
    Py_ssize_t[GROUPS] low         # pixels that CROP_COLUMNS output columns read
    Py_ssize_t[GROUPS] stop
    float[(CROP_STRIP + CROP_CHANNELS * CROP_ROWS) * CROP_ROWS] strip
    float[CROP_CHANNELS * CROP_COLUMNS * CROP_ROWS] sums
    uint8_t[CROP_CONVERTED + YUV_SPARE] converted


cdef struct Work:                  # one box, and some rows and columns of it
    const Frame *frame
    Axis y
    Axis x
    char *out
    bint padded
    int32_t low                    # the rows of the frame between which a block reads
    int32_t stop
    int row
    int rows
    int column                     # the first of scratch.columns
    int columns


cdef inline const Frame *frame_of(const CropJob *job, Py_ssize_t k) noexcept nogil:
    return job.frames + (k if job.images == NULL else job.images[k])


cdef inline const int32_t *content_of(const CropJob *job, Py_ssize_t k) noexcept nogil:
    """Top, left, bottom and right of the output pixels that show a box."""
    return <const int32_t*>job.whole if job.content == NULL else job.content + 4 * k


cdef inline Axis axis_of(const CropJob *job, Py_ssize_t k, bint along_x) noexcept nogil:
    cdef Axis axis
    cdef int low = 0 if along_x else 1      # where it is among the edges of a box
    cdef const double *box = job.boxes + 4 * k + low
    cdef const int32_t *content = content_of(job, k) + along_x
    cdef const Frame *frame = frame_of(job, k)
    axis.bin_low, axis.bin_stop = content[0], content[2]
    axis.low, axis.stop = 0, frame.width if along_x else frame.height
    axis.repeats = job.repeats
    if job.touched != NULL:
        crop_axis_limit(&axis, job.touched[4 * k + low], job.touched[4 * k + low + 2])
    crop_axis_set(&axis, box[0], box[2], job.rule)
    return axis


cdef inline void set_columns(const CropJob *job, Work *work, Scratch *scratch) noexcept nogil:
    """Spans of output columns, and the pixels that each group of them reads."""
    cdef int q, group
    cdef Interval interval
    job.table.crop_intervals(&work.x, work.column, work.columns, scratch.columns)
    for q in range(work.columns):
        group = q // CROP_COLUMNS
        interval = scratch.columns[q]
        if q % CROP_COLUMNS == 0:
            scratch.low[group], scratch.stop[group] = INT32_MAX, 0
        if interval.low <= interval.high:
            ASSERT(work.frame.low[1] <= interval.low and interval.high < work.frame.stop[1])
            scratch.low[group] = min(scratch.low[group], <Py_ssize_t>interval.low)
            scratch.stop[group] = max(scratch.stop[group], <Py_ssize_t>interval.high + 1)


cdef inline void set_rows(const CropJob *job, Work *work, Scratch *scratch) noexcept nogil:
    """Spans of output rows; fewer of these if together they read too many rows of YCbCr.

    One alone does not, since such frames are converted in advance.
    """
    cdef int p
    cdef int32_t low, stop
    cdef Interval interval
    work.low, work.stop = INT32_MAX, 0
    memset(scratch.rows, 0, sizeof(scratch.rows))
    job.table.crop_intervals(&work.y, work.row, work.rows, scratch.rows)
    for p in range(work.rows):
        interval = scratch.rows[p]
        low, stop = min(work.low, interval.low), max(work.stop, interval.high + 1)
        if work.frame.pixels.kind == CROP_YUV and p > 0 and stop - low > CONVERTED_ROWS:
            work.rows = p
            memset(scratch.rows + p, 0, (CROP_ROWS - p) * sizeof(Interval))
            break
        if interval.low <= interval.high:
            ASSERT(work.frame.low[0] <= interval.low and interval.high < work.frame.stop[0])
            work.low, work.stop = low, stop


cdef inline Lines lines_of(const CropJob *job, const Interval *intervals) noexcept nogil:
    cdef Lines lines
    memset(&lines, 0, sizeof(lines))
    lines.intervals, lines.triangles = intervals, job.rule == CROP_TRIANGLES
    return lines


cdef inline Sums sums_of(const CropJob *job, Scratch *scratch, bint scaled) noexcept nogil:
    """Where the sums of channels go; scaled: they are scaled as soon as they are summed."""
    cdef Sums sums
    cdef const CropPixels *pixels = &job.pixels
    cdef int c
    sums.sums, sums.first, sums.channels = scratch.sums, 0, pixels.channels
    sums.stride = pixels.channels if job.target.interleaved else 1
    for c in range(pixels.channels):
        sums.scale[c] = pixels.scale[c] if scaled else 1
        sums.bias[c] = pixels.bias[c] if scaled else 0
        sums.place[c] = pixels.place[c] * (1 if job.target.interleaved else CROP_COLUMNS)
    return sums


cdef inline int groups_together(
        const Scratch *scratch, int group, int groups, Py_ssize_t room, Py_ssize_t *low,
        Py_ssize_t *stop) noexcept nogil:
    """Return where the groups of columns end whose pixels fit a strip together, from `group` on.

    low, stop: the pixels of these groups, or of `group` alone if even they do not fit.
    """
    cdef Py_ssize_t first, last
    low[0], stop[0] = scratch.low[group], scratch.stop[group]
    group += 1
    while group < groups:
        first, last = min(low[0], scratch.low[group]), max(stop[0], scratch.stop[group])
        if last - first > room:
            break
        low[0], stop[0] = first, last
        group += 1
    return group


cdef inline Source convert_rows(
        const CropJob *job, const Work *work, Scratch *scratch, const Strip *strip) noexcept nogil:
    """Convert the rows that the strip is summed of, each once."""
    cdef Py_ssize_t low = strip.low & ~<Py_ssize_t>1, y = 0
    cdef Py_ssize_t stop = min((strip.stop + 1) & ~<Py_ssize_t>1, <Py_ssize_t>work.frame.width)
    cdef Py_ssize_t stride = 3 * (stop - low)
    cdef const Interval *interval
    cdef int p
    ASSERT((work.stop - work.low) * stride <= CROP_CONVERTED)
    for p in range(work.rows):
        interval = scratch.rows + (work.rows - 1 - p if work.y.bin_size < 0 else p)
        y = max(y, <Py_ssize_t>interval.low)
        while y <= interval.high:
            job.table.crop_convert(work.frame, y, low, stop - low,
                                   scratch.converted + (y - work.low) * stride)
            y += 1
    return dense_bytes(&work.frame.pixels, scratch.converted, stride, work.low, low)


cdef inline Py_ssize_t room_for(const CropJob *job, const Work *work) noexcept nogil:
    """Pixels of a row of a strip."""
    cdef Py_ssize_t room = CROP_STRIP // job.pixels.channels
    if work.frame.pixels.kind != CROP_YUV or work.low >= work.stop:
        return room
    return min(room, CROP_CONVERTED // (3 * (work.stop - work.low)) - 2)


cdef inline void fill_strip(
        const CropJob *job, const Work *work, Scratch *scratch, Strip *strip) noexcept nogil:
    """Sum the rows of the frame, as they are or converted, or of its channels one by one."""
    cdef Lines y = lines_of(job, scratch.rows)
    cdef Source source = work.frame.pixels
    cdef double rows = work.frame.height
    if source.kind == CROP_YUV:
        source = convert_rows(job, work, scratch, strip)
    else:
        # Rows of huge boxes are farther apart than any whole number can say.
        rows = crop_within(CROP_ROWS * work.y.bin_size, -rows, rows)
        y.ahead = <Py_ssize_t>rows * source.stride_y
    if job.planar:
        source.channels, source.dense = 1, True
    strip.channel = 0
    while strip.channel < strip.channels:
        job.simd.sum_strip(&source, &y, work.rows, strip)
        source.start += source.stride_c
        strip.channel += source.channels


cdef inline void crop_columns(
        const CropJob *job, const Work *work, Scratch *scratch, const Strip *strip,
        const Sums *sums, int group, bint scaled, bint last) noexcept nogil:
    """Sum a group of columns; store them if the strip is the last that they read."""
    cdef int first = group * CROP_COLUMNS, count = min(<int>CROP_COLUMNS, work.columns - first)
    cdef const Interval *intervals = scratch.columns + first
    cdef Lines x = lines_of(job, intervals)
    job.simd.sum_strip_columns(strip, &x, count, sums)
    if not last:
        return
    if not scaled:
        job.table.crop_complete(sums, count, intervals, scratch.rows if work.padded else NULL,
                                &job.pixels)
    job.table.crop_store(scratch.sums, work.rows, count,
                         work.out + work.row * job.target.stride_y
                         + (work.column + first) * job.target.stride_x, &job.target)


cdef inline void crop_block(const CropJob *job, Work *work, Scratch *scratch) noexcept nogil:
    """A block of rows, in chunks of columns whose pixels a strip has room for.

    Where it has no room for the pixels of one group of columns, it gets them piece by piece.
    """
    cdef Strip strip
    cdef Sums sums
    cdef int first, q, group = 0, groups = (work.columns + CROP_COLUMNS - 1) // CROP_COLUMNS
    cdef Py_ssize_t low = 0, stop = 0, piece, room = room_for(job, work)
    cdef bint scaled
    strip.sums, strip.channels = scratch.strip, job.pixels.channels
    while group < groups:
        first = group
        group = groups_together(scratch, group, groups, room, &low, &stop)
        scaled = stop - low <= room and not work.padded
        sums = sums_of(job, scratch, scaled)
        for piece in range(max((stop - low + room - 1) // room, <Py_ssize_t>1)):
            strip.low, strip.add = low + piece * room, piece > 0
            strip.stop = min(strip.low + room, stop)
            if strip.low < strip.stop:
                fill_strip(job, work, scratch, &strip)
            for q in range(first, group):
                crop_columns(
                    job, work, scratch, &strip, &sums, q, scaled, strip.stop >= stop)


cdef inline Warp warp_of(const CropJob *job, Py_ssize_t k) noexcept nogil:
    cdef Warp warp
    job.table.warp_set(&warp, job.boxes + 9 * k, content_of(job, k), job.rule, job.repeats,
                       &job.pixels)
    return warp


cdef void warp_task(
        const CropJob *job, Py_ssize_t k, int first_row, int stop_row) noexcept nogil:
    cdef Warp warp = warp_of(job, k)
    cdef char *row = job.out + k * job.stride_k + first_row * job.target.stride_y
    cdef int p
    for p in range(first_row, stop_row):
        job.table.warp_pixels(frame_of(job, k), &warp, &job.target, p, job.width, row)
        row += job.target.stride_y


cdef void crop_task(const void *given, Py_ssize_t task, char *memory) noexcept nogil:
    cdef const CropJob *job = <const CropJob*>given
    cdef Scratch *scratch = <Scratch*>memory
    cdef Work work
    cdef Py_ssize_t k = task // job.parts, part = task % job.parts
    cdef int first_row = <int>(job.blocks * part // job.parts) * CROP_ROWS
    cdef int stop_row = min(job.height, <int>(job.blocks * (part + 1) // job.parts) * CROP_ROWS)
    if job.warped:
        warp_task(job, k, first_row, stop_row)
        return
    work.frame = frame_of(job, k)
    work.y, work.x = axis_of(job, k, False), axis_of(job, k, True)
    work.out = job.out + k * job.stride_k
    work.padded = (job.content != NULL or not job.repeats
                   or work.frame.height == 0 or work.frame.width == 0)
    work.column = 0
    while work.column < job.width:
        work.columns = min(job.width - work.column, <int>CROP_COLUMNS_AT_ONCE)
        set_columns(job, &work, scratch)
        work.row = first_row
        while work.row < stop_row:
            work.rows = min(<int>CROP_ROWS, stop_row - work.row)
            set_rows(job, &work, scratch)
            crop_block(job, &work, scratch)
            work.row += work.rows
        work.column += CROP_COLUMNS_AT_ONCE


cdef inline double region_of(const CropJob *job, Py_ssize_t k, Region *region) noexcept nogil:
    """The pixels that a box reads; return how many it needs.

    They count as infinitely many if an output row reads more rows than a strip can.
    """
    cdef Axis axis
    cdef Warp warp
    cdef double y, x
    region.frame = frame_of(job, k)
    if region.frame.height == 0 or region.frame.width == 0:
        return 0
    if job.warped:
        warp = warp_of(job, k)
        job.table.warp_hull(&warp, region.frame, region.low, region.stop)
        y, x = region.stop[0] - region.low[0], region.stop[1] - region.low[1]
    else:
        axis = axis_of(job, k, False)
        y = crop_axis_hull(&axis, region.low, region.stop)
        if 2 * axis.half + 2 > CONVERTED_ROWS:
            y = INFINITY
        axis = axis_of(job, k, True)
        crop_axis_hull(&axis, region.low + 1, region.stop + 1)
        x = region.stop[1] - region.low[1]
    region.low[1] &= ~1
    return y * x


cdef inline double pixels_of(const Region *region) noexcept nogil:
    return <double>(region.stop[0] - region.low[0]) * (region.stop[1] - region.low[1])


cdef int plan_conversion(
        CropJob *job, Conversion *conversion, Py_ssize_t frames, list kept) except -1:
    """Plan to convert pixels of YCbCr in advance, where this costs less than when they are read.

    A region is a frame as far as boxes read it, or what a box that is not upright reads.  Regions
    become frames of bytes, which the job then has instead of its own.
    """
    cdef Py_ssize_t i, count = frames
    cdef Region *regions = <Region*>memory_of(kept, (frames + job.count) * sizeof(Region), True)
    cdef Region *region = regions + frames
    cdef double cost = 0, together = 0
    for i in range(job.count):
        cost += region_of(job, i, region + i)
        unite(regions + job.images[i], region + i)
    for i in range(frames):
        together += pixels_of(regions + i)
    if job.warped and cost < together:
        regions, count, job.images = region, job.count, NULL
    elif not job.warped and 100 * cost <= CROP_OVERLAP * together:
        return 0
    job.frames = convert_regions(conversion, regions, count, job.threads, kept)
    return 0


cdef struct Whole:                 # a call: pixels that are converted, and boxes
    Conversion conversion
    CropJob job


cdef int compute(void *given, Team *team) noexcept nogil:
    cdef Whole *call = <Whole*>given
    cdef const CropJob *job = &call.job
    if run_conversion(&call.conversion, team) < 0:
        return -1
    return run_tasks(job, job.count * job.parts, job.threads_of_boxes, sizeof(Scratch), crop_task,
                     team)


cdef double cost_of_boxes(const CropJob *job) noexcept:
    """Numbers of the result, of which each costs as much as one of an upright crop."""
    cdef double cost = <double>job.height * job.width * job.pixels.channels
    return cost * job.count * (WARP_COST if job.warped else 1)


cdef double nanoseconds_of_crop(const Whole *call) noexcept:
    """Roughly how long a call takes, pixels that are read and summed included."""
    cdef const CropJob *job = &call.job
    cdef double cost = cost_of_boxes(job), rows, columns
    cdef const Frame *frame
    cdef const double *box
    cdef Py_ssize_t k
    if call.conversion.regions_count:
        return INFINITY
    if job.warped:
        cost *= WARP_SAMPLES * WARP_SAMPLES      # at most
    for k in range(0 if job.warped else job.count):
        frame, box = frame_of(job, k), job.boxes + 4 * k
        columns = min(fabs(box[2] - box[0]), <double>frame.width) + 1
        rows = min(fabs(box[3] - box[1]), <double>frame.height) + 1
        cost += job.pixels.channels * rows * columns
        if cost > CROP_SERIAL_NUMBERS:
            break
    return cost * BRIEF / CROP_SERIAL_NUMBERS


cdef int divide(CropJob *job) except -1:
    """Divide boxes into tasks.  How they are divided changes no bit of the result."""
    cdef double cost = <double>job.height * job.width * job.pixels.channels      # of a box
    job.blocks = (job.height + CROP_ROWS - 1) // CROP_ROWS
    job.threads_of_boxes = 1 if cost_of_boxes(job) < CROP_SERIAL_NUMBERS else job.threads
    if job.warped:
        cost *= WARP_COST * WARP_SAMPLES * WARP_SAMPLES      # at most
    job.parts = <Py_ssize_t>(cost / CROP_TASK_NUMBERS) + 1
    if job.threads_of_boxes > 1 and job.count < TASKS_PER_THREAD * job.threads:
        job.parts = max(job.parts, (TASKS_PER_THREAD * job.threads + job.count - 1) // job.count)
    job.parts = min(job.parts, job.blocks)
    return 0


cdef int set_boxes(
        CropJob *job, const double[:, ::1] values, const int32_t[::1] images,
        const int32_t[:, ::1] content, const double[:, ::1] touched) except -1:
    """Boxes (K, 4) or matrices (K, 9), and what is known of each; the caller holds the arrays."""
    job.warped = values.shape[1] == 9
    job.boxes, job.images = &values[0, 0], &images[0]
    if content is not None:
        job.content = &content[0, 0]
    if touched is not None:
        job.touched = &touched[0, 0]
    return 0


cdef int set_target(CropJob *job, const Py_buffer *out, int kind) except -1:
    """The array (K, h, w, C) to write to."""
    cdef CropTarget *target = &job.target
    job.out, job.stride_k = <char*>out.buf, out.strides[0]
    job.count, job.height, job.width = out.shape[0], <int>out.shape[1], <int>out.shape[2]
    job.whole[2], job.whole[3] = job.height, job.width
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
    cdef Whole call
    cdef CropJob *job = &call.job
    cdef list kept = []
    cdef int c, p
    memset(&call, 0, sizeof(call))
    job.table = call.conversion.table = <const ImageTable*>isa_tables.images
    job.simd = isa_tables.simd
    job.threads = options.threads
    set_target(job, buffer_of(kept, out, b"fHBb", 0), ord(options.kind))
    job.rule, job.repeats = options.rule, options.repeats
    job.target.zero, job.target.flip = options.zero, options.flip
    job.pixels.channels = job.target.channels
    for c in range(job.target.channels):
        p = pixels.place[c]
        job.pixels.place[c], job.pixels.scale[c] = p, pixels.scale[p]
        job.pixels.bias[c], job.pixels.pad[c] = pixels.bias[p], pixels.pad[p]
    job.frames, job.planar = frames_of(kept, frames, &job.yuv), frames.planar
    if job.count == 0 or job.target.channels == 0:
        return
    set_boxes(job, place.values, place.images, place.content, place.touched)
    if frames.yuv is not None:
        plan_conversion(job, &call.conversion, frames.count, kept)
    divide(job)
    run_call(compute, &call, nanoseconds_of_crop(&call))
