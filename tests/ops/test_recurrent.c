/* Recurrent cells over sequences, against their definitions in double. The definitions' gradients are compared with
 * differences. */
#include "ref/ref_product.h"
#include "ref/ref_recurrent.h"
#include "support/ops_rig.h"

#include <math.h>

typedef struct recurrent_case {
    clq_recurrent_problem p;
    uint32_t capacity;
    bool bias, state, mask, drops;
    bool no_sequence, no_last, no_last_cell; /* y and its gradient, or those of the last state, are not there */
    bool no_kept;                            /* there is no backward */
} recurrent_case;

#define SIMPLE CLQ_CELL_SIMPLE
#define LSTM CLQ_CELL_LSTM
#define GRU CLQ_CELL_GRU
#define USUAL CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_SIGMOID

static const recurrent_case cases[] = {
    /* simple */
    {{SIMPLE, 5, 8, USUAL, false, .zeroes = false}, 3, .bias = false},
    {{SIMPLE, 4, 17, USUAL, true, .zeroes = false}, 5, .bias = true, .state = true},
    {{SIMPLE, 6, 5, CLQ_ACTIVATION_RELU, CLQ_ACTIVATION_LINEAR, false, .zeroes = true},
     4,
     .mask = true,
     .no_last = true},
    {{SIMPLE, 5, 19, USUAL, true, .zeroes = false}, 3, .mask = true, .drops = true, .no_sequence = true},
    {{SIMPLE, 7, 3, CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_LINEAR, true, .zeroes = true},
     9,
     .bias = true,
     .state = true,
     .mask = true,
     .drops = true},
    {{SIMPLE, 3, 33, USUAL, false, .zeroes = false}, 2, .bias = true, .mask = true, .no_kept = true},
    /* LSTM */
    {{LSTM, 5, 8, USUAL, false, .zeroes = false}, 3, .no_last = true, .no_last_cell = true},
    {{LSTM, 4, 17, USUAL, true, .zeroes = false}, 5, .bias = true, .state = true},
    {{LSTM, 6, 5, USUAL, false, .zeroes = true}, 4, .state = true, .mask = true, .no_last_cell = true},
    {{LSTM, 5, 19, USUAL, false, .zeroes = false}, 3, .mask = true, .no_sequence = true, .no_last_cell = true},
    {{LSTM, 4, 11, CLQ_ACTIVATION_RELU, CLQ_ACTIVATION_LINEAR, false, .zeroes = false},
     4,
     .bias = true,
     .drops = true,
     .no_last = true},
    {{LSTM, 7, 3, USUAL, true, .zeroes = true}, 9, .bias = true, .state = true, .mask = true, .drops = true},
    {{LSTM, 3, 33, USUAL, true, .zeroes = true}, 2, .mask = true, .drops = true, .no_sequence = true, .no_kept = true},
    /* GRU */
    {{GRU, 5, 8, USUAL, false, .zeroes = false}, 3, .bias = true, .no_last = true},
    {{GRU, 4, 17, USUAL, true, .zeroes = false}, 5, .state = true},
    {{GRU, 6, 5, CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_TANH, false, .zeroes = true},
     4,
     .bias = true,
     .mask = true,
     .no_last = true},
    {{GRU, 5, 19, USUAL, true, .zeroes = false}, 3, .mask = true, .drops = true, .no_sequence = true},
    {{GRU, 7, 3, USUAL, true, .zeroes = true}, 9, .bias = true, .state = true, .mask = true, .drops = true},
    {{GRU, 3, 33, USUAL, false, .zeroes = false}, 2, .bias = true, .state = true, .drops = true, .no_kept = true},
    /* GRU that resets before the product */
    {{GRU, 5, 8, USUAL, .resets_first = true}, 3, .no_last = true},
    {{GRU, 4, 17, USUAL, .backwards = true, .resets_first = true}, 5, .state = true},
    {{GRU, 6, 5, CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_TANH, .resets_first = true, .zeroes = true},
     4,
     .mask = true,
     .no_last = true},
    {{GRU, 5, 19, USUAL, .backwards = true, .resets_first = true}, 3, .mask = true, .drops = true, .no_sequence = true},
    {{GRU, 7, 3, USUAL, .backwards = true, .resets_first = true, .zeroes = true},
     9,
     .state = true,
     .mask = true,
     .drops = true},
    {{GRU, 3, 33, USUAL, .resets_first = true}, 2, .state = true, .no_kept = true},
    {{GRU, 2, 130, USUAL, .resets_first = true}, 35, .mask = true},
    /* kernels that PoCL's device, and then the other driver, has in no case above */
    {{GRU, 3, 9, USUAL, false, .zeroes = false}, 4, .bias = true, .no_last = true},
    {{SIMPLE, 3, 9, USUAL, true, .zeroes = false}, 4, .mask = true, .no_kept = true},
    /* more units than a work-group has items; enough rows for several */
    {{LSTM, 2, 260, USUAL, false, .zeroes = false}, 33, .bias = true, .mask = true},
    {{GRU, 2, 130, USUAL, false, .zeroes = true}, 35, .bias = true, .mask = true, .drops = true, .no_last = true},
    {{SIMPLE, 1, 1, USUAL, false, .zeroes = false}, 3, .bias = true, .state = true},
};

