/* Attention of tokens that come one after another. A sample is a token: `places` has the place of each. Caches have a
 * row for each place: keys (context, shared, key), values (context, shared, value). Queries are (heads, key); heads /
 * shared of them look at one head of the caches. */

ALWAYS_INLINE int place_of(global const float *places, size_t sample, int context) {
    return clamp((int)places[sample], 0, context - 1);
}

/* A row of each cache is the sample's. */
KERNEL void cached_append(global const float *k, global const float *v, global const float *places, global float *keys,
                          global float *values, int count, int context, int key_row, int value_row) {
    const int row = key_row + value_row;
    FOR_MY (number, (size_t)count * row) {
        const size_t sample = number / row, place = place_of(places, sample, context);
        const int at = (int)(number - sample * row);
        if (at < key_row)
            keys[place * key_row + at] = k[sample * key_row + at];
        else
            values[place * value_row + at - key_row] = v[sample * value_row + at - key_row];
    }
}

#ifdef TILE

ALWAYS_INLINE float product_of(global const float *a, global const float *b, int n) {
    floatv sum = 0;
    for (int i = 0; i < n; i += VEC) sum = fma(READ_V_UNTIL(0, a + i, a + n), READ_V_UNTIL(0, b + i, b + n), sum);
    return floatv_sum(sum);
}

/* n scores become their exponentials, less the largest; gives 1 over their sum. */
ALWAYS_INLINE float exponentials_of(global float *scores, int n, float most) {
    floatv sums = 0;
    float sum = 0;
    int i = 0;
    for (; i + VEC <= n; i += VEC) {
        const floatv share = exp(READ_V(0, scores + i) - most);
        WRITE_V(0, share, scores + i);
        sums += share;
    }
    for (; i < n; i++) sum += scores[i] = exp(scores[i] - most);
    return 1.0f / (floatv_sum(sums) + sum);
}

/* y[0 … WIDE vectors) = scale * the sum of n rows, each times its share. */
#define DEFINE_MIXED(name, WIDE)                                                                                       \
    ALWAYS_INLINE void name(global const float *shares, global const float *rows, global float *y, int n, int pitch,   \
                            float scale) {                                                                             \
        floatv sums[WIDE];                                                                                             \
        UNROLL for (int c = 0; c < WIDE; c++) sums[c] = 0;                                                             \
        for (int i = 0; i < n; i++) {                                                                                  \
            const floatv share = shares[i];                                                                            \
            UNROLL for (int c = 0; c < WIDE; c++) sums[c] =                                                            \
                fma(share, READ_V(0, rows + (size_t)i * pitch + c * VEC), sums[c]);                                    \
        }                                                                                                              \
        UNROLL for (int c = 0; c < WIDE; c++) WRITE_V(0, sums[c] * scale, y + c * VEC);                                \
    }
DEFINE_MIXED(mixed_four, 4)
DEFINE_MIXED(mixed_one, 1)

/* scores (count, heads, context): memory of this launch alone. window: so many last rows are looked at. */
KERNEL void cached_attend(global const float *q, global const float *keys, global const float *values,
                          global const float *places, global float *y, global float *scores, int count, int context,
                          int heads, int shared, int key, int value, int window, float scale) {
    const int key_row = shared * key, value_row = shared * value, each = heads / shared;
    FOR_MY (pair, (size_t)count * heads) {
        const size_t sample = pair / heads;
        const int head = (int)(pair - sample * heads) / each, last = place_of(places, sample, context);
        const int first = max(last + 1 - window, 0), n = last + 1 - first;
        global const float *k = keys + (size_t)first * key_row + (size_t)head * key;
        global const float *v = values + (size_t)first * value_row + (size_t)head * value;
        global float *own = scores + pair * context, *to = y + pair * value;
        float most = -INFINITY;
        for (int i = 0; i < n; i++) {
            const float score = scale * product_of(q + pair * key, k + (size_t)i * key_row, key);
            own[i] = score;
            most = fmax(most, score);
        }
        const float part = exponentials_of(own, n, most);
        int c = 0;
        for (; c + 4 * VEC <= value; c += 4 * VEC) mixed_four(own, v + c, to + c, n, value_row, part);
        for (; c + VEC <= value; c += VEC) mixed_one(own, v + c, to + c, n, value_row, part);
        for (; c < value; c++) {
            float sum = 0;
            for (int i = 0; i < n; i++) sum = fma(own[i], v[(size_t)i * value_row + c], sum);
            to[c] = sum * part;
        }
    }
}

#else

/* Of a work-group's items, the largest number or the sum of all. numbers: a float for each item. */
#define DEFINE_TOGETHER(name, both)                                                                                    \
    static float name(local float *numbers, float value) {                                                             \
        const int item = (int)get_local_id(0);                                                                         \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        numbers[item] = value;                                                                                         \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        for (int step = GROUP / 2; step > 0; step /= 2) {                                                              \
            if (item < step) numbers[item] = both(numbers[item], numbers[item + step]);                                \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
        }                                                                                                              \
        return numbers[0];                                                                                             \
    }
#define SUM_OF(a, b) ((a) + (b))
DEFINE_TOGETHER(most_together, fmax)
DEFINE_TOGETHER(sum_together, SUM_OF)

/* A work-group to each sample and head. Its items take rows for scores, and columns of some of the rows for values. */
KERNEL void cached_attend(global const float *q, global const float *keys, global const float *values,
                          global const float *places, global float *y, global float *scores, int count, int context,
                          int heads, int shared, int key, int value, int window, float scale, local float *numbers) {
    const int key_row = shared * key, value_row = shared * value, each = heads / shared, item = (int)get_local_id(0);
    const int columns = min(value, GROUP), parts = GROUP / columns, part = item / columns;
    for (size_t pair = get_group_id(0); pair < (size_t)count * heads; pair += get_num_groups(0)) {
        const size_t sample = pair / heads;
        const int head = (int)(pair - sample * heads) / each, last = place_of(places, sample, context);
        const int first = max(last + 1 - window, 0), n = last + 1 - first;
        global const float *k = keys + (size_t)first * key_row + (size_t)head * key;
        global const float *v = values + (size_t)first * value_row + (size_t)head * value;
        global float *own = scores + pair * context;
        float most = -INFINITY, sum = 0;
        for (int i = item; i < n; i += GROUP) {
            float score = 0;
            for (int c = 0; c < key; c++) score = fma(q[pair * key + c], k[(size_t)i * key_row + c], score);
            own[i] = score *= scale;
            most = fmax(most, score);
        }
        most = most_together(numbers, most);
        for (int i = item; i < n; i += GROUP) sum += own[i] = exp(own[i] - most);
        sum = sum_together(numbers, sum);
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int from = 0; from < value; from += columns) {
            const int c = from + item - part * columns;
            float mixed = 0;
            if (part < parts && c < value)
                for (int i = part; i < n; i += parts) mixed = fma(own[i], v[(size_t)i * value_row + c], mixed);
            barrier(CLK_LOCAL_MEM_FENCE);
            numbers[item] = mixed;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (item < columns && c < value) {
                for (int p = 1; p < parts; p++) mixed += numbers[p * columns + item];
                y[pair * value + c] = mixed / sum;
            }
        }
    }
}

#endif
