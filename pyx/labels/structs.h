/* What a call of label_map is: the structs that C and Cython share. */
#ifndef ROICY_LABELS_STRUCTS_H
#define ROICY_LABELS_STRUCTS_H

#include "simd/structs.h"

/* Where pixels lie among numbers: as in PyTorch's interpolate without align_corners, with it, and
   with mode "nearest"; and as in ONNX Runtime's Resize of these coordinates. */
enum { HALF_PIXELS, ALIGNED, NEAREST, ONNX_HALF_PIXELS, ONNX_ALIGNED, ONNX_ASYMMETRIC };

/* Which number is nearest, as Resize has it.  0: pixels lie between numbers. */
enum { ROUND_PREFER_FLOOR = 1, ROUND_PREFER_CEIL, ROUND_DOWN, ROUND_UP };

enum {
    LABELS_TILE = 1 << 19, /* bytes of numbers that a thread keeps, unless there are many classes */
    LABELS_PAD = 16,       /* pixels of an axis that may be computed beyond its last one */
    LABELS_DENSE = 4,      /* pixels of a cell: all values are computed of smaller ones (R505) */
    LABELS_ONNX_DENSE = 5, /* the same of ONNX Runtime's values, of two numbers an axis */
    LABELS_MASK_DENSE = 40, /* the same of masks of these */
    LABELS_ROWS = 4         /* rows of a cell that are computed together */
};

/* One axis.  Pixel i lies between numbers at[i] and at[i] + 1, or on the last one, which then
   counts twice.  Pixels begin[c] to begin[c + 1] - 1 lie on number low + c, and after it. */
struct labels_axis {
    ptrdiff_t pixels;
    double first, extent;           /* of the numbers that pixels show */
    int rule;                       /* of the enum above */
    double scale;                   /* pixels for a number, of ONNX's rules */
    int nearest;                    /* of these rules, of the enum above */
    int32_t low, last;              /* the numbers that are there */
    int single;                     /* all high weights are 0: one number is read for a pixel */
    int kept;                       /* and pixels are numbers, one by one */
    int32_t *at;                    /* [pixels], and LABELS_PAD more are read in vain */
    int32_t *begin;                 /* [last - low + 2] */
    void *low_weight, *high_weight; /* REAL, [pixels + LABELS_PAD] */
};

/* A call.  Strides are bytes. */
struct labels {
    const char *maps;
    ptrdiff_t image, class_stride, row, column; /* strides of the maps */
    int kind;                                   /* NumPy's character of their type */
    double scale, zero; /* an integer means (integer - zero) * scale; both are of type REAL */
    ptrdiff_t classes;
    struct labels_axis y, x;
    const struct labels_axis *before; /* [2], y and x: of an enlargement before this one; or NULL */
    int mixed;               /* numbers are those of two slices of a volume, times their weights */
    ptrdiff_t beside;        /* from a number to that of the second slice */
    double slice_weights[2]; /* of type REAL */
    const void *weights;     /* REAL, [classes], 0 to 1: what enlarged numbers are multiplied by */
    const int64_t *names; /* [classes + 1]: labels of classes, and of what is below the threshold */
    int bounded;          /* there is a threshold */
    double threshold;     /* a REAL, in quanta if there are some */
    int onnx;             /* values and NaN as of ONNX Runtime: onnx.inc.h */
    double quantum, least, most; /* of ONNX's: values are compared as whole numbers of quanta, from
                                    least to most; 0: as they are */
    int transparent;             /* what is below it is not written */
    double *sums; /* [image][y]: to which values that are not below are added; or NULL */
    char *out;
    ptrdiff_t out_image, out_row, out_column;
    int itemsize;            /* of labels */
    void *values;            /* REAL, [image][y][x], of winners; or NULL */
    int dense;               /* all values are computed */
    ptrdiff_t cells, stride; /* cells of a row, or pixels, that a tile holds; from class to class
                                in it */
};

/* Pixels of an image. */
struct labels_part {
    ptrdiff_t image, y0, y1, x0, x1;
};

/* Rows of all maps that a tile holds. */
static inline int labels_rows(const struct labels *job) { return job->before || job->onnx ? 4 : 2; }

/* Sets the size of tiles, and whether all values are computed. */
static inline void labels_set_tile(struct labels *job, ptrdiff_t size) {
    const ptrdiff_t lanes = LANE_BYTES / size, width = job->x.pixels, height = job->y.pixels;
    const ptrdiff_t all = job->x.at[width - 1] - job->x.at[0] + 1;
    const ptrdiff_t rows = job->y.at[height - 1] - job->y.at[0] + 1;
    ptrdiff_t room = LABELS_TILE / (size * job->classes * labels_rows(job));
    room = room > lanes ? room / lanes * lanes : lanes;
    job->cells = room < all ? room : all;
    const double pixels = (double)width / all * height / rows; /* of a cell */
    job->dense = job->values || job->sums || pixels < LABELS_DENSE;
    if (job->onnx)
        job->dense = pixels < (job->bounded    ? LABELS_MASK_DENSE
                               : job->x.single ? LABELS_DENSE
                                               : LABELS_ONNX_DENSE);
    if (job->dense) { /* the numbers of so many pixels are a few more */
        room = all > width ? room / (all / width + 1) : room;
        job->cells = room < width ? room > 0 ? room : 1 : width;
        room = job->cells * (all / width + 1) + 2;
        job->stride = (room + lanes - 1) / lanes * lanes + lanes;
        return;
    }
    /* With few columns each class takes as little as its last cell needs. */
    job->stride = job->cells > lanes ? (job->cells + lanes - 1) / lanes * lanes + lanes : lanes + 1;
}

/* Bytes of scratch of a thread. */
static inline ptrdiff_t labels_scratch(const struct labels *job, ptrdiff_t size) {
    const ptrdiff_t rows = labels_rows(job);
    return size * (job->classes * (rows * job->stride + 4) + 4 * job->stride) +
           (ptrdiff_t)sizeof(int32_t) * (job->classes + job->stride);
}

/* The functions of this room that are compiled for each instruction set (table/fill.h). */
struct label_table {
    /* cells.inc.h, race.inc.h */
    void (*labels_axis)(struct labels_axis *axis, ptrdiff_t from, ptrdiff_t to);
    void (*label_pixels)(const struct labels *job, const struct labels_part *part, void *memory);
};

#endif
