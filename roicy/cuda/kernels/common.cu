// What all kernels share.  Contraction of products into sums is off (_launch.py): positions must round as on the CPU; sums ask for it by fma().
// No #include, no shared memory, no communication between threads: a kernel runs as well on a CPU, thread by thread (tests/cuda_emulation).

enum Kind { SAMPLED, INTEGRATED, UNIFORM, QUANTISED };  // pyx/geometry.pyx says what they are

enum Image { NO_IMAGE = -1, OTHER_LEVEL = -2 };  // a box of no image, which reads nothing; one that another level writes

// Strides in elements of an array seen as (N, C, H, W) or (K, C, PH, PW)
struct Strides {
    long long first, channel, y, x;
};

struct Shape {  // of a call
    int images, channels, rows, columns;  // channels: of the output
    int boxes, ph, pw;
    int position_sensitive;
    int channels_last;  // neighbouring threads take neighbouring channels
};

struct Rule {
    int kind, sampling_ratio, aligned, at_least_one, inclusive;
};

// A box has `room` slots: room_y for each bin in y, then room_x for each bin in x
struct Room {
    int y, x;
    long long box;
};

template <typename T> struct Limits;
template <> struct Limits<float> { static constexpr float lowest = -3.402823466e+38f; };
template <> struct Limits<double> { static constexpr double lowest = -1.7976931348623157e+308; };

__device__ inline long long thread_number() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline long long thread_count() { return (long long)gridDim.x * blockDim.x; }

__device__ inline long long slot_of(const Room &room, const Shape &shape, long long k, int bin) {
    return k * room.box + (bin < shape.ph ? (long long)bin * room.y : (long long)shape.ph * room.y + (long long)(bin - shape.ph) * room.x);
}

// t % by, and t /= by: by one division, of 32 bits where they suffice
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

// Output element number t: which box, channel and bin, in an order in which neighbouring threads touch neighbouring memory
struct Element {
    long long k;
    int c, p, q;
};

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

__device__ inline long long outputs(const Shape &shape) { return (long long)shape.boxes * shape.channels * shape.ph * shape.pw; }

__device__ inline long long input_channel(const Shape &shape, int c, int p, int q) {
    return shape.position_sensitive ? ((long long)c * shape.ph + p) * shape.pw + q : c;
}
