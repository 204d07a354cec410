/* Labels are integers of any size. */
#ifndef ROICY_LABELS_PUT_H
#define ROICY_LABELS_PUT_H

#include "labels/structs.h"

#define EACH_SIZE(write)                                                                           \
    if (job->itemsize == 1) {                                                                      \
        write(uint8_t);                                                                            \
    } else if (job->itemsize == 2) {                                                               \
        write(uint16_t);                                                                           \
    } else if (job->itemsize == 4) {                                                               \
        write(uint32_t);                                                                           \
    } else {                                                                                       \
        write(uint64_t);                                                                           \
    }

/* Writes the labels of some winners to a row. */
static NOINLINE void labels_put(const struct labels *job, const int32_t *winners, int count,
                                char *to) {
#define WRITE(type)                                                                                \
    for (int i = 0; i < count; i++)                                                                \
    *(type *)(to + i * job->out_column) = (type)job->names[winners[i]]
#define WRITE_MASK(type)                                                                           \
    for (int i = 0; i < count; i++)                                                                \
        if (winners[i] != job->classes)                                                            \
    *(type *)(to + i * job->out_column) = (type)job->names[winners[i]]
    if (job->transparent) {
        EACH_SIZE(WRITE_MASK)
    } else {
        EACH_SIZE(WRITE)
    }
#undef WRITE_MASK
#undef WRITE
}

/* Writes the label of a winner to some pixels of a row. */
static NOINLINE void labels_fill(const struct labels *job, int32_t winner, ptrdiff_t count,
                                 char *to) {
    const int64_t label = job->names[winner];
    if (job->transparent && winner == job->classes)
        return;
#define WRITE(type)                                                                                \
    for (ptrdiff_t i = 0; i < count; i++)                                                          \
    *(type *)(to + i * job->out_column) = (type)label
    if (job->out_column == 1)
        memset(to, (int)label & 255, (size_t)count);
    else
        EACH_SIZE(WRITE)
#undef WRITE
}

#undef EACH_SIZE

#endif
