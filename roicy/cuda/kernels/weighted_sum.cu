// These kernels compute weighted sums of the pixels of a bin, and their gradients.  On the CPU,
// forward.pyx, grad_input.pyx and grad_boxes.pyx of pyx/kernels do this.

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

// The bins of a box in blocks of nearly equal sizes, of at most SIDE x SIDE bins.
template <int SIDE> struct BlocksOfBins {
    int down, across, count, tall, wide; // tall and wide are the sizes of a block

    __device__ BlocksOfBins(const Shape &shape)
        : down((shape.ph + SIDE - 1) / SIDE), across((shape.pw + SIDE - 1) / SIDE),
          count(down * across), tall(shape.ph), wide(shape.pw) {
        if (count > 1)
            tall = (shape.ph + down - 1) / down, wide = (shape.pw + across - 1) / across;
    }
};

// Pooling from planes of pixels (NCHW).  A warp computes 8 x 8 bins of a box for a group of
// channels.  Along y, 8 lanes are neighbouring columns of pixels of a channel, a lane takes EACH
// channels, and what they find goes to strips.  Along x, a lane is a column of bins of these
// channels.  If NUMBERS, the number of the largest pixel is found, too.
template <typename T, template <typename> class Reduction, bool NUMBERS> struct Planes {
    static constexpr int SIDE = 8, ROWS = LANES / SIDE, WIDTH = 16, PARTS = OF_VECTOR<T>;
    static constexpr int EACH = OF_VECTOR<T> / (NUMBERS ? 2 : 1), GROUP = ROWS * EACH;
    using Rule = Reduction<T>;
    struct alignas(4 * PARTS) Numbers {
        int of[PARTS];
    };
    struct Shared {
        // Values of PARTS bins along y, and the rows of the bin in which they were found.
        Vector<T> strips[SIDE / PARTS * GROUP * WIDTH];
        Numbers numbers[NUMBERS ? SIDE / PARTS * GROUP * WIDTH : 1];
        alignas(16) Tap<T> rows[SIDE][SIDE]; // `pixel` is the offset where the row begins
        alignas(16) Tap<T> columns[SIDE][SIDE];
        int many[SIDE], first[SIDE]; // how many taps each bin along y has, and its first row
    };
    // A call, and what a warp does now: 8 x 8 bins of box k.
    struct Call {
        const Maps<T> &maps;
        const Strides &bins;
        const Shape &shape;
        const Room &room;
        const Tap<T> *taps;
        long long k;
        int image, pitch, next; // pitch and next are the strides of y and x
        int first_p, first_q, tall, wide;
        int low, high;     // the bins read columns low to high - 1
        int columns;       // taps of the lane's bin along x
        const T *input;    // the image of the box
        long long channel; // from one channel of it to the next
        bool together; // the results of a channel are one piece of memory, and so are those of all
    };

    // Return tap i of a bin of one axis.
    static __device__ Tap<T> tap_of(const Tap<T> *bin, int i) {
        if constexpr (Rule::MAXIMUM)
            return {bin[0].pixel + i, 0}; // a quantised bin has one tap, which is its first pixel
        else
            return bin[i];
    }

    // Return the taps of a bin of box k.  Bins along x are counted after the bins along y.
    static __device__ const Tap<T> *bin_of(const Call &call, int bin) {
        return call.taps + slot_of(call.room, call.shape, call.k, bin);
    }

    // Prepare the taps of the bins.
    static __device__ void prepare(Shared &own, Call &call, const int *count) {
        int lane = lane_number(), near = lane % SIDE, q = call.first_q + near;
        const Tap<T> *of_columns = bin_of(call, call.shape.ph + (near < call.wide ? q : 0));
        const Tap<T> *of_rows = bin_of(call, call.first_p);
        call.columns = near < call.wide && call.image >= 0 ? count[call.shape.ph + q] : 0;
        for (int i = lane / SIDE; i < SIDE && i < call.columns; i += ROWS)
            own.columns[near][i] = tap_of(of_columns, i);
        int low = call.columns ? of_columns[0].pixel : call.shape.columns;
        int high = call.columns ? tap_of(of_columns, call.columns - 1).pixel + 1 : 0;
        join_spans(low, high, SIDE);
        call.low = low, call.high = high;
        for (int p = lane / SIDE; p < SIDE; p += ROWS) {
            const Tap<T> *bin = of_rows + (long long)p * call.room.y;
            int many = p < call.tall && call.image >= 0 ? count[call.first_p + p] : 0;
            if (near == 0) {
                own.many[p] = many;
                if (NUMBERS)
                    own.first[p] = many ? bin[0].pixel : 0;
            }
            if (near < many) {
                Tap<T> tap = tap_of(bin, near);
                own.rows[p][near] = {tap.pixel * call.pitch, tap.weight};
            }
        }
        __syncwarp();
    }

    // Add pixels of COUNT rows, of which the first is row `first` of the bin.  All loads are in
    // flight at once.
    template <int COUNT, int E>
    static __device__ void add_rows(const Tap<T> *rows, int first, const T *const (&columns)[E],
                                    T (&values)[E], int (&places)[E]) {
        T pixels[COUNT][E];
#pragma unroll
        for (int i = 0; i < COUNT; i++)
#pragma unroll
            for (int e = 0; e < E; e++)
                pixels[i][e] = __ldg(columns[e] + rows[i].pixel);
#pragma unroll
        for (int i = 0; i < COUNT; i++)
#pragma unroll
            for (int e = 0; e < E; e++) {
                if (NUMBERS)
                    places[e] = pixels[i][e] > values[e] ? first + i : places[e];
                values[e] = Rule::add(values[e], rows[i].weight, pixels[i][e]);
            }
    }

    // Add the rows of bin p.
    template <int E>
    static __device__ void add_bin(const Shared &own, const Call &call, int p,
                                   const T *const (&columns)[E], T (&values)[E], int (&places)[E]) {
        const Tap<T> *rows = own.rows[p];
        int many = own.many[p];
        if (many == 3)
            return add_rows<3>(rows, 0, columns, values, places);
        if (many == 2)
            return add_rows<2>(rows, 0, columns, values, places);
        if (many == 1)
            return add_rows<1>(rows, 0, columns, values, places);
        int i = 0;
        if (!NUMBERS && many) {
            add_rows<4>(rows, 0, columns, values, places);
            i = 4;
        }
        // Numbers need registers, so that fewer loads are in flight.
#pragma unroll 1
        for (; NUMBERS && i + 1 < many && i < SIDE; i += 2)
            add_rows<2>(rows + i, i, columns, values, places);
#pragma unroll 1
        for (; i < many; i++) {
            Tap<T> row[1] = {rows[i < SIDE ? i : 0]};
            if (i >= SIDE) {
                row[0] = tap_of(bin_of(call, call.first_p + p), i);
                row[0].pixel *= call.pitch;
            }
            add_rows<1>(row, i, columns, values, places);
        }
    }

    // Fill strips with what the rows of all bins give in columns `from` to `stop` - 1.
    template <int E>
    static __device__ void along_y(Shared &own, const Call &call, const T *const (&planes)[E],
                                   int from, int stop) {
        int lane = lane_number(), row = lane / SIDE;
#pragma unroll 1
        for (int x = lane % SIDE; from + x - lane % SIDE < stop; x += SIDE) {
            int column = from + x < stop ? from + x : stop - 1;
            const T *columns[E];
#pragma unroll
            for (int e = 0; e < E; e++)
                columns[e] = known_as_it_is(planes[e] + column * call.next);
#pragma unroll 1
            for (int h = 0; h * PARTS < call.tall; h++) {
                Vector<T> found[E];
                Numbers rows[E];
#pragma unroll
                for (int part = 0; part < PARTS; part++) {
                    T values[E];
                    int places[E];
#pragma unroll
                    for (int e = 0; e < E; e++)
                        values[e] = Rule::start(), places[e] = 0;
                    add_bin(own, call, h * PARTS + part, columns, values, places);
#pragma unroll
                    for (int e = 0; e < E; e++)
                        found[e].of[part] = values[e], rows[e].of[part] = places[e];
                }
#pragma unroll
                for (int e = 0; e < E; e++) {
                    own.strips[(h * GROUP + row + e * ROWS) * WIDTH + x] = found[e];
                    if (NUMBERS)
                        own.numbers[(h * GROUP + row + e * ROWS) * WIDTH + x] = rows[e];
                }
            }
        }
    }

    // Add a column of strips to the lane's bins.
    template <int E>
    static __device__ void add_column(const Shared &own, const Call &call, const Tap<T> &tap,
                                      int from, T (&values)[E][SIDE], int (&numbers)[E][SIDE]) {
        int at = lane_number() / SIDE * WIDTH + tap.pixel - from;
#pragma unroll
        for (int h = 0; h < SIDE / PARTS; h++)
            if (h * PARTS < call.tall)
#pragma unroll
                for (int e = 0; e < E; e++) {
                    Vector<T> found = own.strips[at + (h * GROUP + e * ROWS) * WIDTH];
                    Numbers rows = {};
                    if (NUMBERS)
                        rows = own.numbers[at + (h * GROUP + e * ROWS) * WIDTH];
#pragma unroll
                    for (int part = 0; part < PARTS; part++) {
                        T &value = values[e][h * PARTS + part];
                        if (NUMBERS) {
                            // The first of equal pixels counts, row by row.
                            int &best = numbers[e][h * PARTS + part];
                            int number = rows.of[part] * call.shape.columns + tap.pixel;
                            bool better = found.of[part] > value ||
                                          (found.of[part] == value && number < best);
                            best = better ? number : best;
                        }
                        value = Rule::add(value, tap.weight, found.of[part]);
                    }
                }
    }

    // Write the results of the lanes to `out`, from channel c on, of which `mine` exist.
    template <typename U, int E>
    static __device__ void write(Shared &own, const Call &call, int c, int mine, U *out,
                                 const U (&values)[E][SIDE]) {
        int lane = lane_number(), near = lane % SIDE, row = lane / SIDE;
        int all = call.tall * call.wide;
        U *to = out + call.k * call.bins.first + c * call.bins.channel;
        if (!call.together) {
            to += row * call.bins.channel + call.first_p * call.bins.y +
                  (call.first_q + near) * call.bins.x;
#pragma unroll
            for (int e = 0; e < E; e++)
                if (near < call.wide && row + e * ROWS < mine)
#pragma unroll
                    for (int p = 0; p < SIDE; p++)
                        if (p < call.tall)
                            to[e * ROWS * call.bins.channel + p * call.bins.y] = values[e][p];
            return;
        }
        U *stage = (U *)own.strips;
        if (near < call.wide) {
            U *at = stage + row * all + near;
#pragma unroll
            for (int p = 0; p < SIDE; p++)
                if (p < call.tall) {
#pragma unroll
                    for (int e = 0; e < E; e++)
                        at[e * ROWS * all] = values[e][p];
                    at += call.wide;
                }
        }
        __syncwarp();
        int count = mine * all, done = 0;
        if ((unsigned long long)to % sizeof(Vector<U>) == 0) {
            done = count / OF_VECTOR<U> * OF_VECTOR<U>;
#pragma unroll 1
            for (int i = lane; i < count / OF_VECTOR<U>; i += LANES)
                ((Vector<U> *)to)[i] = ((const Vector<U> *)stage)[i];
        }
#pragma unroll 1
        for (int i = done + lane; i < count; i += LANES)
            to[i] = stage[i];
        __syncwarp();
    }

    // Pool ROWS * E channels from channel c on, of which `mine` exist.
    template <int E>
    static __device__ void pool(Shared &own, const Call &call, int c, int mine, T *out,
                                int *argmax) {
        int lane = lane_number(), near = lane % SIDE, row = lane / SIDE;
        T values[E][SIDE];
        int numbers[E][SIDE];
        const T *planes[E];
        // A lane without a channel of its own reads another channel, and writes no result.
        planes[0] = known_as_it_is(call.input + (c + (row < mine ? row : 0)) * call.channel);
#pragma unroll
        for (int e = 0; e < E; e++) {
            if (e)
                planes[e] = known_as_it_is(planes[e - 1] +
                                           (row + e * ROWS < mine ? ROWS * call.channel : 0));
#pragma unroll
            for (int p = 0; p < SIDE; p++)
                values[e][p] = Rule::start(), numbers[e][p] = -1;
        }
        const Tap<T> none = {0x7fffffff, 0};
        Tap<T> tap = call.columns ? own.columns[near][0] : none;
        int j = 0;
#pragma unroll 1
        for (int from = call.low; from < call.high; from += WIDTH) {
            int stop = call.high - from < WIDTH ? call.high : from + WIDTH;
            along_y(own, call, planes, from, stop);
            __syncwarp();
#pragma unroll 1
            while (tap.pixel < stop) {
                add_column(own, call, tap, from, values, numbers);
                j++;
                tap = none;
                if (j < call.columns)
                    tap = j < SIDE ? own.columns[near][j]
                                   : tap_of(bin_of(call, call.shape.ph + call.first_q + near), j);
            }
            __syncwarp();
        }
        if (Rule::MAXIMUM)
#pragma unroll
            for (int e = 0; e < E; e++)
#pragma unroll
                for (int p = 0; p < SIDE; p++) {
                    bool some = own.many[p] && call.columns;
                    values[e][p] = some ? values[e][p] : (T)0;
                    if (NUMBERS && numbers[e][p] >= 0)
                        numbers[e][p] += own.first[p] * call.shape.columns;
                }
        write(own, call, c, mine, out, values);
        if (NUMBERS)
            write(own, call, c, mine, argmax, numbers);
    }

    // Pool all boxes.
    static __device__ void run(Shared &own, Call &call, T *out, int *argmax, const int *images,
                               const int *counts) {
        const Shape &shape = call.shape;
        BlocksOfBins<SIDE> blocks(shape);
        int tiles = blocks.count, most_tall = blocks.tall, most_wide = blocks.wide;
        call.together = tiles == 1 && call.bins.x == 1 && call.bins.y == shape.pw &&
                        call.bins.channel == shape.ph * shape.pw;
        int groups = (shape.channels + GROUP - 1) / GROUP;
        // All boxes are pooled from some groups of channels, and then from the next ones, so that
        // these planes stay in the level 2 cache.
        int near = groups < 3 ? groups : 4;
        int rounds = groups < 3 ? 1 : (groups + 3) / 4;
        call.first_p = call.first_q = 0;
        for (long long t = warp_number(); t < (long long)rounds * shape.boxes * tiles * near;
             t += warp_count()) {
            long long u = t;
            int group = (int)(near == 4 ? u & 3 : near == 2 ? u & 1 : 0);
            u >>= near / 2;
            if (tiles > 1) {
                call.first_q = split(u, blocks.across) * most_wide;
                call.first_p = split(u, blocks.down) * most_tall;
            }
            call.k = u;
            if (rounds > 1) {
                call.k = split(u, shape.boxes);
                group += near * (int)u;
            }
            call.image = images[call.k];
            if (group >= groups || call.image == OTHER_LEVEL)
                continue;
            // Only weighted sums have pyramids.
            const Map<T> &level = call.maps.at[Rule::MAXIMUM ? 0 : call.maps.level_of(call.k)];
            call.input = level.pixels + call.image * level.strides.first;
            call.channel = level.strides.channel;
            call.pitch = (int)level.strides.y, call.next = (int)level.strides.x;
            int wide = shape.pw - call.first_q, tall = shape.ph - call.first_p;
            call.wide = wide < most_wide ? wide : most_wide;
            call.tall = tall < most_tall ? tall : most_tall;
            prepare(own, call, counts + call.k * (shape.ph + shape.pw));
            int c = group * GROUP, mine = shape.channels - c < GROUP ? shape.channels - c : GROUP;
            if (mine > ROWS)
                pool<EACH>(own, call, c, mine, out, argmax);
            else
                pool<1>(own, call, c, mine, out, argmax);
            __syncwarp();
        }
    }
};

