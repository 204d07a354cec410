// These kernels compute gradients of maps from those of weighted sums.  On the CPU, grad_input.pyx
// of pyx/kernels does this.

// Return how many tiles cover a plane of a map.
template <typename T> __device__ inline long long tiles_of(const Map<T> &map, int tall, int wide) {
    return (long long)((map.rows + tall - 1) / tall) * ((map.columns + wide - 1) / wide);
}

// Return the number of the first tap that reads pixel `low` or one behind it.  Taps ascend.
template <typename T> __device__ inline int first_from(const Tap<T> *taps, int count, int low) {
    int i = 0;
#pragma unroll 1
    for (int end = count; end - i > 8;) {
        int middle = (i + end) / 2;
        if (taps[middle].pixel < low)
            i = middle + 1;
        else
            end = middle;
    }
#pragma unroll 1
    while (i < count && taps[i].pixel < low)
        i++;
    return i;
}

// Bins `first` to `last` of an axis.
struct SomeBins {
    int first, last;

    // Add the bins of a mask, whose first bit is bin `from`.
    __device__ void add(unsigned mask, int from) {
        if (mask == 0)
            return;
        first = last < 0 ? from + __ffs((int)mask) - 1 : first;
        last = from + 31 - __clz((int)mask);
    }
};

// A warp owns a tile of pixels, and each lane holds the pixels of one channel in registers.  The
// warp goes through the boxes whose windows meet the tile.  The weights of 8 x 8 bins of a box are
// stored as matrices of bins and pixels, with masks that say which entries exist.  The other
// entries are skipped, since a weight of 0 times a NaN in the gradient would be a NaN.
template <typename T, bool CHANNELS_LAST> struct Tiles {
    static constexpr int WIDE = 8, TALL = 32 / sizeof(T), BINS = 8;
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
        alignas(16) T turned[8][LANES + 4];
    };
    Shared &own;
    const T *grad_output;
    const Strides &bins; // of the gradients
    const Maps<T> &maps;
    const Tables<T> &tables;

    // A lane moves 8 numbers between memory and the buffer.  near() (one of 8 neighbours) and
    // channel() say which number is the first, and the steps lead from one number to the next.
    static constexpr int NEAR_STEP = CHANNELS_LAST ? 1 : 0, CHANNEL_STEP = CHANNELS_LAST ? 0 : 4;
    static __device__ int near() { return CHANNELS_LAST ? 0 : lane_number() % 8; }
    static __device__ int channel() { return CHANNELS_LAST ? lane_number() : lane_number() / 8; }

    static __device__ int blocks(const Shape &shape) {
        return (shape.channels + LANES - 1) / LANES;
    }

    // Find the tile of a task.
    __device__ void find_tile(long long task) {
        __syncwarp(); // all lanes have read the number of the task before
        long long u = own.task = task;
        const Shape &shape = tables.shape;
        long long planes = (long long)shape.images * blocks(shape), of_level;
        int level = 0;
        for (; u >= (of_level = planes * tiles_of(maps.at[level], TALL, WIDE)); level++)
            u -= of_level;
        own.level = level;
        own.c = (int)split(u, blocks(shape)) * LANES;
        own.x0 = (int)split(u, (maps.at[level].columns + WIDE - 1) / WIDE) * WIDE;
        own.y0 = (int)split(u, (maps.at[level].rows + TALL - 1) / TALL) * TALL;
        own.image = (int)u;
        own.channels = shape.channels - own.c < LANES ? shape.channels - own.c : LANES;
        __syncwarp();
    }

    // Return whether a box reads pixels of the tile.
    __device__ bool meets(int box) const {
        const int *window = tables.windows + 4LL * box;
        return box < tables.shape.boxes && tables.images[box] == own.image &&
               tables.level_of(box) == own.level && window[0] < own.y0 + TALL &&
               window[1] > own.y0 && window[2] < own.x0 + WIDE && window[3] > own.x0;
    }

    // Find the bins of each axis that reach into the tile.  Half of the lanes are bins along y, and
    // the others are bins along x.
    __device__ void find_bins(long long k, SomeBins &of_y, SomeBins &of_x) const {
        constexpr int HALF = LANES / 2;
        const Shape &shape = tables.shape;
        bool along_x = lane_number() >= HALF;
        int low = along_x ? own.x0 : own.y0, high = low + (along_x ? WIDE : TALL);
        int before = along_x ? shape.ph : 0, bins = along_x ? shape.pw : shape.ph;
        of_y = of_x = {0, -1};
#pragma unroll 1
        for (int from = 0; from < shape.ph || from < shape.pw; from += HALF) {
            int b = from + lane_number() % HALF;
            int count = b < bins ? tables.counts_of(k)[before + b] : 0;
            const Tap<T> *taps = tables.taps + tables.slot_of(k, before + (count ? b : 0));
            unsigned some =
                __ballot_sync(ALL, count && taps[0].pixel < high && taps[count - 1].pixel >= low);
            of_y.add(some & 0xffff, from), of_x.add(some >> 16, from);
        }
    }

    // Store the weights of at most BINS bins of each axis.
    __device__ void store_weights(long long k, int first_p, int stop_p, int first_q, int stop_q) {
        int lane = lane_number();
        if (lane < 2 * BINS) {
            bool along_x = lane >= BINS;
            int b = lane % BINS, bin = (along_x ? first_q : first_p) + b, has = 0;
            int low = along_x ? own.x0 : own.y0, side = along_x ? WIDE : TALL;
            if (bin < (along_x ? stop_q : stop_p)) {
                bin += along_x ? tables.shape.ph : 0;
                const Tap<T> *taps = tables.taps + tables.slot_of(k, bin);
                int count = tables.counts_of(k)[bin], i = first_from(taps, count, low);
#pragma unroll 1
                for (; i < count && taps[i].pixel < low + side; i++) {
                    int at = taps[i].pixel - low;
                    (along_x ? own.x[b] : own.y[b])[at] = taps[i].weight;
                    has |= 1 << at;
                }
            }
            (along_x ? own.has_x : own.has_y)[b] = has;
        }
        __syncwarp();
    }

    // Copy gradients of a row of bins to the buffer, and zeros where there is no bin or channel.
    // `from` is the lane's first one, and `last` is the last bin.  All 8 loads are in flight at
    // once.
    __device__ void copy_gradients(const T *from, int last) {
        long long step = (NEAR_STEP * bins.x + CHANNEL_STEP * bins.channel) * (int)sizeof(T);
        const char *of_lane = (const char *)known_as_it_is(from);
        T grads[8];
#pragma unroll
        for (int i = 0; i < 8; i++, of_lane += step)
            grads[i] = near() + i * NEAR_STEP <= last && channel() + i * CHANNEL_STEP < own.channels
                           ? __ldg((const T *)of_lane)
                           : (T)0;
        UNROLL(i, 8)
            own.turned[near() + i * NEAR_STEP][channel() + i * CHANNEL_STEP] = grads[i];
        __syncwarp();
    }

    // Add row p of the matrices, of `count` bins, whose gradients are in the buffer.
    __device__ void add_row(int p, int count, T (&sums)[TALL][WIDE]) const {
        T of_columns[WIDE];
        UNROLL(x, WIDE)
            of_columns[x] = 0;
#pragma unroll 1
        for (int b = 0; b < count; b++) {
            int has_x = own.has_x[b];
            // Weights that do not exist are loaded too, so that the loads are of vectors.
            T grad = own.turned[b][lane_number()], weights[WIDE];
            UNROLL(x, WIDE)
                weights[x] = own.x[b][x];
            UNROLL(x, WIDE)
                if (has_x >> x & 1)
                    of_columns[x] = fma(weights[x], grad, of_columns[x]);
        }
        __syncwarp();
        UNROLL(y, TALL)
            if (own.has_y[p] >> y & 1) {
                T weight = own.y[p][y];
                UNROLL(x, WIDE)
                    sums[y][x] = fma(weight, of_columns[x], sums[y][x]);
            }
    }

    // Add the gradients of box k.
    __device__ void add_box(long long k, T (&sums)[TALL][WIDE]) {
        SomeBins of_y, of_x;
        find_bins(k, of_y, of_x);
        for (int q0 = of_x.first; q0 <= of_x.last; q0 += BINS)
            for (int p0 = of_y.first; p0 <= of_y.last; p0 += BINS) {
                int stop_p = of_y.last - p0 < BINS ? of_y.last + 1 : p0 + BINS;
                int stop_q = of_x.last - q0 < BINS ? of_x.last + 1 : q0 + BINS;
                store_weights(k, p0, stop_p, q0, stop_q);
                int last = stop_q - q0 - 1;
                const T *of_row = grad_output + k * bins.first + p0 * bins.y +
                                  (q0 + near()) * bins.x + (own.c + channel()) * bins.channel;
#pragma unroll 1
                for (int p = 0; p < stop_p - p0; p++, of_row += bins.y)
                    if (own.has_y[p]) {
                        copy_gradients(of_row, last);
                        add_row(p, last + 1, sums);
                    }
                __syncwarp();
            }
    }

    // Write the tile where lanes are channels in memory, too.
    __device__ void write_pixels(const Map<T> &map, T *to, const T (&sums)[TALL][WIDE]) const {
        to += lane_number() * map.strides.channel;
        if (lane_number() < own.channels)
#pragma unroll
            for (int y = 0; y < TALL; y++, to += map.strides.y)
                UNROLL(x, WIDE)
                    if (own.y0 + y < map.rows && own.x0 + x < map.columns)
                        put(to + x * map.strides.x, sums[y][x], tables.add);
    }

    // Write the tile where 8 neighbours of 4 channels are written at a time.
    __device__ void write_planes(const Map<T> &map, T *to, const T (&sums)[TALL][WIDE]) {
        to += channel() * map.strides.channel + near() * map.strides.x;
        UNROLL(y, TALL)
            if (own.y0 + y < map.rows) {
                UNROLL(x, WIDE)
                    own.turned[x][lane_number()] = sums[y][x];
                __syncwarp();
#pragma unroll 1
                for (int e = channel(); e < own.channels; e += 4)
                    if (own.x0 + near() < map.columns)
                        put(to + (e - channel()) * map.strides.channel, own.turned[near()][e],
                            tables.add);
                __syncwarp();
                to += map.strides.y;
            }
    }

    __device__ void write(const T (&sums)[TALL][WIDE]) {
        const Map<T> &map = maps.at[own.level];
        T *to = map.pixels + own.image * map.strides.first + own.c * map.strides.channel +
                own.y0 * map.strides.y + own.x0 * map.strides.x;
        if (CHANNELS_LAST)
            write_pixels(map, to, sums);
        else
            write_planes(map, to, sums);
    }

    __device__ void run() {
        long long planes = (long long)tables.shape.images * blocks(tables.shape), tasks = 0;
        for (int i = 0; i < maps.count; i++)
            tasks += planes * tiles_of(maps.at[i], TALL, WIDE);
        for (long long t = warp_number(); t < tasks; t = own.task + warp_count()) {
            find_tile(t);
            T sums[TALL][WIDE];
            UNROLL(y, TALL)
                UNROLL(x, WIDE)
                    sums[y][x] = 0;
            for (int from = 0; from < tables.shape.boxes; from += LANES) {
                unsigned boxes = __ballot_sync(ALL, meets(from + lane_number()));
                while (boxes)
                    add_box(from + next_of(boxes), sums);
            }
            write(sums);
        }
    }
};

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 4 : 3)
    backward_planes(const T *grad_output, Strides bins, const __grid_constant__ Maps<T> maps,
                    const __grid_constant__ Tables<T> tables) {
    __shared__ typename Tiles<T, false>::Shared shared[THREADS / LANES];
    Tiles<T, false> warp = {shared[warp_of_block()], grad_output, bins, maps, tables};
    warp.run();
}

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 4 : 3)
    backward_pixels(const T *grad_output, Strides bins, const __grid_constant__ Maps<T> maps,
                    const __grid_constant__ Tables<T> tables) {
    __shared__ typename Tiles<T, true>::Shared shared[THREADS / LANES];
    Tiles<T, true> warp = {shared[warp_of_block()], grad_output, bins, maps, tables};
    warp.run();
}
