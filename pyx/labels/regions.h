/* Areas, boxes and run-length codes of the labels of a picture. */
#ifndef ROICY_LABELS_REGIONS_H
#define ROICY_LABELS_REGIONS_H

#include "images/runs.h"
#include "labels/structs.h"

/* The pixels of a label, [x0, x1) x [y0, y1) around them. */
struct labels_region {
    int64_t area, x0, y0, x1, y1;
};

enum { LABELS_TOGETHER = 32 }; /* bytes of a row that are compared at once with those below */

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
    const ptrdiff_t stride = job->out_column, width = job->x.pixels;
    const uint64_t label = labels_get(job, row + x * stride);
    if (stride == 1) {
        const uint64_t equal = label * UINT64_C(0x0101010101010101);
        for (uint64_t eight; x + 8 <= width; x += 8) {
            memcpy(&eight, row + x, 8);
            if (eight != equal)
                break;
        }
    }
    while (x < width && labels_get(job, row + x * stride) == label)
        x++;
    return x;
}

/* Adds whole rows of an image to the regions of their labels. */
static NOINLINE void regions_add_rows(const struct labels *job, const struct labels_part *part,
                                      struct labels_region *regions) {
    for (ptrdiff_t y = part->y0; y < part->y1; y++) {
        const char *row = job->out + part->image * job->out_image + y * job->out_row;
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

/* The codes of the labels of an image. */
struct labels_codes {
    int32_t count;
    struct runs *runs; /* [count] */
    int64_t *ends;     /* [count]: where each code ends so far, in pixels down the columns */
    int32_t *rows;     /* [column][change]: where labels change in some columns */
    int masks;         /* there is one label, of all pixels that are not 0 */
    struct labels_region *regions; /* [count], of masks, or NULL */
};

/* Returns eight bytes, each of them 128 where it is not 0. */
static inline uint64_t labels_set_bytes(uint64_t bytes) {
    const uint64_t seven = UINT64_C(0x7f7f7f7f7f7f7f7f);
    return (((bytes & seven) + seven) | bytes) & ~seven;
}

/* Adds the runs of a column of a mask, and its pixels to the region; rows: where it changes. */
static inline void codes_add_mask(int value, ptrdiff_t x, ptrdiff_t height, ptrdiff_t changes,
                                  const int32_t *rows, const struct labels_codes *codes) {
    struct labels_region *region = codes->regions;
    int64_t area = 0;
    runs_add_changes(codes->runs, value, rows, changes, height);
    if (!region || (!value && !changes))
        return;
    for (ptrdiff_t i = !value; i <= changes; i += 2)
        area += (i < changes ? rows[i] : height) - (i ? rows[i - 1] : 0);
    const int64_t first = value ? 0 : rows[0];
    const int64_t stop = (changes + value) & 1 ? height : rows[changes - 1];
    if (!region->area) {
        region->x0 = x;
        region->y0 = first;
    }
    region->x1 = x + 1;
    region->y0 = first < region->y0 ? first : region->y0;
    region->y1 = stop > region->y1 ? stop : region->y1;
    region->area += area;
}

/* Adds the runs of a column; rows: where its labels change. */
static inline void codes_add_column(const struct labels *job, const char *column, int64_t first,
                                    ptrdiff_t changes, const int32_t *rows,
                                    const struct labels_codes *codes) {
    int64_t y = 0;
    if (codes->masks) {
        const ptrdiff_t height = job->y.pixels;
        codes_add_mask(labels_get(job, column) != 0, (ptrdiff_t)(first / height), height, changes,
                       rows, codes);
        return;
    }
    for (ptrdiff_t i = 0; i <= changes; i++) {
        const int64_t stop = i < changes ? rows[i] : job->y.pixels;
        const int64_t label = (int64_t)labels_get(job, column + y * job->out_row);
        runs_add(codes->runs + label, 0, first + y - codes->ends[label]);
        runs_add(codes->runs + label, 1, stop - y);
        codes->ends[label] = first + stop;
        y = stop;
    }
}

/* Finds in which rows labels change, of some columns that are LABELS_TOGETHER bytes wide. */
static NOINLINE void codes_compare(const struct labels *job, const char *at, int masks,
                                   int32_t *rows, ptrdiff_t *changes) {
    const ptrdiff_t size = job->itemsize, height = job->y.pixels, each = 8 / size;
    const uint64_t element = ~UINT64_C(0) >> (64 - 8 * size);
    for (ptrdiff_t y = 1; y < height; y++, at += job->out_row) {
        uint64_t above[LABELS_TOGETHER / 8], below[LABELS_TOGETHER / 8], differ = 0;
        memcpy(above, at, sizeof above);
        memcpy(below, at + job->out_row, sizeof below);
        for (int j = 0; j < LABELS_TOGETHER / 8; j++)
            differ |= above[j] ^ below[j];
        for (int j = 0; differ && j < LABELS_TOGETHER / 8; j++) {
            uint64_t changed = masks ? labels_set_bytes(above[j]) ^ labels_set_bytes(below[j])
                                     : above[j] ^ below[j];
            while (changed) { /* the first byte is the lowest */
                const ptrdiff_t i = __builtin_ctzll(changed) / 8 / size;
                changed &= ~(element << 8 * size * i);
                rows[(j * each + i) * height + changes[j * each + i]++] = (int32_t)y;
            }
        }
    }
}

/* Finds in which rows a column changes whose pixels lie apart, or are bytes that lie together. */
static NOINLINE ptrdiff_t codes_look(const struct labels *job, const char *at, int masks,
                                     int32_t *rows) {
    const ptrdiff_t height = job->y.pixels, row = job->out_row;
    ptrdiff_t changes = 0, y = 1;
    for (; masks && row == 1 && y + 8 <= height; y += 8) {
        uint64_t above, below;
        memcpy(&above, at + y - 1, 8);
        memcpy(&below, at + y, 8);
        above = labels_set_bytes(above) ^ labels_set_bytes(below);
        for (; above; above &= above - 1)
            rows[changes++] = (int32_t)(y + __builtin_ctzll(above) / 8);
    }
    for (; y < height; y++) {
        const uint64_t above = labels_get(job, at + (y - 1) * row);
        const uint64_t below = labels_get(job, at + y * row);
        if (masks ? !above != !below : above != below)
            rows[changes++] = (int32_t)y;
    }
    return changes;
}

/* Adds columns x0 to x1 - 1 of an image to its codes, and ends them with the last one. */
static NOINLINE void codes_add(const struct labels *job, const struct labels_part *part,
                               const struct labels_codes *codes) {
    const ptrdiff_t height = job->y.pixels, width = job->x.pixels, size = job->itemsize;
    const ptrdiff_t most = job->out_column == size ? LABELS_TOGETHER / size : 1;
    for (ptrdiff_t x = part->x0, now; x < part->x1; x += now) {
        const char *at = job->out + part->image * job->out_image + x * job->out_column;
        ptrdiff_t changes[LABELS_TOGETHER] = {0};
        now = most <= part->x1 - x ? most : 1;
        if (now > 1)
            codes_compare(job, at, codes->masks, codes->rows, changes);
        else
            changes[0] = codes_look(job, at, codes->masks, codes->rows);
        for (ptrdiff_t i = 0; i < now; i++)
            codes_add_column(job, at + i * job->out_column, (int64_t)(x + i) * height, changes[i],
                             codes->rows + i * height, codes);
    }
    for (int32_t i = 0; i < codes->count && part->x1 == width; i++)
        if (codes->ends[i] || codes->masks) { /* labels that are there, or masks */
            runs_add(codes->runs + i, 0,
                     codes->masks ? 0 : (int64_t)height * width - codes->ends[i]);
            runs_end(codes->runs + i);
        }
}

#endif
