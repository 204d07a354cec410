/* Deformable attention: sums of samples of feature maps, each query of a head with samples and
   weights of its own. */
#ifndef ROICY_ATTENTION_H
#define ROICY_ATTENTION_H

#include "attention/structs.h"
#include "simd/simd.h"

#define POINTS_AT_ONCE 64 /* of a query: bounds what is kept of them (R481) */

#include "attend.inc.h"
#include "slopes.inc.h"

#endif
