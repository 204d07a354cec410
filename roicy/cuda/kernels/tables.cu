// What kernels know of a call, and the kernel that looks at its boxes once, before other kernels
// pool from the maps.  It says from which image and which map each box is pooled, and makes the
// axis tables.  rules.h says where bins lie.

// The size of a map, and the scales from coordinates of boxes to pixels of the map.
struct Level {
    int rows, columns;
    double scale_y, scale_x;
};

// How many slots for taps a box has: y slots for each bin along y, then x slots for each bin along
// x, which makes `box` slots in all.
struct Room {
    int y, x;
    long long box;
};

// The place of a box: an image and a map.
struct Place {
    int image, level;
};

// The boxes of a step, as the caller gave them, and the tables that are made of them.  A table that
// a call does not need is null.
template <typename T> struct Tables {
    const T *rows;
    const int *given; // the images of the boxes, null where column 0 of the rows holds them, if any

    int *images; // the image of each box
    int *levels; // the map of each box, where there are several
    int *counts; // how many taps each bin has: those along y, then those along x
    Tap<T> *taps;
    T *slope_low, *slope_high; // of the weights, with respect to the low and the high edge
    int *windows;              // the pixels that a box reads: rows [low, high), columns [low, high)
    rotated_box *rotated;
    double *partial_sums; // of the gradients of the boxes

    int add; // whether boxes of earlier steps have written their gradients of the maps
    Shape shape;
    int columns, numbers; // of a row; the last 4 numbers are the box, or 5 of a rotated box
    int lanes;            // that take one axis of a box together, a power of two
    Room room;
    struct rule rule;
    struct level_rule level_rule; // which gives each box a level
    Level at[MOST_LEVELS];

    // Return the numbers of box k.
    __device__ const T *box(long long k) const { return rows + k * columns + columns - numbers; }

    // Return the image of box k, or NO_IMAGE if the box reads nothing.  Rows that hold only the
    // numbers of a box are those of the first image, unless images are given.
    __device__ int image_of(long long k) const {
        const T *numbers_of = box(k);
        for (int i = 0; i < numbers; i++)
            if (!(fabs((double)numbers_of[i]) <= (double)-Limits<T>::lowest))
                return NO_IMAGE;
        if (given)
            return given[k];
        double image = columns > numbers ? numbers_of[-1] : (T)0;
        return image >= 0 && image < shape.images && image == floor(image) ? (int)image : NO_IMAGE;
    }

    __device__ Place place_of(long long k) const {
        int level = Rules<T>::level_of(&level_rule, box(k), numbers);
        return {at[level].rows && at[level].columns ? image_of(k) : NO_IMAGE, level};
    }

    __device__ void write(long long k, Place place) const {
        images[k] = place.image;
        if (levels)
            levels[k] = place.level;
    }

    __device__ int level_of(long long k) const { return levels ? levels[k] : 0; }
    // Return the first slot of a bin of box k.  Bins along x are counted after the bins along y.
    __device__ long long slot_of(long long k, int bin) const {
        return k * room.box + (bin < shape.ph ? (long long)bin * room.y
                                              : (long long)shape.ph * room.y +
                                                    (long long)(bin - shape.ph) * room.x);
    }
};

// The taps of a bin of one axis of a box.  Bins along x are counted after the bins along y.
template <typename T> struct Taps {
    const Tap<T> *of;
    int count;

    __device__ Taps(const Tables<T> &tables, long long k, int bin)
        : of(tables.taps + tables.slot_of(k, bin)),
          count(tables.counts[k * (tables.shape.ph + tables.shape.pw) + bin]) {}
};

// A map from which boxes are pooled, or its gradient.
template <typename T> struct Map {
    T *pixels;
    Strides strides;
    int rows, columns;
};

// The maps of a call: one, or those of a feature pyramid from fine to coarse.
template <typename T> struct Maps {
    int count;
    Map<T> at[MOST_LEVELS];

    // Return the map from which box k is pooled.
    __device__ const Map<T> &of(const Tables<T> &tables, long long k) const {
        return at[tables.level_of(k)];
    }
};

// Return the plane of a channel in the image of box k.
template <typename T>
__device__ inline const T *plane_of(const Map<T> &map, const Tables<T> &tables, long long k,
                                    long long channel) {
    return map.pixels + tables.images[k] * map.strides.first + channel * map.strides.channel;
}

// Return the axis y of box k, which is upright, or its axis x, on a map.
template <typename T>
__device__ inline box_axis axis_of(const Tables<T> &tables, long long k, const Level &level,
                                   bool along_x) {
    const T *corners = tables.box(k);
    box_axis axis;
    Rules<T>::make_axis(&axis, &tables.rule, along_x ? level.scale_x : level.scale_y,
                        along_x ? tables.shape.pw : tables.shape.ph,
                        along_x ? level.columns : level.rows, corners[along_x ? 0 : 1],
                        corners[along_x ? 2 : 3]);
    return axis;
}

// Return whether positions on the map are finite.  They can overflow although the corners are
// finite.
__device__ inline bool on_a_map(const box_axis &axis) {
    return axis.low - axis.low == 0 && axis.bin_size - axis.bin_size == 0;
}

// Write the taps of a bin, and return how many there are.
template <typename T>
__device__ inline int taps_of_bin(const box_axis &axis, int p, Tap<T> *taps, T *slope_low,
                                  T *slope_high) {
    if (axis.rule.kind != RULE_QUANTISED) {
        taps_out out = {0, (int *)0, taps, slope_low, slope_high};
        Rules<T>::bin_taps(&axis, p, &out);
        return (int)out.count;
    }
    int first, stop; // the tap holds the first pixel, and the count says how many
    Rules<T>::whole_pixels(&axis, p, &first, &stop);
    if (first >= stop)
        return 0;
    *taps = {first, 0};
    return stop - first;
}

// Write the place of each box, and the taps of each bin with their count, and with slopes if these
// are wanted.  Some lanes of a warp take one axis of a box, and each of them takes a bin at a time.
template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 ? 4 : 3)
    make_tables(const __grid_constant__ Tables<T> tables) {
    const Shape &shape = tables.shape;
    int lanes = tables.lanes, lane = lane_number() % lanes, of_warp = LANES / lanes;
    for (long long first = warp_number() * of_warp; first < 2LL * shape.boxes;
         first += warp_count() * of_warp) {
        long long t = first + lane_number() / lanes, k = t / 2;
        bool along_x = t % 2, exists = k < shape.boxes;
        k = exists ? k : 0;
        Place place = tables.place_of(k);
        box_axis axis = axis_of(tables, k, tables.at[place.level], along_x);
        bool reads = place.image >= 0 && on_a_map(axis);
        if (exists && !along_x && lane == 0)
            tables.write(k, place);
        int low = axis.extent, high = 0, bins = along_x ? shape.pw : shape.ph;
        for (int p = lane; p < bins && exists; p += lanes) {
            int bin = along_x ? shape.ph + p : p, count = 0;
            long long slot = tables.slot_of(k, bin);
            Tap<T> *taps = tables.taps + slot;
            bool slopes = tables.slope_low;
            if (reads)
                count = taps_of_bin(axis, p, taps, slopes ? tables.slope_low + slot : (T *)0,
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
