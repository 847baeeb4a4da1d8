#include "ops/training/update_host.h"
#include "support/ops_update.h"

enum { HOST_RANKS = 3, HOST_COPIES = 2 };

/* Each array has one more float at its end, which nothing may write. */
typedef struct host_case {
    size_t n;
    float *w, *gradients[HOST_RANKS], *states[STATES], *average, *sum, *copies[HOST_COPIES];
} host_case;

static float *host_array(size_t n) {
    float *array = rig_alloc(n + 1, sizeof(float));
    array[n] = (float)NAN;
    return array;
}

static host_case begin_host(size_t n, const float *w) {
    host_case c = {.n = n, .w = host_array(n), .average = host_array(n), .sum = host_array(n)};
    memcpy(c.w, w, n * sizeof(float));
    for (unsigned i = 0; i < HOST_RANKS; i++) c.gradients[i] = host_array(n);
    for (unsigned i = 0; i < STATES; i++) c.states[i] = host_array(n);
    for (unsigned i = 0; i < HOST_COPIES; i++) c.copies[i] = host_array(n);
    return c;
}

static void end_host(host_case *c) {
    assert_true(isnan(c->w[c->n]) && isnan(c->sum[c->n]) && isnan(c->average[c->n]));
    for (unsigned i = 0; i < STATES; i++) assert_true(isnan(c->states[i][c->n]));
    for (unsigned i = 0; i < HOST_COPIES; i++) {
        assert_true(isnan(c->copies[i][c->n]));
        assert_memory_equal(c->copies[i], c->w, c->n * sizeof(float));
    }
    clq_free(c->w);
    clq_free(c->average);
    clq_free(c->sum);
    for (unsigned i = 0; i < HOST_RANKS; i++) clq_free(c->gradients[i]);
    for (unsigned i = 0; i < STATES; i++) clq_free(c->states[i]);
    for (unsigned i = 0; i < HOST_COPIES; i++) clq_free(c->copies[i]);
}

static clq_host_update host_update(const host_case *c, size_t first, size_t floats) {
    clq_host_update update = {.w = c->w,
                              .average = c->average,
                              .limit = 0.3f,
                              .gradients = (const float *const *)c->gradients,
                              .gradient_count = HOST_RANKS,
                              .factor = 0.75f,
                              .sum = c->sum,
                              .copies = c->copies,
                              .copy_count = HOST_COPIES,
                              .first = first,
                              .floats = floats};
    memcpy(update.states, c->states, sizeof update.states);
    return update;
}

/* The rule with the narrowest vectors that there are, whatever the processor has. */
static const clq_host_rule_row *plain_rule(const clq_optimizer *optimizer) {
    const clq_host_rule_row *row = clq_host_rules_plain;
    while (strcmp(row->name, clq_optimizer_rule(optimizer)->name) != 0) row++;
    return row;
}

static void update_plain(const clq_optimizer *optimizer, const clq_host_update *update, const clq_update_rates *rates,
                         float average) {
    clq_host_numbers numbers = {.rates = *rates, .average = average};
    clq_optimizer_constants(optimizer, numbers.constants);
    plain_rule(optimizer)->run(update, &numbers);
}

/* Gives both cases the same gradients. *sum becomes the sum that the update takes. */
static void next_gradients(clq_random *random, host_case *a, host_case *b, double *sum) {
    for (size_t i = 0; i < a->n; i++) {
        float all = 0;
        for (unsigned k = 0; k < HOST_RANKS; k++) {
            a->gradients[k][i] = b->gradients[k][i] = (float)rig_uniform(random, -0.2, 0.2);
            all = k ? all + a->gradients[k][i] : a->gradients[k][i];
        }
        sum[i] = (double)(0.75f * all);
    }
}

static void check_host_update(rig *r, const clq_optimizer *optimizer, size_t n) {
    clq_random random = clq_random_start(31, n);
    float *w;
    double *want_w, *want_g = rig_alloc(n, sizeof(double)), *want[STATES], *average = rig_alloc(n, sizeof(double));
    static const manner limited = {.limit = 0.3};
    for (unsigned i = 0; i < STATES; i++) want[i] = rig_alloc(n, sizeof(double));
    rig_numbers(&random, n, -1, 1, &w, &want_w);
    host_case whole = begin_host(n, w), parts = begin_host(n, w);
    for (unsigned t = 1; t <= STEPS; t++) {
        const float lr = 0.003f * (float)t, part = t == 1 ? 1.0f : 0.25f;
        const clq_update_rates rates = clq_optimizer_rates(optimizer, (double)lr, t);
        const size_t cut = rig_below(&random, n + 1);
        next_gradients(&random, &whole, &parts, want_g);
        const clq_host_update all = host_update(&whole, 0, n), front = host_update(&parts, 0, cut),
                              back = host_update(&parts, cut, n - cut);
        clq_update_on_host(optimizer, &all, &rates, part);
        update_plain(optimizer, &back, &rates, part);
        update_plain(optimizer, &front, &rates, part);
        rig_check_close(r, "the sum", whole.sum, want_g, n, 0, 0);
        treat(&limited, NULL, n, want_g);
        ref_update(optimizer, n, (double)lr, t, want_w, want_g, want);
        for (size_t i = 0; i < n; i++) average[i] += (want_w[i] - average[i]) * (double)part;
    }
    rig_check_close(r, "w", whole.w, want_w, n, 1e-6, 3e-7);
    rig_check_close(r, "the average", whole.average, average, n, 1e-6, 3e-7);
    assert_memory_equal(whole.average, parts.average, n * sizeof(float));
    assert_memory_equal(whole.w, parts.w, n * sizeof(float));
    assert_memory_equal(whole.sum, parts.sum, n * sizeof(float));
    for (unsigned i = 0; i < clq_optimizer_states(optimizer); i++) {
        rig_check_close(r, "a state", whole.states[i], want[i], n, 2e-6, 1e-7);
        assert_memory_equal(whole.states[i], parts.states[i], n * sizeof(float));
    }
    end_host(&whole);
    end_host(&parts);
    for (unsigned i = 0; i < STATES; i++) clq_free(want[i]);
    clq_free(w);
    clq_free(want_w);
    clq_free(want_g);
    clq_free(average);
}

