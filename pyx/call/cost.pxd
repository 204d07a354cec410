"""Cost: roughly how long a call takes, from its arguments alone.

Whoever holds Python's lock asks, to keep it for brief calls.  Numbers are nanoseconds of a core
with AVX2 or AVX-512, found by timing random calls: most calls take half to twice as long (R494).
"""
from libc.math cimport fabs, sqrt

from call.call cimport Call
from plan.rules cimport RULE_QUANTISED, RULE_ROTATED, RULE_SINGLE_SAMPLES
from plan.structs cimport GRAD_BOXES, MAX_PIXEL, LevelJob, writes_maps
from simd.structs cimport LANE_BYTES
from tuning cimport FEW_TAPS_GAIN

cdef enum:
    SMALL_CALL = 100000            # for which Python's lock is kept: 0.1 ms            # R491


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


cdef inline double nanoseconds_of_box(
        const Call *call, const Costs *costs, const double *box, double scale,
        double most) noexcept nogil:
    """scale: from areas of boxes to pixels; most: pixels of the largest map."""
    cdef double bins = <double>call.ph * call.pw, ratio = call.rule.sampling_ratio, units = 1
    cdef double area = box[2] * box[3], samples, read
    if call.boxes.width == 4:
        area = (box[2] - box[0]) * (box[3] - box[1])
    area = min(fabs(area) * scale, most)
    samples = max(area, bins)
    read = costs.pixel * area + costs.row * sqrt(area)
    if ratio > 0 and call.rule.kind != RULE_QUANTISED:
        samples = bins * ratio * ratio
        if area > FEW_TAPS_GAIN * 4 * samples:
            read = min(read, 4 * costs.tap * samples)
    if call.position_sensitive:
        units = bins
    return (costs.blocks * (read + costs.unit * units + 6 * bins) + costs.bin * bins
            + costs.sample * samples + 15.0 * (call.ph + call.pw))


cdef inline bint is_brief(const Call *call) noexcept nogil:
    """Whether a call takes about 0.1 ms at most."""
    cdef const LevelJob *job
    cdef Costs costs = costs_of(call)
    cdef double cost = 0, most = 0, scale = 0, pixels
    cdef Py_ssize_t k, level
    for level in range(call.levels):
        job = &call.jobs[level]
        pixels = <double>job.map.rows * job.map.columns
        most, scale = max(most, pixels), max(scale, job.scale.y * job.scale.x)
        if writes_maps(call.purpose):
            pixels *= job.map.images * call.input_channels
            cost += pixels * (3 if call.position_sensitive else 0.1)
    for k in range(call.boxes.count):
        if cost > SMALL_CALL:
            return False
        cost += nanoseconds_of_box(
            call, &costs, call.boxes.numbers + call.boxes.width * k, scale, most)
    return cost <= SMALL_CALL
