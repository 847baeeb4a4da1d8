/* x *= share: a replica's term of a weighted mean. The sum over the replicas follows. */

KERNEL void weigh(global float *x, int vectors, float share) {
    FOR_MY (i, vectors) STOREV_ALIGNED(LOADV_ALIGNED(x + i * VEC) * share, x + i * VEC);
}

/* Multiplies x by the loss scale of a state (clq_take_scale_off), or divides x by it if `over` is set. */
KERNEL void scale_by_state(global float *x, int vectors, global const int *state, float initial, int over) {
    float scale = ldexp(initial, state[0]), factor = over ? 1.0f / scale : scale;
    FOR_MY (i, vectors) STOREV_ALIGNED(LOADV_ALIGNED(x + i * VEC) * factor, x + i * VEC);
}