// How many blocks of these kernels a multiprocessor should hold.  Turing has shared memory for one
// of them.  Before Hopper their threads need more registers than four blocks have.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
template <typename T> constexpr int BLOCKS_OF_POOLING = 3;
#else
template <typename T> constexpr int BLOCKS_OF_POOLING = sizeof(T) == 4 ? 4 : 3;
#endif

// Compute weighted sums of pixels of planes.
template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_POOLING<T>)
    forward_planes(const __grid_constant__ Maps<T> maps, T *out, Strides bins, Shape shape,
                   Room room, const int *images, const int *counts, const Tap<T> *taps) {
    using Pooling = Planes<T, WeightedSum, false>;
    __shared__ typename Pooling::Shared shared[THREADS / LANES];
    typename Pooling::Call call = {maps, bins, shape, room, taps};
    Pooling::run(shared[warp_of_block()], call, out, (int *)0, images, counts);
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

// A row of bins of pixels (NHWC), as a lane sees it that pools a vector of neighbouring channels.
template <typename T, template <typename> class Reduction> struct RowOfBins {
    static constexpr int KEPT = 4, EACH = OF_VECTOR<T>;
    using Rule = Reduction<T>;
    int pitch, next; // the strides of y and x
    const Tap<T> *down;
    int rows;          // taps along y
    Tap<T> kept[KEPT]; // the first of them; `pixel` is the offset where the row begins

    __device__ RowOfBins(const Strides &map, const Tap<T> *down, int rows)
        : pitch((int)map.y), next((int)map.x), down(down), rows(rows) {
#pragma unroll
        for (int i = 0; i < KEPT; i++)
            kept[i] = i < rows ? row(i) : Tap<T>{0, 0};
    }
    __device__ Tap<T> row(int i) const {
        Tap<T> tap = Rule::MAXIMUM ? Tap<T>{down[0].pixel + i, 0} : down[i];
        return {tap.pixel * pitch, tap.weight};
    }

    // Put the pixels of a bin together, of which ROWS rows are kept.
    template <int ROWS>
    __device__ Vector<T> bin(const T *pixels, const Tap<T> *along, int columns) const {
        Vector<T> total;
#pragma unroll
        for (int e = 0; e < EACH; e++)
            total.of[e] = Rule::start();
        int first = Rule::MAXIMUM ? along[0].pixel : 0;
#pragma unroll 1
        for (int j = 0; j < columns; j++) {
            Tap<T> x = Rule::MAXIMUM ? Tap<T>{first + j, 0} : along[j];
            const T *column = known_as_it_is(pixels + x.pixel * next);
            Vector<T> found[ROWS], sum;
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                found[i] = load_vector(column + kept[i].pixel);
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                sum.of[e] = Rule::start();
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    sum.of[e] = Rule::add(sum.of[e], kept[i].weight, found[i].of[e]);
            }
            if (ROWS == KEPT)
#pragma unroll 1
                for (int i = KEPT; i < rows; i++) {
                    Tap<T> y = row(i);
                    Vector<T> more = load_vector(column + y.pixel);
#pragma unroll
                    for (int e = 0; e < EACH; e++)
                        sum.of[e] = Rule::add(sum.of[e], y.weight, more.of[e]);
                }
#pragma unroll
            for (int e = 0; e < EACH; e++)
                total.of[e] = Rule::add(total.of[e], x.weight, sum.of[e]);
        }
        return total;
    }

    __device__ Vector<T> bin(const T *pixels, const Tap<T> *along, int columns) const {
        if (rows == 0 || columns == 0)
            return {};
        if (rows == 1)
            return bin<1>(pixels, along, columns);
        if (rows == 2)
            return bin<2>(pixels, along, columns);
        if (rows == 3)
            return bin<3>(pixels, along, columns);
        return bin<4>(pixels, along, columns);
    }
};

