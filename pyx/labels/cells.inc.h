/* The numbers of maps, and the cells between them.

   A cell is the pixels between two neighbouring rows and two neighbouring columns of a map.  Their
   values are sums of four numbers, the corners, whose weights are at least 0 and sum to 1, but for
   rounding.  So a class whose largest corner is below the least corner of another class is largest
   nowhere in the cell. */

/* What a thread works in. */
struct tile_of_labels {
    REAL *rows[4];    /* [class][column], even and odd rows; then such rows before they are enlarged
                         along y, or of ONNX Runtime's second numbers */
    int32_t kept[4];  /* which rows these are, or -1 */
    REAL *unfit[2];   /* [column], of the first two: 0, or NaN if a class has no ordinary number */
    REAL *line;       /* numbers of a class before they are enlarged along x, or of a slice */
    REAL *limits;     /* [cell]: a class whose corners are below is largest nowhere */
    int32_t *winners; /* [cell]: the class of all pixels, or -1 */
    REAL *corners;    /* [candidate][4] */
    int32_t *candidates;
};

static FORCE_INLINE void lay_out(const struct labels *job, char *memory,
                                 struct tile_of_labels *tile) {
    REAL *next = (REAL *)memory;
    for (int i = 0; i < labels_rows(job); i++, next += job->classes * job->stride) {
        tile->rows[i] = next;
        tile->kept[i] = -1;
    }
    for (int i = 0; i < 2; i++, next += job->stride)
        tile->unfit[i] = next;
    tile->limits = next;
    tile->line = next + job->stride;
    tile->corners = tile->line + job->stride;
    tile->candidates = (int32_t *)(tile->corners + 4 * job->classes);
    tile->winners = tile->candidates + job->classes;
}

/* Finds where pixels from .. to - 1 of an axis lie among numbers, as PyTorch or ONNX Runtime does
   it.  `first` and `extent` may have fractions; numbers that are there in part are read.  The last
   pixels come last. */
static NOINLINE void labels_axis(struct labels_axis *axis, ptrdiff_t from, ptrdiff_t to) {
    const double first = axis->first, extent = axis->extent;
    const int rule = axis->rule;
    const int32_t skipped = (int32_t)first;
    const int32_t last = (int32_t)__builtin_ceil(first + extent) - 1 - skipped;
    const REAL before = (REAL)(first - skipped), pixels = (REAL)axis->pixels;
    const int single =
        rule == NEAREST || (extent == (double)axis->pixels && first == (double)skipped);
    REAL *low_weight = (REAL *)axis->low_weight, *high_weight = (REAL *)axis->high_weight;
    REAL scale = (REAL)extent / pixels;
    if (rule == ALIGNED)
        scale = axis->pixels > 1 && extent > 1 ? (REAL)(extent - 1) / (REAL)(axis->pixels - 1) : 0;
    axis->single = single;
    axis->low = skipped;
    axis->last = skipped + last;
    for (ptrdiff_t i = from; i < to && rule < ONNX_HALF_PIXELS; i++) {
        REAL at = rule == HALF_PIXELS && !single ? FUSED(scale, (REAL)i + (REAL)0.5, (REAL)-0.5)
                                                 : scale * (REAL)i;
        at = at + before > 0 ? at + before : 0;
        const int32_t low = at < (REAL)last ? (int32_t)at : last;
        const REAL weight = at - (REAL)low;
        high_weight[i] = single ? 0 : weight < 1 ? weight : 1;
        low_weight[i] = 1 - high_weight[i];
        axis->at[i] = skipped + low;
    }
    if (to < axis->pixels)
        return;
    if (rule >= ONNX_HALF_PIXELS)
        onnx_axis(axis);
    for (int32_t c = 0, i = 0; c <= last + 1; c++) {
        while (i < axis->pixels && axis->at[i] < skipped + c)
            i++;
        axis->begin[c] = i;
    }
    for (int i = 0; i < LABELS_PAD; i++)
        low_weight[axis->pixels + i] = high_weight[axis->pixels + i] = 0;
    axis->kept = axis->single && axis->at[axis->pixels - 1] - axis->at[0] == axis->pixels - 1;
}

/* Numbers of a stride that is known become vectors. */
#define READ_INTEGERS(type)                                                                        \
    if (stride == sizeof(type))                                                                    \
        for (ptrdiff_t i = 0; i < count; i++)                                                      \
            to[i] = ((REAL)((const type *)from)[i] - zero) * scale;                                \
    else                                                                                           \
        for (ptrdiff_t i = 0; i < count; i++)                                                      \
        to[i] = ((REAL) * (const type *)(from + i * stride) - zero) * scale

