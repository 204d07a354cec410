/* COCO's run-length codes: the lengths of runs of zeros and ones in turn, zeros first, down the
   columns.  A length is written as its difference from the one before the last, five bits a
   character, the lowest first. */
#ifndef ROICY_RUNS_H
#define ROICY_RUNS_H

#include "simd/memory.h"

#define RUNS_ROOM 256 /* characters that there is room for at first */

struct runs {
    char *text; /* of malloc; its owner frees it */
    size_t used, room;
    int64_t length;    /* of the run that has not ended */
    int64_t before[2]; /* lengths of the run before, and of the one before that */
    int64_t index;     /* of the run that has not ended */
    int value;         /* of its pixels */
    int lacks_memory;
};

/* Writes a number, and returns where it ends. */
static inline char *runs_write(char *text, int64_t number) {
    for (; number < -16 || number > 15; number = (number - (number & 31)) / 32)
        *text++ = (char)(48 + (32 | (number & 31)));
    *text++ = (char)(48 + (number & 31));
    return text;
}

/* Writes the length of the run that ends, and begins another. */
static NOINLINE void runs_end(struct runs *runs) {
    if (runs->room - runs->used < 16) {
        size_t room = runs->room ? 2 * runs->room : RUNS_ROOM;
        char *text = (char *)realloc(runs->text, room);
        if (!text) {
            runs->lacks_memory = 1;
            return;
        }
        runs->text = text;
        runs->room = room;
    }
    char *text = runs->text + runs->used;
    text = runs_write(text, runs->length - (runs->index > 2 ? runs->before[1] : 0));
    runs->used = (size_t)(text - runs->text);
    runs->before[1] = runs->before[0];
    runs->before[0] = runs->length;
    runs->index++;
    runs->length = 0;
    runs->value ^= 1;
}

/* Adds pixels of one value. */
static inline void runs_add(struct runs *runs, int value, int64_t count) {
    if (count == 0)
        return;
    if (value != runs->value)
        runs_end(runs);
    runs->length += count;
}

/* Adds pixels whose values change at some places; value: of the first one. */
static NOINLINE void runs_add_changes(struct runs *runs, int value, const int32_t *places,
                                      ptrdiff_t changes, int64_t count) {
    const size_t needed = runs->used + 8 * (size_t)(changes + 3); /* a length has 7 characters */
    int64_t at = 0;
    if (runs->room < needed) {
        char *text = (char *)realloc(runs->text, 2 * needed);
        runs->lacks_memory |= !text;
        runs->text = text ? text : runs->text;
        runs->room = text ? 2 * needed : runs->room;
    }
    if (runs->lacks_memory)
        return;
    runs_add(runs, value, 1); /* which ends the run before, if it is of the other value */
    runs->length--;
    int64_t length = runs->length, before = runs->before[0], last = runs->before[1];
    char *text = runs->text + runs->used;
    for (ptrdiff_t i = 0; i < changes; at = places[i++]) {
        length += places[i] - at;
        text = runs_write(text, length - (runs->index + i > 2 ? last : 0));
        last = before;
        before = length;
        length = 0;
    }
    runs->used = (size_t)(text - runs->text);
    runs->before[0] = before;
    runs->before[1] = last;
    runs->length = length + count - at;
    runs->index += changes;
    runs->value ^= (int)(changes & 1);
}

/* Adds pixels of values 0 and 1, eight at a time where they are equal. */
static NOINLINE void runs_add_pixels(struct runs *runs, const uint8_t *pixels, ptrdiff_t count) {
    ptrdiff_t i = 0;
    while (i < count && !runs->lacks_memory) {
        const ptrdiff_t first = i;
        const uint8_t value = pixels[i];
        const uint64_t equal = value ? UINT64_C(0x0101010101010101) : 0;
        for (uint64_t eight; i + 8 <= count; i += 8) {
            memcpy(&eight, pixels + i, 8);
            if (eight != equal)
                break;
        }
        while (i < count && pixels[i] == value)
            i++;
        runs_add(runs, value, i - first);
    }
}

#endif
