/* The table of functions of an instruction set.

   isa.h fills the table, and is compiled for each instruction set.  All other code is compiled once
   and calls these functions by the table that its call has.  Each instruction set has two tables,
   since REAL is float or double. */
#ifndef ROICY_TABLE_H
#define ROICY_TABLE_H

#include "attention/structs.h"
#include "images/structs.h"

struct labels;
struct labels_axis;
struct labels_part;

/* What `void` points to is REAL.  The files named here say what functions do. */
struct simd {
    /* tile.inc.h */
    void (*pack)(const void *from, const struct strides *strides, int lanes, ptrdiff_t rows,
                 ptrdiff_t columns, void *to);
    void (*read_pixels)(const struct tile *tile, ptrdiff_t y, ptrdiff_t x, ptrdiff_t rows,
                        ptrdiff_t columns, void *to);
    const void *(*load_rows)(struct tile *tile, void *memory, const struct window *window,
                             struct view *steps);
    void (*load_slots)(const struct tile *tile, const int32_t *pixel, const struct window *slots,
                       void *to);
    void (*load_bins)(const struct tile *tile, ptrdiff_t channel, ptrdiff_t bin_step, int bins,
                      void *to);
    void (*store_bins)(const struct tile *tile, ptrdiff_t channel, ptrdiff_t bin_step, int bins,
                       const void *from);
    void (*unpack)(const void *from, ptrdiff_t rows, ptrdiff_t columns, void *to,
                   const struct target *target);
    void (*put_pixels)(const void *from, ptrdiff_t count, ptrdiff_t width, void *to, ptrdiff_t step,
                       int store);
    void (*clear)(void *to, const struct strides *strides, ptrdiff_t channels, ptrdiff_t rows,
                  ptrdiff_t columns);

    /* contract.inc.h */
    void (*contract_axis)(void *to, ptrdiff_t to_step, const struct vectors *from,
                          const struct taps *taps, int add);
    void (*contract_bins)(void *to, ptrdiff_t bin_step, ptrdiff_t to_step,
                          const struct vectors *from, int bins, const struct taps *taps);
    void (*contract_bin)(void *to, void *strip, const void *from, ptrdiff_t row, ptrdiff_t column,
                         ptrdiff_t columns, const struct taps *y, const struct taps *x);

    /* accumulate.inc.h */
    void (*accumulate_bin)(void *to, ptrdiff_t row, ptrdiff_t column, const void *gradient,
                           const struct taps *y, const struct taps *x);
    void (*accumulate_pixels)(void *to, ptrdiff_t pixel_step, ptrdiff_t to_step,
                              const struct vectors *from, ptrdiff_t pixels, const int32_t *pixel,
                              const struct taps *taps);

    /* correlate.inc.h */
    void (*add_slopes)(void *sums, const void *by, ptrdiff_t by_step, const struct pixels *from,
                       const struct slope_taps *taps, const int32_t *y, const int32_t *x);

    /* maximum.inc.h */
    void (*keep_largest)(void *to, ptrdiff_t to_step, const struct vectors *from, ptrdiff_t taps);
    void (*search_pixels)(void *best, int32_t *best_at, const struct pixels *pixels, ptrdiff_t rows,
                          ptrdiff_t columns, int32_t index, ptrdiff_t width);

    /* samples.inc.h */
    void (*weigh)(void *weights, const void *fraction_y, const void *fraction_x);
    void (*keep_samples)(void *best, const void *row, const void *next_row, ptrdiff_t step,
                         const struct samples *samples, const void *fraction_y);
    void (*keep_winners)(void *best, int32_t *at, const void *const *corners, const void *weights,
                         int32_t place, int products);
    void (*end_row)(int32_t *at, int32_t *rows, int32_t *places, int32_t row);

    /* numbers.inc.h */
    void (*sum_numbers)(void *to, ptrdiff_t to_step, const struct pixels *planes,
                        const struct taps *y, const struct taps *x, int x_first);
    void (*sum_rows)(void *to, const void *from, ptrdiff_t row, ptrdiff_t column, ptrdiff_t columns,
                     const struct taps *taps);
    void (*add_numbers)(void *to, ptrdiff_t column, const void *from, ptrdiff_t pixels,
                        const int32_t *pixel, const struct taps *bins);

    /* scatter.inc.h */
    int (*any_outside)(const int32_t *index, ptrdiff_t count, int32_t pixels);
    int (*add_winners)(void *plane, ptrdiff_t line_step, ptrdiff_t step, ptrdiff_t pixel_step,
                       const struct winners *winners, const struct plane_rows *rows);

