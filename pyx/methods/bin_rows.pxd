"""Bin rows: where channels are few, the bin rows of a channel are the lanes.

It is for upright boxes with many bin rows, as those of images are.  Rows of pixels are summed as
they lie, and then transposed, by the loops of simd/rows.h that sum crops, too.
"""
from libc.stdint cimport int32_t
from libc.string cimport memset

cimport methods.numbers as numbers
from passes.walk cimport Part, Scratch, Walk, begin_walk, first_bin, taps_of, walk_on
from plan.facts cimport beyond_cache
from plan.scratch cimport size_scratch as size_scratch_of_planes, whole_pages
from plan.spans cimport hull
from plan.structs cimport FORWARD, SPARSE_TAPS, LevelJob, Method, Task, set_pass
from plan.ways cimport channels_are_few, set_ways
from simd.structs cimport (LANE_BYTES, ROWS_CHANNELS, Lines, Source, Strides, Strip, Sums, Target,
                           Tile, prefetch_run, real)
from tuning cimport MAX_BINS, MAX_COLUMNS


cdef inline Py_ssize_t most_columns(const LevelJob *job) noexcept nogil:
    """Columns of the widest window."""
    cdef const int32_t *window = job.tables.windows
    cdef Py_ssize_t columns = 0
    for _ in range(job.tables.count):
        columns = max(columns, <Py_ssize_t>(window[3] - window[2]))
        window += 4
    return columns


cdef inline const char *unfit(const LevelJob *job) noexcept nogil:
    if job.tables.tap_kind == SPARSE_TAPS:
        return "the boxes are turned"
    if job.call.position_sensitive:
        return "each bin has channels of its own"
    if job.call.channels > job.call.lanes:
        return "channels fill more than one block"
    if most_columns(job) > MAX_COLUMNS:
        return "a window has too many columns"
    return NULL


cdef inline bint pays(const LevelJob *job, Py_ssize_t few) noexcept nogil:
    """Whether channels are few.  Whole rows are read, and so most boxes must have many columns."""
    return job.call.purpose == FORWARD and channels_are_few(job) and 2 * few <= job.tables.count


cdef inline void size_scratch(LevelJob *job) noexcept nogil:
    """The strip has room for the columns of each window, of all channels."""
    job.scratch.strip_bytes = whole_pages(
        max(job.scratch.strip_bytes, most_columns(job) * job.call.channels * LANE_BYTES))
    size_scratch_of_planes(job)


cdef inline Source source_of(const LevelJob *job, const Tile *tile) noexcept nogil:
    """All channels of the map where those of a pixel lie together, else its first channel."""
    cdef const Strides *strides = &job.map.strides
    cdef Py_ssize_t size = job.map.itemsize
    cdef bint together = strides.channel == 1 and strides.x == job.call.channels
    cdef Source source
    memset(&source, 0, sizeof(source))
    source.start, source.kind = tile.plane, job.map.dtype
    source.stride_y, source.stride_x = strides.y * size, strides.x * size
    source.stride_c, source.channels = strides.channel * size, job.call.channels if together else 1
    source.dense = together or strides.x == 1
    return source


cdef inline void prefetch_rows(
        const LevelJob *job, const Part *part, const Source *source, int first) noexcept nogil:
    """The rows of the map that a lane vector of bin rows reads, from bin row `first` on.

    They are for maps beyond the caches: runs of a few hundred pixels are too short for hardware.
    """
    cdef Py_ssize_t low = 0, high = 0, y, c
    cdef int stop = min(first + job.call.lanes, job.call.ph)
    cdef Py_ssize_t planes = job.call.channels // source.channels
    cdef const char *start = source.start + part.window.x0 * source.stride_x
    cdef Py_ssize_t size = (part.window.x1 - part.window.x0) * source.stride_x
    hull(part.spans_y, first, stop, job.tables.tap_pixel, &low, &high)
    for y in range(low if first == 0 else max(low, part.window.y1), high):
        for c in range(planes):
            prefetch_run(start + y * source.stride_y + c * source.stride_c, size)


