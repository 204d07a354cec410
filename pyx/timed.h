/* Tasks of one thread's calls, carried out one by one and timed, for `bench --simulate`. */
#ifndef ROICY_TIMED_H
#define ROICY_TIMED_H

#include "pool.h"
#include "threads.h"

enum { MOST_TIMES = 1 << 20 };
static _Thread_local struct {
    long long *times; /* of each group -workers, and nanoseconds; NULL where calls are not timed */
    size_t count;
    int backwards; /* the last task comes first */
} timed;

static int begin_times(int backwards) {
    if (timed.times != NULL)
        return 0;
    timed.backwards = backwards;
    timed.times = malloc(MOST_TIMES * sizeof(*timed.times));
    timed.count = 0;
    return timed.times != NULL;
}
static void end_times(void) {
    free(timed.times);
    timed.times = NULL;
}
static void add_time(long long time) {
    if (timed.count < MOST_TIMES)
        timed.times[timed.count++] = time;
}

/* Returns the time of this thread, which others' work does not move where the system tells it. */
static long long time_of_thread(void) {
#if defined(CLOCK_THREAD_CPUTIME_ID)
    struct timespec now;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0)
        return now.tv_sec * 1000000000LL + now.tv_nsec;
#endif
    return nanoseconds();
}

/* Has worker 0 carry out the tasks of a queue, with which begins what it is given.  The time comes
   first by which its scratch gets memory, which would be the first task's. */
static void time_tasks(shared_work *work, size_t workers, struct task_queue *queue) {
    const ptrdiff_t first = queue->next, stop = queue->count;
    const size_t at = timed.count + 2; /* of the first task */
    long long start = time_of_thread();
    add_time(-(long long)workers);
    queue->until = 0;
    if (queue->scratch != NULL)
        memset(queue->scratch, 0, (size_t)queue->scratch_bytes);
    add_time(time_of_thread() - start);
    for (ptrdiff_t i = first; i < stop; i++)
        add_time(0);
    for (ptrdiff_t i = first; i < stop; i++) {
        const ptrdiff_t task = timed.backwards ? stop - 1 - (i - first) : i;
        queue->next = task, queue->count = task + 1;
        start = time_of_thread();
        work(queue, 0);
        if (at + (size_t)(task - first) < MOST_TIMES)
            timed.times[at + (size_t)(task - first)] = time_of_thread() - start;
    }
    queue->next = queue->count = stop;
}

#endif
