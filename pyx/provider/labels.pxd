"""Labels of pixels: the Resize and the ArgMax of a segmentation network's maps."""
from libc.stdint cimport int64_t
from libc.string cimport memset

from arrays cimport number_at
from errors cimport Error
from labels.structs cimport NEAREST, ONNX_ALIGNED, Labels, LabelsAxis
from limits cimport MAX_EXACT, MAX_EXTENT
from provider.abi cimport One, Status
from provider.calls cimport say_overlap, status_of
from provider.functions cimport GET_TENSOR_DATA, KERNEL_CONTEXT_OUTPUT, api
from provider.python cimport new
from provider.tensors cimport (AnyNode, Run, Tensor, dtype_of, is_real, overlapped, read_inputs,
                               size_of, start_session_team)
from roicy._kernels.labels cimport compute_labels
from threads cimport Team

cdef struct LabelNode:             # inputs: maps, and the sizes of enlarged maps, or their scales
    AnyNode any
    int classes                    # the axis of classes, 1 or 3
    int rule, nearest              # as in labels/structs.h
    bint first_of_one              # an only pixel lies on the first number
    bint last                      # of equal numbers the last one wins
    double quantum, least, most    # as in labels/structs.h
    bint bounded                   # each map is a mask of its own, of what reaches the threshold
    double threshold
    int[4] places                  # of each axis among sizes or scales; -1: it stays
    int rank                       # of the result
    int[4] order                   # which axis of maps each of its axes is; -1: one of extent 1
    int itemsize                   # of a label


cdef inline bint is_scaled(const Run *run) noexcept nogil:
    return is_real(dtype_of(run.inputs[1].kind))


cdef inline double number_of(const LabelNode *node, const Run *run, int axis) noexcept nogil:
    """The size of an axis, or its scale; -1 if there is none."""
    cdef const Tensor *given = &run.inputs[1]
    cdef int place = node.places[axis], dtype = dtype_of(given.kind)
    if place < 0:
        return 1 if is_scaled(run) else run.inputs[0].extents[axis]
    if place >= given.elements:
        return -1
    return number_at(given.data + place * size_of(dtype), dtype)


cdef inline bint stays(const LabelNode *node, const Run *run, int axis) noexcept nogil:
    return number_of(node, run, axis) == (
        1 if is_scaled(run) else run.inputs[0].extents[axis])


cdef inline bint place_axis(
        const LabelNode *node, const Run *run, int axis, LabelsAxis *to) noexcept nogil:
    """Say where the pixels of an axis lie; False if there are none, or too many."""
    cdef Py_ssize_t numbers = run.inputs[0].extents[axis]
    cdef double number = number_of(node, run, axis), pixels = number
    if is_scaled(run):
        pixels = <float>number * <float>numbers
    if not (1 <= numbers <= MAX_EXTENT and 1 <= pixels <= MAX_EXTENT):
        return False
    to.first, to.extent, to.pixels = 0, numbers, <Py_ssize_t>pixels
    to.scale = number if is_scaled(run) else <float>pixels / <float>numbers
    to.rule, to.nearest = node.rule, node.nearest
    if node.first_of_one and to.pixels == 1:
        to.rule = ONNX_ALIGNED
    return True


