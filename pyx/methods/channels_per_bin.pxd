"""Channels per bin: each bin of a position-sensitive operator reads channels of its own.

A task is for some bins of a channel block, and goes through its boxes bin by bin: a bin reads the
same channels for all boxes.  Where the channels of a pixel lie together, those of several bins are
copied at once, into a tile for each bin.
"""
from libc.stdint cimport int32_t
from libc.string cimport memset

cimport methods.planes as planes
from passes.grad_boxes cimport Slopes, begin_slopes, next_slopes, slopes_of_window
from passes.grad_input cimport Owned, begin_owned, next_owned
from passes.walk cimport (
    Lanes, Part, Walk, bins_of_part, parts_of, scratch_of, set_box, set_first_bin, set_window,
    taps_of, target_of)
from passes.tile cimport bin_tile_bytes, load, load_bins, open_tile, store_bins
from passes.windows cimport sum_block
from plan.facts cimport TILE_PIXELS, ceiling, rows_contiguous
from plan.scratch cimport most_tile_bytes, size_tiles, slope_pixels
from plan.shares cimport set_rectangles
from plan.spans cimport clip
from plan.structs cimport (
    COPY_ONCE, FORWARD, GRAD_BOXES, GRAD_INPUT, TAPS, WHOLE, Cover, LevelJob, Method, Shares,
    Task, Tasks, Work, set_pass)
from plan.ways cimport has_few_taps, set_ways, way_of_window
from simd.structs cimport (BINS_TOGETHER, DIRECT, LANE_BYTES, Target, Taps, View, Window,
                           prefetch_write, real)
from tuning cimport BINS_BYTES, NARROW_COST, TASKS_PER_THREAD

cdef enum:
    MIN_COPY_BINS = 4              # position-sensitive bins worth copying together     # R172
    COPY_COST = 3                  # cost of a pixel of them all, in pixels of one bin  # R173
    BIN_RANGE_BYTES = 1 << 20      # bins of the boxes of a position-sensitive task     # R164
    WRITE_AHEAD = 4                # boxes ahead whose shared lines are prefetched      # R167


cdef inline const char *unfit(const LevelJob *job) noexcept nogil:
    if job.call.position_sensitive:
        return NULL
    return "all bins have the same channels"


# Tasks

cdef inline double cost_of_bin(const LevelJob *job, const Work *work) noexcept nogil:
    """Return the cost of a pixel of a window, in pixels of whole rows that are packed.

    Each bin packs its own part of the window.  Short runs of a plane take longer than pixels whose
    channels lie together.
    """
    return <double>(NARROW_COST if rows_contiguous(job) else 1) / work.bins


cdef inline Py_ssize_t shares_of_bins(const Work *work, Py_ssize_t others) noexcept nogil:
    """Into how many shares bins are divided, beside `others`: enough for all threads, and so many
    that a task has no more bins than it computes together."""
    cdef Py_ssize_t enough = min(work.bins, ceiling(TASKS_PER_THREAD * work.threads, others))
    return max(ceiling(work.bins, BINS_TOGETHER), enough)


