/* The table of functions of an instruction set that compute labels. */
#ifndef ROICY_LABELS_TABLE_H
#define ROICY_LABELS_TABLE_H

#include "labels/structs.h"

#define FUNCTION(result, name, parameters) result(*name) parameters;
struct label_table {
#include "labels/table.inc.h"
};
#undef FUNCTION

#endif
