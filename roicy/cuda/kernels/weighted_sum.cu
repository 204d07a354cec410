// Weighted sums of the pixels of a bin, as pyx/weighted_sum.pyx: each thread owns what it writes, so that nothing is atomic and the bits
// are the same from run to run.

template <typename T>
__global__ void forward(const T *input, Strides map, T *out, Strides bins, Shape shape, Room room, const int *images, const int *counts, const int *index,
                        const T *weight) {
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        int image = images[e.k];
        if (image == OTHER_LEVEL)
            continue;
        long long y = slot_of(room, shape, e.k, e.p), x = slot_of(room, shape, e.k, shape.ph + e.q);
        const int *count = counts + e.k * (shape.ph + shape.pw);
        int rows = image < 0 ? 0 : count[e.p], columns = count[shape.ph + e.q];
        const T *plane = input + image * map.first + input_channel(shape, e.c, e.p, e.q) * map.channel;
        T total = 0;
        for (int i = 0; i < rows; i++) {
            const T *row = plane + index[y + i] * map.y;
            T sum = 0;
            for (int j = 0; j < columns; j++)
                sum = fma(weight[x + j], row[index[x + j] * map.x], sum);
            total = fma(weight[y + i], sum, total);
        }
        out[e.k * bins.first + e.c * bins.channel + e.p * bins.y + e.q * bins.x] = columns ? total : (T)0;
    }
}

// windows (boxes, 4): rows y0 to y1 - 1 and columns x0 to x1 - 1 that the bins of a box read, as far as they read any
__global__ void windows_of_boxes(Shape shape, Room room, const int *counts, const int *index, int *windows) {
    for (long long t = thread_number(); t < 2LL * shape.boxes; t += thread_count()) {
        long long k = t / 2;
        int first = t % 2 ? shape.ph : 0, stop = t % 2 ? shape.ph + shape.pw : shape.ph, low = 0, high = 0;
        for (int bin = first; bin < stop; bin++) {
            int count = counts[k * (shape.ph + shape.pw) + bin];
            if (!count)
                continue;
            long long slot = slot_of(room, shape, k, bin);
            low = high == 0 || index[slot] < low ? index[slot] : low;
            high = index[slot + count - 1] >= high ? index[slot + count - 1] + 1 : high;
        }
        windows[2 * t] = low, windows[2 * t + 1] = high;
    }
}

// rows_of: for each image and row, the boxes whose windows hold it, in order; row_counts: how many.  One thread for each.
__global__ void boxes_of_rows(Shape shape, const int *images, const int *windows, int *row_counts, int *rows_of) {
    for (long long t = thread_number(); t < (long long)shape.images * shape.rows; t += thread_count()) {
        int image = (int)(t / shape.rows), row = (int)(t % shape.rows), found = 0;
        for (int k = 0; k < shape.boxes; k++)
            if (images[k] == image && windows[4LL * k] <= row && row < windows[4LL * k + 1])
                rows_of[t * shape.boxes + found++] = k;
        row_counts[t] = found;
    }
}

// The entry of a bin that is this pixel, or -1: they ascend
__device__ inline long long entry_of(const int *index, long long slot, int count, int pixel) {
    if (!count || index[slot] > pixel || index[slot + count - 1] < pixel)
        return -1;
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (index[slot + middle] < pixel)
            low = middle + 1;
        else
            high = middle;
    }
    return index[slot + low] == pixel ? slot + low : -1;
}

