// These kernels pool from pixels of channels (NHWC), and whatever those of planes do not take.  On
// the CPU, forward.pyx and max_pool.pyx of pyx/kernels do this.

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
        UNROLL(i, KEPT)
            kept[i] = i < rows ? row(i) : Tap<T>{0, 0};
    }
    __device__ Tap<T> row(int i) const {
        Tap<T> tap = tap_of<Rule::MAXIMUM>(down, i);
        return {tap.pixel * pitch, tap.weight};
    }

    // Put the pixels of a bin together, of which ROWS rows are kept.
    template <int ROWS>
    __device__ Vector<T> bin(const T *pixels, const Tap<T> *along, int columns) const {
        Vector<T> total;
        UNROLL(e, EACH)
            total.of[e] = Rule::start();
#pragma unroll 1
        for (int j = 0; j < columns; j++) {
            Tap<T> x = tap_of<Rule::MAXIMUM>(along, j);
            const T *column = known_as_it_is(pixels + x.pixel * next);
            Vector<T> found[ROWS], sum;
            UNROLL(i, ROWS)
                found[i] = load_vector(column + kept[i].pixel);
            UNROLL(e, EACH) {
                sum.of[e] = Rule::start();
                UNROLL(i, ROWS)
                    sum.of[e] = Rule::add(sum.of[e], kept[i].weight, found[i].of[e]);
            }
            if (ROWS == KEPT)
#pragma unroll 1
                for (int i = KEPT; i < rows; i++) {
                    Tap<T> y = row(i);
                    Vector<T> more = load_vector(column + y.pixel);
                    UNROLL(e, EACH)
                        sum.of[e] = Rule::add(sum.of[e], y.weight, more.of[e]);
                }
            UNROLL(e, EACH)
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
                                    const Tables<T> &tables) {
    constexpr int EACH = LANES * OF_VECTOR<T>;
    const Shape &shape = tables.shape;
    int blocks = (shape.channels + EACH - 1) / EACH;
    for (long long t = warp_number(); t < (long long)shape.boxes * shape.ph * blocks;
         t += warp_count()) {
        long long k = t;
        int c = blocks > 1 ? (int)split(k, blocks) * EACH : 0, p = (int)split(k, shape.ph);
        int image = tables.images[k];
        c += lane_number() * OF_VECTOR<T>;
        if (image == OTHER_LEVEL || c >= shape.channels)
            continue;
        const int *count = tables.counts_of(k);
        const Map<T> &level = maps.at[tables.level_of(k)];
        const Strides &map = level.strides;
        RowOfBins<T, Reduction> row(map, tables.taps + tables.slot_of(k, p), count[p]);
        const T *pixels = known_as_it_is(level.pixels + image * map.first + c);
        const Tap<T> *along = tables.taps + tables.slot_of(k, shape.ph);
        T *to = out + k * bins.first + p * bins.y + c;
        count += shape.ph;
#pragma unroll 1
        for (int q = 0; q < shape.pw; q++, to += bins.x, along += tables.room.x)
            *(Vector<T> *)to = row.bin(pixels, along, count[q]);
    }
}

// Return whether whole vectors of channels lie at addresses of whole vectors, so that an
// instruction can load or store one.
template <typename T>
__device__ inline bool has_vectors(const T *array, const Strides &strides, int channels) {
    return strides.channel == 1 && channels % OF_VECTOR<T> == 0 && begins_vector(array) &&
           strides.first % OF_VECTOR<T> == 0 && strides.y % OF_VECTOR<T> == 0 &&
           strides.x % OF_VECTOR<T> == 0;
}

// Return whether pool_vectors can be used, whose offsets in an image have 32 bits.
template <typename T>
__device__ inline bool can_pool_vectors(const Maps<T> &maps, const T *out, const Strides &bins,
                                        const Shape &shape) {
    if (shape.position_sensitive || !has_vectors(out, bins, shape.channels))
        return false;
    bool can = true;
    for (int i = 0; i < maps.count; i++) {
        const Map<T> &level = maps.at[i];
        const Strides &map = level.strides;
        can = can && has_vectors(level.pixels, map, shape.channels) &&
              level.rows * map.y + level.columns * map.x < 1LL << 31 && map.y > 0 && map.x > 0;
    }
    return can;
}

// The taps of a bin of a box.
template <typename T> struct Bin {
    const Tap<T> *down, *along;
    int rows, columns;

    __device__ Bin(const Tables<T> &tables, long long k, int p, int q) {
        const int *count = tables.counts_of(k);
        int x = tables.shape.ph + q;
        down = tables.taps + tables.slot_of(k, p), along = tables.taps + tables.slot_of(k, x);
        rows = count[p], columns = count[x];
    }
};

template <typename T>
__device__ inline T sum_of_bin(const T *plane, const Strides &map, const Bin<T> &bin) {
    T total = 0;
    for (int i = 0; i < bin.rows; i++) {
        Tap<T> y = bin.down[i];
        const T *row = known_as_it_is(plane + y.pixel * map.y);
        T sum = 0;
#pragma unroll 2
        for (int j = 0; j < bin.columns; j++) {
            Tap<T> x = bin.along[j];
            sum = fma(x.weight, __ldg(row + x.pixel * map.x), sum);
        }
        total = fma(y.weight, sum, total);
    }
    return total;
}

// Compute weighted sums: by vectors of channels (NHWC), or else bin by bin.  The latter is for bins
// that have a channel of their own each, for planes of 2**31 elements or more, and for channels
// that are no whole vectors.
template <typename T>
__global__ void __launch_bounds__(THREADS, 6)
    forward_bins(const __grid_constant__ Maps<T> maps, T *out, Strides bins,
                 const __grid_constant__ Tables<T> tables) {
    const Shape &shape = tables.shape;
    if (can_pool_vectors(maps, out, bins, shape))
        return pool_vectors<T, WeightedSum>(maps, out, bins, tables);
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        int image = tables.images[e.k];
        if (image == OTHER_LEVEL)
            continue;
        const Map<T> &level = maps.at[tables.level_of(e.k)];
        const T *plane = level.pixels + image * level.strides.first +
                         input_channel(shape, e.c, e.p, e.q) * level.strides.channel;
        out[offset_of(e, bins)] = sum_of_bin(plane, level.strides, Bin<T>(tables, e.k, e.p, e.q));
    }
}

