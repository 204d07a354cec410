/* Transposes of squares: from planes to lane vectors and back. */

#ifdef HAVE_SHUFFLES
/* Loads `rows` vectors that lie `stride` apart, and fills up to `count` vectors with zeros. */
static FORCE_INLINE void load_vectors(VECTOR *a, int count, const REAL *from, ptrdiff_t stride,
                                      int rows) {
    for (int i = 0; i < count; i++)
        if (i < rows)
            a[i] = load(from + i * stride);
        else
            a[i] = (VECTOR){0};
}

/* Separates the segments of two vectors: every other one goes to `low`. */
static FORCE_INLINE void split_segments(VECTOR a, VECTOR b, VECTOR *low, VECTOR *high) {
#if VECTOR_BYTES > SEGMENT_BYTES
    vector_double first = (vector_double)a, second = (vector_double)b;
    *low = (VECTOR)__builtin_shufflevector(first, second, LOW_SEGMENTS);
    *high = (VECTOR)__builtin_shufflevector(first, second, HIGH_SEGMENTS);
#else
    *low = a;
    *high = b;
#endif
}

/* Transposes a square of VECTOR_BYTES of planes and of pixels.  There are `rows` planes, the others
   count as zeros; the first `columns` pixels are stored, past the caches if `streaming`. */
static FORCE_INLINE void transpose_square(const REAL *from, ptrdiff_t from_stride, int rows,
                                          REAL *to, ptrdiff_t to_stride, int columns,
                                          int streaming) {
    enum { n = VECTOR_LANES, w = SEGMENT_LANES };
    VECTOR a[n], t[4];
    load_vectors(a, n, from, from_stride, rows);
    for (int i = 0; i < n; i += w)
        transpose_segments(a + i);
    if (VECTOR_BYTES == 32)
        for (int j = 0; j < w; j++)
            split_segments(a[j], a[w + j], &a[j], &a[w + j]);
    if (VECTOR_BYTES == 64)
        for (int j = 0; j < w; j++) {
            split_segments(a[j], a[w + j], &t[0], &t[1]);
            split_segments(a[2 * w + j], a[3 * w + j], &t[2], &t[3]);
            split_segments(t[0], t[2], &a[j], &a[2 * w + j]);
            split_segments(t[1], t[3], &a[w + j], &a[3 * w + j]);
        }
    for (int i = 0; i < n && i < columns; i++)
        if (streaming)
            STREAM(to + i * to_stride, a[i]);
        else
            store(to + i * to_stride, a[i]);
}

/* Stores the segments of a vector `stride` elements apart. */
static FORCE_INLINE void store_segments(REAL *to, ptrdiff_t stride, VECTOR a) {
    typedef double segment
        __attribute__((vector_size(SEGMENT_BYTES), aligned(sizeof(REAL)), may_alias));
    vector_double from = (vector_double)a;
    *(segment *)to = __builtin_shufflevector(from, from, 0, 1);
#if VECTOR_BYTES >= 32
    *(segment *)(to + stride) = __builtin_shufflevector(from, from, 2, 3);
#endif
#if VECTOR_BYTES == 64
    *(segment *)(to + 2 * stride) = __builtin_shufflevector(from, from, 4, 5);
    *(segment *)(to + 3 * stride) = __builtin_shufflevector(from, from, 6, 7);
#endif
    (void)stride;
}

/* Transposes SEGMENT_BYTES of planes and VECTOR_BYTES of pixels.  It needs no round across
   segments, but two to four times as many stores as transpose_square. */
static FORCE_INLINE void transpose_quads(const REAL *from, ptrdiff_t from_stride, int rows,
                                         REAL *to, ptrdiff_t to_stride) {
    enum { w = SEGMENT_LANES };
    VECTOR a[w];
    load_vectors(a, w, from, from_stride, rows);
    transpose_segments(a);
    for (int i = 0; i < w; i++, to += to_stride)
        store_segments(to, w * to_stride, a[i]);
}
#else
static inline void transpose_plain(const REAL *from, ptrdiff_t from_stride, int rows, REAL *to,
                                   ptrdiff_t to_stride, int columns, int planes) {
    for (int i = 0; i < columns; i++)
        for (int j = 0; j < planes; j++)
            to[i * to_stride + j] = j < rows ? from[j * from_stride + i] : 0;
}

static inline void transpose_square(const REAL *from, ptrdiff_t from_stride, int rows, REAL *to,
                                    ptrdiff_t to_stride, int columns, int streaming) {
    int n = columns < VECTOR_LANES ? columns : VECTOR_LANES;
    (void)streaming;
    transpose_plain(from, from_stride, rows, to, to_stride, n, VECTOR_LANES);
}

static inline void transpose_quads(const REAL *from, ptrdiff_t from_stride, int rows, REAL *to,
                                   ptrdiff_t to_stride) {
    transpose_plain(from, from_stride, rows, to, to_stride, VECTOR_LANES, SEGMENT_LANES);
}
#endif