/* ---- numbers of a case ---- */

enum { Z, U, BIAS, H0, C0, MASK, DROPS, DY, DH, DC, GIVEN };
enum { Y, H, C, BEFORE, KEPT, DZ, DR, DBOTH, DH0, DC0, MADE };
static const char *const made_names[MADE] = {"y", "h", "c", "before", "kept", "dz", "dr", "dboth", "dh0", "dc0"};

/* How many numbers each value has for one sample, or for all samples if it is u or the bias. 0: there is no such
 * value. */
typedef struct sizes {
    size_t given[GIVEN], made[MADE];
} sizes;

static sizes sizes_of(const recurrent_case *c) {
    const clq_recurrent_problem *p = &c->p;
    const size_t gates = clq_cell_gates(p->cell), units = p->units, sequence = p->steps * units, width = gates * units,
                 copies = clq_recurrent_copies(p, c->drops);
    const bool lstm = p->cell == CLQ_CELL_LSTM, back = !c->no_kept;
    return (sizes){.given = {[Z] = p->steps * width,
                             [U] = units * width,
                             [BIAS] = c->bias ? 2 * width : 0,
                             [H0] = c->state ? units : 0,
                             [C0] = c->state && lstm ? units : 0,
                             [MASK] = c->mask ? p->steps : 0,
                             [DROPS] = c->drops ? width : 0,
                             [DY] = back && !c->no_sequence ? sequence : 0,
                             [DH] = back && !c->no_last ? units : 0,
                             [DC] = back && lstm && !c->no_last_cell ? units : 0},
                   .made = {[Y] = c->no_sequence ? 0 : sequence,
                            [H] = units,
                            [C] = lstm ? units : 0,
                            [BEFORE] = back ? copies * sequence : 0,
                            [KEPT] = back ? p->steps * clq_recurrent_kept(p) : 0,
                            [DZ] = back ? p->steps * width : 0,
                            [DR] = back && clq_recurrent_apart(p, c->drops) ? copies * p->steps * width : 0,
                            [DBOTH] = back && c->bias ? 2 * p->steps * width : 0,
                            [DH0] = back && c->state ? units : 0,
                            [DC0] = back && c->state && lstm ? units : 0}};
}

static bool is_of_all(unsigned given) { return given == U || given == BIAS; }

typedef struct data {
    rig_data given[GIVEN];
    double *made[MADE]; /* by the reference; NULL: none */
} data;

static const double *given_of(const data *d, const sizes *n, unsigned i) {
    return n->given[i] ? d->given[i].exact : NULL;
}

static void set(rig_data *of, size_t i, double number) {
    of->floats[i] = (float)number;
    of->exact[i] = (double)of->floats[i];
    ((float *)of->stored)[i] = of->floats[i];
}

/* A third of the steps do not count, and no step of the first sample does. The mask of a step that counts need not be
 * 1. A third of the state is dropped. */
static void set_factors(clq_random *random, data *d, const sizes *n, uint32_t count) {
    for (size_t i = 0; i < n->given[MASK] * count; i++)
        set(&d->given[MASK], i, i < n->given[MASK] || rig_below(random, 3) == 0 ? 0 : i % 2 ? 1 : 0.25);
    for (size_t i = 0; i < n->given[DROPS] * count; i++)
        set(&d->given[DROPS], i, rig_below(random, 3) ? rig_uniform(random, 1, 1.5) : 0);
}

static void run_reference(const clq_recurrent_problem *p, const data *d, const sizes *n, uint32_t count) {
    ref_recurrent(p, count,
                  &(ref_recurrent_values){.z = given_of(d, n, Z),
                                          .u = given_of(d, n, U),
                                          .bias = given_of(d, n, BIAS),
                                          .h0 = given_of(d, n, H0),
                                          .c0 = given_of(d, n, C0),
                                          .mask = given_of(d, n, MASK),
                                          .drops = given_of(d, n, DROPS),
                                          .y = d->made[Y],
                                          .h = d->made[H],
                                          .c = d->made[C],
                                          .before = d->made[BEFORE],
                                          .kept = d->made[KEPT]});
}

