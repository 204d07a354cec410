/* Fills the tables of an instruction set, ISA, which a file of that name defines, and of a type,
   REAL.  setup.py compiles that file for either type, with the flags of the instruction set. */
#include "attention/attention.h"
#include "isa.h"
#include "labels/labels.h"
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
    .attend = attend,
    .attend_slopes = attend_slopes,
    .attend_value = attend_value,
};

const struct label_table TABLE(labels, REAL) = {
    .labels_axis = labels_axis,
    .label_pixels = label_pixels,
};

#if NAME_OF(IS, REAL) /* images, which need no double, and the list of all tables */
#include "images/masks.h"
#include "images/resize.h"
#include "images/store.h"
#include "images/warp.h"
#include "images/yuv.h"

static const struct image_table images = {
    .crop_complete = crop_complete,
    .crop_store = crop_store,
    .crop_intervals = crop_intervals,
    .crop_convert = crop_convert,
    .warp_set = warp_set,
    .warp_hull = warp_hull,
    .warp_pixels = warp_pixels,
    .resize_line = resize_line,
    .resize_columns = resize_columns,
    .resize_to_lines = resize_to_lines,
    .resize_to_rows = resize_to_rows,
    .resize_store = resize_store,
    .mask_open = mask_open,
    .mask_mix = mask_mix,
    .mask_begin = mask_begin,
    .mask_line = mask_line,
};

extern const struct simd TABLE(simd, double);
extern const struct attention_table TABLE(attention, double);
extern const struct label_table TABLE(labels, double);
#define TABLES(type) {&TABLE(simd, type), &images, &TABLE(attention, type), &TABLE(labels, type)}
const struct isa NAME_OF(roicy, ISA)[2] = {TABLES(float), TABLES(double)};
#endif
