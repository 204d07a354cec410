"""What provider.pyx uses of ONNX Runtime's C interface.

The interface is a table of pointers to functions whose places never change, so a function is known
by its place, and no header of ONNX Runtime's is needed.  All handles are opaque.  A status of NULL
is success.  Each row of an enum says what a function is of, and takes.  Others are asked for one
thing by (handle, answer), or for how many things there are, and at the next place for these things
by (handle, answers, count).  Functions of the second enum stand in the table of GetEpApi.
"""
from libc.stdint cimport uint32_t

ctypedef void *Status
ctypedef void (*Function)() noexcept nogil

cdef extern from *:
    """
    static void (*const *roicy_api)(void), (*const *roicy_ep_api)(void);
    """
    const Function *api "roicy_api"      # the tables; found before the module is imported, perhaps
    const Function *ep_api "roicy_ep_api"

cdef enum:
    API_VERSION = 24             # the oldest table with all that is used here

cdef enum:                       # OrtErrorCode
    FAIL = 1
    INVALID_ARGUMENT = 2

cdef enum:                       # OrtOpAttrType
    INT = 1
    INTS = 2
    FLOAT = 3
    STRING = 5
    TENSOR = 8

cdef enum:                       # OrtApi
    CREATE_STATUS = 0                       # int code, text -> status
    GET_ERROR_MESSAGE = 2                   # status -> text
    CREATE_CUSTOM_OP_DOMAIN = 26            # name, domain
    CUSTOM_OP_DOMAIN_ADD = 27               # domain, op
    ADD_CUSTOM_OP_DOMAIN = 28               # options, domain
    GET_TENSOR_DATA = 51
    CAST_TO_TENSOR_INFO = 55
    GET_ELEMENT_TYPE = 60
    GET_EXTENT_COUNT = 61
    KERNEL_INFO_FLOAT = 85                  # info, name, answer
    KERNEL_INFO_INT = 86
    KERNEL_INFO_STRING = 87                 # info, name, answers, size
    KERNEL_CONTEXT_INPUT_COUNT = 88
    KERNEL_CONTEXT_INPUT = 90               # context, index, value
    KERNEL_CONTEXT_OUTPUT = 91              # context, index, extents, count, value
    RELEASE_STATUS = 93
    RELEASE_VALUE = 96
    KERNEL_INFO_FLOATS = 162                # info, name, answers, count
    KERNEL_INFO_INTS = 163
    KERNEL_INFO_NODE_NAME = 244             # info, answer, size
    READ_OP_ATTR = 272                      # attribute, type, data, room, size
    PARALLEL_FOR = 274                      # context, function, count, batches, its first argument
    VALUE_NAME = 289
    VALUE_TYPE = 290
    GET_PAIRS = 298                         # pairs, keys, values, count -> void
    RELEASE_PAIRS = 300
    HARDWARE_DEVICE_TYPE = 307              # device -> int
    GET_EP_API = 317                        # -> table
    VALUE_INITIALIZER = 326
    VALUE_IS_CONSTANT = 331
    GRAPH_INPUTS = 338
    GRAPH_OUTPUTS = 340
    GRAPH_INITIALIZERS = 342
    GRAPH_NODES = 344
    NODE_NAME = 349
    NODE_OP_TYPE = 350
    NODE_DOMAIN = 351
    NODE_SINCE_VERSION = 352
    NODE_INPUTS = 353
    NODE_OUTPUTS = 355
    NODE_CAPTURES = 357
    NODE_ATTRIBUTES = 359
    ATTRIBUTE_TENSOR = 362
    ATTRIBUTE_TYPE = 363
    ATTRIBUTE_NAME = 364
    NODE_GRAPH_COUNT = 365
    NODE_GRAPHS = 366                       # node, graphs, count, names
    GET_CONFIG_ENTRIES = 379                # options, pairs
    TENSOR_TYPE_AND_EXTENTS = 414           # value, type, extents, count

cdef enum:                       # OrtEpApi
    CREATE_EP_DEVICE = 0                    # factory, device, metadata, options, made
    ADD_NODES_TO_FUSE = 2                   # support, nodes, count, options
    ADD_SINGLE_NODE = 3                     # support, node
    CREATE_KERNEL_REGISTRY = 18             # made
    RELEASE_KERNEL_REGISTRY = 19
    REGISTRY_ADD_KERNEL = 20                # registry, definition, function, its first argument
    CREATE_KERNEL_DEF_BUILDER = 21          # made
    RELEASE_KERNEL_DEF_BUILDER = 22
    BUILDER_OP_TYPE = 23                    # builder, text
    BUILDER_DOMAIN = 24
    BUILDER_SINCE_VERSION = 25              # builder, first, last
    BUILDER_PROVIDER = 26
    BUILDER_BUILD = 32                      # builder, made
    RELEASE_KERNEL_DEF = 33

