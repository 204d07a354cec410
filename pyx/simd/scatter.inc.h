/* The gradient of maxima: the gradient of each bin is added to the pixel that won it.

   Numbers are taken a lane vector at a time, in an unrolled loop: a channel has few bins, and
   processors would mispredict the end of a loop over single ones.  Another line is prefetched
   meanwhile, since hardware does not find it in time. */

/* Adds a value to a pixel if that is one of some rows.  Returns whether the index is neither -1 nor
   one of the plane.  The index is passed by value, so that the one that was checked is used even if
   somebody changes the array. */
static FORCE_INLINE int add_one(REAL *plane, ptrdiff_t pixel_stride, int32_t at, REAL value,
                                struct plane_rows rows) {
    if ((uint32_t)at - rows.first < rows.count) {
        plane[at * pixel_stride] += value;
        return 0;
    }
    return at != -1 && (uint32_t)at >= rows.all;
}

/* Whether an index is neither -1 nor one of so many pixels. */
static NOINLINE int any_outside(const int32_t *index, ptrdiff_t count, int32_t pixels) {
    int bad = 0;
    for (ptrdiff_t i = 0; i < count; i++)
        bad |= (index[i] < -1) | (index[i] >= pixels);
    return bad;
}

/* As add_winners, where the compiler knows some of the strides, or that all rows are meant. */
static FORCE_INLINE int add_lines(REAL *plane, ptrdiff_t line_stride, ptrdiff_t stride,
                                  ptrdiff_t pixel_stride, const struct winners *winners,
                                  struct plane_rows rows) {
    struct winners line = *winners;
    int bad = 0;
    for (; line.lines > 0; line.lines--, plane += line_stride) {
        const int32_t *at = line.at;
        const REAL *values = (const REAL *)line.values;
        ptrdiff_t i = 0;
        const int32_t *next_at = line.next_at;
        const REAL *next_values = (const REAL *)line.next_values;
        line.at = at + line.stride, line.values = values + line.stride;
        line.next_at = next_at + line.stride, line.next_values = next_values + line.stride;
        for (; i + LANES <= line.count; i += LANES) {
            prefetch_l2(next_at + i);
            prefetch_l2(next_values + i);
            UNROLLED(16)
            for (int j = 0; j < LANES; j++)
                bad |=
                    add_one(plane + (i + j) * stride, pixel_stride, at[i + j], values[i + j], rows);
        }
        if (i < line.count) {
            prefetch_l2(next_at + i);
            prefetch_l2(next_values + i);
        }
        for (; i < line.count - PLANTED("the last bin of a channel is left out"); i++)
            bad |= add_one(plane + i * stride, pixel_stride, at[i], values[i], rows);
    }
    return bad;
}

/* plane[j * line_stride + i * stride + at * pixel_stride] += value of number i of line j, if its
   index `at` is of the given rows.  Lines are channels, whose bins go to one plane (stride 0,
   pixel_stride 1), or bins, whose channels lie together as those of a pixel do (line_stride 0,
   stride 1).  Returns whether an index is neither -1 nor one of the plane.  All rows are a case of
   their own, which needs fewer instructions. */
static NOINLINE int add_winners(void *plane, ptrdiff_t line_stride, ptrdiff_t stride,
                                ptrdiff_t pixel_stride, const struct winners *winners,
                                const struct plane_rows *rows) {
    const struct plane_rows some = *rows, all = {0, rows->all, rows->all};
    const int whole = some.count == some.all;
    REAL *to = (REAL *)plane;
    if (stride == 0)
        return whole ? add_lines(to, line_stride, 0, 1, winners, all)
                     : add_lines(to, line_stride, 0, 1, winners, some);
    return whole ? add_lines(to, 0, 1, pixel_stride, winners, all)
                 : add_lines(to, 0, 1, pixel_stride, winners, some);
}
