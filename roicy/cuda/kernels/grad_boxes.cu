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
// x2, y2.  A thread computes a bin, 4 channels at a time.  If channels are last, a warp computes a
// bin, and its lanes are channels.
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
        const Map<T> &level = maps.of(tables, k);
        const Strides &map = level.strides;
        const T *pixels = plane_of(level, tables, k, input_channel(shape, first + lane, p, q));
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

// Add up partial_sums (boxes, each, numbers), and write the sums to the last columns of grad_boxes
// (boxes, columns), which belong to the numbers of a box.  The column before them, if there is one,
// becomes 0.  A warp takes a box at a time.
template <typename T>
__global__ void add_partial_sums(const double *partial_sums, long long each, int numbers,
                                 const __grid_constant__ Tables<T> tables, T *grad_boxes,
                                 int columns) {
    int lane = lane_number();
    for (long long k = warp_number(); k < tables.shape.boxes; k += warp_count()) {
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
