// This kernel makes axis tables of boxes.  A thread takes one bin of one axis.  rules.h says where
// bins lie.

// Return the image of box k, OTHER_LEVEL if the box belongs to another level, or NO_IMAGE if the
// box reads nothing.
template <typename T>
__device__ inline int image_of(const T *rows, int columns, const int *given, const int *levels,
                               int level, long long k, int images, int numbers = 4) {
    const T *row = rows + k * columns;
    if (levels && levels[k] != level)
        return OTHER_LEVEL;
    for (int i = columns - numbers; i < columns; i++)
        if (!(fabs((double)row[i]) <= (double)-Limits<T>::lowest))
            return NO_IMAGE;
    if (given)
        return given[k];
    double image = row[0];
    return image >= 0 && image < images && image == floor(image) ? (int)image : NO_IMAGE;
}

// Return the axis y of a box, or its axis x where x is 1.  corners are x1, y1, x2, y2.
template <typename T>
__device__ inline box_axis axis_of(const rule &rule, T scale_y, T scale_x, const Shape &shape,
                                   int x, const T *corners) {
    box_axis axis;
    int bins = x ? shape.pw : shape.ph, extent = x ? shape.columns : shape.rows;
    Rules<T>::make_axis(&axis, &rule, x ? scale_x : scale_y, bins, extent, corners[x ? 0 : 1],
                        corners[x ? 2 : 3]);
    return axis;
}

// Return whether positions on the map are finite.  They can overflow although the corners are
// finite.
__device__ inline bool on_a_map(const box_axis &axis) {
    return axis.low - axis.low == 0 && axis.bin_size - axis.bin_size == 0;
}

// Write the image of each box, and the taps of each bin with their count.  Slopes are written where
// slope_low and slope_high are not null.
template <typename T>
__global__ void tables(const T *rows, int columns, const int *given, const int *levels, int level,
                       rule rule, Shape shape, Room room, T scale_y, T scale_x, int *images,
                       int *counts, Tap<T> *taps, T *slope_low, T *slope_high) {
    int bins = shape.ph + shape.pw;
    for (long long t = thread_number(); t < (long long)shape.boxes * bins; t += thread_count()) {
        long long k = t / bins;
        int bin = (int)(t % bins), x = bin >= shape.ph, p = x ? bin - shape.ph : bin;
        int image = image_of(rows, columns, given, levels, level, k, shape.images);
        if (bin == 0)
            images[k] = image;
        long long slot = slot_of(room, shape, k, bin);
        box_axis axis = axis_of(rule, scale_y, scale_x, shape, x, rows + k * columns + columns - 4);
        taps_out out = {0, (int *)0, taps + slot, slope_low ? slope_low + slot : (T *)0,
                        slope_high ? slope_high + slot : (T *)0};
        if (image >= 0 && on_a_map(axis)) {
            if (rule.kind != RULE_QUANTISED) {
                Rules<T>::bin_taps(&rule, &axis, p, &out);
            } else { // the tap holds the first pixel, and the count says how many
                int first, stop;
                Rules<T>::quantised_bin(&axis, p, axis.extent, &first, &stop);
                if (first < stop) {
                    taps[slot].pixel = first;
                    out.count = stop - first;
                }
            }
        }
        counts[t] = (int)out.count;
    }
}
