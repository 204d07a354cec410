"""Paste: masks into images, or into run-length codes, where their boxes are.

A pixel is the bilinear value of a mask at its centre.  Rows of images are computed with x as the
axis of vectors, and columns of codes with y.  Both add the products in the same order, so that
the codes describe exactly the images.
"""
from cpython.buffer cimport Py_buffer
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from arrays cimport Array, number_in
from errors cimport NO_MEMORY, Error, fail, last_error
from forms cimport form_of
from images.buffers cimport buffer_of, memory_of
from images.places cimport Placing, place_masks
from images.runs cimport code_of, free_texts
from images.structs cimport (REACHED, REAL_VALUES, ImageTable, MaskLines, Masks, Place, Prototypes,
                             Runs, runs_add, runs_add_pixels, runs_end)
from roicy._kernels.isa cimport isa_tables
from simd.structs cimport real, stream_fence
from simd.table cimport Simd
from threads cimport (BRIEF, PyThreadState, Team, give_lock_for, nanoseconds, run_call, run_tasks,
                      take_lock_again)
from tuning cimport STREAM_BYTES, TASKS_PER_THREAD

cdef enum:
    PASTE_TASK_BYTES = 1 << 20     # of images, at least, that a task of a mask writes  # no record
    PASTE_TASK_PIXELS = 1 << 25    # at most: a quarter of a second                     # no record
    SMALL_PIXELS = 1 << 16         # of all images: BRIEF                                # no record
    PLACE = 160                    # nanoseconds that the place of a mask takes          # no record
    MIXED_LINES = 2                # of a mixed mask, which may be enlarged before it is resized


cdef struct Given:                 # masks as the caller has them, which get a border first
    const char *start
    Py_ssize_t[3] strides          # in bytes
    Py_ssize_t[3] extents          # K, h, w
    Py_ssize_t itemsize
    int border                     # zeros around each


cdef struct Paste:
    const Simd *simd
    const ImageTable *table
    Given given                    # `start` is NULL where nothing is copied
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


cdef inline void begin(Paste *paste) noexcept nogil:
    """Set all to zero, and the functions to those of the instruction set in use."""
    memset(paste, 0, sizeof(paste[0]))
    paste.simd, paste.table = isa_tables.simd, <const ImageTable*>isa_tables.images


cdef inline void open_mask(
        const Paste *paste, Py_ssize_t k, Py_ssize_t y0, Py_ssize_t y1, Py_ssize_t x0,
        Py_ssize_t x1, MaskLines *lines) noexcept nogil:
    """Begin with a mask, of which rows y0 to y1 - 1 and columns x0 to x1 - 1 are computed."""
    cdef int64_t[2][2] pixels
    cdef int along_y = paste.masks.along_y
    if paste.masks.mixed == NULL:
        paste.table.mask_open(lines, &paste.masks, k)
        return
    pixels[along_y][0], pixels[along_y][1] = x0, x1
    pixels[1 - along_y][0], pixels[1 - along_y][1] = y0, y1
    paste.table.mask_mix(lines, &paste.masks, k, pixels, lines + MIXED_LINES)


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
        paste.table.mask_begin(lines, x, place.x1)
        for y in range(y0, y1):
            put_pixels(paste, image + y * paste.out_row + x * paste.out_column,
                       <const char*>paste.table.mask_line(lines, y), lines.count)
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
            paste.table.mask_begin(lines, y, place.y1)
            runs_add_pixels(runs, <const uint8_t*>paste.table.mask_line(lines, x), lines.count)
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
    """Carry out tasks: some rows of an image, or a whole mask where codes are wanted."""
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


cdef void copy_masks(const Given *given, char *to) noexcept nogil:
    """Copy masks to cleared memory, each into its border."""
    cdef Py_ssize_t k, y, x, size = given.itemsize, border = given.border
    cdef Py_ssize_t width = given.extents[2] + 2 * border, height = given.extents[1] + 2 * border
    cdef const char *row
    cdef char *target
    for k in range(given.extents[0]):
        for y in range(given.extents[1]):
            row = given.start + k * given.strides[0] + y * given.strides[1]
            target = to + ((k * height + y + border) * width + border) * size
            if given.strides[2] == size:
                memcpy(target, row, given.extents[2] * size)
                continue
            for x in range(given.extents[2]):
                memcpy(target + x * size, row + x * given.strides[2], size)


