"""Labels of the pixels of pictures: which of some maps, enlarged to them, is the largest there.

A task is some rows of a picture, and of codes some of its columns.  Codes of masks are made without
their pictures, a few columns at a time.  A volume is many pictures: the numbers of each lie between
two slices of the maps.
"""
from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from errors cimport NO_MEMORY, Error, fail, last_error
from images.buffers cimport buffer_of, memory_of
from images.runs cimport code_of, free_texts
from images.structs cimport Runs
from labels.structs cimport (LABELS_PAD, LABELS_TOGETHER, Codes, LabelTable, Labels, LabelsAxis,
                             LabelsPart, Region, codes_add, labels_scratch, labels_set_tile,
                             regions_add_rows, regions_join)
from roicy._kernels.isa cimport isa_tables
from threads cimport (BRIEF, Team, let_others, look_for_signals, nanoseconds, run_call,
                      run_tasks)
from tuning cimport TASKS_PER_THREAD

cdef enum:
    SMALL_NUMBERS = 200000         # read or written by one thread alone: BRIEF          # no record
    CLASSES = 10                   # that cost a pixel as much as reading a number # no record
    CLASS = 20                     # numbers that are read in the time of a class # no record
    MASK = 800                     # and in the time of a mask that is painted # no record
    TASK_NUMBERS = 1 << 30         # that are compared by a task at most: 0.2 s          # no record
    AXIS_PIXELS = 1 << 22          # of an axis at once: 0.1 s                           # no record
    SUMS = 4                       # pixels that are coded in the time of one with a sum # no record
    STRIPE_BYTES = 1 << 18         # of columns of a mask that is coded                  # no record


cdef struct Job:
    const LabelTable *table
    Labels call
    LabelsAxis[2] before
    LabelsAxis z                   # of volumes
    Py_ssize_t depth               # pictures of a volume, or 0
    Py_ssize_t slice, out_slice    # strides
    Py_ssize_t size                # of a number
    Py_ssize_t images              # and pictures of volumes
    Py_ssize_t parts               # tasks of an image
    int threads
    Py_ssize_t regions             # labels that are counted, from 0 on
    Region *counted                # [task][label]
    Codes codes                    # [image][label]
    const double *thresholds       # [image], or NULL
    Py_ssize_t painted             # masks of each image, of which the first one wins, or 0
    Py_ssize_t x0, x1              # columns that are coded now
    Py_ssize_t stripe              # columns at a time of masks that are coded without pictures


