/* Fills the tables of an instruction set: ISA, which a file of that name defines.  It is compiled
   with the flags of that instruction set. */
#include "attention/attention.h"
#include "attention/table.h"
#include "images/masks.h"
#include "images/resize.h"
#include "images/store.h"
#include "images/table.h"
#include "images/warp.h"
#include "images/yuv.h"
#include "isa.h"
#include "labels/labels.h"
#include "labels/table.h"
#include "simd/simd.h"
#include "simd/table.h"

#define NAME(name) NAME_OF(name, REAL)
#define FUNCTION(result, name, parameters) NAME(name),
#define SHARED(result, name, parameters) name,

#define REAL float
#include "tables.inc.h"
#undef REAL
#define REAL double
#include "tables.inc.h"
#undef REAL

#define TABLES_OF(type)                                                                            \
    {&simd_table_##type, &image_table_##type, &attention_table_##type, &label_table_##type}
const struct isa NAME_OF(roicy, ISA)[2] = {TABLES_OF(float), TABLES_OF(double)};
