/* Sums of rows; rows.h says how they are taken. */

#define LINE_UNIT (LANES / VECTOR_LANES)                      /* vectors of a lane vector */
#define LINE_KIND (sizeof(REAL) == sizeof(float) ? 'f' : 'd') /* NumPy's character */

static FORCE_INLINE VECTOR splat(REAL value) { return value - (VECTOR){0}; }

/* Vector i of bytes, or of REAL. */
static FORCE_INLINE VECTOR load_line(const char *from, int kind, int i) {
    if (kind == BYTE)
        return load_bytes((const uint8_t *)from + i * VECTOR_LANES);
    return load((const REAL *)from + i * VECTOR_LANES);
}

/* sums += weight * numbers, of `count` vectors. */
static FORCE_INLINE void add_line(VECTOR *sums, const char *from, int kind, REAL weight,
                                  int count) {
    VECTOR by = splat(weight);
    UNROLLED(16)
    for (int i = 0; i < count; i++)
        sums[i] = FUSED_VECTOR(load_line(from, kind, i), by, sums[i]);
}

/* The weight of tap t of line i. */
static FORCE_INLINE REAL weight_of_line(const struct lines *lines, int i, ptrdiff_t t, int of) {
    const struct interval *span = of == LISTED ? NULL : lines->intervals + i;
    if (of == LISTED)
        return ((const REAL *)lines->list.weight)[lines->list.spans[2 * i] + t];
    if (of == TRIANGLES) {
        float rising = span->first + (float)t * span->middle;
        float falling = span->last - (float)t * span->middle;
        float weight = rising < falling ? rising : falling;
        return weight > 0 ? weight : 0;
    }
    return t == 0 ? span->first : t < span->high - span->low ? span->middle : span->last;
}

/* sums = the numbers of all taps of line i, of `count` vectors.  Pixel 0 lies at `from`, and the
   others are `stride` bytes apart.  The line has at least one tap. */
static FORCE_INLINE void sum_line(VECTOR *sums, const char *from, ptrdiff_t stride, int kind,
                                  const struct lines *lines, int i, int count, int of) {
    const ptrdiff_t taps = taps_of_line(lines, i, of), ahead = lines->ahead;
    const char *at = from + pixel_of_line(lines, i, 0, of) * stride;
    VECTOR by = splat(weight_of_line(lines, i, 0, of));
    if (kind == BYTE && of != LISTED)
        prefetch_l2((const char *)((uintptr_t)at + (uintptr_t)ahead));
    UNROLLED(16)
    for (int j = 0; j < count; j++)
        sums[j] = load_line(at, kind, j) * by;
    for (ptrdiff_t t = 1; t < taps - (of == INTERVALS); t++) {
        at = of == LISTED ? from + pixel_of_line(lines, i, t, of) * stride : at + stride;
        if (kind == BYTE && of == INTERVALS)
            prefetch_l2((const char *)((uintptr_t)at + (uintptr_t)ahead));
        REAL weight =
            of == INTERVALS ? lines->intervals[i].middle : weight_of_line(lines, i, t, of);
        add_line(sums, at, kind, weight, count);
    }
    if (of == INTERVALS && taps > 1) { /* the last has a weight of its own */
        at += stride;
        if (kind == BYTE)
            prefetch_l2((const char *)((uintptr_t)at + (uintptr_t)ahead));
        add_line(sums, at, kind, (REAL)lines->intervals[i].last, count);
    }
}

/* Sums `count` numbers, ROWS_RUN or LANES, of dense rows for output row i; `row` is where they
   begin in row 0. */
static FORCE_INLINE void sum_run(const char *row, ptrdiff_t stride, int kind,
                                 const struct lines *lines, int i, int count, REAL *to, int of) {
    enum { all = ROWS_RUN / VECTOR_LANES, most = all < 8 ? all : 8 };
    const int vectors = count == LANES ? LINE_UNIT : most;
    ptrdiff_t size = kind == BYTE ? 1 : (ptrdiff_t)sizeof(REAL);
    for (int at = 0; at < count; at += vectors * VECTOR_LANES) {
        VECTOR sums[8];
        sum_line(sums, row + at * size, stride, kind, lines, i, vectors, of);
        UNROLLED(8)
        for (int j = 0; j < vectors; j++)
            store(to + at + j * VECTOR_LANES, sums[j]);
    }
}

/* Numbers at .. at + count - 1 of row y, of any type and strides, counted from the start of the row
   as pixels of interleaved channels. */
