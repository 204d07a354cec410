"""The tables of ONNX Runtime's functions, and where each function stands in them.

Each row of a table says what a function is of, and takes.  Others are asked for one thing by
(handle, answer), or for how many things there are, and at the next place for these things by
(handle, answers, count).  Functions of OrtEpApi stand in the table that GET_EP_API returns.
"""
from provider.abi cimport Function

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