# Structs that the library fills.  `version` says which functions ONNX Runtime may look for; NULL
# are those that it can do without.

ctypedef const char *(*Text)(const void*) noexcept nogil
ctypedef int (*OfIndex)(const void*, size_t) noexcept nogil
ctypedef int (*OfOp)(const void*) noexcept nogil
ctypedef Status (*Compute)(void*, void*) noexcept nogil
ctypedef void (*Release)(void*) noexcept nogil
ctypedef Status (*Make)(void*) noexcept nogil
ctypedef Status (*One)(const void*, void*) noexcept nogil
ctypedef Status (*Many)(const void*, void*, size_t) noexcept nogil
ctypedef Status (*Named)(const void*, const char*, void*, size_t*) noexcept nogil

cdef struct ApiBase:
    const Function *(*get_api)(uint32_t version) noexcept nogil
    const char *(*get_version)() noexcept nogil

cdef struct Factory:             # OrtEpFactory
    uint32_t version
    Text get_name
    Text get_vendor
    Status (*get_devices)(
        void*, const void *const*, size_t, void**, size_t, size_t*) noexcept nogil
    Status (*create_ep)(void*, const void*, const void*, size_t, const void*, const void*,
                        void**) noexcept nogil
    void (*release_ep)(void*, void*) noexcept nogil
    uint32_t (*get_vendor_id)(const void*) noexcept nogil
    Text get_version
    Function validate
    Status (*create_allocator)(void*, const void*, const void*, void**) noexcept nogil
    void (*release_allocator)(void*, void*) noexcept nogil
    Status (*create_data_transfer)(void*, void**) noexcept nogil
    char (*is_stream_aware)(const void*) noexcept nogil
    Status (*create_stream)(void*, const void*, const void*, void**) noexcept nogil
    Function unused[2]
    Status (*get_domain_count)(void*, size_t*) noexcept nogil
    Status (*get_domains)(void*, void**, size_t) noexcept nogil
    Function later[8]

cdef struct Ep:                  # OrtEp, and what is ours
    uint32_t version
    Text get_name
    Status (*get_capability)(void*, const void*, void*) noexcept nogil
    Status (*compile_nodes)(
        void*, const void**, const void**, size_t, void**, void**) noexcept nogil
    void (*release_groups)(void*, void**, size_t) noexcept nogil
    Status (*get_layout)(void*, int*) noexcept nogil
    Function unused[7]
    Status (*get_registry)(void*, const void**) noexcept nogil
    Function later[16]           # of later versions; each may be NULL
    void *claims
    void *entries                # of the registry: (key in the table, operator, claims)
    void *registry

cdef struct Group:               # OrtNodeComputeInfo, and what is ours
    uint32_t version
    Status (*create_state)(void*, void*, void**) noexcept nogil
    Status (*compute)(void*, void*, void*) noexcept nogil
    void (*release_state)(void*, void*) noexcept nogil
    void *computation            # of roicy/onnxruntime
    void *node                   # what computes it without Python (AnyNode of calls.pxd), or NULL
    void *recipes                # struct Recipes of recipes.pxd where there is no node

cdef struct Kernel:              # OrtKernelImpl, and what is ours
    uint32_t version
    uint32_t flags
    Compute compute
    Release release
    Function later[8]
    void *computation
    void *node

cdef struct CustomOp:            # OrtCustomOp, and what is ours
    uint32_t version
    Function create_kernel_1
    Text get_name
    Text get_provider
    OfIndex get_input_type
    size_t (*get_input_count)(const void*) noexcept nogil
    OfIndex get_output_type
    size_t (*get_output_count)(const void*) noexcept nogil
    Function compute_1
    Release release
    OfIndex get_input_kind
    OfIndex get_output_kind
    OfIndex get_input_memory
    OfOp get_least_variadic
    OfOp is_variadic_homogeneous
    Function variadic_output[2]
    Status (*create_kernel)(const void*, const void*, const void*, void**) noexcept nogil
    Compute compute
    Function unused[7]
    void *entry                  # (key in the table, operator, claims)
    const char *name
    size_t inputs, outputs
    bint of_levels               # the maps are the last input, and variadic; else the first
    int kind                     # of the elements of the maps and of the output
