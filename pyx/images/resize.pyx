"""Boxes of frames of bytes, resized as Pillow does.

A task is some rows of a box.  If x is first, rows are resized along x when an output row needs
them, and are kept as long as one does.  If y is first, some output rows are computed as far as
their columns reach, and are then resized along x.  Either way output columns are divided so that
what is kept fits a level 2 cache.
"""
from cpython.buffer cimport Py_buffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memmove, memset

from images.buffers cimport buffer_of, memory_of
from images.filters cimport (FilterAxis, divide_by_alpha, filter_axis, filter_bits, filter_pairs,
                             filter_span, filter_weights)
from images.frames cimport (CROP_SERIAL_NUMBERS, CROP_TASK_NUMBERS, Conversion, Region,
                            convert_regions, frames_of, run_conversion, unite)
from images.structs cimport (RESIZE_BITS, RESIZE_ROWS, Frame, ImageTable, ResizeAxis, ResizeBlock,
                             ResizePair, ResizeTarget, Yuv)
from roicy._kernels.isa cimport isa_tables
from simd.structs cimport ASSERT
from threads cimport BRIEF, Team, let_others, nanoseconds, run_call, run_tasks

cdef enum:
    RESIZE_TASKS = 2               # tasks of a thread where there are few boxes        # no record
    TAPS_AT_ONCE = 1 << 18         # that are computed without a look for signals: 10 ms # no record
    BRIEF_TAPS = 1 << 13           # that are computed without giving up the lock: BRIEF # no record
    RESIZE_WINDOW = 384            # bytes of a row that are transposed at once         # no record
    RESIZE_MOST = 1536             # of a row that one output column may read          # no record
    RESIZE_COLUMNS = 64            # output columns between two transpositions         # no record
    RESIZE_KEPT = 256 << 10        # bytes of rows that are resized along one axis     # no record
    RESIZE_LINES = 64 << 10        # bytes of rows that are stored together             # no record
    RESIZE_SPARE = 16              # bytes after a row that a transposition may write

cdef enum:
    LINES_BYTES = RESIZE_MOST * RESIZE_ROWS
    SUMS_BYTES = RESIZE_COLUMNS * 4 * RESIZE_ROWS


cdef struct Picture:               # a box of a frame, and where it goes
    const Frame *frame
    Py_ssize_t at_y                # pixel (0, 0) of the taps
    Py_ssize_t at_x
    ResizeAxis y
    ResizeAxis x
    bint y_first
    bint divided                   # colours are divided by alpha at last
    int32_t top                    # where it begins in the result; may be below 0
    int32_t left


cdef struct ResizeJob:
    const ImageTable *table
    const Picture *pictures
    Py_ssize_t count
    ResizeTarget target
    char *out
    Py_ssize_t stride_k
    int32_t height
    int32_t width
    int pitch                      # bytes of a pixel of a frame, or of one plane of it
    int channels                   # that are stored
    int planes                     # 1 where channels lie together
    Py_ssize_t parts               # tasks of a box
    Py_ssize_t kept                # bytes of rows that a thread keeps
    Py_ssize_t line                # bytes of rows that are stored together
    int32_t columns                # of a row that fit there
    int32_t together               # such rows
    int threads


cdef struct Part:                  # some rows and columns of a picture, or of one plane of it
    const ResizeJob *job
    const Picture *picture
    const uint8_t *start           # pixel (0, 0)
    ResizeTarget target
    Py_ssize_t stride
    int pitch
    int channels
    int32_t low_y
    int32_t stop_y
    int32_t low_x
    int32_t stop_x
    char *out
    uint8_t *lines
    uint8_t *sums
    uint8_t *line
    uint8_t *kept
    Py_ssize_t kept_stride         # bytes of a kept row


cdef inline int32_t first_of(const ResizeAxis *axis, int32_t i) noexcept nogil:
    return i if axis.spans == NULL else axis.spans[2 * i]


cdef inline int32_t stop_of(const ResizeAxis *axis, int32_t i) noexcept nogil:
    return i + 1 if axis.spans == NULL else axis.spans[2 * i] + axis.spans[2 * i + 1]


