/* What the processor, the compiler and the system can do. */
#ifndef ROICY_MACHINE_H
#define ROICY_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__) && defined(_WIN32)
/* What __builtin_cpu_supports needs is in a library that clang-cl does not link. */
#include <cpuid.h>
enum { YMM = 0x6, ZMM = 0xe6 }; /* registers that the system saves, as XCR0 says */
static int supports(unsigned leaf_7, unsigned saved) {
    /* FMA, MOVBE, OSXSAVE, AVX, F16C */
    const unsigned leaf_1 = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29;
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & leaf_1) != leaf_1)
        return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & saved) != saved || !__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & 1u << 5))
        return 0; /* LZCNT */
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & leaf_7) == leaf_7;
}
/* BMI1, AVX2 and BMI2; and F, DQ, CD, BW and VL of AVX-512 */
#define LEAF_7_V3 (1u << 3 | 1u << 5 | 1u << 8)
#define LEAF_7_V4 (LEAF_7_V3 | 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31)
static int supports_avx2(void) { return supports(LEAF_7_V3, YMM); }
static int supports_avx512(void) { return supports(LEAF_7_V4, ZMM); }
#elif (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
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
#define COMPILED_BY "Clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILED_BY "GCC " __VERSION__
#else
#define COMPILED_BY "unknown"
#endif

#endif
