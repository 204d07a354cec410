"""Tiles: between arrays of any strides and type, and [y][x][lane]."""
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memmove, memset

from plan.structs cimport BINS, COPY_ONCE, DIRECT, PACK_WINDOW, STREAMING, Call, Map, Strides, Task
from simd.simd cimport (LANE_BYTES, VECTOR_BYTES, copy_runs, copy_short, lanes_to_planes,
                        planes_to_lanes, prefetch_l2, real, small_size, stream_begin, stream_copy,
                        stream_rest, widen, widen_runs)
from tuning cimport (BINS_TOGETHER, COPY_PIXELS_AHEAD, MIN_TRANSPOSE_PIXELS, PACK_ROWS_AHEAD,
                     TILE_HEADROOM, WIDEN_PIXELS)


cdef void pack(
        const real *source, Strides strides, int lanes, Py_ssize_t rows, Py_ssize_t columns,
        real *tile) noexcept nogil:
    """Rows x columns pixels of `lanes` channels into tile[y][x][lane]."""
    cdef int all_lanes = LANE_BYTES // sizeof(real), lane
    cdef Py_ssize_t y, x
    cdef const real *row
    cdef real *to
    if strides.x == 1 and strides.y == columns:      # rows lie end to end: one long row
        columns = columns * rows
        rows = 1
    for y in range(rows):
        row = source + y * strides.y
        to = tile + y * columns * all_lanes
        if strides.x == 1 and columns >= MIN_TRANSPOSE_PIXELS:
            planes_to_lanes(row, strides.channel, lanes, columns, strides.y, to)
        elif lanes == all_lanes and strides.channel == 1:
            for x in range(columns):
                memcpy(to + x * all_lanes, row + x * strides.x, LANE_BYTES)
        elif strides.channel == 1:
            for x in range(columns):
                memset(to + x * all_lanes, 0, LANE_BYTES)
                copy_short(to + x * all_lanes, row + x * strides.x, lanes)
        else:
            for x in range(columns):
                for lane in range(lanes):
                    to[x * all_lanes + lane] = row[lane * strides.channel + x * strides.x]
                for lane in range(lanes, all_lanes):
                    to[x * all_lanes + lane] = 0


cdef inline void pack_widened(
        const char *source, int kind, Strides strides, int lanes, Py_ssize_t rows,
        Py_ssize_t columns, real *tile) noexcept nogil:
    """Pack pixels of a map of a small type, a few at a time."""
    cdef int all_lanes = LANE_BYTES // sizeof(real), lane
    cdef Py_ssize_t size = small_size(kind), y, x, count
    cdef bint runs
    cdef real[16 * WIDEN_PIXELS] run
    cdef Strides run_strides
    cdef const char *row
    if strides.x == 1 and strides.y == columns:
        columns = columns * rows
        rows = 1
    runs = strides.x == 1 and columns > 1
    run_strides.image, run_strides.channel = 0, WIDEN_PIXELS
    run_strides.y, run_strides.x = 0, 1
    memset(run + lanes, 0, (all_lanes - lanes) * sizeof(real))
    for y in range(rows):
        row = source + y * strides.y * size
        x = 0
        while x < columns:
            count = min(columns - x, <Py_ssize_t>WIDEN_PIXELS) if runs else 1
            if runs:
                for lane in range(lanes):
                    widen(row + (lane * strides.channel + x) * size, kind, count,
                          run + lane * WIDEN_PIXELS)
                pack(run, run_strides, lanes, 1, count, tile + x * all_lanes)
            else:
                if strides.channel == 1:
                    widen(row + x * strides.x * size, kind, lanes, run)
                else:
                    for lane in range(lanes):
                        widen(row + (lane * strides.channel + x * strides.x) * size, kind, 1,
                              run + lane)
                memcpy(tile + x * all_lanes, run, LANE_BYTES)
            x += count
        tile += columns * all_lanes


cdef void read_pixels(
        const TileCache *tile, Py_ssize_t y, Py_ssize_t x, Py_ssize_t rows, Py_ssize_t columns,
        real *to) noexcept nogil:
    """Pack rows x columns pixels from (y, x) on."""
    cdef Py_ssize_t at = y * tile.strides.y + x * tile.strides.x
    if tile.itemsize == sizeof(real):
        pack(<const real*>tile.plane + at, tile.strides, tile.lanes, rows, columns, to)
    else:
        pack_widened(tile.plane + at * tile.itemsize, tile.kind, tile.strides, tile.lanes, rows,
                     columns, to)


