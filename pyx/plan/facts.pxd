"""Facts about a level that several methods ask for, and about no batch of boxes."""
from plan.structs cimport Call
from simd.structs cimport LANE_BYTES
from tuning cimport STREAM_BYTES, TILE_BYTES

cdef enum:
    TILE_PIXELS = TILE_BYTES // LANE_BYTES


cdef inline bint rows_contiguous(const Call *call) noexcept nogil:
    return call.map.strides.x == 1


cdef inline bint needs_widening(const Call *call) noexcept nogil:
    """Whether numbers of the map have to be widened before they are computed with."""
    return call.map.kind != c'f' and call.map.kind != c'd'


cdef inline bint channels_lie_together(const Call *call) noexcept nogil:
    """Whether the channels of a pixel are read in place, or copied as they lie.

    If they are of a small type, they have to fill whole lane vectors.
    """
    return call.map.strides.channel == 1 and not call.position_sensitive and (
        call.map.itemsize == call.itemsize or call.channels * call.itemsize % LANE_BYTES == 0)


cdef inline bint beyond_cache(const Call *call) noexcept nogil:
    """Whether the map of an image is too large to stay in cache."""
    return (<double>call.map.rows * call.map.columns * call.channels * call.itemsize
            > STREAM_BYTES)
