"""Paste: masks into images, or into run-length codes, where their boxes are.

A pixel is the bilinear value of a mask at its centre.  Rows of images are computed with x as the
axis of vectors, and columns of codes with y.  Both add the products in the same order, so that
the codes describe exactly the images.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from images.masks cimport (MaskAxis, MaskCorner, MaskTaps, Runs, blend_corners, blend_rows,
                           blend_taps, blend_twice, pick_taps, reach, resized_taps, runs_add,
                           runs_add_pixels, runs_end, sampled_taps, to_bytes)
from simd.simd cimport LANE_BYTES, real, stream_clear, stream_copy, stream_fence
from threads cimport run_tasks
from tuning cimport PASTE_PIXELS, PASTE_TASK_BYTES, STREAM_BYTES

cdef enum Rule:                    # in the order of RULES in roicy/masks.py
    TORCHVISION                    # the mask is resized to whole pixels
    DETECTRON2                     # the mask is sampled at the centres of pixels
    MMDET                          # as DETECTRON2, but points at infinity lie in the middle

cdef enum Values:
    REAL_VALUES                    # as they are
    REACHED                        # whether they are at least the threshold
    BYTES                          # 255 times as much, from 0 to 255

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
    const char *masks              # [K][rows][columns], with their borders
    const Place *places            # [K]
    const double *corners          # [K][x1, y1, x2, y2]
    Py_ssize_t rows                # of a mask
    Py_ssize_t columns
    int itemsize                   # of the masks
    int rule                       # of enum Rule
    int values                     # of enum Values
    double threshold
    char *out
    Py_ssize_t out_image           # strides and the size of an element in bytes
    Py_ssize_t out_row
    Py_ssize_t out_column
    int out_itemsize
    Py_ssize_t height              # of an image
    Py_ssize_t width
    bint streaming
    bint cleared                   # all pixels are 0 beforehand
    Runs *codes                    # [K], of masks that are transposed; NULL for images
    Py_ssize_t parts               # of an image, some rows each; a task is one of them


cdef struct MaskLines:             # the rows of a mask, or its columns, at the pixels along them
    bint along_y                   # the lines are columns
    bint corners                   # a pixel is a sum of four products, not of two and then two
    const char *mask
    Py_ssize_t step                # bytes from one line of the mask to the next
    Py_ssize_t count               # pixels along a line
    MaskTaps taps                  # of these pixels
    int32_t kept[2]                # which even and which odd line is in `low` and `high`
    void *low[2]                   # a row blended along x; or a line's numbers at the low taps
    void *high[2]                  # numbers at the high taps, of columns or with `corners`


cdef inline MaskAxis axis_of(const Paste *paste, Py_ssize_t k, bint is_y) noexcept nogil:
    cdef const Place *place = paste.places + k
    cdef const double *corners = paste.corners + 4 * k
    cdef MaskAxis axis
    axis.origin = place.origin_y if is_y else place.origin_x
    axis.size = place.height if is_y else place.width
    axis.start, axis.stop = corners[is_y], corners[2 + is_y]
    axis.extent = <int32_t>(paste.rows if is_y else paste.columns)
    axis.infinite_is_middle = paste.rule == MMDET
    return axis


cdef inline void taps_of(
        const Paste *paste, const MaskAxis *axis, Py_ssize_t first, Py_ssize_t count,
        const MaskTaps *taps, const real *values) noexcept nogil:
    if paste.rule == TORCHVISION:
        resized_taps(axis, first, count, taps, values)
    else:
        sampled_taps(axis, first, count, taps, values)


cdef inline void *take(char **memory, Py_ssize_t size) noexcept nogil:
    """Return so many bytes of scratch, on a cache line."""
    cdef void *piece = memory[0]
    memory[0] += (size + LANE_BYTES - 1) // LANE_BYTES * LANE_BYTES
    return piece


cdef inline MaskLines lines_of(
        const Paste *paste, Py_ssize_t k, bint along_y, char **memory) noexcept nogil:
    """Scratch for the lines of mask k: its columns for `along_y`, else its rows."""
    cdef const Place *place = paste.places + k
    cdef Py_ssize_t length = paste.rows if along_y else paste.columns
    cdef MaskLines lines
    cdef int i
    memset(&lines, 0, sizeof(lines))
    lines.along_y = along_y
    lines.corners = paste.rule != TORCHVISION or place.height + place.width <= CORNERS_SIDES
    lines.step = length * paste.itemsize
    lines.mask = paste.masks + k * paste.rows * paste.columns * paste.itemsize
    lines.taps.low = <int32_t*>take(memory, PASTE_PIXELS * sizeof(int32_t))
    lines.taps.high = <int32_t*>take(memory, PASTE_PIXELS * sizeof(int32_t))
    lines.taps.low_weight = take(memory, PASTE_PIXELS * sizeof(double))
    lines.taps.high_weight = take(memory, PASTE_PIXELS * sizeof(double))
    for i in range(2):
        lines.low[i] = take(memory, PASTE_PIXELS * sizeof(double))
        lines.high[i] = take(memory, PASTE_PIXELS * sizeof(double))
    return lines


cdef inline void begin_lines(
        const Paste *paste, MaskLines *lines, const MaskAxis *axis, Py_ssize_t first,
        Py_ssize_t count, const real *values) noexcept nogil:
    """Make the taps of pixels along the lines, and keep no line of the mask."""
    lines.count = count
    lines.kept[0] = lines.kept[1] = -1
    taps_of(paste, axis, first, count, &lines.taps, values)


cdef inline int keep_line(MaskLines *lines, int32_t line, real *values) noexcept nogil:
    """Compute what is needed of a line of the mask, unless it is kept; return where it is."""
    cdef int slot = line & 1
    cdef const real *mask = <const real*>(lines.mask + line * lines.step)
    if lines.kept[slot] == line:
        return slot
    lines.kept[slot] = line
    if lines.corners or lines.along_y:
        pick_taps(<real*>lines.low[slot], <real*>lines.high[slot], mask, &lines.taps, lines.count)
    else:
        blend_taps(<real*>lines.low[slot], mask, &lines.taps, lines.count)
    return slot


cdef inline MaskCorner corner(
        const void *values, const void *weights, double weight) noexcept nogil:
    cdef MaskCorner one
    one.values, one.weights, one.weight = values, weights, weight
    return one


cdef inline void blend_lines(
        const Paste *paste, const MaskLines *lines, const int *slots, const real *weights,
        real *values) noexcept nogil:
    """values = the pixels between two kept lines of the mask, which have these weights."""
    cdef MaskCorner corners[4]
    cdef MaskCorner first
    cdef int i = 2 if lines.along_y and lines.corners else 1
    if not (lines.along_y or lines.corners):
        blend_rows(values, <const real*>lines.low[slots[0]], <const real*>lines.low[slots[1]],
                   weights[0], weights[1], lines.count)
        return
    if lines.along_y and not lines.corners:      # along x first, as rows are
        corners[0] = corner(lines.low[slots[0]], lines.taps.low_weight, weights[0])
        corners[1] = corner(lines.low[slots[1]], lines.taps.low_weight, weights[1])
        corners[2] = corner(lines.high[slots[0]], lines.taps.high_weight, weights[0])
        corners[3] = corner(lines.high[slots[1]], lines.taps.high_weight, weights[1])
        blend_twice(values, corners, lines.count)
        return
    # above on the left, above on the right, below on the left, below on the right
    corners[0] = corner(lines.low[slots[0]], lines.taps.low_weight, weights[0])
    corners[i] = corner(lines.high[slots[0]], lines.taps.high_weight, weights[0])
    corners[3 - i] = corner(lines.low[slots[1]], lines.taps.low_weight, weights[1])
    corners[3] = corner(lines.high[slots[1]], lines.taps.high_weight, weights[1])
    if paste.rule == TORCHVISION:      # begins with the corner above on the right
        first = corners[0]
        corners[0], corners[1] = corners[1], first
    blend_corners(values, corners, lines.count)


cdef inline void one_line(
        const Paste *paste, MaskLines *lines, const MaskAxis *across, Py_ssize_t pixel,
        real *values) noexcept nogil:
    """values = a row of pixels of an image, or a column."""
    cdef int32_t ends[2]
    cdef real weights[2]
    cdef int slots[2]
    cdef MaskTaps tap
    tap.low, tap.high = ends, ends + 1
    tap.low_weight, tap.high_weight = weights, weights + 1
    taps_of(paste, across, pixel, 1, &tap, values)
    slots[0] = keep_line(lines, ends[0], values)
    slots[1] = keep_line(lines, ends[1], values)
    blend_lines(paste, lines, slots, weights, values)


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
        const Paste *paste, char *out, const real *values, Py_ssize_t count,
        uint8_t *small) noexcept nogil:
    """Write pixels of a row; small: scratch."""
    cdef const char *source = <const char*>values
    cdef Py_ssize_t i
    if paste.values == REACHED:
        reach(small, values, <real>paste.threshold, count)
        source = <const char*>small
    elif paste.values == BYTES:
        to_bytes(small, values, count)
        source = <const char*>small
    if paste.out_column != paste.out_itemsize:
        for i in range(count):
            memcpy(out + i * paste.out_column, source + i * paste.out_itemsize, paste.out_itemsize)
    elif paste.streaming:
        stream_copy(out, source, count * paste.out_itemsize)
    else:
        memcpy(out, source, count * paste.out_itemsize)


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
        const Paste *paste, Py_ssize_t task, char *memory, const real *_) noexcept nogil:
    """Write some rows of an image."""
    cdef Py_ssize_t k = task // paste.parts, part = task % paste.parts, y, x, count
    cdef Py_ssize_t first = paste.height * part // paste.parts
    cdef Py_ssize_t stop = paste.height * (part + 1) // paste.parts
    cdef const Place *place = paste.places + k
    cdef char *image = paste.out + k * paste.out_image
    cdef Py_ssize_t y0 = max(first, place.y0), y1 = min(stop, place.y1)
    cdef MaskAxis down = axis_of(paste, k, True), along = axis_of(paste, k, False)
    cdef real *values = <real*>take(&memory, PASTE_PIXELS * sizeof(real))
    cdef uint8_t *small = <uint8_t*>take(&memory, PASTE_PIXELS)
    cdef MaskLines lines = lines_of(paste, k, False, &memory)
    if y0 >= y1 or place.x0 >= place.x1:
        clear_between(paste, image, first, 0, stop, 0)
        return
    clear_between(paste, image, first, 0, y0, place.x0)
    x = place.x0
    while x < place.x1:
        count = min(<Py_ssize_t>PASTE_PIXELS, place.x1 - x)
        begin_lines(paste, &lines, &along, x, count, values)
        for y in range(y0, y1):
            one_line(paste, &lines, &down, y, values)
            put_pixels(paste, image + y * paste.out_row + x * paste.out_column, values, count,
                       small)
            if x + count == place.x1 and y + 1 < y1:
                clear_between(paste, image, y, place.x1, y + 1, place.x0)
        x += count
    clear_between(paste, image, y1 - 1, place.x1, stop, 0)


# Codes

cdef void paste_codes(
        const Paste *paste, Py_ssize_t k, char *memory, const real *_) noexcept nogil:
    """Write the run-length code of a mask, column by column."""
    cdef Py_ssize_t y, x, count
    cdef Py_ssize_t height = paste.height
    cdef const Place *place = paste.places + k
    cdef Runs *runs = paste.codes + k
    cdef MaskAxis down = axis_of(paste, k, True), along = axis_of(paste, k, False)
    cdef real *values = <real*>take(&memory, PASTE_PIXELS * sizeof(real))
    cdef uint8_t *small = <uint8_t*>take(&memory, PASTE_PIXELS)
    cdef MaskLines lines = lines_of(paste, k, True, &memory)
    cdef bint whole = place.y1 - place.y0 <= PASTE_PIXELS
    if place.y0 >= place.y1 or place.x0 >= place.x1:
        runs_add(runs, 0, height * paste.width)
        runs_end(runs)
        return
    if whole:
        begin_lines(paste, &lines, &down, place.y0, place.y1 - place.y0, values)
    runs_add(runs, 0, height * place.x0)
    for x in range(place.x0, place.x1):
        runs_add(runs, 0, place.y0)
        y = place.y0
        while y < place.y1:
            if not whole:
                count = min(<Py_ssize_t>PASTE_PIXELS, place.y1 - y)
                begin_lines(paste, &lines, &down, y, count, values)
            one_line(paste, &lines, &along, x, values)
            reach(small, values, <real>paste.threshold, lines.count)
            runs_add_pixels(runs, small, lines.count)
            y += lines.count
        runs_add(runs, 0, height - place.y1)
    runs_add(runs, 0, height * (paste.width - place.x1))
    runs_end(runs)


cdef void paste_task(const void *call, Py_ssize_t task, char *memory) noexcept nogil:
    cdef const Paste *paste = <const Paste*>call
    cdef bint single = paste.itemsize == sizeof(float)
    if paste.codes != NULL and single:
        paste_codes(paste, task, memory, <const float*>NULL)
    elif paste.codes != NULL:
        paste_codes(paste, task, memory, <const double*>NULL)
    elif single:
        paste_rows(paste, task, memory, <const float*>NULL)
    else:
        paste_rows(paste, task, memory, <const double*>NULL)
    if paste.streaming:
        stream_fence()


cdef int run_paste(Paste *paste, Py_ssize_t count, int threads) except -1:
    """Divide images into parts of some rows, and codes into masks, and carry them out."""
    cdef Py_ssize_t image_bytes = paste.height * paste.width * paste.out_itemsize
    cdef Py_ssize_t scratch = (PASTE_PIXELS * (2 * sizeof(int32_t) + 7 * sizeof(double) + 1)
                               + 16 * LANE_BYTES)
    paste.parts = 1
    if paste.codes == NULL and threads > 1:
        paste.parts = max(min(4 * threads // count, image_bytes // PASTE_TASK_BYTES), 1)
        paste.parts = min(paste.parts, max(paste.height, 1))
    threads = <int>min(<Py_ssize_t>threads, count * paste.parts)
    return run_tasks(paste, count * paste.parts, threads, scratch, paste_task)


cdef Paste paste_of(
        const real[:, :, ::1] masks, const int64_t[:, ::1] places, const double[:, ::1] corners,
        tuple rule):
    cdef Paste paste
    memset(&paste, 0, sizeof(paste))
    paste.masks = <const char*>&masks[0, 0, 0]
    paste.rows, paste.columns, paste.itemsize = masks.shape[1], masks.shape[2], sizeof(real)
    paste.places = <const Place*>&places[0, 0]
    paste.corners = &corners[0, 0]
    paste.rule, paste.threshold = rule
    return paste


def images(const real[:, :, ::1] masks, const int64_t[:, ::1] places,
           const double[:, ::1] corners, tuple rule, int values, out, bint cleared, int threads):
    """Paste at least one mask into `out` (K, H, W), of any strides; cleared: it is all zeros.

    masks: (K, h, w) with their borders; places: as struct Place; rule: (of enum Rule, threshold);
    values: of enum Values.
    """
    cdef Paste paste = paste_of(masks, places, corners, rule)
    cdef Py_ssize_t address = out.__array_interface__["data"][0]
    paste.values = values
    paste.out, paste.out_itemsize = <char*>address, out.itemsize
    paste.out_image, paste.out_row, paste.out_column = out.strides
    paste.height, paste.width = out.shape[1:]
    paste.cleared = cleared
    # Pages that the system has cleared for a store are in cache.
    paste.streaming = not cleared and out.nbytes > STREAM_BYTES
    run_paste(&paste, masks.shape[0], threads)


def codes(const real[:, :, ::1] masks, const int64_t[:, ::1] places,
          const double[:, ::1] corners, tuple rule, shape, int threads):
    """Return the run-length codes of at least one mask, as bytes.

    masks: (K, w, h), transposed, with their borders; places: as struct Place; rule: (of enum
    Rule, threshold); shape: (H, W).
    """
    cdef Paste paste = paste_of(masks, places, corners, rule)
    cdef Py_ssize_t k, count = masks.shape[0]
    paste.rows, paste.columns = masks.shape[2], masks.shape[1]
    paste.height, paste.width = shape
    paste.codes = <Runs*>calloc(count, sizeof(Runs))
    if paste.codes == NULL:
        raise MemoryError(f"no memory for {count} codes")
    try:
        run_paste(&paste, count, threads)
        for k in range(count):
            if paste.codes[k].lacks_memory:
                raise MemoryError(f"no memory for the run-length code of mask {k}")
        return [paste.codes[k].text[:paste.codes[k].used] for k in range(count)]
    finally:
        for k in range(count):
            free(paste.codes[k].text)
        free(paste.codes)
