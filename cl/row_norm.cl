/* Normalises each row by itself: layer, group and root-mean-square normalisation. A sample is (outer, positions,
 * groups, width). A row belongs to one place of `outer` and to one group: it is `positions` runs of `width` numbers.
 * Channel g * width + k has a factor gamma (with GAMMA) and a summand beta (with BETA). statistics: the mean of each
 * row, and 1 / sqrt(variance + epsilon). If not CENTRED, 0 counts as the mean, and the mean of squares as the variance.
 * X_STORAGE and so on: how numbers are stored (prelude.cl). */
typedef STORED(X_STORAGE) x_number;
typedef STORED(Y_STORAGE) y_number;
typedef STORED(DY_STORAGE) dy_number;
typedef STORED(DX_STORAGE) dx_number;

#ifdef GAMMA
#define GAMMA_OF(c) gamma[c]
#define GAMMAS_UNTIL(c, n) READ_V_UNTIL(0, gamma + (c), gamma + (c) + (n))
#else
#define GAMMA_OF(c) 1.0f
#define GAMMAS_UNTIL(c, n) (floatv)(1)
#endif
#ifdef BETA
#define BETA_OF(c) beta[c]
#define BETAS_UNTIL(c, n) READ_V_UNTIL(0, beta + (c), beta + (c) + (n))
#else
#define BETA_OF(c) 0.0f
#define BETAS_UNTIL(c, n) (floatv)(0)
#endif

#define STORE_UNTIL(S, value, p, n)                                                                                    \
    if ((n) >= VEC) {                                                                                                  \
        WRITE_V(S, value, p);                                                                                          \
    } else {                                                                                                           \
        float lanes_[VEC];                                                                                             \
        CLQ_JOIN(vstore, VEC)(value, 0, lanes_);                                                                       \
        for (int k_ = 0; k_ < (n); k_++) WRITE(S, lanes_[k_], (p) + k_);                                               \
    }

#ifdef TILE

/* 1 in the first n lanes, 0 in the others. */
ALWAYS_INLINE floatv lanes_below(int n) { return VEC_INDEX < n ? (floatv)1 : (floatv)0; }

/* The row that begins at `x`: its sum, and the sum of its squared differences from `centre`. */
ALWAYS_INLINE float sum_of_row(global const x_number *x, int positions, int channels, int width) {
    floatv sum = 0;
    for (int p = 0; p < positions; p++) {
        global const x_number *run = x + (size_t)p * channels;
        for (int k = 0; k < width; k += VEC) sum += READ_V_UNTIL(X_STORAGE, run + k, run + width);
    }
    return floatv_sum(sum);
}
ALWAYS_INLINE float squares_of_row(global const x_number *x, float centre, int positions, int channels, int width) {
    floatv sum = 0;
    for (int p = 0; p < positions; p++) {
        global const x_number *run = x + (size_t)p * channels;
        for (int k = 0; k < width; k += VEC) {
            const floatv apart = (READ_V_UNTIL(X_STORAGE, run + k, run + width) - centre) * lanes_below(width - k);
            sum = fma(apart, apart, sum);
        }
    }
    return floatv_sum(sum);
}

KERNEL void row_norm_forward(global const x_number *x, global const float *gamma, global const float *beta,
                             global y_number *y, global float *statistics, int count, int outer, int positions,
                             int groups, int width, float epsilon) {
    const int channels = groups * width;
    const float n = (float)positions * (float)width;
    FOR_MY (row, (size_t)count * outer * groups) {
        const size_t block = row / groups;
        const int first = (int)(row - block * groups) * width;
        const size_t begin = block * positions * channels + first;
        float mean = 0;
#ifdef CENTRED
        mean = sum_of_row(x + begin, positions, channels, width) / n;
#endif
        const float rate = 1.0f / sqrt(squares_of_row(x + begin, mean, positions, channels, width) / n + epsilon);
#ifdef KEEP
        statistics[2 * row] = mean;
        statistics[2 * row + 1] = rate;
#endif
        for (int p = 0; p < positions; p++) {
            global const x_number *run = x + begin + (size_t)p * channels;
            for (int k = 0; k < width; k += VEC) {
                const int left = width - k;
                const floatv normal = (READ_V_UNTIL(X_STORAGE, run + k, run + width) - mean) * rate;
                const floatv value = fma(normal, GAMMAS_UNTIL(first + k, left), BETAS_UNTIL(first + k, left));
                STORE_UNTIL(Y_STORAGE, value, y + begin + (size_t)p * channels + k, left)
            }
        }
    }
}

