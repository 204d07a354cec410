/*
 * What a counted process calls: callgrind's requests, and the bytes that are allocated.
 *
 * Allocations are counted in a process that loads this library before all others.
 */
#include <malloc.h>
#include <stddef.h>
#include <valgrind/callgrind.h>

void start_counting(void) {
    CALLGRIND_START_INSTRUMENTATION;
}

void forget_counts(void) {
    CALLGRIND_ZERO_STATS;
}

void write_counts(const char *name) {
    CALLGRIND_DUMP_STATS_AT(name);
}

void stop_counting(void) {
    CALLGRIND_STOP_INSTRUMENTATION;
}

/* glibc's own functions, behind those that this library replaces */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

static long bytes, least, most;

static void *counted(void *block) {
    long now = __atomic_add_fetch(&bytes, malloc_usable_size(block), __ATOMIC_RELAXED);
    if (now > most)
        most = now;
    return block;
}

void *malloc(size_t size) {
    return counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size) {
    return counted(__libc_calloc(count, size));
}

void free(void *block) {
    __atomic_sub_fetch(&bytes, malloc_usable_size(block), __ATOMIC_RELAXED);
    __libc_free(block);
}

void *realloc(void *block, size_t size) {
    __atomic_sub_fetch(&bytes, malloc_usable_size(block), __ATOMIC_RELAXED);
    return counted(__libc_realloc(block, size));
}

void *aligned_alloc(size_t alignment, size_t size) {
    return counted(__libc_memalign(alignment, size));
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = counted(__libc_memalign(alignment, size));
    return *block ? 0 : 12;
}

void forget_most_bytes(void) {
    least = most = bytes;
}

/* Returns the most bytes since then, beyond those that were there. */
long most_bytes(void) {
    return most - least;
}
