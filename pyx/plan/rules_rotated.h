/* Turned boxes: the pixels (y, x) of each bin and their weights, which are no products of two axes.

   Sample (yy, xx) of the box's own axes lies on the map at
       y = yy cos - xx sin + cy,    x = yy sin + xx cos + cx

   Along each of them lie the samples of rules.h, after which this file is included in the same way.
 */
#ifndef ROICY_RULES_ROTATED
#define ROICY_RULES_ROTATED

/* A box that is turned about its centre.  y and x are its own axes: `low` is counted from the
   centre, and what is between near_low and near_high may lie on the map.  center_y and center_x
   hold numbers of type REAL. */
struct rotated_box {
    struct box_axis y, x;
    double center_y, center_x;
    double sine, cosine;
    double near_low[2], near_high[2]; /* of y and of x */
    int sign;                         /* of the angle, as the sine and the cosine know it */
};

/* Samples first to stop - 1 of one row of the samples of a bin. */
struct sample_row {
    double at;    /* along the box's own y */
    double start; /* of the bin, along the box's own x */
    double part;  /* where the row is along the height of the box, from -0.5 to 0.5 */
    long long first, stop;
};

#define RULE_SLOPES 5 /* derivatives of a turned box's weights: by cx, cy, w, h and angle */

/* Sums over the samples of a bin, one for each pixel.  The last bits of y and x say where that of
   pixel (y, x) is.  When two pixels need one place, all sums are written out as taps. */
#define RULE_SUMS 32 /* along either axis */
struct pixel_sum {
    int y, x; /* y is -1 where no pixel has this sum */
    double weight, slopes[RULE_SLOPES];
};
struct pixel_sums {
    int used;
    int order[RULE_SUMS * RULE_SUMS]; /* sums in use, in the order of their first use */
    struct pixel_sum sums[RULE_SUMS * RULE_SUMS];
};

/* Where taps in two dimensions are written. */
struct sparse_out {
    long long count;
    int *pixel;   /* y and x of each tap; NULL where taps are only counted */
    void *weight; /* REAL */
    void *slopes; /* REAL, [RULE_SLOPES][stride], or NULL: derivatives of the weights */
    long long stride;
    int want_slopes;
};

/* Grids stop earlier than the grids of upright boxes: rows of samples are gone through one by one,
   also rows that the rounding of huge sizes may bring to the map. */
#define RULE_MAX_ROTATED_GRID 4096.0
/* Samples of a turned box are summed in blocks of so many pixels a side, whose pixels have sums of
   their own however the box is turned: 20 * sqrt(2) + 3 is less than RULE_SUMS. */
#define RULE_BLOCK 20.0
/* Positions that may be off by more pixels than this are not relied on. */
#define RULE_MAX_ROUNDING 0.25

#endif

#ifdef REAL

/* One of a turned box's own axes, whose scale, bins and extent are known. */
RULE_FN void NAME(make_own_axis)(struct box_axis *axis, const struct rule *rule, REAL size) {
    axis->rule = *rule;
    size = size * (REAL)axis->scale;
    axis->clamped = !rule->aligned && size < 1;
    if (axis->clamped)
        size = 1;
    axis->low = -size / 2;
    axis->size = size;
    axis->bin_size = size / (REAL)axis->bins;
    NAME(place_samples)(axis, RULE_MAX_ROTATED_GRID);
}

/* By how many pixels the rounding of positions may move a sample, and more. */
RULE_FN double NAME(rounding)(const struct rotated_box *box) {
    double eps = sizeof(REAL) == sizeof(float) ? 1.2e-7 : 2.3e-16;
    return 16 * eps *
           (fabs(box->center_y) + fabs(box->center_x) + fabs(box->y.size) + fabs(box->x.size));
}

