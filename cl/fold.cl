/* Adds up the sums that slices left one after another: partials (slices, numbers). */

KERNEL void fold(global const float *partials, global float *out, int slices, int numbers) {
    FOR_MY (i, numbers) {
        float sum = 0;
        for (int s = 0; s < slices; s++) sum += partials[(size_t)s * numbers + i];
        out[i] = sum;
    }
}
