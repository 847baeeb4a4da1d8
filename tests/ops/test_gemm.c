/* Matrix products of every transposition against the plain reference. */
#include "ops/product/product_local.h"
#include "ref/ref_product.h"
#include "support/ops_product.h"

#include <math.h>
#include <stdlib.h>

typedef struct shape {
    size_t m, n, k;
} shape;

/* Edges: one, primes, a tile's size and one beside it. */
static const shape shapes[] = {{1, 1, 1}, {7, 13, 5}, {64, 48, 31}, {5, 3, 1031}, {33, 17, 64}};

/* How a product is to be made. */
typedef struct way {
    const char *variant; /* NULL: as the list chooses; "local": in a local block */
    size_t local_block;  /* the block's index */
    clq_local_terms terms;
} way;

/* Makes the values absolute. Sums of absolute values are the scale of the rounding. */
static void absolute(double *values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i] = values[i] < 0 ? -values[i] : values[i];
}

/* The significant bits that factors keep: 24 of floats, 11 of TF32 and halves, 8 of bfloat16. Matrix units round a
 * float to the bits of the other factor. */
static int significant_bits(const clq_local_terms *terms) {
    for (size_t i = 0; i < 2; i++)
        if (terms->storage[i] != CLQ_F32) return terms->storage[i] == CLQ_F16 ? 11 : 8;
    return terms->precision == CLQ_MATMUL_HIGH ? 11 : terms->precision == CLQ_MATMUL_MEDIUM ? 8 : 24;
}

/* Random numbers that the product takes without rounding, as memory stores them. *doubles gets the same numbers. */
static void *random_numbers(clq_random *random, size_t n, clq_dtype dtype, int bits, double **doubles) {
    float *floats;
    rig_numbers(random, n, -1, 1, &floats, doubles);
    for (size_t i = 0; i < n && bits < 24; i++) {
        int exponent;
        double fraction = frexp((*doubles)[i], &exponent);
        (*doubles)[i] = ldexp(trunc(ldexp(fraction, bits)), exponent - bits);
        floats[i] = (float)(*doubles)[i];
    }
    void *stored = rig_stored(dtype, floats, *doubles, n);
    clq_free(floats);
    return stored;
}

static void force(rig *r, const way *how) {
    char block[CLQ_CANDIDATE_BYTES];
    bool local = how->variant && strcmp(how->variant, "local") == 0;
    if (local) clq_local_block_name(how->local_block, block);
    rig_force(r, &(rig_variant){.product = local ? block : how->variant});
}

