# cython: auto_pickle=False
"""Plan: from the arguments of a call to what kernels carry out; the only door to this room.

A plan normalises its arguments.  It takes plain ones as they are; all others go through
roicy/_arguments.py and _boxes.py, which convert them or say what is wrong.  Then each call of
`next` makes the tables and tasks of one step.  Tables are bounded, so a call with many boxes takes
several steps.
"""
cimport cython
from cpython.buffer cimport (PyBUF_STRIDES, PyBuffer_IsContiguous, PyBuffer_Release,
                             PyObject_GetBuffer)
from libc.math cimport INFINITY, fabs
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport free

import numpy as np

from plan.arrays cimport (disjoint, has_buffer, is_plain_map, on_elements, room_for, set_map,
                          start_of, zeros_for)
from plan.boxes cimport add_rows, free_boxes, is_plain, reserve
from plan.copies cimport copied, copied_tables
from plan.layout cimport set_sizes, store_for
from plan.method cimport Method
from plan.order cimport sort_boxes
from plan.rules cimport RULE_COUNT, LevelRule, TableInputs, RuleNumbers, level_of, rule_names
from plan.run cimport run_step
from plan.structs cimport (FORWARD, GRAD_BOXES, GRAD_INPUT, MAX_PIXEL, MAX_PIXEL_GRAD, MAX_SAMPLE,
                           MAX_SAMPLE_GRAD, SPARSE_TAPS, LevelJob, Map, writes_maps)
from plan.tables cimport (find_few_taps, free_tables, make_tables, transpose_tables,
                          whole_map_tables)
from plan.tasks cimport list_tasks
from roicy._kernels.isa cimport tables
from roicy._kernels.methods cimport method_of
from simd.structs cimport LANE_BYTES, PLANTED, Strides

from roicy import _arguments, _boxes, _levels, _threads


cdef enum:
    MAX_SIDE = 1 << 24             # bins of a side of an output: _arguments.MOST_BINS
    MAX_EXACT = 1 << 24            # whole numbers in a float: _arguments.LARGEST_EXACT

# What a plan may be for, as the front end calls it.
cdef dict PURPOSES = {"forward": FORWARD, "grad_input": GRAD_INPUT, "grad_boxes": GRAD_BOXES,
                      "max_pixel": MAX_PIXEL, "max_pixel_grad": MAX_PIXEL_GRAD,
                      "max_sample": MAX_SAMPLE, "max_sample_grad": MAX_SAMPLE_GRAD}
# Kinds of rules by their names in roicy/_table.py; the GPU compiles the same rules.h.
cdef dict RULES = {rule_names[i].decode(): i for i in range(RULE_COUNT)}

cdef type ndarray = np.ndarray
cdef double TWO_TURNS = _arguments.TWO_TURNS
cdef object FLOAT = np.dtype(np.float32), DOUBLE = np.dtype(np.float64)


cdef inline int plain_side(object value) except? -1:
    """PH or PW; 0 if roicy/_arguments.py has to check the value."""
    if type(value) is not int:
        return 0
    return value if 0 < value <= MAX_SIDE else 0


cdef inline double plain_scale(object value) except? -1:
    """A scale; 0 if roicy/_arguments.py has to check the value."""
    cdef double scale = value if type(value) is float else 0
    return scale if 0 < scale < INFINITY else 0


# --- Arguments

cdef int make_room(Plan plan, Py_ssize_t levels) except -1:
    plan.jobs = <LevelJob*>zeros_for(levels, sizeof(LevelJob))
    plan.methods = <const Method**>zeros_for(levels, sizeof(Method*))
    plan.buffers = <Py_buffer*>zeros_for(levels, sizeof(Py_buffer))
    plan.levels = levels
    return 0


cdef int release_maps(Plan plan) except -1:
    while plan.held > 0:
        plan.held -= 1
        PyBuffer_Release(&plan.buffers[plan.held])
    return 0


