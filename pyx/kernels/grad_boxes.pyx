"""Gradient of the boxes of every operator that is a weighted sum with slopes.

With S[p, q, y, x] = sum over channels of grad_output[p, q] * input[y, x], for the few pixels that
a bin reads, the gradient by an edge is a sum of S times a weight along one axis and a slope along
the other.  Only S takes an operation for each channel.

Which channels are summed first must not depend on layouts and threads.  So blocks are taken in
groups of SLOPE_BLOCKS. Each group writes a partial sum, and the partial sums are added up at the
end.
"""
from libc.stdint cimport int32_t
from libc.string cimport memset

from kernels.nest cimport (Part, Scratch, is_empty, load_thin, next_part, parts_of, run, scratch_of,
                           thinned)
from kernels.sparse cimport Stretch, add_slopes_of_taps, loads_window, next_stretch, spans_of
from move.prefetch cimport Prefetch, prefetch_of, prefetch_some
from move.tile cimport (TileCache, View, Window, before_cells, bin_tile_bytes, cell_columns, load,
                        load_bins, load_once, next_cell, open_tile, pack)
from plan.spans cimport clip
from plan.structs cimport BINS, COPY_ONCE, TAPS_Y, Call, Map, Task
from roicy._kernels.plan cimport Plan
from simd.simd cimport (FOLDED_BYTES, Pixels, SlopeTaps, add_slopes, prefetch_l1, real)
from tuning cimport BINS_AHEAD, MAX_BINS, SLOPE_BLOCKS, SLOPE_GROUPS

cdef enum:
    MAX_EDGES = 5                  # y1, y2, x1, x2; of turned boxes cx, cy, w, h and angle


cdef struct Blocks:                # channel blocks that are computed together: some groups of them
    Py_ssize_t count
    TileCache[SLOPE_BLOCKS] tiles  # of each block; only the first where they are read in place


cdef inline Py_ssize_t blocks_of_group(const Call *call, Py_ssize_t block) noexcept nogil:
    """How many blocks the group has that begins with `block`; a partial block is alone."""
    cdef Py_ssize_t whole = call.channels // call.lanes
    return min(<Py_ssize_t>SLOPE_BLOCKS, whole - block) if block < whole else 1


cdef inline void open_blocks(
        const Call *call, const Map *map, const Task *task, Py_ssize_t block,
        Blocks *blocks) noexcept nogil:
    """Open one group of blocks, or several groups where neither map nor gradient is packed."""
    cdef Py_ssize_t whole = call.channels // call.lanes, b
    blocks.tiles[0] = open_tile(call, map, task, block)
    blocks.count = 1
    if call.strategy == BINS:
        return
    if blocks.tiles[0].in_place and call.bins.channel == 1 and call.tables.thin == NULL:
        blocks.count = min(min(task.stop_block, whole) - block,
                           <Py_ssize_t>SLOPE_GROUPS * SLOPE_BLOCKS)
        return
    blocks.count = blocks_of_group(call, block)
    for b in range(1, blocks.count):
        blocks.tiles[b] = open_tile(call, map, task, block + b)


cdef struct Bins:                  # the gradient of the bins of a part, in elements
    const void *origin             # of bin (p0, q0) and the first block
    Py_ssize_t y
    Py_ssize_t x
    Py_ssize_t block               # from block to block


cdef inline Bins bins_of_part(
        const Call *call, const Part *part, const Blocks *blocks, const real *grad_output,
        real *packed) noexcept nogil:
    """The gradient of a part's bins: where it lies if lanes lie together, else packed."""
    cdef Bins bins
    cdef Py_ssize_t ps = part.p1 - part.p0, qs = part.q1 - part.q0, b
    cdef const real *grad = (grad_output + part.row * call.bins.image
                             + part.block * call.lanes * call.bins.channel
                             + part.p0 * call.bins.y + part.q0 * call.bins.x)
    if call.bins.channel == 1 and blocks.tiles[0].lanes == call.lanes:
        bins.origin, bins.y, bins.x, bins.block = grad, call.bins.y, call.bins.x, call.lanes
        return bins
    bins.y, bins.x = qs * call.lanes, call.lanes
    bins.block = ps * bins.y
    for b in range(blocks.count):
        pack(grad + b * call.lanes * call.bins.channel, call.bins, blocks.tiles[0].lanes, ps, qs,
             packed + b * bins.block)
    bins.origin = packed
    return bins


