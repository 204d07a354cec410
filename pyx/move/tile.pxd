"""Tiles: one channel block of one image as [y][x][lane], in scratch or where it lies.

The lanes past the last channel of a partial block are zero, and are never written back.  What moves
pixels is compiled once for each instruction set, in tile.pyx, and kernels call it by pointers.
What is here is so short that each kernel has it.
"""
from libc.stdint cimport int32_t

from plan.structs cimport COPY_ONCE, PACK_WINDOW, Call, Map, Strides, Task, holds_pixels
from simd.simd cimport LANE_BYTES, Stream, real
from tuning cimport MAX_COLUMNS


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
    int load                       # of enum Load
    bint in_place                  # the lanes of a pixel lie together: no tile is needed
    Py_ssize_t capacity            # pixels that the tile has room for
    Py_ssize_t capacity_rows       # the same in rows of x1 - x0 pixels
    Py_ssize_t top                 # no box of the task reads above
    Py_ssize_t bottom              # or below
    Py_ssize_t x0                  # PACK_ROWS: columns and rows that the tile holds
    Py_ssize_t x1
    Py_ssize_t y0
    Py_ssize_t y1


cdef struct Target:                # how lanes are written
    Strides strides
    int lanes                      # channels of the block
    int store                      # of enum Store
    void *staging                  # room for a block that is contiguous in the array, or NULL
    Stream *queue                  # bytes of `staging` that are still to be streamed


# Into tiles and out of them: tile.pyx says what each does.

cdef void pack(
        const real *source, Strides strides, int lanes, Py_ssize_t rows, Py_ssize_t columns,
        real *tile) noexcept nogil
cdef void read_pixels(
        const TileCache *tile, Py_ssize_t y, Py_ssize_t x, Py_ssize_t rows, Py_ssize_t columns,
        real *to) noexcept nogil
cdef const real *load_rows(
        TileCache *tile, real *memory, const Window *window, View *steps) noexcept nogil
cdef Map load_once(const Call *call, const Task *task, char *tile) noexcept nogil
cdef void load_slots(
        const TileCache *tile, const int32_t *pixel, const Window *slots, real *to) noexcept nogil
cdef void load_bins(const Call *call, const Task *task, real *to) noexcept nogil
cdef void unpack(
        const real *tile, Py_ssize_t rows, Py_ssize_t columns, real *to,
        const Target *target) noexcept nogil
cdef void put_pixels(
        const real *pixels, Py_ssize_t count, Py_ssize_t width, real *target, Py_ssize_t step,
        int store) noexcept nogil
cdef void clear(
        real *target, const Strides *to, Py_ssize_t channels, Py_ssize_t rows,
        Py_ssize_t columns) noexcept nogil
cdef void store_bins(const Call *call, const Task *task, const real *tile) noexcept nogil


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
    tile.load = task.load
    tile.capacity = call.layout.tile_bytes // LANE_BYTES
    tile.x0, tile.x1, tile.top, tile.bottom = task.x0, task.x1, task.y0, task.y1
    tile.capacity_rows = tile.capacity // max(tile.x1 - tile.x0, 1)
    tile.y0 = tile.y1 = tile.top
    if tile.load == COPY_ONCE:
        tile.y1 = tile.bottom
    return tile


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


# A window that is larger than the tile is divided into cells.  These are their columns and rows.

cdef inline Py_ssize_t cell_columns(Py_ssize_t columns) noexcept nogil:
    return max(min(columns, <Py_ssize_t>MAX_COLUMNS), 1)


cdef inline Py_ssize_t cell_rows(
        const TileCache *tile, Py_ssize_t rows, Py_ssize_t columns) noexcept nogil:
    if not tile.in_place and not holds_pixels(tile.load):
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
    """The step from the tile of one bin to the tile of the next; 0 where all bins share one."""
    if task.load != COPY_ONCE:
        return 0
    return (task.y1 - task.y0) * (task.x1 - task.x0) * LANE_BYTES
