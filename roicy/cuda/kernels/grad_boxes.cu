// These kernels compute gradients of the boxes from those of weighted sums.  On the CPU,
// pyx/passes/grad_boxes.pxd does this.  They write partial sums, which add_partial_sums adds up.

// The taps of a bin of one axis, and the slopes of their weights: the derivatives with respect to
// the low and to the high edge of the box.
template <typename T> struct Slopes : Taps<T> {
    const T *low, *high;

    __device__ Slopes(const Tables<T> &tables, long long k, int bin)
        : Taps<T>(tables, k, bin), low(tables.slope_low + tables.slot_of(k, bin)),
          high(tables.slope_high + tables.slot_of(k, bin)) {}
};

// Write the derivatives of a bin with respect to x1, y1, x2, y2 to `sums`, for EACH channels that
// lie `next` elements apart.  Only the first `mine` of these channels exist.
template <int EACH, typename T>
__device__ inline void slopes_of_bin(const T *pixels, const Strides &map, long long next, int mine,
                                     const Slopes<T> &y, const Slopes<T> &x, T (&sums)[EACH][4]) {
    UNROLL(e, EACH)
        sums[e][0] = sums[e][1] = sums[e][2] = sums[e][3] = 0;
    for (int i = 0; i < y.count; i++) {
        Tap<T> of_row = y.of[i];
        T row_low = y.low[i], row_high = y.high[i], value[EACH], low[EACH], high[EACH];
        const T *row = pixels + of_row.pixel * map.y;
        UNROLL(e, EACH)
            value[e] = low[e] = high[e] = 0;
        for (int j = 0; j < x.count; j++) {
            Tap<T> of_column = x.of[j];
            T column_low = x.low[j], column_high = x.high[j];
            const T *at = row + of_column.pixel * map.x;
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

// Write partial sums (boxes, bins and groups, 4) of the gradients with respect to x1, y1, x2, y2.
// A thread computes a bin and a group, 4 channels at a time.
template <typename T>
__global__ void __launch_bounds__(THREADS)
    backward_boxes(const T *grad_output, Strides bins, const __grid_constant__ Maps<T> maps,
                   const __grid_constant__ Tables<T> tables) {
    constexpr int EACH = 4;
    const Shape &shape = tables.shape, groups = in_groups(shape, CHANNELS_OF_THREAD);
    for (long long t = thread_number(); t < outputs(groups); t += thread_count()) {
        Element e = element_of(t, groups);
        Slopes<T> y(tables, e.k, e.p), x(tables, e.k, shape.ph + e.q);
        const Map<T> &level = maps.of(tables, e.k);
        const Strides &map = level.strides;
        const T *pixels = plane_of(level, tables, e.k, input_channel(shape, e.c, e.p, e.q));
        const T *grads = grad_output + offset_of(e, bins);
        long long next = channel_step(groups, map);
        double total[4] = {0, 0, 0, 0};
        for (int c = e.c; c < shape.channels && y.count && x.count; c += EACH * groups.channels) {
            T sums[EACH][4];
            int mine = (shape.channels - c + groups.channels - 1) / groups.channels;
            slopes_of_bin<EACH>(pixels, map, next, mine, y, x, sums);
            UNROLL(i, EACH)
                if (i < mine) {
                    T grad = grads[i * groups.channels * bins.channel];
                    UNROLL(edge, 4)
                        total[edge] += (double)(grad * sums[i][edge]);
                }
            pixels += EACH * next;
            grads += EACH * groups.channels * bins.channel;
        }
        UNROLL(edge, 4)
            tables.partial_sums[t * 4 + edge] = total[edge];
    }
}

// Add up the partial sums (boxes, each, numbers), and write the sums to the last columns of
// grad_boxes (boxes, columns), which belong to the numbers of a box.  The column before them, if
// there is one, becomes 0.  A warp takes a box at a time.
template <typename T>
__global__ void add_partial_sums(const __grid_constant__ Tables<T> tables, T *grad_boxes) {
    Shape groups = in_groups(tables.shape, CHANNELS_OF_THREAD);
    long long each = (long long)groups.channels * groups.ph * groups.pw;
    int numbers = tables.numbers, columns = tables.columns;
    for (long long k = warp_number(); k < tables.shape.boxes; k += warp_count()) {
        T *to = grad_boxes + k * columns + columns - numbers;
        for (int number = 0; number < numbers; number++) {
            double sum = 0;
            for (long long i = lane_number(); i < each; i += LANES)
                sum += tables.partial_sums[(k * each + i) * numbers + number];
            for (int other = 1; other < LANES; other *= 2)
                sum += __shfl_xor_sync(ALL, sum, other);
            if (lane_number() == 0)
                to[number] = (T)sum;
        }
        if (lane_number() == 0 && columns > numbers)
            to[-1] = 0;
    }
}