cdef inline SlopeTaps slope_taps(
        const Call *call, const int32_t *pixel, const int32_t *span,
        const real *weight) noexcept nogil:
    """Taps of one axis of a bin; pixel, weight: the tables of all taps."""
    cdef SlopeTaps taps
    cdef const real *low = <const real*>call.tables.tap_slopes
    taps.count = span[1] - span[0]
    taps.pixel = pixel + span[0]
    taps.weight = weight + span[0]
    taps.low = low + span[0]
    taps.high = low + call.tables.taps + span[0]
    return taps


cdef inline void set_groups(
        const Blocks *blocks, const real *first, const View *steps, Py_ssize_t step,
        Pixels *groups) noexcept nogil:
    """The pixels of each group of blocks; first: pixel (0, 0) of the first block."""
    cdef Py_ssize_t b = 0
    while b < blocks.count:
        groups.start, groups.step = first + b * step, step
        groups.count = min(blocks.count - b, <Py_ssize_t>SLOPE_BLOCKS)
        groups.stride_y, groups.stride_x = steps.y, steps.x
        groups += 1
        b += SLOPE_BLOCKS


cdef inline void slopes_of_bin(
        const Bins *bins, const Blocks *blocks, const Pixels *groups, const SlopeTaps *y,
        const SlopeTaps *x, const real *bin, real *sums) noexcept nogil:
    """Add the slopes of one bin to the sums of each group."""
    cdef Py_ssize_t b = 0
    while b < blocks.count:
        add_slopes(sums, bin + b * bins.block, bins.block, groups, y, x)
        sums += 4 * FOLDED_BYTES // <int>sizeof(real)
        groups += 1
        b += SLOPE_BLOCKS


cdef void slopes_of_cell(
        const Call *call, const Part *part, const Blocks *blocks, const Window *cell,
        const Bins *bins, const Pixels *groups, real *sums, Prefetch *ahead) noexcept nogil:
    """Add what the pixels of a cell give to each bin of a part."""
    cdef int p, q
    cdef Py_ssize_t b
    cdef int32_t[2] rows, columns
    cdef const real *weight = <const real*>call.tables.tap_weight
    cdef const real *bin
    cdef SlopeTaps y, x
    for p in range(part.p0, part.p1):
        clip(part.spans_y + 2 * p, part.pixel, cell.y0, cell.y1, rows)
        if rows[0] == rows[1]:
            continue
        y = slope_taps(call, part.pixel, rows, weight)
        for q in range(part.q0, part.q1):
            bin = <const real*>bins.origin + (p - part.p0) * bins.y + (q - part.q0) * bins.x
            prefetch_some(ahead)
            if bins.block == call.lanes:      # the whole next box is too much for a level 2 cache
                for b in range(blocks.count):
                    prefetch_l1(bin + BINS_AHEAD * bins.x + b * call.lanes)
            clip(part.spans_x + 2 * q, part.pixel, cell.x0, cell.x1, columns)
            if columns[0] < columns[1]:
                x = slope_taps(call, part.pixel, columns, weight)
                slopes_of_bin(bins, blocks, groups, &y, &x, bin, sums)


cdef void sparse_slopes_of_bin(
        const Call *call, const int32_t *span, const Bins *bins, const Blocks *blocks,
        const Pixels *groups, const real *bin, real *sums) noexcept nogil:
    """As slopes_of_bin, of some taps of a bin."""
    cdef Py_ssize_t b = 0
    while b < blocks.count:
        add_slopes_of_taps(call, span, groups, bin + b * bins.block, bins.block, sums)
        sums += call.edges * FOLDED_BYTES // <int>sizeof(real)
        groups += 1
        b += SLOPE_BLOCKS


