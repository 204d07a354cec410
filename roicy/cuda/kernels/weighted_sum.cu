// These kernels compute weighted sums of the pixels of a bin, and their gradients.  On the CPU,
// forward.pyx, grad_input.pyx and grad_boxes.pyx of pyx/kernels do this.

// Add weighted pixels of COUNT rows of two planes to a and b.  All loads are in flight at once.
template <int COUNT, typename T>
__device__ inline void add_rows(const Tap<T> *rows, const T *upper, const T *lower, T &a, T &b) {
    T above[COUNT], below[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        above[i] = __ldg(upper + rows[i].pixel);
        below[i] = __ldg(lower + rows[i].pixel);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        a = fma(rows[i].weight, above[i], a);
        b = fma(rows[i].weight, below[i], b);
    }
}

// Pool from planes of pixels (NCHW).  A warp computes 8 x 8 bins of a box for 16 channels, 4 at a
// time.  Along y, the lanes of half a warp are neighbouring columns of pixels, and their sums go to
// strips.  Along x, a lane is a column of bins of one channel.
template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 5 : 4)
    forward_planes(const __grid_constant__ Maps<T> maps, T *out, Strides bins, Shape shape,
                   Room room, const int *images, const int *counts, const Tap<T> *taps) {
    constexpr int SIDE = 8, CHANNELS = 4, KEPT = 6, WIDTH = 128 / sizeof(T);
    struct Shared {
        T strips[SIDE][CHANNELS][WIDTH + 8]; // the last 8 columns are 0: missing taps read them
        T stage[CHANNELS * SIDE * SIDE];
        alignas(16) Tap<T> rows[SIDE][SIDE]; // `pixel` is the offset where the row begins
        int many[SIDE];                      // how many taps each bin along y has
    };
    __shared__ Shared shared[THREADS / LANES];
    Shared &own = shared[warp_of_block()];
    // Along y, a lane computes channels half and half + 2; along x, it computes channel of_bins.
    int lane = lane_number(), half = lane / 16, of_bins = lane / SIDE;
    int down = (shape.ph + SIDE - 1) / SIDE, across = (shape.pw + SIDE - 1) / SIDE;
    int all = shape.ph * shape.pw;
    // The results of 4 channels are one piece of memory.
    bool together = down * across == 1 && bins.x == 1 && bins.y == shape.pw && bins.channel == all;
    for (int p = 0; p < SIDE; p++)
        own.strips[p][of_bins][WIDTH + lane % SIDE] = 0;
    int groups = (shape.channels + 4 * CHANNELS - 1) / (4 * CHANNELS);
    // All boxes are pooled from 64 channels, and then from the next 64, so that these planes stay
    // in the level 2 cache.
    for (long long t = warp_number(); t < (groups + 3LL) / 4 * shape.boxes * down * across * 4;
         t += warp_count()) {
        long long u = t;
        int group = split(u, 4);
        int first_q = split(u, across) * SIDE, first_p = split(u, down) * SIDE;
        long long k = split(u, shape.boxes);
        group += 4 * (int)u;
        int image = images[k];
        if (group >= groups || image == OTHER_LEVEL)
            continue;
        const Map<T> &level = maps.at[maps.level_of(k)];
        const Strides &map = level.strides;
        const T *input = level.pixels;
        // The front end calls this kernel only if planes span less than 2**31 elements.
        int pitch = (int)map.y, next = (int)map.x;
        const int *count = counts + k * (shape.ph + shape.pw);
        int q = first_q + lane % SIDE;
        int columns = q < shape.pw && image >= 0 ? count[shape.ph + q] : 0;
        int wide = shape.pw - first_q < SIDE ? shape.pw - first_q : SIDE;
        int tall = shape.ph - first_p < SIDE ? shape.ph - first_p : SIDE;
        const Tap<T> *along = taps + slot_of(room, shape, k, shape.ph + (q < shape.pw ? q : 0));
        const Tap<T> *of_rows = taps + slot_of(room, shape, k, first_p);
        Tap<T> kept[KEPT];
#pragma unroll
        for (int j = 0; j < KEPT; j++)
            kept[j] = j < columns ? along[j] : Tap<T>{-1, 0};
        int low = columns ? kept[0].pixel : shape.columns;
        int high = columns ? along[columns - 1].pixel + 1 : 0;
        for (int step = 1; step < SIDE; step *= 2) {
            int other_low = __shfl_xor_sync(ALL, low, step);
            int other_high = __shfl_xor_sync(ALL, high, step);
            low = other_low < low ? other_low : low;
            high = other_high > high ? other_high : high;
        }
        bool more = __ballot_sync(ALL, columns > KEPT);
        for (int p = lane / SIDE; p < SIDE; p += LANES / SIDE) {
            int i = lane % SIDE, many = p < tall && image >= 0 ? count[first_p + p] : 0;
            if (i == 0)
                own.many[p] = many;
            if (i < many) {
                Tap<T> tap = of_rows[(long long)p * room.y + i];
                own.rows[p][i] = {tap.pixel * pitch, tap.weight};
            }
        }
        __syncwarp();
#pragma unroll 1
        for (int c = group * 4 * CHANNELS; c < shape.channels && c < (group + 1) * 4 * CHANNELS;
             c += CHANNELS) {
            int mine = shape.channels - c < CHANNELS ? shape.channels - c : CHANNELS;
            // A lane without a channel of its own reads another channel, and writes no result.
            const T *plane =
                input + image * map.first + (c + (half < mine ? half : 0)) * map.channel;
            long long second = half + 2 < mine ? 2 * map.channel : 0;
            T sums[SIDE];
#pragma unroll
            for (int p = 0; p < SIDE; p++)
                sums[p] = 0;
#pragma unroll 1
            for (int from = low; from < high; from += WIDTH) {
                int stop = high - from < WIDTH ? high : from + WIDTH;
#pragma unroll 1
                for (int x = lane % 16; from + x - lane % 16 < stop; x += 16) {
                    int column = from + x < stop ? from + x : stop - 1;
                    const T *upper = known_as_it_is(plane + (long long)column * next);
                    const T *lower = known_as_it_is(upper + second);
                    T *to = &own.strips[0][half][x];
#pragma unroll 1
                    for (int p = 0; p < tall; p++, to += CHANNELS * (WIDTH + 8)) {
                        int many = own.many[p];
                        T a = 0, b = 0;
                        const Tap<T> *rows = own.rows[p];
                        if (many == 3)
                            add_rows<3>(rows, upper, lower, a, b);
                        else if (many == 4)
                            add_rows<4>(rows, upper, lower, a, b);
                        else if (many == 2)
                            add_rows<2>(rows, upper, lower, a, b);
                        else if (many == 1)
                            add_rows<1>(rows, upper, lower, a, b);
                        else if (many) {
                            int i = 4;
                            add_rows<4>(rows, upper, lower, a, b);
                            for (; i + 1 < many && i < SIDE; i += 2)
                                add_rows<2>(rows + i, upper, lower, a, b);
                            if (i < many && i < SIDE)
                                add_rows<1>(rows + i++, upper, lower, a, b);
#pragma unroll 1
                            for (; i < many; i++) {
                                Tap<T> row = of_rows[(long long)p * room.y + i];
                                a = fma(row.weight, __ldg(upper + row.pixel * pitch), a);
                                b = fma(row.weight, __ldg(lower + row.pixel * pitch), b);
                            }
                        }
                        to[0] = a;
                        to[2 * (WIDTH + 8)] = b;
                    }
                }
                __syncwarp();
#pragma unroll
                for (int j = 0; j < KEPT; j++) {
                    const T *at =
                        &own.strips[0][of_bins][kept[j].pixel >= from && kept[j].pixel < stop
                                                    ? kept[j].pixel - from
                                                    : WIDTH];
#pragma unroll
                    for (int p = 0; p < SIDE; p++)
                        if (p < tall)
                            sums[p] = fma(kept[j].weight, at[p * CHANNELS * (WIDTH + 8)], sums[p]);
                }
                if (more)
#pragma unroll 1
                    for (int j = KEPT; j < columns; j++) {
                        Tap<T> tap = along[j];
                        const T *at = &own.strips[0][of_bins][tap.pixel >= from && tap.pixel < stop
                                                                  ? tap.pixel - from
                                                                  : WIDTH];
#pragma unroll
                        for (int p = 0; p < SIDE; p++)
                            if (p < tall)
                                sums[p] = fma(tap.weight, at[p * CHANNELS * (WIDTH + 8)], sums[p]);
                    }
                __syncwarp();
            }
            T *to = out + k * bins.first + c * bins.channel;
            if (together) {
#pragma unroll
                for (int p = 0; p < SIDE; p++)
                    if (p < tall && lane % SIDE < wide)
                        own.stage[of_bins * all + p * wide + lane % SIDE] = sums[p];
                __syncwarp();
#pragma unroll 1
                for (int i = lane; i < mine * all; i += LANES)
                    to[i] = own.stage[i];
                __syncwarp();
            } else {
#pragma unroll
                for (int p = 0; p < SIDE; p++)
                    if (p < tall && lane % SIDE < wide && of_bins < mine)
                        to[of_bins * bins.channel + (first_p + p) * bins.y + q * bins.x] = sums[p];
            }
        }
        __syncwarp();
    }
}

