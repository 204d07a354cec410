// These kernels look at the boxes of a call once, before other kernels pool from the maps.  They
// say from which image and which map each box is pooled, and make the axis tables.  rules.h says
// where bins lie.

// The boxes as the caller gave them.
template <typename T> struct Given {
    const T *rows;
    const int *images;    // null where column 0 of the rows holds the images, if there is one
    int columns, numbers; // of a row; the last 4 numbers are the box, or 5 of a rotated box

    // Return the numbers of box k.
    __device__ const T *box(long long k) const { return rows + k * columns + columns - numbers; }
};

// The levels of a call.
struct Pyramid {
    struct level_rule rule; // which gives each box a level
    Level at[MOST_LEVELS];
};

// What the set-up of a call needs to know besides.
struct Setup {
    struct rule rule;
    int lanes; // that take one axis of a box together, a power of two
    Pyramid pyramid;
};

// Return the image of box k, or NO_IMAGE if the box reads nothing.  Rows that hold only the numbers
// of a box are those of the first image, unless images are given.
template <typename T>
__device__ inline int image_of(const Given<T> &given, long long k, int images) {
    const T *box = given.box(k);
    for (int i = 0; i < given.numbers; i++)
        if (!(fabs((double)box[i]) <= (double)-Limits<T>::lowest))
            return NO_IMAGE;
    if (given.images)
        return given.images[k];
    double image = given.columns > given.numbers ? box[-1] : (T)0;
    return image >= 0 && image < images && image == floor(image) ? (int)image : NO_IMAGE;
}

// The place of a box: an image and a map.
struct Place {
    int image, level;
};

template <typename T>
__device__ inline Place place_of(const Given<T> &given, const Pyramid &pyramid, long long k,
                                 int images) {
    int level = Rules<T>::level_of(&pyramid.rule, given.box(k), given.numbers);
    bool has_pixels = pyramid.at[level].rows && pyramid.at[level].columns;
    return {has_pixels ? image_of(given, k, images) : NO_IMAGE, level};
}

// Return the axis y of an upright box, or its axis x.
template <typename T>
__device__ inline box_axis axis_of(const rule &rule, const Level &level, const Shape &shape,
                                   bool along_x, const T *corners) {
    box_axis axis;
    Rules<T>::make_axis(&axis, &rule, along_x ? level.scale_x : level.scale_y,
                        along_x ? shape.pw : shape.ph, along_x ? level.columns : level.rows,
                        corners[along_x ? 0 : 1], corners[along_x ? 2 : 3]);
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

// Write the place of each box, and the taps of each bin with their count, and with slopes if these
// are wanted.  Some lanes of a warp take one axis of a box, and each of them takes a bin at a time.
template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 4 : 3)
    tables(Given<T> given, const __grid_constant__ Tables<T> tables,
           const __grid_constant__ Setup setup) {
    const Shape &shape = tables.shape;
    int lanes = setup.lanes, lane = lane_number() % lanes, of_warp = LANES / lanes;
    for (long long first = warp_number() * of_warp; first < 2LL * shape.boxes;
         first += warp_count() * of_warp) {
        long long t = first + lane_number() / lanes, k = t / 2;
        bool along_x = t % 2, exists = k < shape.boxes;
        Place place = {NO_IMAGE, 0};
        if (exists)
            place = place_of(given, setup.pyramid, k, shape.images);
        box_axis axis = axis_of(setup.rule, setup.pyramid.at[place.level], shape, along_x,
                                given.box(exists ? k : 0));
        bool reads = place.image >= 0 && on_a_map(axis);
        if (exists && !along_x && lane == 0) {
            tables.images[k] = place.image;
            if (tables.levels)
                tables.levels[k] = place.level;
        }
        int low = axis.extent, high = 0, bins = along_x ? shape.pw : shape.ph;
        for (int p = lane; p < bins && exists; p += lanes) {
            int bin = along_x ? shape.ph + p : p, count = 0;
            long long slot = tables.slot_of(k, bin);
            Tap<T> *taps = tables.taps + slot;
            bool slopes = tables.slope_low;
            if (reads)
                count = taps_of_bin(setup.rule, axis, p, taps,
                                    slopes ? tables.slope_low + slot : (T *)0,
                                    slopes ? tables.slope_high + slot : (T *)0);
            tables.counts[k * (shape.ph + shape.pw) + bin] = count;
            if (count && tables.windows) {
                int begin = taps[0].pixel, end = taps[count - 1].pixel + 1;
                low = begin < low ? begin : low, high = end > high ? end : high;
            }
        }
        if (!tables.windows)
            continue;
        join_spans(low, high, lanes);
        // The bins read pixels low to high - 1.  Where they read none, both numbers are 0.
        if (exists && lane == 0)
            tables.windows[2 * t] = high ? low : 0, tables.windows[2 * t + 1] = high;
    }
}