/* Reads numbers of a row of a map, and repeats the last one up to `padded`. */
static NOINLINE void read_numbers(const struct labels *job, const char *from, ptrdiff_t count,
                                  ptrdiff_t padded, REAL *to) {
    const ptrdiff_t stride = job->column;
    const REAL scale = (REAL)job->scale, zero = (REAL)job->zero;
    if (job->kind == HALF || job->kind == BFLOAT) {
        uint16_t some[LANE_BYTES];
        for (ptrdiff_t i = 0, now; i < count; i += now) {
            now = count - i < LANE_BYTES ? count - i : LANE_BYTES;
            for (ptrdiff_t j = 0; j < now; j++)
                some[j] = *(const uint16_t *)(from + (i + j) * stride);
            widen_runs((const char *)some, job->kind, 0, 0, 1, 1, now, (float *)(to + i));
        }
    } else if (job->kind == 'b') {
        READ_INTEGERS(int8_t);
    } else if (job->kind == 'B') {
        READ_INTEGERS(uint8_t);
    } else if (job->kind == 'h') {
        READ_INTEGERS(int16_t);
    } else if (job->kind == 'H') {
        READ_INTEGERS(uint16_t);
    } else if (stride == sizeof(REAL))
        memcpy(to, from, (size_t)count * sizeof(REAL));
    else
        for (ptrdiff_t i = 0; i < count; i++)
            to[i] = *(const REAL *)(from + i * stride);
    for (ptrdiff_t i = count; i < padded; i++)
        to[i] = to[count - 1];
}

/* Reads numbers of a row of a map that lies between two slices of a volume. */
static NOINLINE void mix_numbers(const struct labels *job, const char *from, ptrdiff_t count,
                                 ptrdiff_t padded, const struct tile_of_labels *tile, REAL *to) {
    const REAL first = (REAL)job->slice_weights[0], second = (REAL)job->slice_weights[1],
               *line = tile->line;
    read_numbers(job, from, count, padded, to);
    read_numbers(job, from + job->beside, count, padded, tile->line);
#pragma omp simd
    for (ptrdiff_t i = 0; i < padded; i++)
        to[i] = FUSED(to[i], first, line[i] * second);
}

/* Sums numbers that become 0, or NaN where a number is not finite or so large that a sum may be
   infinite. */
static FORCE_INLINE void look_at(const REAL *numbers, ptrdiff_t count, REAL *unfit) {
#pragma omp simd
    for (ptrdiff_t x = 0; x < count; x++)
        unfit[x] += numbers[x] * 4 * 0;
}

/* Lanes of two vectors, by index: the first vector has the first ones.  Gathers are slower. */
#define SHUFFLES_float 1
#define SHUFFLES_double 0
#if TYPED(SHUFFLES) && defined(__AVX512F__)
#define SHUFFLED(a, b, index) (VECTOR) _mm512_permutex2var_ps(a, (__m512i)(index), b)
#elif TYPED(SHUFFLES) && defined(__AVX2__)
#define SHUFFLED(a, b, index)                                                                      \
    (VECTOR) _mm256_blendv_ps(_mm256_permutevar8x32_ps(a, (__m256i)(index)),                       \
                              _mm256_permutevar8x32_ps(b, (__m256i)(index)),                       \
                              (__m256)((index) > VECTOR_LANES - 1))
#endif
typedef int32_t unaligned_indices
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(int32_t)), may_alias));

/* Enlarges numbers along x; numbers: those of a row of a map, from `first` on. */
static NOINLINE void enlarge_numbers(const struct labels_axis *x, const REAL *numbers,
                                     ptrdiff_t pixel, ptrdiff_t count, REAL *to) {
    const int32_t *at = x->at + pixel, first = at[0];
    const REAL *low_weight = (const REAL *)x->low_weight + pixel;
    const REAL *high_weight = (const REAL *)x->high_weight + pixel;
    ptrdiff_t between = x->begin[x->last - x->low] - pixel; /* pixels before the last number */
    ptrdiff_t i = 0;
    if (x->single) {
        for (; i < count; i++)
            to[i] = numbers[at[i] - first];
        return;
    }
    between = between < 0 ? 0 : between < count ? between : count;
#ifdef SHUFFLED
    for (; i + VECTOR_LANES <= between && at[i] + 2 * VECTOR_LANES <= x->last + 1 &&
           at[i + VECTOR_LANES - 1] - at[i] < 2 * VECTOR_LANES - 1;
         i += VECTOR_LANES) {
        const INDICES index = *(const unaligned_indices *)(at + i) - at[i];
        const VECTOR a = load(numbers + at[i] - first);
        const VECTOR b = load(numbers + at[i] - first + VECTOR_LANES);
        const VECTOR high = SHUFFLED(a, b, index + 1) * load(high_weight + i);
        store(to + i, FUSED_VECTOR(SHUFFLED(a, b, index), load(low_weight + i), high));
    }
#endif
    const ptrdiff_t done = i;
#pragma omp simd
    for (i = done; i < between; i++)
        to[i] = FUSED(numbers[at[i] - first], low_weight[i],
                      numbers[at[i] - first + 1] * high_weight[i]);
    for (i = between; i < count; i++)
        to[i] =
            FUSED(numbers[at[i] - first], low_weight[i], numbers[at[i] - first] * high_weight[i]);
}