/* A turned box from cx, cy, w, h and angle; scale, bins and extent of its axes are known. */
RULE_FN void NAME(make_rotated)(struct rotated_box *box, const struct rule *rule,
                                const RULE_NUMBER *numbers) {
    REAL scale = (REAL)box->y.scale, offset = rule->aligned ? (REAL)0.5 : (REAL)0;
    double y, x, margin;
    int corner, a;
    NAME(make_own_axis)(&box->y, rule, (REAL)numbers[3]);
    NAME(make_own_axis)(&box->x, rule, (REAL)numbers[2]);
    box->center_y = (REAL)numbers[1] * scale - offset;
    box->center_x = (REAL)numbers[0] * scale - offset;
    box->sign = rule->clockwise ? -1 : 1;
    box->sine = sin((double)(box->sign * numbers[4]));
    box->cosine = cos((double)(box->sign * numbers[4]));
    margin = 1 + NAME(rounding)(box);
    for (corner = 0; corner < 4; corner++) { /* of the map, along the box's own axes */
        double own[2];
        y = (corner & 1 ? box->y.extent : -1) - box->center_y;
        x = (corner & 2 ? box->x.extent : -1) - box->center_x;
        own[0] = y * box->cosine + x * box->sine;
        own[1] = x * box->cosine - y * box->sine;
        for (a = 0; a < 2; a++) {
            if (corner == 0 || own[a] - margin < box->near_low[a])
                box->near_low[a] = own[a] - margin;
            if (corner == 0 || own[a] + margin > box->near_high[a])
                box->near_high[a] = own[a] + margin;
        }
    }
}

RULE_FN REAL NAME(turned_y)(const struct rotated_box *box, REAL yy, REAL xx) {
    return yy * (REAL)box->cosine - xx * (REAL)box->sine + (REAL)box->center_y;
}

RULE_FN REAL NAME(turned_x)(const struct rotated_box *box, REAL yy, REAL xx) {
    return yy * (REAL)box->sine + xx * (REAL)box->cosine + (REAL)box->center_x;
}

RULE_FN int NAME(is_on_map)(const struct rotated_box *box, REAL y, REAL x) {
    return y >= -1 && y <= box->y.extent && x >= -1 && x <= box->x.extent;
}

RULE_FN int NAME(sample_on_map)(const struct rotated_box *box, const struct sample_row *row,
                                long long s) {
    REAL xx = NAME(sample)(&box->x, (REAL)row->start, s);
    return NAME(is_on_map)(box, NAME(turned_y)(box, (REAL)row->at, xx),
                           NAME(turned_x)(box, (REAL)row->at, xx));
}

/* The first sample of a row for which y (of_y) or x, times sign, is at bound or more (above: beyond
   it), else row->stop.  Along a row that does not descend. */
