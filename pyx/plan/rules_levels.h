/* Levels: which map of a feature pyramid a box is pooled from.  Included as rules.h is, after it.
 */
#ifndef ROICY_RULES_LEVELS
#define ROICY_RULES_LEVELS

/* Places count maps from the finest one; `rule` of roicy/_checks/_levels.py makes the numbers. */
struct level_rule {
    int last;               /* place of the last map that boxes are pooled from */
    int finest;             /* level of the finest map, which no box is below */
    int canonical_level;    /* of a box whose side is canonical_scale */
    double canonical_scale; /* in coordinates of the image */
    double close;           /* boxes this close below a level belong to it */
};

#endif

#ifdef REAL

/* The place of the map of a box by the rule of feature pyramid networks: its level is
       floor(canonical_level + log2(sqrt(width * height) / canonical_scale)).
   numbers: how many a box has, 4 (its corners) or 5 (a turned box). */
RULE_FN int NAME(level_of)(const struct level_rule *rule, const RULE_NUMBER *box, int numbers) {
    REAL width = (REAL)box[2] - (numbers == 5 ? (REAL)0 : (REAL)box[0]), size, level;
    REAL height = (REAL)box[3] - (numbers == 5 ? (REAL)0 : (REAL)box[1]);
    if (rule->last == 0)
        return 0;
    width = width > 0 ? width : (REAL)0;
    height = height > 0 ? height : (REAL)0;
    size = (REAL)sqrt((double)(width * height)) / (REAL)rule->canonical_scale;
    level = (REAL)rule->canonical_level + (REAL)log2((double)size);
    level = (REAL)floor((double)(level + (REAL)rule->close)) - (REAL)rule->finest;
    if (!(level > 0)) /* NaN too, which sizes that overflow may give */
        return 0;
    return level < (REAL)rule->last ? (int)level : rule->last;
}

#endif
