"""Shares: what methods divide the work of an image by."""
from plan.facts cimport TILE_PIXELS
from plan.structs cimport GRAD_INPUT, LevelJob, Shares, Work
from tuning cimport TASKS_PER_THREAD


cdef inline Py_ssize_t ceiling(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    """Return a / b, rounded up; neither is negative."""
    return (a + b - 1) // b


cdef inline void set_rectangles(
        const LevelJob *job, const Work *work, Py_ssize_t together, Shares *shares) noexcept nogil:
    """Set the largest rectangles whose pixels, of so many bins together, the tile has room for.

    Rows are divided further only where images, blocks and bins do not make enough tasks.  In
    gradients of maxima each bin writes anywhere in its box, or in the map, so that rectangles are
    as large as they can be, and of whole rows.
    """
    cdef Py_ssize_t wanted = work.threads
    cdef Py_ssize_t others = job.map.images * shares.blocks * shares.bins
    shares.columns, shares.rows = job.map.columns, job.map.rows
    if job.call.purpose == GRAD_INPUT:
        wanted *= TASKS_PER_THREAD
        shares.columns = max(min(shares.columns, TILE_PIXELS // together), 1)
        shares.rows = max(min(shares.rows, TILE_PIXELS // (shares.columns * together)), 1)
    shares.bands = ceiling(job.map.rows, shares.rows)
    if work.threads > 1:
        shares.bands = max(shares.bands, ceiling(wanted, max(others, 1)))
