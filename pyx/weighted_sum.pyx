"""Weighted sums of the pixels of a bin: the kernels of roi_align, ps_roi_align, ps_roi_pool and prroi_pool.

    out[k, c, p, q] = sum_y sum_x Wy[k, p, y] * input[image of k, channel of (c, p, q), y, x] * Wx[k, q, x]

The weights come from geometry.pyx and the tasks from schedule.pyx; this file neither knows what they mean nor which
operator calls.  A box is contracted first along y, into a *strip* [p][x][lane], then along x into *bins* [p][q][lane], or the
other way round if that is much less work (`across`); its gradients go back along x first.  Every loop over lanes is one lane vector
(simd/vector.h).

Each output bin, and each pixel of a gradient, is summed by one task in an order that only the boxes decide: the result
has the same bits for every number of threads.

Shape letters: p, q bins; y, x pixels; l lanes; k boxes; b channel blocks; z = p * PW + q.
"""
from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from roicy._kernels.geometry cimport Tables
from simd.simd cimport (FOLDED_BYTES, LANE_BYTES, Pixels, PrefetchRows, SlopeTaps, Stream, Taps, Vectors, accumulate_pixels, accumulate_row, add_product,
                        add_row_slopes, add_slopes, contract_axis, contract_bin, contract_bins, contract_prefetching, element_bytes, fold_slopes, pages_alloc,
                        pages_free, prefetch_l1, prefetch_run, prefetch_write, real, scale_vectors, stream_fence, stream_rest)
from tasks cimport BIN, BIN_STOP, BLOCK_FIRST, BLOCK_STOP, COLUMNS, EACH, FIRST, GATHERED, LEVEL, MODE, STOP, WINDOW, X0, X1, Y0, Y1
from tiles cimport (AT_ONCE, BINS_BYTES, MOST_BINS, MOST_COLUMNS, PAST_CACHE, RANGE_BYTES, SLOPE_BLOCKS, STREAM_BYTES, STRIP_BYTES, TILE_BYTES, WIDE_BYTES,
                    WIDEST_BYTES, Ahead, BinRange, Layout, Map, Reader, Strides, View, ahead_of, begin_each, bin_tile_bytes, bins_of_task, block_reader,
                    blocks_together, bounds, cell_columns, cell_rows, clear, clip, fetch_ends, fetch_pixel_ends, fetch_some, gather_bins, layout_of, map_of, map_of_task,
                    narrow, next_of_each, pack, put_pixels, read_pixels, read_runs, scatter_bins, slope_blocks_from, slope_pixels, strides_of, unpack, view,
                    way_to_write)


cdef enum:
    ACROSS_GAIN = 100          # lane vectors of a block that are read less where it pays to contract a box along x first
    SLOPE_GROUPS = 8           # of blocks, whose gradients of the boxes are computed together
    SQUARE_BINS = 32           # in a row of the parts of which gradients of the input take large outputs: their runs go down columns
    FEWEST_TOGETHER = 4        # blocks of the gradient of the input: of less, choosing a loop for each short run costs more than memory gains
    MOST_FEW = 8               # channels where lanes are bin rows: half a lane vector
    STRIPS = 3                 # of weights and of slopes by either edge, where lanes are bin rows; gradient of the boxes only
    MOST_COVER = 4             # times that boxes cover a map of which pixels are fetched ahead: most are in cache else, and fetched in vain
    WRITTEN_AHEAD = 4          # boxes, of which the lines are fetched that a task of a position-sensitive operator shares with others
    PIXELS_AT_ONCE = 6         # of an axis of a gradient of the input: between them some of what is packed later is fetched
    BINS_AHEAD = 4             # of the gradient of the output, channels last, that are fetched: the whole next box is too much for a level 2 cache


cdef struct Problem:           # the boxes of one level, most often all that there are
    Map map                    # the input or its gradient
    Strides bins               # of the output or its gradient
    int ph
    int pw
    const int32_t *order       # boxes: their rows in the output
    const int32_t *windows     # [i][4], i: place in the order
    const int32_t *spans       # [i][PH + PW][2]
    const int32_t *index
    const void *weight
    const void *slopes         # [2][entries], gradient of the boxes only
    const int32_t *counts      # this and the rest of what geometry.by_pixel makes: gradient of the input only
    const int32_t *pixels
    const int32_t *pixel_spans
    const int32_t *bins_of_pixel
    const void *bin_weight
    Py_ssize_t entries
    Py_ssize_t parts           # boxes whose gradients are kept, of all levels
    Py_ssize_t parts_before    # of the levels before
    int way                    # to write the result
    bint few                   # channels: lanes are bin rows
    bint by_bin
    bint add
    bint ahead                 # where pixels are read or summed in the map, they are fetched; not by the gradient of the boxes
    Py_ssize_t cell_pixels     # of a window that are looked at together, in any layout; gradient of the boxes only
    Py_ssize_t tiles           # scratch of a thread: so many tiles, strip and as much again, bins, and more
    Py_ssize_t strip_bytes
    Py_ssize_t bins_bytes
    Layout layout


cdef struct Scratch:
    void *tile
    void *strip
    void *bins
    void *more                 # BINS_BYTES, for what is made while the strip is still needed
    Stream run                 # what is yet to be written, from `more`


cdef Scratch scratch_at(const Problem *problem, char *memory) noexcept nogil:
    cdef Scratch scratch
    memset(&scratch.run, 0, sizeof(scratch.run))
    scratch.tile = memory
    scratch.strip = memory + problem.layout.strip
    scratch.bins = memory + problem.layout.bins
    scratch.more = memory + problem.layout.more
    return scratch


cdef struct Box:               # one box, or the part of its bins that is computed together
    const int32_t *spans_y
    const int32_t *spans_x
    int p0
    int p1
    int q0
    int q1
    Py_ssize_t y0
    Py_ssize_t y1
    Py_ssize_t x0
    Py_ssize_t x1


cdef inline Box part_of_box(const Problem *problem, Py_ssize_t i, int p0, int p1, int q0, int q1) noexcept nogil:
    cdef Box box
    box.spans_y = problem.spans + 2 * i * (problem.ph + problem.pw)
    box.spans_x = box.spans_y + 2 * problem.ph
    box.p0, box.p1, box.q0, box.q1 = p0, p1, q0, q1
    cdef const int32_t *window = problem.windows + 4 * i
    if p0 == 0 and p1 == problem.ph and q0 == 0 and q1 == problem.pw:
        box.y0, box.y1, box.x0, box.x1 = window[0], window[1], window[2], window[3]
    else:
        bounds(box.spans_y, p0, p1, problem.index, &box.y0, &box.y1)
        bounds(box.spans_x, q0, q1, problem.index, &box.x0, &box.x1)
    return box


cdef inline bint across(const Problem *problem, const Box *box) noexcept nogil:
    """Whether a box, or part of it, is better contracted along x first, as boxes are that are wider than they are high.

    It decides in which order sums are taken, and so depends on nothing but boxes and numbers of bins and channels.
    """
    cdef Py_ssize_t rows = box.y1 - box.y0, columns = box.x1 - box.x0
    # the entries of the bins of an axis follow each other
    cdef Py_ssize_t taps_y = box.spans_y[2 * box.p1 - 1] - box.spans_y[2 * box.p0], taps_x = box.spans_x[2 * box.q1 - 1] - box.spans_x[2 * box.q0]
    if problem.few or problem.by_bin or rows > STRIP_BYTES // LANE_BYTES or columns > MOST_COLUMNS or rows * columns > TILE_BYTES // LANE_BYTES:
        return False      # such windows may be looked at in cells
    return rows * taps_x + (box.q1 - box.q0) * taps_y + ACROSS_GAIN < columns * taps_y + (box.p1 - box.p0) * taps_x


cdef inline Taps taps_of(const int32_t *spans, const int32_t *pixel, const void *weight) noexcept nogil:
    cdef Taps taps
    taps.spans, taps.pixel, taps.weight = spans, pixel, weight
    return taps


cdef inline Vectors vectors_at(const void *start, Py_ssize_t step, Py_ssize_t stride, Py_ssize_t count) noexcept nogil:
    cdef Vectors vectors
    vectors.start, vectors.step, vectors.stride, vectors.count = start, step, stride, count
    return vectors


# The forward pass.  contract_bins (simd/contract.inc.h) contracts either axis.

