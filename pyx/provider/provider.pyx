"""The provider: a library that ONNX Runtime loads as a plugin, and a module of Python.

ONNX Runtime asks for nodes, kernels and results through tables of C functions (abi.pxd).  What is
taken and how it is computed is decided in Python, once (roicy/onnxruntime/_claims.py).  This file
translates: graphs to objects, tensors to arrays of the same memory, errors to statuses.  Runs enter
Python only where nodes.pxd, masks.pxd, labels.pxd or recipes.pxd leave one to it.
"""
from cpython.buffer cimport (
    PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer)
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from copy import copy
from importlib.util import find_spec

import numpy as np

from arrays cimport Span, overlap
from provider.abi cimport (
    ApiBase, CustomOp, Ep, Factory, Function, Group, Kernel, Make, Many, Named, One, Release,
    Status)
from provider.answers cimport (
    create_state, get_input_count, get_input_kind, get_input_type, get_name, get_no_provider,
    get_op_name, get_output_count, get_output_kind, get_output_type, get_registry, get_vendor,
    get_vendor_id, ignore, is_stream_aware, make_none, one, transfer_none, zero)
from provider.calls cimport ask, check, failure, say, succeeds, text_of
from provider.functions cimport *      # api, ep_api, and names in capitals
from provider.kinds cimport node_of
from provider.tensors cimport AnyNode
from provider.python cimport (
    PyErr_Print, PyGILState_Ensure, PyGILState_Release, PyImport_ImportModule, Py_IsInitialized,
    call, forget, kept, new, release_kernel)
from provider.recipes cimport (
    Recipe, Recipes, compute_by_recipe, recipe_of, recipes_of, release_groups)

from roicy import __version__

cdef bytes name_bytes = get_name(NULL), version_bytes = __version__.encode()
cdef const char *VERSION = version_bytes
# NumPy's types by the numbers of ONNXTensorElementDataType
cdef dict DTYPES = {number: np.dtype(name) for number, name in (
    (1, "f4"), (2, "u1"), (3, "i1"), (6, "i4"), (7, "i8"), (9, "?"), (10, "f2"), (11, "f8"))}
# What is computed; bfloat16 where the package of its type is installed
NAME = name_bytes.decode()
FLOATS = (1, 11, 10) + ((16,) if find_spec("ml_dtypes") else ())
cdef type ndarray = np.ndarray
cdef bint imported = False       # whether the lines above were carried out
cdef object Claims, TABLE        # of roicy.onnxruntime, and of roicy.compat.onnx: set by start()
cdef Factory factory
cdef void *domains[8]
cdef size_t domain_count


# What ONNX Runtime knows of a model

cdef class Handles:              # what an object of ONNX Runtime has several of
    cdef size_t count
    cdef const void **items

    def __cinit__(self, size_t count):
        self.count, self.items = count, <const void**>calloc(count + 1, sizeof(void*))
        if self.items == NULL:
            raise MemoryError(f"no room for {count} handles")

    def __dealloc__(self):
        free(self.items)


cdef Handles handles(int place, const void *owner):
    """Ask one function how many objects there are, and the next function for the objects."""
    cdef size_t count
    ask(place, owner, &count)
    cdef Handles made = Handles(count)
    if count > 0:
        check((<Many>api[place + 1])(owner, made.items, made.count))
    return made


# Tensors

