/* Normalisation of rows by themselves, against the definition in double: layer, group and root-mean-square. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

typedef struct row_norm_case {
    clq_row_norm_problem p;
    uint32_t capacity;
    bool gamma, beta;
    clq_dtype x, y; /* as stored; dx as x, dy as y */
} row_norm_case;

static const row_norm_case cases[] = {
    {{7, 1, 1, 64, true, 1e-3}, 5, true, true, CLQ_F32, CLQ_F32},     /* layer normalisation of tokens */
    {{3, 1, 1, 37, true, 1e-6}, 4, true, false, CLQ_F32, CLQ_F32},    /* rows that are no whole vectors */
    {{1, 1, 1, 5, true, 1e-3}, 9, false, true, CLQ_F32, CLQ_F32},     /* short rows */
    {{5, 1, 1, 48, false, 1e-6}, 3, true, false, CLQ_F32, CLQ_F32},   /* root mean square */
    {{1, 20, 4, 8, true, 1e-3}, 3, true, true, CLQ_F32, CLQ_F32},     /* groups of channels */
    {{1, 9, 7, 1, true, 1e-3}, 4, true, true, CLQ_F32, CLQ_F32},      /* groups of one channel each */
    {{2, 1, 1, 3000, true, 1e-5}, 3, false, false, CLQ_F32, CLQ_F32}, /* long rows */
    {{64, 1, 1, 96, true, 1e-3}, 33, true, true, CLQ_F32, CLQ_F32},   /* enough for several work-items */
    {{5, 1, 1, 40, true, 1e-3}, 3, true, true, CLQ_F16, CLQ_F16},
    {{1, 6, 3, 17, false, 1e-6}, 3, true, true, CLQ_BF16, CLQ_F32},
};

static const double relative = 4e-6;

static void check(rig *r, const row_norm_case *c, uint32_t count) {
    const clq_row_norm_problem *p = &c->p;
    const size_t channels = p->groups * p->width, elements = p->outer * p->positions * channels, n = elements * count,
                 rows = clq_row_norm_rows(p);
    clq_random random = clq_random_start(74, p->width);
    rig_data x = rig_make(&random, c->x, n, 1, 4), dy = rig_make(&random, c->y, n, -1, 1),
             gamma = rig_make(&random, CLQ_F32, channels, -1, 2), beta = rig_make(&random, CLQ_F32, channels, -1, 1);
    double *y = rig_alloc(n + 1, sizeof *y), *dx = rig_alloc(n + 1, sizeof *dx),
           *dgamma = rig_alloc(channels, sizeof *dgamma), *dbeta = rig_alloc(channels, sizeof *dbeta);
    rig_begin(r, c->capacity);
    clq_value vx = rig_value_of(r, "x", c->x, 0, elements), vy = rig_value_of(r, "y", c->y, 0, elements),
              vdy = rig_value_of(r, "dy", c->y, 0, elements), vdx = rig_value_of(r, "dx", c->x, 0, elements),
              vgamma = rig_value_of(r, "gamma", CLQ_F32, channels, 0),
              vbeta = rig_value_of(r, "beta", CLQ_F32, channels, 0),
              vstatistics = rig_value_of(r, "statistics", CLQ_F32, 0, 2 * rows),
              vdgamma = rig_value_of(r, "dgamma", CLQ_F32, channels, 0),
              vdbeta = rig_value_of(r, "dbeta", CLQ_F32, channels, 0);
    clq_row_norm_forward(r->list, p, vx, c->gamma ? vgamma : CLQ_NO_VALUE, c->beta ? vbeta : CLQ_NO_VALUE, vy,
                         vstatistics);
    clq_row_norm_backward(r->list, p, vx, vdy, vstatistics, c->gamma ? vgamma : CLQ_NO_VALUE, vdx,
                          c->gamma ? vdgamma : CLQ_NO_VALUE, c->beta ? vdbeta : CLQ_NO_VALUE);
    rig_bind(r);
    rig_fill(r, vx, x.stored, clq_values_bytes(c->x, n));
    rig_fill(r, vdy, dy.stored, clq_values_bytes(c->y, n));
    rig_fill(r, vgamma, gamma.stored, channels * sizeof(float));
    rig_fill(r, vbeta, beta.stored, channels * sizeof(float));
    rig_run(r, count);
    ref_row_norm(p, count, x.exact, c->gamma ? gamma.exact : NULL, c->beta ? beta.exact : NULL, y, NULL);
    ref_row_norm_gradient(p, count, x.exact, c->gamma ? gamma.exact : NULL, dy.exact, dx, dgamma, dbeta);
    rig_check_value(r, "y", vy, c->y, y, n, relative, 4e-6);
    rig_check_value(r, "dx", vdx, c->x, dx, n, relative, 6e-6);
    const double sums = 4e-7 * (double)(count * p->outer * p->positions + 10);
    if (c->gamma) rig_check_value(r, "dgamma", vdgamma, CLQ_F32, dgamma, channels, relative, sums);
    if (c->beta) rig_check_value(r, "dbeta", vdbeta, CLQ_F32, dbeta, channels, relative, sums);
    rig_end(r);
    rig_data *const all[] = {&x, &dy, &gamma, &beta};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) rig_release(all[i]);
    double *const more[] = {y, dx, dgamma, dbeta};
    for (size_t i = 0; i < CLQ_COUNT_OF(more); i++) clq_free(more[i]);
}

static void row_norms(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        const clq_row_norm_problem *p = &cases[i].p;
        const size_t elements = p->outer * p->positions * p->groups * p->width;
        if (!rig_takes(r, i) || !rig_affords(r, elements * cases[i].capacity)) continue;
        check(r, &cases[i], cases[i].capacity);
        check(r, &cases[i], i % 2 ? 0 : cases[i].capacity - 1);
    }
}

static void test_row_norms(void **state) {
    (void)state;
    rig_each(row_norms);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_row_norms)};
    return cmocka_run_group_tests_name("ops/row_norm", tests, NULL, NULL);
}
