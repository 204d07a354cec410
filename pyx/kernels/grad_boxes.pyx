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

from kernels.nest cimport (Lanes, Part, Step, begin_steps, begins_block, bins_of_part, ends_block,
                           is_empty, load_thin, next_step, run, thinned)
from kernels.sparse cimport Stretch, loads_window, next_stretch, spans_of
from move.prefetch cimport Prefetch, prefetch_of, prefetch_some
from move.tile cimport (before_cells, bin_tile_bytes, cell_columns, load, load_bins, next_cell,
                        open_tile)
from plan.choose cimport blocks_with_slopes
from plan.spans cimport clip
from plan.structs cimport BINS, COPY_ONCE, SPARSE, SPARSE_TAPS, TAPS_Y, Call, Task
from roicy._kernels.plan cimport Plan
from simd.structs cimport (FOLDED_BYTES, Pixels, SlopeTaps, Tile, View, Window, prefetch_l1, real)
from tuning cimport BINS_AHEAD, SLOPE_BLOCKS, SLOPE_GROUPS

cdef enum:
    MAX_EDGES = 5                  # y1, y2, x1, x2; of turned boxes cx, cy, w, h and angle


cdef struct Slopes:                # of the channel blocks of a step: some groups of them
    Tile[SLOPE_BLOCKS] tiles  # of each block but the first, where they are packed
    Pixels[SLOPE_GROUPS] groups    # what is loaded of them
    SlopeTaps taps                 # where they are, and the slopes of their weights
    Lanes bins                     # the gradient of the part's bins
    Prefetch ahead                 # of the next box
    double[SLOPE_GROUPS * MAX_EDGES * FOLDED_BYTES] sums      # [group][edge][folded lanes]


cdef inline void set_groups(
        Slopes *slopes, Py_ssize_t blocks, const real *first, const View *steps,
        Py_ssize_t step) noexcept nogil:
    """The pixels of each group of blocks; first: pixel (0, 0) of the first block."""
    cdef Pixels *group = slopes.groups
    cdef Py_ssize_t b = 0
    while b < blocks:
        group.start, group.step = first + b * step, step
        group.count = min(blocks - b, <Py_ssize_t>SLOPE_BLOCKS)
        group.stride_y, group.stride_x = steps.y, steps.x
        group += 1
        b += SLOPE_BLOCKS


cdef inline void load_blocks(
        const Call *call, Step *step, Slopes *slopes, const Window *window, const Part *slots,
        real _) noexcept nogil:
    """Load a window of all blocks; slots: NULL, or the taps of a thin box, which come alone."""
    cdef Py_ssize_t tile = call.layout.tile_bytes // <Py_ssize_t>sizeof(real), b
    cdef real *memory = <real*>step.scratch.tile
    cdef const real *first = memory
    cdef Py_ssize_t packed = step.part.blocks
    cdef View steps
    cdef Tile *block = &step.tile
    if slots != NULL:
        load_thin(call, slots, block, memory, &steps)
    else:
        first = load(call, block, memory, window, &steps)
        if block.in_place:
            packed, tile = 1, call.lanes
    for b in range(1, packed):
        block, memory = &slopes.tiles[b], memory + tile
        if slots != NULL:
            load_thin(call, slots, block, memory, &steps)
        else:
            load(call, block, memory, window, &steps)
    first -= window.y0 * steps.y + window.x0 * steps.x
    set_groups(slopes, step.part.blocks, first, &steps, tile)


cdef inline void slopes_of_bin(
        const Call *call, Slopes *slopes, Py_ssize_t blocks, const int32_t *y, const int32_t *x,
        const real *bin) noexcept nogil:
    """Add the slopes of taps y by x of a bin to the sums of each group; x: NULL in turned boxes."""
    cdef const Pixels *group = slopes.groups
    cdef real *sums = <real*>slopes.sums
    cdef Py_ssize_t b = 0, step = slopes.bins.block
    while b < blocks:
        if x == NULL:
            call.simd.add_sparse_slopes(sums, bin + b * step, step, group, &slopes.taps, y,
                                        call.edges)
        else:
            call.simd.add_slopes(sums, bin + b * step, step, group, &slopes.taps, y, x)
        sums += call.edges * FOLDED_BYTES // <int>sizeof(real)
        group += 1
        b += SLOPE_BLOCKS


