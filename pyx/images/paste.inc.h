/* The pixels of masks.  masks.h includes this file once for each type REAL. */

/* The taps of pixels first .. first + count - 1, along lines or across them.

   If the mask is resized they are those of area_pixel of PyTorch's interpolate, and else those of
   its grid_sample, both with align_corners=False.  Products are fused as its kernels have them, so
   that the weights have the same bits.  A mask that is sampled has a border of zeros, where all
   points beyond it lie.  A point that is no number weighs nothing. */
static FORCE_INLINE void NAME(find_taps)(const struct mask_lines *lines, int across,
                                         ptrdiff_t first, ptrdiff_t count,
                                         const struct mask_taps *taps) {
    const struct masks *masks = lines->masks;
    const struct mask_place *place = masks->places + lines->k;
    const double *corners = masks->corners + 4 * lines->k;
    const int y = masks->along_y != across, rule = masks->rule;
    const int32_t extent = masks->extent[across], last = extent - 1;
    REAL *low_weight = (REAL *)taps->low_weight, *high_weight = (REAL *)taps->high_weight;
    if (rule == TORCHVISION) {
        const REAL scale = (REAL)extent / (REAL)place->size[y];
        const int32_t start = (int32_t)lines->start[across];
        const int32_t stride = across ? 1 : (int32_t)lines->stride;
        const ptrdiff_t offset = first - place->origin[y];
        for (ptrdiff_t i = 0; i < count; i++) {
            REAL at = NAME(FUSED)(scale, (REAL)(offset + i) + (REAL)0.5, (REAL)-0.5);
            at = at > 0 ? at : 0;
            int32_t low = at < last ? (int32_t)at : last;
            REAL weight = at - (REAL)low;
            high_weight[i] = weight < 1 ? weight : 1;
            low_weight[i] = 1 - high_weight[i];
            taps->low[i] = (low - start) * stride;
            taps->high[i] = ((low < last ? low + 1 : last) - start) * stride;
        }
        return;
    }
    const REAL start = (REAL)corners[y], size = (REAL)corners[2 + y] - start;
    const REAL half = (REAL)(extent - 2) / 2;
    for (ptrdiff_t i = 0; i < count; i++) {
        REAL at = (((REAL)(first + i) + (REAL)0.5) - start) / size;
        at = at * 2 - 1;
        if (rule == MMDET && at - at != 0 && at == at)
            at = 0;
        at = NAME(FUSED)(at + 1, half, (REAL)-0.5);
        int inside = at > -1 && at < (REAL)(last - 1);
        REAL floor = (REAL)(int32_t)((inside ? at : 0) + 1) - 1;
        int32_t low = inside ? (int32_t)floor + 1 : 0;
        REAL weight = at - floor;
        high_weight[i] = inside ? weight : 0;
        low_weight[i] = inside ? 1 - weight : 0;
        taps->low[i] = low;
        taps->high[i] = inside ? low + 1 : 0;
    }
}

/* Computes what is needed of a line of the mask. */
static NOINLINE void NAME(read_line)(struct mask_lines *lines, int32_t line, int slot) {
    const int32_t *at_low = lines->at_low, *at_high = lines->at_high;
    const ptrdiff_t skipped = lines->masks->skipped[!lines->masks->along_y];
    const REAL *from =
        lines->before ? (const REAL *)mask_line(lines->before, line + lines->start[1] + skipped)
                      : (const REAL *)lines->numbers + line * lines->line_stride;
    const REAL *low_weight = (const REAL *)lines->low_weight;
    const REAL *high_weight = (const REAL *)lines->high_weight;
    const ptrdiff_t count = lines->count;
    REAL *low = (REAL *)lines->low[slot], *high = (REAL *)lines->high[slot];
    lines->kept[slot] = line;
    if (lines->corners || lines->masks->along_y) {
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) {
            low[i] = from[at_low[i]];
            high[i] = from[at_high[i]];
        }
    } else {
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++)
            low[i] = NAME(FUSED)(from[at_low[i]], low_weight[i], from[at_high[i]] * high_weight[i]);
    }
}

