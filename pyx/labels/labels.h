/* Labels of the pixels of a picture: which of many small maps is the largest there, once they are
   enlarged to the picture. */
#ifndef ROICY_LABELS_H
#define ROICY_LABELS_H

#include <math.h>

#include "labels/put.h"
#include "simd/simd.h"

#define NAME(name) NAME_OF(name, REAL)
#define VECTOR NAME(vector)
#define INDICES NAME(indices)
#define TILE NAME(tile_of_labels)

#define REAL float
#define REAL_EPSILON FLT_EPSILON
#define REAL_LEAST FLT_MIN
#include "cells.inc.h"
#include "race.inc.h"
#undef REAL
#undef REAL_EPSILON
#undef REAL_LEAST

#define REAL double
#define REAL_EPSILON DBL_EPSILON
#define REAL_LEAST DBL_MIN
#include "cells.inc.h"
#include "race.inc.h"
#undef REAL
#undef REAL_EPSILON
#undef REAL_LEAST

#undef NAME
#undef VECTOR
#undef INDICES
#undef TILE

#endif
