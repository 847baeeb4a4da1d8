/* Attention over whole texts (attend), and for tokens that come one after another (cached_append, cached_attend).
 *
 * For the cached kernels, a sample is one token, and `places` has the place of each token. Each cache has a row for
 * each place: keys (context, shared, key), values (context, shared, value). The queries of a sample are (heads, key).
 * heads / shared of them use the same head of the caches.
 *
 * attend: matrices are given by their pitches, as in batched.cl. Number (i, j) of the mask lies at i * mask_row + j *
 * mask_column. With TILE, the columns of k lie side by side in memory if DOT, else its rows do. ADDS: the mask is added
 * to the scores. SELECTS: a score becomes `low` if its number in the mask is 0. */

#if defined(ADDS) || defined(SELECTS)
#define MASK_PARAMETER global const float *mask,
#define MASK_AT(j) mask[place_of_mask + (size_t)(j)*mask_column]
#else
#define MASK_PARAMETER
#endif
#ifdef ADDS
#define MASKED(score, j) ((score) + MASK_AT(j))
#elif defined(SELECTS)
#define MASKED(score, j) (MASK_AT(j) != 0 ? (score) : low)
#else
#define MASKED(score, j) (score)
#endif
#define ATTEND_PARAMETERS                                                                                              \
    global const float *q, global const float *k, global const float *v, MASK_PARAMETER global float *y,               \
        global float *scores, int count, int counts0, int counts1, int m, int n, int key, int value, float scale,      \
        float low, int q_sample, int q_pitch0, int q_pitch1, int q_row, int k_sample, int k_pitch0, int k_pitch1,      \
        int k_row, int k_column, int v_sample, int v_pitch0, int v_pitch1, int v_row, int y_sample, int y_pitch0,      \
        int y_pitch1, int y_row, int mask_sample, int mask_pitch0, int mask_pitch1, int mask_row, int mask_column
/* The offset of number (0, 0) of a matrix. */
#define MATRIX(x) (sample * x##_sample + (size_t)p0 * x##_pitch0 + (size_t)p1 * x##_pitch1)
/* Finds the data of row `number`, counted over the query rows of all samples. */
#define FIND_ROW                                                                                                       \
    const size_t matrix = number / m, first = matrix / counts1, sample = first / counts0;                              \
    const int row = (int)(number - matrix * m), p1 = (int)(matrix - first * counts1),                                  \
              p0 = (int)(first - sample * counts0);                                                                    \
    const size_t place_of_mask = MATRIX(mask) + (size_t)row * mask_row;                                                \
    global const float *query = q + MATRIX(q) + (size_t)row * q_row, *keys = k + MATRIX(k), *values = v + MATRIX(v);   \
    global float *to = y + MATRIX(y) + (size_t)row * y_row;

ALWAYS_INLINE int place_of(global const float *places, size_t sample, int context) {
    return clamp((int)places[sample], 0, context - 1);
}

/* Stores the key and the value of each sample in its row of the caches. */
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

/* Replaces each of n scores by exp(score - most); `most` is the largest score. Returns 1 / the sum of the results. */
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

/* y[0 … WIDE vectors) = scale * the sum of n rows, each row times its share. */
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

/* The same for all columns. */
ALWAYS_INLINE void mix(global const float *shares, global const float *rows, global float *y, int n, int value,
                       int pitch, float scale) {
    int c = 0;
    for (; c + 4 * VEC <= value; c += 4 * VEC) mixed_four(shares, rows + c, y + c, n, pitch, scale);
    for (; c + VEC <= value; c += VEC) mixed_one(shares, rows + c, y + c, n, pitch, scale);
    for (; c < value; c++) {
        float sum = 0;
        for (int i = 0; i < n; i++) sum = fma(shares[i], rows[(size_t)i * pitch + c], sum);
        y[c] = sum * scale;
    }
}

/* scores (count, heads, context): scratch memory of this launch. window: a token uses at most this many rows of the
 * caches, up to its own. */
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
        mix(own, v, to, n, value, value_row, exponentials_of(own, n, most));
    }
}

/* The dot products of one query with keys j to j + VEC - 1, as far as there are such keys. */
ALWAYS_INLINE floatv scores_from(global const float *query, global const float *keys, int j, int n, int key, int k_row,
                                 int k_column) {
    floatv sum = 0;
#ifdef DOT
    (void)k_column;
    UNROLL for (int l = 0; l < VEC; l++) if (j + l < n)((float *)&sum)[l] =
        product_of(query, keys + (size_t)(j + l) * k_row, key);
#else
    (void)k_row;
    for (int c = 0; c < key; c++) {
        global const float *others = keys + (size_t)c * k_column;
        sum = fma((floatv)(query[c]), READ_V_UNTIL(0, others + j, others + n), sum);
    }
#endif
    return sum;
}

