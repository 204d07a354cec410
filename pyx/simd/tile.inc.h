/* Tiles: between arrays of any strides and type, and [y][x][lane], row by row as pack.inc.h does.

   The lanes past the last channel of a partial block are zero, and are never written back. */

#define MIN_TRANSPOSE_PIXELS 4 /* pixels of a row: fewer are packed one by one (R077) */
#define WIDEN_PIXELS 64        /* pixels of a small type that are converted at once */
#define PACK_ROWS_AHEAD 16     /* rows packed at once: streams are found once (R071) */
#define TILE_HEADROOM 4        /* 1/4 of the spare rows of a tile lie above the box */
#define COPY_PIXELS_AHEAD 4    /* pixels ahead that are prefetched while bins are copied (R174) */

/* Rows x columns pixels of `lanes` channels into to[y][x][lane]. */
static NOINLINE void pack(const void *from, const struct strides *strides, int lanes,
                          ptrdiff_t rows, ptrdiff_t columns, void *to) {
    const struct strides stride = *strides;
    const REAL *row = (const REAL *)from;
    REAL *at = (REAL *)to;
    if (stride.x == 1 && stride.y == columns) { /* rows lie end to end: one long row */
        columns *= rows;
        rows = 1;
    }
    for (; rows > 0; rows--, row += stride.y, at += columns * LANES) {
        if (stride.x == 1 && columns >= MIN_TRANSPOSE_PIXELS)
            planes_to_lanes(row, stride.channel, lanes, columns, stride.y, at);
        else if (lanes == LANES && stride.channel == 1)
            for (ptrdiff_t x = 0; x < columns; x++)
                memcpy(at + x * LANES, row + x * stride.x, LANE_BYTES);
        else if (stride.channel == 1)
            for (ptrdiff_t x = 0; x < columns; x++) {
                memset(at + x * LANES, 0, LANE_BYTES);
                copy_short(at + x * LANES, row + x * stride.x, lanes);
            }
        else
            for (ptrdiff_t x = 0; x < columns; x++) {
                for (int l = 0; l < lanes; l++)
                    at[x * LANES + l] = row[l * stride.channel + x * stride.x];
                for (int l = lanes; l < LANES; l++)
                    at[x * LANES + l] = 0;
            }
    }
}

/* Packs pixels of a map of a small type, a few at a time. */
static NOINLINE void pack_widened(const char *from, int dtype, const struct strides *strides,
                                  int lanes, ptrdiff_t rows, ptrdiff_t columns, REAL *to) {
    const struct strides stride = *strides, run_stride = {0, WIDEN_PIXELS, 0, 1};
    const ptrdiff_t size = small_size(dtype);
    REAL run[LANES * WIDEN_PIXELS];
    if (stride.x == 1 && stride.y == columns) {
        columns *= rows;
        rows = 1;
    }
    const int runs = stride.x == 1 && columns > 1;
    for (int l = lanes; l < LANES; l++)
        run[l] = 0;
    for (; rows > 0; rows--, from += stride.y * size, to += columns * LANES)
        for (ptrdiff_t x = 0, count; x < columns; x += count) {
            count = !runs ? 1 : columns - x < WIDEN_PIXELS ? columns - x : WIDEN_PIXELS;
            if (runs) {
                for (int l = 0; l < lanes; l++)
                    widen(from + (l * stride.channel + x) * size, dtype, count,
                          run + l * WIDEN_PIXELS);
                pack(run, &run_stride, lanes, 1, count, to + x * LANES);
                continue;
            }
            if (stride.channel == 1)
                widen(from + x * stride.x * size, dtype, lanes, run);
            else
                for (int l = 0; l < lanes; l++)
                    widen(from + (l * stride.channel + x * stride.x) * size, dtype, 1, run + l);
            memcpy(to + x * LANES, run, LANE_BYTES);
        }
}

/* Packs rows x columns pixels of a block from (y, x) on. */
static NOINLINE void read_pixels(const struct tile *tile, ptrdiff_t y, ptrdiff_t x, ptrdiff_t rows,
                                 ptrdiff_t columns, void *to) {
    const ptrdiff_t at = y * tile->strides.y + x * tile->strides.x;
    const char *from = tile->plane + at * tile->itemsize;
    if (tile->itemsize == sizeof(REAL))
        pack(from, &tile->strides, tile->lanes, rows, columns, to);
    else
        pack_widened(from, tile->dtype, &tile->strides, tile->lanes, rows, columns, (REAL *)to);
}

/* Packs a window that the tile does not hold, alone or with rows around it, into `memory`.  Returns
   where pixel (y0, x0) of the window lies, and sets the strides from pixel to pixel. */
