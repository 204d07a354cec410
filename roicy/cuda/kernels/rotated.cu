// These kernels compute roi_align_rotated and its gradients.  On the CPU, pyx/plan/sparse.pxd and
// pyx/methods/sparse.pxd do this.  There are no tables of taps here: a thread finds the samples
// that it needs by itself, with the functions of rules_rotated.h.

static_assert(sizeof(rotated_box) == ROTATED_BYTES, "_launch.py has another size");

// Make all boxes.  A box whose positions are not finite reads nothing.
template <typename T>
__global__ void make_rotated_tables(const __grid_constant__ Tables<T> tables) {
    const Shape &shape = tables.shape;
    for (long long k = thread_number(); k < shape.boxes; k += thread_count()) {
        rotated_box &box = tables.rotated[k];
        Place place = tables.place_of(k);
        const Level &level = tables.at[place.level];
        box.y.bins = shape.ph, box.x.bins = shape.pw;
        box.y.extent = level.rows, box.x.extent = level.columns;
        box.y.scale = box.x.scale = level.scale_y;
        Rules<T>::make_rotated(&box, &tables.rule, tables.box(k));
        bool finite = on_a_map(box.y) && on_a_map(box.x) && box.center_y - box.center_y == 0 &&
                      box.center_x - box.center_x == 0;
        tables.write(k, {finite ? place.image : NO_IMAGE, place.level});
    }
}

// A sample on the map: the pixel at or before it, and how far it is from there.  `moving` is 0 past
// the outer pixels, where weights do not change.
template <typename T> struct Corner {
    int y, x;
    double part_y, part_x, moving_y, moving_x;

    __device__ Corner(const rotated_box &box, T at_y, T at_x) {
        int last_y = box.y.extent - 1, last_x = box.x.extent - 1;
        y = Rules<T>::pixel_before(at_y, box.y.extent, &part_y);
        x = Rules<T>::pixel_before(at_x, box.x.extent, &part_x);
        moving_y = at_y > 0 && at_y < last_y, moving_x = at_x > 0 && at_x < last_x;
    }
    __device__ double weight_y(int i) const { return i ? part_y : 1 - part_y; }
    __device__ double weight_x(int j) const { return j ? part_x : 1 - part_x; }
};

// Call visit(row, sample, corner) for each sample of a bin that lies on the map.
template <typename T, typename F>
__device__ inline void each_sample(const rotated_box &box, int p, int q, F visit) {
    T start_y = Rules<T>::bin_start(&box.y, p), start_x = Rules<T>::bin_start(&box.x, q);
    long long y0, y1, x0, x1;
    Rules<T>::samples_between(&box.y, start_y, box.near_low[0], box.near_high[0], &y0, &y1);
    Rules<T>::samples_between(&box.x, start_x, box.near_low[1], box.near_high[1], &x0, &x1);
    for (long long i = y0; i < y1 && x0 < x1; i++) {
        sample_row row;
        row.at = Rules<T>::sample(&box.y, start_y, i);
        row.start = start_x;
        row.part = Rules<T>::part_of_box(&box.y, p, i);
        row.first = x0, row.stop = x1;
        Rules<T>::keep_on_map(&box, &row);
        for (long long s = row.first; s < row.stop; s++) {
            T xx = Rules<T>::sample(&box.x, start_x, s), yy = (T)row.at;
            visit(
                row, s,
                Corner<T>(box, Rules<T>::turned_y(&box, yy, xx), Rules<T>::turned_x(&box, yy, xx)));
        }
    }
}

__device__ inline double samples_of_bin(const rotated_box &box) {
    return (double)box.y.grid * (double)box.x.grid;
}

// Write the mean of the samples of each bin.
template <typename T>
__global__ void forward_rotated(const __grid_constant__ Maps<T> maps, T *out, Strides bins,
                                const __grid_constant__ Tables<T> tables) {
    const Shape &shape = tables.shape;
    for (long long t = thread_number(); t < outputs(shape); t += thread_count()) {
        Element e = element_of(t, shape);
        const rotated_box &box = tables.rotated[e.k];
        const Map<T> &level = maps.of(tables, e.k);
        const Strides &map = level.strides;
        const T *plane = plane_of(level, tables, e.k, e.c);
        double sum = 0;
        auto add = [&](const sample_row &, long long, const Corner<T> &at) {
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) {
                    double weight = at.weight_y(i) * at.weight_x(j);
                    if (weight != 0)
                        sum += weight * plane[(at.y + i) * map.y + (at.x + j) * map.x];
                }
        };
        if (tables.images[e.k] >= 0)
            each_sample<T>(box, e.p, e.q, add);
        out[offset_of(e, bins)] = sum == 0 ? (T)0 : (T)(sum / samples_of_bin(box));
    }
}

// The weight of a pixel in the mean of a bin, times its number of samples.  Only samples near the
// pixel, along the box's own axes, are looked at.
template <typename T>
__device__ inline double weight_of_pixel(const rotated_box &box, int p, int q, int y, int x,
                                         double own_y, double own_x, double reach) {
    T start_y = Rules<T>::bin_start(&box.y, p), start_x = Rules<T>::bin_start(&box.x, q);
    long long y0, y1, x0, x1;
    double sum = 0;
    Rules<T>::samples_between(&box.y, start_y, own_y - reach, own_y + reach, &y0, &y1);
    Rules<T>::samples_between(&box.x, start_x, own_x - reach, own_x + reach, &x0, &x1);
    for (long long i = y0; i < y1; i++)
        for (long long s = x0; s < x1; s++) {
            T yy = Rules<T>::sample(&box.y, start_y, i), xx = Rules<T>::sample(&box.x, start_x, s);
            T at_y = Rules<T>::turned_y(&box, yy, xx), at_x = Rules<T>::turned_x(&box, yy, xx);
            if (!Rules<T>::is_on_map(&box, at_y, at_x))
                continue;
            Corner<T> at(box, at_y, at_x);
            if (y - at.y >= 0 && y - at.y < 2 && x - at.x >= 0 && x - at.x < 2)
                sum += at.weight_y(y - at.y) * at.weight_x(x - at.x);
        }
    return sum;
}