// Pool whole vectors of channels from pixels (NHWC).  A warp computes a row of bins for a vector of
// each lane.
template <typename T, template <typename> class Reduction>
__device__ inline void pool_vectors(const Maps<T> &maps, T *out, const Strides &bins,
                                    const Shape &shape, const Room &room, const int *images,
                                    const int *counts, const Tap<T> *taps) {
    constexpr int EACH = LANES * OF_VECTOR<T>;
    int blocks = (shape.channels + EACH - 1) / EACH;
    for (long long t = warp_number(); t < (long long)shape.boxes * shape.ph * blocks;
         t += warp_count()) {
        long long u = t;
        int c = blocks > 1 ? split(u, blocks) * EACH : 0, p = split(u, shape.ph);
        long long k = u;
        int image = images[k];
        c += lane_number() * OF_VECTOR<T>;
        if (image == OTHER_LEVEL || c >= shape.channels)
            continue;
        const int *count = counts + k * (shape.ph + shape.pw);
        const Map<T> &level = maps.at[maps.level_of(k)];
        const Strides &map = level.strides;
        RowOfBins<T, Reduction> row(map, taps + slot_of(room, shape, k, p),
                                    image < 0 ? 0 : count[p]);
        const T *pixels = known_as_it_is(level.pixels + image * map.first + c);
        const Tap<T> *along = taps + slot_of(room, shape, k, shape.ph);
        T *to = out + k * bins.first + p * bins.y + c;
        count += shape.ph;
#pragma unroll 1
        for (int q = 0; q < shape.pw; q++, to += bins.x, along += room.x)
            *(Vector<T> *)to = row.bin(pixels, along, count[q]);
    }
}