cdef bint hold_maps(Plan plan, maps, int dtype) except? False:
    """Hold the arrays of all levels; False if one is not plain.

    dtype: of the arrays; 0: each says its own.
    """
    cdef int channel = 3 if plan.last else 1
    cdef Py_buffer *first = plan.buffers
    cdef Py_buffer *array
    for one in maps:
        array = &plan.buffers[plan.held]
        if not has_buffer(one, ndarray, array):
            return False
        plan.held += 1
        if (not is_plain_map(array) or array.format[0] != first.format[0]
                or array.shape[0] != first.shape[0]
                or array.shape[channel] != first.shape[channel]):
            return False
        set_map(&plan.jobs[plan.held - 1].map, array, dtype or array.format[0], plan.last)
    return True


cdef int take_maps(Plan plan, maps, bint pyramid) except -1:
    """Take the arrays of all levels; those that are not plain are checked, and converted."""
    levels = maps if pyramid else (maps,)
    if type(levels) is not tuple and type(levels) is not list or not levels:
        levels = tuple(_levels.maps(maps, plan.layout, pyramid, _arguments.maps).values())
    plan.maps = tuple(levels)
    make_room(plan, len(levels))
    if not hold_maps(plan, levels, 0):
        release_maps(plan)
        named = _levels.maps(maps, plan.layout, pyramid, _arguments.maps)
        _levels.check_levels(_levels.shapes_of(named, plan.layout))
        plan.maps = tuple(named.values())
        hold_maps(plan, [_arguments.bits(array) for array in plan.maps],
                  ord(plan.maps[0].dtype.char))
    plan.itemsize = sizeof(double) if plan.jobs.map.dtype == c'd' else sizeof(float)
    plan.input_channels = plan.buffers.shape[3 if plan.last else 1]
    return 0


cdef int take_shapes(Plan plan, dict shapes) except -1:
    """The sizes of maps whose gradient is asked for; `bind` says where they are."""
    cdef Py_ssize_t i
    dtype = shapes.pop("dtype")
    _levels.check_levels(shapes)      # kernels trust that N and C are the same everywhere
    plan.shapes = shapes
    make_room(plan, len(shapes))
    plan.itemsize = dtype.itemsize
    for i, (images, channels, rows, columns) in enumerate(shapes.values()):
        plan.jobs[i].map.dtype, plan.jobs[i].map.images = ord(dtype.char), images
        plan.jobs[i].map.rows, plan.jobs[i].map.columns = rows, columns
        plan.input_channels = channels
    return 0


cdef int take_bins(Plan plan, output_size) except -1:
    if type(output_size) is tuple and len(<tuple>output_size) == 2:
        plan.ph, plan.pw = plain_side((<tuple>output_size)[0]), plain_side((<tuple>output_size)[1])
    else:
        plan.ph = plan.pw = plain_side(output_size)
    if plan.ph == 0 or plan.pw == 0:
        plan.ph, plan.pw = _arguments.output_size(output_size)
    return 0


cdef int take_scales(Plan plan, scales, tuple pyramid) except -1:
    cdef Py_ssize_t i
    cdef double scale
    cdef bint plain = True
    if pyramid is None:
        scales = (scales,)
    else:
        plain = ((type(scales) is list or type(scales) is tuple) and len(scales) == plan.levels
                 and pyramid[2] is None)
    for i in range(plan.levels if plain else 0):
        scale = plan.jobs[i].scale.y = plan.jobs[i].scale.x = plain_scale(scales[i])
        plain = plain and scale > 0 and (i == 0 or scale <= plan.jobs[i - 1].scale.y)
    if not plain:
        scales = plan.arguments.spatial_scale
        for i, pair in enumerate(_levels.scales(scales, pyramid, plan.named_shapes())):
            plan.jobs[i].scale.y, plan.jobs[i].scale.x = pair
    if pyramid is not None:
        plan.level_rule = _levels.rule(
            plan.levels, scale_of(plan, 0), scale_of(plan, plan.levels - 1),
            *_levels.canonical(pyramid))
    if plan.boxes.width == 5:      # turned boxes have one scale for y and x
        _levels.check_same_scales([scale_of(plan, i) for i in range(plan.levels)])
    return 0


