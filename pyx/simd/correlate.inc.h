/* The gradient of the boxes.

   The pixels of several taps at once, as many as registers have room for, are multiplied with the
   gradient of a bin and summed over channels.  These sums are reduced to FOLDED_BYTES of lanes, and
   only then multiplied with weights and slopes and added up.  The loops are written with vectors,
   since from loops over lanes Clang makes vectors that suit the reduction, and spills them. */

#define MAX_TAPS 64 /* taps, of both axes together, that are looked at at once */

/* Adds lanes up until FOLDED_BYTES are left: halves of a lane vector first, and then their halves.
 */
static FORCE_INLINE void reduce_lanes(REAL *folded, const REAL *sums) {
    enum { m = FOLDED_LANES, half_lanes = LANES / 2 };
    REAL half[half_lanes];
#pragma omp simd
    for (int l = 0; l < half_lanes; l++)
        half[l] = sums[l] + sums[l + half_lanes];
#pragma omp simd
    for (int l = 0; l < m; l++)
        folded[l] = half[l] + half[l + m];
}

static FORCE_INLINE void add_folded(REAL *sums, REAL weight, const REAL *values) {
#pragma omp simd
    for (int l = 0; l < FOLDED_LANES; l++)
        sums[l] = FUSED(weight, values[l], sums[l]);
}

/* sums = a * b, lane by lane. */
static FORCE_INLINE void multiply(VECTOR *sums, const REAL *a, const REAL *b) {
    for (int v = 0; v < LANES; v += VECTOR_LANES)
        sums[v / VECTOR_LANES] = load(a + v) * load(b + v);
}

/* sums += a * b, lane by lane. */
static FORCE_INLINE void multiply_add(VECTOR *sums, const REAL *a, const REAL *b) {
    for (int v = 0; v < LANES; v += VECTOR_LANES)
        sums[v / VECTOR_LANES] = FUSED_VECTOR(load(a + v), load(b + v), sums[v / VECTOR_LANES]);
}

/* folded[t] = the sum over i of by[i * by_stride] * from[at[t] + i * stride], for 1 to 6 taps t, a
   number that compilers know.  A loop over taps would not be unrolled in time to keep the sums in
   registers. */
static FORCE_INLINE void correlate_some(REAL *folded, const REAL *by, ptrdiff_t by_stride,
                                        const REAL *from, ptrdiff_t stride, ptrdiff_t count,
                                        const ptrdiff_t *at, int taps) {
    enum { m = FOLDED_LANES, w = LANES / VECTOR_LANES };
    VECTOR sums[6][w];
    const REAL *pixel[6];
    for (int t = 0; t < taps; t++)
        pixel[t] = from + at[t];
    for (int t = 0; t < taps; t++)
        multiply(sums[t], pixel[t], by);
    for (ptrdiff_t i = stride; count > 1; count--, i += stride) {
        by += by_stride;
        multiply_add(sums[0], pixel[0] + i, by);
        if (taps > 1)
            multiply_add(sums[1], pixel[1] + i, by);
        if (taps > 2)
            multiply_add(sums[2], pixel[2] + i, by);
        if (taps > 3)
            multiply_add(sums[3], pixel[3] + i, by);
        if (taps > 4)
            multiply_add(sums[4], pixel[4] + i, by);
        if (taps > 5)
            multiply_add(sums[5], pixel[5] + i, by);
    }
    for (int t = 0; t < taps; t++)
        reduce_lanes(folded + t * m, (const REAL *)sums[t]);
}

/* Correlates any number of taps, some at a time. */
static FORCE_INLINE void correlate(REAL *folded, const REAL *by, ptrdiff_t by_stride,
                                   const REAL *from, ptrdiff_t stride, ptrdiff_t count,
                                   const ptrdiff_t *at, ptrdiff_t taps) {
    enum { m = FOLDED_LANES, most = VECTOR_BYTES > 16 ? 6 : 2 };
    for (; taps >= most; taps -= most, at += most, folded += most * m)
        correlate_some(folded, by, by_stride, from, stride, count, at, most);
    if (taps == 1)
        correlate_some(folded, by, by_stride, from, stride, count, at, 1);
    else if (most > 2 && taps == 2)
        correlate_some(folded, by, by_stride, from, stride, count, at, 2);
    else if (most > 2 && taps == 3)
        correlate_some(folded, by, by_stride, from, stride, count, at, 3);
    else if (most > 2 && taps == 4)
        correlate_some(folded, by, by_stride, from, stride, count, at, 4);
    else if (most > 2 && taps == 5)
        correlate_some(folded, by, by_stride, from, stride, count, at, 5);
}

