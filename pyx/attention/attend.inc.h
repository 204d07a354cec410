/* The passes of deformable attention.

   A point reads four pixels, as in PyTorch's grid_sample: along each axis the last one that is not
   behind its position, and the one after it.  A pixel that the level does not have is read as
   zeros.  So a point that is far off adds zeros, and one at infinity, whose weights are NaN, adds
   NaN. */

/* Some points of a row, which is a head of a query.  Along an axis the second of two pixels weighs
   `fraction`, and `slope` says by how much a position moves with its location. */
struct points {
    ptrdiff_t count;
    const REAL *value;                /* of the head */
    const REAL *by;                   /* what samples are multiplied by */
    int32_t pixel[4][POINTS_AT_ONCE]; /* -1: none */
    REAL weight[4][POINTS_AT_ONCE];
    REAL fraction_x[POINTS_AT_ONCE], fraction_y[POINTS_AT_ONCE];
    REAL slope_x[POINTS_AT_ONCE], slope_y[POINTS_AT_ONCE];
};

/* Returns the last pixel that is not behind a position along an axis, and how far behind it the
   position lies, or the nearest pixel.  A position that is far off the level, or NaN, becomes one
   beside the level, since it must fit an integer.  The factor is for extents that float rounds. */
static FORCE_INLINE int32_t pixel_at(REAL at, int32_t extent, int nearest, REAL *fraction) {
    const REAL beyond = (REAL)extent * (REAL)1.000001 + 1;
    REAL near = at > -2 ? at : -2;
    near = near < beyond ? near : beyond;
    if (nearest) {
        *fraction = 0;
        return (int32_t)(sizeof(REAL) == sizeof(float) ? __builtin_rintf((float)near)
                                                       : __builtin_rint(near));
    }
    int32_t low = (int32_t)near;
    low -= (REAL)low > near;
    *fraction = near - (REAL)low + (at - at); /* at - at: NaN of what is not finite */
    return low;
}

/* Where a location lies along an axis of its level.  If the border repeats, a position beyond it
   moves to it, and its slope becomes 0. */
static FORCE_INLINE REAL position(REAL location, REAL scale, REAL shift, int32_t extent, int border,
                                  REAL *slope) {
    REAL at = location * scale - shift;
    const REAL last = (REAL)extent - 1;
    *slope = scale;
    if (!border)
        return at;
    *slope = at > 0 && at < last ? *slope : 0;
    at = at > 0 ? at : 0;
    return at < last ? at : last;
}

/* Finds points from number `first` on, at these locations. */
static FORCE_INLINE void find_as(const struct attention *call, const REAL *location,
                                 ptrdiff_t first, int nearest, int border, struct points *to) {
    const REAL *scale_x = (const REAL *)call->scale_x + first;
    const REAL *scale_y = (const REAL *)call->scale_y + first;
    const int32_t *width = call->width + first, *height = call->height + first;
    const int32_t *start = call->start + first;
    const REAL shift = (REAL)call->shift;
    const ptrdiff_t count = to->count;
#pragma omp simd
    for (ptrdiff_t t = 0; t < count; t++) {
        REAL at_x = position(location[2 * t], scale_x[t], shift, width[t], border, to->slope_x + t);
        REAL at_y =
            position(location[2 * t + 1], scale_y[t], shift, height[t], border, to->slope_y + t);
        REAL u, v;
        int32_t x = pixel_at(at_x, width[t], nearest, &u);
        int32_t y = pixel_at(at_y, height[t], nearest, &v);
        int left = (uint32_t)x < (uint32_t)width[t];
        int right = !nearest & ((uint32_t)(x + 1) < (uint32_t)width[t]);
        int above = (uint32_t)y < (uint32_t)height[t];
        int below = !nearest & ((uint32_t)(y + 1) < (uint32_t)height[t]);
        int32_t upper = start[t] + (above ? y : 0) * width[t] + x;
        int32_t lower = start[t] + (below ? y + 1 : 0) * width[t] + x;
        to->pixel[0][t] = above & left ? upper : -1;
        to->pixel[1][t] = above & right ? upper + 1 : -1;
        to->pixel[2][t] = below & left ? lower : -1;
        to->pixel[3][t] = below & right ? lower + 1 : -1;
        to->weight[0][t] = (1 - u) * (1 - v);
        to->weight[1][t] = u * (1 - v);
        to->weight[2][t] = (1 - u) * v;
        to->weight[3][t] = u * v;
        to->fraction_x[t] = u;
        to->fraction_y[t] = v;
    }
}

