"""Copies of what a plan has made, as arrays that Python, and tests above all, look at."""
from plan.structs cimport LevelJob, Tables


cdef inline copied(const void *elements, Py_ssize_t count, dtype, tuple shape):
    """An array of its own; None where there is no table."""
    import numpy as np      # here, since this file is no module
    if elements == NULL:
        return None
    size = np.dtype(dtype).itemsize * count
    return np.frombuffer((<const char*>elements)[:size], dtype).reshape(shape).copy()


cdef inline copied_tables(const LevelJob *job, real):
    """Tables by their names in struct Tables; real: the type of weights."""
    cdef const Tables *tables = &job.tables
    cdef Py_ssize_t count = tables.count, bins = tables.spans_of_box, taps = tables.taps
    from types import SimpleNamespace
    return SimpleNamespace(
        first=tables.first, stop=tables.stop,
        starts=copied(tables.starts, job.map.images + 1, "p", (-1,)),
        rows=copied(tables.rows, count, "i4", (count,)),
        windows=copied(tables.windows, 4 * count, "i4", (count, 4)),
        ways=copied(tables.ways, count, "u1", (count,)),
        x_first=copied(tables.x_first, count, "u1", (count,)),
        spans=copied(tables.spans, 2 * bins * count, "i4", (count, bins, 2)),
        tap_pixel=copied(tables.tap_pixel, tables.numbers_of_tap * taps, "i4", (-1,)),
        tap_weight=copied(tables.tap_weight, taps, real, (-1,)),
        tap_slopes=copied(tables.tap_slopes, tables.slopes_of_tap * taps, real,
                          (tables.slopes_of_tap, -1)),
        outside=copied(tables.outside, bins * count, "u1", (count, bins)),
        counts=copied(tables.counts, 2 * count, "i4", (count, 2)),
        pixels=copied(tables.pixels, taps, "i4", (-1,)),
        pixel_spans=copied(tables.pixel_spans, 2 * taps, "i4", (-1, 2)),
        bin=copied(tables.bin, taps, "i4", (-1,)),
        bin_weight=copied(tables.bin_weight, taps, real, (-1,)),
    )
