// From boxes to axis tables, one thread for each bin of each axis: as pyx/geometry.pyx, whose text says why.

struct Interval {
    double low, size;
    bool clamped;
};

template <typename T> __device__ inline Interval interval(const Rule &rule, T scale, T low, T high) {
    Interval box;
    box.clamped = false;
    if (rule.kind >= UNIFORM) {
        const double far = 1e15;
        T start = (T)fmin(fmax(round((double)(low * scale)), -far), far), end = (T)fmin(fmax(round((double)(high * scale)), -far), far);
        box.low = start;
        box.size = fmax((double)end - (double)start + rule.inclusive, 1.0);
        return box;
    }
    T offset = rule.kind == SAMPLED && rule.aligned ? (T)0.5 : (T)0;
    T start = low * scale - offset, end = high * scale - offset, size = end - start;
    if (rule.kind == SAMPLED && rule.at_least_one && size < 1) {
        size = 1;
        box.clamped = true;
    }
    box.low = start;
    box.size = size;
    return box;
}

template <typename T> struct Bins {  // one axis of one box
    T low, size;
    int count, extent;
    double scale;
    bool clamped;
};

template <typename T> struct Entries {
    Tap<T> *taps;
    T *slope_low, *slope_high;
    int count;

    __device__ void put(int pixel, double value, double low, double high) {
        taps[count] = {pixel, (T)value};
        if (slope_low) {
            slope_low[count] = (T)low;
            slope_high[count] = (T)high;
        }
        count++;
    }
};

template <typename T> __device__ inline T sample(T start, T size, long long grid, long long s) {
    if (size < 0)
        s = grid - 1 - s;
    return start + ((T)s + (T)0.5) * size / (T)grid;
}

