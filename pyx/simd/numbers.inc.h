/* Single numbers, for maps of so few channels that lanes would stay mostly empty.  Number (y, x) of
   a channel lies at plane + y * row + x * column. */

#define COLUMNS_AT_ONCE 8 /* whose sums do not wait for each other */

/* sums[i] = the weighted sum along y of the column of tap i.  `count` is known to the compiler. */
static FORCE_INLINE void sum_columns(REAL *sums, const REAL *plane, ptrdiff_t row, ptrdiff_t column,
                                     const struct taps *y, const int32_t *pixel_x, int count) {
    const REAL *weight = (const REAL *)y->weight;
    for (ptrdiff_t j = y->spans[0]; j < y->spans[1]; j++) {
        const REAL *from = plane + y->pixel[j] * row;
        for (int i = 0; i < count; i++) {
            REAL value = from[pixel_x[i] * column];
            sums[i] = j > y->spans[0] ? FUSED(weight[j], value, sums[i]) : weight[j] * value;
        }
    }
}

/* to = the weighted sum of a bin, along y and then along x, in the order of contract_bin. */
static FORCE_INLINE void sum_number(REAL *to, const REAL *from, ptrdiff_t row, ptrdiff_t column,
                                    const struct taps *y, const struct taps *x) {
    const REAL *weight = (const REAL *)x->weight;
    const ptrdiff_t first = x->spans[0], stop = y->spans[0] < y->spans[1] ? x->spans[1] : first;
    REAL sums[COLUMNS_AT_ONCE], sum = 0;
    for (ptrdiff_t i = first; i < stop;) {
        int count = stop - i >= COLUMNS_AT_ONCE ? COLUMNS_AT_ONCE : 1;
        if (count > 1)
            sum_columns(sums, from, row, column, y, x->pixel + i, COLUMNS_AT_ONCE);
        else
            sum_columns(sums, from, row, column, y, x->pixel + i, 1);
        for (int l = 0; l < count; l++, i++)
            sum = i > first ? FUSED(weight[i], sums[l], sum) : weight[i] * sums[l];
    }
    *to = sum;
}

/* Sums the bins of a row, along y and then along x, or with `x_first` the other way round.  Their
   numbers are written `to_stride` apart.  Bin i, of `count`, reads the plane that begins at
   start + i * stride. */
static NOINLINE void sum_numbers(void *to, ptrdiff_t to_stride, const struct pixels *planes,
                                 const struct taps *y, const struct taps *x, int x_first) {
    const ptrdiff_t row = planes->stride_y, column = planes->stride_x;
    const REAL *from = (const REAL *)planes->start;
    REAL *number = (REAL *)to;
    struct taps bin = *x;
    for (ptrdiff_t left = planes->count; left > 0; left--, bin.spans += 2, number += to_stride) {
        if (x_first)
            sum_number(number, from, column, row, &bin, y);
        else
            sum_number(number, from, row, column, y, &bin);
        from += planes->stride;
    }
}

/* to[i] = the weighted sum of some numbers of column i, in the order of contract_axis. */
static NOINLINE void sum_rows(void *to, const void *from, ptrdiff_t row, ptrdiff_t column,
                              ptrdiff_t columns, const struct taps *taps) {
    const REAL *weight = (const REAL *)taps->weight;
    const ptrdiff_t first = taps->spans[0], stop = taps->spans[1];
    const REAL *numbers = (const REAL *)from;
    for (ptrdiff_t i = 0; i < columns; i++, numbers += column) {
        REAL sum = first < stop ? weight[first] * numbers[taps->pixel[first] * row] : 0;
        for (ptrdiff_t j = first + 1; j < stop; j++)
            sum = FUSED(weight[j], numbers[taps->pixel[j] * row], sum);
        ((REAL *)to)[i] = sum;
    }
}

/* Adds to each of some pixels of a row the weighted sum of the numbers of the bins that read it, in
   the order of accumulate_pixels. */
static NOINLINE void add_numbers(void *to, ptrdiff_t column, const void *from, ptrdiff_t pixels,
                                 const int32_t *pixel, const struct taps *bins) {
    const REAL *weight = (const REAL *)bins->weight;
    const REAL *numbers = (const REAL *)from;
    const int32_t *spans = bins->spans;
    for (; pixels > 0; pixels--, pixel++, spans += 2) {
        REAL *at = (REAL *)to + *pixel * column;
        REAL sum = PLANTED("a number replaces the sum") ? 0 : *at;
        for (ptrdiff_t j = spans[0]; j < spans[1]; j++)
            sum = FUSED(weight[j], numbers[bins->pixel[j]], sum);
        *at = sum;
    }
}

#undef COLUMNS_AT_ONCE
