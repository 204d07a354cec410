// What all kernels share.  Contraction of products into sums is off (_launch.py): positions must round as on the CPU; sums ask for it by fma().
// No #include; threads talk to none but those of their warp, and wait for each other by whole warps: so a kernel runs as well on a CPU, warp by warp
// and lane by lane (tests/cuda_emulation).  Nothing is atomic, and each number is added up in one order: the bits are the same from run to run.

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

// A box has `room` slots: room_y for each bin in y, then room_x for each bin in x
struct Room {
    int y, x;
    long long box;
};

template <typename T> struct alignas(2 * sizeof(T)) Tap {  // a pixel of a bin, by one axis; of a quantised bin, whose only tap it is, the first
    int pixel;
    T weight;
};

// rules.h, which _launch.py puts between this file and the others: Rules<T> has its functions for T
template <typename T> struct Rules;
#define RULE_FN static __device__ inline
#define RULE_STORE_TAP(out, i, p, w) ((Tap<REAL> *)(out)->weight)[i] = {p, w}

template <typename T> struct Limits;
template <> struct Limits<float> { static constexpr float lowest = -3.402823466e+38f; };
template <> struct Limits<double> { static constexpr double lowest = -1.7976931348623157e+308; };

__device__ inline long long thread_number() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline long long thread_count() { return (long long)gridDim.x * blockDim.x; }

constexpr int LANES = 32;  // threads of a warp
constexpr unsigned ALL = 0xffffffffu;
__device__ inline int lane_number() { return threadIdx.x % LANES; }
__device__ inline int warp_of_block() { return threadIdx.x / LANES; }
__device__ inline long long warp_number() { return thread_number() / LANES; }
__device__ inline long long warp_count() { return thread_count() / LANES; }

// The same pointer, of which the compiler does not know where it comes from: from one of which it knows, it adds up every address anew
template <typename T> __device__ inline const T *known_as_it_is(const T *pointer) {
#ifdef __CUDACC__
    asm("" : "+l"(pointer));
#endif
    return pointer;
}

// The number of the lowest bit, which is taken out
__device__ inline int next_of(unsigned &bits) {
    int first = __ffs((int)bits) - 1;
    bits &= bits - 1;
    return first;
}

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

// What a warp owns of a plane: PART_BYTES of pixels, in shared memory, to which it adds what the boxes of a segment give; segments are
// arrays of their own, added up by add_segments, where there are fewer planes than a GPU has room for warps.
template <typename T> struct PartOfPlane {
    static constexpr int MOST = PART_BYTES / sizeof(T);
    long long channel, first;
    int image, segment, pixels, first_box, stop_box;

    static __device__ long long of_plane(const Shape &shape) { return ((long long)shape.rows * shape.columns + MOST - 1) / MOST; }

    __device__ PartOfPlane(long long t, const Shape &shape, long long channels, int segments) {
        channel = split(t, channels), first = split(t, of_plane(shape)) * MOST, segment = (int)split(t, segments), image = (int)t;
        long long rest = (long long)shape.rows * shape.columns - first, boxes = ((long long)shape.boxes + segments - 1) / segments;
        pixels = (int)(rest < MOST ? rest : MOST);
        first_box = (int)(boxes * segment < shape.boxes ? boxes * segment : shape.boxes);
        stop_box = (int)(first_box + boxes < shape.boxes ? first_box + boxes : shape.boxes);
    }

    __device__ void clear(T *part) const {
        for (int i = lane_number(); i < pixels; i += LANES)
            part[i] = 0;
        __syncwarp();
    }

    __device__ void write(const T *part, T *to, const Strides &map, int columns, int add) const {
        for (int i = lane_number(); i < pixels; i += LANES) {
            long long y = first + i, x = split(y, columns);
            T *pixel = to + image * map.first + channel * map.channel + y * map.y + x * map.x;
            *pixel = add ? *pixel + part[i] : part[i];
        }
        __syncwarp();
    }
};

// to = the sum of as many arrays like it as there are segments; a pixel is an element of `shape` as of an output of as many boxes as images
template <typename T>
__global__ void add_segments(const T *from, Strides segment, long long of_segment, int segments, T *to, Strides map, Shape shape) {
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        const T *pixel = from + e.k * segment.first + e.c * segment.channel + e.p * segment.y + e.q * segment.x;
        T sum = 0;
        for (int s = 0; s < segments; s++)
            sum += pixel[s * of_segment];
        to[e.k * map.first + e.c * map.channel + e.p * map.y + e.q * map.x] = sum;
    }
}
