"""Gradient of the boxes of every operator that is a weighted sum with slopes.

With S[p, q, y, x] = sum over channels of grad_output[p, q] * input[y, x], for the few pixels that
a bin reads, the gradient by an edge is a sum of S times a weight along one axis and a slope along
the other.  Only S takes an operation for each channel.

Which channels are summed first must not depend on layouts and threads.  So blocks are taken in
groups of SLOPE_BLOCKS.  Each group writes a partial sum, and the partial sums are added up at the
end.

A method adds one part after the other:

    begin_slopes(...)
    while next_slopes(...):
        ...
"""
from libc.stdint cimport int32_t
from libc.string cimport memset

from passes.prefetch cimport Prefetch, prefetch_of, prefetch_some
from passes.walk cimport (Lanes, Part, Walk, begin_walk, begins_block, bins_of_part, ends_block,
                          in_slots, load_taps, walk_on, window_is_empty)
from passes.tile cimport before_cells, cell_columns, load, next_cell, open_tile
from plan.spans cimport clip
from plan.structs cimport SPARSE_TAPS, TAPS, LevelJob, Task
from simd.structs cimport FOLDED_BYTES, Pixels, SlopeTaps, Tile, View, Window, prefetch_l1, real
from tuning cimport SLOPE_BLOCKS

cdef enum:
    BINS_AHEAD = 4                 # bins prefetched: a whole box is too much           # R271
    SLOPE_GROUPS = 8               # groups of them computed together, read in place    # R276
    MAX_BOX_NUMBERS = 5            # summed as y1, y2, x1, x2, or cx, cy, w, h, angle


cdef struct Slopes:                # of the channel blocks that are summed at a time: groups of them
    Walk walk
    Tile[SLOPE_BLOCKS] tiles       # of each block but the first, where they are packed
    Pixels[SLOPE_GROUPS] groups    # what is loaded of them
    SlopeTaps taps                 # where they are, and the slopes of their weights
    Lanes bins                     # the gradient of the part's bins
    Prefetch ahead                 # of the next box
    # [group][number][folded lanes]
    double[SLOPE_GROUPS * MAX_BOX_NUMBERS * FOLDED_BYTES] sums
    bint grouped                   # blocks have common sums; else each has its own
    bint started
    Py_ssize_t opened              # the block whose tiles are open
    Py_ssize_t blocks              # that are looked at together from there on


cdef inline void set_groups(
        Slopes *slopes, Py_ssize_t blocks, const real *first, const View *view,
        Py_ssize_t stride) noexcept nogil:
    """The pixels of each group of blocks; first: pixel (0, 0) of the first block."""
    cdef Pixels *group = slopes.groups
    cdef Py_ssize_t b = 0
    while b < blocks:
        group.start, group.stride = first + b * stride, stride
        group.count = min(blocks - b, <Py_ssize_t>SLOPE_BLOCKS)
        group.stride_y, group.stride_x = view.y, view.x
        group += 1
        b += SLOPE_BLOCKS


cdef inline void load_blocks(
        const LevelJob *job, Slopes *slopes, const Window *window, const Part *slots,
        real _) noexcept nogil:
    """Load a window of all blocks; slots: NULL, or the taps of a box that has few."""
    cdef Py_ssize_t stride = job.scratch.tile_bytes // <Py_ssize_t>sizeof(real), b
    cdef Walk *walk = &slopes.walk
    cdef real *memory = <real*>walk.scratch.tile
    cdef const real *first = memory
    cdef Py_ssize_t packed = walk.part.blocks
    cdef View view
    cdef Tile *tile = &walk.tile
    if slots != NULL:
        load_taps(job, slots, tile, memory, &view)
    else:
        first = load(job, tile, memory, window, &view)
        if tile.in_place:
            packed, stride = 1, job.call.lanes
    for b in range(1, packed):
        tile, memory = &slopes.tiles[b], memory + stride
        if slots != NULL:
            load_taps(job, slots, tile, memory, &view)
        else:
            load(job, tile, memory, window, &view)
    first -= window.y0 * view.y + window.x0 * view.x
    set_groups(slopes, walk.part.blocks, first, &view, stride)


