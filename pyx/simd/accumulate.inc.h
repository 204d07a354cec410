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
