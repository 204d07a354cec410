// These kernels pool from planes of pixels (NCHW).  On the CPU, forward.pyx and max_pool.pyx of
// pyx/kernels do this.

// A warp computes a block of bins for a group of channels.  Along y, a lane is a column of pixels
// of some channels, and what it finds goes to strips.  Along x, a lane is a column of bins of these
// channels.  If NUMBERS, the number of the largest pixel is found, too.
template <typename T, template <typename> class Reduction, bool NUMBERS> struct Planes {
    using Rule = Reduction<T>;
    static constexpr int PARTS = OF_VECTOR<T>, WIDTH = 16;
    static constexpr int EACH = PARTS / (NUMBERS ? 2 : 1); // channels of a lane at most
    using Bins = Block<T, EACH * 4>;
    static constexpr int SIDE = Bins::SIDE, ROWS = Bins::ROWS, GROUP = ROWS * EACH;
    struct alignas(4 * PARTS) Numbers {
        int of[PARTS];
    };
    struct Shared {
        // Values of PARTS bins along y, and the rows of the map in which they were found.
        Vector<T> strips[SIDE / PARTS * GROUP * WIDTH];
        Numbers numbers[NUMBERS ? SIDE / PARTS * GROUP * WIDTH : 1];
        alignas(16) Tap<T> rows[SIDE][SIDE]; // `pixel` is the offset where the row begins
        alignas(16) Tap<T> columns[SIDE][SIDE];
        int many[SIDE], first[SIDE]; // how many taps each bin along y has, and its first row
    };
    Shared &own;
    const Tables<T> &tables;
    const Strides &bins; // of the output
    Bins block;

    // Return row i of bin p.
    __device__ Tap<T> row_of(int p, int i) const {
        Tap<T> tap = tap_of<Rule::MAXIMUM>(tables.taps + block.slot_along_y(tables, p), i);
        return {tap.pixel * block.pitch, tap.weight};
    }

    // Return tap i of the lane's bin along x.
    __device__ Tap<T> column_of(int i) const {
        return tap_of<Rule::MAXIMUM>(tables.taps + block.slot_along_x(tables), i);
    }

    // Store the taps of the bins.
    __device__ void prepare() {
        block.template find_columns<Rule::MAXIMUM>(tables);
        for (int i = Bins::row(); i < SIDE && i < block.columns; i += ROWS)
            own.columns[Bins::near()][i] = column_of(i);
        block.store_rows(tables, own.rows, own.many, [&](int p, int i) { return row_of(p, i); });
        if (NUMBERS) {
            int p = lane_number();
            if (p < SIDE && own.many[p])
                own.first[p] = tables.taps[block.slot_along_y(tables, p)].pixel;
            __syncwarp();
        }
    }

    // What the rows of a bin give in a column of E channels.
    template <int E> struct Found {
        T values[E];
        int rows[E]; // where they were found
    };

    // Add pixels of COUNT rows of bin p, of which `first` is the number of the first one.
    template <int COUNT, int E>
    __device__ void add_rows(int p, int first, const Tap<T> *rows, const T *const (&columns)[E],
                             Found<E> &found) const {
        T pixels[COUNT][E];
        Bins::load(rows, columns, pixels);
        first += NUMBERS ? own.first[p] : 0;
        UNROLL(i, COUNT)
            UNROLL(e, E) {
                if (NUMBERS)
                    found.rows[e] = pixels[i][e] > found.values[e] ? first + i : found.rows[e];
                found.values[e] = Rule::add(found.values[e], rows[i].weight, pixels[i][e]);
            }
    }

    // Fill strips with what the rows of all bins give in columns `from` to `stop` - 1.
    template <int E> __device__ void along_y(const T *const (&planes)[E], int from, int stop) {
#pragma unroll 1
        for (int x = Bins::near(); from + x - Bins::near() < stop; x += SIDE) {
            const T *columns[E];
            block.find_column(planes, from + x < stop ? from + x : stop - 1, columns);
#pragma unroll 1
            for (int h = 0; h * PARTS < block.tall; h++) {
                Vector<T> found[E];
                Numbers rows[E];
                UNROLL(part, PARTS) {
                    Found<E> of_bin;
                    UNROLL(e, E)
                        of_bin.values[e] = Rule::start(), of_bin.rows[e] = 0;
                    // Numbers need registers, so that fewer loads are in flight.
                    Bins::template add_bin<NUMBERS ? 2 : 4>(*this, h * PARTS + part, columns,
                                                            of_bin);
                    UNROLL(e, E)
                        found[e].of[part] = of_bin.values[e], rows[e].of[part] = of_bin.rows[e];
                }
                UNROLL(e, E) {
                    own.strips[(h * GROUP + Bins::row() + e * ROWS) * WIDTH + x] = found[e];
                    if (NUMBERS)
                        own.numbers[(h * GROUP + Bins::row() + e * ROWS) * WIDTH + x] = rows[e];
                }
            }
        }
    }

    // Add a column of strips to the lane's bins.
    template <int E>
    __device__ void add_column(const Tap<T> &tap, int from, T (&values)[E][SIDE],
                               int (&numbers)[E][SIDE]) const {
        int at = Bins::row() * WIDTH + tap.pixel - from;
        UNROLL(h, SIDE / PARTS)
            if (h * PARTS < block.tall)
                UNROLL(e, E) {
                    Vector<T> found = own.strips[at + (h * GROUP + e * ROWS) * WIDTH];
                    Numbers rows = {};
                    if (NUMBERS)
                        rows = own.numbers[at + (h * GROUP + e * ROWS) * WIDTH];
                    UNROLL(part, PARTS) {
                        T &value = values[e][h * PARTS + part];
                        if (NUMBERS) {
                            // The first of equal pixels counts, row by row.
                            int &best = numbers[e][h * PARTS + part];
                            int number = rows.of[part] * tables.shape.columns + tap.pixel;
                            bool better = found.of[part] > value ||
                                          (found.of[part] == value && number < best);
                            best = better ? number : best;
                        }
                        value = Rule::add(value, tap.weight, found.of[part]);
                    }
                }
    }

    // Write the results of the lanes to `out`, channel by channel.
    template <typename U, int E> __device__ void write(U *out, const U (&values)[E][SIDE]) {
        int all = block.tall * block.wide;
        U *to = out + block.k * bins.first + block.c * bins.channel;
        // Whether the results of a channel are one piece of memory, and so are those of all.
        if (bins.x == 1 && bins.y == block.wide && bins.channel == all) {
            U *stage = (U *)own.strips + Bins::row() * all + Bins::near();
            UNROLL(p, SIDE)
                if (p < block.tall && Bins::near() < block.wide)
                    UNROLL(e, E)
                        stage[e * ROWS * all + p * block.wide] = values[e][p];
            __syncwarp();
            copy_piece((const U *)own.strips, block.mine * all, to);
            __syncwarp();
            return;
        }
        to += Bins::row() * bins.channel + block.first_p * bins.y +
              (block.first_q + Bins::near()) * bins.x;
#pragma unroll
        for (int e = 0; e < E; e++, to += ROWS * bins.channel) {
            U *at = to;
#pragma unroll
            for (int p = 0; p < SIDE; p++, at += bins.y)
                if (p < block.tall && Bins::near() < block.wide &&
                    Bins::row() + e * ROWS < block.mine)
                    *at = values[e][p];
        }
    }

    // Pool ROWS * E channels.
    template <int E> __device__ void pool(T *out, int *argmax) {
        T values[E][SIDE];
        int numbers[E][SIDE];
        const T *planes[E];
        block.find_planes(planes);
        UNROLL(e, E)
            UNROLL(p, SIDE)
                values[e][p] = Rule::start(), numbers[e][p] = -1;
        const Tap<T> none = {0x7fffffff, 0};
        Tap<T> tap = block.columns ? own.columns[Bins::near()][0] : none;
        int j = 0;
#pragma unroll 1
        for (int from = block.low; from < block.high; from += WIDTH) {
            int stop = block.high - from < WIDTH ? block.high : from + WIDTH;
            along_y(planes, from, stop);
            __syncwarp();
#pragma unroll 1
            while (tap.pixel < stop) {
                add_column(tap, from, values, numbers);
                j++;
                tap = none;
                if (j < block.columns)
                    tap = j < SIDE ? own.columns[Bins::near()][j] : column_of(j);
            }
            __syncwarp();
        }
        if (Rule::MAXIMUM)
            UNROLL(e, E)
                UNROLL(p, SIDE)
                    values[e][p] = own.many[p] && block.columns ? values[e][p] : (T)0;
        write(out, values);
        if (NUMBERS)
            write(argmax, numbers);
    }

    // Pool all boxes.
    static __device__ void run(const Maps<T> &maps, T *out, int *argmax, const Strides &bins,
                               const Tables<T> &tables) {
        __shared__ Shared shared[THREADS / LANES];
        for (long long t = warp_number(); t < Bins::count(tables.shape); t += warp_count()) {
            Planes warp = {shared[warp_of_block()], tables, bins, Bins(t, maps, tables)};
            if (warp.block.image == OTHER_LEVEL)
                continue;
            warp.prepare();
            if (warp.block.mine > ROWS)
                warp.template pool<EACH>(out, argmax);
            else
                warp.template pool<1>(out, argmax);
            __syncwarp();
        }
    }
};

// Compute weighted sums of pixels of planes.
template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_POOLING<T>)
    forward_planes(const __grid_constant__ Maps<T> maps, T *out, Strides bins,
                   const __grid_constant__ Tables<T> tables) {
    Planes<T, WeightedSum, false>::run(maps, out, (int *)0, bins, tables);
}

// Write the largest pixels of bins of planes.
template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_POOLING<T>)
    largest_planes(const __grid_constant__ Maps<T> maps, T *out, Strides bins,
                   const __grid_constant__ Tables<T> tables) {
    Planes<T, LargestPixel, false>::run(maps, out, (int *)0, bins, tables);
}

// Write the largest pixels of bins of planes, and their numbers in the planes.
template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_POOLING<T>)
    numbered_planes(const __grid_constant__ Maps<T> maps, T *out, int *argmax, Strides bins,
                    const __grid_constant__ Tables<T> tables) {
    Planes<T, LargestPixel, true>::run(maps, out, argmax, bins, tables);
}
