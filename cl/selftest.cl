/* Known-answer tests of a device. The host computes the expected answers in src/device/check/check_compute.c. */

/* Integer arithmetic of several kinds, mixed into one word. */
static uint integers(uint i) {
    uint a = i * 2654435761u + 12345u, b = (a >> 7) | 1u;
    uint mixed = mul_hi(a, b) ^ (a / b) ^ (a % b) ^ rotate(a, 11u);
    int s = (int)(a >> 1) - 1073741824;
    mixed ^= (uint)(s / 3) + (uint)(s >> 5);
    ulong wide = (ulong)a * b + i;
    return mixed ^ (uint)(wide >> 21);
}

/* Nine results per work-item. Floating-point results are exact, or are rounded here to what they must be. NaN and
 * infinity must stay what they are. */
kernel void arithmetic(global const float *in, global int *out) {
    size_t i = get_global_id(0);
    float x = in[i], zero = in[0];
    float square = x * x;
    int root = (int)rint(sqrt(square)), ratio = (int)rint(square * 3.0f / (x + 1.0f + zero) * 16.0f);
    int e = (int)rint(exp(-x * 0.01f) * 10000.0f), l = (int)rint(log(x + 1.0f) * 1000.0f);
    int special = (isnan(zero / zero) ? 1 : 0) + (isinf((x + 1.0f) / zero) ? 2 : 0);
    out[9 * i] = root;
    out[9 * i + 1] = ratio;
    out[9 * i + 2] = (int)fma(x, 3.0f, 0.5f * 4.0f);
    out[9 * i + 3] = e;
    out[9 * i + 4] = l;
    out[9 * i + 5] = special;
    out[9 * i + 6] = (int)max(x, 7.0f) - (int)min(x, 9.0f);
    out[9 * i + 7] = convert_int_rte(x * 0.5f);
    out[9 * i + 8] = (int)integers((uint)i);
}

/* Vectors of the width that kernels use, loaded unaligned and stored aligned. */
kernel void vectors(global const float *in, global float *out) {
    size_t i = get_global_id(0);
    floatv v = LOADV(in + i * VEC + 3);
    floatv doubled = v * 2.0f + TO_FLOATV(VEC_INDEX);
    STOREV_ALIGNED(doubled, out + (2 * i) * VEC);
    out[(2 * i + 1) * VEC] = floatv_sum(v);
    out[(2 * i + 1) * VEC + 1] = floatv_max(v);
}

/* A chain that no compiler can shorten; some drivers end every loop at 65,535 rounds. */
kernel void long_loop(global uint *out, uint rounds) {
    uint x = (uint)get_global_id(0);
    for (uint i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u + (x >> 16);
    out[get_global_id(0)] = x;
}

/* Sum of a work-group's words through local memory. The group's size is a power of two. */
kernel void group_sum(global const uint *in, global uint *out, local uint *shared_words) {
    size_t me = get_local_id(0);
    shared_words[me] = in[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t step = get_local_size(0) / 2; step > 0; step /= 2) {
        if (me < step) shared_words[me] += shared_words[me + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (me == 0) out[get_group_id(0)] = shared_words[0];
}

kernel void random_words(global uint4 *out, ulong key, ulong high) {
    size_t i = get_global_id(0);
    out[i] = philox4x32(key, (ulong)i * 0x100000001UL, high);
}

kernel void add_words(global uint *words, uint add) { words[get_global_id(0)] += add; }

/* Groups of four lines of `line` words. The second line gets the answers to the first one. The answers are added up in
 * the fourth line. The third line is not touched. */
kernel void answer_lines(global uint *words, uint line, uint round) {
    uint i = (uint)get_global_id(0), at = i / line * 4 * line + i % line, answer = words[at] * 3 + round;
    words[at + line] = answer;
    words[at + 3 * line] += answer;
}
