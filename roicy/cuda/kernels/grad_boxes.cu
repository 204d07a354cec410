// These kernels compute gradients of the boxes from those of weighted sums.  On the CPU,
// grad_boxes.pyx of pyx/kernels does this.  They write partial sums, which add_partial_sums adds
// up.

// The taps of a bin of one axis, and the slopes of their weights: the derivatives with respect to
// the low and to the high edge of the box.
template <typename T> struct Slopes {
    const Tap<T> *taps;
    const T *low, *high;
    int count;

    __device__ Slopes(const Tables<T> &tables, long long k, int bin) {
        long long slot = tables.slot_of(k, bin);
        taps = tables.taps + slot;
        low = tables.slope_low + slot, high = tables.slope_high + slot;
        count = tables.counts_of(k)[bin];
    }
};

// Write the derivatives of a bin with respect to x1, y1, x2, y2 to `sums`, for EACH channels that
// lie `next` elements apart.  Only the first `mine` of these channels exist.
template <int EACH, typename T>
__device__ inline void slopes_of_bin(const T *pixels, const Strides &map, long long next, int mine,
                                     const Slopes<T> &y, const Slopes<T> &x, T (&sums)[EACH][4]) {
    UNROLL(e, EACH)
        sums[e][0] = sums[e][1] = sums[e][2] = sums[e][3] = 0;
    for (int i = 0; i < y.count; i++) {
        Tap<T> of_row = y.taps[i];
        T row_low = y.low[i], row_high = y.high[i], value[EACH], low[EACH], high[EACH];
        const T *row = known_as_it_is(pixels + of_row.pixel * map.y);
        UNROLL(e, EACH)
            value[e] = low[e] = high[e] = 0;
        for (int j = 0; j < x.count; j++) {
            Tap<T> of_column = x.taps[j];
            T column_low = x.low[j], column_high = x.high[j];
            const T *at = known_as_it_is(row + of_column.pixel * map.x);
            UNROLL(e, EACH)
                if (e < mine) {
                    T pixel = __ldg(at + e * next);
                    value[e] = fma(of_column.weight, pixel, value[e]);
                    low[e] = fma(column_low, pixel, low[e]);
                    high[e] = fma(column_high, pixel, high[e]);
                }
        }
        UNROLL(e, EACH) {
            sums[e][0] = fma(of_row.weight, low[e], sums[e][0]);
            sums[e][1] = fma(row_low, value[e], sums[e][1]);
            sums[e][2] = fma(of_row.weight, high[e], sums[e][2]);
            sums[e][3] = fma(row_high, value[e], sums[e][3]);
        }
    }
}

// Write partial_sums (boxes, blocks of channels, bins, 4) of the gradients with respect to x1, y1,
// x2, y2, for whatever backward_boxes_of_planes does not take.  A thread computes a bin, 4 channels
// at a time.  If channels are last, a warp computes a bin, and its lanes are channels.
template <typename T>
__global__ void __launch_bounds__(THREADS)
    backward_boxes(const T *grad_output, Strides bins, const __grid_constant__ Maps<T> maps,
                   const __grid_constant__ Tables<T> tables, double *partial_sums) {
    constexpr int EACH = 4;
    const Shape &shape = tables.shape;
    int all = shape.channels_last ? CHANNELS_OF_WARP : CHANNELS_OF_THREAD; // of a partial sum
    int blocks = (shape.channels + all - 1) / all;
    int sharing = shape.channels_last ? LANES : 1; // threads that compute one partial sum
    int lane = shape.channels_last ? lane_number() : 0;
    for (long long t = thread_number() / sharing;
         t < (long long)shape.boxes * blocks * shape.ph * shape.pw; t += thread_count() / sharing) {
        long long k = t;
        int q = (int)split(k, shape.pw), p = (int)split(k, shape.ph);
        int first = (int)split(k, blocks) * all;
        int last = first + all < shape.channels ? first + all : shape.channels;
        Slopes<T> y(tables, k, p), x(tables, k, shape.ph + q);
        const Map<T> &level = maps.at[tables.level_of(k)];
        const Strides &map = level.strides;
        const T *pixels = level.pixels + tables.images[k] * map.first +
                          input_channel(shape, first + lane, p, q) * map.channel;
        // From one channel of a thread to the next.
        long long step = sharing * map.channel;
        if (shape.position_sensitive)
            step *= (long long)shape.ph * shape.pw;
        const T *grads = grad_output + offset_of({k, first + lane, p, q}, bins);
        double total[4] = {0, 0, 0, 0};
        for (int c = first + lane; c < last && y.count && x.count; c += EACH * sharing) {
            T sums[EACH][4];
            int mine = (last - c + sharing - 1) / sharing;
            slopes_of_bin<EACH>(pixels, map, step, mine, y, x, sums);
            UNROLL(e, EACH)
                if (e < mine) {
                    T grad = grads[e * sharing * bins.channel];
                    UNROLL(edge, 4)
                        total[edge] += (double)(grad * sums[e][edge]);
                }
            pixels += EACH * step;
            grads += EACH * sharing * bins.channel;
        }
        UNROLL(edge, 4) {
            for (int other = 1; sharing > 1 && other < LANES; other *= 2)
                total[edge] += __shfl_xor_sync(ALL, total[edge], other);
            if (lane == 0)
                partial_sums[t * 4 + edge] = total[edge];
        }
    }
}

