#include "ref/ref_product.h"
#include "support/ops_product.h"

typedef struct dense_case {
    clq_dense_problem p;
    uint32_t capacity;
    bool bias;
} dense_case;

/* in, out, activation, rows per example, adds; capacity; bias. Tiles are 8 rows and 14 inputs by 32
 * outputs, blocks 64 by 64. */
static const dense_case cases[] = {
    {{784, 128, CLQ_ACTIVATION_RELU, 1, false}, 9, true},  /* whole vectors; one row behind a tile */
    {{65, 33, CLQ_ACTIVATION_TANH, 1, true}, 7, true},     /* one behind two vectors, behind a block */
    {{31, 1, CLQ_ACTIVATION_LINEAR, 1, false}, 65, true},  /* one column: the vector reaches over many rows */
    {{3, 7, CLQ_ACTIVATION_LINEAR, 700, true}, 30, false}, /* long sums for the weights */
    {{128, 10, CLQ_ACTIVATION_LINEAR, 1, true}, 16, true}, /* less than a vector */
    {{13, 31, CLQ_ACTIVATION_SIGMOID, 1, false}, 17, false}, {{1, 1, CLQ_ACTIVATION_LINEAR, 1, false}, 1, true},
    {{3, 48, CLQ_ACTIVATION_RELU, 1, true}, 23, false},      /* three vectors, few inputs */
    {{97, 83, CLQ_ACTIVATION_RELU, 5, true}, 3, true},       /* primes; several rows per example */
    {{2500, 5, CLQ_ACTIVATION_LINEAR, 1, false}, 3, false},  /* long sums forward */
    {{2500, 5, CLQ_ACTIVATION_SIGMOID, 1, false}, 3, true},  /* the same in slices, with bias and activation */
    {{33, 1100, CLQ_ACTIVATION_LINEAR, 1, false}, 9, false}, /* several blocks of terms back, and a row behind a tile */
};
enum { EVERYWHERE = 4, BLOCK = 1, NARROW = 4, NO_BIAS = 5 };

static void forward(clq_list *list, const void *p, clq_value x, clq_value w, clq_value b, clq_value y) {
    clq_dense_forward(list, p, x, w, b, y);
}
static void backward(clq_list *list, const void *p, clq_value x, clq_value w, clq_value dz, clq_value dx,
                     clq_value dw) {
    clq_dense_backward(list, p, x, w, dz, dx, dw);
}
static void ref(const void *p, size_t count, const double *x, const double *w, const double *b, double *z) {
    ref_dense(p, count, x, w, b, z);
}
static void ref_gradients(const void *p, size_t count, const double *x, const double *w, const double *dz, double *dx,
                          double *dw) {
    ref_dense_gradients(p, count, x, w, dz, dx, dw);
}

static void check_case(rig *r, const dense_case *c, const rig_variant *how) {
    product_layer layer = {
        .in = c->p.in * c->p.rows_per_example,
        .out = c->p.out * c->p.rows_per_example,
        .weights = c->p.in * c->p.out,
        .biases = c->bias ? c->p.out : 0,
        .rows = c->p.rows_per_example,
        .activation = c->p.activation,
        .adds = c->p.adds,
        .problem = &c->p,
        .forward = forward,
        .backward = backward,
        .ref = ref,
        .ref_gradients = ref_gradients,
    };
    product_check(r, &layer, c->capacity, how);
}

static void check_by(rig *r, size_t index, const char *product) {
    check_case(r, &cases[index], &(rig_variant){.product = product});
}

static void check(rig *r, size_t index) { check_by(r, index, NULL); }

static void check_family(rig *r) { product_share_cases(r, CLQ_COUNT_OF(cases), EVERYWHERE, check); }

static void matches_reference(void **state) {
    (void)state;
    rig_each(check_family);
}

/* Variants are forced, whatever the family is. CLBlast's kernels are built once per device, which takes time: so only
 * the local family's device has them. */
static void check_variants(rig *r) {
    if (r->family == CLQ_FAMILY_LOCAL) {
        product_build_clblast(r);
        check_by(r, NARROW, "tile");
        check_by(r, BLOCK, "clblast");
        check_by(r, NO_BIAS, "clblast");
    } else {
        check_by(r, NARROW, "local");
        check_by(r, BLOCK, "packed blocks");
    }
}

static void variants_match_reference(void **state) {
    (void)state;
    rig_each(check_variants);
}

/* 16 bits in memory, for all values or for some. Whole vectors, and none; long sums; packed products. */
static const struct {
    dense_case c;
    rig_variant how;
} stored[] = {
    {{{64, 48, CLQ_ACTIVATION_RELU, 1, true}, 9, true}, {.x = CLQ_F16, .w = CLQ_F16, .y = CLQ_F16}},
    {{{65, 33, CLQ_ACTIVATION_TANH, 1, false}, 7, true}, {.x = CLQ_BF16, .w = CLQ_BF16, .y = CLQ_BF16}},
    {{{65, 33, CLQ_ACTIVATION_TANH, 1, true}, 7, true},
     {.product = "packed blocks", .x = CLQ_BF16, .w = CLQ_F16, .y = CLQ_F16}},
    {{{13, 21, CLQ_ACTIVATION_LINEAR, 5, false}, 3, false}, {.x = CLQ_F16}},
    {{{1100, 5, CLQ_ACTIVATION_LINEAR, 1, false}, 3, true},
     {.w = CLQ_BF16, .y = CLQ_F16}}, /* narrow outer, long forward */
    {{{5, 1100, CLQ_ACTIVATION_LINEAR, 1, false}, 9, true}, {.x = CLQ_F16, .y = CLQ_BF16}}, /* several blocks back */
    {{{600, 5, CLQ_ACTIVATION_RELU, 1, false}, 9, true}, {.product = "packed blocks", .x = CLQ_BF16, .y = CLQ_F16}},
};
enum { STORED_EVERYWHERE = 3 };

static void check_stored(rig *r, size_t index) { check_case(r, &stored[index].c, &stored[index].how); }

static void check_family_stored(rig *r) {
    product_share_cases(r, CLQ_COUNT_OF(stored), STORED_EVERYWHERE, check_stored);
}

static void stored_in_16_bits(void **state) {
    (void)state;
    rig_each(check_family_stored);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(variants_match_reference),
        cmocka_unit_test(stored_in_16_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
