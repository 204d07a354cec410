"""Walk: the loops task -> box -> block -> part, once for all passes.

`walk_on` goes through the boxes, channel blocks and bins of a task.  It opens tiles and says how
a part is computed.
"""
from libc.stdint cimport int32_t
from libc.string cimport memset

from passes.tile cimport is_shared, load_once, open_tile
from plan.spans cimport hull, hull_of_taps
from plan.structs cimport CELLS, NOTHING, SPARSE_TAPS, TAPS, WHOLE, LevelJob, Map, Task, writes_maps
from plan.ways cimport Side, has_few_taps, way_of_window, x_first
from simd.structs cimport (
    LANE_BYTES, STREAMING, Stream, Strides, Taps, Target, Tile, View, Window, prefetch_l2, real,
    stream_fence)
from simd.table cimport stream_rest
from tuning cimport BINS_BYTES, MAX_BINS, WIDE_STRIP_BYTES

cdef enum:
    MAX_BIN_ROWS = 64              # bin rows of a part                                 # no record


cdef struct Scratch:               # of one thread
    void *tile
    void *strip
    void *bins
    void *staging                  # BINS_BYTES, for what is made while the strip is still needed
    Stream queue                   # bytes of `staging` that are still to be streamed


cdef inline Scratch scratch_of(const LevelJob *job, char *memory) noexcept nogil:
    cdef Scratch scratch
    memset(&scratch.queue, 0, sizeof(scratch.queue))
    scratch.tile = memory
    scratch.strip = memory + job.scratch.strip
    scratch.bins = memory + job.scratch.bins
    scratch.staging = memory + job.scratch.staging
    return scratch


cdef inline Target target_of(
        const LevelJob *job, const Tile *tile, Scratch *scratch) noexcept nogil:
    """Where the bins of a block are written, and where they are gathered before that.

    The strip serves as staging: it is in cache, and is not needed any more.  Streaming stores go on
    while the next box is computed, which needs the strip, so they have a staging of their own.
    """
    cdef Target target
    target.strides = job.call.out_strides
    target.lanes = tile.lanes
    target.store = job.store
    target.staging = scratch.staging if job.store == STREAMING else scratch.strip
    target.queue = &scratch.queue
    return target


# Boxes, blocks and parts

cdef struct Part:                  # some bins of one box, for a channel block or several
    Py_ssize_t box                 # its index in the tables
    Py_ssize_t row                 # of the box in the output
    Py_ssize_t block
    Py_ssize_t blocks              # looked at together: set by passes that can, else 1
    bint shared                    # the tile holds pixels of later boxes too
    int way                        # of enum Way: how its bins are computed; WHOLE for turned boxes
    bint x_first                   # its bins are contracted along x first, and else along y
    const int32_t *spans_y         # of all bins of the box; of a turned one, both axes together
    const int32_t *spans_x
    int p0                         # bins of the part
    int p1
    int q0
    int q1
    Window window                  # the pixels that they read
    const int32_t *pixel           # of each tap; its slot, if the part is in slots
    int p_first                    # bins of the task
    int p_stop
    int q_first
    int q_stop
    int most_p                     # bins that there is room for
    int most_q
    bint whole                     # a part is all bins of a box
    bint single                    # a part is one bin; its way is that of its box