// A tap, and the slopes of its weight.
template <typename T> struct alignas(16) TapWithSlopes {
    int pixel;
    T weight, low, high;
};

// The gradients of the boxes from planes of pixels (NCHW).  A warp takes a block of bins for a
// group of channels, and a lane is a column of pixels of E channels.  For each row of bins, a lane
// computes two kinds of sums.  Along x, it multiplies the gradients of the bins that read its
// column by their weights and slopes.  Along y, it multiplies the pixels of the column by theirs.
// Products of these sums are what the column adds to the gradients, so no bin is put together.
template <typename T> struct BoxesOfPlanes {
    static constexpr int EACH = OF_VECTOR<T>;
    using Bins = Block<T, GROUP_BYTES / sizeof(T)>;
    static constexpr int SIDE = Bins::SIDE, ROWS = Bins::ROWS;
    static_assert(ROWS * EACH * sizeof(T) == GROUP_BYTES);
    using Sloped = TapWithSlopes<T>;
    struct Shared {
        // Rows are one element longer than needed, so that lanes read different banks.
        Vector<T> grads[SIDE][SIDE * ROWS + 1]; // by column of bins; EACH channels
        Sloped columns[SIDE][SIDE + 1];         // by column of pixels and column of bins
        Sloped rows[SIDE][SIDE];                // `pixel` is the offset where the row begins
        int many[SIDE];                         // how many taps each bin along y has
    };
    Shared &own;
    const Tables<T> &tables;
    Bins block;
    double total[4]; // the gradients

    // Sums of products with weights, and with slopes with respect to the low and the high edge.
    template <int E> struct Sums {
        T weight[E], low[E], high[E];

        __device__ void add(const Sloped &tap, const T *values) {
            UNROLL(e, E) {
                weight[e] = fma(tap.weight, values[e], weight[e]);
                low[e] = fma(tap.low, values[e], low[e]);
                high[e] = fma(tap.high, values[e], high[e]);
            }
        }
    };

    // Return the tap of a slot.
    __device__ Sloped tap_at(long long slot) const {
        Tap<T> tap = tables.taps[slot];
        return {tap.pixel, tap.weight, tables.slope_low[slot], tables.slope_high[slot]};
    }

    // Return row i of bin p.
    __device__ Sloped row_of(int p, int i) const {
        Sloped tap = tap_at(block.slot_along_y(tables, p) + i);
        tap.pixel *= block.pitch;
        return tap;
    }

    // Store the taps along y, and the gradients of the bins.  Channels that do not exist get 0.
    __device__ void prepare(const T *grad_output, const Strides &bins) {
        block.template find_columns<false>(tables);
        block.store_rows(tables, own.rows, own.many, [&](int p, int i) { return row_of(p, i); });
        const T *from = grad_output + block.k * bins.first +
                        (block.c + Bins::row()) * bins.channel + block.first_p * bins.y +
                        (block.first_q + Bins::near()) * bins.x;
        if (Bins::near() < block.wide)
#pragma unroll
            for (int p = 0; p < SIDE; p++, from += bins.y)
                if (p < block.tall) {
                    Vector<T> grads;
                    UNROLL(e, EACH)
                        grads.of[e] = Bins::row() + e * ROWS < block.mine
                                          ? from[e * ROWS * bins.channel]
                                          : (T)0;
                    own.grads[Bins::near()][p * ROWS + Bins::row()] = grads;
                }
        __syncwarp();
    }

    // Store the taps of columns `from` to `stop` - 1 of pixels.  Return a bit for each bin that
    // reads the lane's column.  j is the lane's next tap along x: four lanes share those of a bin.
    __device__ unsigned prepare_columns(int from, int stop, int &j) {
        unsigned reads = 0, bins = 0;
        for (; j < block.columns; j += ROWS) {
            Sloped tap = tap_at(block.slot_along_x(tables) + j);
            if (tap.pixel >= stop)
                break;
            own.columns[tap.pixel - from][Bins::near()] = tap;
            reads |= 1u << (tap.pixel - from);
        }
        UNROLL(x, SIDE) {
            unsigned lanes = __ballot_sync(ALL, reads >> x & 1);
            bins = x == Bins::near() ? lanes : bins;
        }
        bins |= bins >> 16;
        bins |= bins >> 8;
        __syncwarp();
        return bins & 0xff;
    }

    // The bins that read the lane's column: one or two as a rule, and their taps.
    struct Readers {
        bool two;
        int first, second;
        unsigned more; // a bit for each other bin
        Sloped of_first, of_second;
    };
    __device__ Readers find_readers(unsigned bins) const {
        Readers found;
        found.two = bins & (bins - 1), found.more = bins;
        found.first = bins ? next_of(found.more) : 0;
        found.second = found.two ? next_of(found.more) : 0;
        found.of_first = own.columns[Bins::near()][found.first];
        found.of_second = own.columns[Bins::near()][found.second];
        return found;
    }

    // Return the sums along x of row p of bins.
    template <int E> __device__ Sums<E> sum_along(int p, const Readers &bins) const {
        Sums<E> along = {};
        int row = p * ROWS + Bins::row();
        // Where no bin reads the column, what is added here does not count.
        along.add(bins.of_first, own.grads[bins.first][row].of);
        if (bins.two)
            along.add(bins.of_second, own.grads[bins.second][row].of);
#pragma unroll 1
        for (unsigned more = bins.more; more;) {
            int q = next_of(more);
            along.add(own.columns[Bins::near()][q], own.grads[q][row].of);
        }
        return along;
    }

    // Add pixels of COUNT rows of a bin.
    template <int COUNT, int E>
    __device__ void add_rows(int, int, const Sloped *rows, const T *const (&columns)[E],
                             Sums<E> &down) const {
        T pixels[COUNT][E];
        Bins::load(rows, columns, pixels);
        UNROLL(i, COUNT)
            down.add(rows[i], pixels[i]);
    }

    // Add the gradients from a column of pixels of E channels to `total`.
    template <int E> __device__ void add_columns(const T *const (&columns)[E], unsigned bins) {
        const Readers readers = find_readers(bins);
        T sums[4][E] = {};
#pragma unroll 1
        for (int p = 0; p < block.tall; p++) {
            if (own.many[p] == 0)
                continue;
            Sums<E> along = sum_along<E>(p, readers);
            Sums<E> down = {}; // the sums along y
            Bins::template add_bin<4>(*this, p, columns, down);
            UNROLL(e, E) {
                sums[0][e] = fma(along.low[e], down.weight[e], sums[0][e]);
                sums[1][e] = fma(along.weight[e], down.low[e], sums[1][e]);
                sums[2][e] = fma(along.high[e], down.weight[e], sums[2][e]);
                sums[3][e] = fma(along.weight[e], down.high[e], sums[3][e]);
            }
        }
        UNROLL(e, E)
            if (bins && Bins::row() + e * ROWS < block.mine)
                UNROLL(edge, 4)
                    total[edge] += (double)sums[edge][e];
    }

    // Add the gradients from ROWS * E channels to `total`.
    template <int E> __device__ void add_channels() {
        const T *planes[E];
        block.find_planes(planes);
        int j = Bins::row();
#pragma unroll 1
        for (int from = block.low; from < block.high; from += SIDE) {
            int stop = block.high - from < SIDE ? block.high : from + SIDE;
            unsigned bins = prepare_columns(from, stop, j);
            const T *columns[E];
            block.find_column(planes, from + Bins::near() < stop ? from + Bins::near() : stop - 1,
                              columns);
            add_columns(columns, bins);
            __syncwarp();
        }
    }

    // Write the sums over all lanes to `to`.
    __device__ void write(double *to) const {
        int lane = lane_number();
        bool upper = lane & 2, odd = lane & 1;
        // Each step halves how many sums a lane holds, until it has that of edge lane % 4.
        double two[2];
        UNROLL(i, 2) {
            double other = __shfl_xor_sync(ALL, upper ? total[i] : total[2 + i], 2);
            two[i] = (upper ? total[2 + i] : total[i]) + other;
        }
        double sum = __shfl_xor_sync(ALL, odd ? two[0] : two[1], 1);
        sum += odd ? two[1] : two[0];
        for (int step = 4; step < LANES; step *= 2)
            sum += __shfl_xor_sync(ALL, sum, step);
        if (lane < 4)
            to[lane] = sum;
    }
};

