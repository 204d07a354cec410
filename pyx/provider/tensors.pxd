"""Tensors of a run of a node: those that it reads, and those that it makes."""
from libc.stdint cimport int64_t

from arrays cimport MOST_AXES, Array, Span, contiguous, overlap
from provider.abi cimport One, Status
from provider.functions cimport (
    GET_TENSOR_DATA, KERNEL_CONTEXT_INPUT, KERNEL_CONTEXT_INPUT_COUNT, KERNEL_CONTEXT_OUTPUT,
    PARALLEL_FOR, TENSOR_TYPE_AND_EXTENTS, api)
from threads cimport ParallelFor, Team, start_team

cdef enum:
    MOST_INPUTS = 20


cdef struct AnyNode:               # what the structs of all nodes begin with
    # Compute a node and set its status; False if Python has to compute it.
    bint (*compute)(const AnyNode *node, void *context, Status *status) noexcept nogil
    size_t count                   # of inputs; 0: as many as there are
    size_t[MOST_INPUTS] places     # of these inputs among those of ONNX Runtime
    int max_threads


cdef struct Tensor:
    int kind                       # ONNXTensorElementDataType
    size_t rank
    const int64_t *extents
    char *data                     # NULL where there is no element
    Py_ssize_t elements
    Span span


cdef struct Run:                   # of a node
    const AnyNode *node
    void *context
    Tensor[MOST_INPUTS] inputs
    Py_ssize_t count               # of these
    Status status


cdef inline int dtype_of(int kind) noexcept nogil:
    """NumPy's character of a type of ONNXTensorElementDataType; 0 of others."""
    if kind == 1:
        return c'f'
    if kind == 6:
        return c'i'
    if kind == 7:
        return c'q'
    if kind == 10:
        return c'e'
    if kind == 11:
        return c'd'
    return c'E' if kind == 16 else 0


cdef inline int size_of(int dtype) noexcept nogil:
    """Bytes of an element."""
    if dtype == c'd' or dtype == c'q':
        return 8
    return 4 if dtype == c'f' or dtype == c'i' else 2


cdef inline bint is_real(int dtype) noexcept nogil:
    return dtype == c'f' or dtype == c'd' or dtype == c'e' or dtype == c'E'


cdef inline Array array_of(const Tensor *tensor) noexcept nogil:
    """A tensor of four axes at most."""
    cdef int kind = dtype_of(tensor.kind)
    cdef Py_ssize_t[MOST_AXES] extents
    cdef size_t i
    for i in range(tensor.rank):
        extents[i] = tensor.extents[i]
    return contiguous(tensor.data, kind, size_of(kind), <int>tensor.rank, extents)


cdef inline bint read_tensor(const void *value, Tensor *tensor, Status *status) noexcept nogil:
    """Describe a tensor; False if it has a type that only Python knows, or with a status."""
    cdef size_t i
    status[0] = (<Status (*)(const void*, int*, const int64_t**, size_t*) noexcept nogil>
                 api[TENSOR_TYPE_AND_EXTENTS])(value, &tensor.kind, &tensor.extents, &tensor.rank)
    if status[0] != NULL or dtype_of(tensor.kind) == 0:
        return False
    tensor.elements, tensor.data = 1, NULL
    for i in range(tensor.rank):
        tensor.elements *= tensor.extents[i]
    if tensor.elements > 0:
        status[0] = (<One>api[GET_TENSOR_DATA])(value, &tensor.data)
    tensor.span.start = tensor.data
    tensor.span.bytes = tensor.elements * size_of(dtype_of(tensor.kind))
    return status[0] == NULL


cdef inline bint read_input(
        void *context, size_t place, Tensor *tensor, Status *status) noexcept nogil:
    """Describe an input; False if it is missing, and as `read_tensor`."""
    cdef const void *value = NULL
    status[0] = (<Status (*)(const void*, size_t, const void**) noexcept nogil>
                 api[KERNEL_CONTEXT_INPUT])(context, place, &value)
    return status[0] == NULL and value != NULL and read_tensor(value, tensor, status)


cdef inline bint read_inputs(Run *run) noexcept nogil:
    cdef const AnyNode *node = run.node
    cdef size_t count = node.count, i
    if count == 0:
        run.status = (<One>api[KERNEL_CONTEXT_INPUT_COUNT])(run.context, &count)
        if run.status != NULL or count > MOST_INPUTS:
            return False
    for i in range(count):
        if not read_input(run.context, node.places[i] if node.count > 0 else i, &run.inputs[i],
                          &run.status):
            return False
    run.count = count
    return True


cdef inline bint open_output(
        void *context, size_t index, const int64_t *extents, size_t rank, Tensor *made,
        Status *status) noexcept nogil:
    """Make an output; False with a status.  Its data are NULL if nobody wants it."""
    cdef void *value = NULL
    made.data, made.elements, made.span.bytes = NULL, 0, 0
    status[0] = (<Status (*)(void*, size_t, const int64_t*, size_t, void**) noexcept nogil>
                 api[KERNEL_CONTEXT_OUTPUT])(context, index, extents, rank, &value)
    return status[0] == NULL and (value == NULL or read_tensor(value, made, status))


cdef inline Py_ssize_t overlapped(
        const Tensor *made, const Tensor *inputs, Py_ssize_t count) noexcept nogil:
    """The number of an input whose memory an output has, or -1."""
    cdef Py_ssize_t i
    for i in range(count):
        if overlap(made.span, inputs[i].span):
            return i
    return -1


cdef inline bint make_output(
        Run *run, size_t index, const int64_t *extents, size_t rank, Tensor *made) noexcept nogil:
    """Make an output; False if it has no memory of its own.  Its data are NULL if nobody wants it.
    """
    return (open_output(run.context, index, extents, rank, made, &run.status)
            and overlapped(made, run.inputs, run.count) < 0)


cdef inline void start_session_team(Team *team, void *context) noexcept nogil:
    """The session's own threads; signals are Python's business after the run."""
    start_team(team)
    team.parallel_for, team.context = <ParallelFor>api[PARALLEL_FOR], context
    team.looks_for_signals = False