cdef tuple scale_of(Plan plan, Py_ssize_t level):
    return plan.jobs[level].scale.y, plan.jobs[level].scale.x


cdef int take_channels(Plan plan) except -1:
    cdef Py_ssize_t bins = <Py_ssize_t>plan.ph * plan.pw
    plan.channels = plan.input_channels
    if plan.position_sensitive:
        if plan.channels % bins:
            _arguments.channels(
                plan.channels, (plan.ph, plan.pw), True,
                plan.shapes is not None or plan.purpose == GRAD_BOXES,
                "input" if plan.shapes is None else "input_shape")
        plan.channels //= bins
    return 0


cdef int take_boxes(Plan plan, boxes, counts) except -1:
    """Take boxes of any format: plain arrays as they are, all others when they are converted."""
    cdef Py_ssize_t images = plan.jobs.map.images, n
    cdef double scale = max(plan.jobs.scale.y, plan.jobs.scale.x, 1.0)      # the first: largest
    cdef bint plain = counts is None
    if plan.itemsize == sizeof(float):
        scale = <float>scale      # beyond float it is infinite, and all boxes are looked at closely
    plan.given_boxes = boxes
    if type(boxes) is list or type(boxes) is tuple:
        plain = plain and len(boxes) == images
        for n in range(images if plain else 0):
            plain = plain and take_rows(plan, boxes[n], n, scale)
    elif plain:
        plain = take_rows(plan, boxes, -1, scale)
    if plain:
        return 0
    plan.boxes.count = 0
    boxes, counts = _boxes.gather_boxes(boxes, counts, images, _boxes.box_rows, plan.operator.box)
    plan.given_boxes = boxes
    numbers, of_image = _boxes.converted(
        boxes, counts, images, plan.dtype, scale_of(plan, 0), plan.operator.box)
    if not take_rows(plan, np.column_stack((of_image, numbers)), -1, 0):
        raise AssertionError("boxes are not plain after they were converted")
    return 0


cdef bint take_rows(Plan plan, boxes, Py_ssize_t image, double scale) except? False:
    """Take an array, or return False.

    image: of all its boxes, or -1 where column 0 says it, or where there is only one; scale: as of
    `add_rows`.
    """
    cdef Py_buffer array
    cdef Py_ssize_t images = plan.jobs.map.images
    cdef bint taken = False
    if not has_buffer(boxes, ndarray, &array):
        return False
    if image < 0 and images == 1 and array.ndim == 2 and array.shape[1] == plan.boxes.width:
        image = 0      # there is no other
    try:
        if (is_plain(&array, plan.boxes.width + (image < 0))
                and not (image < 0 and array.format[0] == c'f' and images > MAX_EXACT + 1)):
            reserve(&plan.boxes, array.shape[0])
            taken = add_rows(&plan.boxes, &array, image, images, scale, plan.itemsize)
    finally:
        PyBuffer_Release(&array)
    return taken


cdef int warn_of_boxes(Plan plan) except -1:
    """Warn of rows that are boxes, but hardly those that were meant."""
    cdef const double *box = plan.boxes.numbers
    cdef Py_ssize_t k
    if (plan.boxes.count > 0 and 0 < box[3] < 1      # y2, or h
            and type(plan.given_boxes) is ndarray):
        if plan.given_boxes.shape[1] > plan.boxes.width:
            _boxes.warn_of_scores("batch", plan.given_boxes)
    for k in range(plan.boxes.count if plan.boxes.width == 5 else 0):
        if fabs(box[5 * k + 4]) > TWO_TURNS:
            _boxes.warn_of_degrees(box[5 * k + 4])
            break
    return 0


