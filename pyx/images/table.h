/* The table of functions of an instruction set that compute frames, crops and masks. */
#ifndef ROICY_IMAGES_TABLE_H
#define ROICY_IMAGES_TABLE_H

#include "images/structs.h"

#define FUNCTION(result, name, parameters) result(*name) parameters;
struct image_table {
#include "images/table.inc.h"
};
#undef FUNCTION

#endif
