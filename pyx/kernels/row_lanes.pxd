"""Row lanes: where channels are few, the bin rows of a channel are the lanes instead.

images/rows.h computes the sums.  It sums rows of pixels as they lie and transposes them.
"""
from libc.string cimport memset

from images.frames cimport (CROP_CHANNELS, Lines, Source, Strip, Sums, sum_strip_columns_double,
                            sum_strip_columns_float, sum_strip_double, sum_strip_float)
from kernels.nest cimport Part, Scratch
from move.tile cimport Target, TileCache, Window, unpack
from plan.choose cimport beyond_cache
from plan.spans cimport hull
from plan.structs cimport DIRECT, Call, Strides
from simd.simd cimport LANE_BYTES, prefetch_run, real, stream_rest
from tuning cimport MAX_BINS


cdef inline Py_ssize_t widest_bin(const Call *call, const Part *part) noexcept nogil:
    cdef Py_ssize_t low = 0, high = 0, widest = 0
    cdef int q
    for q in range(call.pw):
        hull(part.spans_x, q, q + 1, call.tables.tap_pixel, &low, &high)
        widest = max(widest, high - low)
    return widest


cdef inline int bins_of_columns(
        const Call *call, const Part *part, int first, Py_ssize_t together, Py_ssize_t room,
        Window *window) noexcept nogil:
    """Set the window of the bin columns from `first` on; return the one after them.

    There is room for so many columns of pixels, with `together` channels.
    """
    cdef int q = first + 1, most = <int>(MAX_BINS // together)
    cdef int stop = min(call.pw, first + most)
    cdef Py_ssize_t low = 0, high = 0
    window.y0, window.y1 = part.window.y0, part.window.y1
    if part.window.x1 - part.window.x0 <= room and call.pw <= most:
        window.x0, window.x1 = part.window.x0, part.window.x1
        return call.pw
    hull(part.spans_x, first, q, call.tables.tap_pixel, &window.x0, &window.x1)
    while q < stop:
        hull(part.spans_x, q, q + 1, call.tables.tap_pixel, &low, &high)
        if low < high:
            if window.x0 < window.x1:
                low, high = min(low, window.x0), max(high, window.x1)
            if high - low > room:
                break
            window.x0, window.x1 = low, high
        q += 1
    return q


cdef inline Source source_of(
        const Call *call, const TileCache *tile, bint mixed) noexcept nogil:
    """The map with the channels of a pixel together if they are mixed, or its first channel."""
    cdef const Strides *strides = &call.map.strides
    cdef Py_ssize_t size = call.map.itemsize
    cdef Source source
    memset(&source, 0, sizeof(source))
    source.start, source.kind = tile.plane, call.map.kind
    source.stride_y, source.stride_x = strides.y * size, strides.x * size
    source.stride_c, source.channels = strides.channel * size, call.channels if mixed else 1
    source.dense = mixed or strides.x == 1
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


cdef inline void interleave(
        const real *planes, Py_ssize_t plane, Py_ssize_t count, Py_ssize_t channels, real *to,
        Py_ssize_t step) noexcept nogil:
    """The first `count` numbers of planes that lie `plane` apart, to pixels `step` apart."""
    cdef Py_ssize_t x, c
    if channels == 3 and step == 3:      # compilers use shuffles for this loop
        for x in range(count):
            to[3 * x], to[3 * x + 1] = planes[x], planes[plane + x]
            to[3 * x + 2] = planes[2 * plane + x]
        return
    for x in range(count):
        for c in range(channels):
            to[x * step + c] = planes[c * plane + x]


cdef inline void store_rows(
        const Call *call, const Part *part, Py_ssize_t channels, Py_ssize_t qs, real *to,
        Scratch *scratch) noexcept nogil:
    """Bins [channel][q][lane], where lanes are bin rows, to the output."""
    cdef int lanes = LANE_BYTES // sizeof(real)
    cdef Py_ssize_t rows = part.p1 - part.p0, count = qs, c, row
    cdef const real *bins = <const real*>scratch.bins
    cdef real *planes = <real*>scratch.staging
    cdef Target target
    target.strides.image, target.strides.y, target.strides.x = 0, 0, call.bins.x
    target.strides.channel, target.lanes = call.bins.y, <int>rows
    target.store, target.queue = call.store, &scratch.queue
    target.staging = scratch.staging
    if call.bins.channel != 1 or channels == 1:
        for c in range(channels):
            unpack(bins + c * qs * lanes, 1, qs, to + c * call.bins.channel, &target)
        return
    target.strides.channel, target.strides.x = qs, 1
    target.lanes, target.store, target.staging = lanes, DIRECT, NULL
    for c in range(channels):
        unpack(bins + c * qs * lanes, 1, qs, planes + c * qs * lanes, &target)
    if call.bins.y == qs * call.bins.x:      # rows lie end to end: one long row
        count = count * rows
        rows = 1
    for row in range(rows):
        interleave(planes + row * qs, qs * lanes, count, channels, to + row * call.bins.y,
                   call.bins.x)


cdef inline void sum_channels(
        const Call *call, const Part *part, const Source *map, int channel, const Lines *x,
        int columns, Strip *strip, real *bins) noexcept nogil:
    """bins[channel][column][bin row] = the sums of bin columns, of strip.channels channels."""
    cdef Source source = map[0]
    cdef Lines y
    cdef Sums sums
    cdef int c
    memset(&y, 0, sizeof(y))
    y.list.spans, y.list.pixel = part.spans_y + 2 * part.p0, call.tables.tap_pixel
    y.list.weight = call.tables.tap_weight
    strip.channel, strip.add = 0, False
    while strip.channel < strip.channels:
        source.start = map.start + (channel + strip.channel) * map.stride_c
        if real is float:
            sum_strip_float(&source, &y, part.p1 - part.p0, strip)
        else:
            sum_strip_double(&source, &y, part.p1 - part.p0, strip)
        strip.channel += source.channels
    sums.sums, sums.step, sums.first = bins, 1, 0
    for c in range(CROP_CHANNELS):
        sums.place[c], sums.scale[c], sums.bias[c] = c * columns, 1, -0.0      # -0 stays -0
    while sums.first < strip.channels:
        sums.channels = min(<int>CROP_CHANNELS, strip.channels - sums.first)
        if real is float:
            sum_strip_columns_float(strip, x, columns, &sums)
        else:
            sum_strip_columns_double(strip, x, columns, &sums)
        sums.first += sums.channels
        sums.sums = <real*>sums.sums + sums.channels * columns * (LANE_BYTES // sizeof(real))


cdef inline void reduce_row_lanes(
        const Call *call, const Part *part, const TileCache *tile, real *out,
        Scratch *scratch) noexcept nogil:
    """Up to a lane vector of bin rows of one box, of all channels; out: bin (0, 0)."""
    cdef Py_ssize_t room = call.layout.strip_bytes // LANE_BYTES, channels = call.channels
    cdef Py_ssize_t widest = max(part.window.x1 - part.window.x0, 1), together = channels
    cdef bint mixed = call.map.strides.channel == 1 and call.map.strides.x == channels
    cdef int q = 0, c, stop
    cdef Source source
    cdef Window window
    cdef Strip strip
    cdef Lines x
    if widest * channels > room:      # not all bin columns together
        widest = max(widest_bin(call, part), 1)
        mixed = mixed and widest * channels <= room
        together = max(min(room // widest, channels), 1)
    source = source_of(call, tile, mixed)
    if beyond_cache(call) and source.dense and call.map.itemsize == call.itemsize:
        if part.p0 == 0:
            prefetch_rows(call, part, &source, 0)
        if part.p1 < call.ph:
            prefetch_rows(call, part, &source, part.p1)
    stream_rest(&scratch.queue)      # the staging is needed again
    memset(&x, 0, sizeof(x))
    x.list.pixel, x.list.weight = call.tables.tap_pixel, call.tables.tap_weight
    strip.sums = scratch.strip
    out += part.p0 * call.bins.y
    while q < call.pw:
        stop = bins_of_columns(call, part, q, together, room // together, &window)
        strip.low, strip.stop = window.x0, window.x1
        x.list.spans = part.spans_x + 2 * q
        c = 0
        while c < channels:
            strip.channels = <int>min(together, channels - c)
            sum_channels(call, part, &source, c, &x, stop - q, &strip, <real*>scratch.bins)
            store_rows(call, part, strip.channels, stop - q,
                       out + c * call.bins.channel + q * call.bins.x, scratch)
            c += strip.channels
        q = stop