static NOINLINE const void *load_rows(struct tile *tile, void *memory, const struct window *window,
                                      struct view *view) {
    const ptrdiff_t width = tile->x1 - tile->x0, rows = window->y1 - window->y0;
    REAL *to = (REAL *)memory;
    if (!tile->shared) {
        const ptrdiff_t columns = window->x1 - window->x0;
        ASSERT(rows * columns <= tile->capacity);
        view->y = columns * LANES;
        read_pixels(tile, window->y0, window->x0, rows, columns, to);
        return to;
    }
    ASSERT(rows <= tile->capacity_rows && window->x0 >= tile->x0 && window->x1 <= tile->x1);
    if (window->y0 < tile->y0 || window->y1 > tile->y0 + tile->capacity_rows) { /* move the tile */
        /* Boxes are sorted by their top rows only roughly, so leave room above this one. */
        ptrdiff_t top = window->y0 - (tile->capacity_rows - rows) / TILE_HEADROOM, kept = 0;
        top = top > tile->top ? top : tile->top;
        if (top >= tile->y0 && top < tile->y1)
            kept = tile->y1 - top;
        if (kept > 0)
            memmove(to, to + (top - tile->y0) * view->y, (size_t)(kept * view->y) * sizeof(REAL));
        tile->y0 = top;
        tile->y1 = top + kept;
    }
    if (window->y1 > tile->y1) {
        ptrdiff_t most = tile->y0 + tile->capacity_rows, bottom = tile->y1 + PACK_ROWS_AHEAD;
        bottom = bottom < most ? bottom : most;
        bottom = bottom < tile->bottom ? bottom : tile->bottom;
        bottom = bottom > window->y1 ? bottom : window->y1;
        const ptrdiff_t missing = PLANTED("a row of a tile is not filled");
        read_pixels(tile, tile->y1, tile->x0, bottom - tile->y1 - missing, width,
                    to + (tile->y1 - tile->y0) * view->y);
        tile->y1 = bottom;
    }
    return to + (window->y0 - tile->y0) * view->y + (window->x0 - tile->x0) * LANES;
}

/* Packs the pixels of some rows and columns alone, those of a window of tap rows. */
static NOINLINE void load_slots(const struct tile *tile, const int32_t *pixel,
                                const struct window *slots, void *to) {
    REAL *at = (REAL *)to;
    for (ptrdiff_t y = slots->y0; y < slots->y1; y++)
        for (ptrdiff_t x = slots->x0; x < slots->x1; x++, at += LANES)
            read_pixels(tile, pixel[y], pixel[x], 1, 1, at);
}

/* Channels last, neighbouring bins of a position-sensitive operator lie together in a pixel.  They
   are transposed like a row of pixels, into one tile for each bin, bin_stride bytes apart.  `tile`
   is of the first bin, and `channel` is the stride of the channels of the map. */

/* Packs the pixels of all bins from (top, x0) to (bottom, x1), as [bin][y][x][lane]. */
static NOINLINE void load_bins(const struct tile *tile, ptrdiff_t channel, ptrdiff_t bin_stride,
                               int bins, void *to) {
    struct tile block = *tile;
    const ptrdiff_t column = tile->strides.x * tile->itemsize;
    const ptrdiff_t lane = tile->strides.channel * tile->itemsize;
    REAL pixel[LANES * BINS_TOGETHER];
    char *at = (char *)to;
    block.strides.x = channel;
    for (ptrdiff_t y = tile->top; y < tile->bottom; y++)
        for (ptrdiff_t x = tile->x0; x < tile->x1; x++, at += LANE_BYTES) {
            block.plane = tile->plane + y * tile->strides.y * tile->itemsize + x * column;
            for (int l = 0; l < tile->lanes; l++) /* which hardware does not foresee */
                prefetch_l2(block.plane + COPY_PIXELS_AHEAD * column + l * lane);
            read_pixels(&block, 0, 0, 1, bins, pixel);
            for (int z = 0; z < bins; z++)
                memcpy(at + z * bin_stride, pixel + z * LANES, LANE_BYTES);
        }
}

/* As unpack, in place. */
static inline void unpack_rows(const REAL *from, ptrdiff_t rows, ptrdiff_t columns, REAL *to,
                               const struct strides *strides, int lanes, int streaming) {
    const struct strides stride = *strides;
    const int missing = VECTOR_BYTES == 32 && PLANTED("AVX2 leaves out a lane");
    for (; rows > 0; rows--, from += columns * LANES, to += stride.y) {
        if (stride.x == 1 && columns > 1)
            lanes_to_planes(from, columns, lanes, to, stride.channel, streaming);
        else if (lanes == LANES && stride.channel == 1)
            for (ptrdiff_t x = 0; x < columns; x++)
                memcpy(to + x * stride.x, from + x * LANES, LANE_BYTES);
        else if (stride.channel == 1)
            for (ptrdiff_t x = 0; x < columns; x++)
                copy_short(to + x * stride.x, from + x * LANES, lanes - missing);
        else
            for (ptrdiff_t x = 0; x < columns; x++)
                for (int l = 0; l < lanes; l++)
                    to[x * stride.x + l * stride.channel] = from[x * LANES + l];
    }
}