// Write the sums of a bin to `total`, for EACH channels that lie `next` elements apart.  Only the
// first `mine` of these channels exist.
template <int EACH, typename T>
__device__ inline void sum_of_bin(const T *pixels, const Strides &map, long long next, int mine,
                                  const Tap<T> *down, int rows, const Tap<T> *along, int columns,
                                  T (&total)[EACH]) {
#pragma unroll
    for (int e = 0; e < EACH; e++)
        total[e] = 0;
    for (int i = 0; i < rows; i++) {
        Tap<T> y = down[i];
        const T *row = known_as_it_is(pixels + y.pixel * map.y);
        T sum[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++)
            sum[e] = 0;
#pragma unroll 2
        for (int j = 0; j < columns; j++) {
            Tap<T> x = along[j];
            const T *at = known_as_it_is(row + x.pixel * map.x);
#pragma unroll
            for (int e = 0; e < EACH; e++)
                if (e < mine)
                    sum[e] = fma(x.weight, __ldg(at + e * next), sum[e]);
        }
#pragma unroll
        for (int e = 0; e < EACH; e++)
            total[e] = fma(y.weight, sum[e], total[e]);
    }
}

// Pool from pixels of channels (NHWC).  A warp computes a row of bins for 128 channels, and each of
// its lanes computes 4 of these channels.
template <typename T>
__global__ void __launch_bounds__(THREADS)
    forward_pixels(const __grid_constant__ Maps<T> maps, T *out, Strides bins, Shape shape,
                   Room room, const int *images, const int *counts, const Tap<T> *taps) {
    constexpr int EACH = 4;
    int blocks = (shape.channels + EACH * LANES - 1) / (EACH * LANES);
    long long tasks = (long long)shape.boxes * shape.ph * blocks;
    for (long long t = warp_number(); t < tasks; t += warp_count()) {
        long long u = t;
        int c = split(u, blocks) * EACH * LANES + lane_number();
        int p = split(u, shape.ph), mine = (shape.channels - c + LANES - 1) / LANES;
        long long k = u;
        int image = images[k];
        if (image == OTHER_LEVEL)
            continue;
        const int *count = counts + k * (shape.ph + shape.pw);
        int rows = image < 0 ? 0 : count[p];
        const Tap<T> *down = taps + slot_of(room, shape, k, p);
        const Map<T> &level = maps.at[maps.level_of(k)];
        const Strides &map = level.strides;
        const T *pixels = level.pixels + image * map.first + c * map.channel;
        T *to = out + k * bins.first + c * bins.channel + p * bins.y;
        for (int q = 0; q < shape.pw; q++, to += bins.x) {
            int columns = count[shape.ph + q], some_rows = columns ? rows : 0;
            const Tap<T> *along = taps + slot_of(room, shape, k, shape.ph + q);
            T total[EACH];
            // The stride is nearly always 1.  Then the distance of the channels is a constant,
            // which the load instruction holds.
            if (map.channel == 1)
                sum_of_bin(pixels, map, LANES, mine, down, some_rows, along, columns, total);
            else
                sum_of_bin(pixels, map, LANES * map.channel, mine, down, some_rows, along, columns,
                           total);
#pragma unroll
            for (int e = 0; e < EACH; e++)
                if (e < mine)
                    to[e * LANES * bins.channel] = total[e];
        }
    }
}

