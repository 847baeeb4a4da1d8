/* Constraints on weights, against their definition in double: on devices and on the host, whichever axes norms sum
 * over. Nothing beside the variable may change. */
#include "support/ops_rig.h"

#include <math.h>
#include <string.h>

enum { BLOCK = CLQ_UPDATE_BLOCK };

typedef struct constrain_case {
    clq_constraint_problem p;
    size_t block; /* the block of the arena where the variable begins */
    double scale; /* the largest weight's size */
} constrain_case;

static const constrain_case cases[] = {
    {{{1, 12, 7, 1, 1}, false, 0, 0.5, 1}, 0, 1},         /* columns of a matrix; most are longer */
    {{{1, 300, 33, 1, 1}, false, 0, 2, 1}, 3, 0.01},      /* shorter than 2 */
    {{{9, 31, 1, 1, 1}, false, 1, 1, 1}, 1, 4},           /* rows get a norm of 1 */
    {{{3, 5, 4, 7, 6}, false, 0.5, 0.75, 0.4}, 2, 0.3},   /* some norms below and some above, in part */
    {{{1, 1, 5, 1, 1}, false, 0.1, 0.2, 1}, 0, 0.3},      /* each number by itself */
    {{{1, 20000, 3, 1, 1}, false, 0, 1, 1}, 1, 1},        /* many numbers of a norm */
    {{{1, 6, 2, 1, 1}, false, 0, 1, 1}, 0, 0},            /* zeros stay zeros */
    {{{1, 2, 1700, 3, 1}, false, 0.2, 0.6, 0.5}, 0, 0.4}, /* several work-groups */
    {{{1, 1, 1, 1, 1}, true, 0, 0, 0}, 1, 1},
    {{{40001, 1, 1, 1, 1}, true, 0, 0, 0}, 2, 1},
};

static size_t elements_of(const clq_constraint_problem *p) {
    return p->sizes[0] * p->sizes[1] * p->sizes[2] * p->sizes[3] * p->sizes[4];
}

/* The group of number i. The numbers of a group share a norm. */
static size_t group_of(const clq_constraint_problem *p, size_t i) {
    const size_t *n = p->sizes, k = i % n[4], j = i / (n[4] * n[3]) % n[2], first = i / (n[4] * n[3] * n[2] * n[1]);
    return (first * n[2] + j) * n[4] + k;
}

static void constrain_by_definition(const clq_constraint_problem *p, const double *w, double *out) {
    const size_t elements = elements_of(p);
    double *squares = rig_alloc(elements, sizeof *squares);
    memset(squares, 0, elements * sizeof *squares);
    for (size_t i = 0; i < elements; i++) squares[group_of(p, i)] += w[i] * w[i];
    for (size_t i = 0; i < elements; i++) {
        const double norm = sqrt(squares[group_of(p, i)]);
        const double clipped = norm < p->least ? p->least : norm > p->most ? p->most : norm;
        const double wanted = p->rate * clipped + (1 - p->rate) * norm;
        out[i] = p->non_negative ? (w[i] > 0 ? w[i] : 0) : w[i] * (wanted / (1e-7 + norm));
    }
    clq_free(squares);
}

/* The numbers before and after the variable must stay. */
static void check(rig *r, const constrain_case *c) {
    const size_t elements = elements_of(&c->p), first = c->block * BLOCK, floats = first + elements + BLOCK;
    clq_random random = clq_random_start(83, elements);
    rig_data w = rig_make(&random, CLQ_F32, floats, -c->scale, c->scale);
    double *want = rig_alloc(floats, sizeof *want);
    memcpy(want, w.exact, floats * sizeof *want);
    constrain_by_definition(&c->p, w.exact + first, want + first);
    rig_begin(r, 1);
    const clq_value arena = rig_value_of(r, "w", CLQ_F32, floats, 0);
    clq_constrain_weights(r->list, &c->p, c->block, arena);
    rig_bind(r);
    rig_fill(r, arena, w.stored, floats * sizeof(float));
    rig_run(r, 1);
    rig_check_value(r, "w", arena, CLQ_F32, want, floats, 5e-7, 0);
    rig_end(r);
    rig_release(&w);
    clq_free(want);
}

static void on_device(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++)
        if (rig_affords(r, elements_of(&cases[i].p))) check(r, &cases[i]);
}
static void test_on_devices(void **state) {
    (void)state;
    rig_each(on_device);
}

static void test_on_the_host(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        const size_t elements = elements_of(&cases[i].p);
        clq_random random = clq_random_start(84, elements);
        rig_data w = rig_make(&random, CLQ_F32, elements, -cases[i].scale, cases[i].scale);
        double *want = rig_alloc(elements, sizeof *want);
        constrain_by_definition(&cases[i].p, w.exact, want);
        clq_constrain_on_host(&cases[i].p, w.stored);
        for (size_t k = 0; k < elements; k++) {
            const double found = (double)((const float *)w.stored)[k];
            if (!(fabs(found - want[k]) <= 3e-7 * fabs(want[k])))
                fail_msg("case %zu: number %zu is %.9g, should be %.9g", i, k, found, want[k]);
        }
        rig_release(&w);
        clq_free(want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_on_devices), cmocka_unit_test(test_on_the_host)};
    return cmocka_run_group_tests_name("ops/constrain", tests, NULL, NULL);
}
