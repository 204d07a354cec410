/* The pool: threads of the process that help any call with its tasks.

A caller offers its work and begins with it at once.  Idle threads of the pool join it, and at the
end the caller waits for those alone that have joined.  So a thread that is late, or that cannot be
started, is missed by nobody.

       a caller |offer|task|task|task|task|wait|
       a helper            |join|task|task|leave|

The helpers are the threads of one OpenMP region, which a keeper thread enters and does not leave.
So the runtime places them (OMP_PLACES, OMP_PROC_BIND) and gives them their stacks (OMP_STACKSIZE),
and no caller has a team.  A runtime ends the process if it cannot start a thread.  Where that might
happen, and in builds without OpenMP, the pool starts threads itself.

A child of fork begins with an empty pool. */
#ifndef ROICY_POOL_H
#define ROICY_POOL_H

#include "system.h"
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
static const long openmp_version = _OPENMP;
#else
static const long openmp_version = 0;
#endif

enum {
    MOST_THREADS = 1024,   /* of a call: scratch is allocated for each, so more are a slip */
    SPARE = 16,            /* threads that others may start while a region begins */
    STACK_BYTES = 1 << 20, /* of a thread that the pool starts itself */
    WAKES = 2,             /* threads that one thread wakes, each of which wakes others */
    AWAKE_NS = 100000,     /* for which an idle thread looks for work before it sleeps: R521 */
    CROWDED_NS = 10000000, /* for which callers that had all processors may be back: R509 */
    TURN_NS = 200000,      /* after which a caller lets others run, if they are many: R507 */
    SLICE_NS = 2000000,    /* a turn that takes so long was another process's: R508 */
    SLICES = 3,            /* after which callers make no turns for STAY_NS */
    STAY_NS = 100000000,
};

typedef void shared_work(void *given, size_t worker);

struct offer {
    shared_work *work;
    void *given;
    size_t workers, joined; /* at most, and until now; the caller is the first */
    size_t busy;    /* helpers that are not done: their last write, after which this may be gone */
    condition done; /* none is busy any more */
    struct offer *next;
};

static struct {
    mutex lock;          /* held to write what follows, up to `busy`, but `offers` */
    condition wake;      /* there is an offer for a helper that sleeps */
    condition growth;    /* calls want more helpers than there are */
    struct offer *first; /* the oldest */
    size_t offers;       /* until now, which those that are awake look at */
    size_t wanted;       /* helpers, by the call that wanted most */
    size_t helpers;      /* that were started, or that the runtime was asked for */
    size_t asleep;
    int has_keeper, is_plain;
    int busy;             /* helpers that carry out tasks */
    int callers;          /* that compute, and not briefly */
    int processors;       /* of the process */
    int slices;           /* that others have taken, one after the other */
    long long crowded_at; /* when callers had all processors last */
    long long stay_until; /* when callers make turns again */
} pool = {.lock = MUTEX_READY, .wake = CONDITION_READY, .growth = CONDITION_READY, .processors = 1};

/* Whether an OpenMP runtime is asked anything.  LLVM's ends the process where OMP_NUM_THREADS is no
   list of numbers. */
static int uses_runtime = 0;

/* Processors of the process, as an OpenMP runtime that binds threads found them; else 0.  It has
   bound the first thread by now, whose affinity mask no longer tells how many there are. */
static int bound_processors = 0;
static int first_place = 0;      /* of the thread that imported roicy */
static size_t runtime_stack = 0; /* bytes of a thread of the runtime; 0: the system's default */

#if defined(_OPENMP) && _OPENMP >= 201511 /* OpenMP 4.5 */
static int place_of_thread(void) { return omp_get_place_num(); }
static void look_at_places(void) {
    if (omp_get_proc_bind() != omp_proc_bind_false)
        bound_processors = omp_get_num_procs();
    first_place = place_of_thread();
}
#else
static int place_of_thread(void) { return 0; }
static void look_at_places(void) {}
#endif

