# cython: auto_pickle=False
"""Plan: the call that Python's arguments describe; the door of arrays.

A plan normalises its arguments.  It takes plain ones as they are; all others go through
roicy/_checks, which converts them or says what is wrong.  call.pxd does the rest, without Python's
lock if there is much to do.
"""
cimport cython
from cpython.buffer cimport PyBuffer_IsContiguous, PyBuffer_Release
from cpython.long cimport PyLong_AsLongAndOverflow
from libc.math cimport INFINITY
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport free

import numpy as np

from arrays cimport Array, Span, span_of
from call.buffers cimport has_buffer, lies_apart, put_channels_first, read_buffer
from call.call cimport begin, bytes_of, compute, end, next_step
from call.copies cimport copied_tables
from call.cost cimport nanoseconds_of_call
from call.describe cimport (
    is_map, make_levels, set_channels, set_map, set_result as set_result_of)
from call.finish cimport Flat, go_through, narrow_some
from errors cimport Error, last_error, raise_last, zeros_for
from forms cimport form_of
from limits cimport MAX_SIDE, tells_images
from plan.boxes cimport add_rows, angle_in_degrees, look_like_scores, reserve
from plan.rules cimport (RULE_COUNT, RULE_FIELD_COUNT, LevelRule, RotatedBox, field_of, level_of,
                         level_rule, rule_fields, rule_names, rule_types, set_field)
from plan.structs cimport (FORWARD, GRAD_BOXES, GRAD_INPUT, MAX_PIXEL, MAX_PIXEL_GRAD, MAX_SAMPLE,
                           MAX_SAMPLE_GRAD, Boxes, Call, LevelJob, Map)
from roicy._kernels.isa cimport isa_tables
from simd.structs cimport Strides, small_size
from threads cimport (BYTES, PyThreadState, Team, give_lock_for, let_others, nanoseconds,
                      run_call, start_team, take_lock_again)

from roicy._checks import _arguments, _boxes, _levels, _names
from roicy._machine import _threads


# What a plan may be for, as the front end calls it.
cdef dict PURPOSES = {"forward": FORWARD, "grad_input": GRAD_INPUT, "grad_boxes": GRAD_BOXES,
                      "max_pixel": MAX_PIXEL, "max_pixel_grad": MAX_PIXEL_GRAD,
                      "max_sample": MAX_SAMPLE, "max_sample_grad": MAX_SAMPLE_GRAD}
# Kinds of rules and their fields, by their names in roicy/_table.py, from the lists of
# plan/rules.h.
cdef dict RULES = {rule_names[i].decode(): i for i in range(RULE_COUNT)}
cdef dict FIELDS = {rule_fields[i].decode(): i for i in range(RULE_FIELD_COUNT)}
# What the GPU has room for: the types of fields, by their names, and the bytes of a turned box.
FIELD_TYPES = {name: rule_types[i].decode() for name, i in FIELDS.items()}
ROTATED_BYTES = sizeof(RotatedBox)

cdef type ndarray = np.ndarray
cdef Py_ssize_t boxes_of_step = INT32_MAX      # of a level, at most
cdef object FLOAT = np.dtype(np.float32), DOUBLE = np.dtype(np.float64)
cdef object NCHW = _arguments.LAYOUTS["NCHW"], NHWC = _arguments.LAYOUTS["NHWC"]


cdef inline int plain_side(object value) except? -1:
    """PH or PW; 0 if roicy/_checks/_arguments.py has to check the value."""
    cdef int overflow = 1
    cdef long side = PyLong_AsLongAndOverflow(value, &overflow) if type(value) is int else 0
    return <int>side if overflow == 0 and 0 < side <= MAX_SIDE else 0


cdef inline double plain_scale(object value) except? -1:
    """A scale; 0 if roicy/_checks/_arguments.py has to check the value."""
    cdef double scale = value if type(value) is float else 0
    return scale if 0 < scale < INFINITY else 0


# --- Arguments