static NOINLINE void load_row(const struct source *source, ptrdiff_t y, ptrdiff_t at, int count,
                              REAL *to) {
    const char *row = source->start + y * source->stride_y;
    int kind = source->kind, same = kind == LINE_KIND;
    size_t size = same ? sizeof(REAL) : (size_t)small_size(kind);
    uint16_t gathered[ROWS_RUN];
    char *dense = same ? (char *)to : (char *)gathered;
    if (source->dense && same)
        memcpy(dense, row + at * (ptrdiff_t)size, (size_t)count * size);
    else if (source->dense)
        dense = (char *)(uintptr_t)row + at * (ptrdiff_t)size;
    else if (size == sizeof(REAL))
        gather_numbers(source, row, at, count, sizeof(REAL), dense);
    else if (size == 2)
        gather_numbers(source, row, at, count, 2, dense);
    else
        gather_numbers(source, row, at, count, 1, dense);
    if (!same)
        widen(dense, kind, count, to);
}

/* Sums `count` numbers of a block of rows of any type, number by number, as sum_run does.  Rows of
   pixels that are loaded are kept, since the next output rows read them, too. */
static NOINLINE void sum_loaded(const struct source *source, const struct lines *lines, int rows,
                                ptrdiff_t at, int count, REAL *to, ptrdiff_t to_stride) {
    REAL kept[ROWS_LOADED][ROWS_RUN];
    ptrdiff_t pixels[ROWS_LOADED];
    int of = kind_of_lines(lines);
    for (int i = 0; i < ROWS_LOADED; i++)
        pixels[i] = -1;
    for (int p = 0; p < rows; p++, to += to_stride)
        for (ptrdiff_t t = 0, taps = taps_of_line(lines, p, of); t < taps; t++) {
            ptrdiff_t pixel = pixel_of_line(lines, p, t, of);
            REAL *numbers = kept[pixel % ROWS_LOADED];
            REAL weight = weight_of_line(lines, p, t, of);
            if (pixels[pixel % ROWS_LOADED] != pixel)
                load_row(source, pixel, at, count, numbers);
            pixels[pixel % ROWS_LOADED] = pixel;
#pragma omp simd
            for (int j = 0; j < count; j++)
                to[j] = t ? FUSED(numbers[j], weight, to[j]) : numbers[j] * weight;
        }
}

/* Transposes a lane vector of rows of `count` sums, `stride` apart, to lane vectors that are
   `to_stride` apart. */
static FORCE_INLINE void transpose_lines(const REAL *from, ptrdiff_t stride, int count, REAL *to,
                                         ptrdiff_t to_stride) {
    enum { n = VECTOR_LANES };
    for (int i = 0; i < count; i += n)
        for (int l = 0; l < LANES; l += n)
            transpose_square(from + l * stride + i, stride, n, to + i * to_stride + l, to_stride, n,
                             0);
}

/* Sums numbers at .. at + count - 1 of the rows of a block, and puts them into the strip. */
static FORCE_INLINE void sum_lines(const struct source *source, const struct lines *lines, int rows,
                                   ptrdiff_t at, int count, REAL *to, ptrdiff_t to_stride, int of) {
    REAL sums[LANES * ROWS_RUN];
    const char *start = source->start;
    int room = count > LANES ? ROWS_RUN : LANES, kind = source->kind;
    int direct = source->dense && count >= LANES;
    direct = direct && (kind == BYTE || kind == LINE_KIND);
    if (!direct)
        sum_loaded(source, lines, rows, at, count, sums, room);
    for (int p = 0; p < LANES; p++) {
        REAL *row = sums + p * room;
        if (p >= rows || taps_of_line(lines, p, of) <= 0)
            memset(row, 0, (size_t)room * sizeof(REAL));
        else if (direct && kind == BYTE)
            sum_run(start + at, source->stride_y, BYTE, lines, p, room, row, of);
        else if (direct)
            sum_run(start + at * (ptrdiff_t)sizeof(REAL), source->stride_y, LINE_KIND, lines, p,
                    room, row, of);
        else
            memset(row + count, 0, (size_t)(room - count) * sizeof(REAL));
    }
    transpose_lines(sums, room, room, to, to_stride);
}

/* Fills a strip with the sums of the rows of a block.  It has room for LANES columns at least.  The
   last run of numbers overlaps the one before it, so that nothing past the row is read. */
static FORCE_INLINE void fill_strip(const struct source *source, const struct lines *lines,
                                    int rows, const struct strip *strip, int of) {
    ptrdiff_t first = strip->low * source->channels;
    int count = (int)(strip->stop - strip->low) * source->channels;
    int run = count >= ROWS_RUN ? ROWS_RUN : LANES;
    ptrdiff_t stride = strip->channels / source->channels * LANES;
    REAL *sums = (REAL *)strip->sums + strip->channel * LANES;
    if (count < LANES) {
        sum_lines(source, lines, rows, first, count, sums, stride, of);
        return;
    }
    for (int i = 0; i < count; i += run) {
        ptrdiff_t at = i + run <= count ? i : count - run - PLANTED("a number is not summed");
        if (run == ROWS_RUN)
            sum_lines(source, lines, rows, first + at, ROWS_RUN, sums + at * stride, stride, of);
        else
            sum_lines(source, lines, rows, first + at, LANES, sums + at * stride, stride, of);
    }
}

