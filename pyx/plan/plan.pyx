"""Plan: from the arguments of a call to what kernels carry out; the only door to this room.

A plan normalises its arguments.  It takes plain ones as they are; all others go through
roicy/_arguments.py and _boxes.py, which convert them or say what is wrong.  Then each call of
`next` makes the tables and tasks of one step.  Tables are bounded, so a call with many boxes takes
several steps.
"""
from cpython.buffer cimport (PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_IsContiguous,
                             PyBuffer_Release, PyObject_GetBuffer)
from libc.math cimport INFINITY, fabs
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import numpy as np

from plan.arrays cimport (apart, has_buffer, is_plain_map, is_whole, on_elements, set_map,
                          start_of)
from plan.boxes cimport all_finite, free_boxes, is_plain, reserve, sort_by_level, take_array
from plan.choose cimport (beyond_cache, choose_strategy, may_swap_axes, set_how, store_for,
                          strategy_of, worth_prefetching)
from plan.copies cimport copied_tables, copied_tasks
from plan.layout cimport lay_out, max_owned_bytes, set_sizes
from plan.rules cimport (RULE_BILINEAR, RULE_INTEGRATED, RULE_NEAREST, RULE_QUANTISED, RULE_ROTATED,
                         RULE_ROUNDED, RULE_SAMPLED, RULE_SINGLE_SAMPLES, RULE_SLOPES,
                         RULE_UNIFORM, AxisSize, LevelRule, TableRequest, level_of)
from plan.structs cimport (FORWARD, GRAD_BOXES, GRAD_INPUT, MAX_PIXEL, MAX_PIXEL_GRAD, MAX_SAMPLE,
                           MAX_SAMPLE_GRAD, PIXELS, SPARSE_TAPS, Boxes, Call, Map, Scale, Strides)
from plan.tables cimport (find_thin_boxes, free_order, free_tables, kind_of, make_tables,
                          number_of, sort_boxes, transpose_tables, whole_map_tables)
from plan.tasks cimport free_tasks, max_rows, tasks_to_read, tasks_to_write
from simd.simd cimport LANE_BYTES

from roicy import _arguments, _boxes, _levels, _threads


cdef enum:
    MAX_SIDE = 1 << 24             # bins of a side of an output: _arguments.MOST_BINS
    MAX_EXACT = 1 << 24            # whole numbers in a float: _arguments.LARGEST_EXACT

# What a plan may be for, as the front end calls it.
cdef dict PURPOSES = {"forward": FORWARD, "grad_input": GRAD_INPUT, "grad_boxes": GRAD_BOXES,
                      "max_pixel": MAX_PIXEL, "max_pixel_grad": MAX_PIXEL_GRAD,
                      "max_sample": MAX_SAMPLE, "max_sample_grad": MAX_SAMPLE_GRAD}
# Kinds of rules by their names in roicy/_table.py; the GPU compiles the same rules.h.
RULES = {"sampled": RULE_SAMPLED, "integrated": RULE_INTEGRATED, "uniform": RULE_UNIFORM,
         "rounded": RULE_ROUNDED, "quantised": RULE_QUANTISED,
         "single_samples": RULE_SINGLE_SAMPLES, "rotated": RULE_ROTATED,
         "bilinear": RULE_BILINEAR, "nearest": RULE_NEAREST}

cdef type ndarray = np.ndarray
cdef double TWO_TURNS = _arguments.TWO_TURNS
cdef object FLOAT = np.dtype(np.float32), DOUBLE = np.dtype(np.float64)


cdef inline bint writes_maps(int purpose) noexcept nogil:
    """Whether tasks own pixels of a map, rather than boxes."""
    return purpose == GRAD_INPUT or purpose == MAX_PIXEL_GRAD or purpose == MAX_SAMPLE_GRAD


cdef inline int plain_side(object value) except? -1:
    """PH or PW; 0 if roicy/_arguments.py has to check the value."""
    if type(value) is not int:
        return 0
    return value if 0 < value <= MAX_SIDE else 0


cdef inline bint may_be_rounded(const Py_buffer *boxes, Py_ssize_t images) noexcept nogil:
    """Whether rows of a plain type cannot tell so many images apart."""
    return boxes.format[0] == c'f' and images > MAX_EXACT + 1


