"""Tasks: who does what, decided before any thread starts.

A task owns what it writes. So no two tasks write the same, and results do not depend on how many
there are.

    add_image_to_read    forward passes and gradients of the boxes: some boxes of one image
    add_image_to_write   gradients of the input: a rectangle of one image, and all boxes of it

Both are for some channel blocks, of a lane vector of channels each. Where each bin has channels of
its own, a task is for some bins too.

How an image becomes tasks, here to read:

    cover     what its boxes read
    shares    into how many shares the method divides channel blocks and bins
    boxes     the next ones: enough work for one task for each share
    load      how these tasks get their pixels
    add       a task for each share

Costs are counted in operations on a lane vector.
"""
from libc.math cimport INFINITY, ceil
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport free, qsort, realloc
from libc.string cimport memset

from errors cimport NO_MEMORY, allocated, fail
from plan.facts cimport TILE_PIXELS, ceiling, rows_contiguous, window_area
from plan.scratch cimport slope_pixels
from plan.shares cimport cost_again, cost_of_bins
from plan.structs cimport (
    GRAD_BOXES, PACK_ROWS, PACK_WINDOW, Call, Cover, LevelJob, Shares, Task, Tasks, Work,
    writes_maps)
from simd.structs cimport LANE_BYTES
from tuning cimport NARROW_COST, SLOPE_BLOCKS, TASKS_PER_THREAD

cdef enum:
    WHOLE_ROWS = 16                # rows are whole if boxes leave out 1/16 of them     # R054
    SERIAL_COST = 100000           # lane vectors of work for one thread alone, 0.1 ms  # R026

# Costs that are not whole numbers, which an enum cannot hold.
cdef extern from *:
    """
    #define PIXEL_COST 1.5
    #define BIN_COST 4.0
    #define MOVE_COST 0.25
    #define EVEN_SHARE 1.001
    #define DIVIDE_SHARE 1.5
    """
    const double PIXEL_COST        # of a pixel of a box, in lane vectors: rough        # no record
    const double BIN_COST          # of a bin of a box, in lane vectors: rough          # no record
    const double MOVE_COST         # of moving a pixel of a tile, in pixels packed      # R025
    const double EVEN_SHARE        # of the work of a task, if shares of bins are even  # no record
    const double DIVIDE_SHARE      # shares of a thread beyond which a box is divided   # R145


# --- the list

cdef inline int add_task(Tasks *tasks, Task task, double cost) noexcept nogil:
    cdef Py_ssize_t room = 2 * tasks.room + 8
    cdef void *items
    if tasks.count == tasks.room:
        items = realloc(tasks.items, room * sizeof(Task))
        if items == NULL:
            return fail(NO_MEMORY, "no room for %zd tasks", tasks.count + 1)
        tasks.items, tasks.room = <Task*>items, room
    task.cost, task.index = cost, tasks.count
    tasks.items[tasks.count] = task
    tasks.count += 1
    return 0


