/* Packs planes into lane vectors and unpacks them.  The planes of channels lie channel_stride
   elements apart.  Each pixel becomes one lane vector.

   The loops are functions that are never inlined: inlined, they would slow down their callers. */

#define LARGE_PLANE 2048  /* elements; lines of larger planes are prefetched (R056) */
#define LONG_PREFETCH 768 /* bytes of a plane; longer runs of large planes are packed so (R073) */
#define COLLIDING_BYTES 4096 /* planes that lie a multiple apart share sets of a cache (R049) */

/* Packs the square of lanes from `l` on and of pixels from `x` on. */
static FORCE_INLINE void pack_square(const REAL *from, ptrdiff_t channel_stride, int lanes, int l,
                                     ptrdiff_t x, REAL *to) {
    enum { n = VECTOR_LANES, all = LANES };
    transpose_square(from + (l < lanes ? l : 0) * channel_stride + x, channel_stride, lanes - l,
                     to + x * all + l, all, n, 0);
}

/* Unpacks such a square. */
static FORCE_INLINE void unpack_square(const REAL *from, int lanes, int l, ptrdiff_t x, REAL *to,
                                       ptrdiff_t channel_stride) {
    enum { n = VECTOR_LANES, all = LANES };
    transpose_square(from + x * all + l, all, n, to + (l < lanes ? l : 0) * channel_stride + x,
                     channel_stride, lanes - l, 0);
}

/* Packs one square after the other along the pixels of a cache line.  Where a line of a plane is
   more than one square, these follow each other.  Of large planes a cache line of each is
   prefetched, since hardware does not foresee soon enough what 16 planes need. */
static NOINLINE void pack_squares(const REAL *from, ptrdiff_t channel_stride, int lanes,
                                  ptrdiff_t pixels, ptrdiff_t prefetch_stride, REAL *to) {
    enum { n = VECTOR_LANES, all = LANES };
    for (ptrdiff_t i = 0; i < pixels; i += all) {
        if (channel_stride > LARGE_PLANE)
            for (int l = 0; l < lanes; l++)
                prefetch_l1(from + l * channel_stride + i + prefetch_stride);
        for (int l = 0; l < all; l += n)
            for (int j = 0; j < all && (j == 0 || i + j < pixels); j += n) {
                /* the last square overlaps the one before */
                ptrdiff_t x = i + j < pixels - n ? i + j : pixels - n;
                pack_square(from, channel_stride, lanes, l, x, to);
            }
    }
}

/* Packs long runs of large planes, which come from memory: whole cache lines of a few planes at a
   time, while the lines that are needed soon are asked for together.  In cache and for short runs
   squares are faster.  All lanes are a case of their own, without comparisons (R455).  This loop
   and the one of pack_squares are separate functions because one function for both was slower. */
static NOINLINE void pack_long(const REAL *from, ptrdiff_t channel_stride, int lanes,
                               ptrdiff_t pixels, REAL *to) {
    enum { n = VECTOR_LANES, w = SEGMENT_LANES, all = LANES };
    for (ptrdiff_t i = 0; i < pixels; i += all) {
        for (int l = 0; l < lanes; l++)
            prefetch_l1(from + l * channel_stride + i + LONG_PREFETCH / (int)sizeof(REAL));
        for (int l = 0; l < all; l += w)
            for (int j = 0; j < all && (j == 0 || i + j < pixels); j += n) {
                ptrdiff_t x = i + j < pixels - n ? i + j : pixels - n;
                if (lanes == all)
                    transpose_quads(from + l * channel_stride + x, channel_stride, w,
                                    to + x * all + l, all);
                else
                    transpose_quads(from + (l < lanes ? l : 0) * channel_stride + x, channel_stride,
                                    lanes - l, to + x * all + l, all);
            }
    }
}

