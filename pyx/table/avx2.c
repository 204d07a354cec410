/* x86-64-v3: AVX2 and fused multiply-adds. */
#define ISA avx2
#include "table/fill.h"
