"""The operators for other people's Cython and Numba: a request becomes a call, without Python.

roicy/cython_api.pxd says what a request is, and makes requests of views.  All of it is checked
before anything is written, and what is wrong is said as the Python functions say it.  Ctrl-C has to
wait for the end of a call, since nobody here asks for Python's lock.
"""
from libc.math cimport INFINITY, fabs, trunc
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free
from libc.string cimport memset

from arrays cimport Array as Described, contiguous, overlap, span_of, strides_of
from call.describe cimport make_levels, set_channels, set_map, set_result
from errors cimport WRONG_VALUE, Error, allocated, fail, last_error as error, raise_last
from interface.given cimport (
    Text, array_of, check_distinct, check_memory, copy, given_contiguous, has_shape, pack,
    spell_shape)
from interface.boxes cimport Number, spell_number, take_boxes
from limits cimport MAX_EXTENT, MAX_SIDE
from plan.rules cimport RULE_INTEGRATED, RULE_QUANTISED, RULE_SAMPLED
from plan.structs cimport FORWARD, GRAD_BOXES, MAX_PIXEL, MAX_PIXEL_GRAD, Call
from roicy._kernels.machine cimport enter_call, leave_call, most_threads
from roicy._kernels.plan cimport compute_call, end_call
from threads cimport Team, start_team

from roicy._kernels.machine import MOST_THREADS

cdef enum:
    PARTS = 4                      # arrays of a request

cdef int most_given = MOST_THREADS


cdef struct Part:                  # an array of a request
    Described array
    const char *name               # as the function calls it
    bint written
    bint given


# --- What is asked for

cdef int check_options(const Request *request) noexcept nogil:
    cdef double scale = request.spatial_scale
    cdef Number text = spell_number(scale, True)
    if request.size != sizeof(Request):
        return fail(WRONG_VALUE, "a request of %zu bytes, expected %zu: compile the caller with "
                    "the cython_api.pxd of this roicy", request.size, sizeof(Request))
    if not ROI_ALIGN <= request.operation <= ROI_POOL_BACKWARD:
        return fail(WRONG_VALUE, "operation: %d, expected one of roicy.cython_api",
                    request.operation)
    if request.itemsize != sizeof(float) and request.itemsize != sizeof(double):
        return fail(WRONG_VALUE, "itemsize: %d, expected 4 or 8", request.itemsize)
    if not 0 < scale < INFINITY:
        return fail(WRONG_VALUE, "spatial_scale: %s, expected a finite number above 0", text.at)
    if not 1 <= request.num_threads <= most_given:
        return fail(WRONG_VALUE, "num_threads: %d, expected an integer from 1 to %d",
                    request.num_threads, most_given)
    return 0


cdef void set_operation(Call *call, const Request *request) noexcept nogil:
    """Set the rule and the purpose, as roicy/_table.py and operators.py do."""
    cdef int row = request.operation // 3, direction = request.operation % 3
    cdef int[4] kinds = [RULE_SAMPLED, RULE_SAMPLED, RULE_INTEGRATED, RULE_QUANTISED]
    # Purposes are listed as forward, gradient of the input, gradient of the boxes.
    call.purpose = (FORWARD if row < 3 else MAX_PIXEL) + direction
    call.position_sensitive = row == 1
    call.rule.kind = kinds[row]
    if call.rule.kind == RULE_SAMPLED:
        call.rule.sampling_ratio = request.sampling_ratio
        call.rule.aligned = call.position_sensitive or request.aligned
    call.rule.inclusive = call.rule.kind == RULE_QUANTISED
    call.ph, call.pw = <int>request.bins.shape[2], <int>request.bins.shape[3]
    call.boxes.width, call.max_boxes = 4, INT32_MAX
    call.max_threads = min(request.num_threads, most_threads())


# --- Shapes

