/* The table of functions of an instruction set that compute deformable attention. */
#ifndef ROICY_ATTENTION_TABLE_H
#define ROICY_ATTENTION_TABLE_H

#include "attention/structs.h"

#define FUNCTION(result, name, parameters) result(*name) parameters;
struct attention_table {
#include "attention/table.inc.h"
};
#undef FUNCTION

#endif
