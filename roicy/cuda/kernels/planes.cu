// These kernels pool from planes of pixels (NCHW).  On the CPU, forward.pyx and max_pool.pyx of
// pyx/kernels do this.

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

// At most 8 x 8 bins of a box and GROUP channels, which a warp takes at a time.  8 lanes are
// neighbouring columns of bins or of pixels, and there are 4 such rows of lanes, which take
// different channels.
template <typename T, int GROUP> struct Block {
    static constexpr int SIDE = 8;
    int k;
    int first_p, first_q, tall, wide;
    int c, mine;       // the first channel, and how many there are
    int pitch, next;   // the strides of y and x
    const T *plane;    // of the first channel
    long long channel; // from one channel to the next

    static __device__ long long count(const Shape &shape) {
        int of_box = (shape.ph + SIDE - 1) / SIDE * ((shape.pw + SIDE - 1) / SIDE);
        return (long long)shape.boxes * of_box * ((shape.channels + GROUP - 1) / GROUP);
    }

    // Blocks of a box have nearly equal sizes.  All boxes are computed from some channels, and then
    // from the next ones, so that these planes stay in the level 2 cache.
    __device__ Block(long long t, const Maps<T> &maps, const Tables<T> &tables) {
        const Shape &shape = tables.shape;
        int down = (shape.ph + SIDE - 1) / SIDE, across = (shape.pw + SIDE - 1) / SIDE;
        int most_tall = (shape.ph + down - 1) / down, most_wide = (shape.pw + across - 1) / across;
        int number = (int)split(t, down * across);
        first_p = number / across * most_tall, first_q = number % across * most_wide;
        tall = shape.ph - first_p < most_tall ? shape.ph - first_p : most_tall;
        wide = shape.pw - first_q < most_wide ? shape.pw - first_q : most_wide;
        k = (int)split(t, shape.boxes);
        c = (int)t * GROUP;
        mine = shape.channels - c < GROUP ? shape.channels - c : GROUP;
        const Map<T> &level = maps.of(tables, k);
        plane = plane_of(level, tables, k, c);
        channel = level.strides.channel;
        pitch = (int)level.strides.y, next = (int)level.strides.x;
    }
};

