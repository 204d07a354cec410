/* The table of functions of an instruction set that compute on lane vectors.

   table/fill.h fills the tables of all rooms, and is compiled for each instruction set.  All other
   code is compiled once and calls these functions by the table that its call has. */
#ifndef ROICY_SIMD_TABLE_H
#define ROICY_SIMD_TABLE_H

#include "simd/structs.h"

#define FUNCTION(result, name, parameters) result(*name) parameters;
#define OF_FLOAT FUNCTION
struct simd {
#include "simd/table.inc.h"
};
#undef FUNCTION
#undef OF_FLOAT

/* Copies the next lines of a stream. */
static inline void stream_some(const struct simd *simd, struct stream *run) {
    if (run->left > 0)
        simd->stream_lines(run, 0);
}

/* Copies all lines that are left. */
static inline void stream_rest(const struct simd *simd, struct stream *run) {
    if (run->left > 0)
        simd->stream_lines(run, 1);
}

#endif