cdef inline bint describe_labels(
        const LabelNode *node, const Run *run, Labels *call, int64_t *extents) noexcept nogil:
    """Describe the call, but for its output; False if Python has to say what is wrong."""
    cdef const Tensor *maps = &run.inputs[0]
    cdef int y = 1 if node.classes > 1 else 2, x = 3 if node.classes < 3 else 2, axis
    cdef Py_ssize_t[4] strides
    memset(call, 0, sizeof(call[0]))
    if run.count != 2 or maps.rank != 4:
        return False
    if not (1 <= maps.extents[node.classes] <= MAX_EXACT and stays(node, run, 0)
            and stays(node, run, node.classes)
            and place_axis(node, run, y, &call.y) and place_axis(node, run, x, &call.x)):
        return False
    if stays(node, run, y) and stays(node, run, x):        # ONNX Runtime copies maps then
        call.y.rule = call.x.rule = NEAREST
    call.onnx, call.quantum, call.least, call.most = True, node.quantum, node.least, node.most
    call.kind, strides[3] = dtype_of(maps.kind), size_of(dtype_of(maps.kind))
    for axis in range(2, -1, -1):
        strides[axis] = strides[axis + 1] * maps.extents[axis + 1]
    call.maps, call.classes, call.image = maps.data, maps.extents[node.classes], strides[0]
    call.class_stride, call.row, call.column = strides[node.classes], strides[y], strides[x]
    if node.last:                  # classes are read in reverse order, which compute_labels sees
        call.maps += (call.classes - 1) * call.class_stride
        call.class_stride = -call.class_stride
    if node.bounded:
        call.image, call.classes = call.class_stride, 1
        call.bounded, call.threshold = True, node.threshold
    strides[0] = strides[y] = strides[x] = call.itemsize = node.itemsize
    for axis in range(node.rank):
        extents[axis] = 1
        if node.order[axis] >= 0:
            extents[axis] = maps.extents[node.order[axis]]
        if node.order[axis] == y:
            extents[axis] = call.y.pixels
        if node.order[axis] == x:
            extents[axis] = call.x.pixels
    cdef Py_ssize_t stride = node.itemsize
    for axis in range(node.rank - 1, -1, -1):
        if node.order[axis] >= 0:
            strides[node.order[axis]] = stride
        stride *= extents[axis]
    call.out_image = strides[node.classes if node.bounded else 0]
    call.out_row, call.out_column = strides[y], strides[x]
    return True


cdef inline bint open_labels(
        const LabelNode *node, Run *run, const int64_t *extents, Tensor *made) noexcept nogil:
    """Make the output, of integers of any size; False with a status."""
    cdef void *value = NULL
    cdef Py_ssize_t same
    cdef int axis
    made.elements, made.data = 1, NULL
    for axis in range(node.rank):
        made.elements *= extents[axis]
    run.status = (<Status (*)(void*, size_t, const int64_t*, size_t, void**) noexcept nogil>
                  api[KERNEL_CONTEXT_OUTPUT])(run.context, 0, extents, node.rank, &value)
    if run.status == NULL and made.elements > 0:
        run.status = (<One>api[GET_TENSOR_DATA])(value, &made.data)
    made.span.start, made.span.bytes = made.data, made.elements * node.itemsize
    same = overlapped(made, run.inputs, run.count)
    if run.status == NULL and same >= 0:
        run.status = say_overlap(same)
    return run.status == NULL


cdef inline bint compute_label_node(
        const AnyNode *any, void *context, Status *status) noexcept nogil:
    cdef Run run
    cdef Labels call
    cdef Tensor made
    cdef int64_t[4] extents
    cdef Team team
    cdef Error error
    cdef Py_ssize_t images
    cdef const LabelNode *node = <const LabelNode*>any
    memset(&run, 0, sizeof(run))
    run.node, run.context = any, context
    if not read_inputs(&run) or not describe_labels(node, &run, &call, extents):
        status[0] = run.status
        return run.status != NULL
    if open_labels(node, &run, extents, &made) and made.elements > 0:
        call.out = made.data
        images = run.inputs[0].extents[0] * (run.inputs[0].extents[1] if node.bounded else 1)
        start_session_team(&team, context)
        if compute_labels(&call, images, any.max_threads, &team, &error) < 0:
            run.status = status_of(&error)
    status[0] = run.status
    return True


cdef inline AnyNode *label_node(object computation) except NULL:
    """A computation of roicy/onnxruntime that has a LabelSpec of roicy/compat/onnx/_specs.py."""
    cdef LabelNode *node = <LabelNode*>new(sizeof(LabelNode))
    cdef int i
    given = computation.spec
    node.any.compute = compute_label_node
    node.classes, node.itemsize, node.first_of_one = (
        given.classes, given.itemsize, given.first_of_one)
    node.rule, node.nearest, node.last = given.rule, given.nearest, given.last
    node.quantum, node.least, node.most = given.quantum, given.least, given.most
    node.bounded, node.threshold = given.bounded, given.threshold
    node.rank = len(given.order)
    for i in range(4):
        node.places[i] = given.places[i]
    for i in range(node.rank):
        node.order[i] = given.order[i]
    return &node.any
