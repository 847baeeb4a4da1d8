/* Batch normalisation of a batch that one replica has or several share, against the definition in double over the whole
 * batch. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>

enum {
    RANKS_MOST = 4,
    MOMENTS = CLQ_MOMENTS_ROWS,
    STATISTICS = CLQ_STATISTICS_ROWS,
    CORRECTIONS = CLQ_CORRECTIONS_ROWS
};

typedef struct norm_case {
    size_t positions, channels;
    unsigned ranks;
    uint32_t counts[RANKS_MOST]; /* samples of each rank */
    double offset;               /* the middle of the numbers, which spread over 2 */
    bool scale, center, in_place;
} norm_case;

static const norm_case cases[] = {
    {1, 1, 1, {1}, 0, true, true, false}, /* one number: the variance is 0 */
    {1, 1, 1, {17}, 0, true, true, true},           {49, 16, 1, {5}, 0, true, true, false},
    {7, 17, 1, {9}, 3, true, false, true},          {31, 10, 1, {8}, -2, false, true, false},
    {1, 31, 1, {64}, 0, false, false, true},        {9, 3, 2, {4, 3}, 1, true, true, false},
    {1, 33, 3, {13, 0, 1}, 0, true, true, true}, /* a rank without samples */
    {5, 6, 4, {1, 2, 3, 4}, -1, true, true, false}, {4, 8, 2, {0, 6}, 0, true, true, false},
    {6, 5, 2, {0, 0}, 0, true, true, false}, /* no rank has samples */
    {15, 4, 1, {16}, 1000, true, true, false},      {64, 2, 2, {7, 9}, -1000, true, true, false},
    {196, 48, 1, {23}, 0, true, true, true}, /* several work-items, by rows and by columns */
    {1, 1030, 2, {40, 23}, 0, true, true, false},
};

typedef struct norm_data {
    size_t rows, n, channels;
    float *x, *dy, *gamma, *beta, *moving[2];
    double *x64, *dy64, *gamma64, *beta64, *moving64[2];
    double *mean, *variance, *y, *dx, *dgamma, *dbeta;
} norm_data;

static clq_normalise_problem shape_of(const norm_case *c) {
    return (clq_normalise_problem){
        .positions = c->positions, .channels = c->channels, .epsilon = 1e-3, .momentum = 0.9};
}

static norm_data make_data(const norm_case *c) {
    clq_random random = clq_random_start(81, c->positions * 4096 + c->channels);
    norm_data d = {.channels = c->channels};
    for (unsigned k = 0; k < c->ranks; k++) d.rows += c->counts[k] * c->positions;
    d.n = d.rows * c->channels;
    rig_numbers(&random, d.n, c->offset - 1, c->offset + 1, &d.x, &d.x64);
    rig_numbers(&random, d.n, -1, 1, &d.dy, &d.dy64);
    rig_numbers(&random, d.channels, 0.5, 2, &d.gamma, &d.gamma64);
    rig_numbers(&random, d.channels, -1, 1, &d.beta, &d.beta64);
    rig_numbers(&random, d.channels, -1, 1, &d.moving[0], &d.moving64[0]);
    rig_numbers(&random, d.channels, 0.5, 1, &d.moving[1], &d.moving64[1]);
    double **const results[] = {&d.mean, &d.variance, &d.dgamma, &d.dbeta, &d.y, &d.dx};
    for (size_t i = 0; i < CLQ_COUNT_OF(results); i++)
        *results[i] = rig_alloc(i < 4 ? d.channels : d.n + 1, sizeof(double));
    const double *gamma = c->scale ? d.gamma64 : NULL, *beta = c->center ? d.beta64 : NULL;
    ref_moments(d.rows, d.channels, d.x64, d.mean, d.variance);
    ref_normalise(d.rows, d.channels, 1e-3, d.x64, d.mean, d.variance, gamma, beta, d.y);
    ref_normalise_gradient(d.rows, d.channels, 1e-3, d.x64, gamma, d.dy64, d.mean, d.variance, d.dx, d.dgamma, d.dbeta);
    return d;
}

