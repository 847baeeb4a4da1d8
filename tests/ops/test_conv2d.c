#include "ref/ref_product.h"
#include "support/ops_product.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct conv_case {
    clq_conv2d_problem p;
    uint32_t capacity;
    bool bias;
} conv_case;

/* in h, w, c, out h, w, c, kernel, stride, dilation, padding in front; capacity; bias */
static const conv_case cases[] = {
    {{13, 13, 32, 11, 11, 64, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_RELU}, 3, true},   /* the usual one: a row of pixels is a tile */
    {{12, 12, 1, 12, 12, 8, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_LINEAR}, 5, true},   /* same, one channel: padded first */
    {{28, 28, 1, 26, 26, 32, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_RELU}, 2, true},    /* two tiles per row, taps as runs */
    {{9, 31, 17, 9, 31, 19, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_RELU}, 2, false},    /* same: edges and middle of long rows; primes */
    {{10, 11, 3, 5, 6, 10, 3, 3, 2, 2, 1, 1, 0, 1, CLQ_TANH}, 4, true},      /* same with strides: padding behind only */
    {{17, 16, 16, 6, 5, 16, 3, 2, 3, 3, 1, 1, 1, 0, CLQ_LINEAR}, 3, true},   /* strides of 3: inputs that no tap meets */
    {{15, 14, 20, 7, 8, 5, 3, 3, 1, 1, 4, 3, 0, 0, CLQ_LINEAR}, 2, false},   /* dilation */
    {{11, 9, 16, 11, 9, 33, 3, 3, 1, 1, 2, 2, 2, 2, CLQ_RELU}, 2, true},     /* dilation, same */
    {{5, 4, 6, 5, 4, 7, 1, 1, 1, 1, 1, 1, 0, 0, CLQ_RELU}, 7, true},         /* 1x1: a matrix product */
    {{7, 8, 12, 4, 4, 9, 1, 1, 2, 2, 1, 1, 0, 0, CLQ_LINEAR}, 3, true},      /* 1x1 with strides */
    {{4, 5, 3, 1, 1, 40, 4, 5, 1, 1, 1, 1, 0, 0, CLQ_LINEAR}, 9, true},      /* the kernel is the whole image */
    {{1, 19, 2, 1, 15, 3, 1, 5, 1, 1, 1, 1, 0, 0, CLQ_SIGMOID}, 4, true},    /* one row */
    {{19, 1, 130, 17, 1, 4, 9, 1, 1, 1, 1, 1, 3, 0, CLQ_LINEAR}, 2, true},   /* one column, padded; long sums */
    {{3, 3, 16, 3, 3, 2, 5, 5, 1, 1, 1, 1, 2, 2, CLQ_LINEAR}, 2, false},     /* a kernel larger than the image */
    {{40, 40, 2, 38, 38, 3, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_LINEAR}, 16, false}, /* long sums for the weights */
};
/* Those that every driver has to build; the others are for one that builds as the second does. */
static const size_t everywhere[] = {0, 1, 3, 5, 7};

static void forward(clq_list *list, const void *p, clq_value x, clq_value w, clq_value b, clq_value y) { clq_conv2d_forward(list, p, x, w, b, y); }
static void backward(clq_list *list, const void *p, clq_value x, clq_value w, clq_value dz, clq_value dx, clq_value dw) {
    clq_conv2d_backward(list, p, x, w, dz, dx, dw);
}
static void ref(const void *p, size_t count, const double *x, const double *w, const double *b, double *z) { ref_conv2d(p, count, x, w, b, z); }
static void ref_gradients(const void *p, size_t count, const double *x, const double *w, const double *dz, double *dx, double *dw) {
    ref_conv2d_gradients(p, count, x, w, dz, dx, dw);
}

static void check(rig *r, const conv_case *c, clq_product_variant variant) {
    const clq_conv2d_problem *p = &c->p;
    product_layer layer = {
        .in = p->in_h * p->in_w * p->in_c,
        .out = p->out_h * p->out_w * p->out_c,
        .weights = p->kernel_h * p->kernel_w * p->in_c * p->out_c,
        .biases = c->bias ? p->out_c : 0,
        .rows = p->out_h * p->out_w,
        .activation = p->activation,
        .problem = p,
        .forward = forward,
        .backward = backward,
        .ref = ref,
        .ref_gradients = ref_gradients,
    };
    product_check(r, &layer, c->capacity, variant);
}

static void check_family(rig *r) {
    if (clq_device_runs_in_caller(r->device)) {
        for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) check(r, &cases[i], CLQ_PRODUCT_AUTO);
    } else {
        for (size_t i = 0; i < CLQ_COUNT_OF(everywhere); i++) check(r, &cases[everywhere[i]], CLQ_PRODUCT_AUTO);
    }
}

static void matches_reference(void **state) {
    (void)state;
    rig_each(check_family);
}

/* CLBlast multiplies matrices: what is none falls back to the family. */
static void check_clblast(rig *r) {
    check(r, &cases[8], CLQ_PRODUCT_CLBLAST);
    check(r, &cases[1], CLQ_PRODUCT_CLBLAST);
}

static void clblast_matches_reference(void **state) {
    (void)state;
    rig_each(check_clblast);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(clblast_matches_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