cdef inline void resize_rows_along_x(
        const Part *part, const uint8_t *row, Py_ssize_t stride, int rows,
        uint8_t *to) noexcept nogil:
    """Resize at most RESIZE_ROWS rows along x; row: the first tap of the first column.

    They are transposed, summed, and transposed back, some columns at a time.  A column that reads
    too many pixels is summed row by row.
    """
    cdef const ImageTable *table = part.job.table
    cdef const ResizeAxis *axis = &part.picture.x
    cdef int32_t q = part.low_x, next, low, room, origin = axis.spans[2 * q]
    cdef int pitch = part.pitch, channels = part.channels, i
    while q < part.stop_x:
        low, next = axis.spans[2 * q], q + 1
        room = RESIZE_WINDOW // pitch
        while next < min(part.stop_x, q + RESIZE_COLUMNS) and stop_of(axis, next) - low <= room:
            next += 1
        if (stop_of(axis, next - 1) - low) * <Py_ssize_t>pitch > RESIZE_MOST:
            for i in range(rows):
                table.resize_line(axis, q, row + i * stride + (low - origin) * <Py_ssize_t>pitch,
                                  pitch, channels, to + i * part.kept_stride)
        else:
            table.resize_to_lines(row + (low - origin) * <Py_ssize_t>pitch, stride, rows,
                                  (stop_of(axis, next - 1) - low) * pitch, part.lines)
            table.resize_columns(axis, q, next, pitch, channels, rows, part.lines, part.sums)
            table.resize_to_rows(part.sums, (next - q) * channels, rows, to, part.kept_stride)
        to += (next - q) * channels
        q = next


cdef inline void store_rows(
        const Part *part, int32_t y, int rows, const uint8_t *lines, Py_ssize_t line_stride,
        int pitch) noexcept nogil:
    cdef ResizeBlock block
    cdef int i
    for i in range(rows if part.picture.divided else 0):      # which are the thread's own
        divide_by_alpha(<uint8_t*>lines + i * line_stride, part.stop_x - part.low_x, pitch)
    block.start, block.stride, block.pitch = lines, line_stride, pitch
    block.channels = part.channels
    block.rows, block.row = rows, y + part.picture.top
    block.first, block.stop = part.low_x + part.picture.left, part.stop_x + part.picture.left
    part.job.table.resize_store(&part.target, &block, part.out)


cdef inline void resize_along_x_first(const Part *part) noexcept nogil:
    """Rows are resized along x as soon as an output row needs them."""
    cdef const ResizeAxis *axis = &part.picture.y
    cdef bint along_x = part.picture.x.spans != NULL
    cdef Py_ssize_t between = part.kept_stride, room = part.job.kept // between
    cdef int32_t y, first, have = first_of(axis, part.low_y), base = have
    cdef int32_t end = stop_of(axis, part.stop_y - 1)
    cdef int rows, waiting = 0, pitch = part.channels if along_x else part.pitch
    cdef Py_ssize_t bytes = (part.stop_x - part.low_x) * <Py_ssize_t>pitch
    cdef Py_ssize_t at = (part.low_x + part.picture.left) * part.target.stride
    cdef bint gathered, direct = part.target.copied and pitch == part.channels
    cdef const uint8_t *line
    cdef uint8_t *to
    direct = direct and part.target.run == part.job.width and not part.picture.divided
    gathered = direct or part.job.together > 1 or (part.picture.divided and not along_x)
    for y in range(part.low_y, part.stop_y):
        first = first_of(axis, y)
        while along_x and have < stop_of(axis, y):
            if have - base + RESIZE_ROWS > room:
                first = min(first, have)
                memmove(part.kept, part.kept + (first - base) * between, (have - first) * between)
                base = first
                first = first_of(axis, y)
            rows = min(<int>RESIZE_ROWS, end - have)
            resize_rows_along_x(
                part, part.start + have * part.stride
                + part.picture.x.spans[2 * part.low_x] * <Py_ssize_t>part.pitch,
                part.stride, rows, part.kept + (have - base) * between)
            have += rows
        if along_x:
            line = part.kept + (first - base) * between
        else:
            line = part.start + first * part.stride + part.low_x * <Py_ssize_t>pitch
        to = part.line + waiting * bytes
        if direct:
            to = <uint8_t*>(part.out + part.target.rows[y + part.picture.top] + at)
        if axis.spans != NULL:
            part.job.table.resize_line(
                axis, y, line, between if along_x else part.stride, bytes, to)
        elif gathered:
            memcpy(to, line, bytes)
        if direct:
            continue
        waiting += 1
        if not gathered and axis.spans == NULL:
            store_rows(part, y, 1, line, 0, pitch)
            waiting = 0
        elif y + 1 == part.stop_y or (y + 1 + part.picture.top) % part.job.together == 0:
            store_rows(part, y + 1 - waiting, waiting, part.line, bytes, pitch)
            waiting = 0


