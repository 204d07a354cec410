/* Bilinear samples that are compared one by one. */

/* Goes on with corner i of the four pixels around a sample.  Returns whether `sums` is now a value
   to compare: each product, or the sum of all four. */
static FORCE_INLINE int next_value(REAL *sums, const void *const *corners, const REAL *weights,
                                   int i, int products) {
    const REAL *corner = (const REAL *)corners[i];
    if (products || i == 0) {
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            sums[l] = weights[i] * corner[l];
    } else
        add_product(sums, weights[i], corner);
    return products || i == 3;
}

/* The weights of the four pixels around a sample, in row order.  Products with 1.0 - fraction are
   computed in double and rounded once. */
static inline void weigh(void *weights, const void *fraction_y, const void *fraction_x) {
    const REAL y = *(const REAL *)fraction_y, x = *(const REAL *)fraction_x;
    REAL *to = (REAL *)weights;
    to[0] = (REAL)((1.0 - y) * (1.0 - x));
    to[1] = (REAL)((1.0 - y) * x);
    to[2] = (REAL)(y * (1.0 - x));
    to[3] = y * x;
}

/* best = the larger of it and of the samples between two rows, whose pixel x0 lies at `row` and
   `next_row`. */
static NOINLINE void keep_samples(void *best, const void *row, const void *next_row,
                                  ptrdiff_t stride, const struct samples *samples,
                                  const void *fraction_y) {
    const REAL *above = (const REAL *)row, *below = (const REAL *)next_row;
    const REAL *fraction = (const REAL *)samples->fraction;
    REAL sums[LANES], weights[4];
    for (ptrdiff_t s = samples->first; s < samples->stop; s++) {
        const ptrdiff_t pixel = samples->pixel[s], x = (pixel - samples->x0) * stride;
        const ptrdiff_t next = pixel < samples->last ? x + stride : x;
        const void *corners[4] = {above + x, above + next, below + x, below + next};
        weigh(weights, fraction_y, fraction + s);
        for (int i = 0; i < 4; i++)
            if (next_value(sums, corners, weights, i, samples->products))
                keep_larger((REAL *)best, sums);
    }
}

/* Compares a sample with the best before it.  `at` becomes place + i in lanes where the value that
   corner i completes is larger. */
static NOINLINE void keep_winners(void *best, int32_t *at, const void *const *corners,
                                  const void *weights, int32_t place, int products) {
    REAL sums[LANES];
    for (int i = 0; i < 4; i++)
        if (next_value(sums, corners, (const REAL *)weights, i, products))
            keep_larger_at((REAL *)best, at, sums, place + i);
}

/* Notes the winners of a row of samples, in lanes where there is one: the row, and the place in it.
   `at` is then -1, for the next row. */
static NOINLINE void end_row(int32_t *at, int32_t *rows, int32_t *places, int32_t row) {
#pragma omp simd
    for (int l = 0; l < LANES; l++) {
        places[l] = at[l] == -1 ? places[l] : at[l];
        rows[l] = at[l] == -1 ? rows[l] : row;
        at[l] = -1;
    }
}
