"""Tables: which pixels the bins of each box read, and with which weights.

`make_tables` makes the tables of the next boxes of an order, of no more than fit TABLE_BYTES.
`find_few_taps` lists the rows and columns of boxes of which few are read.  `transpose_tables`
adds, for each pixel, the bins that read it, which gradients of the input need.  rules.h knows where
bins lie, and plan/structs.pxd says how tables of each kind lie in memory.  `itemsize` tells whether
numbers in them are float or double.

Functions that return an int return -1 without memory, and what they have made until then is freed
by free_tables, which takes what is all zeros as well.
"""
from libc.float cimport DBL_EPSILON, FLT_EPSILON
from libc.math cimport ceil, fabs, floor
from libc.stdint cimport INT32_MAX, int32_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset

from errors cimport NO_MEMORY, allocated, fail
from plan.facts cimport window_area
from plan.rules cimport (
    RULE_QUANTISED, RULE_ROTATED, RULE_SAMPLED, RULE_SINGLE_SAMPLES, RULE_SLOPES, RULE_SUMS,
    BoxAxis, PixelSums, TapsOut, axis_taps, make_axis, sample_count)
from plan.scratch cimport slope_pixels
from plan.spans cimport hull
from plan.sparse cimport count_sparse_taps, max_sparse_taps, sparse_tables
from plan.structs cimport (
    GRAD_BOXES, PIXEL_SPANS, SAMPLES, SEPARABLE, SPARSE_TAPS, LevelJob, Tables)
from simd.structs cimport ASSERT, PLANTED
from threads cimport run_tasks, share_tasks
from tuning cimport FEW_TAPS_GAIN, MAX_COLUMNS, SLOPE_BLOCKS

cdef enum:
    TABLE_BYTES = 8 << 20          # bytes of tables made at once: bounds memory        # no record
    STEP_VECTORS = 1 << 28         # of pixels that a step reads: it takes 0.5 to 1 s   # no record
    MAX_TAPS_BOUND = 1 << 16       # taps of a rotated box: more are counted first      # no record
    MIN_PARALLEL_BINS = 4096       # bins of tables worth a second thread               # R028
    BOXES_AT_ONCE = 16             # boxes whose tables a thread makes at a time        # no record


cdef inline void axis_of_box(
        BoxAxis *made, const LevelJob *job, Py_ssize_t k, int a) noexcept nogil:
    """Axis a of box k: 0 is y and 1 is x."""
    cdef const double *corners = job.call.boxes.numbers + job.call.boxes.width * k
    cdef int bins = job.call.ph, extent = <int>job.map.rows
    cdef double scale = job.scale.y
    if a == 1:
        bins, extent, scale = job.call.pw, <int>job.map.columns, job.scale.x
    make_axis(job.call.itemsize, made, &job.call.rule, scale, bins, extent, corners[1 - a],
              corners[3 - a])


cdef inline int kind_of(int rule) noexcept nogil:
    """The kind of the tables of a rule."""
    if rule == RULE_QUANTISED:
        return PIXEL_SPANS
    if rule == RULE_SINGLE_SAMPLES:
        return SAMPLES
    return SPARSE_TAPS if rule == RULE_ROTATED else SEPARABLE


cdef inline void set_kind(Tables *tables, const LevelJob *job, int kind) noexcept nogil:
    """Say what tables of a kind have of each box and of each tap."""
    tables.tap_kind = kind
    tables.spans_of_box, tables.numbers_of_tap = job.call.ph + job.call.pw, 1
    tables.slots_of_tap = 2 if kind == SAMPLES else 1
    if kind == SPARSE_TAPS:
        tables.spans_of_box, tables.numbers_of_tap = <Py_ssize_t>job.call.ph * job.call.pw, 2
    if job.call.purpose == GRAD_BOXES:
        tables.slopes_of_tap = RULE_SLOPES if kind == SPARSE_TAPS else 2


