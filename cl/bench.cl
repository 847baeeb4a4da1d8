/* Kernels of `clique bench`. */

kernel void empty(void) {}

/* Multiplies and adds in registers only. There are enough independent chains to hide the latency of a multiplication on
 * a core that begins two vectors at once, and few enough for 16 registers. */
#define CHAINS 10
KERNEL void peak(global float *out, float factor, float term, int rounds) {
    floatv x[CHAINS];
    UNROLL
    for (int i = 0; i < CHAINS; i++) x[i] = TO_FLOATV(VEC_INDEX) + (float)(i + (int)get_global_id(0) % 7);
    for (int round = 0; round < rounds; round++) {
        UNROLL
        for (int i = 0; i < CHAINS; i++) x[i] = x[i] * factor + term;
    }
    floatv sum = x[0];
    UNROLL
    for (int i = 1; i < CHAINS; i++) sum += x[i];
    out[get_global_id(0)] = floatv_sum(sum);
}

/* x[to + i] = x[i] * factor + term, vector by vector: measures what memory can do. If `to` is 0, it works in place. */
KERNEL void stream(global float *x, ulong to, ulong vectors, float factor, float term) {
    FOR_MY (i, vectors) {
        STOREV_ALIGNED(LOADV_ALIGNED(x + i * VEC) * factor + term, x + to + i * VEC);
    }
}
