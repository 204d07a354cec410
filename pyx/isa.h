/* What an instruction set is: the tables of functions of all rooms. */
#ifndef ROICY_ISA_H
#define ROICY_ISA_H

struct isa {
    const struct simd *simd;
    /* Of images/structs.h and so on: these rooms lie above this file, and know their own. */
    const void *images, *attention, *labels;
};

#endif