/* Enlarges a row of all maps along x. */
static NOINLINE void widen_row(const struct labels *job, const char *maps, int32_t y,
                               ptrdiff_t column, ptrdiff_t count, const struct tile_of_labels *tile,
                               REAL *to) {
    const struct labels_axis *x = job->before + 1;
    const int32_t *at = x->at + column, first = at[0];
    const ptrdiff_t there = x->last + 1 - first, wanted = at[count - 1] - first + 2;
    for (ptrdiff_t c = 0; c < job->classes; c++, to += job->stride) {
        const char *from = maps + c * job->class_stride + y * job->row + first * job->column;
        read_numbers(job, from, there < wanted ? there : wanted, wanted, tile->line);
        enlarge_numbers(x, tile->line, column, count, to);
    }
}

/* Makes a row of all maps that are enlarged before. */
static NOINLINE void enlarge_row(const struct labels *job, const char *maps, int32_t y,
                                 ptrdiff_t column, ptrdiff_t count, ptrdiff_t padded,
                                 struct tile_of_labels *tile) {
    const struct labels_axis *axis = job->before;
    const int32_t low = axis->at[y],
                  lines[2] = {low, low < axis->last && !axis->single ? low + 1 : low};
    const REAL first = ((const REAL *)axis->low_weight)[y];
    const REAL second = ((const REAL *)axis->high_weight)[y];
    for (int i = 0; i < 2; i++) {
        const int slot = 2 + (lines[i] & 1);
        if (tile->kept[slot] != lines[i])
            widen_row(job, maps, lines[i], column, count, tile, tile->rows[slot]);
        tile->kept[slot] = lines[i];
    }
    for (ptrdiff_t c = 0; c < job->classes; c++) {
        const REAL *a = tile->rows[2 + (lines[0] & 1)] + c * job->stride;
        const REAL *b = tile->rows[2 + (lines[1] & 1)] + c * job->stride;
        REAL *to = tile->rows[y & 1] + c * job->stride;
        if (axis->single)
            memcpy(to, a, (size_t)count * sizeof(REAL));
        else
#pragma omp simd
            for (ptrdiff_t i = 0; i < count; i++)
                to[i] = FUSED(a[i], first, b[i] * second);
        for (ptrdiff_t i = count; i < padded; i++)
            to[i] = to[count - 1];
    }
}

/* Reads a row of all maps, of the columns around some cells from `column` on. */
static NOINLINE void read_row(const struct labels *job, const char *maps, int32_t y,
                              ptrdiff_t column, ptrdiff_t cells, struct tile_of_labels *tile) {
    const int slot = y & 1;
    const ptrdiff_t there = job->x.last + 1 - column;
    const ptrdiff_t count = there < cells + 1 ? there : cells + 1;
    const ptrdiff_t padded = (cells + LANES - 1) / LANES * LANES + 1;
    REAL *to = tile->rows[slot], *unfit = tile->unfit[slot];
    if (tile->kept[slot] == y)
        return;
    tile->kept[slot] = y;
    if (job->before)
        enlarge_row(job, maps, y, column, count, padded, tile);
    for (ptrdiff_t x = 0; x < padded; x++)
        unfit[x] = 0;
    for (ptrdiff_t c = 0; c < job->classes; c++, to += job->stride) {
        const char *from = maps + c * job->class_stride + y * job->row + column * job->column;
        if (job->mixed)
            mix_numbers(job, from, count, padded, tile, to);
        else if (!job->before)
            read_numbers(job, from, count, padded, to);
        look_at(to, padded, unfit);
    }
}

/* How far computed values are from sums whose weights sum to 1.

   Let e be half of REAL_EPSILON.  The weights of an axis are w and 1 - w, and the latter is rounded
   by at most e / 2, so that they sum to 1 +- e / 2.  A product and a sum along an axis are rounded
   once each, by factors of 1 +- e.  So along both axes each corner has a weight that is at least
   0, and weights sum to a number between (1 - e)^4 (1 - e / 2)^2 and (1 + e)^4 (1 + e / 2)^2: these
   are 1 +- 5e, and a little of e^2.  The product with the weight of a class is rounded once more,
   and so is that of a corner.  Hence a value is at most m + 7e|m| if m is the largest corner times
   the weight, and at least m - 7e|m| if m is the least one times the weight.

   A class with such an m loses to one with a least M if m + 7e|m| < M - 7e|M|, which
   m < M - 14e|M| implies, up to a little of e^2.  The limit is rounded twice itself, by 2e|M| at
   most.  32e|M|, a power of two times M, is more than all of this.  What is below REAL_LEAST may be
   rounded to 0: some of that, at most once for each product and sum. */