cdef int make_room(Plan plan, Py_ssize_t levels) except -1:
    if make_levels(&plan.call, levels) < 0:
        raise_last()
    plan.buffers = <Py_buffer*>zeros_for(levels, sizeof(Py_buffer))
    if plan.buffers == NULL:
        raise_last()
    return 0


cdef int release_maps(Plan plan) except -1:
    while plan.held > 0:
        plan.held -= 1
        PyBuffer_Release(&plan.buffers[plan.held])
    return 0


cdef bint hold_maps(Plan plan, tuple maps, int dtype) except? False:
    """Hold the arrays of all levels; False if one is not plain.

    dtype: of arrays that are seen as uint16, since no buffer has it; 0: each array says its own.
    """
    cdef Call *call = &plan.call
    cdef Py_buffer *buffer
    cdef Array array
    for one in maps:
        buffer = &plan.buffers[plan.held]
        if not has_buffer(one, ndarray, buffer):
            return False
        plan.held += 1
        if not read_buffer(buffer, &array):
            return False
        array.kind = dtype or array.kind
        if plan.channels_last and array.axes == 4:
            put_channels_first(&array)
        if not is_map(&array) or plan.held > 1 and (
                array.kind != call.jobs.map.dtype or array.extents[0] != call.jobs.map.images
                or array.extents[1] != call.input_channels):
            return False
        set_map(call, plan.held - 1, &array)
    return True


cdef int take_maps(Plan plan, maps, bint pyramid) except -1:
    """Take the arrays of all levels; those that are not plain are checked, and converted.

    A list is read once: another thread may change it.
    """
    cdef tuple levels
    if pyramid and type(maps) is list and maps:
        maps = tuple(maps)
    if pyramid and (type(maps) is not tuple or not maps):
        levels = tuple(_levels.maps(maps, plan.layout, True, _arguments.maps).values())
    else:
        levels = maps if pyramid else (maps,)
    plan.maps = levels
    make_room(plan, len(levels))
    if not hold_maps(plan, levels, 0):
        release_maps(plan)
        named = _levels.maps(levels if pyramid else maps, plan.layout, pyramid, _arguments.maps)
        _levels.check_levels(_levels.shapes_of(named, plan.layout))
        plan.maps = tuple(named.values())
        if not hold_maps(plan, tuple([_arguments.bits(array) for array in plan.maps]),
                         ord(plan.maps[0].dtype.char)):
            raise AssertionError("maps are not plain after they were converted")
    return 0


cdef int take_shapes(Plan plan, dict shapes) except -1:
    """The sizes of maps whose gradient is asked for; `bind` says where they are."""
    cdef Py_ssize_t i
    cdef Map *map
    dtype = shapes.pop("dtype")
    _levels.check_levels(shapes)      # kernels trust that N and C are the same everywhere
    plan.shapes = shapes
    make_room(plan, len(shapes))
    plan.call.itemsize = dtype.itemsize
    for i, (images, channels, rows, columns) in enumerate(shapes.values()):
        map = &plan.call.jobs[i].map
        map.dtype, map.images, map.rows, map.columns = ord(dtype.char), images, rows, columns
        plan.call.input_channels = channels
    return 0


cdef int take_bins(Plan plan, output_size) except -1:
    cdef Call *call = &plan.call
    if type(output_size) is tuple and len(<tuple>output_size) == 2:
        call.ph, call.pw = plain_side((<tuple>output_size)[0]), plain_side((<tuple>output_size)[1])
    else:
        call.ph = call.pw = plain_side(output_size)
    if call.ph == 0 or call.pw == 0:
        call.ph, call.pw = _arguments.output_size(output_size)
    return 0