/* Looks how large stacks the environment asks for.  The largest counts, since the runtimes read
   different variables. */
static void look_at_stacks(void) {
    static const char *const names[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE", "KMP_STACKSIZE"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        char *unit;
        const size_t number = value == NULL ? 0 : (size_t)strtoull(value, &unit, 10);
        int shift = *names[i] == 'K' ? 0 : 10; /* KMP_STACKSIZE counts bytes */
        if (number == 0)
            continue;
        unit += strspn(unit, " ");
        for (int k = 0; k < 4; k++)
            if (*unit == "BKMG"[k] || *unit == "bkmg"[k])
                shift = 10 * k;
        if (number <= SIZE_MAX >> shift && number << shift > runtime_stack)
            runtime_stack = number << shift;
    }
}

/* Looks once, at import: a compiler may move a later question to the runtime before the test of
   `uses_runtime`, and LLVM's runtime does not return from it in a child of fork. */
static void look_at_runtime(void) {
    const char *threads = getenv("OMP_NUM_THREADS");
    uses_runtime =
        threads == NULL || (*threads != 0 && threads[strspn(threads, "0123456789, ")] == 0);
    look_at_stacks();
    if (uses_runtime)
        look_at_places();
}

/* Returns how many threads the runtime allows a region of this thread, which others may change. */
static int threads_of_runtime(void) {
#ifdef _OPENMP
    if (uses_runtime)
        return omp_get_max_threads();
#endif
    return MOST_THREADS;
}

/* Has this thread run on the processors of the process, and not on those alone of the thread that
   started it. */
static void run_on_all_processors(void) {
    if (bound_processors == 0)
        take_processors_of_process();
}

/* Looks how many processors the process has now. */
static void look_at_processors(void) {
    pool.processors = bound_processors ? bound_processors : processors_of_process();
}

/* Some numbers are read without the lock, since they only say what is worth while. */
#define LOOK(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define PUT(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)

/* Returns how many threads are at work beyond the processors; 0 if there are as many. */
static int threads_too_many(void) {
    return LOOK(pool.callers) + LOOK(pool.busy) - LOOK(pool.processors);
}

/* Returns whether a processor is free, and will probably stay so. */
static int has_room(void) {
    return threads_too_many() < 0 && nanoseconds() - LOOK(pool.crowded_at) > CROWDED_NS;
}

/* Returns the oldest offer that a helper may join now, or NULL. */
static struct offer *open_offer(void) {
    struct offer *offer = has_room() ? pool.first : NULL;
    while (offer != NULL && offer->joined >= offer->workers)
        offer = offer->next;
    return offer;
}

static void wake_some(const struct offer *offer) {
    const size_t open = offer->workers - offer->joined;
    for (size_t i = 0; i < WAKES && i < open && i < pool.asleep && has_room(); i++)
        wake_one(&pool.wake);
}

/* Waits for the next offer, at first awake; the lock is held before and after. */
static void wait_for_offer(void) {
    const size_t seen = LOOK(pool.offers);
    const long long until = nanoseconds() + AWAKE_NS;
    give(&pool.lock);
    while (LOOK(pool.offers) == seen && has_room() && nanoseconds() < until)
        rest_shortly();
    take(&pool.lock);
    if (LOOK(pool.offers) == seen && open_offer() == NULL) {
        pool.asleep++;
        wait_for(&pool.wake, &pool.lock);
        pool.asleep--;
    }
}

static void join(struct offer *offer) {
    const size_t worker = offer->joined++;
    offer->busy++;
    PUT(pool.busy, pool.busy + 1);
    wake_some(offer);
    give(&pool.lock);
    offer->work(offer->given, worker);
    take(&pool.lock);
    PUT(pool.busy, pool.busy - 1);
    if (offer->busy == 1)
        wake_one(&offer->done);
    __atomic_store_n(&offer->busy, offer->busy - 1, __ATOMIC_RELEASE);
}

