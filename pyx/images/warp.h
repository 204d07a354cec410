/* Crops that are not upright: bilinear samples at positions that a matrix gives.

   Output pixel (p, q) is the mean of nx * ny samples, which are spread evenly over the pixel.  The
   sample at (q', p') lies at m * [q', p', 1], and pixels of output and frame are counted from the
   middle of the first. */
#ifndef ROICY_WARP_H
#define ROICY_WARP_H

#include "images/axis.h"
#include "simd/simd.h"
#include "images/store.h"

/* Pixels of the frame that the next output rows are prefetched ahead. */
enum { WARP_AHEAD = 8 };

/* The iterations of the loop that follows may be lanes of vectors. */
#define WARP_SIMD PRAGMA(omp simd)
#define WARP_SIMD_OR PRAGMA(omp simd reduction(| : outside))

/* The pixel (y, x) of a frame of any strides and type, or padding. */
static NOINLINE void warp_load_pixel(const struct frame *frame, const struct warp *warp,
                                     ptrdiff_t y, ptrdiff_t x, float *to) {
    ptrdiff_t right = frame->width - 1, bottom = frame->height - 1;
    if (!warp->repeats && (x < 0 || x > right || y < 0 || y > bottom)) {
        memcpy(to, warp->pixels.pad, sizeof warp->pixels.pad);
        return;
    }
    x = x < 0 ? 0 : x > right ? right : x;
    y = y < 0 ? 0 : y > bottom ? bottom : y;
    ASSERT(frame->low[0] <= y && y < frame->stop[0]);
    ASSERT(frame->low[1] <= x && x < frame->stop[1]);
    if (frame->pixels.kind != BYTE) {
        load_row(&frame->pixels, y, x * frame->pixels.channels, frame->pixels.channels, to);
        return;
    }
    const char *pixel =
        frame->pixels.start + y * frame->pixels.stride_y + x * frame->pixels.stride_x;
    for (int c = 0; c < frame->pixels.channels; c++)
        to[c] = *(const uint8_t *)(pixel + c * frame->pixels.stride_c);
}

/* Positions of samples of neighbouring output pixels: the pixel before each and the distance from
   it.  A row of INT32_MIN means that there is none. */
struct warp_places {
    int32_t column[CROP_COLUMNS], row[CROP_COLUMNS];
    float x[CROP_COLUMNS], y[CROP_COLUMNS];
};

/* Finds the places of samples, for any matrix. */
static NOINLINE void warp_place_any(const struct frame *frame, const struct warp *warp, double q,
                                    double p, struct warp_places *places) {
    const double *m = warp->m;
    double right = frame->width + 1.0, bottom = frame->height + 1.0;
    double x0 = m[1] * p + m[2], y0 = m[4] * p + m[5], w0 = m[7] * p + m[8];
    double by_x = m[0], by_y = m[3], by_w = m[6];
    WARP_SIMD
    for (int i = 0; i < CROP_COLUMNS; i++) {
        double w = by_w * (q + i) + w0;
        double x = (by_x * (q + i) + x0) / w, y = (by_y * (q + i) + y0) / w;
        int valid = (w > 0) & (x == x) & (y == y);
        double column = crop_within(x, -2, right), row = crop_within(y, -2, bottom);
        int32_t before = (int32_t)(column + 4) - 4, above = (int32_t)(row + 4) - 4;
        places->x[i] = (float)(column - before);
        places->y[i] = (float)(row - above);
        places->column[i] = before;
        places->row[i] = valid ? above : INT32_MIN;
    }
}

/* The pixel before a position relative to one pixel, and the distance from it. */
static FORCE_INLINE void warp_split(float position, int32_t origin, int32_t *pixel, float *part) {
    int32_t whole = (int32_t)position;
    whole -= (float)whole > position;
    *pixel = origin + whole;
    *part = position - (float)whole;
}

