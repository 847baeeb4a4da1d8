/* A replica's summand of a weighted mean; the sum over the replicas follows. */

KERNEL void weigh(global float *x, int vectors, float share) {
    FOR_MY (i, vectors) STOREV_ALIGNED(LOADV_ALIGNED(x + i * VEC) * share, x + i * VEC);
}
