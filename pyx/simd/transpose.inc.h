/* Between planes and lane vectors: the pixels of some channels, whose planes lie channel_step
   elements apart, to one lane vector for each pixel and back.  simd.h includes this file once for
   each type REAL. */

#define LARGE_PLANE 2048     /* elements; lines of larger planes are prefetched */
#define LONG_PREFETCH 768    /* bytes of a plane; longer runs of large planes are packed as such */
#define COLLIDING_BYTES 4096 /* planes that lie a multiple of these apart share sets of a cache */

#ifdef HAVE_SHUFFLES
/* Loads `count` vectors that lie `step` apart, of which there are `rows`; zeros are the others. */
static FORCE_INLINE void NAME(load_rows)(VECTOR *a, int count, const REAL *from, ptrdiff_t step,
                                         int rows) {
    for (int i = 0; i < count; i++)
        if (i < rows)
            a[i] = NAME(load)(from + i * step);
        else
            a[i] = (VECTOR){0};
}

/* Parts the groups of two vectors: every other one goes to `low`. */
static FORCE_INLINE void NAME(part_groups)(VECTOR a, VECTOR b, VECTOR *low, VECTOR *high) {
#if VECTOR_BYTES > GROUP_BYTES
    *low = __builtin_shufflevector(a, b, NAME(LOW_GROUPS));
    *high = __builtin_shufflevector(a, b, NAME(HIGH_GROUPS));
#else
    *low = a;
    *high = b;
#endif
}

/* Transposes a square of VECTOR_BYTES of planes and of pixels.  There are `rows` planes, the others
   count as zeros; the first `columns` pixels are stored, past the caches if `streaming`. */
static FORCE_INLINE void NAME(transpose_square)(const REAL *from, ptrdiff_t from_step, int rows,
                                                REAL *to, ptrdiff_t to_step, int columns,
                                                int streaming) {
    enum { n = VECTOR_LANES, w = GROUP_LANES };
    VECTOR a[n], t[4];
    NAME(load_rows)(a, n, from, from_step, rows);
    for (int i = 0; i < n; i += w)
        NAME(transpose_groups)(a + i);
    if (VECTOR_BYTES == 32)
        for (int j = 0; j < w; j++)
            NAME(part_groups)(a[j], a[w + j], &a[j], &a[w + j]);
    if (VECTOR_BYTES == 64)
        for (int j = 0; j < w; j++) {
            NAME(part_groups)(a[j], a[w + j], &t[0], &t[1]);
            NAME(part_groups)(a[2 * w + j], a[3 * w + j], &t[2], &t[3]);
            NAME(part_groups)(t[0], t[2], &a[j], &a[2 * w + j]);
            NAME(part_groups)(t[1], t[3], &a[w + j], &a[3 * w + j]);
        }
    for (int i = 0; i < n && i < columns; i++)
        if (streaming)
            STREAM(to + i * to_step, a[i]);
        else
            NAME(store)(to + i * to_step, a[i]);
}

/* Stores the groups of a vector `step` elements apart. */
static FORCE_INLINE void NAME(store_groups)(REAL *to, ptrdiff_t step, VECTOR a) {
    typedef REAL group __attribute__((vector_size(GROUP_BYTES), aligned(sizeof(REAL)), may_alias));
    *(group *)to = __builtin_shufflevector(a, a, NAME(GROUP)(0));
#if VECTOR_BYTES >= 32
    *(group *)(to + step) = __builtin_shufflevector(a, a, NAME(GROUP)(1));
#endif
#if VECTOR_BYTES == 64
    *(group *)(to + 2 * step) = __builtin_shufflevector(a, a, NAME(GROUP)(2));
    *(group *)(to + 3 * step) = __builtin_shufflevector(a, a, NAME(GROUP)(3));
#endif
    (void)step;
}

/* Transposes GROUP_BYTES of planes and VECTOR_BYTES of pixels.  It needs no round across groups,
   but two to four times as many stores as transpose_square. */
