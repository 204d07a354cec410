"""Tensors of a run of a node: those that it reads, and those that it makes."""
from libc.stdint cimport int64_t

from plan.boxes cimport Rows
from provider.abi cimport (GET_TENSOR_DATA, KERNEL_CONTEXT_INPUT, KERNEL_CONTEXT_INPUT_COUNT,
                           KERNEL_CONTEXT_OUTPUT, PARALLEL_FOR, TENSOR_TYPE_AND_EXTENTS, One,
                           Status, api)
from provider.answers cimport Span, overlap
from threads cimport ParallelFor, Team

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
    """NumPy's character of a type of numbers; 0 of others."""
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


cdef inline Rows rows_of(const Tensor *tensor) noexcept nogil:
    cdef Rows rows
    rows.start, rows.kind = tensor.data, dtype_of(tensor.kind)
    rows.count = tensor.extents[0] if tensor.rank > 0 else 0
    rows.column = size_of(rows.kind)
    rows.row = rows.column * (tensor.extents[1] if tensor.rank == 2 else 1)
    return rows


cdef inline bint read_tensor(Run *run, const void *value, Tensor *tensor) noexcept nogil:
    """Describe a tensor; False if it has a type that only Python knows, or with a status."""
    cdef size_t i
    run.status = (<Status (*)(const void*, int*, const int64_t**, size_t*) noexcept nogil>
                  api[TENSOR_TYPE_AND_EXTENTS])(value, &tensor.kind, &tensor.extents, &tensor.rank)
    if run.status != NULL or dtype_of(tensor.kind) == 0:
        return False
    tensor.elements, tensor.data = 1, NULL
    for i in range(tensor.rank):
        tensor.elements *= tensor.extents[i]
    if tensor.elements > 0:
        run.status = (<One>api[GET_TENSOR_DATA])(value, &tensor.data)
    tensor.span.start = tensor.data
    tensor.span.bytes = tensor.elements * size_of(dtype_of(tensor.kind))
    return run.status == NULL


cdef inline bint read_inputs(Run *run) noexcept nogil:
    cdef const AnyNode *node = run.node
    cdef const void *value
    cdef size_t count = node.count, i
    if count == 0:
        run.status = (<One>api[KERNEL_CONTEXT_INPUT_COUNT])(run.context, &count)
        if run.status != NULL or count > MOST_INPUTS:
            return False
    for i in range(count):
        value = NULL
        run.status = (<Status (*)(const void*, size_t, const void**) noexcept nogil>
                      api[KERNEL_CONTEXT_INPUT])(
                          run.context, node.places[i] if node.count > 0 else i, &value)
        if run.status != NULL or value == NULL or not read_tensor(run, value, &run.inputs[i]):
            return False
    run.count = count
    return True


cdef inline bint make_output(
        Run *run, size_t index, const int64_t *extents, size_t rank, Tensor *made) noexcept nogil:
    """Make an output; False if it has no memory of its own.  Its data are NULL if nobody wants it.
    """
    cdef void *value = NULL
    cdef Py_ssize_t i
    made.data, made.elements = NULL, 0
    run.status = (<Status (*)(void*, size_t, const int64_t*, size_t, void**) noexcept nogil>
                  api[KERNEL_CONTEXT_OUTPUT])(run.context, index, extents, rank, &value)
    if run.status != NULL:
        return False
    if value == NULL:
        return True
    if not read_tensor(run, value, made):
        return False
    for i in range(run.count):
        if overlap(&made.span, &run.inputs[i].span):
            return False
    return True


cdef inline void start_session_team(Team *team, void *context) noexcept nogil:
    """The session's own threads; signals are Python's business after the run."""
    team.parallel_for, team.context = <ParallelFor>api[PARALLEL_FOR], context
    team.looks_for_signals, team.until = False, 0
