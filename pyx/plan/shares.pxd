"""Shares: what methods divide the work of an image by."""
from libc.stdint cimport int32_t

from plan.facts cimport TILE_PIXELS, ceiling
from plan.structs cimport GRAD_INPUT, LevelJob, Shares, Work
from tuning cimport TASKS_PER_THREAD

cdef enum:
    BIN_PIXELS = 2                 # that cost as much as a bin that is packed: rough   # R530

# Costs that are not whole numbers, which an enum cannot hold.
cdef extern from *:
    """
    #define UNEVEN 0.25
    """
    const double UNEVEN            # of a task, by which the last thread is late: rough # R531


cdef inline Py_ssize_t cost_of_bins(const LevelJob *job) noexcept nogil:
    """Return what the bins of a box cost for each block, in pixels."""
    if job.call.position_sensitive:
        return 1
    return <Py_ssize_t>BIN_PIXELS * job.call.ph * job.call.pw


cdef inline Py_ssize_t cost_again(const LevelJob *job) noexcept nogil:
    """Return what it costs to read a box again in a further band: all bins that are packed, whose
    cache lines have all rows, or a row of those that are read in place."""
    if job.call.position_sensitive:
        return 1
    return cost_of_bins(job) // (job.call.ph if job.call.out_strides.channel == 1 else 1)


cdef inline double cost_of_cut(const LevelJob *job) noexcept nogil:
    """Return what a further band costs for each block: boxes are read again that lie in two."""
    cdef const int32_t *window = job.tables.windows
    cdef double rows = 0
    for _ in range(job.tables.count):
        rows += window[1] - window[0]
        window += 4
    return rows * cost_again(job) / job.map.rows


cdef inline double cost_of_map(const LevelJob *job) noexcept nogil:
    """Return what the maps of a level cost for each block if no box is read again: an operation
    for each pixel of a box, for each bin and for each pixel that is written."""
    cdef const int32_t *window = job.tables.windows
    cdef double cost = <double>job.map.images * job.map.rows * job.map.columns
    cost += <double>job.tables.count * cost_of_bins(job)
    for _ in range(job.tables.count):
        cost += <double>(window[1] - window[0]) * (window[3] - window[2])
        window += 4
    return cost


cdef inline Py_ssize_t even_bands(
        const LevelJob *job, const Work *work, Py_ssize_t others) noexcept nogil:
    """Return into how many bands of rows work is divided that ends soonest, by an estimate: many
    tasks end evenly, and few read fewer boxes again.  others: tasks of a band."""
    cdef Py_ssize_t bands = 1, best = 1, tasks
    cdef double whole = cost_of_map(job), cut = cost_of_cut(job), ends, soonest = 0
    while bands == 1 or (bands - 1) * others < TASKS_PER_THREAD * work.threads:
        tasks = bands * others
        ends = ((whole + (bands - 1) * cut) / tasks
                * (ceiling(tasks, work.threads) + UNEVEN))
        if bands == 1 or ends < soonest:
            best, soonest = bands, ends
        bands += 1
    return best


cdef inline void set_rectangles(
        const LevelJob *job, const Work *work, Py_ssize_t together, Shares *shares) noexcept nogil:
    """Set the largest rectangles whose pixels, of so many bins together, the tile has room for.

    Rows are divided further only where images, blocks and bins do not make enough tasks, since a
    box is read again in each of the bands that it reaches into.  In gradients of maxima each bin
    writes anywhere in its box, or in the map, so that rectangles are as large as they can be, and
    of whole rows.
    """
    cdef Py_ssize_t others = max(job.map.images * shares.blocks * shares.bins, 1)
    shares.columns, shares.rows = job.map.columns, job.map.rows
    if job.call.purpose == GRAD_INPUT:
        shares.columns = max(min(shares.columns, TILE_PIXELS // together), 1)
        shares.rows = max(min(shares.rows, TILE_PIXELS // (shares.columns * together)), 1)
    shares.bands = ceiling(job.map.rows, shares.rows)
    if work.threads > 1 and job.call.purpose == GRAD_INPUT:
        shares.bands = max(shares.bands, even_bands(job, work, others))
    elif work.threads > 1:
        shares.bands = max(shares.bands, ceiling(work.threads, others))
