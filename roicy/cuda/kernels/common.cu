// What all kernels share.
//
// The compiler does not fuse products into sums (_launch.py), since positions must round as on the
// CPU; sums call fma().  There is no #include, since CUDA's run-time compiler has no headers.
// Threads communicate only within their warp, and synchronise only as whole warps, so that
// tests/cuda_emulation can run a kernel on a CPU, warp by warp and lane by lane.  There are no
// atomic operations, and each sum is taken in one order: results have the same bits in every run.

// In place of an image: NO_IMAGE, for a box that reads nothing, or OTHER_LEVEL, for a box whose
// output is written by the kernel of another level.
enum Image { NO_IMAGE = -1, OTHER_LEVEL = -2 };

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

// How many slots for taps there are: y for each bin along y, then x for each bin along x, and `box`
// for all bins of a box.
struct Room {
    int y, x;
    long long box;
};

// A pixel that a bin reads along one axis, and its weight.  A quantised bin has a single tap, with
// the first of its pixels.
template <typename T> struct alignas(2 * sizeof(T)) Tap {
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

// Returns a pointer and hides from the compiler how it was computed.  Otherwise the compiler would
// compute each address from the start again, instead of adding an offset to this pointer.
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

// The part of a plane that a warp owns: PART_BYTES of pixels in shared memory.  The warp adds to
// them the gradients of the boxes of one segment.  If there are fewer planes than a GPU has room
// for warps, boxes are divided into several segments; each has an array of its own, and
// add_segments adds these.
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

// to = the sum of the arrays of all segments.  The maps are described by `shape` as if they were an
// output: images in place of boxes, and pixels in place of bins.
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
