"""Row lanes: where channels are few, the bin rows of a channel are the lanes instead.

images/rows.h computes the sums.  It sums rows of pixels as they lie and transposes them.
"""
from libc.string cimport memset

from images.structs cimport CROP_CHANNELS, Lines, Source, Strip, Sums
from kernels.nest cimport Part, Scratch
from plan.choose cimport beyond_cache
from plan.spans cimport hull
from plan.structs cimport Call
from simd.structs cimport LANE_BYTES, Strides, Target, Tile, prefetch_run, real


cdef inline Source source_of(const Call *call, const Tile *tile) noexcept nogil:
    """All channels of the map where those of a pixel lie together, else its first channel."""
    cdef const Strides *strides = &call.map.strides
    cdef Py_ssize_t size = call.map.itemsize
    cdef bint together = strides.channel == 1 and strides.x == call.channels
    cdef Source source
    memset(&source, 0, sizeof(source))
    source.start, source.kind = tile.plane, call.map.kind
    source.stride_y, source.stride_x = strides.y * size, strides.x * size
    source.stride_c, source.channels = strides.channel * size, call.channels if together else 1
    source.dense = together or strides.x == 1
    return source


cdef inline void prefetch_rows(
        const Call *call, const Part *part, const Source *source, int first) noexcept nogil:
    """The rows of the map that a lane vector of bin rows reads, from bin row `first` on.

    They are for maps beyond the caches: runs of a few hundred pixels are too short for hardware.
    """
    cdef Py_ssize_t low = 0, high = 0, y, c
    cdef int stop = min(first + call.lanes, call.ph)
    cdef Py_ssize_t planes = call.channels // source.channels
    cdef const char *start = source.start + part.window.x0 * source.stride_x
    cdef Py_ssize_t size = (part.window.x1 - part.window.x0) * source.stride_x
    hull(part.spans_y, first, stop, call.tables.tap_pixel, &low, &high)
    for y in range(low if first == 0 else max(low, part.window.y1), high):
        for c in range(planes):
            prefetch_run(start + y * source.stride_y + c * source.stride_c, size)


cdef inline void sum_channels(
        const Call *call, const Part *part, Source *source, bint mixed, void *memory,
        real *bins) noexcept nogil:
    """Sum the bins of a part.  Lanes of `bins` are bin rows.

    bins: [channel][column][lane], or [column][channel][lane] if channels are mixed; memory: of the
    strip.
    """
    cdef const char *start = source.start
    cdef int channels = <int>call.channels, columns = part.q1 - part.q0, c
    cdef Py_ssize_t step = 1 if mixed else columns      # between channels
    cdef Strip strip
    cdef Lines y, x
    cdef Sums sums
    memset(&y, 0, sizeof(y))
    y.list.pixel, y.list.weight = call.tables.tap_pixel, call.tables.tap_weight
    x = y
    y.list.spans, x.list.spans = part.spans_y + 2 * part.p0, part.spans_x + 2 * part.q0
    strip.sums, strip.low, strip.stop = memory, part.window.x0, part.window.x1
    strip.channels, strip.channel, strip.add = channels, 0, False
    while strip.channel < channels:
        source.start = start + strip.channel * source.stride_c
        call.simd.sum_strip(source, &y, part.p1 - part.p0, &strip)
        strip.channel += source.channels
    sums.first, sums.step = 0, channels if mixed else 1
    for c in range(CROP_CHANNELS):
        sums.place[c], sums.scale[c], sums.bias[c] = c * step, 1, -0.0      # -0 stays -0
    while sums.first < channels:
        sums.channels = min(<int>CROP_CHANNELS, channels - sums.first)
        sums.sums = bins + sums.first * step * (LANE_BYTES // sizeof(real))
        call.simd.sum_strip_columns(&strip, &x, columns, &sums)
        sums.first += sums.channels


cdef inline void reduce_row_lanes(
        const Call *call, const Part *part, const Tile *tile, real *out,
        Scratch *scratch) noexcept nogil:
    """Up to a lane vector of bin rows of one box, of all channels; out: bin (0, 0)."""
    cdef Py_ssize_t planes = call.channels, columns = part.q1 - part.q0, c
    cdef bint mixed = call.bins.channel == 1 and call.bins.x == call.channels
    cdef real *bins = <real*>scratch.bins
    cdef Source source = source_of(call, tile)
    cdef Target target
    if beyond_cache(call) and source.dense and call.map.itemsize == call.itemsize:
        if part.p0 == 0:
            prefetch_rows(call, part, &source, 0)
        if part.p1 < call.ph:
            prefetch_rows(call, part, &source, part.p1)
    sum_channels(call, part, &source, mixed, scratch.strip, bins)
    target.strides.image, target.strides.y, target.strides.x = 0, 0, call.bins.x
    target.strides.channel, target.lanes = call.bins.y, part.p1 - part.p0
    target.store, target.queue = call.store, &scratch.queue
    target.staging = scratch.staging
    if mixed:      # a row of bins is one run
        target.strides.x, columns, planes = 1, columns * planes, 1
    out += part.p0 * call.bins.y + part.q0 * call.bins.x
    for c in range(planes):
        call.simd.unpack(bins, 1, columns, out + c * call.bins.channel, &target)
        bins += columns * (LANE_BYTES // sizeof(real))
