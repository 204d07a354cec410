"""Store: [y][x][lane] into arrays of any strides."""
from libc.string cimport memcpy, memset

from move.pack cimport copy_lanes
from move.tile cimport TileCache, bin_tile_bytes, open_tile
from plan.structs cimport DIRECT, STREAMING, Call, Strides, Task
from simd.simd cimport (LANE_BYTES, VECTOR_BYTES, Stream, lanes_to_planes, real, stream_begin,
                        stream_copy, stream_rest)
from tuning cimport BINS_TOGETHER


cdef struct Target:                # how lanes are written
    Strides strides
    int lanes                      # channels of the block
    int store                      # of enum Store
    void *staging                  # room for a block that is contiguous in the array, or NULL
    Stream *queue                  # bytes of `staging` that are still to be streamed


cdef inline void short_rows(
        const real *source, int pixels, int lanes, real *target, Py_ssize_t channel) noexcept nogil:
    """Unpack fewer pixels than a vector has room for; the source has room for a vector of them."""
    cdef int vector = VECTOR_BYTES // sizeof(real), lane
    cdef real[16 * 16] rows
    lanes_to_planes(source, vector, lanes, rows, vector, False)
    for lane in range(lanes):
        copy_lanes(rows + lane * vector, pixels, target + lane * channel)


cdef inline void unpack_rows(
        const real *tile, Py_ssize_t rows, Py_ssize_t columns, real *to, const Strides *strides,
        int lanes, bint streaming) noexcept nogil:
    cdef int all_lanes = LANE_BYTES // sizeof(real), vector = VECTOR_BYTES // sizeof(real), lane
    cdef Py_ssize_t y, x
    cdef const real *row
    cdef real *at
    for y in range(rows):
        row = tile + y * columns * all_lanes
        at = to + y * strides.y
        if strides.x == 1 and columns >= vector:
            lanes_to_planes(row, columns, lanes, at, strides.channel, streaming)
        elif strides.x == 1 and columns > 1:
            short_rows(row, <int>columns, lanes, at, strides.channel)
        elif lanes == all_lanes and strides.channel == 1:
            for x in range(columns):
                memcpy(at + x * strides.x, row + x * all_lanes, LANE_BYTES)
        elif strides.channel == 1:
            for x in range(columns):
                copy_lanes(row + x * all_lanes, lanes, at + x * strides.x)
        else:
            for x in range(columns):
                for lane in range(lanes):
                    at[x * strides.x + lane * strides.channel] = row[x * all_lanes + lane]


cdef inline void unpack(
        const real *tile, Py_ssize_t rows, Py_ssize_t columns, real *to,
        const Target *target) noexcept nogil:
    """tile[y][x][lane] into rows x columns pixels of the target's channels.

    If the store is STREAMING, results stay queued, and nobody may write to the staging until the
    queue is empty.  Staging begins at a page, since a store across two pages waits for all
    streaming stores.
    """
    cdef Strides strides = target.strides
    cdef Py_ssize_t count = rows * columns
    cdef int turns = <int>(rows + columns)      # about how often the next block calls stream_some
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
    if target.store == STREAMING:
        stream_begin(target.queue, to, target.staging, target.lanes * columns * sizeof(real), turns)
    else:
        memcpy(to, target.staging, target.lanes * columns * sizeof(real))


cdef inline void put_pixels(
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


cdef inline void clear(
        real *target, const Strides *to, Py_ssize_t channels, Py_ssize_t rows,
        Py_ssize_t columns) noexcept nogil:
    """Zeros in rows x columns pixels, in as few long runs as there can be."""
    cdef Py_ssize_t y, x, c
    if to.y == columns * to.x:
        columns = columns * rows
        rows = 1
    if to.x == 1 and rows == 1 and to.channel == columns:
        columns = columns * channels
        channels = 1
    if to.channel == 1 and to.x == channels:
        for y in range(rows):
            memset(target + y * to.y, 0, columns * channels * sizeof(real))
        return
    for c in range(1 if to.channel == 1 and to.x != 1 else channels):
        for y in range(rows):
            if to.x == 1:
                memset(target + c * to.channel + y * to.y, 0, columns * sizeof(real))
                continue
            for x in range(columns):
                if to.channel == 1:
                    memset(target + y * to.y + x * to.x, 0, channels * sizeof(real))
                else:
                    target[c * to.channel + y * to.y + x * to.x] = 0


cdef inline void store_bins(const Call *call, const Task *task, const real *tile) noexcept nogil:
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
