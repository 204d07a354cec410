/* The gradient of the boxes.  simd.h includes this file once for each type REAL.

   Taps are correlated with the gradient of a bin, as many at once as registers have room for.  The
   sums over channels are reduced to FOLDED_BYTES of lanes, and only then multiplied with weights
   and slopes and added up.  The loops are written with vectors: of loops over lanes Clang makes
   other vectors, for the sake of how they are reduced, and spills them. */

#define FOLDED_BYTES 16 /* bytes of lanes that sums are reduced to */
#define MAX_TAPS 64     /* taps, of both axes together, that are looked at at once */

/* The sums over groups of lanes, FOLDED_BYTES of them. */
static FORCE_INLINE void NAME(reduce_lanes)(REAL *folded, const REAL *sums) {
    enum { m = FOLDED_LANES, half_lanes = LANES / 2 };
    REAL half[half_lanes];
#pragma omp simd
    for (int l = 0; l < half_lanes; l++)
        half[l] = sums[l] + sums[l + half_lanes];
#pragma omp simd
    for (int l = 0; l < m; l++)
        folded[l] = half[l] + half[l + m];
}

static FORCE_INLINE void NAME(add_folded)(REAL *sums, REAL weight, const REAL *values) {
#pragma omp simd
    for (int l = 0; l < FOLDED_LANES; l++)
        sums[l] = NAME(FUSED)(weight, values[l], sums[l]);
}

/* sums = a * b, lane by lane. */
static FORCE_INLINE void NAME(multiply)(VECTOR *sums, const REAL *a, const REAL *b) {
    for (int v = 0; v < LANES; v += VECTOR_LANES)
        sums[v / VECTOR_LANES] = NAME(load)(a + v) * NAME(load)(b + v);
}

/* sums += a * b, lane by lane. */
static FORCE_INLINE void NAME(multiply_add)(VECTOR *sums, const REAL *a, const REAL *b) {
    for (int v = 0; v < LANES; v += VECTOR_LANES)
        sums[v / VECTOR_LANES] =
            NAME(FUSED_VECTOR)(NAME(load)(a + v), NAME(load)(b + v), sums[v / VECTOR_LANES]);
}

/* folded[t] = the sum over i of by[i * by_step] * from[at[t] + i * step], for 1 to 6 taps t, a
   number that compilers know.  A loop over taps would not be unrolled in time to keep the sums in
   registers. */
static FORCE_INLINE void NAME(correlate_some)(REAL *folded, const REAL *by, ptrdiff_t by_step,
                                              const REAL *from, ptrdiff_t step, ptrdiff_t count,
                                              const ptrdiff_t *at, int taps) {
    enum { m = FOLDED_LANES, w = LANES / VECTOR_LANES };
    VECTOR sums[6][w];
    const REAL *pixel[6];
    for (int t = 0; t < taps; t++)
        pixel[t] = from + at[t];
    for (int t = 0; t < taps; t++)
        NAME(multiply)(sums[t], pixel[t], by);
    for (ptrdiff_t i = step; count > 1; count--, i += step) {
        by += by_step;
        NAME(multiply_add)(sums[0], pixel[0] + i, by);
        if (taps > 1)
            NAME(multiply_add)(sums[1], pixel[1] + i, by);
        if (taps > 2)
            NAME(multiply_add)(sums[2], pixel[2] + i, by);
        if (taps > 3)
            NAME(multiply_add)(sums[3], pixel[3] + i, by);
        if (taps > 4)
            NAME(multiply_add)(sums[4], pixel[4] + i, by);
        if (taps > 5)
            NAME(multiply_add)(sums[5], pixel[5] + i, by);
    }
    for (int t = 0; t < taps; t++)
        NAME(reduce_lanes)(folded + t * m, (const REAL *)sums[t]);
}

/* The same sums for any number of taps. */
static FORCE_INLINE void NAME(correlate)(REAL *folded, const REAL *by, ptrdiff_t by_step,
                                         const REAL *from, ptrdiff_t step, ptrdiff_t count,
                                         const ptrdiff_t *at, ptrdiff_t taps) {
    enum { m = FOLDED_LANES, most = VECTOR_BYTES > 16 ? 6 : 2 };
    for (; taps >= most; taps -= most, at += most, folded += most * m)
        NAME(correlate_some)(folded, by, by_step, from, step, count, at, most);
    if (taps == 1)
        NAME(correlate_some)(folded, by, by_step, from, step, count, at, 1);
    else if (most > 2 && taps == 2)
        NAME(correlate_some)(folded, by, by_step, from, step, count, at, 2);
    else if (most > 2 && taps == 3)
        NAME(correlate_some)(folded, by, by_step, from, step, count, at, 3);
    else if (most > 2 && taps == 4)
        NAME(correlate_some)(folded, by, by_step, from, step, count, at, 4);
    else if (most > 2 && taps == 5)
        NAME(correlate_some)(folded, by, by_step, from, step, count, at, 5);
}

/* The sums of one row of correlations, with the weights of x and with its slopes by either edge, go
   to the sums by y1, y2, x1 and x2. */
static FORCE_INLINE void NAME(add_row_of_slopes)(REAL by_edge[4][FOLDED_LANES], const REAL *folded,
                                                 const struct slope_taps *y, ptrdiff_t row,
                                                 const struct slope_taps *x, ptrdiff_t first,
                                                 ptrdiff_t columns) {
    enum { m = FOLDED_LANES };
    REAL of_weight[m] = {0}, of_low[m] = {0}, of_high[m] = {0};
    for (ptrdiff_t j = first; j < first + columns; j++, folded += m) {
        NAME(add_folded)(of_weight, ((const REAL *)x->weight)[j], folded);
        NAME(add_folded)(of_low, ((const REAL *)x->low)[j], folded);
        NAME(add_folded)(of_high, ((const REAL *)x->high)[j], folded);
    }
    NAME(add_folded)(by_edge[0], ((const REAL *)y->low)[row], of_weight);
    NAME(add_folded)(by_edge[1], ((const REAL *)y->high)[row], of_weight);
    NAME(add_folded)(by_edge[2], ((const REAL *)y->weight)[row], of_low);
    NAME(add_folded)(by_edge[3], ((const REAL *)y->weight)[row], of_high);
}

