/* Labels of cells: filled, or computed by the classes that may be largest. */

/* Lists the classes that may win a pixel of a cell, with their corners.  Classes with a number that
   is not finite, or very large, are among them. */
static NOINLINE ptrdiff_t list_candidates(const struct labels *job,
                                          const struct tile_of_labels *tile, const int *slots,
                                          ptrdiff_t x) {
    const ptrdiff_t next = !job->x.single;
    const int below = !job->y.single;
    const REAL *a = tile->rows[slots[0]] + x, *b = tile->rows[slots[1]] + x;
    const REAL limit = tile->limits[x];
    ptrdiff_t n = 0;
    for (ptrdiff_t c = 0; c < job->classes; c++, a += job->stride, b += job->stride) {
        const REAL weight = ((const REAL *)job->weights)[c];
        const REAL largest = largest_corner(a, b, next) * weight;
        const REAL sum = (a[0] + a[next] + (b[0] + b[next])) * 4 * 0;
        REAL *corners = tile->corners + 4 * n;
        corners[0] = a[0];
        corners[1] = a[next];
        corners[2] = b[0];
        corners[3] = b[next];
        tile->candidates[n] = (int32_t)c;
        n += !(largest < limit) | !(sum == 0);
    }
    for (ptrdiff_t i = 0; i < 4 * n && !(next && below); i++)
        if ((i & 1 && !next) || (i & 2 && !below))
            tile->corners[i] = 0; /* its weight is 0, and 0 times infinity were NaN */
    return n;
}

/* Computes a vector of pixels of `rows` rows: the largest value of all candidates, and which it is
   of; the first of equal ones.  NaN is larger than all else.  weights: of low and high along x,
   then along y; onnx: job->onnx, which the compiler knows. */
static FORCE_INLINE void race(const struct labels *job, const struct tile_of_labels *tile,
                              ptrdiff_t n, const REAL *const *weights, int rows, int onnx,
                              VECTOR *best, INDICES *won) {
    const VECTOR low = load(weights[0]), high = load(weights[1]), zero = {0};
    for (ptrdiff_t i = 0; i < n; i++) {
        const REAL *corners = tile->corners + 4 * i;
        const VECTOR a = FUSED_VECTOR(corners[0] - zero, low, (corners[1] - zero) * high);
        const VECTOR b = FUSED_VECTOR(corners[2] - zero, low, (corners[3] - zero) * high);
        const VECTOR four[4] = {splat(corners[0]), splat(corners[1]), splat(corners[2]),
                                splat(corners[3])};
        const INDICES candidate = tile->candidates[i] - (INDICES){0};
        const VECTOR weight = ((const REAL *)job->weights)[tile->candidates[i]] - zero;
        UNROLLED(4)
        for (int r = 0; r < rows; r++) {
            const VECTOR above = weights[2][r] - zero, below = weights[3][r] - zero;
            VECTOR v = FUSED_VECTOR(a, above, b * below) * weight;
            if (onnx)
                v = onnx_value(job, tile->candidates[i], four, low, high, above, below);
            const INDICES better = i ? (v > best[r]) | ((v != v) & (best[r] == best[r]))
                                     : (INDICES)(v == v) | (INDICES)(v != v);
            best[r] = chosen(better, v, best[r]);
            won[r] = (candidate & better) | (won[r] & ~better);
        }
    }
}

/* Computes the first pixels of `rows` rows of a part, at most a vector of each, and writes them. */
static FORCE_INLINE void compute_pixels(const struct labels *job, const struct tile_of_labels *tile,
                                        ptrdiff_t n, const struct labels_part *part, int rows) {
    const ptrdiff_t image = part->image, y = part->y0, x = part->x0, left = part->x1 - x;
    const int count = (int)(left < VECTOR_LANES ? left : VECTOR_LANES);
    const REAL *weights[4] = {
        (const REAL *)job->x.low_weight + x, (const REAL *)job->x.high_weight + x,
        (const REAL *)job->y.low_weight + y, (const REAL *)job->y.high_weight + y};
    const VECTOR least = (REAL)job->threshold - (VECTOR){0};
    VECTOR best[LABELS_ROWS];
    INDICES won[LABELS_ROWS] = {{0}};
    for (int r = 0; r < rows; r++)
        best[r] = (VECTOR){0} - (REAL)INFINITY; /* without candidates all is below the threshold */
    if (job->onnx)
        race(job, tile, n, weights, rows, 1, best, won);
    else
        race(job, tile, n, weights, rows, 0, best, won);
    UNROLLED(4)
    for (int r = 0; r < rows; r++) {
        char *to = job->out + image * job->out_image + (y + r) * job->out_row + x * job->out_column;
        int32_t winners[VECTOR_LANES];
        if (job->bounded) {
            const INDICES below = ~(best[r] >= least); /* NaN, too */
            won[r] = (((INDICES){0} + (int32_t)job->classes) & below) | (won[r] & ~below);
        }
        for (int l = 0; l < VECTOR_LANES; l++)
            winners[l] = (int32_t)won[r][l];
        labels_put(job, winners, count, to);
        if (job->values)
            memcpy((REAL *)job->values + (image * job->y.pixels + y + r) * job->x.pixels + x,
                   &best[r], (size_t)count * sizeof(REAL));
    }
}

