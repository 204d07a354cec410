/* Labels of the pixels of a picture: which of many small maps is the largest there, once they are
   enlarged to the picture. */
#ifndef ROICY_LABELS_H
#define ROICY_LABELS_H

#include <math.h>

#include "labels/put.h"
#include "simd/simd.h"

#define EPSILON_float FLT_EPSILON
#define EPSILON_double DBL_EPSILON
#define REAL_EPSILON TYPED(EPSILON)
#define LEAST_float FLT_MIN
#define LEAST_double DBL_MIN
#define REAL_LEAST TYPED(LEAST)

#include "onnx.inc.h"
#include "cells.inc.h"
#include "rows.inc.h"
#include "race.inc.h"

#endif
