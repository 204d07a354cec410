/* The tasks of a call, which threads take one after the other for a while. */
#ifndef ROICY_THREADS_H
#define ROICY_THREADS_H

#include <stddef.h>
#include <time.h>
#if defined(_WIN32) /* whose windows.h has macros by the names of variables */
__declspec(dllimport) unsigned long long __stdcall GetTickCount64(void);
#endif

enum { LOOK_EVERY = 500 }; /* milliseconds between looks for Ctrl-C, which waits at most a second */

struct task_queue {
    ptrdiff_t next, count; /* next: written by all threads */
    long long until;       /* no task begins later; 0: whatever the time is */
    char *scratch;         /* of the workers, one after the other; or NULL */
    ptrdiff_t scratch_bytes;
};

static inline long long milliseconds(void) {
#if defined(_WIN32)
    return (long long)GetTickCount64();
#else
    struct timespec now;
#if defined(CLOCK_MONOTONIC_COARSE) /* Linux's, which takes nanoseconds */
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
#endif
}

/* Returns the next task; `count` or more if there is none, or not now. */
static inline ptrdiff_t take_task(struct task_queue *queue) {
    if (queue->until && milliseconds() >= queue->until)
        return queue->count;
    return __atomic_fetch_add(&queue->next, 1, __ATOMIC_RELAXED);
}

#endif
