"""Paste: masks into images, or into run-length codes, where their boxes are.

A pixel is the bilinear value of a mask at its centre.  Rows of images are computed with x as the
axis of vectors, and columns of codes with y.  Both add the products in the same order, so that
the codes describe exactly the images.
"""
from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from images.buffers cimport buffer_of
from images.structs cimport (REACHED, REAL_VALUES, MaskLines, Masks, Place, Prototypes,
                             Runs, runs_add, runs_add_pixels, runs_end)
from roicy._kernels.isa cimport tables
from simd.structs cimport real, stream_fence
from simd.table cimport Simd
from threads cimport Team, run_call, run_tasks
from tuning cimport STREAM_BYTES, TASKS_PER_THREAD

cdef enum:
    PASTE_TASK_BYTES = 1 << 20     # of images, at least, that a task of a mask writes  # no record
    PASTE_TASK_PIXELS = 1 << 25    # at most: a quarter of a second                     # no record
    SMALL_PIXELS = 1 << 16         # of all images: about 0.1 ms                        # no record


cdef enum:
    MIXED_LINES = 2                # of a mixed mask, which may be enlarged before it is resized


cdef struct Paste:
    const Simd *simd
    Masks masks                    # transposed for codes
    Masks enlarged                 # how masks are resized before
    Place whole                    # of enlarged masks
    Prototypes mixed
    Py_ssize_t scratch             # bytes of mixed numbers
    char *out
    Py_ssize_t out_image           # strides and the size of an element in bytes
    Py_ssize_t out_row
    Py_ssize_t out_column
    Py_ssize_t out_itemsize
    Py_ssize_t height              # of an image
    Py_ssize_t width
    bint streaming
    bint cleared                   # all pixels are 0 beforehand
    Runs *codes                    # [K]; NULL for images
    Py_ssize_t first_column        # the columns that are added to codes now
    Py_ssize_t stop_column
    Py_ssize_t parts               # of an image, some rows each; a task is one of them
    Py_ssize_t count               # of masks
    int threads


cdef inline void open_mask(
        const Paste *paste, Py_ssize_t k, Py_ssize_t y0, Py_ssize_t y1, Py_ssize_t x0,
        Py_ssize_t x1, MaskLines *lines) noexcept nogil:
    """Begin with a mask, of which rows y0 to y1 - 1 and columns x0 to x1 - 1 are computed."""
    cdef int64_t[2][2] pixels
    cdef int along_y = paste.masks.along_y
    if paste.masks.mixed == NULL:
        paste.simd.mask_open(lines, &paste.masks, k)
        return
    pixels[along_y][0], pixels[along_y][1] = x0, x1
    pixels[1 - along_y][0], pixels[1 - along_y][1] = y0, y1
    paste.simd.mask_mix(lines, &paste.masks, k, pixels, lines + MIXED_LINES)


# Images

cdef inline void clear_pixels(
        const Paste *paste, char *out, Py_ssize_t count) noexcept nogil:
    """Clear pixels of a row, or of rows that lie together."""
    cdef Py_ssize_t i
    if paste.cleared:
        return
    if paste.out_column != paste.out_itemsize:
        for i in range(count):
            memset(out + i * paste.out_column, 0, paste.out_itemsize)
    elif paste.streaming:
        paste.simd.stream_clear(out, count * paste.out_itemsize)
    else:
        memset(out, 0, count * paste.out_itemsize)


cdef inline void put_pixels(
        const Paste *paste, char *out, const char *pixels, Py_ssize_t count) noexcept nogil:
    """Write pixels of a row."""
    cdef Py_ssize_t i, size = paste.out_itemsize
    if paste.out_column != size:
        for i in range(count):
            memcpy(out + i * paste.out_column, pixels + i * size, size)
    elif paste.streaming:
        paste.simd.stream_copy(out, pixels, count * size)
    else:
        memcpy(out, pixels, count * size)


cdef inline void clear_between(
        const Paste *paste, char *image, Py_ssize_t y, Py_ssize_t x, Py_ssize_t y_stop,
        Py_ssize_t x_stop) noexcept nogil:
    """Clear pixels from (y, x) on to (y_stop, x_stop), in the order of rows."""
    if paste.out_row == paste.width * paste.out_column:
        clear_pixels(paste, image + y * paste.out_row + x * paste.out_column,
                     (y_stop - y) * paste.width + x_stop - x)
        return
    while y < y_stop:
        clear_pixels(paste, image + y * paste.out_row + x * paste.out_column, paste.width - x)
        y, x = y + 1, 0
    if x < x_stop:
        clear_pixels(paste, image + y * paste.out_row + x * paste.out_column, x_stop - x)


