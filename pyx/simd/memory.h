/* Cache lines and pages: what is the same for every instruction set. */
#ifndef ROICY_MEMORY_H
#define ROICY_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANE_BYTES 64   /* bytes of a lane vector and of a cache line (R119) */
#define PAGE_BYTES 4096 /* bytes of the smallest pages that there are (R045) */

/* What the caller promises; debug builds look. */
#ifdef ROICY_DEBUG
#include <stdio.h>
#define ASSERT(promise)                                                                            \
    ((promise) ? (void)0 : (fputs("roicy: not " #promise "\n", stderr), abort()))
#else
#define ASSERT(promise) (void)(promise)
#endif

/* Whether a fault of this name is wanted.  tests/planted_faults.py lists the names, and makes a
   build that has the faults, to show that tests find such faults.  Other builds have none. */
#ifdef ROICY_PLANTED
static inline int is_planted(const char *name) {
    static const char *planted = NULL;
    if (!planted)
        planted = getenv("ROICY_PLANTED") ? getenv("ROICY_PLANTED") : "";
    return strcmp(planted, name) == 0;
}
#define PLANTED(name) is_planted(name)
#else
#define PLANTED(name) (0 & (int)sizeof(name)) /* so that compilers see the name used */
#endif

/* NOINLINE: never inlined, since the loops of such functions lose their registers in larger ones.
   FORCE_INLINE: always inlined, since these functions live on what their callers know.
   NOIPA: as NOINLINE, and no constant propagation from callers. */
#define NOINLINE __attribute__((noinline, unused))
#define FORCE_INLINE inline __attribute__((always_inline))
#if defined(__GNUC__) && !defined(__clang__)
#define NOIPA __attribute__((noipa, unused))
#else
#define NOIPA NOINLINE
#endif

/* Asks for a cache line that is read soon, into a level 2 cache.  It is for lines that no hardware
   would foresee.  The empty statement keeps GCC from leaving out functions that do nothing else. */
static inline void prefetch_l2(const void *line) {
    __builtin_prefetch(line, 0, 2);
    __asm__ volatile("");
}

/* Asks for a cache line that is read soon, into the level 1 cache. */
static inline void prefetch_l1(const void *line) {
    __builtin_prefetch(line, 0, 3);
    __asm__ volatile("");
}

/* Asks for a cache line that is written soon, and takes it away from other cores.  On x86-64 the
   instruction is spelt out, since compilers use it only if all processors that they compile for
   know it.  Processors of x86-64 that do not know it do nothing. */
static inline void prefetch_write(void *line) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(char *)line));
#else
    __builtin_prefetch(line, 1, 2);
    __asm__ volatile("");
#endif
}

/* Asks for all cache lines of a run of bytes. */
static NOINLINE void prefetch_run(const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += LANE_BYTES)
        prefetch_l2((const char *)from + i);
}

/* A copy past the caches, which is done a few cache lines at a time while something else is
   computed: stores that follow each other would wait for memory.  It is for results that are too
   large to be found in cache again.  vector.h has the functions. */
struct stream {
    char *to;
    /* Bytes of whole lines.  They are between the pointers, since GCC would advance two pointers
       that lie together as a vector. */
    size_t left;
    const char *from;
    size_t at_once; /* bytes */
};

/* Waits for all stores past the caches. */
static inline void stream_fence(void) {
#if defined(__SSE2__)
    __builtin_ia32_sfence();
#endif
}

/* Memory that begins at a page.  Not every C library has aligned_alloc. */
static inline void *pages_alloc(size_t bytes) {
    void *block = malloc(bytes + PAGE_BYTES + sizeof(void *));
    if (!block)
        return NULL;
    uintptr_t end = (uintptr_t)block + sizeof(void *) + PAGE_BYTES - 1;
    void **aligned = (void **)(end & ~(uintptr_t)(PAGE_BYTES - 1));
    aligned[-1] = block;
#ifdef ROICY_DEBUG /* so that what is read before it is written is NaN, or an index of nothing */
    memset(aligned, 0xff, bytes);
#endif
    return aligned;
}

static inline void pages_free(void *aligned) {
    if (aligned)
        free(((void **)aligned)[-1]);
}

#endif
