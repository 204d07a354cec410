"""Choose: strategy, load, how, blocks, store and prefetch, and on which facts they rest.

    strategy    of a level: how pixels become lanes
    load        of a task: how it gets its pixels
    how         of a box: how its bins are computed (`set_how`), and of large boxes, part by part
    blocks      of a part: how many channel blocks are computed at once
    store       of an array: how results are written
    prefetch    of a level: whether pixels are asked for ahead

Only `x_first`, a part of `how`, changes bits of a result, since it decides in which order sums are
taken.  It looks at nothing but boxes, bins and channels.  All others may look at the whole batch.
Costs of boxes are counted in operations on a lane vector, and those of loads in pixels.
"""
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memset

from plan.structs cimport (
    BINS, CELLS, COPY_ONCE, COPY_PER_BOX, EMPTY, FORWARD, GRAD_BOXES, GRAD_INPUT,
    MAX_PIXEL_GRAD, NUMBERS_Y, PACK_ROWS, PACK_WINDOW, PIXELS, PLANES, ROW_LANES, ROWS, SCALARS,
    SPARSE, SPARSE_TAPS, TAPS_X, TAPS_Y, WINDOW_X, WINDOW_Y, Call, Tables, Task,
    holds_pixels,
)
from simd.structs cimport DIRECT, LANE_BYTES, STAGED, STREAMING
from tuning cimport (
    BINS_BYTES, COPY_BYTES, COPY_COST, COPY_PIXELS_BYTES, DIRECT_BYTES, FAR_WINDOW_BYTES,
    MAX_COLUMNS, MAX_COVER, MIN_BLOCKS_TOGETHER, MIN_COPY_BINS, MIN_COPY_BLOCKS, MIN_COPY_COVER,
    MOVE_COST, NARROW_COST, SLOPE_BLOCKS, SLOPE_GROUPS, STREAM_BYTES,
    STRIP_BYTES, TILE_BYTES, TILE_COST, WIDE_STRIP_BYTES, WINDOW_COST, X_FIRST_GAIN,
)

cdef enum:
    TILE_PIXELS = TILE_BYTES // LANE_BYTES


cdef struct Work:                  # what all tasks of a call share
    int threads                    # that are worth waking
    Py_ssize_t bins
    Py_ssize_t blocks              # channel blocks
    Py_ssize_t whole_blocks        # of those, the ones that fill a lane vector
    Py_ssize_t units               # what is not divided: a block, or blocks with common slopes
    Py_ssize_t tile_pixels         # that the tile of one block has room for
    double cost                    # of a task, at most, if it can be divided; reading only


cdef struct Cover:                 # what the windows of some boxes cover
    Py_ssize_t y0                  # the hull of all that are not empty; its rows may be made whole
    Py_ssize_t y1
    Py_ssize_t x0
    Py_ssize_t x1
    double hull                    # pixels of it
    double area                    # pixels of the windows, added up
    double rows                    # rows of the windows, added up
    Py_ssize_t max_rows            # of one window
    double cost
    double max_cost                # of one box


cdef struct Pieces:                # into how many shares work is divided
    Py_ssize_t blocks
    Py_ssize_t bins
    int load                       # COPY_ONCE, or else PACK_WINDOW until load_of_chunk decides
    Py_ssize_t max_boxes           # of a task
    Py_ssize_t rows                # writing: of a task at most
    Py_ssize_t columns
    Py_ssize_t bands               # writing: rows are divided into so many shares or more


# --- strategy of a level

cdef inline bint channels_are_few(const Call *call) noexcept nogil:
    """Whether bin rows fill lanes at least twice as well as channels do."""
    cdef int vectors = (call.ph + call.lanes - 1) // call.lanes
    return 2 * call.channels * vectors <= call.ph


cdef inline bint lanes_are_empty(const Call *call) noexcept nogil:
    """Whether channels fill a quarter of a lane vector at most."""
    return 4 * call.channels <= call.lanes and call.map.itemsize == call.itemsize