cdef void paste_rows(
        const Paste *paste, Py_ssize_t k, Py_ssize_t first, Py_ssize_t stop,
        MaskLines *lines) noexcept nogil:
    """Write rows first to stop - 1 of an image."""
    cdef const Place *place = paste.masks.places + k
    cdef char *image = paste.out + k * paste.out_image
    cdef Py_ssize_t y0 = max(first, place.y0), y1 = min(stop, place.y1), y, x = place.x0
    if y0 >= y1 or place.x0 >= place.x1:
        clear_between(paste, image, first, 0, stop, 0)
        return
    open_mask(paste, k, y0, y1, place.x0, place.x1, lines)
    clear_between(paste, image, first, 0, y0, place.x0)
    while x < place.x1:
        paste.simd.mask_begin(lines, x, place.x1)
        for y in range(y0, y1):
            put_pixels(paste, image + y * paste.out_row + x * paste.out_column,
                       <const char*>paste.simd.mask_line(lines, y), lines.count)
            if x + lines.count == place.x1 and y + 1 < y1:
                clear_between(paste, image, y, place.x1, y + 1, place.x0)
        x += lines.count
    clear_between(paste, image, y1 - 1, place.x1, stop, 0)


# Codes

cdef void paste_codes(const Paste *paste, Py_ssize_t k, MaskLines *lines) noexcept nogil:
    """Add some columns of a mask to its run-length code."""
    cdef Py_ssize_t y, x, height = paste.height
    cdef const Place *place = paste.masks.places + k
    cdef Py_ssize_t x0 = max(paste.first_column, place.x0), x1 = min(paste.stop_column, place.x1)
    cdef Runs *runs = paste.codes + k
    if place.y0 >= place.y1 or x0 >= x1:
        x0 = x1 = paste.stop_column
    else:
        open_mask(paste, k, place.y0, place.y1, x0, x1, lines)
    runs_add(runs, 0, height * (x0 - paste.first_column))
    for x in range(x0, x1):
        runs_add(runs, 0, place.y0)
        y = place.y0
        while y < place.y1:
            paste.simd.mask_begin(lines, y, place.y1)
            runs_add_pixels(runs, <const uint8_t*>paste.simd.mask_line(lines, x), lines.count)
            y += lines.count
        runs_add(runs, 0, height - place.y1)
    runs_add(runs, 0, height * (paste.stop_column - x1))
    if paste.stop_column == paste.width:
        runs_end(runs)


