/* A replica's summand of a weighted mean; the sum over the replicas follows. */

KERNEL void weigh(global float *x, int vectors, float share) {
    FOR_MY (i, vectors) STOREV_ALIGNED(LOADV_ALIGNED(x + i * VEC) * share, x + i * VEC);
}

/* x times, or over, the loss scale of a state (clq_take_scale_off). */
KERNEL void scale_by_state(global float *x, int vectors, global const int *state, float initial, int over) {
    float scale = ldexp(initial, state[0]), factor = over ? 1.0f / scale : scale;
    FOR_MY (i, vectors) STOREV_ALIGNED(LOADV_ALIGNED(x + i * VEC) * factor, x + i * VEC);
}