static void check_way(rig *r, const shape *s, bool transpose_a, bool transpose_b, const way *how) {
    clq_random random = clq_random_start(31, s->m * 1009 + s->n * 31 + s->k);
    size_t a_numbers = s->m * s->k, b_numbers = s->k * s->n, c_numbers = s->m * s->n;
    const clq_dtype *storage = how->terms.storage;
    size_t a_bytes = clq_values_bytes(storage[0], a_numbers), b_bytes = clq_values_bytes(storage[1], b_numbers);
    size_t c_bytes = clq_values_bytes(storage[2], c_numbers);
    double *a64, *b64, *want = rig_alloc(c_numbers, sizeof *want), *sizes = rig_alloc(c_numbers, sizeof *sizes);
    int bits = significant_bits(&how->terms);
    void *a = random_numbers(&random, a_numbers, storage[0], bits, &a64);
    void *b = random_numbers(&random, b_numbers, storage[1], bits, &b64), *got = rig_alloc(c_bytes, 1);
    rig_begin(r, 1);
    force(r, how);
    clq_list_set_precision(r->list, how->terms.precision);
    clq_value va = rig_value_of(r, "a", storage[0], a_numbers, 0), vb = rig_value_of(r, "b", storage[1], b_numbers, 0);
    clq_value vc = rig_value_of(r, "c", storage[2], c_numbers, 0);
    clq_gemm_problem problem = {s->m, s->n, s->k, transpose_a, transpose_b};
    clq_gemm(r->list, &problem, va, vb, vc);
    rig_bind(r);
    rig_fill(r, va, a, a_bytes);
    rig_fill(r, vb, b, b_bytes);
    rig_fill(r, vc, NULL, 0);
    rig_run(r, 1);
    rig_read(r, vc, got, c_bytes);
    rig_check_untouched(r, vc, c_bytes);
    ref_gemm(transpose_a, transpose_b, s->m, s->n, s->k, a64, b64, want);
    absolute(a64, a_numbers);
    absolute(b64, b_numbers);
    ref_gemm(transpose_a, transpose_b, s->m, s->n, s->k, a64, b64, sizes);
    product_check_numbers(r, "c", storage[2], got, want, sizes, c_numbers, s->k);
    rig_end(r);
    void *const all[] = {a, b, got, a64, b64, want, sizes};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

static void check(rig *r, const shape *s, bool transpose_a, bool transpose_b, const char *variant) {
    check_way(r, s, transpose_a, transpose_b, &(way){variant, 0, {.precision = CLQ_MATMUL_HIGHEST}});
}

/* Every shape is a program. The last one runs on all drivers, and each family has it with all transpositions. Each
 * family has the other shapes with two of the transpositions. */
static void check_all(rig *r) {
    size_t first = clq_device_runs_in_caller(r->device) ? 0 : CLQ_COUNT_OF(shapes) - 1;
    for (size_t i = first; i < CLQ_COUNT_OF(shapes); i++)
        for (int t = 0; t < 4; t++)
            if (i + 1 == CLQ_COUNT_OF(shapes) || rig_takes(r, i + (size_t)t)) check(r, &shapes[i], t & 1, t >> 1, NULL);
}

/* Packed blocks: edges of tiles and vectors; sums and rows of two blocks, over several blocks of columns. The last case
 * has a block between the first and the last of its sums, and is so large that the list packs it unasked. Every case is
 * a program. */
static void check_blocks(rig *r) {
    static const shape edges = {13, 37, 19}, several = {263, 1031, 263}, large = {515, 1031, 769};
    if (r->family != CLQ_FAMILY_TILE) return;
    for (int t = 0; t < 4; t++) check(r, &edges, t & 1, t >> 1, "packed blocks");
    if (!clq_device_runs_in_caller(r->device)) return;
    for (int t = 0; t < 3; t++) check(r, &several, t & 1, t >> 1, "packed blocks");
    check(r, &large, false, false, NULL);
}

/* Whether the device runs a block. Every block runs on at least one device. Blocks through local memory run on all
 * devices that run in their callers. */
static bool wants_block(const rig *r, size_t index) {
    const clq_local_block *b = clq_local_block_get(index);
    bool sub_groups = b->way != CLQ_LOCAL_ITEMS && b->way != CLQ_LOCAL_DOTS;
    if (!clq_local_block_fits(r->device, b)) return false;
    return sub_groups || clq_device_runs_in_caller(r->device) || rig_is_simulated(r);
}

/* The way that takes this block, with terms that the block is made for. */
static way use_of(size_t index) {
    way how = {"local", index, {.precision = CLQ_MATMUL_HIGHEST}};
    clq_local_way by = clq_local_block_get(index)->way;
    if (by == CLQ_LOCAL_DOTS) how.terms.storage[0] = how.terms.storage[1] = CLQ_F16;
    if (by == CLQ_LOCAL_DPAS) how.terms.precision = CLQ_MATMUL_MEDIUM;
    return how;
}

/* Whether the block gets a trial: one block of each way and of each size of sub-groups does. */
static bool wants_trial(const rig *r, size_t index) {
    static const size_t blocks[] = {7, 10, 13, 15, 17, 19, 23, 24, 25};
    for (size_t i = 0; i < CLQ_COUNT_OF(blocks); i++)
        if (blocks[i] == index) return !rig_is_simulated(r);
    return false;
}

static unsigned blocks_seen; /* a bit for each block */

/* Rows of odd length and rows of whole vectors. A block that has trials is checked with a program of the trials, unless
 * A is transposed. */
static const shape *shape_for(const rig *r, size_t index) {
    static const shape odd = {133, 67, 43}, pairs = {18, 134, 26}, simulated = {5, 18, 19};
    static const shape tried = {133, 68, 44}, tried_with_b_transposed = {20, 67, 64};
    if (rig_is_simulated(r)) return &simulated;
    if (wants_trial(r, index) && index % 3 > 0) return index % 3 == 1 ? &tried_with_b_transposed : &tried;
    return index % 2 ? &odd : &pairs;
}

/* Checks each block of the local family with sides and sums that do not fill blocks. */
static void check_local_blocks(rig *r) {
    if (r->family != CLQ_FAMILY_LOCAL) return;
    for (size_t i = 0; i < CLQ_LOCAL_BLOCKS; i++) {
        if (!wants_block(r, i)) continue;
        way how = use_of(i);
        check_way(r, shape_for(r, i), i % 3 == 0, i % 3 == 1, &how);
        if (wants_trial(r, i)) assert_true(clq_local_block_works(r->device, i, &how.terms));
        blocks_seen |= 1u << i;
    }
}

/* Calls body for small blocks: one of each way, and DPAS with both sizes of sub-groups. If there is a driver with
 * sub-groups, only this driver runs them, because other compilers take ten times as long. */
static void on_each_way(rig *r, void (*body)(rig *r, const way *how)) {
    static const size_t blocks[] = {6, 10, 19, 23, 24, 25};
    bool required, here = clq_device_has_sub_groups(r->device, 8, &required);
#if !defined(__x86_64__)
    here = here || clq_device_runs_in_caller(r->device);
#endif
    if (r->family != CLQ_FAMILY_LOCAL || (!here && !rig_is_simulated(r))) return;
    for (size_t i = 0; i < CLQ_COUNT_OF(blocks); i++) {
        way how = use_of(blocks[i]);
        if (clq_local_block_fits(r->device, clq_local_block_get(blocks[i]))) body(r, &how);
    }
}

/* Every transposition, with sums that are put aside and sums that are cut into slices. */
static void check_transpositions(rig *r, const way *how) {
    static const shape several = {20, 36, 1100}, odd = {9, 7, 2081};
    for (unsigned t = 0; t < 4 && !rig_is_simulated(r); t++)
        check_way(r, (t + how->local_block) % 2 ? &several : &odd, t & 1, t >> 1, how);
}
static void check_ways(rig *r) { on_each_way(r, check_transpositions); }

/* C (M, N) = A (M, K) B, of a shape that check_transpositions has. Nearly infinite numbers give what floats give, and
 * so do infinite numbers. With split numbers, an infinite number need only not become finite. */
static void check_extremes(rig *r, const way *how) {
    enum { M = 20, N = 36, K = 1100 };
    static float a[M][K], b[K * N], got[M][N];
    const bool split = clq_local_block_get(how->local_block)->way == CLQ_LOCAL_MMA;
    if (significant_bits(&how->terms) < 24 || rig_is_simulated(r)) return;
    for (size_t i = 0; i < K; i++) a[0][i] = 1;
    a[0][0] = INFINITY;
    a[1][0] = 3.4028234e38f;
    for (size_t i = 0; i < CLQ_COUNT_OF(b); i++) b[i] = 0.5f;
    rig_begin(r, 1);
    force(r, how);
    clq_value va = rig_value(r, "a", sizeof a, 0), vb = rig_value(r, "b", sizeof b, 0);
    clq_value vc = rig_value(r, "c", sizeof got, 0);
    clq_gemm(r->list, &(clq_gemm_problem){.m = M, .n = N, .k = K}, va, vb, vc);
    rig_bind(r);
    rig_fill(r, va, a, sizeof a);
    rig_fill(r, vb, b, sizeof b);
    rig_run(r, 1);
    rig_read(r, vc, got, sizeof got);
    for (size_t i = 0; i < N; i++) {
        if (split ? isfinite(got[0][i]) : got[0][i] != INFINITY)
            fail_msg("%s: block %zu: an infinite c[%zu] is %g", r->name, how->local_block, i, (double)got[0][i]);
        if (!(fabs((double)got[1][i] / 1.7014117e38 - 1) < 1e-6))
            fail_msg("%s: block %zu: a large c[%zu] is %g", r->name, how->local_block, i, (double)got[1][i]);
    }
    rig_end(r);
}
static void check_all_extremes(rig *r) { on_each_way(r, check_extremes); }

/* Matrix units with factors that are rounded to fewer bits. */
static void check_precision(rig *r, const way *how) {
    static const shape s = {20, 36, 70};
    if (clq_local_block_get(how->local_block)->way != CLQ_LOCAL_MMA) return;
    for (unsigned t = 0; t < 4; t++) {
        way other = *how;
        other.terms.precision = t < 2 ? CLQ_MATMUL_HIGH : CLQ_MATMUL_MEDIUM;
        check_way(r, &s, t & 1, t >> 1, &other);
    }
}
static void check_precisions(rig *r) { on_each_way(r, check_precision); }

static void check_stored(rig *r, const way *how, const shape *s, unsigned transposed, const clq_dtype storage[3]) {
    way stored = *how;
    memcpy(stored.terms.storage, storage, sizeof stored.terms.storage);
    check_way(r, s, transposed & 1, transposed >> 1, &stored);
}

/* 16 bits in memory: one operand alone, two, and all; widths of four, two and one. Each block runs with each operand
 * alone. It runs with all operands, and with bfloat16, in one of the widths, and the next block in another width. */
static void check_some_short(rig *r, const way *how) {
    static const shape fours = {20, 36, 300}, twos = {10, 18, 34}, odd = {13, 7, 19};
    static const shape *const of[] = {&fours, &twos, &odd};
    static const clq_dtype brains[][3] = {
        {CLQ_BF16, CLQ_F32, CLQ_BF16}, {CLQ_BF16, CLQ_BF16, CLQ_BF16}, {CLQ_BF16, CLQ_BF16, CLQ_F32}};
    for (unsigned i = 0; i < CLQ_COUNT_OF(of); i++) {
        clq_dtype one[3], all[] = {CLQ_F16, CLQ_F16, CLQ_F16};
        memcpy(one, how->terms.storage, sizeof one);
        one[i] = CLQ_F16;
        check_stored(r, how, of[i], i, one);
        if (rig_is_simulated(r) || (i != (how->local_block + 1) % 3 && !getenv("CLQ_TEST_DEVICES"))) continue;
        check_stored(r, how, of[i], i == 1 ? 0 : ~i & 3, all);
        if (clq_local_block_get(how->local_block)->way != CLQ_LOCAL_DOTS) check_stored(r, how, of[i], i, brains[i]);
    }
}
static void check_all_short(rig *r) { on_each_way(r, check_some_short); }

static void local_blocks_match_reference(void **state) {
    (void)state;
    blocks_seen = 0;
    rig_each(check_local_blocks);
    if (getenv("OCLGRIND_DATA_RACES") || getenv("CLQ_TEST_DEVICES")) return;
#if defined(__x86_64__) /* here Intel's driver runs blocks, too */
    assert_int_equal(blocks_seen, (1u << CLQ_LOCAL_BLOCKS) - 1);
#endif
}

static void local_ways_match_reference(void **state) {
    (void)state;
    rig_each(check_ways);
}

static void extreme_factors_stay_extreme(void **state) {
    (void)state;
    rig_each(check_all_extremes);
}

static void rounded_factors_match_reference(void **state) {
    (void)state;
    rig_each(check_precisions);
}

static void numbers_of_16_bits_match_reference(void **state) {
    (void)state;
    rig_each(check_all_short);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_transposition),
                                       cmocka_unit_test(blocks_match_reference),
                                       cmocka_unit_test(local_blocks_match_reference),
                                       cmocka_unit_test(local_ways_match_reference),
                                       cmocka_unit_test(extreme_factors_stay_extreme),
                                       cmocka_unit_test(rounded_factors_match_reference),
                                       cmocka_unit_test(numbers_of_16_bits_match_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
