"""What this build and this processor can do."""

cdef extern from *:
    """
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
    static long openmp_version(void) { return _OPENMP; }
    #else
    static long openmp_version(void) { return 0; }
    #endif

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
    long openmp_version() noexcept
    const char *COMPILER


def supported():
    """The instruction sets that the processor and the operating system support, best first."""
    return [name for name, supports in (("avx512", supports_avx512()), ("avx2", supports_avx2()), ("baseline", True)) if supports]


def openmp():
    """The version of OpenMP that this was compiled with, as its _OPENMP, or 0."""
    return openmp_version()


def compiler():
    return COMPILER.decode()