// Write partial_sums (boxes, groups of channels, blocks of bins, 4) of the gradients with respect
// to x1, y1, x2, y2 from planes of pixels.
template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_BOXES<T>)
    backward_boxes_of_planes(const T *grad_output, Strides bins,
                             const __grid_constant__ Maps<T> maps,
                             const __grid_constant__ Tables<T> tables, double *partial_sums) {
    using Boxes = BoxesOfPlanes<T>;
    using Bins = typename Boxes::Bins;
    __shared__ typename Boxes::Shared shared[THREADS / LANES];
    const Shape &shape = tables.shape;
    for (long long t = warp_number(); t < Bins::count(shape); t += warp_count()) {
        Boxes warp = {shared[warp_of_block()], tables, Bins(t, maps, tables), {0, 0, 0, 0}};
        const Bins &block = warp.block;
        if (block.image == OTHER_LEVEL)
            continue;
        warp.prepare(grad_output, bins);
        if (block.mine > Boxes::ROWS)
            warp.template add_channels<Boxes::EACH>();
        else
            warp.template add_channels<1>();
        warp.write(partial_sums + 4 * Bins::place(t, shape));
        __syncwarp();
    }
}

// Add up partial_sums (boxes, each, numbers), and write the sums to the last columns of grad_boxes
// (boxes, columns), which belong to the numbers of a box.  The column before them, if there is one,
// becomes 0.  A warp takes a box at a time.
template <typename T>
__global__ void add_partial_sums(const double *partial_sums, long long each, int numbers,
                                 const __grid_constant__ Tables<T> tables, T *grad_boxes,
                                 int columns) {
    int lane = lane_number();
    for (long long k = warp_number(); k < tables.shape.boxes; k += warp_count()) {
        if (tables.images[k] == OTHER_LEVEL)
            continue;
        const double *sums = partial_sums + k * each * numbers;
        T *to = grad_boxes + k * columns;
        for (int first = 0; first < numbers; first += 4) {
            int number = first + lane % 4; // lanes of one number are 4 apart
            double sum = 0;
            for (long long i = lane / 4; i < each && number < numbers; i += LANES / 4)
                sum += sums[i * numbers + number];
            for (int step = 4; step < LANES; step *= 2)
                sum += __shfl_xor_sync(ALL, sum, step);
            if (lane < 4 && number < numbers)
                to[columns - numbers + number] = (T)sum;
        }
        if (lane == 0 && columns > numbers)
            to[0] = 0;
    }
}