/* Copies fewer than 16 numbers in a few moves, where memcpy of any size would be a call. */
static FORCE_INLINE void copy_short(REAL *to, const REAL *from, ptrdiff_t count) {
    if (count & 8)
        memcpy(to, from, 8 * sizeof(REAL)), to += 8, from += 8;
    if (count & 4)
        memcpy(to, from, 4 * sizeof(REAL)), to += 4, from += 4;
    if (count & 2)
        memcpy(to, from, 2 * sizeof(REAL)), to += 2, from += 2;
    if (count & 1)
        *to = *from;
}

/* Packs fewer pixels than a vector has room for. */
static NOINLINE void pack_short(const REAL *from, ptrdiff_t channel_stride, int lanes,
                                ptrdiff_t pixels, ptrdiff_t prefetch_stride, REAL *to) {
    enum { n = VECTOR_LANES, all = LANES };
    REAL runs[all * n] = {0};
    if (channel_stride > LARGE_PLANE)
        for (int l = 0; l < lanes; l++) {
            prefetch_l2(from + l * channel_stride + prefetch_stride);
            prefetch_l2(from + l * channel_stride + prefetch_stride + pixels - 1);
        }
    for (int l = 0; l < lanes; l++)
        copy_short(runs + l * n, from + l * channel_stride, pixels);
    for (int l = 0; l < all; l += n)
        transpose_square(runs + (l < lanes ? l : 0) * n, n, lanes - l, to + l, all, (int)pixels, 0);
}

/* Packs planes that lie a multiple of COLLIDING_BYTES apart, as those of 32 x 32 or 64 x 64 pixels
   do.  The same cache line of each falls into the same set of a level 1 cache, which has room for
   8 or 12.  A line that two squares share would be evicted before the second square reads it.  So
   this loop goes along four lines of a few planes before it takes other planes, and squares begin
   where lines begin.  Other planes are better packed one line at a time, by pack_squares.  Of large
   planes the four lines after the next four are prefetched; to prefetch farther ahead gains
   nothing, since planes may collide in a level 2 cache too. */
static NOINLINE void pack_colliding(const REAL *from, ptrdiff_t channel_stride, int lanes,
                                    ptrdiff_t pixels, REAL *to) {
    enum { n = VECTOR_LANES, all = LANES };
    ptrdiff_t line_start = -(ptrdiff_t)((uintptr_t)from % LANE_BYTES / sizeof(REAL));
    for (ptrdiff_t i = line_start; i < pixels; i += 4 * all) {
        if (channel_stride > LARGE_PLANE)
            for (int l = 0; l < lanes; l++)
                for (int j = 0; j < 4 * all; j += all)
                    prefetch_l2(from + l * channel_stride + i + j + 8 * all);
        for (int l = 0; l < all; l += n)
            for (ptrdiff_t j = i; j < pixels && j < i + 4 * all; j += n) {
                if (j <= -n)
                    continue;
                ptrdiff_t x = j < 0 ? 0 : j < pixels - n ? j : pixels - n;
                pack_square(from, channel_stride, lanes, l, x, to);
            }
    }
}

/* Unpacks as pack_squares packs. */
static NOINLINE void unpack_squares(const REAL *from, ptrdiff_t pixels, int lanes, REAL *to,
                                    ptrdiff_t channel_stride) {
    enum { n = VECTOR_LANES, all = LANES };
    for (ptrdiff_t i = 0; i < pixels; i += all)
        for (int l = 0; l < all; l += n)
            for (int j = 0; j < all && (j == 0 || i + j < pixels); j += n) {
                ptrdiff_t x = i + j < pixels - n ? i + j : pixels - n;
                unpack_square(from, lanes, l, x, to, channel_stride);
            }
}

/* Unpacks fewer pixels than a vector has room for.  A vector of them is read. */
static NOINLINE void unpack_short(const REAL *from, ptrdiff_t pixels, int lanes, REAL *to,
                                  ptrdiff_t channel_stride) {
    enum { n = VECTOR_LANES, all = LANES };
    REAL runs[all * n];
    for (int l = 0; l < all; l += n)
        transpose_square(from + l, all, n, runs + l * n, n, n, 0);
    for (int l = 0; l < lanes; l++)
        copy_short(to + l * channel_stride, runs + l * n, pixels);
}

