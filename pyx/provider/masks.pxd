"""Pasted masks: a node of roicy's domain, and the Loop that torchvision's exports paste with."""
from libc.stdint cimport int64_t
from libc.string cimport memset

from arrays cimport number_at
from errors cimport Error
from limits cimport MAX_EXTENT
from provider.abi cimport Status
from provider.calls cimport status_of
from provider.python cimport new
from provider.tensors cimport (AnyNode, Run, Tensor, dtype_of, is_real, make_output, read_inputs,
                               array_of, size_of, start_session_team)
from roicy._kernels.paste cimport PastedMasks, paste_tensors
from threads cimport Team

cdef struct MaskNode:              # inputs: masks, boxes, and what says the size of images
    AnyNode any
    int rule
    int padding
    bint truncated                 # boxes are of whole pixels
    int64_t[2] size                # height and width; -1: inputs say it


cdef inline bint read_size(const MaskNode *node, Run *run, int64_t *size) noexcept nogil:
    """Read height and width: constants, one tensor of both, or a tensor each."""
    cdef const Tensor *tensor
    cdef int i, dtype
    for i in range(2):
        size[i] = node.size[i]
        if size[i] >= 0:
            continue
        if run.count < 3:
            return False
        tensor = &run.inputs[2 + i] if run.count == 4 else &run.inputs[2]
        dtype = dtype_of(tensor.kind)
        if tensor.elements != (1 if run.count == 4 else 2) or is_real(dtype):
            return False
        size[i] = <int64_t>number_at(
            tensor.data + (0 if run.count == 4 else i) * size_of(dtype), dtype)
        if not 0 <= size[i] <= MAX_EXTENT:
            return False
    return True


cdef inline bint describe_masks(
        const MaskNode *node, Run *run, PastedMasks *call, int64_t *extents) noexcept nogil:
    """Describe the call, but for its output; False if Python has to look at it."""
    cdef const Tensor *masks = &run.inputs[0]
    cdef const Tensor *boxes = &run.inputs[1]
    cdef int dtype, i
    if run.count < 2:
        return False
    dtype = dtype_of(masks.kind)
    if (masks.rank != 3 and not (masks.rank == 4 and masks.extents[1] == 1)
            or dtype != c'f' and dtype != c'd' or masks.elements == 0
            or boxes.rank != 2 or boxes.extents[1] != 4
            or boxes.extents[0] != masks.extents[0] or not read_size(node, run, extents + 1)):
        return False
    call.masks, call.single = masks.data, dtype == c'f'
    call.extents[0] = extents[0] = masks.extents[0]
    for i in range(1, 3):
        call.extents[i] = masks.extents[masks.rank - 3 + i]
    call.boxes = array_of(boxes)
    call.placing.rule, call.placing.padding = node.rule, node.padding
    call.placing.truncated, call.placing.mask_width = node.truncated, call.extents[2]
    call.placing.extent[0], call.placing.extent[1] = extents[2], extents[1]
    call.threads = node.any.max_threads
    return True


cdef inline bint compute_masks(
        const AnyNode *any, void *context, Status *status) noexcept nogil:
    cdef Run run
    cdef PastedMasks call
    cdef Tensor made
    cdef int64_t[3] extents
    cdef Team team
    cdef Error error
    cdef int failed
    memset(&run, 0, sizeof(run))
    run.node, run.context = any, context
    if (not read_inputs(&run) or not describe_masks(<const MaskNode*>any, &run, &call, extents)
            or not make_output(&run, 0, extents, 3, &made)
            or made.elements == 0 or made.kind != run.inputs[0].kind):
        status[0] = run.status
        return run.status != NULL
    call.out = made.data
    start_session_team(&team, context)
    failed = paste_tensors(&call, &team, &error)
    if failed < 0:
        status[0] = status_of(&error)
    return failed <= 0


cdef inline AnyNode *mask_node(object computation) except NULL:
    """A computation of roicy/onnxruntime that has a MaskSpec of roicy/compat/onnx/_specs.py."""
    cdef MaskNode *node = <MaskNode*>new(sizeof(MaskNode))
    given = computation.spec
    node.any.compute = compute_masks
    node.rule, node.padding, node.truncated = given.rule, given.padding, given.truncated
    node.size[0], node.size[1] = given.size or (-1, -1)
    return &node.any