/* Makes dx, and the gradients of gamma and beta as sums over the rows of a slice: partials (slices, 2, channels). */
KERNEL void row_norm_backward(global const x_number *x, global const dy_number *dy, global const float *statistics,
                              global const float *gamma, global dx_number *dx, global float *partials, int count,
                              int slices, int outer, int positions, int groups, int width) {
    const int channels = groups * width;
    const float share = 1.0f / ((float)positions * (float)width);
    const size_t rows = (size_t)count * outer * groups, each = (rows + slices - 1) / slices;
    FOR_MY (slice, slices) {
        const size_t end = min(slice * each + each, rows);
#ifdef SUMS
        global float *partial = partials + slice * 2 * channels;
        for (int c = 0; c < 2 * channels; c++) partial[c] = 0;
#endif
        for (size_t row = min(slice * each, rows); row < end; row++) {
            const size_t block = row / groups;
            const int first = (int)(row - block * groups) * width;
            const size_t begin = block * positions * channels + first;
            const float mean = statistics[2 * row], rate = statistics[2 * row + 1];
            floatv slopes = 0, bends = 0;
            for (int p = 0; p < positions; p++) {
                const size_t run = begin + (size_t)p * channels;
                for (int k = 0; k < width; k += VEC) {
                    const int left = width - k;
                    const floatv slope = READ_V_UNTIL(DY_STORAGE, dy + run + k, dy + run + width);
                    const floatv normal = (READ_V_UNTIL(X_STORAGE, x + run + k, x + run + width) - mean) * rate;
                    const floatv scaled = slope * GAMMAS_UNTIL(first + k, left);
                    slopes += scaled;
                    bends = fma(scaled, normal, bends);
#ifdef SUMS
                    global float *of_gamma = partial + first + k, *of_beta = of_gamma + channels;
                    const floatv more = fma(slope, normal, READ_V_UNTIL(0, of_gamma, of_gamma + left));
                    const floatv sum = slope + READ_V_UNTIL(0, of_beta, of_beta + left);
                    STORE_UNTIL(0, more, of_gamma, left)
                    STORE_UNTIL(0, sum, of_beta, left)
#endif
                }
            }
#ifdef CENTRED
            const float slope_mean = floatv_sum(slopes) * share;
#else
            const float slope_mean = 0;
#endif
            const float bend_mean = floatv_sum(bends) * share;
#ifdef INPUT
            for (int p = 0; p < positions; p++) {
                const size_t run = begin + (size_t)p * channels;
                for (int k = 0; k < width; k += VEC) {
                    const int left = width - k;
                    const floatv slope = READ_V_UNTIL(DY_STORAGE, dy + run + k, dy + run + width);
                    const floatv normal = (READ_V_UNTIL(X_STORAGE, x + run + k, x + run + width) - mean) * rate;
                    const floatv scaled = slope * GAMMAS_UNTIL(first + k, left);
                    STORE_UNTIL(DX_STORAGE, rate * (scaled - slope_mean - normal * bend_mean), dx + run + k, left)
                }
            }
#endif
        }
    }
}

#else

