/* Convolutions of channels in groups, including depthwise ones, against the definition in double. */
#include "ref/ref_elementwise.h"
#include "ref/ref_product.h"
#include "support/ops_rig.h"

typedef struct grouped_case {
    clq_grouped_problem p;
    uint32_t capacity;
    bool bias;
    clq_dtype x, y; /* as stored; dx as x, dz as y */
} grouped_case;

/* in h, w, c, out h, w, c, kernel, stride, dilation, padding in front, activation, adds */
static const grouped_case cases[] = {
    /* depthwise: the usual one, same; channels are whole vectors */
    {{{9, 11, 32, 9, 11, 32, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 32}, 3, true, CLQ_F32, CLQ_F32},
    /* strides, padded behind; a vector and some channels */
    {{{10, 13, 21, 5, 7, 21, 3, 3, 2, 2, 1, 1, 0, 1, CLQ_ACTIVATION_LINEAR, false}, 21}, 4, false, CLQ_F32, CLQ_F32},
    /* a multiplier of 2 */
    {{{6, 7, 9, 4, 5, 18, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_TANH, false}, 9}, 3, true, CLQ_F32, CLQ_F32},
    /* two groups of many filters */
    {{{5, 6, 8, 5, 6, 64, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_LINEAR, false}, 2}, 2, true, CLQ_F32, CLQ_F32},
    /* groups of few channels, dilation */
    {{{9, 8, 12, 5, 8, 12, 3, 1, 1, 1, 2, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 4}, 3, false, CLQ_F32, CLQ_F32},
    /* a row: 1D */
    {{{1, 37, 5, 1, 37, 5, 1, 5, 1, 1, 1, 2, 0, 8, CLQ_ACTIVATION_LINEAR, false}, 5}, 3, true, CLQ_F32, CLQ_F32},
    /* 1 x 1, one channel each, with strides */
    {{{7, 7, 3, 4, 4, 3, 1, 1, 2, 2, 1, 1, 0, 0, CLQ_ACTIVATION_SIGMOID, false}, 3}, 2, true, CLQ_F32, CLQ_F32},
    /* 5 x 5 */
    {{{8, 8, 16, 8, 8, 16, 5, 5, 1, 1, 1, 1, 2, 2, CLQ_ACTIVATION_LINEAR, false}, 16}, 2, false, CLQ_F32, CLQ_F32},
    /* enough for several work-items; long sums for the weights */
    {{{40, 40, 24, 40, 40, 24, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_LINEAR, false}, 24}, 16, true, CLQ_F32, CLQ_F32},
    /* 16 bits */
    {{{6, 9, 17, 6, 9, 17, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 17}, 3, true, CLQ_F16, CLQ_F16},
    {{{5, 6, 8, 3, 4, 16, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false}, 2}, 2, false, CLQ_BF16, CLQ_F32},
};

static const double relative = 2e-6;

static void check(rig *r, const grouped_case *c, uint32_t count) {
    const clq_conv2d_problem *p = &c->p.conv;
    const size_t in = p->in_h * p->in_w * p->in_c, out = p->out_h * p->out_w * p->out_c,
                 taps = p->kernel_h * p->kernel_w, weights = taps * (p->in_c / c->p.groups) * p->out_c;
    clq_random random = clq_random_start(73, p->in_c);
    rig_data x = rig_make(&random, c->x, in * count, -1, 1), w = rig_make(&random, CLQ_F32, weights, -1, 1),
             b = rig_make(&random, CLQ_F32, p->out_c, -1, 1), dz = rig_make(&random, c->y, out * count, -1, 1);
    double *z = rig_alloc(out * count + 1, sizeof *z), *y = rig_alloc(out * count + 1, sizeof *y),
           *dx = rig_alloc(in * count + 1, sizeof *dx), *dw = rig_alloc(weights, sizeof *dw);
    rig_begin(r, c->capacity);
    clq_value vx = rig_value_of(r, "x", c->x, 0, in), vw = rig_value_of(r, "w", CLQ_F32, weights, 0),
              vb = rig_value_of(r, "b", CLQ_F32, p->out_c, 0), vy = rig_value_of(r, "y", c->y, 0, out),
              vdz = rig_value_of(r, "dz", c->y, 0, out), vdx = rig_value_of(r, "dx", c->x, 0, in),
              vdw = rig_value_of(r, "dw", CLQ_F32, weights, 0);
    clq_grouped_forward(r->list, &c->p, vx, vw, c->bias ? vb : CLQ_NO_VALUE, vy);
    clq_grouped_backward(r->list, &c->p, vx, vw, vdz, vdx, vdw);
    rig_bind(r);
    rig_fill(r, vx, x.stored, clq_values_bytes(c->x, in * count));
    rig_fill(r, vw, w.stored, weights * sizeof(float));
    rig_fill(r, vb, b.stored, p->out_c * sizeof(float));
    rig_fill(r, vdz, dz.stored, clq_values_bytes(c->y, out * count));
    rig_run(r, count);
    ref_grouped(&c->p, count, x.exact, w.exact, c->bias ? b.exact : NULL, z);
    ref_activation(p->activation, out * count, 1, z, y);
    ref_grouped_gradients(&c->p, count, x.exact, w.exact, dz.exact, dx, dw);
    rig_check_value(r, "y", vy, c->y, y, out * count, relative, 2e-7 * (double)taps * (double)(p->in_c / c->p.groups));
    rig_check_value(r, "dx", vdx, c->x, dx, in * count, relative,
                    2e-7 * (double)taps * (double)(p->out_c / c->p.groups));
    rig_check_value(r, "dw", vdw, CLQ_F32, dw, weights, relative, 1e-8 * (double)(count * p->out_h * p->out_w + 50));
    rig_end(r);
    rig_data *const all[] = {&x, &w, &b, &dz};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) rig_release(all[i]);
    double *const more[] = {z, y, dx, dw};
    for (size_t i = 0; i < CLQ_COUNT_OF(more); i++) clq_free(more[i]);
}

static void grouped(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        const clq_conv2d_problem *p = &cases[i].p.conv;
        if (!rig_takes(r, i) || !rig_affords(r, p->out_h * p->out_w * p->out_c * cases[i].capacity)) continue;
        check(r, &cases[i], cases[i].capacity);
        check(r, &cases[i], i % 2 ? 0 : cases[i].capacity - 1);
    }
}

static void test_grouped(void **state) {
    (void)state;
    rig_each(grouped);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grouped)};
    return cmocka_run_group_tests_name("ops/grouped", tests, NULL, NULL);
}
