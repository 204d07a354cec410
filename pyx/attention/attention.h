/* Deformable attention: sums of samples of feature maps, each query of a head with samples and
   weights of its own. */
#ifndef ROICY_ATTENTION_H
#define ROICY_ATTENTION_H

#include "attention/structs.h"
#include "simd/simd.h"

#define POINTS_AT_ONCE 64 /* of a query: bounds what is kept of them (R481) */

#define NAME(name) NAME_OF(name, REAL)
#define POINTS NAME(points)
#define REAL float
#include "attend.inc.h"
#include "slopes.inc.h"
#undef REAL
#define REAL double
#include "attend.inc.h"
#include "slopes.inc.h"
#undef REAL
#undef POINTS
#undef NAME

#endif
