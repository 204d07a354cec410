"""What this build and this processor can do."""

from libc.limits cimport INT_MAX


cdef extern from *:
    """
    #include <stdint.h>
    #if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
    /* libgcc and compiler-rt ask the processor and, for the wide registers, the operating system */
    static int supports_avx2(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    }
    static int supports_avx512(void) {
        return supports_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
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

    /* The OpenMP runtime of GCC keeps the idle threads of its team for the next parallel region, and waits for them for ever
       in a child of fork, where they do not exist.  So the thread that forks dismisses its team first; parent and child start
       new ones when they need them.  (Teams of other threads do not matter: those threads are not in the child.)  Where a team
       cannot be dismissed, the child works on one thread.
       LLVM's starts anew in a child, by what the environment says there, and has to be told again how long threads wait.  It also
       stands in for that of GCC, under the same name in Conda's distribution, or if it is loaded before. */
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

    /* Whether the system was told that it may take those pages, as long as nobody writes to them again. */
    #if defined(__linux__)
    #include <sys/mman.h>
    #include <unistd.h>
    #endif
    static int free_pages(void *start, size_t bytes) {
    #if defined(__linux__) && defined(MADV_FREE)
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)start + page - 1) & ~(page - 1);
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
    """
    bint supports_avx2() noexcept
    bint supports_avx512() noexcept
    const long openmp_version
    const int team_lost
    int watch_forks() noexcept
    bint IS_LLVMS
    int free_pages(void *start, size_t bytes) noexcept nogil
    int omp_get_max_threads() noexcept nogil
    const char *COMPILER


def supported():
    """The instruction sets that the processor and the operating system support, best first."""
    return [name for name, supports in (("avx512", supports_avx512()), ("avx2", supports_avx2()), ("baseline", True)) if supports]


def openmp():
    """The version of OpenMP that this was compiled with, as its _OPENMP, or 0."""
    return openmp_version


cdef int at_start = omp_get_max_threads()
if watch_forks():
    raise MemoryError("no room for the handlers of fork")


def is_llvms():
    """Whether the OpenMP runtime is LLVM's, or Intel's, which is the same."""
    return IS_LLVMS


def most_threads():
    """The most threads that a call may use now: those that were set as a limit of the OpenMP runtime since it was loaded, by
    threadpoolctl for one, or 1 if there is no team to be had."""
    if not openmp_version or team_lost:
        return 1
    cdef int now = omp_get_max_threads()
    return now if now < at_start else INT_MAX


def free_lazily(unsigned char[::1] block):
    """Mark the pages of a block as free for the system to take, and their values as lost; False where no system would."""
    cdef bint done
    with nogil:
        done = free_pages(&block[0], block.shape[0])
    return done


def compiler():
    return COMPILER.decode()
