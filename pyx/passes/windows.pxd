"""Windows: the weighted sums of the bins of upright boxes, of one channel block.

Each point here is a lane vector, the channels of a block at one place:

       window in a tile              strip                   bins
       x0            x1              x0            x1        q0 .. q1
    y0 . . . . . . . .            p0 : : : : : : : :      p0 # # #
       . . . . . . . .   along y  .. : : : : : : : :  x   .. # # #
       . . . . . . . .   ----->   p1 : : : : : : : :  ->  p1 # # #
    y1 . . . . . . . .

A window is contracted along y, into a strip [p][x][lane], and then along x into bins [p][q][lane],
or the other way round where that is much less work (`x_first` in plan/ways.pxd).  It is loaded at
once, its taps alone, or cell by cell.
"""
from libc.stdint cimport int32_t
from libc.string cimport memset

from passes.walk cimport Part, Walk, first_bin, in_slots, load_taps
from passes.tile cimport cell_columns, cell_rows, load
from plan.spans cimport clip
from plan.structs cimport CELLS, NOTHING, TAPS, LevelJob
from simd.structs cimport LANE_BYTES, Stream, Taps, Vectors, View, Window, real
from simd.table cimport Simd, stream_some
from tuning cimport STRIP_BYTES


cdef struct Axis:                  # one axis of the bins at hand
    Taps taps
    int bins
    Py_ssize_t bin_stride          # of the results, in elements
    Py_ssize_t stride              # from pixel to pixel, in elements
    Py_ssize_t low                 # the first pixel of the window
    Py_ssize_t count               # and how many there are


