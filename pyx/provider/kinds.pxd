"""Which kind of node a computation is."""
from provider.labels cimport label_node
from provider.masks cimport mask_node
from provider.nodes cimport roi_node
from provider.tensors cimport AnyNode


cdef inline AnyNode *node_of(object computation) except? NULL:
    """What the provider computes without Python; NULL if there is no such thing."""
    from roicy._machine._threads import resolve
    from roicy.compat.onnx._specs import LabelSpec, MaskSpec
    cdef AnyNode *node
    if computation.spec is None:
        return NULL
    if isinstance(computation.spec, MaskSpec):
        node = mask_node(computation)
    elif isinstance(computation.spec, LabelSpec):
        node = label_node(computation)
    else:
        node = roi_node(computation)
        if node == NULL:
            return NULL
    node.max_threads = resolve(computation.threads)
    for place in computation.indices or ():
        node.places[node.count] = place
        node.count += 1
    return node