/* Goes through more than MAX_TAPS taps, some rows at a time, or some taps of a row. */
static NOIPA void add_slopes(void *, const void *, ptrdiff_t, const struct pixels *,
                             const struct slope_taps *, const int32_t *, const int32_t *);
static NOINLINE void add_slopes_of_many_taps(void *sums, const void *by, ptrdiff_t by_stride,
                                             const struct pixels *from,
                                             const struct slope_taps *taps, const int32_t *y,
                                             const int32_t *x) {
    const int32_t columns = x[1] - x[0], rows = columns < MAX_TAPS ? MAX_TAPS / columns : 1;
    int32_t some_y[2], some_x[2];
    for (some_y[0] = y[0]; some_y[0] < y[1]; some_y[0] = some_y[1]) {
        some_y[1] = y[1] - some_y[0] < rows ? y[1] : some_y[0] + rows;
        for (some_x[0] = x[0]; some_x[0] < x[1]; some_x[0] = some_x[1]) {
            some_x[1] = x[1] - some_x[0] < MAX_TAPS ? x[1] : some_x[0] + MAX_TAPS;
            add_slopes(sums, by, by_stride, from, taps, some_y, some_x);
        }
        if (PLANTED("taps beyond 64 are left out"))
            break;
    }
}

/* sums[y1, y2, x1, x2] += the gradients by the edges of a bin, FOLDED_BYTES of lanes each.  y and x
   are its taps along either axis, one or more: [first, stop).

   With S[y, x] = the sum over i of by[i * by_stride] * pixel (y, x) of block i, they are sums of S
   times the weight of one axis and the slope of the other.  Nearly all bins have few taps.  The
   function is NOIPA, since GCC would otherwise specialise it for the strides that callers pass,
   which costs registers. */
static NOIPA void add_slopes(void *to, const void *by, ptrdiff_t by_stride,
                             const struct pixels *from, const struct slope_taps *taps,
                             const int32_t *y, const int32_t *x) {
    enum { m = FOLDED_LANES };
    REAL *sums = (REAL *)to;
    const ptrdiff_t rows = y[1] - y[0], columns = x[1] - x[0];
    const int32_t *pixel_y = taps->pixel + y[0], *pixel_x = taps->pixel + x[0];
    const REAL *weight = (const REAL *)taps->weight, *low = (const REAL *)taps->slopes;
    const REAL *high = low + taps->stride;
    const REAL *weight_x = weight + x[0], *low_x = low + x[0], *high_x = high + x[0];
    const REAL *weight_y = weight + y[0], *low_y = low + y[0], *high_y = high + y[0];
    ptrdiff_t at[MAX_TAPS], *next = at;
    REAL folded[MAX_TAPS * m], by_y1[m], by_y2[m], by_x1[m], by_x2[m];
    const REAL *values = folded;
    if (rows * columns > MAX_TAPS) {
        add_slopes_of_many_taps(to, by, by_stride, from, taps, y, x);
        return;
    }
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < columns; j++)
            *next++ = pixel_y[i] * from->stride_y + pixel_x[j] * from->stride_x;
    correlate(folded, (const REAL *)by, by_stride, (const REAL *)from->start, from->stride,
              from->count, at, rows * columns);
    for (int l = 0; l < m; l++) {
        by_y1[l] = sums[l], by_y2[l] = sums[m + l];
        by_x1[l] = sums[2 * m + l], by_x2[l] = sums[3 * m + l];
    }
    for (ptrdiff_t i = 0; i < rows; i++) {
        REAL of_weight[m] = {0}, of_low[m] = {0}, of_high[m] = {0};
        for (ptrdiff_t j = 0; j < columns; j++, values += m) {
            add_folded(of_weight, weight_x[j], values);
            add_folded(of_low, low_x[j], values);
            add_folded(of_high, high_x[j], values);
        }
        add_folded(by_y1, low_y[i], of_weight);
        add_folded(by_y2, high_y[i], of_weight);
        add_folded(by_x1, weight_y[i], of_low);
        add_folded(by_x2, weight_y[i], of_high);
    }
    for (int l = 0; l < m; l++) {
        sums[l] = by_y1[l], sums[m + l] = by_y2[l];
        sums[2 * m + l] = by_x1[l], sums[3 * m + l] = by_x2[l];
    }
}