cdef const real *load_rows(
        TileCache *tile, real *memory, const Window *window, View *steps) noexcept nogil:
    """Pack a window that the tile does not hold, alone or with rows around it; return it as `load`
    does."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = tile.x1 - tile.x0
    cdef Py_ssize_t rows = window.y1 - window.y0, kept, top, bottom
    if tile.load == PACK_WINDOW:
        steps.y = (window.x1 - window.x0) * lanes
        read_pixels(tile, window.y0, window.x0, rows, window.x1 - window.x0, memory)
        return memory
    if window.y0 < tile.y0 or window.y1 > tile.y0 + tile.capacity_rows:      # move the tile
        # Boxes are sorted by their top rows only roughly, so leave room above this one.
        top = max(window.y0 - (tile.capacity_rows - rows) // TILE_HEADROOM, tile.top)
        kept = max(tile.y1 - top, 0) if top >= tile.y0 else 0
        if kept > 0:
            memmove(memory, memory + (top - tile.y0) * steps.y, kept * steps.y * sizeof(real))
        tile.y0 = top
        tile.y1 = top + kept
    if window.y1 > tile.y1:
        bottom = min(tile.y1 + PACK_ROWS_AHEAD, tile.y0 + tile.capacity_rows)
        bottom = max(window.y1, min(bottom, tile.bottom))
        read_pixels(tile, tile.y1, tile.x0, bottom - tile.y1, width,
                    memory + (tile.y1 - tile.y0) * steps.y)
        tile.y1 = bottom
    return memory + (window.y0 - tile.y0) * steps.y + (window.x0 - tile.x0) * lanes


cdef Map load_once(const Call *call, const Task *task, char *tile) noexcept nogil:
    """The map as it is, or for COPY_ONCE a copy in the tile of what the task reads of it."""
    cdef Map near = call.map
    cdef const Strides *strides = &call.map.strides
    cdef Py_ssize_t size = call.map.itemsize, first = task.first_block * call.lanes
    cdef Py_ssize_t width = task.stop_block * call.lanes - first
    cdef Py_ssize_t rows = task.y1 - task.y0, columns = task.x1 - task.x0
    cdef const char *source
    if task.load != COPY_ONCE or call.strategy == BINS:      # whose bins have a tile each
        return near
    source = call.map.data + size * (task.image * strides.image + first
                                     + task.y0 * strides.y + task.x0 * strides.x)
    if size == call.itemsize:
        copy_runs(source, strides.y * size, strides.x * size, rows, columns, width * size, tile)
    elif strides.x == width:
        widen_runs(source, call.map.kind, strides.y * size, 0, rows, 1, columns * width,
                   <float*>tile)
    else:
        widen_runs(source, call.map.kind, strides.y * size, strides.x * size, rows, columns, width,
                   <float*>tile)
    near.kind = c'f' if call.itemsize == sizeof(float) else c'd'
    near.itemsize = call.itemsize
    near.strides.image, near.strides.x, near.strides.y = 0, width, columns * width
    near.data = tile - near.itemsize * (first + task.y0 * near.strides.y + task.x0 * near.strides.x)
    return near


cdef void load_slots(
        const TileCache *tile, const int32_t *pixel, const Window *slots, real *to) noexcept nogil:
    """Pack the pixels of some rows and columns alone, those of a window of slots."""
    cdef Py_ssize_t y, x
    for y in range(slots.y0, slots.y1):
        for x in range(slots.x0, slots.x1):
            read_pixels(tile, pixel[y], pixel[x], 1, 1, to)
            to += LANE_BYTES // sizeof(real)


cdef void load_bins(const Call *call, const Task *task, real *to) noexcept nogil:
    """The task's pixels of all its bins, as [bin][y][x][lane]."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real)
    cdef Py_ssize_t bins = task.stop_bin - task.first_bin, y, x, z, lane
    cdef Py_ssize_t step = bin_tile_bytes(task) // <Py_ssize_t>sizeof(real)
    cdef TileCache tile = open_tile(call, &call.map, task, task.first_block)
    cdef const Strides *strides = &call.map.strides
    cdef char *plane = tile.plane
    cdef real[16 * BINS_TOGETHER] pixel
    tile.strides.x = strides.channel
    for y in range(task.y0, task.y1):
        for x in range(task.x0, task.x1):
            tile.plane = plane + (y * strides.y + x * strides.x) * tile.itemsize
            for lane in range(tile.lanes):      # four pixels ahead, which hardware does not foresee
                prefetch_l2(tile.plane + tile.itemsize * (COPY_PIXELS_AHEAD * strides.x
                                                          + lane * tile.strides.channel))
            read_pixels(&tile, 0, 0, 1, bins, pixel)
            for z in range(bins):
                memcpy(to + z * step, pixel + z * lanes, LANE_BYTES)
            to += lanes