/* Computes pixels of cell `at` of a row of cells. */
static NOINLINE void compute_cell(const struct labels *job, const struct tile_of_labels *tile,
                                  const int *slots, ptrdiff_t at,
                                  const struct labels_part *pixels) {
    const ptrdiff_t n = list_candidates(job, tile, slots, at);
    const int many = pixels->y1 - pixels->y0 >= LABELS_ROWS;
    struct labels_part left = *pixels;
    while (left.y0 < left.y1) {
        /* The last rows are computed with some before them. */
        left.y0 = many && left.y1 - left.y0 < LABELS_ROWS ? left.y1 - LABELS_ROWS : left.y0;
        for (left.x0 = pixels->x0; left.x0 < left.x1; left.x0 += VECTOR_LANES) {
            if (many)
                compute_pixels(job, tile, n, &left, LABELS_ROWS);
            else
                compute_pixels(job, tile, n, &left, 1);
        }
        left.y0 += many ? LABELS_ROWS : 1;
    }
}

/* Writes the labels of cells of a row, which begin at columns `column` to stop - 1 of maps. */
static FORCE_INLINE void write_cells(const struct labels *job, const struct tile_of_labels *tile,
                                     const int *slots, ptrdiff_t column, ptrdiff_t stop,
                                     const struct labels_part *part) {
    const int32_t *begin = job->x.begin + column - job->x.low;
    const ptrdiff_t cells = stop - column;
    struct labels_part pixels = *part;
    for (ptrdiff_t c = 0, next; c < cells; c = next) {
        const int32_t winner = tile->winners[c];
        next = c + 1;
        while (winner >= 0 && next < cells && tile->winners[next] == winner)
            next++;
        pixels.x0 = begin[c] > part->x0 ? begin[c] : part->x0;
        pixels.x1 = begin[next] < part->x1 ? begin[next] : part->x1;
        if (winner < 0 && pixels.x0 < pixels.x1)
            compute_cell(job, tile, slots, c, &pixels);
        for (ptrdiff_t y = pixels.y0; winner >= 0 && pixels.x0 < pixels.x1 && y < pixels.y1; y++)
            labels_fill(job, winner, pixels.x1 - pixels.x0,
                        job->out + pixels.image * job->out_image + y * job->out_row +
                            pixels.x0 * job->out_column);
    }
}

/* Writes the labels of some pixels of an image. */
static NOINLINE void label_pixels(const struct labels *job, const struct labels_part *part,
                                  void *memory) {
    struct tile_of_labels tile;
    struct labels_part some = *part;
    const char *maps = job->maps + part->image * job->image;
    const struct labels_axis *x = &job->x, *y = &job->y;
    const ptrdiff_t stop = x->at[part->x1 - 1] + 1;
    if (job->dense) {
        label_rows(job, part, memory);
        return;
    }
    for (ptrdiff_t column = x->at[part->x0], next; column < stop; column = next) {
        next = column + job->cells < stop ? column + job->cells : stop;
        lay_out(job, (char *)memory, &tile);
        for (some.y0 = part->y0; some.y0 < part->y1; some.y0 = some.y1) {
            const int32_t low = y->at[some.y0], after = y->begin[low - y->low + 1];
            const int32_t high = low < y->last && !y->single ? low + 1 : low;
            const int slots[2] = {low & 1, high & 1};
            some.y1 = after < part->y1 ? after : part->y1;
            read_row(job, maps, low, column, next - column, &tile);
            read_row(job, maps, high, column, next - column, &tile);
            bound_cells(job, &tile, slots, next - column);
            write_cells(job, &tile, slots, column, next, &some);
        }
    }
}
