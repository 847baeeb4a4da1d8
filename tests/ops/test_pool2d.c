#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>

typedef struct pool_case {
    clq_pool2d_problem p;
    uint32_t capacity, count;
} pool_case;

/* in_h, in_w, channels, out_h, out_w, size, stride, pad top and left, average, activation */
static const pool_case cases[] = {
    {{4, 4, 1, 2, 2, 2, 2, 2, 2, 0, 0, false, CLQ_ACTIVATION_LINEAR}, 2, 2},
    {{26, 26, 32, 13, 13, 2, 2, 2, 2, 0, 0, false, CLQ_ACTIVATION_LINEAR},
     8,
     7}, /* fast, channels in whole vectors, several work-items */
    {{11, 7, 10, 5, 3, 2, 2, 2, 2, 0, 0, false, CLQ_ACTIVATION_LINEAR},
     4,
     3}, /* fast, with a row and a column left over */
    {{11, 8, 17, 3, 2, 3, 3, 3, 3, 0, 0, false, CLQ_ACTIVATION_LINEAR}, 3, 3},   /* more than one row left over */
    {{9, 9, 6, 4, 4, 3, 3, 2, 2, 0, 0, false, CLQ_ACTIVATION_LINEAR}, 3, 2},     /* overlapping */
    {{7, 7, 4, 4, 4, 3, 3, 2, 2, 1, 1, false, CLQ_ACTIVATION_LINEAR}, 2, 2},     /* same: padding in front */
    {{6, 10, 5, 3, 5, 3, 2, 2, 2, 0, 0, false, CLQ_ACTIVATION_LINEAR}, 2, 1},    /* same: padding behind only */
    {{10, 9, 8, 3, 3, 2, 1, 4, 3, 0, 0, false, CLQ_ACTIVATION_LINEAR}, 2, 2},    /* gaps between windows */
    {{5, 5, 3, 5, 5, 3, 3, 1, 1, 1, 1, false, CLQ_ACTIVATION_LINEAR}, 2, 2},     /* stride 1 */
    {{20, 19, 2, 2, 2, 17, 16, 3, 3, 0, 0, false, CLQ_ACTIVATION_LINEAR}, 2, 2}, /* window of more than 256 */
    {{1, 1, 1009, 1, 1, 1, 1, 1, 1, 0, 0, false, CLQ_ACTIVATION_LINEAR}, 2, 2},
    {{12, 12, 16, 6, 6, 2, 2, 2, 2, 0, 0, false, CLQ_ACTIVATION_LINEAR}, 3, 0},
    {{4, 4, 1, 2, 2, 2, 2, 2, 2, 0, 0, true, CLQ_ACTIVATION_LINEAR}, 2, 2},
    {{13, 12, 16, 6, 6, 2, 2, 2, 2, 0, 0, true, CLQ_ACTIVATION_LINEAR}, 3, 2},
    {{7, 7, 4, 4, 4, 3, 3, 2, 2, 1, 1, true, CLQ_ACTIVATION_LINEAR}, 2, 2},
    {{6, 10, 5, 3, 5, 3, 2, 2, 2, 0, 0, true, CLQ_ACTIVATION_LINEAR}, 2, 1},
    {{9, 9, 6, 4, 4, 3, 3, 2, 2, 0, 0, true, CLQ_ACTIVATION_LINEAR}, 3, 2},
    {{9, 8, 31, 1, 1, 9, 8, 9, 8, 0, 0, true, CLQ_ACTIVATION_LINEAR}, 2, 2},    /* the whole plane */
    {{28, 28, 6, 14, 14, 2, 2, 2, 2, 0, 0, true, CLQ_ACTIVATION_TANH}, 2, 2},   /* rows of whole vectors and a rest */
    {{13, 12, 16, 6, 6, 2, 2, 2, 2, 0, 0, true, CLQ_ACTIVATION_SIGMOID}, 3, 2}, /* channels in whole vectors */
    {{7, 7, 4, 4, 4, 3, 3, 2, 2, 1, 1, true, CLQ_ACTIVATION_TANH}, 2, 2},       /* overlapping */
    {{8, 8, 3, 4, 4, 2, 2, 2, 2, 0, 0, true, CLQ_ACTIVATION_RELU}, 2, 2},
    {{4, 4, 1, 2, 2, 2, 2, 2, 2, 0, 0, false, CLQ_ACTIVATION_SIGMOID}, 2, 2}, /* rows of less than a vector */
    {{26, 26, 32, 13, 13, 2, 2, 2, 2, 0, 0, false, CLQ_ACTIVATION_TANH}, 8, 7},
    {{9, 9, 6, 4, 4, 3, 3, 2, 2, 0, 0, false, CLQ_ACTIVATION_RELU}, 3, 2},
    {{6, 10, 5, 3, 5, 3, 2, 2, 2, 0, 0, false, CLQ_ACTIVATION_TANH}, 2, 1},
    /* several work-items with different numbers of rows, and activations of whole vectors after the pooling */
    {{28, 28, 6, 14, 14, 2, 2, 2, 2, 0, 0, true, CLQ_ACTIVATION_TANH}, 37, 37},
    {{28, 28, 6, 14, 14, 2, 2, 2, 2, 0, 0, false, CLQ_ACTIVATION_SIGMOID}, 37, 37},
};