/* Places the samples from (q, p) of the output on.  The first is computed in double, and the others
   relative to its pixel in float, where they are near enough.

   The first lies at x = X / W, and the sample i columns on is i * (m0 - x * m6) / (W + i * m6)
   pixels farther on.  Returns whether samples are known to lie on a line. */
static FORCE_INLINE int warp_place(const struct frame *frame, const struct warp *warp, double q,
                                   double p, struct warp_places *places) {
    const double *m = warp->m, far = 1e8, steep = 32, least = -1.0 / (2 * CROP_COLUMNS);
    double w = m[6] * q + m[7] * p + m[8], inverse = warp->projective ? 1 / w : 1;
    double x = (m[0] * q + m[1] * p + m[2]) * inverse, y = (m[3] * q + m[4] * p + m[5]) * inverse;
    double by_x = (m[0] - x * m[6]) * inverse, by_y = (m[3] - y * m[6]) * inverse;
    double by_w = m[6] * inverse;
    if (!(w > 0 && fabs(x) < far && fabs(y) < far && fabs(by_x) < steep && fabs(by_y) < steep &&
          by_w > least && by_w < 1)) {
        warp_place_any(frame, warp, q, p, places);
        return 0;
    }
    double column = floor(x), row = floor(y);
    float x0 = (float)(x - column), y0 = (float)(y - row), dx = (float)by_x, dy = (float)by_y;
    float dw = (float)by_w;
    int32_t first_column = (int32_t)column, first_row = (int32_t)row;
    WARP_SIMD
    for (int i = 0; i < CROP_COLUMNS; i++) {
        float share = (float)i / (1 + (float)i * dw);
        warp_split(x0 + share * dx, first_column, places->column + i, places->x + i);
        warp_split(y0 + share * dy, first_row, places->row + i, places->y + i);
    }
    return 1;
}

/* Moves samples to the middles of the pixels around them. */
static FORCE_INLINE void warp_to_nearest(struct warp_places *places) {
    for (int i = 0; i < CROP_COLUMNS; i++) {
        places->column[i] += places->x[i] >= 0.5f;
        places->row[i] += places->row[i] != INT32_MIN && places->y[i] >= 0.5f;
        places->x[i] = places->y[i] = 0;
    }
}

/* Whether the pixels of all samples lie in the frame, and are followed by bytes of the row that
   warp_add_bytes may read: eight from the first pixel on.  Of samples on a line the ends are
   enough, with a pixel to spare for rounding. */
static FORCE_INLINE int warp_is_inside(const struct frame *frame, int channels,
                                       const struct warp_places *places, int on_line) {
    const int32_t *column = places->column, *row = places->row;
    enum { last = CROP_COLUMNS - 1 };
    int32_t right = frame->width - (channels == 1 ? 8 : channels == 2 ? 4 : channels == 3 ? 3 : 2);
    int32_t bottom = frame->height - 2;
    int outside = 0;
    if (on_line && column[0] > 0 && column[0] < right && row[0] > 0 && row[0] < bottom &&
        column[last] > 0 && column[last] < right && row[last] > 0 && row[last] < bottom)
        return 1;
    WARP_SIMD_OR
    for (int i = 0; i < CROP_COLUMNS; i++)
        outside |= (column[i] < 0) | (column[i] > right) | (row[i] < 0) | (row[i] > bottom);
    return !outside;
}

static FORCE_INLINE uint64_t warp_eight_bytes(const char *from) {
    uint64_t eight;
    memcpy(&eight, from, sizeof eight);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    eight = __builtin_bswap64(eight);
#endif
    return eight;
}

/* Whether numbers of 32 bits can say how far bytes of a frame are from its start. */
static inline int warp_is_near(const struct frame *frame) {
    ptrdiff_t most = INT32_MAX, row = frame->pixels.stride_y;
    return row < most && row > -most && row * frame->height < most && row * frame->height > -most &&
           frame->width < most / CROP_CHANNELS - 8;
}

/* Adds samples amid dense bytes to sums [channel][column].  Two pixels of a row are fetched at
   once, one sample after the other; they are then computed with as vectors of samples.  Pixels
   `ahead` bytes on are prefetched, unless it is 0. */