cdef inline void load_blocks(
        const Call *call, Blocks *blocks, const Window *window, real *memory,
        Pixels *groups) noexcept nogil:
    """Load a window of all blocks."""
    cdef Py_ssize_t tile = call.layout.tile_bytes // <Py_ssize_t>sizeof(real), b
    cdef View steps
    cdef const real *first = load(&blocks.tiles[0], memory, window, &steps)
    if blocks.tiles[0].in_place:
        tile = call.lanes
    else:
        for b in range(1, blocks.count):
            load(&blocks.tiles[b], memory + b * tile, window, &steps)
    set_groups(blocks, first - window.y0 * steps.y - window.x0 * steps.x, &steps, tile, groups)


cdef void sparse_slopes_of_part(
        const Call *call, const Part *part, Blocks *blocks, const Bins *bins, real *memory,
        real *sums) noexcept nogil:
    """As slopes_of_part, of a turned box; memory: of the tiles."""
    cdef bint together = loads_window(call, part, &blocks.tiles[0], call.cell_pixels)
    cdef const int32_t *span
    cdef const real *bin
    cdef Stretch stretch
    cdef Pixels[SLOPE_GROUPS] groups
    cdef int p, q
    if together:
        load_blocks(call, blocks, &part.window, memory, groups)
    for p in range(part.p0, part.p1):
        span = spans_of(call, part, p)
        for q in range(part.q1 - part.q0):
            bin = <const real*>bins.origin + (p - part.p0) * bins.y + q * bins.x
            stretch.span[1] = span[0]
            if together:
                sparse_slopes_of_bin(call, span, bins, blocks, groups, bin, sums)
                stretch.span[1] = span[1]
            while next_stretch(call.tables.tap_pixel, span, call.cell_pixels, &stretch):
                load_blocks(call, blocks, &stretch.window, memory, groups)
                sparse_slopes_of_bin(call, stretch.span, bins, blocks, groups, bin, sums)
            span += 2