cdef inline double max_axis_taps(const LevelJob *job, const BoxAxis *axis) noexcept nogil:
    """An upper bound of the taps of one axis: each bin reads at most three pixels more than its
    length on the map, and at most two a sample.  One more makes up for sums that are rounded."""
    cdef double low = min(axis.low, axis.low + axis.size)
    cdef double high = max(axis.low, axis.low + axis.size)
    cdef double extent = axis.extent, rounding, taps
    cdef Py_ssize_t samples = 0
    cdef int itemsize = job.call.itemsize, p
    if job.tables.tap_kind == SAMPLES:
        for p in range(axis.bins):
            samples += sample_count(itemsize, axis, p)
        return samples
    # large coordinates are coarse, and rounding then moves the ends of bins by pixels
    rounding = 8 * max(fabs(low), fabs(high))
    rounding *= FLT_EPSILON if itemsize == sizeof(float) else DBL_EPSILON
    low = min(max(floor(low - rounding) - 2, 0), extent)
    high = min(max(ceil(high + rounding) + 2, 0), extent)
    taps = (high - low) + (4.0 + rounding) * axis.bins
    if job.call.rule.kind == RULE_SAMPLED and job.call.rule.sampling_ratio > 0:
        taps = min(taps, 2.0 * axis.bins * job.call.rule.sampling_ratio)
    return <Py_ssize_t>min(taps, extent * axis.bins)


cdef inline double max_taps(const LevelJob *job, Py_ssize_t k) noexcept nogil:
    """An upper bound of the taps of a box, which may be far above what memory holds."""
    cdef Py_ssize_t samples = job.call.rule.sampling_ratio
    cdef double taps = 0
    cdef BoxAxis axis
    cdef int a
    if job.tables.tap_kind == PIXEL_SPANS:
        return 0
    if job.tables.tap_kind == SPARSE_TAPS:
        return max_sparse_taps(job, k)
    if job.call.rule.kind == RULE_SAMPLED and 1 <= samples <= 2:
        # Samples bound the taps whatever the box is: max_axis_taps would say the same.
        return (min(2 * samples, job.map.rows) * job.call.ph
                + min(2 * samples, job.map.columns) * job.call.pw)
    for a in range(2):
        axis_of_box(&axis, job, k, a)
        taps += max_axis_taps(job, &axis)
    return taps


cdef inline Py_ssize_t axis_tables(
        const LevelJob *job, Py_ssize_t i, Py_ssize_t k, Py_ssize_t start) noexcept nogil:
    """Both axes of box k, which is box i of the tables; return its taps, from `start` on."""
    cdef const Tables *tables = &job.tables
    cdef int32_t *spans = tables.spans + 2 * tables.spans_of_box * i
    cdef int32_t *window = tables.windows + 4 * i
    cdef uint8_t *outside = NULL
    cdef Py_ssize_t itemsize = job.call.itemsize, low = 0, high = 0
    cdef BoxAxis axis
    cdef TapsOut out
    cdef int a
    out.count = 0
    out.pixel = tables.tap_pixel + start
    out.weight = <char*>tables.tap_weight + start * itemsize
    out.slope_low = out.slope_high = NULL
    if tables.slopes_of_tap > 0:
        out.slope_low = <char*>tables.tap_slopes + start * itemsize
        out.slope_high = <char*>out.slope_low + tables.taps * itemsize
    for a in range(2):
        axis_of_box(&axis, job, k, a)
        if tables.tap_kind == SAMPLES:
            outside = tables.outside + tables.spans_of_box * i + a * job.call.ph
        axis_taps(<int>itemsize, &axis, <int>start, spans, outside, &out)
        hull(spans, 0, axis.bins, tables.tap_pixel, &low, &high)
        window[0], window[1] = <int32_t>low, <int32_t>high
        if tables.tap_kind == SAMPLES and window[0] < window[1]:
            window[1] = min(window[1], axis.extent - 1) + 1    # and the pixel after the sample
        spans += 2 * axis.bins
        window += 2
    return out.count


cdef inline void box_tables(
        const LevelJob *job, Py_ssize_t i, Py_ssize_t k, const Py_ssize_t *room,
        PixelSums *sums) noexcept nogil:
    """Box k, which is box i of the tables; room: its first tap, and the first of the next box."""
    cdef Py_ssize_t taps
    if job.tables.tap_kind == SPARSE_TAPS:
        taps = sparse_tables(job, i, k, room[0], sums)
    else:
        taps = axis_tables(job, i, k, room[0])
    ASSERT(room[0] + taps <= room[1])