static void free_data(norm_data *d) {
    void *const all[] = {d->x,   d->dy,   d->gamma,   d->beta,   d->moving[0],   d->moving[1],
                         d->x64, d->dy64, d->gamma64, d->beta64, d->mean,        d->variance,
                         d->y,   d->dx,   d->dgamma,  d->dbeta,  d->moving64[0], d->moving64[1]};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

/* ---- one rank's parts of a step; what ranks add up is added here ---- */

typedef struct rank_part {
    const norm_case *c;
    const norm_data *d;
    unsigned rank;
    uint32_t count;
    size_t first, n, row, bytes; /* of its samples: the first number, how many numbers, bytes of one, bytes of all */
} rank_part;

static rank_part part_of(const norm_case *c, const norm_data *d, unsigned rank) {
    rank_part p = {c, d, rank, c->counts[rank], 0, 0, c->positions * c->channels * sizeof(float), 0};
    for (unsigned k = 0; k < rank; k++) p.first += c->counts[k] * c->positions * c->channels;
    p.bytes = p.count * p.row;
    p.n = p.bytes / sizeof(float);
    return p;
}

static void add_to(float *sum, const float *more, size_t n) {
    for (size_t i = 0; i < n; i++) sum[i] += more[i];
}

static void run_moments(rig *r, const rank_part *p, float *all) {
    clq_normalise_problem shape = shape_of(p->c);
    size_t n = p->c->ranks * MOMENTS * p->d->channels;
    float *got = rig_alloc(n, sizeof(float));
    rig_begin(r, p->count + 1);
    clq_value x = rig_value(r, "x", 0, p->row), moments = rig_value(r, "moments", n * sizeof(float), 0);
    clq_normalise_moments(r->list, &shape, x, p->rank, p->c->ranks, moments);
    rig_bind(r);
    rig_fill(r, x, p->d->x + p->first, p->bytes);
    rig_run(r, p->count);
    rig_read(r, moments, got, n * sizeof(float));
    rig_end(r);
    add_to(all, got, n);
    clq_free(got);
}

static void check_moving(const rig *r, const norm_data *d, const float *mean, const float *variance) {
    double *want = rig_alloc(d->channels, sizeof(double)), fresh = d->rows ? 0.1 : 0;
    for (size_t c = 0; c < d->channels; c++) want[c] = d->moving64[0][c] * (1 - fresh) + d->mean[c] * fresh;
    rig_check_close(r, "moving mean", mean, want, d->channels, 2e-7, 2e-7);
    for (size_t c = 0; c < d->channels; c++) want[c] = d->moving64[1][c] * (1 - fresh) + d->variance[c] * fresh;
    rig_check_close(r, "moving variance", variance, want, d->channels, 2e-6, 0);
    if (d->rows == 0) assert_memory_equal(mean, d->moving[0], d->channels * sizeof(float));
    clq_free(want);
}

/* Ranks must agree to the bit. So this computes the moving statistics by joining moments as in ops.h, in C's float
 * arithmetic, which rounds each operation correctly. */
static void check_bits(const rig *r, const norm_case *c, const norm_data *d, const float *moments, const float *mean,
                       const float *variance) {
    const size_t channels = d->channels;
    const float momentum = (float)shape_of(c).momentum, fresh = (float)(1 - shape_of(c).momentum);
    for (size_t i = 0; i < channels; i++) {
        float n = 0, m = 0, squares = 0;
        for (unsigned k = 0; k < c->ranks; k++) {
            const float *more = moments + k * MOMENTS * channels + i;
            const float total = n + more[0], part = more[0] / total, apart = more[channels] - m;
            if (more[0] == 0.0f) continue;
            m = n > 0 ? fmaf(apart, part, m) : more[channels];
            squares += fmaf(apart * apart, n * part, more[2 * channels]);
            n = total;
        }
        const float want[] = {n > 0 ? fmaf(d->moving[0][i], momentum, m * fresh) : d->moving[0][i],
                              n > 0 ? fmaf(d->moving[1][i], momentum, squares / n * fresh) : d->moving[1][i]};
        if (memcmp(&want[0], &mean[i], sizeof(float)) != 0 || memcmp(&want[1], &variance[i], sizeof(float)) != 0)
            fail_msg("%s: moving statistics of channel %zu are %a, %a, should be %a, %a", r->name, i, (double)mean[i],
                     (double)variance[i], (double)want[0], (double)want[1]);
    }
}

/* The sums over ranks at the end of a step. */
typedef struct rank_sums {
    float *moments, *dgamma, *dbeta, *corrections;
} rank_sums;

/* Runs statistics, forward, and this rank's gradients and corrections. Checks y. */
static void run_middle(rig *r, const rank_part *p, float *statistics, const rank_sums *sums) {
    const norm_data *d = p->d;
    clq_normalise_problem shape = shape_of(p->c);
    size_t vector = d->channels * sizeof(float), all = p->c->ranks * MOMENTS * vector;
    float *got = rig_alloc(CLQ_MAX(p->n, d->channels), sizeof(float));
    float *more = rig_alloc(CORRECTIONS * d->channels, sizeof(float));
    rig_begin(r, p->count + 1);
    clq_value x = rig_value(r, "x", 0, p->row), y = p->c->in_place ? x : rig_value(r, "y", 0, p->row);
    clq_value kept = p->c->in_place ? rig_value(r, "kept x", 0, p->row) : x, dy = rig_value(r, "dy", 0, p->row);
    clq_value from = rig_value(r, "moments", all, 0), to = rig_value(r, "statistics", STATISTICS * vector, 0);
    clq_value weights[6], corrections = rig_value(r, "corrections", CORRECTIONS * vector, 0);
    for (size_t i = 0; i < 6; i++) weights[i] = rig_value(r, "by channel", vector, 0);
    clq_normalise_statistics(r->list, &shape, from, p->c->ranks, p->c->scale ? weights[0] : CLQ_NO_VALUE, weights[2],
                             weights[3], to);
    clq_normalise_forward(r->list, &shape, x, to, p->c->center ? weights[1] : CLQ_NO_VALUE, y);
    clq_normalise_gradients(r->list, &shape, kept, dy, to, weights[4], weights[5]);
    clq_normalise_corrections(r->list, &shape, to, weights[4], weights[5], corrections);
    rig_bind(r);
    const float *const data[] = {d->gamma, d->beta, d->moving[0], d->moving[1]};
    for (size_t i = 0; i < 4; i++) rig_fill(r, weights[i], data[i], vector);
    rig_fill(r, x, d->x + p->first, p->bytes);
    rig_fill(r, kept, d->x + p->first, p->bytes);
    rig_fill(r, dy, d->dy + p->first, p->bytes);
    rig_fill(r, from, sums->moments, all);
    rig_run(r, p->count);
    rig_read(r, to, statistics, STATISTICS * vector);
    rig_read(r, y, got, p->bytes);
    rig_check_close(r, "y", got, d->y + p->first, p->n, 2e-6, 2e-6 + fabs(p->c->offset) * 4e-7);
    rig_check_untouched(r, y, p->bytes);
    rig_read(r, weights[2], got, vector);
    rig_read(r, weights[3], more, vector);
    check_moving(r, d, got, more);
    check_bits(r, p->c, d, sums->moments, got, more);
    rig_read(r, weights[4], more, vector);
    add_to(sums->dgamma, more, d->channels);
    rig_read(r, weights[5], more, vector);
    add_to(sums->dbeta, more, d->channels);
    rig_read(r, corrections, more, CORRECTIONS * vector);
    add_to(sums->corrections, more, CORRECTIONS * d->channels);
    rig_end(r);
    clq_free(got);
    clq_free(more);
}

static void run_backward(rig *r, const rank_part *p, const float *statistics, const float *corrections) {
    clq_normalise_problem shape = shape_of(p->c);
    size_t vector = p->d->channels * sizeof(float);
    float *got = rig_alloc(p->n + 1, sizeof(float));
    rig_begin(r, p->count + 1);
    clq_value x = rig_value(r, "x", 0, p->row), dy = rig_value(r, "dy", 0, p->row);
    clq_value dx = p->c->in_place ? dy : rig_value(r, "dx", 0, p->row);
    clq_value from = rig_value(r, "statistics", STATISTICS * vector, 0);
    clq_value of_all = rig_value(r, "corrections", CORRECTIONS * vector, 0);
    clq_normalise_backward(r->list, &shape, x, dy, from, of_all, dx);
    rig_bind(r);
    rig_fill(r, x, p->d->x + p->first, p->bytes);
    rig_fill(r, dy, p->d->dy + p->first, p->bytes);
    rig_fill(r, from, statistics, STATISTICS * vector);
    rig_fill(r, of_all, corrections, CORRECTIONS * vector);
    rig_run(r, p->count);
    rig_read(r, dx, got, p->bytes);
    rig_check_close(r, "dx", got, p->d->dx + p->first, p->n, 1e-5, 1e-5 + fabs(p->c->offset) * 1e-6);
    rig_check_untouched(r, dx, p->bytes);
    rig_end(r);
    clq_free(got);
}

static void check_statistics(const rig *r, const norm_case *c, const norm_data *d, const float *statistics) {
    double *want = rig_alloc(STATISTICS * d->channels, sizeof(double));
    for (size_t k = 0; k < d->channels && d->rows > 0; k++) {
        double rate = 1 / sqrt(d->variance[k] + 1e-3);
        want[k] = d->mean[k];
        want[d->channels + k] = rate;
        want[2 * d->channels + k] = rate * (c->scale ? d->gamma64[k] : 1);
        want[3 * d->channels + k] = 1 / (double)d->rows;
    }
    rig_check_close(r, "statistics", statistics, want, STATISTICS * d->channels, 2e-6, 2e-7);
    clq_free(want);
}

static void check_case(rig *r, const norm_case *c) {
    norm_data d = make_data(c);
    float *statistics = rig_alloc(STATISTICS * d.channels, sizeof(float));
    const rank_sums sums = {.moments = rig_alloc(c->ranks * MOMENTS * d.channels, sizeof(float)),
                            .dgamma = rig_alloc(d.channels, sizeof(float)),
                            .dbeta = rig_alloc(d.channels, sizeof(float)),
                            .corrections = rig_alloc(CORRECTIONS * d.channels, sizeof(float))};
    for (unsigned k = 0; k < c->ranks; k++) {
        rank_part p = part_of(c, &d, k);
        run_moments(r, &p, sums.moments);
    }
    for (unsigned k = 0; k < c->ranks; k++) {
        rank_part p = part_of(c, &d, k);
        run_middle(r, &p, statistics, &sums);
    }
    check_statistics(r, c, &d, statistics);
    double rounding = (1e-6 + fabs(c->offset) * 1e-7) * (double)(d.rows + 1);
    rig_check_close(r, "dgamma", sums.dgamma, d.dgamma, d.channels, 1e-5, rounding);
    rig_check_close(r, "dbeta", sums.dbeta, d.dbeta, d.channels, 1e-6, 1e-7 * (double)(d.rows + 1));
    for (unsigned k = 0; k < c->ranks; k++) {
        rank_part p = part_of(c, &d, k);
        run_backward(r, &p, statistics, sums.corrections);
    }
    void *const all[] = {statistics, sums.moments, sums.dgamma, sums.dbeta, sums.corrections};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
    free_data(&d);
}

static void training(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        size_t samples = 0;
        for (unsigned k = 0; k < cases[i].ranks; k++) samples += cases[i].counts[k];
        if (rig_affords(r, samples * cases[i].positions * cases[i].channels)) check_case(r, &cases[i]);
    }
}

