#include "ref/ref_product.h"
#include "support/ops_product.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct conv_case {
    clq_conv2d_problem p;
    uint32_t capacity;
    bool bias;
} conv_case;

/* in h, w, c, out h, w, c, kernel, stride, dilation, padding in front; capacity; bias */
static const conv_case cases[] = {
    /* the usual one: a row of pixels is a tile */
    {{13, 13, 32, 11, 11, 64, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_RELU}, 3, true},
    /* same, one channel: padded first */
    {{12, 12, 1, 12, 12, 8, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_LINEAR}, 5, true},
    /* same: edges and middle of long rows; primes */
    {{9, 31, 17, 9, 31, 19, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_RELU}, 2, false},
    /* strides of 3: inputs that no tap meets */
    {{17, 16, 16, 6, 5, 16, 3, 2, 3, 3, 1, 1, 1, 0, CLQ_LINEAR}, 3, true},
    /* dilation, same */
    {{11, 9, 16, 11, 9, 33, 3, 3, 1, 1, 2, 2, 2, 2, CLQ_RELU}, 2, true},
    /* 1x1: a matrix product */
    {{5, 4, 6, 5, 4, 7, 1, 1, 1, 1, 1, 1, 0, 0, CLQ_RELU}, 7, true},
    /* two tiles per row, taps as runs */
    {{28, 28, 1, 26, 26, 32, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_RELU}, 2, true},
    /* same with strides: padding behind only */
    {{10, 11, 3, 5, 6, 10, 3, 3, 2, 2, 1, 1, 0, 1, CLQ_TANH}, 4, true},
    /* dilation */
    {{15, 14, 20, 7, 8, 5, 3, 3, 1, 1, 4, 3, 0, 0, CLQ_LINEAR}, 2, false},
    /* 1x1 with strides */
    {{7, 8, 12, 4, 4, 9, 1, 1, 2, 2, 1, 1, 0, 0, CLQ_LINEAR}, 3, true},
    /* the kernel is the whole image */
    {{4, 5, 3, 1, 1, 40, 4, 5, 1, 1, 1, 1, 0, 0, CLQ_LINEAR}, 9, true},
    /* one row */
    {{1, 19, 2, 1, 15, 3, 1, 5, 1, 1, 1, 1, 0, 0, CLQ_SIGMOID}, 4, true},
    /* one column, padded; long sums */
    {{19, 1, 130, 17, 1, 4, 9, 1, 1, 1, 1, 1, 3, 0, CLQ_LINEAR}, 2, true},
    /* a kernel larger than the image */
    {{3, 3, 16, 3, 3, 2, 5, 5, 1, 1, 1, 1, 2, 2, CLQ_LINEAR}, 2, false},
    /* long sums for the weights */
    {{40, 40, 2, 38, 38, 3, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_LINEAR}, 16, false},
    /* small enough for a simulator: valid with more than a vector of channels; dilation; same with long rows */
    {{6, 7, 2, 4, 5, 17, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_RELU}, 2, true},
    {{7, 7, 3, 3, 3, 5, 3, 3, 1, 1, 2, 2, 0, 0, CLQ_LINEAR}, 3, true},
    {{3, 18, 4, 3, 18, 5, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_RELU}, 2, true},
};
enum { EVERYWHERE = 6, SAME = 1, MATRIX = 5 };

/* For Winograd's products; both channels are whole vectors. */
static const conv_case fewer[] = {
    /* valid, odd sizes; panels of two vectors */
    {{13, 13, 32, 11, 11, 64, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_RELU}, 3, true},
    /* small enough for a simulator */
    {{4, 3, 16, 4, 3, 16, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_LINEAR}, 1, true},
    /* same; panels of one vector forward, of three back */
    {{7, 10, 48, 7, 10, 16, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_TANH}, 5, false},
    /* all places that a tap reaches; five vectors */
    {{5, 6, 16, 7, 8, 80, 3, 3, 1, 1, 1, 1, 2, 2, CLQ_RELU}, 4, true},
    /* padding behind only, rows and columns left out; long sums */
    {{5, 4, 256, 4, 3, 16, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_LINEAR}, 2, true},
};