cdef int run_parts(Paste *paste, Team *team) noexcept nogil:
    """Paste all masks.  Codes grow by some columns at a time."""
    cdef Py_ssize_t columns = max(PASTE_TASK_PIXELS // max(paste.height, 1), 1)
    if paste.codes == NULL:
        return run_part(paste, team)
    while paste.first_column == 0 or paste.first_column < paste.width:
        paste.stop_column = min(paste.first_column + columns, paste.width)
        if run_part(paste, team) < 0:
            return -1
        paste.first_column += columns
    return 0


cdef int run_all(void *call, Team *team) noexcept nogil:
    """Copy masks that need a border, or do not lie end to end, and paste them."""
    cdef Paste *paste = <Paste*>call
    cdef const Given *given = &paste.given
    cdef Py_ssize_t count
    cdef char *copied = NULL
    cdef int failed
    if given.start != NULL:
        count = given.extents[0] * (given.extents[1] + 2 * given.border)
        count *= given.extents[2] + 2 * given.border
        copied = <char*>calloc(max(count, 1), given.itemsize)
        if copied == NULL:
            return fail(NO_MEMORY, "no %zd bytes of scratch for a call", count * given.itemsize)
        copy_masks(given, copied)
        paste.masks.numbers = copied
    failed = run_parts(paste, team)
    free(copied)
    return failed


cdef int run(Paste *paste, Py_ssize_t count, int threads) except -1:
    """Paste masks; those of prototypes are never brief."""
    cdef const Given *given = &paste.given
    cdef double cost = <double>count * paste.height * paste.width
    paste.count, paste.threads = count, threads
    if given.start != NULL:        # which are copied
        cost += <double>given.extents[0] * given.extents[1] * given.extents[2]
    if paste.masks.mixed != NULL:
        cost = INFINITY
    return run_call(run_all, paste, cost * BRIEF / SMALL_PIXELS)


cdef void set_given(
        Paste *paste, const void *start, const Py_ssize_t *extents, const Py_ssize_t *strides,
        Py_ssize_t itemsize, int border) noexcept nogil:
    """Say where masks (K, h, w), or prototypes, lie; strides: in bytes."""
    cdef Given *given = &paste.given
    cdef Masks *masks = &paste.masks
    cdef int i
    masks.numbers, masks.single = start, itemsize == sizeof(float)
    masks.extent[0] = <int32_t>(extents[2] + 2 * border)
    masks.extent[1] = <int32_t>(extents[1] + 2 * border)
    if (border > 0 or strides[2] != itemsize or strides[1] != extents[2] * itemsize
            or strides[0] != extents[1] * strides[1]):
        given.start, given.itemsize, given.border = <const char*>start, itemsize, border
        for i in range(3):
            given.extents[i], given.strides[i] = extents[i], strides[i]


# Where arrays lie.  Whoever calls `images` or `codes` holds them.

cdef int set_numbers(Paste *paste, const real[:, :, :] numbers, int border) except -1:
    set_given(paste, &numbers[0, 0, 0], numbers.shape, numbers.strides, sizeof(real), border)
    return 0


cdef int set_coefficients(Prototypes *mixed, const real[:, ::1] coefficients) except -1:
    mixed.coefficients, mixed.count = &coefficients[0, 0], coefficients.shape[1]
    return 0


cdef int set_masks(
        Paste *paste, given, const int64_t[:, ::1] places, const double[:, ::1] corners,
        rule) except -1:
    """Masks as they are, or prototypes.Mixed."""
    cdef Masks *masks = &paste.masks
    cdef int border
    masks.rule, masks.threshold, border = rule
    numbers = getattr(given, "prototypes", given)
    if numbers.itemsize == sizeof(float):
        set_numbers[float](paste, numbers, border)
    else:
        set_numbers[double](paste, numbers, border)
    masks.places, masks.corners = <const Place*>&places[0, 0], &corners[0, 0]
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


cdef Placing placing_of(rule, mask_width, shape) except *:
    cdef Placing placing
    placing.rule, placing.padding = rule
    placing.mask_width, placing.truncated = mask_width, False
    placing.extent[1], placing.extent[0] = shape
    return placing


cdef Array rows_of(const real[:, :] boxes) noexcept:
    cdef Array rows
    memset(&rows, 0, sizeof(rows))
    rows.data, rows.kind = <char*>&boxes[0, 0], c'f' if sizeof(real) == 4 else c'd'
    rows.extents[0] = boxes.shape[0]
    rows.strides[0], rows.strides[1] = boxes.strides[0], boxes.strides[1]
    return rows


def places(boxes, bint single, rule, Py_ssize_t mask_width, shape):
    """Return where the masks of boxes (K, 4) lie, the corners of these, the first wrong box, and
    what boxes seem to be, as of `form_of`.

    boxes: at least one, of float or double; single: masks are of float; rule: (of RULES, padding);
    shape: (H, W).  The results are int64 (K, 8), as struct mask_place, float64 (K, 4), and the
    place of the first box that is not finite in the type of the masks, or -1.
    """
    cdef Placing placing = placing_of(rule, mask_width, shape)
    cdef Array rows
    made, corners = np.empty((len(boxes), 8), np.int64), np.empty((len(boxes), 4))
    cdef int64_t[:, ::1] places = made
    cdef double[:, ::1] numbers = corners
    cdef Py_ssize_t k, count = len(boxes), wrong
    cdef int i, form
    cdef PyThreadState *state
    if boxes.itemsize == sizeof(float):
        rows = rows_of[float](boxes)
    else:
        rows = rows_of[double](boxes)
    state = give_lock_for(PLACE * <double>count)
    for k in range(count):
        for i in range(4):
            numbers[k, i] = number_in(&rows, k, i)
    form = form_of(&numbers[0, 0], count, placing.extent[1], placing.extent[0])
    wrong = place_masks(&placing, &rows, single, <Place*>&places[0, 0], &numbers[0, 0])
    take_lock_again(state)
    return made, corners, wrong, form


def form(const double[:, ::1] boxes, shape):
    """Return what boxes (K, 4) of an image (H, W) seem to be, as of `form_of`."""
    return form_of(&boxes[0, 0], len(boxes), shape[0], shape[1]) if len(boxes) else 0


cdef int paste_tensors(const PastedMasks *call, Team *team, Error *error) noexcept nogil:
    """Write the values of masks; -1: `error` says what failed; 1: a box is not finite."""
    cdef Paste paste
    cdef Py_ssize_t size = sizeof(float) if call.single else sizeof(double)
    cdef Py_ssize_t[3] strides = [call.extents[1] * call.extents[2] * size,
                                  call.extents[2] * size, size]
    cdef Py_ssize_t count = call.extents[0]
    cdef Place *made = <Place*>malloc(count * (sizeof(Place) + 4 * sizeof(double)))
    cdef double *corners = <double*>(made + count)
    cdef int failed
    begin(&paste)
    if made == NULL:
        failed = fail(NO_MEMORY, "no memory for the places of %zd masks", count)
    elif place_masks(&call.placing, &call.boxes, call.single, made, corners) >= 0:
        failed = 1
    else:
        paste.masks.rule = call.placing.rule
        set_given(&paste, call.masks, call.extents, strides, size, call.placing.padding)
        paste.masks.places, paste.masks.corners = made, corners
        paste.height, paste.width = call.placing.extent[1], call.placing.extent[0]
        paste.out, paste.out_itemsize, paste.out_column = call.out, size, size
        paste.out_row = paste.width * size
        paste.out_image = paste.height * paste.out_row
        paste.streaming = count * paste.out_image > STREAM_BYTES
        paste.count, paste.threads = count, call.threads
        failed = run_all(&paste, team)
    free(made)
    if failed < 0:
        error[0] = last_error
    return failed


def images(masks, places, corners, rule, int values, out, bint cleared, int threads):
    """Paste at least one mask into `out` (K, H, W), of any strides; cleared: it is all zeros.

    masks: (K, h, w), or prototypes.Mixed; places: int64 (K, 8), as struct mask_place; corners:
    float64 (K, 4); rule: (of RULES, threshold, border of zeros around a mask); values: as in
    structs.h.
    """
    cdef list kept = []
    cdef Paste paste
    cdef Py_buffer *view = buffer_of(kept, out, b"fdB", 0)
    begin(&paste)
    paste.masks.values = values
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
    cdef list kept = []
    cdef Paste paste
    cdef Py_ssize_t k, count = len(places)
    cdef long long since
    begin(&paste)
    paste.masks.values, paste.masks.along_y = REACHED, True
    set_masks(&paste, masks, places, corners, rule)
    paste.height, paste.width = shape
    paste.codes = <Runs*>memory_of(kept, count * sizeof(Runs), True)
    try:
        run(&paste, count, threads)
        since = nanoseconds()
        return [code_of(paste.codes, k, &since) for k in range(count)]
    finally:
        free_texts(paste.codes, count)
