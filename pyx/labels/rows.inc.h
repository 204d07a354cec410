/* Labels of rows of pixels, all of whose values are computed.  This is faster than to look at cells
   where a cell has few pixels, and is needed where all values are wanted. */

/* A row of all maps, enlarged along x: class c begins at numbers + c * stride, in bytes. */
struct wide_row {
    const char *numbers;
    ptrdiff_t stride;
};

/* Whether rows of maps are numbers of type REAL that lie together. */
static FORCE_INLINE int is_plain(const struct labels *job) {
    const char kind = sizeof(REAL) == sizeof(double) ? 'd' : 'f';
    return job->kind == kind && job->column == sizeof(REAL) && !job->before && !job->mixed;
}

/* Spreads both numbers that pixels lie between. */
static NOINLINE void spread_numbers(const struct labels_axis *x, const REAL *numbers,
                                    const struct labels_part *part, REAL *low, REAL *high) {
    const int32_t *at = x->at + part->x0, first = at[0], last = x->last;
    const ptrdiff_t count = part->x1 - part->x0;
    ptrdiff_t i = 0;
#ifdef SHUFFLED
    REAL some[2 * VECTOR_LANES];
    for (ptrdiff_t end = VECTOR_LANES; i < count; i = end, end += VECTOR_LANES) {
        const int32_t there = last + 1 - at[i];
        const REAL *from = numbers + at[i] - first;
        if (at[(end < count ? end : count) - 1] - at[i] >= 2 * VECTOR_LANES - 1)
            break;
        if (there < 2 * VECTOR_LANES) { /* the last one counts twice, and more need not be read */
            memcpy(some, from, (size_t)there * sizeof(REAL));
            some[there] = some[there - 1];
            from = some;
        }
        const INDICES index = *(const unaligned_indices *)(at + i) - at[i];
        const VECTOR a = load(from), b = load(from + VECTOR_LANES);
        store(low + i, SHUFFLED(a, b, index));
        store(high + i, SHUFFLED(a, b, index + 1));
    }
#endif
    for (; i < count; i++) {
        low[i] = numbers[at[i] - first];
        high[i] = numbers[(at[i] < last ? at[i] + 1 : at[i]) - first];
    }
}

/* Finds or makes a row of all maps, of the pixels of a part. */
static NOINLINE struct wide_row find_wide_row(const struct labels *job, const char *maps, int32_t y,
                                              const struct labels_part *part,
                                              struct tile_of_labels *tile) {
    const struct labels_axis *x = &job->x;
    const ptrdiff_t first = x->at[part->x0], pixels = part->x1 - part->x0;
    const ptrdiff_t wanted = x->at[part->x1 - 1] - first + 2, there = x->last + 1 - first;
    const ptrdiff_t count = there < wanted ? there : wanted;
    const char *from = maps + y * job->row + first * job->column;
    REAL *to = tile->rows[y & 1];
    const struct wide_row made = {(const char *)to, job->stride * (ptrdiff_t)sizeof(REAL)};
    if (is_plain(job) && x->kept)
        return (struct wide_row){from, job->class_stride};
    if (tile->kept[y & 1] == y)
        return made;
    tile->kept[y & 1] = y;
    if (job->before)
        enlarge_row(job, maps, y, first, count, count, tile);
    for (ptrdiff_t c = 0; c < job->classes; c++, from += job->class_stride, to += job->stride) {
        const REAL *numbers = is_plain(job) ? (const REAL *)from : tile->line;
        if (job->mixed)
            mix_numbers(job, from, count, count, tile, to);
        else if (!job->before && !is_plain(job))
            read_numbers(job, from, count, count, tile->line);
        if (job->before || job->mixed)
            memcpy(tile->line, to, (size_t)count * sizeof(REAL));
        if (job->onnx && !x->single)
            spread_numbers(x, numbers, part, to, tile->rows[2 + (y & 1)] + c * job->stride);
        else
            enlarge_numbers(x, numbers, part->x0, pixels, to);
    }
    return made;
}

/* Returns the values of class c; between: the two rows that they lie between, or one twice. */
static FORCE_INLINE const REAL *values_of(const struct labels *job, const struct wide_row *between,
                                          ptrdiff_t c, ptrdiff_t y, ptrdiff_t count, REAL *to) {
    const REAL *a = (const REAL *)(between[0].numbers + c * between[0].stride);
    const REAL *b = (const REAL *)(between[1].numbers + c * between[1].stride);
    const REAL weight = ((const REAL *)job->weights)[c];
    const REAL low = ((const REAL *)job->y.low_weight)[y];
    const REAL high = ((const REAL *)job->y.high_weight)[y];
    if (job->y.single && weight == 1)
        return a;
    if (job->y.single)
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++)
            to[i] = a[i] * weight;
    else
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++)
            to[i] = FUSED(a[i], low, b[i] * high) * weight;
    return to;
}