cdef void list_parts(const Request *request, Part *parts) noexcept nogil:
    cdef bint forward = request.operation % 3 == 0
    cdef bint of_maps = request.operation % 3 == 1
    cdef bint of_pool = request.operation >= ROI_POOL
    cdef bint has_extra = request.operation == ROI_POOL_BACKWARD or not (forward or of_maps)
    cdef int size = request.itemsize, kind = c'f' if size == sizeof(float) else c'd'
    parts[0].name = b"grad_input" if of_maps else b"input"
    parts[0].array, parts[0].written = array_of(&request.maps, kind, size, 4), of_maps
    parts[1].name = b"out" if forward else b"grad_output"
    parts[1].array, parts[1].written = array_of(&request.bins, kind, size, 4), forward
    parts[2].name = b"boxes"
    parts[2].array, parts[2].written = array_of(&request.boxes, kind, size, 2), False
    parts[3].name = b"argmax" if of_pool else b"grad_boxes"
    parts[3].array = array_of(&request.extra, kind, size, 2)
    if of_pool:
        parts[3].array = array_of(&request.extra, c'i', sizeof(int32_t), 4)
    parts[3].written = forward or not of_maps
    parts[0].given = parts[1].given = parts[2].given = True
    parts[3].given = has_extra or of_pool and request.extra.data != NULL


cdef int check_extents(const Request *request, const Part *parts) noexcept nogil:
    """Check that maps and bins can be counted, and rows of boxes have their columns."""
    cdef Py_ssize_t images = request.maps.shape[0]
    cdef Py_ssize_t height = request.maps.shape[2], width = request.maps.shape[3]
    cdef Py_ssize_t ph = request.bins.shape[2], pw = request.bins.shape[3]
    cdef Py_ssize_t[4] rows = [request.boxes.shape[0], 5, 1, 1]
    cdef bint of_pool = request.operation >= ROI_POOL
    cdef Text given = spell_shape(request.bins.shape, 4)
    if height > MAX_EXTENT or width > MAX_EXTENT:
        return fail(WRONG_VALUE, "%s: a map of %zd x %zd pixels, expected at most %d a side",
                    parts[0].name, height, width, <int>MAX_EXTENT)
    if images > INT32_MAX:
        return fail(WRONG_VALUE, "%s: %zd images, expected less than 2**31", parts[0].name, images)
    if of_pool and parts[3].given and height * width > INT32_MAX:
        return fail(WRONG_VALUE, "%s: a map of %zd x %zd pixels, expected less than 2**31, which "
                    "int32 argmax can count", parts[0].name, height, width)
    if not (1 <= ph <= MAX_SIDE and 1 <= pw <= MAX_SIDE):
        return fail(WRONG_VALUE, "%s: shape %s, expected at least one bin, and at most %d a side",
                    parts[1].name, given.at, <int>MAX_SIDE)
    given = spell_shape(request.boxes.shape, 2)
    if not has_shape(&parts[2].array, rows):
        return fail(WRONG_VALUE, "boxes: shape %s, expected (K, 5) with rows [batch_index, x1, y1, "
                    "x2, y2]", given.at)
    return 0


cdef int check_shape(
        const Part *part, const Py_ssize_t *shape, const char *why) noexcept nogil:
    cdef int axes = part.array.axes
    cdef Text given = spell_shape(part.array.extents, axes), expected = spell_shape(shape, axes)
    if has_shape(&part.array, shape):
        return 0
    return fail(WRONG_VALUE, "%s: shape %s, expected %s%s", part.name, given.at, expected.at, why)


cdef int check_shapes(const Call *call, const Request *request, const Part *parts) noexcept nogil:
    """Check the shapes that follow from others: of bins, argmax and gradients of boxes."""
    cdef Py_ssize_t boxes = request.boxes.shape[0]
    cdef Py_ssize_t[4] of_bins = [boxes, call.channels, call.ph, call.pw]
    cdef Py_ssize_t[4] of_boxes = [boxes, 5, 1, 1]
    cdef Text maps = spell_shape(request.maps.shape, 4)
    cdef char[200] why             # a shape, and 80 letters
    why[0] = 0
    if not parts[1].written:
        snprintf(why, sizeof(why), ", for %zd boxes and input of shape %s", boxes, maps.at)
    if check_shape(&parts[1], of_bins, why) < 0:
        return -1
    if call.purpose == GRAD_BOXES:
        return check_shape(&parts[3], of_boxes, b"")
    return check_shape(&parts[3], of_bins, b"") if parts[3].given else 0