static FORCE_INLINE void warp_add_bytes(const struct frame *frame, int channels,
                                        const struct warp_places *places, ptrdiff_t ahead,
                                        float *sums) {
    enum { n = CROP_COLUMNS };
    const char *start = frame->pixels.start, *next = start + frame->pixels.stride_y;
    int32_t stride = (int32_t)frame->pixels.stride_y, offset[n];
    uint64_t above[n], below[n];
    uint32_t a[n], b[n], c[n], d[n];
    WARP_SIMD
    for (int i = 0; i < n; i++)
        offset[i] = places->row[i] * stride + places->column[i] * channels;
    for (int i = 0; ahead && i < n; i += n / 4)
        prefetch_l2((const char *)((uintptr_t)start + (uintptr_t)(offset[i] + ahead)));
    for (int i = 0; i < n; i++) {
        ASSERT(frame->low[0] <= places->row[i] && places->row[i] + 1 < frame->stop[0]);
        ASSERT(frame->low[1] <= places->column[i] && places->column[i] + 1 < frame->stop[1]);
        above[i] = warp_eight_bytes(start + offset[i]);
        below[i] = warp_eight_bytes(next + offset[i]);
    }
    WARP_SIMD
    for (int i = 0; i < n; i++) {
        a[i] = (uint32_t)above[i];
        b[i] = (uint32_t)(above[i] >> 8 * channels);
        c[i] = (uint32_t)below[i];
        d[i] = (uint32_t)(below[i] >> 8 * channels);
    }
    for (int k = 0; k < channels; k++) {
        WARP_SIMD
        for (int i = 0; i < n; i++) {
            float from = (float)(int32_t)(a[i] >> 8 * k & 255);
            float to = (float)(int32_t)(b[i] >> 8 * k & 255);
            float under = (float)(int32_t)(c[i] >> 8 * k & 255);
            float last = (float)(int32_t)(d[i] >> 8 * k & 255);
            float top = FUSED(to - from, places->x[i], from);
            float bottom = FUSED(last - under, places->x[i], under);
            sums[k * n + i] += FUSED(bottom - top, places->y[i], top);
        }
    }
}

/* Adds samples near an edge, or of a frame that is not dense bytes, one by one.  Pixels of weight 0
   are not read. */
static NOINLINE void warp_add_any(const struct frame *frame, const struct warp *warp, int count,
                                  const struct warp_places *places, float *sums) {
    for (int i = 0; i < count; i++) {
        ptrdiff_t column = places->column[i], row = places->row[i];
        float x = places->x[i], y = places->y[i], corners[4][CROP_CHANNELS];
        for (int j = 0; row != INT32_MIN && j < (y > 0 ? 4 : 2); j++)
            warp_load_pixel(frame, warp, row + j / 2, column + (j % 2 && x > 0), corners[j]);
        for (int k = 0; k < frame->pixels.channels; k++) {
            float sample = warp->pixels.pad[k];
            if (row != INT32_MIN)
                sample = FUSED(corners[1][k] - corners[0][k], x, corners[0][k]);
            if (row != INT32_MIN && y > 0) {
                float below = FUSED(corners[3][k] - corners[2][k], x, corners[2][k]);
                sample = FUSED(below - sample, y, sample);
            }
            sums[k * CROP_COLUMNS + i] += sample;
        }
    }
}

/* Computes `count` output pixels, at most CROP_COLUMNS, of row p from column q on; bytes: whether
   the frame is one for warp_add_bytes. */
