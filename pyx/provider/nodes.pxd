"""Nodes: what a RoI node or a pyramid computes, from tensors to tensors, without Python.

Python says once what a node is (roicy/compat/onnx/_specs.py).  In each run, `compute_node` makes a
call of its tensors and has it computed on the session's own threads.  What it does not expect, such
as a box that is not finite, it leaves to Python, which computes it or says what is wrong.
"""
from libc.stdint cimport INT32_MAX, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from arrays cimport Array, number_at, number_in
from call.describe cimport is_map, make_levels, set_channels, set_map, set_result
from errors cimport Error
from limits cimport MAX_SIDE, tells_images
from plan.boxes cimport (
    add_rows, angle_in_degrees, look_like_scores, reserve, set_images)
from plan.rules cimport LevelRule, level_of, level_rule
from plan.structs cimport FORWARD, MAX_PIXEL, MAX_SAMPLE, Boxes, Call, LevelJob
from provider.abi cimport Status
from provider.calls cimport status_of
from provider.python cimport new
from provider.tensors cimport (
    MOST_INPUTS, AnyNode, Run, Tensor, array_of, dtype_of, is_real, make_output, read_inputs,
    size_of, start_session_team)
from roicy._kernels.plan cimport Rule, compute_call, end_call
from simd.structs cimport Strides
from threads cimport Team

cdef enum:
    MOST_LEVELS = MOST_INPUTS - 4  # maps of a pyramid, beside its other inputs


cdef struct Inputs:                # places among the inputs; -1: there is none
    int maps                       # the first of them
    int boxes
    int images                     # of each box
    int size                       # of the output
    int chosen                     # the number of the level of each box
    int begin                      # of an array whose rows after those of boxes the output has, too


cdef struct RoiNode:
    AnyNode any
    Call call                      # what is the same in each run: the operator, its rule, its bins
    Inputs at
    Py_ssize_t levels              # at most
    double[MOST_LEVELS][2] scales  # of each level: y, x
    LevelRule[MOST_LEVELS] rules   # of 1, 2, ... levels
    int64_t[MOST_LEVELS] numbers   # of each level, where one is chosen
    bint products                  # of roi_align_max: the largest products are wanted
    bint one_image                 # boxes are of image 0
    bint normalised                # boxes are y1, x1, y2, x2, and 1 is the last pixel
    bint shifted                   # by half a pixel of their level
    bint copies                    # a second output is a copy of the boxes


cdef struct RoiRun:                # of a node
    Run run
    const RoiNode *node
    Call call
    float *wide                    # the output before it is rounded to a small type


# --- Maps

cdef inline bint take_map(RoiRun *run, Py_ssize_t level, const Tensor *tensor) noexcept nogil:
    cdef const RoiNode *node = run.node
    cdef LevelJob *job = &run.call.jobs[level]
    cdef Array array
    if tensor.rank != 4:
        return False
    array = array_of(tensor)
    if not is_map(&array):
        return False
    set_map(&run.call, level, &array)
    job.scale.y, job.scale.x = node.scales[level][0], node.scales[level][1]
    if node.normalised:
        job.scale.y = max(job.map.rows - 1, <Py_ssize_t>1)
        job.scale.x = max(job.map.columns - 1, <Py_ssize_t>1)
    return True


cdef inline bint take_maps(RoiRun *run) noexcept nogil:
    """Take the maps of all levels, of one type, and as many images and channels each."""
    cdef const RoiNode *node = run.node
    cdef const Tensor *first = &run.run.inputs[node.at.maps]
    cdef const Tensor *tensor
    cdef Py_ssize_t levels = 1, i
    if node.levels > 1:
        levels = run.run.count - node.at.maps - (node.at.begin >= 0)      # which is the last
    if levels < 1 or levels > node.levels or make_levels(&run.call, levels) < 0:
        return False
    for i in range(levels):
        tensor = first + i
        if (not take_map(run, i, tensor) or tensor.kind != first.kind
                or tensor.extents[0] != first.extents[0]
                or tensor.extents[1] != first.extents[1]):
            return False
    run.call.max_threads = node.any.max_threads
    run.call.level_rule, run.call.jobs.maxima.products = node.rules[levels - 1], node.products
    return True


# --- Boxes