static clq_conv_variant forced;

/* The last launch is the one that makes the result. */
static bool last_is_winograd(const clq_list *list) {
    clq_launch_info info;
    clq_list_launch_info(list, clq_list_launch_count(list) - 1, &info);
    return info.file && strcmp(info.file, "winograd") == 0;
}

static void forward(clq_list *list, const void *p, clq_value x, clq_value w, clq_value b, clq_value y) {
    clq_list_set_conv(list, forced);
    clq_conv2d_forward(list, p, x, w, b, y);
    bool can = forced == CLQ_CONV_WINOGRAD && clq_list_family(list) == CLQ_FAMILY_TILE;
    assert_int_equal(last_is_winograd(list), can);
}
static void backward(clq_list *list, const void *p, clq_value x, clq_value w, clq_value dz, clq_value dx,
                     clq_value dw) {
    clq_conv2d_backward(list, p, x, w, dz, dx, dw);
    bool can = forced == CLQ_CONV_WINOGRAD && clq_list_family(list) == CLQ_FAMILY_TILE;
    assert_int_equal(last_is_winograd(list), can);
}
static void ref(const void *p, size_t count, const double *x, const double *w, const double *b, double *z) {
    ref_conv2d(p, count, x, w, b, z);
}
static void ref_gradients(const void *p, size_t count, const double *x, const double *w, const double *dz, double *dx,
                          double *dw) {
    ref_conv2d_gradients(p, count, x, w, dz, dx, dw);
}

/* F(2x2, 3x3) adds 16 products of sums where 9 products would do: with the transforms' own additions, over n channels
 * at most (2 n + 12) roundings of what is up to (8 / 3)^2 as large, three times the (9 n + 8) of a plain sum for any n
 * from 8 on. */
enum { WINOGRAD_GROWTH = 3 };

static void check_case(rig *r, const conv_case *c, clq_product_variant variant) {
    const clq_conv2d_problem *p = &c->p;
    product_layer layer = {
        .in = p->in_h * p->in_w * p->in_c,
        .out = p->out_h * p->out_w * p->out_c,
        .weights = p->kernel_h * p->kernel_w * p->in_c * p->out_c,
        .biases = c->bias ? p->out_c : 0,
        .rows = p->out_h * p->out_w,
        .growth = forced == CLQ_CONV_WINOGRAD ? WINOGRAD_GROWTH : 1,
        .activation = p->activation,
        .problem = p,
        .forward = forward,
        .backward = backward,
        .ref = ref,
        .ref_gradients = ref_gradients,
    };
    product_check(r, &layer, c->capacity, variant);
}

static void check(rig *r, size_t index, clq_product_variant variant) { check_case(r, &cases[index], variant); }

static void check_family(rig *r) { product_check_cases(r, CLQ_COUNT_OF(cases), EVERYWHERE, check); }

static void matches_reference(void **state) {
    (void)state;
    forced = CLQ_CONV_DIRECT;
    rig_each(check_family);
}

/* ---- Winograd's products ---- */

static void check_fewer(rig *r, size_t index, clq_product_variant variant) { check_case(r, &fewer[index], variant); }

static void check_winograd(rig *r) {
    enum { FEWER_EVERYWHERE = 2 };
    if (r->family == CLQ_FAMILY_TILE) product_check_cases(r, CLQ_COUNT_OF(fewer), FEWER_EVERYWHERE, check_fewer);
}

static void winograd_matches_reference(void **state) {
    (void)state;
    forced = CLQ_CONV_WINOGRAD;
    rig_each(check_winograd);
}

