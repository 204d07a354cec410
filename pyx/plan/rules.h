/* Where the bins of one axis of a box lie, and which pixels they weigh: one bin at a time.

   Every operator cuts a box into PH x PW bins and weighs the pixels of a bin by (weight in y) x
   (weight in x), so that the two axes of a box are independent of each other.  A pixel that a bin
   does not read has no tap, so that a NaN there cannot reach the bin.

   C and CUDA C++ both compile this file and the rules_*.h that follow it, once for each REAL, which
   is float or double; without REAL they only declare types.  Whoever includes them defines
       RULE_FN                              static inline, and what else functions need
       NAME(f)                              the name of function f for this REAL
       RULE_STORE_TAP(out, i, pixel, weight)  writes tap i of a struct taps_out
       PLANTED(name)                        whether a fault is wanted, as simd/memory.h has it
       RULE_NUMBER                          the type of arrays of boxes, if it is not REAL
   and no header is included here, since CUDA's run-time compiler has none: C needs <math.h>.

   Positions are computed in REAL, in the order written here, and compiled without contraction into
   fused multiply-adds: the number of samples of a bin, and which of them lie on the map, then agree
   bit for bit with torchvision's.  Weights are summed in double. */
#ifndef ROICY_RULES
#define ROICY_RULES

/* The kinds of rules, with the names that roicy/_table.py has for them. */
#define RULE_KINDS(KIND)                                                                           \
    KIND(SAMPLED, sampled)       /* the mean of bilinear samples (roi_align, ps_roi_align) */      \
    KIND(INTEGRATED, integrated) /* the exact mean of the bilinear surface (prroi_pool) */         \
    KIND(UNIFORM, uniform)       /* the mean of whole pixels, from floor to ceil (ps_roi_pool) */  \
    KIND(ROUNDED, rounded)       /* the same of corners that are rounded and then scaled */        \
    KIND(QUANTISED, quantised)   /* whole pixels without weights (roi_pool) */                     \
    KIND(SINGLE_SAMPLES, single_samples) /* bilinear samples one by one (roi_align_max) */         \
    KIND(ROTATED, rotated)               /* the mean of bilinear samples of turned boxes */        \
    KIND(BILINEAR, bilinear) /* one bilinear sample a bin, the outer ones at corners of the box */ \
    KIND(NEAREST, nearest)   /* as BILINEAR, the pixel nearest to it (crop_and_resize) */
#define RULE_KIND(kind, name) RULE_##kind,
enum rule_kind { RULE_KINDS(RULE_KIND) RULE_COUNT };

/* The fields of a rule, each an int or a double, which is 0 unless a call sets it.  Calls compare
   them, and the GPU takes the struct as it is. */
#define RULE_FIELDS(FIELD)                                                                         \
    FIELD(int, kind)                                                                               \
    FIELD(int, sampling_ratio) /* samples per bin and axis; 0 or less: ceil(size of a bin) */      \
    FIELD(int, aligned)   /* samples: coordinates are moved by half a pixel, and small boxes */    \
                          /* keep their size, where others are one pixel wide and high */          \
    FIELD(int, inclusive) /* whole pixels: that of the second corner belongs to the box */         \
    FIELD(int, ends_on_corner) /* one sample a bin: the last lies on the second corner, */         \
                               /* however sizes of bins round */                                   \
    FIELD(int, clockwise)      /* turned boxes: angles are clockwise, where y points down */
#define RULE_FIELD(type, name) type name;
struct rule {
    RULE_FIELDS(RULE_FIELD)
};

/* One axis of one box, in pixels of the map.  All doubles but scale hold numbers of type REAL. */
struct box_axis {
    double low;
    double size;
    double bin_size;
    double first_sample; /* how far the first sample of a bin lies from the bin's start */
    double last_sample;  /* the same of its last; by rules of one sample a bin, where it lies */
    double scale;
    long long grid; /* samples of a bin; 0 where an inverted box has none */
    int bins;
    int extent;  /* of the map */
    int clamped; /* the size was raised to 1, so that it depends on no edge */
    struct rule rule;
};

