/*
 * What a counted process calls: callgrind's requests, and the bytes that are allocated.
 *
 * The process loads this library before all others, and sees the same machine everywhere: OpenMP's
 * runtime and NumPy allocate what the number of processors and the version of the kernel say, which
 * would move everything that is allocated later.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

static __thread int is_watched; /* the thread that counts */

void start_counting(void) {
    is_watched = 1;
    CALLGRIND_START_INSTRUMENTATION;
}

void forget_counts(void) { CALLGRIND_ZERO_STATS; }

void write_counts(const char *name) { CALLGRIND_DUMP_STATS_AT(name); }

void stop_counting(void) {
    CALLGRIND_STOP_INSTRUMENTATION;
    is_watched = 0;
}

/* glibc's own functions, behind those that this library replaces */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

/* Of the blocks that were allocated while they were watched: the bytes that were asked for.  What
   glibc makes of them depends on its free blocks. */
enum { SLOTS = 1 << 20, HOLDERS = 1 << 10 };
static struct {
    void *block;
    size_t size;
    int holder;
} blocks[SLOTS];
static int watched;
static long bytes, most, locks, used;
long running; /* the Python function that runs, by a number that its tracer gives it */

/* Who holds blocks: what called malloc, and for which Python function.  The first takes the rest.
 */
static struct {
    void *caller;
    long running, bytes, at_most;
} holders[HOLDERS];

static int holder_of(void *caller) {
    int holder = 1;
    while (holder < HOLDERS && holders[holder].caller &&
           (holders[holder].caller != caller || holders[holder].running != running))
        holder++;
    if (holder == HOLDERS)
        return 0;
    holders[holder].caller = caller;
    holders[holder].running = running;
    return holder;
}

static size_t slot_of(void *block) {
    size_t slot = (size_t)block / 16 % SLOTS;
    while (blocks[slot].block && blocks[slot].block != block)
        slot = (slot + 1) % SLOTS;
    if (blocks[slot].block == NULL && ++used == SLOTS) {
        fputs("counter.c: a call takes or gives back more than a million blocks\n", stderr);
        abort();
    }
    blocks[slot].block = block;
    return slot;
}

static void *counted(void *block, size_t size, void *caller) {
    if (watched && block) {
        const size_t slot = slot_of(block);
        blocks[slot].size = size;
        blocks[slot].holder = holder_of(caller);
        holders[blocks[slot].holder].bytes += size;
        bytes += size;
        if (bytes > most) {
            most = bytes;
            for (int i = 0; i < HOLDERS && (i == 0 || holders[i].caller); i++)
                holders[i].at_most = holders[i].bytes;
        }
    }
    return block;
}

static void *freed(void *block) {
    if (watched && block) {
        const size_t slot = slot_of(block);
        bytes -= blocks[slot].size;
        holders[blocks[slot].holder].bytes -= blocks[slot].size;
        blocks[slot].size = 0;
    }
    return block;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size) { return counted(__libc_malloc(size), size, CALLER); }

void *calloc(size_t count, size_t size) {
    return counted(__libc_calloc(count, size), count * size, CALLER);
}

void free(void *block) { __libc_free(freed(block)); }

void *realloc(void *block, size_t size) {
    return counted(__libc_realloc(freed(block), size), size, CALLER);
}

void *memalign(size_t alignment, size_t size) {
    return counted(__libc_memalign(alignment, size), size, CALLER);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return counted(__libc_memalign(alignment, size), size, CALLER);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = counted(__libc_memalign(alignment, size), size, CALLER);
    return *block ? 0 : 12;
}

void watch_bytes(void) {
    watched = 1;
    is_watched = 1;
    bytes = most = locks = used = 0;
    memset(blocks, 0, sizeof blocks);
    memset(holders, 0, sizeof holders);
}

/* Returns the most bytes since then, beyond those that were there. */
long most_bytes(void) {
    watched = is_watched = 0;
    return most;
}

/* Writes the bytes that holder i had when a call held most: "BYTES RUNNING OFFSET FILE".  Returns
   whether there is such a holder. */