// Return whether whole vectors of channels lie at addresses of whole vectors, so that an
// instruction can load or store one.
template <typename T>
__device__ inline bool has_vectors(const T *array, const Strides &strides, int channels) {
    return strides.channel == 1 && channels % OF_VECTOR<T> == 0 &&
           (unsigned long long)array % sizeof(Vector<T>) == 0 &&
           strides.first % OF_VECTOR<T> == 0 && strides.y % OF_VECTOR<T> == 0 &&
           strides.x % OF_VECTOR<T> == 0;
}

// Return whether pool_vectors can be used, whose offsets in an image have 32 bits.
template <typename T>
__device__ inline bool can_pool_vectors(const Maps<T> &maps, const T *out, const Strides &bins,
                                        const Shape &shape) {
    bool can = has_vectors(out, bins, shape.channels);
    for (int i = 0; i < maps.count; i++) {
        const Map<T> &level = maps.at[i];
        const Strides &map = level.strides;
        can = can && has_vectors(level.pixels, map, shape.channels) &&
              level.rows * map.y + level.columns * map.x < 1LL << 31 && map.y > 0 && map.x > 0;
    }
    return can;
}

// Pool from pixels of channels (NHWC).  A warp computes a row of bins for 128 channels, and each of
// its lanes computes 4 of these channels: neighbours where vectors of them can be loaded.
template <typename T>
__global__ void __launch_bounds__(THREADS, 6)
    forward_pixels(const __grid_constant__ Maps<T> maps, T *out, Strides bins, Shape shape,
                   Room room, const int *images, const int *counts, const Tap<T> *taps) {
    constexpr int EACH = 4;
    if (can_pool_vectors(maps, out, bins, shape)) {
        pool_vectors<T, WeightedSum>(maps, out, bins, shape, room, images, counts, taps);
        return;
    }
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
        alignas(16) T turned[8][LANES + 4];
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
    long long byte_step = bins_step * (int)sizeof(T);
    bool few = shape.ph <= LANES / 2 && shape.pw <= LANES / 2;
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
                bool filled = false; // whether the matrices are made already
                if (few) {
                    // Half of the lanes are bins along y, and the others are bins along x.
                    bool along_x = lane >= LANES / 2;
                    int b = lane % (LANES / 2), low = along_x ? own.x0 : own.y0;
                    int high = low + (along_x ? WIDE : TALL), bin = b + (along_x ? shape.ph : 0);
                    int i = 0, stop = b < (along_x ? shape.pw : shape.ph) ? count[bin] : 0;
                    const Tap<T> *of_bin = taps + slot_of(room, shape, k, bin);
                    Tap<T> tap = {0, 0};
                    if (stop)
                        i = first_from(of_bin, stop, low);
                    if (i < stop)
                        tap = of_bin[i];
                    unsigned some = __ballot_sync(ALL, i < stop && tap.pixel < high);
                    unsigned of_y = some & 0xffff, of_x = some >> 16;
                    if (!of_y || !of_x)
                        continue;
                    first_p = __ffs((int)of_y) - 1, last_p = 31 - __clz((int)of_y);
                    first_q = __ffs((int)of_x) - 1, last_q = 31 - __clz((int)of_x);
                    filled = last_p - first_p < BINS && last_q - first_q < BINS;
                    b -= along_x ? first_q : first_p;
                    if (filled && b >= 0 && b <= (along_x ? last_q - first_q : last_p - first_p)) {
                        T *weights = along_x ? own.x[b] : own.y[b];
                        int has = 0;
#pragma unroll 1
                        while (i < stop && tap.pixel < high) {
                            weights[tap.pixel - low] = tap.weight;
                            has |= 1 << (tap.pixel - low);
                            if (++i < stop)
                                tap = of_bin[i];
                        }
                        (along_x ? own.has_x : own.has_y)[b] = has;
                    }
                } else {
                    bins_of(shape, room, count, taps, k, 0, shape.ph, own.y0, own.y0 + TALL,
                            first_p, last_p);
                    bins_of(shape, room, count, taps, k, shape.ph, shape.pw, own.x0, own.x0 + WIDE,
                            first_q, last_q);
                }
                for (int q0 = first_q; q0 <= last_q; q0 += BINS)
                    for (int p0 = first_p; p0 <= last_p; p0 += BINS) {
                        int stop_p = last_p - p0 < BINS ? last_p + 1 : p0 + BINS;
                        int stop_q = last_q - q0 < BINS ? last_q + 1 : q0 + BINS;
                        if (!filled && lane < 2 * BINS) {
                            bool along_x = lane >= BINS;
                            int b = lane % BINS, bin = (along_x ? q0 : p0) + b;
                            int low = along_x ? own.x0 : own.y0, side = along_x ? WIDE : TALL;
                            int has = 0;
                            if (bin < (along_x ? stop_q : stop_p)) {
                                bin += along_x ? shape.ph : 0;
                                const Tap<T> *of_bin = taps + slot_of(room, shape, k, bin);
                                int stop = count[bin], i = first_from(of_bin, stop, low);
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
                        // What lies past the bins is not used; the last one stands for it.
                        int last = stop_q - q0 - 1;
                        bool quick = !CHANNELS_LAST && own.channels == LANES;
                        int q = q0 + (quick && near > last ? last : near);
                        const T *of_box =
                            grad_output + k * bins.first + q * bins.x + (own.c + e) * bins.channel;
                        const T *of_row = of_box + p0 * bins.y;
#pragma unroll 1
                        for (int p = p0; p < stop_p; p++, of_row += bins.y) {
                            int has_y = own.has_y[p - p0];
                            if (!has_y)
                                continue;
                            // Channels last, registers are scarce, and the row is found anew.
                            const char *of_lane = (const char *)known_as_it_is(
                                CHANNELS_LAST ? of_box + p * bins.y : of_row);
                            int steps = last - near; // how many bins follow the lane's
                            // All 8 loads are in flight at once.
                            T grads[8];
                            if (quick)
#pragma unroll
                                for (int i = 0; i < 8; i++, of_lane += byte_step)
                                    grads[i] = __ldg((const T *)of_lane);
                            else
#pragma unroll
                                for (int i = 0; i < 8; i++, of_lane += byte_step)
                                    grads[i] =
                                        i * near_step <= steps && e + i * e_step < own.channels
                                            ? __ldg((const T *)of_lane)
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
        T *to = of_level.pixels + own.image * map.first + own.c * map.channel + own.y0 * map.y +
                own.x0 * map.x;
        // Whether the pixels of a row of the tile are whole vectors.
        bool vectors = !CHANNELS_LAST && !add && map.x == 1 && of_level.columns % WIDE == 0 &&
                       map.y % OF_VECTOR<T> == 0 &&
                       (unsigned long long)to % sizeof(Vector<T>) == 0 &&
                       map.channel % OF_VECTOR<T> == 0;
        if (CHANNELS_LAST) {
            to += lane * map.channel;
            if (lane < own.channels)
#pragma unroll
                for (int y = 0; y < TALL; y++, to += map.y)
#pragma unroll
                    for (int x = 0; x < WIDE; x++)
                        if (own.y0 + y < of_level.rows && own.x0 + x < of_level.columns)
                            to[x * map.x] = add ? to[x * map.x] + sums[y][x] : sums[y][x];
        } else if (vectors) {
            // A lane holds the pixels of a channel, and writes vectors of some channels.
            constexpr int PARTS = WIDE / OF_VECTOR<T>, STEP = LANES / PARTS;
            Vector<T> *turned = (Vector<T> *)own.turned;
            int channel = lane / PARTS;
            to += channel * map.channel + lane % PARTS * OF_VECTOR<T>;
#pragma unroll
            for (int y = 0; y < TALL; y++)
                if (own.y0 + y < of_level.rows) {
#pragma unroll
                    for (int part = 0; part < PARTS; part++)
#pragma unroll
                        for (int i = 0; i < OF_VECTOR<T>; i++)
                            turned[lane * PARTS + part].of[i] = sums[y][part * OF_VECTOR<T> + i];
                    __syncwarp();
#pragma unroll
                    for (int i = 0; i < PARTS; i++)
                        if (channel + i * STEP < own.channels)
                            *(Vector<T> *)(to + i * STEP * map.channel) = turned[lane + i * LANES];
                    __syncwarp();
                    to += map.y;
                }
        } else {
            long long map_step = near_step * map.x + e_step * map.channel;
            to += e * map.channel + near * map.x;
#pragma unroll
            for (int y = 0; y < TALL; y++)
                if (own.y0 + y < of_level.rows) {
#pragma unroll
                    for (int x = 0; x < WIDE; x++)
                        own.turned[x][lane] = sums[y][x];
                    __syncwarp();
#pragma unroll 1
                    for (int i = 0; i < 8; i++)
                        if (own.x0 + near < of_level.columns && e + i * e_step < own.channels) {
                            T sum = own.turned[near][e + i * e_step];
                            to[i * map_step] = add ? to[i * map_step] + sum : sum;
                        }
                    __syncwarp();
                    to += map.y;
                }
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
                    // Slots behind the taps of a bin are not read, since nothing was written there.
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

// Write partial_sums (boxes, blocks of channels, bins, 4) of the gradients by x1, y1, x2, y2, for
// whatever backward_boxes_of_planes does not take.  A thread computes a bin, 4 channels at a time.
// If channels are last, a warp computes a bin, and its lanes are channels.
template <typename T>
__global__ void __launch_bounds__(THREADS)
    backward_boxes(const T *grad_output, Strides bins, const __grid_constant__ Maps<T> maps,
                   Shape shape, Room room, const int *images, const int *counts, const Tap<T> *taps,
                   const T *slope_low, const T *slope_high, double *partial_sums) {
    constexpr int EACH = 4;
    int all = shape.channels_last ? CHANNELS_OF_WARP : CHANNELS_OF_THREAD; // of a partial sum
    int blocks = (shape.channels + all - 1) / all;
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

// A tap, and the slopes of its weight: the derivatives by the low and by the high edge of the box.
template <typename T> struct alignas(16) TapWithSlopes {
    int pixel;
    T weight, low, high;
};

// The gradients of the boxes from planes of pixels (NCHW).  A warp takes 8 x 8 bins of a box for a
// group of channels.  8 lanes are neighbouring columns of pixels of a channel, and a lane takes E
// channels.  For each row of bins, a lane computes two kinds of sums.  Along x, it multiplies the
// gradients of the bins that read its column by their weights and slopes.  Along y, it multiplies
// the pixels of the column by theirs.  Products of these sums are what the column adds to the
// gradients, so no bin is put together.
template <typename T> struct BoxesOfPlanes {
    static constexpr int SIDE = 8, ROWS = LANES / SIDE, EACH = OF_VECTOR<T>, GROUP = ROWS * EACH;
    static_assert(GROUP * sizeof(T) == GROUP_BYTES);
    using Sloped = TapWithSlopes<T>;
    struct Shared {
        // Rows are one element longer than needed, so that lanes read different banks.
        Vector<T> grads[SIDE][SIDE * ROWS + 1]; // by column of bins; EACH channels
        Sloped columns[SIDE][SIDE + 1];         // by column of pixels and column of bins
        Sloped rows[SIDE][SIDE];                // `pixel` is the offset where the row begins
        int many[SIDE];                         // how many taps each bin along y has
    };
    // A call, and what a warp does now: 8 x 8 bins of box k.
    struct Call {
        const Shape &shape;
        const Room &room;
        const Tap<T> *taps;
        const T *slope_low, *slope_high;
        long long k, of_rows,
            of_columns;  // slots of the first bin along y, and of the lane's along x
        int pitch, next; // the strides of y and x
        int first_p, first_q, tall, wide;
        int low, high; // the bins read columns low to high - 1
        int columns;   // taps of the lane's bin along x
    };
    // Sums of products with weights, and with slopes by the low and by the high edge.
    template <int E> struct Sums {
        T weight[E], low[E], high[E];

        __device__ void add(const Sloped &tap, const T *values) {
#pragma unroll
            for (int e = 0; e < E; e++) {
                weight[e] = fma(tap.weight, values[e], weight[e]);
                low[e] = fma(tap.low, values[e], low[e]);
                high[e] = fma(tap.high, values[e], high[e]);
            }
        }
    };

    // Return the tap of a slot.
    static __device__ Sloped tap_of(const Call &call, long long slot) {
        Tap<T> tap = call.taps[slot];
        return {tap.pixel, tap.weight, call.slope_low[slot], call.slope_high[slot]};
    }

    // Prepare the taps of the bins.
    static __device__ void prepare(Shared &own, Call &call, bool reads, const int *count) {
        int lane = lane_number(), near = lane % SIDE, q = call.first_q + near;
        call.of_rows = slot_of(call.room, call.shape, call.k, call.first_p);
        call.of_columns = slot_of(call.room, call.shape, call.k, call.shape.ph + q);
        call.columns = near < call.wide && reads ? count[call.shape.ph + q] : 0;
        int low = call.columns ? call.taps[call.of_columns].pixel : call.shape.columns;
        int high = call.columns ? call.taps[call.of_columns + call.columns - 1].pixel + 1 : 0;
        join_spans(low, high, SIDE);
        call.low = low, call.high = high;
        for (int p = lane / SIDE; p < SIDE; p += ROWS) {
            int many = p < call.tall && reads ? count[call.first_p + p] : 0;
            if (near == 0)
                own.many[p] = many;
            if (near < many) {
                Sloped tap = tap_of(call, call.of_rows + (long long)p * call.room.y + near);
                tap.pixel *= call.pitch;
                own.rows[p][near] = tap;
            }
        }
        __syncwarp();
    }

    // Copy the gradients of the bins, of which the first one of the first channel is `from`.
    // Channels behind the first `mine` get 0.
    static __device__ void copy_gradients(Shared &own, const Call &call, const T *from,
                                          const Strides &bins, int mine) {
        int lane = lane_number(), near = lane % SIDE, row = lane / SIDE;
        if (near < call.wide) {
            from += row * bins.channel + near * bins.x;
#pragma unroll
            for (int p = 0; p < SIDE; p++, from += bins.y)
                if (p < call.tall) {
                    Vector<T> grads;
#pragma unroll
                    for (int e = 0; e < EACH; e++)
                        grads.of[e] = row + e * ROWS < mine ? from[e * ROWS * bins.channel] : (T)0;
                    own.grads[near][p * ROWS + row] = grads;
                }
        }
        __syncwarp();
    }

    // Prepare columns `from` to `stop` - 1 of pixels.  Return a bit for each bin that reads the
    // lane's column.  j is the lane's next tap along x: four lanes share the taps of a bin.
    static __device__ unsigned prepare_columns(Shared &own, const Call &call, int from, int stop,
                                               int &j) {
        int near = lane_number() % SIDE;
        unsigned reads = 0, bins = 0;
        for (; j < call.columns; j += ROWS) {
            Sloped tap = tap_of(call, call.of_columns + j);
            if (tap.pixel >= stop)
                break;
            own.columns[tap.pixel - from][near] = tap;
            reads |= 1u << (tap.pixel - from);
        }
#pragma unroll
        for (int x = 0; x < SIDE; x++) {
            unsigned lanes = __ballot_sync(ALL, reads >> x & 1);
            bins = x == near ? lanes : bins;
        }
        bins |= bins >> 16;
        bins |= bins >> 8;
        __syncwarp();
        return bins & 0xff;
    }

    // Add pixels of COUNT rows.  All loads are in flight at once.
    template <int COUNT, int E>
    static __device__ void add_rows(const Sloped *rows, const T *const (&columns)[E],
                                    Sums<E> &down) {
        T pixels[COUNT][E];
#pragma unroll
        for (int i = 0; i < COUNT; i++)
#pragma unroll
            for (int e = 0; e < E; e++)
                pixels[i][e] = __ldg(columns[e] + rows[i].pixel);
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            down.add(rows[i], pixels[i]);
    }

    // Return the sums along y of bin p.
    template <int E>
    static __device__ Sums<E> down_bin(const Shared &own, const Call &call, int p, int many,
                                       const T *const (&columns)[E]) {
        Sums<E> down = {};
        const Sloped *rows = own.rows[p];
        if (many == 3) {
            add_rows<3>(rows, columns, down);
        } else if (many == 2) {
            add_rows<2>(rows, columns, down);
        } else if (many == 1) {
            add_rows<1>(rows, columns, down);
        } else {
            add_rows<4>(rows, columns, down);
#pragma unroll 1
            for (int i = 4; i < many && i < SIDE; i++)
                add_rows<1>(rows + i, columns, down);
#pragma unroll 1
            for (int i = SIDE; i < many; i++) {
                Sloped row = tap_of(call, call.of_rows + (long long)p * call.room.y + i);
                row.pixel *= call.pitch;
                add_rows<1>(&row, columns, down);
            }
        }
        return down;
    }

    // Add the gradients from columns `from` to `stop` - 1 to `total`.  `bins` says which bins read
    // the lane's column.
    template <int E>
    static __device__ void add_columns(const Shared &own, const Call &call,
                                       const T *const (&columns)[E], unsigned bins, int mine,
                                       double (&total)[4]) {
        int lane = lane_number(), near = lane % SIDE, row = lane / SIDE;
        bool some = bins, two = bins & (bins - 1);
        int first = some ? next_of(bins) : 0, second = two ? next_of(bins) : 0;
        const Sloped of_first = own.columns[near][first], of_second = own.columns[near][second];
        T sums[4][E] = {};
#pragma unroll 1
        for (int p = 0; p < call.tall; p++) {
            int many = own.many[p];
            if (many == 0)
                continue;
            // Where no bin reads the column, what is added here does not count.
            Sums<E> along = {};
            along.add(of_first, own.grads[first][p * ROWS + row].of);
            if (two)
                along.add(of_second, own.grads[second][p * ROWS + row].of);
#pragma unroll 1
            for (unsigned more = bins; more;) {
                int q = next_of(more);
                along.add(own.columns[near][q], own.grads[q][p * ROWS + row].of);
            }
            Sums<E> down = down_bin(own, call, p, many, columns);
#pragma unroll
            for (int e = 0; e < E; e++) {
                sums[0][e] = fma(along.low[e], down.weight[e], sums[0][e]);
                sums[1][e] = fma(along.weight[e], down.low[e], sums[1][e]);
                sums[2][e] = fma(along.high[e], down.weight[e], sums[2][e]);
                sums[3][e] = fma(along.weight[e], down.high[e], sums[3][e]);
            }
        }
#pragma unroll
        for (int e = 0; e < E; e++)
            if (some && row + e * ROWS < mine)
#pragma unroll
                for (int edge = 0; edge < 4; edge++)
                    total[edge] += (double)sums[edge][e];
    }

    // Add the gradients from ROWS * E channels to `total`.  Only the first `mine` of them exist;
    // the first one is `plane`, and the next ones lie `channel` elements apart.
    template <int E>
    static __device__ void add_channels(Shared &own, const Call &call, const T *plane,
                                        long long channel, int mine, double (&total)[4]) {
        int lane = lane_number(), near = lane % SIDE, row = lane / SIDE;
        const T *planes[E];
        // A lane without a channel of its own reads another channel, which does not count.
        planes[0] = known_as_it_is(plane + (row < mine ? row : 0) * channel);
#pragma unroll
        for (int e = 1; e < E; e++)
            planes[e] =
                known_as_it_is(planes[e - 1] + (row + e * ROWS < mine ? ROWS * channel : 0));
        int j = row;
#pragma unroll 1
        for (int from = call.low; from < call.high; from += SIDE) {
            int stop = call.high - from < SIDE ? call.high : from + SIDE;
            unsigned bins = prepare_columns(own, call, from, stop, j);
            int column = from + near < stop ? from + near : stop - 1;
            const T *columns[E];
#pragma unroll
            for (int e = 0; e < E; e++)
                columns[e] = known_as_it_is(planes[e] + column * call.next);
            add_columns(own, call, columns, bins, mine, total);
            __syncwarp();
        }
    }

    // Write the sums over all lanes to `to`.
    static __device__ void write(double (&total)[4], double *to) {
        int lane = lane_number();
        bool upper = lane & 2, odd = lane & 1;
        // Each step halves how many sums a lane holds, until it has that of edge lane % 4.
        double two[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
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

// Write partial_sums (boxes, groups of channels, blocks of bins, 4) of the gradients by x1, y1, x2,
// y2 from planes of pixels.
template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 4 : 3)
    backward_boxes_of_planes(const T *grad_output, Strides bins,
                             const __grid_constant__ Maps<T> maps, Shape shape, Room room,
                             const int *images, const int *counts, const Tap<T> *taps,
                             const T *slope_low, const T *slope_high, double *partial_sums) {
    using Boxes = BoxesOfPlanes<T>;
    constexpr int SIDE = Boxes::SIDE, GROUP = Boxes::GROUP;
    __shared__ typename Boxes::Shared shared[THREADS / LANES];
    typename Boxes::Shared &own = shared[warp_of_block()];
    typename Boxes::Call call = {shape, room, taps, slope_low, slope_high};
    BlocksOfBins<SIDE> blocks(shape);
    int groups = (shape.channels + GROUP - 1) / GROUP;
    for (long long t = warp_number(); t < (long long)shape.boxes * groups * blocks.count;
         t += warp_count()) {
        long long u = t;
        call.first_q = (int)split(u, blocks.across) * blocks.wide;
        call.first_p = (int)split(u, blocks.down) * blocks.tall;
        int c = (int)split(u, groups) * GROUP;
        call.k = u;
        int image = images[u], wide = shape.pw - call.first_q, tall = shape.ph - call.first_p;
        if (image == OTHER_LEVEL)
            continue;
        const Map<T> &level = maps.at[maps.level_of(u)];
        long long channel = level.strides.channel;
        const T *plane = level.pixels + image * level.strides.first + c * channel;
        call.pitch = (int)level.strides.y, call.next = (int)level.strides.x;
        call.wide = wide < blocks.wide ? wide : blocks.wide;
        call.tall = tall < blocks.tall ? tall : blocks.tall;
        Boxes::prepare(own, call, image >= 0, counts + u * (shape.ph + shape.pw));
        int mine = shape.channels - c < GROUP ? shape.channels - c : GROUP;
        Boxes::copy_gradients(own, call,
                              grad_output + u * bins.first + c * bins.channel +
                                  call.first_p * bins.y + call.first_q * bins.x,
                              bins, mine);
        double total[4] = {0, 0, 0, 0};
        if (mine > Boxes::ROWS)
            Boxes::template add_channels<Boxes::EACH>(own, call, plane, channel, mine, total);
        else
            Boxes::template add_channels<1>(own, call, plane, channel, mine, total);
        Boxes::write(total, partial_sums + t * 4);
        __syncwarp();
    }
}

// Add up partial_sums (boxes, each, 4), and write the sums to the last four columns of grad_boxes
// (boxes, columns), which belong to the corners.  The column before them, if there is one, becomes
// 0.  A warp takes a box at a time.
template <typename T>
__global__ void add_partial_sums(const double *partial_sums, long long each, Shape shape,
                                 const int *images, T *grad_boxes, int columns) {
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