    /* sparse.inc.h */
    void (*contract_sparse)(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t row,
                            ptrdiff_t column, int bins, const struct taps *taps, int add);
    void (*contract_sparse_pixels)(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t row,
                                   ptrdiff_t column, int bins, const struct taps *taps,
                                   ptrdiff_t vectors);
    void (*accumulate_sparse)(void *to, ptrdiff_t row, ptrdiff_t column, const void *from,
                              ptrdiff_t vectors, const struct taps *taps, const ptrdiff_t *window);
    void (*add_sparse_slopes)(void *sums, const void *by, ptrdiff_t by_step,
                              const struct pixels *from, const struct slope_taps *taps,
                              const int32_t *span, int slopes);

    /* convert.h */
    void (*narrow)(const float *from, int dtype, ptrdiff_t count, char *to);
    void (*copy_runs)(const char *from, ptrdiff_t row, ptrdiff_t column, ptrdiff_t rows,
                      ptrdiff_t columns, size_t run, char *to);
    void (*widen_runs)(const char *from, int dtype, ptrdiff_t row, ptrdiff_t column, ptrdiff_t rows,
                       ptrdiff_t columns, ptrdiff_t run, float *to);

    /* vector.h */
    void (*stream_lines)(struct stream *run);
    void (*stream_copy)(void *to, const void *from, size_t bytes);
    void (*stream_clear)(void *to, size_t bytes);

    /* images/rows.h, store.h, axis.h, yuv.h, warp.h */
    void (*sum_strip)(const struct crop_source *source, const struct lines *lines, int rows,
                      const struct strip *strip);
    void (*sum_strip_columns)(const struct strip *strip, const struct lines *lines, int count,
                              const struct sums *to);
    void (*crop_complete)(const struct sums *to, int count, const struct crop_span *spans,
                          const struct crop_span *rows, const struct crop_pixels *pixels);
    void (*crop_store)(const float *sums, int rows, int count, char *to,
                       const struct crop_target *target);
    void (*crop_spans)(const struct crop_axis *axis, int32_t first, int count,
                       struct crop_span *spans);
    void (*crop_convert)(const struct crop_source *source, ptrdiff_t y, ptrdiff_t x,
                         ptrdiff_t count, uint8_t *to);
    void (*warp_set)(struct warp *warp, const double *m, const int32_t *shown, int rule,
                     int repeats, const struct crop_pixels *pixels);
    void (*warp_hull)(const struct warp *warp, const struct crop_source *source, int32_t *low,
                      int32_t *stop);
    void (*warp_pixels)(const struct crop_source *source, const struct warp *warp,
                        const struct crop_target *target, int32_t p, int32_t width, char *row);

    /* images/resize.h */
    void (*resize_line)(const struct resize_axis *axis, int i, const uint8_t *from, ptrdiff_t step,
                        ptrdiff_t count, uint8_t *to);
    void (*resize_columns)(const struct resize_axis *axis, int first, int stop, int pitch,
                           int channels, int rows, const uint8_t *lines, uint8_t *to);
    void (*resize_to_lines)(const uint8_t *from, ptrdiff_t step, int rows, int columns,
                            uint8_t *to);
    void (*resize_to_rows)(const uint8_t *from, int lines, int rows, uint8_t *to, ptrdiff_t step);
    void (*resize_store)(const struct resize_target *target, const struct resize_block *block,
                         char *out);

    /* images/masks.h */
    void (*mask_open)(struct mask_lines *lines, const struct masks *masks, ptrdiff_t k);
    void (*mask_mix)(struct mask_lines *lines, const struct masks *masks, ptrdiff_t k,
                     const int64_t (*pixels)[2], void *memory);
    void (*mask_begin)(struct mask_lines *lines, ptrdiff_t first, ptrdiff_t stop);
    const void *(*mask_line)(struct mask_lines *lines, ptrdiff_t line);

    /* attention/attend.inc.h, slopes.inc.h */
    void (*attend)(const struct attention *call, const struct attention_part *part);
    void (*attend_slopes)(const struct attention *call, const struct attention_part *part);
    void (*attend_value)(const struct attention *call, const struct attention_part *part);

    /* labels/cells.inc.h, race.inc.h */
    void (*labels_axis)(struct labels_axis *axis);
    void (*label_pixels)(const struct labels *job, const struct labels_part *part, void *memory);
};

/* Copies the next lines of a stream. */
static inline void stream_some(const struct simd *simd, struct stream *run) {
    if (run->left > 0)
        simd->stream_lines(run);
}

/* Copies all lines that are left. */
static inline void stream_rest(const struct simd *simd, struct stream *run) {
    run->at_once = run->left;
    stream_some(simd, run);
}

#endif