int read_holder(int i, char *text, size_t size) {
    Dl_info found = {0};
    if (i >= HOLDERS || (i && !holders[i].caller))
        return 0;
    if (i)
        dladdr(holders[i].caller, &found);
    snprintf(text, size, "%ld %ld %ld %s", holders[i].at_most, holders[i].running,
             (long)((char *)holders[i].caller - (char *)found.dli_fbase),
             found.dli_fname ? found.dli_fname : "");
    return 1;
}

/* Functions at which a thread may wait for another one.  Each counts its calls by the thread that
   watches, and calls the one that it replaces: of glibc, or of GCC's OpenMP runtime, which only
   roicy's extensions have loaded.  How often other threads call them is a matter of chance. */
static void *next_of(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    return found ? found : dlsym(dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD), name);
}

#define COUNTED(type, name, parameters, arguments)                                                 \
    type name parameters {                                                                         \
        static type(*next) parameters;                                                             \
        if (next == NULL)                                                                          \
            next = (type(*) parameters)next_of(#name);                                             \
        locks += is_watched;                                                                       \
        return next arguments;                                                                     \
    }

COUNTED(int, pthread_mutex_lock, (pthread_mutex_t * lock), (lock))
COUNTED(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
COUNTED(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
COUNTED(int, pthread_spin_lock, (pthread_spinlock_t * lock), (lock))
COUNTED(int, sem_wait, (sem_t * lock), (lock))
COUNTED(int, sem_trywait, (sem_t * lock), (lock))
COUNTED(int, sched_yield, (void), ())
COUNTED(int, usleep, (useconds_t time), (time))
COUNTED(int, nanosleep, (const struct timespec *time, struct timespec *rest), (time, rest))
COUNTED(int, clock_nanosleep,
        (clockid_t clock, int flags, const struct timespec *time, struct timespec *rest),
        (clock, flags, time, rest))
COUNTED(void, GOMP_critical_start, (void), ())
COUNTED(void, GOMP_critical_name_start, (void **lock), (lock))
COUNTED(void, GOMP_atomic_start, (void), ())
COUNTED(void, GOMP_barrier, (void), ())
COUNTED(void, omp_set_lock, (void *lock), (lock))

/* One that succeeds counts.  How often it fails is a matter of chance. */
int pthread_mutex_trylock(pthread_mutex_t *lock) {
    static int (*next)(pthread_mutex_t *lock);
    int failed;
    if (next == NULL)
        next = (int (*)(pthread_mutex_t *))next_of("pthread_mutex_trylock");
    failed = next(lock);
    locks += is_watched && !failed;
    return failed;
}

/* For the thread that counts, time is how often it asked for it.  A call looks for signals and
   gives locks up after some time, and how long it takes in valgrind depends on what else the
   machine does. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*next)(clockid_t clock, struct timespec *now);
    static long asked;
    if (is_watched && (clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC)) {
        asked += 100; /* nanoseconds, so that waiting for a time ends */
        *now = (struct timespec){asked / 1000000000, asked % 1000000000};
        return 0;
    }
    if (next == NULL)
        next = (int (*)(clockid_t, struct timespec *))next_of("clock_gettime");
    return next(clock, now);
}

/* Returns how often this thread has called such functions since `watch_bytes`. */
long locks_taken(void) { return locks; }

extern long __sysconf(int name);

long sysconf(int name) {
    return name == _SC_NPROCESSORS_CONF || name == _SC_NPROCESSORS_ONLN ? 1 : __sysconf(name);
}

int sched_getaffinity(pid_t process, size_t size, cpu_set_t *set) {
    memset(set, 0, size);
    CPU_SET_S(0, size, set);
    return 0;
}

int pthread_getaffinity_np(unsigned long thread, size_t size, cpu_set_t *set) {
    return sched_getaffinity(0, size, set);
}

int uname(struct utsname *found) {
    *found = (struct utsname){"Linux", "counted", "6.1.0", "#1", "x86_64", ""};
    return 0;
}