/* No other case has the kernels of these two. So they run in both families on both drivers. */
enum { OF_LARGE_WINDOWS = 9, AVERAGE_INSIDE = 16 };

typedef struct pool_data {
    size_t in, out; /* elements of one example */
    float *x, *dy;
    void *in_x, *in_dy; /* as memory has them */
    double *dx_x, *d_dy, *want_y, *want_dx;
    int *winner;
} pool_data;

/* Few distinct values, so that equal values are common: the first of them must win. */
static pool_data make_data(const pool_case *c, clq_dtype of_x, clq_dtype of_y) {
    const clq_pool2d_problem *p = &c->p;
    pool_data d = {.in = p->in_h * p->in_w * p->channels, .out = p->out_h * p->out_w * p->channels};
    clq_random random = clq_random_start(9, d.in * 31 + d.out);
    rig_numbers(&random, d.in * c->count, -1, 1, &d.x, &d.dx_x);
    rig_numbers(&random, d.out * c->count, -1, 1, &d.dy, &d.d_dy);
    for (size_t i = 0; i < d.in * c->count; i++) {
        if (i % 3 == 0) continue;
        d.dx_x[i] = floor(d.dx_x[i] * 4) / 4;
        d.x[i] = (float)d.dx_x[i];
    }
    d.in_x = rig_stored(of_x, d.x, d.dx_x, d.in * c->count);
    d.in_dy = rig_stored(of_y, d.dy, d.d_dy, d.out * c->count);
    d.want_y = rig_alloc(d.out * c->count + 1, sizeof(double));
    d.want_dx = rig_alloc(d.in * c->count + 1, sizeof(double));
    d.winner = rig_alloc(d.out * c->count + 1, sizeof(int));
    double *pooled = rig_alloc(d.out * c->count + 1, sizeof(double)),
           *d_pooled = rig_alloc(d.out * c->count + 1, sizeof(double));
    ref_pool2d(p, c->count, d.dx_x, pooled, d.winner);
    ref_activation(p->activation, d.out * c->count, 1, pooled, d.want_y);
    ref_activation_gradient(p->activation, d.out * c->count, 1, pooled, d.d_dy, d_pooled, NULL);
    ref_pool2d_gradient(p, c->count, d.dx_x, d_pooled, d.want_dx);
    clq_free(pooled);
    clq_free(d_pooled);
    return d;
}

static void free_data(pool_data *d) {
    clq_free(d->x);
    clq_free(d->in_x);
    clq_free(d->in_dy);
    clq_free(d->dy);
    clq_free(d->dx_x);
    clq_free(d->d_dy);
    clq_free(d->want_y);
    clq_free(d->want_dx);
    clq_free(d->winner);
}

static void check_winners(rig *r, clq_value value, const pool_case *c, const pool_data *d) {
    size_t n = d->out * c->count, bytes = clq_pool2d_winner_bytes(&c->p) * c->count;
    bool small = c->p.size_h * c->p.size_w <= 256;
    assert_int_equal(bytes, n * (small ? 1 : 4));
    unsigned char *got = rig_alloc(bytes + 1, 1);
    rig_read(r, value, got, bytes);
    for (size_t i = 0; i < n; i++) {
        int32_t winner = got[small ? i : 0];
        if (!small) memcpy(&winner, got + i * sizeof winner, sizeof winner);
        if (winner != d->winner[i]) fail_msg("%s: winner[%zu] is %d, should be %d", r->name, i, winner, d->winner[i]);
    }
    rig_check_untouched(r, value, bytes);
    clq_free(got);
}

