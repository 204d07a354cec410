"""Pack: pixels of any strides and type into [y][x][lane]."""
from libc.string cimport memcpy, memset

from plan.structs cimport Strides
from simd.simd cimport LANE_BYTES, planes_to_lanes, real, small_size, widen
from tuning cimport MIN_TRANSPOSE_PIXELS, WIDEN_PIXELS


cdef inline void copy_lanes(const real *source, int lanes, real *target) noexcept nogil:
    """Fewer than 16 numbers in a few moves, where memcpy of any size would be a call."""
    if lanes & 8:
        memcpy(target, source, 8 * sizeof(real))
        source += 8
        target += 8
    if lanes & 4:
        memcpy(target, source, 4 * sizeof(real))
        source += 4
        target += 4
    if lanes & 2:
        memcpy(target, source, 2 * sizeof(real))
        source += 2
        target += 2
    if lanes & 1:
        target[0] = source[0]


cdef inline void pack(
        const real *source, Strides strides, int lanes, Py_ssize_t rows, Py_ssize_t columns,
        real *tile) noexcept nogil:
    """Rows x columns pixels of `lanes` channels into tile[y][x][lane]."""
    cdef int all_lanes = LANE_BYTES // sizeof(real), lane
    cdef Py_ssize_t y, x
    cdef const real *row
    cdef real *to
    if strides.x == 1 and strides.y == columns:      # rows lie end to end: one long row
        columns = columns * rows
        rows = 1
    for y in range(rows):
        row = source + y * strides.y
        to = tile + y * columns * all_lanes
        if strides.x == 1 and columns >= MIN_TRANSPOSE_PIXELS:
            planes_to_lanes(row, strides.channel, lanes, columns, strides.y, to)
        elif lanes == all_lanes and strides.channel == 1:
            for x in range(columns):
                memcpy(to + x * all_lanes, row + x * strides.x, LANE_BYTES)
        elif strides.channel == 1:
            for x in range(columns):
                memset(to + x * all_lanes, 0, LANE_BYTES)
                copy_lanes(row + x * strides.x, lanes, to + x * all_lanes)
        else:
            for x in range(columns):
                for lane in range(lanes):
                    to[x * all_lanes + lane] = row[lane * strides.channel + x * strides.x]
                for lane in range(lanes, all_lanes):
                    to[x * all_lanes + lane] = 0


cdef inline void pack_widened(
        const char *source, int kind, Strides strides, int lanes, Py_ssize_t rows,
        Py_ssize_t columns, real *tile) noexcept nogil:
    """Pack pixels of a map of a small type, a few at a time."""
    cdef int all_lanes = LANE_BYTES // sizeof(real), lane
    cdef Py_ssize_t size = small_size(kind), y, x, count
    cdef real[16 * WIDEN_PIXELS] run
    cdef Strides run_strides
    cdef const char *row
    if strides.x == 1 and strides.y == columns:
        columns = columns * rows
        rows = 1
    run_strides.image, run_strides.channel = 0, WIDEN_PIXELS
    run_strides.y, run_strides.x = 0, 1
    memset(run + lanes, 0, (all_lanes - lanes) * sizeof(real))
    for y in range(rows):
        row = source + y * strides.y * size
        x = 0
        while x < columns:
            count = min(columns - x, <Py_ssize_t>WIDEN_PIXELS) if strides.x == 1 else 1
            if strides.x == 1:
                for lane in range(lanes):
                    widen(row + (lane * strides.channel + x) * size, kind, count,
                          run + lane * WIDEN_PIXELS)
                pack(run, run_strides, lanes, 1, count, tile + x * all_lanes)
            else:
                if strides.channel == 1:
                    widen(row + x * strides.x * size, kind, lanes, run)
                else:
                    for lane in range(lanes):
                        widen(row + (lane * strides.channel + x * strides.x) * size, kind, 1,
                              run + lane)
                memcpy(tile + x * all_lanes, run, LANE_BYTES)
            x += count
        tile += columns * all_lanes
