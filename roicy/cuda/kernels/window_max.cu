// These kernels compute the largest pixel of a bin and its gradient, and the largest sample of a
// bin.  On the CPU, max_pool.pyx and max_sample.pyx of pyx/kernels do this.

// Write the largest pixel of each bin, and its number in the plane where argmax is not null.
template <typename T>
__global__ void largest_pixel(const T *input, Strides map, T *out, int *argmax, Strides bins,
                              Shape shape, Room room, const int *images, const int *counts,
                              const Tap<T> *taps) {
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        int image = images[e.k];
        const int *count = counts + e.k * (shape.ph + shape.pw);
        int rows = image < 0 ? 0 : count[e.p], columns = count[shape.ph + e.q];
        int at = -1;
        T best = rows && columns ? Limits<T>::lowest : (T)0;
        if (rows && columns) {
            int y = taps[slot_of(room, shape, e.k, e.p)].pixel;
            int x = taps[slot_of(room, shape, e.k, shape.ph + e.q)].pixel;
            const T *plane = input + image * map.first + e.c * map.channel;
            for (int i = y; i < y + rows; i++) {
                const T *pixel = known_as_it_is(plane + i * map.y + x * map.x);
                // The number fits into int where argmax is asked for; otherwise it may wrap.
                unsigned number = (unsigned)i * shape.columns + x;
#pragma unroll 4
                for (int j = 0; j < columns; j++, pixel += map.x) {
                    T value = __ldg(pixel);
                    if (value > best) {
                        best = value;
                        at = (int)(number + j);
                    }
                }
            }
        }
        long long to = e.k * bins.first + e.c * bins.channel + e.p * bins.y + e.q * bins.x;
        out[to] = best;
        if (argmax)
            argmax[to] = at;
    }
}

// Add the gradient of each bin to its largest pixel.  A warp owns a part of a plane in shared
// memory, and goes through the boxes of a segment.  Lanes are bins.  Bins with the same largest
// pixel are added one after the other, in their order.  The loads for the next bins are in flight
// while these are added.
template <typename T>
__global__ void __launch_bounds__(THREADS_OF_PLANES)
    largest_pixel_backward(const T *grad_output, Strides bins, const int *argmax, Strides at,
                           const T *rows, int columns, const int *given, T *to, Strides map,
                           long long of_segment, int segments, Shape shape) {
    constexpr int EACH = 2; // bins that a lane takes at a time
    struct Reads {
        int pixel[EACH];
        T grad[EACH];
    };
    __shared__ T parts[THREADS_OF_PLANES / LANES][PartOfPlane<T>::MOST];
    T *part = parts[warp_of_block()];
    int lane = lane_number(), all = shape.ph * shape.pw;
    long long place[EACH], of_grad[EACH]; // offsets of a lane's bins in argmax and in the gradient
    auto places = [&](int from) {
        for (int e = 0; e < EACH; e++) {
            int bin = from + e * LANES + lane, p = bin / shape.pw, q = bin % shape.pw;
            place[e] = p * at.y + q * at.x, of_grad[e] = p * bins.y + q * bins.x;
        }
    };
    places(0);
    for (long long t = warp_number();
         t < (long long)shape.images * shape.channels * PartOfPlane<T>::of_plane(shape) * segments;
         t += warp_count()) {
        PartOfPlane<T> plane(t, shape, shape.channels, segments);
        const int *pixels = argmax + plane.channel * at.channel;
        const T *grads = grad_output + plane.channel * bins.channel;
        plane.clear(part);
        for (int from = plane.first_box; from < plane.stop_box; from += LANES) {
            unsigned boxes = __ballot_sync(
                ALL, from + lane < plane.stop_box &&
                         image_of(rows, columns, given, from + lane, shape.images) == plane.image);
            Reads next = {};
            long long k = boxes ? from + next_of(boxes) : -1;
            int first = 0;
            for (bool begun = false; k >= 0 || begun;) {
                Reads now = next;
                bool some = begun;
                begun = k >= 0;
                if (begun) {
                    if (all > EACH * LANES)
                        places(first);
#pragma unroll
                    for (int e = 0; e < EACH; e++) {
                        next.pixel[e] =
                            first + e * LANES + lane < all
                                ? __ldg(known_as_it_is(pixels + k * at.first) + place[e])
                                : -1;
                        next.grad[e] =
                            first + e * LANES + lane < all
                                ? __ldg(known_as_it_is(grads + k * bins.first) + of_grad[e])
                                : (T)0;
                    }
                    first += EACH * LANES;
                    if (first >= all) {
                        first = 0;
                        k = boxes ? from + next_of(boxes) : -1;
                    }
                }
                if (!some)
                    continue;
#pragma unroll
                for (int e = 0; e < EACH; e++) {
                    long long pixel = now.pixel[e] - plane.first;
                    bool mine = now.pixel[e] >= 0 && pixel >= 0 && pixel < plane.pixels;
                    if (!__ballot_sync(ALL, mine))
                        continue;
                    unsigned same = __match_any_sync(ALL, mine ? (int)pixel : -1 - lane);
                    int before = __popc(same & ((1u << lane) - 1));
                    for (int turn = 0; __ballot_sync(ALL, mine && before >= turn); turn++) {
                        if (mine && before == turn)
                            part[pixel] += now.grad[e];
                        __syncwarp();
                    }
                }
            }
        }
        plane.write(part, to + plane.segment * of_segment, map, shape.columns, 0);
    }
}

