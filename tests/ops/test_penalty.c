/* Penalties on weights, against their definition in double: what is added to the loss, and its gradient. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>

enum { SLOTS = 3, WIDTH_MOST = 5, CAPACITY = 9 };

typedef struct penalty_case {
    clq_penalty_problem p;
    bool zeros; /* some weights are 0, of both signs */
} penalty_case;

static const penalty_case cases[] = {
    {{1, 0.25, 0, 1}, false},     {{7, 0, 0.3, 5}, true},  {{37, 0.01, 0.02, 2}, true},     {{250, 0.5, 0, 3}, true},
    {{1023, 0.1, 0.7, 1}, false}, {{2048, 0, 0, 1}, true}, {{300001, 1e-3, 1e-4, 4}, true}, /* many work-groups */
};

static rig_data weights_of(clq_random *random, const penalty_case *c) {
    rig_data w = rig_make(random, CLQ_F32, c->p.elements, -2, 2);
    for (size_t i = 0; c->zeros && i < c->p.elements; i += 3) {
        ((float *)w.stored)[i] = i % 2 ? -0.0f : 0.0f;
        w.exact[i] = 0;
    }
    return w;
}

/* The penalty is added to what the loss has left in the first float of the slot's row, and nowhere else. All terms have
 * one sign, so the sum is as right as each of them, however many there are. */
static void check_loss(rig *r, const penalty_case *c, uint32_t slot, uint32_t count) {
    const clq_penalty_problem *p = &c->p;
    const size_t row = p->metrics_width;
    clq_random random = clq_random_start(81, p->elements);
    rig_data w = weights_of(&random, c);
    float before[SLOTS * WIDTH_MOST], after[SLOTS * WIDTH_MOST];
    for (size_t i = 0; i < CLQ_COUNT_OF(before); i++) before[i] = (float)rig_uniform(&random, 0, 4);
    rig_begin(r, CAPACITY);
    const clq_value vw = rig_value_of(r, "w", CLQ_F32, p->elements, 0),
                    metrics = rig_value_of(r, "metrics", CLQ_F32, SLOTS * row, 0);
    clq_penalty_loss(r->list, p, vw, metrics);
    rig_bind(r);
    rig_fill(r, vw, w.stored, p->elements * sizeof(float));
    rig_fill(r, metrics, before, SLOTS * row * sizeof(float));
    r->params.slot = slot;
    rig_run(r, count);
    rig_read(r, metrics, after, SLOTS * row * sizeof(float));
    for (size_t i = 0; i < SLOTS * row; i++) {
        const bool added = i == slot * row;
        const double want = (double)before[i] + (added ? ref_penalty(p, count, w.exact) : 0);
        rig_check_close(r, added ? "the loss" : "what is no loss", &after[i], &want, 1, added ? 1e-6 : 0, 0);
    }
    rig_end(r);
    rig_release(&w);
}

/* exponent: the state's; the loss scale is 4 * 2^exponent. NO_STATE: there is no state. */
enum { NO_STATE = 99 };
static void check_gradient(rig *r, const penalty_case *c, int exponent, uint32_t count) {
    const clq_penalty_problem *p = &c->p;
    const double of_scale = exponent == NO_STATE ? 1 : ldexp(4, exponent);
    const int32_t state[CLQ_SCALING_INTS] = {[CLQ_SCALING_EXPONENT] = exponent, [CLQ_SCALING_FINITE] = 7};
    clq_random random = clq_random_start(82, p->elements);
    rig_data w = weights_of(&random, c);
    double *want = rig_alloc(p->elements, sizeof *want);
    rig_begin(r, CAPACITY);
    const clq_value vw = rig_value_of(r, "w", CLQ_F32, p->elements, 0),
                    dw = rig_value_of(r, "dw", CLQ_F32, p->elements, 0),
                    vstate = rig_value(r, "state", sizeof state, 0);
    clq_penalty_gradient(r->list, p, 4, exponent == NO_STATE ? CLQ_NO_VALUE : vstate, vw, dw);
    rig_bind(r);
    rig_fill(r, vw, w.stored, p->elements * sizeof(float));
    rig_fill(r, vstate, state, sizeof state);
    r->params.scale = 0.0625f;
    rig_run(r, count);
    ref_penalty_gradient(p, count, 0.0625 * of_scale, w.exact, want);
    /* Each number is a sum of two terms of one sign. Each term is a product of few numbers. */
    rig_check_value(r, "dw", dw, CLQ_F32, want, p->elements, 5e-7, 0);
    rig_end(r);
    rig_release(&w);
    clq_free(want);
}

static void losses(rig *r) {
    for (uint32_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        if (!rig_affords(r, cases[i].p.elements)) continue;
        check_loss(r, &cases[i], i % SLOTS, CAPACITY);
        check_loss(r, &cases[i], (i + 1) % SLOTS, i % 2 ? 0 : CAPACITY - 2);
    }
}

static void gradients(rig *r) {
    static const int exponents[] = {NO_STATE, 0, 5, -6};
    for (uint32_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        if (!rig_affords(r, cases[i].p.elements)) continue;
        check_gradient(r, &cases[i], NO_STATE, CAPACITY);
        check_gradient(r, &cases[i], exponents[i % CLQ_COUNT_OF(exponents)], i % 2 ? CAPACITY - 2 : 0);
        check_gradient(r, &cases[i], exponents[1 + i % 3], 1);
    }
}

static void test_losses(void **state) {
    (void)state;
    rig_each(losses);
}

static void test_gradients(void **state) {
    (void)state;
    rig_each(gradients);
}

/* The reference's gradient is that of its penalty. */
static void test_reference_by_differences(void **state) {
    (void)state;
    const clq_penalty_problem p = {.elements = 3, .l1 = 0.3, .l2 = 0.7, .metrics_width = 1};
    const double h = 1e-6, scale = 0.5;
    double w[] = {0.8, -1.5, 0.01}, dw[3];
    ref_penalty_gradient(&p, 4, scale, w, dw);
    for (size_t i = 0; i < p.elements; i++) {
        const double keep = w[i];
        w[i] = keep + h;
        double difference = ref_penalty(&p, 4, w);
        w[i] = keep - h;
        difference -= ref_penalty(&p, 4, w);
        w[i] = keep;
        assert_true(fabs(dw[i] - scale * difference / (2 * h)) < 1e-7);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_losses), cmocka_unit_test(test_gradients),
                                       cmocka_unit_test(test_reference_by_differences)};
    return cmocka_run_group_tests_name("ops/penalty", tests, NULL, NULL);
}