cdef int take_scales(Plan plan, scales, tuple pyramid) except -1:
    cdef Py_ssize_t i, levels = plan.call.levels
    cdef LevelJob *jobs = plan.call.jobs
    cdef double scale
    cdef bint plain = True
    if pyramid is None:
        scales = (scales,)
    elif type(scales) is list:
        scales = tuple(scales)
    if pyramid is not None:
        image_size = pyramid[2]    # from which scales follow that are not given
        plain = type(scales) is tuple and len(scales) == levels and image_size is None
    for i in range(levels if plain else 0):
        scale = jobs[i].scale.y = jobs[i].scale.x = plain_scale(scales[i])
        plain = plain and scale > 0 and (i == 0 or scale <= jobs[i - 1].scale.y)
    if not plain:
        scales = plan.arguments.spatial_scale
        for i, pair in enumerate(_levels.scales(scales, pyramid, plan.named_shapes())):
            jobs[i].scale.y, jobs[i].scale.x = pair
    if pyramid is not None:
        plan.call.level_rule = level_rule(_levels.rule(
            levels, scale_of(plan, 0), scale_of(plan, levels - 1), *_levels.canonical(pyramid)))
    if plan.call.boxes.width == 5:      # turned boxes have one scale for y and x
        _levels.check_same_scales([scale_of(plan, i) for i in range(levels)])
    return 0


cdef tuple scale_of(Plan plan, Py_ssize_t level):
    return plan.call.jobs[level].scale.y, plan.call.jobs[level].scale.x


cdef int take_channels(Plan plan) except -1:
    cdef Call *call = &plan.call
    if not set_channels(call):
        _arguments.channels(
            call.input_channels, (call.ph, call.pw), True,
            plan.shapes is not None or call.purpose == GRAD_BOXES,
            _names.INPUT if plan.shapes is None else _names.INPUT_SHAPE)
    return 0


cdef int take_boxes(Plan plan, boxes, counts) except -1:
    """Take boxes of any format: plain arrays as they are, all others when they are converted."""
    cdef Py_ssize_t images = plan.call.jobs.map.images, n
    cdef bint plain = counts is None
    cdef long long since = nanoseconds()
    if type(boxes) is list:      # which another thread may change
        boxes = tuple(boxes)
    plan.given_boxes = boxes
    if type(boxes) is tuple:
        plain = plain and len(boxes) == images
        for n in range(images if plain else 0):
            let_others(n, &since)
            plain = plain and take_rows(plan, boxes[n], n, False)
    elif plain:
        plain = take_rows(plan, boxes, -1, False)
    if plain:
        return 0
    plan.call.boxes.count = 0
    boxes, counts = _boxes.gather_boxes(boxes, counts, images, _boxes.box_rows, plan.operator.box)
    plan.given_boxes = boxes
    numbers, of_image = _boxes.converted(
        boxes, counts, images, plan.dtype, scale_of(plan, 0), plan.operator.box)
    if not take_rows(plan, np.column_stack((of_image, numbers)), -1, True):
        raise AssertionError("boxes are not plain after they were converted")
    return 0


cdef inline bint has_plain_numbers(const Array *rows) noexcept:
    """Whether boxes have a type that needs no look by roicy/_checks/_boxes.py."""
    return rows.kind == c'f' or rows.kind == c'd' or rows.kind == c'i' or rows.kind == c'l'


cdef bint take_rows(Plan plan, boxes, Py_ssize_t image, bint checked) except? False:
    """Take an array, or return False.

    image: of all its boxes, or -1 where column 0 says it, or where there is only one.
    checked: as of `add_rows`.
    """
    cdef Py_buffer buffer
    cdef Array rows
    cdef Call *call = &plan.call
    cdef Py_ssize_t images = call.jobs.map.images
    cdef bint taken = False
    if not has_buffer(boxes, ndarray, &buffer):
        return False
    try:
        if read_buffer(&buffer, &rows) and rows.axes == 2 and has_plain_numbers(&rows):
            if image < 0 and images == 1 and rows.extents[1] == call.boxes.width:
                image = 0      # there is no other
            if (rows.extents[1] == call.boxes.width + (image < 0)
                    and (image >= 0 or tells_images(rows.kind, images))):
                if reserve(&call.boxes, rows.extents[0]) < 0:
                    raise_last()
                taken = add_rows(call, &rows, image, checked)
    finally:
        PyBuffer_Release(&buffer)
    return taken