/* Helps callers until they want more helpers than so many. */
static void help(size_t helpers) {
    take(&pool.lock);
    while (pool.wanted <= helpers) {
        struct offer *offer = open_offer();
        if (offer != NULL)
            join(offer);
        else
            wait_for_offer();
    }
    give(&pool.lock);
}
static void help_always(void) {
    run_on_all_processors();
    help(SIZE_MAX);
}

/* Starts the helpers that are wanted and lack; the lock is held. */
static void start_plain_helpers(void) {
    while (pool.helpers < pool.wanted && start_thread(help_always, STACK_BYTES))
        pool.helpers++;
    pool.wanted = pool.helpers; /* the next call tries again */
}

#ifdef _OPENMP
/* Threads on trial, which the keeper starts before it enters a region. */
static struct {
    mutex lock;
    condition changed;
    size_t begun;
    int over;
    thread_id ids[MOST_THREADS + SPARE];
} trial = {MUTEX_READY, CONDITION_READY, 0, 0, {0}};

static void be_tried(void) {
    take(&trial.lock);
    trial.ids[trial.begun++] = this_thread();
    wake_all(&trial.changed);
    while (!trial.over)
        wait_for(&trial.changed, &trial.lock);
    give(&trial.lock);
}

/* Returns whether so many threads can be started, with stacks as the runtime's, and have made room
   again. */
static int can_start(size_t threads) {
    const long long until = nanoseconds() + 1000000000;
    size_t count = 0;
    int gone = 1;
    take(&trial.lock);
    trial.begun = 0, trial.over = 0;
    give(&trial.lock);
    while (count < threads && start_thread(be_tried, runtime_stack))
        count++;
    take(&trial.lock);
    while (trial.begun < count)
        wait_for(&trial.changed, &trial.lock);
    trial.over = 1;
    wake_all(&trial.changed);
    give(&trial.lock);
    for (size_t i = 0; i < count; i++)
        while (!(gone = !thread_exists(trial.ids[i])) && nanoseconds() < until)
            let_others_run();
    return gone && count == threads;
}

/* Has the runtime's threads help until calls want more.  idle: so many, of those that share a place
   with the first thread of the process, do not. */
static void enter_region(size_t helpers, int idle) {
#pragma omp parallel num_threads((int)helpers + idle)
    if (place_of_thread() == first_place && __atomic_fetch_sub(&idle, 1, __ATOMIC_RELAXED) > 0) {
        take(&pool.lock);
        while (pool.wanted <= helpers)
            wait_for(&pool.growth, &pool.lock);
        give(&pool.lock);
    } else
        help(helpers);
}

/* Where the runtime binds threads to places, one of a region has that of the first thread, so that
   it does not compute.  Otherwise threads have the processors of the process, and not those of the
   thread that happened to call first. */
static void keep(void) {
    const int idle = bound_processors != 0;
    run_on_all_processors();
    take(&pool.lock);
    while (!pool.is_plain) {
        const size_t helpers = pool.helpers = pool.wanted;
        give(&pool.lock);
        if (uses_runtime && !limits_memory() && can_start(helpers + idle + SPARE))
            enter_region(helpers, idle);
        else
            pool.is_plain = 1;
        take(&pool.lock);
    }
    pool.helpers = 1; /* this thread */
    start_plain_helpers();
    give(&pool.lock);
    help_always();
}
#endif

/* Has the pool get more helpers, if a call wants more than all before; the lock is held. */
static void want_helpers(size_t helpers) {
    if (helpers <= pool.wanted)
        return;
    const size_t before = pool.wanted;
    pool.wanted = helpers;
#ifdef _OPENMP
    if (!pool.has_keeper) {
        pool.has_keeper = start_thread(keep, 0);
        if (!pool.has_keeper)
            pool.wanted = before; /* the next call tries again */
    } else if (!pool.is_plain) {
        wake_all(&pool.wake);
        wake_all(&pool.growth);
    } else
#endif
        start_plain_helpers();
    (void)before;
}

