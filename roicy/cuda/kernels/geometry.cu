// These kernels look at the boxes of a call once, before other kernels pool from the maps.  They
// say from which image and which map each box is pooled, and make the axis tables.  rules.h says
// where bins lie.

// What the set-up of a call needs to know.  The long numbers say where arrays lie in the scratch
// memory of the call.  They are -1 where an array is not wanted.
struct Setup {
    struct rule rule;
    Shape shape;
    Room room;
    int columns, numbers; // of the rows of boxes; numbers are 4, or 5 of rotated boxes
    int lanes;            // that take one axis of a box together, a power of two
    long long images, levels, counts, taps, slope_low, slope_high, windows;
    Pyramid pyramid;
};

// Return the image of box k, or NO_IMAGE if the box reads nothing.  Rows that hold only the numbers
// of a box are those of the first image, unless images are given.
template <typename T>
__device__ inline int image_of(const T *rows, int columns, const int *given, long long k,
                               int images, int numbers = 4) {
    const T *row = rows + k * columns;
    for (int i = columns - numbers; i < columns; i++)
        if (!(fabs((double)row[i]) <= (double)-Limits<T>::lowest))
            return NO_IMAGE;
    if (given)
        return given[k];
    double image = columns > numbers ? row[0] : (T)0;
    return image >= 0 && image < images && image == floor(image) ? (int)image : NO_IMAGE;
}

// Return the map from which a box is pooled, counted from the finest one, by the rule of level_of
// in pyx/plan/boxes.pxd.  Numbers are rounded as there.
template <typename T>
__device__ inline int level_of(const T *row, int columns, int numbers, const Pyramid &pyramid) {
    if (pyramid.last == 0)
        return 0;
    bool turned = numbers == 5;
    const T *corners = row + columns - numbers;
    T width = corners[2] - (turned ? (T)0 : corners[0]);
    T height = corners[3] - (turned ? (T)0 : corners[1]);
    width = width > 0 ? width : (T)0, height = height > 0 ? height : (T)0;
    T size = sqrt(width * height) / (T)pyramid.canonical_scale;
    T wanted = (T)pyramid.canonical_level + (T)log2((double)size);
    wanted = (T)floor((double)(wanted + (T)pyramid.close)) - (T)pyramid.finest;
    // A box whose size is not a number belongs to the finest map.
    if (!(wanted > 0))
        return 0;
    return wanted < pyramid.last ? (int)wanted : pyramid.last;
}

// The place of a box: an image and a map of the launch.
struct Place {
    int image, level;
};

template <typename T>
__device__ inline Place place_of(const T *rows, const int *given, const Setup &setup, long long k) {
    const Pyramid &pyramid = setup.pyramid;
    int level = level_of(rows + k * setup.columns, setup.columns, setup.numbers, pyramid);
    level -= pyramid.first;
    if (level < 0 || level >= pyramid.count)
        return {OTHER_LEVEL, 0};
    int image = image_of(rows, setup.columns, given, k, setup.shape.images, setup.numbers);
    bool has_pixels = pyramid.at[level].rows && pyramid.at[level].columns;
    return {has_pixels ? image : NO_IMAGE, level};
}

// Return the axis y of a box, or its axis x where x is 1.  corners are x1, y1, x2, y2.
template <typename T>
__device__ inline box_axis axis_of(const rule &rule, double scale, int bins, int extent, int x,
                                   const T *corners) {
    box_axis axis;
    Rules<T>::make_axis(&axis, &rule, scale, bins, extent, corners[x ? 0 : 1], corners[x ? 2 : 3]);
    return axis;
}

// Return whether positions on the map are finite.  They can overflow although the corners are
// finite.
__device__ inline bool on_a_map(const box_axis &axis) {
    return axis.low - axis.low == 0 && axis.bin_size - axis.bin_size == 0;
}

// Write the taps of a bin, and return how many there are.
template <typename T>
__device__ inline int taps_of_bin(const rule &rule, const box_axis &axis, int p, Tap<T> *taps,
                                  T *slope_low, T *slope_high) {
    if (rule.kind != RULE_QUANTISED) {
        taps_out out = {0, (int *)0, taps, slope_low, slope_high};
        Rules<T>::bin_taps(&rule, &axis, p, &out);
        return (int)out.count;
    }
    int first, stop; // the tap holds the first pixel, and the count says how many
    Rules<T>::quantised_bin(&axis, p, axis.extent, &first, &stop);
    if (first >= stop)
        return 0;
    *taps = {first, 0};
    return stop - first;
}

// Write the place of each box, and the taps of each bin with their count.  Slopes are written if
// SLOPES.  Some lanes of a warp take one axis of a box, and each of them takes a bin at a time.
template <typename T, bool SLOPES>
__device__ inline void make_tables(const T *rows, const int *given, char *scratch,
                                   const Setup &setup) {
    const Shape &shape = setup.shape;
    const Room &room = setup.room;
    int *images = (int *)(scratch + setup.images), *levels = (int *)(scratch + setup.levels);
    int *counts = (int *)(scratch + setup.counts), *windows = (int *)(scratch + setup.windows);
    Tap<T> *taps = (Tap<T> *)(scratch + setup.taps);
    T *slope_low = (T *)(scratch + setup.slope_low),
      *slope_high = (T *)(scratch + setup.slope_high);
    int lanes = setup.lanes, lane = lane_number() % lanes, of_warp = LANES / lanes;
    for (long long first = warp_number() * of_warp; first < 2LL * shape.boxes;
         first += warp_count() * of_warp) {
        long long t = first + lane_number() / lanes, k = t / 2;
        int x = (int)(t % 2), bins = x ? shape.pw : shape.ph;
        bool exists = k < shape.boxes;
        Place place = {NO_IMAGE, 0};
        if (exists)
            place = place_of(rows, given, setup, k);
        const Level &level = setup.pyramid.at[place.level];
        box_axis axis = axis_of(setup.rule, x ? level.scale_x : level.scale_y, bins,
                                x ? level.columns : level.rows, x,
                                rows + (exists ? k : 0) * setup.columns + setup.columns - 4);
        bool reads = place.image >= 0 && on_a_map(axis);
        if (exists && x == 0 && lane == 0) {
            images[k] = place.image;
            if (setup.levels >= 0)
                levels[k] = place.level;
        }
        int low = axis.extent, high = 0;
        for (int p = lane; p < bins && exists; p += lanes) {
            int bin = x ? shape.ph + p : p, count = 0;
            long long slot = slot_of(room, shape, k, bin);
            if (reads)
                count = taps_of_bin(setup.rule, axis, p, taps + slot,
                                    SLOPES ? slope_low + slot : (T *)0,
                                    SLOPES ? slope_high + slot : (T *)0);
            counts[k * (shape.ph + shape.pw) + bin] = count;
            if (count && setup.windows >= 0) {
                int begin = taps[slot].pixel, end = taps[slot + count - 1].pixel + 1;
                low = begin < low ? begin : low, high = end > high ? end : high;
            }
        }
        if (setup.windows < 0)
            continue;
        join_spans(low, high, lanes);
        // The bins read pixels low to high - 1.  Where they read none, both numbers are 0.
        if (exists && lane == 0)
            windows[2 * t] = high ? low : 0, windows[2 * t + 1] = high;
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 4)
    tables(const T *rows, const int *given, char *scratch, const __grid_constant__ Setup setup) {
    make_tables<T, false>(rows, given, scratch, setup);
}

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 4 : 3)
    tables_with_slopes(const T *rows, const int *given, char *scratch,
                       const __grid_constant__ Setup setup) {
    make_tables<T, true>(rows, given, scratch, setup);
}