/* from[y][x][lane] into rows x columns pixels of the target's channels.

   If the store is STREAMING, results stay queued, and nobody may write to the staging until the
   queue is empty.  Staging begins at a page, since a store across two pages waits for all streaming
   stores. */
static NOINLINE void unpack(const void *from, ptrdiff_t rows, ptrdiff_t columns, void *to,
                            const struct target *target) {
    const struct strides *strides = &target->strides;
    if (strides->x == 1 && strides->y == columns) {
        columns *= rows;
        rows = 1;
    }
    if (!target->staging || target->store == DIRECT || rows != 1 || strides->x != 1 ||
        strides->channel != columns || columns < VECTOR_LANES) {
        unpack_rows((const REAL *)from, rows, columns, (REAL *)to, strides, target->lanes,
                    target->store == STREAMING);
        return;
    }
    const size_t size = (size_t)(target->lanes * columns) * sizeof(REAL);
    if (target->queue->left > 0)
        stream_lines(target->queue, 1);
    unpack_rows((const REAL *)from, 1, columns, (REAL *)target->staging, strides, target->lanes, 0);
    if (target->store == STREAMING) /* in two turns: the next box is summed along two axes */
        stream_begin(target->queue, to, target->staging, size, 2);
    else
        memcpy(to, target->staging, size);
}

/* from[bin][y][x][lane] into the pixels that load_bins reads. */
static NOINLINE void store_bins(const struct tile *tile, ptrdiff_t channel, ptrdiff_t bin_stride,
                                int bins, const void *from) {
    struct strides strides = tile->strides;
    REAL pixel[LANES * BINS_TOGETHER] = {0};
    const char *at = (const char *)from;
    strides.x = channel;
    for (ptrdiff_t y = tile->top; y < tile->bottom; y++)
        for (ptrdiff_t x = tile->x0; x < tile->x1; x++, at += LANE_BYTES) {
            for (int z = 0; z < bins; z++)
                memcpy(pixel + z * LANES, at + z * bin_stride, LANE_BYTES);
            unpack_rows(pixel, 1, bins,
                        (REAL *)tile->plane + y * tile->strides.y + x * tile->strides.x, &strides,
                        tile->lanes, 0);
        }
}

/* Writes pixels of `width` channels, which lie end to end, to pixels that lie `stride` apart. */
static NOINLINE void put_pixels(const void *from, ptrdiff_t count, ptrdiff_t width, void *to,
                                ptrdiff_t stride, int store) {
    const REAL *pixels = (const REAL *)from;
    REAL *at = (REAL *)to;
    if (stride == width) {
        width *= count;
        count = 1;
    }
    for (; count > 0; count--, at += stride, pixels += width)
        if (store == STREAMING)
            stream_copy(at, pixels, (size_t)width * sizeof(REAL));
        else
            memcpy(at, pixels, (size_t)width * sizeof(REAL));
}

/* Zeros in rows x columns pixels, in as few long runs as there can be. */
static NOINLINE void clear(void *to, const struct strides *strides, ptrdiff_t channels,
                           ptrdiff_t rows, ptrdiff_t columns) {
    const struct strides stride = *strides;
    ptrdiff_t run = 1;
    if (stride.y == columns * stride.x) { /* rows lie end to end */
        columns *= rows;
        rows = 1;
    }
    if (stride.channel == 1) {
        run = channels;
        channels = 1;
    }
    if (stride.x == run) { /* and so do pixels */
        run *= columns;
        columns = 1;
    }
    if (rows == 1 && stride.channel == run) {
        run *= channels;
        channels = 1;
    }
    for (ptrdiff_t c = 0; c < channels; c++)
        for (ptrdiff_t y = 0; y < rows; y++)
            for (ptrdiff_t x = 0; x < columns; x++)
                memset((REAL *)to + c * stride.channel + y * stride.y + x * stride.x, 0,
                       (size_t)run * sizeof(REAL));
}

#undef MIN_TRANSPOSE_PIXELS
#undef WIDEN_PIXELS
#undef PACK_ROWS_AHEAD
#undef TILE_HEADROOM
#undef COPY_PIXELS_AHEAD