cdef inline int strategy_of(const Call *call) noexcept nogil:
    """The strategy of a level, before row lanes and numbers are considered.

    Pixels whose channels lie together are read in place (PIXELS).  If they are of a small type,
    their channels have to fill whole lane vectors; if they do not, they are packed (PLANES).
    """
    if call.position_sensitive:
        return BINS
    if call.map.strides.channel != 1:
        return PLANES
    if call.map.itemsize == call.itemsize or call.channels * call.itemsize % LANE_BYTES == 0:
        return PIXELS
    return PLANES


cdef inline bint row_lanes_fit(const Call *call) noexcept nogil:
    """Whether the strip has room for the columns of each window, of all channels."""
    cdef const int32_t *window = call.tables.windows
    for _ in range(call.tables.count):
        if (window[3] - window[2]) * call.channels * LANE_BYTES > call.layout.strip_bytes:
            return False
        window += 4
    return True


cdef inline double all_windows(const Tables *tables) noexcept nogil:
    """Pixels of the windows of all boxes."""
    cdef const int32_t *window = tables.windows
    cdef double pixels = 0
    for _ in range(tables.count):
        pixels += <double>(window[1] - window[0]) * (window[3] - window[2])
        window += 4
    return pixels


cdef inline double all_taps(const Tables *tables, int ph, int pw) noexcept nogil:
    """Taps of all bins of all boxes, of both axes together: how many pixels bins read in all."""
    cdef const int32_t *spans = tables.spans
    cdef double taps = 0
    for _ in range(tables.count):
        taps += (<double>(spans[2 * ph - 1] - spans[0])
                 * (spans[2 * (ph + pw) - 1] - spans[2 * ph]))
        spans += 2 * (ph + pw)
    return taps


