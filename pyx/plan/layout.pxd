"""Layout: the strategy of a level and the scratch of a thread, from sizes alone."""
from libc.stdint cimport int32_t

from plan.spans cimport hull
from plan.structs cimport (BINS, COPY_ONCE, DIRECT, PIXELS, PLANES, STAGED, STREAMING, Call, Layout,
                           Tables, Task, Tasks)
from simd.simd cimport LANE_BYTES, PAGE_BYTES
from tuning cimport (BIN_RANGE_BYTES, BINS_BYTES, DIRECT_BYTES, MAX_COLUMNS, MAX_COVER,
                     MAX_STRIP_BYTES, SLOPE_BLOCKS, SLOPE_TILES_BYTES, STREAM_BYTES, TILE_BYTES,
                     WIDE_STRIP_BYTES)


cdef inline Py_ssize_t slope_blocks(const Call *call) noexcept nogil:
    """How many channel blocks gradients of the boxes sum together."""
    cdef Py_ssize_t whole = call.channels // call.lanes
    return min(<Py_ssize_t>SLOPE_BLOCKS, whole) if whole > 0 else 1


cdef inline Py_ssize_t slope_pixels(Py_ssize_t blocks) noexcept nogil:
    """Pixels of a tile, where there is one for each of so many blocks."""
    return min(<Py_ssize_t>TILE_BYTES, SLOPE_TILES_BYTES // blocks) // LANE_BYTES


cdef inline bint channels_are_few(const Call *call) noexcept nogil:
    """Whether bin rows fill lanes at least twice as well as channels do."""
    cdef int vectors = (call.ph + call.lanes - 1) // call.lanes
    return 2 * call.channels * vectors <= call.ph


cdef inline bint lanes_are_empty(const Call *call) noexcept nogil:
    """Whether channels fill a quarter of a lane vector at most."""
    return 4 * call.channels <= call.lanes and call.map.itemsize == call.itemsize


cdef inline int strategy_of(const Call *call, bint position_sensitive) noexcept nogil:
    """The strategy of a level, before row lanes are considered.

    Pixels whose channels lie together are read in place (PIXELS).  If they are of a small type,
    their channels have to fill whole lane vectors; if they do not, they are packed (PLANES).
    """
    if position_sensitive:
        return BINS
    if call.map.strides.channel != 1:
        return PLANES
    if call.map.itemsize == call.itemsize or call.channels * call.itemsize % LANE_BYTES == 0:
        return PIXELS
    return PLANES


cdef inline bint row_lanes_fit(const Call *call) noexcept nogil:
    """Whether row lanes fit scratch.

    They do if it has room for the pixels of one bin column and one lane vector of bin rows, for
    every bin column and every box.
    """
    cdef const int32_t *pixel = call.tables.tap_pixel
    cdef const int32_t *spans = call.tables.spans
    cdef const int32_t *window = call.tables.windows
    cdef Py_ssize_t room = call.layout.strip_bytes // LANE_BYTES, tallest, widest, low = 0, high = 0
    cdef Py_ssize_t tile = call.layout.tile_bytes // call.itemsize
    cdef int p, q
    for _ in range(call.tables.count):
        widest, tallest = window[3] - window[2], max(window[1] - window[0], 1)
        if widest > min(room, tile // tallest):      # look closer
            tallest, widest = 1, 0
            p = 0
            while p < call.ph:
                hull(spans, p, min(p + call.lanes, call.ph), pixel, &low, &high)
                tallest = max(tallest, high - low)
                p += call.lanes
            for q in range(call.ph, call.ph + call.pw):
                hull(spans, q, q + 1, pixel, &low, &high)
                widest = max(widest, high - low)
            if widest > min(room, tile // tallest):
                return False
        window += 4
        spans += 2 * (call.ph + call.pw)
    return True


cdef inline double all_windows(const Tables *tables) noexcept nogil:
    """Pixels of the windows of all boxes."""
    cdef const int32_t *window = tables.windows
    cdef double pixels = 0
    for _ in range(tables.count):
        pixels += <double>(window[1] - window[0]) * (window[3] - window[2])
        window += 4
    return pixels


cdef inline bint worth_prefetching(const Call *call) noexcept nogil:
    """Whether pixels are prefetched.

    They are if they are read in place, if the maps do not stay in cache, and if boxes cover the
    maps less than MAX_COVER times: with more cover, most pixels are in cache already.
    """
    cdef double map_pixels = <double>call.map.rows * call.map.columns
    if not call.beyond_cache or call.strategy != PIXELS:
        return False
    return all_windows(&call.tables) < MAX_COVER * map_pixels * call.order.images


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


cdef inline Py_ssize_t max_copied_bins(const Tasks *tasks, Py_ssize_t level) noexcept nogil:
    """The most bytes of tiles that a task of a level has, one for each of its bins."""
    cdef Py_ssize_t most = 0
    cdef const Task *task = tasks.items
    for _ in range(tasks.count):
        if task.level == level and task.load == COPY_ONCE:
            most = max(most, (task.stop_bin - task.first_bin) * (task.y1 - task.y0)
                       * (task.x1 - task.x0) * LANE_BYTES)
        task += 1
    return most


cdef inline void lay_out(
        Call *call, const Tasks *tasks, Py_ssize_t level, bint slopes) noexcept nogil:
    """Where a thread's tiles, strips, bins and staging are."""
    cdef Layout *layout = &call.layout
    cdef Py_ssize_t bin_bytes = <Py_ssize_t>call.ph * call.pw * LANE_BYTES, bins = BINS_BYTES
    cdef Py_ssize_t tiles = 1, blocks = 1
    if call.strategy == BINS:
        bins = max(bins, min(<Py_ssize_t>BIN_RANGE_BYTES, call.tables.count * bin_bytes))
        layout.tile_bytes = max(layout.tile_bytes, max_copied_bins(tasks, level))
    elif slopes:
        blocks = slope_blocks(call)
        bins = blocks * min(bins, bin_bytes)
    call.cell_pixels = slope_pixels(blocks)
    call.copy_blocks = SLOPE_BLOCKS if slopes else 1
    if blocks > 1 and (call.strategy != PIXELS or call.map.itemsize != call.itemsize
                       or call.tables.thin != NULL):
        tiles = blocks
        layout.tile_bytes = min(layout.tile_bytes, call.cell_pixels * LANE_BYTES)
    layout.tiles_bytes = tiles * layout.tile_bytes
    layout.strip = whole_pages(layout.tiles_bytes)
    layout.bins = layout.strip + whole_pages(2 * layout.strip_bytes)
    layout.staging = layout.bins + whole_pages(bins)
    layout.size = layout.staging + BINS_BYTES


cdef inline Py_ssize_t max_owned_bytes(const Tasks *tasks) noexcept nogil:
    """The bytes of the largest tile in which a task of the gradient of roi_pool sums its rows."""
    cdef Py_ssize_t most = 0
    cdef const Task *task = tasks.items
    for _ in range(tasks.count):
        if task.load == COPY_ONCE:
            most = max(most, (task.stop_block - task.first_block) * (task.y1 - task.y0)
                       * (task.x1 - task.x0) * LANE_BYTES)
        task += 1
    return whole_pages(most)


cdef inline int store_for(double bytes) noexcept nogil:
    """How an array of so many bytes is written; large ones do not stay in cache anyway."""
    if bytes > STREAM_BYTES:
        return STREAMING
    return STAGED if bytes > DIRECT_BYTES else DIRECT
