/* Weighted sums of lane vectors: a primitive that contracts either axis of a box, and the loops
   around it.

   The loops are functions that are not inlined into larger ones.  Compiled alone, a turn of a loop
   is its loads, products and stores and a few additions of offsets.  In a larger function, GCC
   would keep a pointer for each tap and spill some of them. */

/* sums += weight * values */
static inline void add_product(REAL *sums, REAL weight, const REAL *values) {
    /* GCC unrolls some loops over lanes before it would vectorise them, unless told not to. */
#pragma omp simd
    for (int l = 0; l < LANES; l++)
        sums[l] = FUSED(weight, values[l], sums[l]);
}

/* to[i] = (add: +=) the sum of 1 to 4 taps, a number that compilers know. */
static FORCE_INLINE void fma_taps(REAL *to, ptrdiff_t to_stride, struct vectors from,
                                  const int32_t *pixel, const REAL *weight, int taps, int add) {
    const REAL *start = (const REAL *)from.start;
    const REAL *a = start + pixel[0] * from.pixel_stride;
    const REAL *b = start + pixel[taps > 1 ? 1 : 0] * from.pixel_stride;
    const REAL *c = start + pixel[taps > 2 ? 2 : 0] * from.pixel_stride;
    const REAL *d = start + pixel[taps > 3 ? 3 : 0] * from.pixel_stride;
    REAL wa = weight[0], wb = weight[taps > 1 ? 1 : 0];
    REAL wc = weight[taps > 2 ? 2 : 0], wd = weight[taps > 3 ? 3 : 0];
    ptrdiff_t at = 0;
    for (ptrdiff_t left = from.count; left > 0; left--, at += from.stride, to += to_stride) {
        REAL sums[LANES];
        if (add) {
            for (int l = 0; l < LANES; l++)
                sums[l] = to[l];
            add_product(sums, wa, a + at);
        } else {
#pragma omp simd
            for (int l = 0; l < LANES; l++)
                sums[l] = wa * a[at + l];
        }
        if (taps > 1)
            add_product(sums, wb, b + at);
        if (taps > 2)
            add_product(sums, wc, c + at);
        if (taps > 3 && !PLANTED("one tap of four is left out"))
            add_product(sums, wd, d + at);
        for (int l = 0; l < LANES; l++)
            to[l] = sums[l];
    }
}

/* to[i] = (add: +=) the sum of any number of taps.  The first sums are stored, and others are added
   to them, four taps at a time. */
static FORCE_INLINE void contract_taps(REAL *to, ptrdiff_t to_stride, struct vectors from,
                                       const int32_t *pixel, const REAL *weight, ptrdiff_t taps,
                                       int add) {
    if (!add) {
        if (taps == 2) {
            fma_taps(to, to_stride, from, pixel, weight, 2, 0);
            return;
        }
        if (taps == 3) {
            fma_taps(to, to_stride, from, pixel, weight, 3, 0);
            return;
        }
        if (taps == 1) {
            fma_taps(to, to_stride, from, pixel, weight, 1, 0);
            return;
        }
        if (taps == 0) {
            for (ptrdiff_t i = 0; i < from.count; i++)
                memset(to + i * to_stride, 0, LANE_BYTES);
            return;
        }
        fma_taps(to, to_stride, from, pixel, weight, 4, 0);
        pixel += 4, weight += 4, taps -= 4;
    }
    for (; taps >= 4; pixel += 4, weight += 4, taps -= 4)
        fma_taps(to, to_stride, from, pixel, weight, 4, 1);
    if (taps == 1)
        fma_taps(to, to_stride, from, pixel, weight, 1, 1);
    else if (taps == 2)
        fma_taps(to, to_stride, from, pixel, weight, 2, 1);
    else if (taps == 3)
        fma_taps(to, to_stride, from, pixel, weight, 3, 1);
}

/* to[i * to_stride] = (add: +=) the sum over the taps of one bin, for each lane vector i. */
static FORCE_INLINE void contract_span(REAL *to, ptrdiff_t to_stride, const struct vectors *from,
                                       const struct taps *taps, int add) {
    ptrdiff_t first = taps->spans[0], stop = taps->spans[1];
    contract_taps(to, to_stride, *from, taps->pixel + first, (const REAL *)taps->weight + first,
                  stop - first, add);
}

/* Contracts one bin, for callers that only have the table of functions. */
static NOINLINE void contract_axis(void *to, ptrdiff_t to_stride, const struct vectors *from,
                                   const struct taps *taps, int add) {
    contract_span((REAL *)to, to_stride, from, taps, add);
}

/* Contracts neighbouring bins, whose results lie bin_stride apart. */
static NOINLINE void contract_bins(void *to, ptrdiff_t bin_stride, ptrdiff_t to_stride,
                                   const struct vectors *from, int bins, const struct taps *taps) {
    const struct vectors vectors = *from;
    struct taps bin = *taps;
    REAL *sums = (REAL *)to;
    for (; bins > 0; bins--, bin.spans += 2, sums += bin_stride)
        contract_span(sums, to_stride, &vectors, &bin, 0);
}

/* Contracts one bin along y and then along x.  `from` is pixel (0, x0), where x0 is the pixel of
   the first tap along x; strip[x - x0] has room for all columns from there on. */
static NOINLINE void contract_bin(void *to, void *strip, const void *from, ptrdiff_t row,
                                  ptrdiff_t column, ptrdiff_t columns, const struct taps *y,
                                  const struct taps *x) {
    const ptrdiff_t first_x = x->spans[0], taps_x = x->spans[1] - first_x;
    const int32_t *pixel_x = x->pixel + first_x;
    const REAL *weight_x = (const REAL *)x->weight + first_x;
    const struct vectors rows = {from, column, row, columns};
    const struct vectors strips = {(REAL *)strip - *pixel_x * (ptrdiff_t)LANES, LANES, LANES, 1};
    contract_span((REAL *)strip, LANES, &rows, y, 0);
    contract_taps((REAL *)to, LANES, strips, pixel_x, weight_x, taps_x, 0);
}
