/* What the processor, the compiler and the system can do. */
#ifndef ROICY_MACHINE_H
#define ROICY_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
/* __builtin_cpu_supports asks the processor, and whether the system saves the wide registers.  The
   kernels are compiled for x86-64-v3 and x86-64-v4, which newer compilers know by these names. */
#if __GNUC__ >= 12 /* Clang says 4 */
#define SUPPORTS_V3 __builtin_cpu_supports("x86-64-v3")
#define SUPPORTS_V4 __builtin_cpu_supports("x86-64-v4")
#else
#define SUPPORTS_V3                                                                                \
    (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&                            \
     __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
#define SUPPORTS_V4                                                                                \
    (SUPPORTS_V3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&     \
     __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&                   \
     __builtin_cpu_supports("avx512vl"))
#endif
static int supports_avx2(void) {
    __builtin_cpu_init();
    return SUPPORTS_V3 != 0;
}
static int supports_avx512(void) {
    __builtin_cpu_init();
    return SUPPORTS_V4 != 0;
}
#else
static int supports_avx2(void) { return 0; }
static int supports_avx512(void) { return 0; }
#endif

/* Tells the system that it may take the whole pages of a block until they are written to again.
   Returns whether that succeeded. */
#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif
static int free_pages(void *start, size_t bytes) {
#if defined(__linux__) && defined(MADV_FREE)
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
              first = ((uintptr_t)start + page - 1) & ~(page - 1);
    uintptr_t stop = ((uintptr_t)start + bytes) & ~(page - 1);
    return first < stop && madvise((void *)first, stop - first, MADV_FREE) == 0;
#else
    (void)start, (void)bytes;
    return 0;
#endif
}

#ifdef ROICY_DEBUG
#define IS_DEBUG 1
#else
#define IS_DEBUG 0
#endif

#if defined(__clang__)
#define COMPILER "Clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "GCC " __VERSION__
#else
#define COMPILER "unknown"
#endif

#endif