/* Takes an offer back, so that nobody joins it any more; the lock is held. */
static void withdraw(struct offer *offer) {
    struct offer **at = &pool.first;
    while (*at != offer)
        at = &(*at)->next;
    PUT(*at, offer->next);
}

/* Calls work(given, 0) here, and work(given, i) for some i below `workers` in helpers that join.
   Returns when all have returned.  Arguments and result are those of `ParallelFor`.  threadpoolctl
   finds this module by the name, which is therefore visible. */
EXPORTED void *roicy_pool_for(void *context, shared_work *work, size_t workers, size_t batches,
                              void *given) {
    struct offer offer = {work, given, workers, 1, 0, CONDITION_READY, NULL}, **at = &pool.first;
    long long until;
    (void)context, (void)batches;
    take(&pool.lock);
    want_helpers(workers - 1);
    while (*at != NULL)
        at = &(*at)->next;
    PUT(*at, &offer);
    wake_some(&offer);
    give(&pool.lock);
    __atomic_fetch_add(&pool.offers, 1, __ATOMIC_RELAXED);
    work(given, 0);
    take(&pool.lock);
    withdraw(&offer);
    give(&pool.lock);
    until = nanoseconds() + AWAKE_NS;
    while (__atomic_load_n(&offer.busy, __ATOMIC_ACQUIRE) != 0)
        if (threads_too_many() > 0 || nanoseconds() > until) {
            take(&pool.lock);
            while (offer.busy != 0)
                wait_for(&offer.done, &pool.lock);
            give(&pool.lock);
        } else
            rest_shortly();
    return NULL;
}

/* A call that is not brief computes between these two. */
static void enter_call(void) {
    if (__atomic_add_fetch(&pool.callers, 1, __ATOMIC_RELAXED) >= LOOK(pool.processors))
        PUT(pool.crowded_at, nanoseconds());
}
static void leave_call(void) {
    struct offer *offer;
    __atomic_fetch_sub(&pool.callers, 1, __ATOMIC_RELAXED);
    if (LOOK(pool.first) == NULL)
        return;
    take(&pool.lock);
    offer = open_offer(); /* of another call, for which there is a processor now */
    if (offer != NULL)
        wake_some(offer);
    give(&pool.lock);
}

/* How often callers have given up Python's lock; some Pythons have none, and callers at once. */
static size_t releases = 0;
static void count_release(void) { __atomic_fetch_add(&releases, 1, __ATOMIC_RELAXED); }
static size_t lock_releases(void) { return LOOK(releases); }

/* What a worker does between two tasks: it tells whether it leaves its call.  since: when the
   caller began, or let others run last.

   With more threads than processors the system takes a processor away for milliseconds.  So helpers
   go, and callers make turns, which are shorter.  Where other processes compute, turns would be
   theirs, and callers stay. */
static int step_aside(size_t worker, long long *since) {
    long long before, after;
    if (threads_too_many() <= 0)
        return 0;
    if (worker != 0)
        return 1;
    before = nanoseconds();
    if (before - *since < TURN_NS || before < LOOK(pool.stay_until))
        return 0;
    let_others_run();
    *since = after = nanoseconds();
    if (after - before < SLICE_NS)
        PUT(pool.slices, 0);
    else if (__atomic_add_fetch(&pool.slices, 1, __ATOMIC_RELAXED) >= SLICES)
        PUT(pool.stay_until, after + STAY_NS);
    return 0;
}

/* A child of fork has no helper, and its locks are as other threads of the parent held them. */
#ifdef _WIN32
static int watch_forks(void) { return 0; }
#else
static void empty_pool(void) {
    const int processors = pool.processors;
    memset(&pool, 0, sizeof(pool));
    pool.lock = (mutex)MUTEX_READY;
    pool.wake = pool.growth = (condition)CONDITION_READY;
    pool.processors = processors;
#ifdef _OPENMP
    trial.lock = (mutex)MUTEX_READY;
    trial.changed = (condition)CONDITION_READY;
#endif
}
static int watch_forks(void) { return pthread_atfork(NULL, NULL, empty_pool); }
#endif

#endif