# --- Levels

cdef inline LevelRule level_rule(tuple numbers) except *:
    """What roicy._levels.rule returned, as C takes it."""
    cdef LevelRule rule
    (rule.last, rule.finest, rule.canonical_level, rule.canonical_scale, rule.close) = numbers
    return rule


cdef int distribute(Plan plan) except -1:
    """Give each level its boxes."""
    cdef Py_ssize_t count = plan.boxes.count, lists = plan.levels * plan.jobs.map.images, i
    cdef LevelRule rule = level_rule(plan.level_rule or (0, 0, 0, 0, 0))
    cdef int32_t *keys
    cdef LevelJob *job
    for i in range(plan.levels):
        job = &plan.jobs[i]
        job.ph, job.pw, job.itemsize = plan.ph, plan.pw, plan.itemsize
        job.lanes = LANE_BYTES // plan.itemsize
        job.simd = tables + (plan.itemsize == sizeof(double))
        job.channels, job.channels_per_output = plan.channels, 1
        job.purpose, job.position_sensitive = plan.purpose, plan.position_sensitive
        job.edges = plan.boxes.width
        if plan.position_sensitive:
            job.channels_per_output = <Py_ssize_t>plan.ph * plan.pw
    plan.done = True
    if count == 0:
        return 0
    if lists > INT32_MAX:
        raise ValueError(f"features: {lists} images in all levels, expected at most {INT32_MAX}")
    keys = <int32_t*>room_for(3 * count, sizeof(int32_t))
    try:
        plan.order = <int32_t*>room_for(count, sizeof(int32_t))
        plan.starts = <Py_ssize_t*>room_for(lists + 2, sizeof(Py_ssize_t))
        with nogil:
            sort_boxes(plan.jobs, plan.levels, &plan.boxes, &rule, keys, plan.order, plan.starts)
    finally:
        free(keys)
    for i in range(plan.levels):
        plan.done = plan.done and has_no_work(&plan.jobs[i])
    return 0


cdef bint has_no_work(const LevelJob *job) noexcept:
    """Whether a level has nothing to read or to write."""
    return (job.order.count == 0 or job.channels == 0 or job.map.images == 0
            or job.map.rows == 0 or job.map.columns == 0)


cdef bint has_boxes_left(const LevelJob *job) noexcept:
    return not has_no_work(job) and job.tables.stop < job.order.count


# --- Steps

cdef TableInputs inputs_of(Plan plan, LevelJob *job) except *:
    """What the tables of a level are made from."""
    cdef TableInputs inputs
    inputs.rule, inputs.job, inputs.boxes = plan.rule.c, job, &plan.boxes
    return inputs


cdef int tabulate(Plan plan, Py_ssize_t level, Py_ssize_t max_boxes) except -1:
    """Make the tables of the next boxes of a level, and take a method."""
    cdef LevelJob *job = &plan.jobs[level]
    cdef TableInputs inputs = inputs_of(plan, job)
    cdef Py_ssize_t few = 0
    set_sizes(job)
    if plan.purpose == MAX_PIXEL_GRAD:      # reads argmax, and so needs no taps
        whole_map_tables(job)
    else:
        make_tables(&inputs, max_boxes, plan.max_threads)
        if job.tables.tap_kind != SPARSE_TAPS and not writes_maps(plan.purpose):
            few = find_few_taps(&inputs)
    plan.methods[level] = method_of(job, few)
    if plan.purpose != MAX_PIXEL_GRAD:
        plan.methods[level].prepare(job)
    return 0