template <typename T>
__device__ inline long long first_sample(T start, T size, long long grid, long long low, long long high, double bound, bool above) {
    while (low < high) {
        long long middle = low + (high - low) / 2;
        double v = sample(start, size, grid, middle);
        if (v > bound || (v == bound && !above))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

template <typename T> __device__ inline long long grid_of(const Rule &rule, T size) {
    return rule.sampling_ratio > 0 ? rule.sampling_ratio : (long long)fmax(fmin(ceil((double)size), 4.0e18), 0.0);
}

// Samples first .. stop - 1 of a bin lie on the map
template <typename T> __device__ inline void samples_on_map(T start, T size, long long grid, int extent, long long &first, long long &stop) {
    first = 0;
    stop = grid;
    if (grid <= 0)
        return;
    if (sample(start, size, grid, 0LL) < -1)
        first = first_sample(start, size, grid, 0, grid, -1, false);
    if (first < stop && sample(start, size, grid, stop - 1) > extent)
        stop = first_sample(start, size, grid, first, grid, extent, true);
}

template <typename T> __device__ void sampled_bin(const Rule &rule, const Bins<T> &axis, int p, Entries<T> &entries) {
    long long grid = grid_of(rule, axis.size), s, stop;
    T start = axis.low + (T)p * axis.size;
    samples_on_map(start, axis.size, grid, axis.extent, s, stop);
    if (s >= stop)
        return;
    int last = axis.extent - 1, at = -1;
    bool dense = stop - s > 64 && stop - s > 2 * (sample(start, axis.size, grid, stop - 1) - sample(start, axis.size, grid, s) + 1);
    double here = 0, here_low = 0, here_high = 0, right = 0, right_low = 0, right_high = 0, n = (double)grid;
    while (s < stop) {
        double v = sample(start, axis.size, grid, s), fraction = 0, slope = 0;
        long long end = s + 1;
        if (dense) {
            if (v <= 0)
                end = first_sample(start, axis.size, grid, end, stop, 0, true);
            else if (v >= last)
                end = stop;
            else
                end = first_sample(start, axis.size, grid, end, stop, fmin(floor(v) + 1, (double)last), false);
        }
        double count = (double)(end - s);
        int pixel;
        if (v <= 0) {
            pixel = 0;
        } else if (v >= last) {
            pixel = last;
        } else {
            pixel = (int)v;
            double u = end == s + 1 ? v : 0.5 * (v + sample(start, axis.size, grid, end - 1));
            fraction = count * (u - pixel);
            slope = count;
        }
        double r = ((double)(s + end) / 2) / n;
        r = axis.clamped ? 0 : (p + (axis.size < 0 ? 1 - r : r)) / axis.count;
        double r_slope = slope * r * axis.scale;
        slope = axis.clamped ? slope * axis.scale : slope * (1 - r) * axis.scale;
        if (pixel != at) {
            if (at >= 0) {
                entries.put(at, here / n, here_low / n, here_high / n);
                if (pixel != at + 1 && at < last) {
                    entries.put(at + 1, right / n, right_low / n, right_high / n);
                    right = right_low = right_high = 0;
                }
            }
            here = right, here_low = right_low, here_high = right_high;
            right = right_low = right_high = 0;
            at = pixel;
        }
        here += count - fraction, here_low -= slope, here_high -= r_slope;
        right += fraction, right_low += slope, right_high += r_slope;
        s = end;
    }
    entries.put(at, here / n, here_low / n, here_high / n);
    if (at < last)
        entries.put(at + 1, right / n, right_low / n, right_high / n);
}

__device__ inline double hat(double u) { return fmax(0.0, u > 0 ? 1 - u : 1 + u); }

template <typename T> __device__ void integrated_put(const Bins<T> &axis, Entries<T> &entries, int pixel, double mean, double a, double b, int p) {
    double at_a = hat(a - pixel), at_b = hat(b - pixel);
    double from_low = (mean - at_a * (axis.count - p) + at_b * (axis.count - p - 1)) / axis.count;
    double from_high = (-mean - at_a * p + at_b * (p + 1)) / axis.count;
    entries.put(pixel, mean, from_low * axis.scale / axis.size, from_high * axis.scale / axis.size);
}

template <typename T> __device__ void integrated_bin(const Bins<T> &axis, int p, Entries<T> &entries) {
    T start = axis.low + (T)p * axis.size;
    double a = start, b = (T)(start + axis.size), far = 0, size = axis.size;
    if (!(b > a) || b <= -1 || a >= axis.extent)
        return;
    int pixel = (int)floor(fmax(a, -1.0));
    for (; pixel < axis.extent && pixel < b; pixel++) {
        double left = fmax(a, (double)pixel), right = fmin(b, (double)pixel + 1), share = 0.5 * ((right - left) / size);
        double near = share * ((pixel + 1 - left) + (pixel + 1 - right)) + far;
        far = share * ((left - pixel) + (right - pixel));
        if (pixel >= 0)
            integrated_put(axis, entries, pixel, near, a, b, p);
    }
    if (far > 0 && pixel < axis.extent)
        integrated_put(axis, entries, pixel, far, a, b, p);
}

template <typename T> __device__ inline void quantised_bin(const Bins<T> &axis, double low, int p, int extent, int &first, int &stop) {
    first = (int)fmin(fmax(floor((double)((T)p * axis.size)) + low, 0.0), (double)extent);
    stop = (int)fmin(fmax(ceil((double)((T)(p + 1) * axis.size)) + low, 0.0), (double)extent);
}

// The image of box k, if it has one and its corners are numbers
template <typename T> __device__ inline int image_of(const T *rows, int columns, const int *given, const int *levels, int level, long long k, int images) {
    const T *row = rows + k * columns;
    if (levels && levels[k] != level)
        return OTHER_LEVEL;
    for (int i = columns - 4; i < columns; i++)
        if (!(fabs((double)row[i]) <= (double)-Limits<T>::lowest))
            return NO_IMAGE;
    if (given)
        return given[k];
    double image = row[0];
    return image >= 0 && image < images && image == floor(image) ? (int)image : NO_IMAGE;
}

template <typename T>
__global__ void tables(const T *rows, int columns, const int *given, const int *levels, int level, Rule rule, Shape shape, Room room, T scale, int *images,
                       int *counts, Tap<T> *taps, T *slope_low, T *slope_high) {
    int bins = shape.ph + shape.pw;
    for (long long t = thread_number(); t < (long long)shape.boxes * bins; t += thread_count()) {
        long long k = t / bins;
        int bin = (int)(t % bins), x = bin >= shape.ph, p = x ? bin - shape.ph : bin;
        int image = image_of(rows, columns, given, levels, level, k, shape.images);
        if (bin == 0)
            images[k] = image;
        long long slot = slot_of(room, shape, k, bin);
        const T *corners = rows + k * columns + columns - 4;
        Interval box = interval(rule, scale, corners[x ? 0 : 1], corners[x ? 2 : 3]);
        Bins<T> axis;
        axis.count = x ? shape.pw : shape.ph;
        axis.extent = x ? shape.columns : shape.rows;
        axis.low = (T)box.low;
        axis.size = (T)box.size / (T)axis.count;
        axis.scale = scale;
        axis.clamped = box.clamped;
        Entries<T> entries = {taps + slot, slope_low ? slope_low + slot : (T *)0, slope_high ? slope_high + slot : (T *)0, 0};
        int first = 0, stop = 0;
        // a corner may be a number and its place on the map not
        if (image >= 0 && axis.low - axis.low == 0 && axis.size - axis.size == 0) {
            if (rule.kind == SAMPLED) {
                sampled_bin(rule, axis, p, entries);
            } else if (rule.kind == INTEGRATED) {
                integrated_bin(axis, p, entries);
            } else {
                quantised_bin(axis, box.low, p, rule.kind == UNIFORM ? axis.extent - 1 : axis.extent, first, stop);
                if (rule.kind == UNIFORM) {
                    for (int pixel = first; pixel < stop; pixel++)
                        entries.put(pixel, 1.0 / (double)(stop - first), 0, 0);
                } else if (first < stop) {  // first pixel and how many
                    entries.taps[0].pixel = first;
                    entries.count = stop - first;
                }
            }
        }
        counts[t] = entries.count;
    }
}
