"""Cost: roughly how long a call takes, from its arguments alone.

Whoever holds Python's lock asks, to keep it for brief calls.  Numbers are nanoseconds of a core
with AVX2 or AVX-512, found by timing random calls: most calls take half to twice as long (R494).
Where boxes are thin or maps are many they are upper bounds: one task may have all of the work.
"""
from libc.math cimport INFINITY, fabs

from call.call cimport Call
from plan.rules cimport RULE_QUANTISED, RULE_ROTATED, RULE_SINGLE_SAMPLES
from plan.structs cimport GRAD_BOXES, MAX_PIXEL, LevelJob, Map, Scale, writes_maps
from simd.structs cimport LANE_BYTES
from threads cimport BRIEF
from tuning cimport FEW_TAPS_GAIN

cdef enum:
    IMAGE = 10                     # nanoseconds of an image, with boxes or not # no record
    TABLE_TAP = 2                  # of a row or column that a box reads # no record


cdef struct Costs:                 # of the boxes of a call
    double blocks                  # lane vectors of a pixel or bin
    double pixel                   # of a lane vector that is read among its neighbours
    double tap                     # of one that is read alone
    double row                     # of a row of a window, for each block
    double unit                    # of a box and block, or of a bin of its own channels and block
    double bin                     # of a box's bin, whatever the channels
    double sample                  # of a sample that is looked at one by one


cdef inline Costs costs_of(const Call *call) noexcept nogil:
    cdef Costs costs
    cdef const LevelJob *job = call.jobs
    cdef bint together = job.map.strides.channel == 1
    cdef double filled
    costs.blocks = (call.channels * call.itemsize + LANE_BYTES - 1) // LANE_BYTES
    costs.bin, costs.sample = 4, 0
    if together:
        costs.pixel, costs.tap, costs.row, costs.unit = 0.5, 1.5, 0, 15
    else:      # a lane vector is packed from as many planes
        filled = min(<double>call.channels * call.itemsize / LANE_BYTES, 1)
        costs.pixel, costs.tap, costs.row, costs.unit = filled, 80 * filled, 40 * filled, 40
    if call.position_sensitive and together and call.ph * call.pw > 1:
        costs.pixel = costs.tap = 40
    if call.purpose == MAX_PIXEL:
        costs.pixel *= 4
    if job.map.itemsize < call.itemsize:
        costs.pixel, costs.tap = 2 * costs.pixel, 2 * costs.tap
    if call.purpose == GRAD_BOXES:
        costs.bin = 30
    if call.rule.kind == RULE_ROTATED:
        costs.sample = 40
    elif call.rule.kind == RULE_SINGLE_SAMPLES:
        costs.sample = 12 * costs.blocks
    return costs


cdef inline double side(double low, double stop, double scale, double most) noexcept nogil:
    """Pixels along an axis of a box that reads some at all, at most so many."""
    return min(fabs(stop - low) * scale, most - 1) + 1


cdef inline double nanoseconds_of_box(
        const Call *call, const Costs *costs, const double *box, const Map *map,
        const Scale *scale) noexcept nogil:
    """map, scale: the largest of all levels along each axis."""
    cdef double bins = <double>call.ph * call.pw, ratio = call.rule.sampling_ratio, units = 1
    cdef double rows, columns, samples, read
    cdef bint turned = call.rule.kind == RULE_ROTATED
    if turned:                     # samples are looked at wherever they are
        rows, columns = side(0, box[3], scale.y, INFINITY), side(0, box[2], scale.x, INFINITY)
    else:
        rows = side(box[1], box[3], scale.y, map.rows)
        columns = side(box[0], box[2], scale.x, map.columns)
    samples = (rows + call.ph) * (columns + call.pw)
    read = costs.pixel * rows * columns + costs.row * rows
    if ratio > 0 and call.rule.kind != RULE_QUANTISED:
        samples = bins * ratio * ratio
        if rows * columns > FEW_TAPS_GAIN * 4 * samples:
            read = min(read, 4 * costs.tap * samples)
    if call.position_sensitive:
        units = bins
    return (costs.blocks * (read + costs.unit * units + 6 * bins) + costs.bin * bins
            + costs.sample * samples + 15.0 * (call.ph + call.pw)
            + (0 if turned else TABLE_TAP * (rows + columns)))


cdef inline double nanoseconds_of_call(const Call *call) noexcept nogil:
    """Roughly how long a call takes; no more is added up once it is not brief."""
    cdef const LevelJob *job
    cdef Costs costs = costs_of(call)
    cdef double cost = 0
    cdef Map map = call.jobs.map
    cdef Scale scale = call.jobs.scale
    cdef Py_ssize_t k, level
    for level in range(call.levels):
        job = &call.jobs[level]
        map.rows, map.columns = max(map.rows, job.map.rows), max(map.columns, job.map.columns)
        scale.y, scale.x = max(scale.y, job.scale.y), max(scale.x, job.scale.x)
        cost += IMAGE * <double>job.map.images
        if writes_maps(call.purpose):
            cost += (<double>job.map.rows * job.map.columns * job.map.images * call.input_channels
                     * (3 if call.position_sensitive else 0.1))
    for k in range(call.boxes.count):
        if cost > BRIEF:
            break
        cost += nanoseconds_of_box(
            call, &costs, call.boxes.numbers + call.boxes.width * k, &map, &scale)
    return cost
