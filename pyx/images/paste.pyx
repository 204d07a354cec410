"""Paste: masks into images, or into run-length codes, where their boxes are.

A pixel is the bilinear value of a mask at its centre.  Rows of images are computed with x as the
axis of vectors, and columns of codes with y.  Both add the products in the same order, so that
the codes describe exactly the images.
"""
from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from images.buffers cimport buffer_of, memory_of
from images.masks cimport (REACHED, TORCHVISION, MaskAxis, MaskLines, Runs, mask_begin, mask_line,
                           runs_add, runs_add_pixels, runs_end)
from simd.simd cimport stream_clear, stream_copy, stream_fence
from threads cimport run_tasks
from tuning cimport PASTE_PIXELS, PASTE_TASK_BYTES, STREAM_BYTES, TASKS_PER_THREAD

# PyTorch adds the products of a resized mask corner by corner if its height and width are together
# at most so many pixels, and else along x and then along y.
cdef enum: CORNERS_SIDES = 128


cdef struct Place:                 # of a mask in its image; int64_t throughout
    int64_t y0                     # pixels that are written from the mask
    int64_t y1
    int64_t x0
    int64_t x1
    int64_t origin_y               # TORCHVISION: first pixel and size of the resized mask
    int64_t origin_x
    int64_t height
    int64_t width


cdef struct Paste:
    const char *masks              # [K][line][number], with their borders
    const Place *places            # [K]
    const double *corners          # [K][x1, y1, x2, y2]
    int32_t lines                  # of a mask: its rows, or its columns for codes
    int32_t numbers                # of a line
    Py_ssize_t itemsize            # of the masks
    int rule                       # of the enums of masks.h
    int values
    double threshold
    char *out
    Py_ssize_t out_image           # strides and the size of an element in bytes
    Py_ssize_t out_row
    Py_ssize_t out_column
    Py_ssize_t out_itemsize
    Py_ssize_t height              # of an image
    Py_ssize_t width
    bint streaming
    bint cleared                   # all pixels are 0 beforehand
    Runs *codes                    # [K], of masks that are transposed; NULL for images
    Py_ssize_t parts               # of an image, some rows each; a task is one of them


cdef struct Scratch:               # of one thread: numbers of pixels of a line
    double[PASTE_PIXELS] low_weight
    double[PASTE_PIXELS] high_weight
    double[2][PASTE_PIXELS] low
    double[2][PASTE_PIXELS] high
    double[PASTE_PIXELS] pixels
    int32_t[PASTE_PIXELS] at_low
    int32_t[PASTE_PIXELS] at_high
    uint8_t[PASTE_PIXELS] small


cdef inline MaskAxis axis_of(
        const Paste *paste, Py_ssize_t k, bint is_y, int32_t extent) noexcept nogil:
    cdef const Place *place = paste.places + k
    cdef const double *corners = paste.corners + 4 * k
    cdef MaskAxis axis
    axis.origin = place.origin_y if is_y else place.origin_x
    axis.size = place.height if is_y else place.width
    axis.start, axis.stop = corners[is_y], corners[2 + is_y]
    axis.extent = extent
    return axis


cdef inline MaskLines lines_of(
        const Paste *paste, Py_ssize_t k, bint along_y, Scratch *scratch) noexcept nogil:
    """The lines of mask k: its columns for `along_y`, else its rows."""
    cdef const Place *place = paste.places + k
    cdef MaskLines lines
    cdef int i
    lines.mask = paste.masks + k * paste.lines * paste.numbers * paste.itemsize
    lines.single, lines.along_y = paste.itemsize == sizeof(float), along_y
    lines.corners = paste.rule != TORCHVISION or place.height + place.width <= CORNERS_SIDES
    lines.rule, lines.values, lines.threshold = paste.rule, paste.values, paste.threshold
    lines.along = axis_of(paste, k, along_y, paste.numbers)
    lines.across = axis_of(paste, k, not along_y, paste.lines)
    lines.taps.low, lines.taps.high = scratch.at_low, scratch.at_high
    lines.taps.low_weight, lines.taps.high_weight = scratch.low_weight, scratch.high_weight
    for i in range(2):
        lines.low[i], lines.high[i] = scratch.low[i], scratch.high[i]
    lines.pixels, lines.small = scratch.pixels, scratch.small
    return lines


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
        stream_clear(out, count * paste.out_itemsize)
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
        stream_copy(out, pixels, count * size)
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
        Scratch *scratch) noexcept nogil:
    """Write rows first to stop - 1 of an image."""
    cdef const Place *place = paste.places + k
    cdef char *image = paste.out + k * paste.out_image
    cdef Py_ssize_t y0 = max(first, place.y0), y1 = min(stop, place.y1), y, x = place.x0
    cdef MaskLines lines = lines_of(paste, k, False, scratch)
    if y0 >= y1 or place.x0 >= place.x1:
        clear_between(paste, image, first, 0, stop, 0)
        return
    clear_between(paste, image, first, 0, y0, place.x0)
    while x < place.x1:
        mask_begin(&lines, x, min(<Py_ssize_t>PASTE_PIXELS, place.x1 - x))
        for y in range(y0, y1):
            put_pixels(paste, image + y * paste.out_row + x * paste.out_column,
                       <const char*>mask_line(&lines, y), lines.count)
            if x + lines.count == place.x1 and y + 1 < y1:
                clear_between(paste, image, y, place.x1, y + 1, place.x0)
        x += lines.count
    clear_between(paste, image, y1 - 1, place.x1, stop, 0)


