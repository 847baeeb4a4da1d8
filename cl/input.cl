/* Samples as they are stored (u8) to what the first layer takes (f32). */

KERNEL void input_u8(global const uchar *x, global float *y, int count, int elements) {
    size_t total = (size_t)count * elements, vectors = total / VEC;
    const float scale = 1.0f / 255.0f;
    FOR_MY (i, vectors) STOREV_ALIGNED(TO_FLOATV(((global const ucharv *)x)[i]) * scale, y + i * VEC);
    FOR_MY_FROM (i, vectors * VEC, total) y[i] = (float)x[i] * scale;
}