cdef inline Shares shares_to_read(
        const LevelJob *job, const Work *work, const Cover *cover, Py_ssize_t boxes) noexcept nogil:
    """A task is for some bins of a block. Where the channels of a pixel lie together, what bins
    read is copied for several of them at once: as many as the tile has room for."""
    cdef Shares shares = planes.shares_to_read(job, work, cover, boxes)
    cdef Py_ssize_t copied, together
    shares.bins = shares_of_bins(work, work.blocks)
    shares.pixel_cost, shares.row_cost = cost_of_bin(job, work), 0
    if not rows_contiguous(job) and 0 < cover.hull <= TILE_PIXELS:
        copied = max(shares.bins, ceiling(work.bins, TILE_PIXELS // <Py_ssize_t>cover.hull))
        together = ceiling(work.bins, copied)
        if (together >= MIN_COPY_BINS
                and COPY_COST * cover.hull < cover.area * cost_of_bin(job, work) * together):
            shares.bins, shares.load = copied, COPY_ONCE
    together = ceiling(work.bins, shares.bins)
    shares.max_boxes = max(BIN_RANGE_BYTES // (LANE_BYTES * together), 1)
    return shares


cdef inline Shares shares_to_write(const LevelJob *job, const Work *work) noexcept nogil:
    """A task owns the channels of a bin, or of several bins whose channels lie together.

    Then their gradient is summed in tiles, one for each bin.
    """
    cdef Shares shares = planes.shares_to_read(job, work, NULL, 0)
    cdef Py_ssize_t together
    shares.bins = shares_of_bins(work, job.map.images * work.blocks)
    together = ceiling(work.bins, shares.bins)
    if rows_contiguous(job) or together < MIN_COPY_BINS:
        shares.bins, together = work.bins, 1
    else:
        shares.load = COPY_ONCE
    set_rectangles(job, work, together, &shares)
    return shares


cdef inline void size_scratch(LevelJob *job) noexcept nogil:
    """Room for the bins of all boxes of a task, and for the tiles of all its bins."""
    cdef Py_ssize_t bins = job.tables.count * (<Py_ssize_t>job.call.ph * job.call.pw * LANE_BYTES)
    job.slopes.cell_pixels = slope_pixels(1)
    job.scratch.tile_bytes = max(job.scratch.tile_bytes, most_tile_bytes(job))
    size_tiles(job, 1, max(<Py_ssize_t>BINS_BYTES, min(<Py_ssize_t>BIN_RANGE_BYTES, bins)))


# Passes

cdef inline void sum_bin(const LevelJob *job, Walk *walk, real *bin) noexcept nogil:
    """One bin.  Nearly all are so small that they need none of the loops of `contract`."""
    cdef Part *part = &walk.part
    cdef Window *window = &part.window
    cdef const real *pixels
    cdef View view
    cdef Taps y = taps_of(job, part.spans_y + 2 * part.p0)
    cdef Taps x = taps_of(job, part.spans_x + 2 * part.q0)
    if y.spans[0] == y.spans[1] or x.spans[0] == x.spans[1]:
        memset(bin, 0, LANE_BYTES)
        return
    set_window(y.pixel, y.spans, x.spans, window)
    part.way = way_of_window(window.y1 - window.y0, window.x1 - window.x0)
    if has_few_taps(job, part.box) and not part.shared:
        part.way = TAPS
    if part.way != WHOLE:
        part.p1, part.q1 = part.p0 + 1, part.q0 + 1
        sum_block(job, walk, bin)
        return
    pixels = load(job, &walk.tile, <real*>walk.scratch.tile, window, &view)
    job.call.simd.contract_bin(bin, <real*>walk.scratch.strip, pixels - window.y0 * view.y, view.y,
                               view.x, window.x1 - window.x0, &y, &x)


cdef inline void store_bins_of_boxes(
        const LevelJob *job, const Task *task, const real *bins, real *out,
        const Target *target) noexcept nogil:
    """Write bins [i][z][lane] of the task's boxes to the output; equally spaced ones together."""
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), i, z, q, at, some, line
    cdef Py_ssize_t stride = job.call.out_strides.x, lines = task.stop_bin - task.first_bin
    cdef Py_ssize_t first = (task.first_bin // job.call.pw * job.call.out_strides.y
                             + task.first_bin % job.call.pw * job.call.out_strides.x)
    cdef real *to
    if stride == 1:      # bins are one run for each channel, else one run for each bin
        lines, stride = target.lanes, job.call.out_strides.channel
    for i in range(task.first_box, task.stop_box):
        if i + WRITE_AHEAD < task.stop_box:      # lines of the output are shared with other tasks
            to = out + job.tables.rows[i + WRITE_AHEAD] * job.call.out_strides.image + first
            for line in range(lines):
                prefetch_write(to + line * stride)
        to = out + job.tables.rows[i] * job.call.out_strides.image
        z = task.first_bin
        while z < task.stop_bin:
            q = z % job.call.pw
            some = task.stop_bin - z
            if job.call.out_strides.y != job.call.pw * job.call.out_strides.x:
                some = min(some, job.call.pw - q)
            at = z // job.call.pw * job.call.out_strides.y + q * job.call.out_strides.x
            job.call.simd.unpack(bins, 1, some, to + at, target)
            bins += some * lanes
            z += some


cdef inline void forward(
        const LevelJob *job, const Task *task, char *memory, real _) noexcept nogil:
    """Some bins of a position-sensitive operator, of one channel block.

    A bin reads the same channels for all boxes, so the loop over boxes is the inner one.  In the
    output the bins of a box lie together, so results are gathered and then stored box by box.
    """
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), count = task.stop_bin - task.first_bin, i
    cdef real *bins
    cdef real *out = <real*>job.call.result + (
        task.first_block * lanes * job.call.out_strides.channel)
    cdef Task one = task[0]
    cdef Walk walk
    walk.scratch = scratch_of(job, memory)
    if task.load == COPY_ONCE:
        load_bins(job, task, <char*>walk.scratch.tile)
    while one.first_bin < task.stop_bin:
        walk.tile = open_tile(job, &job.map, &one, task.first_block)
        walk.part = parts_of(job, &one, 1)
        set_first_bin(job, &one, &walk.part)
        bins = <real*>walk.scratch.bins + (one.first_bin - task.first_bin) * lanes
        walk.part.p0, walk.part.q0 = walk.part.p_first, walk.part.q_first
        for i in range(task.first_box, task.stop_box):
            set_box(job, &walk.part, i)
            sum_bin(job, &walk, bins)
            bins += count * lanes
        walk.scratch.tile = <char*>walk.scratch.tile + bin_tile_bytes(task)
        one.first_bin += 1
    walk.target = target_of(job, &walk.tile, &walk.scratch)
    walk.target.store = DIRECT
    store_bins_of_boxes(job, task, <const real*>walk.scratch.bins, out, &walk.target)


cdef inline void add_bin(
        const LevelJob *job, const Task *task, const Part *part, const real *grad,
        const Lanes *sums) noexcept nogil:
    """sums += Wy^T grad Wx for a single bin of one channel block."""
    cdef int32_t[2] rows, columns
    cdef Taps y = taps_of(job, rows), x = taps_of(job, columns)
    clip(part.spans_y + 2 * part.p0, y.pixel, task.y0, task.y1, rows)
    clip(part.spans_x + 2 * part.q0, x.pixel, task.x0, task.x1, columns)
    job.call.simd.accumulate_bin(<real*>sums.origin, sums.view.y, sums.view.x, grad, &y, &x)


cdef inline void add_boxes(
        const LevelJob *job, const Task *task, char *memory, char *tile,
        real of_type) noexcept nogil:
    """Add the gradients of the boxes of a task, of its first bin; tile: of that bin."""
    cdef Owned owned
    cdef Lanes grad
    owned.separable = owned.joins = False
    begin_owned(job, task, memory, tile, &owned)
    set_first_bin(job, task, &owned.walk.part)
    while next_owned(job, task, &owned, of_type):
        grad = bins_of_part(job, &owned.walk.part, owned.walk.result, owned.walk.tile.lanes,
                            <real*>owned.walk.scratch.bins)
        add_bin(job, task, &owned.walk.part, <const real*>grad.origin, &owned.sums)


cdef inline void grad_input(
        const LevelJob *job, const Task *task, char *memory, real of_type) noexcept nogil:
    cdef Task one = task[0]
    cdef char *tile = memory
    if task.load == COPY_ONCE and job.add:
        load_bins(job, task, memory)
    elif task.load == COPY_ONCE:
        memset(memory, 0, (task.stop_bin - task.first_bin) * bin_tile_bytes(task))
    while one.first_bin < task.stop_bin:
        add_boxes(job, &one, memory, tile, of_type)
        tile += bin_tile_bytes(task)
        one.first_bin += 1
    if task.load == COPY_ONCE:
        store_bins(job, task, memory)


cdef inline void grad_boxes(
        const LevelJob *job, const Task *task, char *memory, real of_type) noexcept nogil:
    cdef Task one = task[0]
    cdef Slopes slopes
    cdef Py_ssize_t tile = 0
    if task.load == COPY_ONCE:
        load_bins(job, task, memory)
    while one.first_bin < task.stop_bin:
        begin_slopes(job, &one, memory, False, &slopes)
        slopes.walk.scratch.tile = <char*>slopes.walk.scratch.tile + tile
        set_first_bin(job, &one, &slopes.walk.part)
        while next_slopes(job, &one, &slopes, of_type):
            slopes_of_window(job, &slopes, of_type)
        tile += bin_tile_bytes(task)
        one.first_bin += 1


cdef inline void set_channels_per_bin(Method *method) noexcept:
    method.name, method.unfit, method.pays = "channels_per_bin", unfit, planes.pays
    method.prepare, method.size_scratch = set_ways, size_scratch
    method.shares_to_read, method.shares_to_write = shares_to_read, shares_to_write
    method.bins_apart = True
    set_pass(method, FORWARD, forward[float], forward[double])
    set_pass(method, GRAD_INPUT, grad_input[float], grad_input[double])
    set_pass(method, GRAD_BOXES, grad_boxes[float], grad_boxes[double])
