"""Ways: how the window of an upright box is computed, and which axis is first.

`x_first` changes bits of a result, since it decides in which order sums are taken.  It looks at
nothing but boxes, bins and channels, so that a box has the same bits in every batch.
"""
from libc.stdint cimport int32_t, uint8_t

from plan.facts cimport TILE_PIXELS
from plan.structs cimport CELLS, FORWARD, NOTHING, TAPS, WHOLE, LevelJob
from simd.structs cimport LANE_BYTES
from tuning cimport MAX_COLUMNS, STRIP_BYTES

cdef enum:
    X_FIRST_GAIN = 100             # lane vectors saved, for x first to pay             # R082


cdef struct Side:                  # some bins of a box along one axis
    const int32_t *spans
    Py_ssize_t bins
    Py_ssize_t pixels              # of their window


cdef inline bint channels_are_few(const LevelJob *job) noexcept nogil:
    """Whether bin rows fill lanes at least twice as well as channels do."""
    cdef int vectors = (job.call.ph + job.call.lanes - 1) // job.call.lanes
    return 2 * job.call.channels * vectors <= job.call.ph


cdef inline Py_ssize_t taps_of(const Side *side) noexcept nogil:
    """Taps of the bins, which follow each other."""
    return side.spans[2 * side.bins - 1] - side.spans[0]


cdef inline bint x_first(const LevelJob *job, const Side *y, const Side *x) noexcept nogil:
    """Whether bins of a forward pass are contracted along x first, since that is less work.

    Windows that are computed in cells are contracted along y first.  So are few channels, since
    bin rows can be their lanes.
    """
    cdef Py_ssize_t taps_y, taps_x
    if (job.call.purpose != FORWARD or job.call.position_sensitive or y.pixels <= 0
            or y.pixels > STRIP_BYTES // LANE_BYTES or x.pixels > MAX_COLUMNS
            or y.pixels * x.pixels > TILE_PIXELS):
        return False
    taps_y, taps_x = taps_of(y), taps_of(x)
    return (y.pixels * taps_x + x.bins * taps_y + X_FIRST_GAIN
            < x.pixels * taps_y + y.bins * taps_x and not channels_are_few(job))


cdef inline int way_of_window(Py_ssize_t rows, Py_ssize_t columns) noexcept nogil:
    """The way of a window whose pixels are all loaded."""
    if rows <= 0 or columns <= 0:
        return NOTHING
    return CELLS if columns > MAX_COLUMNS or rows * columns > TILE_PIXELS else WHOLE


cdef inline bint has_few_taps(const LevelJob *job, Py_ssize_t box) noexcept nogil:
    return job.tables.few_pixels != NULL and job.tables.few_pixels[box] > 0


cdef inline void set_ways(LevelJob *job) noexcept nogil:
    """Set the way of each upright box, if all its bins are computed together."""
    cdef const int32_t *window = job.tables.windows
    cdef Py_ssize_t i
    cdef Side y, x
    y.bins, x.bins, y.spans = job.call.ph, job.call.pw, job.tables.spans
    for i in range(job.tables.count):
        x.spans = y.spans + 2 * y.bins
        y.pixels, x.pixels = window[1] - window[0], window[3] - window[2]
        job.tables.ways[i] = <uint8_t>way_of_window(y.pixels, x.pixels)
        if job.tables.ways[i] != NOTHING and has_few_taps(job, i):
            job.tables.ways[i] = TAPS
        job.tables.x_first[i] = x_first(job, &y, &x)
        y.spans = x.spans + 2 * x.bins
        window += 4