cdef void paste_task(const void *call, Py_ssize_t task, char *memory) noexcept nogil:
    cdef const Paste *paste = <const Paste*>call
    cdef Py_ssize_t part = task % paste.parts
    if paste.codes != NULL:
        paste_codes(paste, task, <MaskLines*>memory)
    else:
        paste_rows(paste, task // paste.parts, paste.height * part // paste.parts,
                   paste.height * (part + 1) // paste.parts, <MaskLines*>memory)
    if paste.streaming:
        stream_fence()


cdef int run_part(Paste *paste, Team *team) noexcept nogil:
    """Divide images into parts of some rows, and codes into masks, and carry them out."""
    cdef Py_ssize_t pixels = paste.height * paste.width, wanted = 1, count = paste.count
    cdef Py_ssize_t scratch = sizeof(MaskLines)
    cdef int threads = paste.threads
    paste.parts = 1
    if paste.codes == NULL:
        if threads > 1:
            wanted = min(TASKS_PER_THREAD * threads // count,
                         pixels * paste.out_itemsize // PASTE_TASK_BYTES)
        wanted = max(wanted, pixels // PASTE_TASK_PIXELS + 1)
        paste.parts = min(wanted, max(paste.height, 1))
    threads = <int>min(<Py_ssize_t>threads, count * paste.parts)
    if paste.masks.mixed != NULL:
        scratch = MIXED_LINES * sizeof(MaskLines) + paste.scratch
    return run_tasks(paste, count * paste.parts, threads, scratch, paste_task, team)


cdef int run_all(void *given, Team *team) noexcept nogil:
    """Paste all masks.  Codes grow by some columns at a time."""
    cdef Paste *paste = <Paste*>given
    cdef Py_ssize_t columns = max(PASTE_TASK_PIXELS // max(paste.height, 1), 1)
    if paste.codes == NULL:
        return run_part(paste, team)
    while paste.first_column == 0 or paste.first_column < paste.width:
        paste.stop_column = min(paste.first_column + columns, paste.width)
        if run_part(paste, team) < 0:
            return -1
        paste.first_column += columns
    return 0


cdef int run(Paste *paste, Py_ssize_t count, int threads) except -1:
    paste.count, paste.threads = count, threads
    return run_call(run_all, paste, paste.masks.mixed == NULL and (
        <double>count * paste.height * paste.width < SMALL_PIXELS))


# Where arrays lie.  Whoever calls `images` or `codes` holds them.

cdef int set_numbers(Masks *masks, const real[:, :, ::1] numbers) except -1:
    """Masks (K, h, w), or prototypes that they are made of."""
    masks.numbers, masks.single = &numbers[0, 0, 0], sizeof(real) == sizeof(float)
    masks.extent[0], masks.extent[1] = <int32_t>numbers.shape[2], <int32_t>numbers.shape[1]
    return 0


cdef int set_coefficients(Prototypes *mixed, const real[:, ::1] coefficients) except -1:
    mixed.coefficients, mixed.count = &coefficients[0, 0], coefficients.shape[1]
    return 0


cdef int set_masks(
        Paste *paste, given, const int64_t[:, ::1] places, const double[:, ::1] corners,
        rule) except -1:
    """Masks as they are, or prototypes.Mixed."""
    cdef Masks *masks = &paste.masks
    numbers = getattr(given, "prototypes", given)
    if numbers.itemsize == sizeof(float):
        set_numbers[float](masks, numbers)
    else:
        set_numbers[double](masks, numbers)
    masks.places, masks.corners = <const Place*>&places[0, 0], &corners[0, 0]
    masks.rule, masks.threshold = rule
    if isinstance(given, tuple):
        set_mixed(paste, given, given.boxes)
    return 0


cdef int set_mixed(Paste *paste, given, const int64_t[:, ::1] boxes) except -1:
    cdef Masks *masks = &paste.masks
    cdef Prototypes *mixed = &paste.mixed
    cdef Py_ssize_t[2] extent = [masks.extent[0], masks.extent[1]]     # x, y
    cdef int axis, along_y = masks.along_y
    if masks.single:
        set_coefficients[float](mixed, given.coefficients)
    else:
        set_coefficients[double](mixed, given.coefficients)
    mixed.numbers, mixed.width, mixed.height = masks.numbers, extent[0], extent[1]
    mixed.boxes = &boxes[0, 0]
    mixed.squashed, mixed.cut, masks.squashed = given.squashed, given.cut, given.squashed_last
    masks.mixed = mixed
    paste.scratch = extent[0] * extent[1] * <Py_ssize_t>(
        sizeof(float) if masks.single else sizeof(double))
    paste.enlarged = masks[0]
    paste.enlarged.squashed, paste.enlarged.values = False, REAL_VALUES
    paste.enlarged.places = &paste.whole
    for axis in range(2):
        paste.enlarged.extent[axis ^ along_y] = <int32_t>extent[axis]
        paste.whole.size[axis] = given.times * extent[axis]
        masks.skipped[axis], masks.extent[axis ^ along_y] = given.skipped[axis], given.shown[axis]
    if given.times > 1:
        masks.enlarged = &paste.enlarged
    return 0


def images(masks, places, corners, rule, int values, out, bint cleared, int threads):
    """Paste at least one mask into `out` (K, H, W), of any strides; cleared: it is all zeros.

    masks: (K, h, w) with their borders, in the order of C, or prototypes.Mixed; places: int64
    (K, 8), as struct mask_place; corners: float64 (K, 4); rule: (of RULES, threshold); values: as
    in masks.h.
    """
    cdef list kept = []
    cdef Paste paste
    cdef Py_buffer *view = buffer_of(kept, out)
    memset(&paste, 0, sizeof(paste))
    paste.simd, paste.masks.values = tables, values
    set_masks(&paste, masks, places, corners, rule)
    paste.out, paste.out_itemsize = <char*>view.buf, view.itemsize
    paste.out_image, paste.out_row, paste.out_column = (
        view.strides[0], view.strides[1], view.strides[2])
    paste.height, paste.width = view.shape[1], view.shape[2]
    paste.cleared = cleared
    # Pages that the system has cleared for a store are in cache.
    paste.streaming = not cleared and view.len > STREAM_BYTES
    run(&paste, view.shape[0], threads)


def codes(masks, places, corners, rule, shape, int threads):
    """Return the run-length codes of at least one mask, as bytes.

    masks: (K, w, h), transposed, or prototypes.Mixed, else as for `images`; shape: (H, W).
    """
    cdef Paste paste
    cdef Py_ssize_t k, count = len(places)
    memset(&paste, 0, sizeof(paste))
    paste.simd, paste.masks.values, paste.masks.along_y = tables, REACHED, True
    set_masks(&paste, masks, places, corners, rule)
    paste.height, paste.width = shape
    paste.codes = <Runs*>calloc(count, sizeof(Runs))
    if paste.codes == NULL:
        raise MemoryError(f"no memory for {count} run-length codes")
    try:
        run(&paste, count, threads)
        for k in range(count):
            if paste.codes[k].lacks_memory:
                raise MemoryError(f"no memory for the run-length code of mask {k}")
        return [paste.codes[k].text[:paste.codes[k].used] for k in range(count)]
    finally:
        for k in range(count):
            free(paste.codes[k].text)
        free(paste.codes)
