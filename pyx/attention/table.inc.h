/* The functions of this room that are compiled for each instruction set, listed as in
   simd/table.inc.h. */

/* attend.inc.h, slopes.inc.h */
FUNCTION(void, attend, (const struct attention *call, const struct attention_part *part))
FUNCTION(void, attend_slopes, (const struct attention *call, const struct attention_part *part))
FUNCTION(void, attend_value, (const struct attention *call, const struct attention_part *part))