static FORCE_INLINE void warp_row(const struct frame *frame, const struct warp *warp, int channels,
                                  int bytes, int32_t p, int32_t q, int count, float *sums) {
    struct warp_places places;
    ptrdiff_t ahead = warp->ahead_y * frame->pixels.stride_y + warp->ahead_x * channels;
    for (int i = 0; i < channels * CROP_COLUMNS; i++)
        sums[i] = -0.0f; /* to which any number can be added unchanged, -0 too */
    for (int j = 0; j < warp->ny; j++)
        for (int i = 0; i < warp->nx; i++) {
            double x = warp->at_x[i], y = warp->at_y[j]; /* in the output pixel */
            int on_line = warp_place(frame, warp, q + x - 0.5, p + y - 0.5, &places);
            if (warp->nearest)
                warp_to_nearest(&places);
            if (!bytes || !warp_is_inside(frame, channels, &places, on_line))
                warp_add_any(frame, warp, count, &places, sums);
            else
                warp_add_bytes(frame, channels, &places, i + j ? 0 : ahead, sums);
        }
}

/* Scales sums and stores them as a part of a row of the output. */
static FORCE_INLINE void warp_store(const struct crop_pixels *pixels,
                                    const struct crop_target *target, int count, const float *sums,
                                    char *to) {
    float line[CROP_CHANNELS * CROP_COLUMNS], run[CROP_COLUMNS];
    int n = target->channels;
    for (int c = 0; c < n; c++) {
        const float *from = sums + c * CROP_COLUMNS;
        float scale = pixels->scale[c], bias = pixels->bias[c];
        ptrdiff_t place = pixels->place[c];
        char *row = to + place * target->stride_c;
        WARP_SIMD
        for (int i = 0; i < CROP_COLUMNS; i++)
            run[i] = FUSED(from[i], scale, bias);
        if (target->interleaved)
            for (int i = 0; i < CROP_COLUMNS; i++)
                line[i * n + place] = run[i];
        else
            crop_store_line(run, count, target, row, target->stride_x);
    }
    if (target->interleaved)
        crop_store_run(line, count * n, target, to);
}

/* Row p of the output, of which warp->low_q to warp->stop_q - 1 show the box. */
static NOINLINE void warp_pixels(const struct frame *frame, const struct warp *warp,
                                 const struct crop_target *target, int32_t p, int32_t width,
                                 char *row) {
    int shown = p >= warp->low_p && p < warp->stop_p && frame->width > 0 && frame->height > 0;
    int bytes = frame->pixels.dense && frame->pixels.kind == BYTE && warp_is_near(frame), count;
    for (int32_t q = 0; q < width; q += count, row += count * target->stride_x) {
        float sums[CROP_CHANNELS * CROP_COLUMNS];
        int inside = q >= warp->low_q && q < warp->stop_q;
        count = (inside ? warp->stop_q : q < warp->low_q ? warp->low_q : width) - q;
        count = count < CROP_COLUMNS ? count : CROP_COLUMNS;
        if (!shown || !inside)
            for (int i = 0; i < CROP_CHANNELS * CROP_COLUMNS; i++)
                sums[i] = warp->pixels.pad[i / CROP_COLUMNS] * (float)(warp->nx * warp->ny);
        else if (frame->pixels.channels == 3)
            warp_row(frame, warp, 3, bytes, p, q, count, sums);
        else if (frame->pixels.channels == 1)
            warp_row(frame, warp, 1, bytes, p, q, count, sums);
        else
            warp_row(frame, warp, frame->pixels.channels, bytes, p, q, count, sums);
        warp_store(&warp->pixels, target, count, sums, row);
    }
}

/* Samples along one axis of an output pixel: as many as the frame moves pixels from one output
   pixel to the next, at the corner of the output where it moves most, to a hundredth. */
static inline int warp_samples(const double *m, int along_y, int height, int width) {
    double most = 1;
    for (int i = 0; i < 4; i++) {
        double q = i & 1 ? width - 1 : 0, p = i & 2 ? height - 1 : 0;
        double w = m[6] * q + m[7] * p + m[8];
        double x = (m[0] * q + m[1] * p + m[2]) / w, y = (m[3] * q + m[4] * p + m[5]) / w;
        double dx = (m[along_y] - x * m[6 + along_y]) / w;
        double dy = (m[3 + along_y] - y * m[6 + along_y]) / w;
        double scale = sqrt(dx * dx + dy * dy);
        if (!(scale < WARP_SAMPLES)) /* or it is not known */
            return WARP_SAMPLES;
        most = scale > most ? scale : most;
    }
    return (int)ceil(most - 0.01);
}

