"""Prefetch: cache lines that are needed soon, asked for while something else is computed."""
from libc.stdint cimport int32_t

from simd.structs cimport LANE_BYTES, Strides, prefetch_l1, prefetch_l2, prefetch_run, real

cdef enum:
    NEAR_BYTES = 4 << 10           # bins prefetched into the level 1 cache, not level 2 # R425


cdef struct Prefetch:              # runs of bytes, fetched a few cache lines at a time
    const char *run
    Py_ssize_t run_bytes
    Py_ssize_t at                  # in the run
    Py_ssize_t stride              # from run to run
    Py_ssize_t row_stride          # from the last run of a row to the first of the next
    int row_runs
    int row_at
    Py_ssize_t runs                # left
    Py_ssize_t bytes_at_once
    bint near                      # they fit the level 1 cache beside what is computed


cdef inline Prefetch prefetch_of(
        const real *source, const Strides *strides, int lanes, Py_ssize_t rows, Py_ssize_t columns,
        Py_ssize_t turns) noexcept nogil:
    """Rows x columns pixels of `lanes` channels, to be fetched in so many turns."""
    cdef Prefetch ahead
    cdef Py_ssize_t run = columns, runs = lanes, stride = strides.channel
    if strides.channel == 1:
        run, runs, stride = lanes, columns, strides.x
    elif strides.x != 1:
        rows = 0
    if strides.y == run * (runs if stride == run else 1):      # rows lie end to end
        run *= rows
        rows = min(rows, 1)
    if stride == run:
        run *= runs
        runs = 1
    ahead.run = <const char*>source
    ahead.run_bytes = run * sizeof(real)
    ahead.at = 0
    ahead.stride = stride * sizeof(real)
    ahead.row_stride = (strides.y - (runs - 1) * stride) * <Py_ssize_t>sizeof(real)
    ahead.row_runs = <int>runs
    ahead.row_at = 0
    ahead.runs = runs * rows
    ahead.near = ahead.runs * ahead.run_bytes <= NEAR_BYTES
    ahead.bytes_at_once = (ahead.runs * (ahead.run_bytes + LANE_BYTES) // max(turns, 1)
                           + LANE_BYTES)
    return ahead


cdef inline void prefetch_some(Prefetch *ahead) noexcept nogil:
    """Fetch the lines of one turn; all lines at once would delay the loads of the computation."""
    cdef Py_ssize_t left = ahead.bytes_at_once
    while ahead.runs > 0 and left > 0:
        if ahead.near:
            prefetch_l1(ahead.run + ahead.at)
        else:
            prefetch_l2(ahead.run + ahead.at)
        ahead.at += LANE_BYTES
        left -= LANE_BYTES
        if ahead.at >= ahead.run_bytes:
            ahead.at = 0
            ahead.runs -= 1
            ahead.row_at += 1
            if ahead.row_at == ahead.row_runs:
                ahead.row_at = 0
                ahead.run += ahead.row_stride
            else:
                ahead.run += ahead.stride


cdef inline void prefetch_taps(
        const real *source, Py_ssize_t stride, Py_ssize_t vectors, const int32_t *pixel,
        Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    """So many lane vectors of the pixels of taps first .. stop - 1, which lie `stride` apart."""
    cdef Py_ssize_t tap
    for tap in range(first, stop):
        prefetch_run(source + pixel[tap] * stride, vectors * LANE_BYTES)