# Codes

cdef void paste_codes(const Paste *paste, Py_ssize_t k, Scratch *scratch) noexcept nogil:
    """Write the run-length code of a mask, column by column."""
    cdef Py_ssize_t y, x, height = paste.height
    cdef const Place *place = paste.places + k
    cdef Runs *runs = paste.codes + k
    cdef MaskLines lines = lines_of(paste, k, True, scratch)
    cdef bint whole = place.y1 - place.y0 <= PASTE_PIXELS
    if place.y0 >= place.y1 or place.x0 >= place.x1:
        runs_add(runs, 0, height * paste.width)
        runs_end(runs)
        return
    if whole:
        mask_begin(&lines, place.y0, place.y1 - place.y0)
    runs_add(runs, 0, height * place.x0)
    for x in range(place.x0, place.x1):
        runs_add(runs, 0, place.y0)
        y = place.y0
        while y < place.y1:
            if not whole:
                mask_begin(&lines, y, min(<Py_ssize_t>PASTE_PIXELS, place.y1 - y))
            runs_add_pixels(runs, <const uint8_t*>mask_line(&lines, x), lines.count)
            y += lines.count
        runs_add(runs, 0, height - place.y1)
    runs_add(runs, 0, height * (paste.width - place.x1))
    runs_end(runs)


cdef void paste_task(const void *call, Py_ssize_t task, char *memory) noexcept nogil:
    cdef const Paste *paste = <const Paste*>call
    cdef Py_ssize_t part = task % paste.parts
    if paste.codes != NULL:
        paste_codes(paste, task, <Scratch*>memory)
    else:
        paste_rows(paste, task // paste.parts, paste.height * part // paste.parts,
                   paste.height * (part + 1) // paste.parts, <Scratch*>memory)
    if paste.streaming:
        stream_fence()


cdef int run_paste(Paste *paste, Py_ssize_t count, int threads) except -1:
    """Divide images into parts of some rows, and codes into masks, and carry them out."""
    cdef Py_ssize_t image_bytes = paste.height * paste.width * paste.out_itemsize
    paste.parts = 1
    if paste.codes == NULL and threads > 1:
        paste.parts = min(TASKS_PER_THREAD * threads // count, image_bytes // PASTE_TASK_BYTES)
        paste.parts = min(max(paste.parts, 1), max(paste.height, 1))
    threads = <int>min(<Py_ssize_t>threads, count * paste.parts)
    return run_tasks(paste, count * paste.parts, threads, sizeof(Scratch), paste_task)


cdef Paste paste_of(list kept, masks, places, corners, rule) except *:
    cdef Paste paste
    cdef Py_buffer *view = buffer_of(kept, masks)
    memset(&paste, 0, sizeof(paste))
    paste.masks, paste.itemsize = <const char*>view.buf, view.itemsize
    paste.lines, paste.numbers = <int32_t>view.shape[1], <int32_t>view.shape[2]
    paste.places = <const Place*>buffer_of(kept, places).buf
    paste.corners = <const double*>buffer_of(kept, corners).buf
    paste.rule, paste.threshold = rule
    return paste


def images(masks, places, corners, rule, int values, out, bint cleared, int threads):
    """Paste at least one mask into `out` (K, H, W), of any strides; cleared: it is all zeros.

    masks: (K, h, w) with their borders, in the order of C; places: int64 (K, 8), as struct Place;
    corners: float64 (K, 4); rule: (of RULES, threshold); values: as in masks.h.
    """
    cdef list kept = []
    cdef Paste paste = paste_of(kept, masks, places, corners, rule)
    cdef Py_buffer *view = buffer_of(kept, out)
    paste.values = values
    paste.out, paste.out_itemsize = <char*>view.buf, view.itemsize
    paste.out_image, paste.out_row, paste.out_column = (
        view.strides[0], view.strides[1], view.strides[2])
    paste.height, paste.width = view.shape[1], view.shape[2]
    paste.cleared = cleared
    # Pages that the system has cleared for a store are in cache.
    paste.streaming = not cleared and view.len > STREAM_BYTES
    run_paste(&paste, view.shape[0], threads)


def codes(masks, places, corners, rule, shape, int threads):
    """Return the run-length codes of at least one mask, as bytes.

    masks: (K, w, h), transposed, else as for `images`; shape: (H, W).
    """
    cdef list kept = []
    cdef Paste paste = paste_of(kept, masks, places, corners, rule)
    cdef Py_ssize_t k, count = len(masks)
    paste.values = REACHED
    paste.height, paste.width = shape
    paste.codes = <Runs*>memory_of(kept, count * sizeof(Runs), True)
    try:
        run_paste(&paste, count, threads)
        for k in range(count):
            if paste.codes[k].lacks_memory:
                raise MemoryError(f"no memory for the run-length code of mask {k}")
        return [paste.codes[k].text[:paste.codes[k].used] for k in range(count)]
    finally:
        for k in range(count):
            free(paste.codes[k].text)