cdef object array_of(const void *value, bint writable, Span *span):
    """The array of a tensor, of the same memory, which is `span`."""
    cdef const int64_t *extents = NULL
    cdef void *data = NULL
    cdef int kind
    cdef size_t rank, i
    cdef Py_ssize_t count = 1
    check((<Status (*)(const void*, int*, const int64_t**, size_t*) noexcept nogil>
           api[TENSOR_TYPE_AND_EXTENTS])(value, &kind, &extents, &rank))
    shape = []
    for i in range(rank):
        count *= extents[i]
        shape.append(extents[i])
    if kind == 16 and kind in FLOATS and kind not in DTYPES:
        import ml_dtypes
        DTYPES[kind] = np.dtype(ml_dtypes.bfloat16)
    dtype = DTYPES.get(kind)
    if dtype is None:
        raise TypeError(f"a tensor of the element type {kind} of ONNX, which roicy cannot read")
    span.bytes = 0
    if count == 0:
        return np.empty(shape, dtype)
    ask(GET_TENSOR_DATA, value, &data)
    span.start, span.bytes = <const char*>data, count * <Py_ssize_t>dtype.itemsize
    memory = PyMemoryView_FromMemory(
        <char*>data, span.bytes, PyBUF_WRITE if writable else PyBUF_READ)
    return ndarray(shape, dtype, memory)


cdef object array_or_none(const void *value):
    """The array of a tensor, or None if NumPy has no such array."""
    cdef Span span
    try:
        return array_of(value, False, &span)
    except (TypeError, ValueError):
        return None


cdef class Output:               # makes an output of a node, of a shape; None if nobody wants it
    cdef void *context
    cdef Span read[4]            # the memory of the first inputs; a pooling has no more
    cdef size_t count            # of these

    def __call__(self, tuple shape, size_t index=0):
        cdef int64_t extents[64]
        cdef void *value = NULL
        cdef size_t i, rank = len(shape)
        cdef Span span
        if rank > 64:
            raise ValueError(f"an output of {rank} dimensions, expected at most 64, as NumPy has")
        for i in range(rank):
            extents[i] = shape[i]
        check((<Status (*)(void*, size_t, const int64_t*, size_t, void**) noexcept nogil>
               api[KERNEL_CONTEXT_OUTPUT])(self.context, index, extents, rank, &value))
        if value == NULL:
            return None
        made = array_of(value, True, &span)
        for i in range(self.count):
            if overlap(span, self.read[i]):
                raise ValueError(f"output {index} overlaps the memory of input {i}")
        return made


cdef Status compute_in_python(void *computation, void *context, Recipe **recipe) noexcept with gil:
    """Have Python compute a node, or make a recipe of it, which has one user then."""
    cdef const void *value = NULL
    cdef size_t count
    cdef Output output = Output()
    cdef Span span
    output.context, arrays = context, []
    try:
        ask(KERNEL_CONTEXT_INPUT_COUNT, context, &count)
        indices = (<object>computation).indices
        for i in range(count) if indices is None else indices:
            check((<Status (*)(const void*, size_t, const void**) noexcept nogil>
                   api[KERNEL_CONTEXT_INPUT])(context, i, &value))
            if value == NULL:
                raise ValueError(f"input {i} is missing")
            arrays.append(array_of(value, False, &span))
            if output.count < 4:
                output.read[output.count] = span
                output.count += 1
        made = call((<object>computation).run, (arrays, output))
        if made is not None:
            recipe[0] = recipe_of(made)
    except BaseException as error:
        return failure(error)
    return NULL


cdef inline Status compute(const void *node, void *computation, void *context) noexcept nogil:
    cdef Status status = NULL
    if node != NULL and (<const AnyNode*>node).compute(<const AnyNode*>node, context, &status):
        return status
    return compute_in_python(computation, context, NULL)      # groups alone make recipes


