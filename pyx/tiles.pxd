"""Tiles: pack and unpack between arrays of any strides and [y][x][lane], where lanes are the channels of a block.

The lanes past the last channel of a partial block are zero, and are never written back.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memcpy, memmove, memset

from simd.simd cimport (LANE_BYTES, PAGE_BYTES, VECTOR_BYTES, Stream, copy_runs, element_bytes, lanes_to_planes, planes_to_lanes, prefetch_l1,
                        prefetch_l2, real, stream_begin, stream_copy, stream_rest, widen, widen_runs)
from tasks cimport BIN, BIN_STOP, BLOCK_FIRST, BLOCK_STOP, COLUMNS, FIRST, GATHERED, IMAGE, MODE, STOP, WINDOW, X0, X1, Y0, Y1

cdef enum:
    # Scratch of one thread, in bytes; their sum bounds what a call allocates for each thread, whatever the map's size.
    TILE_BYTES = 4 << 20       # pixels of the map, all channels of a block; about a level 2 cache
    STRIP_BYTES = 24 << 10     # one contracted axis; within a level 1 cache together with the bins
    WIDE_BYTES = 64 << 10      # the same of several channel blocks that lie together in the map
    WIDEST_BYTES = 256 << 10   # and of gradients: parts of pixels, read alternately, fall into a part of a level 2 cache
    BINS_BYTES = 64 << 10      # bins of one box: larger outputs are computed in parts
    MOST_BINS = BINS_BYTES // LANE_BYTES
    RANGE_BYTES = 1 << 20      # bins of several boxes of a position-sensitive operator
    NEAR_BOX_BYTES = 1 << 20   # pixels of a box, widened; with less, runs of a pixel are shorter: half of it takes up to 1.1 times as long
    MOST_BIN_ROWS = 64
    BINS_TOGETHER = 16         # of a task of a position-sensitive operator: a cache line of the result, and of a pixel channels last
    SLOPE_BLOCKS = 8           # of which gradients of the boxes are summed together
    TILES_BYTES = 8 << 20      # the tiles of as many blocks
    MOST_COLUMNS = 4096        # columns of the map that are contracted together
    # Zen 4 takes a load for one of what was just stored, and waits, if their physical addresses differ by a multiple of this.  So that what is read
    # and what is written then lie on different pages of such a stretch, bins begin as far behind a multiple from the strip, runs from the bins:
    ALIAS_BYTES = 64 << 10
    BINS_APART = 32 << 10
    MORE_APART = 16 << 10
    # Results up to this stay in a level 2 cache while they are written
    NEAR_BYTES = 256 << 10
    # Results larger than this are not found in cache by whoever reads them next
    STREAM_BYTES = 8 << 20
    WIDENED = 64               # pixels of a channel that are widened at once
    FEW = 4                    # pixels of a row; fewer are packed element by element
    ROWS_AT_ONCE = 16          # of a tile: with the 1 or 2 that the next box needs `align_train` takes 1.1 times as long


cdef enum:                     # ways to write a result
    AT_ONCE = 0                # element by element
    IN_RUNS = 1                # runs are gathered in a level 1 cache first
    PAST_CACHE = 2             # the same, and then bypass all caches


cdef struct Strides:           # of an array seen as (N, C, H, W), in elements
    Py_ssize_t image
    Py_ssize_t channel
    Py_ssize_t y
    Py_ssize_t x


ctypedef fused element:        # whatever an array may consist of
    float
    double
    int32_t
    uint16_t
    uint8_t


cdef inline Strides strides_of(const element[:, :, :, :] array) noexcept nogil:
    cdef Strides strides
    strides.image = array.strides[0] // <Py_ssize_t>sizeof(element)
    strides.channel = array.strides[1] // <Py_ssize_t>sizeof(element)
    strides.y = array.strides[2] // <Py_ssize_t>sizeof(element)
    strides.x = array.strides[3] // <Py_ssize_t>sizeof(element)
    return strides


cdef inline int way_to_write(const real[:, :, :, :] result) noexcept nogil:
    cdef double size = <double>result.shape[0] * result.shape[1] * result.shape[2] * result.shape[3] * sizeof(real)
    return PAST_CACHE if size > STREAM_BYTES else IN_RUNS if size > NEAR_BYTES else AT_ONCE


cdef inline Py_ssize_t pages(Py_ssize_t size) noexcept nogil:
    """Room for as many bytes, such that what follows begins at a page."""
    return (size + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES


cdef inline Py_ssize_t pages_apart(Py_ssize_t size, Py_ssize_t past) noexcept nogil:
    """Room for as many bytes, such that what follows begins `past` bytes, whole pages, behind a multiple of ALIAS_BYTES from here."""
    return (max(size - past, 0) + ALIAS_BYTES - 1) // ALIAS_BYTES * ALIAS_BYTES + past


cdef struct Layout:            # the scratch of a thread, in bytes from its start, where the tile is
    Py_ssize_t strip           # and as much again
    Py_ssize_t bins
    Py_ssize_t more            # BINS_BYTES, for what is made of the bins
    Py_ssize_t size


cdef inline Layout layout_of(Py_ssize_t tile_bytes, Py_ssize_t strip_bytes, Py_ssize_t bins_bytes) noexcept nogil:
    cdef Layout layout
    layout.strip = pages(tile_bytes)
    layout.bins = layout.strip + pages_apart(2 * strip_bytes, BINS_APART)
    layout.more = layout.bins + pages_apart(bins_bytes, MORE_APART)
    layout.size = layout.more + BINS_BYTES
    return layout


cdef inline void copy_lanes(const real *source, int lanes, real *target) noexcept nogil:
    """Less than 16, in a few moves, where memcpy of any size would be a call."""
    if lanes & 8:
        memcpy(target, source, 8 * sizeof(real))
        source += 8
        target += 8
    if lanes & 4:
        memcpy(target, source, 4 * sizeof(real))
        source += 4
        target += 4
    if lanes & 2:
        memcpy(target, source, 2 * sizeof(real))
        source += 2
        target += 2
    if lanes & 1:
        target[0] = source[0]


cdef inline void pack(
        const real *source, Strides from_, int lanes, Py_ssize_t rows, Py_ssize_t columns, real *tile) noexcept nogil:
    """Rows x columns pixels of `lanes` channels into tile[y][x][lane]."""
    cdef int L = LANE_BYTES // sizeof(real), l
    cdef Py_ssize_t y, x
    cdef const real *row
    cdef real *to
    if from_.x == 1 and from_.y == columns:      # rows lie end to end: one long row
        columns = columns * rows
        rows = 1
    for y in range(rows):
        row = source + y * from_.y
        to = tile + y * columns * L
        if from_.x == 1 and columns >= FEW:
            planes_to_lanes(row, from_.channel, lanes, columns, from_.y, to)
        elif lanes == L and from_.channel == 1:
            for x in range(columns):
                memcpy(to + x * L, row + x * from_.x, LANE_BYTES)
        elif from_.channel == 1:
            for x in range(columns):
                memset(to + x * L, 0, LANE_BYTES)
                copy_lanes(row + x * from_.x, lanes, to + x * L)
        else:
            for x in range(columns):
                for l in range(lanes):
                    to[x * L + l] = row[l * from_.channel + x * from_.x]
                for l in range(lanes, L):
                    to[x * L + l] = 0


cdef inline void pack_small(
        const char *source, int kind, Strides from_, int lanes, Py_ssize_t rows, Py_ssize_t columns, real *tile) noexcept nogil:
    """The same from a map of a small type."""
    cdef int L = LANE_BYTES // sizeof(real), l
    cdef Py_ssize_t size = element_bytes(kind, tile), y, x, count
    cdef real[16 * WIDENED] run
    cdef Strides strides
    cdef const char *row
    if from_.x == 1 and from_.y == columns:
        columns = columns * rows
        rows = 1
    strides.channel, strides.y, strides.x = WIDENED, 0, 1
    for y in range(rows):
        row = source + y * from_.y * size
        if from_.x == 1:
            x = 0
            while x < columns:
                count = min(columns - x, <Py_ssize_t>WIDENED)
                for l in range(lanes):
                    widen(row + (l * from_.channel + x) * size, kind, count, run + l * WIDENED)
                pack(run, strides, lanes, 1, count, tile + (y * columns + x) * L)
                x += count
        else:
            memset(run + lanes, 0, (L - lanes) * sizeof(real))
            for x in range(columns):
                if from_.channel == 1:
                    widen(row + x * from_.x * size, kind, lanes, run)
                else:
                    for l in range(lanes):
                        widen(row + (l * from_.channel + x * from_.x) * size, kind, 1, run + l)
                memcpy(tile + (y * columns + x) * L, run, LANE_BYTES)


cdef inline void few_from_lanes(const real *source, int pixels, int lanes, real *target, Py_ssize_t channel) noexcept nogil:
    """lanes_to_planes of less pixels than a vector has room for.  As many as that are read, whatever they are, and so there has to be room behind the source."""
    cdef int V = VECTOR_BYTES // sizeof(real), l
    cdef real[16 * 16] turned
    lanes_to_planes(source, V, lanes, turned, V, False)
    for l in range(lanes):
        copy_lanes(turned + l * V, pixels, target + l * channel)


cdef inline void unpack(
        const real *tile, Py_ssize_t rows, Py_ssize_t columns, real *target, Strides to, int lanes, real *buffer, int way, Stream *run) noexcept nogil:
    """tile[y][x][lane] into rows x columns pixels of `lanes` channels.

    buffer: room for a block that is contiguous in the target, for other ways than AT_ONCE, or NULL if runs are long; run: what then is pending,
    if it goes PAST_CACHE, for which the buffer is to be left alone.  The buffer begins at a page: where a run of 7 x 7 bins went across the end of
    one, a store in two pages waited for all that were streamed before it, and forward passes took up to a fifth longer.
    """
    cdef int L = LANE_BYTES // sizeof(real), V = VECTOR_BYTES // sizeof(real), l
    cdef Py_ssize_t y, x
    cdef const real *row
    cdef real *at
    cdef Strides strides = to
    cdef int turns = <int>(rows + columns)      # as the next block most likely takes, too
    if to.x == 1 and to.y == columns:
        columns = columns * rows
        rows = 1
    if buffer != NULL and way != AT_ONCE and rows == 1 and to.x == 1 and to.channel == columns and columns >= V:
        at = buffer
        strides.channel = columns
        stream_rest(run)
    else:
        at = target
        buffer = NULL
    for y in range(rows):
        row = tile + y * columns * L
        if strides.x == 1 and columns >= V:
            lanes_to_planes(row, columns, lanes, at + y * strides.y, strides.channel, buffer == NULL and way == PAST_CACHE)
        elif strides.x == 1 and columns > 1:
            few_from_lanes(row, <int>columns, lanes, at + y * strides.y, strides.channel)
        elif lanes == L and strides.channel == 1:
            for x in range(columns):
                memcpy(at + y * strides.y + x * strides.x, row + x * L, LANE_BYTES)
        elif strides.channel == 1:
            for x in range(columns):
                copy_lanes(row + x * L, lanes, at + y * strides.y + x * strides.x)
        else:
            for x in range(columns):
                for l in range(lanes):
                    at[y * strides.y + x * strides.x + l * strides.channel] = row[x * L + l]
    if buffer != NULL:
        if way == PAST_CACHE:
            stream_begin(run, target, buffer, lanes * columns * sizeof(real), turns)
        else:
            memcpy(target, buffer, lanes * columns * sizeof(real))


cdef inline void fetch_ends(const void *run, Py_ssize_t size) noexcept nogil:
    """The lines that a run of bytes fills a part of, and which therefore have to be read before they are written."""
    if <size_t>run % LANE_BYTES != 0:
        prefetch_l2(run)
    if <size_t>(<const char*>run + size) % LANE_BYTES != 0:
        prefetch_l2(<const char*>run + size)


cdef inline void put_pixels(
        const real *pixels, Py_ssize_t count, Py_ssize_t width, real *target, Py_ssize_t step, int way) noexcept nogil:
    """count pixels of `width` channels each, end to end, to as many that lie `step` apart in the target."""
    cdef Py_ssize_t i
    if step == width:
        width = width * count
        count = 1
    for i in range(count):
        if way == PAST_CACHE:
            stream_copy(target + i * step, pixels + i * width, width * sizeof(real))
        else:
            memcpy(target + i * step, pixels + i * width, width * sizeof(real))


cdef inline void fetch_pixel_ends(
        const real *target, Py_ssize_t count, Py_ssize_t width, Py_ssize_t step, int way) noexcept nogil:
    """What put_pixels will have to read, where it does not write the pixels as one run."""
    cdef Py_ssize_t i
    if way == PAST_CACHE and step != width:
        for i in range(count):
            fetch_ends(target + i * step, width * sizeof(real))


cdef inline void clear(
        real *target, Strides to, Py_ssize_t channels, Py_ssize_t rows, Py_ssize_t columns) noexcept nogil:
    """Zeros in rows x columns pixels of as many channels, as few long runs as there can be."""
    cdef Py_ssize_t y, x, c
    if to.y == columns * to.x:
        columns = columns * rows
        rows = 1
    if to.x == 1 and rows == 1 and to.channel == columns:
        columns = columns * channels
        channels = 1
    if to.x == 1:
        for c in range(channels):
            for y in range(rows):
                memset(target + c * to.channel + y * to.y, 0, columns * sizeof(real))
    elif to.channel == 1 and to.x == channels:
        for y in range(rows):
            memset(target + y * to.y, 0, columns * channels * sizeof(real))
    elif to.channel == 1:
        for y in range(rows):
            for x in range(columns):
                memset(target + y * to.y + x * to.x, 0, channels * sizeof(real))
    else:
        for y in range(rows):
            for x in range(columns):
                for c in range(channels):
                    target[c * to.channel + y * to.y + x * to.x] = 0


cdef struct Ahead:             # what will be packed next, fetched a few cache lines at a time while something else is computed
    const char *run
    Py_ssize_t run_bytes
    Py_ssize_t at              # in the run
    Py_ssize_t step            # from run to run
    Py_ssize_t row_step        # from the last run of a row to the first of the next
    int row_runs
    int row_at
    Py_ssize_t runs            # left
    Py_ssize_t bytes_at_once


cdef inline Ahead ahead_of(
        const real *source, Strides strides, int lanes, Py_ssize_t rows, Py_ssize_t columns,
        Py_ssize_t turns) noexcept nogil:
    """Rows x columns pixels of `lanes` channels, to be fetched in as many turns."""
    cdef Ahead ahead
    cdef Py_ssize_t run = columns, runs = lanes, step = strides.channel
    if strides.channel == 1:
        run, runs, step = lanes, columns, strides.x
    elif strides.x != 1:
        rows = 0
    if strides.y == run * (runs if step == run else 1):      # rows lie end to end
        run *= rows
        rows = min(rows, 1)
    if step == run:
        run *= runs
        runs = 1
    ahead.run = <const char*>source
    ahead.run_bytes = run * sizeof(real)
    ahead.at = 0
    ahead.step = step * sizeof(real)
    ahead.row_step = (strides.y - (runs - 1) * step) * <Py_ssize_t>sizeof(real)
    ahead.row_runs = <int>runs
    ahead.row_at = 0
    ahead.runs = runs * rows
    ahead.bytes_at_once = ahead.runs * (ahead.run_bytes + LANE_BYTES) // max(turns, 1) + LANE_BYTES
    return ahead


cdef inline void fetch_some(Ahead *ahead) noexcept nogil:
    """All at once they would only queue up before the loads of the computation."""
    cdef Py_ssize_t left = ahead.bytes_at_once
    while ahead.runs > 0 and left > 0:
        prefetch_l1(ahead.run + ahead.at)
        ahead.at += LANE_BYTES
        left -= LANE_BYTES
        if ahead.at >= ahead.run_bytes:
            ahead.at = 0
            ahead.runs -= 1
            ahead.row_at += 1
            if ahead.row_at == ahead.row_runs:
                ahead.row_at = 0
                ahead.run += ahead.row_step
            else:
                ahead.run += ahead.step


cdef struct Map:               # feature maps, or their gradient, seen as (N, C, H, W)
    char *data
    int kind
    Strides strides
    Py_ssize_t channels        # of the output
    Py_ssize_t group           # input channels per output channel: PH * PW where they are position-sensitive, else 1
    Py_ssize_t rows
    Py_ssize_t columns
    Py_ssize_t tile_bytes


cdef inline Map map_of(object array, int kind, Py_ssize_t channels, Py_ssize_t group, real *_) except *:
    """Of an array (N, C, H, W); those of two bytes come as uint16."""
    cdef Map map
    cdef const real[:, :, :, :] reals
    cdef const uint16_t[:, :, :, :] pairs
    cdef const uint8_t[:, :, :, :] single
    if element_bytes(kind, _) == 1:
        single = array
        map.data, map.strides, map.rows, map.columns = <char*>&single[0, 0, 0, 0], strides_of(single), single.shape[2], single.shape[3]
    elif element_bytes(kind, _) == 2:
        pairs = array
        map.data, map.strides, map.rows, map.columns = <char*>&pairs[0, 0, 0, 0], strides_of(pairs), pairs.shape[2], pairs.shape[3]
    else:
        reals = array
        map.data, map.strides, map.rows, map.columns = <char*>&reals[0, 0, 0, 0], strides_of(reals), reals.shape[2], reals.shape[3]
    map.kind = kind
    map.channels, map.group = channels, group
    # no more than is needed, of a channel block or of as many as are gathered
    cdef double pixel = max(<double>LANE_BYTES, channels * <double>sizeof(real)) if map.strides.channel == 1 else LANE_BYTES
    map.tile_bytes = <Py_ssize_t>min(<double>TILE_BYTES, <double>map.rows * <double>map.columns * pixel)
    return map


cdef inline Map map_of_task(const Map *map, const int64_t *task, real *tile) noexcept nogil:
    """The map, or what the boxes of the task read of it, GATHERED in the tile."""
    cdef Map near = map[0]
    cdef Py_ssize_t size = element_bytes(map.kind, tile), L = LANE_BYTES // sizeof(real), first = task[BLOCK_FIRST] * L, width = task[BLOCK_STOP] * L - first
    cdef Py_ssize_t rows = task[Y1] - task[Y0], columns = task[X1] - task[X0]
    cdef const char *start
    if task[MODE] == GATHERED:
        start = map.data + (task[IMAGE] * map.strides.image + first + task[Y0] * map.strides.y + task[X0] * map.strides.x) * size
        if size == sizeof(real):
            copy_runs(start, map.strides.y * size, map.strides.x * size, rows, columns, width * size, <char*>tile)
        elif map.strides.x == width:
            widen_runs(start, map.kind, map.strides.y * size, 0, rows, 1, columns * width, <float*>tile)
        else:
            widen_runs(start, map.kind, map.strides.y * size, map.strides.x * size, rows, columns, width, <float*>tile)
        near.kind = c'f' if real is float else c'd'
        near.strides.image, near.strides.x, near.strides.y = 0, width, columns * width
        near.data = <char*>(tile - first - task[Y0] * near.strides.y - task[X0] * near.strides.x)
    return near


cdef inline void begin_each(const int64_t *task, int64_t *one) noexcept nogil:
    """Before the first of the parts of a task whose mode is EACH."""
    memcpy(one, task, COLUMNS * sizeof(int64_t))
    one[STOP] = task[FIRST]


cdef inline bint next_of_each(
        const int64_t *task, const int32_t *windows, Py_ssize_t together, Py_ssize_t tile_bytes, int64_t *one) noexcept nogil:
    """one = its next part: a box and as many channel blocks as have room, a multiple of `together`, GATHERED; False after the last."""
    cdef const int32_t *window
    cdef Py_ssize_t block_bytes, blocks
    one[BLOCK_FIRST] = one[BLOCK_STOP]
    if one[BLOCK_FIRST] == task[BLOCK_STOP]:
        one[BLOCK_FIRST] = task[BLOCK_FIRST]
        one[FIRST] = one[STOP]
        one[STOP] += 1
    if one[FIRST] == task[STOP]:
        return False
    window = windows + 4 * one[FIRST]
    one[Y0], one[Y1], one[X0], one[X1] = window[0], window[1], window[2], window[3]
    block_bytes = max(<Py_ssize_t>(window[1] - window[0]) * (window[3] - window[2]) * LANE_BYTES, 1)
    blocks = max(min(tile_bytes, <Py_ssize_t>NEAR_BOX_BYTES) // block_bytes // together * together, together)
    one[BLOCK_STOP] = min(one[BLOCK_FIRST] + blocks, task[BLOCK_STOP])
    one[MODE] = GATHERED if block_bytes * (one[BLOCK_STOP] - one[BLOCK_FIRST]) <= tile_bytes else WINDOW
    return True


cdef struct Reader:            # one channel block of one image, seen through a tile
    char *plane                # its first channel
    int kind
    Strides strides            # channel: between its lanes
    int lanes
    int mode
    bint in_place              # the lanes of a pixel lie together: no tile
    Py_ssize_t capacity        # pixels of the tile
    Py_ssize_t capacity_rows   # rows of x1 - x0 pixels: a division that boxes and bins are spared
    Py_ssize_t top             # no box reads above
    Py_ssize_t x0              # ROWS: the columns and rows that the tile holds
    Py_ssize_t x1
    Py_ssize_t y0
    Py_ssize_t y1
    Py_ssize_t bottom          # no box reads below


cdef inline Reader block_reader(const Map *map, const int64_t *task, Py_ssize_t block, real *_) noexcept nogil:
    """The reader of a block of output channels; map.group input channels, of which a task reads one, make one of them."""
    cdef Reader reader
    cdef Py_ssize_t L = LANE_BYTES // sizeof(real), size = element_bytes(map.kind, _)
    reader.plane = map.data + (task[IMAGE] * map.strides.image + (block * L * map.group + max(task[BIN], 0)) * map.strides.channel) * size
    reader.kind = map.kind
    reader.strides = map.strides
    reader.strides.channel = map.strides.channel * map.group
    reader.lanes = <int>min(L, map.channels - block * L)
    reader.in_place = reader.lanes == L and reader.strides.channel == 1 and size == sizeof(real)
    reader.mode = <int>task[MODE]
    reader.capacity = map.tile_bytes // LANE_BYTES
    reader.x0 = task[X0]
    reader.x1 = task[X1]
    reader.capacity_rows = reader.capacity // max(reader.x1 - reader.x0, 1)
    reader.top = task[Y0]
    reader.bottom = task[Y1]
    reader.y0 = reader.top
    reader.y1 = reader.bottom if reader.mode == GATHERED else reader.top
    return reader


cdef inline void read_pixels(
        const Reader *reader, Py_ssize_t y, Py_ssize_t x, Py_ssize_t rows, Py_ssize_t columns, real *tile) noexcept nogil:
    """Rows x columns pixels from (y, x) on into the tile."""
    cdef Py_ssize_t at = y * reader.strides.y + x * reader.strides.x
    if element_bytes(reader.kind, tile) == sizeof(real):
        pack(<const real*>reader.plane + at, reader.strides, reader.lanes, rows, columns, tile)
    else:
        pack_small(reader.plane + at * element_bytes(reader.kind, tile), reader.kind, reader.strides, reader.lanes, rows, columns, tile)


# Channels last, what neighbouring bins of a position-sensitive operator read of a pixel lies together: it is turned as a row of pixels
# would be, into a tile for each bin.

cdef inline Py_ssize_t bin_tile_bytes(const int64_t *task) noexcept nogil:
    """From the tile of one bin to that of the next; 0 where none is GATHERED, and all bins have the same."""
    return (task[Y1] - task[Y0]) * (task[X1] - task[X0]) * LANE_BYTES if task[MODE] == GATHERED else 0


cdef inline void gather_bins(const Map *map, const int64_t *task, real *tile) noexcept nogil:
    """The rectangle of the task into tile[bin][y][x][lane]."""
    cdef int L = LANE_BYTES // sizeof(real)
    cdef Py_ssize_t y, x, z, bins = task[BIN_STOP] - task[BIN], size = element_bytes(map.kind, tile)
    cdef Py_ssize_t step = bin_tile_bytes(task) // <Py_ssize_t>sizeof(real)
    cdef Reader reader = block_reader(map, task, task[BLOCK_FIRST], tile)
    cdef char *plane = reader.plane
    cdef real[16 * BINS_TOGETHER] pixel
    reader.strides.x = map.strides.channel
    for y in range(task[Y0], task[Y1]):
        for x in range(task[X0], task[X1]):
            reader.plane = plane + (y * map.strides.y + x * map.strides.x) * size
            for z in range(reader.lanes):      # a few pixels ahead: 0.92 of the time of all
                prefetch_l2(reader.plane + (4 * map.strides.x + z * reader.strides.channel) * size)
            read_pixels(&reader, 0, 0, 1, bins, pixel)
            for z in range(bins):
                memcpy(tile + z * step, pixel + z * L, LANE_BYTES)
            tile += L


cdef inline void scatter_bins(const Map *map, const int64_t *task, const real *tile) noexcept nogil:
    """tile[bin][y][x][lane] into the rectangle of the task."""
    cdef Py_ssize_t L = LANE_BYTES // sizeof(real)
    cdef Py_ssize_t y, x, z, bins = task[BIN_STOP] - task[BIN], step = bin_tile_bytes(task) // <Py_ssize_t>sizeof(real)
    cdef Reader reader = block_reader(map, task, task[BLOCK_FIRST], <real*>NULL)
    cdef real[16 * BINS_TOGETHER] pixel
    reader.strides.x = map.strides.channel
    memset(pixel, 0, sizeof(pixel))
    for y in range(task[Y0], task[Y1]):
        for x in range(task[X0], task[X1]):
            for z in range(bins):
                memcpy(pixel + z * L, tile + z * step, LANE_BYTES)
            unpack(pixel, 1, bins, <real*>reader.plane + y * map.strides.y + x * map.strides.x, reader.strides, reader.lanes, <real*>NULL, AT_ONCE, NULL)
            tile += L


cdef inline void read_runs(
        const Reader *reader, Py_ssize_t at, Py_ssize_t rows, Py_ssize_t count, Py_ssize_t step, real *tile) noexcept nogil:
    """As many elements a row, `step` apart from element `at` of the plane on, into the tile end to end."""
    cdef Py_ssize_t size = element_bytes(reader.kind, tile), x
    for _ in range(rows):
        if size == sizeof(real):
            for x in range(count):
                tile[x] = (<const real*>reader.plane)[at + x * step]
        elif step == 1:
            widen(reader.plane + at * size, reader.kind, count, tile)
        else:
            for x in range(count):
                widen(reader.plane + (at + x * step) * size, reader.kind, 1, tile + x)
        tile += count
        at += reader.strides.y


cdef inline Py_ssize_t blocks_together(Py_ssize_t blocks, Py_ssize_t strip_bytes, Py_ssize_t columns, Py_ssize_t bins) noexcept nogil:
    """How many of so many channel blocks that lie together are computed at once, with strips of `columns` and results of `bins`
    lane vectors a block: even shares that fit the scratch, or 0 where not one block does."""
    cdef Py_ssize_t most = min(strip_bytes // (columns * LANE_BYTES), BINS_BYTES // (bins * LANE_BYTES)), turns
    if most < 1 or blocks < 1:
        return 0
    turns = (blocks + most - 1) // most
    return (blocks + turns - 1) // turns


cdef inline Py_ssize_t slope_blocks_from(Py_ssize_t block, Py_ssize_t whole) noexcept nogil:
    """How many blocks are summed together with one that is the first of a group: SLOPE_BLOCKS, the last of `whole` lane vectors of channels, or one of less."""
    return min(<Py_ssize_t>SLOPE_BLOCKS, whole - block) if block < whole else 1


cdef inline Py_ssize_t slope_pixels(Py_ssize_t together) noexcept nogil:
    """Pixels of a tile, where there is one for each of so many blocks."""
    return min(<Py_ssize_t>TILE_BYTES, TILES_BYTES // together) // LANE_BYTES


# A window too large for the scratch is looked at in cells, of as many columns and rows:

cdef inline Py_ssize_t cell_columns(Py_ssize_t columns) noexcept nogil:
    return max(min(columns, MOST_COLUMNS), 1)


cdef inline Py_ssize_t cell_rows(const Reader *reader, Py_ssize_t rows, Py_ssize_t columns) noexcept nogil:
    if reader.mode == WINDOW and not reader.in_place:
        rows = min(rows, reader.capacity // columns)
    return max(rows, 1)


cdef struct BinRange:          # the bins of a task, and how many of them, rows x columns, are computed together
    int p0
    int p1
    int q0
    int q1
    int p_step
    int q_step


cdef inline BinRange bins_of_task(const int64_t *task, int ph, int pw, int widest) noexcept nogil:
    """The bins of a task, in parts of no more than have room: no wider than `widest` where one part has not room for all."""
    cdef BinRange part
    cdef int rows, columns
    if task[BIN] >= 0:
        part.p0, part.q0 = <int>(task[BIN] // pw), <int>(task[BIN] % pw)
        part.p1, part.q1 = part.p0 + 1, part.q0 + 1
    else:
        part.p0, part.q0, part.p1, part.q1 = 0, 0, ph, pw
    rows, columns = part.p1 - part.p0, part.q1 - part.q0
    part.q_step = columns if rows <= min(<int>MOST_BIN_ROWS, <int>MOST_BINS // columns) else min(columns, widest)
    part.p_step = min(min(rows, <int>MOST_BIN_ROWS), <int>MOST_BINS // part.q_step)
    return part


cdef inline void clip(
        const int32_t *span, const int32_t *index, Py_ssize_t low, Py_ssize_t high, Py_ssize_t *first,
        Py_ssize_t *stop) noexcept nogil:
    """The entries of a bin that are of pixels in [low, high); they ascend."""
    first[0] = span[0]
    stop[0] = span[1]
    while first[0] < stop[0] and index[first[0]] < low:
        first[0] += 1
    while first[0] < stop[0] and index[stop[0] - 1] >= high:
        stop[0] -= 1


cdef inline void bounds(
        const int32_t *spans, int first, int stop, const int32_t *index, Py_ssize_t *low,
        Py_ssize_t *high) noexcept nogil:
    """The pixels from low to high - 1 that bins first..stop-1 read."""
    cdef int i
    low[0] = high[0] = 0
    for i in range(first, stop):
        if spans[2 * i] < spans[2 * i + 1]:
            low[0] = min(low[0], index[spans[2 * i]]) if high[0] > 0 else index[spans[2 * i]]
            high[0] = max(high[0], index[spans[2 * i + 1] - 1] + 1)


cdef inline void narrow(const int32_t *spans, const int32_t *index, Py_ssize_t low, Py_ssize_t high, int *first, int *stop) noexcept nogil:
    """Of the bins first..stop-1 keep those that read pixels in [low, high), and what is between them."""
    cdef int i, found = stop[0], end = first[0]
    for i in range(first[0], stop[0]):
        if spans[2 * i] < spans[2 * i + 1] and index[spans[2 * i]] < high and index[spans[2 * i + 1] - 1] >= low:
            found, end = min(found, i), i + 1
    first[0], stop[0] = found, max(found, end)


cdef struct View:              # where the lanes of a pixel are: start + y * stride_y + x * stride_x, in elements
    Py_ssize_t y
    Py_ssize_t x


cdef inline const real *view_anew(
        Reader *reader, real *tile, Py_ssize_t y0, Py_ssize_t y1, Py_ssize_t x0, Py_ssize_t x1,
        View *strides) noexcept nogil:
    """What `view` shows, where the tile does not hold it yet; `strides` is set for what it does hold."""
    cdef int L = LANE_BYTES // sizeof(real)
    cdef Py_ssize_t width = reader.x1 - reader.x0, keep, top
    if reader.mode == WINDOW:
        read_pixels(reader, y0, x0, y1 - y0, x1 - x0, tile)
        strides.y = (x1 - x0) * L
        return tile
    if y0 < reader.y0 or y1 > reader.y0 + reader.capacity_rows:      # move the tile
        # the order of boxes is only nearly that of their top rows: as far as there is room the tile begins above this one
        top = max(y0 - (reader.capacity_rows - (y1 - y0)) // 4, reader.top)
        keep = max(reader.y1 - top, 0) if top >= reader.y0 else 0
        if keep > 0:
            memmove(tile, tile + (top - reader.y0) * strides.y, keep * strides.y * sizeof(real))
        reader.y0 = top
        reader.y1 = top + keep
    if y1 > reader.y1:
        y1 = max(y1, min(min(reader.y1 + ROWS_AT_ONCE, reader.y0 + reader.capacity_rows), reader.bottom))
        read_pixels(reader, reader.y1, reader.x0, y1 - reader.y1, width, tile + (reader.y1 - reader.y0) * strides.y)
        reader.y1 = y1
    return tile + (y0 - reader.y0) * strides.y + (x0 - reader.x0) * L


cdef inline const real *view(
        Reader *reader, real *tile, Py_ssize_t y0, Py_ssize_t y1, Py_ssize_t x0, Py_ssize_t x1,
        View *strides) noexcept nogil:
    """The pixels [y0, y1) x [x0, x1) of the block, in place where its lanes lie together."""
    cdef int L = LANE_BYTES // sizeof(real)
    if reader.in_place:
        strides.y = reader.strides.y
        strides.x = reader.strides.x
        return <const real*>reader.plane + y0 * reader.strides.y + x0 * reader.strides.x
    strides.x = L
    strides.y = (reader.x1 - reader.x0) * L
    if reader.mode == WINDOW or y0 < reader.y0 or y1 > reader.y1:
        return view_anew(reader, tile, y0, y1, x0, x1, strides)
    return tile + (y0 - reader.y0) * strides.y + (x0 - reader.x0) * L