cdef inline void contract(
        const Simd *simd, const real *pixels, const Axis *first, const Axis *second, real *strip,
        real *bins, Stream *queue) noexcept nogil:
    """bins = the weighted sums of a window, along the first axis and then along the second.

    pixels: the first pixel of the window.  Results of the box before are streamed meanwhile, half
    of them before each axis.
    """
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), row = second.count * lanes
    # with so many bins at a time, the strip stays in a level 1 cache
    cdef int at_once = <int>max(STRIP_BYTES // (second.count * LANE_BYTES), 1)
    cdef int left = first.bins, some
    cdef Taps taps = first.taps
    cdef Vectors window, strips
    # Vector i of pixel j lies at start + i * stride + j * pixel_stride.  Taps count from pixel 0,
    # which may lie before the tile or the strip.
    window.start, window.stride = pixels - first.low * first.stride, second.stride
    window.pixel_stride, window.count = first.stride, second.count
    strips.start, strips.stride, strips.pixel_stride = strip - second.low * lanes, row, lanes
    while left > 0:
        some = min(at_once, left)
        stream_some(simd, queue)
        simd.contract_bins(strip, row, lanes, &window, some, &taps)
        stream_some(simd, queue)
        strips.count = some
        simd.contract_bins(bins, second.bin_stride, first.bin_stride, &strips, second.bins,
                           &second.taps)
        taps.spans += 2 * some
        bins += some * first.bin_stride
        left -= some


cdef inline void set_axes(
        const LevelJob *job, const Part *part, const View *view, Axis *y, Axis *x) noexcept nogil:
    """Both axes of a part, whose pixels are seen as `view`."""
    cdef Py_ssize_t lanes = job.call.lanes
    y.taps.pixel = x.taps.pixel = part.pixel
    y.taps.weight = x.taps.weight = job.tables.tap_weight
    y.taps.spans, x.taps.spans = part.spans_y + 2 * part.p0, part.spans_x + 2 * part.q0
    y.bins, x.bins = part.p1 - part.p0, part.q1 - part.q0
    y.bin_stride, x.bin_stride = x.bins * lanes, lanes
    y.low, y.count = part.window.y0, part.window.y1 - part.window.y0
    x.low, x.count = part.window.x0, part.window.x1 - part.window.x0
    y.stride, x.stride = view.y, view.x


cdef inline void sum_cell(
        const Simd *simd, const Axis *axis, Py_ssize_t low, Py_ssize_t high,
        const Vectors *pixels, real *to, Py_ssize_t bin_stride, Py_ssize_t stride) noexcept nogil:
    """Go on with the sums of each bin along an axis: the pixels low .. high - 1 of it.

    The first pixels of a bin set its sums, and later ones are added.
    """
    cdef int32_t[2] span
    cdef Taps taps = axis.taps
    cdef int p
    taps.spans = span
    for p in range(axis.bins):
        clip(axis.taps.spans + 2 * p, taps.pixel, low, high, span)
        simd.contract_axis(to + p * bin_stride, stride, pixels, &taps,
                           span[0] > axis.taps.spans[2 * p])


cdef inline void sum_cells(const LevelJob *job, Walk *walk, real *bins) noexcept nogil:
    """bins = the weighted sums of a window that is larger than the tile, cell by cell.

    As many columns as the strip has room for are summed along y, one cell below the other, and
    then along x.  So numbers are added in the order in which `contract` adds them.
    """
    cdef const Window *window = &walk.part.window
    cdef Py_ssize_t lanes = LANE_BYTES // sizeof(real), width = window.x1 - window.x0, columns, rows
    cdef real *strip = <real*>walk.scratch.strip
    cdef const real *pixels
    cdef View view
    cdef Vectors cells, strips
    cdef Window cell
    cdef Axis y, x
    view.y = view.x = 0      # which load sets, cell by cell
    set_axes(job, &walk.part, &view, &y, &x)
    columns = min(cell_columns(width), job.scratch.strip_bytes // (y.bins * LANE_BYTES))
    rows = cell_rows(&walk.tile, window.y1 - window.y0, cell_columns(width))
    strips.pixel_stride, strips.count = lanes, y.bins
    cell.x1 = window.x0
    while cell.x1 < window.x1:
        cell.x0, cell.y1 = cell.x1, window.y0
        cell.x1 = min(cell.x0 + columns, window.x1)
        width = cell.x1 - cell.x0
        while cell.y1 < window.y1:
            cell.y0 = cell.y1
            cell.y1 = min(cell.y0 + rows, window.y1)
            pixels = load(job, &walk.tile, <real*>walk.scratch.tile, &cell, &view)
            cells.start, cells.stride = pixels - cell.y0 * view.y, view.x      # from row 0
            cells.pixel_stride, cells.count = view.y, width
            sum_cell(job.call.simd, &y, cell.y0, cell.y1, &cells, strip, width * lanes, lanes)
        strips.start, strips.stride = strip - cell.x0 * lanes, width * lanes      # from column 0
        sum_cell(job.call.simd, &x, cell.x0, cell.x1, &strips, bins, x.bin_stride, y.bin_stride)


cdef inline void sum_block(const LevelJob *job, Walk *walk, real *bins) noexcept nogil:
    """bins = the weighted sums of a part, of one channel block."""
    cdef real *memory = <real*>walk.scratch.tile
    cdef real *strip = <real*>walk.scratch.strip
    cdef const real *pixels = memory
    cdef const Part *part = &walk.part
    cdef Part slots
    cdef View view
    cdef Axis y, x
    if part.way == NOTHING:
        memset(bins, 0, (part.p1 - part.p0) * (part.q1 - part.q0) * LANE_BYTES)
        return
    if part.way == CELLS:
        sum_cells(job, walk, bins)
        return
    if part.way == TAPS:
        slots = in_slots(job, part)
        load_taps(job, &slots, &walk.tile, memory, &view)
        part = &slots
    else:
        pixels = load(job, &walk.tile, memory, &part.window, &view)
    set_axes(job, part, &view, &y, &x)
    if part.x_first:
        contract(job.call.simd, pixels, &x, &y, strip, bins, &walk.scratch.queue)
    else:
        contract(job.call.simd, pixels, &y, &x, strip, bins, &walk.scratch.queue)


cdef inline void store_part(const LevelJob *job, const Walk *walk, real *out) noexcept nogil:
    """Write the bins of a part that are gathered in scratch; out: bin (0, 0)."""
    cdef const Part *part = &walk.part
    job.call.simd.unpack(<const real*>walk.scratch.bins, part.p1 - part.p0, part.q1 - part.q0,
                         first_bin(job, part, out), &walk.target)
