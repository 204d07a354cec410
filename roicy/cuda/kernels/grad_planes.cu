// These kernels compute gradients of maps by planes.  A warp owns a part of a plane in shared
// memory, and goes through the boxes of its image.  On the CPU, pyx/passes/grad_input.pxd and
// pyx/passes/max_pool.pxd do this.

// PART_BYTES of pixels of a plane, which a warp owns.
template <typename T> struct PartOfPlane {
    static constexpr int MOST = PART_BYTES / sizeof(T);
    long long channel, first; // the first of the pixels
    int image, pixels;
    T *part; // in shared memory

    static __device__ long long of_plane(const Map<T> &map) {
        return ((long long)map.rows * map.columns + MOST - 1) / MOST;
    }

    __device__ PartOfPlane(long long t, const Map<T> &map, long long channels, T *part)
        : part(part) {
        long long plane = (long long)map.rows * map.columns;
        channel = split(t, channels);
        first = split(t, of_plane(map)) * MOST;
        image = (int)t;
        pixels = (int)(plane - first < MOST ? plane - first : MOST);
    }

    // Return the place of a pixel of the plane in this part, or -1 if it is in another part.
    __device__ int place_of(long long pixel) const {
        return pixel >= first && pixel < first + pixels ? (int)(pixel - first) : -1;
    }

    // Write the pixels to the map, or add them to it.
    __device__ void write(const Map<T> &map, bool add) const {
        T *plane = map.pixels + image * map.strides.first + channel * map.strides.channel;
        for (int i = lane_number(); i < pixels; i += LANES) {
            long long y = first + i, x = split(y, map.columns);
            put(plane + y * map.strides.y + x * map.strides.x, part[i], add);
        }
    }
};

// Compute the gradient of the map.  image(k) is the image of box k, and add_box(part, k) adds the
// gradients of this box.
template <typename T, typename Image, typename AddBox>
__device__ inline void add_up_planes(const Shape &shape, long long channels, const Map<T> &map,
                                     bool add, Image image, AddBox add_box) {
    __shared__ T parts[THREADS_OF_PLANES / LANES][PartOfPlane<T>::MOST];
    int lane = lane_number();
    long long tasks = shape.images * channels * PartOfPlane<T>::of_plane(map);
    for (long long t = warp_number(); t < tasks; t += warp_count()) {
        PartOfPlane<T> at(t, map, channels, parts[warp_of_block()]);
        for (int i = lane; i < at.pixels; i += LANES)
            at.part[i] = 0;
        __syncwarp();
        for (int from = 0; from < shape.boxes; from += LANES) {
            int k = from + lane;
            unsigned boxes = __ballot_sync(ALL, k < shape.boxes && image(k) == at.image);
            while (boxes)
                add_box(at, from + next_of(boxes));
        }
        at.write(map, add);
        __syncwarp();
    }
}

// Compute the gradient of the map where each bin has a channel of its own.  Lanes are taps, 4 rows
// of 8 at a time.
template <typename T>
__global__ void __launch_bounds__(THREADS_OF_PLANES)
    backward_bins(const T *grad_output, Strides bins, const __grid_constant__ Maps<T> maps,
                  const __grid_constant__ Tables<T> tables) {
    constexpr int SIDE = 8;
    const Shape &shape = tables.shape;
    int all = shape.ph * shape.pw;
    auto add_box = [&](const PartOfPlane<T> &at, long long k) {
        int c = (int)(at.channel / all), bin = (int)(at.channel % all);
        int p = bin / shape.pw, q = bin % shape.pw;
        T grad = grad_output[offset_of({k, c, p, q}, bins)];
        Taps<T> down(tables, k, p), along(tables, k, shape.ph + q);
        for (int i = lane_number() / SIDE; i < down.count; i += LANES / SIDE)
            for (int j = lane_number() % SIDE; j < along.count; j += SIDE) {
                Tap<T> y = down.of[i], x = along.of[j];
                int place = at.place_of((long long)y.pixel * maps.at[0].columns + x.pixel);
                if (place >= 0)
                    at.part[place] = fma(y.weight * x.weight, grad, at.part[place]);
            }
        __syncwarp();
    };
    add_up_planes(
        shape, (long long)shape.channels * all, maps.at[0], tables.add,
        [&](int k) { return tables.images[k]; }, add_box);
}

// Add the gradients of lanes to pixels of a part of a plane, in the order of the lanes.  A lane
// with a place below 0 adds nothing.
template <typename T> __device__ inline void add_to_part(T *part, int place, T grad) {
    unsigned same = __match_any_sync(ALL, place);
    int before = place < 0 ? LANES : __popc(same & ((1u << lane_number()) - 1));
#pragma unroll 1
    for (int turn = 0; __ballot_sync(ALL, before < LANES && before >= turn); turn++) {
        if (before == turn)
            part[place] += grad;
        __syncwarp();
    }
}

// Add the gradient of each bin to its largest pixel.  Lanes are bins of a box.  There are no
// tables.
template <typename T>
__global__ void __launch_bounds__(THREADS_OF_PLANES)
    largest_pixel_backward(const T *grad_output, Strides bins, const int *argmax, Strides numbers,
                           const __grid_constant__ Maps<T> maps,
                           const __grid_constant__ Tables<T> tables) {
    const Shape &shape = tables.shape;
    auto add_box = [&](const PartOfPlane<T> &at, long long k) {
        int c = (int)at.channel, all = shape.ph * shape.pw;
        for (int bin = lane_number(); bin - lane_number() < all; bin += LANES) {
            int p = bin / shape.pw, q = bin % shape.pw, place = -1;
            T grad = 0;
            if (bin < all) {
                place = at.place_of(argmax[offset_of({k, c, p, q}, numbers)]);
                grad = grad_output[offset_of({k, c, p, q}, bins)];
            }
            add_to_part(at.part, place, grad);
        }
    };
    add_up_planes(
        shape, shape.channels, maps.at[0], false, [&](int k) { return tables.image_of(k); },
        add_box);
}
