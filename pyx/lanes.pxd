"""Lanes: the only file that knows SIMD.

A *lane vector* is LANE_BYTES of neighbouring channels: 16 float32 or 8 float64, one cache line.  The kernels are plain
loops over a lane vector, of a length that is known when they are compiled, which GCC and Clang turn into whole-vector
instructions of whatever instruction set the file is compiled for.  The length is the same for every instruction set, so
that they all add in the same order.  What such loops cannot express, transposes and streaming stores, is written with
vector types below, beside a plain version for compilers that lack them.
"""

from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t

ctypedef fused real:
    float
    double

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>
    #if defined(__SSE2__)
    #include <immintrin.h>
    #elif defined(__aarch64__)
    #include <arm_neon.h>
    #endif

    #define LANE_BYTES 64
    #define PAGE_BYTES 4096 /* the smallest there are */

    #if defined(__AVX512F__)
    #define VECTOR_BYTES 64
    #elif defined(__AVX__)
    #define VECTOR_BYTES 32
    #else
    #define VECTOR_BYTES 16
    #endif

    /* Functions that are never inlined, and those that always are, whatever compilers think of it: it decides how fast loops are. */
    #if defined(__GNUC__)
    #define APART __attribute__((noinline, unused))
    #define ALWAYS inline __attribute__((always_inline))
    #else
    #define APART
    #define ALWAYS inline
    #endif

    /* The same, and not compiled for the numbers that its callers are seen to give it. */
    #if defined(__GNUC__) && !defined(__clang__)
    #define OPAQUE __attribute__((noipa, unused))
    #else
    #define OPAQUE APART
    #endif

    /* Vectors; single numbers where compilers lack them. */
    #if defined(__GNUC__)
    #define VECTORS(scalar)                                                                                            \\
        typedef scalar scalar##_vector __attribute__((vector_size(VECTOR_BYTES)));                                     \\
        typedef scalar scalar##_vector_anywhere                                                                        \\
            __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(scalar)), may_alias));
    #else
    #define VECTORS(scalar) typedef scalar scalar##_vector, scalar##_vector_anywhere;
    #endif
    VECTORS(float)
    VECTORS(double)

    /* Stores past the caches, where there are such; those of a line follow each other, and `stream_end` comes before anyone reads it. */
    #if defined(__SSE2__)
    #if VECTOR_BYTES == 64
    #define STREAM(to, vector) _mm512_stream_si512((__m512i *)(to), (__m512i)(vector))
    #elif VECTOR_BYTES == 32
    #define STREAM(to, vector) _mm256_stream_si256((__m256i *)(to), (__m256i)(vector))
    #else
    #define STREAM(to, vector) _mm_stream_si128((__m128i *)(to), (__m128i)(vector))
    #endif
    static inline void stream_end(void) { _mm_sfence(); }
    #else
    #define STREAM(to, vector) memcpy(to, &(vector), VECTOR_BYTES)
    static inline void stream_end(void) {}
    #endif

    #if defined(__has_builtin)
    #if __has_builtin(__builtin_shufflevector)
    #define HAVE_SHUFFLES
    #endif
    #endif

    #ifdef HAVE_SHUFFLES
    /* A square of vectors is transposed in rounds of one instruction a vector: elements within each 128 bits, as SSE did, and then
       those.  Rounds of one shuffle of whole vectors need no such care, but twice as many instructions of AVX2. */
    #define MIX(a, b, by, to, low, high)                                                                               \\
        to[low] = __builtin_shufflevector(a, b, LOW_##by);                                                             \\
        to[high] = __builtin_shufflevector(a, b, HIGH_##by);
    #if VECTOR_BYTES == 64
    #define LOW_FLOATS 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
    #define HIGH_FLOATS 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
    #define LOW_PAIRS 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
    #define HIGH_PAIRS 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
    #define LOW_DOUBLES 0, 8, 2, 10, 4, 12, 6, 14
    #define HIGH_DOUBLES 1, 9, 3, 11, 5, 13, 7, 15
    #define LOW_float 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
    #define HIGH_float 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
    #define LOW_double 0, 1, 4, 5, 8, 9, 12, 13
    #define HIGH_double 2, 3, 6, 7, 10, 11, 14, 15
    #define ACROSS(a, t, w, by)                                                                                        \\
        for (int j = 0; j < w; j++) {                                                                                  \\
            MIX(a[j], a[w + j], by, t, 0, 1)                                                                           \\
            MIX(a[2 * w + j], a[3 * w + j], by, t, 2, 3)                                                               \\
            MIX(t[0], t[2], by, a, j, 2 * w + j)                                                                       \\
            MIX(t[1], t[3], by, a, w + j, 3 * w + j)                                                                   \\
        }
    #elif VECTOR_BYTES == 32
    #define LOW_FLOATS 0, 8, 1, 9, 4, 12, 5, 13
    #define HIGH_FLOATS 2, 10, 3, 11, 6, 14, 7, 15
    #define LOW_PAIRS 0, 1, 8, 9, 4, 5, 12, 13
    #define HIGH_PAIRS 2, 3, 10, 11, 6, 7, 14, 15
    #define LOW_DOUBLES 0, 4, 2, 6
    #define HIGH_DOUBLES 1, 5, 3, 7
    #define LOW_float 0, 1, 2, 3, 8, 9, 10, 11
    #define HIGH_float 4, 5, 6, 7, 12, 13, 14, 15
    #define LOW_double 0, 1, 4, 5
    #define HIGH_double 2, 3, 6, 7
    #define ACROSS(a, t, w, by)                                                                                        \\
        for (int j = 0; j < w; j++) {                                                                                  \\
            MIX(a[j], a[w + j], by, t, 0, 1)                                                                           \\
            a[j] = t[0];                                                                                               \\
            a[w + j] = t[1];                                                                                           \\
        }
    #else
    #define LOW_FLOATS 0, 4, 1, 5
    #define HIGH_FLOATS 2, 6, 3, 7
    #define LOW_PAIRS 0, 1, 4, 5
    #define HIGH_PAIRS 2, 3, 6, 7
    #define LOW_DOUBLES 0, 2
    #define HIGH_DOUBLES 1, 3
    #define ACROSS(a, t, w, by)
    #endif
    #define WITHIN_float(a, i, t)                                                                                      \\
        MIX(a[i], a[i + 1], FLOATS, t, 0, 1)                                                                           \\
        MIX(a[i + 2], a[i + 3], FLOATS, t, 2, 3)                                                                       \\
        MIX(t[0], t[2], PAIRS, a, i, i + 1)                                                                            \\
        MIX(t[1], t[3], PAIRS, a, i + 2, i + 3)
    #define WITHIN_double(a, i, t)                                                                                     \\
        MIX(a[i], a[i + 1], DOUBLES, t, 0, 1)                                                                          \\
        a[i] = t[0];                                                                                                   \\
        a[i + 1] = t[1];
    /* So many planes, of which there are `rows`, and else zeros. */
    #define TAKE_PLANES(scalar, a, count)                                                                              \\
        for (int i = 0; i < count; i++)                                                                                \\
            if (i < rows)                                                                                              \\
                a[i] = *(const scalar##_vector_anywhere *)(from + i * from_stride);                                    \\
            else                                                                                                       \\
                a[i] = (scalar##_vector){0};
    #define SQUARE(scalar)                                                                                             \\
        static ALWAYS void square_##scalar(const scalar *from, ptrdiff_t from_stride, int rows, scalar *to, ptrdiff_t to_stride,\\
                                           int columns, int past) {                                                    \\
            enum { n = VECTOR_BYTES / sizeof(scalar), w = 16 / sizeof(scalar) };                                       \\
            scalar##_vector a[n], t[4];                                                                                \\
            TAKE_PLANES(scalar, a, n)                                                                                  \\
            for (int i = 0; i < n; i += w) {                                                                           \\
                WITHIN_##scalar(a, i, t)                                                                               \\
            }                                                                                                          \\
            ACROSS(a, t, w, scalar)                                                                                    \\
            for (int i = 0; i < n && i < columns; i++)                                                                 \\
                if (past)                                                                                              \\
                    STREAM(to + i * to_stride, a[i]);                                                                  \\
                else                                                                                                   \\
                    *(scalar##_vector_anywhere *)(to + i * to_stride) = a[i];                                          \\
        }
    /* The same of 16 bytes of planes and a vector of pixels: no round across, and twice to four times as many stores. */
    typedef float float_part __attribute__((vector_size(16), aligned(4), may_alias));
    typedef double double_part __attribute__((vector_size(16), aligned(8), may_alias));
    #define PART_float(q) 4 * q, 4 * q + 1, 4 * q + 2, 4 * q + 3
    #define PART_double(q) 2 * q, 2 * q + 1
    #define PUT_PART(scalar, to, a, ...) *(scalar##_part *)(to) = __builtin_shufflevector(a, a, __VA_ARGS__);
    #if VECTOR_BYTES == 64
    #define PUT_PARTS(scalar, to, step, a)                                                                             \\
        PUT_PART(scalar, to, a, PART_##scalar(0))                                                                      \\
        PUT_PART(scalar, to + step, a, PART_##scalar(1))                                                               \\
        PUT_PART(scalar, to + 2 * step, a, PART_##scalar(2))                                                           \\
        PUT_PART(scalar, to + 3 * step, a, PART_##scalar(3))
    #elif VECTOR_BYTES == 32
    #define PUT_PARTS(scalar, to, step, a)                                                                             \\
        PUT_PART(scalar, to, a, PART_##scalar(0))                                                                      \\
        PUT_PART(scalar, to + step, a, PART_##scalar(1))
    #else
    #define PUT_PARTS(scalar, to, step, a) PUT_PART(scalar, to, a, PART_##scalar(0))
    #endif
    #define PARTS(scalar)                                                                                              \\
        static ALWAYS void part_##scalar(const scalar *from, ptrdiff_t from_stride, int rows, scalar *to, ptrdiff_t to_stride) {\\
            enum { w = 16 / sizeof(scalar) };                                                                          \\
            scalar##_vector a[w], t[4];                                                                                \\
            TAKE_PLANES(scalar, a, w)                                                                                  \\
            WITHIN_##scalar(a, 0, t)                                                                                   \\
            for (int i = 0; i < w; i++, to += to_stride) {                                                             \\
                PUT_PARTS(scalar, to, (w * to_stride), a[i])                                                           \\
            }                                                                                                          \\
        }
    #else
    #define SQUARE(scalar)                                                                                             \\
        static inline void turn_##scalar(const scalar *from, ptrdiff_t from_stride, int rows, scalar *to, ptrdiff_t to_stride,\\
                                         int columns, int planes) {                                                    \\
            for (int i = 0; i < columns; i++)                                                                          \\
                for (int j = 0; j < planes; j++)                                                                       \\
                    to[i * to_stride + j] = j < rows ? from[j * from_stride + i] : 0;                                  \\
        }                                                                                                              \\
        static inline void square_##scalar(const scalar *from, ptrdiff_t from_stride, int rows, scalar *to, ptrdiff_t to_stride,\\
                                           int columns, int past) {                                                    \\
            const int n = VECTOR_BYTES / (int)sizeof(scalar);                                                          \\
            (void)past;                                                                                                \\
            turn_##scalar(from, from_stride, rows, to, to_stride, columns < n ? columns : n, n);                       \\
        }
    #define PARTS(scalar)                                                                                              \\
        static inline void part_##scalar(const scalar *from, ptrdiff_t from_stride, int rows, scalar *to, ptrdiff_t to_stride) {\\
            turn_##scalar(from, from_stride, rows, to, to_stride, VECTOR_BYTES / (int)sizeof(scalar), 16 / (int)sizeof(scalar));\\
        }
    #endif
    SQUARE(float)
    SQUARE(double)
    PARTS(float)
    PARTS(double)

    /* Asks for a cache line that is read soon, where no hardware would foresee it, into a level 2 cache, or the nearest.  The empty statement
       has an effect, as far as GCC knows: functions that do nothing else are left out if they have none. */
    #if defined(__GNUC__)
    static inline void fetch(const void *line) {
        __builtin_prefetch(line, 0, 2);
        __asm__ volatile("");
    }
    static inline void fetch_near(const void *line) {
        __builtin_prefetch(line, 0, 3);
        __asm__ volatile("");
    }
    #else
    static inline void fetch(const void *line) { (void)line; }
    static inline void fetch_near(const void *line) { (void)line; }
    #endif

    /* The same for a line that is written soon: taken away from whoever has it.  Compilers know the instruction if they are told that all
       processors do; those of x86-64 that do not, do nothing. */
    static inline void fetch_to_write(void *line) {
    #if defined(__GNUC__) && defined(__x86_64__)
        __asm__ volatile("prefetchw %0" : : "m"(*(char *)line));
    #elif defined(__GNUC__)
        __builtin_prefetch(line, 1, 2);
        __asm__ volatile("");
    #else
        (void)line;
    #endif
    }

    static APART void fetch_run(const void *from, size_t bytes) {
        for (size_t i = 0; i < bytes; i += LANE_BYTES)
            fetch((const char *)from + i);
    }

    /* Pixels that lie together, of `lanes` channels, to lane vectors, whose other lanes become zero, and back.  Functions of their
       own, whatever compilers think of inlining them: inlined or not makes a tenth of a forward pass.  Where a line of a plane is more than
       one square, these follow each other, and not those of other planes: 3 to 20 % with AVX2.  Of large planes lines `ahead` are fetched, which
       hardware does not do soon enough for 16 of them. */
    #define LARGE_PLANE 2048 /* elements */
    #define TURN_TO(scalar)                                                                                            \\
        static APART void to_lanes_##scalar(const scalar *from, ptrdiff_t channel, int lanes, ptrdiff_t pixels, ptrdiff_t ahead,\\
                                            scalar *to) {                                                              \\
            const int n = VECTOR_BYTES / (int)sizeof(scalar), all = LANE_BYTES / (int)sizeof(scalar);                  \\
            for (ptrdiff_t i = 0; i < pixels; i += all) {                                                              \\
                if (channel > LARGE_PLANE)                                                                             \\
                    for (int l = 0; l < lanes; l++)                                                                    \\
                        fetch_near(from + l * channel + i + ahead);                                                    \\
                for (int l = 0; l < all; l += n)                                                                       \\
                    for (int j = 0; j < all && (j == 0 || i + j < pixels); j += n) {                                   \\
                        ptrdiff_t x = i + j < pixels - n ? i + j : pixels - n; /* the last square overlaps the one before */\\
                        if (lanes == all)                                                                              \\
                            square_##scalar(from + l * channel + x, channel, n, to + x * all + l, all, n, 0);          \\
                        else                                                                                           \\
                            square_##scalar(from + (l < lanes ? l : 0) * channel + x, channel, lanes - l, to + x * all + l, all, n, 0);\\
                    }                                                                                                  \\
            }                                                                                                          \\
        }
    /* The first of them for long runs of large planes, which come from memory: whole lines of a few planes at a time, and the lines that are
       needed soon asked for together.  A forward pass takes 0.88 to 0.98 of what it takes with squares, whatever is fetched how far ahead of
       those.  In cache parts take a sixth longer, and windows, whose lines are waited for, a tenth.  Fetched into a level 2 cache before: 1.04.
       Loops over planes unrolled, or eight planes at a time: 1.1 to 1.3.  One macro for this loop and the one above, which then is told how far
       ahead: 1.03 with AVX-512, and 1.16 with AVX2 if it asks how large planes are, too. */
    #define LONG_AHEAD 768 /* bytes */
    #define TURN_LONG(scalar)                                                                                          \\
        static APART void long_to_lanes_##scalar(const scalar *from, ptrdiff_t channel, int lanes, ptrdiff_t pixels, scalar *to) {\\
            enum { n = VECTOR_BYTES / sizeof(scalar), w = 16 / sizeof(scalar), all = LANE_BYTES / sizeof(scalar) };    \\
            for (ptrdiff_t i = 0; i < pixels; i += all) {                                                              \\
                for (int l = 0; l < lanes; l++)                                                                        \\
                    fetch_near(from + l * channel + i + LONG_AHEAD / (int)sizeof(scalar));                             \\
                for (int l = 0; l < all; l += w)                                                                       \\
                    for (int j = 0; j < all && (j == 0 || i + j < pixels); j += n) {                                   \\
                        ptrdiff_t x = i + j < pixels - n ? i + j : pixels - n;                                         \\
                        if (lanes == all)                                                                              \\
                            part_##scalar(from + l * channel + x, channel, w, to + x * all + l, all);                  \\
                        else                                                                                           \\
                            part_##scalar(from + (l < lanes ? l : 0) * channel + x, channel, lanes - l, to + x * all + l, all);\\
                    }                                                                                                  \\
            }                                                                                                          \\
        }
    #define TURN_FROM(scalar)                                                                                          \\
        static APART void from_lanes_##scalar(const scalar *from, ptrdiff_t pixels, int lanes, scalar *to, ptrdiff_t channel) {\\
            const int n = VECTOR_BYTES / (int)sizeof(scalar), all = LANE_BYTES / (int)sizeof(scalar);                  \\
            for (ptrdiff_t i = 0; i < pixels; i += all)                                                                \\
                for (int l = 0; l < all; l += n)                                                                       \\
                    for (int j = 0; j < all && (j == 0 || i + j < pixels); j += n) {                                   \\
                        ptrdiff_t x = i + j < pixels - n ? i + j : pixels - n;                                         \\
                        if (lanes == all)                                                                              \\
                            square_##scalar(from + x * all + l, all, n, to + l * channel + x, channel, n, 0);          \\
                        else                                                                                           \\
                            square_##scalar(from + x * all + l, all, n, to + (l < lanes ? l : 0) * channel + x, channel, lanes - l, 0);\\
                    }                                                                                                  \\
        }
    TURN_TO(float)
    TURN_TO(double)
    TURN_LONG(float)
    TURN_LONG(double)
    TURN_FROM(float)
    TURN_FROM(double)

    /* The second of them past the caches, the ends of runs excepted; 0 where planes differ in where their lines begin, or there is too little
       of them. */
    #define TURN_PAST(scalar)                                                                                          \\
        static APART int past_from_lanes_##scalar(const scalar *from, ptrdiff_t pixels, int lanes, scalar *to, ptrdiff_t channel) {\\
            enum { n = VECTOR_BYTES / sizeof(scalar), all = LANE_BYTES / sizeof(scalar) };                             \\
            ptrdiff_t x = (ptrdiff_t)(-(uintptr_t)to % LANE_BYTES / sizeof(scalar)); /* where a line begins */         \\
            if (lanes < all || channel % all != 0 || pixels < 2 * all)                                                 \\
                return 0;                                                                                              \\
            if (x > 0)                                                                                                 \\
                from_lanes_##scalar(from, all, all, to, channel);                                                      \\
            for (; x + all <= pixels; x += all)                                                                        \\
                for (int l = 0; l < all; l += n)                                                                       \\
                    for (int i = 0; i < all; i += n) /* lines are filled at once */                                    \\
                        square_##scalar(from + (x + i) * all + l, all, n, to + l * channel + x + i, channel, n, 1);    \\
            if (x < pixels)                                                                                            \\
                from_lanes_##scalar(from + (pixels - all) * all, all, all, to + pixels - all, channel);                \\
            return 1;                                                                                                  \\
        }
    TURN_PAST(float)
    TURN_PAST(double)

    /* The first of them for fewer pixels than a vector has room for.  Where there are masks to load as many, all 16 loads, which most often
       miss every cache, are under way at once. */
    #if VECTOR_BYTES == 64 && defined(HAVE_SHUFFLES)
    #define SOME_float(from, count) (float_vector) _mm512_maskz_loadu_ps((__mmask16)((1u << (count)) - 1), from)
    #define SOME_double(from, count) (double_vector) _mm512_maskz_loadu_pd((__mmask8)((1u << (count)) - 1), from)
    #define TAKE(scalar, to, from, count) *(scalar##_vector_anywhere *)(to) = SOME_##scalar(from, count)
    #else
    #define TAKE(scalar, to, from, count) memcpy(to, from, (count) * sizeof(scalar))
    #endif
    #define TURN_FEW(scalar)                                                                                           \\
        static APART void few_to_lanes_##scalar(const scalar *from, ptrdiff_t channel, int lanes, ptrdiff_t pixels, ptrdiff_t ahead,\\
                                                scalar *to) {                                                          \\
            enum { n = VECTOR_BYTES / sizeof(scalar), all = LANE_BYTES / sizeof(scalar) };                             \\
            scalar runs[all * n] = {0};                                                                                \\
            if (channel > LARGE_PLANE)                                                                                 \\
                for (int l = 0; l < lanes; l++) {                                                                      \\
                    fetch(from + l * channel + ahead);                                                                 \\
                    fetch(from + l * channel + ahead + pixels - 1);                                                    \\
                }                                                                                                      \\
            for (int l = 0; l < lanes; l++)                                                                            \\
                TAKE(scalar, runs + l * n, from + l * channel, pixels);                                                \\
            for (int l = 0; l < all; l += n)                                                                           \\
                square_##scalar(runs + (l < lanes ? l : 0) * n, n, lanes - l, to + l, all, (int)pixels, 0);            \\
        }
    TURN_FEW(float)
    TURN_FEW(double)

    /* The same of planes that lie a multiple of 4 KB apart, as those of 32 x 32 or 64 x 64 pixels do: the same line of each falls into
       the same set of a level 1 cache, which has room for 8 or 12.  Here squares follow each other along four lines of pixels first,
       which takes half of the time if the map is in cache, and from line to line, since a line that two squares share is gone before the
       second comes: a sixth of `align_tiny` with AVX-512, where a square is as wide as a line.  Other planes are better turned as above,
       one line at a time; the two ways in one function cost that a tenth.  Whole squares by themselves: a sixteenth of the
       instructions of `align_tiny`.  Of large planes the lines after the next four are fetched, 3 to 5 % of a forward pass; farther
       ahead gains nothing, since those of 256 x 256 pixels collide in a level 2 cache too. */
    #define COLLIDING_BYTES 4096
    #define TURN_ALONG(scalar)                                                                                         \\
        static APART void turn_along_##scalar(const scalar *from, scalar *to, ptrdiff_t channel, int lanes, ptrdiff_t pixels,\\
                                              int back) {                                                              \\
            const int n = VECTOR_BYTES / (int)sizeof(scalar), all = LANE_BYTES / (int)sizeof(scalar);                  \\
            const size_t past = (uintptr_t)(back ? to : from) % LANE_BYTES / sizeof(scalar); /* the start of a line */ \\
            for (ptrdiff_t i = -(ptrdiff_t)past; i < pixels; i += 4 * all) {                                           \\
                if (channel > LARGE_PLANE && !back)                                                                    \\
                    for (int l = 0; l < lanes; l++)                                                                    \\
                        for (int j = 0; j < 4 * all; j += all)                                                         \\
                            fetch(from + l * channel + i + j + 8 * all);                                               \\
                for (int l = 0; l < lanes || (l < all && !back); l += n)                                               \\
                    for (ptrdiff_t j = i; j < pixels && j < i + 4 * all; j += n) {                                     \\
                        if (j <= -n)                                                                                   \\
                            continue;                                                                                  \\
                        ptrdiff_t x = j < 0 ? 0 : j < pixels - n ? j : pixels - n;                                     \\
                        ptrdiff_t first = (l < lanes ? l : 0) * channel + x;                                           \\
                        if (back && lanes == all)                                                                      \\
                            square_##scalar(from + x * all + l, all, n, to + first, channel, n, 0);                    \\
                        else if (lanes == all)                                                                         \\
                            square_##scalar(from + first, channel, n, to + x * all + l, all, n, 0);                    \\
                        else if (back)                                                                                 \\
                            square_##scalar(from + x * all + l, all, n, to + first, channel, lanes - l, 0);            \\
                        else                                                                                           \\
                            square_##scalar(from + first, channel, lanes - l, to + x * all + l, all, n, 0);            \\
                    }                                                                                                  \\
            }                                                                                                          \\
        }
    TURN_ALONG(float)
    TURN_ALONG(double)

    /* GCC unrolls some loops over lanes before it would vectorise them, unless told not to.  Which products are fused into
       sums is written out, and no other contraction allowed (setup.py): sums have the same bits wherever they stand. */
    #if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    #define FUSED_float(a, b, c) __builtin_fmaf(a, b, c)
    #define FUSED_double(a, b, c) __builtin_fma(a, b, c)
    #else
    #define FUSED_float(a, b, c) ((a) * (b) + (c))
    #define FUSED_double(a, b, c) ((a) * (b) + (c))
    #endif
    #if defined(__AVX512F__)
    #define FUSED_float_vector(a, b, c) _mm512_fmadd_ps(a, b, c)
    #define FUSED_double_vector(a, b, c) _mm512_fmadd_pd(a, b, c)
    #elif defined(__AVX__) && defined(__FMA__)
    #define FUSED_float_vector(a, b, c) _mm256_fmadd_ps(a, b, c)
    #define FUSED_double_vector(a, b, c) _mm256_fmadd_pd(a, b, c)
    #elif defined(__aarch64__)
    #define FUSED_float_vector(a, b, c) vfmaq_f32(c, a, b)
    #define FUSED_double_vector(a, b, c) vfmaq_f64(c, a, b)
    #else
    #define FUSED_float_vector(a, b, c) ((a) * (b) + (c))
    #define FUSED_double_vector(a, b, c) ((a) * (b) + (c))
    #endif
    #define ADD_PRODUCT(scalar)                                                                                        \\
        static inline void add_product_##scalar(scalar *sums, scalar weight, const scalar *values) {                   \\
            _Pragma("omp simd") for (int l = 0; l < LANE_BYTES / (int)sizeof(scalar); l++)                             \\
                sums[l] = FUSED_##scalar(weight, values[l], sums[l]);                                                  \\
        }
    ADD_PRODUCT(float)
    ADD_PRODUCT(double)

    /* Copies past the caches, for results too large to be found there again, a few lines at a time while something else is computed: stores that
       follow each other wait for memory, a tenth or more of a forward pass. */
    struct pending {
        char *to;
        size_t left; /* whole lines; between the pointers, which GCC else advances as a vector of two */
        const char *from;
        size_t at_once;
    };
    static inline void stream_some(struct pending *run) {
        if (run->left == 0)
            return;
        char *to = run->to; /* where stores of bytes cannot change them */
        const char *from = run->from;
        size_t now = run->left < run->at_once ? run->left : run->at_once;
        for (size_t i = 0; i < now; i += LANE_BYTES)
            for (int j = 0; j < LANE_BYTES; j += VECTOR_BYTES)
                STREAM(to + i + j, *(const float_vector_anywhere *)(from + i + j));
        run->to = to + now;
        run->left -= now;
        run->from = from + now;
    }
    static inline void stream_rest(struct pending *run) {
        run->at_once = run->left;
        stream_some(run);
    }
    /* What is pending is as good as written, and `from` is not to be changed; turns: in how many it is done.  What does not fill a
       line at either end is copied at once. */
    static inline void stream_later(struct pending *run, void *to, const void *from, size_t bytes, int turns) {
        size_t head = (size_t)(-(uintptr_t)to & (LANE_BYTES - 1));
        if (head > bytes)
            head = bytes;
        size_t tail = (bytes - head) % LANE_BYTES;
        memcpy(to, from, head);
        memcpy((char *)to + bytes - tail, (const char *)from + bytes - tail, tail);
        run->to = (char *)to + head;
        run->from = (const char *)from + head;
        run->left = bytes - head - tail;
        run->at_once = (run->left / turns + LANE_BYTES) / LANE_BYTES * LANE_BYTES;
    }
    static inline void stream(void *to, const void *from, size_t bytes) {
        struct pending run;
        stream_later(&run, to, from, bytes, 1);
        stream_rest(&run);
    }

    /* One primitive contracts either axis of a box: to[i] (add: +=) sum over j of weight[j] * from[i * step + index[j] * stride], lane
       vectors all.  The forward pass goes through it for all bins of an axis, or for one bin along both axes, in functions of their own:
       there each turn of a loop consists of its loads, products and stores and of two or three additions of offsets, where GCC keeps a
       pointer a tap, and spills some, if the loops are inlined in larger functions.  So do gradients for some pixels of an axis at a time,
       channels last, where a pixel is a longer run, for those of a row.  What is read next can be fetched meanwhile, a line of each of so many
       runs for each vector. */
    #define MOST_RUNS 8
    /* Runs that are fetched meanwhile, in the order in which they are read: rows of in_row, of which each begins `step` after the one before,
       and the first of a row past_row after the last of the row before, in elements. */
    struct coming {
        const void *first;
        ptrdiff_t count, in_row, step, past_row;
    };
    #define WEIGH(scalar)                                                                                              \\
        static ALWAYS void weigh_##scalar(scalar *to, ptrdiff_t to_step, const scalar *from, ptrdiff_t step,           \\
                                          ptrdiff_t count, int taps, const int32_t *index, const scalar *weight,       \\
                                          ptrdiff_t stride, int add, const scalar *const *ahead, int runs) {           \\
            /* of 1 to 4 taps, which the compiler knows */                                                             \\
            enum { n = LANE_BYTES / sizeof(scalar) };                                                                  \\
            const scalar *a = from + index[0] * stride, *b = from + index[taps > 1 ? 1 : 0] * stride;                  \\
            const scalar *c = from + index[taps > 2 ? 2 : 0] * stride, *d = from + index[taps > 3 ? 3 : 0] * stride;   \\
            scalar wa = weight[0], wb = weight[taps > 1 ? 1 : 0], wc = weight[taps > 2 ? 2 : 0], wd = weight[taps > 3 ? 3 : 0];\\
            for (ptrdiff_t at = 0; count > 0; count--, at += step, to += to_step) {                                    \\
                scalar sums[n];                                                                                        \\
                for (int r = 0; r < runs; r++)                                                                         \\
                    fetch_near(ahead[r] + at);                                                                         \\
                if (add) {                                                                                             \\
                    for (int l = 0; l < n; l++)                                                                        \\
                        sums[l] = to[l];                                                                               \\
                    add_product_##scalar(sums, wa, a + at);                                                            \\
                } else {                                                                                               \\
                    _Pragma("omp simd") for (int l = 0; l < n; l++)                                                    \\
                        sums[l] = wa * a[at + l];                                                                      \\
                }                                                                                                      \\
                if (taps > 1)                                                                                          \\
                    add_product_##scalar(sums, wb, b + at);                                                            \\
                if (taps > 2)                                                                                          \\
                    add_product_##scalar(sums, wc, c + at);                                                            \\
                if (taps > 3)                                                                                          \\
                    add_product_##scalar(sums, wd, d + at);                                                            \\
                for (int l = 0; l < n; l++)                                                                            \\
                    to[l] = sums[l];                                                                                   \\
            }                                                                                                          \\
        }                                                                                                              \\
        static ALWAYS void contract_taps_##scalar(scalar *to, ptrdiff_t to_step, const scalar *from, ptrdiff_t step,   \\
                                                  ptrdiff_t count, ptrdiff_t taps, const int32_t *index,               \\
                                                  const scalar *weight, ptrdiff_t stride, int add,                     \\
                                                  const scalar *const *ahead, int runs) {                              \\
            if (!add) {                                                                                                \\
                if (taps == 2) {                                                                                       \\
                    weigh_##scalar(to, to_step, from, step, count, 2, index, weight, stride, 0, ahead, runs);          \\
                    return;                                                                                            \\
                }                                                                                                      \\
                if (taps == 3) {                                                                                       \\
                    weigh_##scalar(to, to_step, from, step, count, 3, index, weight, stride, 0, ahead, runs);          \\
                    return;                                                                                            \\
                }                                                                                                      \\
                if (taps == 1) {                                                                                       \\
                    weigh_##scalar(to, to_step, from, step, count, 1, index, weight, stride, 0, ahead, runs);          \\
                    return;                                                                                            \\
                }                                                                                                      \\
                if (taps == 0) {                                                                                       \\
                    for (ptrdiff_t i = 0; i < count; i++)                                                              \\
                        memset(to + i * to_step, 0, LANE_BYTES);                                                       \\
                    return;                                                                                            \\
                }                                                                                                      \\
                weigh_##scalar(to, to_step, from, step, count, 4, index, weight, stride, 0, ahead, runs);              \\
                index += 4, weight += 4, taps -= 4, runs = 0;                                                          \\
            }                                                                                                          \\
            for (; taps >= 4; index += 4, weight += 4, taps -= 4)                                                      \\
                weigh_##scalar(to, to_step, from, step, count, 4, index, weight, stride, 1, ahead, runs);              \\
            if (taps == 1)                                                                                             \\
                weigh_##scalar(to, to_step, from, step, count, 1, index, weight, stride, 1, ahead, runs);              \\
            else if (taps == 2)                                                                                        \\
                weigh_##scalar(to, to_step, from, step, count, 2, index, weight, stride, 1, ahead, runs);              \\
            else if (taps == 3)                                                                                        \\
                weigh_##scalar(to, to_step, from, step, count, 3, index, weight, stride, 1, ahead, runs);              \\
        }                                                                                                              \\
        static ALWAYS void contract_axis_##scalar(scalar *to, ptrdiff_t to_step, const scalar *from, ptrdiff_t step,   \\
                                                  ptrdiff_t count, ptrdiff_t taps, const int32_t *index,               \\
                                                  const scalar *weight, ptrdiff_t stride, int add) {                   \\
            contract_taps_##scalar(to, to_step, from, step, count, taps, index, weight, stride, add, NULL, 0);         \\
        }                                                                                                              \\
        static APART void contract_ahead_##scalar(scalar *to, const scalar *from, ptrdiff_t count, const int32_t *span,\\
                                                  const int32_t *index, const scalar *weight, ptrdiff_t stride,        \\
                                                  const scalar *ahead, ptrdiff_t first, ptrdiff_t stop) {              \\
            enum { n = LANE_BYTES / sizeof(scalar) };                                                                  \\
            const scalar *lines[MOST_RUNS];                                                                            \\
            int runs = 0;                                                                                              \\
            for (; runs < MOST_RUNS && first < stop; first++)                                                          \\
                lines[runs++] = ahead + index[first] * stride;                                                         \\
            contract_taps_##scalar(to, n, from, n, count, span[1] - span[0], index + span[0], weight + span[0], stride, 0,\\
                                   lines, runs);                                                                       \\
        }                                                                                                              \\
        static APART void contract_bins_##scalar(scalar *to, ptrdiff_t bin, ptrdiff_t to_step, const scalar *from,     \\
                                                 ptrdiff_t step, ptrdiff_t count, int bins, const int32_t *spans,      \\
                                                 const int32_t *index, const scalar *weight, ptrdiff_t stride,         \\
                                                 struct pending *run) {                                                \\
            for (; bins > 0; bins--, spans += 2, to += bin) {                                                          \\
                stream_some(run);                                                                                      \\
                contract_axis_##scalar(to, to_step, from, step, count, spans[1] - spans[0], index + spans[0],          \\
                                       weight + spans[0], stride, 0);                                                  \\
            }                                                                                                          \\
        }                                                                                                              \\
        static APART void spread_bins_##scalar(scalar *to, ptrdiff_t by_pixel, ptrdiff_t to_step, const scalar *from,  \\
                                               ptrdiff_t step, ptrdiff_t count, ptrdiff_t some, const int32_t *pixel,  \\
                                               const int32_t *spans, const int32_t *index, const scalar *weight,       \\
                                               ptrdiff_t stride) {                                                     \\
            for (; some > 0; some--, pixel++, spans += 2)                                                              \\
                contract_axis_##scalar(to + *pixel * by_pixel, to_step, from, step, count, spans[1] - spans[0],        \\
                                       index + spans[0], weight + spans[0], stride, 1);                                \\
        }                                                                                                              \\
        static APART void spread_row_##scalar(scalar *to, ptrdiff_t by_pixel, const scalar *from, ptrdiff_t count,     \\
                                              ptrdiff_t columns, const int32_t *pixel, const int32_t *spans,           \\
                                              const int32_t *index, const scalar *weight, ptrdiff_t stride,            \\
                                              ptrdiff_t below, const struct coming *bins) {                            \\
            enum { n = LANE_BYTES / sizeof(scalar) };                                                                  \\
            const scalar *lines[MOST_RUNS], *next = (const scalar *)bins->first;                                       \\
            ptrdiff_t due = 0, left = bins->in_row;                                                                    \\
            for (ptrdiff_t x = 0; x < columns; x++) {                                                                  \\
                scalar *at = to + pixel[x] * by_pixel;                                                                 \\
                ptrdiff_t first = spans[2 * x], taps = spans[2 * x + 1] - first;                                       \\
                int runs = 0;                                                                                          \\
                /* evenly: a bin whenever the pixels so far make one */                                                \\
                for (due += bins->count; due >= columns && runs < MOST_RUNS - 1; due -= columns) {                     \\
                    lines[runs++] = next;                                                                              \\
                    next += --left ? bins->step : bins->past_row;                                                      \\
                    left = left ? left : bins->in_row;                                                                 \\
                }                                                                                                      \\
                if (below)                                                                                             \\
                    lines[runs++] = at + below;                                                                        \\
                /* a loop over no runs would cost a twentieth, over a single one a fiftieth */                         \\
                if (runs == 0)                                                                                         \\
                    contract_axis_##scalar(at, n, from, n, count, taps, index + first, weight + first, stride, 1);     \\
                else if (runs == 1)                                                                                    \\
                    contract_taps_##scalar(at, n, from, n, count, taps, index + first, weight + first, stride, 1, lines, 1);\\
                else                                                                                                   \\
                    contract_taps_##scalar(at, n, from, n, count, taps, index + first, weight + first, stride, 1, lines, runs);\\
            }                                                                                                          \\
        }                                                                                                              \\
        static APART void contract_bin_##scalar(scalar *to, scalar *strip, const scalar *from, ptrdiff_t row,          \\
                                                ptrdiff_t column, ptrdiff_t x0, ptrdiff_t columns,                     \\
                                                const int32_t *span_y, const int32_t *span_x, const int32_t *index,    \\
                                                const scalar *weight) {                                                \\
            enum { n = LANE_BYTES / sizeof(scalar) };                                                                  \\
            contract_axis_##scalar(strip, n, from, column, columns, span_y[1] - span_y[0],                             \\
                                   index + span_y[0], weight + span_y[0], row, 0);                                     \\
            contract_axis_##scalar(to, n, strip - x0 * n, n, 1, span_x[1] - span_x[0], index + span_x[0],              \\
                                   weight + span_x[0], n, 0);                                                          \\
        }
    WEIGH(float)
    WEIGH(double)

    /* The gradient of the boxes.  Taps are correlated with a bin's gradient, as many at once as registers have room for, and sums over channels
       folded to FOLDED_BYTES of lanes, which are multiplied with weights and slopes and only then added up.  In vectors: of loops over lanes
       Clang makes other vectors, for the sake of how they are folded, and spills them, which takes up to 2.5 times as long. */
    #define FOLDED_BYTES 16
    #define MOST_TAPS 64
    #define EACH_TAP(scalar, of)                                                                                       \\
        of(scalar, 0)                                                                                                  \\
        if (taps > 1) of(scalar, 1)                                                                                    \\
        if (taps > 2) of(scalar, 2)                                                                                    \\
        if (taps > 3) of(scalar, 3)                                                                                    \\
        if (taps > 4) of(scalar, 4)                                                                                    \\
        if (taps > 5) of(scalar, 5)
    #define LOAD(scalar, from, v) ((const scalar##_vector_anywhere *)(from))[v]
    #define PUT(scalar, to, v) ((scalar##_vector_anywhere *)(to))[v]
    #define FIRST_PRODUCTS(scalar, t)                                                                                  \\
        {                                                                                                              \\
            pixel[t] = from + at[t];                                                                                   \\
            for (int v = 0; v < w; v++)                                                                                \\
                sums[t][v] = LOAD(scalar, pixel[t], v) * LOAD(scalar, by, v);                                          \\
        }
    #define NEXT_PRODUCTS(scalar, t)                                                                                   \\
        for (int v = 0; v < w; v++)                                                                                    \\
            sums[t][v] = FUSED_##scalar##_vector(LOAD(scalar, pixel[t] + i, v), LOAD(scalar, by, v), sums[t][v]);
    #define FOLD(scalar, t) fold_##scalar(folded + t * m, (const scalar *)sums[t]);
    #define CORRELATE(scalar)                                                                                          \\
        static ALWAYS void fold_##scalar(scalar *folded, const scalar *sums) {                                         \\
            enum { n = LANE_BYTES / sizeof(scalar), m = FOLDED_BYTES / sizeof(scalar) };                               \\
            scalar half[n / 2];                                                                                        \\
            _Pragma("omp simd") for (int l = 0; l < n / 2; l++)                                                        \\
                half[l] = sums[l] + sums[l + n / 2];                                                                   \\
            _Pragma("omp simd") for (int l = 0; l < m; l++)                                                            \\
                folded[l] = half[l] + half[l + m];                                                                     \\
        }                                                                                                              \\
        static ALWAYS void add_folded_##scalar(scalar *sums, scalar weight, const scalar *values) {                    \\
            _Pragma("omp simd") for (int l = 0; l < FOLDED_BYTES / (int)sizeof(scalar); l++)                           \\
                sums[l] = FUSED_##scalar(weight, values[l], sums[l]);                                                  \\
        }                                                                                                              \\
        static ALWAYS void correlate_some_##scalar(scalar *folded, const scalar *by, ptrdiff_t by_step, const scalar *from, ptrdiff_t step,\\
                                                   ptrdiff_t count, const ptrdiff_t *at, int taps) { /* of 1 to 6 taps, which the compiler knows */\\
            enum { w = LANE_BYTES / sizeof(scalar##_vector), m = FOLDED_BYTES / sizeof(scalar) };                      \\
            const scalar *pixel[6];                                                                                    \\
            scalar##_vector sums[6][w];                                                                                \\
            EACH_TAP(scalar, FIRST_PRODUCTS)                                                                           \\
            for (ptrdiff_t i = step; count > 1; count--, i += step) {                                                  \\
                by += by_step;                                                                                         \\
                EACH_TAP(scalar, NEXT_PRODUCTS)                                                                        \\
            }                                                                                                          \\
            EACH_TAP(scalar, FOLD)                                                                                     \\
        }                                                                                                              \\
        static ALWAYS void correlate_##scalar(scalar *folded, const scalar *by, ptrdiff_t by_step, const scalar *from, ptrdiff_t step,\\
                                              ptrdiff_t count, const ptrdiff_t *at, ptrdiff_t taps) {                  \\
            enum { m = FOLDED_BYTES / sizeof(scalar), most = VECTOR_BYTES > 16 ? 6 : 2 };                              \\
            for (; taps >= most; taps -= most, at += most, folded += most * m)                                         \\
                correlate_some_##scalar(folded, by, by_step, from, step, count, at, most);                             \\
            if (taps == 1)                                                                                             \\
                correlate_some_##scalar(folded, by, by_step, from, step, count, at, 1);                                \\
            else if (most > 2 && taps == 2)                                                                            \\
                correlate_some_##scalar(folded, by, by_step, from, step, count, at, 2);                                \\
            else if (most > 2 && taps == 3)                                                                            \\
                correlate_some_##scalar(folded, by, by_step, from, step, count, at, 3);                                \\
            else if (most > 2 && taps == 4)                                                                            \\
                correlate_some_##scalar(folded, by, by_step, from, step, count, at, 4);                                \\
            else if (most > 2 && taps == 5)                                                                            \\
                correlate_some_##scalar(folded, by, by_step, from, step, count, at, 5);                                \\
        }                                                                                                              \\
        static OPAQUE void add_slopes_##scalar(scalar *sums, const scalar *by, ptrdiff_t by_step, const scalar *from, ptrdiff_t step, ptrdiff_t count,\\
                                              ptrdiff_t stride_y, ptrdiff_t stride_x, ptrdiff_t rows, ptrdiff_t columns, const int32_t *index_y,\\
                                              const int32_t *index_x, const scalar *weight_y, const scalar *weight_x, const scalar *slope_y,\\
                                              const scalar *slope_x, ptrdiff_t entries) {                              \\
            enum { m = FOLDED_BYTES / sizeof(scalar) };                                                                \\
            ptrdiff_t at[MOST_TAPS];                                                                                   \\
            scalar folded[MOST_TAPS * m], by_y1[m], by_y2[m], by_x1[m], by_x2[m];                                      \\
            const scalar *values = folded;                                                                             \\
            ptrdiff_t *next = at;                                                                                      \\
            for (ptrdiff_t y = 0; y < rows; y++)                                                                       \\
                for (ptrdiff_t x = 0; x < columns; x++)                                                                \\
                    *next++ = index_y[y] * stride_y + index_x[x] * stride_x;                                           \\
            correlate_##scalar(folded, by, by_step, from, step, count, at, rows * columns);                            \\
            for (int l = 0; l < m; l++)                                                                                \\
                by_y1[l] = sums[l], by_y2[l] = sums[m + l], by_x1[l] = sums[2 * m + l], by_x2[l] = sums[3 * m + l];    \\
            for (ptrdiff_t y = 0; y < rows; y++) {                                                                     \\
                scalar of_weight[m] = {0}, of_low[m] = {0}, of_high[m] = {0};                                          \\
                for (ptrdiff_t x = 0; x < columns; x++, values += m) {                                                 \\
                    add_folded_##scalar(of_weight, weight_x[x], values);                                               \\
                    add_folded_##scalar(of_low, slope_x[x], values);                                                   \\
                    add_folded_##scalar(of_high, slope_x[entries + x], values);                                        \\
                }                                                                                                      \\
                add_folded_##scalar(by_y1, slope_y[y], of_weight);                                                     \\
                add_folded_##scalar(by_y2, slope_y[entries + y], of_weight);                                           \\
                add_folded_##scalar(by_x1, weight_y[y], of_low);                                                       \\
                add_folded_##scalar(by_x2, weight_y[y], of_high);                                                      \\
            }                                                                                                          \\
            for (int l = 0; l < m; l++)                                                                                \\
                sums[l] = by_y1[l], sums[m + l] = by_y2[l], sums[2 * m + l] = by_x1[l], sums[3 * m + l] = by_x2[l];    \\
        }
    CORRELATE(float)
    CORRELATE(double)

    /* The same where lanes are bin rows: what neighbouring bins read has been contracted along y, with weights and with slopes by either edge.
       The sums are lane vectors, not folded before the last bin of a box: they have the same bits however many bins are looked at at once. */
    #define ALL(scalar, value) ((value) - (scalar##_vector){0})
    #define ROW_SLOPES(scalar)                                                                                         \\
        static OPAQUE void add_row_slopes_##scalar(scalar *sums, const scalar *by, const scalar *of_weight, const scalar *of_low,\\
                                                   const scalar *of_high, ptrdiff_t stride, int bins, const int32_t *spans,\\
                                                   const int32_t *index, const scalar *weight, const scalar *slope,    \\
                                                   ptrdiff_t entries) {                                                \\
            enum { n = LANE_BYTES / sizeof(scalar), w = LANE_BYTES / sizeof(scalar##_vector) };                        \\
            for (int v = 0; v < w; v++) {                                                                              \\
                scalar##_vector by_y1 = LOAD(scalar, sums, v), by_y2 = LOAD(scalar, sums + n, v);                      \\
                scalar##_vector by_x1 = LOAD(scalar, sums + 2 * n, v), by_x2 = LOAD(scalar, sums + 3 * n, v);          \\
                for (int b = 0; b < bins; b++) {                                                                       \\
                    scalar##_vector low = {0}, high = {0}, left = {0}, right = {0}, grad = LOAD(scalar, by + b * n, v);\\
                    if (spans[2 * b] == spans[2 * b + 1])                                                              \\
                        continue; /* whatever its gradient is */                                                       \\
                    for (ptrdiff_t j = spans[2 * b]; j < spans[2 * b + 1]; j++) {                                      \\
                        ptrdiff_t at = index[j] * stride;                                                              \\
                        scalar##_vector value = LOAD(scalar, of_weight + at, v);                                       \\
                        low = FUSED_##scalar##_vector(ALL(scalar, weight[j]), LOAD(scalar, of_low + at, v), low);      \\
                        high = FUSED_##scalar##_vector(ALL(scalar, weight[j]), LOAD(scalar, of_high + at, v), high);   \\
                        left = FUSED_##scalar##_vector(ALL(scalar, slope[j]), value, left);                            \\
                        right = FUSED_##scalar##_vector(ALL(scalar, slope[entries + j]), value, right);                \\
                    }                                                                                                  \\
                    by_y1 = FUSED_##scalar##_vector(grad, low, by_y1);                                                 \\
                    by_y2 = FUSED_##scalar##_vector(grad, high, by_y2);                                                \\
                    by_x1 = FUSED_##scalar##_vector(grad, left, by_x1);                                                \\
                    by_x2 = FUSED_##scalar##_vector(grad, right, by_x2);                                               \\
                }                                                                                                      \\
                PUT(scalar, sums, v) = by_y1;                                                                          \\
                PUT(scalar, sums + n, v) = by_y2;                                                                      \\
                PUT(scalar, sums + 2 * n, v) = by_x1;                                                                  \\
                PUT(scalar, sums + 3 * n, v) = by_x2;                                                                  \\
            }                                                                                                          \\
        }                                                                                                              \\
        static inline void fold_slopes_##scalar(scalar *folded, const scalar *sums) {                                  \\
            enum { n = LANE_BYTES / sizeof(scalar), m = FOLDED_BYTES / sizeof(scalar) };                               \\
            scalar some[m];                                                                                            \\
            for (int edge = 0; edge < 4; edge++) {                                                                     \\
                fold_##scalar(some, sums + edge * n);                                                                  \\
                for (int l = 0; l < m; l++)                                                                            \\
                    folded[edge * m + l] += some[l];                                                                   \\
            }                                                                                                          \\
        }
    ROW_SLOPES(float)
    ROW_SLOPES(double)

    #define KEEP_LARGER(scalar)                                                                                        \\
        static inline void keep_larger_##scalar(scalar *best, const scalar *values) {                                  \\
            _Pragma("omp simd") for (int l = 0; l < LANE_BYTES / (int)sizeof(scalar); l++)                             \\
                best[l] = values[l] > best[l] ? values[l] : best[l];                                                   \\
        }                                                                                                              \\
        static inline void keep_larger_at_##scalar(scalar *best, int32_t *at, const scalar *values, int32_t index) {   \\
            _Pragma("omp simd") for (int l = 0; l < LANE_BYTES / (int)sizeof(scalar); l++) {                           \\
                at[l] = values[l] > best[l] ? index : at[l];                                                           \\
                best[l] = values[l] > best[l] ? values[l] : best[l];                                                   \\
            }                                                                                                          \\
        }                                                                                                              \\
        static inline void keep_first_larger_##scalar(scalar *best, int32_t *at, const scalar *values,                 \\
                                                      const int32_t *indices) {                                        \\
            _Pragma("omp simd") for (int l = 0; l < LANE_BYTES / (int)sizeof(scalar); l++) {                           \\
                int wins = (values[l] > best[l]) | ((values[l] == best[l]) & (indices[l] < at[l]));                    \\
                at[l] = wins ? indices[l] : at[l];                                                                     \\
                best[l] = wins ? values[l] : best[l];                                                                  \\
            }                                                                                                          \\
        }
    KEEP_LARGER(float)
    KEEP_LARGER(double)

    /* plane[at[i] * step + i * by] += values[i] where at[i] is one of `some` pixels from `first` on; whether another one is neither -1 nor
       less than `all`.  What follows at at_next and values_next is asked for, since hardware does not find it in time.  Whole lane vectors at a
       time, without a loop or with a short one (`times` once more): loops over the 49 bins of a channel, one by one, end where processors do not
       foresee it, a sixth of the time.  Callers are functions of their own, since inlined they would lack registers, and tell the compiler what
       they know: one instruction less for each bin is a twentieth of the time. */
    #define ADD_RUN(scalar, name, times)                                                                               \\
        static ALWAYS int name(scalar *plane, ptrdiff_t step, ptrdiff_t by, const int32_t *at, const scalar *values,   \\
                               ptrdiff_t count, uint32_t first, uint32_t some, uint32_t all, const int32_t *at_next,   \\
                               const scalar *values_next) {                                                            \\
            enum { n = LANE_BYTES / sizeof(scalar) };                                                                  \\
            int bad = 0;                                                                                               \\
            ptrdiff_t i = 0;                                                                                           \\
            for (; i + n <= count; i += n) {                                                                           \\
                fetch(at_next + i);                                                                                    \\
                fetch(values_next + i);                                                                                \\
                _Pragma(times) for (int j = 0; j < n; j++)                                                             \\
                    bad |= add_one_##scalar(plane + (i + j) * by, step, at[i + j], values[i + j], first, some, all);   \\
            }                                                                                                          \\
            if (i < count) {                                                                                           \\
                fetch(at_next + i);                                                                                    \\
                fetch(values_next + i);                                                                                \\
            }                                                                                                          \\
            for (; i < count; i++)                                                                                     \\
                bad |= add_one_##scalar(plane + i * by, step, at[i], values[i], first, some, all);                     \\
            return bad;                                                                                                \\
        }
    #define ADD_AT(scalar)                                                                                             \\
        /* `at` is handed over by value: what is used is what was looked at */                                         \\
        static ALWAYS int add_one_##scalar(scalar *plane, ptrdiff_t step, int32_t at, scalar value, uint32_t first,    \\
                                           uint32_t some, uint32_t all) {                                              \\
            if ((uint32_t)at - first < some) {                                                                         \\
                plane[at * step] += value;                                                                             \\
                return 0;                                                                                              \\
            }                                                                                                          \\
            return at != -1 && (uint32_t)at >= all;                                                                    \\
        }                                                                                                              \\
        ADD_RUN(scalar, add_to_plane_##scalar, "GCC unroll 16")                                                        \\
        ADD_RUN(scalar, add_to_pixel_##scalar, "GCC unroll 4")                                                         \\
        static ALWAYS int add_to_planes_##scalar(scalar *plane, ptrdiff_t channel, const int32_t *at,                  \\
                                                 ptrdiff_t at_step, const scalar *values, ptrdiff_t step,              \\
                                                 ptrdiff_t channels, ptrdiff_t count, uint32_t first, uint32_t some,   \\
                                                 uint32_t all, const int32_t *at_next, const scalar *values_next) {    \\
            int bad = 0;                                                                                               \\
            for (ptrdiff_t c = 0; c < channels; c++)                                                                   \\
                bad |= add_to_plane_##scalar(plane + c * channel, 1, 0, at + c * at_step, values + c * step, count,    \\
                                             first, some, all, at_next + c * at_step, values_next + c * step);         \\
            return bad;                                                                                                \\
        }                                                                                                              \\
        /* Runs of bins, one for each channel, `step` apart, their indices at_step, and their planes `channel`. */     \\
        static APART int add_at_planes_##scalar(scalar *plane, ptrdiff_t channel, const int32_t *at, ptrdiff_t at_step,\\
                                                const scalar *values, ptrdiff_t step, ptrdiff_t channels,              \\
                                                ptrdiff_t count, uint32_t first, uint32_t some, uint32_t all,          \\
                                                const int32_t *at_next, const scalar *values_next) {                   \\
            if (some == all)                                                                                           \\
                return add_to_planes_##scalar(plane, channel, at, at_step, values, step, channels, count, 0, all, all, \\
                                              at_next, values_next);                                                   \\
            return add_to_planes_##scalar(plane, channel, at, at_step, values, step, channels, count, first, some, all,\\
                                          at_next, values_next);                                                       \\
        }                                                                                                              \\
        /* The channels of a pixel. */                                                                                 \\
        static APART int add_at_pixels_##scalar(scalar *plane, ptrdiff_t step, const int32_t *at, const scalar *values,\\
                                                ptrdiff_t count, uint32_t first, uint32_t some, uint32_t all,          \\
                                                const int32_t *at_next, const scalar *values_next) {                   \\
            if (some == all)                                                                                           \\
                return add_to_pixel_##scalar(plane, step, 1, at, values, count, 0, all, all, at_next, values_next);    \\
            return add_to_pixel_##scalar(plane, step, 1, at, values, count, first, some, all, at_next, values_next);   \\
        }
    ADD_AT(float)
    ADD_AT(double)

    /* Maps of small types, as float: exact, infinities and denormal numbers too, and NaN a quiet NaN.  Where processors have no instruction for
       it, half precision is taken apart by its bits, with no arithmetic on denormal floats, which a process may have switched off; compilers
       turn all of these loops into whole vectors. */
    static inline float float_of_bits(uint32_t bits) {
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    static inline uint32_t bits_of_float(float value) {
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    static inline float float_of_half(uint16_t half) {
        const uint32_t bias = (127 - 15) << 23, least = (127 - 14) << 23;
        uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
        uint32_t normal = (magnitude + (magnitude < (31u << 23) ? bias : 2 * bias)) | (uint32_t)(magnitude > (31u << 23)) << 22;
        uint32_t denormal = bits_of_float(float_of_bits(magnitude + least) - float_of_bits(least));
        return float_of_bits((magnitude < (1u << 23) ? denormal : normal) | (uint32_t)(half & 0x8000) << 16);
    }
    static inline void widen_halves(const uint16_t *from, ptrdiff_t count, float *to) {
        ptrdiff_t i = 0;
    #if defined(__F16C__)
        for (; i + 8 <= count; i += 8)
            _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    #endif
        for (; i < count; i++)
            to[i] = float_of_half(from[i]);
    }
    static inline void widen_bfloats(const uint16_t *from, ptrdiff_t count, float *to) {
        for (ptrdiff_t i = 0; i < count; i++)
            to[i] = float_of_bits((uint32_t)from[i] << 16);
    }
    static inline void widen_bytes(const uint8_t *from, ptrdiff_t count, float *to) {
        for (ptrdiff_t i = 0; i < count; i++)
            to[i] = from[i];
    }
    enum { HALF = 'e', BFLOAT = 'E', BYTE = 'B' }; /* NumPy's characters */
    static inline void widen_some(const char *from, int kind, ptrdiff_t count, float *to) {
        if (kind == HALF)
            widen_halves((const uint16_t *)from, count, to);
        else if (kind == BFLOAT)
            widen_bfloats((const uint16_t *)from, count, to);
        else
            widen_bytes((const uint8_t *)from, count, to);
    }

    /* And back, to the nearest, or the even one of two: from the number's bits, where half of the last bit that is kept and, if that is odd,
       the last bit of all are added first; of denormal halves, by an addition that leaves no more bits than those have. */
    static inline uint16_t half_of_float(float value) {
        const int32_t bias = (127 - 15) << 23, infinity = (127 + 16) << 23, least = (127 - 14) << 23, nan_from = 255 << 23;
        int32_t bits = (int32_t)bits_of_float(value), magnitude = bits & 0x7fffffff;
        int32_t bounded = magnitude < infinity ? magnitude : infinity;
        int32_t normal = (bounded - bias + 0xfff + (bounded >> 13 & 1)) >> 13;
        int32_t denormal = (int32_t)(bits_of_float(float_of_bits((uint32_t)bounded) + 0.5f) - bits_of_float(0.5f));
        int32_t number = magnitude < least ? denormal : normal;
        return (uint16_t)((bits >> 16 & 0x8000) | (magnitude > nan_from ? 0x7e00 | (magnitude >> 13 & 0x3ff) : number));
    }
    static inline uint16_t bfloat_of_float(float value) {
        uint32_t bits = bits_of_float(value);
        int nan = (int32_t)(bits & 0x7fffffff) > 255 << 23;
        return (uint16_t)(nan ? (bits >> 16 & 0x8000) | 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    static inline uint8_t byte_of_float(float value) {
        value = value > 0 ? value : 0;
        value = value < 255 ? value : 255;
        return (uint8_t)(int32_t)(value + 0x1p23f - 0x1p23f);
    }
    static inline void narrow_halves(const float *from, ptrdiff_t count, uint16_t *to) {
        ptrdiff_t i = 0;
    #if defined(__F16C__)
        for (; i + 8 <= count; i += 8)
            _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    #endif
        for (; i < count; i++)
            to[i] = half_of_float(from[i]);
    }
    static inline void narrow_bfloats(const float *from, ptrdiff_t count, uint16_t *to) {
        for (ptrdiff_t i = 0; i < count; i++)
            to[i] = bfloat_of_float(from[i]);
    }
    static inline void narrow_bytes(const float *from, ptrdiff_t count, uint8_t *to) {
        for (ptrdiff_t i = 0; i < count; i++)
            to[i] = byte_of_float(from[i]);
    }

    /* Memory that begins at a page, without aligned_alloc, which not every C library has. */
    static inline void *pages_alloc(size_t bytes) {
        void *block = malloc(bytes + PAGE_BYTES + sizeof(void *));
        if (!block)
            return NULL;
        void **aligned = (void **)(((uintptr_t)block + sizeof(void *) + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1));
        aligned[-1] = block;
        return aligned;
    }
    static inline void pages_free(void *aligned) {
        if (aligned)
            free(((void **)aligned)[-1]);
    }
    """
    enum: LANE_BYTES
    enum: PAGE_BYTES
    enum: VECTOR_BYTES
    enum: COLLIDING_BYTES
    enum: LARGE_PLANE
    enum: LONG_AHEAD
    enum: FOLDED_BYTES
    enum: MOST_TAPS
    enum: HALF                 # what the elements of a map are, if not of the type of the computation
    enum: BFLOAT
    enum: BYTE
    ctypedef struct Pending "struct pending":
        size_t left
    ctypedef struct Coming "struct coming":
        const void *first
        Py_ssize_t count
        Py_ssize_t in_row
        Py_ssize_t step
        Py_ssize_t past_row
    void to_lanes_float(const float *source, Py_ssize_t channel, int lanes, Py_ssize_t pixels, Py_ssize_t ahead, float *target) noexcept nogil
    void to_lanes_double(const double *source, Py_ssize_t channel, int lanes, Py_ssize_t pixels, Py_ssize_t ahead, double *target) noexcept nogil
    void from_lanes_float(const float *source, Py_ssize_t pixels, int lanes, float *target, Py_ssize_t channel) noexcept nogil
    void from_lanes_double(const double *source, Py_ssize_t pixels, int lanes, double *target, Py_ssize_t channel) noexcept nogil
    bint past_from_lanes_float(const float *source, Py_ssize_t pixels, int lanes, float *target, Py_ssize_t channel) noexcept nogil
    bint past_from_lanes_double(const double *source, Py_ssize_t pixels, int lanes, double *target, Py_ssize_t channel) noexcept nogil
    void long_to_lanes_float(const float *source, Py_ssize_t channel, int lanes, Py_ssize_t pixels, float *target) noexcept nogil
    void long_to_lanes_double(const double *source, Py_ssize_t channel, int lanes, Py_ssize_t pixels, double *target) noexcept nogil
    void few_to_lanes_float(const float *source, Py_ssize_t channel, int lanes, Py_ssize_t pixels, Py_ssize_t ahead, float *target) noexcept nogil
    void few_to_lanes_double(const double *source, Py_ssize_t channel, int lanes, Py_ssize_t pixels, Py_ssize_t ahead, double *target) noexcept nogil
    void turn_along_float(const float *source, float *target, Py_ssize_t channel, int lanes, Py_ssize_t pixels, bint back) noexcept nogil
    void turn_along_double(const double *source, double *target, Py_ssize_t channel, int lanes, Py_ssize_t pixels, bint back) noexcept nogil
    void add_slopes_float(float *sums, const float *by, Py_ssize_t by_step, const float *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t stride_y,
                          Py_ssize_t stride_x, Py_ssize_t rows, Py_ssize_t columns, const int32_t *index_y, const int32_t *index_x, const float *weight_y,
                          const float *weight_x, const float *slope_y, const float *slope_x, Py_ssize_t entries) noexcept nogil
    void add_slopes_double(double *sums, const double *by, Py_ssize_t by_step, const double *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t stride_y,
                           Py_ssize_t stride_x, Py_ssize_t rows, Py_ssize_t columns, const int32_t *index_y, const int32_t *index_x, const double *weight_y,
                           const double *weight_x, const double *slope_y, const double *slope_x, Py_ssize_t entries) noexcept nogil
    void add_row_slopes_float(float *sums, const float *by, const float *of_weight, const float *of_low, const float *of_high, Py_ssize_t stride,
                              int bins, const int32_t *spans, const int32_t *index, const float *weight, const float *slope, Py_ssize_t entries) noexcept nogil
    void add_row_slopes_double(double *sums, const double *by, const double *of_weight, const double *of_low, const double *of_high, Py_ssize_t stride,
                               int bins, const int32_t *spans, const int32_t *index, const double *weight, const double *slope,
                               Py_ssize_t entries) noexcept nogil
    void fold_slopes_float(float *folded, const float *sums) noexcept nogil
    void fold_slopes_double(double *folded, const double *sums) noexcept nogil
    void add_product_float(float *sums, float weight, const float *values) noexcept nogil
    void add_product_double(double *sums, double weight, const double *values) noexcept nogil
    void contract_axis_float(float *to, Py_ssize_t to_step, const float *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t taps,
                             const int32_t *index, const float *weight, Py_ssize_t stride, bint add) noexcept nogil
    void contract_axis_double(double *to, Py_ssize_t to_step, const double *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t taps,
                              const int32_t *index, const double *weight, Py_ssize_t stride, bint add) noexcept nogil
    void contract_ahead_float(float *to, const float *source, Py_ssize_t count, const int32_t *span, const int32_t *index, const float *weight,
                              Py_ssize_t stride, const float *ahead, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
    void contract_ahead_double(double *to, const double *source, Py_ssize_t count, const int32_t *span, const int32_t *index, const double *weight,
                               Py_ssize_t stride, const double *ahead, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
    void contract_bins_float(float *to, Py_ssize_t bin, Py_ssize_t to_step, const float *source, Py_ssize_t step, Py_ssize_t count, int bins,
                             const int32_t *spans, const int32_t *index, const float *weight, Py_ssize_t stride, Pending *run) noexcept nogil
    void contract_bins_double(double *to, Py_ssize_t bin, Py_ssize_t to_step, const double *source, Py_ssize_t step, Py_ssize_t count, int bins,
                              const int32_t *spans, const int32_t *index, const double *weight, Py_ssize_t stride, Pending *run) noexcept nogil
    void spread_bins_float(float *to, Py_ssize_t by_pixel, Py_ssize_t to_step, const float *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t some,
                           const int32_t *pixel, const int32_t *spans, const int32_t *index, const float *weight, Py_ssize_t stride) noexcept nogil
    void spread_bins_double(double *to, Py_ssize_t by_pixel, Py_ssize_t to_step, const double *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t some,
                            const int32_t *pixel, const int32_t *spans, const int32_t *index, const double *weight, Py_ssize_t stride) noexcept nogil
    void spread_row_float(float *to, Py_ssize_t by_pixel, const float *source, Py_ssize_t count, Py_ssize_t columns, const int32_t *pixel,
                          const int32_t *spans, const int32_t *index, const float *weight, Py_ssize_t stride, Py_ssize_t below, const Coming *bins) noexcept nogil
    void spread_row_double(double *to, Py_ssize_t by_pixel, const double *source, Py_ssize_t count, Py_ssize_t columns, const int32_t *pixel,
                           const int32_t *spans, const int32_t *index, const double *weight, Py_ssize_t stride, Py_ssize_t below, const Coming *bins) noexcept nogil
    void contract_bin_float(float *to, float *strip, const float *source, Py_ssize_t row, Py_ssize_t column, Py_ssize_t x0, Py_ssize_t columns,
                            const int32_t *span_y, const int32_t *span_x, const int32_t *index, const float *weight) noexcept nogil
    void contract_bin_double(double *to, double *strip, const double *source, Py_ssize_t row, Py_ssize_t column, Py_ssize_t x0, Py_ssize_t columns,
                             const int32_t *span_y, const int32_t *span_x, const int32_t *index, const double *weight) noexcept nogil
    void keep_larger_float(float *best, const float *values) noexcept nogil
    void keep_larger_double(double *best, const double *values) noexcept nogil
    void keep_larger_at_float(float *best, int32_t *at, const float *values, int32_t index) noexcept nogil
    void keep_larger_at_double(double *best, int32_t *at, const double *values, int32_t index) noexcept nogil
    void keep_first_larger_float(float *best, int32_t *at, const float *values, const int32_t *indices) noexcept nogil
    void keep_first_larger_double(double *best, int32_t *at, const double *values, const int32_t *indices) noexcept nogil
    bint add_at_planes_float(
        float *plane, Py_ssize_t channel, const int32_t *at, Py_ssize_t at_step, const float *values, Py_ssize_t step, Py_ssize_t channels,
        Py_ssize_t count, uint32_t first, uint32_t some, uint32_t all, const int32_t *at_next, const float *values_next) noexcept nogil
    bint add_at_planes_double(
        double *plane, Py_ssize_t channel, const int32_t *at, Py_ssize_t at_step, const double *values, Py_ssize_t step, Py_ssize_t channels,
        Py_ssize_t count, uint32_t first, uint32_t some, uint32_t all, const int32_t *at_next, const double *values_next) noexcept nogil
    bint add_at_pixels_float(
        float *plane, Py_ssize_t step, const int32_t *at, const float *values, Py_ssize_t count, uint32_t first, uint32_t some, uint32_t all,
        const int32_t *at_next, const float *values_next) noexcept nogil
    bint add_at_pixels_double(
        double *plane, Py_ssize_t step, const int32_t *at, const double *values, Py_ssize_t count, uint32_t first, uint32_t some, uint32_t all,
        const int32_t *at_next, const double *values_next) noexcept nogil
    void widen_some(const char *source, int kind, Py_ssize_t count, float *to) noexcept nogil
    void narrow_halves(const float *source, Py_ssize_t count, uint16_t *to) noexcept nogil
    void narrow_bfloats(const float *source, Py_ssize_t count, uint16_t *to) noexcept nogil
    void narrow_bytes(const float *source, Py_ssize_t count, uint8_t *to) noexcept nogil
    void stream(void *target, const void *source, size_t size) noexcept nogil
    void stream_later(Pending *run, void *target, const void *source, size_t size, int turns) noexcept nogil
    void stream_some(Pending *run) noexcept nogil
    void stream_rest(Pending *run) noexcept nogil
    void stream_end() noexcept nogil
    void fetch(const void *line) noexcept nogil
    void fetch_near(const void *line) noexcept nogil
    void fetch_to_write(void *line) noexcept nogil
    void fetch_run(const void *run, size_t size) noexcept nogil
    void *pages_alloc(size_t size) noexcept nogil
    void pages_free(void *block) noexcept nogil


cdef inline bint planes_collide(Py_ssize_t channel, real *_) noexcept nogil:
    """Whether channels so far apart are better turned along their pixels."""
    return channel * <Py_ssize_t>sizeof(real) % COLLIDING_BYTES == 0


cdef inline void turn_along(const real *source, real *target, Py_ssize_t channel, int lanes, Py_ssize_t pixels, bint back) noexcept nogil:
    """What to_lanes does, or from_lanes, along the pixels first."""
    if real is float:
        turn_along_float(source, target, channel, lanes, pixels, back)
    else:
        turn_along_double(source, target, channel, lanes, pixels, back)


cdef inline void to_lanes(const real *source, Py_ssize_t channel, int lanes, Py_ssize_t pixels, Py_ssize_t ahead, real *target) noexcept nogil:
    """Lane vectors of pixels that lie together, of `lanes` channels that lie `channel` apart; other lanes are zero.

    ahead: elements from a pixel to one that is needed soon, unless runs are long.
    """
    if pixels < VECTOR_BYTES // <Py_ssize_t>sizeof(real):
        if real is float:
            few_to_lanes_float(source, channel, lanes, pixels, ahead, target)
        else:
            few_to_lanes_double(source, channel, lanes, pixels, ahead, target)
    elif planes_collide(channel, target):
        turn_along(source, target, channel, lanes, pixels, False)
    elif channel > LARGE_PLANE and pixels * <Py_ssize_t>sizeof(real) > LONG_AHEAD:
        if real is float:
            long_to_lanes_float(source, channel, lanes, pixels, target)
        else:
            long_to_lanes_double(source, channel, lanes, pixels, target)
    elif real is float:
        to_lanes_float(source, channel, lanes, pixels, ahead, target)
    else:
        to_lanes_double(source, channel, lanes, pixels, ahead, target)


cdef inline void from_lanes(const real *source, Py_ssize_t pixels, int lanes, real *target, Py_ssize_t channel, bint past) noexcept nogil:
    """And back, of at least VECTOR_BYTES / sizeof(real) pixels; past: most of them past the caches if that can be."""
    if past:
        if real is float:
            past = past_from_lanes_float(source, pixels, lanes, target, channel)
        else:
            past = past_from_lanes_double(source, pixels, lanes, target, channel)
    if past:
        return
    if planes_collide(channel, target):
        turn_along(source, target, channel, lanes, pixels, True)
    elif real is float:
        from_lanes_float(source, pixels, lanes, target, channel)
    else:
        from_lanes_double(source, pixels, lanes, target, channel)


cdef inline void add_product(real *sums, real weight, const real *values) noexcept nogil:
    """sums += weight * values, rounded once where the instruction set can."""
    if real is float:
        add_product_float(sums, weight, values)
    else:
        add_product_double(sums, weight, values)


cdef inline void add_slopes(
        real *sums, const real *by, Py_ssize_t by_step, const real *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t stride_y, Py_ssize_t stride_x,
        Py_ssize_t first_y, Py_ssize_t stop_y, Py_ssize_t first_x, Py_ssize_t stop_x, const int32_t *index, const real *weight, const real *slope,
        Py_ssize_t entries) noexcept nogil:
    """sums[y1, y2, x1, x2] += the gradients by the edges of a bin, from these entries of both axes, FOLDED_BYTES of lanes each.

    S[y, x] = sum over i of source[i * step + y * stride_y + x * stride_x] * by[i * by_step], lane vectors all, i up to count.  They are sums of S
    times the weight of one axis and the slope of the other; slopes by the high edge lie `entries` after those by the low one.
    """
    cdef Py_ssize_t x, y, columns, rows
    y = first_y
    while y < stop_y:      # most often once: at most MOST_TAPS at a time
        rows = min(stop_y - y, max(MOST_TAPS // (stop_x - first_x), 1))
        x = first_x
        while x < stop_x:
            columns = min(stop_x - x, <Py_ssize_t>MOST_TAPS)
            if real is float:
                add_slopes_float(sums, by, by_step, source, step, count, stride_y, stride_x, rows, columns, index + y, index + x, weight + y, weight + x,
                                 slope + y, slope + x, entries)
            else:
                add_slopes_double(sums, by, by_step, source, step, count, stride_y, stride_x, rows, columns, index + y, index + x, weight + y, weight + x,
                                  slope + y, slope + x, entries)
            x += columns
        y += rows


cdef inline void add_row_slopes(
        real *sums, const real *by, const real *of_weight, const real *of_low, const real *of_high, Py_ssize_t stride, int bins,
        const int32_t *spans, const int32_t *index, const real *weight, const real *slope, Py_ssize_t entries) noexcept nogil:
    """The same of neighbouring bins where lanes are bin rows, sums: a lane vector for each edge, by: one for each bin.

    of_weight, of_low, of_high: what pixels, `stride` apart, add up to along y with the weights of the rows, and with their slopes by y1 and y2;
    spans: of bins along x.
    """
    if real is float:
        add_row_slopes_float(sums, by, of_weight, of_low, of_high, stride, bins, spans, index, weight, slope, entries)
    else:
        add_row_slopes_double(sums, by, of_weight, of_low, of_high, stride, bins, spans, index, weight, slope, entries)


cdef inline void fold_slopes(real *folded, const real *sums) noexcept nogil:
    """Add what add_row_slopes summed to what add_slopes sums."""
    if real is float:
        fold_slopes_float(folded, sums)
    else:
        fold_slopes_double(folded, sums)


cdef inline void contract_axis(
        real *to, Py_ssize_t to_step, const real *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t taps,
        const int32_t *index, const real *weight, Py_ssize_t stride, bint add) noexcept nogil:
    """to[i] = (add: +=) sum over j of weight[j] * source[i * step + index[j] * stride], lane vectors all, i up to count."""
    if real is float:
        contract_axis_float(to, to_step, source, step, count, taps, index, weight, stride, add)
    else:
        contract_axis_double(to, to_step, source, step, count, taps, index, weight, stride, add)


cdef inline void contract_ahead(
        real *to, const real *source, Py_ssize_t count, const int32_t *span, const int32_t *index, const real *weight, Py_ssize_t stride,
        const real *ahead, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    """The same for one bin, of vectors that follow each other.

    Meanwhile as many are fetched from ahead + index[j] * stride on, j from first to stop - 1, of at most MOST_RUNS entries.
    """
    if real is float:
        contract_ahead_float(to, source, count, span, index, weight, stride, ahead, first, stop)
    else:
        contract_ahead_double(to, source, count, span, index, weight, stride, ahead, first, stop)


cdef inline void contract_bins(
        real *to, Py_ssize_t bin, Py_ssize_t to_step, const real *source, Py_ssize_t step, Py_ssize_t count, int bins,
        const int32_t *spans, const int32_t *index, const real *weight, Py_ssize_t stride, Pending *run) noexcept nogil:
    """The same for neighbouring bins, whose results lie `bin` apart and whose taps are entries spans[b][0] to spans[b][1] - 1; before each
    some of what is pending is streamed."""
    if real is float:
        contract_bins_float(to, bin, to_step, source, step, count, bins, spans, index, weight, stride, run)
    else:
        contract_bins_double(to, bin, to_step, source, step, count, bins, spans, index, weight, stride, run)


cdef inline void spread_bins(
        real *to, Py_ssize_t by_pixel, Py_ssize_t to_step, const real *source, Py_ssize_t step, Py_ssize_t count, Py_ssize_t some, const int32_t *pixel,
        const int32_t *spans, const int32_t *index, const real *weight, Py_ssize_t stride) noexcept nogil:
    """The same, added to what is there, for some pixels of which each is read by the bins of a span."""
    if real is float:
        spread_bins_float(to, by_pixel, to_step, source, step, count, some, pixel, spans, index, weight, stride)
    else:
        spread_bins_double(to, by_pixel, to_step, source, step, count, some, pixel, spans, index, weight, stride)


cdef inline void spread_row(
        real *to, Py_ssize_t by_pixel, const real *source, Py_ssize_t count, Py_ssize_t columns, const int32_t *pixel, const int32_t *spans,
        const int32_t *index, const real *weight, Py_ssize_t stride, Py_ssize_t below, const Coming *bins) noexcept nogil:
    """The same for the pixels of a row, of vectors that follow each other.

    Meanwhile bins are fetched, at most MOST_RUNS - 1 beside a pixel, and what lies `below` each pixel, unless that is 0.
    """
    if real is float:
        spread_row_float(to, by_pixel, source, count, columns, pixel, spans, index, weight, stride, below, bins)
    else:
        spread_row_double(to, by_pixel, source, count, columns, pixel, spans, index, weight, stride, below, bins)


cdef inline void contract_bin(
        real *to, real *strip, const real *source, Py_ssize_t row, Py_ssize_t column, Py_ssize_t x0, Py_ssize_t columns,
        const int32_t *span_y, const int32_t *span_x, const int32_t *index, const real *weight) noexcept nogil:
    """One bin along both axes; its pixels lie at source + y * row + (x - x0) * column, x from x0 to x0 + columns - 1."""
    if real is float:
        contract_bin_float(to, strip, source, row, column, x0, columns, span_y, span_x, index, weight)
    else:
        contract_bin_double(to, strip, source, row, column, x0, columns, span_y, span_x, index, weight)


cdef inline void keep_larger(real *best, const real *values) noexcept nogil:
    """best = the larger of each lane; a NaN is not larger than anything."""
    if real is float:
        keep_larger_float(best, values)
    else:
        keep_larger_double(best, values)


cdef inline void keep_larger_at(real *best, int32_t *at, const real *values, int32_t index) noexcept nogil:
    """Likewise, and at = index where a value replaces the best."""
    if real is float:
        keep_larger_at_float(best, at, values, index)
    else:
        keep_larger_at_double(best, at, values, index)


cdef inline void keep_first_larger(real *best, int32_t *at, const real *values, const int32_t *indices) noexcept nogil:
    """Likewise, with an index a lane; of equals the smaller index stays."""
    if real is float:
        keep_first_larger_float(best, at, values, indices)
    else:
        keep_first_larger_double(best, at, values, indices)


cdef inline bint add_at_planes(
        real *plane, Py_ssize_t channel, const int32_t *at, Py_ssize_t at_step, const real *values, Py_ssize_t step, Py_ssize_t channels, Py_ssize_t count,
        uint32_t first, uint32_t some, uint32_t all, const int32_t *at_next, const real *values_next) noexcept nogil:
    """plane[c * channel + at[c * at_step + i]] += values[c * step + i] where the index is in [first, first + some); whether another one is neither -1
    nor in [0, all).  As many indices and values at at_next and values_next are fetched."""
    if real is float:
        return add_at_planes_float(plane, channel, at, at_step, values, step, channels, count, first, some, all, at_next, values_next)
    else:
        return add_at_planes_double(plane, channel, at, at_step, values, step, channels, count, first, some, all, at_next, values_next)


cdef inline bint add_at_pixels(
        real *plane, Py_ssize_t step, const int32_t *at, const real *values, Py_ssize_t count, uint32_t first, uint32_t some, uint32_t all,
        const int32_t *at_next, const real *values_next) noexcept nogil:
    """plane[at[i] * step + i] += values[i], and the same return value; what follows at at_next and values_next is fetched."""
    if real is float:
        return add_at_pixels_float(plane, step, at, values, count, first, some, all, at_next, values_next)
    else:
        return add_at_pixels_double(plane, step, at, values, count, first, some, all, at_next, values_next)


cdef inline Py_ssize_t element_bytes(int kind, real *_) noexcept nogil:
    if kind == BYTE:
        return 1
    if kind == HALF or kind == BFLOAT:
        return 2
    return sizeof(real)


cdef inline void widen(const char *source, int kind, Py_ssize_t count, real *to) noexcept nogil:
    """count elements of one of the small types, as the type of the computation, which is then float."""
    if real is float:
        widen_some(source, kind, count, to)