/* Finds some points of a row of an image, from number `first` on.  The rule of all known models has
   a loop of its own. */
static NOINLINE void find_points(const struct attention *call, ptrdiff_t image, ptrdiff_t row,
                                 ptrdiff_t first, struct points *to) {
    const ptrdiff_t at = row * call->points + first, left = call->points - first;
    const REAL *location = (const REAL *)call->locations + 2 * at;
    to->count = left < POINTS_AT_ONCE ? left : POINTS_AT_ONCE;
    to->value = (const REAL *)call->value + image * call->image + row % call->heads * call->head;
    to->by = (const REAL *)call->weights + at;
    if (!call->nearest && !call->border)
        find_as(call, location, first, 0, 0, to);
    else
        find_as(call, location, first, call->nearest, call->border, to);
}

/* The four pixels of point t, from channel c on. */
static FORCE_INLINE void pixels_of(const struct attention *call, const struct points *points,
                                   ptrdiff_t t, ptrdiff_t c, const REAL **at) {
    for (int k = 0; k < 4; k++) {
        ptrdiff_t pixel = points->pixel[k][t];
        at[k] = (pixel < 0 ? (const REAL *)call->zeros : points->value + pixel * call->pixel) + c;
    }
}

/* sums += by[4] * the sum of by[k] * channels of pixel k. */
static FORCE_INLINE void add_sample(REAL *sums, const REAL *by, const REAL *const *at, int c,
                                    int lanes) {
#pragma omp simd
    for (int l = 0; l < lanes; l++) {
        REAL sample = by[0] * at[0][c + l];
        sample = FUSED(by[1], at[1][c + l], sample);
        sample = FUSED(by[2], at[2][c + l], sample);
        sample = FUSED(by[3], at[3][c + l], sample);
        sums[l] = FUSED(by[4], sample, sums[l]);
    }
}

/* Writes to `to` (add: adds) the sums of some points, of `lanes` channels from c on, and of as many
   after them if there are two vectors (R480).  Two arrays stay in registers, where one of twice the
   length would not. */
static FORCE_INLINE void sum_points(const struct attention *call, const struct points *points,
                                    ptrdiff_t c, int vectors, int lanes, REAL *to, int add) {
    REAL a[LANES], b[LANES];
    for (int l = 0; l < lanes; l++) {
        a[l] = add ? to[l] : 0;
        b[l] = add && vectors > 1 ? to[lanes + l] : 0;
    }
    for (ptrdiff_t t = 0; t < points->count; t++) {
        const REAL *at[4], by[5] = {points->weight[0][t], points->weight[1][t],
                                    points->weight[2][t], points->weight[3][t], points->by[t]};
        pixels_of(call, points, t, c, at);
        add_sample(a, by, at, 0, lanes);
        if (vectors > 1)
            add_sample(b, by, at, lanes, lanes);
    }
    for (int l = 0; l < lanes; l++) {
        to[l] = a[l];
        if (vectors > 1)
            to[lanes + l] = b[l];
    }
}

/* The results of some queries.  The heads of a query come one after the other, since they read
   pixels near each other. */
static NOINLINE void attend(const struct attention *call, const struct attention_part *part) {
    struct points points;
    const ptrdiff_t channels = call->channels, before = part->image * call->queries;
    const ptrdiff_t all = PLANTED("points after the first 64 are left out") ? 0 : call->points;
    const ptrdiff_t stop = (before + part->stop) * call->heads;
    for (ptrdiff_t row = (before + part->first) * call->heads; row < stop; row++)
        for (ptrdiff_t first = 0; first == 0 || first < all; first += POINTS_AT_ONCE) {
            REAL *to = (REAL *)call->out + row * channels;
            ptrdiff_t c = 0;
            find_points(call, part->image, row, first, &points);
            for (; c + 2 * LANES <= channels; c += 2 * LANES)
                sum_points(call, &points, c, 2, LANES, to + c, first > 0);
            for (; c + LANES <= channels; c += LANES)
                sum_points(call, &points, c, 1, LANES, to + c, first > 0);
            if (c < channels && !PLANTED("the last channels of a head are left out"))
                sum_points(call, &points, c, 1, (int)(channels - c), to + c, first > 0);
        }
}