cdef inline void slopes_of_bin(
        const LevelJob *job, Slopes *slopes, Py_ssize_t blocks, const int32_t *y, const int32_t *x,
        const real *bin) noexcept nogil:
    """Add the slopes of taps y by x of a bin to the sums of each group; x: NULL in turned boxes."""
    cdef const Pixels *group = slopes.groups
    cdef real *sums = <real*>slopes.sums
    cdef Py_ssize_t b = 0, stride = slopes.bins.block
    while b < blocks:
        if x == NULL:
            job.call.simd.add_sparse_slopes(sums, bin + b * stride, stride, group, &slopes.taps, y,
                                            job.call.boxes.width)
        else:
            job.call.simd.add_slopes(sums, bin + b * stride, stride, group, &slopes.taps, y, x)
        sums += job.call.boxes.width * FOLDED_BYTES // <int>sizeof(real)
        group += 1
        b += SLOPE_BLOCKS


cdef inline void slopes_of_cell(
        const LevelJob *job, const Part *part, const Window *cell, Slopes *slopes,
        real _) noexcept nogil:
    """Add what the pixels of a cell give to each bin of a part."""
    cdef int p, q
    cdef Py_ssize_t b
    cdef int32_t[2] rows, columns
    cdef const Lanes *bins = &slopes.bins
    cdef const real *bin
    for p in range(part.p0, part.p1):
        clip(part.spans_y + 2 * p, part.pixel, cell.y0, cell.y1, rows)
        if rows[0] == rows[1]:
            continue
        for q in range(part.q0, part.q1):
            bin = (<const real*>bins.origin + (p - part.p0) * bins.view.y
                   + (q - part.q0) * bins.view.x)
            prefetch_some(&slopes.ahead)
            if bins.block == job.call.lanes:    # the whole next box is too much for a level 2 cache
                for b in range(part.blocks):
                    prefetch_l1(bin + BINS_AHEAD * bins.view.x + b * job.call.lanes)
            clip(part.spans_x + 2 * q, part.pixel, cell.x0, cell.x1, columns)
            if columns[0] < columns[1]:
                slopes_of_bin(job, slopes, part.blocks, rows, columns, bin)


cdef inline void set_bins_of_part(const LevelJob *job, Slopes *slopes, real _) noexcept nogil:
    """Say where the taps of a part are, and the gradient of its bins."""
    cdef Walk *walk = &slopes.walk
    slopes.taps.pixel, slopes.taps.weight = job.tables.tap_pixel, job.tables.tap_weight
    slopes.taps.slopes, slopes.taps.stride = job.tables.tap_slopes, job.tables.taps
    slopes.bins = bins_of_part(job, &walk.part, walk.result, walk.tile.lanes,
                               <real*>walk.scratch.bins)


