/* Fills the tables of an instruction set, ISA, which a file of that name defines, and of a type,
   REAL.  setup.py compiles that file for either type, with the flags of the instruction set. */
#include "attention/attention.h"
#include "attention/table.h"
#include "images/table.h"
#include "isa.h"
#include "labels/labels.h"
#include "labels/table.h"
#include "simd/simd.h"
#include "simd/table.h"

#define FUNCTION(result, name, parameters) name,
#define TABLE(room, type) NAME_OF(NAME_OF(roicy_##room, ISA), type)
#define IS_float 1
#define IS_double 0
#if NAME_OF(IS, REAL)
#define OF_FLOAT FUNCTION
#else
#define OF_FLOAT(result, name, parameters) NULL,
#endif

const struct simd TABLE(simd, REAL) = {
#include "simd/table.inc.h"
};

const struct attention_table TABLE(attention, REAL) = {
#include "attention/table.inc.h"
};

const struct label_table TABLE(labels, REAL) = {
#include "labels/table.inc.h"
};

#if NAME_OF(IS, REAL) /* images, which need no double, and the list of all tables */
#include "images/masks.h"
#include "images/resize.h"
#include "images/store.h"
#include "images/warp.h"
#include "images/yuv.h"

static const struct image_table images = {
#include "images/table.inc.h"
};

extern const struct simd TABLE(simd, double);
extern const struct attention_table TABLE(attention, double);
extern const struct label_table TABLE(labels, double);
#define TABLES(type) {&TABLE(simd, type), &images, &TABLE(attention, type), &TABLE(labels, type)}
const struct isa NAME_OF(roicy, ISA)[2] = {TABLES(float), TABLES(double)};
#endif