/* Whether a convolution, forward and its data gradient, is made with Winograd's products. */
static bool is_winograd(rig *r, const clq_conv2d_problem *p, uint32_t capacity, clq_conv_variant variant,
                        clq_product_variant product) {
    rig_begin(r, capacity);
    clq_list_set_conv(r->list, variant);
    clq_list_set_product(r->list, product);
    clq_value x = rig_value(r, "x", 4, 0), w = rig_value(r, "w", 4, 0), y = rig_value(r, "y", 4, 0);
    clq_conv2d_forward(r->list, p, x, w, CLQ_NO_VALUE, y);
    bool there = last_is_winograd(r->list);
    clq_conv2d_backward(r->list, p, x, w, y, x, CLQ_NO_VALUE);
    assert_int_equal(last_is_winograd(r->list), there);
    assert_int_equal(clq_list_status(r->list), CLQ_OK);
    clq_list_destroy(r->list);
    r->list = NULL;
    return there;
}

static void check_choice(rig *r) {
    const clq_conv2d_problem good = fewer[0].p, same = fewer[2].p;
    bool tile = r->family == CLQ_FAMILY_TILE;
    assert_int_equal(is_winograd(r, &good, 64, CLQ_CONV_AUTO, CLQ_PRODUCT_AUTO), tile);
    assert_int_equal(is_winograd(r, &same, 64, CLQ_CONV_AUTO, CLQ_PRODUCT_AUTO), tile);
    assert_int_equal(is_winograd(r, &good, 1, CLQ_CONV_WINOGRAD, CLQ_PRODUCT_AUTO), tile);
    assert_int_equal(is_winograd(r, &good, 64, CLQ_CONV_WINOGRAD, CLQ_PRODUCT_TILE), tile);
    assert_false(is_winograd(r, &good, 1, CLQ_CONV_AUTO, CLQ_PRODUCT_AUTO)); /* few pixels */
    assert_false(is_winograd(r, &good, 64, CLQ_CONV_AUTO, CLQ_PRODUCT_TILE));
    assert_false(is_winograd(r, &good, 64, CLQ_CONV_DIRECT, CLQ_PRODUCT_AUTO));
    clq_conv2d_problem p = {13, 13, 32, 6, 6, 64, 3, 3, 2, 2, 1, 1, 0, 0, CLQ_LINEAR};
    assert_false(is_winograd(r, &p, 64, CLQ_CONV_WINOGRAD, CLQ_PRODUCT_AUTO)); /* strides */
    p = (clq_conv2d_problem){13, 13, 32, 9, 9, 64, 3, 3, 1, 1, 2, 2, 0, 0, CLQ_LINEAR};
    assert_false(is_winograd(r, &p, 64, CLQ_CONV_WINOGRAD, CLQ_PRODUCT_AUTO)); /* dilation */
    p = (clq_conv2d_problem){13, 13, 32, 9, 11, 64, 5, 3, 1, 1, 1, 1, 0, 0, CLQ_LINEAR};
    assert_false(is_winograd(r, &p, 64, CLQ_CONV_WINOGRAD, CLQ_PRODUCT_AUTO)); /* taps */
    p = (clq_conv2d_problem){13, 13, 33, 11, 11, 35, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_LINEAR};
    assert_false(is_winograd(r, &p, 64, CLQ_CONV_WINOGRAD, CLQ_PRODUCT_AUTO)); /* parts of vectors */
    p = (clq_conv2d_problem){13, 13, 1024, 11, 11, 1024, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_LINEAR};
    assert_false(is_winograd(r, &p, 64, CLQ_CONV_WINOGRAD, CLQ_PRODUCT_AUTO)); /* beyond a cache */
}

static void winograd_where_it_fits_and_pays(void **state) {
    (void)state;
    rig_each(check_choice);
}

/* CLBlast multiplies matrices: what is none falls back to the family. */
static void check_clblast(rig *r) {
    check(r, MATRIX, CLQ_PRODUCT_CLBLAST);
    check(r, SAME, CLQ_PRODUCT_CLBLAST);
}

static void clblast_matches_reference(void **state) {
    (void)state;
    forced = CLQ_CONV_AUTO;
    rig_each(check_clblast);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(winograd_matches_reference),
        cmocka_unit_test(winograd_where_it_fits_and_pays),
        cmocka_unit_test(clblast_matches_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
