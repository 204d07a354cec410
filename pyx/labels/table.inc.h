/* The functions of this room that are compiled for each instruction set, listed as in
   simd/table.inc.h. */

/* cells.inc.h, race.inc.h */
FUNCTION(void, labels_axis, (struct labels_axis * axis, ptrdiff_t from, ptrdiff_t to))
FUNCTION(void, label_pixels,
         (const struct labels *job, const struct labels_part *part, void *memory))
