/* Areas, boxes and run-length codes of the labels of a picture. */
#ifndef ROICY_LABELS_REGIONS_H
#define ROICY_LABELS_REGIONS_H

#include "images/runs.h"
#include "labels/structs.h"

/* The pixels of a label, [x0, x1) x [y0, y1) around them. */
struct labels_region {
    int64_t area, x0, y0, x1, y1;
};

enum { LABELS_TOGETHER = 8 }; /* columns whose labels are compared at once */

static inline uint64_t labels_get(const struct labels *job, const char *from) {
    if (job->itemsize == 1)
        return *(const uint8_t *)from;
    if (job->itemsize == 2)
        return *(const uint16_t *)from;
    if (job->itemsize == 4)
        return *(const uint32_t *)from;
    return *(const uint64_t *)from;
}

/* Returns where a run of equal labels ends that begins at pixel x of a row. */
static inline ptrdiff_t labels_run(const struct labels *job, const char *row, ptrdiff_t x) {
    const ptrdiff_t step = job->out_column, width = job->x.pixels;
    const uint64_t label = labels_get(job, row + x * step);
    if (step == 1) {
        const uint64_t equal = label * UINT64_C(0x0101010101010101);
        for (uint64_t eight; x + 8 <= width; x += 8) {
            memcpy(&eight, row + x, 8);
            if (eight != equal)
                break;
        }
    }
    while (x < width && labels_get(job, row + x * step) == label)
        x++;
    return x;
}

/* Adds the pixels of some rows of an image to the regions of their labels. */
static NOINLINE void regions_add_rows(const struct labels *job, ptrdiff_t image, ptrdiff_t first,
                                      ptrdiff_t stop, struct labels_region *regions) {
    for (ptrdiff_t y = first; y < stop; y++) {
        const char *row = job->out + image * job->out_image + y * job->out_row;
        for (ptrdiff_t x = 0, next; x < job->x.pixels; x = next) {
            struct labels_region *region = regions + labels_get(job, row + x * job->out_column);
            next = labels_run(job, row, x);
            if (!region->area || x < region->x0)
                region->x0 = x;
            if (!region->area)
                region->y0 = y;
            if (next > region->x1)
                region->x1 = next;
            region->y1 = y + 1;
            region->area += next - x;
        }
    }
}

/* Adds regions of rows below to those of rows above. */
static inline void regions_join(struct labels_region *to, const struct labels_region *below) {
    if (!to->area) {
        *to = *below;
    } else if (below->area) {
        to->area += below->area;
        to->x0 = below->x0 < to->x0 ? below->x0 : to->x0;
        to->x1 = below->x1 > to->x1 ? below->x1 : to->x1;
        to->y1 = below->y1;
    }
}

/* The codes of the labels of an image.  A label has the code that `place` says. */
struct labels_codes {
    const int32_t *place;
    struct runs *runs;
    int64_t *ends; /* where each code ends so far, in pixels down the columns */
    int32_t *rows; /* [column][changes]: where labels change in some columns */
};

/* Adds the runs of a column; rows: where its labels change. */
static inline void codes_add_column(const struct labels *job, ptrdiff_t image, ptrdiff_t x,
                                    const int32_t *rows, ptrdiff_t changes,
                                    const struct labels_codes *codes) {
    const int64_t first = (int64_t)x * job->y.pixels;
    const char *column = job->out + image * job->out_image + x * job->out_column;
    int64_t y = 0;
    for (ptrdiff_t i = 0; i <= changes; i++) {
        const int64_t stop = i < changes ? rows[i] : job->y.pixels;
        const int32_t place = codes->place[labels_get(job, column + y * job->out_row)];
        runs_add(codes->runs + place, 0, first + y - codes->ends[place]);
        runs_add(codes->runs + place, 1, stop - y);
        codes->ends[place] = first + stop;
        y = stop;
    }
}

/* Whether labels of two rows differ, of pixels of `size` bytes together. */
static FORCE_INLINE int codes_differ(const char *above, const char *below, size_t size) {
    uint64_t a, b;
    if (size != sizeof a)
        return memcmp(above, below, size) != 0;
    memcpy(&a, above, sizeof a);
    memcpy(&b, below, sizeof b);
    return a != b;
}

/* Makes the codes of an image, of which `count` labels are there. */
static NOINLINE void codes_make(const struct labels *job, ptrdiff_t image, int32_t count,
                                const struct labels_codes *codes) {
    const ptrdiff_t height = job->y.pixels, width = job->x.pixels, size = job->itemsize;
    ptrdiff_t now = 1;
    for (ptrdiff_t x = 0; x < width; x += now) {
        const char *at = job->out + image * job->out_image + x * job->out_column;
        ptrdiff_t changes[LABELS_TOGETHER] = {0};
        now = job->out_column == size ? LABELS_TOGETHER / size : 1;
        now = now < width - x ? now : 1;
        for (ptrdiff_t y = 1; y < height; y++, at += job->out_row)
            if (codes_differ(at, at + job->out_row, (size_t)(now * size)))
                for (ptrdiff_t i = 0; i < now; i++)
                    if (labels_get(job, at + i * job->out_column) !=
                        labels_get(job, at + i * job->out_column + job->out_row))
                        codes->rows[i * height + changes[i]++] = (int32_t)y;
        for (ptrdiff_t i = 0; i < now; i++)
            codes_add_column(job, image, x + i, codes->rows + i * height, changes[i], codes);
    }
    for (int32_t i = 0; i < count; i++) {
        runs_add(codes->runs + i, 0, (int64_t)height * width - codes->ends[i]);
        runs_end(codes->runs + i);
    }
}

#endif