cdef inline double plain_scale(object value) except? -1:
    """A scale; 0 if roicy/_arguments.py has to check the value."""
    cdef double scale = value if type(value) is float else 0
    return scale if 0 < scale < INFINITY else 0


cdef TableRequest request_of(Plan plan, Py_ssize_t level, Py_ssize_t max_boxes) except *:
    """What the next tables of a level are to be made of."""
    cdef TableRequest request
    cdef const Call *call = &plan.calls[level]
    memset(&request, 0, sizeof(request))
    (request.rule.kind, request.rule.sampling_ratio, request.rule.aligned,
     request.rule.at_least_one, request.rule.inclusive, request.rule.clockwise) = plan.rule
    request.kind = kind_of(request.rule.kind)
    request.spans, request.coordinates, request.slopes = plan.ph + plan.pw, 1, 2
    if request.kind == SPARSE_TAPS:
        request.spans, request.coordinates = <Py_ssize_t>plan.ph * plan.pw, 2
        request.slopes = RULE_SLOPES
    request.slopes *= plan.purpose == GRAD_BOXES
    request.axes[0].bins, request.axes[0].extent = plan.ph, call.map.rows
    request.axes[1].bins, request.axes[1].extent = plan.pw, call.map.columns
    request.axes[0].scale, request.axes[1].scale = plan.scales[level].y, plan.scales[level].x
    request.first, request.max_boxes = call.tables.stop, max_boxes
    request.threads, request.itemsize = plan.max_threads, plan.itemsize
    return request


cdef int begin(Plan plan, Py_ssize_t level, const Boxes *boxes, const AxisSize *axes) except -1:
    """Find out what boxes do not change, and sort them by place."""
    cdef Call *call = &plan.calls[level]
    cdef Py_ssize_t rows = 0      # boxes are sorted in bands, from left to right
    set_sizes(call)
    call.may_swap_axes = may_swap_axes(call, plan.purpose, plan.position_sensitive)
    call.beyond_cache = beyond_cache(call)
    if (not writes_maps(plan.purpose)
            and strategy_of(call, plan.position_sensitive) != PIXELS):
        rows = max_rows(call.map.columns, plan.purpose == GRAD_BOXES)
    sort_boxes(&call.order, boxes, call.map.images, axes, rows, plan.itemsize)
    return 0


cdef inline LevelRule level_rule(tuple given) except *:
    """What roicy._levels.rule returned, as C takes it."""
    cdef LevelRule rule
    (rule.last, rule.finest, rule.canonical_level, rule.canonical_scale, rule.close) = given
    return rule


cdef int warn_of_boxes(Plan plan) except -1:
    """Warn of rows that are boxes, but hardly those that were meant."""
    cdef Py_ssize_t k
    cdef double angle
    if plan.boxes.count == 0:
        return 0
    if (0 < number_of(&plan.boxes, 0, 3, plan.itemsize) < 1      # y2, or h
            and type(plan.given_boxes) is ndarray):
        if plan.given_boxes.shape[1] > plan.boxes.width:
            _boxes.warn_of_scores("batch", plan.given_boxes)
    for k in range(plan.boxes.count if plan.boxes.width == 5 else 0):
        angle = number_of(&plan.boxes, k, 4, plan.itemsize)
        if fabs(angle) > TWO_TURNS:
            _boxes.warn_of_degrees(angle)
            break
    return 0