// A thread owns a pixel of CHANNELS_TOGETHER channels, or of one channel where each bin has channels of its own
template <typename T>
__global__ void backward(const T *grad_output, Strides bins, T *grad_input, Strides map, Shape shape, Room room, const int *counts, const int *index,
                         const T *weight, const int *windows, const int *row_counts, const int *rows_of, int add) {
    int group = shape.position_sensitive ? shape.ph * shape.pw : 1, together = shape.position_sensitive ? 1 : CHANNELS_TOGETHER;
    long long blocks = ((long long)shape.channels * group + together - 1) / together;
    for (long long t = thread_number(); t < shape.images * blocks * shape.rows * shape.columns; t += thread_count()) {
        long long u = t;
        int x, y;
        long long block;
        if (shape.channels_last) {
            block = split(u, blocks), x = split(u, shape.columns), y = split(u, shape.rows);
        } else {
            x = split(u, shape.columns), y = split(u, shape.rows), block = split(u, blocks);
        }
        long long row = u * shape.rows + y;
        long long first = block * together, all = (long long)shape.channels * group;
        int mine = (int)(all - first < together ? all - first : together), own = (int)(first % group);
        long long channel = first / group;  // of the output
        T sums[CHANNELS_TOGETHER];
        for (int c = 0; c < CHANNELS_TOGETHER; c++)
            sums[c] = 0;
        for (int i = 0; i < row_counts[row]; i++) {
            long long k = rows_of[row * shape.boxes + i];
            if (x < windows[4 * k + 2] || x >= windows[4 * k + 3])  // most boxes of a row
                continue;
            const int *count = counts + k * (shape.ph + shape.pw);
            for (int p = 0; p < shape.ph; p++) {
                if (shape.position_sensitive && p != own / shape.pw)
                    continue;
                long long at_y = entry_of(index, slot_of(room, shape, k, p), count[p], y);
                if (at_y < 0)
                    continue;
                for (int q = 0; q < shape.pw; q++) {
                    if (shape.position_sensitive && q != own % shape.pw)
                        continue;
                    long long at_x = entry_of(index, slot_of(room, shape, k, shape.ph + q), count[shape.ph + q], x);
                    if (at_x < 0)
                        continue;
                    const T *grad = grad_output + k * bins.first + channel * bins.channel + p * bins.y + q * bins.x;
                    T w = weight[at_y] * weight[at_x];
                    for (int c = 0; c < mine; c++)
                        sums[c] = fma(w, grad[c * bins.channel], sums[c]);
                }
            }
        }
        T *to = grad_input + u * map.first + first * map.channel + y * map.y + x * map.x;
        for (int c = 0; c < mine; c++)
            to[c * map.channel] = add ? to[c * map.channel] + sums[c] : sums[c];
    }
}

// parts (boxes, blocks of channels, bins, 4): gradients by x1, y1, x2, y2
template <typename T>
__global__ void backward_boxes(const T *grad_output, Strides bins, const T *input, Strides map, Shape shape, Room room, const int *images, const int *counts,
                               const int *index, const T *weight, const T *slope_low, const T *slope_high, double *parts) {
    int blocks = (shape.channels + CHANNELS_OF_PART - 1) / CHANNELS_OF_PART;
    for (long long t = thread_number(); t < (long long)shape.boxes * blocks * shape.ph * shape.pw; t += thread_count()) {
        long long u = t;
        int q = split(u, shape.pw), p = split(u, shape.ph), block = split(u, blocks);
        long long k = u, y = slot_of(room, shape, k, p), x = slot_of(room, shape, k, shape.ph + q);
        int image = images[k];
        const int *count = counts + k * (shape.ph + shape.pw);
        int rows = image < 0 ? 0 : count[p], columns = count[shape.ph + q];
        double total[4] = {0, 0, 0, 0};
        for (int c = block * CHANNELS_OF_PART; c < shape.channels && c < (block + 1) * CHANNELS_OF_PART; c++) {
            const T *plane = input + image * map.first + input_channel(shape, c, p, q) * map.channel;
            T sums[4] = {0, 0, 0, 0};
            for (int i = 0; i < rows; i++) {
                const T *row = plane + index[y + i] * map.y;
                T value = 0, low = 0, high = 0;
                for (int j = 0; j < columns; j++) {
                    T pixel = row[index[x + j] * map.x];
                    value = fma(weight[x + j], pixel, value);
                    low = fma(slope_low[x + j], pixel, low);
                    high = fma(slope_high[x + j], pixel, high);
                }
                sums[0] = fma(weight[y + i], low, sums[0]);
                sums[1] = fma(slope_low[y + i], value, sums[1]);
                sums[2] = fma(weight[y + i], high, sums[2]);
                sums[3] = fma(slope_high[y + i], value, sums[3]);
            }
            if (rows && columns) {
                T grad = grad_output[k * bins.first + c * bins.channel + p * bins.y + q * bins.x];
                for (int edge = 0; edge < 4; edge++)
                    total[edge] += (double)(grad * sums[edge]);
            }
        }
        for (int edge = 0; edge < 4; edge++)
            parts[t * 4 + edge] = total[edge];
    }
}

// grad_boxes (boxes, columns), of which the last four are corners = the sums of parts
template <typename T> __global__ void add_parts(const double *parts, Shape shape, const int *images, T *grad_boxes, int columns) {
    long long each = (long long)((shape.channels + CHANNELS_OF_PART - 1) / CHANNELS_OF_PART) * shape.ph * shape.pw;
    for (long long t = thread_number(); t < (long long)shape.boxes * columns; t += thread_count()) {
        long long k = t / columns;
        int edge = (int)(t % columns) - (columns - 4);
        double sum = 0;
        if (images[k] == OTHER_LEVEL)
            continue;
        for (long long i = 0; edge >= 0 && i < each; i++)
            sum += parts[(k * each + i) * 4 + edge];
        grad_boxes[t] = (T)sum;
    }
}
