"""Row lanes: where channels are few, the bin rows of a channel are the lanes instead.

Pixels are contracted along y first, row by row as they lie in memory.  A lane vector of such rows
is transposed into a strip [channel][x][lane], which is then contracted along x as elsewhere.
"""
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from kernels.run cimport Part, Scratch
from move.pack cimport pack
from move.store cimport Target, unpack
from move.tile cimport TileCache, Window
from plan.spans cimport hull
from plan.structs cimport DIRECT, Call, Strides
from simd.simd cimport (LANE_BYTES, Taps, Vectors, add_product, contract_axis, prefetch_run, real,
                        stream_rest, widen)
from tuning cimport MAX_BINS


cdef struct Runs:                  # how rows of the map are read: in runs of contiguous numbers
    Py_ssize_t channels            # channels that are computed together
    Py_ssize_t columns             # columns of the map that are computed together
    bint mixed                     # a run holds all channels, and not only one
    bint in_place                  # runs are read in the map, and not copied to the tile
    bint prefetch                  # rows are not in cache, and too short for hardware to foresee


cdef inline Py_ssize_t widest_bin(const Call *call, const Part *part) noexcept nogil:
    cdef Py_ssize_t low = 0, high = 0, widest = 0
    cdef int q
    for q in range(call.pw):
        hull(part.spans_x, q, q + 1, call.tables.tap_pixel, &low, &high)
        widest = max(widest, high - low)
    return widest


