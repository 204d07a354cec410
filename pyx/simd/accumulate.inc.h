/* Gradients of the input: weighted sums that are added to pixels, as contract.inc.h takes them.
   simd.h includes this file once for each type REAL. */

/* to[i * to_step] = (add: +=) weight * from[i * step], for each lane vector i. */
static FORCE_INLINE void NAME(scale_vectors)(REAL *to, ptrdiff_t to_step, const REAL *from,
                                             ptrdiff_t step, ptrdiff_t count, REAL weight,
                                             int add) {
    for (; count > 0; count--, from += step, to += to_step) {
        if (add) {
            NAME(add_product)(to, weight, from);
        } else {
#pragma omp simd
            for (int l = 0; l < LANES; l++)
                to[l] = weight * from[l];
        }
    }
}

/* Adds to each of some pixels of an axis the weighted sum of the bins that read it.  The bins of
   pixel i are taps spans[2 * i] to spans[2 * i + 1] - 1. */
static NOINLINE void NAME(accumulate_pixels)(REAL *to, ptrdiff_t pixel_step, ptrdiff_t to_step,
                                             const struct vectors *from, ptrdiff_t pixels,
                                             const int32_t *pixel, const struct taps *taps) {
    const struct vectors vectors = *from;
    struct taps bins = *taps;
    for (; pixels > 0; pixels--, pixel++, bins.spans += 2)
        NAME(contract_axis)(to + *pixel * pixel_step, to_step, &vectors, &bins, 1);
}

/* Adds to each pixel of a row the weighted sum of the bins that read it.  The vectors of a pixel
   follow each other.  Meanwhile the runs of `bins` are prefetched, spread evenly over the pixels,
   and the pixel that lies `below` each pixel, in elements, unless that is 0. */
static NOINLINE void NAME(accumulate_row)(REAL *to, ptrdiff_t pixel_step,
                                          const struct vectors *from, ptrdiff_t columns,
                                          const int32_t *pixel, const struct taps *taps,
                                          ptrdiff_t below, const struct prefetch_rows *bins) {
    const struct vectors vectors = {from->start, LANES, from->stride, from->count};
    const int32_t *spans = taps->spans;
    const int32_t *tap_pixel = taps->pixel;
    const REAL *tap_weight = (const REAL *)taps->weight;
    const REAL *next = (const REAL *)bins->first;
    const void *runs[MAX_RUNS];
    ptrdiff_t due = 0, left = bins->in_row;
    for (ptrdiff_t x = 0; x < columns; x++) {
        REAL *at = to + pixel[x] * pixel_step;
        ptrdiff_t first = spans[2 * x], count = spans[2 * x + 1] - first;
        int ahead = 0;
        for (due += bins->count; due >= columns && ahead < MAX_RUNS - 1; due -= columns) {
            runs[ahead++] = next;
            next += --left ? bins->step : bins->past_row;
            left = left ? left : bins->in_row;
        }
        if (below)
            runs[ahead++] = at + below;
        /* none and one are constants, which spare the inner loop a loop over runs */
        const struct prefetch_runs none = {NULL, 0}, one = {runs, 1}, some = {runs, ahead};
        const int32_t *bin = tap_pixel + first;
        const REAL *weight = tap_weight + first;
        if (ahead == 0)
            NAME(contract_taps)(at, LANES, vectors, bin, weight, count, 1, none);
        else if (ahead == 1)
            NAME(contract_taps)(at, LANES, vectors, bin, weight, count, 1, one);
        else
            NAME(contract_taps)(at, LANES, vectors, bin, weight, count, 1, some);
    }
}
