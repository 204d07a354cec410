/* Gradients of the input: weighted sums that are added to pixels, as contract.inc.h takes them. */

/* Adds the gradient of a bin, of one lane vector, to each pixel that it reads. */
static NOINLINE void accumulate_bin(void *to, ptrdiff_t row, ptrdiff_t column, const void *gradient,
                                    const struct taps *y, const struct taps *x) {
    const REAL *weight_y = (const REAL *)y->weight, *weight_x = (const REAL *)x->weight;
    const REAL *values = (const REAL *)gradient;
    for (ptrdiff_t j = y->spans[0]; j < y->spans[1]; j++) {
        REAL *pixels = (REAL *)to + y->pixel[j] * row;
        for (ptrdiff_t i = x->spans[0]; i < x->spans[1]; i++) {
            REAL scaled[LANES];
#pragma omp simd
            for (int l = 0; l < LANES; l++)
                scaled[l] = weight_x[i] * values[l];
            add_product(pixels + x->pixel[i] * column, weight_y[j], scaled);
        }
    }
}

/* Adds to each of some pixels of an axis the weighted sum of the bins that read it.  The bins of
   pixel i are taps spans[2 * i] to spans[2 * i + 1] - 1. */
static NOINLINE void accumulate_pixels(void *to, ptrdiff_t pixel_stride, ptrdiff_t to_stride,
                                       const struct vectors *from, ptrdiff_t pixels,
                                       const int32_t *pixel, const struct taps *taps) {
    const struct vectors vectors = *from;
    struct taps bins = *taps;
    for (; pixels > 0; pixels--, pixel++, bins.spans += 2)
        contract_span((REAL *)to + *pixel * pixel_stride, to_stride, &vectors, &bins, 1);
}