// Add the gradients of all boxes to each pixel.  A thread takes a pixel of some channels, and goes
// through boxes and bins in order, so that sums have the same bits in every run.
template <typename T>
__global__ void backward_rotated(const T *grad_output, Strides bins,
                                 const __grid_constant__ Maps<T> maps,
                                 const __grid_constant__ Tables<T> tables) {
    constexpr int EACH = 8; // channels of a thread
    const Shape &shape = tables.shape;
    int groups = (shape.channels + EACH - 1) / EACH;
    long long planes = (long long)shape.images * groups, all = 0;
    for (int i = 0; i < maps.count; i++)
        all += planes * maps.at[i].rows * maps.at[i].columns;
    for (long long t = thread_number(); t < all; t += thread_count()) {
        long long rest = t;
        int i = 0;
        for (long long of_level; rest >= (of_level = planes * maps.at[i].rows * maps.at[i].columns);
             i++)
            rest -= of_level;
        const Map<T> &level = maps.at[i];
        const Strides &map = level.strides;
        int x = (int)split(rest, level.columns), y = (int)split(rest, level.rows);
        int c = (int)split(rest, groups) * EACH, image = (int)rest;
        int channels = shape.channels - c < EACH ? shape.channels - c : EACH;
        T sums[EACH] = {};
        for (long long k = 0; k < shape.boxes; k++) {
            const rotated_box &box = tables.rotated[k];
            double reach = 1.5 + Rules<T>::rounding(&box);
            double dy = y - box.center_y, dx = x - box.center_x;
            double own_y = dy * box.cosine + dx * box.sine;
            double own_x = dx * box.cosine - dy * box.sine;
            if (tables.images[k] != image || tables.level_of(k) != i ||
                fabs(own_y) > fabs(box.y.size) / 2 + reach ||
                fabs(own_x) > fabs(box.x.size) / 2 + reach)
                continue;
            for (int p = 0; p < shape.ph; p++)
                for (int q = 0; q < shape.pw; q++) {
                    double weight = weight_of_pixel<T>(box, p, q, y, x, own_y, own_x, reach);
                    if (weight == 0)
                        continue;
                    weight /= samples_of_bin(box);
                    const T *grad = grad_output + offset_of({k, c, p, q}, bins);
                    for (int j = 0; j < channels; j++)
                        sums[j] = fma((T)weight, grad[j * bins.channel], sums[j]);
                }
        }
        T *to = level.pixels + image * map.first + c * map.channel + y * map.y + x * map.x;
        for (int j = 0; j < channels; j++, to += map.channel)
            put(to, sums[j], tables.add);
    }
}

// Write partial sums (boxes, bins and groups, 5) of the gradients with respect to the five numbers
// of a box.
template <typename T>
__global__ void backward_rotated_boxes(const T *grad_output, Strides bins,
                                       const __grid_constant__ Maps<T> maps,
                                       const __grid_constant__ Tables<T> tables) {
    const Shape &shape = tables.shape;
    Shape groups = in_groups(shape, CHANNELS_OF_THREAD);
    for (long long t = thread_number(); t < outputs(groups); t += thread_count()) {
        Element e = element_of(t, groups);
        const rotated_box &box = tables.rotated[e.k];
        const T *grads = grad_output + offset_of(e, bins);
        const Map<T> &level = maps.of(tables, e.k);
        const Strides &map = level.strides;
        const T *plane = plane_of(level, tables, e.k, e.c);
        long long next = channel_step(groups, map);
        double sums[RULE_SLOPES] = {};
        auto visit = [&](const sample_row &row, long long s, const Corner<T> &at) {
            double by_y = 0, by_x = 0; // the gradients with respect to the place of the sample
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) {
                    if (at.y + i >= level.rows || at.x + j >= level.columns)
                        continue;
                    const T *pixel = plane + (at.y + i) * map.y + (at.x + j) * map.x;
                    const T *grad = grads;
                    T sum = 0;
                    for (int c = e.c; c < shape.channels; c += groups.channels) {
                        sum = fma(*grad, *pixel, sum);
                        grad += groups.channels * bins.channel, pixel += next;
                    }
                    by_y += (i ? at.moving_y : -at.moving_y) * at.weight_x(j) * (double)sum;
                    by_x += (j ? at.moving_x : -at.moving_x) * at.weight_y(i) * (double)sum;
                }
            double move_y[RULE_SLOPES], move_x[RULE_SLOPES];
            T xx = Rules<T>::sample(&box.x, (T)row.start, s);
            Rules<T>::motion_of_sample(&box, &row, Rules<T>::part_of_box(&box.x, e.q, s), xx,
                                       move_y, move_x);
            for (int n = 0; n < RULE_SLOPES; n++)
                sums[n] += by_y * move_y[n] + by_x * move_x[n];
        };
        if (tables.images[e.k] >= 0)
            each_sample<T>(box, e.p, e.q, visit);
        for (int n = 0; n < RULE_SLOPES; n++)
            tables.partial_sums[t * RULE_SLOPES + n] =
                sums[n] == 0 ? 0 : sums[n] / samples_of_bin(box);
    }
}
