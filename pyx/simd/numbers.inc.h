/* Single numbers, for maps of so few channels that lanes would stay mostly empty.  Number (y, x) of
   a channel lies at plane + y * row + x * column.  simd.h includes this file once for each type
   REAL. */

#define COLUMNS_AT_ONCE 8 /* whose sums do not wait for each other */

/* sums[i] = the weighted sum along y of the column of tap i.  `count` is known to the compiler. */
static FORCE_INLINE void NAME(sum_columns)(REAL *sums, const REAL *plane, ptrdiff_t row,
                                           ptrdiff_t column, const struct taps *y,
                                           const int32_t *pixel_x, int count) {
    const REAL *weight = (const REAL *)y->weight;
    for (ptrdiff_t j = y->spans[0]; j < y->spans[1]; j++) {
        const REAL *from = plane + y->pixel[j] * row;
        for (int i = 0; i < count; i++) {
            REAL value = from[pixel_x[i] * column];
            sums[i] = j > y->spans[0] ? NAME(FUSED)(weight[j], value, sums[i]) : weight[j] * value;
        }
    }
}

/* to = the weighted sum of a bin, along y and then along x, in the order of contract_bin. */
static NOINLINE void NAME(sum_number)(REAL *to, const REAL *plane, ptrdiff_t row, ptrdiff_t column,
                                      const struct taps *y, const struct taps *x) {
    const REAL *weight = (const REAL *)x->weight;
    const ptrdiff_t first = x->spans[0], stop = y->spans[0] < y->spans[1] ? x->spans[1] : first;
    REAL sums[COLUMNS_AT_ONCE], sum = 0;
    for (ptrdiff_t i = first; i < stop;) {
        int count = stop - i >= COLUMNS_AT_ONCE ? COLUMNS_AT_ONCE : 1;
        if (count > 1)
            NAME(sum_columns)(sums, plane, row, column, y, x->pixel + i, COLUMNS_AT_ONCE);
        else
            NAME(sum_columns)(sums, plane, row, column, y, x->pixel + i, 1);
        for (int l = 0; l < count; l++, i++)
            sum = i > first ? NAME(FUSED)(weight[i], sums[l], sum) : weight[i] * sums[l];
    }
    *to = sum;
}

/* to[i] = the weighted sum of some numbers of column i, in the order of contract_axis. */
static NOINLINE void NAME(sum_rows)(REAL *to, const REAL *from, ptrdiff_t row, ptrdiff_t column,
                                    ptrdiff_t columns, const struct taps *taps) {
    const REAL *weight = (const REAL *)taps->weight;
    const ptrdiff_t first = taps->spans[0], stop = taps->spans[1];
    for (ptrdiff_t i = 0; i < columns; i++, from += column) {
        REAL sum = first < stop ? weight[first] * from[taps->pixel[first] * row] : 0;
        for (ptrdiff_t j = first + 1; j < stop; j++)
            sum = NAME(FUSED)(weight[j], from[taps->pixel[j] * row], sum);
        to[i] = sum;
    }
}

/* Adds to each of some pixels of a row the weighted sum of the numbers of the bins that read it, in
   the order of accumulate_pixels. */
static NOINLINE void NAME(add_numbers)(REAL *to, ptrdiff_t column, const REAL *from,
                                       ptrdiff_t pixels, const int32_t *pixel,
                                       const struct taps *bins) {
    const REAL *weight = (const REAL *)bins->weight;
    const int32_t *spans = bins->spans;
    for (; pixels > 0; pixels--, pixel++, spans += 2) {
        REAL *at = to + *pixel * column, sum = *at;
        for (ptrdiff_t j = spans[0]; j < spans[1]; j++)
            sum = NAME(FUSED)(weight[j], from[bins->pixel[j]], sum);
        *at = sum;
    }
}

/* plane += the weights of a bin times its gradient. */
static NOINLINE void NAME(add_number)(REAL *plane, ptrdiff_t row, ptrdiff_t column, REAL gradient,
                                      const struct taps *y, const struct taps *x) {
    const REAL *weight_y = (const REAL *)y->weight, *weight_x = (const REAL *)x->weight;
    for (ptrdiff_t j = y->spans[0]; j < y->spans[1]; j++) {
        REAL *to = plane + y->pixel[j] * row;
        for (ptrdiff_t i = x->spans[0]; i < x->spans[1]; i++) {
            REAL *at = to + x->pixel[i] * column;
            *at = NAME(FUSED)(weight_y[j], weight_x[i] * gradient, *at);
        }
    }
}

/* The index of the first of rows x columns numbers that is equal to `value`, or -1: number (y, x)
   has index y * map_columns + x. */
static NOINLINE int32_t NAME(find_number)(const REAL *from, REAL value, ptrdiff_t row,
                                          ptrdiff_t column, ptrdiff_t rows, ptrdiff_t columns,
                                          ptrdiff_t map_columns) {
    for (ptrdiff_t y = 0; y < rows; y++, from += row)
        for (ptrdiff_t x = 0; x < columns; x++)
            if (from[x * column] == value)
                return (int32_t)(y * map_columns + x);
    return -1;
}

/* The zero of either sign that comes first where rows are gone through before columns, as lanes do.
   There is one. */
static NOINLINE REAL NAME(first_zero)(const REAL *from, ptrdiff_t row, ptrdiff_t column,
                                      ptrdiff_t rows, ptrdiff_t columns) {
    for (ptrdiff_t x = 0; x < columns; x++, from += column)
        for (ptrdiff_t y = 0; y < rows; y++)
            if (from[y * row] == 0)
                return from[y * row];
    return 0;
}

/* best = the largest of rows x columns numbers and of best. */
static NOINLINE void NAME(largest_number)(REAL *best, const REAL *from, ptrdiff_t row,
                                          ptrdiff_t column, ptrdiff_t rows, ptrdiff_t columns) {
    REAL largest = *best, lanes[LANES];
    const REAL *at = from;
    for (int l = 0; l < LANES; l++)
        lanes[l] = largest;
    for (ptrdiff_t y = 0; y < rows; y++, at += row) {
        ptrdiff_t x = 0;
        for (; column == 1 && x + LANES <= columns; x += LANES)
            NAME(keep_larger)(lanes, at + x);
        for (; x < columns; x++)
            largest = at[x * column] > largest ? at[x * column] : largest;
    }
    for (int l = 0; l < LANES; l++)
        largest = lanes[l] > largest ? lanes[l] : largest;
    *best = largest == 0 ? NAME(first_zero)(from, row, column, rows, columns) : largest;
}

#undef COLUMNS_AT_ONCE
