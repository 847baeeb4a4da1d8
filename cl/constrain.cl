/* Constraints on weights. The variable begins at block `block` of the arena w; a block is 128 floats. */
#ifdef NON_NEGATIVE
KERNEL void constrain(global float *w, int block, int n) {
    global float *own = w + (size_t)block * 128;
    FOR_MY (i, n) own[i] = own[i] < 0.0f ? 0.0f : own[i];
}
#else
/* The variable has axes (k0, r1, k2, r3, k4). For each place along the k axes, the numbers along the r axes are scaled,
 * so that their norm moves by the fraction `rate` towards the nearest norm in [least, most]. */
KERNEL void constrain(global float *w, int block, int k0, int r1, int k2, int r3, int k4, float least, float most,
                      float rate) {
    const float epsilon = 1e-7f; /* Keras's */
    FOR_MY (group, k0 * k2 * k4) {
        const int i = (int)group / (k2 * k4), j = (int)group / k4 % k2, k = (int)group % k4;
        global float *own = w + (size_t)block * 128 + ((size_t)i * r1 * k2 + j) * r3 * k4 + k;
        float sum = 0, low = 0;
        for (int a = 0; a < r1; a++)
            for (int b = 0; b < r3; b++) { /* Knuth's two-sum */
                const float x = own[(size_t)a * k2 * r3 * k4 + (size_t)b * k4], term = x * x, both = sum + term,
                            behind = both - sum;
                low += (sum - (both - behind)) + (term - behind);
                sum = both;
            }
        const float norm = sqrt(sum + low), held = fmin(fmax(norm, least), most);
        const float factor = (rate * held + (1.0f - rate) * norm) / (epsilon + norm);
        for (int a = 0; a < r1; a++)
            for (int b = 0; b < r3; b++) own[(size_t)a * k2 * r3 * k4 + (size_t)b * k4] *= factor;
    }
}
#endif
