/* Resize and ArgMax as ONNX Runtime computes them, to the last bit, so that a session's labels are
   the same where values tie.  Positions are quotients in float32, and a value is a sum of four
   products, ((a p + b q) + c r) + d s, none of them fused. */

static FORCE_INLINE VECTOR chosen(INDICES mask, VECTOR a, VECTOR b) {
    return (VECTOR)(((INDICES)a & mask) | ((INDICES)b & ~mask));
}

/* Returns the first one of the two numbers that a position lies between, by mode "nearest" the only
   one.  What is nearly halfway counts as halfway, since ONNX Runtime 1.32 has it so. */
static FORCE_INLINE int32_t onnx_number(const struct labels_axis *axis, float at, int32_t last) {
    const float down = __builtin_floorf(at), past = at - down - 0.5F;
    const int halfway = __builtin_fabsf(past) < 1e-6F;
    float number = down;
    if (axis->nearest == ROUND_PREFER_FLOOR)
        number += past > 0 && !halfway;
    else if (axis->nearest == ROUND_PREFER_CEIL)
        number += past > 0 || halfway;
    else if (axis->nearest == ROUND_UP)
        number = __builtin_ceilf(at);
    return number < 0 ? 0 : number < (float)last ? (int32_t)number : last;
}

/* Finds where the pixels of an axis lie.  The last number counts half twice. */
static NOINLINE void onnx_axis(struct labels_axis *axis) {
    const int32_t last = (int32_t)axis->extent - 1;
    const float scale = (float)axis->scale, pixels = (float)axis->pixels;
    REAL *low_weight = (REAL *)axis->low_weight, *high_weight = (REAL *)axis->high_weight;
    axis->single = axis->nearest != 0;
    axis->last = last;
    for (ptrdiff_t i = 0; i < axis->pixels; i++) {
        float at = (float)i;
        if (scale == 1)
            ;
        else if (axis->rule == ONNX_ALIGNED)
            at = axis->pixels > 1 ? at * (float)last / (pixels - 1) : 0;
        else if (axis->rule == ONNX_HALF_PIXELS)
            at = (at + 0.5F) / scale - 0.5F;
        else
            at = at / scale;
        if (!axis->nearest)
            at = at > 0 ? at < (float)last ? at : (float)last : 0;
        axis->at[i] = onnx_number(axis, at, last);
        const float high = axis->at[i] < last ? at - (float)axis->at[i] : 0.5F;
        high_weight[i] = axis->single ? 0 : (REAL)high;
        low_weight[i] = 1 - high_weight[i];
    }
}

/* Returns values of a class as they are compared: as whole quanta, if there are some. */
static FORCE_INLINE VECTOR onnx_compared(const struct labels *job, ptrdiff_t class, VECTOR v) {
    if (job->quantum != 0) {
        const VECTOR least = splat((REAL)job->least), most = splat((REAL)job->most);
        const VECTOR whole = splat((REAL)1.5 / REAL_EPSILON); /* sums with it are whole numbers */
        v = v / splat((REAL)job->quantum);
        v = chosen(v > least, chosen(v < most, v, most), least); /* NaN is the least one */
        v = v + whole - whole;
    }
    /* Comparisons with NaN are false, so that it wins where the first class has it, and is less
       than all else in other classes.  With a stride below 0 the first one is read last. */
    return class == (job->class_stride < 0 ? job->classes - 1 : 0)
               ? v
               : chosen(v == v, v, splat(-(REAL)INFINITY));
}

/* Returns the values of a class; corners: its numbers, low, high: weights along x, above, below:
   along y. */
static FORCE_INLINE VECTOR onnx_value(const struct labels *job, ptrdiff_t class,
                                      const VECTOR *corners, VECTOR low, VECTOR high, VECTOR above,
                                      VECTOR below) {
    VECTOR v = low * above * corners[0];
    v = v + high * above * corners[1];
    v = v + low * below * corners[2];
    v = v + high * below * corners[3];
    return onnx_compared(job, class, v);
}

/* What the largest corner of a class must reach to win a pixel.  Numbers that are rounded tie if
   they are up to one quantum apart, or beyond the quanta that there are. */
static FORCE_INLINE REAL onnx_limit(const struct labels *job, REAL least) {
    const REAL quantum = (REAL)job->quantum, most = (REAL)job->most * quantum;
    const REAL reached = (least < most ? least : most) - quantum * (REAL)1.01;
    if (reached <= (REAL)job->least * quantum)
        return -(REAL)INFINITY;
    return reached;
}
