"""Maxima: what passes of the largest pixels and of the largest samples have in common."""
from libc.float cimport DBL_MAX, FLT_MAX
from libc.stdint cimport int32_t, uint8_t

from passes.walk cimport Part
from plan.facts cimport TILE_PIXELS, ceiling
from plan.structs cimport COPY_ONCE, MAX_PIXEL_GRAD, LevelJob, Shares, Work
from simd.structs cimport LANE_BYTES, real

cdef enum:
    PLANES_BYTES = 256 << 10       # planes of a task: half of a small level 2 cache    # R178
    LINE_BYTES = 64                # of a pixel, which a task has at least               # R534
    PLANES_PER_THREAD = 2          # tasks, each of which goes through all boxes        # R532


cdef inline real lowest(const real *_) noexcept nogil:
    """The lowest finite number, which a maximum begins with; the pointer only chooses the type."""
    return -FLT_MAX if real is float else -DBL_MAX


cdef inline void begin_maxima(
        const LevelJob *job, const Part *part, real *bins, int32_t *bins_at) noexcept nogil:
    """Set each bin to what its maximum begins with: 0 where it is empty, or where single samples
    of it lie off the map.  bins_at: where maxima are, -1 for nowhere; or NULL."""
    cdef int lanes = LANE_BYTES // sizeof(real), lane, p, q
    cdef const uint8_t *outside = job.tables.outside
    cdef bint zero
    if outside != NULL:
        outside += part.box * job.tables.spans_of_box
    for p in range(part.p0, part.p1):
        for q in range(part.q0, part.q1):
            zero = (part.spans_y[2 * p] >= part.spans_y[2 * p + 1]
                    or part.spans_x[2 * q] >= part.spans_x[2 * q + 1]
                    or (outside != NULL and (outside[p] or outside[job.call.ph + q])))
            for lane in range(lanes):
                bins[lane] = <real>0 if zero else lowest(bins)
            bins += lanes
            if bins_at != NULL:
                for lane in range(lanes):
                    bins_at[lane] = -1
                bins_at += lanes


cdef inline void shares_of_maxima(
        const LevelJob *job, const Work *work, bint together, Shares *shares) noexcept nogil:
    """How channels of gradients are divided, whose boxes write anywhere.

    together: the channels of a pixel are written together, as many as a cache line has at least.
    Other tasks have no more planes than stay in cache.
    """
    cdef Py_ssize_t pixels = job.map.rows * job.map.columns, for_cache = 1
    if not together:
        for_cache = ceiling(work.blocks * pixels * job.call.lanes * job.call.itemsize, PLANES_BYTES)
    if job.call.lanes == 1 and work.threads > 1:
        for_cache = max(for_cache, PLANES_PER_THREAD * work.threads)
    shares.blocks = min(work.blocks, max(<Py_ssize_t>work.threads, for_cache))
    if together:
        shares.blocks = min(shares.blocks, ceiling(
            <Py_ssize_t>job.call.channels * job.call.itemsize, LINE_BYTES))
    # Neighbouring channels of a pixel share cache lines, and hardware fetches the next one too.  A
    # tile for each thread keeps threads from taking them from each other.
    if (job.call.purpose == MAX_PIXEL_GRAD and together and shares.blocks > 1
            and pixels * ceiling(work.blocks, shares.blocks) <= TILE_PIXELS):
        shares.load = COPY_ONCE