cdef inline Runs runs_of(const Call *call, const Part *part) noexcept nogil:
    """How the bin rows of a part are read, in scratch that has room for any bin column."""
    cdef Py_ssize_t channels = call.channels, columns = part.window.x1 - part.window.x0
    cdef Py_ssize_t room = call.layout.strip_bytes // LANE_BYTES, widest = columns
    cdef Py_ssize_t tile = call.layout.tile_bytes // call.itemsize
    cdef const Strides *strides = &call.map.strides
    cdef bint converted = call.map.itemsize != call.itemsize
    cdef Runs runs
    tile = min(room, tile // max(part.window.y1 - part.window.y0, 1))
    if widest * channels > tile:      # not all bin columns together
        widest = widest_bin(call, part)
    runs.mixed = (strides.channel == 1 and strides.x == channels
                  and widest * channels <= (tile if converted else room))
    runs.in_place = not converted and (runs.mixed or strides.x == 1)
    runs.prefetch = runs.in_place and call.beyond_cache
    runs.channels = channels if runs.mixed else 1
    if runs.in_place and not runs.mixed:      # as many as there is room for with all columns
        runs.channels = max(min(room // max(columns, 1), channels), 1)
    runs.columns = (room if runs.in_place else tile) // runs.channels
    return runs


cdef inline int bins_of_columns(
        const Call *call, const Part *part, int first, const Runs *runs,
        Window *window) noexcept nogil:
    """Set the window of the bin columns from `first` on that fit; return the column after them."""
    cdef int q = first + 1, most = <int>(MAX_BINS // runs.channels)
    cdef int stop = min(call.pw, first + most)
    cdef Py_ssize_t low = 0, high = 0
    window.y0, window.y1 = part.window.y0, part.window.y1
    if part.window.x1 - part.window.x0 <= runs.columns and call.pw <= most:
        window.x0, window.x1 = part.window.x0, part.window.x1
        return call.pw
    hull(part.spans_x, first, q, call.tables.tap_pixel, &window.x0, &window.x1)
    while q < stop:
        hull(part.spans_x, q, q + 1, call.tables.tap_pixel, &low, &high)
        if low < high:
            if window.x0 < window.x1:
                low, high = min(low, window.x0), max(high, window.x1)
            if high - low > runs.columns:
                break
            window.x0, window.x1 = low, high
        q += 1
    return q


cdef inline void read_runs(
        const TileCache *tile, Py_ssize_t at, Py_ssize_t rows, Py_ssize_t count, Py_ssize_t step,
        real *to) noexcept nogil:
    """Copy `count` numbers of each row to one long run.

    at: the first number, counted from the start of the plane; step: between numbers of a row.
    """
    cdef Py_ssize_t size = tile.itemsize, x
    for _ in range(rows):
        if size == sizeof(real):
            for x in range(count):
                to[x] = (<const real*>tile.plane)[at + x * step]
        elif step == 1:
            widen(tile.plane + at * size, tile.kind, count, to)
        else:
            for x in range(count):
                widen(tile.plane + (at + x * step) * size, tile.kind, 1, to + x)
        to += count
        at += tile.strides.y


cdef inline const real *load_runs(
        const Call *call, const TileCache *tile, const Runs *runs, const Window *window,
        Py_ssize_t channel, real *memory, Py_ssize_t *row_step) noexcept nogil:
    """Return where row 0 begins at column window.x0; only rows of the window may be read."""
    cdef const Strides *strides = &call.map.strides
    cdef Py_ssize_t at = channel * strides.channel + window.x0 * strides.x
    cdef Py_ssize_t run = (window.x1 - window.x0) * (call.channels if runs.mixed else 1)
    row_step[0] = strides.y
    if runs.in_place:
        return <const real*>tile.plane + at
    read_runs(tile, at + window.y0 * strides.y, window.y1 - window.y0, run,
              1 if runs.mixed else strides.x, memory)
    row_step[0] = run
    return memory - window.y0 * run


cdef inline void contract_run(
        real *to, const real *source, Py_ssize_t count, const Taps *taps,
        Py_ssize_t stride) noexcept nogil:
    """to[i] = the sum over taps of weight * source[i + pixel * stride], as contract_axis adds."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), lane, j
    cdef Py_ssize_t first = taps.spans[0]
    cdef const real *weight = <const real*>taps.weight
    cdef real[16] sums, values
    cdef Vectors vectors
    if count >= lanes:
        vectors.start, vectors.step, vectors.stride = source, lanes, stride
        vectors.count = count // lanes
        contract_axis(to, lanes, &vectors, taps, False)
        if count % lanes > 0:      # the last vector overlaps the one before
            vectors.start, vectors.count = source + count - lanes, 1
            contract_axis(to + count - lanes, lanes, &vectors, taps, False)
        return
    memset(sums, 0, LANE_BYTES)
    memset(values, 0, LANE_BYTES)
    for j in range(first, taps.spans[1]):
        memcpy(values, source + taps.pixel[j] * stride, count * sizeof(real))
        if j > first:
            add_product(sums, weight[j], values)
        else:
            for lane in range(lanes):
                sums[lane] = weight[j] * values[lane]
    memcpy(to, sums, count * sizeof(real))


cdef inline void prefetch_rows_after(
        const Call *call, const Runs *runs, const real *source, Py_ssize_t row_step,
        Py_ssize_t channels, Py_ssize_t bytes, const int32_t *span) noexcept nogil:
    """The rows of the map that only the next bin row reads."""
    cdef const int32_t *pixel = call.tables.tap_pixel
    cdef Py_ssize_t tap, c
    for tap in range(span[1], span[3]):
        if pixel[tap] > pixel[span[1] - 1]:
            for c in range(1 if runs.mixed else channels):
                prefetch_run(source + c * call.map.strides.channel + pixel[tap] * row_step, bytes)


cdef inline void contract_rows(
        const Call *call, const Part *part, const Runs *runs, const real *source,
        Py_ssize_t row_step, Py_ssize_t columns, Py_ssize_t channels, real *strip) noexcept nogil:
    """The strip [channel][x][lane] of a part, or of mixed runs [x][channel][lane]."""
    cdef int lanes = LANE_BYTES // sizeof(real), row, rows = part.p1 - part.p0
    cdef Py_ssize_t width = columns * channels, run = width if runs.mixed else columns, c
    cdef real *lines = strip + call.layout.strip_bytes // <Py_ssize_t>sizeof(real)
    cdef Taps taps
    cdef Strides planes
    taps.spans, taps.pixel = part.spans_y + 2 * part.p0, call.tables.tap_pixel
    taps.weight = call.tables.tap_weight
    for row in range(rows):
        if runs.prefetch and row + 1 < rows and taps.spans[1] > taps.spans[0]:
            prefetch_rows_after(call, runs, source, row_step, channels, run * sizeof(real),
                                taps.spans)
        for c in range(1 if runs.mixed else channels):
            contract_run(lines + row * width + c * run, source + c * call.map.strides.channel, run,
                         &taps, row_step)
        taps.spans += 2
    memset(lines + rows * width, 0, (lanes - rows) * width * sizeof(real))
    planes.image, planes.channel, planes.y, planes.x = 0, width, 0, 1
    pack(lines, planes, lanes, 1, width, strip)


cdef inline void interleave(
        const real *planes, Py_ssize_t count, Py_ssize_t channels, real *to,
        Py_ssize_t step) noexcept nogil:
    """Channels of `count` numbers each, end to end, to pixels that lie `step` apart."""
    cdef Py_ssize_t x, c
    if channels == 3 and step == 3:      # compilers use shuffles for this loop
        for x in range(count):
            to[3 * x], to[3 * x + 1] = planes[x], planes[count + x]
            to[3 * x + 2] = planes[2 * count + x]
        return
    for x in range(count):
        for c in range(channels):
            to[x * step + c] = planes[c * count + x]


cdef inline void store_rows(
        const Call *call, const Part *part, Py_ssize_t channels, Py_ssize_t qs, real *to,
        Scratch *scratch) noexcept nogil:
    """Bins [channel][q][lane], where lanes are bin rows, to the output."""
    cdef int lanes = LANE_BYTES // sizeof(real), row
    cdef Py_ssize_t c
    cdef const real *bins = <const real*>scratch.bins
    cdef real *planes = <real*>scratch.staging
    cdef Target target
    target.strides.image, target.strides.y, target.strides.x = 0, 0, call.bins.x
    target.strides.channel, target.lanes = call.bins.y, part.p1 - part.p0
    target.store, target.queue = call.store, &scratch.queue
    target.staging = scratch.staging
    if call.bins.channel != 1 or channels == 1:
        for c in range(channels):
            unpack(bins + c * qs * lanes, 1, qs, to + c * call.bins.channel, &target)
        return
    target.strides.channel, target.strides.x = channels * qs, 1
    target.lanes, target.store, target.staging = lanes, DIRECT, NULL
    for c in range(channels):
        unpack(bins + c * qs * lanes, 1, qs, planes + c * qs, &target)
    for row in range(part.p1 - part.p0):
        interleave(planes + row * channels * qs, qs, channels, to + row * call.bins.y, call.bins.x)


cdef inline void reduce_row_lanes(
        const Call *call, const Part *part, const TileCache *tile, real *out,
        Scratch *scratch) noexcept nogil:
    """Up to a lane vector of bin rows of one box, of all channels; out: bin (0, 0)."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), c, together, columns, row_step = 0
    cdef int q = 0, i, stop
    cdef Runs runs = runs_of(call, part)
    cdef Py_ssize_t column
    cdef Window window
    cdef const real *source
    cdef real *strip = <real*>scratch.strip
    cdef Taps taps
    cdef Vectors strips
    stream_rest(&scratch.queue)      # the staging is needed again
    taps.pixel, taps.weight = call.tables.tap_pixel, call.tables.tap_weight
    out += part.p0 * call.bins.y
    while q < call.pw:
        stop = bins_of_columns(call, part, q, &runs, &window)
        columns = window.x1 - window.x0
        c = 0
        while c < call.channels:
            together = min(runs.channels, call.channels - c)
            column = lanes * (together if runs.mixed else 1)
            source = load_runs(call, tile, &runs, &window, c, <real*>scratch.tile, &row_step)
            contract_rows(call, part, &runs, source, row_step, columns, together, strip)
            strips.start, strips.stride = strip - window.x0 * column, column
            strips.step, strips.count = lanes if runs.mixed else columns * lanes, together
            taps.spans = part.spans_x + 2 * q
            for i in range(stop - q):
                contract_axis(<real*>scratch.bins + i * lanes, (stop - q) * lanes, &strips, &taps,
                              False)
                taps.spans += 2
            store_rows(call, part, together, stop - q,
                       out + c * call.bins.channel + q * call.bins.x, scratch)
            c += together
        q = stop