/* Inference takes the moving statistics, whatever the batch is. */
static void inference(rig *r) {
    static const norm_case c = {3, 19, 1, {6}, 0, true, true, false};
    norm_data d = make_data(&c);
    clq_normalise_problem shape = shape_of(&c);
    size_t vector = d.channels * sizeof(float), row = 3 * vector;
    float *got = rig_alloc(d.n, sizeof(float));
    const float *const data[] = {d.gamma, d.beta, d.moving[0], d.moving[1]};
    ref_normalise(d.rows, d.channels, 1e-3, d.x64, d.moving64[0], d.moving64[1], d.gamma64, d.beta64, d.y);
    rig_begin(r, 6);
    clq_value x = rig_value(r, "x", 0, row), y = rig_value(r, "y", 0, row), weights[4];
    clq_value statistics = rig_value(r, "statistics", STATISTICS * vector, 0);
    for (size_t i = 0; i < 4; i++) weights[i] = rig_value(r, "by channel", vector, 0);
    clq_normalise_moving(r->list, &shape, weights[0], weights[2], weights[3], statistics);
    clq_normalise_forward(r->list, &shape, x, statistics, weights[1], y);
    rig_bind(r);
    for (size_t i = 0; i < 4; i++) rig_fill(r, weights[i], data[i], vector);
    rig_fill(r, x, d.x, d.n * sizeof(float));
    rig_run(r, 6);
    rig_read(r, y, got, d.n * sizeof(float));
    rig_check_close(r, "y", got, d.y, d.n, 2e-6, 2e-6);
    rig_end(r);
    clq_free(got);
    free_data(&d);
}