// Pool where each bin has a channel of its own, and from planes of 2**31 elements or more.  A
// thread computes one bin of one channel.
template <typename T>
__global__ void forward_bins(const __grid_constant__ Maps<T> maps, T *out, Strides bins,
                             Shape shape, Room room, const int *images, const int *counts,
                             const Tap<T> *taps) {
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        int image = images[e.k];
        if (image == OTHER_LEVEL)
            continue;
        const Tap<T> *down = taps + slot_of(room, shape, e.k, e.p);
        const Tap<T> *along = taps + slot_of(room, shape, e.k, shape.ph + e.q);
        const int *count = counts + e.k * (shape.ph + shape.pw);
        int rows = image < 0 ? 0 : count[e.p], columns = count[shape.ph + e.q];
        long long channel = input_channel(shape, e.c, e.p, e.q);
        const Map<T> &level = maps.at[maps.level_of(e.k)];
        const Strides &map = level.strides;
        const T *plane = level.pixels + image * map.first + channel * map.channel;
        T total[1];
        sum_of_bin(plane, map, 0, 1, down, columns ? rows : 0, along, columns, total);
        out[e.k * bins.first + e.c * bins.channel + e.p * bins.y + e.q * bins.x] = total[0];
    }
}

// Return how many tiles cover a plane of a map.
template <typename T> __device__ inline long long tiles_of(const Map<T> &map, int tall, int wide) {
    return (long long)((map.rows + tall - 1) / tall) * ((map.columns + wide - 1) / wide);
}