cdef inline void sum_channels(
        const LevelJob *job, const Part *part, Source *source, bint interleaved, void *memory,
        real *bins) noexcept nogil:
    """Sum the bins of a part.  Lanes of `bins` are bin rows.

    bins: [channel][column][lane], or [column][channel][lane] if channels are interleaved; memory:
    of the strip.
    """
    cdef const char *start = source.start
    cdef int channels = <int>job.call.channels, columns = part.q1 - part.q0, c
    cdef Py_ssize_t stride = 1 if interleaved else columns      # between channels
    cdef Strip strip
    cdef Lines y, x
    cdef Sums sums
    memset(&y, 0, sizeof(y))
    y.list = taps_of(job, NULL)
    x = y
    y.list.spans, x.list.spans = part.spans_y + 2 * part.p0, part.spans_x + 2 * part.q0
    strip.sums, strip.low, strip.stop = memory, part.window.x0, part.window.x1
    strip.channels, strip.channel, strip.add = channels, 0, False
    while strip.channel < channels:
        source.start = start + strip.channel * source.stride_c
        job.call.simd.sum_strip(source, &y, part.p1 - part.p0, &strip)
        strip.channel += source.channels
    sums.first, sums.stride = 0, channels if interleaved else 1
    for c in range(ROWS_CHANNELS):
        sums.place[c], sums.scale[c], sums.bias[c] = c * stride, 1, -0.0      # -0 stays -0
    while sums.first < channels:
        sums.channels = min(<int>ROWS_CHANNELS, channels - sums.first)
        sums.sums = bins + sums.first * stride * (LANE_BYTES // sizeof(real))
        job.call.simd.sum_strip_columns(&strip, &x, columns, &sums)
        sums.first += sums.channels


cdef inline void sum_bin_rows(
        const LevelJob *job, const Part *part, const Tile *tile, real *out,
        Scratch *scratch) noexcept nogil:
    """Up to a lane vector of bin rows of one box, of all channels; out: bin (0, 0)."""
    cdef Py_ssize_t planes = job.call.channels, columns = part.q1 - part.q0, c
    cdef const Strides *to = &job.call.out_strides
    cdef bint interleaved = to.channel == 1 and to.x == job.call.channels
    cdef real *bins = <real*>scratch.bins
    cdef Source source = source_of(job, tile)
    cdef Target target
    if beyond_cache(job) and source.dense and job.map.itemsize == job.call.itemsize:
        if part.p0 == 0:
            prefetch_rows(job, part, &source, 0)
        if part.p1 < job.call.ph:
            prefetch_rows(job, part, &source, part.p1)
    sum_channels(job, part, &source, interleaved, scratch.strip, bins)
    target.strides.image, target.strides.y, target.strides.x = 0, 0, to.x
    target.strides.channel, target.lanes = to.y, part.p1 - part.p0
    target.store, target.queue = job.store, &scratch.queue
    target.staging = scratch.staging
    if interleaved:      # a row of bins is one run
        target.strides.x, columns, planes = 1, columns * planes, 1
    out = first_bin(job, part, out)
    for c in range(planes):
        job.call.simd.unpack(bins, 1, columns, out + c * to.channel, &target)
        bins += columns * (LANE_BYTES // sizeof(real))


cdef inline void forward(
        const LevelJob *job, const Task *task, char *memory, real _) noexcept nogil:
    cdef Walk walk
    begin_walk(job, task, memory, False, &walk)
    walk.part.most_p = min(job.call.ph, job.call.lanes)
    walk.part.most_q = <int>min(<Py_ssize_t>job.call.pw, MAX_BINS // job.call.channels)
    walk.part.whole = walk.part.most_p == job.call.ph and walk.part.most_q == job.call.pw
    while walk_on(job, task, &walk):
        sum_bin_rows(job, &walk.part, &walk.tile, <real*>walk.result, &walk.scratch)


cdef inline void set_bin_rows(Method *method) noexcept:
    method.name, method.unfit, method.pays = "bin_rows", unfit, pays
    method.prepare, method.size_scratch = set_ways, size_scratch
    method.shares_to_read = numbers.shares_to_read
    set_pass(method, FORWARD, forward[float], forward[double])
