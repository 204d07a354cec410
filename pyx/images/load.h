/* Frames of any type and strides, and their numbers as floats. */
#ifndef ROICY_LOAD_H
#define ROICY_LOAD_H

#include "images/structs.h"
#include "simd/simd.h"

/* Copies numbers at .. at + count - 1 of a row, `size` bytes each, which do not follow each other.
 */
static FORCE_INLINE void gather_numbers(const struct crop_source *source, const char *row,
                                        ptrdiff_t at, int count, size_t size, char *to) {
    ptrdiff_t x = at / source->channels, c = at - x * source->channels;
    const char *pixel = row + x * source->stride_x;
    for (int i = 0; i < count; i++, to += size) {
        memcpy(to, pixel + c * source->stride_c, size);
        if (++c == source->channels) {
            c = 0;
            pixel += source->stride_x;
        }
    }
}

#endif