/* Where taps are written.  slope_low and slope_high are NULL where slopes are not wanted. */
struct taps_out {
    long long count; /* no tap is of this type, so that compilers may keep it in a register */
    int *pixel;
    void *weight; /* REAL, as are the slopes: derivatives by either edge of the box */
    void *slope_low;
    void *slope_high;
};

/* Sums over samples.  A tap is their mean. */
struct tap_sum {
    double weight, slope_low, slope_high;
};

/* Samples of a bin, up to stop - 1, that lie between the same two pixels. */
struct sample_run {
    long long stop;
    int pixel; /* at or before them */
    double count;
    double fraction; /* how far they are from the pixel, summed */
    double moving;   /* how many change weights as the box moves: none past the outer pixels */
};

/* Grids of boxes past 2**62 pixels a bin would not fit the sample counter: they stop here. */
#define RULE_MAX_GRID 4.0e18
/* Whole pixels: coordinates that no pixel index could hold are moved to this distance. */
#define RULE_FAR 1.0e15
/* Corners that are rounded before they are scaled: so far off the map that sides stay finite. */
#define RULE_HUGE 1.0e38
/* The fewest samples of a bin that are summed pixel by pixel, and not one by one. */
#define RULE_MIN_DENSE 65

#ifndef RULE_NUMBER
#define RULE_NUMBER REAL
#endif

#endif

#ifdef REAL
/* From here on for each REAL: NAME(f) is f_float or f_double, as plan/rules.pxd has it. */

RULE_FN double NAME(rule_min)(double a, double b) { return b < a ? b : a; }
RULE_FN double NAME(rule_max)(double a, double b) { return b > a ? b : a; }
RULE_FN double NAME(within)(double v, double low, double high) {
    return NAME(rule_min)(NAME(rule_max)(v, low), high);
}

/* Writes a tap, and its slopes where they are wanted. */
RULE_FN void NAME(put_tap)(struct taps_out *out, int pixel, double weight, double slope_low,
                           double slope_high) {
    RULE_STORE_TAP(out, out->count, pixel, (REAL)weight);
    if (out->slope_low) {
        ((REAL *)out->slope_low)[out->count] = (REAL)slope_low;
        ((REAL *)out->slope_high)[out->count] = (REAL)slope_high;
    }
    out->count++;
}

/* How far sample s of a bin lies from the start of the bin.  Samples ascend also where bins run
   backwards. */
RULE_FN REAL NAME(within_bin)(const struct box_axis *axis, long long s) {
    REAL bin_size = (REAL)axis->bin_size;
    if (bin_size < 0)
        s = axis->grid - 1 - s;
    return ((REAL)s + (REAL)0.5) * bin_size / (REAL)axis->grid;
}

/* The grid of samples of every bin: at most `most` where the size of a bin decides. */
RULE_FN void NAME(place_samples)(struct box_axis *axis, double most) {
    double wanted = axis->rule.sampling_ratio;
    if (axis->rule.sampling_ratio <= 0)
        wanted = NAME(rule_min)(ceil(axis->bin_size), most);
    axis->grid = wanted > 0 ? (long long)wanted : 0; /* 0 of NaN too, which the GPU may meet */
    axis->first_sample = NAME(within_bin)(axis, 0);
    axis->last_sample = NAME(within_bin)(axis, axis->grid - 1);
}

RULE_FN REAL NAME(bin_start)(const struct box_axis *axis, int p) {
    return (REAL)axis->low + (REAL)p * (REAL)axis->bin_size;
}