cdef inline bint scalars_pay(const Call *call, Py_ssize_t thin) noexcept nogil:
    """Whether numbers are computed one by one in less time than lanes of them.

    thin: how many boxes are thin.  Row lanes read all pixels of a window, so they are for others.
    """
    cdef const Tables *tables = &call.tables
    cdef double pixels = <double>call.map.rows * call.map.columns * call.map.images
    if call.purpose == FORWARD:
        return lanes_are_empty(call) and (call.position_sensitive or 2 * thin > tables.count)
    # A few numbers are added in place faster than a tile is cleared and stored.
    if call.purpose == GRAD_INPUT and (lanes_are_empty(call) or call.position_sensitive):
        if call.position_sensitive:
            pixels *= (TILE_COST * call.channels_per_output
                       * ((call.channels - 1) // call.lanes + 1))
        return all_taps(tables, call.ph, call.pw) * call.channels < pixels
    return False


cdef inline int choose_strategy(const Call *call, Py_ssize_t thin) noexcept nogil:
    """The strategy of a level for the boxes at hand.  thin: how many of them are thin."""
    if call.tables.kind == SPARSE_TAPS:
        return strategy_of(call)
    if scalars_pay(call, thin):
        return SCALARS
    if (call.purpose == FORWARD and not call.position_sensitive and channels_are_few(call)
            # Row lanes read whole rows, and so are not for boxes with few columns.
            and 2 * thin <= call.tables.count and row_lanes_fit(call)):
        return ROW_LANES
    return strategy_of(call)


# --- load of a task

cdef inline bint rows_contiguous(const Call *call) noexcept nogil:
    return call.map.strides.x == 1


cdef inline bint packs_nothing(const Call *call) noexcept nogil:
    return call.strategy == ROW_LANES or call.strategy == SCALARS


cdef inline bint small_type(const Call *call) noexcept nogil:
    """Whether numbers of the map have to be widened before they are computed with."""
    return call.map.kind != c'f' and call.map.kind != c'd'


cdef inline bint pixels_are_worth_copying(
        const Call *call, const Work *work, const Cover *cover, Py_ssize_t pieces,
        Py_ssize_t boxes) noexcept nogil:
    """Return whether the pixels that the boxes of an image read are copied once for all boxes.

    pieces: into how many shares channels would be divided.
    """
    cdef bint small = small_type(call)
    if call.channels % call.lanes != 0:
        return False
    # Too few blocks of each pixel would be read and written in short runs. Where windows come from
    # memory at each read, this is still better.
    if not (windows_are_far(call, work, cover, boxes)
            or cover.hull * MIN_COPY_BLOCKS * LANE_BYTES <= COPY_PIXELS_BYTES):
        return False
    # A small type has to be widened, which a copy does once for all boxes. Maps that are hardly
    # larger than a cache are read in place. So are those whose slopes are wanted: the gradients
    # that are read beside them would come in short runs from memory.
    if not (small or (call.purpose != GRAD_BOXES
                      and COPY_PIXELS_BYTES < cover.hull * work.blocks * LANE_BYTES / 2)):
        return False
    # The boxes of a task are all of the image, or as many as cost its share. They have to
    # read each pixel more than four times, or more than once if it would be widened each time.
    return (cover.area * min(work.cost * pieces / (work.blocks * cover.cost), 1)
            > (1 if small else MIN_COPY_COVER) * cover.hull)


cdef inline bint windows_are_far(
        const Call *call, const Work *work, const Cover *cover, Py_ssize_t boxes) noexcept nogil:
    """Whether the mean window, with all its channels, does not stay in a level 3 cache until the
    next box reads it, while the tile has room for what all boxes read of a block."""
    return (call.purpose != GRAD_BOXES and work.blocks >= MIN_COPY_BLOCKS
            and cover.hull <= TILE_PIXELS
            and cover.area * work.blocks * LANE_BYTES > <double>FAR_WINDOW_BYTES * boxes)


cdef inline double cost_of_bin(const Call *call, const Work *work) noexcept nogil:
    """Return the cost of a pixel of a window of which each bin packs its own part, in pixels of
    whole rows. Short runs of a plane take longer than a pixel that is read from its channels."""
    return <double>(NARROW_COST if rows_contiguous(call) else 1) / work.bins


cdef inline bint bins_are_worth_copying(
        const Call *call, const Work *work, const Cover *cover, Py_ssize_t together) noexcept nogil:
    """Whether what so many bins read is copied for all of them: their channels lie together."""
    return (together >= MIN_COPY_BINS
            and COPY_COST * cover.hull < cover.area * cost_of_bin(call, work) * together)


cdef inline int load_of_chunk(
        const Call *call, const Work *work, const Pieces *pieces, const Cover *chunk,
        Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    cdef Py_ssize_t columns = chunk.x1 - chunk.x0
    if pieces.load == COPY_ONCE:
        return COPY_ONCE
    if call.strategy == PIXELS and small_type(call):
        return COPY_PER_BOX
    if packs_nothing(call):
        return PACK_WINDOW
    if (call.strategy != PIXELS and chunk.max_rows * columns <= work.tile_pixels
            and cost_of_rows(call, work, chunk, first, stop) < cost_of_windows(call, work, chunk)):
        return PACK_ROWS
    return PACK_WINDOW


cdef inline double cost_of_rows(
        const Call *call, const Work *work, const Cover *chunk, Py_ssize_t first,
        Py_ssize_t stop) noexcept nogil:
    """Return what packing whole rows costs, in pixels: each row is packed once. Where the tile has
    no room for all of them, most boxes that take half of it move what it holds."""
    cdef const int32_t *windows = call.tables.windows
    cdef Py_ssize_t i, columns = chunk.x1 - chunk.x0
    cdef double cost = chunk.hull
    if chunk.hull > work.tile_pixels:
        for i in range(first, stop):
            if 2 * (windows[4 * i + 1] - windows[4 * i]) * columns > work.tile_pixels:
                cost += MOVE_COST * work.tile_pixels
    return cost


cdef inline double cost_of_windows(
        const Call *call, const Work *work, const Cover *chunk) noexcept nogil:
    """Return what packing each window costs, in pixels of whole rows. Their runs are short, and
    each ends in a cache line that is not needed as a whole."""
    if call.strategy == BINS:
        return chunk.area * cost_of_bin(call, work)
    return WINDOW_COST * (chunk.area + chunk.rows * call.lanes)


cdef inline void choose_copy(const Call *call, Task *one, Py_ssize_t stop_block) noexcept nogil:
    """Choose which blocks of a box the next piece of a COPY_PER_BOX task is of, and its load."""
    cdef const int32_t *window = call.tables.windows + 4 * one.first_box
    cdef Py_ssize_t room = call.layout.tiles_bytes, blocks, block_bytes
    cdef Py_ssize_t group = SLOPE_BLOCKS if call.purpose == GRAD_BOXES else 1
    one.stop_block, one.load = stop_block, PACK_WINDOW
    if call.tables.thin != NULL and call.tables.thin[one.first_box] > 0:
        return
    one.y0, one.y1, one.x0, one.x1 = window[0], window[1], window[2], window[3]
    block_bytes = max((one.y1 - one.y0) * (one.x1 - one.x0) * LANE_BYTES, 1)
    blocks = min(room, <Py_ssize_t>COPY_BYTES) // block_bytes
    blocks = max(blocks // group, 1) * group
    one.stop_block = min(one.first_block + blocks, stop_block)
    if block_bytes * (one.stop_block - one.first_block) <= room:
        one.load = COPY_ONCE


# --- how a box is computed

cdef struct Side:                  # some bins of a box along one axis
    const int32_t *spans
    Py_ssize_t bins
    Py_ssize_t pixels              # of their window


cdef inline Py_ssize_t taps_of(const Side *side) noexcept nogil:
    """Taps of the bins, which follow each other."""
    return side.spans[2 * side.bins - 1] - side.spans[0]


cdef inline bint x_first(const Call *call, const Side *y, const Side *x) noexcept nogil:
    """Whether bins of a forward pass are contracted along x first, since that is less work.

    Windows that are computed in cells are contracted along y first.
    """
    cdef Py_ssize_t taps_y, taps_x
    if (call.purpose != FORWARD or call.position_sensitive or y.pixels <= 0
            or y.pixels > STRIP_BYTES // LANE_BYTES or x.pixels > MAX_COLUMNS
            or y.pixels * x.pixels > TILE_PIXELS):
        return False
    taps_y, taps_x = taps_of(y), taps_of(x)
    return (y.pixels * taps_x + x.bins * taps_y + X_FIRST_GAIN
            < x.pixels * taps_y + y.bins * taps_x and not channels_are_few(call))


cdef inline int how_of_window(Py_ssize_t rows, Py_ssize_t columns) noexcept nogil:
    """WINDOW_Y, or CELLS if a window is larger than a tile; for bins that are not taps alone."""
    return CELLS if columns > MAX_COLUMNS or rows * columns > TILE_PIXELS else WINDOW_Y


cdef inline int how_of_bins(
        const Call *call, Py_ssize_t box, int load, const Side *y, const Side *x) noexcept nogil:
    """How some bins of an upright box are computed, or all of them, by a task with such a load."""
    if packs_nothing(call):
        return ROWS if call.strategy == ROW_LANES else NUMBERS_Y + x_first(call, y, x)
    if y.pixels <= 0 or x.pixels <= 0:
        return EMPTY
    if call.tables.thin != NULL and call.tables.thin[box] > 0 and not holds_pixels(load):
        return TAPS_Y + x_first(call, y, x)
    return how_of_window(y.pixels, x.pixels) + x_first(call, y, x)


cdef inline int how_in_task(const Call *call, Py_ssize_t box, int load) noexcept nogil:
    """How all bins of a box are computed by a task with such a load.

    Taps alone are not packed where the tile holds pixels, which they would replace.
    """
    cdef int how = call.tables.how[box]
    cdef const int32_t *window = call.tables.windows + 4 * box
    if holds_pixels(load) and (how == TAPS_Y or how == TAPS_X):
        return how_of_window(window[1] - window[0], window[3] - window[2]) + how % 2
    return how


cdef inline void set_how(Call *call) noexcept nogil:
    """How each box is computed, if all its bins are computed together."""
    cdef const int32_t *window = call.tables.windows
    cdef Py_ssize_t i
    cdef Side y, x
    if call.tables.kind == SPARSE_TAPS or call.strategy == ROW_LANES:
        memset(call.tables.how, ROWS if call.strategy == ROW_LANES else SPARSE, call.tables.count)
        return
    y.bins, x.bins, y.spans = call.ph, call.pw, call.tables.spans
    for i in range(call.tables.count):
        x.spans = y.spans + 2 * y.bins
        y.pixels, x.pixels = window[1] - window[0], window[3] - window[2]
        call.tables.how[i] = <uint8_t>how_of_bins(call, i, PACK_WINDOW, &y, &x)
        y.spans = x.spans + 2 * x.bins
        window += 4


# --- channel blocks at once

cdef inline Py_ssize_t most_blocks(
        int how, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t bins) noexcept nogil:
    """The most blocks of a box that scratch has room for, if nothing is packed; 0 if they may not
    be computed together.  bins: in a row of a part."""
    cdef Py_ssize_t most = BINS_BYTES // (bins * LANE_BYTES)
    if how == SPARSE:
        return max(most, 1)
    if how < CELLS or how > WINDOW_X:
        return 0
    return min(most, WIDE_STRIP_BYTES // ((rows if how == WINDOW_X else columns) * LANE_BYTES))


cdef inline Py_ssize_t blocks_together(
        const Call *call, const Task *task, Py_ssize_t block, Py_ssize_t most) noexcept nogil:
    """How many blocks from `block` on are computed at once, in as few and as even turns as there
    can be; 0 where lanes do not lie together in the bins."""
    cdef Py_ssize_t left = min(task.stop_block, call.channels // call.lanes) - block, turns
    if left < 1 or most < 1 or call.bins.channel != 1:
        return 0
    turns = (left + most - 1) // most
    return (left + turns - 1) // turns


cdef inline Py_ssize_t blocks_to_write(
        const Call *call, const Task *task, Py_ssize_t block, Py_ssize_t bins,
        bint in_place) noexcept nogil:
    """How many blocks gradients of the input sum at once, of so many bins in a row."""
    cdef Py_ssize_t most = call.layout.strip_bytes // (bins * LANE_BYTES), blocks = 1
    if in_place and call.strategy != BINS:
        blocks = blocks_together(call, task, block, most)
    # With fewer blocks runs are short, and choosing a loop for each costs more than is saved.
    return blocks if blocks >= MIN_BLOCKS_TOGETHER else 1


cdef inline Py_ssize_t blocks_with_slopes(
        const Call *call, const Task *task, Py_ssize_t block, bint in_place) noexcept nogil:
    """How many blocks gradients of the boxes take at once: a group, or several groups where neither
    map nor gradient is packed.  A partial block is a group by itself."""
    cdef Py_ssize_t whole = call.channels // call.lanes, most = SLOPE_BLOCKS
    if call.strategy == BINS or block >= whole:
        return 1
    if in_place and call.bins.channel == 1 and call.tables.thin == NULL:
        whole, most = min(task.stop_block, whole), SLOPE_GROUPS * SLOPE_BLOCKS
    return min(most, whole - block)


cdef inline bint bins_are_written_together(
        const Call *call, Py_ssize_t together) noexcept nogil:
    """Whether a gradient of so many position-sensitive bins is summed in tiles, one for each bin,
    since channels of neighbouring bins lie together."""
    return not rows_contiguous(call) and together >= MIN_COPY_BINS


cdef inline bint rows_are_summed_apart(
        const Call *call, Py_ssize_t pieces, Py_ssize_t blocks) noexcept nogil:
    """Whether a task sums so many blocks of the gradient of roi_pool in a tile.

    Neighbouring channels of a pixel share cache lines, and hardware fetches the next one too.  A
    tile for each thread keeps threads from taking them from each other.
    """
    return (call.purpose == MAX_PIXEL_GRAD and call.strategy == PIXELS and pieces > 1
            and call.map.rows * call.map.columns * blocks <= TILE_PIXELS)


# --- store, prefetch

cdef inline bint beyond_cache(const Call *call) noexcept nogil:
    """Whether the map of an image is too large to stay in cache."""
    return (<double>call.map.rows * call.map.columns * call.channels * call.itemsize
            > STREAM_BYTES)


cdef inline int store_for(double bytes) noexcept nogil:
    """How an array of so many bytes is written; large ones do not stay in cache anyway."""
    if bytes > STREAM_BYTES:
        return STREAMING
    return STAGED if bytes > DIRECT_BYTES else DIRECT


cdef inline bint worth_prefetching(const Call *call) noexcept nogil:
    """Whether pixels are prefetched.

    They are if they are read in place, if the maps do not stay in cache, and if boxes cover the
    maps less than MAX_COVER times: with more cover, most pixels are in cache already.
    """
    cdef double map_pixels = <double>call.map.rows * call.map.columns
    if not beyond_cache(call) or call.strategy != PIXELS:
        return False
    return all_windows(&call.tables) < MAX_COVER * map_pixels * call.map.images
