/* Maxima of lane vectors.  A NaN is not larger than anything.  simd.h includes this file once for
   each type REAL. */

/* best = the larger of best and values, lane by lane. */
static inline void NAME(keep_larger)(REAL *best, const REAL *values) {
#pragma omp simd
    for (int l = 0; l < LANES; l++)
        best[l] = values[l] > best[l] ? values[l] : best[l];
}

/* Keeps the larger values, and sets `at` to `index` in the lanes where a value replaces one. */
static inline void NAME(keep_larger_at)(REAL *best, int32_t *at, const REAL *values,
                                        int32_t index) {
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
static NOINLINE void NAME(search_pixels)(REAL *best, int32_t *best_at, const struct pixels *pixels,
                                         ptrdiff_t rows, ptrdiff_t columns, int32_t index,
                                         ptrdiff_t width) {
    enum { w = LANES / VECTOR_LANES };
    VECTOR largest[w];
    INDICES at[w];
    for (int v = 0; v < w; v++)
        largest[v] = NAME(load)(best + v * VECTOR_LANES);
    for (int l = 0; l < LANES; l++)
        at[l / VECTOR_LANES][l % VECTOR_LANES] = best_at[l];
    for (ptrdiff_t y = 0; y < rows; y++) {
        const REAL *pixel = (const REAL *)pixels->start + y * pixels->stride_y;
        for (ptrdiff_t x = 0; x < columns; x++, pixel += pixels->stride_x) {
            const INDICES here = (INDICES){0} + (int32_t)(index + y * width + x);
            for (int v = 0; v < w; v++) {
                const VECTOR values = NAME(load)(pixel + v * VECTOR_LANES);
                const INDICES larger = values > largest[v];
                at[v] = (larger & here) | (~larger & at[v]);
                largest[v] = (VECTOR)((larger & (INDICES)values) | (~larger & (INDICES)largest[v]));
            }
        }
    }
    for (int v = 0; v < w; v++)
        NAME(store)(best + v * VECTOR_LANES, largest[v]);
    for (int l = 0; l < LANES; l++)
        best_at[l] = (int32_t)at[l / VECTOR_LANES][l % VECTOR_LANES];
}
