/* Samples as they are stored (u8) to what the first layer takes (f32). */

#ifdef TILE /* few work-items, each with a run of vectors */
#define KERNEL TILE_KERNEL
#define MY_VECTORS(i, n)                                                                            \
    (size_t share_ = ((size_t)(n) + get_global_size(0) - 1) / get_global_size(0),                   \
            i = min(get_global_id(0) * share_, (size_t)(n)), end_ = min(i + share_, (size_t)(n));   \
     i < end_; i++)
#else /* many work-items, neighbours take neighbouring vectors */
#define KERNEL kernel
#define MY_VECTORS(i, n) (size_t i = get_global_id(0); i < (size_t)(n); i += get_global_size(0))
#endif

KERNEL void input_u8(global const uchar *x, global float *y, int count, int elements) {
    size_t total = (size_t)count * elements, vectors = total / VEC;
    const float scale = 1.0f / 255.0f;
    for MY_VECTORS (i, vectors) STOREV_ALIGNED(TO_FLOATV(((global const ucharv *)x)[i]) * scale, y + i * VEC);
    for (size_t i = vectors * VEC + get_global_id(0); i < total; i += get_global_size(0)) y[i] = (float)x[i] * scale;
}
