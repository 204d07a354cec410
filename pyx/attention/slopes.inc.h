/* The gradients of deformable attention, of which attend.inc.h has the points. */

/* The sum of a lane vector, by halves. */
static FORCE_INLINE REAL folded(REAL *sums) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            sums[l] += sums[l + half];
    return sums[0];
}

/* dots[k] = the gradient of the result times each of the four pixels of point t. */
static FORCE_INLINE void dot_pixels(const struct attention *call, const struct points *points,
                                    ptrdiff_t t, const REAL *grad, REAL *dots) {
    const REAL *at[4];
    pixels_of(call, points, t, 0, at);
    for (int k = 0; k < 4; k++) {
        REAL sums[LANES] = {0};
        ptrdiff_t c = 0;
        for (; c + LANES <= call->channels; c += LANES)
#pragma omp simd
            for (int l = 0; l < LANES; l++)
                sums[l] = FUSED(grad[c + l], at[k][c + l], sums[l]);
        for (int l = 0; c < call->channels; c++, l++)
            sums[l] = FUSED(grad[c], at[k][c], sums[l]);
        dots[k] = folded(sums);
    }
}

/* The gradients of locations and weights of some queries. */
static NOINLINE void attend_slopes(const struct attention *call,
                                   const struct attention_part *part) {
    struct points points;
    const ptrdiff_t before = part->image * call->queries, all = call->points;
    const ptrdiff_t stop = (before + part->stop) * call->heads;
    for (ptrdiff_t row = (before + part->first) * call->heads; row < stop; row++)
        for (ptrdiff_t first = 0; first < all; first += POINTS_AT_ONCE) {
            const REAL *grad = (const REAL *)call->grad + row * call->channels;
            REAL *of_locations = (REAL *)call->grad_locations + 2 * (row * all + first);
            REAL *of_weights = (REAL *)call->grad_weights + row * all + first;
            find_points(call, part->image, row, first, &points);
            for (ptrdiff_t t = 0; t < points.count; t++) {
                REAL dots[4], sum = 0, u = points.fraction_x[t], v = points.fraction_y[t];
                dot_pixels(call, &points, t, grad, dots);
                for (int k = 0; k < 4; k++)
                    sum = FUSED(points.weight[k][t], dots[k], sum);
                REAL x = FUSED(dots[1] - dots[0], 1 - v, (dots[3] - dots[2]) * v);
                REAL y = FUSED(dots[2] - dots[0], 1 - u, (dots[3] - dots[1]) * u);
                of_weights[t] = sum;
                /* The nearest pixel changes in jumps, so its slope is 0. */
                of_locations[2 * t] = call->nearest ? 0 : x * points.by[t] * points.slope_x[t];
                of_locations[2 * t + 1] = call->nearest ? 0 : y * points.by[t] * points.slope_y[t];
            }
        }
}

/* The gradient of the value, of some channels of a head.  All queries add to it one after the
   other, so that only the arguments decide the order of a sum. */
static NOINLINE void attend_value(const struct attention *call, const struct attention_part *part) {
    struct points points;
    const ptrdiff_t stride = call->heads * call->channels, channels = part->high - part->low;
    const ptrdiff_t head = part->head * call->channels + part->low;
    const ptrdiff_t before = part->image * call->queries;
    REAL *to = (REAL *)call->grad_value + part->image * call->pixels * stride + head;
    for (ptrdiff_t i = 0; part->first == 0 && i < call->pixels; i++)
        memset(to + i * stride, 0, (size_t)channels * sizeof(REAL));
    for (ptrdiff_t q = before + part->first; q < before + part->stop; q++)
        for (ptrdiff_t first = 0; first < call->points; first += POINTS_AT_ONCE) {
            const REAL *grad = (const REAL *)call->grad + q * stride + head;
            find_points(call, part->image, q * call->heads + part->head, first, &points);
            for (ptrdiff_t i = 0; i < 4 * points.count; i++) {
                const ptrdiff_t t = i / 4, pixel = points.pixel[i % 4][t];
                const REAL by = points.by[t] * points.weight[i % 4][t];
                ptrdiff_t c = pixel < 0 ? channels : 0;
                REAL *sums = to + (pixel < 0 ? 0 : pixel) * stride;
                for (; c + LANES <= channels; c += LANES)
                    add_product(sums + c, by, grad + c);
                for (; c < channels; c++)
                    sums[c] = FUSED(by, grad[c], sums[c]);
            }
        }
}