// Return the largest pixel of a bin, and its number in the plane in `at`.
template <typename T>
__device__ inline T largest_of_bin(const T *plane, const Strides &map, const Bin<T> &bin,
                                   int columns, int &at) {
    at = -1;
    if (!bin.rows || !bin.columns)
        return 0;
    int y = bin.down[0].pixel, x = bin.along[0].pixel;
    T best = Limits<T>::lowest;
    for (int i = y; i < y + bin.rows; i++) {
        const T *pixel = known_as_it_is(plane + i * map.y + x * map.x);
        // The number fits into int where argmax is asked for; otherwise it may wrap.
        unsigned number = (unsigned)i * columns + x;
#pragma unroll 4
        for (int j = 0; j < bin.columns; j++, pixel += map.x) {
            T value = __ldg(pixel);
            if (value > best) {
                best = value;
                at = (int)(number + j);
            }
        }
    }
    return best;
}

// Write the largest pixel of each bin, and its number in the plane where argmax is not null.
template <typename T>
__global__ void __launch_bounds__(THREADS, 6)
    largest_pixel(const __grid_constant__ Maps<T> maps, T *out, Strides bins, int *argmax,
                  Strides numbers, const __grid_constant__ Tables<T> tables) {
    const Shape &shape = tables.shape;
    if (!argmax && can_pool_vectors(maps, out, bins, shape))
        return pool_vectors<T, LargestPixel>(maps, out, bins, tables);
    const Strides &map = maps.at[0].strides;
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        const T *plane = maps.at[0].pixels + tables.images[e.k] * map.first + e.c * map.channel;
        int at;
        out[offset_of(e, bins)] =
            largest_of_bin(plane, map, Bin<T>(tables, e.k, e.p, e.q), shape.columns, at);
        if (argmax)
            argmax[offset_of(e, numbers)] = at;
    }
}