/* The axis of a box from edge low to edge high, in coordinates of the image. */
RULE_FN void NAME(make_axis)(struct box_axis *axis, const struct rule *rule, double scale, int bins,
                             int extent, REAL low, REAL high) {
    REAL s = (REAL)scale, start, end, size;
    axis->rule = *rule;
    axis->clamped = 0;
    if (rule->kind == RULE_UNIFORM || rule->kind == RULE_QUANTISED) {
        start = (REAL)NAME(within)(round((double)(low * s)), -RULE_FAR, RULE_FAR);
        end = (REAL)NAME(within)(round((double)(high * s)), -RULE_FAR, RULE_FAR);
        size = (REAL)NAME(rule_max)((double)end - (double)start + rule->inclusive, 1.0);
    } else if (rule->kind == RULE_ROUNDED) {
        start = (REAL)NAME(within)((REAL)round((double)low) * s, -RULE_HUGE, RULE_HUGE);
        end = (REAL)NAME(within)((REAL)(round((double)high) + 1) * s, -RULE_HUGE, RULE_HUGE);
        size = (REAL)NAME(rule_max)(end - start, (REAL)0.1);
    } else if (rule->kind == RULE_BILINEAR || rule->kind == RULE_NEAREST) {
        s = (REAL)(extent - 1); /* coordinates are parts of the map, from centre to centre */
        scale = s;
        start = bins > 1 ? low * s : (REAL)0.5 * (low + high) * s;
        size = (high - low) * s;
    } else { /* samples and integrals: nothing is rounded */
        REAL offset = rule->aligned ? (REAL)0.5 : (REAL)0;
        start = low * s - offset;
        end = high * s - offset;
        size = end - start;
        if (!rule->aligned && rule->kind != RULE_INTEGRATED && size < 1) {
            size = 1;
            axis->clamped = 1;
        }
    }
    axis->low = start;
    axis->size = size;
    axis->bin_size = size / (REAL)bins;
    axis->scale = scale;
    axis->bins = bins;
    axis->extent = extent;
    axis->grid = 0;
    axis->first_sample = axis->last_sample = 0;
    if (rule->kind == RULE_SAMPLED || rule->kind == RULE_SINGLE_SAMPLES) {
        NAME(place_samples)(axis, RULE_MAX_GRID);
    } else if (rule->kind == RULE_BILINEAR || rule->kind == RULE_NEAREST) {
        axis->bin_size = size / (REAL)(bins > 1 ? bins - 1 : 1);
        axis->last_sample = NAME(bin_start)(axis, bins - 1);
        if (rule->ends_on_corner && bins > 1)
            axis->last_sample = high * s;
    }
}

/* Position of sample s of a bin.  Most bins only have a first and a last sample, both known. */
RULE_FN REAL NAME(sample)(const struct box_axis *axis, REAL start, long long s) {
    if (s == 0)
        return start + (REAL)axis->first_sample;
    if (s == axis->grid - 1)
        return start + (REAL)axis->last_sample;
    return start + NAME(within_bin)(axis, s);
}

