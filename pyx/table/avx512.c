/* x86-64-v4: AVX-512. */
#define ISA avx512
#include "table/fill.h"
