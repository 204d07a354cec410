// These kernels pool bin by bin whatever the kernels of planes do not take: channels that are last
// (NHWC), bins that have a channel of their own each, planes of 2**31 elements or more, and argmax.
// On the CPU, pyx/methods/pixels.pxd and pyx/methods/channels_per_bin.pxd do this, and
// pyx/passes/max_pool.pxd.

// Write the weighted sums of a bin to `totals`, for EACH channels that lie `next` elements apart.
// Only the first `mine` of these channels exist.
template <int EACH, typename T>
__device__ inline void sums_of_bin(const T *pixels, const Strides &map, long long next, int mine,
                                   const Taps<T> &down, const Taps<T> &along, T (&totals)[EACH]) {
    UNROLL(e, EACH)
        totals[e] = 0;
    for (int i = 0; i < down.count; i++) {
        Tap<T> y = down.of[i];
        const T *row = pixels + y.pixel * map.y;
        T sums[EACH] = {};
        for (int j = 0; j < along.count; j++) {
            Tap<T> x = along.of[j];
            const T *at = row + x.pixel * map.x;
            UNROLL(e, EACH)
                if (e < mine)
                    sums[e] = fma(x.weight, __ldg(at + e * next), sums[e]);
        }
        UNROLL(e, EACH)
            totals[e] = fma(y.weight, sums[e], totals[e]);
    }
}

// Compute the weighted sum of each bin.  A thread takes up to 4 channels of a bin.
template <typename T>
__global__ void __launch_bounds__(THREADS, 6)
    forward_bins(const __grid_constant__ Maps<T> maps, T *out, Strides bins,
                 const __grid_constant__ Tables<T> tables) {
    constexpr int EACH = 4;
    const Shape &shape = tables.shape, groups = in_groups(shape, EACH);
    for (long long t = thread_number(); t < outputs(groups); t += thread_count()) {
        Element e = element_of(t, groups);
        const Map<T> &level = maps.of(tables, e.k);
        const T *pixels = plane_of(level, tables, e.k, input_channel(shape, e.c, e.p, e.q));
        Taps<T> down(tables, e.k, e.p), along(tables, e.k, shape.ph + e.q);
        int mine = (shape.channels - e.c + groups.channels - 1) / groups.channels;
        T totals[EACH];
        sums_of_bin<EACH>(pixels, level.strides, channel_step(groups, level.strides), mine, down,
                          along, totals);
        T *to = out + offset_of(e, bins);
        UNROLL(i, EACH)
            if (i < mine)
                to[i * groups.channels * bins.channel] = totals[i];
    }
}

// Return the largest pixel of a bin, and its number in the plane in `at`.
template <typename T>
__device__ inline T largest_of_bin(const T *plane, const Strides &map, const Taps<T> &down,
                                   const Taps<T> &along, int columns, int &at) {
    at = -1;
    if (!down.count || !along.count)
        return 0;
    int y = down.of[0].pixel, x = along.of[0].pixel;
    T best = Limits<T>::lowest;
    for (int i = y; i < y + down.count; i++) {
        const T *pixel = plane + i * map.y + x * map.x;
        // The number fits into int where argmax is asked for; otherwise it may wrap.
        unsigned number = (unsigned)i * columns + x;
#pragma unroll 4
        for (int j = 0; j < along.count; j++, pixel += map.x) {
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
    const Strides &map = maps.at[0].strides;
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        const T *plane = plane_of(maps.at[0], tables, e.k, e.c);
        Taps<T> down(tables, e.k, e.p), along(tables, e.k, shape.ph + e.q);
        int at;
        out[offset_of(e, bins)] = largest_of_bin(plane, map, down, along, maps.at[0].columns, at);
        if (argmax)
            argmax[offset_of(e, numbers)] = at;
    }
}