/* Unpacks as pack_colliding packs. */
static NOINLINE void unpack_colliding(const REAL *from, ptrdiff_t pixels, int lanes, REAL *to,
                                      ptrdiff_t channel_stride) {
    enum { n = VECTOR_LANES, all = LANES };
    ptrdiff_t line_start = -(ptrdiff_t)((uintptr_t)to % LANE_BYTES / sizeof(REAL));
    for (ptrdiff_t i = line_start; i < pixels; i += 4 * all)
        for (int l = 0; l < lanes; l += n)
            for (ptrdiff_t j = i; j < pixels && j < i + 4 * all; j += n) {
                if (j <= -n)
                    continue;
                ptrdiff_t x = j < 0 ? 0 : j < pixels - n ? j : pixels - n;
                unpack_square(from, lanes, l, x, to, channel_stride);
            }
}

/* Unpacks past the caches, except for the ends of runs.  Returns 0 and does nothing if planes
   differ in where their lines begin, or if there are too few pixels. */
static NOINLINE int unpack_streaming(const REAL *from, ptrdiff_t pixels, int lanes, REAL *to,
                                     ptrdiff_t channel_stride) {
    enum { n = VECTOR_LANES, all = LANES };
    ptrdiff_t x = (ptrdiff_t)(-(uintptr_t)to % LANE_BYTES / sizeof(REAL)); /* where a line begins */
    if (lanes < all || channel_stride % all != 0 || pixels < 2 * all)
        return 0;
    if (x > 0)
        unpack_squares(from, all, all, to, channel_stride);
    for (; x + all <= pixels; x += all)
        for (int l = 0; l < all; l += n)
            for (int i = 0; i < all; i += n) /* fills a line at once */
                transpose_square(from + (x + i) * all + l, all, n, to + l * channel_stride + x + i,
                                 channel_stride, n, 1);
    if (x < pixels)
        unpack_squares(from + (pixels - all) * all, all, all, to + pixels - all, channel_stride);
    return 1;
}

static FORCE_INLINE int planes_collide(ptrdiff_t channel_stride) {
    return channel_stride * (ptrdiff_t)sizeof(REAL) % COLLIDING_BYTES == 0;
}

/* Packs neighbouring pixels of `lanes` planes into lane vectors.  The other lanes become zero.
   prefetch_stride is the distance to pixels that are needed soon; long runs do not use it. */
static inline void planes_to_lanes(const REAL *from, ptrdiff_t channel_stride, int lanes,
                                   ptrdiff_t pixels, ptrdiff_t prefetch_stride, REAL *to) {
    if (pixels < VECTOR_LANES)
        pack_short(from, channel_stride, lanes, pixels, prefetch_stride, to);
    else if (planes_collide(channel_stride))
        pack_colliding(from, channel_stride, lanes, pixels, to);
    else if (channel_stride > LARGE_PLANE && pixels * (ptrdiff_t)sizeof(REAL) > LONG_PREFETCH)
        pack_long(from, channel_stride, lanes, pixels, to);
    else
        pack_squares(from, channel_stride, lanes, pixels, prefetch_stride, to);
}

/* Unpacks lane vectors into `lanes` planes.  There is room for VECTOR_BYTES of pixels to be read.
   If `streaming`, most of them bypass the caches where that is possible. */
static inline void lanes_to_planes(const REAL *from, ptrdiff_t pixels, int lanes, REAL *to,
                                   ptrdiff_t channel_stride, int streaming) {
    if (streaming && unpack_streaming(from, pixels, lanes, to, channel_stride))
        return;
    if (pixels < VECTOR_LANES)
        unpack_short(from, pixels, lanes, to, channel_stride);
    else if (planes_collide(channel_stride))
        unpack_colliding(from, pixels, lanes, to, channel_stride);
    else
        unpack_squares(from, pixels, lanes, to, channel_stride);
}