/* Pixels between two kept lines of these weights: sums of four corners, each with the product of
   its weights.  The corners are added from above to below and from left to right, but TORCHVISION
   begins with the second. */
static NOINLINE void NAME(blend_corners)(const struct mask_lines *lines, const int *slots,
                                         const REAL *weights, REAL *to) {
    const REAL *value[4], *along[4];
    const int along_y = lines->masks->along_y;
    REAL across[4];
    for (int i = 0; i < 4; i++) {
        int corner = lines->masks->rule == TORCHVISION && i < 2 ? 1 - i : i;
        int line = along_y ? corner & 1 : corner >> 1;
        int high = along_y ? corner >> 1 : corner & 1;
        value[i] = (const REAL *)(high ? lines->high : lines->low)[slots[line]];
        along[i] = (const REAL *)(high ? lines->high_weight : lines->low_weight);
        across[i] = weights[line];
    }
#pragma omp simd
    for (ptrdiff_t i = 0; i < lines->count; i++) {
        REAL sum = value[0][i] * (along[0][i] * across[0]);
        sum = NAME(FUSED)(value[1][i], along[1][i] * across[1], sum);
        sum = NAME(FUSED)(value[2][i], along[2][i] * across[2], sum);
        to[i] = NAME(FUSED)(value[3][i], along[3][i] * across[3], sum);
    }
}

/* Pixels between two kept lines of these weights: first along x, which rows are already, and then
   along y. */
static FORCE_INLINE void NAME(blend_lines)(const struct mask_lines *lines, const int *slots,
                                           const REAL *weights, REAL *to) {
    const REAL *a = (const REAL *)lines->low[slots[0]], *b = (const REAL *)lines->low[slots[1]];
    const REAL first = weights[0], second = weights[1];
    const ptrdiff_t count = lines->count;
    if (!lines->masks->along_y) {
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++)
            to[i] = NAME(FUSED)(a[i], first, b[i] * second);
        return;
    }
    const REAL *c = (const REAL *)lines->high[slots[0]], *d = (const REAL *)lines->high[slots[1]];
    const REAL *low_weight = (const REAL *)lines->low_weight;
    const REAL *high_weight = (const REAL *)lines->high_weight;
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) {
        REAL low = NAME(FUSED)(a[i], first, b[i] * second);
        REAL high = NAME(FUSED)(c[i], first, d[i] * second);
        to[i] = NAME(FUSED)(low, low_weight[i], high * high_weight[i]);
    }
}

/* The logistic function, 1 / (1 + exp(-x)), of some numbers. */
static NOINLINE void NAME(squash)(REAL *numbers, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++)
        numbers[i] = 1 / (1 + NAME(exp)(-numbers[i]));
}

/* to = what pixels become: whether they are at least the threshold, which a NaN is not, or bytes; 0
   of a NaN. */
static FORCE_INLINE void NAME(to_bytes)(const struct mask_lines *lines, const REAL *pixels,
                                        uint8_t *to) {
    const REAL threshold = (REAL)lines->masks->threshold;
    const ptrdiff_t count = lines->count;
    if (lines->masks->values == REACHED) {
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++)
            to[i] = PLANTED("a threshold is not reached by itself") ? pixels[i] > threshold
                                                                    : pixels[i] >= threshold;
        return;
    }
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) {
        REAL value = pixels[i] * 255;
        value = value > 0 ? value : 0;
        to[i] = (uint8_t)(int32_t)(value < 255 ? value : 255);
    }
}

