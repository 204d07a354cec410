// This file holds the types and functions that all kernels share.
//
// The compiler may not fuse a product and a sum by itself (OPTIONS in _launch.py), since positions
// must round as on the CPU.  Sums of pixels call fma().  There is no #include, since CUDA's
// run-time compiler has no headers.
//
// Threads communicate only within their warp, and they synchronise only as whole warps.  So
// tests/cuda_emulation can run a kernel on a CPU, warp by warp and lane by lane.  There are no
// atomic operations, and every sum is taken in a fixed order, so results have the same bits in
// every run.

// A loop from 0 to stop - 1, which the compiler unrolls since it knows `stop`.
#define UNROLL(i, stop) _Pragma("unroll") for (int i = 0; i < (stop); i++)

// It stands in place of the number of an image.  Such a box reads nothing.
constexpr int NO_IMAGE = -1;

// The strides, in elements, of an array that is seen as (N, C, H, W) or (K, C, PH, PW).
struct Strides {
    long long first, channel, y, x;
};

// The sizes of a step of a call.  channels counts the channels of the output.
struct Shape {
    int boxes, images, channels, ph, pw;
    int position_sensitive;
    int channels_last; // neighbouring threads take neighbouring channels
};

// A pixel that a bin reads along one axis, and its weight.  A quantised bin has one tap, which
// holds its first pixel.
template <typename T> struct alignas(2 * sizeof(T)) Tap {
    int pixel;
    T weight;
};

// _launch.py inserts RULES between this file and the others.  Rules<T> has their functions for T.
template <typename T> struct Rules;
#define PLANTED(name) 0
#define RULE_FN static __device__ inline
#define RULE_STORE_TAP(out, i, p, w) ((Tap<REAL> *)(out)->weight)[i] = {p, w}

template <typename T> struct Limits;
template <> struct Limits<float> {
    static constexpr float lowest = -3.402823466e+38f;
};
template <> struct Limits<double> {
    static constexpr double lowest = -1.7976931348623157e+308;
};

__device__ inline long long thread_number() {
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ inline long long thread_count() { return (long long)gridDim.x * blockDim.x; }

constexpr int LANES = 32; // threads of a warp
constexpr unsigned ALL = 0xffffffffu;
__device__ inline int lane_number() { return threadIdx.x % LANES; }
__device__ inline int warp_of_block() { return threadIdx.x / LANES; }
__device__ inline long long warp_number() { return thread_number() / LANES; }
__device__ inline long long warp_count() { return thread_count() / LANES; }

// Widen the span [low, high) of a lane to that of all lanes of its group of `lanes` neighbours.
__device__ inline void join_spans(int &low, int &high, int lanes) {
    for (int step = 1; step < lanes; step *= 2) {
        int other_low = __shfl_xor_sync(ALL, low, step);
        int other_high = __shfl_xor_sync(ALL, high, step);
        low = other_low < low ? other_low : low;
        high = other_high > high ? other_high : high;
    }
}

// Write a sum, or add it to the sum that earlier steps have written.
template <typename T> __device__ inline void put(T *to, T sum, bool add) {
    *to = add ? *to + sum : sum;
}

// Return the number of the lowest bit that is set, and clear this bit.
__device__ inline int next_of(unsigned &bits) {
    int first = __ffs((int)bits) - 1;
    bits &= bits - 1;
    return first;
}

// Divide t by `by` and return the remainder.  Where 32 bits suffice, one division of 32 bits gives
// both, which is faster.
__device__ inline long long split(long long &t, long long by) {
    if ((t | by) <= 0xffffffffLL) {
        unsigned small = (unsigned)t;
        t = small / (unsigned)by;
        return small % (unsigned)by;
    }
    long long rest = t % by;
    t /= by;
    return rest;
}

// The box, channel and bin of an element of the output.
struct Element {
    long long k;
    int c, p, q;
};

// Return element number t.  The order of elements lets neighbouring threads touch neighbouring
// memory.
__device__ inline Element element_of(long long t, const Shape &shape) {
    Element e;
    if (shape.channels_last) {
        e.c = split(t, shape.channels), e.q = split(t, shape.pw), e.p = split(t, shape.ph);
    } else {
        e.q = split(t, shape.pw), e.p = split(t, shape.ph), e.c = split(t, shape.channels);
    }
    e.k = t;
    return e;
}

// Return how many elements the output has.
__device__ inline long long outputs(const Shape &shape) {
    return (long long)shape.boxes * shape.channels * shape.ph * shape.pw;
}

// Return the channel of the map from which bin (p, q) of output channel c is pooled.
__device__ inline long long input_channel(const Shape &shape, int c, int p, int q) {
    return shape.position_sensitive ? ((long long)c * shape.ph + p) * shape.pw + q : c;
}

// Return the sizes of an output that has groups of up to `each` channels in place of channels.
// Group g has channels g, g + groups, and so on, so that neighbouring threads take neighbouring
// channels where channels are last.
__device__ inline Shape in_groups(const Shape &shape, int each) {
    Shape groups = shape;
    groups.channels = (shape.channels + each - 1) / each;
    return groups;
}

// Return how far it is in a map from a channel of a group to the next.
__device__ inline long long channel_step(const Shape &groups, const Strides &map) {
    return input_channel(groups, groups.channels, 0, 0) * map.channel;
}

// Return the offset of an element in an array of those strides.
__device__ inline long long offset_of(const Element &e, const Strides &strides) {
    return e.k * strides.first + e.c * strides.channel + e.p * strides.y + e.q * strides.x;
}
