/* Maxima of lane vectors.  A NaN is not larger than anything. */

/* best = the larger of best and values, lane by lane. */
static inline void keep_larger(REAL *best, const REAL *values) {
#pragma omp simd
    for (int l = 0; l < LANES; l++)
        best[l] = values[l] > best[l] ? values[l] : best[l];
}

/* to[i] = the largest vector i of `taps` pixels from `first` on (more: and of to[i]).  There are
   one to four, a number that compilers know. */
static FORCE_INLINE void keep_some(REAL *to, ptrdiff_t to_stride, struct vectors from,
                                   ptrdiff_t first, int taps, int more) {
    const REAL *pixels = (const REAL *)from.start + first * from.pixel_stride;
    const ptrdiff_t stride = from.pixel_stride;
    for (ptrdiff_t left = from.count; left > 0; left--, to += to_stride, pixels += from.stride) {
        REAL best[LANES];
        for (int l = 0; l < LANES; l++)
            best[l] = more ? to[l] : LOWEST;
        keep_larger(best, pixels);
        if (taps > 1)
            keep_larger(best, pixels + stride);
        if (taps > 2)
            keep_larger(best, pixels + 2 * stride);
        if (taps > 3)
            keep_larger(best, pixels + 3 * stride);
        for (int l = 0; l < LANES; l++)
            to[l] = best[l];
    }
}

/* to[i * to_stride] = the largest of its taps, which follow each other; there is at least one.  The
   last of many taps overlap those before them, which changes no maximum. */
static NOINLINE void keep_largest(void *to, ptrdiff_t to_stride, const struct vectors *from,
                                  ptrdiff_t taps) {
    const struct vectors vectors = *from;
    REAL *best = (REAL *)to;
    if (taps == 1)
        keep_some(best, to_stride, vectors, 0, 1, 0);
    else if (taps == 2)
        keep_some(best, to_stride, vectors, 0, 2, 0);
    else if (taps == 3)
        keep_some(best, to_stride, vectors, 0, 3, 0);
    else
        keep_some(best, to_stride, vectors, 0, 4, 0);
    for (ptrdiff_t first = 4; first < taps; first += 4)
        if (taps - first > 2)
            keep_some(best, to_stride, vectors, first < taps - 4 ? first : taps - 4, 4, 1);
        else
            keep_some(best, to_stride, vectors, taps - 2, 2, 1);
}

/* Keeps the larger values, and sets `at` to `index` in the lanes where a value replaces one. */
static inline void keep_larger_at(REAL *best, int32_t *at, const REAL *values, int32_t index) {
#pragma omp simd
    for (int l = 0; l < LANES; l++) {
        at[l] = values[l] > best[l] ? index : at[l];
        best[l] = values[l] > best[l] ? values[l] : best[l];
    }
}

/* Goes on with the maximum of a bin through rows x columns pixels, in the order of rows, so that
   the first of equal ones stays.  best_at: where the largest before them is; index: of the first
   pixel; width: of a row of the map.  Indices are lanes as wide as REAL, in vectors: compilers keep
   these in registers, and arrays in memory. */
static NOINLINE void search_pixels(void *best, int32_t *best_at, const struct pixels *pixels,
                                   ptrdiff_t rows, ptrdiff_t columns, int32_t index,
                                   ptrdiff_t width) {
    enum { w = LANES / VECTOR_LANES };
    VECTOR largest[w];
    INDICES at[w];
    for (int v = 0; v < w; v++)
        largest[v] = load((const REAL *)best + v * VECTOR_LANES);
    for (int l = 0; l < LANES; l++)
        at[l / VECTOR_LANES][l % VECTOR_LANES] = best_at[l];
    for (ptrdiff_t y = 0; y < rows; y++) {
        const REAL *pixel = (const REAL *)pixels->start + y * pixels->stride_y;
        for (ptrdiff_t x = 0; x < columns; x++, pixel += pixels->stride_x) {
            const INDICES here = (INDICES){0} + (int32_t)(index + y * width + x);
            for (int v = 0; v < w; v++) {
                const VECTOR values = load(pixel + v * VECTOR_LANES);
                const INDICES larger = PLANTED("the last of equal pixels is found")
                                           ? values >= largest[v]
                                           : values > largest[v];
                at[v] = (larger & here) | (~larger & at[v]);
                largest[v] = (VECTOR)((larger & (INDICES)values) | (~larger & (INDICES)largest[v]));
            }
        }
    }
    for (int v = 0; v < w; v++)
        store((REAL *)best + v * VECTOR_LANES, largest[v]);
    for (int l = 0; l < LANES; l++)
        best_at[l] = (int32_t)at[l / VECTOR_LANES][l % VECTOR_LANES];
}