static FORCE_INLINE REAL margin_of(REAL number) {
    const REAL size = number > 0 ? number : -number;
    return PLANTED("labels are bounded without a margin")
               ? 0
               : 16 * REAL_EPSILON * size + 16 * REAL_LEAST;
}

/* limits[l] = what the largest corner of a class must reach to win a pixel of cell l. */
static NOINLINE void find_limits(const struct labels *job, const REAL *a, const REAL *b,
                                 REAL threshold, REAL *limits) {
    const ptrdiff_t next = !job->x.single, classes = job->classes, stride = job->stride;
    REAL least[LANES];
    for (int l = 0; l < LANES; l++)
        least[l] = threshold;
    for (ptrdiff_t c = 0; c < classes; c++, a += stride, b += stride) {
        const REAL weight = ((const REAL *)job->weights)[c];
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            REAL above = a[l] < a[l + next] ? a[l] : a[l + next];
            REAL below = b[l] < b[l + next] ? b[l] : b[l + next];
            REAL corner = (above < below ? above : below) * weight;
            least[l] = corner > least[l] ? corner : least[l];
        }
    }
    for (int l = 0; l < LANES; l++)
        limits[l] = least[l] - margin_of(least[l]);
    if (job->quantum != 0)
        for (int l = 0; l < LANES; l++)
            limits[l] = onnx_limit(job, limits[l]);
}

static FORCE_INLINE REAL largest_corner(const REAL *a, const REAL *b, ptrdiff_t next) {
    const REAL above = a[0] > a[next] ? a[0] : a[next];
    const REAL below = b[0] > b[next] ? b[0] : b[next];
    return above > below ? above : below;
}

/* How many classes reach the limits of cells, and the sum of their numbers.  What is below the
   threshold is the last one.  GCC keeps two arrays of lanes in registers, and not three. */
static NOINLINE void count_candidates(const struct labels *job, const REAL *a, const REAL *b,
                                      REAL threshold, const REAL *limits, REAL *to) {
    const ptrdiff_t next = !job->x.single, classes = job->classes, stride = job->stride;
    REAL count[LANES], sum[LANES];
    for (int l = 0; l < LANES; l++) {
        count[l] = threshold >= limits[l] ? (REAL)1 : 0;
        sum[l] = count[l] * (REAL)classes;
    }
    for (ptrdiff_t c = 0; c < classes; c++, a += stride, b += stride) {
        const REAL number = (REAL)c, weight = ((const REAL *)job->weights)[c];
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            const REAL corner = largest_corner(a + l, b + l, next) * weight;
            count[l] += corner >= limits[l] ? (REAL)1 : 0;
            sum[l] += corner >= limits[l] ? number : 0;
        }
    }
    for (int l = 0; l < LANES; l++) {
        to[l] = count[l];
        to[LANES + l] = sum[l];
    }
}

/* Finds the winners of some cells between two rows.  A threshold is like a class that has this
   value everywhere, unless values below it are wanted, too. */
static NOINLINE void bound_cells(const struct labels *job, const struct tile_of_labels *tile,
                                 const int *slots, ptrdiff_t cells) {
    const int all = job->values != NULL;
    const double unit = job->quantum != 0 ? job->quantum : 1; /* of the threshold */
    const REAL threshold = job->bounded && !all ? (REAL)(job->threshold * unit) : -(REAL)INFINITY;
    const REAL *u = tile->unfit[slots[0]], *v = tile->unfit[slots[1]];
    for (ptrdiff_t x = 0; x < cells; x += LANES) {
        const REAL *a = tile->rows[slots[0]] + x, *b = tile->rows[slots[1]] + x;
        REAL *limits = tile->limits + x, found[2 * LANES];
        int32_t *winners = tile->winners + x;
        find_limits(job, a, b, threshold, limits);
        count_candidates(job, a, b, threshold, limits, found);
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            const REAL unfit = u[x + l] + u[x + l + 1] + (v[x + l] + v[x + l + 1]) + (REAL)all;
            winners[l] = (int32_t)(unfit == 0 && found[l] == 1 ? found[LANES + l] : -1);
        }
        for (int l = 0; l < LANES && job->onnx; l++) /* NaN may lose, so all are candidates */
            limits[l] += u[x + l] + u[x + l + 1] + (v[x + l] + v[x + l + 1]);
    }
}