cdef int check_written(const Part *parts) noexcept nogil:
    """Check that what is written has memory of its own."""
    cdef int i, k
    for i in range(PARTS):
        if not (parts[i].written and parts[i].given):
            continue
        if check_distinct(&parts[i].array, parts[i].name) < 0:
            return -1
        for k in range(PARTS):
            if k != i and parts[k].given and overlap(
                    span_of(&parts[i].array), span_of(&parts[k].array)):
                return fail(WRONG_VALUE, "%s: overlaps memory that the call %s", parts[i].name,
                            b"writes" if parts[k].written else b"reads")
    return 0


cdef int describe(Call *call, const Request *request, Part *parts) noexcept nogil:
    """Make a call of a request."""
    cdef int i
    if check_options(request) < 0:
        return -1
    list_parts(request, parts)
    for i in range(PARTS):
        if parts[i].given and check_memory(&parts[i].array, parts[i].name) < 0:
            return -1
    if check_extents(request, parts) < 0 or make_levels(call, 1) < 0:
        return -1
    set_operation(call, request)
    set_map(call, 0, &parts[0].array)
    call.jobs.scale.y = call.jobs.scale.x = request.spatial_scale
    if not set_channels(call):
        return fail(WRONG_VALUE, "%s: %zd channels, expected a multiple of the %d x %d bins of %s",
                    parts[0].name, call.input_channels, call.ph, call.pw, parts[1].name)
    if check_shapes(call, request, parts) < 0 or check_written(parts) < 0:
        return -1
    return take_boxes(call, &parts[2].array)


# --- Computing

cdef int run(Call *call) noexcept nogil:
    cdef Team team
    cdef Error failure
    start_team(&team)
    team.looks_for_signals = False
    team.may_step_aside = True
    enter_call()
    cdef int failed = compute_call(call, &team, &failure)
    leave_call()
    return fail(failure.kind, "%s", failure.text) if failed else 0


cdef int compute_boxes_gradient(Call *call, Described rows) noexcept nogil:
    """The pass makes rows that lie end to end."""
    cdef Py_ssize_t[2] shape = [call.boxes.count, 5]
    cdef Described found
    cdef void *sums = allocated(call.boxes.count * 5, call.itemsize)
    cdef int failed
    if sums == NULL:
        return -1
    call.grad_boxes, call.grad_columns = sums, 5
    failed = run(call)
    if not failed:
        found = contiguous(sums, rows.kind, call.itemsize, 2, shape)
        copy(&found, &rows)
    free(sums)
    return failed


cdef void set_argmax(Call *call, const Described *argmax) noexcept nogil:
    call.jobs.maxima.argmax, call.jobs.maxima.bad = <int32_t*>argmax.data, &call.bad
    call.jobs.maxima.argmax_strides = strides_of(argmax)