cdef inline void resize_along_y_first(const Part *part) noexcept nogil:
    """Some output rows are resized along y, as far as their columns reach, and then along x."""
    cdef const ResizeAxis *axis = &part.picture.y
    cdef int32_t low = first_of(&part.picture.x, part.low_x), y = part.low_y, i
    cdef Py_ssize_t pixels = stop_of(&part.picture.x, part.stop_x - 1) - low
    cdef Py_ssize_t window = pixels * part.pitch
    cdef Py_ssize_t room = part.job.kept - RESIZE_ROWS * part.kept_stride
    cdef int rows
    cdef uint8_t *tall = part.kept + RESIZE_ROWS * part.kept_stride
    while y < part.stop_y:
        rows = <int>min(<Py_ssize_t>min(<int32_t>RESIZE_ROWS, part.stop_y - y),
                        room // max(window, <Py_ssize_t>1))
        ASSERT(rows > 0)
        for i in range(rows):
            part.job.table.resize_line(
                axis, y + i, part.start + first_of(axis, y + i) * part.stride
                + low * <Py_ssize_t>part.pitch, part.stride, window, tall + i * window)
        resize_rows_along_x(part, tall, window, rows, part.kept)
        store_rows(part, y, rows, part.kept, part.kept_stride, part.channels)
        y += rows


cdef inline int32_t columns_together(
        const ResizeJob *job, const Picture *picture, int32_t low, int32_t stop,
        int channels) noexcept nogil:
    """Where the columns end, from `low` on, whose rows a thread has room to keep."""
    cdef Py_ssize_t rows = 2 * <Py_ssize_t>picture.y.taps + 2 * RESIZE_ROWS, window
    cdef int32_t next = low + 1
    cdef Py_ssize_t most = job.kept // 2
    if picture.x.spans == NULL:
        return min(stop, low + job.columns)
    if not picture.y_first:
        most = max((job.kept // rows - RESIZE_SPARE) // channels, <Py_ssize_t>1)
        return <int32_t>min(<Py_ssize_t>stop, low + min(most, <Py_ssize_t>job.columns))
    while next < min(stop, low + job.columns):
        window = (stop_of(&picture.x, next) - first_of(&picture.x, low)) * <Py_ssize_t>job.pitch
        if RESIZE_ROWS * (window + (next + 1 - low) * channels + RESIZE_SPARE) > most:
            break
        next += 1
    return next


cdef inline void pad_row(
        const ResizeJob *job, int32_t p, int32_t first, int32_t stop, char *out) noexcept nogil:
    cdef ResizeBlock block
    block.start, block.stride, block.pitch, block.channels = NULL, 0, 0, job.channels
    block.rows, block.row, block.first, block.stop = 1, p, first, stop
    job.table.resize_store(&job.target, &block, out)


cdef inline void resize_task(const void *given, Py_ssize_t task, char *memory) noexcept nogil:
    cdef const ResizeJob *job = <const ResizeJob*>given
    cdef const Picture *picture = job.pictures + task // job.parts
    cdef Py_ssize_t number = task % job.parts
    cdef int32_t first = <int32_t>(job.height * number // job.parts), p
    cdef int32_t stop = <int32_t>(job.height * (number + 1) // job.parts)
    cdef int32_t left = min(job.width, max(picture.left, 0))
    cdef int32_t right = min(job.width, max(picture.left + picture.x.count, 0))
    cdef int plane
    cdef Part part
    cdef char *out = job.out + (task // job.parts) * job.stride_k
    cdef bint shown
    part.job, part.picture, part.out, part.target = job, picture, out, job.target
    part.pitch, part.channels = job.pitch, job.channels // job.planes
    part.stride = picture.frame.pixels.stride_y
    part.lines = <uint8_t*>memory
    part.sums = part.lines + LINES_BYTES
    part.line = part.sums + SUMS_BYTES
    part.kept = part.line + job.line
    for p in range(first, stop):
        shown = picture.top <= p < picture.top + picture.y.count
        pad_row(job, p, 0, left if shown else job.width, out)
        pad_row(job, p, right, job.width if shown else right, out)
    part.low_y = max(first - picture.top, 0)
    part.stop_y = min(stop - picture.top, picture.y.count)
    if part.low_y >= part.stop_y:
        return
    for plane in range(job.planes):
        part.start = <const uint8_t*>(
            picture.frame.pixels.start + picture.at_y * picture.frame.pixels.stride_y
            + picture.at_x * picture.frame.pixels.stride_x + plane * picture.frame.pixels.stride_c)
        part.target.places[0] = job.target.places[plane]
        part.target.tables[0] = job.target.tables[plane]
        part.low_x = max(-picture.left, 0)
        while part.low_x < right - picture.left:
            part.stop_x = columns_together(job, picture, part.low_x, right - picture.left,
                                           part.channels)
            part.kept_stride = (part.stop_x - part.low_x) * part.channels + RESIZE_SPARE
            if picture.y_first:
                resize_along_y_first(&part)
            else:
                resize_along_x_first(&part)
            part.low_x = part.stop_x


cdef inline void set_room(ResizeJob *job) noexcept nogil:
    """How much a thread keeps: at least what one output column needs."""
    cdef Py_ssize_t k, i, least
    cdef const Picture *picture
    job.together = job.target.run if job.target.run < min(job.width, <int32_t>RESIZE_ROWS) else 1
    job.columns = max(RESIZE_LINES // (4 * job.together), 1)
    job.line, job.kept = RESIZE_LINES, RESIZE_KEPT
    for k in range(job.count):
        picture = job.pictures + k
        least = 0
        if picture.y_first:
            for i in range(picture.x.count):
                least = max(least, <Py_ssize_t>picture.x.spans[2 * i + 1])
            least = least * job.pitch + RESIZE_ROWS * (4 + RESIZE_SPARE)
        elif picture.x.spans != NULL:
            least = (picture.y.taps + <Py_ssize_t>RESIZE_ROWS) * (4 + RESIZE_SPARE)
        job.kept = max(job.kept, least)


cdef inline int run_resize(const ResizeJob *job, Team *team) noexcept nogil:
    return run_tasks(job, job.count * job.parts, job.threads,
                     LINES_BYTES + SUMS_BYTES + job.line + job.kept, resize_task, team)


# --- The door of arrays

cdef struct AxisTaps:              # of an axis: where taps lie, and what they weigh
    FilterAxis axis
    int32_t *spans                 # [pixel][2]
    ResizePair *pairs              # [pixel][each]
    Py_ssize_t each
    Py_ssize_t most                # of a pixel
    double *weights                # of one pixel
    double largest
    int bits
    bint wide


cdef void find_spans(AxisTaps *taps, int32_t low, int32_t stop) noexcept nogil:
    cdef int32_t i
    for i in range(low, stop):
        filter_span(&taps.axis, i, taps.spans + 2 * i)
        taps.most = max(taps.most, <Py_ssize_t>taps.spans[2 * i + 1])


cdef void find_largest(AxisTaps *taps, int32_t low, int32_t stop) noexcept nogil:
    cdef int32_t i
    for i in range(low, stop):
        taps.largest = max(
            taps.largest, filter_weights(&taps.axis, i, taps.spans + 2 * i, taps.weights))


cdef void find_pairs(AxisTaps *taps, int32_t low, int32_t stop) noexcept nogil:
    cdef int32_t i
    for i in range(low, stop):
        filter_weights(&taps.axis, i, taps.spans + 2 * i, taps.weights)
        filter_pairs(taps.weights, taps.spans[2 * i + 1], taps.bits, taps.wide,
                     taps.pairs + i * taps.each)


cdef int for_pixels(
        void (*find)(AxisTaps *taps, int32_t low, int32_t stop) noexcept nogil, AxisTaps *taps,
        int32_t count, Py_ssize_t most) except -1:
    """Find something of all output pixels, some at a time: others may have Python's lock then, and
    Ctrl-C may end the call.  most: taps of a pixel, and one more for itself.
    """
    cdef int32_t low = 0, stop
    if count * most <= BRIEF_TAPS:
        find(taps, 0, count)
        return 0
    while low < count:
        stop = <int32_t>min(<Py_ssize_t>count, low + TAPS_AT_ONCE // most + 1)
        with nogil:
            find(taps, low, stop)
        PyErr_CheckSignals()
        low = stop
    return 0


def taps_of(int32_t extent, double low, double high, int32_t count, int filter, bint wide):
    """Return how many taps an output pixel of an axis has at most, the bits after the point of
    weights, whether these are wide, and capsules of all spans and pairs of taps.

    The pixels from `low` to `high` of `extent` become `count`.  filter: of filters.pxd; wide:
    whether weights are Pillow's, and not PyTorch's.
    """
    cdef list kept = []
    cdef AxisTaps taps
    cdef Py_ssize_t most
    taps.axis = filter_axis(low, high, extent, count, filter)
    taps.spans = <int32_t*>memory_of(kept, 2 * count * sizeof(int32_t), False)
    taps.most, taps.largest, taps.bits, taps.wide = 0, 0, RESIZE_BITS, wide
    for_pixels(find_spans, &taps, count, 1)
    most = taps.most
    taps.each = (most + 1) // 2
    taps.pairs = <ResizePair*>memory_of(kept, count * taps.each * sizeof(ResizePair), True)
    taps.weights = <double*>memory_of(kept, (most + 1) * sizeof(double), False)
    if not wide:
        for_pixels(find_largest, &taps, count, most + 1)
        taps.bits = filter_bits(taps.largest)
    for_pixels(find_pairs, &taps, count, most + 1)
    return most, taps.bits, wide, kept[0], kept[1]


cdef struct WholeResize:           # a call: pixels that are converted, and boxes
    Conversion conversion
    ResizeJob job


cdef int compute_resize(void *given, Team *team) noexcept nogil:
    cdef WholeResize *call = <WholeResize*>given
    return run_conversion(&call.conversion, team) or run_resize(&call.job, team)


cdef int set_axis(ResizeAxis *axis, int32_t count, int64_t table, axis_tables) except -1:
    """table: of `axis_tables`, or below 0 for an axis that keeps its pixels."""
    axis.count, axis.taps, axis.spans, axis.pairs = count, 0, NULL, NULL
    if table >= 0:
        axis.taps, axis.bits, axis.wide, spans, pairs = axis_tables[table]
        axis.spans = <const int32_t*>PyCapsule_GetPointer(spans, NULL)
        axis.pairs = <const ResizePair*>PyCapsule_GetPointer(pairs, NULL)
    return 0


cdef double set_pictures(
        ResizeJob *job, const Frame *frames, Region *regions, const int64_t[:, ::1] rows,
        axis_tables, list kept) except -1:
    """Boxes, and what they read of each frame; return about how many numbers are summed or only
    stored.
    """
    cdef Picture *picture = <Picture*>memory_of(kept, job.count * sizeof(Picture), True)
    cdef Region region
    cdef Py_ssize_t k
    cdef long long since = nanoseconds()
    cdef double cost = 0, across
    cdef double stored = <double>job.height * job.width * max(job.target.repeats, 1)
    job.pictures = picture
    for k in range(job.count):
        let_others(k, &since)
        picture.frame = region.frame = frames + rows[k, 0]
        picture.at_y, picture.at_x = rows[k, 1], rows[k, 2]
        set_axis(&picture.y, <int32_t>rows[k, 3], rows[k, 5], axis_tables)
        set_axis(&picture.x, <int32_t>rows[k, 4], rows[k, 6], axis_tables)
        picture.y_first, picture.divided = rows[k, 7] != 0, rows[k, 8] != 0
        picture.top, picture.left = <int32_t>rows[k, 9], <int32_t>rows[k, 10]
        region.low[0] = <int32_t>picture.at_y + first_of(&picture.y, 0)
        region.stop[0] = <int32_t>picture.at_y + stop_of(&picture.y, picture.y.count - 1)
        region.low[1] = <int32_t>(picture.at_x + first_of(&picture.x, 0)) & ~1
        region.stop[1] = <int32_t>picture.at_x + stop_of(&picture.x, picture.x.count - 1)
        across = region.stop[1] - region.low[1] if picture.y_first else picture.x.count
        cost += <double>picture.y.count * across * (2 + picture.y.taps)
        across = picture.y.count if picture.y_first else region.stop[0] - region.low[0]
        cost += across * picture.x.count * picture.x.taps
        cost += 8 * max(stored - <double>picture.y.count * picture.x.count, 0)
        if regions != NULL:
            unite(regions + rows[k, 0], &region)
        picture += 1
    return cost * job.channels / 8


cdef int divide_resize(ResizeJob *job, double cost) except -1:
    """Divide boxes into tasks: few, since neighbours read some rows twice, and blocks of rows that
    are not full cost as much as full ones.
    """
    cdef const ResizeAxis *y = &job.pictures[0].y
    cdef Py_ssize_t rows = max(job.height, stop_of(y, y.count - 1) - first_of(y, 0))
    if cost < CROP_SERIAL_NUMBERS:
        job.threads = 1
    job.parts = <Py_ssize_t>(cost / job.count / CROP_TASK_NUMBERS) + 1
    if job.threads > 1 and job.count < RESIZE_TASKS * job.threads:
        job.parts = max(job.parts, (RESIZE_TASKS * job.threads + job.count - 1) // job.count)
    job.parts = min(job.parts, rows // RESIZE_ROWS + 1, <Py_ssize_t>job.height)
    return 0


def resize(frames, const int64_t[:, ::1] rows, axis_tables, target, out, int threads):
    """Resize boxes of frames as Pillow does.

    rows: (K, 11) of frame, y and x of its pixel (0, 0), height, width, which of `axis_tables` have
    their taps, whether y is first, whether colours are divided by alpha, and where it begins in
    the result; target: as in roicy/cropping/resizing.py; out: written to.
    """
    cdef WholeResize call
    cdef const Frame *sources
    cdef Yuv yuv
    cdef ResizeJob *job = &call.job
    cdef Region *regions = NULL
    cdef list kept = []
    cdef Py_buffer *view
    cdef Py_ssize_t k
    cdef double cost
    cdef int c, itemsize
    memset(&call, 0, sizeof(call))
    job.table = call.conversion.table = <const ImageTable*>isa_tables.images
    job.threads = threads
    sources = frames_of(kept, frames, &yuv)
    job.pitch = 1 if frames.planar else frames.channels
    job.channels = <int>len(target.places)
    job.planes = job.channels if frames.planar else 1
    view = buffer_of(kept, out, b"fHBb", 0)
    job.out, job.stride_k, job.count = <char*>view.buf, view.strides[0], view.shape[0]
    itemsize = <int>view.itemsize
    view = buffer_of(kept, target.rows, b"ilq", sizeof(Py_ssize_t))
    job.target.rows, job.height = <const Py_ssize_t*>view.buf, <int32_t>view.shape[0]
    view = buffer_of(kept, target.columns, b"ilq", sizeof(Py_ssize_t))
    job.target.columns, job.target.run, job.width = (
        <const Py_ssize_t*>view.buf, target.run, target.width)
    job.target.stride, job.target.itemsize = target.stride, itemsize
    job.target.repeats, job.target.repeat_stride = target.repeats, target.repeat_stride
    job.target.copied = target.copied and not frames.planar
    view = buffer_of(kept, target.table, b"fHBb", itemsize)
    for c in range(job.channels):
        job.target.places[c] = target.places[c]
        job.target.tables[c] = <const char*>view.buf + c * view.strides[0]
    if job.count == 0 or job.channels == 0:
        return
    if frames.yuv is not None:
        regions = <Region*>memory_of(kept, frames.count * sizeof(Region), True)
    cost = set_pictures(job, sources, regions, rows, axis_tables, kept)
    if regions != NULL:
        sources = convert_regions(&call.conversion, regions, frames.count, threads, kept)
        for k in range(job.count):
            (<Picture*>job.pictures)[k].frame = sources + rows[k, 0]
    set_room(job)
    divide_resize(job, cost)
    if regions != NULL:
        cost = INFINITY
    run_call(compute_resize, &call, cost * BRIEF / CROP_SERIAL_NUMBERS)