cdef class Plan:
    """What one call computes: its levels, their boxes, and step by step their tables and tasks."""

    def __cinit__(self, str purpose, row, tuple rule, maps, output_size, given):
        """
        purpose: one of PURPOSES; row: of roicy/_table.py; rule: as the row makes it.

        maps: arrays, or for gradients of the input a dictionary of (N, C, H, W) and at last, under
        "dtype", the type of the gradient; given: what roicy._arguments.Arguments is made of.
        """
        self.purpose, self.given = PURPOSES[purpose], tuple(given)
        (self.given_boxes, self.given_counts, self.given_scale, layout, threads, self.out,
         self.given_pyramid) = given
        self.max_threads = _threads.resolve(threads)
        self.row, self.position_sensitive = row, row.position_sensitive
        self.boxes.width = len(row.box)
        self.rule = rule
        if type(layout) is not str or (layout != "NCHW" and layout != "NHWC"):
            _arguments.Layout(layout)
        self.last = layout == "NHWC"
        if self.purpose == GRAD_INPUT or self.purpose == MAX_PIXEL_GRAD:
            self.take_shapes(maps)
        else:
            self.take_maps(maps)
        self.take_bins(output_size)
        self.take_scales()
        self.take_channels()
        self.take_boxes()
        warn_of_boxes(self)
        self.distribute()

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.held):
            PyBuffer_Release(&self.buffers[i])
        for i in range(self.levels):
            free_tables(&self.calls[i].tables)
            free_order(&self.calls[i].order)
        free_tasks(&self.tasks)
        free_boxes(&self.boxes)
        free(self.calls)
        free(self.buffers)
        free(self.scales)
        free(self.stops)
        free(self.bad)

    # Arguments

    cdef int make_room(self, Py_ssize_t levels) except -1:
        self.calls = <Call*>calloc(levels, sizeof(Call))
        self.buffers = <Py_buffer*>calloc(levels, sizeof(Py_buffer))
        self.scales = <Scale*>calloc(levels, sizeof(Scale))
        self.stops = <Py_ssize_t*>calloc(levels, sizeof(Py_ssize_t))
        if self.calls == NULL or self.buffers == NULL or self.scales == NULL or self.stops == NULL:
            raise MemoryError(f"no room for {levels} levels")
        self.levels = levels
        return 0

    cdef int take_maps(self, maps) except -1:
        """Look at the arrays of all levels; those that are not plain are checked first."""
        cdef Py_ssize_t i, count
        cdef int channel = 3 if self.last else 1
        cdef Py_buffer *array
        cdef bint plain = True
        if self.given_pyramid is None:
            maps = (maps,)
        if type(maps) is not tuple and type(maps) is not list or not maps:
            maps = tuple(_levels.maps(maps, self.arguments, _arguments.maps).values())
        self.maps = tuple(maps)
        count = len(self.maps)
        self.make_room(count)
        for i in range(count):
            array = &self.buffers[i]
            if not has_buffer(self.maps[i], ndarray, array):
                plain = False
                break
            self.held += 1
            if (not is_plain_map(array) or array.format[0] != self.buffers[0].format[0]
                    or array.shape[0] != self.buffers[0].shape[0]
                    or array.shape[channel] != self.buffers[0].shape[channel]):
                plain = False
                break
            set_map(&self.calls[i].map, array, array.format[0], self.last)
        if not plain:
            self.convert_maps()
        self.kind = self.calls[0].map.kind
        self.itemsize = sizeof(double) if self.kind == c'd' else sizeof(float)
        self.input_channels = self.buffers[0].shape[channel]
        return 0

    cdef int convert_maps(self) except -1:
        """Check maps of any kind, and take what can be taken."""
        cdef Py_ssize_t i
        while self.held > 0:
            self.held -= 1
            PyBuffer_Release(&self.buffers[self.held])
        maps = self.maps if self.given_pyramid is not None else self.maps[0]
        named = _levels.maps(maps, self.arguments, _arguments.maps)
        shapes = _levels.shapes_of(named, _arguments.Layout(self.arguments.layout))
        _levels.check_levels(shapes)
        self.maps = tuple(named.values())
        for i, array in enumerate(self.maps):
            PyObject_GetBuffer(_arguments.bits(array), &self.buffers[i],
                               PyBUF_STRIDES | PyBUF_FORMAT)
            self.held += 1
            set_map(&self.calls[i].map, &self.buffers[i], ord(array.dtype.char), self.last)
        return 0

    cdef int take_shapes(self, dict shapes) except -1:
        """The sizes of maps whose gradient is asked for; `bind` says where they are."""
        cdef Py_ssize_t i
        dtype = shapes.pop("dtype")
        _levels.check_levels(shapes)      # kernels trust that N and C are the same everywhere
        self.shapes = shapes
        self.make_room(len(shapes))
        self.kind = ord(dtype.char)
        self.itemsize = dtype.itemsize
        for i, (images, channels, rows, columns) in enumerate(shapes.values()):
            self.calls[i].map.images = images
            self.calls[i].map.rows, self.calls[i].map.columns = rows, columns
            self.input_channels = channels
        return 0

    cdef int take_bins(self, output_size) except -1:
        cdef int ph = 0, pw = 0
        if type(output_size) is tuple and len(<tuple>output_size) == 2:
            ph, pw = plain_side((<tuple>output_size)[0]), plain_side((<tuple>output_size)[1])
        else:
            ph = pw = plain_side(output_size)
        if ph == 0 or pw == 0:
            ph, pw = _arguments.output_size(output_size)
        self.ph, self.pw = ph, pw
        return 0

    cdef int take_scales(self) except -1:
        cdef Py_ssize_t i
        cdef bint plain
        scales, pyramid = self.given_scale, self.given_pyramid
        if pyramid is None:
            self.scales[0].y = self.scales[0].x = plain_scale(scales)
            if self.scales[0].y == 0:
                self.scales[0].y, self.scales[0].x = _arguments.spatial_scale(scales)
        else:
            plain = ((type(scales) is list or type(scales) is tuple) and len(scales) == self.levels
                     and pyramid[2] is None)
            for i in range(self.levels if plain else 0):
                self.scales[i].y = self.scales[i].x = plain_scale(scales[i])
                if not self.scales[i].y > 0 or (i > 0 and self.scales[i].y > self.scales[i - 1].y):
                    plain = False
            if not plain:
                for i, scale in enumerate(_levels.scales(self.arguments, self.named_shapes())):
                    self.scales[i].y, self.scales[i].x = scale
            self.level_rule = _levels.rule(self.levels, self.scale_of(0),
                                           self.scale_of(self.levels - 1),
                                           *_levels.canonical(pyramid))
        if self.boxes.width == 5:      # turned boxes have one scale for y and x
            _levels.check_same_scales([self.scale_of(i) for i in range(self.levels)])
        return 0

    cdef tuple scale_of(self, Py_ssize_t level):
        return self.scales[level].y, self.scales[level].x

    cdef dict named_shapes(self):
        """(N, C, H, W) of each level by its name."""
        cdef Py_ssize_t i
        if self.shapes is not None:
            return self.shapes
        return {f"features[{i}]": (self.calls[i].map.images, self.input_channels,
                                   self.calls[i].map.rows, self.calls[i].map.columns)
                for i in range(self.levels)}

    cdef int take_channels(self) except -1:
        cdef Py_ssize_t bins = <Py_ssize_t>self.ph * self.pw
        self.channels = self.input_channels
        if self.position_sensitive:
            if self.channels % bins:
                _arguments.channels(
                    self.channels, (self.ph, self.pw), True,
                    self.shapes is not None or self.purpose == GRAD_BOXES,
                    "input" if self.shapes is None else "input_shape")
            self.channels //= bins
        return 0

    cdef int take_boxes(self) except -1:
        """Take boxes of any format: plain arrays, what becomes such, or else what is converted."""
        cdef Py_ssize_t images = self.calls[0].map.images, n
        cdef bint plain = True
        cdef int i
        for i in range(2):
            boxes, counts = self.given_boxes, self.given_counts
            if type(boxes) is list or type(boxes) is tuple:
                plain = counts is None and len(boxes) == images
                n = 0
                while plain and n < images:
                    plain = self.take_rows(boxes[n], n)
                    n += 1
            elif counts is None:
                plain = self.take_rows(boxes, -1)
            else:
                plain = False
            if plain and self.are_finite():
                return 0
            self.boxes.count = 0
            if i == 0:      # lists and other objects become arrays
                boxes, _ = _boxes.gather_boxes(
                    boxes, counts, images, _boxes.box_rows, self.row.box)
                self.given_boxes, self.given = boxes, (boxes, *self.given[1:])
        self.convert_boxes()
        return 0

    cdef bint take_rows(self, boxes, Py_ssize_t image) except? False:
        """Take an array, or return False.

        image: of all its boxes, or -1 where column 0 says it, or where there is only one.
        """
        cdef Py_buffer array
        cdef Py_ssize_t images = self.calls[0].map.images
        cdef bint taken = False
        if not has_buffer(boxes, ndarray, &array):
            return False
        if image < 0 and images == 1 and array.ndim == 2 and array.shape[1] == self.boxes.width:
            image = 0      # there is no other
        try:
            if (is_plain(&array, self.boxes.width + (image < 0))
                    and not (image < 0 and may_be_rounded(&array, images))):
                reserve(&self.boxes, array.shape[0], self.itemsize)
                if self.itemsize == sizeof(float):
                    taken = take_array(&self.boxes, &array, image, images,
                                       <float*>self.boxes.numbers)
                else:
                    taken = take_array(&self.boxes, &array, image, images,
                                       <double*>self.boxes.numbers)
        finally:
            PyBuffer_Release(&array)
        return taken

    cdef bint are_finite(self) noexcept:
        """Whether all boxes are finite, also when scaled by the largest scale, the first."""
        if self.itemsize == sizeof(float):
            return all_finite(&self.boxes, <float*>self.boxes.numbers, &self.scales[0])
        return all_finite(&self.boxes, <double*>self.boxes.numbers, &self.scales[0])

    cdef int convert_boxes(self) except -1:
        """Check boxes of any kind, and take what can be taken."""
        cdef const int32_t[::1] images
        cdef Py_ssize_t k
        dtype = FLOAT if self.itemsize == sizeof(float) else DOUBLE
        numbers, images = _boxes.converted(
            self.given_boxes, self.given_counts, self.calls[0].map.images, dtype,
            self.scale_of(0), self.row.box)
        if not self.take_rows(numbers.view(ndarray), 0):
            raise AssertionError("boxes are not plain after they were converted")
        for k in range(self.boxes.count):
            self.boxes.images[k] = images[k]
        return 0

    cdef int distribute(self) except -1:
        """Give each level its boxes."""
        cdef Py_ssize_t i
        cdef Call *call
        cdef void *numbers = self.boxes.numbers
        cdef LevelRule rule
        self.stops[0] = self.boxes.count
        if self.levels > 1:
            rule = level_rule(self.level_rule)
            if self.itemsize == sizeof(float):
                sort_by_level(&self.boxes, <float*>numbers, &rule, self.levels, self.stops)
            else:
                sort_by_level(&self.boxes, <double*>numbers, &rule, self.levels, self.stops)
        self.done = True
        for i in range(self.levels):
            call = &self.calls[i]
            call.ph, call.pw, call.itemsize = self.ph, self.pw, self.itemsize
            call.lanes = LANE_BYTES // self.itemsize
            call.channels, call.channels_per_output = self.channels, 1
            call.edges, call.writes_maps = self.boxes.width, writes_maps(self.purpose)
            if self.position_sensitive:
                call.channels_per_output = <Py_ssize_t>self.ph * self.pw
            if not self.is_empty(i):
                self.done = False
        return 0

    cdef bint is_empty(self, Py_ssize_t level) noexcept:
        """Whether a level has nothing to read or to write."""
        cdef const Map *map = &self.calls[level].map
        cdef Py_ssize_t first = self.stops[level - 1] if level > 0 else 0
        return (self.stops[level] == first or self.channels == 0 or map.images == 0
                or map.rows == 0 or map.columns == 0)

    # What the front end wants to know

    @property
    def arguments(self):
        return _arguments.Arguments(*self.given)

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
        cdef const Map *map = &self.calls[level].map
        return map.images, self.input_channels, map.rows, map.columns

    def empty_levels(self):
        """Levels that have nothing to read or to write, and indices of their rows of the output."""
        cdef Py_ssize_t i, first
        found = []
        for i in range(self.levels):
            if self.is_empty(i):
                first = self.stops[i - 1] if i > 0 else 0
                rows = [...] if self.boxes.rows == NULL else [
                    self.boxes.rows[k] for k in range(first, self.stops[i])]
                found.append((i, rows))
        return found

    def takes(self, out):
        """Whether an array can take the result as it is; if not, the front end checks it."""
        cdef Py_buffer target
        cdef Py_ssize_t i
        cdef tuple shape = self.output_shape
        cdef bint right
        if not has_buffer(out, ndarray, &target):
            return False
        right = (target.ndim == 4 and target.format[0] == (c'f' if self.itemsize == 4 else c'd')
                 and on_elements(&target, 4) and not target.readonly
                 and PyBuffer_IsContiguous(&target, c'C')
                 and (self.kind == c'f' or self.kind == c'd' or is_whole(self.kind)))
        for i in range(4 if right else 0):
            right = right and target.shape[i] == <Py_ssize_t>shape[i]
        for i in range(self.held if right else 0):
            right = right and apart(&self.buffers[i], &target)
        PyBuffer_Release(&target)
        return right and not self.boxes_overlap(out)

    cdef bint boxes_overlap(self, out) except? True:
        boxes = self.given_boxes
        if type(boxes) is ndarray:
            return np.may_share_memory(boxes, out)
        return any([np.may_share_memory(part, out) for part in boxes])

    def bind(self, maps):
        """Say where the gradients of the maps are, seen as (N, C, H, W)."""
        cdef Py_ssize_t i
        self.maps = tuple(maps)
        for i in range(self.levels):
            PyObject_GetBuffer(self.maps[i], &self.buffers[i], PyBUF_STRIDES | PyBUF_FORMAT)
            self.held += 1
            set_map(&self.calls[i].map, &self.buffers[i], self.kind, False)

    # Steps

    cdef Boxes boxes_of(self, Py_ssize_t level) noexcept:
        cdef Boxes boxes = self.boxes
        cdef Py_ssize_t first = self.stops[level - 1] if level > 0 else 0
        boxes.count = self.stops[level] - first
        boxes.images += first
        boxes.numbers += boxes.width * first * self.itemsize
        boxes.rows = NULL if boxes.rows == NULL else boxes.rows + first
        return boxes

    cdef bint has_boxes_left(self, Py_ssize_t level) noexcept:
        if self.is_empty(level):
            return False
        return self.calls[level].tables.stop < self.boxes_of(level).count

    cdef int tabulate(self, Py_ssize_t level, Py_ssize_t max_boxes) except -1:
        """Make the tables of the next boxes of a level."""
        cdef Call *call = &self.calls[level]
        cdef Boxes boxes = self.boxes_of(level)
        cdef TableRequest request = request_of(self, level, max_boxes)
        cdef Py_ssize_t thin = 0
        if self.purpose == MAX_PIXEL_GRAD:      # reads argmax, and so needs no taps
            set_sizes(call)
            call.strategy = strategy_of(call, False)
            whole_map_tables(&call.tables, &call.order, &boxes, call.map.images, call.map.rows,
                             call.map.columns)
            return 0
        if call.order.boxes == NULL:
            begin(self, level, &boxes, request.axes)
        make_tables(&call.tables, &call.order, &boxes, &request)
        if request.kind != SPARSE_TAPS and not writes_maps(self.purpose):
            thin = find_thin_boxes(&call.tables, &request)
        call.strategy = choose_strategy(call, self.purpose, self.position_sensitive, thin)
        call.prefetch = self.purpose != GRAD_BOXES and worth_prefetching(call)
        set_how(call)
        return 0

    cdef int make_tasks(self) except -1:
        """Divide the work of the tables at hand among threads, and lay out their scratch."""
        cdef Py_ssize_t level
        cdef Call *call
        cdef bint slopes = self.purpose == GRAD_BOXES
        self.tasks.count = 0
        if writes_maps(self.purpose):
            self.threads = tasks_to_write(&self.tasks, self.calls, self.levels, self.max_threads,
                                          self.purpose)
        else:
            self.threads = tasks_to_read(&self.tasks, self.calls, self.levels, self.max_threads,
                                         slopes)
        self.scratch_bytes = 0
        for level in range(self.levels):
            call = &self.calls[level]
            if call.tables.count == 0:
                continue
            if self.purpose == MAX_PIXEL_GRAD:
                call.layout.size = max_owned_bytes(&self.tasks)
            else:
                lay_out(call, &self.tasks, level, slopes)
            if (self.purpose == GRAD_INPUT and call.tables.kind != SPARSE_TAPS
                    and not self.position_sensitive):
                transpose_tables(&call.tables, self.ph, self.pw, self.itemsize, self.threads)
            self.scratch_bytes = max(self.scratch_bytes, call.layout.size)
        return 0

    def next(self, Py_ssize_t max_boxes=INT32_MAX):
        """Plan the next step, of at most so many boxes of a level; False if there is none."""
        cdef Py_ssize_t level, stop, before = 0
        cdef Call *call
        if self.done:
            return False
        self.done = True
        for level in range(self.levels):
            call = &self.calls[level]
            stop = call.tables.stop
            free_tables(&call.tables)
            memset(&call.tables, 0, sizeof(call.tables))
            call.tables.first = call.tables.stop = stop
            if self.has_boxes_left(level):
                self.tabulate(level, max_boxes)
            if self.has_boxes_left(level):
                self.done = False
            call.add = self.steps > 0
            call.boxes_before = before
            before += call.tables.count
        self.steps += 1
        self.make_tasks()
        return True

    # Arrays of a step, for kernels

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
            map = &self.calls[level].map
            if writes:
                store = store_for(<double>map.images * self.input_channels * map.rows * map.columns
                                  * map.itemsize)
            self.calls[level].result, self.calls[level].bins = result, bins
            self.calls[level].store = store
        return 0

    cdef int set_argmax(self, array) except -1:
        cdef Call *call = self.calls
        call.argmax = <int32_t*>start_of(array, sizeof(int32_t), &call.argmax_strides)
        return 0

    cdef int set_gradient(self, array) except -1:
        """Where the gradient of the only map is, which is read meanwhile."""
        self.calls[0].grad_input = start_of(array, self.itemsize, &self.calls[0].grad_strides)
        return 0

    cdef int set_partial_sums(self, array) except -1:
        """Where the partial sums of the gradients of boxes go."""
        cdef double[:, :, ::1] sums = array
        cdef Py_ssize_t level
        for level in range(self.levels):
            self.calls[level].partial_sums = &sums[0, 0, 0]
            self.calls[level].box_count = sums.shape[1]
        return 0

    cdef int watch_indices(self) except -1:
        """Have tasks say whether they met an index of no pixel."""
        free(self.bad)
        self.bad = <int32_t*>calloc(max(self.tasks.count, 1), sizeof(int32_t))
        if self.bad == NULL:
            raise MemoryError(f"no room for {self.tasks.count} tasks")
        self.calls[0].bad, self.calls[0].tasks = self.bad, self.tasks.items
        return 0

    cdef bint found_bad_index(self) noexcept:
        cdef Py_ssize_t i
        for i in range(self.tasks.count):
            if self.bad[i]:
                return True
        return False

    # What gradients of the boxes and tests look at

    def sums_per_box(self):
        """How many partial sums make up the gradient of a box: one for each block and bin range."""
        cdef Py_ssize_t lanes = LANE_BYTES // self.itemsize
        cdef Py_ssize_t blocks = (self.channels + lanes - 1) // lanes
        return blocks * self.ph * self.pw if self.position_sensitive else blocks

    def rows(self):
        """The rows of the output of the boxes of this step, level after level."""
        cdef Py_ssize_t level, i, at = 0
        rows = np.empty(sum([self.calls[level].tables.count for level in range(self.levels)]),
                        np.intp)
        cdef Py_ssize_t[::1] row = rows
        for level in range(self.levels):
            for i in range(self.calls[level].tables.count):
                row[at] = self.calls[level].tables.rows[i]
                at += 1
        return rows

    def tables(self, Py_ssize_t level=0):
        """The strategy of a level, and copies of its tables by the names of struct Tables."""
        cdef TableRequest request = request_of(self, level, 0)
        return copied_tables(&self.calls[level], &request, self.dtype)

    def tasks_array(self):
        """The tasks of this step, by the names of struct Task."""
        return copied_tasks(&self.tasks)


def levels_of(boxes, tuple rule):
    """The places of the maps that boxes (K, 4) of float or double are pooled from.

    rule: as roicy._levels.rule returns it.
    """
    cdef LevelRule given = level_rule(rule)
    cdef Py_buffer array
    cdef Py_ssize_t k
    places = np.empty(len(boxes), np.intp)
    cdef Py_ssize_t[::1] place = places
    PyObject_GetBuffer(boxes, &array, PyBUF_C_CONTIGUOUS)
    for k in range(array.len // (4 * array.itemsize)):
        if array.itemsize == sizeof(float):
            place[k] = level_of(&given, <const float*>array.buf + 4 * k, 4)
        else:
            place[k] = level_of(&given, <const double*>array.buf + 4 * k, 4)
    PyBuffer_Release(&array)
    return places