static void run_reference_back(const clq_recurrent_problem *p, const data *d, const sizes *n, uint32_t count) {
    ref_recurrent_gradient(p, count,
                           &(ref_recurrent_slopes){.dy = given_of(d, n, DY),
                                                   .dh = given_of(d, n, DH),
                                                   .dc = given_of(d, n, DC),
                                                   .u = given_of(d, n, U),
                                                   .kept = d->made[KEPT],
                                                   .mask = given_of(d, n, MASK),
                                                   .drops = given_of(d, n, DROPS),
                                                   .dz = d->made[DZ],
                                                   .dr = d->made[DR],
                                                   .dboth = d->made[DBOTH],
                                                   .dh0 = d->made[DH0],
                                                   .dc0 = d->made[DC0]});
}

/* Weights are so small that sums of them are of the size of 1. */
static data make_data(const recurrent_case *c, const sizes *n, uint32_t count) {
    data d = {.made = {NULL}};
    clq_random random = clq_random_start(81, c->p.units);
    for (unsigned i = 0; i < GIVEN; i++) {
        const double most = i == U ? 1.5 / sqrt((double)c->p.units) : 1;
        d.given[i] = rig_make(&random, CLQ_F32, n->given[i] * (is_of_all(i) ? 1 : count), -most, most);
    }
    set_factors(&random, &d, n, count);
    for (unsigned i = 0; i < MADE; i++)
        d.made[i] = n->made[i] ? rig_alloc(n->made[i] * count + 1, sizeof **d.made) : NULL;
    run_reference(&c->p, &d, n, count);
    if (!c->no_kept) run_reference_back(&c->p, &d, n, count);
    return d;
}

static void release_data(const data *d) {
    for (unsigned i = 0; i < GIVEN; i++) {
        rig_data given = d->given[i];
        rig_release(&given);
    }
    for (unsigned i = 0; i < MADE; i++) clq_free(d->made[i]);
}

/* ---- the operation ---- */

static void add_operations(rig *r, const recurrent_case *c, const clq_value *given, const clq_value *made) {
    clq_recurrent_forward(r->list, &c->p,
                          &(clq_recurrent_values){.z = given[Z],
                                                  .u = given[U],
                                                  .bias = given[BIAS],
                                                  .h0 = given[H0],
                                                  .c0 = given[C0],
                                                  .mask = given[MASK],
                                                  .drops = given[DROPS],
                                                  .y = made[Y],
                                                  .h = made[H],
                                                  .c = made[C],
                                                  .before = made[BEFORE],
                                                  .kept = made[KEPT]});
    if (c->no_kept) return;
    clq_recurrent_backward(r->list, &c->p,
                           &(clq_recurrent_gradients){.dy = given[DY],
                                                      .dh = given[DH],
                                                      .dc = given[DC],
                                                      .u = given[U],
                                                      .kept = made[KEPT],
                                                      .mask = given[MASK],
                                                      .drops = given[DROPS],
                                                      .bias = c->bias,
                                                      .state = c->state,
                                                      .dz = made[DZ],
                                                      .dr = made[DR],
                                                      .dboth = made[DBOTH],
                                                      .dh0 = made[DH0],
                                                      .dc0 = made[DC0]});
}

static void check(rig *r, const recurrent_case *c, uint32_t count) {
    const sizes n = sizes_of(c);
    const data d = make_data(c, &n, count);
    clq_value given[GIVEN] = {CLQ_NO_VALUE}, made[MADE] = {CLQ_NO_VALUE};
    rig_begin(r, c->capacity);
    for (unsigned i = 0; i < GIVEN; i++)
        if (n.given[i])
            given[i] = rig_value_of(r, "given", CLQ_F32, is_of_all(i) ? n.given[i] : 0, is_of_all(i) ? 0 : n.given[i]);
    for (unsigned i = 0; i < MADE; i++)
        if (n.made[i]) made[i] = rig_value_of(r, made_names[i], CLQ_F32, 0, n.made[i]);
    add_operations(r, c, given, made);
    rig_bind(r);
    for (unsigned i = 0; i < GIVEN; i++)
        if (n.given[i])
            rig_fill(r, given[i], d.given[i].stored, n.given[i] * (is_of_all(i) ? 1 : count) * sizeof(float));
    rig_run(r, count);
    for (unsigned i = 0; i < MADE; i++) {
        if (!n.made[i]) continue;
        if (i == KEPT) /* its layout is the operation's own */
            rig_check_untouched(r, made[i], n.made[i] * count * sizeof(float));
        else
            rig_check_value(r, made_names[i], made[i], CLQ_F32, d.made[i], n.made[i] * count, 4e-6,
                            i < DZ ? 2e-6 : 4e-6);
    }
    rig_end(r);
    release_data(&d);
}

