/* Preloaded into a process, it lets chosen allocations and thread starts fail.

   An allocation counts if the code that asks for it lies in a watched library: memory that the
   OpenMP runtime lacks, for instance, ends the process, and no library can do anything about it.
   tests/failing_memory.py compiles this file and calls its functions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANGES 512
#define SLOTS (1 << 16) /* of the table of live blocks, by their hash */

static struct range {
    uintptr_t low, high;
    int counts;   /* its live blocks */
    size_t least; /* bytes of an allocation that counts */
} ranges[MOST_RANGES];
static int range_count;
static atomic_long until = -1, seen, live, threads, most_threads = -1;
static void *blocks[SLOTS];
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void (*real_free)(void *);
static int (*real_start)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* dlsym itself may allocate before the real functions are known */
static char early[1 << 16];
static size_t early_used;
static void *early_room(size_t bytes) {
    void *room = early + early_used;
    early_used += (bytes + 31) & ~(size_t)15;
    return early_used <= sizeof(early) ? room : NULL;
}
static int is_early(const void *block) {
    return (const char *)block >= early && (const char *)block < early + sizeof(early);
}

static int ready(void) {
    static int begun;
    if (real_start)
        return 1;
    if (begun)
        return 0;
    begun = 1;
    real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    real_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    real_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    *(void **)&real_start = dlsym(RTLD_NEXT, "pthread_create");
    return 1;
}

/* Returns the watched range of the code at an address, or NULL. */
static const struct range *watched(const void *code) {
    for (int i = 0; i < range_count; i++)
        if ((uintptr_t)code >= ranges[i].low && (uintptr_t)code < ranges[i].high)
            return ranges + i;
    return NULL;
}

static int fails(const struct range *range, size_t bytes) {
    if (!range || bytes < range->least)
        return 0;
    atomic_fetch_add(&seen, 1);
    return atomic_load(&until) >= 0 && atomic_fetch_sub(&until, 1) == 0;
}

/* Adds a block to those that live (1), or takes one away (0), if it is there. */
static void count_block(void *block, int lives) {
    if (!block || (!lives && atomic_load(&live) == 0))
        return;
    while (atomic_flag_test_and_set(&busy))
        ;
    size_t at = ((uintptr_t)block >> 4) * 2654435761u % SLOTS;
    for (int i = 0; i < 256; i++, at = (at + 1) % SLOTS)
        if (blocks[at] == (lives ? NULL : block)) {
            blocks[at] = lives ? block : NULL;
            atomic_fetch_add(&live, lives ? 1 : -1);
            break;
        }
    atomic_flag_clear(&busy);
}

static void *counted(void *block, const struct range *range) {
    if (range && range->counts)
        count_block(block, 1);
    return block;
}

void *malloc(size_t bytes) {
    if (!ready())
        return early_room(bytes);
    const struct range *range = watched(__builtin_return_address(0));
    return fails(range, bytes) ? NULL : counted(real_malloc(bytes), range);
}

void *calloc(size_t count, size_t bytes) {
    if (!ready())
        return early_room(count * bytes);
    const struct range *range = watched(__builtin_return_address(0));
    return fails(range, count * bytes) ? NULL : counted(real_calloc(count, bytes), range);
}

void *realloc(void *block, size_t bytes) {
    if (!ready() || is_early(block)) {
        void *moved = malloc(bytes);
        return moved && block ? memcpy(moved, block, bytes) : moved;
    }
    const struct range *range = watched(__builtin_return_address(0));
    if (fails(range, bytes))
        return NULL;
    void *moved = real_realloc(block, bytes);
    if (moved) {
        count_block(block, 0);
        counted(moved, range);
    }
    return moved;
}

void free(void *block) {
    if (!ready() || is_early(block))
        return;
    count_block(block, 0);
    real_free(block);
}

/* What a thread is to do; it is counted as long as it lives. */
struct work {
    void *(*function)(void *);
    void *of;
};
static void end_thread(void *work) {
    real_free(work);
    atomic_fetch_sub(&threads, 1);
}
static void *begin(void *given) {
    struct work *work = given;
    void *result = NULL;
    pthread_cleanup_push(end_thread, given);
    result = work->function(work->of);
    pthread_cleanup_pop(1);
    return result;
}
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*work)(void *), void *of) {
    ready();
    struct work *given = real_malloc(sizeof(*given));
    long before = atomic_fetch_add(&threads, 1), most = atomic_load(&most_threads);
    if (!given || (most >= 0 && before >= most)) {
        real_free(given);
        atomic_fetch_sub(&threads, 1);
        return EAGAIN;
    }
    given->function = work;
    given->of = of;
    int failed = real_start(thread, how, begin, given);
    if (failed)
        end_thread(given);
    return failed;
}

static struct wanted {
    const char *part;
    int counts, found;
    size_t least;
} wanted;
static int add_library(struct dl_phdr_info *library, size_t size, void *data) {
    struct wanted *of = data;
    (void)size;
    const char *name = library->dlpi_name[0] ? library->dlpi_name : "python";
    if (!strstr(name, of->part))
        return 0;
    for (int i = 0; i < library->dlpi_phnum && range_count < MOST_RANGES; i++) {
        const ElfW(Phdr) *part = library->dlpi_phdr + i;
        uintptr_t low = library->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) || watched((void *)low))
            continue;
        ranges[range_count].low = low;
        ranges[range_count].high = low + part->p_memsz;
        ranges[range_count].least = of->least;
        ranges[range_count++].counts = of->counts;
        of->found++;
    }
    return 0;
}

/* Watches the loaded libraries with a part in their names; returns how many it found.  Allocations
   of fewer than `least` bytes never fail.  Blocks are counted as long as they live if `counts`. */
int failing_watch(const char *part, size_t least, int counts) {
    wanted.part = part;
    wanted.least = least;
    wanted.counts = counts;
    wanted.found = 0;
    dl_iterate_phdr(add_library, &wanted);
    return wanted.found;
}

/* Lets the n-th allocation from now on fail, counted from 0. */
void failing_arm(long n) {
    atomic_store(&seen, 0);
    atomic_store(&until, n);
}

/* No allocation fails from now on; returns how many there were. */
long failing_disarm(void) {
    atomic_store(&until, -1);
    return atomic_load(&seen);
}

/* Counted blocks that are not freed. */
long failing_live(void) { return atomic_load(&live); }

/* Lets no thread start where there are so many beside the first; -1: any number. */
void failing_threads(long most) { atomic_store(&most_threads, most); }