cdef int make_tasks(Plan plan) except -1:
    """Divide the work of the tables at hand among threads, and lay out their scratch."""
    cdef Py_ssize_t level
    cdef LevelJob *job
    plan.threads = list_tasks(&plan.tasks, plan.jobs, plan.methods, plan.levels, plan.max_threads)
    plan.scratch_bytes = 0
    for level in range(plan.levels):
        job = &plan.jobs[level]
        if job.tables.count == 0:
            continue
        plan.methods[level].lay_out(job, &plan.tasks, level)
        if (plan.purpose == GRAD_INPUT and job.tables.tap_kind != SPARSE_TAPS
                and not plan.position_sensitive):
            transpose_tables(&job.tables, plan.ph, plan.pw, plan.itemsize, plan.threads)
        plan.scratch_bytes = max(plan.scratch_bytes, job.layout.size)
    return 0


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


@cython.final
@cython.freelist(8)
cdef class Rule:
    """Hold a struct rule of rules.h: where the bins of a box lie, and which pixels they weigh.

    kind: a name of RULES.
    """

    def __cinit__(self, kind, int sampling_ratio=0, bint aligned=False,
                  bint at_least_one=False, bint inclusive=False, bint clockwise=False):
        self.c = RuleNumbers(
            RULES[kind], sampling_ratio, aligned, at_least_one, inclusive, clockwise)

    @property
    def sampling_ratio(self):
        return self.c.sampling_ratio

    def numbers(self):
        """Return all numbers in the order of the struct, for the GPU."""
        cdef const int *c = <int*>&self.c
        return tuple([c[i] for i in range(<Py_ssize_t>(sizeof(RuleNumbers) // sizeof(int)))])

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
        layout, pyramid = arguments.layout, arguments.pyramid
        self.purpose, self.arguments = PURPOSES[purpose], arguments
        self.max_threads = _threads.resolve(arguments.num_threads)
        self.operator, self.position_sensitive = operator, operator.position_sensitive
        self.boxes.width = len(operator.box)
        self.rule = rule
        if type(layout) is not str or (layout != "NCHW" and layout != "NHWC"):
            _arguments.Layout(layout)
        self.last = layout == "NHWC"
        if self.purpose == GRAD_INPUT or self.purpose == MAX_PIXEL_GRAD:
            take_shapes(self, maps)
        else:
            take_maps(self, maps, pyramid is not None)
        take_bins(self, output_size)
        take_scales(self, arguments.spatial_scale, pyramid)
        take_channels(self)
        take_boxes(self, arguments.boxes, arguments.boxes_num)
        warn_of_boxes(self)
        distribute(self)

    def __dealloc__(self):
        cdef Py_ssize_t i
        release_maps(self)
        for i in range(self.levels):
            free_tables(&self.jobs[i].tables)
        if not PLANTED("a plan keeps its tasks"):
            free(self.tasks.items)
        free_boxes(&self.boxes)
        free(self.order)
        free(self.jobs)
        free(self.methods)
        free(self.buffers)
        free(self.starts)

    # What the front end wants to know

    @property
    def count(self):
        return self.boxes.count

    @property
    def edges(self):
        """Numbers of a box that have gradients."""
        return self.boxes.width

    @property
    def dtype(self):
        return FLOAT if self.itemsize == sizeof(float) else DOUBLE

    @property
    def output_shape(self):
        if self.last:
            return self.boxes.count, self.ph, self.pw, self.channels
        return self.boxes.count, self.channels, self.ph, self.pw

    @property
    def layout(self):
        return _arguments.Layout("NHWC" if self.last else "NCHW")

    def map_size(self, Py_ssize_t level=0):
        """(N, C, H, W)"""
        cdef const Map *map = &self.jobs[level].map
        return map.images, self.input_channels, map.rows, map.columns

    def named_shapes(self):
        """(N, C, H, W) of each level by its name."""
        if self.shapes is not None:
            return self.shapes
        return {f"features[{i}]": self.map_size(i) for i in range(self.levels)}

    def empty_levels(self):
        """Levels that have nothing to read or to write, and indices of their rows of the output."""
        cdef Py_ssize_t i, k
        found = []
        for i in range(self.levels):
            if has_no_work(&self.jobs[i]):
                found.append((i, [...] if self.levels == 1 else [
                    self.jobs[i].order.boxes[k] for k in range(self.jobs[i].order.count)]))
        return found

    def accepts_out(self, out):
        """Whether an array can take the result as it is; if not, the front end checks it."""
        cdef Py_buffer target
        cdef Py_ssize_t i
        cdef bint right
        if not has_buffer(out, ndarray, &target):
            return False
        right = (on_elements(&target, 4) and not target.readonly
                 and target.format[0] == (c'f' if self.itemsize == sizeof(float) else c'd')
                 and PyBuffer_IsContiguous(&target, c'C'))
        for i, extent in enumerate(self.output_shape if right else ()):
            right = right and target.shape[i] == <Py_ssize_t>extent
        for i in range(self.held if right else 0):
            right = right and disjoint(&self.buffers[i], &target)
        PyBuffer_Release(&target)
        if not right or type(self.given_boxes) is ndarray:
            return right and not np.may_share_memory(self.given_boxes, out)
        return not any([np.may_share_memory(part, out) for part in self.given_boxes])

    def bind(self, maps):
        """Say where the gradients of the maps are, in the layout of the call."""
        self.maps = tuple(maps)
        if not hold_maps(self, self.maps, self.jobs.map.dtype):
            raise AssertionError("gradients are not plain arrays")

    # Steps

    def next(self, Py_ssize_t max_boxes=INT32_MAX):
        """Plan the next step, of at most so many boxes of a level; False if there is none."""
        cdef Py_ssize_t level, stop
        cdef LevelJob *job
        if self.done:
            return False
        self.done = True
        for level in range(self.levels):
            job = &self.jobs[level]
            stop = job.tables.stop
            free_tables(&job.tables)
            job.tables.first = job.tables.stop = stop
            if has_boxes_left(job):
                tabulate(self, level, max_boxes)
            if has_boxes_left(job):
                self.done = False
            job.add = self.steps > 0
        self.steps += 1
        make_tasks(self)
        return True

    # Arrays of a step

    cdef int set_result(self, array) except -1:
        """Where the output is, or the gradient of it, seen as (K, C, PH, PW)."""
        cdef Py_ssize_t level
        cdef Strides bins
        cdef void *result = start_of(array, self.itemsize, &bins)
        cdef bint writes = writes_maps(self.purpose)
        cdef int store = store_for(<double>self.boxes.count * self.channels * self.ph * self.pw
                                   * self.itemsize)
        cdef const Map *map
        for level in range(self.levels):
            map = &self.jobs[level].map
            if writes:
                store = store_for(<double>map.images * self.input_channels * map.rows * map.columns
                                  * map.itemsize)
            self.jobs[level].result, self.jobs[level].out_strides = result, bins
            self.jobs[level].store = store
        return 0

    cdef int set_argmax(self, array) except -1:
        cdef LevelJob *job = self.jobs
        job.argmax = <int32_t*>start_of(array, sizeof(int32_t), &job.argmax_strides)
        self.bad, job.bad = 0, &self.bad
        return 0

    cdef int set_partial_sums(self, array) except -1:
        """Where the partial sums of the gradients of boxes go; the caller holds the array."""
        cdef Py_buffer sums
        cdef Py_ssize_t level, before = 0
        PyObject_GetBuffer(array, &sums, PyBUF_STRIDES)
        for level in range(self.levels):
            self.jobs[level].partial_sums = <double*>sums.buf + before * self.boxes.width
            self.jobs[level].box_count = sums.shape[1]
            before += self.jobs[level].tables.count
        PyBuffer_Release(&sums)
        return 0

    # Passes: what a step computes of its boxes

    cdef int run(self) except -1:
        return run_step(self.jobs, self.methods, &self.tasks, self.threads, self.scratch_bytes)

    def forward(self, out):
        """out (K, C, PH, PW) = the weighted sums of the maps."""
        self.set_result(out)
        self.run()

    def grad_input(self, grad_output):
        """Maps = (from the second step on: +=) the gradients for grad_output (K, C, PH, PW)."""
        self.set_result(grad_output)
        self.run()

    def grad_boxes(self, grad_output, sums):
        """Write partial sums (sums_per_box, boxes, edges), float64, of the gradients of boxes.

        The sum of a group is written at its first block; the other sums are left as they are.
        """
        self.set_result(grad_output)
        self.set_partial_sums(sums)
        self.run()

    def max_pixel(self, out, argmax):
        """out (K, C, PH, PW) = the largest pixels, argmax (the same or None) = where they are."""
        self.set_result(out)
        if argmax is not None:
            self.set_argmax(argmax)
        self.run()

    def max_pixel_grad(self, grad_output, argmax):
        """Set the map to the sums of grad_output (K, C, PH, PW) at the pixels of argmax.

        All three lie end to end in the layout of the call.  Return whether an index was of no
        pixel; such indices are passed over.
        """
        self.set_result(grad_output)
        self.set_argmax(argmax)
        # also where there is one bin
        self.jobs.out_strides.x = self.channels if self.last else 1
        self.run()
        return self.bad != 0

    def max_sample(self, out, bint products):
        """out (K, C, PH, PW) = the largest samples of the map, or the largest products."""
        self.jobs.products = products
        self.set_result(out)
        self.run()

    def max_sample_grad(self, grad_output, grad_input, bint products):
        """grad_input (N, C, H, W) = grad_output (K, C, PH, PW) where the map has its winners.

        From the second step on it is added to what is there.
        """
        self.jobs.products = products
        self.set_result(grad_output)
        self.jobs.grad_input = start_of(
            grad_input, self.itemsize, &self.jobs.grad_strides)
        self.run()

    # What gradients of the boxes and tests look at

    def sums_per_box(self):
        """How many partial sums make up the gradient of a box: one for each block and bin range."""
        cdef Py_ssize_t lanes = LANE_BYTES // self.itemsize
        cdef Py_ssize_t blocks = (self.channels + lanes - 1) // lanes
        return blocks * self.ph * self.pw if self.position_sensitive else blocks

    def rows(self):
        """The rows of the output of the boxes of this step, level after level."""
        cdef Py_ssize_t i
        return np.concatenate([
            copied(self.jobs[i].tables.rows, self.jobs[i].tables.count, "i4", (-1,))
            for i in range(self.levels) if self.jobs[i].tables.count > 0])

    def tables(self, Py_ssize_t level=0):
        """Copies of the tables of a level, by the names of struct Tables."""
        return copied_tables(&self.jobs[level], self.dtype)

    def method(self, Py_ssize_t level=0):
        """The name of the method of a level."""
        return self.methods[level].name.decode()

    def tasks_made(self):
        """The tasks of this step, as dictionaries of what struct Task has."""
        cdef Py_ssize_t i
        return [self.tasks.items[i] for i in range(self.tasks.count)]


def levels_of(boxes, tuple rule):
    """The places of the maps that boxes (K, 4) of float or double are pooled from.

    rule: as roicy._levels.rule returns it.
    """
    cdef LevelRule levels = level_rule(rule)
    cdef int itemsize = boxes.itemsize
    cdef Py_buffer numbers, places
    cdef Py_ssize_t k
    found = np.empty(len(boxes), np.intp)
    PyObject_GetBuffer(np.ascontiguousarray(boxes, np.float64), &numbers, PyBUF_STRIDES)
    PyObject_GetBuffer(found, &places, PyBUF_STRIDES)
    for k in range(numbers.shape[0]):
        (<Py_ssize_t*>places.buf)[k] = level_of(
            itemsize, &levels, <const double*>numbers.buf + 4 * k, 4)
    PyBuffer_Release(&places)
    PyBuffer_Release(&numbers)
    return found
