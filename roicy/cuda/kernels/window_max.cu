// The largest pixel of a bin, and its gradient, as pyx/window_max.pyx; the largest sample, as pyx/sample_max.pyx.

template <typename T>
__global__ void largest_pixel(const T *input, Strides map, T *out, int *argmax, Strides bins, Shape shape, Room room, const int *images, const int *counts,
                              const int *index) {
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        int image = images[e.k];
        const int *count = counts + e.k * (shape.ph + shape.pw);
        int rows = image < 0 ? 0 : count[e.p], columns = count[shape.ph + e.q], at = -1;
        T best = rows && columns ? Limits<T>::lowest : (T)0;
        if (rows && columns) {
            int y = index[slot_of(room, shape, e.k, e.p)], x = index[slot_of(room, shape, e.k, shape.ph + e.q)];
            const T *plane = input + image * map.first + e.c * map.channel;
            for (int i = y; i < y + rows; i++)
                for (int j = x; j < x + columns; j++) {
                    T value = plane[i * map.y + j * map.x];
                    if (value > best) {
                        best = value;
                        at = (int)((long long)i * shape.columns + j);
                    }
                }
        }
        long long to = e.k * bins.first + e.c * bins.channel + e.p * bins.y + e.q * bins.x;
        out[to] = best;
        if (argmax)
            argmax[to] = at;
    }
}

// OWNERS threads share a plane: each adds up what falls on its pixels, in the order of boxes and bins
template <typename T>
__global__ void largest_pixel_backward(const T *grad_output, Strides bins, const int *argmax, Strides at, const T *rows, int columns, const int *given,
                                       T *grad_input, Strides map, Shape shape) {
    long long pixels = (long long)shape.rows * shape.columns;
    for (long long t = thread_number(); t < (long long)shape.images * shape.channels * OWNERS; t += thread_count()) {
        int owner = (int)(t % OWNERS), c = (int)(t / OWNERS % shape.channels), n = (int)(t / OWNERS / shape.channels);
        T *plane = grad_input + n * map.first + c * map.channel;
        for (long long i = owner; i < pixels; i += OWNERS)
            plane[i / shape.columns * map.y + i % shape.columns * map.x] = 0;
        for (long long k = 0; k < shape.boxes; k++) {
            if (image_of(rows, columns, given, (const int *)0, 0, k, shape.images) != n)
                continue;
            for (int p = 0; p < shape.ph; p++)
                for (int q = 0; q < shape.pw; q++) {
                    int i = argmax[k * at.first + c * at.channel + p * at.y + q * at.x];
                    if (i >= 0 && i < pixels && i % OWNERS == owner)
                        plane[i / shape.columns * map.y + i % shape.columns * map.x] += grad_output[k * bins.first + c * bins.channel + p * bins.y + q * bins.x];
                }
        }
    }
}

template <typename T> __device__ inline T larger(T best, T value) { return value > best ? value : best; }

template <typename T>
__global__ void largest_sample(const T *input, Strides map, T *out, Strides bins, Shape shape, Rule rule, const T *rows, int columns, const int *given, T scale,
                               int products) {
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        int image = image_of(rows, columns, given, (const int *)0, 0, e.k, shape.images);
        const T *corners = rows + e.k * columns + columns - 4;
        T start[2] = {0, 0}, size[2] = {0, 0};
        long long grid[2] = {0, 0}, first[2] = {0, 0}, stop[2] = {0, 0};
        for (int axis = 0; axis < 2 && image >= 0; axis++) {  // y, x
            Interval box = interval(rule, scale, corners[1 - axis], corners[3 - axis]);
            size[axis] = (T)box.size / (T)(axis ? shape.pw : shape.ph);
            start[axis] = (T)box.low + (T)(axis ? e.q : e.p) * size[axis];
            if (!(size[axis] - size[axis] == 0 && start[axis] - start[axis] == 0))
                continue;
            grid[axis] = grid_of(rule, size[axis]);
            samples_on_map(start[axis], size[axis], grid[axis], axis ? shape.columns : shape.rows, first[axis], stop[axis]);
        }
        bool some = first[0] < stop[0] && first[1] < stop[1];
        bool outside = stop[0] - first[0] < grid[0] || stop[1] - first[1] < grid[1];
        T best = some && !outside ? Limits<T>::lowest : (T)0;
        const T *plane = input + image * map.first + e.c * map.channel;
        for (long long i = first[0]; some && i < stop[0]; i++) {
            double v = fmin(fmax((double)sample(start[0], size[0], grid[0], i), 0.0), (double)(shape.rows - 1));
            int y = (int)v, below = y + 1 < shape.rows ? y + 1 : y;
            T fy = (T)(v - y);
            for (long long j = first[1]; j < stop[1]; j++) {
                double u = fmin(fmax((double)sample(start[1], size[1], grid[1], j), 0.0), (double)(shape.columns - 1));
                int x = (int)u, right = x + 1 < shape.columns ? x + 1 : x;
                T fx = (T)(u - x);
                T w[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
                T corner[4] = {plane[y * map.y + x * map.x], plane[y * map.y + right * map.x], plane[below * map.y + x * map.x], plane[below * map.y + right * map.x]};
                T sum = w[0] * corner[0];
                if (products)
                    best = larger(best, sum);
                for (int corner_number = 1; corner_number < 4; corner_number++) {
                    if (products)
                        best = larger(best, w[corner_number] * corner[corner_number]);
                    else
                        sum = fma(w[corner_number], corner[corner_number], sum);
                }
                if (!products)
                    best = larger(best, sum);
            }
        }
        out[e.k * bins.first + e.c * bins.channel + e.p * bins.y + e.q * bins.x] = best;
    }
}