cdef int say_index(const Described *argmax, Py_ssize_t pixels) noexcept nogil:
    """Say which box has an index of no pixel."""
    cdef Py_ssize_t of_box = argmax.strides[0] // sizeof(int32_t), i = 0
    cdef Py_ssize_t last = argmax.extents[0] * of_box - 1
    cdef const int32_t *indices = <const int32_t*>argmax.data
    while i < last and -1 <= indices[i] < pixels:      # another thread may have changed it
        i += 1
    return fail(WRONG_VALUE, "argmax[%zd]: an index that is neither -1 nor less than the %zd "
                "pixels of the map", i // of_box, pixels)


cdef int compute_pool_gradient(Call *call, const Part *parts) noexcept nogil:
    """The pass takes arrays whose elements lie end to end."""
    cdef Described maps = parts[0].array, bins = parts[1].array, argmax = parts[3].array
    cdef void *new_bins = NULL
    cdef void *new_argmax = NULL
    cdef void *new_maps = NULL
    cdef int failed = -1
    if (pack(&bins, True, &new_bins) == 0 and pack(&argmax, True, &new_argmax) == 0
            and pack(&maps, False, &new_maps) == 0):
        set_map(call, 0, &maps)
        set_argmax(call, &argmax)
        set_result(call, bins.data, strides_of(&bins))
        failed = run(call)
        if call.bad:
            failed = say_index(&argmax, call.jobs.map.rows * call.jobs.map.columns)
        elif not failed and new_maps != NULL:
            copy(&maps, &parts[0].array)
    free(new_bins)
    free(new_argmax)
    free(new_maps)
    return failed


cdef int compute_described(Call *call, const Part *parts) noexcept nogil:
    if call.purpose == MAX_PIXEL_GRAD:
        return compute_pool_gradient(call, parts)
    if call.purpose == MAX_PIXEL and parts[3].given:
        set_argmax(call, &parts[3].array)
    set_result(call, parts[1].array.data, strides_of(&parts[1].array))
    if call.purpose == GRAD_BOXES:
        return compute_boxes_gradient(call, parts[3].array)
    return run(call)


cdef int compute(const Request *request) noexcept nogil:
    cdef Call call
    cdef Part[PARTS] parts
    cdef int failed
    memset(&call, 0, sizeof(call))
    failed = describe(&call, request, parts)
    if not failed:
        failed = compute_described(&call, parts)
    end_call(&call)
    return failed


cdef int compute_or_raise(const Request *request) except -1 nogil:
    if compute(request) < 0:
        with gil:
            raise_last()
    return 0


cdef int take_whole(const char *name, double value, int *to) noexcept nogil:
    """Set an option that is an integer; C has no meaning for one that `int` cannot hold."""
    cdef Number text = spell_number(value, True)
    if not (fabs(value) <= INT32_MAX and trunc(value) == value):
        return fail(WRONG_VALUE, "%s: %s, expected a whole number of 32 bits", name, text.at)
    to[0] = <int>value
    return 0


cdef int compute_contiguous(
        int operation, void *maps, const void *boxes, void *bins, void *extra,
        const Py_ssize_t *sizes, const double *options) noexcept nogil:
    cdef Request request
    cdef int itemsize = <int>sizes[7]
    cdef bint of_sensitive = operation // 3 == 1
    cdef Py_ssize_t[4] rows = [sizes[4], 5, 1, 1]
    cdef Py_ssize_t[4] of_bins = [sizes[4], sizes[1], sizes[5], sizes[6]]
    memset(&request, 0, sizeof(request))
    if (operation < PRROI_POOL and take_whole(b"sampling_ratio", options[1],
                                              &request.sampling_ratio) < 0
            or take_whole(b"num_threads", options[3], &request.num_threads) < 0):
        return -1
    request.size, request.operation, request.itemsize = sizeof(request), operation, itemsize
    request.spatial_scale, request.aligned = options[0], options[2] != 0
    request.maps = given_contiguous(maps, itemsize, sizes)
    request.boxes = given_contiguous(<void*>boxes, itemsize, rows)
    if of_sensitive:
        of_bins[1] //= max(sizes[5] * sizes[6], 1)
    request.bins = given_contiguous(bins, itemsize, of_bins)
    if operation >= ROI_POOL:
        request.extra = given_contiguous(extra, sizeof(int32_t), of_bins)
    elif operation % 3 == 2:
        request.extra = given_contiguous(extra, itemsize, rows)
    return compute(&request)


def last_error():
    """Return why the last call of this thread failed that returned -1."""
    return error.text.decode()
