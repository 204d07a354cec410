"""Facts about a level that several methods ask for, and about no batch of boxes."""
from plan.structs cimport LevelJob
from simd.structs cimport LANE_BYTES
from tuning cimport STREAM_BYTES, TILE_BYTES

cdef enum:
    TILE_PIXELS = TILE_BYTES // LANE_BYTES


cdef inline bint rows_contiguous(const LevelJob *job) noexcept nogil:
    return job.map.strides.x == 1


cdef inline bint needs_widening(const LevelJob *job) noexcept nogil:
    """Whether numbers of the map have to be widened before they are computed with."""
    return job.map.dtype != c'f' and job.map.dtype != c'd'


cdef inline bint channels_lie_together(const LevelJob *job) noexcept nogil:
    """Whether the channels of a pixel are read in place, or copied as they lie.

    If they are of a small type, they have to fill whole lane vectors.
    """
    return job.map.strides.channel == 1 and not job.position_sensitive and (
        job.map.itemsize == job.itemsize or job.channels * job.itemsize % LANE_BYTES == 0)


cdef inline bint beyond_cache(const LevelJob *job) noexcept nogil:
    """Whether the map of an image is too large to stay in cache."""
    return (<double>job.map.rows * job.map.columns * job.channels * job.itemsize
            > STREAM_BYTES)