/* The first of samples low to high - 1 that is at bound or more (above: beyond it), else high. */
RULE_FN long long NAME(find_sample)(const struct box_axis *axis, REAL start, long long low,
                                    long long high, double bound, int above) {
    while (low < high) {
        long long middle = low + (high - low) / 2;
        double v = NAME(sample)(axis, start, middle);
        if (v > bound || (v == bound && !above))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Samples first to stop - 1 of a bin lie in [low, high]. */
RULE_FN void NAME(samples_between)(const struct box_axis *axis, REAL start, double low, double high,
                                   long long *first, long long *stop) {
    *first = 0;
    *stop = axis->grid;
    if (axis->grid <= 0)
        return;
    if (NAME(sample)(axis, start, 0) < low)
        *first = NAME(find_sample)(axis, start, 0, axis->grid, low, 0);
    if (*first < *stop && NAME(sample)(axis, start, *stop - 1) > high)
        *stop = NAME(find_sample)(axis, start, *first, axis->grid, high, 1);
}

/* Samples first to stop - 1 of a bin lie on the map, in [-1, extent]. */
RULE_FN void NAME(samples_on_map)(const struct box_axis *axis, REAL start, long long *first,
                                  long long *stop) {
    const double low = PLANTED("samples before the map are left out") ? 0 : -1;
    NAME(samples_between)(axis, start, low, axis->extent, first, stop);
}

RULE_FN long long NAME(sample_count)(const struct box_axis *axis, int p) {
    long long first, stop;
    NAME(samples_on_map)(axis, NAME(bin_start)(axis, p), &first, &stop);
    return stop - first;
}

/* The samples from s on, of those up to stop - 1, that are summed at once: where they are dense,
   all that lie between the same two pixels, and else only s.  They are dense if there are many to a
   pixel, or if coordinates are so coarse that many round to one position, as of a box of 1e30. */
RULE_FN struct sample_run NAME(sample_run)(const struct box_axis *axis, REAL start, long long s,
                                           long long stop, int dense) {
    struct sample_run run;
    double v = NAME(sample)(axis, start, s), last = axis->extent - 1;
    run.stop = s + 1;
    if (dense && v >= last && v > 0)
        run.stop = stop;
    else if (dense)
        run.stop = NAME(find_sample)(axis, start, s + 1, stop,
                                     v <= 0 ? 0 : NAME(rule_min)(floor(v) + 1, last), v <= 0);
    run.count = (double)(run.stop - s);
    run.fraction = run.moving = 0;
    if (v <= 0) {
        run.pixel = 0;
    } else if (v >= last) {
        run.pixel = axis->extent - 1;
    } else {
        run.pixel = (int)v;
        if (run.stop > s + 1) /* they are an arithmetic progression */
            v = 0.5 * (v + NAME(sample)(axis, start, run.stop - 1));
        run.fraction = run.count * (v - run.pixel);
        run.moving = run.count;
    }
    return run;
}

/* Adds the slopes of samples first to run->stop - 1 of bin p.  When an edge of the box moves, a
   sample moves along, the more the nearer it is to that edge. */
RULE_FN void NAME(add_run_slopes)(const struct box_axis *axis, int p, long long first,
                                  const struct sample_run *run, struct tap_sum *here,
                                  struct tap_sum *right) {
    double r = ((double)(first + run->stop) / 2) / (double)axis->grid, by_low, by_high;
    r = (p + (axis->bin_size < 0 ? 1 - r : r)) / axis->bins; /* 0 at the low edge, 1 at the high */
    if (axis->clamped)
        r = 0;
    by_low = run->moving * (1 - r) * axis->scale;
    by_high = run->moving * r * axis->scale;
    here->slope_low -= by_low;
    here->slope_high -= by_high;
    right->slope_low += by_low;
    right->slope_high += by_high;
}

RULE_FN void NAME(put_mean)(struct taps_out *out, int pixel, const struct tap_sum *sum, double n) {
    NAME(put_tap)(out, pixel, sum->weight / n, sum->slope_low / n, sum->slope_high / n);
}

/* The mean of the samples of bin p.  A sample beyond [-1, extent] weighs nothing, but counts; one
   in [-1, 0] lies on pixel 0, and one from extent - 1 on lies on the last pixel.  Samples off the
   map are not visited, and many samples to a pixel are summed at once, so that the work is bounded
   by the pixels. */
RULE_FN void NAME(sampled_bin)(const struct box_axis *axis, int p, struct taps_out *out) {
    const struct tap_sum none = {0, 0, 0};
    struct tap_sum here = none, right = none; /* sums of pixel `at` and of the one after it */
    REAL start = NAME(bin_start)(axis, p);
    int at = -1, last = axis->extent - 1, dense;
    double n = (double)axis->grid;
    long long s, stop;
    NAME(samples_on_map)(axis, start, &s, &stop);
    if (s >= stop)
        return;
    dense = stop - s >= RULE_MIN_DENSE &&
            stop - s > 2 * (NAME(sample)(axis, start, stop - 1) - NAME(sample)(axis, start, s) + 1);
    while (s < stop) {
        struct sample_run run = NAME(sample_run)(axis, start, s, stop, dense);
        if (run.pixel != at) {
            if (at >= 0)
                NAME(put_mean)(out, at, &here, n);
            if (at >= 0 && run.pixel != at + 1 && at < last) {
                NAME(put_mean)(out, at + 1, &right, n);
                right = none;
            }
            here = right;
            right = none;
            at = run.pixel;
        }
        here.weight += run.count - run.fraction;
        right.weight += run.fraction;
        if (out->slope_low)
            NAME(add_run_slopes)(axis, p, s, &run, &here, &right);
        s = run.stop;
    }
    NAME(put_mean)(out, at, &here, n);
    if (at < last)
        NAME(put_mean)(out, at + 1, &right, n);
}

/* The pixel at or before position v, which is moved onto the map, and how far v is from it. */
RULE_FN int NAME(pixel_before)(REAL v, int extent, double *fraction) {
    double at = NAME(within)((double)v, 0.0, extent - 1);
    *fraction = at - (int)at;
    return (int)at;
}

/* The pixel at or before sample s of a bin, and how far the sample is from it. */
RULE_FN int NAME(sample_pixel)(const struct box_axis *axis, REAL start, long long s,
                               REAL *fraction) {
    double part;
    int pixel = NAME(pixel_before)(NAME(sample)(axis, start, s), axis->extent, &part);
    *fraction = (REAL)part;
    return pixel;
}

/* The samples of bin p one by one, their distances from pixels as weights.  Returns whether some of
   them lie off the map. */
RULE_FN int NAME(single_samples)(const struct box_axis *axis, int p, struct taps_out *out) {
    REAL start = NAME(bin_start)(axis, p), fraction;
    long long first, stop, s;
    NAME(samples_on_map)(axis, start, &first, &stop);
    for (s = first; s < stop; s++) {
        int pixel = NAME(sample_pixel)(axis, start, s, &fraction);
        NAME(put_tap)(out, pixel, fraction, 0, 0);
    }
    return stop - first < axis->grid;
}

/* Adds the slopes of a stretch of bin p between two pixels, where hats are lines.  `share`: its
   part of the bin; `before`: how far its middle lies in the bin, 0 to 1.  If the bin's start moves
   by 1, this point moves by 1 - before, and by `before` if the end does.  Each edge of the box
   moves both. */
RULE_FN void NAME(add_stretch_slopes)(const struct box_axis *axis, int p, double share,
                                      double before, struct tap_sum *here, struct tap_sum *right) {
    double n = axis->bins, by_start = share * (1 - before), by_end = share * before;
    double by_low = (by_start * (axis->bins - p) + by_end * (axis->bins - p - 1)) / n * axis->scale;
    double by_high = (by_start * p + by_end * (p + 1)) / n * axis->scale;
    here->slope_low -= by_low;
    here->slope_high -= by_high;
    right->slope_low += by_low;
    right->slope_high += by_high;
}

/* Writes the taps of the interval [a, b], which is bin p counted from pixel `origin`. */
RULE_FN void NAME(put_integrals)(const struct box_axis *axis, int p, double origin, double a,
                                 double b, struct taps_out *out) {
    const struct tap_sum none = {0, 0, 0};
    struct tap_sum here = none, next = none; /* of `pixel`, and of the one after it */
    int pixel = (int)(origin + floor(NAME(rule_max)(a, -1 - origin)));
    for (; pixel < axis->extent && pixel - origin < b; pixel++) {
        double begin = pixel - origin;
        double left = NAME(rule_max)(a, begin), right = NAME(rule_min)(b, begin + 1);
        double share = (right - left) / (b - a);
        next.weight = share * (0.5 * (left - begin) + 0.5 * (right - begin));
        here.weight += share * (0.5 * (begin + 1 - left) + 0.5 * (begin + 1 - right));
        if (out->slope_low)
            NAME(add_stretch_slopes)(
                axis, p, share, (0.5 * (left - a) + 0.5 * (right - a)) / (b - a), &here, &next);
        if (pixel >= 0)
            NAME(put_mean)(out, pixel, &here, 1);
        here = next;
        next = none;
    }
    if (here.weight > 0 && pixel < axis->extent)
        NAME(put_mean)(out, pixel, &here, 1);
}

/* The mean of the bilinear surface over bin p: pixel i has the integral of hat(v - i) over the bin,
   divided by the bin's length.  Between two pixels the hat is a line, whose mean is its value in
   the middle, so that nothing cancels in narrow bins.  Positions are double.  Those of narrow bins
   are counted from the pixel before the box: far from there they would be rounded to steps that are
   not small beside the bin.  A bin that is narrower than such a step is taken to be one wide. */
RULE_FN void NAME(integrated_bin)(const struct box_axis *axis, int p, struct taps_out *out) {
    double origin = axis->bin_size < 1 ? floor(axis->low) : 0, low = axis->low - origin;
    double a = low + axis->size * ((double)p / axis->bins);
    double b = low + axis->size * ((p + 1.0) / axis->bins);
    if (b == a)
        b = nextafter(a, a + 1);
    if (axis->size > 0 && b > -1 - origin && a < axis->extent - origin)
        NAME(put_integrals)(axis, p, origin, a, b, out);
}

/* The whole pixels that bin p touches, first to stop - 1.  By RULE_ROUNDED, a box does not begin at
   a whole pixel.  By RULE_UNIFORM, the last row or column of the map is never one: torchvision
   leaves it out. */
RULE_FN void NAME(whole_pixels)(const struct box_axis *axis, int p, int *first, int *stop) {
    const int kind = axis->rule.kind;
    REAL bin_size = (REAL)axis->bin_size, part = kind == RULE_ROUNDED ? (REAL)axis->low : 0;
    double whole = axis->low - part, extent = axis->extent - (kind == RULE_UNIFORM);
    double low = floor((double)((REAL)p * bin_size + part)) + whole;
    double high = ceil((double)((REAL)(p + 1) * bin_size + part)) + whole;
    *first = (int)NAME(within)(low, 0.0, extent);
    *stop = (int)NAME(within)(high, 0.0, extent);
}

/* Equal weights of the pixels of bin p. */
RULE_FN void NAME(uniform_bin)(const struct box_axis *axis, int p, struct taps_out *out) {
    int pixel, first, stop;
    NAME(whole_pixels)(axis, p, &first, &stop);
    for (pixel = first; pixel < stop; pixel++)
        NAME(put_tap)(out, pixel, 1.0 / (double)(stop - first), 0, 0);
}

/* The sample of bin p between its two pixels, or the pixel that is nearest; none off the map. */
RULE_FN void NAME(single_sample)(const struct box_axis *axis, int p, struct taps_out *out) {
    double v = p < axis->bins - 1 ? NAME(bin_start)(axis, p) : axis->last_sample;
    double part = axis->bins > 1 ? p / (axis->bins - 1.0) : 0.5, fraction, by_low, by_high;
    if (!(v >= 0 && v <= axis->extent - 1))
        return;
    if (axis->rule.kind == RULE_NEAREST)
        v = round(v);
    fraction = v - floor(v);
    by_low = fraction > 0 ? axis->scale * (1 - part) : 0;
    by_high = fraction > 0 ? axis->scale * part : 0;
    NAME(put_tap)(out, (int)v, 1 - fraction, -by_low, -by_high);
    if (fraction > 0)
        NAME(put_tap)(out, (int)v + 1, fraction, by_low, by_high);
}

/* The taps of bin p, by any rule that has taps: not RULE_QUANTISED.  Returns whether some single
   samples lie off the map. */
RULE_FN int NAME(bin_taps)(const struct box_axis *axis, int p, struct taps_out *out) {
    const int kind = axis->rule.kind;
    if (kind == RULE_SINGLE_SAMPLES)
        return NAME(single_samples)(axis, p, out);
    if (kind == RULE_SAMPLED)
        NAME(sampled_bin)(axis, p, out);
    else if (kind == RULE_INTEGRATED)
        NAME(integrated_bin)(axis, p, out);
    else if (kind == RULE_BILINEAR || kind == RULE_NEAREST)
        NAME(single_sample)(axis, p, out);
    else if (kind == RULE_UNIFORM || kind == RULE_ROUNDED)
        NAME(uniform_bin)(axis, p, out);
    return 0; /* a rule without a line has no taps, which tests see */
}

/* Writes the taps of all bins of an axis.  The first of them is tap `start` of the tables.
   spans: where the taps of each bin begin and end; for RULE_QUANTISED, its pixels.
   outside: what bin_taps returned for each bin; NULL where nobody needs it. */
RULE_FN void NAME(axis_taps)(const struct box_axis *axis, int start, int *spans,
                             unsigned char *outside, struct taps_out *out) {
    int p, off_map;
    for (p = 0; p < axis->bins; p++, spans += 2) {
        if (axis->rule.kind == RULE_QUANTISED) {
            NAME(whole_pixels)(axis, p, &spans[0], &spans[1]);
            continue;
        }
        spans[0] = start + (int)out->count;
        off_map = NAME(bin_taps)(axis, p, out);
        spans[1] = start + (int)out->count;
        if (outside)
            outside[p] = (unsigned char)off_map;
    }
}

#endif
