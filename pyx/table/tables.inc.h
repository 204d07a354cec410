/* The tables of a type REAL. */

static const struct simd NAME(simd_table) = {
#include "simd/table.inc.h"
};

static const struct image_table NAME(image_table) = {
#include "images/table.inc.h"
};

static const struct attention_table NAME(attention_table) = {
#include "attention/table.inc.h"
};

static const struct label_table NAME(label_table) = {
#include "labels/table.inc.h"
};