cdef int warn_of_boxes(Plan plan) except -1:
    """Warn of rows that are boxes, but hardly those that were meant."""
    cdef const Boxes *boxes = &plan.call.boxes
    cdef const LevelJob *first = plan.call.jobs
    cdef double angle = angle_in_degrees(boxes)
    cdef int form
    if look_like_scores(boxes) and type(plan.given_boxes) is ndarray:
        if plan.given_boxes.shape[1] > boxes.width:
            _boxes.warn_of_scores("batch", plan.given_boxes)
    if angle != 0:
        _boxes.warn_of_degrees(angle)
    if boxes.width == 4:
        form = form_of(boxes.numbers, boxes.count, first.map.rows / first.scale.y,
                       first.map.columns / first.scale.x)
        if form:
            _boxes.warn_of_form(form)
    return 0


# --- Where elements lie

ctypedef fused element:
    float
    double
    int32_t


@cython.boundscheck(False)      # an array may have no element
cdef void *start_of(const element[:, :, :, :] view, Strides *strides) noexcept:
    """Where an array begins, with its strides in elements.

    The caller holds the array until nobody reads or writes it any more.
    """
    cdef Py_ssize_t size = sizeof(element)
    strides.image, strides.channel = view.strides[0] // size, view.strides[1] // size
    strides.y, strides.x = view.strides[2] // size, view.strides[3] // size
    return <void*>&view[0, 0, 0, 0]


cdef bint array_lies_apart(array, Span memory) noexcept:
    """Whether an array cannot have an element in some memory.

    NumPy's function gives up Python's lock to say so, and here are only ranges to compare.
    """
    cdef Py_buffer buffer
    cdef bint apart
    if not has_buffer(array, ndarray, &buffer):
        return False
    apart = lies_apart(&buffer, memory)
    PyBuffer_Release(&buffer)
    return apart


cdef void *numbers_of(array, bint written, int itemsize, Strides *strides) except? NULL:
    """Where an array of four axes begins, of the type of the computation.

    A view costs 0.1 us more than a buffer (R490).
    """
    cdef float[:, :, :, :] floats
    cdef double[:, :, :, :] doubles
    cdef const float[:, :, :, :] read_floats
    cdef const double[:, :, :, :] read_doubles
    if itemsize == sizeof(float):
        if written:
            floats = array
            return start_of(floats, strides)
        read_floats = array
        return start_of(read_floats, strides)
    if written:
        doubles = array
        return start_of(doubles, strides)
    read_doubles = array
    return start_of(read_doubles, strides)


cdef void put_output_shape(Plan plan, Py_ssize_t *extents) noexcept:
    """The extents of the output, in the layout of the call."""
    cdef const Call *call = &plan.call
    cdef int channels = 3 if plan.channels_last else 1, y = 1 if plan.channels_last else 2
    extents[0], extents[channels] = call.boxes.count, call.channels
    extents[y], extents[y + 1] = call.ph, call.pw


cdef bint is_output(Plan plan, const Array *array) noexcept:
    """Whether an array has the type and the extents of the output."""
    cdef Py_ssize_t[4] extents
    cdef bint right = array.axes == 4 and array.kind == (
        c'f' if plan.call.itemsize == sizeof(float) else c'd')
    cdef int i
    put_output_shape(plan, extents)
    for i in range(4):
        right = right and array.extents[i] == extents[i]
    return right


cdef bint lies_apart_from_input(Plan plan, Span memory) except? False:
    """Whether neither maps nor boxes have an element in some memory."""
    cdef Py_ssize_t i
    for i in range(plan.held):
        if not lies_apart(&plan.buffers[i], memory):
            return False
    if type(plan.given_boxes) is ndarray:
        return array_lies_apart(plan.given_boxes, memory)
    for part in plan.given_boxes:
        if not array_lies_apart(part, memory):
            return False
    return True


