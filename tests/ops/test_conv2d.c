#include "support/ops_conv.h"

/* in h, w, c, out h, w, c, kernel, stride, dilation, padding in front, activation, whether dw is added up; capacity;
 * bias */
static const conv_case cases[] = {
    /* the usual one: a row of pixels is a tile */
    {{13, 13, 32, 11, 11, 64, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, true}, 3, true},
    /* same, one channel: padded first */
    {{12, 12, 1, 12, 12, 8, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_LINEAR, false}, 5, true},
    /* same: edges and middle of long rows; primes */
    {{9, 31, 17, 9, 31, 19, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 2, false},
    /* strides of 3: inputs that no tap meets */
    {{17, 16, 16, 6, 5, 16, 3, 2, 3, 3, 1, 1, 1, 0, CLQ_ACTIVATION_LINEAR, true}, 3, true},
    /* dilation, same */
    {{11, 9, 16, 11, 9, 33, 3, 3, 1, 1, 2, 2, 2, 2, CLQ_ACTIVATION_RELU, false}, 2, true},
    /* 1x1: a matrix product */
    {{5, 4, 6, 5, 4, 7, 1, 1, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, true}, 7, true},
    /* two tiles per row, taps as runs */
    {{28, 28, 1, 26, 26, 32, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 2, true},
    /* same with strides: padding behind only */
    {{10, 11, 3, 5, 6, 10, 3, 3, 2, 2, 1, 1, 0, 1, CLQ_ACTIVATION_TANH, false}, 4, true},
    /* dilation */
    {{15, 14, 20, 7, 8, 5, 3, 3, 1, 1, 4, 3, 0, 0, CLQ_ACTIVATION_LINEAR, true}, 2, false},
    /* 1x1 with strides */
    {{7, 8, 12, 4, 4, 9, 1, 1, 2, 2, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false}, 3, true},
    /* the kernel is the whole image */
    {{4, 5, 3, 1, 1, 40, 4, 5, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false}, 9, true},
    /* one row */
    {{1, 19, 2, 1, 15, 3, 1, 5, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_SIGMOID, false}, 4, true},
    /* one column, padded; long sums */
    {{19, 1, 130, 17, 1, 4, 9, 1, 1, 1, 1, 1, 3, 0, CLQ_ACTIVATION_LINEAR, false}, 2, true},
    /* a kernel larger than the image */
    {{3, 3, 16, 3, 3, 2, 5, 5, 1, 1, 1, 1, 2, 2, CLQ_ACTIVATION_LINEAR, false}, 2, false},
    /* long sums for the weights */
    {{40, 40, 2, 38, 38, 3, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, true}, 16, false},
    /* small enough for a simulator: valid with more than a vector of channels; dilation; same with long rows */
    {{6, 7, 2, 4, 5, 17, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 2, true},
    {{7, 7, 3, 3, 3, 5, 3, 3, 1, 1, 2, 2, 0, 0, CLQ_ACTIVATION_LINEAR, true}, 3, true},
    {{3, 18, 4, 3, 18, 5, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 2, true},
};
enum { EVERYWHERE = 6, SAME = 1, MATRIX = 5 };

static void check(rig *r, size_t index) { conv_check(r, &cases[index], &(rig_variant){.conv = "direct"}); }

/* Each case runs in one of the families. A case whose kernels no other case has there runs in both. */
static void check_family(rig *r) {
    static const size_t both[] = {8, 13};
    product_share_cases(r, CLQ_COUNT_OF(cases), EVERYWHERE, check);
    for (size_t i = 0; i < CLQ_COUNT_OF(both) && clq_device_runs_in_caller(r->device); i++)
        if (!rig_takes(r, both[i])) check(r, both[i]);
}

static void matches_reference(void **state) {
    (void)state;
    rig_each(check_family);
}

/* 16 bits in memory: a row of pixels that is a tile; edges and middle of long rows; strides, one tap with strides;
 * padded first; dilation, both axes with gaps. */
static const struct {
    conv_case c;
    rig_variant how;
} stored[] = {
    {{{5, 6, 16, 5, 6, 16, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 2, true},
     {.conv = "direct", .x = CLQ_F16, .w = CLQ_F16, .y = CLQ_F16}},
    {{{9, 31, 17, 9, 31, 19, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 2, false},
     {.conv = "direct", .x = CLQ_BF16, .y = CLQ_BF16}},
    {{{9, 9, 16, 5, 5, 20, 3, 3, 2, 2, 1, 1, 1, 1, CLQ_ACTIVATION_LINEAR, true}, 3, true},
     {.x = CLQ_F16, .w = CLQ_BF16}},
    {{{7, 8, 12, 4, 4, 9, 1, 1, 2, 2, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false}, 3, true},
     {.x = CLQ_F16, .y = CLQ_BF16}},
    {{{10, 11, 3, 5, 6, 10, 3, 3, 2, 2, 1, 1, 0, 1, CLQ_ACTIVATION_TANH, false}, 4, true},
     {.x = CLQ_BF16, .w = CLQ_BF16, .y = CLQ_F16}},
    {{{11, 9, 16, 11, 9, 33, 3, 3, 1, 1, 2, 2, 2, 2, CLQ_ACTIVATION_RELU, false}, 2, true},
     {.w = CLQ_F16, .y = CLQ_F16}},
    {{{6, 7, 20, 4, 5, 17, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 2, true},
     {.conv = "direct", .x = CLQ_F16, .w = CLQ_F16, .y = CLQ_F16}},
};
enum { STORED_EVERYWHERE = 3, ADDED = 2 };

static void check_stored(rig *r, size_t index) { conv_check(r, &stored[index].c, &stored[index].how); }

static void check_family_stored(rig *r) {
    product_share_cases(r, CLQ_COUNT_OF(stored), STORED_EVERYWHERE, check_stored);
    if (!rig_takes(r, ADDED)) check_stored(r, ADDED); /* each family has no other case that adds */
}

static void stored_in_16_bits(void **state) {
    (void)state;
    rig_each(check_family_stored);
}

/* CLBlast multiplies matrices only. Any other convolution falls back to the family. */
static void check_clblast(rig *r) {
    const rig_variant variant = {.product = "clblast", .conv = "direct"};
    product_build_clblast(r);
    conv_check(r, &cases[MATRIX], &variant);
    conv_check(r, &cases[SAME], &variant);
}

static void clblast_matches_reference(void **state) {
    (void)state;
    rig_each(check_clblast);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(clblast_matches_reference),
        cmocka_unit_test(stored_in_16_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