/* scores: scratch memory of this launch, n numbers for each work-item. */
KERNEL void attend(ATTEND_PARAMETERS) {
    global float *own = scores + get_global_id(0) * n;
    FOR_MY (number, (size_t)count * counts0 * counts1 * m) {
        FIND_ROW
        float most = -INFINITY;
        for (int j = 0; j < n; j += VEC) {
            const floatv some = scale * scores_from(query, keys, j, n, key, k_row, k_column);
            for (int l = 0; l < VEC && j + l < n; l++) {
                const float score = MASKED(((const float *)&some)[l], j + l);
                own[j + l] = score;
                most = fmax(most, score);
            }
        }
        mix(own, values, to, n, value, v_row, exponentials_of(own, n, most));
    }
}

#else

/* Reduces the values of a work-group's items to the largest value or to their sum. numbers: one float for each item. */
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

/* y[0 … value) = the sum of n rows, each row times its share. The shares are the softmax of the scores. most: the
 * largest of this item's scores. If there are at least two items for each column, the items also share the rows. */
ALWAYS_INLINE void mix_together(local float *numbers, global float *own, global const float *rows, global float *y,
                                int n, int value, int pitch, float most) {
    const int item = (int)get_local_id(0), columns = min(value, GROUP), parts = GROUP / columns, part = item / columns;
    float sum = 0;
    most = most_together(numbers, most);
    for (int i = item; i < n; i += GROUP) sum += own[i] = exp(own[i] - most);
    sum = sum_together(numbers, sum);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int from = 0; from < value; from += columns) {
        const int c = from + item - part * columns;
        float mixed = 0;
        if (part < parts && c < value)
            for (int i = part; i < n; i += parts) mixed = fma(own[i], rows[(size_t)i * pitch + c], mixed);
        barrier(CLK_LOCAL_MEM_FENCE);
        numbers[item] = mixed;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < columns && c < value) {
            for (int p = 1; p < parts; p++) mixed += numbers[p * columns + item];
            y[c] = mixed / sum;
        }
    }
}

/* A work-group computes one head of one sample at a time. For the scores, its items share the rows. */
KERNEL void cached_attend(global const float *q, global const float *keys, global const float *values,
                          global const float *places, global float *y, global float *scores, int count, int context,
                          int heads, int shared, int key, int value, int window, float scale, local float *numbers) {
    const int key_row = shared * key, value_row = shared * value, each = heads / shared, item = (int)get_local_id(0);
    for (size_t pair = get_group_id(0); pair < (size_t)count * heads; pair += get_num_groups(0)) {
        const size_t sample = pair / heads;
        const int head = (int)(pair - sample * heads) / each, last = place_of(places, sample, context);
        const int first = max(last + 1 - window, 0), n = last + 1 - first;
        global const float *k = keys + (size_t)first * key_row + (size_t)head * key;
        global const float *v = values + (size_t)first * value_row + (size_t)head * value;
        global float *own = scores + pair * context;
        float most = -INFINITY;
        for (int i = item; i < n; i += GROUP) {
            float score = 0;
            for (int c = 0; c < key; c++) score = fma(q[pair * key + c], k[(size_t)i * key_row + c], score);
            own[i] = score *= scale;
            most = fmax(most, score);
        }
        mix_together(numbers, own, v, y + pair * value, n, value, value_row, most);
    }
}

/* A work-group computes one query at a time. scores: n numbers for each work-group. */
KERNEL void attend(ATTEND_PARAMETERS, local float *numbers) {
    global float *own = scores + get_group_id(0) * n;
    for (size_t number = get_group_id(0); number < (size_t)count * counts0 * counts1 * m; number += get_num_groups(0)) {
        FIND_ROW
        float most = -INFINITY;
        barrier(CLK_GLOBAL_MEM_FENCE); /* all items have read the scores of the previous query */
        for (int j = (int)get_local_id(0); j < n; j += GROUP) {
            float score = 0;
            for (int c = 0; c < key; c++) score = fma(query[c], keys[(size_t)j * k_row + (size_t)c * k_column], score);
            score *= scale;
            own[j] = score = MASKED(score, j);
            most = fmax(most, score);
        }
        mix_together(numbers, own, values, to, n, value, v_row, most);
    }
}

#endif
