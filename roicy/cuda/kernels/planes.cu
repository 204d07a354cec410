// These kernels pool from planes of pixels (NCHW).  On the CPU, pyx/methods/planes.pxd and
// pyx/passes/max_pool.pxd do this.

// How pixels and their weights are put together: a weighted sum, or the largest pixel.
template <typename T> struct WeightedSum {
    static constexpr bool MAXIMUM = false;
    static __device__ T start() { return 0; }
    static __device__ T add(T sum, T weight, T pixel) { return fma(weight, pixel, sum); }
};
template <typename T> struct LargestPixel {
    static constexpr bool MAXIMUM = true;
    static __device__ T start() { return Limits<T>::lowest; }
    static __device__ T add(T best, T, T pixel) { return fmax(best, pixel); }
};

// Return tap i of a bin of one axis.  A quantised bin has one tap, which is its first pixel.
template <bool MAXIMUM, typename T> __device__ inline Tap<T> tap_of(const Taps<T> &bin, int i) {
    if constexpr (MAXIMUM)
        return {bin.of[0].pixel + i, 0};
    else
        return bin.of[i];
}

// Return a pointer, and hide from the compiler how it was computed.  Otherwise the compiler would
// compute each address from the start again, instead of adding an offset to this pointer.
template <typename T> __device__ inline const T *opaque_pointer(const T *pointer) {
#ifdef __CUDACC__
    asm("" : "+l"(pointer));
#endif
    return pointer;
}

// A warp pools 8 neighbouring bins of each row of bins, from GROUP channels.  Along y, 8 lanes are
// neighbouring columns of pixels, and what they find goes to a strip.  Along x, they are
// neighbouring bins.  The 4 rows of lanes take different channels.
template <typename T, template <typename> class Reduction, int EACH> struct Planes {
    using Rule = Reduction<T>;
    static constexpr int SIDE = 8, ROWS = LANES / SIDE, GROUP = ROWS * EACH, WIDTH = 32;
    using Strip = T[EACH][ROWS][WIDTH];
    Strip &strip;
    const T *planes[EACH]; // of the lane's channels
    int pitch, next;       // the strides of y and x

    static __device__ int near() { return lane_number() % SIDE; }
    static __device__ int row() { return lane_number() / SIDE; }

    // Fill the strip with what the rows of a bin give in columns `from` to `stop` - 1.
    __device__ void along_y(const Taps<T> &bin, int from, int stop) {
#pragma unroll 1
        for (int x = from + near(); x < stop; x += SIDE) {
            T values[EACH];
            UNROLL(e, EACH)
                values[e] = Rule::start();
#pragma unroll 1
            for (int i = 0; i < bin.count; i++) {
                Tap<T> tap = tap_of<Rule::MAXIMUM>(bin, i);
                int at = tap.pixel * pitch + x * next;
                UNROLL(e, EACH)
                    values[e] = Rule::add(values[e], tap.weight, __ldg(planes[e] + at));
            }
            UNROLL(e, EACH)
                strip[e][row()][x - from] = values[e];
        }
        __syncwarp();
    }

    // Add the strip to the values of the lane's bin, whose tap j is the first one in these columns.
    __device__ void along_x(const Taps<T> &bin, int from, int stop, int &j,
                            T (&values)[EACH]) const {
#pragma unroll 1
        for (; j < bin.count; j++) {
            Tap<T> tap = tap_of<Rule::MAXIMUM>(bin, j);
            if (tap.pixel >= stop)
                break;
            UNROLL(e, EACH)
                values[e] = Rule::add(values[e], tap.weight, strip[e][row()][tap.pixel - from]);
        }
        __syncwarp();
    }

    // Pool the bins of task t.  All boxes are pooled from some channels, and then from the next
    // ones, so that these planes stay in the level 2 cache.
    __device__ void pool(long long t, const Maps<T> &maps, T *out, const Strides &bins,
                         const Tables<T> &tables) {
        const Shape &shape = tables.shape;
        int q = (int)split(t, (shape.pw + SIDE - 1) / SIDE) * SIDE + near();
        int k = (int)split(t, shape.boxes), c = (int)t * GROUP + row();
        const Map<T> &map = maps.of(tables, k);
        pitch = (int)map.strides.y, next = (int)map.strides.x;
        UNROLL(e, EACH) { // a lane without a channel of its own reads another, which does not count
            int channel = c + e * ROWS < shape.channels ? c + e * ROWS : 0;
            planes[e] = opaque_pointer(plane_of(map, tables, k, channel));
        }
        Taps<T> along(tables, k, shape.ph + (q < shape.pw ? q : 0));
        along.count = q < shape.pw ? along.count : 0;
        int low = map.columns, high = 0; // the bins read columns low to high - 1
        if (along.count) {
            low = along.of[0].pixel;
            high = tap_of<Rule::MAXIMUM>(along, along.count - 1).pixel + 1;
        }
        join_spans(low, high, SIDE);
        T *to = out + k * bins.first + c * bins.channel + q * bins.x;
        for (int p = 0; p < shape.ph; p++, to += bins.y) {
            Taps<T> down(tables, k, p);
            int j = 0;
            T values[EACH];
            UNROLL(e, EACH)
                values[e] = Rule::start();
            for (int from = low; from < high; from += WIDTH) {
                int stop = high - from < WIDTH ? high : from + WIDTH;
                along_y(down, from, stop);
                along_x(along, from, stop, j, values);
            }
            bool nothing = Rule::MAXIMUM && !(down.count && along.count);
            UNROLL(e, EACH)
                if (q < shape.pw && c + e * ROWS < shape.channels)
                    to[e * ROWS * bins.channel] = nothing ? (T)0 : values[e];
        }
    }
};

// Pool all boxes, each lane from 8 channels (float64: 4), or from one if there are few channels.
template <template <typename> class Reduction, typename T>
__device__ inline void pool_planes(const Maps<T> &maps, T *out, const Strides &bins,
                                   const Tables<T> &tables) {
    using Few = Planes<T, Reduction, 1>;
    using Many = Planes<T, Reduction, 32 / sizeof(T)>;
    __shared__ typename Many::Strip strips[THREADS / LANES];
    const Shape &shape = tables.shape;
    bool few = shape.channels <= Few::GROUP;
    int group = few ? Few::GROUP : Many::GROUP;
    long long tasks = (long long)shape.boxes * ((shape.pw + Few::SIDE - 1) / Few::SIDE) *
                      ((shape.channels + group - 1) / group);
    typename Many::Strip &strip = strips[warp_of_block()];
    for (long long t = warp_number(); t < tasks; t += warp_count())
        if (few)
            Few{(typename Few::Strip &)strip}.pool(t, maps, out, bins, tables);
        else
            Many{strip}.pool(t, maps, out, bins, tables);
}

// Compute weighted sums of pixels of planes.
template <typename T>
__global__ void __launch_bounds__(THREADS, 5)
    forward_planes(const __grid_constant__ Maps<T> maps, T *out, Strides bins,
                   const __grid_constant__ Tables<T> tables) {
    pool_planes<WeightedSum>(maps, out, bins, tables);
}

// Write the largest pixels of bins of planes.
template <typename T>
__global__ void __launch_bounds__(THREADS, 5)
    largest_planes(const __grid_constant__ Maps<T> maps, T *out, Strides bins,
                   const __grid_constant__ Tables<T> tables) {
    pool_planes<LargestPixel>(maps, out, bins, tables);
}
