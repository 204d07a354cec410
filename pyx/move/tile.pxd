"""Tiles: one channel block of one image as [y][x][lane], in scratch or where it lies.

The lanes past the last channel of a partial block are zero, and are never written back.
"""
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memmove, memset

from move.pack cimport pack, pack_widened
from plan.structs cimport COPY_ONCE, PACK_TAPS, PACK_WINDOW, Call, Map, Strides, Task
from simd.simd cimport (LANE_BYTES, copy_runs, prefetch_l2, real, widen, widen_runs)
from tuning cimport (BINS_TOGETHER, COPY_PIXELS_AHEAD, MAX_COLUMNS, PACK_ROWS_AHEAD,
                     TILE_HEADROOM)


cdef struct Window:                # pixels [y0, y1) x [x0, x1)
    Py_ssize_t y0
    Py_ssize_t y1
    Py_ssize_t x0
    Py_ssize_t x1


cdef struct View:                  # lanes of pixel (y, x) lie at y * view.y + x * view.x
    Py_ssize_t y
    Py_ssize_t x


cdef struct TileCache:             # one channel block of one image, and what a tile holds of it
    char *plane                    # its first channel, at pixel (0, 0)
    int kind
    int itemsize
    Strides strides                # channel: between its lanes
    int lanes                      # channels of the block
    int load                       # of enum Load; PACK_WINDOW and `thin` stand for PACK_TAPS
    bint thin                      # of thin boxes only pixels with taps are packed
    bint in_place                  # the lanes of a pixel lie together: no tile is needed
    Py_ssize_t capacity            # pixels that the tile has room for
    Py_ssize_t capacity_rows       # the same in rows of x1 - x0 pixels
    Py_ssize_t top                 # no box of the task reads above
    Py_ssize_t bottom              # or below
    Py_ssize_t x0                  # PACK_ROWS: columns and rows that the tile holds
    Py_ssize_t x1
    Py_ssize_t y0
    Py_ssize_t y1


cdef inline Map load_once(const Call *call, const Task *task, char *tile) noexcept nogil:
    """The map as it is, or for COPY_ONCE a copy in the tile of what the task reads of it."""
    cdef Map near = call.map
    cdef const Strides *strides = &call.map.strides
    cdef Py_ssize_t size = call.map.itemsize, first = task.first_block * call.lanes
    cdef Py_ssize_t width = task.stop_block * call.lanes - first
    cdef Py_ssize_t rows = task.y1 - task.y0, columns = task.x1 - task.x0
    cdef const char *source
    if task.load != COPY_ONCE:
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


cdef inline TileCache open_tile(
        const Call *call, const Map *map, const Task *task, Py_ssize_t block) noexcept nogil:
    """One block of output channels; of position-sensitive operators, the channels of one bin."""
    cdef TileCache tile
    cdef Py_ssize_t channel = block * call.lanes * call.channels_per_output + task.first_bin
    tile.plane = map.data + map.itemsize * (task.image * map.strides.image
                                            + channel * map.strides.channel)
    tile.kind = map.kind
    tile.itemsize = map.itemsize
    tile.strides = map.strides
    tile.strides.channel = map.strides.channel * call.channels_per_output
    tile.lanes = <int>min(<Py_ssize_t>call.lanes, call.channels - block * call.lanes)
    tile.in_place = (tile.lanes == call.lanes and tile.strides.channel == 1
                     and map.itemsize == call.itemsize)
    tile.thin = task.load == PACK_TAPS
    tile.load = PACK_WINDOW if task.load == PACK_TAPS else task.load
    tile.capacity = call.layout.tile_bytes // LANE_BYTES
    tile.x0, tile.x1, tile.top, tile.bottom = task.x0, task.x1, task.y0, task.y1
    tile.capacity_rows = tile.capacity // max(tile.x1 - tile.x0, 1)
    tile.y0 = tile.y1 = tile.top
    if tile.load == COPY_ONCE:
        tile.y1 = tile.bottom
    return tile


cdef inline void read_pixels(
        const TileCache *tile, Py_ssize_t y, Py_ssize_t x, Py_ssize_t rows, Py_ssize_t columns,
        real *to) noexcept nogil:
    """Pack rows x columns pixels from (y, x) on."""
    cdef Py_ssize_t at = y * tile.strides.y + x * tile.strides.x
    if tile.itemsize == sizeof(real):
        pack(<const real*>tile.plane + at, tile.strides, tile.lanes, rows, columns, to)
    else:
        pack_widened(tile.plane + at * tile.itemsize, tile.kind, tile.strides, tile.lanes, rows,
                     columns, to)