cdef inline void slopes_of_window(const LevelJob *job, Slopes *slopes, real of_type) noexcept nogil:
    """Add the gradients with respect to an upright box, of some bins, to the sums of each group."""
    cdef const Part *part = &slopes.walk.part
    cdef const Window *window = &part.window
    cdef Py_ssize_t width = cell_columns(window.x1 - window.x0)
    cdef Py_ssize_t height = max(min(window.y1 - window.y0, job.slopes.cell_pixels // width), 1)
    cdef Window cell
    cdef Part slots
    set_bins_of_part(job, slopes, of_type)
    if part.way == TAPS:
        slots = in_slots(job, part)
        slopes.taps.pixel = slots.pixel
        load_blocks(job, slopes, &slots.window, &slots, of_type)
        slopes_of_cell(job, &slots, &slots.window, slopes, of_type)
        return
    cell = before_cells(window)
    while next_cell(window, height, width, &cell):
        load_blocks(job, slopes, &cell, NULL, of_type)
        slopes_of_cell(job, part, &cell, slopes, of_type)


cdef inline Prefetch bins_of_next_box(
        const LevelJob *job, const Task *task, const Slopes *slopes, real _) noexcept nogil:
    """What is prefetched of the next box: all its bins if they are packed, else the first ones.

    Bins that are read in place prefetch later bins of their own box as well (slopes_of_cell).
    """
    cdef const Walk *walk = &slopes.walk
    cdef const Part *part = &walk.part
    cdef Prefetch none
    cdef bint in_place = job.call.out_strides.channel == 1
    cdef const real *grad = <const real*>job.call.result
    memset(&none, 0, sizeof(none))
    if not slopes.grouped or part.box + 1 >= task.stop_box:
        return none
    grad += (job.tables.rows[part.box + 1] * job.call.out_strides.image
             + part.block * job.call.lanes * job.call.out_strides.channel)
    return prefetch_of(grad, &job.call.out_strides, <int>part.blocks * walk.tile.lanes,
                       1 if in_place else job.call.ph,
                       min(<int>BINS_AHEAD, job.call.pw) if in_place else job.call.pw,
                       <Py_ssize_t>job.call.ph * job.call.pw)


cdef inline void store_slopes(
        const LevelJob *job, const Task *task, const Part *part, const real *sums) noexcept nogil:
    """Write the partial sum of each group, in the order of the box, at the group's first block."""
    cdef Py_ssize_t lanes = FOLDED_BYTES // sizeof(real), b = 0, i, lane
    cdef int number
    cdef double total
    cdef double *to
    cdef int[MAX_BOX_NUMBERS] column      # of y1, y2, x1, x2
    column[0], column[1], column[2], column[3] = 1, 3, 0, 2
    if job.tables.tap_kind == SPARSE_TAPS:
        for number in range(job.call.boxes.width):
            column[number] = number
    while b < part.blocks:
        i = (part.block + b) * job.call.channels_per_output + task.first_bin
        to = job.slopes.partial_sums + job.call.boxes.width * (i * job.slopes.box_count + part.box)
        for number in range(job.call.boxes.width):
            total = 0
            for lane in range(lanes):
                total += sums[(b // SLOPE_BLOCKS * job.call.boxes.width + number) * lanes + lane]
            to[column[number]] = total
        b += SLOPE_BLOCKS


cdef inline Py_ssize_t blocks_with_slopes(
        const LevelJob *job, const Task *task, const Slopes *slopes) noexcept nogil:
    """How many blocks are taken at once: a group, or several groups where neither map nor gradient
    is packed.  A partial block is a group by itself."""
    cdef Py_ssize_t whole = job.call.channels // job.call.lanes, most = SLOPE_BLOCKS
    cdef Py_ssize_t block = slopes.walk.part.block
    if not slopes.grouped or block >= whole:
        return 1
    if (slopes.walk.tile.in_place and job.call.out_strides.channel == 1
            and job.tables.few_pixels == NULL):
        whole, most = min(task.stop_block, whole), SLOPE_GROUPS * SLOPE_BLOCKS
    return min(most, whole - block)


cdef inline void begin_slopes(
        const LevelJob *job, const Task *task, char *memory, bint grouped,
        Slopes *slopes) noexcept nogil:
    """The state from which next_slopes goes on to the first part of a task."""
    begin_walk(job, task, memory, False, &slopes.walk)
    slopes.grouped, slopes.started, slopes.opened, slopes.blocks = grouped, False, -1, 0


cdef inline bint next_slopes(
        const LevelJob *job, const Task *task, Slopes *slopes, real of_type) noexcept nogil:
    """Go on to the next part that reads pixels, whose gradient the caller adds to the sums; False
    after the last.  The sums of each block are written after its last part."""
    cdef Walk *walk = &slopes.walk
    cdef Py_ssize_t b
    while True:
        if slopes.started and ends_block(&walk.part):
            store_slopes(job, task, &walk.part, <const real*>slopes.sums)
        slopes.started = True
        if not walk_on(job, task, walk):
            return False
        if walk.part.block != slopes.opened:      # tiles keep rows from box to box
            slopes.opened, slopes.blocks = walk.part.block, blocks_with_slopes(job, task, slopes)
            if not walk.tile.in_place or job.tables.few_pixels != NULL:
                for b in range(1, slopes.blocks):
                    slopes.tiles[b] = open_tile(job, &walk.map, task, slopes.opened + b)
        walk.part.blocks = slopes.blocks
        if begins_block(&walk.part):
            memset(slopes.sums, 0, (slopes.blocks + SLOPE_BLOCKS - 1) // SLOPE_BLOCKS
                   * job.call.boxes.width * FOLDED_BYTES)
            slopes.ahead = bins_of_next_box(job, task, slopes, of_type)
        if not window_is_empty(&walk.part.window):
            return True
