/* Accumulates gradients over several runs: sum = factor * (sum + x). If `factor` is 0, sum = x. */
KERNEL void accumulate(global float *sum, global const float *x, int floats, float factor) {
    int vectors = floats / VEC;
    FOR_MY (i, vectors) {
        global float *at = sum + i * VEC;
        floatv now = LOADV_ALIGNED(x + i * VEC);
        STOREV_ALIGNED(factor == 0 ? now : factor * (LOADV_ALIGNED(at) + now), at);
    }
    int rest = floats % VEC;
    FOR_MY (i, rest) {
        global float *at = sum + vectors * VEC + i;
        float now = x[vectors * VEC + i];
        *at = factor == 0 ? now : factor * (*at + now);
    }
}