RULE_FN long long NAME(first_in_row)(const struct rotated_box *box, const struct sample_row *row,
                                     int of_y, int sign, double bound, int above) {
    long long low = row->first, high = row->stop;
    while (low < high) {
        long long middle = low + (high - low) / 2;
        REAL xx = NAME(sample)(&box->x, (REAL)row->start, middle);
        double v = sign * (of_y ? NAME(turned_y)(box, (REAL)row->at, xx)
                                : NAME(turned_x)(box, (REAL)row->at, xx));
        if (v > bound || (v == bound && !above))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Leaves the samples of a row that lie on the map, which follow each other: y and x ascend or
   descend along a row. */
RULE_FN void NAME(keep_on_map)(const struct rotated_box *box, struct sample_row *row) {
    int of_y;
    if (row->first >= row->stop ||
        (NAME(sample_on_map)(box, row, row->first) && NAME(sample_on_map)(box, row, row->stop - 1)))
        return;
    for (of_y = 0; of_y < 2; of_y++) {
        int extent = of_y ? box->y.extent : box->x.extent;
        int sign = (of_y ? -box->sine : box->cosine) < 0 ? -1 : 1;
        double low = sign > 0 ? -1 : -extent, high = sign > 0 ? extent : 1;
        row->first = NAME(first_in_row)(box, row, of_y, sign, low, 0);
        row->stop = NAME(first_in_row)(box, row, of_y, sign, high, 1);
    }
}

/* Writes all sums as taps, divided by the n samples of the bin, and frees their places. */
RULE_FN void NAME(write_sums)(struct pixel_sums *sums, double n, struct sparse_out *out) {
    int i, k;
    for (i = 0; i < sums->used; i++, out->count++) {
        struct pixel_sum *sum = &sums->sums[sums->order[i]];
        if (out->pixel) {
            out->pixel[2 * out->count] = sum->y;
            out->pixel[2 * out->count + 1] = sum->x;
            ((REAL *)out->weight)[out->count] = (REAL)(sum->weight / n);
            for (k = 0; out->want_slopes && k < RULE_SLOPES; k++)
                ((REAL *)out->slopes)[k * out->stride + out->count] = (REAL)(sum->slopes[k] / n);
        }
        sum->y = -1;
    }
    sums->used = 0;
}

RULE_FN struct pixel_sum *NAME(sum_of)(struct pixel_sums *sums, int y, int x, double n,
                                       struct sparse_out *out) {
    int at = (y & (RULE_SUMS - 1)) * RULE_SUMS + (x & (RULE_SUMS - 1)), k;
    struct pixel_sum *sum = &sums->sums[at];
    if (sum->y == y && sum->x == x)
        return sum;
    if (sum->y >= 0)
        NAME(write_sums)(sums, n, out);
    sum->y = y;
    sum->x = x;
    sum->weight = 0;
    for (k = 0; k < RULE_SLOPES; k++)
        sum->slopes[k] = 0;
    sums->order[sums->used++] = at;
    return sum;
}

/* Where a sample is along one axis of the box: from -0.5 to 0.5; 0 if the size was raised to 1. */
RULE_FN double NAME(part_of_box)(const struct box_axis *axis, int p, long long s) {
    double r = ((double)s + 0.5) / (double)axis->grid;
    return axis->clamped ? 0 : (p + (axis->bin_size < 0 ? 1 - r : r)) / axis->bins - 0.5;
}

/* By how much a sample moves along y and x with cx, cy, w, h and the angle of its box. */
RULE_FN void NAME(motion_of_sample)(const struct rotated_box *box, const struct sample_row *row,
                                    double part_x, double xx, double *y, double *x) {
    double scale = box->y.scale;
    y[0] = 0, x[0] = scale;
    y[1] = scale, x[1] = 0;
    y[2] = -part_x * box->sine * scale, x[2] = part_x * box->cosine * scale;
    y[3] = row->part * box->cosine * scale, x[3] = row->part * box->sine * scale;
    y[4] = -box->sign * (row->at * box->sine + xx * box->cosine);
    x[4] = box->sign * (row->at * box->cosine - xx * box->sine);
}

/* Adds a sample that lies on the map to the sums of its four pixels.  move_y and move_x say how it
   moves with its box; NULL where slopes are not wanted. */
RULE_FN void NAME(add_rotated_sample)(const struct rotated_box *box, REAL at_y, REAL at_x,
                                      const double *move_y, const double *move_x, double n,
                                      struct pixel_sums *sums, struct sparse_out *out) {
    int last_y = box->y.extent - 1, last_x = box->x.extent - 1, i, j, k;
    double part_y, part_x;
    int pixel_y = NAME(pixel_before)(at_y, box->y.extent, &part_y);
    int pixel_x = NAME(pixel_before)(at_x, box->x.extent, &part_x);
    double moving_y = at_y > 0 && at_y < last_y, moving_x = at_x > 0 && at_x < last_x;
    for (i = 0; i < 2 && pixel_y + i <= last_y; i++)
        for (j = 0; j < 2 && pixel_x + j <= last_x; j++) {
            double weight_y = i ? part_y : 1 - part_y, weight_x = j ? part_x : 1 - part_x;
            double weight = weight_y * weight_x;
            struct pixel_sum *sum;
            if (weight == 0 && !move_y)
                continue;
            sum = NAME(sum_of)(sums, pixel_y + i, pixel_x + j, n, out);
            sum->weight += weight;
            for (k = 0; move_y && k < RULE_SLOPES; k++)
                sum->slopes[k] += (i ? moving_y : -moving_y) * weight_x * move_y[k] +
                                  (j ? moving_x : -moving_x) * weight_y * move_x[k];
        }
}

/* How many samples along an axis are summed together: as many as lie in RULE_BLOCK pixels. */
RULE_FN long long NAME(samples_of_block)(const struct box_axis *axis) {
    double stride = fabs(axis->bin_size) / (double)axis->grid;
    return RULE_BLOCK >= stride * (double)axis->grid
               ? axis->grid
               : (long long)NAME(rule_max)(RULE_BLOCK / stride, 1);
}

/* One row of a block of samples of a bin. */
RULE_FN void NAME(add_sample_row)(const struct rotated_box *box, int q, struct sample_row row,
                                  double n, struct pixel_sums *sums, struct sparse_out *out) {
    double move_y[RULE_SLOPES], move_x[RULE_SLOPES];
    long long s;
    NAME(keep_on_map)(box, &row);
    for (s = row.first; s < row.stop; s++) {
        REAL xx = NAME(sample)(&box->x, (REAL)row.start, s);
        REAL y = NAME(turned_y)(box, (REAL)row.at, xx), x = NAME(turned_x)(box, (REAL)row.at, xx);
        if (out->want_slopes)
            NAME(motion_of_sample)(box, &row, NAME(part_of_box)(&box->x, q, s), xx, move_y, move_x);
        NAME(add_rotated_sample)(box, y, x, out->want_slopes ? move_y : 0, move_x, n, sums, out);
    }
}

/* Writes the taps of bin (p, q): the mean of its samples, where samples off the map count as 0.
   Samples are summed block by block, so that what a bin needs besides its taps is bounded. */
RULE_FN void NAME(rotated_bin)(const struct rotated_box *box, int p, int q, struct pixel_sums *sums,
                               struct sparse_out *out) {
    REAL start_y = NAME(bin_start)(&box->y, p), start_x = NAME(bin_start)(&box->x, q);
    double n = (double)box->y.grid * (double)box->x.grid;
    long long y0, y1, x0, x1, y, x, i, rows, columns;
    NAME(samples_between)(&box->y, start_y, box->near_low[0], box->near_high[0], &y0, &y1);
    NAME(samples_between)(&box->x, start_x, box->near_low[1], box->near_high[1], &x0, &x1);
    if (y0 >= y1 || x0 >= x1)
        return;
    rows = NAME(samples_of_block)(&box->y);
    columns = NAME(samples_of_block)(&box->x);
    for (y = y0; y < y1; y += rows)
        for (x = x0; x < x1; x += columns) {
            for (i = y; i < y + rows && i < y1; i++) {
                struct sample_row row;
                row.at = NAME(sample)(&box->y, start_y, i);
                row.start = start_x;
                row.part = NAME(part_of_box)(&box->y, p, i);
                row.first = x;
                row.stop = x + columns < x1 ? x + columns : x1;
                NAME(add_sample_row)(box, q, row, n, sums, out);
            }
            NAME(write_sums)(sums, n, out);
        }
}

/* An upper bound of the taps of a bin: four a sample, or the pixels that are closer than one pixel
   to a block of samples, if positions are exact enough. */
RULE_FN double NAME(max_rotated_taps)(const struct rotated_box *box) {
    double taps = 4.0 * (double)box->y.grid * (double)box->x.grid;
    double rows, columns, height, width;
    if (taps == 0 || NAME(rounding)(box) > RULE_MAX_ROUNDING)
        return taps;
    rows = (double)NAME(samples_of_block)(&box->y);
    columns = (double)NAME(samples_of_block)(&box->x);
    height = fabs(box->y.bin_size) * rows / (double)box->y.grid + 2 * RULE_MAX_ROUNDING;
    width = fabs(box->x.bin_size) * columns / (double)box->x.grid + 2 * RULE_MAX_ROUNDING;
    return NAME(rule_min)(taps, ceil((double)box->y.grid / rows) *
                                    ceil((double)box->x.grid / columns) *
                                    (height * width + 4.25 * (height + width) + 9));
}

#endif