// Find the first and the last bin of one axis that reach into pixels low to high - 1.  The bins of
// this axis begin at `bin` in `count`.  If there is no such bin, last is less than first.
template <typename T>
__device__ inline void bins_of(const Shape &shape, const Room &room, const int *count,
                               const Tap<T> *taps, long long k, int bin, int bins, int low,
                               int high, int &first, int &last) {
    first = bins, last = -1;
#pragma unroll 1
    for (int from = 0; from < bins; from += LANES) {
        int b = from + lane_number(), own = b < bins ? count[bin + b] : 0;
        const Tap<T> *of_bin = taps + slot_of(room, shape, k, bin + (own ? b : 0));
        unsigned some =
            __ballot_sync(ALL, own && of_bin[0].pixel < high && of_bin[own - 1].pixel >= low);
        if (some) {
            first = first < bins ? first : from + __ffs((int)some) - 1;
            last = from + LANES - 1 - __clz((int)some);
        }
    }
}

// Add up the gradients of the map.  A warp owns a tile of pixels, and each lane holds the pixels of
// one channel in registers.  The warp goes through the boxes whose windows meet the tile.  The
// weights of 8 x 8 bins of a box are stored as matrices of bins and pixels, with masks that say
// which entries exist.  The other entries are skipped, since a weight of 0 times a NaN in the
// gradient would be a NaN.
template <typename T, bool CHANNELS_LAST>
__device__ inline void backward_tiles(const T *grad_output, const Strides &bins,
                                      const Maps<T> &maps, const Shape &shape, const Room &room,
                                      const int *images, const int *counts, const Tap<T> *taps,
                                      const int *windows, int add) {
    constexpr int WIDE = 8, TALL = 32 / sizeof(T), BINS = 8;
    struct Shared {
        alignas(16) T y[BINS][TALL];
        alignas(16) T x[BINS][WIDE];
        int has_y[BINS], has_x[BINS];
        long long task;
        // These and `task` are here since registers are scarce.
        int level, image, c, channels, y0, x0;
        // This is a buffer between memory and lanes.  It holds gradients (bins, channels), and
        // later pixels of a row (columns, channels).  Planes are accessed as 8 neighbours of 4
        // channels at a time, and the pitch keeps these in different banks of shared memory.
        T turned[8][LANES + 4];
    };
    __shared__ Shared shared[THREADS / LANES];
    Shared &own = shared[warp_of_block()];
    int lane = lane_number();
    int blocks = (shape.channels + LANES - 1) / LANES;
    long long planes = (long long)shape.images * blocks, tasks = 0;
    for (int i = 0; i < maps.count; i++)
        tasks += planes * tiles_of(maps.at[i], TALL, WIDE);
    // A lane moves 8 numbers between memory and the buffer.  `near` (one of 8 neighbours) and `e`
    // (a channel) say which number is the first, and the steps lead from one number to the next.
    constexpr int near_step = CHANNELS_LAST ? 1 : 0, e_step = CHANNELS_LAST ? 0 : 4;
    int near = CHANNELS_LAST ? 0 : lane % 8, e = CHANNELS_LAST ? lane : lane / 8;
    long long bins_step = near_step * bins.x + e_step * bins.channel;
    for (long long t = warp_number(); t < tasks; t = own.task + warp_count()) {
        __syncwarp(); // all lanes have read the number of the task before
        long long u = own.task = t;
        int level = 0;
        for (long long of_level; u >= (of_level = planes * tiles_of(maps.at[level], TALL, WIDE));
             level++)
            u -= of_level;
        own.level = level;
        own.c = split(u, blocks) * LANES;
        own.x0 = split(u, (maps.at[level].columns + WIDE - 1) / WIDE) * WIDE;
        own.y0 = split(u, (maps.at[level].rows + TALL - 1) / TALL) * TALL;
        own.image = (int)u;
        own.channels = shape.channels - own.c < LANES ? shape.channels - own.c : LANES;
        __syncwarp();
        T sums[TALL][WIDE];
#pragma unroll
        for (int y = 0; y < TALL; y++)
#pragma unroll
            for (int x = 0; x < WIDE; x++)
                sums[y][x] = 0;
        for (int from = 0; from < shape.boxes; from += LANES) {
            int box = from + lane;
            const int *window = windows + 4LL * box;
            bool meets = box < shape.boxes && images[box] == own.image &&
                         maps.level_of(box) == own.level && window[0] < own.y0 + TALL &&
                         window[1] > own.y0 && window[2] < own.x0 + WIDE && window[3] > own.x0;
            unsigned boxes = __ballot_sync(ALL, meets);
            while (boxes) {
                int k = from + next_of(boxes);
                const int *count = counts + (long long)k * (shape.ph + shape.pw);
                int first_p, last_p, first_q, last_q;
                bins_of(shape, room, count, taps, k, 0, shape.ph, own.y0, own.y0 + TALL, first_p,
                        last_p);
                bins_of(shape, room, count, taps, k, shape.ph, shape.pw, own.x0, own.x0 + WIDE,
                        first_q, last_q);
                for (int q0 = first_q; q0 <= last_q; q0 += BINS)
                    for (int p0 = first_p; p0 <= last_p; p0 += BINS) {
                        int stop_p = last_p - p0 < BINS ? last_p + 1 : p0 + BINS;
                        int stop_q = last_q - q0 < BINS ? last_q + 1 : q0 + BINS;
                        if (lane < 2 * BINS) {
                            bool along_x = lane >= BINS;
                            int b = lane % BINS, bin = (along_x ? q0 : p0) + b;
                            int low = along_x ? own.x0 : own.y0, side = along_x ? WIDE : TALL;
                            int has = 0;
                            if (bin < (along_x ? stop_q : stop_p)) {
                                bin += along_x ? shape.ph : 0;
                                const Tap<T> *of_bin = taps + slot_of(room, shape, k, bin);
                                int i = 0, stop = count[bin];
                                // Taps ascend, so that bisection finds the first on the tile.
                                for (int end = stop; i < end;) {
                                    int middle = (i + end) / 2;
                                    if (of_bin[middle].pixel < low)
                                        i = middle + 1;
                                    else
                                        end = middle;
                                }
#pragma unroll 1
                                for (; i < stop && of_bin[i].pixel < low + side; i++) {
                                    int at = of_bin[i].pixel - low;
                                    (along_x ? own.x[b] : own.y[b])[at] = of_bin[i].weight;
                                    has |= 1 << at;
                                }
                            }
                            (along_x ? own.has_x : own.has_y)[b] = has;
                        }
                        __syncwarp();
#pragma unroll 1
                        for (int p = p0; p < stop_p; p++) {
                            int has_y = own.has_y[p - p0];
                            if (!has_y)
                                continue;
                            const T *of_lane =
                                known_as_it_is(grad_output + k * bins.first + p * bins.y +
                                               (q0 + near) * bins.x + (own.c + e) * bins.channel);
                            int neighbours = stop_q - q0 - near, channels = own.channels - e;
                            // All 8 loads are in flight at once.
                            T grads[8];
#pragma unroll
                            for (int i = 0; i < 8; i++, of_lane += bins_step)
                                grads[i] = i * near_step < neighbours && i * e_step < channels
                                               ? __ldg(of_lane)
                                               : (T)0;
#pragma unroll
                            for (int i = 0; i < 8; i++)
                                own.turned[near + i * near_step][e + i * e_step] = grads[i];
                            __syncwarp();
                            T of_columns[WIDE];
#pragma unroll
                            for (int x = 0; x < WIDE; x++)
                                of_columns[x] = 0;
#pragma unroll 1
                            for (int b = 0; b < stop_q - q0; b++) {
                                int has_x = own.has_x[b];
                                // Weights that do not exist are loaded too, so that the loads
                                // are of vectors.
                                T grad = own.turned[b][lane], weights[WIDE];
#pragma unroll
                                for (int x = 0; x < WIDE; x++)
                                    weights[x] = own.x[b][x];
#pragma unroll
                                for (int x = 0; x < WIDE; x++)
                                    if (has_x >> x & 1)
                                        of_columns[x] = fma(weights[x], grad, of_columns[x]);
                            }
                            __syncwarp();
#pragma unroll
                            for (int y = 0; y < TALL; y++)
                                if (has_y >> y & 1) {
                                    T weight = own.y[p - p0][y];
#pragma unroll
                                    for (int x = 0; x < WIDE; x++)
                                        sums[y][x] = fma(weight, of_columns[x], sums[y][x]);
                                }
                        }
                        __syncwarp();
                    }
            }
        }
        const Map<T> &of_level = maps.at[own.level];
        const Strides &map = of_level.strides;
        T *to = of_level.pixels + own.image * map.first + (own.c + e) * map.channel +
                own.y0 * map.y + (own.x0 + near) * map.x;
        long long map_step = near_step * map.x + e_step * map.channel;
#pragma unroll
        for (int y = 0; y < TALL; y++)
            if (own.y0 + y < of_level.rows) {
#pragma unroll
                for (int x = 0; x < WIDE; x++)
                    own.turned[x][lane] = sums[y][x];
                __syncwarp();
#pragma unroll 1
                for (int i = 0; i < 8; i++)
                    if (own.x0 + near + i * near_step < of_level.columns &&
                        e + i * e_step < own.channels) {
                        T sum = own.turned[near + i * near_step][e + i * e_step];
                        to[i * map_step] = add ? to[i * map_step] + sum : sum;
                    }
                __syncwarp();
                to += map.y;
            }
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 4 : 3)
    backward_planes(const T *grad_output, Strides bins, const __grid_constant__ Maps<T> maps,
                    Shape shape, Room room, const int *images, const int *counts,
                    const Tap<T> *taps, const int *windows, int add) {
    backward_tiles<T, false>(grad_output, bins, maps, shape, room, images, counts, taps, windows,
                             add);
}

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 4 : 3)
    backward_pixels(const T *grad_output, Strides bins, const __grid_constant__ Maps<T> maps,
                    Shape shape, Room room, const int *images, const int *counts,
                    const Tap<T> *taps, const int *windows, int add) {
    backward_tiles<T, true>(grad_output, bins, maps, shape, room, images, counts, taps, windows,
                            add);
}

