// These kernels compute gradients of maps by planes.  A warp owns a part of a plane in shared
// memory (segments.cu).  On the CPU, grad_input.pyx and max_pool.pyx of pyx/kernels do this.

// Add the gradient of a bin with a channel of its own to a part of its plane.  Lanes are taps, 4
// rows of 8 at a time.
template <typename T>
__device__ inline void add_bin(const Taps<T> &down, const Taps<T> &along, T grad, int width,
                               const PartOfPlane<T> &at, T *part) {
    constexpr int SIDE = 8;
    for (int i = lane_number() / SIDE; i < down.count; i += LANES / SIDE)
        for (int j = lane_number() % SIDE; j < along.count; j += SIDE) {
            Tap<T> y = down.of[i], x = along.of[j];
            long long pixel = (long long)y.pixel * width + x.pixel - at.first;
            if (pixel >= 0 && pixel < at.pixels)
                part[pixel] = fma(y.weight * x.weight, grad, part[pixel]);
        }
    __syncwarp();
}

// Add up the gradients of the map where each bin has a channel of its own.
template <typename T>
__global__ void __launch_bounds__(THREADS_OF_PLANES)
    backward_bins(const T *grad_output, Strides bins, Segments<T> to,
                  const __grid_constant__ Tables<T> tables) {
    __shared__ T parts[THREADS_OF_PLANES / LANES][PartOfPlane<T>::MOST];
    const Shape &shape = tables.shape;
    T *part = parts[warp_of_block()];
    int lane = lane_number(), all = shape.ph * shape.pw;
    long long channels = (long long)shape.channels * all;
    for (long long t = warp_number();
         t < shape.images * channels * PartOfPlane<T>::of_plane(shape) * to.count;
         t += warp_count()) {
        PartOfPlane<T> at(t, shape, channels, to.count);
        int number = (int)(at.channel % all), p = number / shape.pw, q = number % shape.pw;
        const T *grads = grad_output + at.channel / all * bins.channel + p * bins.y + q * bins.x;
        at.clear(part);
        for (int from = at.first_box; from < at.stop_box; from += LANES) {
            unsigned boxes = __ballot_sync(ALL, from + lane < at.stop_box &&
                                                    tables.images[from + lane] == at.image);
            while (boxes) {
                long long k = from + next_of(boxes);
                Taps<T> down(tables, k, p), along(tables, k, shape.ph + q);
                add_bin(down, along, grads[k * bins.first], shape.columns, at, part);
            }
        }
        at.write(part, to, shape.columns, tables.add);
    }
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

// Add the gradient of each bin to its largest pixel.  Lanes are bins of a box.
template <typename T>
__global__ void __launch_bounds__(THREADS_OF_PLANES)
    largest_pixel_backward(const T *grad_output, Strides bins, const int *argmax, Strides numbers,
                           Given<T> given, Segments<T> to, Shape shape) {
    __shared__ T parts[THREADS_OF_PLANES / LANES][PartOfPlane<T>::MOST];
    T *part = parts[warp_of_block()];
    int lane = lane_number(), all = shape.ph * shape.pw;
    for (long long t = warp_number();
         t < (long long)shape.images * shape.channels * PartOfPlane<T>::of_plane(shape) * to.count;
         t += warp_count()) {
        PartOfPlane<T> plane(t, shape, shape.channels, to.count);
        const int *pixels = argmax + plane.channel * numbers.channel;
        const T *grads = grad_output + plane.channel * bins.channel;
        plane.clear(part);
        for (int from = plane.first_box; from < plane.stop_box; from += LANES) {
            unsigned boxes =
                __ballot_sync(ALL, from + lane < plane.stop_box &&
                                       image_of(given, from + lane, shape.images) == plane.image);
            while (boxes) {
                long long k = from + next_of(boxes);
                for (int bin = lane; bin - lane < all; bin += LANES) {
                    int p = bin / shape.pw, q = bin % shape.pw, place = -1;
                    T grad = 0;
                    if (bin < all) {
                        long long pixel =
                            pixels[k * numbers.first + p * numbers.y + q * numbers.x] - plane.first;
                        place = pixel >= 0 && pixel < plane.pixels ? (int)pixel : -1;
                        grad = grads[k * bins.first + p * bins.y + q * bins.x];
                    }
                    add_to_part(part, place, grad);
                }
            }
        }
        plane.write(part, to, shape.columns, false);
    }
}