/* ---- the reference itself ---- */

enum { ROWS = 4, CHANNELS = 3, N = ROWS * CHANNELS };

static double weighted_output(const double *x, const double *gamma, const double *beta, const double *dy) {
    double mean[CHANNELS], variance[CHANNELS], y[N], sum = 0;
    ref_moments(ROWS, CHANNELS, x, mean, variance);
    ref_normalise(ROWS, CHANNELS, 1e-3, x, mean, variance, gamma, beta, y);
    for (size_t i = 0; i < N; i++) sum += y[i] * dy[i];
    return sum;
}

static void test_reference_by_differences(void **state) {
    (void)state;
    clq_random random = clq_random_start(82, 0);
    double x[N], dy[N], gamma[CHANNELS], beta[CHANNELS], mean[CHANNELS], variance[CHANNELS], dx[N], dgamma[CHANNELS],
        dbeta[CHANNELS];
    for (size_t i = 0; i < N; i++) x[i] = rig_uniform(&random, -1, 1), dy[i] = rig_uniform(&random, -1, 1);
    for (size_t c = 0; c < CHANNELS; c++) gamma[c] = rig_uniform(&random, 0.5, 2), beta[c] = 0.1;
    ref_moments(ROWS, CHANNELS, x, mean, variance);
    ref_normalise_gradient(ROWS, CHANNELS, 1e-3, x, gamma, dy, mean, variance, dx, dgamma, dbeta);
    double *const at[] = {x, gamma, beta}, *const slopes[] = {dx, dgamma, dbeta};
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < (k == 0 ? N : CHANNELS); i++) {
            double h = 1e-5, kept = at[k][i];
            at[k][i] = kept + h;
            double high = weighted_output(x, gamma, beta, dy);
            at[k][i] = kept - h;
            double low = weighted_output(x, gamma, beta, dy);
            at[k][i] = kept;
            assert_true(fabs((high - low) / (2 * h) - slopes[k][i]) < 1e-8);
        }
    }
}

#define ON_DEVICES(name)                                                                                               \
    static void test_##name(void **state) {                                                                            \
        (void)state;                                                                                                   \
        rig_each(name);                                                                                                \
    }
ON_DEVICES(training)
ON_DEVICES(inference)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_by_differences),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_inference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