cdef void slopes_of_part(
        const Call *call, const Part *part, Blocks *blocks, const real *grad_output,
        Scratch *scratch, real *sums, Prefetch *ahead) noexcept nogil:
    """sums [group][edge][folded lanes] += the gradients by the edges of a box, of some bins."""
    cdef Py_ssize_t tile = call.layout.tile_bytes // <Py_ssize_t>sizeof(real), b
    cdef const Window *window = &part.window
    cdef Py_ssize_t width = cell_columns(window.x1 - window.x0)
    cdef Py_ssize_t height = max(min(window.y1 - window.y0, call.cell_pixels // width), 1)
    cdef View steps
    cdef Window cell
    cdef Bins bins
    cdef Pixels[SLOPE_GROUPS] groups
    cdef Part slots
    if is_empty(window):
        return
    bins = bins_of_part(call, part, blocks, grad_output, <real*>scratch.bins)
    if call.sparse:
        sparse_slopes_of_part(call, part, blocks, &bins, <real*>scratch.tile, sums)
        return
    if part.how == TAPS_Y:
        slots = thinned(call, part)
        memset(&steps, 0, sizeof(steps))
        for b in range(blocks.count):
            load_thin(call, &slots, &blocks.tiles[b], <real*>scratch.tile + b * tile, &steps)
        set_groups(
            blocks,
            <real*>scratch.tile - slots.window.y0 * steps.y - slots.window.x0 * steps.x,
            &steps, tile, groups)
        slopes_of_cell(call, &slots, blocks, &slots.window, &bins, groups, sums, ahead)
        return
    cell = before_cells(window)
    while next_cell(window, height, width, &cell):
        load_blocks(call, blocks, &cell, <real*>scratch.tile, groups)
        slopes_of_cell(call, part, blocks, &cell, &bins, groups, sums, ahead)


cdef inline Prefetch prefetch_next_box(
        const Call *call, const Task *task, const Part *part, const Blocks *blocks,
        const real *grad_output) noexcept nogil:
    """What is prefetched of the next box: all its bins if they are packed, else the first ones.

    Bins that are read in place prefetch later bins of their own box as well (slopes_of_cell).
    """
    cdef Prefetch none
    cdef bint in_place = call.bins.channel == 1
    cdef const real *grad
    memset(&none, 0, sizeof(none))
    if call.strategy == BINS or part.place + 1 >= task.stop_box:
        return none
    grad = (grad_output + call.tables.rows[part.place + 1] * call.bins.image
            + part.block * call.lanes * call.bins.channel)
    return prefetch_of(grad, &call.bins, <int>blocks.count * blocks.tiles[0].lanes,
                       1 if in_place else call.ph,
                       min(<int>BINS_AHEAD, call.pw) if in_place else call.pw,
                       <Py_ssize_t>call.ph * call.pw)


cdef inline void store_slopes(
        const Call *call, const Task *task, const Part *part, const Blocks *blocks,
        const real *sums) noexcept nogil:
    """Write the partial sum of each group, in the order of the box, at the group's first block."""
    cdef Py_ssize_t lanes = FOLDED_BYTES // sizeof(real), b = 0, i, lane
    cdef int edge
    cdef double total
    cdef double *to
    cdef int[MAX_EDGES] column      # of y1, y2, x1, x2
    column[0], column[1], column[2], column[3] = 1, 3, 0, 2
    if call.sparse:
        for edge in range(call.edges):
            column[edge] = edge
    while b < blocks.count:
        i = (part.block + b) * call.channels_per_output + task.first_bin
        to = call.partial_sums + call.edges * (i * call.box_count + call.boxes_before + part.place)
        for edge in range(call.edges):
            total = 0
            for lane in range(lanes):
                total += sums[(b // SLOPE_BLOCKS * call.edges + edge) * lanes + lane]
            to[column[edge]] = total
        b += SLOPE_BLOCKS


cdef void slopes_of_boxes(
        const Call *call, const Map *map, const Task *task, const real *grad_output,
        Scratch *scratch) noexcept nogil:
    """The gradients of the task's boxes, of one bin or all."""
    cdef Part part = parts_of(call, task, MAX_BINS)
    cdef Py_ssize_t opened = -1
    cdef Blocks blocks
    cdef Prefetch ahead
    cdef real[SLOPE_GROUPS * MAX_EDGES * FOLDED_BYTES] sums      # more than enough of either type
    while next_part(call, task, &part):
        if part.p0 == part.p_first and part.q0 == part.q_first:
            if opened != part.block:      # tiles keep rows from box to box
                open_blocks(call, map, task, part.block, &blocks)
                opened = part.block
            part.blocks = blocks.count
            memset(sums, 0,
                   (blocks.count + SLOPE_BLOCKS - 1) // SLOPE_BLOCKS * call.edges * FOLDED_BYTES)
            ahead = prefetch_next_box(call, task, &part, &blocks, grad_output)
        slopes_of_part(call, &part, &blocks, grad_output, scratch, sums, &ahead)
        if part.p1 == part.p_stop and part.q1 == part.q_stop:
            store_slopes(call, task, &part, &blocks, sums)


cdef void grad_boxes_task(
        const Call *call, const Task *task, char *memory, real _) noexcept nogil:
    """All bins together, or those of a position-sensitive operator one by one."""
    cdef const real *grad_output = <const real*>call.result
    cdef Scratch scratch = scratch_of(call, memory)
    cdef Task one = task[0]
    cdef Map map
    if call.strategy != BINS:
        map = load_once(call, task, <char*>scratch.tile)
        slopes_of_boxes(call, &map, task, grad_output, &scratch)
        return
    if task.load == COPY_ONCE:
        load_bins(call, task, <real*>scratch.tile)
    while one.first_bin < task.stop_bin:
        slopes_of_boxes(call, &call.map, &one, grad_output, &scratch)
        scratch.tile = <char*>scratch.tile + bin_tile_bytes(task)
        one.first_bin += 1


def grad_boxes(Plan plan, grad_output, sums):
    """Write partial sums (sums_per_box, boxes, edges), float64, of the gradients of boxes.

    The sum of a group is written at its first block; the other sums are left as they are.
    """
    plan.set_result(grad_output)
    plan.set_partial_sums(sums)
    run(plan, grad_boxes_task[float], grad_boxes_task[double])