cdef inline int add_shares(
        Tasks *tasks, const Work *work, Shares shares, Task task, double cost) noexcept nogil:
    """Add a task for each share of blocks and bins. cost: of one block and one bin."""
    cdef Py_ssize_t b, z
    for b in range(shares.blocks):
        task.first_block = first_block(work, b * work.units // shares.blocks)
        task.stop_block = first_block(work, (b + 1) * work.units // shares.blocks)
        for z in range(shares.bins):
            task.first_bin = z * work.bins // shares.bins
            task.stop_bin = (z + 1) * work.bins // shares.bins
            if add_task(tasks, task, cost * (task.stop_block - task.first_block)
                        * (task.stop_bin - task.first_bin)) < 0:
                return -1
    return 0


cdef inline int compare_tasks(const void *one, const void *other) noexcept nogil:
    """For qsort: the larger cost comes first, so that tasks that end last are small.

    Equal ones keep their order.
    """
    cdef const Task *a = <const Task*>one
    cdef const Task *b = <const Task*>other
    if a.cost != b.cost:
        return -1 if a.cost > b.cost else 1
    return -1 if a.index < b.index else 1


# --- costs

cdef inline double cost_of_box(const LevelJob *job, Py_ssize_t box) noexcept nogil:
    """Return roughly how many operations a channel block takes: each pixel of the window takes
    one or two, each bin a few."""
    return (PIXEL_COST * window_area(&job.tables, box)
            + BIN_COST * (<Py_ssize_t>job.call.ph * job.call.pw))


cdef inline Work work_of(const Call *call) noexcept nogil:
    cdef Work work
    cdef const LevelJob *job
    cdef Py_ssize_t level, i
    cdef double cost = 0
    work.bins = <Py_ssize_t>call.ph * call.pw
    work.blocks = work.units = ceiling(call.channels, call.lanes)
    work.whole_blocks = call.channels // call.lanes
    work.tile_pixels = TILE_PIXELS
    if call.purpose == GRAD_BOXES and not call.position_sensitive:
        work.units = (ceiling(work.whole_blocks, SLOPE_BLOCKS)
                      + work.blocks - work.whole_blocks)
        work.tile_pixels = slope_pixels(max(min(work.whole_blocks, SLOPE_BLOCKS), 1))
    for level in range(call.levels):
        job = &call.jobs[level]
        for i in range(job.tables.count):
            cost += cost_of_box(job, i)
        if writes_maps(call.purpose) and job.tables.count > 0:
            cost += (<double>job.map.images * job.map.rows * job.map.columns
                     * (work.bins if job.method.bins_apart else 1))
    cost *= ceiling(call.channels, LANE_BYTES // call.itemsize)      # `begin` may make call.lanes 1
    # A little more than an even share: else rounding could make a share of bins seem too much for
    # a task, whose boxes would be divided too.
    work.cost = EVEN_SHARE * cost / (TASKS_PER_THREAD * call.max_threads)
    work.threads = call.max_threads
    job = call.jobs      # which is the only one where bins have channels of their own
    if job.method != NULL and job.method.bins_apart and not writes_maps(call.purpose):
        cost *= NARROW_COST
    if cost < SERIAL_COST or call.max_threads == 1:
        work.threads, work.cost = 1, INFINITY
    return work


cdef inline Py_ssize_t first_block(const Work *work, Py_ssize_t unit) noexcept nogil:
    """Return the first block of a unit; of the one after the last, the number of all blocks."""
    if work.units == work.blocks:
        return unit
    if unit == work.units:
        return work.blocks
    return min(unit * SLOPE_BLOCKS, work.whole_blocks)


cdef inline int list_tasks(Call *call) noexcept nogil:
    """List the tasks of all levels, and return how many threads are worth waking, or -1 without
    memory."""
    cdef Tasks *tasks = &call.tasks
    cdef Work work = work_of(call)
    cdef Py_ssize_t level, image
    cdef const LevelJob *job
    cdef Shares shares
    cdef int failed
    tasks.count = 0
    for level in range(call.levels):
        job = &call.jobs[level]
        if job.tables.count > 0 and writes_maps(call.purpose):
            shares = job.method.shares_to_write(job, &work)
        for image in range(job.map.images if job.tables.count > 0 else 0):
            if writes_maps(call.purpose):
                failed = add_image_to_write(tasks, job, &work, &shares, level, image)
            else:
                failed = add_image_to_read(tasks, job, &work, level, image)
            if failed:
                return -1
    if work.threads > 1:
        qsort(tasks.items, tasks.count, sizeof(Task), compare_tasks)
    return min(work.threads, max(<int>tasks.count, 1))


# --- tasks that read: forward passes and gradients of the boxes

cdef inline int add_image_to_read(
        Tasks *tasks, const LevelJob *job, const Work *work, Py_ssize_t level,
        Py_ssize_t image) noexcept nogil:
    cdef Py_ssize_t box = job.tables.starts[image], stop = job.tables.starts[image + 1]
    cdef Cover cover = cover_of_boxes(job, box, stop), of_task
    cdef Shares shares
    cdef Task task
    if box == stop:
        return 0
    shares = job.method.shares_to_read(job, work, &cover, stop - box)
    task.level, task.image = level, image
    while box < stop:
        task.first_box = box
        box = stop_of_task(job, work, &shares, cover.x1 - cover.x0, box, stop)
        task.stop_box = box
        of_task = cover_of_boxes(job, task.first_box, box)
        task.y0, task.y1, task.x0, task.x1 = of_task.y0, of_task.y1, of_task.x0, of_task.x1
        task.load = load_of_task(job, work, &shares, &of_task, task.first_box, box)
        if shares.divides_boxes:
            shares.blocks = blocks_of_task(work, &of_task)
        if add_shares(tasks, work, shares, task, of_task.cost) < 0:
            return -1
    return 0


cdef inline Cover cover_of_boxes(
        const LevelJob *job, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    cdef Cover cover
    cdef Py_ssize_t i, missing
    cdef double cost
    cdef const int32_t *window
    cover.y0 = cover.x0 = INT32_MAX
    cover.y1 = cover.x1 = cover.max_rows = 0
    cover.area = cover.rows = cover.cost = cover.max_cost = 0
    for i in range(first, stop):
        cost = cost_of_box(job, i)
        cover.cost += cost
        cover.max_cost = max(cover.max_cost, cost)
        window = job.tables.windows + 4 * i
        if window[0] < window[1] and window[2] < window[3]:
            cover.y0, cover.y1 = min(cover.y0, window[0]), max(cover.y1, window[1])
            cover.x0, cover.x1 = min(cover.x0, window[2]), max(cover.x1, window[3])
            cover.max_rows = max(cover.max_rows, window[1] - window[0])
            cover.area += window_area(&job.tables, i)
            cover.rows += window[1] - window[0]
    if cover.y1 == 0:
        cover.y0 = cover.x0 = 0
    # Rows that are read whole and lie end to end are one long run, which is worth a few pixels.
    missing = job.map.columns - (cover.x1 - cover.x0)
    if rows_contiguous(job) and WHOLE_ROWS * missing <= job.map.columns:
        cover.x0, cover.x1 = 0, job.map.columns
    cover.hull = <double>(cover.y1 - cover.y0) * (cover.x1 - cover.x0)
    return cover


cdef inline bint is_tall(
        const LevelJob *job, const Work *work, Py_ssize_t columns, Py_ssize_t box) noexcept nogil:
    """Whether the tile has no room for the rows of a box, so that it cannot share packed rows."""
    cdef const int32_t *window = job.tables.windows + 4 * box
    return (window[1] - window[0]) * columns > work.tile_pixels


cdef inline Py_ssize_t stop_of_task(
        const LevelJob *job, const Work *work, const Shares *shares, Py_ssize_t columns,
        Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    """Return the end of the boxes of a task that begins with box `first`. The task has that box,
    and takes further ones while its share of blocks and bins costs no more than work.cost.

    Tall boxes, which are sorted behind all others, have tasks of their own: a task that holds one
    of them would pack the window of each box.
    """
    cdef bint packs = shares.pixel_cost > 0, tall = packs and is_tall(job, work, columns, first)
    cdef Py_ssize_t i = first
    cdef double cost = 0
    stop = min(stop, first + shares.max_boxes)
    while i < stop:
        cost += cost_of_box(job, i)
        if i > first and (cost * work.blocks / (shares.blocks * shares.bins) > work.cost
                          or packs and is_tall(job, work, columns, i) != tall):
            break
        i += 1
    return i


cdef inline Py_ssize_t blocks_of_task(const Work *work, const Cover *of_task) noexcept nogil:
    """Into how many shares blocks are divided for boxes that are much of what a thread does."""
    cdef double shares = of_task.cost * work.blocks / (DIVIDE_SHARE * work.cost)
    return min(max(<Py_ssize_t>ceil(shares), 1), work.units)


cdef inline int load_of_task(
        const LevelJob *job, const Work *work, const Shares *shares, const Cover *of_task,
        Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    """How the tasks of some boxes get their pixels."""
    cdef double of_windows = shares.pixel_cost * of_task.area + shares.row_cost * of_task.rows
    if (shares.load == PACK_WINDOW and shares.pixel_cost > 0
            and of_task.max_rows * (of_task.x1 - of_task.x0) <= work.tile_pixels
            and cost_of_rows(job, work, of_task, first, stop) < of_windows):
        return PACK_ROWS
    return shares.load


cdef inline double cost_of_rows(
        const LevelJob *job, const Work *work, const Cover *of_task, Py_ssize_t first,
        Py_ssize_t stop) noexcept nogil:
    """Return what packing whole rows costs, in pixels: each row is packed once. Where the tile has
    no room for all of them, most boxes that take half of it move what it holds."""
    cdef const int32_t *windows = job.tables.windows
    cdef Py_ssize_t i, columns = of_task.x1 - of_task.x0
    cdef double cost = of_task.hull
    if of_task.hull > work.tile_pixels:
        for i in range(first, stop):
            if 2 * (windows[4 * i + 1] - windows[4 * i]) * columns > work.tile_pixels:
                cost += MOVE_COST * work.tile_pixels
    return cost


# --- tasks that write: gradients of the input

cdef struct Bands:                 # how the rows of an image are divided
    double *costs                  # [rows]: of a row
    double *again                  # [rows]: of what a band reads again that begins with it
    double left                    # sum of the costs of rows that are in no band yet
    double again_left              # sum of their `again`
    Py_ssize_t count               # of bands that they are to be divided into


cdef inline int add_image_to_write(
        Tasks *tasks, const LevelJob *job, const Work *work, const Shares *shares, Py_ssize_t level,
        Py_ssize_t image) noexcept nogil:
    """Add the tasks of an image: bands of rows that cost as much each, cut to the columns that the
    tile has room for.  An image without boxes is written with zeros, unless gradients are added to
    what is there."""
    cdef double cost
    cdef Bands bands
    cdef Task task
    cdef int failed = 0
    task.level, task.image = level, image
    task.first_box, task.stop_box = job.tables.starts[image], job.tables.starts[image + 1]
    task.load, task.y1 = shares.load, 0
    if job.add and task.first_box == task.stop_box:
        return 0
    bands.costs = <double*>allocated(2 * (job.map.rows + 1), sizeof(double))
    if bands.costs == NULL:
        return -1
    bands.again, bands.count = bands.costs + job.map.rows + 1, shares.bands
    set_costs_of_rows(job, task.first_box, task.stop_box, &bands)
    while task.y1 < job.map.rows and not failed:
        task.y0, task.x1 = task.y1, 0
        task.y1 = stop_of_band(job, shares, task.y0, &bands, &cost)
        while task.x1 < job.map.columns and not failed:
            task.x0 = task.x1
            task.x1 = min(task.x0 + shares.columns, job.map.columns)
            failed = add_shares(tasks, work, shares[0], task, cost)
    free(bands.costs)
    return failed


cdef inline void set_costs_of_rows(
        const LevelJob *job, Py_ssize_t first, Py_ssize_t stop, Bands *bands) noexcept nogil:
    """Set the costs of each row, for which there is room for one more: of pixels that boxes cover,
    of all pixels, which are written, and of the bins of boxes, in the first row that they read."""
    cdef Py_ssize_t again = cost_again(job), i, y
    cdef double covered = 0, boxes = 0
    cdef const int32_t *windows = job.tables.windows
    memset(bands.costs, 0, 2 * (job.map.rows + 1) * sizeof(double))
    # First where windows begin and end, then the sum of those that have begun and not ended.
    for i in range(first, stop):
        bands.costs[windows[4 * i]] += windows[4 * i + 3] - windows[4 * i + 2]
        bands.costs[windows[4 * i + 1]] -= windows[4 * i + 3] - windows[4 * i + 2]
        if windows[4 * i] < windows[4 * i + 1]:
            bands.again[windows[4 * i] + 1] += again
            bands.again[windows[4 * i + 1]] -= again
    bands.left, bands.again_left = cost_of_bins(job) * (stop - first), 0
    for y in range(job.map.rows):
        covered += bands.costs[y]
        boxes += bands.again[y]
        bands.costs[y], bands.again[y] = covered + job.map.columns, boxes
        bands.left += bands.costs[y]
        bands.again_left += boxes
    for i in range(first, stop):
        bands.costs[windows[4 * i]] += cost_of_bins(job)


cdef inline Py_ssize_t stop_of_band(
        const LevelJob *job, const Shares *shares, Py_ssize_t first, Bands *bands,
        double *cost) noexcept nogil:
    """Return the end of a band, which costs as much as each of those after it will, roughly, and
    set its cost."""
    cdef Py_ssize_t y = first, stop = min(job.map.rows, first + shares.rows)
    cdef Py_ssize_t later = max(bands.count - 1, 0)
    cdef double mean = bands.again_left / (job.map.rows - first)
    cdef double even = (bands.again[first] + bands.left + later * mean) / (later + 1)
    cost[0] = bands.again[first]
    while y < stop and (y == first or cost[0] + bands.costs[y] / 2 < even):
        cost[0] += bands.costs[y]
        bands.again_left -= bands.again[y]
        y += 1
    bands.left -= cost[0] - bands.again[first]
    bands.count = later
    return y
