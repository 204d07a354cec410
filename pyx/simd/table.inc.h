/* The functions on lane vectors that other code calls: the list that table.h and table/fill.h read.
   FUNCTION(result, name, parameters) is one of type REAL, which `void` points to.  OF_FLOAT is NULL
   in the table of double: numbers of small types are computed in float.  The files named here say
   what functions do. */

/* tile.inc.h */
FUNCTION(void, pack,
         (const void *from, const struct strides *strides, int lanes, ptrdiff_t rows,
          ptrdiff_t columns, void *to))
FUNCTION(void, read_pixels,
         (const struct tile *tile, ptrdiff_t y, ptrdiff_t x, ptrdiff_t rows, ptrdiff_t columns,
          void *to))
FUNCTION(const void *, load_rows,
         (struct tile * tile, void *memory, const struct window *window, struct view *view))
FUNCTION(void, load_slots,
         (const struct tile *tile, const int32_t *pixel, const struct window *slots, void *to))
FUNCTION(void, load_bins,
         (const struct tile *tile, ptrdiff_t channel, ptrdiff_t bin_stride, int bins, void *to))
FUNCTION(void, store_bins,
         (const struct tile *tile, ptrdiff_t channel, ptrdiff_t bin_stride, int bins,
          const void *from))
FUNCTION(void, unpack,
         (const void *from, ptrdiff_t rows, ptrdiff_t columns, void *to,
          const struct target *target))
FUNCTION(void, put_pixels,
         (const void *from, ptrdiff_t count, ptrdiff_t width, void *to, ptrdiff_t stride,
          int store))
FUNCTION(void, clear,
         (void *to, const struct strides *strides, ptrdiff_t channels, ptrdiff_t rows,
          ptrdiff_t columns))

/* contract.inc.h */
FUNCTION(void, contract_axis,
         (void *to, ptrdiff_t to_stride, const struct vectors *from, const struct taps *taps,
          int add))
FUNCTION(void, contract_bins,
         (void *to, ptrdiff_t bin_stride, ptrdiff_t to_stride, const struct vectors *from, int bins,
          const struct taps *taps))
FUNCTION(void, contract_bin,
         (void *to, void *strip, const void *from, ptrdiff_t row, ptrdiff_t column,
          ptrdiff_t columns, const struct taps *y, const struct taps *x))

/* accumulate.inc.h */
FUNCTION(void, accumulate_bin,
         (void *to, ptrdiff_t row, ptrdiff_t column, const void *gradient, const struct taps *y,
          const struct taps *x))
FUNCTION(void, accumulate_pixels,
         (void *to, ptrdiff_t pixel_stride, ptrdiff_t to_stride, const struct vectors *from,
          ptrdiff_t pixels, const int32_t *pixel, const struct taps *taps))

/* correlate.inc.h */
FUNCTION(void, add_slopes,
         (void *sums, const void *by, ptrdiff_t by_stride, const struct pixels *from,
          const struct slope_taps *taps, const int32_t *y, const int32_t *x))

/* maximum.inc.h */
FUNCTION(void, keep_largest,
         (void *to, ptrdiff_t to_stride, const struct vectors *from, ptrdiff_t taps))
FUNCTION(void, search_pixels,
         (void *best, int32_t *best_at, const struct pixels *pixels, ptrdiff_t rows,
          ptrdiff_t columns, int32_t index, ptrdiff_t width))

/* samples.inc.h */
FUNCTION(void, weigh, (void *weights, const void *fraction_y, const void *fraction_x))
FUNCTION(void, keep_samples,
         (void *best, const void *row, const void *next_row, ptrdiff_t stride,
          const struct samples *samples, const void *fraction_y))
FUNCTION(void, keep_winners,
         (void *best, int32_t *at, const void *const *corners, const void *weights, int32_t place,
          int products))
FUNCTION(void, end_row, (int32_t *at, int32_t *rows, int32_t *places, int32_t row))

/* numbers.inc.h */
FUNCTION(void, sum_numbers,
         (void *to, ptrdiff_t to_stride, const struct pixels *planes, const struct taps *y,
          const struct taps *x, int x_first))
FUNCTION(void, sum_rows,
         (void *to, const void *from, ptrdiff_t row, ptrdiff_t column, ptrdiff_t columns,
          const struct taps *taps))
FUNCTION(void, add_numbers,
         (void *to, ptrdiff_t column, const void *from, ptrdiff_t pixels, const int32_t *pixel,
          const struct taps *bins))

/* rows.inc.h */
FUNCTION(void, sum_strip,
         (const struct source *source, const struct lines *lines, int rows,
          const struct strip *strip))
FUNCTION(void, sum_strip_columns,
         (const struct strip *strip, const struct lines *lines, int count, const struct sums *to))

/* scatter.inc.h */
FUNCTION(int, any_outside, (const int32_t *index, ptrdiff_t count, int32_t pixels))
FUNCTION(int, add_winners,
         (void *plane, ptrdiff_t line_stride, ptrdiff_t stride, ptrdiff_t pixel_stride,
          const struct winners *winners, const struct plane_rows *rows))

/* sparse.inc.h */
FUNCTION(void, contract_sparse,
         (void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t row, ptrdiff_t column,
          int bins, const struct taps *taps, int add))
FUNCTION(void, contract_sparse_pixels,
         (void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t row, ptrdiff_t column,
          int bins, const struct taps *taps, ptrdiff_t vectors))
FUNCTION(void, accumulate_sparse,
         (void *to, ptrdiff_t row, ptrdiff_t column, const void *from, ptrdiff_t vectors,
          const struct taps *taps, const ptrdiff_t *window))
FUNCTION(void, add_sparse_slopes,
         (void *sums, const void *by, ptrdiff_t by_stride, const struct pixels *from,
          const struct slope_taps *taps, const int32_t *span, int slopes))

/* convert.h */
OF_FLOAT(void, narrow, (const float *from, int dtype, ptrdiff_t count, char *to))
FUNCTION(void, copy_runs,
         (const char *from, ptrdiff_t row, ptrdiff_t column, ptrdiff_t rows, ptrdiff_t columns,
          size_t run, char *to))
OF_FLOAT(void, widen_runs,
         (const char *from, int dtype, ptrdiff_t row, ptrdiff_t column, ptrdiff_t rows,
          ptrdiff_t columns, ptrdiff_t run, float *to))

/* vector.h */
FUNCTION(void, stream_lines, (struct stream * run, int all))
FUNCTION(void, stream_copy, (void *to, const void *from, size_t bytes))
FUNCTION(void, stream_clear, (void *to, size_t bytes))