cdef inline void *allocate(Tables *tables, Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """Memory for a table of so many elements, which free_tables gives back; or NULL."""
    cdef void *memory = allocated(count, size)
    tables.memory[tables.allocated] = memory
    tables.allocated += 1
    return memory


cdef inline bint all_made(const Tables *tables) noexcept nogil:
    """Whether there was memory for all tables."""
    cdef int i
    for i in range(tables.allocated):
        if (tables.memory[i] == NULL) & (not PLANTED("tables are written without memory")):
            return False
    return True


cdef inline int make_windows(LevelJob *job, Py_ssize_t count) noexcept nogil:
    """Room for the windows of the next boxes, and what their order knows."""
    cdef Tables *tables = &job.tables
    cdef const Py_ssize_t *starts = job.order.starts      # among the boxes of all levels
    cdef Py_ssize_t n
    tables.rows, tables.count = job.order.boxes + tables.first, count
    tables.stop = tables.first + count
    tables.starts = <Py_ssize_t*>allocate(tables, job.map.images + 1, sizeof(Py_ssize_t))
    tables.windows = <int32_t*>allocate(tables, count, 4 * sizeof(int32_t) + 2)
    if not all_made(tables):
        return -1
    for n in range(job.map.images + 1):
        tables.starts[n] = (min(max(starts[n] - starts[0], tables.first), tables.stop)
                            - tables.first)
    tables.ways = <uint8_t*>(tables.windows + 4 * count)
    tables.x_first = tables.ways + count
    return 0


cdef inline int make_taps(Tables *tables, Py_ssize_t taps, int itemsize) noexcept nogil:
    """Room for spans and taps."""
    cdef Py_ssize_t spans = tables.spans_of_box * tables.count
    if taps > INT32_MAX:
        return fail(NO_MEMORY, "the tables of boxes have %zd taps, more than can be counted", taps)
    tables.taps = taps
    tables.spans = <int32_t*>allocate(tables, 2 * spans, sizeof(int32_t))
    if tables.tap_kind != PIXEL_SPANS:
        tables.tap_pixel = <int32_t*>allocate(tables, tables.numbers_of_tap * taps, sizeof(int32_t))
        tables.tap_weight = allocate(tables, taps, itemsize)
    if tables.slopes_of_tap > 0:
        tables.tap_slopes = allocate(tables, tables.slopes_of_tap * taps, itemsize)
    if tables.tap_kind == SAMPLES:
        tables.outside = <uint8_t*>allocate(tables, spans, 1)
    if tables.tap_kind == SPARSE_TAPS:
        tables.few_pixels = <int32_t*>allocate(tables, tables.count, sizeof(int32_t))
    return 0 if all_made(tables) else -1


cdef inline PixelSums *make_sums(int workers) noexcept nogil:
    """Sums of no pixels, for each worker; NULL without memory."""
    cdef PixelSums *sums = <PixelSums*>allocated(workers, sizeof(PixelSums))
    cdef Py_ssize_t i, j
    for i in range(workers if sums != NULL else 0):
        sums[i].used = 0
        for j in range(RULE_SUMS * RULE_SUMS):
            sums[i].sums[j].y = -1
    return sums


cdef inline Py_ssize_t bytes_of_box(const Tables *tables) noexcept nogil:
    """Of tables without taps: window, way, axis, spans, and room to place taps."""
    return (4 * sizeof(int32_t) + 2 + 2 * sizeof(Py_ssize_t)
            + 2 * tables.spans_of_box * <Py_ssize_t>sizeof(int32_t))


cdef inline Py_ssize_t place_taps(
        const LevelJob *job, const int32_t *order, Py_ssize_t count, PixelSums *sums,
        Py_ssize_t *starts) noexcept nogil:
    """Say where there is room for the taps of at most `count` boxes, which starts at 0.

    Returns how many boxes TABLE_BYTES have room for, at least 1.
    """
    cdef const Tables *tables = &job.tables
    cdef Py_ssize_t tap_bytes = (tables.numbers_of_tap * sizeof(int32_t)
                                 + (1 + tables.slopes_of_tap) * job.call.itemsize)
    cdef Py_ssize_t i
    cdef double taps, total = 0
    starts[0] = 0
    for i in range(count):
        taps = max_taps(job, order[i])
        total += taps * tap_bytes + bytes_of_box(tables)
        if i > 0 and total > TABLE_BYTES:
            return i
        if tables.tap_kind == SPARSE_TAPS and taps > MAX_TAPS_BOUND:
            taps = count_sparse_taps(job, order[i], sums)
        starts[i + 1] = starts[i] + <Py_ssize_t>taps
    return count


cdef inline Py_ssize_t boxes_of_a_second(
        const LevelJob *job, const int32_t *order, Py_ssize_t count) noexcept nogil:
    """How many of `count` boxes read no more than STEP_VECTORS lane vectors, at least 1.

    A task may have all boxes of a step, and signals, as of Ctrl-C, are looked for between tasks.
    """
    cdef double scale = job.scale.y * job.scale.x, area, vectors = 0
    cdef double pixels = <double>job.map.rows * job.map.columns
    cdef double bins = <double>job.call.ph * job.call.pw
    cdef double blocks = (job.call.channels * job.call.channels_per_output) // job.call.lanes + 1
    cdef const double *box
    cdef Py_ssize_t i
    if count * (pixels + bins) * blocks <= STEP_VECTORS:
        return count
    for i in range(count):
        box = job.call.boxes.numbers + job.call.boxes.width * order[i]
        area = box[2] * box[3]
        if job.call.boxes.width == 4:
            area = (box[2] - box[0]) * (box[3] - box[1])
        vectors += (min(fabs(area) * scale, pixels) + bins) * blocks
        if i > 0 and vectors > STEP_VECTORS:
            return i
    return count


cdef struct BoxTables:             # what the workers need who make the tables of boxes
    const LevelJob *job
    const Py_ssize_t *starts       # of the taps of each box


cdef inline void make_some(const void *given, Py_ssize_t task, char *scratch) noexcept nogil:
    """scratch: sums of a worker, where boxes are turned."""
    cdef const BoxTables *one = <const BoxTables*>given
    cdef const LevelJob *job = one.job
    cdef const int32_t *box = job.order.boxes + job.tables.first
    cdef Py_ssize_t i, first = task * BOXES_AT_ONCE
    for i in range(first, min(first + BOXES_AT_ONCE, job.tables.count)):
        box_tables(job, i, box[i], one.starts + i, <PixelSums*>scratch)


cdef inline int fill_tables(
        LevelJob *job, Py_ssize_t count, int workers, Py_ssize_t *starts,
        PixelSums *sums) noexcept nogil:
    """Place the taps of `count` boxes, or of as many as tables have room for, and compute them."""
    cdef Tables *tables = &job.tables
    cdef BoxTables shared
    count = place_taps(job, job.order.boxes + tables.first, count, sums, starts)
    if make_windows(job, count) < 0 or make_taps(tables, starts[count], job.call.itemsize) < 0:
        return -1
    shared.job, shared.starts = job, starts
    return share_tasks(&shared, (count + BOXES_AT_ONCE - 1) // BOXES_AT_ONCE, workers, <char*>sums,
                       sizeof(PixelSums), make_some, job.call.team)


cdef inline int make_tables(LevelJob *job, Py_ssize_t max_boxes) noexcept nogil:
    """Fill the tables of a level, empty but for `first`: of the boxes from there on, at most
    max_boxes, no more than fit TABLE_BYTES and than take about a second, but at least one."""
    cdef Tables *tables = &job.tables
    cdef Py_ssize_t count = min(job.order.count - tables.first, max_boxes)
    cdef Py_ssize_t *starts
    cdef PixelSums *sums = NULL
    cdef int failed, workers
    set_kind(tables, job, kind_of(job.call.rule.kind))
    count = min(count, max(TABLE_BYTES // bytes_of_box(tables), 1))
    count = boxes_of_a_second(job, job.order.boxes + tables.first, count)
    workers = job.call.max_threads if count * tables.spans_of_box >= MIN_PARALLEL_BINS else 1
    starts = <Py_ssize_t*>allocated(count + 1, sizeof(Py_ssize_t))
    if tables.tap_kind == SPARSE_TAPS:
        sums = make_sums(workers)
    failed = starts == NULL or (sums == NULL and tables.tap_kind == SPARSE_TAPS)
    if not failed:
        failed = fill_tables(job, count, workers, starts, sums) < 0
    free(starts)
    free(sums)
    return -1 if failed else 0


cdef inline int whole_map_tables(LevelJob *job) noexcept nogil:
    """All boxes of a level, with windows that are the whole map, and no taps."""
    cdef int32_t *window
    if make_windows(job, job.order.count) < 0:
        return -1
    window = job.tables.windows
    for _ in range(job.order.count):
        window[0] = window[2] = 0
        window[1], window[3] = <int32_t>job.map.rows, <int32_t>job.map.columns
        window += 4
    return 0


cdef inline void free_tables(Tables *tables) noexcept nogil:
    cdef int i
    for i in range(tables.allocated):
        free(tables.memory[i])
    memset(tables, 0, sizeof(Tables))


# ---------------------------------------------------------------------------- transposed tables

cdef inline void copy_number(
        void *to, Py_ssize_t i, const void *numbers, Py_ssize_t j, int itemsize) noexcept nogil:
    if itemsize == sizeof(float):
        (<float*>to)[i] = (<const float*>numbers)[j]
    else:
        (<double*>to)[i] = (<const double*>numbers)[j]


cdef inline bint bins_ascend(
        const int32_t *spans, int bins, const int32_t *tap_pixel) noexcept nogil:
    """Whether bins follow each other in the map's direction.  Bins of inverted boxes do not."""
    cdef int last = bins - 1
    while last > 0 and spans[2 * last] == spans[2 * last + 1]:
        last -= 1
    return last == 0 or tap_pixel[spans[0]] <= tap_pixel[spans[2 * last]]


cdef inline Py_ssize_t transpose_axis(
        const Tables *tables, const int32_t *spans, int bins, const int32_t *window, int itemsize,
        int32_t *next_bin) noexcept nogil:
    """One axis of one box; returns how many pixels its bins read.

    window: low, stop of its pixels.  next_bin: room for a number of each of them: how many bins
    read it, and then where the next of them is written.
    """
    cdef const int32_t *tap_pixel = tables.tap_pixel
    cdef int32_t *pixels = tables.pixels + spans[0]
    cdef int32_t *pixel_spans = tables.pixel_spans + 2 * <Py_ssize_t>spans[0]
    cdef bint ascend = bins_ascend(spans, bins, tap_pixel)
    cdef Py_ssize_t count = 0, j
    cdef int32_t at = spans[0], start, y
    cdef int walked, p
    memset(next_bin, 0, (window[1] - window[0]) * sizeof(int32_t))
    for j in range(spans[0], spans[2 * bins - 1]):
        next_bin[tap_pixel[j] - window[0]] += 1
    for y in range(window[1] - window[0]):
        start = at
        at += next_bin[y]
        next_bin[y] = start
        if at > start:
            pixels[count], pixel_spans[2 * count], pixel_spans[2 * count + 1] = (
                window[0] + y, start, at)
            count += 1
    for walked in range(bins):
        p = walked if ascend else bins - 1 - walked
        for j in range(spans[2 * p], spans[2 * p + 1]):
            y = tap_pixel[j] - window[0]
            tables.bin[next_bin[y]] = p
            copy_number(tables.bin_weight, next_bin[y], tables.tap_weight, j, itemsize)
            next_bin[y] += 1
    return count


cdef inline void transpose_box(
        const LevelJob *job, Py_ssize_t i, int32_t *next_bin) noexcept nogil:
    cdef const Tables *tables = &job.tables
    cdef int ph = job.call.ph, pw = job.call.pw, itemsize = job.call.itemsize
    cdef const int32_t *y = tables.spans + 2 * tables.spans_of_box * i
    cdef const int32_t *window = tables.windows + 4 * i
    cdef int32_t *counts = tables.counts + 2 * i
    counts[0] = <int32_t>transpose_axis(tables, y, ph, window, itemsize, next_bin)
    counts[1] = <int32_t>transpose_axis(tables, y + 2 * ph, pw, window + 2, itemsize, next_bin)


cdef inline void transpose_some(const void *given, Py_ssize_t task, char *scratch) noexcept nogil:
    """scratch: of a worker, room for a number of each pixel of a window's longer side."""
    cdef const LevelJob *job = <const LevelJob*>given
    cdef Py_ssize_t i, first = task * BOXES_AT_ONCE
    for i in range(first, min(first + BOXES_AT_ONCE, job.tables.count)):
        transpose_box(job, i, <int32_t*>scratch)


cdef inline int transpose_tables(LevelJob *job) noexcept nogil:
    """Add the pixels that each box reads, and the bins and weights of each pixel."""
    cdef Py_ssize_t i, longest = 1
    cdef Tables *tables = &job.tables
    cdef int threads = 1
    tables.counts = <int32_t*>allocate(tables, 2 * tables.count, sizeof(int32_t))
    tables.pixels = <int32_t*>allocate(tables, tables.taps, sizeof(int32_t))
    tables.pixel_spans = <int32_t*>allocate(tables, 2 * tables.taps, sizeof(int32_t))
    tables.bin = <int32_t*>allocate(tables, tables.taps, sizeof(int32_t))
    tables.bin_weight = allocate(tables, tables.taps, job.call.itemsize)
    for i in range(0, 4 * tables.count, 2):
        longest = max(longest, tables.windows[i + 1] - tables.windows[i])
    if not all_made(tables):
        return -1
    if tables.count * tables.spans_of_box >= MIN_PARALLEL_BINS:
        threads = job.call.threads
    return run_tasks(job, (tables.count + BOXES_AT_ONCE - 1) // BOXES_AT_ONCE, threads,
                     longest * sizeof(int32_t), transpose_some, job.call.team)


# ------------------------------------------------------------------------- few taps

cdef inline int make_slots_of_taps(Tables *tables) noexcept nogil:
    """Room for slots, and no box with few taps yet."""
    cdef Py_ssize_t tap
    tables.few_pixels = <int32_t*>allocate(tables, tables.count, sizeof(int32_t))
    tables.tap_slot = <int32_t*>allocate(tables, tables.taps, sizeof(int32_t))
    tables.slot_pixel = tables.tap_pixel
    if tables.slots_of_tap == 2:
        tables.slot_pixel = <int32_t*>allocate(tables, 2 * tables.taps, sizeof(int32_t))
    if not all_made(tables):
        return -1
    memset(tables.few_pixels, 0, tables.count * sizeof(int32_t))
    for tap in range(tables.taps):
        tables.tap_slot[tap] = <int32_t>(tables.slots_of_tap * tap)
    return 0


cdef inline void set_slots_of_samples(
        Tables *tables, const int32_t *spans, int bins, Py_ssize_t extent) noexcept nogil:
    """Set the slots of one axis of a box: the pixels around each sample.

    The last pixel of the map has no neighbour and takes itself for one.
    """
    cdef Py_ssize_t tap
    for tap in range(spans[0], spans[2 * bins - 1]):
        tables.slot_pixel[2 * tap] = tables.tap_pixel[tap]
        tables.slot_pixel[2 * tap + 1] = <int32_t>min(tables.tap_pixel[tap] + 1, extent - 1)


cdef inline Py_ssize_t find_few_taps(LevelJob *job) noexcept nogil:
    """Mark boxes whose taps are in few rows and columns of their windows, and list those.

    A window of such a box has FEW_TAPS_GAIN times as many pixels as two taps a sample and axis can
    read.  Where the box decides how many samples there are, no box has few.  Other boxes do not
    matter, so a box has few in every batch or in none.
    Return how many boxes have few taps, or -1 without memory.
    """
    cdef Tables *tables = &job.tables
    cdef const int32_t *spans = tables.spans
    cdef int ph = job.call.ph, pw = job.call.pw
    cdef double ratio = job.call.rule.sampling_ratio
    cdef double area = FEW_TAPS_GAIN * 4.0 * ph * pw * ratio * ratio
    cdef Py_ssize_t i, rows, columns, found = 0
    cdef Py_ssize_t smallest_tile = slope_pixels(SLOPE_BLOCKS)      # of all passes
    for i in range(tables.count if ratio > 0 else 0):
        rows = tables.slots_of_tap * (spans[2 * ph - 1] - spans[0])
        columns = tables.slots_of_tap * (spans[2 * (ph + pw) - 1] - spans[2 * ph])
        if (window_area(tables, i) >= area and rows > 0 and columns > 0 and columns <= MAX_COLUMNS
                and <double>rows * columns <= smallest_tile):
            if tables.few_pixels == NULL and make_slots_of_taps(tables) < 0:
                return -1
            if tables.tap_kind == SAMPLES:
                set_slots_of_samples(tables, spans, ph, job.map.rows)
                set_slots_of_samples(tables, spans + 2 * ph, pw, job.map.columns)
            tables.few_pixels[i] = <int32_t>(rows * columns)
            found += 1
        spans += 2 * (ph + pw)
    return found