cdef void slopes_of_cell(
        const Call *call, const Part *part, const Window *cell, Slopes *slopes,
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
            bin = (<const real*>bins.origin + (p - part.p0) * bins.steps.y
                   + (q - part.q0) * bins.steps.x)
            prefetch_some(&slopes.ahead)
            if bins.block == call.lanes:      # the whole next box is too much for a level 2 cache
                for b in range(part.blocks):
                    prefetch_l1(bin + BINS_AHEAD * bins.steps.x + b * call.lanes)
            clip(part.spans_x + 2 * q, part.pixel, cell.x0, cell.x1, columns)
            if columns[0] < columns[1]:
                slopes_of_bin(call, slopes, part.blocks, rows, columns, bin)


cdef void sparse_slopes_of_part(
        const Call *call, Step *step, Slopes *slopes, real of_type) noexcept nogil:
    """Add the gradients with respect to the numbers of a turned box, of some bins, to the sums."""
    cdef const Part *part = &step.part
    cdef const Lanes *bins = &slopes.bins
    cdef bint together = loads_window(call, part, &step.tile, call.cell_pixels)
    cdef const int32_t *span
    cdef const real *bin
    cdef Stretch stretch
    cdef int p, q
    if together:
        load_blocks(call, step, slopes, &part.window, NULL, of_type)
    for p in range(part.p0, part.p1):
        span = spans_of(call, part, p)
        for q in range(part.q1 - part.q0):
            bin = <const real*>bins.origin + (p - part.p0) * bins.steps.y + q * bins.steps.x
            stretch.span[1] = span[0]
            if together:
                slopes_of_bin(call, slopes, part.blocks, span, NULL, bin)
                stretch.span[1] = span[1]
            while next_stretch(call.tables.tap_pixel, span, call.cell_pixels, &stretch):
                load_blocks(call, step, slopes, &stretch.window, NULL, of_type)
                slopes_of_bin(call, slopes, part.blocks, stretch.span, NULL, bin)
            span += 2


cdef void slopes_of_part(
        const Call *call, Step *step, Slopes *slopes, real of_type) noexcept nogil:
    """Add the gradients with respect to a box, of some bins, to the sums of each group."""
    cdef const Window *window = &step.part.window
    cdef Py_ssize_t width = cell_columns(window.x1 - window.x0)
    cdef Py_ssize_t height = max(min(window.y1 - window.y0, call.cell_pixels // width), 1)
    cdef Window cell
    cdef Part slots
    if is_empty(window):
        return
    slopes.taps.pixel, slopes.taps.weight = call.tables.tap_pixel, call.tables.tap_weight
    slopes.taps.slopes, slopes.taps.step = call.tables.tap_slopes, call.tables.taps
    slopes.bins = bins_of_part(call, &step.part, step.bins, step.tile.lanes,
                               <real*>step.scratch.bins)
    if step.how == SPARSE:
        sparse_slopes_of_part(call, step, slopes, of_type)
    elif step.how == TAPS_Y:
        slots = thinned(call, &step.part)
        slopes.taps.pixel = slots.pixel
        load_blocks(call, step, slopes, &slots.window, &slots, of_type)
        slopes_of_cell(call, &slots, &slots.window, slopes, of_type)
    else:
        cell = before_cells(window)
        while next_cell(window, height, width, &cell):
            load_blocks(call, step, slopes, &cell, NULL, of_type)
            slopes_of_cell(call, &step.part, &cell, slopes, of_type)


cdef inline Prefetch bins_of_next_box(
        const Call *call, const Task *task, const Step *step, real _) noexcept nogil:
    """What is prefetched of the next box: all its bins if they are packed, else the first ones.

    Bins that are read in place prefetch later bins of their own box as well (slopes_of_cell).
    """
    cdef const Part *part = &step.part
    cdef Prefetch none
    cdef bint in_place = call.bins.channel == 1
    cdef const real *grad = <const real*>call.result
    memset(&none, 0, sizeof(none))
    if call.strategy == BINS or part.place + 1 >= task.stop_box:
        return none
    grad += (call.tables.rows[part.place + 1] * call.bins.image
             + part.block * call.lanes * call.bins.channel)
    return prefetch_of(grad, &call.bins, <int>part.blocks * step.tile.lanes,
                       1 if in_place else call.ph,
                       min(<int>BINS_AHEAD, call.pw) if in_place else call.pw,
                       <Py_ssize_t>call.ph * call.pw)


cdef inline void store_slopes(
        const Call *call, const Task *task, const Part *part, const real *sums) noexcept nogil:
    """Write the partial sum of each group, in the order of the box, at the group's first block."""
    cdef Py_ssize_t lanes = FOLDED_BYTES // sizeof(real), b = 0, i, lane
    cdef int edge
    cdef double total
    cdef double *to
    cdef int[MAX_EDGES] column      # of y1, y2, x1, x2
    column[0], column[1], column[2], column[3] = 1, 3, 0, 2
    if call.tables.kind == SPARSE_TAPS:
        for edge in range(call.edges):
            column[edge] = edge
    while b < part.blocks:
        i = (part.block + b) * call.channels_per_output + task.first_bin
        to = call.partial_sums + call.edges * (i * call.box_count + part.place)
        for edge in range(call.edges):
            total = 0
            for lane in range(lanes):
                total += sums[(b // SLOPE_BLOCKS * call.edges + edge) * lanes + lane]
            to[column[edge]] = total
        b += SLOPE_BLOCKS


cdef void slopes_of_boxes(
        const Call *call, const Task *task, char *memory, Py_ssize_t tile,
        real of_type) noexcept nogil:
    """The gradients of the task's boxes, of one bin or all.  tile: where the tile is in memory."""
    cdef Py_ssize_t opened = -1, blocks = 0, b
    cdef bint packs
    cdef Slopes slopes
    cdef Step step
    begin_steps(call, task, memory, False, &step)
    step.scratch.tile = <char*>step.scratch.tile + tile
    while next_step(call, task, &step):
        if step.part.block != opened:      # tiles keep rows from box to box
            opened = step.part.block
            blocks = blocks_with_slopes(call, task, opened, step.tile.in_place)
            packs = not step.tile.in_place or call.tables.thin != NULL
            for b in range(1, blocks if packs else 1):
                slopes.tiles[b] = open_tile(call, &step.map, task, opened + b)
        step.part.blocks = blocks
        if begins_block(&step.part):
            memset(slopes.sums, 0,
                   (blocks + SLOPE_BLOCKS - 1) // SLOPE_BLOCKS * call.edges * FOLDED_BYTES)
            slopes.ahead = bins_of_next_box(call, task, &step, of_type)
        slopes_of_part(call, &step, &slopes, of_type)
        if ends_block(&step.part):
            store_slopes(call, task, &step.part, <const real*>slopes.sums)


cdef void grad_boxes_task(
        const Call *call, const Task *task, char *memory, real of_type) noexcept nogil:
    """All bins together, or one by one for a position-sensitive operator."""
    cdef Task one = task[0]
    cdef Py_ssize_t tile = 0
    if call.strategy != BINS:
        slopes_of_boxes(call, task, memory, tile, of_type)
        return
    if task.load == COPY_ONCE:
        load_bins(call, task, memory)
    while one.first_bin < task.stop_bin:
        slopes_of_boxes(call, &one, memory, tile, of_type)
        tile += bin_tile_bytes(task)
        one.first_bin += 1


def grad_boxes(Plan plan, grad_output, sums):
    """Write partial sums (sums_per_box, boxes, edges), float64, of the gradients of boxes.

    The sum of a group is written at its first block; the other sums are left as they are.
    """
    plan.set_result(grad_output)
    plan.set_partial_sums(sums)
    run(plan, grad_boxes_task[float], grad_boxes_task[double])
