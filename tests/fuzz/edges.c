/* Counts of the edges between blocks of code, which Clang puts into libraries under
   -fsanitize-coverage=inline-8bit-counters.  tests/fuzz_corpus.py loads this file before roicy. */
#include <stdint.h>
#include <string.h>

static struct {
    uint8_t *start, *stop;
} parts[1024];
static int count;

/* Each library calls this when it is loaded. */
void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop) {
    for (int i = 0; i < count; i++)
        if (parts[i].start == start)
            return;
    if (start < stop && count < 1024) {
        parts[count].start = start;
        parts[count++].stop = stop;
    }
}

long edges_count(void) {
    long all = 0;
    for (int i = 0; i < count; i++)
        all += parts[i].stop - parts[i].start;
    return all;
}

/* Takes the counts, which begin anew. */
void edges_take(uint8_t *to) {
    for (int i = 0; i < count; i++) {
        long size = parts[i].stop - parts[i].start;
        memcpy(to, parts[i].start, (size_t)size);
        memset(parts[i].start, 0, (size_t)size);
        to += size;
    }
}
