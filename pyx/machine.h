/* What the processor, the compiler, the OpenMP runtime and the system can do. */
#ifndef ROICY_MACHINE_H
#define ROICY_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
/* libgcc and compiler-rt ask the processor and, for the wide registers, the operating system */
static int supports_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}
static int supports_avx512(void) {
    return supports_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
static int supports_avx2(void) { return 0; }
static int supports_avx512(void) { return 0; }
#endif

#ifdef _OPENMP
#include <omp.h>
static const long openmp_version = _OPENMP;
#else
static const long openmp_version = 0;
static int omp_get_max_threads(void) { return 1; }
#endif

/* The OpenMP runtime of GCC keeps the idle threads of its team for the next parallel region, and
   waits for them for ever in a child of fork, where they do not exist.  So the thread that forks
   dismisses its team first; parent and child start new ones when they need them.  (Teams of other
   threads do not matter: those threads are not in the child.)  Where a team cannot be dismissed,
   the child works on one thread.

   LLVM's starts anew in a child, by what the environment says there, and has to be told again how
   long threads wait.  It also stands in for that of GCC, under the same name in Conda's
   distribution, or if it is loaded before. */
static int team_lost = 0;
#if defined(_OPENMP) && defined(__GNUC__) && !defined(_WIN32)
#include <pthread.h>
#include <stdio.h>
#if defined(__clang__)
#define IS_LLVMS 1
#elif defined(__ELF__)
extern int kmp_get_blocktime(void) __attribute__((weak));
extern void kmp_set_defaults(const char *) __attribute__((weak));
#define IS_LLVMS (kmp_get_blocktime != NULL && kmp_set_defaults != NULL)
#else
#define kmp_get_blocktime() 0
#define kmp_set_defaults(setting) (void)setting
#define IS_LLVMS 0
#endif
static __thread int dismissed = 0, milliseconds = 0;
static void before_fork(void) {
    if (IS_LLVMS)
        milliseconds = kmp_get_blocktime();
#if __GNUC__ >= 9
    else
        dismissed = omp_pause_resource_all(omp_pause_soft) == 0;
#endif
}
static void in_child(void) {
    char setting[40];
    if (IS_LLVMS) {
        snprintf(setting, sizeof(setting), "KMP_BLOCKTIME=%d", milliseconds);
        kmp_set_defaults(setting);
    } else
        team_lost = !dismissed;
}
static int watch_forks(void) { return pthread_atfork(before_fork, NULL, in_child); }
#else
#define IS_LLVMS 0
static int watch_forks(void) { return 0; }
#endif

/* Whether the system was told that it may take those pages, unless they are written to again. */
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

#if defined(__clang__)
#define COMPILER "Clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "GCC " __VERSION__
#else
#define COMPILER "unknown"
#endif

#endif
