"""Layout: the scratch of a thread, from sizes alone."""
from plan.facts cimport channels_lie_together
from plan.structs cimport COPY_ONCE, GRAD_BOXES, MAX_PIXEL_GRAD, Call, Layout, Task, Tasks
from simd.structs cimport DIRECT, LANE_BYTES, PAGE_BYTES, STAGED, STREAMING
from tuning cimport (BINS_BYTES, MAX_COLUMNS, SLOPE_BLOCKS, STREAM_BYTES, TILE_BYTES,
                     WIDE_STRIP_BYTES)

cdef enum:
    MAX_STRIP_BYTES = 256 << 10    # the same for a gradient of the input: whole rows   # R227
    SLOPE_TILES_BYTES = 8 << 20    # tiles of all blocks whose slopes are summed        # R275
    DIRECT_BYTES = 256 << 10       # results up to this are written without staging     # R088


cdef inline Py_ssize_t slope_blocks(const Call *call) noexcept nogil:
    """How many channel blocks gradients of the boxes sum together."""
    cdef Py_ssize_t whole = call.channels // call.lanes
    return min(<Py_ssize_t>SLOPE_BLOCKS, whole) if whole > 0 else 1


cdef inline Py_ssize_t slope_pixels(Py_ssize_t blocks) noexcept nogil:
    """Pixels of a tile, where there is one for each of so many blocks."""
    return min(<Py_ssize_t>TILE_BYTES, SLOPE_TILES_BYTES // blocks) // LANE_BYTES


cdef inline Py_ssize_t max_rows(const Call *call) noexcept nogil:
    """How many rows of a map the tile has room for, at least 1.  Boxes that are no taller can share
    rows that are packed once."""
    cdef Py_ssize_t pixels = slope_pixels(SLOPE_BLOCKS if call.purpose == GRAD_BOXES else 1)
    return max(pixels // max(call.map.columns, 1), 1)


cdef inline Py_ssize_t whole_pages(Py_ssize_t size) noexcept nogil:
    """Room for so many bytes, such that what follows begins at a page."""
    return (size + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES


cdef inline void set_sizes(Call *call) noexcept nogil:
    """How large a tile and a strip of a level are: no more than its map needs."""
    cdef double pixel = LANE_BYTES
    cdef Py_ssize_t row = min(call.map.columns, <Py_ssize_t>MAX_COLUMNS) * LANE_BYTES
    cdef Py_ssize_t bins = call.pw * call.channels * call.itemsize
    if call.map.strides.channel == 1:      # several blocks may be copied together
        pixel = max(pixel, call.channels * <double>call.itemsize)
    pixel *= <double>call.map.rows * <double>call.map.columns
    call.layout.tile_bytes = <Py_ssize_t>min(<double>TILE_BYTES, pixel)
    call.layout.strip_bytes = whole_pages(
        max(max(<Py_ssize_t>WIDE_STRIP_BYTES, row), min(bins, <Py_ssize_t>MAX_STRIP_BYTES)))


cdef inline Py_ssize_t most_tile_bytes(
        const Call *call, const Tasks *tasks, Py_ssize_t level) noexcept nogil:
    """The most bytes that a task of a level copies once: of all its bins, or of all its blocks."""
    cdef Py_ssize_t most = 0, tiles
    cdef const Task *task = tasks.items
    for _ in range(tasks.count):
        if task.level == level and task.load == COPY_ONCE:
            tiles = task.stop_block - task.first_block
            if call.position_sensitive:
                tiles = task.stop_bin - task.first_bin
            most = max(most, tiles * (task.y1 - task.y0) * (task.x1 - task.x0) * LANE_BYTES)
        task += 1
    return most


cdef inline void lay_out_tiles(Call *call, Py_ssize_t tiles, Py_ssize_t bins) noexcept nogil:
    """Where a thread's tiles, strips, bins of so many bytes, and staging are."""
    cdef Layout *layout = &call.layout
    layout.tiles_bytes = tiles * layout.tile_bytes
    layout.strip = whole_pages(layout.tiles_bytes)
    layout.bins = layout.strip + whole_pages(layout.strip_bytes)
    layout.staging = layout.bins + whole_pages(bins)
    layout.size = layout.staging + BINS_BYTES


cdef inline void lay_out(Call *call, const Tasks *tasks, Py_ssize_t level) noexcept nogil:
    """One tile, or for gradients of the boxes one for each block that is packed beside others."""
    cdef Py_ssize_t bin_bytes = <Py_ssize_t>call.ph * call.pw * LANE_BYTES, bins = BINS_BYTES
    cdef Py_ssize_t tiles = 1, blocks = 1
    if call.purpose == MAX_PIXEL_GRAD:      # which needs nothing but rows that are summed apart
        call.layout.size = whole_pages(most_tile_bytes(call, tasks, level))
        return
    if call.purpose == GRAD_BOXES:
        blocks = slope_blocks(call)
        bins = blocks * min(bins, bin_bytes)
    call.cell_pixels = slope_pixels(blocks)
    if blocks > 1 and (not channels_lie_together(call) or call.map.itemsize != call.itemsize
                       or call.tables.thin != NULL):
        tiles = blocks
        call.layout.tile_bytes = min(call.layout.tile_bytes, call.cell_pixels * LANE_BYTES)
    lay_out_tiles(call, tiles, bins)


cdef inline int store_for(double bytes) noexcept nogil:
    """How an array of so many bytes is written; large ones do not stay in cache anyway."""
    if bytes > STREAM_BYTES:
        return STREAMING
    return STAGED if bytes > DIRECT_BYTES else DIRECT