cdef void contract_whole(
        const real *pixels, Py_ssize_t first_stride, Py_ssize_t second_stride, const int32_t *first, int first_bins, Py_ssize_t first_step,
        const int32_t *second, int second_bins, Py_ssize_t second_step, Py_ssize_t low, Py_ssize_t count, const int32_t *index, const real *weight,
        real *strip, real *bins, Stream *run) noexcept nogil:
    """bins = what all pixels of a box contribute, along one axis first and then along the second.

    pixels: the first of the window along the second axis, 0 along the first; first, second: the spans of the bins, whose results lie
    `step` apart; low, count: pixels of the window along the second axis.
    """
    cdef int L = LANE_BYTES // sizeof(real), rows
    cdef Vectors window = vectors_at(pixels, second_stride, first_stride, count)
    cdef Vectors strips = vectors_at(strip - low * L, count * L, L, 0)
    cdef Taps first_taps = taps_of(first, index, weight), second_taps = taps_of(second, index, weight)
    # as many bins at once as leave the strip in cache
    cdef int most = <int>max(STRIP_BYTES // (count * LANE_BYTES), 1)
    while first_bins > 0:
        rows = min(most, first_bins)
        strips.count = rows
        contract_bins(strip, count * L, L, &window, rows, &first_taps, run)
        contract_bins(bins, second_step, first_step, &strips, second_bins, &second_taps, run)
        first_taps.spans += 2 * rows
        bins += rows * first_step
        first_bins -= rows


cdef inline void contract_box(
        const Problem *problem, const real *pixels, View strides, const Box *box, real *strip, real *bins, Stream *run) noexcept nogil:
    """bins = what all pixels of a box contribute; pixels points at the first of its window."""
    cdef int L = LANE_BYTES // sizeof(real), ps = box.p1 - box.p0, qs = box.q1 - box.q0
    cdef const int32_t *spans_y = box.spans_y + 2 * box.p0
    cdef const int32_t *spans_x = box.spans_x + 2 * box.q0
    cdef const real *weight = <const real*>problem.weight
    if across(problem, box):
        contract_whole(pixels - box.x0 * strides.x, strides.x, strides.y, spans_x, qs, L, spans_y, ps, qs * L, box.y0, box.y1 - box.y0, problem.index, weight,
                       strip, bins, run)
    else:
        contract_whole(pixels - box.y0 * strides.y, strides.y, strides.x, spans_y, ps, qs * L, spans_x, qs, L, box.x0, box.x1 - box.x0, problem.index, weight,
                       strip, bins, run)


cdef void contract_cell(
        const real *pixels, View strides, Py_ssize_t y0, Py_ssize_t y1, Py_ssize_t x0, Py_ssize_t x1, const Box *box,
        const int32_t *index, const real *weight, real *strip, real *bins, bint add) noexcept nogil:
    """bins (+)= what the pixels of [y0, y1) x [x0, x1) contribute; pixels points at (y0, x0)."""
    cdef int L = LANE_BYTES // sizeof(real)
    cdef Py_ssize_t columns = x1 - x0, first = 0, stop = 0
    cdef int p, q, i, rows, qs = box.q1 - box.q0
    cdef int most = <int>max(STRIP_BYTES // (columns * LANE_BYTES), 1)
    cdef int32_t[2] span
    cdef Taps taps = taps_of(span, index, weight)
    cdef Vectors window = vectors_at(pixels - y0 * strides.y, strides.x, strides.y, columns)
    cdef Vectors strips = vectors_at(strip - x0 * L, columns * L, L, 0)
    p = box.p0
    while p < box.p1:
        rows = min(most, box.p1 - p)
        for i in range(rows):
            clip(box.spans_y + 2 * (p + i), index, y0, y1, &first, &stop)
            span[0], span[1] = <int32_t>first, <int32_t>stop
            contract_axis(strip + i * columns * L, L, &window, &taps, False)
        strips.count = rows
        for q in range(box.q0, box.q1):
            clip(box.spans_x + 2 * q, index, x0, x1, &first, &stop)
            span[0], span[1] = <int32_t>first, <int32_t>stop
            contract_axis(bins + ((p - box.p0) * qs + q - box.q0) * L, qs * L, &strips, &taps, add)
        p += most


cdef void sum_part(const Problem *problem, Reader *reader, const Box *box, Scratch *scratch, real *bins) noexcept nogil:
    """Some bins of one box, one channel block."""
    cdef Py_ssize_t y, x, y1, x1
    cdef View strides
    cdef const real *pixels
    cdef bint add = False
    cdef Py_ssize_t columns = cell_columns(box.x1 - box.x0)
    cdef Py_ssize_t rows = cell_rows(reader, box.y1 - box.y0, columns)
    if box.y0 >= box.y1 or box.x0 >= box.x1:
        memset(bins, 0, (box.p1 - box.p0) * (box.q1 - box.q0) * LANE_BYTES)
        return
    if rows == box.y1 - box.y0 and columns == box.x1 - box.x0:
        pixels = view(reader, <real*>scratch.tile, box.y0, box.y1, box.x0, box.x1, &strides)
        contract_box(problem, pixels, strides, box, <real*>scratch.strip, bins, &scratch.run)
        return
    y = box.y0
    while y < box.y1:
        y1 = min(y + rows, box.y1)
        x = box.x0
        while x < box.x1:
            x1 = min(x + columns, box.x1)
            pixels = view(reader, <real*>scratch.tile, y, y1, x, x1, &strides)
            contract_cell(pixels, strides, y, y1, x, x1, box, problem.index, <const real*>problem.weight, <real*>scratch.strip, bins, add)
            add = True
            x += columns
        y += rows


cdef inline real *run_buffer(const Problem *problem, Scratch *scratch, real *_) noexcept nogil:
    """Where a block of bins is transposed to: the strip, which is done with and still in cache, unless the next box is computed before all is written."""
    return <real*>(scratch.more if problem.way == PAST_CACHE else scratch.strip)


cdef void forward_part(
        const Problem *problem, Reader *reader, real *out, const Box *box,
        Scratch *scratch) noexcept nogil:
    """The same, written to the output."""
    sum_part(problem, reader, box, scratch, <real*>scratch.bins)
    unpack(<const real*>scratch.bins, box.p1 - box.p0, box.q1 - box.q0, out + box.p0 * problem.bins.y + box.q0 * problem.bins.x, problem.bins,
           reader.lanes, run_buffer(problem, scratch, out), problem.way, &scratch.run)


cdef inline void sum_bin(const Problem *problem, Reader *reader, Py_ssize_t i, int p, int q, Scratch *scratch, real *bin) noexcept nogil:
    """A single bin, as sum_part does; nearly all are so small that they need none of its loops."""
    cdef const int32_t *spans = problem.spans + 2 * i * (problem.ph + problem.pw)
    cdef Py_ssize_t y = spans[2 * p], y_stop = spans[2 * p + 1], x = spans[2 * (problem.ph + q)], x_stop = spans[2 * (problem.ph + q) + 1]
    cdef const int32_t *index = problem.index
    cdef const real *pixels
    cdef Py_ssize_t y0, y1, x0, columns
    cdef Taps taps_y = taps_of(spans + 2 * p, index, problem.weight), taps_x = taps_of(spans + 2 * (problem.ph + q), index, problem.weight)
    cdef View strides
    cdef Box box
    if y == y_stop or x == x_stop:
        memset(bin, 0, LANE_BYTES)
        return
    y0, y1, x0, columns = index[y], index[y_stop - 1] + 1, index[x], index[x_stop - 1] + 1 - index[x]
    if columns > cell_columns(columns) or y1 - y0 > cell_rows(reader, y1 - y0, columns):
        box = part_of_box(problem, i, p, p + 1, q, q + 1)
        sum_part(problem, reader, &box, scratch, bin)
        return
    pixels = view(reader, <real*>scratch.tile, y0, y1, x0, x0 + columns, &strides)
    contract_bin(bin, <real*>scratch.strip, pixels - y0 * strides.y, strides.y, strides.x, columns, &taps_y, &taps_x)


cdef void forward_bins(const Problem *problem, real *out, const int64_t *task, Scratch *scratch) noexcept nogil:
    """Some bins of a position-sensitive operator, one channel block.

    Each reads channels of its own, so they are computed bin by bin.  In the output bins lie together, and the same channel of
    all boxes far apart, so they are written box by box.
    """
    cdef int64_t[COLUMNS] one
    cdef int L = LANE_BYTES // sizeof(real), p, q, count = <int>(task[BIN_STOP] - task[BIN]), run, runs
    cdef Py_ssize_t i, first, step
    cdef int64_t z
    cdef Reader reader
    cdef char *tile = <char*>scratch.tile
    cdef real *bins = <real*>scratch.bins
    cdef real *to
    memcpy(one, task, sizeof(one))
    if task[MODE] == GATHERED:
        gather_bins(&problem.map, task, <real*>tile)
    for z in range(task[BIN], task[BIN_STOP]):
        one[BIN], one[BIN_STOP] = z, z + 1
        reader = block_reader(&problem.map, one, task[BLOCK_FIRST], <real*>NULL)
        scratch.tile = tile + (z - task[BIN]) * bin_tile_bytes(task)
        p, q = <int>(z // problem.pw), <int>(z % problem.pw)
        for i in range(task[FIRST], task[STOP]):
            sum_bin(problem, &reader, i, p, q, scratch, bins + ((i - task[FIRST]) * count + z - task[BIN]) * L)
    # of bins that lie together one run for each channel, else one for each bin
    p, q = <int>(task[BIN] // problem.pw), <int>(task[BIN] % problem.pw)
    out += task[BLOCK_FIRST] * L * problem.bins.channel
    first = p * problem.bins.y + q * problem.bins.x
    runs, step = count, problem.bins.x
    if step == 1:
        runs, step = reader.lanes, problem.bins.channel
    for i in range(task[FIRST], task[STOP]):
        if i + WRITTEN_AHEAD < task[STOP]:
            to = out + problem.order[i + WRITTEN_AHEAD] * problem.bins.image + first
            for run in range(runs):
                prefetch_write(to + run * step)
        to = out + problem.order[i] * problem.bins.image
        z = task[BIN]
        while z < task[BIN_STOP]:      # as many at once as lie a step apart
            p, q = <int>(z // problem.pw), <int>(z % problem.pw)
            run = <int>(task[BIN_STOP] - z)
            if problem.bins.y != problem.pw * problem.bins.x:
                run = min(run, problem.pw - q)
            unpack(bins, 1, run, to + p * problem.bins.y + q * problem.bins.x, problem.bins, reader.lanes, <real*>NULL, AT_ONCE, &scratch.run)
            bins += run * L
            z += run


cdef void unpack_together(const Problem *problem, real *out, const Box *box, Py_ssize_t blocks, Scratch *scratch) noexcept nogil:
    """Write the bins [b][p][q][lane] of as many channel blocks."""
    cdef int L = LANE_BYTES // sizeof(real), ps = box.p1 - box.p0, qs = box.q1 - box.q0
    cdef Py_ssize_t b
    out += box.p0 * problem.bins.y + box.q0 * problem.bins.x
    for b in range(blocks):
        unpack(<real*>scratch.bins + b * ps * qs * L, ps, qs, out + b * L * problem.bins.channel, problem.bins, L, run_buffer(problem, scratch, out),
               problem.way, &scratch.run)


cdef inline bint beyond_cache(const Problem *problem, real *_) noexcept nogil:
    """Whether the pixels of an image are too many to be found in cache again."""
    return <double>problem.map.rows * problem.map.columns * problem.map.channels * sizeof(real) > STREAM_BYTES


cdef bint worth_fetching(const Problem *problem, Py_ssize_t boxes, Py_ssize_t images, real *_) noexcept nogil:
    """Whether pixels are fetched ahead: of maps that are not in cache, unless boxes read them from there most times."""
    cdef double pixels = 0
    cdef const int32_t *window
    cdef Py_ssize_t i
    if not beyond_cache(problem, _):
        return False
    for i in range(boxes):
        window = problem.windows + 4 * i
        pixels += <double>(window[1] - window[0]) * (window[3] - window[2])
    return pixels < <double>MOST_COVER * problem.map.rows * problem.map.columns * images


cdef inline void entries_after(const int32_t *span, Py_ssize_t bins, const int32_t *index, Py_ssize_t *first, Py_ssize_t *stop) noexcept nogil:
    """The entries of the next bin past the pixels of this one, the first of as many that are left; or likewise of pixels, if their bins ascend."""
    first[0] = stop[0] = 0
    if bins > 1:
        first[0], stop[0] = span[2], span[3]
        while span[0] < span[1] and first[0] < stop[0] and index[first[0]] <= index[span[1] - 1]:
            first[0] += 1


cdef void forward_together(
        const Problem *problem, const real *plane, Strides strides, real *out, const Box *box, Py_ssize_t blocks, bint ahead,
        Scratch *scratch) noexcept nogil:
    """Some bins of one box and as many channel blocks, whose lanes lie together: nothing is transposed; plane: pixel (0, 0).

    ahead: the rows that only the next bins read are fetched meanwhile.
    """
    cdef int L = LANE_BYTES // sizeof(real), p, qs = box.q1 - box.q0
    cdef Py_ssize_t width = blocks * L, columns = box.x1 - box.x0, x, first = 0, stop = 0
    cdef Taps taps_y = taps_of(NULL, problem.index, problem.weight), taps_x = taps_of(box.spans_x + 2 * box.q0, problem.index, problem.weight)
    cdef Vectors window, strips
    cdef real *strip = <real*>scratch.strip
    cdef real *bins = <real*>scratch.bins
    cdef bint through = problem.bins.channel == 1
    cdef Py_ssize_t step = L if through else (box.p1 - box.p0) * qs * L     # between the blocks of a bin
    cdef Py_ssize_t bin_step = width if through else L
    cdef real *row = out + box.p0 * problem.bins.y + box.q0 * problem.bins.x
    plane += box.x0 * strides.x
    window = vectors_at(plane, L, strides.y, columns * blocks if strides.x == width else blocks)
    strips = vectors_at(strip - box.x0 * width, L, width, blocks)
    for p in range(box.p0, box.p1):
        taps_y.spans = box.spans_y + 2 * p
        if through:
            fetch_pixel_ends(row, qs, width, problem.bins.x, problem.way)
        if ahead:
            entries_after(taps_y.spans, box.p1 - p, problem.index, &first, &stop)
        if strides.x != width:
            for x in range(columns):
                window.start = plane + x * strides.x
                contract_bins(strip + x * width, 0, L, &window, 1, &taps_y, &scratch.run)
        elif first < stop:
            contract_prefetching(strip, &window, &taps_y, plane, first, stop)
        else:
            contract_bins(strip, 0, L, &window, 1, &taps_y, &scratch.run)
        contract_bins(bins, bin_step, step, &strips, qs, &taps_x, &scratch.run)
        if through:
            put_pixels(bins, qs, width, row, problem.bins.x, problem.way)
            row += problem.bins.y
        else:
            bins += qs * L
    if not through:
        unpack_together(problem, out, box, blocks, scratch)


cdef void forward_across(
        const Problem *problem, const real *plane, Strides strides, real *out, const Box *box, Py_ssize_t blocks, bint ahead,
        Scratch *scratch) noexcept nogil:
    """The same of a box that is contracted along x first: a strip [y][q][lane], so that some bins of a row, as many as it has room for, are one run.

    ahead: the next row is fetched.
    """
    cdef int L = LANE_BYTES // sizeof(real), p, i, count, qs = box.q1 - box.q0, q = box.q0
    cdef Py_ssize_t width = blocks * L, step = (box.p1 - box.p0) * qs * L, y, first, stop
    cdef Py_ssize_t most = max(WIDE_BYTES // ((box.y1 - box.y0) * blocks * LANE_BYTES), 1)
    cdef const int32_t *span
    cdef Taps taps = taps_of(NULL, problem.index, problem.weight)
    cdef Vectors window = vectors_at(NULL, L, strides.x, blocks), strips
    cdef real *strip = <real*>scratch.strip
    cdef real *bins = <real*>scratch.bins
    cdef real *row
    cdef bint through = problem.bins.channel == 1
    while q < box.q1:
        count = <int>min(most, box.q1 - q)
        span = box.spans_x + 2 * q
        for y in range(box.y0, box.y1):
            window.start = plane + y * strides.y
            taps.spans = span
            row = strip + (y - box.y0) * count * width
            if ahead and y + 1 < box.y1:
                first, stop = span[0], span[1]
                for i in range(count):
                    taps.spans = span + 2 * i
                    contract_prefetching(row + i * width, &window, &taps, plane + (y + 1) * strides.y, first, stop)
                    entries_after(span + 2 * i, count - i, problem.index, &first, &stop)
            else:
                contract_bins(row, width, L, &window, count, &taps, &scratch.run)
        strips = vectors_at(strip - box.y0 * count * width, L, count * width, count * blocks if through else blocks)
        for p in range(box.p0, box.p1):
            taps.spans = box.spans_y + 2 * p
            if through:
                fetch_pixel_ends(out + p * problem.bins.y + q * problem.bins.x, count, width, problem.bins.x, problem.way)
                contract_bins(bins, 0, L, &strips, 1, &taps, &scratch.run)
                put_pixels(bins, count, width, out + p * problem.bins.y + q * problem.bins.x, problem.bins.x, problem.way)
            else:
                for i in range(count):
                    strips.start = strip + (i - box.y0 * count) * width
                    contract_bins(bins + ((p - box.p0) * qs + q - box.q0 + i) * L, 0, step, &strips, 1, &taps, &scratch.run)
        q += count
    if not through:
        unpack_together(problem, out, box, blocks, scratch)


# Where channels are few, lanes are the bin rows of a channel instead: the strip is made along x, row by row, and turned.

cdef inline bint channels_are_few(const Problem *problem, real *_) noexcept nogil:
    """Whether lanes of bin rows are filled at least twice as well as lanes of channels, of which there is then one block."""
    cdef Py_ssize_t L = LANE_BYTES // sizeof(real)
    return 2 * problem.map.channels * ((problem.ph + L - 1) // L) <= problem.ph


cdef void contract_run(real *to, const real *source, Py_ssize_t count, const Taps *taps, Py_ssize_t stride) noexcept nogil:
    """to[i] = sum over the taps of one bin of weight * source[i + pixel * stride], each with the bits that contract_axis gives it."""
    cdef int L = LANE_BYTES // sizeof(real), l
    cdef Py_ssize_t j
    cdef Vectors vectors
    cdef const real *weight = <const real*>taps.weight
    cdef real[16] sums, values
    if count >= L:
        vectors = vectors_at(source, L, stride, count // L)
        contract_axis(to, L, &vectors, taps, False)
        if count % L > 0:        # the last vector overlaps the one before
            vectors = vectors_at(source + count - L, L, stride, 1)
            contract_axis(to + count - L, L, &vectors, taps, False)
        return
    memset(sums, 0, LANE_BYTES)
    memset(values, 0, LANE_BYTES)
    for j in range(taps.spans[0], taps.spans[1]):
        memcpy(values, source + taps.pixel[j] * stride, count * sizeof(real))
        if j > taps.spans[0]:
            add_product(sums, weight[j], values)
        else:
            for l in range(L):
                sums[l] = weight[j] * values[l]
    memcpy(to, sums, count * sizeof(real))


cdef inline void mix(const real *planes, Py_ssize_t count, Py_ssize_t channels, real *to, Py_ssize_t step) noexcept nogil:
    """Channels, each of count pixels and end to end, to pixels that lie `step` apart."""
    cdef Py_ssize_t x, c
    if channels == 3 and step == 3:      # for this one compilers have shuffles: an eighth of `align_camera`
        for x in range(count):
            to[3 * x], to[3 * x + 1], to[3 * x + 2] = planes[x], planes[count + x], planes[2 * count + x]
        return
    for x in range(count):
        for c in range(channels):
            to[x * step + c] = planes[c * count + x]


cdef struct Runs:              # of elements of a row of the map that lie together
    Py_ssize_t channels        # so many are looked at at once
    Py_ssize_t columns         # of the map, likewise
    Py_ssize_t column          # elements of a strip from a pixel to the next
    bint mixed                 # they are of all channels, and not of one
    bint in_place              # they are read in the map, and not from the tile
    bint far                   # likewise, and it is not in cache


cdef bint runs_of(const Problem *problem, const Box *box, Py_ssize_t room, bint any_layout, Runs *runs, real *_) noexcept nogil:
    """How a box is read of which lanes are bin rows; False where there is no room for a bin column. room: pixels of one channel of a strip.

    any_layout: the answer is the same in all layouts.
    """
    cdef Py_ssize_t channels = problem.map.channels, widest = box.x1 - box.x0, tallest = max(box.y1 - box.y0, 1), low = 0, high = 0
    cdef Py_ssize_t tile = problem.map.tile_bytes // <Py_ssize_t>sizeof(real)
    cdef const Strides *strides = &problem.map.strides
    cdef bint floats = element_bytes(problem.map.kind, _) == sizeof(real)
    cdef int L = LANE_BYTES // sizeof(real), i = 0
    if widest * channels > min(room, tile // tallest):      # not for all bins at once: the rows and columns of those that are
        tallest = 1
        while i < problem.ph:
            bounds(box.spans_y, i, min(i + L, problem.ph), problem.index, &low, &high)
            tallest = max(tallest, high - low)
            i += L
        widest = 0
        for i in range(problem.pw):
            bounds(box.spans_x, i, i + 1, problem.index, &low, &high)
            widest = max(widest, high - low)
    tile = min(room, tile // tallest)
    runs.mixed = strides.channel == 1 and strides.x == channels and widest * channels <= (room if floats else tile)
    runs.in_place = floats and (runs.mixed or strides.x == 1)
    runs.far = runs.in_place and beyond_cache(problem, _)
    runs.columns = room if runs.in_place else tile
    runs.channels = channels if runs.mixed else 1
    if runs.in_place and not runs.mixed:      # as many as there is room for with all columns
        runs.channels = max(min(room // max(box.x1 - box.x0, 1), channels), 1)
    runs.columns = runs.columns // runs.channels
    runs.column = (channels if runs.mixed else 1) * L
    return widest <= (tile if any_layout else runs.columns)


cdef inline int bins_of_columns(
        const Problem *problem, const Box *box, int first, int most, Py_ssize_t most_columns, Py_ssize_t *x0, Py_ssize_t *x1) noexcept nogil:
    """The bin columns first to result - 1 are those, at most so many, that read pixels of no more than so many columns x0 to x1 - 1."""
    cdef int q = first + 1, stop = min(problem.pw, first + most)
    cdef Py_ssize_t low = 0, high = 0
    if box.x1 - box.x0 <= most_columns and problem.pw <= most:
        x0[0], x1[0] = box.x0, box.x1
        return problem.pw
    bounds(box.spans_x, first, q, problem.index, x0, x1)
    while q < stop:
        bounds(box.spans_x, q, q + 1, problem.index, &low, &high)
        if low < high:
            if x0[0] < x1[0]:
                low, high = min(low, x0[0]), max(high, x1[0])
            if high - low > most_columns:
                break
            x0[0], x1[0] = low, high
        q += 1
    return q


cdef inline const real *runs_in_rows(
        const Problem *problem, const Reader *reader, const Runs *runs, Py_ssize_t channel, Py_ssize_t y0, Py_ssize_t y1, Py_ssize_t x0, Py_ssize_t x1,
        real *tile, Py_ssize_t *row_step) noexcept nogil:
    """The run of row 0 from column x0 on, of which rows y0 to y1 - 1 can be read."""
    cdef Strides strides = problem.map.strides
    cdef Py_ssize_t at = channel * strides.channel + x0 * strides.x, run = (x1 - x0) * (problem.map.channels if runs.mixed else 1)
    row_step[0] = strides.y
    if runs.in_place:
        return <const real*>reader.plane + at
    read_runs(reader, at + y0 * strides.y, y1 - y0, run, 1 if runs.mixed else strides.x, tile)
    row_step[0] = run
    return tile - y0 * run


cdef inline void strip_of_rows(
        const Problem *problem, const Runs *runs, const real *source, Py_ssize_t row_step, Py_ssize_t columns, Py_ssize_t channels, const int32_t *spans,
        int rows, const real *weight, real *lines, real *strip) noexcept nogil:
    """strip[channel][x][lane], of mixed runs [x][channel][lane] = up to a lane vector of bin rows; lines: room for as much."""
    cdef int L = LANE_BYTES // sizeof(real), row
    cdef Py_ssize_t width = columns * channels, run = width if runs.mixed else columns, j, first, stop, entry
    cdef Strides turned
    cdef Taps taps = taps_of(spans, problem.index, weight)
    for row in range(rows):
        first, stop = spans[2 * row], spans[2 * row + 1]
        if runs.far and row + 1 < rows and stop > first:
            # what only the next row of bins reads is asked for, since runs are too short for hardware to foresee: 0.85 of the time of `align_camera`,
            # but of maps that stay in cache up to 1.2
            for entry in range(stop, spans[2 * row + 3]):
                if problem.index[entry] > problem.index[stop - 1]:
                    for j in range(1 if runs.mixed else channels):
                        prefetch_run(source + j * problem.map.strides.channel + problem.index[entry] * row_step, run * sizeof(real))
        for j in range(1 if runs.mixed else channels):
            contract_run(lines + row * width + j * run, source + j * problem.map.strides.channel, run, &taps, row_step)
        taps.spans += 2
    memset(lines + rows * width, 0, (L - rows) * width * sizeof(real))
    turned.image, turned.channel, turned.y, turned.x = 0, width, 0, 1
    pack(lines, turned, L, 1, width, strip)


cdef bint forward_few(
        const Problem *problem, const Reader *reader, real *out, Py_ssize_t i, Scratch *scratch) noexcept nogil:
    """One box, all channels; False where its window is too large for the scratch."""
    cdef int L = LANE_BYTES // sizeof(real), p = 0, q0, q, qs, rows, row
    cdef Box box = part_of_box(problem, i, 0, problem.ph, 0, problem.pw)
    cdef Py_ssize_t y0 = 0, y1 = 0, x0 = 0, x1 = 0, c, j, together, row_step = 0
    cdef const int32_t *index = problem.index
    cdef const real *weight = <const real*>problem.weight
    cdef Taps taps = taps_of(NULL, index, weight)
    cdef Vectors strips
    cdef Runs runs
    cdef Strides planes, to
    cdef const real *source
    cdef real *strip = <real*>scratch.strip
    cdef real *lines = strip + problem.strip_bytes // <Py_ssize_t>sizeof(real)
    cdef real *bins = <real*>scratch.bins
    cdef real *at
    if not runs_of(problem, &box, problem.strip_bytes // LANE_BYTES, False, &runs, out):
        return False
    planes.image, planes.y, planes.x = 0, 0, 1
    to.image, to.channel, to.y, to.x = 0, problem.bins.y, 0, problem.bins.x
    while p < problem.ph:
        rows = min(L, problem.ph - p)
        bounds(box.spans_y, p, p + rows, index, &y0, &y1)
        q0 = 0
        while q0 < problem.pw:
            qs = bins_of_columns(problem, &box, q0, <int>(MOST_BINS // runs.channels), runs.columns, &x0, &x1) - q0
            c = 0
            while c < problem.map.channels:
                together = min(runs.channels, problem.map.channels - c)
                source = runs_in_rows(problem, reader, &runs, c, y0, y1, x0, x1, <real*>scratch.tile, &row_step)
                strip_of_rows(problem, &runs, source, row_step, x1 - x0, together, box.spans_y + 2 * p, rows, weight, lines, strip)
                strips = vectors_at(strip - x0 * runs.column, L if runs.mixed else (x1 - x0) * L, runs.column, together)
                for q in range(qs):
                    taps.spans = box.spans_x + 2 * (q0 + q)
                    contract_axis(bins + q * L, qs * L, &strips, &taps, False)
                at = out + c * problem.bins.channel + p * problem.bins.y + q0 * problem.bins.x
                if problem.bins.channel == 1 and together > 1:
                    planes.channel = together * qs
                    for j in range(together):
                        unpack(bins + j * qs * L, 1, qs, <real*>scratch.more + j * qs, planes, L, <real*>NULL, AT_ONCE, &scratch.run)
                    for row in range(rows):
                        mix(<const real*>scratch.more + row * planes.channel, qs, together, at + row * problem.bins.y, problem.bins.x)
                else:
                    for j in range(together):
                        unpack(bins + j * qs * L, 1, qs, at + j * problem.bins.channel, to, rows, <real*>scratch.more, problem.way, &scratch.run)
                c += together
            q0 += qs
        p += rows
    return True


cdef bint forward_packed(const Problem *problem, Reader *reader, real *out, Py_ssize_t i, Scratch *scratch) noexcept nogil:
    """All bins of one box, one channel block, to the same bits as forward_part; False where it takes more than one window."""
    cdef Box box = part_of_box(problem, i, 0, problem.ph, 0, problem.pw)
    cdef Py_ssize_t columns = box.x1 - box.x0
    cdef const real *pixels
    cdef View strides
    if box.y0 >= box.y1 or columns <= 0 or columns > MOST_COLUMNS or box.y1 - box.y0 > cell_rows(reader, box.y1 - box.y0, columns):
        return False
    pixels = view(reader, <real*>scratch.tile, box.y0, box.y1, box.x0, box.x1, &strides)
    contract_box(problem, pixels, strides, &box, <real*>scratch.strip, <real*>scratch.bins, &scratch.run)
    unpack(<real*>scratch.bins, problem.ph, problem.pw, out, problem.bins, reader.lanes, run_buffer(problem, scratch, out), problem.way, &scratch.run)
    return True


cdef void forward_task(const Problem *problem, real *out, const int64_t *task, char *memory) noexcept nogil:
    cdef Py_ssize_t i, k, block, blocks
    cdef int p, q, L = LANE_BYTES // sizeof(real)
    cdef BinRange part = bins_of_task(task, problem.ph, problem.pw, MOST_BINS)
    cdef Scratch scratch = scratch_at(problem, memory)
    cdef int64_t[COLUMNS] one
    cdef Map map
    cdef Reader reader
    cdef Box box
    cdef real *to
    cdef bint few = problem.few, ahead = problem.ahead and task[MODE] != GATHERED, x_first, packed
    if task[BIN] >= 0:
        forward_bins(problem, out, task, &scratch)
        return
    if task[MODE] == EACH:
        begin_each(task, one)
        while next_of_each(task, problem.windows, 1, problem.map.tile_bytes, one):
            forward_task(problem, out, one, memory)
        return
    map = map_of_task(&problem.map, task, <real*>scratch.tile)
    # a task that keeps rows has one block, and so one reader that remembers them
    reader = block_reader(&map, task, task[BLOCK_FIRST], <real*>NULL)
    if few:      # the tile is in use for something else, and keeps no rows
        reader.mode = WINDOW
    # nearly all boxes of maps that are packed: spared the loops below, 7 % of all instructions
    packed = not few and not reader.in_place and task[BLOCK_STOP] == task[BLOCK_FIRST] + 1
    packed = packed and problem.ph <= part.p_step and problem.pw <= part.q_step
    for i in range(task[FIRST], task[STOP]):
        k = problem.order[i]
        if problem.way == PAST_CACHE and not reader.in_place and i + 1 < task[STOP]:
            fetch_ends(out + problem.order[i + 1] * problem.bins.image + task[BLOCK_FIRST] * L * problem.bins.channel,
                       reader.lanes * problem.bins.channel * sizeof(real))
        if few:
            stream_rest(&scratch.run)      # so is what it is pending from
            if forward_few(problem, &reader, out + k * problem.bins.image, i, &scratch):
                continue
        if packed and forward_packed(problem, &reader, out + k * problem.bins.image + task[BLOCK_FIRST] * L * problem.bins.channel, i, &scratch):
            continue
        p = part.p0
        while p < part.p1:
            q = part.q0
            while q < part.q1:
                box = part_of_box(problem, i, p, min(p + part.p_step, part.p1), q, min(q + part.q_step, part.q1))
                x_first = across(problem, &box)
                block = task[BLOCK_FIRST]
                while block < task[BLOCK_STOP]:
                    if task[BLOCK_STOP] > task[BLOCK_FIRST] + 1:
                        reader = block_reader(&map, task, block, <real*>NULL)
                    to = out + k * problem.bins.image + block * L * problem.bins.channel
                    blocks = 0
                    if reader.in_place and box.y0 < box.y1 and box.x0 < box.x1:
                        # a result whose channels lie apart is kept whole until it is unpacked
                        blocks = blocks_together(
                            min(task[BLOCK_STOP], problem.map.channels // L) - block, WIDE_BYTES,
                            box.y1 - box.y0 if x_first else box.x1 - box.x0,
                            (box.q1 - box.q0) * (1 if problem.bins.channel == 1 else box.p1 - box.p0))
                    if blocks > 0 and x_first:
                        forward_across(problem, <const real*>reader.plane, reader.strides, to, &box, blocks, ahead, &scratch)
                    elif blocks > 0:
                        forward_together(problem, <const real*>reader.plane, reader.strides, to, &box, blocks, ahead, &scratch)
                    else:
                        forward_part(problem, &reader, to, &box, &scratch)
                    block += max(blocks, 1)
                q += part.q_step
            p += part.p_step
    stream_rest(&scratch.run)
    stream_fence()


# The gradient of the boxes.  With S[p, q, y, x] = sum over channels of grad_output[p, q] * pixel[y, x], of the few pixels that a bin reads, it is
# a sum of S times a weight along one axis and a slope along the other: all that costs an operation a channel is S.  Which channels are summed
# first must not depend on layouts and threads: blocks are taken in groups (slope_blocks_from), each with sums of its own.

cdef Py_ssize_t open_readers(
        const Problem *problem, const Map *map, const int64_t *task, Py_ssize_t block, Reader *readers, real *_) noexcept nogil:
    """Readers of a group of blocks; or the first of several groups, where neither map nor gradient is packed.  How many blocks."""
    cdef Py_ssize_t whole = problem.map.channels // (LANE_BYTES // <Py_ssize_t>sizeof(real)), count, b
    readers[0] = block_reader(map, task, block, _)
    if problem.by_bin:
        return 1
    if readers[0].in_place and problem.bins.channel == 1:
        return min(min(task[BLOCK_STOP], whole) - block, <Py_ssize_t>SLOPE_GROUPS * SLOPE_BLOCKS)
    count = slope_blocks_from(block, whole)
    for b in range(1, count):
        readers[b] = block_reader(map, task, block + b, _)
    return count


cdef inline SlopeTaps slope_taps_of(
        const int32_t *index, const real *weight, const real *slopes, Py_ssize_t entries, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    cdef SlopeTaps taps
    taps.count, taps.pixel, taps.weight, taps.low, taps.high = stop - first, index + first, weight + first, slopes + first, slopes + entries + first
    return taps


cdef void slopes_part(
        const Problem *problem, Reader *readers, Py_ssize_t blocks, const real *grad_output, const Box *box, Scratch *scratch, real *sums,
        Ahead *ahead) noexcept nogil:
    """sums [group][y1, y2, x1, x2][folded lanes] += the gradients by the edges of one box, of some bins and as many channel blocks."""
    cdef int L = LANE_BYTES // sizeof(real), p, q, qs = box.q1 - box.q0
    cdef Py_ssize_t y, x, y1, x1, b, first_y = 0, stop_y = 0, first_x = 0, stop_x = 0, pixel_step = L, grad_step = L
    cdef Py_ssize_t tile = problem.map.tile_bytes // <Py_ssize_t>sizeof(real)
    cdef Py_ssize_t cell_width = cell_columns(box.x1 - box.x0), cell_height = max(min(box.y1 - box.y0, problem.cell_pixels // cell_width), 1)
    cdef const int32_t *index = problem.index
    cdef const real *pixels
    cdef const real *grad = grad_output + box.p0 * problem.bins.y + box.q0 * problem.bins.x
    cdef const real *bin
    cdef const real *slopes = <const real*>problem.slopes
    cdef Pixels window
    cdef SlopeTaps taps_y, taps_x
    cdef View strides, steps
    if box.y0 >= box.y1 or box.x0 >= box.x1:
        return
    if problem.bins.channel == 1 and readers[0].lanes == L:
        steps.y, steps.x = problem.bins.y, problem.bins.x
    else:
        steps.y, steps.x = qs * L, L
        grad_step = (box.p1 - box.p0) * steps.y
        for b in range(blocks):
            pack(grad + b * L * problem.bins.channel, problem.bins, readers[0].lanes, box.p1 - box.p0, qs, <real*>scratch.bins + b * grad_step)
        grad = <real*>scratch.bins
    y = box.y0
    while y < box.y1:
        y1 = min(y + cell_height, box.y1)
        x = box.x0
        while x < box.x1:
            x1 = min(x + cell_width, box.x1)
            pixels = view(&readers[0], <real*>scratch.tile, y, y1, x, x1, &strides)
            if not readers[0].in_place:
                pixel_step = tile
                for b in range(1, blocks):
                    view(&readers[b], <real*>scratch.tile + b * tile, y, y1, x, x1, &strides)
            pixels -= y * strides.y + x * strides.x
            window.step, window.stride_y, window.stride_x = pixel_step, strides.y, strides.x
            for p in range(box.p0, box.p1):
                clip(box.spans_y + 2 * p, index, y, y1, &first_y, &stop_y)
                if first_y == stop_y:
                    continue
                taps_y = slope_taps_of(index, <const real*>problem.weight, slopes, problem.entries, first_y, stop_y)
                for q in range(box.q0, box.q1):
                    bin = grad + (p - box.p0) * steps.y + (q - box.q0) * steps.x
                    fetch_some(ahead)
                    if grad_step == L:
                        for b in range(blocks):
                            prefetch_l1(bin + BINS_AHEAD * steps.x + b * L)
                    clip(box.spans_x + 2 * q, index, x, x1, &first_x, &stop_x)
                    if first_x == stop_x:
                        continue
                    taps_x = slope_taps_of(index, <const real*>problem.weight, slopes, problem.entries, first_x, stop_x)
                    b = 0
                    while b < blocks:
                        window.start, window.count = pixels + b * pixel_step, min(blocks - b, <Py_ssize_t>SLOPE_BLOCKS)
                        add_slopes(sums + b // SLOPE_BLOCKS * (4 * FOLDED_BYTES // <int>sizeof(real)), bin + b * grad_step, grad_step, &window,
                                   &taps_y, &taps_x)
                        b += SLOPE_BLOCKS
            x += cell_width
        y += cell_height


cdef bint slopes_few(
        const Problem *problem, const Reader *reader, const real *grad_output, Py_ssize_t i, Scratch *scratch, real *sums) noexcept nogil:
    """The same of one box, all bins and channels, where lanes are bin rows; False where its window is too large for the scratch."""
    cdef int L = LANE_BYTES // sizeof(real), p = 0, q0, q, qs, rows, row
    cdef Box box = part_of_box(problem, i, 0, problem.ph, 0, problem.pw)
    cdef Py_ssize_t y0 = 0, y1 = 0, x0 = 0, x1 = 0, c, j, together, row_step = 0
    cdef Py_ssize_t strip_bytes = problem.strip_bytes // STRIPS // LANE_BYTES * LANE_BYTES, step = strip_bytes // <Py_ssize_t>sizeof(real)
    cdef const real *weight = <const real*>problem.weight
    cdef const real *slopes = <const real*>problem.slopes
    cdef const int32_t *spans_y
    cdef Runs runs
    cdef Strides turned
    cdef const real *source
    cdef const real *at
    cdef real *strip = <real*>scratch.strip
    cdef real *lines = strip + problem.strip_bytes // <Py_ssize_t>sizeof(real)
    cdef real *bins = <real*>scratch.bins
    cdef real[MOST_FEW * 4 * 16] of_channels      # [channel][y1, y2, x1, x2][lane]
    # the other way adds in another order
    if not runs_of(problem, &box, strip_bytes // LANE_BYTES, True, &runs, sums):
        return False
    memset(of_channels, 0, problem.map.channels * 4 * LANE_BYTES)
    turned.image, turned.channel, turned.y, turned.x = 0, problem.bins.y, 0, problem.bins.x
    while p < problem.ph:
        rows = min(L, problem.ph - p)
        spans_y = box.spans_y + 2 * p
        bounds(spans_y, 0, rows, problem.index, &y0, &y1)
        q0 = 0
        while q0 < problem.pw:
            qs = bins_of_columns(problem, &box, q0, MOST_BINS, runs.columns, &x0, &x1) - q0
            c = 0
            while c < problem.map.channels:
                together = min(runs.channels, problem.map.channels - c)
                source = runs_in_rows(problem, reader, &runs, c, y0, y1, x0, x1, <real*>scratch.tile, &row_step)
                strip_of_rows(problem, &runs, source, row_step, x1 - x0, together, spans_y, rows, weight, lines, strip)
                strip_of_rows(problem, &runs, source, row_step, x1 - x0, together, spans_y, rows, slopes, lines, strip + step)
                strip_of_rows(problem, &runs, source, row_step, x1 - x0, together, spans_y, rows, slopes + problem.entries, lines, strip + 2 * step)
                for j in range(together):
                    pack(grad_output + (c + j) * problem.bins.channel + p * problem.bins.y + q0 * problem.bins.x, turned, rows, 1, qs, bins)
                    for row in range(rows):
                        if spans_y[2 * row] == spans_y[2 * row + 1]:      # bins that read nothing, whatever their gradients are
                            for q in range(qs):
                                bins[q * L + row] = 0
                    at = strip + j * (L if runs.mixed else (x1 - x0) * L) - x0 * runs.column
                    add_row_slopes(of_channels + (c + j) * 4 * L, bins, at, at + step, at + 2 * step, runs.column, qs, box.spans_x + 2 * q0, problem.index,
                                   weight, slopes, problem.entries)
                c += together
            q0 += qs
        p += rows
    for c in range(problem.map.channels):
        fold_slopes(sums, of_channels + c * 4 * L)
    return True


cdef void slopes_of_bins(
        const Problem *problem, const Map *map, const real *grad_output, double *parts, const int64_t *task, Scratch *scratch) noexcept nogil:
    """parts[block * group + bin][place in the order] = gradients by x1, y1, x2, y2, of the task's boxes; of one bin or all.

    block: the first of those that are summed together.
    """
    cdef int L = LANE_BYTES // sizeof(real), lanes = FOLDED_BYTES // sizeof(real), p, q, l, edge
    cdef Py_ssize_t i, k, later, b, block, count = 0
    cdef BinRange part = bins_of_task(task, problem.ph, problem.pw, MOST_BINS)
    cdef bint through = problem.bins.channel == 1      # each bin of the gradient is fetched before its turn, the first ones with the box before
    cdef Reader[SLOPE_BLOCKS] readers
    cdef Ahead ahead
    cdef Box box
    cdef real[SLOPE_GROUPS * FOLDED_BYTES] sums
    cdef double total
    cdef int[4] corner
    corner[0], corner[1], corner[2], corner[3] = 1, 3, 0, 2
    ahead.runs = 0
    for i in range(task[FIRST], task[STOP]):
        k = problem.order[i]
        block = task[BLOCK_FIRST]
        while block < task[BLOCK_STOP]:
            if i == task[FIRST] or count < task[BLOCK_STOP] - task[BLOCK_FIRST]:
                count = open_readers(problem, map, task, block, readers, <real*>NULL)
            memset(sums, 0, (count + SLOPE_BLOCKS - 1) // SLOPE_BLOCKS * 4 * FOLDED_BYTES)
            if task[BIN] < 0 and i + 1 < task[STOP]:
                later = problem.order[i + 1]
                ahead = ahead_of(grad_output + later * problem.bins.image + block * L * problem.bins.channel, problem.bins, <int>count * readers[0].lanes,
                                 1 if through else problem.ph, min(<int>BINS_AHEAD, problem.pw) if through else problem.pw, problem.ph * problem.pw)
            p = part.p0
            if problem.few:
                readers[0].mode = WINDOW      # the tile is in use for something else, and keeps no rows
                if slopes_few(problem, &readers[0], grad_output + k * problem.bins.image, i, scratch, sums):
                    p = part.p1
            while p < part.p1:
                q = part.q0
                while q < part.q1:
                    box = part_of_box(problem, i, p, min(p + part.p_step, part.p1), q, min(q + part.q_step, part.q1))
                    slopes_part(problem, readers, count, grad_output + k * problem.bins.image + block * L * problem.bins.channel, &box, scratch, sums, &ahead)
                    q += part.q_step
                p += part.p_step
            b = 0
            while b < count:
                for edge in range(4):
                    total = 0
                    for l in range(lanes):
                        total += sums[(b // SLOPE_BLOCKS * 4 + edge) * lanes + l]
                    parts[(((block + b) * problem.map.group + max(task[BIN], 0)) * problem.parts + problem.parts_before + i) * 4 + corner[edge]] = total
                b += SLOPE_BLOCKS
            block += count


cdef void slopes_task(const Problem *problem, const real *grad_output, double *parts, const int64_t *task, char *memory) noexcept nogil:
    """The same, bin by bin where each reads channels of its own."""
    cdef int64_t[COLUMNS] one
    cdef int64_t z
    cdef Scratch scratch = scratch_at(problem, memory)
    cdef char *tile = <char*>scratch.tile
    cdef Map map
    if task[MODE] == EACH:
        begin_each(task, one)
        while next_of_each(task, problem.windows, SLOPE_BLOCKS, problem.tiles * problem.map.tile_bytes, one):
            slopes_task(problem, grad_output, parts, one, memory)
        return
    if task[BIN] < 0:
        map = map_of_task(&problem.map, task, <real*>tile)
        slopes_of_bins(problem, &map, grad_output, parts, task, &scratch)
        return
    memcpy(one, task, sizeof(one))
    if task[MODE] == GATHERED:
        gather_bins(&problem.map, task, <real*>tile)
    for z in range(task[BIN], task[BIN_STOP]):
        one[BIN], one[BIN_STOP] = z, z + 1
        scratch.tile = tile + (z - task[BIN]) * bin_tile_bytes(task)
        slopes_of_bins(problem, &problem.map, grad_output, parts, one, &scratch)


# Writing: the gradient of the input, which sums over the bins that read a pixel as the forward pass does over its pixels.

cdef struct Turned:            # one axis of a box, from geometry.by_pixel
    const int32_t *pixels
    const int32_t *spans
    Py_ssize_t first           # the pixels of the task's rectangle and of the bins that are looked at: pixels[first:stop]
    Py_ssize_t stop


cdef inline Turned turned(const Problem *problem, const int32_t *bins, Py_ssize_t count, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    cdef Turned axis
    axis.pixels = problem.pixels + bins[0]
    axis.spans = problem.pixel_spans + 2 * <Py_ssize_t>bins[0]
    axis.first, axis.stop = 0, count
    while axis.first < axis.stop and axis.pixels[axis.first] < low:
        axis.first += 1
    while axis.first < axis.stop and axis.pixels[axis.stop - 1] >= high:
        axis.stop -= 1
    return axis


cdef inline const int32_t *spans_between(
        const int32_t *spans, const int32_t *bins, int low, int high, bint whole, int32_t *narrowed) noexcept nogil:
    """The spans of pixels as they are, if all bins are looked at, else the first one with those of [low, high), in ascending or descending order."""
    cdef int32_t first = spans[0], stop = spans[1]
    if whole:
        return spans
    while first < stop and not low <= bins[first] < high:
        first += 1
    while first < stop and not low <= bins[stop - 1] < high:
        stop -= 1
    narrowed[0], narrowed[1] = first, stop
    return narrowed


cdef inline Py_ssize_t neighbours(const int32_t *pixels, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    """The end of the run of neighbouring pixels that begins with pixels[first]."""
    first += 1
    while first < stop and pixels[first] == pixels[first - 1] + 1:
        first += 1
    return first


cdef void spread(
        const Problem *problem, const real *grad, View steps, const Box *box, const Turned *rows, const Turned *columns, real *strip,
        real *target, Strides map, Ahead *ahead) noexcept nogil:
    """Pixels of some rows and columns += Wy^T grad Wx of the bins of a box, of one channel block; target: pixel (0, 0)."""
    cdef int L = LANE_BYTES // sizeof(real), qs = box.q1 - box.q0
    cdef Py_ssize_t x, y, r = rows.first, count, together, some
    cdef const int32_t *bins = problem.bins_of_pixel
    cdef int32_t[2] narrowed
    cdef const real *weight = <const real*>problem.bin_weight
    cdef Py_ssize_t most = max(STRIP_BYTES // (qs * LANE_BYTES), 1)
    cdef bint whole = qs == problem.pw and box.p1 - box.p0 == problem.ph
    cdef Py_ssize_t at_once = PIXELS_AT_ONCE if whole else 1
    cdef Taps taps = taps_of(NULL, bins, weight)
    cdef Vectors grads = vectors_at(grad - box.p0 * steps.y, steps.x, steps.y, qs), strips
    cdef Stream none
    none.left = 0
    while r < rows.stop:
        count = min(most, rows.stop - r)
        y = 0
        while y < count:
            fetch_some(ahead)
            some = min(at_once, count - y)
            taps.spans = spans_between(rows.spans + 2 * (r + y), bins, box.p0, box.p1, whole, narrowed)
            contract_bins(strip + y * L, L, count * L, &grads, <int>some, &taps, &none)
            y += some
        y = 0
        while y < count:      # as many rows together as lie a step apart, most often all of them
            together = neighbours(rows.pixels, r + y, r + count) - r - y
            strips = vectors_at(strip + (y - box.q0 * count) * L, L, count * L, together)
            x = columns.first
            while x < columns.stop:
                fetch_some(ahead)
                some = min(at_once, columns.stop - x)
                taps.spans = spans_between(columns.spans + 2 * x, bins, box.q0, box.q1, whole, narrowed)
                accumulate_pixels(target + rows.pixels[r + y] * map.y, map.x, map.y, &strips, some, columns.pixels + x, &taps)
                x += some
            y += together
        r += count


cdef void spread_together(
        const Problem *problem, const real *grad, Py_ssize_t blocks, const Box *box, const Turned *rows, const Turned *columns, real *strip,
        real *target, const real *next_grad, Py_ssize_t next_bins) noexcept nogil:
    """The same of several blocks that lie together in pixels and bins, row by row, as memory lies: columns of the box take a third longer.

    Meanwhile the bins are fetched that the next row is the first to read, at the end a row of those of the next box (next_bins, from next_grad on), and
    pixels of the next row where they come from memory.
    """
    cdef int L = LANE_BYTES // sizeof(real)
    cdef Py_ssize_t x, y, q, first = 0, stop = 0, width = blocks * L, qs = box.q1 - box.q0, below
    cdef const real *above = grad - box.p0 * problem.bins.y      # bin row 0
    cdef real *row
    cdef const int32_t *bins = problem.bins_of_pixel
    cdef int32_t[2] narrowed
    cdef bint whole = qs == problem.pw
    cdef Py_ssize_t at_once = columns.stop - columns.first if whole else 1
    cdef Taps taps = taps_of(NULL, bins, problem.bin_weight)
    cdef Vectors grads = vectors_at(above, L, problem.bins.y, qs * blocks if problem.bins.x == width else blocks)
    cdef Vectors strips = vectors_at(strip - box.q0 * width, L, width, blocks)
    cdef PrefetchRows coming
    cdef Stream none
    none.left = 0
    for y in range(rows.first, rows.stop):
        taps.spans = spans_between(rows.spans + 2 * y, bins, box.p0, box.p1, box.p1 - box.p0 == problem.ph, narrowed)
        if problem.bins.x == width:      # bins that lie end to end are one run
            contract_bins(strip, 0, L, &grads, 1, &taps, &none)
        else:
            for q in range(qs):
                grads.start = above + q * problem.bins.x
                contract_bins(strip + q * width, 0, L, &grads, 1, &taps, &none)
        coming.first, coming.in_row, coming.count, below = next_grad, next_bins, next_bins, 0
        if y + 1 < rows.stop:
            below = (rows.pixels[y + 1] - rows.pixels[y]) * problem.map.strides.y if problem.ahead else 0
            entries_after(rows.spans + 2 * y, rows.stop - y, bins, &first, &stop)
            coming.in_row, coming.count = qs, (stop - first) * qs
            if stop > first:
                coming.first = above + bins[first] * problem.bins.y
        coming.step, coming.past_row = problem.bins.x, problem.bins.y - (coming.in_row - 1) * problem.bins.x
        row = target + rows.pixels[y] * problem.map.strides.y
        x = columns.first
        while x < columns.stop:
            taps.spans = spans_between(columns.spans + 2 * x, bins, box.q0, box.q1, whole, narrowed)
            accumulate_row(row, problem.map.strides.x, &strips, at_once, columns.pixels + x, &taps, below, &coming)
            coming.count = 0      # of pixels one by one the first has asked for them
            x += at_once


cdef void spread_bin(
        const Problem *problem, const real *grad, const Box *box, Py_ssize_t y0, Py_ssize_t y1, Py_ssize_t x0,
        Py_ssize_t x1, real *strip, real *target, Strides map) noexcept nogil:
    """Pixels of [y0, y1) x [x0, x1) += Wy^T grad Wx of a single bin, of one channel block; target: pixel (0, 0)."""
    cdef int L = LANE_BYTES // sizeof(real)
    cdef Py_ssize_t first = 0, stop = 0, low = 0, high = 0, end, x, y, i
    cdef const int32_t *index = problem.index
    cdef const real *weight = <const real*>problem.weight
    clip(box.spans_x + 2 * box.q0, index, x0, x1, &first, &stop)
    clip(box.spans_y + 2 * box.p0, index, y0, y1, &low, &high)
    while first < stop:
        end = min(stop, first + MOST_COLUMNS)      # as the strip has room for
        for x in range(first, end):
            scale_vectors(strip + (x - first) * L, L, grad, L, 1, weight[x], False)
        for y in range(low, high):
            x = first
            while x < end:
                i = neighbours(index, x, end)
                scale_vectors(target + index[y] * map.y + index[x] * map.x, map.x, strip + (x - first) * L, L, i - x, weight[y], True)
                x = i
        first = end


cdef inline Py_ssize_t box_within(const Problem *problem, const int64_t *task, Py_ssize_t i) noexcept nogil:
    """The first box of a task, from place i on, that reads pixels of its rectangle."""
    cdef const int32_t *window = problem.windows + 4 * i
    while i < task[STOP] and (window[1] <= task[Y0] or window[0] >= task[Y1] or window[3] <= task[X0] or window[2] >= task[X1]):
        window += 4
        i += 1
    return i


cdef inline void bins_within(const Problem *problem, const int64_t *task, Py_ssize_t i, Box *box) noexcept nogil:
    """Leave out what reads no pixel of the task's rectangle."""
    cdef const int32_t *window = problem.windows + 4 * i
    if window[0] < task[Y0] or window[1] > task[Y1]:
        narrow(box.spans_y, problem.index, task[Y0], task[Y1], &box.p0, &box.p1)
    if window[2] < task[X0] or window[3] > task[X1]:
        narrow(box.spans_x, problem.index, task[X0], task[X1], &box.q0, &box.q1)


cdef inline void clear_rows(const Problem *problem, const int64_t *task, Py_ssize_t first, Py_ssize_t stop, real *_) noexcept nogil:
    """Zeros in some rows of the task's rectangle, of all of its channels."""
    cdef Reader reader = block_reader(&problem.map, task, task[BLOCK_FIRST], _)
    cdef Py_ssize_t L = LANE_BYTES // sizeof(real), channels = min(task[BLOCK_STOP] * L, problem.map.channels) - task[BLOCK_FIRST] * L
    clear(<real*>reader.plane + first * problem.map.strides.y + task[X0] * problem.map.strides.x, reader.strides, channels, stop - first,
          task[X1] - task[X0])


cdef void spread_boxes(const Problem *problem, const real *grad_output, const int64_t *task, char *memory, char *tile) noexcept nogil:
    """Pixels of the task's rectangle += the gradients of its boxes, of one bin or all; where tiles are GATHERED, those of that bin."""
    cdef int L = LANE_BYTES // sizeof(real), p, q
    cdef Py_ssize_t i, k, soon, next_, later, block, blocks, cleared, bottom, y0 = task[Y0], y1 = task[Y1], x0 = task[X0], x1 = task[X1]
    cdef BinRange part = bins_of_task(task, problem.ph, problem.pw, SQUARE_BINS)
    cdef Reader reader
    cdef Box box, soon_box
    cdef Turned rows, columns
    cdef Strides map
    cdef View steps
    cdef Ahead ahead
    cdef const real *grad
    cdef const real *soon_grad
    cdef const real *soon_bins
    cdef real *target
    cdef bint within, packed = task[MODE] == GATHERED      # the tile holds the sums of the block that has one
    cdef Scratch scratch = scratch_at(problem, memory)
    scratch.tile = tile
    # blocks whose lanes lie together in the gradient are summed there, others in the tile: at most one of a task with boxes,
    # which is the last
    reader = block_reader(&problem.map, task, task[BLOCK_FIRST], <real*>NULL)
    # zeros are written shortly before sums are added to them, while they are in cache
    cleared = y0 if not problem.add and (reader.in_place or task[FIRST] == task[STOP]) else y1
    next_ = box_within(problem, task, task[FIRST])
    later = box_within(problem, task, next_ + 1)
    while next_ < task[STOP]:
        i, next_, later = next_, later, box_within(problem, task, later + 1)
        k = problem.order[i]
        bottom = min(<Py_ssize_t>problem.windows[4 * i + 1], y1)
        if cleared < bottom:
            clear_rows(problem, task, cleared, bottom, <real*>NULL)
            cleared = bottom
        soon_box.p0 = soon_box.p1 = soon_box.q0 = soon_box.q1 = 0
        soon_grad = grad_output
        # whose bins are fetched: the next box, or the one after it where they are packed, all at once, and have to be there in time
        soon = next_ if problem.bins.channel == 1 else later
        if task[BIN] < 0 and soon < task[STOP]:
            soon_box = part_of_box(problem, soon, 0, problem.ph, 0, problem.pw)
            bins_within(problem, task, soon, &soon_box)
            soon_grad += problem.order[soon] * problem.bins.image + soon_box.p0 * problem.bins.y + soon_box.q0 * problem.bins.x
        p = part.p0
        while p < part.p1:
            q = part.q0
            while q < part.q1:
                box = part_of_box(problem, i, p, min(p + part.p_step, part.p1), q, min(q + part.q_step, part.q1))
                within = box.y0 < y1 and box.y1 > y0 and box.x0 < x1 and box.x1 > x0
                if within and task[BIN] < 0:
                    bins_within(problem, task, i, &box)
                    within = box.p0 < box.p1 and box.q0 < box.q1
                    rows = turned(problem, box.spans_y, problem.counts[2 * i], max(box.y0, y0), min(box.y1, y1))
                    columns = turned(problem, box.spans_x, problem.counts[2 * i + 1], max(box.x0, x0), min(box.x1, x1))
                block = task[BLOCK_FIRST] if within else task[BLOCK_STOP]
                while block < task[BLOCK_STOP]:
                    reader = block_reader(&problem.map, task, block, <real*>NULL)
                    blocks = 1
                    map = problem.map.strides
                    if reader.in_place:
                        target = <real*>reader.plane
                        if task[BIN] < 0 and problem.bins.channel == 1:
                            blocks = blocks_together(
                                min(task[BLOCK_STOP], problem.map.channels // L) - block, problem.strip_bytes, box.q1 - box.q0, 1)
                            if blocks < FEWEST_TOGETHER:
                                blocks = 1
                    else:
                        map.y, map.x = (x1 - x0) * L, L
                        target = <real*>scratch.tile - y0 * map.y - x0 * map.x
                        if not packed:
                            packed = True
                            if problem.add:
                                read_pixels(&reader, y0, x0, y1 - y0, x1 - x0, <real*>scratch.tile)
                            else:
                                memset(scratch.tile, 0, (y1 - y0) * (x1 - x0) * LANE_BYTES)
                    grad = grad_output + k * problem.bins.image + block * L * problem.bins.channel + box.p0 * problem.bins.y + box.q0 * problem.bins.x
                    if problem.bins.channel == 1 and reader.lanes == L:
                        steps.y, steps.x = problem.bins.y, problem.bins.x
                    else:
                        steps.y, steps.x = (box.q1 - box.q0) * L, L
                        pack(grad, problem.bins, reader.lanes, box.p1 - box.p0, box.q1 - box.q0, <real*>scratch.bins)
                        grad = <real*>scratch.bins
                    if task[BIN] >= 0:
                        spread_bin(problem, grad, &box, y0, y1, x0, x1, <real*>scratch.strip, target, map)
                    else:
                        soon_bins = soon_grad + block * L * problem.bins.channel
                        if blocks > 1:
                            spread_together(problem, grad, blocks, &box, &rows, &columns, <real*>scratch.strip, target, soon_bins, soon_box.q1 - soon_box.q0)
                        else:
                            ahead = ahead_of(soon_bins, problem.bins, reader.lanes, soon_box.p1 - soon_box.p0, soon_box.q1 - soon_box.q0,
                                             (rows.stop - rows.first + columns.stop - columns.first) // PIXELS_AT_ONCE + 1)
                            spread(problem, grad, steps, &box, &rows, &columns, <real*>scratch.strip, target, map, &ahead)
                    block += blocks
                q += part.q_step
            p += part.p_step
    clear_rows(problem, task, cleared, y1, <real*>NULL)
    if task[FIRST] == task[STOP] or task[MODE] == GATHERED:
        return
    for block in range(task[BLOCK_FIRST], task[BLOCK_STOP]):
        reader = block_reader(&problem.map, task, block, <real*>NULL)
        if reader.in_place:
            continue
        target = <real*>reader.plane + y0 * problem.map.strides.y + x0 * problem.map.strides.x
        if packed:
            unpack(<real*>scratch.tile, y1 - y0, x1 - x0, target, reader.strides, reader.lanes, <real*>NULL, problem.way, &scratch.run)
        elif not problem.add:
            clear(target, reader.strides, reader.lanes, y1 - y0, x1 - x0)
    stream_fence()


cdef void backward_task(const Problem *problem, const real *grad_output, const int64_t *task, char *memory) noexcept nogil:
    """The same; of several bins one by one."""
    cdef int64_t[COLUMNS] one
    cdef int64_t z
    cdef char *tile = <char*>scratch_at(problem, memory).tile
    if task[MODE] != GATHERED:
        spread_boxes(problem, grad_output, task, memory, tile)
        return
    if problem.add:
        gather_bins(&problem.map, task, <real*>tile)
    else:
        memset(tile, 0, (task[BIN_STOP] - task[BIN]) * bin_tile_bytes(task))
    memcpy(one, task, sizeof(one))
    for z in range(task[BIN], task[BIN_STOP]):
        one[BIN], one[BIN_STOP] = z, z + 1
        spread_boxes(problem, grad_output, one, memory, tile + (z - task[BIN]) * bin_tile_bytes(task))
    scatter_bins(&problem.map, task, <const real*>tile)


# The doors.  Arrays are (N, C, H, W) and (K, C, PH, PW) views of any strides.  Maps of different sizes that share the output are
# levels, tuples (map, dtype character, in_place, in_rows, tables).  A level has boxes.

cdef class Work:
    """The problem of each level, and scratch for each thread."""
    cdef Problem *problems
    cdef char *memory
    cdef Py_ssize_t scratch_bytes

    def __dealloc__(self):
        free(self.problems)
        pages_free(self.memory)


cdef Work work_on(
        list levels, const int64_t[:, ::1] tasks, Strides bins, Py_ssize_t channels, bint by_bin, int ph, int pw, bint slopes, int threads, real *_):
    cdef Work work = Work()
    cdef Problem *problem
    cdef Tables tables
    cdef Py_UCS4 kind
    cdef tuple level
    cdef const int64_t *task
    cdef Py_ssize_t i, together
    work.problems = <Problem*>calloc(len(levels), sizeof(Problem))
    if work.problems == NULL:
        raise MemoryError(f"no room for {len(levels)} levels")
    for i in range(len(levels)):
        problem = &work.problems[i]
        level = levels[i]
        kind, tables = level[1], level[4]
        problem.map = map_of(level[0], <int>kind, channels, ph * pw if by_bin else 1, _)
        problem.bins = bins
        problem.ph, problem.pw = ph, pw
        problem.order = tables.order.rows + tables.first
        problem.windows, problem.spans, problem.index, problem.weight, problem.slopes = tables.windows, tables.spans, tables.index, tables.weight, tables.slopes
        problem.counts, problem.pixels, problem.pixel_spans = tables.counts, tables.pixels, tables.pixel_spans
        problem.bins_of_pixel, problem.bin_weight = tables.bins_of_pixel, tables.bin_weight
        problem.entries = tables.entries
        problem.ahead = level[2] and not slopes and worth_fetching(problem, len(tables), tables.order.images, _)
        problem.strip_bytes = max(<Py_ssize_t>WIDE_BYTES, min(problem.map.columns, MOST_COLUMNS) * LANE_BYTES,
                                  min(pw * channels * <Py_ssize_t>sizeof(real), <Py_ssize_t>WIDEST_BYTES))
        problem.bins_bytes = BINS_BYTES
        problem.tiles = 1
        if by_bin:
            problem.bins_bytes = max(problem.bins_bytes, min(<Py_ssize_t>RANGE_BYTES, <Py_ssize_t>len(tables) * ph * pw * LANE_BYTES))
        problem.by_bin, problem.few = by_bin, not by_bin and channels_are_few(problem, _)
        together = 1
        if slopes and not by_bin:
            together = slope_blocks_from(0, channels // (LANE_BYTES // <Py_ssize_t>sizeof(real)))
            problem.bins_bytes = together * min(<Py_ssize_t>BINS_BYTES, <Py_ssize_t>ph * pw * LANE_BYTES)
        problem.cell_pixels = slope_pixels(together)
        if together > 1 and not (level[2] and element_bytes(problem.map.kind, _) == sizeof(real)):      # packed
            problem.tiles = together
            problem.map.tile_bytes = min(problem.map.tile_bytes, problem.cell_pixels * LANE_BYTES)
    if by_bin:
        for i in range(tasks.shape[0]):
            task = &tasks[i, 0]
            problem = &work.problems[task[LEVEL]]
            problem.map.tile_bytes = max(problem.map.tile_bytes, (task[BIN_STOP] - task[BIN]) * bin_tile_bytes(task))
    for i in range(len(levels)):
        problem = &work.problems[i]
        problem.layout = layout_of(problem.tiles * problem.map.tile_bytes, problem.strip_bytes, problem.bins_bytes)
        work.scratch_bytes = max(work.scratch_bytes, problem.layout.size)
    work.memory = <char*>pages_alloc(threads * work.scratch_bytes)
    if work.memory == NULL:
        raise MemoryError(f"no {threads * work.scratch_bytes} bytes of scratch for {threads} threads")
    return work


def forward(list levels, const int64_t[:, ::1] tasks, real[:, :, :, :] out, bint by_bin, int threads):
    """out (K, C', PH, PW) = weighted sums of the inputs."""
    cdef Work work = work_on(levels, tasks, strides_of(out), out.shape[1], by_bin, <int>out.shape[2], <int>out.shape[3], False, threads, <real*>NULL)
    cdef Py_ssize_t i, size = work.scratch_bytes
    cdef Problem *problems = work.problems
    cdef char *memory = work.memory
    cdef real *to = &out[0, 0, 0, 0]
    for i in range(len(levels)):
        problems[i].way = way_to_write(out)
    if threads == 1:
        with nogil:
            for i in range(tasks.shape[0]):
                forward_task(&problems[tasks[i, LEVEL]], to, &tasks[i, 0], memory)
    else:
        for i in prange(tasks.shape[0], nogil=True, num_threads=threads, schedule="dynamic", chunksize=1):
            forward_task(&problems[tasks[i, LEVEL]], to, &tasks[i, 0], memory + threadid() * size)


def backward(const real[:, :, :, :] grad_output, list levels, const int64_t[:, ::1] tasks, bint add, bint by_bin, int threads):
    """Maps of levels = (add: +=) the gradients of the inputs for grad_output (K, C', PH, PW); tables: by_pixel too, unless by_bin."""
    cdef Work work = work_on(levels, tasks, strides_of(grad_output), grad_output.shape[1], by_bin, <int>grad_output.shape[2], <int>grad_output.shape[3],
                             False, threads, <real*>NULL)
    cdef Py_ssize_t i, size = work.scratch_bytes
    cdef Problem *problems = work.problems
    cdef char *memory = work.memory
    cdef const real *grad = &grad_output[0, 0, 0, 0]
    cdef const real[:, :, :, :] map
    for i in range(len(levels)):
        map = levels[i][0]
        problems[i].way = way_to_write(map)
        problems[i].add = add
    if threads == 1:
        with nogil:
            for i in range(tasks.shape[0]):
                backward_task(&problems[tasks[i, LEVEL]], grad, &tasks[i, 0], memory)
    else:
        for i in prange(tasks.shape[0], nogil=True, num_threads=threads, schedule="dynamic", chunksize=1):
            backward_task(&problems[tasks[i, LEVEL]], grad, &tasks[i, 0], memory + threadid() * size)


def backward_boxes(const real[:, :, :, :] grad_output, list levels, const int64_t[:, ::1] tasks, double[:, :, ::1] parts, bint by_bin, int threads):
    """parts (blocks * bins of a task, boxes in the order of the levels, 4): the gradients by x1, y1, x2, y2 that each channel block
    gives, to be added up; tables: with slopes."""
    cdef Work work = work_on(levels, tasks, strides_of(grad_output), grad_output.shape[1], by_bin, <int>grad_output.shape[2], <int>grad_output.shape[3],
                             True, threads, <real*>NULL)
    cdef Py_ssize_t i, size = work.scratch_bytes, before = 0
    cdef Problem *problems = work.problems
    cdef char *memory = work.memory
    cdef const real *grad = &grad_output[0, 0, 0, 0]
    for i in range(len(levels)):
        problems[i].parts = parts.shape[1]
        problems[i].parts_before = before
        before += len(levels[i][4])
    if threads == 1:
        with nogil:
            for i in range(tasks.shape[0]):
                slopes_task(&problems[tasks[i, LEVEL]], grad, &parts[0, 0, 0], &tasks[i, 0], memory)
    else:
        for i in prange(tasks.shape[0], nogil=True, num_threads=threads, schedule="dynamic", chunksize=1):
            slopes_task(&problems[tasks[i, LEVEL]], grad, &parts[0, 0, 0], &tasks[i, 0], memory + threadid() * size)