/* Returns the values of class c as ONNX Runtime computes them; row: of numbers, if each is one. */
static NOINLINE const REAL *onnx_values_of(const struct labels *job,
                                           const struct tile_of_labels *tile,
                                           const struct wide_row *row, ptrdiff_t c, ptrdiff_t y,
                                           const struct labels_part *part, REAL *to) {
    const ptrdiff_t count = part->x1 - part->x0, class = c * job->stride;
    const REAL *numbers = (const REAL *)(row->numbers + c * row->stride);
    const REAL *low = (const REAL *)job->x.low_weight + part->x0;
    const REAL *high = (const REAL *)job->x.high_weight + part->x0;
    const VECTOR above = splat(((const REAL *)job->y.low_weight)[y]);
    const VECTOR below = splat(((const REAL *)job->y.high_weight)[y]);
    const int32_t at = job->y.at[y], next = at < job->y.last ? at + 1 : at;
    if (job->x.single && job->classes == 1 && job->quantum == 0)
        return numbers;
    for (ptrdiff_t i = 0; i < count; i += VECTOR_LANES) {
        VECTOR corners[4] = {{0}};
        if (job->x.single) { /* they may be those of the maps, of which nothing lies behind */
            memcpy(corners, numbers + i,
                   sizeof(REAL) * (size_t)(count - i < VECTOR_LANES ? count - i : VECTOR_LANES));
            store(to + i, onnx_compared(job, c, corners[0]));
            continue;
        }
        for (int r = 0; r < 4; r++)
            corners[r] = load(tile->rows[((r < 2 ? at : next) & 1) + 2 * (r & 1)] + class + i);
        store(to + i, onnx_value(job, c, corners, load(low + i), load(high + i), above, below));
    }
    return to;
}

/* Has a class win where it is largest.  NaN is larger than all else. */
static NOINLINE void race_row(const REAL *values, REAL number, ptrdiff_t count, REAL *best,
                              REAL *won) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) {
        const REAL v = values[i], old = best[i];
        const int better = (v > old) | ((v != v) & (old == old));
        best[i] = better ? v : old;
        won[i] = better ? number : won[i];
    }
}

/* Adds the values that reach the threshold, always in the same order. */
static NOINLINE double sum_row(const REAL *values, REAL least, ptrdiff_t count) {
    double sums[8] = {0}, sum = 0;
    ptrdiff_t i = 0;
    for (; i + 8 <= count; i += 8)
#pragma omp simd
        for (int l = 0; l < 8; l++)
            sums[l] += values[i + l] >= least ? (double)values[i + l] : 0;
    for (; i < count; i++)
        sum += values[i] >= least ? (double)values[i] : 0;
    for (int l = 0; l < 8; l++)
        sum += sums[l];
    return sum;
}

/* Writes the labels of some pixels; won: the classes of the largest values. */
static NOINLINE void write_row(const struct labels *job, const REAL *best, const REAL *won,
                               ptrdiff_t count, int32_t *winners, char *to) {
    const REAL least = job->bounded ? (REAL)job->threshold : -(REAL)INFINITY;
    const uint8_t above = (uint8_t)job->names[0], below = (uint8_t)job->names[job->classes];
    const REAL none = (REAL)job->classes;
    if (job->classes == 1 && job->itemsize == 1 && job->out_column == 1) {
        uint8_t *labels = (uint8_t *)to;
        if (job->transparent) {
#pragma omp simd
            for (ptrdiff_t i = 0; i < count; i++) {
                const uint8_t old = labels[i], set = (uint8_t)-(best[i] >= least);
                labels[i] = (above & set) | (old & ~set);
            }
            return;
        }
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) {
            const uint8_t set = (uint8_t)-(best[i] >= least); /* no branch, in few pixels either */
            labels[i] = (above & set) | (below & ~set);
        }
        return;
    }
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++)
        winners[i] = (int32_t)(!job->bounded || best[i] >= least ? won[i] : none);
    labels_put(job, winners, count, to);
}

/* Labels pixels of a row. */
static FORCE_INLINE void label_row(const struct labels *job, const char *maps, ptrdiff_t y,
                                   const struct labels_part *part, struct tile_of_labels *tile) {
    const int32_t low = job->y.at[y], high = low < job->y.last && !job->y.single ? low + 1 : low;
    const struct wide_row between[2] = {find_wide_row(job, maps, low, part, tile),
                                        find_wide_row(job, maps, high, part, tile)};
    const ptrdiff_t count = part->x1 - part->x0;
    REAL *best = tile->unfit[0], *won = tile->unfit[1];
    const REAL *values = job->onnx ? onnx_values_of(job, tile, between, 0, y, part, best)
                                   : values_of(job, between, 0, y, count, best);
    if (job->classes > 1 && values != best)
        memcpy(best, values, (size_t)count * sizeof(REAL));
    memset(won, 0, (size_t)count * sizeof(REAL));
    for (ptrdiff_t c = 1; c < job->classes; c++)
        race_row(job->onnx ? onnx_values_of(job, tile, between, c, y, part, tile->line)
                           : values_of(job, between, c, y, count, tile->line),
                 (REAL)c, count, best, won);
    if (job->classes > 1)
        values = best;
    write_row(job, values, won, count, tile->winners,
              job->out + part->image * job->out_image + y * job->out_row +
                  part->x0 * job->out_column);
    if (job->sums)
        job->sums[part->image * job->y.pixels + y] += sum_row(values, (REAL)job->threshold, count);
    if (job->values)
        memcpy((REAL *)job->values + (part->image * job->y.pixels + y) * job->x.pixels + part->x0,
               values, (size_t)count * sizeof(REAL));
}

/* Labels pixels of an image row by row, some columns at a time. */
static NOINLINE void label_rows(const struct labels *job, const struct labels_part *part,
                                void *memory) {
    struct tile_of_labels tile;
    struct labels_part some = *part;
    for (some.x0 = part->x0; some.x0 < part->x1; some.x0 = some.x1) {
        some.x1 = some.x0 + job->cells < part->x1 ? some.x0 + job->cells : part->x1;
        lay_out(job, (char *)memory, &tile);
        for (ptrdiff_t y = part->y0; y < part->y1; y++)
            label_row(job, job->maps + part->image * job->image, y, &some, &tile);
    }
}
