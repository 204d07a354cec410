/* Taps in two dimensions, of boxes that are turned: each bin has a list of pixels (y, x) with
   weights.

   taps->pixel holds two numbers a tap, y and x.  `row` and `column` are the strides from pixel to
   pixel, and an array begins at pixel (0, 0). */

/* The pixel of tap t. */
static FORCE_INLINE const REAL *tap_at(const REAL *from, ptrdiff_t row, ptrdiff_t column,
                                       const int32_t *pixel, ptrdiff_t t) {
    return from + pixel[2 * t] * row + pixel[2 * t + 1] * column;
}

static FORCE_INLINE void begin_sums(REAL *sums, const REAL *to, int add) {
    for (int l = 0; l < LANES; l++)
        sums[l] = add ? to[l] : 0;
}

static FORCE_INLINE void end_sums(REAL *to, const REAL *sums) {
    for (int l = 0; l < LANES; l++)
        to[l] = sums[l];
}

/* to[b * to_stride] = (add: +=) the weighted pixels of bin b, of one lane vector, tap by tap.  Two
   bins are summed at a time: the taps of one bin wait for each other. */
static NOINLINE void contract_sparse(void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t row,
                                     ptrdiff_t column, int bins, const struct taps *taps, int add) {
    const int32_t *spans = taps->spans, *pixel = taps->pixel;
    const REAL *weight = (const REAL *)taps->weight;
    const REAL *pixels = (const REAL *)from;
    REAL *sums = (REAL *)to;
    for (int left = bins; left > 0; left -= 2, spans += 4, sums += 2 * to_stride) {
        REAL a[LANES], b[LANES];
        ptrdiff_t t = spans[0], stop_a = spans[1], u = 0, stop_b = 0;
        begin_sums(a, sums, add);
        if (left > 1) {
            u = spans[2], stop_b = spans[3];
            begin_sums(b, sums + to_stride, add);
        }
        for (; t < stop_a && u < stop_b; t++, u++) {
            add_product(a, weight[t], tap_at(pixels, row, column, pixel, t));
            add_product(b, weight[u], tap_at(pixels, row, column, pixel, u));
        }
        for (; t < stop_a; t++)
            add_product(a, weight[t], tap_at(pixels, row, column, pixel, t));
        for (; u < stop_b; u++)
            add_product(b, weight[u], tap_at(pixels, row, column, pixel, u));
        end_sums(sums, a);
        if (left > 1)
            end_sums(sums + to_stride, b);
    }
}

/* to[b * to_stride + i] = the weighted pixels of bin b, of lane vectors i that lie together.  Some
   vectors are summed at a time. */
static NOINLINE void contract_sparse_pixels(void *to, ptrdiff_t to_stride, const void *from,
                                            ptrdiff_t row, ptrdiff_t column, int bins,
                                            const struct taps *taps, ptrdiff_t vectors) {
    const int32_t *spans = taps->spans, *pixel = taps->pixel;
    const REAL *weight = (const REAL *)taps->weight;
    const REAL *pixels = (const REAL *)from;
    REAL *sums = (REAL *)to;
    for (int left = bins; left > 0; left--, spans += 2, sums += to_stride) {
        ptrdiff_t v = 0;
        for (; v + 4 <= vectors; v += 4) {
            REAL a[LANES] = {0}, b[LANES] = {0}, c[LANES] = {0}, d[LANES] = {0};
            for (ptrdiff_t t = spans[0]; t < spans[1]; t++) {
                const REAL *at = tap_at(pixels, row, column, pixel, t) + v * LANES;
                add_product(a, weight[t], at);
                add_product(b, weight[t], at + LANES);
                add_product(c, weight[t], at + 2 * LANES);
                add_product(d, weight[t], at + 3 * LANES);
            }
            end_sums(sums + v * LANES, a);
            end_sums(sums + (v + 1) * LANES, b);
            end_sums(sums + (v + 2) * LANES, c);
            end_sums(sums + (v + 3) * LANES, d);
        }
        for (; v < vectors; v++) {
            REAL a[LANES] = {0};
            for (ptrdiff_t t = spans[0]; t < spans[1]; t++)
                add_product(a, weight[t], tap_at(pixels, row, column, pixel, t) + v * LANES);
            end_sums(sums + v * LANES, a);
        }
    }
}

/* Each pixel of the taps of a bin += its weight * from, of `vectors` lane vectors that lie
   together. window: y0, y1, x0 and x1 of the pixels that are written to; NULL where all are. */
static NOINLINE void accumulate_sparse(void *to, ptrdiff_t row, ptrdiff_t column, const void *from,
                                       ptrdiff_t vectors, const struct taps *taps,
                                       const ptrdiff_t *window) {
    const int32_t *pixel = taps->pixel;
    const REAL *weight = (const REAL *)taps->weight;
    for (ptrdiff_t t = taps->spans[0]; t < taps->spans[1]; t++) {
        ptrdiff_t y = pixel[2 * t], x = pixel[2 * t + 1];
        REAL *at = (REAL *)to + y * row + x * column;
        if (PLANTED("the last turned row is left out") && window && y == window[1] - 1)
            continue;
        if (window && (y < window[0] || y >= window[1] || x < window[2] || x >= window[3]))
            continue;
        for (ptrdiff_t v = 0; v < vectors; v++)
            add_product(at + v * LANES, weight[t], (const REAL *)from + v * LANES);
    }
}

/* sums[k] += slope k of some taps of a bin times the gradient of their weights, FOLDED_BYTES of
   lanes each, for `slopes` slopes.  The gradient of a weight is the sum over i of
   by[i * by_stride] * the pixel of block i. */
static NOINLINE void add_sparse_slopes(void *sums, const void *by, ptrdiff_t by_stride,
                                       const struct pixels *from, const struct slope_taps *taps,
                                       const int32_t *span, int slopes) {
    enum { m = FOLDED_LANES };
    ptrdiff_t at[MAX_TAPS];
    REAL folded[MAX_TAPS * m];
    const int32_t *pixel = taps->pixel + 2 * (ptrdiff_t)span[0];
    const REAL *slope = (const REAL *)taps->slopes + span[0];
    for (ptrdiff_t left = span[1] - span[0], some; left > 0; left -= some, slope += some) {
        some = left < MAX_TAPS ? left : MAX_TAPS;
        for (ptrdiff_t i = 0; i < some; i++, pixel += 2)
            at[i] = pixel[0] * from->stride_y + pixel[1] * from->stride_x;
        correlate(folded, (const REAL *)by, by_stride, (const REAL *)from->start, from->stride,
                  from->count, at, some);
        for (int k = 0; k < slopes; k++)
            for (ptrdiff_t i = 0; i < some; i++)
                add_folded((REAL *)sums + k * m, slope[k * taps->stride + i], folded + i * m);
    }
}
