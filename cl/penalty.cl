/* Penalties on weights: l1 times the sum of their absolute values plus l2 times the sum of their squares, once for each
 * sample. */
#ifdef SCALED
#define SCALE_PARAMETERS global const int *scaling, float initial,
#define SCALE_OF(scale) ((scale)*ldexp(initial, scaling[0]))
#else
#define SCALE_PARAMETERS
#define SCALE_OF(scale) (scale)
#endif

/* Adds the penalty to the loss at metrics[slot * stride]. One work-group; with TILE, one work-item. */
KERNEL void penalty_loss(global const float *w, global float *metrics, int slot, int stride, int count, int n, float l1,
                         float l2, local float *shared) {
    float sum = 0, low = 0;
    for (int i = (int)get_global_id(0); i < n; i += (int)get_global_size(0)) { /* Knuth's two-sum */
        const float term = fma(l2 * w[i], w[i], l1 * fabs(w[i])), both = sum + term, behind = both - sum;
        low += (sum - (both - behind)) + (term - behind);
        sum = both;
    }
    sum += low;
#ifndef TILE
    const int own = (int)get_local_id(0);
    shared[own] = sum;
    for (int half_ = (int)get_local_size(0) / 2; half_ > 0; half_ /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (own < half_) shared[own] += shared[own + half_];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = shared[0];
#endif
    if (get_global_id(0) == 0) metrics[slot * stride] += (float)count * sum;
}

/* Like the gradient of the loss, dw is the sum over the samples, each times `scale`. */
KERNEL void penalty_gradient(SCALE_PARAMETERS global const float *w, global float *dw, float scale, int count, int n,
                             float l1, float l2) {
    const float factor = (float)count * SCALE_OF(scale);
    FOR_MY (i, n) {
        const float size = w[i] > 0.0f ? l1 : w[i] < 0.0f ? -l1 : 0.0f;
        dw[i] = factor * fma(2.0f * l2, w[i], size);
    }
}
