"""Tiles: one channel block of one image as [y][x][lane], in scratch or where it lies.

simd/tile.inc.h moves pixels into tiles and out of them.
"""
from plan.structs cimport COPY_ONCE, PACK_ROWS, LevelJob, Map, Task
from simd.structs cimport LANE_BYTES, Strides, Tile, View, Window, real
from tuning cimport MAX_COLUMNS


cdef inline bint is_shared(int load) noexcept nogil:
    """Whether the tile of a task holds the pixels of later boxes too, and so any window of them."""
    return load == PACK_ROWS or load == COPY_ONCE


cdef inline Tile open_tile(
        const LevelJob *job, const Map *map, const Task *task, Py_ssize_t block) noexcept nogil:
    """One block of output channels; of position-sensitive operators, the channels of one bin.

    Tasks of other operators have the first_bin 0, which adds no channel.
    """
    cdef Tile tile
    cdef Py_ssize_t channel = block * job.call.lanes * job.call.channels_per_output + task.first_bin
    tile.plane = map.data + map.itemsize * (task.image * map.strides.image
                                            + channel * map.strides.channel)
    tile.dtype = map.dtype
    tile.itemsize = map.itemsize
    tile.strides = map.strides
    tile.strides.channel = map.strides.channel * job.call.channels_per_output
    tile.lanes = <int>min(<Py_ssize_t>job.call.lanes, job.call.channels - block * job.call.lanes)
    tile.in_place = (tile.lanes == job.call.lanes and tile.strides.channel == 1
                     and map.itemsize == job.call.itemsize)
    tile.shared = is_shared(task.load)
    tile.capacity = job.scratch.tile_bytes // LANE_BYTES
    tile.x0, tile.x1, tile.top, tile.bottom = task.x0, task.x1, task.y0, task.y1
    tile.capacity_rows = tile.capacity // max(tile.x1 - tile.x0, 1)
    tile.y0 = tile.y1 = tile.top
    if task.load == COPY_ONCE:
        tile.y1 = tile.bottom
    return tile


cdef inline const real *load(
        const LevelJob *job, Tile *tile, real *memory, const Window *window,
        View *view) noexcept nogil:
    """Return where pixel (y0, x0) of a window lies, and set `view`, its strides.

    The window is packed into the tile, unless lanes lie together and are read in the map.
    """
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real)
    if tile.in_place:
        view.y = tile.strides.y
        view.x = tile.strides.x
        return (<const real*>tile.plane
                + window.y0 * tile.strides.y + window.x0 * tile.strides.x)
    view.x = lanes
    view.y = (tile.x1 - tile.x0) * lanes
    if not tile.shared or window.y0 < tile.y0 or window.y1 > tile.y1:
        return <const real*>job.call.simd.load_rows(tile, memory, window, view)
    return memory + (window.y0 - tile.y0) * view.y + (window.x0 - tile.x0) * lanes


cdef inline Map load_once(const LevelJob *job, const Task *task, char *tile) noexcept nogil:
    """The map as it is, or for COPY_ONCE a copy in the tile of what the task reads of it."""
    cdef Map local_map = job.map
    cdef const Strides *strides = &job.map.strides
    cdef Py_ssize_t size = job.map.itemsize, first = task.first_block * job.call.lanes
    cdef Py_ssize_t width = task.stop_block * job.call.lanes - first
    cdef Py_ssize_t rows = task.y1 - task.y0, columns = task.x1 - task.x0
    cdef const char *source
    if task.load != COPY_ONCE or job.call.position_sensitive:      # whose bins have a tile each
        return local_map
    source = job.map.data + size * (task.image * strides.image + first
                                    + task.y0 * strides.y + task.x0 * strides.x)
    if size == job.call.itemsize:
        job.call.simd.copy_runs(source, strides.y * size, strides.x * size, rows, columns,
                                width * size, tile)
    elif strides.x == width:
        job.call.simd.widen_runs(source, job.map.dtype, strides.y * size, 0, rows, 1,
                                 columns * width, <float*>tile)
    else:
        job.call.simd.widen_runs(source, job.map.dtype, strides.y * size, strides.x * size, rows,
                                 columns, width, <float*>tile)
    local_map.dtype = c'f' if job.call.itemsize == sizeof(float) else c'd'
    local_map.itemsize = job.call.itemsize
    local_map.strides.image, local_map.strides.x, local_map.strides.y = 0, width, columns * width
    local_map.data = tile - local_map.itemsize * (
        first + task.y0 * local_map.strides.y + task.x0 * local_map.strides.x)
    return local_map


cdef inline void clear_rows(
        const LevelJob *job, const Task *task, real *plane, const Strides *strides, Py_ssize_t y0,
        Py_ssize_t y1) noexcept nogil:
    """Zeros in some rows of the task's rectangle, of all its channels; plane: of the first."""
    cdef Py_ssize_t channels = min(task.stop_block * job.call.lanes, job.call.channels)
    channels -= task.first_block * job.call.lanes
    job.call.simd.clear(plane + y0 * strides.y + task.x0 * strides.x, strides, channels, y1 - y0,
                        task.x1 - task.x0)


# A window that is larger than the tile is divided into cells.  These are their columns and rows.

cdef inline Py_ssize_t cell_columns(Py_ssize_t columns) noexcept nogil:
    return max(min(columns, <Py_ssize_t>MAX_COLUMNS), 1)


cdef inline Py_ssize_t cell_rows(
        const Tile *tile, Py_ssize_t rows, Py_ssize_t columns) noexcept nogil:
    if not tile.in_place and not tile.shared:
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


# The tiles of the bins of a position-sensitive task, of one block.

cdef inline Py_ssize_t bin_tile_bytes(const Task *task) noexcept nogil:
    """The stride from the tile of one bin to the tile of the next; 0 where all bins share one."""
    if task.load != COPY_ONCE:
        return 0
    return (task.y1 - task.y0) * (task.x1 - task.x0) * LANE_BYTES


cdef inline void load_bins(const LevelJob *job, const Task *task, char *tiles) noexcept nogil:
    """Pack the task's pixels of all its bins, as [bin][y][x][lane]."""
    cdef Tile tile = open_tile(job, &job.map, task, task.first_block)
    job.call.simd.load_bins(&tile, job.map.strides.channel, bin_tile_bytes(task),
                            <int>(task.stop_bin - task.first_bin), tiles)


cdef inline void store_bins(
        const LevelJob *job, const Task *task, const char *tiles) noexcept nogil:
    """Write what load_bins reads."""
    cdef Tile tile = open_tile(job, &job.map, task, task.first_block)
    job.call.simd.store_bins(&tile, job.map.strides.channel, bin_tile_bytes(task),
                             <int>(task.stop_bin - task.first_bin), tiles)
