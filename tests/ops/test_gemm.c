/* Matrix products of every transposition against the plain reference. */
#include "ops/product_local.h"
#include "ref/ref_product.h"
#include "support/ops_product.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct shape {
    size_t m, n, k;
} shape;

/* Edges: one, primes, a tile's size and one beside it. */
static const shape shapes[] = {{1, 1, 1}, {7, 13, 5}, {64, 48, 31}, {5, 3, 1031}, {33, 17, 64}};

/* What sums of absolute values come to: the scale of the rounding. */
static void absolute(double *values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i] = values[i] < 0 ? -values[i] : values[i];
}

/* local_block: which one, or CLQ_LOCAL_BLOCK_AUTO. */
static void check_block(rig *r, const shape *s, bool transpose_a, bool transpose_b, clq_product_variant variant,
                        size_t local_block) {
    clq_random random = clq_random_start(31, s->m * 1009 + s->n * 31 + s->k);
    size_t a_floats = s->m * s->k, b_floats = s->k * s->n, c_floats = s->m * s->n;
    float *a, *b, *got = rig_alloc(c_floats, sizeof *got);
    double *a64, *b64, *want = rig_alloc(c_floats, sizeof *want), *sizes = rig_alloc(c_floats, sizeof *sizes);
    rig_numbers(&random, a_floats, -1, 1, &a, &a64);
    rig_numbers(&random, b_floats, -1, 1, &b, &b64);
    rig_begin(r, 1);
    clq_list_set_product(r->list, variant);
    clq_list_set_local_block(r->list, local_block);
    clq_value va = rig_value(r, "a", a_floats * sizeof *a, 0), vb = rig_value(r, "b", b_floats * sizeof *b, 0);
    clq_value vc = rig_value(r, "c", c_floats * sizeof *got, 0);
    clq_gemm(r->list, transpose_a, transpose_b, s->m, s->n, s->k, va, vb, vc);
    rig_bind(r);
    rig_fill(r, va, a, a_floats * sizeof *a);
    rig_fill(r, vb, b, b_floats * sizeof *b);
    rig_fill(r, vc, NULL, 0);
    rig_run(r, 1);
    rig_read(r, vc, got, c_floats * sizeof *got);
    rig_check_untouched(r, vc, c_floats * sizeof *got);
    ref_gemm(transpose_a, transpose_b, s->m, s->n, s->k, a64, b64, want);
    absolute(a64, a_floats);
    absolute(b64, b_floats);
    ref_gemm(transpose_a, transpose_b, s->m, s->n, s->k, a64, b64, sizes);
    product_check_numbers(r, "c", got, want, sizes, c_floats, s->k);
    rig_end(r);
    clq_free(a);
    clq_free(b);
    clq_free(a64);
    clq_free(b64);
    clq_free(got);
    clq_free(want);
    clq_free(sizes);
}

static void check(rig *r, const shape *s, bool transpose_a, bool transpose_b, clq_product_variant variant) {
    check_block(r, s, transpose_a, transpose_b, variant, CLQ_LOCAL_BLOCK_AUTO);
}

/* Every shape is a program; the last is the one for all drivers. */
static void check_all(rig *r) {
    size_t first = clq_device_runs_in_caller(r->device) ? 0 : CLQ_COUNT_OF(shapes) - 1;
    for (size_t i = first; i < CLQ_COUNT_OF(shapes); i++)
        for (int t = 0; t < 4; t++) check(r, &shapes[i], t & 1, t >> 1, CLQ_PRODUCT_AUTO);
}

/* Packed blocks: edges of tiles and vectors; sums and rows of several blocks, over several blocks of columns. The last
 * is large enough to be packed without being told. Every case is a program. */
static void check_blocks(rig *r) {
    static const shape edges = {13, 37, 19}, several = {277, 1061, 521}, large = {515, 1031, 769};
    if (r->family != CLQ_FAMILY_TILE) return;
    for (int t = 0; t < 4; t++) check(r, &edges, t & 1, t >> 1, CLQ_PRODUCT_BLOCKS);
    if (!clq_device_runs_in_caller(r->device)) return;
    for (int t = 0; t < 3; t++) check(r, &several, t & 1, t >> 1, CLQ_PRODUCT_BLOCKS);
    check(r, &large, false, false, CLQ_PRODUCT_AUTO);
}

/* Each block of the local family, where neither sides nor sums fill blocks; odd rows and such that are vectors. */
static void check_local_blocks(rig *r) {
    static const shape odd = {133, 67, 43}, pairs = {18, 134, 26}, simulated = {5, 18, 19};
    if (r->family != CLQ_FAMILY_LOCAL || (!clq_device_runs_in_caller(r->device) && !rig_is_simulated(r))) return;
    for (size_t i = 0; i < CLQ_LOCAL_BLOCKS; i++) {
        const shape *s = rig_is_simulated(r) ? &simulated : i % 2 ? &odd : &pairs;
        check_block(r, s, i % 3 == 0, i % 3 == 1, CLQ_PRODUCT_LOCAL, i);
        if (!rig_is_simulated(r)) assert_true(clq_local_block_works(r->device, i));
    }
}

static void local_blocks_match_reference(void **state) {
    (void)state;
    rig_each(check_local_blocks);
}

static void blocks_match_reference(void **state) {
    (void)state;
    rig_each(check_blocks);
}

static void every_transposition(void **state) {
    (void)state;
    rig_each(check_all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_transposition), cmocka_unit_test(blocks_match_reference),
                                       cmocka_unit_test(local_blocks_match_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