/* The way from the middle of the output to later rows, at the scale of pixels of the frame. */
static inline void warp_set_ahead(struct warp *warp) {
    const double *m = warp->m;
    double q = (warp->low_q + warp->stop_q) / 2.0, p = (warp->low_p + warp->stop_p) / 2.0;
    double w = m[6] * q + m[7] * p + m[8];
    double x = (m[0] * q + m[1] * p + m[2]) / w, y = (m[3] * q + m[4] * p + m[5]) / w;
    double dx = m[1] - x * m[7], dy = m[4] - y * m[7], most = fmax(fabs(dx), fabs(dy));
    int known = most > 0 && fabs(dx) < 1e300 && fabs(dy) < 1e300;
    warp->ahead_x = known ? (int32_t)(WARP_AHEAD * dx / most) : 0;
    warp->ahead_y = known ? (int32_t)(WARP_AHEAD * dy / most) : 0;
}

/* The pixels [low, stop) of a frame, along y and x, that a warp may read: also for the columns that
   complete the last run of a row.  They are all where a corner lies behind the horizon. */
static NOINLINE void warp_hull(const struct warp *warp, const struct frame *frame, int32_t *low,
                               int32_t *stop) {
    const double *m = warp->m, far = 1e15;
    int columns = (warp->stop_q - warp->low_q + CROP_COLUMNS - 1) / CROP_COLUMNS * CROP_COLUMNS;
    for (int axis = 0; axis < 2; axis++) {
        const double *row = axis ? m : m + 3;
        double extent = axis ? frame->width : frame->height, least = far, most = -far;
        for (int i = 0; i < 4; i++) {
            double q = warp->low_q + (i & 1 ? columns : 0) - 0.5;
            double p = (i & 2 ? warp->stop_p : warp->low_p) - 0.5;
            double w = m[6] * q + m[7] * p + m[8], at = (row[0] * q + row[1] * p + row[2]) / w;
            int known = w > 0 && fabs(at) < far;
            least = known ? fmin(least, at) : -far;
            most = known ? fmax(most, at) : far;
            if (!known)
                break;
        }
        low[axis] = (int32_t)crop_within(floor(least) - 1, 0, extent - 1);
        stop[axis] = (int32_t)crop_within(ceil(most) + 2, low[axis] + 1, extent);
    }
}

/* Sets how an output is sampled whose pixels from shown[0], shown[1] to shown[2], shown[3], along y
   and x, show the box. */
static NOINLINE void warp_set(struct warp *warp, const double *m, const int32_t *shown, int rule,
                              int repeats, const struct crop_pixels *pixels) {
    memset(warp, 0, sizeof *warp);
    memcpy(warp->m, m, sizeof warp->m);
    warp->low_p = shown[0], warp->low_q = shown[1];
    warp->stop_p = shown[2], warp->stop_q = shown[3];
    warp->nx = rule == CROP_AREAS ? warp_samples(m, 0, shown[2], shown[3]) : 1;
    warp->ny = rule == CROP_AREAS ? warp_samples(m, 1, shown[2], shown[3]) : 1;
    warp->projective = m[6] != 0 || m[7] != 0 || m[8] != 1;
    warp->repeats = repeats;
    warp->nearest = rule == CROP_NEAREST;
    for (int i = 0; i < WARP_SAMPLES; i++) {
        warp->at_x[i] = (i + 0.5) / warp->nx;
        warp->at_y[i] = (i + 0.5) / warp->ny;
    }
    warp->pixels = *pixels;
    for (int c = 0; c < pixels->channels; c++)
        warp->pixels.scale[c] /= (float)(warp->nx * warp->ny);
    warp_set_ahead(warp);
}

#endif