static FORCE_INLINE void NAME(transpose_group)(const REAL *from, ptrdiff_t from_step, int rows,
                                               REAL *to, ptrdiff_t to_step) {
    enum { w = GROUP_LANES };
    VECTOR a[w];
    NAME(load_rows)(a, w, from, from_step, rows);
    NAME(transpose_groups)(a);
    for (int i = 0; i < w; i++, to += to_step)
        NAME(store_groups)(to, w * to_step, a[i]);
}
#else
static inline void NAME(transpose_plain)(const REAL *from, ptrdiff_t from_step, int rows, REAL *to,
                                         ptrdiff_t to_step, int columns, int planes) {
    for (int i = 0; i < columns; i++)
        for (int j = 0; j < planes; j++)
            to[i * to_step + j] = j < rows ? from[j * from_step + i] : 0;
}

static inline void NAME(transpose_square)(const REAL *from, ptrdiff_t from_step, int rows, REAL *to,
                                          ptrdiff_t to_step, int columns, int streaming) {
    int n = columns < VECTOR_LANES ? columns : VECTOR_LANES;
    (void)streaming;
    NAME(transpose_plain)(from, from_step, rows, to, to_step, n, VECTOR_LANES);
}

static inline void NAME(transpose_group)(const REAL *from, ptrdiff_t from_step, int rows, REAL *to,
                                         ptrdiff_t to_step) {
    NAME(transpose_plain)(from, from_step, rows, to, to_step, VECTOR_LANES, GROUP_LANES);
}
#endif

/* Packs the square of lanes from `l` on and of pixels from `x` on.  All lanes are a case of their
   own, which needs no comparisons. */
static FORCE_INLINE void NAME(pack_square)(const REAL *from, ptrdiff_t channel_step, int lanes,
                                           int l, ptrdiff_t x, REAL *to) {
    enum { n = VECTOR_LANES, all = LANES };
    to += x * all + l;
    if (lanes == all)
        NAME(transpose_square)(from + l * channel_step + x, channel_step, n, to, all, n, 0);
    else
        NAME(transpose_square)(from + (l < lanes ? l : 0) * channel_step + x, channel_step,
                               lanes - l, to, all, n, 0);
}

/* Unpacks such a square. */
static FORCE_INLINE void NAME(unpack_square)(const REAL *from, int lanes, int l, ptrdiff_t x,
                                             REAL *to, ptrdiff_t channel_step) {
    enum { n = VECTOR_LANES, all = LANES };
    from += x * all + l;
    to += (l < lanes ? l : 0) * channel_step + x;
    if (lanes == all)
        NAME(transpose_square)(from, all, n, to, channel_step, n, 0);
    else
        NAME(transpose_square)(from, all, n, to, channel_step, lanes - l, 0);
}

/* Packs one square after the other along the pixels of a cache line.  Where a line of a plane is
   more than one square, these follow each other.  Of large planes a cache line of each is
   prefetched, since hardware does not foresee soon enough what 16 planes need. */
static NOINLINE void NAME(pack_squares)(const REAL *from, ptrdiff_t channel_step, int lanes,
                                        ptrdiff_t pixels, ptrdiff_t prefetch_step, REAL *to) {
    enum { n = VECTOR_LANES, all = LANES };
    for (ptrdiff_t i = 0; i < pixels; i += all) {
        if (channel_step > LARGE_PLANE)
            for (int l = 0; l < lanes; l++)
                prefetch_l1(from + l * channel_step + i + prefetch_step);
        for (int l = 0; l < all; l += n)
            for (int j = 0; j < all && (j == 0 || i + j < pixels); j += n) {
                /* the last square overlaps the one before */
                ptrdiff_t x = i + j < pixels - n ? i + j : pixels - n;
                NAME(pack_square)(from, channel_step, lanes, l, x, to);
            }
    }
}

/* Packs long runs of large planes, which come from memory: whole cache lines of a few planes at a
   time, while the lines that are needed soon are asked for together.  In cache and for short runs
   squares are faster.  This loop and the one of pack_squares are separate functions because one
   function for both was slower. */
