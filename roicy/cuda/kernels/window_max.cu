// These kernels compute the largest pixel of a bin and its gradient, and the largest sample of a
// bin.  On the CPU, max_pool.pyx and max_sample.pyx of pyx/kernels do this.

// Write the largest pixel of each bin, and its number in the plane where argmax is not null.
template <typename T>
__global__ void __launch_bounds__(THREADS, 6)
    largest_pixel(const __grid_constant__ Maps<T> maps, T *out, int *argmax, Strides bins,
                  Shape shape, Room room, const int *images, const int *counts,
                  const Tap<T> *taps) {
    if (!argmax && can_pool_vectors(maps, out, bins, shape)) {
        pool_vectors<T, LargestPixel>(maps, out, bins, shape, room, images, counts, taps);
        return;
    }
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
            const Strides &map = maps.at[0].strides;
            const T *plane = maps.at[0].pixels + image * map.first + e.c * map.channel;
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

// Write the largest pixels of bins of planes.
template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_POOLING<T>)
    largest_planes(const __grid_constant__ Maps<T> maps, T *out, Strides bins, Shape shape,
                   Room room, const int *images, const int *counts, const Tap<T> *taps) {
    using Pooling = Planes<T, LargestPixel, false>;
    __shared__ typename Pooling::Shared shared[THREADS / LANES];
    typename Pooling::Call call = {maps, bins, shape, room, taps};
    Pooling::run(shared[warp_of_block()], call, out, (int *)0, images, counts);
}

// Write the largest pixels of bins of planes, and their numbers in the planes.
template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_POOLING<T>)
    numbered_planes(const __grid_constant__ Maps<T> maps, T *out, int *argmax, Strides bins,
                    Shape shape, Room room, const int *images, const int *counts,
                    const Tap<T> *taps) {
    using Pooling = Planes<T, LargestPixel, true>;
    __shared__ typename Pooling::Shared shared[THREADS / LANES];
    typename Pooling::Call call = {maps, bins, shape, room, taps};
    Pooling::run(shared[warp_of_block()], call, out, argmax, images, counts);
}

// Add the gradients of lanes to the numbers at `places` of a part of a plane: first those of some
// lanes, and so on.  The lanes of a turn should have different places.  A lane writes its number to
// its place to see whether it is alone there.  If not, all turns are undone, and lanes of a place
// add one after the other, in their order.
template <int TURNS, typename T>
__device__ inline void add_to_part(T *part, const int (&places)[TURNS], const T (&grads)[TURNS]) {
    T before[TURNS], number = (T)lane_number();
    bool alone = true;
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        T *at = part + places[turn];
        before[turn] = *at;
        __syncwarp();
        *at = number;
        __syncwarp();
        alone = alone && *at == number;
        __syncwarp();
        *at = before[turn] + grads[turn];
        __syncwarp();
    }
    if (!__ballot_sync(ALL, !alone))
        return;
#pragma unroll
    for (int turn = TURNS - 1; turn >= 0; turn--) {
        part[places[turn]] = before[turn];
        __syncwarp();
    }
#pragma unroll 1
    for (int turn = 0; turn < TURNS; turn++) {
        int place = places[0];
        T grad = grads[0];
#pragma unroll
        for (int other = 1; other < TURNS; other++)
            place = turn == other ? places[other] : place,
            grad = turn == other ? grads[other] : grad;
        unsigned same = __match_any_sync(ALL, place);
        int lanes_before = __popc(same & ((1u << lane_number()) - 1));
#pragma unroll 1
        for (int i = 0; __ballot_sync(ALL, lanes_before >= i); i++) {
            if (lanes_before == i)
                part[place] += grad;
            __syncwarp();
        }
    }
}