template <typename T> __device__ inline T larger(T best, T value) {
    return value > best ? value : best;
}

// Write the largest bilinear sample of each bin.  Where `products` is not 0, the four weighted
// pixels of a sample are compared by themselves, in place of their sum.
template <typename T>
__global__ void largest_sample(const T *input, Strides map, T *out, Strides bins, Shape shape,
                               rule rule, const T *rows, int columns, const int *given, T scale_y,
                               T scale_x, int products) {
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        int image = image_of(rows, columns, given, e.k, shape.images);
        box_axis axes[2]; // y, x
        T start[2] = {0, 0};
        long long first[2] = {0, 0}, stop[2] = {0, 0};
        for (int x = 0; x < 2; x++) {
            axes[x] =
                axis_of(rule, x ? scale_x : scale_y, x ? shape.pw : shape.ph,
                        x ? shape.columns : shape.rows, x, rows + e.k * columns + columns - 4);
            if (image < 0 || !on_a_map(axes[x])) {
                axes[x].grid = 0;
                continue;
            }
            start[x] = Rules<T>::bin_start(&axes[x], x ? e.q : e.p);
            Rules<T>::samples_on_map(&axes[x], start[x], &first[x], &stop[x]);
        }
        bool some = first[0] < stop[0] && first[1] < stop[1];
        bool outside = stop[0] - first[0] < axes[0].grid || stop[1] - first[1] < axes[1].grid;
        T best = some && !outside ? Limits<T>::lowest : (T)0;
        const T *plane = input + image * map.first + e.c * map.channel;
        for (long long i = first[0]; some && i < stop[0]; i++) {
            T fy, fx;
            int y = Rules<T>::sample_pixel(&axes[0], start[0], i, &fy);
            int below = y + 1 < shape.rows ? y + 1 : y;
            for (long long j = first[1]; j < stop[1]; j++) {
                int x = Rules<T>::sample_pixel(&axes[1], start[1], j, &fx);
                int right = x + 1 < shape.columns ? x + 1 : x;
                T w[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
                T corner[4] = {plane[y * map.y + x * map.x], plane[y * map.y + right * map.x],
                               plane[below * map.y + x * map.x],
                               plane[below * map.y + right * map.x]};
                T sum = w[0] * corner[0];
                if (products)
                    best = larger(best, sum);
                for (int corner_number = 1; corner_number < 4; corner_number++) {
                    if (products)
                        best = larger(best, w[corner_number] * corner[corner_number]);
                    else
                        sum = fma(w[corner_number], corner[corner_number], sum);
                }
                if (!products)
                    best = larger(best, sum);
            }
        }
        out[e.k * bins.first + e.c * bins.channel + e.p * bins.y + e.q * bins.x] = best;
    }
}
