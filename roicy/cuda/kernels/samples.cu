// This kernel computes the largest bilinear sample of a bin.  On the CPU,
// pyx/passes/max_sample.pxd does this.

// The samples of a bin along one axis: the first, and which of them are on the map.
template <typename T> struct Samples {
    box_axis axis;
    T start;
    long long first, stop;

    __device__ Samples(const box_axis &axis, int p) : axis(axis), start(0), first(0), stop(0) {
        if (on_a_map(axis)) {
            start = Rules<T>::bin_start(&axis, p);
            Rules<T>::samples_on_map(&axis, start, &first, &stop);
        }
    }
    // Return whether there are samples outside the map.
    __device__ bool leave_map() const { return stop - first < axis.grid; }
};

template <typename T> __device__ inline T larger(T best, T value) {
    return value > best ? value : best;
}

// Return the largest sample of a bin.  If `products`, the four weighted pixels of a sample are
// compared by themselves, in place of their sum.
template <typename T>
__device__ inline T largest_of_samples(const Samples<T> &down, const Samples<T> &along,
                                       const T *plane, const Strides &map, bool products) {
    if (down.first >= down.stop || along.first >= along.stop)
        return 0;
    T best = down.leave_map() || along.leave_map() ? (T)0 : Limits<T>::lowest;
    for (long long i = down.first; i < down.stop; i++) {
        T fy, fx;
        int y = Rules<T>::sample_pixel(&down.axis, down.start, i, &fy);
        int below = y + 1 < down.axis.extent ? y + 1 : y;
        for (long long j = along.first; j < along.stop; j++) {
            int x = Rules<T>::sample_pixel(&along.axis, along.start, j, &fx);
            int right = x + 1 < along.axis.extent ? x + 1 : x;
            T w[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
            T corner[4] = {plane[y * map.y + x * map.x], plane[y * map.y + right * map.x],
                           plane[below * map.y + x * map.x], plane[below * map.y + right * map.x]};
            T sum = w[0] * corner[0];
            if (products)
                best = larger(best, sum);
            for (int n = 1; n < 4; n++) {
                if (products)
                    best = larger(best, w[n] * corner[n]);
                else
                    sum = fma(w[n], corner[n], sum);
            }
            if (!products)
                best = larger(best, sum);
        }
    }
    return best;
}

// Write the largest bilinear sample of each bin.  There are no tables.
template <typename T>
__global__ void largest_sample(const __grid_constant__ Maps<T> maps, T *out, Strides bins,
                               const __grid_constant__ Tables<T> tables, int products) {
    const Map<T> &map = maps.at[0];
    const Level &level = tables.at[0];
    for (long long t = thread_number(); t < outputs(tables.shape); t += thread_count()) {
        Element e = element_of(t, tables.shape);
        int image = tables.image_of(e.k);
        T best = 0;
        if (image >= 0) {
            Samples<T> down(axis_of(tables, e.k, level, false), e.p);
            Samples<T> along(axis_of(tables, e.k, level, true), e.q);
            const T *plane = map.pixels + image * map.strides.first + e.c * map.strides.channel;
            best = largest_of_samples(down, along, plane, map.strides, products);
        }
        out[offset_of(e, bins)] = best;
    }
}