// Add the gradient of each bin to its largest pixel.  A warp owns a part of a plane in shared
// memory, and goes through the boxes of a segment.  A lane takes a bin of an even row of bins and
// the bin below it.  Bins overlap only their neighbours where they have a pixel at least, so the
// bins of every other row and column are added at once: these rarely have a pixel in common.  The
// loads for the next bins are in flight while these are added.
template <typename T>
__global__ void __launch_bounds__(THREADS_OF_PLANES)
    largest_pixel_backward(const T *grad_output, Strides bins, const int *argmax, Strides at,
                           const T *rows, int columns, const int *given, T *to, Strides map,
                           long long of_segment, int segments, Shape shape) {
    constexpr int ROWS = 2, MOST = PartOfPlane<T>::MOST; // an even row and the one below it
    __shared__ T parts[THREADS_OF_PLANES / LANES][MOST + LANES];
    T *part = parts[warp_of_block()];
    int lane = lane_number(), pairs = (shape.ph + 1) / 2 * shape.pw;
    int nowhere = MOST + lane; // where a lane adds that has nothing to add
    part[nowhere] = 0;
    // The distances between boxes in memory, in bytes: a product of 32 bits is faster.
    long long pixels_step = at.first * (int)sizeof(int), grads_step = bins.first * (int)sizeof(T);
    bool near = (int)pixels_step == pixels_step && (int)grads_step == grads_step;
    for (long long t = warp_number();
         t < (long long)shape.images * shape.channels * PartOfPlane<T>::of_plane(shape) * segments;
         t += warp_count()) {
        PartOfPlane<T> plane(t, shape, shape.channels, segments);
        const int *pixels = argmax + plane.channel * at.channel;
        const T *grads = grad_output + plane.channel * bins.channel;
        plane.clear(part);
        for (int bin = lane; bin - lane < pairs; bin += LANES) {
            int p = bin / shape.pw * 2, q = bin % shape.pw;
            // A lane without a bin reads another one, and adds nothing.
            bool some[ROWS] = {bin < pairs, bin < pairs && p + 1 < shape.ph};
            const char *of_pixels[ROWS], *of_grads[ROWS];
#pragma unroll
            for (int e = 0; e < ROWS; e++) {
                long long y = some[e] ? p + e : 0, x = some[e] ? q : 0;
                of_pixels[e] = known_as_it_is((const char *)(pixels + y * at.y + x * at.x));
                of_grads[e] = known_as_it_is((const char *)(grads + y * bins.y + x * bins.x));
            }
            for (int from = plane.first_box; from < plane.stop_box; from += LANES) {
                unsigned boxes = __ballot_sync(ALL, from + lane < plane.stop_box &&
                                                        image_of(rows, columns, given, from + lane,
                                                                 shape.images) == plane.image);
                int pixel[ROWS];
                T grad[ROWS];
                auto load = [&](int k) {
#pragma unroll
                    for (int e = 0; e < ROWS; e++) {
                        long long to_pixels = (long long)k * (int)pixels_step;
                        long long to_grads = (long long)k * (int)grads_step;
                        if (!near)
                            to_pixels = k * pixels_step, to_grads = k * grads_step;
                        pixel[e] = __ldg((const int *)(of_pixels[e] + to_pixels));
                        grad[e] = __ldg((const T *)(of_grads[e] + to_grads));
                    }
                };
                if (boxes)
                    load(from + next_of(boxes));
                else
                    continue;
#pragma unroll 1
                for (bool more = true; more;) {
                    int now[ROWS] = {pixel[0], pixel[1]};
                    T of_now[ROWS] = {grad[0], grad[1]};
                    more = boxes;
                    if (more)
                        load(from + next_of(boxes));
                    int places[2 * ROWS];
                    T added[2 * ROWS];
#pragma unroll
                    for (int e = 0; e < ROWS; e++) {
                        unsigned place = (unsigned)now[e] - (unsigned)plane.first;
                        bool mine = some[e] && place < (unsigned)plane.pixels;
#pragma unroll
                        for (int odd = 0; odd < 2; odd++) {
                            places[2 * e + odd] = mine && q % 2 == odd ? (int)place : nowhere;
                            added[2 * e + odd] = of_now[e];
                        }
                    }
                    add_to_part(part, places, added);
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
