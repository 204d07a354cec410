/* What a program under callgrind calls to have a part of itself counted. */
#include <valgrind/callgrind.h>

void start_counting(void) {
    CALLGRIND_START_INSTRUMENTATION;
}

void forget_counts(void) {
    CALLGRIND_ZERO_STATS;
}

void write_counts(const char *name) {
    CALLGRIND_DUMP_STATS_AT(name);
}

void stop_counting(void) {
    CALLGRIND_STOP_INSTRUMENTATION;
}