cdef inline Part parts_of(const LevelJob *job, const Task *task, int max_columns) noexcept nogil:
    """Return a state from which next_part goes to the first part: all of the box before is done.

    Bins that do not fit scratch together are divided into parts of at most max_columns columns.
    """
    cdef Part part
    memset(&part, 0, sizeof(part))
    part.box, part.shared = task.first_box - 1, is_shared(task.load)
    part.block, part.blocks = task.stop_block, 1
    part.p_first, part.p_stop, part.q_first, part.q_stop = 0, job.call.ph, 0, job.call.pw
    part.most_p, part.most_q = job.call.ph, job.call.pw
    if job.call.ph > min(<int>MAX_BIN_ROWS, <int>MAX_BINS // job.call.pw):    # too many for scratch
        part.most_q = min(job.call.pw, max_columns)
        part.most_p = min(min(job.call.ph, <int>MAX_BIN_ROWS), <int>MAX_BINS // part.most_q)
    part.whole = part.most_p == job.call.ph and part.most_q == job.call.pw
    part.p1, part.q1 = part.p_stop, part.q_stop
    return part


cdef inline void set_first_bin(const LevelJob *job, const Task *task, Part *part) noexcept nogil:
    """Have parts be the first bin of a task."""
    part.p_first = <int>(task.first_bin // job.call.pw)
    part.q_first = <int>(task.first_bin % job.call.pw)
    part.p1, part.q1 = part.p_first + 1, part.q_first + 1
    part.p_stop, part.q_stop = part.p1, part.q1
    part.most_p = part.most_q = 1
    part.whole, part.single = job.call.ph * job.call.pw == 1, True


cdef inline Window window_of_bins(const LevelJob *job, const Part *part) noexcept nogil:
    """The window of some bins of a turned box."""
    cdef Py_ssize_t[4] edges
    cdef Window window
    cdef const int32_t *span
    cdef int p
    memset(edges, 0, sizeof(edges))
    for p in range(part.p0, part.p1):      # the taps of the bins of a row follow each other
        span = part.spans_y + 2 * (<Py_ssize_t>p * job.call.pw)
        hull_of_taps(job.tables.tap_pixel, span[2 * part.q0], span[2 * part.q1 - 1], edges)
    window.y0, window.y1, window.x0, window.x1 = edges[0], edges[1], edges[2], edges[3]
    return window


cdef inline void set_window(
        const int32_t *pixel, const int32_t *y, const int32_t *x, Window *window) noexcept nogil:
    """The window of a bin that has those spans of taps, which `hull` would find too."""
    if y[0] < y[1] and x[0] < x[1]:
        window.y0, window.y1 = pixel[y[0]], pixel[y[1] - 1] + 1
        window.x0, window.x1 = pixel[x[0]], pixel[x[1] - 1] + 1
    else:
        window.y0 = window.y1 = window.x0 = window.x1 = 0


cdef inline int way_of_box(const LevelJob *job, const Part *part) noexcept nogil:
    """How all bins of a part's box are computed together.

    Taps alone are not packed where the tile holds pixels, which they would replace.
    """
    cdef const int32_t *window = job.tables.windows + 4 * part.box
    cdef int way = job.tables.ways[part.box]
    if part.shared and way == TAPS:
        return way_of_window(window[1] - window[0], window[3] - window[2])
    return way


cdef inline void set_way_of_box(const LevelJob *job, Part *part) noexcept nogil:
    """Have a part be computed as all bins of its box are."""
    part.way, part.x_first = way_of_box(job, part), job.tables.x_first[part.box]


cdef inline void set_bins(const LevelJob *job, Part *part, int p, int q) noexcept nogil:
    """The part that begins with bin (p, q)."""
    cdef const int32_t *window
    cdef Window *pixels = &part.window
    cdef Side y, x
    part.p0, part.q0 = p, q
    part.p1, part.q1 = min(p + part.most_p, part.p_stop), min(q + part.most_q, part.q_stop)
    if part.whole:
        window = job.tables.windows + 4 * part.box
        pixels.y0, pixels.y1, pixels.x0, pixels.x1 = window[0], window[1], window[2], window[3]
        set_way_of_box(job, part)
        return
    if job.tables.tap_kind == SPARSE_TAPS:
        pixels[0] = window_of_bins(job, part)
        part.way = WHOLE
        return
    if part.single:
        set_window(job.tables.tap_pixel, part.spans_y + 2 * p, part.spans_x + 2 * q, pixels)
        set_way_of_box(job, part)
        return
    hull(part.spans_y, part.p0, part.p1, job.tables.tap_pixel, &pixels.y0, &pixels.y1)
    hull(part.spans_x, part.q0, part.q1, job.tables.tap_pixel, &pixels.x0, &pixels.x1)
    y.spans, y.bins, y.pixels = part.spans_y + 2 * p, part.p1 - p, pixels.y1 - pixels.y0
    x.spans, x.bins, x.pixels = part.spans_x + 2 * q, part.q1 - q, pixels.x1 - pixels.x0
    part.way, part.x_first = way_of_window(y.pixels, x.pixels), x_first(job, &y, &x)
    if part.way != NOTHING and has_few_taps(job, part.box) and not part.shared:
        part.way = TAPS


cdef inline void set_box(const LevelJob *job, Part *part, Py_ssize_t box) noexcept nogil:
    part.box = box
    part.row = job.tables.rows[box]
    part.pixel = job.tables.tap_pixel
    part.spans_y = job.tables.spans + 2 * box * job.tables.spans_of_box
    if job.tables.tap_kind != SPARSE_TAPS:
        part.spans_x = part.spans_y + 2 * job.call.ph


cdef inline bint next_part(const LevelJob *job, const Task *task, Part *part) noexcept nogil:
    """Go on to the next part, block or box of a task; False after the last."""
    if part.q1 < part.q_stop:
        set_bins(job, part, part.p0, part.q1)
        return True
    if part.p1 < part.p_stop:
        set_bins(job, part, part.p1, part.q_first)
        return True
    part.block += part.blocks
    part.blocks = 1
    if part.block < task.stop_block:
        if not part.whole:
            set_bins(job, part, part.p_first, part.q_first)
        return True
    if part.box + 1 >= task.stop_box:
        return False
    part.block = task.first_block
    set_box(job, part, part.box + 1)
    set_bins(job, part, part.p_first, part.q_first)
    return True


cdef inline bint begins_block(const Part *part) noexcept nogil:
    """Whether this is the first part of a box's block, or blocks."""
    return part.p0 == part.p_first and part.q0 == part.q_first


cdef inline bint begins_box(const Part *part, const Task *task) noexcept nogil:
    """Whether this is the first part that a task computes of a box."""
    return part.block == task.first_block and begins_block(part)


cdef inline bint window_is_empty(const Window *window) noexcept nogil:
    return window.y0 >= window.y1 or window.x0 >= window.x1


cdef inline bint ends_block(const Part *part) noexcept nogil:
    """Whether this is the last part of a box's block, or blocks."""
    return part.p1 >= part.p_stop and part.q1 >= part.q_stop


cdef inline bint ends_box(const Part *part, const Task *task) noexcept nogil:
    """Whether this is the last part that a task computes of a box."""
    return part.block + part.blocks >= task.stop_block and ends_block(part)


cdef inline void skip_to(Part *part, const Task *task, Py_ssize_t box) noexcept nogil:
    """Have the next part be the first of the box with that index."""
    part.box = box - 1
    part.block, part.p1, part.q1 = task.stop_block, part.p_stop, part.q_stop


cdef inline Part in_slots(const LevelJob *job, const Part *part) noexcept nogil:
    """The part with slots in place of pixels; its window is the slots of its taps."""
    cdef Part slots = part[0]
    cdef const int32_t *y = part.spans_y
    cdef const int32_t *x = part.spans_x
    cdef int each = job.tables.slots_of_tap
    slots.pixel = job.tables.tap_slot
    slots.window.y0, slots.window.y1 = each * y[2 * part.p0], each * y[2 * part.p1 - 1]
    slots.window.x0, slots.window.x1 = each * x[2 * part.q0], each * x[2 * part.q1 - 1]
    return slots


cdef inline void load_taps(
        const LevelJob *job, const Part *slots, const Tile *tile, real *memory,
        View *view) noexcept nogil:
    """Pack the pixels of a part in slots, from slot (y0, x0) of its window on."""
    job.call.simd.load_slots(tile, job.tables.slot_pixel, &slots.window, memory)
    view.x = job.call.lanes
    view.y = (slots.window.x1 - slots.window.x0) * job.call.lanes


# The walk

cdef struct Walk:                  # a part, where its pixels come from, and where its bins are
    Part part
    bint joined                    # the part is of all its blocks at once, which lie together
    bint may_join                  # whether the pass computes several blocks at once
    Map map
    Tile tile                      # of the part's block
    Py_ssize_t tile_block          # which block that is
    Target target
    Scratch scratch
    void *result                   # bin (0, 0) of the part's block, or the gradient of it


cdef inline void prefetch_ends(const void *run, Py_ssize_t size) noexcept nogil:
    """The lines that a run of bytes fills only partly: they are read before they are written."""
    if <size_t>run % LANE_BYTES != 0:
        prefetch_l2(run)
    if <size_t>(<const char*>run + size) % LANE_BYTES != 0:
        prefetch_l2(<const char*>run + size)


cdef inline void prefetch_next_box(
        const LevelJob *job, const Task *task, const Part *part, int lanes) noexcept nogil:
    """The ends of the next box's runs in the results, which are read before they are written."""
    cdef const Strides *to = &job.call.out_strides
    cdef const Strides *at = &job.maxima.argmax_strides
    cdef Py_ssize_t row, channel = part.block * job.call.lanes, size = job.call.itemsize
    if part.box + 1 >= task.stop_box:
        return
    row = job.tables.rows[part.box + 1]
    prefetch_ends(<char*>job.call.result + size * (row * to.image + channel * to.channel),
                  lanes * to.channel * size)
    if job.maxima.argmax != NULL:
        prefetch_ends(job.maxima.argmax + row * at.image + channel * at.channel,
                      lanes * at.channel * sizeof(int32_t))


cdef inline Py_ssize_t most_blocks(const LevelJob *job, const Part *part) noexcept nogil:
    """The most blocks of a box that scratch has room for, if nothing is packed; 0 if they may not
    be computed together."""
    cdef const int32_t *window = job.tables.windows + 4 * part.box
    cdef Py_ssize_t rows = window[1] - window[0], columns = window[3] - window[2]
    cdef Py_ssize_t most = BINS_BYTES // (part.most_q * LANE_BYTES), strip
    cdef int way = way_of_box(job, part)
    if job.tables.tap_kind == SPARSE_TAPS:      # which need no strip
        return max(most, <Py_ssize_t>1)
    if way != WHOLE and way != CELLS:
        return 0
    strip = rows if job.tables.x_first[part.box] else columns
    if not part.whole:      # parts may differ in which axis comes first
        strip = max(rows, columns)
    return min(most, WIDE_STRIP_BYTES // (strip * LANE_BYTES))


cdef inline Py_ssize_t blocks_together(
        const LevelJob *job, const Task *task, Py_ssize_t block, Py_ssize_t most) noexcept nogil:
    """How many blocks from `block` on are computed at once, in as few and as even turns as there
    can be; 0 where lanes do not lie together in the bins."""
    cdef Py_ssize_t left = min(task.stop_block, job.call.channels // job.call.lanes) - block, turns
    if left < 1 or most < 1 or job.call.out_strides.channel != 1:
        return 0
    turns = (left + most - 1) // most
    return (left + turns - 1) // turns


cdef inline void join_blocks(const LevelJob *job, const Task *task, Walk *walk) noexcept nogil:
    """Have a part be of as many blocks as are computed at once, where pixels stay in place.

    The number of blocks is that of all parts of a box, though these may differ in their ways.
    """
    cdef Part *part = &walk.part
    cdef Py_ssize_t blocks = blocks_together(job, task, part.block, most_blocks(job, part))
    walk.joined = blocks > 0
    if walk.joined:
        part.blocks = blocks


cdef inline void begin_walk(
        const LevelJob *job, const Task *task, char *memory, bint may_join,
        Walk *walk) noexcept nogil:
    """The state before the first part of a task, from which walk_on goes on."""
    walk.scratch = scratch_of(job, memory)
    walk.map = load_once(job, task, <char*>walk.scratch.tile)
    walk.tile, walk.tile_block = open_tile(job, &walk.map, task, task.first_block), task.first_block
    walk.target = target_of(job, &walk.tile, &walk.scratch)
    walk.part = parts_of(job, task, MAX_BINS)
    walk.may_join = may_join


cdef inline bint walk_on(const LevelJob *job, const Task *task, Walk *walk) noexcept nogil:
    """Go on to the next part; after the last, end all stores and return False."""
    cdef Part *part = &walk.part
    cdef const Strides *to = &job.call.out_strides
    cdef Py_ssize_t at
    if not next_part(job, task, part):
        stream_rest(job.call.simd, &walk.scratch.queue)
        stream_fence()
        return False
    if part.block != walk.tile_block:      # else it goes on holding rows
        walk.tile, walk.tile_block = open_tile(job, &walk.map, task, part.block), part.block
        walk.target.lanes = walk.tile.lanes
    elif (job.store == STREAMING and not writes_maps(job.call.purpose) and not walk.tile.in_place
            and begins_box(part, task)):
        prefetch_next_box(job, task, part, walk.tile.lanes)
    walk.joined = False
    if walk.tile.in_place and walk.may_join:
        join_blocks(job, task, walk)
    at = part.row * to.image + part.block * job.call.lanes * to.channel
    walk.result = <char*>job.call.result + at * job.call.itemsize
    return True


cdef inline Taps taps_of(const LevelJob *job, const int32_t *spans) noexcept nogil:
    """The taps of bins whose spans begin there."""
    return Taps(spans, job.tables.tap_pixel, job.tables.tap_weight)


cdef inline real *first_bin(const LevelJob *job, const Part *part, real *out) noexcept nogil:
    """Bin (p0, q0) of a part; out: bin (0, 0)."""
    return out + part.p0 * job.call.out_strides.y + part.q0 * job.call.out_strides.x


# Gradients

# Pixel or bin (y, x) of block b lies at origin + y * view.y + x * view.x + b * block, in elements.
cdef struct Lanes:
    void *origin
    View view
    Py_ssize_t block


cdef inline Lanes bins_of_part(
        const LevelJob *job, const Part *part, const void *bins, int lanes,
        real *packed) noexcept nogil:
    """The gradient of a part's bins from (p0, q0) on: in place where lanes lie together.

    bins: bin (0, 0) of the part's block, which has so many lanes.
    """
    cdef Lanes grad
    cdef Py_ssize_t ps = part.p1 - part.p0, qs = part.q1 - part.q0, b
    cdef const Strides *strides = &job.call.out_strides
    cdef const real *first = <const real*>bins + part.p0 * strides.y + part.q0 * strides.x
    grad.origin, grad.block = <void*>first, job.call.lanes
    grad.view.y, grad.view.x = strides.y, strides.x
    if strides.channel != 1 or lanes != job.call.lanes:
        grad.view.y, grad.view.x = qs * job.call.lanes, job.call.lanes
        grad.origin, grad.block = packed, ps * qs * job.call.lanes
        for b in range(part.blocks):
            job.call.simd.pack(first + b * job.call.lanes * strides.channel, strides, lanes, ps, qs,
                               packed + b * grad.block)
    return grad