cdef inline bint take_rows(RoiRun *run) noexcept nogil:
    """Take the numbers and the image of each box."""
    cdef const RoiNode *node = run.node
    cdef Call *call = &run.call
    cdef const Tensor *boxes = &run.run.inputs[node.at.boxes]
    cdef Py_ssize_t images = call.jobs.map.images, image = -1, columns
    cdef Array rows
    if boxes.rank != 2:
        return False
    columns, rows = boxes.extents[1], array_of(boxes)
    if node.at.images >= 0 or node.one_image or (images == 1 and columns == call.boxes.width):
        image = 0
    if (images < 1 or columns != call.boxes.width + (image < 0)
            or (image < 0 and not tells_images(rows.kind, images))
            or reserve(&call.boxes, rows.extents[0]) < 0):
        return False
    if not add_rows(call, &rows, image, False):
        return False
    if node.at.images >= 0:
        boxes = &run.run.inputs[node.at.images]
        if boxes.rank != 1:
            return False
        rows = array_of(boxes)
        return not is_real(rows.kind) and set_images(&call.boxes, &rows, images)
    return True


cdef inline void order_corners(Call *call) noexcept nogil:
    """Make x1, y1, x2, y2 of y1, x1, y2, x2."""
    cdef Py_ssize_t k
    for k in range(0, 4 * call.boxes.count, 2):
        call.boxes.numbers[k], call.boxes.numbers[k + 1] = (
            call.boxes.numbers[k + 1], call.boxes.numbers[k])


cdef inline void shift_boxes(RoiRun *run) noexcept nogil:
    """Shift boxes by half a pixel of their level, which is that of boxes before the shift."""
    cdef Call *call = &run.call
    cdef Array rows = array_of(&run.run.inputs[run.node.at.boxes])
    cdef double[4] box
    cdef double shift
    cdef Py_ssize_t k
    cdef int i
    for k in range(call.boxes.count):
        for i in range(4):
            box[i] = number_in(&rows, k, i)
        shift = 0.5 / call.jobs[level_of(sizeof(double), &call.level_rule, box, 4)].scale.y
        for i in range(4):
            box[i] -= shift
            call.boxes.numbers[4 * k + i] = (
                <float>box[i] if call.itemsize == sizeof(float) else box[i])


cdef inline bint levels_agree(const RoiRun *run) noexcept nogil:
    """Whether the levels that the graph has chosen are those that boxes are pooled from."""
    cdef const RoiNode *node = run.node
    cdef const Call *call = &run.call
    cdef const Tensor *chosen = &run.run.inputs[node.at.chosen]
    cdef int bytes = 8 if dtype_of(run.run.inputs[node.at.boxes].kind) == c'd' else 4, level
    cdef Py_ssize_t k
    if dtype_of(chosen.kind) != c'q' or chosen.elements != call.boxes.count:
        return False
    for k in range(call.boxes.count):
        level = level_of(bytes, &call.level_rule, call.boxes.numbers + 4 * k, 4)
        if (<const int64_t*>chosen.data)[k] != node.numbers[level]:
            return False
    return True


cdef inline bint take_boxes(RoiRun *run) noexcept nogil:
    cdef const RoiNode *node = run.node
    cdef const Boxes *boxes = &run.call.boxes
    cdef bint image_first = node.at.images < 0 and not node.one_image
    if not take_rows(run):
        return False
    if image_first and look_like_scores(boxes) or angle_in_degrees(boxes) != 0:
        return False      # and Python warns
    if node.normalised:
        order_corners(&run.call)
    if node.shifted:
        shift_boxes(run)
    return node.at.chosen < 0 or levels_agree(run)


# --- The whole node

cdef inline bint take_size(RoiRun *run) noexcept nogil:
    """Take the bins of a box, if an input says them."""
    cdef const Tensor *size = &run.run.inputs[run.node.at.size]
    cdef int dtype = dtype_of(size.kind), i
    cdef int64_t[2] bins
    if size.rank != 1 or size.elements != 2 or is_real(dtype):
        return False
    for i in range(2):
        bins[i] = <int64_t>number_at(size.data + i * size_of(dtype), dtype)
        if not 1 <= bins[i] <= MAX_SIDE:
            return False
    run.call.ph, run.call.pw = <int>bins[0], <int>bins[1]
    return True


cdef inline bint take_inputs(RoiRun *run) noexcept nogil:
    """Describe the call; False if Python has to look at it."""
    cdef const Inputs *at = &run.node.at
    if not read_inputs(&run.run):
        return False
    if max(max(at.maps, at.boxes), max(at.images, at.size)) >= run.run.count:
        return False
    if at.size >= 0 and not take_size(run):
        return False
    return take_maps(run) and take_boxes(run) and set_channels(&run.call)