/* The sum over the items of a work-group, which takes one row at a time. shared: a float for each item. */
static float sum_of_group(local float *shared, float value) {
    const int item = (int)get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    shared[item] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = GROUP / 2; step > 0; step /= 2) {
        if (item < step) shared[item] += shared[item + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return shared[0];
}

KERNEL void row_norm_forward(global const x_number *x, global const float *gamma, global const float *beta,
                             global y_number *y, global float *statistics, int count, int outer, int positions,
                             int groups, int width, float epsilon, local float *shared) {
    const int channels = groups * width, numbers = positions * width, item = (int)get_local_id(0);
    const float n = (float)positions * (float)width;
    for (size_t row = get_group_id(0); row < (size_t)count * outer * groups; row += get_num_groups(0)) {
        const size_t block = row / groups;
        const int first = (int)(row - block * groups) * width;
        const size_t begin = block * positions * channels + first;
        float mean = 0, squares = 0;
#ifdef CENTRED
        float sum = 0;
        for (int i = item; i < numbers; i += GROUP)
            sum += READ(X_STORAGE, x + begin + (size_t)(i / width) * channels + i % width);
        mean = sum_of_group(shared, sum) / n;
#endif
        for (int i = item; i < numbers; i += GROUP) {
            const float apart = READ(X_STORAGE, x + begin + (size_t)(i / width) * channels + i % width) - mean;
            squares = fma(apart, apart, squares);
        }
        const float rate = 1.0f / sqrt(sum_of_group(shared, squares) / n + epsilon);
#ifdef KEEP
        if (item == 0) {
            statistics[2 * row] = mean;
            statistics[2 * row + 1] = rate;
        }
#endif
        for (int i = item; i < numbers; i += GROUP) {
            const int k = i % width;
            const size_t at = begin + (size_t)(i / width) * channels + k;
            const float normal = (READ(X_STORAGE, x + at) - mean) * rate;
            const float value = fma(normal, GAMMA_OF(first + k), BETA_OF(first + k));
            WRITE(Y_STORAGE, value, y + at);
        }
    }
}

KERNEL void row_norm_backward(global const x_number *x, global const dy_number *dy, global const float *statistics,
                              global const float *gamma, global dx_number *dx, int count, int outer, int positions,
                              int groups, int width, local float *shared) {
    const int channels = groups * width, numbers = positions * width, item = (int)get_local_id(0);
    const float share = 1.0f / ((float)positions * (float)width);
    for (size_t row = get_group_id(0); row < (size_t)count * outer * groups; row += get_num_groups(0)) {
        const size_t block = row / groups;
        const int first = (int)(row - block * groups) * width;
        const size_t begin = block * positions * channels + first;
        const float mean = statistics[2 * row], rate = statistics[2 * row + 1];
        float slopes = 0, bends = 0;
        for (int i = item; i < numbers; i += GROUP) {
            const int k = i % width;
            const size_t at = begin + (size_t)(i / width) * channels + k;
            const float scaled = READ(DY_STORAGE, dy + at) * GAMMA_OF(first + k);
            slopes += scaled;
            bends = fma(scaled, (READ(X_STORAGE, x + at) - mean) * rate, bends);
        }
        float slope_mean = 0;
#ifdef CENTRED
        slope_mean = sum_of_group(shared, slopes) * share;
#endif
        const float bend_mean = sum_of_group(shared, bends) * share;
        for (int i = item; i < numbers; i += GROUP) {
            const int k = i % width;
            const size_t at = begin + (size_t)(i / width) * channels + k;
            const float scaled = READ(DY_STORAGE, dy + at) * GAMMA_OF(first + k);
            const float value = rate * (scaled - slope_mean - (READ(X_STORAGE, x + at) - mean) * rate * bend_mean);
            WRITE(DX_STORAGE, value, dx + at);
        }
    }
}

/* partials (slices, 2, channels): the gradients of gamma and beta, as sums over the rows of a slice of blocks. A block
 * is one place of `outer` in a sample. */
KERNEL void row_norm_sums(global const x_number *x, global const dy_number *dy, global const float *statistics,
                          global float *partials, int count, int slices, int outer, int positions, int groups,
                          int width) {
    const int channels = groups * width;
    const size_t blocks = (size_t)count * outer, each = (blocks + slices - 1) / slices;
    FOR_MY (i, (size_t)slices * channels) {
        const size_t slice = i / channels, end = min(slice * each + each, blocks);
        const int c = (int)(i - slice * channels);
        float of_gamma = 0, of_beta = 0;
        for (size_t block = min(slice * each, blocks); block < end; block++) {
            const size_t row = block * groups + c / width;
            const float mean = statistics[2 * row], rate = statistics[2 * row + 1];
            float more = 0, sum = 0;
            for (int p = 0; p < positions; p++) {
                const size_t at = (block * positions + p) * channels + c;
                const float slope = READ(DY_STORAGE, dy + at);
                more = fma(slope, (READ(X_STORAGE, x + at) - mean) * rate, more);
                sum += slope;
            }
            of_gamma += more;
            of_beta += sum;
        }
        partials[slice * 2 * channels + c] = of_gamma;
        partials[(slice * 2 + 1) * channels + c] = of_beta;
    }
}

#endif
