// These kernels compute gradients of maps from those of weighted sums.  On the CPU,
// pyx/passes/grad_input.pxd does this.

// A warp owns a tile of pixels, and each lane holds the pixels of one channel in registers.  The
// warp goes through the boxes whose windows meet the tile.  The weights of 8 x 8 bins of a box are
// stored as matrices of bins and pixels, with masks that say which entries exist.  The other
// entries are skipped, since a weight of 0 times a NaN in the gradient would be a NaN.
template <typename T> struct Tile {
    static constexpr int WIDE = 8, TALL = 32 / sizeof(T), BINS = 8;
    struct Shared {
        alignas(16) T y[BINS][TALL];
        alignas(16) T x[BINS][WIDE];
        int has_y[BINS], has_x[BINS];
        // This is a buffer between memory and lanes.  It holds gradients (bins, channels), and
        // later pixels of a row (columns, channels).  Memory is accessed as 8 neighbours of 4
        // channels at a time, and the pitch keeps these in different banks of shared memory.
        T turned[8][LANES + 4];
    };
    Shared &own;
    const Tables<T> &tables;
    int level, image, c, channels, y0, x0;

    static __device__ int near() { return lane_number() % 8; }
    static __device__ int channel() { return lane_number() / 8; }

    static __device__ long long count(const Map<T> &map, const Shape &shape) {
        return (long long)((map.rows + TALL - 1) / TALL) * ((map.columns + WIDE - 1) / WIDE) *
               ((shape.channels + LANES - 1) / LANES) * shape.images;
    }

    // Find tile t of all levels.
    __device__ Tile(long long t, const Maps<T> &maps, const Tables<T> &tables, Shared &own)
        : own(own), tables(tables), level(0) {
        const Shape &shape = tables.shape;
        for (long long tiles; t >= (tiles = count(maps.at[level], shape)); level++)
            t -= tiles;
        c = (int)split(t, (shape.channels + LANES - 1) / LANES) * LANES;
        x0 = (int)split(t, (maps.at[level].columns + WIDE - 1) / WIDE) * WIDE;
        y0 = (int)split(t, (maps.at[level].rows + TALL - 1) / TALL) * TALL;
        image = (int)t;
        channels = shape.channels - c < LANES ? shape.channels - c : LANES;
    }

    // Return whether a box reads pixels of the tile.
    __device__ bool meets(int box) const {
        const int *window = tables.windows + 4LL * box;
        return box < tables.shape.boxes && tables.images[box] == image &&
               tables.level_of(box) == level && window[0] < y0 + TALL && window[1] > y0 &&
               window[2] < x0 + WIDE && window[3] > x0;
    }

    // Store the weights of at most BINS bins of each axis.  Half of the lanes are bins along y, and
    // the others are bins along x.  Return which lanes have bins that reach into the tile.
    __device__ unsigned store_weights(long long k, int first_p, int first_q) {
        const Shape &shape = tables.shape;
        bool along_x = lane_number() >= LANES / 2;
        int b = lane_number() % (LANES / 2), bin = b + (along_x ? first_q : first_p), has = 0;
        if (b < BINS && bin < (along_x ? shape.pw : shape.ph)) {
            Taps<T> taps(tables, k, bin + (along_x ? shape.ph : 0));
            int low = along_x ? x0 : y0, side = along_x ? WIDE : TALL;
#pragma unroll 1
            for (int i = 0; i < taps.count; i++) {
                int at = taps.of[i].pixel - low;
                if (at >= side)
                    break;
                if (at < 0)
                    continue;
                (along_x ? own.x[b] : own.y[b])[at] = taps.of[i].weight;
                has |= 1 << at;
            }
            (along_x ? own.has_x : own.has_y)[b] = has;
        }
        return __ballot_sync(ALL, has);
    }

    // Copy the gradients of some bins of a row to the buffer.  `from` is the lane's first one.  All
    // 8 loads are in flight at once.
    __device__ void copy_gradients(const T *from, unsigned some, long long step) {
        T grads[8];
#pragma unroll
        for (int i = 0; i < 8; i++, from += step)
            grads[i] = some >> near() & 1 && channel() + 4 * i < channels ? __ldg(from) : (T)0;
        UNROLL(i, 8)
            own.turned[near()][channel() + 4 * i] = grads[i];
        __syncwarp();
    }

    // Add row p of the matrices, of some bins, whose gradients are in the buffer.
    __device__ void add_row(int p, unsigned some, T (&sums)[TALL][WIDE]) const {
        T of_columns[WIDE];
        UNROLL(x, WIDE)
            of_columns[x] = 0;
#pragma unroll 1
        while (some) {
            int b = next_of(some), has_x = own.has_x[b];
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
    __device__ void add_box(long long k, const T *grad_output, const Strides &bins,
                            T (&sums)[TALL][WIDE]) {
        const Shape &shape = tables.shape;
        for (int q = 0; q < shape.pw; q += BINS)
            for (int p = 0; p < shape.ph; p += BINS) {
                unsigned reach = store_weights(k, p, q), of_y = reach & 0xffff, of_x = reach >> 16;
                const T *row = grad_output + k * bins.first + p * bins.y + (q + near()) * bins.x +
                               (c + channel()) * bins.channel;
#pragma unroll 1
                while (of_y && of_x) {
                    int i = next_of(of_y);
                    copy_gradients(row + i * bins.y, of_x, 4 * bins.channel);
                    add_row(i, of_x, sums);
                }
                __syncwarp();
            }
    }

    // Write the tile, 8 neighbours of 4 channels at a time.
    __device__ void write(const Map<T> &map, const T (&sums)[TALL][WIDE]) {
        T *to = map.pixels + image * map.strides.first + (c + channel()) * map.strides.channel +
                y0 * map.strides.y + (x0 + near()) * map.strides.x;
        UNROLL(y, TALL)
            if (y0 + y < map.rows) {
                UNROLL(x, WIDE)
                    own.turned[x][lane_number()] = sums[y][x];
                __syncwarp();
#pragma unroll 1
                for (int e = channel(); e < channels; e += 4)
                    if (x0 + near() < map.columns)
                        put(to + (e - channel()) * map.strides.channel, own.turned[near()][e],
                            tables.add);
                __syncwarp();
                to += map.strides.y;
            }
    }
};

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 4 : 3)
    backward_tiles(const T *grad_output, Strides bins, const __grid_constant__ Maps<T> maps,
                   const __grid_constant__ Tables<T> tables) {
    __shared__ typename Tile<T>::Shared shared[THREADS / LANES];
    long long tiles = 0;
    for (int i = 0; i < maps.count; i++)
        tiles += Tile<T>::count(maps.at[i], tables.shape);
    for (long long t = warp_number(); t < tiles; t += warp_count()) {
        Tile<T> tile(t, maps, tables, shared[warp_of_block()]);
        T sums[Tile<T>::TALL][Tile<T>::WIDE];
        UNROLL(y, Tile<T>::TALL)
            UNROLL(x, Tile<T>::WIDE)
                sums[y][x] = 0;
        for (int from = 0; from < tables.shape.boxes; from += LANES) {
            unsigned boxes = __ballot_sync(ALL, tile.meets(from + lane_number()));
            while (boxes)
                tile.add_box(from + next_of(boxes), grad_output, bins, sums);
        }
        tile.write(maps.at[tile.level], sums);
    }
}