// A warp computes a block of bins.  Along y, a lane is a column of pixels of some channels, and
// what it finds goes to strips.  Along x, a lane is a column of bins of these channels.
template <typename T, template <typename> class Reduction> struct Planes {
    using Rule = Reduction<T>;
    static constexpr int EACH = OF_VECTOR<T>; // channels of a lane at most
    static constexpr int SIDE = 8, ROWS = LANES / SIDE, GROUP = ROWS * EACH, WIDTH = 16;
    static constexpr int PARTS = OF_VECTOR<T>; // bins along y in a vector
    static constexpr int STEP = 4;             // rows that are added at once
    struct Shared {
        // Values of PARTS bins along y, in each column of pixels.
        Vector<T> strips[SIDE / PARTS * GROUP * WIDTH];
        alignas(16) Tap<T> rows[SIDE][SIDE]; // `pixel` is the offset where the row begins
        alignas(16) Tap<T> columns[SIDE][SIDE];
        int many[SIDE]; // how many taps each bin along y has
    };
    Shared &own;
    const Tables<T> &tables;
    const Strides &bins; // of the output
    Block<T, GROUP> block;
    int columns;   // taps of the lane's bin along x
    int low, high; // the bins read columns low to high - 1

    static __device__ int near() { return lane_number() % SIDE; } // of the neighbours of a row
    static __device__ int row() { return lane_number() / SIDE; }

    // Return row i of bin p.
    __device__ Tap<T> row_of(int p, int i) const {
        const Tap<T> *taps = tables.taps + tables.slot_of(block.k, block.first_p + p);
        Tap<T> tap = tap_of<Rule::MAXIMUM>(taps, i);
        return {tap.pixel * block.pitch, tap.weight};
    }

    // Return tap i of the lane's bin along x.
    __device__ Tap<T> column_of(int i) const {
        int bin = tables.shape.ph + block.first_q + near();
        return tap_of<Rule::MAXIMUM>(tables.taps + tables.slot_of(block.k, bin), i);
    }

    // Store the taps of the bins, and find which columns of pixels they read.
    __device__ void prepare() {
        const int *counts = tables.counts_of(block.k);
        columns = near() < block.wide ? counts[tables.shape.ph + block.first_q + near()] : 0;
        low = columns ? column_of(0).pixel : tables.shape.columns;
        high = columns ? column_of(columns - 1).pixel + 1 : 0;
        join_spans(low, high, SIDE);
        for (int i = row(); i < SIDE && i < columns; i += ROWS)
            own.columns[near()][i] = column_of(i);
        for (int p = row(); p < SIDE; p += ROWS) {
            int count = p < block.tall ? counts[block.first_p + p] : 0;
            if (near() == 0)
                own.many[p] = count;
            if (near() < count)
                own.rows[p][near()] = row_of(p, near());
        }
        __syncwarp();
    }

    // Add pixels of COUNT rows of E columns.  All loads are in flight at once.
    template <int COUNT, int E>
    static __device__ void add_rows(const Tap<T> *rows, const T *const (&columns)[E],
                                    T (&values)[E]) {
        T pixels[COUNT][E];
        UNROLL(i, COUNT)
            UNROLL(e, E)
                pixels[i][e] = __ldg(columns[e] + rows[i].pixel);
        UNROLL(i, COUNT)
            UNROLL(e, E)
                values[e] = Rule::add(values[e], rows[i].weight, pixels[i][e]);
    }

    // Add all rows of bin p, of which SIDE are stored.
    template <int E>
    __device__ void add_bin(int p, const T *const (&columns)[E], T (&values)[E]) const {
        const Tap<T> *rows = own.rows[p];
        int many = own.many[p], i = 0;
        if (many == 3)
            return add_rows<3>(rows, columns, values);
        if (many == 2)
            return add_rows<2>(rows, columns, values);
        if (many == 1)
            return add_rows<1>(rows, columns, values);
#pragma unroll 1
        for (; i + STEP <= many && i + STEP <= SIDE; i += STEP)
            add_rows<STEP>(rows + i, columns, values);
#pragma unroll 1
        for (; i < many; i++) {
            Tap<T> tap = i < SIDE ? rows[i] : row_of(p, i);
            add_rows<1>(&tap, columns, values);
        }
    }

    // Fill strips with what the rows of all bins give in columns `from` to `stop` - 1.
    template <int E> __device__ void along_y(const T *const (&planes)[E], int from, int stop) {
#pragma unroll 1
        for (int x = near(); from + x - near() < stop; x += SIDE) {
            const T *columns[E];
            int column = from + x < stop ? from + x : stop - 1;
            UNROLL(e, E)
                columns[e] = known_as_it_is(planes[e] + column * block.next);
#pragma unroll 1
            for (int h = 0; h * PARTS < block.tall; h++) {
                Vector<T> found[E];
                UNROLL(part, PARTS) {
                    T values[E];
                    UNROLL(e, E)
                        values[e] = Rule::start();
                    add_bin(h * PARTS + part, columns, values);
                    UNROLL(e, E)
                        found[e].of[part] = values[e];
                }
                UNROLL(e, E)
                    own.strips[(h * GROUP + row() + e * ROWS) * WIDTH + x] = found[e];
            }
        }
    }

    // Add a column of strips to the lane's bins.
    template <int E>
    __device__ void add_column(const Tap<T> &tap, int from, T (&values)[E][SIDE]) const {
        int at = row() * WIDTH + tap.pixel - from;
        UNROLL(h, SIDE / PARTS)
            if (h * PARTS < block.tall)
                UNROLL(e, E) {
                    Vector<T> found = own.strips[at + (h * GROUP + e * ROWS) * WIDTH];
                    UNROLL(part, PARTS) {
                        T &value = values[e][h * PARTS + part];
                        value = Rule::add(value, tap.weight, found.of[part]);
                    }
                }
    }

    // Write the results of the lanes to `out`, channel by channel.
    template <int E> __device__ void write(T *out, const T (&values)[E][SIDE]) {
        int all = block.tall * block.wide;
        T *to = out + block.k * bins.first + block.c * bins.channel;
        // Whether the results of a channel are one piece of memory, and the results of all are,
        // too.
        if (bins.x == 1 && bins.y == block.wide && bins.channel == all) {
            T *stage = (T *)own.strips + row() * all + near();
            UNROLL(p, SIDE)
                if (p < block.tall && near() < block.wide)
                    UNROLL(e, E)
                        stage[e * ROWS * all + p * block.wide] = values[e][p];
            __syncwarp();
            copy_piece((const T *)own.strips, block.mine * all, to);
            return;
        }
        to += row() * bins.channel + block.first_p * bins.y + (block.first_q + near()) * bins.x;
#pragma unroll
        for (int e = 0; e < E; e++, to += ROWS * bins.channel) {
            T *at = to;
#pragma unroll
            for (int p = 0; p < SIDE; p++, at += bins.y)
                if (p < block.tall && near() < block.wide && row() + e * ROWS < block.mine)
                    *at = values[e][p];
        }
    }

    // Pool ROWS * E channels.  A lane without a channel of its own reads another channel, which
    // does not count.
    template <int E> __device__ void pool(T *out) {
        T values[E][SIDE];
        const T *planes[E];
        planes[0] = known_as_it_is(block.plane + (row() < block.mine ? row() : 0) * block.channel);
#pragma unroll
        for (int e = 1; e < E; e++)
            planes[e] = known_as_it_is(planes[e - 1] +
                                       (row() + e * ROWS < block.mine ? ROWS * block.channel : 0));
        UNROLL(e, E)
            UNROLL(p, SIDE)
                values[e][p] = Rule::start();
        const Tap<T> none = {0x7fffffff, 0};
        Tap<T> tap = columns ? own.columns[near()][0] : none;
        int j = 0;
#pragma unroll 1
        for (int from = low; from < high; from += WIDTH) {
            int stop = high - from < WIDTH ? high : from + WIDTH;
            along_y(planes, from, stop);
            __syncwarp();
#pragma unroll 1
            while (tap.pixel < stop) {
                add_column(tap, from, values);
                j++;
                tap = none;
                if (j < columns)
                    tap = j < SIDE ? own.columns[near()][j] : column_of(j);
            }
            __syncwarp();
        }
        if (Rule::MAXIMUM)
            UNROLL(e, E)
                UNROLL(p, SIDE)
                    values[e][p] = own.many[p] && columns ? values[e][p] : (T)0;
        write(out, values);
    }

    // Pool all boxes.
    static __device__ void run(const Maps<T> &maps, T *out, const Strides &bins,
                               const Tables<T> &tables) {
        __shared__ Shared shared[THREADS / LANES];
        using Bins = Block<T, GROUP>;
        for (long long t = warp_number(); t < Bins::count(tables.shape); t += warp_count()) {
            Planes warp = {shared[warp_of_block()], tables, bins, Bins(t, maps, tables)};
            warp.prepare();
            if (warp.block.mine > ROWS)
                warp.template pool<EACH>(out);
            else
                warp.template pool<1>(out);
            __syncwarp();
        }
    }
};

// How many blocks of threads a multiprocessor should hold.  Before Hopper threads that pool need
// more registers than four blocks have.
#ifdef __CUDA_ARCH__
constexpr int ARCHITECTURE = __CUDA_ARCH__;
#else
constexpr int ARCHITECTURE = 900;
#endif
template <typename T>
constexpr int BLOCKS_OF_POOLING = sizeof(T) == 4 && ARCHITECTURE >= 900 ? 4 : 3;

// Compute weighted sums of pixels of planes.
template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_POOLING<T>)
    forward_planes(const __grid_constant__ Maps<T> maps, T *out, Strides bins,
                   const __grid_constant__ Tables<T> tables) {
    Planes<T, WeightedSum>::run(maps, out, bins, tables);
}

// Write the largest pixels of bins of planes.
template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_POOLING<T>)
    largest_planes(const __grid_constant__ Maps<T> maps, T *out, Strides bins,
                   const __grid_constant__ Tables<T> tables) {
    Planes<T, LargestPixel>::run(maps, out, bins, tables);
}
