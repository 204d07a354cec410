"""Describe: what a door says of a call before it is computed.

Doors include this and none of what computes a call, which they ask `compute_call` of
call/plan.pyx for.
"""
from libc.stdint cimport INT32_MAX

from arrays cimport Array, strides_of
from errors cimport zeros_for
from limits cimport MAX_EXTENT
from plan.structs cimport Call, LevelJob, Map, writes_maps
from simd.structs cimport DIRECT, STAGED, STREAMING, Strides
from tuning cimport STREAM_BYTES

cdef enum:
    DIRECT_BYTES = 256 << 10       # results up to this are written without staging     # R088


cdef inline int make_levels(Call *call, Py_ssize_t levels) noexcept nogil:
    """Make room for what is known of each level, which then knows where the call is."""
    cdef Py_ssize_t level
    call.jobs = <LevelJob*>zeros_for(levels, sizeof(LevelJob))
    if call.jobs == NULL:
        return -1
    call.levels = levels
    for level in range(levels):
        call.jobs[level].call = call
    return 0


cdef inline bint is_map(const Array *array) noexcept nogil:
    """Whether an array has four axes, of extents that can be counted, and a type of maps."""
    cdef int kind = array.kind, i
    if array.axes != 4 or array.extents[0] > INT32_MAX:
        return False
    for i in range(1, 4):
        if array.extents[i] > MAX_EXTENT:
            return False
    return (kind == c'f' or kind == c'd' or kind == c'e' or kind == c'E' or kind == c'B'
            or kind == c'b' or kind == c'h' or kind == c'H')


cdef inline void set_map(Call *call, Py_ssize_t level, const Array *array) noexcept nogil:
    """Say where the map of a level is, or its gradient, as (N, C, H, W)."""
    cdef Map *map = &call.jobs[level].map
    map.data, map.dtype, map.itemsize = array.data, array.kind, array.itemsize
    map.strides = strides_of(array)
    map.images, map.rows, map.columns = array.extents[0], array.extents[2], array.extents[3]
    call.input_channels = array.extents[1]
    call.itemsize = sizeof(double) if map.dtype == c'd' else sizeof(float)


cdef inline bint set_channels(Call *call) noexcept nogil:
    """Set the channels of the output; False if those of the input are no multiple of the bins."""
    cdef Py_ssize_t bins = <Py_ssize_t>call.ph * call.pw
    call.channels_per_output = bins if call.position_sensitive else 1
    call.channels = call.input_channels // call.channels_per_output
    return call.input_channels % call.channels_per_output == 0


cdef inline int store_for(double bytes) noexcept nogil:
    """How an array of so many bytes is written; large ones do not stay in cache anyway."""
    if bytes > STREAM_BYTES:
        return STREAMING
    return STAGED if bytes > DIRECT_BYTES else DIRECT


cdef inline void set_result(Call *call, void *result, Strides strides) noexcept nogil:
    """Say where the output is, or the gradient of it, seen as (K, C, PH, PW)."""
    cdef Py_ssize_t level
    cdef bint writes = writes_maps(call.purpose)
    cdef int store = store_for(<double>call.boxes.count * call.channels * call.ph * call.pw
                               * call.itemsize)
    cdef const Map *map
    call.result, call.out_strides = result, strides
    for level in range(call.levels):
        map = &call.jobs[level].map
        if writes:
            store = store_for(<double>map.images * call.input_channels * map.rows * map.columns
                              * map.itemsize)
        call.jobs[level].store = store