/* sums[y1, y2, x1, x2] += the gradients by the edges of a bin, FOLDED_BYTES of lanes each.

   With S[y, x] = the sum over i of by[i * by_step] * pixel (y, x) of block i, they are sums of S
   times the weight of one axis and the slope of the other.  Most bins have no more than MAX_TAPS
   taps; those of larger ones are looked at in parts. */
static NOIPA void NAME(add_slopes)(REAL *sums, const REAL *by, ptrdiff_t by_step,
                                   const struct pixels *from, const struct slope_taps *y,
                                   const struct slope_taps *x) {
    enum { m = FOLDED_LANES };
    const struct pixels pixels = *from;
    const struct slope_taps of_y = *y, of_x = *x;
    ptrdiff_t at[MAX_TAPS], rows, columns;
    REAL folded[MAX_TAPS * m], by_edge[4][m];
    memcpy(by_edge, sums, sizeof by_edge);
    for (ptrdiff_t y0 = 0; y0 < of_y.count; y0 += rows) {
        rows = of_y.count - y0;
        if (rows * of_x.count > MAX_TAPS)
            rows = of_x.count < MAX_TAPS ? MAX_TAPS / of_x.count : 1;
        for (ptrdiff_t x0 = 0; x0 < of_x.count; x0 += columns) {
            columns = of_x.count - x0 < MAX_TAPS ? of_x.count - x0 : MAX_TAPS;
            ptrdiff_t *next = at;
            for (ptrdiff_t i = y0; i < y0 + rows; i++)
                for (ptrdiff_t j = x0; j < x0 + columns; j++)
                    *next++ = of_y.pixel[i] * pixels.stride_y + of_x.pixel[j] * pixels.stride_x;
            NAME(correlate)(folded, by, by_step, (const REAL *)pixels.start, pixels.step,
                            pixels.count, at, rows * columns);
            for (ptrdiff_t i = 0; i < rows; i++)
                NAME(add_row_of_slopes)(by_edge, folded + i * columns * m, &of_y, y0 + i, &of_x, x0,
                                        columns);
        }
    }
    memcpy(sums, by_edge, sizeof by_edge);
}

/* Adds the gradients by the edges of neighbouring bins where lanes are bin rows.

   What pixels, `stride` apart, add up to along y with the weights of the rows is of_weight, and
   with their slopes by y1 and y2 of_low and of_high.  The sums are a lane vector for each edge,
   which is not reduced before the last bin of a box: they have the same bits however many bins are
   looked at at once.  slope[entries + j] is the slope by the high edge. */
static NOIPA void NAME(add_row_slopes)(REAL *sums, const REAL *by, const REAL *of_weight,
                                       const REAL *of_low, const REAL *of_high, ptrdiff_t stride,
                                       int bins, const int32_t *spans, const int32_t *pixel,
                                       const REAL *weight, const REAL *slope, ptrdiff_t entries) {
    for (int v = 0; v < LANES; v += VECTOR_LANES) {
        VECTOR by_y1 = NAME(load)(sums + v), by_y2 = NAME(load)(sums + LANES + v);
        VECTOR by_x1 = NAME(load)(sums + 2 * LANES + v);
        VECTOR by_x2 = NAME(load)(sums + 3 * LANES + v);
        for (int b = 0; b < bins; b++) {
            VECTOR low = {0}, high = {0}, left = {0}, right = {0};
            VECTOR grad = NAME(load)(by + b * LANES + v);
            if (spans[2 * b] == spans[2 * b + 1])
                continue; /* whatever its gradient is */
            for (ptrdiff_t j = spans[2 * b]; j < spans[2 * b + 1]; j++) {
                ptrdiff_t at = pixel[j] * stride + v;
                VECTOR weights = NAME(broadcast)(weight[j]);
                VECTOR value = NAME(load)(of_weight + at);
                low = NAME(FUSED_VECTOR)(weights, NAME(load)(of_low + at), low);
                high = NAME(FUSED_VECTOR)(weights, NAME(load)(of_high + at), high);
                left = NAME(FUSED_VECTOR)(NAME(broadcast)(slope[j]), value, left);
                right = NAME(FUSED_VECTOR)(NAME(broadcast)(slope[entries + j]), value, right);
            }
            by_y1 = NAME(FUSED_VECTOR)(grad, low, by_y1);
            by_y2 = NAME(FUSED_VECTOR)(grad, high, by_y2);
            by_x1 = NAME(FUSED_VECTOR)(grad, left, by_x1);
            by_x2 = NAME(FUSED_VECTOR)(grad, right, by_x2);
        }
        NAME(store)(sums + v, by_y1);
        NAME(store)(sums + LANES + v, by_y2);
        NAME(store)(sums + 2 * LANES + v, by_x1);
        NAME(store)(sums + 3 * LANES + v, by_x2);
    }
}

/* Adds what add_row_slopes summed to what add_slopes sums. */
static inline void NAME(fold_slopes)(REAL *folded, const REAL *sums) {
    enum { m = FOLDED_LANES };
    REAL some[m];
    for (int edge = 0; edge < 4; edge++) {
        NAME(reduce_lanes)(some, sums + edge * LANES);
        for (int l = 0; l < m; l++)
            folded[edge * m + l] += some[l];
    }
}
