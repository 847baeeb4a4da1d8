/* Batch normalisation: what is done once for each channel, from sums to moments, and from moments to statistics. Passes
 * over samples are elementwise programs (src/ops/elementwise/normalise.c). Values are rows of `channels`. */

/* Rows of moments: samples * positions, the mean, the sum of squared differences from the mean. */
#define COUNT 0
#define MEAN 1
#define SQUARES 2
#define MOMENTS 3
/* Rows of statistics: the mean, 1 / deviation, gamma / deviation, 1 / count. */
#define CENTRE 0
#define RATE 1
#define SCALE 2
#define SHARE 3

#ifdef GAMMA
#define GAMMA_OF(c) gamma[c]
#else
#define GAMMA_OF(c) 1.0f
#endif

/* Makes row `rank` of moments (ranks, MOMENTS, channels) from the sums, and the sums of squares, of differences from a
 * pivot. The other rows become zeros, so that the sum over the ranks has the rows of all ranks. */
KERNEL void normalise_moments(global const STORED(X_STORAGE) * pivot, global const float *sums,
                              global const float *squares, global float *moments, int count, int positions,
                              int channels, int rank, int ranks) {
    float n = (float)((size_t)count * positions);
    FOR_MY (c, channels) {
        for (int i = 0; i < MOMENTS * ranks; i++) moments[(size_t)i * channels + c] = 0;
        if (count == 0) continue;
        global float *own = moments + (size_t)rank * MOMENTS * channels + c;
        float shift = sums[c] / n, rest = fma(-sums[c], shift, squares[c]);
        own[COUNT * channels] = n;
        own[MEAN * channels] = READ(X_STORAGE, pivot + c) + shift;
        own[SQUARES * channels] = rest < 0 ? 0 : rest;
    }
}

static void write_statistics(global float *statistics, int channels, size_t c, float mean, float rate, float gamma,
                             float share) {
    statistics[CENTRE * channels + c] = mean;
    statistics[RATE * channels + c] = rate;
    statistics[SCALE * channels + c] = gamma * rate;
    statistics[SHARE * channels + c] = share;
}

/* a / b rounded correctly. A device's own quotient may be 2.5 units off. One Newton step corrects it for any float a
 * and whole b below 2^19, and for nearly all others: their quotients are not close enough to the middle of two
 * floats. */
static float quotient(float a, float b) {
    float q = a / b, rest = fma(-q, b, a);
    return isnan(rest) ? q : fma(rest, 1.0f / b, q);
}

/* Some devices take denormal floats for zero. Here all of them do. NaN stays NaN. */
static float settled(float x) { return fabs(x) < FLT_MIN ? 0.0f : x; }

/* Joins the moments of the ranks in their order (Chan, Golub, LeVeque 1983), and updates the moving statistics. These
 * have the same bits on all devices, since compilers have nothing to contract. */
KERNEL void normalise_statistics(global const float *moments, global const float *gamma, global float *moving_mean,
                                 global float *moving_variance, global float *statistics, int channels, int ranks,
                                 float epsilon, float momentum, float fresh) {
    FOR_MY (c, channels) {
        float n = 0, mean = 0, squares = 0;
        for (int k = 0; k < ranks; k++) {
            global const float *more = moments + (size_t)k * MOMENTS * channels + c;
            float other = more[COUNT * channels], total = n + other;
            if (other == 0) continue;
            float apart = more[MEAN * channels] - mean, part = quotient(other, total);
            mean = n > 0 ? fma(apart, part, mean) : more[MEAN * channels];
            squares += fma(apart * apart, n * part, more[SQUARES * channels]);
            n = total;
        }
        if (n == 0) {
            write_statistics(statistics, channels, c, 0, 0, 0, 0);
            continue;
        }
        float variance = quotient(squares, n);
        write_statistics(statistics, channels, c, mean, 1.0f / sqrt(variance + epsilon), GAMMA_OF(c), 1.0f / n);
        moving_mean[c] = settled(fma(moving_mean[c], momentum, mean * fresh));
        moving_variance[c] = settled(fma(moving_variance[c], momentum, variance * fresh));
    }
}

/* Statistics for inference. */
KERNEL void normalise_moving(global const float *moving_mean, global const float *moving_variance,
                             global const float *gamma, global float *statistics, int channels, float epsilon) {
    FOR_MY (c, channels)
        write_statistics(statistics, channels, c, moving_mean[c], 1.0f / sqrt(moving_variance[c] + epsilon),
                         GAMMA_OF(c), 0);
}

/* corrections (2, channels): what the gradients of mean and variance subtract from the gradient of each row. */
KERNEL void normalise_corrections(global const float *statistics, global const float *dgamma, global const float *dbeta,
                                  global float *corrections, int channels) {
    FOR_MY (c, channels) {
        float share = statistics[SHARE * channels + c];
        corrections[c] = dbeta[c] * share;
        corrections[channels + c] = dgamma[c] * share * statistics[RATE * channels + c];
    }
}