// Add up the gradients of the map where each bin has a channel of its own.  A warp owns a part of a
// plane in shared memory, and goes through the boxes of a segment.  Lanes are taps, 4 rows of 8 at
// a time.  The loads for the next box are in flight while one box is added.
template <typename T>
__global__ void __launch_bounds__(THREADS_OF_PLANES)
    backward_bins(const T *grad_output, Strides bins, T *to, Strides map, long long of_segment,
                  int segments, Shape shape, Room room, const int *images, const int *counts,
                  const Tap<T> *taps, int add) {
    constexpr int SIDE = 8;
    struct Reads {
        T grad;
        int rows, columns;
        Tap<T> y, x;
    };
    __shared__ T parts[THREADS_OF_PLANES / LANES][PartOfPlane<T>::MOST];
    T *part = parts[warp_of_block()];
    int lane = lane_number(), all = shape.ph * shape.pw;
    long long channels = (long long)shape.channels * all;
    for (long long t = warp_number();
         t < shape.images * channels * PartOfPlane<T>::of_plane(shape) * segments;
         t += warp_count()) {
        PartOfPlane<T> at(t, shape, channels, segments);
        int own = (int)(at.channel % all), p = own / shape.pw, q = own % shape.pw;
        int row = lane / SIDE, column = lane % SIDE;
        const T *grads = grad_output + at.channel / all * bins.channel + p * bins.y + q * bins.x;
        at.clear(part);
        for (int from = at.first_box; from < at.stop_box; from += LANES) {
            unsigned boxes =
                __ballot_sync(ALL, from + lane < at.stop_box && images[from + lane] == at.image);
            Reads next = {};
            long long next_k = -1;
            do {
                Reads now = next;
                long long k = next_k;
                next_k = boxes ? from + next_of(boxes) : -1;
                if (next_k >= 0) {
                    const int *count = counts + next_k * (shape.ph + shape.pw);
                    const Tap<T> *y = taps + slot_of(room, shape, next_k, p);
                    const Tap<T> *x = taps + slot_of(room, shape, next_k, shape.ph + q);
                    int rows = count[p], columns = count[shape.ph + q];
                    next = {grads[next_k * bins.first], rows, columns,
                            row < rows ? y[row] : Tap<T>{0, 0},
                            column < columns ? x[column] : Tap<T>{0, 0}};
                }
                if (k < 0)
                    continue;
                for (int i = row; i < now.rows; i += LANES / SIDE)
                    for (int j = column; j < now.columns; j += SIDE) {
                        Tap<T> y = i == row ? now.y : taps[slot_of(room, shape, k, p) + i];
                        Tap<T> x =
                            j == column ? now.x : taps[slot_of(room, shape, k, shape.ph + q) + j];
                        long long pixel = (long long)y.pixel * shape.columns + x.pixel - at.first;
                        if (pixel >= 0 && pixel < at.pixels)
                            part[pixel] = fma(y.weight * x.weight, now.grad, part[pixel]);
                    }
                __syncwarp();
            } while (next_k >= 0);
        }
        at.write(part, to + at.segment * of_segment, map, shape.columns, add);
    }
}