@cython.final
@cython.freelist(8)
cdef class Arguments:
    """Hold the arguments that all passes of all operators share, as the caller gave them.

    pyramid: canonical_scale, canonical_level and image_size; None of a single map.
    """

    def __cinit__(self, boxes, boxes_num, spatial_scale, layout, num_threads, out=None,
                  tuple pyramid=None):
        self.boxes, self.boxes_num, self.spatial_scale = boxes, boxes_num, spatial_scale
        self.layout, self.num_threads, self.out, self.pyramid = layout, num_threads, out, pyramid


cdef int place_of(name, dict places) except -1:
    place = places.get(name)
    if place is None:
        raise ValueError(f"Rule: {name!r}, expected one of {', '.join(places)}, which stand in "
                         "pyx/plan/rules.h; see 'Recipes' in pyx/README.md")
    return place


@cython.final
@cython.freelist(8)
cdef class Rule:
    """Hold a struct rule of rules.h: where the bins of a box lie, and which pixels they weigh.

    kind: a name of RULES; fields: other numbers of the struct, which are 0 by default.  Two are
    parameters of their own, since a dictionary would cost a tiny call 2 %.
    """

    def __cinit__(self, kind, int sampling_ratio=0, bint aligned=False, **fields):
        self.c.kind = place_of(kind, RULES)
        self.c.sampling_ratio, self.c.aligned = sampling_ratio, aligned
        for name, number in fields.items():
            set_field(&self.c, place_of(name, FIELDS), number)

    @property
    def sampling_ratio(self):
        return self.c.sampling_ratio

    def numbers(self):
        """Return all numbers in the order of the struct, for the GPU."""
        return tuple([field_of(&self.c, i) for i in range(RULE_FIELD_COUNT)])

    def __eq__(self, other):
        return type(other) is Rule and self.numbers() == other.numbers()

    def __hash__(self):
        return hash(self.numbers())


