/* What systems call differently: locks, threads and clocks. */
#ifndef ROICY_SYSTEM_H
#define ROICY_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#define WIN32_LEAN_AND_MEAN
#include <process.h>
#include <windows.h>

typedef SRWLOCK mutex;
typedef CONDITION_VARIABLE condition;
#define MUTEX_READY SRWLOCK_INIT
#define CONDITION_READY CONDITION_VARIABLE_INIT
static inline int try_to_take(mutex *m) { return TryAcquireSRWLockExclusive(m); }
static inline void take_late(mutex *m) { AcquireSRWLockExclusive(m); }
static inline void give(mutex *m) { ReleaseSRWLockExclusive(m); }
static inline void wait_for(condition *c, mutex *m) {
    SleepConditionVariableSRW(c, m, INFINITE, 0);
}
static inline void wake_one(condition *c) { WakeConditionVariable(c); }
static inline void wake_all(condition *c) { WakeAllConditionVariable(c); }
static inline void let_others_run(void) { SwitchToThread(); }
static inline long long nanoseconds(void) {
    LARGE_INTEGER now, second;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&second);
    return (long long)(1e9 * (double)now.QuadPart / (double)second.QuadPart);
}
static unsigned __stdcall begin_thread(void *function) {
    ((void (*)(void))function)();
    return 0;
}
/* Starts a thread that nobody waits for, and returns whether that succeeded. */
static int start_thread(void (*function)(void), size_t stack_bytes) {
    uintptr_t thread = _beginthreadex(NULL, (unsigned)stack_bytes, begin_thread, (void *)function,
                                      STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
    return thread != 0 && CloseHandle((HANDLE)thread);
}
typedef int thread_id;
static thread_id this_thread(void) { return 0; }
static int thread_exists(thread_id id) { return id; }
static int limits_memory(void) { return 0; }
static int processors_of_process(void) {
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    return (int)system.dwNumberOfProcessors;
}
static void take_processors_of_process(void) {} /* threads have them from the process */

#else
#define EXPORTED
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
/* glibc 2.32 and 2.34 gave these functions new versions, which older systems lack.  The old ones
   are still there and do the same, so that a wheel may ask for them. */
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
#ifdef __x86_64__
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif
__asm__(".symver pthread_create, pthread_create@" OLDEST);
__asm__(".symver pthread_mutex_trylock, pthread_mutex_trylock@" OLDEST);
__asm__(".symver pthread_sigmask, pthread_sigmask@" OLDEST);
__asm__(".symver pthread_attr_setstacksize, pthread_attr_setstacksize@" OLDEST);
#endif

typedef pthread_mutex_t mutex;
typedef pthread_cond_t condition;
#define MUTEX_READY PTHREAD_MUTEX_INITIALIZER
#define CONDITION_READY PTHREAD_COND_INITIALIZER
static inline int try_to_take(mutex *m) { return pthread_mutex_trylock(m) == 0; }
static inline void take_late(mutex *m) { pthread_mutex_lock(m); }
static inline void give(mutex *m) { pthread_mutex_unlock(m); }
static inline void wait_for(condition *c, mutex *m) { pthread_cond_wait(c, m); }
static inline void wake_one(condition *c) { pthread_cond_signal(c); }
static inline void wake_all(condition *c) { pthread_cond_broadcast(c); }
static inline void let_others_run(void) { sched_yield(); }
static inline long long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}
static void *begin_thread(void *function) {
    ((void (*)(void))(uintptr_t)function)();
    return NULL;
}
/* Starts a thread that nobody waits for, and returns whether that succeeded.  Signals are left to
   the threads that others started, except those that say what a thread itself did.
   stack_bytes: 0 for the system's default. */
static int start_thread(void (*function)(void), size_t stack_bytes) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t others, before;
    int failed;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        sigdelset(&others, own[i]);
    if (pthread_attr_init(&attributes) != 0)
        return 0;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (stack_bytes != 0)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_sigmask(SIG_BLOCK, &others, &before);
    failed = pthread_create(&thread, &attributes, begin_thread, (void *)(uintptr_t)function);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return !failed;
}
/* Returns whether the process may have no more than some memory, so that stacks may lack it. */
static int limits_memory(void) {
    struct rlimit space, data;
    return getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur != RLIM_INFINITY ||
           getrlimit(RLIMIT_DATA, &data) != 0 || data.rlim_cur != RLIM_INFINITY;
}
#if defined(__linux__)
typedef long thread_id;
static thread_id this_thread(void) { return syscall(SYS_gettid); }
/* Returns whether the system still counts a thread, which it does for a while after its end. */
static int thread_exists(thread_id id) { return syscall(SYS_tgkill, getpid(), id, 0) == 0; }
/* The affinity mask of the process is that of its first thread.  8192 is more than Linux's most. */
typedef struct {
    unsigned long words[8192 / 8 / sizeof(unsigned long)];
} processor_mask;
static long mask_of_process(processor_mask *mask) {
    return syscall(SYS_sched_getaffinity, getpid(), sizeof(*mask), mask);
}
static int processors_of_process(void) {
    processor_mask mask;
    const long bytes = mask_of_process(&mask);
    int count = 0;
    for (long i = 0; i < bytes / (long)sizeof(unsigned long); i++)
        count += __builtin_popcountl(mask.words[i]);
    return count > 0 ? count : (int)sysconf(_SC_NPROCESSORS_ONLN);
}
static void take_processors_of_process(void) {
    processor_mask mask;
    const long bytes = mask_of_process(&mask);
    if (bytes > 0)
        syscall(SYS_sched_setaffinity, 0, bytes, &mask);
}
#else
typedef int thread_id;
static thread_id this_thread(void) { return 0; }
static int thread_exists(thread_id id) { return id; }
static int processors_of_process(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }
static void take_processors_of_process(void) {}
#endif
#endif

static inline void rest_shortly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Takes a lock that others hold for less time than it takes to sleep. */
static inline void take(mutex *m) {
    for (int tries = 0; tries < 100; tries++) {
        if (try_to_take(m))
            return;
        rest_shortly();
    }
    take_late(m);
}

#endif
