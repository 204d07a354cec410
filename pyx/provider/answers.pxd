"""What the provider answers without looking anything up."""
from libc.stdint cimport uint32_t

from provider.abi cimport CustomOp, Ep, Status

cdef enum:
    ANY = 0                      # ONNXTensorElementDataType
    OPTIONAL = 1                 # OrtCustomOpInputOutputCharacteristic; 0: required
    VARIADIC = 2


cdef inline Status create_state(void *group, void *context, void **state) noexcept nogil:
    state[0] = NULL
    return NULL


cdef inline void ignore(void *this, void *other) noexcept nogil:
    pass


cdef inline const char *get_op_name(const void *op) noexcept nogil:
    return (<CustomOp*>op).name


cdef inline const char *get_no_provider(const void *op) noexcept nogil:
    return NULL                  # that is the CPU provider


cdef inline int get_input_type(const void *op, size_t index) noexcept nogil:
    """Boxes may have any type, whatever maps have."""
    cdef const CustomOp *of = <const CustomOp*>op
    return of.kind if index == <size_t>of.of_levels else ANY


cdef inline int get_output_type(const void *op, size_t index) noexcept nogil:
    return (<CustomOp*>op).kind


cdef inline int zero(const void *op, size_t index) noexcept nogil:
    return 0                     # the memory of the provider


cdef inline int one(const void *op) noexcept nogil:
    return 1


cdef inline size_t get_input_count(const void *op) noexcept nogil:
    return (<CustomOp*>op).inputs


cdef inline size_t get_output_count(const void *op) noexcept nogil:
    return (<CustomOp*>op).outputs


cdef inline int get_output_kind(const void *op, size_t index) noexcept nogil:
    return OPTIONAL if index > 0 else 0


cdef inline int get_input_kind(const void *op, size_t index) noexcept nogil:
    cdef const CustomOp *of = <const CustomOp*>op
    return VARIADIC if of.of_levels and index == of.inputs - 1 else 0


cdef inline const char *get_name(const void *this) noexcept nogil:
    return "RoicyExecutionProvider"


cdef inline const char *get_vendor(const void *this) noexcept nogil:
    return "roicy"


cdef inline uint32_t get_vendor_id(const void *this) noexcept nogil:
    return 0


cdef inline Status make_none(
        void *this, const void *memory, const void *options, void **made) noexcept nogil:
    made[0] = NULL
    return NULL


cdef inline Status transfer_none(void *this, void **made) noexcept nogil:
    made[0] = NULL
    return NULL


cdef inline char is_stream_aware(const void *this) noexcept nogil:
    return 0


cdef inline Status get_registry(void *ep, const void **registry) noexcept nogil:
    registry[0] = (<Ep*>ep).registry
    return NULL