cdef class Plan:
    """What one call computes: its levels, their boxes, and step by step their tables and tasks."""

    def __cinit__(self, str purpose, operator, Rule rule, maps, output_size, Arguments arguments):
        """
        purpose: one of PURPOSES; operator: of roicy/_table.py.

        maps: arrays, or for gradients of the input a dictionary of (N, C, H, W) and at last, under
        "dtype", the type of the gradient.
        """
        cdef Call *call = &self.call
        layout, pyramid = arguments.layout, arguments.pyramid
        call.purpose, self.arguments = PURPOSES[purpose], arguments
        call.max_threads = _threads.resolve(arguments.num_threads)
        self.operator, call.position_sensitive = operator, operator.position_sensitive
        call.boxes.width = len(operator.box)
        call.rule, call.max_boxes = rule.c, boxes_of_step
        if type(layout) is not str or (layout != "NCHW" and layout != "NHWC"):
            _arguments.layout_of(layout)
        self.channels_last = layout == "NHWC"
        if call.purpose == GRAD_INPUT or call.purpose == MAX_PIXEL_GRAD:
            take_shapes(self, maps)
        else:
            take_maps(self, maps, pyramid is not None)
        take_bins(self, output_size)
        take_scales(self, arguments.spatial_scale, pyramid)
        take_channels(self)
        take_boxes(self, arguments.boxes, arguments.boxes_num)
        warn_of_boxes(self)

    def __dealloc__(self):
        cdef PyThreadState *state
        release_maps(self)
        state = give_lock_for(bytes_of(&self.call) / BYTES)
        end(&self.call)
        take_lock_again(state)
        free(self.buffers)

    # What the front end wants to know

    @property
    def count(self):
        return self.call.boxes.count

    @property
    def box_numbers(self):
        """Numbers of a box: 4, or 5 if it is turned."""
        return self.call.boxes.width

    @property
    def dtype(self):
        return FLOAT if self.call.itemsize == sizeof(float) else DOUBLE

    @property
    def output_shape(self):
        cdef Py_ssize_t[4] extents
        put_output_shape(self, extents)
        return extents[0], extents[1], extents[2], extents[3]

    @property
    def layout(self):
        return NHWC if self.channels_last else NCHW

    def map_size(self, Py_ssize_t level=0):
        """(N, C, H, W)"""
        cdef const Map *map = &self.call.jobs[level].map
        return map.images, self.call.input_channels, map.rows, map.columns

    cdef dict named_shapes(self):
        """(N, C, H, W) of each level by its name."""
        if self.shapes is not None:
            return self.shapes
        return {f"features[{i}]": self.map_size(i) for i in range(self.call.levels)}

    def accepts_out(self, out):
        """Whether an array can take the result as it is; if not, the front end checks it."""
        cdef Py_buffer buffer
        cdef Array target
        if not has_buffer(out, ndarray, &buffer):
            return False
        try:
            return (read_buffer(&buffer, &target) and not buffer.readonly
                    and PyBuffer_IsContiguous(&buffer, c'C') and is_output(self, &target)
                    and lies_apart_from_input(self, span_of(&target)))
        finally:
            PyBuffer_Release(&buffer)

    def bind(self, maps):
        """Say where the gradients of the maps are, in the layout of the call."""
        self.maps = tuple(maps)
        if not hold_maps(self, self.maps, self.call.jobs.map.dtype):
            raise AssertionError("gradients are not plain arrays")

    # Passes

    cdef int set_result(self, array, bint written) except -1:
        """Where the output is, or the gradient of it, seen as (K, C, PH, PW)."""
        cdef Strides strides
        cdef void *start = numbers_of(array, written, self.call.itemsize, &strides)
        set_result_of(&self.call, start, strides)
        return 0

    cdef int set_argmax(self, const int32_t[:, :, :, :] indices) except -1:
        cdef LevelJob *job = self.call.jobs
        job.maxima.argmax = <int32_t*>start_of(indices, &job.maxima.argmax_strides)
        self.call.bad, job.maxima.bad = 0, &self.call.bad
        return 0

    def forward(self, out, small=None):
        """out (K, C, PH, PW) = the weighted sums of the maps.

        small: bytes of a C-contiguous array of a type of one or two bytes, to which they are
        rounded, and the character of this type.
        """
        cdef unsigned char[::1] target
        self.set_result(out, True)
        if small is not None:
            target, self.call.small_dtype = small
            self.call.small = <char*>&target[0] if target.shape[0] > 0 else NULL
        run_call(compute, &self.call, nanoseconds_of_call(&self.call))

    def max_pixel(self, out, argmax, small=None):
        """out (K, C, PH, PW) = the largest pixels, argmax (the same or None) = where they are."""
        if argmax is not None:
            self.set_argmax(argmax)
        self.forward(out, small)

    def max_sample(self, out, bint products, small=None):
        """out (K, C, PH, PW) = the largest samples of the map, or the largest products."""
        self.call.jobs.maxima.products = products
        self.forward(out, small)

    def grad_input(self, grad_output):
        """Maps = the gradients for grad_output (K, C, PH, PW)."""
        self.set_result(grad_output, False)
        run_call(compute, &self.call, nanoseconds_of_call(&self.call))

    def grad_boxes(self, grad_output, out):
        """out (boxes, columns) = the gradients of boxes, in their last columns, and 0."""
        cdef float[:, ::1] floats
        cdef double[:, ::1] doubles
        cdef Call *call = &self.call
        self.set_result(grad_output, False)
        if call.boxes.count == 0:
            return
        if call.itemsize == sizeof(float):
            floats = out
            call.grad_boxes, call.grad_columns = &floats[0, 0], floats.shape[1]
        else:
            doubles = out
            call.grad_boxes, call.grad_columns = &doubles[0, 0], doubles.shape[1]
        run_call(compute, &self.call, nanoseconds_of_call(&self.call))

    def max_pixel_grad(self, grad_output, argmax, bint trusts_argmax):
        """Set the map to the sums of grad_output (K, C, PH, PW) at the pixels of argmax.

        All three lie end to end in the layout of the call.  Return whether an index was of no
        pixel.  Then the map is as it was, unless argmax was trusted: then it has no meaning.
        """
        self.set_result(grad_output, False)
        self.set_argmax(argmax)
        # also where there is one bin: by it, `begin` tells whether planes are written
        self.call.out_strides.x = self.call.channels if self.channels_last else 1
        self.call.trusts_argmax = trusts_argmax
        run_call(compute, &self.call, nanoseconds_of_call(&self.call))
        return self.call.bad != 0

    def max_sample_grad(
            self, grad_output, grad_input, bint products):
        """grad_input (N, C, H, W) = grad_output (K, C, PH, PW) where the map has its winners."""
        cdef LevelJob *job = self.call.jobs
        job.maxima.products = products
        self.set_result(grad_output, False)
        job.maxima.grad_input = numbers_of(
            grad_input, True, self.call.itemsize, &job.maxima.grad_strides)
        run_call(compute, &self.call, nanoseconds_of_call(&self.call))

    # What tests look at: the step that a pass begins with if it is planned already

    def next(self, Py_ssize_t max_boxes=INT32_MAX):
        """Plan the next step, of at most so many boxes of a level; False if there is none."""
        cdef int more = 0
        cdef Team team
        start_team(&team)
        self.call.team = &team
        if not self.call.begun:
            more = begin(&self.call)
        if more == 0:
            more = next_step(&self.call, max_boxes)
        if more < 0:
            raise_last()
        return more == 1

    @property
    def threads(self):
        """That carry out this step."""
        return self.call.threads

    def tables(self, Py_ssize_t level=0):
        """Copies of the tables of a level, by the names of struct Tables."""
        return copied_tables(&self.call.jobs[level], self.dtype)

    def method(self, Py_ssize_t level=0):
        """The name of the method of a level."""
        return self.call.jobs[level].method.name.decode()

    def tasks_made(self):
        """The tasks of this step, as dictionaries of what struct Task has."""
        cdef Py_ssize_t i
        return [self.call.tasks.items[i] for i in range(self.call.tasks.count)]