cdef inline Py_ssize_t first_row(const Job *job, Py_ssize_t part) noexcept nogil:
    """The first row of a part of an image, with a new row of cells if there is one near."""
    cdef const LabelsAxis *y = &job.call.y
    cdef Py_ssize_t row = y.pixels * part // job.parts
    if row == 0 or row == y.pixels:
        return row
    return min(<Py_ssize_t>y.begin[y.at[row - 1] - y.low + 1], y.pixels * (part + 1) // job.parts)


cdef Labels picture_of(const Job *job, Py_ssize_t i) noexcept nogil:
    """A picture of a volume, as image 0 of a call."""
    cdef Labels call = job.call
    cdef const LabelsAxis *z = &job.z
    cdef Py_ssize_t volume = i // job.depth, at = i % job.depth
    call.maps += volume * call.image + z.at[at] * job.slice
    call.out += volume * call.out_image + at * job.out_slice
    if call.values != NULL:
        call.values = <char*>call.values + i * call.y.pixels * call.x.pixels * job.size
    call.mixed = not z.single
    call.beside = job.slice if z.at[at] < z.last else 0
    if job.size == sizeof(double):
        call.slice_weights = [(<double*>z.low_weight)[at], (<double*>z.high_weight)[at]]
    else:
        call.slice_weights = [(<float*>z.low_weight)[at], (<float*>z.high_weight)[at]]
    return call


cdef void label_masks(const Job *job, const LabelsPart *part, char *memory) noexcept nogil:
    """Label a mask by a threshold of its own, or paint masks, the first one last."""
    cdef Labels call = job.call
    cdef Py_ssize_t masks = max(job.painted, 1), i
    for i in range(masks - 1, -1, -1):
        call.maps = job.call.maps + i * call.class_stride
        call.names = job.call.names + 2 * i
        if job.thresholds != NULL:
            call.threshold = job.thresholds[part.image * masks + i]
        job.table.label_pixels(&call, part, memory)
        # The last of masks writes all pixels, and those before it write their own alone.
        call.transparent = True


cdef void label_task(const void *given, Py_ssize_t task, char *memory) noexcept nogil:
    cdef const Job *job = <const Job*>given
    cdef Labels call
    cdef LabelsPart part
    part.image, part.x0, part.x1 = task // job.parts, 0, job.call.x.pixels
    part.y0 = first_row(job, task % job.parts)
    part.y1 = first_row(job, task % job.parts + 1)
    if job.depth:
        call = picture_of(job, part.image)
        part.image = 0
        job.table.label_pixels(&call, &part, memory)
        return
    if job.painted or job.thresholds != NULL:
        label_masks(job, &part, memory)
        return
    job.table.label_pixels(&job.call, &part, memory)
    if job.counted != NULL:
        regions_add_rows(&job.call, &part, job.counted + task * job.regions)


cdef void code_task(const void *given, Py_ssize_t image, char *memory) noexcept nogil:
    """Add some columns of an image to its codes."""
    cdef const Job *job = <const Job*>given
    cdef Codes codes = job.codes
    cdef Labels call = job.call
    cdef LabelsPart part
    cdef Py_ssize_t height = call.y.pixels
    codes.runs += image * codes.count
    codes.ends += image * codes.count
    codes.rows = <int32_t*>memory
    if codes.regions != NULL:
        codes.regions += image
    part.image, part.y0, part.y1 = image, 0, height
    part.x0, part.x1 = job.x0, job.x1
    if job.stripe == 0:
        codes_add(&call, &part, &codes)
        return
    memory += LABELS_TOGETHER * height * sizeof(int32_t)
    # The pixels are bytes and come last: the numbers before them need their alignment.
    cdef char *pixels = memory + labels_scratch(&call, job.size)
    call.out_image, call.out_row = 0, job.stripe
    if job.thresholds != NULL:
        call.threshold = job.thresholds[image]
    while part.x0 < job.x1:
        part.x1 = min(part.x0 + job.stripe, job.x1)
        call.out = pixels - part.x0
        job.table.label_pixels(&call, &part, memory)
        codes_add(&call, &part, &codes)
        part.x0 = part.x1


cdef double pixels_between(const Job *job) noexcept nogil:
    """Pixels of the enlargement before that an image takes: two rows for each of the result."""
    if job.call.before == NULL:
        return 0
    return min(2.0 * job.call.y.pixels, <double>job.before[0].pixels) * job.before[1].pixels


cdef int run_codes(Job *job, Team *team) noexcept nogil:
    """Make codes, which grow by some columns at a time."""
    cdef Py_ssize_t height = job.call.y.pixels, width = job.call.x.pixels
    cdef double column = max(<double>height, pixels_between(job) / width)
    cdef Py_ssize_t columns = max(<Py_ssize_t>(TASK_NUMBERS // 32 / column), <Py_ssize_t>1)
    cdef Py_ssize_t scratch = LABELS_TOGETHER * height * sizeof(int32_t)
    if job.call.sums != NULL:
        columns = max(columns // SUMS, <Py_ssize_t>1)
    if job.stripe:
        job.stripe = min(max(STRIPE_BYTES // height // 64 * 64, 1), width)
        scratch += job.stripe * height + labels_scratch(&job.call, job.size)
    while job.x0 < width:
        job.x1 = min(job.x0 + columns, width)
        if run_tasks(job, job.images, <int>min(<Py_ssize_t>job.threads, job.images), scratch,
                     code_task, team) < 0:
            return -1
        job.x0 = job.x1
    return 0


cdef int make_axis(const Job *job, LabelsAxis *axis, Team *team) noexcept nogil:
    """Find where the pixels of an axis lie; -1 if a signal ends the call."""
    cdef Py_ssize_t first, stop = 0
    while stop < axis.pixels:
        first, stop = stop, min(stop + AXIS_PIXELS, axis.pixels)
        job.table.labels_axis(axis, first, stop)
        if look_for_signals(team) < 0:
            return -1
    return 0


cdef int run_all(void *given, Team *team) noexcept nogil:
    cdef Job *job = <Job*>given
    cdef Py_ssize_t tasks = job.images * job.parts
    if job.call.maps == NULL:
        return run_codes(job, team)
    if make_axis(job, &job.call.y, team) < 0 or make_axis(job, &job.call.x, team) < 0:
        return -1
    if job.call.before != NULL and (make_axis(job, job.before, team) < 0
                                    or make_axis(job, job.before + 1, team) < 0):
        return -1
    if job.depth and make_axis(job, &job.z, team) < 0:
        return -1
    labels_set_tile(&job.call, job.size)
    if job.call.out != NULL and run_tasks(
            job, tasks, <int>min(<Py_ssize_t>job.threads, tasks),
            labels_scratch(&job.call, job.size), label_task, team) < 0:
        return -1
    return run_codes(job, team) if job.codes.count else 0


cdef inline Py_ssize_t axis_bytes(const LabelsAxis *axis, Py_ssize_t size) noexcept nogil:
    """Memory of an axis, whose end is aligned as its start is."""
    cdef Py_ssize_t integers = axis.pixels + <Py_ssize_t>axis.extent + 4 + LABELS_PAD
    return 2 * (axis.pixels + LABELS_PAD) * size + (integers + 1) // 2 * 2 * sizeof(int32_t)


cdef inline void lay_out_axis(LabelsAxis *axis, char *memory, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t weights = (axis.pixels + LABELS_PAD) * size
    axis.low_weight, axis.high_weight = memory, memory + weights
    axis.at = <int32_t*>(memory + 2 * weights)
    axis.begin = axis.at + axis.pixels


cdef int set_axis(LabelsAxis *axis, list kept, given, Py_ssize_t size) except -1:
    """given: an Axis of roicy/labels.py."""
    axis.first, axis.extent, axis.pixels, axis.rule = given
    lay_out_axis(axis, memory_of(kept, axis_bytes(axis, size), False), size)
    return 0


cdef inline int number_size(int kind) noexcept nogil:
    """Bytes of a number of NumPy's character."""
    if kind == c'd' or kind == c'f':
        return sizeof(double) if kind == c'd' else sizeof(float)
    return 1 if kind == c'b' or kind == c'B' else 2


cdef inline void set_type(Job *job) noexcept nogil:
    job.size = sizeof(double) if job.call.kind == c'd' else sizeof(float)
    job.table = <const LabelTable*>isa_tables[job.size == sizeof(double)].labels


cdef int set_call(Job *job, list kept, maps, axes, rule) except -1:
    """maps, axes, rule: a Maps, an Axes and a Rule of roicy/labels.py."""
    cdef Labels *call = &job.call
    cdef Py_buffer *view
    memset(job, 0, sizeof(job[0]))
    call.kind = ord(maps.kind)
    set_type(job)
    view = buffer_of(kept, maps.numbers, b"fdbBH", number_size(call.kind))
    call.maps, call.classes = <const char*>view.buf, view.shape[1]
    call.image, call.class_stride, job.slice = view.strides[0], view.strides[1], view.strides[2]
    call.row, call.column = view.strides[view.ndim - 2], view.strides[view.ndim - 1]
    job.images = view.shape[0]
    call.scale, call.zero = maps.scale, maps.zero
    call.names = <const int64_t*>buffer_of(kept, rule.names, b"lq", sizeof(int64_t)).buf
    call.weights = buffer_of(kept, rule.weights, b"fd", <int>job.size).buf
    call.bounded, call.threshold = rule.bounded, rule.threshold
    if rule.thresholds is not None:
        job.thresholds = <const double*>buffer_of(kept, rule.thresholds, b"d", sizeof(double)).buf
    set_axis(&call.y, kept, axes.y, job.size)
    set_axis(&call.x, kept, axes.x, job.size)
    if axes.z is not None:
        set_axis(&job.z, kept, axes.z, job.size)
        job.depth = job.z.pixels
        job.images *= job.depth
    if axes.before is not None:
        set_axis(job.before, kept, axes.before.y, job.size)
        set_axis(job.before + 1, kept, axes.before.x, job.size)
        call.before = job.before
    return 0


cdef double set_threads(Job *job, Py_ssize_t numbers, int threads) noexcept nogil:
    """Choose how many threads there are, and return roughly how many nanoseconds a call takes.

    numbers: of all maps.
    """
    cdef const Labels *call = &job.call
    cdef double images = <double>job.images, pixels = <double>call.y.pixels * call.x.pixels
    cdef double masks = max(job.painted, 1)
    cdef double cost = numbers + images * masks * pixels * (1 + call.classes / <double>CLASSES)
    cost += call.y.pixels + call.x.pixels + call.y.extent + call.x.extent
    cost += images * call.classes * CLASS + images * job.painted * MASK
    if call.before != NULL:        # each row of the result is made of two that are enlarged
        cost += job.before[0].pixels + job.before[1].pixels
        cost += images * masks * pixels_between(job) * call.classes
    cost += images * job.parts * job.regions
    job.threads = 1 if cost < SMALL_NUMBERS else threads
    return cost * BRIEF / SMALL_NUMBERS


cdef int run(Job *job, Py_ssize_t numbers, int threads) except -1:
    return run_call(run_all, job, set_threads(job, numbers, threads))


cdef void set_parts(Job *job, int threads) noexcept nogil:
    """Divide images for all threads, so that no task takes long."""
    cdef double numbers = <double>job.call.y.pixels * job.call.x.pixels + pixels_between(job)
    numbers *= job.call.classes
    job.parts = TASKS_PER_THREAD * threads // job.images if threads > 1 else 1
    job.parts = max(job.parts, <Py_ssize_t>(numbers / TASK_NUMBERS) + 1)
    job.parts = min(job.parts, job.call.y.pixels)


cdef list made_regions(const Job *job, Py_ssize_t image, long long *since):
    """Return (label, area, x0, y0, x1, y1, code or None) of the labels of an image."""
    cdef list found = []
    cdef Region region
    cdef Py_ssize_t label, part
    for label in range(job.regions):
        let_others(label, since)
        memset(&region, 0, sizeof(region))
        for part in range(image * job.parts, (image + 1) * job.parts):
            regions_join(&region, job.counted + part * job.regions + label)
        if region.area:
            code = None
            if job.codes.count:
                code = code_of(job.codes.runs, image * job.regions + label, since)
            found.append((label, region.area, region.x0, region.y0, region.x1, region.y1, code))
    return found


cdef int set_codes(Job *job, list kept, int count) except -1:
    """Have codes made of the labels of each image."""
    cdef Py_ssize_t all_ = job.images * count
    job.codes.count = count
    job.codes.runs = <Runs*>memory_of(kept, all_ * sizeof(Runs), True)
    job.codes.ends = <int64_t*>memory_of(kept, all_ * sizeof(int64_t), True)
    return 0


cdef int compute_labels(
        const Labels *given, Py_ssize_t images, int threads, Team *team, Error *error
) noexcept nogil:
    """Label pictures; names, weights and axes get their memory here.  labels.pxd has the rest."""
    cdef Job job
    cdef Labels *call = &job.call
    cdef Py_ssize_t each = sizeof(int64_t) + sizeof(double), numbers, room, c
    cdef char *memory
    cdef char *axes
    cdef int failed
    memset(&job, 0, sizeof(job))
    call[0], job.images = given[0], images
    set_type(&job)
    room = each * (given.classes + 1)
    memory = <char*>malloc(
        room + axis_bytes(&call.y, job.size) + axis_bytes(&call.x, job.size))
    if memory == NULL:
        failed = fail(NO_MEMORY, "no room for the axes of %zd classes", given.classes)
    else:
        axes = memory + room
        call.names = <const int64_t*>memory
        call.weights = <const int64_t*>memory + given.classes + 1
        for c in range(given.classes + 1):
            (<int64_t*>memory)[c] = 1 - c if given.bounded else c            # a mask, or classes
            if c < given.classes and given.class_stride < 0:         # from the last one on
                (<int64_t*>memory)[c] = given.classes - 1 - c
            if job.size == sizeof(double):
                (<double*>call.weights)[c] = 1
            else:
                (<float*>call.weights)[c] = 1
        lay_out_axis(&call.y, axes, job.size)
        lay_out_axis(&call.x, axes + axis_bytes(&call.y, job.size), job.size)
        set_parts(&job, threads)
        numbers = images * call.classes * <Py_ssize_t>call.y.extent * <Py_ssize_t>call.x.extent
        set_threads(&job, numbers, threads)
        failed = run_all(&job, team)
    free(memory)
    if failed < 0:
        error[0] = last_error
    return failed


def compute(maps, axes, rule, outs, regions, int threads):
    """Label pictures, and return the regions of each, or None.

    maps, axes, rule: as of `set_call`; outs: (N, H, W) or (N, D, H, W), integers of any strides,
    and values of this shape in the order of C, or None; regions, not of volumes: (labels that there
    are, from 0 on, whether they are coded), or None.
    """
    cdef list kept = []
    cdef Job job
    cdef Labels *call = &job.call
    cdef Py_ssize_t i
    cdef long long since
    set_call(&job, kept, maps, axes, rule)
    cdef Py_buffer *view = buffer_of(kept, outs[0], b"BbHhIiLlQq", 0)
    call.out, call.itemsize = <char*>view.buf, view.itemsize
    call.out_image, job.out_slice = view.strides[0], view.strides[1]
    call.out_row, call.out_column = view.strides[view.ndim - 2], view.strides[view.ndim - 1]
    if outs[1] is not None:
        call.values = buffer_of(kept, outs[1], b"fd", <int>job.size).buf
    set_parts(&job, threads)
    if regions is None:
        run(&job, maps.numbers.size, threads)
        return
    job.regions = regions[0]
    job.counted = <Region*>memory_of(
        kept, job.images * job.parts * job.regions * sizeof(Region), True)
    if regions[1]:
        set_codes(&job, kept, <int>job.regions)
    try:
        run(&job, maps.numbers.size, threads)
        since = nanoseconds()
        return [made_regions(&job, i, &since) for i in range(job.images)]
    finally:
        free_texts(job.codes.runs, job.images * job.codes.count)


def paint(maps, axes, rule, out, int threads):
    """Label pictures by masks (N, K, h, w), of which the first one wins that reaches its threshold.

    names of the rule: (K, 2), of which the last one's second is what no mask reaches.
    """
    cdef list kept = []
    cdef Job job
    cdef Py_buffer *view = buffer_of(kept, out, b"BbHhIiLlQq", 0)
    set_call(&job, kept, maps, axes, rule)
    job.call.out, job.call.itemsize = <char*>view.buf, view.itemsize
    job.call.out_image, job.call.out_row, job.call.out_column = view.strides[:3]
    set_parts(&job, threads)
    job.painted, job.call.classes = job.call.classes, 1
    run(&job, maps.numbers.size, threads)


def codes(maps, axes, rule, bint with_sums, int threads):
    """Return (code, area, x0, y0, x1, y1, sum of values or 0) of masks (K, 1, h, w), whose label
    is 1; as for `compute`.
    """
    cdef list kept = []
    cdef Job job
    set_call(&job, kept, maps, axes, rule)
    job.call.itemsize = job.call.out_column = job.parts = job.stripe = 1
    if with_sums:
        job.call.sums = <double*>memory_of(
            kept, job.images * job.call.y.pixels * sizeof(double), True)
    return coded(&job, kept, maps.numbers.size, threads)


def stored_codes(masks, int threads):
    """Return the same of masks (K, H, W) of bytes, of any strides, whose pixels are not 0."""
    cdef list kept = []
    cdef Job job
    cdef Py_buffer *view = buffer_of(kept, masks, b"B", 1)
    memset(&job, 0, sizeof(job))
    job.images, job.call.y.pixels, job.call.x.pixels = view.shape[:3]
    job.call.out, job.call.itemsize = <char*>view.buf, 1
    job.call.out_image, job.call.out_row, job.call.out_column = view.strides[:3]
    return coded(&job, kept, 0, threads)


cdef list coded(Job *job, list kept, Py_ssize_t numbers, int threads):
    cdef Py_ssize_t i, y
    cdef long long since
    cdef double total
    cdef Region *one
    cdef list found = []
    set_codes(job, kept, 1)
    job.codes.masks = True
    job.codes.regions = <Region*>memory_of(kept, job.images * sizeof(Region), True)
    try:
        run(job, numbers, threads)
        since = nanoseconds()
        for i in range(job.images):
            total, one = 0, job.codes.regions + i
            for y in range(job.call.y.pixels if job.call.sums != NULL else 0):
                total += job.call.sums[i * job.call.y.pixels + y]
            code = code_of(job.codes.runs, i, &since)
            found.append((code, one.area, one.x0, one.y0, one.x1, one.y1, total))
        return found
    finally:
        free_texts(job.codes.runs, job.images)
