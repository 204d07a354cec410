/* What the processor, the compiler, the OpenMP runtime and the system can do. */
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

#ifdef _OPENMP
#include <omp.h>
static const long openmp_version = _OPENMP;
#else
static const long openmp_version = 0;
static int omp_get_max_threads(void) { return 1; }
#endif

/* Returns how many processors the OpenMP runtime found when it was loaded, if it binds threads to
   them, and 0 otherwise.  Such a runtime has bound the first thread by now, whose affinity mask no
   longer tells how many processors the process has. */
static int bound_processors(void) {
#if defined(_OPENMP) && _OPENMP >= 201307 /* OpenMP 4.0 */
    return omp_get_proc_bind() != omp_proc_bind_false ? omp_get_num_procs() : 0;
#else
    return 0;
#endif
}

/* What has to be done when a process forks.

   GCC's OpenMP runtime keeps the idle threads of a team for the next parallel region.  A child of
   fork does not have these threads, but would wait for them for ever.  So the thread that forks
   dismisses its team first, and parent and child each start a new one when they need it.  (Teams of
   other threads do not matter, since those threads are not in the child.)  If the team cannot be
   dismissed, the child uses one thread.

   LLVM's runtime starts anew in a child.  It then reads the environment again, so the child tells
   it again how long threads wait.  LLVM's runtime may also be in use where GCC's was linked: Conda
   ships it under the name of GCC's, and a process may load it first. */
static int team_lost = 0;
#if defined(_OPENMP) && defined(__GNUC__) && !defined(_WIN32)
#include <pthread.h>
#include <stdio.h>
/* glibc 2.34 gave these functions new versions, which older systems lack.  The old ones are still
   there and do the same, so a wheel that asks for them works with glibc 2.17. */
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
#ifdef __x86_64__
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif
__asm__(".symver pthread_create, pthread_create@" OLDEST);
__asm__(".symver pthread_join, pthread_join@" OLDEST);
#endif
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
static __thread int last_team = 1; /* threads of the last team of this thread: only itself */
static void before_fork(void) {
    last_team = 1;
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

/* Returns how many threads of a team can start now, up to the wanted number.

   An OpenMP runtime ends the process if it cannot start a thread, for instance where a container
   has a limit of processes, or a process one of memory.  So the threads that the next team has
   beyond the last one are started on trial first.  An idle team keeps its threads, and a smaller
   team dismisses the others. */
static void *wait_for(void *gate) {
    pthread_mutex_lock((pthread_mutex_t *)gate);
    pthread_mutex_unlock((pthread_mutex_t *)gate);
    return NULL;
}
static int startable(int wanted) {
    enum { MOST_AT_ONCE = 1024 }; /* roicy/_machine/_threads.py allows no more */
    pthread_t on_trial[MOST_AT_ONCE];
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int count = 0;
    if (wanted > last_team) {
        pthread_mutex_lock(&gate);
        while (count < wanted - last_team && count < MOST_AT_ONCE &&
               pthread_create(&on_trial[count], NULL, wait_for, &gate) == 0)
            count++;
        pthread_mutex_unlock(&gate);
        for (int i = 0; i < count; i++)
            pthread_join(on_trial[i], NULL);
        wanted = last_team + count;
    }
    last_team = wanted;
    return wanted;
}
#else
#define IS_LLVMS 0
static int startable(int wanted) { return wanted; }
static int watch_forks(void) { return 0; }
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