def are_zeros(numbers):
    """Whether an array of int64 has nothing but zeros, sooner than NumPy says it."""
    cdef Py_buffer array
    cdef Py_ssize_t i
    cdef int64_t any = 0
    PyObject_GetBuffer(numbers, &array, PyBUF_SIMPLE)
    for i in range(array.len // <Py_ssize_t>sizeof(int64_t)):
        any |= (<const int64_t*>array.buf)[i]
    PyBuffer_Release(&array)
    return any == 0


# Graphs

cdef class Graph:
    """A graph, which is valid while ONNX Runtime waits for an answer, as are its nodes."""

    cdef readonly list nodes     # in an order in which they can be computed
    cdef readonly list inputs, outputs, initializers        # their names
    cdef readonly dict producer  # the node that each value comes from
    cdef dict infos              # of values, by their names

    def __cinit__(self):
        self.nodes, self.infos, self.producer = [], {}, {}

    cdef list names(self, int place, const void *owner):
        cdef Handles values = handles(place, owner)
        cdef size_t i
        found = []
        for i in range(values.count):
            name = "" if values.items[i] == NULL else text_of(VALUE_NAME, values.items[i])
            found.append(name)
            self.infos[name] = <size_t>values.items[i]
        return found

    cdef const void *info(self, name) except? NULL:
        return <const void*><size_t>self.infos.get(name, 0)

    cdef const void *tensor(self, name) except? NULL:
        """What is known of a tensor; NULL for other values."""
        cdef const void *info = self.info(name)
        if info != NULL:
            ask(VALUE_TYPE, info, &info)
            ask(CAST_TO_TENSOR_INFO, info, &info)
        return info

    def type_of(self, name):
        """The element type of a tensor, as ONNX counts them; 0 for other values."""
        cdef const void *info = self.tensor(name)
        cdef int kind = 0
        if info != NULL:
            ask(GET_ELEMENT_TYPE, info, &kind)
        return kind

    def shape_of(self, name):
        """The extents of a tensor, -1 where one is not known; none where nothing is known."""
        cdef const void *info = self.tensor(name)
        cdef Handles extents
        cdef size_t i
        if info == NULL:
            return []
        extents = handles(GET_EXTENT_COUNT, info)      # numbers, each as large as a handle
        return [<Py_ssize_t>extents.items[i] for i in range(extents.count)]

    def constant(self, name):
        """A value that is the same in each run; None for others, and what NumPy has no arrays of.

        The array is valid as long as the graph.
        """
        cdef const void *info = self.info(name)
        cdef const void *value = NULL
        cdef char constant = 0
        if info != NULL:
            ask(VALUE_IS_CONSTANT, info, &constant)
        if constant:
            ask(VALUE_INITIALIZER, info, &value)
        return None if value == NULL else array_or_none(value)


cdef class Node:                 # captures: what its bodies read of the graphs around them
    cdef const void *handle
    cdef readonly Graph graph
    cdef readonly str name, op_type, domain        # the name of a nameless one is its output's
    cdef readonly tuple key      # of the table: (domain, op_type)
    cdef readonly int since_version
    cdef readonly list inputs, outputs, captures

    @property
    def attributes(self):
        """The attributes but for graphs, by their names."""
        cdef Handles found = handles(NODE_ATTRIBUTES, self.handle)
        cdef size_t i
        given = {text_of(ATTRIBUTE_NAME, found.items[i]): attribute(found.items[i])
                 for i in range(found.count)}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def bodies(self):
        """The graphs in its attributes."""
        cdef size_t count, i
        ask(NODE_GRAPH_COUNT, self.handle, &count)
        cdef Handles graphs = Handles(count)
        if count > 0:
            check((<Status (*)(const void*, const void**, size_t, const void**) noexcept nogil>
                   api[NODE_GRAPHS])(self.handle, graphs.items, count, NULL))
        return [graph_of(graphs.items[i]) for i in range(count)]


cdef Graph graph_of(const void *handle):
    cdef Graph graph = Graph()
    cdef Node node
    cdef Handles nodes = handles(GRAPH_NODES, handle)
    cdef size_t i
    for i in range(nodes.count):
        node = Node()
        node.handle, node.graph = nodes.items[i], graph
        node.domain = text_of(NODE_DOMAIN, node.handle)
        node.op_type = text_of(NODE_OP_TYPE, node.handle)
        node.key = node.domain, node.op_type
        ask(NODE_SINCE_VERSION, node.handle, &node.since_version)
        node.inputs = graph.names(NODE_INPUTS, node.handle)
        node.outputs = graph.names(NODE_OUTPUTS, node.handle)
        node.captures = graph.names(NODE_CAPTURES, node.handle)
        node.name = text_of(NODE_NAME, node.handle) or "".join(node.outputs[:1])
        graph.nodes.append(node)
        graph.producer.update(dict.fromkeys(filter(None, node.outputs), node))
    graph.inputs = graph.names(GRAPH_INPUTS, handle)
    graph.outputs = graph.names(GRAPH_OUTPUTS, handle)
    graph.initializers = graph.names(GRAPH_INITIALIZERS, handle)
    return graph


cdef bint has_any(const void *graph, kinds) except? True:
    """Whether a graph has a node of these kinds, which is known sooner than what all nodes are."""
    cdef Handles nodes = handles(GRAPH_NODES, graph)
    cdef size_t i
    for i in range(nodes.count):
        if text_of(NODE_OP_TYPE, nodes.items[i]) in kinds:
            return True
    return False


cdef object attribute(const void *handle):
    """The value of an attribute; None for kinds that nobody looks at."""
    cdef int kind
    cdef size_t size = 0
    cdef void *tensor
    ask(ATTRIBUTE_TYPE, handle, &kind)
    if kind == TENSOR:
        ask(ATTRIBUTE_TENSOR, handle, &tensor)
        try:
            return copy(array_or_none(tensor))
        finally:
            (<Release>api[RELEASE_VALUE])(tensor)
    if kind > STRING:
        return None
    read = <Status (*)(const void*, int, void*, size_t, size_t*) noexcept nogil>api[READ_OP_ATTR]
    succeeds(read(handle, kind, NULL, 0, &size))       # says how large it is
    memory = bytearray(size)
    if size > 0:
        check(read(handle, kind, <char*>memory, size, &size))
    values = decoded(memory, kind)
    return values[0] if kind == INT or kind == FLOAT else values


cdef object decoded(bytearray memory, int kind):
    """The text or the list of numbers of an attribute."""
    if kind == STRING:
        return memory.rstrip(b"\0").decode(errors="surrogateescape")
    return np.frombuffer(memory, np.int64 if kind <= INTS else np.float32).tolist()


# What an EP does

cdef Status get_capability(void *ep, const void *graph, void *support) noexcept with gil:
    """Take groups of nodes, each of which becomes one node, and single nodes."""
    cdef Handles nodes
    cdef size_t i
    try:
        if not has_any(graph, (<object>(<Ep*>ep).claims).kinds):
            return NULL
        groups, singles = call((<object>(<Ep*>ep).claims).of, (graph_of(graph),))
        for group in groups:
            nodes = Handles(len(group))
            for i in range(nodes.count):
                nodes.items[i] = (<Node?>group[i]).handle
            check((<Status (*)(void*, const void**, size_t, const void*) noexcept nogil>
                   ep_api[ADD_NODES_TO_FUSE])(support, nodes.items, nodes.count, NULL))
        for node in singles:
            check((<One>ep_api[ADD_SINGLE_NODE])(support, <void*>(<Node?>node).handle))
    except BaseException as error:
        return failure(error)
    return NULL


cdef Status compute_group(void *group, void *state, void *context) noexcept nogil:
    cdef Group *of = <Group*>group
    if of.node != NULL:
        return compute(of.node, of.computation, context)
    return compute_by_recipe(<Recipes*>of.recipes, of.computation, context, compute_in_python)


cdef Status compile_nodes(void *ep, const void **graphs, const void **nodes, size_t count,
                          void **groups, void **contexts) noexcept with gil:
    """Find what computes groups of nodes, in whose places there is one node now."""
    cdef Graph values = Graph()
    cdef Group *group
    cdef size_t i
    memset(groups, 0, count * sizeof(void*))
    try:
        for i in range(count):
            names = values.names(NODE_OUTPUTS, nodes[i]), values.names(NODE_INPUTS, nodes[i])
            found = call((<object>(<Ep*>ep).claims).computation_of, names)
            groups[i] = group = <Group*>new(sizeof(Group))
            group.version, group.compute = API_VERSION, compute_group
            group.computation, group.node = kept(found), node_of(found)
            group.recipes = recipes_of(found) if group.node == NULL else NULL
            group.create_state, group.release_state = create_state, ignore
    except BaseException as error:
        release_groups(ep, groups, count)
        return failure(error)
    return NULL


# Kernels of single nodes

cdef object attribute_of(const void *info, bytes name):
    """The value of a kernel's attribute, whose kind is found by trying; None if it has none."""
    cdef int64_t integer
    cdef float number
    cdef size_t size
    if succeeds((<Named>api[KERNEL_INFO_INT])(info, name, &integer, NULL)):
        return integer
    if succeeds((<Named>api[KERNEL_INFO_FLOAT])(info, name, &number, NULL)):
        return number
    for place, kind, each in ((KERNEL_INFO_INTS, INTS, sizeof(int64_t)),
                              (KERNEL_INFO_FLOATS, FLOAT, sizeof(float)),
                              (KERNEL_INFO_STRING, STRING, 1)):
        size = 0
        succeeds((<Named>api[<int>place])(info, name, NULL, &size))      # says how long it is
        if size > 0:
            memory = bytearray(size * each)
            check((<Named>api[<int>place])(info, name, <char*>memory, &size))
            return decoded(memory, kind)
    return None


cdef Status compute_kernel(void *kernel, void *context) noexcept nogil:
    return compute((<Kernel*>kernel).node, (<Kernel*>kernel).computation, context)


cdef Status create_kernel(void *entry, const void *info, void **made) noexcept with gil:
    """Make the kernel of a node; entry: key in the table, operator, and claims of the EP."""
    cdef Kernel *kernel
    cdef void *node = NULL
    cdef char name[1000]
    cdef size_t size = sizeof(name)
    name[0] = 0                  # longer names are left out
    try:
        key, operator, claims = <object>entry
        succeeds((<Status (*)(const void*, char*, size_t*) noexcept nogil>
                  api[KERNEL_INFO_NODE_NAME])(info, name, &size))
        values = {each: attribute_of(info, each.encode()) for each in operator.attributes}
        given = {each: value for each, value in values.items() if value is not None}
        title = (<const char*>name).decode(errors="replace")
        found = call(claims.single, (title, key, operator, given))
        node = node_of(found)
        made[0] = kernel = <Kernel*>new(sizeof(Kernel))
    except BaseException as error:
        free(node)
        return failure(error)
    kernel.version, kernel.compute, kernel.release = API_VERSION, compute_kernel, release_kernel
    kernel.computation, kernel.node = kept(found), node
    return NULL


cdef int add_kernel(void *registry, tuple entry, int version) except -1:
    """Register the kernel of an operator as the opset of a version has it."""
    cdef void *builder
    cdef void *definition = NULL
    cdef bytes domain = entry[0][0].encode(), name = entry[0][1].encode(), text
    check((<Make>ep_api[CREATE_KERNEL_DEF_BUILDER])(&builder))
    try:
        for place, text in ((BUILDER_OP_TYPE, name), (BUILDER_DOMAIN, domain),
                            (BUILDER_PROVIDER, name_bytes)):
            check((<One>ep_api[<int>place])(builder, <char*>text))
        check((<Status (*)(void*, int, int) noexcept nogil>ep_api[BUILDER_SINCE_VERSION])(
            builder, version, version))
        check((<One>ep_api[BUILDER_BUILD])(builder, &definition))
        check((<Status (*)(void*, void*, void*, void*) noexcept nogil>
               ep_api[REGISTRY_ADD_KERNEL])(registry, definition, <void*>create_kernel,
                                            <void*>entry))
    finally:
        (<Release>ep_api[RELEASE_KERNEL_DEF_BUILDER])(builder)
        (<Release>ep_api[RELEASE_KERNEL_DEF])(definition)
    return 0


# Operators of domains that ONNX Runtime does not know

cdef Status create_custom(
        const void *op, const void *table, const void *info, void **kernel) noexcept nogil:
    return create_kernel((<CustomOp*>op).entry, info, kernel)


cdef int add_operator(void *domain, tuple key, object operator, int kind) except -1:
    """Add the form of an operator whose maps are of one type, to the CPU provider."""
    cdef CustomOp *op = <CustomOp*>new(sizeof(CustomOp))
    cdef bytes name = key[1].encode()
    op.kind, op.of_levels = kind, operator.of_levels
    op.name, op.entry = <const char*>name, kept((key, operator, Claims({})))
    kept(name)                   # for ever, as the operator
    op.inputs, op.outputs = operator.inputs, 2 if operator.copied >= 0 else 1
    op.version, op.get_name, op.get_provider = API_VERSION, get_op_name, get_no_provider
    op.get_input_type, op.get_output_type = get_input_type, get_output_type
    op.get_output_kind, op.get_input_memory = get_output_kind, zero
    op.get_input_count, op.get_output_count = get_input_count, get_output_count
    op.get_input_kind = get_input_kind
    op.get_least_variadic = op.is_variadic_homogeneous = one
    op.create_kernel, op.compute, op.release = create_custom, compute_kernel, release_kernel
    check((<One>api[CUSTOM_OP_DOMAIN_ADD])(domain, op))
    return 0


cdef int make_domains() except -1:
    global domain_count
    if domain_count > 0:
        return 0
    for name in sorted({key[0] for key in TABLE} - {"", "com.microsoft"}):
        text = name.encode()
        check((<One>api[CREATE_CUSTOM_OP_DOMAIN])(<char*>text, &domains[domain_count]))
        for key, versions in TABLE.items():
            for kind in FLOATS if key[0] == name else ():        # of maps
                add_operator(domains[domain_count], key, versions[1], kind)
        domain_count += 1
    return 0


cdef Status get_domain_count(void *this, size_t *count) noexcept nogil:
    count[0] = domain_count
    return NULL


cdef Status get_domains(void *this, void **made, size_t count) noexcept nogil:
    memcpy(made, domains, min(count, domain_count) * sizeof(void*))
    return NULL


# The factory of EPs

cdef const char *get_version(const void *this) noexcept nogil:
    return VERSION


cdef Status get_devices(void *this, const void *const *devices, size_t count, void **found,
                        size_t most, size_t *number) noexcept nogil:
    """The CPU is the only device, of whatever number of sockets."""
    cdef size_t i
    for i in range(count if most > 0 else 0):
        if (<int (*)(const void*) noexcept nogil>api[HARDWARE_DEVICE_TYPE])(devices[i]) == 0:
            number[0] = 1
            return (<Status (*)(void*, const void*, void*, void*, void**) noexcept nogil>
                    ep_api[CREATE_EP_DEVICE])(this, devices[i], NULL, NULL, found)
    number[0] = 0
    return NULL


cdef dict options_of(const void *options):
    """The options of the provider, by their names."""
    cdef const char **keys
    cdef const char **values
    cdef void *pairs = NULL
    cdef size_t count, i
    prefix, given = f"ep.{name_bytes.decode().lower()}.", {}
    ask(GET_CONFIG_ENTRIES, options, &pairs)
    (<void (*)(const void*, const char***, const char***, size_t*) noexcept nogil>
     api[GET_PAIRS])(pairs, &keys, &values, &count)
    for i in range(count):
        key = keys[i].decode(errors="replace")
        if key.startswith(prefix):
            given[key.removeprefix(prefix)] = values[i].decode(errors="replace")
    (<Release>api[RELEASE_PAIRS])(pairs)
    return given


cdef Status get_layout(void *ep, int *layout) noexcept with gil:
    """NCHW.  Options that are wrong are an error here, where a session is being initialised: if the
    EP could not be made, ONNX Runtime would do without it.
    """
    layout[0] = 0
    try:
        call((<object>(<Ep*>ep).claims).check_options, ())
    except BaseException as error:
        return failure(error)
    return NULL


cdef Status create_ep(void *this, const void *devices, const void *metadata, size_t count,
                      const void *options, const void *logger, void **made) noexcept with gil:
    cdef Ep *ep = NULL
    try:
        claims = Claims(options_of(options))
        entries = []
        ep = <Ep*>new(sizeof(Ep))
        ep.version, ep.get_name, ep.get_capability = API_VERSION, get_name, get_capability
        ep.compile_nodes, ep.release_groups = compile_nodes, release_groups
        ep.get_registry, ep.claims, ep.entries = get_registry, kept(claims), kept(entries)
        ep.get_layout = get_layout
        check((<Make>ep_api[CREATE_KERNEL_REGISTRY])(&ep.registry))
        for key, versions in TABLE.items():
            for version, operator in versions.items():
                entry = key, operator, claims
                entries.append(entry)
                add_kernel(ep.registry, entry, version)
    except BaseException as error:
        if ep != NULL:
            release_ep(NULL, ep)
        return failure(error)
    made[0] = ep
    return NULL


cdef void release_ep(void *this, void *ep) noexcept nogil:
    if (<Ep*>ep).registry != NULL:
        (<Release>ep_api[RELEASE_KERNEL_REGISTRY])((<Ep*>ep).registry)
    forget((<Ep*>ep).claims)
    forget((<Ep*>ep).entries)
    free(ep)


# Entry points

cdef Status start() noexcept with gil:
    """Look up what is decided in Python, and fill what ONNX Runtime asks for."""
    global Claims, TABLE
    try:
        from roicy.compat.onnx._ops import TABLE
        from roicy.onnxruntime._claims import Claims
        make_domains()
    except BaseException as error:
        return failure(error)
    factory.version, factory.get_name, factory.get_vendor = API_VERSION, get_name, get_vendor
    factory.get_version, factory.get_vendor_id = get_version, get_vendor_id
    factory.get_devices, factory.create_ep, factory.release_ep = get_devices, create_ep, release_ep
    factory.is_stream_aware = is_stream_aware
    factory.create_allocator, factory.release_allocator = make_none, ignore
    factory.create_data_transfer, factory.create_stream = transfer_none, make_none
    factory.get_domain_count, factory.get_domains = get_domain_count, get_domains
    return NULL


cdef Status begin(const ApiBase *base) noexcept nogil:
    """Start, where there is Python.  This module is imported if nobody has done so."""
    global api, ep_api
    cdef int state
    cdef char text[100]
    api = base.get_api(API_VERSION)
    if api == NULL:
        api = base.get_api(1)
        snprintf(text, sizeof(text), "ONNX Runtime is of version %.20s, and roicy needs 1.24 or "
                 "newer", base.get_version())
        return say(FAIL, text)
    if not Py_IsInitialized():
        return say(FAIL, "roicy's provider needs Python in its process, and there is none")
    if not imported:
        state = PyGILState_Ensure()
        if PyImport_ImportModule("roicy.onnxruntime.provider") == NULL:
            PyErr_Print()
        PyGILState_Release(state)
        if not imported:
            return say(FAIL, "roicy cannot be imported in this process")
    ep_api = (<const Function *(*)() noexcept nogil>api[GET_EP_API])()
    return start()


cdef public void *CreateEpFactories(
        const char *name, const void *base, const void *logger, void **factories, size_t most,
        size_t *count) noexcept nogil:
    """Called by ONNX Runtime when the library is registered."""
    cdef Status status = begin(<const ApiBase*>base)
    count[0] = status == NULL
    factories[0] = &factory
    return status


cdef public void *ReleaseEpFactory(void *made) noexcept nogil:
    """Called by ONNX Runtime at its end; there is one factory for ever."""
    return NULL


cdef public void *RegisterCustomOps(void *options, const void *base) noexcept nogil:
    """Called by register_custom_ops_library, which is for sessions without the provider."""
    cdef Status status = begin(<const ApiBase*>base)
    cdef size_t i
    for i in range(domain_count):
        if status == NULL:
            status = (<One>api[ADD_CUSTOM_OP_DOMAIN])(options, domains[i])
    return status


imported = True