static void recurrent(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        const clq_recurrent_problem *p = &cases[i].p;
        const size_t products = p->steps * clq_cell_gates(p->cell) * p->units * p->units;
        if (!rig_takes(r, i) || !rig_affords(r, products * cases[i].capacity / 8)) continue;
        rig_alternate(r, i / 2); /* every cell has optimized cases on each driver */
        const uint32_t other = i % 3 ? cases[i].capacity - 1 : 0;
        /* A simulator's cases differ from each other in how full their batches are. */
        if (!rig_is_simulated(r) || other == 0) check(r, &cases[i], cases[i].capacity);
        if (!rig_is_simulated(r) || other > 0) check(r, &cases[i], other);
    }
}

static void test_recurrent(void **state) {
    (void)state;
    rig_each(recurrent);
}

/* ---- the reference's gradients ---- */

enum { SAMPLES = 3, UNITS_MOST = 20, NUMBERS = 128 };

/* The sum of all outputs, each weighted by the number that is given as its gradient. */
static double weigh(const recurrent_case *c, const data *d, const sizes *n) {
    static const unsigned weights[] = {[Y] = DY, [H] = DH, [C] = DC};
    double sum = 0;
    run_reference(&c->p, d, n, SAMPLES);
    for (unsigned i = Y; i <= C; i++)
        for (size_t k = 0; k < n->given[weights[i]] * SAMPLES; k++)
            sum += d->made[i][k] * d->given[weights[i]].exact[k];
    return sum;
}

static size_t common_divisor(size_t a, size_t b) {
    while (b > 0) {
        const size_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* The distance between two of the `numbers` that are checked. It has no divisor in common with the number of units,
 * gates or steps, so the checked numbers lie in all of them. */
static size_t distance_of(size_t numbers) {
    size_t distance = 1 + numbers / NUMBERS;
    while (common_divisor(distance, numbers) > 1) distance++;
    return distance;
}

/* In double, central differences of numbers of about 10 are right to about 1e-9. Each number runs the reference
 * twice. */
static void check_differences(const recurrent_case *c, const data *d, const sizes *n, unsigned given,
                              const double *gradient) {
    const double h = 1e-6;
    const size_t numbers = n->given[given] * (is_of_all(given) ? 1 : SAMPLES), distance = distance_of(numbers);
    for (size_t i = 0; i < numbers; i += distance) {
        double *number = &d->given[given].exact[i], keep = *number;
        *number = keep + h;
        const double above = weigh(c, d, n);
        *number = keep - h;
        const double difference = (above - weigh(c, d, n)) / (2 * h);
        *number = keep;
        if (!(fabs(gradient[i] - difference) <= 1e-7))
            fail_msg("case %zu: gradient of number %zu of input %u is %.12g, by differences %.12g", (size_t)(c - cases),
                     i, given, gradient[i], difference);
    }
}

/* The gradients of the weights and of the bias, from the steps of all samples. */
static void sum_products(const recurrent_case *c, const data *d, const sizes *n, double *du) {
    const size_t units = c->p.units, width = clq_cell_gates(c->p.cell) * units;
    ref_gemm(true, false, units, width, n->made[BEFORE] / units * SAMPLES, d->made[BEFORE],
             d->made[DR] ? d->made[DR] : d->made[DZ], du);
}
static void sum_biases(const data *d, const sizes *n, double *dbias) {
    memset(dbias, 0, n->given[BIAS] * sizeof *dbias);
    for (size_t i = 0; i < n->made[DBOTH] * SAMPLES; i++) dbias[i % n->given[BIAS]] += d->made[DBOTH][i];
}

static void check_reference(const recurrent_case *c) {
    const sizes n = sizes_of(c);
    const data d = make_data(c, &n, SAMPLES);
    double *du = rig_alloc(n.given[U], sizeof *du), *dbias = rig_alloc(n.given[BIAS] + 1, sizeof *dbias);
    sum_products(c, &d, &n, du);
    sum_biases(&d, &n, dbias);
    check_differences(c, &d, &n, Z, d.made[DZ]);
    check_differences(c, &d, &n, U, du);
    check_differences(c, &d, &n, BIAS, dbias);
    check_differences(c, &d, &n, H0, d.made[DH0]);
    check_differences(c, &d, &n, C0, d.made[DC0]);
    clq_free(du);
    clq_free(dbias);
    release_data(&d);
}

static void test_reference(void **state) {
    size_t checked = 0;
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        if (cases[i].no_kept || cases[i].p.units > UNITS_MOST) continue;
        check_reference(&cases[i]);
        checked++;
    }
    assert_true(checked >= 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_recurrent)};
    return cmocka_run_group_tests_name("ops/recurrent", tests, NULL, NULL);
}