cdef int compute_call(Call *call, Team *team, Error *error) noexcept nogil:
    cdef int failed = compute(call, team)
    if failed:
        error[0] = last_error
    return failed


cdef void end_call(Call *call) noexcept nogil:
    end(call)


def bound_steps(Py_ssize_t boxes=INT32_MAX):
    """Have new plans compute at most so many boxes of a level in a step, as tests want."""
    global boxes_of_step
    boxes_of_step = boxes


def levels_of(const double[:, ::1] boxes, int itemsize, tuple rule):
    """The places of the maps that boxes (K, 4) are pooled from.

    itemsize: of the type of the computation; rule: as roicy._checks._levels.rule returns it.
    """
    cdef LevelRule levels = level_rule(rule)
    cdef Py_ssize_t k
    found = np.empty(boxes.shape[0], np.intp)
    cdef Py_ssize_t[::1] places = found
    for k in range(boxes.shape[0]):
        places[k] = level_of(itemsize, &levels, &boxes[k, 0], 4)
    return found


cdef int narrow_all(void *given, Team *team) noexcept nogil:
    return go_through(<const Flat*>given, narrow_some, team)


def narrow(const float[::1] values, unsigned char[::1] out, int dtype, int threads):
    """out = values, rounded to the nearest number of a type; ties go to the even one.

    out: the bytes of one or two a value; dtype: NumPy's character of the type.
    """
    cdef Flat flat
    cdef Py_ssize_t count = values.shape[0]
    if out.shape[0] != count * small_size(dtype):
        raise ValueError(f"out: {out.shape[0]} bytes for {count} numbers")
    if count == 0:
        return
    flat.simd, flat.values, flat.target = isa_tables.simd, &values[0], <char*>&out[0]
    flat.dtype, flat.count, flat.threads = dtype, count, threads
    run_call(narrow_all, &flat, count)