cdef inline const real *load_rows(
        TileCache *tile, real *memory, const Window *window, View *steps) noexcept nogil:
    """As load, if the tile does not hold the window yet: pack it alone, or with rows around it."""
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


cdef inline const real *load(
        TileCache *tile, real *memory, const Window *window, View *steps) noexcept nogil:
    """Return where pixel (y0, x0) of a window lies, and set `steps` from pixel to pixel.

    The window is packed into the tile, unless lanes lie together and are read in the map.
    """
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real)
    if tile.in_place:
        steps.y = tile.strides.y
        steps.x = tile.strides.x
        return (<const real*>tile.plane
                + window.y0 * tile.strides.y + window.x0 * tile.strides.x)
    steps.x = lanes
    steps.y = (tile.x1 - tile.x0) * lanes
    if tile.load == PACK_WINDOW or window.y0 < tile.y0 or window.y1 > tile.y1:
        return load_rows(tile, memory, window, steps)
    return memory + (window.y0 - tile.y0) * steps.y + (window.x0 - tile.x0) * lanes


cdef inline void load_slots(
        const TileCache *tile, const int32_t *rows, const int32_t *columns, const Window *slots,
        real *to) noexcept nogil:
    """Pack the pixels of some rows and columns alone, those in a window of the lists."""
    cdef int lanes = LANE_BYTES // sizeof(real), lane
    cdef Py_ssize_t y, x, at, width = slots.x1 - slots.x0
    columns += slots.x0
    memset(to, 0, (slots.y1 - slots.y0) * width * LANE_BYTES if tile.lanes < lanes else 0)
    for y in range(slots.y0, slots.y1):
        if tile.strides.channel == 1 and tile.itemsize == sizeof(real):
            for x in range(width):
                at = rows[y] * tile.strides.y + columns[x] * tile.strides.x
                memcpy(to + x * lanes, <const real*>tile.plane + at, tile.lanes * sizeof(real))
            to += width * lanes
            continue
        for lane in range(tile.lanes):
            at = rows[y] * tile.strides.y + lane * tile.strides.channel
            for x in range(width):
                if tile.itemsize == sizeof(real):
                    to[x * lanes + lane] = \
                        (<const real*>tile.plane)[at + columns[x] * tile.strides.x]
                else:
                    widen(tile.plane + (at + columns[x] * tile.strides.x) * tile.itemsize,
                          tile.kind, 1, to + x * lanes + lane)
        to += width * lanes


# A window that is larger than the tile is divided into cells.  These are their columns and rows.

cdef inline Py_ssize_t cell_columns(Py_ssize_t columns) noexcept nogil:
    return max(min(columns, <Py_ssize_t>MAX_COLUMNS), 1)


cdef inline Py_ssize_t cell_rows(
        const TileCache *tile, Py_ssize_t rows, Py_ssize_t columns) noexcept nogil:
    if tile.load == PACK_WINDOW and not tile.in_place:
        rows = min(rows, tile.capacity // columns)
    return max(rows, 1)


cdef inline Window before_cells(const Window *window) noexcept nogil:
    """The cell from which next_cell goes to the first one of a window."""
    cdef Window cell
    cell.y0 = cell.y1 = window.y0
    cell.x0 = cell.x1 = window.x1
    return cell


cdef inline bint next_cell(
        const Window *window, Py_ssize_t rows, Py_ssize_t columns, Window *cell) noexcept nogil:
    """Go to the next cell of at most rows x columns pixels; False after the last one."""
    if cell.x1 < window.x1:
        cell.x0 = cell.x1
    else:
        cell.y0, cell.x0 = cell.y1, window.x0
        if cell.y0 >= window.y1 or cell.x0 >= window.x1:
            return False
        cell.y1 = min(cell.y0 + rows, window.y1)
    cell.x1 = min(cell.x0 + columns, window.x1)
    return True


# Channels last, neighbouring bins of a position-sensitive operator lie together in a pixel.  They
# are transposed like a row of pixels, into one tile for each bin.

cdef inline Py_ssize_t bin_tile_bytes(const Task *task) noexcept nogil:
    """From the tile of one bin to that of the next; 0 where all bins share one."""
    if task.load != COPY_ONCE:
        return 0
    return (task.y1 - task.y0) * (task.x1 - task.x0) * LANE_BYTES


cdef inline void load_bins(const Call *call, const Task *task, real *to) noexcept nogil:
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