cdef inline void unpack_rows(
        const real *tile, Py_ssize_t rows, Py_ssize_t columns, real *to, const Strides *strides,
        int lanes, bint streaming) noexcept nogil:
    cdef int all_lanes = LANE_BYTES // sizeof(real), lane
    cdef Py_ssize_t y, x
    cdef const real *row
    cdef real *at
    for y in range(rows):
        row = tile + y * columns * all_lanes
        at = to + y * strides.y
        if strides.x == 1 and columns > 1:
            lanes_to_planes(row, columns, lanes, at, strides.channel, streaming)
        elif lanes == all_lanes and strides.channel == 1:
            for x in range(columns):
                memcpy(at + x * strides.x, row + x * all_lanes, LANE_BYTES)
        elif strides.channel == 1:
            for x in range(columns):
                copy_short(at + x * strides.x, row + x * all_lanes, lanes)
        else:
            for x in range(columns):
                for lane in range(lanes):
                    at[x * strides.x + lane * strides.channel] = row[x * all_lanes + lane]


cdef void unpack(
        const real *tile, Py_ssize_t rows, Py_ssize_t columns, real *to,
        const Target *target) noexcept nogil:
    """tile[y][x][lane] into rows x columns pixels of the target's channels.

    If the store is STREAMING, results stay queued, and nobody may write to the staging until the
    queue is empty.  Staging begins at a page, since a store across two pages waits for all
    streaming stores.
    """
    cdef Strides strides = target.strides
    cdef Py_ssize_t count = rows * columns
    cdef bint staged
    if strides.x == 1 and strides.y == columns:
        columns = count
        rows = 1
    staged = (target.staging != NULL and target.store != DIRECT and rows == 1 and strides.x == 1
              and strides.channel == columns
              and columns >= VECTOR_BYTES // <Py_ssize_t>sizeof(real))
    if not staged:
        unpack_rows(tile, rows, columns, to, &strides, target.lanes, target.store == STREAMING)
        return
    stream_rest(target.queue)
    unpack_rows(tile, 1, columns, <real*>target.staging, &strides, target.lanes, False)
    if target.store == STREAMING:      # in two turns: the next box is summed along two axes
        stream_begin(target.queue, to, target.staging, target.lanes * columns * sizeof(real), 2)
    else:
        memcpy(to, target.staging, target.lanes * columns * sizeof(real))


cdef void put_pixels(
        const real *pixels, Py_ssize_t count, Py_ssize_t width, real *target, Py_ssize_t step,
        int store) noexcept nogil:
    """Write pixels of `width` channels, which lie end to end, to pixels that lie `step` apart."""
    cdef Py_ssize_t i
    if step == width:
        width = width * count
        count = 1
    for i in range(count):
        if store == STREAMING:
            stream_copy(target + i * step, pixels + i * width, width * sizeof(real))
        else:
            memcpy(target + i * step, pixels + i * width, width * sizeof(real))


cdef void clear(
        real *target, const Strides *to, Py_ssize_t channels, Py_ssize_t rows,
        Py_ssize_t columns) noexcept nogil:
    """Zeros in rows x columns pixels, in as few long runs as there can be."""
    cdef Py_ssize_t run = 1, y, x, c
    if to.y == columns * to.x:      # rows lie end to end
        columns = columns * rows
        rows = 1
    if to.channel == 1:
        run, channels = channels, 1
    if to.x == run:      # and so do pixels
        run, columns = run * columns, 1
    if rows == 1 and to.channel == run:
        run, channels = run * channels, 1
    for c in range(channels):
        for y in range(rows):
            for x in range(columns):
                memset(target + c * to.channel + y * to.y + x * to.x, 0, run * sizeof(real))


cdef void store_bins(const Call *call, const Task *task, const real *tile) noexcept nogil:
    """tile[bin][y][x][lane] into the pixels that the task owns, as load_bins read them."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real)
    cdef Py_ssize_t bins = task.stop_bin - task.first_bin, y, x, z
    cdef Py_ssize_t step = bin_tile_bytes(task) // <Py_ssize_t>sizeof(real)
    cdef TileCache block = open_tile(call, &call.map, task, task.first_block)
    cdef const Strides *strides = &call.map.strides
    cdef real[16 * BINS_TOGETHER] pixel
    block.strides.x = strides.channel
    memset(pixel, 0, sizeof(pixel))
    for y in range(task.y0, task.y1):
        for x in range(task.x0, task.x1):
            for z in range(bins):
                memcpy(pixel + z * lanes, tile + z * step, LANE_BYTES)
            unpack_rows(pixel, 1, bins, <real*>block.plane + y * strides.y + x * strides.x,
                        &block.strides, block.lanes, False)
            tile += lanes
