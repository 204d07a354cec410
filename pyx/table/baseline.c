/* Any processor of the architecture that is built for. */
#define ISA baseline
#include "table/fill.h"
