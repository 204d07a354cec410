/* The gradient of maxima: the gradient of each bin is added to the pixel that won it.  simd.h
   includes this file once for each type REAL.

   Bins are taken a lane vector at a time, in an unrolled loop: a channel has few bins, and
   processors would mispredict the end of a loop over single ones.  The next bins are prefetched,
   since hardware does not find them in time.  The loops are not inlined, since they would then lack
   registers. */

/* Adds a value to a pixel if that is one of some rows.  Returns whether the index is neither -1 nor
   one of the plane.  The index is passed by value, so that the one that was checked is used even if
   somebody changes the array. */
static FORCE_INLINE int NAME(add_one)(REAL *plane, ptrdiff_t step, int32_t at, REAL value,
                                      struct plane_rows rows) {
    if ((uint32_t)at - rows.first < rows.count) {
        plane[at * step] += value;
        return 0;
    }
    return at != -1 && (uint32_t)at >= rows.all;
}

/* Adds the bins of one channel to its plane, or the channels of one bin, each to a pixel of its own
   plane: number i to one of the pixels from plane + i * step on. */
static FORCE_INLINE int NAME(add_run)(REAL *plane, ptrdiff_t step, ptrdiff_t pixel_step,
                                      const struct winners *run, ptrdiff_t count,
                                      struct plane_rows rows) {
    const int32_t *at = run->at, *next_at = run->next_at;
    const REAL *values = (const REAL *)run->values;
    const REAL *next_values = (const REAL *)run->next_values;
    ptrdiff_t i = 0;
    int bad = 0;
    for (; i + LANES <= count; i += LANES) {
        prefetch_l2(next_at + i);
        prefetch_l2(next_values + i);
        if (step == 0) {
            UNROLLED(16)
            for (int j = 0; j < LANES; j++)
                bad |= NAME(add_one)(plane, pixel_step, at[i + j], values[i + j], rows);
        } else {
            UNROLLED(4)
            for (int j = 0; j < LANES; j++)
                bad |= NAME(add_one)(plane + (i + j) * step, pixel_step, at[i + j], values[i + j],
                                     rows);
        }
    }
    if (i < count) {
        prefetch_l2(next_at + i);
        prefetch_l2(next_values + i);
    }
    for (; i < count; i++)
        bad |= NAME(add_one)(plane + i * step, pixel_step, at[i], values[i], rows);
    return bad;
}

/* Adds the bins of some channels to their planes. */
static FORCE_INLINE int NAME(add_to_planes)(REAL *plane, ptrdiff_t channel_step,
                                            const struct winners *bins, ptrdiff_t channels,
                                            ptrdiff_t count, struct plane_rows rows) {
    struct winners run = *bins;
    int bad = 0;
    for (ptrdiff_t c = 0; c < channels; c++, plane += channel_step) {
        bad |= NAME(add_run)(plane, 0, 1, &run, count, rows);
        run.at += bins->at_step, run.next_at += bins->at_step;
        run.values = (const REAL *)run.values + bins->step;
        run.next_values = (const REAL *)run.next_values + bins->step;
    }
    return bad;
}

/* plane[c * channel_step + at[c * at_step + i]] += values[c * step + i] for all channels c and bins
   i up to `count`, where the index is of the given rows.  Returns whether an index is neither -1
   nor one of the plane.  All rows are a case of their own, which needs fewer instructions for each
   bin. */
static NOINLINE int NAME(add_at_planes)(REAL *plane, ptrdiff_t channel_step,
                                        const struct winners *bins, ptrdiff_t channels,
                                        ptrdiff_t count, const struct plane_rows *rows) {
    const struct winners winners = *bins;
    const struct plane_rows some = *rows, whole = {0, rows->all, rows->all};
    if (some.count == some.all)
        return NAME(add_to_planes)(plane, channel_step, &winners, channels, count, whole);
    return NAME(add_to_planes)(plane, channel_step, &winners, channels, count, some);
}

/* plane[at[i] * pixel_step + i] += values[i] for the channels i of a pixel, as add_at_planes. */
static NOINLINE int NAME(add_at_pixels)(REAL *plane, ptrdiff_t pixel_step,
                                        const struct winners *bins, ptrdiff_t count,
                                        const struct plane_rows *rows) {
    const struct plane_rows some = *rows, whole = {0, rows->all, rows->all};
    if (some.count == some.all)
        return NAME(add_run)(plane, 1, pixel_step, bins, count, whole);
    return NAME(add_run)(plane, 1, pixel_step, bins, count, some);
}