static NOINLINE void sum_strip(const struct source *source, const struct lines *lines, int rows,
                               const struct strip *strip) {
    if (kind_of_lines(lines) == INTERVALS)
        fill_strip(source, lines, rows, strip, INTERVALS);
    else if (kind_of_lines(lines) == TRIANGLES)
        fill_strip(source, lines, rows, strip, TRIANGLES);
    else
        fill_strip(source, lines, rows, strip, LISTED);
}

/* Sums output column q of `channels` channels, whose pixels are all in the strip. */
static FORCE_INLINE void sum_column(const struct strip *strip, const struct lines *lines, int q,
                                    int channels, const struct sums *to, int of) {
    VECTOR sums[ROWS_CHANNELS * LINE_UNIT];
    ptrdiff_t stride = (of == LISTED ? strip->channels : channels) * LANES;
    const REAL *from =
        (const REAL *)strip->sums - strip->low * stride + (of == LISTED ? to->first : 0) * LANES;
    sum_line(sums, (const char *)from, stride * (ptrdiff_t)sizeof(REAL), LINE_KIND, lines, q,
             channels * LINE_UNIT, of);
    UNROLLED(4)
    for (int c = 0; c < channels; c++) {
        REAL *column = (REAL *)to->sums + (q * to->stride + to->place[c]) * LANES;
        VECTOR scale = splat(to->scale[c]), bias = splat(to->bias[c]);
        UNROLLED(4)
        for (int i = 0; i < LINE_UNIT; i++)
            store(column + i * VECTOR_LANES, FUSED_VECTOR(sums[c * LINE_UNIT + i], scale, bias));
    }
}

/* Sums an output column of which the strip has only some pixels, or none. */
static NOINLINE void sum_part(const struct strip *strip, const struct lines *lines, int q,
                              const struct sums *to) {
    const struct interval none = {0, -1, 0, 0, 0, 0};
    const struct interval *span = lines->intervals ? lines->intervals + q : &none;
    ptrdiff_t low = span->low > strip->low ? span->low : strip->low;
    ptrdiff_t high = span->high < strip->stop ? span->high : strip->stop - 1;
    for (int c = 0; c < to->channels; c++) {
        REAL *sums = (REAL *)to->sums + (q * to->stride + to->place[c]) * LANES;
        const REAL *from = (const REAL *)strip->sums + (to->first + c) * LANES;
        if (!strip->add)
            memset(sums, 0, LANE_BYTES);
        for (ptrdiff_t x = low; x <= high; x++) {
            const REAL *at = from + (x - strip->low) * strip->channels * LANES;
            REAL weight =
                weight_of_line(lines, q, x - span->low, lines->triangles ? TRIANGLES : INTERVALS);
            for (int l = 0; l < LANES; l++)
                sums[l] = x == span->low ? at[l] * weight : FUSED(at[l], weight, sums[l]);
        }
    }
}

/* Sums `count` output columns.  Copies of the structs stay in registers, since no store can change
   them. */
static FORCE_INLINE void sum_some_columns(const struct strip *strip, const struct lines *lines,
                                          int count, const struct sums *to, int of) {
    const struct strip near = *strip;
    const struct lines own = *lines;
    const struct sums sums = *to;
    for (int q = 0; q < count; q++) {
        int whole = taps_of_line(&own, q, of) > 0;
        if (of != LISTED)
            whole = whole && !near.add && own.intervals[q].low >= near.low &&
                    own.intervals[q].high < near.stop;
        if (!whole)
            sum_part(strip, lines, q, to);
        else if (sums.channels == 3)
            sum_column(&near, &own, q, 3, &sums, of);
        else if (sums.channels == 1)
            sum_column(&near, &own, q, 1, &sums, of);
        else if (sums.channels == 4)
            sum_column(&near, &own, q, 4, &sums, of);
        else
            sum_column(&near, &own, q, 2, &sums, of);
    }
}

static NOINLINE void sum_strip_columns(const struct strip *strip, const struct lines *lines,
                                       int count, const struct sums *to) {
    if (kind_of_lines(lines) == INTERVALS)
        sum_some_columns(strip, lines, count, to, INTERVALS);
    else if (kind_of_lines(lines) == TRIANGLES)
        sum_some_columns(strip, lines, count, to, TRIANGLES);
    else
        sum_some_columns(strip, lines, count, to, LISTED);
}

#undef LINE_UNIT
#undef LINE_KIND
