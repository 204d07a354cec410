"""What provider.pyx uses of ONNX Runtime's C interface.

The interface is a table of pointers to functions whose places never change, so a function is known
by its place (functions.pxd), and no header of ONNX Runtime's is needed.  All handles are opaque.  A
status of NULL is success.
"""
from libc.stdint cimport uint32_t

ctypedef void *Status
ctypedef void (*Function)() noexcept nogil

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
    void *node                   # what computes it without Python (AnyNode of tensors.pxd), or NULL
    void *recipes                # struct Recipes of recipes.pxd where there is no node

cdef struct Kernel:              # OrtKernelImpl, and what is ours
    uint32_t version
    uint32_t flags
    Compute compute
    Release release
    Function later[8]
    void *computation            # of roicy/onnxruntime
    void *node                   # as of struct Group

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