// The taps of a bin of one axis, and the slopes of their weights: the derivatives by the low and by
// the high edge of the box.
template <typename T> struct Slopes {
    const Tap<T> *taps;
    const T *low, *high;
    int count;
};

// Write the derivatives of a bin by x1, y1, x2, y2 to `sums`, for EACH channels that lie `next`
// elements apart.  Only the first `mine` of these channels exist.
template <int EACH, typename T>
__device__ inline void slopes_of_bin(const T *pixels, const Strides &map, long long next, int mine,
                                     const Slopes<T> &y, const Slopes<T> &x, T (&sums)[EACH][4]) {
#pragma unroll
    for (int e = 0; e < EACH; e++)
        sums[e][0] = sums[e][1] = sums[e][2] = sums[e][3] = 0;
    for (int i = 0; i < y.count; i++) {
        Tap<T> of_row = y.taps[i];
        T row_low = y.low[i], row_high = y.high[i], value[EACH], low[EACH], high[EACH];
        const T *row = known_as_it_is(pixels + of_row.pixel * map.y);
#pragma unroll
        for (int e = 0; e < EACH; e++)
            value[e] = low[e] = high[e] = 0;
        for (int j = 0; j < x.count; j++) {
            Tap<T> of_column = x.taps[j];
            T column_low = x.low[j], column_high = x.high[j];
            const T *at = known_as_it_is(row + of_column.pixel * map.x);
#pragma unroll
            for (int e = 0; e < EACH; e++)
                if (e < mine) {
                    T pixel = __ldg(at + e * next);
                    value[e] = fma(of_column.weight, pixel, value[e]);
                    low[e] = fma(column_low, pixel, low[e]);
                    high[e] = fma(column_high, pixel, high[e]);
                }
        }
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            sums[e][0] = fma(of_row.weight, low[e], sums[e][0]);
            sums[e][1] = fma(row_low, value[e], sums[e][1]);
            sums[e][2] = fma(of_row.weight, high[e], sums[e][2]);
            sums[e][3] = fma(row_high, value[e], sums[e][3]);
        }
    }
}