static NOINLINE void NAME(pack_long)(const REAL *from, ptrdiff_t channel_step, int lanes,
                                     ptrdiff_t pixels, REAL *to) {
    enum { n = VECTOR_LANES, w = GROUP_LANES, all = LANES };
    for (ptrdiff_t i = 0; i < pixels; i += all) {
        for (int l = 0; l < lanes; l++)
            prefetch_l1(from + l * channel_step + i + LONG_PREFETCH / (int)sizeof(REAL));
        for (int l = 0; l < all; l += w)
            for (int j = 0; j < all && (j == 0 || i + j < pixels); j += n) {
                ptrdiff_t x = i + j < pixels - n ? i + j : pixels - n;
                const REAL *plane = from + (l < lanes ? l : 0) * channel_step + x;
                if (lanes == all)
                    NAME(transpose_group)(from + l * channel_step + x, channel_step, w,
                                          to + x * all + l, all);
                else
                    NAME(transpose_group)(plane, channel_step, lanes - l, to + x * all + l, all);
            }
    }
}

/* Packs less pixels than a vector has room for. */
static NOINLINE void NAME(pack_short)(const REAL *from, ptrdiff_t channel_step, int lanes,
                                      ptrdiff_t pixels, ptrdiff_t prefetch_step, REAL *to) {
    enum { n = VECTOR_LANES, all = LANES };
    REAL runs[all * n] = {0};
    if (channel_step > LARGE_PLANE)
        for (int l = 0; l < lanes; l++) {
            prefetch_l2(from + l * channel_step + prefetch_step);
            prefetch_l2(from + l * channel_step + prefetch_step + pixels - 1);
        }
    for (int l = 0; l < lanes; l++)
        NAME(copy_short)(runs + l * n, from + l * channel_step, pixels);
    for (int l = 0; l < all; l += n)
        NAME(transpose_square)(runs + (l < lanes ? l : 0) * n, n, lanes - l, to + l, all,
                               (int)pixels, 0);
}

/* Packs planes that lie a multiple of COLLIDING_BYTES apart, as those of 32 x 32 or 64 x 64 pixels
   do.  The same line of each falls into the same set of a level 1 cache, which has room for 8
   or 12. So squares follow each other along four lines of pixels first, and from line to line,
   since a line that two squares share is gone before the second comes.  Other planes are better
   packed one line at a time, by a function of its own.  Of large planes the lines after the next
   four are prefetched; farther ahead gains nothing, since they may collide in a level 2 cache too.
 */
static NOINLINE void NAME(pack_colliding)(const REAL *from, ptrdiff_t channel_step, int lanes,
                                          ptrdiff_t pixels, REAL *to) {
    enum { n = VECTOR_LANES, all = LANES };
    ptrdiff_t line_start = -(ptrdiff_t)((uintptr_t)from % LANE_BYTES / sizeof(REAL));
    for (ptrdiff_t i = line_start; i < pixels; i += 4 * all) {
        if (channel_step > LARGE_PLANE)
            for (int l = 0; l < lanes; l++)
                for (int j = 0; j < 4 * all; j += all)
                    prefetch_l2(from + l * channel_step + i + j + 8 * all);
        for (int l = 0; l < all; l += n)
            for (ptrdiff_t j = i; j < pixels && j < i + 4 * all; j += n) {
                if (j <= -n)
                    continue;
                ptrdiff_t x = j < 0 ? 0 : j < pixels - n ? j : pixels - n;
                NAME(pack_square)(from, channel_step, lanes, l, x, to);
            }
    }
}

/* Unpacks as pack_squares packs. */
static NOINLINE void NAME(unpack_squares)(const REAL *from, ptrdiff_t pixels, int lanes, REAL *to,
                                          ptrdiff_t channel_step) {
    enum { n = VECTOR_LANES, all = LANES };
    for (ptrdiff_t i = 0; i < pixels; i += all)
        for (int l = 0; l < all; l += n)
            for (int j = 0; j < all && (j == 0 || i + j < pixels); j += n) {
                ptrdiff_t x = i + j < pixels - n ? i + j : pixels - n;
                NAME(unpack_square)(from, lanes, l, x, to, channel_step);
            }
}