/* Compares n numbers of a value with the wanted numbers. */
static void check_numbers(rig *r, const char *what, clq_value value, const double *want, size_t n, double rounding) {
    const clq_dtype dtype = clq_list_storage(r->list, value);
    void *bytes = rig_alloc(n + 1, sizeof(float));
    rig_read(r, value, bytes, clq_values_bytes(dtype, n));
    float *got = rig_floats(dtype, bytes, n);
    rig_check_close(r, what, got, want, n, rounding + rig_half_bit(dtype, 1.001), rounding);
    rig_check_untouched(r, value, clq_values_bytes(dtype, n));
    clq_free(bytes);
    clq_free(got);
}

static void check_stored_pool(rig *r, const pool_case *c, bool inference, clq_dtype of_x, clq_dtype of_y) {
    pool_data d = make_data(c, of_x, of_y);
    bool keep = !c->p.average && !inference;
    rig_begin(r, c->capacity);
    clq_value x = rig_value_of(r, "x", of_x, 0, d.in), y = rig_value_of(r, "y", of_y, 0, d.out);
    clq_value winner = keep ? rig_value(r, "winner", 0, clq_pool2d_winner_bytes(&c->p)) : CLQ_NO_VALUE;
    clq_value dy = CLQ_NO_VALUE, dx = CLQ_NO_VALUE;
    clq_pool2d_forward(r->list, &c->p, x, y, winner);
    if (!inference) {
        dy = rig_value_of(r, "dy", of_y, 0, d.out);
        dx = rig_value_of(r, "dx", of_x, 0, d.in);
        clq_pool2d_backward(r->list, &c->p, y, dy, winner, dx);
    }
    rig_bind(r);
    rig_fill(r, x, d.in_x, clq_values_bytes(of_x, d.in * c->count));
    if (dy) rig_fill(r, dy, d.in_dy, clq_values_bytes(of_y, d.out * c->count));
    rig_run(r, c->count);
    double rounding = c->p.average || c->p.activation != CLQ_ACTIVATION_LINEAR ? 1e-6 : 0;
    check_numbers(r, "y", y, d.want_y, d.out * c->count, rounding);
    if (keep) check_winners(r, winner, c, &d);
    if (dx) check_numbers(r, "dx", dx, d.want_dx, d.in * c->count, 1e-6);
    rig_end(r);
    free_data(&d);
}

static void check_pool(rig *r, const pool_case *c, bool inference) {
    check_stored_pool(r, c, inference, CLQ_F32, CLQ_F32);
}

/* 16 bits in memory: whole vectors, halves of them, and none; windows side by side, and overlapping with padding. */
static void stored_pools(rig *r) {
    static const pool_case small[] = {
        {{5, 6, 16, 2, 3, 2, 2, 2, 2, 0, 0, false, CLQ_ACTIVATION_RELU}, 3, 2},
        {{7, 7, 6, 4, 4, 3, 3, 2, 2, 1, 1, false, CLQ_ACTIVATION_LINEAR}, 2, 2},
        {{7, 7, 5, 4, 4, 3, 3, 2, 2, 1, 1, true, CLQ_ACTIVATION_LINEAR}, 2, 2},
        {{4, 6, 12, 2, 3, 2, 2, 2, 2, 0, 0, true, CLQ_ACTIVATION_LINEAR}, 2, 1},
    };
    static const clq_dtype types[][2] = {
        {CLQ_F16, CLQ_F16}, {CLQ_BF16, CLQ_BF16}, {CLQ_F16, CLQ_BF16}, {CLQ_F32, CLQ_F16}};
    for (size_t i = 0; i < CLQ_COUNT_OF(small) && !rig_is_simulated(r); i++)
        if (rig_takes(r, i)) check_stored_pool(r, &small[i], false, types[i][0], types[i][1]);
}