cdef inline bint make_result(RoiRun *run) noexcept nogil:
    """Make the output, and say where the call writes to."""
    cdef Call *call = &run.call
    cdef const RoiNode *node = run.node
    cdef const Tensor *begin = &run.run.inputs[run.run.count - 1]
    cdef int64_t[4] extents = [call.boxes.count, call.channels, call.ph, call.pw]
    cdef Py_ssize_t of_box = call.channels * call.ph * call.pw, computed = extents[0] * of_box
    cdef int i, size = call.jobs.map.itemsize
    cdef Strides strides
    cdef Tensor made
    if node.at.begin >= 0:      # the rows after those of boxes are kept
        if (begin.rank != 4 or begin.extents[0] < extents[0]
                or begin.kind != run.run.inputs[node.at.maps].kind):
            return False
        extents[0] = begin.extents[0]
        for i in range(1, 4):
            if begin.extents[i] != extents[i]:
                return False
    if not make_output(&run.run, 0, extents, 4, &made):
        return False
    if made.elements > 0 and dtype_of(made.kind) != call.jobs.map.dtype:
        return False
    if node.at.begin >= 0 and made.elements > computed:
        memcpy(made.data + computed * size, begin.data + computed * size,
               (made.elements - computed) * size)
    strides.x, strides.y, strides.channel, strides.image = 1, call.pw, call.ph * call.pw, of_box
    if size < call.itemsize:
        run.wide = <float*>malloc(max(computed, 1) * sizeof(float))
        call.small, call.small_dtype = made.data, call.jobs.map.dtype
        set_result(call, run.wide, strides)
        return run.wide != NULL
    set_result(call, made.data, strides)
    return True


cdef inline bint copy_boxes(RoiRun *run) noexcept nogil:
    """Make the second output, if anybody wants it."""
    cdef const Tensor *boxes = &run.run.inputs[run.node.at.boxes]
    cdef Tensor made
    if not make_output(&run.run, 1, boxes.extents, boxes.rank, &made):
        return False
    if made.data != NULL:
        memcpy(made.data, boxes.data, boxes.span.bytes)
    return True


cdef inline bint compute_node(const AnyNode *any, void *context, Status *status) noexcept nogil:
    cdef RoiRun run
    cdef const RoiNode *node = <const RoiNode*>any
    cdef Team team
    cdef Error error
    cdef bint described
    memset(&run, 0, sizeof(run))
    run.run.node, run.run.context, run.node, run.call = any, context, node, node.call
    described = take_inputs(&run) and make_result(&run)
    if described:
        start_session_team(&team, context)
        if compute_call(&run.call, &team, &error) < 0:
            run.run.status = status_of(&error)
        elif node.copies:
            described = copy_boxes(&run)
    free(run.wide)
    end_call(&run.call)
    status[0] = run.run.status
    return described or run.run.status != NULL


# --- What Python says of a node

cdef inline int purpose_of(str reduction) except -1:
    return {"forward": FORWARD, "max_pixel": MAX_PIXEL, "max_sample": MAX_SAMPLE}[reduction]


cdef inline AnyNode *roi_node(object computation) except? NULL:
    """A computation of roicy/onnxruntime that has a RoiSpec of roicy/compat/onnx/_specs.py.

    NULL: it has more levels than a node here, and Python computes it.
    """
    cdef RoiNode *node
    cdef Py_ssize_t i
    given = computation.spec
    if len(given.scales) > MOST_LEVELS:
        return NULL
    node = <RoiNode*>new(sizeof(RoiNode))
    node.levels = len(given.scales)
    node.call.purpose = purpose_of(given.operator.reduction.forward)
    node.call.position_sensitive = given.operator.position_sensitive
    node.call.boxes.width, node.call.rule = len(given.operator.box), (<Rule?>given.rule).c
    node.call.ph, node.call.pw = given.bins
    node.any.compute, node.call.max_boxes = compute_node, INT32_MAX
    node.at = Inputs(given.maps, given.boxes, given.images, given.size, given.chosen, given.begin)
    for i, pair in enumerate(given.scales):
        node.scales[i][0], node.scales[i][1] = pair
    for i, rule in enumerate(given.rules):
        node.rules[i] = level_rule(rule)
    for i, number in enumerate(given.numbers):
        node.numbers[i] = number
    node.products, node.one_image = given.products, given.one_image
    node.normalised, node.shifted = given.normalised, given.shifted
    node.copies = computation.copied >= 0
    return &node.any