/* Unpacks as pack_colliding packs. */
static NOINLINE void NAME(unpack_colliding)(const REAL *from, ptrdiff_t pixels, int lanes, REAL *to,
                                            ptrdiff_t channel_step) {
    enum { n = VECTOR_LANES, all = LANES };
    ptrdiff_t line_start = -(ptrdiff_t)((uintptr_t)to % LANE_BYTES / sizeof(REAL));
    for (ptrdiff_t i = line_start; i < pixels; i += 4 * all)
        for (int l = 0; l < lanes; l += n)
            for (ptrdiff_t j = i; j < pixels && j < i + 4 * all; j += n) {
                if (j <= -n)
                    continue;
                ptrdiff_t x = j < 0 ? 0 : j < pixels - n ? j : pixels - n;
                NAME(unpack_square)(from, lanes, l, x, to, channel_step);
            }
}

/* Unpacks past the caches, except for the ends of runs.  Returns 0 and does nothing if planes
   differ in where their lines begin, or if there are too few pixels. */
static NOINLINE int NAME(unpack_streaming)(const REAL *from, ptrdiff_t pixels, int lanes, REAL *to,
                                           ptrdiff_t channel_step) {
    enum { n = VECTOR_LANES, all = LANES };
    ptrdiff_t x = (ptrdiff_t)(-(uintptr_t)to % LANE_BYTES / sizeof(REAL)); /* where a line begins */
    if (lanes < all || channel_step % all != 0 || pixels < 2 * all)
        return 0;
    if (x > 0)
        NAME(unpack_squares)(from, all, all, to, channel_step);
    for (; x + all <= pixels; x += all)
        for (int l = 0; l < all; l += n)
            for (int i = 0; i < all; i += n) /* fills a line at once */
                NAME(transpose_square)(from + (x + i) * all + l, all, n,
                                       to + l * channel_step + x + i, channel_step, n, 1);
    if (x < pixels)
        NAME(unpack_squares)(from + (pixels - all) * all, all, all, to + pixels - all,
                             channel_step);
    return 1;
}

static FORCE_INLINE int NAME(planes_collide)(ptrdiff_t channel_step) {
    return channel_step * (ptrdiff_t)sizeof(REAL) % COLLIDING_BYTES == 0;
}

/* Packs neighbouring pixels of `lanes` planes into lane vectors, whose other lanes become zero.
   prefetch_step is the distance to pixels that are needed soon; long runs do not use it. */
static inline void NAME(planes_to_lanes)(const REAL *from, ptrdiff_t channel_step, int lanes,
                                         ptrdiff_t pixels, ptrdiff_t prefetch_step, REAL *to) {
    if (pixels < VECTOR_LANES)
        NAME(pack_short)(from, channel_step, lanes, pixels, prefetch_step, to);
    else if (NAME(planes_collide)(channel_step))
        NAME(pack_colliding)(from, channel_step, lanes, pixels, to);
    else if (channel_step > LARGE_PLANE && pixels * (ptrdiff_t)sizeof(REAL) > LONG_PREFETCH)
        NAME(pack_long)(from, channel_step, lanes, pixels, to);
    else
        NAME(pack_squares)(from, channel_step, lanes, pixels, prefetch_step, to);
}

/* Unpacks lane vectors into `lanes` planes; there have to be VECTOR_BYTES of pixels or more.  If
   `streaming`, most of them bypass the caches where that is possible. */
static inline void NAME(lanes_to_planes)(const REAL *from, ptrdiff_t pixels, int lanes, REAL *to,
                                         ptrdiff_t channel_step, int streaming) {
    if (streaming && NAME(unpack_streaming)(from, pixels, lanes, to, channel_step))
        return;
    if (NAME(planes_collide)(channel_step))
        NAME(unpack_colliding)(from, pixels, lanes, to, channel_step);
    else
        NAME(unpack_squares)(from, pixels, lanes, to, channel_step);
}