static void pools(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++)
        if ((rig_takes(r, i) || i == OF_LARGE_WINDOWS || i == AVERAGE_INSIDE) &&
            rig_affords(r, cases[i].p.in_h * cases[i].p.in_w * cases[i].p.channels * cases[i].capacity))
            check_pool(r, &cases[i], false);
    check_pool(r, &cases[2], true);
}

/* A NaN in a window is its maximum; a window of -inf has a winner inside the input, not in the padding. */
static void nan_and_infinity(rig *r) {
    const clq_pool2d_problem p = {.in_h = 3,
                                  .in_w = 3,
                                  .channels = 1,
                                  .out_h = 2,
                                  .out_w = 2,
                                  .size_h = 3,
                                  .size_w = 3,
                                  .stride_h = 2,
                                  .stride_w = 2,
                                  .pad_top = 1,
                                  .pad_left = 1};
    const float inf = INFINITY;
    const float x[9] = {-inf, -inf, 5, -inf, -inf, NAN, 1, 2, 7}, dy[4] = {1, 2, 4, 8};
    float y[4], dx[9];
    unsigned char winner[4];
    rig_begin(r, 1);
    clq_value vx = rig_value(r, "x", 0, sizeof x), vy = rig_value(r, "y", 0, sizeof y),
              vw = rig_value(r, "winner", 0, sizeof winner);
    clq_value vdy = rig_value(r, "dy", 0, sizeof dy), vdx = rig_value(r, "dx", 0, sizeof dx);
    clq_pool2d_forward(r->list, &p, vx, vy, vw);
    clq_pool2d_backward(r->list, &p, CLQ_NO_VALUE, vdy, vw, vdx);
    rig_bind(r);
    rig_fill(r, vx, x, sizeof x);
    rig_fill(r, vdy, dy, sizeof dy);
    rig_run(r, 1);
    rig_read(r, vy, y, sizeof y);
    rig_read(r, vw, winner, sizeof winner);
    rig_read(r, vdx, dx, sizeof dx);
    assert_true(y[0] == -inf && isnan(y[1]) && y[2] == 2 && isnan(y[3]));
    assert_int_equal(winner[0], 4); /* window (0, 0) starts at (-1, -1): its place 4 is element (0, 0) */
    assert_int_equal(winner[1], 7);
    assert_int_equal(winner[2], 5);
    assert_int_equal(winner[3], 1);
    assert_true(dx[0] == 1 && dx[5] == 10 && dx[7] == 4);
    rig_end(r);
}

/* ---- the reference itself ---- */

static double weighted(const clq_pool2d_problem *p, const double *x, const double *weight, size_t out, double *y) {
    ref_pool2d(p, 1, x, y, NULL);
    double sum = 0;
    for (size_t i = 0; i < out; i++) sum += weight[i] * y[i];
    return sum;
}

static void test_reference_by_differences(void **state) {
    (void)state;
    for (int average = 0; average < 2; average++) {
        const clq_pool2d_problem p = {7, 6, 2, 4, 3, 3, 3, 2, 2, 1, 1, average, CLQ_ACTIVATION_LINEAR};
        enum { IN = 7 * 6 * 2, OUT = 4 * 3 * 2 };
        clq_random random = clq_random_start(4, 0);
        double x[IN], weight[OUT], dx[IN], y[OUT];
        for (size_t i = 0; i < IN; i++) x[i] = rig_uniform(&random, -1, 1);
        for (size_t i = 0; i < OUT; i++) weight[i] = rig_uniform(&random, -1, 1);
        ref_pool2d_gradient(&p, 1, x, weight, dx);
        for (size_t i = 0; i < IN; i++) {
            double h = 1e-6, kept = x[i];
            x[i] = kept + h;
            double above = weighted(&p, x, weight, OUT, y);
            x[i] = kept - h;
            double below = weighted(&p, x, weight, OUT, y);
            x[i] = kept;
            assert_true(fabs((above - below) / (2 * h) - dx[i]) < 1e-8);
        }
    }
}

static void test_pools(void **state) {
    (void)state;
    rig_each(pools);
}
static void test_stored_pools(void **state) {
    (void)state;
    rig_each(stored_pools);
}
static void test_nan_and_infinity(void **state) {
    (void)state;
    rig_each(nan_and_infinity);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference_by_differences), cmocka_unit_test(test_pools),
                                       cmocka_unit_test(test_stored_pools), cmocka_unit_test(test_nan_and_infinity)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
