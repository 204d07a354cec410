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

/* Keeps the larger values, each with its index.  Of equal values the one with the smaller index
   stays. */
static inline void NAME(keep_first_larger)(REAL *best, int32_t *at, const REAL *values,
                                           const int32_t *indices) {
#pragma omp simd
    for (int l = 0; l < LANES; l++) {
        int wins = (values[l] > best[l]) | ((values[l] == best[l]) & (indices[l] < at[l]));
        at[l] = wins ? indices[l] : at[l];
        best[l] = wins ? values[l] : best[l];
    }
}
