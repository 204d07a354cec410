"""Facts about a level and its boxes that several methods ask for."""
from libc.stdint cimport int32_t

from plan.structs cimport LevelJob, Tables
from simd.structs cimport LANE_BYTES
from tuning cimport STREAM_BYTES, TILE_BYTES

cdef enum:
    TILE_PIXELS = TILE_BYTES // LANE_BYTES


cdef inline Py_ssize_t ceiling(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    """Return a / b, rounded up; neither is negative."""
    return (a + b - 1) // b


cdef inline bint has_no_work(const LevelJob *job) noexcept nogil:
    """Whether a level has nothing to read or to write."""
    return (job.order.count == 0 or job.call.channels == 0 or job.map.images == 0
            or job.map.rows == 0 or job.map.columns == 0)


cdef inline bint rows_contiguous(const LevelJob *job) noexcept nogil:
    return job.map.strides.x == 1


cdef inline bint needs_widening(const LevelJob *job) noexcept nogil:
    """Whether numbers of the map have to be widened before they are computed with."""
    return job.map.dtype != c'f' and job.map.dtype != c'd'


cdef inline bint channels_lie_together(const LevelJob *job) noexcept nogil:
    """Whether the channels of a pixel are read in place, or copied as they lie.

    If they are of a small type, they have to fill whole lane vectors.
    """
    return job.map.strides.channel == 1 and not job.call.position_sensitive and (
        job.map.itemsize == job.call.itemsize
        or job.call.channels * job.call.itemsize % LANE_BYTES == 0)


cdef inline bint beyond_cache(const LevelJob *job) noexcept nogil:
    """Whether the map of an image is too large to stay in cache."""
    return (<double>job.map.rows * job.map.columns * job.call.channels * job.call.itemsize
            > STREAM_BYTES)


cdef inline double window_area(const Tables *tables, Py_ssize_t i) noexcept nogil:
    """Pixels of a window; of a box with few taps, only those that are packed."""
    cdef const int32_t *window = tables.windows + 4 * i
    if tables.few_pixels != NULL and tables.few_pixels[i] > 0:
        return tables.few_pixels[i]
    return <double>(window[1] - window[0]) * (window[3] - window[2])