static void check_host_lengths(rig *r, const clq_optimizer *optimizer) {
    for (size_t i = 0; i < CLQ_COUNT_OF(lengths); i++) check_host_update(r, optimizer, lengths[i]);
}

static void test_host_updates(void **state) {
    rig host = {.name = "the host"};
    (void)state;
    each_optimizer(&host, check_host_lengths);
}

/* Both passes over a variable, the first in two parts. The narrowest vectors must give the same bits. */
static void check_host_ratios(rig *r, const clq_optimizer *optimizer, size_t n) {
    clq_random random = clq_random_start(37, n);
    float *w;
    double *want_w, *want_g = rig_alloc(n, sizeof(double)), *want[STATES];
    const clq_host_rule_row *row = plain_rule(optimizer);
    static const manner limited = {.limit = 0.3};
    for (unsigned i = 0; i < STATES; i++) want[i] = rig_alloc(n, sizeof(double));
    rig_numbers(&random, n, -1, 1, &w, &want_w);
    host_case own = begin_host(n, w), plain_case = begin_host(n, w);
    for (unsigned t = 1; t <= STEPS; t++) {
        const double lr = 0.003 * t;
        clq_host_numbers numbers = {.rates = clq_optimizer_rates(optimizer, lr, t), .average = 0.25f};
        double squares[2][2], same[2][2];
        clq_optimizer_constants(optimizer, numbers.constants);
        next_gradients(&random, &own, &plain_case, want_g);
        for (unsigned part = 0; part < 2; part++) {
            const size_t cut = n / 3, first = part ? cut : 0, floats = part ? n - cut : cut;
            const clq_host_update mine = host_update(&own, first, floats),
                                  other = host_update(&plain_case, first, floats);
            clq_directions_on_host(optimizer, &mine, &numbers.rates, squares[part]);
            row->direct(&other, &numbers, same[part]);
        }
        assert_memory_equal(squares, same, sizeof squares);
        clq_host_update mine = host_update(&own, 0, n), other = host_update(&plain_case, 0, n);
        const double weights = squares[0][0] + squares[1][0], direction = squares[0][1] + squares[1][1];
        mine.ratio = other.ratio = (float)sqrt(weights / direction);
        clq_update_on_host(optimizer, &mine, &numbers.rates, numbers.average);
        row->run(&other, &numbers);
        treat(&limited, NULL, n, want_g);
        ref_update(optimizer, n, lr, t, want_w, want_g, want);
    }
    rig_check_close(r, "w", own.w, want_w, n, 1e-6, 5e-7);
    assert_memory_equal(own.w, plain_case.w, n * sizeof(float));
    for (unsigned i = 0; i < clq_optimizer_states(optimizer); i++) {
        rig_check_close(r, "a state", own.states[i], want[i], n, 2e-6, 1e-7);
        assert_memory_equal(own.states[i], plain_case.states[i], n * sizeof(float));
    }
    end_host(&own);
    end_host(&plain_case);
    for (unsigned i = 0; i < STATES; i++) clq_free(want[i]);
    clq_free(w);
    clq_free(want_w);
    clq_free(want_g);
}

static void test_host_ratios(void **state) {
    static const size_t some[] = {3, 15, 65, 1009};
    rig host = {.name = "the host"};
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(some); i++)
        check_host_ratios(&host, &trust_ratio_optimizers[i % CLQ_COUNT_OF(trust_ratio_optimizers)], some[i]);
}

/* A sum alone, which goes into the first of its gradients, and the sum of squares. */
static void test_host_sums(void **state) {
    float a[7] = {1, 2, 3, 4, 5, 6, 7}, b[7] = {10, 20, 30, 40, 50, 60, 70};
    static const float want[7] = {5.5f, 11, 16.5f, 22, 27.5f, 33, 7};
    const float *const gradients[] = {a, b};
    (void)state;
    clq_sum_on_host(&(clq_host_update){
        .gradients = gradients, .gradient_count = 2, .factor = 0.5f, .sum = a, .first = 0, .floats = 6});
    assert_memory_equal(a, want, sizeof a);
    assert_true(clq_square_sum_on_host(a, 6) == ref_square_sum(6, a));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_host_updates), cmocka_unit_test(test_host_ratios),
                                       cmocka_unit_test(test_host_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