// Return how many channels go into one partial sum of the gradients of the boxes.  A thread
// computes this sum, or a warp if channels are last.
__device__ inline int channels_of_sum(const Shape &shape) {
    return shape.channels_last ? CHANNELS_OF_WARP : CHANNELS_OF_THREAD;
}

// Write partial_sums (boxes, blocks of channels, bins, 4) of the gradients by x1, y1, x2, y2.  A
// thread computes a bin, 4 channels at a time.  If channels are last, a warp computes a bin, and
// its lanes are channels.
template <typename T>
__global__ void __launch_bounds__(THREADS)
    backward_boxes(const T *grad_output, Strides bins, const __grid_constant__ Maps<T> maps,
                   Shape shape, Room room, const int *images, const int *counts, const Tap<T> *taps,
                   const T *slope_low, const T *slope_high, double *partial_sums) {
    constexpr int EACH = 4;
    int all = channels_of_sum(shape), blocks = (shape.channels + all - 1) / all;
    int sharing = shape.channels_last ? LANES : 1; // threads that compute one partial sum
    int lane = shape.channels_last ? lane_number() : 0;
    int stride = shape.channels_last ? LANES : 1; // from one channel of a thread to the next
    for (long long t = thread_number() / sharing;
         t < (long long)shape.boxes * blocks * shape.ph * shape.pw; t += thread_count() / sharing) {
        long long u = t;
        int q = split(u, shape.pw), p = split(u, shape.ph), first = split(u, blocks) * all;
        long long k = u, y = slot_of(room, shape, k, p);
        long long x = slot_of(room, shape, k, shape.ph + q);
        int image = images[k];
        const int *count = counts + k * (shape.ph + shape.pw);
        Slopes<T> of_rows = {taps + y, slope_low + y, slope_high + y, image < 0 ? 0 : count[p]};
        Slopes<T> of_columns = {taps + x, slope_low + x, slope_high + x, count[shape.ph + q]};
        const Map<T> &level = maps.at[maps.level_of(k)];
        const Strides &map = level.strides;
        long long step =
            (shape.position_sensitive ? (long long)shape.ph * shape.pw : 1) * map.channel;
        const T *pixels = level.pixels + image * map.first +
                          input_channel(shape, first + lane, p, q) * map.channel;
        const T *grads =
            grad_output + k * bins.first + (first + lane) * bins.channel + p * bins.y + q * bins.x;
        double total[4] = {0, 0, 0, 0};
        int last = first + all < shape.channels ? first + all : shape.channels;
        for (int c = first + lane; c < last && of_rows.count && of_columns.count;
             c += EACH * stride) {
            T sums[EACH][4];
            int mine = (last - c + stride - 1) / stride;
            slopes_of_bin<EACH>(pixels, map, stride * step, mine, of_rows, of_columns, sums);
#pragma unroll
            for (int e = 0; e < EACH; e++)
                if (e < mine) {
                    T grad = grads[e * stride * bins.channel];
#pragma unroll
                    for (int edge = 0; edge < 4; edge++)
                        total[edge] += (double)(grad * sums[e][edge]);
                }
            pixels += EACH * stride * step;
            grads += EACH * stride * bins.channel;
        }
        if (shape.channels_last)
#pragma unroll
            for (int edge = 0; edge < 4; edge++)
                for (int other = 1; other < LANES; other *= 2)
                    total[edge] += __shfl_xor_sync(ALL, total[edge], other);
        if (lane == 0)
#pragma unroll
            for (int edge = 0; edge < 4; edge++)
                partial_sums[t * 4 + edge] = total[edge];
    }
}

// Add up partial_sums, and write the sums to the last four columns of grad_boxes (boxes, columns),
// which belong to the corners.  The column before them, if there is one, becomes 0.  A warp takes a
// box at a time.
template <typename T>
__global__ void add_partial_sums(const double *partial_sums, Shape shape, const int *images,
                                 T *grad_boxes, int columns) {
    int all = channels_of_sum(shape), blocks = (shape.channels + all - 1) / all;
    long long each = (long long)blocks * shape.ph * shape.pw;
    int lane = lane_number();
    for (long long k = warp_number(); k < shape.boxes; k += warp_count()) {
        if (images[k] == OTHER_LEVEL)
            continue;
        double sum = 0; // lanes of one edge are 4 apart
        for (long long i = lane; i < 4 * each; i += LANES)
            sum += partial_sums[k * each * 4 + i];
        for (int step = 4; step < LANES; step *= 2)
            sum += __shfl_xor_sync(ALL, sum, step);
        if (lane < 4)
            grad_boxes[k * columns + columns - 4 + lane] = (T)sum;
        else if (lane < columns)
            grad_boxes[k * columns] = 0;
    }
}
