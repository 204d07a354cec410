/* Masks that are resized to their boxes.  A mask lies between two of its rows and two of its
   columns at each pixel; these functions compute runs of pixels.  simd.h includes this file once
   for each type REAL. */

/* The taps of pixels first .. first + count - 1 of an axis of a mask that is resized to `size`
   pixels from pixel `origin` on: area_pixel of PyTorch's interpolate, align_corners=False. Products
   are fused as its kernels have them, so that the weights have the same bits. */
static NOINLINE void NAME(resized_taps)(const struct mask_axis *axis, ptrdiff_t first,
                                        ptrdiff_t count, const struct mask_taps *taps,
                                        const REAL *like) {
    (void)like;
    const REAL scale = (REAL)axis->extent / (REAL)axis->size;
    const ptrdiff_t offset = first - axis->origin;
    const int32_t last = axis->extent - 1;
    REAL *low_weight = (REAL *)taps->low_weight, *high_weight = (REAL *)taps->high_weight;
    for (ptrdiff_t i = 0; i < count; i++) {
        REAL at = NAME(FUSED)(scale, (REAL)(offset + i) + (REAL)0.5, (REAL)-0.5);
        at = at > 0 ? at : 0;
        int32_t low = at < last ? (int32_t)at : last;
        REAL weight = at - (REAL)low;
        high_weight[i] = weight < 1 ? weight : 1;
        low_weight[i] = 1 - high_weight[i];
        taps->low[i] = low;
        taps->high[i] = low < last ? low + 1 : last;
    }
}

/* The taps of pixels whose centres are points of a box that goes from edge to edge of the mask:
   grid_sample of PyTorch, align_corners=False.  The first and the last number of the axis are a
   border of zeros, where all points beyond it lie.  A point that is no number weighs nothing. */
static NOINLINE void NAME(sampled_taps)(const struct mask_axis *axis, ptrdiff_t first,
                                        ptrdiff_t count, const struct mask_taps *taps,
                                        const REAL *like) {
    (void)like;
    const REAL start = (REAL)axis->start, size = (REAL)axis->stop - start;
    const int32_t last = axis->extent - 1;
    const REAL half = (REAL)(axis->extent - 2) / 2;
    REAL *low_weight = (REAL *)taps->low_weight, *high_weight = (REAL *)taps->high_weight;
    for (ptrdiff_t i = 0; i < count; i++) {
        REAL at = (((REAL)(first + i) + (REAL)0.5) - start) / size;
        at = at * 2 - 1;
        if (axis->infinite_is_middle && at - at != 0 && at == at)
            at = 0;
        at = NAME(FUSED)(at + 1, half, (REAL)-0.5);
        int inside = at > -1 && at < (REAL)(last - 1);
        REAL floor = (REAL)(int32_t)((inside ? at : 0) + 1) - 1;
        int32_t low = inside ? (int32_t)floor + 1 : 0;
        REAL weight = at - floor;
        high_weight[i] = inside ? weight : 0;
        low_weight[i] = inside ? 1 - weight : 0;
        taps->low[i] = low;
        taps->high[i] = inside ? low + 1 : 0;
    }
}

/* to = the numbers of a row of a mask between its taps. */
static NOINLINE void NAME(blend_taps)(REAL *to, const REAL *from, const struct mask_taps *taps,
                                      ptrdiff_t count) {
    const int32_t *low = taps->low, *high = taps->high;
    const REAL *low_weight = (const REAL *)taps->low_weight;
    const REAL *high_weight = (const REAL *)taps->high_weight;
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++)
        to[i] = NAME(FUSED)(from[low[i]], low_weight[i], from[high[i]] * high_weight[i]);
}

/* to = the numbers between two rows. */
static NOINLINE void NAME(blend_rows)(REAL *to, const REAL *low, const REAL *high, REAL low_weight,
                                      REAL high_weight, ptrdiff_t count) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++)
        to[i] = NAME(FUSED)(low[i], low_weight, high[i] * high_weight);
}

/* low, high = the numbers of a row at its taps. */
static NOINLINE void NAME(pick_taps)(REAL *low, REAL *high, const REAL *from,
                                     const struct mask_taps *taps, ptrdiff_t count) {
    const int32_t *at_low = taps->low, *at_high = taps->high;
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) {
        low[i] = from[at_low[i]];
        high[i] = from[at_high[i]];
    }
}

/* to = the numbers between four corners, each with the product of its weights, added in this order.
 */
static NOINLINE void NAME(blend_corners)(REAL *to, const struct mask_corner *corners,
                                         ptrdiff_t count) {
    const REAL *a = (const REAL *)corners[0].values, *b = (const REAL *)corners[1].values;
    const REAL *c = (const REAL *)corners[2].values, *d = (const REAL *)corners[3].values;
    const REAL *a_weight = (const REAL *)corners[0].weights;
    const REAL *b_weight = (const REAL *)corners[1].weights;
    const REAL *c_weight = (const REAL *)corners[2].weights;
    const REAL *d_weight = (const REAL *)corners[3].weights;
    const REAL of_a = (REAL)corners[0].weight, of_b = (REAL)corners[1].weight;
    const REAL of_c = (REAL)corners[2].weight, of_d = (REAL)corners[3].weight;
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) {
        REAL sum = a[i] * (a_weight[i] * of_a);
        sum = NAME(FUSED)(b[i], b_weight[i] * of_b, sum);
        sum = NAME(FUSED)(c[i], c_weight[i] * of_c, sum);
        to[i] = NAME(FUSED)(d[i], d_weight[i] * of_d, sum);
    }
}

/* to = the numbers between four corners: between the lines of corners 0 and 1, and of corners 2 and
   3, and then between these two along the axis of the pixels. */
static NOINLINE void NAME(blend_twice)(REAL *to, const struct mask_corner *corners,
                                       ptrdiff_t count) {
    const REAL *a = (const REAL *)corners[0].values, *b = (const REAL *)corners[1].values;
    const REAL *c = (const REAL *)corners[2].values, *d = (const REAL *)corners[3].values;
    const REAL *low_weight = (const REAL *)corners[0].weights;
    const REAL *high_weight = (const REAL *)corners[2].weights;
    const REAL first = (REAL)corners[0].weight, second = (REAL)corners[1].weight;
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) {
        REAL low = NAME(FUSED)(a[i], first, b[i] * second);
        REAL high = NAME(FUSED)(c[i], first, d[i] * second);
        to[i] = NAME(FUSED)(low, low_weight[i], high * high_weight[i]);
    }
}

/* to = whether numbers are at least the threshold; a NaN is not. */
static NOINLINE void NAME(reach)(uint8_t *to, const REAL *values, REAL threshold, ptrdiff_t count) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++)
        to[i] = values[i] >= threshold;
}

/* to = 255 times numbers, without the fraction, from 0 to 255; 0 of a NaN. */
static NOINLINE void NAME(to_bytes)(uint8_t *to, const REAL *values, ptrdiff_t count) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) {
        REAL value = values[i] * 255;
        value = value > 0 ? value : 0;
        to[i] = (uint8_t)(int32_t)(value < 255 ? value : 255);
    }
}