/* Computes a line of pixels. */
static NOINLINE const void *NAME(compute_line)(struct mask_lines *lines, ptrdiff_t line) {
    int32_t ends[2];
    REAL weights[2], *pixels = (REAL *)lines->pixels;
    const struct mask_taps tap = {ends, ends + 1, weights, weights + 1};
    NAME(find_taps)(lines, 1, line, 1, &tap);
    const int slots[2] = {ends[0] & 1, ends[1] & 1};
    for (int i = 0; i < 2; i++)
        if (lines->kept[slots[i]] != ends[i])
            NAME(read_line)(lines, ends[i], slots[i]);
    if (lines->corners)
        NAME(blend_corners)(lines, slots, weights, pixels);
    else
        NAME(blend_lines)(lines, slots, weights, pixels);
    if (lines->masks->squashed)
        NAME(squash)(pixels, lines->count);
    if (lines->masks->values == REAL_VALUES)
        return pixels;
    NAME(to_bytes)(lines, pixels, lines->small);
    return lines->small;
}

/* hull: from where to where pixels are, along lines or across them.  It becomes from where to where
   the numbers are that they lie between, and numbers are skipped from there.  This is before
   mask_begin. */
static NOINLINE void NAME(find_hull)(const struct mask_lines *lines, int across, int64_t *hull) {
    const ptrdiff_t pixels[2] = {hull[0], hull[1] - 1};
    for (int i = 0; i < 2; i++) {
        int32_t ends[2];
        REAL weights[2];
        const struct mask_taps tap = {ends, ends + 1, weights, weights + 1};
        NAME(find_taps)(lines, across, pixels[i], 1, &tap);
        hull[i] = ends[i] + i + lines->masks->skipped[lines->masks->along_y != across];
    }
}

/* Sums some vectors of numbers of all prototypes, which are `plane` numbers apart. */
static FORCE_INLINE void NAME(mix_run)(const REAL *from, ptrdiff_t plane, const REAL *by,
                                       ptrdiff_t prototypes, int vectors, REAL *to) {
    enum { n = VECTOR_BYTES / sizeof(REAL) };
    VECTOR sums[MIXED] = {{0}};
    for (ptrdiff_t c = 0; c < prototypes; c++, from += plane) {
        const VECTOR weight = by[c] - (VECTOR){0};
        UNROLLED(4)
        for (int i = 0; i < vectors; i++)
            sums[i] = NAME(FUSED_VECTOR)(NAME(load)(from + i * n), weight, sums[i]);
    }
    UNROLLED(4)
    for (int i = 0; i < vectors; i++)
        NAME(store)(to + i * n, sums[i]);
}

/* Computes rows and columns of mask k, from window[][0] up to window[][1], of x and of y. */
static NOINLINE void NAME(mix)(const struct prototypes *mixed, ptrdiff_t k,
                               const int64_t (*window)[2], REAL *to) {
    enum { n = VECTOR_BYTES / sizeof(REAL) };
    const int64_t *box = mixed->boxes + 4 * k;
    const REAL *by = (const REAL *)mixed->coefficients + k * mixed->count;
    const ptrdiff_t width = window[0][1] - window[0][0], plane = mixed->height * mixed->width;
    for (int64_t y = window[1][0]; y < window[1][1]; y++, to += width) {
        const REAL *from = (const REAL *)mixed->numbers + y * mixed->width + window[0][0];
        ptrdiff_t x = 0;
        for (; x + MIXED * n <= width; x += MIXED * n)
            NAME(mix_run)(from + x, plane, by, mixed->count, MIXED, to + x);
        for (; x + n <= width; x += n)
            NAME(mix_run)(from + x, plane, by, mixed->count, 1, to + x);
        for (; x < width; x++) {
            to[x] = 0;
            for (ptrdiff_t c = 0; c < mixed->count; c++)
                to[x] = NAME(FUSED)(from[c * plane + x], by[c], to[x]);
        }
        if (mixed->squashed)
            NAME(squash)(to, width);
        for (x = 0; x < width && mixed->cut; x++)
            if (y < box[1] || y >= box[3] || x + window[0][0] < box[0] ||
                x + window[0][0] >= box[2])
                to[x] = 0;
    }
}
