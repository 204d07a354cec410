/* The functions of this room that are compiled for each instruction set, listed as in
   simd/table.inc.h. */

/* store.h, axis.h, yuv.h, warp.h */
FUNCTION(void, crop_complete,
         (const struct sums *to, int count, const struct interval *spans,
          const struct interval *rows, const struct crop_pixels *pixels))
FUNCTION(void, crop_store,
         (const float *sums, int rows, int count, char *to, const struct crop_target *target))
FUNCTION(void, crop_intervals,
         (const struct crop_axis *axis, int32_t first, int count, struct interval *intervals))
FUNCTION(void, crop_convert,
         (const struct frame *frame, ptrdiff_t y, ptrdiff_t x, ptrdiff_t count, uint8_t *to))
FUNCTION(void, warp_set,
         (struct warp * warp, const double *m, const int32_t *shown, int rule, int repeats,
          const struct crop_pixels *pixels))
FUNCTION(void, warp_hull,
         (const struct warp *warp, const struct frame *frame, int32_t *low, int32_t *stop))
FUNCTION(void, warp_pixels,
         (const struct frame *frame, const struct warp *warp, const struct crop_target *target,
          int32_t p, int32_t width, char *row))

/* resize.h */
FUNCTION(void, resize_line,
         (const struct resize_axis *axis, int i, const uint8_t *from, ptrdiff_t stride,
          ptrdiff_t count, uint8_t *to))
FUNCTION(void, resize_columns,
         (const struct resize_axis *axis, int first, int stop, int pitch, int channels, int rows,
          const uint8_t *lines, uint8_t *to))
FUNCTION(void, resize_to_lines,
         (const uint8_t *from, ptrdiff_t stride, int rows, int columns, uint8_t *to))
FUNCTION(void, resize_to_rows,
         (const uint8_t *from, int lines, int rows, uint8_t *to, ptrdiff_t stride))
FUNCTION(void, resize_store,
         (const struct resize_target *target, const struct resize_block *block, char *out))

/* masks.h */
FUNCTION(void, mask_open, (struct mask_lines * lines, const struct masks *masks, ptrdiff_t k))
FUNCTION(void, mask_mix,
         (struct mask_lines * lines, const struct masks *masks, ptrdiff_t k,
          const int64_t (*pixels)[2], void *memory))
FUNCTION(void, mask_begin, (struct mask_lines * lines, ptrdiff_t first, ptrdiff_t stop))
FUNCTION(const void *, mask_line, (struct mask_lines * lines, ptrdiff_t line))
