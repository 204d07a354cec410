// What kernels of planes of pixels (NCHW) have in common: a warp takes a block of bins at a time.

// How many blocks of threads a multiprocessor should hold.  Before Hopper threads that pool need
// more registers than four blocks have.  Turing has shared memory for one or two blocks.
#ifdef __CUDA_ARCH__
constexpr int ARCHITECTURE = __CUDA_ARCH__;
#else
constexpr int ARCHITECTURE = 900;
#endif
template <typename T>
constexpr int BLOCKS_OF_POOLING = sizeof(T) == 4 && ARCHITECTURE >= 900 ? 4 : 3;
template <typename T> constexpr int BLOCKS_OF_BOXES = sizeof(T) == 4 && ARCHITECTURE >= 800 ? 4 : 3;

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
template <bool MAXIMUM, typename T> __device__ inline Tap<T> tap_of(const Tap<T> *bin, int i) {
    if constexpr (MAXIMUM)
        return {bin[0].pixel + i, 0};
    else
        return bin[i];
}

// At most 8 x 8 bins of a box and GROUP channels.  8 lanes are neighbouring columns of bins or of
// pixels, and there are 4 such rows of lanes, which take different channels.
template <typename T, int GROUP> struct Block {
    static constexpr int SIDE = 8, ROWS = LANES / SIDE;
    int k;
    int first_p, first_q, tall, wide;
    int c, mine;       // the first channel, and how many there are
    int image;         // negative where the box reads nothing
    int pitch, next;   // the strides of y and x
    const T *plane;    // of the first channel
    long long channel; // from one channel to the next
    int columns;       // taps of the lane's bin along x
    int low, high;     // the bins read columns low to high - 1

    static __device__ int of_box(const Shape &shape) {
        return (shape.ph + SIDE - 1) / SIDE * ((shape.pw + SIDE - 1) / SIDE);
    }
    static __device__ int groups(const Shape &shape) {
        return (shape.channels + GROUP - 1) / GROUP;
    }
    static __device__ long long count(const Shape &shape) {
        return (long long)shape.boxes * of_box(shape) * groups(shape);
    }

    // Return the number of a block where all blocks of a box follow each other.
    static __device__ long long place(long long t, const Shape &shape) {
        long long number = split(t, of_box(shape)), k = split(t, shape.boxes);
        return (k * groups(shape) + t) * of_box(shape) + number;
    }

    // Blocks of a box have nearly equal sizes.  All boxes are computed from some channels, and then
    // from the next ones, so that these planes stay in the level 2 cache.
    __device__ Block(long long t, const Maps<T> &maps, const Tables<T> &tables) {
        const Shape &shape = tables.shape;
        first_p = first_q = 0, tall = shape.ph, wide = shape.pw;
        if (of_box(shape) > 1) {
            int down = (shape.ph + SIDE - 1) / SIDE, across = (shape.pw + SIDE - 1) / SIDE;
            int most_tall = (shape.ph + down - 1) / down,
                most_wide = (shape.pw + across - 1) / across;
            int number = (int)split(t, down * across);
            first_p = number / across * most_tall, first_q = number % across * most_wide;
            tall = shape.ph - first_p < most_tall ? shape.ph - first_p : most_tall;
            wide = shape.pw - first_q < most_wide ? shape.pw - first_q : most_wide;
        }
        k = (int)split(t, shape.boxes);
        c = (int)t * GROUP;
        mine = shape.channels - c < GROUP ? shape.channels - c : GROUP;
        image = tables.images[k];
        const Map<T> &level = maps.at[tables.level_of(k)];
        plane = level.pixels + image * level.strides.first + c * level.strides.channel;
        channel = level.strides.channel;
        pitch = (int)level.strides.y, next = (int)level.strides.x;
    }

    static __device__ int near() { return lane_number() % SIDE; } // of the neighbours of a row
    static __device__ int row() { return lane_number() / SIDE; }

    // Return the first slot of bin p of the block along y.
    __device__ long long slot_along_y(const Tables<T> &tables, int p) const {
        return tables.slot_of(k, first_p + p);
    }
    // Return the first slot of the lane's bin along x.
    __device__ long long slot_along_x(const Tables<T> &tables) const {
        return tables.slot_of(k, tables.shape.ph + first_q + near());
    }

    // Find which columns of pixels the bins read.
    template <bool MAXIMUM> __device__ void find_columns(const Tables<T> &tables) {
        const Tap<T> *taps = tables.taps + slot_along_x(tables);
        columns = near() < wide ? tables.counts_of(k)[tables.shape.ph + first_q + near()] : 0;
        low = columns ? taps[0].pixel : tables.shape.columns;
        high = columns ? tap_of<MAXIMUM>(taps, columns - 1).pixel + 1 : 0;
        join_spans(low, high, SIDE);
    }

    // Store how many taps each bin along y has, and the first of them: tap(p, i) returns tap i.
    template <typename Row, typename Read>
    __device__ void store_rows(const Tables<T> &tables, Row (&rows)[SIDE][SIDE], int (&many)[SIDE],
                               Read tap) const {
        for (int p = row(); p < SIDE; p += ROWS) {
            int count = p < tall ? tables.counts_of(k)[first_p + p] : 0;
            if (near() == 0)
                many[p] = count;
            if (near() < count)
                rows[p][near()] = tap(p, near());
        }
        __syncwarp();
    }

    // Let `warp` add all rows of bin p, of which SIDE are stored.  STEP rows are added at once, so
    // that their loads are in flight together.
    template <int STEP, typename Warp, typename Values, int E>
    static __device__ void add_bin(const Warp &warp, int p, const T *const (&columns)[E],
                                   Values &values) {
        const auto *rows = warp.own.rows[p];
        int many = warp.own.many[p], i = 0;
        if (many == 3)
            return warp.template add_rows<3>(p, 0, rows, columns, values);
        if (many == 2)
            return warp.template add_rows<2>(p, 0, rows, columns, values);
        if (many == 1)
            return warp.template add_rows<1>(p, 0, rows, columns, values);
#pragma unroll 1
        for (; i + STEP <= many && i + STEP <= SIDE; i += STEP)
            warp.template add_rows<STEP>(p, i, rows + i, columns, values);
#pragma unroll 1
        for (; i < many; i++) {
            auto row = i < SIDE ? rows[i] : warp.row_of(p, i);
            warp.template add_rows<1>(p, i, &row, columns, values);
        }
    }

    // Find the lane's channels.  A lane without a channel of its own reads another channel, which
    // does not count.
    template <int E> __device__ void find_planes(const T *(&planes)[E]) const {
        planes[0] = known_as_it_is(plane + (row() < mine ? row() : 0) * channel);
#pragma unroll
        for (int e = 1; e < E; e++)
            planes[e] =
                known_as_it_is(planes[e - 1] + (row() + e * ROWS < mine ? ROWS * channel : 0));
    }

    // Find a column of pixels of the lane's channels.
    template <int E>
    __device__ void find_column(const T *const (&planes)[E], int column,
                                const T *(&columns)[E]) const {
        UNROLL(e, E)
            columns[e] = known_as_it_is(planes[e] + column * next);
    }

    // Load pixels of some rows of a column.  All loads are in flight at once.
    template <int COUNT, int E, typename Row>
    static __device__ void load(const Row *rows, const T *const (&columns)[E],
                                T (&pixels)[COUNT][E]) {
        UNROLL(i, COUNT)
            UNROLL(e, E)
                pixels[i][e] = __ldg(columns[e] + rows[i].pixel);
    }
};
