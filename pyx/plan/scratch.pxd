"""Scratch: how much of it a thread has, and where each part of it begins."""
from plan.facts cimport channels_lie_together
from plan.structs cimport COPY_ONCE, GRAD_BOXES, MAX_PIXEL_GRAD, LevelJob, ScratchSizes, Task
from simd.structs cimport LANE_BYTES, PAGE_BYTES
from tuning cimport BINS_BYTES, MAX_COLUMNS, SLOPE_BLOCKS, TILE_BYTES, WIDE_STRIP_BYTES

cdef enum:
    MAX_STRIP_BYTES = 256 << 10    # of a strip of a gradient of the input: whole rows  # R227
    SLOPE_TILES_BYTES = 8 << 20    # tiles of all blocks whose slopes are summed        # R275


cdef inline Py_ssize_t slope_blocks(const LevelJob *job) noexcept nogil:
    """How many channel blocks gradients of the boxes sum together."""
    cdef Py_ssize_t whole = job.call.channels // job.call.lanes
    return min(<Py_ssize_t>SLOPE_BLOCKS, whole) if whole > 0 else 1


cdef inline Py_ssize_t slope_pixels(Py_ssize_t blocks) noexcept nogil:
    """Pixels of a tile, where there is one for each of so many blocks."""
    return min(<Py_ssize_t>TILE_BYTES, SLOPE_TILES_BYTES // blocks) // LANE_BYTES


cdef inline Py_ssize_t max_rows(const LevelJob *job) noexcept nogil:
    """How many rows of a map the tile has room for, at least 1.  Boxes that are no taller can share
    rows that are packed once."""
    cdef Py_ssize_t pixels = slope_pixels(SLOPE_BLOCKS if job.call.purpose == GRAD_BOXES else 1)
    return max(pixels // max(job.map.columns, 1), 1)


cdef inline Py_ssize_t whole_pages(Py_ssize_t size) noexcept nogil:
    """Room for so many bytes, such that what follows begins at a page."""
    return (size + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES


cdef inline void set_sizes(LevelJob *job) noexcept nogil:
    """How large a tile and a strip of a level are: no more than its map needs."""
    cdef double pixel = LANE_BYTES
    cdef Py_ssize_t row = min(job.map.columns, <Py_ssize_t>MAX_COLUMNS) * LANE_BYTES
    cdef Py_ssize_t row_of_bins = job.call.pw * job.call.channels * job.call.itemsize
    if job.map.strides.channel == 1:      # several blocks may be copied together
        pixel = max(pixel, job.call.channels * <double>job.call.itemsize)
    pixel *= <double>job.map.rows * <double>job.map.columns
    job.scratch.tile_bytes = <Py_ssize_t>min(<double>TILE_BYTES, pixel)
    job.scratch.strip_bytes = whole_pages(
        max(<Py_ssize_t>WIDE_STRIP_BYTES, row, min(row_of_bins, <Py_ssize_t>MAX_STRIP_BYTES)))


cdef inline Py_ssize_t most_tile_bytes(const LevelJob *job) noexcept nogil:
    """The most bytes that a task of a level copies once: of all its bins, or of all its blocks."""
    cdef Py_ssize_t most = 0, level = job - job.call.jobs, tiles
    cdef const Task *task = job.call.tasks.items
    for _ in range(job.call.tasks.count):
        if task.level == level and task.load == COPY_ONCE:
            tiles = task.stop_block - task.first_block
            if job.call.position_sensitive:
                tiles = task.stop_bin - task.first_bin
            most = max(most, tiles * (task.y1 - task.y0) * (task.x1 - task.x0) * LANE_BYTES)
        task += 1
    return most


cdef inline void size_tiles(LevelJob *job, Py_ssize_t tiles, Py_ssize_t bins) noexcept nogil:
    """Where a thread's tiles, strips, bins of so many bytes, and staging are."""
    cdef ScratchSizes *sizes = &job.scratch
    sizes.tiles_bytes = tiles * sizes.tile_bytes
    sizes.strip = whole_pages(sizes.tiles_bytes)
    sizes.bins = sizes.strip + whole_pages(sizes.strip_bytes)
    sizes.staging = sizes.bins + whole_pages(bins)
    sizes.size = sizes.staging + BINS_BYTES


cdef inline void size_scratch(LevelJob *job) noexcept nogil:
    """One tile, or for gradients of the boxes one for each block that is packed beside others."""
    cdef Py_ssize_t bin_bytes = <Py_ssize_t>job.call.ph * job.call.pw * LANE_BYTES
    cdef Py_ssize_t bins = BINS_BYTES, tiles = 1, blocks = 1
    if job.call.purpose == MAX_PIXEL_GRAD:      # which needs nothing but rows that are summed apart
        job.scratch.size = whole_pages(most_tile_bytes(job))
        return
    if job.call.purpose == GRAD_BOXES:
        blocks = slope_blocks(job)
        bins = blocks * min(bins, bin_bytes)
    job.slopes.cell_pixels = slope_pixels(blocks)
    if blocks > 1 and (not channels_lie_together(job) or job.map.itemsize != job.call.itemsize
                       or job.tables.few_pixels != NULL):
        tiles = blocks
        job.scratch.tile_bytes = min(job.scratch.tile_bytes, job.slopes.cell_pixels * LANE_BYTES)
    size_tiles(job, tiles, bins)
